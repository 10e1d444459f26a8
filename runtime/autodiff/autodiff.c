/* autodiff.c - the reverse sweep; see autodiff.h. The derivatives themselves stand in derive_*.c. */
#include "autodiff/autodiff.h"

#include <string.h>

struct sweep {
	struct graph *graph;
	uint32_t ops;       /* of the graph before the sweep */
	bool *depends;      /* tensor depends on one of wrt[] */
	uint32_t *gradient; /* so far, of each tensor; TENSOR_NONE: zero */
};

/* What depends on wrt[]: everything that an op computes from something that does. */
static void mark_dependent(struct sweep *sweep, const uint32_t *wrt, uint32_t count)
{
	const struct graph *graph = sweep->graph;
	for (uint32_t i = 0; i < count; i++)
		sweep->depends[wrt[i]] = true;
	for (uint32_t op = 0; op < sweep->ops; op++) {
		bool depends = false;
		for (uint32_t k = 0; k < graph->op[op].inputs; k++)
			depends |= sweep->depends[op_inputs(graph, op)[k]];
		for (uint32_t k = 0; k < graph->op[op].outputs && depends; k++)
			sweep->depends[op_outputs(graph, op)[k]] = true;
	}
}

/*
 * Adds a partial gradient to that of the tensor. Consumers are visited from the last to the first, so the sum is
 * ((last + one before) + ...): an order that the graph alone decides.
 */
static enum tarn_status accumulate(struct sweep *sweep, uint32_t tensor, uint32_t partial)
{
	struct graph *graph = sweep->graph;
	uint32_t *sum = &sweep->gradient[tensor];
	if (*sum == TENSOR_NONE) {
		*sum = partial;
		return TARN_OK;
	}
	const uint32_t input[2] = { *sum, partial };
	char *name = host_arena_printf(graph->arena, "%s/gradient_sum", tensor_name(graph, tensor));
	if (!name)
		return TARN_ENOMEM;
	return graph_add_op(graph, OP_ADD, PHASE_BACKWARD, name, NULL, input, 2, sum);
}

/* The gradients of an op's outputs become gradients of its inputs. */
static enum tarn_status visit(struct sweep *sweep, uint32_t op, struct host_arena *arena)
{
	struct graph *graph = sweep->graph;
	const uint32_t inputs = graph->op[op].inputs;
	uint32_t grad_output[OP_MAX_OUTPUTS];
	bool reached = false, any = false;
	for (uint32_t k = 0; k < graph->op[op].outputs; k++) {
		grad_output[k] = sweep->gradient[op_outputs(graph, op)[k]];
		reached |= grad_output[k] != TENSOR_NONE;
	}
	for (uint32_t k = 0; k < inputs; k++)
		any |= sweep->depends[op_inputs(graph, op)[k]];
	if (!reached || !any)
		return TARN_OK;
	derive_fn *rule = derive_rule(graph->op[op].kind);
	if (!rule || grad_output[0] == TENSOR_NONE)
		return tarn_fail(TARN_EUNSUPPORTED, "%s: the op %s has no derivative", op_name(graph, op),
				 op_row(graph->op[op].kind)->name);
	bool *wanted = HOST_ARRAY(arena, inputs, bool);
	uint32_t *grad_input = HOST_ARRAY(arena, inputs, uint32_t);
	if (!wanted || !grad_input)
		return TARN_ENOMEM;
	memset(grad_input, 0xFF, inputs * sizeof *grad_input);
	for (uint32_t k = 0; k < inputs; k++)
		wanted[k] = sweep->depends[op_inputs(graph, op)[k]];
	enum tarn_status st = rule(graph, op, grad_output, wanted, grad_input);
	for (uint32_t k = 0; k < inputs && !st; k++)
		if (grad_input[k] != TENSOR_NONE)
			st = accumulate(sweep, op_inputs(graph, op)[k], grad_input[k]);
	return st;
}

enum tarn_status autodiff_gradients(struct graph *graph, uint32_t loss, const uint32_t *wrt, uint32_t count,
				    struct host_arena *arena, uint32_t *gradient)
{
	const struct op_attr seed = { .rank = 1, .extent = { 1 }, .alpha = 1 };
	const struct tensor *scalar = &graph->tensor[loss];
	char text[SHAPE_TEXT];
	if (scalar->rank != 1 || scalar->dim[0] != 1 || scalar->dtype != DTYPE_F32)
		return tarn_fail(TARN_EINVAL, "the loss %s has the shape %s, a gradient needs one f32 number",
				 tensor_name(graph, loss), shape_format(scalar->dim, scalar->rank, text, sizeof text));
	struct sweep sweep = { .graph = graph, .ops = graph->ops };
	sweep.depends = HOST_ARRAY(arena, graph->tensors, bool);
	sweep.gradient = HOST_ARRAY(arena, graph->tensors, uint32_t);
	if (!sweep.depends || !sweep.gradient)
		return TARN_ENOMEM;
	memset(sweep.gradient, 0xFF, graph->tensors * sizeof *sweep.gradient);
	mark_dependent(&sweep, wrt, count);
	if (sweep.depends[loss]) {
		enum tarn_status st = graph_add_op(graph, OP_FILL, PHASE_BACKWARD, "loss/gradient", &seed, NULL, 0,
						   &sweep.gradient[loss]);
		for (uint32_t op = sweep.ops; op-- > 0 && !st;)
			st = visit(&sweep, op, arena);
		if (st)
			return st;
	}
	for (uint32_t i = 0; i < count; i++)
		gradient[i] = sweep.gradient[wrt[i]];
	return TARN_OK;
}
