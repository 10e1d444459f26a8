/* explain.c - see explain.h: what the sentences are made of. */
#include "plan/explain.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool is_transient(const struct graph *graph, uint32_t tensor)
{
	return !is_persistent(graph->tensor[graph->tensor[tensor].storage].role);
}

const char *plan_buffer_name(const struct plan_explanation *e, uint32_t b)
{
	const struct plan_buffer *buffer = &e->buffers.buffer[b];
	if (buffer->kind == BUFFER_PERSISTENT)
		return tensor_name(&e->plan->program[0].graph, buffer->tensor);
	return buffer->tensor == TENSOR_NONE ? op_name(&e->program->graph, buffer->op)
					     : tensor_name(&e->program->graph, buffer->tensor);
}

static bool is_live_at(const struct plan_buffer *buffer, uint32_t step)
{
	return buffer->first <= step && step < buffer->end;
}

static bool reads_place(const struct plan_explanation *e, uint32_t step, const struct plan_buffer *place)
{
	const struct instruction *instruction = &e->program->instruction[step];
	for (uint32_t k = 0; k < e->program->graph.op[instruction->op].inputs; k++) {
		uint64_t offset = e->program->operand_offset[instruction->first_operand + k];
		if (offset >= place->offset && offset - place->offset < place->bytes)
			return true;
	}
	return false;
}

static uint32_t use_of(const struct plan_explanation *e, const struct plan_buffer *buffer, uint32_t step)
{
	if (buffer->kind == BUFFER_PERSISTENT)
		return USE_PERSISTENT;
	if (buffer->kind == BUFFER_WORKSPACE)
		return USE_WORKSPACE;
	if (buffer->first == step)
		return USE_WRITTEN;
	return reads_place(e, step, buffer) ? USE_READ : USE_LATER;
}

/* Larger first; then the older, so that the order is one. */
static int compare_sizes(const struct plan_buffers *buffers, uint32_t a, uint32_t b)
{
	uint64_t x = buffers->buffer[a].bytes, y = buffers->buffer[b].bytes;
	return x != y ? (x < y) - (x > y) : (a > b) - (a < b);
}

static int by_size_live(const void *a, const void *b, void *buffers)
{
	return compare_sizes(buffers, ((const struct plan_live *)a)->buffer, ((const struct plan_live *)b)->buffer);
}

static int by_size(const void *a, const void *b, void *buffers)
{
	return compare_sizes(buffers, *(const uint32_t *)a, *(const uint32_t *)b);
}

static enum tarn_status find_live(struct plan_explanation *e, struct host_arena *arena)
{
	uint32_t step = plan_peak_run(e);
	e->live = HOST_ARRAY(arena, e->buffers.count, struct plan_live);
	if (!e->live)
		return TARN_ENOMEM;
	for (uint32_t b = 0; b < e->buffers.count; b++) {
		const struct plan_buffer *buffer = &e->buffers.buffer[b];
		if (!is_live_at(buffer, step))
			continue;
		uint32_t use = use_of(e, buffer, step);
		e->live[e->lives++] = (struct plan_live){ b, use };
		e->used_bytes[use] += buffer->bytes;
	}
	/* The persistent part has holes of alignment; the table's end is what counts. */
	e->used_bytes[USE_PERSISTENT] = e->plan->persistent_bytes;
	qsort_r(e->live, e->lives, sizeof *e->live, by_size_live, &e->buffers);
	return TARN_OK;
}

static enum tarn_status find_kept(struct plan_explanation *e, struct host_arena *arena)
{
	const struct program *program = e->program;
	uint32_t first = 0;
	while (first < program->instructions &&
	       (program->instruction[first].kind != INSTRUCTION_RUN ||
		program->graph.op[program->instruction[first].op].phase == PHASE_FORWARD))
		first++;
	e->kept = HOST_ARRAY(arena, e->buffers.count, uint32_t);
	if (!e->kept)
		return TARN_ENOMEM;
	for (uint32_t b = e->plan->persistents; first < program->instructions && b < e->buffers.count; b++) {
		if (e->buffers.buffer[b].first >= first || !is_live_at(&e->buffers.buffer[b], first))
			continue;
		e->kept[e->kepts++] = b;
		e->kept_bytes += e->buffers.buffer[b].bytes;
	}
	qsort_r(e->kept, e->kepts, sizeof *e->kept, by_size, &e->buffers);
	return TARN_OK;
}

static int by_time(const void *a, const void *b)
{
	const struct plan_again *x = a, *y = b;
	return x->extra_ns != y->extra_ns ? (x->extra_ns < y->extra_ns) - (x->extra_ns > y->extra_ns)
					  : (x->op > y->op) - (x->op < y->op);
}

