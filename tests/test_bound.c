/* test_bound.c - lower bounds are below what a search over all schedules finds; the exact search finds the same. */
#include "planner/bound.h"
#include "planner/exact.h"
#include "planner/linear_bound.h"
#include "planner/schedule.h"
#include "support/exhaustive_schedule.h"
#include "support/random_problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GRAPHS 250
#define MOST_STATES 400000u
#define BUDGETS 7u
#define WORK 300000u
#define MOST_STEPS 4096u

static struct host_arena arena;

static void setup(void)
{
	host_arena_init(&arena);
}

static void teardown(void)
{
	host_arena_fini(&arena);
}

static uint64_t keep_all_peak(const struct problem *p)
{
	struct schedule all = { .step = HOST_ARRAY(&arena, p->ops, uint32_t) };
	struct dependence d;
	uint64_t peak, time;
	ck_assert_ok(dependence_find(p, &arena, &d));
	for (uint32_t o = 0; o < p->ops; o++)
		if (d.needed[o])
			all.step[all.steps++] = o;
	ck_assert_ok(schedule_measure(p, &all, &arena, &peak, &time));
	return peak;
}

static struct problem *training(int seed, struct dependence *d)
{
	struct testing_random random = { .state = (uint64_t)seed };
	struct problem *p = random_training_problem(&arena, &random, testing_between(&random, 2, 7));
	ck_assert_ok(problem_check(p));
	ck_assert_ok(dependence_find(p, &arena, d));
	return p;
}

/* A schedule of the exact search is legal, fits, and is as fast as it says. */
static void check_schedule(const struct problem *p, uint64_t limit, const uint32_t *step, const struct exact_result *r)
{
	struct schedule schedule = { (uint32_t *)step, r->steps };
	uint64_t peak, time;
	ck_assert_ok(schedule_check(p, &schedule));
	ck_assert_ok(schedule_measure(p, &schedule, &arena, &peak, &time));
	ck_assert_uint_le(peak, limit);
	ck_assert_uint_eq(time, r->time_ns);
}

/* One graph and limit: all searches and bounds against the judge. */
static void compare(const struct problem *p, const struct dependence *d, uint64_t limit, uint64_t optimum, int seed)
{
	uint32_t *step = HOST_ARRAY(&arena, MOST_STEPS, uint32_t);
	struct exact_result r;
	struct bound bound;
	ck_assert_ok(bound_find(d, limit, UINT64_MAX, WORK, &arena, &bound));
	ck_assert_msg(optimum == UINT64_MAX || bound.time_ns <= optimum, "seed %d limit %lu: bound %lu of %lu", seed,
		      (unsigned long)limit, (unsigned long)bound.time_ns, (unsigned long)optimum);
	ck_assert_msg(!bound.infeasible || optimum == UINT64_MAX, "seed %d limit %lu", seed, (unsigned long)limit);
	for (uint32_t any = 0; any <= EXACT_FASTEST; any++) {
		struct exact_request request = { .dependence = d,
						 .limit = limit,
						 .any_schedule = any,
						 .upper_time = UINT64_MAX,
						 .max_states = 200000,
						 .max_work = 10000000,
						 .max_steps = MOST_STEPS };
		ck_assert(exact_applies(d));
		ck_assert_ok(exact_search(&request, &arena, step, &r));
		ck_assert_msg(!r.gave_up && r.found == (optimum != UINT64_MAX), "seed %d limit %lu any %u", seed,
			      (unsigned long)limit, any);
		if (r.found)
			check_schedule(p, limit, step, &r);
		ck_assert_msg(!r.found || any || r.time_ns == optimum, "seed %d limit %lu: %lu of %lu", seed,
			      (unsigned long)limit, (unsigned long)r.time_ns, (unsigned long)optimum);
		/* With the optimum known nothing is left to find; stopped early, the bound still holds. */
		if (any || !r.found)
			continue;
		request.upper_time = optimum;
		ck_assert_ok(exact_search(&request, &arena, step, &r));
		ck_assert(!r.found && !r.gave_up && r.bound == optimum);
		request.upper_time = UINT64_MAX;
		request.max_work = 40;
		ck_assert_ok(exact_search(&request, &arena, step, &r));
		ck_assert(r.found || (r.gave_up && r.bound <= optimum));
	}
}

