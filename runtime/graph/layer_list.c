/* layer_list.c - see layer_list.h. */
#include "graph/layer_list.h"
#include "graph/layer_kinds.h"
#include "graph/layer_words.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define LAYER_NAME_BYTES 64u
#define REPEAT_MAX 10000

/* A layer that was built and can be named. */
struct built {
	const char *name; /* with its scopes, "block1/conv" */
	uint64_t hash;
	uint32_t tensor;
	const struct layer_kind *kind;
	const char *owner; /* the layer that owns its parameters */
};

struct builder {
	struct network *net;
	struct host_arena *scratch;
	uint32_t input;    /* of the network */
	uint32_t previous; /* result of the layer before */
	struct built *built;
	size_t capacity;
	uint32_t count;
	uint32_t entries; /* layers and repetitions so far */
};

/* A list of layers that is being built: the whole one, or one repetition. */
struct scope {
	const char *prefix; /* "", "block1/", "block1/inner2/" */
	const struct scope *outer;
	uint32_t *unnamed; /* by kind, `repeat` last: layers without a name so far */
};

/* One entry of the list, taken apart. */
struct entry {
	const struct yaml_node *node;
	const char *word;                /* its kind */
	const struct yaml_node *options; /* map, short value, or NULL */
	const struct yaml_node *name, *inputs, *trainable, *weights;
};

static enum tarn_status build_list(struct builder *b, const struct scope *scope, const struct yaml_node *list);

/* Puts the entry's place in front of a sentence about the network. */
static enum tarn_status fail_at(const struct yaml_node *node, enum tarn_status status)
{
	char sentence[TARN_ERROR_BYTES];
	if (status != TARN_EINVAL)
		return status;
	snprintf(sentence, sizeof sentence, "%s", tarn_error());
	return yaml_fail_key(node, "%s", sentence);
}

/* ---- names ---- */

static uint64_t hash_name(const char *name)
{
	return XXH64(name, strlen(name), 0);
}

/* By full name, newest first: most names refer to a layer nearby. */
static const struct built *find_built(const struct builder *b, const char *name)
{
	uint64_t hash = hash_name(name);
	for (uint32_t i = b->count; i-- > 0;)
		if (b->built[i].hash == hash && !strcmp(b->built[i].name, name))
			return &b->built[i];
	return NULL;
}

/* A full name as it may be written in the scope: without the prefixes that its repetitions put in front. */
static const char *name_in_scope(const struct scope *scope, const char *name)
{
	for (; scope; scope = scope->outer)
		if (!strncmp(name, scope->prefix, strlen(scope->prefix)))
			return name + strlen(scope->prefix);
	return name;
}

/*
 * The layer whose name is nearest to the text: its full name or any end of it ("conv" for "repeat1_2/conv"), newest
 * first. NULL: none is near. *status tells about memory.
 */
static const char *nearest_built(const struct builder *b, const struct scope *scope, const char *text,
				 enum tarn_status *status)
{
	size_t count = 1;
	for (uint32_t i = 0; i < b->count; i++)
		for (const char *at = b->built[i].name; at; at = strchr(at, '/'), at += at != NULL)
			count++;
	const char **names = HOST_ARRAY(b->scratch, count, const char *);
	uint32_t *layer = HOST_ARRAY(b->scratch, count, uint32_t);
	if (!names || !layer) {
		*status = TARN_ENOMEM;
		return NULL;
	}
	uint32_t used = 1;
	names[0] = "input";
	for (uint32_t i = b->count; i-- > 0;)
		for (const char *at = b->built[i].name; at; at = strchr(at, '/'), at += at != NULL) {
			layer[used] = i;
			names[used++] = at;
		}
	const char *near = nearest_name(text, names, used);
	for (uint32_t i = 1; near && i < used; i++)
		if (names[i] == near)
			return name_in_scope(scope, b->built[layer[i]].name);
	return near;
}

