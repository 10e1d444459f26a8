/* layer_kinds.c - the table of layer kinds, and what turns their values into layers. */
#include "graph/layer_kinds.h"

#include <inttypes.h>
#include <stdio.h>

#define LARGEST 1e6 /* of a channel count or a window */

static enum tarn_status build_conv2d(const struct layer_call *call, uint32_t *y)
{
	const struct layer_value *v = call->value;
	const struct conv_options options = {
		.channels = v[0].pair[0],
		.kernel = { v[1].pair[0], v[1].pair[1] },
		.stride = { v[2].pair[0], v[2].pair[1] },
		.padding = { v[3].pair[0], v[3].pair[1] },
		.same = v[3].same,
		.dilation = { v[4].pair[0], v[4].pair[1] },
		.groups = v[5].pair[0],
		.bias = v[6].pair[0],
		.mask = (enum conv_mask)v[7].pair[0],
		.shift = (enum conv_shift)v[8].pair[0],
		.weight_norm = v[9].pair[0],
		.weights = call->weights,
	};
	return layer_conv2d(call->net, call->name, call->x[0], &options, y);
}

static enum tarn_status build_dense(const struct layer_call *call, uint32_t *y)
{
	const struct layer_value *v = call->value;
	return layer_dense(call->net, call->name, call->x[0], v[0].pair[0], v[1].pair[0], call->weights, y);
}

static enum tarn_status build_batch_norm(const struct layer_call *call, uint32_t *y)
{
	const struct layer_value *v = call->value;
	return layer_batch_norm(call->net, call->name, call->x[0], (float)v[0].real, (float)v[1].real, y);
}

static enum tarn_status build_layer_norm(const struct layer_call *call, uint32_t *y)
{
	return layer_layer_norm(call->net, call->name, call->x[0], (float)call->value[0].real, y);
}

/* The activations with a parameter have it as their only key. */
static enum tarn_status build_activation(const struct layer_call *call, uint32_t *y)
{
	enum activation activation = (enum activation)call->detail;
	bool takes_alpha = activation == ACTIVATION_LEAKY_RELU || activation == ACTIVATION_ELU;
	float alpha = takes_alpha ? (float)call->value[0].real : 0;
	return layer_activation(call->net, call->name, call->x[0], activation, alpha, y);
}

/* kernel, stride, padding; stride 0: the kernel. */
static struct window pool_window(const struct layer_call *call)
{
	const struct layer_value *v = call->value;
	struct window window = { .dilation = { 1, 1 } };
	for (uint32_t i = 0; i < 2; i++) {
		window.kernel[i] = v[0].pair[i];
		window.stride[i] = v[1].pair[i] ? v[1].pair[i] : v[0].pair[i];
		window.pad_begin[i] = window.pad_end[i] = v[2].pair[i];
	}
	const struct tensor *x = &call->net->graph->tensor[call->x[0]];
	if (v[2].same && x->rank == 4)
		window_pad_same(&window, &x->dim[1]);
	return window;
}

static enum tarn_status build_max_pool(const struct layer_call *call, uint32_t *y)
{
	const struct window window = pool_window(call);
	return layer_max_pool(call->net, call->name, call->x[0], &window, y);
}

static enum tarn_status build_avg_pool(const struct layer_call *call, uint32_t *y)
{
	const struct window window = pool_window(call);
	return layer_avg_pool(call->net, call->name, call->x[0], &window, call->value[3].pair[0], y);
}

static enum tarn_status build_global_pool(const struct layer_call *call, uint32_t *y)
{
	return layer_global_pool(call->net, call->name, call->x[0], y);
}

static enum tarn_status build_flatten(const struct layer_call *call, uint32_t *y)
{
	return layer_flatten(call->net, call->name, call->x[0], call->value[0].pair[0] == 1, y);
}

static enum tarn_status build_dropout(const struct layer_call *call, uint32_t *y)
{
	return layer_dropout(call->net, call->name, call->x[0], (float)call->value[0].real, y);
}

