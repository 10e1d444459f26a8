/*
 * storage.h - in which number formats the ops of a graph store their tensors.
 *
 * Arithmetic and accumulation are float32 in every op. What differs is how large tensors are stored: float32, bfloat16
 * (the upper half of a float32) or float16 (IEEE 754 binary16). A result is rounded once, to the nearest, ties to even;
 * what float16 cannot hold becomes infinite.
 *
 * An op has one storage type. The table here says which of its operands are stored in it; all others are float32, or
 * integers where the op table says so:
 *   inputs        have the storage type, which is that of the first of them
 *   wide_inputs   have the storage type or float32, each as it comes
 *   outputs       have the storage type
 *   wide_outputs  have the type that attr.mode names: the storage type or float32
 * Statistics (mean, variance, rstd, log of sums), losses, biases, the scales of norms and optimizer state are always
 * float32. An op that is missing in the table knows float32 alone.
 *
 * The policy is what precision.h does with an op when it may use 16 bits.
 */
#ifndef TARN_GRAPH_STORAGE_H
#define TARN_GRAPH_STORAGE_H

#include "graph/graph.h"

enum storage_policy {
	STORAGE_FLOAT32, /* its inputs are cast to float32, where it has a choice */
	STORAGE_FOLLOW,  /* 16 bits as soon as one of its stored inputs has them */
	STORAGE_16_BITS, /* its stored inputs are cast to 16 bits */
};

/* Bit i: operand i; all bits: every one, beyond 32 too. */
struct op_storage {
	uint32_t inputs, wide_inputs;
	uint8_t outputs, wide_outputs;
	uint8_t policy;
};

const struct op_storage *op_storage(enum op_kind kind);

static inline bool storage_has(uint32_t mask, uint32_t operand)
{
	return operand < 32 ? mask >> operand & 1 : mask == UINT32_MAX;
}

/* float32, bfloat16 or float16. */
static inline bool dtype_is_real(uint32_t dtype)
{
	return dtype == DTYPE_F32 || dtype == DTYPE_BF16 || dtype == DTYPE_F16;
}

/* The storage type of an op on these inputs (tensor ids). */
uint32_t storage_type(const struct graph *graph, enum op_kind kind, const struct op_attr *attr, const uint32_t *input,
		      uint32_t inputs);

#endif
