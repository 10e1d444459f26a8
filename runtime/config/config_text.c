/*
 * config_text.c - a run as "path=value" lines, and such lines and overrides back into a tree.
 *
 * A value is written bare where that is unmistakable, else in double quotes with the escapes \\ \" \n \r \t \xHH.
 * Lists are items with commas between, with or without [ ] around.
 */
#include "config/config_internal.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Paths on the command line go no deeper; trees from files have their own limit. */
#define MAX_PATH_DEPTH 16u

#define BLANKS " \t"

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static enum tarn_status fail_text(const char *file, uint32_t line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static enum tarn_status fail_text(const char *file, uint32_t line, const char *format, ...)
{
	char message[TARN_ERROR_BYTES];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(message, sizeof message, format, arguments);
	va_end(arguments);
	if (!line)
		return tarn_fail(TARN_EINVAL, "%s: %s", file, message);
	return tarn_fail(TARN_EINVAL, "%s:%u:1: %s", file, line, message);
}

static int hex_digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c ? strchr(digits, c) : NULL;
	return at ? (int)(at - digits) : -1;
}

/*
 * Reads one value from *at up to `stop` (or the end when stop is 0), quoted or bare, blanks around it dropped. Writes
 * it to `out`, which holds as many bytes as the text has, and moves *at behind it.
 */
static bool read_item(const char **at, const char *stop, char *out, bool *quoted)
{
	const char *in = *at;
	in += strspn(in, BLANKS);
	*quoted = *in == '"';
	if (!*quoted) {
		size_t length = strcspn(in, stop), kept = length;
		while (kept && is_blank(in[kept - 1]))
			kept--;
		memcpy(out, in, kept);
		out[kept] = '\0';
		*at = in + length;
		return true;
	}
	for (in++; *in && *in != '"'; in++) {
		if (*in != '\\') {
			*out++ = *in;
			continue;
		}
		static const char from[] = "\\\"nrt", to[] = "\\\"\n\r\t";
		const char *escape = in[1] ? strchr(from, in[1]) : NULL;
		if (escape) {
			*out++ = to[escape - from];
			in++;
		} else if (in[1] == 'x' && hex_digit(in[2]) >= 0 && hex_digit(in[3]) >= 0) {
			*out++ = (char)(hex_digit(in[2]) * 16 + hex_digit(in[3]));
			in += 3;
		} else {
			return false;
		}
	}
	*out = '\0';
	if (*in++ != '"')
		return false;
	in += strspn(in, BLANKS);
	*at = in;
	return !*in || strchr(stop, *in);
}

/* The items of a list behind its bracket, if it has one; false when the text is no list. */
static enum tarn_status list_items(const char **at, bool brackets, char *item, struct yaml_node *list,
				   struct host_arena *arena, bool *good)
{
	const char *stop = brackets ? ",]" : ",";
	struct yaml_node *last = NULL;
	bool more = **at && !(brackets && **at == ']');
	while (more) {
		struct yaml_node *node = yaml_new(YAML_SCALAR, list->file, list->line, arena);
		if (!node)
			return TARN_ENOMEM;
		*good = read_item(at, stop, item, &node->quoted);
		if (!*good)
			return TARN_OK;
		node->text = host_arena_text(arena, item);
		if (!node->text)
			return TARN_ENOMEM;
		node->parent = list;
		*(last ? &last->next : &list->first) = node;
		last = node;
		list->children++;
		more = **at == ',';
		*at += more;
	}
	*good = true;
	return TARN_OK;
}

/* A list node from "a, b" or "[a, b]"; "" and "[]" are empty. */
static enum tarn_status list_node(const char *value, const char *file, uint32_t line, struct host_arena *arena,
				  struct yaml_node **out)
{
	struct yaml_node *list = yaml_new(YAML_LIST, file, line, arena);
	char *item = host_arena_alloc(arena, strlen(value) + 1, 1);
	if (!list || !item)
		return TARN_ENOMEM;
	const char *at = value + strspn(value, BLANKS);
	bool brackets = *at == '[', good;
	at += brackets;
	at += strspn(at, BLANKS);
	enum tarn_status st = list_items(&at, brackets, item, list, arena, &good);
	if (st)
		return st;
	if (good && brackets)
		good = *at++ == ']';
	char shown[YAML_SHOWN];
	if (!good || at[strspn(at, BLANKS)])
		return fail_text(file, line, "\"%s\" is not a list; write for example [0.1, 0.2]",
				 yaml_shown(value, shown, sizeof shown));
	*out = list;
	return TARN_OK;
}

