/* chain.c - stages of a training step, and what each needs. */
#include "planner/chain.h"

#include <string.h>

/* Values of a stage among which variants choose. */
#define MOST_CHOICES 64u
#define FEWEST_STAGES 3u
/* Stages that a variant spans, and variants of so many. */
#define MOST_STAGES 4u
#define MOST_VARIANTS 16u
/* Distance at which a stage that looks the same is looked for. */
#define MOST_PERIOD 64u

static bool is_again(const struct dependence *d, uint32_t o)
{
	const struct problem_op *op = &d->problem->op[o];
	return d->needed[o] && op->forward && !op->once;
}

static bool is_pinned(const struct chain *c, uint32_t v)
{
	const struct problem_op *op = &c->dependence->problem->op[c->dependence->problem->value[v].producer];
	return op->forward && op->once;
}

/* What runs once the loss is reached is not made again; that goes for the forward ops of the last stage as well. */
static bool is_gradient(const struct chain *c, uint32_t v)
{
	uint32_t producer = c->dependence->problem->value[v].producer;
	const struct problem_op *op = &c->dependence->problem->op[producer];
	return !op->forward || (!op->once && c->stage_of[producer] == c->stages);
}

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
			if (is_pinned(c, v) || c->last[v] != k)
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
		uint32_t stage = is_pinned(c, v) ? c->stages : c->stage_of[producer];
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
			if (!is_gradient(c, v) && !is_pinned(c, v) && !near)
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

/* Stages in a row. */
struct span {
	uint32_t first, last;
};

static bool made_in(const struct chain *c, uint32_t v, struct span span)
{
	uint32_t producer = c->dependence->problem->value[v].producer;
	return is_again(c->dependence, producer) && c->stage_of[producer] >= span.first &&
	       c->stage_of[producer] <= span.last;
}

static uint32_t span_begin(const struct chain *c, struct span span)
{
	return c->stage[span.first].first_forward;
}

static uint32_t span_end(const struct chain *c, struct span span)
{
	return c->stage[span.last].first_forward + c->stage[span.last].forwards;
}

/* Ops of the span that make the values in wanted[] which are not there; then all they make is there. */
static uint32_t make_wanted(struct chain *c, struct span span, uint32_t *op)
{
	const struct problem *p = c->dependence->problem;
	uint32_t count = 0;
	for (uint32_t k = span_end(c, span); k-- > span_begin(c, span);) {
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
			if (made_in(c, problem_inputs(p, o)[i], span))
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
	for (uint32_t k = span_begin(c, span); k < span_end(c, span); k++)
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
				if (made_in(c, problem_inputs(p, backward[k])[i], span))
					c->wanted[problem_inputs(p, backward[k])[i]] = 1;
		count += make_wanted(c, span, op + count);
		memcpy(op + count, backward, stage->backwards * sizeof *op);
		count += stage->backwards;
	}
	forget_what_is_there(c, span);
	return count;
}

static uint64_t forward_cost(const struct chain *c, const uint32_t *op, uint32_t ops)
{
	uint64_t cost = 0;
	for (uint32_t k = 0; k < ops; k++)
		cost += is_again(c->dependence, op[k]) ? c->dependence->problem->op[op[k]].cost_ns : 0;
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
	return v != r->outside && !is_pinned(r->c, v);
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

static uint32_t boundary_before(const struct chain *c, uint32_t s)
{
	return s > 1 ? c->stage[s - 1].boundary : VALUE_NONE;
}

/* All forward ops of the span, as in the first forward pass; the marked values live on. */
static uint64_t peak_of_first_run(struct chain *c, struct span span, uint32_t outside)
{
	uint32_t begin = span_begin(c, span);
	struct run r = { c, c->forward + begin, span_end(c, span) - begin, outside, 0 };
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
			if (is_gradient(c, v) && c->lowest[v] < s)
				c->wanted[v] = as;
		}
	}
}

/* Peak of ops that end with the backward ops of stage s, beside gradients that pass by. */
static uint64_t backward_peak(struct chain *c, uint32_t s, uint64_t passing, const uint32_t *op, uint32_t ops)
{
	struct run r = { c, op, ops, boundary_before(c, s), passing };
	mark_gradients(c, s, op, ops, 1);
	uint64_t peak = peak_of(&r);
	mark_gradients(c, s, op, ops, 0);
	return peak;
}

