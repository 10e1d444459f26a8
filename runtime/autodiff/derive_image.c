/* derive_image.c - derivatives of group norm, resampling, masked and normalised weights, and image losses. */
#include "autodiff/derive.h"

enum tarn_status derive_group_norm(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				   uint32_t *grad_input)
{
	const uint32_t x = op_inputs(graph, op)[0], gamma = op_inputs(graph, op)[1], *output = op_outputs(graph, op);
	const uint32_t input[5] = { grad_output[0], x, output[1], output[2], gamma };
	const struct op_attr attr = { .groups = graph->op[op].attr.groups };
	uint32_t parameter[2];
	if (grad_output[1] != TENSOR_NONE || grad_output[2] != TENSOR_NONE)
		return derive_unsupported(graph, op, "by its mean or deviation");
	enum tarn_status st = TARN_OK;
	if (wanted[1] || wanted[2]) {
		st = derive_add(graph, op, "weight", OP_GROUP_NORM_GRAD_PARAM, &attr, input, 4, parameter);
		for (uint32_t j = 0; j < 2 && !st; j++)
			grad_input[1 + j] = wanted[1 + j] ? parameter[j] : TENSOR_NONE;
	}
	if (!st && wanted[0])
		st = derive_add(graph, op, "input", OP_GROUP_NORM_GRAD, &attr, input, 5, &grad_input[0]);
	return st;
}

/* Resampling is linear: its adjoint, and the adjoint of that. */
static enum tarn_status derive_adjoint(struct graph *graph, uint32_t op, enum op_kind adjoint, const uint32_t *dy,
				       uint32_t *dx)
{
	const struct tensor *x = &graph->tensor[op_inputs(graph, op)[0]];
	const struct op_attr attr = { .mode = graph->op[op].attr.mode, .extent = { x->dim[1], x->dim[2] } };
	return derive_add(graph, op, "input", adjoint, &attr, dy, 1, dx);
}

enum tarn_status derive_resample(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				 uint32_t *grad_input)
{
	(void)wanted; /* its only input */
	switch (graph->op[op].kind) {
	case OP_UPSAMPLE:
		return derive_adjoint(graph, op, OP_UPSAMPLE_GRAD, grad_output, grad_input);
	case OP_UPSAMPLE_GRAD:
		return derive_adjoint(graph, op, OP_UPSAMPLE, grad_output, grad_input);
	case OP_ADAPTIVE_AVG_POOL:
		return derive_adjoint(graph, op, OP_ADAPTIVE_AVG_POOL_GRAD, grad_output, grad_input);
	default:
		return derive_adjoint(graph, op, OP_ADAPTIVE_AVG_POOL, grad_output, grad_input);
	}
}

enum tarn_status derive_weight_mask(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				    uint32_t *grad_input)
{
	const struct op_attr attr = graph->op[op].attr;
	(void)wanted;
	return derive_add(graph, op, "input", OP_WEIGHT_MASK, &attr, grad_output, 1, grad_input);
}

enum tarn_status derive_weight_norm(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				    uint32_t *grad_input)
{
	const uint32_t input[3] = { grad_output[0], op_inputs(graph, op)[0], op_inputs(graph, op)[1] };
	uint32_t out[2];
	enum tarn_status st = derive_add(graph, op, "input", OP_WEIGHT_NORM_GRAD, NULL, input, 3, out);
	for (uint32_t j = 0; j < 2 && !st; j++)
		grad_input[j] = wanted[j] ? out[j] : TENSOR_NONE;
	return st;
}

static enum tarn_status derive_image_loss(struct graph *graph, uint32_t op, enum op_kind kind, uint32_t dloss,
					  const bool *wanted, uint32_t *grad_input)
{
	const uint32_t input[3] = { op_inputs(graph, op)[0], op_inputs(graph, op)[1], dloss };
	if (wanted[1])
		return derive_unsupported(graph, op, "by its target");
	return derive_add(graph, op, "input", kind, NULL, input, 3, &grad_input[0]);
}

enum tarn_status derive_binary_cross_entropy(struct graph *graph, uint32_t op, const uint32_t *grad_output,
					     const bool *wanted, uint32_t *grad_input)
{
	return derive_image_loss(graph, op, OP_BINARY_CROSS_ENTROPY_GRAD, grad_output[0], wanted, grad_input);
}

enum tarn_status derive_logistic_mixture(struct graph *graph, uint32_t op, const uint32_t *grad_output,
					 const bool *wanted, uint32_t *grad_input)
{
	return derive_image_loss(graph, op, OP_LOGISTIC_MIXTURE_GRAD, grad_output[0], wanted, grad_input);
}