/* No layer has the name: the nearest one, or else the newest ones, written as they may be in this scope. */
static enum tarn_status fail_name(const struct builder *b, const struct scope *scope, const struct yaml_node *node)
{
	enum tarn_status st = TARN_OK;
	char shown[YAML_SHOWN], list[256] = "input";
	yaml_shown(node->text, shown, sizeof shown);
	const char *near = nearest_built(b, scope, node->text, &st);
	if (st)
		return st;
	if (near)
		return yaml_fail(node, "no earlier layer is named %s; did you mean %s?", shown, near);
	const uint32_t most = 6, first = b->count > most ? b->count - most : 0;
	size_t end = strlen(list);
	for (uint32_t i = first; i < b->count; i++) {
		const char *name = name_in_scope(scope, b->built[i].name);
		if (end + strlen(name) + 3 < sizeof list)
			end += (size_t)snprintf(list + end, sizeof list - end, ", %s", name);
	}
	return yaml_fail(node, "no earlier layer is named %s; here one may write %s%s", shown, list,
			 first ? " and older ones" : "");
}

/* A name as the user wrote it refers to the innermost scope that has it. NULL: none has; *status tells why. */
static const struct built *resolve(const struct builder *b, const struct scope *scope, const struct yaml_node *node,
				   enum tarn_status *status)
{
	const struct scope *innermost = scope;
	for (; scope; scope = scope->outer) {
		const char *full = host_arena_printf(b->scratch, "%s%s", scope->prefix, node->text);
		if (!full) {
			*status = TARN_ENOMEM;
			return NULL;
		}
		const struct built *built = find_built(b, full);
		if (built)
			return built;
	}
	*status = fail_name(b, innermost, node);
	return NULL;
}

static enum tarn_status check_name(const struct yaml_node *node)
{
	static const char *const taken[] = { "input", "target", "loss", "correct", "scalars" };
	char shown[YAML_SHOWN];
	if (node->kind != YAML_SCALAR || !node->text[0])
		return yaml_fail_value(node, "must be a name");
	bool fits = strlen(node->text) < LAYER_NAME_BYTES;
	for (const char *c = node->text; *c && fits; c++)
		fits = isalnum((unsigned char)*c) || strchr("_-.", *c);
	if (!fits)
		return yaml_fail_value(node, "a name has at most %u letters, digits, _, - and ., not %s",
				       LAYER_NAME_BYTES - 1, yaml_shown(node->text, shown, sizeof shown));
	for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
		if (!strcmp(node->text, taken[i]))
			return yaml_fail_value(node, "the name %s is used by the network itself", taken[i]);
	return TARN_OK;
}

/* The full name of an entry: as given, or the first free <kind><n>. */
static enum tarn_status full_name(struct builder *b, const struct scope *scope, const struct entry *entry,
				  uint32_t kind, const char *suffix, const char **out)
{
	if (entry->name) {
		enum tarn_status st = check_name(entry->name);
		if (st)
			return st;
		for (uint32_t i = 0; i < b->net->sample->arrays; i++)
			if (!strcmp(entry->name->text, b->net->sample->array[i].name))
				return yaml_fail_value(entry->name, "%s is one of data.arrays", entry->name->text);
		*out = host_arena_printf(b->scratch, "%s%s%s", scope->prefix, entry->name->text, suffix);
		if (!*out)
			return TARN_ENOMEM;
		if (find_built(b, *out))
			return yaml_fail(entry->name, "there is already a layer named %s", *out);
		return TARN_OK;
	}
	do {
		*out = host_arena_printf(b->scratch, "%s%s%" PRIu32 "%s", scope->prefix, entry->word,
					 ++scope->unnamed[kind], suffix);
		if (!*out)
			return TARN_ENOMEM;
	} while (find_built(b, *out));
	return TARN_OK;
}

/* ---- taking an entry apart ---- */

static enum tarn_status fail_kind(const struct yaml_node *node, const char *word)
{
	char shown[YAML_SHOWN], advice[LAYER_ADVICE];
	return yaml_fail_key(node, "there is no layer kind %s; %s", yaml_shown(word, shown, sizeof shown),
			     layer_kind_advice(word, advice));
}

