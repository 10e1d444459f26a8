/* op_table.c - the table of op.h as data. */
#include "graph/op.h"

#include <stddef.h>

#define ANY UINT8_MAX
/* Most ops write tensors of their own. */
#define OWN                \
	{                  \
		-1, -1, -1 \
	}

static const struct op_row rows[OP_KINDS] = {
	/*                                name, inputs: least, most, outputs, effect, view, version_of, in_place */
	[OP_INPUT] = { "input", 1, 1, 1, true, false, OWN, 0 },
	[OP_RECORD] = { "record", 2, 2, 1, true, false, { 0, -1, -1 }, 0 },
	[OP_MATMUL] = { "matmul", 2, 3, 1, false, false, OWN, 0 },
	[OP_CONV2D] = { "conv2d", 2, 3, 1, false, false, OWN, 0 },
	[OP_CONV2D_GRAD_INPUT] = { "conv2d_grad_input", 2, 2, 1, false, false, OWN, 0 },
	[OP_CONV2D_GRAD_WEIGHT] = { "conv2d_grad_weight", 2, 2, 1, false, false, OWN, 0 },
	[OP_SUM_ROWS] = { "sum_rows", 1, 1, 1, false, false, OWN, 0 },
	[OP_MAX_POOL] = { "max_pool", 1, 1, 2, false, false, OWN, 0 },
	[OP_MAX_POOL_GRAD] = { "max_pool_grad", 2, 2, 1, false, false, OWN, 0 },
	[OP_AVG_POOL] = { "avg_pool", 1, 1, 1, false, false, OWN, 0 },
	[OP_AVG_POOL_GRAD] = { "avg_pool_grad", 1, 1, 1, false, false, OWN, 0 },
	[OP_ACTIVATION] = { "activation", 1, 1, 1, false, false, OWN, 1 },
	[OP_ACTIVATION_GRAD] = { "activation_grad", 2, 2, 1, false, false, OWN, 1 | 2 },
	[OP_BATCH_STATS] = { "batch_stats", 1, 1, 2, false, false, OWN, 0 },
	[OP_BATCH_APPLY] = { "batch_apply", 5, 5, 1, false, false, OWN, 1 },
	[OP_BATCH_REDUCE] = { "batch_reduce", 6, 6, 2, false, false, OWN, 0 },
	[OP_BATCH_GRAD_INPUT] = { "batch_grad_input", 8, 8, 1, false, false, OWN, 1 | 2 },
	[OP_RUNNING_UPDATE] = { "running_update", 5, 6, 3, true, false, { 0, 1, 2 }, 0 },
	[OP_LAYER_NORM] = { "layer_norm", 3, 3, 3, false, false, OWN, 1 },
	[OP_LAYER_NORM_GRAD] = { "layer_norm_grad", 5, 5, 1, false, false, OWN, 1 | 2 },
	[OP_LAYER_NORM_GRAD_PARAM] = { "layer_norm_grad_param", 4, 4, 2, false, false, OWN, 0 },
	[OP_DROPOUT] = { "dropout", 2, 2, 1, false, false, OWN, 1 },
	[OP_ADD] = { "add", 2, 2, 1, false, false, OWN, 1 | 2 },
	[OP_MULTIPLY] = { "multiply", 2, 2, 1, false, false, OWN, 1 | 2 },
	[OP_SCALE] = { "scale", 1, 1, 1, false, false, OWN, 1 },
	[OP_CONCAT] = { "concat", 2, ANY, 1, false, false, OWN, 0 },
	[OP_SLICE] = { "slice", 1, 1, 1, false, false, OWN, 0 },
	[OP_PAD_AXIS] = { "pad_axis", 1, 1, 1, false, false, OWN, 0 },
	[OP_RESHAPE] = { "reshape", 1, 1, 1, false, true, OWN, 0 },
	[OP_PERMUTE] = { "permute", 1, 1, 1, false, false, OWN, 0 },
	[OP_SOFTMAX_CROSS_ENTROPY] = { "softmax_cross_entropy", 2, 2, 1, false, false, OWN, 0 },
	[OP_SOFTMAX_CROSS_ENTROPY_GRAD] = { "softmax_cross_entropy_grad", 3, 3, 1, false, false, OWN, 1 },
	[OP_COUNT_CORRECT] = { "count_correct", 2, 2, 1, false, false, OWN, 0 },
	[OP_MEAN_SQUARED_ERROR] = { "mean_squared_error", 2, 2, 1, false, false, OWN, 0 },
	[OP_MEAN_SQUARED_ERROR_GRAD] = { "mean_squared_error_grad", 3, 3, 1, false, false, OWN, 1 },
	[OP_FILL] = { "fill", 0, 0, 1, false, false, OWN, 0 },
	[OP_SUM_SQUARES] = { "sum_squares", 1, 1, 1, false, false, OWN, 0 },
	[OP_CLIP_SCALE] = { "clip_scale", 1, ANY, 2, false, false, OWN, 0 },
	[OP_SGD] = { "sgd", 3, 4, 1, true, false, { 0, -1, -1 }, 0 },
	[OP_MOMENTUM] = { "momentum", 4, 5, 2, true, false, { 0, 1, -1 }, 0 },
	[OP_ADAM] = { "adam", 5, 6, 3, true, false, { 0, 1, 2 }, 0 },
	[OP_BATCH_MATMUL] = { "batch_matmul", 2, 2, 1, false, false, OWN, 0 },
	[OP_ADD_BROADCAST] = { "add_broadcast", 2, 2, 1, false, false, OWN, 1 },
	[OP_BROADCAST_ROWS] = { "broadcast_rows", 1, 1, 1, false, false, OWN, 0 },
	[OP_EMBEDDING] = { "embedding", 2, 2, 1, false, false, OWN, 0 },
	[OP_EMBEDDING_GRAD] = { "embedding_grad", 2, 2, 1, false, false, OWN, 0 },
	[OP_SOFTMAX] = { "softmax", 1, 1, 1, false, false, OWN, 1 },
	[OP_SOFTMAX_GRAD] = { "softmax_grad", 2, 2, 1, false, false, OWN, 1 },
	[OP_LOG_SOFTMAX] = { "log_softmax", 1, 1, 1, false, false, OWN, 1 },
	[OP_LOG_SOFTMAX_GRAD] = { "log_softmax_grad", 2, 2, 1, false, false, OWN, 1 },
	[OP_ATTENTION] = { "attention", 3, 3, 2, false, false, OWN, 0 },
	[OP_ATTENTION_GRAD] = { "attention_grad", 6, 6, 3, false, false, OWN, 0 },
	[OP_ROTARY] = { "rotary", 1, 1, 1, false, false, OWN, 1 },
	[OP_RMS_NORM] = { "rms_norm", 2, 2, 2, false, false, OWN, 1 },
	[OP_RMS_NORM_GRAD] = { "rms_norm_grad", 4, 4, 1, false, false, OWN, 1 | 2 },
	[OP_RMS_NORM_GRAD_PARAM] = { "rms_norm_grad_param", 3, 3, 1, false, false, OWN, 0 },
	[OP_GATE] = { "gate", 1, 1, 1, false, false, OWN, 0 },
	[OP_GATE_GRAD] = { "gate_grad", 2, 2, 1, false, false, OWN, 2 },
	[OP_LINEAR_CROSS_ENTROPY] = { "linear_cross_entropy", 3, 4, 2, false, false, OWN, 0 },
	[OP_LINEAR_CROSS_ENTROPY_GRAD] = { "linear_cross_entropy_grad", 5, 6, 3, false, false, OWN, 0 },
	[OP_LSTM_CELL] = { "lstm_cell", 2, 2, 2, false, false, OWN, 0 },
	[OP_LSTM_CELL_GRAD] = { "lstm_cell_grad", 5, 5, 2, false, false, OWN, 4 },
	[OP_GRU_CELL] = { "gru_cell", 3, 3, 1, false, false, OWN, 4 },
	[OP_GRU_CELL_GRAD] = { "gru_cell_grad", 4, 4, 3, false, false, OWN, 2 },
	[OP_EXPONENTIAL_AVERAGE] = { "exponential_average", 2, 3, 1, true, false, { 0, -1, -1 }, 0 },
	[OP_WEIGHT_MASK] = { "weight_mask", 1, 1, 1, false, false, OWN, 0 },
	[OP_GROUP_NORM] = { "group_norm", 3, 3, 3, false, false, OWN, 1 },
	[OP_GROUP_NORM_GRAD] = { "group_norm_grad", 5, 5, 1, false, false, OWN, 1 | 2 },
	[OP_GROUP_NORM_GRAD_PARAM] = { "group_norm_grad_param", 4, 4, 2, false, false, OWN, 0 },
	[OP_UPSAMPLE] = { "upsample", 1, 1, 1, false, false, OWN, 0 },
	[OP_UPSAMPLE_GRAD] = { "upsample_grad", 1, 1, 1, false, false, OWN, 0 },
	[OP_ADAPTIVE_AVG_POOL] = { "adaptive_avg_pool", 1, 1, 1, false, false, OWN, 0 },
	[OP_ADAPTIVE_AVG_POOL_GRAD] = { "adaptive_avg_pool_grad", 1, 1, 1, false, false, OWN, 0 },
	[OP_BINARY_CROSS_ENTROPY] = { "binary_cross_entropy", 2, 2, 1, false, false, OWN, 0 },
	[OP_BINARY_CROSS_ENTROPY_GRAD] = { "binary_cross_entropy_grad", 3, 3, 1, false, false, OWN, 1 },
	[OP_LOGISTIC_MIXTURE] = { "logistic_mixture", 2, 2, 1, false, false, OWN, 0 },
	[OP_LOGISTIC_MIXTURE_GRAD] = { "logistic_mixture_grad", 3, 3, 1, false, false, OWN, 0 },
	[OP_WEIGHT_NORM] = { "weight_norm", 2, 2, 1, false, false, OWN, 0 },
	[OP_WEIGHT_NORM_GRAD] = { "weight_norm_grad", 3, 3, 2, false, false, OWN, 0 },
	[OP_CAST] = { "cast", 1, 1, 1, false, false, OWN, 0 },
	[OP_STOP_GRADIENT] = { "stop_gradient", 1, 1, 1, false, true, OWN, 0 },
	[OP_FUNCTION] = { "function", 1, 1, 1, false, false, OWN, 1 },
	[OP_MAX_POOL_GATHER] = { "max_pool_gather", 2, 2, 1, false, false, OWN, 0 },
	[OP_LABEL_WEIGHTS] = { "label_weights", 1, 1, 1, false, false, OWN, 0 },
	[OP_LABEL_SHARE] = { "label_share", 3, 3, 1, false, false, OWN, 0 },
	[OP_SLICE_VIEW] = { "slice_view", 1, 1, 1, false, true, OWN, 0 },
	[OP_LION] = { "lion", 4, 5, 2, true, false, { 0, 1, -1 }, 0 },
	[OP_ADAFACTOR] = { "adafactor", 5, 6, 3, true, false, { 0, 1, 2 }, 0 },
	[OP_ADAFACTOR_VECTOR] = { "adafactor_vector", 4, 5, 2, true, false, { 0, 1, -1 }, 0 },
	[OP_ADAM_8BIT] = { "adam_8bit", 5, 6, 3, true, false, { 0, 1, 2 }, 0 },
	[OP_UNSCALE] = { "unscale", 2, ANY, 2, false, false, OWN, 0 },
	[OP_LOSS_SCALE] = { "loss_scale", 4, 4, 3, true, false, { 0, 1, 2 }, 0 },
};

