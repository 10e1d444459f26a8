/*
 * launch_rows.c - ops on rows (normalisation, softmax, cross-entropy, number of correct rows), and sums over
 * everything.
 */
#include "cuda/launch.h"

/* Elements of a row that a thread takes before a wider team pays. */
#define ROW_SHARE 4u

struct launch_rows launch_cut_rows(uint64_t rows, uint32_t channels, bool partial)
{
	uint32_t width = launch_power_of_two(launch_divide(channels, ROW_SHARE), KERNEL_THREADS);
	uint32_t teams = KERNEL_THREADS / width;
	uint64_t rounds = partial ? launch_divide(launch_divide(rows, teams), LAUNCH_SUM_BLOCKS) : 1;
	struct launch_rows cut = { .block_rows = (uint32_t)(teams * rounds), .block = { width, teams, 1 } };
	cut.blocks = launch_divide(rows, teams * rounds);
	cut.grid = (struct extent3){ cut.blocks, 1, 1 };
	return cut;
}

struct row_parameters launch_row_parameters(uint64_t rows, uint32_t channels, const struct launch_rows *cut)
{
	return (struct row_parameters){
		.rows = rows, .channels = channels, .block_rows = cut->block_rows, .all_rows = rows
	};
}

static struct launch_rows cut_rows(const struct tensor *matrix, bool partial)
{
	return launch_cut_rows(tensor_rows(matrix), launch_channels(matrix), partial);
}

static struct row_parameters row_parameters(const struct tensor *matrix, const struct launch_rows *cut)
{
	return launch_row_parameters(tensor_rows(matrix), launch_channels(matrix), cut);
}

enum tarn_status launch_layer_norm(struct launch_call *call)
{
	struct launch_rows cut = cut_rows(launch_tensor(call, 0), false);
	struct row_parameters p = row_parameters(launch_tensor(call, 0), &cut);
	p.x = launch_address(call, 0);
	p.gamma = launch_address(call, 1);
	p.beta = launch_address(call, 2);
	p.y = launch_output_address(call, 0);
	p.new_mean = launch_output_address(call, 1);
	p.new_deviation = launch_output_address(call, 2);
	p.epsilon = call->op->attr.epsilon;
	return LAUNCH_ADD(call, "tarn_layer_norm_f32", cut.grid, cut.block, p);
}

enum tarn_status launch_layer_norm_grad(struct launch_call *call)
{
	struct launch_rows cut = cut_rows(launch_tensor(call, 1), false);
	struct row_parameters p = row_parameters(launch_tensor(call, 1), &cut);
	p.dy = launch_address(call, 0);
	p.x = launch_address(call, 1);
	p.mean = launch_address(call, 2);
	p.deviation = launch_address(call, 3);
	p.gamma = launch_address(call, 4);
	p.y = launch_output_address(call, 0);
	return LAUNCH_ADD(call, "tarn_layer_norm_grad_f32", cut.grid, cut.block, p);
}

enum tarn_status launch_rms_norm(struct launch_call *call)
{
	struct launch_rows cut = cut_rows(launch_tensor(call, 0), false);
	struct row_parameters p = row_parameters(launch_tensor(call, 0), &cut);
	p.x = launch_address(call, 0);
	p.gamma = launch_address(call, 1);
	p.y = launch_output_address(call, 0);
	p.new_deviation = launch_output_address(call, 1);
	p.epsilon = call->op->attr.epsilon;
	return LAUNCH_ADD(call, "tarn_rms_norm_f32", cut.grid, cut.block, p);
}

enum tarn_status launch_rms_norm_grad(struct launch_call *call)
{
	struct launch_rows cut = cut_rows(launch_tensor(call, 1), false);
	struct row_parameters p = row_parameters(launch_tensor(call, 1), &cut);
	p.dy = launch_address(call, 0);
	p.x = launch_address(call, 1);
	p.deviation = launch_address(call, 2);
	p.gamma = launch_address(call, 3);
	p.y = launch_output_address(call, 0);
	return LAUNCH_ADD(call, "tarn_rms_norm_grad_f32", cut.grid, cut.block, p);
}

/* v, g -> w;  dw, v, g -> dv, dg. A row is an output. */
enum tarn_status launch_weight_norm(struct launch_call *call)
{
	bool backward = call->op->kind == OP_WEIGHT_NORM_GRAD;
	const struct tensor *v = launch_tensor(call, backward);
	uint64_t channels = launch_product(v, 1, v->rank);
	if (channels > INT32_MAX)
		return launch_fail(call, "%llu weights of an output; at most %d", (unsigned long long)channels,
				   INT32_MAX);
	struct launch_rows cut = launch_cut_rows(v->dim[0], (uint32_t)channels, false);
	struct row_parameters p = launch_row_parameters(v->dim[0], (uint32_t)channels, &cut);
	p.dy = backward ? launch_address(call, 0) : 0;
	p.x = launch_address(call, backward);
	p.gamma = launch_address(call, backward + 1u);
	p.y = launch_output_address(call, 0);
	p.new_mean = backward ? launch_output_address(call, 1) : 0;
	return LAUNCH_ADD(call, backward ? "tarn_weight_norm_grad_f32" : "tarn_weight_norm_f32", cut.grid, cut.block,
			  p);
}

