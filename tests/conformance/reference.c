/* reference.c - see reference.h. */
#include "conformance/reference.h"

#include "base/philox.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t channels_of(const struct reference_operand *x)
{
	return x->rank ? x->dim[x->rank - 1] : 1;
}

static uint64_t rows_of(const struct reference_operand *x)
{
	return x->elements / channels_of(x);
}

static double *at4(const struct reference_operand *x, int64_t n, int64_t h, int64_t w, int64_t c)
{
	return &x->value[((n * x->dim[1] + h) * x->dim[2] + w) * x->dim[3] + c];
}

static void zero(struct reference_operand *x)
{
	memset(x->value, 0, x->elements * sizeof *x->value);
}

double reference_activation(uint32_t activation, double alpha, double x)
{
	double root = sqrt(2.0 / M_PI);
	switch (activation) {
	case ACTIVATION_RELU:
		return x > 0 ? x : 0;
	case ACTIVATION_RELU6:
		return x <= 0 ? 0 : x < 6 ? x : 6;
	case ACTIVATION_LEAKY_RELU:
		return x > 0 ? x : alpha * x;
	case ACTIVATION_ELU:
		return x > 0 ? x : alpha * expm1(x);
	case ACTIVATION_SIGMOID:
		return 1 / (1 + exp(-x));
	case ACTIVATION_TANH:
		return tanh(x);
	case ACTIVATION_GELU:
		return 0.5 * x * erfc(-x / sqrt(2.0));
	case ACTIVATION_GELU_TANH:
		return x / (1 + exp(-2 * root * (x + 0.044715 * x * x * x))); /* (1 + tanh u) / 2 */
	case ACTIVATION_SILU:
		return x / (1 + exp(-x));
	case ACTIVATION_SOFTPLUS:
		return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
	default:
		return x;
	}
}

double reference_activation_grad(uint32_t activation, double alpha, double s)
{
	double root = sqrt(2.0 / M_PI), sigmoid = 1 / (1 + exp(-s)), t;
	switch (activation) {
	case ACTIVATION_RELU:
		return s > 0;
	case ACTIVATION_RELU6:
		return s > 0 && s < 6;
	case ACTIVATION_LEAKY_RELU:
		return s > 0 ? 1 : alpha;
	case ACTIVATION_ELU:
		return s > 0 ? 1 : s + alpha;
	case ACTIVATION_SIGMOID:
		return s * (1 - s);
	case ACTIVATION_TANH:
		return 1 - s * s;
	case ACTIVATION_GELU:
		return 0.5 * (1 + erf(s / sqrt(2.0))) + s * exp(-0.5 * s * s) / sqrt(2 * M_PI);
	case ACTIVATION_GELU_TANH:
		t = tanh(root * (s + 0.044715 * s * s * s));
		return 0.5 * (1 + t) + 0.5 * s * (1 - t * t) * root * (1 + 3 * 0.044715 * s * s);
	case ACTIVATION_SILU:
		return sigmoid * (1 + s * (1 - sigmoid));
	case ACTIVATION_SOFTPLUS:
		return sigmoid;
	default:
		return 1;
	}
}

static void matmul(const struct op_attr *attr, const struct reference_operand *a, const struct reference_operand *b,
		   const struct reference_operand *bias, struct reference_operand *c)
{
	uint64_t m = c->dim[0], n = c->dim[1], k = a->dim[attr->transpose_a ? 0 : 1];
	for (uint64_t i = 0; i < m; i++)
		for (uint64_t j = 0; j < n; j++) {
			double sum = bias ? bias->value[j] : 0;
			for (uint64_t l = 0; l < k; l++)
				sum += a->value[attr->transpose_a ? l * m + i : i * k + l] *
				       b->value[attr->transpose_b ? j * k + l : l * n + j];
			c->value[i * n + j] = reference_activation(attr->activation, 0, sum);
		}
}

