/*
 * cuda_abi.h - the part of four binary interfaces that the CUDA driver uses: CUDA's Driver API, cuBLASLt, cuDNN's
 * backend API, NVML.
 *
 * The libraries are opened at run time, so that one binary starts on any machine, and nothing of NVIDIA's toolkit is
 * needed to build. Names are NVIDIA's; a constant NAME is called ABI_NAME here, so that tests/test_cuda_abi.c can
 * compare each with the toolkit's headers where they are installed. Every enumeration is passed as an int, every
 * opaque handle as a void pointer, device addresses as 64-bit numbers.
 */
#ifndef TARN_CUDA_ABI_H
#define TARN_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

/* X(name, value) */
#define CUDA_ABI_DRIVER(X)                                  \
	X(CUDA_ERROR_OUT_OF_MEMORY, 2)                      \
	X(CUDA_ERROR_ECC_UNCORRECTABLE, 214)                \
	X(CUDA_ERROR_ILLEGAL_ADDRESS, 700)                  \
	X(CUDA_ERROR_LAUNCH_TIMEOUT, 702)                   \
	X(CUDA_ERROR_HARDWARE_STACK_ERROR, 714)             \
	X(CUDA_ERROR_LAUNCH_FAILED, 719)                    \
	X(CUDA_ERROR_UNKNOWN, 999)                          \
	X(CU_CTX_SCHED_BLOCKING_SYNC, 4)                    \
	X(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 13)               \
	X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)     \
	X(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 36)        \
	X(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 37)  \
	X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75) \
	X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76) \
	X(CU_LIMIT_STACK_SIZE, 0)                           \
	X(CU_LIMIT_PRINTF_FIFO_SIZE, 1)                     \
	X(CU_LIMIT_MALLOC_HEAP_SIZE, 2)                     \
	X(CU_STREAM_NON_BLOCKING, 1)                        \
	X(CU_EVENT_DISABLE_TIMING, 2)                       \
	X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)           \
	X(CU_GRAPH_NODE_TYPE_HOST, 3)                       \
	X(CU_GRAPH_NODE_TYPE_MEM_ALLOC, 10)                 \
	X(CU_GRAPH_NODE_TYPE_MEM_FREE, 11)

#define CUDA_ABI_CUBLASLT(X)                              \
	X(CUDA_R_32F, 0)                                  \
	X(CUDA_R_16F, 2)                                  \
	X(CUDA_R_16BF, 14)                                \
	X(CUBLAS_COMPUTE_32F, 68)                         \
	X(CUBLAS_COMPUTE_32F_FAST_TF32, 77)               \
	X(CUBLAS_OP_N, 0)                                 \
	X(CUBLAS_OP_T, 1)                                 \
	X(CUBLASLT_MATMUL_DESC_TRANSA, 3)                 \
	X(CUBLASLT_MATMUL_DESC_TRANSB, 4)                 \
	X(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 5)          \
	X(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 6) \
	X(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1)    \
	X(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 3)  \
	X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5)  \
	X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6)  \
	X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7)  \
	X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8)  \
	X(CUBLASLT_REDUCTION_SCHEME_NONE, 0)              \
	X(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 2)

