/*
 * adafactor.c - Adafactor: second moments of a matrix as the product of a row and a column. op.h has the formulas.
 *
 * Source: Shazeer, Stern 2018, arXiv:1804.04235, algorithms 4 (matrices) and 5 (vectors), without first moment.
 * A vector is a matrix of one column whose row factors are the moments themselves. Rows are cut into a few ranges, a
 * function of the shape; their sums are double and added in their order.
 */
#include "cpu/cpu.h"

#include <math.h>

#define RANGES 16u
#define SQUARE_FLOOR 1e-30 /* epsilon 1 of the paper */
#define WEIGHT_FLOOR 1e-3  /* epsilon 2 */
#define UPDATE_LIMIT 1.0   /* d */
#define DECAY_POWER -0.8

struct factored {
	const float *w, *g;
	float *w_out, *row, *column; /* column NULL: a vector */
	uint64_t rows, columns;
	uint32_t ranges;
	double *column_sum; /* for each range, a sum for each column */
	double *squares;    /* for each range: of the update, of the weights */
	float *column_factor;
	float scale;
	double decay, rest; /* beta2 of this step, and 1 - beta2 */
};

static uint32_t range_count(uint64_t rows)
{
	return rows < RANGES ? (uint32_t)rows : RANGES;
}

static struct factored factored_of(const struct bound_instr *instr)
{
	const struct kernel *kernel = instr->kernel;
	const struct operand *w = kernel_input(kernel, 0);
	const bool matrix = kernel->kind == OP_ADAFACTOR;
	const uint32_t gradient = matrix ? 3 : 2;
	const struct step_scalars *scalars = instr->address[gradient + 1];
	struct factored f = { .w = instr->address[0],
			      .g = instr->address[gradient],
			      .w_out = instr_output(instr, 0),
			      .row = instr_output(instr, 1),
			      .column = matrix ? instr_output(instr, 2) : NULL,
			      .rows = matrix ? w->dim[0] : w->elements };
	f.columns = w->elements / f.rows;
	f.ranges = range_count(f.rows);
	f.squares = instr->workspace;
	f.column_sum = f.squares + 2 * RANGES;
	f.column_factor = (float *)(void *)(f.column_sum + (matrix ? f.ranges * f.columns : 0));
	f.scale = kernel->inputs > gradient + 2 ? *(const float *)instr->address[gradient + 2] : 1.0f;
	f.decay = 1.0 - pow((double)scalars->step + 1.0, DECAY_POWER);
	f.rest = 1.0 - f.decay;
	return f;
}

static double mix(const struct factored *f, float old, double new)
{
	return f->decay * (double)old + f->rest * new;
}

/* New row moments of a range, and its part of the column sums. */
static void sum_range(const struct factored *f, uint32_t range)
{
	uint64_t begin = f->rows * range / f->ranges, end = f->rows * (range + 1) / f->ranges;
	double *sum = f->column ? f->column_sum + range * f->columns : NULL;
	for (uint64_t j = 0; sum && j < f->columns; j++)
		sum[j] = 0.0;
	for (uint64_t r = begin; r < end; r++) {
		const float *g = f->g + r * f->columns;
		double total = 0.0;
		for (uint64_t j = 0; j < f->columns; j++) {
			double scaled = (double)(f->scale * g[j]), square = scaled * scaled + SQUARE_FLOOR;
			total += square;
			if (sum)
				sum[j] += square;
		}
		f->row[r] = (float)mix(f, f->row[r], total / (double)f->columns);
	}
}

/* New column moments; what each column divides an update by. */
static void finish_columns(const struct factored *f)
{
	double mean = 0.0;
	for (uint64_t r = 0; r < f->rows; r++)
		mean += (double)f->row[r];
	mean /= (double)f->rows;
	for (uint64_t j = 0; j < f->columns; j++) {
		double total = 0.0;
		for (uint32_t k = 0; k < f->ranges; k++)
			total += f->column_sum[k * f->columns + j];
		f->column[j] = (float)mix(f, f->column[j], total / (double)f->rows);
		f->column_factor[j] = (float)sqrt(mean / (double)f->column[j]);
	}
}

/* Of element j of row r. */
static float update_at(const struct factored *f, uint64_t r, uint64_t j, float row_factor)
{
	float update = f->scale * f->g[r * f->columns + j] * row_factor;
	return f->column ? update * f->column_factor[j] : update;
}

static float row_factor(const struct factored *f, uint64_t r)
{
	return (float)(1.0 / sqrt((double)f->row[r]));
}

static void square_range(const struct factored *f, uint32_t range)
{
	uint64_t begin = f->rows * range / f->ranges, end = f->rows * (range + 1) / f->ranges;
	double updates = 0.0, weights = 0.0;
	for (uint64_t r = begin; r < end; r++) {
		float factor = row_factor(f, r);
		for (uint64_t j = 0; j < f->columns; j++) {
			double u = (double)update_at(f, r, j, factor), w = (double)f->w[r * f->columns + j];
			updates += u * u;
			weights += w * w;
		}
	}
	f->squares[2 * range] = updates;
	f->squares[2 * range + 1] = weights;
}

static void apply_range(const struct factored *f, uint32_t range, float shrink, float step)
{
	uint64_t begin = f->rows * range / f->ranges, end = f->rows * (range + 1) / f->ranges;
	for (uint64_t r = begin; r < end; r++) {
		float factor = row_factor(f, r);
		for (uint64_t j = 0; j < f->columns; j++) {
			uint64_t i = r * f->columns + j;
			f->w_out[i] = f->w[i] * shrink - step * update_at(f, r, j, factor);
		}
	}
}

static enum tarn_status run(struct cpu_state *state, const struct bound_instr *instr)
{
	const struct factored f = factored_of(instr);
	const struct op_attr *attr = &instr->kernel->attr;
	const struct step_scalars *scalars = instr->address[f.column ? 4 : 3];
	const float rate = scalars->learning_rate * attr->rate_scale;
	const double elements = (double)(f.rows * f.columns);
	double updates = 0.0, weights = 0.0;
#pragma omp parallel for schedule(static) num_threads(state->threads)
	for (uint32_t k = 0; k < f.ranges; k++)
		sum_range(&f, k);
	if (f.column)
		finish_columns(&f);
#pragma omp parallel for schedule(static) num_threads(state->threads)
	for (uint32_t k = 0; k < f.ranges; k++)
		square_range(&f, k);
	for (uint32_t k = 0; k < f.ranges; k++) {
		updates += f.squares[2 * k];
		weights += f.squares[2 * k + 1];
	}
	const double size = sqrt(weights / elements), length = sqrt(updates / elements) / UPDATE_LIMIT;
	const float step = (float)((double)rate * fmax(WEIGHT_FLOOR, size) / fmax(1.0, length));
	const float shrink = 1.0f - rate * attr->weight_decay;
#pragma omp parallel for schedule(static) num_threads(state->threads)
	for (uint32_t k = 0; k < f.ranges; k++)
		apply_range(&f, k, shrink, step);
	return TARN_OK;
}

enum tarn_status adafactor_prepare(struct device *device, struct kernel *kernel)
{
	const struct operand *w = kernel_input(kernel, 0);
	const bool matrix = kernel->kind == OP_ADAFACTOR;
	const uint64_t columns = matrix ? w->elements / w->dim[0] : 0;
	(void)device;
	kernel->run = run;
	kernel->info.workspace_bytes =
		(2 * RANGES + range_count(w->dim[0]) * columns) * sizeof(double) + columns * sizeof(float);
	return TARN_OK;
}