/* The place (h, w) in the image of tap (kh, kw) of the window at (oh, ow); false when it lies in the padding. */
static bool tap_inside(const struct window *window, const struct reference_operand *image, const uint32_t *out,
		       const uint32_t *tap, int64_t *at)
{
	bool inside = true;
	for (int axis = 0; axis < 2; axis++) {
		at[axis] = (int64_t)out[axis] * window->stride[axis] + (int64_t)tap[axis] * window->dilation[axis] -
			   window->pad_begin[axis];
		inside = inside && at[axis] >= 0 && at[axis] < image->dim[axis + 1];
	}
	return inside;
}

/* n, oh, ow, c of an element of an image. */
static void split_index(const struct reference_operand *image, uint64_t element, uint32_t *index)
{
	for (int i = 3; i >= 0; i--) {
		index[i] = (uint32_t)(element % image->dim[i]);
		element /= image->dim[i];
	}
}

/* Calls of `visit` for every product of a convolution: x[n,h,w,ci] * w[co,c,kh,kw] -> y[n,oh,ow,co]. */
typedef void visit_fn(double *x, double *w, double *y);

static void convolution(const struct op_attr *attr, const struct reference_operand *x,
			const struct reference_operand *w, const struct reference_operand *y, visit_fn *visit)
{
	uint32_t out_per_group = w->dim[0] / (attr->groups ? attr->groups : 1), to[4], from[4];
	for (uint64_t i = 0; i < y->elements; i++) {
		split_index(y, i, to);
		/* The weights of this output channel: from = (unused, c, kh, kw). */
		for (uint64_t k = 0; k < w->elements / w->dim[0]; k++) {
			int64_t at[2];
			split_index(w, k, from);
			if (!tap_inside(&attr->window, x, &to[1], &from[2], at))
				continue;
			uint32_t channel = to[3] / out_per_group * w->dim[1] + from[1];
			visit(at4(x, to[0], at[0], at[1], channel), at4(w, to[3], from[1], from[2], from[3]),
			      &y->value[i]);
		}
	}
}

static void visit_forward(double *x, double *w, double *y)
{
	*y += *x * *w;
}

static void visit_grad_input(double *x, double *w, double *y)
{
	*x += *y * *w;
}

static void visit_grad_weight(double *x, double *w, double *y)
{
	*w += *x * *y;
}

static void conv2d(const struct op_attr *attr, const struct reference_operand *x, const struct reference_operand *w,
		   const struct reference_operand *bias, struct reference_operand *y)
{
	uint64_t channels = channels_of(y);
	for (uint64_t i = 0; i < y->elements; i++)
		y->value[i] = bias ? bias->value[i % channels] : 0;
	convolution(attr, x, w, y, visit_forward);
	for (uint64_t i = 0; i < y->elements; i++)
		y->value[i] = reference_activation(attr->activation, 0, y->value[i]);
}

/* What one window of one channel holds. */
struct pooled {
	double largest, sum, inside;
	uint32_t tap; /* of the largest */
};

static struct pooled pool_window(const struct window *window, const struct reference_operand *x, const uint32_t *out)
{
	struct pooled pooled = { .largest = -INFINITY };
	for (uint32_t k = 0; k < window->kernel[0] * window->kernel[1]; k++) {
		int64_t at[2];
		if (!tap_inside(window, x, &out[1], (uint32_t[]){ k / window->kernel[1], k % window->kernel[1] }, at))
			continue;
		double value = *at4(x, out[0], at[0], at[1], out[3]);
		pooled.inside++;
		pooled.sum += value;
		if (value > pooled.largest) {
			pooled.largest = value;
			pooled.tap = k;
		}
	}
	return pooled;
}

static double pool_divisor(const struct op_attr *attr, const struct pooled *pooled)
{
	return attr->count_padding ? attr->window.kernel[0] * attr->window.kernel[1] : pooled->inside;
}

