/* halves.c - see halves.h. */
#include "cpu/halves.h"

#include "cpu/narrow.h"
#include "cpu/onednn.h"

#define OPERANDS 4u /* two factors, a bias, the result */

/* An operand of a piece. */
struct half {
	bool moves;        /* piece by piece along its first axis */
	bool placed;       /* floats in the workspace, at `place` */
	uint64_t place;    /* bytes */
	uint64_t elements; /* of a piece; of all, where it does not move */
};

struct halves {
	uint32_t pieces;
	bool sums;    /* the result is a sum over the pieces */
	uint64_t sum; /* its place, where the result is not float32 itself */
	struct half operand[OPERANDS];
};

bool halves_can(const struct kernel *kernel)
{
	switch (kernel->kind) {
	case OP_CONV2D:
	case OP_CONV2D_GRAD_INPUT:
	case OP_CONV2D_GRAD_WEIGHT:
	case OP_MATMUL:
	case OP_BATCH_MATMUL:
	case OP_ACTIVATION:
	case OP_ACTIVATION_GRAD:
		return true;
	default:
		return false;
	}
}

/* ---- step ---- */

static float *float_place(const struct bound_instr *instr, uint64_t offset)
{
	return (float *)(void *)((unsigned char *)instr->workspace + offset);
}

static void load_piece(const struct bound_instr *instr, const struct halves *halves, uint64_t piece, uint32_t threads)
{
	for (uint32_t i = 0; i < instr->kernel->inputs; i++) {
		const struct half *half = &halves->operand[i];
		if (half->placed && (half->moves || !piece))
			narrow_load_threads(kernel_input(instr->kernel, i)->dtype, instr->address[i],
					    half->moves ? piece * half->elements : 0, float_place(instr, half->place),
					    half->elements, threads);
	}
}

/* A result in float32 is written where it belongs. */
static enum tarn_status move_result(const struct bound_instr *instr, const struct halves *halves, uint64_t piece)
{
	const uint32_t result = instr->kernel->inputs;
	const struct half *half = &halves->operand[result];
	enum tarn_status st = TARN_OK;
	if (half->placed || !half->moves || halves->pieces == 1)
		return TARN_OK;
	for (uint32_t s = 0; s < instr->kernel->stages; s++)
		for (uint32_t i = 0; i < instr->kernel->stage[s].arguments && !st; i++)
			if (instr->kernel->stage[s].argument[i].operand == result)
				st = DNN(dnnl_memory_set_data_handle(instr->argument[s][i].memory,
								     (float *)instr->address[result] +
									     piece * half->elements));
	return st;
}

CPU_CLONES static void add_floats(const float *restrict from, float *restrict to, uint64_t n, bool first)
{
	for (uint64_t i = 0; i < n; i++)
		to[i] = first ? from[i] : to[i] + from[i];
}

static void store_piece(const struct bound_instr *instr, const struct halves *halves, uint64_t piece, uint32_t threads)
{
	const struct operand *result = kernel_output(instr->kernel, 0);
	const struct half *half = &halves->operand[instr->kernel->inputs];
	const bool wide = result->dtype == DTYPE_F32;
	float *place = float_place(instr, half->place), *sum = place;
	if (!half->placed)
		return;
	if (halves->sums && halves->pieces > 1) {
		sum = wide ? instr_output(instr, 0) : float_place(instr, halves->sum);
		add_floats(place, sum, half->elements, !piece);
	}
	if (!wide && (half->moves || piece + 1 == halves->pieces))
		narrow_store_threads(result->dtype, sum, instr_output(instr, 0),
				     half->moves ? piece * half->elements : 0, half->elements, threads);
}

static enum tarn_status run_pieces(struct cpu_state *state, const struct bound_instr *instr)
{
	const struct halves *halves = instr->kernel->halves;
	for (uint64_t piece = 0; piece < halves->pieces; piece++) {
		load_piece(instr, halves, piece, state->threads);
		enum tarn_status st = move_result(instr, halves, piece);
		if (!st)
			st = dnn_launch(state, instr);
		if (st)
			return st;
		store_piece(instr, halves, piece, state->threads);
	}
	return TARN_OK;
}

/* ---- boot ---- */

