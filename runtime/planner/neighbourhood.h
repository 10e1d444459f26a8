/*
 * neighbourhood.h - one round of the search: free a few ops, find where to run them.
 *
 * A timeline is a schedule with what the rounds need to know of it: instances, what takes over what, live bytes.
 * A neighbourhood is a set of free ops. The state of the table is a set of bits: a bit for each value of a free op that
 * is live, and, for a free op that must run, a bit that says it has run.
 *
 * The model counts as schedule_expand does, save that readers of frozen values end where they ended before.
 */
#ifndef TARN_PLANNER_NEIGHBOURHOOD_H
#define TARN_PLANNER_NEIGHBOURHOOD_H

#include "planner/dependence.h"

#define FREE_BITS 12u /* at most */
#define FREE_STATES (1u << FREE_BITS)

struct timeline {
	const struct dependence *dependence;
	uint32_t capacity; /* steps */
	uint32_t *step, steps;
	uint32_t *first_output; /* [steps]: instance of the step's first output */
	uint32_t *taken_over;   /* [steps]: instance whose memory output 0 takes over, or UINT32_MAX */
	double *live_bytes;     /* [steps + 1] */
	uint32_t *first, *last; /* [instances]: live range in steps */
	uint32_t *value;        /* [instances] */
	uint32_t *older;        /* [instances]: the value's instance before, or UINT32_MAX */
	uint32_t *newest;       /* [values]: the value's last instance, or UINT32_MAX */
	uint32_t instances, instance_room;
	uint32_t *run_before; /* [steps]: the op's run before this one, or UINT32_MAX */
	uint32_t *last_run;   /* [ops]: the op's last run, or UINT32_MAX */
};

enum tarn_status timeline_init(struct timeline *timeline, const struct dependence *dependence, uint32_t capacity,
			       struct host_arena *arena);

/* Fills everything from step[0 .. steps). False when there is no room. */
bool timeline_update(struct timeline *timeline);

struct free_op {
	uint32_t op;
	uint32_t sets;    /* bits of its outputs and the bit that it has run */
	uint32_t needs;   /* bits of its inputs */
	uint32_t forbids; /* it may not run in a state with one of these: it has run, or an op that closes it has */
	uint32_t takes;   /* bits of inputs that output 0 may take over */
	uint32_t first_slot, last_slot; /* steps before which it may be inserted */
	double cost, extra_bytes;       /* workspace and outputs without readers */
};

struct neighbourhood {
	const struct dependence *dependence;
	struct timeline *timeline;   /* borrowed */
	double limit_bytes, penalty; /* cost of a byte above the limit at a step */

	struct free_op free[FREE_BITS];
	uint32_t frees, bits, bit_limit;
	uint32_t value_of[FREE_BITS]; /* VALUE_NONE: says that an op has run */
	uint32_t must_have;           /* bits that must be set at the end */
	uint8_t *free_index;          /* [ops]: 1 + index in free[], or 0 */
	uint8_t *bit_index;           /* [values]: 1 + bit, or 0 */
	double bytes[FREE_STATES];    /* of the values in a state */

	/* The sweep. */
	uint32_t *slot, slots; /* interesting steps, increasing */
	uint8_t *interesting;  /* [steps] */
	double *base;          /* [steps]: bytes without the free values */
	uint32_t *available;   /* [slots]: free ops whose frozen inputs are live */
	double cost[FREE_STATES];
	uint16_t identity[FREE_STATES];
	uint16_t *from;                  /* [stages << bits]: state before; RAN: and the free op of the stage ran */
	uint32_t *stage_op, *stage_slot; /* [stages]: free op, if one could run; slot */
	uint32_t stages, stage_room, from_room;
	uint64_t work;                                /* states looked at so far */
	bool relaxed;                                 /* the present stage made some state cheaper */
	uint32_t *insert_before, *insert_op, inserts; /* what was found, latest first */
};

enum tarn_status neighbourhood_init(struct neighbourhood *hood, struct timeline *timeline, uint32_t most_bits,
				    struct host_arena *arena);

/* Empties the set, which may grow to `bit_limit` bits; adds an op, with its outputs, if it may be freed and there is
 * room. */
void neighbourhood_clear(struct neighbourhood *hood, uint32_t bit_limit);
void neighbourhood_add(struct neighbourhood *hood, uint32_t op);

/* Writes the best schedule found; false when there is none, or it is the present one. */
bool neighbourhood_solve(struct neighbourhood *hood, uint32_t *step, uint32_t *steps);

#endif
