/*
 * sample_pixel.h - draws from the distributions that networks describe: classes, and mixtures of logistic ones.
 *
 * A draw is a pure function of the seed and its number.
 */
#ifndef TARN_TOOLS_SAMPLE_PIXEL_H
#define TARN_TOOLS_SAMPLE_PIXEL_H

#include <stdint.h>

struct sample_choice {
	double temperature; /* logits are divided by it, scales multiplied; 0: the likeliest */
	uint32_t top;       /* only among so many of the likeliest classes; 0: all */
	uint64_t seed;
};

/* A class by its logits. */
uint32_t sample_class(const struct sample_choice *choice, uint64_t draw, const float *logits, uint32_t classes);

/*
 * The levels, 0 to 255, of a pixel of 1 or 3 channels; `parameters` are 3 or 10 a component, as LOGISTIC_MIXTURE in
 * op.h lays them out (Salimans et al. 2017).
 */
void sample_mixture(const struct sample_choice *choice, uint64_t draw, const float *parameter, uint32_t parameters,
		    uint32_t channels, uint8_t *pixel);

#endif