static enum tarn_status build_stochastic_depth(const struct layer_call *call, uint32_t *y)
{
	return layer_stochastic_depth(call->net, call->name, call->x[0], (float)call->value[0].real, y);
}

static enum tarn_status build_conv_transpose2d(const struct layer_call *call, uint32_t *y)
{
	const struct layer_value *v = call->value;
	const struct conv_transpose_options options = {
		.channels = v[0].pair[0],
		.kernel = { v[1].pair[0], v[1].pair[1] },
		.stride = { v[2].pair[0], v[2].pair[1] },
		.padding = { v[3].pair[0], v[3].pair[1] },
		.output_padding = { v[4].pair[0], v[4].pair[1] },
		.bias = v[5].pair[0],
		.shift = (enum conv_shift)v[6].pair[0],
		.weight_norm = v[7].pair[0],
	};
	return layer_conv_transpose2d(call->net, call->name, call->x[0], &options, y);
}

static enum tarn_status build_group_norm(const struct layer_call *call, uint32_t *y)
{
	const struct layer_value *v = call->value;
	return layer_group_norm(call->net, call->name, call->x[0], v[0].pair[0], (float)v[1].real, y);
}

static enum tarn_status build_upsample(const struct layer_call *call, uint32_t *y)
{
	const struct layer_value *v = call->value;
	return layer_upsample(call->net, call->name, call->x[0], v[0].pair, (enum upsample_mode)v[1].pair[0], y);
}

static enum tarn_status build_adaptive_pool(const struct layer_call *call, uint32_t *y)
{
	return layer_adaptive_pool(call->net, call->name, call->x[0], call->value[0].pair, y);
}

static enum tarn_status build_shift(const struct layer_call *call, uint32_t *y)
{
	return layer_shift(call->net, call->name, call->x[0], 1 + call->value[0].pair[0], y);
}

static enum tarn_status build_concat_elu(const struct layer_call *call, uint32_t *y)
{
	return layer_concat_elu(call->net, call->name, call->x[0], y);
}

static enum tarn_status build_slice(const struct layer_call *call, uint32_t *y)
{
	const struct layer_value *v = call->value;
	uint32_t axis = v[2].pair[0];
	if (!axis)
		axis = call->net->graph->tensor[call->x[0]].rank - 1u;
	return layer_slice(call->net, call->name, call->x[0], axis, v[0].pair[0], v[1].pair[0], y);
}

static enum tarn_status build_add(const struct layer_call *call, uint32_t *y)
{
	return layer_add(call->net, call->name, call->x, call->inputs, y);
}

static enum tarn_status build_multiply(const struct layer_call *call, uint32_t *y)
{
	return layer_multiply(call->net, call->name, call->x, call->inputs, y);
}

/* axis 0 stands for the last one: the batch itself cannot be joined. */
static enum tarn_status build_concat(const struct layer_call *call, uint32_t *y)
{
	uint32_t axis = call->value[0].pair[0];
	if (!axis)
		axis = call->net->graph->tensor[call->x[0]].rank - 1u;
	return layer_concat(call->net, call->name, call->x, call->inputs, axis, y);
}

/* ---- sequences ---- */

/* The vocabulary is that of the data unless the layer says another. */
static enum tarn_status build_embedding(const struct layer_call *call, uint32_t *y)
{
	const struct layer_value *v = call->value;
	uint32_t vocabulary = v[1].pair[0] ? v[1].pair[0] : call->net->config->data.classes;
	return layer_embedding(call->net, call->name, call->x[0], vocabulary, v[0].pair[0], (float)v[2].real, y);
}

static enum tarn_status build_positions(const struct layer_call *call, uint32_t *y)
{
	return layer_positions(call->net, call->name, call->x[0], (float)call->value[0].real, y);
}

static enum tarn_status build_class_token(const struct layer_call *call, uint32_t *y)
{
	return layer_class_token(call->net, call->name, call->x[0], (float)call->value[0].real, y);
}

static enum tarn_status build_position(const struct layer_call *call, uint32_t *y)
{
	return layer_position(call->net, call->name, call->x[0], call->value[0].pair[0], y);
}

