/* layers_image.c - transposed and masked convolutions, group norm, resampling, stochastic depth; see layers.h. */
#include "graph/layer_parts.h"

#include <inttypes.h>

/* ---- transposed convolution: the adjoint of a convolution, as a forward op ---- */

/* The image whose convolution with this window has the size of x. */
static enum tarn_status transposed_extent(const struct network *net, const char *name, uint32_t x,
					  const struct conv_transpose_options *options, struct op_attr *attr)
{
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t stride = options->stride[i] ? options->stride[i] : 1, kernel = options->kernel[i];
		if (!kernel)
			return tarn_fail(TARN_EINVAL, "%s: the kernel must be at least 1", name);
		if (options->output_padding[i] >= stride)
			return tarn_fail(TARN_EINVAL,
					 "%s: output_padding %" PRIu32 " must be smaller than the stride of %" PRIu32,
					 name, options->output_padding[i], stride);
		attr->window.kernel[i] = kernel;
		attr->window.stride[i] = stride;
		attr->window.dilation[i] = 1;
		attr->window.pad_begin[i] = attr->window.pad_end[i] = options->padding[i];
		uint64_t whole =
			(uint64_t)(tensor_of(net, x)->dim[1 + i] - 1) * stride + kernel + options->output_padding[i];
		if (whole <= 2 * (uint64_t)options->padding[i] || whole > UINT32_MAX)
			return tarn_fail(TARN_EINVAL, "%s: padding %" PRIu32 " leaves nothing of %" PRIu64 " elements",
					 name, options->padding[i], whole);
		attr->extent[i] = (uint32_t)(whole - 2 * (uint64_t)options->padding[i]);
	}
	return TARN_OK;
}

enum tarn_status layer_conv_transpose2d(struct network *net, const char *name, uint32_t x,
					const struct conv_transpose_options *options, uint32_t *y)
{
	struct op_attr attr = { .groups = 1 };
	uint32_t input[2] = { x, TENSOR_NONE }, sum[2] = { TENSOR_NONE, TENSOR_NONE };
	char *product = part_name(net, name, "product");
	enum tarn_status st = need_image(net, name, x);
	if (st)
		return st;
	st = transposed_extent(net, name, x, options, &attr);
	if (st)
		return st;
	struct parameter weight = { .layer = name,
				    .rank = 4,
				    .dim = { tensor_of(net, x)->dim[3], options->channels, options->kernel[0],
					     options->kernel[1] } };
	st = add_weight_and_bias(net, &weight, false, NULL, &input[1]);
	if (st || !options->bias)
		return st ? st
			  : graph_add_op(net->graph, OP_CONV2D_GRAD_INPUT, PHASE_FORWARD, name, &attr, input, 2, y);
	struct parameter bias = { .layer = name, .part = "bias", .rank = 1, .init = INIT_ZERO };
	bias.dim[0] = options->channels;
	if (!product)
		return TARN_ENOMEM;
	st = add_parameter(net, &bias, &sum[1]);
	if (!st)
		st = graph_add_op(net->graph, OP_CONV2D_GRAD_INPUT, PHASE_FORWARD, product, &attr, input, 2, &sum[0]);
	return st ? st : graph_add_op(net->graph, OP_ADD_BROADCAST, PHASE_FORWARD, name, NULL, sum, 2, y);
}

/* ---- norm and resampling ---- */

enum tarn_status layer_group_norm(struct network *net, const char *name, uint32_t x, uint32_t groups, float epsilon,
				  uint32_t *y)
{
	const struct op_attr attr = { .groups = groups, .epsilon = epsilon };
	const struct tensor *tensor = tensor_of(net, x);
	uint32_t input[3] = { x, TENSOR_NONE, TENSOR_NONE }, out[3];
	if (tensor->rank < 2)
		return fail_layout(net, name, x, "samples x ... x channels");
	enum tarn_status st = add_gamma_and_beta(net, name, tensor->dim[tensor->rank - 1], &input[1]);
	if (!st)
		st = graph_add_op(net->graph, OP_GROUP_NORM, PHASE_FORWARD, name, &attr, input, 3, out);
	if (!st)
		*y = out[0];
	return st;
}

enum tarn_status layer_upsample(struct network *net, const char *name, uint32_t x, const uint32_t *factor,
				enum upsample_mode mode, uint32_t *y)
{
	struct op_attr attr = { .mode = (uint32_t)mode };
	enum tarn_status st = need_image(net, name, x);
	if (st)
		return st;
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t extent = (uint64_t)tensor_of(net, x)->dim[1 + i] * factor[i];
		if (extent > UINT32_MAX)
			return tarn_fail(TARN_EINVAL, "%s: %" PRIu64 " elements are too many", name, extent);
		attr.extent[i] = (uint32_t)extent;
	}
	return add_unary(net, OP_UPSAMPLE, name, &attr, x, y);
}

enum tarn_status layer_adaptive_pool(struct network *net, const char *name, uint32_t x, const uint32_t *size,
				     uint32_t *y)
{
	const struct op_attr attr = { .extent = { size[0], size[1] } };
	enum tarn_status st = need_image(net, name, x);
	return st ? st : add_unary(net, OP_ADAPTIVE_AVG_POOL, name, &attr, x, y);
}

enum tarn_status layer_slice(struct network *net, const char *name, uint32_t x, uint32_t axis, uint32_t begin,
			     uint32_t length, uint32_t *y)
{
	const struct op_attr attr = { .axis = axis, .begin = begin, .extent = { length } };
	return add_unary(net, OP_SLICE, name, &attr, x, y);
}
