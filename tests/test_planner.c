/* test_planner.c - strategies, budgets and plans, with a search over all schedules as judge for tiny problems. */
#include "planner/order.h"
#include "planner/planner.h"
#include "planner/replay.h"
#include "support/exhaustive_schedule.h"
#include "support/random_problem.h"

#include <stdio.h>
#include <string.h>

#define RANDOM_CASES 40
#define TINY_CASES 150
#define MOST_STATES 60000u
#define SWEEP 5u /* budgets */
#define MANY_BUDGETS 50u

static struct host_arena arena;

static void setup(void)
{
	host_arena_init(&arena);
}

static void teardown(void)
{
	host_arena_fini(&arena);
}

/* The models of real steps that the tests share. */
enum network { CHAIN, LONG_CHAIN, RESNET, RESNET_CLIP, UNET, DENSENET, RECURRENT, NETWORKS };

static struct problem *network(int which)
{
	switch (which) {
	case CHAIN:
		return chain_problem(&arena, 4, 4096, false);
	case LONG_CHAIN:
		return chain_problem(&arena, 40, 4096, true);
	case RESNET:
		return resnet_problem(&arena, 1, false);
	case RESNET_CLIP:
		return resnet_problem(&arena, 1, true);
	case UNET:
		return unet_problem(&arena, 2);
	case DENSENET:
		return densenet_problem(&arena, 5);
	default:
		return recurrent_problem(&arena, 12);
	}
}

static enum tarn_status plan(const struct problem *p, uint32_t strategy, uint64_t budget, struct planner_result *r)
{
	struct planner_request request = { .problem = p, .strategy = strategy, .budget = budget };
	uint8_t *keep = HOST_ARRAY(&arena, p->values, uint8_t);
	for (uint32_t v = 0; v < p->values; v += 3)
		keep[v] = 1;
	if (strategy == STRATEGY_MANUAL)
		request.keep = keep;
	return planner_run(&request, &arena, r);
}

/* Everything that any plan must satisfy. */
static void check_plan(const struct problem *p, uint64_t budget, const struct planner_result *r)
{
	struct expansion again;
	ck_assert_ok(schedule_check(p, &r->schedule));
	ck_assert_ok(schedule_expand(p, &r->schedule, &arena, &again));
	ck_assert_uint_eq(again.peak_bytes, r->expansion.peak_bytes);
	ck_assert_uint_eq(again.time_ns, r->time_ns);
	ck_assert_ok(pack_check(r->expansion.buffer, r->expansion.buffers, r->offset, r->height));
	ck_assert_uint_le(r->expansion.peak_bytes, r->height);
	ck_assert_uint_le(r->height, budget);
	ck_assert_uint_ge(r->time_ns, r->base_time_ns);
	ck_assert_uint_le(r->min_budget, r->none_height);
	ck_assert_uint_le(r->none_peak, r->none_height);
}

static void check_strategies(const struct problem *p, int seed)
{
	struct planner_result none, least, r;
	ck_assert_ok(problem_check(p));
	ck_assert_ok(plan(p, STRATEGY_NONE, UINT64_MAX, &none));
	check_plan(p, UINT64_MAX, &none);
	ck_assert_uint_eq(none.time_ns, none.base_time_ns);
	ck_assert_uint_eq(none.height, none.none_height);
	ck_assert_uint_eq(none.expansion.peak_bytes, none.none_peak);
	ck_assert_ok(plan(p, STRATEGY_MIN, UINT64_MAX, &least));
	ck_assert_uint_eq(least.height, least.min_budget);
	for (uint32_t strategy = 0; strategy < STRATEGIES; strategy++) {
		ck_assert_ok(plan(p, strategy, UINT64_MAX, &r));
		check_plan(p, UINT64_MAX, &r);
		ck_assert_msg(r.expansion.peak_bytes <= none.none_peak, "seed %d strategy %u", seed, strategy);
		ck_assert_uint_eq(r.min_budget, least.min_budget);
		/* What it took is what it needs: one alignment less is refused, and what would do is said. */
		if (!r.height || (strategy == STRATEGY_AUTO && r.height == r.min_budget))
			continue;
		uint64_t height = r.height;
		if (strategy == STRATEGY_AUTO)
			height = r.min_budget;
		ck_assert_int_eq(plan(p, strategy, height - 64, &r), TARN_EBUDGET);
		ck_assert_uint_eq(r.min_budget, least.min_budget);
		ck_assert_uint_eq(r.none_peak, none.none_peak);
		ck_assert_uint_eq(r.schedule.steps, 0);
	}
}

