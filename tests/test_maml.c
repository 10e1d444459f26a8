/*
 * test_maml.c - meta-learning as a run: tasks that are drawn, the same weights for every plan, memory of inner steps,
 * and that it learns. The gradient itself is tested in grad/test_maml.c.
 */
#include "data/episodes.h"
#include "support/run_checks.h"
#include "support/testing.h"
#include "support/training.h"

#include <stdio.h>
#include <string.h>

static const char text[] = "data: {type: synthetic, shape: [6, 6, 1], classes: 6, samples: 120, test_samples: 90}\n"
			   "layers:\n"
			   "- conv2d: {channels: 4, kernel: 3}\n"
			   "- batch_norm\n"
			   "- relu\n"
			   "- dropout: 0.1\n"
			   "- max_pool: 2\n"
			   "- flatten\n"
			   "- dense: 3\n"
			   "objective: {type: maml, ways: 3, shots: 2, queries: 3, tasks: 2, inner_steps: 2, "
			   "inner_rate: 0.3}\n"
			   "optimizer: {type: adam, learning_rate: 1e-2}\n"
			   "train: {seed: 3, threads: 1, epochs: 10}\n";

/* ---- tasks ---- */

static struct host_arena arena;

static void open_episodes(const char *objective, enum data_split split, struct dataset *dataset, struct episodes *e)
{
	static struct config config;
	const char *const override[] = { objective };
	host_arena_init(&arena);
	ck_assert_ok(config_parse(text, strlen(text), "test", override, 1, &arena, &config));
	ck_assert_ok(dataset_open(&config, split, &arena, dataset));
	ck_assert_ok(episodes_open(&config, dataset, split, &arena, e));
}

/* Each task: classes that differ, samples that differ, numbered anew in the order that is promised. */
START_TEST(tasks_are_what_they_should_be)
{
	struct dataset dataset;
	struct episodes e;
	uint32_t sample[30], again[30], seen_classes = 0;
	int32_t label[30];
	open_episodes("objective.test_classes=0", SPLIT_TRAIN, &dataset, &e);
	ck_assert_uint_eq(episodes_samples(&e), 30);
	for (uint32_t step = 0; step < 50; step++) {
		episodes_draw(&e, step, sample, label);
		for (uint32_t task = 0; task < 2; task++) {
			int32_t class[3] = { -1, -1, -1 };
			for (uint32_t i = 15 * task; i < 15 * task + 15; i++) {
				uint32_t place = i % 15, w = place < 6 ? place / 2 : (place - 6) / 3;
				ck_assert_int_eq(label[i], (int)w);
				if (class[w] < 0)
					class[w] = dataset.labels[sample[i]];
				ck_assert_int_eq(dataset.labels[sample[i]], class[w]);
				seen_classes |= 1u << class[w];
				for (uint32_t k = 15 * task; k < i; k++)
					ck_assert_uint_ne(sample[i], sample[k]);
			}
			ck_assert(class[0] != class[1] && class[0] != class[2] && class[1] != class[2]);
		}
	}
	ck_assert_uint_eq(seen_classes, 63);
	episodes_draw(&e, 7, sample, label);
	episodes_draw(&e, 8, again, label);
	ck_assert_mem_ne(sample, again, sizeof sample);
	episodes_draw(&e, 7, again, label);
	ck_assert_mem_eq(sample, again, sizeof sample);
	host_arena_fini(&arena);
}
END_TEST

START_TEST(classes_of_evaluation_are_kept_apart)
{
	for (int split = SPLIT_TRAIN; split <= SPLIT_TEST; split++) {
		struct dataset dataset;
		struct episodes e;
		uint32_t sample[30];
		int32_t label[30];
		open_episodes("objective.test_classes=3", (enum data_split)split, &dataset, &e);
		for (uint32_t step = 0; step < 20; step++) {
			episodes_draw(&e, step, sample, label);
			for (uint32_t i = 0; i < 30; i++)
				ck_assert((dataset.labels[sample[i]] >= 3) == (split == SPLIT_TEST));
		}
		host_arena_fini(&arena);
	}
}
END_TEST

static enum tarn_status open_with(const char *first, const char *second, struct tarn_session **session)
{
	const char *override[] = { first, second };
	struct tarn_options options = { .config_text = text, .override = override, .overrides = second ? 2 : 1 };
	return tarn_open(&options, session);
}

START_TEST(what_cannot_be_is_refused)
{
	struct tarn_session *session;
	ck_assert_fails(open_with("objective.queries=60", NULL, &session), TARN_EDATA,
			"objective.ways is 3, but of the 6 classes of the training tasks only 0 have the 62 samples");
	ck_assert_fails(open_with("objective.test_classes=2", NULL, &session), TARN_EDATA,
			"of the 2 classes of the evaluation tasks only 2");
	ck_assert_fails(open_with("network.loss=mse", NULL, &session), TARN_EINVAL, "maml needs data with one label");
	ck_assert_fails(open_with("objective.ways=4", NULL, &session), TARN_EINVAL, "needs 8x4");
	ck_assert_fails(open_with("data.batch=8", NULL, &session), TARN_EINVAL,
			"has no effect with objective.type: maml");
	ck_assert_fails(open_with("precision.compute=bfloat16", NULL, &session), TARN_EUNSUPPORTED,
			"computes in float32");
	ck_assert_fails(open_with("objective.tasks=60000", NULL, &session), TARN_EINVAL, "too many instances");
}
END_TEST

