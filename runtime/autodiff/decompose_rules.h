/* decompose_rules.h - one function for each op that is rewritten; internal to autodiff/. */
#ifndef TARN_AUTODIFF_DECOMPOSE_RULES_H
#define TARN_AUTODIFF_DECOMPOSE_RULES_H

#include "autodiff/expression.h"

/* Writes the op, whose inputs are in[], into `e`; outputs that stay TENSOR_NONE cannot be read. */
typedef void decompose_fn(struct expression *e, const struct op_attr *attr, const uint32_t *in, uint32_t inputs,
			  uint32_t *out);

/* decompose_norm.c */
decompose_fn decompose_batch_stats, decompose_batch_apply, decompose_layer_norm, decompose_group_norm,
	decompose_rms_norm, decompose_weight_norm;
/* decompose_sequence.c */
decompose_fn decompose_attention, decompose_gate, decompose_lstm_cell, decompose_gru_cell;
/* decompose_loss.c */
decompose_fn decompose_cross_entropy, decompose_linear_cross_entropy, decompose_squared_error,
	decompose_binary_cross_entropy;

#endif
