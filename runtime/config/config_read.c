/* config_read.c - a tree of values into struct config: types, ranges, defaults, checks across keys. */
#include "config/config_internal.h"

#include <stdio.h>
#include <string.h>

/* memory.workspace_cap below this must carry a unit: 512 was meant as MiB by everybody who wrote it. */
#define LEAST_BARE_WORKSPACE 4096u
#define DEFAULT_SYNTHETIC_SAMPLES 1024u
#define DEFAULT_STAND_IN_TEST_SAMPLES 256u

const struct yaml_node *config_node(const struct yaml_node *root, const char *path)
{
	char name[64];
	const struct yaml_node *node = root;
	while (node) {
		size_t length = strcspn(path, ".");
		snprintf(name, sizeof name, "%.*s", (int)length, path);
		node = yaml_find(node, name);
		if (!path[length])
			break;
		path += length + 1;
	}
	return node;
}

bool config_on_command_line(const struct yaml_node *node)
{
	return node && !strcmp(node->file, CONFIG_COMMAND_LINE);
}

static enum tarn_status read_text(const struct config_key *key, const struct yaml_node *node, const char **out)
{
	if (node->kind != YAML_SCALAR)
		return yaml_fail_value(node, "must be text, not a %s", node->kind == YAML_LIST ? "list" : "map");
	size_t length = strlen(node->text);
	if ((double)length < key->low)
		return yaml_fail_value(node, "must not be empty");
	if ((double)length > key->high)
		return yaml_fail_value(node, "is %zu bytes long; the limit is %.0f", length, key->high);
	*out = node->text;
	return TARN_OK;
}

static enum tarn_status read_integer(const struct config_key *key, const struct yaml_node *node, void *field)
{
	int64_t value;
	enum tarn_status st = yaml_read_integer(node, (int64_t)key->low, (int64_t)key->high, &value);
	if (st)
		return st;
	if (key->width == 8)
		*(uint64_t *)field = (uint64_t)value;
	else
		*(uint32_t *)field = (uint32_t)value;
	return TARN_OK;
}

static enum tarn_status read_bytes(const struct config_key *key, const struct yaml_node *node, uint64_t *out)
{
	/* What must be more than 0 bounds something, and need not bound it. */
	bool budget = key->low > 0;
	if (budget && node->kind == YAML_SCALAR && !strcmp(node->text, "unlimited")) {
		*out = UINT64_MAX;
		return TARN_OK;
	}
	if (budget && node->kind == YAML_SCALAR && !strcmp(node->text, "auto")) {
		*out = BUDGET_AUTO;
		return TARN_OK;
	}
	if (!strcmp(key->path, "memory.workspace_cap") && node->kind == YAML_SCALAR && !strcmp(node->text, "auto")) {
		*out = BUDGET_AUTO;
		return TARN_OK;
	}
	char shown[YAML_SHOWN];
	if (node->kind == YAML_SCALAR && strchr(node->text, '%'))
		return yaml_fail_value(node, "\"%s\" depends on the machine; write a size such as 24 MiB",
				       yaml_shown(node->text, shown, sizeof shown));
	if (budget && node->kind == YAML_SCALAR && node->text[0] == 'u')
		return yaml_fail_value(node, "\"%s\" is not a size; write a size such as 24 MiB, or unlimited",
				       yaml_shown(node->text, shown, sizeof shown));
	uint64_t bytes;
	enum tarn_status st = yaml_read_bytes(node, &bytes);
	if (st)
		return st;
	if ((double)bytes < key->low)
		return yaml_fail_value(node, "must be more than 0; write a size such as 24 MiB%s",
				       budget ? ", or unlimited" : "");
	bool bare = !node->text[strspn(node->text, "+0123456789 \t")];
	if (!strcmp(key->path, "memory.workspace_cap") && bare && bytes && bytes < LEAST_BARE_WORKSPACE)
		return yaml_fail_value(node,
				       "%llu bytes are too few for any fast kernel; did you mean %llu MiB? "
				       "(write %llu B if not)",
				       (unsigned long long)bytes, (unsigned long long)bytes, (unsigned long long)bytes);
	*out = bytes;
	return TARN_OK;
}

