/* least_time.c - the fastest schedule whose packing fits the budget. */
#include "planner/planning.h"

#include "planner/exact.h"

#include <string.h>

/* Times a schedule that fits by its sum of live bytes is asked to be smaller because its packing does not fit. */
#define PACK_ATTEMPTS 6u
/* Each of several starts gets one so-manieth of the work of a long search. */
#define LONG_START_SHARE 8u
#define BELOW_SHARE 12u
#define LAST_SHARE 3u
/* Ops of a problem that is searched from one start alone. */
#define MANY_OPS 500u

/* Plans for a few limits below the budget, each a start for the next, so that more memory does not cost time. */
static enum tarn_status climb_ladder(struct planning *k)
{
	uint64_t budget = k->request->budget, height, low = k->least_height;
	uint64_t rungs = k->optimizer.dependence.needed_ops > 3000 ? 2 : 8;
	for (uint64_t rung = 1; rung < rungs; rung++) {
		uint64_t limit = low + (k->none_height - low) / rungs * rung;
		if (limit > budget)
			return TARN_OK;
		candidate_copy(&k->trial, &k->best);
		optimizer_least_time(&k->optimizer, limit, true, &k->trial);
		if (k->trial.time_ns == k->best.time_ns)
			continue;
		enum tarn_status st = planning_height(k, &k->trial, budget, &height);
		if (st)
			return st;
		if (height <= budget)
			candidate_copy(&k->best, &k->trial);
	}
	return TARN_OK;
}

/* What is a chain has an exact start; below smaller sums of live bytes while its packing does not fit. */
static enum tarn_status take_chain(struct planning *k)
{
	uint64_t budget = k->request->budget, limit = budget, height;
	enum tarn_status st = TARN_OK;
	for (uint32_t attempt = 0; !st && attempt < PACK_ATTEMPTS; attempt++) {
		if (!optimizer_chain(&k->optimizer, limit, false, &k->trial))
			break;
		st = planning_take_if_it_fits(k, &height);
		if (st || height <= budget || limit <= height - budget)
			break;
		limit -= height - budget;
	}
	return st;
}

/* A fixed strategy's schedule, which keeps what it keeps whatever the budget: what still fits need not be dropped. */
static enum tarn_status take_polished(struct planning *k)
{
	uint64_t budget = k->request->budget, height;
	if (k->trial.peak_bytes > budget)
		return TARN_OK;
	enum tarn_status st = planning_take_if_it_fits(k, &height);
	if (!st && optimizer_polish(&k->optimizer, budget, &k->trial))
		st = planning_take_if_it_fits(k, &height);
	return st;
}

/* The caller's schedule is a start like any other. */
static enum tarn_status take_known(struct planning *k)
{
	const struct schedule *known = k->request->known;
	uint64_t height;
	if (!known || known->steps > k->optimizer.max_steps)
		return TARN_OK;
	k->trial.steps = known->steps;
	memcpy(k->trial.step, known->step, known->steps * sizeof *known->step);
	enum tarn_status st =
		schedule_measure(k->request->problem, known, k->scratch, &k->trial.peak_bytes, &k->trial.time_ns);
	return st ? st : planning_take_if_it_fits(k, &height);
}

/* The trial's time is the best's; its steps are scratch. *done: the best is proved to be the fastest. */
static enum tarn_status improve_exactly(struct planning *k, bool *done)
{
	bool found;
	uint64_t height, bound;
	k->trial.time_ns = k->best.time_ns;
	k->exact_work = planning_exact_limits[k->request->effort].work;
	enum tarn_status st = planning_search_exactly(k, k->request->budget, 0, &found, done, &bound);
	if (st)
		return st;
	if (found)
		st = planning_take_if_it_fits(k, &height);
	/* What is packed may need more than the sum: then the proof holds for the sum alone. */
	*done &= !found || k->best.time_ns == bound;
	k->result->bound_ns = bound;
	k->result->infeasible = *done && !k->best.steps;
	return st;
}

