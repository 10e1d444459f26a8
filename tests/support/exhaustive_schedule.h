/*
 * exhaustive_schedule.h - the true least peak and least time of tiny problems, by search over all schedules.
 *
 * States are (which ops that must run have run, which values are live); steps run an op or drop a value. Any order, any
 * number of recomputations, take-overs included. Shares no code with the planner.
 */
#ifndef TARN_TESTS_EXHAUSTIVE_SCHEDULE_H
#define TARN_TESTS_EXHAUSTIVE_SCHEDULE_H

#include "planner/problem.h"

/* False when there are more than `states` states or 64 values and ops. */
bool exhaustive_least_peak(const struct problem *problem, uint32_t states, uint64_t *peak_bytes);
/* Least time with a peak of at most `limit`; UINT64_MAX when nothing fits. */
bool exhaustive_least_time(const struct problem *problem, uint64_t limit, uint32_t states, uint64_t *time_ns);

#endif
