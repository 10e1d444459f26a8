/* session_arrays.c - what a session knows of data.arrays and network.losses: see session.h. */
#include "session.h"

#include <string.h>

#define LOSS_METRIC "metric/loss/"

/* How many labels or ids the readers of an i32 tensor know: their values are below. UINT32_MAX: nobody reads them. */
static enum tarn_status find_limit(const struct graph *graph, uint32_t slot, struct host_arena *scratch,
				   uint32_t *limit)
{
	struct host_mark mark = host_arena_mark(scratch);
	bool *carries = HOST_ARRAY(scratch, graph->tensors, bool);
	if (!carries)
		return TARN_ENOMEM;
	*limit = UINT32_MAX;
	carries[slot] = true;
	for (uint32_t op = 0; op < graph->ops; op++) {
		const uint32_t *input = op_inputs(graph, op);
		bool reads = false;
		for (uint32_t k = 0; k < graph->op[op].inputs; k++)
			reads |= carries[input[k]];
		if (!reads)
			continue;
		/* Views and copies of labels are labels. */
		for (uint32_t k = 0; k < graph->op[op].outputs; k++)
			carries[op_outputs(graph, op)[k]] = graph->tensor[op_outputs(graph, op)[k]].dtype == DTYPE_I32;
		const struct tensor *first = &graph->tensor[input[0]];
		uint32_t known = UINT32_MAX;
		if (graph->op[op].kind == OP_EMBEDDING)
			known = first->dim[0];
		else if (graph->op[op].kind == OP_SOFTMAX_CROSS_ENTROPY)
			known = first->dim[first->rank - 1];
		*limit = known < *limit ? known : *limit;
	}
	host_arena_release(scratch, mark);
	return TARN_OK;
}

static enum tarn_status check_values(const struct dataset *dataset, uint32_t number, uint32_t limit)
{
	const int32_t *value = dataset->array[number];
	uint64_t count = dataset->samples * dataset->array_elements[number];
	for (uint64_t i = 0; i < count && value; i++)
		if ((uint32_t)value[i] >= limit)
			return tarn_fail(TARN_EDATA,
					 "data.arrays: %s: the value at index %llu is %d; the network knows 0 to %u",
					 dataset->shape.array[number].name, (unsigned long long)i, value[i], limit - 1);
	return TARN_OK;
}

static enum tarn_status open_array(struct tarn_session *session, uint32_t number)
{
	const struct graph *graph = &session->plan.program[0].graph;
	const struct sample_array *array = &session->train.shape.array[number];
	session->slot[number] = host_arena_printf(&session->arena, "staging/%s", array->name);
	if (!session->slot[number])
		return TARN_ENOMEM;
	uint32_t slot = graph_find(graph, session->slot[number]), limit;
	if (slot == TENSOR_NONE || graph->tensor[slot].role != ROLE_STAGING ||
	    graph->tensor[slot].dtype != (array->integer ? DTYPE_I32 : DTYPE_F32) ||
	    graph->tensor[slot].bytes != session->train.array_elements[number] * sizeof(float) * graph->batch)
		return tarn_fail(TARN_EDATA, "data.arrays: the plan was made for another array %s", array->name);
	if (!array->integer)
		return TARN_OK;
	enum tarn_status st = find_limit(graph, slot, &session->arena, &limit);
	if (!st)
		st = check_values(&session->train, number, limit);
	return st ? st : check_values(&session->test, number, limit);
}

/* The metrics of the losses, from the persistent table: the plan says in which order they were added. */
static enum tarn_status find_losses(struct tarn_session *session)
{
	const struct plan *plan = &session->plan;
	const struct graph *graph = &plan->program[0].graph;
	size_t prefix = strlen(LOSS_METRIC);
	for (uint32_t i = 0; i < plan->persistents; i++) {
		const char *name = graph->text + plan->persistent[i].name;
		if (plan->persistent[i].role != ROLE_METRIC || strncmp(name, LOSS_METRIC, prefix) != 0)
			continue;
		if (session->losses == TARN_MAX_LOSSES)
			return tarn_fail(TARN_EUNSUPPORTED, "more than %u losses in one network", TARN_MAX_LOSSES);
		struct session_loss *loss = &session->loss[session->losses];
		bool network = !session->losses++;
		loss->name = name + prefix;
		loss->loss = name;
		loss->correct = network ? "metric/correct"
					: host_arena_printf(&session->arena, "metric/correct/%s", loss->name);
		if (!loss->correct)
			return TARN_ENOMEM;
		if (!exec_find(&session->executor, loss->correct))
			loss->correct = NULL;
	}
	return TARN_OK;
}

/* The labels of a sample that each loss is a mean over. */
static void count_labels(struct tarn_session *session)
{
	const struct graph *graph = &session->plan.program[0].graph;
	for (uint32_t op = 0; op < graph->ops; op++) {
		if (graph->op[op].kind != OP_RECORD)
			continue;
		const char *metric = tensor_name(graph, op_inputs(graph, op)[0]);
		uint32_t counter = graph->tensor[op_inputs(graph, op)[1]].producer;
		/* With train.accumulate the count is a sum of those of the parts. */
		while (counter != OP_NONE && graph->op[counter].kind != OP_COUNT_CORRECT && graph->op[counter].inputs)
			counter = graph->tensor[op_inputs(graph, counter)[0]].producer;
		if (counter == OP_NONE || graph->op[counter].kind != OP_COUNT_CORRECT)
			continue;
		const struct tensor *labels = &graph->tensor[op_inputs(graph, counter)[1]];
		for (uint32_t i = 1; i < session->losses; i++)
			if (session->loss[i].correct && !strcmp(session->loss[i].correct, metric))
				session->loss[i].labels = tensor_elements(labels) / labels->dim[0];
	}
}

enum tarn_status session_open_arrays(struct tarn_session *session)
{
	enum tarn_status st = TARN_OK;
	for (uint32_t k = 0; k < session->train.shape.arrays && !st; k++)
		st = open_array(session, k);
	if (!st)
		st = find_losses(session);
	if (!st)
		count_labels(session);
	return st;
}
