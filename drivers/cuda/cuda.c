/* cuda.c - the CUDA driver: open, compile, bind, launch. What is behind each is in the files beside it. */
#include "cuda/cuda_driver.h"

#include "graph/signature.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

static enum tarn_status cuda_open(struct device *device, const struct device_options *options)
{
	struct cuda_state *state = HOST_NEW(device->host, struct cuda_state);
	device->state = state;
	if (!state)
		return TARN_ENOMEM;
	state->host = device->host;
	state->workspace_cap = options->workspace_cap;
	state->reserve_bytes = options->reserve_bytes;
	state->tf32 = options->tf32;
	if (options->description) {
		state->described = true;
		state->description = *options->description;
	}
	enum tarn_status st = cuda_boot(state);
	if (!st)
		st = cuda_identity(state, &device->identity);
	return st;
}

static void cuda_close(struct device *device)
{
	struct cuda_state *state = device->state;
	if (!state)
		return;
	cuda_shut_down(state);
	device->state = NULL;
	device->arena_bytes = 0;
}

/* The host only queues; results depend on the device alone. */
static uint32_t cuda_threads(const struct device *device)
{
	(void)device;
	return 1;
}

static bool is_convolution(uint32_t kind)
{
	return kind == OP_CONV2D || kind == OP_CONV2D_GRAD_INPUT || kind == OP_CONV2D_GRAD_WEIGHT;
}

/*
 * A library where it is there and takes the op, own kernels for everything else. Of a described device cuDNN is asked
 * as for a real one; without cuDNN the own kernels' needs stand in.
 */
static enum tarn_status prepare(struct cuda_state *state, const struct graph *graph, uint32_t op, struct kernel *kernel)
{
	struct cuda_launch_list list = { .host = state->host };
	enum tarn_status st = cuda_load_kernels(state, cuda_launch_stored(graph, op));
	if (!st && is_convolution(graph->op[op].kind) && (state->dnn || state->dnn_device))
		st = convolution_compile(state, graph, op, kernel);
	if (st)
		return tarn_fail_prefix(st, "%s", kernel->name);
	if (kernel->convolution)
		return TARN_OK;
	st = cuda_launch_build(graph, op, state->workspace_cap, NULL, 0, &list, &kernel->info.workspace_bytes);
	if (st || (!state->blas && !state->described))
		return st;
	st = matmul_compile(state, &list, kernel);
	return st ? tarn_fail_prefix(st, "%s", kernel->name) : TARN_OK;
}

/* A kernel that fails halfway stays in the table without a signature: closing the device destroys what it has. */
static enum tarn_status cuda_compile(struct device *device, const struct graph *graph, uint32_t op, struct kernel **out,
				     struct kernel_info *info)
{
	struct cuda_state *state = device->state;
	char signature[SIGNATURE_TEXT];
	op_signature(graph, op, signature);
	struct kernel **head = &state->kernels[XXH64(signature, strlen(signature), 0) % CUDA_KERNEL_TABLE];
	for (struct kernel *known = *head; known; known = known->next)
		if (known->signature && !strcmp(known->signature, signature)) {
			*out = known;
			*info = known->info;
			return TARN_OK;
		}
	struct kernel *kernel = HOST_NEW(device->host, struct kernel);
	const char *name =
		host_arena_printf(device->host, "%s \"%s\"", op_row(graph->op[op].kind)->name, op_name(graph, op));
	const char *text = host_arena_text(device->host, signature);
	if (!kernel || !name || !text)
		return TARN_ENOMEM;
	kernel->name = name;
	kernel->next = *head;
	*head = kernel;
	enum tarn_status st = prepare(state, graph, op, kernel);
	if (st)
		return st;
	kernel->signature = text;
	kernel->info.workspace_bytes = bytes_align(kernel->info.workspace_bytes);
	kernel->info.cost_ns = cuda_cost_ns(state, graph, op);
	*out = kernel;
	*info = kernel->info;
	return TARN_OK;
}