static enum tarn_status build_sequence(const struct layer_call *call, uint32_t *y)
{
	return layer_sequence(call->net, call->name, call->x[0], y);
}

static enum tarn_status build_rms_norm(const struct layer_call *call, uint32_t *y)
{
	return layer_rms_norm(call->net, call->name, call->x[0], (float)call->value[0].real, y);
}

static enum tarn_status build_attention(const struct layer_call *call, uint32_t *y)
{
	const struct layer_value *v = call->value;
	const struct attention_options options = { .heads = v[0].pair[0],
						   .key_heads = v[1].pair[0],
						   .causal = v[2].pair[0],
						   .bias = v[3].pair[0],
						   .rotary = (float)v[4].real,
						   .plain = v[5].pair[0] };
	return layer_attention(call->net, call->name, call->x[0], &options, y);
}

static enum tarn_status build_gate(const struct layer_call *call, uint32_t *y)
{
	static const struct {
		enum gate_mode mode;
		enum activation activation;
	} kinds[] = {
		{ GATE_ACTIVATION, ACTIVATION_SILU },
		{ GATE_ACTIVATION, ACTIVATION_GELU },
		{ GATE_ACTIVATION, ACTIVATION_GELU_TANH },
		{ GATE_LINEAR, ACTIVATION_NONE },
		{ GATE_TANH, ACTIVATION_NONE },
	};
	uint32_t kind = call->value[0].pair[0];
	return layer_gate(call->net, call->name, call->x[0], kinds[kind].mode, kinds[kind].activation, y);
}

static enum tarn_status build_recurrent(const struct layer_call *call, uint32_t *y)
{
	const struct layer_value *v = call->value;
	const struct recurrent_options options = {
		.gru = call->detail, .features = v[0].pair[0], .layers = v[1].pair[0], .chunk = v[2].pair[0]
	};
	return layer_recurrent(call->net, call->name, call->x[0], &options, y);
}

/* ---- keys: name, type, low, high, default, the same as a number, help, choices ---- */

static const char *const conv_masks[] = { "none", "a", "b" };
static const char *const conv_shifts[] = { "none", "down", "down_right" };

static const struct layer_key conv2d_keys[] = {
	{ "channels", LAYER_COUNT, 1, LARGEST, NULL, 0, "number of output channels", NULL, 0 },
	{ "kernel", LAYER_PAIR, 1, LARGEST, NULL, 0, "size of the window", NULL, 0 },
	{ "stride", LAYER_PAIR, 1, LARGEST, "1", 1, "step of the window", NULL, 0 },
	{ "padding", LAYER_PADDING, 0, LARGEST, "0", 0, "zeros around the image; `same`: output = input / stride", NULL,
	  0 },
	{ "dilation", LAYER_PAIR, 1, LARGEST, "1", 1, "distance of the window's elements", NULL, 0 },
	{ "groups", LAYER_COUNT, 1, LARGEST, "1", 1, "groups of channels that do not mix", NULL, 0 },
	{ "bias", LAYER_BOOL, 0, 1, "true", 1, "add a bias; not needed before a batch_norm", NULL, 0 },
	{ "mask", LAYER_CHOICE, 0, 0, "none", 0,
	  "a: a pixel sees only those before it, row by row; b: itself too, as behind an a", conv_masks, 3 },
	{ "shift", LAYER_CHOICE, 0, 0, "none", 0,
	  "down: the window ends in its pixel's row; down_right: in its column too; the image keeps its size",
	  conv_shifts, 3 },
	{ "weight_norm", LAYER_BOOL, 0, 1, "false", 0, "learn length and direction of each output's weights apart",
	  NULL, 0 },
};

