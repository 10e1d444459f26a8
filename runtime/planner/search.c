/* search.c - which ops each round frees, and what is accepted. */
#include "planner/search.h"

#include "planner/neighbourhood.h"
#include "planner/random.h"

#include <string.h>

/*
 * Rounds without progress above the limit after which a byte above it costs more, and how much. A slow search begins
 * with a low price and raises it slowly, the more so the larger the problem: whatever is given up in haste is given up
 * in the wrong places.
 */
#define STALL_ROUNDS 30u
#define STALL_PART 14u
#define FIRST_PRICE 2.0
#define PRICE_RISE 2.0
#define FIRST_PRICE_LONG 0.03
#define PRICE_RISE_LONG 1.4
/* After one so-manieth of its work it does so no longer. */
#define HURRY_PART 4u
/* Ops of a problem small enough for larger neighbourhoods in short searches. */
#define SMALL 24u
/* Bits of the usual neighbourhoods, which are quick, and of larger ones. */
#define USUAL_BITS 6u
#define LARGER_BITS 8u
/* Ops of a problem for which larger ones cost too many rounds. */
#define MANY_OPS 500u
/* Rounds without progress, times ops and more, after which a long search is kicked out of its optimum. */
#define PATIENCE 4u
#define LEAST_PATIENCE 150u
/* Rises of the penalty after which a search that is above its limit is kicked. */
#define MOST_RISES 12u
/* Part of the limit above which a step counts as full. */
#define TIGHT 0.97
/* Of rounds that cannot save time, one in so many is done nevertheless: what it changes may help others. */
#define DRIFT 2u
/* A kick is at most so many rounds. */
#define KICK_ROUNDS 8u

struct search {
	const struct dependence *d;
	struct meter *meter;
	struct polisher *polisher;
	struct timeline timeline;
	struct neighbourhood hood;
	uint32_t *trial, trial_steps;
	uint64_t random;
	double limit, penalty, objective, excess; /* of the timeline's schedule */
	uint32_t most_bits;
	bool is_long;
	uint32_t *best, best_steps; /* of a long search */
	double best_time;
	uint64_t work, hurry_at; /* of a slow search: from there on it wants to be within the limit */
};

enum tarn_status search_init(const struct dependence *dependence, struct meter *meter, struct polisher *polisher,
			     uint32_t most_bits, struct host_arena *arena, struct search **out)
{
	struct search *k = HOST_NEW(arena, struct search);
	if (!k)
		return TARN_ENOMEM;
	*k = (struct search){ .d = dependence, .meter = meter, .polisher = polisher, .most_bits = most_bits };
	k->trial = HOST_ARRAY(arena, meter->capacity, uint32_t);
	k->best = HOST_ARRAY(arena, meter->capacity, uint32_t);
	enum tarn_status st =
		k->trial && k->best ? timeline_init(&k->timeline, dependence, meter->capacity, arena) : TARN_ENOMEM;
	if (!st)
		st = neighbourhood_init(&k->hood, &k->timeline, most_bits, arena);
	*out = k;
	return st;
}

/* Sum over steps of the bytes above the limit. */
static double excess_of(const struct search *k, uint32_t steps)
{
	double excess = 0;
	if ((double)k->meter->peak_bytes <= k->limit)
		return 0;
	for (uint32_t s = 0; s < steps; s++) {
		double above = (double)k->meter->live_bytes[s] - k->limit;
		excess += above > 0 ? above : 0;
	}
	return excess;
}

/* The present schedule, or the trial, becomes what the rounds start from. */
static bool stand_at(struct search *k, const uint32_t *step, uint32_t steps)
{
	memcpy(k->timeline.step, step, steps * sizeof *step);
	k->timeline.steps = steps;
	if (!meter_measure(k->meter, step, steps) || !timeline_update(&k->timeline))
		return false;
	k->excess = excess_of(k, steps);
	k->objective = (double)k->meter->time_ns + k->penalty * k->excess;
	return true;
}

/* After a change of limit or penalty. */
static void measure_again(struct search *k)
{
	meter_measure(k->meter, k->timeline.step, k->timeline.steps);
	k->excess = excess_of(k, k->timeline.steps);
	k->objective = (double)k->meter->time_ns + k->penalty * k->excess;
}

static void add_producers(struct search *k, uint32_t o)
{
	const struct problem *p = k->d->problem;
	for (uint32_t i = 0; i < p->op[o].inputs; i++)
		if (random_below(&k->random, 2))
			neighbourhood_add(&k->hood, p->value[problem_inputs(p, o)[i]].producer);
}

