/* cell_replay.c - the replay of mutate.h: the arena as cells, contents as hashes, the worst kernel that is allowed. */
#include "support/mutate.h"

#include <string.h>

#define CELL TARN_ALIGNMENT

struct cell {
	uint64_t content;
	uint32_t written, read; /* steps; read: the last one of this content */
	bool live;              /* written by an instruction and counted */
};

/* A copy that was started. The worst device: the target of a fetch is garbage until the wait. */
struct cell_copy {
	const struct instruction *start; /* NULL: the slot is free */
	uint64_t *content;               /* that is copied, as it was at the start */
	uint32_t step;
};

struct cells {
	const struct plan *plan;
	const struct program *program;
	struct cell *cell;
	uint64_t cells;
	uint64_t *host, host_cells; /* contents of the host region */
	struct cell_copy copy[PLAN_COPY_SLOTS];
	struct host_arena *scratch;
	uint64_t *change; /* [steps + 1]: live cells that begin and end */
	struct replay_result *result;
	uint32_t step;
};

static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t z = (a ^ (b + 0x9E3779B97F4A7C15u + (a << 6) + (a >> 2))) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return z ^ (z >> 31);
}

struct span {
	uint64_t first, count; /* cells */
};

static struct span operand_span(const struct cells *c, const struct op *op, const uint64_t *offset, uint32_t k)
{
	uint64_t bytes = c->program->graph.tensor[c->program->graph.operand[op->first_operand + k]].bytes;
	return (struct span){ offset[k] / CELL, (bytes + CELL - 1) / CELL };
}

static bool meets(struct span a, struct span b)
{
	return a.first < b.first + b.count && b.first < a.first + a.count;
}

static bool in_bounds(const struct cells *c, uint64_t offset, uint64_t bytes)
{
	uint64_t arena = c->plan->arena_bytes / CELL * CELL;
	return offset % CELL == 0 && offset <= arena && bytes <= arena - offset;
}

/* The content of a cell ends: it counts from its write to its last read, but no longer than up to `stop` (exclusive).
 */
static void end_cell(struct cells *c, struct cell *cell, uint32_t stop)
{
	if (!cell->live)
		return;
	cell->live = false;
	uint32_t end = cell->read + 1 < stop ? cell->read + 1 : stop;
	if (end <= cell->written)
		return;
	c->change[cell->written]++;
	c->change[end]--;
}

static void write_cells(struct cells *c, struct span span, uint64_t seed)
{
	for (uint64_t i = 0; i < span.count; i++) {
		struct cell *cell = &c->cell[span.first + i];
		/* What is read in this step and overwritten in this step is one place: count it once. */
		end_cell(c, cell, c->step);
		*cell = (struct cell){ mix(seed, i), c->step, c->step,
				       (span.first + i) * CELL >= c->plan->persistent_bytes };
	}
	if ((span.first + span.count) * CELL > c->result->height_bytes)
		c->result->height_bytes = (span.first + span.count) * CELL;
}

static void scribble(struct cells *c, struct span span)
{
	for (uint64_t i = 0; i < span.count; i++)
		c->cell[span.first + i].content = mix(mix(0x5C41BB1E, c->step), span.first + i);
}

/* May output number `output` lie exactly on input j? */
static bool allowed(const struct op *op, const uint64_t *offset, uint32_t output, uint32_t j, struct span out,
		    struct span in)
{
	const struct op_row *row = op_row(op->kind);
	if (offset[op->inputs + output] != offset[j] || out.count != in.count)
		return false;
	return row->version_of[output] == (int)j || (output == 0 && j < 8 && (row->in_place >> j & 1));
}

static void spoil_overlaps(struct cells *c, const struct op *op, const uint64_t *offset)
{
	for (uint32_t k = 0; k < op->outputs; k++) {
		struct span out = operand_span(c, op, offset, op->inputs + k);
		for (uint32_t j = 0; j < op->inputs; j++) {
			struct span in = operand_span(c, op, offset, j);
			if (meets(out, in) && !allowed(op, offset, k, j, out, in))
				scribble(c, out);
		}
	}
}

static uint64_t read_inputs(struct cells *c, const struct op *op, const uint64_t *offset, uint64_t seed)
{
	for (uint32_t j = 0; j < op->inputs; j++) {
		struct span in = operand_span(c, op, offset, j);
		for (uint64_t i = 0; i < in.count; i++) {
			seed = mix(seed, c->cell[in.first + i].content);
			c->cell[in.first + i].read = c->step;
		}
	}
	return seed;
}