static const struct layer_key conv_transpose2d_keys[] = {
	{ "channels", LAYER_COUNT, 1, LARGEST, NULL, 0, "number of output channels", NULL, 0 },
	{ "kernel", LAYER_PAIR, 1, LARGEST, NULL, 0, "size of the window", NULL, 0 },
	{ "stride", LAYER_PAIR, 1, LARGEST, "1", 1, "by how much the image grows", NULL, 0 },
	{ "padding", LAYER_PAIR, 0, LARGEST, "0", 0, "rows and columns cut off at each side", NULL, 0 },
	{ "output_padding", LAYER_PAIR, 0, LARGEST, "0", 0, "rows and columns added at the end", NULL, 0 },
	{ "bias", LAYER_BOOL, 0, 1, "true", 1, "add a bias; not needed before a batch_norm", NULL, 0 },
	{ "shift", LAYER_CHOICE, 0, 0, "none", 0, "as in conv2d; the image grows by the stride exactly", conv_shifts,
	  3 },
	{ "weight_norm", LAYER_BOOL, 0, 1, "false", 0, "learn length and direction of each output's weights apart",
	  NULL, 0 },
};

static const struct layer_key group_norm_keys[] = {
	{ "groups", LAYER_COUNT, 1, LARGEST, NULL, 0, "groups of channels; as many as channels: instance norm", NULL,
	  0 },
	{ "epsilon", LAYER_REAL, 1e-12, 1, "1e-5", 1e-5, "added to the variance", NULL, 0 },
};

static const char *const upsample_modes[] = { "nearest", "bilinear" };

static const struct layer_key upsample_keys[] = {
	{ "factor", LAYER_PAIR, 1, 1024, NULL, 0, "by how much height and width grow", NULL, 0 },
	{ "mode", LAYER_CHOICE, 0, 0, "nearest", 0, "how pixels in between are made", upsample_modes, 2 },
};

static const struct layer_key adaptive_pool_keys[] = {
	{ "size", LAYER_PAIR, 1, LARGEST, NULL, 0, "height and width of the result", NULL, 0 },
};

static const struct layer_key stochastic_depth_keys[] = {
	{ "rate", LAYER_REAL, 0, 0.999, "0.1", 0.1, "share of the samples set to zero", NULL, 0 },
};

static const char *const shift_axes[] = { "down", "right" };

static const struct layer_key shift_keys[] = {
	{ "to", LAYER_CHOICE, 0, 0, "down", 0, "where it moves; zeros come in", shift_axes, 2 },
};

static const struct layer_key slice_keys[] = {
	{ "begin", LAYER_COUNT, 0, 4294967295.0, NULL, 0, "first element", NULL, 0 },
	{ "length", LAYER_COUNT, 1, 4294967295.0, NULL, 0, "number of elements", NULL, 0 },
	{ "axis", LAYER_COUNT, 1, OP_MAX_RANK - 1, "last", 0, "axis that is cut; 0 would be the samples", NULL, 0 },
};

static const struct layer_key dense_keys[] = {
	{ "features", LAYER_COUNT, 1, 1e9, NULL, 0, "number of outputs", NULL, 0 },
	{ "bias", LAYER_BOOL, 0, 1, "true", 1, "add a bias", NULL, 0 },
};

static const struct layer_key batch_norm_keys[] = {
	{ "epsilon", LAYER_REAL, 1e-12, 1, "1e-5", 1e-5, "added to the variance", NULL, 0 },
	{ "momentum", LAYER_REAL, 0, 1, "0.1", 0.1, "share of the new batch in the running statistics", NULL, 0 },
};

static const struct layer_key layer_norm_keys[] = {
	{ "epsilon", LAYER_REAL, 1e-12, 1, "1e-5", 1e-5, "added to the variance", NULL, 0 },
};

static const struct layer_key leaky_relu_keys[] = {
	{ "slope", LAYER_REAL, 0, 1, "0.01", 0.01, "slope below zero", NULL, 0 },
};

static const struct layer_key elu_keys[] = {
	{ "alpha", LAYER_REAL, 0, 1e6, "1", 1, "limit below zero", NULL, 0 },
};

static const struct layer_key max_pool_keys[] = {
	{ "kernel", LAYER_PAIR, 1, LARGEST, NULL, 0, "size of the window, at most 256 elements", NULL, 0 },
	{ "stride", LAYER_PAIR, 1, LARGEST, "kernel", 0, "step of the window", NULL, 0 },
	{ "padding", LAYER_PADDING, 0, LARGEST, "0", 0, "around the image, never the maximum", NULL, 0 },
};

