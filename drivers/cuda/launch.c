/* launch.c - the table of launch functions, and what they share. */
#include "cuda/launch.h"

#include "graph/storage.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A view: no kernel at all. */
static enum tarn_status launch_nothing(struct launch_call *call)
{
	(void)call;
	return TARN_OK;
}

/* NULL: there is no kernel yet. */
static launch_fn *const launch_table[OP_KINDS] = {
	[OP_INPUT] = launch_copy,
	[OP_RECORD] = launch_copy,
	[OP_MATMUL] = launch_matmul,
	[OP_CONV2D] = launch_convolution,
	[OP_CONV2D_GRAD_INPUT] = launch_convolution,
	[OP_CONV2D_GRAD_WEIGHT] = launch_convolution_grad_weight,
	[OP_SUM_ROWS] = launch_sum_rows,
	[OP_MAX_POOL] = launch_pool,
	[OP_MAX_POOL_GRAD] = launch_pool,
	[OP_AVG_POOL] = launch_pool,
	[OP_AVG_POOL_GRAD] = launch_pool,
	[OP_ACTIVATION] = launch_activation,
	[OP_ACTIVATION_GRAD] = launch_activation_grad,
	[OP_BATCH_STATS] = launch_batch_stats,
	[OP_BATCH_APPLY] = launch_batch_apply,
	[OP_BATCH_REDUCE] = launch_batch_reduce,
	[OP_BATCH_GRAD_INPUT] = launch_batch_grad_input,
	[OP_RUNNING_UPDATE] = launch_running_update,
	[OP_LAYER_NORM] = launch_layer_norm,
	[OP_LAYER_NORM_GRAD] = launch_layer_norm_grad,
	[OP_LAYER_NORM_GRAD_PARAM] = launch_layer_norm_grad_param,
	[OP_DROPOUT] = launch_dropout,
	[OP_ADD] = launch_elementwise,
	[OP_MULTIPLY] = launch_elementwise,
	[OP_SCALE] = launch_elementwise,
	[OP_CONCAT] = launch_concat,
	[OP_SLICE] = launch_slice,
	[OP_PAD_AXIS] = launch_pad,
	[OP_RESHAPE] = launch_nothing,
	[OP_STOP_GRADIENT] = launch_nothing,
	[OP_SLICE_VIEW] = launch_nothing,
	[OP_PERMUTE] = launch_permute,
	[OP_SOFTMAX_CROSS_ENTROPY] = launch_cross_entropy,
	[OP_SOFTMAX_CROSS_ENTROPY_GRAD] = launch_cross_entropy_grad,
	[OP_COUNT_CORRECT] = launch_count_correct,
	[OP_MEAN_SQUARED_ERROR] = launch_squared_error,
	[OP_MEAN_SQUARED_ERROR_GRAD] = launch_loss_grad,
	[OP_FILL] = launch_fill,
	[OP_SUM_SQUARES] = launch_sum_squares,
	[OP_CLIP_SCALE] = launch_clip_scale,
	[OP_SGD] = launch_update,
	[OP_MOMENTUM] = launch_update,
	[OP_ADAM] = launch_update,
	[OP_LION] = launch_update,
	[OP_ADAFACTOR] = launch_adafactor,
	[OP_ADAFACTOR_VECTOR] = launch_adafactor,
	[OP_ADAM_8BIT] = launch_adam_8bit,
	[OP_ADD_BROADCAST] = launch_repeat,
	[OP_BROADCAST_ROWS] = launch_repeat,
	[OP_EMBEDDING] = launch_embedding,
	[OP_EMBEDDING_GRAD] = launch_embedding,
	[OP_SOFTMAX] = launch_softmax,
	[OP_SOFTMAX_GRAD] = launch_softmax,
	[OP_LOG_SOFTMAX] = launch_softmax,
	[OP_LOG_SOFTMAX_GRAD] = launch_softmax,
	[OP_RMS_NORM] = launch_rms_norm,
	[OP_RMS_NORM_GRAD] = launch_rms_norm_grad,
	[OP_RMS_NORM_GRAD_PARAM] = launch_rms_norm_grad_param,
	[OP_GATE] = launch_gate,
	[OP_GATE_GRAD] = launch_gate,
	[OP_LSTM_CELL] = launch_lstm_cell,
	[OP_LSTM_CELL_GRAD] = launch_lstm_cell,
	[OP_GRU_CELL] = launch_gru_cell,
	[OP_GRU_CELL_GRAD] = launch_gru_cell,
	[OP_EXPONENTIAL_AVERAGE] = launch_exponential_average,
	[OP_WEIGHT_MASK] = launch_weight_mask,
	[OP_BINARY_CROSS_ENTROPY] = launch_binary_cross_entropy,
	[OP_BINARY_CROSS_ENTROPY_GRAD] = launch_loss_grad,
	[OP_CAST] = launch_cast,
	[OP_FUNCTION] = launch_function,
	[OP_MAX_POOL_GATHER] = launch_pool,
	[OP_LABEL_WEIGHTS] = launch_label_weights,
	[OP_LABEL_SHARE] = launch_label_share,
	[OP_BATCH_MATMUL] = launch_batch_matmul,
	[OP_ATTENTION] = launch_attention,
	[OP_ATTENTION_GRAD] = launch_attention_grad,
	[OP_ROTARY] = launch_rotary,
	[OP_LINEAR_CROSS_ENTROPY] = launch_linear_loss,
	[OP_LINEAR_CROSS_ENTROPY_GRAD] = launch_linear_loss_grad,
	[OP_GROUP_NORM] = launch_group_norm,
	[OP_GROUP_NORM_GRAD] = launch_group_norm,
	[OP_GROUP_NORM_GRAD_PARAM] = launch_group_norm_grad_param,
	[OP_UPSAMPLE] = launch_resample,
	[OP_UPSAMPLE_GRAD] = launch_resample,
	[OP_ADAPTIVE_AVG_POOL] = launch_resample,
	[OP_ADAPTIVE_AVG_POOL_GRAD] = launch_resample,
	[OP_LOGISTIC_MIXTURE] = launch_mixture,
	[OP_LOGISTIC_MIXTURE_GRAD] = launch_mixture_grad,
	[OP_WEIGHT_NORM] = launch_weight_norm,
	[OP_WEIGHT_NORM_GRAD] = launch_weight_norm,
};

