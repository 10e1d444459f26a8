/* chain.c - stages of a training step, and which of their ops make something. */
#include "planner/chain_parts.h"

#include <string.h>

#define FEWEST_STAGES 3u

/* Place in the order of the last forward reader of each value of a forward op; 0: none. */
static void find_last_forward_reads(struct chain *c, const uint32_t *order)
{
	const struct problem *p = c->dependence->problem;
	memset(c->last, 0, p->values * sizeof *c->last);
	for (uint32_t k = 0; k < c->dependence->needed_ops; k++)
		for (uint32_t i = 0; p->op[order[k]].forward && i < p->op[order[k]].inputs; i++)
			c->last[problem_inputs(p, order[k])[i]] = k;
}

/*
 * Splits the forward ops where a single value is read later. ends[v]: values whose last forward reader is at a place
 * are counted out there.
 */
static void split_forward(struct chain *c, const uint32_t *order)
{
	const struct dependence *d = c->dependence;
	const struct problem *p = d->problem;
	uint32_t live = 0, count = 0, boundary = VALUE_NONE;
	uint64_t live_sum = 0; /* of the numbers of live values: says which it is when there is one */
	struct chain_stage *stage = &c->stage[1];
	*stage = (struct chain_stage){ .boundary = VALUE_NONE };
	c->stages = 1;
	for (uint32_t k = 0; k < d->needed_ops; k++) {
		uint32_t o = order[k];
		if (!p->op[o].forward)
			continue;
		/* What was the single value before this op was a boundary, unless it was that of the stage before. */
		if (live == 1 && live_sum != boundary) {
			boundary = (uint32_t)live_sum;
			stage->boundary = boundary;
			stage->boundary_bytes = p->value[boundary].bytes;
			*++stage = (struct chain_stage){ .first_forward = count, .boundary = VALUE_NONE };
			c->stages++;
		}
		c->forward[count++] = o;
		c->stage_of[o] = c->stages;
		stage->forwards++;
		for (uint32_t i = 0; i < p->op[o].inputs; i++) {
			uint32_t v = problem_inputs(p, o)[i];
			if (chain_is_pinned(c, v) || c->last[v] != k)
				continue;
			live--;
			live_sum -= v;
		}
		for (uint32_t i = 0; !p->op[o].once && i < p->op[o].outputs; i++) {
			uint32_t v = problem_outputs(p, o)[i];
			if (c->last[v] > k) {
				live++;
				live_sum += v;
			}
		}
	}
}

/* The stage in which a backward op runs: as early as what it reads and waits for allows. */
static uint32_t backward_stage(const struct chain *c, uint32_t o)
{
	const struct problem *p = c->dependence->problem;
	const struct problem_op *op = &p->op[o];
	uint32_t lowest = c->stages;
	for (uint32_t i = 0; i < op->inputs; i++) {
		uint32_t v = problem_inputs(p, o)[i], producer = p->value[v].producer;
		uint32_t stage = chain_is_pinned(c, v) ? c->stages : c->stage_of[producer];
		/* A boundary is there for the next stage as well. */
		stage += p->op[producer].forward && v == c->stage[stage].boundary;
		lowest = stage < lowest ? stage : lowest;
	}
	for (uint32_t i = 0; i < op->afters; i++) {
		uint32_t before = p->after[op->first_after + i];
		if (c->dependence->needed[before] && c->stage_of[before] < lowest)
			lowest = c->stage_of[before];
	}
	return lowest;
}

