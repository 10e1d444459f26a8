/*
 * test_curvature.c - products with the Hessian and what is made of them: against the whole matrix, which in turn meets
 * differences of the gradient that training makes; the same bits for every strategy and budget.
 */
#include "exec/tridiagonal.h"
#include "support/testing.h"
#include "support/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 160u

/* 130 parameters. */
static const char small[] = "data: {type: synthetic, shape: [6, 6, 2], classes: 3, batch: 8, samples: 20, "
			    "shuffle: false}\n"
			    "layers:\n"
			    "- conv2d: {channels: 3, kernel: 3}\n"
			    "- batch_norm\n"
			    "- tanh\n"
			    "- max_pool: 2\n"
			    "- flatten\n"
			    "- dense: 4\n"
			    "- gelu\n"
			    "- dense: 3\n"
			    "train: {seed: 3, threads: 1}\n"
			    "hvp: {training: true}\n";

#define OVERRIDES 8

static enum tarn_status open_with(const char *text, const char *const *override, const char *resume,
				  struct tarn_session **session)
{
	const char *all[OVERRIDES + 2];
	struct tarn_options options = {
		.config_text = text, .override = all, .resume_path = resume, .weights_only = resume != NULL
	};
	while (options.overrides < OVERRIDES && override[options.overrides]) {
		all[options.overrides] = override[options.overrides];
		options.overrides++;
	}
	if (training_driver())
		all[options.overrides++] = training_driver();
	return tarn_open(&options, session);
}

static struct tarn_session *open_small(const char *first, const char *second, const char *third)
{
	const char *const override[OVERRIDES] = { "objective.type=hvp", first, second, third };
	struct tarn_session *session;
	ck_assert_ok(open_with(small, override, NULL, &session));
	return session;
}

static uint64_t count_parameters(const struct tarn_session *session)
{
	uint64_t n = 0, elements;
	for (uint32_t i = 0; tarn_hessian_parameter(session, i, &elements); i++)
		n += elements;
	return n;
}

/* Column by column. */
static uint64_t read_hessian(struct tarn_session *session, float (*matrix)[MOST])
{
	uint64_t n = count_parameters(session);
	float unit[MOST] = { 0 };
	ck_assert_uint_le(n, MOST);
	for (uint64_t j = 0; j < n; j++) {
		unit[j] = 1;
		ck_assert_ok(tarn_hessian_write(session, TARN_VECTOR_INPUT, unit, n));
		ck_assert_ok(tarn_hessian_multiply(session, NULL));
		ck_assert_ok(tarn_hessian_read(session, TARN_VECTOR_PRODUCT, matrix[j], n));
		unit[j] = 0;
	}
	return n;
}

/* ---- the matrix ---- */

/* One plain step with rate 1 over all samples moves the weights by minus the gradient. */
static void read_gradient(struct tarn_session *session, const float *weights, double *gradient)
{
	uint64_t elements, at = 0;
	const char *const name[] = { "conv2d1/weight", "conv2d1/bias", "batch_norm1/weight", "batch_norm1/bias",
				     "dense1/weight",  "dense1/bias",  "dense2/weight",      "dense2/bias" };
	static const uint64_t length[] = { 54, 3, 3, 3, 48, 4, 12, 3 };
	struct tarn_metrics metrics;
	for (int pass = 0; pass < 2; pass++, at = 0) {
		for (size_t i = 0; i < sizeof name / sizeof *name; i++, at += elements) {
			float after[MOST];
			elements = length[i];
			if (!pass) {
				ck_assert_ok(tarn_write_tensor(session, name[i], weights + at, elements * 4));
				continue;
			}
			ck_assert_ok(tarn_read_tensor(session, name[i], after, elements * 4));
			for (uint64_t k = 0; k < elements; k++)
				gradient[at + k] = (double)weights[at + k] - (double)after[k];
		}
		if (!pass)
			ck_assert_ok(tarn_step(session, &metrics));
	}
}

