/*
 * cuda_watch.c - tells a device that checks accesses what each op may touch.
 *
 * The simulated device of the tests exports these calls beside the Driver API; NVIDIA's driver has none of them, and
 * then nothing is told. They change no result.
 */
#include "cuda/cuda_driver.h"

#include <dlfcn.h>
#include <string.h>

enum { USE_READ = 1, USE_WRITE = 2, USE_WORKSPACE = 4, USE_RAW = 8 };

/* POSIX lets dlsym's pointer to data stand for a function; ISO C has no cast for it. */
static void find(void *handle, const char *name, void *target)
{
	void *address = dlsym(handle, name);
	memcpy(target, &address, sizeof address);
}

void watch_open(struct cuda_state *state)
{
	void *handle = state->libraries.handle[LIBRARY_CUDA];
	find(handle, "sim_operation_begin", &state->watch.begin);
	find(handle, "sim_operation_end", &state->watch.end);
	find(handle, "sim_mark_dead", &state->watch.mark_dead);
	find(handle, "sim_freeze", &state->watch.freeze);
}

enum tarn_status watch_bind(struct cuda_state *state, const struct graph *graph, uint32_t op, struct bound_instr *instr)
{
	const struct op *node = &graph->op[op];
	uint32_t operands = node->inputs + node->outputs;
	if (!state->watch.begin)
		return TARN_OK;
	instr->range = HOST_ARRAY(state->host, operands + 1, struct watch_range);
	if (!instr->range)
		return TARN_ENOMEM;
	for (uint32_t i = 0; i < operands; i++) {
		bool input = i < node->inputs;
		uint32_t tensor = input ? op_inputs(graph, op)[i] : op_outputs(graph, op)[i - node->inputs];
		instr->range[i] = (struct watch_range){ instr->address[i], graph->tensor[tensor].bytes,
							input ? USE_READ : USE_WRITE };
	}
	instr->ranges = operands;
	if (instr->kernel->info.workspace_bytes)
		instr->range[instr->ranges++] =
			(struct watch_range){ instr->workspace, instr->kernel->info.workspace_bytes, USE_WORKSPACE };
	return TARN_OK;
}

enum tarn_status watch_begin(struct cuda_state *state, const struct bound_instr *instr)
{
	if (!state->watch.begin)
		return TARN_OK;
	return cuda_check(state, state->watch.begin(state->compute, instr->name, instr->range, instr->ranges),
			  "sim_operation_begin");
}

enum tarn_status watch_raw_begin(struct cuda_state *state)
{
	const struct watch_range arena = { state->arena, state->arena_bytes, USE_READ | USE_RAW };
	if (!state->watch.begin)
		return TARN_OK;
	return cuda_check(state, state->watch.begin(state->compute, "reading the whole arena", &arena, 1),
			  "sim_operation_begin");
}

enum tarn_status watch_end(struct cuda_state *state)
{
	if (!state->watch.end)
		return TARN_OK;
	return cuda_check(state, state->watch.end(state->compute), "sim_operation_end");
}

void watch_abandon(struct cuda_state *state)
{
	if (state->watch.end)
		(void)state->watch.end(state->compute);
}

enum tarn_status watch_dead(struct cuda_state *state, uint64_t address, uint64_t bytes)
{
	if (!state->watch.mark_dead)
		return TARN_OK;
	return cuda_check(state, state->watch.mark_dead(state->compute, address, bytes), "sim_mark_dead");
}

void watch_freeze(struct cuda_state *state, bool frozen)
{
	if (state->watch.freeze)
		state->watch.freeze(frozen);
}