static enum tarn_status find_again(struct plan_explanation *e, struct host_arena *arena)
{
	const struct program *program = e->program;
	uint32_t *runs = HOST_ARRAY(arena, program->graph.ops, uint32_t);
	e->again = HOST_ARRAY(arena, program->graph.ops, struct plan_again);
	if (!runs || !e->again)
		return TARN_ENOMEM;
	for (uint32_t i = 0; i < program->instructions; i++)
		runs[program->instruction[i].op] += program->instruction[i].kind == INSTRUCTION_RUN;
	for (uint32_t op = 0; op < program->graph.ops; op++)
		if (runs[op] > 1)
			e->again[e->agains++] =
				(struct plan_again){ op, runs[op] - 1, (runs[op] - 1) * program->cost_ns[op] };
	qsort(e->again, e->agains, sizeof *e->again, by_time);
	return TARN_OK;
}

static enum tarn_status find_in_place(struct plan_explanation *e, struct host_arena *arena)
{
	const struct program *program = e->program;
	const struct graph *graph = &program->graph;
	e->in_place = HOST_ARRAY(arena, program->instructions, struct plan_in_place);
	if (!e->in_place)
		return TARN_ENOMEM;
	for (uint32_t i = 0; i < program->instructions; i++) {
		const struct op *op = &graph->op[program->instruction[i].op];
		const uint32_t *tensor = graph->operand + op->first_operand;
		const uint64_t *offset = program->operand_offset + program->instruction[i].first_operand;
		if (program->instruction[i].kind != INSTRUCTION_RUN || !op->outputs ||
		    !is_transient(graph, tensor[op->inputs]))
			continue;
		for (uint32_t k = 0; k < op->inputs; k++) {
			if (!is_transient(graph, tensor[k]) || offset[k] != offset[op->inputs])
				continue;
			e->in_place[e->in_places++] = (struct plan_in_place){ i, tensor[k], tensor[op->inputs] };
			e->in_place_bytes += bytes_align(graph->tensor[tensor[k]].bytes);
			break;
		}
	}
	return TARN_OK;
}

static enum tarn_status find_views(struct plan_explanation *e, struct host_arena *arena)
{
	const struct program *program = e->program;
	const struct graph *graph = &program->graph;
	bool *read = HOST_ARRAY(arena, graph->tensors, bool);
	e->view = HOST_ARRAY(arena, graph->tensors, uint32_t);
	if (!read || !e->view)
		return TARN_ENOMEM;
	for (uint32_t i = 0; i < program->instructions; i++) {
		uint32_t op = program->instruction[i].op;
		bool runs = program->instruction[i].kind == INSTRUCTION_RUN;
		for (uint32_t k = 0; runs && k < graph->op[op].inputs; k++)
			read[op_inputs(graph, op)[k]] = true;
	}
	for (uint32_t t = 0; t < graph->tensors; t++) {
		uint32_t producer = graph->tensor[t].producer;
		if (!read[t] || producer == OP_NONE || !op_row(graph->op[producer].kind)->view)
			continue;
		e->view[e->views++] = t;
		e->view_bytes += bytes_align(graph->tensor[t].bytes);
	}
	return TARN_OK;
}

uint32_t plan_peak_run(const struct plan_explanation *e)
{
	uint32_t step = e->buffers.peak_instruction;
	while (step + 1 < e->program->instructions && e->program->instruction[step].kind != INSTRUCTION_RUN)
		step++;
	return step;
}

enum tarn_status plan_explain(const struct plan *plan, const struct program *program, struct host_arena *arena,
			      struct plan_explanation *out)
{
	*out = (struct plan_explanation){ .plan = plan, .program = program };
	enum tarn_status st = plan_buffers_find(plan, program, arena, &out->buffers);
	if (!st)
		st = find_live(out, arena);
	if (!st)
		st = find_kept(out, arena);
	if (!st)
		st = find_again(out, arena);
	if (!st)
		st = find_in_place(out, arena);
	return st ? st : find_views(out, arena);
}

void plan_peak_sentence(const struct plan_explanation *e, uint32_t most, char *text, size_t size)
{
	char bytes[BYTES_TEXT];
	uint32_t op = e->program->instruction[plan_peak_run(e)].op, shown = 0;
	size_t used =
		(size_t)snprintf(text, size, "the peak is at %s (%s): %s of parameters and other persistent tensors",
				 op_name(&e->program->graph, op), op_row(e->program->graph.op[op].kind)->name,
				 bytes_format(e->used_bytes[USE_PERSISTENT], bytes, sizeof bytes));
	for (uint32_t i = 0; i < e->lives && shown < most && used < size; i++) {
		const struct plan_live *live = &e->live[i];
		if (live->use == USE_PERSISTENT)
			continue;
		bytes_format(e->buffers.buffer[live->buffer].bytes, bytes, sizeof bytes);
		used += (size_t)snprintf(text + used, size - used, ", %s%s %s",
					 live->use == USE_WORKSPACE ? "workspace of " : "",
					 plan_buffer_name(e, live->buffer), bytes);
		shown++;
	}
}
