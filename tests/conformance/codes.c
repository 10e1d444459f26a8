/* codes.c - see codes.h. */
#include "conformance/codes.h"

#include "graph/blockwise.h"

#include <math.h>
#include <string.h>

double codes_value(bool has_sign, uint32_t code)
{
	if (has_sign && code > 128)
		return -codes_value(true, code - 128);
	if (!code || code == (has_sign ? 128u : 255u))
		return code != 0;
	uint32_t step = code - 1, steps = has_sign ? 1 : 2;
	int decade = 0;
	for (; step >= steps; step -= steps, steps *= 2)
		decade++;
	return pow(10, decade - 6) * (0.1 + 0.9 * (step + 0.5) / steps);
}

double codes_decoded(bool has_sign, const uint8_t *state, uint64_t elements, uint64_t i)
{
	float scale;
	memcpy(&scale, state + blockwise_codes_bytes(elements) + i / BLOCKWISE_ELEMENTS * sizeof scale, sizeof scale);
	return (double)scale * codes_value(has_sign, state[i]);
}
