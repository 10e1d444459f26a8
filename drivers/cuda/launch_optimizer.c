/* launch_optimizer.c - optimizer steps and running averages, in place on weights and state. */
#include "cuda/launch.h"

#include "graph/blockwise.h"

#include <string.h>

static const char *update_kernel(uint32_t kind)
{
	switch ((enum op_kind)kind) {
	case OP_SGD:
		return "tarn_sgd_f32";
	case OP_MOMENTUM:
		return "tarn_momentum_f32";
	case OP_LION:
		return "tarn_lion_f32";
	default:
		return "tarn_adam_f32";
	}
}

/* w, states ..., g, scalars [, scale]: as many states as outputs beyond the first. */
enum tarn_status launch_update(struct launch_call *call)
{
	const struct op_attr *attr = &call->op->attr;
	uint32_t states = call->op->outputs - 1;
	if (attr->stream)
		return launch_fail(call, "there is no kernel that rounds weights of 16 bits at random");
	struct update_parameters p = { .w = launch_address(call, 0), .new_w = launch_output_address(call, 0) };
	if (states > 0) {
		p.first = launch_address(call, 1);
		p.new_first = launch_output_address(call, 1);
	}
	if (states > 1) {
		p.second = launch_address(call, 2);
		p.new_second = launch_output_address(call, 2);
	}
	p.g = launch_address(call, states + 1);
	p.scalars = launch_address(call, states + 2);
	if (call->op->inputs > states + 3)
		p.clip = launch_address(call, states + 3);
	p.elements = tensor_elements(launch_output(call, 0));
	p.rate_scale = attr->rate_scale;
	p.weight_decay = attr->weight_decay;
	p.momentum = attr->momentum;
	p.beta1 = attr->beta1;
	p.beta2 = attr->beta2;
	p.epsilon = attr->epsilon;
	p.nesterov = attr->nesterov;
	p.decoupled = attr->decoupled;
	p.wide_w = launch_tensor(call, 0)->dtype == DTYPE_F32;
	p.wide_g = launch_tensor(call, states + 1)->dtype == DTYPE_F32;
	return LAUNCH_ADD(call, update_kernel(call->op->kind), launch_blocks(p.elements, KERNEL_VECTOR),
			  launch_flat_block(), p);
}

enum tarn_status launch_exponential_average(struct launch_call *call)
{
	struct pointwise_parameters p = { .a = launch_address(call, 0), .b = launch_address(call, 1) };
	p.y = launch_output_address(call, 0);
	p.elements = tensor_elements(launch_output(call, 0));
	p.alpha = call->op->attr.alpha;
	return LAUNCH_ADD(call, "tarn_exponential_average_f32", launch_blocks(p.elements, KERNEL_VECTOR),
			  launch_flat_block(), p);
}

_Static_assert(BLOCK_CODES == BLOCKWISE_ELEMENTS, "a block of threads has a block of codes");

/* w, m, v, g, scalars [, scale] */
enum tarn_status launch_adam_8bit(struct launch_call *call)
{
	const struct op_attr *attr = &call->op->attr;
	struct adam_8bit_parameters p = { .w = launch_address(call, 0), .new_w = launch_output_address(call, 0) };
	p.first = launch_address(call, 1);
	p.second = launch_address(call, 2);
	p.g = launch_address(call, 3);
	p.scalars = launch_address(call, 4);
	p.clip = call->op->inputs > 5 ? launch_address(call, 5) : 0;
	p.new_first = launch_output_address(call, 1);
	p.new_second = launch_output_address(call, 2);
	p.elements = tensor_elements(launch_output(call, 0));
	p.code_bytes = blockwise_codes_bytes(p.elements);
	p.rate_scale = attr->rate_scale;
	p.weight_decay = attr->weight_decay;
	p.beta1 = attr->beta1;
	p.beta2 = attr->beta2;
	p.epsilon = attr->epsilon;
	p.decoupled = attr->decoupled;
	const struct extent3 grid = { blockwise_blocks(p.elements), 1, 1 };
	return LAUNCH_ADD(call, "tarn_adam_8bit", grid, launch_flat_block(), p);
}

