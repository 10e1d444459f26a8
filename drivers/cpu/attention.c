/*
 * attention.c - softmax(scale * q k^T) v without the matrix of scores, and its gradient.
 *
 * Forward: blocks of keys one after the other, each against all blocks of queries, with a running maximum m and sum l
 * of every row: when a block brings a larger maximum, what was summed is scaled by exp(m - m').  Milakov, Gimelshein
 * 2018, arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135. Backward, with P = exp(scale * q k^T - lse) computed again
 * block by block and delta = sum(do * o) of each row: dv = P^T do,  dS = scale * P * (do v^T - delta),  dq = dS k,  dk
 * = dS^T q. A chunk is one head (forward) or the heads of one group (backward), since they share dk and dv.
 */
#include "cpu/cpu.h"
#include "cpu/block_product.h"
#include "cpu/exponential.h"
#include "cpu/lanes.h"
#include "cpu/narrow.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#define BLOCK 64u /* queries, and keys, of a block */
#define HEAD_MAX 256u

/* Where one head lies, and what all heads share. */
struct shape {
	uint32_t queries, keys, heads, groups, width, padded; /* width: D; padded: to whole lanes */
	bool causal;
	float scale;
};

static struct shape shape_of(const struct kernel *kernel, uint32_t q)
{
	const struct operand *query = kernel_input(kernel, q), *key = kernel_input(kernel, q + 1);
	uint32_t width = query->dim[3];
	float scale = kernel->attr.alpha > 0.0f ? kernel->attr.alpha : (float)(1.0 / sqrt((double)width));
	return (struct shape){ query->dim[1],
			       key->dim[1],
			       query->dim[2],
			       key->dim[2],
			       width,
			       (width + BLOCK_LANES - 1) / BLOCK_LANES * BLOCK_LANES,
			       kernel->attr.causal != 0,
			       scale };
}

/* Row 0 of a head in a tensor of (B, rows, heads, D). */
static uint64_t head_offset(uint64_t batch, uint64_t rows, uint64_t heads, uint64_t head, uint64_t width)
{
	return (batch * rows * heads + head) * width;
}

static uint32_t block_rows(uint32_t first, uint32_t total)
{
	return total - first < BLOCK ? total - first : BLOCK;
}

/* Columns of row i that count: all, or those up to its own place. */
static uint32_t visible(const struct shape *shape, uint32_t query, uint32_t first_key, uint32_t keys)
{
	uint64_t end = (uint64_t)query + (shape->keys - shape->queries) + 1;
	if (!shape->causal || end >= (uint64_t)first_key + keys)
		return keys;
	return end > first_key ? (uint32_t)(end - first_key) : 0;
}

/* Rows of a head, `stride` floats apart. */
struct rows {
	const float *at;
	uint64_t stride;
};

/* `count` rows of an operand from element `at` on: where they lie, or converted into `block`, one after the other. */
static struct rows load_rows(const struct operand *operand, const void *address, uint64_t at, uint64_t stride,
			     uint32_t count, float *block)
{
	const uint32_t width = operand->channels;
	if (!operand_is_narrow(operand))
		return (struct rows){ (const float *)address + at, stride };
	for (uint32_t r = 0; r < count; r++)
		narrow_load(operand->dtype, (const uint16_t *)address + at + r * stride, block + (uint64_t)r * width,
			    width);
	return (struct rows){ block, width };
}

static void store_rows(const struct operand *operand, void *address, uint64_t at, uint64_t stride, uint32_t count,
		       const float *rows, uint64_t row_stride)
{
	for (uint32_t r = 0; r < count; r++)
		narrow_store(operand->dtype, rows + r * row_stride,
			     (unsigned char *)address + (at + r * stride) * dtype_bytes(operand->dtype),
			     operand->channels);
}

/* A thread's floats in the workspace, for whole heads that are stored in 16 bits. */
static float *thread_place(const struct bound_instr *instr)
{
	return (float *)(void *)((unsigned char *)instr->workspace + instr->kernel->place_offset +
				 (uint64_t)omp_get_thread_num() * instr->kernel->place_bytes);
}

/* Rows of a head one after the other, filled up with zeros to whole lanes. */
static void pack_rows(const float *from, uint64_t stride, uint32_t rows, const struct shape *shape, float *to)
{
	for (uint32_t r = 0; r < rows; r++) {
		memcpy(to + r * shape->padded, from + r * stride, shape->width * sizeof *to);
		memset(to + r * shape->padded + shape->width, 0, (shape->padded - shape->width) * sizeof *to);
	}
}

