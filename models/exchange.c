/* exchange.c - see exchange.h. The names are those of torchvision 0.29 and of GPT-2 as published in 2019. */
#include "models/exchange.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_NUMBERS 3
#define NAME_BYTES 256

enum { TRANSPOSED = 1, BIAS = 2, TWIN = 4 };

/*
 * A layer, or with its "/weight" or "/bias" a single tensor. `own`: # stands for a number. `foreign`: $1 is the first
 * of them, %1 that number less one, @N the place of a convolution in VGG's list of features, plus N.
 */
struct rule {
	const char *own, *foreign;
	uint8_t flags; /* TRANSPOSED: of the weight */
	uint8_t ones;
};

struct table {
	const char *family;
	const struct rule *rule;
	const char *needs;  /* a tensor without which the names are no proof of the family; NULL: none */
	const char *prefix; /* see struct exchange */
	const char *const *ignored;
};

static const struct rule resnet[] = {
	{ "conv1", "conv1", 0, 0 },
	{ "norm1", "bn1", 0, 0 },
	{ "stage#/block#/conv_shortcut", "layer$1.%2.downsample.0", 0, 0 },
	{ "stage#/block#/norm_shortcut", "layer$1.%2.downsample.1", 0, 0 },
	{ "stage#/block#/conv#", "layer$1.%2.conv$3", 0, 0 },
	{ "stage#/block#/norm#", "layer$1.%2.bn$3", 0, 0 },
	{ "output", "fc", 0, 0 },
	{ NULL, NULL, 0, 0 },
};

static const struct rule vgg[] = {
	{ "stage#/conv#", "features.@0", BIAS, 0 }, { "stage#/norm#", "features.@1", 0, 0 },
	{ "dense1", "classifier.0", 0, 0 },         { "dense2", "classifier.3", 0, 0 },
	{ "output", "classifier.6", 0, 0 },         { NULL, NULL, 0, 0 },
};

static const struct rule densenet[] = {
	{ "conv1", "features.conv0", 0, 0 },
	{ "block#/layer#/conv#", "features.denseblock$1.denselayer$2.conv$3", 0, 0 },
	{ "block#/layer#/norm#", "features.denseblock$1.denselayer$2.norm$3", 0, 0 },
	{ "transition#/conv", "features.transition$1.conv", 0, 0 },
	{ "transition#/norm", "features.transition$1.norm", 0, 0 },
	{ "norm_last", "features.norm5", 0, 0 },
	{ "output", "classifier", 0, 0 },
	{ NULL, NULL, 0, 0 },
};

/* The first block has no expansion, so that its layers stand one place earlier. */
static const struct rule mobilenetv2[] = {
	{ "conv1", "features.0.0", 0, 0 },
	{ "norm1", "features.0.1", 0, 0 },
	{ "block1/conv_depthwise", "features.1.conv.0.0", 0, 0 },
	{ "block1/norm_depthwise", "features.1.conv.0.1", 0, 0 },
	{ "block1/conv_project", "features.1.conv.1", 0, 0 },
	{ "block1/norm_project", "features.1.conv.2", 0, 0 },
	{ "block#/conv_expand", "features.$1.conv.0.0", 0, 0 },
	{ "block#/norm_expand", "features.$1.conv.0.1", 0, 0 },
	{ "block#/conv_depthwise", "features.$1.conv.1.0", 0, 0 },
	{ "block#/norm_depthwise", "features.$1.conv.1.1", 0, 0 },
	{ "block#/conv_project", "features.$1.conv.2", 0, 0 },
	{ "block#/norm_project", "features.$1.conv.3", 0, 0 },
	{ "conv_last", "features.18.0", 0, 0 },
	{ "norm_last", "features.18.1", 0, 0 },
	{ "output", "classifier.1", 0, 0 },
	{ NULL, NULL, 0, 0 },
};

