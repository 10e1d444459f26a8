/*
 * null.c - the driver without arithmetic: plans and "runs" networks far larger than the machine.
 *
 * It reserves nothing and remembers only the size. Every op compiles, with no workspace and the cost of a machine that
 * computes FLOPS_PER_NS floating-point operations and moves BYTES_PER_NS bytes in a nanosecond. Launching checks that
 * operands lie inside the arena; reading gives zeros.
 */
#include "driver.h"

#include <string.h>

/* A large accelerator: 100 TFLOP/s, 2 TB/s, and 5 microseconds to start a kernel. */
#define FLOPS_PER_NS 100000.0
#define BYTES_PER_NS 2000.0
#define LAUNCH_NS 5000.0
/* Its link to the host: PCI Express 4.0, 16 lanes, about 25 GB/s of the nominal 32. */
#define COPY_BYTES_PER_SECOND 25000000000u

struct null_state {
	uint32_t threads;
	bool reserved;
	uint64_t host_bytes;
	bool copying[DRIVER_COPY_SLOTS]; /* slots whose wait has not come yet */
};

struct kernel {
	uint32_t operands;
	uint64_t workspace_bytes;
	uint64_t *bytes; /* of each operand */
};

struct bound_instr {
	const struct kernel *kernel;
	const char *name;
	uint64_t *offset; /* of each operand */
	uint64_t workspace_offset;
};

static enum tarn_status null_probe(void)
{
	return TARN_OK;
}

static enum tarn_status null_open(struct device *device, const struct device_options *options)
{
	struct null_state *state = HOST_NEW(device->host, struct null_state);
	device->state = state;
	if (!state)
		return TARN_ENOMEM;
	state->threads = options->threads ? options->threads : 1;
	return TARN_OK;
}

static void null_close(struct device *device)
{
	device->state = NULL;
	device->arena_bytes = 0;
}

static uint32_t null_threads(const struct device *device)
{
	return ((const struct null_state *)device->state)->threads;
}

static enum tarn_status null_compile(struct device *device, const struct graph *graph, uint32_t op, struct kernel **out,
				     struct kernel_info *info)
{
	const struct op *node = &graph->op[op];
	struct kernel *kernel = HOST_NEW(device->host, struct kernel);
	if (!kernel)
		return TARN_ENOMEM;
	kernel->operands = node->inputs + node->outputs;
	kernel->bytes = HOST_ARRAY(device->host, kernel->operands, uint64_t);
	if (!kernel->bytes)
		return TARN_ENOMEM;
	for (uint32_t i = 0; i < kernel->operands; i++)
		kernel->bytes[i] = graph->tensor[graph->operand[node->first_operand + i]].bytes;
	double compute = (double)op_flops(graph, op) / FLOPS_PER_NS;
	double stream = (double)op_traffic_bytes(graph, op) / BYTES_PER_NS;
	double launch = op_row((enum op_kind)node->kind)->view ? 0.0 : LAUNCH_NS;
	info->workspace_bytes = 0;
	info->cost_ns = (uint64_t)(launch + (compute > stream ? compute : stream));
	*out = kernel;
	return TARN_OK;
}

static enum tarn_status null_reserve(struct device *device, uint64_t bytes, void *memory)
{
	struct null_state *state = device->state;
	(void)memory;
	if (state->reserved)
		return tarn_fail(TARN_EINTERNAL, "null: the arena was reserved before; it is reserved once");
	if (bytes > UINT64_MAX - TARN_ALIGNMENT)
		return tarn_fail(TARN_ENOMEM, "null: an arena of %llu bytes cannot be addressed",
				 (unsigned long long)bytes);
	state->reserved = true;
	device->arena_bytes = bytes_align(bytes);
	return TARN_OK;
}

static bool inside(const struct device *device, uint64_t offset, uint64_t bytes)
{
	return offset <= device->arena_bytes && bytes <= device->arena_bytes - offset;
}

static enum tarn_status check_operands(const struct device *device, const struct bound_instr *instr)
{
	for (uint32_t i = 0; i < instr->kernel->operands; i++)
		if (instr->offset[i] % TARN_ALIGNMENT || !inside(device, instr->offset[i], instr->kernel->bytes[i]))
			return tarn_fail(TARN_EINTERNAL,
					 "null: \"%s\": operand %u at offset %llu with %llu bytes is outside the "
					 "arena of %llu",
					 instr->name, i, (unsigned long long)instr->offset[i],
					 (unsigned long long)instr->kernel->bytes[i],
					 (unsigned long long)device->arena_bytes);
	return TARN_OK;
}

static enum tarn_status null_bind(struct device *device, const struct graph *graph, uint32_t op, struct kernel *kernel,
				  const uint64_t *operand_offset, uint64_t workspace_offset, struct bound_instr **out)
{
	const struct null_state *state = device->state;
	if (!state->reserved)
		return tarn_fail(TARN_EINTERNAL, "null: bind before reserve");
	struct bound_instr *instr = HOST_NEW(device->host, struct bound_instr);
	if (!instr)
		return TARN_ENOMEM;
	instr->kernel = kernel;
	instr->workspace_offset = workspace_offset;
	instr->name = host_arena_text(device->host, op_name(graph, op));
	instr->offset = HOST_ARRAY(device->host, kernel->operands, uint64_t);
	if (!instr->name || !instr->offset)
		return TARN_ENOMEM;
	memcpy(instr->offset, operand_offset, kernel->operands * sizeof *instr->offset);
	enum tarn_status st = check_operands(device, instr);
	if (!st)
		*out = instr;
	return st;
}

