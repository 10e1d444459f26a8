/*
 * bound_cuts.h - the time that no schedule can do better than, whatever its order: the "cut model" of bound.h as a
 * linear programme over the inequalities of plan/proof.h. Private to bound.c.
 */
#ifndef TARN_PLANNER_BOUND_CUTS_H
#define TARN_PLANNER_BOUND_CUTS_H

#include "planner/bound.h"

/* Places of a single cut on the path. */
#define CUT_PLACES 64u

struct cuts_request {
	const struct dependence *dependence;
	uint64_t limit;      /* bytes */
	double enough;       /* no bound need exceed it */
	uint64_t work;       /* entries of the programme that may be looked at */
	uint32_t most_cuts;  /* more cuts are tighter in the end, and slower */
	uint32_t place;      /* not 0: one cut alone, so many CUT_PLACES of the path from its start */
	struct proof *proof; /* NULL, or filled from the arena: weights that prove the bound */
};

/* Raises *bound to what is proved. Everything it takes from `arena` is the caller's to give back. */
enum tarn_status bound_cuts(const struct cuts_request *request, struct host_arena *arena, double *bound);

#endif
