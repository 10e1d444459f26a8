/* reference_image.c - the oracle of group norm, resampling, masked and normalised weights, and image losses. */
#include "conformance/reference.h"

#include <math.h>
#include <string.h>

static void zero(struct reference_operand *x)
{
	memset(x->value, 0, x->elements * sizeof *x->value);
}

/* ---- group norm: element e of sample n and channel c belongs to statistic (n, c / (C / G)) ---- */

static uint64_t statistic_of(const struct reference_operand *x, uint64_t groups, uint64_t e)
{
	uint64_t channels = x->dim[x->rank - 1], sample = x->elements / x->dim[0];
	return e / sample * groups + e % channels / (channels / groups);
}

static void group_norm(const struct op_attr *attr, const struct reference_operand *in, struct reference_operand *out)
{
	uint64_t channels = in[0].dim[in[0].rank - 1];
	double share = (double)(attr->groups * in[0].dim[0]) / (double)in[0].elements;
	zero(&out[1]);
	zero(&out[2]);
	for (uint64_t e = 0; e < in[0].elements; e++)
		out[1].value[statistic_of(&in[0], attr->groups, e)] += in[0].value[e] * share;
	for (uint64_t e = 0; e < in[0].elements; e++) {
		uint64_t s = statistic_of(&in[0], attr->groups, e);
		out[2].value[s] += pow(in[0].value[e] - out[1].value[s], 2) * share;
	}
	for (uint64_t s = 0; s < out[2].elements; s++)
		out[2].value[s] = 1 / sqrt(out[2].value[s] + (double)attr->epsilon);
	for (uint64_t e = 0; e < in[0].elements; e++) {
		uint64_t s = statistic_of(&in[0], attr->groups, e), c = e % channels;
		out[0].value[e] =
			(in[0].value[e] - out[1].value[s]) * out[2].value[s] * in[1].value[c] + in[2].value[c];
	}
}

/* dx_e = rstd_s * (g_e - sum over f in s of (g_f + xhat_e g_f xhat_f) / m), written out quadratically. */
static void group_norm_grad(const struct op_attr *attr, const struct reference_operand *in,
			    struct reference_operand *dx)
{
	const double *dy = in[0].value, *x = in[1].value, *mean = in[2].value, *rstd = in[3].value,
		     *gamma = in[4].value;
	uint64_t channels = in[1].dim[in[1].rank - 1];
	double share = (double)(attr->groups * in[1].dim[0]) / (double)in[1].elements;
	for (uint64_t e = 0; e < in[1].elements; e++) {
		uint64_t s = statistic_of(&in[1], attr->groups, e);
		double xhat = (x[e] - mean[s]) * rstd[s], total = dy[e] * gamma[e % channels];
		for (uint64_t f = 0; f < in[1].elements; f++)
			if (statistic_of(&in[1], attr->groups, f) == s)
				total -= dy[f] * gamma[f % channels] * (1 + xhat * (x[f] - mean[s]) * rstd[s]) * share;
		dx->value[e] = rstd[s] * total;
	}
}

static void group_norm_grad_param(const struct op_attr *attr, const struct reference_operand *in,
				  struct reference_operand *out)
{
	uint64_t channels = in[1].dim[in[1].rank - 1];
	zero(&out[0]);
	zero(&out[1]);
	for (uint64_t e = 0; e < in[1].elements; e++) {
		uint64_t s = statistic_of(&in[1], attr->groups, e), c = e % channels;
		out[0].value[c] += in[0].value[e] * (in[1].value[e] - in[2].value[s]) * in[3].value[s];
		out[1].value[c] += in[0].value[e];
	}
}

/* ---- resampling: the weight with which output o of an axis reads input i ---- */

static double axis_weight(enum op_kind kind, uint32_t mode, uint32_t in, uint32_t out, uint32_t o, uint32_t i)
{
	if (kind == OP_ADAPTIVE_AVG_POOL) {
		double begin = floor((double)o * in / out), end = ceil((double)(o + 1) * in / out);
		return i >= begin && i < end ? 1 / (end - begin) : 0;
	}
	if (mode == UPSAMPLE_NEAREST)
		return i == floor((double)o * in / out);
	/* A tent of width 1 on each side; what lies beyond the border counts for the border. */
	double position = (o + 0.5) * in / out - 0.5, first = floor(position), weight = 0;
	for (int tap = 0; tap < 2; tap++) {
		double at = first + tap, clamped = at < 0 ? 0 : at > in - 1.0 ? in - 1.0 : at;
		if (clamped == i)
			weight += tap ? position - first : 1 - (position - first);
	}
	return weight;
}

