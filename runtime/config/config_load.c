/* config_load.c - YAML files: the network must be there, and no key may stand there without effect. Needs libyaml. */
#include "config/config_internal.h"

#include <stdio.h>
#include <string.h>

#define BIT(value) (1u << (value))
/* Arrays of samples and of labels, by name. */
#define ARRAYS (BIT(DATA_IDX) | BIT(DATA_NPY) | BIT(DATA_NPZ))
/* Objectives whose steps are batches of samples. */
#define BATCHED                                                                                                    \
	(BIT(OBJECTIVE_LOSS) | BIT(OBJECTIVE_HVP) | BIT(OBJECTIVE_GRADIENT_PENALTY) | BIT(OBJECTIVE_ADVERSARIAL) | \
	 BIT(OBJECTIVE_LAPLACE) | BIT(OBJECTIVE_INFERENCE))
#define CIFAR (BIT(DATA_CIFAR10) | BIT(DATA_CIFAR100))

/* Keys that only some choice of another key reads. Given without it they would be ignored in silence. */
static const struct unused_rule {
	const char *path, *choice; /* `path` has an effect only when `choice` is one of `values` */
	uint32_t values;           /* bit set of enum values */
} unused_rules[] = {
	{ "optimizer.momentum", "optimizer.type", 1u << OPTIMIZER_MOMENTUM },
	{ "optimizer.nesterov", "optimizer.type", 1u << OPTIMIZER_MOMENTUM },
	{ "optimizer.beta1", "optimizer.type", 1u << OPTIMIZER_ADAM | 1u << OPTIMIZER_ADAMW | 1u << OPTIMIZER_LION },
	{ "optimizer.beta2", "optimizer.type", 1u << OPTIMIZER_ADAM | 1u << OPTIMIZER_ADAMW | 1u << OPTIMIZER_LION },
	{ "optimizer.state", "optimizer.type", 1u << OPTIMIZER_ADAM | 1u << OPTIMIZER_ADAMW },
	{ "optimizer.epsilon", "optimizer.type", 1u << OPTIMIZER_ADAM | 1u << OPTIMIZER_ADAMW },
	{ "optimizer.schedule.final_rate", "optimizer.schedule.type", 1u << RATE_COSINE },
	{ "optimizer.schedule.step_epochs", "optimizer.schedule.type", 1u << RATE_STEP },
	{ "optimizer.schedule.step_factor", "optimizer.schedule.type", 1u << RATE_STEP },
	{ "data.directory", "data.type", ARRAYS | CIFAR | BIT(DATA_TOKENS) | BIT(DATA_IMAGES) },
	{ "data.train_inputs", "data.type", ARRAYS | BIT(DATA_TOKENS) | BIT(DATA_IMAGES) },
	{ "data.train_labels", "data.type", ARRAYS },
	{ "data.test_inputs", "data.type", ARRAYS | BIT(DATA_TOKENS) | BIT(DATA_IMAGES) },
	{ "data.test_labels", "data.type", ARRAYS },
	{ "data.arrays", "data.type", BIT(DATA_NPY) | BIT(DATA_NPZ) },
	{ "data.archive", "data.type", BIT(DATA_NPZ) },
	{ "data.test_archive", "data.type", BIT(DATA_NPZ) },
	{ "data.label_set", "data.type", BIT(DATA_CIFAR100) },
	{ "data.synthetic", "data.type", ARRAYS | CIFAR | BIT(DATA_TOKENS) | BIT(DATA_IMAGES) },
	{ "data.mean", "data.type", ARRAYS | CIFAR | BIT(DATA_IMAGES) | BIT(DATA_MEMORY) },
	{ "data.std", "data.type", ARRAYS | CIFAR | BIT(DATA_IMAGES) | BIT(DATA_MEMORY) },
	{ "data.train_labels", "network.target", BIT(TARGET_DATA) },
	{ "data.test_labels", "network.target", BIT(TARGET_DATA) },
	{ "data.pixel_labels", "network.loss", BIT(LOSS_CROSS_ENTROPY) },
	{ "data.pixel_labels", "data.type", ARRAYS | BIT(DATA_SYNTHETIC) | BIT(DATA_HASH) | BIT(DATA_MEMORY) },
	{ "data.context", "data.type", BIT(DATA_TOKENS) | BIT(DATA_SYNTHETIC) | BIT(DATA_HASH) },
	{ "data.token_type", "data.type", BIT(DATA_TOKENS) },
	{ "network.chunked_loss", "network.loss", 1u << LOSS_CROSS_ENTROPY },
	{ "network.label_smoothing", "network.loss", 1u << LOSS_CROSS_ENTROPY },
	{ "network.ignore_index", "network.loss", 1u << LOSS_CROSS_ENTROPY },
	{ "objective.ways", "objective.type", 1u << OBJECTIVE_MAML },
	{ "objective.shots", "objective.type", 1u << OBJECTIVE_MAML },
	{ "objective.queries", "objective.type", 1u << OBJECTIVE_MAML },
	{ "objective.tasks", "objective.type", 1u << OBJECTIVE_MAML },
	{ "objective.test_classes", "objective.type", 1u << OBJECTIVE_MAML },
	{ "objective.inner_steps", "objective.type", 1u << OBJECTIVE_MAML },
	{ "objective.inner_rate", "objective.type", 1u << OBJECTIVE_MAML },
	{ "objective.learn_rates", "objective.type", 1u << OBJECTIVE_MAML },
	{ "objective.order", "objective.type", 1u << OBJECTIVE_MAML },
	{ "objective.weight", "objective.type", BIT(OBJECTIVE_GRADIENT_PENALTY) | BIT(OBJECTIVE_ADVERSARIAL) },
	{ "objective.method", "objective.type", BIT(OBJECTIVE_ADVERSARIAL) },
	{ "objective.epsilon", "objective.type", BIT(OBJECTIVE_ADVERSARIAL) },
	{ "objective.attack_test", "objective.type", BIT(OBJECTIVE_ADVERSARIAL) },
	{ "objective.steps", "objective.type", BIT(OBJECTIVE_ADVERSARIAL) },
	{ "objective.step_size", "objective.type", BIT(OBJECTIVE_ADVERSARIAL) },
	{ "objective.steps", "objective.method", BIT(ATTACK_PGD) },
	{ "objective.step_size", "objective.method", BIT(ATTACK_PGD) },
	{ "objective.result", "objective.type", BIT(OBJECTIVE_INFERENCE) },
	{ "data.batch", "objective.type", BATCHED },
	{ "train.accumulate", "objective.type", BATCHED },
	{ "data.shuffle", "objective.type", BATCHED },
	{ "data.drop_last", "objective.type", BATCHED },
};