/* `index` for max pooling, NULL for average pooling. */
static void pool(const struct op_attr *attr, const struct reference_operand *x, struct reference_operand *y,
		 struct reference_operand *index)
{
	for (uint64_t i = 0; i < y->elements; i++) {
		uint32_t out[4];
		split_index(y, i, out);
		struct pooled pooled = pool_window(&attr->window, x, out);
		y->value[i] = index ? pooled.largest : pooled.sum / pool_divisor(attr, &pooled);
		if (index)
			index->value[i] = pooled.tap;
	}
}

static void pool_grad(const struct op_attr *attr, const struct reference_operand *dy,
		      const struct reference_operand *index, struct reference_operand *dx)
{
	const struct window *window = &attr->window;
	for (uint64_t i = 0; i < dy->elements; i++) {
		uint32_t out[4];
		split_index(dy, i, out);
		struct pooled pooled = pool_window(window, dx, out);
		for (uint32_t k = 0; k < window->kernel[0] * window->kernel[1]; k++) {
			int64_t at[2];
			uint32_t tap[2] = { k / window->kernel[1], k % window->kernel[1] };
			if (!tap_inside(window, dx, &out[1], tap, at))
				continue;
			double share = index ? index->value[i] == k : 1 / pool_divisor(attr, &pooled);
			*at4(dx, out[0], at[0], at[1], out[3]) += dy->value[i] * share;
		}
	}
}

static void max_pool_gather(const struct op_attr *attr, const struct reference_operand *g,
			    const struct reference_operand *index, struct reference_operand *y)
{
	for (uint64_t i = 0; i < y->elements; i++) {
		uint32_t out[4], k = (uint32_t)index->value[i];
		int64_t at[2];
		split_index(y, i, out);
		if (tap_inside(&attr->window, g, &out[1],
			       (uint32_t[]){ k / attr->window.kernel[1], k % attr->window.kernel[1] }, at))
			y->value[i] = *at4(g, out[0], at[0], at[1], out[3]);
	}
}

static void label_weights(const struct op_attr *attr, const struct reference_operand *labels,
			  struct reference_operand *q)
{
	uint64_t classes = channels_of(q);
	double counted = reference_rows_counted(attr, labels), s = (double)attr->label_smoothing;
	for (uint64_t i = 0; i < q->elements; i++) {
		double label = labels->value[i / classes];
		if (!attr->has_ignore_index || label != attr->ignore_index)
			q->value[i] = ((1 - s) * (label == (double)(i % classes)) + s / (double)classes) / counted;
	}
}

static void batch_stats(const struct reference_operand *x, struct reference_operand *mean,
			struct reference_operand *var)
{
	uint64_t channels = channels_of(x), rows = rows_of(x);
	for (uint64_t c = 0; c < channels; c++) {
		double sum = 0, square = 0;
		for (uint64_t r = 0; r < rows; r++)
			sum += x->value[r * channels + c];
		for (uint64_t r = 0; r < rows; r++)
			square += pow(x->value[r * channels + c] - sum / (double)rows, 2);
		mean->value[c] = sum / (double)rows;
		var->value[c] = square / (double)rows;
	}
}

static void batch_apply(const struct op_attr *attr, const struct reference_operand *in, struct reference_operand *y)
{
	uint64_t channels = channels_of(&in[0]);
	for (uint64_t i = 0; i < y->elements; i++) {
		uint64_t c = i % channels;
		double xhat = (in[0].value[i] - in[1].value[c]) / sqrt(in[2].value[c] + (double)attr->epsilon);
		y->value[i] = reference_activation(attr->activation, 0, in[3].value[c] * xhat + in[4].value[c]);
	}
}

