/* move.cu - ops that only move data: copies, concatenation and slices, padding, axes in another order. */
#include "device.h"

/* Any type: 16 bytes a thread, what is left over byte by byte. */
KERNEL tarn_copy(PARAMETER(copy_parameters) p)
{
	uint64_t i = 16 * ((uint64_t)blockIdx.x * KERNEL_THREADS + threadIdx.x);
	if (i + 16 <= p.bytes)
		*(uint4 *)((char *)p.to + i) = *(const uint4 *)((const char *)p.from + i);
	else
		for (; i < p.bytes; i++)
			((char *)p.to)[i] = ((const char *)p.from)[i];
}

/*
 * y[to] = x[from] for elements i < count, where place(i) says to and from; from NOWHERE is zero. A thread's elements
 * are all loaded before the first is stored.
 */
#define NOWHERE UINT64_MAX
struct move {
	uint64_t to, from;
};

template <typename T, typename F> DEVICE void move_elements(const void *x, void *y, uint64_t count, F place)
{
	uint64_t first = (uint64_t)blockIdx.x * (KERNEL_THREADS * KERNEL_LOOKUPS) + threadIdx.x;
	move moves[KERNEL_LOOKUPS];
	T value[KERNEL_LOOKUPS];
#pragma unroll
	for (uint32_t k = 0; k < KERNEL_LOOKUPS; k++) {
		uint64_t i = first + k * KERNEL_THREADS;
		moves[k] = i < count ? place(i) : move{ NOWHERE, NOWHERE };
		value[k] = moves[k].from != NOWHERE ? ((const T *)x)[moves[k].from] : T{};
	}
#pragma unroll
	for (uint32_t k = 0; k < KERNEL_LOOKUPS; k++)
		if (moves[k].to != NOWHERE)
			((T *)y)[moves[k].to] = value[k];
}

template <typename T> DEVICE void lines_body(const lines_parameters &p)
{
	const line_source &source = p.source[blockIdx.y];
	move_elements<T>(source.from, p.y, p.lines * source.length, [&](uint64_t i) {
		quotient line = divide(i, source.length);
		return move{ line.value * p.stride + source.to + line.rest,
			     line.value * source.stride + p.begin + line.rest };
	});
}
INSTANTIATE(lines, lines_parameters)

template <typename T> DEVICE void pad_body(const pad_parameters &p)
{
	move_elements<T>(p.x, p.y, p.elements, [&](uint64_t i) {
		quotient line = divide(i, p.total);
		bool inside = line.rest >= p.begin && line.rest - p.begin < p.length;
		return move{ i, inside ? line.value * p.length + line.rest - p.begin : NOWHERE };
	});
}
INSTANTIATE(pad, pad_parameters)

/* The last axis stays the last. */
template <typename T> DEVICE void permute_gather_body(const permute_parameters &p)
{
	move_elements<T>(p.x, p.y, p.elements, [&](uint64_t i) {
		uint64_t rest = i, from = 0;
		for (uint32_t axis = p.rank; axis-- > 0;) {
			quotient position = divide(rest, p.length[axis]);
			from += position.rest * p.from[axis];
			rest = position.value;
		}
		return move{ i, from };
	});
}
INSTANTIATE(permute_gather, permute_parameters)

/*
 * A tile of the plane of y's last axis and of the axis that is contiguous in x goes through shared memory, so that both
 * sides use whole cache lines. A block is 32 x 8 threads; the column of padding keeps the banks apart.
 */
template <typename T> DEVICE void permute_transpose_body(const permute_parameters &p)
{
	__shared__ float tile[TRANSPOSE_TILE][TRANSPOSE_TILE + 1];
	uint32_t last = p.rank - 1, block = blockIdx.x;
	uint64_t first_last = (uint64_t)(block % p.last_tiles) * TRANSPOSE_TILE;
	block /= p.last_tiles;
	uint64_t first_inner = (uint64_t)(block % p.inner_tiles) * TRANSPOSE_TILE;
	uint32_t position = block / p.inner_tiles;
	const T *x = (const T *)p.x;
	T *y = (T *)p.y;
	for (uint32_t axis = last; axis-- > 0;) {
		if (axis == p.inner)
			continue;
		uint32_t length = (uint32_t)p.length[axis], at = position % length;
		x += at * p.from[axis];
		y += at * p.to[axis];
		position /= length;
	}
	for (uint32_t r = threadIdx.y; r < TRANSPOSE_TILE; r += TRANSPOSE_ROWS) {
		uint64_t i = first_inner + threadIdx.x, j = first_last + r;
		if (i < p.length[p.inner] && j < p.length[last])
			tile[r][threadIdx.x] = load(x, i + j * p.from[last]);
	}
	__syncthreads();
	for (uint32_t r = threadIdx.y; r < TRANSPOSE_TILE; r += TRANSPOSE_ROWS) {
		uint64_t i = first_inner + r, j = first_last + threadIdx.x;
		if (i < p.length[p.inner] && j < p.length[last])
			store(y, i * p.to[p.inner] + j, tile[threadIdx.x][r]);
	}
}
INSTANTIATE(permute_transpose, permute_parameters)
