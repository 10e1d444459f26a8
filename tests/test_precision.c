/*
 * test_precision.c - activations and weights of 16 bits: what the graph stores how, bit identity over plans, stochastic
 * rounding of updates, and what it changes. In builds with slow checks: accuracy after an epoch of Fashion-MNIST, mean
 * of three seeds, within one point of float32.
 */
#include "conformance/single_op.h"
#include "config/config.h"
#include "graph/build.h"
#include "graph/precision.h"
#include "graph/storage.h"
#include "support/run_checks.h"
#include "support/testing.h"
#include "support/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEPS training_steps(12)

static const char *const networks[] = { training_residual, training_tied, training_frozen,
					training_unet,     training_gpt,  training_lstm };
#define NETWORKS (sizeof networks / sizeof *networks)

static const struct {
	const char *compute, *weights;
} formats[] = { { "precision.compute=bfloat16", "precision.weights=float32" },
		{ "precision.compute=float16", "precision.weights=float32" },
		{ "precision.compute=bfloat16", "precision.weights=bfloat16" } };
#define FORMATS (sizeof formats / sizeof *formats)

static struct training run_of(int i)
{
	return (struct training){ .text = networks[(size_t)i / FORMATS],
				  .override = { formats[(size_t)i % FORMATS].compute,
						formats[(size_t)i % FORMATS].weights },
				  .steps = STEPS };
}

/* Keep-all, four budgets down to the smallest, and the smallest with NaN in dead ranges. */
START_TEST(plans_change_no_bit)
{
	struct training training = run_of(_i);
	struct training_result free_run, result;
	if (training_driver())
		TESTING_SKIP("no other driver stores 16 bits yet");
	ck_assert_ok(training_run(&training, &free_run));
	uint64_t low = free_run.info.min_budget_bytes, high = free_run.info.arena_bytes;
	for (uint64_t k = 0; k < 5; k++) {
		uint64_t budget = low + (high - low) * (k / 2) / 3;
		training.override[2] = training_budget(budget);
		training.poison = k == 1;
		ck_assert_ok(training_run(&training, &result));
		ck_assert_uint_le(result.info.arena_bytes, budget);
		ck_assert_msg(result.hash == free_run.hash, "%s, %s at %s: weights %016llx, keep-all has %016llx",
			      training.override[0], training.override[1], training.override[2],
			      (unsigned long long)result.hash, (unsigned long long)free_run.hash);
	}
	ck_assert_uint_gt(result.info.arena_bytes, 0);
}
END_TEST

/* Not the same numbers as in float32, but nearly the same losses. Images take less memory; in networks as small as the
 * others here the floats that a thread works on weigh more. */
START_TEST(losses_stay_near_float32)
{
	struct training training = run_of(_i);
	struct training_result narrow, wide;
	if (training_driver())
		TESTING_SKIP("no other driver stores 16 bits yet");
	ck_assert_ok(training_run(&training, &narrow));
	training.override[0] = "precision.compute=float32";
	training.override[1] = NULL;
	ck_assert_ok(training_run(&training, &wide));
	ck_assert_uint_ne(narrow.hash, wide.hash);
	ck_assert_msg(fabs(narrow.first_loss - wide.first_loss) < 0.02 * wide.first_loss, "first loss %g, float32 %g",
		      narrow.first_loss, wide.first_loss);
	ck_assert_msg(fabs(narrow.last_loss - wide.last_loss) < 0.1 * wide.first_loss, "last loss %g, float32 %g",
		      narrow.last_loss, wide.last_loss);
	if (training.text == training_residual || training.text == training_unet)
		ck_assert_uint_lt(narrow.info.none_peak_bytes, wide.info.none_peak_bytes);
}
END_TEST

/* ---- weights of 16 bits ---- */

#define WEIGHTS 40001u

static uint16_t upper_half(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	return (uint16_t)(bits >> 16);
}

/* w -= 1 * g for w = 1 in bfloat16, stored in `w`; the numbers below 1 are 2^-8 apart. */
static void subtract(uint32_t step, uint32_t stream, float gradient, uint16_t *w)
{
	static float g[WEIGHTS];
	const struct single_input input[] = { { DTYPE_BF16, 0, 1, { WEIGHTS } },
					      { DTYPE_F32, 0, 1, { WEIGHTS } },
					      { DTYPE_U8, ROLE_SCALARS, 1, { sizeof(struct step_scalars) } } };
	const struct op_attr attr = { .rate_scale = 1, .stream = stream };
	const struct step_scalars scalars = { .seed = 9, .step = step, .learning_rate = 1 };
	const struct single_options options = { .threads = 2, .in_place = -1 };
	struct single_op single;
	ck_assert_ok(single_op_open(&single, driver_find("cpu"), OP_SGD, &attr, input, 3, &options));
	for (uint32_t i = 0; i < WEIGHTS; i++) {
		w[i] = upper_half(1);
		g[i] = gradient;
	}
	ck_assert_ok(single_op_write(&single, 0, w));
	ck_assert_ok(single_op_write(&single, 1, g));
	ck_assert_ok(single_op_write(&single, 2, &scalars));
	ck_assert_ok(single_op_launch(&single));
	ck_assert_ok(single_op_read(&single, 0, w));
	ck_assert_uint_eq(single_op_stray(&single), UINT64_MAX);
	single_op_close(&single);
}

