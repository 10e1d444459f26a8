/* chain_measure.c - bytes and time of the stages of a chain, from their own ops. */
#include "planner/chain_parts.h"

#include <string.h>

uint64_t chain_forward_cost(const struct chain *c, const uint32_t *op, uint32_t ops)
{
	uint64_t cost = 0;
	for (uint32_t k = 0; k < ops; k++)
		cost += chain_is_again(c->dependence, op[k]) ? c->dependence->problem->op[op[k]].cost_ns : 0;
	return cost;
}

/* ---- Bytes of a run of ops ---- */

struct run {
	struct chain *c;
	const uint32_t *op;
	uint32_t ops;
	uint32_t outside;  /* value that does not count, or VALUE_NONE */
	uint64_t at_start; /* live already and not read by the ops */
};

static bool counts(const struct run *r, uint32_t v)
{
	return v != r->outside && !chain_is_pinned(r->c, v);
}

/* Input whose memory output 0 takes over, as schedule.h says. */
static uint64_t bytes_taken_over(const struct run *r, uint32_t k)
{
	const struct problem *p = r->c->dependence->problem;
	const struct problem_op *op = &p->op[r->op[k]];
	for (uint32_t j = 0; op->in_place && op->outputs && j < op->inputs && j < 32; j++) {
		uint32_t v = p->operand[op->first_input + j];
		if (op->in_place >> j & 1 && counts(r, v) && r->c->last[v] == k + 1 &&
		    p->value[v].bytes == p->value[p->operand[op->first_output]].bytes)
			return p->value[v].bytes;
	}
	return 0;
}

/* last[] of all that the ops touch: one past the last op that reads it, and `live_on` for values marked in wanted[]. */
static uint64_t find_last(const struct run *r)
{
	const struct problem *p = r->c->dependence->problem;
	uint32_t *last = r->c->last;
	for (uint32_t k = 0; k < r->ops; k++) {
		for (uint32_t i = 0; i < p->op[r->op[k]].inputs; i++)
			last[problem_inputs(p, r->op[k])[i]] = 0;
		for (uint32_t i = 0; i < p->op[r->op[k]].outputs; i++)
			last[problem_outputs(p, r->op[k])[i]] = 0;
	}
	uint64_t start = r->at_start;
	for (uint32_t k = 0; k < r->ops; k++) {
		for (uint32_t i = 0; i < p->op[r->op[k]].inputs; i++) {
			uint32_t v = problem_inputs(p, r->op[k])[i];
			start += counts(r, v) && !last[v] ? p->value[v].bytes : 0;
			last[v] = k + 1;
		}
		for (uint32_t i = 0; i < p->op[r->op[k]].outputs; i++)
			last[problem_outputs(p, r->op[k])[i]] = k + 1;
	}
	return start;
}

/* Peak of the ops; values marked 1 in wanted[] live on, and the marks are cleared by the caller. */
static uint64_t peak_of(const struct run *r)
{
	const struct problem *p = r->c->dependence->problem;
	uint32_t *last = r->c->last;
	uint64_t live = find_last(r), peak = live;
	for (uint32_t k = 0; k < r->ops; k++) {
		const struct problem_op *op = &p->op[r->op[k]];
		for (uint32_t i = 0; i < op->inputs; i++)
			if (r->c->wanted[problem_inputs(p, r->op[k])[i]])
				last[problem_inputs(p, r->op[k])[i]] = UINT32_MAX;
		for (uint32_t i = 0; i < op->outputs; i++)
			if (r->c->wanted[problem_outputs(p, r->op[k])[i]])
				last[problem_outputs(p, r->op[k])[i]] = UINT32_MAX;
	}
	for (uint32_t k = 0; k < r->ops; k++) {
		const struct problem_op *op = &p->op[r->op[k]];
		uint64_t taken = bytes_taken_over(r, k);
		for (uint32_t i = 0; i < op->outputs; i++)
			live += counts(r, problem_outputs(p, r->op[k])[i])
					? p->value[problem_outputs(p, r->op[k])[i]].bytes
					: 0;
		live -= taken;
		peak = live + op->workspace > peak ? live + op->workspace : peak;
		live += taken;
		for (uint32_t i = 0; i < op->inputs; i++) {
			uint32_t v = problem_inputs(p, r->op[k])[i];
			live -= counts(r, v) && last[v] == k + 1 ? p->value[v].bytes : 0;
		}
		for (uint32_t i = 0; i < op->outputs; i++) {
			uint32_t v = problem_outputs(p, r->op[k])[i];
			live -= counts(r, v) && last[v] == k + 1 ? p->value[v].bytes : 0;
		}
	}
	return peak;
}

/* ---- Measures ---- */

/* ---- Measures ---- */

/* All forward ops of the span, as in the first forward pass; the marked values live on. */
static uint64_t peak_of_first_run(struct chain *c, struct span span, uint32_t outside)
{
	uint32_t begin = chain_span_begin(c, span);
	struct run r = { c, c->forward + begin, chain_span_end(c, span) - begin, outside, 0 };
	return peak_of(&r);
}

/* Marks what lower stages read of the backward values that the listed ops touch, or takes the marks away. */
static void mark_gradients(struct chain *c, uint32_t s, const uint32_t *op, uint32_t ops, uint8_t as)
{
	const struct problem *p = c->dependence->problem;
	for (uint32_t k = 0; k < ops; k++) {
		const struct problem_op *o = &p->op[op[k]];
		for (uint32_t i = 0; i < o->inputs + o->outputs; i++) {
			uint32_t v = i < o->inputs ? p->operand[o->first_input + i]
						   : p->operand[o->first_output + i - o->inputs];
			if (chain_is_gradient(c, v) && c->lowest[v] < s)
				c->wanted[v] = as;
		}
	}
}

