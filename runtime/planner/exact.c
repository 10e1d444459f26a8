/* exact.c - A* over sets of live values. */
#include "planner/exact.h"

#include <string.h>

#define MOST_OPS 64u
#define NOBODY UINT32_MAX

struct exact_node {
	uint64_t set; /* bit of a value's op: it is live; bit of an op that must run: it has run */
	uint64_t time;
	uint32_t parent;
	uint8_t op; /* that was computed to come here; ops that must run and could follow at once have run as well */
};

struct heap_entry {
	uint64_t estimate, time;
	uint32_t node;
};

struct exact {
	const struct exact_request *request;
	uint32_t ops;
	uint32_t op_of[MOST_OPS]; /* needed ops in increasing order */
	uint64_t inputs[MOST_OPS], readers[MOST_OPS], bytes[MOST_OPS], extra[MOST_OPS], cost[MOST_OPS];
	uint64_t must_run; /* ops without needed readers, that must run */

	struct exact_node *node;
	uint32_t nodes;
	uint32_t *slot, slots; /* open addressing: 1 + node, or 0 */
	uint64_t work;
	struct heap_entry *heap;
	size_t heap_length, heap_room;
	struct host_arena heap_arena;
	bool full;
};

bool exact_applies(const struct dependence *d)
{
	const struct problem *p = d->problem;
	if (d->needed_ops > MOST_OPS || !d->needed_ops)
		return false;
	for (uint32_t o = 0; o < p->ops; o++) {
		const struct problem_op *op = &p->op[o];
		if (!d->needed[o])
			continue;
		if (op->outputs > 1 || op->in_place || op->once || op->afters)
			return false;
		/* An op that must run beside being read would need two bits. */
		uint32_t v = op->outputs ? problem_outputs(p, o)[0] : 0;
		if (op->required && op->outputs && d->first_reader[v + 1] > d->first_reader[v])
			return false;
	}
	return true;
}

static void describe(struct exact *k)
{
	const struct dependence *d = k->request->dependence;
	const struct problem *p = d->problem;
	for (uint32_t o = 0; o < p->ops; o++)
		if (d->needed[o])
			k->op_of[k->ops++] = o;
	for (uint32_t i = 0; i < k->ops; i++) {
		const struct problem_op *op = &p->op[k->op_of[i]];
		k->cost[i] = op->cost_ns;
		k->extra[i] = op->workspace;
		uint32_t v = op->outputs ? problem_outputs(p, k->op_of[i])[0] : 0;
		if (op->outputs && d->first_reader[v + 1] > d->first_reader[v]) {
			k->bytes[i] = p->value[v].bytes;
		} else {
			k->extra[i] += op->outputs ? p->value[v].bytes : 0;
			k->must_run |= (uint64_t)1 << i;
		}
		for (uint32_t j = 0; j < i; j++)
			for (uint32_t a = 0; a < op->inputs; a++)
				if (p->value[problem_inputs(p, k->op_of[i])[a]].producer == k->op_of[j]) {
					k->inputs[i] |= (uint64_t)1 << j;
					k->readers[j] |= (uint64_t)1 << i;
				}
	}
}

static inline uint32_t lowest(uint64_t set)
{
	return (uint32_t)__builtin_ctzll(set);
}

static uint64_t bytes_of(const struct exact *k, uint64_t set)
{
	uint64_t bytes = 0;
	for (set &= ~k->must_run; set; set &= set - 1)
		bytes += k->bytes[lowest(set)];
	return bytes;
}

/* Ops that lead to one that must run and has not. */
static uint64_t useful_ops(const struct exact *k, uint64_t set)
{
	uint64_t useful = 0;
	for (uint64_t left = k->must_run & ~set; left; left &= ~((uint64_t)1 << (63 - __builtin_clzll(left)))) {
		uint32_t o = 63 - (uint32_t)__builtin_clzll(left);
		useful |= (uint64_t)1 << o;
		left |= k->inputs[o] & ~useful;
	}
	return useful;
}

/* Time of the ops that must still run at least once. */
static uint64_t time_left(const struct exact *k, uint64_t set)
{
	uint64_t time = 0, left = k->must_run & ~set;
	while (left) {
		uint32_t o = 63 - (uint32_t)__builtin_clzll(left);
		left &= ~((uint64_t)1 << o);
		time += k->cost[o];
		left |= k->inputs[o] & ~set;
	}
	return time;
}

/*
 * What follows at no price: ops that must run anyway, leave nothing behind and fit run at once; values of no use are
 * given up. ran[] receives the ops.
 */