/* dx when `dx` is given, else the two sums. */
static void batch_backward(const struct op_attr *attr, const struct reference_operand *in,
			   struct reference_operand *dgamma, struct reference_operand *dbeta,
			   struct reference_operand *dx)
{
	const struct reference_operand *dy = &in[0], *x = &in[1], *mean = &in[2], *var = &in[3];
	const struct reference_operand *gamma = &in[4], *beta = &in[5];
	uint64_t channels = channels_of(x), rows = rows_of(x);
	for (uint64_t i = 0; i < x->elements; i++) {
		uint64_t c = i % channels;
		double rstd = 1 / sqrt(var->value[c] + (double)attr->epsilon);
		double xhat = (x->value[i] - mean->value[c]) * rstd;
		double z = gamma->value[c] * xhat + beta->value[c];
		double g = dy->value[i] * (attr->activation ? reference_activation_grad(attr->activation, 0, z) : 1);
		if (dx) {
			dx->value[i] = gamma->value[c] * rstd *
				       (g - in[7].value[c] / (double)rows - xhat * in[6].value[c] / (double)rows);
		} else {
			dgamma->value[c] += g * xhat;
			dbeta->value[c] += g;
		}
	}
}

static void running_update(const struct op_attr *attr, const struct reference_operand *in,
			   struct reference_operand *out)
{
	double m = (double)attr->momentum, s = attr->samples;
	for (uint64_t c = 0; c < in[0].elements; c++) {
		out[0].value[c] = (1 - m) * in[0].value[c] + m * in[3].value[c];
		out[1].value[c] = (1 - m) * in[1].value[c] + m * in[4].value[c] * (s > 1 ? s / (s - 1) : 1);
	}
	out[2].value[0] = in[2].value[0] + 1;
}

static void layer_norm(const struct op_attr *attr, const struct reference_operand *in, struct reference_operand *out)
{
	uint64_t n = channels_of(&in[0]);
	for (uint64_t r = 0; r < rows_of(&in[0]); r++) {
		const double *x = in[0].value + r * n;
		double mean = 0, var = 0;
		for (uint64_t i = 0; i < n; i++)
			mean += x[i] / (double)n;
		for (uint64_t i = 0; i < n; i++)
			var += (x[i] - mean) * (x[i] - mean) / (double)n;
		double rstd = 1 / sqrt(var + (double)attr->epsilon);
		for (uint64_t i = 0; i < n; i++)
			out[0].value[r * n + i] = (x[i] - mean) * rstd * in[1].value[i] + in[2].value[i];
		out[1].value[r] = mean;
		out[2].value[r] = rstd;
	}
}

static void layer_norm_grad(const struct reference_operand *in, struct reference_operand *dx)
{
	uint64_t n = channels_of(&in[1]);
	for (uint64_t r = 0; r < rows_of(&in[1]); r++) {
		double sum = 0, dot = 0;
		for (uint64_t i = 0; i < n; i++) {
			double g = in[0].value[r * n + i] * in[4].value[i];
			sum += g / (double)n;
			dot += g * (in[1].value[r * n + i] - in[2].value[r]) * in[3].value[r] / (double)n;
		}
		for (uint64_t i = 0; i < n; i++) {
			double g = in[0].value[r * n + i] * in[4].value[i];
			double xhat = (in[1].value[r * n + i] - in[2].value[r]) * in[3].value[r];
			dx->value[r * n + i] = in[3].value[r] * (g - sum - xhat * dot);
		}
	}
}

static void layer_norm_grad_param(const struct reference_operand *in, struct reference_operand *out)
{
	uint64_t n = channels_of(&in[1]);
	zero(&out[0]);
	zero(&out[1]);
	for (uint64_t i = 0; i < in[1].elements; i++) {
		uint64_t r = i / n;
		out[0].value[i % n] += in[0].value[i] * (in[1].value[i] - in[2].value[r]) * in[3].value[r];
		out[1].value[i % n] += in[0].value[i];
	}
}

