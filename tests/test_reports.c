/*
 * test_reports.c - troubles that people who train inside tight memory have reported about other tools, each restated as
 * what must hold here. FREE is a run without a budget, TIGHT the same run in the smallest budget that plans.
 */
#include "support/random_network.h"
#include "support/testing.h"
#include "support/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tarn_session *open_with(const char *text, const char *const *override, uint32_t overrides)
{
	struct tarn_options options = { .config_text = text, .override = override, .overrides = overrides };
	struct tarn_session *session = NULL;
	ck_assert_ok(tarn_open(&options, &session));
	return session;
}

static struct tarn_session *open_free(const char *text)
{
	return open_with(text, NULL, 0);
}

static uint64_t smallest_budget(const char *text)
{
	struct training training = { .text = text };
	struct training_result result;
	ck_assert_ok(training_plan(&training, &result));
	return result.info.min_budget_bytes;
}

static struct tarn_session *open_tight(const char *text)
{
	const char *budget = training_budget(smallest_budget(text));
	struct tarn_session *session = open_with(text, &budget, 1);
	struct tarn_plan_info info;
	tarn_plan_info(session, &info);
	ck_assert_uint_gt(info.recomputed_ops, 0);
	return session;
}

static void run_steps(struct tarn_session *session, int steps)
{
	struct tarn_metrics metrics;
	for (int i = 0; i < steps; i++)
		ck_assert_ok(tarn_step(session, &metrics));
}

static void assert_same_tensor(struct tarn_session *a, struct tarn_session *b, const char *name, uint64_t bytes)
{
	unsigned char *x = malloc(bytes), *y = malloc(bytes);
	ck_assert_ok(tarn_read_tensor(a, name, x, bytes));
	ck_assert_ok(tarn_read_tensor(b, name, y, bytes));
	ck_assert_msg(!memcmp(x, y, bytes), "%s differs", name);
	free(x);
	free(y);
}

static uint64_t weights_hash(struct tarn_session *session)
{
	uint64_t hash;
	ck_assert_ok(tarn_weights_hash(session, &hash));
	return hash;
}

/* R001: a recomputed batch norm moves its running statistics once a step, not twice. */
START_TEST(running_statistics_move_once_a_step)
{
	struct tarn_session *wide = open_free(training_convbn), *tight = open_tight(training_convbn);
	uint64_t batches;
	char recomputed[512];
	tarn_plan_recomputed(tight, recomputed, sizeof recomputed);
	ck_assert_msg(strstr(recomputed, "batch_") != NULL, "no batch norm is recomputed: %s", recomputed);
	run_steps(wide, 3);
	run_steps(tight, 3);
	for (int stage = 1; stage <= 4; stage++) {
		static const char *const parts[] = { "running_mean", "running_var", "batches" };
		for (int k = 0; k < 3; k++) {
			char name[64];
			snprintf(name, sizeof name, "stage%d/norm/%s", stage, parts[k]);
			assert_same_tensor(wide, tight, name, k == 2 ? 8 : 32);
		}
	}
	ck_assert_ok(tarn_read_tensor(tight, "stage2/norm/batches", &batches, 8));
	ck_assert_uint_eq(batches, 3);
	tarn_close(tight);
	tarn_close(wide);
}
END_TEST

static const char dropout_net[] =
	"data: {type: synthetic, shape: [64], classes: 10, batch: 128, samples: 512}\n"
	"layers:\n"
	"- dense: 32\n- relu\n- dropout: 0.5\n- dense: 32\n- tanh\n- dropout: 0.5\n- dense: 32\n"
	"- tanh\n- dropout: 0.5\n- dense: 10\n"
	"optimizer: {type: sgd, learning_rate: 0.1}\n"
	"train: {seed: 1, epochs: 100, threads: 1}\n";

/* R003: dropout recomputed for the backward pass draws the mask of the forward pass: losses agree step by step. */
START_TEST(dropout_keeps_its_mask)
{
	struct tarn_session *wide = open_free(dropout_net), *tight = open_tight(dropout_net);
	struct tarn_metrics a, b;
	char recomputed[512];
	tarn_plan_recomputed(tight, recomputed, sizeof recomputed);
	ck_assert_msg(strstr(recomputed, "dropout") != NULL, "no dropout is recomputed: %s", recomputed);
	for (int i = 0; i < 200; i++) {
		ck_assert_ok(tarn_step(wide, &a));
		ck_assert_ok(tarn_step(tight, &b));
		ck_assert_msg(a.loss == b.loss, "step %d: loss %.9g and %.9g", i, a.loss, b.loss);
	}
	tarn_close(tight);
	tarn_close(wide);
}
END_TEST

