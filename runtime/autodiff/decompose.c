/* decompose.c - see decompose.h. */
#include "autodiff/decompose.h"

#include "autodiff/decompose_rules.h"

#include <string.h>

static decompose_fn *const rules[OP_KINDS] = {
	[OP_BATCH_STATS] = decompose_batch_stats,
	[OP_BATCH_APPLY] = decompose_batch_apply,
	[OP_LAYER_NORM] = decompose_layer_norm,
	[OP_GROUP_NORM] = decompose_group_norm,
	[OP_RMS_NORM] = decompose_rms_norm,
	[OP_WEIGHT_NORM] = decompose_weight_norm,
	[OP_ATTENTION] = decompose_attention,
	[OP_GATE] = decompose_gate,
	[OP_LSTM_CELL] = decompose_lstm_cell,
	[OP_GRU_CELL] = decompose_gru_cell,
	[OP_SOFTMAX_CROSS_ENTROPY] = decompose_cross_entropy,
	[OP_LINEAR_CROSS_ENTROPY] = decompose_linear_cross_entropy,
	[OP_MEAN_SQUARED_ERROR] = decompose_squared_error,
	[OP_BINARY_CROSS_ENTROPY] = decompose_binary_cross_entropy,
};

bool decompose_rewrites(enum op_kind kind)
{
	return (unsigned)kind < OP_KINDS && rules[kind];
}

enum tarn_status decompose_persistents(const struct graph *from, struct graph *to, uint32_t *id)
{
	memset(id, 0xFF, from->tensors * sizeof *id);
	for (uint32_t t = 0; t < from->tensors; t++) {
		const struct tensor *tensor = &from->tensor[t];
		if (!is_persistent(tensor->role) || tensor->producer != OP_NONE)
			continue;
		enum tarn_status st = graph_add_persistent(to, tensor_name(from, t), tensor->role, tensor->dtype,
							   tensor->dim, tensor->rank, &id[t]);
		if (st)
			return st;
		to->tensor[id[t]].init = tensor->init;
		to->tensor[id[t]].init_bound = tensor->init_bound;
		to->tensor[id[t]].flags = tensor->flags;
	}
	return TARN_OK;
}

/* Has the caller given all that it makes? */
static bool is_replaced(const struct decomposition *d, uint32_t op)
{
	bool replaced = true;
	for (uint32_t k = 0; k < d->from->op[op].outputs; k++)
		replaced &= d->id[op_outputs(d->from, op)[k]] != TENSOR_NONE;
	return replaced;
}

static enum tarn_status append(struct decomposition *d, uint32_t op, struct host_arena *scratch, struct graph *to)
{
	const struct op *node = &d->from->op[op];
	uint32_t *input = HOST_ARRAY(scratch, node->inputs + 1u, uint32_t);
	uint32_t made[OP_MAX_OUTPUTS] = { TENSOR_NONE, TENSOR_NONE, TENSOR_NONE };
	char *name = host_arena_printf(to->arena, "%s%s", d->prefix, op_name(d->from, op));
	if (!input || !name)
		return TARN_ENOMEM;
	for (uint32_t k = 0; k < node->inputs; k++) {
		uint32_t t = op_inputs(d->from, op)[k];
		input[k] = d->id[t];
		if (input[k] == TENSOR_NONE)
			return tarn_fail(TARN_EUNSUPPORTED,
					 "%s: %s reads %s, which is not there when it is "
					 "differentiated twice",
					 op_name(d->from, op), op_row((enum op_kind)node->kind)->name,
					 tensor_name(d->from, t));
	}
	struct expression e = { .graph = to, .phase = (enum op_phase)node->phase, .name = name };
	struct op_attr attr = node->attr;
	attr.stream += node->kind == OP_DROPOUT ? d->stream << 16 : 0;
	if (node->kind == OP_DROPOUT && d->without_dropout)
		made[0] = input[0];
	else if (rules[node->kind] && !d->fused)
		rules[node->kind](&e, &node->attr, input, node->inputs, made);
	else
		e.status = graph_add_op(to, (enum op_kind)node->kind, e.phase, name, &attr, input, node->inputs, made);
	for (uint32_t k = 0; k < node->outputs && !e.status; k++)
		d->id[op_outputs(d->from, op)[k]] = made[k];
	return e.status;
}

enum tarn_status decompose_network(struct decomposition *d, struct host_arena *scratch, struct graph *to)
{
	enum tarn_status st = TARN_OK;
	for (uint32_t op = 0; op < d->from->ops && !st; op++) {
		const struct op_row *row = op_row((enum op_kind)d->from->op[op].kind);
		if (is_replaced(d, op) || (row->version_of[0] >= 0 && !d->effects))
			continue;
		st = append(d, op, scratch, to);
	}
	return st;
}
