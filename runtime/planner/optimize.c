/* optimize.c - many starts, then polishing and search. */
#include "planner/optimize.h"

#include "planner/bound.h"
#include "planner/chain_plan.h"
#include "planner/search.h"

#include <string.h>

/* Steps that the replays of one question may run, all together. */
#define LEAST_PEAK_WORK 400000u
#define LEAST_TIME_WORK 60000u
/* Steps that are measured while one start is polished. */
#define POLISH_WORK 300000u
#define MOST_QUADRATIC_STEPS 550000u
/* Rounds of the search: at least so many, and at most so many times ops. */
#define FEWEST_ROUNDS 300u
#define SEARCH_WORK 400000u
/* Additions of one dynamic programme over a chain, by effort; and programmes for one question. */
static const uint64_t chain_work[] = { 40000000, 400000000, 4000000000 };
#define CHAIN_ATTEMPTS 4u
/* For the least peak there are few programmes, and replays are dearer. */
#define LEAST_CHAIN_FACTOR 8u
/* Chains of more ops need fewer replays for little time, none for little memory, no replays at all. */
#define LONG_CHAIN_OPS 2500u
#define LONGER_CHAIN_OPS 6000u
#define VERY_LONG_CHAIN_OPS 20000u
/* No stage of what is called a chain has more than one so-manieth of the ops. */
#define STAGE_PART 8u
/* Long searches of problems with so many ops do half the work, of more a third. */
#define LONG_SEARCH_OPS 600u

/*
 * The longest schedule of a replay. Chains can trade ever less memory for steps, up to n^2 / 2; nobody wants to run
 * those, and binomial schedules of this length need little more memory.
 */
static uint32_t replay_limit(uint32_t ops)
{
	uint64_t limit = 32 * (uint64_t)ops + 1024;
	return limit < UINT32_MAX / 4 ? (uint32_t)limit : UINT32_MAX / 4;
}

/* The longest that is considered: chains of up to a thousand stages down to their least memory. */
static uint32_t step_limit(uint32_t ops)
{
	uint64_t all = (uint64_t)ops * ops / 8 + 2 * (uint64_t)ops;
	uint32_t longest = all < MOST_QUADRATIC_STEPS ? (uint32_t)all : MOST_QUADRATIC_STEPS;
	return longest > replay_limit(ops) ? longest : replay_limit(ops);
}

enum tarn_status candidate_init(struct candidate *candidate, const struct optimizer *optimizer,
				struct host_arena *arena)
{
	*candidate = (struct candidate){ .step = HOST_ARRAY(arena, optimizer->max_steps, uint32_t) };
	return candidate->step ? TARN_OK : TARN_ENOMEM;
}

void candidate_copy(struct candidate *to, const struct candidate *from)
{
	memcpy(to->step, from->step, from->steps * sizeof *to->step);
	to->steps = from->steps;
	to->peak_bytes = from->peak_bytes;
	to->time_ns = from->time_ns;
}

/* Work of a long search, and bits of its largest neighbourhoods. */
static const struct {
	uint64_t work;
	uint32_t most_bits;
} efforts[] = { { 0, 8 }, { 700000000, 10 }, { 36000000000, 12 } };

/* The order with more stages is the better one to cut. */
static enum tarn_status find_chain(struct optimizer *k, struct host_arena *arena)
{
	struct chain other;
	enum tarn_status st = chain_find(&k->dependence, k->order[0], arena, &k->chain);
	k->arena = arena;
	if (st || k->orders == 1)
		return st;
	struct host_mark mark = host_arena_mark(arena);
	st = chain_find(&k->dependence, k->order[1], arena, &other);
	if (!st && other.stages > k->chain.stages)
		k->chain = other;
	else
		host_arena_release(arena, mark);
	return st;
}

