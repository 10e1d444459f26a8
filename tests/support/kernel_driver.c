/* kernel_driver.c - see kernel_driver.h. */
#include "support/kernel_driver.h"

#include "cuda/cuda_launch.h"
#include "support/kernel_engine.h"

#include <math.h>
#include <string.h>

struct kernel_driver_options kernel_driver_options;

struct kernel {
	uint64_t workspace_bytes;
};

struct bound_instr {
	struct cuda_launch_list list;
	struct kernel_range *range; /* inputs, outputs, workspace */
	uint32_t ranges;
};

struct kernel_state {
	struct kernel_engine *engine;
	uint64_t address;
	enum kernel_storage storage;
	uint64_t workspace_cap;
	/* Of the op bound last: the only one where values are converted. */
	const struct graph *graph;
	uint32_t op, operands;
	const uint64_t *offset;
};

/* ---- storage types ---- */

/* Operands in the storage type, bit i for input i and output i; what is not float never is. */
static const struct {
	uint32_t inputs, outputs;
} stored[OP_KINDS] = {
	[OP_MATMUL] = { 3, 1 },
	[OP_CONV2D] = { 3, 1 },
	[OP_CONV2D_GRAD_INPUT] = { 3, 1 },
	[OP_CONV2D_GRAD_WEIGHT] = { 3, 1 },
	[OP_SUM_ROWS] = { 1, 0 },
	[OP_MAX_POOL] = { 1, 1 },
	[OP_MAX_POOL_GRAD] = { 1, 1 },
	[OP_AVG_POOL] = { 1, 1 },
	[OP_AVG_POOL_GRAD] = { 1, 1 },
	[OP_ACTIVATION] = { 1, 1 },
	[OP_ACTIVATION_GRAD] = { 3, 1 },
	[OP_BATCH_STATS] = { 1, 0 },
	[OP_BATCH_APPLY] = { 1, 1 },
	[OP_BATCH_REDUCE] = { 3, 0 },
	[OP_BATCH_GRAD_INPUT] = { 3, 1 },
	[OP_LAYER_NORM] = { 1, 1 },
	[OP_LAYER_NORM_GRAD] = { 3, 1 },
	[OP_LAYER_NORM_GRAD_PARAM] = { 3, 0 },
	[OP_DROPOUT] = { 1, 1 },
	[OP_ADD] = { 3, 1 },
	[OP_MULTIPLY] = { 3, 1 },
	[OP_SCALE] = { 1, 1 },
	[OP_CONCAT] = { UINT32_MAX, 1 },
	[OP_SLICE] = { 1, 1 },
	[OP_PAD_AXIS] = { 1, 1 },
	[OP_PERMUTE] = { 1, 1 },
	[OP_SOFTMAX_CROSS_ENTROPY] = { 1, 0 },
	[OP_SOFTMAX_CROSS_ENTROPY_GRAD] = { 1, 1 },
	[OP_COUNT_CORRECT] = { 1, 0 },
	[OP_MEAN_SQUARED_ERROR] = { 3, 0 },
	[OP_MEAN_SQUARED_ERROR_GRAD] = { 3, 1 },
	[OP_FILL] = { 0, 1 },
	[OP_SUM_SQUARES] = { 1, 0 },
	[OP_SGD] = { 1 << 1, 0 },
	[OP_MOMENTUM] = { 1 << 2, 0 },
	[OP_ADAM] = { 1 << 3, 0 },
	[OP_ADD_BROADCAST] = { 3, 1 },
	[OP_BROADCAST_ROWS] = { 1, 1 },
	[OP_EMBEDDING] = { 1, 1 },
	[OP_EMBEDDING_GRAD] = { 1, 0 },
	[OP_SOFTMAX] = { 1, 1 },
	[OP_SOFTMAX_GRAD] = { 3, 1 },
	[OP_LOG_SOFTMAX] = { 1, 1 },
	[OP_LOG_SOFTMAX_GRAD] = { 3, 1 },
	[OP_RMS_NORM] = { 1, 1 },
	[OP_RMS_NORM_GRAD] = { 3, 1 },
	[OP_RMS_NORM_GRAD_PARAM] = { 3, 0 },
	[OP_GATE] = { 1, 1 },
	[OP_GATE_GRAD] = { 3, 1 },
	[OP_LSTM_CELL] = { 3, 3 },
	[OP_LSTM_CELL_GRAD] = { 31, 3 },
	[OP_GRU_CELL] = { 7, 1 },
	[OP_GRU_CELL_GRAD] = { 15, 7 },
	[OP_WEIGHT_MASK] = { 1, 1 },
	[OP_BINARY_CROSS_ENTROPY] = { 3, 0 },
	[OP_BINARY_CROSS_ENTROPY_GRAD] = { 3, 1 },
};

static const struct tensor *operand_tensor(const struct graph *graph, uint32_t op, uint32_t operand)
{
	return &graph->tensor[graph->operand[graph->op[op].first_operand + operand]];
}

