/*
 * bound.h - what no schedule can do better than: peak and time.
 *
 * Peak: the largest op alone, its inputs, outputs and workspace.
 *
 * Time, any order of first runs, any number of runs ("cut model"): ops o_1, o_2, ... on a path of the graph run for the
 * first time one after another. What is resident at each of these moments fits beside the op; what is resident at one
 * and was not at the moment before, or is read to make it, was computed in between; every needed op is computed at
 * least once. The linear relaxation of that is bounded from below.
 *
 * Time, first runs in the order of the problem's ops ("gap cover"): between two first runs that read a value, it stays,
 * or is computed again; at each first run what stays and what is read fits. Again the linear relaxation.
 *
 * Both hold for whatever multipliers the iteration of linear_bound.h ends with, and are rounded to what sums of the
 * costs can be.
 */
#ifndef TARN_PLANNER_BOUND_H
#define TARN_PLANNER_BOUND_H

#include "plan/proof.h"
#include "planner/dependence.h"

struct bound {
	uint64_t peak_bytes;          /* no schedule has a lower peak of live bytes */
	bool infeasible;              /* no schedule fits the limit */
	bool infeasible_fixed_order;  /* none with first runs in the order of the problem's ops */
	uint64_t time_ns;             /* no schedule within the limit is faster */
	uint64_t time_fixed_order_ns; /* none with first runs in that order */
};

/* The peak alone. */
uint64_t bound_peak(const struct dependence *dependence);

/*
 * All of it; each of the two programmes may look at `work` entries. `known_ns`: the time of a schedule within the
 * limit, which no bound need exceed; UINT64_MAX: none is known.
 */
enum tarn_status bound_find(const struct dependence *dependence, uint64_t limit, uint64_t known_ns, uint64_t work,
			    struct host_arena *arena, struct bound *out);

/* Inequalities of plan/proof.h with their weights; ops are the problem's. */
struct proof {
	struct proof_term *term;
	uint32_t terms;
};

/*
 * The bound that every plan has: any order, with a proof that others can check, in some tens of milliseconds for some
 * hundred ops. *time_ns is the time of each op once, without terms, where nothing better is proved. `proof` lies in
 * `arena`, as all scratch does.
 */
enum tarn_status bound_prove(const struct dependence *dependence, uint64_t limit, uint64_t known_ns,
			     struct host_arena *arena, uint64_t *time_ns, struct proof *proof);

#endif
