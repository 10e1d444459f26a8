/*
 * block_product.h - products of matrices that fit the cache, for kernels that work block by block.
 *
 * C (m x n) = A B, or C += A B. A element (i, l) stands at a[i * a_row + l * a_column], so that it may be transposed; B
 * and C have rows of b_row and c_row floats, of which n, a multiple of BLOCK_LANES, are computed. Every element is
 * summed over l in order, whatever the instruction set. The tile of 4 rows and 64 columns fills the 32 registers of
 * AVX-512.
 */
#ifndef TARN_CPU_BLOCK_PRODUCT_H
#define TARN_CPU_BLOCK_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#define BLOCK_LANES 16u

/* 16 floats at any address. */
typedef float block_lanes __attribute__((vector_size(64), aligned(4), may_alias));

struct block_matrix {
	const float *at;
	uint64_t row, column; /* distances in floats */
};

#define BLOCK_TILE(ROWS, VECTORS)                                                                                   \
	static inline __attribute__((always_inline)) void block_tile_##ROWS##_##VECTORS(                            \
		const float *a, uint64_t a_row, uint64_t a_column, const float *b, uint64_t b_row, float *c,        \
		uint64_t c_row, uint32_t k, bool add)                                                               \
	{                                                                                                           \
		block_lanes sum[ROWS][VECTORS];                                                                     \
		for (uint32_t i = 0; i < ROWS; i++)                                                                 \
			for (uint32_t v = 0; v < VECTORS; v++)                                                      \
				sum[i][v] = add ? *(const block_lanes *)(c + i * c_row + v * BLOCK_LANES)           \
						: (block_lanes){ 0 };                                               \
		for (uint32_t l = 0; l < k; l++) {                                                                  \
			const float *line = b + l * b_row, *factor = a + l * a_column;                              \
			for (uint32_t i = 0; i < ROWS; i++)                                                         \
				for (uint32_t v = 0; v < VECTORS; v++)                                              \
					sum[i][v] +=                                                                \
						*(const block_lanes *)(line + v * BLOCK_LANES) * factor[i * a_row]; \
		}                                                                                                   \
		for (uint32_t i = 0; i < ROWS; i++)                                                                 \
			for (uint32_t v = 0; v < VECTORS; v++)                                                      \
				*(block_lanes *)(c + i * c_row + v * BLOCK_LANES) = sum[i][v];                      \
	}
BLOCK_TILE(4, 4)
BLOCK_TILE(4, 2)
BLOCK_TILE(4, 1)
BLOCK_TILE(1, 4)
BLOCK_TILE(1, 1)
#undef BLOCK_TILE

static inline __attribute__((always_inline)) void block_product(struct block_matrix a, const float *b, uint64_t b_row,
								float *c, uint64_t c_row, uint32_t m, uint32_t n,
								uint32_t k, bool add)
{
	uint32_t i = 0;
	for (; i + 4 <= m; i += 4) {
		const float *rows = a.at + i * a.row;
		float *out = c + i * c_row;
		uint32_t j = 0;
		for (; j + 64 <= n; j += 64)
			block_tile_4_4(rows, a.row, a.column, b + j, b_row, out + j, c_row, k, add);
		for (; j + 32 <= n; j += 32)
			block_tile_4_2(rows, a.row, a.column, b + j, b_row, out + j, c_row, k, add);
		for (; j < n; j += BLOCK_LANES)
			block_tile_4_1(rows, a.row, a.column, b + j, b_row, out + j, c_row, k, add);
	}
	for (; i < m; i++) {
		uint32_t j = 0;
		for (; j + 64 <= n; j += 64)
			block_tile_1_4(a.at + i * a.row, a.row, a.column, b + j, b_row, c + i * c_row + j, c_row, k,
				       add);
		for (; j < n; j += BLOCK_LANES)
			block_tile_1_1(a.at + i * a.row, a.row, a.column, b + j, b_row, c + i * c_row + j, c_row, k,
				       add);
	}
}

#endif