/* A fifth of the distance: a fifth of the weights go down, four standard deviations allowed. To the nearest, none do.
 */
START_TEST(updates_are_right_on_average)
{
	static uint16_t w[WEIGHTS], again[WEIGHTS], later[WEIGHTS];
	uint32_t below = 0;
	subtract(3, 77, 0x1p-8f / 5, w);
	subtract(3, 77, 0x1p-8f / 5, again);
	subtract(4, 77, 0x1p-8f / 5, later);
	for (uint32_t i = 0; i < WEIGHTS; i++) {
		ck_assert(w[i] == upper_half(1) || w[i] == upper_half(1 - 0x1p-8f));
		below += w[i] != upper_half(1);
	}
	ck_assert_double_eq_tol(below / (double)WEIGHTS, 0.2, 4 * sqrt(0.2 * 0.8 / WEIGHTS));
	ck_assert(!memcmp(w, again, sizeof w));
	ck_assert(memcmp(w, later, sizeof w) != 0);
	subtract(3, 0, 0x1p-8f / 5, w);
	for (uint32_t i = 0; i < WEIGHTS; i++)
		ck_assert_uint_eq(w[i], upper_half(1));
}
END_TEST

START_TEST(weights_of_16_bits_have_no_copy_and_resume)
{
	struct training training = { .text = training_residual,
				     .override = { "precision.compute=bfloat16", "precision.weights=bfloat16" },
				     .steps = 8 };
	struct training_result whole, wide;
	if (training_driver())
		TESTING_SKIP("no other driver updates weights of 16 bits yet");
	check_resumed_run(training, 5, &whole);
	training.override[1] = NULL;
	ck_assert_ok(training_plan(&training, &wide));
	ck_assert_uint_lt(whole.info.persistent_bytes, wide.info.persistent_bytes);
}
END_TEST

static const struct {
	const char *override[2], *why;
} refused[] = {
	{ { "precision.compute=float16", NULL }, "with precision.compute: bfloat16" },
	{ { "precision.compute=bfloat16", "optimizer.type=lion" }, "needs optimizer.type sgd" },
	{ { "precision.compute=bfloat16", "train.ema=0.9" }, "need weights in float32" },
};

START_TEST(weights_of_16_bits_are_refused_by_name)
{
	struct training training = { .text = training_convbn,
				     .override = { "precision.weights=bfloat16", refused[_i].override[0],
						   refused[_i].override[1] } };
	struct training_result result;
	ck_assert_fails(training_plan(&training, &result), TARN_EINVAL, refused[_i].why);
}
END_TEST

/* ---- accuracy ---- */

START_TEST(no_format_costs_a_point)
{
	if (accuracy_skipped())
		TESTING_SKIP(accuracy_skipped());
	double wide = mean_accuracy((const char *[]){ NULL });
	for (size_t i = 0; i < FORMATS; i++)
		ck_assert_double_ge(mean_accuracy((const char *[]){ formats[i].compute, formats[i].weights, NULL }),
				    wide - 1);
	ck_assert_double_ge(mean_accuracy((const char *[]){ "optimizer.state=int8", NULL }), wide - 1);
}
END_TEST

/* ---- the graph ---- */

static struct host_arena arena;
static struct graph graph;

static void open_arena(void)
{
	host_arena_init(&arena);
}

static void close_arena(void)
{
	host_arena_fini(&arena);
}

static const struct sample_shape image = { .dim = { 8, 8, 3 }, .rank = 3, .classes = 10 };

/* Two convolutions, one with batch norm, pooling, a dense layer. */
static const char text[] = "data: {type: hash, shape: [8, 8, 3], batch: 4}\n"
			   "layers:\n"
			   "  - conv2d: {channels: 8, kernel: 3, padding: 1}\n"
			   "  - batch_norm\n"
			   "  - relu\n"
			   "  - conv2d: {channels: 8, kernel: 3, padding: 1, name: second}\n"
			   "  - max_pool: 2\n"
			   "  - flatten\n"
			   "  - dense: 10\n";

