#include "lane_values.h"

#include <math.h>
#include <string.h>

static uint64_t double_bits(double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static double bits_double(uint64_t bits)
{
	double value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

static uint32_t float_bits(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static float bits_float(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

/* The neighbour of the rounded result on the side of the error whose last bit is one. */
static double make_odd(double rounded, double error)
{
	if (error == 0 || !isfinite(rounded) || (double_bits(rounded) & 1))
		return rounded;
	/* Towards zero first when the error points there, then the bit is set: truncation with a sticky bit. */
	bool inwards = (error < 0) != (rounded < 0);
	uint64_t bits = double_bits(rounded);
	return bits_double(inwards ? bits - 1 : bits + 1);
}

double lane_sum_to_odd(double a, double b)
{
	double sum = a + b; /* Knuth's two-sum gives the error exactly */
	double rest = sum - a;
	double error = (a - (sum - rest)) + (b - rest);
	return make_odd(sum, error);
}

double lane_product_to_odd(double a, double b)
{
	double product = a * b;
	return isfinite(product) ? make_odd(product, fma(a, b, -product)) : product;
}

/* Rounds the magnitude of a finite double to `digits` bits of mantissa and a smallest exponent. */
static double round_magnitude(double value, int digits, int smallest, enum ptx_rounding rounding)
{
	int exponent;
	frexp(value, &exponent);
	int last = exponent - digits < smallest ? smallest : exponent - digits; /* exponent of the last place */
	double scaled = ldexp(value, -last);
	switch (rounding) {
	case PTX_ZERO:
		scaled = trunc(scaled);
		break;
	case PTX_DOWN:
		scaled = floor(scaled);
		break;
	case PTX_UP:
		scaled = ceil(scaled);
		break;
	default:
		scaled = rint(scaled);
	}
	return ldexp(scaled, last);
}

/* A finite value beyond the largest number becomes infinite or the largest one, as the direction says. */
static double limit(double value, double largest, enum ptx_rounding rounding)
{
	if (fabs(value) <= largest)
		return value;
	bool inwards = rounding == PTX_ZERO || (rounding == PTX_DOWN && value > 0) || (rounding == PTX_UP && value < 0);
	return copysign(inwards ? largest : INFINITY, value);
}

static uint64_t round_to_half(double value, enum ptx_rounding rounding)
{
	if (isnan(value))
		return 0x7FFF;
	uint32_t sign = signbit(value) ? 0x8000 : 0;
	if (isfinite(value) && value != 0)
		value = limit(round_magnitude(value, 11, -24, rounding), 65504, rounding);
	double magnitude = fabs(value);
	if (isinf(magnitude))
		return sign | 0x7C00;
	if (magnitude < ldexp(1, -14))
		return sign | (uint32_t)ldexp(magnitude, 24);
	int exponent;
	double fraction = frexp(magnitude, &exponent);
	return sign | ((uint32_t)(exponent + 14) << 10) | ((uint32_t)ldexp(fraction, 11) & 0x3FF);
}

static uint64_t round_to_float(double value, enum ptx_rounding rounding)
{
	if (rounding == PTX_NEAREST || !isfinite(value) || value == 0)
		return float_bits((float)value);
	return float_bits((float)limit(round_magnitude(value, 24, -149, rounding),
				       3.40282346638528859811704183484516925e+38, rounding));
}

static uint64_t round_to_bfloat(double value, enum ptx_rounding rounding)
{
	if (isnan(value))
		return 0x7FFF;
	if (isfinite(value) && value != 0)
		value = limit(round_magnitude(value, 8, -133, rounding), 0x1.FEp+127, rounding);
	return float_bits((float)value) >> 16;
}

uint64_t lane_round(double value, enum ptx_type type, enum ptx_rounding rounding)
{
	switch (type) {
	case PTX_F16:
		return round_to_half(value, rounding);
	case PTX_BF16:
		return round_to_bfloat(value, rounding);
	case PTX_F32:
		return round_to_float(value, rounding);
	default:
		return double_bits(value);
	}
}

static double half_value(uint32_t bits)
{
	uint32_t exponent = bits >> 10 & 31, fraction = bits & 0x3FF;
	double magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
			   : exponent     ? ldexp(1024 + fraction, (int)exponent - 25)
					  : ldexp(fraction, -24);
	return bits & 0x8000 ? -magnitude : magnitude;
}

double lane_value(uint64_t bits, enum ptx_type type)
{
	switch (type) {
	case PTX_F16:
		return half_value((uint32_t)bits);
	case PTX_BF16:
		return (double)bits_float((uint32_t)bits << 16);
	case PTX_F32:
		return (double)bits_float((uint32_t)bits);
	default:
		return bits_double(bits);
	}
}

void lanes_load(const union lanes *reg, enum ptx_type type, double value[WARP_LANES])
{
	for (uint32_t i = 0; i < WARP_LANES; i++)
		value[i] = type == PTX_F64   ? reg->f64[i]
			   : type == PTX_F32 ? (double)reg->f32[i]
					     : lane_value(reg->u32[i], type);
}

void lanes_store(union lanes *reg, enum ptx_type type, enum ptx_rounding rounding, const double value[WARP_LANES],
		 uint32_t mask)
{
	for (uint32_t i = 0; i < WARP_LANES; i++) {
		if (!(mask >> i & 1))
			continue;
		if (type == PTX_F64)
			reg->f64[i] = value[i];
		else
			reg->u32[i] = (uint32_t)lane_round(value[i], type, rounding);
	}
}
