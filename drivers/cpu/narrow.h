/*
 * narrow.h - numbers of 16 bits: bfloat16, the upper half of a float, and IEEE 754 binary16 (float16).
 *
 * Rounding is to nearest, ties to even, in integer code: the same bits on every machine, and as fast as the memory with
 * any instruction set. NaN stays NaN; what float16 cannot hold becomes infinite.
 */
#ifndef TARN_CPU_NARROW_H
#define TARN_CPU_NARROW_H

#include "graph/graph.h"

#include <string.h>

static inline uint32_t float_bits(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static inline float bits_float(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

static inline float bf16_to_float(uint16_t x)
{
	return bits_float((uint32_t)x << 16);
}

static inline uint16_t float_to_bf16(float value)
{
	uint32_t bits = float_bits(value);
	uint32_t nan = bits >> 16 | 0x40, rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
	return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded);
}

/*
 * Shifted to their place in a float, the bits are the value times 2^-112, subnormals included; the product is exact.
 * An exponent of all ones stays one.
 */
static inline float f16_to_float(uint16_t x)
{
	uint32_t sign = (uint32_t)(x & 0x8000) << 16, magnitude = (uint32_t)(x & 0x7FFF) << 13;
	uint32_t finite = float_bits(bits_float(magnitude) * 0x1p112f), special = magnitude | 0x7F800000u;
	return bits_float(sign | (magnitude >= 0x0F800000u ? special : finite));
}

/* Numbers below 2^-14 become subnormal: behind 0.5 the units in the last place of a float are theirs. */
static inline uint16_t float_to_f16(float value)
{
	uint32_t bits = float_bits(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
	uint32_t normal = (magnitude + 0xFFF + (magnitude >> 13 & 1) - 0x38000000u) >> 13;
	uint32_t subnormal = float_bits(bits_float(magnitude) + 0.5f) - 0x3F000000u;
	uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
	result = magnitude >= 0x477FF000u ? 0x7C00u : result;
	result = magnitude > 0x7F800000u ? 0x7E00u : result;
	return (uint16_t)(sign | result);
}

/* `n` numbers of a type (enum dtype: f32, bf16 or f16) to floats, and back. The two do not overlap. */
void narrow_load(uint32_t dtype, const void *from, float *to, uint64_t n);
void narrow_store(uint32_t dtype, const float *from, void *to, uint64_t n);

/*
 * bfloat16 numbers begin .. begin + n of a tensor whose mean error is zero: rounded up in magnitude with the
 * probability of what is cut off. The random numbers are those of the elements (op.h). NaN and infinity stay.
 */
struct philox_stream {
	uint64_t seed;
	uint32_t stream, step;
};
void narrow_store_stochastic(const float *from, uint16_t *to, uint64_t begin, uint64_t n, struct philox_stream stream);

/* The same spread over threads; those of 16 bits begin at element `at`. */
void narrow_load_threads(uint32_t dtype, const void *from, uint64_t at, float *to, uint64_t n, uint32_t threads);
void narrow_store_threads(uint32_t dtype, const float *from, void *to, uint64_t at, uint64_t n, uint32_t threads);

/* `n` numbers from element `at` on as floats: where they lie, or converted into `block`. */
static inline const float *narrow_view(uint32_t dtype, const void *from, uint64_t at, uint64_t n, float *block)
{
	if (dtype == DTYPE_F32)
		return (const float *)from + at;
	narrow_load(dtype, (const uint16_t *)from + at, block, n);
	return block;
}

/* Where floats for `n` numbers of a result are written; narrow_put then rounds them into their place. */
static inline float *narrow_target(uint32_t dtype, void *to, uint64_t at, float *block)
{
	return dtype == DTYPE_F32 ? (float *)to + at : block;
}

static inline void narrow_put(uint32_t dtype, const float *block, void *to, uint64_t at, uint64_t n)
{
	if (dtype != DTYPE_F32)
		narrow_store(dtype, block, (uint16_t *)to + at, n);
}

#endif
