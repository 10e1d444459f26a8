/*
 * test_accumulate.c - a batch in parts is the batch: gradients, losses, accuracy, dropout, clipping, ignored labels,
 * the last batch, snapshots; batch norm is refused or follows the stated rule.
 *
 * The oracle is the same run with train.accumulate: 1, within the rounding of another order of sums; where the
 * arithmetic is exact (small integers, powers of two) bit for bit.
 */
#include "support/run_checks.h"
#include "support/testing.h"
#include "support/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEATURES 4
#define SAMPLES 20
#define BATCH 16
#define CLASSES 3
#define WEIGHTS (CLASSES * FEATURES)

/* ---- whole runs ---- */

static const char norms[] =
	"data: {type: synthetic, shape: [8, 8, 3], classes: 5, batch: 10, samples: 27, test_samples: 13}\n"
	"layers:\n"
	"- conv2d: {name: stem, channels: 8, kernel: 3, padding: 1}\n"
	"- group_norm: {groups: 4}\n"
	"- repeat:\n"
	"    count: 2\n"
	"    name: block\n"
	"    layers:\n"
	"    - relu: {name: in}\n"
	"    - conv2d: {name: a, channels: 8, kernel: 3, padding: 1}\n"
	"    - stochastic_depth: {name: depth, rate: 0.3}\n"
	"    - dropout: {name: drop, rate: 0.2}\n"
	"    - add: {name: sum, inputs: [drop, in]}\n"
	"- max_pool: 2\n"
	"- flatten\n"
	"- dense: 5\n"
	"network: {label_smoothing: 0.1, ignore_index: 2}\n"
	"optimizer: {learning_rate: 0.05, clip_norm: 0.5}\n"
	"train: {seed: 4, epochs: 3, threads: 2}\n";

static const char *const networks[] = { norms, training_tied, training_gpt, training_lstm };
#define NETWORKS (sizeof networks / sizeof *networks)

struct run {
	uint32_t steps;
	struct tarn_metrics metrics[8];
	struct tarn_evaluation evaluation;
	uint64_t hash;
};

static void run_steps(const char *text, const char *const *override, uint32_t steps, struct run *run)
{
	struct tarn_options options = { .config_text = text, .override = override };
	struct tarn_session *session;
	while (override[options.overrides])
		options.overrides++;
	ck_assert_ok(tarn_open(&options, &session));
	memset(run, 0, sizeof *run);
	for (run->steps = 0; run->steps < steps; run->steps++)
		ck_assert_ok(tarn_step(session, &run->metrics[run->steps]));
	ck_assert_ok(tarn_evaluate(session, &run->evaluation));
	ck_assert_ok(tarn_weights_hash(session, &run->hash));
	tarn_close(session);
}

static bool near(double a, double b, double tolerance)
{
	return fabs(a - b) <= tolerance * fmax(fabs(a), 1) || (isnan(a) && isnan(b));
}

/* Five steps and an evaluation, the short last batch of an epoch among them, in 2 to 7 parts, some of them unequal. */
START_TEST(a_run_in_parts_is_the_run)
{
	static const char *const parts[] = { "train.accumulate=2", "train.accumulate=3" };
	static const char *const more[] = { "train.accumulate=7", "train.accumulate=10" };
	const char *text = networks[_i / 2];
	const char *const *list = _i % 2 && text == norms ? more : parts;
	const char *const one[] = { "optimizer.type=momentum", "train.threads=1", NULL };
	const char *const many[] = { one[0], one[1], list[_i % 2], NULL };
	struct run whole, split;
	run_steps(text, one, 5, &whole);
	run_steps(text, many, 5, &split);
	for (uint32_t i = 0; i < 5; i++) {
		const struct tarn_metrics *a = &whole.metrics[i], *b = &split.metrics[i];
		ck_assert_msg(near(a->loss, b->loss, 2e-5), "network %d, step %u: loss %.9g, in parts %.9g", _i / 2, i,
			      a->loss, b->loss);
		ck_assert_msg(near(a->accuracy, b->accuracy, 1e-6), "network %d, step %u: accuracy %g, in parts %g",
			      _i / 2, i, a->accuracy, b->accuracy);
		ck_assert_msg(near(a->gradient_norm, b->gradient_norm, 2e-5),
			      "network %d, step %u: norm %.9g, in parts %.9g", _i / 2, i, a->gradient_norm,
			      b->gradient_norm);
		ck_assert_double_eq(a->learning_rate, b->learning_rate);
		ck_assert_uint_eq(a->samples, b->samples);
		ck_assert_uint_eq(a->batches, b->batches);
	}
	ck_assert(near(whole.evaluation.loss, split.evaluation.loss, 2e-5) || whole.evaluation.samples == 0);
	ck_assert(near(whole.evaluation.accuracy, split.evaluation.accuracy, 1e-6));
	ck_assert(whole.hash != split.hash); /* the parts are there */
}
END_TEST