START_TEST(hessian_meets_differences_of_the_gradient)
{
	static float matrix[MOST][MOST];
	const float h = 0.001f;
	const char *const plain[OVERRIDES] = { "data.batch=20", "optimizer.type=sgd", "optimizer.learning_rate=1",
					       "train.max_steps=1000", "train.epochs=1000" };
	struct tarn_session *session = open_small("data.batch=20", NULL, NULL), *training;
	uint64_t n = read_hessian(session, matrix), elements, at = 0;
	const char *name;
	float weights[MOST];
	ck_assert_uint_eq(n, 130);
	for (uint32_t i = 0; (name = tarn_hessian_parameter(session, i, &elements)); i++, at += elements)
		ck_assert_ok(tarn_read_tensor(session, name, weights + at, elements * 4));
	ck_assert_ok(open_with(small, plain, NULL, &training));
	double largest = 0, up[MOST], down[MOST];
	for (uint64_t i = 0; i < n; i++)
		for (uint64_t j = 0; j < n; j++) {
			largest = fmax(largest, fabs((double)matrix[i][j]));
			ck_assert_double_eq_tol((double)matrix[i][j], (double)matrix[j][i], 2e-6);
		}
	for (uint64_t j = 0; j < n; j += 9) {
		float kept = weights[j];
		weights[j] = kept + h;
		read_gradient(training, weights, up);
		weights[j] = kept - h;
		read_gradient(training, weights, down);
		weights[j] = kept;
		for (uint64_t i = 0; i < n; i++)
			ck_assert_msg(fabs((up[i] - down[i]) / (2 * (double)h) - (double)matrix[j][i]) <=
					      5e-3 * largest,
				      "H[%u][%u] is %.6g, differences give %.6g", (unsigned)i, (unsigned)j,
				      (double)matrix[j][i], (up[i] - down[i]) / (2 * (double)h));
	}
	tarn_close(training);
	tarn_close(session);
}
END_TEST

static uint64_t product_bits(struct tarn_session *session, float *product)
{
	uint64_t n = count_parameters(session);
	ck_assert_ok(tarn_hessian_random(session, 1));
	ck_assert_ok(tarn_hessian_multiply(session, NULL));
	ck_assert_ok(tarn_hessian_read(session, TARN_VECTOR_PRODUCT, product, n));
	return n;
}

START_TEST(modes_agree)
{
	float reverse[MOST], forward[MOST], chosen[MOST];
	struct tarn_session *session = open_small("hvp.mode=reverse", NULL, NULL);
	uint64_t n = product_bits(session, reverse);
	tarn_close(session);
	session = open_small("hvp.mode=forward", NULL, NULL);
	product_bits(session, forward);
	tarn_close(session);
	session = open_small("hvp.mode=auto", NULL, NULL);
	product_bits(session, chosen);
	tarn_close(session);
	for (uint64_t i = 0; i < n; i++)
		ck_assert_double_eq_tol((double)reverse[i], (double)forward[i], 2e-6);
	ck_assert(!memcmp(chosen, reverse, n * 4) || !memcmp(chosen, forward, n * 4));
}
END_TEST

/* ---- memory ---- */

static const char *const strategies[] = { "memory-poor", "sqrt", "speed", "auto", "min" };

/* A deeper network, so that there is something to recompute. */
static const char deep[] = "data: {type: synthetic, shape: [8, 8, 2], classes: 3, batch: 8, samples: 20}\n"
			   "layers:\n"
			   "- repeat:\n"
			   "    count: 4\n"
			   "    layers:\n"
			   "    - conv2d: {channels: 4, kernel: 3, padding: 1}\n"
			   "    - batch_norm\n"
			   "    - silu\n"
			   "    - dropout: 0.2\n"
			   "- global_pool\n"
			   "- dense: 3\n"
			   "train: {seed: 3, threads: 1}\n"
			   "hvp: {training: true}\n";

