/*
 * cublaslt_values.h - the numbers of cuBLASLt that its double knows; cublaslt_check.c compares them with the toolkit's.
 */
#ifndef CUDASIM_CUBLASLT_VALUES_H
#define CUDASIM_CUBLASLT_VALUES_H

/* X(name, value) */
#define CUBLASLT_VALUES(X)                                \
	X(CUBLAS_STATUS_SUCCESS, 0)                       \
	X(CUBLAS_STATUS_NOT_INITIALIZED, 1)               \
	X(CUBLAS_STATUS_ALLOC_FAILED, 3)                  \
	X(CUBLAS_STATUS_INVALID_VALUE, 7)                 \
	X(CUBLAS_STATUS_EXECUTION_FAILED, 13)             \
	X(CUBLAS_STATUS_INTERNAL_ERROR, 14)               \
	X(CUBLAS_STATUS_NOT_SUPPORTED, 15)                \
	X(CUDA_R_32F, 0)                                  \
	X(CUDA_R_16F, 2)                                  \
	X(CUDA_R_16BF, 14)                                \
	X(CUBLAS_COMPUTE_32F, 68)                         \
	X(CUBLAS_COMPUTE_32F_FAST_TF32, 77)               \
	X(CUBLAS_OP_N, 0)                                 \
	X(CUBLAS_OP_T, 1)                                 \
	X(CUBLASLT_MATMUL_DESC_POINTER_MODE, 2)           \
	X(CUBLASLT_MATMUL_DESC_TRANSA, 3)                 \
	X(CUBLASLT_MATMUL_DESC_TRANSB, 4)                 \
	X(CUBLASLT_MATRIX_LAYOUT_ORDER, 1)                \
	X(CUBLASLT_MATRIX_LAYOUT_LD, 4)                   \
	X(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 5)          \
	X(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 6) \
	X(CUBLASLT_ORDER_COL, 0)                          \
	X(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1)    \
	X(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 3)  \
	X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5)  \
	X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6)  \
	X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7)  \
	X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8)  \
	X(CUBLASLT_REDUCTION_SCHEME_NONE, 0)              \
	X(CUBLASLT_REDUCTION_SCHEME_INPLACE, 1)           \
	X(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 2)      \
	X(CUBLASLT_REDUCTION_SCHEME_MASK, 7)              \
	X(CUBLASLT_ALGO_CONFIG_ID, 0)                     \
	X(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 2)             \
	X(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 3)

#define CUBLASLT_VALUE_ENUMERATOR(name, value) SIM_##name = (value),
enum cublaslt_value { CUBLASLT_VALUES(CUBLASLT_VALUE_ENUMERATOR) };

#endif
