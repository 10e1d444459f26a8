/*
 * test_prune.c - which weights are pruned, that they stay 0 whatever the optimizer, and that nothing depends on the
 * plan.
 */
#include "support/testing.h"
#include "support/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char text[] = "data: {type: synthetic, shape: [6, 6, 1], classes: 4, samples: 96, test_samples: 40, "
			   "batch: 16}\n"
			   "layers:\n"
			   "- conv2d: {channels: 4, kernel: 3}\n"
			   "- batch_norm\n"
			   "- relu\n"
			   "- flatten\n"
			   "- dense: 40\n"
			   "- tanh\n"
			   "- dense: 4\n"
			   "optimizer: {type: adam, learning_rate: 1e-2, masks: true}\n"
			   "train: {seed: 3, threads: 1, epochs: 4}\n";

/* In the order of the session; matrices and kernels have masks. */
static const struct {
	const char *name;
	uint32_t elements;
	bool mask;
} parameters[] = {
	{ "conv2d1/weight", 36, true },   { "conv2d1/bias", 4, false },       { "batch_norm1/weight", 4, false },
	{ "batch_norm1/bias", 4, false }, { "dense1/weight", 64 * 40, true }, { "dense1/bias", 40, false },
	{ "dense2/weight", 160, true },   { "dense2/bias", 4, false },
};
#define PARAMETERS (sizeof parameters / sizeof *parameters)
#define ELEMENTS 2812u
#define MASKED 2756u

static struct tarn_session *open_with(const char *first, const char *second, const char *resume, bool weights_only)
{
	const char *override[] = { first, second };
	struct tarn_options options = { .config_text = text,
					.override = override,
					.overrides = second  ? 2
						     : first ? 1
							     : 0,
					.resume_path = resume,
					.weights_only = weights_only };
	struct tarn_session *session = NULL;
	ck_assert_ok(tarn_open(&options, &session));
	return session;
}

static float *read_tensor(struct tarn_session *session, const char *before, uint32_t index, const char *after)
{
	char name[128];
	float *value = calloc(parameters[index].elements, sizeof *value);
	ck_assert_ptr_nonnull(value);
	snprintf(name, sizeof name, "%s%s%s", before, parameters[index].name, after);
	ck_assert_ok(tarn_read_tensor(session, name, value, parameters[index].elements * sizeof *value));
	return value;
}

/* Random, without zeros. */
static void make_importance(float *importance)
{
	struct testing_random random = { 5 };
	for (uint32_t i = 0; i < ELEMENTS; i++)
		importance[i] = 1.5f + testing_float(&random);
}

/* Exactly those with the lowest importance among weights that have masks are 0; returns how many. */
static uint32_t check_zeros(struct tarn_session *session, const float *importance, double limit)
{
	uint32_t at = 0, zeros = 0;
	for (uint32_t i = 0; i < PARAMETERS; i++) {
		float *weight = read_tensor(session, "", i, ""), *mask = NULL;
		if (parameters[i].mask)
			mask = read_tensor(session, "optimizer/", i, "/mask");
		for (uint32_t k = 0; k < parameters[i].elements && mask; k++) {
			bool pruned = (double)importance[at + k] <= limit;
			ck_assert_msg((mask[k] == 0) == pruned && (mask[k] == 0 || mask[k] == 1), "%s, element %u",
				      parameters[i].name, k);
			ck_assert_msg((weight[k] == 0) == pruned, "%s, element %u is %g", parameters[i].name, k,
				      (double)weight[k]);
			zeros += pruned;
		}
		at += parameters[i].elements;
		free(weight);
		free(mask);
	}
	ck_assert_uint_eq(at, ELEMENTS);
	return zeros;
}

/* Pruned weights are 0 right away and after more steps, the others move; momenta, averages and decay notwithstanding.
 */
START_TEST(what_is_pruned_stays_zero)
{
	static const char *const optimizers[][2] = {
		{ "optimizer.type=adam", "train.ema=0.9" },
		{ "optimizer.type=momentum", "optimizer.weight_decay=0.01" },
		{ "optimizer.type=lion", "optimizer.clip_norm=0.5" },
		{ "optimizer.type=adafactor", NULL },
		{ "optimizer.type=sgd", NULL },
		{ "optimizer.type=adamw", "memory.recompute=min" },
	};
	static float importance[ELEMENTS];
	struct tarn_session *session = open_with(optimizers[_i][0], optimizers[_i][1], NULL, false);
	struct tarn_metrics metrics;
	struct tarn_pruning pruning;
	make_importance(importance);
	for (int i = 0; i < 4; i++)
		ck_assert_ok(tarn_step(session, &metrics));
	for (int round = 0; round < 2; round++) {
		double fraction = round ? 0.8 : 0.5;
		ck_assert_ok(tarn_prune(session, importance, ELEMENTS, fraction, &pruning));
		ck_assert_uint_eq(pruning.weights, MASKED);
		ck_assert_uint_eq(pruning.pruned, (uint64_t)(fraction * MASKED));
		ck_assert_uint_eq(check_zeros(session, importance, pruning.largest_importance), pruning.pruned);
		for (int i = 0; i < 4; i++)
			ck_assert_ok(tarn_step(session, &metrics));
		ck_assert_uint_eq(check_zeros(session, importance, pruning.largest_importance), pruning.pruned);
	}
	tarn_close(session);
}
END_TEST

