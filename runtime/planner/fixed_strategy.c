/* fixed_strategy.c - the strategies that give one schedule each, whatever the budget. */
#include "planner/planning.h"
#include "planner/strategies.h"

#include <string.h>

static enum tarn_status keep_of_strategy(struct planning *k, uint32_t strategy, uint32_t order, uint8_t *keep)
{
	const struct planner_request *request = k->request;
	switch (strategy) {
	case STRATEGY_SQRT:
		return strategy_keep_sqrt(&k->optimizer.dependence, k->optimizer.order[order], k->scratch, keep);
	case STRATEGY_SPEED:
		strategy_keep_heavy(request->problem, keep);
		return TARN_OK;
	case STRATEGY_MANUAL:
		if (request->keep)
			memcpy(keep, request->keep, request->problem->values);
		return TARN_OK;
	default:
		return TARN_OK;
	}
}

enum tarn_status planning_try_fixed(struct planning *k, enum tarn_status (*take)(struct planning *))
{
	static const uint32_t tried[] = { STRATEGY_SQRT, STRATEGY_SPEED };
	struct optimizer *optimizer = &k->optimizer;
	struct host_mark mark = host_arena_mark(k->scratch);
	uint8_t *keep = HOST_ARRAY(k->scratch, k->request->problem->values, uint8_t);
	struct replay_options options = { .policy = REPLAY_KEEP, .keep = keep, .max_steps = UINT32_MAX };
	enum tarn_status st = keep ? TARN_OK : TARN_ENOMEM;
	options.budget = k->none.peak_bytes;
	for (uint32_t i = 0; !st && optimizer->any_forward && i < sizeof tried / sizeof *tried; i++)
		for (uint32_t order = 0; !st && order < optimizer->orders; order++) {
			st = keep_of_strategy(k, tried[i], order, keep);
			if (!st && optimizer_replay(optimizer, order, &options, &k->trial))
				st = take(k);
		}
	host_arena_release(k->scratch, mark);
	return st;
}

/* The fixed strategy's schedule with the lower peak of the two orders; keeping all when that is no worse. */
enum tarn_status planning_fixed_strategy(struct planning *k)
{
	const struct candidate *none = &k->none;
	uint8_t *keep = HOST_ARRAY(k->scratch, k->request->problem->values, uint8_t);
	struct replay_options options = { .policy = REPLAY_KEEP, .keep = keep, .max_steps = UINT32_MAX };
	if (!keep)
		return TARN_ENOMEM;
	if (k->request->strategy == STRATEGY_MEMORY_POOR)
		options.policy = REPLAY_FORGET;
	candidate_copy(&k->best, none);
	bool found = false;
	for (uint32_t order = 0; order < k->optimizer.orders; order++) {
		enum tarn_status st = keep_of_strategy(k, k->request->strategy, order, keep);
		if (st)
			return st;
		options.budget = k->best.peak_bytes;
		found |= optimizer_replay(&k->optimizer, order, &options, &k->trial) &&
			 (k->trial.peak_bytes < k->best.peak_bytes || k->trial.time_ns == none->time_ns);
		if (found)
			candidate_copy(&k->best, &k->trial);
	}
	if (!found && k->request->strategy == STRATEGY_MEMORY_POOR && k->least.peak_bytes < none->peak_bytes) {
		/* To keep nothing would take too many steps: the least memory within the limit of steps instead. */
		candidate_copy(&k->best, &k->least);
		return TARN_OK;
	}
	k->result->fell_back = !found;
	return TARN_OK;
}