static enum tarn_status cuda_reserve(struct device *device, uint64_t bytes, void *memory)
{
	struct cuda_state *state = device->state;
	char text[BYTES_TEXT];
	if (memory)
		return tarn_fail(TARN_EUNSUPPORTED,
				 "cuda: the arena lies on the device; memory of the caller cannot be used for it");
	if (state->described)
		return tarn_fail(TARN_EUNSUPPORTED, "cuda: %s is only described, there is no device to run on",
				 state->description.name);
	if (state->arena)
		return tarn_fail(TARN_EINTERNAL, "cuda: the arena was reserved before; it is reserved once");
	if (bytes > UINT64_MAX - 2 * CUDA_GRANULE)
		return tarn_fail(TARN_ENOMEM, "cuda: an arena of %llu bytes cannot be addressed",
				 (unsigned long long)bytes);
	uint64_t aligned = bytes_align(bytes ? bytes : 1);
	uint64_t rounded = (aligned + CUDA_GRANULE - 1) / CUDA_GRANULE * CUDA_GRANULE;
	enum tarn_status st = CU(state, cuMemAlloc, &state->arena, rounded);
	if (st)
		return tarn_fail_prefix(st, "an arena of %llu bytes, where the device has %s free",
					(unsigned long long)rounded,
					bytes_format(state->ledger.free_bytes, text, sizeof text));
	state->arena_bytes = device->arena_bytes = aligned;
	st = ledger_measure(state, LEDGER_ARENA);
	if (!st)
		st = CU(state, cuMemsetD8Async, state->arena, 0xFF, aligned, state->compute);
	if (!st)
		st = watch_dead(state, state->arena, aligned);
	return st ? st : CU(state, cuStreamSynchronize, state->compute);
}

static enum tarn_status resolve(const struct cuda_state *state, const struct bound_instr *instr, const char *what,
				uint64_t offset, uint64_t bytes, uint64_t *address)
{
	if (offset % TARN_ALIGNMENT || offset > state->arena_bytes || bytes > state->arena_bytes - offset)
		return tarn_fail(TARN_EINTERNAL,
				 "cuda: %s: %s at offset %llu with %llu bytes is outside the arena of %llu",
				 instr->name, what, (unsigned long long)offset, (unsigned long long)bytes,
				 (unsigned long long)state->arena_bytes);
	*address = state->arena + offset;
	return TARN_OK;
}

static enum tarn_status resolve_all(const struct cuda_state *state, const struct graph *graph, uint32_t op,
				    const uint64_t *operand_offset, uint64_t workspace_offset,
				    struct bound_instr *instr)
{
	const struct op *node = &graph->op[op];
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 0; i < node->inputs + node->outputs && !st; i++)
		st = resolve(state, instr, "an operand", operand_offset[i],
			     graph->tensor[op_inputs(graph, op)[i]].bytes, &instr->address[i]);
	if (!st && instr->kernel->info.workspace_bytes)
		st = resolve(state, instr, "the workspace", workspace_offset, instr->kernel->info.workspace_bytes,
			     &instr->workspace);
	instr->output = instr->address[node->inputs];
	return st;
}

static enum tarn_status keep_launch(struct cuda_state *state, const struct cuda_launch *from, struct bound_instr *instr)
{
	struct prepared_launch *to = HOST_NEW(state->host, struct prepared_launch);
	if (!to)
		return TARN_ENOMEM;
	to->function = cuda_function(state, from->function, from->stored);
	if (!to->function)
		return TARN_EINTERNAL;
	to->parameter = from->parameter;
	memcpy(to->grid, from->grid, sizeof to->grid);
	memcpy(to->block, from->block, sizeof to->block);
	to->shared_bytes = from->shared_bytes;
	to->matmul = from->product ? matmul_find(instr->kernel, from->parameter) : NULL;
	*(instr->launch ? &instr->last_launch->next : &instr->launch) = to;
	instr->last_launch = to;
	return TARN_OK;
}

/* The geometry's list; behind a product by the library its epilogue. */
static enum tarn_status keep_launches(struct cuda_state *state, const struct cuda_launch_list *list,
				      struct bound_instr *instr)
{
	enum tarn_status st = TARN_OK;
	for (const struct cuda_launch *launch = list->first; launch && !st; launch = launch->next) {
		struct cuda_launch_list epilogue = { .host = state->host };
		st = keep_launch(state, launch, instr);
		if (!st && instr->last_launch->matmul)
			st = cuda_launch_product_epilogue(launch, &epilogue);
		if (!st && epilogue.first)
			st = keep_launch(state, epilogue.first, instr);
	}
	return st;
}

static enum tarn_status build_launches(struct cuda_state *state, const struct graph *graph, uint32_t op,
				       struct bound_instr *instr)
{
	struct cuda_launch_list list = { .host = state->host };
	uint64_t own_bytes = 0;
	enum tarn_status st = TARN_OK;
	if (!instr->kernel->convolution)
		st = cuda_launch_build(graph, op, state->workspace_cap, instr->address, instr->workspace, &list,
				       &own_bytes);
	else if (graph->op[op].kind == OP_CONV2D)
		st = cuda_launch_epilogue(graph, op, instr->address, &list);
	instr->library_workspace = instr->workspace + own_bytes;
	return st ? st : keep_launches(state, &list, instr);
}

