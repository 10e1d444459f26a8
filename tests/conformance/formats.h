/*
 * formats.h - numbers of 16 bits by their definition, slowly: sign, exponent and fraction as integers, powers of two by
 * ldexp. Shares nothing with any driver.
 */
#ifndef TARN_TESTS_FORMATS_H
#define TARN_TESTS_FORMATS_H

#include <stdint.h>

/* The value of a bit pattern of DTYPE_BF16 or DTYPE_F16. */
double format_value(uint32_t dtype, uint16_t bits);
/* The pattern nearest to the value, the even one of two; infinity behind the largest number. NaN: one of the NaNs. */
uint16_t format_nearest(uint32_t dtype, double value);
double format_largest(uint32_t dtype);
/* Half the distance between 1 and the next number: the bound of a relative rounding error. 2^-24 for DTYPE_F32. */
double format_unit_roundoff(uint32_t dtype);

#endif