#define ACTIVATION_NAMES(name) "tarn_" name "_f32", "tarn_" name "_grad_f32"

const char *const cuda_kernel_name[] = {
	ACTIVATION_NAMES("clamp"),
	ACTIVATION_NAMES("leaky_relu"),
	ACTIVATION_NAMES("elu"),
	ACTIVATION_NAMES("sigmoid"),
	ACTIVATION_NAMES("tanh"),
	ACTIVATION_NAMES("gelu"),
	ACTIVATION_NAMES("gelu_tanh"),
	ACTIVATION_NAMES("silu"),
	ACTIVATION_NAMES("softplus"),
	"tarn_add_f32",
	"tarn_multiply_f32",
	"tarn_scale_f32",
	"tarn_dropout_f32",
	"tarn_dropout_samples_f32",
	"tarn_cast",
	"tarn_exponential_f32",
	"tarn_logarithm_f32",
	"tarn_power_f32",
	"tarn_max_pool_gather_f32",
	"tarn_label_weights",
	"tarn_label_share",
	"tarn_fill_f32",
	"tarn_squared_error_grad_f32",
	"tarn_sgd_f32",
	"tarn_momentum_f32",
	"tarn_adam_f32",
	"tarn_sum_squares_f32",
	"tarn_squared_error_f32",
	"tarn_finish_total",
	"tarn_clip_scale",
	"tarn_sum_rows_f32",
	"tarn_layer_norm_grad_param_f32",
	"tarn_finish_columns",
	"tarn_batch_stats_f32",
	"tarn_finish_batch_stats",
	"tarn_batch_apply_f32",
	"tarn_batch_reduce_f32",
	"tarn_batch_grad_input_f32",
	"tarn_running_update",
	"tarn_epilogue_f32",
	"tarn_layer_norm_f32",
	"tarn_layer_norm_grad_f32",
	"tarn_cross_entropy_f32",
	"tarn_cross_entropy_grad_f32",
	"tarn_count_labels",
	"tarn_count_correct_f32",
	"tarn_max_pool_f32",
	"tarn_max_pool_grad_f32",
	"tarn_average_pool_f32",
	"tarn_average_pool_grad_f32",
	"tarn_copy",
	"tarn_lines_f32",
	"tarn_pad_f32",
	"tarn_permute_gather_f32",
	"tarn_permute_transpose_f32",
	"tarn_matmul_f32",
	"tarn_convolution_f32",
	"tarn_convolution_grad_input_f32",
	"tarn_convolution_grad_weight_f32",
	"tarn_sum_parts_f32",
	"tarn_binary_cross_entropy_f32",
	"tarn_binary_cross_entropy_grad_f32",
	"tarn_exponential_average_f32",
	"tarn_lion_f32",
	"tarn_adam_8bit",
	"tarn_adafactor_rows",
	"tarn_adafactor_columns",
	"tarn_adafactor_finish_columns",
	"tarn_adafactor_squares",
	"tarn_adafactor_step",
	"tarn_adafactor_apply",
	"tarn_rms_norm_f32",
	"tarn_rms_norm_grad_f32",
	"tarn_rms_norm_grad_param_f32",
	"tarn_softmax_f32",
	"tarn_softmax_grad_f32",
	"tarn_log_softmax_f32",
	"tarn_log_softmax_grad_f32",
	"tarn_add_broadcast_f32",
	"tarn_broadcast_rows_f32",
	"tarn_weight_mask_f32",
	"tarn_embedding_f32",
	"tarn_embedding_grad_f32",
	"tarn_embedding_grad_narrow_f32",
	"tarn_gate_f32",
	"tarn_gate_grad_f32",
	"tarn_lstm_cell_f32",
	"tarn_lstm_cell_grad_f32",
	"tarn_gru_cell_f32",
	"tarn_gru_cell_grad_f32",
	"tarn_attention_f32",
	"tarn_attention_grad_query_f32",
	"tarn_attention_grad_key_f32",
	"tarn_attention_grad_value_f32",
	"tarn_rotary_f32",
	"tarn_row_dot_f32",
	"tarn_weight_norm_f32",
	"tarn_weight_norm_grad_f32",
	"tarn_group_norm_f32",
	"tarn_group_norm_grad_f32",
	"tarn_group_norm_grad_param_f32",
	"tarn_resample_f32",
	"tarn_logistic_mixture_f32",
	"tarn_logistic_mixture_grad_f32",
};

