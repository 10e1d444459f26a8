/*
 * layers.h - the layers that networks are made of, as functions on a graph under construction.
 *
 * Used by the kinds of `layers:` in YAML (layer_kinds.c) and by the builders in models/. Each function appends the ops
 * of one layer and creates its parameters in PyTorch's order (weight, then bias). Shapes are as in op.h. The tensor of
 * a layer's result has the layer's name. Default initial values: weights uniform(-a, a) with a = sqrt(6 / fan_in) (He
 * et al. 2015), biases 0, norms' gamma 1 and beta 0; fan_in = in/groups * KH * KW, or the inputs of a dense layer.
 *
 * Parameters: "<layer>/weight", "<layer>/bias"; norms call gamma weight and beta bias. Batch norm also keeps
 * "<layer>/running_mean", "<layer>/running_var" and "<layer>/batches".
 */
#ifndef TARN_GRAPH_LAYERS_H
#define TARN_GRAPH_LAYERS_H

#include "graph/build.h"

struct network {
	struct graph *graph;
	const struct config *config;
	enum build_mode mode;
	uint32_t next_stream; /* Philox stream of the next dropout */
	bool trainable;       /* parameters created now are trained */
	const struct sample_shape *sample;
	uint32_t array[CONFIG_MAX_ARRAYS]; /* of this step: outputs of the INPUT ops of sample->array */
	float init_bound;                  /* weights created now are uniform in [-bound, bound); 0: by fan-in */
};

/* Weights that are zero from the centre on (A), or behind it (B), in raster order: van den Oord et al. 2016. */
enum conv_mask { CONV_MASK_NONE, CONV_MASK_A, CONV_MASK_B };

/*
 * Windows that lie above their pixel (its row is the last one, its column the middle one), or above it and to its left
 * (its row and column are the last ones): Salimans et al. 2017. The image keeps its size at stride 1; no `padding`.
 */
enum conv_shift { CONV_SHIFT_NONE, CONV_SHIFT_DOWN, CONV_SHIFT_DOWN_RIGHT };

struct conv_options {
	uint32_t channels, kernel[2], stride[2], padding[2], dilation[2],
		groups; /* zero: 1 for stride, dilation, groups */
	bool same;      /* instead of `padding`: OH = ceil(H / stride); an odd row or column is added at the end */
	bool bias;
	enum conv_mask mask;
	enum conv_shift shift;
	bool weight_norm;    /* w = scale v / |v|, "<name>/scale" behind weight and bias; Salimans, Kingma 2016 */
	const char *weights; /* name of the layer whose parameters are shared; NULL: own */
};

/* Sets the padding of a window over an image of H, W = extent[0], extent[1] as conv_options.same says. */
void window_pad_same(struct window *window, const uint32_t *extent);
/* Sets it as conv_options.shift says; TARN_EINVAL when it has padding, or no middle column where it needs one. */
enum tarn_status window_pad_shift(struct window *window, const char *name, enum conv_shift shift);

enum tarn_status layer_conv2d(struct network *net, const char *name, uint32_t x, const struct conv_options *options,
			      uint32_t *y);
/* Of the last dimension; the others stay. */
enum tarn_status layer_dense(struct network *net, const char *name, uint32_t x, uint32_t features, bool bias,
			     const char *weights, uint32_t *y);
/*
 * Training: statistics of the batch, also while the layer's parameters are frozen. TARN_EINVAL when a batch has one
 * value a channel only: its variance is 0 and the layer would return beta, whatever x is. Inference: the running
 * statistics.
 */
enum tarn_status layer_batch_norm(struct network *net, const char *name, uint32_t x, float epsilon, float momentum,
				  uint32_t *y);
enum tarn_status layer_layer_norm(struct network *net, const char *name, uint32_t x, float epsilon, uint32_t *y);
enum tarn_status layer_activation(struct network *net, const char *name, uint32_t x, enum activation activation,
				  float alpha, uint32_t *y);
enum tarn_status layer_max_pool(struct network *net, const char *name, uint32_t x, const struct window *window,
				uint32_t *y);
enum tarn_status layer_avg_pool(struct network *net, const char *name, uint32_t x, const struct window *window,
				bool count_padding, uint32_t *y);
/* Average over H and W, or over T of a sequence NxTxC, then (N, C). */
enum tarn_status layer_global_pool(struct network *net, const char *name, uint32_t x, uint32_t *y);
/*
 * (N, everything else). channels_first: features in the order C, H, W, as a PyTorch network has them, so that dense
 * weights made there fit; otherwise in the order of memory, H, W, C, which costs nothing.
 */
enum tarn_status layer_flatten(struct network *net, const char *name, uint32_t x, bool channels_first, uint32_t *y);
/* y is x itself in inference and at rate 0. */
enum tarn_status layer_dropout(struct network *net, const char *name, uint32_t x, float rate, uint32_t *y);
/* The same with one draw for a whole sample: stochastic depth, on the branch of a residual block (Huang et al. 2016).
 */
