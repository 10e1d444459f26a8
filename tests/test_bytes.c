/* test_bytes.c - sizes as people write them, and arithmetic that notices overflow. */
#include "support/testing.h"

#include "base/bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct {
	const char *text;
	uint64_t bytes;
} good[] = {
	{ "0", 0 },
	{ "1", 1 },
	{ "4294967296", 4294967296u },
	{ "18446744073709551615", UINT64_MAX },
	{ "4GB", 4000000000u },
	{ "4GiB", 4294967296u },
	{ "4 GiB", 4294967296u },
	{ "4096MB", 4096000000u },
	{ "4.5GiB", 4831838208u },
	{ "0.5 GiB", 536870912u },
	{ ".5 GiB", 536870912u },
	{ "5. kB", 5000u },
	{ "24 MiB", 25165824u },
	{ "24MB", 24000000u },
	{ "  24\tMiB  ", 25165824u },
	{ "1 kB", 1000 },
	{ "1 KiB", 1024 },
	{ "1 TB", 1000000000000u },
	{ "1 TiB", 1099511627776u },
	{ "1.5e9 B", 1500000000u },
	{ "1e3 KiB", 1024000u },
	{ "1E-3 GB", 1000000u },
	{ "1.9 B", 1 },
	{ "0.9", 0 },
	{ "1e-400 GB", 0 },
	{ "0e999999999999 GB", 0 },
	{ "007 B", 7 },
	{ "000000000000000000000000000000000000001 B", 1 },
	{ "1.000000000000000000000000000000000000 GiB", 1073741824u },
	/* As doubles these come out one byte short. */
	{ "1.005 kB", 1005 },
	{ "8.29 kB", 8290 },
	{ "16777215.999999999 TiB", 18446744073709550516u },
};

START_TEST(test_accepts)
{
	uint64_t bytes = 1234;
	ck_assert_ok(bytes_parse(good[_i].text, &bytes));
	ck_assert_msg(bytes == good[_i].bytes, "%s: %" PRIu64 ", expected %" PRIu64, good[_i].text, bytes,
		      good[_i].bytes);
}
END_TEST

static const struct {
	const char *text, *sentence;
} bad[] = {
	{ "", "not a size" },
	{ " ", "not a size" },
	{ "GiB", "not a size" },
	{ ".", "not a size" },
	{ "+1 MiB", "not a size" },
	{ "inf", "not a size" },
	{ "nan", "not a size" },
	{ "0x10", "decimal" },
	{ "-1", "negative" },
	{ "-0.5 GiB", "negative" },
	{ "4g", "could mean GB (powers of 1000) or GiB (powers of 1024)" },
	{ "4G", "could mean GB" },
	{ "4k", "could mean kB (powers of 1000) or KiB" },
	{ "4 M", "could mean MB" },
	{ "4T", "could mean TB" },
	{ "4 gib", "did you mean \"GiB\"" },
	{ "4 KB", "did you mean \"kB\"" },
	{ "4 b", "did you mean \"B\"" },
	{ "4 PiB", "units are B, kB, MB" },
	{ "4 %", "unknown unit \"%\"" },
	{ "1,5 GiB", "not a size" },
	{ "1.2.3 B", "not a size" },
	{ "1 2", "unknown unit" },
	{ "4 MiB MiB", "not a size" },
	{ "4 kilobytes", "not a size" },
	{ "1e", "unknown unit" },
	{ "1e+ B", "not a size" },
	{ "18446744073709551616", "larger than 2^64 - 1" },
	{ "16777216 TiB", "larger than 2^64 - 1" },
	{ "99999999999999999999999999999999999999999999 B", "larger than 2^64 - 1" },
	{ "1e20", "larger than 2^64 - 1" },
	{ "1e999999999999999999999 TiB", "larger than 2^64 - 1" },
	{ "4\x80", "unknown unit" },
};

START_TEST(test_refuses)
{
	uint64_t bytes = 1234;
	ck_assert_fails(bytes_parse(bad[_i].text, &bytes), TARN_EINVAL, bad[_i].sentence);
	ck_assert_msg(bytes == 1234, "%s: the result was touched", bad[_i].text);
}
END_TEST

