/*
 * cuda_context.c - boot and end of the device.
 *
 * The order is the one in which memory can be told apart: context, limits and streams, own kernels, handles; each
 * stage is measured before the next begins (cuda_ledger.c).
 */
#include "cuda/cuda_driver.h"

#include <stdlib.h>
#include <string.h>

/*
 * Own kernels have no stack, no printf and no malloc; a library kernel that needs more stack makes the driver raise the
 * limit at its first launch, in the warm-up.
 */
#define STACK_BYTES 256u
#define LEAST_POOL_BYTES 65536u

/*
 * Read by the libraries when they start. Eager loading would put every kernel of every library on the device;
 * NVIDIA_TF32_OVERRIDE=0 forbids what device.tf32 did not ask for.
 */
static void set_environment(const struct cuda_state *state)
{
	setenv("CUDA_MODULE_LOADING", "LAZY", 1);
	if (!state->tf32)
		setenv("NVIDIA_TF32_OVERRIDE", "0", 1);
}

static enum tarn_status open_context(struct cuda_state *state)
{
	int devices = 0;
	enum tarn_status st = CU(state, cuInit, 0);
	if (!st)
		st = CU(state, cuDeviceGetCount, &devices);
	if (!st && !devices)
		st = tarn_fail(TARN_EUNSUPPORTED, "cuda: no device is visible");
	if (!st)
		st = CU(state, cuDeviceGet, &state->device, 0);
	if (!st)
		st = cuda_describe(state);
	if (!st)
		st = CU(state, cuDevicePrimaryCtxSetFlags, state->device, ABI_CU_CTX_SCHED_BLOCKING_SYNC);
	if (!st)
		st = CU(state, cuDevicePrimaryCtxRetain, &state->context, state->device);
	if (!st)
		st = CU(state, cuCtxSetCurrent, state->context);
	return st ? st : ledger_measure(state, LEDGER_CONTEXT);
}

/* Limits only save memory: where one is refused, the ledger shows what it costs. */
static void set_limits(struct cuda_state *state)
{
	const struct cuda_calls *cu = &state->libraries.cu;
	(void)cu->cuCtxSetLimit(ABI_CU_LIMIT_STACK_SIZE, STACK_BYTES);
	(void)cu->cuCtxSetLimit(ABI_CU_LIMIT_PRINTF_FIFO_SIZE, LEAST_POOL_BYTES);
	(void)cu->cuCtxSetLimit(ABI_CU_LIMIT_MALLOC_HEAP_SIZE, LEAST_POOL_BYTES);
}

enum tarn_status cuda_load_kernels(struct cuda_state *state, enum storage_kind stored)
{
	char name[CUDA_KERNEL_NAME_BYTES];
	if (state->function[stored] || state->described)
		return TARN_OK;
	void **function = HOST_ARRAY(state->host, cuda_kernel_count, void *);
	if (!function)
		return TARN_ENOMEM;
	enum tarn_status st = CU(state, cuModuleLoadData, &state->module[stored], cuda_kernels_text[stored]);
	for (uint32_t i = 0; i < cuda_kernel_count && !st; i++) {
		cuda_launch_name(cuda_kernel_name[i], stored, name);
		st = CU(state, cuModuleGetFunction, &function[i], state->module[stored], name);
		if (!st)
			st = CU(state, cuFuncLoad, function[i]);
		if (st)
			st = tarn_fail_prefix(st, "own kernel %s", name);
	}
	if (!st)
		state->function[stored] = function;
	return st;
}

static enum tarn_status open_handles(struct cuda_state *state)
{
	enum tarn_status st = TARN_OK;
	if (state->libraries.handle[LIBRARY_CUBLASLT])
		st = BLAS(state, cublasLtCreate, &state->blas);
	if (!st && state->libraries.handle[LIBRARY_CUDNN]) {
		st = DNN(state, cudnnCreate, &state->dnn);
		if (!st)
			st = DNN(state, cudnnSetStream, state->dnn, state->compute);
	}
	return st ? st : ledger_measure(state, LEDGER_HANDLES);
}

/* cuDNN plans for a device that is not there from its properties; without cuDNN a model stands in. */
static enum tarn_status describe_to_cudnn(struct cuda_state *state)
{
	const char *json = state->description.json;
	if (!state->libraries.handle[LIBRARY_CUDNN] || !json)
		return TARN_OK;
	enum tarn_status st =
		DNN(state, cudnnBackendCreateDescriptor, ABI_CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &state->dnn_device);
	if (!st)
		st = DNN(state, cudnnBackendSetAttribute, state->dnn_device,
			 ABI_CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, ABI_CUDNN_TYPE_CHAR, (int64_t)strlen(json) + 1,
			 json);
	return st ? st : DNN(state, cudnnBackendFinalize, state->dnn_device);
}

enum tarn_status cuda_boot(struct cuda_state *state)
{
	set_environment(state);
	library_open(&state->libraries);
	if (state->described)
		return describe_to_cudnn(state);
	enum tarn_status st = library_check(&state->libraries);
	if (!st)
		st = open_context(state);
	if (st)
		return st;
	watch_open(state);
	set_limits(state);
	st = cuda_copy_open(state);
	if (!st)
		st = ledger_measure(state, LEDGER_STREAMS);
	if (!st)
		st = cuda_load_kernels(state, STORED_F32);
	if (!st)
		st = ledger_measure(state, LEDGER_MODULE);
	return st ? st : open_handles(state);
}

void *cuda_function(const struct cuda_state *state, const char *name, enum storage_kind stored)
{
	for (uint32_t i = 0; state->function[stored] && i < cuda_kernel_count; i++)
		if (!strcmp(cuda_kernel_name[i], name))
			return state->function[stored][i];
	tarn_fail(TARN_EINTERNAL, "cuda: there is no own kernel %s", name);
	return NULL;
}

static void destroy_operations(struct cuda_state *state)
{
	for (struct bound_instr *instr = state->instrs; instr; instr = instr->next)
		if (instr->pack)
			state->libraries.dnn.cudnnBackendDestroyDescriptor(instr->pack);
	for (uint32_t i = 0; i < CUDA_KERNEL_TABLE; i++)
		for (struct kernel *kernel = state->kernels[i]; kernel; kernel = kernel->next) {
			matmul_destroy(state, kernel);
			convolution_destroy(state, kernel->convolution);
		}
}

/* In the opposite order of boot. What a call says here changes nothing: the first failure is kept. */
void cuda_shut_down(struct cuda_state *state)
{
	const struct libraries *libraries = &state->libraries;
	watch_freeze(state, false);
	if (state->compute)
		(void)libraries->cu.cuStreamSynchronize(state->compute);
	if (state->copy)
		(void)libraries->cu.cuStreamSynchronize(state->copy);
	cuda_capture_close(state);
	nvml_close(state);
	destroy_operations(state);
	if (state->arena)
		(void)libraries->cu.cuMemFree(state->arena);
	if (state->dnn_device)
		(void)libraries->dnn.cudnnBackendDestroyDescriptor(state->dnn_device);
	if (state->dnn)
		(void)libraries->dnn.cudnnDestroy(state->dnn);
	if (state->blas)
		(void)libraries->blas.cublasLtDestroy(state->blas);
	for (int stored = 0; stored < STORED_KINDS; stored++)
		if (state->module[stored])
			(void)libraries->cu.cuModuleUnload(state->module[stored]);
	cuda_copy_close(state);
	if (state->context)
		(void)libraries->cu.cuDevicePrimaryCtxRelease(state->device);
	library_close(&state->libraries);
}