static void dropout(const struct op_attr *attr, const struct step_scalars *scalars, const struct reference_operand *x,
		    struct reference_operand *y)
{
	for (uint64_t e = 0; e < x->elements; e++) {
		uint64_t draw = attr->per_sample ? e / (x->elements / x->dim[0]) : e;
		draw += (uint64_t)attr->begin * (attr->per_sample ? 1 : x->elements / x->dim[0]);
		float u = philox_float(philox(scalars->seed, attr->stream, scalars->step, draw / 4).word[draw % 4]);
		y->value[e] = u >= attr->rate ? x->value[e] / (1 - (double)attr->rate) : 0;
	}
}

static uint64_t product(const struct reference_operand *x, uint32_t first, uint32_t last)
{
	uint64_t n = 1;
	for (uint32_t i = first; i < last; i++)
		n *= x->dim[i];
	return n;
}

/* Copies `length` positions along an axis, from position `from` of x to position `to` of y. */
static void copy_axis(const struct reference_operand *x, struct reference_operand *y, uint32_t axis, uint64_t from,
		      uint64_t to, uint64_t length)
{
	uint64_t inner = product(x, axis + 1, x->rank);
	for (uint64_t o = 0; o < product(x, 0, axis); o++)
		for (uint64_t a = 0; a < length; a++)
			for (uint64_t i = 0; i < inner; i++)
				y->value[(o * y->dim[axis] + to + a) * inner + i] =
					x->value[(o * x->dim[axis] + from + a) * inner + i];
}

static void permute(const struct op_attr *attr, const struct reference_operand *x, struct reference_operand *y)
{
	for (uint64_t e = 0; e < x->elements; e++) {
		uint64_t position[OP_MAX_RANK], rest = e, to = 0;
		for (uint32_t i = x->rank; i-- > 0;) {
			position[i] = rest % x->dim[i];
			rest /= x->dim[i];
		}
		for (uint32_t i = 0; i < y->rank; i++)
			to = to * y->dim[i] + position[attr->extent[i]];
		y->value[to] = x->value[e];
	}
}

/* Loss without `dlogits`, else the gradient. */
static void cross_entropy(const struct op_attr *attr, const struct reference_operand *in,
			  struct reference_operand *loss, struct reference_operand *dlogits)
{
	uint64_t classes = channels_of(&in[0]), rows = rows_of(&in[0]);
	double total = 0, counted = reference_rows_counted(attr, &in[1]);
	for (uint64_t r = 0; r < rows; r++)
		total += reference_row_loss(attr, in[0].value + r * classes, classes, in[1].value[r],
					    dlogits ? in[2].value[0] / counted : 0,
					    dlogits ? dlogits->value + r * classes : NULL, NULL);
	if (loss)
		loss->value[0] = total / counted;
}

static void count_correct(const struct op_attr *attr, const struct reference_operand *in, struct reference_operand *out)
{
	uint64_t classes = channels_of(&in[0]);
	out->value[0] = 0;
	for (uint64_t r = 0; r < rows_of(&in[0]); r++) {
		const double *x = in[0].value + r * classes;
		uint64_t best = 0;
		for (uint64_t k = 1; k < classes; k++)
			if (x[k] > x[best])
				best = k;
		bool ignored = attr->has_ignore_index && in[1].value[r] == attr->ignore_index;
		out->value[0] += (double)best == in[1].value[r] && !ignored;
	}
}

static void label_share(const struct op_attr *attr, const struct reference_operand *in, struct reference_operand *out)
{
	double counted[3] = { 0 };
	for (uint32_t i = 1; i < 3; i++)
		for (uint64_t r = 0; r < in[i].elements; r++)
			counted[i] += !attr->has_ignore_index || in[i].value[r] != attr->ignore_index;
	out->value[0] = counted[2] > 0 ? in[0].value[0] * counted[1] / counted[2] : in[0].value[0];
}

