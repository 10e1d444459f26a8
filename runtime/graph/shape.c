/* shape.c - the table of shape rules, and the checks that they share. The rules are in shape_math.c, shape_nn.c and
 * shape_sequence.c. */
#include "graph/shape_rule.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct tensor *shape_in(const struct shape_call *call, uint32_t index)
{
	return &call->graph->tensor[call->input[index]];
}

/* True for the names that layers get by default, such as conv2d1 or block/conv2d12: they say the kind already. */
static bool says_kind(const char *name, const char *kind)
{
	const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
	size_t length = strlen(kind);
	return !strncmp(last, kind, length) && !last[length + strspn(last + length, "0123456789")];
}

/* "conv1: conv2d: <sentence>" */
enum tarn_status shape_fail(const struct shape_call *call, const char *format, ...)
{
	char sentence[TARN_ERROR_BYTES];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(sentence, sizeof sentence, format, arguments);
	va_end(arguments);
	if (says_kind(call->name, call->row->name))
		return tarn_fail(TARN_EINVAL, "%s: %s", call->name, sentence);
	return tarn_fail(TARN_EINVAL, "%s: %s: %s", call->name, call->row->name, sentence);
}

enum tarn_status shape_check(const char *name, const struct shape *shape)
{
	char text[SHAPE_TEXT];
	if (shape->rank > OP_MAX_RANK)
		return tarn_fail(TARN_EINVAL, "%s: %u dimensions, at most %d are possible", name, shape->rank,
				 OP_MAX_RANK);
	if (shape->dtype >= DTYPES)
		return tarn_fail(TARN_EINVAL, "%s: unknown element type %u", name, shape->dtype);
	uint64_t bytes = dtype_bytes(shape->dtype);
	for (uint32_t i = 0; i < shape->rank; i++) {
		shape_format(shape->dim, shape->rank, text, sizeof text);
		if (!shape->dim[i])
			return tarn_fail(TARN_EINVAL, "%s: the shape %s has a zero dimension", name, text);
		if (!bytes_mul(bytes, shape->dim[i], &bytes) || bytes > TENSOR_MAX_BYTES)
			return tarn_fail(TARN_EINVAL, "%s: a tensor of shape %s is larger than 2^62 bytes", name, text);
	}
	return TARN_OK;
}

void shape_set(struct shape *shape, enum dtype dtype, uint32_t rank, const uint32_t *dim)
{
	memset(shape, 0, sizeof *shape);
	shape->dtype = (uint8_t)dtype;
	shape->rank = (uint8_t)rank;
	memcpy(shape->dim, dim, rank * sizeof *dim);
}

void shape_set_vector(struct shape *shape, enum dtype dtype, uint32_t length)
{
	shape_set(shape, dtype, 1, &length);
}

/* Output k looks like that tensor. */
void shape_set_like(struct shape *shape, const struct tensor *tensor)
{
	shape_set(shape, tensor->dtype, tensor->rank, tensor->dim);
}

bool shape_same_dims(const struct tensor *a, const struct tensor *b)
{
	return a->rank == b->rank && !memcmp(a->dim, b->dim, a->rank * sizeof *a->dim);
}

uint32_t shape_last_dim(const struct tensor *tensor)
{
	return tensor->rank ? tensor->dim[tensor->rank - 1] : 1;
}

enum tarn_status shape_fail_shape(const struct shape_call *call, uint32_t index, const char *what, const char *needed)
{
	char text[SHAPE_TEXT];
	const struct tensor *tensor = shape_in(call, index);
	return shape_fail(call, "%s %s has the shape %s, needed is %s", what,
			  tensor_name(call->graph, call->input[index]),
			  shape_format(tensor->dim, tensor->rank, text, sizeof text), needed);
}

enum tarn_status shape_need_dtype(const struct shape_call *call, uint32_t index, enum dtype dtype)
{
	const struct tensor *tensor = shape_in(call, index);
	if (tensor->dtype == dtype)
		return TARN_OK;
	return shape_fail(call, "input %" PRIu32 ", %s, holds %s, needed is %s", index,
			  tensor_name(call->graph, call->input[index]), dtype_name(tensor->dtype), dtype_name(dtype));
}

enum tarn_status shape_need_real(const struct shape_call *call, uint32_t first, uint32_t last)
{
	enum tarn_status st = TARN_OK;
	for (uint32_t i = first; i < last && !st; i++) {
		bool narrow = storage_has(call->storage->inputs, i) ||
			      (storage_has(call->storage->wide_inputs, i) && shape_in(call, i)->dtype != DTYPE_F32);
		if (narrow && !dtype_is_real(call->stored))
			return shape_need_dtype(call, i, DTYPE_F32);
		st = shape_need_dtype(call, i, narrow ? (enum dtype)call->stored : DTYPE_F32);
	}
	return st;
}

