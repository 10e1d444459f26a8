/*
 * totals.cu - sums over all elements, in two stages: each block of a fixed range leaves a double, one block adds them.
 */
#include "device.h"

/* Sum of f(i) over the block's range of elements. */
template <typename F> DEVICE void block_total(const total_parameters &p, F f)
{
	__shared__ double scratch[KERNEL_WARPS];
	uint64_t begin = blockIdx.x * p.block_elements, end = begin + p.block_elements;
	double total =
		strided_sum<uint64_t>(begin + threadIdx.x, end < p.elements ? end : p.elements, KERNEL_THREADS, f);
	total = team_sum(total, scratch, KERNEL_THREADS);
	if (threadIdx.x == 0)
		p.partial[blockIdx.x] = total;
}

template <typename T> DEVICE void sum_squares_body(const total_parameters &p)
{
	const T *x = (const T *)p.a;
	block_total(p, [&](uint64_t i) { return load(x, i) * load(x, i); });
}
INSTANTIATE(sum_squares, total_parameters)

template <typename T> DEVICE void squared_error_body(const total_parameters &p)
{
	const T *prediction = (const T *)p.a, *target = (const T *)p.b;
	block_total(p, [&](uint64_t i) {
		float d = load(prediction, i) - load(target, i);
		return d * d;
	});
}
INSTANTIATE(squared_error, total_parameters)

/* max(x, 0) - x t + log(1 + exp(-|x|)) */
template <typename T> DEVICE void binary_cross_entropy_body(const total_parameters &p)
{
	const T *logit = (const T *)p.a, *target = (const T *)p.b;
	block_total(p, [&](uint64_t i) {
		float x = load(logit, i);
		return (x > 0.0f ? x : 0.0f) - x * load(target, i) + log1pf(expf(-fabsf(x)));
	});
}
INSTANTIATE(binary_cross_entropy, total_parameters)

/* One block. */
KERNEL tarn_finish_total(PARAMETER(finish_parameters) p)
{
	__shared__ double scratch[KERNEL_WARPS];
	double total = 0.0;
	for (uint64_t i = threadIdx.x; i < p.count; i += KERNEL_THREADS)
		total += p.partial[i];
	total = team_sum(total, scratch, KERNEL_THREADS);
	if (threadIdx.x == 0)
		*p.out = (float)(total / (p.counted ? *p.counted : p.divisor));
}

/* One block. A norm that is not a number must not pass for a small one: the comparison lets NaN stay. */
KERNEL tarn_clip_scale(PARAMETER(clip_parameters) p)
{
	__shared__ double scratch[KERNEL_WARPS];
	double total = 0.0;
	for (uint32_t i = threadIdx.x; i < p.count; i += KERNEL_THREADS)
		total += (double)*(const float *)(p.base + (uint64_t)p.unit[i] * 64);
	total = team_sum(total, scratch, KERNEL_THREADS);
	if (threadIdx.x)
		return;
	if (p.carried)
		total += *p.carry;
	if (!p.scale) {
		*p.carry = total;
		return;
	}
	double norm = sqrt(total), scale = (double)p.limit / (norm + 1e-6);
	*p.scale = scale >= 1.0 ? 1.0f : (float)scale;
	*p.norm = (float)norm;
}
