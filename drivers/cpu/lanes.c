/* lanes.c - see lanes.h. */
#include "cpu/lanes.h"

#include "cpu/cpu.h"

#include <math.h>

CPU_CLONES double lanes_sum(const float *x, uint32_t n)
{
	struct lanes sum = { { 0 } };
	uint32_t whole = n - n % LANES;
	for (uint32_t i = 0; i < whole; i += LANES)
		for (uint32_t l = 0; l < LANES; l++)
			sum.lane[l] += x[i + l];
	for (uint32_t i = whole; i < n; i++)
		sum.lane[i - whole] += x[i];
	return lanes_total(&sum);
}

CPU_CLONES float lanes_largest(const float *x, uint32_t n, float factor)
{
	float lane[LANES], largest = -INFINITY;
	uint32_t whole = n - n % LANES;
	for (uint32_t l = 0; l < LANES; l++)
		lane[l] = -INFINITY;
	for (uint32_t i = 0; i < whole; i += LANES)
		for (uint32_t l = 0; l < LANES; l++) {
			float value = factor * x[i + l];
			lane[l] = value > lane[l] ? value : lane[l];
		}
	for (uint32_t i = whole; i < n; i++)
		lane[i - whole] = factor * x[i] > lane[i - whole] ? factor * x[i] : lane[i - whole];
	for (uint32_t l = 0; l < LANES; l++)
		largest = lane[l] > largest ? lane[l] : largest;
	return largest;
}
