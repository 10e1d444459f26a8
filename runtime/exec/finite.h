/*
 * finite.h - where in an array of floating-point numbers one is NaN or infinite.
 */
#ifndef TARN_EXEC_FINITE_H
#define TARN_EXEC_FINITE_H

#include "graph/graph.h"

/*
 * The place of the first of `count` elements that is not finite; `count` when there is none, also for types that are no
 * floating-point numbers. `data` is aligned for its type.
 */
size_t finite_find_other(uint32_t dtype, const void *data, size_t count);

#endif
