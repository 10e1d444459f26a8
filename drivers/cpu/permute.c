/*
 * permute.c - axes in another order.
 *
 * Neighbouring axes that stay together are merged first. When the last axis stays the last, lines are copied; else
 * the plane of the result's last axis and of the axis that is contiguous in x is walked in square tiles, so that both
 * sides use whole cache lines.
 */
#include "cpu/cpu.h"

#include <string.h>

#define TILE 16u

/* The result's axes after merging, outermost first: length, and strides (elements) in x and in y. */
struct axes {
	uint32_t count;
	uint64_t length[OP_MAX_RANK], from[OP_MAX_RANK], to[OP_MAX_RANK];
};

static struct axes merged_axes(const struct kernel *kernel)
{
	const struct operand *x = kernel_input(kernel, 0);
	const uint32_t *source = kernel->attr.extent;
	uint64_t stride[OP_MAX_RANK], step = 1;
	struct axes axes = { 0 };
	for (uint32_t i = x->rank; i-- > 0;) {
		stride[i] = step;
		step *= x->dim[i];
	}
	for (uint32_t i = 0; i < x->rank; i++) {
		if (i && source[i] == source[i - 1] + 1) {
			axes.length[axes.count - 1] *= x->dim[source[i]];
			axes.from[axes.count - 1] = stride[source[i]];
			continue;
		}
		axes.length[axes.count] = x->dim[source[i]];
		axes.from[axes.count++] = stride[source[i]];
	}
	if (!axes.count) { /* a scalar is a vector of one */
		axes.count = 1;
		axes.length[0] = axes.from[0] = 1;
	}
	step = 1;
	for (uint32_t i = axes.count; i-- > 0;) {
		axes.to[i] = step;
		step *= axes.length[i];
	}
	return axes;
}

/* The axis of the result that is contiguous in x. */
static uint32_t contiguous_axis(const struct axes *axes)
{
	uint32_t found = axes->count - 1;
	for (uint32_t i = 0; i < axes->count; i++)
		if (axes->from[i] == 1)
			found = i;
	return found;
}

/* y[i * to + j] = x[i + j * from] for all i < rows, j < columns. */
static void transpose_plane(const float *x, float *y, uint64_t rows, uint64_t columns, uint64_t from, uint64_t to)
{
	for (uint64_t i0 = 0; i0 < rows; i0 += TILE)
		for (uint64_t j0 = 0; j0 < columns; j0 += TILE) {
			uint64_t i1 = rows - i0 < TILE ? rows : i0 + TILE;
			uint64_t j1 = columns - j0 < TILE ? columns : j0 + TILE;
			for (uint64_t i = i0; i < i1; i++)
				for (uint64_t j = j0; j < j1; j++)
					y[i * to + j] = x[i + j * from];
		}
}

/* A chunk is a run of the positions along all axes but the plane's (or the line's). */
static void permute_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	struct axes axes = merged_axes(kernel);
	uint32_t last = axes.count - 1, inner = contiguous_axis(&axes);
	uint64_t plane = inner == last ? axes.length[last] : axes.length[last] * axes.length[inner];
	struct range range = chunk_range(kernel, chunk, kernel_output(kernel, 0)->elements / plane);
	for (uint64_t position = range.begin; position < range.end; position++) {
		const float *x = instr->address[0];
		float *y = instr_output(instr, 0);
		uint64_t rest = position;
		for (uint32_t i = last; i-- > 0;) {
			if (i == inner)
				continue;
			x += rest % axes.length[i] * axes.from[i];
			y += rest % axes.length[i] * axes.to[i];
			rest /= axes.length[i];
		}
		if (inner == last)
			memcpy(y, x, axes.length[last] * sizeof *y);
		else
			transpose_plane(x, y, axes.length[inner], axes.length[last], axes.from[last], axes.to[inner]);
	}
}

enum tarn_status permute_prepare(struct device *device, struct kernel *kernel)
{
	(void)device;
	if (kernel_input(kernel, 0)->dtype != DTYPE_F32)
		return tarn_fail(TARN_EUNSUPPORTED, "cpu: permute \"%s\": the input is %s; only f32 is permuted",
				 kernel->name, dtype_name(kernel_input(kernel, 0)->dtype));
	struct axes axes = merged_axes(kernel);
	uint32_t last = axes.count - 1, inner = contiguous_axis(&axes);
	uint64_t plane = inner == last ? axes.length[last] : axes.length[last] * axes.length[inner];
	kernel_cut(kernel, permute_body, kernel_output(kernel, 0)->elements / plane, CPU_CHUNK_ELEMENTS / plane);
	return TARN_OK;
}
