/*
 * test_optimizers.c - Adam with moments in 8 bits against a plain reference, the bytes that optimizers keep, and that
 * each of them trains, resumes and is bit-identical under recomputation. The element-wise kinds and Adafactor meet
 * their formulas in the conformance suite.
 *
 * In builds with slow checks and with Fashion-MNIST: after one epoch the optimizers with little state are within one
 * point of Adam's accuracy, mean of three seeds.
 */
#include "conformance/codes.h"
#include "conformance/single_op.h"
#include "graph/blockwise.h"
#include "support/run_checks.h"
#include "support/testing.h"
#include "support/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ELEMENTS 5003u /* three blocks, the last one short, and codes that do not end at a float */

/* ---- 8 bits ---- */

static double scale_of(const uint8_t *state, uint32_t i)
{
	float scale;
	memcpy(&scale, state + blockwise_codes_bytes(ELEMENTS) + i / BLOCKWISE_ELEMENTS * sizeof scale, sizeof scale);
	return (double)scale;
}

static double decoded(bool has_sign, const uint8_t *state, uint32_t i)
{
	return codes_decoded(has_sign, state, ELEMENTS, i);
}

/* The distance from x to the nearest value of the map, signs included. */
static double nearest_distance(bool has_sign, double x)
{
	double best = INFINITY;
	for (uint32_t code = 0; code < 256; code++)
		best = fmin(best, fabs(x - codes_value(has_sign, code)));
	return best;
}

/* The new state must hold, of each exact moment, the nearest value that its block's scale allows. */
static void check_state(bool has_sign, const uint8_t *state, const double *exact, int step)
{
	for (uint32_t first = 0; first < ELEMENTS; first += BLOCKWISE_ELEMENTS) {
		double largest = 0;
		for (uint32_t i = first; i < ELEMENTS && i < first + BLOCKWISE_ELEMENTS; i++)
			largest = fmax(largest, fabs(exact[i]));
		ck_assert_double_le(fabs(scale_of(state, first) - largest), 1e-6 * largest);
		for (uint32_t i = first; i < ELEMENTS && i < first + BLOCKWISE_ELEMENTS; i++) {
			if (largest <= 0) {
				ck_assert_uint_eq(state[i], 0);
				continue;
			}
			double error = fabs(decoded(has_sign, state, i) - exact[i]) / largest;
			ck_assert_msg(error <= nearest_distance(has_sign, exact[i] / largest) + 1e-6,
				      "step %d, element %u: %g is kept as %g", step, i, exact[i],
				      decoded(has_sign, state, i));
		}
	}
}