static enum tarn_status read_choice(const struct config_key *key, const struct yaml_node *node, uint32_t *out)
{
	uint32_t index;
	enum tarn_status st = yaml_read_choice(node, key->choices, key->n_choices, &index);
	if (st)
		return st;
	uint32_t names = key->n_choices - key->n_aliases;
	*out = index < names ? index : key->alias[index - names];
	return TARN_OK;
}

static enum tarn_status read_list_item(const struct config_key *key, const struct yaml_node *node, uint32_t index,
				       void *field)
{
	struct text_list *texts = field;
	struct real_list *reals = field;
	struct size_list *sizes = field;
	int64_t whole;
	if (key->type == CONFIG_TEXT_LIST)
		return read_text(key, node, &texts->item[index]);
	if (key->type == CONFIG_REAL_LIST)
		return yaml_read_real(node, key->low, key->high, &reals->item[index]);
	enum tarn_status st = yaml_read_integer(node, (int64_t)key->low, (int64_t)key->high, &whole);
	if (!st)
		sizes->item[index] = (uint32_t)whole;
	return st;
}

/* A list, or a single value for a list of one. */
static enum tarn_status read_list(const struct config_key *key, const struct yaml_node *node, void *field)
{
	struct text_list *texts = field;
	struct real_list *reals = field;
	struct size_list *sizes = field;
	uint32_t *counter, limit;
	/* The field is aligned for its own type alone. */
	if (key->type == CONFIG_TEXT_LIST) {
		counter = &texts->count;
		limit = CONFIG_MAX_LIST;
	} else if (key->type == CONFIG_REAL_LIST) {
		counter = &reals->count;
		limit = sizeof reals->item / sizeof *reals->item;
	} else {
		counter = &sizes->count;
		limit = sizeof sizes->item / sizeof *sizes->item;
	}
	if (node->kind == YAML_MAP)
		return yaml_fail_value(node, "must be a list such as %s, not a map", key->example);
	bool single = node->kind == YAML_SCALAR;
	uint32_t count = single ? 1 : node->children;
	if (count > limit)
		return yaml_fail_value(node, "has %u entries; the limit is %u", count, limit);
	const struct yaml_node *item = single ? node : node->first;
	for (uint32_t i = 0; i < count; i++, item = item->next) {
		enum tarn_status st = read_list_item(key, item, i, field);
		if (st)
			return st;
	}
	*counter = count;
	return TARN_OK;
}

static enum tarn_status read_field(const struct config_key *key, const struct yaml_node *node, void *field)
{
	switch (key->type) {
	case CONFIG_TEXT:
		return read_text(key, node, field);
	case CONFIG_REAL:
		return yaml_read_real(node, key->low, key->high, field);
	case CONFIG_INTEGER:
		return read_integer(key, node, field);
	case CONFIG_BOOL:
		return yaml_read_bool(node, field);
	case CONFIG_BYTES:
		return read_bytes(key, node, field);
	case CONFIG_CHOICE:
		return read_choice(key, node, field);
	case CONFIG_TEXT_LIST:
	case CONFIG_REAL_LIST:
	case CONFIG_SIZE_LIST:
		return read_list(key, node, field);
	case CONFIG_NODE:
		*(const struct yaml_node **)field = node;
		return TARN_OK;
	}
	return tarn_fail(TARN_EINTERNAL, "schema: key %s has an unknown type", key->path);
}

static enum tarn_status fail_missing(const struct yaml_node *root, const struct config_source *source,
				     const struct config_key *key)
{
	char section[64], choices[256] = "";
	size_t used = 0;
	for (uint32_t i = 0; i < key->n_choices - key->n_aliases && used < sizeof choices; i++)
		used += (size_t)snprintf(choices + used, sizeof choices - used, "%s%s", i ? ", " : " one of ",
					 key->choices[i]);
	const char *dot = strrchr(key->path, '.');
	snprintf(section, sizeof section, "%.*s", dot ? (int)(dot - key->path) : 0, key->path);
	const struct yaml_node *node = config_node(root, section);
	if (node)
		return yaml_fail_key(node, "%s is missing; give%s", key->path, *choices ? choices : " a value");
	return tarn_fail(TARN_EINVAL, "%s: %s is missing; give%s", source->file, key->path,
			 *choices ? choices : " a value");
}

