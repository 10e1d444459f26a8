/*
 * product.cu - matrix products and convolutions for shapes that no library takes: plain, tiled, deterministic.
 *
 * One scheme for all: c (m, n) = a (m, k) b (k, n), where a and b are functions that look an element up, padding and
 * all. A block computes a tile of 32 x 32, a thread 2 x 2 elements of it. A tile's depth of products is summed with
 * fused multiply-adds and then added to the total: sums in blocks, which round less than one long sum.
 */
#include "device.h"

#define HALF_TILE (PRODUCT_TILE / 2)

template <typename A, typename B, typename S>
DEVICE void product(uint64_t m, uint64_t n, uint64_t first_k, uint64_t k, A a, B b, S keep)
{
	__shared__ float a_tile[PRODUCT_DEPTH][PRODUCT_TILE + 1], b_tile[PRODUCT_DEPTH][PRODUCT_TILE + 1];
	uint32_t thread = threadIdx.x, row = thread / HALF_TILE, column = thread % HALF_TILE;
	uint64_t first_m = (uint64_t)blockIdx.x * PRODUCT_TILE, first_n = (uint64_t)blockIdx.y * PRODUCT_TILE;
	float total[2][2] = {};
	for (uint64_t depth = first_k; depth < k; depth += PRODUCT_DEPTH) {
		__syncthreads();
#pragma unroll
		for (uint32_t e = thread; e < PRODUCT_DEPTH * PRODUCT_TILE; e += KERNEL_THREADS) {
			uint32_t l = e / PRODUCT_TILE, i = e % PRODUCT_TILE;
			bool inside = depth + l < k;
			a_tile[l][i] = inside && first_m + i < m ? a(first_m + i, depth + l) : 0.0f;
			b_tile[l][i] = inside && first_n + i < n ? b(depth + l, first_n + i) : 0.0f;
		}
		__syncthreads();
		float sum[2][2] = {};
#pragma unroll
		for (uint32_t l = 0; l < PRODUCT_DEPTH; l++)
#pragma unroll
			for (uint32_t i = 0; i < 2; i++)
#pragma unroll
				for (uint32_t j = 0; j < 2; j++)
					sum[i][j] = fmaf(a_tile[l][row + i * HALF_TILE],
							 b_tile[l][column + j * HALF_TILE], sum[i][j]);
#pragma unroll
		for (uint32_t i = 0; i < 4; i++)
			total[i / 2][i % 2] += sum[i / 2][i % 2];
	}
#pragma unroll
	for (uint32_t i = 0; i < 4; i++) {
		uint64_t at_m = first_m + row + i / 2 * HALF_TILE, at_n = first_n + column + i % 2 * HALF_TILE;
		if (at_m < m && at_n < n)
			keep(at_m, at_n, total[i / 2][i % 2]);
	}
}

/* blockIdx.z is the first of the matrices of this block, every gridDim.z-th is its own. */
template <typename T> DEVICE void matmul_body(const matmul_parameters &p)
{
	for (uint64_t matrix = blockIdx.z; matrix < p.batch; matrix += gridDim.z) {
		const T *a = (const T *)p.a + matrix * p.m * p.k, *b = (const T *)p.b + matrix * p.k * p.n;
		T *c = (T *)p.c + matrix * p.m * p.n;
		product(
			p.m, p.n, 0, p.k,
			[&](uint64_t i, uint64_t l) { return load(a, p.transpose_a ? l * p.m + i : i * p.k + l); },
			[&](uint64_t l, uint64_t j) { return load(b, p.transpose_b ? j * p.k + l : l * p.n + j); },
			[&](uint64_t i, uint64_t j, float sum) {
				uint64_t at = i * p.n + j;
				float *wide = (float *)p.c + matrix * p.m * p.n;
				float before = !p.adds ? 0.0f : p.wide ? wide[at] : load(c, at);
				float value = clamp_apply(p.low, p.high,
							  p.alpha * sum + before + (p.bias ? p.bias[j] : 0.0f));
				if (p.wide)
					wide[at] = value;
				else
					store(c, at, value);
			});
	}
}
INSTANTIATE(matmul, matmul_parameters)

/* A pixel of `height` x `width` images, from its number. */
struct pixel {
	uint64_t image;
	uint32_t row, column;
};

DEVICE pixel pixel_of(uint64_t number, uint32_t height, uint32_t width)
{
	quotient line = divide(number, width), image = divide(line.value, height);
	return { image.value, (uint32_t)image.rest, (uint32_t)line.rest };
}

/* Where tap k of the window at `out` lies in the image; a number beyond the image when it lies in the padding. */
DEVICE uint32_t tap_position(const convolution_parameters &p, int axis, uint32_t out, uint32_t k)
{
	return out * p.stride[axis] + k * p.dilation[axis] - p.pad[axis];
}

/* x at a tap of a window; zero in the padding. */
template <typename T>
DEVICE float image_at(const convolution_parameters &p, const pixel &out, uint32_t tap, uint32_t channel)
{
	uint32_t h = tap_position(p, 0, out.row, tap / p.kernel[1]);
	uint32_t w = tap_position(p, 1, out.column, tap % p.kernel[1]);
	if (h >= p.height || w >= p.width)
		return 0.0f;
	return load((const T *)p.image, ((out.image * p.height + h) * p.width + w) * p.channels + channel);
}

