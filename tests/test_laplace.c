/*
 * test_laplace.c - the Laplace approximation of the last layer against a dense reference.
 *
 * All layers but the last are frozen, so that the Hessian of the loss, column by column from products (a second
 * derivative of the graph, no closed form), is that of the last layer, and equal to its Gauss-Newton matrix. The
 * reference inverts it as it is, with elimination in double, and computes the features with loops of its own.
 */
#include "support/testing.h"
#include "tarn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUTS 4u
#define FEATURES 3u
#define CLASSES 3u
#define SAMPLES 24u
#define TEST_SAMPLES 10u
#define WEIGHTS (CLASSES * (FEATURES + 1))

static const char text[] = "data: {type: synthetic, shape: [4], classes: 3, samples: 24, test_samples: 10, batch: 24, "
			   "shuffle: false}\n"
			   "layers:\n"
			   "- dense: {features: 3, trainable: false, name: first}\n"
			   "- tanh\n"
			   "- dense: {features: 3, name: last}\n"
			   "train: {seed: 7, threads: 1}\n";

static struct tarn_session *open_with(const char *const *override, uint32_t overrides)
{
	struct tarn_options options = { .config_text = text, .override = override, .overrides = overrides };
	struct tarn_session *session = NULL;
	ck_assert_ok(tarn_open(&options, &session));
	return session;
}

/* H of the summed loss, in the order weight (K,D), bias (K); *loss: the mean. */
static void read_hessian(double hessian[WEIGHTS][WEIGHTS], double *loss)
{
	const char *override[] = { "objective.type=hvp" };
	struct tarn_session *session = open_with(override, 1);
	float unit[WEIGHTS] = { 0 }, column[WEIGHTS];
	for (uint32_t j = 0; j < WEIGHTS; j++) {
		unit[j] = 1;
		ck_assert_ok(tarn_hessian_write(session, TARN_VECTOR_INPUT, unit, WEIGHTS));
		ck_assert_ok(tarn_hessian_multiply(session, loss));
		ck_assert_ok(tarn_hessian_read(session, TARN_VECTOR_PRODUCT, column, WEIGHTS));
		unit[j] = 0;
		for (uint32_t i = 0; i < WEIGHTS; i++)
			hessian[i][j] = SAMPLES * (double)column[i];
	}
	tarn_close(session);
}

/* Gauss, Jordan with pivots; returns log det. */
static double invert(double a[WEIGHTS][WEIGHTS], double inverse[WEIGHTS][WEIGHTS])
{
	double log_det = 0;
	for (uint32_t i = 0; i < WEIGHTS; i++)
		for (uint32_t j = 0; j < WEIGHTS; j++)
			inverse[i][j] = i == j;
	for (uint32_t c = 0; c < WEIGHTS; c++) {
		const double pivot = a[c][c]; /* positive definite: none is 0 */
		log_det += log(pivot);
		for (uint32_t j = 0; j < WEIGHTS; j++) {
			a[c][j] /= pivot;
			inverse[c][j] /= pivot;
		}
		for (uint32_t i = 0; i < WEIGHTS; i++) {
			const double factor = a[i][c];
			for (uint32_t j = 0; j < WEIGHTS && i != c; j++) {
				a[i][j] -= factor * a[c][j];
				inverse[i][j] -= factor * inverse[c][j];
			}
		}
	}
	return log_det;
}

/* Features of the test set, as it lies in its slot after the run, with a 1 behind. */
static void read_features(struct tarn_session *session, double feature[TEST_SAMPLES][FEATURES + 1])
{
	float input[SAMPLES][INPUTS], weight[FEATURES][INPUTS], bias[FEATURES];
	ck_assert_ok(tarn_read_tensor(session, "staging/input", input, sizeof input));
	ck_assert_ok(tarn_read_tensor(session, "first/weight", weight, sizeof weight));
	ck_assert_ok(tarn_read_tensor(session, "first/bias", bias, sizeof bias));
	for (uint32_t n = 0; n < TEST_SAMPLES; n++) {
		for (uint32_t d = 0; d < FEATURES; d++) {
			double sum = (double)bias[d];
			for (uint32_t i = 0; i < INPUTS; i++)
				sum += (double)weight[d][i] * (double)input[n][i];
			feature[n][d] = tanh(sum);
		}
		feature[n][FEATURES] = 1;
	}
}

