/*
 * abi_check.c - does cuda_values.h agree with NVIDIA's headers? Compiled with every build that finds them; holds no
 * code.
 */
#include "cuda_values.h"

#if defined(__has_include) && __has_include(<cuda.h>)
#include <cuda.h>
#define CHECK_VALUE(name, value) _Static_assert((int)name == (value), #name " is not " #value);
CUDA_VALUES(CHECK_VALUE)
#endif
