/* expression.c - see expression.h. */
#include "autodiff/expression.h"

#include <string.h>

struct expression expression_of_gradient(struct graph *graph, uint32_t op)
{
	struct expression e = { .graph = graph, .phase = PHASE_BACKWARD };
	e.name = host_arena_printf(graph->arena, "%s/gradient", op_name(graph, op));
	if (!e.name)
		e.status = TARN_ENOMEM;
	return e;
}

uint32_t expression_op(struct expression *e, enum op_kind kind, const struct op_attr *attr, const uint32_t *input,
		       uint32_t inputs, uint32_t *out)
{
	uint32_t result[OP_MAX_OUTPUTS] = { TENSOR_NONE, TENSOR_NONE, TENSOR_NONE };
	if (e->status)
		return TENSOR_NONE;
	const char *name = host_arena_printf(e->graph->arena, "%s/%s", e->name, op_row(kind)->name);
	if (!name)
		e->status = TARN_ENOMEM;
	else
		e->status = graph_add_op(e->graph, kind, e->phase, name, attr, input, inputs, result);
	for (uint32_t k = 1; out && k < op_row(kind)->outputs; k++)
		out[k] = result[k];
	return e->status ? TENSOR_NONE : result[0];
}

static uint32_t unary(struct expression *e, enum op_kind kind, const struct op_attr *attr, uint32_t x)
{
	return expression_op(e, kind, attr, &x, 1, NULL);
}

static uint32_t binary(struct expression *e, enum op_kind kind, const struct op_attr *attr, uint32_t a, uint32_t b)
{
	return expression_op(e, kind, attr, (uint32_t[]){ a, b }, 2, NULL);
}

/* The tensor's shape as an attribute; of nothing after a failure. */
static struct op_attr shape_of(const struct expression *e, uint32_t tensor)
{
	struct op_attr attr = { 0 };
	if (e->status)
		return attr;
	const struct tensor *x = &e->graph->tensor[tensor];
	attr.rank = x->rank;
	memcpy(attr.extent, x->dim, x->rank * sizeof *x->dim);
	return attr;
}

static uint32_t fill(struct expression *e, uint32_t rank, const uint32_t *dim, double value)
{
	struct op_attr attr = { .rank = rank, .alpha = (float)value };
	memcpy(attr.extent, dim, rank * sizeof *dim);
	return expression_op(e, OP_FILL, &attr, NULL, 0, NULL);
}

/* ---- element by element ---- */

uint32_t expression_add(struct expression *e, uint32_t a, uint32_t b)
{
	return binary(e, OP_ADD, NULL, a, b);
}

uint32_t expression_subtract(struct expression *e, uint32_t a, uint32_t b)
{
	return expression_add(e, a, expression_scale(e, b, -1));
}

uint32_t expression_multiply(struct expression *e, uint32_t a, uint32_t b)
{
	return binary(e, OP_MULTIPLY, NULL, a, b);
}

uint32_t expression_scale(struct expression *e, uint32_t x, double factor)
{
	return unary(e, OP_SCALE, &(struct op_attr){ .alpha = (float)factor }, x);
}

uint32_t expression_add_constant(struct expression *e, uint32_t x, double constant)
{
	const struct op_attr shape = shape_of(e, x);
	if (e->status)
		return TENSOR_NONE;
	return binary(e, OP_ADD_BROADCAST, NULL, x, fill(e, 1, &shape.extent[shape.rank - 1], constant));
}

uint32_t expression_activation(struct expression *e, enum activation activation, double alpha, uint32_t x)
{
	return unary(e, OP_ACTIVATION, &(struct op_attr){ .activation = activation, .alpha = (float)alpha }, x);
}

uint32_t expression_function(struct expression *e, enum function_mode mode, double alpha, uint32_t x)
{
	return unary(e, OP_FUNCTION, &(struct op_attr){ .mode = mode, .alpha = (float)alpha }, x);
}