static bool step_in_bounds(const struct cells *c, const struct instruction *instruction, const struct op *op,
			   const uint64_t *offset)
{
	for (uint32_t k = 0; k < op->inputs + op->outputs; k++)
		if (!in_bounds(c, offset[k], operand_span(c, op, offset, k).count * CELL))
			return false;
	uint64_t bytes = instruction->workspace_bytes;
	return bytes <= c->plan->arena_bytes && in_bounds(c, instruction->workspace_offset, bytes_align(bytes));
}

static uint64_t *host_of(const struct cells *c, const struct instruction *copy)
{
	return c->host + copy->host_offset / CELL;
}

static bool start_copy(struct cells *c, const struct instruction *copy, struct span span)
{
	struct cell_copy *slot = &c->copy[copy->slot];
	bool store = copy->kind == INSTRUCTION_STORE;
	if (slot->start)
		return false;
	*slot = (struct cell_copy){ copy, HOST_ARRAY(c->scratch, span.count, uint64_t), c->step };
	for (uint64_t i = 0; i < span.count; i++) {
		struct cell *cell = &c->cell[span.first + i];
		slot->content[i] = store ? cell->content : host_of(c, copy)[i];
		if (!store)
			continue;
		host_of(c, copy)[i] = cell->content;
		cell->read = c->step;
	}
	if (!store)
		write_cells(c, span, mix(0xFE7C4, c->step));
	return true;
}

/* What was copied is what was there all the time; a place that somebody used meanwhile holds garbage. */
static bool end_copy(struct cells *c, const struct instruction *wait, struct span span)
{
	struct cell_copy *slot = &c->copy[wait->slot];
	const struct instruction *start = slot->start;
	if (!start || start->kind + 1 != wait->kind || start->offset != wait->offset ||
	    start->host_offset != wait->host_offset || start->bytes != wait->bytes || start->tensor != wait->tensor)
		return false;
	for (uint64_t i = 0; i < span.count; i++) {
		struct cell *cell = &c->cell[span.first + i];
		bool store = wait->kind == INSTRUCTION_STORE_WAIT;
		uint64_t now = store ? cell->content : host_of(c, wait)[i];
		uint64_t content = now == slot->content[i] ? now : mix(0x6A4BA6E, c->step);
		if (store)
			host_of(c, wait)[i] = content;
		else if (cell->content == mix(mix(0xFE7C4, slot->step), i))
			cell->content = content;
		cell->read = c->step;
	}
	slot->start = NULL;
	return true;
}

static bool copy_step(struct cells *c, const struct instruction *copy)
{
	if (copy->kind >= INSTRUCTION_KINDS || copy->tensor >= c->program->graph.tensors ||
	    copy->bytes != c->program->graph.tensor[copy->tensor].bytes || copy->slot >= PLAN_COPY_SLOTS ||
	    copy->bytes > c->plan->arena_bytes || !in_bounds(c, copy->offset, bytes_align(copy->bytes)) ||
	    copy->offset < c->plan->persistent_bytes)
		return false;
	struct span span = { copy->offset / CELL, (copy->bytes + CELL - 1) / CELL };
	if (copy->host_offset % CELL || copy->host_offset / CELL > c->host_cells ||
	    span.count > c->host_cells - copy->host_offset / CELL)
		return false;
	if (copy->kind == INSTRUCTION_STORE || copy->kind == INSTRUCTION_FETCH)
		return start_copy(c, copy, span);
	return end_copy(c, copy, span);
}