static enum tarn_status take_apart(const struct yaml_node *node, struct entry *entry)
{
	*entry = (struct entry){ .node = node };
	if (node->kind == YAML_SCALAR && node->text[0]) {
		entry->word = node->text;
		return TARN_OK;
	}
	if (node->kind != YAML_MAP || !node->first)
		return yaml_fail(node, "a layer is written as `kind` or `kind: {key: value}`");
	const struct yaml_node *second = node->first->next;
	if (second)
		return yaml_fail_key(second, "a layer has one kind, %s; write %s inside its braces: %s: {%s: ...}",
				     node->first->key, second->key, node->first->key, second->key);
	entry->word = node->first->key;
	entry->node = node->first;
	bool empty = node->first->kind == YAML_SCALAR && !node->first->text[0] && !node->first->quoted;
	entry->options = empty ? NULL : node->first;
	return TARN_OK;
}

/* The keys that every layer may have; false when the key is none of them. */
static bool take_common(const struct yaml_node *child, struct entry *entry)
{
	if (!strcmp(child->key, "name"))
		entry->name = child;
	else if (!strcmp(child->key, "inputs"))
		entry->inputs = child;
	else if (!strcmp(child->key, "trainable"))
		entry->trainable = child;
	else if (!strcmp(child->key, "weights"))
		entry->weights = child;
	else
		return false;
	return true;
}

static enum tarn_status fail_key(const struct yaml_node *child, const struct layer_kind *kind)
{
	const char *name[LAYER_MAX_KEYS + 4] = { "name", "inputs", "trainable", "weights" };
	char shown[YAML_SHOWN], advice[LAYER_ADVICE];
	for (uint32_t i = 0; i < kind->keys; i++)
		name[4 + i] = kind->key[i].name;
	return yaml_fail_key(child, "%s has no key %s; %s", kind->name, yaml_shown(child->key, shown, sizeof shown),
			     layer_key_advice(child, name, 4 + kind->keys, advice));
}

/* ---- values ---- */

static enum tarn_status read_integer(const struct yaml_node *node, const struct layer_key *key, uint32_t *out)
{
	int64_t value;
	enum tarn_status st = yaml_read_integer(node, (int64_t)key->low, (int64_t)key->high, &value);
	if (!st)
		*out = (uint32_t)value;
	return st;
}

static enum tarn_status read_pair(const struct yaml_node *node, const struct layer_key *key, uint32_t *out)
{
	if (node->kind != YAML_LIST) {
		enum tarn_status st = read_integer(node, key, &out[0]);
		out[1] = out[0];
		return st;
	}
	if (node->children != 2)
		return yaml_fail_value(node, "must be one number or [height, width], not a list of %" PRIu32,
				       node->children);
	enum tarn_status st = read_integer(node->first, key, &out[0]);
	return st ? st : read_integer(node->first->next, key, &out[1]);
}

static enum tarn_status read_padding(const struct yaml_node *node, const struct layer_key *key,
				     struct layer_value *value)
{
	char shown[YAML_SHOWN];
	bool word = node->kind == YAML_SCALAR && isalpha((unsigned char)node->text[0]);
	value->same = word && !strcmp(node->text, "same");
	if (value->same)
		return TARN_OK;
	if (word && !strcasecmp(node->text, "valid"))
		return yaml_fail_value(node, "\"%s\" is written padding: 0",
				       yaml_shown(node->text, shown, sizeof shown));
	if (word)
		return yaml_fail_value(node, "\"%s\" is no padding; write a number, [height, width] or same",
				       yaml_shown(node->text, shown, sizeof shown));
	return read_pair(node, key, value->pair);
}

