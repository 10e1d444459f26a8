/* decompose_norm.c - norms as sums and powers; the formulas are those of op.h. */
#include "autodiff/decompose_rules.h"

static const struct tensor *tensor_of(const struct expression *e, uint32_t tensor)
{
	static const struct tensor none = { .rank = 1, .dim = { 1 } };
	return e->status ? &none : &e->graph->tensor[tensor];
}

/* 1 / sqrt(x + epsilon) */
static uint32_t inverse_root(struct expression *e, uint32_t x, float epsilon)
{
	return expression_function(e, FUNCTION_POWER, -0.5, expression_add_constant(e, x, (double)epsilon));
}

/* x - mean, which is a vector as long as x's last dimension. */
static uint32_t subtract_vector(struct expression *e, uint32_t x, uint32_t vector)
{
	return expression_op(e, OP_ADD_BROADCAST, NULL, (uint32_t[]){ x, expression_scale(e, vector, -1) }, 2, NULL);
}

/* The mean over the rows, a vector. */
static uint32_t mean_of_rows(struct expression *e, uint32_t x)
{
	return expression_scale(e, expression_sum_rows(e, x), 1 / (double)tensor_rows(tensor_of(e, x)));
}

void decompose_batch_stats(struct expression *e, const struct op_attr *attr, const uint32_t *in, uint32_t inputs,
			   uint32_t *out)
{
	(void)attr;
	(void)inputs;
	out[0] = mean_of_rows(e, in[0]);
	uint32_t centred = subtract_vector(e, in[0], out[0]);
	out[1] = mean_of_rows(e, expression_multiply(e, centred, centred));
}

/* gamma and beta for each channel, the last dimension. */
static uint32_t scale_and_shift(struct expression *e, uint32_t x, uint32_t gamma, uint32_t beta)
{
	uint32_t scaled = expression_multiply(e, x, expression_repeat_like(e, gamma, x));
	if (beta == TENSOR_NONE)
		return scaled;
	return expression_op(e, OP_ADD_BROADCAST, NULL, (uint32_t[]){ scaled, beta }, 2, NULL);
}

void decompose_batch_apply(struct expression *e, const struct op_attr *attr, const uint32_t *in, uint32_t inputs,
			   uint32_t *out)
{
	(void)inputs;
	uint32_t centred = subtract_vector(e, in[0], in[1]);
	uint32_t factor = expression_multiply(e, in[3], inverse_root(e, in[2], attr->epsilon));
	out[0] = scale_and_shift(e, centred, factor, in[4]);
	if (attr->activation != ACTIVATION_NONE)
		out[0] = expression_activation(e, (enum activation)attr->activation, 0, out[0]);
}

/* Each row of a matrix times its own 1 / sqrt(mean square + epsilon). */
static uint32_t divide_by_root(struct expression *e, uint32_t x, float epsilon)
{
	uint32_t columns = tensor_of(e, x)->dim[1];
	uint32_t square = expression_sum_of_row(e, expression_multiply(e, x, x));
	uint32_t factor = inverse_root(e, expression_scale(e, square, 1.0 / columns), epsilon);
	return expression_multiply(e, x, expression_repeat_in_row(e, factor, columns));
}

/* Each row of a matrix with mean 0 and variance 1. */
static uint32_t normalise_rows(struct expression *e, uint32_t x, float epsilon)
{
	uint32_t columns = tensor_of(e, x)->dim[1];
	uint32_t mean = expression_scale(e, expression_sum_of_row(e, x), 1.0 / columns);
	uint32_t centred = expression_subtract(e, x, expression_repeat_in_row(e, mean, columns));
	return divide_by_root(e, centred, epsilon);
}

void decompose_layer_norm(struct expression *e, const struct op_attr *attr, const uint32_t *in, uint32_t inputs,
			  uint32_t *out)
{
	(void)inputs;
	uint32_t rows = normalise_rows(e, expression_matrix(e, in[0]), attr->epsilon);
	out[0] = scale_and_shift(e, expression_reshape_like(e, rows, in[0]), in[1], in[2]);
}

void decompose_rms_norm(struct expression *e, const struct op_attr *attr, const uint32_t *in, uint32_t inputs,
			uint32_t *out)
{
	(void)inputs;
	uint32_t rows = divide_by_root(e, expression_matrix(e, in[0]), attr->epsilon);
	out[0] = scale_and_shift(e, expression_reshape_like(e, rows, in[0]), in[1], TENSOR_NONE);
}

/* The numbers of a group, positions x channels, lie side by side only after the groups have come before the positions.
 */
void decompose_group_norm(struct expression *e, const struct op_attr *attr, const uint32_t *in, uint32_t inputs,
			  uint32_t *out)
{
	static const uint32_t swapped[4] = { 0, 2, 1, 3 };
	const struct tensor x = *tensor_of(e, in[0]);
	uint32_t samples = x.dim[0], channels = x.dim[x.rank - 1], groups = attr->groups ? attr->groups : 1;
	uint32_t positions = (uint32_t)(tensor_elements(&x) / samples / channels), each = channels / groups;
	(void)inputs;
	uint32_t y = expression_reshape(e, in[0], 4, (uint32_t[]){ samples, positions, groups, each });
	y = expression_permute(e, y, 4, swapped);
	y = expression_reshape(e, y, 2, (uint32_t[]){ samples * groups, positions * each });
	y = normalise_rows(e, y, attr->epsilon);
	y = expression_reshape(e, y, 4, (uint32_t[]){ samples, groups, positions, each });
	y = expression_permute(e, y, 4, swapped);
	out[0] = scale_and_shift(e, expression_reshape_like(e, y, in[0]), in[1], in[2]);
}

void decompose_weight_norm(struct expression *e, const struct op_attr *attr, const uint32_t *in, uint32_t inputs,
			   uint32_t *out)
{
	const struct tensor v = *tensor_of(e, in[0]);
	uint32_t outputs = v.dim[0], each = (uint32_t)(tensor_elements(&v) / outputs);
	(void)attr;
	(void)inputs;
	uint32_t rows = expression_reshape(e, in[0], 2, (uint32_t[]){ outputs, each });
	uint32_t square = expression_sum_of_row(e, expression_multiply(e, rows, rows));
	uint32_t length = expression_reshape(e, in[1], 2, (uint32_t[]){ outputs, 1 });
	uint32_t factor = expression_multiply(e, length, expression_function(e, FUNCTION_POWER, -0.5, square));
	rows = expression_multiply(e, rows, expression_repeat_in_row(e, factor, each));
	out[0] = expression_reshape_like(e, rows, in[0]);
}
