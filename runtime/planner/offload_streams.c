/* offload_streams.c - see offload_streams.h. */
#include "planner/offload_streams.h"

#include <string.h>

/* Eleven days: sums of times stay below 2^64. */
#define LONGEST_COPY_NS 1e15

static void make_joint(struct streams *k)
{
	const struct problem *p = k->problem;
	struct problem *joint = &k->joint;
	memcpy(joint->op, p->op, p->ops * sizeof *p->op);
	memcpy(joint->operand, p->operand, p->operands * sizeof *p->operand);
	joint->ops = p->ops + 2 * p->values;
	joint->operands = p->operands + p->values;
	for (uint32_t v = 0; v < p->values; v++) {
		joint->operand[p->operands + v] = v;
		joint->op[store_op(k, v)] = (struct problem_op){ .first_input = p->operands + v, .inputs = 1 };
		joint->op[fetch_op(k, v)] = (struct problem_op){ .first_output = p->operands + v, .outputs = 1 };
	}
}

enum tarn_status streams_init(struct streams *k, const struct problem *p, uint64_t bandwidth, uint32_t capacity,
			      struct host_arena *arena)
{
	*k = (struct streams){
		.problem = p,
		.joint = *p,
		.copy_ns = HOST_ARRAY(arena, p->values, uint64_t),
		.waited_ns = HOST_ARRAY(arena, p->values, uint64_t),
		.made_at = HOST_ARRAY(arena, p->values, uint32_t),
		.started = HOST_ARRAY(arena, p->values, uint32_t),
		.end_ns = HOST_ARRAY(arena, p->values, uint64_t),
		.slot = HOST_ARRAY(arena, p->values, uint8_t),
		.stored = HOST_ARRAY(arena, p->values, uint8_t),
		.ran = HOST_ARRAY(arena, p->ops, uint8_t),
		.closed = HOST_ARRAY(arena, p->ops, uint8_t),
	};
	k->joint.op = HOST_ARRAY(arena, p->ops + 2 * (size_t)p->values, struct problem_op);
	k->joint.operand = HOST_ARRAY(arena, p->operands + (size_t)p->values, uint32_t);
	if (!k->copy_ns || !k->waited_ns || !k->made_at || !k->started || !k->end_ns || !k->slot || !k->stored ||
	    !k->ran || !k->closed || !k->joint.op || !k->joint.operand)
		return TARN_ENOMEM;
	make_joint(k);
	for (uint32_t v = 0; v < p->values; v++) {
		double ns = (double)p->value[v].bytes * 1e9 / (double)bandwidth;
		k->copy_ns[v] = ns < LONGEST_COPY_NS ? (uint64_t)ns : (uint64_t)LONGEST_COPY_NS;
	}
	return meter_init(&k->meter, &k->joint, capacity, arena);
}

/* Which instance each store reads, and so when it starts. */
static bool find_starts(struct streams *k, const uint32_t *step, uint32_t steps)
{
	const struct problem *p = &k->joint;
	memset(k->made_at, 0xff, p->values * sizeof *k->made_at);
	memset(k->started, 0xff, p->values * sizeof *k->started);
	for (uint32_t s = 0; s < steps; s++) {
		uint32_t o = step[s];
		for (uint32_t i = 0; i < p->op[o].outputs; i++)
			k->made_at[problem_outputs(p, o)[i]] = s;
		if (is_run(k, o) || is_fetch(k, o))
			continue;
		uint32_t v = copied_value(k, o), made = k->made_at[v];
		if (made == UINT32_MAX || k->started[v] != UINT32_MAX || !is_run(k, step[made]))
			return false;
		k->started[v] = made;
	}
	return true;
}

/* The walk over one sequence. */
struct walk {
	struct streams *k;
	struct transfer *transfer;
	uint32_t transfers;
	uint64_t now, copies_end, slots;
};

