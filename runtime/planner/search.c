/* search.c - which ops each round frees, and what is accepted. */
#include "planner/search.h"

#include "planner/neighbourhood.h"
#include "planner/random.h"

#include <string.h>

/* Rounds without progress above the limit after which a byte above it costs more. */
#define STALL_ROUNDS 30u
/* Ops of a problem small enough for larger neighbourhoods. */
#define SMALL 24u

struct search {
	const struct dependence *d;
	struct meter *meter;
	struct polisher *polisher;
	struct timeline timeline;
	struct neighbourhood hood;
	uint32_t *trial, trial_steps;
	uint64_t random;
	double limit, penalty, objective, excess; /* of the timeline's schedule */
};

enum tarn_status search_init(const struct dependence *dependence, struct meter *meter, struct polisher *polisher,
			     struct host_arena *arena, struct search **out)
{
	struct search *k = HOST_NEW(arena, struct search);
	if (!k)
		return TARN_ENOMEM;
	*k = (struct search){ .d = dependence, .meter = meter, .polisher = polisher };
	k->trial = HOST_ARRAY(arena, meter->capacity, uint32_t);
	enum tarn_status st = k->trial ? timeline_init(&k->timeline, dependence, meter->capacity, arena) : TARN_ENOMEM;
	if (!st)
		st = neighbourhood_init(&k->hood, &k->timeline, arena);
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

/* A step above the limit, if there is one and `above` asks for it; else any. */
static uint32_t choose_step(struct search *k, bool above)
{
	const struct timeline *t = &k->timeline;
	uint32_t chosen = random_below(&k->random, t->steps), found = 0;
	if (!above || k->excess <= 0)
		return chosen;
	for (uint32_t s = 0; s < t->steps; s++)
		if (t->live_bytes[s] > k->limit && !random_below(&k->random, ++found))
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
	for (uint32_t i = 0; i < 4 * FREE_BITS && s < t->steps && k->hood.bits < k->hood.bit_limit; i++, s += stride)
		neighbourhood_add(&k->hood, t->step[s]);
}

/* Ops that hang together. */
static void free_connected(struct search *k)
{
	uint32_t o = k->timeline.step[random_below(&k->random, k->timeline.steps)];
	for (uint32_t i = 0; i < 3 * FREE_BITS && k->hood.bits < k->hood.bit_limit; i++) {
		neighbourhood_add(&k->hood, o);
		add_producers(k, o);
		add_readers(k, o);
		if (k->hood.frees)
			o = k->hood.free[random_below(&k->random, k->hood.frees)].op;
	}
}

static void choose_neighbourhood(struct search *k)
{
	/* Most rounds are small and quick; on small problems some are larger. */
	uint32_t usual = FREE_BITS - 2,
		 bits = k->d->needed_ops <= SMALL && !random_below(&k->random, 5) ? FREE_BITS : usual;
	neighbourhood_clear(&k->hood, bits);
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

/* One round. True when the schedule got better, not only different. */
static bool improve(struct search *k)
{
	choose_neighbourhood(k);
	if (!k->hood.frees)
		return false;
	k->hood.limit_bytes = k->limit;
	k->hood.penalty = k->penalty;
	if (!neighbourhood_solve(&k->hood, k->trial, &k->trial_steps))
		return false;
	polish_useless_runs(k->polisher, k->trial, &k->trial_steps);
	if (!meter_measure(k->meter, k->trial, k->trial_steps))
		return false;
	double objective = (double)k->meter->time_ns + k->penalty * excess_of(k, k->trial_steps);
	double before = k->objective;
	return objective <= before && stand_at(k, k->trial, k->trial_steps) && objective < before;
}

bool search_run(struct search *k, const struct search_goal *goal, uint32_t *step, uint32_t *steps)
{
	k->random = random_start(goal->seed);
	k->limit = (double)goal->limit;
	k->penalty = 0;
	bool within = false;
	if (!*steps || !stand_at(k, step, *steps))
		return false;
	/* To get below the limit is worth twice the time of a step; more, while rounds make no progress. */
	if (k->excess > 0)
		k->penalty = 2 * ((double)k->d->base_time_ns + 1) / k->excess;
	k->objective += k->penalty * k->excess;
	for (uint32_t round = 0, stall = 0; round < goal->rounds; round++) {
		if (k->excess <= 0 && !within) {
			/* From here on nothing above the limit is taken. */
			within = true;
			k->penalty = 1e12;
		}
		stall = improve(k) ? 0 : stall + 1;
		if (k->excess > 0 && stall > STALL_ROUNDS) {
			stall = 0;
			k->objective += k->penalty * k->excess;
			k->penalty *= 2;
		}
	}
	memcpy(step, k->timeline.step, k->timeline.steps * sizeof *step);
	*steps = k->timeline.steps;
	return k->excess <= 0;
}
