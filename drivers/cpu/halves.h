/*
 * halves.h - the library's products of tensors stored in float16, which it does not know, in float32.
 *
 * The kernel is prepared as if its operands of 16 bits were floats, and these lie in the workspace. Where the batch can
 * be cut (images, rows of a matrix, matrices of many, elements) the workspace holds a piece of it at a time, at most
 * about HALVES_PIECE floats an operand; what is summed over the batch, the gradient of weights, is added up piece by
 * piece in float32, in their order, and rounded once. A batch whose size has no divisor near that is taken whole. The
 * cut depends on the shapes alone.
 */
#ifndef TARN_CPU_HALVES_H
#define TARN_CPU_HALVES_H

#include "cpu/cpu.h"

#define HALVES_PIECE ((uint64_t)1 << 18)

bool halves_can(const struct kernel *kernel);

/* `prepare`: of the op in float32. A kernel that turns out to have no oneDNN stages is left as that makes it. */
enum tarn_status halves_prepare(struct device *device, struct kernel *kernel, kernel_prepare *prepare);

#endif
