/*
 * linear_loss.c - cross-entropy of x w^T + bias for a large vocabulary, whose logits never exist whole.
 *
 * Rows are taken in pieces of at most PIECE_ELEMENTS logits, which lie in the workspace: a product, then one pass over
 * its rows. The gradient makes each piece again, turns it into the gradient of the logits in place, and uses it for dx,
 * dw and dbias. The cut depends on the shapes alone; pieces follow one another, so dw is summed in their order.
 *
 * With x and w of 16 bits the logits are floats all the same. The library multiplies bfloat16, so the gradient of the
 * logits is rounded to it before its two products; float16 it does not know: the piece of x and the whole of w are
 * floats in the workspace. dw is summed in floats, in the workspace where it is stored in 16 bits.
 */
#include "cpu/narrow.h"
#include "cpu/onednn.h"
#include "cpu/rows.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#define PIECE_ELEMENTS ((uint64_t)1 << 20)
/* Columns of a block of dbias, and rows summed in float before the sum goes to double. */
#define COLUMNS 512u
#define RUN 32u

/* The products of a piece; the last one, with fewer rows, has its own. */
enum product { PRODUCT_LOGITS, PRODUCT_DX, PRODUCT_DW, PRODUCTS };

static uint64_t piece_rows(uint64_t rows, uint64_t vocabulary)
{
	uint64_t most = PIECE_ELEMENTS / vocabulary / 16 * 16;
	most = most ? most : 16;
	return rows < most ? rows : most;
}

/* Where things are in the workspace, in bytes; the logits are at 0. `end` for what is not there. */
struct places {
	uint64_t sums;     /* doubles: a loss for each row, or a sum for each column */
	uint64_t gradient; /* of the logits, bfloat16 */
	uint64_t x, w, dx; /* floats instead of float16; x and dx of a piece */
	uint64_t dw;       /* floats */
	uint64_t end;
};

static uint64_t take(uint64_t *end, bool wanted, uint64_t count, uint64_t size)
{
	uint64_t at = *end;
	*end += wanted ? bytes_align(count * size) : 0;
	return at;
}

static struct places places_of(const struct kernel *kernel)
{
	const struct operand *x = kernel_input(kernel, 0), *w = kernel_input(kernel, 1);
	const bool forward = kernel->kind == OP_LINEAR_CROSS_ENTROPY, half = x->dtype == DTYPE_F16;
	const uint64_t rows = piece_rows(x->rows, w->dim[0]), logits = rows * w->dim[0];
	struct places places = { .end = bytes_align(logits * sizeof(float)) };
	places.sums = take(&places.end, true, forward ? x->rows : w->dim[0], sizeof(double));
	places.gradient = take(&places.end, !forward && x->dtype == DTYPE_BF16, logits, sizeof(uint16_t));
	places.x = take(&places.end, half, rows * x->channels, sizeof(float));
	places.w = take(&places.end, half, w->elements, sizeof(float));
	places.dx = take(&places.end, half && !forward, rows * x->channels, sizeof(float));
	places.dw =
		take(&places.end, !forward && operand_is_narrow(kernel_output(kernel, 1)), w->elements, sizeof(float));
	return places;
}

static void *place_at(const struct bound_instr *instr, uint64_t offset)
{
	return (unsigned char *)instr->workspace + offset;
}

static double *sums_of(const struct bound_instr *instr)
{
	return place_at(instr, places_of(instr->kernel).sums);
}

static uint32_t bias_input(const struct kernel *kernel)
{
	uint32_t most = kernel->kind == OP_LINEAR_CROSS_ENTROPY ? 4 : 6;
	return kernel->inputs == most ? most - 1 : 0;
}

/* ---- step ---- */

/* Executes a product on a piece: operand `moving` of the arguments stands at its row `first`. */
static enum tarn_status run_product(struct cpu_state *state, const struct bound_instr *instr, enum product product,
				    bool tail, uint64_t first)
{
	const struct kernel *kernel = instr->kernel;
	uint32_t s = (tail ? kernel->stages / 2 : 0) + product;
	const struct dnn_stage *stage = &kernel->stage[s];
	for (uint32_t i = 0; i < stage->arguments; i++) {
		uint32_t operand = stage->argument[i].operand;
		if (operand != 0 && !(product == PRODUCT_DX && operand == kernel->inputs))
			continue;
		const struct operand *moving = &kernel->operand[operand];
		uint64_t bytes = first * moving->channels * dtype_bytes(moving->dtype);
		unsigned char *at = (unsigned char *)instr->address[operand] + bytes;
		enum tarn_status st = DNN(dnnl_memory_set_data_handle(instr->argument[s][i].memory, at));
		if (st)
			return st;
	}
	return DNN(dnnl_primitive_execute(stage->primitive, state->stream, (int)stage->arguments, instr->argument[s]));
}

