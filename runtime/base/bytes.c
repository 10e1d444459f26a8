/* bytes.c - checked size arithmetic; "24 MiB" in and out. */
#include "base/bytes.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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
	if (strchr("kKmMgGtT", unit[0]) && !unit[1])
		return tarn_fail(TARN_EINVAL, "size \"%s\": \"%s\" could mean %cB (powers of 1000) or %ciB (powers of 1024); "
				 "write one of them", text, unit, toupper(unit[0]), toupper(unit[0]));
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (!strcasecmp(unit, units[i].name))
			return tarn_fail(TARN_EINVAL, "size \"%s\": unknown unit \"%s\", did you mean \"%s\"?", text, unit,
					 units[i].name);
	return tarn_fail(TARN_EINVAL, "size \"%s\": unknown unit \"%s\"; units are B, kB, MB, GB, TB, KiB, MiB, GiB, TiB",
			 text, unit);
}

enum tarn_status bytes_parse(const char *text, uint64_t *out)
{
	const char *start = text;
	while (isspace((unsigned char)*start))
		start++;
	/* strtod also reads "inf", "nan" and hexadecimal; a size starts with a digit or a point. */
	if (*start == '-')
		return tarn_fail(TARN_EINVAL, "size \"%s\" is negative; a size is 0 or more", text);
	if (!isdigit((unsigned char)*start) && *start != '.')
		return tarn_fail(TARN_EINVAL, "\"%s\" is not a size; write for example 24 MiB", text);
	if (start[0] == '0' && (start[1] == 'x' || start[1] == 'X'))
		return tarn_fail(TARN_EINVAL, "\"%s\" is not a size; write it in decimal, for example 24 MiB", text);
	bool whole = start[strspn(start, "0123456789")] != '.' && !strpbrk(start, "eE");
	char *end;
	errno = 0;
	uint64_t integer = whole ? strtoull(start, &end, 10) : 0;
	bool overflow = errno == ERANGE;
	double real = whole ? 0.0 : strtod(start, &end);
	if (end == start)
		return tarn_fail(TARN_EINVAL, "\"%s\" is not a size; write for example 24 MiB", text);
	while (isspace((unsigned char)*end))
		end++;
	char unit[8] = "B";
	size_t length = strcspn(end, " \t\r\n");
	if (length >= sizeof unit || end[length + strspn(end + length, " \t\r\n")])
		return tarn_fail(TARN_EINVAL, "\"%s\" is not a size; write for example 24 MiB", text);
	if (length) {
		memcpy(unit, end, length);
		unit[length] = '\0';
	}
	uint64_t factor = 0;
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (!strcmp(unit, units[i].name))
			factor = units[i].factor;
	if (!factor)
		return unknown_unit(text, unit);
	uint64_t bytes = 0;
	if (whole) {
		overflow = overflow || !bytes_mul(integer, factor, &bytes);
	} else {
		double scaled = floor(real * (double)factor);
		overflow = !(scaled >= 0.0 && scaled < 18446744073709551616.0);
		bytes = overflow ? 0 : (uint64_t)scaled;
	}
	if (overflow)
		return tarn_fail(TARN_EINVAL, "size \"%s\" is larger than 2^64 - 1 bytes", text);
	*out = bytes;
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
	for (; value >= 1024.0 && i + 1 < sizeof names / sizeof *names; i++)
		value /= 1024.0;
	snprintf(buffer, size, "%.2f %s", value, names[i]);
	return buffer;
}
