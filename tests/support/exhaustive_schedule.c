/* exhaustive_schedule.c - Dijkstra over (ran, live). */
#include "support/exhaustive_schedule.h"

#include <stdlib.h>

struct state {
	uint32_t ran, live;
};

struct entry {
	struct state state;
	uint64_t distance;
};

struct explorer {
	const struct problem *p;
	uint32_t must_run; /* ops that are once or required */
	uint64_t limit;
	bool minimise_peak;  /* distance is the peak; else the time */
	struct entry *table; /* open addressing; distance 0 means free, so distances are kept plus one */
	uint32_t table_bits, states, most;
	struct entry *heap;
	size_t heap_length, heap_room;
	bool failed;
};

static struct entry *find(struct explorer *e, struct state s)
{
	uint64_t hash = (((uint64_t)s.ran << 32 | s.live) + 1) * 0x9E3779B97F4A7C15u;
	uint32_t mask = (1u << e->table_bits) - 1;
	for (uint32_t i = (uint32_t)(hash >> (64 - e->table_bits));; i++) {
		struct entry *t = &e->table[i & mask];
		if (!t->distance || (t->state.ran == s.ran && t->state.live == s.live))
			return t;
	}
}

static void push(struct explorer *e, struct state s, uint64_t distance)
{
	struct entry *known = find(e, s);
	if (known->distance && known->distance <= distance + 1)
		return;
	if (!known->distance && ++e->states > e->most) {
		e->failed = true;
		return;
	}
	*known = (struct entry){ s, distance + 1 };
	if (e->heap_length == e->heap_room) {
		size_t room = e->heap_room ? 2 * e->heap_room : 1024;
		struct entry *larger = realloc(e->heap, room * sizeof *larger);
		if (!larger) {
			e->failed = true;
			return;
		}
		e->heap = larger;
		e->heap_room = room;
	}
	size_t i = e->heap_length++;
	for (; i && e->heap[(i - 1) / 2].distance > distance; i = (i - 1) / 2)
		e->heap[i] = e->heap[(i - 1) / 2];
	e->heap[i] = (struct entry){ s, distance };
}

static struct entry pop(struct explorer *e)
{
	struct entry top = e->heap[0], last = e->heap[--e->heap_length];
	size_t i = 0;
	for (;;) {
		size_t child = 2 * i + 1;
		if (child + 1 < e->heap_length && e->heap[child + 1].distance < e->heap[child].distance)
			child++;
		if (child >= e->heap_length || e->heap[child].distance >= last.distance)
			break;
		e->heap[i] = e->heap[child];
		i = child;
	}
	e->heap[i] = last;
	return top;
}

static bool may_run(const struct explorer *e, struct state s, uint32_t o)
{
	const struct problem *p = e->p;
	const struct problem_op *op = &p->op[o];
	if (op->once && s.ran >> o & 1)
		return false;
	for (uint32_t i = 0; i < op->inputs; i++)
		if (!(s.live >> problem_inputs(p, o)[i] & 1))
			return false;
	for (uint32_t i = 0; i < op->outputs; i++)
		if (s.live >> problem_outputs(p, o)[i] & 1)
			return false; /* drop the old instance first */
	for (uint32_t c = 0; c < p->ops; c++)
		for (uint32_t i = 0; i < p->op[c].afters; i++) {
			if (p->after[p->op[c].first_after + i] == o && s.ran >> c & 1)
				return false;
			/* What must run and has not would come too late. */
			uint32_t before = p->after[p->op[c].first_after + i];
			if (c == o && (e->must_run >> before & 1) && !(s.ran >> before & 1))
				return false;
		}
	return true;
}

static void offer(struct explorer *e, const struct entry *at, struct state to, uint64_t bytes, uint64_t cost)
{
	if (bytes > e->limit)
		return;
	uint64_t distance = at->distance + cost;
	if (e->minimise_peak)
		distance = bytes > at->distance ? bytes : at->distance;
	push(e, to, distance);
}

static void run(struct explorer *e, const struct entry *at, uint32_t o)
{
	const struct problem *p = e->p;
	const struct problem_op *op = &p->op[o];
	struct state to = at->state;
	uint64_t bytes = op->workspace;
	for (uint32_t v = 0; v < p->values; v++)
		bytes += at->state.live >> v & 1 ? p->value[v].bytes : 0;
	/* Only ops whose having run matters are told apart; closers are once ops. */
	if (e->must_run >> o & 1)
		to.ran |= 1u << o;
	for (uint32_t i = 0; i < op->outputs; i++) {
		to.live |= 1u << problem_outputs(p, o)[i];
		bytes += p->value[problem_outputs(p, o)[i]].bytes;
	}
	offer(e, at, to, bytes, op->cost_ns);
	for (uint32_t j = 0; op->outputs && j < op->inputs; j++) {
		uint32_t v = problem_inputs(p, o)[j];
		struct state taken = { to.ran, to.live & ~(1u << v) };
		if (op->in_place >> j & 1 && p->value[v].bytes == p->value[problem_outputs(p, o)[0]].bytes)
			offer(e, at, taken, bytes - p->value[v].bytes, op->cost_ns);
	}
}

static bool explore(struct explorer *e, uint64_t *distance)
{
	const struct problem *p = e->p;
	bool done = false;
	*distance = UINT64_MAX;
	if (p->ops > 32 || p->values > 32)
		return false;
	for (uint32_t o = 0; o < p->ops; o++)
		e->must_run |= p->op[o].once || p->op[o].required ? 1u << o : 0;
	for (e->table_bits = 8; 1u << e->table_bits < 2 * e->most;)
		e->table_bits++;
	e->table = calloc((size_t)1 << e->table_bits, sizeof *e->table);
	e->failed = !e->table;
	if (!e->failed)
		push(e, (struct state){ 0, 0 }, 0);
	while (!e->failed && !done && e->heap_length) {
		struct entry at = pop(e);
		if (find(e, at.state)->distance != at.distance + 1)
			continue;
		if (at.state.ran == e->must_run) {
			*distance = at.distance;
			done = true;
		}
		for (uint32_t o = 0; o < p->ops; o++)
			if (may_run(e, at.state, o))
				run(e, &at, o);
		for (uint32_t v = 0; v < p->values; v++)
			if (at.state.live >> v & 1)
				push(e, (struct state){ at.state.ran, at.state.live & ~(1u << v) }, at.distance);
	}
	free(e->table);
	free(e->heap);
	return !e->failed;
}

bool exhaustive_least_peak(const struct problem *problem, uint32_t states, uint64_t *peak_bytes)
{
	struct explorer e = { .p = problem, .most = states, .limit = UINT64_MAX, .minimise_peak = true };
	return explore(&e, peak_bytes);
}

bool exhaustive_least_time(const struct problem *problem, uint64_t limit, uint32_t states, uint64_t *time_ns)
{
	struct explorer e = { .p = problem, .most = states, .limit = limit };
	return explore(&e, time_ns);
}