/* Where results may have either type, `mode` names the storage type or f32. */
static enum tarn_status need_result(const struct shape_call *call)
{
	uint32_t mode = call->attr->mode;
	if (!call->storage->wide_outputs || (dtype_is_real(mode) && (mode == DTYPE_F32 || mode == call->stored)))
		return TARN_OK;
	return shape_fail(call, "the result cannot be %s where numbers are stored as %s", dtype_name(mode),
			  dtype_name(call->stored));
}

/* The types of the outputs that the rule left as f32 or like an input. */
static void set_stored(const struct shape_call *call)
{
	for (uint32_t k = 0; k < call->row->outputs; k++) {
		if (storage_has(call->storage->outputs, k))
			call->out[k].dtype = (uint8_t)call->stored;
		else if (storage_has(call->storage->wide_outputs, k))
			call->out[k].dtype = (uint8_t)call->attr->mode;
	}
}

enum tarn_status shape_need_rank(const struct shape_call *call, uint32_t index, uint32_t rank, const char *layout)
{
	return shape_in(call, index)->rank == rank ? TARN_OK : shape_fail_shape(call, index, "input", layout);
}

/* Inputs [first, last) are vectors of that length. */
enum tarn_status shape_need_vectors(const struct shape_call *call, uint32_t first, uint32_t last, uint32_t length)
{
	char needed[SHAPE_TEXT];
	for (uint32_t i = first; i < last; i++) {
		if (shape_in(call, i)->rank == 1 && shape_in(call, i)->dim[0] == length)
			continue;
		return shape_fail_shape(call, i, "input", shape_format(&length, 1, needed, sizeof needed));
	}
	return TARN_OK;
}

enum tarn_status shape_need_same(const struct shape_call *call, uint32_t index, uint32_t other)
{
	char needed[SHAPE_TEXT];
	if (shape_same_dims(shape_in(call, index), shape_in(call, other)))
		return TARN_OK;
	shape_format(shape_in(call, other)->dim, shape_in(call, other)->rank, needed, sizeof needed);
	return shape_fail_shape(call, index, "input", needed);
}

enum tarn_status shape_need_range(const struct shape_call *call, const char *what, double value, double low,
				  double high)
{
	if (isfinite(value) && value >= low && value <= high)
		return TARN_OK;
	return shape_fail(call, "%s is %g, it must be from %g to %g", what, value, low, high);
}

enum tarn_status shape_need_positive(const struct shape_call *call, const char *what, double value)
{
	if (isfinite(value) && value > 0)
		return TARN_OK;
	return shape_fail(call, "%s is %g, it must be larger than 0", what, value);
}

/* Only activations that a kernel can apply while it stores its result. */
enum tarn_status shape_need_fusable(const struct shape_call *call)
{
	uint32_t a = call->attr->activation;
	if (a == ACTIVATION_NONE || a == ACTIVATION_RELU || a == ACTIVATION_RELU6)
		return TARN_OK;
	return shape_fail(call, "activation %s cannot be part of this op, only none, relu and relu6 can",
			  activation_name(a));
}

/* x (rows, C) with at least one row dimension. */
enum tarn_status shape_need_rows(const struct shape_call *call, uint32_t index)
{
	return shape_in(call, index)->rank >= 2
		       ? TARN_OK
		       : shape_fail_shape(call, index, "input", "at least 2 dimensions, channels last");
}

enum tarn_status shape_need_row_count(const struct shape_call *call, uint32_t index, uint32_t *rows)
{
	uint64_t count = tensor_rows(shape_in(call, index));
	if (count > UINT32_MAX)
		return shape_fail(call, "%" PRIu64 " rows are too many", count);
	*rows = (uint32_t)count;
	return TARN_OK;
}

enum tarn_status shape_need_label_attributes(const struct shape_call *call)
{
	const struct op_attr *attr = call->attr;
	if (attr->has_ignore_index > 1)
		return shape_fail(call, "has_ignore_index must be 0 or 1");
	return shape_need_range(call, "label_smoothing", (double)attr->label_smoothing, 0, 1);
}

/* The parameter block: u8, as many bytes as struct step_scalars. */
enum tarn_status shape_need_scalars(const struct shape_call *call, uint32_t index)
{
	enum tarn_status st = shape_need_dtype(call, index, DTYPE_U8);
	return st ? st : shape_need_vectors(call, index, index + 1, (uint32_t)sizeof(struct step_scalars));
}

