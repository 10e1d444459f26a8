/* graph_problem.c - forget shapes and kinds; keep bytes, costs and who reads what. */
#include "planner/graph_problem.h"

#include <fnmatch.h>
#include <string.h>

static bool is_view(const struct graph *graph, uint32_t op)
{
	return op_row(graph->op[op].kind)->view;
}

enum tarn_status graph_needed_ops(const struct graph *graph, struct host_arena *arena, uint8_t **out)
{
	uint8_t *needed = HOST_ARRAY(arena, graph->ops, uint8_t);
	if (!needed)
		return TARN_ENOMEM;
	for (uint32_t op = graph->ops; op-- > 0;) {
		if (op_row(graph->op[op].kind)->effect)
			needed[op] = 1;
		if (!needed[op])
			continue;
		for (uint32_t k = 0; k < graph->op[op].inputs; k++) {
			uint32_t producer = graph->tensor[op_inputs(graph, op)[k]].producer;
			if (producer != OP_NONE)
				needed[producer] = 1;
		}
	}
	*out = needed;
	return TARN_OK;
}

/* Numbers the values: every output of an op in the problem that is a storage root of its own. */
static void number_values(const struct graph *graph, struct graph_problem *out, const uint8_t *needed)
{
	struct problem *problem = &out->problem;
	for (uint32_t t = 0; t < graph->tensors; t++)
		out->value_of[t] = VALUE_NONE;
	for (uint32_t op = 0; op < graph->ops; op++) {
		if (!needed[op] || is_view(graph, op))
			continue;
		for (uint32_t k = 0; k < graph->op[op].outputs; k++) {
			uint32_t t = op_outputs(graph, op)[k];
			if (graph->tensor[t].storage != t)
				continue; /* a version of a persistent tensor */
			out->value_of[t] = problem->values;
			problem->value[problem->values++] = (struct problem_value){
				.bytes = bytes_align(graph->tensor[t].bytes), .producer = problem->ops, .output = k
			};
		}
		out->graph_op[problem->ops++] = op;
	}
	for (uint32_t t = 0; t < graph->tensors; t++)
		if (graph->tensor[t].storage != t)
			out->value_of[t] = out->value_of[graph->tensor[t].storage];
}

/* Adds the value to the op's list unless it stands there; returns its place in the list. */
static uint32_t list_value(struct problem *problem, uint32_t first, uint32_t *count, uint32_t value)
{
	for (uint32_t k = 0; k < *count; k++)
		if (problem->operand[first + k] == value)
			return k;
	problem->operand[problem->operands++] = value;
	return (*count)++;
}

static bool shows_all(const struct graph *graph, uint32_t tensor)
{
	return graph->tensor[tensor].bytes == graph->tensor[graph->tensor[tensor].storage].bytes;
}

static void list_operands(const struct graph *graph, struct graph_problem *out, uint32_t number)
{
	struct problem *problem = &out->problem;
	struct problem_op *target = &problem->op[number];
	uint32_t op = out->graph_op[number];
	const struct op *source = &graph->op[op];
	uint32_t shown_in_part = 0; /* places that no output may take over */
	target->first_input = problem->operands;
	for (uint32_t k = 0; k < source->inputs; k++) {
		uint32_t value = out->value_of[op_inputs(graph, op)[k]];
		if (value == VALUE_NONE)
			continue;
		uint32_t place = list_value(problem, target->first_input, &target->inputs, value);
		out->operand[source->first_operand + k] = place;
		if (k < 8 && op_row(source->kind)->in_place & (1u << k) && place < 32)
			target->in_place |= 1u << place;
		if (place < 32 && !shows_all(graph, op_inputs(graph, op)[k]))
			shown_in_part |= 1u << place;
	}
	target->in_place &= ~shown_in_part;
	target->first_output = problem->operands;
	for (uint32_t k = 0; k < source->outputs; k++) {
		uint32_t t = op_outputs(graph, op)[k];
		if (graph->tensor[t].storage != t)
			continue;
		out->operand[source->first_operand + source->inputs + k] = target->inputs + target->outputs++;
		problem->operand[problem->operands++] = out->value_of[t];
	}
}

/* A new version of something persistent, which some ops may read (op_reads_version). */
static bool is_version(const struct graph *graph, uint32_t t)
{
	return graph->tensor[t].producer != OP_NONE && is_persistent(graph->tensor[t].role);
}

static enum tarn_status add_after(struct problem *problem, struct problem_op *op, uint32_t before,
				  struct host_arena *arena, size_t *capacity)
{
	problem->after = host_arena_grow(arena, problem->after, capacity, problem->afters + 1u, sizeof *problem->after);
	if (!problem->after)
		return TARN_ENOMEM;
	problem->after[problem->afters++] = before;
	op->afters++;
	return TARN_OK;
}

/* An op that reads new versions comes after the effects that write them. */
static enum tarn_status list_versions(const struct graph *graph, struct problem *problem, const uint32_t *number_of,
				      uint32_t op, struct host_arena *arena, size_t *capacity)
{
	enum tarn_status st = TARN_OK;
	for (uint32_t k = 0; k < graph->op[op].inputs && !st; k++) {
		uint32_t t = op_inputs(graph, op)[k];
		if (is_version(graph, t))
			st = add_after(problem, &problem->op[number_of[op]], number_of[graph->tensor[t].producer],
				       arena, capacity);
	}
	return st;
}

/*
 * An effect that writes a version of persistent tensor p comes after every other op that reads p. `first` and
 * `reader` list the readers of each tensor's storage.
 */
