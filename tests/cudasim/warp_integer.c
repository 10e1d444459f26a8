/*
 * warp_integer.c - integer arithmetic, logic and bit operations on 32 lanes. 8- and 16-bit values live in 32-bit lanes,
 * zero-extended; signed operations extend them first.
 */
#include "ptx_internal.h"
#include "warp.h"

#define REG(number) (warp->reg[number])

#define UNARY(name, member, type, expression)                                               \
	static void name(struct warp *warp, const struct ptx_instruction *i, uint32_t mask) \
	{                                                                                   \
		union lanes *d = &REG(i->target[0]);                                        \
		const union lanes *pa = &REG(i->source[0]);                                 \
		FOR_LANES(mask, {                                                           \
			type a = (type)pa->member[lane];                                    \
			d->member[lane] = (expression);                                     \
		});                                                                         \
	}
#define BINARY(name, member, type, expression)                                              \
	static void name(struct warp *warp, const struct ptx_instruction *i, uint32_t mask) \
	{                                                                                   \
		union lanes *d = &REG(i->target[0]);                                        \
		const union lanes *pa = &REG(i->source[0]), *pb = &REG(i->source[1]);       \
		FOR_LANES(mask, {                                                           \
			type a = (type)pa->member[lane], b = (type)pb->member[lane];        \
			d->member[lane] = (expression);                                     \
		});                                                                         \
	}
#define TERNARY(name, member, type, expression)                                                                  \
	static void name(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)                      \
	{                                                                                                        \
		union lanes *d = &REG(i->target[0]);                                                             \
		const union lanes *pa = &REG(i->source[0]), *pb = &REG(i->source[1]), *pc = &REG(i->source[2]);  \
		FOR_LANES(mask, {                                                                                \
			type a = (type)pa->member[lane], b = (type)pb->member[lane], c = (type)pc->member[lane]; \
			d->member[lane] = (expression);                                                          \
		});                                                                                              \
	}
