/* cpu.c - the CPU driver: open, compile, bind, launch. The kernels are in the files beside it. */
#include "cpu/cpu.h"
#include "cpu/halves.h"
#include "cpu/onednn.h"

#include <omp.h>
#include <string.h>

/* Which file prepares which op. NULL: views, which are never executed. */
static kernel_prepare *const prepare_table[OP_KINDS] = {
	[OP_INPUT] = shape_ops_prepare,
	[OP_RECORD] = shape_ops_prepare,
	[OP_MATMUL] = matmul_prepare,
	[OP_CONV2D] = conv_prepare,
	[OP_CONV2D_GRAD_INPUT] = conv_prepare,
	[OP_CONV2D_GRAD_WEIGHT] = conv_prepare,
	[OP_SUM_ROWS] = reduce_prepare,
	[OP_MAX_POOL] = pool_prepare,
	[OP_MAX_POOL_GRAD] = pool_prepare,
	[OP_AVG_POOL] = pool_prepare,
	[OP_AVG_POOL_GRAD] = pool_prepare,
	[OP_ACTIVATION] = pointwise_prepare,
	[OP_ACTIVATION_GRAD] = pointwise_prepare,
	[OP_BATCH_STATS] = batch_norm_prepare,
	[OP_BATCH_APPLY] = batch_norm_prepare,
	[OP_BATCH_REDUCE] = batch_norm_prepare,
	[OP_BATCH_GRAD_INPUT] = batch_norm_prepare,
	[OP_RUNNING_UPDATE] = batch_norm_prepare,
	[OP_WEIGHT_MASK] = weight_prepare,
	[OP_GROUP_NORM] = group_norm_prepare,
	[OP_GROUP_NORM_GRAD] = group_norm_prepare,
	[OP_GROUP_NORM_GRAD_PARAM] = group_norm_prepare,
	[OP_UPSAMPLE] = resample_prepare,
	[OP_UPSAMPLE_GRAD] = resample_prepare,
	[OP_ADAPTIVE_AVG_POOL] = resample_prepare,
	[OP_ADAPTIVE_AVG_POOL_GRAD] = resample_prepare,
	[OP_BINARY_CROSS_ENTROPY] = image_loss_prepare,
	[OP_BINARY_CROSS_ENTROPY_GRAD] = image_loss_prepare,
	[OP_LOGISTIC_MIXTURE] = image_loss_prepare,
	[OP_LOGISTIC_MIXTURE_GRAD] = image_loss_prepare,
	[OP_WEIGHT_NORM] = weight_prepare,
	[OP_WEIGHT_NORM_GRAD] = weight_prepare,
	[OP_LAYER_NORM] = layer_norm_prepare,
	[OP_LAYER_NORM_GRAD] = layer_norm_prepare,
	[OP_LAYER_NORM_GRAD_PARAM] = layer_norm_prepare,
	[OP_DROPOUT] = dropout_prepare,
	[OP_ADD] = pointwise_prepare,
	[OP_MULTIPLY] = pointwise_prepare,
	[OP_SCALE] = pointwise_prepare,
	[OP_CONCAT] = shape_ops_prepare,
	[OP_SLICE] = shape_ops_prepare,
	[OP_PAD_AXIS] = shape_ops_prepare,
	[OP_PERMUTE] = permute_prepare,
	[OP_SOFTMAX_CROSS_ENTROPY] = loss_prepare,
	[OP_SOFTMAX_CROSS_ENTROPY_GRAD] = loss_prepare,
	[OP_COUNT_CORRECT] = loss_prepare,
	[OP_MEAN_SQUARED_ERROR] = loss_prepare,
	[OP_MEAN_SQUARED_ERROR_GRAD] = loss_prepare,
	[OP_FILL] = shape_ops_prepare,
	[OP_SUM_SQUARES] = reduce_prepare,
	[OP_CLIP_SCALE] = reduce_prepare,
	[OP_UNSCALE] = reduce_prepare,
	[OP_LOSS_SCALE] = reduce_prepare,
	[OP_SGD] = update_prepare,
	[OP_MOMENTUM] = update_prepare,
	[OP_ADAM] = update_prepare,
	[OP_BATCH_MATMUL] = matmul_prepare,
	[OP_ADD_BROADCAST] = pointwise_prepare,
	[OP_BROADCAST_ROWS] = shape_ops_prepare,
	[OP_EMBEDDING] = embedding_prepare,
	[OP_EMBEDDING_GRAD] = embedding_prepare,
	[OP_SOFTMAX] = softmax_prepare,
	[OP_SOFTMAX_GRAD] = softmax_prepare,
	[OP_LOG_SOFTMAX] = softmax_prepare,
	[OP_LOG_SOFTMAX_GRAD] = softmax_prepare,
	[OP_ATTENTION] = attention_prepare,
	[OP_ATTENTION_GRAD] = attention_prepare,
	[OP_ROTARY] = embedding_prepare,
	[OP_RMS_NORM] = layer_norm_prepare,
	[OP_RMS_NORM_GRAD] = layer_norm_prepare,
	[OP_RMS_NORM_GRAD_PARAM] = layer_norm_prepare,
	[OP_GATE] = recurrent_prepare,
	[OP_GATE_GRAD] = recurrent_prepare,
	[OP_LINEAR_CROSS_ENTROPY] = linear_loss_prepare,
	[OP_LINEAR_CROSS_ENTROPY_GRAD] = linear_loss_prepare,
	[OP_LSTM_CELL] = recurrent_prepare,
	[OP_LSTM_CELL_GRAD] = recurrent_prepare,
	[OP_GRU_CELL] = recurrent_prepare,
	[OP_GRU_CELL_GRAD] = recurrent_prepare,
	[OP_EXPONENTIAL_AVERAGE] = update_prepare,
	[OP_CAST] = cast_prepare,
	[OP_FUNCTION] = function_prepare,
	[OP_MAX_POOL_GATHER] = pool_prepare,
	[OP_LABEL_WEIGHTS] = loss_prepare,
	[OP_LABEL_SHARE] = loss_prepare,
	[OP_LION] = update_prepare,
	[OP_ADAFACTOR] = adafactor_prepare,
	[OP_ADAFACTOR_VECTOR] = adafactor_prepare,
	[OP_ADAM_8BIT] = adam_8bit_prepare,
};