/* AUTO between the least budget and keeping all. */
static void check_budgets(const struct problem *p, int seed)
{
	struct planner_result none, r, again;
	ck_assert_ok(plan(p, STRATEGY_NONE, UINT64_MAX, &none));
	for (uint32_t i = 0; i <= 4; i++) {
		uint64_t budget = none.min_budget + (none.none_height - none.min_budget) * i / 4;
		enum tarn_status st = plan(p, STRATEGY_AUTO, budget, &r);
		ck_assert_msg(!st, "seed %d budget %u/4: %s", seed, i, tarn_error());
		check_plan(p, budget, &r);
		ck_assert_uint_eq(r.min_budget, none.min_budget);
		ck_assert(i < 4 || r.time_ns == r.base_time_ns);
		ck_assert_ok(plan(p, STRATEGY_AUTO, budget, &again));
		ck_assert_uint_eq(again.schedule.steps, r.schedule.steps);
		ck_assert_mem_eq(again.schedule.step, r.schedule.step, r.schedule.steps * sizeof *r.schedule.step);
		ck_assert_mem_eq(again.offset, r.offset, r.expansion.buffers * sizeof *r.offset);
	}
	if (none.min_budget)
		ck_assert_fails(plan(p, STRATEGY_AUTO, none.min_budget - 64, &r), TARN_EBUDGET, "too little");
}

START_TEST(random_problems_strategies)
{
	struct testing_random random = { .state = (uint64_t)_i };
	check_strategies(random_problem(&arena, &random, testing_between(&random, 0, 40)), _i);
}
END_TEST

START_TEST(random_problems_budgets)
{
	struct testing_random random = { .state = (uint64_t)_i + 5000 };
	check_budgets(random_problem(&arena, &random, testing_between(&random, 0, 40)), _i);
}
END_TEST

START_TEST(networks_strategies)
{
	check_strategies(network(_i), _i);
}
END_TEST

START_TEST(networks_budgets)
{
	check_budgets(network(_i), _i);
}
END_TEST

/* More memory never costs time in a sweep. */
START_TEST(sweeps_are_monotone)
{
	struct problem *p = network(_i);
	struct planner_result none;
	uint64_t budget[SWEEP];
	struct planner_result *result = HOST_ARRAY(&arena, SWEEP, struct planner_result);
	ck_assert_ok(plan(p, STRATEGY_NONE, UINT64_MAX, &none));
	for (uint32_t i = 0; i < SWEEP; i++)
		budget[i] = none.min_budget + (none.none_height - none.min_budget) * i / (SWEEP - 1);
	ck_assert_ok(planner_sweep(p, budget, SWEEP, &arena, result));
	for (uint32_t i = 0; i < SWEEP; i++) {
		check_plan(p, budget[i], &result[i]);
		ck_assert_msg(!i || result[i].time_ns <= result[i - 1].time_ns, "network %d budget %u", _i, i);
	}
	ck_assert_uint_eq(result[SWEEP - 1].time_ns, result[SWEEP - 1].base_time_ns);
}
END_TEST

/* The greedy baseline: eviction by cost, bytes and distance, recomputation when something is read. */
static bool greedy_time(const struct problem *p, uint64_t limit, uint64_t *time)
{
	struct dependence d;
	struct replay *replay;
	uint32_t order_room = p->ops + 1, *step = HOST_ARRAY(&arena, 8 * order_room, uint32_t), steps;
	uint32_t *order[ORDERS] = { HOST_ARRAY(&arena, order_room, uint32_t),
				    HOST_ARRAY(&arena, order_room, uint32_t) };
	struct replay_options options = {
		.budget = limit, .bytes_power = 1, .distance_power = 1, .max_steps = 8 * order_room
	};
	ck_assert_ok(dependence_find(p, &arena, &d));
	ck_assert_ok(order_find(&d, &arena, order));
	ck_assert_ok(replay_init(&d, order[0], 8 * order_room, &arena, &replay));
	if (!replay_run(replay, &options, step, &steps))
		return false;
	uint64_t peak;
	struct schedule schedule = { step, steps };
	ck_assert_ok(schedule_measure(p, &schedule, &arena, &peak, time));
	return peak <= limit;
}

