/* planner.c - strategies, the least budget, and the loop between scheduling and packing. */
#include "planner/planner.h"

#include "base/bytes.h"
#include "planner/exact.h"
#include "planner/optimize.h"
#include "planner/strategies.h"

#include <inttypes.h>
#include <string.h>

/* Times a schedule that fits by its sum of live bytes is asked to be smaller because its packing does not fit. */
#define PACK_ATTEMPTS 6u
/* Orders of placement tried by the packer's search: at most so many, and at most so many times buffers. */
#define PACK_ORDERS 400u
#define PACK_WORK 200000u
/* Times the search is asked for a lower peak. */
#define LOWER_ROUNDS 8u
/* And how often in vain for the smallest step down before it is left alone. */
#define LEAST_CUT_FAILURES 3u
/* Long searches for a lower peak, which share the work of one. */
#define LONG_LOWER_ROUNDS 16u
/* Each of several starts gets one so-manieth of the work of a long search. */
#define LONG_START_SHARE 6u
/* Ops of a problem that is searched from one start alone. */
#define MANY_OPS 500u

struct planning {
	const struct planner_request *request;
	struct optimizer optimizer;
	struct host_arena *scratch;
	struct candidate none, least, best, trial, first;
	uint64_t exact_work; /* moves that exact searches may still try */
	uint64_t none_height, least_height;
	bool least_known; /* least holds the schedule with the least height found */
	struct planner_result *result;
};

static uint32_t pack_effort(uint32_t buffers)
{
	uint32_t orders = PACK_WORK / (buffers + 1);
	return orders < PACK_ORDERS ? orders : PACK_ORDERS;
}

/* Height of a schedule's packing; *goal: high enough to stop at. */
static enum tarn_status height_of(struct planning *k, const struct candidate *c, uint64_t goal, uint64_t *height)
{
	if (k->request->sum_of_bytes) {
		*height = c->peak_bytes;
		return TARN_OK;
	}
	struct host_mark mark = host_arena_mark(k->scratch);
	struct schedule schedule = { .step = c->step, .steps = c->steps };
	struct expansion expansion;
	enum tarn_status st = schedule_expand(k->request->problem, &schedule, k->scratch, &expansion);
	if (st)
		goto out;
	st = TARN_ENOMEM;
	uint64_t load, *offset = HOST_ARRAY(k->scratch, expansion.buffers, uint64_t);
	if (offset)
		st = pack_buffers(expansion.buffer, expansion.buffers, goal, pack_effort(expansion.buffers), k->scratch,
				  offset, height, &load);
out:
	host_arena_release(k->scratch, mark);
	return st;
}

/* The plan of `c` into the result, from the caller's arena. */
static enum tarn_status fill_result(struct planning *k, const struct candidate *c, struct host_arena *arena)
{
	struct planner_result *r = k->result;
	r->schedule.step = HOST_ARRAY(arena, c->steps, uint32_t);
	if (!r->schedule.step)
		return TARN_ENOMEM;
	memcpy(r->schedule.step, c->step, c->steps * sizeof *c->step);
	r->schedule.steps = c->steps;
	enum tarn_status st = schedule_expand(k->request->problem, &r->schedule, arena, &r->expansion);
	if (st)
		return st;
	r->time_ns = r->expansion.time_ns;
	r->height = r->expansion.peak_bytes;
	if (k->request->sum_of_bytes)
		return TARN_OK;
	r->offset = HOST_ARRAY(arena, r->expansion.buffers, uint64_t);
	if (!r->offset)
		return TARN_ENOMEM;
	uint64_t load, budget = k->request->budget;
	uint32_t effort = pack_effort(r->expansion.buffers);
	st = pack_buffers(r->expansion.buffer, r->expansion.buffers, 0, effort, k->scratch, r->offset, &r->height,
			  &load);
	/* The packing that was judged aimed at the budget, not at the least height: it may have got lower. */
	if (!st && r->height > budget)
		st = pack_buffers(r->expansion.buffer, r->expansion.buffers, budget, effort, k->scratch, r->offset,
				  &r->height, &load);
	return st;
}

static enum tarn_status keep_of_strategy(struct planning *k, uint32_t order, uint8_t *keep)
{
	const struct planner_request *request = k->request;
	switch (request->strategy) {
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

/* The fixed strategy's schedule with the lower peak of the two orders; keeping all when that is no worse. */
static enum tarn_status plan_fixed(struct planning *k)
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
		enum tarn_status st = keep_of_strategy(k, order, keep);
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
		enum tarn_status st = height_of(k, &k->trial, budget, &height);
		if (st)
			return st;
		if (height <= budget)
			candidate_copy(&k->best, &k->trial);
	}
	return TARN_OK;
}

/* Takes the trial when its packing fits the budget and it is faster than the best; *height: of its packing. */
static enum tarn_status take_if_it_fits(struct planning *k, uint64_t *height)
{
	enum tarn_status st = height_of(k, &k->trial, k->request->budget, height);
	if (!st && *height <= k->request->budget && k->trial.time_ns < k->best.time_ns)
		candidate_copy(&k->best, &k->trial);
	return st;
}

