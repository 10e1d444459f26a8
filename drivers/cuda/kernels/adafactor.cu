/*
 * adafactor.cu - Adafactor: second moments of a matrix as the product of a row and a column; graph/op.h has the
 * formulas.
 *
 * Six kernels: moments of the rows; sums of the columns; from them the columns' moments; squares of update and weights;
 * from them the step; the new weights. A vector has one column and does without the second and third.
 *
 * Source: Shazeer, Stern 2018, arXiv:1804.04235, algorithms 4 (matrices) and 5 (vectors), without first moment.
 */
#include "device.h"

#define SQUARE_FLOOR 1e-30f /* epsilon 1 of the paper */
#define WEIGHT_FLOOR 1e-3   /* epsilon 2 */
#define UPDATE_LIMIT 1.0    /* d */

/* beta2 of this step is 1 - (step + 1)^-0.8. */
DEVICE float mixed_moment(const adafactor_parameters &p, float old, double more)
{
	double rest = exp(-0.8 * log((double)p.scalars->step + 1.0));
	return (float)((1.0 - rest) * (double)old + rest * more);
}

DEVICE float floored_square(float gradient)
{
	return gradient * gradient + SQUARE_FLOOR;
}

DEVICE float row_factor(const adafactor_parameters &p, uint64_t row)
{
	return (float)(1.0 / sqrt((double)p.row[row]));
}

DEVICE float update_at(const adafactor_parameters &p, uint64_t at, uint32_t column, float clip, float factor)
{
	float update = clip * p.g[at] * factor;
	return p.column ? update * p.column_factor[column] : update;
}

/* A team has a row. */
KERNEL tarn_adafactor_rows(PARAMETER(adafactor_parameters) p)
{
	__shared__ double scratch[KERNEL_WARPS];
	uint64_t row = (uint64_t)blockIdx.x * blockDim.y + threadIdx.y;
	const float *g = p.g + row * p.columns.channels;
	float clip = clip_scale(p);
	double sum = row_sum(row < p.columns.rows ? p.columns.channels : 0, scratch,
			     [&](uint32_t i) { return floored_square(clip * g[i]); });
	if (row < p.columns.rows && threadIdx.x == 0)
		p.row[row] = mixed_moment(p, p.old_row[row], sum / (double)p.columns.channels);
}

KERNEL tarn_adafactor_columns(PARAMETER(adafactor_parameters) p)
{
	__shared__ double scratch[KERNEL_THREADS];
	column_walk walk = walk_of(p.columns);
	float clip = clip_scale(p);
	double sum =
		strided_sum<uint64_t>(walk.first, walk.exists ? walk.end : walk.first, blockDim.y, [&](uint64_t row) {
			return floored_square(clip * p.g[row * p.columns.channels + walk.channel]);
		});
	store_column_partial(p.columns, p.partial, 0, sum, scratch);
}

/* A thread has a column; every block adds up the rows. */
KERNEL tarn_adafactor_finish_columns(PARAMETER(adafactor_parameters) p)
{
	__shared__ double scratch[KERNEL_WARPS];
	uint32_t column = blockIdx.x * KERNEL_THREADS + threadIdx.x;
	double mean = 0.0, sum = 0.0;
	for (uint64_t row = threadIdx.x; row < p.columns.rows; row += KERNEL_THREADS)
		mean += (double)p.row[row];
	mean = team_sum(mean, scratch, KERNEL_THREADS) / (double)p.columns.rows;
	if (column >= p.columns.channels)
		return;
	for (uint32_t k = 0; k < p.columns.row_chunks; k++)
		sum += p.partial[(uint64_t)k * p.columns.channels + column];
	float moment = mixed_moment(p, p.old_column[column], sum / (double)p.columns.rows);
	p.column[column] = moment;
	p.column_factor[column] = (float)sqrt(mean / (double)moment);
}

/* A block has block_rows rows, blockDim.y of them at a time. */
KERNEL tarn_adafactor_squares(PARAMETER(adafactor_parameters) p)
{
	__shared__ double scratch[KERNEL_WARPS];
	double updates = 0.0, weights = 0.0;
	float clip = clip_scale(p);
	for (uint32_t round = threadIdx.y; round < p.block_rows; round += blockDim.y) {
		uint64_t row = (uint64_t)blockIdx.x * p.block_rows + round, at = row * p.columns.channels;
		if (row >= p.columns.rows)
			break;
		float factor = row_factor(p, row);
		updates += strided_sum(threadIdx.x, p.columns.channels, blockDim.x, [&](uint32_t i) {
			float update = update_at(p, at + i, i, clip, factor);
			return update * update;
		});
		weights += strided_sum(threadIdx.x, p.columns.channels, blockDim.x,
				       [&](uint32_t i) { return p.w[at + i] * p.w[at + i]; });
	}
	updates = team_sum(updates, scratch, KERNEL_THREADS);
	weights = team_sum(weights, scratch, KERNEL_THREADS);
	if (threadIdx.x == 0 && threadIdx.y == 0) {
		p.squares[2 * blockIdx.x] = updates;
		p.squares[2 * blockIdx.x + 1] = weights;
	}
}

/* One block. */
KERNEL tarn_adafactor_step(PARAMETER(adafactor_parameters) p)
{
	__shared__ double scratch[KERNEL_WARPS];
	double updates = 0.0, weights = 0.0, elements = (double)p.columns.rows * (double)p.columns.channels;
	for (uint32_t i = threadIdx.x; i < p.blocks; i += KERNEL_THREADS) {
		updates += p.squares[2 * i];
		weights += p.squares[2 * i + 1];
	}
	updates = team_sum(updates, scratch, KERNEL_THREADS);
	weights = team_sum(weights, scratch, KERNEL_THREADS);
	if (threadIdx.x)
		return;
	float rate = learning_rate(p);
	double size = sqrt(weights / elements), length = sqrt(updates / elements) / UPDATE_LIMIT;
	p.step[0] = (float)((double)rate * fmax(WEIGHT_FLOOR, size) / fmax(1.0, length));
	p.step[1] = 1.0f - rate * p.weight_decay;
}

/* A thread has a weight. */
KERNEL tarn_adafactor_apply(PARAMETER(adafactor_parameters) p)
{
	uint64_t i = element_index();
	if (i >= p.columns.rows * p.columns.channels)
		return;
	quotient place = divide(i, p.columns.channels);
	float update = update_at(p, i, (uint32_t)place.rest, clip_scale(p), row_factor(p, place.value));
	p.new_w[i] = p.w[i] * p.step[1] - p.step[0] * update;
}
