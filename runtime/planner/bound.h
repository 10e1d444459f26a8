/*
 * bound.h - what no schedule can do better than: peak and time.
 *
 * Every bound is proved in integers, whatever the multipliers that were found in floating point.
 */
#ifndef TARN_PLANNER_BOUND_H
#define TARN_PLANNER_BOUND_H

#include "planner/problem.h"

struct bound {
	uint64_t peak_bytes;          /* no schedule has a lower peak of live bytes */
	bool infeasible;              /* no schedule fits the limit */
	uint64_t time_ns;             /* no schedule within the limit is faster */
	uint64_t time_fixed_order_ns; /* none whose first runs are in the order of the problem's ops */
};

enum tarn_status bound_find(const struct problem *problem, uint64_t limit, struct host_arena *arena, struct bound *out);

#endif
