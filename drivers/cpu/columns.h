/*
 * columns.h - loops over a (rows, channels) matrix, and sums over its rows.
 *
 * Images have few channels (16 is common), too few for one row to fill the vector registers. So several rows are taken
 * as one strip of up to STRIP_FLOATS contiguous floats, and what belongs to a channel (mean, scale, a running sum) is
 * repeated along the strip. A matrix with more channels is cut into blocks of STRIP_FLOATS columns, a strip being one
 * row of a block.
 */
#ifndef TARN_CPU_COLUMNS_H
#define TARN_CPU_COLUMNS_H

#include "cpu/cpu.h"
#include "cpu/narrow.h"

#define STRIP_FLOATS 512u

/* The part of the matrix that belongs to one chunk. Strip s starts at element begin + s * stride. */
struct strips {
	uint64_t begin, stride, count; /* count: full strips; a shorter one follows when tail > 0 */
	uint32_t width, tail;
	uint32_t first_channel, channels; /* of this block */
	uint64_t row_chunk;
};

/* A cut for element-wise work (reduction false) or for sums (at most CPU_REDUCTION_CHUNKS row chunks). */
static inline struct column_grid column_grid(uint64_t rows, uint32_t channels, bool reduction)
{
	struct column_grid grid = { .rows = rows, .channels = channels };
	grid.block = channels < STRIP_FLOATS ? channels : STRIP_FLOATS;
	grid.blocks = (channels + grid.block - 1) / grid.block;
	uint64_t strip_rows = STRIP_FLOATS / grid.block;
	uint64_t wanted = CPU_CHUNK_ELEMENTS / grid.block;
	if (reduction && wanted < (rows + CPU_REDUCTION_CHUNKS - 1) / CPU_REDUCTION_CHUNKS)
		wanted = (rows + CPU_REDUCTION_CHUNKS - 1) / CPU_REDUCTION_CHUNKS;
	grid.chunk_rows = (wanted + strip_rows - 1) / strip_rows * strip_rows;
	grid.row_chunks = (rows + grid.chunk_rows - 1) / grid.chunk_rows;
	return grid;
}

static inline uint64_t grid_chunks(const struct column_grid *grid)
{
	return grid->row_chunks * grid->blocks;
}

static inline struct strips grid_strips(const struct column_grid *grid, uint64_t chunk)
{
	struct strips strips = { .row_chunk = chunk / grid->blocks };
	uint64_t first_row = strips.row_chunk * grid->chunk_rows;
	uint64_t rows = grid->rows - first_row < grid->chunk_rows ? grid->rows - first_row : grid->chunk_rows;
	strips.first_channel = (uint32_t)(chunk % grid->blocks) * grid->block;
	uint32_t left = grid->channels - strips.first_channel;
	strips.channels = left < grid->block ? left : grid->block;
	strips.begin = first_row * grid->channels + strips.first_channel;
	uint32_t strip_rows = grid->blocks == 1 ? STRIP_FLOATS / grid->block : 1;
	strips.width = strip_rows * strips.channels;
	strips.stride = (uint64_t)strip_rows * grid->channels;
	strips.count = rows / strip_rows;
	strips.tail = (uint32_t)(rows % strip_rows) * strips.channels;
	return strips;
}

/* All strips in turn, the tail included. */
static inline uint64_t strips_total(const struct strips *strips)
{
	return strips->count + (strips->tail > 0);
}

static inline uint32_t strip_width(const struct strips *strips, uint64_t strip)
{
	return strip < strips->count ? strips->width : strips->tail;
}

/* Full strips from number `s` on, at most so many; the shorter one at the end comes alone. */
static inline uint32_t strips_run(const struct strips *strips, uint64_t s, uint32_t most)
{
	if (s >= strips->count)
		return 1;
	return strips->count - s < most ? (uint32_t)(strips->count - s) : most;
}

/* `count` strips of floats that begin `stride` apart. */
struct strip_view {
	const float *at;
	uint64_t stride;
};

/* Strips of a matrix from element `at` on: where they lie, or converted into `block` (count * width floats). */
static inline struct strip_view strips_load(const struct operand *matrix, const void *address, uint64_t at,
					    uint64_t stride, uint64_t count, uint32_t width, float *block)
{
	if (!operand_is_narrow(matrix))
		return (struct strip_view){ (const float *)address + at, stride };
	const uint16_t *from = (const uint16_t *)address + at;
	if (stride == width)
		narrow_load(matrix->dtype, from, block, count * width);
	else
		for (uint64_t s = 0; s < count; s++)
			narrow_load(matrix->dtype, from + s * stride, block + s * width, width);
	return (struct strip_view){ block, width };
}

/* Repeats the channels' values of this block (already offset to its first channel) along a strip. */
static inline void strip_spread(const struct strips *strips, const float *channel, float *wide)
{
	uint32_t width = strips->count ? strips->width : strips->tail;
	for (uint32_t j = 0; j < width; j += strips->channels)
		for (uint32_t c = 0; c < strips->channels; c++)
			wide[j + c] = channel[c];
}

/* Adds up what was summed along a strip, channel by channel, in order. */
static inline void strip_fold(const struct strips *strips, const double *wide, double *channel)
{
	uint32_t width = strips->count ? strips->width : strips->tail;
	for (uint32_t c = 0; c < strips->channels; c++)
		channel[c] = 0.0;
	for (uint32_t j = 0; j < width; j += strips->channels)
		for (uint32_t c = 0; c < strips->channels; c++)
			channel[c] += wide[j + c];
}

/*
 * Partial sums in the workspace: `sums` kinds, each row_chunks x channels doubles. column_partial gives the place of a
 * chunk's block; column_total adds one channel's partial sums in the order of the chunks.
 */
static inline uint64_t partial_bytes(const struct column_grid *grid, uint32_t sums)
{
	return bytes_align(grid->row_chunks * grid->channels * sums * sizeof(double));
}

static inline double *column_partial(const struct bound_instr *instr, const struct strips *strips, uint32_t sum)
{
	const struct column_grid *grid = &instr->kernel->grid;
	return (double *)instr->workspace + (sum * grid->row_chunks + strips->row_chunk) * grid->channels +
	       strips->first_channel;
}

static inline double column_total(const struct bound_instr *instr, uint32_t sum, uint32_t channel)
{
	const struct column_grid *grid = &instr->kernel->grid;
	const double *partial = (const double *)instr->workspace + sum * grid->row_chunks * grid->channels + channel;
	double total = 0.0;
	for (uint64_t k = 0; k < grid->row_chunks; k++)
		total += partial[k * grid->channels];
	return total;
}

/* Prepares a kernel whose body works on the strips of a chunk; `sums` > 0: with that many sums over the rows. */
static inline void columns_prepare(struct kernel *kernel, const struct operand *matrix, kernel_body *body,
				   uint32_t sums, kernel_finish *finish)
{
	kernel->grid = column_grid(matrix->rows, matrix->channels, sums > 0);
	kernel->body = body;
	kernel->finish = finish;
	kernel->chunks = grid_chunks(&kernel->grid);
	if (sums)
		kernel->info.workspace_bytes = partial_bytes(&kernel->grid, sums);
}

#endif
