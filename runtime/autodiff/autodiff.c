/* autodiff.c - the reverse sweep; see autodiff.h. The derivatives themselves stand in derive_*.c. */
#include "autodiff/sweep.h"

#include "autodiff/derive.h"

#include <string.h>

/* What depends on wrt[]: everything that an op computes from something that does. */
static void mark_dependent(struct sweep *sweep, const uint32_t *wrt, uint32_t count)
{
	const struct graph *graph = sweep->graph;
	for (uint32_t i = 0; i < count; i++)
		sweep->depends[wrt[i]] = true;
	for (uint32_t op = 0; op < sweep->ops; op++) {
		bool depends = false;
		for (uint32_t k = 0; k < graph->op[op].inputs && graph->op[op].kind != OP_STOP_GRADIENT; k++)
			depends |= sweep->depends[op_inputs(graph, op)[k]];
		for (uint32_t k = 0; k < graph->op[op].outputs && depends; k++)
			sweep->depends[op_outputs(graph, op)[k]] = true;
	}
}

/*
 * Adds a partial gradient to that of the tensor. Consumers are visited from the last to the first, so the sum is
 * ((last + one before) + ...): an order that the graph alone decides.
 */
enum tarn_status sweep_accumulate(struct sweep *sweep, uint32_t tensor, uint32_t partial)
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

/* Gradients of the op's outputs; *reached: one of them is there. */
static enum tarn_status read_outputs(struct sweep *sweep, uint32_t op, uint32_t *grad_output, bool *reached)
{
	struct graph *graph = sweep->graph;
	*reached = false;
	for (uint32_t k = 0; k < graph->op[op].outputs; k++) {
		uint32_t output = op_outputs(graph, op)[k];
		enum tarn_status st = sweep_finish(sweep, output);
		if (st)
			return st;
		grad_output[k] = sweep->gradient[output];
		*reached |= grad_output[k] != TENSOR_NONE;
	}
	return TARN_OK;
}

/* A rule may count on a gradient of the first output: zeros where only another one is used. */
static enum tarn_status fill_first(struct graph *graph, uint32_t op, uint32_t *grad_output)
{
	const struct tensor *y = &graph->tensor[op_outputs(graph, op)[0]];
	struct op_attr attr = { .rank = y->rank };
	memcpy(attr.extent, y->dim, y->rank * sizeof *y->dim);
	if (*grad_output != TENSOR_NONE)
		return TARN_OK;
	return derive_add(graph, op, "zero", OP_FILL, &attr, NULL, 0, grad_output);
}

/* The gradients of an op's outputs become gradients of its inputs. */
static enum tarn_status visit(struct sweep *sweep, uint32_t op)
{
	struct graph *graph = sweep->graph;
	const uint32_t inputs = graph->op[op].inputs;
	uint32_t grad_output[OP_MAX_OUTPUTS];
	bool reached, any = false;
	enum tarn_status st = read_outputs(sweep, op, grad_output, &reached);
	if (st)
		return st;
	for (uint32_t k = 0; k < inputs; k++)
		any |= sweep->depends[op_inputs(graph, op)[k]];
	if (!reached || !any)
		return TARN_OK;
	if (graph->op[op].kind == OP_SLICE || graph->op[op].kind == OP_SLICE_VIEW)
		return sweep_defer_slice(sweep, op, grad_output[0]);
	derive_fn *rule = derive_rule(graph->op[op].kind);
	if (!rule)
		return tarn_fail(TARN_EUNSUPPORTED, "%s: the op %s has no derivative", op_name(graph, op),
				 op_row(graph->op[op].kind)->name);
	bool *wanted = HOST_ARRAY(sweep->arena, inputs, bool);
	uint32_t *grad_input = HOST_ARRAY(sweep->arena, inputs, uint32_t);
	if (!wanted || !grad_input)
		return TARN_ENOMEM;
	memset(grad_input, 0xFF, inputs * sizeof *grad_input);
	for (uint32_t k = 0; k < inputs; k++)
		wanted[k] = sweep->depends[op_inputs(graph, op)[k]];
	bool joins = sweep_joins_product(sweep, op, wanted);
	for (uint32_t k = 1; k < inputs && joins; k++)
		wanted[k] = false;
	st = fill_first(graph, op, &grad_output[0]);
	if (!st)
		st = rule(graph, op, grad_output, wanted, grad_input);
	for (uint32_t k = 0; k < inputs && !st; k++)
		if (grad_input[k] != TENSOR_NONE)
			st = sweep_accumulate(sweep, op_inputs(graph, op)[k], grad_input[k]);
	return joins && !st ? sweep_defer_product(sweep, op, grad_output[0]) : st;
}

