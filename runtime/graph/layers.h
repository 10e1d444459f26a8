/*
 * layers.h - the layers that networks are made of, as functions on a graph under construction.
 *
 * Used by build.c for `layers:` in YAML and by the builders in models/. Each function appends the ops of one layer and
 * creates its parameters in PyTorch's order (weight, then bias). Shapes are as in op.h.
 * Default initial values: weights uniform(-a, a) with a = sqrt(6 / fan_in) (He et al. 2015), biases 0, norms' gamma 1 and
 * beta 0; fan_in = in/groups * KH * KW, or the inputs of a dense layer.
 */
#ifndef TARN_GRAPH_LAYERS_H
#define TARN_GRAPH_LAYERS_H

#include "graph/build.h"

struct network {
	struct graph *graph;
	const struct config *config;
	enum build_mode mode;
	const char *error_place; /* put in front of messages: "file:line:column: " or "" */
	uint32_t next_stream;    /* Philox stream of the next dropout */
	bool trainable;          /* parameters created now are trained */
};

struct conv_options {
	uint32_t channels, kernel[2], stride[2], padding[2], dilation[2], groups; /* zero: 1 for stride, dilation, groups */
	bool bias;
	const char *weights; /* name of the layer whose parameters are shared; NULL: own */
};

enum tarn_status layer_conv2d(struct network *net, const char *name, uint32_t x, const struct conv_options *options,
			      uint32_t *y);
enum tarn_status layer_dense(struct network *net, const char *name, uint32_t x, uint32_t features, bool bias,
			     const char *weights, uint32_t *y);
enum tarn_status layer_batch_norm(struct network *net, const char *name, uint32_t x, float epsilon, float momentum,
				  uint32_t *y);
enum tarn_status layer_layer_norm(struct network *net, const char *name, uint32_t x, float epsilon, uint32_t *y);
enum tarn_status layer_activation(struct network *net, const char *name, uint32_t x, enum activation activation,
				  float alpha, uint32_t *y);
enum tarn_status layer_max_pool(struct network *net, const char *name, uint32_t x, const struct window *window,
				uint32_t *y);
enum tarn_status layer_avg_pool(struct network *net, const char *name, uint32_t x, const struct window *window,
				bool count_padding, uint32_t *y);
/* Average over H and W, then (N, C). */
enum tarn_status layer_global_pool(struct network *net, const char *name, uint32_t x, uint32_t *y);
enum tarn_status layer_flatten(struct network *net, const char *name, uint32_t x, uint32_t *y);
enum tarn_status layer_dropout(struct network *net, const char *name, uint32_t x, float rate, uint32_t *y);
enum tarn_status layer_add(struct network *net, const char *name, uint32_t a, uint32_t b, uint32_t *y);
enum tarn_status layer_concat(struct network *net, const char *name, const uint32_t *x, uint32_t count, uint32_t axis,
			      uint32_t *y);

#endif
