/* least_memory.c - the schedule with the least height that can be found. */
#include "planner/planning.h"

#include "planner/exact.h"

/* Times the search is asked for a lower peak. */
#define LOWER_ROUNDS 8u
/* And how often in vain for the smallest step down before it is left alone. */
#define LEAST_CUT_FAILURES 3u
/* Long searches for a lower peak, which share the work of one. */
#define LONG_LOWER_ROUNDS 16u

/* Peaks are sums of sizes: they differ by multiples of this. */
static uint64_t common_divisor_of_sizes(const struct problem *p)
{
	uint64_t divisor = 0;
	for (uint32_t i = 0; i < p->values + p->ops; i++) {
		uint64_t a = i < p->values ? p->value[i].bytes : p->op[i - p->values].workspace;
		while (a) {
			uint64_t rest = divisor % a;
			divisor = a;
			a = rest;
		}
	}
	return divisor;
}

/* Asks the search for less and less: at first a sixteenth of what is above the bound, later more or less. */
static enum tarn_status lower_by_search(struct planning *k)
{
	enum tarn_status st = TARN_OK;
	uint64_t bound = k->optimizer.bound, cut = (k->trial.peak_bytes - bound) / 16;
	uint64_t least_cut = common_divisor_of_sizes(k->request->problem);
	uint32_t failures = 0;
	for (uint32_t round = 0; !st && round < LOWER_ROUNDS && k->trial.peak_bytes > bound; round++) {
		uint64_t above = k->trial.peak_bytes - bound;
		cut = cut < least_cut ? least_cut : cut < above ? cut : above;
		if (optimizer_search(&k->optimizer, k->trial.peak_bytes - cut, LOWER_ROUNDS, round, &k->trial)) {
			st = planning_take_if_lower(k);
			cut *= 2;
			failures = 0;
		} else if (cut > least_cut) {
			cut /= 4;
		} else if (++failures == LEAST_CUT_FAILURES) {
			break;
		}
	}
	return st;
}

/*
 * Parts of the bisection's work that a question may take, in sixteenths: first by what has the least left to do, then
 * by what is fastest.
 */
#define NEAREST_SIXTEENTHS 1u
#define FASTEST_SIXTEENTHS 4u

/* Whether a schedule fits the limit: then the trial is one. */
static enum tarn_status ask_exactly(struct planning *k, uint64_t limit, uint64_t *work, bool *found, bool *proved)
{
	static const uint32_t order[] = { EXACT_NEAREST, EXACT_FASTEST },
			      part[] = { NEAREST_SIXTEENTHS, FASTEST_SIXTEENTHS };
	uint64_t all = planning_exact_limits[k->request->effort].bisection_work, bound;
	enum tarn_status st = TARN_OK;
	*found = *proved = false;
	for (uint32_t i = 0; !st && !*found && !*proved && i < 2; i++) {
		uint64_t share = all / 16 * part[i];
		k->exact_work = share = share < *work ? share : *work;
		st = planning_search_exactly(k, limit, order[i], found, proved, &bound);
		*work -= share - k->exact_work;
	}
	return st;
}

/*
 * Small problems: the bound itself, then limits between what is proved, or could not be decided, and what was found.
 */
static enum tarn_status lower_exactly(struct planning *k)
{
	uint64_t divisor = common_divisor_of_sizes(k->request->problem), grain = divisor ? divisor : 1;
	uint64_t proved_low = k->optimizer.bound, low = proved_low;
	uint64_t work = planning_exact_limits[k->request->effort].bisection_work /
			(planning_may_skip_least(k->request) ? 2 : 1);
	bool found, proved;
	enum tarn_status st = TARN_OK;
	if (k->request->effort == EFFORT_FAST || !exact_applies(&k->optimizer.dependence))
		return TARN_OK;
	/* What was asked for comes first; it is all that counts when it can be decided. */
	if (planning_may_skip_least(k->request) && k->request->budget >= low &&
	    k->request->budget < k->least.peak_bytes) {
		st = ask_exactly(k, k->request->budget, &work, &found, &proved);
		if (!st && found)
			return planning_take_if_lower(k);
		if (!st && proved)
			proved_low = low = k->request->budget / grain * grain + grain;
	}
	/* All peaks are multiples of the grain. */
	while (!st && low < k->least.peak_bytes && work) {
		uint64_t limit = low, above = (k->least.peak_bytes - low) / grain;
		if (low != k->optimizer.bound)
			limit += (above - 1 - above / 4) * grain;
		st = ask_exactly(k, limit, &work, &found, &proved);
		if (st)
			return st;
		if (found)
			st = planning_take_if_lower(k);
		if (found && k->least.peak_bytes > limit)
			break;
		if (found)
			continue;
		low = limit + grain;
		/* What does not fit a limit fits none below it. */
		if (proved)
			proved_low = low;
	}
	k->result->least_bound = proved_low;
	return st;
}

/* With more effort: from the least peak down by long searches, each for a little less. */
static enum tarn_status lower_by_long_search(struct planning *k)
{
	uint64_t bound = k->result->least_bound, grain = common_divisor_of_sizes(k->request->problem);
	uint64_t cut = (k->least.peak_bytes - bound) / 8;
	enum tarn_status st = TARN_OK;
	for (uint32_t round = 0; !st && round < LONG_LOWER_ROUNDS && k->least.peak_bytes > bound; round++) {
		cut = cut < grain ? grain : cut;
		candidate_copy(&k->trial, &k->least);
		if (optimizer_search_long(&k->optimizer, k->least.peak_bytes - cut, LONG_LOWER_ROUNDS,
					  k->request->seed + round, UINT64_MAX, false, &k->trial))
			st = planning_take_if_lower(k);
		else
			cut /= 2;
	}
	return st;
}

/* Whether less memory is of no use: only the budget is asked for, and it is met. */
static bool low_enough(const struct planning *k)
{
	return planning_may_skip_least(k->request) && k->least_height <= k->request->budget;
}

/* The least height that can be found: a function of the problem and the effort alone. */
enum tarn_status planning_least_memory(struct planning *k)
{
	enum tarn_status st;
	k->least_known = true;
	candidate_copy(&k->least, &k->none);
	k->least_height = k->none_height;
	candidate_copy(&k->trial, &k->none);
	optimizer_least_peak(&k->optimizer, &k->trial);
	st = planning_take_if_lower(k);
	if (!st && !low_enough(k))
		st = lower_by_search(k);
	if (!st && !low_enough(k))
		st = planning_try_fixed(k, planning_take_if_lower);
	if (!st && !low_enough(k) && optimizer_forget_all(&k->optimizer, k->least.peak_bytes - 1, &k->trial))
		st = planning_take_if_lower(k);
	if (!st && !low_enough(k))
		st = lower_exactly(k);
	if (!st && !low_enough(k) && k->request->effort > EFFORT_FAST)
		st = lower_by_long_search(k);
	if (st || k->least.time_ns == k->none.time_ns)
		return st;
	/* The same memory for less time. */
	candidate_copy(&k->trial, &k->least);
	if (optimizer_search(&k->optimizer, k->least.peak_bytes, LOWER_ROUNDS / 2, 0, &k->trial))
		st = planning_take_if_lower(k);
	return st;
}
