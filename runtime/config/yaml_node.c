/* yaml_node.c - nodes of a YAML tree: places in messages, typed readers, "did you mean". Needs no YAML library. */
#include "config/yaml_tree.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names longer than this get no suggestion: nobody mistypes them by a letter. */
#define NAME_BYTES 64u

struct yaml_node *yaml_new(enum yaml_kind kind, const char *file, uint32_t line, struct host_arena *arena)
{
	struct yaml_node *node = HOST_NEW(arena, struct yaml_node);
	if (!node)
		return NULL;
	node->kind = kind;
	node->file = file;
	node->line = line;
	node->column = line ? 1 : 0;
	node->key_line = node->line;
	node->key_column = node->column;
	node->text = "";
	return node;
}

void yaml_put(struct yaml_node *parent, const char *key, struct yaml_node *child)
{
	struct yaml_node **link = &parent->first;
	while (*link && !(key && (*link)->key && !strcmp((*link)->key, key)))
		link = &(*link)->next;
	if (*link)
		child->next = (*link)->next;
	else
		parent->children++;
	*link = child;
	child->key = key;
	child->parent = parent;
}

const struct yaml_node *yaml_find(const struct yaml_node *map, const char *key)
{
	if (!map || map->kind != YAML_MAP)
		return NULL;
	for (const struct yaml_node *child = map->first; child; child = child->next)
		if (!strcmp(child->key, key))
			return child;
	return NULL;
}

const char *yaml_path(const struct yaml_node *node, char *buffer, size_t size)
{
	const struct yaml_node *line[YAML_MAX_DEPTH + 2];
	uint32_t depth = 0;
	for (; node->parent && depth < YAML_MAX_DEPTH + 2; node = node->parent)
		line[depth++] = node;
	size_t used = 0;
	buffer[0] = '\0';
	while (depth-- && used < size) {
		node = line[depth];
		int wrote;
		if (node->key) {
			char shown[YAML_SHOWN];
			wrote = snprintf(buffer + used, size - used, "%s%s", used ? "." : "",
					 yaml_shown(node->key, shown, sizeof shown));
		} else {
			uint32_t index = 0;
			for (const struct yaml_node *n = node->parent->first; n && n != node; n = n->next)
				index++;
			wrote = snprintf(buffer + used, size - used, "[%u]", index);
		}
		used += (size_t)wrote;
	}
	return buffer;
}