static uint64_t settle(const struct exact *k, uint64_t set, uint64_t *time, uint8_t *ran, uint32_t *count)
{
	*count = 0;
	for (bool again = true; again;) {
		again = false;
		uint64_t bytes = bytes_of(k, set);
		for (uint64_t left = k->must_run & ~set; left; left &= left - 1) {
			uint32_t o = lowest(left);
			if (k->inputs[o] & ~set || bytes + k->extra[o] > k->request->limit)
				continue;
			set |= (uint64_t)1 << o;
			*time += k->cost[o];
			ran[(*count)++] = (uint8_t)o;
			again = true;
		}
		uint64_t useful = useful_ops(k, set);
		for (uint64_t left = set & ~k->must_run; left; left &= left - 1) {
			uint32_t o = lowest(left);
			if (!(k->readers[o] & useful)) {
				set &= ~((uint64_t)1 << o);
				again = true;
			}
		}
	}
	return set;
}

static uint32_t *find_slot(const struct exact *k, uint64_t set)
{
	uint32_t at = (uint32_t)((set + 1) * 0x9E3779B97F4A7C15u >> 32) & (k->slots - 1);
	while (k->slot[at] && k->node[k->slot[at] - 1].set != set)
		at = (at + 1) & (k->slots - 1);
	return &k->slot[at];
}

static bool before(const struct heap_entry *a, const struct heap_entry *b)
{
	if (a->estimate != b->estimate)
		return a->estimate < b->estimate;
	if (a->time != b->time)
		return a->time > b->time;
	return a->node < b->node;
}

static bool heap_push(struct exact *k, struct heap_entry entry)
{
	if (k->heap_length == k->heap_room) {
		k->heap = host_arena_grow(&k->heap_arena, k->heap, &k->heap_room, k->heap_length + 1, sizeof *k->heap);
		if (!k->heap)
			return false;
	}
	size_t i = k->heap_length++;
	for (; i && before(&entry, &k->heap[(i - 1) / 2]); i = (i - 1) / 2)
		k->heap[i] = k->heap[(i - 1) / 2];
	k->heap[i] = entry;
	return true;
}

static struct heap_entry heap_pop(struct exact *k)
{
	struct heap_entry top = k->heap[0], last = k->heap[--k->heap_length];
	size_t i = 0;
	for (;;) {
		size_t child = 2 * i + 1;
		if (child + 1 < k->heap_length && before(&k->heap[child + 1], &k->heap[child]))
			child++;
		if (child >= k->heap_length || !before(&k->heap[child], &last))
			break;
		k->heap[i] = k->heap[child];
		i = child;
	}
	k->heap[i] = last;
	return top;
}

/* A state that was reached; false when the host has no more memory. */
static bool reach(struct exact *k, uint64_t set, uint64_t time, uint32_t parent, uint32_t op)
{
	uint8_t ran[MOST_OPS];
	uint32_t count;
	k->full |= ++k->work > k->request->max_work;
	set = settle(k, set, &time, ran, &count);
	uint32_t *slot = find_slot(k, set);
	if (*slot && (k->request->any_schedule || k->node[*slot - 1].time <= time))
		return true;
	uint64_t estimate = time + time_left(k, set);
	if (k->request->any_schedule)
		estimate -= k->request->any_schedule == EXACT_NEAREST ? time : 0;
	else if (estimate >= k->request->upper_time)
		return true;
	if (!*slot) {
		if (k->nodes == k->request->max_states) {
			k->full = true;
			return true;
		}
		*slot = ++k->nodes;
	}
	uint32_t node = *slot - 1;
	k->node[node] = (struct exact_node){ set, time, parent, (uint8_t)op };
	return heap_push(k, (struct heap_entry){ estimate, time, node });
}

/* Computes `op` after giving up each smallest subset of `rest` that makes room: `over` bytes are missing. */
static bool reach_without(struct exact *k, uint32_t from, uint32_t op, uint64_t set, uint64_t rest, uint64_t over,
			  uint64_t smallest_dropped)
{
	if (!over)
		return reach(k, set | (uint64_t)1 << op, k->node[from].time + k->cost[op], from, op);
	uint64_t possible = bytes_of(k, rest);
	while (rest && possible >= over && !k->full) {
		uint32_t o = lowest(rest);
		rest &= rest - 1;
		possible -= k->bytes[o];
		uint64_t bytes = k->bytes[o];
		if (!bytes)
			continue;
		/* A set with a value that it could do without is not a smallest one. */
		if (bytes >= over && smallest_dropped <= bytes - over)
			continue;
		uint64_t smallest = bytes < smallest_dropped ? bytes : smallest_dropped;
		uint64_t without = set & ~((uint64_t)1 << o);
		k->full |= ++k->work > k->request->max_work;
		if (!k->request->any_schedule && k->node[from].time + time_left(k, without) >= k->request->upper_time)
			continue;
		if (!reach_without(k, from, op, without, rest, bytes >= over ? 0 : over - bytes, smallest))
			return false;
	}
	return true;
}