bool kernel_driver_stores(const struct graph *graph, uint32_t op, uint32_t operand)
{
	const struct op *node = &graph->op[op];
	if (operand_tensor(graph, op, operand)->dtype != DTYPE_F32)
		return false;
	if (operand >= node->inputs)
		return stored[node->kind].outputs >> (operand - node->inputs) & 1;
	return operand >= 32 || stored[node->kind].inputs >> operand & 1;
}

static bool halved(const struct kernel_state *state, uint32_t operand)
{
	return state->storage != STORAGE_F32 && kernel_driver_stores(state->graph, state->op, operand);
}

/* The operand of the bound op that is exactly this range, when it lies there in half of the bytes. */
static bool is_halved_operand(const struct kernel_state *state, uint64_t offset, uint64_t bytes)
{
	for (uint32_t i = 0; i < state->operands; i++)
		if (state->offset[i] == offset && operand_tensor(state->graph, state->op, i)->bytes == bytes)
			return halved(state, i);
	return false;
}

/* Rounds to nearest, ties to even, as rint() does: the 11 bits of binary16 behind its exponent, at least -14. */
static uint16_t f16_from(float value)
{
	double magnitude = fabs((double)value);
	uint32_t sign = signbit(value) ? 0x8000 : 0;
	if (isnan(value))
		return 0x7E00;
	if (magnitude >= 65520)
		return (uint16_t)(sign | 0x7C00);
	int exponent = magnitude < 0x1p-14 ? -14 : ilogb(magnitude);
	uint32_t units = (uint32_t)rint(ldexp(magnitude, 10 - exponent));
	return (uint16_t)(sign | (((uint32_t)(exponent + 14) << 10) + units));
}

static float f16_value(uint16_t bits)
{
	int exponent = bits >> 10 & 31, fraction = bits & 0x3FF;
	double magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
			   : exponent == 0 ? ldexp(fraction, -24)
					   : ldexp(1024 + fraction, exponent - 25);
	return (float)(bits & 0x8000 ? -magnitude : magnitude);
}

static uint16_t bf16_from(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	uint32_t rest = bits & 0xFFFF, upper = bits >> 16;
	if (isnan(value))
		return 0x7FC0;
	return (uint16_t)(upper + (rest > 0x8000 || (rest == 0x8000 && upper % 2)));
}

static float bf16_value(uint16_t bits)
{
	uint32_t wide = (uint32_t)bits << 16;
	float value;
	memcpy(&value, &wide, sizeof value);
	return value;
}

/* ---- the driver ---- */

static enum tarn_status driver_probe(void)
{
	return TARN_OK;
}

static enum tarn_status driver_open(struct device *device, const struct device_options *options)
{
	struct kernel_state *state = HOST_NEW(device->host, struct kernel_state);
	const char *text = kernel_driver_options.text ? kernel_driver_options.text : cuda_kernels_text;
	device->state = state;
	if (!state)
		return TARN_ENOMEM;
	state->workspace_cap = options->workspace_cap;
	state->storage = kernel_driver_options.storage;
	return kernel_engine_open(device->host, text, kernel_driver_options.seed, &state->engine);
}

static void driver_close(struct device *device)
{
	struct kernel_state *state = device->state;
	if (state && state->engine)
		kernel_engine_close(state->engine);
	device->state = NULL;
}

static uint32_t driver_threads(const struct device *device)
{
	(void)device;
	return 1;
}

static enum tarn_status driver_compile(struct device *device, const struct graph *graph, uint32_t op,
				       struct kernel **kernel, struct kernel_info *info)
{
	*kernel = HOST_NEW(device->host, struct kernel);
	if (!*kernel)
		return TARN_ENOMEM;
	struct kernel_state *state = device->state;
	struct cuda_launch_list list = { .host = device->host };
	enum tarn_status st =
		cuda_launch_build(graph, op, state->workspace_cap, NULL, 0, &list, &(*kernel)->workspace_bytes);
	*info = (struct kernel_info){ .workspace_bytes = (*kernel)->workspace_bytes, .cost_ns = 1 };
	return st;
}

static enum tarn_status driver_reserve(struct device *device, uint64_t bytes, void *memory)
{
	struct kernel_state *state = device->state;
	(void)memory;
	device->arena_bytes = bytes_align(bytes);
	return kernel_engine_reserve(state->engine, device->arena_bytes, &state->address);
}

/* Inputs may be read and outputs written; a version of an input and an output in place are both. */
static void add_ranges(const struct kernel_state *state, struct bound_instr *instr)
{
	for (uint32_t i = 0; i < state->operands; i++) {
		bool input = i < state->graph->op[state->op].inputs;
		struct kernel_range range = { .address = state->address + state->offset[i],
					      .read = input,
					      .write = !input };
		range.bytes = operand_tensor(state->graph, state->op, i)->bytes / (halved(state, i) ? 2 : 1);
		uint32_t known = 0;
		while (known < instr->ranges && instr->range[known].address != range.address)
			known++;
		if (known == instr->ranges)
			instr->range[instr->ranges++] = range;
		else
			instr->range[known].write |= range.write;
	}
}

