/*
 * warp_float.c - floating-point arithmetic on 32 lanes. f32 and f64 to nearest by the host's own operations, which are
 * IEEE 754 like the device's (this file is compiled without contraction); the 16-bit types and the directed roundings
 * by lane_values.h. The approximate functions are the host's: close to the device's, not the same bits.
 */
#include "lane_values.h"
#include "ptx_internal.h"
#include "warp.h"

#include <math.h>

#define REG(number) (warp->reg[number])

static inline float flush(float value)
{
	return fabsf(value) < 0x1p-126f ? copysignf(0, value) : value;
}

static inline float saturate(float value)
{
	return value > 0 ? value < 1 ? value : 1 : 0; /* NaN gives 0 */
}

#define SOURCE(k, member) (REG(i->source[k]).member)

/* f32: the plain case is a loop that the compiler widens; .ftz and .sat take the longer way. */
#define FLOAT_OPERATION(name, declare, expression)                                                \
	static void name##_f32(struct warp *warp, const struct ptx_instruction *i, uint32_t mask) \
	{                                                                                         \
		union lanes *d = &REG(i->target[0]);                                              \
		if (!i->flush && !i->saturate) {                                                  \
			FOR_LANES(mask, { declare(, f32) d->f32[lane] = (expression); });         \
			return;                                                                   \
		}                                                                                 \
		bool ftz = i->flush;                                                              \
		for (uint32_t lane = 0; lane < WARP_LANES; lane++) {                              \
			if (!(mask >> lane & 1))                                                  \
				continue;                                                         \
			declare(FLUSHED, f32) float result = (expression);                        \
			result = ftz ? flush(result) : result;                                    \
			d->f32[lane] = i->saturate ? saturate(result) : result;                   \
		}                                                                                 \
	}
#define DOUBLE_OPERATION(name, declare, expression)                                               \
	static void name##_f64(struct warp *warp, const struct ptx_instruction *i, uint32_t mask) \
	{                                                                                         \
		union lanes *d = &REG(i->target[0]);                                              \
		FOR_LANES(mask, { declare(, f64) d->f64[lane] = (expression); });                 \
	}
#define FLUSHED(value) (ftz ? flush(value) : (value))
#define ONE(way, member) __typeof__(d->member[0]) a = way(SOURCE(0, member)[lane]);
#define TWO(way, member) ONE(way, member) __typeof__(d->member[0]) b = way(SOURCE(1, member)[lane]);
#define THREE(way, member) TWO(way, member) __typeof__(d->member[0]) c = way(SOURCE(2, member)[lane]);

FLOAT_OPERATION(plain_add, TWO, a + b)
FLOAT_OPERATION(plain_sub, TWO, a - b)
FLOAT_OPERATION(plain_mul, TWO, a *b)
FLOAT_OPERATION(plain_fma, THREE, fmaf(a, b, c))
FLOAT_OPERATION(div, TWO, a / b)
FLOAT_OPERATION(rcp, ONE, 1 / a)
FLOAT_OPERATION(sqrt, ONE, sqrtf(a))
FLOAT_OPERATION(rsqrt, ONE, (float)(1 / sqrt((double)a)))
FLOAT_OPERATION(ex2, ONE, exp2f(a))
FLOAT_OPERATION(lg2, ONE, log2f(a))
FLOAT_OPERATION(sin, ONE, sinf(a))
FLOAT_OPERATION(cos, ONE, cosf(a))
FLOAT_OPERATION(tanh, ONE, tanhf(a))
FLOAT_OPERATION(abs, ONE, fabsf(a))
FLOAT_OPERATION(neg, ONE, -a)
FLOAT_OPERATION(copysign, TWO, copysignf(b, a)) /* PTX: sign of a, magnitude of b */
DOUBLE_OPERATION(add, TWO, a + b)
DOUBLE_OPERATION(sub, TWO, a - b)
DOUBLE_OPERATION(mul, TWO, a *b)
DOUBLE_OPERATION(fma, THREE, fma(a, b, c))
DOUBLE_OPERATION(div, TWO, a / b)
DOUBLE_OPERATION(rcp, ONE, 1 / a)
DOUBLE_OPERATION(sqrt, ONE, sqrt(a))
DOUBLE_OPERATION(rsqrt, ONE, 1 / sqrt(a))
DOUBLE_OPERATION(abs, ONE, fabs(a))
DOUBLE_OPERATION(neg, ONE, -a)
DOUBLE_OPERATION(copysign, TWO, copysign(b, a))