/* Never slower than the plain strategies in the memory that they need, nor than greedy eviction at any budget. */
START_TEST(never_worse_than_the_baselines)
{
	static const uint32_t baselines[] = { STRATEGY_NONE, STRATEGY_MEMORY_POOR, STRATEGY_SQRT, STRATEGY_SPEED };
	struct problem *p = network(_i);
	struct planner_result base, r;
	uint64_t greedy;
	for (uint32_t i = 0; i < sizeof baselines / sizeof *baselines; i++) {
		ck_assert_ok(plan(p, baselines[i], UINT64_MAX, &base));
		ck_assert_ok(plan(p, STRATEGY_AUTO, base.height, &r));
		ck_assert_msg(r.time_ns <= base.time_ns, "network %d strategy %u", _i, baselines[i]);
	}
	for (uint32_t i = 0; i < MANY_BUDGETS; i++) {
		uint64_t limit = r.min_budget + (r.none_height - r.min_budget) * i / (MANY_BUDGETS - 1);
		struct planner_request request = { .problem = p,
						   .strategy = STRATEGY_AUTO,
						   .budget = limit,
						   .sum_of_bytes = true,
						   .skip_least = true };
		struct planner_result sum;
		enum tarn_status st = planner_run(&request, &arena, &sum);
		if (greedy_time(p, limit, &greedy))
			ck_assert_msg(!st && sum.time_ns <= greedy, "network %d budget %u", _i, i);
	}
}
END_TEST

/* The same hundreds of blocks deep, where the search alone comes nowhere near: also with room to spare. */
START_TEST(deep_networks_are_not_slower_than_sqrt)
{
	struct problem *p = resnet_problem(&arena, 120, false);
	struct planner_result base, r;
	ck_assert_ok(plan(p, STRATEGY_SQRT, UINT64_MAX, &base));
	for (uint32_t tenths = 10; tenths <= 12; tenths += 2) {
		ck_assert_ok(plan(p, STRATEGY_AUTO, base.height / 10 * tenths + 10, &r));
		ck_assert_uint_le(r.time_ns, base.time_ns);
		ck_assert_uint_le(r.min_budget, base.height);
	}
}
END_TEST

/* Fifty budgets from the least to keeping all: a sweep's time never rises, and ends without recomputation. */
START_TEST(fifty_budgets)
{
	struct problem *p = network(_i);
	struct planner_result none, *swept = HOST_ARRAY(&arena, MANY_BUDGETS, struct planner_result);
	ck_assert_ok(plan(p, STRATEGY_NONE, UINT64_MAX, &none));
	for (uint32_t i = 0; i < MANY_BUDGETS; i++) {
		struct planner_request request = { .problem = p,
						   .strategy = STRATEGY_AUTO,
						   .sum_of_bytes = true,
						   .skip_least = true,
						   .known = i ? &swept[i - 1].schedule : NULL };
		request.budget = none.min_budget + (none.none_height - none.min_budget) * i / (MANY_BUDGETS - 1);
		ck_assert_ok(planner_run(&request, &arena, &swept[i]));
		ck_assert_msg(!i || swept[i].time_ns <= swept[i - 1].time_ns, "network %d budget %u", _i, i);
	}
	ck_assert_uint_eq(swept[MANY_BUDGETS - 1].time_ns, none.base_time_ns);
}
END_TEST