/* One schedule step a batch: the rate of a cosine with warm-up is that of the run without parts. */
START_TEST(the_schedule_counts_batches)
{
	const char *const one[] = { "optimizer.schedule.type=cosine", "optimizer.schedule.warmup_steps=2", NULL };
	const char *const many[] = { one[0], one[1], "train.accumulate=5", NULL };
	struct run whole, split;
	run_steps(norms, one, 8, &whole);
	run_steps(norms, many, 8, &split);
	for (uint32_t i = 0; i < 8; i++) {
		ck_assert_double_eq(whole.metrics[i].learning_rate, split.metrics[i].learning_rate);
		ck_assert_uint_eq(whole.metrics[i].step, split.metrics[i].step);
		ck_assert_uint_eq(whole.metrics[i].epoch, split.metrics[i].epoch);
	}
}
END_TEST

/* Whatever is kept or made again, the bits are the same; fewer activations are alive than in the whole batch. */
START_TEST(strategies_agree_bit_for_bit)
{
	static const char *const strategy[] = { "memory.recompute=none", "memory.recompute=sqrt",
						"memory.recompute=speed", "memory.recompute=memory-poor",
						"memory.recompute=min" };
	struct training training = { .text = networks[_i],
				     .override = { strategy[0], "train.accumulate=3", "train.threads=1" },
				     .steps = training_steps(3),
				     .poison = true };
	struct training_result first, result, whole;
	ck_assert_ok(training_run(&training, &first));
	for (size_t i = 1; i < sizeof strategy / sizeof *strategy; i++) {
		training.override[0] = strategy[i];
		ck_assert_ok(training_run(&training, &result));
		ck_assert_msg(result.hash == first.hash, "network %d: %s changes the weights", _i, strategy[i]);
		ck_assert_uint_le(result.info.peak_bytes, first.info.peak_bytes);
	}
	training.override[1] = "train.accumulate=1";
	ck_assert_ok(training_plan(&training, &whole));
	if (networks[_i] != training_lstm) /* its batch of 3 is smaller than its weights */
		ck_assert_uint_lt(result.info.peak_bytes, whole.info.peak_bytes);
}
END_TEST

/* ---- against numbers that are known ---- */

static float x[SAMPLES][FEATURES];
static int32_t label[SAMPLES];
static float target[SAMPLES][CLASSES];

/* x and target: small integers. label[i] of the first BATCH samples as `labels` says, digit by digit. */
static void write_data(const char *labels)
{
	struct testing_random random = { 7 };
	for (int i = 0; i < SAMPLES; i++) {
		for (int k = 0; k < FEATURES; k++)
			x[i][k] = (float)testing_between(&random, 0, 4) - 2;
		for (int k = 0; k < CLASSES; k++)
			target[i][k] = (float)testing_between(&random, 0, 8) - 4;
		label[i] = i < BATCH ? labels[i] - '0' : 1;
	}
	testing_npy("x.npy", "<f4", "(20, 4)", x, sizeof x);
	testing_npy("y.npy", "<i4", "(20,)", label, sizeof label);
	testing_npy("t.npy", "<f4", "(20, 3)", target, sizeof target);
}

