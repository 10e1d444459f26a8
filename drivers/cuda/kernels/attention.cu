/*
 * attention.cu - softmax(scale * q k^T) v without the matrix of scores, and its gradients.
 *
 * A block owns a tile of queries (of keys, in the gradients of k and v) and walks over the tiles of the other side in
 * order. Scores exist as one tile in shared memory. Forward: a running maximum and sum of every row; a larger maximum
 * scales what was summed before. Backward, with P = exp(scale * q k^T - lse) made again and delta = sum(do * o):
 *     dv = P^T do,  dS = scale * P * (do v^T - delta),  dq = dS k,  dk = dS^T q
 * Each gradient has a kernel of its own, whose sums stay in shared memory: nothing is added to by two blocks.
 *
 * Sources: Milakov, Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135; groups of heads: Ainslie et
 * al. 2023, arXiv:2305.13245.
 */
#include "device.h"

#define TILE ATTENTION_TILE
#define HALF (ATTENTION_TILE / 2)
#define TEAM (KERNEL_THREADS / ATTENTION_TILE) /* threads of a row of a tile */
static_assert(HALF * HALF == KERNEL_THREADS && 2 * PRODUCT_DEPTH == TILE, "a thread has 2 x 2 elements of a tile");

/* Sums of the tile's rows: TILE x width floats. */
extern __shared__ float attention_sums[];

struct attention_tiles {
	float weight[TILE][TILE + 1];
	float factor[TILE][TILE + 1];
	float keep[TILE];
};

/* Rows of one head, from the tile's first on. */
template <typename T> struct head_rows {
	const T *first;
	uint64_t stride;
	uint32_t count;
};

template <typename T>
DEVICE head_rows<T> rows_at(const void *tensor, uint64_t sample, uint32_t rows, uint32_t heads, uint32_t head,
			    uint32_t width, uint32_t first)
{
	head_rows<T> result;
	result.stride = (uint64_t)heads * width;
	result.first = (const T *)tensor + (sample * rows + first) * result.stride + (uint64_t)head * width;
	result.count = rows - first < TILE ? rows - first : TILE;
	return result;
}

template <typename T> DEVICE float row_element(const head_rows<T> &rows, uint32_t row, uint32_t d, uint32_t width)
{
	return row < rows.count && d < width ? load(rows.first, row * rows.stride + d) : 0.0f;
}

/* Rows and columns of a tile that belong to this thread: [0] and [1] of each. */
struct tile_place {
	uint32_t row, column;
};

DEVICE tile_place place_of_thread(void)
{
	return { threadIdx.x / HALF, threadIdx.x % HALF };
}

struct four {
	float v[2][2];
};

/* a b^T of two tiles, this thread's elements; all threads are past earlier uses of the tiles when it returns. */
template <typename T>
DEVICE four row_products(const head_rows<T> &a, const head_rows<T> &b, uint32_t width, attention_tiles &tiles)
{
	tile_place at = place_of_thread();
	float(*a_tile)[TILE + 1] = tiles.factor, (*b_tile)[TILE + 1] = tiles.factor + PRODUCT_DEPTH;
	four total = {};
	for (uint32_t depth = 0; depth < width; depth += PRODUCT_DEPTH) {
		__syncthreads();
#pragma unroll
		for (uint32_t e = threadIdx.x; e < PRODUCT_DEPTH * TILE; e += KERNEL_THREADS) {
			uint32_t l = e % PRODUCT_DEPTH, row = e / PRODUCT_DEPTH;
			a_tile[l][row] = row_element(a, row, depth + l, width);
			b_tile[l][row] = row_element(b, row, depth + l, width);
		}
		__syncthreads();
		four sum = {};
#pragma unroll
		for (uint32_t l = 0; l < PRODUCT_DEPTH; l++)
#pragma unroll
			for (uint32_t i = 0; i < 4; i++)
				sum.v[i / 2][i % 2] = fmaf(a_tile[l][at.row + i / 2 * HALF],
							   b_tile[l][at.column + i % 2 * HALF], sum.v[i / 2][i % 2]);
#pragma unroll
		for (uint32_t i = 0; i < 4; i++)
			total.v[i / 2][i % 2] += sum.v[i / 2][i % 2];
	}
	return total;
}

/*
 * sums[r][d] = keep[r] * sums[r][d] + sum over l of weight[r][l] * rows[l][d]; with `transposed` weight[l][r]. first:
 * there are no sums yet. Every thread has its own sums.
 */