/* Against the search over all schedules: the least budget, and the time at five budgets. */
START_TEST(tiny_problems_are_near_the_optimum)
{
	uint32_t cases = 0, at_minimum = 0, gaps = 0;
	double sum = 0;
	for (int seed = 0; seed < TINY_CASES; seed++) {
		struct testing_random random = { .state = (uint64_t)seed };
		struct problem *p = random_problem(&arena, &random, testing_between(&random, 1, 12));
		struct planner_result r;
		uint64_t peak, time;
		if (!exhaustive_least_peak(p, MOST_STATES, &peak))
			continue;
		ck_assert_ok(plan(p, STRATEGY_MIN, UINT64_MAX, &r));
		ck_assert_msg(r.min_budget >= peak, "seed %d: the judge is wrong", seed);
		/* Sizes are small multiples of the alignment: two of them are more than 5 % here. */
		ck_assert_msg(r.min_budget <= peak + peak / 20 + 2 * 64, "seed %d: %lu of %lu", seed,
			      (unsigned long)r.min_budget, (unsigned long)peak);
		cases++;
		at_minimum += r.min_budget == peak;
		uint64_t least = r.min_budget, step = (r.none_height - r.min_budget) / 4;
		for (uint32_t i = 0; i < 4; i++) {
			ck_assert_ok(plan(p, STRATEGY_AUTO, least + i * step, &r));
			if (!exhaustive_least_time(p, least + i * step, MOST_STATES, &time))
				continue;
			ck_assert_msg(r.time_ns >= time, "seed %d: the judge is wrong", seed);
			sum += time ? (double)r.time_ns / (double)time - 1 : 0;
			gaps++;
		}
		host_arena_fini(&arena);
		host_arena_init(&arena);
	}
	printf("tiny problems: %u of %u at the least peak, mean time gap %.4f %% of %u\n", at_minimum, cases,
	       100 * sum / gaps, gaps);
	ck_assert_uint_gt(cases, TINY_CASES * 9 / 10);
	ck_assert_uint_ge(at_minimum * 100, cases * 98);
	ck_assert_double_le(sum / gaps, 0.005);
}
END_TEST

/* n equal stages: a few values are enough at any length; sqrt keeps about 2 sqrt(n). */
START_TEST(chains_reach_their_least_memory)
{
	static const uint32_t stages[] = { 4, 9, 16, 64, 144, 500 };
	uint32_t n = stages[_i];
	struct problem *p = chain_problem(&arena, n, 4096, false);
	struct planner_result r;
	ck_assert_ok(plan(p, STRATEGY_MIN, UINT64_MAX, &r));
	check_plan(p, UINT64_MAX, &r);
	ck_assert_uint_le(r.height, (n <= 64 ? 5 : 12) * 4096);
	ck_assert_ok(plan(p, STRATEGY_SQRT, UINT64_MAX, &r));
	double root = 0;
	while (root * root < n)
		root += 1;
	ck_assert_double_le((double)r.height / 4096, 2 * root + 4);
	ck_assert(n < 16 || !r.fell_back);
	ck_assert_uint_le(r.time_ns, r.base_time_ns + n * 1000);
}
END_TEST

START_TEST(unet_with_skips_saves_a_third)
{
	struct planner_result r;
	ck_assert_ok(plan(unet_problem(&arena, 4), STRATEGY_MIN, UINT64_MAX, &r));
	ck_assert_uint_le(r.height * 10, r.none_height * 7);
}
END_TEST

/* Layouts of real networks waste nothing. */
START_TEST(packing_reaches_the_load)
{
	struct problem *p = network(_i);
	struct planner_result r;
	ck_assert_ok(plan(p, STRATEGY_NONE, UINT64_MAX, &r));
	ck_assert_uint_eq(r.none_height, r.none_peak);
	ck_assert_ok(plan(p, STRATEGY_AUTO, r.min_budget + (r.none_height - r.min_budget) / 2, &r));
	ck_assert_uint_le(r.height, r.expansion.peak_bytes + r.expansion.peak_bytes / 10);
}
END_TEST

/* Keeping nothing recomputes more than keeping the heavy ops; those are never run twice. */
START_TEST(speed_never_repeats_heavy_ops)
{
	struct problem *p = resnet_problem(&arena, 1, false);
	struct planner_result r, poor;
	ck_assert_ok(plan(p, STRATEGY_SPEED, UINT64_MAX, &r));
	ck_assert(!r.fell_back);
	uint32_t *runs = HOST_ARRAY(&arena, p->ops, uint32_t);
	for (uint32_t s = 0; s < r.schedule.steps; s++)
		runs[r.schedule.step[s]]++;
	for (uint32_t o = 0; o < p->ops; o++)
		ck_assert(!p->op[o].heavy || runs[o] == 1);
	ck_assert_ok(plan(p, STRATEGY_MEMORY_POOR, UINT64_MAX, &poor));
	ck_assert_uint_gt(poor.time_ns, r.time_ns);
	ck_assert_uint_lt(poor.height, r.height);
}
END_TEST

