/*
 * mobilenetv2.c - MobileNetV2 (Sandler et al. 2018, table 2) with the strides of small images by default.
 *
 * conv3x3, batch norm, relu6; inverted residuals: conv1x1 to t times the channels, depthwise conv3x3, conv1x1 without
 * activation, each with batch norm, plus the input where stride and channels allow it; conv1x1 to 1280, batch norm,
 * relu6; global average pooling, dense.
 */
#include "models/blocks.h"

#include <inttypes.h>
#include <stdio.h>

enum { WIDTH, STEM_STRIDE };

static const struct model_key keys[] = {
	[WIDTH] = { "width_percent", 10, 1000, 100,
		    "width multiplier in percent; channels are rounded to multiples of 8" },
	[STEM_STRIDE] = { "stem_stride", 1, 2, 1, "stride of the first convolution; 2 for images of 224" },
};

static const struct {
	uint32_t expansion, channels, repeats, stride;
} stages[] = {
	{ 1, 16, 1, 1 }, { 6, 24, 2, 2 },  { 6, 32, 3, 2 },  { 6, 64, 4, 2 },
	{ 6, 96, 3, 1 }, { 6, 160, 3, 2 }, { 6, 320, 1, 1 },
};

/* To the nearest multiple of 8, but not more than a tenth below. */
static uint32_t scaled(uint32_t channels, uint32_t percent)
{
	uint32_t exact = channels * percent / 100, rounded = (exact + 4) / 8 * 8;
	if (rounded < 8)
		rounded = 8;
	return 10 * (uint64_t)rounded < 9 * (uint64_t)exact ? rounded + 8 : rounded;
}

static enum tarn_status add_inverted_residual(struct network *net, const char *scope, uint32_t expansion,
					      uint32_t channels, uint32_t stride, uint32_t x, uint32_t *y)
{
	const uint32_t inputs = net->graph->tensor[x].dim[3], wide = inputs * expansion;
	const struct conv_options expand = block_conv(wide, 1, 1, 0), project = block_conv(channels, 1, 1, 0);
	struct conv_options depthwise = block_conv(wide, 3, stride, 1);
	uint32_t main_path = x;
	enum tarn_status st = TARN_OK;
	depthwise.groups = wide;
	if (expansion > 1)
		st = block_conv_norm_relu(net, scope, "_expand", x, &expand, ACTIVATION_RELU6, &main_path);
	if (!st)
		st = block_conv_norm_relu(net, scope, "_depthwise", main_path, &depthwise, ACTIVATION_RELU6,
					  &main_path);
	if (!st)
		st = block_conv_norm(net, scope, "_project", main_path, &project, &main_path);
	*y = main_path;
	if (!st && stride == 1 && inputs == channels)
		st = block_add(net, scope, x, main_path, y);
	return st;
}

static enum tarn_status build(struct network *net, const struct model_values *values, uint32_t classes, uint32_t x,
			      uint32_t *y)
{
	const uint32_t percent = values->value[WIDTH];
	const struct conv_options stem = block_conv(scaled(32, percent), 3, values->value[STEM_STRIDE], 1);
	const struct conv_options last = block_conv(scaled(1280, percent > 100 ? percent : 100), 1, 1, 0);
	uint32_t number = 0;
	enum tarn_status st = block_conv_norm_relu(net, "", "1", x, &stem, ACTIVATION_RELU6, &x);
	for (uint32_t s = 0; s < sizeof stages / sizeof stages[0]; s++)
		for (uint32_t i = 0; i < stages[s].repeats && !st; i++) {
			char scope[BLOCK_SCOPE_BYTES];
			snprintf(scope, sizeof scope, "block%" PRIu32 "/", ++number);
			st = add_inverted_residual(net, scope, stages[s].expansion, scaled(stages[s].channels, percent),
						   i ? 1 : stages[s].stride, x, &x);
		}
	if (!st)
		st = block_conv_norm_relu(net, "", "_last", x, &last, ACTIVATION_RELU6, &x);
	return st ? st : block_classifier(net, x, classes, y);
}

const struct model_family mobilenetv2_family = {
	.name = "mobilenetv2",
	.help = "MobileNetV2: inverted residuals with depthwise convolutions",
	.key = keys,
	.keys = sizeof keys / sizeof keys[0],
	.build = build,
};
