/*
 * derive.h - what the derivative rules share; internal to autodiff/.
 *
 * Backward ops are named "<forward op>/gradient_<of what>", so that their names begin with the layer they belong to.
 */
#ifndef TARN_AUTODIFF_DERIVE_H
#define TARN_AUTODIFF_DERIVE_H

#include "autodiff/autodiff.h"

/* Appends a backward op on behalf of the forward op. */
enum tarn_status derive_add(struct graph *graph, uint32_t op, const char *what, enum op_kind kind,
			    const struct op_attr *attr, const uint32_t *input, uint32_t inputs, uint32_t *out);

/*
 * The gradient before the activation that is part of the op: ACTIVATION_GRAD(dy, y), or dy itself without one.
 */
enum tarn_status derive_fused_activation(struct graph *graph, uint32_t op, uint32_t dy, uint32_t *dz);

/* TARN_EUNSUPPORTED: "<op>: the gradient of <kind> <what> is not available". */
enum tarn_status derive_unsupported(const struct graph *graph, uint32_t op, const char *what);

/* derive_math.c */
derive_fn derive_matmul, derive_activation, derive_add_op, derive_multiply, derive_scale, derive_cast, derive_concat,
	derive_slice, derive_pad_axis, derive_reshape, derive_permute, derive_dropout, derive_label_share;
/* derive_nn.c */
derive_fn derive_conv2d, derive_conv2d_grad_input, derive_conv2d_grad_weight, derive_max_pool, derive_avg_pool,
	derive_avg_pool_grad, derive_batch_apply, derive_layer_norm, derive_cross_entropy, derive_squared_error;
/* derive_sequence.c */
derive_fn derive_sum_rows, derive_batch_matmul, derive_add_broadcast, derive_broadcast_rows, derive_embedding,
	derive_embedding_grad, derive_softmax, derive_attention, derive_rotary, derive_rms_norm, derive_gate,
	derive_linear_cross_entropy, derive_lstm_cell, derive_gru_cell;
/* derive_image.c */
derive_fn derive_weight_mask, derive_group_norm, derive_resample, derive_binary_cross_entropy, derive_logistic_mixture,
	derive_weight_norm;
/* derive_twice.c */
derive_fn derive_activation_grad, derive_function, derive_max_pool_grad, derive_max_pool_gather, derive_softmax_grad,
	derive_log_softmax_grad, derive_sum_squares;

#endif