/* One dense layer (or others), SGD without momentum and decay at rate 1: a step takes the gradient from the weight. */
static struct tarn_session *open_dense(const char *layers, const char *targets, const char *more, int parts)
{
	char text[2048];
	bool labels = targets[0] == 'y';
	snprintf(text, sizeof text,
		 "data: {type: npy, directory: %s, train_inputs: x.npy, train_labels: %s, test_inputs: '', "
		 "test_labels: '', %sbatch: %d, shuffle: false, drop_last: true}\n"
		 "layers: %s\nnetwork: {loss: %s%s}\noptimizer: {type: sgd, learning_rate: 1}\n"
		 "train: {epochs: 2, threads: 1, accumulate: %d, microbatch_norm: allow}\n",
		 testing_directory(), targets, labels ? "classes: 3, " : "", BATCH, layers,
		 labels ? "cross_entropy" : "mean_squared_error", more, parts);
	struct tarn_options options = { .config_text = text };
	struct tarn_session *session = NULL;
	ck_assert_ok(tarn_open(&options, &session));
	return session;
}

static const char dense[] = "[{dense: {name: d, features: 3, bias: false}}]";

/* The gradient of the first batch at integer weights, and the loss. */
static double first_gradient(const char *targets, const char *more, int parts, float *gradient)
{
	float weight[WEIGHTS];
	struct tarn_metrics metrics;
	struct tarn_session *session = open_dense(dense, targets, more, parts);
	for (int i = 0; i < WEIGHTS; i++)
		weight[i] = (float)(i % 3) - 1;
	ck_assert_ok(tarn_write_tensor(session, "d/weight", weight, sizeof weight));
	ck_assert_ok(tarn_step(session, &metrics));
	ck_assert_ok(tarn_read_tensor(session, "d/weight", gradient, sizeof weight));
	for (int i = 0; i < WEIGHTS; i++)
		gradient[i] = weight[i] - gradient[i];
	tarn_close(session);
	return metrics.loss;
}

/*
 * Mean squared error of integers: with 16 samples in 2, 4, 8 or 16 parts all sums and the divisions by 16 are exact,
 * but for the last factor 2/3 of the mean over three targets, which rounds the same number.
 */
START_TEST(exact_where_the_arithmetic_is_exact)
{
	float whole[WEIGHTS], split[WEIGHTS];
	write_data("0120120120120120");
	double loss = first_gradient("t.npy", "", 1, whole);
	double in_parts = first_gradient("t.npy", "", 2 << _i, split);
	ck_assert_msg(near(loss, in_parts, 1e-7), "%.9g, in parts %.9g", loss, in_parts);
	for (int i = 0; i < WEIGHTS; i++)
		ck_assert_msg(fabsf(whole[i] - split[i]) <= 1e-6f * fabsf(whole[i]), "weight %d: %.9g, in parts %.9g",
			      i, (double)whole[i], (double)split[i]);
}
END_TEST

/* d loss / dw of the mean squared error by its formula, in double, for every number of parts. */
START_TEST(gradient_is_that_of_the_formula)
{
	float split[WEIGHTS];
	write_data("0120120120120120");
	first_gradient("t.npy", "", _i, split);
	for (int k = 0; k < CLASSES; k++)
		for (int f = 0; f < FEATURES; f++) {
			double expected = 0;
			for (int s = 0; s < BATCH; s++) {
				double y = -target[s][k];
				for (int j = 0; j < FEATURES; j++)
					y += ((k * FEATURES + j) % 3 - 1) * (double)x[s][j];
				expected += 2 * y * (double)x[s][f] / (BATCH * CLASSES);
			}
			ck_assert_msg(fabs(expected - (double)split[k * FEATURES + f]) <=
					      2e-6 * fmax(1, fabs(expected)),
				      "%d parts, weight %d: %.9g, expected %.9g", _i, k * FEATURES + f,
				      (double)split[k * FEATURES + f], expected);
		}
}
END_TEST