#define CUDA_ABI_CUDNN(X)                                                     \
	X(CUDNN_DATA_FLOAT, 0)                                                \
	X(CUDNN_DATA_HALF, 2)                                                 \
	X(CUDNN_DATA_BFLOAT16, 9)                                             \
	X(CUDNN_CROSS_CORRELATION, 1)                                         \
	X(CUDNN_HEUR_MODE_FALLBACK, 2)                                        \
	X(CUDNN_HEUR_MODE_A, 3)                                               \
	X(CUDNN_TYPE_HANDLE, 0)                                               \
	X(CUDNN_TYPE_DATA_TYPE, 1)                                            \
	X(CUDNN_TYPE_INT64, 3)                                                \
	X(CUDNN_TYPE_FLOAT, 4)                                                \
	X(CUDNN_TYPE_VOID_PTR, 6)                                             \
	X(CUDNN_TYPE_CONVOLUTION_MODE, 7)                                     \
	X(CUDNN_TYPE_HEUR_MODE, 8)                                            \
	X(CUDNN_TYPE_NUMERICAL_NOTE, 11)                                      \
	X(CUDNN_TYPE_BACKEND_DESCRIPTOR, 15)                                  \
	X(CUDNN_TYPE_CHAR, 24)                                                \
	X(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, 1)                            \
	X(CUDNN_BACKEND_ENGINE_DESCRIPTOR, 2)                                 \
	X(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 3)                              \
	X(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, 4)                             \
	X(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, 5)                         \
	X(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, 10)         \
	X(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, 11) \
	X(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, 12)   \
	X(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, 15)                        \
	X(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, 16)                          \
	X(CUDNN_BACKEND_TENSOR_DESCRIPTOR, 17)                                \
	X(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, 38)                            \
	X(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, 100)                              \
	X(CUDNN_ATTR_CONVOLUTION_CONV_MODE, 101)                              \
	X(CUDNN_ATTR_CONVOLUTION_DILATIONS, 102)                              \
	X(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 103)                         \
	X(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 104)                          \
	X(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 105)                           \
	X(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 106)                           \
	X(CUDNN_ATTR_ENGINEHEUR_MODE, 200)                                    \
	X(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 201)                         \
	X(CUDNN_ATTR_ENGINEHEUR_RESULTS, 202)                                 \
	X(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, 204)                              \
	X(CUDNN_ATTR_ENGINECFG_ENGINE, 300)                                   \
	X(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, 400)                              \
	X(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 401)                       \
	X(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 402)                      \
	X(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, 407)                          \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 700)                \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 701)                 \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, 702)            \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, 703)                    \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, 704)                    \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, 705)                    \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 706)               \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 707)                \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, 708)           \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, 709)                   \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, 710)                  \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, 711)                  \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 712)             \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 713)              \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, 714)         \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, 715)                \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, 716)                 \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, 717)                \
	X(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, 800)                              \
	X(CUDNN_ATTR_OPERATIONGRAPH_OPS, 801)                                 \
	X(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 900)                              \
	X(CUDNN_ATTR_TENSOR_DATA_TYPE, 901)                                   \
	X(CUDNN_ATTR_TENSOR_DIMENSIONS, 902)                                  \
	X(CUDNN_ATTR_TENSOR_STRIDES, 903)                                     \
	X(CUDNN_ATTR_TENSOR_UNIQUE_ID, 906)                                   \
	X(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 1000)                           \
	X(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, 1001)                        \
	X(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1003)                            \
	X(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1301)                               \
	X(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, 1303)                             \
	X(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, 2702)                    \
	X(CUDNN_NUMERICAL_NOTE_TENSOR_CORE, 0)                                \
	X(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, 1)                        \
	X(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, 2)                \
	X(CUDNN_NUMERICAL_NOTE_FFT, 3)                                        \
	X(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, 4)                           \
	X(CUDNN_NUMERICAL_NOTE_WINOGRAD, 5)                                   \
	X(CUDNN_NUMERICAL_NOTE_TYPE_COUNT, 10)

#define CUDA_ABI_ENUMERATOR(name, value) ABI_##name = (value),
enum cuda_abi_constant {
	CUDA_ABI_DRIVER(CUDA_ABI_ENUMERATOR) CUDA_ABI_CUBLASLT(CUDA_ABI_ENUMERATOR) CUDA_ABI_CUDNN(CUDA_ABI_ENUMERATOR)
};

/* cublasLtMatmulAlgo_t: opaque, copied as a whole. */
struct cublaslt_algorithm {
	uint64_t data[8];
};

/* cublasLtMatmulHeuristicResult_t */
struct cublaslt_heuristic {
	struct cublaslt_algorithm algorithm;
	size_t workspace_bytes;
	int state; /* 0: usable */
	float waves;
	int reserved[4];
};

/* nvmlProcessInfo_t */
struct nvml_process {
	unsigned pid;
	unsigned long long bytes;
	unsigned gpu_instance, compute_instance;
};
#define ABI_NVML_VALUE_NOT_AVAILABLE (~0ull)