static void squared_error(const struct reference_operand *in, struct reference_operand *loss,
			  struct reference_operand *dprediction)
{
	double total = 0, n = (double)in[0].elements;
	for (uint64_t i = 0; i < in[0].elements; i++) {
		double d = in[0].value[i] - in[1].value[i];
		total += d * d / n;
		if (dprediction)
			dprediction->value[i] = 2 * d * in[2].value[0] / n;
	}
	if (loss)
		loss->value[0] = total;
}

static void lion(const struct op_attr *attr, const struct step_scalars *scalars, const struct reference_operand *in,
		 uint32_t inputs, struct reference_operand *out)
{
	double rate = (double)scalars->learning_rate * (double)attr->rate_scale;
	double b1 = (double)attr->beta1, b2 = (double)attr->beta2, scale = inputs > 4 ? in[4].value[0] : 1;
	for (uint64_t i = 0; i < in[0].elements; i++) {
		double m = in[1].value[i], g = scale * in[2].value[i], direction = b1 * m + (1 - b1) * g;
		out[1].value[i] = b2 * m + (1 - b2) * g;
		out[0].value[i] = in[0].value[i] * (1 - rate * (double)attr->weight_decay) -
				  rate * ((direction > 0) - (direction < 0));
	}
}

/* columns 0: a vector, whose moments are kept whole. */
static void adafactor(const struct op_attr *attr, const struct step_scalars *scalars,
		      const struct reference_operand *in, uint32_t inputs, struct reference_operand *out, uint64_t rows,
		      uint64_t columns)
{
	const uint64_t width = columns ? columns : 1, g_input = columns ? 3 : 2;
	double beta = 1 - pow(scalars->step + 1.0, -0.8),
	       rate = (double)scalars->learning_rate * (double)attr->rate_scale;
	double scale = inputs > g_input + 2 ? in[g_input + 2].value[0] : 1, mean = 0, updates = 0, weights = 0;
	const double *g = in[g_input].value;
	for (uint64_t r = 0; r < rows; r++) {
		double sum = 0;
		for (uint64_t j = 0; j < width; j++)
			sum += pow(scale * g[r * width + j], 2) + 1e-30;
		out[1].value[r] = beta * in[1].value[r] + (1 - beta) * sum / (double)width;
		mean += out[1].value[r] / (double)rows;
	}
	for (uint64_t j = 0; j < columns; j++) {
		double sum = 0;
		for (uint64_t r = 0; r < rows; r++)
			sum += pow(scale * g[r * width + j], 2) + 1e-30;
		out[2].value[j] = beta * in[2].value[j] + (1 - beta) * sum / (double)rows;
	}
	for (uint64_t i = 0; i < rows * width; i++) {
		double moment = columns ? out[1].value[i / width] * out[2].value[i % width] / mean : out[1].value[i];
		out[0].value[i] = scale * g[i] / sqrt(moment);
		updates += pow(out[0].value[i], 2) / (double)(rows * width);
		weights += pow(in[0].value[i], 2) / (double)(rows * width);
	}
	double step = rate * fmax(1e-3, sqrt(weights)) / fmax(1, sqrt(updates));
	for (uint64_t i = 0; i < rows * width; i++)
		out[0].value[i] = in[0].value[i] * (1 - rate * (double)attr->weight_decay) - step * out[0].value[i];
}

static void clip_scale(const struct op_attr *attr, const struct reference_operand *in, uint32_t inputs,
		       struct reference_operand *out)
{
	double total = 0;
	for (uint32_t i = 0; i < inputs; i++)
		total += in[i].value[0];
	out[1].value[0] = sqrt(total);
	out[0].value[0] = fmin(1, (double)attr->alpha / (sqrt(total) + 1e-6));
}

