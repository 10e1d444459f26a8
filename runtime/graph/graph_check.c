/* graph_check.c - proves the invariants of graph.h, one after the other; later checks rely on earlier ones. */
#include "graph/graph.h"
#include "graph/shape.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define fail(...) tarn_fail(TARN_EFORMAT, __VA_ARGS__)

/* Every name ends inside the text. */
static enum tarn_status check_names(const struct graph *graph)
{
	if (!graph->text_bytes || graph->text[graph->text_bytes - 1])
		return fail("graph: the names do not end with a zero byte");
	for (uint32_t t = 0; t < graph->tensors; t++)
		if (graph->tensor[t].name >= graph->text_bytes)
			return fail("graph: the name of tensor %" PRIu32 " lies outside the names", t);
	for (uint32_t i = 0; i < graph->ops; i++)
		if (graph->op[i].name >= graph->text_bytes)
			return fail("graph: the name of op %" PRIu32 " lies outside the names", i);
	return TARN_OK;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum tarn_status check_unique_names(const struct graph *graph, struct host_arena *scratch)
{
	const char **name = HOST_ARRAY(scratch, graph->tensors, const char *);
	if (!name)
		return TARN_ENOMEM;
	for (uint32_t t = 0; t < graph->tensors; t++)
		name[t] = tensor_name(graph, t);
	qsort(name, graph->tensors, sizeof *name, compare_names);
	for (uint32_t t = 1; t < graph->tensors; t++)
		if (!strcmp(name[t - 1], name[t]))
			return fail("graph: two tensors are named %s", name[t]);
	return TARN_OK;
}

/* What can be said of a tensor alone. */
static enum tarn_status check_tensor(const struct graph *graph, uint32_t id)
{
	const struct tensor *tensor = &graph->tensor[id];
	const char *name = tensor_name(graph, id);
	if (tensor->rank > OP_MAX_RANK || tensor->dtype >= DTYPES || tensor->role >= ROLES || tensor->init >= INITS ||
	    (tensor->flags & ~(TENSOR_FROZEN | TENSOR_NO_DECAY)))
		return fail("graph: tensor %s: rank %u, type %u, role %u, init %u or flags %u are not known", name,
			    tensor->rank, tensor->dtype, tensor->role, tensor->init, tensor->flags);
	struct shape shape = { .dtype = tensor->dtype, .rank = tensor->rank };
	memcpy(shape.dim, tensor->dim, tensor->rank * sizeof *tensor->dim);
	if (shape_check(name, &shape))
		return tarn_fail_prefix(TARN_EFORMAT, "graph");
	uint64_t bytes = tensor_elements(tensor) * dtype_bytes(tensor->dtype);
	if (tensor->bytes != bytes)
		return fail("graph: tensor %s: %" PRIu64 " bytes, its shape needs %" PRIu64, name, tensor->bytes,
			    bytes);
	if (tensor->storage >= graph->tensors || (tensor->producer != OP_NONE && tensor->producer >= graph->ops))
		return fail("graph: tensor %s: storage %" PRIu32 " or producer %" PRIu32 " does not exist", name,
			    tensor->storage, tensor->producer);
	if (tensor->producer != OP_NONE)
		return TARN_OK;
	if (!is_persistent(tensor->role))
		return fail("graph: tensor %s has no producer and is not persistent", name);
	if (tensor->storage != id)
		return fail("graph: persistent tensor %s has the storage of another", name);
	return TARN_OK;
}

/* Operands follow those of the op before and exist; inputs were produced before and are not versions. */
static enum tarn_status check_operands(const struct graph *graph, uint32_t id, uint64_t first_operand)
{
	const struct op *op = &graph->op[id];
	const struct op_row *row = op_row(op->kind);
	const char *name = op_name(graph, id);
	if (!row || op->phase > PHASE_UPDATE)
		return fail("graph: op %s: kind %" PRIu32 " or phase %" PRIu32 " is not known", name, op->kind,
			    op->phase);
	if (op->first_operand != first_operand || op->outputs != row->outputs ||
	    first_operand + op->inputs + op->outputs > graph->operands)
		return fail("graph: op %s: %" PRIu32 " inputs and %" PRIu32 " outputs from %" PRIu32 " on, %" PRIu32
			    " operands in all and %u outputs needed",
			    name, op->inputs, op->outputs, op->first_operand, graph->operands, row->outputs);
	for (uint32_t k = 0; k < op->inputs + op->outputs; k++)
		if (graph->operand[op->first_operand + k] >= graph->tensors)
			return fail("graph: op %s: operand %" PRIu32 " does not exist", name, k);
	for (uint32_t k = 0; k < op->inputs; k++) {
		uint32_t t = op_inputs(graph, id)[k];
		const struct tensor *tensor = &graph->tensor[t];
		if (tensor->producer != OP_NONE && tensor->producer >= id)
			return fail("graph: op %s reads %s before it is produced", name, tensor_name(graph, t));
		if (tensor->producer != OP_NONE && is_persistent(tensor->role) && !op_reads_version(op->kind, k))
			return fail("graph: op %s reads %s, a new version that only the next step may read", name,
				    tensor_name(graph, t));
	}
	return TARN_OK;
}

/* The storage that output k must have. */
static uint32_t expected_storage(const struct graph *graph, uint32_t id, uint32_t k)
{
	const struct op_row *row = op_row(graph->op[id].kind);
	if (row->version_of[k] >= 0)
		return op_inputs(graph, id)[row->version_of[k]];
	return row->view ? graph->tensor[op_inputs(graph, id)[0]].storage : op_outputs(graph, id)[k];
}

/* Output k of an op: shape by the rule, producer, role and storage. */
static enum tarn_status check_output(const struct graph *graph, uint32_t id, uint32_t k, const struct shape *shape)
{
	uint32_t t = op_outputs(graph, id)[k];
	const struct tensor *tensor = &graph->tensor[t];
	const char *name = tensor_name(graph, t);
	if (tensor->producer != id)
		return fail("graph: op %s writes %s, which op %" PRIu32 " produces", op_name(graph, id), name,
			    tensor->producer);
	for (uint32_t other = 0; other < k; other++)
		if (op_outputs(graph, id)[other] == t)
			return fail("graph: op %s writes %s twice", op_name(graph, id), name);
	if (tensor->dtype != shape->dtype || tensor->rank != shape->rank ||
	    memcmp(tensor->dim, shape->dim, shape->rank * sizeof *shape->dim))
		return fail("graph: tensor %s does not have the shape that its op gives", name);
	if (tensor->storage != expected_storage(graph, id, k))
		return fail("graph: tensor %s lies in the storage of tensor %" PRIu32 ", expected is %" PRIu32, name,
			    tensor->storage, expected_storage(graph, id, k));
	bool version = op_row(graph->op[id].kind)->version_of[k] >= 0;
	if (version ? tensor->role != graph->tensor[tensor->storage].role : is_persistent(tensor->role))
		return fail("graph: tensor %s has the role %s", name, role_name(tensor->role));
	return TARN_OK;
}

/* *first_operand moves on to where the next op's operands must stand. */
static enum tarn_status check_op(const struct graph *graph, uint32_t id, uint64_t *first_operand)
{
	struct shape shape[OP_MAX_OUTPUTS];
	enum tarn_status st = check_operands(graph, id, *first_operand);
	if (st)
		return st;
	const struct op *op = &graph->op[id];
	*first_operand += op->inputs + op->outputs;
	if (shape_infer(graph, op->kind, op_name(graph, id), &op->attr, op_inputs(graph, id), op->inputs, shape))
		return tarn_fail_prefix(TARN_EFORMAT, "graph");
	for (uint32_t k = 0; k < op->outputs && !st; k++)
		st = check_output(graph, id, k, &shape[k]);
	return st;
}

/* The producer of a tensor lists it. */
static enum tarn_status check_producer(const struct graph *graph, uint32_t id)
{
	uint32_t producer = graph->tensor[id].producer;
	if (producer == OP_NONE)
		return TARN_OK;
	for (uint32_t k = 0; k < graph->op[producer].outputs; k++)
		if (op_outputs(graph, producer)[k] == id)
			return TARN_OK;
	return fail("graph: op %s does not write %s, whose producer it should be", op_name(graph, producer),
		    tensor_name(graph, id));
}

/* One writer a persistent tensor. */
static enum tarn_status check_versions(const struct graph *graph, struct host_arena *scratch)
{
	bool *written = HOST_ARRAY(scratch, graph->tensors, bool);
	if (!written)
		return TARN_ENOMEM;
	for (uint32_t t = 0; t < graph->tensors; t++) {
		const struct tensor *tensor = &graph->tensor[t];
		if (tensor->producer == OP_NONE || !is_persistent(tensor->role))
			continue;
		if (graph->tensor[tensor->storage].producer != OP_NONE)
			return fail("graph: %s is a version of a tensor that is not persistent", tensor_name(graph, t));
		if (written[tensor->storage])
			return fail("graph: two ops write a new version of %s", tensor_name(graph, tensor->storage));
		written[tensor->storage] = true;
	}
	return TARN_OK;
}

static enum tarn_status check_all(const struct graph *graph, struct host_arena *scratch)
{
	uint64_t first_operand = 0;
	enum tarn_status st = check_names(graph);
	for (uint32_t t = 0; t < graph->tensors && !st; t++)
		st = check_tensor(graph, t);
	for (uint32_t i = 0; i < graph->ops && !st; i++)
		st = check_op(graph, i, &first_operand);
	for (uint32_t t = 0; t < graph->tensors && !st; t++)
		st = check_producer(graph, t);
	if (!st)
		st = check_versions(graph, scratch);
	if (!st)
		st = check_unique_names(graph, scratch);
	if (st || graph->scalars == TENSOR_NONE)
		return st;
	if (graph->scalars >= graph->tensors || graph->tensor[graph->scalars].role != ROLE_SCALARS)
		return fail("graph: tensor %" PRIu32 " is not the parameter block", graph->scalars);
	return TARN_OK;
}

enum tarn_status graph_check(const struct graph *graph)
{
	struct host_arena scratch;
	host_arena_init(&scratch);
	enum tarn_status st = check_all(graph, &scratch);
	host_arena_fini(&scratch);
	return st;
}
