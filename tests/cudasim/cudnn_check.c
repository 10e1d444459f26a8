/*
 * cudnn_check.c - does cudnn_values.h agree with NVIDIA's headers, where they are? Holds no code.
 */
#include "cudnn_values.h"

#if defined(__has_include) && __has_include(<cudnn.h>)
#include <cudnn.h>
#define CHECK_VALUE(name, value) _Static_assert((int)name == (value), #name " is not " #value);
CUDNN_VALUES(CHECK_VALUE)
#endif
