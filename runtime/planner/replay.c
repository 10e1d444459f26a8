/* replay.c - eviction with known future reads and lazy recomputation. */
#include "planner/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NEVER UINT32_MAX
/* On problems with so many ops, costs to restore a value are kept for so many steps and a part of the ops. */
#define LARGE 2500u
#define STALE_STEPS 128u
#define STALE_PART 128u
/* There, so many ops to run again are dear enough not to ask for more. */
#define LONG_WALK 64u
/* On others they are lower bounds, until one of the ops that they count runs; those are bits, which several ops share.
 */
#define WALK_WORDS 4u

struct replay {
	/* Fixed for the order. */
	const struct dependence *d;
	const struct problem *p;
	const uint32_t *order;
	uint32_t *position; /* [ops]: place in the order */
	uint32_t *read_at;  /* for each value, at first_reader[v]: positions of its readers, increasing */
	uint32_t max_steps;

	/* State of a run. */
	const struct replay_options *options;
	uint32_t *step, steps;
	uint32_t now;        /* position of the op that is being served */
	uint32_t *next_read; /* [values]: index into read_at of the next read */
	uint32_t *pending;   /* [values]: reads by runs that are already decided on */
	uint32_t *slot;      /* [values]: place in live[], or NEVER */
	uint32_t *live;      /* values that are live */
	uint32_t live_values;
	uint64_t live_bytes;
	uint8_t *given_up;     /* [values]: was given up before */
	uint8_t *ran, *closed; /* [ops] */
	uint32_t *deferred;    /* updates that wait */
	uint32_t deferred_ops;
	uint32_t *mark, stamp; /* [ops]: visited in the current walk */
	uint32_t *stack, *waiting;
	uint32_t *walk, walked;  /* ops of the last walk for a cost */
	double walk_cost;        /* what they cost, infinite when one may not run again */
	uint32_t *missing;       /* ops to run before the current one */
	double *bytes_weight;    /* [values]: bytes^b and noise */
	double *distance_weight; /* [ops + 1]: distance^c */
	double *known_cost;      /* [values]: cost to restore, as it was ... */
	uint32_t *known_at;      /* [values]: ... at this step plus one; 0: not known */
	uint64_t *hangs_on;      /* [values][WALK_WORDS]: bits of the ops that were to run again for known_cost */
};

