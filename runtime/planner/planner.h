/*
 * planner.h - problem and budget in; schedule and offsets out.
 *
 * The budget is compared with the packed height, not with the sum of live bytes. Everything is deterministic: same
 * problem, strategy, budget: same plan; limits are iterations, never the clock.
 *
 * Strategies (config.h). `auto` finds the least time whose packed height fits. The others give one schedule each: NONE
 * every op once in the order with the least peak found (in-place and early updates included); MEMORY_POOR keeps no
 * forward value (on very long chains, where that takes too many steps, it is MIN); SQRT keeps about sqrt(n) values
 * (articulation values where the graph has them, else cuts of least bytes); SPEED keeps outputs of `heavy` ops; MANUAL
 * keeps keep[]; MIN the least height found. None of them ends above the peak of NONE: where it would, or takes more
 * time for the same peak, the plan is NONE's and result.fell_back says so.
 *
 * Promises, tested
 *   - min_budget is a function of the problem alone; every budget >= min_budget plans with AUTO, every smaller one is
 *     refused with TARN_EBUDGET.
 *   - A budget >= none_height is met without recompute. In a sweep (planner_sweep) time never rises with the budget.
 */
#ifndef TARN_PLANNER_PLANNER_H
#define TARN_PLANNER_PLANNER_H

#include "config/config.h"
#include "planner/pack.h"
#include "planner/schedule.h"

/* How long the search goes on: counts of rounds, which depend on the problem alone. */
enum planner_effort {
	EFFORT_FAST,   /* some tens of milliseconds for a few hundred ops */
	EFFORT_NORMAL, /* at most two seconds */
	EFFORT_MAX,    /* at most a minute */
	EFFORTS
};

struct planner_request {
	const struct problem *problem;
	uint32_t strategy;    /* enum strategy */
	uint64_t budget;      /* bytes for buffers; UINT64_MAX: no limit */
	uint32_t effort;      /* enum planner_effort */
	uint64_t seed;        /* of the search */
	uint64_t enough_time; /* a search with more effort than FAST ends at a schedule as fast as this, a proved bound
			       */
	bool sum_of_bytes; /* the budget is compared with the sum of live bytes: nothing is packed, there are no offsets
			    */
	bool skip_least;   /* AUTO: the least budget is looked for only when the budget is not met at once */
	const uint8_t *keep; /* MANUAL: keep[value] != 0; else NULL */
	/* AUTO: a legal schedule, or NULL. The plan is not slower than it, if its packing fits the budget. */
	const struct schedule *known;
};

struct planner_result {
	struct schedule schedule;
	struct expansion expansion;
	uint64_t *offset; /* [expansion.buffers], bytes from the start of the transient part of the arena */
	uint64_t height;  /* of that packing; the peak of live bytes when nothing is packed */
	uint64_t time_ns, base_time_ns; /* of the schedule; of every op once */
	uint64_t none_peak;             /* least peak of live bytes found with each op once */
	uint64_t none_height;           /* and its packed height */
	uint64_t min_budget;  /* smallest height found: the smallest budget that plans; UINT64_MAX: not looked for */
	uint64_t bound_ns;    /* no schedule within the budget is faster; 0: nothing is proved */
	uint64_t least_bound; /* no schedule has a lower peak of live bytes */
	double pack_ms;       /* CPU time of all packings that were tried */
	bool infeasible;      /* TARN_EBUDGET: and no schedule fits the budget, which is proved */
	bool fell_back;       /* the strategy's own schedule saved nothing: NONE's was taken */
};

/*
 * Fills *result from `arena`. TARN_EBUDGET: result->min_budget, none_peak and (for a fixed strategy) height are filled
 * so that the caller can say what would fit; the schedule is not.
 */
enum tarn_status planner_run(const struct planner_request *request, struct host_arena *arena,
			     struct planner_result *result);

/*
 * AUTO for each of n budgets, increasing: result[i] is as planner_run's, but never slower than result[i - 1].
 * TARN_EBUDGET when the first is too small.
 */
enum tarn_status planner_sweep(const struct problem *problem, const uint64_t *budget, uint32_t n,
			       struct host_arena *arena, struct planner_result *result);

#endif