static enum tarn_status null_launch(struct device *device, struct bound_instr *instr)
{
#ifndef NDEBUG
	return check_operands(device, instr);
#else
	(void)device;
	(void)instr;
	return TARN_OK;
#endif
}

static enum tarn_status check_copy(const struct device *device, const char *what, uint64_t offset, uint64_t bytes)
{
	if (inside(device, offset, bytes))
		return TARN_OK;
	return tarn_fail(TARN_EINTERNAL, "null: %s of %llu bytes at offset %llu is outside the arena of %llu", what,
			 (unsigned long long)bytes, (unsigned long long)offset,
			 (unsigned long long)device->arena_bytes);
}

static enum tarn_status null_write(struct device *device, uint64_t offset, const void *source, uint64_t bytes)
{
	(void)source;
	return check_copy(device, "a write", offset, bytes);
}

static enum tarn_status null_read(struct device *device, uint64_t offset, void *target, uint64_t bytes)
{
	enum tarn_status st = check_copy(device, "a read", offset, bytes);
	if (!st)
		memset(target, 0, bytes);
	return st;
}

static enum tarn_status null_poison(struct device *device, uint64_t offset, uint64_t bytes)
{
	return check_copy(device, "a poisoning", offset, bytes);
}

static enum tarn_status null_synchronize(struct device *device)
{
	(void)device;
	return TARN_OK;
}

static void *null_host_address(struct device *device, uint64_t offset)
{
	(void)device;
	(void)offset;
	return NULL;
}

static uint64_t null_touched_bytes(struct device *device)
{
	(void)device;
	return 0;
}

static enum tarn_status null_reserve_host(struct device *device, uint64_t bytes)
{
	struct null_state *state = device->state;
	if (state->host_bytes)
		return tarn_fail(TARN_EINTERNAL, "null: the host region was reserved before; it is reserved once");
	state->host_bytes = bytes;
	return TARN_OK;
}

static enum tarn_status start_copy(struct device *device, const char *what, uint64_t offset, uint64_t host_offset,
				   uint64_t bytes, uint32_t slot)
{
	struct null_state *state = device->state;
	enum tarn_status st = check_copy(device, what, offset, bytes);
	if (st)
		return st;
	if (host_offset > state->host_bytes || bytes > state->host_bytes - host_offset)
		return tarn_fail(TARN_EINTERNAL,
				 "null: %s of %llu bytes at host offset %llu is outside the host region of %llu", what,
				 (unsigned long long)bytes, (unsigned long long)host_offset,
				 (unsigned long long)state->host_bytes);
	if (slot >= DRIVER_COPY_SLOTS || state->copying[slot])
		return tarn_fail(TARN_EINTERNAL, "null: %s in slot %u of %u, which is %s", what, slot,
				 DRIVER_COPY_SLOTS, slot < DRIVER_COPY_SLOTS ? "in flight" : "too high");
	state->copying[slot] = true;
	return TARN_OK;
}

static enum tarn_status null_store(struct device *device, uint64_t offset, uint64_t host_offset, uint64_t bytes,
				   uint32_t slot)
{
	return start_copy(device, "a store", offset, host_offset, bytes, slot);
}

static enum tarn_status null_fetch(struct device *device, uint64_t offset, uint64_t host_offset, uint64_t bytes,
				   uint32_t slot)
{
	return start_copy(device, "a fetch", offset, host_offset, bytes, slot);
}

static enum tarn_status null_wait(struct device *device, uint32_t slot)
{
	struct null_state *state = device->state;
	if (slot >= DRIVER_COPY_SLOTS || !state->copying[slot])
		return tarn_fail(TARN_EINTERNAL, "null: a wait for slot %u, where no copy is in flight", slot);
	state->copying[slot] = false;
	return TARN_OK;
}

static uint64_t null_copy_bandwidth(const struct device *device)
{
	(void)device;
	return COPY_BYTES_PER_SECOND;
}

extern const struct driver_ops null_driver;
const struct driver_ops null_driver = {
	.name = "null",
	.probe = null_probe,
	.open = null_open,
	.close = null_close,
	.threads = null_threads,
	.compile = null_compile,
	.reserve = null_reserve,
	.bind = null_bind,
	.launch = null_launch,
	.write = null_write,
	.read = null_read,
	.poison = null_poison,
	.synchronize = null_synchronize,
	.host_address = null_host_address,
	.touched_bytes = null_touched_bytes,
	.reserve_host = null_reserve_host,
	.store = null_store,
	.fetch = null_fetch,
	.wait = null_wait,
	.copy_bandwidth = null_copy_bandwidth,
};