/* One operation for the widths 16, 32 and 64; the signed forms compute on signed values. */
#define ALL_UNSIGNED(macro, name, expression)                            \
	macro(name##_u16, u32, uint16_t, (uint16_t)(expression))         \
		macro(name##_u32, u32, uint32_t, (uint32_t)(expression)) \
			macro(name##_u64, u64, uint64_t, (uint64_t)(expression))
#define ALL_SIGNED(macro, name, expression)                             \
	macro(name##_s16, u32, int16_t, (uint16_t)(expression))         \
		macro(name##_s32, u32, int32_t, (uint32_t)(expression)) \
			macro(name##_s64, u64, int64_t, (uint64_t)(expression))
#define ROW_UNSIGNED(name)                                                                                      \
	{                                                                                                       \
		[PTX_U16] = name##_u16, [PTX_S16] = name##_u16, [PTX_U32] = name##_u32, [PTX_S32] = name##_u32, \
		[PTX_U64] = name##_u64, [PTX_S64] = name##_u64                                                  \
	}
#define ROW_BOTH(name)                                                                                          \
	{                                                                                                       \
		[PTX_U16] = name##_u16, [PTX_S16] = name##_s16, [PTX_U32] = name##_u32, [PTX_S32] = name##_s32, \
		[PTX_U64] = name##_u64, [PTX_S64] = name##_s64                                                  \
	}

/* Sums and products wrap; they are computed on unsigned numbers, wide enough that nothing is promoted to int. */
ALL_UNSIGNED(BINARY, add, (uint64_t)a + b)
ALL_UNSIGNED(BINARY, sub, (uint64_t)a - b)
ALL_UNSIGNED(BINARY, mul_lo, (uint64_t)a *b)
ALL_UNSIGNED(TERNARY, mad_lo, (uint64_t)a *b + c)
ALL_UNSIGNED(BINARY, and, a &b)
ALL_UNSIGNED(BINARY, or, a | b)
ALL_UNSIGNED(BINARY, xor, a ^ b)
ALL_UNSIGNED(UNARY, not, ~a)
ALL_UNSIGNED(UNARY, cnot, !a)
ALL_UNSIGNED(UNARY, negate, 0 - (uint64_t)a)
ALL_UNSIGNED(BINARY, min, a < b ? a : b)
ALL_SIGNED(BINARY, min, a < b ? a : b)
ALL_UNSIGNED(BINARY, max, a > b ? a : b)
ALL_SIGNED(BINARY, max, a > b ? a : b)
ALL_SIGNED(UNARY, absolute, a < 0 ? 0 - (uint64_t)a : (uint64_t)a)

/* Division by zero gives all ones, as the hardware's code does; the smallest number by -1 wraps. */
ALL_UNSIGNED(BINARY, div, b == 0 ? UINT64_MAX : (uint64_t)(a / b))
ALL_UNSIGNED(BINARY, rem, b == 0 ? a : a % b)
#define SIGNED_DIVISION(a, b) ((b) == 0 ? -1 : (b) == -1 ? (int64_t)(0 - (uint64_t)(a)) : (int64_t)((a) / (b)))
#define SIGNED_REMAINDER(a, b) ((b) == 0 ? (int64_t)(a) : (b) == -1 ? 0 : (int64_t)((a) % (b)))
ALL_SIGNED(BINARY, div, SIGNED_DIVISION(a, b))
ALL_SIGNED(BINARY, rem, SIGNED_REMAINDER(a, b))

BINARY(mul_hi_u32, u32, uint32_t, (uint32_t)((uint64_t)a *b >> 32))
BINARY(mul_hi_s32, u32, int32_t, (uint32_t)((uint64_t)((int64_t)a *b) >> 32))
BINARY(mul_hi_u64, u64, uint64_t, (uint64_t)((unsigned __int128)a *b >> 64))
BINARY(mul_hi_s64, u64, int64_t, (uint64_t)((unsigned __int128)((__int128)a *b) >> 64))
TERNARY(mad_hi_u32, u32, uint32_t, (uint32_t)((uint64_t)a *b >> 32) + c)
TERNARY(mad_hi_s32, u32, int32_t, (uint32_t)((uint64_t)((int64_t)a *b) >> 32) + (uint32_t)c)

/* Products of twice the width. */
#define WIDE(name, narrow, type, wide)                                                                          \
	static void mul_wide_##name(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)          \
	{                                                                                                       \
		union lanes *d = &REG(i->target[0]);                                                            \
		const union lanes *pa = &REG(i->source[0]), *pb = &REG(i->source[1]);                           \
		union lanes product;                                                                            \
		FOR_LANES(mask, product.wide[lane] = (uint64_t)((int64_t)(type)pa->narrow[lane] *               \
								(int64_t)(type)pb->narrow[lane]));              \
		FOR_LANES(mask, d->wide[lane] = product.wide[lane]);                                            \
	}                                                                                                       \
	static void mad_wide_##name(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)          \
	{                                                                                                       \
		union lanes *d = &REG(i->target[0]);                                                            \
		const union lanes *pa = &REG(i->source[0]), *pb = &REG(i->source[1]), *pc = &REG(i->source[2]); \
		union lanes sum;                                                                                \
		FOR_LANES(mask, sum.wide[lane] = pc->wide[lane] + (uint64_t)((int64_t)(type)pa->narrow[lane] *  \
									     (int64_t)(type)pb->narrow[lane])); \
		FOR_LANES(mask, d->wide[lane] = sum.wide[lane]);                                                \
	}
#define NARROW_WIDE(name, type)                                                                                 \
	BINARY(mul_wide_##name, u32, type, (uint32_t)((int64_t)a * b))                                          \
	static void mad_wide_##name(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)          \
	{                                                                                                       \
		union lanes *d = &REG(i->target[0]);                                                            \
		const union lanes *pa = &REG(i->source[0]), *pb = &REG(i->source[1]), *pc = &REG(i->source[2]); \
		FOR_LANES(mask, d->u32[lane] = pc->u32[lane] + (uint32_t)((int64_t)(type)pa->u32[lane] *        \
									  (int64_t)(type)pb->u32[lane]));       \
	}
WIDE(s32, u32, int32_t, u64)
NARROW_WIDE(u16, uint16_t)
NARROW_WIDE(s16, int16_t)

static void mul_wide_u32(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	union lanes *d = &REG(i->target[0]), product;
	const union lanes *pa = &REG(i->source[0]), *pb = &REG(i->source[1]);
	FOR_LANES(mask, product.u64[lane] = (uint64_t)pa->u32[lane] * pb->u32[lane]);
	FOR_LANES(mask, d->u64[lane] = product.u64[lane]);
}

static void mad_wide_u32(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	union lanes *d = &REG(i->target[0]), sum;
	const union lanes *pa = &REG(i->source[0]), *pb = &REG(i->source[1]), *pc = &REG(i->source[2]);
	FOR_LANES(mask, sum.u64[lane] = (uint64_t)pa->u32[lane] * pb->u32[lane] + pc->u64[lane]);
	FOR_LANES(mask, d->u64[lane] = sum.u64[lane]);
}

/* Shifts: the distance is a 32-bit number; one as large as the type gives zero, or the sign. */
#define SHIFT(name, member, type, expression)                                               \
	static void name(struct warp *warp, const struct ptx_instruction *i, uint32_t mask) \
	{                                                                                   \
		union lanes *d = &REG(i->target[0]), result;                                \
		const union lanes *pa = &REG(i->source[0]), *pb = &REG(i->source[1]);       \
		const uint32_t bits = 8 * (uint32_t)sizeof(type);                           \
		FOR_LANES(mask, {                                                           \
			type a = (type)pa->member[lane];                                    \
			uint32_t n = pb->u32[lane];                                         \
			result.member[lane] = (expression);                                 \
		});                                                                         \
		FOR_LANES(mask, d->member[lane] = result.member[lane]);                     \
	}
SHIFT(shl_u16, u32, uint16_t, n >= bits ? 0u : (uint16_t)((uint32_t)a << n))
SHIFT(shl_u32, u32, uint32_t, n >= bits ? 0 : a << n)
SHIFT(shl_u64, u64, uint64_t, n >= bits ? 0 : a << n)
SHIFT(shr_u16, u32, uint16_t, n >= bits ? 0u : (uint16_t)(a >> n))
SHIFT(shr_u32, u32, uint32_t, n >= bits ? 0 : a >> n)
SHIFT(shr_u64, u64, uint64_t, n >= bits ? 0 : a >> n)
SHIFT(shr_s16, u32, int16_t, (uint16_t)(a >> (n >= bits ? bits - 1 : n)))
SHIFT(shr_s32, u32, int32_t, (uint32_t)(a >> (n >= bits ? bits - 1 : n)))
SHIFT(shr_s64, u64, int64_t, (uint64_t)(a >> (n >= bits ? bits - 1 : n)))

/* Funnel shifts of the 64-bit number c = high:low, of which a 32-bit half is kept. */
static uint64_t funnel(uint32_t low, uint32_t high)
{
	return (uint64_t)high << 32 | low;
}
#define MIN32(n) ((n) > 32 ? 32 : (n))
TERNARY(shf_l_wrap, u32, uint32_t, (uint32_t)(funnel(a, b) << (c & 31) >> 32))
TERNARY(shf_r_wrap, u32, uint32_t, (uint32_t)(funnel(a, b) >> (c & 31)))
TERNARY(shf_l_clamp, u32, uint32_t, c >= 32 ? a : (uint32_t)(funnel(a, b) << c >> 32))
TERNARY(shf_r_clamp, u32, uint32_t, (uint32_t)(funnel(a, b) >> MIN32(c)))

/* Bit fields, ISA 9.7.1.22 and 9.7.1.23: position and length count modulo 256. */
static uint64_t extract(uint64_t a, uint32_t position, uint32_t length, uint32_t bits, bool is_signed)
{
	uint32_t highest = (position & 255) + (length & 255);
	if ((length & 255) == 0)
		return 0;
	bool sign = is_signed && a >> ((highest > bits ? bits : highest) - 1) & 1;
	uint64_t field = (position & 255) >= bits ? 0 : a >> (position & 255);
	uint32_t kept = bits > (position & 255) ? bits - (position & 255) : 0;
	if (kept > (length & 255))
		kept = length & 255;
	if (kept < 64) {
		field &= (UINT64_C(1) << kept) - 1;
		if (sign)
			field |= ~((UINT64_C(1) << kept) - 1);
	}
	return field;
}
static uint64_t insert(uint64_t a, uint64_t b, uint32_t position, uint32_t length, uint32_t bits)
{
	position &= 255;
	length &= 255;
	if (position >= bits || length == 0)
		return b;
	uint64_t field = (length >= 64 ? UINT64_MAX : (UINT64_C(1) << length) - 1) << position;
	return (b & ~field) | (a << position & field);
}
#define EXTRACT(name, member, bits, is_signed)                                                                     \
	static void name(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)                        \
	{                                                                                                          \
		union lanes *d = &REG(i->target[0]), result;                                                       \
		const union lanes *pa = &REG(i->source[0]), *pb = &REG(i->source[1]), *pc = &REG(i->source[2]);    \
		FOR_LANES(mask, result.u64[lane] =                                                                 \
					extract(pa->member[lane], pb->u32[lane], pc->u32[lane], bits, is_signed)); \
		for (uint32_t lane = 0; lane < WARP_LANES; lane++)                                                 \
			if (mask >> lane & 1)                                                                      \
				d->member[lane] = (bits) == 64 ? result.u64[lane] : (uint32_t)result.u64[lane];    \
	}
#define INSERT(name, member, bits, type)                                                                              \
	static void name(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)                           \
	{                                                                                                             \
		union lanes *d = &REG(i->target[0]), result;                                                          \
		const union lanes *pa = &REG(i->source[0]), *pb = &REG(i->source[1]);                                 \
		const union lanes *pc = &REG(i->source[2]), *pe = &REG(i->source[3]);                                 \
		FOR_LANES(mask, result.member[lane] = (type)insert(pa->member[lane], pb->member[lane], pc->u32[lane], \
								   pe->u32[lane], bits));                             \
		FOR_LANES(mask, d->member[lane] = result.member[lane]);                                               \
	}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
EXTRACT(bfe_u32, u32, 32, false)
EXTRACT(bfe_s32, u32, 32, true)
EXTRACT(bfe_u64, u64, 64, false)
EXTRACT(bfe_s64, u64, 64, true)
#pragma GCC diagnostic pop
INSERT(bfi_u32, u32, 32, uint32_t)
INSERT(bfi_u64, u64, 64, uint64_t)

/* Counts give 32-bit numbers whatever the operand. */
#define COUNT(name, member, expression)                                                     \
	static void name(struct warp *warp, const struct ptx_instruction *i, uint32_t mask) \
	{                                                                                   \
		union lanes *d = &REG(i->target[0]), result;                                \
		const union lanes *pa = &REG(i->source[0]);                                 \
		FOR_LANES(mask, {                                                           \
			uint64_t a = pa->member[lane];                                      \
			result.u32[lane] = (uint32_t)(expression);                          \
		});                                                                         \
		FOR_LANES(mask, d->u32[lane] = result.u32[lane]);                           \
	}
COUNT(popc_u32, u32, __builtin_popcountll(a))
COUNT(popc_u64, u64, __builtin_popcountll(a))
COUNT(clz_u32, u32, a ? __builtin_clzll(a) - 32 : 32)
COUNT(clz_u64, u64, a ? __builtin_clzll(a) : 64)

static uint64_t reverse(uint64_t a, uint32_t bits)
{
	uint64_t result = 0;
	for (uint32_t i = 0; i < bits; i++)
		result |= (a >> i & 1) << (bits - 1 - i);
	return result;
}
UNARY(brev_u32, u32, uint32_t, (uint32_t)reverse(a, 32))
UNARY(brev_u64, u64, uint64_t, reverse(a, 64))

/* Four bytes out of eight, each chosen by four bits; the uppermost of them repeats the byte's sign. */
static uint32_t permute(uint32_t a, uint32_t b, uint32_t selector)
{
	uint64_t bytes = funnel(a, b);
	uint32_t result = 0;
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t choice = selector >> 4 * i & 15;
		uint32_t byte = (uint32_t)(bytes >> 8 * (choice & 7)) & 255;
		if (choice & 8)
			byte = byte & 128 ? 255 : 0;
		result |= byte << 8 * i;
	}
	return result;
}
TERNARY(prmt, u32, uint32_t, permute(a, b, c))

/* Any function of three bits, given as a table of eight. */
static void lop3(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	union lanes *d = &REG(i->target[0]);
	const union lanes *pa = &REG(i->source[0]), *pb = &REG(i->source[1]), *pc = &REG(i->source[2]);
	uint32_t table = REG(i->source[3]).u32[0];
	FOR_LANES(mask, {
		uint32_t a = pa->u32[lane];
		uint32_t b = pb->u32[lane];
		uint32_t c = pc->u32[lane];
		uint32_t result = 0;
		for (uint32_t row = 0; row < 8; row++)
			if (table >> row & 1)
				result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
		d->u32[lane] = result;
	});
}

/* ---- Predicates: masks ---- */

static uint32_t predicate(const struct warp *warp, const struct ptx_instruction *i, uint32_t source)
{
	uint32_t bits = warp->reg[i->source[source]].mask;
	return i->source_inverted >> source & 1 ? ~bits : bits;
}
#define PREDICATE(name, expression)                                                         \
	static void name(struct warp *warp, const struct ptx_instruction *i, uint32_t mask) \
	{                                                                                   \
		uint32_t *d = &REG(i->target[0]).mask;                                      \
		*d = (*d & ~mask) | ((expression)&mask);                                    \
	}
PREDICATE(and_pred, predicate(warp, i, 0) & predicate(warp, i, 1))
PREDICATE(or_pred, predicate(warp, i, 0) | predicate(warp, i, 1))
PREDICATE(xor_pred, predicate(warp, i, 0) ^ predicate(warp, i, 1))
PREDICATE(not_pred, ~predicate(warp, i, 0))

#define ROW_LOGIC(name)                                                                                          \
	{                                                                                                        \
		[PTX_PRED] = name##_pred, [PTX_U16] = name##_u16, [PTX_U32] = name##_u32, [PTX_U64] = name##_u64 \
	}
const struct operation_row integer_operations[] = {
	{ "add", "ttt", PTX_PLAIN, ROW_UNSIGNED(add) },
	{ "sub", "ttt", PTX_PLAIN, ROW_UNSIGNED(sub) },
	{ "mul.lo", "ttt", PTX_PLAIN, ROW_UNSIGNED(mul_lo) },
	{ "mad.lo", "tttt", PTX_PLAIN, ROW_UNSIGNED(mad_lo) },
	{ "mul.hi",
	  "ttt",
	  PTX_PLAIN,
	  { [PTX_U32] = mul_hi_u32, [PTX_S32] = mul_hi_s32, [PTX_U64] = mul_hi_u64, [PTX_S64] = mul_hi_s64 } },
	{ "mad.hi", "tttt", PTX_PLAIN, { [PTX_U32] = mad_hi_u32, [PTX_S32] = mad_hi_s32 } },
	{ "mul.wide",
	  "2tt",
	  PTX_PLAIN,
	  { [PTX_U16] = mul_wide_u16, [PTX_S16] = mul_wide_s16, [PTX_U32] = mul_wide_u32, [PTX_S32] = mul_wide_s32 } },
	{ "mad.wide",
	  "2tt2",
	  PTX_PLAIN,
	  { [PTX_U16] = mad_wide_u16, [PTX_S16] = mad_wide_s16, [PTX_U32] = mad_wide_u32, [PTX_S32] = mad_wide_s32 } },
	{ "div", "ttt", PTX_PLAIN, ROW_BOTH(div) },
	{ "rem", "ttt", PTX_PLAIN, ROW_BOTH(rem) },
	{ "min", "ttt", PTX_PLAIN, ROW_BOTH(min) },
	{ "max", "ttt", PTX_PLAIN, ROW_BOTH(max) },
	{ "abs", "tt", PTX_PLAIN, { [PTX_S16] = absolute_s16, [PTX_S32] = absolute_s32, [PTX_S64] = absolute_s64 } },
	{ "neg", "tt", PTX_PLAIN, ROW_UNSIGNED(negate) },
	{ "and", "ttt", PTX_PLAIN, ROW_LOGIC(and) },
	{ "or", "ttt", PTX_PLAIN, ROW_LOGIC(or) },
	{ "xor", "ttt", PTX_PLAIN, ROW_LOGIC(xor) },
	{ "not", "tt", PTX_PLAIN, ROW_LOGIC(not ) },
	{ "cnot", "tt", PTX_PLAIN, ROW_UNSIGNED(cnot) },
	{ "shl", "ttw", PTX_PLAIN, ROW_UNSIGNED(shl) },
	{ "shr", "ttw", PTX_PLAIN, ROW_BOTH(shr) },
	{ "shf.l.wrap", "tttw", PTX_PLAIN, { [PTX_U32] = shf_l_wrap } },
	{ "shf.r.wrap", "tttw", PTX_PLAIN, { [PTX_U32] = shf_r_wrap } },
	{ "shf.l.clamp", "tttw", PTX_PLAIN, { [PTX_U32] = shf_l_clamp } },
	{ "shf.r.clamp", "tttw", PTX_PLAIN, { [PTX_U32] = shf_r_clamp } },
	{ "bfe",
	  "ttww",
	  PTX_PLAIN,
	  { [PTX_U32] = bfe_u32, [PTX_S32] = bfe_s32, [PTX_U64] = bfe_u64, [PTX_S64] = bfe_s64 } },
	{ "bfi", "tttww", PTX_PLAIN, { [PTX_U32] = bfi_u32, [PTX_U64] = bfi_u64 } },
	{ "popc", "wt", PTX_PLAIN, { [PTX_U32] = popc_u32, [PTX_U64] = popc_u64 } },
	{ "clz", "wt", PTX_PLAIN, { [PTX_U32] = clz_u32, [PTX_U64] = clz_u64 } },
	{ "brev", "tt", PTX_PLAIN, { [PTX_U32] = brev_u32, [PTX_U64] = brev_u64 } },
	{ "prmt", "tttw", PTX_PLAIN, { [PTX_U32] = prmt } },
	{ "lop3", "ttttw", PTX_PLAIN, { [PTX_U32] = lop3 } },
	{ NULL, NULL, PTX_PLAIN, { NULL } },
};
