/* pack_greedy.c - first fit and best fit between placed items. */
#include "planner/pack_greedy.h"

#include <stdlib.h>
#include <string.h>

struct placed {
	int64_t low, high;     /* units */
	uint32_t lower, upper; /* sections */
};

struct ranked {
	double measure;
	uint32_t item;
};

struct pack_greedy {
	const struct pack_problem *problem;
	struct placed *placed; /* by increasing low */
	uint32_t count;
	struct ranked *order;
};

struct pack_greedy *pack_greedy_open(const struct pack_problem *problem, struct host_arena *arena)
{
	struct pack_greedy *greedy = HOST_NEW(arena, struct pack_greedy);
	if (!greedy)
		return NULL;
	*greedy = (struct pack_greedy){
		.problem = problem,
		.placed = HOST_ARRAY(arena, problem->items, struct placed),
		.order = HOST_ARRAY(arena, problem->items, struct ranked),
	};
	return greedy->placed && greedy->order ? greedy : NULL;
}

/* The lowest gap that holds the item, or the smallest one; above all when none does. */
static int64_t find_gap(const struct pack_greedy *greedy, const struct pack_item *a, bool smallest)
{
	int64_t top = 0, best = -1, best_room = INT64_MAX;
	for (uint32_t i = 0; i < greedy->count; i++) {
		const struct placed *p = &greedy->placed[i];
		if (p->lower >= a->upper || a->lower >= p->upper || p->high <= top)
			continue;
		int64_t at = pack_align(top, a->align), room = p->low - at;
		if (room >= a->size && room < best_room) {
			if (!smallest)
				return at;
			best = at;
			best_room = room;
		}
		top = p->high;
	}
	return best < 0 ? pack_align(top, a->align) : best;
}

static void insert_item(struct pack_greedy *greedy, const struct pack_item *a, int64_t at)
{
	uint32_t low = 0, high = greedy->count++;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (greedy->placed[middle].low <= at)
			low = middle + 1;
		else
			high = middle;
	}
	memmove(greedy->placed + low + 1, greedy->placed + low, (greedy->count - 1 - low) * sizeof *greedy->placed);
	greedy->placed[low] = (struct placed){ at, at + a->size, a->lower, a->upper };
}

/* Begins with the pinned items in place; returns their height. */
static int64_t insert_pinned(struct pack_greedy *greedy, int64_t *offset)
{
	int64_t height = 0;
	greedy->count = 0;
	for (uint32_t i = 0; i < greedy->problem->items; i++) {
		const struct pack_item *a = &greedy->problem->item[i];
		if (a->pin == PACK_UNPINNED)
			continue;
		offset[i] = a->pin;
		insert_item(greedy, a, a->pin);
		height = a->pin + a->size > height ? a->pin + a->size : height;
	}
	return height;
}

static int compare_ranked(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	if (x->measure != y->measure)
		return x->measure > y->measure ? -1 : 1;
	return x->item < y->item ? -1 : x->item > y->item;
}

int64_t pack_greedy_by_measure(struct pack_greedy *greedy, enum pack_measure measure, bool smallest, int64_t limit,
			       int64_t *offset)
{
	const struct pack_problem *problem = greedy->problem;
	for (uint32_t i = 0; i < problem->items; i++)
		greedy->order[i] = (struct ranked){ pack_measure(&problem->item[i], measure), i };
	qsort(greedy->order, problem->items, sizeof *greedy->order, compare_ranked);
	int64_t height = insert_pinned(greedy, offset);
	for (uint32_t k = 0; k < problem->items && height < limit; k++) {
		uint32_t i = greedy->order[k].item;
		const struct pack_item *a = &problem->item[i];
		if (a->pin != PACK_UNPINNED)
			continue;
		offset[i] = find_gap(greedy, a, smallest);
		insert_item(greedy, a, offset[i]);
		height = offset[i] + a->size > height ? offset[i] + a->size : height;
	}
	return height < limit ? height : INT64_MAX;
}

static void forget_dead(struct pack_greedy *greedy, uint32_t now)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < greedy->count; i++)
		if (greedy->placed[i].upper > now)
			greedy->placed[kept++] = greedy->placed[i];
	greedy->count = kept;
}

int64_t pack_greedy_in_time(struct pack_greedy *greedy, int64_t limit, int64_t *offset)
{
	const struct pack_problem *problem = greedy->problem;
	int64_t height = insert_pinned(greedy, offset);
	for (uint32_t i = 0; i < problem->items && height < limit; i++) {
		const struct pack_item *a = &problem->item[i];
		if (a->pin != PACK_UNPINNED)
			continue;
		forget_dead(greedy, a->lower);
		offset[i] = find_gap(greedy, a, false);
		insert_item(greedy, a, offset[i]);
		height = offset[i] + a->size > height ? offset[i] + a->size : height;
	}
	return height < limit ? height : INT64_MAX;
}
