/*
 * pack_greedy.h - items one after another into gaps between those placed before, pinned ones first.
 */
#ifndef TARN_PLANNER_PACK_GREEDY_H
#define TARN_PLANNER_PACK_GREEDY_H

#include "planner/pack_skyline.h"

struct pack_greedy;

/* NULL: no host memory. */
struct pack_greedy *pack_greedy_open(const struct pack_problem *problem, struct host_arena *arena);

/*
 * The largest measure first, each in the lowest gap that holds it, or in the smallest. Takes quadratic time. Writes
 * offset[0..items) and returns the height; INT64_MAX as soon as it would be `limit` or more.
 */
int64_t pack_greedy_by_measure(struct pack_greedy *greedy, enum pack_measure measure, bool smallest, int64_t limit,
			       int64_t *offset);

/* As they come to live, each in the lowest gap: takes time for each item and each one that lives then or is pinned. */
int64_t pack_greedy_in_time(struct pack_greedy *greedy, int64_t limit, int64_t *offset);

#endif
