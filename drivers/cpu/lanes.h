/*
 * lanes.h - sums along contiguous floats in a fixed order that vectorises, and the largest of them.
 *
 * Element i is added to lane i % LANES, then the lanes are added in order: the same bits with and without vector
 * instructions. A lane sums in float, so runs are short (LANES * LANE_RUN elements) and their totals are added in
 * double.
 */
#ifndef TARN_CPU_LANES_H
#define TARN_CPU_LANES_H

#include <stdint.h>

#define LANES 32u
#define LANE_RUN 32u

struct lanes {
	float lane[LANES];
};

static inline double lanes_total(const struct lanes *lanes)
{
	double total = 0.0;
	for (uint32_t l = 0; l < LANES; l++)
		total += (double)lanes->lane[l];
	return total;
}

/* Sum of n floats, by lanes. */
double lanes_sum(const float *x, uint32_t n);

/* Largest factor * x[i]; what is not a number does not count, -INFINITY when nothing does. */
float lanes_largest(const float *x, uint32_t n, float factor);

#endif
