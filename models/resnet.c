/*
 * resnet.c - residual networks (He et al. 2016).
 *
 * resnet, for small images (section 4.2), depth = 6n + 2: conv3x3, batch norm, relu; three stages of n blocks with
 * width, 2 width and 4 width channels; global average pooling, dense.
 *
 * resnet_imagenet, for large ones (section 4.1), depth 18, 34, 50, 101 or 152: conv7x7 with stride 2, batch norm, relu,
 * maxpool3 with stride 2; four stages with width, 2, 4 and 8 width channels; global average pooling, dense.
 *
 * A basic block is conv3x3, batch norm, relu, conv3x3, batch norm; a bottleneck (depth 50 and above) is conv1x1,
 * conv3x3, conv1x1 to four times the channels, each with batch norm, the stride on the conv3x3 as in torchvision. Then
 * the shortcut is added, then relu. Where stride or channels change the shortcut is conv1x1 and batch norm, whose
 * parameters come after those of the main path.
 */
#include "models/blocks.h"

#include <inttypes.h>
#include <stdio.h>

#define STAGES 4

enum { DEPTH, WIDTH };

static const struct model_key small_keys[] = {
	[DEPTH] = { "depth", 8, 100000, 20, "6n + 2 layers: 20, 32, 44, 56, 110 ..." },
	[WIDTH] = { "width", 1, 100000, 16, "channels of the first stage" },
};

static const struct model_key imagenet_keys[] = {
	[DEPTH] = { "depth", 18, 152, 50, "18 or 34 (basic blocks), 50, 101 or 152 (bottlenecks)" },
	[WIDTH] = { "width", 1, 10000, 64, "channels of the first stage" },
};

struct residual {
	uint32_t channels, stride;
	bool bottleneck;
};

static uint32_t residual_outputs(const struct residual *r)
{
	return r->bottleneck ? 4 * r->channels : r->channels;
}

static enum tarn_status add_main_path(struct network *net, const char *scope, const struct residual *r, uint32_t x,
				      uint32_t *y)
{
	const struct conv_options reduce = block_conv(r->channels, 1, 1, 0);
	const struct conv_options strided = block_conv(r->channels, 3, r->stride, 1);
	const struct conv_options last =
		r->bottleneck ? block_conv(residual_outputs(r), 1, 1, 0) : block_conv(r->channels, 3, 1, 1);
	enum tarn_status st = TARN_OK;
	if (r->bottleneck)
		st = block_conv_norm_relu(net, scope, "1", x, &reduce, ACTIVATION_RELU, &x);
	if (!st)
		st = block_conv_norm_relu(net, scope, r->bottleneck ? "2" : "1", x, &strided, ACTIVATION_RELU, &x);
	return st ? st : block_conv_norm(net, scope, r->bottleneck ? "3" : "2", x, &last, y);
}

static enum tarn_status add_residual(struct network *net, const char *scope, const struct residual *r, uint32_t x,
				     uint32_t *y)
{
	const struct conv_options projection = block_conv(residual_outputs(r), 1, r->stride, 0);
	uint32_t shortcut = x, main_path = TENSOR_NONE, inputs = net->graph->tensor[x].dim[3];
	enum tarn_status st = add_main_path(net, scope, r, x, &main_path);
	if (!st && (r->stride != 1 || inputs != residual_outputs(r)))
		st = block_conv_norm(net, scope, "_shortcut", x, &projection, &shortcut);
	if (!st)
		st = block_add(net, scope, main_path, shortcut, &main_path);
	return st ? st : block_relu(net, scope, r->bottleneck ? "3" : "2", main_path, y);
}

/* Stages from 1 up; all but the first halve the image in their first block. */
static enum tarn_status add_stages(struct network *net, const uint32_t *blocks, uint32_t stages, uint32_t width,
				   bool bottleneck, uint32_t x, uint32_t *y)
{
	enum tarn_status st = TARN_OK;
	for (uint32_t stage = 0; stage < stages; stage++)
		for (uint32_t block = 1; block <= blocks[stage] && !st; block++) {
			const struct residual r = { width << stage, stage && block == 1 ? 2 : 1, bottleneck };
			char scope[BLOCK_SCOPE_BYTES];
			snprintf(scope, sizeof scope, "stage%" PRIu32 "/block%" PRIu32 "/", stage + 1, block);
			st = add_residual(net, scope, &r, x, &x);
		}
	*y = x;
	return st;
}

static enum tarn_status build_small(struct network *net, const struct model_values *values, uint32_t classes,
				    uint32_t x, uint32_t *y)
{
	const uint32_t depth = values->value[DEPTH], width = values->value[WIDTH], n = (depth - 2) / 6;
	const uint32_t blocks[] = { n, n, n };
	const struct conv_options stem = block_conv(width, 3, 1, 1);
	if (depth % 6 != 2)
		return tarn_fail(TARN_EINVAL,
				 "depth %" PRIu32 " is not 6n + 2; the nearest are %" PRIu32 " and %" PRIu32, depth,
				 6 * n + 2, 6 * n + 8);
	enum tarn_status st = block_conv_norm_relu(net, "", "1", x, &stem, ACTIVATION_RELU, &x);
	if (!st)
		st = add_stages(net, blocks, 3, width, false, x, &x);
	return st ? st : block_classifier(net, x, classes, y);
}

static const struct {
	uint32_t depth, blocks[STAGES];
	bool bottleneck;
} imagenet[] = {
	{ 18, { 2, 2, 2, 2 }, false },  { 34, { 3, 4, 6, 3 }, false },  { 50, { 3, 4, 6, 3 }, true },
	{ 101, { 3, 4, 23, 3 }, true }, { 152, { 3, 8, 36, 3 }, true },
};

static enum tarn_status build_imagenet(struct network *net, const struct model_values *values, uint32_t classes,
				       uint32_t x, uint32_t *y)
{
	const uint32_t variants = sizeof imagenet / sizeof imagenet[0], width = values->value[WIDTH];
	const struct conv_options stem = block_conv(width, 7, 2, 3);
	uint32_t v = 0;
	while (v < variants && imagenet[v].depth != values->value[DEPTH])
		v++;
	if (v == variants)
		return tarn_fail(TARN_EINVAL, "depth %" PRIu32 " is not one of 18, 34, 50, 101, 152",
				 values->value[DEPTH]);
	enum tarn_status st = block_conv_norm_relu(net, "", "1", x, &stem, ACTIVATION_RELU, &x);
	if (!st)
		st = block_max_pool(net, "pool1", x, 3, 2, 1, &x);
	if (!st)
		st = add_stages(net, imagenet[v].blocks, STAGES, width, imagenet[v].bottleneck, x, &x);
	return st ? st : block_classifier(net, x, classes, y);
}

const struct model_family resnet_family = {
	.name = "resnet",
	.help = "residual network for small images, as for CIFAR",
	.key = small_keys,
	.keys = sizeof small_keys / sizeof small_keys[0],
	.build = build_small,
};

const struct model_family resnet_imagenet_family = {
	.name = "resnet_imagenet",
	.help = "residual network for large images, as for ImageNet; torchvision's",
	.key = imagenet_keys,
	.keys = sizeof imagenet_keys / sizeof imagenet_keys[0],
	.build = build_imagenet,
};
