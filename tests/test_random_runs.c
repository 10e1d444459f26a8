/*
 * test_random_runs.c - random networks with random settings in random budgets: planned, proved, and trained for three
 * steps with every dead range full of NaN, they have the bits of the plan that keeps everything.
 *
 * A part of the seeds here, more with TARN_TEST_SLOW; TARN_TEST_SEED=N runs that one.
 */
#include "support/random_network.h"
#include "support/testing.h"
#include "support/training.h"

#include <stdio.h>
#include <stdlib.h>

#define STEPS 3
#define FEW 16
#define MANY 2000

static uint64_t seed_of(int number)
{
	const char *given = getenv("TARN_TEST_SEED");
	return given ? strtoull(given, NULL, 10) : 7000 + (uint64_t)number;
}

/* In [low, high]. */
static uint64_t draw_budget(struct testing_random *random, uint64_t low, uint64_t high)
{
	return low + testing_bits(random) % (high - low + 1);
}

START_TEST(random_runs_have_the_bits_of_keep_all)
{
	char text[8192];
	uint64_t seed = seed_of(_i);
	struct testing_random random = { seed };
	struct training training = { .text = random_run(seed, text, sizeof text),
				     .override = { "memory.recompute=none" },
				     .steps = STEPS };
	struct training_result keep_all, result;
	enum tarn_status st = training_run(&training, &keep_all);
	ck_assert_msg(!st, "seed %llu: keep-all: %s\n%s", (unsigned long long)seed, tarn_error(), text);
	training.override[0] = "memory.budget=unlimited";
	ck_assert_ok(training_plan(&training, &result));
	uint64_t low = result.info.min_budget_bytes, high = result.info.arena_bytes;
	if (high < low)
		high = low;
	training.poison = true;
	for (int i = 0; i < 3; i++) {
		uint64_t budget = i ? draw_budget(&random, low, high) : low;
		training.override[0] = training_budget(budget);
		st = training_run(&training, &result);
		ck_assert_msg(!st, "seed %llu, %s: %s\n%s", (unsigned long long)seed, training.override[0],
			      tarn_error(), text);
		ck_assert_msg(result.hash == keep_all.hash, "seed %llu, %s: other weights than keep-all\n%s",
			      (unsigned long long)seed, training.override[0], text);
		ck_assert_uint_le(result.info.arena_bytes, budget);
		ck_assert_uint_le(result.touched_bytes, result.info.arena_bytes);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("random_runs");
	TCase *tcase = tcase_create("random_runs");
	int runs = getenv("TARN_TEST_SEED") ? 1 : getenv("TARN_TEST_SLOW") ? MANY : FEW;
	tcase_set_timeout(tcase, 300);
	tcase_add_loop_test(tcase, random_runs_have_the_bits_of_keep_all, 0, runs);
	suite_add_tcase(suite, tcase);
	return testing_run(suite);
}
