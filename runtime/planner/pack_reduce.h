/*
 * pack_reduce.h - joins items that a packing without any free space most likely keeps together.
 *
 * Where two neighbouring sections are full, what ends between them leaves room that what begins must fill to the byte.
 * An item that ends and one of its size that begins then mostly have one offset, and items of one range that together
 * fill such room mostly lie on each other. Joined to one item each they leave a smaller problem; any packing of it is
 * one of the whole. The opposite does not hold: a refusal of the smaller problem proves nothing.
 */
#ifndef TARN_PLANNER_PACK_REDUCE_H
#define TARN_PLANNER_PACK_REDUCE_H

#include "planner/pack_problem.h"

struct pack_reduction {
	struct pack_item *item; /* over the sections of the problem */
	uint32_t items;
	uint32_t *joined; /* [items of the problem]: index in item[] */
	int64_t *rise;    /* [items of the problem]: offset above that of the joined item */
};

/* For a height of `target`, without pinned or aligned items. reduction->items may be what it was. TARN_ENOMEM. */
enum tarn_status pack_reduce(const struct pack_problem *problem, int64_t target, struct host_arena *arena,
			     struct pack_reduction *reduction);

#endif