static const struct layer_key avg_pool_keys[] = {
	{ "kernel", LAYER_PAIR, 1, LARGEST, NULL, 0, "size of the window", NULL, 0 },
	{ "stride", LAYER_PAIR, 1, LARGEST, "kernel", 0, "step of the window", NULL, 0 },
	{ "padding", LAYER_PADDING, 0, LARGEST, "0", 0, "zeros around the image", NULL, 0 },
	{ "count_padding", LAYER_BOOL, 0, 1, "true", 1, "the zeros around the image count in the average", NULL, 0 },
};

static const char *const flatten_orders[] = { "hwc", "chw" };

static const struct layer_key flatten_keys[] = {
	{ "order", LAYER_CHOICE, 0, 0, "hwc", 0, "order of the features; chw: as PyTorch, for its weights",
	  flatten_orders, 2 },
};

static const struct layer_key dropout_keys[] = {
	{ "rate", LAYER_REAL, 0, 0.999, "0.5", 0.5, "share of the elements set to zero", NULL, 0 },
};

static const struct layer_key concat_keys[] = {
	{ "axis", LAYER_COUNT, 1, OP_MAX_RANK - 1, "last", 0, "axis that grows; 0 would be the samples", NULL, 0 },
};

#define BOUND                                                                                               \
	{                                                                                                   \
		"bound", LAYER_REAL, 0, 1e6, "0.035", 0.035, "initial values are uniform up to it", NULL, 0 \
	}

static const struct layer_key embedding_keys[] = {
	{ "features", LAYER_COUNT, 1, 1e9, NULL, 0, "width of a token's row", NULL, 0 },
	{ "vocabulary", LAYER_COUNT, 1, 1e9, "data.classes", 0, "number of different tokens", NULL, 0 },
	BOUND,
};

static const struct layer_key bound_keys[] = { BOUND };

static const struct layer_key position_keys[] = {
	{ "index", LAYER_COUNT, 0, 1e9, NULL, 0, "position, from 0", NULL, 0 },
};

static const struct layer_key rms_norm_keys[] = {
	{ "epsilon", LAYER_REAL, 1e-12, 1, "1e-5", 1e-5, "added to the mean square", NULL, 0 },
};

static const struct layer_key attention_keys[] = {
	{ "heads", LAYER_COUNT, 1, LARGEST, NULL, 0, "parts of the channels that attend on their own", NULL, 0 },
	{ "key_heads", LAYER_COUNT, 0, LARGEST, "heads", 0, "heads of keys and values; several heads share one", NULL,
	  0 },
	{ "causal", LAYER_BOOL, 0, 1, "true", 1, "a position sees itself and those before", NULL, 0 },
	{ "bias", LAYER_BOOL, 0, 1, "true", 1, "add biases", NULL, 0 },
	{ "rotary", LAYER_REAL, 0, 1e9, "0", 0, "base of rotary positions, usually 10000; 0: none", NULL, 0 },
	{ "plain", LAYER_BOOL, 0, 1, "false", 0, "store the T x T matrices of scores, as a comparison", NULL, 0 },
};

static const char *const gates[] = { "swiglu", "geglu", "geglu_tanh", "glu", "tanh" };

static const struct layer_key gate_keys[] = {
	{ "kind", LAYER_CHOICE, 0, 0, "swiglu", 0, "what the first half of the channels does with the second", gates,
	  5 },
};

static const struct layer_key recurrent_keys[] = {
	{ "features", LAYER_COUNT, 1, 1e8, NULL, 0, "width of the state", NULL, 0 },
	{ "layers", LAYER_COUNT, 1, 1000, "1", 1, "one on top of the other", NULL, 0 },
	{ "chunk", LAYER_COUNT, 1, LARGEST, "16", 16, "time steps whose input products are made at once", NULL, 0 },
};

