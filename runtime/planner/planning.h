/*
 * planning.h - one run of the planner: its candidates, and what every part of it does with them. Private to the
 * planner.
 *
 * planner.c decides what is asked; least_time.c and least_memory.c answer for `auto` and `min`, fixed_strategy.c for
 * the strategies that give one schedule each. They hand schedules over in `trial`, `best` and `least`.
 */
#ifndef TARN_PLANNER_PLANNING_H
#define TARN_PLANNER_PLANNING_H

#include "planner/optimize.h"
#include "planner/planner.h"

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

/* Limits of the exact search by effort: states, and moves tried. */
struct exact_limits {
	uint32_t states;
	uint64_t work, bisection_work;
};
extern const struct exact_limits planning_exact_limits[EFFORTS];

/* Height of a schedule's packing; `goal`: low enough to stop at. */
enum tarn_status planning_height(struct planning *k, const struct candidate *c, uint64_t goal, uint64_t *height);

/* The plan of `c` into the result, from the caller's arena. */
enum tarn_status planning_fill_result(struct planning *k, const struct candidate *c, struct host_arena *arena);

/* Takes the trial when its packing fits the budget and it is faster than the best; *height: of its packing. */
enum tarn_status planning_take_if_it_fits(struct planning *k, uint64_t *height);

/* Keeps the trial as the least when its packing is lower, or as low and faster. */
enum tarn_status planning_take_if_lower(struct planning *k);

/*
 * Small problems: the fastest schedule, or any, within a limit and faster than k->trial.time_ns, into the trial.
 * *found, *proved: there is none beside. *bound: no schedule within the limit is faster.
 */
enum tarn_status planning_search_exactly(struct planning *k, uint64_t limit, uint32_t any_schedule, bool *found,
					 bool *proved, uint64_t *bound);

/* The least time whose packing fits the budget, into k->best; no steps when none was found. */
enum tarn_status planning_least_time(struct planning *k);

/* The least height that can be found, into k->least: a function of the problem and the effort alone. */
enum tarn_status planning_least_memory(struct planning *k);

/* The schedules of `sqrt` and `speed`, in each order of first runs, one after the other in the trial, go to `take`. */
enum tarn_status planning_try_fixed(struct planning *k, enum tarn_status (*take)(struct planning *));

/* The schedule of a strategy that gives one, into k->best. */
enum tarn_status planning_fixed_strategy(struct planning *k);

/* Whether the least memory is looked for only where the budget is not met at once. */
static inline bool planning_may_skip_least(const struct planner_request *request)
{
	return request->skip_least && request->strategy == STRATEGY_AUTO;
}

#endif