enum tarn_status layer_stochastic_depth(struct network *net, const char *name, uint32_t x, float rate, uint32_t *y);
/* Of two or more tensors, in their order: ((x0 + x1) + x2) ... */
enum tarn_status layer_add(struct network *net, const char *name, const uint32_t *x, uint32_t count, uint32_t *y);
enum tarn_status layer_multiply(struct network *net, const char *name, const uint32_t *x, uint32_t count, uint32_t *y);
enum tarn_status layer_concat(struct network *net, const char *name, const uint32_t *x, uint32_t count, uint32_t axis,
			      uint32_t *y);

/* ---- layers_image.c ---- */

struct conv_transpose_options {
	uint32_t channels, kernel[2], stride[2], padding[2], output_padding[2]; /* stride 0: 1 */
	bool bias;
	enum conv_shift shift; /* of the convolution whose adjoint this is; the image grows by `stride` exactly */
	bool weight_norm;      /* over each output; the weight is then (O, I, KH, KW) */
};

/*
 * Height (H - 1) * stride - 2 * padding + kernel + output_padding, and width. "<name>/weight" (I, O, KH, KW), as
 * PyTorch has it.
 */
enum tarn_status layer_conv_transpose2d(struct network *net, const char *name, uint32_t x,
					const struct conv_transpose_options *options, uint32_t *y);
enum tarn_status layer_group_norm(struct network *net, const char *name, uint32_t x, uint32_t groups, float epsilon,
				  uint32_t *y);
/* Height and width times factor[0], factor[1]. */
enum tarn_status layer_upsample(struct network *net, const char *name, uint32_t x, const uint32_t *factor,
				enum upsample_mode mode, uint32_t *y);
/* Averages to size[0] x size[1], whatever the image's size. */
enum tarn_status layer_adaptive_pool(struct network *net, const char *name, uint32_t x, const uint32_t *size,
				     uint32_t *y);
/* The image moved down (axis 1) or to the right (axis 2) by one; zeros come in. */
enum tarn_status layer_shift(struct network *net, const char *name, uint32_t x, uint32_t axis, uint32_t *y);
/* elu of x and -x side by side: twice the channels (Shang et al. 2016, with elu). */
enum tarn_status layer_concat_elu(struct network *net, const char *name, uint32_t x, uint32_t *y);
/* `length` elements of an axis from `begin` on. */
enum tarn_status layer_slice(struct network *net, const char *name, uint32_t x, uint32_t axis, uint32_t begin,
			     uint32_t length, uint32_t *y);

/* ---- layers_sequence.c, layers_recurrent.c: sequences are (N, T, C), token ids (N, T) i32 ---- */

/* "<name>/weight" (vocabulary, width): a row for each id. `bound`: of the initial values, unless network.init_bound is
 * set. */
enum tarn_status layer_embedding(struct network *net, const char *name, uint32_t ids, uint32_t vocabulary,
				 uint32_t width, float bound, uint32_t *y);
/* x plus a vector learned for each position, "<name>/weight" (T, C). */
enum tarn_status layer_positions(struct network *net, const char *name, uint32_t x, float bound, uint32_t *y);
/* A learned vector, "<name>/weight" (1, C), in front of the sequence: (N, T+1, C). */
enum tarn_status layer_class_token(struct network *net, const char *name, uint32_t x, float bound, uint32_t *y);
/* Position `index` of the sequence: (N, C). */
enum tarn_status layer_position(struct network *net, const char *name, uint32_t x, uint32_t index, uint32_t *y);
/* The pixels of an image as a sequence: (N, H * W, C). */
enum tarn_status layer_sequence(struct network *net, const char *name, uint32_t x, uint32_t *y);
enum tarn_status layer_rms_norm(struct network *net, const char *name, uint32_t x, float epsilon, uint32_t *y);
/* First half of the channels with the second one; op.h, GATE. */
enum tarn_status layer_gate(struct network *net, const char *name, uint32_t x, enum gate_mode mode,
			    enum activation activation, uint32_t *y);

struct attention_options {
	uint32_t heads, key_heads; /* key_heads 0: as many as heads; else a divisor of them (Ainslie et al. 2023) */
	bool causal, bias;
	float rotary; /* base of rotary positions of queries and keys; 0: none */
	bool plain;   /* whole T x T matrices of scores (BATCH_MATMUL, SOFTMAX) instead of ATTENTION; no key_heads */
};

/*
 * Multi-head self-attention (Vaswani et al. 2017): "<name>/qkv" (queries, keys, values side by side), then
 * "<name>/proj" back to C, each a dense layer.
 */
enum tarn_status layer_attention(struct network *net, const char *name, uint32_t x,
				 const struct attention_options *options, uint32_t *y);

struct recurrent_options {
	bool gru;                  /* else LSTM */
	uint32_t features, layers; /* of the state; one on top of the other */
	uint32_t chunk;            /* time steps whose input products are one product */
};

/*
 * LSTM or GRU over a sequence, unrolled: T time steps from a state of zeros. Parameters of layer l as PyTorch has them:
 * "<name>/weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0". The result is the last layer's h of every step.
 */
enum tarn_status layer_recurrent(struct network *net, const char *name, uint32_t x,
				 const struct recurrent_options *options, uint32_t *y);

#endif
