/*
 * replay.c - one program, instruction by instruction, on a map of the arena.
 *
 * The values of a step are fixed by the graph: pure ops are functions of their inputs, and every read of persistent
 * memory finds the version from before the step, or the one that the step makes where the graph says that one. So a
 * value is named by its tensor alone, however often it is made, and it is enough to know which tensor lies where.
 */
#include "verify/arena_map.h"
#include "verify/replay.h"

#include <inttypes.h>

/* Bytes that are live over [first, last], in instructions: one instance, or a chain of instances in one place. */
struct live_buffer {
	uint64_t bytes;
	uint32_t first, last;
};

struct range {
	uint64_t first, end;
};

/* A copy that was started and not yet waited for. */
struct flight {
	const struct instruction *start; /* NULL: the slot is free */
	uint32_t buffer;                 /* in the arena, of what is copied */
};

struct replay {
	const struct subject *subject;
	const struct graph *graph;
	struct arena_map map, host; /* what lies in the arena; in the host region */
	struct flight flight[PLAN_COPY_SLOTS];
	uint32_t flights;
	struct live_buffer *buffer;
	uint32_t buffers;
	uint32_t *runs;    /* [ops]: so far */
	uint32_t *updated; /* [persistent table]: 1 + instruction that wrote the new version; 0: still the old one */
	uint64_t height;   /* one past the highest byte that an instruction uses */
	/* The instruction at hand. */
	uint32_t step;
	const struct instruction *instruction;
	const struct op *op;
	const struct op_row *row;
	const uint32_t *tensor; /* inputs, then outputs */
	const uint64_t *offset;
	struct range workspace;
};

static enum tarn_status refuse_step(const struct replay *r, const char *what, uint32_t k, const char *why)
{
	const char *side = k < r->op->inputs ? "input" : "output";
	return verify_refuse(r->subject, "instruction %u (%s, %s): %s %u, %s, at %" PRIu64 ": %s%s", r->step,
			     r->graph->text + r->op->name, r->row->name, side,
			     k < r->op->inputs ? k : k - r->op->inputs, tensor_name(r->graph, r->tensor[k]),
			     r->offset[k], what, why);
}

static enum tarn_status refuse_workspace(const struct replay *r, const char *why)
{
	return verify_refuse(r->subject, "instruction %u (%s, %s): workspace of %" PRIu64 " bytes at %" PRIu64 ": %s",
			     r->step, r->graph->text + r->op->name, r->row->name, r->instruction->workspace_bytes,
			     r->instruction->workspace_offset, why);
}

static bool overlap(struct range a, struct range b)
{
	return a.first < b.end && b.first < a.end;
}

static uint32_t root_of(const struct replay *r, uint32_t k)
{
	return r->subject->root[r->tensor[k]];
}

/* The bytes of operand k, padded. Its offset was checked against the arena. */
static struct range operand_range(const struct replay *r, uint32_t k)
{
	return (struct range){ r->offset[k], r->offset[k] + bytes_align(r->graph->tensor[r->tensor[k]].bytes) };
}

static bool inside_arena(const struct replay *r, uint64_t offset, uint64_t bytes)
{
	uint64_t arena = r->subject->plan->arena_bytes;
	return offset % TARN_ALIGNMENT == 0 && bytes <= arena && bytes_align(bytes) <= arena &&
	       offset <= arena - bytes_align(bytes);
}

static struct range copy_range(const struct instruction *copy)
{
	return (struct range){ copy->offset, copy->offset + bytes_align(copy->bytes) };
}

static struct range host_range(const struct instruction *copy)
{
	return (struct range){ copy->host_offset, copy->host_offset + bytes_align(copy->bytes) };
}

/* The copy in flight whose bytes in the arena are touched; NULL when there is none. */
static const struct instruction *flight_over(const struct replay *r, struct range range)
{
	for (uint32_t s = 0; r->flights && s < PLAN_COPY_SLOTS; s++)
		if (r->flight[s].start && overlap(copy_range(r->flight[s].start), range))
			return r->flight[s].start;
	return NULL;
}

static uint64_t home_offset(const struct replay *r, uint32_t k)
{
	uint32_t t = r->tensor[k];
	return r->subject->plan->persistent[r->subject->home[t]].offset + r->subject->shift[t];
}

