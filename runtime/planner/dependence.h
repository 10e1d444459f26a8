/*
 * dependence.h - a problem seen from the other side: who reads a value, which ops close an op, what is needed at all.
 *
 * Input: a problem that passes problem_check. Everything lives in the arena that was handed in.
 *   - readers of a value: needed ops only, in increasing order, each once.
 *   - closers of an op: the ops whose `after` lists it; after the first of them ran, the op may not run any more.
 *   - an op is needed when it is required, runs once, or makes an input of a needed op.
 */
#ifndef TARN_PLANNER_DEPENDENCE_H
#define TARN_PLANNER_DEPENDENCE_H

#include "planner/problem.h"

struct dependence {
	const struct problem *problem;
	uint32_t *first_reader; /* [values + 1]: where a value's readers start in reader[] */
	uint32_t *reader;
	uint32_t *first_closer; /* [ops + 1]: where an op's closers start in closer[] */
	uint32_t *closer;
	uint8_t *needed; /* [ops] */
	uint32_t needed_ops;
	uint64_t base_time_ns; /* of every needed op once */
};

enum tarn_status dependence_find(const struct problem *problem, struct host_arena *arena, struct dependence *out);

#endif
