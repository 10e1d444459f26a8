/* derive_nn.c - derivatives of convolutions, pooling, norms and losses. */
#include "autodiff/derive.h"

/* extent = height and width of an image. */
static void set_extent(struct op_attr *attr, const struct graph *graph, uint32_t image)
{
	attr->extent[0] = graph->tensor[image].dim[1];
	attr->extent[1] = graph->tensor[image].dim[2];
}

/* Window and groups of a convolution, without its activation. */
static struct op_attr convolution_attr(const struct graph *graph, uint32_t op)
{
	const struct op_attr *attr = &graph->op[op].attr;
	return (struct op_attr){ .window = attr->window, .groups = attr->groups };
}

enum tarn_status derive_conv2d(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
			       uint32_t *grad_input)
{
	const uint32_t x = op_inputs(graph, op)[0], w = op_inputs(graph, op)[1];
	const bool bias = graph->op[op].inputs == 3;
	struct op_attr attr = convolution_attr(graph, op);
	uint32_t dy;
	enum tarn_status st = derive_fused_activation(graph, op, grad_output[0], &dy);
	if (!st && wanted[1]) {
		const uint32_t input[2] = { x, dy };
		st = derive_add(graph, op, "weight", OP_CONV2D_GRAD_WEIGHT, &attr, input, 2, &grad_input[1]);
	}
	if (!st && bias && wanted[2])
		st = derive_add(graph, op, "bias", OP_SUM_ROWS, NULL, &dy, 1, &grad_input[2]);
	if (!st && wanted[0]) {
		const uint32_t input[2] = { dy, w };
		set_extent(&attr, graph, x);
		st = derive_add(graph, op, "input", OP_CONV2D_GRAD_INPUT, &attr, input, 2, &grad_input[0]);
	}
	return st;
}

/* dx = G(dy, w) is bilinear and the adjoint of the convolution in dy: with the gradient g of dx,
 * d(dy) = conv(g, w) and dw = grad_weight(g, dy). */
enum tarn_status derive_conv2d_grad_input(struct graph *graph, uint32_t op, const uint32_t *grad_output,
					  const bool *wanted, uint32_t *grad_input)
{
	const uint32_t dy = op_inputs(graph, op)[0], w = op_inputs(graph, op)[1], g = grad_output[0];
	const struct op_attr attr = convolution_attr(graph, op);
	enum tarn_status st = TARN_OK;
	if (wanted[0])
		st = derive_add(graph, op, "gradient", OP_CONV2D, &attr, (uint32_t[]){ g, w }, 2, &grad_input[0]);
	if (!st && wanted[1])
		st = derive_add(graph, op, "weight", OP_CONV2D_GRAD_WEIGHT, &attr, (uint32_t[]){ g, dy }, 2,
				&grad_input[1]);
	return st;
}

/* dw = G(x, dy) is bilinear: with the gradient g of dw, dx = grad_input(dy, g) and d(dy) = conv(x, g). */
enum tarn_status derive_conv2d_grad_weight(struct graph *graph, uint32_t op, const uint32_t *grad_output,
					   const bool *wanted, uint32_t *grad_input)
{
	const uint32_t x = op_inputs(graph, op)[0], dy = op_inputs(graph, op)[1], g = grad_output[0];
	struct op_attr attr = convolution_attr(graph, op);
	enum tarn_status st = TARN_OK;
	if (wanted[1])
		st = derive_add(graph, op, "gradient", OP_CONV2D, &attr, (uint32_t[]){ x, g }, 2, &grad_input[1]);
	set_extent(&attr, graph, x);
	if (!st && wanted[0])
		st = derive_add(graph, op, "input", OP_CONV2D_GRAD_INPUT, &attr, (uint32_t[]){ dy, g }, 2,
				&grad_input[0]);
	return st;
}

enum tarn_status derive_max_pool(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				 uint32_t *grad_input)
{
	struct op_attr attr = graph->op[op].attr;
	const uint32_t input[2] = { grad_output[0], op_outputs(graph, op)[1] };
	set_extent(&attr, graph, op_inputs(graph, op)[0]);
	(void)wanted; /* its only input */
	return derive_add(graph, op, "input", OP_MAX_POOL_GRAD, &attr, input, 2, &grad_input[0]);
}

enum tarn_status derive_avg_pool(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				 uint32_t *grad_input)
{
	struct op_attr attr = graph->op[op].attr;
	set_extent(&attr, graph, op_inputs(graph, op)[0]);
	(void)wanted;
	return derive_add(graph, op, "input", OP_AVG_POOL_GRAD, &attr, grad_output, 1, &grad_input[0]);
}

