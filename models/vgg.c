/*
 * vgg.c - VGG with batch norm (Simonyan, Zisserman 2015, table 1: A, B, D, E) for images of any size.
 *
 * Five stages of conv3x3, batch norm, relu with width, 2, 4, 8 and 8 width channels, each ended by maxpool2; then
 * dense, relu, dense, relu, dense. Features are flattened in PyTorch's order.
 */
#include "models/blocks.h"

#include <inttypes.h>
#include <stdio.h>

#define STAGES 5

enum { DEPTH, WIDTH, HIDDEN };

static const struct model_key keys[] = {
	[DEPTH] = { "depth", 11, 19, 16, "11, 13, 16 or 19 layers with weights" },
	[WIDTH] = { "width", 1, 10000, 64, "channels of the first stage" },
	[HIDDEN] = { "hidden", 1, 1000000, 512, "features of the two hidden dense layers" },
};

static const struct {
	uint32_t depth, convolutions[STAGES];
} variants[] = {
	{ 11, { 1, 1, 2, 2, 2 } },
	{ 13, { 2, 2, 2, 2, 2 } },
	{ 16, { 2, 2, 3, 3, 3 } },
	{ 19, { 2, 2, 4, 4, 4 } },
};

static enum tarn_status add_stage(struct network *net, uint32_t stage, uint32_t convolutions, uint32_t width,
				  uint32_t x, uint32_t *y)
{
	const struct conv_options conv = block_conv(width << (stage < STAGES ? stage - 1 : STAGES - 2), 3, 1, 1);
	char scope[BLOCK_SCOPE_BYTES], suffix[16], pool[BLOCK_NAME_BYTES];
	enum tarn_status st = TARN_OK;
	snprintf(scope, sizeof scope, "stage%" PRIu32 "/", stage);
	for (uint32_t i = 1; i <= convolutions && !st; i++) {
		snprintf(suffix, sizeof suffix, "%" PRIu32, i);
		st = block_conv_norm_relu(net, scope, suffix, x, &conv, ACTIVATION_RELU, &x);
	}
	snprintf(pool, sizeof pool, "%spool", scope);
	return st ? st : block_max_pool(net, pool, x, 2, 2, 0, y);
}

static enum tarn_status add_head(struct network *net, uint32_t hidden, uint32_t classes, uint32_t x, uint32_t *y)
{
	char name[16], suffix[16];
	enum tarn_status st = layer_flatten(net, "flatten", x, true, &x);
	for (uint32_t i = 1; i <= 2 && !st; i++) {
		snprintf(name, sizeof name, "dense%" PRIu32, i);
		snprintf(suffix, sizeof suffix, "%" PRIu32, i);
		st = layer_dense(net, name, x, hidden, true, NULL, &x);
		if (!st)
			st = block_relu(net, "", suffix, x, &x);
	}
	return st ? st : layer_dense(net, "output", x, classes, true, NULL, y);
}

static enum tarn_status build(struct network *net, const struct model_values *values, uint32_t classes, uint32_t x,
			      uint32_t *y)
{
	const uint32_t count = sizeof variants / sizeof variants[0];
	uint32_t v = 0;
	enum tarn_status st = TARN_OK;
	while (v < count && variants[v].depth != values->value[DEPTH])
		v++;
	if (v == count)
		return tarn_fail(TARN_EINVAL, "depth %" PRIu32 " is not one of 11, 13, 16, 19", values->value[DEPTH]);
	for (uint32_t stage = 1; stage <= STAGES && !st; stage++)
		st = add_stage(net, stage, variants[v].convolutions[stage - 1], values->value[WIDTH], x, &x);
	return st ? st : add_head(net, values->value[HIDDEN], classes, x, y);
}

const struct model_family vgg_family = {
	.name = "vgg",
	.help = "VGG with batch norm",
	.key = keys,
	.keys = sizeof keys / sizeof keys[0],
	.build = build,
};
