/*
 * test_given.c - samples that the program owns: the same training as from files, to the bit; a plan made without them;
 * and predictions for them.
 */
#include "support/testing.h"
#include "tarn.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SAMPLES 20
#define PIXELS 36
#define NETWORK                                                                                             \
	"layers: [{conv2d: {name: conv, channels: 4, kernel: 3}}, batch_norm, relu, flatten, {dense: 3}]\n" \
	"optimizer: {type: adamw, learning_rate: 1e-2}\n"                                                   \
	"train: {epochs: 2, threads: 1}\n"
#define DATA "shape: [6, 6, 1], classes: 3, batch: 8, mean: [0.3], std: [0.5]}\n" NETWORK

static uint8_t bytes[SAMPLES][PIXELS];
static float floats[SAMPLES][PIXELS];
static int32_t label[SAMPLES];
static const struct tarn_samples of_bytes = { bytes, true, label, SAMPLES },
				 of_floats = { floats, false, label, SAMPLES };

static void setup(void)
{
	struct testing_random random = { .state = 3 };
	for (int n = 0; n < SAMPLES; n++) {
		label[n] = n % 3;
		for (int i = 0; i < PIXELS; i++) {
			bytes[n][i] = (uint8_t)testing_between(&random, 0, 255);
			floats[n][i] = (float)bytes[n][i] / 255.0f;
		}
	}
}

static uint64_t train(const struct tarn_options *options, double *loss)
{
	struct tarn_session *session;
	struct tarn_metrics metrics = { .finished = false };
	struct tarn_evaluation evaluation;
	uint64_t hash;
	ck_assert_ok(tarn_open(options, &session));
	while (!metrics.finished)
		ck_assert_ok(tarn_step(session, &metrics));
	ck_assert_ok(tarn_evaluate(session, &evaluation));
	ck_assert_ok(tarn_weights_hash(session, &hash));
	*loss = evaluation.loss;
	tarn_close(session);
	return hash;
}

/* Bytes in memory and bytes in npy files: the same weights. */
START_TEST(trains_as_from_files)
{
	char text[2048];
	uint8_t small[SAMPLES];
	double from_memory, from_files;
	for (int n = 0; n < SAMPLES; n++)
		small[n] = (uint8_t)label[n];
	const char *x = testing_npy("x.npy", "|u1", "(20, 6, 6)", bytes, sizeof bytes);
	const char *y = testing_npy("y.npy", "|u1", "(20,)", small, sizeof small);
	snprintf(text, sizeof text,
		 "data: {type: npy, train_inputs: %s, train_labels: %s, test_inputs: %s, test_labels: %s, classes: 3, "
		 "batch: 8, mean: [0.3], std: [0.5]}\n" NETWORK,
		 x, y, x, y);
	const struct tarn_options files = { .config_text = text };
	const struct tarn_options memory = { .config_text = "data: {type: memory, " DATA,
					     .train = &of_bytes,
					     .test = &of_bytes };
	ck_assert_uint_eq(train(&files, &from_files), train(&memory, &from_memory));
	ck_assert(from_memory == from_files);
}
END_TEST

/* A plan for as many samples runs on them; for fewer it is refused. */
START_TEST(runs_a_plan_on_them)
{
	static const char config[] = "data: {type: memory, " DATA;
	const char *override[] = { "data.samples=20", "data.test_samples=20" };
	const struct tarn_options planning = {
		.config_text = config, .override = override, .overrides = 2, .plan_only = true
	};
	const struct tarn_options whole = { .config_text = config, .train = &of_floats, .test = &of_floats };
	char path[512];
	double a, b;
	struct tarn_session *session = NULL;
	snprintf(path, sizeof path, "%s/given.plan", testing_directory());
	ck_assert_ok(tarn_open(&planning, &session));
	ck_assert_ok(tarn_plan_save(session, path));
	tarn_close(session);
	struct tarn_options run = { .plan_path = path, .train = &of_floats, .test = &of_floats };
	ck_assert_uint_eq(train(&run, &a), train(&whole, &b));
	ck_assert(a == b);
	struct tarn_samples fewer = of_floats;
	fewer.samples = 19;
	run.train = &fewer;
	ck_assert_fails(tarn_open(&run, &session), TARN_EDATA, "19 training samples leave a last batch of 3");
	run.train = run.test = NULL;
	ck_assert_fails(tarn_open(&run, &session), TARN_EDATA, "handed over no training samples");
}
END_TEST

