/*
 * launch_columns.c - work on (rows, channels) matrices by columns: sums over rows, batch normalisation, epilogues.
 *
 * A block has as many threads along a row as there are channels, up to 32, rounded up to a power of two; the others
 * work on further rows. So both 3 and 600 channels are read in whole cache lines.
 */
#include "cuda/launch.h"

#include <math.h>

#define WIDEST 32u
/* Rows of a thread in a chunk: two runs. */
#define CHUNK_ROWS ((uint64_t)2 * KERNEL_RUN)

struct launch_columns launch_cut_columns(uint64_t rows, uint32_t channels, bool sums)
{
	struct launch_columns cut = { .columns = { .rows = rows, .channels = channels } };
	uint32_t width = launch_power_of_two(cut.columns.channels, WIDEST), height = KERNEL_THREADS / width;
	uint64_t blocks = launch_divide(cut.columns.channels, width), chunk = height * CHUNK_ROWS;
	if (sums) { /* few enough chunks for a small workspace and a short second stage */
		uint64_t most = blocks < LAUNCH_SUM_BLOCKS ? LAUNCH_SUM_BLOCKS / blocks : 1;
		chunk *= launch_divide(launch_divide(cut.columns.rows, chunk), most);
	}
	cut.columns.chunk_rows = chunk;
	uint64_t chunks = launch_divide(cut.columns.rows, chunk);
	cut.columns.row_chunks = (uint32_t)chunks;
	cut.grid = (struct extent3){ chunks, blocks, 1 };
	cut.block = (struct extent3){ width, height, 1 };
	return cut;
}

static struct launch_columns cut_tensor(const struct tensor *matrix, bool sums)
{
	return launch_cut_columns(tensor_rows(matrix), launch_channels(matrix), sums);
}

uint64_t launch_partial_bytes(const struct launch_columns *cut, uint32_t sums)
{
	return (uint64_t)cut->columns.row_chunks * cut->columns.channels * sums * sizeof(double);
}

enum tarn_status launch_add_totals(struct launch_call *call, const char *function, const struct launch_columns *cut,
				   uint64_t partial, const uint64_t *out, uint32_t sums)
{
	struct column_totals_parameters p = { .columns = cut->columns, .partial = partial, .sums = sums };
	struct extent3 grid = { 1, cut->grid.y, 1 };
	for (uint32_t k = 0; k < sums; k++)
		p.out[k] = out[k];
	return LAUNCH_ADD(call, function, grid, cut->block, p);
}

/* Partial sums of `sums` kinds fill the workspace and become the op's outputs. */
static enum tarn_status add_totals(struct launch_call *call, const char *function, const struct launch_columns *cut,
				   uint32_t sums)
{
	const uint64_t out[] = { launch_output_address(call, 0), sums > 1 ? launch_output_address(call, 1) : 0 };
	call->workspace_bytes = launch_partial_bytes(cut, sums);
	return launch_add_totals(call, function, cut, call->workspace, out, sums);
}

enum tarn_status launch_sum_rows(struct launch_call *call)
{
	struct launch_columns cut = cut_tensor(launch_tensor(call, 0), true);
	struct column_sums_parameters p = { .columns = cut.columns, .x = launch_address(call, 0) };
	p.partial = call->workspace;
	enum tarn_status st = LAUNCH_ADD(call, "tarn_sum_rows_f32", cut.grid, cut.block, p);
	return st ? st : add_totals(call, "tarn_finish_columns", &cut, 1);
}

enum tarn_status launch_layer_norm_grad_param(struct launch_call *call)
{
	struct launch_columns cut = cut_tensor(launch_tensor(call, 1), true);
	struct column_sums_parameters p = { .columns = cut.columns, .partial = call->workspace };
	p.dy = launch_address(call, 0);
	p.x = launch_address(call, 1);
	p.row_mean = launch_address(call, 2);
	p.row_deviation = launch_address(call, 3);
	enum tarn_status st = LAUNCH_ADD(call, "tarn_layer_norm_grad_param_f32", cut.grid, cut.block, p);
	return st ? st : add_totals(call, "tarn_finish_columns", &cut, 2);
}

enum tarn_status launch_group_norm_grad_param(struct launch_call *call)
{
	const struct tensor *x = launch_tensor(call, 1);
	struct launch_columns cut = cut_tensor(x, true);
	struct column_sums_parameters p = { .columns = cut.columns, .partial = call->workspace };
	p.dy = launch_address(call, 0);
	p.x = launch_address(call, 1);
	p.row_mean = launch_address(call, 2);
	p.row_deviation = launch_address(call, 3);
	p.positions = cut.columns.rows / x->dim[0];
	p.groups = call->op->attr.groups;
	enum tarn_status st = LAUNCH_ADD(call, "tarn_group_norm_grad_param_f32", cut.grid, cut.block, p);
	return st ? st : add_totals(call, "tarn_finish_columns", &cut, 2);
}

enum tarn_status launch_rms_norm_grad_param(struct launch_call *call)
{
	struct launch_columns cut = cut_tensor(launch_tensor(call, 1), true);
	struct column_sums_parameters p = { .columns = cut.columns, .partial = call->workspace };
	p.dy = launch_address(call, 0);
	p.x = launch_address(call, 1);
	p.row_deviation = launch_address(call, 2);
	enum tarn_status st = LAUNCH_ADD(call, "tarn_rms_norm_grad_param_f32", cut.grid, cut.block, p);
	return st ? st : add_totals(call, "tarn_finish_columns", &cut, 1);
}

