/* graph.c - storage and growth of a graph; names. The invariants are proved in graph_check.c. */
#include "graph/graph.h"
#include "graph/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static const struct {
	const char *name;
	size_t bytes;
} dtypes[DTYPES] = {
	[DTYPE_F32] = { "f32", 4 }, [DTYPE_I32] = { "i32", 4 },   [DTYPE_U8] = { "u8", 1 },
	[DTYPE_U64] = { "u64", 8 }, [DTYPE_BF16] = { "bf16", 2 }, [DTYPE_F16] = { "f16", 2 },
};

static const char *const role_names[ROLES] = {
	[ROLE_ACTIVATION] = "activation",
	[ROLE_GRADIENT] = "gradient",
	[ROLE_PARAMETER] = "parameter",
	[ROLE_OPTIMIZER_STATE] = "optimizer state",
	[ROLE_RUNNING_STATISTIC] = "running statistic",
	[ROLE_COUNTER] = "counter",
	[ROLE_STAGING] = "staging",
	[ROLE_SCALARS] = "scalars",
	[ROLE_METRIC] = "metric",
	[ROLE_VECTOR] = "vector",
};

size_t dtype_bytes(uint32_t dtype)
{
	return dtype < DTYPES ? dtypes[dtype].bytes : 0;
}

const char *dtype_name(uint32_t dtype)
{
	return dtype < DTYPES ? dtypes[dtype].name : "unknown";
}

const char *role_name(uint32_t role)
{
	return role < ROLES ? role_names[role] : "unknown";
}

uint64_t tensor_elements(const struct tensor *tensor)
{
	uint64_t elements = 1;
	for (uint32_t i = 0; i < tensor->rank && i < OP_MAX_RANK; i++)
		elements *= tensor->dim[i];
	return elements;
}

uint64_t tensor_rows(const struct tensor *tensor)
{
	uint64_t rows = 1;
	for (uint32_t i = 0; i + 1 < tensor->rank && i + 1 < OP_MAX_RANK; i++)
		rows *= tensor->dim[i];
	return rows;
}

const char *shape_format(const uint32_t *dim, uint32_t rank, char *buffer, size_t size)
{
	size_t used = 0;
	if (!size)
		return buffer;
	snprintf(buffer, size, "%s", rank ? "" : "scalar");
	for (uint32_t i = 0; i < rank && used + 1 < size; i++) {
		int n = snprintf(buffer + used, size - used, "%s%" PRIu32, i ? "x" : "", dim[i]);
		used += n > 0 ? (size_t)n : 0;
	}
	return buffer;
}

/* ---- growth ---- */

enum tarn_status graph_init(struct graph *graph, struct host_arena *arena)
{
	memset(graph, 0, sizeof *graph);
	graph->arena = arena;
	graph->scalars = TENSOR_NONE;
	return graph_text(graph, "") == UINT32_MAX ? TARN_ENOMEM : TARN_OK;
}

/* Room for `more` objects behind `count` in the growing array *array. Ids are 32 bits; the last one means none. */
static enum tarn_status reserve(struct graph *graph, void **array, size_t *capacity, uint32_t count, size_t more,
				size_t size)
{
	if (more >= UINT32_MAX - count)
		return tarn_fail(TARN_EINVAL, "graph: more than %" PRIu32 " entries", UINT32_MAX - 1);
	void *larger = host_arena_grow(graph->arena, *array, capacity, count + more, size);
	if (!larger)
		return TARN_ENOMEM;
	*array = larger;
	return TARN_OK;
}

uint32_t graph_text(struct graph *graph, const char *text)
{
	size_t bytes = strlen(text) + 1;
	void *array = graph->text;
	if (reserve(graph, &array, &graph->text_capacity, graph->text_bytes, bytes, 1))
		return UINT32_MAX;
	graph->text = array;
	uint32_t offset = graph->text_bytes;
	memcpy(graph->text + offset, text, bytes);
	graph->text_bytes += (uint32_t)bytes;
	return offset;
}