static const struct rule gpt[] = {
	{ "token", "transformer.wte", TWIN, 0 },
	{ "position", "transformer.wpe", 0, 0 },
	{ "block#/norm1", "transformer.h.%1.ln_1", 0, 0 },
	{ "block#/attention/qkv", "transformer.h.%1.attn.c_attn", TRANSPOSED, 0 },
	{ "block#/attention/proj", "transformer.h.%1.attn.c_proj", TRANSPOSED, 0 },
	{ "block#/norm2", "transformer.h.%1.ln_2", 0, 0 },
	{ "block#/mlp1", "transformer.h.%1.mlp.c_fc", TRANSPOSED, 0 },
	{ "block#/mlp2", "transformer.h.%1.mlp.c_proj", TRANSPOSED, 0 },
	{ "norm", "transformer.ln_f", 0, 0 },
	{ "head", "lm_head", 0, 0 },
	{ NULL, NULL, 0, 0 },
};

static const struct rule vit[] = {
	{ "patch", "conv_proj", 0, 0 },
	{ "class/weight", "class_token", 0, 1 },
	{ "position/weight", "encoder.pos_embedding", 0, 1 },
	{ "block#/norm1", "encoder.layers.encoder_layer_%1.ln_1", 0, 0 },
	{ "block#/attention/qkv/weight", "encoder.layers.encoder_layer_%1.self_attention.in_proj_weight", 0, 0 },
	{ "block#/attention/qkv/bias", "encoder.layers.encoder_layer_%1.self_attention.in_proj_bias", 0, 0 },
	{ "block#/attention/proj", "encoder.layers.encoder_layer_%1.self_attention.out_proj", 0, 0 },
	{ "block#/norm2", "encoder.layers.encoder_layer_%1.ln_2", 0, 0 },
	{ "block#/mlp1", "encoder.layers.encoder_layer_%1.mlp.0", 0, 0 },
	{ "block#/mlp2", "encoder.layers.encoder_layer_%1.mlp.3", 0, 0 },
	{ "norm", "encoder.ln", 0, 0 },
	{ "head", "heads.head", 0, 0 },
	{ NULL, NULL, 0, 0 },
};

static const char *const nothing[] = { NULL };
/* The causal masks that older files of GPT-2 hold. */
static const char *const masks[] = { "*.attn.bias", "*.attn.masked_bias", NULL };

static const struct table tables[] = {
	{ "resnet", resnet, "stage1/block1/conv1/weight", "", nothing },
	{ "vgg", vgg, "stage1/conv1/weight", "", nothing },
	{ "densenet", densenet, "norm_last/weight", "", nothing },
	{ "mobilenetv2", mobilenetv2, "conv_last/weight", "", nothing },
	{ "vit", vit, "class/weight", "", nothing },
	{ "gpt", gpt, "position/weight", "transformer.", masks },
};

/* The parts of batch norm that PyTorch calls otherwise. */
static const char *foreign_part(const char *part)
{
	return strcmp(part, "batches") ? part : "num_batches_tracked";
}

/* `text` is the pattern, whose # are the numbers. */
static bool match(const char *pattern, const char *text, size_t bytes, uint32_t number[MAX_NUMBERS])
{
	uint32_t found = 0;
	const char *end = text + bytes;
	for (; *pattern; pattern++) {
		if (*pattern != '#') {
			if (text == end || *text++ != *pattern)
				return false;
			continue;
		}
		if (text == end || !isdigit((unsigned char)*text) || found == MAX_NUMBERS)
			return false;
		uint32_t value = 0;
		while (text < end && isdigit((unsigned char)*text) && value < 100000000)
			value = 10 * value + (uint32_t)(*text++ - '0');
		number[found++] = value;
	}
	return text == end;
}

struct names {
	const char *const *name;
	uint32_t count;
};

static bool holds(const struct names *names, const char *name)
{
	for (uint32_t i = 0; i < names->count; i++)
		if (!strcmp(names->name[i], name))
			return true;
	return false;
}