static void resample(enum op_kind kind, const struct op_attr *attr, const struct reference_operand *x,
		     struct reference_operand *y, bool adjoint)
{
	const struct reference_operand *small = adjoint ? y : x, *large = adjoint ? x : y;
	uint64_t channels = x->dim[3];
	zero(y);
	for (uint64_t n = 0; n < x->dim[0]; n++)
		for (uint32_t oh = 0; oh < large->dim[1]; oh++)
			for (uint32_t ow = 0; ow < large->dim[2]; ow++)
				for (uint32_t h = 0; h < small->dim[1]; h++)
					for (uint32_t w = 0; w < small->dim[2]; w++) {
						double weight = axis_weight(kind, attr->mode, small->dim[1],
									    large->dim[1], oh, h) *
								axis_weight(kind, attr->mode, small->dim[2],
									    large->dim[2], ow, w);
						uint64_t of_large = ((n * large->dim[1] + oh) * large->dim[2] + ow);
						uint64_t of_small = ((n * small->dim[1] + h) * small->dim[2] + w);
						uint64_t from = adjoint ? of_large : of_small;
						uint64_t to = adjoint ? of_small : of_large;
						for (uint64_t c = 0; c < channels; c++)
							y->value[to * channels + c] +=
								weight * x->value[from * channels + c];
					}
}

/* ---- weights ---- */

static void weight_mask(const struct op_attr *attr, const struct reference_operand *w, struct reference_operand *y)
{
	for (uint64_t e = 0; e < w->elements; e++) {
		uint32_t kw = (uint32_t)(e % w->dim[3]), kh = (uint32_t)(e / w->dim[3] % w->dim[2]);
		uint32_t middle_h = w->dim[2] / 2, middle_w = w->dim[3] / 2;
		bool before = kh < middle_h || (kh == middle_h && kw < middle_w);
		bool centre = kh == middle_h && kw == middle_w;
		y->value[e] = before || (centre && attr->mode == MASK_B) ? w->value[e] : 0;
	}
}

static double length_of(const struct reference_operand *v, uint64_t o)
{
	uint64_t n = v->elements / v->dim[0];
	double squares = 0;
	for (uint64_t i = 0; i < n; i++)
		squares += v->value[o * n + i] * v->value[o * n + i];
	return sqrt(squares);
}

static void weight_norm(const struct reference_operand *in, struct reference_operand *w)
{
	for (uint64_t e = 0; e < w->elements; e++) {
		uint64_t o = e / (w->elements / w->dim[0]);
		w->value[e] = in[1].value[o] * in[0].value[e] / length_of(&in[0], o);
	}
}

static void weight_norm_grad(const struct reference_operand *in, struct reference_operand *out)
{
	const struct reference_operand *dw = &in[0], *v = &in[1], *g = &in[2];
	uint64_t n = v->elements / v->dim[0];
	zero(&out[1]);
	for (uint64_t e = 0; e < v->elements; e++)
		out[1].value[e / n] += dw->value[e] * v->value[e] / length_of(v, e / n);
	for (uint64_t e = 0; e < v->elements; e++) {
		double length = length_of(v, e / n), along = out[1].value[e / n] * v->value[e] / length;
		out[0].value[e] = g->value[e / n] / length * (dw->value[e] - along);
	}
}

/* ---- losses ---- */

static double sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

static void binary_cross_entropy(const struct reference_operand *in, struct reference_operand *loss,
				 struct reference_operand *gradient)
{
	if (loss)
		zero(loss);
	for (uint64_t e = 0; e < in[0].elements; e++) {
		double p = sigmoid(in[0].value[e]), t = in[1].value[e];
		if (loss)
			loss->value[0] -= (t * log(p) + (1 - t) * log(1 - p)) / (double)in[0].elements;
		else
			gradient->value[e] = (p - t) * in[2].value[0] / (double)in[0].elements;
	}
}

