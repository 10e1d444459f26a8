/*
 * autoencoder.c - a convolutional autoencoder (Hinton, Salakhutdinov 2006, with convolutions): the result has the shape
 * of the input and is compared with it (network.target: input).
 *
 * `levels` times conv3x3 with stride 2, batch norm, relu, to width, 2 width, 4 width ... channels; conv1x1 to the
 * `code`; back by transposed convolutions 2x2 with stride 2, batch norm, relu; conv3x3 to the channels of the input.
 */
#include "models/blocks.h"

#include <inttypes.h>
#include <stdio.h>

#define MAX_LEVELS 8

enum { LEVELS, WIDTH, CODE };

static const struct model_key keys[] = {
	[LEVELS] = { "levels", 1, MAX_LEVELS, 2, "how often height and width are halved" },
	[WIDTH] = { "width", 1, 10000, 16, "channels of the first level" },
	[CODE] = { "code", 1, 100000, 8, "channels of the smallest image" },
};

static enum tarn_status add_up(struct network *net, const char *scope, uint32_t channels, uint32_t x, uint32_t *y)
{
	const struct conv_transpose_options twice = { .channels = channels, .kernel = { 2, 2 }, .stride = { 2, 2 } };
	char name[BLOCK_NAME_BYTES];
	snprintf(name, sizeof name, "%sup", scope);
	enum tarn_status st = layer_conv_transpose2d(net, name, x, &twice, &x);
	if (!st)
		st = block_norm(net, scope, "", x, &x);
	return st ? st : block_relu(net, scope, "", x, y);
}

static enum tarn_status build(struct network *net, const struct model_values *values, uint32_t classes, uint32_t x,
			      uint32_t *y)
{
	const uint32_t levels = values->value[LEVELS], width = values->value[WIDTH];
	struct conv_options code = block_conv(values->value[CODE], 1, 1, 0), last = block_conv(classes, 3, 1, 1);
	char scope[BLOCK_SCOPE_BYTES];
	code.bias = last.bias = true;
	enum tarn_status st = block_need_halvings(net, levels, x);
	for (uint32_t level = 0; level < levels && !st; level++) {
		const struct conv_options conv = block_conv(width << level, 3, 2, 1);
		snprintf(scope, sizeof scope, "down%" PRIu32 "/", level + 1);
		st = block_conv_norm_relu(net, scope, "", x, &conv, ACTIVATION_RELU, &x);
	}
	if (!st)
		st = layer_conv2d(net, "code", x, &code, &x);
	for (uint32_t level = levels; level-- > 0 && !st;) {
		snprintf(scope, sizeof scope, "up%" PRIu32 "/", level + 1);
		st = add_up(net, scope, width << level, x, &x);
	}
	return st ? st : layer_conv2d(net, "output", x, &last, y);
}

const struct model_family autoencoder_family = {
	.name = "autoencoder",
	.help = "convolutional autoencoder (network.target: input)",
	.key = keys,
	.keys = sizeof keys / sizeof keys[0],
	.build = build,
};
