/* test_losses.c - several inputs and several losses in one network, beside networks with one of each that equal them.
 */
#include "tarn.h"

#include "support/testing.h"
#include "support/training.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SAMPLES 20u
static float values[SAMPLES][5];
static float targets[SAMPLES][4];
static int32_t labels[SAMPLES];

/* An npy file of N rows of four-byte values. */
static void write_npy(const char *name, const char *dtype, uint32_t rows, uint32_t columns, const void *data)
{
	char shape[32];
	snprintf(shape, sizeof shape, columns ? "(%u, %u)" : "(%u,)", rows, columns);
	testing_npy(name, dtype, shape, data, 4 * (size_t)rows * (columns ? columns : 1));
}

/* Columns [from, to) of rows of `width`. */
static void write_columns(const char *name, const float *data, uint32_t width, uint32_t from, uint32_t to)
{
	float part[SAMPLES * 5];
	for (uint32_t n = 0; n < SAMPLES; n++)
		memcpy(part + n * (to - from), data + n * width + from, (to - from) * sizeof *part);
	write_npy(name, "<f4", SAMPLES, to - from, part);
}

static void setup(void)
{
	struct testing_random random = { 3 };
	for (uint32_t n = 0; n < SAMPLES; n++) {
		for (uint32_t i = 0; i < 5; i++)
			values[n][i] = testing_float(&random);
		for (uint32_t i = 0; i < 4; i++)
			targets[n][i] = testing_float(&random);
		labels[n] = (int32_t)testing_between(&random, 0, 2);
	}
	write_columns("x.npy", values[0], 5, 0, 5);
	write_columns("left.npy", values[0], 5, 0, 3);
	write_columns("right.npy", values[0], 5, 3, 5);
	write_columns("t.npy", targets[0], 4, 0, 4);
	write_columns("t1.npy", targets[0], 4, 0, 2);
	write_columns("t2.npy", targets[0], 4, 2, 4);
	write_npy("y.npy", "<i4", SAMPLES, 0, labels);
}

/* YAML for the files in the test's folder. */
static const char *text(const char *data, const char *rest)
{
	static char made[4][2048];
	static unsigned next;
	char *out = made[next++ % 4];
	const char *none = strstr(data, "test_inputs") ? "" : "test_inputs: '', test_labels: '', ";
	snprintf(out, sizeof made[0],
		 "data: {type: npy, directory: %s, batch: 8, %s%s}\n"
		 "train: {epochs: 3, threads: 1, seed: 5}\n%s",
		 testing_directory(), none, data, rest);
	return out;
}

static struct training_result run(const char *yaml)
{
	struct training_result result;
	const struct training training = { .text = yaml };
	ck_assert_ok(training_run(&training, &result));
	return result;
}

#define AFTER             \
	"- add: [a, b]\n" \
	"- relu\n"        \
	"- dense: 3\n"    \
	"network: {init: hash}\n"

/* Two inputs are the two parts of one input, to the last bit, epochs with shuffled and short batches included. */
START_TEST(two_inputs_are_parts_of_one)
{
	const char *two = text("train_inputs: left.npy, train_labels: y.npy, classes: 3, arrays: [meta], "
			       "train_arrays: [right.npy]",
			       "layers:\n"
			       "- dense: {name: a, features: 4}\n"
			       "- dense: {name: b, features: 4, inputs: meta}\n" AFTER);
	const char *one = text("train_inputs: x.npy, train_labels: y.npy, classes: 3",
			       "layers:\n"
			       "- slice: {name: left, axis: 1, begin: 0, length: 3}\n"
			       "- dense: {name: a, features: 4}\n"
			       "- slice: {name: right, axis: 1, begin: 3, length: 2, inputs: input}\n"
			       "- dense: {name: b, features: 4}\n" AFTER);
	struct training_result x = run(two), y = run(one);
	ck_assert_double_eq(x.first_loss, y.first_loss);
	ck_assert_double_eq(x.last_loss, y.last_loss);
	ck_assert_uint_eq(x.hash, y.hash);
}
END_TEST

#define TRUNK                               \
	"layers:\n"                         \
	"- dense: {name: h, features: 6}\n" \
	"- relu: {name: r}\n"
#define REGRESSION "network: {init: hash, loss: mse}\n"