enum tarn_status optimizer_init(struct optimizer *k, const struct problem *problem, uint32_t effort,
				struct host_arena *arena)
{
	*k = (struct optimizer){ .problem = problem, .effort = effort };
	enum tarn_status st = dependence_find(problem, arena, &k->dependence);
	if (st)
		return st;
	size_t order_bytes = k->dependence.needed_ops * sizeof *k->order[0];
	for (uint32_t i = 0; i < ORDERS; i++)
		if (!(k->order[i] = host_arena_alloc(arena, order_bytes, 1)))
			return TARN_ENOMEM;
	st = order_find(&k->dependence, arena, k->order);
	if (st)
		return st;
	k->orders = memcmp(k->order[0], k->order[1], order_bytes) ? ORDERS : 1;
	st = find_chain(k, arena);
	if (st)
		return st;
	k->bound = bound_peak(&k->dependence);
	k->max_steps = step_limit(k->dependence.needed_ops);
	for (uint32_t o = 0; o < problem->ops; o++)
		k->any_forward |= problem->op[o].forward;
	for (uint32_t i = 0; !st && i < k->orders; i++)
		st = replay_init(&k->dependence, k->order[i], replay_limit(k->dependence.needed_ops), arena,
				 &k->replay[i]);
	if (!st)
		st = meter_init(&k->meter, problem, k->max_steps, arena);
	if (!st)
		st = polisher_init(&k->polisher, &k->meter, arena);
	if (!st)
		st = search_init(&k->dependence, &k->meter, &k->polisher, efforts[effort].most_bits, arena, &k->search);
	if (!st)
		st = candidate_init(&k->trial, k, arena);
	if (!st)
		st = candidate_init(&k->other, k, arena);
	return st;
}

static bool measure(struct optimizer *k, struct candidate *c)
{
	if (!meter_measure(&k->meter, c->step, c->steps))
		return false;
	c->peak_bytes = k->meter.peak_bytes;
	c->time_ns = k->meter.time_ns;
	return true;
}

void optimizer_keep_all(struct optimizer *k, struct candidate *out)
{
	out->steps = k->dependence.needed_ops;
	memcpy(out->step, k->order[0], out->steps * sizeof *out->step);
	measure(k, out);
}

bool optimizer_replay(struct optimizer *k, uint32_t order, const struct replay_options *options, struct candidate *out)
{
	struct candidate *trial = &k->trial;
	bool fits = replay_run(k->replay[order], options, trial->step, &trial->steps);
	k->replay_work += k->dependence.needed_ops;
	if (!fits)
		return false;
	k->replay_work += trial->steps;
	polish_useless_runs(&k->polisher, trial->step, &trial->steps);
	if (!measure(k, trial) || trial->peak_bytes > options->budget)
		return false;
	candidate_copy(out, trial);
	return true;
}

bool optimizer_polish(struct optimizer *k, uint64_t limit, struct candidate *c)
{
	candidate_copy(&k->other, c);
	polish_schedule(&k->polisher, limit, POLISH_WORK / c->steps, k->other.step, &k->other.steps);
	if (!measure(k, &k->other) || k->other.peak_bytes > limit || k->other.time_ns >= c->time_ns)
		return false;
	candidate_copy(c, &k->other);
	return true;
}

/* Ways to weigh what is given up; none is best everywhere. */
struct start {
	double bytes_power, distance_power, noise;
	bool forward_only, one_by_one;
};
static const struct start starts[] = {
	{ 1, 1, 0, true, false },
	{ 1, 1, 0, false, false },
	{ 1, 2, 0, true, false },
	{ 1, 0.5, 0, true, false },
	{ 0.5, 1, 0, true, false },
	{ 1, 0, 0, true, false },
	{ 1, 2, 0, false, false },
	{ 0, 1, 0, true, false },
	{ 1, 1, 0.3, true, false },
	{ 1, 1, 0.3, false, false },
	{ 1, 1, 0.3, true, false },
	{ 1, 0.5, 0.5, true, false },
	{ 1, 2, 0.3, true, false },
	{ 0.5, 0.5, 0.2, true, false },
	{ 1, 1, 0.6, true, false },
	{ 2, 1, 0, true, false },
	{ 0.5, 1, 0.3, false, false },
	{ 1, 0, 0.3, true, false },
	/* Near the least memory. */
	{ 1, 1, 0, false, true },
	{ 1, 1, 0, true, true },
	{ 1, 0.5, 0, false, true },
	{ 0, 1, 0, false, true },
	{ 1, 0, 0, false, true },
	{ 1, 1, 0.3, false, true },
	{ 1, 1, 0.6, false, true },
};
#define STARTS (sizeof starts / sizeof *starts)
/* Problems with more ops than this get fewer and shorter replays. */
#define LARGE 4000u
/* So many starts are tried with every order. */
#define BOTH_ORDERS 2u

