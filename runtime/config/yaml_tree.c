/* yaml_tree.c - libyaml's events to a tree of nodes; every limit against hostile files is here. */
#include "config/yaml_tree.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* One open list or map. In a map, `key` waits for its value. */
struct frame {
	struct yaml_node *node, *last;
	const char *key;
	uint32_t key_line, key_column;
};

struct anchor {
	const char *name;
	struct yaml_node *node;
};

struct reader {
	yaml_parser_t parser;
	struct host_arena *arena;
	const char *name, *text; /* of the file; without byte order mark */
	size_t bytes;
	struct frame frame[YAML_MAX_DEPTH];
	uint32_t depth, nodes, max_nodes;
	struct anchor anchor[YAML_MAX_ANCHORS];
	uint32_t anchors;
	struct yaml_node *root;
};

static enum tarn_status fail_mark(const struct reader *reader, yaml_mark_t mark, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static enum tarn_status fail_mark(const struct reader *reader, yaml_mark_t mark, const char *format, ...)
{
	char message[TARN_ERROR_BYTES];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(message, sizeof message, format, arguments);
	va_end(arguments);
	return tarn_fail(TARN_EINVAL, "%s:%zu:%zu: %s", reader->name, mark.line + 1, mark.column + 1, message);
}

/* Start of a line counted from 0, or the end of the text. */
static const char *line_start(const struct reader *reader, size_t line)
{
	const char *at = reader->text, *end = reader->text + reader->bytes;
	for (; line && at < end; line--) {
		size_t rest = (size_t)(end - at), length = 0;
		while (length < rest && at[length] != '\n' && at[length] != '\r')
			length++;
		at += length;
		if (at < end)
			at += *at == '\r' && at + 1 < end && at[1] == '\n' ? 2 : 1;
	}
	return at;
}

/* Looks for a tab in the blank start of the line; writes its column. */
static bool tab_indents(const struct reader *reader, size_t line, size_t *column)
{
	const char *start = line_start(reader, line), *end = reader->text + reader->bytes;
	for (const char *at = start; at < end && (*at == ' ' || *at == '\t'); at++)
		if (*at == '\t') {
			*column = (size_t)(at - start);
			return true;
		}
	return false;
}

static enum tarn_status fail_encoding(const struct reader *reader)
{
	size_t offset = reader->parser.problem_offset;
	if (offset > reader->bytes)
		offset = reader->bytes;
	yaml_mark_t mark = { 0, 0, 0 };
	for (size_t i = 0; i < offset; i++) {
		mark.column++;
		if (reader->text[i] == '\n') {
			mark.line++;
			mark.column = 0;
		}
	}
	if (offset < reader->bytes && !reader->text[offset])
		return fail_mark(reader, mark, "zero byte in the text; a configuration is plain UTF-8 text");
	return fail_mark(reader, mark, "%s; a configuration is plain UTF-8 text", reader->parser.problem);
}

/* Turns libyaml's complaint into one line. */
static enum tarn_status fail_syntax(const struct reader *reader)
{
	const yaml_parser_t *parser = &reader->parser;
	if (parser->error == YAML_MEMORY_ERROR)
		return tarn_fail(TARN_ENOMEM, "%s: no host memory to read it", reader->name);
	if (parser->error == YAML_READER_ERROR)
		return fail_encoding(reader);
	yaml_mark_t mark = parser->problem_mark;
	/* Many complaints come from a tab in front of a line; libyaml names it in few of them. */
	size_t column;
	if (tab_indents(reader, mark.line, &column)) {
		mark.column = column;
		return fail_mark(reader, mark, "tab used for indentation; use spaces");
	}
	const char *problem = parser->problem ? parser->problem : "syntax error";
	if (parser->context && parser->context_mark.line != mark.line)
		return fail_mark(reader, mark, "%s, %s that starts in line %zu", problem, parser->context,
				 parser->context_mark.line + 1);
	return fail_mark(reader, mark, "%s%s%s", problem, parser->context ? ", " : "",
			 parser->context ? parser->context : "");
}

/* Counts a node against the limit and makes it. */
static enum tarn_status new_node(struct reader *reader, yaml_mark_t mark, enum yaml_kind kind, struct yaml_node **out)
{
	if (reader->nodes == reader->max_nodes)
		return fail_mark(reader, mark, "more than %u values, aliases expanded; that is not a configuration",
				 reader->max_nodes);
	reader->nodes++;
	struct yaml_node *node = yaml_new(kind, reader->name, (uint32_t)mark.line + 1, reader->arena);
	if (!node)
		return TARN_ENOMEM;
	node->column = (uint32_t)mark.column + 1;
	*out = node;
	return TARN_OK;
}

/* Hangs a finished or just opened node below the innermost open one. */
static void attach(struct reader *reader, struct yaml_node *node)
{
	if (!reader->depth) {
		reader->root = node;
		return;
	}
	struct frame *frame = &reader->frame[reader->depth - 1];
	node->parent = frame->node;
	if (frame->node->kind == YAML_MAP) {
		node->key = frame->key;
		node->key_line = frame->key_line;
		node->key_column = frame->key_column;
		frame->key = NULL;
	}
	if (frame->last)
		frame->last->next = node;
	else
		frame->node->first = node;
	frame->last = node;
	frame->node->children++;
}

static enum tarn_status push(struct reader *reader, yaml_mark_t mark, struct yaml_node *node)
{
	if (reader->depth == YAML_MAX_DEPTH)
		return fail_mark(reader, mark, "nested deeper than %u levels", YAML_MAX_DEPTH);
	struct frame *frame = &reader->frame[reader->depth++];
	memset(frame, 0, sizeof *frame);
	frame->node = node;
	return TARN_OK;
}

static enum tarn_status remember_anchor(struct reader *reader, yaml_mark_t mark, const yaml_char_t *name,
					struct yaml_node *node)
{
	if (!name)
		return TARN_OK;
	if (reader->anchors == YAML_MAX_ANCHORS)
		return fail_mark(reader, mark, "more than %u anchors", YAML_MAX_ANCHORS);
	struct anchor *anchor = &reader->anchor[reader->anchors++];
	anchor->node = node;
	anchor->name = host_arena_text(reader->arena, (const char *)name);
	return anchor->name ? TARN_OK : TARN_ENOMEM;
}

/* A deep copy for an alias. `depth` is that of the copy's parent. */
static enum tarn_status copy_tree(struct reader *reader, yaml_mark_t mark, const struct yaml_node *from, uint32_t depth,
				  struct yaml_node **out)
{
	struct yaml_node *copy;
	if (from->kind != YAML_SCALAR && depth == YAML_MAX_DEPTH)
		return fail_mark(reader, mark, "nested deeper than %u levels", YAML_MAX_DEPTH);
	enum tarn_status st = new_node(reader, mark, from->kind, &copy);
	if (st)
		return st;
	*copy = *from;
	copy->parent = copy->first = copy->next = NULL;
	struct yaml_node **link = &copy->first;
	for (const struct yaml_node *child = from->first; child; child = child->next) {
		st = copy_tree(reader, mark, child, depth + 1, link);
		if (st)
			return st;
		(*link)->parent = copy;
		link = &(*link)->next;
	}
	*out = copy;
	return TARN_OK;
}

static enum tarn_status read_alias(struct reader *reader, const yaml_event_t *event)
{
	const char *name = (const char *)event->data.alias.anchor;
	char shown[YAML_SHOWN];
	yaml_shown(name, shown, sizeof shown);
	const struct yaml_node *target = NULL;
	for (uint32_t i = reader->anchors; i-- && !target;)
		if (!strcmp(reader->anchor[i].name, name))
			target = reader->anchor[i].node;
	if (!target)
		return fail_mark(reader, event->start_mark, "alias *%s has no anchor &%s before it", shown, shown);
	for (uint32_t i = 0; i < reader->depth; i++)
		if (reader->frame[i].node == target)
			return fail_mark(reader, event->start_mark, "alias *%s stands inside its own anchor", shown);
	struct yaml_node *copy;
	enum tarn_status st = copy_tree(reader, event->start_mark, target, reader->depth, &copy);
	if (st)
		return st;
	copy->key = NULL; /* the anchor's; a map gives it the alias's own */
	copy->key_line = copy->key_column = 0;
	attach(reader, copy);
	return TARN_OK;
}

/* Text of a scalar event; refuses an escaped zero byte, which C text cannot hold. */
static enum tarn_status scalar_text(struct reader *reader, const yaml_event_t *event, const char **out)
{
	const char *value = (const char *)event->data.scalar.value;
	size_t length = event->data.scalar.length;
	if (memchr(value, 0, length))
		return fail_mark(reader, event->start_mark, "zero byte in the text");
	*out = length ? host_arena_text_n(reader->arena, value, length) : "";
	return *out ? TARN_OK : TARN_ENOMEM;
}

static enum tarn_status read_key(struct reader *reader, struct frame *frame, const yaml_event_t *event)
{
	if (event->type != YAML_SCALAR_EVENT)
		return fail_mark(reader, event->start_mark, "a key must be a single word, not a list, map or alias");
	if (event->data.scalar.tag || event->data.scalar.anchor)
		return fail_mark(reader, event->start_mark, "a key takes no tag and no anchor");
	const char *key;
	enum tarn_status st = scalar_text(reader, event, &key);
	if (st)
		return st;
	if (!*key)
		return fail_mark(reader, event->start_mark, "empty key");
	if (!strcmp(key, "<<"))
		return fail_mark(reader, event->start_mark, "merge keys (<<) are not supported; write the keys out");
	frame->key = key;
	frame->key_line = (uint32_t)event->start_mark.line + 1;
	frame->key_column = (uint32_t)event->start_mark.column + 1;
	return TARN_OK;
}

/* A scalar, or the start of a list or map, as a value. */
static enum tarn_status read_value(struct reader *reader, const yaml_event_t *event)
{
	const yaml_char_t *anchor, *tag;
	enum yaml_kind kind;
	if (event->type == YAML_SCALAR_EVENT) {
		kind = YAML_SCALAR;
		anchor = event->data.scalar.anchor;
		tag = event->data.scalar.tag;
	} else if (event->type == YAML_SEQUENCE_START_EVENT) {
		kind = YAML_LIST;
		anchor = event->data.sequence_start.anchor;
		tag = event->data.sequence_start.tag;
	} else {
		kind = YAML_MAP;
		anchor = event->data.mapping_start.anchor;
		tag = event->data.mapping_start.tag;
	}
	if (tag)
		return fail_mark(reader, event->start_mark, "tags (!) are not supported; the type comes from the key");
	struct yaml_node *node;
	enum tarn_status st = new_node(reader, event->start_mark, kind, &node);
	if (!st && kind == YAML_SCALAR)
		st = scalar_text(reader, event, &node->text);
	if (!st)
		st = remember_anchor(reader, event->start_mark, anchor, node);
	if (st)
		return st;
	if (kind == YAML_SCALAR)
		node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	attach(reader, node);
	return kind == YAML_SCALAR ? TARN_OK : push(reader, event->start_mark, node);
}

static int compare_keys(const void *a, const void *b)
{
	const struct yaml_node *x = *(const struct yaml_node *const *)a, *y = *(const struct yaml_node *const *)b;
	int order = strcmp(x->key, y->key);
	if (order)
		return order;
	if (x->key_line != y->key_line)
		return x->key_line < y->key_line ? -1 : 1;
	return x->key_column < y->key_column ? -1 : x->key_column > y->key_column;
}

/* Sorting instead of comparing each pair: a map may be large. */
static enum tarn_status check_duplicates(struct reader *reader, const struct yaml_node *map)
{
	if (map->children < 2)
		return TARN_OK;
	struct host_mark mark = host_arena_mark(reader->arena);
	const struct yaml_node **sorted = HOST_ARRAY(reader->arena, map->children, const struct yaml_node *);
	if (!sorted)
		return TARN_ENOMEM;
	uint32_t n = 0;
	for (const struct yaml_node *child = map->first; child; child = child->next)
		sorted[n++] = child;
	qsort(sorted, n, sizeof *sorted, compare_keys);
	const struct yaml_node *first = NULL, *second = NULL;
	for (uint32_t i = 1; i < n; i++)
		if (!strcmp(sorted[i - 1]->key, sorted[i]->key) &&
		    (!second || sorted[i]->key_line < second->key_line)) {
			first = sorted[i - 1];
			second = sorted[i];
		}
	host_arena_release(reader->arena, mark);
	char shown[YAML_SHOWN];
	if (second)
		return yaml_fail_key(second, "duplicate key \"%s\"; it was first given in line %u, column %u",
				     yaml_shown(second->key, shown, sizeof shown), first->key_line, first->key_column);
	return TARN_OK;
}

static enum tarn_status read_event(struct reader *reader, const yaml_event_t *event)
{
	struct frame *frame = reader->depth ? &reader->frame[reader->depth - 1] : NULL;
	switch (event->type) {
	case YAML_DOCUMENT_START_EVENT:
		if (reader->root)
			return fail_mark(reader, event->start_mark,
					 "a second document starts here; a file holds one run");
		return TARN_OK;
	case YAML_MAPPING_END_EVENT:
		reader->depth--;
		return check_duplicates(reader, frame->node);
	case YAML_SEQUENCE_END_EVENT:
		reader->depth--;
		return TARN_OK;
	case YAML_SCALAR_EVENT:
	case YAML_SEQUENCE_START_EVENT:
	case YAML_MAPPING_START_EVENT:
	case YAML_ALIAS_EVENT:
		if (frame && frame->node->kind == YAML_MAP && !frame->key)
			return read_key(reader, frame, event);
		return event->type == YAML_ALIAS_EVENT ? read_alias(reader, event) : read_value(reader, event);
	default:
		return TARN_OK;
	}
}

static enum tarn_status read_events(struct reader *reader)
{
	for (;;) {
		yaml_event_t event;
		if (!yaml_parser_parse(&reader->parser, &event))
			return fail_syntax(reader);
		bool end = event.type == YAML_STREAM_END_EVENT;
		enum tarn_status st = read_event(reader, &event);
		yaml_event_delete(&event);
		if (st)
			return st;
		if (end)
			break;
	}
	const struct yaml_node *root = reader->root;
	if (!root || (root->kind == YAML_SCALAR && !root->text[0]))
		return tarn_fail(TARN_EINVAL,
				 "%s:1:1: the file is empty; a run needs at least data: and layers: or model:, a graph "
				 "nodes: and targets:",
				 reader->name);
	return TARN_OK;
}

static enum tarn_status parse(const char *text, size_t bytes, const char *name, uint32_t max_nodes, size_t max_bytes,
			      struct host_arena *arena, struct yaml_node **root)
{
	if (bytes > max_bytes)
		return tarn_fail(TARN_EINVAL, "%s: %zu bytes are too long for a configuration; the limit is %zu", name,
				 bytes, max_bytes);
	if (bytes >= 2 && (!memcmp(text, "\xFF\xFE", 2) || !memcmp(text, "\xFE\xFF", 2)))
		return tarn_fail(TARN_EINVAL, "%s:1:1: the file is UTF-16; save it as UTF-8", name);
	size_t mark = bytes >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3) ? 3 : 0;
	struct reader *reader = HOST_NEW(arena, struct reader);
	if (!reader)
		return TARN_ENOMEM;
	reader->arena = arena;
	reader->max_nodes = max_nodes;
	reader->name = host_arena_text(arena, name);
	reader->text = text + mark;
	reader->bytes = bytes - mark;
	if (!reader->name)
		return TARN_ENOMEM;
	if (!yaml_parser_initialize(&reader->parser))
		return tarn_fail(TARN_ENOMEM, "%s: no host memory to read it", name);
	yaml_parser_set_encoding(&reader->parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&reader->parser, (const unsigned char *)reader->text, reader->bytes);
	enum tarn_status st = read_events(reader);
	if (!st)
		*root = reader->root;
	yaml_parser_delete(&reader->parser);
	return st;
}

