/*
 * search.h - large-neighbourhood search over schedules with an exact subset dynamic programme.
 *
 * A round frees a few ops: all their runs leave the schedule, every other run stays where it is. A table over the sets
 * of freed values that are live sweeps the schedule and finds where to run the freed ops so that every reader is served
 * at the least time, and the peak stays below the limit. The schedule the round began with is one of the
 * possibilities, so a round never makes it worse; equal ones are taken, to drift.
 */
#ifndef TARN_PLANNER_SEARCH_H
#define TARN_PLANNER_SEARCH_H

#include "planner/dependence.h"
#include "planner/polish.h"

struct search;

struct search_goal {
	uint64_t limit;       /* of the peak, bytes */
	uint32_t rounds;      /* of search_run */
	uint64_t work;        /* of search_long: states and steps looked at */
	uint64_t enough_time; /* a long search ends at a schedule that is as fast as this: a proved bound */
	uint64_t seed;
	bool slow; /* a long search from far above the limit takes its time to get below it */
};

/* `meter` and `polisher` are borrowed. No round frees more than `most_bits` values. */
enum tarn_status search_init(const struct dependence *dependence, struct meter *meter, struct polisher *polisher,
			     uint32_t most_bits, struct host_arena *arena, struct search **out);

/* Works in place on a legal schedule. True when the result's peak is within the limit: then it is the fastest seen. */
bool search_run(struct search *search, const struct search_goal *goal, uint32_t *step, uint32_t *steps);

/* The same for as long as the goal's work allows: when rounds find nothing more, it leaves the optimum it is in. */
bool search_long(struct search *search, const struct search_goal *goal, uint32_t *step, uint32_t *steps);

#endif