static struct replay_options options_of(const struct optimizer *k, uint32_t i, uint64_t budget, uint32_t max_steps)
{
	const struct start *start = &starts[i];
	return (struct replay_options){
		.policy = REPLAY_BUDGET,
		.budget = budget,
		.forward_only = start->forward_only,
		.one_by_one = start->one_by_one,
		.bytes_power = start->bytes_power,
		.distance_power = start->distance_power,
		.noise = start->noise,
		.seed = i,
		.max_steps = max_steps < k->max_steps ? max_steps : k->max_steps,
	};
}

/* Without hints all values may be given up, and starts that ask for forward values alone say nothing new. */
static bool start_applies(const struct optimizer *k, uint32_t i)
{
	return k->any_forward || !starts[i].forward_only;
}

/* Rounds of the search: as many as tiny problems need, and about constant work for large ones. */
static uint32_t search_rounds(const struct optimizer *k)
{
	uint32_t ops = k->dependence.needed_ops + 1;
	uint32_t few = 8 * ops + FEWEST_ROUNDS, work = SEARCH_WORK / ops;
	return few < work ? few : work;
}

static uint32_t shorter_limit(const struct optimizer *k, uint32_t times)
{
	uint64_t limit = (uint64_t)times * k->dependence.needed_ops + 256;
	return limit < k->max_steps ? (uint32_t)limit : k->max_steps;
}

/* Bisects the budget of one start between the bound and the best peak so far. */
static void lower_peak_with(struct optimizer *k, uint32_t order, uint32_t i, uint32_t max_steps, struct candidate *best)
{
	uint64_t low = k->bound, grain = (best->peak_bytes - low) / (k->dependence.needed_ops > LARGE ? 64 : 256) + 64;
	uint64_t budget = best->peak_bytes - grain;
	while (best->peak_bytes > low + grain) {
		struct replay_options options = options_of(k, i, budget, max_steps);
		if (!optimizer_replay(k, order, &options, best))
			low = budget;
		budget = low + (best->peak_bytes - low) / 2;
	}
}

/* Both orders begin; later starts use the one that did better. */
static bool start_is_worth_it(const struct optimizer *k, uint32_t i, uint32_t order, uint32_t better, uint64_t work)
{
	if (!start_applies(k, i) || (i >= BOTH_ORDERS && order != better))
		return false;
	return (!i && !order) || k->replay_work < work;
}

/* Whether the problem is a chain, of more than `ops` ops, through and through. */
static bool is_chain_of(const struct optimizer *k, uint32_t ops)
{
	uint32_t largest = 0;
	for (uint32_t s = 1; s <= k->chain.stages; s++) {
		uint32_t own = k->chain.stage[s].forwards + k->chain.stage[s].backwards;
		largest = own > largest ? own : largest;
	}
	return k->chain.stages && k->dependence.needed_ops > ops && largest < k->dependence.needed_ops / STAGE_PART;
}

/* The chain's least peak; under small limits first, where its tables are fine. */
static void lower_peak_of_chain(struct optimizer *k, struct candidate *best)
{
	uint64_t limit = 2 * k->bound;
	while (limit < best->peak_bytes && !optimizer_chain(k, limit, true, best))
		limit *= 2;
	if (limit >= best->peak_bytes && best->peak_bytes > k->bound)
		optimizer_chain(k, best->peak_bytes - 1, true, best);
}

void optimizer_least_peak(struct optimizer *k, struct candidate *best)
{
	uint32_t better = 0;
	k->replay_work = 0;
	lower_peak_of_chain(k, best);
	if (is_chain_of(k, LONGER_CHAIN_OPS))
		return;
	for (uint32_t i = 0; i < STARTS; i++) {
		for (uint32_t order = 0; order < k->orders && best->peak_bytes > k->bound; order++) {
			if (!start_is_worth_it(k, i, order, better, LEAST_PEAK_WORK))
				continue;
			uint64_t before = best->peak_bytes;
			lower_peak_with(k, order, i, shorter_limit(k, k->dependence.needed_ops > LARGE ? 4 : 8), best);
			if (best->peak_bytes < before)
				better = order;
		}
	}
}

