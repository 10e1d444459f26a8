/* schedule_oracle.c - A* over (live values, required ops that have run). */
#include "support/schedule_oracle.h"

#include <stdlib.h>

struct node {
	uint64_t live, ran; /* by op */
	uint64_t time;      /* so far, plus one; 0: an empty place of the table */
};

struct open {
	uint64_t live, ran, time, estimate;
};

struct oracle {
	const struct problem *p;
	uint64_t limit;
	uint64_t inputs[64], readers[64], bytes[64], extra[64], required;
	struct node *table;
	uint64_t mask;
	uint32_t states, most;
	struct open *heap;
	size_t length, room;
	bool failed;
};

static void describe(struct oracle *k)
{
	const struct problem *p = k->p;
	for (uint32_t o = 0; o < p->ops; o++) {
		const struct problem_op *op = &p->op[o];
		for (uint32_t i = 0; i < op->inputs; i++) {
			uint32_t from = p->value[problem_inputs(p, o)[i]].producer;
			k->inputs[o] |= (uint64_t)1 << from;
			k->readers[from] |= (uint64_t)1 << o;
		}
		k->bytes[o] = op->outputs ? p->value[problem_outputs(p, o)[0]].bytes : 0;
		k->extra[o] = op->workspace;
		if (op->required)
			k->required |= (uint64_t)1 << o;
	}
}

/* All ops that required ones which have not run hang on, and those ops themselves. */
static uint64_t useful_ops(const struct oracle *k, uint64_t ran)
{
	uint64_t useful = k->required & ~ran;
	for (uint32_t o = 64; o-- > 0;)
		if (useful >> o & 1)
			useful |= k->inputs[o];
	return useful;
}

/* The same without looking behind live values; the sum of costs. */
static uint64_t time_left(const struct oracle *k, uint64_t live, uint64_t ran)
{
	uint64_t due = k->required & ~ran, time = 0;
	for (uint32_t o = 64; o-- > 0;)
		if (due >> o & 1) {
			due |= k->inputs[o] & ~live;
			time += k->p->op[o].cost_ns;
		}
	return time;
}

static uint64_t bytes_of(const struct oracle *k, uint64_t live)
{
	uint64_t bytes = 0;
	for (; live; live &= live - 1)
		bytes += k->bytes[__builtin_ctzll(live)];
	return bytes;
}

static struct node *find(const struct oracle *k, uint64_t live, uint64_t ran)
{
	uint64_t hash = (live * 0x9E3779B97F4A7C15u) ^ (ran * 0xC2B2AE3D27D4EB4Fu);
	hash ^= hash >> 31;
	hash *= 0xBF58476D1CE4E5B9u;
	for (uint64_t i = hash >> 20;; i++) {
		struct node *n = &k->table[i & k->mask];
		if (!n->time || (n->live == live && n->ran == ran))
			return n;
	}
}

/* Smaller estimates first; of equal ones what is further. */
static bool before(const struct open *a, const struct open *b)
{
	return a->estimate != b->estimate ? a->estimate < b->estimate : a->time > b->time;
}

static void push(struct oracle *k, struct open o)
{
	struct node *n = find(k, o.live, o.ran);
	if (k->failed || (n->time && n->time <= o.time + 1))
		return;
	if (!n->time && ++k->states > k->most) {
		k->failed = true;
		return;
	}
	*n = (struct node){ o.live, o.ran, o.time + 1 };
	if (k->length == k->room) {
		k->room = 2 * k->room + 1024;
		struct open *more = realloc(k->heap, k->room * sizeof *more);
		if (!more)
			abort();
		k->heap = more;
	}
	size_t i = k->length++;
	for (; i && before(&o, &k->heap[(i - 1) / 2]); i = (i - 1) / 2)
		k->heap[i] = k->heap[(i - 1) / 2];
	k->heap[i] = o;
}

static struct open pop(struct oracle *k)
{
	struct open top = k->heap[0], last = k->heap[--k->length];
	size_t i = 0;
	for (size_t child; (child = 2 * i + 1) < k->length; i = child) {
		if (child + 1 < k->length && before(&k->heap[child + 1], &k->heap[child]))
			child++;
		if (!before(&k->heap[child], &last))
			break;
		k->heap[i] = k->heap[child];
	}
	k->heap[i] = last;
	return top;
}

/* A new state, without values that nothing useful reads. */
static void reach(struct oracle *k, uint64_t live, uint64_t ran, uint64_t time)
{
	uint64_t useful = useful_ops(k, ran), kept = 0;
	for (uint64_t left = live; left; left &= left - 1) {
		uint32_t v = (uint32_t)__builtin_ctzll(left);
		kept |= k->readers[v] & useful ? (uint64_t)1 << v : 0;
	}
	push(k, (struct open){ kept, ran, time, time + time_left(k, kept, ran) });
}

static void expand(struct oracle *k, const struct open *at)
{
	uint64_t bytes = bytes_of(k, at->live), blocked = 0;
	for (uint64_t left = useful_ops(k, at->ran); left; left &= left - 1) {
		uint32_t o = (uint32_t)__builtin_ctzll(left);
		uint64_t self = (uint64_t)1 << o;
		if (at->live & self || k->inputs[o] & ~at->live)
			continue;
		if (bytes + k->bytes[o] + k->extra[o] > k->limit)
			blocked |= self;
		else
			reach(k, at->live | self, at->ran | (self & k->required), at->time + k->p->op[o].cost_ns);
	}
	for (uint64_t left = blocked ? at->live : 0; left; left &= left - 1)
		reach(k, at->live & ~(left & -left), at->ran, at->time);
}

bool schedule_oracle(const struct problem *p, uint64_t limit, uint32_t states, uint64_t *time_ns)
{
	struct oracle k = { .p = p, .limit = limit, .most = states, .mask = 1024 };
	if (p->ops > 64)
		return false;
	describe(&k);
	while (k.mask < 2 * (uint64_t)states)
		k.mask *= 2;
	k.table = calloc(k.mask--, sizeof *k.table);
	if (!k.table)
		abort();
	*time_ns = UINT64_MAX;
	push(&k, (struct open){ 0, 0, 0, time_left(&k, 0, 0) });
	while (!k.failed && k.length) {
		struct open at = pop(&k);
		if (find(&k, at.live, at.ran)->time != at.time + 1)
			continue;
		if (at.ran == k.required) {
			*time_ns = at.time;
			break;
		}
		expand(&k, &at);
	}
	free(k.table);
	free(k.heap);
	return !k.failed || *time_ns != UINT64_MAX;
}