static void row_losses(const struct bound_instr *instr, const struct label_rule *rule, uint64_t first, uint64_t rows,
		       uint32_t threads)
{
	uint32_t n = kernel_input(instr->kernel, 1)->dim[0];
	const float *logits = instr->workspace;
	const int32_t *label = (const int32_t *)instr->address[2] + first;
	float *lse = (float *)instr_output(instr, 1) + first;
	double *loss = sums_of(instr) + first;
#pragma omp parallel for schedule(static) num_threads(threads)
	for (uint64_t r = 0; r < rows; r++) {
		const float *x = logits + r * n;
		struct row_exponentials sum = row_exponentials(x, n);
		double log_sum = (double)sum.largest + log(sum.total);
		lse[r] = (float)log_sum;
		loss[r] = label_counts(rule, label[r]) ? row_loss(rule, x, n, label[r], log_sum) : 0.0;
	}
}

static void row_gradients(const struct bound_instr *instr, const struct label_rule *rule, float share, uint64_t first,
			  uint64_t rows, uint32_t threads)
{
	uint32_t n = kernel_input(instr->kernel, 1)->dim[0];
	float *logits = instr->workspace;
	const int32_t *label = (const int32_t *)instr->address[2] + first;
	const float *lse = (const float *)instr->address[3] + first;
#pragma omp parallel for schedule(static) num_threads(threads)
	for (uint64_t r = 0; r < rows; r++) {
		float *x = logits + r * n;
		if (label_counts(rule, label[r]))
			row_loss_grad(rule, x, x, n, label[r], lse[r], 1.0f, share);
		else
			memset(x, 0, n * sizeof *x);
	}
}

/* What the products of a piece read as floats. */
static void load_halves(const struct bound_instr *instr, uint64_t first, uint64_t rows, uint32_t threads)
{
	const struct operand *x = kernel_input(instr->kernel, 0), *w = kernel_input(instr->kernel, 1);
	const struct places places = places_of(instr->kernel);
	if (x->dtype != DTYPE_F16)
		return;
	if (!first)
		narrow_load_threads(DTYPE_F16, instr->address[1], 0, place_at(instr, places.w), w->elements, threads);
	narrow_load_threads(DTYPE_F16, instr->address[0], first * x->channels, place_at(instr, places.x),
			    rows * x->channels, threads);
}

CPU_CLONES static void add_run(const float *x, uint64_t stride, uint32_t rows, uint32_t width, double *sum)
{
	float run[COLUMNS];
	for (uint32_t j = 0; j < width; j++)
		run[j] = 0.0f;
	for (uint32_t r = 0; r < rows; r++)
		for (uint32_t j = 0; j < width; j++)
			run[j] += x[r * stride + j];
	for (uint32_t j = 0; j < width; j++)
		sum[j] += (double)run[j];
}

/* Adds the columns of a piece to their sums. */
static void column_sums(const struct bound_instr *instr, uint64_t rows, uint32_t threads)
{
	uint32_t n = kernel_input(instr->kernel, 1)->dim[0];
	const float *logits = instr->workspace;
	double *sum = sums_of(instr);
#pragma omp parallel for schedule(static) num_threads(threads)
	for (uint32_t c = 0; c < n; c += COLUMNS)
		for (uint64_t r = 0; r < rows; r += RUN)
			add_run(logits + r * n + c, n, rows - r < RUN ? (uint32_t)(rows - r) : RUN,
				n - c < COLUMNS ? n - c : COLUMNS, sum + c);
}

static enum tarn_status run_forward(struct cpu_state *state, const struct bound_instr *instr)
{
	const struct operand *x = kernel_input(instr->kernel, 0), *w = kernel_input(instr->kernel, 1);
	const struct label_rule rule = label_rule_of(instr->kernel);
	uint64_t piece = piece_rows(x->rows, w->dim[0]);
	for (uint64_t first = 0; first < x->rows; first += piece) {
		uint64_t rows = x->rows - first < piece ? x->rows - first : piece;
		load_halves(instr, first, rows, state->threads);
		enum tarn_status st = run_product(state, instr, PRODUCT_LOGITS, rows < piece, first);
		if (st)
			return st;
		row_losses(instr, &rule, first, rows, state->threads);
	}
	const double *loss = sums_of(instr);
	double total = 0.0;
	for (uint64_t r = 0; r < x->rows; r++)
		total += loss[r];
	*(float *)instr_output(instr, 0) = (float)(total / (double)labels_counted(&rule, instr->address[2], x->rows));
	return TARN_OK;
}