START_TEST(bounds_and_exact_search_against_all_schedules)
{
	uint32_t judged = 0, tight = 0, feasible = 0;
	for (int seed = 0; seed < GRAPHS; seed++) {
		struct dependence d;
		struct problem *p = training(seed, &d);
		uint64_t all = keep_all_peak(p), least, optimum;
		if (exhaustive_least_peak(p, MOST_STATES, &least)) {
			ck_assert_uint_le(bound_peak(&d), least);
			for (uint32_t i = 0; i <= BUDGETS; i++) {
				uint64_t limit = i ? least + (all - least) * (i - 1) / BUDGETS : least - 1;
				if (!exhaustive_least_time(p, limit, MOST_STATES, &optimum))
					continue;
				ck_assert_msg((optimum == UINT64_MAX) == !i, "seed %d: the judge is wrong", seed);
				compare(p, &d, limit, optimum, seed);
				judged++;
				feasible += i > 0;
				struct bound bound;
				ck_assert_ok(bound_find(&d, limit, UINT64_MAX, WORK, &arena, &bound));
				tight += i > 0 && bound.time_ns * 100 >= optimum * 90;
			}
		}
		host_arena_fini(&arena);
		host_arena_init(&arena);
	}
	printf("bounds: %u cases, %u of %u feasible ones within a tenth\n", judged, tight, feasible);
	ck_assert_uint_gt(judged, GRAPHS * BUDGETS / 2);
	/* A bound of nothing would hold as well. */
	ck_assert_uint_gt(tight * 2, feasible);
}
END_TEST

/* Least time with first runs in the order of numbers: distances over (ops that have run, live set), relaxed to the end.
 */
static uint64_t least_time_in_order(const struct problem *p, uint64_t limit)
{
	uint32_t sets = 1u << p->values;
	uint64_t *distance = HOST_ARRAY(&arena, (size_t)(p->ops + 1) * sets, uint64_t);
	uint64_t *bytes = HOST_ARRAY(&arena, sets, uint64_t);
	memset(distance, 0xff, (size_t)(p->ops + 1) * sets * sizeof *distance);
	for (uint32_t set = 0; set < sets; set++)
		for (uint32_t v = 0; v < p->values; v++)
			bytes[set] += set >> v & 1 ? p->value[v].bytes : 0;
	distance[0] = 0;
	for (uint32_t ran = 0; ran <= p->ops; ran++)
		for (bool changed = true; changed;) {
			changed = false;
			for (uint32_t set = sets; set-- > 0;) {
				uint64_t at = distance[(size_t)ran * sets + set];
				if (at == UINT64_MAX)
					continue;
				for (uint32_t v = 0; v < p->values; v++) {
					uint64_t *to = &distance[(size_t)ran * sets + (set & ~(1u << v))];
					if (set >> v & 1 && at < *to) {
						*to = at;
						changed = true;
					}
				}
				for (uint32_t o = 0; o <= ran && o < p->ops; o++) {
					uint32_t needs = 0, makes = 0;
					for (uint32_t i = 0; i < p->op[o].inputs; i++)
						needs |= 1u << problem_inputs(p, o)[i];
					for (uint32_t i = 0; i < p->op[o].outputs; i++)
						makes |= 1u << problem_outputs(p, o)[i];
					uint32_t after = set | makes;
					if (needs & ~set || makes & set || bytes[after] + p->op[o].workspace > limit)
						continue;
					uint64_t *to = &distance[(size_t)(ran + (o == ran)) * sets + after];
					if (at + p->op[o].cost_ns < *to) {
						*to = at + p->op[o].cost_ns;
						changed |= o < ran;
					}
				}
			}
		}
	uint64_t least = UINT64_MAX;
	for (uint32_t set = 0; set < sets; set++)
		if (distance[(size_t)p->ops * sets + set] < least)
			least = distance[(size_t)p->ops * sets + set];
	return least;
}