/* Whole numbers with a unit against a product of integers; fractions against long division by hand. */
START_TEST(test_random_sizes)
{
	static const struct {
		const char *unit;
		uint64_t factor;
	} units[] = { { "B", 1 }, { "kB", 1000 }, { "MiB", 1u << 20 }, { "GB", 1000000000 }, { "TiB", 1ull << 40 } };
	struct testing_random random = { (uint64_t)_i };
	for (int n = 0; n < 200; n++) {
		uint64_t whole = testing_bits(&random) >> testing_between(&random, 0, 63);
		uint32_t thousandths = testing_between(&random, 0, 999), u = testing_between(&random, 0, 4);
		char text[64];
		snprintf(text, sizeof text, "%" PRIu64 ".%03u%s%s", whole, thousandths,
			 testing_between(&random, 0, 1) ? " " : "", units[u].unit);
		uint64_t product, bytes, expected = 0;
		bool fits = bytes_mul(whole, units[u].factor, &product) &&
			    bytes_add(product, units[u].factor * thousandths / 1000, &expected);
		if (fits)
			ck_assert_ok(bytes_parse(text, &bytes));
		else
			ck_assert_fails(bytes_parse(text, &bytes), TARN_EINVAL, "larger");
		ck_assert_msg(!fits || bytes == expected, "seed %d: %s: %" PRIu64 ", expected %" PRIu64, _i, text,
			      fits ? bytes : 0, expected);
	}
}
END_TEST

/* Anything may be typed: no crash, and a failure always has a sentence. */
START_TEST(test_random_text)
{
	static const char letters[] = "0123456789.eE+-kMGTiB \tx%,\x80";
	struct testing_random random = { (uint64_t)_i };
	for (int n = 0; n < 2000; n++) {
		char text[16];
		uint32_t length = testing_between(&random, 0, sizeof text - 1);
		for (uint32_t i = 0; i < length; i++)
			text[i] = letters[testing_between(&random, 0, sizeof letters - 2)];
		text[length] = '\0';
		uint64_t bytes = 1234;
		tarn_error_clear();
		enum tarn_status st = bytes_parse(text, &bytes);
		ck_assert_msg(st == TARN_OK || (st == TARN_EINVAL && bytes == 1234 && *tarn_error()),
			      "seed %d: \"%s\": status %d", _i, text, (int)st);
	}
}
END_TEST

START_TEST(test_arithmetic)
{
	uint64_t out = 7;
	ck_assert(bytes_mul(1ull << 32, (1ull << 32) - 1, &out));
	ck_assert(out == ((1ull << 32) - 1) << 32);
	ck_assert(bytes_add(UINT64_MAX - 1, 1, &out));
	ck_assert(out == UINT64_MAX);
	out = 7;
	ck_assert(!bytes_mul(1ull << 32, 1ull << 32, &out));
	ck_assert(!bytes_add(UINT64_MAX, 1, &out));
	ck_assert(out == 7);
	ck_assert(bytes_align(0) == 0);
	ck_assert(bytes_align(1) == TARN_ALIGNMENT);
	ck_assert(bytes_align(TARN_ALIGNMENT) == TARN_ALIGNMENT);
	ck_assert(bytes_align(UINT64_MAX - 63) == UINT64_MAX - 63);
}
END_TEST

START_TEST(test_format)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{ 0, "0 B" },
		{ 1023, "1023 B" },
		{ 1024, "1.00 KiB" },
		{ 6815744, "6.50 MiB" },
		{ 1048575, "1.00 MiB" },
		{ 1023 * 1024, "1023.00 KiB" },
		{ 4294967296u, "4.00 GiB" },
		{ UINT64_MAX, "16.00 EiB" },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		char text[BYTES_TEXT];
		ck_assert_str_eq(bytes_format(cases[i].bytes, text, sizeof text), cases[i].text);
	}
	char small[4];
	ck_assert_str_eq(bytes_format(6815744, small, sizeof small), "6.5");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("bytes");
	TCase *parse = tcase_create("parse");
	tcase_add_loop_test(parse, test_accepts, 0, (int)COUNT(good));
	tcase_add_loop_test(parse, test_refuses, 0, (int)COUNT(bad));
	tcase_add_loop_test(parse, test_random_sizes, 0, 10);
	tcase_add_loop_test(parse, test_random_text, 0, 10);
	suite_add_tcase(suite, parse);
	TCase *arithmetic = tcase_create("arithmetic");
	tcase_add_test(arithmetic, test_arithmetic);
	tcase_add_test(arithmetic, test_format);
	suite_add_tcase(suite, arithmetic);
	return testing_run(suite);
}