template <typename T>
DEVICE void add_weighted(const head_rows<T> &rows, uint32_t width, bool transposed, bool first, bool keeps,
			 attention_tiles &tiles)
{
	tile_place at = place_of_thread();
	for (uint32_t d0 = 0; d0 < width; d0 += TILE) {
		__syncthreads();
#pragma unroll
		for (uint32_t e = threadIdx.x; e < TILE * TILE; e += KERNEL_THREADS)
			tiles.factor[e / TILE][e % TILE] = row_element(rows, e / TILE, d0 + e % TILE, width);
		__syncthreads();
		four sum = {};
#pragma unroll 8
		for (uint32_t l = 0; l < TILE; l++)
#pragma unroll
			for (uint32_t i = 0; i < 4; i++) {
				uint32_t r = at.row + i / 2 * HALF;
				float weight = transposed ? tiles.weight[l][r] : tiles.weight[r][l];
				sum.v[i / 2][i % 2] =
					fmaf(weight, tiles.factor[l][at.column + i % 2 * HALF], sum.v[i / 2][i % 2]);
			}
#pragma unroll
		for (uint32_t i = 0; i < 4; i++) {
			uint32_t r = at.row + i / 2 * HALF, d = d0 + at.column + i % 2 * HALF;
			float *total = &attention_sums[r * width + d];
			if (d < width)
				*total = (first ? 0.0f : keeps ? *total * tiles.keep[r] : *total) + sum.v[i / 2][i % 2];
		}
	}
}

/* The sums, times keep[r] where that is wanted, to rows of a tensor. */
template <typename T>
DEVICE void store_sums(const head_rows<T> &rows, uint32_t width, bool keeps, attention_tiles &tiles)
{
	__syncthreads();
	for (uint32_t e = threadIdx.x; e < rows.count * width; e += KERNEL_THREADS) {
		uint32_t r = e / width, d = e % width;
		float value = attention_sums[e];
		store((T *)rows.first, r * rows.stride + d, keeps ? value * tiles.keep[r] : value);
	}
}

/* Keys that query i sees: the first so many. */
DEVICE uint32_t seen_keys(const attention_parameters &p, uint32_t i)
{
	uint64_t end = (uint64_t)i + (p.keys - p.queries) + 1;
	return p.causal && end < p.keys ? (uint32_t)end : p.keys;
}

/* The tile, head and sample of this block, out of `tiles` tiles of `heads` heads. */
struct block_place {
	uint64_t sample;
	uint32_t head, first;
};

DEVICE block_place place_of_block(uint32_t rows, uint32_t heads)
{
	uint32_t tiles = (rows + TILE - 1) / TILE, others = blockIdx.x / tiles;
	return { others / heads, others % heads, blockIdx.x % tiles * TILE };
}

/* Turns the scores in tiles.weight into exp(score - maximum) of the keys that are seen, with the running sums. */
DEVICE void soften_row(uint32_t seen, bool first, float *maximum, float *sum, attention_tiles &tiles)
{
	uint32_t row = threadIdx.x / TEAM, lane = threadIdx.x % TEAM;
	float largest = first ? -INFINITY : *maximum, before = *maximum, total = 0.0f;
	for (uint32_t j = lane; j < TILE && j < seen; j += TEAM)
		largest = tiles.weight[row][j] > largest ? tiles.weight[row][j] : largest;
	largest = team_reduce(largest, (float *)nullptr, TEAM, [](float a, float b) { return b > a ? b : a; });
	for (uint32_t j = lane; j < TILE; j += TEAM) {
		float value = j < seen ? expf(tiles.weight[row][j] - largest) : 0.0f;
		tiles.weight[row][j] = value;
		total += value;
	}
	total = team_reduce(total, (float *)nullptr, TEAM, [](float a, float b) { return a + b; });
	float keep = first ? 0.0f : expf(before - largest);
	*sum = *sum * keep + total;
	*maximum = largest;
	if (lane == 0)
		tiles.keep[row] = keep;
}

template <typename T> DEVICE void attention_body(const attention_parameters &p)
{
	__shared__ attention_tiles tiles;
	block_place block = place_of_block(p.queries, p.heads);
	tile_place at = place_of_thread();
	uint32_t group = block.head / (p.heads / p.groups), row = threadIdx.x / TEAM;
	head_rows<T> q = rows_at<T>(p.q, block.sample, p.queries, p.heads, block.head, p.width, block.first);
	uint32_t end = seen_keys(p, block.first + q.count - 1), seen = seen_keys(p, block.first + row);
	float maximum = -INFINITY, sum = 0.0f;
	for (uint32_t j0 = 0; j0 < end; j0 += TILE) {
		head_rows<T> k = rows_at<T>(p.k, block.sample, p.keys, p.groups, group, p.width, j0);
		head_rows<T> v = rows_at<T>(p.v, block.sample, p.keys, p.groups, group, p.width, j0);
		four score = row_products(q, k, p.width, tiles);
#pragma unroll
		for (uint32_t i = 0; i < 4; i++)
			tiles.weight[at.row + i / 2 * HALF][at.column + i % 2 * HALF] = p.scale * score.v[i / 2][i % 2];
		__syncthreads();
		soften_row(seen > j0 ? seen - j0 : 0, j0 == 0, &maximum, &sum, tiles);
		add_weighted(v, p.width, false, j0 == 0, true, tiles);
	}
	__syncthreads();
	if (threadIdx.x % TEAM == 0) {
		tiles.keep[row] = 1.0f / sum;
		if (row < q.count)
			p.new_lse[(block.sample * p.heads + block.head) * p.queries + block.first + row] =
				maximum + logf(sum);
	}
	store_sums(rows_at<T>(p.out, block.sample, p.queries, p.heads, block.head, p.width, block.first), p.width, true,
		   tiles);
}
INSTANTIATE(attention, attention_parameters)