static enum tarn_status cuda_bind(struct device *device, const struct graph *graph, uint32_t op, struct kernel *kernel,
				  const uint64_t *operand_offset, uint64_t workspace_offset, struct bound_instr **out)
{
	struct cuda_state *state = device->state;
	const struct op *node = &graph->op[op];
	if (!state->arena)
		return tarn_fail(TARN_EINTERNAL, "cuda: bind before reserve");
	struct bound_instr *instr = HOST_NEW(device->host, struct bound_instr);
	if (!instr)
		return TARN_ENOMEM;
	instr->kernel = kernel;
	instr->name = host_arena_printf(device->host, "%s \"%s\"", op_row(node->kind)->name, op_name(graph, op));
	instr->address = HOST_ARRAY(device->host, node->inputs + node->outputs, uint64_t);
	if (!instr->name || !instr->address)
		return TARN_ENOMEM;
	instr->next = state->instrs;
	state->instrs = instr;
	enum tarn_status st = resolve_all(state, graph, op, operand_offset, workspace_offset, instr);
	if (!st && kernel->convolution)
		st = convolution_bind(state, instr);
	if (!st)
		st = build_launches(state, graph, op, instr);
	if (!st)
		st = watch_bind(state, graph, op, instr);
	if (!st)
		*out = instr;
	return st;
}

static enum tarn_status launch_one(struct cuda_state *state, const struct bound_instr *instr,
				   const struct prepared_launch *launch)
{
	void *parameters[] = { launch->parameter };
	if (launch->matmul)
		return matmul_run(state, launch->matmul, launch->parameter, instr->library_workspace);
	return CU(state, cuLaunchKernel, launch->function, launch->grid[0], launch->grid[1], launch->grid[2],
		  launch->block[0], launch->block[1], launch->block[2], launch->shared_bytes, state->compute,
		  parameters, NULL);
}

static enum tarn_status cuda_launch(struct device *device, struct bound_instr *instr)
{
	struct cuda_state *state = device->state;
	enum tarn_status st = watch_begin(state, instr);
	if (!st && instr->kernel->convolution)
		st = convolution_run(state, instr);
	for (const struct prepared_launch *launch = instr->launch; launch && !st; launch = launch->next)
		st = launch_one(state, instr, launch);
	if (st) {
		(void)tarn_fail_prefix(st, "%s", instr->name);
		watch_abandon(state);
		return st;
	}
	st = watch_end(state);
	return st ? tarn_fail_prefix(st, "%s", instr->name) : TARN_OK;
}

static enum tarn_status cuda_synchronize(struct device *device)
{
	struct cuda_state *state = device->state;
	enum tarn_status st = CU(state, cuStreamSynchronize, state->compute);
	if (!st)
		st = CU(state, cuStreamSynchronize, state->copy);
#ifdef CONFIG_DEBUG_CHECKS
	if (!st)
		st = ledger_check(state);
#endif
	return st;
}

/* The host cannot reach the device's memory. */
static void *cuda_host_address(struct device *device, uint64_t offset)
{
	(void)device;
	(void)offset;
	return NULL;
}

static uint64_t cuda_copy_bandwidth(const struct device *device)
{
	const struct cuda_state *state = device->state;
	return (uint64_t)(state->description.copy_bytes_per_ns * 1e9);
}

extern const struct driver_ops cuda_driver;
const struct driver_ops cuda_driver = {
	.name = "cuda",
	.probe = cuda_probe,
	.open = cuda_open,
	.close = cuda_close,
	.threads = cuda_threads,
	.compile = cuda_compile,
	.reserve = cuda_reserve,
	.bind = cuda_bind,
	.launch = cuda_launch,
	.write = cuda_write,
	.read = cuda_read,
	.poison = cuda_poison,
	.synchronize = cuda_synchronize,
	.host_address = cuda_host_address,
	.touched_bytes = cuda_touched_bytes,
	.reserve_host = cuda_reserve_host,
	.store = cuda_store,
	.fetch = cuda_fetch,
	.wait = cuda_wait,
	.copy_bandwidth = cuda_copy_bandwidth,
	.overhead = cuda_overhead,
	.capture_begin = cuda_capture_begin,
	.capture_end = cuda_capture_end,
	.replay = cuda_replay,
	.freeze = cuda_freeze,
	.ledger = cuda_ledger,
	.info = cuda_info,
};
