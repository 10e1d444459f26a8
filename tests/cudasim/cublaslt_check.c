/*
 * cublaslt_check.c - does cublaslt_values.h agree with NVIDIA's headers, where they are? Holds no code.
 */
#include "cublaslt.h"
#include "cublaslt_values.h"

#if defined(__has_include) && __has_include(<cublasLt.h>)
#include <cublasLt.h>
#define CHECK_VALUE(name, value) _Static_assert((int)name == (value), #name " is not " #value);
CUBLASLT_VALUES(CHECK_VALUE)
_Static_assert(sizeof(struct sim_algorithm) == sizeof(cublasLtMatmulAlgo_t), "size of an algorithm");
_Static_assert(sizeof(struct sim_heuristic) == sizeof(cublasLtMatmulHeuristicResult_t), "size of a heuristic's result");
#endif
