/* config.c - runs without YAML: defaults and "path=value" lines, each with overrides on top. */
#include "config/config_internal.h"

#include <string.h>

enum tarn_status config_defaults(const char *const *override, uint32_t overrides, struct host_arena *arena,
				 struct config *config)
{
	struct yaml_node *root = yaml_new(YAML_MAP, CONFIG_COMMAND_LINE, 0, arena);
	if (!root)
		return TARN_ENOMEM;
	enum tarn_status st = config_put_overrides(root, override, overrides, true, arena);
	if (st)
		return st;
	struct config_source source = { .file = CONFIG_COMMAND_LINE };
	st = config_read(root, &source, arena, config);
	if (!st && !config->name[0])
		config->name = "run";
	return st;
}

/* One "path=value" line. Unlike an override it may come only once. */
static enum tarn_status put_line(struct yaml_node *root, char *line, const char *name, uint32_t number,
				 struct host_arena *arena)
{
	char shown[YAML_SHOWN];
	char *equals = strchr(line, '=');
	if (!equals)
		return tarn_fail(TARN_EINVAL, "%s:%u:1: \"%s\" is not of the form key=value", name, number,
				 yaml_shown(line, shown, sizeof shown));
	*equals = '\0';
	const struct yaml_node *before = config_node(root, line);
	if (before)
		return tarn_fail(TARN_EINVAL, "%s:%u:1: duplicate key \"%s\"; it was first given in line %u", name,
				 number, yaml_shown(line, shown, sizeof shown), before->line);
	if (!config_find_key(line) || config_find_key(line)->type == CONFIG_NODE)
		return tarn_fail(TARN_EINVAL, "%s:%u:1: unknown key \"%s\"", name, number,
				 yaml_shown(line, shown, sizeof shown));
	return config_put_text(root, line, equals + 1, name, number, arena);
}

enum tarn_status config_from_lines(const char *lines, const char *name, const char *const *override, uint32_t overrides,
				   struct host_arena *arena, struct config *config)
{
	struct yaml_node *root = yaml_new(YAML_MAP, name, 1, arena);
	const char *file = host_arena_text(arena, name);
	if (!root || !file)
		return TARN_ENOMEM;
	uint32_t number = 1;
	for (const char *at = lines; *at; number++) {
		size_t length = strcspn(at, "\n");
		char *line = host_arena_text_n(arena, at, length);
		if (!line)
			return TARN_ENOMEM;
		enum tarn_status st = length ? put_line(root, line, file, number, arena) : TARN_OK;
		if (st)
			return st;
		at += length + (at[length] == '\n');
	}
	enum tarn_status st = config_put_overrides(root, override, overrides, false, arena);
	if (st)
		return st;
	struct config_source source = { .file = file, .complete = true };
	st = config_read(root, &source, arena, config);
	if (!st && !config->name[0])
		config->name = "run";
	return st;
}