/* A choice made on the command line sets the file's keys aside: `node` is of the file and depends on it. */
static bool set_aside(const struct yaml_node *root, const char *choice, const struct yaml_node *node)
{
	return config_on_command_line(config_node(root, choice)) && !config_on_command_line(node);
}

/* Samples of tokens: what they need, and what says nothing beside data.context. */
static enum tarn_status check_tokens(const struct yaml_node *root, const struct config *config)
{
	const struct yaml_node *shape = config_node(root, "data.shape"), *type = config_node(root, "data.type"),
			       *loss = config_node(root, "network.loss"), *classes = config_node(root, "data.classes");
	if (!config->data.context)
		return yaml_fail_value(type,
				       "tokens needs data.context, the number of tokens in a sample, such as 256");
	if (shape && !set_aside(root, "data.context", shape))
		return yaml_fail_value(shape, "has no effect with data.context, which says the shape");
	if (config->network.loss != LOSS_CROSS_ENTROPY)
		return yaml_fail_value(loss, "tokens have labels: with data.context the loss is cross_entropy");
	if (config->data.type == DATA_TOKENS && config->data.token_type == TOKEN_UINT16 && !classes)
		return yaml_fail_value(type, "tokens of uint16 need data.classes, the size of the vocabulary");
	return TARN_OK;
}

/* How many samples there are is said only where they are made up; folders and CIFAR have labels. */
static enum tarn_status check_samples(const struct yaml_node *root, const struct config *config)
{
	static const char *const counts[] = { "data.samples", "data.test_samples" };
	const struct config_key *type = config_find_key("data.type");
	bool made = config->data.synthetic || config->data.type == DATA_SYNTHETIC || config->data.type == DATA_HASH ||
		    config->data.type == DATA_MEMORY;
	for (size_t i = 0; i < sizeof counts / sizeof *counts && !made; i++) {
		const struct yaml_node *node = config_node(root, counts[i]);
		if (node && !set_aside(root, "data.type", node) && !set_aside(root, "data.synthetic", node))
			return yaml_fail_value(
				node,
				"has no effect with data.type: %s; it belongs to synthetic or hash, or to "
				"data.synthetic: true",
				type->choices[config->data.type]);
	}
	const struct yaml_node *loss = config_node(root, "network.loss");
	if ((CIFAR | BIT(DATA_IMAGES)) >> config->data.type & 1 && config->network.loss != LOSS_CROSS_ENTROPY &&
	    config->network.target == TARGET_DATA)
		return yaml_fail_value(
			loss,
			"samples of data.type: %s have labels: the loss is cross_entropy, or network.target is "
			"input",
			type->choices[config->data.type]);
	return TARN_OK;
}

