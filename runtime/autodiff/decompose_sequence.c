/* decompose_sequence.c - attention, gates and recurrent cells as products and activations; the formulas are op.h's. */
#include "autodiff/decompose_rules.h"

#include <math.h>

static const struct tensor *tensor_of(const struct expression *e, uint32_t tensor)
{
	static const struct tensor none = { .rank = 4, .dim = { 1, 1, 1, 1 } };
	return e->status ? &none : &e->graph->tensor[tensor];
}

static uint32_t batch_product(struct expression *e, uint32_t a, uint32_t b, bool transpose_b)
{
	const struct op_attr attr = { .transpose_b = transpose_b };
	return expression_op(e, OP_BATCH_MATMUL, &attr, (uint32_t[]){ a, b }, 2, NULL);
}

/*
 * softmax(alpha q k^T) v. Heads come before positions; the heads that share a group of k and v are rows of one matrix.
 */
void decompose_attention(struct expression *e, const struct op_attr *attr, const uint32_t *in, uint32_t inputs,
			 uint32_t *out)
{
	static const uint32_t swapped[4] = { 0, 2, 1, 3 };
	const struct tensor q = *tensor_of(e, in[0]), k = *tensor_of(e, in[1]);
	uint32_t batch = q.dim[0], queries = q.dim[1], heads = q.dim[2], size = q.dim[3], keys = k.dim[1],
		 groups = k.dim[2], shared = heads / groups;
	const struct op_attr softmax = { .alpha = attr->alpha != 0 ? attr->alpha : 1 / sqrtf((float)size),
					 .causal = attr->causal };
	(void)inputs;
	uint32_t query = expression_permute(e, in[0], 4, swapped);
	query = expression_reshape(e, query, 4, (uint32_t[]){ batch, groups, shared * queries, size });
	uint32_t scores = batch_product(e, query, expression_permute(e, in[1], 4, swapped), true);
	scores = expression_reshape(e, scores, 4, (uint32_t[]){ batch, heads, queries, keys });
	uint32_t weights = expression_op(e, OP_SOFTMAX, &softmax, &scores, 1, NULL);
	weights = expression_reshape(e, weights, 4, (uint32_t[]){ batch, groups, shared * queries, keys });
	uint32_t result = batch_product(e, weights, expression_permute(e, in[2], 4, swapped), false);
	result = expression_reshape(e, result, 4, (uint32_t[]){ batch, heads, queries, size });
	out[0] = expression_permute(e, result, 4, swapped);
}

/* Part `index` of the last axis, which has `parts` of the same length. */
static uint32_t part(struct expression *e, uint32_t x, uint32_t parts, uint32_t index)
{
	const struct tensor *whole = tensor_of(e, x);
	uint32_t axis = whole->rank - 1u, length = whole->dim[axis] / parts;
	return expression_slice(e, x, axis, index * length, length);
}

static uint32_t sigmoid(struct expression *e, uint32_t x)
{
	return expression_activation(e, ACTIVATION_SIGMOID, 0, x);
}

static uint32_t hyperbolic_tangent(struct expression *e, uint32_t x)
{
	return expression_activation(e, ACTIVATION_TANH, 0, x);
}

void decompose_gate(struct expression *e, const struct op_attr *attr, const uint32_t *in, uint32_t inputs,
		    uint32_t *out)
{
	uint32_t a = part(e, in[0], 2, 0), b = part(e, in[0], 2, 1);
	(void)inputs;
	if (attr->mode == GATE_ACTIVATION)
		a = expression_activation(e, (enum activation)attr->activation, (double)attr->alpha, a);
	else
		b = sigmoid(e, b);
	if (attr->mode == GATE_TANH)
		a = hyperbolic_tangent(e, a);
	out[0] = expression_multiply(e, a, b);
}

/* c = sigmoid(f) c_prev + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c) */
void decompose_lstm_cell(struct expression *e, const struct op_attr *attr, const uint32_t *in, uint32_t inputs,
			 uint32_t *out)
{
	(void)attr;
	(void)inputs;
	uint32_t kept = expression_multiply(e, sigmoid(e, part(e, in[0], 4, 1)), in[1]);
	uint32_t added =
		expression_multiply(e, sigmoid(e, part(e, in[0], 4, 0)), hyperbolic_tangent(e, part(e, in[0], 4, 2)));
	out[1] = expression_add(e, kept, added);
	out[0] = expression_multiply(e, sigmoid(e, part(e, in[0], 4, 3)), hyperbolic_tangent(e, out[1]));
}

/* r = sigmoid(x_r + h_r), z = sigmoid(x_z + h_z), n = tanh(x_n + r h_n), h = n + z (h_prev - n) */
void decompose_gru_cell(struct expression *e, const struct op_attr *attr, const uint32_t *in, uint32_t inputs,
			uint32_t *out)
{
	(void)attr;
	(void)inputs;
	uint32_t r = sigmoid(e, expression_add(e, part(e, in[0], 3, 0), part(e, in[1], 3, 0)));
	uint32_t z = sigmoid(e, expression_add(e, part(e, in[0], 3, 1), part(e, in[1], 3, 1)));
	uint32_t reset = expression_multiply(e, r, part(e, in[1], 3, 2));
	uint32_t n = hyperbolic_tangent(e, expression_add(e, part(e, in[0], 3, 2), reset));
	out[0] = expression_add(e, n, expression_multiply(e, z, expression_subtract(e, in[2], n)));
}