/* What is a chain has an exact start; below smaller sums of live bytes while its packing does not fit. */
static enum tarn_status take_chain(struct planning *k)
{
	uint64_t budget = k->request->budget, limit = budget, height;
	enum tarn_status st = TARN_OK;
	for (uint32_t attempt = 0; !st && attempt < PACK_ATTEMPTS; attempt++) {
		if (!optimizer_chain(&k->optimizer, limit, false, &k->trial))
			break;
		st = take_if_it_fits(k, &height);
		if (st || height <= budget || limit <= height - budget)
			break;
		limit -= height - budget;
	}
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
	return st ? st : take_if_it_fits(k, &height);
}

/* Limits of the exact search by effort: states, and moves tried. */
static const struct {
	uint32_t states;
	uint64_t work, bisection_work;
} exact_limits[] = { { 0, 0, 0 }, { 300000, 3000000, 16000000 }, { 6000000, 100000000, 200000000 } };

/*
 * Small problems: the fastest schedule, or any, within a limit and faster than k->trial.time_ns, into the trial.
 * *found, *proved: there is none beside.
 */
static enum tarn_status search_exactly(struct planning *k, uint64_t limit, uint32_t any_schedule, bool *found,
				       bool *proved, uint64_t *bound)
{
	struct optimizer *optimizer = &k->optimizer;
	uint32_t effort = k->request->effort;
	*found = *proved = false;
	*bound = 0;
	if (effort == EFFORT_FAST || !exact_applies(&optimizer->dependence))
		return TARN_OK;
	struct exact_request request = { .dependence = &optimizer->dependence,
					 .limit = limit,
					 .any_schedule = any_schedule,
					 .upper_time = k->trial.time_ns,
					 .max_states = exact_limits[effort].states,
					 .max_work = k->exact_work,
					 .max_steps = optimizer->max_steps };
	struct exact_result result;
	enum tarn_status st = exact_search(&request, k->scratch, k->trial.step, &result);
	if (st)
		return st;
	k->exact_work -= result.work < k->exact_work ? result.work : k->exact_work;
	*found = result.found;
	*proved = !result.gave_up;
	*bound = result.bound;
	if (!result.found)
		return TARN_OK;
	struct schedule schedule = { k->trial.step, result.steps };
	k->trial.steps = result.steps;
	return schedule_measure(k->request->problem, &schedule, k->scratch, &k->trial.peak_bytes, &k->trial.time_ns);
}

/* The trial's time is the best's; its steps are scratch. *done: the best is proved to be the fastest. */
static enum tarn_status improve_exactly(struct planning *k, bool *done)
{
	bool found;
	uint64_t height, bound;
	k->trial.time_ns = k->best.time_ns;
	k->exact_work = exact_limits[k->request->effort].work;
	enum tarn_status st = search_exactly(k, k->request->budget, 0, &found, done, &bound);
	if (st)
		return st;
	if (found)
		st = take_if_it_fits(k, &height);
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
					   k->request->enough_time, &k->trial))
			break;
		st = take_if_it_fits(k, &height);
		if (st || height <= budget || limit <= height - budget)
			break;
		limit -= height - budget;
	}
	return st;
}

/* With more effort: the exact search, then long searches from several starts, then one from the best. */
static enum tarn_status search_on(struct planning *k)
{
	const struct candidate *start[] = { &k->none, &k->first, &k->least };
	bool done;
	enum tarn_status st = improve_exactly(k, &done);
	if (st || done)
		return st;
	candidate_copy(&k->first, &k->best);
	/* Long schedules need most of the work for one start: keeping all, which the search repairs itself. */
	bool many = k->optimizer.dependence.needed_ops > MANY_OPS;
	for (uint32_t i = 0; !st && i < (many ? 1 : sizeof start / sizeof *start); i++)
		if (start[i]->steps && (start[i] != &k->least || k->least_known))
			st = search_from(k, start[i], many ? 2 : LONG_START_SHARE, k->request->seed + i);
	if (!st && k->best.steps) {
		candidate_copy(&k->first, &k->best);
		st = search_from(k, &k->first, 2, k->request->seed + 3);
	}
	return st;
}

/*
 * The least time whose packing fits the budget. When a packing is too high, replays and search go on below a smaller
 * sum of live bytes.
 */
