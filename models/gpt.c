/*
 * gpt.c - decoder-only transformers: the GPT of Radford et al. 2019 and, by its parameters, that of Touvron et al.
 * 2023.
 *
 * Token embedding, learned positions (or rotary ones in each attention), `layers` blocks of x += attention(norm(x)),
 * x += mlp(norm(x)), a last norm and a dense head without bias over the vocabulary. The MLP is dense, gelu (its tanh
 * form), dense; with `gated` dense to twice the hidden width, SwiGLU, dense. All weights start uniform with the
 * standard deviation 0.02.
 */
#include "models/models.h"

#include <math.h>
#include <stdio.h>

#define EPSILON 1e-5f
#define NAME_BYTES 48

enum { LAYERS, WIDTH, HEADS, KEY_HEADS, HIDDEN, BIAS, RMS, ROTARY, GATED, TIED, PLAIN, DROPOUT };

static const struct model_key keys[] = {
	[LAYERS] = { "layers", 0, 10000, 6, "blocks" },
	[WIDTH] = { "width", 1, 1000000, 256, "channels" },
	[HEADS] = { "heads", 1, 100000, 8, "heads of the attention" },
	[KEY_HEADS] = { "key_heads", 0, 100000, 0, "heads of keys and values, a divisor of heads; 0: as many" },
	[HIDDEN] = { "hidden", 0, 10000000, 0, "hidden width of the MLP; 0: 4 * width" },
	[BIAS] = { "bias", 0, 1, 1, "1: biases in dense layers" },
	[RMS] = { "rms", 0, 1, 0, "1: RMS norm instead of layer norm" },
	[ROTARY] = { "rotary", 0, 1000000000, 0, "base of rotary positions, 10000 as in Llama; 0: learned positions" },
	[GATED] = { "gated", 0, 1, 0, "1: SwiGLU instead of gelu" },
	[TIED] = { "tied", 0, 1, 0, "1: the head shares the embedding's table" },
	[PLAIN] = { "plain", 0, 1, 0, "1: attention with whole T x T matrices, as a comparison" },
	[DROPOUT] = { "dropout", 0, 99, 0, "percent, behind the embedding, attention and MLP" },
};

struct gpt {
	struct network *net;
	const uint32_t *value;
};

/* "<scope><part>" */
static const char *join(char *buffer, const char *scope, const char *part)
{
	snprintf(buffer, NAME_BYTES, "%s%s", scope, part);
	return buffer;
}

static enum tarn_status add_norm(const struct gpt *gpt, const char *scope, const char *part, uint32_t x, uint32_t *y)
{
	char name[NAME_BYTES];
	join(name, scope, part);
	return gpt->value[RMS] ? layer_rms_norm(gpt->net, name, x, EPSILON, y)
			       : layer_layer_norm(gpt->net, name, x, EPSILON, y);
}

static enum tarn_status add_mlp(const struct gpt *gpt, const char *scope, uint32_t x, uint32_t *y)
{
	char name[NAME_BYTES];
	const uint32_t *value = gpt->value, hidden = value[HIDDEN] ? value[HIDDEN] : 4 * value[WIDTH];
	bool bias = value[BIAS];
	enum tarn_status st =
		layer_dense(gpt->net, join(name, scope, "mlp1"), x, value[GATED] ? 2 * hidden : hidden, bias, NULL, &x);
	if (st)
		return st;
	join(name, scope, "gate");
	st = value[GATED] ? layer_gate(gpt->net, name, x, GATE_ACTIVATION, ACTIVATION_SILU, &x)
			  : layer_activation(gpt->net, name, x, ACTIVATION_GELU_TANH, 0, &x);
	return st ? st : layer_dense(gpt->net, join(name, scope, "mlp2"), x, value[WIDTH], bias, NULL, y);
}

/* x + dropout(branch) */
static enum tarn_status add_residual(const struct gpt *gpt, const char *scope, const char *part, uint32_t branch,
				     uint32_t x, uint32_t *y)
{
	char name[NAME_BYTES];
	uint32_t sum[2] = { x, branch };
	snprintf(name, sizeof name, "%s%s_dropout", scope, part);
	enum tarn_status st = layer_dropout(gpt->net, name, branch, (float)gpt->value[DROPOUT] / 100.0f, &sum[1]);
	snprintf(name, sizeof name, "%s%s_add", scope, part);
	return st ? st : layer_add(gpt->net, name, sum, 2, y);
}

static enum tarn_status add_block(const struct gpt *gpt, const char *scope, uint32_t x, uint32_t *y)
{
	char name[NAME_BYTES];
	const uint32_t *value = gpt->value;
	const struct attention_options options = { .heads = value[HEADS],
						   .key_heads = value[KEY_HEADS],
						   .causal = true,
						   .bias = value[BIAS],
						   .rotary = (float)value[ROTARY],
						   .plain = value[PLAIN] };
	uint32_t branch;
	enum tarn_status st = add_norm(gpt, scope, "norm1", x, &branch);
	if (!st)
		st = layer_attention(gpt->net, join(name, scope, "attention"), branch, &options, &branch);
	if (!st)
		st = add_residual(gpt, scope, "attention", branch, x, &x);
	if (!st)
		st = add_norm(gpt, scope, "norm2", x, &branch);
	if (!st)
		st = add_mlp(gpt, scope, branch, &branch);
	return st ? st : add_residual(gpt, scope, "mlp", branch, x, y);
}

static enum tarn_status build(struct network *net, const struct model_values *values, uint32_t classes, uint32_t x,
			      uint32_t *y)
{
	const struct gpt gpt = { net, values->value };
	const float kept = net->init_bound, rate = (float)gpt.value[DROPOUT] / 100.0f;
	net->init_bound = (float)(0.02 * sqrt(3));
	enum tarn_status st = layer_embedding(net, "token", x, classes, gpt.value[WIDTH], 0, &x);
	if (!st && !gpt.value[ROTARY])
		st = layer_positions(net, "position", x, 0, &x);
	if (!st)
		st = layer_dropout(net, "dropout", x, rate, &x);
	for (uint32_t i = 1; i <= gpt.value[LAYERS] && !st; i++) {
		char scope[NAME_BYTES / 2];
		snprintf(scope, sizeof scope, "block%u/", i);
		st = add_block(&gpt, scope, x, &x);
	}
	if (!st)
		st = add_norm(&gpt, "", "norm", x, &x);
	if (!st)
		st = layer_dense(net, "head", x, classes, false, gpt.value[TIED] ? "token" : NULL, y);
	net->init_bound = kept;
	return st;
}

const struct model_family gpt_family = {
	.name = "gpt",
	.help = "decoder-only transformer over tokens",
	.key = keys,
	.keys = sizeof keys / sizeof keys[0],
	.build = build,
};