const uint32_t cuda_kernel_count = sizeof cuda_kernel_name / sizeof *cuda_kernel_name;

/* ---- what launch functions share ---- */

enum tarn_status launch_fail(const struct launch_call *call, const char *format, ...)
{
	char text[256];
	va_list list;
	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	return tarn_fail(TARN_EUNSUPPORTED, "cuda: %s \"%s\": %s", op_row((enum op_kind)call->op->kind)->name,
			 call->name, text);
}

static enum tarn_status check_grid(const struct launch_call *call, const struct extent3 *grid)
{
	if (grid->x <= INT32_MAX && grid->y <= UINT16_MAX && grid->z <= UINT16_MAX)
		return TARN_OK;
	return launch_fail(call, "a grid of %llu x %llu x %llu blocks is larger than a device takes, %d x %d x %d",
			   (unsigned long long)grid->x, (unsigned long long)grid->y, (unsigned long long)grid->z,
			   INT32_MAX, UINT16_MAX, UINT16_MAX);
}

enum tarn_status launch_add_shared(struct launch_call *call, const char *function, struct extent3 grid,
				   struct extent3 block, uint32_t shared_bytes, const void *parameter, size_t bytes)
{
	struct cuda_launch_list *list = call->list;
	enum tarn_status st = check_grid(call, &grid);
	if (st)
		return st;
	struct cuda_launch *launch = HOST_NEW(list->host, struct cuda_launch);
	void *copy = host_arena_alloc(list->host, bytes, 1);
	if (!launch || !copy)
		return TARN_ENOMEM;
	*launch = (struct cuda_launch){ .function = function,
					.grid = { (uint32_t)grid.x, (uint32_t)grid.y, (uint32_t)grid.z },
					.block = { (uint32_t)block.x, (uint32_t)block.y, (uint32_t)block.z },
					.shared_bytes = shared_bytes,
					.parameter_bytes = (uint32_t)bytes,
					.stored = call->stored,
					.parameter = memcpy(copy, parameter, bytes) };
	*(list->launches++ ? &list->last->next : &list->first) = launch;
	list->last = launch;
	return TARN_OK;
}

enum tarn_status launch_add(struct launch_call *call, const char *function, struct extent3 grid, struct extent3 block,
			    const void *parameter, size_t bytes)
{
	return launch_add_shared(call, function, grid, block, 0, parameter, bytes);
}

const struct tensor *launch_tensor(const struct launch_call *call, uint32_t operand)
{
	return &call->graph->tensor[call->graph->operand[call->op->first_operand + operand]];
}

uint64_t launch_address(const struct launch_call *call, uint32_t operand)
{
	return call->address ? call->address[operand] : 0;
}

const struct tensor *launch_output(const struct launch_call *call, uint32_t output)
{
	return launch_tensor(call, call->op->inputs + output);
}