/* Groups the backward ops by stage, in order. False when one of them reads a value far from its stage. */
static bool split_backward(struct chain *c, const uint32_t *order)
{
	const struct dependence *d = c->dependence;
	const struct problem *p = d->problem;
	memset(c->lowest, 0xff, p->values * sizeof *c->lowest);
	for (uint32_t k = 0; k < d->needed_ops; k++) {
		uint32_t o = order[k];
		if (p->op[o].forward)
			continue;
		uint32_t stage = c->stage_of[o] = backward_stage(c, o);
		c->stage[stage].backwards++;
		for (uint32_t i = 0; i < p->op[o].inputs; i++) {
			uint32_t v = problem_inputs(p, o)[i], made = c->stage_of[p->value[v].producer];
			c->lowest[v] = stage < c->lowest[v] ? stage : c->lowest[v];
			bool near = made == stage || (made + 1 == stage && v == c->stage[made].boundary);
			if (!chain_is_gradient(c, v) && !chain_is_pinned(c, v) && !near)
				return false;
		}
	}
	uint32_t first = 0;
	for (uint32_t s = 1; s <= c->stages; s++) {
		c->stage[s].first_backward = first;
		first += c->stage[s].backwards;
		c->stage[s].backwards = 0;
	}
	for (uint32_t k = 0; k < d->needed_ops; k++) {
		struct chain_stage *stage = &c->stage[c->stage_of[order[k]]];
		if (!p->op[order[k]].forward)
			c->backward[stage->first_backward + stage->backwards++] = order[k];
	}
	return true;
}

/* ---- Ops that make something ---- */

/* Ops of the span that make the values in wanted[] which are not there; then all they make is there. */
static uint32_t make_wanted(struct chain *c, struct span span, uint32_t *op)
{
	const struct problem *p = c->dependence->problem;
	uint32_t count = 0;
	for (uint32_t k = chain_span_end(c, span); k-- > chain_span_begin(c, span);) {
		uint32_t o = c->forward[k];
		bool wanted = false;
		for (uint32_t i = 0; i < p->op[o].outputs; i++) {
			uint32_t v = problem_outputs(p, o)[i];
			wanted |= c->wanted[v] && !c->there[v];
			c->wanted[v] = 0;
		}
		if (!wanted || p->op[o].once)
			continue;
		op[count++] = o;
		for (uint32_t i = 0; i < p->op[o].outputs; i++)
			c->there[problem_outputs(p, o)[i]] = 1;
		for (uint32_t i = 0; i < p->op[o].inputs; i++)
			if (chain_made_in(c, problem_inputs(p, o)[i], span))
				c->wanted[problem_inputs(p, o)[i]] = 1;
	}
	for (uint32_t i = 0; i < count / 2; i++) {
		uint32_t other = op[i];
		op[i] = op[count - 1 - i];
		op[count - 1 - i] = other;
	}
	return count;
}

static void forget_what_is_there(struct chain *c, struct span span)
{
	const struct problem *p = c->dependence->problem;
	for (uint32_t k = chain_span_begin(c, span); k < chain_span_end(c, span); k++)
		for (uint32_t i = 0; i < p->op[c->forward[k]].outputs; i++)
			c->there[problem_outputs(p, c->forward[k])[i]] = 0;
}

uint32_t chain_forward(struct chain *c, uint32_t first, uint32_t stages, const struct chain_variant *variant,
		       uint32_t *op)
{
	struct span span = { first, first + stages - 1 };
	c->wanted[c->stage[span.last].boundary] = 1;
	for (uint32_t i = 0; variant && i < variant->kept; i++)
		c->wanted[c->kept[variant->first_kept + i]] = 1;
	uint32_t count = make_wanted(c, span, op);
	forget_what_is_there(c, span);
	return count;
}

uint32_t chain_backward(struct chain *c, uint32_t first, uint32_t stages, const struct chain_variant *variant,
			bool has_boundary, uint32_t *op)
{
	const struct problem *p = c->dependence->problem;
	struct span span = { first, first + stages - 1 };
	uint32_t count = 0;
	if (has_boundary)
		c->there[c->stage[span.last].boundary] = 1;
	for (uint32_t i = 0; variant && i < variant->kept; i++)
		c->there[c->kept[variant->first_kept + i]] = 1;
	for (uint32_t s = span.last; s >= span.first; s--) {
		const struct chain_stage *stage = &c->stage[s];
		const uint32_t *backward = c->backward + stage->first_backward;
		for (uint32_t k = 0; k < stage->backwards; k++)
			for (uint32_t i = 0; i < p->op[backward[k]].inputs; i++)
				if (chain_made_in(c, problem_inputs(p, backward[k])[i], span))
					c->wanted[problem_inputs(p, backward[k])[i]] = 1;
		count += make_wanted(c, span, op + count);
		memcpy(op + count, backward, stage->backwards * sizeof *op);
		count += stage->backwards;
	}
	forget_what_is_there(c, span);
	return count;
}

