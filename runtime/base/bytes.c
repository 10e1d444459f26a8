/* bytes.c - checked size arithmetic; "24 MiB" in and out. */
#include "base/bytes.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

bool bytes_mul(uint64_t a, uint64_t b, uint64_t *out)
{
	uint64_t product;
	if (__builtin_mul_overflow(a, b, &product))
		return false;
	*out = product;
	return true;
}

bool bytes_add(uint64_t a, uint64_t b, uint64_t *out)
{
	uint64_t sum;
	if (__builtin_add_overflow(a, b, &sum))
		return false;
	*out = sum;
	return true;
}

uint64_t bytes_align(uint64_t bytes)
{
	return (bytes + TARN_ALIGNMENT - 1) & ~(TARN_ALIGNMENT - 1);
}

static const struct unit {
	const char *name;
	uint64_t factor;
} units[] = {
	{ "B", 1 },
	{ "kB", 1000 },
	{ "MB", 1000 * 1000 },
	{ "GB", 1000 * 1000 * 1000 },
	{ "TB", 1000ull * 1000 * 1000 * 1000 },
	{ "KiB", 1ull << 10 },
	{ "MiB", 1ull << 20 },
	{ "GiB", 1ull << 30 },
	{ "TiB", 1ull << 40 },
};

static enum tarn_status unknown_unit(const char *text, const char *unit)
{
	char lower = (char)tolower((unsigned char)unit[0]), upper = (char)toupper((unsigned char)unit[0]);
	if (strchr("kmgt", lower) && !unit[1])
		return tarn_fail(TARN_EINVAL,
				 "size \"%s\": \"%s\" could mean %cB (powers of 1000) or %ciB (powers of 1024); write "
				 "one of them",
				 text, unit, lower == 'k' ? lower : upper, upper);
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (!strcasecmp(unit, units[i].name))
			return tarn_fail(TARN_EINVAL, "size \"%s\": unknown unit \"%s\", did you mean \"%s\"?", text,
					 unit, units[i].name);
	return tarn_fail(TARN_EINVAL,
			 "size \"%s\": unknown unit \"%s\"; units are B, kB, MB, GB, TB, KiB, MiB, GiB, TiB", text,
			 unit);
}

static enum tarn_status not_a_size(const char *text)
{
	return tarn_fail(TARN_EINVAL, "\"%s\" is not a size; write for example 24 MiB", text);
}

__extension__ typedef unsigned __int128 wide;

/* A decimal number as it is written: mantissa * 10^exponent. So 1.005 kB is 1005 bytes, which no double says. */
struct decimal {
	wide mantissa;
	int exponent;
};

/* Significant digits that are kept: 10^24 times the largest unit still fits 128 bits. */
#define MANTISSA_DIGITS 24
/* Beyond this a number is 0 or too large, whatever its digits. */
#define EXPONENT_LIMIT 1000000

/* Reads "24", "0.5", ".5", "1.5e9"; returns where it ends, or NULL when there is no digit. */
static const char *read_decimal(const char *at, struct decimal *number)
{
	int kept = 0;
	bool point = false, digit = false;
	number->mantissa = 0;
	number->exponent = 0;
	for (; isdigit((unsigned char)*at) || (*at == '.' && !point); at++) {
		if (*at == '.') {
			point = true;
			continue;
		}
		digit = true;
		if (kept < MANTISSA_DIGITS) {
			number->mantissa = number->mantissa * 10 + (unsigned)(*at - '0');
			kept += number->mantissa > 0;
			number->exponent -= point;
		} else if (!point && number->exponent < EXPONENT_LIMIT) {
			number->exponent++;
		}
	}
	if (!digit)
		return NULL;
	const char *sign = at + 1;
	bool negative = *at && *sign == '-';
	const char *power = *at && (*sign == '-' || *sign == '+') ? sign + 1 : sign;
	if ((*at != 'e' && *at != 'E') || !isdigit((unsigned char)*power))
		return at;
	int exponent = 0;
	for (at = power; isdigit((unsigned char)*at); at++)
		if (exponent < EXPONENT_LIMIT)
			exponent = exponent * 10 + (*at - '0');
	number->exponent += negative ? -exponent : exponent;
	return at;
}

/* mantissa * 10^exponent * factor, rounded down; false when it does not fit 64 bits. */
static bool scale_decimal(struct decimal number, uint64_t factor, uint64_t *out)
{
	wide value = number.mantissa * factor;
	for (int e = number.exponent; e < 0 && value; e++)
		value /= 10;
	for (int e = number.exponent; e > 0 && value; e--) {
		if (value > UINT64_MAX)
			return false;
		value *= 10;
	}
	if (value > UINT64_MAX)
		return false;
	*out = (uint64_t)value;
	return true;
}

enum tarn_status bytes_parse(const char *text, uint64_t *out)
{
	static const char blanks[] = " \t\r\n";
	const char *start = text + strspn(text, blanks);
	if (*start == '-')
		return tarn_fail(TARN_EINVAL, "size \"%s\" is negative; a size is 0 or more", text);
	if (start[0] == '0' && (start[1] == 'x' || start[1] == 'X'))
		return tarn_fail(TARN_EINVAL, "\"%s\" is not a size; write it in decimal, for example 24 MiB", text);
	struct decimal number;
	const char *end = read_decimal(start, &number);
	if (!end)
		return not_a_size(text);
	end += strspn(end, blanks);
	char unit[8] = "B";
	size_t length = strcspn(end, blanks);
	if (length >= sizeof unit || end[length + strspn(end + length, blanks)])
		return not_a_size(text);
	if (length)
		snprintf(unit, sizeof unit, "%.*s", (int)length, end);
	uint64_t factor = 0;
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (!strcmp(unit, units[i].name))
			factor = units[i].factor;
	if (!factor)
		return unknown_unit(text, unit);
	if (!scale_decimal(number, factor, out))
		return tarn_fail(TARN_EINVAL, "size \"%s\" is larger than 2^64 - 1 bytes", text);
	return TARN_OK;
}

const char *bytes_format(uint64_t bytes, char *buffer, size_t size)
{
	static const char *const names[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	if (bytes < 1024) {
		snprintf(buffer, size, "%u B", (unsigned)bytes);
		return buffer;
	}
	double value = (double)bytes / 1024.0;
	size_t i = 0;
	/* 1023.995 would be printed as 1024.00. */
	for (; value >= 1023.995 && i + 1 < sizeof names / sizeof *names; i++)
		value /= 1024.0;
	snprintf(buffer, size, "%.2f %s", value, names[i]);
	return buffer;
}
