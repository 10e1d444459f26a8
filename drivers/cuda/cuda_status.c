/* cuda_status.c - errors of three libraries as sentences. */
#include "cuda/cuda_driver.h"

/* After these the context is gone: every later call fails the same way (CUDA Driver API, CUresult). */
static bool is_sticky(int error)
{
	return error == ABI_CUDA_ERROR_ECC_UNCORRECTABLE || error == ABI_CUDA_ERROR_ILLEGAL_ADDRESS ||
	       error == ABI_CUDA_ERROR_LAUNCH_TIMEOUT ||
	       (error >= ABI_CUDA_ERROR_HARDWARE_STACK_ERROR && error <= ABI_CUDA_ERROR_LAUNCH_FAILED) ||
	       error == ABI_CUDA_ERROR_UNKNOWN;
}

enum tarn_status cuda_check(struct cuda_state *state, int error, const char *call)
{
	if (!error)
		return TARN_OK;
	const char *name = NULL, *text = NULL;
	if (state->libraries.cu.cuGetErrorName(error, &name) || !name)
		name = "unknown error";
	if (state->libraries.cu.cuGetErrorString(error, &text) || !text)
		text = "the driver has no text for it";
	if (!is_sticky(error))
		return tarn_fail(TARN_EDEVICE, "cuda: %s failed: %s (%d): %s", call, name, error, text);
	state->lost = true;
	return tarn_fail(TARN_EDEVICE,
			 "cuda: %s failed: %s (%d): %s; the error may come from anything launched before; the device "
			 "takes no more calls of this process, the last complete snapshot is whole",
			 call, name, error, text);
}

enum tarn_status cublaslt_check(struct cuda_state *state, int error, const char *call)
{
	if (!error)
		return TARN_OK;
	const char *(*name)(int) = state->libraries.blas.cublasLtGetStatusName;
	return tarn_fail(TARN_EDEVICE, "cuda: %s failed: %s (%d)", call, name ? name(error) : "status", error);
}

enum tarn_status cudnn_check(struct cuda_state *state, int error, const char *call)
{
	if (!error)
		return TARN_OK;
	const char *(*text)(int) = state->libraries.dnn.cudnnGetErrorString;
	return tarn_fail(TARN_EDEVICE, "cuda: %s failed: %s (%d)", call, text ? text(error) : "status", error);
}