static enum tarn_status check_limits(const struct graph *graph, const char *name, uint64_t more)
{
	if (strlen(name) > GRAPH_MAX_NAME)
		return tarn_fail(TARN_EINVAL, "\"%.40s...\": a name of %zu bytes is too long; this build allows %d",
				 name, strlen(name), GRAPH_MAX_NAME);
	if (graph->tensors + more > GRAPH_MAX_TENSORS)
		return tarn_fail(TARN_EINVAL, "the graph needs more than %d tensors, the limit of this build",
				 GRAPH_MAX_TENSORS);
	return TARN_OK;
}

static uint32_t name_slot(const struct graph *graph, const char *name)
{
	return (uint32_t)XXH64(name, strlen(name), 0) & (graph->name_slots - 1);
}

/* Puts a tensor into the index, which has a free slot. */
static void index_insert(struct graph *graph, uint32_t tensor)
{
	uint32_t slot = name_slot(graph, tensor_name(graph, tensor));
	while (graph->name_index[slot] != TENSOR_NONE)
		slot = (slot + 1) & (graph->name_slots - 1);
	graph->name_index[slot] = tensor;
}

/* At most half of the slots are taken, so that probing stays short and always ends. */
static enum tarn_status index_reserve(struct graph *graph, uint64_t tensors)
{
	if (graph->name_index && tensors * 2 <= graph->name_slots)
		return TARN_OK;
	uint64_t slots = 64;
	while (slots < tensors * 4)
		slots *= 2;
	if (slots > (uint64_t)1 << 31)
		return tarn_fail(TARN_EINVAL, "graph: more than %" PRIu64 " tensors", ((uint64_t)1 << 31) / 4);
	uint32_t *index = HOST_ARRAY(graph->arena, (size_t)slots, uint32_t);
	if (!index)
		return TARN_ENOMEM;
	memset(index, 0xFF, (size_t)slots * sizeof *index);
	graph->name_index = index;
	graph->name_slots = (uint32_t)slots;
	for (uint32_t t = 0; t < graph->tensors; t++)
		index_insert(graph, t);
	return TARN_OK;
}

uint32_t graph_find(const struct graph *graph, const char *name)
{
	if (graph->name_index) {
		uint32_t slot = name_slot(graph, name);
		for (; graph->name_index[slot] != TENSOR_NONE; slot = (slot + 1) & (graph->name_slots - 1)) {
			uint32_t tensor = graph->name_index[slot];
			if (!strcmp(tensor_name(graph, tensor), name))
				return tensor;
		}
		return TENSOR_NONE;
	}
	for (uint32_t t = 0; t < graph->tensors; t++)
		if (!strcmp(tensor_name(graph, t), name))
			return t;
	return TENSOR_NONE;
}

/* Room for that many more tensors, ops and operands. */
static enum tarn_status reserve_all(struct graph *graph, size_t tensors, size_t ops, size_t operands)
{
	void *tensor = graph->tensor, *op = graph->op, *operand = graph->operand;
	enum tarn_status st =
		reserve(graph, &tensor, &graph->tensor_capacity, graph->tensors, tensors, sizeof *graph->tensor);
	if (st)
		return st;
	graph->tensor = tensor;
	st = reserve(graph, &op, &graph->op_capacity, graph->ops, ops, sizeof *graph->op);
	if (st)
		return st;
	graph->op = op;
	st = reserve(graph, &operand, &graph->operand_capacity, graph->operands, operands, sizeof *graph->operand);
	if (st)
		return st;
	graph->operand = operand;
	return index_reserve(graph, (uint64_t)graph->tensors + tensors);
}

/* Appends a tensor of that shape; its size was checked. Room was reserved. */
static uint32_t append_tensor(struct graph *graph, uint32_t name, const struct shape *shape, enum tensor_role role)
{
	uint32_t id = graph->tensors++;
	struct tensor *tensor = &graph->tensor[id];
	memset(tensor, 0, sizeof *tensor);
	tensor->name = name;
	tensor->storage = id;
	tensor->producer = OP_NONE;
	tensor->rank = shape->rank;
	tensor->dtype = shape->dtype;
	tensor->role = (uint8_t)role;
	memcpy(tensor->dim, shape->dim, shape->rank * sizeof *shape->dim);
	tensor->bytes = tensor_elements(tensor) * dtype_bytes(shape->dtype);
	index_insert(graph, id);
	return id;
}

