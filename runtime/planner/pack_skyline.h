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

/* Writes offset[0..items) and returns the height; INT64_MAX as soon as it would be `limit` or more. */
int64_t pack_skyline_run(struct pack_skyline *sky, const struct pack_rule *rule, int64_t limit, int64_t *offset);

#endif
