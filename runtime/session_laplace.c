/*
 * session_laplace.c - the Laplace approximation of the last layer (MacKay 1992; Daxberger et al. 2021,
 * arXiv:2106.14806).
 *
 * With the features f of a sample (a 1 appended where the layer has a bias), its logits and their softmax p, the
 * generalised Gauss-Newton matrix of the summed loss by the last layer's weights is
 *     H = sum over samples of (diag(p) - p p') (x) f f',
 * exact because the logits are linear in these weights; for cross-entropy it is the Fisher matrix too. The posterior is
 * normal around the trained weights w, with covariance C = (H + d I)^-1 for a prior precision d. The one that is chosen
 * maximises the marginal likelihood
 *     log p(data) = log likelihood - d |w|^2 / 2 + (P log d - log det(H + d I)) / 2.
 * A logit has the variance f' C_kk f, and predictions are softmax(logit_k / sqrt(1 + pi / 8 variance_k)) (MacKay 1992;
 * Gibbs 1997). All sums are in double.
 */
#include "session.h"

#include "graph/graph.h"

#include <math.h>
#include <string.h>

#define LARGEST_FULL 1024u
#define FEATURES "laplace/features"
#define LOGITS "laplace/logits"
#define PI 3.14159265358979323846

/* Weights are in the order k, then feature, the bias last. */
struct head {
	uint32_t features, width, classes; /* width: with the bias */
	uint64_t parameters;
	const char *weight, *bias; /* bias NULL: none */
};

struct fit {
	struct head head;
	bool full;
	double *curvature;  /* H: its diagonal, or all of it */
	double *covariance; /* C, likewise; scratch before */
	double log_likelihood, squares, precision;
	uint64_t samples;
	/* Of a batch. */
	float *feature, *logit;
	int32_t *label;
	double *row, *probability;
};

/* ---- the layer ---- */

static enum tarn_status find_head(const struct tarn_session *session, struct head *head)
{
	const struct graph *graph = &session->plan.program[0].graph;
	uint32_t slot = graph_find(graph, LOGITS), op = 0;
	while (op < graph->ops && (graph->op[op].kind != OP_SGD || op_inputs(graph, op)[0] != slot))
		op++;
	if (slot == TENSOR_NONE || op == graph->ops)
		return tarn_fail(TARN_EINVAL,
				 "this session trains; a Laplace approximation needs objective.type: laplace");
	const uint32_t product = graph->tensor[op_inputs(graph, op)[1]].producer;
	const uint32_t *input = op_inputs(graph, product);
	const struct tensor *weight = &graph->tensor[input[1]];
	head->classes = weight->dim[0];
	head->features = weight->dim[1];
	head->weight = tensor_name(graph, input[1]);
	head->bias = graph->op[product].inputs == 3 ? tensor_name(graph, input[2]) : NULL;
	head->width = head->features + (head->bias ? 1 : 0);
	head->parameters = (uint64_t)head->classes * head->width;
	return TARN_OK;
}

static enum tarn_status allocate(struct tarn_session *session, struct fit *fit)
{
	const struct head *head = &fit->head;
	struct host_arena *arena = &session->arena;
	const uint64_t p = head->parameters, size = fit->full ? p * p : p;
	const struct graph *graph = &session->plan.program[0].graph;
	const uint32_t batch = graph->tensor[graph_find(graph, LOGITS)].dim[0];
	fit->curvature = HOST_ARRAY(arena, size, double);
	fit->covariance = HOST_ARRAY(arena, size, double);
	fit->feature = HOST_ARRAY(arena, (uint64_t)batch * head->features, float);
	fit->logit = HOST_ARRAY(arena, (uint64_t)batch * head->classes, float);
	fit->label = HOST_ARRAY(arena, batch, int32_t);
	fit->row = HOST_ARRAY(arena, head->width, double);
	fit->probability = HOST_ARRAY(arena, head->classes, double);
	return fit->curvature && fit->covariance && fit->feature && fit->logit && fit->label && fit->row &&
			       fit->probability
		       ? TARN_OK
		       : TARN_ENOMEM;
}

