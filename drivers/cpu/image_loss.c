/*
 * image_loss.c - binary cross-entropy of logits, and the discretised logistic mixture of PixelCNN++ (Salimans et al.
 * 2017, arXiv:1701.05517, section 2.1 and the authors' formulas for the ends of the range and for narrow
 * distributions).
 *
 * Everything is computed in double; sums are in the order of the elements, then of the chunks.
 */
#include "cpu/reduction.h"

#include <math.h>

/* ---- binary cross-entropy: max(x, 0) - x t + log(1 + exp(-|x|)) ---- */

static double sigmoid(double x)
{
	return x >= 0.0 ? 1.0 / (1.0 + exp(-x)) : exp(x) / (1.0 + exp(x));
}

static double softplus(double x)
{
	return (x > 0.0 ? x : 0.0) + log1p(exp(-fabs(x)));
}

static void binary_body(const struct bound_instr *instr, uint64_t chunk)
{
	const float *logit = instr->address[0], *target = instr->address[1];
	struct range range = chunk_range(instr->kernel, chunk, kernel_input(instr->kernel, 0)->elements);
	double total = 0.0;
	for (uint64_t i = range.begin; i < range.end; i++)
		total += softplus((double)logit[i]) - (double)logit[i] * (double)target[i];
	((double *)instr->workspace)[chunk] = total;
}

static void binary_grad_body(const struct bound_instr *instr, uint64_t chunk)
{
	const float *logit = instr->address[0], *target = instr->address[1];
	float *out = instr_output(instr, 0);
	uint64_t elements = kernel_input(instr->kernel, 0)->elements;
	double factor = (double)*(const float *)instr->address[2] / (double)elements;
	struct range range = chunk_range(instr->kernel, chunk, elements);
	for (uint64_t i = range.begin; i < range.end; i++)
		out[i] = (float)((sigmoid((double)logit[i]) - (double)target[i]) * factor);
}

static void binary_finish(const struct bound_instr *instr)
{
	double elements = (double)kernel_input(instr->kernel, 0)->elements;
	*(float *)instr_output(instr, 0) = (float)(reduction_total(instr) / elements);
}

/* ---- discretised logistic mixture ---- */

#define HALF_BIN (1.0 / 255.0) /* images have 256 levels from -1 to 1 */
#define LEAST_LOG_SCALE (-7.0)
#define NARROW 1e-5 /* below that probability the density at the middle of the bin is used */

/* Parameters of a pixel: M weights, then for each channel M means, M logarithms of scales, and M coefficients. */
struct pixel {
	const float *parameter, *value;
	uint32_t channels, mixtures;
};

static uint32_t parameter_index(const struct pixel *p, uint32_t channel, uint32_t which, uint32_t m)
{
	uint32_t each = p->channels == 1 ? 2 : 3;
	return p->mixtures * (1 + channel * each + which) + m;
}

enum { MEAN, LOG_SCALE, COEFFICIENT };

static double parameter_of(const struct pixel *p, uint32_t channel, uint32_t which, uint32_t m)
{
	return (double)p->parameter[parameter_index(p, channel, which, m)];
}

/* The coefficients of green depend on red, those of blue on red and green: numbers 0; 1 and 2. */
static double channel_mean(const struct pixel *p, uint32_t channel, uint32_t m)
{
	double mean = parameter_of(p, channel, MEAN, m);
	for (uint32_t from = 0; from < channel; from++)
		mean += tanh(parameter_of(p, channel + from - 1, COEFFICIENT, m)) * (double)p->value[from];
	return mean;
}

/* log probability of a level, and its derivatives by the mean and by the logarithm of the scale. */
struct level {
	double log_probability, by_mean, by_log_scale;
};

static struct level level_of(double value, double mean, double raw_log_scale)
{
	bool clamped = raw_log_scale < LEAST_LOG_SCALE;
	double log_scale = clamped ? LEAST_LOG_SCALE : raw_log_scale, inverse = exp(-log_scale);
	double middle = inverse * (value - mean), plus = middle + inverse * HALF_BIN,
	       minus = middle - inverse * HALF_BIN;
	double by_plus = 0.0, by_minus = 0.0, by_middle = 0.0, by_scale = 0.0;
	double probability = sigmoid(plus) - sigmoid(minus);
	struct level level;
	if (value < -0.999) {
		level.log_probability = plus - softplus(plus);
		by_plus = 1.0 - sigmoid(plus);
	} else if (value > 0.999) {
		level.log_probability = -softplus(minus);
		by_minus = -sigmoid(minus);
	} else if (probability > NARROW) {
		level.log_probability = log(probability);
		by_plus = sigmoid(plus) * (1.0 - sigmoid(plus)) / probability;
		by_minus = -sigmoid(minus) * (1.0 - sigmoid(minus)) / probability;
	} else {
		level.log_probability = middle - log_scale - 2.0 * softplus(middle) - log(127.5);
		by_middle = 1.0 - 2.0 * sigmoid(middle);
		by_scale = -1.0;
	}
	level.by_mean = -inverse * (by_plus + by_minus + by_middle);
	level.by_log_scale = clamped ? 0.0 : by_scale - by_plus * plus - by_minus * minus - by_middle * middle;
	return level;
}

