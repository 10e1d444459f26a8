/* config_keys.c - refuses keys that the schema does not know, and guesses what was meant. */
#include "config/config_internal.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* More than the schema has names at one level, or last names of paths. */
#define MAX_NAMES 128u

/* What other programs call our keys. The last name of a path is looked up. */
static const struct synonym {
	const char *word, *path;
} synonyms[] = {
	{ "lr", "optimizer.learning_rate" },
	{ "rate", "optimizer.learning_rate" },
	{ "optimiser", "optimizer" },
	{ "optim", "optimizer" },
	{ "lr_schedule", "optimizer.schedule" },
	{ "scheduler", "optimizer.schedule" },
	{ "warmup", "optimizer.schedule.warmup_steps" },
	{ "gamma", "optimizer.schedule.step_factor" },
	{ "wd", "optimizer.weight_decay" },
	{ "l2", "optimizer.weight_decay" },
	{ "eps", "optimizer.epsilon" },
	{ "betas", "optimizer.beta1" },
	{ "clip", "optimizer.clip_norm" },
	{ "clip_gradient", "optimizer.clip_norm" },
	{ "batch_size", "data.batch" },
	{ "batchsize", "data.batch" },
	{ "minibatch", "data.batch" },
	{ "gradient_accumulation", "train.accumulate" },
	{ "gradient_accumulation_steps", "train.accumulate" },
	{ "accumulation_steps", "train.accumulate" },
	{ "accumulate_grad_batches", "train.accumulate" },
	{ "micro_batches", "memory.microbatches" },
	{ "micro_batch", "memory.microbatches" },
	{ "dataset", "data" },
	{ "num_classes", "data.classes" },
	{ "path", "data.directory" },
	{ "root", "data.directory" },
	{ "dir", "data.directory" },
	{ "data_dir", "data.directory" },
	{ "input_shape", "data.shape" },
	{ "normalize", "data.mean" },
	{ "augmentation", "data.augment" },
	{ "memory_limit", "memory.budget" },
	{ "limit", "memory.budget" },
	{ "max_memory", "memory.budget" },
	{ "workspace", "memory.workspace_cap" },
	{ "workspace_limit", "memory.workspace_cap" },
	{ "offloading", "memory.offload" },
	{ "cpu_offload", "memory.offload" },
	{ "strategy", "memory.recompute" },
	{ "checkpoint", "memory.recompute" },
	{ "checkpointing", "memory.recompute" },
	{ "rematerialization", "memory.recompute" },
	{ "criterion", "network.loss" },
	{ "net", "network" },
	{ "arch", "model" },
	{ "architecture", "model" },
	{ "training", "train" },
	{ "trainer", "train" },
	{ "num_epochs", "train.epochs" },
	{ "max_epochs", "train.epochs" },
	{ "steps", "train.max_steps" },
	{ "iterations", "train.max_steps" },
	{ "random_seed", "train.seed" },
	{ "num_threads", "train.threads" },
	{ "workers", "train.threads" },
	{ "save", "train.snapshot" },
	{ "log_interval", "train.log_every" },
	{ "logdir", "train.run" },
	{ "log_dir", "train.run" },
	{ "run_dir", "train.run" },
	{ "output_dir", "train.run" },
	{ "backend", "device.driver" },
	{ "dtype", "precision.compute" },
	{ "amp", "precision.compute" },
	{ "mixed_precision", "precision.compute" },
};

const struct config_key *config_find_key(const char *path)
{
	for (uint32_t i = 0; i < config_schema_keys; i++)
		if (!strcmp(config_schema[i].path, path))
			return &config_schema[i];
	return NULL;
}

bool config_is_section(const char *path)
{
	size_t length = strlen(path);
	for (uint32_t i = 0; i < config_schema_keys; i++)
		if (!strncmp(config_schema[i].path, path, length) && config_schema[i].path[length] == '.')
			return true;
	return false;
}

static const char *last_name(const char *path)
{
	const char *dot = strrchr(path, '.');
	return dot ? dot + 1 : path;
}

/* Name number `index` of those directly below the section ("" for the top), each once; false when there are no more. */
static bool child_name(const char *section, uint32_t index, char *name, size_t size)
{
	size_t length = strlen(section), skip = length ? length + 1 : 0;
	const char *before = NULL;
	size_t before_bytes = 0;
	for (uint32_t i = 0; i < config_schema_keys; i++) {
		const char *path = config_schema[i].path;
		if (length && (strncmp(path, section, length) || path[length] != '.'))
			continue;
		const char *start = path + skip;
		size_t bytes = strcspn(start, ".");
		/* The keys of a section stand together in the schema. */
		if (before && before_bytes == bytes && !strncmp(before, start, bytes))
			continue;
		before = start;
		before_bytes = bytes;
		if (!index--) {
			snprintf(name, size, "%.*s", (int)bytes, start);
			return true;
		}
	}
	return false;
}

