/* planner.c - strategies, the least budget, and what to say when it is above the budget. */
#include "planner/planner.h"

#include "base/bytes.h"
#include "planner/planning.h"

#include <inttypes.h>

static enum tarn_status plan_strategy(struct planning *k)
{
	switch (k->request->strategy) {
	case STRATEGY_AUTO:
		return planning_least_time(k);
	case STRATEGY_NONE:
		candidate_copy(&k->best, &k->none);
		return TARN_OK;
	case STRATEGY_MIN:
		candidate_copy(&k->best, &k->least);
		return TARN_OK;
	default:
		return planning_fixed_strategy(k);
	}
}

static enum tarn_status fail_budget(uint64_t budget, uint64_t needed, const struct planner_result *result)
{
	char asked[BYTES_TEXT], own[BYTES_TEXT], least[BYTES_TEXT], all[BYTES_TEXT];
	bytes_format(budget, asked, sizeof asked);
	bytes_format(needed, own, sizeof own);
	bytes_format(result->min_budget, least, sizeof least);
	bytes_format(result->none_height, all, sizeof all);
	return tarn_fail(TARN_EBUDGET,
			 "%s (%" PRIu64 " bytes) for activations is too little: this strategy needs %s (%" PRIu64
			 " bytes), the least possible is %s (%" PRIu64 " bytes), keeping everything takes %s",
			 asked, budget, own, needed, least, result->min_budget, all);
}

/* Everything up to the sequence of steps in k->best. */
static enum tarn_status plan_steps(struct planning *k)
{
	const struct planner_request *request = k->request;
	enum tarn_status st = optimizer_init(&k->optimizer, request->problem, request->effort, k->scratch);
	struct candidate *all[] = { &k->none, &k->least, &k->best, &k->trial, &k->first };
	for (size_t i = 0; !st && i < sizeof all / sizeof *all; i++)
		st = candidate_init(all[i], &k->optimizer, k->scratch);
	if (st)
		return st;
	optimizer_keep_all(&k->optimizer, &k->none);
	st = planning_height(k, &k->none, 0, &k->none_height);
	k->least_height = k->result->min_budget = UINT64_MAX;
	k->result->least_bound = k->optimizer.bound;
	if (!st && !planning_may_skip_least(request))
		st = planning_least_memory(k);
	if (st)
		return st;
	k->result->base_time_ns = k->optimizer.dependence.base_time_ns;
	k->result->none_peak = k->none.peak_bytes;
	k->result->none_height = k->none_height;
	if (planning_may_skip_least(request)) {
		st = planning_least_time(k);
		if (st || k->best.steps || !k->optimizer.dependence.needed_ops)
			return st;
		/* Nothing was found yet: the search for less memory may find what fits, or what does not. */
		st = planning_least_memory(k);
		if (st)
			return st;
	}
	k->result->min_budget = k->least_height;
	if (request->budget < k->least_height && request->strategy == STRATEGY_AUTO && request->effort == EFFORT_FAST)
		return fail_budget(request->budget, k->least_height, k->result);
	st = plan_strategy(k);
	if (!st && !k->best.steps && k->optimizer.dependence.needed_ops)
		st = fail_budget(request->budget, k->least_height, k->result);
	return st;
}

enum tarn_status planner_run(const struct planner_request *request, struct host_arena *arena,
			     struct planner_result *result)
{
	*result = (struct planner_result){ 0 };
	enum tarn_status st = problem_check(request->problem);
	if (st)
		return st;
	struct planning k = { .request = request, .result = result, .scratch = arena };
	/* Scratch comes from `arena` and is given back; only the steps cross over to the result. */
	struct host_mark mark = host_arena_mark(arena);
	struct host_arena carried;
	host_arena_init(&carried);
	struct candidate best = { 0 };
	st = plan_steps(&k);
	if (!st && !(best.step = HOST_ARRAY(&carried, k.best.steps, uint32_t)))
		st = TARN_ENOMEM;
	if (!st)
		candidate_copy(&best, &k.best);
	host_arena_release(arena, mark);
	if (!st)
		st = planning_fill_result(&k, &best, arena);
	host_arena_fini(&carried);
	if (!st && result->height > request->budget) {
		st = fail_budget(request->budget, result->height, result);
		result->schedule = (struct schedule){ 0 };
		result->expansion = (struct expansion){ 0 };
		result->offset = NULL;
	}
	return st;
}

enum tarn_status planner_sweep(const struct problem *problem, const uint64_t *budget, uint32_t n,
			       struct host_arena *arena, struct planner_result *result)
{
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 0; !st && i < n; i++) {
		struct planner_request request = { .problem = problem,
						   .strategy = STRATEGY_AUTO,
						   .budget = budget[i],
						   .known = i ? &result[i - 1].schedule : NULL };
		st = planner_run(&request, arena, &result[i]);
	}
	return st;
}
