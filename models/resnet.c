/*
 * resnet.c - residual networks for small images (He et al. 2016, section 4.2): depth = 6n + 2.
 *
 * conv3x3, batch norm, relu; three stages of n blocks with width, 2 width and 4 width channels; a block is conv3x3,
 * batch norm, relu, conv3x3, batch norm, plus the shortcut, relu. The first block of the stages 2 and 3 has stride 2
 * and a shortcut of conv1x1 with stride 2 and batch norm, whose parameters come after those of the main path. Then
 * global average pooling and a dense layer.
 */
#include "models/models.h"

#include <inttypes.h>
#include <stdio.h>

#define EPSILON 1e-5f
#define MOMENTUM 0.1f
#define NAME_BYTES 64

enum { DEPTH, WIDTH };

static const struct model_key keys[] = {
	[DEPTH] = { "depth", 8, 100000, 20, "6n + 2 layers: 20, 32, 44, 56, 110 ..." },
	[WIDTH] = { "width", 1, 100000, 16, "channels of the first stage" },
};

/* conv without bias, then batch norm; named "<scope>conv<suffix>" and "<scope>norm<suffix>". */
static enum tarn_status add_conv_norm(struct network *net, const char *scope, const char *suffix, uint32_t x,
				      const struct conv_options *conv, uint32_t *y)
{
	char name[NAME_BYTES];
	snprintf(name, sizeof name, "%sconv%s", scope, suffix);
	enum tarn_status st = layer_conv2d(net, name, x, conv, &x);
	if (st)
		return st;
	snprintf(name, sizeof name, "%snorm%s", scope, suffix);
	return layer_batch_norm(net, name, x, EPSILON, MOMENTUM, y);
}

static enum tarn_status add_relu(struct network *net, const char *scope, const char *suffix, uint32_t x, uint32_t *y)
{
	char name[NAME_BYTES];
	snprintf(name, sizeof name, "%srelu%s", scope, suffix);
	return layer_activation(net, name, x, ACTIVATION_RELU, 0, y);
}

static enum tarn_status add_block(struct network *net, const char *scope, uint32_t channels, uint32_t stride,
				  uint32_t x, uint32_t *y)
{
	const struct conv_options first = {
		.channels = channels, .kernel = { 3, 3 }, .stride = { stride, stride }, .padding = { 1, 1 }
	};
	const struct conv_options second = { .channels = channels, .kernel = { 3, 3 }, .padding = { 1, 1 } };
	const struct conv_options shortcut = { .channels = channels, .kernel = { 1, 1 }, .stride = { stride, stride } };
	char name[NAME_BYTES];
	uint32_t sum[2] = { TENSOR_NONE, x };
	enum tarn_status st = add_conv_norm(net, scope, "1", x, &first, &sum[0]);
	if (!st)
		st = add_relu(net, scope, "1", sum[0], &sum[0]);
	if (!st)
		st = add_conv_norm(net, scope, "2", sum[0], &second, &sum[0]);
	if (!st && stride != 1)
		st = add_conv_norm(net, scope, "_shortcut", x, &shortcut, &sum[1]);
	if (st)
		return st;
	snprintf(name, sizeof name, "%sadd", scope);
	st = layer_add(net, name, sum, 2, &sum[0]);
	return st ? st : add_relu(net, scope, "2", sum[0], y);
}

static enum tarn_status build(struct network *net, const struct model_values *values, uint32_t classes, uint32_t x,
			      uint32_t *y)
{
	const uint32_t depth = values->value[DEPTH], width = values->value[WIDTH], blocks = (depth - 2) / 6;
	const struct conv_options stem = { .channels = width, .kernel = { 3, 3 }, .padding = { 1, 1 } };
	if (depth % 6 != 2)
		return tarn_fail(TARN_EINVAL,
				 "depth %" PRIu32 " is not 6n + 2; the nearest are %" PRIu32 " and %" PRIu32, depth,
				 6 * blocks + 2, 6 * blocks + 8);
	enum tarn_status st = add_conv_norm(net, "", "1", x, &stem, &x);
	if (!st)
		st = add_relu(net, "", "1", x, &x);
	for (uint32_t stage = 1; stage <= 3 && !st; stage++)
		for (uint32_t block = 1; block <= blocks && !st; block++) {
			char scope[NAME_BYTES / 2];
			snprintf(scope, sizeof scope, "stage%" PRIu32 "/block%" PRIu32 "/", stage, block);
			st = add_block(net, scope, width << (stage - 1), stage > 1 && block == 1 ? 2 : 1, x, &x);
		}
	if (!st)
		st = layer_global_pool(net, "pool", x, &x);
	return st ? st : layer_dense(net, "output", x, classes, true, NULL, y);
}

const struct model_family resnet_family = {
	.name = "resnet",
	.help = "residual network for small images, as for CIFAR",
	.key = keys,
	.keys = sizeof keys / sizeof keys[0],
	.build = build,
};
