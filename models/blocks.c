/* blocks.c - see blocks.h. */
#include "models/blocks.h"

#include <inttypes.h>
#include <stdio.h>

#define EPSILON 1e-5f
#define MOMENTUM 0.1f

enum tarn_status block_need_halvings(const struct network *net, uint32_t times, uint32_t x)
{
	const struct tensor *image = &net->graph->tensor[x];
	const uint32_t part = 1u << times;
	if (image->rank == 4 && (image->dim[1] % part || image->dim[2] % part))
		return tarn_fail(TARN_EINVAL,
				 "images of %" PRIu32 "x%" PRIu32 " cannot be halved %" PRIu32
				 " times; height and width must be multiples of %" PRIu32,
				 image->dim[1], image->dim[2], times, part);
	return TARN_OK;
}

struct conv_options block_conv(uint32_t channels, uint32_t kernel, uint32_t stride, uint32_t padding)
{
	return (struct conv_options){ .channels = channels,
				      .kernel = { kernel, kernel },
				      .stride = { stride, stride },
				      .padding = { padding, padding } };
}

static enum tarn_status add_conv(struct network *net, const char *scope, const char *suffix, uint32_t x,
				 const struct conv_options *conv, uint32_t *y)
{
	char name[BLOCK_NAME_BYTES];
	snprintf(name, sizeof name, "%sconv%s", scope, suffix);
	return layer_conv2d(net, name, x, conv, y);
}

enum tarn_status block_norm(struct network *net, const char *scope, const char *suffix, uint32_t x, uint32_t *y)
{
	char name[BLOCK_NAME_BYTES];
	snprintf(name, sizeof name, "%snorm%s", scope, suffix);
	return layer_batch_norm(net, name, x, EPSILON, MOMENTUM, y);
}

static enum tarn_status add_activation(struct network *net, const char *scope, const char *suffix, uint32_t x,
				       enum activation activation, uint32_t *y)
{
	char name[BLOCK_NAME_BYTES];
	snprintf(name, sizeof name, "%srelu%s", scope, suffix);
	return layer_activation(net, name, x, activation, 0, y);
}

enum tarn_status block_relu(struct network *net, const char *scope, const char *suffix, uint32_t x, uint32_t *y)
{
	return add_activation(net, scope, suffix, x, ACTIVATION_RELU, y);
}

enum tarn_status block_conv_norm(struct network *net, const char *scope, const char *suffix, uint32_t x,
				 const struct conv_options *conv, uint32_t *y)
{
	enum tarn_status st = add_conv(net, scope, suffix, x, conv, &x);
	return st ? st : block_norm(net, scope, suffix, x, y);
}

enum tarn_status block_conv_norm_relu(struct network *net, const char *scope, const char *suffix, uint32_t x,
				      const struct conv_options *conv, enum activation activation, uint32_t *y)
{
	enum tarn_status st = block_conv_norm(net, scope, suffix, x, conv, &x);
	return st ? st : add_activation(net, scope, suffix, x, activation, y);
}

enum tarn_status block_norm_relu_conv(struct network *net, const char *scope, const char *suffix, uint32_t x,
				      const struct conv_options *conv, uint32_t *y)
{
	enum tarn_status st = block_norm(net, scope, suffix, x, &x);
	if (!st)
		st = block_relu(net, scope, suffix, x, &x);
	return st ? st : add_conv(net, scope, suffix, x, conv, y);
}

enum tarn_status block_add(struct network *net, const char *scope, uint32_t a, uint32_t b, uint32_t *y)
{
	char name[BLOCK_NAME_BYTES];
	const uint32_t sum[] = { a, b };
	snprintf(name, sizeof name, "%sadd", scope);
	return layer_add(net, name, sum, 2, y);
}

enum tarn_status block_max_pool(struct network *net, const char *name, uint32_t x, uint32_t kernel, uint32_t stride,
				uint32_t padding, uint32_t *y)
{
	const struct window window = { .kernel = { kernel, kernel },
				       .stride = { stride, stride },
				       .dilation = { 1, 1 },
				       .pad_begin = { padding, padding },
				       .pad_end = { padding, padding } };
	return layer_max_pool(net, name, x, &window, y);
}

enum tarn_status block_avg_pool(struct network *net, const char *name, uint32_t x, uint32_t kernel, uint32_t *y)
{
	const struct window window = { .kernel = { kernel, kernel },
				       .stride = { kernel, kernel },
				       .dilation = { 1, 1 } };
	return layer_avg_pool(net, name, x, &window, true, y);
}

enum tarn_status block_classifier(struct network *net, uint32_t x, uint32_t classes, uint32_t *y)
{
	enum tarn_status st = layer_global_pool(net, "pool", x, &x);
	return st ? st : layer_dense(net, "output", x, classes, true, NULL, y);
}