/* Minus the logarithm of the probability of a pixel, by the definition. */
static double pixel_loss(const double *parameter, const double *value, uint32_t channels, uint32_t mixtures)
{
	double weights = 0, total = 0;
	uint32_t each = channels == 1 ? 2 : 3;
	for (uint32_t m = 0; m < mixtures; m++)
		weights += exp(parameter[m]);
	for (uint32_t m = 0; m < mixtures; m++) {
		double probability = exp(parameter[m]) / weights;
		const double *block = parameter + mixtures + m;
		for (uint32_t c = 0; c < channels; c++) {
			double mean = block[c * each * mixtures];
			double scale = exp(fmax(block[(c * each + 1) * mixtures], -7));
			if (c == 1)
				mean += tanh(block[2 * mixtures]) * value[0];
			if (c == 2)
				mean += tanh(block[5 * mixtures]) * value[0] + tanh(block[8 * mixtures]) * value[1];
			double above = sigmoid((value[c] + 1.0 / 255 - mean) / scale);
			double below = sigmoid((value[c] - 1.0 / 255 - mean) / scale);
			if (value[c] < -0.999)
				probability *= above;
			else if (value[c] > 0.999)
				probability *= 1 - below;
			else if (above - below > 1e-5)
				probability *= above - below;
			else
				probability *= sigmoid((value[c] - mean) / scale) *
					       (1 - sigmoid((value[c] - mean) / scale)) / scale / 127.5;
		}
		total += probability;
	}
	return -log(total);
}

/* The gradient by central differences of the definition: exact enough for the tolerance, and independent. */
static void logistic_mixture(const struct reference_operand *in, struct reference_operand *loss,
			     struct reference_operand *gradient)
{
	uint32_t each = in[0].dim[3], channels = in[1].dim[3], mixtures = each / (channels == 1 ? 3 : 10);
	uint64_t pixels = in[0].elements / each;
	const double h = 1e-6;
	if (loss)
		zero(loss);
	for (uint64_t p = 0; p < pixels; p++) {
		double *parameter = in[0].value + p * each;
		const double *value = in[1].value + p * channels;
		if (loss)
			loss->value[0] += pixel_loss(parameter, value, channels, mixtures) / (double)in[1].elements;
		for (uint32_t k = 0; gradient && k < each; k++) {
			double at = parameter[k];
			parameter[k] = at + h;
			double up = pixel_loss(parameter, value, channels, mixtures);
			parameter[k] = at - h;
			double down = pixel_loss(parameter, value, channels, mixtures);
			parameter[k] = at;
			gradient->value[p * each + k] = (up - down) / (2 * h) * in[2].value[0] / (double)in[1].elements;
		}
	}
}

bool reference_run_image(enum op_kind kind, const struct op_attr *attr, const struct reference_operand *in,
			 struct reference_operand *out)
{
	switch (kind) {
	case OP_GROUP_NORM:
		group_norm(attr, in, out);
		return true;
	case OP_GROUP_NORM_GRAD:
		group_norm_grad(attr, in, out);
		return true;
	case OP_GROUP_NORM_GRAD_PARAM:
		group_norm_grad_param(attr, in, out);
		return true;
	case OP_UPSAMPLE:
	case OP_UPSAMPLE_GRAD:
		resample(OP_UPSAMPLE, attr, in, out, kind == OP_UPSAMPLE_GRAD);
		return true;
	case OP_ADAPTIVE_AVG_POOL:
	case OP_ADAPTIVE_AVG_POOL_GRAD:
		resample(OP_ADAPTIVE_AVG_POOL, attr, in, out, kind == OP_ADAPTIVE_AVG_POOL_GRAD);
		return true;
	case OP_WEIGHT_MASK:
		weight_mask(attr, in, out);
		return true;
	case OP_WEIGHT_NORM:
		weight_norm(in, out);
		return true;
	case OP_WEIGHT_NORM_GRAD:
		weight_norm_grad(in, out);
		return true;
	case OP_BINARY_CROSS_ENTROPY:
		binary_cross_entropy(in, out, NULL);
		return true;
	case OP_BINARY_CROSS_ENTROPY_GRAD:
		binary_cross_entropy(in, NULL, out);
		return true;
	case OP_LOGISTIC_MIXTURE:
		logistic_mixture(in, out, NULL);
		return true;
	case OP_LOGISTIC_MIXTURE_GRAD:
		logistic_mixture(in, NULL, out);
		return true;
	default:
		return false;
	}
}
