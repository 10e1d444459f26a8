/*
 * device.h - what the kernels share: storage types, block sums, the portable subset.
 *
 * The subset, which tests/cudasim executes and every GPU since compute capability 7.5 runs: no calls, no printf, no
 * stack, no float atomics. Products and sums are never contracted (nvcc -fmad=false); where a fused multiply-add is
 * wanted it is written fmaf. A kernel has one by-value struct as its parameter.
 *
 * Storage types. A kernel is a template over the type in which large tensors are stored (storage.h) and carries it at
 * the end of its name: tarn_add_f32. What belongs to a channel or a row, weights in an optimizer and losses are float.
 */
#ifndef TARN_CUDA_DEVICE_H
#define TARN_CUDA_DEVICE_H

#include "storage.h"

/* Four blocks to a multiprocessor: at most 64 registers, so that the assembler has no reason to spill. */
#define KERNEL extern "C" __global__ void __launch_bounds__(KERNEL_THREADS, 4)
#define PARAMETER(type) const __grid_constant__ struct type

/* The kernel of a template name_body<T>(parameters) for the storage type that is compiled. */
#ifndef KERNEL_STORAGE
#define KERNEL_STORAGE f32
#endif
#define INSTANTIATE_FOR(name, storage, parameters)              \
	KERNEL tarn_##name##_##storage(PARAMETER(parameters) p) \
	{                                                       \
		name##_body<storage>(p);                        \
	}
#define INSTANTIATE_EXPANDED(name, storage, parameters) INSTANTIATE_FOR(name, storage, parameters)
#define INSTANTIATE(name, parameters) INSTANTIATE_EXPANDED(name, KERNEL_STORAGE, parameters)

DEVICE float clamp_apply(float low, float high, float value)
{
	value = value < low ? low : value;
	return value > high ? high : value;
}

DEVICE float clamp_grad(float low, float high, float at, float gradient)
{
	gradient = at > low ? gradient : 0.0f;
	return at < high ? gradient : 0.0f;
}

struct quotient {
	uint64_t value, rest;
};

/* 64-bit division takes several times as long as 32-bit division, and is rarely needed. */
DEVICE quotient divide(uint64_t a, uint64_t b)
{
	if (((a | b) >> 32) == 0)
		return { (uint32_t)a / (uint32_t)b, (uint32_t)a % (uint32_t)b };
	return { a / b, a % b };
}

/* First of the elements that this thread of an element-wise kernel computes. */
DEVICE uint64_t first_element(void)
{
	return KERNEL_VECTOR * ((uint64_t)blockIdx.x * KERNEL_THREADS + threadIdx.x);
}

/* y[i] = f(x[i]); the output may be the input. */
template <typename T, typename F> DEVICE void map1(const void *x_, void *y_, uint64_t elements, F f)
{
	const T *x = (const T *)x_;
	T *y = (T *)y_;
	uint64_t i = first_element();
	if (i + KERNEL_VECTOR <= elements) {
		vector4 a = load4(x, i);
		for (uint32_t k = 0; k < KERNEL_VECTOR; k++)
			a.v[k] = f(a.v[k]);
		store4(y, i, a);
		return;
	}
	for (; i < elements; i++)
		store(y, i, f(load(x, i)));
}

/* y[i] = f(a[i], b[i]); the output may be one of the inputs. */
template <typename T, typename F> DEVICE void map2(const void *a_, const void *b_, void *y_, uint64_t elements, F f)
{
	const T *a = (const T *)a_, *b = (const T *)b_;
	T *y = (T *)y_;
	uint64_t i = first_element();
	if (i + KERNEL_VECTOR <= elements) {
		vector4 p = load4(a, i), q = load4(b, i);
		for (uint32_t k = 0; k < KERNEL_VECTOR; k++)
			p.v[k] = f(p.v[k], q.v[k]);
		store4(y, i, p);
		return;
	}
	for (; i < elements; i++)
		store(y, i, f(load(a, i), load(b, i)));
}

/*
 * Combines the values of `width` neighbouring threads (a team: a power of two, at most KERNEL_THREADS); every thread
 * gets its team's result. All threads of the block call it. scratch: KERNEL_WARPS places in shared memory. The order is
 * a function of the width alone.
 */
#define KERNEL_WARPS (KERNEL_THREADS / 32u)
template <typename V, typename F> DEVICE V team_reduce(V value, V *scratch, uint32_t width, F combine)
{
	uint32_t thread = threadIdx.y * blockDim.x + threadIdx.x, warps = width / 32;
	for (uint32_t offset = (width < 32 ? width : 32) / 2; offset; offset /= 2)
		value = combine(value, __shfl_xor_sync(0xFFFFFFFFu, value, (int)offset));
	if (warps <= 1)
		return value;
	__syncthreads();
	if (thread % 32 == 0)
		scratch[thread / 32] = value;
	__syncthreads();
	const V *team = scratch + thread / width * warps;
	value = team[0];
	for (uint32_t w = 1; w < warps; w++)
		value = combine(value, team[w]);
	return value;
}

DEVICE double team_sum(double value, double *scratch, uint32_t width)
{
	return team_reduce(value, scratch, width, [](double a, double b) { return a + b; });
}

/*
 * Sum of f(i) over i = first, first + stride .. below n (of type I): runs in float, then double. A whole run is loaded
 * at once, because memory answers late.
 */
template <typename I, typename F> DEVICE double strided_sum(I first, I n, uint32_t stride, F f)
{
	double total = 0.0;
	I i = first, span = (I)stride * (KERNEL_RUN - 1);
	for (; i < n && n - i > span; i += (I)stride * KERNEL_RUN) {
		float value[KERNEL_RUN], run = 0.0f;
#pragma unroll
		for (uint32_t k = 0; k < KERNEL_RUN; k++)
			value[k] = f(i + k * stride);
#pragma unroll
		for (uint32_t k = 0; k < KERNEL_RUN; k++)
			run += value[k];
		total += (double)run;
	}
	float run = 0.0f;
	for (; i < n; i += stride)
		run += f(i);
	return total + (double)run;
}

#endif
