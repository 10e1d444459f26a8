/* lanes.c - see lanes.h. */
#include "cpu/lanes.h"

#include "cpu/cpu.h"

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