/* (D, BLOCK): columns that have no row are 0. */
static void pack_transposed(const float *from, uint64_t stride, uint32_t rows, const struct shape *shape, float *to)
{
	for (uint32_t d = 0; d < shape->width; d++) {
		for (uint32_t r = 0; r < rows; r++)
			to[d * BLOCK + r] = from[r * stride + d];
		for (uint32_t r = rows; r < BLOCK; r++)
			to[d * BLOCK + r] = 0.0f;
	}
}

CPU_CLONES static void scores(const float *q, uint64_t stride, const float *keys_transposed, float *s, uint32_t rows,
			      uint32_t width)
{
	block_product((struct block_matrix){ q, stride, 1 }, keys_transposed, BLOCK, s, BLOCK, rows, BLOCK, width,
		      false);
}

CPU_CLONES static void product(struct block_matrix a, const float *b, float *c, uint32_t m, uint32_t n, uint32_t k,
			       bool add)
{
	block_product(a, b, n, c, n, m, n, k, add);
}

/* s = exp(scale * s - subtract) for the first `count` of BLOCK columns, 0 for the others. */
CPU_CLONES static void exponentials(float *s, uint32_t count, float scale, float subtract)
{
	for (uint32_t j = 0; j < BLOCK; j++) {
		float p = exponential(scale * s[j] - subtract);
		s[j] = j < count ? p : 0.0f;
	}
}

CPU_CLONES static float row_maximum(const float *s, uint32_t count, float scale, float largest)
{
	for (uint32_t j = 0; j < count; j++)
		largest = scale * s[j] > largest ? scale * s[j] : largest;
	return largest;
}

CPU_CLONES static float row_total(const float *s)
{
	float lane[BLOCK_LANES] = { 0 }, total = 0.0f;
	for (uint32_t j = 0; j < BLOCK; j += BLOCK_LANES)
		for (uint32_t l = 0; l < BLOCK_LANES; l++)
			lane[l] += s[j + l];
	for (uint32_t l = 0; l < BLOCK_LANES; l++)
		total += lane[l];
	return total;
}

/* to = keep * from, then zeros. */
CPU_CLONES static void keep_row(const float *from, float *to, uint32_t width, uint32_t padded, float keep)
{
	for (uint32_t d = 0; d < width; d++)
		to[d] = from[d] * keep;
	for (uint32_t d = width; d < padded; d++)
		to[d] = 0.0f;
}

/* ---- forward ---- */

struct forward {
	struct shape shape;
	struct rows q;
	float *o, *maximum, *sum; /* of this head; maximum and sum: one a query */
	uint64_t stride;          /* of o */
};

/* One block of queries against one block of keys. */
static void forward_block(const struct forward *head, const float *keys_transposed, const float *values, uint32_t i0,
			  uint32_t j0)
{
	const struct shape *shape = &head->shape;
	uint32_t rows = block_rows(i0, shape->queries), keys = block_rows(j0, shape->keys);
	float s[BLOCK * BLOCK], out[BLOCK * HEAD_MAX];
	scores(head->q.at + i0 * head->q.stride, head->q.stride, keys_transposed, s, rows, shape->width);
	for (uint32_t r = 0; r < rows; r++) {
		uint32_t count = visible(shape, i0 + r, j0, keys);
		float before = j0 ? head->maximum[i0 + r] : -INFINITY;
		float largest = row_maximum(s + r * BLOCK, count, shape->scale, before);
		float keep = j0 ? exponential(before - largest) : 0.0f;
		exponentials(s + r * BLOCK, count, shape->scale, largest);
		head->maximum[i0 + r] = largest;
		head->sum[i0 + r] = (j0 ? head->sum[i0 + r] * keep : 0.0f) + row_total(s + r * BLOCK);
		keep_row(head->o + (i0 + r) * head->stride, out + r * shape->padded, j0 ? shape->width : 0,
			 shape->padded, keep);
	}
	product((struct block_matrix){ s, BLOCK, 1 }, values, out, rows, shape->padded, keys, true);
	for (uint32_t r = 0; r < rows; r++)
		memcpy(head->o + (i0 + r) * head->stride, out + r * shape->padded, shape->width * sizeof *out);
}

