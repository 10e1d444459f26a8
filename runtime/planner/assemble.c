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

static void assemble_run(const struct plan *plan, const struct graph_problem *problem,
			 const struct planner_result *result, const uint64_t *persistent_offset, uint32_t step,
			 struct program *program)
{
	const struct graph *graph = &program->graph;
	const struct expansion *expansion = &result->expansion;
	uint32_t number = result->schedule.step[step], op = problem->graph_op[number];
	struct instruction *instr = &program->instruction[program->instructions++];
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
		program->operand_offset[program->operand_offsets++] =
			offset + tensor_offset(graph, graph->operand[operand]);
	}
	uint32_t workspace = expansion->workspace_buffer[step];
	if (workspace != UINT32_MAX) {
		instr->workspace_offset = plan->persistent_bytes + result->offset[workspace];
		instr->workspace_bytes = problem->problem.op[number].workspace;
	}
}

/* Offset of the instance that a step of the schedule copies: the one operand that a store or fetch has. */
static uint64_t copied_offset(const struct plan *plan, const struct planner_result *result, uint32_t step)
{
	const struct expansion *expansion = &result->expansion;
	uint32_t instance = expansion->operand_instance[expansion->first_operand[step]];
	return plan->persistent_bytes + result->offset[expansion->instance[instance].buffer];
}

/* [transfers]: where in the arena each copies. A store stands before its end in the list, a fetch at its own step. */
static enum tarn_status transfer_offsets(const struct plan *plan, const struct graph_problem *problem,
					 const struct planner_result *result, const struct offload_result *offload,
					 struct host_arena *arena, uint64_t **out)
{
	uint64_t *offset = HOST_ARRAY(arena, offload->transfers, uint64_t);
	uint32_t *start = HOST_ARRAY(arena, problem->problem.values, uint32_t);
	if (!offset || !start)
		return TARN_ENOMEM;
	for (uint32_t t = 0; t < offload->transfers; t++) {
		const struct transfer *transfer = &offload->transfer[t];
		uint32_t kind = transfer->kind;
		if (kind == TRANSFER_STORE || kind == TRANSFER_FETCH)
			start[transfer->value] = t;
		if (kind == TRANSFER_FETCH || kind == TRANSFER_STORE_WAIT)
			offset[t] = offset[start[transfer->value]] = copied_offset(plan, result, transfer->before);
		else if (kind == TRANSFER_FETCH_WAIT)
			offset[t] = offset[start[transfer->value]];
	}
	*out = offset;
	return TARN_OK;
}

static void assemble_transfer(const struct graph_problem *problem, const struct offload_result *offload,
			      const struct transfer *transfer, uint64_t offset, struct program *program)
{
	static const uint32_t kind[] = { [TRANSFER_STORE] = INSTRUCTION_STORE,
					 [TRANSFER_STORE_WAIT] = INSTRUCTION_STORE_WAIT,
					 [TRANSFER_FETCH] = INSTRUCTION_FETCH,
					 [TRANSFER_FETCH_WAIT] = INSTRUCTION_FETCH_WAIT };
	const struct problem_value *value = &problem->problem.value[transfer->value];
	uint32_t tensor = op_outputs(&program->graph, problem->graph_op[value->producer])[value->output];
	program->instruction[program->instructions++] =
		(struct instruction){ .kind = kind[transfer->kind],
				      .tensor = tensor,
				      .offset = offset,
				      .host_offset = offload->host_offset[transfer->value],
				      .bytes = program->graph.tensor[tensor].bytes,
				      .slot = transfer->slot };
}

/* Runs in the order of the schedule, and between them the transfers. */
static void assemble_steps(const struct plan *plan, const struct graph_problem *problem,
			   const struct planner_result *result, const struct offload_result *offload,
			   const uint64_t *persistent_offset, const uint64_t *transfer_offset, struct program *program)
{
	uint32_t t = 0;
	for (uint32_t step = 0; step <= result->schedule.steps; step++) {
		for (; t < offload->transfers && offload->transfer[t].before == step; t++)
			assemble_transfer(problem, offload, &offload->transfer[t], transfer_offset[t], program);
		if (step < result->schedule.steps && result->schedule.step[step] < problem->problem.ops)
			assemble_run(plan, problem, result, persistent_offset, step, program);
	}
}

enum tarn_status assemble_program(const struct plan *plan, const struct graph_problem *problem,
				  const struct planner_result *result, const struct offload_result *offload,
				  struct host_arena *arena, struct program *program)
{
	uint64_t *persistent_offset, *transfer_offset;
	enum tarn_status st = persistent_offsets(plan, &program->graph, arena, &persistent_offset);
	if (!st)
		st = transfer_offsets(plan, problem, result, offload, arena, &transfer_offset);
	if (st)
		return st;
	size_t operands = 0;
	for (uint32_t step = 0; step < result->schedule.steps; step++) {
		if (result->schedule.step[step] >= problem->problem.ops)
			continue;
		const struct op *op = &program->graph.op[problem->graph_op[result->schedule.step[step]]];
		operands += op->inputs + op->outputs;
	}
	if (operands > UINT32_MAX / 2)
		return tarn_fail(TARN_EUNSUPPORTED, "the schedule has %zu operands; a plan holds at most 2^31",
				 operands);
	program->instruction =
		HOST_ARRAY(arena, (size_t)result->schedule.steps + offload->transfers, struct instruction);
	program->operand_offset = HOST_ARRAY(arena, operands, uint64_t);
	if (!program->instruction || !program->operand_offset)
		return TARN_ENOMEM;
	assemble_steps(plan, problem, result, offload, persistent_offset, transfer_offset, program);
	program->peak_bytes = plan->persistent_bytes + result->expansion.peak_bytes;
	program->height_bytes = plan->persistent_bytes + result->height;
	program->time_ns = result->time_ns;
	program->base_time_ns = result->base_time_ns;
	program->none_peak_bytes = plan->persistent_bytes + result->none_peak;
	program->recomputed_ops = result->expansion.recomputed;
	return TARN_OK;
}
