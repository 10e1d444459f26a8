/* codes.h - optimizer state in 8 bits (graph/blockwise.h) as doubles. */
#ifndef TARN_TESTS_CODES_H
#define TARN_TESTS_CODES_H

#include <stdbool.h>
#include <stdint.h>

/* The largest distance from a number in [-1, 1] to the nearest value of either map: half of a step of the signed map's
 * last decade. */
#define CODES_COARSEST (0.9 / 64 / 2)

double codes_value(bool has_sign, uint32_t code);
/* Element i of a state of so many elements. */
double codes_decoded(bool has_sign, const uint8_t *state, uint64_t elements, uint64_t i);

#endif