/* x -> y; or dy, y -> dx. */
enum tarn_status launch_softmax(struct launch_call *call)
{
	const struct op *op = call->op;
	bool backward = op->kind == OP_SOFTMAX_GRAD || op->kind == OP_LOG_SOFTMAX_GRAD;
	const struct tensor *x = launch_tensor(call, 0);
	struct launch_rows cut = cut_rows(x, false);
	struct row_parameters p = row_parameters(x, &cut);
	p.dy = backward ? launch_address(call, 0) : 0;
	p.x = launch_address(call, backward);
	p.y = launch_output_address(call, 0);
	p.scale = op->attr.alpha == 0.0f ? 1.0f : op->attr.alpha;
	p.causal_rows = op->attr.causal ? x->dim[x->rank - 2] : 0;
	const char *function = op->kind == OP_SOFTMAX        ? "tarn_softmax_f32"
			       : op->kind == OP_SOFTMAX_GRAD ? "tarn_softmax_grad_f32"
			       : op->kind == OP_LOG_SOFTMAX  ? "tarn_log_softmax_f32"
							     : "tarn_log_softmax_grad_f32";
	return LAUNCH_ADD(call, function, cut.grid, cut.block, p);
}

enum tarn_status launch_finish(struct launch_call *call, uint64_t count, double divisor, uint64_t counted)
{
	struct finish_parameters p = { .partial = call->workspace, .count = count, .divisor = divisor };
	p.out = launch_output_address(call, 0);
	p.counted = counted;
	return LAUNCH_ADD(call, "tarn_finish_total", ((struct extent3){ 1, 1, 1 }), launch_flat_block(), p);
}

enum tarn_status launch_add_labels(struct launch_call *call, uint64_t label, uint64_t counted, struct row_parameters *p)
{
	const struct op_attr *attr = &call->op->attr;
	struct count_labels_parameters count = { .counted = counted, .ignored = attr->ignore_index };
	p->label = label;
	p->smoothing = attr->label_smoothing;
	p->ignored = attr->ignore_index;
	p->ignores = attr->has_ignore_index != 0;
	if (!p->ignores || call->op->kind == OP_COUNT_CORRECT)
		return TARN_OK;
	p->counted = counted;
	count.label = p->label;
	count.rows = p->all_rows;
	return LAUNCH_ADD(call, "tarn_count_labels", ((struct extent3){ 1, 1, 1 }), launch_flat_block(), count);
}

/* Logits and labels to one number. The workspace: a double for each block, then the rows that count. */
static enum tarn_status add_row_sum(struct launch_call *call, const char *function, double divisor)
{
	struct launch_rows cut = cut_rows(launch_tensor(call, 0), true);
	struct row_parameters p = row_parameters(launch_tensor(call, 0), &cut);
	uint64_t counted = call->workspace + cut.blocks * sizeof(double);
	call->workspace_bytes = (cut.blocks + 1) * sizeof(double);
	p.x = launch_address(call, 0);
	p.partial = call->workspace;
	enum tarn_status st = launch_add_labels(call, launch_address(call, 1), counted, &p);
	if (!st)
		st = LAUNCH_ADD(call, function, cut.grid, cut.block, p);
	return st ? st : launch_finish(call, cut.blocks, divisor, p.counted);
}

enum tarn_status launch_cross_entropy(struct launch_call *call)
{
	return add_row_sum(call, "tarn_cross_entropy_f32", (double)tensor_rows(launch_tensor(call, 0)));
}

enum tarn_status launch_count_correct(struct launch_call *call)
{
	return add_row_sum(call, "tarn_count_correct_f32", 1.0);
}

enum tarn_status launch_cross_entropy_grad(struct launch_call *call)
{
	struct launch_rows cut = cut_rows(launch_tensor(call, 0), false);
	struct row_parameters p = row_parameters(launch_tensor(call, 0), &cut);
	enum tarn_status st = launch_add_labels(call, launch_address(call, 1), call->workspace, &p);
	p.x = launch_address(call, 0);
	call->workspace_bytes = p.ignores ? sizeof(double) : 0;
	p.factor = launch_address(call, 2);
	p.y = launch_output_address(call, 0);
	return st ? st : LAUNCH_ADD(call, "tarn_cross_entropy_grad_f32", cut.grid, cut.block, p);
}