static bool run_step(struct cells *c, uint32_t step)
{
	const struct instruction *instruction = &c->program->instruction[step];
	const struct graph *graph = &c->program->graph;
	c->step = step;
	if (instruction->kind != INSTRUCTION_RUN)
		return copy_step(c, instruction);
	if (instruction->op >= graph->ops)
		return false;
	const struct op *op = &graph->op[instruction->op];
	if ((uint64_t)instruction->first_operand + op->inputs + op->outputs > c->program->operand_offsets ||
	    op_row(op->kind)->view)
		return false;
	const uint64_t *offset = c->program->operand_offset + instruction->first_operand;
	if (!step_in_bounds(c, instruction, op, offset))
		return false;
	struct span workspace = { instruction->workspace_offset / CELL,
				  (instruction->workspace_bytes + CELL - 1) / CELL };
	if (workspace.count && instruction->workspace_offset < c->plan->persistent_bytes)
		return false;
	scribble(c, workspace);
	spoil_overlaps(c, op, offset);
	uint64_t seen = read_inputs(c, op, offset, mix(0x0B, instruction->op));
	for (uint32_t k = 0; k < op->outputs; k++)
		write_cells(c, operand_span(c, op, offset, op->inputs + k), mix(seen, k));
	if (workspace.count) {
		write_cells(c, workspace, mix(0x3035, step));
		for (uint64_t i = 0; i < workspace.count; i++)
			end_cell(c, &c->cell[workspace.first + i], step + 1);
	}
	if (op_row(op->kind)->effect)
		c->result->effects += mix(seen, 0xEFFEC7);
	return true;
}

static uint32_t program_tensor(const struct plan *plan, const struct program *program, uint32_t entry)
{
	return graph_find(&program->graph, plan->program[0].graph.text + plan->persistent[entry].name);
}

/* Contents before the step: those of entry i are named by i, whatever its place. */
static bool fill_persistents(struct cells *c)
{
	for (uint64_t i = 0; i < c->cells; i++)
		c->cell[i].content = mix(0xE3971, i);
	for (uint32_t i = 0; i < c->plan->persistents; i++) {
		const struct persistent *p = &c->plan->persistent[i];
		if (p->bytes > c->plan->persistent_bytes || !in_bounds(c, p->offset, bytes_align(p->bytes)) ||
		    p->offset + bytes_align(p->bytes) > c->plan->persistent_bytes)
			return false;
		for (uint64_t k = 0; k < (p->bytes + CELL - 1) / CELL; k++)
			c->cell[p->offset / CELL + k].content = mix(i, k);
	}
	return true;
}

static uint64_t hash_persistents(const struct cells *c)
{
	uint64_t hash = 0;
	for (uint32_t i = 0; i < c->plan->persistents; i++) {
		uint32_t t = program_tensor(c->plan, c->program, i);
		if (t == TENSOR_NONE)
			continue;
		uint64_t count = (c->program->graph.tensor[t].bytes + CELL - 1) / CELL;
		for (uint64_t k = 0; k < count; k++)
			hash = mix(hash, c->cell[c->plan->persistent[i].offset / CELL + k].content);
	}
	return hash;
}

enum tarn_status mutate_replay(const struct plan *plan, const struct program *program, struct host_arena *scratch,
			       struct replay_result *result)
{
	struct host_mark mark = host_arena_mark(scratch);
	struct cells c = { .plan = plan, .program = program, .result = result, .cells = plan->arena_bytes / CELL };
	*result = (struct replay_result){ .height_bytes = plan->persistent_bytes };
	c.cell = HOST_ARRAY(scratch, c.cells + 1, struct cell);
	c.change = HOST_ARRAY(scratch, (size_t)program->instructions + 2, uint64_t);
	c.scratch = scratch;
	c.host_cells = plan->host_bytes / CELL;
	c.host = HOST_ARRAY(scratch, c.host_cells, uint64_t);
	if (!c.cell || !c.change || !c.host)
		return TARN_ENOMEM;
	for (uint64_t i = 0; i < c.host_cells; i++)
		c.host[i] = mix(0x4057, i);
	result->in_bounds = plan->persistent_bytes <= plan->arena_bytes && fill_persistents(&c);
	for (uint32_t s = 0; result->in_bounds && s < program->instructions; s++)
		result->in_bounds = run_step(&c, s);
	for (uint32_t s = 0; s < PLAN_COPY_SLOTS; s++)
		result->in_bounds &= !c.copy[s].start;
	if (result->in_bounds) {
		for (uint64_t i = 0; i < c.cells; i++)
			end_cell(&c, &c.cell[i], program->instructions);
		uint64_t live = 0, most = 0;
		for (uint32_t s = 0; s < program->instructions; s++) {
			live += c.change[s];
			most = live > most ? live : most;
		}
		result->peak_bytes = plan->persistent_bytes + most * CELL;
		result->persistent = hash_persistents(&c);
	}
	host_arena_release(scratch, mark);
	return TARN_OK;
}