/* Where weight d of class k stands in the Hessian. */
static uint32_t place(uint32_t k, uint32_t d)
{
	return d == FEATURES ? CLASSES * FEATURES + k : k * FEATURES + d;
}

static double reference_variance(double c[WEIGHTS][WEIGHTS], const double *feature, uint32_t k)
{
	double sum = 0;
	for (uint32_t d = 0; d <= FEATURES; d++)
		for (uint32_t e = 0; e <= FEATURES; e++)
			sum += feature[d] * c[place(k, d)][place(k, e)] * feature[e];
	return sum;
}

static double sum_squares(struct tarn_session *session)
{
	float weight[CLASSES * FEATURES], bias[CLASSES];
	double sum = 0;
	ck_assert_ok(tarn_read_tensor(session, "last/weight", weight, sizeof weight));
	ck_assert_ok(tarn_read_tensor(session, "last/bias", bias, sizeof bias));
	for (uint32_t i = 0; i < CLASSES * FEATURES; i++)
		sum += (double)weight[i] * (double)weight[i];
	for (uint32_t i = 0; i < CLASSES; i++)
		sum += (double)bias[i] * (double)bias[i];
	return sum;
}

/* Variances and marginal likelihood, diagonal and full. */
START_TEST(it_meets_the_dense_reference)
{
	static double hessian[WEIGHTS][WEIGHTS], inverse[WEIGHTS][WEIGHTS];
	const char *override[] = { "objective.type=laplace", "laplace.prior_precision=0.7",
				   _i ? "laplace.covariance=full" : "laplace.covariance=diagonal" };
	float variance[TEST_SAMPLES][CLASSES];
	double feature[TEST_SAMPLES][FEATURES + 1], loss, mean = 0;
	struct tarn_laplace laplace;
	read_hessian(hessian, &loss);
	for (uint32_t i = 0; i < WEIGHTS; i++)
		for (uint32_t j = 0; j < WEIGHTS; j++)
			hessian[i][j] = i == j ? hessian[i][j] + 0.7 : _i ? hessian[i][j] : 0;
	double log_det = invert(hessian, inverse);
	struct tarn_session *session = open_with(override, 3);
	ck_assert_uint_eq(tarn_laplace_elements(session), TEST_SAMPLES * CLASSES);
	ck_assert_ok(tarn_laplace_run(session, &variance[0][0], TEST_SAMPLES * CLASSES, &laplace));
	read_features(session, feature);
	for (uint32_t n = 0; n < TEST_SAMPLES; n++)
		for (uint32_t k = 0; k < CLASSES; k++) {
			double want = reference_variance(inverse, feature[n], k);
			mean += want / (TEST_SAMPLES * CLASSES);
			ck_assert_msg(fabs((double)variance[n][k] - want) < 1e-4 * want, "sample %u, class %u: %g, %g",
				      n, k, (double)variance[n][k], want);
		}
	double want = -loss * SAMPLES - 0.7 * sum_squares(session) / 2 + (WEIGHTS * log(0.7) - log_det) / 2;
	ck_assert_msg(fabs(laplace.log_marginal_likelihood - want) < 1e-4 * fabs(want), "%.9g, %.9g",
		      laplace.log_marginal_likelihood, want);
	ck_assert(fabs(laplace.mean_variance - mean) < 1e-4 * mean);
	ck_assert_uint_eq(laplace.parameters, WEIGHTS);
	ck_assert_uint_eq(laplace.labels, SAMPLES);
	ck_assert_uint_eq(laplace.samples, TEST_SAMPLES);
	ck_assert_double_eq(laplace.prior_precision, 0.7);
	tarn_close(session);
}
END_TEST

static void run(const char *const *override, uint32_t overrides, struct tarn_laplace *laplace)
{
	struct tarn_session *session = open_with(override, overrides);
	ck_assert_ok(tarn_laplace_run(session, NULL, 0, laplace));
	tarn_close(session);
}

