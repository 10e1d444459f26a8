/* precision.c - see precision.h. */
#include "graph/precision.h"

#include "data/streams.h"
#include "graph/storage.h"

#include <string.h>

struct pass {
	const struct graph *from;
	struct graph *to;
	const struct precision *precision;
	uint32_t *id;    /* of each tensor, in `to` */
	uint32_t *other; /* the same tensor in the other of the two types; TENSOR_NONE so far */
	bool *wide;      /* every reader wants float32 */
	bool *narrow;    /* a parameter that is stored in 16 bits */
	uint32_t *input; /* of the op in hand */
	uint32_t scale;  /* what UNSCALE gives, in `from`; TENSOR_NONE */
	struct host_arena *scratch;
};

static bool is_update(enum op_kind kind)
{
	return kind == OP_SGD || kind == OP_MOMENTUM || kind == OP_ADAM;
}

/* ---- what readers want ---- */

static bool wants_wide(const struct pass *pass, uint32_t op, uint32_t operand)
{
	enum op_kind kind = pass->from->op[op].kind;
	const struct op_storage *storage = op_storage(kind);
	if (storage_has(storage->wide_inputs, operand))
		return !is_update(kind) || pass->precision->gradients == DTYPE_F32;
	if (!storage_has(storage->inputs, operand) || storage->policy == STORAGE_FLOAT32)
		return true;
	if (storage->policy == STORAGE_16_BITS)
		return false;
	/* It follows its inputs: so it wants what its own readers want. */
	for (uint32_t k = 0; k < pass->from->op[op].outputs; k++)
		if (storage_has(storage->outputs | storage->wide_outputs, k) &&
		    !pass->wide[op_outputs(pass->from, op)[k]])
			return false;
	return true;
}

static void ask_readers(struct pass *pass)
{
	for (uint32_t t = 0; t < pass->from->tensors; t++)
		pass->wide[t] = true;
	for (uint32_t op = pass->from->ops; op-- > 0;)
		for (uint32_t i = 0; i < pass->from->op[op].inputs; i++)
			if (!wants_wide(pass, op, i))
				pass->wide[op_inputs(pass->from, op)[i]] = false;
}

/*
 * Matrices, kernels and tables that the forward pass reads as such. The backward pass plays no part, so that evaluation
 * has the same parameters as training.
 */
static void choose_narrow(struct pass *pass)
{
	const struct graph *from = pass->from;
	for (uint32_t t = 0; t < from->tensors; t++)
		pass->narrow[t] = pass->precision->weights != DTYPE_F32 && from->tensor[t].role == ROLE_PARAMETER &&
				  from->tensor[t].producer == OP_NONE && from->tensor[t].rank > 1;
	for (uint32_t op = 0; op < from->ops; op++)
		for (uint32_t i = 0; i < from->op[op].inputs && from->op[op].phase == PHASE_FORWARD; i++) {
			const struct op_storage *storage = op_storage(from->op[op].kind);
			if (storage->policy != STORAGE_16_BITS ||
			    !storage_has(storage->inputs | storage->wide_inputs, i))
				pass->narrow[op_inputs(from, op)[i]] = false;
		}
}

/* ---- the new graph ---- */

static enum tarn_status copy_persistents(struct pass *pass)
{
	for (uint32_t t = 0; t < pass->from->tensors; t++) {
		const struct tensor *from = &pass->from->tensor[t];
		if (from->producer != OP_NONE)
			continue;
		enum dtype dtype = pass->narrow[t] ? pass->precision->weights : (enum dtype)from->dtype;
		enum tarn_status st = graph_add_persistent(pass->to, tensor_name(pass->from, t), from->role, dtype,
							   from->dim, from->rank, &pass->id[t]);
		if (st)
			return st;
		struct tensor *to = &pass->to->tensor[pass->id[t]];
		to->init = from->init;
		to->init_bound = from->init_bound;
		to->flags = from->flags;
	}
	return TARN_OK;
}

static bool is_narrow(const struct pass *pass, uint32_t tensor)
{
	return pass->to->tensor[pass->id[tensor]].dtype != DTYPE_F32;
}

/* The tensor as it is read: itself, or cast. */
static enum tarn_status in_type(struct pass *pass, uint32_t tensor, uint32_t dtype, uint32_t phase, uint32_t *out)
{
	*out = pass->id[tensor];
	uint32_t stored = pass->to->tensor[*out].dtype;
	if (!dtype_is_real(stored) || stored == dtype)
		return TARN_OK;
	*out = pass->other[tensor];
	if (*out != TENSOR_NONE)
		return TARN_OK;
	const struct op_attr attr = { .mode = dtype };
	char *name = host_arena_printf(pass->scratch, "%s/%s", tensor_name(pass->from, tensor), dtype_name(dtype));
	if (!name)
		return TARN_ENOMEM;
	enum tarn_status st =
		graph_add_op(pass->to, OP_CAST, (enum op_phase)phase, name, &attr, &pass->id[tensor], 1, out);
	if (!st)
		pass->other[tensor] = *out;
	return st;
}

/* The storage type of the op in the new graph. */
static uint32_t type_of_op(const struct pass *pass, uint32_t op)
{
	const struct op_storage *storage = op_storage(pass->from->op[op].kind);
	if (storage->policy == STORAGE_16_BITS)
		return pass->precision->compute;
	for (uint32_t i = 0; i < pass->from->op[op].inputs && storage->policy == STORAGE_FOLLOW; i++)
		if (storage_has(storage->inputs, i) &&
		    dtype_is_real(pass->from->tensor[op_inputs(pass->from, op)[i]].dtype) &&
		    is_narrow(pass, op_inputs(pass->from, op)[i]))
			return pass->precision->compute;
	return DTYPE_F32;
}

