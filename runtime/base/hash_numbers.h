/*
 * hash_numbers.h - reproducible weights, inputs and labels from an integer hash.
 *
 * `network.init: hash` and `data.type: hash` use them so that two programs start from the same bits and can be
 * compared. For element i (flat index, row-major) of the tensor with seed s, all in wrapping 64-bit arithmetic:
 *     z = (i + 1) * 0x9E3779B97F4A7C15 + s * 0xD1B54A32D192ED03
 *     z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;  z = (z ^ z >> 27) * 0x94D049BB133111EB;  z = z ^ z >> 31
 * The mixing is the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
 * Parameter t (0-based, in the network's order) has seed 1000 + t, inputs seed 1, targets seed 2.
 */
#ifndef TARN_BASE_HASH_NUMBERS_H
#define TARN_BASE_HASH_NUMBERS_H

#include <stdint.h>

#define HASH_SEED_INPUT 1u
#define HASH_SEED_TARGET 2u
#define HASH_SEED_PARAMETER 1000u

static inline uint64_t hash_bits(uint64_t seed, uint64_t index)
{
	uint64_t z = (index + 1) * 0x9E3779B97F4A7C15u + seed * 0xD1B54A32D192ED03u;
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return z ^ (z >> 31);
}

/* Uniform in [-bound, bound): (2u - 1) * bound with one float32 rounding, u in [0, 1) with 24 bits. */
static inline float hash_uniform(uint64_t seed, uint64_t index, float bound)
{
	float u = (float)(hash_bits(seed, index) >> 40) * 0x1p-24f;
	return (2.0f * u - 1.0f) * bound;
}

/* A label in [0, classes). */
static inline uint32_t hash_label(uint64_t seed, uint64_t index, uint32_t classes)
{
	return (uint32_t)((hash_bits(seed, index) >> 33) % classes);
}

#endif