/* The mean of four squares is half the sum of two means of two: with twice the rate the same weights. */
START_TEST(two_losses_are_parts_of_one)
{
	const char *two = text("train_inputs: x.npy, train_labels: t1.npy, arrays: [t2], train_arrays: [t2.npy]", TRUNK
			       "- dense: {name: second, features: 2, inputs: r}\n"
			       "- dense: {name: first, features: 2, inputs: r}\n"
			       "network: {init: hash, loss: mse, losses: [{type: mean_squared_error, input: second, "
			       "labels: t2}]}\n"
			       "optimizer: {type: sgd, learning_rate: 0.25}\n");
	const char *one = text("train_inputs: x.npy, train_labels: t.npy",
			       TRUNK "- dense: {name: second, features: 2, inputs: r}\n"
				     "- dense: {name: first, features: 2, inputs: r}\n"
				     "- concat: {inputs: [first, second], axis: 1}\n" REGRESSION
				     "optimizer: {type: sgd, learning_rate: 0.5}\n");
	struct training_result x = run(two), y = run(one);
	ck_assert_double_eq_tol(x.first_loss, 2 * y.first_loss, 1e-6);
	ck_assert_double_eq_tol(x.last_loss, 2 * y.last_loss, 1e-6);
}
END_TEST

/* Two inputs, three losses with weights, labels and floats, test set included. */
static const char *mixed(void)
{
	return text("train_inputs: left.npy, train_labels: y.npy, classes: 3, test_inputs: left.npy, "
		    "test_labels: y.npy, arrays: [meta, t2, again], train_arrays: [right.npy, t2.npy, y.npy], "
		    "test_arrays: [right.npy, t2.npy, y.npy]",
		    "layers:\n"
		    "- dense: {name: a, features: 4}\n"
		    "- dense: {name: b, features: 4, inputs: meta}\n"
		    "- add: {name: s, inputs: [a, b]}\n"
		    "- tanh: {name: r}\n"
		    "- dense: {name: value, features: 2, inputs: r}\n"
		    "- dense: {name: kind, features: 3, inputs: r}\n"
		    "- dense: {features: 3, inputs: r}\n"
		    "network:\n"
		    "  init: hash\n"
		    "  losses:\n"
		    "  - {type: mean_squared_error, input: value, labels: t2, weight: 0.5}\n"
		    "  - {type: cross_entropy, input: kind, labels: again, weight: 0.25, name: kinds}\n"
		    "optimizer: {type: sgd, learning_rate: 1}\n");
}

/* One step after element `index` of a tensor was moved by `by`. */
static struct tarn_metrics step_moved(const char *name, uint32_t index, float by, float *tensor, uint32_t elements)
{
	struct tarn_options options = { .config_text = mixed() };
	struct tarn_session *session;
	struct tarn_metrics metrics;
	ck_assert_ok(tarn_open(&options, &session));
	ck_assert_ok(tarn_read_tensor(session, name, tensor, elements * sizeof *tensor));
	tensor[index] += by;
	ck_assert_ok(tarn_write_tensor(session, name, tensor, elements * sizeof *tensor));
	ck_assert_ok(tarn_step(session, &metrics));
	ck_assert_ok(tarn_read_tensor(session, name, tensor, elements * sizeof *tensor));
	tarn_close(session);
	return metrics;
}

/* With plain descent at rate 1 a step moves a weight by its gradient. */
START_TEST(gradients_are_those_of_the_sum)
{
	static const struct {
		const char *name;
		uint32_t elements;
	} tensors[] = { { "a/weight", 12 }, { "b/weight", 8 }, { "value/weight", 8 }, { "kind/bias", 3 } };
	const float epsilon = 1e-2f;
	for (size_t t = 0; t < sizeof tensors / sizeof *tensors; t++)
		for (uint32_t i = 0; i < tensors[t].elements; i += 2) {
			float before[12], after[12], unused[12];
			step_moved(tensors[t].name, i, 0, after, tensors[t].elements);
			struct tarn_metrics up = step_moved(tensors[t].name, i, epsilon, unused, tensors[t].elements);
			struct tarn_metrics down =
				step_moved(tensors[t].name, i, -epsilon, unused, tensors[t].elements);
			struct tarn_options options = { .config_text = mixed() };
			struct tarn_session *session;
			ck_assert_ok(tarn_open(&options, &session));
			ck_assert_ok(tarn_read_tensor(session, tensors[t].name, before,
						      tensors[t].elements * sizeof *before));
			tarn_close(session);
			double gradient = (double)before[i] - (double)after[i];
			double difference = (up.loss - down.loss) / (2 * (double)epsilon);
			ck_assert_msg(fabs(gradient - difference) < 1e-3, "%s[%u]: %g, differences say %g",
				      tensors[t].name, i, gradient, difference);
		}
}
END_TEST

