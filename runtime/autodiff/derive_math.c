/* derive_math.c - derivatives of matrix products, element-wise ops and ops that move data. */
#include "autodiff/derive.h"

#include <string.h>

/*
 * C = A' B' + bias with A' = A or its transpose, B' likewise. dA' = dC B'^T, dB' = A'^T dC; for a transposed operand
 * the whole product is transposed: dA = B' dC^T, dB = dC^T A'.
 */
enum tarn_status derive_matmul(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
			       uint32_t *grad_input)
{
	const struct op_attr forward = graph->op[op].attr;
	const uint32_t a = op_inputs(graph, op)[0], b = op_inputs(graph, op)[1];
	const bool bias = graph->op[op].inputs == 3;
	uint32_t dc;
	enum tarn_status st = derive_fused_activation(graph, op, grad_output[0], &dc);
	if (!st && wanted[1]) {
		const struct op_attr attr =
			forward.transpose_b ? (struct op_attr){ .transpose_a = 1, .transpose_b = forward.transpose_a }
					    : (struct op_attr){ .transpose_a = !forward.transpose_a };
		const uint32_t input[2] = { forward.transpose_b ? dc : a, forward.transpose_b ? a : dc };
		st = derive_add(graph, op, "weight", OP_MATMUL, &attr, input, 2, &grad_input[1]);
	}
	if (!st && bias && wanted[2])
		st = derive_add(graph, op, "bias", OP_SUM_ROWS, NULL, &dc, 1, &grad_input[2]);
	if (!st && wanted[0]) {
		const struct op_attr attr =
			forward.transpose_a ? (struct op_attr){ .transpose_a = forward.transpose_b, .transpose_b = 1 }
					    : (struct op_attr){ .transpose_b = !forward.transpose_b };
		const uint32_t input[2] = { forward.transpose_a ? b : dc, forward.transpose_a ? dc : b };
		st = derive_add(graph, op, "input", OP_MATMUL, &attr, input, 2, &grad_input[0]);
	}
	return st;
}

enum tarn_status derive_activation(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				   uint32_t *grad_input)
{
	const struct op_attr attr = graph->op[op].attr;
	bool reads_output = activation_grad_reads_output((enum activation)attr.activation);
	const uint32_t input[2] = { grad_output[0], reads_output ? op_outputs(graph, op)[0] : op_inputs(graph, op)[0] };
	(void)wanted; /* its only input */
	return derive_add(graph, op, "input", OP_ACTIVATION_GRAD, &attr, input, 2, &grad_input[0]);
}

/* Both inputs get the same tensor: no copy. */
enum tarn_status derive_add_op(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
			       uint32_t *grad_input)
{
	uint32_t dz;
	enum tarn_status st = derive_fused_activation(graph, op, grad_output[0], &dz);
	for (uint32_t j = 0; j < 2 && !st; j++)
		if (wanted[j])
			grad_input[j] = dz;
	return st;
}

enum tarn_status derive_multiply(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				 uint32_t *grad_input)
{
	enum tarn_status st = TARN_OK;
	for (uint32_t j = 0; j < 2 && !st; j++) {
		const uint32_t input[2] = { grad_output[0], op_inputs(graph, op)[1 - j] };
		if (wanted[j])
			st = derive_add(graph, op, "input", OP_MULTIPLY, NULL, input, 2, &grad_input[j]);
	}
	return st;
}

enum tarn_status derive_scale(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
			      uint32_t *grad_input)
{
	const struct op_attr attr = graph->op[op].attr;
	(void)wanted;
	return derive_add(graph, op, "input", OP_SCALE, &attr, grad_output, 1, &grad_input[0]);
}

/* Rounding counts as the identity. */
enum tarn_status derive_cast(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
			     uint32_t *grad_input)
{
	const struct op_attr attr = { .mode = graph->tensor[op_inputs(graph, op)[0]].dtype };
	(void)wanted;
	return derive_add(graph, op, "input", OP_CAST, &attr, grad_output, 1, &grad_input[0]);
}

/* Linear in x: its own derivative. */
enum tarn_status derive_label_share(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				    uint32_t *grad_input)
{
	const struct op_attr attr = graph->op[op].attr;
	const uint32_t input[3] = { grad_output[0], op_inputs(graph, op)[1], op_inputs(graph, op)[2] };
	(void)wanted;
	return derive_add(graph, op, "input", OP_LABEL_SHARE, &attr, input, 3, &grad_input[0]);
}

/* The mask depends on the attributes and the step alone, so the op is its own derivative. */
enum tarn_status derive_dropout(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				uint32_t *grad_input)
{
	const struct op_attr attr = graph->op[op].attr;
	const uint32_t input[2] = { grad_output[0], op_inputs(graph, op)[1] };
	(void)wanted;
	return derive_add(graph, op, "input", OP_DROPOUT, &attr, input, 2, &grad_input[0]);
}

enum tarn_status derive_concat(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
			       uint32_t *grad_input)
{
	struct op_attr attr = { .axis = graph->op[op].attr.axis };
	const uint32_t inputs = graph->op[op].inputs;
	for (uint32_t j = 0; j < inputs; j++) {
		attr.extent[0] = graph->tensor[op_inputs(graph, op)[j]].dim[attr.axis];
		if (wanted[j]) {
			enum tarn_status st =
				derive_add(graph, op, "input", OP_SLICE, &attr, grad_output, 1, &grad_input[j]);
			if (st)
				return st;
		}
		attr.begin += attr.extent[0];
	}
	return TARN_OK;
}

enum tarn_status derive_slice(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
			      uint32_t *grad_input)
{
	struct op_attr attr = graph->op[op].attr;
	attr.extent[0] = graph->tensor[op_inputs(graph, op)[0]].dim[attr.axis];
	(void)wanted;
	return derive_add(graph, op, "input", OP_PAD_AXIS, &attr, grad_output, 1, &grad_input[0]);
}

enum tarn_status derive_pad_axis(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				 uint32_t *grad_input)
{
	struct op_attr attr = graph->op[op].attr;
	attr.extent[0] = graph->tensor[op_inputs(graph, op)[0]].dim[attr.axis];
	(void)wanted;
	return derive_add(graph, op, "input", OP_SLICE, &attr, grad_output, 1, &grad_input[0]);
}

enum tarn_status derive_reshape(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				uint32_t *grad_input)
{
	const struct tensor *x = &graph->tensor[op_inputs(graph, op)[0]];
	struct op_attr attr = { .rank = x->rank };
	memcpy(attr.extent, x->dim, x->rank * sizeof *x->dim);
	(void)wanted;
	return derive_add(graph, op, "input", OP_RESHAPE, &attr, grad_output, 1, &grad_input[0]);
}

/* The inverse permutation. */
enum tarn_status derive_permute(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				uint32_t *grad_input)
{
	const struct op_attr *forward = &graph->op[op].attr;
	struct op_attr attr = { .rank = forward->rank };
	for (uint32_t i = 0; i < forward->rank; i++)
		attr.extent[forward->extent[i]] = i;
	(void)wanted;
	return derive_add(graph, op, "input", OP_PERMUTE, &attr, grad_output, 1, &grad_input[0]);
}
