/*
 * links.c - what the ids of a graph mean, derived once more from the ops alone.
 *
 * The graph of a plan may come from a file, so nothing is taken from tensor.producer or tensor.storage: both are
 * recomputed and compared. After this pass the replay may follow ids without checking them.
 */
#include "verify/replay.h"

#include <inttypes.h>

static enum tarn_status link_input(const struct subject *subject, uint32_t op, uint32_t k, const bool *made)
{
	const struct graph *graph = &subject->program->graph;
	uint32_t t = op_inputs(graph, op)[k];
	if (t >= graph->tensors)
		return verify_refuse(subject, "op %u (%s) reads tensor %u of %u", op, op_name(graph, op), t,
				     graph->tensors);
	if (!made[t])
		return verify_refuse(subject, "op %u (%s) reads %s, which no op before it makes", op,
				     op_name(graph, op), tensor_name(graph, t));
	if (subject->version[subject->root[t]] && !op_reads_version(graph->op[op].kind, k))
		return verify_refuse(
			subject,
			"op %u (%s) reads %s; in the step that makes a new version only an average may read it", op,
			op_name(graph, op), tensor_name(graph, t));
	/* The loader may fill the slot again as soon as the step has taken the batch out of it. */
	if (graph->tensor[subject->root[t]].role == ROLE_STAGING && graph->op[op].kind != OP_INPUT)
		return verify_refuse(subject, "op %u (%s) reads the staging slot %s; only an input op may", op,
				     op_name(graph, op), tensor_name(graph, t));
	return TARN_OK;
}

/* The part of `in` that a SLICE_VIEW shows: `bytes` of it from `*from` on; false when it is none. */
static bool find_slice(const struct tensor *in, const struct op_attr *slice, uint64_t bytes, uint64_t *from)
{
	if (slice->axis >= in->rank || !in->dim[slice->axis])
		return false;
	for (uint32_t i = 0; i < slice->axis; i++)
		if (in->dim[i] != 1)
			return false;
	uint64_t line = in->bytes / in->dim[slice->axis], length = slice->extent[0];
	*from = line * slice->begin;
	return slice->begin + length <= in->dim[slice->axis] && bytes == line * length && *from % TARN_ALIGNMENT == 0;
}

/* Output k of `op`, which shares memory with the input `source` (view or version). */
static enum tarn_status link_shared(struct subject *subject, uint32_t op, uint32_t t, uint32_t source, bool view)
{
	const struct graph *graph = &subject->program->graph;
	const struct tensor *out = &graph->tensor[t], *in = &graph->tensor[source];
	uint32_t root = subject->root[source];
	uint64_t from = 0;
	bool whole = graph->op[op].kind != OP_SLICE_VIEW;
	bool fits = whole ? out->bytes == in->bytes : find_slice(in, &graph->op[op].attr, out->bytes, &from);
	if (!fits || out->storage != graph->tensor[root].storage)
		return verify_refuse(
			subject,
			"op %u (%s): %s (%" PRIu64 " bytes) does not lie in the storage of %s (%" PRIu64 " bytes)", op,
			op_name(graph, op), tensor_name(graph, t), out->bytes, tensor_name(graph, source), in->bytes);
	if (view) {
		subject->root[t] = root;
		subject->shift[t] = subject->shift[source] + from;
		return TARN_OK;
	}
	if (graph->tensor[root].producer != OP_NONE)
		return verify_refuse(subject, "op %u (%s): %s is a version of %s, which is not persistent", op,
				     op_name(graph, op), tensor_name(graph, t), tensor_name(graph, source));
	subject->version[t] = true;
	return TARN_OK;
}

