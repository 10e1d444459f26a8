/* session_vector.c - see session_vector.h. */
#include "session_vector.h"

#include "base/philox.h"
#include "data/streams.h"

#include <math.h>
#include <string.h>

/* Elements read at a time: two or three pieces of 16 KiB on the stack. */
#define PIECE 4096u

/* Where the next piece of a vector lies. */
struct cursor {
	const struct tarn_session *session;
	const struct vector *vector;
	uint32_t index;          /* persistent tensor */
	uint64_t done, elements; /* of its row */
	uint64_t offset;         /* of the piece in the arena */
};

/* On to the first tensor of the vector at or behind the index. */
static void find(struct cursor *c)
{
	const struct plan *plan = &c->session->plan;
	const char *text = plan->program[0].graph.text;
	size_t length = strlen(c->vector->prefix);
	while (c->index < plan->persistents &&
	       (strncmp(text + plan->persistent[c->index].name, c->vector->prefix, length) ||
		plan->persistent[c->index].role != ROLE_VECTOR))
		c->index++;
	if (c->index == plan->persistents)
		return;
	const struct persistent *p = &plan->persistent[c->index];
	uint64_t rows = c->vector->has_rows ? plan->program[0].graph.tensor[p->tensor].dim[0] : 1;
	c->done = 0;
	c->elements = p->bytes / sizeof(float) / rows;
}

static struct cursor begin(const struct tarn_session *session, const struct vector *vector)
{
	struct cursor c = { .session = session, .vector = vector };
	find(&c);
	return c;
}

/* The next piece: its length, 0 at the end. */
static uint32_t next(struct cursor *c)
{
	if (c->index < c->session->plan.persistents && c->done == c->elements) {
		c->index++;
		find(c);
	}
	if (c->index == c->session->plan.persistents)
		return 0;
	uint64_t left = c->elements - c->done, n = left < PIECE ? left : PIECE;
	c->offset =
		c->session->plan.persistent[c->index].offset + (c->vector->row * c->elements + c->done) * sizeof(float);
	c->done += n;
	return (uint32_t)n;
}

static enum tarn_status read_piece(struct tarn_session *session, const struct cursor *c, float *value, uint32_t n)
{
	return session->device.ops->read(&session->device, c->offset, value, n * sizeof *value);
}

/* The piece may be overwritten when this returns. */
static enum tarn_status write_piece(struct tarn_session *session, const struct cursor *c, const float *value,
				    uint32_t n)
{
	enum tarn_status st = session->device.ops->write(&session->device, c->offset, value, n * sizeof *value);
	return st ? st : session->device.ops->synchronize(&session->device);
}

uint64_t vector_elements(const struct tarn_session *session, const struct vector *x)
{
	struct cursor c = begin(session, x);
	uint64_t elements = 0;
	for (uint32_t n = next(&c); n; n = next(&c))
		elements += n;
	return elements;
}

enum tarn_status vector_dot(struct tarn_session *session, const struct vector *x, const struct vector *y, double *dot)
{
	struct cursor a = begin(session, x), b = begin(session, y);
	float left[PIECE], right[PIECE];
	*dot = 0;
	for (uint32_t n = next(&a); n; n = next(&a)) {
		next(&b);
		enum tarn_status st = read_piece(session, &a, left, n);
		if (!st)
			st = read_piece(session, &b, right, n);
		if (st)
			return st;
		for (uint32_t i = 0; i < n; i++)
			*dot += (double)left[i] * (double)right[i];
	}
	return TARN_OK;
}

enum tarn_status vector_combine(struct tarn_session *session, double a, const struct vector *x, double b,
				const struct vector *y)
{
	struct cursor from = begin(session, x), to = begin(session, y);
	float left[PIECE], right[PIECE];
	for (uint32_t n = next(&from); n; n = next(&from)) {
		next(&to);
		enum tarn_status st = read_piece(session, &from, left, n);
		if (!st)
			st = read_piece(session, &to, right, n);
		for (uint32_t i = 0; i < n; i++) {
			double part = a == 0 ? 0 : a * (double)left[i], old = b == 0 ? 0 : b * (double)right[i];
			right[i] = (float)(part + old);
		}
		if (!st)
			st = write_piece(session, &to, right, n);
		if (st)
			return st;
	}
	return TARN_OK;
}

enum tarn_status vector_add_product(struct tarn_session *session, double a, const struct vector *x,
				    const struct vector *y, const struct vector *d)
{
	struct cursor first = begin(session, x), second = begin(session, y), to = begin(session, d);
	float left[PIECE], right[PIECE], sum[PIECE];
	for (uint32_t n = next(&first); n; n = next(&first)) {
		next(&second);
		next(&to);
		enum tarn_status st = read_piece(session, &first, left, n);
		if (!st)
			st = read_piece(session, &second, right, n);
		if (!st)
			st = read_piece(session, &to, sum, n);
		for (uint32_t i = 0; i < n; i++)
			sum[i] = (float)((double)sum[i] + a * (double)left[i] * (double)right[i]);
		if (!st)
			st = write_piece(session, &to, sum, n);
		if (st)
			return st;
	}
	return TARN_OK;
}

/* Element `index` of the random vector: a sign, or a normal number by Box, Muller 1958. */
static float random_element(uint32_t kind, uint64_t seed, uint32_t number, uint64_t index)
{
	struct philox_block block = philox(seed, STREAM_VECTOR, number, index / 2);
	uint32_t odd = index & 1;
	if (kind == HVP_RADEMACHER)
		return block.word[odd] >> 31 ? 1.0f : -1.0f;
	double u = 1.0 - (double)philox_float(block.word[0]),
	       angle = 6.283185307179586 * (double)philox_float(block.word[1]);
	double radius = sqrt(-2.0 * log(u));
	return (float)(radius * (odd ? sin(angle) : cos(angle)));
}

enum tarn_status vector_random(struct tarn_session *session, const struct vector *x, uint64_t seed, uint32_t number)
{
	struct cursor c = begin(session, x);
	float value[PIECE];
	uint64_t index = 0;
	for (uint32_t n = next(&c); n; n = next(&c)) {
		for (uint32_t i = 0; i < n; i++)
			value[i] = random_element(session->config.hvp.vector, seed, number, index++);
		enum tarn_status st = write_piece(session, &c, value, n);
		if (st)
			return st;
	}
	return TARN_OK;
}

enum tarn_status vector_read(struct tarn_session *session, const struct vector *x, float *value)
{
	struct cursor c = begin(session, x);
	for (uint32_t n = next(&c); n; n = next(&c)) {
		enum tarn_status st = read_piece(session, &c, value, n);
		if (st)
			return st;
		value += n;
	}
	return TARN_OK;
}

enum tarn_status vector_write(struct tarn_session *session, const struct vector *x, const float *value)
{
	struct cursor c = begin(session, x);
	for (uint32_t n = next(&c); n; n = next(&c)) {
		enum tarn_status st = write_piece(session, &c, value, n);
		if (st)
			return st;
		value += n;
	}
	return TARN_OK;
}
