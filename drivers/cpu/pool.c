/*
 * pool.c - pooling over N H W C: the channels of a pixel are contiguous, so every loop's innermost run is over them.
 *
 * A chunk is a run of image rows (n, row) of the tensor that is written. Gradients gather: each pixel of dx visits the
 * windows that cover it, in order, so that no two threads write the same place and the order of sums is fixed.
 */
#include "cpu/cpu.h"
#include "cpu/narrow.h"

#include <string.h>

/* Channels handled at once. */
#define BLOCK 256u

struct span {
	uint32_t begin, end;
};

/* Taps of the window at output position `out` that fall inside the image, along one axis. */
static struct span taps_inside(const struct window *window, int axis, uint32_t out, uint32_t size)
{
	struct span span = { 0, 0 };
	uint32_t dilation = window->dilation[axis], count = window->kernel[axis];
	uint64_t origin = (uint64_t)out * window->stride[axis]; /* in the padded image */
	uint32_t pad = window->pad_begin[axis];
	while (span.begin < count && origin + (uint64_t)span.begin * dilation < pad)
		span.begin++;
	span.end = span.begin;
	while (span.end < count && origin + (uint64_t)span.end * dilation < (uint64_t)pad + size)
		span.end++;
	return span;
}

/* Position in the image of a tap that is inside. */
static uint32_t tap_position(const struct window *window, int axis, uint32_t out, uint32_t tap)
{
	return out * window->stride[axis] + tap * window->dilation[axis] - window->pad_begin[axis];
}

/* The tap of window `out` that covers `position`, if any: position = out * stride + tap * dilation - pad. */
static bool covering_tap(const struct window *window, int axis, uint32_t position, uint32_t out, uint32_t *tap)
{
	uint64_t at = (uint64_t)position + window->pad_begin[axis], origin = (uint64_t)out * window->stride[axis];
	if (at < origin || (at - origin) % window->dilation[axis])
		return false;
	uint64_t found = (at - origin) / window->dilation[axis];
	*tap = (uint32_t)found;
	return found < window->kernel[axis];
}

/* Windows along one axis that may cover `position`: a few more are harmless, covering_tap decides. */
static struct span covering_windows(const struct window *window, int axis, uint32_t position, uint32_t windows)
{
	uint64_t at = (uint64_t)position + window->pad_begin[axis];
	uint64_t reach = (uint64_t)(window->kernel[axis] - 1) * window->dilation[axis];
	uint64_t stride = window->stride[axis];
	uint64_t first = at > reach ? (at - reach + stride - 1) / stride : 0, last = at / stride + 1;
	return (struct span){ (uint32_t)(first < windows ? first : windows),
			      (uint32_t)(last < windows ? last : windows) };
}

/* One window of one block of channels: the largest value and the tap of its first appearance. */
struct best {
	float value[BLOCK];
	uint32_t tap[BLOCK];
};

CPU_CLONES static void best_start(struct best *best, const float *x, uint32_t n, uint32_t tap)
{
	for (uint32_t c = 0; c < n; c++) {
		best->value[c] = x[c];
		best->tap[c] = tap;
	}
}

/* NaN wins, so that it is not hidden. */
CPU_CLONES static void best_update(struct best *best, const float *x, uint32_t n, uint32_t tap)
{
	for (uint32_t c = 0; c < n; c++) {
		bool wins = (x[c] > best->value[c]) | (x[c] != x[c]);
		best->value[c] = wins ? x[c] : best->value[c];
		best->tap[c] = wins ? tap : best->tap[c];
	}
}

CPU_CLONES static void best_store(const struct best *best, float *y, uint8_t *index, uint32_t n)
{
	memcpy(y, best->value, n * sizeof *y);
	for (uint32_t c = 0; c < n; c++)
		index[c] = (uint8_t)best->tap[c];
}

