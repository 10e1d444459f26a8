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

/* y[i * to + j] = x[i + j * from] for all i < rows, j < columns; at most TILE rows. */
#define TRANSPOSE_TILES(TYPE)                                                                                \
	static void transpose_##TYPE(const TYPE *x, TYPE *y, uint64_t rows, uint64_t columns, uint64_t from, \
				     uint64_t to)                                                            \
	{                                                                                                    \
		for (uint64_t j0 = 0; j0 < columns; j0 += TILE) {                                            \
			uint64_t j1 = columns - j0 < TILE ? columns : j0 + TILE;                             \
			for (uint64_t i = 0; i < rows; i++)                                                  \
				for (uint64_t j = j0; j < j1; j++)                                           \
					y[i * to + j] = x[i + j * from];                                     \
		}                                                                                            \
	}
TRANSPOSE_TILES(uint32_t)
TRANSPOSE_TILES(uint16_t)
#undef TRANSPOSE_TILES

/* Units of work: a line, or TILE rows of a plane, at each position along the other axes. */
struct work {
	uint32_t last, inner; /* the result's last axis, and the axis that is contiguous in x */
	uint64_t units_per_position, positions, unit_elements;
};

static struct work permute_work(const struct axes *axes)
{
	struct work work = { .last = axes->count - 1, .inner = contiguous_axis(axes), .positions = 1 };
	bool lines = work.inner == work.last;
	for (uint32_t i = 0; i < axes->count; i++)
		if (i != work.inner && i != work.last)
			work.positions *= axes->length[i];
	work.units_per_position = lines ? 1 : (axes->length[work.inner] + TILE - 1) / TILE;
	work.unit_elements = axes->length[work.last] * (lines ? 1 : TILE);
	return work;
}

/* First elements of x and y at a position along all axes but the line's or the plane's. */
static void seek(const struct axes *axes, const struct work *work, uint64_t position, uint64_t *x, uint64_t *y)
{
	*x = *y = 0;
	for (uint32_t i = axes->count; i-- > 0;) {
		if (i == work->inner || i == work->last)
			continue;
		*x += position % axes->length[i] * axes->from[i];
		*y += position % axes->length[i] * axes->to[i];
		position /= axes->length[i];
	}
}

static void permute_body(const struct bound_instr *instr, uint64_t chunk)
{
	struct axes axes = merged_axes(instr->kernel);
	struct work work = permute_work(&axes);
	struct range range = chunk_range(instr->kernel, chunk, work.positions * work.units_per_position);
	const uint64_t size = dtype_bytes(kernel_input(instr->kernel, 0)->dtype);
	for (uint64_t unit = range.begin; unit < range.end; unit++) {
		uint64_t from, to;
		seek(&axes, &work, unit / work.units_per_position, &from, &to);
		uint64_t first = unit % work.units_per_position * TILE;
		if (work.inner != work.last) {
			from += first;
			to += first * axes.to[work.inner];
		}
		const void *x = (const unsigned char *)instr->address[0] + from * size;
		void *y = (unsigned char *)instr_output(instr, 0) + to * size;
		uint64_t left = axes.length[work.inner] - first, rows = left < TILE ? left : TILE;
		uint64_t columns = axes.length[work.last];
		if (work.inner == work.last)
			memcpy(y, x, columns * size);
		else if (size == sizeof(uint32_t))
			transpose_uint32_t(x, y, rows, columns, axes.from[work.last], axes.to[work.inner]);
		else
			transpose_uint16_t(x, y, rows, columns, axes.from[work.last], axes.to[work.inner]);
	}
}

enum tarn_status permute_prepare(struct device *device, struct kernel *kernel)
{
	(void)device;
	struct axes axes = merged_axes(kernel);
	struct work work = permute_work(&axes);
	kernel_cut(kernel, permute_body, work.positions * work.units_per_position,
		   CPU_CHUNK_ELEMENTS / work.unit_elements);
	return TARN_OK;
}