/* Keys whose effect depends on more than one choice. */
static enum tarn_status check_unused_more(const struct yaml_node *root, const struct config *config)
{
	const struct yaml_node *classes = config_node(root, "data.classes"),
			       *norms = config_node(root, "optimizer.decay_norms");
	enum tarn_status st = check_samples(root, config);
	if (st)
		return st;
	bool arrays = ARRAYS >> config->data.type & 1 && !config->data.synthetic;
	if (classes && arrays && config->network.loss != LOSS_CROSS_ENTROPY && !set_aside(root, "data.type", classes) &&
	    !set_aside(root, "network.loss", classes))
		return yaml_fail_value(classes,
				       "has no effect with network.loss: %s; the file of targets says how many "
				       "values a sample has",
				       loss_name(config->network.loss));
	static const char *const copies[] = { "memory.offload_limit", "memory.offload_bandwidth" };
	for (size_t i = 0; i < sizeof copies / sizeof *copies && !config->memory.offload; i++) {
		const struct yaml_node *node = config_node(root, copies[i]);
		if (node && !set_aside(root, "memory.offload", node))
			return yaml_fail_value(node, "has no effect with memory.offload: false; it belongs to true");
	}
	if (norms && config->optimizer.weight_decay <= 0 && !set_aside(root, "optimizer.weight_decay", norms))
		return yaml_fail_value(norms, "has no effect with optimizer.weight_decay: 0; give a weight_decay above "
					      "0, or leave it out");
	return config->data.type == DATA_TOKENS || config->data.context ? check_tokens(root, config) : TARN_OK;
}

/* A key given on the command line may come before its choice there. */
static enum tarn_status check_unused(const struct yaml_node *root, const struct config *config)
{
	for (size_t i = 0; i < sizeof unused_rules / sizeof *unused_rules; i++) {
		const struct unused_rule *rule = &unused_rules[i];
		const struct yaml_node *node = config_node(root, rule->path);
		const struct config_key *choice = config_find_key(rule->choice);
		uint32_t value = *(const uint32_t *)((const char *)config + choice->offset);
		if (!node || set_aside(root, rule->choice, node) || rule->values >> value & 1)
			continue;
		char needed[128] = "";
		size_t used = 0;
		for (uint32_t v = 0; v < choice->n_choices - choice->n_aliases; v++)
			if (rule->values >> v & 1)
				used += (size_t)snprintf(needed + used, sizeof needed - used, "%s%s",
							 used ? " or " : "", choice->choices[v]);
		return yaml_fail_value(node, "has no effect with %s: %s; it belongs to %s", rule->choice,
				       choice->choices[value], needed);
	}
	return check_unused_more(root, config);
}

static enum tarn_status check_network(const struct config *config)
{
	const struct yaml_node *layers = config->layers, *model = config->model;
	if (!layers && !model)
		return tarn_fail(TARN_EINVAL, "%s: the network is missing; give layers: or model:", config->file);
	if (layers && model)
		return yaml_fail_key(model, "model: and layers: (line %u) are both there; give exactly one of them",
				     layers->key_line);
	if (layers && layers->kind != YAML_LIST)
		return yaml_fail_value(layers, "must be a list of layers, not a %s",
				       layers->kind == YAML_MAP ? "map" : "single value");
	if (layers && !layers->first)
		return yaml_fail_value(layers, "is empty; a network needs at least one layer");
	if (model && model->kind != YAML_MAP)
		return yaml_fail_value(model, "must be a map such as {family: mlp}, not a %s",
				       model->kind == YAML_LIST ? "list" : "single value");
	return TARN_OK;
}

/* "configs/lenet.yaml" gives "lenet". */
static const char *file_stem(const char *path, struct host_arena *arena)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
	size_t length = dot && dot > base ? (size_t)(dot - base) : strlen(base);
	return host_arena_text_n(arena, base, length);
}

static enum tarn_status finish(struct yaml_node *root, const struct config_source *source, const char *const *override,
			       uint32_t overrides, struct host_arena *arena, struct config *config)
{
	if (root->kind == YAML_MAP) {
		enum tarn_status st = config_put_overrides(root, override, overrides, true, arena);
		if (st)
			return st;
	}
	struct config made;
	enum tarn_status st = config_read(root, source, arena, &made);
	if (!st)
		st = check_unused(root, &made);
	if (!st)
		st = check_network(&made);
	if (st)
		return st;
	if (!made.name[0])
		made.name = file_stem(source->file, arena);
	if (!made.name)
		return TARN_ENOMEM;
	*config = made;
	return TARN_OK;
}

enum tarn_status config_load(const char *path, const char *const *override, uint32_t overrides,
			     struct host_arena *arena, struct config *config)
{
	struct yaml_node *root;
	enum tarn_status st = yaml_load(path, arena, &root);
	if (st)
		return st;
	const char *slash = strrchr(path, '/');
	size_t length = slash && slash != path ? (size_t)(slash - path) : (size_t)(slash == path);
	struct config_source source = { .file = host_arena_text(arena, path),
					.directory = host_arena_text_n(arena, path, length),
					.complete = true };
	if (!source.file || !source.directory)
		return TARN_ENOMEM;
	return finish(root, &source, override, overrides, arena, config);
}

enum tarn_status config_parse(const char *text, size_t bytes, const char *name, const char *const *override,
			      uint32_t overrides, struct host_arena *arena, struct config *config)
{
	struct yaml_node *root;
	enum tarn_status st = yaml_parse(text, bytes, name, arena, &root);
	if (st)
		return st;
	struct config_source source = { .file = host_arena_text(arena, name), .complete = true };
	if (!source.file)
		return TARN_ENOMEM;
	return finish(root, &source, override, overrides, arena, config);
}
