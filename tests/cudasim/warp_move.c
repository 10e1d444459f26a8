/*
 * warp_move.c - moves, comparisons, selections and conversions on 32 lanes.
 */
#include "lane_values.h"
#include "ptx_internal.h"
#include "warp.h"

#include <math.h>

#define REG(number) (warp->reg[number])

static uint32_t predicate(const struct warp *warp, const struct ptx_instruction *i, uint32_t source)
{
	uint32_t bits = warp->reg[i->source[source]].mask;
	return i->source_inverted >> source & 1 ? ~bits : bits;
}

static void set_predicate(struct warp *warp, uint32_t reg, uint32_t bits, uint32_t mask)
{
	uint32_t *d = &warp->reg[reg].mask;
	*d = (*d & ~mask) | (bits & mask);
}

/* ---- Moves ---- */

static void move_32(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	union lanes *d = &REG(i->target[0]);
	const union lanes *a = &REG(i->source[0]);
	FOR_LANES(mask, d->u32[lane] = a->u32[lane]);
}

static void move_64(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	union lanes *d = &REG(i->target[0]);
	const union lanes *a = &REG(i->source[0]);
	FOR_LANES(mask, d->u64[lane] = a->u64[lane]);
}

static void move_predicate(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	set_predicate(warp, i->target[0], predicate(warp, i, 0), mask);
}

void move_pack(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	uint32_t bits = 8u * i->bytes;
	union lanes *d = &REG(i->target[0]);
	for (uint32_t lane = 0; lane < WARP_LANES; lane++) {
		if (!(mask >> lane & 1))
			continue;
		uint64_t whole = 0;
		for (uint32_t k = 0; k < i->elements; k++) {
			uint64_t part = REG(i->source[k]).u32[lane];
			whole |= (bits == 16 ? part & 0xFFFF : part) << bits * k;
		}
		if (ptx_type_bytes((enum ptx_type)i->type) == 8)
			d->u64[lane] = whole;
		else
			d->u32[lane] = (uint32_t)whole;
	}
}

void move_unpack(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	uint32_t bits = 8u * i->bytes;
	const union lanes *a = &REG(i->source[0]);
	for (uint32_t lane = 0; lane < WARP_LANES; lane++) {
		if (!(mask >> lane & 1))
			continue;
		uint64_t whole = ptx_type_bytes((enum ptx_type)i->type) == 8 ? a->u64[lane] : a->u32[lane];
		for (uint32_t k = 0; k < i->elements; k++) {
			uint32_t part = (uint32_t)(whole >> bits * k);
			REG(i->target[k]).u32[lane] = bits == 16 ? part & 0xFFFF : part;
		}
	}
}

/* Between generic addresses and those of one space. Global and constant addresses are the same in both. */
static void convert_address(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	bool to_space = i->mnemonic[4] == '.' && i->mnemonic[5] == 't';
	uint64_t window = i->space == PTX_SHARED ? SHARED_WINDOW : i->space == PTX_LOCAL ? LOCAL_WINDOW : 0;
	union lanes *d = &REG(i->target[0]);
	const union lanes *a = &REG(i->source[0]);
	FOR_LANES(mask, d->u64[lane] = to_space ? a->u64[lane] - window : a->u64[lane] + window);
}

/* ---- Comparisons ---- */

#define LANE_BITS(condition)                               \
	for (uint32_t lane = 0; lane < WARP_LANES; lane++) \
		bits |= (uint32_t)(condition) << lane;
#define COMPARE(name, member, type)                                                                                  \
	static uint32_t compare_##name(const union lanes *pa, const union lanes *pb, enum ptx_comparison comparison) \
	{                                                                                                            \
		uint32_t bits = 0;                                                                                   \
		switch (comparison) {                                                                                \
		case PTX_EQ:                                                                                         \
			LANE_BITS((type)pa->member[lane] == (type)pb->member[lane]);                                 \
			break;                                                                                       \
		case PTX_NE:                                                                                         \
			LANE_BITS((type)pa->member[lane] != (type)pb->member[lane]);                                 \
			break;                                                                                       \
		case PTX_LT:                                                                                         \
			LANE_BITS((type)pa->member[lane] < (type)pb->member[lane]);                                  \
			break;                                                                                       \
		case PTX_LE:                                                                                         \
			LANE_BITS((type)pa->member[lane] <= (type)pb->member[lane]);                                 \
			break;                                                                                       \
		case PTX_GT:                                                                                         \
			LANE_BITS((type)pa->member[lane] > (type)pb->member[lane]);                                  \
			break;                                                                                       \
		case PTX_GE:                                                                                         \
			LANE_BITS((type)pa->member[lane] >= (type)pb->member[lane]);                                 \
			break;                                                                                       \
		default: /* only floats are ever no number */                                                        \
			LANE_BITS(comparison == PTX_NUM);                                                            \
		}                                                                                                    \
		return bits;                                                                                         \
	}