static void run_deep(const char *mode, const char *memory, float *product, struct tarn_plan_info *info)
{
	const char *const override[OVERRIDES] = { "objective.type=hvp", mode, memory };
	struct tarn_session *session;
	ck_assert_ok(open_with(deep, override, NULL, &session));
	uint64_t n = count_parameters(session);
	ck_assert_uint_le(n, 4 * MOST);
	ck_assert_ok(tarn_hessian_random(session, 0));
	ck_assert_ok(tarn_hessian_multiply(session, NULL));
	ck_assert_ok(tarn_hessian_read(session, TARN_VECTOR_PRODUCT, product, n));
	tarn_plan_info(session, info);
	ck_assert_uint_le(tarn_arena_touched_bytes(session), info->arena_bytes);
	tarn_close(session);
}

START_TEST(strategies_and_budgets_give_the_same_bits)
{
	const char *mode = _i ? "hvp.mode=forward" : "hvp.mode=reverse";
	static float expected[4 * MOST], product[4 * MOST];
	struct tarn_plan_info none, info;
	run_deep(mode, "memory.recompute=none", expected, &none);
	for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
		char text[64];
		snprintf(text, sizeof text, "memory.recompute=%s", strategies[i]);
		run_deep(mode, text, product, &info);
		ck_assert_msg(!memcmp(product, expected, sizeof product), "%s: %s", mode, strategies[i]);
	}
	uint64_t least = info.min_budget_bytes;
	ck_assert_uint_lt(least, none.peak_bytes);
	for (uint64_t i = 0; i < 4; i++) {
		uint64_t budget = least + (none.arena_bytes - least) * i / 4;
		run_deep(mode, training_budget(budget), product, &info);
		ck_assert_uint_le(info.arena_bytes, budget);
		ck_assert(i || info.recomputed_ops > 0);
		ck_assert_msg(!memcmp(product, expected, sizeof product), "%s: budget %llu", mode,
			      (unsigned long long)budget);
	}
	const char *const tight[OVERRIDES] = { "objective.type=hvp", mode, training_budget(least - 64) };
	struct tarn_session *session;
	ck_assert_fails(open_with(deep, tight, NULL, &session), TARN_EBUDGET, "smallest");
}
END_TEST

/* The basis of Lanczos is inside the budget. */
START_TEST(the_basis_is_part_of_the_plan)
{
	struct tarn_plan_info few, many;
	struct tarn_session *session = open_small("hvp.task=eigenvalues", "hvp.steps=10", NULL);
	tarn_plan_info(session, &few);
	uint64_t n = count_parameters(session);
	tarn_close(session);
	session = open_small("hvp.task=eigenvalues", "hvp.steps=30", NULL);
	tarn_plan_info(session, &many);
	tarn_close(session);
	ck_assert_uint_ge(many.persistent_bytes - few.persistent_bytes, 20 * n * 4);
	ck_assert_uint_le(many.persistent_bytes - few.persistent_bytes, 20 * n * 4 + 8 * 64);
}
END_TEST

/* ---- trace, diagonal, eigenvalues, density ---- */

static struct tarn_curvature curvature;

START_TEST(trace_and_diagonal_meet_the_matrix)
{
	static float matrix[MOST][MOST];
	float diagonal[MOST];
	double trace = 0, sum = 0, off = 0;
	struct tarn_session *session = open_small("hvp.task=diagonal", "hvp.samples=200", NULL);
	uint64_t n = read_hessian(session, matrix);
	ck_assert_ok(tarn_curvature_run(session, &curvature));
	ck_assert_ok(tarn_hessian_read(session, TARN_VECTOR_DIAGONAL, diagonal, n));
	for (uint64_t i = 0; i < n; i++) {
		trace += (double)matrix[i][i];
		sum += (double)diagonal[i];
	}
	ck_assert_double_eq_tol(sum, curvature.trace, 1e-3);
	ck_assert_double_eq_tol(curvature.trace, trace, 4 * curvature.trace_error);
	ck_assert_uint_eq(curvature.products, 200);
	/* The variance of an element is the sum of squares of the rest of its row (Bekas et al. 2007). */
	for (uint64_t i = 0; i < n; i++) {
		off = 0;
		for (uint64_t j = 0; j < n; j++)
			off += i == j ? 0 : (double)matrix[i][j] * (double)matrix[i][j];
		ck_assert_double_eq_tol((double)diagonal[i], (double)matrix[i][i], 5 * sqrt(off / 200) + 1e-5);
	}
	tarn_close(session);
}
END_TEST