static enum tarn_status cpu_probe(void)
{
	return TARN_OK;
}

static enum tarn_status cpu_open(struct device *device, const struct device_options *options)
{
	struct cpu_state *state = HOST_NEW(device->host, struct cpu_state);
	device->state = state;
	if (!state)
		return TARN_ENOMEM;
	if (options->threads > 4096)
		return tarn_fail(TARN_EINVAL, "cpu: %u threads are too many; at most 4096", options->threads);
	state->threads = options->threads ? options->threads : (uint32_t)omp_get_num_procs();
	state->workspace_cap = options->workspace_cap;
	omp_set_dynamic(0);
	omp_set_num_threads((int)state->threads);
	return dnn_open(state);
}

static void cpu_close(struct device *device)
{
	struct cpu_state *state = device->state;
	if (!state)
		return;
	dnn_close(state);
	cpu_arena_release(state);
	cpu_release_host(state);
	device->state = NULL;
	device->arena_bytes = 0;
}

static uint32_t cpu_threads(const struct device *device)
{
	return ((const struct cpu_state *)device->state)->threads;
}

/* The number of threads is a setting of the calling thread: oneDNN and our loops both read it. */
static void use_threads(const struct cpu_state *state)
{
	if (omp_get_max_threads() != (int)state->threads)
		omp_set_num_threads((int)state->threads);
}

static void describe_operand(const struct tensor *tensor, struct operand *operand)
{
	operand->elements = tensor_elements(tensor);
	operand->rows = tensor_rows(tensor);
	operand->bytes = tensor->bytes;
	operand->rank = tensor->rank;
	operand->dtype = tensor->dtype;
	memcpy(operand->dim, tensor->dim, sizeof operand->dim);
	for (uint32_t i = tensor->rank; i < OP_MAX_RANK; i++)
		operand->dim[i] = 0;
	operand->channels = tensor->rank ? tensor->dim[tensor->rank - 1] : 1;
}

