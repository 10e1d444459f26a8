/* shape_ops.c - ops that only move bytes: input, record, concat, slice, pad, fill, repetition of rows. */
#include "cpu/cpu.h"
#include "cpu/narrow.h"

#include <string.h>

/* Product of the dimensions before and behind an axis. */
static uint64_t outer_count(const struct operand *operand, uint32_t axis)
{
	uint64_t count = 1;
	for (uint32_t i = 0; i < axis; i++)
		count *= operand->dim[i];
	return count;
}

static uint64_t inner_bytes(const struct operand *operand, uint32_t axis)
{
	return operand->bytes / (outer_count(operand, axis) * operand->dim[axis]);
}

static void copy_body(const struct bound_instr *instr, uint64_t chunk)
{
	struct range range = chunk_range(instr->kernel, chunk, kernel_output(instr->kernel, 0)->bytes);
	memmove((unsigned char *)instr_output(instr, 0) + range.begin,
		(const unsigned char *)instr->address[instr->kernel->inputs - 1] + range.begin,
		range.end - range.begin);
}

static void concat_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	const struct operand *result = kernel_output(kernel, 0);
	uint32_t axis = kernel->attr.axis;
	uint64_t inner = inner_bytes(result, axis), line = result->dim[axis] * inner, before = 0;
	struct range outer = chunk_range(kernel, chunk, outer_count(result, axis));
	for (uint32_t i = 0; i < kernel->inputs; i++) {
		uint64_t bytes = kernel->operand[i].dim[axis] * inner;
		for (uint64_t o = outer.begin; o < outer.end; o++)
			memcpy((unsigned char *)instr_output(instr, 0) + o * line + before,
			       (const unsigned char *)instr->address[i] + o * bytes, bytes);
		before += bytes;
	}
}

static void slice_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	const struct operand *x = kernel_input(kernel, 0), *y = kernel_output(kernel, 0);
	uint32_t axis = kernel->attr.axis;
	uint64_t inner = inner_bytes(x, axis), from = x->dim[axis] * inner, to = y->dim[axis] * inner;
	struct range outer = chunk_range(kernel, chunk, outer_count(x, axis));
	for (uint64_t o = outer.begin; o < outer.end; o++)
		memcpy((unsigned char *)instr_output(instr, 0) + o * to,
		       (const unsigned char *)instr->address[0] + o * from + kernel->attr.begin * inner, to);
}

static void pad_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	const struct operand *x = kernel_input(kernel, 0), *y = kernel_output(kernel, 0);
	uint32_t axis = kernel->attr.axis;
	uint64_t inner = inner_bytes(x, axis), from = x->dim[axis] * inner, to = y->dim[axis] * inner;
	uint64_t before = kernel->attr.begin * inner;
	struct range outer = chunk_range(kernel, chunk, outer_count(x, axis));
	for (uint64_t o = outer.begin; o < outer.end; o++) {
		unsigned char *line = (unsigned char *)instr_output(instr, 0) + o * to;
		memset(line, 0, before);
		memcpy(line + before, (const unsigned char *)instr->address[0] + o * from, from);
		memset(line + before + from, 0, to - before - from);
	}
}

static void broadcast_body(const struct bound_instr *instr, uint64_t chunk)
{
	uint64_t period = kernel_input(instr->kernel, 0)->bytes;
	struct range range = chunk_range(instr->kernel, chunk, kernel_output(instr->kernel, 0)->bytes);
	for (uint64_t i = range.begin; i < range.end;) {
		uint64_t offset = i % period, n = period - offset < range.end - i ? period - offset : range.end - i;
		memcpy((unsigned char *)instr_output(instr, 0) + i, (const unsigned char *)instr->address[0] + offset,
		       n);
		i += n;
	}
}

CPU_CLONES static void fill_loop(float *y, uint64_t n, float value)
{
	for (uint64_t i = 0; i < n; i++)
		y[i] = value;
}

CPU_CLONES static void fill_narrow_loop(uint16_t *y, uint64_t n, uint16_t value)
{
	for (uint64_t i = 0; i < n; i++)
		y[i] = value;
}

static void fill_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct operand *y = kernel_output(instr->kernel, 0);
	struct range range = chunk_range(instr->kernel, chunk, y->elements);
	uint64_t n = range.end - range.begin;
	float value = instr->kernel->attr.alpha;
	uint16_t narrow;
	if (!operand_is_narrow(y)) {
		fill_loop((float *)instr_output(instr, 0) + range.begin, n, value);
		return;
	}
	narrow_store(y->dtype, &value, &narrow, 1);
	fill_narrow_loop((uint16_t *)instr_output(instr, 0) + range.begin, n, narrow);
}

enum tarn_status shape_ops_prepare(struct device *device, struct kernel *kernel)
{
	const struct operand *result = kernel_output(kernel, 0);
	uint64_t chunk_bytes = CPU_CHUNK_ELEMENTS * sizeof(float);
	(void)device;
	if (kernel->kind == OP_FILL) {
		kernel_cut(kernel, fill_body, result->elements, CPU_CHUNK_ELEMENTS);
	} else if (kernel->kind == OP_BROADCAST_ROWS) {
		kernel_cut(kernel, broadcast_body, result->bytes, chunk_bytes);
	} else if (kernel->kind == OP_INPUT || kernel->kind == OP_RECORD) {
		/* The last input is what is copied: the staging slot, or the value behind the metric. */
		if (kernel->operand[kernel->inputs - 1].bytes != result->bytes)
			return tarn_fail(TARN_EUNSUPPORTED, "cpu: %s \"%s\": %llu bytes cannot be copied to %llu bytes",
					 op_row(kernel->kind)->name, kernel->name,
					 (unsigned long long)kernel->operand[kernel->inputs - 1].bytes,
					 (unsigned long long)result->bytes);
		kernel_cut(kernel, copy_body, result->bytes, chunk_bytes);
	} else {
		uint64_t outer = outer_count(result, kernel->attr.axis);
		kernel_body *body = kernel->kind == OP_CONCAT  ? concat_body
				    : kernel->kind == OP_SLICE ? slice_body
							       : pad_body;
		kernel_cut(kernel, body, outer, chunk_bytes / (result->bytes / outer));
	}
	return TARN_OK;
}
