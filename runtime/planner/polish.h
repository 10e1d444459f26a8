/*
 * polish.h - takes needless runs out of a schedule.
 *
 * Input: a legal schedule whose peak is at most `budget`. Output: a legal one, no longer, no slower, peak <= budget.
 *   - A run whose outputs nobody reads goes, unless it is the only run of an op that must run.
 *   - A recomputation goes when the instance before it can stay live instead; the dearest are tried first.
 */
#ifndef TARN_PLANNER_POLISH_H
#define TARN_PLANNER_POLISH_H

#include "planner/meter.h"

struct polisher {
	const struct problem *problem;
	struct meter *meter;    /* borrowed */
	uint32_t *trial;        /* [capacity] steps */
	uint32_t *runs;         /* [ops] */
	uint8_t *read;          /* [values]: does a later step read the newest instance? */
	struct polish_run *run; /* [capacity] recomputations, dearest first */
};

enum tarn_status polisher_init(struct polisher *polisher, struct meter *meter, struct host_arena *arena);

/* Runs that nobody reads. Works in place. */
void polish_useless_runs(struct polisher *polisher, uint32_t *step, uint32_t *steps);

/* Both; measures at most `tries` sequences. */
void polish_schedule(struct polisher *polisher, uint64_t budget, uint32_t tries, uint32_t *step, uint32_t *steps);

#endif