/* One piece: its logits, their gradient, and what that gives to dx, dw and dbias. */
static enum tarn_status run_piece(struct cpu_state *state, const struct bound_instr *instr, uint64_t first,
				  uint64_t rows, bool tail, float share)
{
	const struct operand *x = kernel_input(instr->kernel, 0), *w = kernel_input(instr->kernel, 1);
	const struct label_rule rule = label_rule_of(instr->kernel);
	const struct places places = places_of(instr->kernel);
	load_halves(instr, first, rows, state->threads);
	enum tarn_status st = run_product(state, instr, PRODUCT_LOGITS, tail, first);
	if (st)
		return st;
	row_gradients(instr, &rule, share, first, rows, state->threads);
	if (x->dtype == DTYPE_BF16)
		narrow_store_threads(DTYPE_BF16, instr->workspace, place_at(instr, places.gradient), 0,
				     rows * w->dim[0], state->threads);
	st = run_product(state, instr, PRODUCT_DX, tail, first);
	if (!st)
		st = run_product(state, instr, PRODUCT_DW, tail, first);
	if (x->dtype == DTYPE_F16)
		narrow_store_threads(DTYPE_F16, place_at(instr, places.dx), instr_output(instr, 0), first * x->channels,
				     rows * x->channels, state->threads);
	column_sums(instr, rows, state->threads);
	return st;
}

static enum tarn_status run_backward(struct cpu_state *state, const struct bound_instr *instr)
{
	const struct operand *x = kernel_input(instr->kernel, 0), *w = kernel_input(instr->kernel, 1);
	const struct label_rule rule = label_rule_of(instr->kernel);
	const struct operand *dw = kernel_output(instr->kernel, 1);
	uint64_t piece = piece_rows(x->rows, w->dim[0]);
	float share = *(const float *)instr->address[4] / (float)labels_counted(&rule, instr->address[2], x->rows);
	double *sum = sums_of(instr);
	float *dw_sum = operand_is_narrow(dw) ? place_at(instr, places_of(instr->kernel).dw) : instr_output(instr, 1);
	memset(dw_sum, 0, w->elements * sizeof *dw_sum);
	memset(sum, 0, w->dim[0] * sizeof *sum);
	for (uint64_t first = 0; first < x->rows; first += piece) {
		uint64_t rows = x->rows - first < piece ? x->rows - first : piece;
		enum tarn_status st = run_piece(state, instr, first, rows, rows < piece, share);
		if (st)
			return st;
	}
	if (operand_is_narrow(dw))
		narrow_store_threads(dw->dtype, dw_sum, instr_output(instr, 1), 0, w->elements, state->threads);
	float *dbias = instr_output(instr, 2);
	for (uint32_t v = 0; v < w->dim[0]; v++)
		dbias[v] = (float)sum[v];
	return TARN_OK;
}

/* ---- boot ---- */

/* A matrix of a product: an operand, or a place in the workspace. */
struct factor {
	uint32_t operand; /* DNN_WORKSPACE */
	uint64_t offset;
	uint32_t dtype;
};

/* What a product multiplies: shapes (m, k) and (k, n). */
struct factors {
	struct factor a, b, c;
	int64_t m, k, n;
	bool transpose_a, transpose_b, sum;
};

static enum tarn_status matrix(struct device *device, uint32_t dtype, int64_t rows, int64_t columns, bool transpose,
			       const dnnl_memory_desc_t **out)
{
	return dnn_layout(device, dtype, 2, (int64_t[]){ rows, columns },
			  (int64_t[]){ transpose ? 1 : columns, transpose ? rows : 1 }, out);
}

static enum tarn_status product_attributes(bool sum, dnnl_primitive_attr_t *out)
{
	dnnl_post_ops_t more = NULL;
	enum tarn_status st = dnn_attributes(ACTIVATION_NONE, out);
	if (st || !sum)
		return st;
	st = DNN(dnnl_post_ops_create(&more));
	if (!st)
		st = DNN(dnnl_post_ops_append_sum(more, 1.0f));
	if (!st)
		st = DNN(dnnl_primitive_attr_set_post_ops(*out, more));
	if (more)
		dnnl_post_ops_destroy(more);
	if (st)
		dnnl_primitive_attr_destroy(*out);
	return st;
}

