/*
 * storage.h - the types in which large tensors are stored; kernels compute in float.
 *
 * Conversions are integer code, rounding to nearest, ties to even: the same bits on every device and in the simulator.
 * bf16 is the upper half of a float; f16 is IEEE 754 binary16.
 */
#ifndef TARN_CUDA_STORAGE_H
#define TARN_CUDA_STORAGE_H

#include "parameters.h"

#define DEVICE static __device__ __forceinline__

typedef float f32;

struct bf16 {
	uint16_t bits;
};

struct f16 {
	uint16_t bits;
};

DEVICE float to_float(f32 x)
{
	return x;
}

DEVICE float to_float(bf16 x)
{
	return __uint_as_float((uint32_t)x.bits << 16);
}

DEVICE float to_float(f16 x)
{
	uint32_t sign = (x.bits & 0x8000u) << 16, exponent = x.bits >> 10 & 31, fraction = x.bits & 0x3FFu;
	if (exponent == 31) /* infinity, NaN */
		return __uint_as_float(sign | 0x7F800000u | fraction << 13);
	if (exponent == 0) /* zero, subnormal */
		return __uint_as_float(sign | __float_as_uint((float)fraction * 0x1p-24f));
	return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
}

DEVICE void from_float(float value, f32 *x)
{
	*x = value;
}

DEVICE void from_float(float value, bf16 *x)
{
	uint32_t bits = __float_as_uint(value);
	bool nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
	x->bits = (uint16_t)(nan ? bits >> 16 | 0x40 : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

DEVICE void from_float(float value, f16 *x)
{
	uint32_t bits = __float_as_uint(value), sign = bits >> 16 & 0x8000u;
	bits &= 0x7FFFFFFFu;
	if (bits > 0x7F800000u) /* NaN */
		bits = 0x7E00;
	else if (bits >= 0x477FF000u) /* 65520 and above rounds to infinity */
		bits = 0x7C00;
	else if (bits < 0x38800000u) /* subnormal: behind 0.5 the units in the last place are those of the result */
		bits = __float_as_uint(__uint_as_float(bits) + 0.5f) - 0x3F000000u;
	else
		bits = (bits + 0xFFF + (bits >> 13 & 1) - 0x38000000u) >> 13;
	x->bits = (uint16_t)(sign | bits);
}

template <typename T> DEVICE float load(const T *x, uint64_t i)
{
	return to_float(x[i]);
}

template <typename T> DEVICE void store(T *y, uint64_t i, float value)
{
	from_float(value, y + i);
}

/* Of type T, or float. */
template <typename T> DEVICE float load(const void *x, bool wide, uint64_t i)
{
	return wide ? ((const float *)x)[i] : load((const T *)x, i);
}

template <typename T> DEVICE void store(void *y, bool wide, uint64_t i, float value)
{
	if (wide)
		((float *)y)[i] = value;
	else
		store((T *)y, i, value);
}

/* KERNEL_VECTOR elements at once; i is a multiple of that, and operands begin at multiples of 64 bytes. */
struct vector4 {
	float v[KERNEL_VECTOR];
};

template <typename T> struct alignas(sizeof(T) * KERNEL_VECTOR) packed4 {
	T v[KERNEL_VECTOR];
};

template <typename T> DEVICE vector4 load4(const T *x, uint64_t i)
{
	packed4<T> packed = *(const packed4<T> *)(x + i);
	return { { to_float(packed.v[0]), to_float(packed.v[1]), to_float(packed.v[2]), to_float(packed.v[3]) } };
}

template <typename T> DEVICE void store4(T *y, uint64_t i, vector4 value)
{
	packed4<T> packed;
	for (uint32_t k = 0; k < KERNEL_VECTOR; k++)
		from_float(value.v[k], &packed.v[k]);
	*(packed4<T> *)(y + i) = packed;
}

template <typename T> DEVICE vector4 load4(const void *x, bool wide, uint64_t i)
{
	return wide ? load4((const float *)x, i) : load4((const T *)x, i);
}

template <typename T> DEVICE void store4(void *y, bool wide, uint64_t i, vector4 value)
{
	if (wide)
		store4((float *)y, i, value);
	else
		store4((T *)y, i, value);
}

#endif