static void build(const char *gradients)
{
	const char *override[] = { "precision.compute=bfloat16", gradients };
	struct config config;
	ck_assert_ok(config_parse(text, sizeof text - 1, "test", override, 2, &arena, &config));
	ck_assert_ok(graph_init(&graph, &arena));
	ck_assert_ok(training_build(&config, &image, 4, &arena, &graph));
}

static uint32_t dtype_at(uint32_t op, uint32_t operand)
{
	return graph.tensor[graph.operand[graph.op[op].first_operand + operand]].dtype;
}

START_TEST(each_operand_has_the_type_of_the_table)
{
	build("precision.gradients=float32");
	uint32_t narrow = 0;
	for (uint32_t op = 0; op < graph.ops; op++) {
		const struct op_storage *storage = op_storage(graph.op[op].kind);
		for (uint32_t i = 0; i < graph.op[op].inputs; i++) {
			uint32_t dtype = dtype_at(op, i);
			bool may =
				storage_has(storage->inputs | storage->wide_inputs, i) || graph.op[op].kind == OP_CAST;
			ck_assert_msg(dtype != DTYPE_BF16 || may, "%s, input %u", op_name(&graph, op), i);
			ck_assert_msg(dtype != DTYPE_F32 || storage->policy != STORAGE_16_BITS ||
					      !storage_has(storage->inputs, i),
				      "%s, input %u is not narrow", op_name(&graph, op), i);
			narrow += dtype == DTYPE_BF16;
		}
	}
	ck_assert_uint_gt(narrow, 20);
	for (uint32_t t = 0; t < graph.tensors; t++)
		ck_assert(!is_persistent(graph.tensor[t].role) || graph.tensor[t].dtype != DTYPE_BF16);
}
END_TEST

/* A tensor has at most one copy in the other type. */
START_TEST(no_tensor_is_cast_twice)
{
	build("precision.gradients=float32");
	uint32_t casts = 0;
	for (uint32_t op = 0; op < graph.ops; op++) {
		if (graph.op[op].kind != OP_CAST)
			continue;
		casts++;
		for (uint32_t other = 0; other < op; other++)
			ck_assert(graph.op[other].kind != OP_CAST ||
				  op_inputs(&graph, other)[0] != op_inputs(&graph, op)[0]);
	}
	/* The image, two kernels, the dense matrix, and the gradient of the logits. */
	ck_assert_uint_eq(casts, 5);
}
END_TEST

/* Logits and the gradients of weights are written in float32, unless the gradients may be narrow. */
START_TEST(products_write_what_their_readers_want)
{
	const enum dtype wanted = _i ? DTYPE_BF16 : DTYPE_F32;
	build(_i ? "precision.gradients=bfloat16" : "precision.gradients=float32");
	uint32_t weights = 0;
	for (uint32_t op = 0; op < graph.ops; op++) {
		if (graph.op[op].kind == OP_CONV2D_GRAD_WEIGHT) {
			ck_assert_uint_eq(dtype_at(op, graph.op[op].inputs), wanted);
			weights++;
		}
		if (graph.op[op].kind == OP_MATMUL && graph.op[op].phase == PHASE_FORWARD)
			ck_assert_uint_eq(dtype_at(op, graph.op[op].inputs), DTYPE_F32);
		if (graph.op[op].kind == OP_MOMENTUM)
			ck_assert_uint_eq(dtype_at(op, 0), DTYPE_F32);
	}
	ck_assert_uint_eq(weights, 2);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("precision");
	TCase *runs = tcase_create("runs"), *graphs = tcase_create("graphs"), *slow = tcase_create("accuracy");
	TCase *weights = tcase_create("weights");
	tcase_set_timeout(runs, 300);
	tcase_add_loop_test(runs, plans_change_no_bit, 0, NETWORKS * FORMATS);
	tcase_add_loop_test(runs, losses_stay_near_float32, 0, NETWORKS * FORMATS);
	tcase_add_checked_fixture(graphs, open_arena, close_arena);
	tcase_add_test(graphs, each_operand_has_the_type_of_the_table);
	tcase_add_test(graphs, no_tensor_is_cast_twice);
	tcase_add_loop_test(graphs, products_write_what_their_readers_want, 0, 2);
	tcase_set_timeout(weights, 120);
	tcase_add_test(weights, updates_are_right_on_average);
	tcase_add_test(weights, weights_of_16_bits_have_no_copy_and_resume);
	tcase_add_loop_test(weights, weights_of_16_bits_are_refused_by_name, 0, sizeof refused / sizeof *refused);
	tcase_set_timeout(slow, 3600);
	tcase_add_test(slow, no_format_costs_a_point);
	suite_add_tcase(suite, runs);
	suite_add_tcase(suite, weights);
	suite_add_tcase(suite, slow);
	suite_add_tcase(suite, graphs);
	return testing_run(suite);
}