/* Averaging is linear, so the derivative of its adjoint is the average again. */
enum tarn_status derive_avg_pool_grad(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				      uint32_t *grad_input)
{
	const struct op_attr *forward = &graph->op[op].attr;
	const struct op_attr attr = { .window = forward->window, .count_padding = forward->count_padding };
	(void)wanted;
	return derive_add(graph, op, "input", OP_AVG_POOL, &attr, grad_output, 1, &grad_input[0]);
}

/* mean and var come from BATCH_STATS of the same x. */
static bool normalises_its_batch(const struct graph *graph, uint32_t op)
{
	const uint32_t *input = op_inputs(graph, op);
	const uint32_t producer = graph->tensor[input[1]].producer;
	return producer != OP_NONE && graph->op[producer].kind == OP_BATCH_STATS &&
	       op_inputs(graph, producer)[0] == input[0] && op_outputs(graph, producer)[0] == input[1] &&
	       op_outputs(graph, producer)[1] == input[2];
}

/*
 * With batch statistics BATCH_GRAD_INPUT includes the paths through mean and var (Ioffe, Szegedy 2015, section 3), so
 * BATCH_STATS itself gets no gradient. With running statistics only gamma and beta have a derivative here.
 */
enum tarn_status derive_batch_apply(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				    uint32_t *grad_input)
{
	const struct op_attr *forward = &graph->op[op].attr;
	const struct op_attr attr = { .epsilon = forward->epsilon, .activation = forward->activation };
	uint32_t input[8] = { grad_output[0] };
	for (uint32_t j = 0; j < 5; j++)
		input[1 + j] = op_inputs(graph, op)[j];
	if ((wanted[0] || wanted[1] || wanted[2]) && !normalises_its_batch(graph, op))
		return derive_unsupported(graph, op, "with statistics that are not those of its own input");
	enum tarn_status st = derive_add(graph, op, "weight", OP_BATCH_REDUCE, &attr, input, 6, &input[6]);
	if (st)
		return st;
	if (wanted[3])
		grad_input[3] = input[6];
	if (wanted[4])
		grad_input[4] = input[7];
	if (!wanted[0])
		return TARN_OK;
	return derive_add(graph, op, "input", OP_BATCH_GRAD_INPUT, &attr, input, 8, &grad_input[0]);
}

enum tarn_status derive_layer_norm(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				   uint32_t *grad_input)
{
	const uint32_t x = op_inputs(graph, op)[0], gamma = op_inputs(graph, op)[1], *output = op_outputs(graph, op);
	const uint32_t input[5] = { grad_output[0], x, output[1], output[2], gamma };
	uint32_t parameter[2];
	if (grad_output[1] != TENSOR_NONE || grad_output[2] != TENSOR_NONE)
		return derive_unsupported(graph, op, "by its mean or deviation");
	enum tarn_status st = TARN_OK;
	if (wanted[1] || wanted[2]) {
		st = derive_add(graph, op, "weight", OP_LAYER_NORM_GRAD_PARAM, NULL, input, 4, parameter);
		for (uint32_t j = 0; j < 2 && !st; j++)
			grad_input[1 + j] = wanted[1 + j] ? parameter[j] : TENSOR_NONE;
	}
	if (!st && wanted[0])
		st = derive_add(graph, op, "input", OP_LAYER_NORM_GRAD, NULL, input, 5, &grad_input[0]);
	return st;
}

enum tarn_status derive_cross_entropy(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				      uint32_t *grad_input)
{
	const uint32_t input[3] = { op_inputs(graph, op)[0], op_inputs(graph, op)[1], grad_output[0] };
	const struct op_attr attr = graph->op[op].attr;
	(void)wanted; /* labels are integers */
	return derive_add(graph, op, "input", OP_SOFTMAX_CROSS_ENTROPY_GRAD, &attr, input, 3, &grad_input[0]);
}

enum tarn_status derive_squared_error(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				      uint32_t *grad_input)
{
	const uint32_t input[3] = { op_inputs(graph, op)[0], op_inputs(graph, op)[1], grad_output[0] };
	if (wanted[1])
		return derive_unsupported(graph, op, "by its target");
	return derive_add(graph, op, "input", OP_MEAN_SQUARED_ERROR_GRAD, NULL, input, 3, &grad_input[0]);
}