uint32_t expression_activation_grad(struct expression *e, enum activation activation, double alpha, uint32_t dy,
				    uint32_t s)
{
	const struct op_attr attr = { .activation = activation, .alpha = (float)alpha };
	return binary(e, OP_ACTIVATION_GRAD, &attr, dy, s);
}

uint32_t expression_fill(struct expression *e, uint32_t like, double value)
{
	const struct op_attr shape = shape_of(e, like);
	return fill(e, shape.rank, shape.extent, value);
}

/* ---- shapes ---- */

uint32_t expression_reshape(struct expression *e, uint32_t x, uint32_t rank, const uint32_t *dim)
{
	struct op_attr attr = { .rank = rank };
	const struct op_attr now = shape_of(e, x);
	if (rank == now.rank && !memcmp(dim, now.extent, rank * sizeof *dim))
		return x;
	memcpy(attr.extent, dim, rank * sizeof *dim);
	return unary(e, OP_RESHAPE, &attr, x);
}

uint32_t expression_reshape_like(struct expression *e, uint32_t x, uint32_t like)
{
	const struct op_attr shape = shape_of(e, like);
	return expression_reshape(e, x, shape.rank, shape.extent);
}

/* As (elements / columns, columns). */
static uint32_t fold(struct expression *e, uint32_t x, uint64_t columns)
{
	if (e->status)
		return TENSOR_NONE;
	uint64_t rows = tensor_elements(&e->graph->tensor[x]) / columns;
	if (rows > UINT32_MAX || columns > UINT32_MAX) {
		e->status = tarn_fail(TARN_EUNSUPPORTED, "%s: %llu rows of %llu are more than 2^32", e->name,
				      (unsigned long long)rows, (unsigned long long)columns);
		return TENSOR_NONE;
	}
	return expression_reshape(e, x, 2, (uint32_t[]){ (uint32_t)rows, (uint32_t)columns });
}

uint32_t expression_matrix(struct expression *e, uint32_t x)
{
	const struct op_attr shape = shape_of(e, x);
	return fold(e, x, shape.rank ? shape.extent[shape.rank - 1] : 1);
}

uint32_t expression_permute(struct expression *e, uint32_t x, uint32_t rank, const uint32_t *axis)
{
	struct op_attr attr = { .rank = rank };
	memcpy(attr.extent, axis, rank * sizeof *axis);
	return unary(e, OP_PERMUTE, &attr, x);
}

uint32_t expression_slice(struct expression *e, uint32_t x, uint32_t axis, uint32_t begin, uint32_t length)
{
	return unary(e, OP_SLICE, &(struct op_attr){ .axis = axis, .begin = begin, .extent = { length } }, x);
}

/* ---- sums and repetition ---- */

uint32_t expression_sum_of_row(struct expression *e, uint32_t x)
{
	const struct op_attr shape = shape_of(e, x);
	return binary(e, OP_MATMUL, NULL, x, fill(e, 2, (uint32_t[]){ shape.extent[1], 1 }, 1));
}

uint32_t expression_repeat_in_row(struct expression *e, uint32_t x, uint32_t columns)
{
	return binary(e, OP_MATMUL, NULL, x, fill(e, 2, (uint32_t[]){ 1, columns }, 1));
}

uint32_t expression_sum_rows(struct expression *e, uint32_t x)
{
	return unary(e, OP_SUM_ROWS, NULL, x);
}

uint32_t expression_repeat_like(struct expression *e, uint32_t x, uint32_t like)
{
	const struct op_attr shape = shape_of(e, like);
	return unary(e, OP_BROADCAST_ROWS, &shape, x);
}

uint32_t expression_total(struct expression *e, uint32_t x)
{
	return expression_sum_rows(e, fold(e, x, 1));
}

uint32_t expression_times_scalar(struct expression *e, uint32_t x, uint32_t scalar)
{
	uint32_t product =
		binary(e, OP_MATMUL, NULL, fold(e, x, 1), expression_reshape(e, scalar, 2, (uint32_t[]){ 1, 1 }));
	return expression_reshape_like(e, product, x);
}