/* `x` is the first element of the image, `y` that of the result's pixel. */
static void max_pixel(const struct bound_instr *instr, uint64_t x, struct span rows, struct span columns, uint32_t oh,
		      uint32_t ow, uint64_t y)
{
	const struct window *window = &instr->kernel->attr.window;
	const struct operand *image = kernel_input(instr->kernel, 0);
	uint8_t *index = (uint8_t *)instr_output(instr, 1) + y;

	uint32_t channels = image->channels, width = image->dim[2];
	for (uint32_t first = 0; first < channels; first += BLOCK) {
		uint32_t n = channels - first < BLOCK ? channels - first : BLOCK;
		struct best best;
		float block[BLOCK];
		bool started = false;
		for (uint32_t kh = rows.begin; kh < rows.end; kh++)
			for (uint32_t kw = columns.begin; kw < columns.end; kw++) {
				uint64_t pixel = (uint64_t)tap_position(window, 0, oh, kh) * width +
						 tap_position(window, 1, ow, kw);
				const float *from = narrow_view(image->dtype, instr->address[0],
								x + pixel * channels + first, n, block);
				uint32_t tap = kh * window->kernel[1] + kw;
				if (started)
					best_update(&best, from, n, tap);
				else
					best_start(&best, from, n, tap);
				started = true;
			}
		best_store(&best, narrow_target(image->dtype, instr_output(instr, 0), y + first, block), index + first,
			   n);
		narrow_put(image->dtype, block, instr_output(instr, 0), y + first, n);
	}
}

static void max_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	const struct window *window = &kernel->attr.window;
	const struct operand *image = kernel_input(kernel, 0), *result = kernel_output(kernel, 0);
	uint32_t out_height = result->dim[1], out_width = result->dim[2], channels = image->channels;
	uint64_t image_elements = (uint64_t)image->dim[1] * image->dim[2] * channels;
	struct range range = chunk_range(kernel, chunk, (uint64_t)result->dim[0] * out_height);
	for (uint64_t row = range.begin; row < range.end; row++) {
		uint32_t oh = (uint32_t)(row % out_height);
		struct span rows = taps_inside(window, 0, oh, image->dim[1]);
		for (uint32_t ow = 0; ow < out_width; ow++)
			max_pixel(instr, row / out_height * image_elements, rows,
				  taps_inside(window, 1, ow, image->dim[2]), oh, ow, (row * out_width + ow) * channels);
	}
}

/* Of one pixel of the result: what `index` names of g, 0 where that lies in the padding. */
static void gather_pixel(const struct window *window, const struct operand *image, const float *g, uint32_t oh,
			 uint32_t ow, const uint8_t *index, float *y)
{
	struct span rows = taps_inside(window, 0, oh, image->dim[1]);
	struct span columns = taps_inside(window, 1, ow, image->dim[2]);
	for (uint32_t c = 0; c < image->channels; c++) {
		uint32_t kh = index[c] / window->kernel[1], kw = index[c] % window->kernel[1];
		bool inside = kh >= rows.begin && kh < rows.end && kw >= columns.begin && kw < columns.end;
		y[c] = 0.0f;
		if (inside)
			y[c] = g[((uint64_t)tap_position(window, 0, oh, kh) * image->dim[2] +
				  tap_position(window, 1, ow, kw)) *
					 image->channels +
				 c];
	}
}

static void gather_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	const struct operand *image = kernel_input(kernel, 0), *result = kernel_output(kernel, 0);
	uint64_t image_elements = (uint64_t)image->dim[1] * image->dim[2] * image->channels;
	struct range range = chunk_range(kernel, chunk, (uint64_t)result->dim[0] * result->dim[1]);
	for (uint64_t row = range.begin; row < range.end; row++) {
		const float *g = (const float *)instr->address[0] + row / result->dim[1] * image_elements;
		for (uint32_t ow = 0; ow < result->dim[2]; ow++) {
			uint64_t at = (row * result->dim[2] + ow) * image->channels;
			gather_pixel(&kernel->attr.window, image, g, (uint32_t)(row % result->dim[1]), ow,
				     (const uint8_t *)instr->address[1] + at, (float *)instr_output(instr, 0) + at);
		}
	}
}

CPU_CLONES static void add_if_chosen(float *dx, const float *dy, const uint8_t *index, uint32_t n, uint32_t tap)
{
	for (uint32_t c = 0; c < n; c++)
		dx[c] += index[c] == tap ? dy[c] : 0.0f;
}

