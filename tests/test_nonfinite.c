/*
 * test_nonfinite.c - steps whose loss or gradient is NaN or infinite: the op where it began is named, the parameters
 * are those before the step, and a run that skips a bad batch equals one that never had it.
 */
#include "session.h"
#include "support/testing.h"
#include "support/training.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FEATURES 4
#define SAMPLES 6

/* Plain gradient descent: what a step does depends on its batch alone, not on its number. */
static const char network[] = "layers:\n"
			      "- dense: {name: first, features: 5}\n"
			      "- tanh\n"
			      "- dense: {name: last, features: 2}\n"
			      "network: {loss: mean_squared_error}\n"
			      "optimizer: {type: sgd, learning_rate: 0.1}\n"
			      "train: {epochs: 2, threads: 1}\n";

/* A version 1 npy file of float32 numbers. */
static void write_npy(const char *name, uint32_t rows, uint32_t columns, const float *data)
{
	unsigned char file[1024] = "\x93NUMPY\x01";
	char header[118 + 1];
	size_t bytes = (size_t)rows * columns * sizeof(float);
	int length = snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (%u, %u), }",
			      rows, columns);
	memset(header + length, ' ', sizeof header - 1 - (size_t)length);
	header[117] = '\n';
	file[8] = 118;
	memcpy(file + 10, header, 118);
	ck_assert_uint_le(128 + bytes, sizeof file);
	memcpy(file + 128, data, bytes);
	testing_file(name, file, 128 + bytes);
}

/* x.npy and y.npy: SAMPLES samples, and one whose target is `bad` before sample `at`; SAMPLES: none. */
static void write_data(uint32_t at, float bad)
{
	struct testing_random random = { 5 };
	float x[SAMPLES + 1][FEATURES], y[SAMPLES + 1][2];
	uint32_t rows = 0;
	for (uint32_t i = 0; i < SAMPLES; i++) {
		if (i == at) {
			for (int k = 0; k < FEATURES; k++)
				x[rows][k] = 1;
			y[rows][0] = y[rows][1] = bad;
			rows++;
		}
		for (int k = 0; k < FEATURES; k++)
			x[rows][k] = testing_float(&random);
		y[rows][0] = testing_float(&random);
		y[rows++][1] = testing_float(&random);
	}
	write_npy("x.npy", rows, FEATURES, x[0]);
	write_npy("y.npy", rows, 2, y[0]);
}

static struct tarn_session *open_session(const char *layers, const char *policy)
{
	char text[1024], override[64];
	snprintf(text, sizeof text,
		 "data: {type: npy, directory: %s, train_inputs: x.npy, train_labels: y.npy, test_inputs: '', "
		 "test_labels: '', batch: 1, shuffle: false}\n%s",
		 testing_directory(), layers);
	snprintf(override, sizeof override, "train.on_nonfinite=%s", policy);
	const char *overrides[] = { override };
	struct tarn_options options = { .config_text = text, .override = overrides, .overrides = 1 };
	struct tarn_session *session = NULL;
	ck_assert_ok(tarn_open(&options, &session));
	return session;
}

struct weights {
	float first[5 * FEATURES], first_bias[5], last[2 * 5], last_bias[2];
};

static void read_weights(struct tarn_session *session, struct weights *w)
{
	ck_assert_ok(tarn_read_tensor(session, "first/weight", w->first, sizeof w->first));
	ck_assert_ok(tarn_read_tensor(session, "first/bias", w->first_bias, sizeof w->first_bias));
	ck_assert_ok(tarn_read_tensor(session, "last/weight", w->last, sizeof w->last));
	ck_assert_ok(tarn_read_tensor(session, "last/bias", w->last_bias, sizeof w->last_bias));
}

static void assert_same(const struct weights *a, const struct weights *b)
{
	ck_assert(!memcmp(a, b, sizeof *a));
}

/* The oracle of skipping: the same samples without the bad one, the same bits. */
START_TEST(a_skipped_batch_is_as_if_it_had_not_been_there)
{
	static const float bad[] = { 3e38f, -3e38f };
	struct weights skipped, without;
	struct tarn_metrics metrics;
	uint32_t skips = 0;
	write_data(2, bad[_i]);
	struct tarn_session *session = open_session(network, "skip");
	for (uint32_t i = 1; i <= 2 * (SAMPLES + 1); i++) {
		ck_assert_ok(tarn_step(session, &metrics));
		ck_assert_uint_eq(metrics.step, i);
		ck_assert_int_eq(metrics.skipped, (i - 1) % (SAMPLES + 1) == 2);
		ck_assert_int_eq(metrics.skipped, metrics.nonfinite != NULL);
		if (metrics.skipped)
			ck_assert_msg(strstr(metrics.nonfinite, "by op mean_squared_error") != NULL, "%s",
				      metrics.nonfinite);
		skips += metrics.skipped;
	}
	ck_assert_uint_eq(skips, 2);
	ck_assert_int_eq(metrics.finished, 1);
	read_weights(session, &skipped);
	tarn_close(session);

	write_data(SAMPLES, 0);
	session = open_session(network, "skip");
	for (metrics.finished = false; !metrics.finished;)
		ck_assert_ok(tarn_step(session, &metrics));
	read_weights(session, &without);
	tarn_close(session);
	assert_same(&skipped, &without);
}
END_TEST