/* Labels 2 do not count: parts of 3 and 13 counted labels, of none, of one. (Where no label
 * of the batch counts, the loss is 0/0 and the run ends with and without parts.) */
START_TEST(ignored_labels_leave_the_divisor_of_the_whole)
{
	static const char *const labels[] = { "2222201111010101", "2222222201010110", "0122212222222222",
					      "0101010101010101" };
	float whole[WEIGHTS], split[WEIGHTS];
	write_data(labels[_i]);
	for (int parts = 2; parts <= BATCH; parts += parts == 2 ? 3 : 11) {
		double loss = first_gradient("y.npy", ", ignore_index: 2", 1, whole);
		double in_parts = first_gradient("y.npy", ", ignore_index: 2", parts, split);
		ck_assert_msg(near(loss, in_parts, 1e-6), "%s in %d parts: %.9g, expected %.9g", labels[_i], parts,
			      in_parts, loss);
		for (int i = 0; i < WEIGHTS; i++)
			ck_assert_msg(fabsf(whole[i] - split[i]) < 1e-6f,
				      "%s in %d parts: weight %d: %.9g, expected %.9g", labels[_i], parts, i,
				      (double)split[i], (double)whole[i]);
	}
}
END_TEST

/* ---- batch norm ---- */

START_TEST(batch_norm_is_refused)
{
	struct training training = { .text = training_convbn, .override = { "train.accumulate=4" } };
	struct training_result result;
	ck_assert_fails(training_plan(&training, &result), TARN_EINVAL,
			"train.accumulate is 4, but the batch norm behind stage1/norm/statistics would take its "
			"statistics over parts of 2 instead of 8 samples");
	ck_assert_msg(strstr(tarn_error(), "group_norm") != NULL, "%s", tarn_error());
	ck_assert_msg(strstr(tarn_error(), "train.microbatch_norm: allow") != NULL, "%s", tarn_error());
}
END_TEST

/* The running statistics move once a batch, by the mean over the parts of means and unbiased variances. */
START_TEST(running_statistics_follow_the_parts)
{
	static const int cut[2][5] = { { 0, 4, 8, 12, 16 }, { 0, 6, 11, 16, 16 } }; /* 4 and 3 parts */
	const int parts = _i ? 3 : 4;
	float mean[FEATURES], var[FEATURES];
	uint64_t batches;
	struct tarn_metrics metrics;
	write_data("0120120120120120");
	struct tarn_session *session =
		open_dense("[{batch_norm: {name: n, momentum: 0.25}}, {dense: 3}]", "y.npy", "", parts);
	ck_assert_ok(tarn_step(session, &metrics));
	ck_assert_ok(tarn_read_tensor(session, "n/running_mean", mean, sizeof mean));
	ck_assert_ok(tarn_read_tensor(session, "n/running_var", var, sizeof var));
	ck_assert_ok(tarn_read_tensor(session, "n/batches", &batches, sizeof batches));
	tarn_close(session);
	ck_assert_uint_eq(batches, 1);
	for (int f = 0; f < FEATURES; f++) {
		double means = 0, variances = 0;
		for (int p = 0; p < parts; p++) {
			double sum = 0, squares = 0, n = cut[_i][p + 1] - cut[_i][p];
			for (int s = cut[_i][p]; s < cut[_i][p + 1]; s++) {
				sum += (double)x[s][f];
				squares += (double)x[s][f] * (double)x[s][f];
			}
			means += sum / BATCH;
			variances += n / BATCH * (squares - sum * sum / n) / (n - 1);
		}
		ck_assert_double_eq_tol((double)mean[f], 0.25 * means, 1e-6);
		ck_assert_double_eq_tol((double)var[f], 0.75 + 0.25 * variances, 1e-6);
	}
}
END_TEST

/* ---- memory.microbatches: auto ---- */

/* The fastest of the plans with 1, 2, 4 and 8 parts that fit, at several budgets; its run is the run with that number.
 */
