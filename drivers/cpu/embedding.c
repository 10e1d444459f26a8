/*
 * embedding.c - rows of a table by their numbers, the gradient of the table, and rotary positions.
 *
 * The gradient is cut by columns: a chunk goes through all rows in their order, so that a row of the table that is used
 * often is always summed in the same order.
 */
#include "cpu/cpu.h"

#include <math.h>
#include <string.h>

/* Columns of a chunk of the gradient: a few cache lines of every row. */
#define COLUMNS 32u

static void embedding_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct operand *table = kernel_input(instr->kernel, 0);
	const int32_t *id = instr->address[1];
	uint32_t width = table->channels;
	struct range rows = chunk_range(instr->kernel, chunk, kernel_input(instr->kernel, 1)->elements);
	for (uint64_t r = rows.begin; r < rows.end; r++) {
		float *y = (float *)instr_output(instr, 0) + r * width;
		if ((uint32_t)id[r] < table->dim[0])
			memcpy(y, (const float *)instr->address[0] + (uint64_t)id[r] * width, width * sizeof *y);
		else
			for (uint32_t c = 0; c < width; c++)
				y[c] = NAN;
	}
}

CPU_CLONES static void add_row(const float *from, float *to, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		to[i] += from[i];
}

static void embedding_grad_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct operand *table = kernel_output(instr->kernel, 0);
	const float *dy = instr->address[0];
	const int32_t *id = instr->address[1];
	float *sum = instr_output(instr, 0);
	uint64_t rows = kernel_input(instr->kernel, 1)->elements, width = table->channels;
	struct range columns = chunk_range(instr->kernel, chunk, width);
	uint32_t n = (uint32_t)(columns.end - columns.begin);
	for (uint64_t v = 0; v < table->dim[0]; v++)
		memset(sum + v * width + columns.begin, 0, n * sizeof *sum);
	for (uint64_t r = 0; r < rows; r++)
		if ((uint32_t)id[r] < table->dim[0])
			add_row(dy + r * width + columns.begin, sum + (uint64_t)id[r] * width + columns.begin, n);
}

/* ---- rotary positions ---- */

CPU_CLONES static void rotate(const float *x, float *y, uint32_t half, const float *cosine, const float *sine)
{
	CPU_INDEPENDENT
	for (uint32_t i = 0; i < half; i++) {
		float a = x[i], b = x[i + half];
		y[i] = a * cosine[i] - b * sine[i];
		y[i + half] = b * cosine[i] + a * sine[i];
	}
}

/* One position: its angles (in the workspace of the chunk), then all samples and heads. */
static void rotary_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	const struct operand *x = kernel_input(kernel, 0);
	uint64_t batch = x->dim[0], positions = x->dim[1], heads = x->dim[2];
	uint32_t width = x->dim[3], half = width / 2;
	float *cosine = (float *)instr->workspace + chunk * width, *sine = cosine + half;
	struct range range = chunk_range(kernel, chunk, positions);
	for (uint64_t t = range.begin; t < range.end; t++) {
		for (uint32_t i = 0; i < half; i++) {
			double angle = (double)t * pow((double)kernel->attr.alpha, -2.0 * i / width);
			cosine[i] = (float)cos(angle);
			sine[i] = (float)(kernel->attr.transpose_a ? -sin(angle) : sin(angle));
		}
		for (uint64_t b = 0; b < batch; b++)
			for (uint64_t h = 0; h < heads; h++) {
				uint64_t at = ((b * positions + t) * heads + h) * width;
				rotate((const float *)instr->address[0] + at, (float *)instr_output(instr, 0) + at,
				       half, cosine, sine);
			}
	}
}

enum tarn_status embedding_prepare(struct device *device, struct kernel *kernel)
{
	(void)device;
	if (kernel->kind == OP_EMBEDDING) {
		kernel_cut(kernel, embedding_body, kernel_input(kernel, 1)->elements,
			   CPU_CHUNK_ELEMENTS / kernel_input(kernel, 0)->channels);
	} else if (kernel->kind == OP_EMBEDDING_GRAD) {
		kernel_cut(kernel, embedding_grad_body, kernel_output(kernel, 0)->channels, COLUMNS);
	} else {
		const struct operand *x = kernel_input(kernel, 0);
		uint64_t least = (x->dim[1] + CPU_REDUCTION_CHUNKS - 1) / CPU_REDUCTION_CHUNKS;
		kernel_cut(kernel, rotary_body, x->dim[1], least);
		kernel->info.workspace_bytes = kernel->chunks * x->dim[3] * sizeof(float);
	}
	return TARN_OK;
}