/* ---- plans ---- */

START_TEST(plans_give_the_same_weights)
{
	char order[32];
	const struct training training = { .text = text, .override = { order }, .steps = 4 };
	struct training_result least;
	snprintf(order, sizeof order, "objective.order=%d", _i);
	check_plans_keep_bits(training, order, &least);
	ck_assert(_i == 1 || least.info.recomputed_ops > 0);
}
END_TEST

/* Keep-all grows with each inner step by what the report says, in one fixed budget they are computed again. */
START_TEST(inner_steps_cost_what_the_plan_says)
{
	char steps[48];
	struct training training = { .text = text, .override = { steps, "memory.recompute=none" } };
	struct training_result result;
	uint64_t peak[4];
	for (uint32_t k = 1; k <= 4; k++) {
		snprintf(steps, sizeof steps, "objective.inner_steps=%u", k);
		ck_assert_ok(training_plan(&training, &result));
		peak[k - 1] = result.info.peak_bytes;
	}
	double growth = (double)(peak[3] - peak[1]) / 2;
	ck_assert_msg((double)result.info.inner_step_bytes > 0.7 * growth &&
			      (double)result.info.inner_step_bytes < 1.3 * growth,
		      "a step takes %.0f bytes, the plan says %llu", growth,
		      (unsigned long long)result.info.inner_step_bytes);
	training.override[1] = training_budget(peak[1]);
	ck_assert_ok(training_plan(&training, &result));
	ck_assert_uint_gt(result.info.recomputed_ops, 0);
	/* Too small for many: the sentence says how many fit, and so many do. */
	snprintf(steps, sizeof steps, "objective.inner_steps=14");
	training.override[1] = training_budget(result.info.min_budget_bytes);
	ck_assert_fails(training_plan(&training, &result), TARN_EBUDGET, " is the most that fits");
	unsigned fits = 0;
	const char *found = strstr(tarn_error(), "objective.inner_steps: ");
	ck_assert_int_eq(sscanf(found, "objective.inner_steps: %u", &fits), 1);
	ck_assert_uint_ge(fits, 4);
	snprintf(steps, sizeof steps, "objective.inner_steps=%u", fits);
	ck_assert_ok(training_plan(&training, &result));
	training.override[1] = "memory.budget=8KiB";
	ck_assert_fails(training_plan(&training, &result), TARN_EBUDGET, "not even objective.inner_steps: 1 fits");
}
END_TEST

/* ---- runs ---- */

/* From an initialisation that was trained for it, two steps on a new task do better than at the start. */
START_TEST(it_learns_to_learn)
{
	struct tarn_evaluation before, after;
	struct tarn_metrics metrics = { 0 };
	struct tarn_session *session;
	char path[256];
	ck_assert_ok(open_with("train.epochs=20", _i ? "objective.learn_rates=true" : "objective.order=1", &session));
	ck_assert_ok(tarn_evaluate(session, &before));
	while (!metrics.finished)
		ck_assert_ok(tarn_step(session, &metrics));
	ck_assert_ok(tarn_evaluate(session, &after));
	ck_assert_msg(after.loss < 0.8 * before.loss && after.accuracy > before.accuracy,
		      "loss %g then %g, accuracy %g then %g", before.loss, after.loss, before.accuracy, after.accuracy);
	snprintf(path, sizeof path, "%s/meta.safetensors", testing_directory());
	ck_assert_ok(tarn_save(session, path));
	tarn_close(session);
}
END_TEST

START_TEST(a_resumed_run_goes_on_the_same)
{
	const struct training training = { .text = text, .steps = 9 };
	struct training_result whole;
	check_resumed_run(training, 5, &whole);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("maml");
	TCase *tasks = tcase_create("tasks"), *plans = tcase_create("plans"), *runs = tcase_create("runs");
	tcase_set_timeout(tasks, 30);
	tcase_set_timeout(plans, 120);
	tcase_set_timeout(runs, 120);
	tcase_add_test(tasks, tasks_are_what_they_should_be);
	tcase_add_test(tasks, classes_of_evaluation_are_kept_apart);
	tcase_add_test(tasks, what_cannot_be_is_refused);
	tcase_add_loop_test(plans, plans_give_the_same_weights, 1, 3);
	tcase_add_test(plans, inner_steps_cost_what_the_plan_says);
	tcase_add_loop_test(runs, it_learns_to_learn, 0, 2);
	tcase_add_test(runs, a_resumed_run_goes_on_the_same);
	suite_add_tcase(suite, tasks);
	suite_add_tcase(suite, plans);
	suite_add_tcase(suite, runs);
	return testing_run(suite);
}