START_TEST(each_loss_is_reported)
{
	static const char *const name[] = { "network", "value", "kinds" };
	struct tarn_options options = { .config_text = mixed() };
	struct tarn_session *session;
	struct tarn_metrics metrics;
	struct tarn_evaluation evaluation;
	ck_assert_ok(tarn_open(&options, &session));
	for (uint32_t k = 0; k < 4; k++) {
		ck_assert_ok(tarn_step(session, &metrics));
		ck_assert_uint_eq(metrics.parts, 3);
		for (uint32_t i = 0; i < 3; i++)
			ck_assert_str_eq(metrics.part[i].name, name[i]);
		ck_assert_double_eq_tol(metrics.loss,
					metrics.part[0].loss + 0.5 * metrics.part[1].loss + 0.25 * metrics.part[2].loss,
					1e-6);
		ck_assert_double_eq(metrics.part[0].accuracy, metrics.accuracy);
		ck_assert(isnan(metrics.part[1].accuracy));
		ck_assert(metrics.part[2].accuracy >= 0 && metrics.part[2].accuracy <= 1);
	}
	ck_assert_ok(tarn_evaluate(session, &evaluation));
	ck_assert_uint_eq(evaluation.parts, 3);
	ck_assert_double_eq_tol(
		evaluation.loss,
		evaluation.part[0].loss + 0.5 * evaluation.part[1].loss + 0.25 * evaluation.part[2].loss, 1e-6);
	ck_assert_double_eq_tol(evaluation.part[0].accuracy, evaluation.accuracy, 1e-12);
	tarn_close(session);
}
END_TEST

/* In parts whose gradients are added a batch has the same losses. */
START_TEST(parts_of_a_batch_have_the_same_losses)
{
	const char *override = "train.accumulate=2";
	struct tarn_options options = { .config_text = mixed() };
	struct tarn_session *session;
	struct tarn_metrics whole, parts;
	ck_assert_ok(tarn_open(&options, &session));
	ck_assert_ok(tarn_step(session, &whole));
	tarn_close(session);
	options.override = &override;
	options.overrides = 1;
	ck_assert_ok(tarn_open(&options, &session));
	ck_assert_ok(tarn_step(session, &parts));
	ck_assert_uint_eq(parts.parts, 3);
	ck_assert_double_eq_tol(parts.loss, whole.loss, 1e-5);
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_double_eq_tol(parts.part[i].loss, whole.part[i].loss, 1e-5);
	ck_assert_double_eq_tol(parts.part[2].accuracy, whole.part[2].accuracy, 1e-6);
	tarn_close(session);
}
END_TEST

START_TEST(budgets_change_no_bit)
{
	char plan[300], key[64];
	struct training training = { .text = mixed() };
	struct training_result free_run = run(mixed()), other;
	training.override[0] = training_budget(free_run.info.min_budget_bytes);
	ck_assert_ok(training_run(&training, &other));
	ck_assert_uint_eq(other.hash, free_run.hash);
	static const char *const strategy[] = { "memory-poor", "sqrt", "min" };
	for (size_t i = 0; i < 3; i++) {
		snprintf(key, sizeof key, "memory.recompute=%s", strategy[i]);
		training.override[0] = key;
		ck_assert_ok(training_run(&training, &other));
		ck_assert_uint_eq(other.hash, free_run.hash);
	}
	/* A plan file has all that a run needs to know of arrays and losses. */
	snprintf(plan, sizeof plan, "%s/mixed.plan", testing_directory());
	struct tarn_options options = { .config_text = mixed(), .plan_only = true };
	struct tarn_session *session;
	struct tarn_metrics metrics;
	ck_assert_ok(tarn_open(&options, &session));
	ck_assert_ok(tarn_plan_save(session, plan));
	tarn_close(session);
	options = (struct tarn_options){ .plan_path = plan };
	ck_assert_ok(tarn_open(&options, &session));
	do
		ck_assert_ok(tarn_step(session, &metrics));
	while (!metrics.finished);
	uint64_t hash;
	ck_assert_ok(tarn_weights_hash(session, &hash));
	ck_assert_uint_eq(metrics.parts, 3);
	tarn_close(session);
	ck_assert_uint_eq(hash, free_run.hash);
}
END_TEST

#define TWO "train_inputs: x.npy, train_labels: t1.npy, arrays: [t2], train_arrays: [t2.npy]"
#define HEADS "layers: [{dense: {name: h, features: 2}}, {dense: 2}]\n"

