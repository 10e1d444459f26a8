/* models.c - the table of families, and reading their parameters. */
#include "models/models.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const struct model_family *const model_families[] = {
	&mlp_family,      &lenet_family,       &vgg_family,      &resnet_family,     &resnet_imagenet_family,
	&densenet_family, &mobilenetv2_family, &gpt_family,      &lstm_family,       &gru_family,
	&vit_family,      &unet_family,        &pixelcnn_family, &pixelcnnpp_family, &autoencoder_family,
};
const uint32_t model_families_count = sizeof model_families / sizeof model_families[0];

static enum tarn_status read_family(const struct yaml_node *model, const struct model_family **family)
{
	const char *name[sizeof model_families / sizeof model_families[0]];
	uint32_t index;
	if (model->kind != YAML_MAP)
		return yaml_fail_value(model, "must be a map: {family: %s, ...}", model_families[0]->name);
	const struct yaml_node *node = yaml_find(model, "family");
	if (!node)
		return yaml_fail(model, "model needs the key family; `tarn help models` lists them");
	for (uint32_t i = 0; i < model_families_count; i++)
		name[i] = model_families[i]->name;
	enum tarn_status st = yaml_read_choice(node, name, model_families_count, &index);
	if (!st)
		*family = model_families[index];
	return st;
}

static enum tarn_status fail_key(const struct yaml_node *node, const struct model_family *family)
{
	const char *name[MODEL_MAX_KEYS + 1] = { "family" };
	char shown[YAML_SHOWN];
	for (uint32_t i = 0; i < family->keys; i++)
		name[i + 1] = family->key[i].name;
	const char *near = nearest_name(node->key, name, family->keys + 1);
	yaml_shown(node->key, shown, sizeof shown);
	if (near)
		return yaml_fail_key(node, "%s has no parameter %s; did you mean %s?", family->name, shown, near);
	return yaml_fail_key(node, "%s has no parameter %s; `tarn help models` lists them", family->name, shown);
}

static enum tarn_status read_values(const struct yaml_node *model, const struct model_family *family,
				    struct model_values *values)
{
	for (uint32_t i = 0; i < family->keys; i++)
		values->value[i] = family->key[i].fallback;
	for (const struct yaml_node *node = model->first; node; node = node->next) {
		uint32_t i = 0;
		int64_t value;
		if (!strcmp(node->key, "family"))
			continue;
		while (i < family->keys && strcmp(family->key[i].name, node->key))
			i++;
		if (i == family->keys)
			return fail_key(node, family);
		enum tarn_status st = yaml_read_integer(node, family->key[i].low, family->key[i].high, &value);
		if (st)
			return st;
		values->value[i] = (uint32_t)value;
	}
	return TARN_OK;
}

enum tarn_status model_build(struct network *net, const struct yaml_node *model, uint32_t classes, uint32_t x,
			     uint32_t *y)
{
	const struct model_family *family = NULL;
	struct model_values values = { { 0 } };
	char sentence[TARN_ERROR_BYTES];
	enum tarn_status st = read_family(model, &family);
	if (st)
		return st;
	st = read_values(model, family, &values);
	if (st)
		return st;
	st = family->build(net, &values, classes, x, y);
	if (st != TARN_EINVAL)
		return st;
	snprintf(sentence, sizeof sentence, "%s", tarn_error());
	return yaml_fail(model, "%s: %s", family->name, sentence);
}

void models_help(FILE *out)
{
	fprintf(out, "model: {family: NAME, parameter: value, ...}\n\n");
	for (uint32_t i = 0; i < model_families_count; i++) {
		const struct model_family *family = model_families[i];
		fprintf(out, "%-16s %s\n", family->name, family->help);
		for (uint32_t k = 0; k < family->keys; k++)
			fprintf(out, "    %-14s %s; integer from %" PRIu32 " to %" PRIu32 "; default %" PRIu32 "\n",
				family->key[k].name, family->key[k].help, family->key[k].low, family->key[k].high,
				family->key[k].fallback);
	}
}