/* SGD, MOMENTUM, ADAM, and ADAM_8BIT with decoded moments: w, states, g, scalars [, scale]. */
static void update(enum op_kind kind, const struct op_attr *attr, const struct step_scalars *scalars,
		   const struct reference_operand *in, uint32_t inputs, struct reference_operand *out)
{
	uint32_t g_input = kind == OP_SGD ? 1 : kind == OP_MOMENTUM ? 2 : 3;
	double scale = inputs > g_input + 2 ? in[g_input + 2].value[0] : 1, decay = (double)attr->weight_decay;
	double rate = (double)scalars->learning_rate * (double)attr->rate_scale, mu = (double)attr->momentum;
	double b1 = (double)attr->beta1, b2 = (double)attr->beta2;
	for (uint64_t i = 0; i < in[0].elements; i++) {
		double w = in[0].value[i], g = scale * in[g_input].value[i];
		if (attr->decoupled)
			w *= 1 - rate * decay;
		else
			g += decay * w;
		if (kind == OP_SGD) {
			out[0].value[i] = w - rate * g;
		} else if (kind == OP_MOMENTUM) {
			double v = mu * in[1].value[i] + g;
			out[1].value[i] = v;
			out[0].value[i] = w - rate * (attr->nesterov ? g + mu * v : v);
		} else {
			double m = b1 * in[1].value[i] + (1 - b1) * g, v = b2 * in[2].value[i] + (1 - b2) * g * g;
			out[1].value[i] = m;
			out[2].value[i] = v;
			out[0].value[i] =
				w - rate / (double)scalars->bias_correction1 * m /
					    (sqrt(v) / sqrt((double)scalars->bias_correction2) + (double)attr->epsilon);
		}
	}
}

static void sum_rows(const struct reference_operand *x, struct reference_operand *sum)
{
	zero(sum);
	for (uint64_t i = 0; i < x->elements; i++)
		sum->value[i % channels_of(x)] += x->value[i];
}

static void concat(const struct op_attr *attr, const struct reference_operand *in, uint32_t inputs,
		   struct reference_operand *out)
{
	uint64_t at = 0;
	for (uint32_t i = 0; i < inputs; i++) {
		copy_axis(&in[i], out, attr->axis, 0, at, in[i].dim[attr->axis]);
		at += in[i].dim[attr->axis];
	}
}

static double pointwise(enum op_kind kind, const struct op_attr *attr, const struct reference_operand *in, uint64_t i)
{
	double a = kind == OP_FILL ? 0 : in[0].value[i], alpha = (double)attr->alpha;
	switch (kind) {
	case OP_ACTIVATION:
		return reference_activation(attr->activation, alpha, a);
	case OP_ACTIVATION_GRAD:
		return a * reference_activation_grad(attr->activation, alpha, in[1].value[i]);
	case OP_ADD:
		return reference_activation(attr->activation, 0, a + in[1].value[i]);
	case OP_MULTIPLY:
		return a * in[1].value[i];
	case OP_SCALE:
		return alpha * a;
	case OP_CAST:
		return a;
	case OP_FILL:
		return alpha;
	case OP_RECORD:
		return in[1].value[i];
	case OP_FUNCTION:
		return attr->mode == FUNCTION_EXPONENTIAL ? exp(a)
		       : attr->mode == FUNCTION_LOGARITHM ? log(a)
							  : pow(a, alpha);
	default:
		return a;
	}
}

static double squares(const struct reference_operand *x)
{
	double sum = 0;
	for (uint64_t i = 0; i < x->elements; i++)
		sum += x->value[i] * x->value[i];
	return sum;
}

