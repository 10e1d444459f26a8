/* layers_image.c - transposed and masked convolutions, group norm, resampling, stochastic depth; see layers.h. */
#include "graph/layer_parts.h"

#include <inttypes.h>

/* ---- transposed convolution: the adjoint of a convolution, as a forward op ---- */

/*
 * The convolution from the larger image lacks the columns that a window which is shifted down has behind the last
 * pixel, and needs no row or column in front where its stride steps over them.
 */
static enum tarn_status window_pad_transposed_shift(struct op_attr *attr, const char *name, enum conv_shift shift)
{
	struct window *window = &attr->window;
	if (window->pad_begin[0] || window->pad_begin[1])
		return tarn_fail(TARN_EINVAL, "%s: a shifted window has no padding of its own; leave it out", name);
	for (uint32_t i = 0; i < 2; i++) {
		bool centred = i == 1 && shift == CONV_SHIFT_DOWN;
		uint32_t kernel = window->kernel[i], stride = window->stride[i];
		if (centred && kernel % 2 == 0)
			return tarn_fail(TARN_EINVAL,
					 "%s: a window that is shifted down needs an odd width, not %" PRIu32, name,
					 kernel);
		window->pad_begin[i] = centred ? (kernel - 1) / 2 : 0;
		if (kernel < stride + window->pad_begin[i])
			return tarn_fail(TARN_EINVAL, "%s: a window of %" PRIu32 " leaves gaps at a stride of %" PRIu32,
					 name, kernel, stride);
		/* (extent + begin + end - kernel) / stride + 1 = extent / stride */
		window->pad_end[i] =
			kernel - stride > window->pad_begin[i] ? kernel - stride - window->pad_begin[i] : 0;
	}
	return TARN_OK;
}

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
		uint64_t grown = (uint64_t)tensor_of(net, x)->dim[1 + i] * stride;
		if (options->shift && grown <= UINT32_MAX) {
			attr->extent[i] = (uint32_t)grown;
			continue;
		}
		uint64_t whole =
			(uint64_t)(tensor_of(net, x)->dim[1 + i] - 1) * stride + kernel + options->output_padding[i];
		if (whole <= 2 * (uint64_t)options->padding[i] || whole > UINT32_MAX)
			return tarn_fail(TARN_EINVAL, "%s: padding %" PRIu32 " leaves nothing of %" PRIu64 " elements",
					 name, options->padding[i], whole);
		attr->extent[i] = (uint32_t)(whole - 2 * (uint64_t)options->padding[i]);
	}
	return options->shift ? window_pad_transposed_shift(attr, name, options->shift) : TARN_OK;
}

/*
 * Weights (I, O, KH, KW). With weight norm they are learnt as (O, I, KH, KW), so that the norm is that of each output,
 * as in Salimans et al. 2017.
 */
static enum tarn_status transposed_weight(struct network *net, const char *name, uint32_t channels,
					  const struct conv_transpose_options *options, uint32_t *weight)
{
	const bool norm = options->weight_norm;
	const struct op_attr swap = { .rank = 4, .extent = { 1, 0, 2, 3 } };
	char *text = part_name(net, name, "transposed_weight");
	struct parameter parameter = { .layer = name,
				       .rank = 4,
				       .dim = { norm ? options->channels : channels,
						norm ? channels : options->channels, options->kernel[0],
						options->kernel[1] } };
	if (!text)
		return TARN_ENOMEM;
	enum tarn_status st = add_weight_and_bias(net, &parameter, false, NULL, weight);
	if (!st && norm)
		st = normalise_weight(net, name, NULL, weight);
	return st || !norm ? st : add_unary(net, OP_PERMUTE, text, &swap, *weight, weight);
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
	st = transposed_weight(net, name, tensor_of(net, x)->dim[3], options, &input[1]);
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

enum tarn_status layer_shift(struct network *net, const char *name, uint32_t x, uint32_t axis, uint32_t *y)
{
	enum tarn_status st = need_image(net, name, x);
	if (st)
		return st;
	const uint32_t extent = tensor_of(net, x)->dim[axis];
	const struct op_attr cut = { .axis = axis, .extent = { extent - 1 } };
	const struct op_attr pad = { .axis = axis, .begin = 1, .extent = { extent } };
	char *text = part_name(net, name, "kept");
	if (!text)
		return TARN_ENOMEM;
	if (extent < 2)
		return tarn_fail(TARN_EINVAL, "%s: nothing is left of an image of one row or column that is shifted",
				 name);
	st = add_unary(net, OP_SLICE, text, &cut, x, &x);
	return st ? st : add_unary(net, OP_PAD_AXIS, name, &pad, x, y);
}

enum tarn_status layer_concat_elu(struct network *net, const char *name, uint32_t x, uint32_t *y)
{
	const struct op_attr minus = { .alpha = -1 };
	uint32_t both[2] = { x, TENSOR_NONE };
	char *negative = part_name(net, name, "negative"), *pair = part_name(net, name, "pair");
	if (!negative || !pair)
		return TARN_ENOMEM;
	enum tarn_status st = add_unary(net, OP_SCALE, negative, &minus, x, &both[1]);
	if (!st)
		st = layer_concat(net, pair, both, 2, tensor_of(net, x)->rank - 1u, &x);
	return st ? st : layer_activation(net, name, x, ACTIVATION_ELU, 1, y);
}

enum tarn_status layer_slice(struct network *net, const char *name, uint32_t x, uint32_t axis, uint32_t begin,
			     uint32_t length, uint32_t *y)
{
	const struct op_attr attr = { .axis = axis, .begin = begin, .extent = { length } };
	return add_unary(net, OP_SLICE, name, &attr, x, y);
}
