/*
 * test_plan_optimum.c - plans of random training steps of 16 to 40 ops against the true optimum, at seven budgets from
 * the least that any schedule fits to that of keeping everything.
 *
 * A few graphs here; TARN_TEST_SLOW=1 (make check-slow) judges many, and effort max as well. TARN_TEST_GRAPHS=N takes
 * the first N graphs, TARN_TEST_GRAPHS=A-B those from A to B - 1, so that a long run can be done in parts; it reports
 * as it goes, and ends after the last graph that began within TARN_TEST_CPU_SECONDS.
 */
#include "base/cpu_clock.h"
#include "planner/planner.h"
#include "support/random_problem.h"
#include "support/schedule_oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUDGETS 7u
#define MOST_STATES 2000000u
#define QUICK_GRAPHS 16
#define SLOW_GRAPHS 1000
#define REPORT_EVERY 20u

static struct host_arena arena;

struct tally {
	uint32_t cases, optimal, undecided, refused;
	double sum, *gap;
};

static enum tarn_status plan(const struct problem *p, uint64_t budget, uint32_t effort, uint64_t optimum,
			     struct planner_result *r)
{
	/* It may stop at the optimum: what else would it find? */
	struct planner_request request = { .problem = p,
					   .strategy = STRATEGY_AUTO,
					   .budget = budget,
					   .effort = effort,
					   .enough_time = optimum,
					   .sum_of_bytes = true,
					   .skip_least = true };
	return planner_run(&request, &arena, r);
}

static void judge(const struct problem *p, uint64_t budget, uint32_t effort, uint64_t optimum, int seed,
		  struct tally *tally)
{
	struct planner_result r;
	if (plan(p, budget, effort, optimum, &r)) {
		printf("seed %d effort %u: budget %lu refused\n", seed, effort, (unsigned long)budget);
		tally->refused++;
		return;
	}
	ck_assert_ok(schedule_check(p, &r.schedule));
	ck_assert_uint_le(r.expansion.peak_bytes, budget);
	ck_assert_msg(r.time_ns >= optimum && r.bound_ns <= optimum, "seed %d: the judge is wrong", seed);
	double gap = (double)r.time_ns / (double)optimum - 1;
	tally->sum += gap;
	tally->gap[tally->cases++] = gap;
	tally->optimal += r.time_ns == optimum;
	if (r.time_ns != optimum && getenv("TARN_TEST_SLOW"))
		printf("seed %d effort %u ops %u budget %lu: %lu for %lu\n", seed, effort, p->ops,
		       (unsigned long)budget, (unsigned long)r.time_ns, (unsigned long)optimum);
}

/* One below the least budget that the planner found must be impossible. */
static bool judge_least(const struct problem *p, uint64_t least, int seed, struct tally *tally)
{
	uint64_t time;
	if (!schedule_oracle(p, least - 1, MOST_STATES, &time))
		return false;
	tally->refused += time != UINT64_MAX;
	if (time != UINT64_MAX)
		printf("seed %d: less than %lu is possible\n", seed, (unsigned long)least);
	return true;
}

static void judge_graph(int seed, const uint32_t *effort, uint32_t efforts, struct tally *tally)
{
	struct testing_random random = { .state = (uint64_t)seed + 90000 };
	host_arena_init(&arena);
	struct problem *p = random_training_problem(&arena, &random, testing_between(&random, 8, 20));
	struct planner_request request = { .problem = p,
					   .strategy = STRATEGY_MIN,
					   .budget = UINT64_MAX,
					   .effort = EFFORT_NORMAL,
					   .sum_of_bytes = true };
	struct planner_result least;
	ck_assert_ok(planner_run(&request, &arena, &least));
	tally->undecided += !judge_least(p, least.min_budget, seed, tally);
	for (uint32_t i = 0; i < BUDGETS; i++) {
		uint64_t budget = least.min_budget + (least.none_peak - least.min_budget) * i / (BUDGETS - 1), optimum;
		if (!schedule_oracle(p, budget, MOST_STATES, &optimum)) {
			tally->undecided++;
			continue;
		}
		for (uint32_t e = 0; e < efforts; e++)
			judge(p, budget, effort[e], optimum, seed, &tally[e]);
	}
	host_arena_fini(&arena);
}