/* A weight that is infinite from the start spoils the op that reads it; before that everything is well. */
START_TEST(the_first_op_is_named_and_the_parameters_stay)
{
	static const char *const policies[] = { "stop", "skip" };
	struct weights before, after;
	struct tarn_metrics metrics;
	write_data(SAMPLES, 0);
	struct tarn_session *session = open_session(network, policies[_i]);
	read_weights(session, &before);
	/* Each is finite, but the sum of five products is not: tanh is near 1 with a large bias before it. */
	for (size_t i = 0; i < 5; i++)
		before.first_bias[i] = 100;
	for (size_t i = 0; i < 10; i++)
		before.last[i] = 3e38f;
	ck_assert_ok(tarn_write_tensor(session, "first/bias", before.first_bias, sizeof before.first_bias));
	ck_assert_ok(tarn_write_tensor(session, "last/weight", before.last, sizeof before.last));
	enum tarn_status st = tarn_step(session, &metrics);
	ck_assert_int_eq(st, _i ? TARN_OK : TARN_EDIVERGED);
	const char *sentence = st ? tarn_error() : metrics.nonfinite;
	ck_assert_ptr_nonnull(sentence);
	ck_assert_msg(strstr(sentence, "the loss is not finite") && strstr(sentence, "is last, by op matmul"), "%s",
		      sentence);
	read_weights(session, &after);
	assert_same(&before, &after);
	tarn_close(session);
}
END_TEST

/* 100 skips in a row end a run that learns nothing any more. */
START_TEST(a_run_that_only_skips_ends)
{
	struct tarn_metrics metrics;
	write_data(SAMPLES, 0);
	struct tarn_session *session = open_session(network, "skip");
	const float bias[] = { INFINITY, 0 };
	uint32_t steps = 0;
	enum tarn_status st;
	ck_assert_ok(tarn_write_tensor(session, "last/bias", bias, sizeof bias));
	session->total_steps = 1000;
	session->config.train.epochs = 0;
	session->config.train.max_steps = 1000;
	while ((st = tarn_step(session, &metrics)) == TARN_OK && !metrics.finished)
		steps++;
	ck_assert_int_eq(st, TARN_EDIVERGED);
	ck_assert_uint_eq(steps, 99);
	ck_assert_msg(strstr(tarn_error(), "100 th step in a row") && strstr(tarn_error(), "last/bias was not"), "%s",
		      tarn_error());
	tarn_close(session);
}
END_TEST

/* Inputs of 1e25 under a loss of 1e32: the loss is a number, the gradient of the weight is not. */
static void write_steep_data(void)
{
	const float x[FEATURES] = { 1e25f, 1e25f, 1e25f, 1e25f }, y[2] = { 1e16f, 1e16f };
	write_npy("x.npy", 1, FEATURES, x);
	write_npy("y.npy", 1, 2, y);
}

START_TEST(a_gradient_is_found_though_the_loss_is_finite)
{
	static const char *const policies[] = { "skip", "stop", "continue" };
	const float zero[2 * FEATURES] = { 0 };
	float weight[2 * FEATURES];
	struct tarn_metrics metrics;
	write_steep_data();
	struct tarn_session *session = open_session("layers:\n- dense: {name: only, features: 2}\n"
						    "network: {loss: mean_squared_error}\n"
						    "optimizer: {type: sgd, learning_rate: 0.1}\n"
						    "train: {epochs: 2, threads: 1}\n",
						    policies[_i]);
	ck_assert_ok(tarn_write_tensor(session, "only/weight", zero, sizeof zero));
	ck_assert_ok(tarn_step(session, &metrics));
	ck_assert_int_eq(isfinite(metrics.loss), 1);
	if (_i == 0) { /* at once, and undone */
		ck_assert_int_eq(metrics.skipped, 1);
		ck_assert_msg(strstr(metrics.nonfinite, "the step makes only/weight not finite") &&
				      strstr(metrics.nonfinite, "only/gradient_weight, by op matmul"),
			      "%s", metrics.nonfinite);
		ck_assert_ok(tarn_read_tensor(session, "only/weight", weight, sizeof weight));
		ck_assert(!memcmp(weight, zero, sizeof zero));
	} else if (_i == 1) { /* when the loss shows it */
		ck_assert_ptr_null(metrics.nonfinite);
		ck_assert_fails(tarn_step(session, &metrics), TARN_EDIVERGED, "only/weight was not before this step");
	} else {
		ck_assert_ok(tarn_step(session, &metrics));
		ck_assert_msg(strstr(metrics.nonfinite, "only/weight was not before this step") != NULL, "%s",
			      metrics.nonfinite);
		ck_assert_int_eq(metrics.skipped, 0);
		ck_assert_int_eq(metrics.finished, 1);
	}
	tarn_close(session);
}
END_TEST