/* mean, var, gamma, beta from input `first` on. */
static struct batch_norm_parameters batch_norm(const struct launch_call *call, const struct launch_columns *cut,
					       uint32_t first)
{
	struct batch_norm_parameters p = { .columns = cut->columns, .partial = call->workspace };
	p.mean = launch_address(call, first);
	p.variance = launch_address(call, first + 1);
	p.gamma = launch_address(call, first + 2);
	p.beta = launch_address(call, first + 3);
	p.epsilon = call->op->attr.epsilon;
	launch_clamp(call->op->attr.activation, &p.low, &p.high);
	return p;
}

enum tarn_status launch_batch_stats(struct launch_call *call)
{
	struct launch_columns cut = cut_tensor(launch_tensor(call, 0), true);
	struct batch_norm_parameters p = { .columns = cut.columns, .x = launch_address(call, 0) };
	p.partial = call->workspace;
	enum tarn_status st = LAUNCH_ADD(call, "tarn_batch_stats_f32", cut.grid, cut.block, p);
	return st ? st : add_totals(call, "tarn_finish_batch_stats", &cut, 2);
}

enum tarn_status launch_batch_apply(struct launch_call *call)
{
	struct launch_columns cut = cut_tensor(launch_tensor(call, 0), false);
	struct batch_norm_parameters p = batch_norm(call, &cut, 1);
	p.x = launch_address(call, 0);
	p.y = launch_output_address(call, 0);
	return LAUNCH_ADD(call, "tarn_batch_apply_f32", cut.grid, cut.block, p);
}

enum tarn_status launch_batch_reduce(struct launch_call *call)
{
	struct launch_columns cut = cut_tensor(launch_tensor(call, 1), true);
	struct batch_norm_parameters p = batch_norm(call, &cut, 2);
	p.dy = launch_address(call, 0);
	p.x = launch_address(call, 1);
	enum tarn_status st = LAUNCH_ADD(call, "tarn_batch_reduce_f32", cut.grid, cut.block, p);
	return st ? st : add_totals(call, "tarn_finish_columns", &cut, 2);
}

enum tarn_status launch_batch_grad_input(struct launch_call *call)
{
	struct launch_columns cut = cut_tensor(launch_tensor(call, 1), false);
	struct batch_norm_parameters p = batch_norm(call, &cut, 2);
	p.dy = launch_address(call, 0);
	p.x = launch_address(call, 1);
	p.dgamma = launch_address(call, 6);
	p.dbeta = launch_address(call, 7);
	p.y = launch_output_address(call, 0);
	return LAUNCH_ADD(call, "tarn_batch_grad_input_f32", cut.grid, cut.block, p);
}

enum tarn_status launch_running_update(struct launch_call *call)
{
	const struct op_attr *attr = &call->op->attr;
	uint32_t samples = attr->samples;
	struct running_update_parameters p = { .channels = launch_channels(launch_tensor(call, 0)) };
	p.old_mean = launch_address(call, 0);
	p.old_variance = launch_address(call, 1);
	p.old_count = launch_address(call, 2);
	p.mean = launch_address(call, 3);
	p.variance = launch_address(call, 4);
	p.new_mean = launch_output_address(call, 0);
	p.new_variance = launch_output_address(call, 1);
	p.new_count = launch_output_address(call, 2);
	p.momentum = attr->momentum;
	p.keep = 1.0f - attr->momentum;
	p.unbiased = samples > 1 ? (float)samples / (float)(samples - 1) : 1.0f;
	return LAUNCH_ADD(call, "tarn_running_update", launch_blocks(p.channels, 1), launch_flat_block(), p);
}

/* In place on a matrix. */
static enum tarn_status add_epilogue(struct launch_call *call, uint64_t rows, uint32_t channels,
				     struct epilogue_parameters *p)
{
	struct launch_columns cut = launch_cut_columns(rows, channels, false);
	p->columns = cut.columns;
	if (!p->bias && isinf(p->low) && isinf(p->high))
		return TARN_OK;
	return LAUNCH_ADD(call, "tarn_epilogue_f32", cut.grid, cut.block, *p);
}

/* On the result of a CONV2D, whose third input is the bias. */
enum tarn_status launch_epilogue(struct launch_call *call)
{
	const struct tensor *y = launch_output(call, 0);
	struct epilogue_parameters p = { .y = launch_output_address(call, 0) };
	p.bias = call->op->inputs == 3 ? launch_address(call, 2) : 0;
	launch_clamp(call->op->attr.activation, &p.low, &p.high);
	return add_epilogue(call, tensor_rows(y), launch_channels(y), &p);
}

enum tarn_status cuda_launch_product_epilogue(const struct cuda_launch *product, struct cuda_launch_list *list)
{
	const struct matmul_parameters *of = product->parameter;
	struct launch_call call = { .list = list, .stored = of->wide ? STORED_F32 : (enum storage_kind)of->stored };
	struct epilogue_parameters p = { .y = of->c, .bias = of->bias, .low = of->low, .high = of->high };
	list->first = list->last = NULL;
	list->launches = 0;
	return add_epilogue(&call, of->batch * of->m, (uint32_t)of->n, &p);
}