static void add_readers(struct search *k, uint32_t o)
{
	const struct problem *p = k->d->problem;
	for (uint32_t i = 0; i < p->op[o].outputs; i++) {
		uint32_t v = problem_outputs(p, o)[i];
		for (uint32_t r = k->d->first_reader[v]; r < k->d->first_reader[v + 1]; r++)
			if (!random_below(&k->random, 3))
				neighbourhood_add(&k->hood, k->d->reader[r]);
	}
}

/* A step above the limit, or, in a long search, one where little is free, if `above` asks for it; else any. */
static uint32_t choose_step(struct search *k, bool above)
{
	const struct timeline *t = &k->timeline;
	uint32_t chosen = random_below(&k->random, t->steps), found = 0;
	if (!above || (!k->is_long && k->excess <= 0))
		return chosen;
	double least = k->excess > 0 ? k->limit : TIGHT * k->limit;
	for (uint32_t s = 0; s < t->steps; s++)
		if (t->live_bytes[s] > least && !random_below(&k->random, ++found))
			chosen = s;
	return chosen;
}

/* The instance over a step with the most bytes for its cost, with noise; its op is not free yet. UINT32_MAX: none. */
static uint32_t choose_live(struct search *k, uint32_t s)
{
	const struct timeline *t = &k->timeline;
	const struct problem *p = k->d->problem;
	uint32_t best = UINT32_MAX;
	double best_score = 0;
	for (uint32_t i = 0; i < t->instances && t->first[i] < s; i++) {
		if (t->last[i] <= s + 1)
			continue;
		uint32_t o = p->value[t->value[i]].producer;
		if (k->hood.free_index[o])
			continue;
		double noise = 0.2 + random_below(&k->random, 1000) / 1000.0;
		double score = noise * (double)p->value[t->value[i]].bytes / (double)(p->op[o].cost_ns + 1);
		if (score > best_score) {
			best_score = score;
			best = i;
		}
	}
	return best;
}

/* Values that are live over one step, some of their producers and readers. */
static void free_around_step(struct search *k, uint32_t s)
{
	const struct problem *p = k->d->problem;
	uint32_t half = k->hood.bit_limit / 2, wanted = half + random_below(&k->random, half + 1);
	uint32_t chosen[FREE_BITS], count = 0;
	while (count < wanted && k->hood.bits < wanted) {
		uint32_t instance = choose_live(k, s), bits = k->hood.bits;
		if (instance == UINT32_MAX)
			break;
		chosen[count] = p->value[k->timeline.value[instance]].producer;
		neighbourhood_add(&k->hood, chosen[count++]);
		if (k->hood.bits == bits)
			break;
	}
	for (uint32_t i = 0; i < count; i++)
		add_producers(k, chosen[i]);
	for (uint32_t i = 0; i < count; i++)
		add_readers(k, chosen[i]);
}

/* Ops of a stretch of the schedule. */
static void free_stretch(struct search *k)
{
	const struct timeline *t = &k->timeline;
	uint32_t s = random_below(&k->random, t->steps), stride = 1 + random_below(&k->random, 3);
	for (uint32_t i = 0; i < 32 && s < t->steps && k->hood.bits < k->hood.bit_limit; i++, s += stride)
		neighbourhood_add(&k->hood, t->step[s]);
}

/* Ops that hang together. */
static void free_connected(struct search *k)
{
	uint32_t o = k->timeline.step[random_below(&k->random, k->timeline.steps)];
	for (uint32_t i = 0; i < 24 && k->hood.bits < k->hood.bit_limit; i++) {
		neighbourhood_add(&k->hood, o);
		add_producers(k, o);
		add_readers(k, o);
		if (k->hood.frees)
			o = k->hood.free[random_below(&k->random, k->hood.frees)].op;
	}
}

static bool is_recomputed(const struct search *k, uint32_t o)
{
	const struct timeline *t = &k->timeline;
	return t->last_run[o] != UINT32_MAX && t->run_before[t->last_run[o]] != UINT32_MAX;
}

/* A run that repeats another one, and what fills the memory where its value could have stayed. */
static void free_recomputation(struct search *k)
{
	const struct timeline *t = &k->timeline;
	uint32_t chosen = UINT32_MAX, found = 0;
	for (uint32_t s = 0; s < t->steps; s++)
		if (t->run_before[s] != UINT32_MAX && !random_below(&k->random, ++found))
			chosen = s;
	if (chosen == UINT32_MAX)
		return;
	uint32_t first = t->run_before[chosen] + 1, length = chosen - t->run_before[chosen], fullest = chosen;
	for (uint32_t s = first; s < chosen; s++)
		if (t->live_bytes[s] > t->live_bytes[fullest])
			fullest = s;
	neighbourhood_add(&k->hood, t->step[chosen]);
	free_around_step(k, random_below(&k->random, 2) ? fullest : first + random_below(&k->random, length));
}