const char *yaml_shown(const char *text, char *buffer, size_t size)
{
	size_t length = strlen(text), fits = length;
	if (length >= size) {
		fits = size - 4;
		while (fits && ((unsigned char)text[fits] & 0xC0) == 0x80)
			fits--; /* do not cut a UTF-8 character */
	}
	for (size_t i = 0; i < fits; i++)
		buffer[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7F ? '?' : text[i];
	snprintf(buffer + fits, size - fits, "%s", fits < length ? "..." : "");
	return buffer;
}

static enum tarn_status fail_at(const struct yaml_node *node, uint32_t line, uint32_t column, const char *path,
				const char *format, va_list arguments)
{
	char message[TARN_ERROR_BYTES];
	vsnprintf(message, sizeof message, format, arguments);
	const char *colon = *path ? ": " : "";
	if (!line)
		return tarn_fail(TARN_EINVAL, "%s: %s%s%s", node->file, path, colon, message);
	return tarn_fail(TARN_EINVAL, "%s:%u:%u: %s%s%s", node->file, line, column, path, colon, message);
}

enum tarn_status yaml_fail(const struct yaml_node *node, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	enum tarn_status st = fail_at(node, node->line, node->column, "", format, arguments);
	va_end(arguments);
	return st;
}

enum tarn_status yaml_fail_key(const struct yaml_node *node, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	enum tarn_status st = node->key ? fail_at(node, node->key_line, node->key_column, "", format, arguments)
					: fail_at(node, node->line, node->column, "", format, arguments);
	va_end(arguments);
	return st;
}

enum tarn_status yaml_fail_value(const struct yaml_node *node, const char *format, ...)
{
	char path[YAML_PATH];
	va_list arguments;
	va_start(arguments, format);
	enum tarn_status st =
		fail_at(node, node->line, node->column, yaml_path(node, path, sizeof path), format, arguments);
	va_end(arguments);
	return st;
}

static enum tarn_status require_scalar(const struct yaml_node *node, const char *what)
{
	if (node->kind != YAML_SCALAR)
		return yaml_fail_value(node, "must be %s, not a %s", what, node->kind == YAML_LIST ? "list" : "map");
	if (!node->text[0] && !node->quoted)
		return yaml_fail_value(node, "has no value; it must be %s", what);
	return TARN_OK;
}

/* [sign] digits [. digits] [e [sign] digits], with a digit before or after the point; nothing else. */
static bool is_decimal(const char *text)
{
	static const char digits[] = "0123456789";
	text += *text == '+' || *text == '-';
	size_t whole = strspn(text, digits), fraction = 0;
	text += whole;
	if (*text == '.') {
		fraction = strspn(++text, digits);
		text += fraction;
	}
	if (!whole && !fraction)
		return false;
	if (*text == 'e' || *text == 'E') {
		text++;
		text += *text == '+' || *text == '-';
		size_t exponent = strspn(text, digits);
		if (!exponent)
			return false;
		text += exponent;
	}
	return !*text;
}

/* "must be from 0 to 1", or with one end only; %.15g shows every limit of a range as it was written. */
static enum tarn_status fail_range(const struct yaml_node *node, double low, double high)
{
	char shown[YAML_SHOWN];
	yaml_shown(node->text, shown, sizeof shown);
	if (high >= DBL_MAX)
		return yaml_fail_value(node, "%s is out of range; it must be at least %.15g", shown, low);
	if (low <= -DBL_MAX)
		return yaml_fail_value(node, "%s is out of range; it must be at most %.15g", shown, high);
	return yaml_fail_value(node, "%s is out of range; it must be from %.15g to %.15g", shown, low, high);
}

enum tarn_status yaml_read_real(const struct yaml_node *node, double low, double high, double *out)
{
	enum tarn_status st = require_scalar(node, "a number");
	if (st)
		return st;
	char shown[YAML_SHOWN];
	if (!is_decimal(node->text))
		return yaml_fail_value(node, "\"%s\" is not a number%s", yaml_shown(node->text, shown, sizeof shown),
				       strchr(node->text, ',') ? "; the decimal sign is a point" : "");
	/* The decimal sign is a point whatever the locale of the program around us. */
	locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	double value = plain ? strtod_l(node->text, NULL, plain) : strtod(node->text, NULL);
	if (plain)
		freelocale(plain);
	if (!isfinite(value))
		return yaml_fail_value(node, "%s is too large for a number",
				       yaml_shown(node->text, shown, sizeof shown));
	if (value < low || value > high)
		return fail_range(node, low, high);
	*out = value;
	return TARN_OK;
}

enum tarn_status yaml_read_integer(const struct yaml_node *node, int64_t low, int64_t high, int64_t *out)
{
	enum tarn_status st = require_scalar(node, "a whole number");
	if (st)
		return st;
	char shown[YAML_SHOWN];
	yaml_shown(node->text, shown, sizeof shown);
	const char *digits = node->text + (*node->text == '+' || *node->text == '-');
	if (!*digits || digits[strspn(digits, "0123456789")])
		return yaml_fail_value(node, "\"%s\" is not a whole number; write digits only", shown);
	errno = 0;
	int64_t value = strtoll(node->text, NULL, 10);
	if (errno == ERANGE || value < low || value > high) {
		if (high == INT64_MAX)
			return yaml_fail_value(node, "%s is out of range; it must be at least %lld", shown,
					       (long long)low);
		return yaml_fail_value(node, "%s is out of range; it must be from %lld to %lld", shown, (long long)low,
				       (long long)high);
	}
	*out = value;
	return TARN_OK;
}

enum tarn_status yaml_read_bool(const struct yaml_node *node, bool *out)
{
	enum tarn_status st = require_scalar(node, "true or false");
	if (st)
		return st;
	static const char *const names[] = { "false", "no", "true", "yes" };
	for (uint32_t i = 0; i < 4; i++)
		if (!strcmp(node->text, names[i])) {
			*out = i >= 2;
			return TARN_OK;
		}
	char shown[YAML_SHOWN];
	return yaml_fail_value(node, "\"%s\" is neither true nor false; write true, false, yes or no",
			       yaml_shown(node->text, shown, sizeof shown));
}

enum tarn_status yaml_read_bytes(const struct yaml_node *node, uint64_t *out)
{
	enum tarn_status st = require_scalar(node, "a size such as 24 MiB");
	if (st)
		return st;
	char shown[YAML_SHOWN];
	yaml_shown(node->text, shown, sizeof shown);
	if (strcmp(shown, node->text))
		return yaml_fail_value(node, "\"%s\" is not a size; write for example 24 MiB", shown);
	st = bytes_parse(node->text, out);
	if (!st)
		return st;
	char sentence[TARN_ERROR_BYTES];
	snprintf(sentence, sizeof sentence, "%s", tarn_error());
	return yaml_fail_value(node, "%s", sentence);
}

enum tarn_status yaml_read_choice(const struct yaml_node *node, const char *const *names, uint32_t count, uint32_t *out)
{
	char list[512] = "";
	size_t used = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (node->kind == YAML_SCALAR && !strcmp(node->text, names[i])) {
			*out = i;
			return TARN_OK;
		}
		if (used < sizeof list)
			used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
	}
	char what[sizeof list + 16];
	snprintf(what, sizeof what, count == 1 ? "%s" : "one of %s", list);
	enum tarn_status st = require_scalar(node, what);
	if (st)
		return st;
	char shown[YAML_SHOWN];
	yaml_shown(node->text, shown, sizeof shown);
	const char *near = nearest_name(node->text, names, count);
	if (near)
		return yaml_fail_value(node, "\"%s\" is not %s; did you mean \"%s\"?", shown, what, near);
	return yaml_fail_value(node, "\"%s\" is not %s", shown, what);
}