/* Peak of ops that end with the backward ops of stage s, beside gradients that pass by. */
static uint64_t backward_peak(struct chain *c, uint32_t s, uint64_t passing, const uint32_t *op, uint32_t ops)
{
	struct run r = { c, op, ops, chain_boundary_before(c, s), passing };
	mark_gradients(c, s, op, ops, 1);
	uint64_t peak = peak_of(&r);
	mark_gradients(c, s, op, ops, 0);
	return peak;
}

/* Backward values over stage s that its ops do not read, and all that are live when its backward ops begin. */
void chain_sum_gradients(struct chain *c)
{
	const struct dependence *d = c->dependence;
	const struct problem *p = d->problem;
	for (uint32_t v = 0; v < p->values; v++) {
		uint32_t producer = p->value[v].producer;
		if (!d->needed[producer] || !chain_is_gradient(c, v) || c->lowest[v] == UINT32_MAX)
			continue;
		/* Differences from one stage to the next first. */
		if (c->lowest[v] < c->stage_of[producer]) {
			c->passing[c->lowest[v]] += p->value[v].bytes;
			c->passing[c->stage_of[producer]] -= p->value[v].bytes;
		}
	}
	for (uint32_t s = 1; s <= c->stages; s++)
		c->stage[s].gradient_bytes = c->passing[s] += c->passing[s - 1];
	/* What a stage reads does not only pass by. */
	for (uint32_t s = 1; s <= c->stages; s++) {
		const struct chain_stage *stage = &c->stage[s];
		for (uint32_t k = 0; k < stage->backwards; k++) {
			uint32_t o = c->backward[stage->first_backward + k];
			for (uint32_t i = 0; i < p->op[o].inputs; i++) {
				uint32_t v = problem_inputs(p, o)[i], producer = p->value[v].producer;
				if (!chain_is_gradient(c, v) || c->stage_of[producer] <= s || c->wanted[v])
					continue;
				c->wanted[v] = 1;
				c->passing[s] -= p->value[v].bytes;
			}
		}
		for (uint32_t k = 0; k < stage->backwards; k++) {
			uint32_t o = c->backward[stage->first_backward + k];
			for (uint32_t i = 0; i < p->op[o].inputs; i++)
				c->wanted[problem_inputs(p, o)[i]] = 0;
		}
	}
}

void chain_measure_stage(struct chain *c, uint32_t s)
{
	const struct problem *p = c->dependence->problem;
	struct chain_stage *stage = &c->stage[s];
	struct span span = { s, s };
	c->wanted[stage->boundary] = 1;
	stage->beside_bytes = peak_of_first_run(c, span, chain_boundary_before(c, s));
	stage->forward_bytes = peak_of_first_run(c, span, VALUE_NONE);
	c->wanted[stage->boundary] = 0;
	stage->forward_ns = chain_forward_cost(c, c->list, chain_forward(c, s, 1, NULL, c->list));
	for (uint32_t has_boundary = 0; has_boundary < 2; has_boundary++) {
		uint32_t ops = chain_backward(c, s, 1, NULL, has_boundary, c->list);
		stage->repeat_ns[has_boundary] = chain_forward_cost(c, c->list, ops);
		stage->backward_bytes[has_boundary] = backward_peak(c, s, c->passing[s], c->list, ops);
	}
	for (uint32_t k = 0; k < stage->backwards; k++) {
		uint32_t o = c->backward[stage->first_backward + k];
		for (uint32_t i = 0; i < p->op[o].inputs; i++)
			stage->reads_boundary |= problem_inputs(p, o)[i] == stage->boundary;
	}
}

void chain_measure_variant(struct chain *c, uint32_t s, struct chain_variant *variant)
{
	const struct problem *p = c->dependence->problem;
	struct span span = { s, s + variant->stages - 1 };
	const uint32_t *kept = c->kept + variant->first_kept;
	variant->kept_bytes = 0;
	for (uint32_t i = 0; i < variant->kept; i++) {
		c->wanted[kept[i]] = 1;
		variant->kept_bytes += p->value[kept[i]].bytes;
	}
	variant->forward_bytes = peak_of_first_run(c, span, chain_boundary_before(c, s));
	for (uint32_t i = 0; i < variant->kept; i++)
		c->wanted[kept[i]] = 0;
	variant->forward_ns = chain_forward_cost(c, c->list, chain_forward(c, s, variant->stages, variant, c->list));
	uint32_t ops = chain_backward(c, s, variant->stages, variant, false, c->list);
	variant->repeat_ns = chain_forward_cost(c, c->list, ops);
	/* What passes by the whole span passes by each stage. */
	uint64_t passing = c->passing[s];
	for (uint32_t k = s; k <= span.last; k++)
		passing = c->passing[k] < passing ? c->passing[k] : passing;
	variant->backward_bytes = backward_peak(c, s, passing, c->list, ops);
}

void chain_measure_last(struct chain *c)
{
	const struct chain_stage *stage = &c->stage[c->stages];
	memcpy(c->list, c->forward + stage->first_forward, stage->forwards * sizeof *c->list);
	memcpy(c->list + stage->forwards, c->backward + stage->first_backward, stage->backwards * sizeof *c->list);
	c->last_bytes = backward_peak(c, c->stages, c->passing[c->stages], c->list, stage->forwards + stage->backwards);
}

void chain_sum_pinned(struct chain *c)
{
	const struct problem *p = c->dependence->problem;
	for (uint32_t v = 0; v < p->values; v++)
		if (c->dependence->needed[p->value[v].producer] && chain_is_pinned(c, v))
			c->pinned_bytes += p->value[v].bytes;
}