/* |w|^2 of the layer. */
static enum tarn_status sum_squares(struct tarn_session *session, struct fit *fit)
{
	const uint64_t weights = (uint64_t)fit->head.classes * fit->head.features;
	struct host_mark mark = host_arena_mark(&session->arena);
	float *w = HOST_ARRAY(&session->arena, weights + fit->head.classes, float);
	enum tarn_status st = w ? TARN_OK : TARN_ENOMEM;
	if (!st)
		st = exec_read(&session->executor, fit->head.weight, w, weights * sizeof *w);
	if (!st && fit->head.bias)
		st = exec_read(&session->executor, fit->head.bias, w + weights, fit->head.classes * sizeof *w);
	for (uint64_t i = 0; i < weights + fit->head.classes && !st; i++)
		fit->squares += (double)w[i] * (double)w[i];
	host_arena_release(&session->arena, mark);
	return st;
}

/* ---- batches ---- */

/* The batch's features, logits and labels; *samples 0: there is no other. */
static enum tarn_status next_batch(struct tarn_session *session, bool train, struct fit *fit, uint32_t *samples)
{
	struct executor *executor = &session->executor;
	const struct persistent *f = exec_find(executor, FEATURES), *l = exec_find(executor, LOGITS);
	struct batch batch;
	memset(fit->feature, 0, f->bytes);
	memset(fit->logit, 0, l->bytes);
	enum tarn_status st = exec_write(executor, FEATURES, fit->feature, f->bytes);
	if (!st)
		st = exec_write(executor, LOGITS, fit->logit, l->bytes);
	if (!st)
		st = session->device.ops->synchronize(&session->device);
	if (!st)
		st = session_next_batch(session, train, &batch);
	*samples = st ? 0 : batch.samples;
	if (st || !batch.samples)
		return st;
	st = exec_read(executor, FEATURES, fit->feature, f->bytes);
	if (!st)
		st = exec_read(executor, LOGITS, fit->logit, l->bytes);
	return st ? st : exec_read(executor, "staging/target", fit->label, batch.samples * sizeof *fit->label);
}

/* Features with the 1 of the bias into row[]. */
static void read_row(struct fit *fit, uint32_t sample)
{
	const float *feature = fit->feature + (uint64_t)sample * fit->head.features;
	for (uint32_t d = 0; d < fit->head.features; d++)
		fit->row[d] = (double)feature[d];
	if (fit->head.bias)
		fit->row[fit->head.features] = 1;
}

/* softmax(logit / divisor) into probability[]; divisor NULL: 1. */
static void softmax(struct fit *fit, uint32_t sample, const double *divisor)
{
	const float *logit = fit->logit + (uint64_t)sample * fit->head.classes;
	double largest = -INFINITY, sum = 0;
	for (uint32_t k = 0; k < fit->head.classes; k++) {
		fit->probability[k] = (double)logit[k] / (divisor ? divisor[k] : 1);
		largest = fmax(largest, fit->probability[k]);
	}
	for (uint32_t k = 0; k < fit->head.classes; k++)
		sum += fit->probability[k] = exp(fit->probability[k] - largest);
	for (uint32_t k = 0; k < fit->head.classes; k++)
		fit->probability[k] /= sum;
}

/* ---- the fit ---- */

static void add_sample(struct fit *fit)
{
	const uint32_t width = fit->head.width, classes = fit->head.classes;
	const double *f = fit->row, *p = fit->probability;
	for (uint32_t k = 0; k < classes && !fit->full; k++)
		for (uint32_t d = 0; d < width; d++)
			fit->curvature[k * width + d] += p[k] * (1 - p[k]) * f[d] * f[d];
	for (uint32_t k = 0; k < classes && fit->full; k++)
		for (uint32_t l = 0; l <= k; l++) {
			const double factor = k == l ? p[k] * (1 - p[k]) : -p[k] * p[l];
			for (uint32_t d = 0; d < width; d++) {
				double *row = fit->curvature + ((uint64_t)k * width + d) * fit->head.parameters +
					      (uint64_t)l * width;
				for (uint32_t e = 0; e < width; e++)
					row[e] += factor * f[d] * f[e];
			}
		}
}

static enum tarn_status add_training_set(struct tarn_session *session, struct fit *fit)
{
	enum tarn_status st = TARN_OK;
	feed_rewind(session->train_feed, 0, 0);
	for (uint32_t i = 0; i < session->batches && !st; i++) {
		uint32_t samples;
		st = next_batch(session, true, fit, &samples);
		for (uint32_t n = 0; n < samples; n++) {
			read_row(fit, n);
			softmax(fit, n, NULL);
			fit->log_likelihood += log(fmax(fit->probability[fit->label[n]], 1e-300));
			add_sample(fit);
		}
		fit->samples += samples;
	}
	if (!st && !isfinite(fit->log_likelihood))
		st = tarn_fail(TARN_EDIVERGED, "the loss is not finite: there is nothing to approximate here");
	return st;
}

