/* derive.c - the table of derivative rules, and what the rules share. */
#include "autodiff/derive.h"

#include <stddef.h>

static derive_fn *const rules[OP_KINDS] = {
	[OP_MATMUL] = derive_matmul,
	[OP_CONV2D] = derive_conv2d,
	[OP_CONV2D_GRAD_INPUT] = derive_conv2d_grad_input,
	[OP_CONV2D_GRAD_WEIGHT] = derive_conv2d_grad_weight,
	[OP_MAX_POOL] = derive_max_pool,
	[OP_AVG_POOL] = derive_avg_pool,
	[OP_AVG_POOL_GRAD] = derive_avg_pool_grad,
	[OP_ACTIVATION] = derive_activation,
	[OP_ACTIVATION_GRAD] = derive_activation_grad,
	[OP_BATCH_APPLY] = derive_batch_apply,
	[OP_WEIGHT_MASK] = derive_weight_mask,
	[OP_GROUP_NORM] = derive_group_norm,
	[OP_UPSAMPLE] = derive_resample,
	[OP_UPSAMPLE_GRAD] = derive_resample,
	[OP_ADAPTIVE_AVG_POOL] = derive_resample,
	[OP_ADAPTIVE_AVG_POOL_GRAD] = derive_resample,
	[OP_BINARY_CROSS_ENTROPY] = derive_binary_cross_entropy,
	[OP_LOGISTIC_MIXTURE] = derive_logistic_mixture,
	[OP_WEIGHT_NORM] = derive_weight_norm,
	[OP_LAYER_NORM] = derive_layer_norm,
	[OP_DROPOUT] = derive_dropout,
	[OP_ADD] = derive_add_op,
	[OP_MULTIPLY] = derive_multiply,
	[OP_SCALE] = derive_scale,
	[OP_CAST] = derive_cast,
	[OP_CONCAT] = derive_concat,
	[OP_SLICE] = derive_slice,
	[OP_SLICE_VIEW] = derive_slice,
	[OP_PAD_AXIS] = derive_pad_axis,
	[OP_RESHAPE] = derive_reshape,
	[OP_PERMUTE] = derive_permute,
	[OP_SOFTMAX_CROSS_ENTROPY] = derive_cross_entropy,
	[OP_MEAN_SQUARED_ERROR] = derive_squared_error,
	[OP_SUM_ROWS] = derive_sum_rows,
	[OP_BATCH_MATMUL] = derive_batch_matmul,
	[OP_ADD_BROADCAST] = derive_add_broadcast,
	[OP_BROADCAST_ROWS] = derive_broadcast_rows,
	[OP_EMBEDDING] = derive_embedding,
	[OP_EMBEDDING_GRAD] = derive_embedding_grad,
	[OP_SOFTMAX] = derive_softmax,
	[OP_LOG_SOFTMAX] = derive_softmax,
	[OP_ATTENTION] = derive_attention,
	[OP_ROTARY] = derive_rotary,
	[OP_RMS_NORM] = derive_rms_norm,
	[OP_GATE] = derive_gate,
	[OP_LINEAR_CROSS_ENTROPY] = derive_linear_cross_entropy,
	[OP_LSTM_CELL] = derive_lstm_cell,
	[OP_GRU_CELL] = derive_gru_cell,
	[OP_FUNCTION] = derive_function,
	[OP_MAX_POOL_GRAD] = derive_max_pool_grad,
	[OP_MAX_POOL_GATHER] = derive_max_pool_gather,
	[OP_SOFTMAX_GRAD] = derive_softmax_grad,
	[OP_LOG_SOFTMAX_GRAD] = derive_log_softmax_grad,
	[OP_SUM_SQUARES] = derive_sum_squares,
	[OP_LABEL_SHARE] = derive_label_share,
};

derive_fn *derive_rule(enum op_kind kind)
{
	return (unsigned)kind < OP_KINDS ? rules[kind] : NULL;
}

enum tarn_status derive_add(struct graph *graph, uint32_t op, const char *what, enum op_kind kind,
			    const struct op_attr *attr, const uint32_t *input, uint32_t inputs, uint32_t *out)
{
	char *name = host_arena_printf(graph->arena, "%s/gradient_%s", op_name(graph, op), what);
	if (!name)
		return TARN_ENOMEM;
	return graph_add_op(graph, kind, PHASE_BACKWARD, name, attr, input, inputs, out);
}

enum tarn_status derive_fused_activation(struct graph *graph, uint32_t op, uint32_t dy, uint32_t *dz)
{
	const struct op_attr attr = { .activation = graph->op[op].attr.activation };
	const uint32_t input[2] = { dy, op_outputs(graph, op)[0] };
	*dz = dy;
	if (attr.activation == ACTIVATION_NONE)
		return TARN_OK;
	return derive_add(graph, op, "activation", OP_ACTIVATION_GRAD, &attr, input, 2, dz);
}

enum tarn_status derive_unsupported(const struct graph *graph, uint32_t op, const char *what)
{
	return tarn_fail(TARN_EUNSUPPORTED, "%s: the gradient of %s %s is not available", op_name(graph, op),
			 op_row(graph->op[op].kind)->name, what);
}