static enum tarn_status read_keys(const struct yaml_node *root, const struct config_source *source,
				  struct host_arena *arena, struct config *config)
{
	for (uint32_t i = 0; i < config_schema_keys; i++) {
		const struct config_key *key = &config_schema[i];
		const struct yaml_node *node = config_node(root, key->path);
		if (!node && !key->default_text) {
			if (key->type != CONFIG_NODE && source->complete)
				return fail_missing(root, source, key);
			continue;
		}
		struct yaml_node *made = NULL;
		enum tarn_status st = TARN_OK;
		if (!node)
			st = config_text_node(key, key->default_text, "default", 0, arena, &made);
		if (!st)
			st = read_field(key, node ? node : made, (char *)config + key->offset);
		if (st)
			return st;
	}
	return TARN_OK;
}

/* Names of files, arrays or folders where none are given. */
static void derive_files(const struct yaml_node *root, struct config *config)
{
	static const struct {
		uint32_t type;
		const char *train_inputs, *train_labels, *test_inputs, *test_labels;
	} defaults[] = {
		{ DATA_NPY, "train_inputs.npy", "train_labels.npy", "test_inputs.npy", "test_labels.npy" },
		{ DATA_NPZ, "train_inputs", "train_labels", "test_inputs", "test_labels" },
		{ DATA_IMAGES, "train", "", "test", "" },
		/* The labels are in the inputs' files. */
		{ DATA_TOKENS, "train.tokens", "", "", "" },
		/* The files have fixed names. */
		{ DATA_MEMORY, "", "", "", "" },
		{ DATA_CIFAR10, "", "", "", "" },
		{ DATA_CIFAR100, "", "", "", "" },
	};
	for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
		if (defaults[i].type != config->data.type)
			continue;
		if (!config_node(root, "data.train_inputs"))
			config->data.train_inputs = defaults[i].train_inputs;
		if (!config_node(root, "data.train_labels"))
			config->data.train_labels = defaults[i].train_labels;
		if (!config_node(root, "data.test_inputs"))
			config->data.test_inputs = defaults[i].test_inputs;
		if (!config_node(root, "data.test_labels"))
			config->data.test_labels = defaults[i].test_labels;
	}
}

/* How many samples are made up. */
static void derive_samples(const struct yaml_node *root, struct config *config)
{
	bool stand_in = config->data.synthetic,
	     cifar = config->data.type == DATA_CIFAR10 || config->data.type == DATA_CIFAR100;
	if (!config->data.samples && config->data.type == DATA_HASH)
		config->data.samples = config->data.batch;
	if (!config->data.samples && (config->data.type == DATA_SYNTHETIC || stand_in))
		config->data.samples = DEFAULT_SYNTHETIC_SAMPLES;
	if (stand_in && config->data.samples < config->data.batch && !config_node(root, "data.samples"))
		config->data.samples = config->data.batch;
	if (stand_in && !config_node(root, "data.test_samples") && (cifar || config->data.test_inputs[0]))
		config->data.test_samples = DEFAULT_STAND_IN_TEST_SAMPLES;
}

/* The largest first. Tokens need not say their context besides. */
static void derive_shapes(const struct yaml_node *root, struct config *config)
{
	struct size_list *shapes = &config->data.shapes;
	for (uint32_t i = 1; i < shapes->count; i++)
		for (uint32_t k = i; k > 0 && shapes->item[k - 1] < shapes->item[k]; k--) {
			uint32_t larger = shapes->item[k];
			shapes->item[k] = shapes->item[k - 1];
			shapes->item[k - 1] = larger;
		}
	if (shapes->count && config->data.type == DATA_TOKENS && !config_node(root, "data.context"))
		config->data.context = shapes->item[0];
}