/* Of a diagonal matrix plus ones beside it: known in closed form. */
START_TEST(tridiagonal_eigenvalues_are_known)
{
	double d[50], e[50], first[50], last[50];
	const uint32_t n = 50;
	for (uint32_t i = 0; i < n; i++) {
		d[i] = 2;
		e[i] = -1;
	}
	ck_assert_ok(tridiagonal_solve(n, d, e, first, last));
	double sum = 0;
	for (uint32_t k = 0; k < n; k++) {
		double angle = 3.14159265358979324 * (k + 1) / (n + 1);
		ck_assert_double_eq_tol(d[k], 2 - 2 * cos(angle), 1e-13);
		ck_assert_double_eq_tol(fabs(first[k]), sqrt(2.0 / (n + 1)) * sin(angle), 1e-12);
		ck_assert_double_eq_tol(fabs(last[k]), sqrt(2.0 / (n + 1)) * fabs(sin(angle * n)), 1e-12);
		sum += first[k] * first[k];
	}
	ck_assert_double_eq_tol(sum, 1, 1e-13);
	d[3] = NAN;
	ck_assert_fails(tridiagonal_solve(n, d, e, first, last), TARN_EDIVERGED, "row 3");
}
END_TEST

/* The largest one is what power iteration finds. */
START_TEST(lanczos_finds_the_eigenvalues_of_the_matrix)
{
	static float matrix[MOST][MOST];
	struct tarn_session *session = open_small("hvp.task=eigenvalues", "hvp.steps=40", "hvp.eigenvalues=3");
	uint64_t n = read_hessian(session, matrix);
	ck_assert_ok(tarn_curvature_run(session, &curvature));
	ck_assert_uint_eq(curvature.eigenvalues, 3);
	/* Power iteration on the matrix, in double. */
	double x[MOST], y[MOST], value = 0;
	for (uint64_t i = 0; i < n; i++)
		x[i] = 1 + (double)i / (double)n;
	for (int round = 0; round < 500; round++) {
		double norm = 0;
		for (uint64_t i = 0; i < n; i++) {
			y[i] = 0;
			for (uint64_t j = 0; j < n; j++)
				y[i] += (double)matrix[j][i] * x[j];
			norm += y[i] * y[i];
		}
		value = sqrt(norm);
		for (uint64_t i = 0; i < n; i++)
			x[i] = y[i] / value;
	}
	ck_assert_double_eq_tol(curvature.eigenvalue[0], value, 1e-4 * value);
	ck_assert(curvature.eigenvalue[0] > curvature.eigenvalue[1] &&
		  curvature.eigenvalue[1] > curvature.eigenvalue[2]);
	ck_assert_double_le(curvature.residual[0], 1e-3 * value);
	tarn_close(session);
}
END_TEST

/* The quadrature is exact for the first moment: v.Hv of the same vectors. */
START_TEST(density_has_the_moments_of_the_trace)
{
	struct tarn_session *session = open_small("hvp.task=trace", "hvp.samples=6", NULL);
	ck_assert_ok(tarn_curvature_run(session, &curvature));
	double mean = curvature.trace / (double)curvature.parameters, weights = 0, moment = 0;
	tarn_close(session);
	session = open_small("hvp.task=density", "hvp.samples=6", "hvp.steps=12");
	ck_assert_ok(tarn_curvature_run(session, &curvature));
	ck_assert_uint_eq(curvature.nodes, 72);
	for (uint32_t i = 0; i < curvature.nodes; i++) {
		weights += curvature.weight[i];
		moment += curvature.weight[i] * curvature.node[i];
	}
	ck_assert_double_eq_tol(weights, 1, 1e-9);
	ck_assert_double_eq_tol(moment, mean, 1e-5);
	tarn_close(session);
	session = open_small("hvp.task=density", "hvp.samples=1024", NULL);
	ck_assert_fails(tarn_curvature_run(session, &curvature), TARN_EINVAL, "are more than 4096 nodes");
	tarn_close(session);
}
END_TEST