/* With clipping the norm shows it in its own step, before anything is changed. */
START_TEST(the_norm_of_the_gradient_is_watched)
{
	const float zero[2 * FEATURES] = { 0 };
	float weight[2 * FEATURES];
	struct tarn_metrics metrics;
	write_steep_data();
	struct tarn_session *session = open_session("layers:\n- dense: {name: only, features: 2}\n"
						    "network: {loss: mean_squared_error}\n"
						    "optimizer: {type: sgd, learning_rate: 0.1, clip_norm: 1}\n"
						    "train: {epochs: 2, threads: 1}\n",
						    "stop");
	ck_assert_ok(tarn_write_tensor(session, "only/weight", zero, sizeof zero));
	ck_assert_fails(tarn_step(session, &metrics), TARN_EDIVERGED, "the norm of the gradient is not finite");
	ck_assert_msg(strstr(tarn_error(), "only/gradient_weight, by op matmul") != NULL, "%s", tarn_error());
	ck_assert_ok(tarn_read_tensor(session, "only/weight", weight, sizeof weight));
	ck_assert(!memcmp(weight, zero, sizeof zero));
	tarn_close(session);
}
END_TEST

/* In healthy steps of all kinds of networks the trace finds nothing, and changes nothing that lasts. */
static const char *const healthy[] = { training_residual, training_tied, training_average, training_frozen,
				       training_unet,     training_gpt,  training_lstm,    training_convbn };

START_TEST(a_trace_of_a_healthy_step_finds_nothing)
{
	struct tarn_options options = { .config_text = healthy[_i] };
	struct tarn_session *session = NULL;
	struct tarn_metrics metrics;
	uint32_t number = 0, output;
	uint64_t element, before, after;
	ck_assert_ok(tarn_open(&options, &session));
	uint32_t end = session->plan.program[0].instructions;
	for (int i = 0; i < 3; i++)
		ck_assert_ok(tarn_step(session, &metrics));
	ck_assert_uint_eq(session->plan.program[0].batch, metrics.samples);
	ck_assert_ok(tarn_weights_hash(session, &before));
	ck_assert_ok(nonfinite_trace(session->nonfinite, 0, end, &number, &output, &element));
	ck_assert_msg(number == end, "instruction %u of %u", number, end);
	ck_assert_ok(tarn_weights_hash(session, &after));
	ck_assert_uint_eq(before, after);
	/* The halves of a step are its whole. */
	ck_assert_uint_gt(session->nonfinite->first_update[0], 0);
	ck_assert_uint_lt(session->nonfinite->first_update[0], end);
	tarn_close(session);
}
END_TEST

/* The policies are the same run as long as nothing happens. */
START_TEST(a_healthy_run_does_not_depend_on_the_policy)
{
	static const char *const policies[] = { "train.on_nonfinite=skip", "train.on_nonfinite=continue" };
	struct training training = { .text = healthy[_i], .steps = 2 };
	struct training_result stop, other;
	ck_assert_ok(training_run(&training, &stop));
	for (int i = 0; i < 2; i++) {
		training.override[0] = policies[i];
		training.override[1] = training_budget(stop.info.min_budget_bytes);
		training.poison = i == 0;
		ck_assert_ok(training_run(&training, &other));
		ck_assert_uint_eq(stop.hash, other.hash);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("nonfinite");
	TCase *tcase = tcase_create("nonfinite");
	int networks = sizeof healthy / sizeof *healthy;
	tcase_add_loop_test(tcase, a_skipped_batch_is_as_if_it_had_not_been_there, 0, 2);
	tcase_add_loop_test(tcase, the_first_op_is_named_and_the_parameters_stay, 0, 2);
	tcase_add_test(tcase, a_run_that_only_skips_ends);
	tcase_add_loop_test(tcase, a_gradient_is_found_though_the_loss_is_finite, 0, 3);
	tcase_add_test(tcase, the_norm_of_the_gradient_is_watched);
	tcase_add_loop_test(tcase, a_trace_of_a_healthy_step_finds_nothing, 0, networks);
	tcase_add_loop_test(tcase, a_healthy_run_does_not_depend_on_the_policy, 0, networks / 2);
	suite_add_tcase(suite, tcase);
	return testing_run(suite);
}
