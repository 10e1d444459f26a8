/*
 * image.cu - normalisation of groups of channels, and images in another height and width.
 *
 * Group normalisation: a block has one group of one sample. With g = dy * gamma and xhat = (x - mean) * rstd, averages
 * over the group:  dx = rstd * (g - avg(g) - xhat * avg(g * xhat)). Source: Wu, He 2018, arXiv:1803.08494,
 * differentiated.
 *
 * Resampling: a linear map for each axis, y[o] = sum_i w(o, i) x[i]; the adjoint sums over o instead. Both gather: a
 * thread computes one element in a fixed order.
 */
#include "device.h"

/* ---- group normalisation ---- */

/* The elements of this block's group: number e is channel e % width of position e / width. */
struct group_elements {
	uint64_t count, first;
	uint32_t width, channel, channels;
};

DEVICE group_elements elements_of_block(const group_parameters &p)
{
	group_elements group;
	group.width = p.channels / p.groups;
	group.channels = p.channels;
	group.channel = blockIdx.x % p.groups * group.width;
	group.count = p.positions * group.width;
	group.first = blockIdx.x / p.groups * p.positions * p.channels + group.channel;
	return group;
}

/* Where element e lies, and its channel. */
struct group_place {
	uint64_t at;
	uint32_t channel;
};

DEVICE group_place place_in(const group_elements &group, uint64_t e)
{
	quotient position = divide(e, group.width);
	return { group.first + position.value * group.channels + position.rest,
		 group.channel + (uint32_t)position.rest };
}

template <typename F> DEVICE double group_average(const group_elements &group, double *scratch, F f)
{
	double sum = strided_sum<uint64_t>(threadIdx.x, group.count, KERNEL_THREADS,
					   [&](uint64_t e) { return f(place_in(group, e)); });
	return team_sum(sum, scratch, KERNEL_THREADS) / (double)group.count;
}

template <typename T> DEVICE void group_norm_body(const group_parameters &p)
{
	__shared__ double scratch[KERNEL_WARPS];
	group_elements group = elements_of_block(p);
	const T *x = (const T *)p.x;
	float mean = (float)group_average(group, scratch, [&](group_place e) { return load(x, e.at); });
	double variance = group_average(group, scratch, [&](group_place e) {
		float d = load(x, e.at) - mean;
		return d * d;
	});
	float deviation = 1.0f / sqrtf((float)variance + p.epsilon);
	for (uint64_t e = threadIdx.x; e < group.count; e += KERNEL_THREADS) {
		group_place to = place_in(group, e);
		store((T *)p.y, to.at, (load(x, to.at) - mean) * deviation * p.gamma[to.channel] + p.beta[to.channel]);
	}
	if (threadIdx.x == 0) {
		p.new_mean[blockIdx.x] = mean;
		p.new_deviation[blockIdx.x] = deviation;
	}
}
INSTANTIATE(group_norm, group_parameters)

template <typename T> DEVICE void group_norm_grad_body(const group_parameters &p)
{
	__shared__ double scratch[KERNEL_WARPS];
	group_elements group = elements_of_block(p);
	float mean = p.mean[blockIdx.x], deviation = p.deviation[blockIdx.x];
	auto g = [&](group_place e) { return load((const T *)p.dy, e.at) * p.gamma[e.channel]; };
	auto xhat = [&](group_place e) { return (load((const T *)p.x, e.at) - mean) * deviation; };
	float g_mean = (float)group_average(group, scratch, g);
	float dot_mean = (float)group_average(group, scratch, [&](group_place e) { return g(e) * xhat(e); });
	for (uint64_t e = threadIdx.x; e < group.count; e += KERNEL_THREADS) {
		group_place to = place_in(group, e);
		store((T *)p.y, to.at, deviation * (g(to) - g_mean - xhat(to) * dot_mean));
	}
}
INSTANTIATE(group_norm_grad, group_parameters)

/* ---- other heights and widths ---- */

/* Elements along an axis: [begin, end). */
struct axis_range {
	uint32_t begin, end;
};

/* Position of o between the elements of the input: half-pixel centres, as PyTorch has it without align_corners. */
DEVICE float bilinear_position(const resample_parameters &p, int axis, uint32_t o)
{
	float position = ((float)o + 0.5f) * p.ratio[axis] - 0.5f;
	return position < 0.0f ? 0.0f : position;
}

/* What output o of the forward map reads. */
DEVICE axis_range axis_reads(const resample_parameters &p, int axis, uint32_t o)
{
	uint64_t in = p.in[axis], out = p.out[axis];
	if (p.mode == RESAMPLE_BILINEAR) {
		uint32_t first = (uint32_t)bilinear_position(p, axis, o);
		first = first < p.in[axis] ? first : p.in[axis] - 1;
		return { first, first + 2 < p.in[axis] ? first + 2 : p.in[axis] };
	}
	uint32_t first = (uint32_t)divide(o * in, out).value;
	if (p.mode == RESAMPLE_NEAREST)
		return { first, first + 1 };
	return { first, (uint32_t)divide((o + 1) * in + out - 1, out).value };
}

DEVICE float axis_weight(const resample_parameters &p, int axis, uint32_t o, uint32_t i)
{
	axis_range reads = axis_reads(p, axis, o);
	if (i < reads.begin || i >= reads.end)
		return 0.0f;
	if (p.mode == RESAMPLE_ADAPTIVE)
		return 1.0f / (float)(reads.end - reads.begin);
	if (p.mode == RESAMPLE_NEAREST || reads.end - reads.begin == 1)
		return 1.0f;
	float second = bilinear_position(p, axis, o) - (float)reads.begin;
	return i == reads.begin ? 1.0f - second : second;
}

/* What element `at` of the result gathers; of the adjoint generous by one or two at each end, where the weight is 0. */
DEVICE axis_range gathered(const resample_parameters &p, int axis, uint32_t at)
{
	if (!p.adjoint)
		return axis_reads(p, axis, at);
	uint64_t in = p.in[axis], out = p.out[axis];
	uint64_t begin = at < 2 ? 0 : divide((at - 2) * out, in).value, end = divide((at + 2) * out, in).value + 2;
	return { (uint32_t)begin, (uint32_t)(end < out ? end : out) };
}

DEVICE float gather_weight(const resample_parameters &p, int axis, uint32_t at, uint32_t from)
{
	return p.adjoint ? axis_weight(p, axis, from, at) : axis_weight(p, axis, at, from);
}

template <typename T> DEVICE void resample_body(const resample_parameters &p)
{
	uint64_t e = (uint64_t)blockIdx.x * KERNEL_THREADS + threadIdx.x;
	if (e >= p.elements)
		return;
	quotient pixel = divide(e, p.channels), line = divide(pixel.value, p.to[1]),
		 image = divide(line.value, p.to[0]);
	uint32_t h = (uint32_t)image.rest, w = (uint32_t)line.rest;
	axis_range vertical = gathered(p, 0, h), horizontal = gathered(p, 1, w);
	float total = 0.0f;
	for (uint32_t i = vertical.begin; i < vertical.end; i++) {
		float row_weight = gather_weight(p, 0, h, i);
		uint64_t row = (image.value * p.from[0] + i) * p.from[1];
		if (row_weight == 0.0f)
			continue;
		for (uint32_t j = horizontal.begin; j < horizontal.end; j++) {
			float weight = row_weight * gather_weight(p, 1, w, j);
			if (weight != 0.0f)
				total += weight * load((const T *)p.x, (row + j) * p.channels + pixel.rest);
		}
	}
	store((T *)p.y, e, total);
}
INSTANTIATE(resample, resample_parameters)
