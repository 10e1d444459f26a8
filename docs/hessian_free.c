/*
 * hessian_free.c - a second-order optimizer outside the library: Hessian-free optimization (Martens 2010; Nocedal,
 * Wright 2006, algorithm 7.1) with Tarn's products.
 *
 *     cc hessian_free.c $(pkg-config --cflags --libs tarn) -lm -o hessian_free && ./hessian_free
 *
 * Two sessions share the network: one takes steps of gradient descent with rate 1 on the whole data set, so that
 * w - w' is the gradient; the other multiplies with the Hessian. Each lies in a fixed arena; this program keeps a few
 * vectors. A step solves (H + damping I) d = -g by conjugate gradients and is taken when the loss falls; the damping
 * follows how well the quadratic model foretold the fall (Levenberg, Marquardt).
 */
#include <tarn.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITERATIONS 15
#define PRODUCTS 40 /* in one iteration, at most */

static const char configuration[] =
	"memory: {budget: 512 KiB}\n"
	"data: {type: synthetic, shape: [16], classes: 4, batch: 256, samples: 256, shuffle: false}\n"
	"layers: [dense: 12, tanh, dense: 4]\n"
	"optimizer: {type: sgd, learning_rate: 1}\n"
	"train: {max_steps: 1000000, seed: 1}\n";

struct problem {
	struct tarn_session *gradient, *hessian;
	uint64_t n;
};

static void stop(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, tarn_error());
	exit(EXIT_FAILURE);
}

static struct tarn_session *open_with(const char *override)
{
	const struct tarn_options options = { .config_text = configuration, .override = &override, .overrides = 1 };
	struct tarn_session *session;
	if (tarn_open(&options, &session))
		stop("opening");
	return session;
}

/* All weights, in the order of the Hessian. */
static void read_weights(const struct problem *p, float *w)
{
	const char *name;
	uint64_t elements;
	for (uint32_t i = 0; (name = tarn_hessian_parameter(p->hessian, i, &elements)); i++, w += elements)
		if (tarn_read_tensor(p->gradient, name, w, elements * sizeof *w))
			stop(name);
}

static void write_weights(const struct problem *p, const float *w)
{
	const char *name;
	uint64_t elements;
	for (uint32_t i = 0; (name = tarn_hessian_parameter(p->hessian, i, &elements)); i++, w += elements)
		if (tarn_write_tensor(p->gradient, name, w, elements * sizeof *w) ||
		    tarn_write_tensor(p->hessian, name, w, elements * sizeof *w))
			stop(name);
}

/* The loss at w, and its gradient. */
static double evaluate(const struct problem *p, const float *w, float *gradient)
{
	struct tarn_metrics metrics;
	write_weights(p, w);
	if (tarn_step(p->gradient, &metrics))
		stop("gradient");
	read_weights(p, gradient);
	for (uint64_t i = 0; i < p->n; i++)
		gradient[i] = w[i] - gradient[i];
	return metrics.loss;
}

static void multiply(const struct problem *p, const float *v, float *product)
{
	if (tarn_hessian_write(p->hessian, TARN_VECTOR_INPUT, v, p->n) || tarn_hessian_multiply(p->hessian, NULL) ||
	    tarn_hessian_read(p->hessian, TARN_VECTOR_PRODUCT, product, p->n))
		stop("product");
}

static double dot(const float *a, const float *b, uint64_t n)
{
	double sum = 0;
	for (uint64_t i = 0; i < n; i++)
		sum += (double)a[i] * (double)b[i];
	return sum;
}

/*
 * d so that (H + damping I) d = -g, as far as products go and the curvature is positive: along a direction of negative
 * curvature the model has no minimum. Returns what the undamped model says the loss falls by. work: 4 n.
 */
static double solve(const struct problem *p, const float *g, double damping, float *d, float *work, int *products)
{
	const uint64_t n = p->n;
	float *r = work, *direction = work + n, *product = work + 2 * n, *along = work + 3 * n;
	double square = dot(g, g, n), first = square;
	for (uint64_t i = 0; i < n; i++) {
		d[i] = along[i] = 0; /* along: H d */
		r[i] = direction[i] = -g[i];
	}
	for (int k = 0; k < PRODUCTS && square > 1e-8 * first; k++) {
		multiply(p, direction, product);
		++*products;
		double curvature = dot(direction, product, n) + damping * dot(direction, direction, n);
		if (curvature <= 0 && k)
			break;
		double length = curvature > 0 ? square / curvature : 1;
		for (uint64_t i = 0; i < n; i++) {
			d[i] += (float)(length * (double)direction[i]);
			along[i] += (float)(length * (double)product[i]);
			r[i] -= (float)(length * ((double)product[i] + damping * (double)direction[i]));
		}
		if (curvature <= 0)
			break;
		double next = dot(r, r, n);
		for (uint64_t i = 0; i < n; i++)
			direction[i] = (float)((double)r[i] + next / square * (double)direction[i]);
		square = next;
	}
	return -dot(g, d, n) - dot(d, along, n) / 2;
}

int main(void)
{
	struct problem p = { .gradient = open_with("name=gradient"), .hessian = open_with("objective.type=hvp") };
	uint64_t elements;
	for (uint32_t i = 0; tarn_hessian_parameter(p.hessian, i, &elements); i++)
		p.n += elements;
	float *w = calloc(9 * p.n, sizeof *w);
	if (!w)
		return EXIT_FAILURE;
	float *g = w + p.n, *d = w + 2 * p.n, *tried = w + 3 * p.n, *new_g = w + 4 * p.n, *work = w + 5 * p.n;
	double damping = 0.1;
	int products = 0;
	read_weights(&p, w);
	double loss = evaluate(&p, w, g);
	printf("%llu weights, loss %.6f\n", (unsigned long long)p.n, loss);
	for (int k = 0; k < ITERATIONS; k++) {
		write_weights(&p, w);
		double foretold = solve(&p, g, damping, d, work, &products);
		for (uint64_t i = 0; i < p.n; i++)
			tried[i] = w[i] + d[i];
		double after = evaluate(&p, tried, new_g), ratio = (loss - after) / foretold;
		if (ratio > 0.75)
			damping /= 3;
		else if (!(ratio > 0.25))
			damping *= 3;
		if (after < loss) {
			memcpy(w, tried, p.n * sizeof *w);
			memcpy(g, new_g, p.n * sizeof *g);
			loss = after;
		}
		printf("iteration %d: loss %.6f, damping %.3g, %d products so far\n", k + 1, loss, damping, products);
	}
	free(w);
	tarn_close(p.gradient);
	tarn_close(p.hessian);
	return EXIT_SUCCESS;
}