/* R005: the first layer trains although its input, the data, needs no gradient. */
START_TEST(the_first_layer_trains)
{
	struct tarn_session *wide = open_free(training_convbn), *tight = open_tight(training_convbn);
	static float before[8 * 27], after[8 * 27];
	ck_assert_ok(tarn_read_tensor(tight, "stage1/conv/weight", before, sizeof before));
	run_steps(wide, 1);
	run_steps(tight, 1);
	ck_assert_ok(tarn_read_tensor(tight, "stage1/conv/weight", after, sizeof after));
	ck_assert_int_ne(memcmp(before, after, sizeof before), 0);
	assert_same_tensor(wide, tight, "stage1/conv/weight", sizeof after);
	tarn_close(tight);
	tarn_close(wide);
}
END_TEST

/* R006: frozen layers do not move and have neither gradient nor optimizer state; the others train as without a budget.
 */
START_TEST(frozen_layers_stay_and_cost_nothing)
{
	struct tarn_session *wide = open_free(training_frozen), *tight = open_tight(training_frozen);
	static float before[6 * 2 * 9], after[6 * 2 * 9];
	ck_assert_ok(tarn_read_tensor(tight, "conv2d1/weight", before, sizeof before));
	run_steps(wide, 5);
	run_steps(tight, 5);
	ck_assert_ok(tarn_read_tensor(tight, "conv2d1/weight", after, sizeof after));
	ck_assert_int_eq(memcmp(before, after, sizeof before), 0);
	ck_assert_fails(tarn_read_tensor(tight, "optimizer/conv2d1/weight/m", after, sizeof after), TARN_EINVAL,
			"no persistent tensor");
	assert_same_tensor(wide, tight, "part1/conv/weight", 6 * 6 * 9 * 4);
	assert_same_tensor(wide, tight, "optimizer/part1/conv/weight/m", 6 * 6 * 9 * 4);
	tarn_close(tight);
	tarn_close(wide);
}
END_TEST

/* R010, R112: a shared weight gets the sum of both gradients once, and is one parameter with one state. */
START_TEST(a_shared_weight_is_one_parameter)
{
	struct tarn_session *wide = open_free(training_tied), *tight = open_tight(training_tied);
	static float buffer[24 * 24];
	run_steps(wide, 3);
	run_steps(tight, 3);
	assert_same_tensor(wide, tight, "shared/weight", sizeof buffer);
	assert_same_tensor(wide, tight, "optimizer/shared/weight/v", sizeof buffer);
	ck_assert_fails(tarn_read_tensor(tight, "again/weight", buffer, sizeof buffer), TARN_EINVAL, "again/weight");
	tarn_close(tight);
	tarn_close(wide);
}
END_TEST

/* R071: ties in max pooling and relu are decided the same way in every recomputation. */
START_TEST(ties_are_decided_once_and_for_all)
{
	static const char net[] =
		"data: {type: hash, shape: [8, 8, 1], classes: 3, batch: 4}\n"
		"layers:\n"
		"- relu\n- max_pool: 2\n- conv2d: {channels: 8, kernel: 3, padding: 1}\n- relu\n"
		"- max_pool: {kernel: 3, stride: 1, padding: 1}\n"
		"- conv2d: {channels: 8, kernel: 3, padding: 1}\n- relu\n- max_pool: 2\n- flatten\n- dense: 3\n"
		"train: {max_steps: 100, threads: 2}\n";
	struct tarn_session *wide = open_free(net), *tight = open_tight(net);
	run_steps(wide, 100);
	run_steps(tight, 100);
	ck_assert_uint_eq(weights_hash(wide), weights_hash(tight));
	tarn_close(tight);
	tarn_close(wide);
}
END_TEST

/* R073: a layer that nothing reads costs nothing and changes nothing. */
START_TEST(unused_layers_cost_nothing)
{
	static const char format[] = "data: {type: synthetic, shape: [6, 6, 2], classes: 3, batch: 4, samples: 16}\n"
				     "layers:\n"
				     "- conv2d: {name: a, channels: 4, kernel: 3, padding: 1}\n%s"
				     "- relu: {name: b, inputs: a}\n- global_pool\n- dense: 3\n"
				     "train: {epochs: 4, threads: 1}\n";
	char with[1024], without[1024];
	snprintf(with, sizeof with, format, "- max_pool: {name: lost, kernel: 2, inputs: a}\n");
	snprintf(without, sizeof without, format, "");
	struct training training = { .text = with };
	struct training_result a, b;
	ck_assert_ok(training_run(&training, &a));
	training.text = without;
	ck_assert_ok(training_run(&training, &b));
	ck_assert_uint_eq(a.hash, b.hash);
	ck_assert_uint_eq(a.info.peak_bytes, b.info.peak_bytes);
}
END_TEST