START_TEST(refuses_what_is_missing)
{
	struct tarn_session *session = NULL;
	struct tarn_samples samples = of_bytes;
	struct tarn_options options = { .config_text = "data: {type: memory, " DATA };
	ck_assert_fails(tarn_open(&options, &session), TARN_EINVAL, "needs samples from the program");
	options.train = &samples;
	samples.targets = NULL;
	ck_assert_fails(tarn_open(&options, &session), TARN_EDATA, "have no labels");
	samples.targets = label;
	label[7] = 3;
	ck_assert_fails(tarn_open(&options, &session), TARN_EDATA, "label 7 is 3; it must be 0 to 2");
	label[7] = 1;
	options.config_text = "data: {type: synthetic, shape: [6, 6, 1], classes: 3, batch: 8}\n" NETWORK;
	ck_assert_fails(tarn_open(&options, &session), TARN_EINVAL, "data.type is not memory");
}
END_TEST

/* Bytes and the floats they stand for give the same; a sample gives what it gives in any batch; argmax is what counts.
 */
START_TEST(predicts)
{
	const struct tarn_options options = {
		.config_text = "data: {type: memory, " DATA, .train = &of_bytes, .test = &of_bytes, .inference = true
	};
	struct tarn_session *session;
	struct tarn_result shape;
	struct tarn_evaluation evaluation, again;
	uint64_t confusion[9], diagonal = 0, sum = 0;
	float all[8 * 3], one[3], same[8 * 3];
	struct tarn_metrics metrics;
	ck_assert_ok(tarn_open(&options, &session));
	ck_assert_ok(tarn_result_info(session, &shape));
	ck_assert(shape.rank == 1 && shape.dim[0] == 3 && shape.elements == 3 && shape.inputs == PIXELS &&
		  shape.logits);
	ck_assert_ok(tarn_predict(session, TARN_INPUT_BYTES, bytes, 8, all));
	ck_assert_ok(tarn_predict(session, TARN_INPUT_FLOATS, floats, 8, same));
	ck_assert_mem_eq(all, same, sizeof all);
	for (int n = 0; n < 8; n++) {
		ck_assert_ok(tarn_predict(session, TARN_INPUT_BYTES, bytes[n], 1, one));
		for (int c = 0; c < 3; c++)
			ck_assert(fabsf(one[c] - all[n * 3 + c]) < 1e-5f);
	}
	ck_assert_ok(tarn_evaluate_classes(session, &evaluation, confusion, 3));
	ck_assert_ok(tarn_evaluate(session, &again));
	ck_assert(fabs(evaluation.loss - again.loss) < 1e-6 && evaluation.accuracy == again.accuracy);
	for (int i = 0; i < 9; i++) {
		sum += confusion[i];
		diagonal += i % 4 ? 0 : confusion[i];
	}
	ck_assert_uint_eq(sum, SAMPLES);
	ck_assert(fabs((double)diagonal / SAMPLES - evaluation.accuracy) < 1e-6);
	ck_assert_fails(tarn_predict(session, TARN_INPUT_BYTES, bytes, 9, all), TARN_EINVAL, "9 samples at once");
	ck_assert_fails(tarn_predict(session, TARN_INPUT_TOKENS, bytes, 1, all), TARN_EINVAL,
			"the network reads values");
	ck_assert_fails(tarn_evaluate_classes(session, &evaluation, confusion, 2), TARN_EINVAL, "has 3 classes, not 2");
	ck_assert_fails(tarn_step(session, &metrics), TARN_EINVAL, "it does not train");
	tarn_close(session);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("given");
	TCase *given = tcase_create("given");
	tcase_set_timeout(given, 60);
	tcase_add_unchecked_fixture(given, setup, NULL);
	tcase_add_test(given, trains_as_from_files);
	tcase_add_test(given, runs_a_plan_on_them);
	tcase_add_test(given, refuses_what_is_missing);
	tcase_add_test(given, predicts);
	suite_add_tcase(suite, given);
	return testing_run(suite);
}
