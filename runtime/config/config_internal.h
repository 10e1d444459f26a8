/*
 * config_internal.h - what the files of config/ share; nobody else includes it.
 *
 * Every source of a run (YAML file, "path=value" lines, defaults) first becomes one tree of yaml_node; overrides are
 * put into that tree; config_read then turns it into struct config with the rules of the schema.
 */
#ifndef TARN_CONFIG_INTERNAL_H
#define TARN_CONFIG_INTERNAL_H

#include "config/config.h"
#include "config/yaml_tree.h"

/* The node->file of a value given on the command line. */
#define CONFIG_COMMAND_LINE "command line"

struct config_source {
	const char *file;      /* for messages and struct config */
	const char *directory; /* data.directory of the file is relative to it; NULL: to the current directory */
	bool complete;         /* keys without a default must be there */
};

/* config_read.c: the tree as a struct config. Writes *config only on success. */
enum tarn_status config_read(const struct yaml_node *root, const struct config_source *source, struct host_arena *arena,
			     struct config *config);
/* The node of a path; NULL when absent. */
const struct yaml_node *config_node(const struct yaml_node *root, const char *path);
bool config_on_command_line(const struct yaml_node *node);

/* config_keys.c: refuses keys that the schema does not know. */
enum tarn_status config_check_keys(const struct yaml_node *root);
const struct config_key *config_find_key(const char *path);
/* True when some key's path starts with "path.". */
bool config_is_section(const char *path);
/* "; did you mean ..." for a path that is not in the schema. Returns buffer. */
#define CONFIG_SUGGESTION 512
const char *config_suggest(const char *path, char *buffer, size_t size);

/* config_text.c: puts one value, written as text, into the tree; lists are split by the key's type. */
enum tarn_status config_put_text(struct yaml_node *root, const char *path, const char *value, const char *file,
				 uint32_t line, struct host_arena *arena);
/* "path=value" from the command line. `network`: model.* may be reached. */
enum tarn_status config_put_overrides(struct yaml_node *root, const char *const *override, uint32_t overrides,
				      bool network, struct host_arena *arena);
/* The node of a value written as text; `key` NULL: a plain scalar. */
enum tarn_status config_text_node(const struct config_key *key, const char *value, const char *file, uint32_t line,
				  struct host_arena *arena, struct yaml_node **out);

#endif
