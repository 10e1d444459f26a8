/*
 * chain_plan.h - which stages of a chain keep what, and when they run again: exact dynamic programming.
 *
 * Left to do is described by the boundary i that is there, the boundary j whose gradient is there, and the memory
 * beside boundary i:
 *     C(i, j, m) = min over k of  forward(i..k) + C(k, j, m - bytes(k)) + C'(i, k, m)
 * or, with a variant that keeps values of stage i + 1,  forward(i + 1) + C(i + 1, j, m - kept) + repeat(i + 1).
 * C' begins with boundary k still there, which pays where backward ops read their own stage's boundary. The first
 * forward pass has no gradient yet, and its cost is due anyhow. For equal stages that is binomial checkpointing
 * (Griewank and Walther, ACM TOMS 2000); for others the persistent schedules of Beaumont et al. ("Optimal checkpointing
 * for heterogeneous chains", 2019; "Optimal re-materialization strategies", 2021), with gradients and transients
 * counted. Stages that repeat share their tables.
 *
 * Memory is counted in units: the common divisor of all sizes where that leaves few enough, else a part of the limit,
 * sizes rounded up. Intervals are at most as long as the work allows.
 */
#ifndef TARN_PLANNER_CHAIN_PLAN_H
#define TARN_PLANNER_CHAIN_PLAN_H

#include "planner/chain.h"

struct chain_request {
	uint64_t limit; /* of the peak */
	bool least;     /* not the least time but the least memory within the limit */
	uint64_t work;  /* additions and comparisons */
	uint32_t max_steps;
};

/*
 * Writes a schedule that fits the limit by the chain's own account, which may differ from the schedule's peak where ops
 * work in place. *steps is 0 when there is none. Scratch comes from `arena` and is given back. TARN_ENOMEM only.
 */
enum tarn_status chain_plan(struct chain *chain, const struct chain_request *request, struct host_arena *arena,
			    uint32_t *step, uint32_t *steps);

#endif