/* FNV-1a over the shapes and attributes; only spreads kernels over the table. */
static uint32_t signature_hash(const struct kernel *kernel)
{
	uint64_t hash = 0xCBF29CE484222325u ^ kernel->kind;
	const unsigned char *attr = (const unsigned char *)&kernel->attr;
	for (size_t i = 0; i < sizeof kernel->attr; i++)
		hash = (hash ^ attr[i]) * 0x100000001B3u;
	for (uint32_t i = 0; i < kernel->inputs + kernel->outputs; i++)
		for (uint32_t d = 0; d < OP_MAX_RANK; d++)
			hash = (hash ^ kernel->operand[i].dim[d]) * 0x100000001B3u;
	return (uint32_t)(hash >> 32) % 256;
}

static bool same_signature(const struct kernel *a, const struct kernel *b)
{
	if (a->kind != b->kind || a->inputs != b->inputs || a->outputs != b->outputs ||
	    memcmp(&a->attr, &b->attr, sizeof a->attr) != 0)
		return false;
	for (uint32_t i = 0; i < a->inputs + a->outputs; i++)
		if (a->operand[i].rank != b->operand[i].rank || a->operand[i].dtype != b->operand[i].dtype ||
		    memcmp(a->operand[i].dim, b->operand[i].dim, sizeof a->operand[i].dim) != 0)
			return false;
	return true;
}

static struct kernel *describe_kernel(struct host_arena *host, const struct graph *graph, uint32_t op)
{
	const struct op *node = &graph->op[op];
	struct kernel *kernel = HOST_NEW(host, struct kernel);
	struct operand *operand = HOST_ARRAY(host, node->inputs + node->outputs, struct operand);
	if (!kernel || !operand)
		return NULL;
	kernel->kind = node->kind;
	kernel->inputs = node->inputs;
	kernel->outputs = node->outputs;
	kernel->attr = node->attr;
	kernel->operand = operand;
	for (uint32_t i = 0; i < node->inputs + node->outputs; i++)
		describe_operand(&graph->tensor[graph->operand[node->first_operand + i]], &operand[i]);
	return kernel;
}

/* Own loops are written for f32; the few other operands have a place of their own in the op table. */
static enum tarn_status check_types(const struct kernel *kernel)
{
	for (uint32_t i = 0; i < kernel->inputs + kernel->outputs; i++) {
		if (!kernel->operand[i].elements)
			return tarn_fail(TARN_EUNSUPPORTED, "cpu: %s \"%s\": operand %u is empty",
					 op_row(kernel->kind)->name, kernel->name, i);
		if (kernel->operand[i].elements > (uint64_t)1 << 40)
			return tarn_fail(TARN_EUNSUPPORTED,
					 "cpu: %s \"%s\": operand %u has %llu elements; at most 2^40",
					 op_row(kernel->kind)->name, kernel->name, i,
					 (unsigned long long)kernel->operand[i].elements);
	}
	return TARN_OK;
}

/* Kernels that read and write 16 bits themselves; others are widened, if they work item by item. */
static bool stores_narrow(const struct kernel *kernel)
{
	switch ((enum op_kind)kernel->kind) {
	case OP_CAST:
	case OP_INPUT:
	case OP_RESHAPE:
	case OP_STOP_GRADIENT:
	case OP_SLICE_VIEW:
	case OP_CONCAT:
	case OP_SLICE:
	case OP_PAD_AXIS:
	case OP_BROADCAST_ROWS:
	case OP_FILL:
	case OP_CONV2D:
	case OP_CONV2D_GRAD_INPUT:
	case OP_CONV2D_GRAD_WEIGHT:
	case OP_MATMUL:
	case OP_BATCH_MATMUL:
	case OP_SUM_ROWS:
	case OP_SUM_SQUARES:
	case OP_BATCH_STATS:
	case OP_BATCH_APPLY:
	case OP_BATCH_REDUCE:
	case OP_BATCH_GRAD_INPUT:
	case OP_LAYER_NORM_GRAD_PARAM:
	case OP_RMS_NORM_GRAD_PARAM:
	case OP_MAX_POOL:
	case OP_MAX_POOL_GRAD:
	case OP_AVG_POOL:
	case OP_AVG_POOL_GRAD:
	case OP_UPSAMPLE:
	case OP_UPSAMPLE_GRAD:
	case OP_ADAPTIVE_AVG_POOL:
	case OP_ADAPTIVE_AVG_POOL_GRAD:
	case OP_PERMUTE:
	case OP_EMBEDDING:
	case OP_EMBEDDING_GRAD:
	case OP_ROTARY:
	case OP_ATTENTION:
	case OP_ATTENTION_GRAD:
	case OP_LINEAR_CROSS_ENTROPY:
	case OP_LINEAR_CROSS_ENTROPY_GRAD:
		return true;
	default:
		return false;
	}
}