/* The number among the two when one is NaN; -0 is less than +0. */
#define SMALLER(a, b) ((a) != (a) ? (b) : (b) != (b) ? (a) : (a) < (b) || ((a) == (b) && signbit(a)) ? (a) : (b))
#define LARGER(a, b) ((a) != (a) ? (b) : (b) != (b) ? (a) : (a) > (b) || ((a) == (b) && !signbit(a)) ? (a) : (b))
FLOAT_OPERATION(min, TWO, SMALLER(a, b))
FLOAT_OPERATION(max, TWO, LARGER(a, b))
FLOAT_OPERATION(min_nan, TWO, a != a || b != b ? NAN : SMALLER(a, b))
FLOAT_OPERATION(max_nan, TWO, a != a || b != b ? NAN : LARGER(a, b))
DOUBLE_OPERATION(min, TWO, SMALLER(a, b))
DOUBLE_OPERATION(max, TWO, LARGER(a, b))

/* ---- 16-bit types and directed roundings, through doubles rounded to odd ---- */

enum narrow_operation { NARROW_ADD, NARROW_SUB, NARROW_MUL, NARROW_FMA };

static void narrow(struct warp *warp, const struct ptx_instruction *i, uint32_t mask, enum narrow_operation operation)
{
	enum ptx_type type = (enum ptx_type)i->type;
	double a[WARP_LANES], b[WARP_LANES], c[WARP_LANES];
	lanes_load(&REG(i->source[0]), type, a);
	lanes_load(&REG(i->source[1]), type, b);
	if (operation == NARROW_FMA)
		lanes_load(&REG(i->source[2]), type, c);
	for (uint32_t lane = 0; lane < WARP_LANES; lane++) {
		if (!(mask >> lane & 1))
			continue;
		/* The product of two narrow numbers is exact in double. */
		a[lane] = operation == NARROW_ADD   ? lane_sum_to_odd(a[lane], b[lane])
			  : operation == NARROW_SUB ? lane_sum_to_odd(a[lane], -b[lane])
			  : operation == NARROW_MUL ? lane_product_to_odd(a[lane], b[lane])
						    : lane_sum_to_odd(a[lane] * b[lane], c[lane]);
		if (i->saturate)
			a[lane] = a[lane] > 0 ? a[lane] < 1 ? a[lane] : 1 : 0;
	}
	lanes_store(&REG(i->target[0]), type, (enum ptx_rounding)i->rounding, a, mask);
}

#define NARROW(name, operation)                                                                      \
	static void narrow_##name(struct warp *warp, const struct ptx_instruction *i, uint32_t mask) \
	{                                                                                            \
		narrow(warp, i, mask, operation);                                                    \
	}                                                                                            \
	static void name##_f32(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)    \
	{                                                                                            \
		if (i->rounding == PTX_NEAREST)                                                      \
			plain_##name##_f32(warp, i, mask);                                           \
		else                                                                                 \
			narrow(warp, i, mask, operation);                                            \
	}
NARROW(add, NARROW_ADD)
NARROW(sub, NARROW_SUB)
NARROW(mul, NARROW_MUL)
NARROW(fma, NARROW_FMA)

#define NARROW_SIGN(name, expression)                                                                \
	static void name##_narrow(struct warp *warp, const struct ptx_instruction *i, uint32_t mask) \
	{                                                                                            \
		union lanes *d = &REG(i->target[0]);                                                 \
		FOR_LANES(mask, {                                                                    \
			uint32_t a = SOURCE(0, u32)[lane];                                           \
			d->u32[lane] = (expression);                                                 \
		});                                                                                  \
	}
NARROW_SIGN(neg, a ^ 0x8000)
NARROW_SIGN(abs, a & 0x7FFF)

#define NARROW_CHOICE(name, choose)                                                                             \
	static void name##_narrow(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)            \
	{                                                                                                       \
		union lanes *d = &REG(i->target[0]);                                                            \
		for (uint32_t lane = 0; lane < WARP_LANES; lane++) {                                            \
			if (!(mask >> lane & 1))                                                                \
				continue;                                                                       \
			double a = lane_value(SOURCE(0, u32)[lane], (enum ptx_type)i->type);                    \
			double b = lane_value(SOURCE(1, u32)[lane], (enum ptx_type)i->type);                    \
			d->u32[lane] = (uint32_t)lane_round(choose(a, b), (enum ptx_type)i->type, PTX_NEAREST); \
		}                                                                                               \
	}
