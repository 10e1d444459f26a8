/* session_prune.c - weights that become 0 and stay so; the masks are state of the optimizer (autodiff/optimizer.h). */
#include "session.h"

#include "graph/graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A weight that has a mask. */
struct weight {
	float importance;
	uint32_t number; /* among all of them: lower ones go first where importance is equal */
};

static int compare(const void *a, const void *b)
{
	const struct weight *x = a, *y = b;
	if (x->importance != y->importance)
		return x->importance < y->importance ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

static const char *name_of(const struct tarn_session *session, const struct persistent *p)
{
	return session->plan.program[0].graph.text + p->name;
}

static bool is_trained(const struct tarn_session *session, const struct persistent *p)
{
	return p->role == ROLE_PARAMETER && !(session->plan.program[0].graph.tensor[p->tensor].flags & TENSOR_FROZEN);
}

/* "<before><parameter><after>"; NULL when there is none. */
static const struct persistent *find(const struct tarn_session *session, const char *before,
				     const struct persistent *parameter, const char *after)
{
	char name[2 * GRAPH_MAX_NAME];
	snprintf(name, sizeof name, "%s%s%s", before, name_of(session, parameter), after);
	return exec_find(&session->executor, name);
}

static enum tarn_status transfer(struct tarn_session *session, const struct persistent *p, void *data, bool write)
{
	struct device *device = &session->device;
	if (!write)
		return device->ops->read(device, p->offset, data, p->bytes);
	enum tarn_status st = device->ops->write(device, p->offset, data, p->bytes);
	return st ? st : device->ops->synchronize(device);
}

/* All weights that have a mask, with their importance; those that are masked have less than any other. */
static enum tarn_status list_weights(struct tarn_session *session, const float *importance, struct weight *list,
				     float *mask, uint64_t *weights)
{
	uint64_t n = 0;
	for (uint32_t i = 0; i < session->plan.persistents; i++) {
		const struct persistent *p = &session->plan.persistent[i], *m;
		if (!is_trained(session, p))
			continue;
		const uint64_t elements = p->bytes / sizeof(float);
		m = find(session, "optimizer/", p, "/mask");
		enum tarn_status st = m ? transfer(session, m, mask, false) : TARN_OK;
		for (uint64_t k = 0; m && k < elements && !st; k++, n++) {
			if (!isfinite(importance[k]))
				return tarn_fail(TARN_EINVAL, "tarn_prune: the importance of element %llu of %s is %f",
						 (unsigned long long)k, name_of(session, p), (double)importance[k]);
			list[n] = (struct weight){ mask[k] == 0 ? -INFINITY : importance[k], (uint32_t)n };
		}
		if (st)
			return st;
		importance += elements;
	}
	*weights = n;
	return TARN_OK;
}

static enum tarn_status multiply(struct tarn_session *session, const struct persistent *p, const uint8_t *keep,
				 float *scratch)
{
	enum tarn_status st = p ? transfer(session, p, scratch, false) : TARN_OK;
	for (uint64_t k = 0; p && k < p->bytes / sizeof *scratch; k++)
		scratch[k] = keep[k] ? scratch[k] : 0;
	return st || !p ? st : transfer(session, p, scratch, true);
}

/* The parameter, its mask, its average, and what would move it. */
static enum tarn_status prune_parameter(struct tarn_session *session, const struct persistent *parameter,
					const struct persistent *mask, const uint8_t *keep, float *scratch)
{
	const struct persistent *moment = find(session, "optimizer/", parameter, "/m");
	if (!moment)
		moment = find(session, "optimizer/", parameter, "/momentum");
	const struct persistent *second = find(session, "optimizer/", parameter, "/v");
	enum tarn_status st = multiply(session, parameter, keep, scratch);
	if (!st)
		st = multiply(session, mask, keep, scratch);
	if (!st)
		st = multiply(session, find(session, AVERAGE_PREFIX, parameter, ""), keep, scratch);
	if (st || !moment)
		return st;
	if (moment->dtype == DTYPE_F32)
		return multiply(session, moment, keep, scratch);
	/* Bytes in blocks that share a scale (graph/blockwise.h): all zero bytes mean zero. */
	memset(scratch, 0, parameter->bytes);
	st = transfer(session, moment, scratch, true);
	return st || !second ? st : transfer(session, second, scratch, true);
}

static enum tarn_status check(const struct tarn_session *session, const float *importance, uint64_t elements,
			      double fraction, uint64_t *masked, uint64_t *largest)
{
	uint64_t all = 0;
	enum tarn_status st = session_check_running(session);
	if (st)
		return st;
	*masked = *largest = 0;
	for (uint32_t i = 0; i < session->plan.persistents; i++) {
		const struct persistent *p = &session->plan.persistent[i];
		if (!is_trained(session, p))
			continue;
		all += p->bytes / sizeof(float);
		*masked += find(session, "optimizer/", p, "/mask") ? p->bytes / sizeof(float) : 0;
		*largest = p->bytes > *largest ? p->bytes : *largest;
	}
	if (!*masked)
		return tarn_fail(TARN_EINVAL, "tarn_prune: the session has no masks; set optimizer.masks: true");
	if (*masked > UINT32_MAX)
		return tarn_fail(TARN_EUNSUPPORTED, "tarn_prune: %llu weights are more than 2^32",
				 (unsigned long long)*masked);
	if (!importance || elements != all)
		return tarn_fail(TARN_EINVAL, "tarn_prune: the trained parameters have %llu elements, not %llu",
				 (unsigned long long)all, (unsigned long long)elements);
	if (!(fraction >= 0 && fraction < 1))
		return tarn_fail(TARN_EINVAL, "tarn_prune: the fraction is %g, it must be at least 0 and below 1",
				 fraction);
	return TARN_OK;
}

enum tarn_status tarn_prune(struct tarn_session *session, const float *importance, uint64_t elements, double fraction,
			    struct tarn_pruning *pruning)
{
	uint64_t masked, largest;
	enum tarn_status st = check(session, importance, elements, fraction, &masked, &largest);
	if (st)
		return st;
	struct host_mark mark = host_arena_mark(&session->arena);
	struct weight *list = HOST_ARRAY(&session->arena, masked, struct weight);
	uint8_t *keep = HOST_ARRAY(&session->arena, masked, uint8_t);
	float *scratch = HOST_ARRAY(&session->arena, largest / sizeof(float), float);
	st = list && keep && scratch ? list_weights(session, importance, list, scratch, &masked) : TARN_ENOMEM;
	if (st)
		goto out_release;
	qsort(list, masked, sizeof *list, compare);
	const uint64_t asked = (uint64_t)(fraction * (double)masked);
	uint64_t pruned = 0;
	while (pruned < masked && (pruned < asked || list[pruned].importance == -INFINITY))
		pruned++;
	for (uint64_t i = 0; i < masked; i++)
		keep[list[i].number] = i >= pruned;
	*pruning = (struct tarn_pruning){ .weights = masked, .pruned = pruned, .largest_importance = -INFINITY };
	if (pruned)
		pruning->largest_importance = (double)list[pruned - 1].importance;
	const uint8_t *part = keep;
	for (uint32_t i = 0; i < session->plan.persistents && !st; i++) {
		const struct persistent *p = &session->plan.persistent[i];
		const struct persistent *mask = is_trained(session, p) ? find(session, "optimizer/", p, "/mask") : NULL;
		if (!mask)
			continue;
		st = prune_parameter(session, p, mask, part, scratch);
		part += p->bytes / sizeof(float);
	}
out_release:
	host_arena_release(&session->arena, mark);
	return st;
}