static void forward_body(const struct bound_instr *instr, uint64_t chunk)
{
	struct forward head = { .shape = shape_of(instr->kernel, 0) };
	const struct shape *shape = &head.shape;
	uint64_t batch = chunk / shape->heads, h = chunk % shape->heads, group = h / (shape->heads / shape->groups);
	uint64_t at = head_offset(batch, shape->queries, shape->heads, h, shape->width);
	uint64_t key_at = head_offset(batch, shape->keys, shape->groups, group, shape->width);
	uint64_t key_stride = (uint64_t)shape->groups * shape->width;
	const struct operand *q = kernel_input(instr->kernel, 0), *k = kernel_input(instr->kernel, 1);
	const uint64_t stride = (uint64_t)shape->heads * shape->width;
	const bool narrow = operand_is_narrow(q);
	float keys_transposed[HEAD_MAX * BLOCK], values[BLOCK * HEAD_MAX], block[BLOCK * HEAD_MAX];
	float *place = thread_place(instr);
	head.q = load_rows(q, instr->address[0], at, stride, shape->queries, place);
	head.o = narrow ? place + (uint64_t)shape->queries * shape->width : (float *)instr_output(instr, 0) + at;
	head.maximum = (float *)instr_output(instr, 1) + chunk * shape->queries;
	head.sum = (float *)instr->workspace + chunk * shape->queries;
	head.stride = narrow ? shape->width : stride;
	for (uint32_t j0 = 0; j0 < shape->keys; j0 += BLOCK) {
		uint32_t keys = block_rows(j0, shape->keys);
		uint64_t first = key_at + j0 * key_stride;
		struct rows rows = load_rows(k, instr->address[1], first, key_stride, keys, block);
		pack_transposed(rows.at, rows.stride, keys, shape, keys_transposed);
		rows = load_rows(k, instr->address[2], first, key_stride, keys, block);
		pack_rows(rows.at, rows.stride, keys, shape, values);
		for (uint32_t i0 = 0; i0 < shape->queries; i0 += BLOCK)
			if (visible(shape, i0 + block_rows(i0, shape->queries) - 1, j0, keys))
				forward_block(&head, keys_transposed, values, i0, j0);
	}
	for (uint32_t i = 0; i < shape->queries; i++) {
		float *o = head.o + i * head.stride, reciprocal = 1.0f / head.sum[i];
		for (uint32_t d = 0; d < shape->width; d++)
			o[d] *= reciprocal;
		head.maximum[i] += logf(head.sum[i]);
	}
	if (narrow)
		store_rows(q, instr_output(instr, 0), at, stride, shape->queries, head.o, head.stride);
}

/* ---- backward ---- */

/* Blocks of one group of heads, in whole lanes. */
struct blocks {
	float keys_transposed[HEAD_MAX * BLOCK], values_transposed[HEAD_MAX * BLOCK];
	float keys[BLOCK * HEAD_MAX], dk[BLOCK * HEAD_MAX], dv[BLOCK * HEAD_MAX];
	float queries[BLOCK * HEAD_MAX], gradients[BLOCK * HEAD_MAX], dq[BLOCK * HEAD_MAX];
	float p[BLOCK * BLOCK], ds[BLOCK * BLOCK], loaded[BLOCK * HEAD_MAX];
};

struct backward {
	struct shape shape;
	struct rows gradient, q; /* of this head */
	const float *lse, *delta;
	float *dq;
	uint64_t stride; /* of dq */
};

/* dS = scale * P * (dP - delta) */
CPU_CLONES static void softmax_gradient(const float *p, float *ds, float scale, float delta)
{
	for (uint32_t j = 0; j < BLOCK; j++)
		ds[j] = scale * p[j] * (ds[j] - delta);
}