#define KEYS(array) array, sizeof array / sizeof array[0]
#define NO_KEYS NULL, 0, -1
#define ACTIVATION_KIND(name, help, detail)                                        \
	{                                                                          \
		name, help, NO_KEYS, false, false, false, detail, build_activation \
	}

const struct layer_kind layer_kinds[] = {
	/* name, help, keys, short form, many inputs, trainable, shareable, detail, function */
	{ "conv2d", "2-D convolution", KEYS(conv2d_keys), 0, false, true, true, 0, build_conv2d },
	{ "dense", "matrix product of the last dimension", KEYS(dense_keys), 0, false, true, true, 0, build_dense },
	{ "batch_norm", "batch normalisation", KEYS(batch_norm_keys), -1, false, true, false, 0, build_batch_norm },
	{ "layer_norm", "layer normalisation", KEYS(layer_norm_keys), -1, false, true, false, 0, build_layer_norm },
	ACTIVATION_KIND("relu", "max(x, 0)", ACTIVATION_RELU),
	ACTIVATION_KIND("relu6", "min(max(x, 0), 6)", ACTIVATION_RELU6),
	{ "leaky_relu", "x, or slope * x below zero", KEYS(leaky_relu_keys), 0, false, false, false,
	  ACTIVATION_LEAKY_RELU, build_activation },
	{ "elu", "x, or alpha * (exp(x) - 1) below zero", KEYS(elu_keys), 0, false, false, false, ACTIVATION_ELU,
	  build_activation },
	ACTIVATION_KIND("sigmoid", "1 / (1 + exp(-x))", ACTIVATION_SIGMOID),
	ACTIVATION_KIND("tanh", "hyperbolic tangent", ACTIVATION_TANH),
	ACTIVATION_KIND("gelu", "x * normal distribution function of x", ACTIVATION_GELU),
	ACTIVATION_KIND("gelu_tanh", "gelu approximated with tanh", ACTIVATION_GELU_TANH),
	ACTIVATION_KIND("silu", "x * sigmoid(x)", ACTIVATION_SILU),
	ACTIVATION_KIND("softplus", "log(1 + exp(x))", ACTIVATION_SOFTPLUS),
	{ "max_pool", "maximum of a window", KEYS(max_pool_keys), 0, false, false, false, 0, build_max_pool },
	{ "avg_pool", "average of a window", KEYS(avg_pool_keys), 0, false, false, false, 0, build_avg_pool },
	{ "global_pool", "average over the whole image or sequence, then samples x channels", NO_KEYS, false, false,
	  false, 0, build_global_pool },
	{ "flatten", "samples x features", KEYS(flatten_keys), 0, false, false, false, 0, build_flatten },
	{ "dropout", "random zeros in training", KEYS(dropout_keys), 0, false, false, false, 0, build_dropout },
	{ "stochastic_depth", "whole samples set to zero in training", KEYS(stochastic_depth_keys), 0, false, false,
	  false, 0, build_stochastic_depth },
	{ "conv_transpose2d", "transposed 2-D convolution: a larger image", KEYS(conv_transpose2d_keys), 0, false, true,
	  false, 0, build_conv_transpose2d },
	{ "group_norm", "normalisation of groups of channels", KEYS(group_norm_keys), 0, false, true, false, 0,
	  build_group_norm },
	{ "upsample", "a larger image", KEYS(upsample_keys), 0, false, false, false, 0, build_upsample },
	{ "adaptive_pool", "average to a given size", KEYS(adaptive_pool_keys), 0, false, false, false, 0,
	  build_adaptive_pool },
	{ "shift", "the image moved down or to the right by one pixel", KEYS(shift_keys), 0, false, false, false, 0,
	  build_shift },
	{ "concat_elu", "elu of x and -x side by side", NO_KEYS, false, false, false, 0, build_concat_elu },
	{ "slice", "a part of an axis", KEYS(slice_keys), -1, false, false, false, 0, build_slice },
	{ "add", "sum of the inputs", NO_KEYS, true, false, false, 0, build_add },
	{ "multiply", "product of the inputs, element by element", NO_KEYS, true, false, false, 0, build_multiply },
	{ "concat", "inputs side by side", KEYS(concat_keys), -1, true, false, false, 0, build_concat },
	{ "embedding", "a learned row for each token", KEYS(embedding_keys), 0, false, true, true, 0, build_embedding },
	{ "positions", "plus a learned row for each position", KEYS(bound_keys), -1, false, true, false, 0,
	  build_positions },
	{ "class_token", "a learned row in front of a sequence", KEYS(bound_keys), -1, false, true, false, 0,
	  build_class_token },
	{ "position", "one position of a sequence", KEYS(position_keys), 0, false, false, false, 0, build_position },
	{ "sequence", "pixels of an image as a sequence", NO_KEYS, false, false, false, 0, build_sequence },
	{ "rms_norm", "normalisation by the root mean square", KEYS(rms_norm_keys), -1, false, true, false, 0,
	  build_rms_norm },
	{ "attention", "multi-head self-attention with its products", KEYS(attention_keys), 0, false, true, false, 0,
	  build_attention },
	{ "gate", "half of the channels gated by the other half", KEYS(gate_keys), 0, false, false, false, 0,
	  build_gate },
	{ "lstm", "long short-term memory over a sequence", KEYS(recurrent_keys), 0, false, true, false, 0,
	  build_recurrent },
	{ "gru", "gated recurrent units over a sequence", KEYS(recurrent_keys), 0, false, true, false, 1,
	  build_recurrent },
};
const uint32_t layer_kinds_count = sizeof layer_kinds / sizeof layer_kinds[0];