static bool expand(struct exact *k, uint32_t from)
{
	uint64_t set = k->node[from].set, bytes = bytes_of(k, set);
	for (uint64_t left = useful_ops(k, set) & ~set; left && !k->full; left &= left - 1) {
		uint32_t o = lowest(left);
		uint64_t needed = bytes + k->bytes[o] + k->extra[o], limit = k->request->limit;
		if (k->inputs[o] & ~set)
			continue;
		uint64_t rest = set & ~k->must_run & ~k->inputs[o];
		if (!reach_without(k, from, o, set, rest, needed > limit ? needed - limit : 0, UINT64_MAX))
			return false;
	}
	return true;
}

static void append(const struct exact *k, uint32_t o, uint32_t *step, struct exact_result *result)
{
	if (result->steps < k->request->max_steps)
		step[result->steps] = k->op_of[o];
	result->steps++;
}

/* One move of the schedule: its op and what follows at once, in an order that fits. */
static void write_move(const struct exact *k, uint32_t node, uint32_t *step, struct exact_result *result)
{
	const struct exact_node *n = &k->node[node];
	uint64_t from = n->parent == NOBODY ? 0 : k->node[n->parent].set, set = from & n->set, time = 0;
	uint8_t ran[MOST_OPS];
	uint32_t count;
	if (n->parent != NOBODY) {
		append(k, n->op, step, result);
		set |= (uint64_t)1 << n->op;
	}
	/* Values that are gone afterwards may have been given up before; those that are read were not. */
	for (uint64_t followed = n->set & ~set & k->must_run; followed; followed &= followed - 1)
		set |= from & k->inputs[lowest(followed)];
	settle(k, set, &time, ran, &count);
	for (uint32_t i = 0; i < count; i++)
		append(k, ran[i], step, result);
}

/* The schedule that leads to the node; the chain of parents is turned around in the table's slots, which are done. */
static void write_steps(struct exact *k, uint32_t node, uint32_t *step, struct exact_result *result)
{
	uint32_t length = 0;
	for (uint32_t at = node; at != NOBODY; at = k->node[at].parent)
		k->slot[length++] = at;
	while (length)
		write_move(k, k->slot[--length], step, result);
}

/* All that was not looked at has at least this estimate. */
static void give_up(const struct exact *k, uint64_t estimate, struct exact_result *result)
{
	result->gave_up = true;
	result->bound = k->request->any_schedule ? 0 : estimate;
}

static enum tarn_status run(struct exact *k, uint32_t *step, struct exact_result *result)
{
	bool memory = reach(k, 0, 0, NOBODY, 0);
	result->bound = k->request->upper_time;
	while (memory && k->heap_length) {
		struct heap_entry top = heap_pop(k);
		const struct exact_node *n = &k->node[top.node];
		if (n->time != top.time)
			continue;
		if (k->full) {
			give_up(k, top.estimate, result);
			break;
		}
		if ((n->set & k->must_run) == k->must_run) {
			result->time_ns = n->time;
			result->bound = k->request->any_schedule ? 0 : n->time;
			write_steps(k, top.node, step, result);
			result->found = result->steps <= k->request->max_steps;
			result->gave_up = !result->found;
			break;
		}
		uint64_t estimate = top.estimate;
		memory = expand(k, top.node);
		if (k->full) {
			give_up(k, estimate, result);
			break;
		}
	}
	result->states = k->nodes;
	result->work = k->work;
	return memory ? TARN_OK : TARN_ENOMEM;
}

enum tarn_status exact_search(const struct exact_request *request, struct host_arena *arena, uint32_t *step,
			      struct exact_result *result)
{
	struct host_mark mark = host_arena_mark(arena);
	struct exact *k = HOST_NEW(arena, struct exact);
	enum tarn_status st = TARN_ENOMEM;
	*result = (struct exact_result){ 0 };
	if (!k)
		return st;
	*k = (struct exact){ .request = request, .slots = 1024 };
	while (k->slots < 2 * request->max_states)
		k->slots *= 2;
	k->node = HOST_ARRAY(arena, request->max_states, struct exact_node);
	k->slot = HOST_ARRAY(arena, k->slots, uint32_t);
	host_arena_init(&k->heap_arena);
	if (k->node && k->slot) {
		describe(k);
		st = run(k, step, result);
	}
	host_arena_fini(&k->heap_arena);
	host_arena_release(arena, mark);
	return st;
}
