/* average.c - see average.h. */
#include "autodiff/average.h"

static char *average_name(const struct graph *graph, uint32_t parameter)
{
	return host_arena_printf(graph->arena, AVERAGE_PREFIX "%s", tensor_name(graph, parameter));
}

enum tarn_status average_add_state(struct graph *graph, const struct config *config)
{
	const uint32_t tensors = graph->tensors;
	for (uint32_t t = 0; t < tensors && config->train.ema > 0; t++) {
		const struct tensor shape = graph->tensor[t];
		uint32_t id;
		if (shape.role != ROLE_PARAMETER || shape.producer != OP_NONE || shape.flags & TENSOR_FROZEN)
			continue;
		char *name = average_name(graph, t);
		if (!name)
			return TARN_ENOMEM;
		enum tarn_status st =
			graph_add_persistent(graph, name, ROLE_OPTIMIZER_STATE, DTYPE_F32, shape.dim, shape.rank, &id);
		if (st)
			return st;
		graph->tensor[id].init = INIT_AVERAGE;
	}
	return TARN_OK;
}

/* `version` is what the update of this step makes of a parameter. */
static enum tarn_status add_average(struct graph *graph, const struct op_attr *attr, uint32_t version)
{
	const uint32_t parameter = graph->tensor[version].storage;
	char *name = average_name(graph, parameter);
	char *op = host_arena_printf(graph->arena, "%s/average", tensor_name(graph, parameter));
	if (!name || !op)
		return TARN_ENOMEM;
	const uint32_t input[2] = { graph_find(graph, name), version };
	return graph_add_op(graph, OP_EXPONENTIAL_AVERAGE, PHASE_UPDATE, op, attr, input, 2, NULL);
}

enum tarn_status average_add_updates(struct graph *graph, const struct config *config)
{
	const struct op_attr attr = { .alpha = (float)config->train.ema };
	const uint32_t tensors = graph->tensors;
	enum tarn_status st = TARN_OK;
	for (uint32_t t = 0; t < tensors && config->train.ema > 0 && !st; t++)
		if (graph->tensor[t].role == ROLE_PARAMETER && graph->tensor[t].producer != OP_NONE)
			st = add_average(graph, &attr, t);
	return st;
}
