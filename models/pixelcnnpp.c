/*
 * pixelcnnpp.c - PixelCNN++ (Salimans et al. 2017): the distribution of each pixel from the pixels before it, row by
 * row, as a mixture of logistic distributions (network.loss: logistic_mixture).
 *
 * Two streams: `above` knows the rows above a pixel, `before` also the pixels to its left. On the way down each of
 * `levels` sizes has `resnets` gated residual layers a stream, with convolutions of stride 2 between the sizes; on the
 * way up each layer also reads the layer of the way down that has its size, one more a size but the smallest. A gated
 * residual layer is x + a sigmoid(b) with [a, b] = conv(dropout(elu2(conv(elu2(x)) + conv1x1(elu2(skip))))), where elu2
 * is elu of x and -x side by side. Every convolution is weight-normalised; scales start at 1 instead of being set from
 * a first batch. The paper's network for 32x32 images: levels 3, resnets 5, filters 160, mixtures 10, dropout 50.
 */
#include "models/blocks.h"
#include "models/models.h"

#include <inttypes.h>
#include <stdio.h>

#define NAME_BYTES 96
#define MAX_LEVELS 8

enum { LEVELS, RESNETS, FILTERS, MIXTURES, DROPOUT };

static const struct model_key keys[] = {
	[LEVELS] = { "levels", 1, MAX_LEVELS, 3, "sizes of the image that are worked on" },
	[RESNETS] = { "resnets", 0, 1000, 1, "gated residual layers a size and stream; the paper has 5" },
	[FILTERS] = { "filters", 1, 100000, 24, "channels; the paper has 160" },
	[MIXTURES] = { "mixtures", 1, 1000, 5, "logistic distributions a pixel; the paper has 10" },
	[DROPOUT] = { "dropout", 0, 99, 0, "percent, in each residual layer; the paper has 50" },
};

/* The windows of the two streams. */
static const struct stream {
	const char *name;
	enum conv_shift shift;
	uint32_t kernel[2];
} above = { "above", CONV_SHIFT_DOWN, { 2, 3 } }, before = { "before", CONV_SHIFT_DOWN_RIGHT, { 2, 2 } };

/* A network under construction, and what the way up reads again. */
struct pixelcnnpp {
	struct network *net;
	const uint32_t *value;
	uint32_t *above, *before; /* features of the way down, last first out */
	uint32_t features;
};

static const char *join(char *buffer, const char *scope, const char *part)
{
	snprintf(buffer, NAME_BYTES, "%s%s", scope, part);
	return buffer;
}

static struct conv_options window(const struct stream *stream, uint32_t channels)
{
	return (struct conv_options){ .channels = channels,
				      .kernel = { stream->kernel[0], stream->kernel[1] },
				      .bias = true,
				      .shift = stream->shift,
				      .weight_norm = true };
}

static enum tarn_status add_pointwise(struct network *net, const char *name, uint32_t channels, uint32_t x, uint32_t *y)
{
	const struct conv_options conv = {
		.channels = channels, .kernel = { 1, 1 }, .bias = true, .weight_norm = true
	};
	return layer_conv2d(net, name, x, &conv, y);
}

/* conv(elu2(x)) + conv1x1(elu2(skip)); skip may be TENSOR_NONE. */
static enum tarn_status add_first_half(const struct pixelcnnpp *p, const struct stream *stream, const char *scope,
				       uint32_t x, uint32_t skip, uint32_t *y)
{
	char name[NAME_BYTES];
	const uint32_t filters = p->value[FILTERS];
	const struct conv_options conv = window(stream, filters);
	uint32_t sum[2] = { TENSOR_NONE, TENSOR_NONE };
	enum tarn_status st = layer_concat_elu(p->net, join(name, scope, "elu1"), x, &x);
	if (!st)
		st = layer_conv2d(p->net, join(name, scope, "conv1"), x, &conv, &sum[0]);
	if (!st && skip != TENSOR_NONE)
		st = layer_concat_elu(p->net, join(name, scope, "elu_skip"), skip, &skip);
	if (!st && skip != TENSOR_NONE)
		st = add_pointwise(p->net, join(name, scope, "skip"), filters, skip, &sum[1]);
	if (st)
		return st;
	*y = sum[0];
	return skip == TENSOR_NONE ? TARN_OK : layer_add(p->net, join(name, scope, "sum"), sum, 2, y);
}