static enum tarn_status add_product(struct device *device, struct kernel *kernel, const struct factors *f,
				    uint32_t bias, uint64_t scratchpad)
{
	const dnnl_memory_desc_t *a, *b, *c, *bias_layout = NULL;
	dnnl_primitive_attr_t attributes;
	dnnl_matmul_desc_t description;
	struct dnn_choice choice;
	struct dnn_stage *stage;
	enum tarn_status st = matrix(device, f->a.dtype, f->m, f->k, f->transpose_a, &a);
	if (!st)
		st = matrix(device, f->b.dtype, f->k, f->n, f->transpose_b, &b);
	if (!st)
		st = matrix(device, f->c.dtype, f->m, f->n, false, &c);
	if (!st && bias)
		st = matrix(device, DTYPE_F32, 1, f->n, false, &bias_layout);
	if (!st)
		st = product_attributes(f->sum, &attributes);
	if (st)
		return st;
	st = DNN(dnnl_matmul_desc_init(&description, a, b, bias_layout, c));
	if (!st)
		st = dnn_choose(device, kernel, &description, attributes, NULL, 0, NULL, &choice);
	dnnl_primitive_attr_destroy(attributes);
	if (!st)
		st = dnn_add_stage(device, kernel, choice.description, scratchpad, &stage);
	if (st)
		return st;
	dnn_add_argument(stage, DNNL_ARG_SRC, f->a.operand, f->a.offset, a);
	dnn_add_argument(stage, DNNL_ARG_WEIGHTS, f->b.operand, f->b.offset, b);
	if (bias)
		dnn_add_argument(stage, DNNL_ARG_BIAS, bias, 0, bias_layout);
	dnn_add_argument(stage, DNNL_ARG_DST, f->c.operand, f->c.offset, c);
	return TARN_OK;
}

/* The products for pieces of so many rows, in the order of enum product. */
static enum tarn_status add_products(struct device *device, struct kernel *kernel, int64_t rows, uint64_t scratchpad)
{
	const int64_t v = kernel_input(kernel, 1)->dim[0], c = kernel_input(kernel, 1)->dim[1];
	const struct places places = places_of(kernel);
	const uint32_t stored = kernel_input(kernel, 0)->dtype;
	const bool half = stored == DTYPE_F16,
		   narrow_dw = kernel->outputs == 3 && operand_is_narrow(kernel_output(kernel, 1));
	const struct factor logits = { DNN_WORKSPACE, 0, DTYPE_F32 };
	const struct factor gradient =
		stored == DTYPE_BF16 ? (struct factor){ DNN_WORKSPACE, places.gradient, stored } : logits;
	const struct factor x =
		half ? (struct factor){ DNN_WORKSPACE, places.x, DTYPE_F32 } : (struct factor){ 0, 0, stored };
	const struct factor w =
		half ? (struct factor){ DNN_WORKSPACE, places.w, DTYPE_F32 } : (struct factor){ 1, 0, stored };
	const struct factor dx = half ? (struct factor){ DNN_WORKSPACE, places.dx, DTYPE_F32 }
				      : (struct factor){ kernel->inputs, 0, stored };
	const struct factor dw = narrow_dw ? (struct factor){ DNN_WORKSPACE, places.dw, DTYPE_F32 }
					   : (struct factor){ kernel->inputs + 1, 0, DTYPE_F32 };
	const struct factors factors[PRODUCTS] = {
		[PRODUCT_LOGITS] = { x, w, logits, rows, c, v, false, true, false },
		[PRODUCT_DX] = { gradient, w, dx, rows, v, c, false, false, false },
		[PRODUCT_DW] = { gradient, x, dw, v, rows, c, true, false, true },
	};
	uint32_t count = kernel->kind == OP_LINEAR_CROSS_ENTROPY ? 1 : PRODUCTS;
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 0; i < count && !st; i++)
		st = add_product(device, kernel, &factors[i], i == PRODUCT_LOGITS ? bias_input(kernel) : 0, scratchpad);
	return st;
}

enum tarn_status linear_loss_prepare(struct device *device, struct kernel *kernel)
{
	bool forward = kernel->kind == OP_LINEAR_CROSS_ENTROPY;
	uint64_t rows = kernel_input(kernel, 0)->rows, vocabulary = kernel_input(kernel, 1)->dim[0];
	uint64_t piece = piece_rows(rows, vocabulary), tail = rows % piece, fixed = places_of(kernel).end;
	kernel->run = forward ? run_forward : run_backward;
	kernel->info.workspace_bytes = fixed;
	enum tarn_status st = add_products(device, kernel, (int64_t)piece, fixed);
	/* Both halves of the list are there even where no piece is shorter. */
	return st ? st : add_products(device, kernel, (int64_t)(tail ? tail : piece), fixed);
}
