/* config_help.c - the schema for people (text, Markdown) and for editors (JSON Schema, draft 7). */
#include "config/config_internal.h"

#include <float.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#define RANGE_TEXT 256
#define LINE_BYTES 100u /* text on a terminal is wrapped here */

static size_t section_bytes(const char *path)
{
	const char *dot = strchr(path, '.');
	return dot ? (size_t)(dot - path) : 0;
}

static const char *type_name(const struct config_key *key)
{
	static const char *const names[] = {
		[CONFIG_TEXT] = "text",
		[CONFIG_REAL] = "number",
		[CONFIG_INTEGER] = "whole number",
		[CONFIG_BOOL] = "yes or no",
		[CONFIG_BYTES] = "size",
		[CONFIG_CHOICE] = "choice",
		[CONFIG_TEXT_LIST] = "list of text",
		[CONFIG_REAL_LIST] = "list of numbers",
		[CONFIG_SIZE_LIST] = "list of whole numbers",
		[CONFIG_NODE] = "list or map",
	};
	return key->type == CONFIG_NODE ? key->unit : names[key->type];
}

/* "0 to 1", "at least 1", the choices, or "" where everything goes. */
static const char *range_text(const struct config_key *key, char *buffer, size_t size)
{
	size_t used = 0;
	buffer[0] = '\0';
	switch (key->type) {
	case CONFIG_CHOICE:
		for (uint32_t i = 0; i < key->n_choices && used < size; i++)
			used += (size_t)snprintf(buffer + used, size - used, "%s%s", i ? ", " : "", key->choices[i]);
		break;
	case CONFIG_BOOL:
		snprintf(buffer, size, "true, false, yes, no");
		break;
	case CONFIG_BYTES:
		snprintf(buffer, size, "%s", key->low > 0 ? "more than 0, unlimited or auto" : "0 or more");
		break;
	case CONFIG_REAL:
	case CONFIG_INTEGER:
	case CONFIG_REAL_LIST:
	case CONFIG_SIZE_LIST:
		snprintf(buffer, size, "%.16g to %.16g", key->low, key->high);
		break;
	default:
		break;
	}
	return buffer;
}

static const char *default_text(const struct config_key *key)
{
	if (!key->default_text)
		return key->type != CONFIG_NODE ? "required" : strchr(key->path, '.') ? "none" : "one of layers, model";
	return *key->default_text ? key->default_text : "\"\"";
}

/* Words of a help text in lines of LINE_BYTES, each behind `indent` blanks. */
static void print_wrapped(FILE *out, const char *text, int indent)
{
	size_t column = 0, width = LINE_BYTES - (size_t)indent;
	while (*text) {
		size_t word = strcspn(text, " ");
		if (column && column + 1 + word > width) {
			fputc('\n', out);
			column = 0;
		}
		fprintf(out, "%*s%.*s", column ? 1 : indent, "", (int)word, text);
		column += word + (column > 0);
		text += word + (text[word] == ' ');
	}
	fputc('\n', out);
}

/* `optimizer: {schedule: {type: cosine}}` from the path and the example. */
static void print_example(FILE *out, const struct config_key *key)
{
	const char *at = key->path;
	uint32_t open = 0;
	for (const char *dot; (dot = strchr(at, '.')); at = dot + 1, open++)
		fprintf(out, "%.*s: {", (int)(dot - at), at);
	fprintf(out, "%s: %s", at, key->example);
	while (open--)
		fputc('}', out);
}

static void print_key(FILE *out, const struct config_key *key)
{
	char range[RANGE_TEXT];
	range_text(key, range, sizeof range);
	fprintf(out, "%s\n", key->path);
	print_wrapped(out, key->help, 4);
	fprintf(out, "    type     %s", type_name(key));
	if (key->type != CONFIG_TEXT && key->type != CONFIG_BOOL && key->type != CONFIG_CHOICE &&
	    key->type != CONFIG_NODE)
		fprintf(out, " (%s)", key->unit);
	fputc('\n', out);
	if (*range)
		fprintf(out, "    values   %s\n", range);
	fprintf(out, "    default  %s\n    example  ", default_text(key));
	print_example(out, key);
	fputc('\n', out);
}

static void print_table(FILE *out, const char *section)
{
	size_t length = strlen(section);
	for (uint32_t i = 0; i < config_schema_keys; i++) {
		const struct config_key *key = &config_schema[i];
		if (section_bytes(key->path) != length || strncmp(key->path, section, length))
			continue;
		char range[RANGE_TEXT], type[RANGE_TEXT + 64];
		range_text(key, range, sizeof range);
		bool named = key->type == CONFIG_CHOICE || key->type == CONFIG_BOOL;
		if (named)
			snprintf(type, sizeof type, "%s", range);
		else if (*range)
			snprintf(type, sizeof type, "%s (%s), %s", type_name(key), key->unit, range);
		else
			snprintf(type, sizeof type, "%s", type_name(key));
		fprintf(out, "  %-34s default %s\n", key->path, default_text(key));
		print_wrapped(out, type, 6);
		print_wrapped(out, key->help, 6);
	}
}

