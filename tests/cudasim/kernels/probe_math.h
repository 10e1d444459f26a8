/*
 * probe_math.h - arithmetic that the host computes beside the simulated device: the same source, compiled by the host's
 * compiler and by nvcc. Only operations that IEEE 754 or the language define to the last bit.
 */
#ifndef CUDASIM_PROBE_MATH_H
#define CUDASIM_PROBE_MATH_H

#ifdef __CUDACC__
#define PROBE static __device__ __forceinline__
#else
#include <math.h>
#define PROBE static inline
#endif

/* Shifts, products, divisions, bit fields, signed and unsigned, 32 and 64 bits wide. */
PROBE unsigned long long probe_integer(unsigned a, unsigned b)
{
	unsigned long long h = ((unsigned long long)a * b) ^ ((unsigned long long)b << 17);
	int s = (int)(a ^ 0x80000000u), t = (int)(b | 1u) >> 3;
	long long w = (long long)s * (t + 1);
	h += (unsigned long long)(w / ((long long)(b & 0xFFu) + 1));
	h ^= (unsigned long long)((long long)s % ((int)(a & 0x3FFu) + 7)) << 21;
	h = h * 6364136223846793005ull + 1442695040888963407ull;
	h ^= h >> (a & 63u);
	h += (unsigned)((a << (b & 31u)) | (a >> ((32u - b) & 31u)));
	h += (unsigned long long)(short)a * (unsigned char)b;
	h ^= (unsigned long long)(a / (b | 1u)) + (a % (b | 1u));
	h += (s < t ? (unsigned)s : (unsigned)t) & 0xFFFFu;
	h ^= (unsigned long long)(signed char)(b >> 8) >> 5;
	return h;
}

PROBE float probe_float(float a, float b)
{
	float sum = a + b, product = a * b, quotient = a / (fabsf(b) + 1.0f);
	float x = fmaf(sum, product, quotient);
	x += sqrtf(fabsf(a)) - 0.5f * (float)(int)(b * 16.0f);
	x = fminf(x, 3.0e4f);
	x = fmaxf(x, -3.0e4f);
	x -= floorf(a) + ceilf(b) + truncf(a * 3.0f) + rintf(b * 5.0f);
	return x > sum ? x : -x;
}

PROBE double probe_double(double a, double b)
{
	double x = fma(a, b, a / (fabs(b) + 1.0)) + sqrt(fabs(a - b));
	return x * (double)(float)b - (double)(long long)(a * 1000.0);
}

/* A data-dependent number of turns: lanes part and meet again. */
PROBE unsigned probe_collatz(unsigned n)
{
	unsigned turns = 0;
	while (n > 1 && turns < 500) {
		if (n & 1)
			n = 3 * n + 1;
		else
			n >>= 1;
		turns++;
	}
	return turns;
}

PROBE float probe_switch(unsigned which, float x)
{
	switch (which & 7u) {
	case 0:
		return x + 1.0f;
	case 1:
		return x * x;
	case 2:
		return -x;
	case 3:
		return x > 0.0f ? x : 0.0f;
	case 4:
		return 1.0f / (x * x + 1.0f);
	case 5:
		return sqrtf(fabsf(x));
	case 6:
		return x - 2.0f;
	default:
		return 0.0f;
	}
}

#endif
