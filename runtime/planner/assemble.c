/* assemble.c - from ids to addresses. */
#include "planner/assemble.h"

#include <string.h>

static struct persistent *find_by_name(struct plan *plan, const char *name)
{
	for (uint32_t i = 0; i < plan->persistents; i++)
		if (!strcmp(plan->program[0].graph.text + plan->persistent[i].name, name))
			return &plan->persistent[i];
	return NULL;
}

static enum tarn_status list_first_program(struct plan *plan, struct host_arena *arena)
{
	const struct graph *graph = &plan->program[0].graph;
	plan->persistent = HOST_ARRAY(arena, graph->tensors + 1u, struct persistent);
	if (!plan->persistent)
		return TARN_ENOMEM;
	for (uint32_t t = 0; t < graph->tensors; t++) {
		const struct tensor *tensor = &graph->tensor[t];
		if (!is_persistent(tensor->role) || tensor->storage != t)
			continue;
		plan->persistent[plan->persistents++] = (struct persistent){ .bytes = tensor->bytes,
									     .name = tensor->name,
									     .tensor = t,
									     .role = tensor->role,
									     .dtype = tensor->dtype };
	}
	return TARN_OK;
}

enum tarn_status assemble_persistent(struct plan *plan, struct host_arena *arena)
{
	enum tarn_status st = list_first_program(plan, arena);
	for (uint32_t i = 1; i < plan->programs && !st; i++) {
		const struct graph *graph = &plan->program[i].graph;
		for (uint32_t t = 0; t < graph->tensors; t++) {
			const struct tensor *tensor = &graph->tensor[t];
			if (!is_persistent(tensor->role) || tensor->storage != t)
				continue;
			struct persistent *persistent = find_by_name(plan, tensor_name(graph, t));
			if (!persistent)
				return tarn_fail(TARN_EINTERNAL, "%s has a persistent tensor \"%s\" that %s lacks",
						 program_name(plan->program[i].kind), tensor_name(graph, t),
						 program_name(plan->program[0].kind));
			if (persistent->bytes < tensor->bytes)
				persistent->bytes = tensor->bytes;
		}
	}
	for (uint32_t i = 0; i < plan->persistents && !st; i++) {
		plan->persistent[i].offset = plan->persistent_bytes;
		if (!bytes_add(plan->persistent_bytes, bytes_align(plan->persistent[i].bytes), &plan->persistent_bytes))
			st = tarn_fail(TARN_EINVAL, "parameters and optimizer state together exceed 2^64 bytes");
	}
	return st;
}

/* Offset of a persistent tensor, by the id it has in this program's graph. */
static enum tarn_status persistent_offsets(const struct plan *plan, const struct graph *graph, struct host_arena *arena,
					   uint64_t **out)
{
	uint64_t *offset = HOST_ARRAY(arena, graph->tensors, uint64_t);
	if (!offset)
		return TARN_ENOMEM;
	for (uint32_t t = 0; t < graph->tensors; t++)
		if (is_persistent(graph->tensor[t].role) && graph->tensor[t].storage == t)
			offset[t] = find_by_name((struct plan *)(uintptr_t)plan, tensor_name(graph, t))->offset;
	*out = offset;
	return TARN_OK;
}

static void assemble_step(const struct plan *plan, const struct graph_problem *problem,
			  const struct planner_result *result, const uint64_t *persistent_offset, uint32_t step,
			  struct program *program)
{
	const struct graph *graph = &program->graph;
	const struct expansion *expansion = &result->expansion;
	uint32_t number = result->schedule.step[step], op = problem->graph_op[number];
	struct instruction *instr = &program->instruction[step];
	instr->op = op;
	instr->first_operand = program->operand_offsets;
	for (uint32_t k = 0; k < graph->op[op].inputs + graph->op[op].outputs; k++) {
		uint32_t operand = graph->op[op].first_operand + k, place = problem->operand[operand];
		uint64_t offset;
		if (place == UINT32_MAX) {
			offset = persistent_offset[graph->tensor[graph->operand[operand]].storage];
		} else {
			uint32_t instance = expansion->operand_instance[expansion->first_operand[step] + place];
			offset = plan->persistent_bytes + result->offset[expansion->instance[instance].buffer];
		}
		program->operand_offset[program->operand_offsets++] = offset;
	}
	uint32_t workspace = expansion->workspace_buffer[step];
	if (workspace != UINT32_MAX) {
		instr->workspace_offset = plan->persistent_bytes + result->offset[workspace];
		instr->workspace_bytes = problem->problem.op[number].workspace;
	}
}

enum tarn_status assemble_program(const struct plan *plan, const struct graph_problem *problem,
				  const struct planner_result *result, struct host_arena *arena,
				  struct program *program)
{
	uint64_t *persistent_offset;
	enum tarn_status st = persistent_offsets(plan, &program->graph, arena, &persistent_offset);
	if (st)
		return st;
	size_t operands = 0;
	for (uint32_t step = 0; step < result->schedule.steps; step++) {
		const struct op *op = &program->graph.op[problem->graph_op[result->schedule.step[step]]];
		operands += op->inputs + op->outputs;
	}
	if (operands > UINT32_MAX / 2)
		return tarn_fail(TARN_EUNSUPPORTED, "the schedule has %zu operands; a plan holds at most 2^31",
				 operands);
	program->instruction = HOST_ARRAY(arena, result->schedule.steps, struct instruction);
	program->operand_offset = HOST_ARRAY(arena, operands, uint64_t);
	if (!program->instruction || !program->operand_offset)
		return TARN_ENOMEM;
	program->instructions = result->schedule.steps;
	for (uint32_t step = 0; step < result->schedule.steps; step++)
		assemble_step(plan, problem, result, persistent_offset, step, program);
	program->peak_bytes = plan->persistent_bytes + result->expansion.peak_bytes;
	program->height_bytes = plan->persistent_bytes + result->height;
	program->time_ns = result->time_ns;
	program->base_time_ns = result->base_time_ns;
	program->none_peak_bytes = plan->persistent_bytes + result->none_peak;
	program->recomputed_ops = result->expansion.recomputed;
	return TARN_OK;
}