/* Within the limit, time is saved only where something runs more than once; the rest is drift. */
static bool may_pay(struct search *k)
{
	if (!k->is_long || k->excess > 0 || !random_below(&k->random, DRIFT))
		return true;
	for (uint32_t i = 0; i < k->hood.frees; i++)
		if (is_recomputed(k, k->hood.free[i].op))
			return true;
	return false;
}

/* Most rounds are small and quick; some are larger, in long searches up to the largest. */
static uint32_t choose_bits(struct search *k)
{
	if (!k->is_long)
		return k->d->needed_ops <= SMALL && !random_below(&k->random, 5) ? LARGER_BITS : USUAL_BITS;
	uint32_t kind = random_below(&k->random, k->d->needed_ops > MANY_OPS ? 512 : 64);
	return kind < 1 ? k->most_bits : kind < 4 ? LARGER_BITS + 2 : kind < 16 ? LARGER_BITS : USUAL_BITS;
}

static void choose_neighbourhood(struct search *k)
{
	uint32_t bits = choose_bits(k);
	neighbourhood_clear(&k->hood, bits < k->most_bits ? bits : k->most_bits);
	if (k->is_long && k->excess <= 0 && !random_below(&k->random, 4)) {
		free_recomputation(k);
		return;
	}
	switch (random_below(&k->random, 5)) {
	case 0:
	case 1:
		free_around_step(k, choose_step(k, true));
		break;
	case 2:
		free_around_step(k, choose_step(k, false));
		break;
	case 3:
		free_stretch(k);
		break;
	default:
		free_connected(k);
	}
}

/* Solves a neighbourhood; the trial is measured. False when there is nothing new. */
static bool try_neighbourhood(struct search *k)
{
	k->hood.limit_bytes = k->limit;
	k->hood.penalty = k->penalty;
	k->work += 6 * (uint64_t)k->timeline.steps;
	if (!k->hood.frees || !neighbourhood_solve(&k->hood, k->trial, &k->trial_steps))
		return false;
	k->work += 24 * (uint64_t)k->timeline.steps;
	polish_useless_runs(k->polisher, k->trial, &k->trial_steps);
	return meter_measure(k->meter, k->trial, k->trial_steps);
}

/* One round. True when the schedule got better, not only different. */
static bool improve(struct search *k)
{
	choose_neighbourhood(k);
	k->work += k->timeline.steps;
	if (!may_pay(k) || !try_neighbourhood(k))
		return false;
	double objective = (double)k->meter->time_ns + k->penalty * excess_of(k, k->trial_steps);
	double before = k->objective;
	return objective <= before && stand_at(k, k->trial, k->trial_steps) && objective < before;
}

/* Rounds until the excess is gone or the work is spent; bytes above the limit cost more while there is no progress. */
struct descent {
	uint32_t stall, rises;
	bool within;
};

static void begin_descent(struct search *k, struct descent *descent)
{
	*descent = (struct descent){ 0 };
	double price = k->work + k->hood.work < k->hurry_at ? FIRST_PRICE_LONG : FIRST_PRICE;
	k->penalty = k->excess > 0 ? price * ((double)k->d->base_time_ns + 1) / k->excess : 0;
	k->objective += k->penalty * k->excess;
}

static void descend(struct search *k, struct descent *descent)
{
	if (k->excess <= 0 && !descent->within) {
		/* From here on nothing above the limit is taken. */
		descent->within = true;
		k->penalty = 1e12;
	}
	bool slow = k->work + k->hood.work < k->hurry_at;
	uint32_t patience = STALL_ROUNDS + (slow ? k->d->needed_ops / STALL_PART : 0);
	descent->stall = improve(k) ? 0 : descent->stall + 1;
	if (k->excess > 0 && descent->stall > patience) {
		descent->stall = 0;
		descent->rises++;
		double rise = slow ? PRICE_RISE_LONG : PRICE_RISE;
		k->objective += (rise - 1) * k->penalty * k->excess;
		k->penalty *= rise;
	}
}

static bool begin(struct search *k, const struct search_goal *goal, const uint32_t *step, uint32_t steps)
{
	k->random = random_start(goal->seed);
	k->limit = (double)goal->limit;
	k->penalty = 0;
	return steps && stand_at(k, step, steps);
}