/* A long search from `from`, whose packing may not fit: then again below a smaller sum of live bytes. */
static enum tarn_status search_from(struct planning *k, const struct candidate *from, uint32_t share, uint64_t seed)
{
	uint64_t budget = k->request->budget, limit = budget, height;
	enum tarn_status st = TARN_OK;
	for (uint32_t attempt = 0; !st && attempt < PACK_ATTEMPTS; attempt++) {
		candidate_copy(&k->trial, from);
		if (!optimizer_search_long(&k->optimizer, limit, attempt ? 4 * share : share, seed + attempt,
					   k->request->enough_time, from == &k->none, &k->trial))
			break;
		st = planning_take_if_it_fits(k, &height);
		if (st || height <= budget || limit <= height - budget)
			break;
		limit -= height - budget;
	}
	return st;
}

/* A search under a smaller budget, then from its schedule: what was hard to find there is easy to relax. */
static enum tarn_status search_from_below(struct planning *k, uint32_t part)
{
	uint64_t budget = k->request->budget, floor = k->optimizer.bound;
	uint64_t limit = budget - (budget - floor) / part;
	candidate_copy(&k->trial, k->best.steps ? &k->best : &k->none);
	if (budget <= floor || !optimizer_search_long(&k->optimizer, limit, BELOW_SHARE, k->request->seed + part,
						      k->request->enough_time, true, &k->trial))
		return TARN_OK;
	candidate_copy(&k->first, &k->trial);
	return search_from(k, &k->first, BELOW_SHARE, k->request->seed + part);
}

/* With more effort: the exact search, then long searches from several starts, then one from the best. */
static enum tarn_status search_on(struct planning *k)
{
	const struct candidate *start[] = { &k->none, &k->first, &k->least };
	static const uint32_t below[] = { 32, 8 };
	bool done;
	enum tarn_status st = improve_exactly(k, &done);
	if (st || done)
		return st;
	candidate_copy(&k->first, &k->best);
	/* Long schedules need most of the work for one start: keeping all, which the search repairs itself. */
	bool many = k->optimizer.dependence.needed_ops > MANY_OPS, one = many && !k->optimizer.chain.stages;
	uint32_t share = one ? 1 : many ? 2 : LONG_START_SHARE;
	for (uint32_t i = 0; !st && i < (many ? 1 : sizeof start / sizeof *start); i++)
		if (start[i]->steps && (start[i] != &k->least || k->least_known))
			st = search_from(k, start[i], share, k->request->seed + i);
	for (uint32_t i = 0; !st && !many && i < sizeof below / sizeof *below; i++)
		st = search_from_below(k, below[i]);
	if (!st && k->best.steps && !one) {
		candidate_copy(&k->first, &k->best);
		st = search_from(k, &k->first, many ? 2 : LAST_SHARE, k->request->seed + 3);
	}
	return st;
}

/*
 * The least time whose packing fits the budget. When a packing is too high, replays and search go on below a smaller
 * sum of live bytes.
 */
enum tarn_status planning_least_time(struct planning *k)
{
	uint64_t budget = k->request->budget, limit = budget, height;
	if (budget >= k->none_height) {
		candidate_copy(&k->best, &k->none);
		return TARN_OK;
	}
	enum tarn_status st = TARN_OK;
	k->best.steps = 0;
	k->best.time_ns = UINT64_MAX;
	if (k->least_height <= budget)
		candidate_copy(&k->best, &k->least);
	st = take_known(k);
	if (!st && k->least_known)
		st = climb_ladder(k);
	if (!st)
		st = take_chain(k);
	if (!st)
		st = planning_try_fixed(k, take_polished);
	for (uint32_t attempt = 0; !st && attempt < PACK_ATTEMPTS; attempt++) {
		candidate_copy(&k->trial, k->best.steps ? &k->best : &k->none);
		k->trial.time_ns = k->best.time_ns;
		optimizer_least_time(&k->optimizer, limit, attempt > 0, &k->trial);
		if (k->trial.time_ns == UINT64_MAX)
			break;
		st = planning_take_if_it_fits(k, &height);
		if (st || k->trial.time_ns == k->optimizer.dependence.base_time_ns ||
		    !optimizer_search(&k->optimizer, limit, attempt ? 4 : 1, attempt, &k->trial))
			break;
		st = planning_take_if_it_fits(k, &height);
		if (st || height <= budget || limit <= height - budget)
			break;
		limit -= height - budget;
	}
	/* Without a schedule to begin with, the search for less memory comes first. */
	if (!st && k->request->effort > EFFORT_FAST && (k->best.steps || k->least_known))
		st = search_on(k);
	return st;
}