enum tarn_status graph_add_persistent(struct graph *graph, const char *name, enum tensor_role role, enum dtype dtype,
				      const uint32_t *dim, uint32_t rank, uint32_t *out)
{
	struct shape shape = { .dtype = (uint8_t)dtype, .rank = (uint8_t)rank };
	if (rank > OP_MAX_RANK)
		return tarn_fail(TARN_EINVAL, "%s: %" PRIu32 " dimensions, at most %d are possible", name, rank,
				 OP_MAX_RANK);
	if ((unsigned)dtype >= DTYPES || !is_persistent(role) || (unsigned)role >= ROLES)
		return tarn_fail(TARN_EINTERNAL, "%s: role %d or type %d is not one of a persistent tensor", name,
				 (int)role, (int)dtype);
	if (rank)
		memcpy(shape.dim, dim, rank * sizeof *dim);
	enum tarn_status st = shape_check(name, &shape);
	if (!st)
		st = check_limits(graph, name, 1);
	if (st)
		return st;
	if (graph_find(graph, name) != TENSOR_NONE)
		return tarn_fail(TARN_EINVAL, "%s: the name is taken", name);
	st = reserve_all(graph, 1, 0, 0);
	if (st)
		return st;
	uint32_t text = graph_text(graph, name);
	if (text == UINT32_MAX)
		return TARN_ENOMEM;
	*out = append_tensor(graph, text, &shape, role);
	return TARN_OK;
}

/* The name of output number k, made unique; UINT32_MAX when the host has no memory. */
static uint32_t output_name(struct graph *graph, const char *name, uint32_t k, uint32_t version_of)
{
	const char *base = version_of == TENSOR_NONE ? name : tensor_name(graph, version_of);
	size_t size = strlen(base) + 48;
	char *text = host_arena_alloc(graph->arena, size, 1);
	if (!text)
		return UINT32_MAX;
	if (version_of != TENSOR_NONE)
		snprintf(text, size, "version of %s", base);
	else if (k)
		snprintf(text, size, "%s:%" PRIu32, base, k);
	else
		snprintf(text, size, "%s", base);
	size_t length = strlen(text);
	for (uint32_t n = 2; graph_find(graph, text) != TENSOR_NONE; n++)
		snprintf(text + length, size - length, "#%" PRIu32, n);
	return graph_text(graph, text);
}

static enum tarn_status check_versions(const struct graph *graph, const struct op_row *row, const char *name,
				       const uint32_t *input)
{
	for (uint32_t k = 0; k < row->outputs; k++) {
		if (row->version_of[k] < 0)
			continue;
		const struct tensor *old = &graph->tensor[input[row->version_of[k]]];
		if (old->producer != OP_NONE)
			return tarn_fail(TARN_EINVAL, "%s: %s writes a new version of %s, which is not persistent",
					 name, row->name, graph->text + old->name);
	}
	return TARN_OK;
}

/* Appends output k with its storage. */
static enum tarn_status append_output(struct graph *graph, uint32_t op, const char *name, uint32_t k,
				      const struct shape *shape, const uint32_t *input)
{
	const struct op_row *row = op_row(graph->op[op].kind);
	uint32_t version_of = row->version_of[k] < 0 ? TENSOR_NONE : input[row->version_of[k]];
	uint32_t text = output_name(graph, name, k, version_of);
	if (text == UINT32_MAX)
		return TARN_ENOMEM;
	enum tensor_role role = graph->op[op].phase == PHASE_BACKWARD ? ROLE_GRADIENT : ROLE_ACTIVATION;
	if (version_of != TENSOR_NONE)
		role = graph->tensor[version_of].role;
	uint32_t id = append_tensor(graph, text, shape, role);
	graph->tensor[id].producer = op;
	if (version_of != TENSOR_NONE)
		graph->tensor[id].storage = version_of;
	else if (row->view)
		graph->tensor[id].storage = graph->tensor[input[0]].storage;
	graph->operand[graph->operands++] = id;
	return TARN_OK;
}