static void backward_block(const struct backward *head, struct blocks *b, uint32_t i0, uint32_t j0)
{
	const struct shape *shape = &head->shape;
	uint32_t rows = block_rows(i0, shape->queries), keys = block_rows(j0, shape->keys), padded = shape->padded;
	pack_rows(head->q.at + i0 * head->q.stride, head->q.stride, rows, shape, b->queries);
	pack_rows(head->gradient.at + i0 * head->gradient.stride, head->gradient.stride, rows, shape, b->gradients);
	scores(b->queries, padded, b->keys_transposed, b->p, rows, shape->width);
	scores(b->gradients, padded, b->values_transposed, b->ds, rows, shape->width);
	for (uint32_t r = 0; r < rows; r++) {
		uint32_t count = visible(shape, i0 + r, j0, keys);
		exponentials(b->p + r * BLOCK, count, shape->scale, head->lse[i0 + r]);
		softmax_gradient(b->p + r * BLOCK, b->ds + r * BLOCK, shape->scale, head->delta[i0 + r]);
	}
	product((struct block_matrix){ b->p, 1, BLOCK }, b->gradients, b->dv, keys, padded, rows, true);
	product((struct block_matrix){ b->ds, 1, BLOCK }, b->queries, b->dk, keys, padded, rows, true);
	product((struct block_matrix){ b->ds, BLOCK, 1 }, b->keys, b->dq, rows, padded, keys, false);
	for (uint32_t r = 0; r < rows; r++) {
		float *dq = head->dq + (i0 + r) * head->stride;
		for (uint32_t d = 0; d < shape->width; d++)
			dq[d] = j0 ? dq[d] + b->dq[r * padded + d] : b->dq[r * padded + d];
	}
}

CPU_CLONES static double dot(const float *a, const float *b, uint32_t n)
{
	struct lanes sum = { { 0 } };
	uint32_t whole = n - n % LANES;
	for (uint32_t i = 0; i < whole; i += LANES)
		for (uint32_t l = 0; l < LANES; l++)
			sum.lane[l] += a[i + l] * b[i + l];
	for (uint32_t i = whole; i < n; i++)
		sum.lane[i - whole] += a[i] * b[i];
	return lanes_total(&sum);
}

/* delta = sum(do * o) of every query of a head. */
static void head_delta(const struct bound_instr *instr, const struct shape *shape, uint64_t at, float *delta)
{
	const struct operand *o = kernel_input(instr->kernel, 4);
	uint64_t stride = (uint64_t)shape->heads * shape->width;
	float block[2][HEAD_MAX];
	for (uint32_t i = 0; i < shape->queries; i++)
		delta[i] = (float)dot(narrow_view(o->dtype, instr->address[0], at + i * stride, shape->width, block[0]),
				      narrow_view(o->dtype, instr->address[4], at + i * stride, shape->width, block[1]),
				      shape->width);
}

/* Head h, which is number `shared` of its group. Heads of 16 bits are floats in the thread's place: q, do and dq each.
 */
static struct backward backward_head(const struct bound_instr *instr, uint64_t batch, uint64_t h, uint64_t shared)
{
	struct backward head = { .shape = shape_of(instr->kernel, 1) };
	const struct shape *shape = &head.shape;
	const struct operand *q = kernel_input(instr->kernel, 1);
	uint64_t at = head_offset(batch, shape->queries, shape->heads, h, shape->width);
	uint64_t row = (batch * shape->heads + h) * shape->queries, floats = (uint64_t)shape->queries * shape->width;
	uint64_t stride = (uint64_t)shape->heads * shape->width;
	float *place = thread_place(instr) + 3 * shared * floats;
	const bool narrow = operand_is_narrow(q);
	head.q = narrow ? (struct rows){ place, shape->width }
			: (struct rows){ (const float *)instr->address[1] + at, stride };
	head.gradient = narrow ? (struct rows){ place + floats, shape->width }
			       : (struct rows){ (const float *)instr->address[0] + at, stride };
	head.dq = narrow ? place + 2 * floats : (float *)instr_output(instr, 0) + at;
	head.stride = narrow ? shape->width : stride;
	head.lse = (const float *)instr->address[5] + row;
	head.delta = (const float *)instr->workspace + row;
	return head;
}

/* Fills the place of a head of 16 bits (`store` false), or writes its dq. */
static void move_head(const struct bound_instr *instr, uint64_t batch, uint64_t h, uint64_t shared, bool store)
{
	const struct backward head = backward_head(instr, batch, h, shared);
	const struct shape *shape = &head.shape;
	const struct operand *q = kernel_input(instr->kernel, 1);
	uint64_t at = head_offset(batch, shape->queries, shape->heads, h, shape->width);
	uint64_t stride = (uint64_t)shape->heads * shape->width, floats = (uint64_t)shape->queries * shape->width;
	float *place = thread_place(instr) + 3 * shared * floats;
	if (!operand_is_narrow(q))
		return;
	if (store) {
		store_rows(q, instr_output(instr, 0), at, stride, shape->queries, head.dq, head.stride);
		return;
	}
	load_rows(q, instr->address[1], at, stride, shape->queries, place);
	load_rows(q, instr->address[0], at, stride, shape->queries, place + floats);
}

