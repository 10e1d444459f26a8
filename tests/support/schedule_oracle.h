/*
 * schedule_oracle.h - the true least time of abstract problems of up to 64 ops, by A* over sets of live values.
 *
 * Any order, any number of recomputations. A state is the set of live values and the set of required ops that have run;
 * a step runs an op, or drops a value while some op that could run does not fit. The estimate is the time of all ops
 * that must still run at least once. Ops have at most one output; nothing in place, once or after. Shares no code with
 * the planner.
 */
#ifndef TARN_TESTS_SCHEDULE_ORACLE_H
#define TARN_TESTS_SCHEDULE_ORACLE_H

#include "planner/problem.h"

/*
 * False when it would take more than `states` states. *time_ns: the least time of a schedule whose peak is at most
 * `limit`; UINT64_MAX: there is none.
 */
bool schedule_oracle(const struct problem *problem, uint64_t limit, uint32_t states, uint64_t *time_ns);

#endif
