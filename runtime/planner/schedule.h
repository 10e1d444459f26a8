/*
 * schedule.h - a sequence of op runs, and what follows from it: instances, live ranges, peak.
 *
 * A schedule is the sequence alone. schedule_expand derives, in one way only: which instance each read finds, how long
 * each instance lives, which outputs take over an input's memory, and the live bytes at each step.
 *   - An instance lives over the half-open range [first, last) of steps: first is the step that writes it, last is one
 *     past its last reader (first + 1 when nobody reads it).
 *   - Output 0 takes over input j (lowest j that works) when in_place has bit j, the sizes are equal, this step is the
 *     last reader of that instance. Instances chained so form one buffer with one offset.
 *   - peak = the largest sum, over steps, of the bytes of live buffers plus the step's workspace.
 */
#ifndef TARN_PLANNER_SCHEDULE_H
#define TARN_PLANNER_SCHEDULE_H

#include "planner/problem.h"

struct schedule {
	uint32_t *step; /* op of each step */
	uint32_t steps;
};

struct instance {
	uint32_t value;
	uint32_t first, last;
	uint32_t buffer;
};

struct buffer {
	uint64_t bytes;
	uint32_t first, last; /* half-open, in steps */
};

struct expansion {
	struct instance *instance;
	struct buffer *buffer;      /* values' buffers first, then one a step with a workspace */
	uint32_t *operand_instance; /* for each step: inputs, then outputs, as the op lists them */
	uint32_t *first_operand;    /* [steps]: where the step's operands start */
	uint32_t *workspace_buffer; /* [steps]: UINT32_MAX where the op needs none */
	uint64_t *live_bytes;       /* [steps]: buffers and workspace live during the step */
	uint32_t instances, buffers;
	uint64_t peak_bytes;
	uint32_t peak_step;
	uint64_t time_ns;    /* sum of costs */
	uint32_t recomputed; /* runs beyond each op's first */
};

/* Derives everything; TARN_EINTERNAL (with step and op) when the sequence is not a legal schedule of the problem. */
enum tarn_status schedule_expand(const struct problem *problem, const struct schedule *schedule,
				 struct host_arena *arena, struct expansion *out);

/* Peak and time only, without keeping the rest; same errors. */
enum tarn_status schedule_measure(const struct problem *problem, const struct schedule *schedule,
				  struct host_arena *arena, uint64_t *peak_bytes, uint64_t *time_ns);

/* Independent of schedule_expand and plainly right (quadratic): whether the sequence is legal. For tests and debug
 * builds. */
enum tarn_status schedule_check(const struct problem *problem, const struct schedule *schedule);

#endif