/* No precision near the chosen one is more likely; with all of it the variance is that of nothing learnt. */
START_TEST(the_chosen_precision_is_the_likeliest)
{
	const char *covariance = _i ? "laplace.covariance=full" : "laplace.covariance=diagonal";
	const char *override[] = { "objective.type=laplace", covariance, NULL };
	struct tarn_laplace chosen, other;
	run(override, 2, &chosen);
	for (int i = 0; i < 4; i++) {
		char given[64];
		snprintf(given, sizeof given, "laplace.prior_precision=%.17g",
			 chosen.prior_precision * (double[]){ 0.5, 0.97, 1.03, 2 }[i]);
		override[2] = given;
		run(override, 3, &other);
		ck_assert_msg(other.log_marginal_likelihood <= chosen.log_marginal_likelihood + 1e-9,
			      "%s: %.12g, %.12g", given, other.log_marginal_likelihood, chosen.log_marginal_likelihood);
	}
}
END_TEST

/* Batches, the last one smaller, and budgets change nothing. */
START_TEST(batches_and_plans_change_nothing)
{
	const char *whole[] = { "objective.type=laplace", "laplace.covariance=full" };
	const char *parts[] = { "objective.type=laplace", "laplace.covariance=full", "data.batch=9",
				"memory.recompute=min" };
	struct tarn_laplace a, b;
	run(whole, 2, &a);
	run(parts, 4, &b);
	ck_assert_uint_eq(b.labels, SAMPLES);
	ck_assert_uint_eq(b.samples, TEST_SAMPLES);
	ck_assert(fabs(a.prior_precision - b.prior_precision) < 1e-3 * a.prior_precision);
	ck_assert(fabs(a.log_marginal_likelihood - b.log_marginal_likelihood) < 1e-4 * fabs(a.log_marginal_likelihood));
	ck_assert(fabs(a.mean_variance - b.mean_variance) < 1e-3 * a.mean_variance);
	ck_assert(fabs(a.predictive_loss - b.predictive_loss) < 1e-3 * a.predictive_loss);
}
END_TEST

static enum tarn_status open_text(const char *layers, const char *override)
{
	char yaml[512];
	struct tarn_options options = { .config_text = yaml, .override = &override, .overrides = 1 };
	struct tarn_session *session = NULL;
	snprintf(yaml, sizeof yaml,
		 "data: {type: synthetic, shape: [4], classes: 3, samples: 24, batch: 8}\n"
		 "objective: {type: laplace}\nlayers: %s\n",
		 layers);
	enum tarn_status st = tarn_open(&options, &session);
	tarn_close(session);
	return st;
}

START_TEST(what_cannot_be_is_refused)
{
	struct tarn_session *session = open_with(NULL, 0);
	struct tarn_laplace laplace;
	struct tarn_metrics metrics;
	float variance[1];
	ck_assert_fails(tarn_laplace_run(session, NULL, 0, &laplace), TARN_EINVAL, "objective.type: laplace");
	tarn_close(session);
	const char *wide[] = { "objective.type=laplace" };
	session = open_with(wide, 1);
	ck_assert_fails(tarn_laplace_run(session, variance, 1, &laplace), TARN_EINVAL, "30 elements, not 1");
	ck_assert_fails(tarn_step(session, &metrics), TARN_EINVAL, "objective.type is laplace");
	tarn_close(session);
	ck_assert_fails(open_text("[dense: 3, relu]", "train.seed=1"), TARN_EINVAL, "a dense layer without activation");
	ck_assert_fails(open_text("[dense: 3]", "precision.compute=bfloat16"), TARN_EUNSUPPORTED, "float32");
	struct tarn_options options = { .config_text = "data: {type: synthetic, shape: [600], classes: 3, samples: 24, "
						       "batch: 8}\n"
						       "objective: {type: laplace}\nlaplace: {covariance: full}\n"
						       "layers: [dense: 3]\n" };
	ck_assert_ok(tarn_open(&options, &session));
	ck_assert_fails(tarn_laplace_run(session, NULL, 0, &laplace), TARN_EINVAL,
			"at most 1024 weights, the last layer has 1803");
	tarn_close(session);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("laplace");
	TCase *tc = tcase_create("laplace");
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, it_meets_the_dense_reference, 0, 2);
	tcase_add_loop_test(tc, the_chosen_precision_is_the_likeliest, 0, 2);
	tcase_add_test(tc, batches_and_plans_change_nothing);
	tcase_add_test(tc, what_cannot_be_is_refused);
	suite_add_tcase(suite, tc);
	return testing_run(suite);
}