static int compare_numbers(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

enum tarn_status replay_init(const struct dependence *d, const uint32_t *order, uint32_t max_steps,
			     struct host_arena *arena, struct replay **out)
{
	const struct problem *p = d->problem;
	struct replay *r = HOST_NEW(arena, struct replay);
	if (!r)
		return TARN_ENOMEM;
	*r = (struct replay){
		.d = d,
		.p = p,
		.order = order,
		.max_steps = max_steps,
		.position = HOST_ARRAY(arena, p->ops, uint32_t),
		.read_at = HOST_ARRAY(arena, p->operands, uint32_t),
		.next_read = HOST_ARRAY(arena, p->values, uint32_t),
		.pending = HOST_ARRAY(arena, p->values, uint32_t),
		.slot = HOST_ARRAY(arena, p->values, uint32_t),
		.live = HOST_ARRAY(arena, p->values, uint32_t),
		.given_up = HOST_ARRAY(arena, p->values, uint8_t),
		.ran = HOST_ARRAY(arena, p->ops, uint8_t),
		.closed = HOST_ARRAY(arena, p->ops, uint8_t),
		.deferred = HOST_ARRAY(arena, p->ops, uint32_t),
		.mark = HOST_ARRAY(arena, p->ops, uint32_t),
		.stack = HOST_ARRAY(arena, p->ops, uint32_t),
		.waiting = HOST_ARRAY(arena, p->ops, uint32_t),
		.walk = HOST_ARRAY(arena, p->ops, uint32_t),
		.missing = HOST_ARRAY(arena, p->ops, uint32_t),
		.bytes_weight = HOST_ARRAY(arena, p->values, double),
		.distance_weight = HOST_ARRAY(arena, (size_t)p->ops + 1, double),
		.known_cost = HOST_ARRAY(arena, p->values, double),
		.known_at = HOST_ARRAY(arena, p->values, uint32_t),
		.hangs_on = HOST_ARRAY(arena, (size_t)p->values * WALK_WORDS, uint64_t),
	};
	if (!r->position || !r->read_at || !r->next_read || !r->pending || !r->slot || !r->live || !r->given_up ||
	    !r->ran || !r->closed || !r->deferred || !r->mark || !r->stack || !r->waiting || !r->walk || !r->missing ||
	    !r->bytes_weight || !r->distance_weight || !r->known_cost || !r->known_at || !r->hangs_on)
		return TARN_ENOMEM;
	for (uint32_t k = 0; k < d->needed_ops; k++)
		r->position[order[k]] = k;
	for (uint32_t v = 0; v < p->values; v++) {
		uint32_t first = d->first_reader[v], last = d->first_reader[v + 1];
		for (uint32_t k = first; k < last; k++)
			r->read_at[k] = r->position[d->reader[k]];
		qsort(r->read_at + first, last - first, sizeof *r->read_at, compare_numbers);
	}
	*out = r;
	return TARN_OK;
}

/* SplitMix64's finaliser; 53 bits to [-1, 1). */
static double noise_of(uint64_t seed, uint32_t v)
{
	uint64_t z = seed * 0xD1B54A32D192ED03u + (v + 1) * 0x9E3779B97F4A7C15u;
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return (double)((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1.0;
}

static void weigh(struct replay *r)
{
	const struct replay_options *o = r->options;
	for (uint32_t v = 0; v < r->p->values; v++) {
		double bytes = (double)r->p->value[v].bytes;
		double weight = o->bytes_power == 1 ? bytes : pow(bytes, o->bytes_power);
		r->bytes_weight[v] = o->noise > 0 ? weight * exp(o->noise * noise_of(o->seed, v)) : weight;
	}
	for (uint32_t k = 0; k <= r->p->ops; k++)
		r->distance_weight[k] = o->distance_power == 1 ? k : pow(k, o->distance_power);
}

static void reset(struct replay *r, const struct replay_options *options, uint32_t *step)
{
	const struct problem *p = r->p;
	r->options = options;
	r->step = step;
	r->steps = r->now = r->live_values = r->deferred_ops = 0;
	r->live_bytes = 0;
	memcpy(r->next_read, r->d->first_reader, p->values * sizeof *r->next_read);
	memset(r->pending, 0, p->values * sizeof *r->pending);
	memset(r->slot, 0xff, p->values * sizeof *r->slot);
	memset(r->given_up, 0, p->values);
	memset(r->ran, 0, p->ops);
	memset(r->closed, 0, p->ops);
	memset(r->known_at, 0, p->values * sizeof *r->known_at);
	if (options->policy == REPLAY_BUDGET)
		weigh(r);
}

static bool has_reads_left(const struct replay *r, uint32_t v)
{
	return r->pending[v] || r->next_read[v] < r->d->first_reader[v + 1];
}

static bool is_live(const struct replay *r, uint32_t v)
{
	return r->slot[v] != NEVER;
}

static void add_live(struct replay *r, uint32_t v)
{
	r->slot[v] = r->live_values;
	r->live[r->live_values++] = v;
	r->live_bytes += r->p->value[v].bytes;
}

static void drop_live(struct replay *r, uint32_t v)
{
	uint32_t last = r->live[--r->live_values];
	r->live[r->slot[v]] = last;
	r->slot[last] = r->slot[v];
	r->slot[v] = NEVER;
	r->live_bytes -= r->p->value[v].bytes;
}

static uint32_t new_walk(struct replay *r)
{
	if (++r->stamp == 0) {
		memset(r->mark, 0, r->p->ops * sizeof *r->mark);
		r->stamp = 1;
	}
	return r->stamp;
}

static bool can_run_again(const struct replay *r, uint32_t o)
{
	return !r->closed[o] && !(r->p->op[o].once && r->ran[o]);
}

/*
 * Time to make the value again if it were gone now, with all that is missing for it. Infinite when that would run an op
 * which may not run any more; `limit`: a cost above it may be called infinite as well; after `most` ops the walk ends,
 * and what is known by then is returned.
 */
static double cost_of_walk(struct replay *r, uint32_t value, double limit, uint32_t most)
{
	const struct problem *p = r->p;
	uint32_t stamp = new_walk(r), top = 0;
	double cost = 0;
	r->walked = 0;
	r->stack[top++] = p->value[value].producer;
	r->mark[r->stack[0]] = stamp;
	while (top) {
		uint32_t o = r->stack[--top];
		r->walk[r->walked++] = o;
		cost += (double)p->op[o].cost_ns;
		if (!most--)
			return cost;
		bool never = !can_run_again(r, o);
		r->walk_cost = never ? INFINITY : cost;
		if (never || cost > limit)
			return INFINITY;
		const uint32_t *input = problem_inputs(p, o);
		for (uint32_t i = 0; i < p->op[o].inputs; i++) {
			uint32_t producer = p->value[input[i]].producer;
			if (is_live(r, input[i]) || r->mark[producer] == stamp)
				continue;
			r->mark[producer] = stamp;
			r->stack[top++] = producer;
		}
	}
	return cost;
}

static double cost_to_restore(struct replay *r, uint32_t value, double limit)
{
	return cost_of_walk(r, value, limit, UINT32_MAX);
}

static void push_op(struct replay *r, uint32_t o, uint32_t *top)
{
	if (r->mark[o] == r->stamp || !r->ran[o] || !can_run_again(r, o))
		return;
	r->mark[o] = r->stamp;
	r->stack[(*top)++] = o;
}

static void push_readers(struct replay *r, uint32_t v, uint32_t *top)
{
	for (uint32_t k = r->d->first_reader[v]; k < r->d->first_reader[v + 1]; k++)
		push_op(r, r->d->reader[k], top);
}

/* Does a value that is missing and will be read hang on one of the ops on the stack, through missing values only? */
static bool missing_value_hangs_on(struct replay *r, uint32_t top)
{
	const struct problem *p = r->p;
	while (top) {
		uint32_t o = r->stack[--top];
		for (uint32_t i = 0; i < p->op[o].outputs; i++) {
			uint32_t v = problem_outputs(p, o)[i];
			if (is_live(r, v))
				continue;
			if (has_reads_left(r, v))
				return true;
			push_readers(r, v, &top);
		}
	}
	return false;
}

/* Is a value without reads left of use to make missing ones again? */
static bool serves_missing_value(struct replay *r, uint32_t v)
{
	uint32_t top = 0;
	if (cost_to_restore(r, v, INFINITY) == INFINITY) {
		new_walk(r);
		push_readers(r, v, &top);
		return missing_value_hangs_on(r, top);
	}
	if (r->options->policy != REPLAY_BUDGET)
		return false;
	for (uint32_t k = r->d->first_reader[v]; k < r->d->first_reader[v + 1]; k++) {
		uint32_t o = r->d->reader[k];
		for (uint32_t i = 0; i < r->p->op[o].outputs; i++) {
			uint32_t made = problem_outputs(r->p, o)[i];
			if (!is_live(r, made) && has_reads_left(r, made))
				return true;
		}
	}
	return false;
}

static void drop_if_useless(struct replay *r, uint32_t v)
{
	if (is_live(r, v) && !has_reads_left(r, v) && !serves_missing_value(r, v))
		drop_live(r, v);
}

/* Notes the ops that the last walk visited. */
static void note_walk(struct replay *r, uint32_t v)
{
	uint64_t *bits = r->hangs_on + (size_t)v * WALK_WORDS;
	memset(bits, 0, WALK_WORDS * sizeof *bits);
	for (uint32_t i = 0; i < r->walked; i++)
		bits[r->walk[i] / 64 % WALK_WORDS] |= UINT64_C(1) << r->walk[i] % 64;
}

/* An op that ran before has run again: what counted it may cost less from now on. */
static void forget_costs(struct replay *r, uint32_t o)
{
	for (uint32_t k = 0; k < r->live_values; k++) {
		uint32_t v = r->live[k];
		if (r->hangs_on[(size_t)v * WALK_WORDS + o / 64 % WALK_WORDS] >> o % 64 & 1)
			r->known_at[v] = 0;
	}
}

/*
 * The cost to restore a value, or infinite when it is above the limit. On large problems it is looked up anew only
 * every so often. On others what it was is a lower bound: what is dropped since then only adds to it.
 */
static double estimate_of_cost(struct replay *r, uint32_t v, double limit)
{
	if (r->d->needed_ops < LARGE) {
		if (r->known_at[v] && r->known_cost[v] > limit)
			return INFINITY;
		double cost = cost_to_restore(r, v, limit);
		r->known_cost[v] = r->walk_cost;
		r->known_at[v] = 1;
		note_walk(r, v);
		return cost;
	}
	if (!r->known_at[v] || r->steps + 1 - r->known_at[v] > STALE_STEPS + r->d->needed_ops / STALE_PART) {
		r->known_cost[v] = cost_of_walk(r, v, INFINITY, LONG_WALK);
		r->known_at[v] = r->steps + 1;
	}
	return r->known_cost[v];
}

/* A smaller score is given up first; infinite for what cannot be made again. */
static double score(struct replay *r, uint32_t v, double best)
{
	const struct problem *p = r->p;
	if (r->options->forward_only && !p->op[p->value[v].producer].forward)
		return INFINITY;
	uint32_t next = r->next_read[v];
	uint32_t distance = next < r->d->first_reader[v + 1] ? r->read_at[next] - r->now : r->d->needed_ops;
	double weight = r->bytes_weight[v] * r->distance_weight[distance ? distance : 1];
	return estimate_of_cost(r, v, best * weight) / weight;
}

/* May output 0 of `o` take over input j, apart from reads that come later? */
static bool fits_in_place(const struct replay *r, uint32_t o, uint32_t j)
{
	const struct problem *p = r->p;
	uint32_t v = problem_inputs(p, o)[j];
	return j < 32 && p->op[o].in_place >> j & 1 && r->pending[v] == 1 &&
	       p->value[v].bytes == p->value[problem_outputs(p, o)[0]].bytes;
}

/* A score from what a value cost when it was last looked at; close enough to say where to look first. */
static double stale_score(const struct replay *r, uint32_t v)
{
	uint32_t next = r->next_read[v];
	uint32_t distance = next < r->d->first_reader[v + 1] ? r->read_at[next] - r->now : r->d->needed_ops;
	return r->known_at[v] ? r->known_cost[v] / (r->bytes_weight[v] * r->distance_weight[distance ? distance : 1])
			      : INFINITY;
}

/* The value that probably has the least score, to be looked at first: then walks for most others soon end. */
static uint32_t likely_best(const struct replay *r)
{
	uint32_t likely = VALUE_NONE;
	double least = INFINITY;
	for (uint32_t k = 0; k < r->live_values; k++) {
		double s = r->pending[r->live[k]] ? INFINITY : stale_score(r, r->live[k]);
		if (s < least) {
			least = s;
			likely = r->live[k];
		}
	}
	return likely;
}

/* Gives up the value with the least score. If that is an input of `o`, its output takes it over: *taken says which. */
static bool give_up_one(struct replay *r, uint32_t o, uint32_t *taken)
{
	const struct problem *p = r->p;
	uint32_t best = VALUE_NONE, best_input = VALUE_NONE;
	double best_score = INFINITY;
	best = likely_best(r);
	if (best != VALUE_NONE)
		best_score = score(r, best, INFINITY);
	if (best_score == INFINITY)
		best = VALUE_NONE;
	for (uint32_t k = 0; k < r->live_values; k++) {
		uint32_t v = r->live[k];
		if (r->pending[v] || v == best)
			continue;
		double s = score(r, v, best_score);
		if (s < best_score || (s == best_score && s < INFINITY && v < best)) {
			best_score = s;
			best = v;
		}
	}
	for (uint32_t j = 0; *taken == VALUE_NONE && p->op[o].in_place && j < p->op[o].inputs; j++) {
		uint32_t v = problem_inputs(p, o)[j];
		double s = fits_in_place(r, o, j) ? score(r, v, best_score) : INFINITY;
		if (s < best_score) {
			best_score = s;
			best_input = v;
		}
	}
	uint32_t chosen = best_input != VALUE_NONE ? best_input : best;
	if (chosen == VALUE_NONE)
		return false;
	if (r->d->needed_ops >= LARGE && cost_to_restore(r, chosen, INFINITY) == INFINITY) {
		/* What was kept is out of date: the value cannot be made again by now. The next look sees that. */
		r->known_cost[chosen] = INFINITY;
		return true;
	}
	r->given_up[chosen] = 1;
	if (best_input != VALUE_NONE)
		*taken = best_input;
	else
		drop_live(r, best);
	return true;
}

/* Makes room for one run. */
static bool make_room(struct replay *r, uint32_t o, uint32_t *taken)
{
	const struct problem *p = r->p;
	uint64_t needed = p->op[o].workspace, budget = r->options->budget;
	for (uint32_t i = 0; i < p->op[o].outputs; i++) {
		uint32_t v = problem_outputs(p, o)[i];
		needed += is_live(r, v) ? 0 : p->value[v].bytes;
	}
	for (uint32_t j = 0; *taken == VALUE_NONE && p->op[o].in_place && p->op[o].outputs && j < p->op[o].inputs;
	     j++) {
		uint32_t v = problem_inputs(p, o)[j];
		if (fits_in_place(r, o, j) && r->next_read[v] == r->d->first_reader[v + 1])
			*taken = v;
	}
	for (;;) {
		uint64_t credit = *taken == VALUE_NONE ? 0 : p->value[*taken].bytes;
		if (r->live_bytes + needed - credit <= budget)
			return true;
		if (!give_up_one(r, o, taken))
			return false;
	}
}

static bool run_op(struct replay *r, uint32_t o)
{
	const struct problem *p = r->p;
	uint32_t taken = VALUE_NONE;
	if (r->steps >= r->max_steps || r->steps >= r->options->max_steps ||
	    (r->options->policy == REPLAY_BUDGET && !make_room(r, o, &taken)))
		return false;
	r->step[r->steps++] = o;
	if (r->ran[o] && r->options->policy == REPLAY_BUDGET && r->d->needed_ops < LARGE)
		forget_costs(r, o);
	r->ran[o] = 1;
	for (uint32_t i = 0; i < p->op[o].inputs; i++)
		r->pending[problem_inputs(p, o)[i]]--;
	if (taken != VALUE_NONE)
		drop_live(r, taken);
	for (uint32_t i = 0; i < p->op[o].outputs; i++) {
		uint32_t v = problem_outputs(p, o)[i];
		if (is_live(r, v))
			continue;
		add_live(r, v);
		if (r->d->needed_ops < LARGE)
			r->known_at[v] = 0;
	}
	for (uint32_t i = 0; i < p->op[o].afters; i++)
		r->closed[p->after[p->op[o].first_after + i]] = 1;
	for (uint32_t i = 0; i < p->op[o].outputs; i++)
		drop_if_useless(r, problem_outputs(p, o)[i]);
	for (uint32_t i = 0; i < p->op[o].inputs; i++)
		drop_if_useless(r, problem_inputs(p, o)[i]);
	return true;
}

/* Ops to run before `o`, in the order of first runs. False when one of them has never run: it is waiting. */
static bool find_missing(struct replay *r, uint32_t o, uint32_t *count)
{
	const struct problem *p = r->p;
	uint32_t stamp = new_walk(r), top = 0;
	*count = 0;
	r->stack[top++] = o;
	while (top) {
		uint32_t reader = r->stack[--top];
		const uint32_t *input = problem_inputs(p, reader);
		for (uint32_t i = 0; i < p->op[reader].inputs; i++) {
			uint32_t producer = p->value[input[i]].producer;
			if (is_live(r, input[i]) || r->mark[producer] == stamp)
				continue;
			if (!r->ran[producer] || !can_run_again(r, producer))
				return false;
			r->mark[producer] = stamp;
			r->stack[top++] = producer;
			r->missing[(*count)++] = r->position[producer];
		}
	}
	qsort(r->missing, *count, sizeof *r->missing, compare_numbers);
	return true;
}

/* Have all ops that must come before run for the last time? One walk for all of them: what they lead to overlaps. */
static bool may_close(struct replay *r, uint32_t o)
{
	const struct problem *p = r->p;
	const uint32_t *before = p->after + p->op[o].first_after;
	uint32_t top = 0;
	for (uint32_t i = 0; i < p->op[o].afters; i++)
		if (r->d->needed[before[i]] && !r->ran[before[i]])
			return false;
	new_walk(r);
	for (uint32_t i = 0; i < p->op[o].afters; i++)
		if (r->d->needed[before[i]])
			push_op(r, before[i], &top);
	return !missing_value_hangs_on(r, top);
}

/* Makes the first missing input of the op on top of the stack its successor there; false when it may not run again. */
static bool push_missing(struct replay *r, uint32_t *top)
{
	const struct problem *p = r->p;
	uint32_t o = r->stack[*top - 1];
	for (uint32_t i = 0; i < p->op[o].inputs; i++) {
		uint32_t v = problem_inputs(p, o)[i], producer = p->value[v].producer;
		if (is_live(r, v))
			continue;
		if (!r->ran[producer] || !can_run_again(r, producer))
			return false;
		r->stack[(*top)++] = producer;
		for (uint32_t k = 0; k < p->op[producer].inputs; k++)
			r->pending[problem_inputs(p, producer)[k]]++;
		return true;
	}
	return true;
}

/* Runs what is missing for `o`, depth first: only what ops on the way to `o` read is held. */
static bool make_inputs_one_by_one(struct replay *r, uint32_t o)
{
	uint32_t top = 0;
	r->stack[top++] = o;
	for (;;) {
		uint32_t before = top;
		if (!push_missing(r, &top))
			return false;
		if (top > before)
			continue;
		if (top == 1)
			return true;
		/* Walks inside run_op use the stack as well: what waits is kept aside. */
		uint32_t next = r->stack[--top];
		memcpy(r->waiting, r->stack, top * sizeof *r->stack);
		if (!run_op(r, next))
			return false;
		memcpy(r->stack, r->waiting, top * sizeof *r->stack);
	}
}

static bool make_inputs(struct replay *r, uint32_t o, uint32_t count)
{
	const struct problem *p = r->p;
	if (r->options->one_by_one)
		return make_inputs_one_by_one(r, o);
	for (uint32_t k = 0; k < count; k++) {
		uint32_t before = r->order[r->missing[k]];
		for (uint32_t i = 0; i < p->op[before].inputs; i++)
			r->pending[problem_inputs(p, before)[i]]++;
	}
	for (uint32_t k = 0; k < count; k++)
		if (!run_op(r, r->order[r->missing[k]]))
			return false;
	return true;
}

/* The op whose turn it is: what is missing first, then the op, or it waits. */
static bool serve(struct replay *r, uint32_t o)
{
	const struct problem *p = r->p;
	uint32_t count;
	if (!find_missing(r, o, &count))
		return false;
	for (uint32_t i = 0; i < p->op[o].inputs; i++) {
		uint32_t v = problem_inputs(p, o)[i];
		r->pending[v]++;
		r->next_read[v]++;
	}
	if (!make_inputs(r, o, count))
		return false;
	if (may_close(r, o))
		return run_op(r, o);
	r->deferred[r->deferred_ops++] = o;
	return true;
}

static bool serve_deferred(struct replay *r)
{
	uint32_t kept = 0;
	for (uint32_t k = 0; k < r->deferred_ops; k++) {
		uint32_t o = r->deferred[k];
		if (!may_close(r, o))
			r->deferred[kept++] = o;
		else if (!run_op(r, o))
			return false;
	}
	r->deferred_ops = kept;
	return true;
}

static bool policy_gives_up(struct replay *r, uint32_t v)
{
	const struct replay_options *options = r->options;
	const struct problem *p = r->p;
	if (!p->op[p->value[v].producer].forward || (options->keep && options->keep[v]) || r->pending[v] ||
	    r->next_read[v] == r->d->first_reader[v + 1])
		return false;
	if (p->op[r->order[r->read_at[r->next_read[v]]]].forward)
		return false;
	if (options->policy == REPLAY_KEEP && r->given_up[v])
		return false;
	return cost_to_restore(r, v, INFINITY) < INFINITY;
}

/* After an op: values that the policy gives up, and values that served missing ones and do so no longer. */
static void tidy(struct replay *r)
{
	for (uint32_t k = r->live_values; k-- > 0;) {
		uint32_t v = r->live[k];
		if (!has_reads_left(r, v)) {
			drop_if_useless(r, v);
		} else if (r->options->policy != REPLAY_BUDGET && policy_gives_up(r, v)) {
			r->given_up[v] = 1;
			drop_live(r, v);
		}
	}
}

bool replay_run(struct replay *r, const struct replay_options *options, uint32_t *step, uint32_t *steps)
{
	reset(r, options, step);
	for (r->now = 0; r->now < r->d->needed_ops; r->now++) {
		if (!serve(r, r->order[r->now]))
			return false;
		tidy(r);
		if (!serve_deferred(r))
			return false;
	}
	if (r->deferred_ops)
		return false;
	*steps = r->steps;
	return true;
}