START_TEST(says_what_is_wrong)
{
	static const struct {
		const char *data, *rest;
		enum tarn_status status;
		const char *message;
	} bad[] = {
		{ "train_inputs: x.npy, train_labels: t1.npy, arrays: [t2]", HEADS, TARN_EINVAL,
		  "data.arrays has 1 names, data.train_arrays 0" },
		{ TWO ", test_arrays: [t2.npy]", HEADS, TARN_EINVAL, "data.test_arrays has 1 files; 0 are needed" },
		{ "train_inputs: x.npy, train_labels: t1.npy, arrays: [t2], train_arrays: [none.npy]", HEADS REGRESSION,
		  TARN_EIO, "none.npy: no such file; data.train_arrays names it" },
		{ "train_inputs: x.npy, train_labels: t1.npy, arrays: [input], train_arrays: [t2.npy]",
		  HEADS REGRESSION, TARN_EINVAL, "the name input is used by the network itself" },
		{ "train_inputs: x.npy, train_labels: t1.npy, arrays: [a, a], train_arrays: [t2.npy, t2.npy]",
		  HEADS REGRESSION, TARN_EINVAL, "has a twice" },
		{ TWO, HEADS REGRESSION, TARN_EINVAL, "data.arrays: no layer and no loss reads t2" },
		{ TWO, "layers: [{dense: {name: t2, features: 2}}]\n" REGRESSION, TARN_EINVAL,
		  "t2 is one of data.arrays" },
		{ TWO, HEADS "network: {loss: mse, losses: {a: 1}}\n", TARN_EINVAL, "must be a list of losses" },
		{ TWO, HEADS "network: {loss: mse, losses: [{type: mean_squared_error, input: h}]}\n", TARN_EINVAL,
		  "a loss needs type, input and labels" },
		{ TWO, HEADS "network: {loss: mse, losses: [{type: l1, input: h, labels: t2}]}\n", TARN_EINVAL, "l1" },
		{ TWO, HEADS "network: {loss: mse, losses: [{type: mean_squared_error, input: z, labels: t2}]}\n",
		  TARN_EINVAL, "no layer is named z" },
		{ TWO, HEADS "network: {loss: mse, losses: [{type: mean_squared_error, input: h, labels: t}]}\n",
		  TARN_EINVAL, "t is none of data.arrays" },
		{ TWO, HEADS "network: {loss: mse, losses: [{type: cross_entropy, input: h, labels: t2}]}\n",
		  TARN_EINVAL, "t2 holds floats; cross_entropy compares with integers" },
		{ TWO,
		  HEADS "network: {loss: mse, losses: [{type: mean_squared_error, input: h, labels: t2, wight: 1}]}\n",
		  TARN_EINVAL, "a loss has no key wight" },
		{ TWO,
		  HEADS "network: {loss: mse, losses: [{type: mean_squared_error, input: h, labels: t2}, "
			"{type: mean_squared_error, input: h, labels: t2}]}\n",
		  TARN_EINVAL, "already a loss named h" },
		{ TWO,
		  "layers: [{dense: {name: h, features: 3}}, {dense: 2}]\n"
		  "network: {loss: mse, losses: [{type: mean_squared_error, input: h, labels: t2}]}\n",
		  TARN_EINVAL, "input t2 has the shape 8x2, needed is 8x3" },
		/* R058: labels that the network does not know. */
		{ "train_inputs: x.npy, train_labels: t1.npy, arrays: [y], train_arrays: [y.npy]",
		  HEADS "network: {loss: mse, losses: [{type: cross_entropy, input: h, labels: y}]}\n", TARN_EDATA,
		  "data.arrays: y: the value at index" },
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		const struct training training = { .text = text(bad[i].data, bad[i].rest) };
		struct training_result result;
		ck_assert_fails(training_run(&training, &result), bad[i].status, bad[i].message);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("losses");
	TCase *cases = tcase_create("losses");
	tcase_add_checked_fixture(cases, setup, NULL);
	tcase_set_timeout(cases, 60);
	tcase_add_test(cases, two_inputs_are_parts_of_one);
	tcase_add_test(cases, two_losses_are_parts_of_one);
	tcase_add_test(cases, gradients_are_those_of_the_sum);
	tcase_add_test(cases, each_loss_is_reported);
	tcase_add_test(cases, parts_of_a_batch_have_the_same_losses);
	tcase_add_test(cases, budgets_change_no_bit);
	tcase_add_test(cases, says_what_is_wrong);
	suite_add_tcase(suite, cases);
	return testing_run(suite);
}
