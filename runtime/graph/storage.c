/* storage.c - the table of storage.h. */
#include "graph/storage.h"

#define BIT(i) (1u << (i))
#define ALL UINT32_MAX

static const struct op_storage table[OP_KINDS] = {
	/*                          inputs, wide inputs, outputs, wide outputs, policy */
	[OP_MATMUL] = { BIT(0) | BIT(1), 0, 0, BIT(0), STORAGE_16_BITS },
	[OP_BATCH_MATMUL] = { BIT(0) | BIT(1), 0, 0, BIT(0), STORAGE_16_BITS },
	[OP_CONV2D] = { BIT(0) | BIT(1), 0, BIT(0), 0, STORAGE_16_BITS },
	[OP_CONV2D_GRAD_INPUT] = { BIT(0) | BIT(1), 0, BIT(0), 0, STORAGE_16_BITS },
	[OP_CONV2D_GRAD_WEIGHT] = { BIT(0) | BIT(1), 0, 0, BIT(0), STORAGE_16_BITS },
	[OP_ATTENTION] = { BIT(0) | BIT(1) | BIT(2), 0, BIT(0), 0, STORAGE_16_BITS },
	[OP_ATTENTION_GRAD] = { BIT(0) | BIT(1) | BIT(2) | BIT(3) | BIT(4), 0, BIT(0) | BIT(1) | BIT(2), 0,
				STORAGE_16_BITS },
	[OP_LINEAR_CROSS_ENTROPY] = { BIT(0) | BIT(1), 0, 0, 0, STORAGE_16_BITS },
	[OP_LINEAR_CROSS_ENTROPY_GRAD] = { BIT(0) | BIT(1), 0, BIT(0), BIT(1), STORAGE_16_BITS },
	[OP_EMBEDDING] = { 0, BIT(0), 0, BIT(0), STORAGE_16_BITS },
	[OP_EMBEDDING_GRAD] = { BIT(0), 0, 0, BIT(0), STORAGE_FOLLOW },
	[OP_FILL] = { 0, 0, 0, BIT(0), STORAGE_FLOAT32 },

	[OP_SUM_ROWS] = { BIT(0), 0, 0, 0, STORAGE_FOLLOW },
	[OP_SUM_SQUARES] = { BIT(0), 0, 0, 0, STORAGE_FOLLOW },
	[OP_MAX_POOL] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_MAX_POOL_GRAD] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_AVG_POOL] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_AVG_POOL_GRAD] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_ADAPTIVE_AVG_POOL] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_ADAPTIVE_AVG_POOL_GRAD] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_UPSAMPLE] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_UPSAMPLE_GRAD] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_ACTIVATION] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_ACTIVATION_GRAD] = { BIT(0) | BIT(1), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_BATCH_STATS] = { BIT(0), 0, 0, 0, STORAGE_FOLLOW },
	[OP_BATCH_APPLY] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_BATCH_REDUCE] = { BIT(0) | BIT(1), 0, 0, 0, STORAGE_FOLLOW },
	[OP_BATCH_GRAD_INPUT] = { BIT(0) | BIT(1), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_LAYER_NORM] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_LAYER_NORM_GRAD] = { BIT(0) | BIT(1), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_LAYER_NORM_GRAD_PARAM] = { BIT(0) | BIT(1), 0, 0, 0, STORAGE_FOLLOW },
	[OP_RMS_NORM] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_RMS_NORM_GRAD] = { BIT(0) | BIT(1), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_RMS_NORM_GRAD_PARAM] = { BIT(0) | BIT(1), 0, 0, 0, STORAGE_FOLLOW },
	[OP_GROUP_NORM] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_GROUP_NORM_GRAD] = { BIT(0) | BIT(1), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_GROUP_NORM_GRAD_PARAM] = { BIT(0) | BIT(1), 0, 0, 0, STORAGE_FOLLOW },
	[OP_DROPOUT] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_ADD] = { BIT(0) | BIT(1), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_MULTIPLY] = { BIT(0) | BIT(1), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_SCALE] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_ADD_BROADCAST] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_BROADCAST_ROWS] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_CONCAT] = { ALL, 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_SLICE] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_SLICE_VIEW] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_PAD_AXIS] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_RESHAPE] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_STOP_GRADIENT] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_PERMUTE] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_SOFTMAX] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_SOFTMAX_GRAD] = { BIT(0) | BIT(1), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_ROTARY] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_GATE] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_GATE_GRAD] = { BIT(0) | BIT(1), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_WEIGHT_MASK] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	/* The cell's state c is a long sum: float32. */
	[OP_LSTM_CELL] = { BIT(0), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_LSTM_CELL_GRAD] = { BIT(0) | BIT(2), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_GRU_CELL] = { BIT(0) | BIT(1) | BIT(2), 0, BIT(0), 0, STORAGE_FOLLOW },
	[OP_GRU_CELL_GRAD] = { BIT(0) | BIT(1) | BIT(2) | BIT(3), 0, BIT(0) | BIT(1) | BIT(2), 0, STORAGE_FOLLOW },

	/* Weights and gradients as they come; the versions that an update writes are stored as before. */
	[OP_SGD] = { 0, BIT(0) | BIT(1), 0, 0, STORAGE_FOLLOW },
	[OP_MOMENTUM] = { 0, BIT(0) | BIT(2), 0, 0, STORAGE_FOLLOW },
	[OP_ADAM] = { 0, BIT(0) | BIT(3), 0, 0, STORAGE_FOLLOW },
	[OP_EXPONENTIAL_AVERAGE] = { 0, BIT(1), 0, 0, STORAGE_FOLLOW },
};

const struct op_storage *op_storage(enum op_kind kind)
{
	return &table[kind];
}

uint32_t storage_type(const struct graph *graph, enum op_kind kind, const struct op_attr *attr, const uint32_t *input,
		      uint32_t inputs)
{
	const struct op_storage *storage = op_storage(kind);
	for (uint32_t i = 0; i < inputs; i++)
		if (storage_has(storage->inputs, i))
			return graph->tensor[input[i]].dtype;
	if (storage->wide_outputs)
		return attr->mode;
	for (uint32_t i = 0; i < inputs; i++)
		if (storage_has(storage->wide_inputs, i) && graph->tensor[input[i]].dtype != DTYPE_F32)
			return graph->tensor[input[i]].dtype;
	return DTYPE_F32;
}