COMPARE(u16, u32, uint16_t)
COMPARE(s16, u32, int16_t)
COMPARE(u32, u32, uint32_t)
COMPARE(s32, s32, int32_t)
COMPARE(u64, u64, uint64_t)
COMPARE(s64, s64, int64_t)
COMPARE(f64, f64, double)

/* All floating-point types as doubles: exact, and NaN stays NaN. */
static uint32_t compare_floats(const struct warp *warp, const struct ptx_instruction *i, enum ptx_type type)
{
	union lanes a, b;
	lanes_load(&REG(i->source[0]), type, a.f64);
	lanes_load(&REG(i->source[1]), type, b.f64);
	uint32_t nan = 0;
	for (uint32_t lane = 0; lane < WARP_LANES; lane++) {
		if (i->flush && fabs(a.f64[lane]) < 0x1p-126)
			a.f64[lane] = 0;
		if (i->flush && fabs(b.f64[lane]) < 0x1p-126)
			b.f64[lane] = 0;
		nan |= (uint32_t)(a.f64[lane] != a.f64[lane] || b.f64[lane] != b.f64[lane]) << lane;
	}
	if (i->comparison == PTX_NAN)
		return nan;
	uint32_t bits = compare_f64(&a, &b, (enum ptx_comparison)i->comparison);
	return i->unordered ? bits | nan : bits & ~nan;
}

static uint32_t compare(const struct warp *warp, const struct ptx_instruction *i, enum ptx_type type)
{
	const union lanes *a = &REG(i->source[0]), *b = &REG(i->source[1]);
	enum ptx_comparison comparison = (enum ptx_comparison)i->comparison;
	switch (type) {
	case PTX_U16:
		return compare_u16(a, b, comparison);
	case PTX_S16:
		return compare_s16(a, b, comparison);
	case PTX_U32:
		return compare_u32(a, b, comparison);
	case PTX_S32:
		return compare_s32(a, b, comparison);
	case PTX_U64:
		return compare_u64(a, b, comparison);
	case PTX_S64:
		return compare_s64(a, b, comparison);
	default:
		return compare_floats(warp, i, type);
	}
}

static uint32_t combine(const struct warp *warp, const struct ptx_instruction *i, uint32_t bits)
{
	if (i->combine == PTX_REPLACE)
		return bits;
	uint32_t other = predicate(warp, i, 2);
	return i->combine == PTX_AND ? bits & other : i->combine == PTX_OR ? bits | other : bits ^ other;
}

/* setp.lt.and.f32 p|q, a, b, c: p = (a < b) and c, q = !(a < b) and c */
static void set_predicates(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	uint32_t bits = compare(warp, i, (enum ptx_type)i->type);
	uint32_t first = combine(warp, i, bits), second = combine(warp, i, ~bits);
	set_predicate(warp, i->target[0], first, mask);
	if (i->second_target)
		set_predicate(warp, i->target[1], second, mask);
}

/* set.lt.u32.f32: all ones where true, or 1.0 for a floating-point target. */
static void set_lanes(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	uint32_t bits = combine(warp, i, compare(warp, i, (enum ptx_type)i->from));
	union lanes *d = &REG(i->target[0]);
	FOR_LANES(mask, {
		uint32_t yes = bits >> lane & 1;
		d->u32[lane] = i->type == PTX_F32 ? yes * 0x3F800000u : 0 - yes;
	});
}

/* ---- Selections ---- */

static void select_32(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	uint32_t which = predicate(warp, i, 2);
	union lanes *d = &REG(i->target[0]);
	const union lanes *a = &REG(i->source[0]), *b = &REG(i->source[1]);
	FOR_LANES(mask, d->u32[lane] = which >> lane & 1 ? a->u32[lane] : b->u32[lane]);
}

static void select_64(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	uint32_t which = predicate(warp, i, 2);
	union lanes *d = &REG(i->target[0]);
	const union lanes *a = &REG(i->source[0]), *b = &REG(i->source[1]);
	FOR_LANES(mask, d->u64[lane] = which >> lane & 1 ? a->u64[lane] : b->u64[lane]);
}

static void select_predicate(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	uint32_t which = predicate(warp, i, 2);
	set_predicate(warp, i->target[0], (which & predicate(warp, i, 0)) | (~which & predicate(warp, i, 1)), mask);
}