static enum tarn_status add_gated_layer(const struct pixelcnnpp *p, const struct stream *stream, const char *scope,
					uint32_t x, uint32_t skip, uint32_t *y)
{
	char name[NAME_BYTES];
	const struct conv_options conv = window(stream, 2 * p->value[FILTERS]);
	uint32_t sum[2] = { x, TENSOR_NONE }, h = TENSOR_NONE;
	enum tarn_status st = add_first_half(p, stream, scope, x, skip, &h);
	if (!st)
		st = layer_concat_elu(p->net, join(name, scope, "elu2"), h, &h);
	if (!st)
		st = layer_dropout(p->net, join(name, scope, "dropout"), h, (float)p->value[DROPOUT] / 100.0f, &h);
	if (!st)
		st = layer_conv2d(p->net, join(name, scope, "conv2"), h, &conv, &h);
	if (!st)
		st = layer_gate(p->net, join(name, scope, "gate"), h, GATE_LINEAR, ACTIVATION_NONE, &sum[1]);
	return st ? st : layer_add(p->net, join(name, scope, "add"), sum, 2, y);
}

static void push(struct pixelcnnpp *p, uint32_t u, uint32_t b)
{
	p->above[p->features] = u;
	p->before[p->features++] = b;
}

/* A convolution whose result is moved by one pixel, so that it does not know the pixel itself. */
static enum tarn_status add_shifted(struct pixelcnnpp *p, const char *scope, const struct conv_options *conv,
				    uint32_t axis, uint32_t x, uint32_t *y)
{
	char name[NAME_BYTES];
	enum tarn_status st = layer_conv2d(p->net, join(name, scope, "conv"), x, conv, &x);
	return st ? st : layer_shift(p->net, join(name, scope, "shift"), x, axis, y);
}

/* The image with a channel of ones, which tells where it ends; rows above, and pixels to the left in the same row. */
static enum tarn_status add_stem(struct pixelcnnpp *p, uint32_t x, uint32_t *u, uint32_t *b)
{
	const struct tensor *image = &p->net->graph->tensor[x];
	const struct op_attr ones = { .rank = 4,
				      .alpha = 1,
				      .extent = { image->dim[0], image->dim[1], image->dim[2], 1 } };
	struct conv_options conv = window(&above, p->value[FILTERS]);
	uint32_t padded[2] = { x, TENSOR_NONE }, part[2] = { TENSOR_NONE, TENSOR_NONE };
	enum tarn_status st = graph_add_op(p->net->graph, OP_FILL, PHASE_FORWARD, "ones", &ones, NULL, 0, &padded[1]);
	if (!st)
		st = layer_concat(p->net, "padded", padded, 2, 3, &x);
	if (!st)
		st = add_shifted(p, "stem/above/", &conv, 1, x, u);
	conv.kernel[0] = 1;
	if (!st)
		st = add_shifted(p, "stem/row_above/", &conv, 1, x, &part[0]);
	conv = window(&before, p->value[FILTERS]);
	conv.kernel[1] = 1;
	if (!st)
		st = add_shifted(p, "stem/left/", &conv, 2, x, &part[1]);
	return st ? st : layer_add(p->net, "stem/before", part, 2, b);
}

/* The layers of one size on the way down; all but the first begin with a convolution of stride 2. */
static enum tarn_status add_down(struct pixelcnnpp *p, uint32_t level, uint32_t *u, uint32_t *b)
{
	char scope[NAME_BYTES / 2], name[NAME_BYTES];
	enum tarn_status st = TARN_OK;
	if (level) {
		struct conv_options half = window(&above, p->value[FILTERS]);
		half.stride[0] = half.stride[1] = 2;
		snprintf(scope, sizeof scope, "down%" PRIu32 "/", level + 1);
		st = layer_conv2d(p->net, join(name, scope, "above/half"), *u, &half, u);
		half = window(&before, p->value[FILTERS]);
		half.stride[0] = half.stride[1] = 2;
		if (!st)
			st = layer_conv2d(p->net, join(name, scope, "before/half"), *b, &half, b);
	}
	if (!st)
		push(p, *u, *b);
	for (uint32_t i = 1; i <= p->value[RESNETS] && !st; i++) {
		snprintf(scope, sizeof scope, "down%" PRIu32 "/above%" PRIu32 "/", level + 1, i);
		st = add_gated_layer(p, &above, scope, *u, TENSOR_NONE, u);
		snprintf(scope, sizeof scope, "down%" PRIu32 "/before%" PRIu32 "/", level + 1, i);
		if (!st)
			st = add_gated_layer(p, &before, scope, *b, *u, b);
		if (!st)
			push(p, *u, *b);
	}
	return st;
}