static enum tarn_status plan_auto(struct planning *k)
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
	for (uint32_t attempt = 0; !st && attempt < PACK_ATTEMPTS; attempt++) {
		candidate_copy(&k->trial, k->best.steps ? &k->best : &k->none);
		k->trial.time_ns = k->best.time_ns;
		optimizer_least_time(&k->optimizer, limit, attempt > 0, &k->trial);
		if (k->trial.time_ns == UINT64_MAX)
			break;
		st = take_if_it_fits(k, &height);
		if (st || k->trial.time_ns == k->optimizer.dependence.base_time_ns ||
		    !optimizer_search(&k->optimizer, limit, attempt ? 4 : 1, attempt, &k->trial))
			break;
		st = take_if_it_fits(k, &height);
		if (st || height <= budget || limit <= height - budget)
			break;
		limit -= height - budget;
	}
	/* Without a schedule to begin with, the search for less memory comes first. */
	if (!st && k->request->effort > EFFORT_FAST && (k->best.steps || k->least_known))
		st = search_on(k);
	return st;
}

/* Keeps the trial as the least when its packing is lower, or as low and faster. */
static enum tarn_status take_if_lower(struct planning *k)
{
	uint64_t height;
	enum tarn_status st = height_of(k, &k->trial, 0, &height);
	if (!st && (height < k->least_height || (height == k->least_height && k->trial.time_ns < k->least.time_ns))) {
		candidate_copy(&k->least, &k->trial);
		k->least_height = height;
	}
	return st;
}

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
			st = take_if_lower(k);
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

static bool may_skip_least(const struct planner_request *request)
{
	return request->skip_least && request->strategy == STRATEGY_AUTO;
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
	uint64_t all = exact_limits[k->request->effort].bisection_work, bound;
	enum tarn_status st = TARN_OK;
	*found = *proved = false;
	for (uint32_t i = 0; !st && !*found && !*proved && i < 2; i++) {
		uint64_t share = all / 16 * part[i];
		k->exact_work = share = share < *work ? share : *work;
		st = search_exactly(k, limit, order[i], found, proved, &bound);
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
	uint64_t work = exact_limits[k->request->effort].bisection_work / (may_skip_least(k->request) ? 2 : 1);
	bool found, proved;
	enum tarn_status st = TARN_OK;
	if (k->request->effort == EFFORT_FAST || !exact_applies(&k->optimizer.dependence))
		return TARN_OK;
	/* What was asked for comes first; it is all that counts when it can be decided. */
	if (may_skip_least(k->request) && k->request->budget >= low && k->request->budget < k->least.peak_bytes) {
		st = ask_exactly(k, k->request->budget, &work, &found, &proved);
		if (!st && found)
			return take_if_lower(k);
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
			st = take_if_lower(k);
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
					  k->request->seed + round, UINT64_MAX, &k->trial))
			st = take_if_lower(k);
		else
			cut /= 2;
	}
	return st;
}

/* Whether less memory is of no use: only the budget is asked for, and it is met. */
static bool low_enough(const struct planning *k)
{
	return may_skip_least(k->request) && k->least_height <= k->request->budget;
}

/* The least height that can be found: a function of the problem and the effort alone. */
static enum tarn_status find_least(struct planning *k)
{
	enum tarn_status st;
	k->least_known = true;
	candidate_copy(&k->least, &k->none);
	k->least_height = k->none_height;
	candidate_copy(&k->trial, &k->none);
	optimizer_least_peak(&k->optimizer, &k->trial);
	st = take_if_lower(k);
	if (!st && !low_enough(k))
		st = lower_by_search(k);
	if (!st && !low_enough(k) && optimizer_forget_all(&k->optimizer, k->least.peak_bytes - 1, &k->trial))
		st = take_if_lower(k);
	if (!st && !low_enough(k))
		st = lower_exactly(k);
	if (!st && !low_enough(k) && k->request->effort > EFFORT_FAST)
		st = lower_by_long_search(k);
	if (st || k->least.time_ns == k->none.time_ns)
		return st;
	/* The same memory for less time. */
	candidate_copy(&k->trial, &k->least);
	if (optimizer_search(&k->optimizer, k->least.peak_bytes, LOWER_ROUNDS / 2, 0, &k->trial))
		st = take_if_lower(k);
	return st;
}

static enum tarn_status plan_strategy(struct planning *k)
{
	switch (k->request->strategy) {
	case STRATEGY_AUTO:
		return plan_auto(k);
	case STRATEGY_NONE:
		candidate_copy(&k->best, &k->none);
		return TARN_OK;
	case STRATEGY_MIN:
		candidate_copy(&k->best, &k->least);
		return TARN_OK;
	default:
		return plan_fixed(k);
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
	st = height_of(k, &k->none, 0, &k->none_height);
	k->least_height = k->result->min_budget = UINT64_MAX;
	k->result->least_bound = k->optimizer.bound;
	if (!st && !may_skip_least(request))
		st = find_least(k);
	if (st)
		return st;
	k->result->base_time_ns = k->optimizer.dependence.base_time_ns;
	k->result->none_peak = k->none.peak_bytes;
	k->result->none_height = k->none_height;
	if (may_skip_least(request)) {
		st = plan_auto(k);
		if (st || k->best.steps || !k->optimizer.dependence.needed_ops)
			return st;
		/* Nothing was found yet: the search for less memory may find what fits, or what does not. */
		st = find_least(k);
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
		st = fill_result(&k, &best, arena);
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
