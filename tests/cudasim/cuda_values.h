/*
 * cuda_values.h - the numbers of CUDA's Driver API that the simulated device knows, stated here so that it builds
 * without NVIDIA's toolkit. abi_check.c compares them with the toolkit's cuda.h where there is one.
 */
#ifndef CUDASIM_CUDA_VALUES_H
#define CUDASIM_CUDA_VALUES_H

/* X(name, value) */
#define CUDA_VALUES(X)                                               \
	X(CUDA_SUCCESS, 0)                                           \
	X(CUDA_ERROR_INVALID_VALUE, 1)                               \
	X(CUDA_ERROR_OUT_OF_MEMORY, 2)                               \
	X(CUDA_ERROR_NOT_INITIALIZED, 3)                             \
	X(CUDA_ERROR_DEINITIALIZED, 4)                               \
	X(CUDA_ERROR_NO_DEVICE, 100)                                 \
	X(CUDA_ERROR_INVALID_DEVICE, 101)                            \
	X(CUDA_ERROR_INVALID_CONTEXT, 201)                           \
	X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209)                         \
	X(CUDA_ERROR_ECC_UNCORRECTABLE, 214)                         \
	X(CUDA_ERROR_INVALID_PTX, 218)                               \
	X(CUDA_ERROR_INVALID_HANDLE, 400)                            \
	X(CUDA_ERROR_NOT_FOUND, 500)                                 \
	X(CUDA_ERROR_NOT_READY, 600)                                 \
	X(CUDA_ERROR_ILLEGAL_ADDRESS, 700)                           \
	X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701)                   \
	X(CUDA_ERROR_LAUNCH_TIMEOUT, 702)                            \
	X(CUDA_ERROR_HARDWARE_STACK_ERROR, 714)                      \
	X(CUDA_ERROR_MISALIGNED_ADDRESS, 716)                        \
	X(CUDA_ERROR_LAUNCH_FAILED, 719)                             \
	X(CUDA_ERROR_NOT_PERMITTED, 800)                             \
	X(CUDA_ERROR_NOT_SUPPORTED, 801)                             \
	X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900)                \
	X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901)                \
	X(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902)                      \
	X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903)                  \
	X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904)                   \
	X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905)                  \
	X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906)                   \
	X(CUDA_ERROR_CAPTURED_EVENT, 907)                            \
	X(CUDA_ERROR_UNKNOWN, 999)                                   \
	X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1)              \
	X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 8)        \
	X(CU_DEVICE_ATTRIBUTE_WARP_SIZE, 10)                         \
	X(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 13)                        \
	X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)              \
	X(CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 32)                       \
	X(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 33)                        \
	X(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 36)                 \
	X(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 37)           \
	X(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 38)                     \
	X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 39)    \
	X(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 40)                \
	X(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41)                \
	X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)          \
	X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)          \
	X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97) \
	X(CU_LIMIT_STACK_SIZE, 0)                                    \
	X(CU_LIMIT_PRINTF_FIFO_SIZE, 1)                              \
	X(CU_LIMIT_MALLOC_HEAP_SIZE, 2)                              \
	X(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0)                \
	X(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1)                    \
	X(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, 2)                     \
	X(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 3)                     \
	X(CU_FUNC_ATTRIBUTE_NUM_REGS, 4)                             \
	X(CU_FUNC_ATTRIBUTE_PTX_VERSION, 5)                          \
	X(CU_FUNC_ATTRIBUTE_BINARY_VERSION, 6)                       \
	X(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8)        \
	X(CU_STREAM_CAPTURE_STATUS_NONE, 0)                          \
	X(CU_STREAM_CAPTURE_STATUS_ACTIVE, 1)                        \
	X(CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2)                   \
	X(CU_GRAPH_NODE_TYPE_KERNEL, 0)                              \
	X(CU_GRAPH_NODE_TYPE_MEMCPY, 1)                              \
	X(CU_GRAPH_NODE_TYPE_MEMSET, 2)                              \
	X(CU_GRAPH_NODE_TYPE_HOST, 3)

#define CUDA_VALUE_ENUMERATOR(name, value) SIM_##name = (value),
enum cuda_value { CUDA_VALUES(CUDA_VALUE_ENUMERATOR) };

/* The end marks of cuLaunchKernel's `extra` list, pointers in cuda.h. */
#define SIM_CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)
#define SIM_CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)2)

#endif