static enum tarn_status link_output(struct subject *subject, uint32_t op, uint32_t k, bool *made, uint32_t *writer)
{
	const struct graph *graph = &subject->program->graph;
	const struct op_row *row = op_row(graph->op[op].kind);
	uint32_t t = op_outputs(graph, op)[k];
	if (t >= graph->tensors || made[t])
		return verify_refuse(subject, "op %u (%s): output %u is tensor %u, %s", op, op_name(graph, op), k, t,
				     t >= graph->tensors ? "which does not exist" : "which exists already");
	if (graph->tensor[t].producer != op)
		return verify_refuse(subject, "op %u (%s) makes %s, whose producer should then be this op", op,
				     op_name(graph, op), tensor_name(graph, t));
	made[t] = true;
	subject->root[t] = t;
	int source = row->view ? 0 : row->version_of[k];
	if (source >= (int)graph->op[op].inputs)
		return verify_refuse(subject, "op %u (%s) has no input %d", op, op_name(graph, op), source);
	if (source < 0) {
		if (is_persistent(graph->tensor[t].role) || graph->tensor[t].storage != t)
			return verify_refuse(subject, "op %u (%s): %s must have memory of its own", op,
					     op_name(graph, op), tensor_name(graph, t));
		return TARN_OK;
	}
	uint32_t in = op_inputs(graph, op)[source];
	enum tarn_status st = link_shared(subject, op, t, in, row->view);
	if (st || row->view)
		return st;
	uint32_t root = subject->root[in];
	if (writer[root] != OP_NONE)
		return verify_refuse(subject, "ops %u (%s) and %u (%s) both replace %s; one update a step is right",
				     writer[root], op_name(graph, writer[root]), op, op_name(graph, op),
				     tensor_name(graph, root));
	writer[root] = op;
	return TARN_OK;
}

static enum tarn_status link_op(struct subject *subject, uint32_t op, bool *made, uint32_t *writer)
{
	const struct graph *graph = &subject->program->graph;
	const struct op *o = &graph->op[op];
	if (o->kind >= OP_KINDS || o->outputs != op_row(o->kind)->outputs || o->inputs < op_row(o->kind)->min_inputs ||
	    (uint64_t)o->first_operand + o->inputs + o->outputs > graph->operands || o->name >= graph->text_bytes)
		return verify_refuse(subject, "op %u has a kind, operands or a name that do not exist", op);
	enum tarn_status st = TARN_OK;
	for (uint32_t k = 0; !st && k < o->inputs; k++)
		st = link_input(subject, op, k, made);
	for (uint32_t k = 0; !st && k < o->outputs; k++)
		st = link_output(subject, op, k, made, writer);
	return st;
}

static enum tarn_status link_tensor(const struct subject *subject, uint32_t t)
{
	const struct graph *graph = &subject->program->graph;
	const struct tensor *tensor = &graph->tensor[t];
	if (tensor->name >= graph->text_bytes)
		return verify_refuse(subject, "tensor %u has no name", t);
	if (!tensor->bytes || tensor->bytes > (uint64_t)1 << 62)
		return verify_refuse(subject, "%s has %" PRIu64 " bytes; 1 to 2^62 are right", tensor_name(graph, t),
				     tensor->bytes);
	if (tensor->producer == OP_NONE && (!is_persistent(tensor->role) || tensor->storage != t))
		return verify_refuse(subject, "%s is made by no op and is not persistent", tensor_name(graph, t));
	return TARN_OK;
}

enum tarn_status verify_links(struct subject *subject, struct host_arena *scratch)
{
	const struct graph *graph = &subject->program->graph;
	bool *made = HOST_ARRAY(scratch, graph->tensors, bool);
	uint32_t *writer = HOST_ARRAY(scratch, graph->tensors, uint32_t);
	subject->root = HOST_ARRAY(scratch, graph->tensors, uint32_t);
	subject->shift = HOST_ARRAY(scratch, graph->tensors, uint64_t);
	subject->version = HOST_ARRAY(scratch, graph->tensors, bool);
	if (!made || !writer || !subject->root || !subject->shift || !subject->version)
		return TARN_ENOMEM;
	if (graph->tensors && (!graph->text_bytes || graph->text[graph->text_bytes - 1]))
		return verify_refuse(subject, "the names do not end with a zero");
	enum tarn_status st = TARN_OK;
	for (uint32_t t = 0; !st && t < graph->tensors; t++) {
		st = link_tensor(subject, t);
		subject->root[t] = t;
		made[t] = graph->tensor[t].producer == OP_NONE;
		writer[t] = OP_NONE;
	}
	for (uint32_t op = 0; !st && op < graph->ops; op++)
		st = link_op(subject, op, made, writer);
	for (uint32_t t = 0; !st && t < graph->tensors; t++)
		if (!made[t])
			st = verify_refuse(subject, "%s is made by no op", tensor_name(graph, t));
	return st;
}
