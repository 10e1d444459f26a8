/* run_checks.c - see run_checks.h. */
#include "support/run_checks.h"
#include "support/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FASHION_MNIST "/usr/share/datasets/fashion-mnist"
#define MOST_OVERRIDES 4u

static const char **free_override(struct training *training)
{
	uint32_t i = 0;
	while (i < TRAINING_MAX_OVERRIDES && training->override[i])
		i++;
	ck_assert_uint_lt(i, TRAINING_MAX_OVERRIDES);
	return &training->override[i];
}

void check_plans_keep_bits(struct training training, const char *what, struct training_result *least)
{
	static const char *const strategies[] = { "memory-poor", "sqrt", "speed", "min" };
	const char **plan = free_override(&training);
	struct training_result none, result;
	*plan = "memory.recompute=none";
	ck_assert_ok(training_run(&training, &none));
	for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
		char strategy[64];
		snprintf(strategy, sizeof strategy, "memory.recompute=%s", strategies[i]);
		*plan = strategy;
		ck_assert_ok(training_run(&training, &result));
		ck_assert_msg(result.hash == none.hash, "%s, %s", what, strategies[i]);
		ck_assert_uint_le(result.info.peak_bytes, none.info.peak_bytes);
	}
	uint64_t smallest = result.info.min_budget_bytes;
	ck_assert_uint_lt(smallest, none.info.peak_bytes);
	for (uint64_t i = 0; i < 3; i++) {
		uint64_t budget = smallest + (none.info.arena_bytes - smallest) * i / 3;
		*plan = training_budget(budget);
		training.poison = !i;
		ck_assert_ok(training_run(&training, &result));
		ck_assert_msg(result.hash == none.hash, "%s, %s", what, *plan);
		ck_assert_uint_le(result.touched_bytes, budget);
		if (!i)
			*least = result;
	}
}

void check_resumed_run(struct training training, uint64_t first, struct training_result *whole)
{
	char path[512];
	struct training_result rest;
	snprintf(path, sizeof path, "%s/run.safetensors", testing_directory());
	ck_assert_ok(training_run(&training, whole));
	ck_assert_ok(training_save_after(&training, first, path));
	training.resume = path;
	if (training.steps)
		training.steps -= first;
	ck_assert_ok(training_run(&training, &rest));
	ck_assert_uint_eq(whole->hash, rest.hash);
}

const char *accuracy_skipped(void)
{
	if (!getenv("TARN_TEST_SLOW"))
		return "slow: make check-slow";
	return access(FASHION_MNIST, R_OK) ? "Fashion-MNIST is not in " FASHION_MNIST : NULL;
}

double mean_accuracy(const char *const override[])
{
	static const char *const seeds[] = { "train.seed=1", "train.seed=2", "train.seed=3" };
	const char *all[MOST_OVERRIDES + 1];
	uint32_t count = 0;
	double sum = 0;
	for (; override[count]; count++) {
		ck_assert_uint_lt(count, MOST_OVERRIDES);
		all[count] = override[count];
		printf("%s ", override[count]);
	}
	for (int s = 0; s < 3; s++) {
		all[count] = seeds[s];
		const struct tarn_options options = {
			.config_text = "data: {type: idx, directory: " FASHION_MNIST ", batch: 128, mean: [0.2860], "
				       "std: [0.3530]}\nmodel: {family: mlp, depth: 2, width: 256}\n"
				       "optimizer: {type: adam, learning_rate: 0.001, schedule: {type: cosine}}\n"
				       "train: {epochs: 1, threads: 1}\n",
			.override = all,
			.overrides = count + 1
		};
		struct tarn_metrics metrics = { 0 };
		struct tarn_evaluation evaluation;
		struct tarn_session *session;
		ck_assert_ok(tarn_open(&options, &session));
		while (!metrics.finished)
			ck_assert_ok(tarn_step(session, &metrics));
		ck_assert_ok(tarn_evaluate(session, &evaluation));
		tarn_close(session);
		sum += 100 * evaluation.accuracy / 3;
	}
	printf("%.2f %%\n", sum);
	return sum;
}
