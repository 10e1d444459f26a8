/* derive_sequence.c - derivatives of ops that sequence models are made of. */
#include "autodiff/derive.h"

#include <string.h>

/* The shape of a tensor as an attribute. */
static struct op_attr shape_attr(const struct graph *graph, uint32_t tensor)
{
	const struct tensor *x = &graph->tensor[tensor];
	struct op_attr attr = { .rank = x->rank };
	memcpy(attr.extent, x->dim, x->rank * sizeof *x->dim);
	return attr;
}

/* ---- products and sums with fewer dimensions ---- */

/* As derive_matmul, for each matrix; the factor alpha stays. */
enum tarn_status derive_batch_matmul(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				     uint32_t *grad_input)
{
	const struct op_attr forward = graph->op[op].attr;
	const uint32_t a = op_inputs(graph, op)[0], b = op_inputs(graph, op)[1], dc = grad_output[0];
	enum tarn_status st = TARN_OK;
	if (wanted[1]) {
		struct op_attr attr = { .alpha = forward.alpha, .transpose_a = !forward.transpose_a };
		if (forward.transpose_b)
			attr = (struct op_attr){ .alpha = forward.alpha,
						 .transpose_a = 1,
						 .transpose_b = forward.transpose_a };
		const uint32_t input[2] = { forward.transpose_b ? dc : a, forward.transpose_b ? a : dc };
		st = derive_add(graph, op, "second", OP_BATCH_MATMUL, &attr, input, 2, &grad_input[1]);
	}
	if (!st && wanted[0]) {
		struct op_attr attr = { .alpha = forward.alpha, .transpose_b = !forward.transpose_b };
		if (forward.transpose_a)
			attr = (struct op_attr){ .alpha = forward.alpha,
						 .transpose_a = forward.transpose_b,
						 .transpose_b = 1 };
		const uint32_t input[2] = { forward.transpose_a ? b : dc, forward.transpose_a ? dc : b };
		st = derive_add(graph, op, "first", OP_BATCH_MATMUL, &attr, input, 2, &grad_input[0]);
	}
	return st;
}

/* Sums a gradient over its leading dimensions, down to the shape of `small`, which it ends with. */
static enum tarn_status sum_leading(struct graph *graph, uint32_t op, uint32_t gradient, uint32_t small, uint32_t *out)
{
	uint64_t elements = tensor_elements(&graph->tensor[small]);
	uint64_t rows = tensor_elements(&graph->tensor[gradient]) / elements;
	*out = gradient;
	if (graph->tensor[gradient].rank == graph->tensor[small].rank)
		return TARN_OK;
	if (elements > UINT32_MAX || rows > UINT32_MAX)
		return derive_unsupported(graph, op, "over more than 2^32 elements");
	const struct op_attr flat = { .rank = 2, .extent = { (uint32_t)rows, (uint32_t)elements } };
	const struct op_attr shape = shape_attr(graph, small);
	uint32_t sum;
	enum tarn_status st = derive_add(graph, op, "rows", OP_RESHAPE, &flat, &gradient, 1, &sum);
	if (!st)
		st = derive_add(graph, op, "sum", OP_SUM_ROWS, NULL, &sum, 1, &sum);
	if (!st && shape.rank == 1) {
		*out = sum;
		return TARN_OK;
	}
	return st ? st : derive_add(graph, op, "input", OP_RESHAPE, &shape, &sum, 1, out);
}

enum tarn_status derive_sum_rows(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				 uint32_t *grad_input)
{
	const struct op_attr attr = shape_attr(graph, op_inputs(graph, op)[0]);
	(void)wanted; /* its only input */
	return derive_add(graph, op, "input", OP_BROADCAST_ROWS, &attr, grad_output, 1, &grad_input[0]);
}

enum tarn_status derive_add_broadcast(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				      uint32_t *grad_input)
{
	if (wanted[0])
		grad_input[0] = grad_output[0];
	if (!wanted[1])
		return TARN_OK;
	return sum_leading(graph, op, grad_output[0], op_inputs(graph, op)[1], &grad_input[1]);
}

enum tarn_status derive_broadcast_rows(struct graph *graph, uint32_t op, const uint32_t *grad_output,
				       const bool *wanted, uint32_t *grad_input)
{
	(void)wanted;
	return sum_leading(graph, op, grad_output[0], op_inputs(graph, op)[0], &grad_input[0]);
}

/* ---- embedding: linear in the table ---- */

enum tarn_status derive_embedding(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				  uint32_t *grad_input)
{
	const uint32_t *forward = op_inputs(graph, op);
	const struct op_attr attr = { .extent = { graph->tensor[forward[0]].dim[0] } };
	const uint32_t input[2] = { grad_output[0], forward[1] };
	(void)wanted; /* ids are integers */
	return derive_add(graph, op, "weight", OP_EMBEDDING_GRAD, &attr, input, 2, &grad_input[0]);
}

enum tarn_status derive_embedding_grad(struct graph *graph, uint32_t op, const uint32_t *grad_output,
				       const bool *wanted, uint32_t *grad_input)
{
	const uint32_t input[2] = { grad_output[0], op_inputs(graph, op)[1] };
	(void)wanted;
	return derive_add(graph, op, "input", OP_EMBEDDING, NULL, input, 2, &grad_input[0]);
}

/* ---- softmax, attention, positions ---- */