/* X(name, symbol in the library, parameters); every call returns an int, 0 for success. */
#define CUDA_CALLS(X)                                                                                              \
	X(cuInit, "cuInit", (unsigned flags))                                                                      \
	X(cuDriverGetVersion, "cuDriverGetVersion", (int *version))                                                \
	X(cuGetErrorName, "cuGetErrorName", (int error, const char **name))                                        \
	X(cuGetErrorString, "cuGetErrorString", (int error, const char **text))                                    \
	X(cuDeviceGetCount, "cuDeviceGetCount", (int *count))                                                      \
	X(cuDeviceGet, "cuDeviceGet", (int *device, int ordinal))                                                  \
	X(cuDeviceGetName, "cuDeviceGetName", (char *name, int bytes, int device))                                 \
	X(cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId", (char *text, int bytes, int device))                         \
	X(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))                   \
	X(cuDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t * bytes, int device))                                   \
	X(cuDevicePrimaryCtxSetFlags, "cuDevicePrimaryCtxSetFlags_v2", (int device, unsigned flags))               \
	X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (void **context, int device))                      \
	X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (int device))                                 \
	X(cuCtxSetCurrent, "cuCtxSetCurrent", (void *context))                                                     \
	X(cuCtxSetLimit, "cuCtxSetLimit", (int limit, size_t value))                                               \
	X(cuCtxSynchronize, "cuCtxSynchronize", (void))                                                            \
	X(cuMemGetInfo, "cuMemGetInfo_v2", (size_t * free_bytes, size_t * total))                                  \
	X(cuMemAlloc, "cuMemAlloc_v2", (uint64_t * address, size_t bytes))                                         \
	X(cuMemFree, "cuMemFree_v2", (uint64_t address))                                                           \
	X(cuMemHostAlloc, "cuMemHostAlloc", (void **memory, size_t bytes, unsigned flags))                         \
	X(cuMemFreeHost, "cuMemFreeHost", (void *memory))                                                          \
	X(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",                                                               \
	  (uint64_t target, const void *source, size_t bytes, void *stream))                                       \
	X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *target, uint64_t source, size_t bytes, void *stream))  \
	X(cuMemsetD8Async, "cuMemsetD8Async", (uint64_t target, unsigned char value, size_t bytes, void *stream))  \
	X(cuModuleLoadData, "cuModuleLoadData", (void **module, const void *image))                                \
	X(cuModuleUnload, "cuModuleUnload", (void *module))                                                        \
	X(cuModuleGetFunction, "cuModuleGetFunction", (void **function, void *module, const char *name))           \
	X(cuFuncLoad, "cuFuncLoad", (void *function))                                                              \
	X(cuLaunchKernel, "cuLaunchKernel",                                                                        \
	  (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,  \
	   unsigned block_z, unsigned shared_bytes, void *stream, void **parameters, void **extra))                \
	X(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", (void **stream, unsigned flags, int priority)) \
	X(cuStreamDestroy, "cuStreamDestroy_v2", (void *stream))                                                   \
	X(cuStreamSynchronize, "cuStreamSynchronize", (void *stream))                                              \
	X(cuStreamWaitEvent, "cuStreamWaitEvent", (void *stream, void *event, unsigned flags))                     \
	X(cuEventCreate, "cuEventCreate", (void **event, unsigned flags))                                          \
	X(cuEventRecord, "cuEventRecord", (void *event, void *stream))                                             \
	X(cuEventSynchronize, "cuEventSynchronize", (void *event))                                                 \
	X(cuEventDestroy, "cuEventDestroy_v2", (void *event))                                                      \
	X(cuStreamBeginCapture, "cuStreamBeginCapture_v2", (void *stream, int mode))                               \
	X(cuStreamEndCapture, "cuStreamEndCapture", (void *stream, void **graph))                                  \
	X(cuGraphGetNodes, "cuGraphGetNodes", (void *graph, void **nodes, size_t *count))                          \
	X(cuGraphNodeGetType, "cuGraphNodeGetType", (void *node, int *type))                                       \
	X(cuGraphInstantiate, "cuGraphInstantiateWithFlags",                                                       \
	  (void **executable, void *graph, unsigned long long flags))                                              \
	X(cuGraphUpload, "cuGraphUpload", (void *executable, void *stream))                                        \
	X(cuGraphLaunch, "cuGraphLaunch", (void *executable, void *stream))                                        \
	X(cuGraphExecDestroy, "cuGraphExecDestroy", (void *executable))                                            \
	X(cuGraphDestroy, "cuGraphDestroy", (void *graph))

#define CUBLASLT_CALLS(X)                                                                                             \
	X(cublasLtCreate, "cublasLtCreate", (void **handle))                                                          \
	X(cublasLtDestroy, "cublasLtDestroy", (void *handle))                                                         \
	X(cublasLtMatmulDescCreate, "cublasLtMatmulDescCreate", (void **desc, int compute_type, int scale_type))      \
	X(cublasLtMatmulDescSetAttribute, "cublasLtMatmulDescSetAttribute",                                           \
	  (void *desc, int attribute, const void *value, size_t bytes))                                               \
	X(cublasLtMatmulDescDestroy, "cublasLtMatmulDescDestroy", (void *desc))                                       \
	X(cublasLtMatrixLayoutCreate, "cublasLtMatrixLayoutCreate",                                                   \
	  (void **layout, int type, uint64_t rows, uint64_t columns, int64_t leading))                                \
	X(cublasLtMatrixLayoutSetAttribute, "cublasLtMatrixLayoutSetAttribute",                                       \
	  (void *layout, int attribute, const void *value, size_t bytes))                                             \
	X(cublasLtMatrixLayoutDestroy, "cublasLtMatrixLayoutDestroy", (void *layout))                                 \
	X(cublasLtMatmulPreferenceCreate, "cublasLtMatmulPreferenceCreate", (void **preference))                      \
	X(cublasLtMatmulPreferenceSetAttribute, "cublasLtMatmulPreferenceSetAttribute",                               \
	  (void *preference, int attribute, const void *value, size_t bytes))                                         \
	X(cublasLtMatmulPreferenceDestroy, "cublasLtMatmulPreferenceDestroy", (void *preference))                     \
	X(cublasLtMatmulAlgoGetHeuristic, "cublasLtMatmulAlgoGetHeuristic",                                           \
	  (void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int wanted,                \
	   struct cublaslt_heuristic *result, int *found))                                                            \
	X(cublasLtMatmul, "cublasLtMatmul",                                                                           \
	  (void *handle, void *desc, const void *alpha, const void *a, void *a_layout, const void *b, void *b_layout, \
	   const void *beta, const void *c, void *c_layout, void *d, void *d_layout,                                  \
	   const struct cublaslt_algorithm *algorithm, void *workspace, size_t workspace_bytes, void *stream))

#define CUDNN_CALLS(X)                                                                                 \
	X(cudnnCreate, "cudnnCreate", (void **handle))                                                 \
	X(cudnnDestroy, "cudnnDestroy", (void *handle))                                                \
	X(cudnnSetStream, "cudnnSetStream", (void *handle, void *stream))                              \
	X(cudnnBackendCreateDescriptor, "cudnnBackendCreateDescriptor", (int type, void **descriptor)) \
	X(cudnnBackendDestroyDescriptor, "cudnnBackendDestroyDescriptor", (void *descriptor))          \
	X(cudnnBackendFinalize, "cudnnBackendFinalize", (void *descriptor))                            \
	X(cudnnBackendSetAttribute, "cudnnBackendSetAttribute",                                        \
	  (void *descriptor, int name, int type, int64_t count, const void *values))                   \
	X(cudnnBackendGetAttribute, "cudnnBackendGetAttribute",                                        \
	  (void *descriptor, int name, int type, int64_t wanted, int64_t *count, void *values))        \
	X(cudnnBackendExecute, "cudnnBackendExecute", (void *handle, void *plan, void *pack))

#define NVML_CALLS(X)                                                                                          \
	X(nvmlInit, "nvmlInit_v2", (void))                                                                     \
	X(nvmlShutdown, "nvmlShutdown", (void))                                                                \
	X(nvmlDeviceGetHandleByPciBusId, "nvmlDeviceGetHandleByPciBusId_v2", (const char *bus, void **device)) \
	X(nvmlDeviceGetComputeRunningProcesses, "nvmlDeviceGetComputeRunningProcesses_v3",                     \
	  (void *device, unsigned *count, struct nvml_process *process))

#define CUDA_ABI_POINTER(name, symbol, parameters) int(*name) parameters;
struct cuda_calls {
	CUDA_CALLS(CUDA_ABI_POINTER)
};
struct cublaslt_calls {
	CUBLASLT_CALLS(CUDA_ABI_POINTER)
	size_t (*cublasLtGetVersion)(void);
	const char *(*cublasLtGetStatusName)(int status);
};
struct nvml_calls {
	NVML_CALLS(CUDA_ABI_POINTER)
};
struct cudnn_calls {
	CUDNN_CALLS(CUDA_ABI_POINTER)
	size_t (*cudnnGetVersion)(void);
	const char *(*cudnnGetErrorString)(int status);
};

#endif
