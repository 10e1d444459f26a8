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

/* What leaves the graph has a reader more, so that it stays what it is. */
static void count_readers(struct pass *pass, uint32_t loss, uint32_t output)
{
	const struct graph *draft = pass->draft;
	pass->readers[loss]++;
	pass->readers[output]++;
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

static bool is_clamp(const struct op *op)
{
	return op->kind == OP_ACTIVATION &&
	       (op->attr.activation == ACTIVATION_RELU || op->attr.activation == ACTIVATION_RELU6);
}

/* Does this activation move behind the pooling that reads it? */
static bool is_moved(const struct pass *pass, uint32_t op)
{
	const struct graph *draft = pass->draft;
	uint32_t y = op_outputs(draft, op)[0], producer = draft->tensor[op_inputs(draft, op)[0]].producer;
	bool fused_for_free = producer != OP_NONE && draft->op[producer].kind == OP_BATCH_APPLY;
	return is_clamp(&draft->op[op]) && pass->readers[y] == 1 && !fused_for_free &&
	       draft->op[pass->only_reader[y]].kind == OP_MAX_POOL;
}

/* The activation that becomes part of this op, or OP_NONE. */
static uint32_t fused_activation(const struct pass *pass, uint32_t op)
{
	const struct graph *draft = pass->draft;
	uint32_t y = op_outputs(draft, op)[0];
	if (!takes_activation(draft->op[op].kind) || pass->readers[y] != 1)
		return OP_NONE;
	uint32_t reader = pass->only_reader[y];
	return is_clamp(&draft->op[reader]) && !is_moved(pass, reader) ? reader : OP_NONE;
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

/* Appends the op under its layer's name; its first output is called `result`. */
static enum tarn_status copy_op(struct pass *pass, uint32_t op, const struct op_attr *attr, const char *result,
				struct host_arena *scratch, struct graph *out)
{
	const struct graph *draft = pass->draft;
	const struct op *from = &draft->op[op];
	uint32_t *input = HOST_ARRAY(scratch, from->inputs, uint32_t), made[OP_MAX_OUTPUTS];
	if (!input)
		return TARN_ENOMEM;
	for (uint32_t k = 0; k < from->inputs; k++)
		input[k] = pass->id[op_inputs(draft, op)[k]];
	enum tarn_status st = graph_add_op(out, from->kind, from->phase, result, attr, input, from->inputs, made);
	if (st)
		return st;
	for (uint32_t k = 0; k < from->outputs; k++)
		pass->id[op_outputs(draft, op)[k]] = made[k];
	uint32_t name = graph_text(out, op_name(draft, op));
	if (name == UINT32_MAX)
		return TARN_ENOMEM;
	out->op[out->ops - 1].name = name;
	return TARN_OK;
}

static enum tarn_status copy_with_activation(struct pass *pass, uint32_t op, struct host_arena *scratch,
					     struct graph *out)
{
	const struct graph *draft = pass->draft;
	struct op_attr attr = draft->op[op].attr;
	uint32_t activation = fused_activation(pass, op), result = op_outputs(draft, op)[0];
	if (activation != OP_NONE) {
		attr.activation = draft->op[activation].attr.activation;
		result = op_outputs(draft, activation)[0];
	}
	enum tarn_status st = copy_op(pass, op, &attr, tensor_name(draft, result), scratch, out);
	if (!st)
		pass->id[result] = pass->id[op_outputs(draft, op)[0]];
	return st;
}

/* relu, max_pool -> max_pool, relu: the pooling reads what the activation read, then the activation what it gives. */
static enum tarn_status copy_swapped(struct pass *pass, uint32_t pool, uint32_t activation, struct host_arena *scratch,
				     struct graph *out)
{
	const struct graph *draft = pass->draft;
	uint32_t x = op_inputs(draft, activation)[0], clamped = op_outputs(draft, activation)[0];
	const char *result = tensor_name(draft, op_outputs(draft, pool)[0]);
	const char *maximum = host_arena_printf(scratch, "%s/maximum", result);
	if (!maximum)
		return TARN_ENOMEM;
	pass->id[clamped] = pass->id[x];
	enum tarn_status st = copy_op(pass, pool, &draft->op[pool].attr, maximum, scratch, out);
	if (st)
		return st;
	uint32_t pooled = pass->id[op_outputs(draft, pool)[0]], unclamped = pass->id[x];
	pass->id[x] = pooled;
	st = copy_op(pass, activation, &draft->op[activation].attr, result, scratch, out);
	pass->id[x] = unclamped;
	pass->id[op_outputs(draft, pool)[0]] = pass->id[clamped];
	return st;
}

static enum tarn_status copy_next(struct pass *pass, uint32_t op, struct host_arena *scratch, struct graph *out)
{
	const struct graph *draft = pass->draft;
	if (!pass->needed_op[op] || is_fused(pass, op) || is_moved(pass, op))
		return TARN_OK;
	uint32_t before = draft->op[op].kind == OP_MAX_POOL ? draft->tensor[op_inputs(draft, op)[0]].producer : OP_NONE;
	if (before != OP_NONE && is_moved(pass, before))
		return copy_swapped(pass, op, before, scratch, out);
	return copy_with_activation(pass, op, scratch, out);
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
	count_readers(&pass, *loss, *output);
	enum tarn_status st = copy_persistents(&pass, scratch, out);
	for (uint32_t op = 0; op < draft->ops && !st; op++)
		st = copy_next(&pass, op, scratch, out);
	if (st)
		return st;
	out->batch = draft->batch;
	out->scalars = draft->scalars == TENSOR_NONE ? TENSOR_NONE : pass.id[draft->scalars];
	*loss = pass.id[*loss];
	*output = pass.id[*output];
	return TARN_OK;
}
