/*
 * pixelcnn.c - gated PixelCNN (van den Oord et al. 2016): each pixel's class from the pixels before it, row by row.
 *
 * A masked conv7x7 of type A; `layers` gated residual layers: masked conv3x3 of type B to twice the channels, tanh of
 * one half times sigmoid of the other, conv1x1, plus the input; then relu, conv1x1 to twice the channels, relu, conv1x1
 * to the classes.
 */
#include "models/blocks.h"

#include <inttypes.h>
#include <stdio.h>

enum { LAYERS, WIDTH };

static const struct model_key keys[] = {
	[LAYERS] = { "layers", 0, 10000, 12, "gated residual layers" },
	[WIDTH] = { "width", 1, 100000, 64, "channels" },
};

static struct conv_options biased(uint32_t channels, uint32_t kernel, enum conv_mask mask)
{
	struct conv_options conv = block_conv(channels, kernel, 1, kernel / 2);
	conv.bias = true;
	conv.mask = mask;
	return conv;
}

static enum tarn_status add_gated_layer(struct network *net, uint32_t number, uint32_t width, uint32_t x, uint32_t *y)
{
	const struct conv_options wide = biased(2 * width, 3, CONV_MASK_B), mix = biased(width, 1, CONV_MASK_NONE);
	char scope[BLOCK_SCOPE_BYTES], name[BLOCK_NAME_BYTES];
	uint32_t branch = TENSOR_NONE;
	snprintf(scope, sizeof scope, "layer%" PRIu32 "/", number);
	snprintf(name, sizeof name, "%sconv1", scope);
	enum tarn_status st = layer_conv2d(net, name, x, &wide, &branch);
	snprintf(name, sizeof name, "%sgate", scope);
	if (!st)
		st = layer_gate(net, name, branch, GATE_TANH, ACTIVATION_NONE, &branch);
	snprintf(name, sizeof name, "%sconv2", scope);
	if (!st)
		st = layer_conv2d(net, name, branch, &mix, &branch);
	return st ? st : block_add(net, scope, x, branch, y);
}

static enum tarn_status build(struct network *net, const struct model_values *values, uint32_t classes, uint32_t x,
			      uint32_t *y)
{
	const uint32_t width = values->value[WIDTH];
	const struct conv_options first = biased(width, 7, CONV_MASK_A), wide = biased(2 * width, 1, CONV_MASK_NONE);
	const struct conv_options last = biased(classes, 1, CONV_MASK_NONE);
	enum tarn_status st = layer_conv2d(net, "conv1", x, &first, &x);
	for (uint32_t i = 1; i <= values->value[LAYERS] && !st; i++)
		st = add_gated_layer(net, i, width, x, &x);
	if (!st)
		st = block_relu(net, "", "1", x, &x);
	if (!st)
		st = layer_conv2d(net, "conv2", x, &wide, &x);
	if (!st)
		st = block_relu(net, "", "2", x, &x);
	return st ? st : layer_conv2d(net, "output", x, &last, y);
}

const struct model_family pixelcnn_family = {
	.name = "pixelcnn",
	.help = "gated PixelCNN: a class for each pixel from those before it (data.pixel_labels)",
	.key = keys,
	.keys = sizeof keys / sizeof keys[0],
	.build = build,
};