START_TEST(fixed_order_bound_against_all_schedules_in_that_order)
{
	for (int seed = 0; seed < GRAPHS; seed++) {
		struct testing_random random = { .state = (uint64_t)seed };
		struct problem *p = random_training_problem(&arena, &random, testing_between(&random, 2, 5));
		struct dependence d;
		ck_assert_ok(dependence_find(p, &arena, &d));
		uint64_t all = keep_all_peak(p), low = bound_peak(&d);
		for (uint32_t i = 0; i < 4 && d.needed_ops == p->ops; i++) {
			uint64_t limit = low + (all - low) * i / 4, optimum = least_time_in_order(p, limit);
			struct bound bound;
			ck_assert_ok(bound_find(&d, limit, UINT64_MAX, WORK, &arena, &bound));
			ck_assert_msg(optimum == UINT64_MAX ||
					      (!bound.infeasible_fixed_order && bound.time_fixed_order_ns <= optimum),
				      "seed %d limit %lu: bound %lu of %lu", seed, (unsigned long)limit,
				      (unsigned long)bound.time_fixed_order_ns, (unsigned long)optimum);
		}
		host_arena_fini(&arena);
		host_arena_init(&arena);
	}
}
END_TEST

/* Problems of real steps: take-overs, updates, several outputs. The bound holds for keeping all and for any limit. */
START_TEST(bounds_of_any_problem)
{
	struct testing_random random = { .state = (uint64_t)_i + 99 };
	struct problem *p = random_problem(&arena, &random, testing_between(&random, 0, 11));
	struct dependence d;
	struct bound bound;
	uint64_t least, optimum;
	ck_assert_ok(dependence_find(p, &arena, &d));
	if (!exhaustive_least_peak(p, MOST_STATES, &least))
		return;
	ck_assert_uint_le(bound_peak(&d), least);
	for (uint64_t limit = least; limit < 2 * least; limit += least / 4 + 64) {
		ck_assert(exhaustive_least_time(p, limit, MOST_STATES, &optimum));
		ck_assert_ok(bound_find(&d, limit, UINT64_MAX, WORK, &arena, &bound));
		ck_assert_msg(bound.time_ns <= optimum && !bound.infeasible, "problem %d", _i);
	}
}
END_TEST

/* min x0 + 3 x1 with x0 + x1 >= 1 and x0 <= 1/2: half of each, 2. */
START_TEST(linear_programme_with_a_known_value)
{
	struct linear_program lp;
	double bound = -1;
	linear_program_init(&lp, &arena);
	uint32_t x0 = linear_program_column(&lp, 1), x1 = linear_program_column(&lp, 3);
	linear_program_row(&lp, 1);
	linear_program_entry(&lp, x0, 1);
	linear_program_entry(&lp, x1, 1);
	linear_program_row(&lp, -0.5);
	linear_program_entry(&lp, x0, -1);
	ck_assert_ok(linear_program_bound(&lp, 1000000, 1e300, NULL, &bound));
	ck_assert_double_le(bound, 2);
	ck_assert_double_ge(bound, 1.999);
}
END_TEST

START_TEST(survives_lack_of_host_memory)
{
	struct dependence d;
	struct problem *p = training(5, &d);
	enum tarn_status st = TARN_ENOMEM;
	for (uint64_t request = 1; st; request++) {
		struct host_arena small;
		struct bound bound;
		host_arena_init(&small);
		small.fail_at = request;
		st = bound_find(&d, keep_all_peak(p) - 1, UINT64_MAX, 1000, &small, &bound);
		host_arena_fini(&small);
		ck_assert(st == TARN_OK || st == TARN_ENOMEM);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("bound");
	TCase *judged = tcase_create("judged");
	tcase_add_checked_fixture(judged, setup, teardown);
	tcase_set_timeout(judged, 300);
	tcase_add_test(judged, bounds_and_exact_search_against_all_schedules);
	tcase_add_test(judged, fixed_order_bound_against_all_schedules_in_that_order);
	tcase_add_loop_test(judged, bounds_of_any_problem, 0, 60);
	tcase_add_test(judged, linear_programme_with_a_known_value);
	tcase_add_test(judged, survives_lack_of_host_memory);
	suite_add_tcase(suite, judged);
	return testing_run(suite);
}
