/*
 * mixture.cu - the discretised logistic mixture of PixelCNN++: loss and gradient, a thread for each pixel, in double.
 *
 * Source: Salimans et al. 2017, arXiv:1701.05517, section 2.1, with the authors' formulas for the ends of the range and
 * for narrow distributions.
 */
#include "device.h"

/* A thread needs more registers than elsewhere; two blocks to a multiprocessor leave it 128. */
#define MIXTURE_KERNEL extern "C" __global__ void __launch_bounds__(KERNEL_THREADS, 2)
#define INSTANTIATE_MIXTURE_FOR(name, storage)                                  \
	MIXTURE_KERNEL tarn_##name##_##storage(PARAMETER(mixture_parameters) p) \
	{                                                                       \
		name##_body<storage>(p);                                        \
	}
#define INSTANTIATE_MIXTURE_EXPANDED(name, storage) INSTANTIATE_MIXTURE_FOR(name, storage)
#define INSTANTIATE_MIXTURE(name) INSTANTIATE_MIXTURE_EXPANDED(name, KERNEL_STORAGE)

#define HALF_BIN (1.0 / 255.0) /* images have 256 levels from -1 to 1 */
#define LEAST_LOG_SCALE (-7.0)
#define NARROW 1e-5 /* below that probability the density at the middle of the bin is used */

DEVICE double logistic(double x)
{
	double e = exp(-fabs(x)), share = 1.0 / (1.0 + e);
	return x >= 0.0 ? share : e * share;
}

DEVICE double soft_plus(double x)
{
	return (x > 0.0 ? x : 0.0) + log1p(exp(-fabs(x)));
}

/* Parameters of a pixel: M weights, then for each channel M means, M logarithms of scales, and M coefficients. */
template <typename T> struct mixture_pixel {
	const T *parameter, *value;
	uint32_t channels, mixtures;
};

enum mixture_part { PART_MEAN, PART_LOG_SCALE, PART_COEFFICIENT };

template <typename T> DEVICE mixture_pixel<T> mixture_pixel_of(const mixture_parameters &p, uint64_t number)
{
	uint32_t each = p.mixtures * (p.channels == 1 ? 3 : 10);
	return { (const T *)p.parameter + number * each, (const T *)p.image + number * p.channels, p.channels,
		 p.mixtures };
}

template <typename T>
DEVICE uint32_t part_index(const mixture_pixel<T> &pixel, uint32_t channel, uint32_t part, uint32_t m)
{
	return pixel.mixtures * (1 + channel * (pixel.channels == 1 ? 2 : 3) + part) + m;
}

template <typename T> DEVICE double part_of(const mixture_pixel<T> &pixel, uint32_t channel, uint32_t part, uint32_t m)
{
	return (double)load(pixel.parameter, part_index(pixel, channel, part, m));
}

/* log probability of a level, and its derivatives by the mean and by the logarithm of the scale. */
struct mixture_level {
	double log_probability, by_mean, by_log_scale;
};

DEVICE mixture_level level_of(double value, double mean, double raw_log_scale)
{
	bool clamped = raw_log_scale < LEAST_LOG_SCALE;
	double log_scale = clamped ? LEAST_LOG_SCALE : raw_log_scale, inverse = exp(-log_scale);
	double middle = inverse * (value - mean), plus = middle + inverse * HALF_BIN,
	       minus = middle - inverse * HALF_BIN;
	double above = logistic(plus), below = logistic(minus), probability = above - below;
	double by_plus = 0.0, by_minus = 0.0, by_middle = 0.0, by_scale = 0.0;
	mixture_level level;
	if (value < -0.999) {
		level.log_probability = plus - soft_plus(plus);
		by_plus = 1.0 - above;
	} else if (value > 0.999) {
		level.log_probability = -soft_plus(minus);
		by_minus = -below;
	} else if (probability > NARROW) {
		level.log_probability = log(probability);
		by_plus = above * (1.0 - above) / probability;
		by_minus = -below * (1.0 - below) / probability;
	} else {
		level.log_probability = middle - log_scale - 2.0 * soft_plus(middle) - log(127.5);
		by_middle = 1.0 - 2.0 * logistic(middle);
		by_scale = -1.0;
	}
	level.by_mean = -inverse * (by_plus + by_minus + by_middle);
	level.by_log_scale = clamped ? 0.0 : by_scale - by_plus * plus - by_minus * minus - by_middle * middle;
	return level;
}

