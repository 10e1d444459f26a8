/*
 * test_cuda_abi.c - the constants and structs of drivers/cuda/cuda_abi.h are those of NVIDIA's headers, where these are
 * installed. Only what drivers/cuda uses is in either list.
 */
#include "support/testing.h"

#ifdef CONFIG_DRIVER_CUDA
#include "cuda/cuda_abi.h"
#endif

#if defined(CONFIG_DRIVER_CUDA) && defined(TARN_CUDA_HEADERS)
#include <cublasLt.h>
#include <cuda.h>
#include <cudnn_graph.h>

#define COMPARE(name, value)                                                                                       \
	ck_assert_msg((long long)(name) == (value), #name " is %lld in the headers, %lld here", (long long)(name), \
		      (long long)(value));
#endif

START_TEST(constants_are_those_of_the_headers)
{
#if !defined(CONFIG_DRIVER_CUDA)
	TESTING_SKIP("this build has no CUDA driver");
#elif !defined(TARN_CUDA_HEADERS)
	TESTING_SKIP("NVIDIA's headers are not installed under CUDA_HOME");
#else
	CUDA_ABI_DRIVER(COMPARE)
	CUDA_ABI_CUBLASLT(COMPARE)
	CUDA_ABI_CUDNN(COMPARE)
#endif
}
END_TEST

START_TEST(structs_have_the_layout_of_the_headers)
{
#if defined(CONFIG_DRIVER_CUDA) && defined(TARN_CUDA_HEADERS)
	ck_assert_uint_eq(sizeof(struct cublaslt_algorithm), sizeof(cublasLtMatmulAlgo_t));
	ck_assert_uint_eq(sizeof(struct cublaslt_heuristic), sizeof(cublasLtMatmulHeuristicResult_t));
	ck_assert_uint_eq(offsetof(struct cublaslt_heuristic, workspace_bytes),
			  offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
	ck_assert_uint_eq(offsetof(struct cublaslt_heuristic, state), offsetof(cublasLtMatmulHeuristicResult_t, state));
	ck_assert_uint_eq(sizeof(CUdeviceptr), sizeof(uint64_t));
	ck_assert_uint_eq(sizeof(CUdevice), sizeof(int));
	ck_assert_uint_eq(sizeof(CUresult), sizeof(int));
#else
	TESTING_SKIP("there is nothing to compare with");
#endif
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cuda_abi");
	TCase *abi = tcase_create("abi");
	tcase_add_test(abi, constants_are_those_of_the_headers);
	tcase_add_test(abi, structs_have_the_layout_of_the_headers);
	suite_add_tcase(suite, abi);
	return testing_run(suite);
}