/* Which operands have the batch as their first axis; none where it cannot be cut. */
static void find_moving(const struct kernel *kernel, struct halves *halves)
{
	struct half *half = halves->operand, *result = &half[kernel->inputs];
	const struct op_attr *attr = &kernel->attr;
	switch (kernel->kind) {
	case OP_CONV2D:
	case OP_CONV2D_GRAD_INPUT:
		half[0].moves = result->moves = true;
		return;
	case OP_CONV2D_GRAD_WEIGHT:
		half[0].moves = half[1].moves = halves->sums = true;
		return;
	case OP_MATMUL:
		if (!attr->transpose_a)
			half[0].moves = result->moves = true;
		else if (!attr->transpose_b && kernel->inputs == 2 && attr->activation == ACTIVATION_NONE)
			half[0].moves = half[1].moves = halves->sums = true;
		return;
	case OP_BATCH_MATMUL:
		half[0].moves = half[1].moves = result->moves = kernel_input(kernel, 0)->rank > 2;
		return;
	default: /* element by element */
		for (uint32_t i = 0; i <= kernel->inputs; i++)
			half[i].moves = true;
	}
}

static bool is_element_wise(const struct kernel *kernel)
{
	return kernel->kind == OP_ACTIVATION || kernel->kind == OP_ACTIVATION_GRAD;
}

/* The fewest equal pieces in which no operand that moves is longer than HALVES_PIECE. */
static uint32_t count_pieces(const struct kernel *kernel, const struct halves *halves)
{
	const struct operand *first = kernel_input(kernel, 0);
	const uint64_t batch = is_element_wise(kernel) ? first->elements : first->dim[0];
	uint64_t longest = 0;
	for (uint32_t i = 0; i <= kernel->inputs; i++)
		if (halves->operand[i].moves && kernel->operand[i].elements > longest)
			longest = kernel->operand[i].elements;
	const uint64_t least = (longest + HALVES_PIECE - 1) / HALVES_PIECE;
	for (uint64_t pieces = least ? least : 1; pieces <= batch && pieces <= 8 * least; pieces++)
		if (batch % pieces == 0)
			return (uint32_t)pieces;
	return 1;
}

/* The operands of a piece, as floats. */
static void cut_operands(const struct kernel *kernel, struct halves *halves, struct operand *operand)
{
	for (uint32_t i = 0; i <= kernel->inputs; i++) {
		struct half *half = &halves->operand[i];
		const uint32_t pieces = half->moves ? halves->pieces : 1;
		operand[i] = kernel->operand[i];
		operand[i].dtype = DTYPE_F32;
		operand[i].dim[0] /= is_element_wise(kernel) ? 1 : pieces;
		operand[i].rows /= pieces;
		operand[i].elements /= pieces;
		operand[i].bytes = operand[i].elements * sizeof(float);
		half->elements = operand[i].elements;
		half->placed = operand_is_narrow(&kernel->operand[i]) ||
			       (i == kernel->inputs && halves->sums && halves->pieces > 1);
	}
}

static uint64_t take(struct kernel *kernel, uint64_t floats)
{
	uint64_t at = bytes_align(kernel->info.workspace_bytes);
	kernel->info.workspace_bytes = at + bytes_align(floats * sizeof(float));
	return at;
}

static void place_operands(struct kernel *kernel, struct halves *halves)
{
	for (uint32_t i = 0; i <= kernel->inputs; i++) {
		struct half *half = &halves->operand[i];
		if (!half->placed)
			continue;
		half->place = take(kernel, half->elements);
		for (uint32_t s = 0; s < kernel->stages; s++)
			for (uint32_t k = 0; k < kernel->stage[s].arguments; k++) {
				struct dnn_argument *argument = &kernel->stage[s].argument[k];
				if (argument->operand != i)
					continue;
				argument->operand = DNN_WORKSPACE;
				argument->offset = half->place;
			}
	}
	if (halves->sums && halves->pieces > 1 && operand_is_narrow(kernel_output(kernel, 0)))
		halves->sum = take(kernel, halves->operand[kernel->inputs].elements);
}

enum tarn_status halves_prepare(struct device *device, struct kernel *kernel, kernel_prepare *prepare)
{
	struct halves *halves = HOST_NEW(device->host, struct halves);
	struct operand piece[OPERANDS], *const whole = kernel->operand;
	if (!halves)
		return TARN_ENOMEM;
	find_moving(kernel, halves);
	halves->pieces = count_pieces(kernel, halves);
	cut_operands(kernel, halves, piece);
	kernel->operand = piece;
	enum tarn_status st = prepare(device, kernel);
	kernel->operand = whole;
	if (st)
		return st;
	if (!kernel->stages)
		return prepare(device, kernel);
	place_operands(kernel, halves);
	kernel->halves = halves;
	kernel->run = run_pieces;
	return TARN_OK;
}
