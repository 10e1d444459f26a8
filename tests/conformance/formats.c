/* formats.c - see formats.h. */
#include "conformance/formats.h"

#include "graph/graph.h"

#include <math.h>

struct format {
	int fraction, bias; /* bits of the fraction; exponent field of 1.0 */
};

static struct format format_of(uint32_t dtype)
{
	return dtype == DTYPE_BF16 ? (struct format){ 7, 127 } : (struct format){ 10, 15 };
}

double format_value(uint32_t dtype, uint16_t bits)
{
	struct format f = format_of(dtype);
	int exponent = bits >> f.fraction & (2 * f.bias + 1), fraction = bits & ((1 << f.fraction) - 1);
	double sign = bits & 0x8000 ? -1.0 : 1.0;
	if (exponent == 2 * f.bias + 1)
		return fraction ? NAN : sign * INFINITY;
	if (!exponent)
		return sign * ldexp(fraction, 1 - f.bias - f.fraction);
	return sign * ldexp(fraction + (1 << f.fraction), exponent - f.bias - f.fraction);
}

uint16_t format_nearest(uint32_t dtype, double value)
{
	struct format f = format_of(dtype);
	uint16_t sign = signbit(value) ? 0x8000 : 0, infinity = (uint16_t)((2 * f.bias + 1) << f.fraction);
	if (isnan(value))
		return infinity + 1;
	/* Patterns are ordered like the magnitudes: the largest that is not above, then the nearer of it and the next.
	 */
	uint16_t low = 0, high = infinity;
	double magnitude = fabs(value);
	while (low + 1 < high) {
		uint16_t middle = (uint16_t)((low + high) / 2);
		if (format_value(dtype, middle) <= magnitude)
			low = middle;
		else
			high = middle;
	}
	double below = format_value(dtype, low);
	double above =
		high == infinity ? 2 * below - format_value(dtype, (uint16_t)(low - 1)) : format_value(dtype, high);
	double to_below = magnitude - below, to_above = above - magnitude;
	bool up = to_above < to_below || (to_above == to_below && low % 2);
	return sign | (up ? high : low);
}

double format_largest(uint32_t dtype)
{
	struct format f = format_of(dtype);
	return format_value(dtype, (uint16_t)(((2 * f.bias + 1) << f.fraction) - 1));
}

double format_unit_roundoff(uint32_t dtype)
{
	return dtype == DTYPE_F32 ? 0x1p-24 : ldexp(1.0, -1 - format_of(dtype).fraction);
}