/* ---- gradients ---- */

/* Which weights a tile of the backward pass becomes. */
enum backward_weight { WEIGHT_P, WEIGHT_DS };

/* P or dS of the queries from i0 on and the keys from j0 on of a head, into tiles.weight[query][key]. */
template <typename T, backward_weight WEIGHT>
DEVICE void backward_tile(const attention_parameters &p, uint64_t sample, uint32_t head, uint32_t i0, uint32_t j0,
			  attention_tiles &tiles)
{
	tile_place at = place_of_thread();
	uint32_t group = head / (p.heads / p.groups);
	head_rows<T> q = rows_at<T>(p.q, sample, p.queries, p.heads, head, p.width, i0);
	head_rows<T> k = rows_at<T>(p.k, sample, p.keys, p.groups, group, p.width, j0);
	four value = row_products(q, k, p.width, tiles), slope = {};
	if (WEIGHT == WEIGHT_DS) {
		head_rows<T> dout = rows_at<T>(p.dout, sample, p.queries, p.heads, head, p.width, i0);
		head_rows<T> v = rows_at<T>(p.v, sample, p.keys, p.groups, group, p.width, j0);
		slope = row_products(dout, v, p.width, tiles);
	}
#pragma unroll
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t row = at.row + i / 2 * HALF, column = at.column + i % 2 * HALF, query = i0 + row;
		float weight = 0.0f;
		if (row < q.count && j0 + column < seen_keys(p, query)) {
			weight = expf(p.scale * value.v[i / 2][i % 2] -
				      p.lse[(sample * p.heads + head) * p.queries + query]);
			if (WEIGHT == WEIGHT_DS)
				weight = p.scale * weight *
					 (slope.v[i / 2][i % 2] -
					  p.delta[(sample * p.queries + query) * p.heads + head]);
		}
		tiles.weight[row][column] = weight;
	}
}

template <typename T> DEVICE void attention_grad_query_body(const attention_parameters &p)
{
	__shared__ attention_tiles tiles;
	block_place block = place_of_block(p.queries, p.heads);
	uint32_t group = block.head / (p.heads / p.groups);
	head_rows<T> dq = rows_at<T>(p.out, block.sample, p.queries, p.heads, block.head, p.width, block.first);
	uint32_t end = seen_keys(p, block.first + dq.count - 1);
	for (uint32_t j0 = 0; j0 < end; j0 += TILE) {
		backward_tile<T, WEIGHT_DS>(p, block.sample, block.head, block.first, j0, tiles);
		add_weighted(rows_at<T>(p.k, block.sample, p.keys, p.groups, group, p.width, j0), p.width, false,
			     j0 == 0, false, tiles);
	}
	store_sums(dq, p.width, false, tiles);
}
INSTANTIATE(attention_grad_query, attention_parameters)

/* Of k with dS and q, of v with P and do: over the queries of all heads that share the block's keys. */
template <typename T, backward_weight WEIGHT>
DEVICE void attention_grad_keys(const attention_parameters &p, const void *factor, attention_tiles &tiles)
{
	block_place block = place_of_block(p.keys, p.groups);
	uint32_t shared = p.heads / p.groups;
	bool first = true;
	for (uint32_t head = block.head * shared; head < (block.head + 1) * shared; head++)
		for (uint32_t i0 = 0; i0 < p.queries; i0 += TILE) {
			head_rows<T> rows = rows_at<T>(factor, block.sample, p.queries, p.heads, head, p.width, i0);
			if (seen_keys(p, i0 + rows.count - 1) <= block.first)
				continue;
			backward_tile<T, WEIGHT>(p, block.sample, head, i0, block.first, tiles);
			add_weighted(rows, p.width, true, first, false, tiles);
			first = false;
		}
	store_sums(rows_at<T>(p.out, block.sample, p.keys, p.groups, block.head, p.width, block.first), p.width, false,
		   tiles);
}

template <typename T> DEVICE void attention_grad_key_body(const attention_parameters &p)
{
	__shared__ attention_tiles tiles;
	attention_grad_keys<T, WEIGHT_DS>(p, p.q, tiles);
}
INSTANTIATE(attention_grad_key, attention_parameters)

template <typename T> DEVICE void attention_grad_value_body(const attention_parameters &p)
{
	__shared__ attention_tiles tiles;
	attention_grad_keys<T, WEIGHT_P>(p, p.dout, tiles);
}
INSTANTIATE(attention_grad_value, attention_parameters)