static enum tarn_status read_value(const struct yaml_node *node, const struct layer_key *key, struct layer_value *value)
{
	bool yes = false;
	enum tarn_status st = TARN_OK;
	switch (key->type) {
	case LAYER_COUNT:
		return read_integer(node, key, &value->pair[0]);
	case LAYER_PADDING:
		return read_padding(node, key, value);
	case LAYER_PAIR:
		return read_pair(node, key, value->pair);
	case LAYER_REAL:
		return yaml_read_real(node, key->low, key->high, &value->real);
	case LAYER_BOOL:
		st = yaml_read_bool(node, &yes);
		value->pair[0] = yes;
		return st;
	case LAYER_CHOICE:
		return yaml_read_choice(node, key->choices, key->n_choices, &value->pair[0]);
	}
	return st;
}

/* Defaults, the given values, and the keys that every layer has. */
static enum tarn_status read_options(struct entry *entry, const struct layer_kind *kind, struct layer_value *value)
{
	bool given[LAYER_MAX_KEYS] = { false };
	for (uint32_t i = 0; i < kind->keys; i++) {
		value[i].real = kind->key[i].value;
		value[i].pair[0] = value[i].pair[1] = (uint32_t)kind->key[i].value;
	}
	const struct yaml_node *options = entry->options;
	if (options && options->kind != YAML_MAP) {
		if (options->kind == YAML_LIST && kind->many_inputs) {
			entry->inputs = options;
		} else if (kind->short_key >= 0) {
			given[kind->short_key] = true;
			enum tarn_status st = read_value(options, &kind->key[kind->short_key], &value[kind->short_key]);
			if (st)
				return st;
		} else {
			return yaml_fail(options, "%s takes no single value; write %s: {key: value}", kind->name,
					 kind->name);
		}
		options = NULL;
	}
	for (const struct yaml_node *child = options ? options->first : NULL; child; child = child->next) {
		uint32_t i = 0;
		while (i < kind->keys && strcmp(kind->key[i].name, child->key))
			i++;
		if (i == kind->keys && !take_common(child, entry))
			return fail_key(child, kind);
		if (i == kind->keys)
			continue;
		given[i] = true;
		enum tarn_status st = read_value(child, &kind->key[i], &value[i]);
		if (st)
			return st;
	}
	for (uint32_t i = 0; i < kind->keys; i++)
		if (!kind->key[i].fallback && !given[i])
			return yaml_fail_key(entry->node, "%s needs the key %s: %s", kind->name, kind->key[i].name,
					     kind->key[i].help);
	return TARN_OK;
}

/* ---- inputs, sharing ---- */

static enum tarn_status read_input(struct builder *b, const struct scope *scope, const struct yaml_node *node,
				   uint32_t *out)
{
	enum tarn_status st = TARN_OK;
	if (node->kind != YAML_SCALAR || !node->text[0])
		return yaml_fail_value(node, "must be the name of an earlier layer, or input");
	if (!strcmp(node->text, "input")) {
		*out = b->input;
		return TARN_OK;
	}
	for (uint32_t i = 0; i < b->net->sample->arrays; i++)
		if (!strcmp(node->text, b->net->sample->array[i].name)) {
			*out = b->net->array[i];
			return TARN_OK;
		}
	const struct built *built = resolve(b, scope, node, &st);
	if (built)
		*out = built->tensor;
	return st;
}

static enum tarn_status read_inputs(struct builder *b, const struct scope *scope, const struct entry *entry,
				    const struct layer_kind *kind, uint32_t **x, uint32_t *count)
{
	const struct yaml_node *node = entry->inputs;
	bool list = node && node->kind == YAML_LIST;
	*count = list ? node->children : 1;
	if (kind->many_inputs && *count < 2)
		return yaml_fail_key(entry->node, "%s needs two inputs or more: %s: [first, second]", kind->name,
				     kind->name);
	if (!kind->many_inputs && *count != 1)
		return yaml_fail_value(node, "%s takes one input, not %" PRIu32, kind->name, *count);
	*x = HOST_ARRAY(b->scratch, *count, uint32_t);
	if (!*x)
		return TARN_ENOMEM;
	if (!node) {
		(*x)[0] = b->previous;
		return TARN_OK;
	}
	const struct yaml_node *item = list ? node->first : node;
	for (uint32_t i = 0; i < *count; i++, item = item->next) {
		enum tarn_status st = read_input(b, scope, item, &(*x)[i]);
		if (st)
			return st;
	}
	return TARN_OK;
}