static enum tarn_status prepare(struct device *device, struct kernel *kernel)
{
	const struct cpu_state *state = device->state;
	const uint32_t storage = kernel_storage(kernel);
	if (storage != DTYPE_F32 && !stores_narrow(kernel) && !widen_can(kernel))
		return tarn_fail(TARN_EUNSUPPORTED, "cpu: %s \"%s\": there is no kernel for numbers stored as %s",
				 op_row(kernel->kind)->name, kernel->name, dtype_name(storage));
	kernel_prepare *own = prepare_table[kernel->kind];
	enum tarn_status st = TARN_OK;
	if (own)
		st = storage == DTYPE_F16 && halves_can(kernel) ? halves_prepare(device, kernel, own)
								: own(device, kernel);
	if (!st && storage != DTYPE_F32 && !stores_narrow(kernel) && !kernel->stages)
		widen_prepare(kernel, state->threads);
	return st;
}

static enum tarn_status cpu_compile(struct device *device, const struct graph *graph, uint32_t op, struct kernel **out,
				    struct kernel_info *info)
{
	struct cpu_state *state = device->state;
	struct host_mark mark = host_arena_mark(device->host);
	struct kernel *kernel = describe_kernel(device->host, graph, op);
	if (!kernel)
		return TARN_ENOMEM;
	struct kernel **head = &state->kernels[signature_hash(kernel)];
	for (struct kernel *known = *head; known; known = known->next)
		if (same_signature(known, kernel)) {
			host_arena_release(device->host, mark);
			*out = known;
			*info = known->info;
			return TARN_OK;
		}
	use_threads(state);
	kernel->name = host_arena_text(device->host, op_name(graph, op));
	if (!kernel->name)
		return TARN_ENOMEM;
	enum tarn_status st = check_types(kernel);
	if (!st)
		st = prepare(device, kernel);
	if (st)
		return st;
	kernel->info.workspace_bytes = bytes_align(kernel->info.workspace_bytes);
	kernel->info.cost_ns = cpu_cost_ns(kernel, op_flops(graph, op), op_traffic_bytes(graph, op), state->threads);
	kernel->next = *head;
	*head = kernel;
	*out = kernel;
	*info = kernel->info;
	return TARN_OK;
}

static enum tarn_status cpu_reserve(struct device *device, uint64_t bytes, void *memory)
{
	struct cpu_state *state = device->state;
	enum tarn_status st = cpu_arena_reserve(state, bytes, memory);
	if (!st)
		device->arena_bytes = state->arena_bytes;
	return st;
}

static enum tarn_status resolve(const struct cpu_state *state, const struct kernel *kernel, const char *what,
				uint64_t offset, uint64_t bytes, void **address)
{
	if (offset % TARN_ALIGNMENT || offset > state->arena_bytes || bytes > state->arena_bytes - offset)
		return tarn_fail(TARN_EINTERNAL,
				 "cpu: %s \"%s\": %s at offset %llu with %llu bytes is outside the arena of %llu",
				 op_row(kernel->kind)->name, kernel->name, what, (unsigned long long)offset,
				 (unsigned long long)bytes, (unsigned long long)state->arena_bytes);
	*address = state->arena + offset;
	return TARN_OK;
}

static enum tarn_status cpu_bind(struct device *device, const struct graph *graph, uint32_t op, struct kernel *kernel,
				 const uint64_t *operand_offset, uint64_t workspace_offset, struct bound_instr **out)
{
	struct cpu_state *state = device->state;
	uint32_t operands = kernel->inputs + kernel->outputs;
	(void)graph;
	(void)op;
	if (!state->arena)
		return tarn_fail(TARN_EINTERNAL, "cpu: bind before reserve");
	struct bound_instr *instr = HOST_NEW(device->host, struct bound_instr);
	if (!instr)
		return TARN_ENOMEM;
	instr->kernel = kernel;
	instr->address = HOST_ARRAY(device->host, operands, void *);
	if (!instr->address)
		return TARN_ENOMEM;
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 0; i < operands && !st; i++)
		st = resolve(state, kernel, "an operand", operand_offset[i], kernel->operand[i].bytes,
			     &instr->address[i]);
	if (!st && kernel->info.workspace_bytes)
		st = resolve(state, kernel, "the workspace", workspace_offset, kernel->info.workspace_bytes,
			     &instr->workspace);
	if (!st)
		st = dnn_bind(device, instr);
	if (!st)
		*out = instr;
	return st;
}