const struct op_row *op_row(enum op_kind kind)
{
	return (unsigned)kind < OP_KINDS ? &rows[kind] : NULL;
}

static const struct {
	const char *name;
	bool reads_output;
} activations[ACTIVATIONS] = {
	[ACTIVATION_NONE] = { "none", true },
	[ACTIVATION_RELU] = { "relu", true },
	[ACTIVATION_RELU6] = { "relu6", true },
	[ACTIVATION_LEAKY_RELU] = { "leaky_relu", true },
	[ACTIVATION_ELU] = { "elu", true },
	[ACTIVATION_SIGMOID] = { "sigmoid", true },
	[ACTIVATION_TANH] = { "tanh", true },
	[ACTIVATION_GELU] = { "gelu", false },
	[ACTIVATION_GELU_TANH] = { "gelu_tanh", false },
	[ACTIVATION_SILU] = { "silu", false },
	[ACTIVATION_SOFTPLUS] = { "softplus", false },
};

const char *activation_name(enum activation activation)
{
	return (unsigned)activation < ACTIVATIONS ? activations[activation].name : "unknown";
}

bool op_reads_version(uint32_t kind, uint32_t input)
{
	return kind == OP_EXPONENTIAL_AVERAGE && input == 1;
}

uint32_t op_skip_input(uint32_t kind, uint32_t inputs)
{
	switch ((enum op_kind)kind) {
	case OP_SGD:
	case OP_MOMENTUM:
	case OP_ADAM:
	case OP_LION:
	case OP_ADAFACTOR:
	case OP_ADAFACTOR_VECTOR:
	case OP_ADAM_8BIT:
	case OP_RUNNING_UPDATE:
	case OP_EXPONENTIAL_AVERAGE:
		return inputs == rows[kind].max_inputs ? inputs - 1 : UINT32_MAX;
	default:
		return UINT32_MAX;
	}
}

bool activation_grad_reads_output(enum activation activation)
{
	return (unsigned)activation < ACTIVATIONS && activations[activation].reads_output;
}
