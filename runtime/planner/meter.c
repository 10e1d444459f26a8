/* meter.c - live bytes of a schedule in two sweeps. */
#include "planner/meter.h"

#include <string.h>

enum tarn_status meter_init(struct meter *meter, const struct problem *problem, uint32_t capacity,
			    struct host_arena *arena)
{
	uint32_t most = 0;
	for (uint32_t o = 0; o < problem->ops; o++)
		if (problem->op[o].outputs > most)
			most = problem->op[o].outputs;
	/* Room for the average op twice; a sequence that repeats the widest ops more often is refused. */
	uint64_t instances = (uint64_t)capacity * 2 + problem->values + most;
	*meter = (struct meter){
		.problem = problem,
		.capacity = capacity,
		.newest = HOST_ARRAY(arena, problem->values, uint32_t),
		.last = HOST_ARRAY(arena, instances, uint32_t),
		.live_bytes = HOST_ARRAY(arena, (size_t)capacity + 1, uint64_t),
		.instances = instances < UINT32_MAX ? (uint32_t)instances : UINT32_MAX,
	};
	return meter->newest && meter->last && meter->live_bytes ? TARN_OK : TARN_ENOMEM;
}

/* First sweep: the last reader of each instance, in the order in which instances are made. */
static bool find_last_readers(struct meter *m, const uint32_t *step, uint32_t steps)
{
	const struct problem *p = m->problem;
	memset(m->newest, 0xff, p->values * sizeof *m->newest);
	uint32_t instances = 0;
	m->time_ns = 0;
	for (uint32_t s = 0; s < steps; s++) {
		const struct problem_op *op = &p->op[step[s]];
		const uint32_t *value = p->operand + op->first_input;
		m->time_ns += op->cost_ns;
		for (uint32_t i = 0; i < op->inputs; i++) {
			if (m->newest[value[i]] == UINT32_MAX)
				return false;
			m->last[m->newest[value[i]]] = s + 1;
		}
		value = p->operand + op->first_output;
		if (instances + op->outputs > m->instances)
			return false;
		for (uint32_t i = 0; i < op->outputs; i++) {
			m->newest[value[i]] = instances;
			m->last[instances++] = s + 1;
		}
	}
	return true;
}

/* Bytes that output 0 of the step takes over from an input that ends here, or 0. */
static uint64_t bytes_taken_over(const struct meter *m, const struct problem_op *op, uint32_t s)
{
	const struct problem *p = m->problem;
	uint64_t bytes = p->value[p->operand[op->first_output]].bytes;
	for (uint32_t j = 0; j < op->inputs && j < 32; j++) {
		uint32_t v = p->operand[op->first_input + j];
		if (op->in_place >> j & 1 && p->value[v].bytes == bytes && m->last[m->newest[v]] == s + 1)
			return bytes;
	}
	return 0;
}

bool meter_measure(struct meter *m, const uint32_t *step, uint32_t steps)
{
	const struct problem *p = m->problem;
	if (steps > m->capacity || !find_last_readers(m, step, steps))
		return false;
	uint64_t *live = m->live_bytes;
	memset(live, 0, ((size_t)steps + 1) * sizeof *live);
	uint32_t instances = 0;
	uint64_t now = 0;
	m->peak_bytes = 0;
	for (uint32_t s = 0; s < steps; s++) {
		const struct problem_op *op = &p->op[step[s]];
		const uint32_t *value = p->operand + op->first_output;
		/* live[] holds what ends before the step, as wrapped differences, until `now` replaces it. */
		now += live[s];
		if (op->in_place && op->outputs) {
			uint64_t bytes = bytes_taken_over(m, op, s);
			now -= bytes;
			live[s + 1] += bytes;
		}
		for (uint32_t i = 0; i < op->outputs; i++) {
			uint64_t bytes = p->value[value[i]].bytes;
			now += bytes;
			live[m->last[instances]] -= bytes;
			m->newest[value[i]] = instances++;
		}
		live[s] = now + op->workspace;
		if (live[s] > m->peak_bytes)
			m->peak_bytes = live[s];
	}
	return true;
}
