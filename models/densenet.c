/*
 * densenet.c - DenseNet-BC for small images (Huang et al. 2017): depth = 6n + 4.
 *
 * conv3x3 to 2 growth channels; three dense blocks of n layers; a layer reads all features before it side by side:
 * batch norm, relu, conv1x1 to 4 growth channels, batch norm, relu, conv3x3 to growth channels. Behind the first two
 * blocks batch norm, relu, conv1x1 to half the channels, average pooling over 2x2. At the end batch norm, relu, global
 * average pooling, dense.
 *
 * The features of a block are joined again for each layer. The copies are cheap to make again, so that a budget brings
 * the memory down from quadratic to linear in n, as Pleiss et al. 2017 do by hand.
 */
#include "models/blocks.h"

#include <inttypes.h>
#include <stdio.h>

#define BLOCKS 3
#define MAX_LAYERS 10000

enum { DEPTH, GROWTH };

static const struct model_key keys[] = {
	[DEPTH] = { "depth", 10, 6 * MAX_LAYERS + 4, 40, "6n + 4 layers: 40, 100, 190 ..." },
	[GROWTH] = { "growth", 1, 10000, 12, "channels that a layer adds" },
};

/* All features side by side; a single one is itself. */
static enum tarn_status join(struct network *net, const char *scope, const uint32_t *feature, uint32_t count,
			     uint32_t *y)
{
	char name[BLOCK_NAME_BYTES];
	snprintf(name, sizeof name, "%sconcat", scope);
	*y = feature[0];
	return count == 1 ? TARN_OK : layer_concat(net, name, feature, count, 3, y);
}

static enum tarn_status add_dense_layer(struct network *net, const char *scope, uint32_t growth,
					const uint32_t *feature, uint32_t count, uint32_t *y)
{
	const struct conv_options reduce = block_conv(4 * growth, 1, 1, 0), grow = block_conv(growth, 3, 1, 1);
	uint32_t x = TENSOR_NONE;
	enum tarn_status st = join(net, scope, feature, count, &x);
	if (!st)
		st = block_norm_relu_conv(net, scope, "1", x, &reduce, &x);
	return st ? st : block_norm_relu_conv(net, scope, "2", x, &grow, y);
}

/* *y: all features of the block side by side. */
static enum tarn_status add_dense_block(struct network *net, uint32_t block, uint32_t layers, uint32_t growth,
					uint32_t x, uint32_t *y)
{
	char scope[BLOCK_SCOPE_BYTES];
	uint32_t *feature = HOST_ARRAY(net->graph->arena, layers + 1, uint32_t);
	enum tarn_status st = TARN_OK;
	if (!feature)
		return TARN_ENOMEM;
	feature[0] = x;
	for (uint32_t i = 1; i <= layers && !st; i++) {
		snprintf(scope, sizeof scope, "block%" PRIu32 "/layer%" PRIu32 "/", block, i);
		st = add_dense_layer(net, scope, growth, feature, i, &feature[i]);
	}
	snprintf(scope, sizeof scope, "block%" PRIu32 "/", block);
	return st ? st : join(net, scope, feature, layers + 1, y);
}

static enum tarn_status add_transition(struct network *net, uint32_t block, uint32_t x, uint32_t *y)
{
	const struct conv_options half = block_conv(net->graph->tensor[x].dim[3] / 2, 1, 1, 0);
	char scope[BLOCK_SCOPE_BYTES], pool[BLOCK_NAME_BYTES];
	snprintf(scope, sizeof scope, "transition%" PRIu32 "/", block);
	snprintf(pool, sizeof pool, "%spool", scope);
	enum tarn_status st = block_norm_relu_conv(net, scope, "", x, &half, &x);
	return st ? st : block_avg_pool(net, pool, x, 2, y);
}

static enum tarn_status build(struct network *net, const struct model_values *values, uint32_t classes, uint32_t x,
			      uint32_t *y)
{
	const uint32_t depth = values->value[DEPTH], growth = values->value[GROWTH], layers = (depth - 4) / 6;
	const struct conv_options stem = block_conv(2 * growth, 3, 1, 1);
	if (depth % 6 != 4)
		return tarn_fail(TARN_EINVAL,
				 "depth %" PRIu32 " is not 6n + 4; the nearest are %" PRIu32 " and %" PRIu32, depth,
				 6 * layers + 4, 6 * layers + 10);
	enum tarn_status st = layer_conv2d(net, "conv1", x, &stem, &x);
	for (uint32_t block = 1; block <= BLOCKS && !st; block++) {
		st = add_dense_block(net, block, layers, growth, x, &x);
		if (!st && block < BLOCKS)
			st = add_transition(net, block, x, &x);
	}
	if (!st)
		st = block_norm(net, "", "_last", x, &x);
	if (!st)
		st = block_relu(net, "", "_last", x, &x);
	return st ? st : block_classifier(net, x, classes, y);
}

const struct model_family densenet_family = {
	.name = "densenet",
	.help = "DenseNet-BC for small images",
	.key = keys,
	.keys = sizeof keys / sizeof keys[0],
	.build = build,
};
