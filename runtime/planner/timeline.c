/* timeline.c - instances and live bytes of the schedule that a search stands at. */
#include "planner/neighbourhood.h"

#include <string.h>

enum tarn_status timeline_init(struct timeline *t, const struct dependence *dependence, uint32_t capacity,
			       struct host_arena *arena)
{
	const struct problem *p = dependence->problem;
	uint32_t room = 2 * capacity + p->values;
	*t = (struct timeline){
		.dependence = dependence,
		.capacity = capacity,
		.step = HOST_ARRAY(arena, capacity, uint32_t),
		.first_output = HOST_ARRAY(arena, capacity, uint32_t),
		.taken_over = HOST_ARRAY(arena, capacity, uint32_t),
		.live_bytes = HOST_ARRAY(arena, (size_t)capacity + 1, double),
		.first = HOST_ARRAY(arena, room, uint32_t),
		.last = HOST_ARRAY(arena, room, uint32_t),
		.value = HOST_ARRAY(arena, room, uint32_t),
		.older = HOST_ARRAY(arena, room, uint32_t),
		.newest = HOST_ARRAY(arena, p->values, uint32_t),
		.run_before = HOST_ARRAY(arena, capacity, uint32_t),
		.last_run = HOST_ARRAY(arena, p->ops, uint32_t),
		.instance_room = room,
	};
	return t->step && t->first_output && t->taken_over && t->live_bytes && t->first && t->last && t->value &&
			       t->older && t->newest && t->run_before && t->last_run
		       ? TARN_OK
		       : TARN_ENOMEM;
}

static bool find_instances(struct timeline *t)
{
	const struct problem *p = t->dependence->problem;
	memset(t->newest, 0xff, p->values * sizeof *t->newest);
	memset(t->last_run, 0xff, p->ops * sizeof *t->last_run);
	t->instances = 0;
	for (uint32_t s = 0; s < t->steps; s++) {
		uint32_t o = t->step[s];
		t->run_before[s] = t->last_run[o];
		t->last_run[o] = s;
		t->first_output[s] = t->instances;
		for (uint32_t i = 0; i < p->op[o].inputs; i++)
			t->last[t->newest[problem_inputs(p, o)[i]]] = s + 1;
		if (t->instances + p->op[o].outputs > t->instance_room)
			return false;
		for (uint32_t i = 0; i < p->op[o].outputs; i++) {
			uint32_t v = problem_outputs(p, o)[i], instance = t->instances++;
			t->value[instance] = v;
			t->first[instance] = s;
			t->last[instance] = s + 1;
			t->older[instance] = t->newest[v];
			t->newest[v] = instance;
		}
	}
	return true;
}

static uint32_t instance_taken_over(const struct timeline *t, uint32_t s, const uint32_t *current)
{
	const struct problem *p = t->dependence->problem;
	const struct problem_op *op = &p->op[t->step[s]];
	if (!op->in_place || !op->outputs)
		return UINT32_MAX;
	uint64_t bytes = p->value[p->operand[op->first_output]].bytes;
	for (uint32_t j = 0; j < op->inputs && j < 32; j++) {
		uint32_t v = p->operand[op->first_input + j];
		if (op->in_place >> j & 1 && p->value[v].bytes == bytes && t->last[current[v]] == s + 1)
			return current[v];
	}
	return UINT32_MAX;
}

bool timeline_update(struct timeline *t)
{
	const struct problem *p = t->dependence->problem;
	if (t->steps > t->capacity || !find_instances(t))
		return false;
	memset(t->live_bytes, 0, ((size_t)t->steps + 1) * sizeof *t->live_bytes);
	double now = 0;
	/* The second sweep makes the same instances in the same order; newest[] says what each read finds. */
	for (uint32_t s = 0; s < t->steps; s++) {
		const struct problem_op *op = &p->op[t->step[s]];
		now += t->live_bytes[s];
		t->taken_over[s] = instance_taken_over(t, s, t->newest);
		if (t->taken_over[s] != UINT32_MAX) {
			double bytes = (double)p->value[t->value[t->taken_over[s]]].bytes;
			now -= bytes;
			t->live_bytes[s + 1] += bytes;
		}
		for (uint32_t i = 0; i < op->outputs; i++) {
			uint32_t instance = t->first_output[s] + i, v = t->value[instance];
			now += (double)p->value[v].bytes;
			t->live_bytes[t->last[instance]] -= (double)p->value[v].bytes;
			t->newest[v] = instance;
		}
		t->live_bytes[s] = now + (double)op->workspace;
	}
	return true;
}