/* Backward values over stage s that its ops do not read, and all that are live when its backward ops begin. */
static void sum_gradients(struct chain *c)
{
	const struct dependence *d = c->dependence;
	const struct problem *p = d->problem;
	for (uint32_t v = 0; v < p->values; v++) {
		uint32_t producer = p->value[v].producer;
		if (!d->needed[producer] || !is_gradient(c, v) || c->lowest[v] == UINT32_MAX)
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
				if (!is_gradient(c, v) || c->stage_of[producer] <= s || c->wanted[v])
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

static void measure_stage(struct chain *c, uint32_t s)
{
	const struct problem *p = c->dependence->problem;
	struct chain_stage *stage = &c->stage[s];
	struct span span = { s, s };
	c->wanted[stage->boundary] = 1;
	stage->beside_bytes = peak_of_first_run(c, span, boundary_before(c, s));
	stage->forward_bytes = peak_of_first_run(c, span, VALUE_NONE);
	c->wanted[stage->boundary] = 0;
	stage->forward_ns = forward_cost(c, c->list, chain_forward(c, s, 1, NULL, c->list));
	for (uint32_t has_boundary = 0; has_boundary < 2; has_boundary++) {
		uint32_t ops = chain_backward(c, s, 1, NULL, has_boundary, c->list);
		stage->repeat_ns[has_boundary] = forward_cost(c, c->list, ops);
		stage->backward_bytes[has_boundary] = backward_peak(c, s, c->passing[s], c->list, ops);
	}
	for (uint32_t k = 0; k < stage->backwards; k++) {
		uint32_t o = c->backward[stage->first_backward + k];
		for (uint32_t i = 0; i < p->op[o].inputs; i++)
			stage->reads_boundary |= problem_inputs(p, o)[i] == stage->boundary;
	}
}

static void measure_variant(struct chain *c, uint32_t s, struct chain_variant *variant)
{
	const struct problem *p = c->dependence->problem;
	struct span span = { s, s + variant->stages - 1 };
	const uint32_t *kept = c->kept + variant->first_kept;
	variant->kept_bytes = 0;
	for (uint32_t i = 0; i < variant->kept; i++) {
		c->wanted[kept[i]] = 1;
		variant->kept_bytes += p->value[kept[i]].bytes;
	}
	variant->forward_bytes = peak_of_first_run(c, span, boundary_before(c, s));
	for (uint32_t i = 0; i < variant->kept; i++)
		c->wanted[kept[i]] = 0;
	variant->forward_ns = forward_cost(c, c->list, chain_forward(c, s, variant->stages, variant, c->list));
	uint32_t ops = chain_backward(c, s, variant->stages, variant, false, c->list);
	variant->repeat_ns = forward_cost(c, c->list, ops);
	/* What passes by the whole span passes by each stage. */
	uint64_t passing = c->passing[s];
	for (uint32_t k = s; k <= span.last; k++)
		passing = c->passing[k] < passing ? c->passing[k] : passing;
	variant->backward_bytes = backward_peak(c, s, passing, c->list, ops);
}

/* ---- Variants ---- */

static void add_kept(struct chain *c, uint32_t v)
{
	uint32_t *larger =
		host_arena_grow(c->arena, c->kept, &c->kept_room, (size_t)c->kept_values + 1, sizeof *c->kept);
	c->failed |= !larger;
	if (c->failed)
		return;
	c->kept = larger;
	c->kept[c->kept_values++] = v;
}

/* The last boundary, which is always kept, and the values that the backward ops read. Returns how many. */
static uint32_t list_choices(struct chain *c, struct span span)
{
	const struct problem *p = c->dependence->problem;
	uint32_t first = c->kept_values, boundary = c->stage[span.last].boundary;
	add_kept(c, boundary);
	c->wanted[boundary] = 1;
	for (uint32_t s = span.last; s >= span.first; s--)
		for (uint32_t k = 0; k < c->stage[s].backwards; k++) {
			uint32_t o = c->backward[c->stage[s].first_backward + k];
			for (uint32_t i = 0; i < p->op[o].inputs; i++) {
				uint32_t v = problem_inputs(p, o)[i];
				if (!made_in(c, v, span) || c->wanted[v])
					continue;
				c->wanted[v] = 1;
				add_kept(c, v);
			}
		}
	for (uint32_t i = first; i < c->kept_values; i++)
		c->wanted[c->kept[i]] = 0;
	c->wanted[boundary] = 0;
	return c->kept_values - first;
}

/* Moves the value whose loss costs least time for its bytes to the end of the list. */
static void move_worst_to_end(struct chain *c, uint32_t s, uint32_t stages, uint32_t first, uint32_t kept)
{
	const struct problem *p = c->dependence->problem;
	struct chain_variant without = { .stages = stages, .first_kept = first, .kept = kept - 1 };
	uint32_t *value = c->kept + first, worst = kept - 1;
	double least = 1e300;
	for (uint32_t i = 1; i < kept; i++) {
		uint32_t v = value[i];
		value[i] = value[kept - 1];
		value[kept - 1] = v;
		double cost = (double)p->op[p->value[v].producer].cost_ns;
		if (kept <= MOST_CHOICES)
			cost = (double)forward_cost(c, c->list, chain_backward(c, s, stages, &without, false, c->list));
		value[kept - 1] = value[i];
		value[i] = v;
		if ((cost + 1) / ((double)p->value[v].bytes + 1) < least) {
			least = (cost + 1) / ((double)p->value[v].bytes + 1);
			worst = i;
		}
	}
	uint32_t v = value[worst];
	value[worst] = value[kept - 1];
	value[kept - 1] = v;
}

static void add_variant(struct chain *c, uint32_t s, const struct chain_variant *variant)
{
	struct chain_variant *larger =
		host_arena_grow(c->arena, c->variant, &c->variant_room, (size_t)c->variants + 1, sizeof *c->variant);
	c->failed |= !larger;
	if (c->failed)
		return;
	c->variant = larger;
	c->variant[c->variants++] = *variant;
	c->stage[s].variants++;
}

/* From keeping everything to keeping little, by what is cheapest to make again. */
static void seek_variants(struct chain *c, uint32_t s, uint32_t stages)
{
	struct span span = { s, s + stages - 1 };
	uint32_t first = c->kept_values, choices = list_choices(c, span), last = UINT32_MAX, begin = c->variants;
	for (uint32_t kept = choices; kept > 1 && !c->failed; kept--) {
		uint32_t dropped = choices - kept, step = dropped * MOST_VARIANTS / choices;
		if (step != last)
			add_variant(c, s,
				    &(struct chain_variant){ .stages = stages, .first_kept = first, .kept = kept });
		last = step;
		move_worst_to_end(c, s, stages, first, kept);
	}
	/* The lists are prefixes of one list, whose order is known only now. */
	for (uint32_t i = begin; i < c->variants && !c->failed; i++)
		measure_variant(c, s, &c->variant[i]);
}

/* The variants of stages from `model` on, for stages from s on that look the same. */
static void copy_variants(struct chain *c, uint32_t s, uint32_t model, uint32_t stages)
{
	const struct problem *p = c->dependence->problem;
	const struct chain_stage *from = &c->stage[model];
	for (uint32_t i = 0; i < from->variants && !c->failed; i++) {
		struct chain_variant variant = c->variant[from->first_variant + i];
		if (variant.stages != stages)
			continue;
		uint32_t first = c->kept_values;
		for (uint32_t k = 0; k < variant.kept; k++) {
			const struct problem_value *value = &p->value[c->kept[variant.first_kept + k]];
			const struct chain_stage *to = &c->stage[c->stage_of[value->producer] - model + s];
			uint32_t op = c->forward[to->first_forward + c->place[value->producer]];
			add_kept(c, problem_outputs(p, op)[value->output]);
		}
		variant.first_kept = first;
		add_variant(c, s, &variant);
	}
}

/* ---- Likeness ---- */

static uint64_t mix(uint64_t hash, uint64_t number)
{
	hash = (hash ^ number) * 0x9E3779B97F4A7C15u;
	return hash ^ hash >> 29;
}

static uint64_t likeness_of_op(const struct chain *c, uint32_t s, uint32_t o, uint64_t hash)
{
	const struct problem *p = c->dependence->problem;
	const struct problem_op *op = &p->op[o];
	hash = mix(mix(mix(hash, op->cost_ns), op->workspace), (uint64_t)op->in_place << 2 | op->once);
	for (uint32_t i = 0; i < op->outputs; i++) {
		uint32_t v = problem_outputs(p, o)[i];
		/* How far down it is read counts as far as it is near. */
		uint32_t down = c->lowest[v] < s ? s - c->lowest[v] : 0;
		hash = mix(mix(hash, p->value[v].bytes), down < 8 ? down : 8);
	}
	for (uint32_t i = 0; i < op->inputs; i++) {
		uint32_t v = problem_inputs(p, o)[i], producer = p->value[v].producer;
		hash = mix(hash, is_pinned(c, v) ? UINT64_MAX
						 : (uint64_t)(c->stage_of[producer] - s) << 32 | c->place[producer]);
		hash = mix(hash, p->value[v].output);
	}
	return hash;
}

static void find_likeness(struct chain *c)
{
	for (uint32_t s = 1; s <= c->stages; s++) {
		struct chain_stage *stage = &c->stage[s];
		for (uint32_t k = 0; k < stage->forwards; k++)
			c->place[c->forward[stage->first_forward + k]] = k;
		for (uint32_t k = 0; k < stage->backwards; k++)
			c->place[c->backward[stage->first_backward + k]] = stage->forwards + k;
	}
	for (uint32_t s = 1; s < c->stages; s++) {
		struct chain_stage *stage = &c->stage[s];
		uint64_t hash = mix(mix(mix(stage->forwards, stage->backwards), stage->gradient_bytes), c->passing[s]);
		for (uint32_t k = 0; k < stage->forwards; k++)
			hash = likeness_of_op(c, s, c->forward[stage->first_forward + k], hash);
		for (uint32_t k = 0; k < stage->backwards; k++)
			hash = likeness_of_op(c, s, c->backward[stage->first_backward + k], hash);
		stage->likeness = hash;
	}
}

/* A stage before s, not far, from which the same stages follow; 0: none. */
static uint32_t find_model(const struct chain *c, uint32_t s, uint32_t stages)
{
	for (uint32_t model = s; --model && model + MOST_PERIOD > s;) {
		uint32_t same = 0;
		while (same < stages && c->stage[model + same].likeness == c->stage[s + same].likeness)
			same++;
		if (same == stages)
			return model;
	}
	return 0;
}

static void find_variants(struct chain *c, uint32_t s)
{
	c->stage[s].first_variant = c->variants;
	for (uint32_t stages = 1; stages <= MOST_STAGES && s + stages <= c->stages; stages *= 2) {
		uint32_t model = find_model(c, s, stages);
		if (model)
			copy_variants(c, s, model, stages);
		else
			seek_variants(c, s, stages);
	}
}

/* ---- The chain ---- */

static bool reads_boundary_before(struct chain *c, uint32_t s)
{
	const struct problem *p = c->dependence->problem;
	uint32_t ops = chain_backward(c, s, 1, NULL, true, c->list), before = boundary_before(c, s);
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

static void measure_last(struct chain *c)
{
	const struct chain_stage *stage = &c->stage[c->stages];
	memcpy(c->list, c->forward + stage->first_forward, stage->forwards * sizeof *c->list);
	memcpy(c->list + stage->forwards, c->backward + stage->first_backward, stage->backwards * sizeof *c->list);
	c->last_bytes = backward_peak(c, c->stages, c->passing[c->stages], c->list, stage->forwards + stage->backwards);
}

static void sum_pinned(struct chain *c)
{
	const struct problem *p = c->dependence->problem;
	for (uint32_t v = 0; v < p->values; v++)
		if (c->dependence->needed[p->value[v].producer] && is_pinned(c, v))
			c->pinned_bytes += p->value[v].bytes;
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
	sum_gradients(c);
	sum_pinned(c);
	find_likeness(c);
	for (uint32_t s = 1; s < c->stages; s++) {
		measure_stage(c, s);
		find_variants(c, s);
	}
	measure_last(c);
	return c->failed ? TARN_ENOMEM : TARN_OK;
}
