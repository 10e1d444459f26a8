/*
 * test_loss_scale.c - float16 with a loss scale that adapts: what an overflow leaves untouched, growth, resumed runs,
 * and that no result depends on the plan.
 */
#include "conformance/single_op.h"
#include "support/testing.h"
#include "support/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the two ops ---- */

static void open_numbers(struct single_op *single, enum op_kind kind, const struct op_attr *attr, uint32_t inputs,
			 const float *value)
{
	const struct single_input number = { DTYPE_F32, 0, 1, { 1 } };
	struct single_input input[SINGLE_OP_INPUTS];
	const struct single_options options = { .threads = 1, .in_place = -1 };
	for (uint32_t i = 0; i < inputs; i++)
		input[i] = number;
	ck_assert_ok(single_op_open(single, driver_find("cpu"), kind, attr, input, inputs, &options));
	for (uint32_t i = 0; i < inputs; i++)
		ck_assert_ok(single_op_write(single, i, &value[i]));
	ck_assert_ok(single_op_launch(single));
}

static float number_at(struct single_op *single, uint32_t operand)
{
	float value;
	ck_assert_ok(single_op_read(single, operand, &value));
	return value;
}

/* loss scale 8, norm of the scaled gradients sqrt(16 + 48) = 8. */
START_TEST(gradients_are_unscaled_and_clipped)
{
	static const struct {
		float largest, squares, scale, norm;
	} wanted[] = {
		{ 0, 48, 0.125f, 1 },     /* no clipping */
		{ 2, 48, 0.125f, 1 },     /* short */
		{ 0.5f, 48, 0.0625f, 1 }, /* half of the norm */
		{ 0, INFINITY, 0, INFINITY }, { 1, NAN, 0, NAN },
	};
	const struct op_attr attr = { .alpha = wanted[_i].largest };
	const float value[] = { 8, 16, wanted[_i].squares };
	struct single_op single;
	open_numbers(&single, OP_UNSCALE, &attr, 3, value);
	ck_assert_double_eq_tol((double)number_at(&single, 3), (double)wanted[_i].scale, 1e-6);
	if (isfinite(wanted[_i].norm))
		ck_assert_double_eq_tol((double)number_at(&single, 4), (double)wanted[_i].norm, 1e-6);
	else
		ck_assert(!isfinite(number_at(&single, 4)));
	single_op_close(&single);
}
END_TEST

START_TEST(the_scale_adapts)
{
	static const struct {
		float before[3], scale, after[3];
	} wanted[] = {
		{ { 1024, 0, 0 }, 1, { 1024, 1, 0 } },
		{ { 1024, 4, 2 }, 1, { 2048, 0, 2 } },
		{ { 1024, 4, 2 }, 0, { 512, 0, 3 } },
		{ { LOSS_SCALE_LEAST, 1, 2 }, 0, { LOSS_SCALE_LEAST, 0, 3 } },
		{ { LOSS_SCALE_MOST, 4, 0 }, 1, { LOSS_SCALE_MOST, 0, 0 } },
	};
	const struct op_attr attr = { .samples = 5 };
	const float *before = wanted[_i].before, value[] = { before[0], before[1], before[2], wanted[_i].scale };
	struct single_op single;
	open_numbers(&single, OP_LOSS_SCALE, &attr, 4, value);
	for (uint32_t k = 0; k < 3; k++)
		ck_assert_float_eq(number_at(&single, k), wanted[_i].after[k]);
	single_op_close(&single);
}
END_TEST

/* ---- whole runs ---- */

/* Batch norm, Adam with clipping, averages of the weights; each step sees the same batch. */
static const char network[] = "data: {type: synthetic, shape: [8, 8, 3], classes: 10, batch: 16, samples: 16, "
			      "shuffle: false}\n"
			      "layers:\n"
			      "- conv2d: {name: conv, channels: 8, kernel: 3, padding: 1}\n"
			      "- batch_norm: {name: norm}\n"
			      "- relu\n"
			      "- conv2d: {name: second, channels: 8, kernel: 3, padding: 1}\n"
			      "- gelu\n"
			      "- flatten\n"
			      "- dense: {name: head, features: 10}\n"
			      "optimizer: {type: adam, learning_rate: 0.001, clip_norm: 1}\n"
			      "precision: {compute: float16, loss_scale: {growth_interval: 4}}\n"
			      "train: {seed: 3, epochs: 100, threads: 2, ema: 0.9}\n";

/* Gradients of this network overflow with the first of these scales, and not with the second. */
#define TOO_LARGE "precision.loss_scale.initial=1099511627776"
#define STEPS_TOO_MANY 64

