/*
 * pool.cu - pooling over N H W C. Neighbouring threads take neighbouring channels of a row of the tensor that is
 * written.
 *
 * Gradients gather: an element of dx visits the windows that cover it, in order, so that no two threads write the same
 * place and the order of sums is fixed.
 */
#include "device.h"

/* The element of the written tensor that this thread computes, out of rows of `width` pixels. */
struct pool_element {
	uint64_t at;
	uint32_t image, row, column, channel;
	bool exists;
};

DEVICE pool_element element_of(const pool_parameters &p, const uint32_t *size)
{
	pool_element e;
	uint32_t in_row = blockIdx.y * blockDim.x + threadIdx.x, row = blockIdx.x * blockDim.y + threadIdx.y;
	uint32_t row_elements = size[1] * p.channels;
	e.exists = in_row < row_elements && row < p.images * size[0];
	e.image = row / size[0];
	e.row = row % size[0];
	e.column = in_row / p.channels;
	e.channel = in_row % p.channels;
	e.at = (uint64_t)row * row_elements + in_row;
	return e;
}

/* Taps of the window at position `out` that fall inside the image, along one axis: [begin, end). */
struct taps {
	uint32_t begin, end;
	uint32_t first; /* position in the image of tap `begin` */
};

DEVICE taps taps_inside(const pool_parameters &p, int axis, uint32_t out)
{
	uint32_t origin = out * p.stride[axis]; /* in the padded image */
	uint32_t limit = p.pad[axis] + p.image[axis];
	taps t;
	t.begin = origin < p.pad[axis] ? p.pad[axis] - origin : 0;
	t.end = limit - origin < p.kernel[axis] ? limit - origin : p.kernel[axis];
	t.first = origin + t.begin - p.pad[axis];
	return t;
}

/* NaN wins, so that it is not hidden. */
template <typename T> DEVICE void max_pool_body(const pool_parameters &p)
{
	pool_element e = element_of(p, p.result);
	if (!e.exists)
		return;
	taps rows = taps_inside(p, 0, e.row), columns = taps_inside(p, 1, e.column);
	float best = 0.0f;
	uint32_t best_tap = 0;
	bool started = false;
	for (uint32_t kh = rows.begin; kh < rows.end; kh++) {
		uint64_t row = (uint64_t)e.image * p.image[0] + rows.first + (kh - rows.begin);
		const T *x = (const T *)p.x + (row * p.image[1] + columns.first) * p.channels + e.channel;
		for (uint32_t kw = columns.begin; kw < columns.end; kw++, x += p.channels) {
			float value = load(x, 0);
			bool wins = !started || value > best || value != value;
			best = wins ? value : best;
			best_tap = wins ? kh * p.kernel[1] + kw : best_tap;
			started = true;
		}
	}
	store((T *)p.y, e.at, best);
	p.new_index[e.at] = (uint8_t)best_tap;
}
INSTANTIATE(max_pool, pool_parameters)

DEVICE float average_share(const pool_parameters &p, const taps &rows, const taps &columns)
{
	uint32_t inside = (rows.end - rows.begin) * (columns.end - columns.begin);
	return 1.0f / (float)(p.count_padding ? p.kernel[0] * p.kernel[1] : inside);
}

/* Each row of the window is summed for itself first: shorter runs, smaller rounding. */
template <typename T> DEVICE void average_pool_body(const pool_parameters &p)
{
	pool_element e = element_of(p, p.result);
	if (!e.exists)
		return;
	taps rows = taps_inside(p, 0, e.row), columns = taps_inside(p, 1, e.column);
	float total = 0.0f;
	for (uint32_t kh = rows.begin; kh < rows.end; kh++) {
		uint64_t row = (uint64_t)e.image * p.image[0] + rows.first + (kh - rows.begin);
		const T *x = (const T *)p.x + (row * p.image[1] + columns.first) * p.channels + e.channel;
		float line = 0.0f;
		for (uint32_t kw = columns.begin; kw < columns.end; kw++, x += p.channels)
			line += load(x, 0);
		total += line;
	}
	store((T *)p.y, e.at, total * average_share(p, rows, columns));
}
INSTANTIATE(average_pool, pool_parameters)

/* Windows along one axis that cover a position of the image: [begin, end). */
struct windows {
	uint32_t begin, end;
};

DEVICE windows covering_windows(const pool_parameters &p, int axis, uint32_t position)
{
	uint32_t at = position + p.pad[axis], last = at / p.stride[axis] + 1;
	windows w;
	w.begin = at < p.kernel[axis] ? 0 : (at - p.kernel[axis]) / p.stride[axis] + 1;
	w.end = last < p.result[axis] ? last : p.result[axis];
	return w;
}

/* Sum of share(window, tap) over the windows that cover this thread's element of dx. */
template <typename T, typename F> DEVICE void gather_windows(const pool_parameters &p, F share)
{
	pool_element e = element_of(p, p.image);
	if (!e.exists)
		return;
	windows rows = covering_windows(p, 0, e.row), columns = covering_windows(p, 1, e.column);
	float total = 0.0f;
	for (uint32_t oh = rows.begin; oh < rows.end; oh++)
		for (uint32_t ow = columns.begin; ow < columns.end; ow++) {
			uint32_t kh = e.row + p.pad[0] - oh * p.stride[0], kw = e.column + p.pad[1] - ow * p.stride[1];
			uint64_t pixel = ((uint64_t)e.image * p.result[0] + oh) * p.result[1] + ow;
			total += share(pixel * p.channels + e.channel, oh, ow, kh * p.kernel[1] + kw);
		}
	store((T *)p.y, e.at, total);
}

template <typename T> DEVICE void max_pool_grad_body(const pool_parameters &p)
{
	gather_windows<T>(p, [&](uint64_t at, uint32_t, uint32_t, uint32_t tap) {
		return p.index[at] == tap ? load((const T *)p.x, at) : 0.0f;
	});
}
INSTANTIATE(max_pool_grad, pool_parameters)

template <typename T> DEVICE void average_pool_grad_body(const pool_parameters &p)
{
	gather_windows<T>(p, [&](uint64_t at, uint32_t oh, uint32_t ow, uint32_t) {
		return load((const T *)p.x, at) * average_share(p, taps_inside(p, 0, oh), taps_inside(p, 1, ow));
	});
}
INSTANTIATE(average_pool_grad, pool_parameters)

/* The element of x that the index names in each window; 0 in the padding. The adjoint of max_pool_grad. */
template <typename T> DEVICE void max_pool_gather_body(const pool_parameters &p)
{
	pool_element e = element_of(p, p.result);
	if (!e.exists)
		return;
	uint32_t tap = p.index[e.at];
	uint32_t h = e.row * p.stride[0] + tap / p.kernel[1] - p.pad[0];
	uint32_t w = e.column * p.stride[1] + tap % p.kernel[1] - p.pad[1];
	uint64_t row = (uint64_t)e.image * p.image[0] + h;
	bool inside = h < p.image[0] && w < p.image[1];
	store((T *)p.y, e.at, inside ? load((const T *)p.x, (row * p.image[1] + w) * p.channels + e.channel) : 0.0f);
}
INSTANTIATE(max_pool_gather, pool_parameters)
