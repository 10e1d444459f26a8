/*
 * layer_norm.c - normalisation of each row, with and without its mean.
 *
 * With g = dy * gamma and xhat = (x - mean) * rstd:   dx = rstd * (g - avg(g) - xhat * avg(g * xhat))
 * Source: Ba et al. 2016, arXiv:1607.06450, differentiated. RMS norm (Zhang, Sennrich 2019, arXiv:1910.07467) is the
 * same with a mean of 0, which then does not depend on x: dx loses avg(g).
 */
#include "cpu/columns.h"
#include "cpu/lanes.h"

#include <math.h>

CPU_CLONES static double row_squares(const float *x, uint32_t n, float mean)
{
	struct lanes sum = { { 0 } };
	uint32_t whole = n - n % LANES;
	for (uint32_t i = 0; i < whole; i += LANES)
		for (uint32_t l = 0; l < LANES; l++) {
			float d = x[i + l] - mean;
			sum.lane[l] += d * d;
		}
	for (uint32_t i = whole; i < n; i++)
		sum.lane[i - whole] += (x[i] - mean) * (x[i] - mean);
	return lanes_total(&sum);
}

CPU_CLONES static void row_apply(const float *x, float *y, uint32_t n, float mean, float rstd, const float *gamma,
				 const float *beta)
{
	CPU_INDEPENDENT
	for (uint32_t i = 0; i < n; i++)
		y[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
}

CPU_CLONES static void row_scale(const float *x, float *y, uint32_t n, float rstd, const float *gamma)
{
	CPU_INDEPENDENT
	for (uint32_t i = 0; i < n; i++)
		y[i] = x[i] * rstd * gamma[i];
}

static void rms_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct operand *matrix = kernel_input(instr->kernel, 0);
	uint32_t n = matrix->channels;
	struct range rows = chunk_range(instr->kernel, chunk, matrix->rows);
	float *rstd = instr_output(instr, 1);
	for (uint64_t r = rows.begin; r < rows.end; r++) {
		const float *x = (const float *)instr->address[0] + r * n;
		float deviation = 1.0f / sqrtf((float)(row_squares(x, n, 0.0f) / n) + instr->kernel->attr.epsilon);
		row_scale(x, (float *)instr_output(instr, 0) + r * n, n, deviation, instr->address[1]);
		rstd[r] = deviation;
	}
}

static void forward_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct operand *matrix = kernel_input(instr->kernel, 0);
	uint32_t n = matrix->channels;
	struct range rows = chunk_range(instr->kernel, chunk, matrix->rows);
	float *mean = instr_output(instr, 1), *rstd = instr_output(instr, 2);
	for (uint64_t r = rows.begin; r < rows.end; r++) {
		const float *x = (const float *)instr->address[0] + r * n;
		float m = (float)(lanes_sum(x, n) / n);
		float variance = (float)(row_squares(x, n, m) / n);
		float deviation = 1.0f / sqrtf(variance + instr->kernel->attr.epsilon);
		row_apply(x, (float *)instr_output(instr, 0) + r * n, n, m, deviation, instr->address[1],
			  instr->address[2]);
		mean[r] = m;
		rstd[r] = deviation;
	}
}

/* Sums of g and g * xhat over a row. */
CPU_CLONES static void row_products(const float *dy, const float *x, const float *gamma, uint32_t n, float mean,
				    float rstd, double *sum, double *dot)
{
	struct lanes g_sum = { { 0 } }, g_dot = { { 0 } };
	uint32_t whole = n - n % LANES;
	for (uint32_t i = 0; i < whole; i += LANES)
		for (uint32_t l = 0; l < LANES; l++) {
			float g = dy[i + l] * gamma[i + l];
			g_sum.lane[l] += g;
			g_dot.lane[l] += g * ((x[i + l] - mean) * rstd);
		}
	for (uint32_t i = whole; i < n; i++) {
		float g = dy[i] * gamma[i];
		g_sum.lane[i - whole] += g;
		g_dot.lane[i - whole] += g * ((x[i] - mean) * rstd);
	}
	*sum = lanes_total(&g_sum);
	*dot = lanes_total(&g_dot);
}

CPU_CLONES static void row_grad(const float *dy, const float *x, const float *gamma, float *dx, uint32_t n, float mean,
				float rstd, float g_mean, float dot_mean)
{
	CPU_INDEPENDENT
	for (uint32_t i = 0; i < n; i++) {
		float xhat = (x[i] - mean) * rstd;
		dx[i] = rstd * (dy[i] * gamma[i] - g_mean - xhat * dot_mean);
	}
}

static void grad_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct operand *matrix = kernel_input(instr->kernel, 1);
	uint32_t n = matrix->channels, last = instr->kernel->inputs - 1;
	bool centred = instr->kernel->kind == OP_LAYER_NORM_GRAD;
	struct range rows = chunk_range(instr->kernel, chunk, matrix->rows);
	const float *means = instr->address[2], *rstd = instr->address[last - 1], *gamma = instr->address[last];
	for (uint64_t r = rows.begin; r < rows.end; r++) {
		const float *dy = (const float *)instr->address[0] + r * n;
		const float *x = (const float *)instr->address[1] + r * n;
		float mean = centred ? means[r] : 0.0f;
		double sum, dot;
		row_products(dy, x, gamma, n, mean, rstd[r], &sum, &dot);
		row_grad(dy, x, gamma, (float *)instr_output(instr, 0) + r * n, n, mean, rstd[r],
			 centred ? (float)(sum / n) : 0.0f, (float)(dot / n));
	}
}

