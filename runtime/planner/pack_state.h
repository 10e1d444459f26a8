/*
 * pack_state.h - the state of the exhaustive search, and what changes it. Shared by pack_exact.c and pack_state.c only;
 * pack_exact.c explains the terms.
 *
 * Every change is recorded on a trail, so that exact_undo can take it back; what an item takes away from its sections
 * comes back with exact_unplace.
 */
#ifndef TARN_PLANNER_PACK_STATE_H
#define TARN_PLANNER_PACK_STATE_H

#include "planner/pack_exact.h"

#define NEVER (INT64_MAX / 4) /* floor of a section whose items are all placed, bound of a placed item */
#define GAP UINT32_MAX        /* the case that no item lies there */

struct undo {
	int64_t value;
	uint32_t index, count; /* count: of supports, for sections; for items one of the two below */
};
#define UNDO_LOWEST UINT32_MAX
#define UNDO_BLOCKED (UINT32_MAX - 1)

struct frame {
	uint32_t first, last; /* sections of the component it decides in */
	uint32_t section;
	uint32_t choices, next, chosen; /* in the pool; chosen: item or GAP, what is in force */
	uint32_t undo;                  /* length of the trail before the choice */
	bool gap;
	int64_t floor;
	uint64_t key;
};

struct pack_exact {
	const struct pack_item *item;
	uint32_t items, sections;
	uint32_t *cover, *first_cover;         /* items of each section */
	uint32_t *neighbour, *first_neighbour; /* items that live with each item */
	uint32_t *same_as;                     /* [items]: the item before it that is alike in everything; or itself */
	uint32_t *twin;                        /* [items]: chain of items with the same range, circular */
	int64_t *ceiling_of;                   /* [items] */
	double *rank;                          /* [items]: larger ones are tried first */
	uint32_t *weight;                      /* [sections]: failures seen */
	bool mixed_alignment, pins;

	/* State */
	int64_t *lowest;                  /* [items]; NEVER once it is placed */
	int64_t *blocked;                 /* [items]: offset at which a twin forbids it */
	int64_t *offset;                  /* [items]: of the placed ones */
	uint64_t *factor;                 /* [items]: of its bound in the key of a state */
	uint64_t *key;                    /* [sections]: sum over the unplaced items that begin there */
	int64_t *floor, *total, *ceiling; /* [sections] */
	uint32_t *supports;               /* [sections]: unplaced items whose bound is the floor */
	uint32_t *unplaced;               /* [sections] */
	uint32_t *crossing;               /* [sections]: unplaced items in this section and the one before */
	uint64_t *saved;                  /* [sections]: node that last saved it */
	uint32_t *dirty;
	double *score; /* [items]: of the choices of the section at hand */
	uint32_t dirties, left;
	uint64_t stamp;
	uint32_t fail_section;

	struct undo *trail;
	uint32_t trail_length, trail_capacity;
	struct frame *frame;
	uint32_t depth, frames;
	uint32_t *pool;
	uint32_t pool_length, pool_capacity;
	uint64_t *state;
	uint64_t state_mask, salt; /* salt: of the ceiling and base asked for */
	struct host_arena *scratch;
	uint32_t variant;
	bool out_of_memory;
	bool (*stop)(void *context);
	void *context;
};

static inline bool exact_is_placed(const struct pack_exact *x, uint32_t i)
{
	return x->lowest[i] == NEVER;
}

/*
 * What an unplaced item adds to its component's key: linear in its bound, with random factors, so that keys of
 * different states are equal with a probability of about 2^-64.
 */
static inline uint64_t exact_term(const struct pack_exact *x, uint32_t i)
{
	return ((uint64_t)x->lowest[i] * 2 + (x->blocked[i] == x->lowest[i])) * x->factor[i];
}

/* Room for `needed` objects in an array of the search. False, and noted, when the host has no memory. */
bool exact_grow(struct pack_exact *x, void **array, uint32_t *capacity, uint32_t needed, size_t size);

/* The least offset at or above `value` that suits the item's alignment and does not meet a pinned item. */
int64_t exact_fit(const struct pack_exact *x, uint32_t i, int64_t value);

/* Each of these is false when a section fails, which fail_section then names; the caller takes all back. */
bool exact_settle(struct pack_exact *x); /* floors of the sections that lost their last support */
bool exact_place(struct pack_exact *x, uint32_t i);
bool exact_leave_gap(struct pack_exact *x, uint32_t s, int64_t h); /* no item covers section s at height h */

void exact_unplace(struct pack_exact *x, uint32_t i);
void exact_undo(struct pack_exact *x, uint32_t length);

#endif
