/*
 * expression.h - formulas written as ops; internal to autodiff/.
 *
 * A function for each operation appends an op and returns the id of its result, so that a formula reads as one:
 *     y = expression_multiply(&e, expression_subtract(&e, x, m), r);
 * The first failure is kept in `status`; everything after it appends nothing and returns TENSOR_NONE. Rows and columns
 * are those of a matrix (R,C); a column vector is (R,1). Gradients of these ops are written in these ops.
 */
#ifndef TARN_AUTODIFF_EXPRESSION_H
#define TARN_AUTODIFF_EXPRESSION_H

#include "graph/graph.h"

struct expression {
	struct graph *graph;
	enum op_phase phase;
	const char *name; /* ops are called "<name>/<kind>" */
	enum tarn_status status;
};

/* On behalf of an op: a formula of its derivative, "<op>/gradient", or of what takes its place. */
struct expression expression_of_gradient(struct graph *graph, uint32_t op);

/* Any op of the table; outputs beyond the first go to out[1 ..] when `out` is not NULL. */
uint32_t expression_op(struct expression *e, enum op_kind kind, const struct op_attr *attr, const uint32_t *input,
		       uint32_t inputs, uint32_t *out);

/* Element by element. */
uint32_t expression_add(struct expression *e, uint32_t a, uint32_t b);
uint32_t expression_subtract(struct expression *e, uint32_t a, uint32_t b);
uint32_t expression_multiply(struct expression *e, uint32_t a, uint32_t b);
uint32_t expression_scale(struct expression *e, uint32_t x, double factor);
uint32_t expression_add_constant(struct expression *e, uint32_t x, double constant);
uint32_t expression_activation(struct expression *e, enum activation activation, double alpha, uint32_t x);
uint32_t expression_function(struct expression *e, enum function_mode mode, double alpha, uint32_t x);
/* dy times the derivative of the activation at s (op.h: its input or its output). */
uint32_t expression_activation_grad(struct expression *e, enum activation activation, double alpha, uint32_t dy,
				    uint32_t s);
/* A constant of the shape of `like`. */
uint32_t expression_fill(struct expression *e, uint32_t like, double value);

/* Other shapes of the same numbers. */
uint32_t expression_reshape(struct expression *e, uint32_t x, uint32_t rank, const uint32_t *dim);
uint32_t expression_reshape_like(struct expression *e, uint32_t x, uint32_t like);
/* (rows, last dimension); rows may be one. */
uint32_t expression_matrix(struct expression *e, uint32_t x);
uint32_t expression_permute(struct expression *e, uint32_t x, uint32_t rank, const uint32_t *axis);
uint32_t expression_slice(struct expression *e, uint32_t x, uint32_t axis, uint32_t begin, uint32_t length);

/* (R,C) -> (R,1), the sum of each row; and back, each number of (R,1) `columns` times. */
uint32_t expression_sum_of_row(struct expression *e, uint32_t x);
uint32_t expression_repeat_in_row(struct expression *e, uint32_t x, uint32_t columns);
/* All dimensions but the last are summed; a vector is repeated to the shape of `like`, whose end it is. */
uint32_t expression_sum_rows(struct expression *e, uint32_t x);
uint32_t expression_repeat_like(struct expression *e, uint32_t x, uint32_t like);
/* The sum of all elements, shape (1); times a number of shape (1). */
uint32_t expression_total(struct expression *e, uint32_t x);
uint32_t expression_times_scalar(struct expression *e, uint32_t x, uint32_t scalar);

#endif