/* The value that begins where the root of operand k must; NULL when none does. */
static const struct arena_value *value_under(const struct replay *r, uint32_t k)
{
	uint64_t shift = r->subject->shift[r->tensor[k]];
	return r->offset[k] < shift ? NULL : arena_map_at(&r->map, r->offset[k] - shift);
}

/* ---- the checks of one instruction ------------------------------------------------------------------------- */

static enum tarn_status check_read(struct replay *r, uint32_t k)
{
	uint32_t home = r->subject->home[r->tensor[k]];
	if (home != HOME_NONE) {
		if (r->offset[k] != home_offset(r, k))
			return refuse_step(r, "it lives elsewhere, ", k, "where the persistent table says");
		bool new = r->subject->version[r->tensor[k]];
		if (new && !r->updated[home])
			return refuse_step(r, "its new version is not there, ", k, "no instruction before wrote it");
		if (!new && r->updated[home])
			return refuse_step(r, "its old version is gone, ", k,
					   "an earlier instruction wrote the new one");
		return TARN_OK;
	}
	const struct arena_value *value = value_under(r, k);
	if (!value)
		return refuse_step(r, "no whole value lies there", k, "");
	if (value->tensor != root_of(r, k))
		return refuse_step(r, "there lies ", k, tensor_name(r->graph, value->tensor));
	r->buffer[value->buffer].last = r->step;
	return TARN_OK;
}

/* May output k (an operand number) lie on input j, whose bytes it overlaps? */
static bool may_share(const struct replay *r, uint32_t k, uint32_t j)
{
	uint32_t output = k - r->op->inputs;
	if (r->offset[k] != r->offset[j] || !shows_all(r->subject, r->tensor[j]) ||
	    r->graph->tensor[r->tensor[k]].bytes != r->graph->tensor[r->tensor[j]].bytes)
		return false;
	if (r->subject->version[r->tensor[k]])
		return r->row->version_of[output] == (int)j;
	return output == 0 && j < 8 && (r->row->in_place >> j & 1);
}

static enum tarn_status check_write(const struct replay *r, uint32_t k)
{
	if (!inside_arena(r, r->offset[k], r->graph->tensor[r->tensor[k]].bytes))
		return refuse_step(r, "not aligned or not inside the arena", k, "");
	if (r->subject->version[r->tensor[k]]) {
		if (r->offset[k] != home_offset(r, k))
			return refuse_step(r, "a new version must be written where the old one lives", k, "");
	} else if (r->offset[k] < r->subject->plan->persistent_bytes) {
		return refuse_step(r, "it would overwrite persistent memory", k, "");
	}
	struct range here = operand_range(r, k);
	for (uint32_t j = 0; j < r->op->inputs; j++)
		if (overlap(here, operand_range(r, j)) && !may_share(r, k, j))
			return refuse_step(r, "it overlaps the input ", k, tensor_name(r->graph, r->tensor[j]));
	for (uint32_t j = r->op->inputs; j < k; j++)
		if (overlap(here, operand_range(r, j)))
			return refuse_step(r, "it overlaps the output ", k, tensor_name(r->graph, r->tensor[j]));
	const struct instruction *copy = flight_over(r, here);
	if (copy)
		return refuse_step(r, "a copy in flight is not waited for, of ", k,
				   tensor_name(r->graph, copy->tensor));
	return TARN_OK;
}

static enum tarn_status check_workspace(const struct replay *r)
{
	if (!r->instruction->workspace_bytes) {
		if (r->instruction->workspace_offset)
			return refuse_workspace(r, "without bytes its offset must be 0");
		return TARN_OK;
	}
	if (!inside_arena(r, r->instruction->workspace_offset, r->instruction->workspace_bytes))
		return refuse_workspace(r, "not aligned or not inside the arena");
	if (r->instruction->workspace_offset < r->subject->plan->persistent_bytes)
		return refuse_workspace(r, "it would overwrite persistent memory");
	for (uint32_t k = 0; k < r->op->inputs + r->op->outputs; k++)
		if (overlap(r->workspace, operand_range(r, k)))
			return refuse_workspace(r, "it overlaps an operand");
	if (flight_over(r, r->workspace))
		return refuse_workspace(r, "a copy in flight there is not waited for");
	return TARN_OK;
}

/* ---- the effect of one instruction --------------------------------------------------------------------------- */