bool optimizer_forget_all(struct optimizer *k, uint64_t limit, struct candidate *out)
{
	struct replay_options forget = { .policy = REPLAY_FORGET,
					 .budget = limit,
					 .max_steps = replay_limit(k->dependence.needed_ops) };
	bool found = false;
	for (uint32_t order = 0; order < k->orders && !is_chain_of(k, LONGER_CHAIN_OPS); order++) {
		found |= optimizer_replay(k, order, &forget, out);
		forget.budget = found ? out->peak_bytes - 1 : limit;
	}
	return found;
}

void optimizer_least_time(struct optimizer *k, uint64_t limit, bool quick, struct candidate *best)
{
	uint32_t better = 0;
	k->replay_work = 0;
	quick |= is_chain_of(k, LONG_CHAIN_OPS);
	if (best->steps && best->time_ns < UINT64_MAX && is_chain_of(k, VERY_LONG_CHAIN_OPS))
		return;
	for (uint32_t i = 0; i < (quick ? BOTH_ORDERS : STARTS); i++) {
		for (uint32_t order = 0; order < k->orders; order++) {
			struct replay_options options = options_of(k, i, limit, shorter_limit(k, 8));
			if (!start_is_worth_it(k, i, order, better, LEAST_TIME_WORK) ||
			    !optimizer_replay(k, order, &options, &k->other))
				continue;
			polish_schedule(&k->polisher, limit, POLISH_WORK / k->other.steps, k->other.step,
					&k->other.steps);
			if (measure(k, &k->other) && k->other.time_ns < best->time_ns) {
				candidate_copy(best, &k->other);
				better = order;
			}
		}
	}
}

bool optimizer_chain(struct optimizer *k, uint64_t limit, bool least, struct candidate *out)
{
	struct candidate *trial = &k->trial;
	uint64_t work = chain_work[k->effort];
	struct chain_request request = { .limit = limit,
					 .least = least,
					 .work = least ? LEAST_CHAIN_FACTOR * work : work,
					 .max_steps = k->max_steps };
	bool found = false;
	/* Take-overs make the chain's account too high, what its stages share too low: it is corrected. */
	for (uint32_t attempt = 0; attempt < CHAIN_ATTEMPTS && k->chain.stages; attempt++) {
		if (chain_plan(&k->chain, &request, k->arena, trial->step, &trial->steps) || !trial->steps)
			break;
		polish_useless_runs(&k->polisher, trial->step, &trial->steps);
		if (!measure(k, trial))
			break;
		bool better = !found || (least ? trial->peak_bytes < out->peak_bytes : trial->time_ns < out->time_ns);
		if (trial->peak_bytes <= limit && better) {
			candidate_copy(out, trial);
			found = true;
		}
		uint64_t slack = limit > trial->peak_bytes ? limit - trial->peak_bytes : 0;
		if (least || trial->peak_bytes == limit || (slack && slack < limit / 100) ||
		    request.limit + limit < trial->peak_bytes + 1)
			break;
		request.limit = request.limit + limit - trial->peak_bytes;
	}
	return found;
}

bool optimizer_search(struct optimizer *k, uint64_t limit, uint32_t share, uint64_t seed, struct candidate *c)
{
	struct search_goal goal = { .limit = limit, .rounds = search_rounds(k) / share, .seed = seed };
	candidate_copy(&k->other, c);
	if (!search_run(k->search, &goal, k->other.step, &k->other.steps) || !measure(k, &k->other))
		return false;
	candidate_copy(c, &k->other);
	return true;
}

bool optimizer_search_long(struct optimizer *k, uint64_t limit, uint32_t share, uint64_t seed, uint64_t enough_time,
			   bool slow, struct candidate *c)
{
	/* Large problems are to be planned in about the same time, whose other parts grow. */
	uint32_t large = 1 + k->dependence.needed_ops / LONG_SEARCH_OPS;
	large = large < 3 ? large : 3;
	struct search_goal goal = { .limit = limit,
				    .work = efforts[k->effort].work / share / large,
				    .seed = seed,
				    .slow = slow,
				    .enough_time = enough_time };
	candidate_copy(&k->other, c);
	if (!search_long(k->search, &goal, k->other.step, &k->other.steps) || !measure(k, &k->other))
		return false;
	candidate_copy(c, &k->other);
	return true;
}