enum tarn_status yaml_parse(const char *text, size_t bytes, const char *name, struct host_arena *arena,
			    struct yaml_node **root)
{
	return parse(text, bytes, name, YAML_MAX_NODES, YAML_MAX_BYTES, arena, root);
}

/* The whole file; one byte more than the limit is enough to see that it is too long. */
static enum tarn_status read_file(FILE *file, const char *path, size_t max_bytes, struct host_arena *arena, char **text,
				  size_t *bytes)
{
	size_t capacity = 0, used = 0;
	char *buffer = NULL;
	while (used <= max_bytes) {
		buffer = host_arena_grow(arena, buffer, &capacity, used + 65536, 1);
		if (!buffer)
			return TARN_ENOMEM;
		size_t got = fread(buffer + used, 1, capacity - used, file);
		used += got;
		if (!got)
			break;
	}
	if (ferror(file))
		return tarn_fail(TARN_EIO, "%s: cannot read: %s", path, strerror(errno));
	*text = buffer;
	*bytes = used;
	return TARN_OK;
}

/*
 * Files of this program that are no configuration: a plan begins with PLAN_MAGIC (plan/plan.h), a snapshot with the
 * length of its header and the header's brace (exec/safetensors.h). Both have zero bytes there, which no text has.
 */
static enum tarn_status refuse_foreign(const char *path, const char *text, size_t bytes)
{
	static const char plan[] = { 'T', 'A', 'R', 'N', 'P', 'L', 'A', 'N' };
	if (bytes > 12 && !memcmp(text, plan, sizeof plan) && !text[11])
		return tarn_fail(TARN_EINVAL, "%s: this is a plan file, not a configuration; run it with --plan %s",
				 path, path);
	uint64_t length = 0;
	for (size_t i = 8; bytes > 8 && i-- > 0;)
		length = length << 8 | (uint8_t)text[i];
	if (bytes > 8 && text[8] == '{' && !text[7] && length <= bytes - 8)
		return tarn_fail(
			TARN_EINVAL,
			"%s: this is a snapshot (safetensors), not a configuration; --resume takes it, beside a "
			"configuration or a plan",
			path);
	return TARN_OK;
}

enum tarn_status yaml_load_large(const char *path, uint32_t max_nodes, size_t max_bytes, struct host_arena *arena,
				 struct yaml_node **root)
{
	FILE *file = fopen(path, "rb");
	if (!file)
		return tarn_fail(TARN_EIO, "%s: cannot open: %s", path, strerror(errno));
	char *text = NULL;
	size_t bytes = 0;
	enum tarn_status st = read_file(file, path, max_bytes, arena, &text, &bytes);
	fclose(file);
	if (!st)
		st = refuse_foreign(path, text, bytes);
	return st ? st : parse(text, bytes, path, max_nodes, max_bytes, arena, root);
}

enum tarn_status yaml_load(const char *path, struct host_arena *arena, struct yaml_node **root)
{
	return yaml_load_large(path, YAML_MAX_NODES, YAML_MAX_BYTES, arena, root);
}
