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
	uint64_t workspace_cap;
	/* Of the op bound last: the only one where values are converted. */
	const struct graph *graph;
	uint32_t op, operands;
	const uint64_t *offset;
};

static const struct tensor *operand_tensor(const struct graph *graph, uint32_t op, uint32_t operand)
{
	return &graph->tensor[graph->operand[graph->op[op].first_operand + operand]];
}

/* ---- the driver ---- */

static enum tarn_status driver_probe(void)
{
	return TARN_OK;
}

static enum tarn_status driver_open(struct device *device, const struct device_options *options)
{
	struct kernel_state *state = HOST_NEW(device->host, struct kernel_state);
	device->state = state;
	if (!state)
		return TARN_ENOMEM;
	state->workspace_cap = options->workspace_cap;
	return kernel_engine_open(device->host, kernel_driver_options.seed, &state->engine);
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
		range.bytes = operand_tensor(state->graph, state->op, i)->bytes;
		uint32_t known = 0;
		while (known < instr->ranges && instr->range[known].address != range.address)
			known++;
		if (known == instr->ranges)
			instr->range[instr->ranges++] = range;
		else
			instr->range[known].write |= range.write;
	}
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
	return cuda_launch_build(graph, op, state->workspace_cap, address, kernel->workspace_bytes ? workspace : 0,
				 &instr->list, &workspace_bytes);
}

static enum tarn_status driver_launch(struct device *device, struct bound_instr *instr)
{
	struct kernel_state *state = device->state;
	return kernel_engine_run(state->engine, &instr->list, instr->range, instr->ranges);
}

static enum tarn_status driver_write(struct device *device, uint64_t offset, const void *source, uint64_t bytes)
{
	struct kernel_state *state = device->state;
	return kernel_engine_write(state->engine, state->address + offset, source, bytes);
}

static enum tarn_status driver_read(struct device *device, uint64_t offset, void *target, uint64_t bytes)
{
	struct kernel_state *state = device->state;
	return kernel_engine_read(state->engine, state->address + offset, target, bytes);
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