/* The mean of green depends on red, that of blue on red and green: coefficients 0; 1 and 2. */
template <typename T> DEVICE mixture_level channel_level(const mixture_pixel<T> &pixel, uint32_t channel, uint32_t m)
{
	double mean = part_of(pixel, channel, PART_MEAN, m);
	for (uint32_t from = 0; from < channel; from++)
		mean += tanh(part_of(pixel, channel + from - 1, PART_COEFFICIENT, m)) * (double)load(pixel.value, from);
	return level_of((double)load(pixel.value, channel), mean, part_of(pixel, channel, PART_LOG_SCALE, m));
}

/* Logarithm of a weight, or of weight times probability. */
template <typename T> DEVICE double log_term(const mixture_pixel<T> &pixel, uint32_t m, bool with_levels)
{
	double value = (double)load(pixel.parameter, m);
	for (uint32_t c = 0; with_levels && c < pixel.channels; c++)
		value += channel_level(pixel, c, m).log_probability;
	return value;
}

/* log sum_m exp(log_term) */
template <typename T> DEVICE double log_sum(const mixture_pixel<T> &pixel, bool with_levels)
{
	double largest = -INFINITY, sum = 0.0;
#pragma unroll 1
	for (uint32_t m = 0; m < pixel.mixtures; m++) {
		double value = log_term(pixel, m, with_levels), more = value > largest ? value : largest;
		sum = (m ? sum * exp(largest - more) : 0.0) + exp(value - more);
		largest = more;
	}
	return largest + log(sum);
}

template <typename T> DEVICE void logistic_mixture_body(const mixture_parameters &p)
{
	__shared__ double scratch[KERNEL_WARPS];
	uint64_t begin = blockIdx.x * p.block_pixels, end = begin + p.block_pixels;
	double total = 0.0;
	end = end < p.pixels ? end : p.pixels;
#pragma unroll 1
	for (uint64_t i = begin + threadIdx.x; i < end; i += KERNEL_THREADS) {
		mixture_pixel<T> pixel = mixture_pixel_of<T>(p, i);
		total += log_sum(pixel, false) - log_sum(pixel, true);
	}
	total = team_sum(total, scratch, KERNEL_THREADS);
	if (threadIdx.x == 0)
		p.partial[blockIdx.x] = total;
}
INSTANTIATE_MIXTURE(logistic_mixture)

template <typename T>
DEVICE void store_channel_grad(const mixture_pixel<T> &pixel, uint32_t channel, uint32_t m, double share, T *out)
{
	mixture_level level = channel_level(pixel, channel, m);
	store(out, part_index(pixel, channel, PART_MEAN, m), (float)(share * level.by_mean));
	store(out, part_index(pixel, channel, PART_LOG_SCALE, m), (float)(share * level.by_log_scale));
	for (uint32_t from = 0; from < channel; from++) {
		double c = tanh(part_of(pixel, channel + from - 1, PART_COEFFICIENT, m));
		store(out, part_index(pixel, channel + from - 1, PART_COEFFICIENT, m),
		      (float)(share * level.by_mean * (double)load(pixel.value, from) * (1.0 - c * c)));
	}
}

template <typename T> DEVICE void logistic_mixture_grad_body(const mixture_parameters &p)
{
	uint64_t i = (uint64_t)blockIdx.x * KERNEL_THREADS + threadIdx.x;
	if (i >= p.pixels)
		return;
	mixture_pixel<T> pixel = mixture_pixel_of<T>(p, i);
	T *out = (T *)p.out + (pixel.parameter - (const T *)p.parameter);
	double factor = (double)*p.factor / ((double)p.pixels * (double)p.channels);
	double weights = log_sum(pixel, false), all = log_sum(pixel, true);
#pragma unroll 1
	for (uint32_t m = 0; m < pixel.mixtures; m++) {
		double responsibility = exp(log_term(pixel, m, true) - all);
		double share = exp((double)load(pixel.parameter, m) - weights);
		store(out, m, (float)((share - responsibility) * factor));
#pragma unroll 1
		for (uint32_t c = 0; c < pixel.channels; c++)
			store_channel_grad(pixel, c, m, -responsibility * factor, out);
	}
}
INSTANTIATE_MIXTURE(logistic_mixture_grad)