static bool end(struct search *k, uint32_t *step, uint32_t *steps)
{
	memcpy(step, k->timeline.step, k->timeline.steps * sizeof *step);
	*steps = k->timeline.steps;
	return k->excess <= 0;
}

bool search_run(struct search *k, const struct search_goal *goal, uint32_t *step, uint32_t *steps)
{
	struct descent descent;
	k->is_long = false;
	k->hurry_at = 0;
	if (!begin(k, goal, step, *steps))
		return false;
	begin_descent(k, &descent);
	for (uint32_t round = 0; round < goal->rounds; round++)
		descend(k, &descent);
	return end(k, step, steps);
}

static void keep_best(struct search *k)
{
	k->best_time = k->objective;
	k->best_steps = k->timeline.steps;
	memcpy(k->best, k->timeline.step, k->timeline.steps * sizeof *k->best);
}

/* A factor between 1 / (1 + strength) and 1 + strength. */
static double random_factor(struct search *k, double strength)
{
	double factor = 1 + strength * random_below(&k->random, 1000) / 1000;
	return random_below(&k->random, 2) ? factor : 1 / factor;
}

/*
 * A few rounds whose costs are wrong: whatever they say is taken, as long as it is within the limit or any excess will
 * do. That leaves the optimum for schedules that are nearly as good.
 */
static void kick_costs(struct search *k, bool any_excess)
{
	uint32_t rounds = 1 + random_below(&k->random, KICK_ROUNDS);
	double strength = 0.2 + random_below(&k->random, 1000) / 500.0;
	for (uint32_t round = 0; round < rounds; round++) {
		choose_neighbourhood(k);
		for (uint32_t i = 0; i < k->hood.frees; i++)
			k->hood.free[i].cost *= random_factor(k, strength);
		if (try_neighbourhood(k) && (any_excess || excess_of(k, k->trial_steps) <= 0))
			stand_at(k, k->trial, k->trial_steps);
	}
}

/* A few rounds under a higher limit, then back below the right one. False when that fails. */
static bool kick_limit(struct search *k, const struct search_goal *goal)
{
	uint32_t rounds = 4 + random_below(&k->random, 8 * KICK_ROUNDS);
	struct descent descent;
	k->limit *= 1 + (1 + random_below(&k->random, 100)) / 1000.0;
	k->penalty = 1e12;
	for (uint32_t round = 0; round < rounds; round++)
		improve(k);
	k->limit = (double)goal->limit;
	k->penalty = 0;
	measure_again(k);
	begin_descent(k, &descent);
	for (uint32_t round = 0; round < 40 * STALL_ROUNDS && k->excess > 0; round++)
		descend(k, &descent);
	k->penalty = 1e12;
	measure_again(k);
	return k->excess <= 0;
}

/* Back to the best, mostly, and away from it. */
static void kick(struct search *k, const struct search_goal *goal)
{
	if (k->objective > 1.02 * k->best_time || random_below(&k->random, 2))
		stand_at(k, k->best, k->best_steps);
	if (random_below(&k->random, 3))
		kick_costs(k, false);
	else if (!kick_limit(k, goal))
		stand_at(k, k->best, k->best_steps);
}

bool search_long(struct search *k, const struct search_goal *goal, uint32_t *step, uint32_t *steps)
{
	struct descent descent;
	k->work = k->hood.work = 0;
	k->hurry_at = goal->slow ? goal->work / HURRY_PART : 0;
	k->is_long = true;
	if (!begin(k, goal, step, *steps))
		return false;
	begin_descent(k, &descent);
	while (!descent.within && k->work + k->hood.work < goal->work) {
		descend(k, &descent);
		if (descent.rises < MOST_RISES || k->excess <= 0)
			continue;
		k->penalty = ((double)k->d->base_time_ns + 1) / k->excess;
		kick_costs(k, true);
		begin_descent(k, &descent);
	}
	if (!descent.within)
		return end(k, step, steps);
	keep_best(k);
	uint32_t patience = LEAST_PATIENCE + PATIENCE * k->d->needed_ops;
	while (k->work + k->hood.work < goal->work && k->best_time > (double)goal->enough_time) {
		descend(k, &descent);
		if (k->objective < k->best_time)
			keep_best(k);
		if (descent.stall > patience) {
			kick(k, goal);
			descent.stall = 0;
		}
	}
	memcpy(step, k->best, k->best_steps * sizeof *step);
	*steps = k->best_steps;
	return true;
}