/* VGG's features in a row: three modules a convolution, one more behind each stage. */
static uint32_t vgg_place(const struct names *names, uint32_t stage, uint32_t convolution)
{
	uint32_t place = stage - 1 + 3 * (convolution - 1);
	for (uint32_t i = 0; i < names->count; i++) {
		uint32_t number[MAX_NUMBERS] = { 0 };
		if (match("stage#/conv#/weight", names->name[i], strlen(names->name[i]), number) && number[0] < stage)
			place += 3;
	}
	return place;
}

static void substitute(const char *pattern, const uint32_t number[MAX_NUMBERS], const struct names *names,
		       char out[NAME_BYTES])
{
	size_t used = 0;
	for (; *pattern && used + 12 < NAME_BYTES; pattern++) {
		bool special = strchr("$%@", *pattern) != NULL;
		if (!special) {
			out[used++] = *pattern;
			continue;
		}
		uint32_t digit = (uint32_t)(pattern[1] - '0'), value;
		if (*pattern == '@')
			value = vgg_place(names, number[0], number[1]) + digit;
		else
			value = number[digit - 1] - (*pattern == '%');
		used += (size_t)snprintf(out + used, NAME_BYTES - used, "%" PRIu32, value);
		pattern++;
	}
	out[used] = '\0';
}

/* The rule for the tensor, and its foreign name; NULL when the table does not know it. */
static const struct rule *find_rule(const struct table *table, const struct names *names, const char *name,
				    char foreign[NAME_BYTES])
{
	const char *slash = strrchr(name, '/');
	uint32_t number[MAX_NUMBERS] = { 1, 1, 1 };
	for (const struct rule *rule = table->rule; rule->own && slash; rule++) {
		if (match(rule->own, name, strlen(name), number)) {
			substitute(rule->foreign, number, names, foreign);
			return rule;
		}
		if (!match(rule->own, name, (size_t)(slash - name), number))
			continue;
		substitute(rule->foreign, number, names, foreign);
		size_t used = strlen(foreign);
		snprintf(foreign + used, NAME_BYTES - used, ".%s", foreign_part(slash + 1));
		return rule;
	}
	return NULL;
}

static const struct table *find_table(const struct names *names)
{
	char foreign[NAME_BYTES];
	for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
		const struct table *table = &tables[t];
		bool all = holds(names, table->needs);
		for (uint32_t i = 0; i < names->count && all; i++)
			all = find_rule(table, names, names->name[i], foreign) != NULL;
		if (all)
			return table;
	}
	return NULL;
}

static enum tarn_status add(struct exchange *out, struct host_arena *arena, const char *own, const char *foreign,
			    uint32_t kind, uint32_t ones)
{
	const char *text = host_arena_text(arena, foreign);
	out->entry[out->entries++] = (struct exchange_entry){ .own = own, .foreign = text, .kind = kind, .ones = ones };
	return text ? TARN_OK : TARN_ENOMEM;
}

/* "stage1/conv1/weight" -> "stage1/norm1/running_mean" */
static const char *norm_behind(const char *convolution, struct host_arena *arena)
{
	const char *slash = strrchr(convolution, '/'), *conv = strstr(convolution, "conv");
	return host_arena_printf(arena, "%.*snorm%.*s/running_mean", (int)(conv - convolution), convolution,
				 (int)(slash - conv - 4), conv + 4);
}

/* What the foreign network has beside the own tensors. */
static enum tarn_status add_extra(struct exchange *out, const struct names *names, const struct table *table,
				  struct host_arena *arena)
{
	char foreign[NAME_BYTES];
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 0; i < names->count && !st; i++) {
		const char *name = names->name[i];
		const struct rule *rule = find_rule(table, names, name, foreign);
		size_t length = strlen(foreign);
		if (rule->flags & TWIN && !holds(names, "head/weight"))
			st = add(out, arena, name, "lm_head.weight", EXCHANGE_TWIN, 0);
		if (!(rule->flags & BIAS) || length < 6 || strcmp(foreign + length - 6, "weight") != 0)
			continue;
		memcpy(foreign + length - 6, "bias", 5);
		const char *mean = norm_behind(name, arena);
		st = mean ? add(out, arena, mean, foreign, EXCHANGE_BIAS, 0) : TARN_ENOMEM;
	}
	return st;
}