/* What follows from other keys or from the file's place. */
static enum tarn_status derive(const struct yaml_node *root, const struct config_source *source,
			       struct host_arena *arena, struct config *config)
{
	config->file = source->file;
	config->root = root;
	config->budget_place = "";
	const struct yaml_node *budget = config_node(root, "memory.budget");
	if (budget && budget->line)
		config->budget_place =
			host_arena_printf(arena, "%s:%u:%u: ", budget->file, budget->line, budget->column);
	else if (budget)
		config->budget_place = host_arena_printf(arena, "%s: ", budget->file);
	const struct yaml_node *directory = config_node(root, "data.directory");
	if (source->directory && *source->directory && config->data.directory[0] != '/' &&
	    !config_on_command_line(directory))
		config->data.directory =
			strcmp(config->data.directory, ".")
				? host_arena_printf(arena, "%s/%s", source->directory, config->data.directory)
				: host_arena_text(arena, source->directory);
	if (!config->budget_place || !config->data.directory)
		return TARN_ENOMEM;
	derive_files(root, config);
	if (config->data.type == DATA_TOKENS && !config_node(root, "data.classes") &&
	    config->data.token_type == TOKEN_BYTE)
		config->data.classes = 256;
	if (config->data.type == DATA_CIFAR100 && !config_node(root, "data.classes"))
		config->data.classes = config->data.label_set == LABELS_FINE ? 100 : 20;
	if (config->network.loss == LOSS_LOGISTIC_MIXTURE && !config_node(root, "network.target"))
		config->network.target = TARGET_INPUT;
	/* Chen et al. 2023, section 5. */
	if (config->optimizer.type == OPTIMIZER_LION && !config_node(root, "optimizer.beta2"))
		config->optimizer.beta2 = 0.99;
	derive_samples(root, config);
	derive_shapes(root, config);
	return TARN_OK;
}

/* memory.keep belongs to manual. A strategy from the command line sets the list of the file aside. */
static enum tarn_status check_keep(const struct yaml_node *root, struct config *config)
{
	const struct yaml_node *keep = config_node(root, "memory.keep"),
			       *recompute = config_node(root, "memory.recompute");
	bool manual = config->memory.recompute == STRATEGY_MANUAL;
	if (manual && !config->memory.keep.count)
		return yaml_fail_value(recompute, "manual needs memory.keep, the names of the tensors to keep");
	if (manual || !config->memory.keep.count)
		return TARN_OK;
	if (config_on_command_line(recompute) && !config_on_command_line(keep)) {
		config->memory.keep.count = 0;
		return TARN_OK;
	}
	return yaml_fail_value(keep, "only has a meaning with memory.recompute: manual, but that is %s",
			       strategy_name(config->memory.recompute));
}

/* Labels are classes, and the pixels of an image are their own targets where the loss is their likelihood. */
static enum tarn_status check_target(const struct yaml_node *root, const struct config *config)
{
	const struct yaml_node *target = config_node(root, "network.target");
	bool input = config->network.target == TARGET_INPUT;
	if (input && config->network.loss == LOSS_CROSS_ENTROPY)
		return yaml_fail_value(target, "is input, but cross_entropy compares with labels; take network.loss: "
					       "mean_squared_error, binary_cross_entropy or logistic_mixture");
	if (!input && config->network.loss == LOSS_LOGISTIC_MIXTURE)
		return yaml_fail_value(target, "is data, but logistic_mixture is the likelihood of the input; leave it "
					       "out or write input");
	return TARN_OK;
}

static enum tarn_status check_shapes(const struct yaml_node *root, const struct config *config)
{
	const struct size_list *shapes = &config->data.shapes;
	const struct yaml_node *node = config_node(root, "data.shapes");
	if (shapes->count == 1)
		return yaml_fail_value(node, "has one shape, %u; give 2 to 8, or leave it out", shapes->item[0]);
	for (uint32_t i = 1; i < shapes->count; i++)
		if (shapes->item[i] == shapes->item[i - 1])
			return yaml_fail_value(node, "has %u twice", shapes->item[i]);
	if (shapes->count && config->data.context && config->data.context != shapes->item[0])
		return yaml_fail_value(node, "has %u as its largest, but data.context is %u; they are the same",
				       shapes->item[0], config->data.context);
	return TARN_OK;
}