/* 8-bit moments: a layer that is large enough to have them. */
START_TEST(moments_of_8_bits_move_nothing)
{
	static const char wide[] = "data: {type: synthetic, shape: [64], classes: 4, samples: 96, batch: 16}\n"
				   "layers: [{dense: {features: 80, bias: false}}, tanh, {dense: {features: 4, bias: "
				   "false}}]\n"
				   "optimizer: {type: adam, state: int8, learning_rate: 1e-2, masks: true}\n"
				   "train: {seed: 3, threads: 1, epochs: 4}\n";
	static float importance[64 * 80 + 320], weight[64 * 80];
	struct tarn_options options = { .config_text = wide };
	struct tarn_session *session;
	struct tarn_metrics metrics;
	struct tarn_pruning pruning;
	ck_assert_ok(tarn_open(&options, &session));
	for (uint32_t i = 0; i < 64 * 80 + 320; i++)
		importance[i] = (float)(i * 7919 % 5440);
	for (int i = 0; i < 3; i++)
		ck_assert_ok(tarn_step(session, &metrics));
	ck_assert_ok(tarn_prune(session, importance, 64 * 80 + 320, 0.5, &pruning));
	for (int i = 0; i < 3; i++)
		ck_assert_ok(tarn_step(session, &metrics));
	ck_assert_ok(tarn_read_tensor(session, "dense1/weight", weight, sizeof weight));
	for (uint32_t i = 0; i < 64 * 80; i++)
		ck_assert_int_eq(weight[i] == 0, (double)importance[i] <= pruning.largest_importance);
	tarn_close(session);
}
END_TEST

/* Weights and masks come back from a snapshot; one from before masks has ones; without masks it is refused. */
START_TEST(masks_are_in_snapshots)
{
	static float importance[ELEMENTS];
	char dense[256], pruned[256];
	struct tarn_pruning pruning;
	struct tarn_metrics metrics;
	uint64_t whole, rest;
	snprintf(dense, sizeof dense, "%s/dense.safetensors", testing_directory());
	snprintf(pruned, sizeof pruned, "%s/pruned.safetensors", testing_directory());
	make_importance(importance);
	struct tarn_session *session = open_with("optimizer.masks=false", NULL, NULL, false);
	for (int i = 0; i < 4; i++)
		ck_assert_ok(tarn_step(session, &metrics));
	ck_assert_ok(tarn_save(session, dense));
	tarn_close(session);
	session = open_with(NULL, NULL, dense, true);
	ck_assert_ok(tarn_prune(session, importance, ELEMENTS, 0.8, &pruning));
	ck_assert_ok(tarn_save(session, pruned));
	tarn_close(session);
	for (int part = 0; part < 2; part++) {
		session = open_with(part ? "memory.recompute=min" : "memory.recompute=none", NULL, pruned, false);
		check_zeros(session, importance, pruning.largest_importance);
		for (int i = 0; i < 4; i++)
			ck_assert_ok(tarn_step(session, &metrics));
		check_zeros(session, importance, pruning.largest_importance);
		ck_assert_ok(tarn_weights_hash(session, part ? &rest : &whole));
		tarn_close(session);
	}
	ck_assert_uint_eq(whole, rest);
	const char *override[] = { "optimizer.masks=false" };
	struct tarn_options options = {
		.config_text = text, .override = override, .overrides = 1, .resume_path = pruned
	};
	ck_assert_fails(tarn_open(&options, &session), TARN_EFORMAT, "extra: optimizer/conv2d1/weight/mask");
}
END_TEST

START_TEST(what_cannot_be_is_refused)
{
	static float importance[ELEMENTS];
	struct tarn_pruning pruning;
	struct tarn_session *session = open_with(NULL, NULL, NULL, false);
	ck_assert_fails(tarn_prune(session, importance, ELEMENTS - 1, 0.5, &pruning), TARN_EINVAL,
			"have 2812 elements, not 2811");
	ck_assert_fails(tarn_prune(session, importance, ELEMENTS, 1, &pruning), TARN_EINVAL, "below 1");
	ck_assert_fails(tarn_prune(session, importance, ELEMENTS, NAN, &pruning), TARN_EINVAL, "below 1");
	importance[54] = NAN;
	ck_assert_fails(tarn_prune(session, importance, ELEMENTS, 0.5, &pruning), TARN_EINVAL,
			"element 6 of dense1/weight");
	tarn_close(session);
	session = open_with("optimizer.masks=false", NULL, NULL, false);
	ck_assert_fails(tarn_prune(session, importance, ELEMENTS, 0.5, &pruning), TARN_EINVAL, "optimizer.masks: true");
	tarn_close(session);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("prune");
	TCase *tc = tcase_create("prune");
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, what_is_pruned_stays_zero, 0, 6);
	tcase_add_test(tc, moments_of_8_bits_move_nothing);
	tcase_add_test(tc, masks_are_in_snapshots);
	tcase_add_test(tc, what_cannot_be_is_refused);
	suite_add_tcase(suite, tc);
	return testing_run(suite);
}