static void run_chunks(const struct bound_instr *instr, uint32_t threads)
{
	const struct kernel *kernel = instr->kernel;
	kernel_body *body = kernel->body;
	uint64_t chunks = kernel->chunks;
	if (chunks == 1) {
		body(instr, 0);
		return;
	}
#pragma omp parallel for schedule(static) num_threads(threads)
	for (uint64_t chunk = 0; chunk < chunks; chunk++)
		body(instr, chunk);
}

static enum tarn_status cpu_launch(struct device *device, struct bound_instr *instr)
{
	struct cpu_state *state = device->state;
	const uint32_t skip = op_skip_input(instr->kernel->kind, instr->kernel->inputs);
	use_threads(state);
	if (skip != UINT32_MAX && *(const float *)instr->address[skip] == 0.0f)
		return TARN_OK; /* the new versions lie where the old ones are */
	if (instr->kernel->run)
		return instr->kernel->run(state, instr);
	if (instr->kernel->stages)
		return dnn_launch(state, instr);
	if (instr->kernel->chunks)
		run_chunks(instr, state->threads);
	if (instr->kernel->finish)
		instr->kernel->finish(instr);
	return TARN_OK;
}

static enum tarn_status check_copy(const struct cpu_state *state, const char *what, uint64_t offset, uint64_t bytes)
{
	if (!state->arena || offset > state->arena_bytes || bytes > state->arena_bytes - offset)
		return tarn_fail(TARN_EINTERNAL, "cpu: %s of %llu bytes at offset %llu is outside the arena of %llu",
				 what, (unsigned long long)bytes, (unsigned long long)offset,
				 (unsigned long long)state->arena_bytes);
	return TARN_OK;
}

static enum tarn_status cpu_write(struct device *device, uint64_t offset, const void *source, uint64_t bytes)
{
	struct cpu_state *state = device->state;
	enum tarn_status st = check_copy(state, "a write", offset, bytes);
	if (!st)
		memcpy(state->arena + offset, source, bytes);
	return st;
}

static enum tarn_status cpu_read(struct device *device, uint64_t offset, void *target, uint64_t bytes)
{
	struct cpu_state *state = device->state;
	enum tarn_status st = check_copy(state, "a read", offset, bytes);
	if (!st)
		memcpy(target, state->arena + offset, bytes);
	return st;
}

static enum tarn_status cpu_poison(struct device *device, uint64_t offset, uint64_t bytes)
{
	struct cpu_state *state = device->state;
	enum tarn_status st = check_copy(state, "a poisoning", offset, bytes);
	if (!st)
		memset(state->arena + offset, 0xFF, bytes);
	return st;
}

static enum tarn_status cpu_synchronize(struct device *device)
{
	const struct cpu_state *state = device->state;
	return DNN(dnnl_stream_wait(state->stream));
}

static void *cpu_host_address(struct device *device, uint64_t offset)
{
	struct cpu_state *state = device->state;
	return state->arena && offset <= state->arena_bytes ? state->arena + offset : NULL;
}

static uint64_t cpu_touched_bytes(struct device *device)
{
	return cpu_arena_touched(device->state);
}

extern const struct driver_ops cpu_driver;
const struct driver_ops cpu_driver = {
	.name = "cpu",
	.probe = cpu_probe,
	.open = cpu_open,
	.close = cpu_close,
	.threads = cpu_threads,
	.compile = cpu_compile,
	.reserve = cpu_reserve,
	.bind = cpu_bind,
	.launch = cpu_launch,
	.write = cpu_write,
	.read = cpu_read,
	.poison = cpu_poison,
	.synchronize = cpu_synchronize,
	.host_address = cpu_host_address,
	.touched_bytes = cpu_touched_bytes,
	.reserve_host = cpu_reserve_host,
	.store = cpu_store,
	.fetch = cpu_fetch,
	.wait = cpu_wait,
	.copy_bandwidth = cpu_copy_bandwidth,
};