START_TEST(adam_8bit_is_adam_on_decoded_moments)
{
	const struct op_attr attr = { .rate_scale = 1,
				      .weight_decay = 0.1f,
				      .beta1 = 0.9f,
				      .beta2 = 0.99f,
				      .epsilon = 1e-6f,
				      .decoupled = (uint32_t)_i };
	const uint32_t bytes = (uint32_t)blockwise_bytes(ELEMENTS);
	const struct single_input input[] = { { DTYPE_F32, 0, 1, { ELEMENTS } },
					      { DTYPE_U8, 0, 1, { bytes } },
					      { DTYPE_U8, 0, 1, { bytes } },
					      { DTYPE_F32, 0, 1, { ELEMENTS } },
					      { DTYPE_U8, ROLE_SCALARS, 1, { sizeof(struct step_scalars) } },
					      { DTYPE_F32, 0, 1, { 1 } } };
	static float w[ELEMENTS], g[ELEMENTS], now[ELEMENTS];
	static double m[ELEMENTS], v[ELEMENTS];
	uint8_t *state[2] = { calloc(1, bytes), calloc(1, bytes) };
	const float scale = 0.5f;
	struct testing_random random = { 11 };
	struct single_op single;
	const struct single_options options = { .threads = 2, .in_place = -1 };
	ck_assert_ok(single_op_open(&single, driver_find("cpu"), OP_ADAM_8BIT, &attr, input, 6, &options));
	for (uint32_t i = 0; i < ELEMENTS; i++)
		w[i] = testing_float(&random);
	ck_assert_ok(single_op_write(&single, 0, w));
	ck_assert_ok(single_op_write(&single, 1, state[0]));
	ck_assert_ok(single_op_write(&single, 2, state[1]));
	ck_assert_ok(single_op_write(&single, 5, &scale));
	for (int step = 0; step < 3; step++) {
		const struct step_scalars scalars = { .step = (uint32_t)step,
						      .learning_rate = 0.01f,
						      .bias_correction1 = 1 - powf(0.9f, (float)step + 1),
						      .bias_correction2 = 1 - powf(0.99f, (float)step + 1) };
		for (uint32_t i = 0; i < ELEMENTS; i++) /* over eight decades, and a block of zeros at first */
			g[i] = !step && i / BLOCKWISE_ELEMENTS == 1
				       ? 0
				       : testing_float(&random) * powf(10, -(float)testing_between(&random, 0, 8));
		ck_assert_ok(single_op_write(&single, 3, g));
		ck_assert_ok(single_op_write(&single, 4, &scalars));
		ck_assert_ok(single_op_launch(&single));
		ck_assert_ok(single_op_read(&single, 0, now));
		for (uint32_t i = 0; i < ELEMENTS; i++) {
			double gradient = 0.5 * (double)g[i] + (attr.decoupled ? 0 : 0.1 * (double)w[i]);
			double shrink = attr.decoupled ? 1 - 0.01 * 0.1 : 1;
			m[i] = 0.9 * decoded(true, state[0], i) + 0.1 * gradient;
			v[i] = 0.99 * decoded(false, state[1], i) + 0.01 * gradient * gradient;
			double expected =
				(double)w[i] * shrink - 0.01 / (double)scalars.bias_correction1 * m[i] /
								(sqrt(v[i] / (double)scalars.bias_correction2) + 1e-6);
			ck_assert_msg(fabs(expected - (double)now[i]) < 1e-5, "step %d, weight %u: %.9g, expected %.9g",
				      step, i, (double)now[i], expected);
		}
		memcpy(w, now, sizeof w);
		ck_assert_ok(single_op_read(&single, 1, state[0]));
		ck_assert_ok(single_op_read(&single, 2, state[1]));
		check_state(true, state[0], m, step);
		check_state(false, state[1], v, step);
	}
	ck_assert_uint_eq(single_op_stray(&single), UINT64_MAX);
	single_op_close(&single);
	free(state[0]);
	free(state[1]);
}
END_TEST

/* ---- whole runs ---- */

/* Matrices of 40 x 192 and 192 x 192, vectors, a head of 4 x 192 that stays in 32 bits. */
static const char network[] = "data: {type: synthetic, shape: [40], classes: 4, batch: 32, samples: 320}\n"
			      "layers:\n"
			      "- dense: {name: a, features: 192}\n"
			      "- layer_norm\n"
			      "- relu\n"
			      "- dropout: 0.1\n"
			      "- dense: {name: b, features: 192}\n"
			      "- relu\n"
			      "- dense: {name: c, features: 4}\n"
			      "optimizer: {learning_rate: 0.002, weight_decay: 0.01, clip_norm: 1}\n"
			      "train: {seed: 3, epochs: 6, threads: 1}\n";

#define A (192 * 40)
#define B (192 * 192)
#define C (4 * 192)
#define VECTORS (4 * 192 + 4)
#define CODES(n) (((n) + 3) / 4 * 4 + ((n) + 2047) / 2048 * 4)