enum tarn_status shape_need_number(const struct shape_call *call, uint32_t index)
{
	if (call->inputs <= index)
		return TARN_OK;
	enum tarn_status st = shape_need_real(call, index, index + 1);
	return st ? st : shape_need_vectors(call, index, index + 1, 1);
}

static shape_rule_fn *const rules[OP_KINDS] = {
	[OP_INPUT] = shape_rule_input,
	[OP_RECORD] = shape_rule_record,
	[OP_MATMUL] = shape_rule_matmul,
	[OP_CONV2D] = shape_rule_conv2d,
	[OP_CONV2D_GRAD_INPUT] = shape_rule_conv2d_grad_input,
	[OP_CONV2D_GRAD_WEIGHT] = shape_rule_conv2d_grad_weight,
	[OP_SUM_ROWS] = shape_rule_sum_rows,
	[OP_MAX_POOL] = shape_rule_pool,
	[OP_MAX_POOL_GRAD] = shape_rule_pool_grad,
	[OP_AVG_POOL] = shape_rule_pool,
	[OP_AVG_POOL_GRAD] = shape_rule_pool_grad,
	[OP_ACTIVATION] = shape_rule_activation,
	[OP_ACTIVATION_GRAD] = shape_rule_activation,
	[OP_BATCH_STATS] = shape_rule_sum_rows,
	[OP_BATCH_APPLY] = shape_rule_batch,
	[OP_BATCH_REDUCE] = shape_rule_batch,
	[OP_BATCH_GRAD_INPUT] = shape_rule_batch,
	[OP_RUNNING_UPDATE] = shape_rule_running_update,
	[OP_LAYER_NORM] = shape_rule_layer_norm,
	[OP_LAYER_NORM_GRAD] = shape_rule_layer_norm_grad,
	[OP_LAYER_NORM_GRAD_PARAM] = shape_rule_layer_norm_grad,
	[OP_DROPOUT] = shape_rule_dropout,
	[OP_ADD] = shape_rule_elementwise,
	[OP_MULTIPLY] = shape_rule_elementwise,
	[OP_SCALE] = shape_rule_elementwise,
	[OP_CONCAT] = shape_rule_concat,
	[OP_SLICE] = shape_rule_slice,
	[OP_SLICE_VIEW] = shape_rule_slice_view,
	[OP_PAD_AXIS] = shape_rule_pad_axis,
	[OP_RESHAPE] = shape_rule_reshape,
	[OP_PERMUTE] = shape_rule_permute,
	[OP_SOFTMAX_CROSS_ENTROPY] = shape_rule_cross_entropy,
	[OP_SOFTMAX_CROSS_ENTROPY_GRAD] = shape_rule_cross_entropy,
	[OP_COUNT_CORRECT] = shape_rule_cross_entropy,
	[OP_MEAN_SQUARED_ERROR] = shape_rule_squared_error,
	[OP_MEAN_SQUARED_ERROR_GRAD] = shape_rule_squared_error,
	[OP_FILL] = shape_rule_fill,
	[OP_SUM_SQUARES] = shape_rule_sum_squares,
	[OP_CLIP_SCALE] = shape_rule_clip_scale,
	[OP_UNSCALE] = shape_rule_unscale,
	[OP_LOSS_SCALE] = shape_rule_loss_scale,
	[OP_SGD] = shape_rule_update,
	[OP_MOMENTUM] = shape_rule_update,
	[OP_ADAM] = shape_rule_update,
	[OP_BATCH_MATMUL] = shape_rule_batch_matmul,
	[OP_ADD_BROADCAST] = shape_rule_add_broadcast,
	[OP_BROADCAST_ROWS] = shape_rule_broadcast_rows,
	[OP_EMBEDDING] = shape_rule_embedding,
	[OP_EMBEDDING_GRAD] = shape_rule_embedding_grad,
	[OP_SOFTMAX] = shape_rule_softmax,
	[OP_SOFTMAX_GRAD] = shape_rule_softmax,
	[OP_LOG_SOFTMAX] = shape_rule_log_softmax,
	[OP_LOG_SOFTMAX_GRAD] = shape_rule_log_softmax,
	[OP_ATTENTION] = shape_rule_attention,
	[OP_ATTENTION_GRAD] = shape_rule_attention_grad,
	[OP_ROTARY] = shape_rule_rotary,
	[OP_RMS_NORM] = shape_rule_rms_norm,
	[OP_RMS_NORM_GRAD] = shape_rule_rms_norm_grad,
	[OP_RMS_NORM_GRAD_PARAM] = shape_rule_rms_norm_grad,
	[OP_GATE] = shape_rule_gate,
	[OP_GATE_GRAD] = shape_rule_gate_grad,
	[OP_LINEAR_CROSS_ENTROPY] = shape_rule_linear_cross_entropy,
	[OP_LINEAR_CROSS_ENTROPY_GRAD] = shape_rule_linear_cross_entropy,
	[OP_LSTM_CELL] = shape_rule_lstm_cell,
	[OP_LSTM_CELL_GRAD] = shape_rule_lstm_cell,
	[OP_GRU_CELL] = shape_rule_gru_cell,
	[OP_GRU_CELL_GRAD] = shape_rule_gru_cell,
	[OP_EXPONENTIAL_AVERAGE] = shape_rule_exponential_average,
	[OP_WEIGHT_MASK] = shape_rule_weight_mask,
	[OP_GROUP_NORM] = shape_rule_group_norm,
	[OP_GROUP_NORM_GRAD] = shape_rule_group_norm_grad,
	[OP_GROUP_NORM_GRAD_PARAM] = shape_rule_group_norm_grad,
	[OP_UPSAMPLE] = shape_rule_resample,
	[OP_UPSAMPLE_GRAD] = shape_rule_resample,
	[OP_ADAPTIVE_AVG_POOL] = shape_rule_resample,
	[OP_ADAPTIVE_AVG_POOL_GRAD] = shape_rule_resample,
	[OP_BINARY_CROSS_ENTROPY] = shape_rule_squared_error,
	[OP_BINARY_CROSS_ENTROPY_GRAD] = shape_rule_squared_error,
	[OP_LOGISTIC_MIXTURE] = shape_rule_logistic_mixture,
	[OP_LOGISTIC_MIXTURE_GRAD] = shape_rule_logistic_mixture,
	[OP_WEIGHT_NORM] = shape_rule_weight_norm,
	[OP_WEIGHT_NORM_GRAD] = shape_rule_weight_norm,
	[OP_CAST] = shape_rule_cast,
	[OP_STOP_GRADIENT] = shape_rule_stop_gradient,
	[OP_FUNCTION] = shape_rule_function,
	[OP_MAX_POOL_GATHER] = shape_rule_max_pool_gather,
	[OP_LABEL_WEIGHTS] = shape_rule_label_weights,
	[OP_LABEL_SHARE] = shape_rule_label_share,
	[OP_LION] = shape_rule_update,
	[OP_ADAFACTOR] = shape_rule_update,
	[OP_ADAFACTOR_VECTOR] = shape_rule_update,
	[OP_ADAM_8BIT] = shape_rule_update,
};