static struct tarn_session *open_run(const char *scale, const char *more)
{
	const char *override[] = { scale, more };
	struct tarn_options options = { .config_text = network, .override = override, .overrides = more ? 2 : 1 };
	struct tarn_session *session;
	ck_assert_ok(tarn_open(&options, &session));
	return session;
}

static const struct {
	const char *name;
	uint64_t bytes;
} states[] = {
	{ "conv/weight", 8 * 3 * 3 * 3 * 4 },
	{ "optimizer/conv/weight/m", 8 * 3 * 3 * 3 * 4 },
	{ "optimizer/head/weight/v", 10 * 512 * 4 },
	{ "average/second/weight", 8 * 8 * 3 * 3 * 4 },
	{ "norm/running_mean", 8 * 4 },
	{ "norm/running_var", 8 * 4 },
	{ "norm/batches", 8 },
};
#define STATES (sizeof states / sizeof *states)

static void read_state(struct tarn_session *session, size_t i, unsigned char *value)
{
	ck_assert_ok(tarn_read_tensor(session, states[i].name, value, states[i].bytes));
}

START_TEST(an_overflow_changes_nothing_but_the_scale)
{
	static unsigned char before[STATES][10 * 512 * 4], after[10 * 512 * 4];
	struct tarn_session *session = open_run(TOO_LARGE, NULL);
	struct tarn_metrics metrics = { 0 };
	double scale = 0x1p40;
	for (size_t i = 0; i < STATES; i++)
		read_state(session, i, before[i]);
	ck_assert_ok(tarn_step(session, &metrics));
	ck_assert_uint_eq(metrics.skipped_steps, 1);
	for (uint64_t step = 1; metrics.skipped_steps == step; step++) {
		ck_assert_uint_lt(step, STEPS_TOO_MANY);
		scale /= 2;
		ck_assert_double_eq(metrics.loss_scale, scale);
		ck_assert(isfinite(metrics.loss));
		for (size_t i = 0; i < STATES; i++) {
			read_state(session, i, after);
			ck_assert_msg(!memcmp(before[i], after, states[i].bytes), "skipped step %llu changed %s",
				      (unsigned long long)step, states[i].name);
		}
		ck_assert_ok(tarn_step(session, &metrics));
	}
	for (size_t i = 0; i < STATES; i++) {
		read_state(session, i, after);
		ck_assert_msg(memcmp(before[i], after, states[i].bytes) != 0, "a good step left %s", states[i].name);
	}
	tarn_close(session);
}
END_TEST

/* The same batch every time: a run that skips its first steps equals one that begins with the scale found, bias
 * corrections included. */
START_TEST(skipped_steps_might_as_well_not_have_been)
{
	struct tarn_session *skipping = open_run(TOO_LARGE, NULL);
	struct tarn_metrics metrics = { 0 }, other = { 0 };
	static unsigned char one[10 * 512 * 4], two[10 * 512 * 4];
	uint64_t skipped = UINT64_MAX;
	char scale[80];
	do {
		skipped = metrics.skipped_steps;
		ck_assert_ok(tarn_step(skipping, &metrics));
	} while (metrics.skipped_steps != skipped);
	snprintf(scale, sizeof scale, "precision.loss_scale.initial=%.17g", metrics.loss_scale);
	struct tarn_session *plain = open_run(scale, NULL);
	ck_assert_ok(tarn_step(plain, &other));
	for (int step = 1; step < 10; step++) {
		ck_assert_double_eq(metrics.loss, other.loss);
		ck_assert_double_eq(metrics.loss_scale, other.loss_scale);
		ck_assert_uint_eq(metrics.skipped_steps, other.skipped_steps + skipped);
		ck_assert_ok(tarn_step(skipping, &metrics));
		ck_assert_ok(tarn_step(plain, &other));
	}
	for (size_t i = 0; i < STATES; i++) {
		read_state(skipping, i, one);
		read_state(plain, i, two);
		ck_assert_msg(!memcmp(one, two, states[i].bytes), "%s differs", states[i].name);
	}
	tarn_close(skipping);
	tarn_close(plain);
}
END_TEST

START_TEST(the_scale_grows)
{
	struct tarn_session *session = open_run("precision.loss_scale.initial=16", NULL);
	struct tarn_metrics metrics;
	for (int step = 1; step <= 12; step++) {
		ck_assert_ok(tarn_step(session, &metrics));
		ck_assert_double_eq(metrics.loss_scale, 16 * (1 << step / 4));
	}
	ck_assert_uint_eq(metrics.skipped_steps, 0);
	tarn_close(session);
}
END_TEST

