/* schedule.c - from a sequence of op runs to instances, buffers and live bytes. */
#include "planner/schedule.h"

#include <inttypes.h>

static enum tarn_status fail_step(uint32_t step, uint32_t op, const char *why)
{
	return tarn_fail(TARN_EINTERNAL, "schedule step %u, op %u: %s", step, op, why);
}

/* What schedule_expand needs beside its result. */
struct expander {
	const struct problem *problem;
	const struct schedule *schedule;
	struct expansion *out;
	uint32_t *newest; /* [values]: newest instance, or UINT32_MAX */
	uint32_t *runs;   /* [ops] */
	uint8_t *closed;  /* [ops]: an op that must come after all its runs has run */
};

static enum tarn_status take(struct expander *e, struct host_arena *arena)
{
	const struct problem *p = e->problem;
	struct expansion *out = e->out;
	uint32_t steps = e->schedule->steps;
	uint64_t operands = 0, outputs = 0, workspaces = 0;
	for (uint32_t s = 0; s < steps; s++) {
		uint32_t o = e->schedule->step[s];
		if (o >= p->ops)
			return fail_step(s, o, "no such op");
		operands += p->op[o].inputs + (uint64_t)p->op[o].outputs;
		outputs += p->op[o].outputs;
		workspaces += p->op[o].workspace > 0;
	}
	if (operands >= UINT32_MAX)
		return tarn_fail(TARN_EINTERNAL, "schedule of %u steps has %" PRIu64 " operands, more than 32 bits",
				 steps, operands);
	out->instance = HOST_ARRAY(arena, outputs, struct instance);
	out->buffer = HOST_ARRAY(arena, outputs + workspaces, struct buffer);
	out->operand_instance = HOST_ARRAY(arena, operands, uint32_t);
	out->first_operand = HOST_ARRAY(arena, steps, uint32_t);
	out->workspace_buffer = HOST_ARRAY(arena, steps, uint32_t);
	out->live_bytes = HOST_ARRAY(arena, (size_t)steps + 1, uint64_t);
	e->newest = HOST_ARRAY(arena, p->values, uint32_t);
	e->runs = HOST_ARRAY(arena, p->ops, uint32_t);
	e->closed = HOST_ARRAY(arena, p->ops, uint8_t);
	if (!out->instance || !out->buffer || !out->operand_instance || !out->first_operand || !out->workspace_buffer ||
	    !out->live_bytes || !e->newest || !e->runs || !e->closed)
		return TARN_ENOMEM;
	for (uint32_t v = 0; v < p->values; v++)
		e->newest[v] = UINT32_MAX;
	return TARN_OK;
}

/* One run: reads the newest instances, writes new ones. */
static enum tarn_status run_step(struct expander *e, uint32_t s, uint32_t *operands)
{
	const struct problem *p = e->problem;
	struct expansion *out = e->out;
	uint32_t o = e->schedule->step[s];
	const struct problem_op *op = &p->op[o];
	if (e->closed[o])
		return fail_step(s, o, "runs after an op that must come after all its runs");
	if (op->once && e->runs[o])
		return fail_step(s, o, "runs a second time and may run only once");
	out->recomputed += e->runs[o] > 0;
	e->runs[o]++;
	out->time_ns += op->cost_ns;
	out->first_operand[s] = *operands;
	for (uint32_t i = 0; i < op->inputs; i++) {
		uint32_t instance = e->newest[problem_inputs(p, o)[i]];
		if (instance == UINT32_MAX)
			return fail_step(s, o, "reads a value that nothing has produced yet");
		out->instance[instance].last = s + 1;
		out->operand_instance[(*operands)++] = instance;
	}
	for (uint32_t i = 0; i < op->outputs; i++) {
		uint32_t v = problem_outputs(p, o)[i];
		e->newest[v] = out->instances;
		out->operand_instance[(*operands)++] = out->instances;
		out->instance[out->instances++] = (struct instance){ .value = v, .first = s, .last = s + 1 };
	}
	for (uint32_t i = 0; i < op->afters; i++)
		e->closed[p->after[op->first_after + i]] = 1;
	return TARN_OK;
}

static enum tarn_status run_all(struct expander *e)
{
	uint32_t operands = 0;
	for (uint32_t s = 0; s < e->schedule->steps; s++) {
		enum tarn_status st = run_step(e, s, &operands);
		if (st)
			return st;
	}
	for (uint32_t o = 0; o < e->problem->ops; o++)
		if (!e->runs[o] && (e->problem->op[o].once || e->problem->op[o].required))
			return tarn_fail(TARN_EINTERNAL, "schedule never runs op %u, which is required", o);
	return TARN_OK;
}

