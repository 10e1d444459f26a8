/*
 * pack_skyline.h - fills an arena from below: fast placements of any number of items, without search.
 */
#ifndef TARN_PLANNER_PACK_SKYLINE_H
#define TARN_PLANNER_PACK_SKYLINE_H

#include "planner/pack_problem.h"

/* Which item a stretch of the skyline takes: the one with the largest measure, times what follows. */
struct pack_rule {
	enum pack_measure measure;
	double flush; /* for each end that it shares with the stretch */
	double level; /* when its top is level with the neighbour at such an end */
	double noise; /* at most so much is added to a factor of 1, at random */
	uint64_t seed;
};

struct pack_skyline;

/* For a problem without pinned items. NULL: no host memory. */
struct pack_skyline *pack_skyline_open(const struct pack_problem *problem, struct host_arena *arena);

/* Writes offset[0..items) and returns the height; INT64_MAX as soon as it must become `limit` or more. */
int64_t pack_skyline_run(struct pack_skyline *sky, const struct pack_rule *rule, int64_t limit, int64_t *offset);

/* How many items the last run placed. */
uint32_t pack_skyline_placed(const struct pack_skyline *sky);

/*
 * After a run that ended at its limit: items that were not placed where it ended count `factor` times as much in later
 * runs ("squeaky wheel": Joslin, Clements 1999). Forgiving takes the root of what an item counts.
 */
void pack_skyline_blame(struct pack_skyline *sky, double factor);
void pack_skyline_forgive(struct pack_skyline *sky);

#endif