/* ---- weights and vectors of snapshots ---- */

START_TEST(snapshots_give_weights_and_vectors)
{
	char path[256];
	const char *const train[OVERRIDES] = { "optimizer.type=adam", "train.max_steps=3", "train.epochs=9" };
	const char *const hvp[OVERRIDES] = { "objective.type=hvp" };
	struct tarn_session *session;
	struct tarn_metrics metrics;
	float after[48], now[48], vector[MOST];
	snprintf(path, sizeof path, "%s/weights.safetensors", testing_directory());
	ck_assert_ok(open_with(small, train, NULL, &session));
	for (int i = 0; i < 3; i++)
		ck_assert_ok(tarn_step(session, &metrics));
	ck_assert_ok(tarn_save(session, path));
	ck_assert_ok(tarn_read_tensor(session, "dense1/weight", after, sizeof after));
	ck_assert_fails(tarn_hessian_multiply(session, NULL), TARN_EINVAL, "need objective.type: hvp");
	tarn_close(session);
	/* Adam's state in the file is left out. */
	ck_assert_ok(open_with(small, hvp, path, &session));
	ck_assert_ok(tarn_read_tensor(session, "dense1/weight", now, sizeof now));
	ck_assert_mem_eq(now, after, sizeof now);
	tarn_close(session);
	ck_assert_ok(open_with(small, hvp, NULL, &session));
	ck_assert_ok(tarn_read_tensor(session, "dense1/weight", now, sizeof now));
	ck_assert_ok(tarn_hessian_snapshot(session, path));
	ck_assert_ok(tarn_hessian_read(session, TARN_VECTOR_INPUT, vector, 130));
	ck_assert_mem_eq(vector + 63, after, sizeof after);
	ck_assert_ok(tarn_read_tensor(session, "dense1/weight", after, sizeof after));
	ck_assert_mem_eq(now, after, sizeof now);
	ck_assert_fails(tarn_hessian_snapshot(session, "/nowhere"), TARN_EIO, "/nowhere");
	ck_assert_fails(tarn_step(session, &metrics), TARN_EINVAL, "objective.type is hvp");
	ck_assert_fails(tarn_hessian_read(session, TARN_VECTOR_DIAGONAL, vector, 130), TARN_EINVAL, "has a diagonal");
	ck_assert_fails(tarn_hessian_read(session, TARN_VECTOR_INPUT, vector, 129), TARN_EINVAL,
			"a vector has 130 elements, not 129");
	tarn_close(session);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("curvature");
	TCase *matrix = tcase_create("matrix"), *memory = tcase_create("memory"),
	      *questions = tcase_create("questions");
	tcase_set_timeout(matrix, 60);
	tcase_set_timeout(memory, 120);
	tcase_set_timeout(questions, 60);
	tcase_add_test(matrix, hessian_meets_differences_of_the_gradient);
	tcase_add_test(matrix, modes_agree);
	tcase_add_loop_test(memory, strategies_and_budgets_give_the_same_bits, 0, 2);
	tcase_add_test(memory, the_basis_is_part_of_the_plan);
	tcase_add_test(questions, trace_and_diagonal_meet_the_matrix);
	tcase_add_test(questions, tridiagonal_eigenvalues_are_known);
	tcase_add_test(questions, lanczos_finds_the_eigenvalues_of_the_matrix);
	tcase_add_test(questions, density_has_the_moments_of_the_trace);
	tcase_add_test(questions, snapshots_give_weights_and_vectors);
	suite_add_tcase(suite, matrix);
	suite_add_tcase(suite, memory);
	suite_add_tcase(suite, questions);
	return testing_run(suite);
}
