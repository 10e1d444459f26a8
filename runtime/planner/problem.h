/*
 * problem.h - what the planner sees: values to hold, ops to run, bytes and nanoseconds. No shapes, no kinds.
 *
 * A value is the memory of one transient tensor (views belong to their root's value; persistent tensors are not values:
 * they are always there). An op produces one or more values from others. Recomputing an op makes all its
 * outputs again.
 *
 * Schedule semantics (schedule.h derives everything from the sequence of ops alone)
 *   - An op may run when all its input values are live. A read finds the newest instance of the value.
 *   - While an op runs, its inputs, outputs and workspace are all live; an output may take over an input's memory when
 *     in_place allows it, the sizes are equal and nothing reads the input's instance afterwards.
 *   - `once` ops run exactly once. Every other op runs at least once when `required`, else as often as wanted (also
 * never).
 *   - after: all runs of the ops listed must come before this op's first run (a parameter update comes after everything
 *     that reads the parameter).
 *
 * Invariants: op numbers are a topological order (inputs are produced by smaller numbers); value.bytes (positive) and
 * workspace are multiples of TARN_ALIGNMENT, unless `any_size`; inputs of an op have no duplicates.
 */
#ifndef TARN_PLANNER_PROBLEM_H
#define TARN_PLANNER_PROBLEM_H

#include "base/host_arena.h"

#include <stdbool.h>

#define VALUE_NONE UINT32_MAX

struct problem_value {
	uint64_t bytes;
	uint32_t producer; /* op */
	uint32_t output;   /* which of its outputs */
};

struct problem_op {
	uint64_t cost_ns;
	uint64_t workspace;
	uint32_t first_input, inputs;   /* in problem.operand: values */
	uint32_t first_output, outputs; /* in problem.operand: values */
	uint32_t first_after, afters;   /* in problem.after: ops */
	uint32_t in_place;              /* bit j: output 0 may take over input j (as listed here) */
	bool once, required;
	bool forward; /* computed before the loss; a hint */
	bool heavy;   /* a convolution or matrix product, whose output the `speed` strategy keeps; a hint */
};

struct problem {
	struct problem_value *value;
	struct problem_op *op;
	uint32_t *operand;
	uint32_t *after;
	uint32_t values, ops, operands, afters;
	bool any_size; /* sizes are any numbers, zero included: an abstract problem that is planned but never run */
};

static inline const uint32_t *problem_inputs(const struct problem *p, uint32_t op)
{
	return p->operand + p->op[op].first_input;
}

static inline const uint32_t *problem_outputs(const struct problem *p, uint32_t op)
{
	return p->operand + p->op[op].first_output;
}

/* Proves the invariants above. TARN_EINTERNAL with the first violation. */
enum tarn_status problem_check(const struct problem *problem);

#endif