/* Rows summed in float before the sum goes to double. */
#define RUN 16u

CPU_CLONES static void param_run(const float *dy, const float *x, uint64_t stride, uint32_t rows, uint32_t width,
				 const float *mean, const float *rstd, double *dgamma, double *dbeta)
{
	float sum[STRIP_FLOATS], dot[STRIP_FLOATS];
	for (uint32_t j = 0; j < width; j++)
		sum[j] = dot[j] = 0.0f;
	for (uint32_t r = 0; r < rows; r++)
		for (uint32_t j = 0; j < width; j++) {
			float g = dy[r * stride + j];
			sum[j] += g;
			dot[j] += g * ((x[r * stride + j] - mean[r]) * rstd[r]);
		}
	for (uint32_t j = 0; j < width; j++) {
		dgamma[j] += (double)dot[j];
		dbeta[j] += (double)sum[j];
	}
}

/* All rows of a chunk; the mean of row r stands at mean[r * mean_stride]. */
static void param_sums(const struct bound_instr *instr, const struct strips *strips, uint64_t rows, const float *mean,
		       uint64_t mean_stride, const float *rstd, double *dgamma, double *dbeta)
{
	const struct operand *matrix = kernel_input(instr->kernel, 0);
	for (uint64_t r = 0; r < rows; r += RUN) {
		uint32_t count = rows - r < RUN ? (uint32_t)(rows - r) : RUN;
		uint64_t at = strips->begin + r * matrix->channels;
		float block[2][RUN * STRIP_FLOATS];
		struct strip_view dy =
			strips_load(matrix, instr->address[0], at, matrix->channels, count, strips->channels, block[0]);
		struct strip_view x =
			strips_load(matrix, instr->address[1], at, matrix->channels, count, strips->channels, block[1]);
		param_run(dy.at, x.at, x.stride, count, strips->channels, mean + r * mean_stride, rstd + r, dgamma,
			  dbeta);
	}
}

/* mean and rstd belong to rows here, so a strip is one row. */
static void param_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct column_grid *grid = &instr->kernel->grid;
	struct strips strips = grid_strips(grid, chunk);
	uint64_t first_row = strips.row_chunk * grid->chunk_rows;
	uint64_t rows = grid->rows - first_row < grid->chunk_rows ? grid->rows - first_row : grid->chunk_rows;
	const float *mean = (const float *)instr->address[2] + first_row;
	const float *rstd = (const float *)instr->address[3] + first_row;
	double dgamma[STRIP_FLOATS] = { 0 }, dbeta[STRIP_FLOATS] = { 0 };
	param_sums(instr, &strips, rows, mean, 1, rstd, dgamma, dbeta);
	double *partial_gamma = column_partial(instr, &strips, 0), *partial_beta = column_partial(instr, &strips, 1);
	for (uint32_t c = 0; c < strips.channels; c++) {
		partial_gamma[c] = dgamma[c];
		partial_beta[c] = dbeta[c];
	}
}

/* Without a mean: dy, x, rstd. */
static void rms_param_body(const struct bound_instr *instr, uint64_t chunk)
{
	static const float zero[RUN];
	const struct column_grid *grid = &instr->kernel->grid;
	struct strips strips = grid_strips(grid, chunk);
	uint64_t first_row = strips.row_chunk * grid->chunk_rows;
	uint64_t rows = grid->rows - first_row < grid->chunk_rows ? grid->rows - first_row : grid->chunk_rows;
	const float *rstd = (const float *)instr->address[2] + first_row;
	double dgamma[STRIP_FLOATS] = { 0 }, unused[STRIP_FLOATS] = { 0 };
	param_sums(instr, &strips, rows, zero, 0, rstd, dgamma, unused);
	double *partial = column_partial(instr, &strips, 0);
	for (uint32_t c = 0; c < strips.channels; c++)
		partial[c] = dgamma[c];
}

static void rms_param_finish(const struct bound_instr *instr)
{
	float *dgamma = instr_output(instr, 0);
	for (uint32_t c = 0; c < instr->kernel->grid.channels; c++)
		dgamma[c] = (float)column_total(instr, 0, c);
}

static void param_finish(const struct bound_instr *instr)
{
	float *dgamma = instr_output(instr, 0), *dbeta = instr_output(instr, 1);
	for (uint32_t c = 0; c < instr->kernel->grid.channels; c++) {
		dgamma[c] = (float)column_total(instr, 0, c);
		dbeta[c] = (float)column_total(instr, 1, c);
	}
}

enum tarn_status layer_norm_prepare(struct device *device, struct kernel *kernel)
{
	bool forward = kernel->kind == OP_LAYER_NORM || kernel->kind == OP_RMS_NORM;
	const struct operand *matrix = kernel_input(kernel, forward ? 0 : 1);
	uint64_t rows = CPU_CHUNK_ELEMENTS / 4 / matrix->channels;
	(void)device;
	if (kernel->kind == OP_LAYER_NORM_GRAD_PARAM)
		columns_prepare(kernel, matrix, param_body, 2, param_finish);
	else if (kernel->kind == OP_RMS_NORM_GRAD_PARAM)
		columns_prepare(kernel, matrix, rms_param_body, 1, rms_param_finish);
	else if (kernel->kind == OP_RMS_NORM)
		kernel_cut(kernel, rms_body, matrix->rows, rows);
	else
		kernel_cut(kernel, forward ? forward_body : grad_body, matrix->rows, rows);
	return TARN_OK;
}