/* Calls `visit` for each section in the order of the schema; the keys at the top come first, as "". */
static void each_section(FILE *out, void (*visit)(FILE *out, const char *section))
{
	visit(out, "");
	const char *before = "";
	for (uint32_t i = 0; i < config_schema_keys; i++) {
		const char *path = config_schema[i].path;
		size_t length = section_bytes(path);
		if (!length || (section_bytes(before) == length && !strncmp(before, path, length)))
			continue;
		char section[64];
		snprintf(section, sizeof section, "%.*s", (int)length, path);
		visit(out, section);
		before = path;
	}
}

static void print_section(FILE *out, const char *section)
{
	fprintf(out, "%s%s\n", *section ? section : "top level", *section ? ":" : "");
	print_table(out, section);
	fputc('\n', out);
}

enum tarn_status config_help(FILE *out, const char *key)
{
	if (!key) {
		fputs("A configuration is one YAML file. Every key can also be given on the command line, as in\n"
		      "memory.budget=\"24 MiB\"; what is given there wins over the file. GB = 10^9 bytes, GiB = "
		      "2^30.\n\n",
		      out);
		each_section(out, print_section);
		return TARN_OK;
	}
	const struct config_key *found = config_find_key(key);
	if (found) {
		print_key(out, found);
		return TARN_OK;
	}
	if (!config_is_section(key)) {
		char shown[YAML_SHOWN], suggestion[CONFIG_SUGGESTION];
		return tarn_fail(TARN_EINVAL, "unknown key \"%s\"%s", yaml_shown(key, shown, sizeof shown),
				 config_suggest(key, suggestion, sizeof suggestion));
	}
	size_t length = strlen(key);
	for (uint32_t i = 0; i < config_schema_keys; i++)
		if (!strncmp(config_schema[i].path, key, length) && config_schema[i].path[length] == '.')
			print_key(out, &config_schema[i]);
	return TARN_OK;
}

/* A table cell: a bar would end it. */
static void print_cell(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '|')
			fputc('\\', out);
		fputc(*text, out);
	}
}

static void markdown_section(FILE *out, const char *section)
{
	size_t length = strlen(section);
	if (length)
		fprintf(out, "## `%s:`\n\n", section);
	else
		fputs("## At the top level\n\n", out);
	fputs("| key | type | values | default | meaning | example |\n|---|---|---|---|---|---|\n", out);
	for (uint32_t i = 0; i < config_schema_keys; i++) {
		const struct config_key *key = &config_schema[i];
		if (section_bytes(key->path) != length || strncmp(key->path, section, length))
			continue;
		char range[RANGE_TEXT];
		fprintf(out, "| `%s` | %s | ", key->path, type_name(key));
		print_cell(out, range_text(key, range, sizeof range));
		fprintf(out, " | `%s` | ", default_text(key));
		print_cell(out, key->help);
		fputs(" | `", out);
		print_example(out, key);
		fputs("` |\n", out);
	}
	fputc('\n', out);
}

void config_markdown(FILE *out)
{
	fputs("A run is described by one YAML file. Its keys are grouped in maps; a key is named here by its path, so "
	      "that\n"
	      "`memory.budget` is written\n\n"
	      "```yaml\nmemory:\n  budget: 24 MiB\n```\n\n"
	      "and on the command line `memory.budget=\"24 MiB\"`. What the command line says wins over the file, the "
	      "file\n"
	      "over the default. `model.` can be reached too: `model.depth=20`. Lists are written "
	      "`data.mean=[0.28]`.\n\n"
	      "Sizes carry a unit: B, kB, MB, GB, TB are powers of 1000, KiB, MiB, GiB, TiB powers of 1024. Plain "
	      "digits\n"
	      "are bytes. A letter alone (`4G`) is refused, as it could mean both. Numbers may be written `1e-3`.\n"
	      "Yes-or-no keys take true, false, yes and no; everywhere else these are plain words.\n\n"
	      "An unknown key, a key given twice, a value of the wrong kind or out of range, and a key without effect "
	      "are\n"
	      "errors with file, line and column. Anchors and aliases work; tags and merge keys are refused.\n\n",
	      out);
	each_section(out, markdown_section);
}

