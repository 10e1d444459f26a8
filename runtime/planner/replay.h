/*
 * replay.h - runs a fixed order of first runs with little memory: evicts values, recomputes them when they are read.
 *
 * The order says when each op runs first. Before a run, values that are read later are given up until its outputs and
 * workspace fit; a value that was given up is recomputed, with whatever else is missing, just before it is read. All
 * future reads are known, so the value to give up is the one with the least
 *     (cost to recompute it and all that is missing) / (bytes^b * (ops to its next read)^c)
 * which is the rule of online rematerialisation (Kirisame et al., "Dynamic Tensor Rematerialization", ICLR 2021) with
 * the known distance in place of staleness, after Belady.
 *
 * What can never be made again is never given up: outputs of ops that run once, and values whose recomputation would
 * run an op that is closed (an update after it has run). An update waits while a missing value may need an op it
 * closes.
 */
#ifndef TARN_PLANNER_REPLAY_H
#define TARN_PLANNER_REPLAY_H

#include "planner/dependence.h"
#include "planner/schedule.h"

enum replay_policy {
	REPLAY_BUDGET, /* give up values only to meet the budget */
	REPLAY_KEEP,   /* forward values not in keep[]: given up once, after their last forward reader */
	REPLAY_FORGET, /* the same after every use: recomputed for each backward reader anew */
};

struct replay_options {
	uint32_t policy;     /* enum replay_policy */
	uint64_t budget;     /* bytes of live values and workspace at any step */
	const uint8_t *keep; /* [values] or NULL: nothing is kept (REPLAY_KEEP, REPLAY_FORGET) */
	bool one_by_one; /* missing inputs are made one after the other, each with what it needs: less memory, more runs
			  */
	bool forward_only; /* only values of forward ops are given up */
	double bytes_power, distance_power;
	double noise; /* scores are multiplied by e^(noise * u), u in [-1, 1) from `seed` */
	uint64_t seed;
	uint32_t max_steps; /* longer schedules are given up; at most what replay_init was told */
};

struct replay; /* scratch for one order, used again and again */

/* `order` is borrowed. Schedules longer than max_steps are given up. */
enum tarn_status replay_init(const struct dependence *dependence, const uint32_t *order, uint32_t max_steps,
			     struct host_arena *arena, struct replay **out);

/* Writes at most max_steps steps. False when the order cannot be run like this; nothing else is said then. */
bool replay_run(struct replay *replay, const struct replay_options *options, uint32_t *step, uint32_t *steps);

#endif