/* The instance among the step's inputs whose memory output 0 takes over, or UINT32_MAX. */
static uint32_t taken_over(const struct problem *p, const struct expansion *out, uint32_t o, uint32_t s)
{
	const struct problem_op *op = &p->op[o];
	if (!op->outputs)
		return UINT32_MAX;
	uint64_t bytes = p->value[problem_outputs(p, o)[0]].bytes;
	for (uint32_t j = 0; j < op->inputs && j < 32; j++) {
		uint32_t instance = out->operand_instance[out->first_operand[s] + j];
		if (op->in_place >> j & 1 && p->value[problem_inputs(p, o)[j]].bytes == bytes &&
		    out->instance[instance].last == s + 1)
			return instance;
	}
	return UINT32_MAX;
}

static void make_buffers(const struct problem *p, const struct schedule *schedule, struct expansion *out)
{
	for (uint32_t s = 0; s < schedule->steps; s++) {
		uint32_t o = schedule->step[s];
		const uint32_t *written = out->operand_instance + out->first_operand[s] + p->op[o].inputs;
		uint32_t source = taken_over(p, out, o, s);
		for (uint32_t i = 0; i < p->op[o].outputs; i++) {
			struct instance *instance = &out->instance[written[i]];
			if (i == 0 && source != UINT32_MAX) {
				instance->buffer = out->instance[source].buffer;
				out->buffer[instance->buffer].last = instance->last;
				continue;
			}
			instance->buffer = out->buffers;
			out->buffer[out->buffers++] = (struct buffer){ .bytes = p->value[instance->value].bytes,
								       .first = instance->first,
								       .last = instance->last };
		}
	}
	for (uint32_t s = 0; s < schedule->steps; s++) {
		uint64_t workspace = p->op[schedule->step[s]].workspace;
		out->workspace_buffer[s] = workspace ? out->buffers : UINT32_MAX;
		if (workspace)
			out->buffer[out->buffers++] = (struct buffer){ .bytes = workspace, .first = s, .last = s + 1 };
	}
}

static void sum_live_bytes(uint32_t steps, struct expansion *out)
{
	/* Differences first, then their running sum; unsigned wrap-around cancels out. */
	for (uint32_t b = 0; b < out->buffers; b++) {
		out->live_bytes[out->buffer[b].first] += out->buffer[b].bytes;
		out->live_bytes[out->buffer[b].last] -= out->buffer[b].bytes;
	}
	uint64_t live = 0;
	for (uint32_t s = 0; s < steps; s++) {
		live += out->live_bytes[s];
		out->live_bytes[s] = live;
		if (live > out->peak_bytes) {
			out->peak_bytes = live;
			out->peak_step = s;
		}
	}
}

enum tarn_status schedule_expand(const struct problem *problem, const struct schedule *schedule,
				 struct host_arena *arena, struct expansion *out)
{
	*out = (struct expansion){ 0 };
	struct expander e = { .problem = problem, .schedule = schedule, .out = out };
	enum tarn_status st = take(&e, arena);
	if (!st)
		st = run_all(&e);
	if (st)
		return st;
	make_buffers(problem, schedule, out);
	sum_live_bytes(schedule->steps, out);
	return TARN_OK;
}

enum tarn_status schedule_measure(const struct problem *problem, const struct schedule *schedule,
				  struct host_arena *arena, uint64_t *peak_bytes, uint64_t *time_ns)
{
	struct host_mark mark = host_arena_mark(arena);
	struct expansion expansion;
	enum tarn_status st = schedule_expand(problem, schedule, arena, &expansion);
	if (!st) {
		*peak_bytes = expansion.peak_bytes;
		*time_ns = expansion.time_ns;
	}
	host_arena_release(arena, mark);
	return st;
}

/* Is op `o` among the schedule's steps [first, last)? */
static bool runs_within(const struct schedule *schedule, uint32_t o, uint32_t first, uint32_t last)
{
	for (uint32_t s = first; s < last; s++)
		if (schedule->step[s] == o)
			return true;
	return false;
}

enum tarn_status schedule_check(const struct problem *problem, const struct schedule *schedule)
{
	for (uint32_t s = 0; s < schedule->steps; s++) {
		uint32_t o = schedule->step[s];
		if (o >= problem->ops)
			return fail_step(s, o, "no such op");
		const struct problem_op *op = &problem->op[o];
		if (op->once && runs_within(schedule, o, 0, s))
			return fail_step(s, o, "may run only once");
		for (uint32_t i = 0; i < op->inputs; i++)
			if (!runs_within(schedule, problem->value[problem_inputs(problem, o)[i]].producer, 0, s))
				return fail_step(s, o, "an input has not been produced");
		for (uint32_t i = 0; i < op->afters; i++)
			if (runs_within(schedule, problem->after[op->first_after + i], s, schedule->steps))
				return fail_step(s, o, "an op that must come before it runs later");
	}
	for (uint32_t o = 0; o < problem->ops; o++)
		if ((problem->op[o].once || problem->op[o].required) && !runs_within(schedule, o, 0, schedule->steps))
			return tarn_fail(TARN_EINTERNAL, "op %u is required and never runs", o);
	return TARN_OK;
}
