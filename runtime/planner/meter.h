/*
 * meter.h - peak and time of a schedule, fast enough for the inner loop of a search.
 *
 * Same rules as schedule_expand, nothing kept but the live bytes of each step. All memory is taken at the start; a
 * sequence longer than `capacity` steps is not measured.
 */
#ifndef TARN_PLANNER_METER_H
#define TARN_PLANNER_METER_H

#include "planner/problem.h"

struct meter {
	const struct problem *problem;
	uint32_t capacity;    /* steps */
	uint32_t *newest;     /* [values]: newest instance */
	uint32_t *last;       /* [instances]: one past the last step that reads it */
	uint64_t *live_bytes; /* [capacity + 1] */
	uint32_t instances;   /* room in last[] */
	uint64_t peak_bytes, time_ns;
};

enum tarn_status meter_init(struct meter *meter, const struct problem *problem, uint32_t capacity,
			    struct host_arena *arena);

/* Fills peak_bytes, time_ns, live_bytes. False when the sequence is too long or reads what was never produced. */
bool meter_measure(struct meter *meter, const uint32_t *step, uint32_t steps);

#endif