START_TEST(auto_takes_the_fastest_plan_that_fits)
{
	static const char *const parts[] = { "train.accumulate=1", "train.accumulate=2", "train.accumulate=4",
					     "train.accumulate=8" };
	struct training training = { .text = norms, .steps = training_steps(2) };
	struct training_result result, chosen;
	training.override[0] = parts[0];
	ck_assert_ok(training_plan(&training, &result));
	const uint64_t least = result.info.min_budget_bytes, most = result.info.none_peak_bytes;
	training.override[0] = parts[2];
	ck_assert_ok(training_plan(&training, &result));
	ck_assert_uint_lt(result.info.min_budget_bytes, least);
	const char *budget =
		training_budget(_i == 3 ? result.info.min_budget_bytes : least + (most - least) * (uint64_t)_i / 2);
	uint64_t best = UINT64_MAX;
	uint32_t number = 0;
	for (size_t i = 0; i < 4; i++) {
		training.override[0] = parts[i];
		training.override[1] = budget;
		enum tarn_status st = training_plan(&training, &result);
		ck_assert(st == TARN_OK || st == TARN_EBUDGET);
		if (st || result.info.step_ns >= best)
			continue;
		best = result.info.step_ns;
		number = result.info.microbatches;
	}
	ck_assert_uint_ne(number, 0);
	training.override[0] = "memory.microbatches=auto";
	ck_assert_ok(training_run(&training, &chosen));
	ck_assert_uint_eq(chosen.info.step_ns, best);
	ck_assert_uint_eq(chosen.info.microbatches, number);
	ck_assert(chosen.info.microbatches_chosen);
	ck_assert(_i != 3 || number > 1);
	char given[32];
	snprintf(given, sizeof given, "train.accumulate=%u", number);
	training.override[0] = given;
	ck_assert_ok(training_run(&training, &result));
	ck_assert_uint_eq(chosen.hash, result.hash);
	ck_assert(!result.info.microbatches_chosen);
}
END_TEST

/* A plan file holds the choice. */
START_TEST(a_saved_plan_keeps_the_choice)
{
	char path[512];
	snprintf(path, sizeof path, "%s/auto.plan", testing_directory());
	struct training training = { .text = norms, .override = { "train.accumulate=4" }, .steps = training_steps(2) };
	struct training_result result, loaded;
	ck_assert_ok(training_plan(&training, &result));
	training.override[0] = "memory.microbatches=auto";
	training.override[1] = training_budget(result.info.min_budget_bytes);
	ck_assert_ok(training_run(&training, &result));
	ck_assert_uint_gt(result.info.microbatches, 1);
	const char *override[] = { training.override[0], training.override[1] };
	struct tarn_options options = { .config_text = norms, .override = override, .overrides = 2, .plan_only = true };
	struct tarn_session *session;
	ck_assert_ok(tarn_open(&options, &session));
	ck_assert_ok(tarn_plan_save(session, path));
	tarn_close(session);
	struct training from_plan = { .plan = path, .steps = training.steps };
	ck_assert_ok(training_run(&from_plan, &loaded));
	ck_assert_uint_eq(loaded.hash, result.hash);
	ck_assert_uint_eq(loaded.info.microbatches, result.info.microbatches);
	from_plan.override[0] = "train.accumulate=2";
	ck_assert_fails(training_run(&from_plan, &loaded), TARN_EINVAL, "is part of the plan");
}
END_TEST

/* Below every number of parts the sentence names the least of all. */
START_TEST(auto_names_the_smallest_budget_of_all)
{
	struct training training = { .text = norms, .override = { "memory.microbatches=auto", "memory.budget=1 KiB" } };
	struct training_result result;
	ck_assert_fails(training_plan(&training, &result), TARN_EBUDGET, "too small");
	const char *at = strstr(tarn_error(), "recompute: auto is ");
	ck_assert_msg(at != NULL, "%s", tarn_error());
	uint64_t least = strtoull(at + strlen("recompute: auto is "), NULL, 10);
	training.override[1] = training_budget(least);
	ck_assert_ok(training_plan(&training, &result));
	training.override[0] = "train.accumulate=1";
	ck_assert_fails(training_plan(&training, &result), TARN_EBUDGET, "too small");
}
END_TEST