DEVICE uint64_t weight_index(const convolution_parameters &p, uint32_t out_channel, uint32_t channel, uint32_t tap)
{
	return ((uint64_t)out_channel * p.group_channels + channel) * (p.kernel[0] * p.kernel[1]) + tap;
}

/* m: output pixels; n: output channels of the group; k: taps x channels. blockIdx.z is the group. */
template <typename T> DEVICE void convolution_body(const convolution_parameters &p)
{
	uint32_t first_channel = blockIdx.z * p.group_channels, first_out = blockIdx.z * p.group_out_channels;
	product(
		p.images * p.out_height * p.out_width, p.group_out_channels, 0,
		(uint64_t)p.kernel[0] * p.kernel[1] * p.group_channels,
		[&](uint64_t m, uint64_t k) {
			quotient tap = divide(k, p.group_channels);
			return image_at<T>(p, pixel_of(m, p.out_height, p.out_width), (uint32_t)tap.value,
					   first_channel + (uint32_t)tap.rest);
		},
		[&](uint64_t k, uint64_t n) {
			quotient tap = divide(k, p.group_channels);
			return load((const T *)p.weight,
				    weight_index(p, first_out + (uint32_t)n, (uint32_t)tap.rest, (uint32_t)tap.value));
		},
		[&](uint64_t m, uint64_t n, float sum) {
			float bias = p.bias ? p.bias[first_out + n] : 0.0f;
			store((T *)p.out, m * p.out_channels + first_out + n, clamp_apply(p.low, p.high, sum + bias));
		});
}
INSTANTIATE(convolution, convolution_parameters)

/* The window along one axis whose tap k covers `position`: false when there is none. */
DEVICE bool covering_window(const convolution_parameters &p, int axis, uint32_t position, uint32_t k, uint32_t windows,
			    uint32_t *out)
{
	uint32_t at = position + p.pad[axis], reach = k * p.dilation[axis];
	*out = (at - reach) / p.stride[axis];
	return at >= reach && (at - reach) % p.stride[axis] == 0 && *out < windows;
}

/* m: pixels of the image; n: channels of the group; k: taps x output channels. */
template <typename T> DEVICE void convolution_grad_input_body(const convolution_parameters &p)
{
	uint32_t first_channel = blockIdx.z * p.group_channels, first_out = blockIdx.z * p.group_out_channels;
	product(
		p.images * p.height * p.width, p.group_channels, 0,
		(uint64_t)p.kernel[0] * p.kernel[1] * p.group_out_channels,
		[&](uint64_t m, uint64_t k) {
			quotient tap = divide(k, p.group_out_channels);
			pixel at = pixel_of(m, p.height, p.width);
			uint32_t kh = (uint32_t)tap.value / p.kernel[1], kw = (uint32_t)tap.value % p.kernel[1], oh, ow;
			if (!covering_window(p, 0, at.row, kh, p.out_height, &oh) ||
			    !covering_window(p, 1, at.column, kw, p.out_width, &ow))
				return 0.0f;
			uint64_t out = (at.image * p.out_height + oh) * p.out_width + ow;
			return load((const T *)p.result, out * p.out_channels + first_out + tap.rest);
		},
		[&](uint64_t k, uint64_t n) {
			quotient tap = divide(k, p.group_out_channels);
			return load((const T *)p.weight,
				    weight_index(p, first_out + (uint32_t)tap.rest, (uint32_t)n, (uint32_t)tap.value));
		},
		[&](uint64_t m, uint64_t n, float sum) { store((T *)p.out, m * p.channels + first_channel + n, sum); });
}
INSTANTIATE(convolution_grad_input, convolution_parameters)

/*
 * m: output channels of the group; n: channels of the group x taps; k: output pixels, cut into parts so that small
 * weights occupy a GPU too. blockIdx.z is group x part; the parts' sums lie one after the other in `out`, as floats.
 */
template <typename T> DEVICE void convolution_grad_weight_body(const convolution_parameters &p)
{
	uint32_t groups = p.out_channels / p.group_out_channels, taps = p.kernel[0] * p.kernel[1];
	uint32_t group = blockIdx.z % groups, part = blockIdx.z / groups;
	uint32_t first_channel = group * p.group_channels, first_out = group * p.group_out_channels;
	uint64_t pixels = p.images * p.out_height * p.out_width, first = part * p.split, last = first + p.split;
	uint64_t columns = (uint64_t)p.group_channels * taps;
	float *out = (float *)p.out + part * (p.out_channels * columns);
	product(
		p.group_out_channels, columns, first, last < pixels ? last : pixels,
		[&](uint64_t m, uint64_t k) { return load((const T *)p.result, k * p.out_channels + first_out + m); },
		[&](uint64_t k, uint64_t n) {
			quotient channel = divide(n, taps);
			return image_at<T>(p, pixel_of(k, p.out_height, p.out_width), (uint32_t)channel.rest,
					   first_channel + (uint32_t)channel.value);
		},
		[&](uint64_t m, uint64_t n, float sum) { out[(first_out + m) * columns + n] = sum; });
}
INSTANTIATE(convolution_grad_weight, convolution_parameters)

template <typename T> DEVICE void sum_parts_body(const parts_parameters &p)
{
	uint64_t i = (uint64_t)blockIdx.x * KERNEL_THREADS + threadIdx.x;
	double total = 0.0;
	if (i >= p.elements)
		return;
	for (uint32_t k = 0; k < p.parts; k++)
		total += (double)p.partial[k * p.elements + i];
	store((T *)p.y, i, (float)total);
}
INSTANTIATE(sum_parts, parts_parameters)