enum tarn_status derive_softmax(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				uint32_t *grad_input)
{
	const struct op_attr attr = graph->op[op].attr;
	const uint32_t input[2] = { grad_output[0], op_outputs(graph, op)[0] };
	enum op_kind kind = graph->op[op].kind == OP_SOFTMAX ? OP_SOFTMAX_GRAD : OP_LOG_SOFTMAX_GRAD;
	(void)wanted;
	return derive_add(graph, op, "input", kind, &attr, input, 2, &grad_input[0]);
}

enum tarn_status derive_attention(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				  uint32_t *grad_input)
{
	const struct op_attr attr = graph->op[op].attr;
	const uint32_t *forward = op_inputs(graph, op), *output = op_outputs(graph, op);
	const uint32_t input[6] = { grad_output[0], forward[0], forward[1], forward[2], output[0], output[1] };
	uint32_t gradient[3];
	if (grad_output[1] != TENSOR_NONE)
		return derive_unsupported(graph, op, "by the logarithm of its sums");
	enum tarn_status st = derive_add(graph, op, "input", OP_ATTENTION_GRAD, &attr, input, 6, gradient);
	for (uint32_t k = 0; k < 3 && !st; k++)
		grad_input[k] = wanted[k] ? gradient[k] : TENSOR_NONE;
	return st;
}

/* A rotation: its inverse is its transpose. */
enum tarn_status derive_rotary(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
			       uint32_t *grad_input)
{
	struct op_attr attr = graph->op[op].attr;
	attr.transpose_a = !attr.transpose_a;
	(void)wanted;
	return derive_add(graph, op, "input", OP_ROTARY, &attr, grad_output, 1, &grad_input[0]);
}

/* ---- norm, gates ---- */

enum tarn_status derive_rms_norm(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				 uint32_t *grad_input)
{
	const uint32_t *forward = op_inputs(graph, op);
	const uint32_t input[4] = { grad_output[0], forward[0], op_outputs(graph, op)[1], forward[1] };
	enum tarn_status st = TARN_OK;
	if (grad_output[1] != TENSOR_NONE)
		return derive_unsupported(graph, op, "by its deviation");
	if (wanted[1])
		st = derive_add(graph, op, "weight", OP_RMS_NORM_GRAD_PARAM, NULL, input, 3, &grad_input[1]);
	if (!st && wanted[0])
		st = derive_add(graph, op, "input", OP_RMS_NORM_GRAD, NULL, input, 4, &grad_input[0]);
	return st;
}

enum tarn_status derive_gate(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
			     uint32_t *grad_input)
{
	const struct op_attr attr = graph->op[op].attr;
	const uint32_t input[2] = { grad_output[0], op_inputs(graph, op)[0] };
	(void)wanted;
	return derive_add(graph, op, "input", OP_GATE_GRAD, &attr, input, 2, &grad_input[0]);
}

/* ---- loss without logits ---- */

enum tarn_status derive_linear_cross_entropy(struct graph *graph, uint32_t op, const uint32_t *grad_output,
					     const bool *wanted, uint32_t *grad_input)
{
	const struct op_attr attr = graph->op[op].attr;
	const uint32_t *forward = op_inputs(graph, op), inputs = graph->op[op].inputs;
	const uint32_t input[6] = { forward[0],     forward[1],
				    forward[2],     op_outputs(graph, op)[1],
				    grad_output[0], inputs == 4 ? forward[3] : TENSOR_NONE };
	uint32_t gradient[3];
	if (grad_output[1] != TENSOR_NONE)
		return derive_unsupported(graph, op, "by the logarithm of its sums");
	enum tarn_status st =
		derive_add(graph, op, "input", OP_LINEAR_CROSS_ENTROPY_GRAD, &attr, input, inputs + 2, gradient);
	if (st)
		return st;
	for (uint32_t k = 0; k < 2; k++)
		grad_input[k] = wanted[k] ? gradient[k] : TENSOR_NONE;
	if (inputs == 4 && wanted[3])
		grad_input[3] = gradient[2];
	return TARN_OK;
}

/* ---- recurrent cells ---- */

enum tarn_status derive_lstm_cell(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				  uint32_t *grad_input)
{
	const uint32_t *forward = op_inputs(graph, op);
	uint32_t input[5] = { grad_output[0], grad_output[1], forward[0], forward[1], op_outputs(graph, op)[1] };
	uint32_t gradient[2];
	enum tarn_status st = TARN_OK;
	if (input[1] == TENSOR_NONE) {
		const struct op_attr zeros = shape_attr(graph, forward[1]);
		st = derive_add(graph, op, "state", OP_FILL, &zeros, NULL, 0, &input[1]);
	}
	if (!st)
		st = derive_add(graph, op, "input", OP_LSTM_CELL_GRAD, NULL, input, 5, gradient);
	for (uint32_t k = 0; k < 2 && !st; k++)
		grad_input[k] = wanted[k] ? gradient[k] : TENSOR_NONE;
	return st;
}

enum tarn_status derive_gru_cell(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				 uint32_t *grad_input)
{
	const uint32_t *forward = op_inputs(graph, op);
	const uint32_t input[4] = { grad_output[0], forward[0], forward[1], forward[2] };
	uint32_t gradient[3];
	enum tarn_status st = derive_add(graph, op, "input", OP_GRU_CELL_GRAD, NULL, input, 4, gradient);
	for (uint32_t k = 0; k < 3 && !st; k++)
		grad_input[k] = wanted[k] ? gradient[k] : TENSOR_NONE;
	return st;
}