/* slct: by the sign of the third operand, an f32 or s32. */
static void select_by_sign(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	const union lanes *c = &REG(i->source[2]);
	uint32_t bits = 0;
	LANE_BITS(i->from == PTX_F32 ? c->f32[lane] >= 0 : c->s32[lane] >= 0);
	union lanes *d = &REG(i->target[0]);
	const union lanes *a = &REG(i->source[0]), *b = &REG(i->source[1]);
	bool wide = ptx_lane_bytes((enum ptx_type)i->type) == 8;
	for (uint32_t lane = 0; lane < WARP_LANES; lane++) {
		if (!(mask >> lane & 1))
			continue;
		if (wide)
			d->u64[lane] = bits >> lane & 1 ? a->u64[lane] : b->u64[lane];
		else
			d->u32[lane] = bits >> lane & 1 ? a->u32[lane] : b->u32[lane];
	}
}

/* ---- Conversions, in two steps: 64 bits a lane, then the target type ---- */

static bool is_float(enum ptx_type type)
{
	return type >= PTX_F16;
}

static bool is_signed(enum ptx_type type)
{
	return type == PTX_S8 || type == PTX_S16 || type == PTX_S32 || type == PTX_S64;
}

/* From lanes that may be wider than the type: the upper bits do not count. */
static void load_integers(const union lanes *reg, uint32_t lane_bytes, enum ptx_type type, int64_t value[WARP_LANES])
{
	for (uint32_t lane = 0; lane < WARP_LANES; lane++) {
		uint64_t bits = lane_bytes == 8 ? reg->u64[lane] : reg->u32[lane];
		switch (type) {
		case PTX_U8:
			value[lane] = (uint8_t)bits;
			break;
		case PTX_S8:
			value[lane] = (int8_t)bits;
			break;
		case PTX_U16:
			value[lane] = (uint16_t)bits;
			break;
		case PTX_S16:
			value[lane] = (int16_t)bits;
			break;
		case PTX_U32:
			value[lane] = (uint32_t)bits;
			break;
		case PTX_S32:
			value[lane] = (int32_t)bits;
			break;
		default:
			value[lane] = (int64_t)bits;
		}
	}
}

/* cvt.sat to an integer type: the nearest number it has. */
static int64_t clamp_integer(int64_t value, enum ptx_type from, enum ptx_type to)
{
	uint32_t bits = 8 * ptx_type_bytes(to);
	bool huge = from == PTX_U64 && value < 0;
	if (is_signed(to)) {
		int64_t highest = (int64_t)((UINT64_C(1) << (bits - 1)) - 1);
		return huge || value > highest ? highest : value < -highest - 1 ? -highest - 1 : value;
	}
	if (value < 0 && !huge)
		return 0;
	uint64_t highest = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
	return (uint64_t)value > highest ? (int64_t)highest : value;
}

/* The lower bits of each value, extended by sign or zeros to the register's lanes. */
static void store_integers(union lanes *reg, uint32_t lane_bytes, enum ptx_type type, int64_t value[WARP_LANES],
			   uint32_t mask)
{
	union lanes narrow;
	for (uint32_t lane = 0; lane < WARP_LANES; lane++)
		narrow.s64[lane] = value[lane];
	load_integers(&narrow, 8, type, value);
	if (lane_bytes == 8) {
		FOR_LANES(mask, reg->s64[lane] = value[lane]);
	} else if (ptx_type_bytes(type) == 2) { /* 16-bit registers keep zeros above */
		FOR_LANES(mask, reg->u32[lane] = (uint16_t)value[lane]);
	} else {
		FOR_LANES(mask, reg->u32[lane] = (uint32_t)value[lane]);
	}
}

static double to_integral(double value, enum ptx_rounding rounding)
{
	return rounding == PTX_ZERO   ? trunc(value)
	       : rounding == PTX_DOWN ? floor(value)
	       : rounding == PTX_UP   ? ceil(value)
				      : rint(value);
}

/* Out of range gives the nearest number, NaN gives 0 (ISA 9.7.9.21). */
static int64_t float_to_integer(double value, enum ptx_type to, enum ptx_rounding rounding)
{
	uint32_t bits = 8 * ptx_type_bytes(to);
	if (isnan(value))
		return 0;
	value = to_integral(value, rounding);
	double highest = ldexp(1, (int)bits - is_signed(to)), lowest = is_signed(to) ? -highest : 0;
	if (value >= highest)
		return (int64_t)(is_signed(to) ? (UINT64_C(1) << (bits - 1)) - 1
				 : bits == 64  ? UINT64_MAX
					       : (UINT64_C(1) << bits) - 1);
	if (value < lowest)
		value = lowest;
	return is_signed(to) ? (int64_t)value : (int64_t)(uint64_t)value;
}