enum tarn_status config_text_node(const struct config_key *key, const char *value, const char *file, uint32_t line,
				  struct host_arena *arena, struct yaml_node **out)
{
	if (key && (key->type == CONFIG_TEXT_LIST || key->type == CONFIG_REAL_LIST || key->type == CONFIG_SIZE_LIST))
		return list_node(value, file, line, arena, out);
	struct yaml_node *node = yaml_new(YAML_SCALAR, file, line, arena);
	char *text = host_arena_alloc(arena, strlen(value) + 1, 1);
	if (!node || !text)
		return TARN_ENOMEM;
	char shown[YAML_SHOWN];
	yaml_shown(value, shown, sizeof shown);
	if (!read_item(&value, "", text, &node->quoted))
		return fail_text(file, line, "\"%s\" has a quote without its end, or an unknown escape after \\",
				 shown);
	node->text = text;
	*out = node;
	return TARN_OK;
}

static struct yaml_node *find_mutable(struct yaml_node *map, const char *key)
{
	for (struct yaml_node *child = map->first; child; child = child->next)
		if (!strcmp(child->key, key))
			return child;
	return NULL;
}

/* The map under the key, made when it is absent or empty. */
static enum tarn_status open_section(struct yaml_node *map, const char *key, const char *file, uint32_t line,
				     struct host_arena *arena, struct yaml_node **out)
{
	struct yaml_node *child = find_mutable(map, key);
	if (child && child->kind != YAML_MAP && (child->kind == YAML_LIST || child->text[0]))
		return yaml_fail_value(child, "must be a map, not a %s; the %s reaches into it",
				       child->kind == YAML_LIST ? "list" : "single value", file);
	if (!child || child->kind != YAML_MAP) {
		child = yaml_new(YAML_MAP, file, line, arena);
		if (!child)
			return TARN_ENOMEM;
		yaml_put(map, key, child);
	}
	*out = child;
	return TARN_OK;
}

enum tarn_status config_put_text(struct yaml_node *root, const char *path, const char *value, const char *file,
				 uint32_t line, struct host_arena *arena)
{
	char *names = host_arena_text(arena, path), *dot;
	if (!names)
		return TARN_ENOMEM;
	struct yaml_node *map = root;
	for (uint32_t depth = 0; (dot = strchr(names, '.')); names = dot + 1) {
		*dot = '\0';
		if (++depth > MAX_PATH_DEPTH)
			return fail_text(file, line, "a key with more than %u points", MAX_PATH_DEPTH);
		enum tarn_status opened = open_section(map, names, file, line, arena, &map);
		if (opened)
			return opened;
	}
	struct yaml_node *node;
	enum tarn_status st = config_text_node(config_find_key(path), value, file, line, arena, &node);
	if (st)
		return st;
	yaml_put(map, names, node);
	return TARN_OK;
}

enum tarn_status config_put_overrides(struct yaml_node *root, const char *const *override, uint32_t overrides,
				      bool network, struct host_arena *arena)
{
	for (uint32_t i = 0; i < overrides; i++) {
		char shown[YAML_SHOWN];
		const char *equals = strchr(override[i], '=');
		if (!equals)
			return fail_text(CONFIG_COMMAND_LINE, 0, "\"%s\" is not of the form key=value",
					 yaml_shown(override[i], shown, sizeof shown));
		const char *start = override[i], *end = equals;
		while (start < end && is_blank(*start))
			start++;
		while (end > start && is_blank(end[-1]))
			end--;
		char *path = host_arena_text_n(arena, start, (size_t)(end - start));
		if (!path)
			return TARN_ENOMEM;
		if (!strncmp(path, "layers", 6) && (!path[6] || path[6] == '.'))
			return fail_text(CONFIG_COMMAND_LINE, 0, "layers can only be given in a file");
		if (!network && !strncmp(path, "model", 5) && (!path[5] || path[5] == '.'))
			return fail_text(CONFIG_COMMAND_LINE, 0, "%s: a plan has fixed the network; plan again instead",
					 yaml_shown(path, shown, sizeof shown));
		enum tarn_status st = config_put_text(root, path, equals + 1, CONFIG_COMMAND_LINE, 0, arena);
		if (st)
			return st;
	}
	return TARN_OK;
}

/* A growing text. After a failure `text` is NULL and everything else does nothing. */
struct writer {
	struct host_arena *arena;
	char *text;
	size_t used, capacity;
};