/* The layer whose parameters this one shares; *owner NULL for its own. */
static enum tarn_status read_weights(struct builder *b, const struct scope *scope, const struct entry *entry,
				     const struct layer_kind *kind, const char **owner)
{
	enum tarn_status st = TARN_OK;
	*owner = NULL;
	if (!entry->weights)
		return TARN_OK;
	if (!kind->shareable)
		return yaml_fail_key(entry->weights, "%s cannot share parameters, only conv2d and dense can",
				     kind->name);
	if (entry->trainable)
		return yaml_fail_key(entry->trainable,
				     "a layer with shared weights is trained or not as the layer that owns them says");
	if (entry->weights->kind != YAML_SCALAR)
		return yaml_fail_value(entry->weights, "must be the name of an earlier layer");
	const struct built *built = resolve(b, scope, entry->weights, &st);
	if (!built)
		return st;
	/* A table of token rows is the weight of the product that goes back to tokens (Press, Wolf 2017). */
	bool tied = !strcmp(kind->name, "dense") && !strcmp(built->kind->name, "embedding");
	if (built->kind != kind && !tied)
		return yaml_fail(entry->weights, "%s is a %s, its parameters do not fit a %s", built->name,
				 built->kind->name, kind->name);
	*owner = built->owner;
	return TARN_OK;
}

static enum tarn_status read_trainable(const struct entry *entry, const struct layer_kind *kind, bool *trainable)
{
	*trainable = true;
	if (!entry->trainable)
		return TARN_OK;
	if (!kind->trainable)
		return yaml_fail_key(entry->trainable, "%s has no parameters to train", kind->name);
	return yaml_read_bool(entry->trainable, trainable);
}

/* ---- building ---- */

static enum tarn_status count_entry(struct builder *b, const struct yaml_node *node)
{
	if (b->entries++ < LAYERS_MAX)
		return TARN_OK;
	return yaml_fail(node, "the network has more than %u layers and repetitions", LAYERS_MAX);
}

static enum tarn_status build_layer(struct builder *b, const struct scope *scope, struct entry *entry,
				    const struct layer_kind *kind)
{
	struct layer_value value[LAYER_MAX_KEYS] = { { 0 } };
	struct layer_call call = { .net = b->net, .detail = kind->detail, .value = value };
	uint32_t *x = NULL;
	bool trainable;
	enum tarn_status st = read_options(entry, kind, value);
	if (st)
		return st;
	st = full_name(b, scope, entry, (uint32_t)(kind - layer_kinds), "", &call.name);
	if (st)
		return st;
	st = read_inputs(b, scope, entry, kind, &x, &call.inputs);
	if (st)
		return st;
	call.x = x;
	st = read_weights(b, scope, entry, kind, &call.weights);
	if (st)
		return st;
	st = read_trainable(entry, kind, &trainable);
	if (st)
		return st;
	struct built *grown = host_arena_grow(b->scratch, b->built, &b->capacity, b->count + 1u, sizeof *b->built);
	if (!grown)
		return TARN_ENOMEM;
	b->built = grown;
	b->net->trainable = trainable;
	st = kind->build(&call, &b->previous);
	b->net->trainable = true;
	if (st)
		return fail_at(entry->node, st);
	b->built[b->count++] = (struct built){ .name = call.name,
					       .hash = hash_name(call.name),
					       .tensor = b->previous,
					       .kind = kind,
					       .owner = call.weights ? call.weights : call.name };
	return TARN_OK;
}