/* labels -> q (rows, K) */
enum tarn_status launch_label_weights(struct launch_call *call)
{
	const struct tensor *q = launch_output(call, 0);
	struct row_parameters p = { .rows = tensor_rows(q),
				    .all_rows = tensor_rows(q),
				    .channels = launch_channels(q) };
	enum tarn_status st = launch_add_labels(call, launch_address(call, 0), call->workspace, &p);
	call->workspace_bytes = p.ignores ? sizeof(double) : 0;
	p.y = launch_output_address(call, 0);
	return st ? st
		  : LAUNCH_ADD(call, "tarn_label_weights", launch_blocks(p.rows * p.channels, 1), launch_flat_block(),
			       p);
}

/* x, labels of a part, labels of the whole batch -> y */
enum tarn_status launch_label_share(struct launch_call *call)
{
	struct label_share_parameters p = { .x = launch_address(call, 0), .y = launch_output_address(call, 0) };
	p.part = launch_address(call, 1);
	p.whole = launch_address(call, 2);
	p.part_labels = tensor_elements(launch_tensor(call, 1));
	p.whole_labels = tensor_elements(launch_tensor(call, 2));
	p.ignored = call->op->attr.ignore_index;
	p.ignores = call->op->attr.has_ignore_index != 0;
	return LAUNCH_ADD(call, "tarn_label_share", ((struct extent3){ 1, 1, 1 }), launch_flat_block(), p);
}

/* ---- sums over all elements ---- */

static enum tarn_status add_total(struct launch_call *call, const char *function, double divisor)
{
	struct total_parameters p = { .a = launch_address(call, 0), .partial = call->workspace };
	p.elements = tensor_elements(launch_tensor(call, 0));
	p.b = call->op->inputs > 1 ? launch_address(call, 1) : 0;
	uint64_t unit = KERNEL_THREADS * KERNEL_RUN;
	p.block_elements = unit * launch_divide(launch_divide(p.elements, unit), LAUNCH_SUM_BLOCKS);
	struct extent3 grid = { launch_divide(p.elements, p.block_elements), 1, 1 };
	call->workspace_bytes = grid.x * sizeof(double);
	enum tarn_status st = LAUNCH_ADD(call, function, grid, launch_flat_block(), p);
	return st ? st : launch_finish(call, grid.x, divisor, 0);
}

enum tarn_status launch_sum_squares(struct launch_call *call)
{
	return add_total(call, "tarn_sum_squares_f32", 1.0);
}

enum tarn_status launch_squared_error(struct launch_call *call)
{
	return add_total(call, "tarn_squared_error_f32", (double)tensor_elements(launch_tensor(call, 0)));
}

enum tarn_status launch_binary_cross_entropy(struct launch_call *call)
{
	return add_total(call, "tarn_binary_cross_entropy_f32", (double)tensor_elements(launch_tensor(call, 0)));
}

/* The addresses of up to CLIP_INPUTS inputs from `first` on, in units of TARN_ALIGNMENT above the lowest input. */
static enum tarn_status clip_units(const struct launch_call *call, uint32_t first, uint64_t base,
				   struct clip_parameters *p)
{
	for (uint32_t i = 0; i < p->count; i++) {
		uint64_t units = (launch_address(call, first + i) - base) / TARN_ALIGNMENT;
		if (units > UINT32_MAX)
			return launch_fail(call, "its inputs lie %llu bytes apart; at most 256 GiB",
					   (unsigned long long)(units * TARN_ALIGNMENT));
		p->unit[i] = (uint32_t)units;
	}
	return TARN_OK;
}

enum tarn_status launch_clip_scale(struct launch_call *call)
{
	uint32_t inputs = call->op->inputs;
	uint64_t base = launch_address(call, 0);
	for (uint32_t i = 1; i < inputs; i++)
		if (launch_address(call, i) < base)
			base = launch_address(call, i);
	call->workspace_bytes = inputs > CLIP_INPUTS ? sizeof(double) : 0;
	for (uint32_t first = 0; first < inputs; first += CLIP_INPUTS) {
		struct clip_parameters p = { .base = base, .carry = call->workspace, .carried = first > 0 };
		bool last = inputs - first <= CLIP_INPUTS;
		p.count = last ? inputs - first : CLIP_INPUTS;
		p.limit = call->op->attr.alpha;
		p.scale = last ? launch_output_address(call, 0) : 0;
		p.norm = last ? launch_output_address(call, 1) : 0;
		enum tarn_status st = clip_units(call, first, base, &p);
		if (!st)
			st = LAUNCH_ADD(call, "tarn_clip_scale", ((struct extent3){ 1, 1, 1 }), launch_flat_block(), p);
		if (st)
			return st;
	}
	return TARN_OK;
}