/* Keep-all, and budgets down to the smallest, whole or in parts, with steps that are skipped among them. */
START_TEST(plans_change_no_bit)
{
	static const char *const parts[] = { "train.accumulate=1", "train.accumulate=3" };
	struct training training = { .text = network,
				     .override = { "precision.loss_scale.initial=1e10", parts[_i],
						   "train.microbatch_norm=allow" },
				     .steps = 24 };
	struct training_result free_run, result;
	ck_assert_ok(training_run(&training, &free_run));
	uint64_t low = free_run.info.min_budget_bytes, high = free_run.info.arena_bytes;
	for (uint64_t k = 0; k < 4; k++) {
		training.override[3] = training_budget(low + (high - low) * (k / 2) / 2);
		training.poison = k == 1;
		ck_assert_ok(training_run(&training, &result));
		ck_assert_msg(result.hash == free_run.hash, "%s, %s: other weights than keep-all", parts[_i],
			      training.override[3]);
	}
}
END_TEST

START_TEST(a_resumed_run_goes_on_with_its_scale)
{
	char path[512];
	struct tarn_session *whole = open_run(TOO_LARGE, NULL), *first = open_run(TOO_LARGE, NULL), *rest;
	struct tarn_metrics metrics, resumed;
	uint64_t hash[2];
	const char *override[] = { TOO_LARGE };
	snprintf(path, sizeof path, "%s/run.safetensors", testing_directory());
	const struct tarn_options options = {
		.config_text = network, .override = override, .overrides = 1, .resume_path = path
	};
	for (int step = 0; step < 30; step++)
		ck_assert_ok(tarn_step(whole, &metrics));
	ck_assert_uint_gt(metrics.skipped_steps, 0);
	for (int step = 0; step < 10; step++)
		ck_assert_ok(tarn_step(first, &resumed));
	ck_assert_ok(tarn_save(first, path));
	tarn_close(first);
	ck_assert_ok(tarn_open(&options, &rest));
	for (int step = 10; step < 30; step++)
		ck_assert_ok(tarn_step(rest, &resumed));
	ck_assert_double_eq(metrics.loss_scale, resumed.loss_scale);
	ck_assert_uint_eq(metrics.skipped_steps, resumed.skipped_steps);
	ck_assert_ok(tarn_weights_hash(whole, &hash[0]));
	ck_assert_ok(tarn_weights_hash(rest, &hash[1]));
	ck_assert_uint_eq(hash[0], hash[1]);
	tarn_close(whole);
	tarn_close(rest);
}
END_TEST

START_TEST(evaluation_knows_no_scale)
{
	struct tarn_session *session = open_run(TOO_LARGE, "data.test_samples=16");
	struct tarn_metrics metrics;
	struct tarn_evaluation before, after;
	float scale;
	ck_assert_ok(tarn_evaluate(session, &before));
	ck_assert_uint_eq(before.samples, 16);
	ck_assert(isfinite(before.loss));
	ck_assert_ok(tarn_read_tensor(session, "optimizer/loss_scale", &scale, sizeof scale));
	ck_assert_float_eq(scale, 0x1p40f);
	ck_assert_ok(tarn_step(session, &metrics)); /* skipped */
	ck_assert_ok(tarn_evaluate(session, &after));
	ck_assert_double_eq(before.loss, after.loss);
	tarn_close(session);
}
END_TEST

START_TEST(other_formats_have_none)
{
	struct tarn_session *session = open_run("precision.compute=bfloat16", NULL);
	struct tarn_metrics metrics;
	float scale;
	ck_assert_ok(tarn_step(session, &metrics));
	ck_assert(isnan(metrics.loss_scale));
	ck_assert_uint_eq(metrics.skipped_steps, 0);
	ck_assert_fails(tarn_read_tensor(session, "optimizer/loss_scale", &scale, sizeof scale), TARN_EINVAL,
			"no persistent tensor");
	tarn_close(session);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("loss_scale");
	TCase *ops = tcase_create("ops"), *runs = tcase_create("runs");
	tcase_add_loop_test(ops, gradients_are_unscaled_and_clipped, 0, 5);
	tcase_add_loop_test(ops, the_scale_adapts, 0, 5);
	tcase_set_timeout(runs, 120);
	tcase_add_test(runs, an_overflow_changes_nothing_but_the_scale);
	tcase_add_test(runs, skipped_steps_might_as_well_not_have_been);
	tcase_add_test(runs, the_scale_grows);
	tcase_add_loop_test(runs, plans_change_no_bit, 0, 2);
	tcase_add_test(runs, a_resumed_run_goes_on_with_its_scale);
	tcase_add_test(runs, evaluation_knows_no_scale);
	tcase_add_test(runs, other_formats_have_none);
	suite_add_tcase(suite, ops);
	suite_add_tcase(suite, runs);
	return testing_run(suite);
}