static void backward_keys(const struct bound_instr *instr, const struct shape *shape, uint64_t batch, uint64_t group,
			  uint32_t j0, struct blocks *b)
{
	uint32_t keys = block_rows(j0, shape->keys), shared = shape->heads / shape->groups;
	uint64_t stride = (uint64_t)shape->groups * shape->width;
	uint64_t at = head_offset(batch, shape->keys, shape->groups, group, shape->width) + j0 * stride;
	const struct operand *k = kernel_input(instr->kernel, 2);
	struct rows rows = load_rows(k, instr->address[3], at, stride, keys, b->loaded);
	pack_transposed(rows.at, rows.stride, keys, shape, b->values_transposed);
	rows = load_rows(k, instr->address[2], at, stride, keys, b->loaded);
	pack_transposed(rows.at, rows.stride, keys, shape, b->keys_transposed);
	pack_rows(rows.at, rows.stride, keys, shape, b->keys);
	memset(b->dk, 0, BLOCK * shape->padded * sizeof *b->dk);
	memset(b->dv, 0, BLOCK * shape->padded * sizeof *b->dv);
	for (uint64_t h = 0; h < shared; h++) {
		struct backward head = backward_head(instr, batch, group * shared + h, h);
		for (uint32_t i0 = 0; i0 < shape->queries; i0 += BLOCK)
			if (visible(shape, i0 + block_rows(i0, shape->queries) - 1, j0, keys))
				backward_block(&head, b, i0, j0);
	}
	store_rows(k, instr_output(instr, 1), at, stride, keys, b->dk, shape->padded);
	store_rows(k, instr_output(instr, 2), at, stride, keys, b->dv, shape->padded);
}

static void backward_body(const struct bound_instr *instr, uint64_t chunk)
{
	struct shape shape = shape_of(instr->kernel, 1);
	struct blocks blocks;
	uint64_t batch = chunk / shape.groups, group = chunk % shape.groups, shared = shape.heads / shape.groups;
	for (uint64_t h = group * shared; h < (group + 1) * shared; h++) {
		head_delta(instr, &shape, head_offset(batch, shape.queries, shape.heads, h, shape.width),
			   (float *)instr->workspace + (batch * shape.heads + h) * shape.queries);
		move_head(instr, batch, h, h - group * shared, false);
	}
	for (uint32_t j0 = 0; j0 < shape.keys; j0 += BLOCK)
		backward_keys(instr, &shape, batch, group, j0, &blocks);
	for (uint64_t h = group * shared; h < (group + 1) * shared; h++)
		move_head(instr, batch, h, h - group * shared, true);
}

enum tarn_status attention_prepare(struct device *device, struct kernel *kernel)
{
	bool forward = kernel->kind == OP_ATTENTION;
	const struct operand *q = kernel_input(kernel, forward ? 0 : 1), *k = kernel_input(kernel, forward ? 1 : 2);
	const struct cpu_state *state = device->state;
	if (q->dim[3] > HEAD_MAX)
		return tarn_fail(TARN_EUNSUPPORTED,
				 "cpu: attention \"%s\": heads of %u elements; at most %u are possible", kernel->name,
				 q->dim[3], HEAD_MAX);
	uint64_t heads = (uint64_t)q->dim[0] * q->dim[2];
	kernel_cut(kernel, forward ? forward_body : backward_body, forward ? heads : (uint64_t)q->dim[0] * k->dim[2],
		   1);
	uint64_t head_bytes = (uint64_t)q->dim[1] * q->dim[3] * sizeof(float), shared = q->dim[2] / k->dim[2];
	kernel->place_offset = bytes_align(heads * q->dim[1] * sizeof(float)); /* sums of rows; delta */
	if (operand_is_narrow(q))
		kernel->place_bytes = bytes_align(forward ? 2 * head_bytes : 3 * shared * head_bytes);
	kernel->info.workspace_bytes = kernel->place_offset + state->threads * kernel->place_bytes;
	return TARN_OK;
}