/* R023, R033: short and full batches and evaluations for long; the high-water mark stays inside the same arena. */
START_TEST(a_long_run_of_changing_shapes_needs_no_more)
{
	const char *override[] = { "data.test_samples=21", NULL };
	override[1] = training_budget(smallest_budget(training_residual));
	struct tarn_session *session = open_with(training_residual, override, 2);
	struct tarn_evaluation evaluation;
	struct tarn_plan_info info;
	tarn_plan_info(session, &info);
	run_steps(session, 20);
	ck_assert_ok(tarn_evaluate(session, &evaluation));
	uint64_t early = tarn_arena_touched_bytes(session);
	for (int round = 0; round < 10; round++) {
		run_steps(session, 40);
		ck_assert_ok(tarn_evaluate(session, &evaluation));
		ck_assert_uint_eq(evaluation.samples, 21);
	}
	ck_assert_uint_eq(tarn_arena_touched_bytes(session), early);
	ck_assert_uint_le(early, info.arena_bytes);
	tarn_close(session);
}
END_TEST

/* R030: Adam's state is in the plan from the start: a budget that only SGD meets is refused at boot. */
START_TEST(optimizer_state_is_planned)
{
	static const char net[] = "data: {type: hash, shape: [64], classes: 10, batch: 8}\n"
				  "layers:\n- repeat: {count: 4, layers: [{dense: 64}, relu]}\n- dense: 10\n"
				  "train: {max_steps: 2, threads: 1}\n";
	struct training sgd = { .text = net, .override = { "optimizer.type=sgd" } };
	struct training adam = { .text = net, .override = { "optimizer.type=adam" } };
	struct training_result small, large, result;
	ck_assert_ok(training_run(&sgd, &small));
	ck_assert_ok(training_run(&adam, &large));
	ck_assert_uint_gt(large.info.min_budget_bytes, small.info.arena_bytes);
	uint64_t between = (large.info.min_budget_bytes + small.info.arena_bytes) / 2;
	sgd.override[1] = adam.override[1] = training_budget(between);
	ck_assert_ok(training_run(&sgd, &result));
	ck_assert_fails(training_run(&adam, &result), TARN_EBUDGET, "memory.budget");
}
END_TEST

/* R036: what is planned and what is reserved is one number. */
START_TEST(planning_alone_and_booting_agree)
{
	char text[8192];
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct training training = { .text = random_network(seed, text, sizeof text), .steps = 1 };
		struct training_result dry, real;
		ck_assert_ok(training_plan(&training, &dry));
		ck_assert_ok(training_run(&training, &real));
		ck_assert_uint_eq(dry.info.arena_bytes, real.info.arena_bytes);
		ck_assert_uint_eq(dry.info.plan_checksum, real.info.plan_checksum);
		ck_assert_uint_le(real.touched_bytes, real.info.arena_bytes);
	}
}
END_TEST

/* R040, R097: every batch from 1 to 33 with odd channel counts, in a caller's arena at an odd address. */
START_TEST(odd_shapes_and_every_batch_run)
{
	static unsigned char memory[4 << 20];
	static const char net[] =
		"data: {type: synthetic, shape: [5, 7, 3], classes: 3, samples: 33}\n"
		"layers:\n"
		"- conv2d: {channels: 5, kernel: 3, padding: 1}\n- layer_norm\n- relu\n- max_pool: 2\n"
		"- conv2d: {channels: 7, kernel: [1, 3]}\n- tanh\n- flatten\n- dense: 3\n"
		"train: {max_steps: 2, threads: 2}\n";
	for (uint32_t batch = 1; batch <= 33; batch++) {
		char text[32];
		snprintf(text, sizeof text, "data.batch=%u", batch);
		struct training training = { .text = net, .override = { text }, .steps = 2 };
		struct training_result own, given;
		ck_assert_ok(training_run(&training, &own));
		training.arena = memory + 2 * batch + 1;
		training.arena_bytes = own.info.arena_bytes + 63;
		ck_assert_ok(training_run(&training, &given));
		ck_assert_uint_eq(own.hash, given.hash);
	}
}
END_TEST

/* R096: five budgets, all too small: the message names the same need each time. */
START_TEST(the_need_does_not_depend_on_the_budget)
{
	uint64_t least = smallest_budget(training_convbn);
	char need[64];
	snprintf(need, sizeof need, "%llu bytes", (unsigned long long)least);
	for (uint64_t i = 1; i <= 5; i++) {
		struct training training = { .text = training_convbn, .override = { training_budget(least * i / 6) } };
		struct training_result result;
		ck_assert_fails(training_plan(&training, &result), TARN_EBUDGET, need);
	}
}
END_TEST

