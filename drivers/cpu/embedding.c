/*
 * embedding.c - rows of a table by their numbers, the gradient of the table, and rotary positions.
 *
 * The gradient is cut by columns: a chunk goes through all rows in their order, so that a row of the table that is used
 * often is always summed in the same order.
 */
#include "cpu/cpu.h"
#include "cpu/narrow.h"

#include <math.h>
#include <omp.h>
#include <string.h>

/* Columns of a chunk of the gradient: a few cache lines of every row. */
#define COLUMNS 32u

/* Numbers converted at once. */
#define BLOCK 512u

/* `n` numbers from one type to another. */
static void copy_numbers(uint32_t from_type, const void *from, uint32_t to_type, void *to, uint32_t n)
{
	float block[BLOCK];
	for (uint32_t i = 0; i < n; i += BLOCK) {
		uint32_t count = n - i < BLOCK ? n - i : BLOCK;
		narrow_store(to_type, narrow_view(from_type, from, i, count, block),
			     (unsigned char *)to + i * dtype_bytes(to_type), count);
	}
}

static void embedding_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct operand *table = kernel_input(instr->kernel, 0), *result = kernel_output(instr->kernel, 0);
	const int32_t *id = instr->address[1];
	const float unknown = NAN;
	const uint64_t width = table->channels, from = width * dtype_bytes(table->dtype),
		       to = width * dtype_bytes(result->dtype);
	struct range rows = chunk_range(instr->kernel, chunk, kernel_input(instr->kernel, 1)->elements);
	for (uint64_t r = rows.begin; r < rows.end; r++) {
		unsigned char *y = (unsigned char *)instr_output(instr, 0) + r * to;
		if ((uint32_t)id[r] < table->dim[0])
			copy_numbers(table->dtype, (const unsigned char *)instr->address[0] + (uint64_t)id[r] * from,
				     result->dtype, y, table->channels);
		else
			for (uint64_t c = 0; c < width; c++)
				narrow_store(result->dtype, &unknown, y + c * dtype_bytes(result->dtype), 1);
	}
}

CPU_CLONES static void add_row(const float *from, float *to, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		to[i] += from[i];
}

/* Sums of these columns of the table's gradient; row v of them begins at sum + v * stride. */
static void sum_columns(const struct bound_instr *instr, struct range columns, float *sum, uint64_t stride)
{
	const struct operand *table = kernel_output(instr->kernel, 0), *dy = kernel_input(instr->kernel, 0);
	const int32_t *id = instr->address[1];
	uint64_t rows = kernel_input(instr->kernel, 1)->elements;
	uint32_t n = (uint32_t)(columns.end - columns.begin);
	float block[COLUMNS];
	for (uint64_t v = 0; v < table->dim[0]; v++)
		memset(sum + v * stride, 0, n * sizeof *sum);
	for (uint64_t r = 0; r < rows; r++)
		if ((uint32_t)id[r] < table->dim[0])
			add_row(narrow_view(dy->dtype, instr->address[0], r * table->channels + columns.begin, n,
					    block),
				sum + (uint64_t)id[r] * stride, n);
}

/* Summed in the result, or in the workspace where the result has 16 bits. */
static void embedding_grad_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct operand *table = kernel_output(instr->kernel, 0);
	struct range columns = chunk_range(instr->kernel, chunk, table->channels);
	if (!operand_is_narrow(table)) {
		sum_columns(instr, columns, (float *)instr_output(instr, 0) + columns.begin, table->channels);
		return;
	}
	float *sum =
		(float *)instr->workspace + (uint64_t)omp_get_thread_num() * instr->kernel->place_bytes / sizeof(float);
	sum_columns(instr, columns, sum, COLUMNS);
	for (uint64_t v = 0; v < table->dim[0]; v++)
		narrow_put(table->dtype, sum + v * COLUMNS, instr_output(instr, 0), v * table->channels + columns.begin,
			   columns.end - columns.begin);
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

/* One position: its angles (in the workspace of the chunk, before a row of floats), then all samples and heads. */
static void rotary_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	const struct operand *x = kernel_input(kernel, 0);
	uint64_t batch = x->dim[0], positions = x->dim[1], heads = x->dim[2];
	uint32_t width = x->dim[3], half = width / 2;
	float *cosine = (float *)instr->workspace + chunk * 2 * width, *sine = cosine + half, *row = cosine + width;
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
				rotate(narrow_view(x->dtype, instr->address[0], at, width, row),
				       narrow_target(x->dtype, instr_output(instr, 0), at, row), half, cosine, sine);
				narrow_put(x->dtype, row, instr_output(instr, 0), at, width);
			}
	}
}

enum tarn_status embedding_prepare(struct device *device, struct kernel *kernel)
{
	const struct cpu_state *state = device->state;
	if (kernel->kind == OP_EMBEDDING) {
		kernel_cut(kernel, embedding_body, kernel_input(kernel, 1)->elements,
			   CPU_CHUNK_ELEMENTS / kernel_input(kernel, 0)->channels);
	} else if (kernel->kind == OP_EMBEDDING_GRAD) {
		const struct operand *table = kernel_output(kernel, 0);
		kernel_cut(kernel, embedding_grad_body, table->channels, COLUMNS);
		if (operand_is_narrow(table))
			kernel->place_bytes = (uint64_t)table->dim[0] * COLUMNS * sizeof(float);
		kernel->info.workspace_bytes = state->threads * kernel->place_bytes;
	} else {
		const struct operand *x = kernel_input(kernel, 0);
		uint64_t least = (x->dim[1] + CPU_REDUCTION_CHUNKS - 1) / CPU_REDUCTION_CHUNKS;
		kernel_cut(kernel, rotary_body, x->dim[1], least);
		kernel->info.workspace_bytes = kernel->chunks * 2 * x->dim[3] * sizeof(float);
	}
	return TARN_OK;
}