static void json_text(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

/* The names, and JSON's own null where a name is spelled like it: YAML reads the bare word so. */
static void json_choice(FILE *out, const struct config_key *key)
{
	fputs("\"enum\": [", out);
	for (uint32_t i = 0; i < key->n_choices; i++) {
		fputs(i ? ", " : "", out);
		json_text(out, key->choices[i]);
		if (!strcmp(key->choices[i], "null"))
			fputs(", null", out);
	}
	fputc(']', out);
}

static void json_list(FILE *out, const char *item, uint32_t limit)
{
	fprintf(out, "\"anyOf\": [%s, {\"type\": \"array\", \"maxItems\": %u, \"items\": %s}]", item, limit, item);
}

static void json_type(FILE *out, const struct config_key *key)
{
	char item[RANGE_TEXT];
	const char *type = key->type == CONFIG_REAL || key->type == CONFIG_REAL_LIST ? "number" : "integer";
	snprintf(item, sizeof item, "{\"type\": \"%s\", \"minimum\": %.17g, \"maximum\": %.17g}", type, key->low,
		 key->high);
	switch (key->type) {
	case CONFIG_TEXT:
		fprintf(out, "\"type\": \"string\", \"minLength\": %.0f, \"maxLength\": %.0f", key->low, key->high);
		break;
	case CONFIG_REAL:
	case CONFIG_INTEGER:
		fprintf(out, "%.*s", (int)strlen(item) - 2, item + 1);
		break;
	case CONFIG_BOOL:
		fputs("\"enum\": [true, false, \"yes\", \"no\"]", out);
		break;
	case CONFIG_BYTES:
		fprintf(out,
			"\"anyOf\": [{\"type\": \"integer\", \"minimum\": %.0f}, {\"type\": \"string\", \"pattern\": "
			"\"^([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)? *([kMGT]?B|[KMGT]iB)?$\"}%s]",
			key->low, key->low > 0 ? ", {\"enum\": [\"unlimited\", \"auto\"]}" : "");
		break;
	case CONFIG_CHOICE:
		json_choice(out, key);
		break;
	case CONFIG_TEXT_LIST:
		json_list(out, "{\"type\": \"string\", \"minLength\": 1}", CONFIG_MAX_LIST);
		break;
	case CONFIG_REAL_LIST:
	case CONFIG_SIZE_LIST:
		json_list(out, item, (uint32_t)(sizeof((struct real_list *)0)->item / sizeof(double)));
		break;
	case CONFIG_NODE:
		fputs(strncmp(key->unit, "list", 4) ? "\"type\": \"object\"" : "\"type\": \"array\", \"minItems\": 1",
		      out);
		break;
	}
}

static void json_indent(FILE *out, uint32_t depth)
{
	fprintf(out, "%*s", (int)depth * 2, "");
}

/* Keys that must be there directly below the section. */
static void json_required(FILE *out, const char *section)
{
	size_t length = strlen(section);
	bool any = false;
	for (uint32_t i = 0; i < config_schema_keys; i++) {
		const struct config_key *key = &config_schema[i];
		bool inside = !strncmp(key->path, section, length) && (!length || key->path[length] == '.');
		if (key->default_text || key->type == CONFIG_NODE || !inside)
			continue;
		const char *name = key->path + length + (length ? 1 : 0);
		fprintf(out, "%s\"%.*s\"", any ? ", " : ", \"required\": [", (int)strcspn(name, "."), name);
		any = true;
	}
	if (any)
		fputc(']', out);
}

/* The inside of an object's braces: the keys of a section, its sections within it. */
static void json_object(FILE *out, const char *section, uint32_t depth)
{
	size_t length = strlen(section), skip = length ? length + 1 : 0, before_bytes = 0;
	const char *before = NULL;
	fputs("\"type\": \"object\", \"additionalProperties\": false", out);
	json_required(out, section);
	fputs(", \"properties\": {", out);
	for (uint32_t i = 0; i < config_schema_keys; i++) {
		const struct config_key *key = &config_schema[i];
		if (length && (strncmp(key->path, section, length) || key->path[length] != '.'))
			continue;
		const char *name = key->path + skip;
		size_t bytes = strcspn(name, ".");
		if (before && before_bytes == bytes && !strncmp(before, name, bytes))
			continue;
		fputs(before ? ",\n" : "\n", out);
		json_indent(out, depth + 1);
		fprintf(out, "\"%.*s\": {", (int)bytes, name);
		if (name[bytes]) {
			char child[YAML_PATH];
			snprintf(child, sizeof child, "%.*s", (int)(skip + bytes), key->path);
			json_object(out, child, depth + 1);
		} else {
			fputs("\"description\": ", out);
			json_text(out, key->help);
			fputs(", ", out);
			json_type(out, key);
		}
		fputc('}', out);
		before = name;
		before_bytes = bytes;
	}
	fputc('\n', out);
	json_indent(out, depth);
	fputc('}', out);
}

void config_json_schema(FILE *out)
{
	/* The decimal sign is a point whatever the locale of the program around us. */
	locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(plain);
	fputs("{\n  \"$schema\": \"http://json-schema.org/draft-07/schema#\",\n  \"title\": \"Tarn configuration\",\n"
	      "  \"oneOf\": [{\"required\": [\"layers\"]}, {\"required\": [\"model\"]}],\n  ",
	      out);
	json_object(out, "", 1);
	fputs("\n}\n", out);
	uselocale(before);
	if (plain)
		freelocale(plain);
}
