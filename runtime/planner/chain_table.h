/*
 * chain_table.h - the tables of chain_plan.h: what it costs to go back over an interval of a chain in so much memory.
 *
 * Times are in a unit that divides all of them and are exact as long as their sums stay below 2^24 units, rounded
 * beyond. Tables hold CHAIN_IMPOSSIBLE where memory is too small.
 */
#ifndef TARN_PLANNER_CHAIN_TABLE_H
#define TARN_PLANNER_CHAIN_TABLE_H

#include "planner/chain.h"

#define CHAIN_IMPOSSIBLE 1e30f

struct variant_units {
	uint32_t kept, forward, backward;
	float forward_cost, repeat_cost;
};

/* A stage in units of memory and of time. Stages that are equal byte for byte may share tables. */
struct stage_units {
	uint64_t likeness;
	uint32_t boundary, beside, forward, gradient, backward[2];
	float forward_cost, repeat_cost[2];
	uint32_t reads_boundary;
};

/* What the next decision is: forward to boundary i + length, keeping that boundary or the values of a variant. */
struct way {
	uint32_t length;  /* 0: no further way */
	uint32_t variant; /* 1 + its place among those of stage i + 1, or 0 */
	uint32_t kept;    /* units that stay while what lies beyond is done */
	uint32_t peak;    /* without gradients */
	float cost;       /* of the forward runs */
	float after;      /* of the backward part, when a variant is kept */
};

struct chain_table {
	struct chain *chain;
	struct host_arena *arena;
	struct stage_units *stage;     /* [boundaries + 1] */
	struct variant_units *variant; /* [chain.variants] */
	uint32_t boundaries;           /* the last stage comes after the last of them */
	uint64_t unit, time_unit;
	uint32_t limit, last;      /* in units: of the peak, without what is pinned; of the last stage */
	uint32_t length;           /* of the longest interval */
	bool sparse;               /* of the longer ways only some are tried */
	uint32_t cap;              /* more memory than this is of no use to an interval */
	uint32_t *twin, *shared;   /* [boundaries]: intervals from here up to shared[i] long are those of twin[i] */
	uint32_t *owner, owners;   /* [boundaries] with intervals of their own */
	size_t *first_cell, cells; /* [boundaries]: number of the first interval of its own; intervals in all */
	bool ends;                 /* some stage reads its own boundary */
	float *c, *e;              /* [cells][cap + 1]: without and with the boundary at the end there */

	uint32_t *step, steps, max_steps;
	uint32_t *list;
	bool failed; /* no room for the steps */
};

/* Everything but units, sizes and tables. */
enum tarn_status chain_table_init(struct chain_table *table, struct chain *chain, struct host_arena *arena);

/* The unit that divides all sizes. */
uint64_t chain_table_exact_unit(struct chain_table *table);

/* Counts in units; lengths and cap follow from a choice of the longest interval. */
void chain_table_count(struct chain_table *table, uint64_t unit, uint64_t limit);
void chain_table_set_length(struct chain_table *table, uint32_t length);

/* Ways from one boundary, variants apart, in the longest interval. */
uint32_t chain_table_ways(const struct chain_table *table);

/* Takes memory for the intervals and fills them. */
enum tarn_status chain_table_fill(struct chain_table *table);

/* Longest way from boundary i. */
uint32_t chain_table_reach(const struct chain_table *table, uint32_t i);

/*
 * The ways from boundary i, one after the other; the first comes after (struct way){ 0 }. Those that keep boundaries up
 * to i + most come before those that keep variants.
 */
struct way chain_table_next_way(const struct chain_table *table, uint32_t i, uint32_t most, struct way at);

/* What the way back over a way costs that was taken before the loss, by units that are there: [0 .. cap]. */
const float *chain_table_after(const struct chain_table *table, uint32_t i, uint32_t length);

/* to[m] = min(to[m], right[m - shift] + left[m] + cost) for from <= m <= last; with a constant left. */
void chain_table_relax(float *restrict to, const float *restrict right, const float *restrict left, float cost,
		       uint32_t from, uint32_t last, uint32_t shift);
void chain_table_relax_constant(float *restrict to, const float *restrict right, float left, float cost, uint32_t from,
				uint32_t last, uint32_t shift);

/* Write runs into step[]: first runs over a way, with all ops of its stages; the way back, in m units; the last stage.
 */
void chain_table_run_first(struct chain_table *table, uint32_t i, const struct way *way);
void chain_table_run_back(struct chain_table *table, uint32_t i, const struct way *way, uint32_t m);
void chain_table_run_last(struct chain_table *table);

#endif
