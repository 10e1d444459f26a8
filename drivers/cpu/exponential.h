/*
 * exponential.h - exp and what is made of it, for loops that the compiler vectorises.
 *
 * exp(x) = 2^n exp(r) with n = round(x / ln 2) and |r| <= ln(2)/2, exp(r) by its Taylor polynomial of degree 7, whose
 * remainder r^8/8! is below 6e-9; ln 2 is subtracted in two parts (Cody, Waite 1980). The result is within 2 units in
 * the last place. Below -87.3 it is 0, above 88.3 infinite; NaN stays NaN. The same operations in the same order on
 * every instruction set.
 */
#ifndef TARN_CPU_EXPONENTIAL_H
#define TARN_CPU_EXPONENTIAL_H

#include <stdint.h>

/* Adding 1.5 * 2^23 rounds to a whole number, which then stands in the lowest bits. */
#define EXPONENTIAL_ROUND 12582912.0f
#define EXPONENTIAL_ROUND_BITS 0x4B400000u

static inline float exponential(float x)
{
	union {
		float value;
		uint32_t bits;
	} rounded, power;
	rounded.value = x * 1.44269504f + EXPONENTIAL_ROUND;
	float n = rounded.value - EXPONENTIAL_ROUND;
	float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
	float sum = 1.0f / 5040.0f;
	sum = sum * r + 1.0f / 720.0f;
	sum = sum * r + 1.0f / 120.0f;
	sum = sum * r + 1.0f / 24.0f;
	sum = sum * r + 1.0f / 6.0f;
	sum = sum * r + 0.5f;
	sum = sum * r + 1.0f;
	sum = sum * r + 1.0f;
	power.bits = (rounded.bits - EXPONENTIAL_ROUND_BITS + 127u) << 23;
	sum = sum * power.value;
	sum = x > 88.3f ? __builtin_inff() : sum;
	return x < -87.3f ? 0.0f : sum;
}

static inline float exponential_sigmoid(float x)
{
	return 1.0f / (1.0f + exponential(-x));
}

static inline float exponential_tanh(float x)
{
	return 1.0f - 2.0f / (1.0f + exponential(2.0f * x));
}

#endif
