/* simplify.c - see simplify.h. */
#include "graph/simplify.h"

#include <string.h>

struct pass {
	const struct graph *draft;
	bool *needed_tensor, *needed_op;
	uint32_t *readers;     /* of a tensor, by needed ops */
	uint32_t *only_reader; /* op */
	uint32_t *id;          /* of a draft's tensor in the new graph */
};

static void need_inputs(struct pass *pass, uint32_t op)
{
	pass->needed_op[op] = true;
	for (uint32_t k = 0; k < pass->draft->op[op].inputs; k++)
		pass->needed_tensor[op_inputs(pass->draft, op)[k]] = true;
}

/* From the metrics, the loss and the output backwards. */
static void mark_needed(struct pass *pass, uint32_t loss, uint32_t output)
{
	const struct graph *draft = pass->draft;
	pass->needed_tensor[loss] = pass->needed_tensor[output] = true;
	for (uint32_t op = draft->ops; op-- > 0;) {
		bool needed = op_row(draft->op[op].kind)->effect && draft->op[op].kind != OP_RUNNING_UPDATE;
		for (uint32_t k = 0; k < draft->op[op].outputs; k++)
			needed |= pass->needed_tensor[op_outputs(draft, op)[k]];
		if (needed)
			need_inputs(pass, op);
	}
	/* Running statistics belong to their layer: they are updated when the layer's batch statistics are used. */
	for (uint32_t op = 0; op < draft->ops; op++)
		if (draft->op[op].kind == OP_RUNNING_UPDATE && pass->needed_tensor[op_inputs(draft, op)[3]])
			need_inputs(pass, op);
}

static void count_readers(struct pass *pass)
{
	const struct graph *draft = pass->draft;
	for (uint32_t op = 0; op < draft->ops; op++)
		for (uint32_t k = 0; pass->needed_op[op] && k < draft->op[op].inputs; k++) {
			uint32_t t = op_inputs(draft, op)[k];
			pass->readers[t]++;
			pass->only_reader[t] = op;
		}
}

static bool takes_activation(enum op_kind kind)
{
	return kind == OP_MATMUL || kind == OP_CONV2D || kind == OP_ADD || kind == OP_BATCH_APPLY;
}

/* The activation that becomes part of this op, or OP_NONE. */
static uint32_t fused_activation(const struct pass *pass, uint32_t op)
{
	const struct graph *draft = pass->draft;
	uint32_t y = op_outputs(draft, op)[0];
	if (!takes_activation(draft->op[op].kind) || pass->readers[y] != 1)
		return OP_NONE;
	uint32_t reader = pass->only_reader[y], activation = draft->op[reader].attr.activation;
	bool fits = draft->op[reader].kind == OP_ACTIVATION &&
		    (activation == ACTIVATION_RELU || activation == ACTIVATION_RELU6);
	return fits ? reader : OP_NONE;
}

static bool is_fused(const struct pass *pass, uint32_t op)
{
	uint32_t producer = pass->draft->tensor[op_inputs(pass->draft, op)[0]].producer;
	return pass->draft->op[op].kind == OP_ACTIVATION && producer != OP_NONE &&
	       fused_activation(pass, producer) == op;
}

/*
 * Does a persistent tensor stay? Running statistics and their counter go with gamma, "<layer>/weight": in inference
 * nothing reads the counter, and yet every program must have the same tensors.
 */
static enum tarn_status is_kept(const struct pass *pass, uint32_t tensor, struct host_arena *scratch, bool *kept)
{
	const struct tensor *t = &pass->draft->tensor[tensor];
	const char *name = tensor_name(pass->draft, tensor);
	*kept = t->producer == OP_NONE && (t->role != ROLE_PARAMETER || pass->needed_tensor[tensor]);
	if (t->producer != OP_NONE || (t->role != ROLE_RUNNING_STATISTIC && t->role != ROLE_COUNTER))
		return TARN_OK;
	const char *part = strrchr(name, '/');
	char *gamma = host_arena_printf(scratch, "%.*s/weight", part ? (int)(part - name) : 0, name);
	if (!gamma)
		return TARN_ENOMEM;
	uint32_t id = graph_find(pass->draft, gamma);
	*kept = id == TENSOR_NONE || pass->draft->tensor[id].role != ROLE_PARAMETER || pass->needed_tensor[id];
	return TARN_OK;
}