static void note_height(struct replay *r, uint64_t end)
{
	if (end > r->height)
		r->height = end;
}

/* The buffer that output k goes on using: that of the input it takes over, or a new one. */
static uint32_t buffer_for(struct replay *r, uint32_t k)
{
	for (uint32_t j = 0; j < r->op->inputs; j++)
		if (r->offset[j] == r->offset[k] && r->subject->home[r->tensor[j]] == HOME_NONE)
			return arena_map_at(&r->map, r->offset[j])->buffer;
	struct range range = operand_range(r, k);
	r->buffer[r->buffers] = (struct live_buffer){ range.end - range.first, r->step, r->step };
	return r->buffers++;
}

static void write_outputs(struct replay *r)
{
	for (uint32_t k = r->op->inputs; k < r->op->inputs + r->op->outputs; k++) {
		struct range range = operand_range(r, k);
		note_height(r, range.end);
		if (r->subject->version[r->tensor[k]]) {
			r->updated[r->subject->home[r->tensor[k]]] = r->step + 1;
			continue;
		}
		uint32_t buffer = buffer_for(r, k);
		arena_map_put(&r->map, (struct arena_value){ range.first, range.end, r->tensor[k], buffer });
	}
}

static enum tarn_status take_instruction(struct replay *r, uint32_t step)
{
	const struct program *program = r->subject->program;
	const struct instruction *instruction = &program->instruction[step];
	if (instruction->op >= r->graph->ops)
		return verify_refuse(r->subject, "instruction %u: op %u of %u", step, instruction->op, r->graph->ops);
	r->step = step;
	r->instruction = instruction;
	r->op = &r->graph->op[instruction->op];
	r->row = op_row(r->op->kind);
	if ((uint64_t)instruction->first_operand + r->op->inputs + r->op->outputs > program->operand_offsets)
		return verify_refuse(r->subject, "instruction %u (%s): its offsets begin at %u of %u", step,
				     r->graph->text + r->op->name, instruction->first_operand,
				     program->operand_offsets);
	if (r->row->view)
		return verify_refuse(r->subject, "instruction %u (%s): a %s is a view and never runs", step,
				     r->graph->text + r->op->name, r->row->name);
	r->tensor = r->graph->operand + r->op->first_operand;
	r->offset = program->operand_offset + instruction->first_operand;
	return TARN_OK;
}