START_TEST(auto_is_refused_where_it_would_change_the_network)
{
	struct training training = { .text = training_convbn, .override = { "memory.microbatches=auto" } };
	struct training_result result;
	ck_assert_fails(training_plan(&training, &result), TARN_EINVAL,
			"memory.microbatches is auto, but the batch norm");
	training.override[1] = "train.microbatch_norm=allow";
	ck_assert_ok(training_plan(&training, &result));
	training.override[1] = "train.accumulate=2";
	ck_assert_fails(training_plan(&training, &result), TARN_EINVAL,
			"train.accumulate is 2, but memory.microbatches is auto");
}
END_TEST

/* With memory to spare the largest cap wins; the choice is known, and what is given stays. */
START_TEST(workspace_cap_can_be_chosen)
{
	struct training training = { .text = training_convbn, .override = { "memory.workspace_cap=auto" } };
	struct training_result chosen, given;
	ck_assert_ok(training_plan(&training, &chosen));
	ck_assert(chosen.info.workspace_chosen);
	ck_assert_uint_eq(chosen.info.workspace_cap, 256u << 20);
	training.override[0] = "memory.workspace_cap=256 MiB";
	ck_assert_ok(training_plan(&training, &given));
	ck_assert(!given.info.workspace_chosen);
	ck_assert_uint_eq(chosen.info.step_ns, given.info.step_ns);
	ck_assert_uint_eq(chosen.info.peak_bytes, given.info.peak_bytes);
}
END_TEST

/* ---- snapshots, errors ---- */

START_TEST(resumes_to_the_same_bits)
{
	const struct training training = { .text = norms, .override = { "train.accumulate=4", "train.max_steps=7" } };
	struct training_result whole;
	check_resumed_run(training, 4, &whole);
}
END_TEST

START_TEST(more_parts_than_samples_are_an_error)
{
	struct training training = { .text = norms, .override = { "train.accumulate=11" } };
	struct training_result result;
	ck_assert_fails(training_plan(&training, &result), TARN_EINVAL, "train.accumulate");
	ck_assert_msg(strstr(tarn_error(), "a batch of 10") != NULL, "%s", tarn_error());
	training.override[0] = "train.accumulate=0";
	ck_assert_fails(training_plan(&training, &result), TARN_EINVAL, "train.accumulate");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("accumulate");
	TCase *tcase = tcase_create("accumulate");
	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(tcase, a_run_in_parts_is_the_run, 0, 2 * NETWORKS);
	tcase_add_test(tcase, the_schedule_counts_batches);
	tcase_add_loop_test(tcase, strategies_agree_bit_for_bit, 0, NETWORKS);
	tcase_add_loop_test(tcase, exact_where_the_arithmetic_is_exact, 0, 4);
	tcase_add_loop_test(tcase, gradient_is_that_of_the_formula, 1, BATCH + 1);
	tcase_add_loop_test(tcase, ignored_labels_leave_the_divisor_of_the_whole, 0, 4);
	tcase_add_test(tcase, batch_norm_is_refused);
	tcase_add_loop_test(tcase, running_statistics_follow_the_parts, 0, 2);
	tcase_add_loop_test(tcase, auto_takes_the_fastest_plan_that_fits, 0, 4);
	tcase_add_test(tcase, a_saved_plan_keeps_the_choice);
	tcase_add_test(tcase, auto_names_the_smallest_budget_of_all);
	tcase_add_test(tcase, auto_is_refused_where_it_would_change_the_network);
	tcase_add_test(tcase, workspace_cap_can_be_chosen);
	tcase_add_test(tcase, resumes_to_the_same_bits);
	tcase_add_test(tcase, more_parts_than_samples_are_an_error);
	suite_add_tcase(suite, tcase);
	return testing_run(suite);
}
