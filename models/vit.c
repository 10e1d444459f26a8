/*
 * vit.c - Vision Transformer (Dosovitskiy et al. 2021).
 *
 * The image in patches, each made a vector by a convolution whose stride is its kernel; a class token in front, learned
 * positions, pre-norm blocks of attention and MLP (gelu), a norm, and a dense head on the class token.
 */
#include "models/models.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define EPSILON 1e-6f
#define NAME_BYTES 48

enum { PATCH, LAYERS, WIDTH, HEADS, HIDDEN, DROPOUT };

static const struct model_key keys[] = {
	[PATCH] = { "patch", 1, 1024, 4, "height and width of a patch" },
	[LAYERS] = { "layers", 0, 10000, 6, "blocks" },
	[WIDTH] = { "width", 1, 1000000, 128, "channels" },
	[HEADS] = { "heads", 1, 100000, 4, "heads of the attention" },
	[HIDDEN] = { "hidden", 0, 10000000, 0, "hidden width of the MLP; 0: 4 * width" },
	[DROPOUT] = { "dropout", 0, 99, 0, "percent, behind positions, attention and MLP" },
};

/* x + dropout(branch), under "<scope><part>_dropout" and "<scope><part>_add". */
static enum tarn_status add_residual(struct network *net, const uint32_t *value, const char *scope, const char *part,
				     uint32_t branch, uint32_t x, uint32_t *y)
{
	char name[NAME_BYTES];
	uint32_t sum[2] = { x, branch };
	snprintf(name, sizeof name, "%s%s_dropout", scope, part);
	enum tarn_status st = layer_dropout(net, name, branch, (float)value[DROPOUT] / 100.0f, &sum[1]);
	snprintf(name, sizeof name, "%s%s_add", scope, part);
	return st ? st : layer_add(net, name, sum, 2, y);
}

static enum tarn_status add_mlp(struct network *net, const uint32_t *value, const char *scope, uint32_t x, uint32_t *y)
{
	char name[NAME_BYTES];
	snprintf(name, sizeof name, "%smlp1", scope);
	enum tarn_status st =
		layer_dense(net, name, x, value[HIDDEN] ? value[HIDDEN] : 4 * value[WIDTH], true, NULL, &x);
	snprintf(name, sizeof name, "%sgelu", scope);
	if (!st)
		st = layer_activation(net, name, x, ACTIVATION_GELU, 0, &x);
	snprintf(name, sizeof name, "%smlp2", scope);
	return st ? st : layer_dense(net, name, x, value[WIDTH], true, NULL, y);
}

static enum tarn_status add_block(struct network *net, const uint32_t *value, const char *scope, uint32_t x,
				  uint32_t *y)
{
	const struct attention_options options = { .heads = value[HEADS], .bias = true };
	char name[NAME_BYTES];
	uint32_t branch;
	snprintf(name, sizeof name, "%snorm1", scope);
	enum tarn_status st = layer_layer_norm(net, name, x, EPSILON, &branch);
	snprintf(name, sizeof name, "%sattention", scope);
	if (!st)
		st = layer_attention(net, name, branch, &options, &branch);
	if (!st)
		st = add_residual(net, value, scope, "attention", branch, x, &x);
	snprintf(name, sizeof name, "%snorm2", scope);
	if (!st)
		st = layer_layer_norm(net, name, x, EPSILON, &branch);
	if (!st)
		st = add_mlp(net, value, scope, branch, &branch);
	return st ? st : add_residual(net, value, scope, "mlp", branch, x, y);
}

/* No pixel is left over. */
static enum tarn_status check_patches(const struct network *net, uint32_t patch, uint32_t x)
{
	const struct tensor *image = &net->graph->tensor[x];
	if (image->rank == 4 && (image->dim[1] % patch || image->dim[2] % patch))
		return tarn_fail(TARN_EINVAL,
				 "images of %" PRIu32 "x%" PRIu32 " cannot be cut into patches of %" PRIu32 "x%" PRIu32,
				 image->dim[1], image->dim[2], patch, patch);
	return TARN_OK;
}

static enum tarn_status build(struct network *net, const struct model_values *values, uint32_t classes, uint32_t x,
			      uint32_t *y)
{
	const uint32_t *value = values->value, patch = value[PATCH];
	const struct conv_options conv = {
		.channels = value[WIDTH], .kernel = { patch, patch }, .stride = { patch, patch }, .bias = true
	};
	const float kept = net->init_bound, bound = (float)(0.02 * sqrt(3));
	enum tarn_status st = check_patches(net, patch, x);
	if (!st)
		st = layer_conv2d(net, "patch", x, &conv, &x);
	if (!st)
		st = layer_sequence(net, "patches", x, &x);
	net->init_bound = bound;
	if (!st)
		st = layer_class_token(net, "class", x, bound, &x);
	if (!st)
		st = layer_positions(net, "position", x, bound, &x);
	if (!st)
		st = layer_dropout(net, "dropout", x, (float)value[DROPOUT] / 100.0f, &x);
	for (uint32_t i = 1; i <= value[LAYERS] && !st; i++) {
		char scope[NAME_BYTES / 2];
		snprintf(scope, sizeof scope, "block%u/", i);
		st = add_block(net, value, scope, x, &x);
	}
	if (!st)
		st = layer_layer_norm(net, "norm", x, EPSILON, &x);
	if (!st)
		st = layer_position(net, "pool", x, 0, &x);
	if (!st)
		st = layer_dense(net, "head", x, classes, true, NULL, y);
	net->init_bound = kept;
	return st;
}

const struct model_family vit_family = {
	.name = "vit",
	.help = "Vision Transformer",
	.key = keys,
	.keys = sizeof keys / sizeof keys[0],
	.build = build,
};
