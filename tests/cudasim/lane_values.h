/*
 * lane_values.h - lanes as doubles and back, for the types and roundings that the host's own arithmetic has not.
 *
 * A sum or product of two f16, bf16 or f32 numbers, computed in double and rounded to odd, rounds to the narrow type
 * as the exact result would: 53 bits are more than twice the narrow type's plus two. Source: Boldo and Melquiond,
 * "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008.
 */
#ifndef CUDASIM_LANE_VALUES_H
#define CUDASIM_LANE_VALUES_H

#include "ptx.h"

/* a + b in double, with the last bit set when the sum is not exact. */
double lane_sum_to_odd(double a, double b);
double lane_product_to_odd(double a, double b);

/* Rounds to a floating-point type; the bits as they lie in a register. */
uint64_t lane_round(double value, enum ptx_type type, enum ptx_rounding rounding);
double lane_value(uint64_t bits, enum ptx_type type);

/* All lanes of a register as doubles, and back for the lanes of `mask`. */
void lanes_load(const union lanes *reg, enum ptx_type type, double value[WARP_LANES]);
void lanes_store(union lanes *reg, enum ptx_type type, enum ptx_rounding rounding, const double value[WARP_LANES],
		 uint32_t mask);

#endif