/* A fresh scope under `outer`. */
static enum tarn_status open_scope(struct builder *b, const struct scope *outer, const char *prefix,
				   struct scope *scope)
{
	scope->outer = outer;
	scope->prefix = prefix;
	scope->unnamed = HOST_ARRAY(b->scratch, layer_kinds_count + 1, uint32_t);
	return scope->unnamed ? TARN_OK : TARN_ENOMEM;
}

static enum tarn_status fail_repeat_key(const struct yaml_node *child, const char *const *keys, uint32_t count)
{
	char shown[YAML_SHOWN], advice[LAYER_ADVICE];
	return yaml_fail_key(child, "repeat has the keys count, layers and name, not %s; %s",
			     yaml_shown(child->key, shown, sizeof shown), layer_key_advice(child, keys, count, advice));
}

static enum tarn_status build_repeat(struct builder *b, const struct scope *scope, struct entry *entry)
{
	static const char *const keys[] = { "count", "layers", "name" };
	const struct yaml_node *options = entry->options;
	int64_t count;
	uint32_t index;
	if (!options || options->kind != YAML_MAP)
		return yaml_fail_key(entry->node, "repeat is written as repeat: {count: 3, layers: [...]}");
	for (const struct yaml_node *child = options->first; child; child = child->next) {
		for (index = 0; index < 3 && strcmp(keys[index], child->key); index++)
			;
		if (index == 3)
			return fail_repeat_key(child, keys, 3);
	}
	const struct yaml_node *count_node = yaml_find(options, "count"), *layers = yaml_find(options, "layers");
	entry->name = yaml_find(options, "name");
	if (!count_node || !layers)
		return yaml_fail_key(entry->node, "repeat needs the key %s", count_node ? "layers" : "count");
	enum tarn_status st = yaml_read_integer(count_node, 0, REPEAT_MAX, &count);
	if (st)
		return st;
	/* Without a name "repeat2_1": the number of the repeat, then that of the repetition. */
	const char *base;
	st = full_name(b, scope, entry, layer_kinds_count, entry->name ? "" : "_", &base);
	for (int64_t i = 1; i <= count && !st; i++) {
		struct scope inner;
		const char *prefix = host_arena_printf(b->scratch, "%s%" PRId64 "/", base, i);
		if (!prefix)
			return TARN_ENOMEM;
		st = open_scope(b, scope, prefix, &inner);
		if (!st)
			st = count_entry(b, entry->node);
		if (!st)
			st = build_list(b, &inner, layers);
	}
	return st;
}

static enum tarn_status build_entry(struct builder *b, const struct scope *scope, const struct yaml_node *node)
{
	struct entry entry;
	enum tarn_status st = count_entry(b, node);
	if (st)
		return st;
	st = take_apart(node, &entry);
	if (st)
		return st;
	if (!strcmp(entry.word, "repeat"))
		return build_repeat(b, scope, &entry);
	for (uint32_t k = 0; k < layer_kinds_count; k++)
		if (!strcmp(layer_kinds[k].name, entry.word))
			return build_layer(b, scope, &entry, &layer_kinds[k]);
	return fail_kind(entry.node, entry.word);
}

/* Repeats nest as deep as the YAML tree, whose depth is limited. */
static enum tarn_status build_list(struct builder *b, const struct scope *scope, const struct yaml_node *list)
{
	if (list->kind != YAML_LIST)
		return yaml_fail_value(list, "must be a list of layers, each one as `- kind: {key: value}`");
	enum tarn_status st = TARN_OK;
	for (const struct yaml_node *node = list->first; node && !st; node = node->next)
		st = build_entry(b, scope, node);
	return st;
}

enum tarn_status layer_list_build(struct network *net, const struct yaml_node *layers, uint32_t input,
				  struct host_arena *scratch, uint32_t *output)
{
	struct builder builder = { .net = net, .scratch = scratch, .input = input, .previous = input };
	struct scope scope;
	enum tarn_status st = open_scope(&builder, NULL, "", &scope);
	if (!st)
		st = build_list(&builder, &scope, layers);
	if (!st)
		*output = builder.previous;
	return st;
}