static void help_key(FILE *out, const struct layer_kind *kind, uint32_t index)
{
	static const char *const type_name[] = { "integer", "integer or [h, w]", "integer, [h, w] or same",
						 "number",  "true or false",     "choice" };
	const struct layer_key *key = &kind->key[index];
	fprintf(out, "    %-14s %s; %s", key->name, key->help, type_name[key->type]);
	for (uint32_t i = 0; i < key->n_choices; i++)
		fprintf(out, "%s%s", i ? ", " : " of ", key->choices[i]);
	if (key->fallback)
		fprintf(out, "; default %s", key->fallback);
	else
		fprintf(out, "; required");
	fprintf(out, "%s\n", kind->short_key == (int32_t)index ? "; short form" : "");
}

void layers_help(FILE *out)
{
	fprintf(out, "layers: a list of layers, first to last. A layer is `- kind`, `- kind: {key: value, ...}`, or\n"
		     "`- kind: value` for the key marked \"short form\".\n\n");
	for (uint32_t k = 0; k < layer_kinds_count; k++) {
		fprintf(out, "%-16s %s%s\n", layer_kinds[k].name, layer_kinds[k].help,
			layer_kinds[k].many_inputs ? "; short form: [names of the inputs]" : "");
		for (uint32_t i = 0; i < layer_kinds[k].keys; i++)
			help_key(out, &layer_kinds[k], i);
	}
	fprintf(out, "%-16s %s\n", "repeat", "the same layers several times, under NAME1/, NAME2/, ...");
	fprintf(out, "    %-14s %s\n", "count", "how many times; integer; required");
	fprintf(out, "    %-14s %s\n", "layers", "list of layers; required");
	fprintf(out, "    %-14s %s\n\n", "name",
		"prefix of the names inside; default: repeat1_, repeat2_, ..., so that the first\n"
		"                   relu of the second repetition of the first repeat is repeat1_2/relu1");
	fprintf(out, "Every layer may also have\n");
	fprintf(out, "    %-14s %s\n", "name", "unique; default: kind and number, relu2");
	fprintf(out, "    %-14s %s\n", "inputs", "names of earlier layers, or `input`; default: the layer before");
	fprintf(out, "    %-14s %s\n", "trainable",
		"false: the layer's parameters stay as they are (batch_norm still uses\n"
		"                   the statistics of the batch)");
	fprintf(out, "    %-14s %s\n", "weights",
		"share the parameters of that earlier layer (conv2d, dense; a dense\n"
		"                   layer without bias also the table of an embedding)");
}