static enum tarn_status replay_run(struct replay *r, uint32_t step)
{
	enum tarn_status st = take_instruction(r, step);
	if (st)
		return st;
	if (r->row->effect && r->runs[r->instruction->op])
		return verify_refuse(r->subject, "instruction %u (%s): the effect %s runs a second time", step,
				     r->graph->text + r->op->name, r->row->name);
	r->runs[r->instruction->op]++;
	for (uint32_t k = 0; !st && k < r->op->inputs; k++)
		st = check_read(r, k);
	for (uint32_t k = r->op->inputs; !st && k < r->op->inputs + r->op->outputs; k++)
		st = check_write(r, k);
	r->workspace.first = r->instruction->workspace_offset;
	r->workspace.end = r->workspace.first;
	if (r->instruction->workspace_bytes <= r->subject->plan->arena_bytes)
		r->workspace.end += bytes_align(r->instruction->workspace_bytes);
	if (!st)
		st = check_workspace(r);
	if (st)
		return st;
	note_height(r, r->workspace.end);
	/* Outputs first: the takeover of an input looks that input up. The workspace overlaps none of them. */
	write_outputs(r);
	if (r->workspace.end > r->workspace.first)
		arena_map_damage(&r->map, r->workspace.first, r->workspace.end);
	return TARN_OK;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

static enum tarn_status refuse_copy(const struct replay *r, const char *why)
{
	const struct instruction *copy = r->instruction;
	const char *name = copy->tensor < r->graph->tensors ? tensor_name(r->graph, copy->tensor) : "no tensor";
	return verify_refuse(
		r->subject,
		"instruction %u (%s of %s, %" PRIu64 " bytes at %" PRIu64 ", host %" PRIu64 ", slot %u): %s", r->step,
		instruction_name(copy->kind), name, copy->bytes, copy->offset, copy->host_offset, copy->slot, why);
}

/* What a store and a fetch have in common. */
static enum tarn_status check_copy(const struct replay *r)
{
	const struct instruction *copy = r->instruction;
	const struct plan *plan = r->subject->plan;
	if (copy->tensor >= r->graph->tensors || r->subject->root[copy->tensor] != copy->tensor ||
	    r->subject->home[copy->tensor] != HOME_NONE || copy->bytes != r->graph->tensor[copy->tensor].bytes)
		return refuse_copy(r, "a copy moves a whole transient tensor with memory of its own");
	if (!inside_arena(r, copy->offset, copy->bytes) || copy->offset < plan->persistent_bytes)
		return refuse_copy(r, "not aligned or not inside the transient part of the arena");
	uint64_t padded = bytes_align(copy->bytes);
	if (copy->host_offset % TARN_ALIGNMENT || padded > plan->host_bytes ||
	    copy->host_offset > plan->host_bytes - padded)
		return refuse_copy(r, "not aligned or not inside the host region");
	if (copy->slot >= PLAN_COPY_SLOTS || r->flight[copy->slot].start)
		return refuse_copy(r, "the slot does not exist or its copy is not waited for");
	return TARN_OK;
}

static void start_flight(struct replay *r, uint32_t buffer)
{
	r->flight[r->instruction->slot] = (struct flight){ r->instruction, buffer };
	r->flights++;
}

static enum tarn_status replay_store(struct replay *r)
{
	const struct instruction *copy = r->instruction;
	const struct arena_value *value = arena_map_at(&r->map, copy->offset);
	if (!value || value->tensor != copy->tensor)
		return refuse_copy(r, "the tensor does not lie there");
	for (uint32_t s = 0; s < PLAN_COPY_SLOTS; s++)
		if (r->flight[s].start && overlap(host_range(r->flight[s].start), host_range(copy)))
			return refuse_copy(r, "a copy in flight uses these host bytes");
	struct range host = host_range(copy);
	arena_map_put(&r->host, (struct arena_value){ host.first, host.end, copy->tensor, 0 });
	start_flight(r, value->buffer);
	return TARN_OK;
}

static enum tarn_status replay_fetch(struct replay *r)
{
	const struct instruction *copy = r->instruction;
	const struct arena_value *value = arena_map_at(&r->host, copy->host_offset);
	struct range range = copy_range(copy);
	if (!value || value->tensor != copy->tensor)
		return refuse_copy(r, "the tensor does not lie there in the host region");
	if (flight_over(r, range))
		return refuse_copy(r, "a copy in flight uses these bytes of the arena");
	/* Whatever lay there is gone now; the tensor is there after the wait. */
	arena_map_damage(&r->map, range.first, range.end);
	note_height(r, range.end);
	r->buffer[r->buffers] = (struct live_buffer){ range.end - range.first, r->step, r->step };
	start_flight(r, r->buffers++);
	return TARN_OK;
}

static bool is_wait_for(const struct instruction *wait, const struct instruction *start)
{
	return start && wait->kind == start->kind + 1 && wait->tensor == start->tensor &&
	       wait->offset == start->offset && wait->host_offset == start->host_offset && wait->bytes == start->bytes;
}

static enum tarn_status replay_wait(struct replay *r)
{
	const struct instruction *wait = r->instruction;
	struct flight *flight = wait->slot < PLAN_COPY_SLOTS ? &r->flight[wait->slot] : NULL;
	if (!flight || !is_wait_for(wait, flight->start))
		return refuse_copy(r, "no such copy is in flight in this slot");
	r->buffer[flight->buffer].last = r->step;
	if (wait->kind == INSTRUCTION_FETCH_WAIT) {
		struct range range = copy_range(wait);
		arena_map_put(&r->map, (struct arena_value){ range.first, range.end, wait->tensor, flight->buffer });
	}
	flight->start = NULL;
	r->flights--;
	return TARN_OK;
}

static enum tarn_status replay_step(struct replay *r, uint32_t step)
{
	const struct instruction *instruction = &r->subject->program->instruction[step];
	if (instruction->kind == INSTRUCTION_RUN)
		return replay_run(r, step);
	r->step = step;
	r->instruction = instruction;
	if (instruction->kind == INSTRUCTION_STORE_WAIT || instruction->kind == INSTRUCTION_FETCH_WAIT)
		return replay_wait(r);
	if (instruction->kind != INSTRUCTION_STORE && instruction->kind != INSTRUCTION_FETCH)
		return verify_refuse(r->subject, "instruction %u is of kind %u, which does not exist", step,
				     instruction->kind);
	enum tarn_status st = check_copy(r);
	if (st)
		return st;
	return instruction->kind == INSTRUCTION_STORE ? replay_store(r) : replay_fetch(r);
}

/* ---- the end --------------------------------------------------------------------------------------------------- */

/* Every new version that the graph makes is made by an effect, so this also says that each place holds its newest. */
static enum tarn_status check_effects(const struct replay *r)
{
	for (uint32_t s = 0; s < PLAN_COPY_SLOTS; s++)
		if (r->flight[s].start)
			return verify_refuse(r->subject, "the %s of %s in slot %u is never waited for",
					     instruction_name(r->flight[s].start->kind),
					     tensor_name(r->graph, r->flight[s].start->tensor), s);
	for (uint32_t op = 0; op < r->graph->ops; op++)
		if (op_row(r->graph->op[op].kind)->effect && !r->runs[op])
			return verify_refuse(r->subject, "the effect %s (op %u, %s) never runs", op_name(r->graph, op),
					     op, op_row(r->graph->op[op].kind)->name);
	return TARN_OK;
}

/*
 * Largest sum of live bytes over the instructions. Buffers that are live together were proved not to overlap, so
 * the sums stay below the arena's size; intermediate differences may wrap.
 */
static enum tarn_status check_peak(const struct replay *r, struct host_arena *scratch)
{
	const struct program *program = r->subject->program;
	const struct plan *plan = r->subject->plan;
	uint64_t *change = HOST_ARRAY(scratch, (size_t)program->instructions + 1, uint64_t);
	if (!change)
		return TARN_ENOMEM;
	for (uint32_t b = 0; b < r->buffers; b++) {
		change[r->buffer[b].first] += r->buffer[b].bytes;
		change[r->buffer[b].last + 1] -= r->buffer[b].bytes;
	}
	uint64_t live = 0, most = 0;
	for (uint32_t i = 0; i < program->instructions; i++) {
		live += change[i];
		bool runs = program->instruction[i].kind == INSTRUCTION_RUN;
		uint64_t all = live + (runs ? bytes_align(program->instruction[i].workspace_bytes) : 0);
		most = all > most ? all : most;
	}
	if (program->peak_bytes != plan->persistent_bytes + most)
		return verify_refuse(r->subject, "the peak is %" PRIu64 " bytes, the plan says %" PRIu64,
				     plan->persistent_bytes + most, program->peak_bytes);
	if (program->height_bytes != r->height)
		return verify_refuse(r->subject, "the arena is used up to byte %" PRIu64 ", the plan says %" PRIu64,
				     r->height, program->height_bytes);
	return TARN_OK;
}

static enum tarn_status replay_open(struct replay *r, const struct subject *subject, struct host_arena *scratch)
{
	const struct program *program = subject->program;
	*r = (struct replay){ .subject = subject, .graph = &program->graph };
	uint64_t writes = 0, stores = 0;
	for (uint32_t i = 0; i < program->instructions; i++) {
		const struct instruction *instruction = &program->instruction[i];
		writes += instruction->kind == INSTRUCTION_FETCH;
		stores += instruction->kind == INSTRUCTION_STORE;
		if (instruction->kind == INSTRUCTION_RUN && instruction->op < r->graph->ops)
			writes += r->graph->op[instruction->op].outputs;
	}
	r->buffer = HOST_ARRAY(scratch, writes, struct live_buffer);
	r->runs = HOST_ARRAY(scratch, r->graph->ops, uint32_t);
	r->updated = HOST_ARRAY(scratch, subject->plan->persistents, uint32_t);
	if (!r->buffer || !r->runs || !r->updated)
		return TARN_ENOMEM;
	r->height = subject->plan->persistent_bytes;
	enum tarn_status st = arena_map_init(&r->host, stores, scratch);
	return st ? st : arena_map_init(&r->map, writes, scratch);
}

enum tarn_status verify_replay(const struct subject *subject, struct host_arena *scratch)
{
	struct replay r;
	enum tarn_status st = replay_open(&r, subject, scratch);
	for (uint32_t i = 0; !st && i < subject->program->instructions; i++)
		st = replay_step(&r, i);
	if (!st)
		st = check_effects(&r);
	if (!st)
		st = check_peak(&r, scratch);
	return st;
}
