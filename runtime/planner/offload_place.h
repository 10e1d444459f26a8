/*
 * offload_place.h - moves the copies of a schedule so that ops hide them, and trades them for recomputation.
 *
 * Input: a schedule with copies that meets the limit, each copy where it needs least memory (offload_cover.h). Output:
 * one that meets the limit and takes no longer.
 *   - Placement: fetches start early enough to be complete when they are read, as far as memory allows, the last ones
 *     first; stores end late enough.
 *   - Local search, each change measured: start a fetch earlier, end a store later, drop a fetch whose tensor can stay,
 *     recompute instead of a fetch, fetch instead of a recomputation.
 */
#ifndef TARN_PLANNER_OFFLOAD_PLACE_H
#define TARN_PLANNER_OFFLOAD_PLACE_H

#include "planner/offload_streams.h"

struct placer {
	struct streams *streams;      /* borrowed */
	uint32_t *trial, trial_steps; /* [capacity] */
	uint32_t *kept;               /* [capacity] */
	uint32_t *best;               /* [capacity] */
	uint64_t *live_bytes;         /* [capacity]: an upper bound while copies move */
	uint64_t *begin_ns;           /* [capacity + 1]: when the step begins if nothing waits */
	uint8_t *moved;               /* [capacity]: the fetch at this step was placed */
	uint8_t *read, *fetched;      /* [values]: by a later step */
	uint32_t *runs;               /* [ops] */
	uint64_t limit, host_limit;
	bool trade;    /* the local search may run ops again instead of fetches, and the other way */
	uint64_t work; /* steps that may still be looked at */
};

enum tarn_status placer_init(struct placer *placer, struct streams *streams, struct host_arena *arena);

/*
 * Works in place; on success the streams hold the time, waits and peak of the result. False when the schedule cannot
 * be measured or is above the limit to begin with.
 */
bool place_copies(struct placer *placer, uint64_t limit, uint32_t *step, uint32_t steps);

/*
 * The local search, from a schedule that place_copies accepts; looks at about `work` steps. Stored tensors take at most
 * `host_limit` bytes together; placer->trade says whether recomputation and fetches may take each other's place. The
 * streams hold the time, waits and peak of the result.
 */
void place_improve(struct placer *placer, uint64_t limit, uint64_t host_limit, uint64_t work, uint32_t *step,
		   uint32_t *steps);

/* The same, which leaves an optimum by a few changes that cost a little time, as long as there is work. */
void place_search(struct placer *placer, uint64_t limit, uint64_t host_limit, uint64_t work, uint32_t *step,
		  uint32_t *steps);

#endif