/* The lower triangle of H + precision I becomes its Cholesky factor, in covariance; returns log det. */
static double factorise(struct fit *fit, double precision)
{
	const uint64_t p = fit->head.parameters;
	double *a = fit->covariance, log_det = 0;
	memcpy(a, fit->curvature, p * p * sizeof *a);
	for (uint64_t j = 0; j < p; j++) {
		for (uint64_t i = j; i < p; i++) {
			double sum = a[i * p + j] + (i == j ? precision : 0);
			for (uint64_t k = 0; k < j; k++)
				sum -= a[i * p + k] * a[j * p + k];
			/* H has no negative eigenvalue but for rounding. */
			a[i * p + j] = i == j ? sqrt(fmax(sum, 1e-12 * precision)) : sum / a[j * p + j];
		}
		log_det += 2 * log(a[j * p + j]);
	}
	return log_det;
}

static double log_marginal_likelihood(struct fit *fit, double precision)
{
	const uint64_t p = fit->head.parameters;
	double log_det = fit->full ? factorise(fit, precision) : 0;
	for (uint64_t i = 0; i < p && !fit->full; i++)
		log_det += log(fit->curvature[i] + precision);
	return fit->log_likelihood - precision * fit->squares / 2 + ((double)p * log(precision) - log_det) / 2;
}

/* Where it is largest between e^-14 and e^14: a grid, then golden sections around its best point. */
static double choose_precision(struct fit *fit)
{
	const double ratio = 0.6180339887498949;
	double best = 0, largest = -INFINITY;
	for (int x = -14; x <= 14; x++) {
		double y = log_marginal_likelihood(fit, exp(x));
		best = y > largest ? x : best;
		largest = fmax(largest, y);
	}
	double low = best - 1, high = best + 1;
	for (int i = 0; i < 20; i++) {
		double a = high - ratio * (high - low), b = low + ratio * (high - low);
		if (log_marginal_likelihood(fit, exp(a)) > log_marginal_likelihood(fit, exp(b)))
			high = b;
		else
			low = a;
	}
	return exp((low + high) / 2);
}

/* covariance[] = (H + precision I)^-1; of the full one the blocks of a class with itself are all that is read. */
static void invert(struct fit *fit, double *column)
{
	const uint64_t p = fit->head.parameters;
	double *a = fit->covariance, *inverse = fit->curvature;
	for (uint64_t i = 0; i < p && !fit->full; i++)
		a[i] = 1 / (fit->curvature[i] + fit->precision);
	if (!fit->full)
		return;
	factorise(fit, fit->precision);
	for (uint64_t j = 0; j < p; j++) { /* L L' x = e_j */
		for (uint64_t i = 0; i < p; i++) {
			double sum = i == j;
			for (uint64_t k = j; k < i; k++)
				sum -= a[i * p + k] * column[k];
			column[i] = i < j ? 0 : sum / a[i * p + i];
		}
		for (uint64_t i = p; i-- > 0;) {
			double sum = column[i];
			for (uint64_t k = i + 1; k < p; k++)
				sum -= a[k * p + i] * column[k];
			column[i] = sum / a[i * p + i];
		}
		memcpy(inverse + j * p, column, p * sizeof *column);
	}
	fit->covariance = inverse; /* H is not needed any more */
	fit->curvature = a;
}

/* ---- prediction ---- */

static double variance_of(const struct fit *fit, uint32_t class)
{
	const uint32_t width = fit->head.width;
	const double *f = fit->row;
	double sum = 0;
	for (uint32_t d = 0; d < width && !fit->full; d++)
		sum += f[d] * f[d] * fit->covariance[class * width + d];
	for (uint32_t d = 0; d < width && fit->full; d++) {
		const double *row = fit->covariance + ((uint64_t) class * width + d) * fit->head.parameters +
				    (uint64_t) class * width;
		for (uint32_t e = 0; e < width; e++)
			sum += f[d] * row[e] * f[e];
	}
	return sum;
}