/* R099: two norms in each block, both recomputed: gradients equal those of the free run. */
START_TEST(two_norms_in_a_block_are_rebuilt_in_order)
{
	static const char net[] =
		"data: {type: synthetic, shape: [32], classes: 4, batch: 64, samples: 256}\n"
		"layers:\n"
		"- dense: 32\n"
		"- repeat:\n"
		"    count: 4\n"
		"    name: block\n"
		"    layers:\n"
		"    - layer_norm: {name: n1}\n    - dense: {name: d1, features: 32}\n"
		"    - layer_norm: {name: n2}\n    - gelu: {name: g}\n    - dense: {name: d2, features: 32}\n"
		"- dense: 4\n"
		"train: {seed: 2, epochs: 10, threads: 2}\n";
	struct tarn_session *wide = open_free(net), *tight = open_tight(net);
	char recomputed[512];
	tarn_plan_recomputed(tight, recomputed, sizeof recomputed);
	ck_assert_msg(strstr(recomputed, "layer_norm") != NULL, "no norm is recomputed: %s", recomputed);
	run_steps(wide, 10);
	run_steps(tight, 10);
	ck_assert_uint_eq(weights_hash(wide), weights_hash(tight));
	tarn_close(tight);
	tarn_close(wide);
}
END_TEST

/* R053, R055, R110: half a run, saved, resumed in the smallest budget, equals a run that was never stopped. */
START_TEST(resuming_is_exact_and_needs_no_more)
{
	static const char *const networks[] = { training_residual, training_tied, training_frozen };
	const char *text = networks[_i];
	char path[512], budget[64];
	snprintf(path, sizeof path, "%s/half-%d.safetensors", testing_directory(), _i);
	snprintf(budget, sizeof budget, "%s", training_budget(smallest_budget(text)));
	const char *override[] = { budget, "data.augment.shift=1", "data.augment.flip=true" };
	uint32_t overrides = strstr(text, "conv2d") ? 3 : 1;
	struct tarn_session *straight = open_with(text, override, overrides);
	run_steps(straight, 12);
	struct tarn_session *half = open_with(text, override, overrides);
	run_steps(half, 7);
	ck_assert_ok(tarn_save(half, path));
	tarn_close(half);
	struct tarn_options options = {
		.config_text = text, .override = override, .overrides = overrides, .resume_path = path
	};
	struct tarn_session *resumed = NULL;
	ck_assert_ok(tarn_open(&options, &resumed));
	run_steps(resumed, 5);
	ck_assert_uint_eq(weights_hash(straight), weights_hash(resumed));
	struct tarn_plan_info a, b;
	tarn_plan_info(straight, &a);
	tarn_plan_info(resumed, &b);
	ck_assert_uint_eq(a.peak_bytes, b.peak_bytes);
	tarn_close(resumed);
	tarn_close(straight);
}
END_TEST

/* R117: one sample left over and a batch norm without a map: refused when planning, with the choices. */
START_TEST(a_batch_of_one_with_batch_norm_is_refused_at_boot)
{
	static const char net[] = "data: {type: synthetic, shape: [8], classes: 2, batch: 16, samples: 17}\n"
				  "layers:\n- dense: 8\n- batch_norm\n- relu\n- dense: 2\n";
	struct training training = { .text = net };
	struct training_result result;
	ck_assert_fails(training_plan(&training, &result), TARN_EINVAL, "drop_last");
	training.override[0] = "data.drop_last=true";
	ck_assert_ok(training_plan(&training, &result));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("reports");
	TCase *tcase = tcase_create("reports");
	tcase_set_timeout(tcase, 300);
	tcase_add_test(tcase, running_statistics_move_once_a_step);
	tcase_add_test(tcase, dropout_keeps_its_mask);
	tcase_add_test(tcase, the_first_layer_trains);
	tcase_add_test(tcase, frozen_layers_stay_and_cost_nothing);
	tcase_add_test(tcase, a_shared_weight_is_one_parameter);
	tcase_add_test(tcase, ties_are_decided_once_and_for_all);
	tcase_add_test(tcase, unused_layers_cost_nothing);
	tcase_add_test(tcase, a_long_run_of_changing_shapes_needs_no_more);
	tcase_add_test(tcase, optimizer_state_is_planned);
	tcase_add_test(tcase, planning_alone_and_booting_agree);
	tcase_add_test(tcase, odd_shapes_and_every_batch_run);
	tcase_add_test(tcase, the_need_does_not_depend_on_the_budget);
	tcase_add_test(tcase, two_norms_in_a_block_are_rebuilt_in_order);
	tcase_add_loop_test(tcase, resuming_is_exact_and_needs_no_more, 0, 3);
	tcase_add_test(tcase, a_batch_of_one_with_batch_norm_is_refused_at_boot);
	suite_add_tcase(suite, tcase);
	return testing_run(suite);
}