void reference_run(enum op_kind kind, const struct op_attr *attr, const struct step_scalars *scalars,
		   const struct reference_operand *in, uint32_t inputs, struct reference_operand *out)
{
	const struct reference_operand *bias = inputs > 2 ? &in[2] : NULL;
	zero(&out[0]);
	if (reference_run_sequence(kind, attr, in, inputs, out) || reference_run_image(kind, attr, in, out))
		return;
	switch (kind) {
	case OP_MATMUL:
		return matmul(attr, &in[0], &in[1], bias, out);
	case OP_CONV2D:
		return conv2d(attr, &in[0], &in[1], bias, out);
	case OP_CONV2D_GRAD_INPUT:
		return convolution(attr, out, &in[1], &in[0], visit_grad_input);
	case OP_CONV2D_GRAD_WEIGHT:
		return convolution(attr, &in[0], out, &in[1], visit_grad_weight);
	case OP_SUM_ROWS:
		return sum_rows(&in[0], out);
	case OP_MAX_POOL:
		return pool(attr, &in[0], &out[0], &out[1]);
	case OP_MAX_POOL_GRAD:
		return pool_grad(attr, &in[0], &in[1], &out[0]);
	case OP_MAX_POOL_GATHER:
		return max_pool_gather(attr, &in[0], &in[1], &out[0]);
	case OP_LABEL_WEIGHTS:
		return label_weights(attr, &in[0], &out[0]);
	case OP_AVG_POOL:
		return pool(attr, &in[0], &out[0], NULL);
	case OP_AVG_POOL_GRAD:
		return pool_grad(attr, &in[0], NULL, &out[0]);
	case OP_BATCH_STATS:
		return batch_stats(&in[0], &out[0], &out[1]);
	case OP_BATCH_APPLY:
		return batch_apply(attr, in, out);
	case OP_BATCH_REDUCE:
		zero(&out[1]);
		return batch_backward(attr, in, &out[0], &out[1], NULL);
	case OP_BATCH_GRAD_INPUT:
		return batch_backward(attr, in, NULL, NULL, out);
	case OP_RUNNING_UPDATE:
		return running_update(attr, in, out);
	case OP_LAYER_NORM:
		return layer_norm(attr, in, out);
	case OP_LAYER_NORM_GRAD:
		return layer_norm_grad(in, out);
	case OP_LAYER_NORM_GRAD_PARAM:
		return layer_norm_grad_param(in, out);
	case OP_DROPOUT:
		return dropout(attr, scalars, &in[0], out);
	case OP_CONCAT:
		return concat(attr, in, inputs, out);
	case OP_SLICE:
	case OP_SLICE_VIEW:
		return copy_axis(&in[0], out, attr->axis, attr->begin, 0, attr->extent[0]);
	case OP_PAD_AXIS:
		return copy_axis(&in[0], out, attr->axis, 0, attr->begin, in[0].dim[attr->axis]);
	case OP_PERMUTE:
		return permute(attr, &in[0], out);
	case OP_SOFTMAX_CROSS_ENTROPY:
		return cross_entropy(attr, in, out, NULL);
	case OP_SOFTMAX_CROSS_ENTROPY_GRAD:
		return cross_entropy(attr, in, NULL, out);
	case OP_COUNT_CORRECT:
		return count_correct(attr, in, out);
	case OP_LABEL_SHARE:
		return label_share(attr, in, out);
	case OP_MEAN_SQUARED_ERROR:
		return squared_error(in, out, NULL);
	case OP_MEAN_SQUARED_ERROR_GRAD:
		return squared_error(in, NULL, out);
	case OP_SUM_SQUARES:
		out->value[0] = squares(&in[0]);
		return;
	case OP_CLIP_SCALE:
		return clip_scale(attr, in, inputs, out);
	case OP_LION:
		return lion(attr, scalars, in, inputs, out);
	case OP_ADAFACTOR:
		return adafactor(attr, scalars, in, inputs, out, in[0].dim[0], in[0].elements / in[0].dim[0]);
	case OP_ADAFACTOR_VECTOR:
		return adafactor(attr, scalars, in, inputs, out, in[0].elements, 0);
	case OP_SGD:
	case OP_MOMENTUM:
	case OP_ADAM:
	case OP_ADAM_8BIT:
		return update(kind, attr, scalars, in, inputs, out);
	default:
		for (uint64_t i = 0; i < out->elements; i++)
			out->value[i] = pointwise(kind, attr, in, i);
	}
}
