/* sample_pixel.c - see sample_pixel.h. */
#include "sample_pixel.h"

#include "base/philox.h"

#include <math.h>

#define STREAM_SAMPLE 0x53414D50u
/* The least logarithm of a scale, as in the loss. */
#define LEAST_LOG_SCALE (-7.0)

/* In (0, 1). */
static double uniform(const struct sample_choice *choice, uint64_t draw, uint32_t number)
{
	struct philox_block block = philox(choice->seed, STREAM_SAMPLE, 0, draw);
	return ((double)(block.word[number] >> 8) + 0.5) * 0x1p-24;
}

/* How many classes are likelier, or as likely and before it: its place in the order. */
static uint32_t place_of(const float *logits, uint32_t classes, uint32_t index)
{
	uint32_t place = 0;
	for (uint32_t c = 0; c < classes; c++)
		place += logits[c] > logits[index] || (logits[c] == logits[index] && c < index);
	return place;
}

static double weight_of(const struct sample_choice *choice, const float *logits, uint32_t classes, uint32_t index,
			float largest)
{
	if (choice->top && choice->top < classes && place_of(logits, classes, index) >= choice->top)
		return 0;
	return exp((double)(logits[index] - largest) / choice->temperature);
}

static uint32_t draw_class(const struct sample_choice *choice, double random, const float *logits, uint32_t classes)
{
	uint32_t best = 0;
	double sum = 0;
	for (uint32_t c = 1; c < classes; c++)
		best = logits[c] > logits[best] ? c : best;
	if (choice->temperature <= 0)
		return best;
	for (uint32_t c = 0; c < classes; c++)
		sum += weight_of(choice, logits, classes, c, logits[best]);
	random *= sum;
	for (uint32_t c = 0; c < classes; c++) {
		random -= weight_of(choice, logits, classes, c, logits[best]);
		if (random < 0)
			return c;
	}
	return best;
}

uint32_t sample_class(const struct sample_choice *choice, uint64_t draw, const float *logits, uint32_t classes)
{
	return draw_class(choice, uniform(choice, draw, 0), logits, classes);
}

static double sample_logistic(const struct sample_choice *choice, double mean, double log_scale, double random)
{
	double scale = exp(fmax(log_scale, LEAST_LOG_SCALE)) * choice->temperature;
	double x = mean + scale * (log(random) - log(1 - random));
	return fmin(fmax(x, -1), 1);
}

void sample_mixture(const struct sample_choice *choice, uint64_t draw, const float *parameter, uint32_t parameters,
		    uint32_t channels, uint8_t *pixel)
{
	const uint32_t count = parameters / (channels == 3 ? 10 : 3), each = channels == 3 ? 3 : 2;
	const struct sample_choice plain = { .temperature = choice->temperature, .seed = choice->seed };
	const uint32_t m = draw_class(&plain, uniform(choice, draw, 0), parameter, count);
	double value[3] = { 0 }, coefficient[3] = { 0 };
	for (uint32_t c = 0; c < channels && each == 3; c++)
		coefficient[c] = tanh((double)parameter[count * (1 + each * c + 2) + m]);
	for (uint32_t c = 0; c < channels; c++) {
		double mean = (double)parameter[count * (1 + each * c) + m];
		if (c == 1)
			mean += coefficient[0] * value[0];
		if (c == 2)
			mean += coefficient[1] * value[0] + coefficient[2] * value[1];
		double log_scale = (double)parameter[count * (2 + each * c) + m];
		double x = sample_logistic(choice, mean, log_scale, uniform(choice, draw, c + 1));
		pixel[c] = (uint8_t)lround((x + 1) * 127.5);
		value[c] = pixel[c] / 127.5 - 1;
	}
}
