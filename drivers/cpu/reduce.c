/*
 * reduce.c - sums: over the rows of a matrix, of squares; and what is made from the norm of all gradients.
 *
 * Source of the loss scale: Micikevicius et al. 2018, arXiv:1710.03740, section 3.2.
 */
#include "cpu/columns.h"
#include "cpu/lanes.h"

#include <math.h>

/* Strips summed in float before the sum goes to double. */
#define RUN 32u

CPU_CLONES static void sum_run(const float *x, uint64_t stride, uint32_t count, uint32_t width, double *sum)
{
	float run[STRIP_FLOATS];
	for (uint32_t j = 0; j < width; j++)
		run[j] = 0.0f;
	for (uint32_t s = 0; s < count; s++)
		for (uint32_t j = 0; j < width; j++)
			run[j] += x[s * stride + j];
	for (uint32_t j = 0; j < width; j++)
		sum[j] += (double)run[j];
}

static void sum_rows_body(const struct bound_instr *instr, uint64_t chunk)
{
	struct strips strips = grid_strips(&instr->kernel->grid, chunk);
	double sum[STRIP_FLOATS] = { 0 };
	for (uint64_t s = 0, count; s < strips_total(&strips); s += count) {
		uint32_t width = strip_width(&strips, s);
		float block[RUN * STRIP_FLOATS];
		count = strips_run(&strips, s, RUN);
		struct strip_view x = strips_load(kernel_input(instr->kernel, 0), instr->address[0],
						  strips.begin + s * strips.stride, strips.stride, count, width, block);
		sum_run(x.at, x.stride, (uint32_t)count, width, sum);
	}
	strip_fold(&strips, sum, column_partial(instr, &strips, 0));
}

static void sum_rows_finish(const struct bound_instr *instr)
{
	float *sum = instr_output(instr, 0);
	for (uint32_t c = 0; c < instr->kernel->grid.channels; c++)
		sum[c] = (float)column_total(instr, 0, c);
}

CPU_CLONES static double squares_run(const float *x, uint64_t n)
{
	struct lanes sum = { { 0 } };
	uint64_t whole = n - n % LANES;
	for (uint64_t i = 0; i < whole; i += LANES)
		for (uint32_t l = 0; l < LANES; l++)
			sum.lane[l] += x[i + l] * x[i + l];
	for (uint64_t i = whole; i < n; i++)
		sum.lane[i - whole] += x[i] * x[i];
	return lanes_total(&sum);
}

static void squares_body(const struct bound_instr *instr, uint64_t chunk)
{
	struct range range = chunk_range(instr->kernel, chunk, kernel_input(instr->kernel, 0)->elements);
	const uint32_t dtype = kernel_input(instr->kernel, 0)->dtype;
	double total = 0.0;
	for (uint64_t i = range.begin; i < range.end; i += LANES * LANE_RUN) {
		uint64_t left = range.end - i;
		uint32_t n = left < LANES * LANE_RUN ? (uint32_t)left : LANES * LANE_RUN;
		float block[LANES * LANE_RUN];
		total += squares_run(narrow_view(dtype, instr->address[0], i, n, block), n);
	}
	((double *)instr->workspace)[chunk] = total;
}

static void squares_finish(const struct bound_instr *instr)
{
	const double *partial = instr->workspace;
	double total = 0.0;
	for (uint64_t k = 0; k < instr->kernel->chunks; k++)
		total += partial[k];
	*(float *)instr_output(instr, 0) = (float)total;
}

static double input_total(const struct bound_instr *instr, uint32_t first)
{
	double total = 0.0;
	for (uint32_t i = first; i < instr->kernel->inputs; i++)
		total += (double)*(const float *)instr->address[i];
	return total;
}

/* A norm that is not a number must not pass for a small one: the comparison is written so that NaN stays. */
static double clip_scale(const struct kernel *kernel, double norm)
{
	double scale = (double)kernel->attr.alpha / (norm + 1e-6);
	return scale >= 1.0 ? 1.0 : scale;
}

static void clip_finish(const struct bound_instr *instr)
{
	double norm = sqrt(input_total(instr, 0));
	*(float *)instr_output(instr, 0) = isinf(norm) ? NAN : (float)clip_scale(instr->kernel, norm);
	*(float *)instr_output(instr, 1) = (float)norm;
}

static void unscale_finish(const struct bound_instr *instr)
{
	const double scale = (double)*(const float *)instr->address[0], total = input_total(instr, 1);
	const double norm = sqrt(total) / scale;
	double clip = instr->kernel->attr.alpha > 0.0f ? clip_scale(instr->kernel, norm) : 1.0;
	*(float *)instr_output(instr, 0) = isfinite(total) ? (float)(clip / scale) : 0.0f;
	*(float *)instr_output(instr, 1) = (float)norm;
}

static void loss_scale_finish(const struct bound_instr *instr)
{
	float scale = *(const float *)instr->address[0], good = *(const float *)instr->address[1];
	float skipped = *(const float *)instr->address[2];
	if (*(const float *)instr->address[3] == 0.0f) {
		scale *= 0.5f;
		good = 0.0f;
		skipped += 1.0f;
	} else if (++good >= (float)instr->kernel->attr.samples) {
		scale *= 2.0f;
		good = 0.0f;
	}
	scale = scale < LOSS_SCALE_LEAST ? LOSS_SCALE_LEAST : scale;
	*(float *)instr_output(instr, 0) = scale > LOSS_SCALE_MOST ? LOSS_SCALE_MOST : scale;
	*(float *)instr_output(instr, 1) = good;
	*(float *)instr_output(instr, 2) = skipped;
}

enum tarn_status reduce_prepare(struct device *device, struct kernel *kernel)
{
	(void)device;
	if (kernel->kind == OP_SUM_ROWS) {
		columns_prepare(kernel, kernel_input(kernel, 0), sum_rows_body, 1, sum_rows_finish);
	} else if (kernel->kind == OP_SUM_SQUARES) {
		uint64_t elements = kernel_input(kernel, 0)->elements;
		uint64_t least = (elements + CPU_REDUCTION_CHUNKS - 1) / CPU_REDUCTION_CHUNKS;
		kernel_cut(kernel, squares_body, elements, least > CPU_CHUNK_ELEMENTS ? least : CPU_CHUNK_ELEMENTS);
		kernel->finish = squares_finish;
		kernel->info.workspace_bytes = kernel->chunks * sizeof(double);
	} else {
		kernel->finish = kernel->kind == OP_CLIP_SCALE ? clip_finish
				 : kernel->kind == OP_UNSCALE  ? unscale_finish
							       : loss_scale_finish;
	}
	return TARN_OK;
}
