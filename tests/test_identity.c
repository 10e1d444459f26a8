/*
 * test_identity.c - same numbers whatever the plan: weights after 20 steps are bit-identical over all strategies and
 * budgets, although the plans differ and recompute batch norm and dropout.
 */
#include "support/testing.h"
#include "support/training.h"

#include <stdio.h>
#include <string.h>

#define STEPS training_steps(20)
#define BUDGETS 8

static const struct network_case {
	const char *name, *text, *keep;
	bool batch_norm, dropout;
} networks[] = {
	{ "residual", training_residual, "memory.keep=[block*/a]", true, true },
	{ "tied", training_tied, "memory.keep=[shared]", false, true },
	{ "frozen", training_frozen, "memory.keep=[part*/conv]", true, true },
	{ "unet", training_unet, "memory.keep=[f*]", true, false },
	{ "gpt", training_gpt, "memory.keep=[block*/out]", false, true },
	{ "lstm", training_lstm, "memory.keep=[lstm/*/cell]", false, false },
};

static const char *const strategies[] = { "memory-poor", "sqrt",       "memory", "speed",
					  "manual",      "collection", "auto",   "min" };

static void assert_same(const struct network_case *network, const struct training_result *expected,
			const struct training_result *result, const char *what)
{
	ck_assert_msg(result->hash == expected->hash, "%s, %s: weights %016llx, keep-all has %016llx", network->name,
		      what, (unsigned long long)result->hash, (unsigned long long)expected->hash);
	ck_assert_msg(result->info.peak_bytes <= expected->info.peak_bytes, "%s, %s: peak %llu above keep-all's %llu",
		      network->name, what, (unsigned long long)result->info.peak_bytes,
		      (unsigned long long)expected->info.peak_bytes);
	ck_assert_uint_le(result->touched_bytes, result->info.arena_bytes);
}

START_TEST(all_strategies_give_the_same_weights)
{
	const struct network_case *network = &networks[_i];
	struct training training = { .text = network->text, .override = { "memory.recompute=none" }, .steps = STEPS };
	struct training_result none, result;
	ck_assert_ok(training_run(&training, &none));
	for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
		char text[64];
		snprintf(text, sizeof text, "memory.recompute=%s", strategies[i]);
		bool manual = !strcmp(strategies[i], "manual") || !strcmp(strategies[i], "collection");
		training.override[0] = text;
		training.override[1] = manual ? network->keep : NULL;
		ck_assert_ok(training_run(&training, &result));
		assert_same(network, &none, &result, strategies[i]);
	}
}
END_TEST

START_TEST(all_budgets_give_the_same_weights)
{
	const struct network_case *network = &networks[_i];
	struct training training = { .text = network->text, .steps = STEPS };
	struct training_result free_run, result;
	uint64_t checksum[BUDGETS + 1], distinct = 0;
	bool batch_norm = false, dropout = false;
	ck_assert_ok(training_run(&training, &free_run));
	checksum[0] = free_run.info.plan_checksum;
	uint64_t low = free_run.info.min_budget_bytes;
	uint64_t high = free_run.info.overhead_bytes + free_run.info.reserve_bytes + free_run.info.arena_bytes;
	for (uint64_t i = 0; i < BUDGETS; i++) {
		uint64_t budget = low + (high - low) * i / BUDGETS;
		training.override[0] = training_budget(budget);
		ck_assert_ok(training_run(&training, &result));
		assert_same(network, &free_run, &result, training.override[0]);
		ck_assert_uint_le(result.info.arena_bytes, budget);
		batch_norm |= strstr(result.recomputed, "batch_") != NULL;
		dropout |= strstr(result.recomputed, "dropout") != NULL;
		checksum[i + 1] = result.info.plan_checksum;
		bool seen = false;
		for (uint64_t k = 0; k <= i; k++)
			seen |= checksum[k] == checksum[i + 1];
		distinct += !seen;
	}
	ck_assert_msg(distinct >= 5, "%s: only %llu plans differ", network->name, (unsigned long long)distinct);
	ck_assert_msg(batch_norm || !network->batch_norm, "%s: no plan recomputes a batch norm", network->name);
	ck_assert_msg(dropout || !network->dropout, "%s: no plan recomputes a dropout", network->name);
}
END_TEST

/* The caller may give the arena's memory; an odd address changes nothing. */
START_TEST(a_callers_arena_gives_the_same_weights)
{
	static unsigned char memory[8 << 20];
	struct training training = { .text = training_residual, .steps = 5 };
	struct training_result own, given;
	if (training_driver())
		TESTING_SKIP("the arena of a device with memory of its own is never the caller's");
	ck_assert_ok(training_run(&training, &own));
	training.arena = memory + 13;
	training.arena_bytes = own.info.arena_bytes + 63;
	ck_assert_uint_lt(training.arena_bytes + 13, sizeof memory);
	memset(memory, 0x5A, sizeof memory);
	ck_assert_ok(training_run(&training, &given));
	ck_assert_uint_eq(own.hash, given.hash);
	for (size_t i = 0; i < 13; i++)
		ck_assert_uint_eq(memory[i], 0x5A);
	for (size_t i = 13 + training.arena_bytes; i < sizeof memory; i++)
		ck_assert_uint_eq(memory[i], 0x5A);
	training.arena_bytes = own.info.arena_bytes - 1;
	ck_assert_fails(training_run(&training, &given), TARN_EBUDGET, "arena");
}
END_TEST

/* Dead ranges full of NaN change nothing: no instruction reads what it should not. */
START_TEST(poisoned_dead_ranges_change_nothing)
{
	const struct network_case *network = &networks[_i];
	struct training training = { .text = network->text, .steps = STEPS };
	struct training_result clean, poisoned;
	ck_assert_ok(training_run(&training, &clean));
	training.poison = true;
	training.override[0] = training_budget(clean.info.min_budget_bytes);
	ck_assert_ok(training_run(&training, &poisoned));
	ck_assert_uint_gt(poisoned.info.recomputed_ops, 0);
	ck_assert_uint_eq(clean.hash, poisoned.hash);
}
END_TEST

/* The seed matters: the comparison above would not notice a hash that is always the same. */
START_TEST(another_seed_gives_other_weights)
{
	struct training training = { .text = training_residual, .override = { "train.seed=4" }, .steps = 2 };
	struct training_result a, b;
	ck_assert_ok(training_run(&training, &a));
	training.override[0] = "train.seed=5";
	ck_assert_ok(training_run(&training, &b));
	ck_assert_uint_ne(a.hash, b.hash);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("identity");
	TCase *strategy = tcase_create("strategies"), *budget = tcase_create("budgets"), *other = tcase_create("other");
	int count = sizeof networks / sizeof *networks;
	tcase_set_timeout(strategy, 300);
	tcase_set_timeout(budget, 300);
	tcase_set_timeout(other, 60);
	tcase_add_loop_test(strategy, all_strategies_give_the_same_weights, 0, count);
	tcase_add_loop_test(budget, all_budgets_give_the_same_weights, 0, count);
	tcase_add_loop_test(other, poisoned_dead_ranges_change_nothing, 0, count);
	tcase_add_test(other, a_callers_arena_gives_the_same_weights);
	tcase_add_test(other, another_seed_gives_other_weights);
	suite_add_tcase(suite, strategy);
	suite_add_tcase(suite, budget);
	suite_add_tcase(suite, other);
	return testing_run(suite);
}
