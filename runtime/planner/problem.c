/* problem.c - the invariants of a planning problem, proved before anything relies on them. */
#include "planner/problem.h"

#include "base/bytes.h"

#include <inttypes.h>
#include <string.h>

static bool range_inside(uint32_t first, uint32_t count, uint32_t total)
{
	return first <= total && count <= total - first;
}

static enum tarn_status check_values(const struct problem *p)
{
	for (uint32_t v = 0; v < p->values; v++) {
		const struct problem_value *value = &p->value[v];
		if (!p->any_size && (value->bytes < TARN_ALIGNMENT || value->bytes % TARN_ALIGNMENT))
			return tarn_fail(TARN_EINTERNAL,
					 "value %u has %" PRIu64 " bytes, not a positive multiple of %" PRIu64, v,
					 value->bytes, TARN_ALIGNMENT);
		if (value->producer >= p->ops)
			return tarn_fail(TARN_EINTERNAL, "value %u has producer %u of %u ops", v, value->producer,
					 p->ops);
		const struct problem_op *op = &p->op[value->producer];
		if (value->output >= op->outputs)
			return tarn_fail(TARN_EINTERNAL, "value %u is output %u of op %u, which has %u", v,
					 value->output, value->producer, op->outputs);
	}
	return TARN_OK;
}

static enum tarn_status check_op(const struct problem *p, uint32_t o, uint32_t *seen_by)
{
	const struct problem_op *op = &p->op[o];
	if (!range_inside(op->first_input, op->inputs, p->operands) ||
	    !range_inside(op->first_output, op->outputs, p->operands) ||
	    !range_inside(op->first_after, op->afters, p->afters))
		return tarn_fail(TARN_EINTERNAL, "op %u: its operands lie outside the operand array", o);
	if (!p->any_size && op->workspace % TARN_ALIGNMENT)
		return tarn_fail(TARN_EINTERNAL, "op %u: workspace of %" PRIu64 " bytes is no multiple of %" PRIu64, o,
				 op->workspace, TARN_ALIGNMENT);
	for (uint32_t i = 0; i < op->inputs; i++) {
		uint32_t v = problem_inputs(p, o)[i];
		if (v >= p->values || p->value[v].producer >= o)
			return tarn_fail(TARN_EINTERNAL, "op %u: input %u is not the value of an earlier op", o, i);
		if (seen_by[v] == o)
			return tarn_fail(TARN_EINTERNAL, "op %u: value %u is listed twice as input", o, v);
		seen_by[v] = o;
	}
	for (uint32_t i = 0; i < op->outputs; i++) {
		uint32_t v = problem_outputs(p, o)[i];
		if (v >= p->values || p->value[v].producer != o || p->value[v].output != i)
			return tarn_fail(TARN_EINTERNAL, "op %u: output %u does not name it as its producer", o, i);
	}
	for (uint32_t i = 0; i < op->afters; i++)
		if (p->after[op->first_after + i] >= p->ops || p->after[op->first_after + i] == o)
			return tarn_fail(TARN_EINTERNAL, "op %u: cannot come after op %u", o,
					 p->after[op->first_after + i]);
	return TARN_OK;
}

/* No op may, through inputs and afters, come after itself. Quadratic only when numbers are far from an order. */
static enum tarn_status check_cycles(const struct problem *p, uint8_t *placed)
{
	uint32_t left = p->ops;
	for (bool progress = true; left && progress;) {
		progress = false;
		for (uint32_t o = 0; o < p->ops; o++) {
			if (placed[o])
				continue;
			bool ready = true;
			for (uint32_t i = 0; i < p->op[o].inputs && ready; i++)
				ready = placed[p->value[problem_inputs(p, o)[i]].producer];
			for (uint32_t i = 0; i < p->op[o].afters && ready; i++)
				ready = placed[p->after[p->op[o].first_after + i]];
			if (!ready)
				continue;
			placed[o] = 1;
			left--;
			progress = true;
		}
	}
	if (left)
		return tarn_fail(TARN_EINTERNAL, "%u of %u ops come after themselves", left, p->ops);
	return TARN_OK;
}

enum tarn_status problem_check(const struct problem *problem)
{
	struct host_arena arena;
	host_arena_init(&arena);
	enum tarn_status st = check_values(problem);
	uint32_t *seen_by = HOST_ARRAY(&arena, problem->values, uint32_t);
	uint8_t *placed = HOST_ARRAY(&arena, problem->ops, uint8_t);
	if (!st && (!seen_by || !placed))
		st = TARN_ENOMEM;
	if (seen_by)
		memset(seen_by, 0xff, problem->values * sizeof *seen_by);
	for (uint32_t o = 0; !st && o < problem->ops; o++)
		st = check_op(problem, o, seen_by);
	if (!st)
		st = check_cycles(problem, placed);
	host_arena_fini(&arena);
	return st;
}