/* Kernels of another storage type have its name where the launch says f32. */
static enum tarn_status rename_kernels(struct device *device, struct cuda_launch_list *list)
{
	static const char *const suffix[] = { "f32", "bf16", "f16" };
	const struct kernel_state *state = device->state;
	for (struct cuda_launch *launch = list->first; launch; launch = launch->next) {
		size_t stem = strlen(launch->function) - 3;
		if (strcmp(launch->function + stem, "f32") != 0)
			continue;
		launch->function =
			host_arena_printf(device->host, "%.*s%s", (int)stem, launch->function, suffix[state->storage]);
		if (!launch->function)
			return TARN_ENOMEM;
	}
	return TARN_OK;
}

static enum tarn_status driver_bind(struct device *device, const struct graph *graph, uint32_t op,
				    struct kernel *kernel, const uint64_t *operand_offset, uint64_t workspace_offset,
				    struct bound_instr **out)
{
	struct kernel_state *state = device->state;
	uint32_t operands = graph->op[op].inputs + graph->op[op].outputs;
	struct bound_instr *instr = HOST_NEW(device->host, struct bound_instr);
	uint64_t *offset = HOST_ARRAY(device->host, operands, uint64_t);
	uint64_t *address = HOST_ARRAY(device->host, operands, uint64_t), workspace = state->address + workspace_offset;
	if (!instr || !address || !offset)
		return TARN_ENOMEM;
	instr->range = HOST_ARRAY(device->host, operands + 1, struct kernel_range);
	if (!instr->range)
		return TARN_ENOMEM;
	for (uint32_t i = 0; i < operands; i++) {
		offset[i] = operand_offset[i];
		address[i] = state->address + offset[i];
	}
	state->graph = graph;
	state->op = op;
	state->operands = operands;
	state->offset = offset;
	add_ranges(state, instr);
	if (kernel->workspace_bytes)
		instr->range[instr->ranges++] = (struct kernel_range){ workspace, kernel->workspace_bytes, true, true };
	*out = instr;
	uint64_t workspace_bytes;
	instr->list.host = device->host;
	enum tarn_status st =
		cuda_launch_build(graph, op, state->workspace_cap, address, kernel->workspace_bytes ? workspace : 0,
				  &instr->list, &workspace_bytes);
	return st ? st : rename_kernels(device, &instr->list);
}

static enum tarn_status driver_launch(struct device *device, struct bound_instr *instr)
{
	struct kernel_state *state = device->state;
	return kernel_engine_run(state->engine, &instr->list, instr->range, instr->ranges);
}

static enum tarn_status driver_write(struct device *device, uint64_t offset, const void *source, uint64_t bytes)
{
	struct kernel_state *state = device->state;
	const float *value = source;
	if (!is_halved_operand(state, offset, bytes))
		return kernel_engine_write(state->engine, state->address + offset, source, bytes);
	uint16_t *half = HOST_ARRAY(device->host, bytes / sizeof *value, uint16_t);
	if (!half)
		return TARN_ENOMEM;
	for (uint64_t i = 0; i < bytes / sizeof *value; i++)
		half[i] = state->storage == STORAGE_BF16 ? bf16_from(value[i]) : f16_from(value[i]);
	return kernel_engine_write(state->engine, state->address + offset, half, bytes / 2);
}

static enum tarn_status driver_read(struct device *device, uint64_t offset, void *target, uint64_t bytes)
{
	struct kernel_state *state = device->state;
	float *value = target;
	if (!is_halved_operand(state, offset, bytes))
		return kernel_engine_read(state->engine, state->address + offset, target, bytes);
	uint16_t *half = HOST_ARRAY(device->host, bytes / sizeof *value, uint16_t);
	if (!half)
		return TARN_ENOMEM;
	enum tarn_status st = kernel_engine_read(state->engine, state->address + offset, half, bytes / 2);
	for (uint64_t i = 0; i < bytes / sizeof *value && !st; i++)
		value[i] = state->storage == STORAGE_BF16 ? bf16_value(half[i]) : f16_value(half[i]);
	return st;
}

static enum tarn_status driver_poison(struct device *device, uint64_t offset, uint64_t bytes)
{
	(void)device;
	(void)offset;
	(void)bytes;
	return tarn_fail(TARN_EUNSUPPORTED, "kernels: nothing is poisoned here");
}

static enum tarn_status driver_synchronize(struct device *device)
{
	(void)device;
	return TARN_OK;
}

static void *driver_host_address(struct device *device, uint64_t offset)
{
	(void)device;
	(void)offset;
	return NULL;
}

static uint64_t driver_touched_bytes(struct device *device)
{
	return device->arena_bytes;
}

const struct driver_ops kernel_driver = {
	.name = "kernels",
	.probe = driver_probe,
	.open = driver_open,
	.close = driver_close,
	.threads = driver_threads,
	.compile = driver_compile,
	.reserve = driver_reserve,
	.bind = driver_bind,
	.launch = driver_launch,
	.write = driver_write,
	.read = driver_read,
	.poison = driver_poison,
	.synchronize = driver_synchronize,
	.host_address = driver_host_address,
	.touched_bytes = driver_touched_bytes,
};
