/*
 * test_cast.c - CAST on every driver that computes: every pattern of 16 bits, and rounding of floats near ties.
 */
#include "conformance/cases.h"
#include "conformance/formats.h"
#include "support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PATTERNS 65536u
static const enum dtype narrow[] = { DTYPE_BF16, DTYPE_F16 };

static bool casts(const struct driver_ops *driver)
{
	return strcmp(driver->name, "null") != 0 && driver->probe() == TARN_OK &&
	       !conformance_excluded(driver->name, "cast f32 to bf16");
}

/* y = CAST x for `n` numbers. */
static void run_cast(const struct driver_ops *driver, enum dtype from, enum dtype to, uint32_t n, const void *x,
		     void *y)
{
	const struct single_input input = { from, 0, 1, { n } };
	const struct single_options plain = { .threads = 2, .in_place = -1 };
	const struct op_attr attr = { .mode = to };
	struct single_op single;
	ck_assert_ok(single_op_open(&single, driver, OP_CAST, &attr, &input, 1, &plain));
	ck_assert_ok(single_op_write(&single, 0, x));
	ck_assert_ok(single_op_launch(&single));
	ck_assert_ok(single_op_read(&single, 1, y));
	ck_assert_uint_eq(single_op_stray(&single), UINT64_MAX);
	single_op_close(&single);
}

START_TEST(every_pattern_becomes_its_value_and_itself_again)
{
	static uint16_t pattern[PATTERNS], again[PATTERNS];
	static float value[PATTERNS];
	enum dtype dtype = narrow[_i];
	for (uint32_t i = 0; i < PATTERNS; i++)
		pattern[i] = (uint16_t)i;
	for (uint32_t d = 0; d < driver_table_count; d++) {
		if (!casts(driver_table[d]))
			continue;
		run_cast(driver_table[d], dtype, DTYPE_F32, PATTERNS, pattern, value);
		run_cast(driver_table[d], DTYPE_F32, dtype, PATTERNS, value, again);
		for (uint32_t i = 0; i < PATTERNS; i++) {
			double want = format_value(dtype, pattern[i]);
			ck_assert_msg(isnan(want) ? isnan(value[i]) : (double)value[i] == want, "%s, %s 0x%04x is %g",
				      driver_table[d]->name, dtype_name(dtype), i, (double)value[i]);
			ck_assert_msg(isnan(want) ? isnan(format_value(dtype, again[i])) : again[i] == pattern[i],
				      "%s, %s 0x%04x came back as 0x%04x", driver_table[d]->name, dtype_name(dtype), i,
				      again[i]);
		}
	}
}
END_TEST

/* Around each number and around each middle between two of them, and anything at all. */
static float near_a_tie(enum dtype dtype, uint32_t i, struct testing_random *random)
{
	uint32_t bits = (uint32_t)(testing_bits(random) >> 32);
	float value;
	if (i % 2) {
		uint16_t low = (uint16_t)(bits & 0x7BFF);
		double middle = (format_value(dtype, low) + format_value(dtype, (uint16_t)(low + 1))) / 2;
		value = (float)(bits >> 31 ? middle : -middle);
		if (i % 8 == 1)
			value = nextafterf(value, 0.0f);
		if (i % 8 == 3)
			value = nextafterf(value, value > 0 ? INFINITY : -INFINITY);
		return value;
	}
	memcpy(&value, &bits, sizeof value);
	return value;
}

START_TEST(floats_are_rounded_to_the_nearest)
{
	static float value[PATTERNS];
	static uint16_t got[PATTERNS];
	enum dtype dtype = narrow[_i];
	struct testing_random random = { 11 };
	for (uint32_t i = 0; i < PATTERNS; i++)
		value[i] = near_a_tie(dtype, i, &random);
	value[0] = INFINITY;
	value[1] = -0.0f;
	for (uint32_t d = 0; d < driver_table_count; d++) {
		if (!casts(driver_table[d]))
			continue;
		run_cast(driver_table[d], DTYPE_F32, dtype, PATTERNS, value, got);
		for (uint32_t i = 0; i < PATTERNS; i++) {
			uint16_t want = format_nearest(dtype, (double)value[i]);
			ck_assert_msg(isnan(value[i]) ? isnan(format_value(dtype, got[i])) : got[i] == want,
				      "%s: %.9g to %s is 0x%04x, nearest is 0x%04x", driver_table[d]->name,
				      (double)value[i], dtype_name(dtype), got[i], want);
		}
	}
}
END_TEST

/* bf16 to f16 and back goes through the value, with one rounding. */
START_TEST(formats_of_16_bits_are_cast_to_each_other)
{
	static uint16_t pattern[PATTERNS], got[PATTERNS];
	enum dtype from = narrow[_i], to = narrow[1 - _i];
	for (uint32_t i = 0; i < PATTERNS; i++)
		pattern[i] = (uint16_t)i;
	for (uint32_t d = 0; d < driver_table_count; d++) {
		if (!casts(driver_table[d]))
			continue;
		run_cast(driver_table[d], from, to, PATTERNS, pattern, got);
		for (uint32_t i = 0; i < PATTERNS; i++) {
			double value = format_value(from, pattern[i]);
			uint16_t want = format_nearest(to, value);
			ck_assert_msg(isnan(value) ? isnan(format_value(to, got[i])) : got[i] == want,
				      "%s: %s 0x%04x is 0x%04x, nearest is 0x%04x", driver_table[d]->name,
				      dtype_name(from), i, got[i], want);
		}
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cast");
	TCase *casts = tcase_create("casts");
	tcase_set_timeout(casts, 60);
	tcase_add_loop_test(casts, every_pattern_becomes_its_value_and_itself_again, 0, 2);
	tcase_add_loop_test(casts, floats_are_rounded_to_the_nearest, 0, 2);
	tcase_add_loop_test(casts, formats_of_16_bits_are_cast_to_each_other, 0, 2);
	suite_add_tcase(suite, casts);
	return testing_run(suite);
}