static enum tarn_status sweep_init(struct sweep *sweep, struct graph *graph, struct host_arena *arena)
{
	*sweep = (struct sweep){ .graph = graph, .arena = arena, .ops = graph->ops, .last_joined = OP_NONE };
	sweep->depends = HOST_ARRAY(arena, graph->tensors, bool);
	sweep->gradient = HOST_ARRAY(arena, graph->tensors, uint32_t);
	sweep->products = HOST_ARRAY(arena, graph->tensors, uint32_t);
	sweep->slices = HOST_ARRAY(arena, graph->tensors, struct waiting *);
	sweep->waiting_products = HOST_ARRAY(arena, graph->tensors, struct waiting *);
	sweep->waiting_count = HOST_ARRAY(arena, graph->tensors, uint32_t);
	if (!sweep->depends || !sweep->gradient || !sweep->products || !sweep->slices || !sweep->waiting_products ||
	    !sweep->waiting_count)
		return TARN_ENOMEM;
	memset(sweep->gradient, 0xFF, graph->tensors * sizeof *sweep->gradient);
	for (uint32_t op = 0; op < graph->ops; op++)
		if (graph->op[op].kind == OP_MATMUL)
			sweep->products[op_inputs(graph, op)[1]]++;
	return TARN_OK;
}

/* What the sweep begins with. */
static enum tarn_status seed(struct sweep *sweep, const uint32_t *y, const uint32_t *grad_y, uint32_t ys)
{
	const struct graph *graph = sweep->graph;
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 0; i < ys && !st; i++) {
		if (grad_y[i] == TENSOR_NONE)
			continue;
		const struct tensor *value = &graph->tensor[y[i]], *gradient = &graph->tensor[grad_y[i]];
		if (value->dtype != DTYPE_F32 || gradient->dtype != DTYPE_F32 || value->rank != gradient->rank ||
		    memcmp(value->dim, gradient->dim, value->rank * sizeof *value->dim))
			return tarn_fail(TARN_EINVAL, "%s cannot be the gradient of %s: shape or type is another",
					 tensor_name(graph, grad_y[i]), tensor_name(graph, y[i]));
		if (sweep->depends[y[i]])
			st = sweep_accumulate(sweep, y[i], grad_y[i]);
	}
	return st;
}

/* Visits all ops, from the last to the first. */
static enum tarn_status run(struct sweep *sweep, const uint32_t *wrt, uint32_t count, uint32_t *gradient)
{
	enum tarn_status st = TARN_OK;
	for (uint32_t op = sweep->ops; op-- > 0 && !st;)
		st = visit(sweep, op);
	/* A bias waits with its weight, so all are finished before one is read. */
	for (uint32_t i = 0; i < count && !st; i++)
		st = sweep_finish(sweep, wrt[i]);
	for (uint32_t i = 0; i < count && !st; i++)
		gradient[i] = sweep->gradient[wrt[i]];
	return st;
}

enum tarn_status autodiff_products(struct graph *graph, const uint32_t *y, const uint32_t *grad_y, uint32_t ys,
				   const uint32_t *wrt, uint32_t count, struct host_arena *arena, uint32_t *gradient)
{
	struct sweep sweep;
	enum tarn_status st = sweep_init(&sweep, graph, arena);
	if (st)
		return st;
	mark_dependent(&sweep, wrt, count);
	st = seed(&sweep, y, grad_y, ys);
	return st ? st : run(&sweep, wrt, count, gradient);
}

enum tarn_status autodiff_gradients(struct graph *graph, uint32_t loss, const uint32_t *wrt, uint32_t count,
				    struct host_arena *arena, uint32_t *gradient)
{
	const struct op_attr one = { .rank = 1, .extent = { 1 }, .alpha = 1 };
	const struct tensor *scalar = &graph->tensor[loss];
	char text[SHAPE_TEXT];
	if (scalar->rank != 1 || scalar->dim[0] != 1 || scalar->dtype != DTYPE_F32)
		return tarn_fail(TARN_EINVAL, "the loss %s has the shape %s, a gradient needs one f32 number",
				 tensor_name(graph, loss), shape_format(scalar->dim, scalar->rank, text, sizeof text));
	struct sweep sweep;
	enum tarn_status st = sweep_init(&sweep, graph, arena);
	if (st)
		return st;
	mark_dependent(&sweep, wrt, count);
	if (sweep.depends[loss])
		st = graph_add_op(graph, OP_FILL, PHASE_BACKWARD, "loss/gradient", &one, NULL, 0,
				  &sweep.gradient[loss]);
	return st ? st : run(&sweep, wrt, count, gradient);
}

void autodiff_as_forward(struct graph *graph, uint32_t first_op)
{
	for (uint32_t op = first_op; op < graph->ops; op++) {
		graph->op[op].phase = PHASE_FORWARD;
		for (uint32_t k = 0; k < graph->op[op].outputs; k++)
			graph->tensor[op_outputs(graph, op)[k]].role = ROLE_ACTIVATION;
	}
}