/* With `index`: the gradient of max pooling; without: dy is scaled by the share of its window. */
CPU_CLONES static void add_share(float *dx, const float *dy, uint32_t n, float share)
{
	for (uint32_t c = 0; c < n; c++)
		dx[c] += dy[c] * share;
}

static float average_share(const struct kernel *kernel, struct span rows, struct span columns)
{
	const struct window *window = &kernel->attr.window;
	uint32_t inside = (rows.end - rows.begin) * (columns.end - columns.begin);
	return 1.0f / (float)(kernel->attr.count_padding ? window->kernel[0] * window->kernel[1] : inside);
}

/* `n` channels of one pixel (h, w) of dx, from `first` on: adds what every window that covers it gives back. */
static void grad_pixel(const struct bound_instr *instr, uint64_t image_number, uint32_t h, uint32_t w, uint32_t first,
		       uint32_t n, float *dx)
{
	const struct kernel *kernel = instr->kernel;
	const struct window *window = &kernel->attr.window;
	const struct operand *gradient = kernel_input(kernel, 0), *image = kernel_output(kernel, 0);
	uint32_t channels = image->channels, tap_h, tap_w;
	struct span windows_h = covering_windows(window, 0, h, gradient->dim[1]);
	struct span windows_w = covering_windows(window, 1, w, gradient->dim[2]);
	float block[BLOCK];
	memset(dx, 0, n * sizeof *dx);
	for (uint32_t oh = windows_h.begin; oh < windows_h.end; oh++) {
		if (!covering_tap(window, 0, h, oh, &tap_h))
			continue;
		for (uint32_t ow = windows_w.begin; ow < windows_w.end; ow++) {
			if (!covering_tap(window, 1, w, ow, &tap_w))
				continue;
			uint64_t at =
				((image_number * gradient->dim[1] + oh) * gradient->dim[2] + ow) * channels + first;
			const float *dy = narrow_view(gradient->dtype, instr->address[0], at, n, block);
			if (kernel->kind == OP_MAX_POOL_GRAD)
				add_if_chosen(dx, dy, (const uint8_t *)instr->address[1] + at, n,
					      tap_h * window->kernel[1] + tap_w);
			else
				add_share(dx, dy, n,
					  average_share(kernel, taps_inside(window, 0, oh, image->dim[1]),
							taps_inside(window, 1, ow, image->dim[2])));
		}
	}
}

static void grad_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct operand *image = kernel_output(instr->kernel, 0);
	uint32_t height = image->dim[1], width = image->dim[2];
	struct range range = chunk_range(instr->kernel, chunk, (uint64_t)image->dim[0] * height);
	void *dx = instr_output(instr, 0);
	for (uint64_t row = range.begin; row < range.end; row++)
		for (uint32_t w = 0; w < width; w++)
			for (uint32_t first = 0; first < image->channels; first += BLOCK) {
				uint32_t n = image->channels - first < BLOCK ? image->channels - first : BLOCK;
				uint64_t at = (row * width + w) * image->channels + first;
				float block[BLOCK];
				grad_pixel(instr, row / height, (uint32_t)(row % height), w, first, n,
					   narrow_target(image->dtype, dx, at, block));
				narrow_put(image->dtype, block, dx, at, n);
			}
}

CPU_CLONES static void add_row(float *sum, const float *x, uint32_t n)
{
	for (uint32_t c = 0; c < n; c++)
		sum[c] += x[c];
}

CPU_CLONES static void finish_average(const float *sum, float *y, uint32_t n, float share)
{
	for (uint32_t c = 0; c < n; c++)
		y[c] = sum[c] * share;
}