static void convert_from_integer(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	enum ptx_type from = (enum ptx_type)i->from, to = (enum ptx_type)i->type;
	int64_t value[WARP_LANES];
	load_integers(&REG(i->source[0]), i->bytes, from, value);
	if (!is_float(to)) {
		if (i->saturate)
			for (uint32_t lane = 0; lane < WARP_LANES; lane++)
				value[lane] = clamp_integer(value[lane], from, to);
		store_integers(&REG(i->target[0]), i->elements, to, value, mask);
		return;
	}
	union lanes *d = &REG(i->target[0]);
	if (to == PTX_F32 && i->rounding == PTX_NEAREST) { /* once, not by way of double */
		FOR_LANES(mask, d->f32[lane] = from == PTX_U64 ? (float)(uint64_t)value[lane] : (float)value[lane]);
		return;
	}
	double number[WARP_LANES];
	for (uint32_t lane = 0; lane < WARP_LANES; lane++)
		number[lane] = from == PTX_U64 ? (double)(uint64_t)value[lane] : (double)value[lane];
	lanes_store(d, to, (enum ptx_rounding)i->rounding, number, mask);
}

static void convert_from_float(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	enum ptx_type from = (enum ptx_type)i->from, to = (enum ptx_type)i->type;
	enum ptx_rounding rounding = (enum ptx_rounding)i->rounding;
	double value[WARP_LANES];
	lanes_load(&REG(i->source[0]), from, value);
	for (uint32_t lane = 0; lane < WARP_LANES; lane++)
		if (i->flush && from == PTX_F32 && fabs(value[lane]) < 0x1p-126)
			value[lane] = copysign(0, value[lane]);
	if (!is_float(to)) {
		int64_t integer[WARP_LANES];
		for (uint32_t lane = 0; lane < WARP_LANES; lane++)
			integer[lane] = float_to_integer(value[lane], to, rounding);
		store_integers(&REG(i->target[0]), i->elements, to, integer, mask);
		return;
	}
	for (uint32_t lane = 0; lane < WARP_LANES; lane++) {
		if (i->to_integral)
			value[lane] = to_integral(value[lane], rounding);
		if (i->saturate)
			value[lane] = value[lane] > 0 ? value[lane] < 1 ? value[lane] : 1 : 0;
	}
	lanes_store(&REG(i->target[0]), to, i->to_integral ? PTX_NEAREST : rounding, value, mask);
}

/* i->bytes and i->elements: bytes of a lane of the source and of the target. */
void convert(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	if (is_float((enum ptx_type)i->from))
		convert_from_float(warp, i, mask);
	else
		convert_from_integer(warp, i, mask);
}

#define ROW_LANES(name)                                                                                             \
	{                                                                                                           \
		[PTX_PRED] = name##_predicate, [PTX_U16] = name##_32, [PTX_S16] = name##_32, [PTX_F16] = name##_32, \
		[PTX_BF16] = name##_32, [PTX_U32] = name##_32, [PTX_S32] = name##_32, [PTX_F32] = name##_32,        \
		[PTX_U64] = name##_64, [PTX_S64] = name##_64, [PTX_F64] = name##_64                                 \
	}
#define ROW_SAME(function)                                                                               \
	{                                                                                                \
		[PTX_U8] = function, [PTX_S8] = function, [PTX_U16] = function, [PTX_S16] = function,    \
		[PTX_F16] = function, [PTX_BF16] = function, [PTX_U32] = function, [PTX_S32] = function, \
		[PTX_F32] = function, [PTX_U64] = function, [PTX_S64] = function, [PTX_F64] = function   \
	}
const struct operation_row move_operations[] = {
	{ "mov", "tt", PTX_PLAIN, ROW_LANES(move) },
	{ "cvta", "tt", PTX_PLAIN, { [PTX_U64] = convert_address } },
	{ "cvta.to", "tt", PTX_PLAIN, { [PTX_U64] = convert_address } },
	{ "setp", "ptt?p", PTX_PLAIN, ROW_SAME(set_predicates) },
	{ "set", "tff?p", PTX_PLAIN, { [PTX_U32] = set_lanes, [PTX_S32] = set_lanes, [PTX_F32] = set_lanes } },
	{ "selp", "tttp", PTX_PLAIN, ROW_LANES(select) },
	{ "slct", "tttf", PTX_PLAIN, ROW_SAME(select_by_sign) },
	{ NULL, NULL, PTX_PLAIN, { NULL } },
};