/* ---- The chain ---- */

static bool reads_boundary_before(struct chain *c, uint32_t s)
{
	const struct problem *p = c->dependence->problem;
	uint32_t ops = chain_backward(c, s, 1, NULL, true, c->list), before = chain_boundary_before(c, s);
	for (uint32_t k = 0; k < ops; k++)
		for (uint32_t i = 0; i < p->op[c->list[k]].inputs; i++)
			if (problem_inputs(p, c->list[k])[i] == before)
				return true;
	return false;
}

/*
 * A boundary that no backward op after it needs, with one that is no larger after it, is no place to stop: its stage
 * is joined with the next.
 */
static void join_stages(struct chain *c)
{
	uint32_t stages = 1;
	for (uint32_t s = 2; s <= c->stages; s++) {
		struct chain_stage *to = &c->stage[stages], *from = &c->stage[s];
		bool join = s < c->stages && from->boundary_bytes <= c->stage[s - 1].boundary_bytes &&
			    !reads_boundary_before(c, s);
		if (join) {
			to->forwards += from->forwards;
			to->boundary = from->boundary;
			to->boundary_bytes = from->boundary_bytes;
		} else {
			c->stage[++stages] = *from;
		}
	}
	c->stages = stages;
	for (uint32_t s = 1; s <= stages; s++) {
		c->stage[s].backwards = 0;
		for (uint32_t k = 0; k < c->stage[s].forwards; k++)
			c->stage_of[c->forward[c->stage[s].first_forward + k]] = s;
	}
}

static enum tarn_status chain_init(struct chain *c, const struct dependence *d, struct host_arena *arena)
{
	size_t ops = (size_t)d->problem->ops + 2, values = (size_t)d->problem->values + 1;
	*c = (struct chain){
		.dependence = d,
		.stage = HOST_ARRAY(arena, ops, struct chain_stage),
		.forward = HOST_ARRAY(arena, ops, uint32_t),
		.backward = HOST_ARRAY(arena, ops, uint32_t),
		.place = HOST_ARRAY(arena, ops, uint32_t),
		.stage_of = HOST_ARRAY(arena, ops, uint32_t),
		.passing = HOST_ARRAY(arena, ops, uint64_t),
		.lowest = HOST_ARRAY(arena, values, uint32_t),
		.wanted = HOST_ARRAY(arena, values, uint8_t),
		.there = HOST_ARRAY(arena, values, uint8_t),
		.arena = arena,
		.last = HOST_ARRAY(arena, values, uint32_t),
		.list = HOST_ARRAY(arena, 2 * ops, uint32_t),
	};
	return c->stage && c->forward && c->backward && c->place && c->there && c->stage_of && c->passing &&
			       c->lowest && c->wanted && c->last && c->list
		       ? TARN_OK
		       : TARN_ENOMEM;
}

enum tarn_status chain_find(const struct dependence *d, const uint32_t *order, struct host_arena *arena,
			    struct chain *c)
{
	enum tarn_status st = chain_init(c, d, arena);
	if (st)
		return st;
	find_last_forward_reads(c, order);
	split_forward(c, order);
	if (c->stages < FEWEST_STAGES || !split_backward(c, order)) {
		c->stages = 0;
		return TARN_OK;
	}
	join_stages(c);
	if (c->stages < FEWEST_STAGES || !split_backward(c, order)) {
		c->stages = 0;
		return TARN_OK;
	}
	chain_sum_gradients(c);
	chain_sum_pinned(c);
	chain_find_likeness(c);
	for (uint32_t s = 1; s < c->stages; s++) {
		chain_measure_stage(c, s);
		chain_find_variants(c, s);
	}
	chain_measure_last(c);
	return c->failed ? TARN_ENOMEM : TARN_OK;
}
