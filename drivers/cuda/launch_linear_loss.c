/*
 * launch_linear_loss.c - cross-entropy of x w^T + bias for a large vocabulary, whose logits never exist whole.
 *
 * Rows are taken in pieces, whose logits lie in the workspace: a product, then kernels over its rows. The gradient
 * makes each piece again, turns it into the gradient of the logits in place, and uses it for dx, dw and dbias; pieces
 * follow one another, so dw and dbias are summed in their order. The cut depends on the shapes and memory.workspace_cap
 * alone.
 */
#include "cuda/launch.h"

/* Logits of a piece: enough for products that fill a large device. */
#define PIECE_ELEMENTS ((uint64_t)1 << 23)
/* Rows of a piece are a multiple of this, so that every piece begins aligned. */
#define PIECE_STEP 16u

/* One op: x, w and labels are its first three inputs, bias the last one where there is one. */
struct linear_loss {
	uint64_t rows, piece;
	uint32_t channels, vocabulary;
	uint64_t x, w, label, bias;
	uint64_t logits, behind; /* workspace: the logits of a piece, and what follows them */
	uint64_t gradient;       /* of the logits: in their place, or where it is stored otherwise behind them */
	uint64_t dw;             /* the sum of the gradient of w: the output, or where that is not float a place here */
	uint32_t stored_bytes;   /* of a number of x, w, their products' other factors, dx */
};

static struct linear_loss describe(struct launch_call *call, uint32_t most_inputs)
{
	const struct tensor *x = launch_tensor(call, 0), *w = launch_tensor(call, 1);
	struct linear_loss loss = { .rows = tensor_rows(x), .channels = w->dim[1], .vocabulary = w->dim[0] };
	uint64_t cap = call->workspace_cap / sizeof(float);
	uint64_t piece = (cap < PIECE_ELEMENTS ? cap : PIECE_ELEMENTS) / loss.vocabulary / PIECE_STEP * PIECE_STEP;
	loss.piece = piece ? piece : PIECE_STEP;
	if (loss.piece > loss.rows)
		loss.piece = loss.rows;
	loss.x = launch_address(call, 0);
	loss.w = launch_address(call, 1);
	loss.label = launch_address(call, 2);
	loss.bias = call->op->inputs == most_inputs ? launch_address(call, most_inputs - 1) : 0;
	loss.stored_bytes = launch_stored_bytes(call->stored);
	loss.logits = loss.gradient = call->workspace;
	call->workspace_bytes = bytes_align(loss.piece * loss.vocabulary * sizeof(float));
	if (call->op->kind == OP_LINEAR_CROSS_ENTROPY_GRAD && call->stored != STORED_F32) {
		loss.gradient = call->workspace + call->workspace_bytes;
		call->workspace_bytes += bytes_align(loss.piece * loss.vocabulary * loss.stored_bytes);
	}
	if (call->op->kind == OP_LINEAR_CROSS_ENTROPY_GRAD) {
		loss.dw = launch_output_address(call, 1);
		if (launch_output(call, 1)->dtype != DTYPE_F32 && loss.piece < loss.rows) {
			loss.dw = call->workspace + call->workspace_bytes;
			call->workspace_bytes += bytes_align(tensor_elements(w) * sizeof(float));
		}
	}
	loss.behind = call->workspace + call->workspace_bytes;
	return loss;
}

static uint64_t piece_rows(const struct linear_loss *loss, uint64_t first)
{
	return loss->rows - first < loss->piece ? loss->rows - first : loss->piece;
}

/* Address of row `first` of `bytes` bytes; 0 stays 0. */
static uint64_t row_address(uint64_t address, uint64_t first, uint64_t bytes)
{
	return address ? address + first * bytes : 0;
}

static enum tarn_status add_logits(struct launch_call *call, const struct linear_loss *loss, uint64_t first)
{
	struct matmul_parameters p = { .b = loss->w, .c = loss->logits, .bias = loss->bias, .batch = 1, .alpha = 1.0f };
	p.a = row_address(loss->x, first, (uint64_t)loss->channels * loss->stored_bytes);
	p.wide = 1;
	p.m = piece_rows(loss, first);
	p.n = loss->vocabulary;
	p.k = loss->channels;
	p.transpose_b = 1;
	launch_clamp(ACTIVATION_NONE, &p.low, &p.high);
	return launch_add_product(call, &p);
}

/* ---- forward: x, w, labels [, bias] -> loss, lse ---- */

