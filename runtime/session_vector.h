/*
 * session_vector.h - arithmetic with vectors of the parameters' size that lie in the arena, for session_curvature.c.
 *
 * A vector is named by the prefix of its tensors (autodiff/curvature.h) and, where these have rows, a row. The device
 * only stores it: the host reads it in pieces, adds in double and writes it back, always in the same order.
 */
#ifndef TARN_SESSION_VECTOR_H
#define TARN_SESSION_VECTOR_H

#include "session.h"

struct vector {
	const char *prefix;
	uint32_t row; /* of a basis; else 0 */
	bool has_rows;
};

uint64_t vector_elements(const struct tarn_session *session, const struct vector *x);
enum tarn_status vector_dot(struct tarn_session *session, const struct vector *x, const struct vector *y, double *dot);
/* y = a x + b y; what stands behind a factor of 0 does not matter. */
enum tarn_status vector_combine(struct tarn_session *session, double a, const struct vector *x, double b,
				const struct vector *y);
/* d = d + a x y, element by element. */
enum tarn_status vector_add_product(struct tarn_session *session, double a, const struct vector *x,
				    const struct vector *y, const struct vector *d);
/* x = random numbers, a function of (seed, number). */
enum tarn_status vector_random(struct tarn_session *session, const struct vector *x, uint64_t seed, uint32_t number);
/* All elements, to or from memory of the caller. */
enum tarn_status vector_read(struct tarn_session *session, const struct vector *x, float *value);
enum tarn_status vector_write(struct tarn_session *session, const struct vector *x, const float *value);

#endif
