/*
 * exact.h - the least time of small problems, proved: best-first search (A*) over sets of live values.
 *
 * A state is the set of live values and of the ops that must run and have run. A move computes one op and gives up
 * just enough values before it; values are given up no earlier, because what is live longer never hurts. The estimate
 * of a state is the time of all ops that must run at least once from there. It is the smaller, the fewer sets of values
 * fit: quickest exactly where local search is weakest, next to the least budget.
 *
 * Any order of ops, any number of recomputations. Applies to problems with at most 64 needed ops, each with at most one
 * output, without take-overs, `once` and `after`.
 */
#ifndef TARN_PLANNER_EXACT_H
#define TARN_PLANNER_EXACT_H

#include "planner/dependence.h"

/* Which is quicker depends on the problem. */
enum exact_order {
	EXACT_NEAREST = 1, /* the least left to do */
	EXACT_FASTEST,     /* the least time, done and left */
};

struct exact_request {
	const struct dependence *dependence;
	uint64_t limit;        /* of the peak */
	uint32_t any_schedule; /* not 0: whether one fits, not the fastest; enum exact_order says what is looked at
				  first */
	uint64_t upper_time;   /* only schedules faster than this are looked for; UINT64_MAX: any */
	uint32_t max_states;
	uint64_t max_work;  /* moves tried */
	uint32_t max_steps; /* room in step[] */
};

struct exact_result {
	bool found;       /* step[0 .. steps) is a schedule, the fastest */
	bool gave_up;     /* too many states: nothing was found, and there may be something */
	uint64_t time_ns; /* of the schedule */
	uint64_t bound; /* no schedule within the limit is faster than this or upper_time; UINT64_MAX: there is none */
	uint32_t steps;
	uint32_t states; /* that were reached */
	uint64_t work;   /* moves that were tried */
};

bool exact_applies(const struct dependence *dependence);

/* Scratch comes from `arena` and is given back. TARN_ENOMEM only. */
enum tarn_status exact_search(const struct exact_request *request, struct host_arena *arena, uint32_t *step,
			      struct exact_result *result);

#endif
