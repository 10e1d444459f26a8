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

template <typename T> DEVICE void lines_body(const lines_parameters &p)
{
	const line_source &source = p.source[blockIdx.y];
	uint64_t i = (uint64_t)blockIdx.x * KERNEL_THREADS + threadIdx.x;
	if (i >= p.lines * source.length)
		return;
	quotient line = divide(i, source.length);
	((T *)p.y)[line.value * p.stride + source.to + line.rest] =
		((const T *)source.from)[line.value * source.stride + line.rest];
}
INSTANTIATE(lines, lines_parameters)

template <typename T> DEVICE void pad_body(const pad_parameters &p)
{
	uint64_t i = (uint64_t)blockIdx.x * KERNEL_THREADS + threadIdx.x;
	if (i >= p.elements)
		return;
	quotient line = divide(i, p.total);
	bool inside = line.rest >= p.begin && line.rest - p.begin < p.length;
	float value = inside ? load((const T *)p.x, line.value * p.length + line.rest - p.begin) : 0.0f;
	store((T *)p.y, i, value);
}
INSTANTIATE(pad, pad_parameters)

/* The last axis stays the last: every element looks up its place in x. */
template <typename T> DEVICE void permute_gather_body(const permute_parameters &p)
{
	uint64_t i = (uint64_t)blockIdx.x * KERNEL_THREADS + threadIdx.x, rest = i, from = 0;
	if (i >= p.elements)
		return;
	for (uint32_t axis = p.rank; axis-- > 0;) {
		quotient position = divide(rest, p.length[axis]);
		from += position.rest * p.from[axis];
		rest = position.value;
	}
	((T *)p.y)[i] = ((const T *)p.x)[from];
}
INSTANTIATE(permute_gather, permute_parameters)

/*
 * A tile of the plane of y's last axis and of the axis that is contiguous in x goes through shared memory, so that both
 * sides use whole cache lines. A block is 32 x 8 threads; the column of padding keeps the banks apart.
 */
template <typename T> DEVICE void permute_transpose_body(const permute_parameters &p)
{
	__shared__ T tile[TRANSPOSE_TILE][TRANSPOSE_TILE + 1];
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
			tile[r][threadIdx.x] = x[i + j * p.from[last]];
	}
	__syncthreads();
	for (uint32_t r = threadIdx.y; r < TRANSPOSE_TILE; r += TRANSPOSE_ROWS) {
		uint64_t i = first_inner + r, j = first_last + threadIdx.x;
		if (i < p.length[p.inner] && j < p.length[last])
			y[i * p.to[p.inner] + j] = tile[threadIdx.x][r];
	}
}
INSTANTIATE(permute_transpose, permute_parameters)