/* The keys with this last name, whatever their section: "a.x or b.x"; false when there is none. */
static bool find_elsewhere(const char *name, char *list, size_t size)
{
	size_t used = 0;
	for (uint32_t i = 0; i < config_schema_keys; i++)
		if (!strcasecmp(last_name(config_schema[i].path), name) && used < size)
			used += (size_t)snprintf(list + used, size - used, "%s\"%s\"", used ? " or " : "",
						 config_schema[i].path);
	return used;
}

/* The nearest name below the section, as a path. */
static bool find_sibling(const char *section, const char *name, char *path, size_t size)
{
	char text[MAX_NAMES][64];
	const char *names[MAX_NAMES];
	uint32_t count = 0;
	while (count < MAX_NAMES && child_name(section, count, text[count], sizeof text[count])) {
		names[count] = text[count];
		count++;
	}
	const char *nearest = nearest_name(name, names, count);
	if (nearest)
		snprintf(path, size, "\"%s%s%s\"", section, *section ? "." : "", nearest);
	return nearest;
}

static bool find_anywhere(const char *name, char *path, size_t size)
{
	const char *names[MAX_NAMES];
	uint32_t count = 0;
	for (uint32_t i = 0; i < config_schema_keys && count < MAX_NAMES; i++)
		names[count++] = last_name(config_schema[i].path);
	const char *nearest = nearest_name(name, names, count);
	return nearest && find_elsewhere(nearest, path, size);
}

const char *config_suggest(const char *path, char *buffer, size_t size)
{
	char section[YAML_PATH], found[CONFIG_SUGGESTION - 64];
	const char *name = last_name(path);
	snprintf(section, sizeof section, "%.*s", name == path ? 0 : (int)(name - path - 1), path);
	if (*section && !config_is_section(section))
		section[0] = '\0';
	for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
		if (!strcasecmp(synonyms[i].word, name)) {
			snprintf(buffer, size, "; did you mean \"%s\"?", synonyms[i].path);
			return buffer;
		}
	if (find_elsewhere(name, found, sizeof found) || find_sibling(section, name, found, sizeof found) ||
	    find_anywhere(name, found, sizeof found)) {
		snprintf(buffer, size, "; did you mean %s?", found);
		return buffer;
	}
	char child[64];
	size_t used = (size_t)snprintf(buffer, size, "; %s%s has ", *section ? section : "the top level",
				       *section ? ":" : "");
	for (uint32_t i = 0; used < size && child_name(section, i, child, sizeof child); i++)
		used += (size_t)snprintf(buffer + used, size - used, "%s%s", i ? ", " : "", child);
	return buffer;
}

static enum tarn_status fail_unknown(const struct yaml_node *node, const char *path)
{
	char shown[YAML_PATH], suggestion[CONFIG_SUGGESTION];
	yaml_shown(path, shown, sizeof shown);
	if (strchr(node->key, '.'))
		return yaml_fail_key(node,
				     "unknown key \"%s\"; write one map inside the other instead of a point, "
				     "as in memory: {budget: 24 MiB}",
				     shown);
	return yaml_fail_key(node, "unknown key \"%s\"%s", shown, config_suggest(path, suggestion, sizeof suggestion));
}

static enum tarn_status check_section(const struct yaml_node *node, const char *section)
{
	char names[CONFIG_SUGGESTION] = "", child[64];
	size_t used = 0;
	for (uint32_t i = 0; used < sizeof names && child_name(section, i, child, sizeof child); i++)
		used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", child);
	if (node->kind == YAML_MAP || (node->kind == YAML_SCALAR && !node->text[0]))
		return TARN_OK;
	return yaml_fail_value(node, "must be a map with some of the keys %s, not a %s", names,
			       node->kind == YAML_LIST ? "list" : "single value");
}

static enum tarn_status check_map(const struct yaml_node *map, const char *section)
{
	if (map->kind != YAML_MAP)
		return TARN_OK;
	for (const struct yaml_node *child = map->first; child; child = child->next) {
		char path[YAML_PATH];
		int length = snprintf(path, sizeof path, "%s%s%s", section, *section ? "." : "", child->key);
		bool plain = (size_t)length < sizeof path && !strchr(child->key, '.');
		if (plain && config_find_key(path))
			continue;
		if (!plain || !config_is_section(path))
			return fail_unknown(child, path);
		enum tarn_status st = check_section(child, path);
		if (!st)
			st = check_map(child, path);
		if (st)
			return st;
	}
	return TARN_OK;
}

enum tarn_status config_check_keys(const struct yaml_node *root)
{
	if (root->kind != YAML_MAP)
		return yaml_fail(root, "a configuration is a map of keys such as data: and layers:, not a %s",
				 root->kind == YAML_LIST ? "list" : "single value");
	return check_map(root, "");
}