static const struct {
	const char *type, *state, *rate;
	uint64_t bytes;
} kinds[] = {
	{ "optimizer.type=sgd", NULL, "optimizer.learning_rate=0.1", 0 },
	{ "optimizer.type=momentum", NULL, "optimizer.learning_rate=0.02", 4 * (A + B + C + VECTORS) },
	{ "optimizer.type=adam", NULL, "optimizer.learning_rate=0.002", 8 * (A + B + C + VECTORS) },
	{ "optimizer.type=adam", "optimizer.state=int8", "optimizer.learning_rate=0.002",
	  2 * (CODES(A) + CODES(B) + 4 * (C + VECTORS)) },
	{ "optimizer.type=adamw", "optimizer.state=int8", "optimizer.learning_rate=0.002",
	  2 * (CODES(A) + CODES(B) + 4 * (C + VECTORS)) },
	{ "optimizer.type=lion", NULL, "optimizer.learning_rate=5e-4", 4 * (A + B + C + VECTORS) },
	{ "optimizer.type=adafactor", NULL, "optimizer.learning_rate=0.05",
	  4 * (192 + 40 + 192 + 192 + 4 + 192 + VECTORS) },
};
#define KINDS (int)(sizeof kinds / sizeof *kinds)

static struct training training_of(int kind)
{
	return (struct training){ .text = network,
				  .override = { kinds[kind].type, kinds[kind].rate,
						kinds[kind].state ? kinds[kind].state : "train.seed=3" } };
}

START_TEST(state_has_the_stated_bytes)
{
	struct training training = training_of(_i);
	struct training_result result;
	ck_assert_ok(training_plan(&training, &result));
	ck_assert_uint_eq(result.info.state_bytes, kinds[_i].bytes);
}
END_TEST

/* Synthetic data can be learnt: the loss of a step falls to less than half of that of a guess. */
START_TEST(every_kind_trains_whatever_is_recomputed)
{
	struct training training = training_of(_i);
	struct training_result keep, least;
	ck_assert_ok(training_run(&training, &keep));
	ck_assert_msg(keep.last_loss < 0.5 * log(4), "%s: the loss goes from %g to %g", kinds[_i].type, keep.first_loss,
		      keep.last_loss);
	training.override[3] = "memory.recompute=min";
	ck_assert_ok(training_run(&training, &least));
	ck_assert_uint_eq(keep.hash, least.hash);
}
END_TEST

START_TEST(every_kind_resumes_to_the_same_bits)
{
	struct training training = training_of(_i);
	struct training_result whole;
	training.override[3] = "train.max_steps=9";
	check_resumed_run(training, 5, &whole);
}
END_TEST

START_TEST(eight_bits_belong_to_adam)
{
	struct training training = { .text = network, .override = { "optimizer.type=lion", "optimizer.state=int8" } };
	struct training_result result;
	ck_assert_fails(training_plan(&training, &result), TARN_EINVAL,
			"has no effect with optimizer.type: lion; it belongs to adam or adamw");
}
END_TEST

/* ---- accuracy ---- */

START_TEST(little_state_costs_less_than_a_point)
{
	if (accuracy_skipped())
		TESTING_SKIP(accuracy_skipped());
	double adam = mean_accuracy((const char *[]){ NULL });
	static const char *const little[][3] = { { "optimizer.state=int8" },
						 { "optimizer.type=lion", "optimizer.learning_rate=2e-4" },
						 { "optimizer.type=adafactor", "optimizer.learning_rate=3e-2" } };
	for (size_t i = 0; i < sizeof little / sizeof *little; i++)
		ck_assert_double_ge(mean_accuracy(little[i]), adam - 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("optimizers");
	TCase *tcase = tcase_create("optimizers"), *slow = tcase_create("accuracy");
	tcase_add_loop_test(tcase, adam_8bit_is_adam_on_decoded_moments, 0, 2);
	tcase_add_loop_test(tcase, state_has_the_stated_bytes, 0, KINDS);
	tcase_add_loop_test(tcase, every_kind_trains_whatever_is_recomputed, 0, KINDS);
	tcase_add_loop_test(tcase, every_kind_resumes_to_the_same_bits, 0, KINDS);
	tcase_add_test(tcase, eight_bits_belong_to_adam);
	tcase_set_timeout(tcase, 120);
	tcase_set_timeout(slow, 3600);
	tcase_add_test(slow, little_state_costs_less_than_a_point);
	suite_add_tcase(suite, tcase);
	suite_add_tcase(suite, slow);
	return testing_run(suite);
}
