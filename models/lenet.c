/*
 * lenet.c - a small convolutional network in the manner of LeNet-5 (LeCun et al. 1998), with relu and maximum pooling:
 * two blocks of conv5x5 (padding 2), relu, maxpool2 with 32 and 64 channels; dense 256, relu; dense.
 */
#include "models/models.h"

#include <stdio.h>

/* conv5x5, relu, maxpool2. */
static enum tarn_status add_block(struct network *net, uint32_t number, uint32_t channels, uint32_t x, uint32_t *y)
{
	const struct conv_options conv = {
		.channels = channels, .kernel = { 5, 5 }, .padding = { 2, 2 }, .bias = true
	};
	const struct window pool = { .kernel = { 2, 2 }, .stride = { 2, 2 }, .dilation = { 1, 1 } };
	char name[32];
	snprintf(name, sizeof name, "conv%u", number);
	enum tarn_status st = layer_conv2d(net, name, x, &conv, &x);
	if (st)
		return st;
	snprintf(name, sizeof name, "relu%u", number);
	st = layer_activation(net, name, x, ACTIVATION_RELU, 0, &x);
	if (st)
		return st;
	snprintf(name, sizeof name, "pool%u", number);
	return layer_max_pool(net, name, x, &pool, y);
}

static enum tarn_status build(struct network *net, const struct model_values *values, uint32_t classes, uint32_t x,
			      uint32_t *y)
{
	(void)values;
	enum tarn_status st = add_block(net, 1, 32, x, &x);
	if (!st)
		st = add_block(net, 2, 64, x, &x);
	if (!st)
		st = layer_flatten(net, "flatten", x, true, &x);
	if (!st)
		st = layer_dense(net, "dense1", x, 256, true, NULL, &x);
	if (!st)
		st = layer_activation(net, "relu3", x, ACTIVATION_RELU, 0, &x);
	return st ? st : layer_dense(net, "output", x, classes, true, NULL, y);
}

const struct model_family lenet_family = {
	.name = "lenet",
	.help = "two convolutions with pooling, two dense layers",
	.build = build,
};
