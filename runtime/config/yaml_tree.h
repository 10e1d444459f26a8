/*
 * yaml_tree.h - a YAML file as a tree whose nodes know their line and column.
 *
 * One document a file, read with libyaml's event parser. Refused with "file:line:column: ...": syntax errors (tabs used
 * for indentation are named as such), duplicate keys (both lines), anchors/aliases are expanded with a limit on
 * the number of nodes, a second document, an empty file, keys that are not scalars. CRLF and a UTF-8 byte order
 * mark are accepted. Values stay text: types come from the schema that reads them, so `no` or `off` stay names
 * where a name is meant (YAML 1.1's implicit booleans do not exist here).
 *
 * The readers below give one line "file:line:column: path: what is wrong, what would be right" and TARN_EINVAL.
 * yaml_tree.c is the parser (libyaml); everything else lies in yaml_node.c and needs no library, so that a build
 * without YAML reads values with the same rules.
 */
#ifndef TARN_CONFIG_YAML_TREE_H
#define TARN_CONFIG_YAML_TREE_H

#include "base/bytes.h"
#include "base/host_arena.h"

#include <stdbool.h>

enum yaml_kind { YAML_SCALAR, YAML_LIST, YAML_MAP };

struct yaml_node {
	enum yaml_kind kind;
	uint32_t line, column; /* from 1; 0: given on the command line */
	const char *file;      /* for messages; "command line" for an override */
	const char *key;       /* in a map, the key; NULL in a list and at the root */
	uint32_t key_line, key_column;
	const char *text;                        /* scalar: its text; "" for an empty value */
	bool quoted;                             /* the scalar stood in quotes */
	struct yaml_node *parent, *first, *next; /* children in the file's order */
	uint32_t children;
};

/* Limits against files made to exhaust the reader. Aliases count with every node that they repeat. */
#define YAML_MAX_NODES 1000000u
#define YAML_MAX_DEPTH 100u
#define YAML_MAX_ANCHORS 1000u
#define YAML_MAX_BYTES ((size_t)64 << 20)

/* Reads the file; *root is owned by the arena. TARN_EIO when it cannot be opened, TARN_EINVAL otherwise. */
enum tarn_status yaml_load(const char *path, struct host_arena *arena, struct yaml_node **root);
/* The same for files that a program wrote, with up to so many values and bytes. */
enum tarn_status yaml_load_large(const char *path, uint32_t max_nodes, size_t max_bytes, struct host_arena *arena,
				 struct yaml_node **root);
/* The same from memory; `name` stands for the file in messages. */
enum tarn_status yaml_parse(const char *text, size_t bytes, const char *name, struct host_arena *arena,
			    struct yaml_node **root);

/* Child of a map by key; NULL when absent. */
const struct yaml_node *yaml_find(const struct yaml_node *map, const char *key);

/* tarn_fail(TARN_EINVAL, "file:line:column: ...") at the node's place; "command line: ..." when line is 0. */
enum tarn_status yaml_fail(const struct yaml_node *node, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same at the place of the node's key. */
enum tarn_status yaml_fail_key(const struct yaml_node *node, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The same at the node's place with its path in front: "file:line:column: layers[2].kernel: ...". */
enum tarn_status yaml_fail_value(const struct yaml_node *node, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Where a node stands in its tree, "optimizer.schedule.type" or "layers[2].kernel"; "" for the root. Returns buffer. */
#define YAML_PATH 256
const char *yaml_path(const struct yaml_node *node, char *buffer, size_t size);

/* Text from a file made fit for a one-line message: control bytes replaced, long text cut. Returns buffer. */
#define YAML_SHOWN 72
const char *yaml_shown(const char *text, char *buffer, size_t size);

/*
 * Trees made by hand, as overrides need. yaml_new: NULL when the host has no memory. yaml_put hangs the child into
 * the map under the key, in the place of an earlier child with that key; in a list `key` is NULL and it goes last.
 */
struct yaml_node *yaml_new(enum yaml_kind kind, const char *file, uint32_t line, struct host_arena *arena);
void yaml_put(struct yaml_node *parent, const char *key, struct yaml_node *child);

/*
 * Typed readers. `node` must be a scalar (else the message says "must be a number, not a list").
 * Numbers: 1e-3, 1E-3, .001, 1.0e-3, +1e-3 all work; "1e-3x", "1,5", "inf", "nan", "0x10" are refused with their text.
 * Integers: digits only, with an optional sign. Booleans: true/false/yes/no, nothing else.
 */
enum tarn_status yaml_read_real(const struct yaml_node *node, double low, double high, double *out);
enum tarn_status yaml_read_integer(const struct yaml_node *node, int64_t low, int64_t high, int64_t *out);
enum tarn_status yaml_read_bool(const struct yaml_node *node, bool *out);
enum tarn_status yaml_read_bytes(const struct yaml_node *node, uint64_t *out);
/* One of names[0..count); writes its index. The message lists the choices and suggests the nearest. */
enum tarn_status yaml_read_choice(const struct yaml_node *node, const char *const *names, uint32_t count,
				  uint32_t *out);

/* The nearest of names[] within an edit distance of a third of the length, or NULL. For "did you mean". */
const char *nearest_name(const char *text, const char *const *names, uint32_t count);

#endif