/*
 * Edit distance with swaps of neighbours (optimal string alignment), blind to case. Both at most NAME_BYTES long.
 * F. Damerau, A technique for computer detection and correction of spelling errors, CACM 7(3), 1964.
 */
static uint32_t edit_distance(const char *a, const char *b)
{
	size_t m = strlen(a), n = strlen(b);
	uint32_t before[NAME_BYTES + 1], last[NAME_BYTES + 1], row[NAME_BYTES + 1];
	memset(before, 0, sizeof before);
	for (size_t j = 0; j <= n; j++)
		last[j] = (uint32_t)j;
	for (size_t i = 1; i <= m; i++) {
		row[0] = (uint32_t)i;
		for (size_t j = 1; j <= n; j++) {
			int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
			uint32_t best = last[j - 1] + (x != y);
			if (last[j] + 1 < best)
				best = last[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			bool swapped = i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
				       y == tolower((unsigned char)a[i - 2]);
			if (swapped && before[j - 2] + 1 < best)
				best = before[j - 2] + 1;
			row[j] = best;
		}
		memcpy(before, last, sizeof before);
		memcpy(last, row, (n + 1) * sizeof *row);
	}
	return last[n];
}

const char *nearest_name(const char *text, const char *const *names, uint32_t count)
{
	size_t length = strlen(text);
	if (length < 2 || length > NAME_BYTES)
		return NULL;
	uint32_t limit = length < 3 ? 1 : (uint32_t)(length / 3), best = limit + 1;
	const char *nearest = NULL;
	for (uint32_t i = 0; i < count; i++) {
		if (strlen(names[i]) > NAME_BYTES)
			continue;
		uint32_t distance = edit_distance(text, names[i]);
		if (distance < best) {
			best = distance;
			nearest = names[i];
		}
	}
	return nearest;
}
