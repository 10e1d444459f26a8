/* launch_move.c - ops that only move data: input, record, concat, slice, pad, permute. */
#include "cuda/launch.h"

_Static_assert(OP_MAX_RANK <= PARAMETER_MAX_RANK, "a kernel's parameter has room for every axis");

#define COPY_BYTES 16u

/* The last input is what is copied: the staging slot, or the value behind the metric. */
enum tarn_status launch_copy(struct launch_call *call)
{
	uint32_t source = call->op->inputs - 1;
	struct copy_parameters p = { .from = launch_address(call, source), .to = launch_output_address(call, 0) };
	p.bytes = launch_output(call, 0)->bytes;
	if (launch_tensor(call, source)->bytes != p.bytes)
		return launch_fail(call, "%llu bytes cannot be copied to %llu bytes",
				   (unsigned long long)launch_tensor(call, source)->bytes, (unsigned long long)p.bytes);
	return LAUNCH_ADD(call, "tarn_copy", launch_blocks(p.bytes, COPY_BYTES), launch_flat_block(), p);
}

static enum tarn_status add_lines(struct launch_call *call, const struct lines_parameters *p, uint32_t sources)
{
	uint64_t longest = 0;
	for (uint32_t i = 0; i < sources; i++)
		if (p->source[i].length > longest)
			longest = p->source[i].length;
	struct extent3 grid = launch_blocks(p->lines * longest, KERNEL_LOOKUPS);
	grid.y = sources;
	return LAUNCH_ADD(call, "tarn_lines_f32", grid, launch_flat_block(), *p);
}

enum tarn_status launch_concat(struct launch_call *call)
{
	const struct tensor *result = launch_output(call, 0);
	uint32_t axis = call->op->attr.axis, inputs = call->op->inputs;
	uint64_t inner = launch_product(result, axis + 1, result->rank), to = 0;
	for (uint32_t first = 0; first < inputs; first += LINES_SOURCES) {
		struct lines_parameters p = { .y = launch_output_address(call, 0) };
		uint32_t sources = inputs - first < LINES_SOURCES ? inputs - first : LINES_SOURCES;
		p.lines = launch_product(result, 0, axis);
		p.stride = result->dim[axis] * inner;
		for (uint32_t i = 0; i < sources; i++) {
			uint64_t length = launch_tensor(call, first + i)->dim[axis] * inner;
			p.source[i] = (struct line_source){ launch_address(call, first + i), length, length, to };
			to += length;
		}
		enum tarn_status st = add_lines(call, &p, sources);
		if (st)
			return st;
	}
	return TARN_OK;
}

enum tarn_status launch_slice(struct launch_call *call)
{
	const struct tensor *x = launch_tensor(call, 0);
	const struct op_attr *attr = &call->op->attr;
	uint64_t inner = launch_product(x, attr->axis + 1, x->rank);
	struct lines_parameters p = { .y = launch_output_address(call, 0) };
	p.lines = launch_product(x, 0, attr->axis);
	p.stride = attr->extent[0] * inner;
	p.begin = attr->begin * inner;
	p.source[0].from = launch_address(call, 0);
	p.source[0].length = p.stride;
	p.source[0].stride = x->dim[attr->axis] * inner;
	return add_lines(call, &p, 1);
}

enum tarn_status launch_pad(struct launch_call *call)
{
	const struct tensor *x = launch_tensor(call, 0), *y = launch_output(call, 0);
	uint32_t axis = call->op->attr.axis;
	uint64_t inner = launch_product(x, axis + 1, x->rank);
	struct pad_parameters p = { .x = launch_address(call, 0), .y = launch_output_address(call, 0) };
	p.elements = tensor_elements(y);
	p.begin = call->op->attr.begin * inner;
	p.length = x->dim[axis] * inner;
	p.total = y->dim[axis] * inner;
	return LAUNCH_ADD(call, "tarn_pad_f32", launch_blocks(p.elements, KERNEL_LOOKUPS), launch_flat_block(), p);
}

/* Neighbouring axes of y that are neighbours in x too are one axis; axes of length 1 are none. */
static void merge_axes(const struct tensor *x, const uint32_t *source, struct permute_parameters *p)
{
	uint32_t previous = UINT32_MAX; /* the axis of x, longer than 1, behind which a mergeable one stands */
	for (uint32_t i = 0; i < x->rank; i++) {
		uint32_t axis = source[i], length = x->dim[axis];
		if (length == 1)
			continue;
		uint32_t before = axis; /* the nearest axis in front that is longer than 1 */
		while (before > 0 && x->dim[before - 1] == 1)
			before--;
		if (p->rank && before > 0 && before - 1 == previous) {
			p->length[p->rank - 1] *= length;
		} else {
			p->length[p->rank++] = length;
		}
		p->from[p->rank - 1] = launch_product(x, axis + 1, x->rank);
		previous = axis;
	}
	if (!p->rank) {
		p->rank = 1;
		p->length[0] = p->from[0] = 1;
	}
	uint64_t step = 1;
	for (uint32_t i = p->rank; i-- > 0; step *= p->length[i])
		p->to[i] = step;
}

enum tarn_status launch_permute(struct launch_call *call)
{
	const struct tensor *x = launch_tensor(call, 0);
	struct permute_parameters p = { .x = launch_address(call, 0), .y = launch_output_address(call, 0) };
	p.elements = tensor_elements(x);
	merge_axes(x, call->op->attr.extent, &p);
	uint32_t last = p.rank - 1;
	p.inner = last;
	for (uint32_t i = 0; i < p.rank; i++)
		if (p.from[i] == 1)
			p.inner = i;
	if (p.inner == last)
		return LAUNCH_ADD(call, "tarn_permute_gather_f32", launch_blocks(p.elements, KERNEL_LOOKUPS),
				  launch_flat_block(), p);
	uint64_t inner_tiles = launch_divide(p.length[p.inner], TRANSPOSE_TILE);
	uint64_t last_tiles = launch_divide(p.length[last], TRANSPOSE_TILE);
	uint64_t planes = p.elements / (p.length[p.inner] * p.length[last]);
	p.inner_tiles = (uint32_t)inner_tiles;
	p.last_tiles = (uint32_t)last_tiles;
	return LAUNCH_ADD(call, "tarn_permute_transpose_f32",
			  ((struct extent3){ planes * inner_tiles * last_tiles, 1, 1 }),
			  ((struct extent3){ TRANSPOSE_TILE, TRANSPOSE_ROWS, 1 }), p);
}