static enum tarn_status check_data(const struct yaml_node *root, const struct config *config)
{
	const struct yaml_node *mean = config_node(root, "data.mean"), *std = config_node(root, "data.std"),
			       *drop = config_node(root, "data.drop_last");
	uint32_t means = config->data.mean.count, stds = config->data.std.count;
	if (means != stds)
		return yaml_fail_value(std ? std : mean, "has %u value%s, but data.%s has %u; give as many of both",
				       std ? stds : means, (std ? stds : means) == 1 ? "" : "s", std ? "mean" : "std",
				       std ? means : stds);
	bool counted = config->data.synthetic || config->data.type == DATA_SYNTHETIC || config->data.type == DATA_HASH;
	if (counted && config->data.drop_last && config->data.samples < config->data.batch)
		return yaml_fail_value(drop,
				       "%u samples and a batch of %u leave no full batch; use a batch of at most %u",
				       config->data.samples, config->data.batch, config->data.samples);
	bool arrays = config->data.type == DATA_IDX || config->data.type == DATA_NPY || config->data.type == DATA_NPZ;
	if (!arrays)
		return TARN_OK;
	if (config->network.target == TARGET_INPUT)
		return TARN_OK;
	bool inputs = config->data.test_inputs[0], labels = config->data.test_labels[0];
	const struct yaml_node *test = config_node(root, inputs ? "data.test_labels" : "data.test_inputs");
	if (inputs != labels && test)
		return yaml_fail_value(test, "is empty, but data.test_%s names %s; both name a file, or both are \"\"",
				       inputs ? "inputs" : "labels",
				       inputs ? config->data.test_inputs : config->data.test_labels);
	return TARN_OK;
}

/* Layers and losses call the arrays by these names, beside those of the network itself. */
static enum tarn_status check_array_name(const struct yaml_node *root, const struct text_list *names, uint32_t number)
{
	static const char *const taken[] = { "input", "target", "loss", "correct", "scalars" };
	const struct yaml_node *node = config_node(root, "data.arrays");
	const char *name = names->item[number];
	if (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") != strlen(name))
		return yaml_fail_value(node, "a name has letters, digits, _, - and ., not %s", name);
	for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
		if (!strcmp(name, taken[i]))
			return yaml_fail_value(node, "the name %s is used by the network itself", name);
	for (uint32_t i = 0; i < number; i++)
		if (!strcmp(name, names->item[i]))
			return yaml_fail_value(node, "has %s twice", name);
	return TARN_OK;
}

/* As many files as names; nothing that would cut or make up the inputs alone. */
static enum tarn_status check_arrays(const struct yaml_node *root, const struct config *config)
{
	const uint32_t count = config->data.arrays.count, train = config->data.train_arrays.count,
		       test = config->data.test_arrays.count, wanted = config->data.test_inputs[0] ? count : 0;
	if (count > CONFIG_MAX_ARRAYS)
		return yaml_fail_value(config_node(root, "data.arrays"), "has %u names, at most %u are possible", count,
				       CONFIG_MAX_ARRAYS);
	if (train != count)
		return yaml_fail_value(config_node(root, train ? "data.train_arrays" : "data.arrays"),
				       "data.arrays has %u names, data.train_arrays %u; give a file for each", count,
				       train);
	if (test != wanted)
		return yaml_fail_value(
			config_node(root, test ? "data.test_arrays" : "data.arrays"),
			"data.test_arrays has %u files; %u are needed, one for each of data.arrays where there "
			"is a test set",
			test, wanted);
	if (count && (config->data.shapes.count || config->data.synthetic))
		return yaml_fail_value(config_node(root, "data.arrays"), "cannot stand beside data.%s",
				       config->data.synthetic ? "synthetic" : "shapes");
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 0; i < count && !st; i++)
		st = check_array_name(root, &config->data.arrays, i);
	return st;
}

