/* buffers.c - see buffers.h. */
#include "plan/buffers.h"

struct finder {
	const struct plan *plan;
	const struct program *program;
	struct plan_buffers *out;
	uint32_t *newest; /* [tensors]: buffer, TENSOR_NONE before the first */
	uint32_t *older;  /* [buffers]: the instance of the same tensor before this one */
	bool *ran;        /* [ops] */
};

static uint32_t add(struct finder *f, struct plan_buffer buffer)
{
	f->out->buffer[f->out->count] = buffer;
	return f->out->count++;
}

static bool is_transient(const struct graph *graph, uint32_t tensor)
{
	return !is_persistent(graph->tensor[graph->tensor[tensor].storage].role);
}

/* The instance whose tensor, or a view of it, lies at `offset`; NULL when there is none. */
static struct plan_buffer *instance_at(struct finder *f, uint32_t tensor, uint64_t offset)
{
	uint32_t storage = f->program->graph.tensor[tensor].storage;
	offset -= tensor_offset(&f->program->graph, tensor);
	for (uint32_t b = f->newest[storage]; b != TENSOR_NONE; b = f->older[b])
		if (f->out->buffer[b].offset == offset)
			return &f->out->buffer[b];
	return NULL;
}

static uint32_t kind_of(const struct finder *f, uint32_t op, uint32_t tensor)
{
	if (f->ran[op])
		return BUFFER_RECOMPUTED;
	return f->program->graph.tensor[tensor].role == ROLE_GRADIENT ? BUFFER_GRADIENT : BUFFER_ACTIVATION;
}

static void write_output(struct finder *f, uint32_t step, uint32_t op, uint32_t tensor, uint64_t offset, uint32_t kind)
{
	struct plan_buffer buffer = { .offset = offset,
				      .bytes = bytes_align(f->program->graph.tensor[tensor].bytes),
				      .first = step,
				      .end = step + 1,
				      .tensor = tensor,
				      .op = op,
				      .kind = kind };
	uint32_t b = add(f, buffer);
	f->older[b] = f->newest[tensor];
	f->newest[tensor] = b;
}

/* A store reads until its wait; a fetch makes another instance. */
static void walk_copy(struct finder *f, uint32_t step, const struct instruction *copy)
{
	struct plan_buffer *read = instance_at(f, copy->tensor, copy->offset);
	if (copy->kind == INSTRUCTION_FETCH)
		write_output(f, step, f->program->graph.tensor[copy->tensor].producer, copy->tensor, copy->offset,
			     BUFFER_FETCHED);
	else if (read)
		read->end = step + 1;
}

static void walk_step(struct finder *f, uint32_t step)
{
	const struct graph *graph = &f->program->graph;
	const struct instruction *instruction = &f->program->instruction[step];
	if (instruction->kind != INSTRUCTION_RUN) {
		walk_copy(f, step, instruction);
		return;
	}
	const struct op *op = &graph->op[instruction->op];
	const uint32_t *tensor = graph->operand + op->first_operand;
	const uint64_t *offset = f->program->operand_offset + instruction->first_operand;
	for (uint32_t k = 0; k < op->inputs; k++) {
		struct plan_buffer *read = is_transient(graph, tensor[k]) ? instance_at(f, tensor[k], offset[k]) : NULL;
		if (!read)
			continue;
		/* An output in the same place goes on with it: the step counts for the output. */
		bool taken = op->outputs && is_transient(graph, tensor[op->inputs]) && offset[op->inputs] == offset[k];
		read->end = taken ? step : step + 1;
	}
	for (uint32_t k = op->inputs; k < op->inputs + op->outputs; k++)
		if (is_transient(graph, tensor[k]))
			write_output(f, step, instruction->op, tensor[k], offset[k],
				     kind_of(f, instruction->op, tensor[k]));
	if (instruction->workspace_bytes)
		add(f, (struct plan_buffer){ .offset = instruction->workspace_offset,
					     .bytes = bytes_align(instruction->workspace_bytes),
					     .first = step,
					     .end = step + 1,
					     .tensor = TENSOR_NONE,
					     .op = instruction->op,
					     .kind = BUFFER_WORKSPACE });
	f->out->recomputed += f->ran[instruction->op];
	f->ran[instruction->op] = true;
}

/* Sums of live bytes by differences, which may wrap in between. */
static void sum_live(struct finder *f)
{
	struct plan_buffers *out = f->out;
	for (uint32_t b = f->plan->persistents; b < out->count; b++) {
		if (out->buffer[b].first >= out->buffer[b].end)
			continue;
		out->live_bytes[out->buffer[b].first] += out->buffer[b].bytes;
		out->live_bytes[out->buffer[b].end] -= out->buffer[b].bytes;
	}
	out->peak_bytes = f->plan->persistent_bytes;
	uint64_t live = f->plan->persistent_bytes;
	for (uint32_t step = 0; step < f->program->instructions; step++) {
		live += out->live_bytes[step];
		out->live_bytes[step] = live;
		if (live > out->peak_bytes) {
			out->peak_bytes = live;
			out->peak_instruction = step;
		}
	}
}

enum tarn_status plan_buffers_find(const struct plan *plan, const struct program *program, struct host_arena *arena,
				   struct plan_buffers *out)
{
	struct finder f = { .plan = plan, .program = program, .out = out };
	const struct graph *graph = &program->graph;
	size_t most = plan->persistents + (size_t)program->instructions;
	for (uint32_t i = 0; i < program->instructions; i++)
		if (program->instruction[i].kind == INSTRUCTION_RUN)
			most += graph->op[program->instruction[i].op].outputs;
	*out = (struct plan_buffers){ .buffer = HOST_ARRAY(arena, most, struct plan_buffer) };
	out->live_bytes = HOST_ARRAY(arena, (size_t)program->instructions + 1, uint64_t);
	f.newest = HOST_ARRAY(arena, graph->tensors, uint32_t);
	f.older = HOST_ARRAY(arena, most, uint32_t);
	f.ran = HOST_ARRAY(arena, graph->ops, bool);
	if (!out->buffer || !out->live_bytes || !f.newest || !f.older || !f.ran)
		return TARN_ENOMEM;
	for (uint32_t t = 0; t < graph->tensors; t++)
		f.newest[t] = TENSOR_NONE;
	for (uint32_t i = 0; i < plan->persistents; i++)
		add(&f, (struct plan_buffer){ .offset = plan->persistent[i].offset,
					      .bytes = bytes_align(plan->persistent[i].bytes),
					      .end = program->instructions,
					      .tensor = plan->persistent[i].tensor,
					      .op = OP_NONE,
					      .kind = BUFFER_PERSISTENT });
	for (uint32_t step = 0; step < program->instructions; step++)
		walk_step(&f, step);
	sum_live(&f);
	return TARN_OK;
}