/* Workspace behind the logits: a double for each block of each piece, then the rows that count. */
enum tarn_status launch_linear_loss(struct launch_call *call)
{
	struct linear_loss loss = describe(call, 4);
	struct launch_rows cut = launch_cut_rows(loss.piece, loss.vocabulary, true);
	uint64_t pieces = launch_divide(loss.rows, loss.piece), partials = 0;
	uint64_t counted = loss.behind + pieces * cut.blocks * sizeof(double);
	struct row_parameters p = launch_row_parameters(loss.rows, loss.vocabulary, &cut);
	call->workspace_bytes += (pieces * cut.blocks + 1) * sizeof(double);
	enum tarn_status st = launch_add_labels(call, loss.label, counted, &p);
	p.x = loss.logits;
	for (uint64_t first = 0; first < loss.rows && !st; first += loss.piece) {
		p.rows = piece_rows(&loss, first);
		cut.grid.x = launch_divide(p.rows, p.block_rows);
		p.label = row_address(loss.label, first, sizeof(int32_t));
		p.new_lse = row_address(launch_output_address(call, 1), first, sizeof(float));
		p.partial = loss.behind + partials * sizeof(double);
		partials += cut.grid.x;
		st = add_logits(call, &loss, first);
		if (!st)
			st = LAUNCH_ADD(call, "tarn_cross_entropy_f32", cut.grid, cut.block, p);
		if (!st)
			call->list->last->stored = STORED_F32; /* logits are float */
	}
	if (st)
		return st;
	struct finish_parameters finish = { .partial = loss.behind, .counted = p.counted, .count = partials };
	finish.out = launch_output_address(call, 0);
	finish.divisor = (double)loss.rows;
	return LAUNCH_ADD(call, "tarn_finish_total", ((struct extent3){ 1, 1, 1 }), launch_flat_block(), finish);
}

/* ---- gradient: x, w, labels, lse, dloss [, bias] -> dx, dw, dbias ---- */

/* dx = dlogits w of the piece's rows; dw += dlogits^T x. */
static enum tarn_status add_gradients(struct launch_call *call, const struct linear_loss *loss, uint64_t first)
{
	uint64_t rows = piece_rows(loss, first);
	uint64_t x_bytes = (uint64_t)loss->channels * loss->stored_bytes;
	struct matmul_parameters dx = { .a = loss->gradient, .b = loss->w, .batch = 1, .alpha = 1.0f };
	dx.c = row_address(launch_output_address(call, 0), first, x_bytes);
	dx.m = rows;
	dx.n = loss->channels;
	dx.k = loss->vocabulary;
	launch_clamp(ACTIVATION_NONE, &dx.low, &dx.high);
	struct matmul_parameters dw = dx;
	dw.b = row_address(loss->x, first, x_bytes);
	dw.c = loss->dw;
	dw.m = loss->vocabulary;
	dw.k = rows;
	dw.transpose_a = 1;
	dw.adds = first > 0;
	dw.wide = launch_output(call, 1)->dtype == DTYPE_F32 || loss->piece < loss->rows;
	enum tarn_status st = launch_add_product(call, &dx);
	return st ? st : launch_add_product(call, &dw);
}

/* The sum of all pieces becomes the output, rounded once. */
static enum tarn_status add_rounded_weights(struct launch_call *call, const struct linear_loss *loss)
{
	const struct tensor *dw = launch_output(call, 1);
	struct cast_parameters p = { .x = loss->dw, .y = launch_output_address(call, 1), .from = STORED_F32 };
	p.elements = tensor_elements(dw);
	p.to = launch_kind_of(dw->dtype);
	return LAUNCH_ADD(call, "tarn_cast", launch_blocks(p.elements, KERNEL_VECTOR), launch_flat_block(), p);
}

/* The logits of a piece become their gradient, in place. */
static enum tarn_status add_row_gradients(struct launch_call *call, const struct linear_loss *loss,
					  struct row_parameters *p, uint64_t first)
{
	struct launch_rows cut = launch_cut_rows(piece_rows(loss, first), loss->vocabulary, false);
	p->rows = piece_rows(loss, first);
	p->block_rows = cut.block_rows;
	p->label = row_address(loss->label, first, sizeof(int32_t));
	p->lse = row_address(launch_address(call, 3), first, sizeof(float));
	return LAUNCH_ADD(call, "tarn_cross_entropy_grad_f32", cut.grid, cut.block, *p);
}

/* Workspace behind the logits: partial sums of the columns, then the rows that count. */
enum tarn_status launch_linear_loss_grad(struct launch_call *call)
{
	struct linear_loss loss = describe(call, 6);
	struct launch_columns columns = launch_cut_columns(loss.piece, loss.vocabulary, true);
	struct column_sums_parameters sums = { .columns = columns.columns, .x = loss.gradient, .partial = loss.behind };
	uint64_t counted = loss.behind + launch_partial_bytes(&columns, 1);
	struct row_parameters p = { .x = loss.logits, .y = loss.gradient, .channels = loss.vocabulary };
	p.all_rows = loss.rows;
	p.factor = launch_address(call, 4);
	call->workspace_bytes += launch_partial_bytes(&columns, 1) + sizeof(double);
	enum tarn_status st = launch_add_labels(call, loss.label, counted, &p);
	for (uint64_t first = 0; first < loss.rows && !st; first += loss.piece) {
		sums.columns.rows = piece_rows(&loss, first);
		sums.adds = first > 0;
		st = add_logits(call, &loss, first);
		if (!st)
			st = add_row_gradients(call, &loss, &p, first);
		if (!st)
			st = add_gradients(call, &loss, first);
		if (!st)
			st = LAUNCH_ADD(call, "tarn_sum_rows_f32", columns.grid, columns.block, sums);
	}
	if (!st && launch_output(call, 1)->dtype != DTYPE_F32 && loss.piece < loss.rows)
		st = add_rounded_weights(call, &loss);
	const uint64_t dbias = launch_output_address(call, 2);
	return st ? st : launch_add_totals(call, "tarn_finish_columns", &columns, loss.behind, &dbias, 1);
}