static void write_bytes(struct writer *writer, const char *bytes, size_t count)
{
	if (!writer->text)
		return;
	writer->text = host_arena_grow(writer->arena, writer->text, &writer->capacity, writer->used + count + 1, 1);
	if (!writer->text)
		return;
	memcpy(writer->text + writer->used, bytes, count);
	writer->used += count;
	writer->text[writer->used] = '\0';
}

static void write_format(struct writer *writer, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void write_format(struct writer *writer, const char *format, ...)
{
	char text[512];
	va_list arguments;
	va_start(arguments, format);
	int length = vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	write_bytes(writer, text, (size_t)length);
}

/* Quotes whatever read_item would not give back as it is. */
static void write_text(struct writer *writer, const char *text, bool in_list)
{
	size_t length = strlen(text);
	bool plain = length && text[0] != '"' && !is_blank(text[0]) && !is_blank(text[length - 1]) &&
		     !(in_list && strpbrk(text, ",[]\""));
	for (size_t i = 0; i < length; i++)
		plain = plain && (unsigned char)text[i] >= 0x20 && text[i] != 0x7F;
	if (plain) {
		write_bytes(writer, text, length);
		return;
	}
	write_bytes(writer, "\"", 1);
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];
		if (c == '"' || c == '\\')
			write_format(writer, "\\%c", c);
		else if (c < 0x20 || c == 0x7F)
			write_format(writer, "\\x%02x", c);
		else
			write_bytes(writer, &text[i], 1);
	}
	write_bytes(writer, "\"", 1);
}

static void write_value(struct writer *writer, const struct config_key *key, const void *field)
{
	const struct text_list *texts = field;
	const struct real_list *reals = field;
	const struct size_list *sizes = field;
	switch (key->type) {
	case CONFIG_TEXT:
		write_text(writer, *(const char *const *)field, false);
		break;
	case CONFIG_REAL:
		write_format(writer, "%.17g", *(const double *)field);
		break;
	case CONFIG_INTEGER:
		if (key->width == 8)
			write_format(writer, "%llu", (unsigned long long)*(const uint64_t *)field);
		else if (key->low < 0)
			write_format(writer, "%d", *(const int32_t *)field);
		else
			write_format(writer, "%u", *(const uint32_t *)field);
		break;
	case CONFIG_BOOL:
		write_format(writer, "%s", *(const bool *)field ? "true" : "false");
		break;
	case CONFIG_BYTES:
		if (*(const uint64_t *)field == UINT64_MAX)
			write_format(writer, "unlimited");
		else if (*(const uint64_t *)field == BUDGET_AUTO &&
			 (!strcmp(key->path, "memory.budget") || !strcmp(key->path, "memory.workspace_cap")))
			write_format(writer, "auto");
		else
			write_format(writer, "%llu B", (unsigned long long)*(const uint64_t *)field);
		break;
	case CONFIG_CHOICE:
		write_format(writer, "%s", key->choices[*(const uint32_t *)field]);
		break;
	case CONFIG_TEXT_LIST:
		for (uint32_t i = 0; i < texts->count; i++) {
			write_format(writer, i ? "," : "");
			write_text(writer, texts->item[i], true);
		}
		break;
	case CONFIG_REAL_LIST:
		for (uint32_t i = 0; i < reals->count; i++)
			write_format(writer, "%s%.17g", i ? "," : "", reals->item[i]);
		break;
	case CONFIG_SIZE_LIST:
		for (uint32_t i = 0; i < sizes->count; i++)
			write_format(writer, "%s%u", i ? "," : "", sizes->item[i]);
		break;
	case CONFIG_NODE:
		break;
	}
}

char *config_to_lines(const struct config *config, struct host_arena *arena)
{
	struct writer writer = { .arena = arena, .capacity = 4096 };
	writer.text = host_arena_alloc(arena, writer.capacity, 1);
	/* The decimal sign is a point whatever the locale of the program around us. */
	locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(plain);
	for (uint32_t i = 0; i < config_schema_keys; i++) {
		const struct config_key *key = &config_schema[i];
		const char *field = (const char *)config + key->offset;
		/* Names of files that the type of data does not have are empty, which may not be written. */
		bool absent = key->type == CONFIG_TEXT && key->low > 0 && !**(const char *const *)field;
		if (key->type == CONFIG_NODE || absent)
			continue;
		write_format(&writer, "%s=", key->path);
		write_value(&writer, key, field);
		write_format(&writer, "\n");
	}
	uselocale(before);
	if (plain)
		freelocale(plain);
	return writer.text;
}