NARROW_CHOICE(min, SMALLER)
NARROW_CHOICE(max, LARGER)

/* ---- testp: what kind of number ---- */

#define TEST(name, expression)                                                              \
	static void name(struct warp *warp, const struct ptx_instruction *i, uint32_t mask) \
	{                                                                                   \
		double value[WARP_LANES];                                                   \
		uint32_t bits = 0;                                                          \
		lanes_load(&REG(i->source[0]), (enum ptx_type)i->type, value);              \
		for (uint32_t lane = 0; lane < WARP_LANES; lane++) {                        \
			double a = value[lane];                                             \
			bits |= (uint32_t)((expression) != 0) << lane;                      \
		}                                                                           \
		uint32_t *d = &REG(i->target[0]).mask;                                      \
		*d = (*d & ~mask) | (bits & mask);                                          \
	}
TEST(test_finite, isfinite(a))
TEST(test_infinite, isinf(a))
TEST(test_number, !isnan(a))
TEST(test_nan, isnan(a))

#define ROW_ALL(name)                                                                                                 \
	{                                                                                                             \
		[PTX_F16] = narrow_##name, [PTX_BF16] = narrow_##name, [PTX_F32] = name##_f32, [PTX_F64] = name##_f64 \
	}
#define ROW_NARROW(name)                                                                                              \
	{                                                                                                             \
		[PTX_F16] = name##_narrow, [PTX_BF16] = name##_narrow, [PTX_F32] = name##_f32, [PTX_F64] = name##_f64 \
	}
#define ROW_FLOAT(name)                                        \
	{                                                      \
		[PTX_F32] = name##_f32, [PTX_F64] = name##_f64 \
	}
#define ROW_TEST(name)                             \
	{                                          \
		[PTX_F32] = name, [PTX_F64] = name \
	}

const struct operation_row float_operations[] = {
	{ "add", "ttt", PTX_PLAIN, ROW_ALL(add) },
	{ "sub", "ttt", PTX_PLAIN, ROW_ALL(sub) },
	{ "mul", "ttt", PTX_PLAIN, ROW_ALL(mul) },
	{ "fma", "tttt", PTX_PLAIN, ROW_ALL(fma) },
	{ "mad", "tttt", PTX_PLAIN, ROW_ALL(fma) },
	{ "div", "ttt", PTX_PLAIN, ROW_FLOAT(div) },
	{ "min", "ttt", PTX_PLAIN, ROW_NARROW(min) },
	{ "max", "ttt", PTX_PLAIN, ROW_NARROW(max) },
	{ "min.NaN", "ttt", PTX_PLAIN, { [PTX_F32] = min_nan_f32 } },
	{ "max.NaN", "ttt", PTX_PLAIN, { [PTX_F32] = max_nan_f32 } },
	{ "abs", "tt", PTX_PLAIN, ROW_NARROW(abs) },
	{ "neg", "tt", PTX_PLAIN, ROW_NARROW(neg) },
	{ "copysign", "ttt", PTX_PLAIN, ROW_FLOAT(copysign) },
	{ "rcp", "tt", PTX_PLAIN, ROW_FLOAT(rcp) },
	{ "sqrt", "tt", PTX_PLAIN, ROW_FLOAT(sqrt) },
	{ "rsqrt", "tt", PTX_PLAIN, ROW_FLOAT(rsqrt) },
	{ "ex2", "tt", PTX_PLAIN, { [PTX_F32] = ex2_f32 } },
	{ "lg2", "tt", PTX_PLAIN, { [PTX_F32] = lg2_f32 } },
	{ "sin", "tt", PTX_PLAIN, { [PTX_F32] = sin_f32 } },
	{ "cos", "tt", PTX_PLAIN, { [PTX_F32] = cos_f32 } },
	{ "tanh", "tt", PTX_PLAIN, { [PTX_F32] = tanh_f32 } },
	{ "testp.finite", "pt", PTX_PLAIN, ROW_TEST(test_finite) },
	{ "testp.infinite", "pt", PTX_PLAIN, ROW_TEST(test_infinite) },
	{ "testp.number", "pt", PTX_PLAIN, ROW_TEST(test_number) },
	{ "testp.notanumber", "pt", PTX_PLAIN, ROW_TEST(test_nan) },
	{ NULL, NULL, PTX_PLAIN, { NULL } },
};