static enum tarn_status check_train(const struct yaml_node *root, const struct config *config)
{
	const struct yaml_node *nesterov = config_node(root, "optimizer.nesterov");
	if (config->optimizer.nesterov && config->optimizer.type == OPTIMIZER_MOMENTUM &&
	    config->optimizer.momentum <= 0.0)
		return yaml_fail_value(nesterov, "needs optimizer.momentum above 0");
	const struct yaml_node *accumulate = config_node(root, "train.accumulate");
	if (config->train.accumulate > config->data.batch)
		return yaml_fail_value(
			accumulate,
			"cannot be taken from a batch of %u: a part has at least one sample, so data.batch "
			"must be at least train.accumulate",
			config->data.batch);
	const struct yaml_node *every = config_node(root, "train.snapshot_every");
	if (config->train.snapshot_every && !config->train.snapshot[0] && !config->train.run[0])
		return yaml_fail_value(every, "needs train.snapshot, the file to write");
	if (config->train.log != TRAIN_LOG_NONE && !config->train.run[0])
		return yaml_fail_value(config_node(root, "train.log"), "needs train.run, the folder to write into");
	return TARN_OK;
}

static enum tarn_status check_precision(const struct yaml_node *root, const struct config *config)
{
	const struct yaml_node *gradients = config_node(root, "precision.gradients");
	if (config->precision.gradients != NUMBER_FLOAT32 && config->precision.compute != config->precision.gradients)
		return yaml_fail_value(gradients, "needs the same precision.compute");
	if (config->precision.weights == NUMBER_FLOAT32)
		return TARN_OK;
	const struct yaml_node *weights = config_node(root, "precision.weights");
	const uint32_t optimizer = config->optimizer.type;
	if (config->precision.weights != NUMBER_BFLOAT16 || config->precision.compute != NUMBER_BFLOAT16)
		return yaml_fail_value(weights, "weights are float32, or bfloat16 with precision.compute: bfloat16");
	if (optimizer == OPTIMIZER_LION || optimizer == OPTIMIZER_ADAFACTOR || config->optimizer.state != STATE_FLOAT32)
		return yaml_fail_value(weights,
				       "needs optimizer.type sgd, momentum, adam or adamw with state: float32");
	if (config->train.ema > 0)
		return yaml_fail_value(weights, "averages (train.ema) need weights in float32");
	return TARN_OK;
}

enum tarn_status config_read(const struct yaml_node *root, const struct config_source *source, struct host_arena *arena,
			     struct config *config)
{
	struct config *made = HOST_NEW(arena, struct config);
	if (!made)
		return TARN_ENOMEM;
	enum tarn_status st = config_check_keys(root);
	if (!st)
		st = read_keys(root, source, arena, made);
	if (!st)
		st = derive(root, source, arena, made);
	if (!st)
		st = check_keep(root, made);
	if (!st)
		st = check_target(root, made);
	if (!st)
		st = check_data(root, made);
	if (!st)
		st = check_shapes(root, made);
	if (!st)
		st = check_arrays(root, made);
	if (!st)
		st = check_train(root, made);
	if (!st)
		st = check_precision(root, made);
	if (!st)
		*config = *made;
	return st;
}

enum tarn_status config_fail_place(const struct config *config, enum tarn_status status)
{
	char key[64];
	size_t length = strspn(tarn_error(), "abcdefghijklmnopqrstuvwxyz_.");
	if (!config->root || !length || length >= sizeof key)
		return status;
	memcpy(key, tarn_error(), length);
	key[length] = '\0';
	const struct yaml_node *node = config_node(config->root, key);
	char *dot = strrchr(key, '.');
	if (!node && dot) {
		*dot = '\0';
		node = config_node(config->root, key);
	}
	if (!node)
		return status;
	return node->line ? tarn_fail_prefix(status, "%s:%u:%u", node->file, node->line, node->column)
			  : tarn_fail_prefix(status, "%s", node->file);
}