/* The inputs exist and are shapes that the rules may compute with. */
static enum tarn_status check_inputs(const struct shape_call *call)
{
	for (uint32_t i = 0; i < call->inputs; i++) {
		if (call->input[i] >= call->graph->tensors)
			return shape_fail(call, "input %" PRIu32 " is tensor %" PRIu32 " of %" PRIu32, i,
					  call->input[i], call->graph->tensors);
		struct shape shape = { .dtype = shape_in(call, i)->dtype, .rank = shape_in(call, i)->rank };
		if (shape.rank <= OP_MAX_RANK)
			memcpy(shape.dim, shape_in(call, i)->dim, shape.rank * sizeof *shape.dim);
		enum tarn_status st = shape_check(call->name, &shape);
		if (st)
			return st;
	}
	return TARN_OK;
}

enum tarn_status shape_infer(const struct graph *graph, enum op_kind kind, const char *name, const struct op_attr *attr,
			     const uint32_t *input, uint32_t inputs, struct shape *out)
{
	const struct op_row *row = op_row(kind);
	if (!row)
		return tarn_fail(TARN_EINVAL, "%s: unknown kind of op %d", name, (int)kind);
	struct shape_call call = { graph, row, name, attr, input, inputs, out, op_storage(kind), DTYPE_F32 };
	if (inputs < row->min_inputs || (inputs > row->max_inputs && row->max_inputs != UINT8_MAX))
		return shape_fail(&call, "%" PRIu32 " inputs, needed are %u to %u", inputs, row->min_inputs,
				  row->max_inputs);
	enum tarn_status st = check_inputs(&call);
	if (st)
		return st;
	call.stored = storage_type(graph, kind, attr, input, inputs);
	st = need_result(&call);
	if (!st)
		st = rules[kind](&call);
	if (!st)
		set_stored(&call);
	for (uint32_t k = 0; k < row->outputs && !st; k++)
		st = shape_check(name, &out[k]);
	return st;
}
