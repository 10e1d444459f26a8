/*
 * numbers.h - elements of the simulated libraries' tensors: float32, float16 and bfloat16 as floats and back.
 */
#ifndef CUDASIM_NUMBERS_H
#define CUDASIM_NUMBERS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum number_type { NUMBER_F32, NUMBER_F16, NUMBER_BF16 };

static inline uint32_t number_bytes(enum number_type type)
{
	return type == NUMBER_F32 ? 4 : 2;
}

static inline float number_from_bits(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

static inline uint32_t number_to_bits(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static inline float number_load(const uint8_t *data, uint64_t index, enum number_type type)
{
	if (type == NUMBER_F32) {
		float value;
		memcpy(&value, data + 4 * index, sizeof value);
		return value;
	}
	uint16_t half;
	memcpy(&half, data + 2 * index, sizeof half);
	if (type == NUMBER_BF16)
		return number_from_bits((uint32_t)half << 16);
	int exponent = half >> 10 & 31, fraction = half & 0x3FF;
	float magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
			  : exponent     ? ldexpf((float)(1024 + fraction), exponent - 25)
					 : ldexpf((float)fraction, -24);
	return half & 0x8000 ? -magnitude : magnitude;
}

/* To nearest, ties to even. */
static inline uint16_t number_half(float value)
{
	uint32_t sign = number_to_bits(value) >> 16 & 0x8000;
	float magnitude = fabsf(value);
	if (isnan(value))
		return 0x7FFF;
	if (magnitude >= 65520) /* rounds beyond the largest */
		return (uint16_t)(sign | 0x7C00);
	if (magnitude < ldexpf(1, -14))
		return (uint16_t)(sign | (uint32_t)rintf(ldexpf(magnitude, 24)));
	int exponent;
	float fraction = rintf(ldexpf(frexpf(magnitude, &exponent), 11)); /* 1024 to 2048 */
	return (uint16_t)(sign | (((uint32_t)(exponent + 14) << 10) + (uint32_t)fraction - 1024));
}

static inline void number_store(uint8_t *data, uint64_t index, enum number_type type, float value)
{
	if (type == NUMBER_F32) {
		memcpy(data + 4 * index, &value, sizeof value);
		return;
	}
	uint32_t bits = number_to_bits(value);
	uint16_t half = type == NUMBER_F16 ? number_half(value)
			: isnan(value)     ? 0x7FFF
					   : (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
	memcpy(data + 2 * index, &half, sizeof half);
}

/* TensorFloat-32 keeps 10 bits of the fraction. */
static inline float number_tf32(float value)
{
	uint32_t bits = number_to_bits(value);
	return isfinite(value) ? number_from_bits((bits + 0xFFF + (bits >> 13 & 1)) & ~0x1FFFu) : value;
}

/* Rubbish for a workspace, the same in every run. */
static inline void number_scribble(uint8_t *data, uint64_t bytes)
{
	uint32_t state = 0x2545F491u;
	for (uint64_t i = 0; i < bytes; i++) {
		state = state * 1664525u + 1013904223u;
		data[i] = (uint8_t)(state >> 24);
	}
}

#endif