static enum tarn_status add_named(struct exchange *out, const struct names *names, const struct table *table,
				  struct host_arena *arena)
{
	char foreign[NAME_BYTES];
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 0; i < names->count && !st; i++) {
		const char *name = names->name[i], *part = strrchr(name, '/');
		const struct rule *rule = table ? find_rule(table, names, name, foreign) : NULL;
		bool transposed = rule && rule->flags & TRANSPOSED && part && !strcmp(part, "/weight");
		if (!rule) {
			int layer = part ? (int)(part - name) : 0;
			snprintf(foreign, sizeof foreign, "%.*s%s%s", layer, name, part ? "." : "",
				 foreign_part(part ? part + 1 : name));
			for (char *at = foreign; *at; at++)
				*at = *at == '/' ? '.' : *at;
		}
		st = add(out, arena, name, foreign, transposed ? EXCHANGE_TRANSPOSED : EXCHANGE_PLAIN,
			 rule ? rule->ones : 0);
	}
	return st;
}

static enum tarn_status apply_line(struct exchange *out, char *line, uint32_t number, struct host_arena *arena)
{
	char *state, *own = strtok_r(line, " \t\r", &state), *foreign = strtok_r(NULL, " \t\r", &state);
	char *layout = foreign ? strtok_r(NULL, " \t\r", &state) : NULL;
	if (!own)
		return TARN_OK;
	if (!foreign || (layout && strcmp(layout, "transposed") != 0) || strtok_r(NULL, " \t\r", &state))
		return tarn_fail(TARN_EINVAL,
				 "map, line %" PRIu32 ": write the own name, the other name, and nothing or transposed",
				 number);
	for (uint32_t i = 0; i < out->entries; i++) {
		struct exchange_entry *entry = &out->entry[i];
		if (strcmp(entry->own, own) != 0 || entry->kind > EXCHANGE_TRANSPOSED)
			continue;
		entry->foreign = host_arena_text(arena, foreign);
		entry->kind = layout ? EXCHANGE_TRANSPOSED : EXCHANGE_PLAIN;
		entry->ones = 0;
		return entry->foreign ? TARN_OK : TARN_ENOMEM;
	}
	return tarn_fail(TARN_EINVAL, "map, line %" PRIu32 ": the network has no tensor %s; one of its names is %s",
			 number, own, out->entries ? out->entry[0].own : "none");
}

static enum tarn_status apply_map(struct exchange *out, const char *map, struct host_arena *arena)
{
	char *text = host_arena_text(arena, map);
	enum tarn_status st = text ? TARN_OK : TARN_ENOMEM;
	for (uint32_t number = 1; text && !st; number++) {
		char *line = strsep(&text, "\n");
		line[strcspn(line, "#")] = '\0';
		st = apply_line(out, line, number, arena);
	}
	return st;
}

enum tarn_status exchange_build(const char *const *name, uint32_t count, const char *map, struct host_arena *arena,
				struct exchange *out)
{
	const struct names names = { name, count };
	const struct table *table = find_table(&names);
	*out = (struct exchange){ .family = table ? table->family : "",
				  .prefix = table ? table->prefix : "",
				  .ignored = table ? table->ignored : nothing };
	/* A bias a convolution, and a twin. */
	out->entry = HOST_ARRAY(arena, 2 * (size_t)count + 1, struct exchange_entry);
	if (!out->entry)
		return TARN_ENOMEM;
	enum tarn_status st = add_named(out, &names, table, arena);
	if (!st && table)
		st = add_extra(out, &names, table, arena);
	return st || !map ? st : apply_map(out, map, arena);
}