/* The results that may have either type: all of an op have the same. */
static uint32_t type_of_results(const struct pass *pass, uint32_t op)
{
	const struct op_storage *storage = op_storage(pass->from->op[op].kind);
	for (uint32_t i = 0; i < pass->from->op[op].inputs; i++)
		if (storage_has(storage->wide_inputs, i) && is_narrow(pass, op_inputs(pass->from, op)[i]))
			return pass->precision->compute;
	for (uint32_t k = 0; k < pass->from->op[op].outputs; k++)
		if (storage_has(storage->wide_outputs, k) && !pass->wide[op_outputs(pass->from, op)[k]])
			return pass->precision->compute;
	return DTYPE_F32;
}

/* An effect outside of the optimizer that a skipped step must not have: it comes last and reads the scale. */
static bool waits_for_scale(const struct pass *pass, uint32_t op)
{
	const uint32_t inputs = pass->from->op[op].inputs;
	return pass->scale != TENSOR_NONE && op_skip_input(pass->from->op[op].kind, inputs) == UINT32_MAX &&
	       op_skip_input(pass->from->op[op].kind, inputs + 1) != UINT32_MAX;
}

static enum tarn_status copy_op(struct pass *pass, uint32_t op)
{
	const struct op *from = &pass->from->op[op];
	const struct op_storage *storage = op_storage(from->kind);
	const uint32_t *input = op_inputs(pass->from, op), type = type_of_op(pass, op);
	const char *result = tensor_name(pass->from, op_outputs(pass->from, op)[0]);
	uint32_t made[OP_MAX_OUTPUTS];
	struct op_attr attr = from->attr;
	enum tarn_status st = TARN_OK;
	if (storage->wide_outputs && (storage->policy != STORAGE_FOLLOW || type != DTYPE_F32))
		attr.mode = type_of_results(pass, op);
	for (uint32_t i = 0; i < from->inputs && !st; i++) {
		pass->input[i] = pass->id[input[i]];
		if (!storage_has(storage->wide_inputs, i))
			st = in_type(pass, input[i], storage_has(storage->inputs, i) ? type : DTYPE_F32, from->phase,
				     &pass->input[i]);
	}
	/* Rows of 16 bits may begin where no view can. */
	enum op_kind kind =
		from->kind == OP_SLICE_VIEW && !st ? slice_kind(pass->to, pass->input[0], &attr) : from->kind;
	const bool late = waits_for_scale(pass, op);
	if (is_update(from->kind) && pass->narrow[input[0]])
		attr.stream = STREAM_ROUNDING + pass->id[input[0]];
	if (late)
		pass->input[from->inputs] = pass->id[pass->scale];
	if (!st)
		st = graph_add_op(pass->to, kind, late ? PHASE_UPDATE : (enum op_phase)from->phase,
				  op_row(from->kind)->version_of[0] < 0 ? result : op_name(pass->from, op), &attr,
				  pass->input, from->inputs + late, made);
	if (st)
		return st;
	for (uint32_t k = 0; k < from->outputs; k++)
		pass->id[op_outputs(pass->from, op)[k]] = made[k];
	uint32_t name = graph_text(pass->to, op_name(pass->from, op));
	pass->to->op[pass->to->ops - 1].name = name;
	return name == UINT32_MAX ? TARN_ENOMEM : TARN_OK;
}

enum tarn_status precision_apply(const struct graph *from, const struct precision *precision,
				 struct host_arena *scratch, struct graph *to)
{
	uint32_t most = 1;
	for (uint32_t op = 0; op < from->ops; op++)
		most = from->op[op].inputs > most ? from->op[op].inputs : most;
	struct pass pass = {
		.from = from,
		.to = to,
		.precision = precision,
		.id = HOST_ARRAY(scratch, from->tensors, uint32_t),
		.other = HOST_ARRAY(scratch, from->tensors, uint32_t),
		.wide = HOST_ARRAY(scratch, from->tensors, bool),
		.narrow = HOST_ARRAY(scratch, from->tensors, bool),
		.input = HOST_ARRAY(scratch, most + 1, uint32_t),
		.scale = TENSOR_NONE,
		.scratch = scratch,
	};
	if (!pass.id || !pass.other || !pass.wide || !pass.narrow || !pass.input)
		return TARN_ENOMEM;
	memset(pass.other, 0xFF, from->tensors * sizeof *pass.other);
	for (uint32_t op = 0; op < from->ops; op++)
		if (from->op[op].kind == OP_UNSCALE)
			pass.scale = op_outputs(from, op)[0];
	ask_readers(&pass);
	choose_narrow(&pass);
	enum tarn_status st = copy_persistents(&pass);
	for (uint32_t op = 0; op < from->ops && !st; op++)
		if (!waits_for_scale(&pass, op))
			st = copy_op(&pass, op);
	for (uint32_t op = 0; op < from->ops && !st; op++)
		if (waits_for_scale(&pass, op))
			st = copy_op(&pass, op);
	if (st)
		return st;
	to->batch = from->batch;
	to->scalars = from->scalars == TENSOR_NONE ? TENSOR_NONE : pass.id[from->scalars];
	return TARN_OK;
}
