/*
 * blockwise.h - optimizer state in 8 bits: blocks of codes, each with its own scale.
 *
 * Source: Dettmers et al. 2022, arXiv:2110.02861: a block's largest magnitude is its scale, so that one outlier costs
 * the digits of its block alone, and a code stands for a value of a dynamic map: small values keep relative precision.
 *
 * Layout of the state of n elements, a vector of bytes: n codes; zeros up to a multiple of 4; one float for each block.
 * All zero bytes mean zero.
 *
 * Code to value, times the scale: decades 10^(e-6), e = 0 .. 6, each cut into equal steps from a tenth of its top to
 * the top; a code is the middle of a step. A signed map has 2^e steps in decade e, an unsigned one 2^(e+1). unsigned 0:
 * 0; 1 .. 254: the steps from the smallest on; 255: 1 signed    0: 0; 1 .. 127: the steps; 128: 1; 129 .. 255: minus
 * the value of (code - 128)
 */
#ifndef TARN_GRAPH_BLOCKWISE_H
#define TARN_GRAPH_BLOCKWISE_H

#include <stdint.h>

#define BLOCKWISE_ELEMENTS 2048u /* of a block */
/* Parameters with fewer elements keep 32-bit state: biases and norms are small, and matter. */
#define BLOCKWISE_LEAST 4096u

static inline uint64_t blockwise_blocks(uint64_t elements)
{
	return (elements + BLOCKWISE_ELEMENTS - 1) / BLOCKWISE_ELEMENTS;
}

/* Where the scales begin. */
static inline uint64_t blockwise_codes_bytes(uint64_t elements)
{
	return (elements + 3) / 4 * 4;
}

static inline uint64_t blockwise_bytes(uint64_t elements)
{
	return blockwise_codes_bytes(elements) + blockwise_blocks(elements) * sizeof(float);
}

#endif
