/*
 * blocks.h - what the convolutional families have in common: convolution, batch norm and activation under one scope.
 *
 * Layers are named "<scope>conv<suffix>", "<scope>norm<suffix>" and "<scope>relu<suffix>". Convolutions in front of a
 * batch norm have no bias. Batch norm has PyTorch's defaults: epsilon 1e-5, momentum 0.1.
 */
#ifndef TARN_MODELS_BLOCKS_H
#define TARN_MODELS_BLOCKS_H

#include "models/models.h"

#define BLOCK_SCOPE_BYTES 48
#define BLOCK_NAME_BYTES 96

/* TARN_EINVAL for images whose height or width cannot be halved so many times (less than 32) without a rest. */
enum tarn_status block_need_halvings(const struct network *net, uint32_t times, uint32_t x);
/* A square convolution; the image keeps its size at stride 1 when padding = kernel / 2. */
struct conv_options block_conv(uint32_t channels, uint32_t kernel, uint32_t stride, uint32_t padding);

/* conv, norm. */
enum tarn_status block_conv_norm(struct network *net, const char *scope, const char *suffix, uint32_t x,
				 const struct conv_options *conv, uint32_t *y);
/* conv, norm, activation (named relu, also when it is relu6). */
enum tarn_status block_conv_norm_relu(struct network *net, const char *scope, const char *suffix, uint32_t x,
				      const struct conv_options *conv, enum activation activation, uint32_t *y);
/* norm, relu, conv: the pre-activation order of DenseNet. */
enum tarn_status block_norm_relu_conv(struct network *net, const char *scope, const char *suffix, uint32_t x,
				      const struct conv_options *conv, uint32_t *y);
enum tarn_status block_norm(struct network *net, const char *scope, const char *suffix, uint32_t x, uint32_t *y);
enum tarn_status block_relu(struct network *net, const char *scope, const char *suffix, uint32_t x, uint32_t *y);
/* Sum of two tensors, named "<scope>add". */
enum tarn_status block_add(struct network *net, const char *scope, uint32_t a, uint32_t b, uint32_t *y);
/* Pooling over kernel x kernel; named "<scope><name>". */
enum tarn_status block_max_pool(struct network *net, const char *name, uint32_t x, uint32_t kernel, uint32_t stride,
				uint32_t padding, uint32_t *y);
enum tarn_status block_avg_pool(struct network *net, const char *name, uint32_t x, uint32_t kernel, uint32_t *y);
/* The end of an image classifier: global average pooling "pool", dense "output". */
enum tarn_status block_classifier(struct network *net, uint32_t x, uint32_t classes, uint32_t *y);

#endif