static enum tarn_status add_twice(struct pixelcnnpp *p, const struct stream *stream, const char *name, uint32_t *x)
{
	const struct conv_transpose_options twice = { .channels = p->value[FILTERS],
						      .kernel = { stream->kernel[0], stream->kernel[1] },
						      .stride = { 2, 2 },
						      .bias = true,
						      .shift = stream->shift,
						      .weight_norm = true };
	return layer_conv_transpose2d(p->net, name, *x, &twice, x);
}

/* The layers of one size on the way up, one for each feature of the way down that is left at that size. */
static enum tarn_status add_up(struct pixelcnnpp *p, uint32_t level, uint32_t layers, uint32_t *u, uint32_t *b)
{
	char scope[NAME_BYTES / 2], name[NAME_BYTES];
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 1; i <= layers && !st; i++) {
		uint32_t skip[2] = { TENSOR_NONE, p->before[--p->features] };
		snprintf(scope, sizeof scope, "up%" PRIu32 "/above%" PRIu32 "/", level + 1, i);
		st = add_gated_layer(p, &above, scope, *u, p->above[p->features], u);
		snprintf(scope, sizeof scope, "up%" PRIu32 "/before%" PRIu32 "/", level + 1, i);
		skip[0] = *u;
		if (!st)
			st = layer_concat(p->net, join(name, scope, "both"), skip, 2, 3, &skip[0]);
		if (!st)
			st = add_gated_layer(p, &before, scope, *b, skip[0], b);
	}
	if (!level || st)
		return st;
	snprintf(name, sizeof name, "up%" PRIu32 "/above/twice", level + 1);
	st = add_twice(p, &above, name, u);
	snprintf(name, sizeof name, "up%" PRIu32 "/before/twice", level + 1);
	return st ? st : add_twice(p, &before, name, b);
}

static enum tarn_status check_image(const struct network *net, uint32_t levels, uint32_t classes, uint32_t x)
{
	const struct tensor *image = &net->graph->tensor[x];
	if (image->rank != 4 || (classes != 1 && classes != 3))
		return tarn_fail(TARN_EINVAL,
				 "it models images with 1 or 3 channels (network.loss: logistic_mixture), "
				 "not samples with %" PRIu32 " dimensions and %" PRIu32 " channels",
				 image->rank - 1u, classes);
	return block_need_halvings(net, levels - 1, x);
}

static enum tarn_status build(struct network *net, const struct model_values *values, uint32_t classes, uint32_t x,
			      uint32_t *y)
{
	const uint32_t *value = values->value, levels = value[LEVELS], resnets = value[RESNETS];
	const size_t features = (size_t)levels * (resnets + 1);
	struct pixelcnnpp p = { .net = net,
				.value = value,
				.above = HOST_ARRAY(net->graph->arena, features, uint32_t),
				.before = HOST_ARRAY(net->graph->arena, features, uint32_t) };
	uint32_t u = TENSOR_NONE, b = TENSOR_NONE;
	if (!p.above || !p.before)
		return TARN_ENOMEM;
	enum tarn_status st = check_image(net, levels, classes, x);
	if (!st)
		st = add_stem(&p, x, &u, &b);
	for (uint32_t level = 0; level < levels && !st; level++)
		st = add_down(&p, level, &u, &b);
	if (!st) {
		u = p.above[--p.features];
		b = p.before[p.features];
	}
	for (uint32_t level = levels; level-- > 0 && !st;)
		st = add_up(&p, level, level + 1 == levels ? resnets : resnets + 1, &u, &b);
	if (!st)
		st = layer_activation(net, "elu", b, ACTIVATION_ELU, 1, &b);
	return st ? st : add_pointwise(net, "output", (classes == 1 ? 3 : 10) * value[MIXTURES], b, y);
}

const struct model_family pixelcnnpp_family = {
	.name = "pixelcnnpp",
	.help = "PixelCNN++: a mixture of logistic distributions for each pixel (network.loss: logistic_mixture)",
	.key = keys,
	.keys = sizeof keys / sizeof keys[0],
	.build = build,
};