static void predict(struct fit *fit, uint32_t sample, double *divisor, float *variance, struct tarn_laplace *out)
{
	const uint32_t classes = fit->head.classes;
	const int32_t label = fit->label[sample];
	uint32_t first = 0;
	read_row(fit, sample);
	for (uint32_t k = 0; k < classes; k++) {
		double v = variance_of(fit, k);
		out->mean_variance += v;
		divisor[k] = sqrt(1 + PI / 8 * v);
		if (variance)
			variance[k] = (float)v;
	}
	softmax(fit, sample, NULL);
	out->loss -= log(fmax(fit->probability[label], 1e-300));
	softmax(fit, sample, divisor);
	out->predictive_loss -= log(fmax(fit->probability[label], 1e-300));
	for (uint32_t k = 1; k < classes; k++)
		first = fit->probability[k] > fit->probability[first] ? k : first;
	out->accuracy += first == (uint32_t)label;
}

static enum tarn_status predict_test_set(struct tarn_session *session, struct fit *fit, float *variance,
					 struct tarn_laplace *out)
{
	const uint32_t classes = fit->head.classes;
	double *divisor = HOST_ARRAY(&session->arena, classes, double);
	uint32_t samples = 1;
	enum tarn_status st = divisor ? TARN_OK : TARN_ENOMEM;
	if (!session->test_feed)
		return st;
	feed_rewind(session->test_feed, 0, 0);
	while (!st && samples) {
		st = next_batch(session, false, fit, &samples);
		for (uint32_t n = 0; n < samples; n++, out->samples++)
			predict(fit, n, divisor, variance ? variance + out->samples * classes : NULL, out);
	}
	if (!out->samples)
		return st;
	out->loss /= (double)out->samples;
	out->predictive_loss /= (double)out->samples;
	out->accuracy /= (double)out->samples;
	out->mean_variance /= (double)out->samples * classes;
	return st;
}

/* ---- the interface ---- */

static enum tarn_status check(struct tarn_session *session, struct fit *fit)
{
	enum tarn_status st = session_check_running(session);
	if (!st)
		st = find_head(session, &fit->head);
	if (st)
		return st;
	if (!session_computes(session))
		return tarn_fail(TARN_EUNSUPPORTED, "the null driver computes nothing to approximate");
	fit->full = session->config.laplace.covariance == LAPLACE_FULL;
	if (fit->full && fit->head.parameters > LARGEST_FULL)
		return tarn_fail(TARN_EINVAL,
				 "laplace.covariance: full is for at most %u weights, the last layer has %llu; take "
				 "diagonal",
				 LARGEST_FULL, (unsigned long long)fit->head.parameters);
	return TARN_OK;
}

uint64_t tarn_laplace_elements(const struct tarn_session *session)
{
	struct head head;
	if (session_check_running(session) || find_head(session, &head))
		return 0;
	return session->test_feed ? (uint64_t)session->test.samples * head.classes : 0;
}

enum tarn_status tarn_laplace_run(struct tarn_session *session, float *variance, uint64_t elements,
				  struct tarn_laplace *out)
{
	struct fit fit = { .full = false };
	enum tarn_status st = check(session, &fit);
	if (st)
		return st;
	if (variance && elements != tarn_laplace_elements(session))
		return tarn_fail(TARN_EINVAL, "the variances of the test set have %llu elements, not %llu",
				 (unsigned long long)tarn_laplace_elements(session), (unsigned long long)elements);
	struct host_mark mark = host_arena_mark(&session->arena);
	double *column = HOST_ARRAY(&session->arena, fit.head.parameters, double);
	st = column ? allocate(session, &fit) : TARN_ENOMEM;
	if (!st)
		st = sum_squares(session, &fit);
	if (!st)
		st = add_training_set(session, &fit);
	if (!st) {
		const double given = session->config.laplace.prior_precision;
		fit.precision = given > 0 ? given : choose_precision(&fit);
		*out = (struct tarn_laplace){ .parameters = fit.head.parameters,
					      .classes = fit.head.classes,
					      .labels = fit.samples,
					      .prior_precision = fit.precision,
					      .log_marginal_likelihood = log_marginal_likelihood(&fit, fit.precision) };
		invert(&fit, column);
		st = predict_test_set(session, &fit, variance, out);
	}
	host_arena_release(&session->arena, mark);
	return st;
}
