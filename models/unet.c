/*
 * unet.c - U-Net with batch norm (Ronneberger et al. 2015) for a label at each pixel.
 *
 * `levels` levels of width, 2 width, 4 width ... channels, each twice conv3x3 (padding 1), batch norm, relu, with
 * maxpool2 between them; upwards a transposed convolution 2x2 with stride 2 halves the channels, the level's features
 * are put in front of it, and conv3x3, batch norm, relu follow twice; at the end conv1x1 to the classes.
 */
#include "models/blocks.h"

#include <inttypes.h>
#include <stdio.h>

#define MAX_LEVELS 8

enum { LEVELS, WIDTH };

static const struct model_key keys[] = {
	[LEVELS] = { "levels", 1, MAX_LEVELS, 4, "sizes of the image that are worked on" },
	[WIDTH] = { "width", 1, 10000, 16, "channels of the first level" },
};

static enum tarn_status add_level(struct network *net, const char *scope, uint32_t channels, uint32_t x, uint32_t *y)
{
	const struct conv_options conv = block_conv(channels, 3, 1, 1);
	enum tarn_status st = block_conv_norm_relu(net, scope, "1", x, &conv, ACTIVATION_RELU, &x);
	return st ? st : block_conv_norm_relu(net, scope, "2", x, &conv, ACTIVATION_RELU, y);
}

/* The way back: twice the size, the features of the way down beside it. */
static enum tarn_status add_up(struct network *net, const char *scope, uint32_t channels, uint32_t skip, uint32_t x,
			       uint32_t *y)
{
	const struct conv_transpose_options twice = {
		.channels = channels, .kernel = { 2, 2 }, .stride = { 2, 2 }, .bias = true
	};
	char name[BLOCK_NAME_BYTES];
	uint32_t joined[2] = { skip, TENSOR_NONE };
	snprintf(name, sizeof name, "%sup", scope);
	enum tarn_status st = layer_conv_transpose2d(net, name, x, &twice, &joined[1]);
	snprintf(name, sizeof name, "%sconcat", scope);
	if (!st)
		st = layer_concat(net, name, joined, 2, 3, &x);
	return st ? st : add_level(net, scope, channels, x, y);
}

static enum tarn_status build(struct network *net, const struct model_values *values, uint32_t classes, uint32_t x,
			      uint32_t *y)
{
	const uint32_t levels = values->value[LEVELS], width = values->value[WIDTH];
	struct conv_options last = block_conv(classes, 1, 1, 0);
	uint32_t feature[MAX_LEVELS];
	char scope[BLOCK_SCOPE_BYTES], name[BLOCK_NAME_BYTES];
	last.bias = true;
	enum tarn_status st = block_need_halvings(net, levels - 1, x);
	for (uint32_t level = 0; level < levels && !st; level++) {
		snprintf(scope, sizeof scope, "down%" PRIu32 "/", level + 1);
		snprintf(name, sizeof name, "%spool", scope);
		if (level)
			st = block_max_pool(net, name, x, 2, 2, 0, &x);
		if (!st)
			st = add_level(net, scope, width << level, x, &x);
		feature[level] = x;
	}
	for (uint32_t level = levels - 1; level-- > 0 && !st;) {
		snprintf(scope, sizeof scope, "up%" PRIu32 "/", level + 1);
		st = add_up(net, scope, width << level, feature[level], x, &x);
	}
	return st ? st : layer_conv2d(net, "output", x, &last, y);
}

const struct model_family unet_family = {
	.name = "unet",
	.help = "U-Net with batch norm: a class for each pixel (data.pixel_labels)",
	.key = keys,
	.keys = sizeof keys / sizeof keys[0],
	.build = build,
};