static void note(struct walk *w, uint32_t kind, uint32_t before, uint32_t value)
{
	if (w->transfer)
		w->transfer[w->transfers++] = (struct transfer){ kind, before, value, w->k->slot[value] - 1u };
}

/* False when every slot is taken. */
static bool begin_copy(struct walk *w, uint32_t kind, uint32_t before, uint32_t v)
{
	struct streams *k = w->k;
	if (!~w->slots)
		return false;
	uint32_t slot = (uint32_t)__builtin_ctzll(~w->slots);
	w->slots |= (uint64_t)1 << slot;
	k->slot[v] = (uint8_t)(slot + 1);
	w->copies_end = (w->copies_end > w->now ? w->copies_end : w->now) + k->copy_ns[v];
	k->end_ns[v] = w->copies_end;
	note(w, kind, before, v);
	return true;
}

static void wait_for(struct walk *w, uint32_t kind, uint32_t s, uint32_t v)
{
	struct streams *k = w->k;
	if (k->end_ns[v] > w->now) {
		k->waited_ns[v] += k->end_ns[v] - w->now;
		w->now = k->end_ns[v];
	}
	note(w, kind, s, v);
	w->slots &= ~((uint64_t)1 << (k->slot[v] - 1));
	k->slot[v] = 0;
}

static bool walk_run(struct walk *w, uint32_t s, uint32_t o)
{
	struct streams *k = w->k;
	const struct problem_op *op = &k->problem->op[o];
	if (k->closed[o] || (op->once && k->ran[o]))
		return false;
	k->ran[o] = 1;
	for (uint32_t i = 0; i < op->inputs; i++)
		if (k->slot[problem_inputs(k->problem, o)[i]] && k->stored[problem_inputs(k->problem, o)[i]])
			wait_for(w, TRANSFER_FETCH_WAIT, s, problem_inputs(k->problem, o)[i]);
	w->now += op->cost_ns;
	for (uint32_t i = 0; i < op->outputs; i++) {
		uint32_t v = problem_outputs(k->problem, o)[i];
		if (k->slot[v])
			return false;
		if (k->started[v] == s)
			begin_copy(w, TRANSFER_STORE, s + 1, v);
	}
	for (uint32_t i = 0; i < op->afters; i++)
		k->closed[k->problem->after[op->first_after + i]] = 1;
	return true;
}

static bool walk_copy(struct walk *w, uint32_t s, uint32_t o)
{
	struct streams *k = w->k;
	uint32_t v = copied_value(k, o);
	if (is_fetch(k, o))
		return k->stored[v] && !k->slot[v] && begin_copy(w, TRANSFER_FETCH, s, v);
	/* Without a free slot when the instance was made, the store starts where it has to end. */
	if (!k->slot[v] && !begin_copy(w, TRANSFER_STORE, s, v))
		return false;
	wait_for(w, TRANSFER_STORE_WAIT, s, v);
	k->stored[v] = 1;
	return true;
}

bool streams_measure(struct streams *k, const uint32_t *step, uint32_t steps, struct transfer *transfer,
		     uint32_t *transfers)
{
	struct walk w = { .k = k, .transfer = transfer };
	if (!meter_measure(&k->meter, step, steps) || !find_starts(k, step, steps))
		return false;
	memset(k->slot, 0, k->problem->values);
	memset(k->stored, 0, k->problem->values);
	memset(k->ran, 0, k->problem->ops);
	memset(k->closed, 0, k->problem->ops);
	memset(k->waited_ns, 0, k->problem->values * sizeof *k->waited_ns);
	for (uint32_t s = 0; s < steps; s++)
		if (!(is_run(k, step[s]) ? walk_run(&w, s, step[s]) : walk_copy(&w, s, step[s])))
			return false;
	k->time_ns = w.now;
	k->peak_bytes = k->meter.peak_bytes;
	if (transfers)
		*transfers = w.transfers;
	return !w.slots;
}