static enum tarn_status list_afters(const struct graph *graph, struct graph_problem *out, struct host_arena *arena)
{
	struct problem *problem = &out->problem;
	uint32_t *first = HOST_ARRAY(arena, graph->tensors + 2u, uint32_t);
	uint32_t *reader = HOST_ARRAY(arena, graph->operands + 1u, uint32_t);
	uint32_t *number_of = HOST_ARRAY(arena, graph->ops + 1u, uint32_t);
	size_t capacity = 0;
	enum tarn_status st = TARN_OK;
	if (!first || !reader || !number_of)
		return TARN_ENOMEM;
	for (uint32_t number = 0; number < problem->ops; number++)
		number_of[out->graph_op[number]] = number;
	for (uint32_t pass = 0; pass < 2; pass++) { /* count, then fill: buckets by storage */
		for (uint32_t number = 0; number < problem->ops; number++) {
			uint32_t op = out->graph_op[number];
			for (uint32_t k = 0; k < graph->op[op].inputs; k++) {
				uint32_t root = graph->tensor[op_inputs(graph, op)[k]].storage;
				if (is_version(graph, op_inputs(graph, op)[k]))
					continue;
				if (pass == 0)
					first[root + 2]++;
				else
					reader[first[root + 1]++] = number;
			}
		}
		for (uint32_t t = 0; t < graph->tensors && pass == 0; t++)
			first[t + 2] += first[t + 1];
	}
	for (uint32_t number = 0; number < problem->ops; number++) {
		uint32_t op = out->graph_op[number];
		struct problem_op *target = &problem->op[number];
		target->first_after = problem->afters;
		for (uint32_t k = 0; k < graph->op[op].outputs; k++) {
			uint32_t t = op_outputs(graph, op)[k], root = graph->tensor[t].storage;
			if (root == t || !is_persistent(graph->tensor[root].role))
				continue;
			for (uint32_t r = first[root]; r < first[root + 1] && !st; r++)
				if (reader[r] != number)
					st = add_after(problem, target, reader[r], arena, &capacity);
		}
		if (!st)
			st = list_versions(graph, problem, number_of, op, arena, &capacity);
		if (st)
			return st;
	}
	return TARN_OK;
}

static bool is_heavy(uint32_t kind)
{
	return kind == OP_MATMUL || kind == OP_CONV2D || kind == OP_BATCH_MATMUL || kind == OP_ATTENTION;
}

enum tarn_status graph_problem_build(const struct graph *graph, const struct kernel_info *info,
				     struct host_arena *arena, struct graph_problem *out)
{
	uint8_t *needed;
	memset(out, 0, sizeof *out);
	struct problem *problem = &out->problem;
	enum tarn_status st = graph_needed_ops(graph, arena, &needed);
	if (st)
		return st;
	out->graph_op = HOST_ARRAY(arena, graph->ops, uint32_t);
	out->operand = HOST_ARRAY(arena, graph->operands, uint32_t);
	out->value_of = HOST_ARRAY(arena, graph->tensors, uint32_t);
	problem->value = HOST_ARRAY(arena, graph->tensors, struct problem_value);
	problem->operand = HOST_ARRAY(arena, graph->operands, uint32_t);
	if (!out->graph_op || !out->operand || !out->value_of || !problem->value || !problem->operand)
		return TARN_ENOMEM;
	memset(out->operand, 0xFF, graph->operands * sizeof *out->operand);
	number_values(graph, out, needed);
	problem->op = HOST_ARRAY(arena, problem->ops, struct problem_op);
	if (!problem->op)
		return TARN_ENOMEM;
	for (uint32_t number = 0; number < problem->ops; number++) {
		uint32_t op = out->graph_op[number];
		const struct op *source = &graph->op[op];
		problem->op[number] =
			(struct problem_op){ .cost_ns = info[op].cost_ns,
					     .workspace = info[op].workspace_bytes,
					     .once = op_row(source->kind)->effect,
					     .required = true,
					     .forward = source->phase == PHASE_FORWARD,
					     .heavy = is_heavy(source->kind) && source->phase == PHASE_FORWARD };
		list_operands(graph, out, number);
	}
	st = list_afters(graph, out, arena);
	return st ? st : problem_check(problem);
}

static bool matches(const char *pattern, const char *tensor, const char *op)
{
	return !fnmatch(pattern, tensor, 0) || !fnmatch(pattern, op, 0);
}

enum tarn_status graph_problem_keep(const struct graph *graph, const struct graph_problem *problem,
				    const struct text_list *pattern, struct host_arena *arena, uint8_t **out)
{
	uint8_t *keep = HOST_ARRAY(arena, problem->problem.values + 1u, uint8_t);
	if (!keep)
		return TARN_ENOMEM;
	for (uint32_t i = 0; i < pattern->count; i++) {
		bool found = false;
		for (uint32_t t = 0; t < graph->tensors; t++) {
			uint32_t producer = graph->tensor[t].producer;
			if (problem->value_of[t] == VALUE_NONE || producer == OP_NONE ||
			    graph->op[producer].phase != PHASE_FORWARD ||
			    !matches(pattern->item[i], tensor_name(graph, t), op_name(graph, producer)))
				continue;
			keep[problem->value_of[t]] = 1;
			found = true;
		}
		if (!found)
			return tarn_fail(TARN_EINVAL,
					 "memory.keep: \"%s\" matches no tensor of the forward pass; `tarn plan "
					 "--print` lists them",
					 pattern->item[i]);
	}
	*out = keep;
	return TARN_OK;
}