/* ---- Adafactor: w, row, column, g, scalars [, scale], or of a vector w, v, g, scalars [, scale] ---- */

/* How the two kinds of sums are cut. */
struct adafactor_cut {
	struct launch_columns columns;
	struct launch_rows rows, squares;
};

static struct adafactor_cut adafactor_cut_of(const struct launch_call *call)
{
	const struct tensor *w = launch_tensor(call, 0);
	uint64_t elements = tensor_elements(w), rows = call->op->kind == OP_ADAFACTOR ? w->dim[0] : elements;
	uint32_t channels = (uint32_t)(elements / rows);
	return (struct adafactor_cut){ .columns = launch_cut_columns(rows, channels, true),
				       .rows = launch_cut_rows(rows, channels, false),
				       .squares = launch_cut_rows(rows, channels, true) };
}

/* Workspace: see struct adafactor_parameters. */
static struct adafactor_parameters adafactor_parameters_of(struct launch_call *call, const struct adafactor_cut *cut)
{
	const bool matrix = call->op->kind == OP_ADAFACTOR;
	const uint32_t gradient = matrix ? 3 : 2;
	struct adafactor_parameters p = { .columns = cut->columns.columns, .w = launch_address(call, 0) };
	p.old_row = launch_address(call, 1);
	p.g = launch_address(call, gradient);
	p.scalars = launch_address(call, gradient + 1);
	p.clip = call->op->inputs > gradient + 2 ? launch_address(call, gradient + 2) : 0;
	p.new_w = launch_output_address(call, 0);
	p.row = launch_output_address(call, 1);
	if (matrix) {
		p.old_column = launch_address(call, 2);
		p.column = launch_output_address(call, 2);
	}
	p.block_rows = cut->squares.block_rows;
	p.blocks = (uint32_t)cut->squares.blocks;
	p.partial = call->workspace;
	p.squares = p.partial + (matrix ? launch_partial_bytes(&cut->columns, 1) : 0);
	p.step = p.squares + 2 * p.blocks * sizeof(double);
	p.column_factor = p.step + 2 * sizeof(float);
	call->workspace_bytes = p.column_factor - call->workspace;
	if (matrix)
		call->workspace_bytes += p.columns.channels * sizeof(float);
	p.rate_scale = call->op->attr.rate_scale;
	p.weight_decay = call->op->attr.weight_decay;
	return p;
}

enum tarn_status launch_adafactor(struct launch_call *call)
{
	const struct adafactor_cut cut = adafactor_cut_of(call);
	const struct adafactor_parameters p = adafactor_parameters_of(call, &cut);
	const struct extent3 one = { 1, 1, 1 };
	const struct extent3 columns = launch_blocks(p.columns.channels, 1);
	const struct extent3 elements = launch_blocks(p.columns.rows * p.columns.channels, 1);
	const bool matrix = call->op->kind == OP_ADAFACTOR;
	enum tarn_status st = LAUNCH_ADD(call, "tarn_adafactor_rows", cut.rows.grid, cut.rows.block, p);
	if (!st && matrix)
		st = LAUNCH_ADD(call, "tarn_adafactor_columns", cut.columns.grid, cut.columns.block, p);
	if (!st && matrix)
		st = LAUNCH_ADD(call, "tarn_adafactor_finish_columns", columns, launch_flat_block(), p);
	if (!st)
		st = LAUNCH_ADD(call, "tarn_adafactor_squares", cut.squares.grid, cut.squares.block, p);
	if (!st)
		st = LAUNCH_ADD(call, "tarn_adafactor_step", one, launch_flat_block(), p);
	return st ? st : LAUNCH_ADD(call, "tarn_adafactor_apply", elements, launch_flat_block(), p);
}