START_TEST(empty_and_single)
{
	struct problem nothing = { 0 };
	struct planner_result r;
	ck_assert_ok(plan(&nothing, STRATEGY_AUTO, 0, &r));
	ck_assert_uint_eq(r.schedule.steps, 0);
	ck_assert_uint_eq(r.height, 0);
	uint32_t operand[] = { 0 };
	struct problem_value value = { 64, 0, 0 };
	struct problem_op op = { .outputs = 1, .required = true };
	struct problem one = { .value = &value, .op = &op, .operand = operand, .values = 1, .ops = 1, .operands = 1 };
	ck_assert_ok(plan(&one, STRATEGY_AUTO, 64, &r));
	ck_assert_uint_eq(r.schedule.steps, 1);
	ck_assert_fails(plan(&one, STRATEGY_AUTO, 63, &r), TARN_EBUDGET, "64 bytes");
	op.required = false;
	ck_assert_ok(plan(&one, STRATEGY_AUTO, 0, &r));
	ck_assert_uint_eq(r.schedule.steps, 0);
}
END_TEST

START_TEST(a_bad_problem_is_refused)
{
	struct problem *p = network(CHAIN);
	struct planner_result r;
	p->value[1].bytes = 1;
	ck_assert_fails(plan(p, STRATEGY_AUTO, UINT64_MAX, &r), TARN_EINTERNAL, "value 1");
}
END_TEST

START_TEST(survives_lack_of_host_memory)
{
	struct problem *p = network(CHAIN);
	struct planner_result r;
	uint32_t strategy = (uint32_t)_i;
	ck_assert_ok(plan(p, strategy, UINT64_MAX, &r));
	uint64_t budget = strategy == STRATEGY_AUTO ? r.min_budget : UINT64_MAX;
	enum tarn_status st = TARN_ENOMEM;
	for (uint64_t request = 1; st; request++) {
		struct planner_request q = { .problem = p, .strategy = strategy, .budget = budget };
		struct host_arena small;
		host_arena_init(&small);
		small.fail_at = request;
		st = planner_run(&q, &small, &r);
		host_arena_fini(&small);
		ck_assert(st == TARN_OK || st == TARN_ENOMEM);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("planner");
	TCase *random = tcase_create("random"), *networks = tcase_create("networks"), *fixed = tcase_create("fixed");
	tcase_add_checked_fixture(random, setup, teardown);
	tcase_set_timeout(random, 120);
	tcase_add_loop_test(random, random_problems_strategies, 0, RANDOM_CASES);
	tcase_add_loop_test(random, random_problems_budgets, 0, RANDOM_CASES);
	tcase_add_test(random, tiny_problems_are_near_the_optimum);
	tcase_add_checked_fixture(networks, setup, teardown);
	tcase_set_timeout(networks, 120);
	tcase_add_loop_test(networks, networks_strategies, 0, NETWORKS);
	tcase_add_loop_test(networks, networks_budgets, 0, NETWORKS);
	tcase_add_loop_test(networks, sweeps_are_monotone, 0, NETWORKS);
	tcase_add_loop_test(networks, never_worse_than_the_baselines, 0, NETWORKS);
	tcase_add_loop_test(networks, fifty_budgets, 0, NETWORKS);
	tcase_add_loop_test(networks, packing_reaches_the_load, 0, NETWORKS);
	tcase_add_checked_fixture(fixed, setup, teardown);
	tcase_set_timeout(fixed, 120);
	tcase_add_loop_test(fixed, chains_reach_their_least_memory, 0, 6);
	tcase_add_test(fixed, deep_networks_are_not_slower_than_sqrt);
	tcase_add_test(fixed, unet_with_skips_saves_a_third);
	tcase_add_test(fixed, speed_never_repeats_heavy_ops);
	tcase_add_test(fixed, empty_and_single);
	tcase_add_test(fixed, a_bad_problem_is_refused);
	tcase_add_loop_test(fixed, survives_lack_of_host_memory, 0, STRATEGIES);
	suite_add_tcase(suite, random);
	suite_add_tcase(suite, networks);
	suite_add_tcase(suite, fixed);
	return testing_run(suite);
}