static int compare_gaps(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double report(const char *name, struct tally *t)
{
	qsort(t->gap, t->cases, sizeof *t->gap, compare_gaps);
	double percentile = t->cases ? t->gap[t->cases * 99 / 100] : 0;
	printf("%s: %u cases, %u optimal, %u refused, %u undecided; gap mean %.4f %%, 99th percentile %.3f %%, most "
	       "%.3f %%\n",
	       name, t->cases, t->optimal, t->refused, t->undecided, t->cases ? 100 * t->sum / t->cases : 0,
	       100 * percentile, t->cases ? 100 * t->gap[t->cases - 1] : 0);
	return percentile;
}

/* Graphs first to end - 1. */
struct range {
	int first, end;
};

static struct range range_asked(void)
{
	const char *asked = getenv("TARN_TEST_GRAPHS");
	struct range range = { 0, getenv("TARN_TEST_SLOW") ? SLOW_GRAPHS : QUICK_GRAPHS };
	if (!asked)
		return range;
	const char *end = strchr(asked, '-');
	range.first = end ? atoi(asked) : 0;
	range.end = atoi(end ? end + 1 : asked);
	ck_assert_msg(range.end > range.first, "TARN_TEST_GRAPHS=%s is neither a count nor FIRST-END", asked);
	return range;
}

/* Judges the range as far as the time allows, with a report every so often; the number of graphs. */
static uint32_t judge_range(struct range range, const uint32_t *effort, uint32_t efforts, struct tally *tally)
{
	const char *limit = getenv("TARN_TEST_CPU_SECONDS");
	uint32_t judged = 0;
	for (int seed = range.first; seed < range.end; seed++) {
		if (limit && cpu_clock_ms() > 1e3 * atof(limit))
			break;
		judge_graph(seed, effort, efforts, tally);
		if (++judged % REPORT_EVERY == 0 && seed + 1 < range.end) {
			printf("graphs %d to %d\n", range.first, seed);
			for (uint32_t e = 0; e < efforts; e++)
				report(effort[e] == EFFORT_MAX ? "max" : "normal", &tally[e]);
			fflush(stdout);
		}
	}
	return judged;
}

START_TEST(normal_effort_is_near_the_optimum)
{
	const uint32_t effort[] = { EFFORT_NORMAL, EFFORT_MAX };
	bool slow = getenv("TARN_TEST_SLOW");
	struct range range = range_asked();
	struct tally tally[2] = { 0 };
	for (uint32_t e = 0; e < 2; e++)
		tally[e].gap = malloc((size_t)(range.end - range.first) * BUDGETS * sizeof *tally[e].gap);
	uint32_t count = judge_range(range, effort, slow ? 2 : 1, tally);
	double percentile = report("normal", &tally[0]);
	ck_assert_uint_gt(tally[0].cases, count * BUDGETS / 2);
	ck_assert_uint_eq(tally[0].refused, 0);
	ck_assert_double_le(tally[0].sum / tally[0].cases, 0.002);
	ck_assert_double_le(percentile, 0.01);
	if (slow) {
		report("max", &tally[1]);
		ck_assert_uint_eq(tally[1].optimal, tally[1].cases);
	}
	for (uint32_t e = 0; e < 2; e++)
		free(tally[e].gap);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("plan_optimum");
	TCase *optimum = tcase_create("optimum");
	tcase_set_timeout(optimum, 36000);
	tcase_add_test(optimum, normal_effort_is_near_the_optimum);
	suite_add_tcase(suite, optimum);
	return testing_run(suite);
}
