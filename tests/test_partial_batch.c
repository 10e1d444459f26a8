/*
 * test_partial_batch.c - the last batch of an epoch is short: it gives what running those samples alone gives, batch
 * statistics included, and no sample is repeated or dropped.
 */
#include "support/testing.h"
#include "support/training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEATURES 6
#define SAMPLES 20
#define BATCH 8
#define REST 4 /* SAMPLES % BATCH */

static const char network[] = "layers:\n"
			      "- dense: {name: first, features: 7}\n"
			      "- batch_norm: {name: norm}\n"
			      "- relu\n"
			      "- dense: {name: last, features: 3}\n"
			      "optimizer: {type: momentum, learning_rate: 0.1}\n"
			      "train: {epochs: 2, threads: 1}\n";

static const struct {
	const char *name;
	uint64_t bytes;
} tensors[] = {
	{ "first/weight", 7 * FEATURES * 4 },
	{ "first/bias", 7 * 4 },
	{ "norm/weight", 7 * 4 },
	{ "norm/bias", 7 * 4 },
	{ "norm/running_mean", 7 * 4 },
	{ "norm/running_var", 7 * 4 },
	{ "norm/batches", 8 },
	{ "last/weight", 3 * 7 * 4 },
	{ "last/bias", 3 * 4 },
	{ "optimizer/first/weight/momentum", 7 * FEATURES * 4 },
	{ "optimizer/first/bias/momentum", 7 * 4 },
	{ "optimizer/norm/weight/momentum", 7 * 4 },
	{ "optimizer/norm/bias/momentum", 7 * 4 },
	{ "optimizer/last/weight/momentum", 3 * 7 * 4 },
	{ "optimizer/last/bias/momentum", 3 * 4 },
};
#define TENSORS (sizeof tensors / sizeof *tensors)

static void write_data(void)
{
	struct testing_random random = { 42 };
	static float x[SAMPLES][FEATURES];
	static int32_t y[SAMPLES];
	for (int i = 0; i < SAMPLES; i++) {
		for (int k = 0; k < FEATURES; k++)
			x[i][k] = testing_float(&random);
		y[i] = (int32_t)testing_between(&random, 0, 2);
	}
	testing_npy("x.npy", "<f4", "(20, 6)", x, sizeof x);
	testing_npy("y.npy", "<i4", "(20,)", y, sizeof y);
	testing_npy("x_rest.npy", "<f4", "(4, 6)", x[SAMPLES - REST], sizeof x[0] * REST);
	testing_npy("y_rest.npy", "<i4", "(4,)", &y[SAMPLES - REST], sizeof y[0] * REST);
}

static struct tarn_session *open_session(const char *inputs, const char *labels, int batch, const char *more)
{
	char text[2048];
	snprintf(text, sizeof text,
		 "data: {type: npy, directory: %s, train_inputs: %s, train_labels: %s, test_inputs: '', test_labels: "
		 "'', classes: 3, batch: %d, shuffle: false%s}\n%s",
		 testing_directory(), inputs, labels, batch, more, network);
	struct tarn_options options = { .config_text = text };
	struct tarn_session *session = NULL;
	ck_assert_ok(tarn_open(&options, &session));
	return session;
}

START_TEST(the_short_batch_equals_its_samples_alone)
{
	write_data();
	struct tarn_session *whole = open_session("x.npy", "y.npy", BATCH, "");
	struct tarn_session *alone = open_session("x_rest.npy", "y_rest.npy", REST, "");
	struct tarn_metrics metrics, short_metrics, alone_metrics;
	static unsigned char buffer[4096], other[4096];
	ck_assert_ok(tarn_step(whole, &metrics));
	ck_assert_uint_eq(metrics.samples, BATCH);
	ck_assert_uint_eq(metrics.batches, 3);
	ck_assert_ok(tarn_step(whole, &metrics));
	for (size_t i = 0; i < TENSORS; i++) {
		ck_assert_ok(tarn_read_tensor(whole, tensors[i].name, buffer, tensors[i].bytes));
		ck_assert_ok(tarn_write_tensor(alone, tensors[i].name, buffer, tensors[i].bytes));
	}
	ck_assert_ok(tarn_step(whole, &short_metrics));
	ck_assert_ok(tarn_step(alone, &alone_metrics));
	ck_assert_uint_eq(short_metrics.samples, REST);
	ck_assert_int_eq(short_metrics.epoch_end, 1);
	ck_assert_double_eq(short_metrics.loss, alone_metrics.loss);
	for (size_t i = 0; i < TENSORS; i++) {
		ck_assert_ok(tarn_read_tensor(whole, tensors[i].name, buffer, tensors[i].bytes));
		ck_assert_ok(tarn_read_tensor(alone, tensors[i].name, other, tensors[i].bytes));
		ck_assert_msg(!memcmp(buffer, other, tensors[i].bytes), "%s differs", tensors[i].name);
	}
	tarn_close(alone);
	tarn_close(whole);
}
END_TEST

START_TEST(an_epoch_has_every_sample_or_drops_the_rest)
{
	write_data();
	static const struct {
		const char *more;
		uint32_t steps, samples;
	} cases[] = { { "", 6, 2 * SAMPLES }, { ", drop_last: true", 4, 2 * (SAMPLES - REST) } };
	struct tarn_session *session = open_session("x.npy", "y.npy", BATCH, cases[_i].more);
	struct tarn_metrics metrics = { 0 };
	uint32_t steps = 0, samples = 0;
	while (!metrics.finished) {
		ck_assert_ok(tarn_step(session, &metrics));
		steps++;
		samples += metrics.samples;
	}
	ck_assert_uint_eq(steps, cases[_i].steps);
	ck_assert_uint_eq(samples, cases[_i].samples);
	ck_assert_ok(tarn_step(session, &metrics)); /* after the end nothing happens */
	ck_assert_uint_eq(metrics.step, steps);
	tarn_close(session);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("partial_batch");
	TCase *tcase = tcase_create("partial_batch");
	tcase_add_test(tcase, the_short_batch_equals_its_samples_alone);
	tcase_add_loop_test(tcase, an_epoch_has_every_sample_or_drops_the_rest, 0, 2);
	suite_add_tcase(suite, tcase);
	return testing_run(suite);
}
