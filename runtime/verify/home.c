/*
 * home.c - the persistent table, and each program's persistent tensors in it.
 *
 * Programs are tied to the table by name. Only a staging slot may be used in part: the last batch is smaller, and so
 * are the samples of a program for a smaller shape; both fill a prefix of it.
 */
#include "verify/replay.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct named {
	const char *name;
	uint32_t entry;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static int by_offset(const void *a, const void *b)
{
	uint64_t x = ((const struct persistent *)a)->offset, y = ((const struct persistent *)b)->offset;
	return (x > y) - (x < y);
}

static const char *entry_name(const struct plan *plan, uint32_t entry)
{
	return plan->program[0].graph.text + plan->persistent[entry].name;
}

static struct named *sort_names(const struct plan *plan, struct host_arena *scratch)
{
	struct named *named = HOST_ARRAY(scratch, plan->persistents, struct named);
	if (!named)
		return NULL;
	for (uint32_t i = 0; i < plan->persistents; i++)
		named[i] = (struct named){ entry_name(plan, i), i };
	qsort(named, plan->persistents, sizeof *named, by_name);
	return named;
}

static enum tarn_status check_entry(const struct plan *plan, uint32_t i)
{
	const struct persistent *p = &plan->persistent[i];
	const struct graph *graph = &plan->program[0].graph;
	if (p->name >= graph->text_bytes || p->tensor >= graph->tensors)
		return tarn_fail(TARN_EVERIFY, "persistent table: entry %u has no name or no tensor", i);
	const struct tensor *tensor = &graph->tensor[p->tensor];
	if (tensor->producer != OP_NONE || !is_persistent(p->role) ||
	    strcmp(graph->text + tensor->name, entry_name(plan, i)))
		return tarn_fail(TARN_EVERIFY,
				 "persistent table: entry %s is not the persistent tensor %u of program %s",
				 entry_name(plan, i), p->tensor, program_name(plan->program[0].kind));
	if (!p->bytes || p->bytes > plan->persistent_bytes || p->offset % TARN_ALIGNMENT ||
	    p->offset > plan->persistent_bytes || bytes_align(p->bytes) > plan->persistent_bytes - p->offset)
		return tarn_fail(TARN_EVERIFY,
				 "persistent table: %s, %" PRIu64 " bytes at %" PRIu64
				 ", is not aligned to %u or not inside the first %" PRIu64 " bytes",
				 entry_name(plan, i), p->bytes, p->offset, (unsigned)TARN_ALIGNMENT,
				 plan->persistent_bytes);
	return TARN_OK;
}

enum tarn_status verify_table(const struct plan *plan, struct host_arena *scratch)
{
	for (uint32_t i = 0; i < plan->persistents; i++) {
		enum tarn_status st = check_entry(plan, i);
		if (st)
			return st;
	}
	struct named *named = sort_names(plan, scratch);
	struct persistent *sorted = HOST_ARRAY(scratch, plan->persistents, struct persistent);
	if (!named || !sorted)
		return TARN_ENOMEM;
	for (uint32_t i = 1; i < plan->persistents; i++)
		if (!strcmp(named[i - 1].name, named[i].name))
			return tarn_fail(TARN_EVERIFY, "persistent table: %s stands there twice", named[i].name);
	if (!plan->persistents)
		return TARN_OK;
	memcpy(sorted, plan->persistent, plan->persistents * sizeof *sorted);
	qsort(sorted, plan->persistents, sizeof *sorted, by_offset);
	const char *text = plan->program[0].graph.text;
	for (uint32_t i = 1; i < plan->persistents; i++)
		if (sorted[i - 1].offset + bytes_align(sorted[i - 1].bytes) > sorted[i].offset)
			return tarn_fail(TARN_EVERIFY, "persistent table: %s and %s share bytes at %" PRIu64,
					 text + sorted[i - 1].name, text + sorted[i].name, sorted[i].offset);
	return TARN_OK;
}

/* The last batch is shorter: the first dimension of a staging slot may differ. With `smaller`, the others may be less.
 */
static bool same_shape(const struct tensor *a, const struct tensor *b, bool smaller)
{
	if (a->rank != b->rank || a->rank > OP_MAX_RANK)
		return false;
	bool staging = a->role == ROLE_STAGING;
	for (uint32_t i = staging; i < a->rank; i++)
		if (a->dim[i] > b->dim[i] || (a->dim[i] < b->dim[i] && !(staging && smaller)))
			return false;
	return true;
}

static enum tarn_status match(const struct subject *subject, uint32_t t, uint32_t entry)
{
	const struct graph *graph = &subject->program->graph;
	const struct tensor *tensor = &graph->tensor[t];
	const struct persistent *p = &subject->plan->persistent[entry];
	if (tensor->dtype != p->dtype || tensor->role != p->role)
		return verify_refuse(subject, "%s is a %s of %s, the persistent table has a %s of %s",
				     tensor_name(graph, t), role_name(tensor->role), dtype_name(tensor->dtype),
				     role_name(p->role), dtype_name(p->dtype));
	if (tensor->bytes > p->bytes || (tensor->bytes != p->bytes && tensor->role != ROLE_STAGING))
		return verify_refuse(subject, "%s has %" PRIu64 " bytes, the persistent table gives it %" PRIu64,
				     tensor_name(graph, t), tensor->bytes, p->bytes);
	const struct tensor *first = &subject->plan->program[0].graph.tensor[p->tensor];
	char shape[SHAPE_TEXT], other[SHAPE_TEXT];
	if (!same_shape(tensor, first, subject->program->shape))
		return verify_refuse(subject, "%s is %s, program %s has it as %s", tensor_name(graph, t),
				     shape_format(tensor->dim, tensor->rank, shape, sizeof shape),
				     program_name(subject->plan->program[0].kind),
				     shape_format(first->dim, first->rank, other, sizeof other));
	return TARN_OK;
}

enum tarn_status verify_homes(struct subject *subject, struct host_arena *scratch, uint64_t *largest)
{
	const struct graph *graph = &subject->program->graph;
	const struct plan *plan = subject->plan;
	struct named *named = sort_names(plan, scratch);
	subject->home = HOST_ARRAY(scratch, graph->tensors, uint32_t);
	bool *taken = HOST_ARRAY(scratch, plan->persistents, bool);
	if (!named || !subject->home || !taken)
		return TARN_ENOMEM;
	for (uint32_t t = 0; t < graph->tensors; t++) {
		subject->home[t] = HOME_NONE;
		if (graph->tensor[t].producer != OP_NONE)
			continue;
		struct named key = { tensor_name(graph, t), 0 };
		const struct named *found = bsearch(&key, named, plan->persistents, sizeof *named, by_name);
		if (!found)
			return verify_refuse(subject, "%s is not in the persistent table", key.name);
		if (taken[found->entry])
			return verify_refuse(subject, "two persistent tensors are named %s", key.name);
		taken[found->entry] = true;
		enum tarn_status st = match(subject, t, found->entry);
		if (st)
			return st;
		subject->home[t] = found->entry;
		if (graph->tensor[t].bytes > largest[found->entry])
			largest[found->entry] = graph->tensor[t].bytes;
	}
	/* storage was proved by links.c: of a view or a version of something persistent it is the persistent tensor. */
	for (uint32_t t = 0; t < graph->tensors; t++)
		subject->home[t] = subject->home[graph->tensor[t].storage];
	return TARN_OK;
}