uint64_t launch_output_address(const struct launch_call *call, uint32_t output)
{
	return launch_address(call, call->op->inputs + output);
}

uint32_t launch_channels(const struct tensor *tensor)
{
	return tensor->rank ? tensor->dim[tensor->rank - 1] : 1;
}

uint64_t launch_product(const struct tensor *tensor, uint32_t first, uint32_t last)
{
	uint64_t product = 1;
	for (uint32_t i = first; i < last; i++)
		product *= tensor->dim[i];
	return product;
}

uint32_t launch_stored_bytes(enum storage_kind stored)
{
	return stored == STORED_F32 ? sizeof(float) : sizeof(uint16_t);
}

enum storage_kind launch_kind_of(uint32_t dtype)
{
	return dtype == DTYPE_BF16 ? STORED_BF16 : dtype == DTYPE_F16 ? STORED_F16 : STORED_F32;
}

void launch_clamp(uint32_t activation, float *low, float *high)
{
	bool clamped = activation == ACTIVATION_RELU || activation == ACTIVATION_RELU6;
	*low = clamped ? 0.0f : -INFINITY;
	*high = activation == ACTIVATION_RELU6 ? 6.0f : INFINITY;
}

/* ---- the seam ---- */

enum storage_kind cuda_launch_stored(const struct graph *graph, uint32_t op)
{
	const struct op *node = &graph->op[op];
	return launch_kind_of(
		storage_type(graph, (enum op_kind)node->kind, &node->attr, op_inputs(graph, op), node->inputs));
}

const char *cuda_launch_name(const char *function, enum storage_kind stored, char text[CUDA_KERNEL_NAME_BYTES])
{
	static const char *const suffix[STORED_KINDS] = { "f32", "bf16", "f16" };
	size_t stem = strlen(function) - 3;
	bool named = !strcmp(function + stem, suffix[STORED_F32]);
	snprintf(text, CUDA_KERNEL_NAME_BYTES, "%.*s%s", (int)stem, function, named ? suffix[stored] : function + stem);
	return text;
}

/* Every operand whose type the table of storage types leaves open is float32 or has the op's storage type. */
static enum tarn_status check_stored(const struct launch_call *call)
{
	const struct op_storage *storage = op_storage((enum op_kind)call->op->kind);
	for (uint32_t i = 0; i < call->op->inputs; i++) {
		uint32_t dtype = launch_tensor(call, i)->dtype;
		if (storage_has(storage->wide_inputs, i) && dtype != DTYPE_F32 && launch_kind_of(dtype) != call->stored)
			return launch_fail(call, "operand %u is stored as %s, and others in 16 bits of another kind", i,
					   dtype_name(dtype));
	}
	return TARN_OK;
}

static enum tarn_status call_init(struct launch_call *call, const struct graph *graph, uint32_t op,
				  const uint64_t *address, uint64_t workspace, struct cuda_launch_list *list)
{
	*call = (struct launch_call){ .graph = graph, .op = &graph->op[op], .name = op_name(graph, op) };
	call->address = address;
	call->workspace = workspace;
	call->list = list;
	call->stored = cuda_launch_stored(graph, op);
	list->first = list->last = NULL;
	list->launches = 0;
	if (!launch_table[call->op->kind])
		return launch_fail(call, "there is no kernel for this op");
	for (uint32_t i = 0; i < call->op->inputs + call->op->outputs; i++)
		if (tensor_elements(launch_tensor(call, i)) > (uint64_t)1 << 40)
			return launch_fail(call, "operand %u has %llu elements; at most 2^40", i,
					   (unsigned long long)tensor_elements(launch_tensor(call, i)));
	return check_stored(call);
}

enum tarn_status cuda_launch_build(const struct graph *graph, uint32_t op, uint64_t workspace_cap,
				   const uint64_t *address, uint64_t workspace, struct cuda_launch_list *list,
				   uint64_t *workspace_bytes)
{
	struct launch_call call;
	enum tarn_status st = call_init(&call, graph, op, address, workspace, list);
	call.workspace_cap = workspace_cap;
	if (!st)
		st = launch_table[call.op->kind](&call);
	*workspace_bytes = bytes_align(call.workspace_bytes);
	return st;
}

enum tarn_status cuda_launch_epilogue(const struct graph *graph, uint32_t op, const uint64_t *address,
				      struct cuda_launch_list *list)
{
	struct launch_call call;
	enum tarn_status st = call_init(&call, graph, op, address, 0, list);
	return st ? st : launch_epilogue(&call);
}