enum tarn_status graph_add_op(struct graph *graph, enum op_kind kind, enum op_phase phase, const char *name,
			      const struct op_attr *attr, const uint32_t *input, uint32_t inputs, uint32_t *out)
{
	static const struct op_attr no_attr;
	struct shape shape[OP_MAX_OUTPUTS];
	if (!attr)
		attr = &no_attr;
	enum tarn_status st = shape_infer(graph, kind, name, attr, input, inputs, shape);
	if (st)
		return st;
	const struct op_row *row = op_row(kind);
	st = check_versions(graph, row, name, input);
	if (!st)
		st = check_limits(graph, name, row->outputs);
	if (st)
		return st;
	/* `attr`, `name` and `input` may lie in the graph's own arrays: growing copies them and leaves the old ones. */
	st = reserve_all(graph, row->outputs, 1, (size_t)inputs + row->outputs);
	if (st)
		return st;
	uint32_t text = graph_text(graph, name), id = graph->ops;
	if (text == UINT32_MAX)
		return TARN_ENOMEM;
	graph->op[id] = (struct op){ .kind = kind,
				     .phase = phase,
				     .name = text,
				     .first_operand = graph->operands,
				     .inputs = inputs,
				     .outputs = row->outputs,
				     .attr = *attr };
	uint32_t first = graph->operands, first_tensor = graph->tensors;
	if (inputs)
		memcpy(graph->operand + first, input, inputs * sizeof *input);
	graph->operands += inputs;
	for (uint32_t k = 0; k < row->outputs; k++) {
		st = append_output(graph, id, name, k, &shape[k], graph->operand + first);
		if (st)
			return st;
		if (out)
			out[k] = first_tensor + k;
	}
	graph->ops++;
	return TARN_OK;
}

/* Bytes before position attr->begin of the axis in a tensor whose dimensions before the axis are 1. */
static uint64_t slice_offset(const struct tensor *x, const struct op_attr *slice)
{
	return x->bytes / x->dim[slice->axis] * slice->begin;
}

enum op_kind slice_kind(const struct graph *graph, uint32_t x, const struct op_attr *slice)
{
	const struct tensor *tensor = &graph->tensor[x];
	for (uint32_t i = 0; i < slice->axis; i++)
		if (tensor->dim[i] != 1)
			return OP_SLICE;
	return slice_offset(tensor, slice) % TARN_ALIGNMENT ? OP_SLICE : OP_SLICE_VIEW;
}

uint64_t tensor_offset(const struct graph *graph, uint32_t tensor)
{
	uint64_t offset = 0;
	for (uint32_t op = graph->tensor[tensor].producer; op != OP_NONE && op_row(graph->op[op].kind)->view;
	     op = graph->tensor[tensor].producer) {
		tensor = op_inputs(graph, op)[0];
		if (graph->op[op].kind == OP_SLICE_VIEW)
			offset += slice_offset(&graph->tensor[tensor], &graph->op[op].attr);
	}
	return offset;
}

static void *copy_array(struct host_arena *arena, const void *from, size_t count, size_t size)
{
	void *to = host_arena_alloc(arena, count, size);
	if (to && count)
		memcpy(to, from, count * size);
	return to;
}

enum tarn_status graph_copy(const struct graph *from, struct host_arena *arena, struct graph *to)
{
	struct graph copy = *from;
	copy.arena = arena;
	copy.tensor = copy_array(arena, from->tensor, from->tensors, sizeof *from->tensor);
	copy.op = copy_array(arena, from->op, from->ops, sizeof *from->op);
	copy.operand = copy_array(arena, from->operand, from->operands, sizeof *from->operand);
	copy.text = copy_array(arena, from->text, from->text_bytes, 1);
	if (!copy.tensor || !copy.op || !copy.operand || !copy.text)
		return TARN_ENOMEM;
	copy.tensor_capacity = from->tensors;
	copy.op_capacity = from->ops;
	copy.operand_capacity = from->operands;
	copy.text_capacity = from->text_bytes;
	copy.name_index = NULL;
	copy.name_slots = 0;
	enum tarn_status st = index_reserve(&copy, from->tensors);
	if (!st)
		*to = copy;
	return st;
}