/* Each row of the window is summed for itself first: shorter runs, smaller rounding. */
static void average_pixel(const struct bound_instr *instr, uint64_t x, uint32_t oh, uint32_t ow, struct span rows,
			  uint64_t y)
{
	const struct kernel *kernel = instr->kernel;
	const struct window *window = &kernel->attr.window;
	const struct operand *image = kernel_input(kernel, 0);
	struct span columns = taps_inside(window, 1, ow, image->dim[2]);
	float share = average_share(kernel, rows, columns), total[BLOCK], line[BLOCK], block[BLOCK];
	for (uint32_t first = 0; first < image->channels; first += BLOCK) {
		uint32_t n = image->channels - first < BLOCK ? image->channels - first : BLOCK;
		memset(total, 0, n * sizeof *total);
		for (uint32_t kh = rows.begin; kh < rows.end; kh++) {
			memset(line, 0, n * sizeof *line);
			for (uint32_t kw = columns.begin; kw < columns.end; kw++) {
				uint64_t pixel = (uint64_t)tap_position(window, 0, oh, kh) * image->dim[2] +
						 tap_position(window, 1, ow, kw);
				add_row(line,
					narrow_view(image->dtype, instr->address[0],
						    x + pixel * image->channels + first, n, block),
					n);
			}
			add_row(total, line, n);
		}
		finish_average(total, narrow_target(image->dtype, instr_output(instr, 0), y + first, block), n, share);
		narrow_put(image->dtype, block, instr_output(instr, 0), y + first, n);
	}
}

static void average_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	const struct operand *image = kernel_input(kernel, 0), *result = kernel_output(kernel, 0);
	uint32_t out_height = result->dim[1], out_width = result->dim[2], channels = image->channels;
	uint64_t image_elements = (uint64_t)image->dim[1] * image->dim[2] * channels;
	struct range range = chunk_range(kernel, chunk, (uint64_t)result->dim[0] * out_height);
	for (uint64_t row = range.begin; row < range.end; row++) {
		uint32_t oh = (uint32_t)(row % out_height);
		struct span rows = taps_inside(&kernel->attr.window, 0, oh, image->dim[1]);
		for (uint32_t ow = 0; ow < out_width; ow++)
			average_pixel(instr, row / out_height * image_elements, oh, ow, rows,
				      (row * out_width + ow) * channels);
	}
}

/* A window that lies wholly in the padding has no largest value and no average of its own elements. */
static enum tarn_status check_windows(const struct kernel *kernel, const struct operand *image,
				      const struct operand *result)
{
	const struct window *window = &kernel->attr.window;
	for (int axis = 0; axis < 2; axis++)
		for (uint32_t out = 0; out < result->dim[axis + 1]; out++) {
			struct span inside = taps_inside(window, axis, out, image->dim[axis + 1]);
			if (inside.begin == inside.end)
				return tarn_fail(TARN_EUNSUPPORTED,
						 "cpu: %s \"%s\": window %u along the %s lies wholly in the "
						 "padding",
						 op_row(kernel->kind)->name, kernel->name, out,
						 axis ? "width" : "height");
		}
	return TARN_OK;
}

enum tarn_status pool_prepare(struct device *device, struct kernel *kernel)
{
	(void)device;
	const struct operand *in = kernel_input(kernel, 0), *out = kernel_output(kernel, 0);
	bool backward = kernel->kind == OP_MAX_POOL_GRAD || kernel->kind == OP_AVG_POOL_GRAD;
	if (in->rank != 4 || out->rank != 4)
		return tarn_fail(TARN_EUNSUPPORTED,
				 "cpu: %s \"%s\": operands have ranks %u and %u; pooling needs rank 4",
				 op_row(kernel->kind)->name, kernel->name, in->rank, out->rank);
	enum tarn_status st = backward ? check_windows(kernel, out, in) : check_windows(kernel, in, out);
	if (st)
		return st;
	const uint32_t *taps = kernel->attr.window.kernel;
	uint64_t row_elements = (uint64_t)out->dim[2] * out->channels;
	bool gather = kernel->kind == OP_MAX_POOL_GATHER;
	uint64_t work = backward || gather ? row_elements : row_elements * taps[0] * taps[1];
	kernel_body *body = backward                      ? grad_body
			    : gather                      ? gather_body
			    : kernel->kind == OP_MAX_POOL ? max_body
							  : average_body;
	kernel_cut(kernel, body, (uint64_t)out->dim[0] * out->dim[1], CPU_CHUNK_ELEMENTS / 2 / work);
	return TARN_OK;
}