static struct level channel_level(const struct pixel *p, uint32_t channel, uint32_t m)
{
	return level_of((double)p->value[channel], channel_mean(p, channel, m), parameter_of(p, channel, LOG_SCALE, m));
}

/* log sum_m exp(f(m)) over the weights alone, or over weight times probability. */
static double log_sum(const struct pixel *p, bool with_levels)
{
	double largest = -INFINITY, sum = 0.0;
	for (uint32_t pass = 0; pass < 2; pass++)
		for (uint32_t m = 0; m < p->mixtures; m++) {
			double value = (double)p->parameter[m];
			for (uint32_t c = 0; with_levels && c < p->channels; c++)
				value += channel_level(p, c, m).log_probability;
			if (pass)
				sum += exp(value - largest);
			else
				largest = value > largest ? value : largest;
		}
	return largest + log(sum);
}

static struct pixel pixel_of(const struct bound_instr *instr, uint64_t number)
{
	uint32_t each = kernel_input(instr->kernel, 0)->channels, channels = kernel_input(instr->kernel, 1)->channels;
	return (struct pixel){ .parameter = (const float *)instr->address[0] + number * each,
			       .value = (const float *)instr->address[1] + number * channels,
			       .channels = channels,
			       .mixtures = each / (channels == 1 ? 3 : 10) };
}

static void mixture_body(const struct bound_instr *instr, uint64_t chunk)
{
	struct range range = chunk_range(instr->kernel, chunk, kernel_input(instr->kernel, 0)->rows);
	double total = 0.0;
	for (uint64_t i = range.begin; i < range.end; i++) {
		struct pixel p = pixel_of(instr, i);
		total += log_sum(&p, false) - log_sum(&p, true);
	}
	((double *)instr->workspace)[chunk] = total;
}

/* Mean over all numbers of the image. */
static void mixture_finish(const struct bound_instr *instr)
{
	double numbers = (double)kernel_input(instr->kernel, 1)->elements;
	*(float *)instr_output(instr, 0) = (float)(reduction_total(instr) / numbers);
}

/* `share` of the mixture: minus its responsibility for the pixel, times the factor of the loss. */
static void mixture_grad_channel(const struct pixel *p, uint32_t channel, uint32_t m, double share, float *out)
{
	struct level level = channel_level(p, channel, m);
	out[parameter_index(p, channel, MEAN, m)] = (float)(share * level.by_mean);
	out[parameter_index(p, channel, LOG_SCALE, m)] = (float)(share * level.by_log_scale);
	for (uint32_t from = 0; from < channel; from++) {
		double c = tanh(parameter_of(p, channel + from - 1, COEFFICIENT, m));
		out[parameter_index(p, channel + from - 1, COEFFICIENT, m)] =
			(float)(share * level.by_mean * (double)p->value[from] * (1.0 - c * c));
	}
}

static void mixture_grad_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct operand *parameters = kernel_input(instr->kernel, 0);
	double factor = (double)*(const float *)instr->address[2] / (double)kernel_input(instr->kernel, 1)->elements;
	struct range range = chunk_range(instr->kernel, chunk, parameters->rows);
	for (uint64_t i = range.begin; i < range.end; i++) {
		struct pixel p = pixel_of(instr, i);
		float *out = (float *)instr_output(instr, 0) + i * parameters->channels;
		double weights = log_sum(&p, false), all = log_sum(&p, true);
		for (uint32_t m = 0; m < p.mixtures; m++) {
			double logit = (double)p.parameter[m], joint = logit;
			for (uint32_t c = 0; c < p.channels; c++)
				joint += channel_level(&p, c, m).log_probability;
			double responsibility = exp(joint - all);
			out[m] = (float)((exp(logit - weights) - responsibility) * factor);
			for (uint32_t c = 0; c < p.channels; c++)
				mixture_grad_channel(&p, c, m, -responsibility * factor, out);
		}
	}
}

/* Pixels of a chunk: each costs about as much as so many elements of an ordinary loop. */
#define PIXEL_COST 2048u

enum tarn_status image_loss_prepare(struct device *device, struct kernel *kernel)
{
	const struct operand *in = kernel_input(kernel, 0);
	(void)device;
	if (kernel->kind == OP_BINARY_CROSS_ENTROPY)
		reduction_prepare(kernel, binary_body, in->elements, 8, binary_finish);
	else if (kernel->kind == OP_LOGISTIC_MIXTURE)
		reduction_prepare(kernel, mixture_body, in->rows, PIXEL_COST, mixture_finish);
	else if (kernel->kind == OP_BINARY_CROSS_ENTROPY_GRAD)
		kernel_cut(kernel, binary_grad_body, in->elements, CPU_CHUNK_ELEMENTS / 8);
	else
		kernel_cut(kernel, mixture_grad_body, in->rows, CPU_CHUNK_ELEMENTS / PIXEL_COST);
	return TARN_OK;
}
