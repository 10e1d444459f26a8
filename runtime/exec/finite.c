/* finite.c - see finite.h. */
#include "exec/finite.h"

/* Elements whose bits are looked at together. */
#define BLOCK 256u

/*
 * True when one of the values has an exponent of all ones (NaN or infinity, IEEE 754): adding one to it carries into
 * the sign's place. No early exit, so that a compiler can use vectors.
 */
static bool any_not_finite32(const uint32_t *bits, size_t count)
{
	uint32_t carry = 0;
	for (size_t i = 0; i < count; i++)
		carry |= (bits[i] & 0x7F800000u) + 0x00800000u;
	return carry >> 31;
}

static size_t find32(const uint32_t *bits, size_t count)
{
	size_t at = 0;
	while (at + BLOCK <= count && !any_not_finite32(bits + at, BLOCK))
		at += BLOCK;
	while (at < count && !any_not_finite32(bits + at, 1))
		at++;
	return at;
}

/* bfloat16 has 8 bits of exponent, binary16 has 5. */
static size_t find16(const uint16_t *bits, size_t count, uint16_t exponent)
{
	size_t at = 0;
	while (at < count && (bits[at] & exponent) != exponent)
		at++;
	return at;
}

size_t finite_find_other(uint32_t dtype, const void *data, size_t count)
{
	switch (dtype) {
	case DTYPE_F32:
		return find32(data, count);
	case DTYPE_BF16:
		return find16(data, count, 0x7F80);
	case DTYPE_F16:
		return find16(data, count, 0x7C00);
	default:
		return count;
	}
}