static enum tarn_status copy_persistents(struct pass *pass, struct host_arena *scratch, struct graph *out)
{
	for (uint32_t t = 0; t < pass->draft->tensors; t++) {
		const struct tensor *from = &pass->draft->tensor[t];
		bool kept;
		enum tarn_status st = is_kept(pass, t, scratch, &kept);
		if (st)
			return st;
		if (!kept)
			continue;
		st = graph_add_persistent(out, tensor_name(pass->draft, t), from->role, from->dtype, from->dim,
					  from->rank, &pass->id[t]);
		if (st)
			return st;
		struct tensor *to = &out->tensor[pass->id[t]];
		to->init = from->init;
		to->init_bound = from->init_bound;
		to->flags = from->flags;
	}
	return TARN_OK;
}

static enum tarn_status copy_op(struct pass *pass, uint32_t op, struct host_arena *scratch, struct graph *out)
{
	const struct graph *draft = pass->draft;
	const struct op *from = &draft->op[op];
	struct op_attr attr = from->attr;
	uint32_t activation = fused_activation(pass, op), result = op_outputs(draft, op)[0];
	if (activation != OP_NONE) {
		attr.activation = draft->op[activation].attr.activation;
		result = op_outputs(draft, activation)[0];
	}
	uint32_t *input = HOST_ARRAY(scratch, from->inputs, uint32_t), made[OP_MAX_OUTPUTS];
	if (!input)
		return TARN_ENOMEM;
	for (uint32_t k = 0; k < from->inputs; k++)
		input[k] = pass->id[op_inputs(draft, op)[k]];
	enum tarn_status st = graph_add_op(out, from->kind, from->phase, tensor_name(draft, result), &attr, input,
					   from->inputs, made);
	if (st)
		return st;
	for (uint32_t k = 0; k < from->outputs; k++)
		pass->id[op_outputs(draft, op)[k]] = made[k];
	pass->id[result] = made[0];
	uint32_t name = graph_text(out, op_name(draft, op));
	if (name == UINT32_MAX)
		return TARN_ENOMEM;
	out->op[out->ops - 1].name = name;
	return TARN_OK;
}

enum tarn_status graph_simplify(const struct graph *draft, struct host_arena *scratch, struct graph *out,
				uint32_t *loss, uint32_t *output)
{
	struct pass pass = {
		.draft = draft,
		.needed_tensor = HOST_ARRAY(scratch, draft->tensors, bool),
		.needed_op = HOST_ARRAY(scratch, draft->ops, bool),
		.readers = HOST_ARRAY(scratch, draft->tensors, uint32_t),
		.only_reader = HOST_ARRAY(scratch, draft->tensors, uint32_t),
		.id = HOST_ARRAY(scratch, draft->tensors, uint32_t),
	};
	if (!pass.needed_tensor || !pass.needed_op || !pass.readers || !pass.only_reader || !pass.id)
		return TARN_ENOMEM;
	memset(pass.id, 0xFF, draft->tensors * sizeof *pass.id);
	mark_needed(&pass, *loss, *output);
	count_readers(&pass);
	enum tarn_status st = copy_persistents(&pass, scratch, out);
	for (uint32_t op = 0; op < draft->ops && !st; op++)
		if (pass.needed_op[op] && !is_fused(&pass, op))
			st = copy_op(&pass, op, scratch, out);
	if (st)
		return st;
	out->batch = draft->batch;
	out->scalars = draft->scalars == TENSOR_NONE ? TENSOR_NONE : pass.id[draft->scalars];
	*loss = pass.id[*loss];
	*output = pass.id[*output];
	return TARN_OK;
}
