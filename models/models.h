/*
 * models.h - network builders, one family a file.
 *
 * A family turns `model: {family: NAME, ...}` into layers. Its parameters are integers, described by a table that
 * drives reading, ranges, defaults, "did you mean" and help. Parameters are created in the order in which the same
 * network in PyTorch has them, so that `network.init: hash` gives both the same weights.
 */
#ifndef TARN_MODELS_H
#define TARN_MODELS_H

#include "config/yaml_tree.h"
#include "graph/layers.h"

struct model_key {
	const char *name;
	uint32_t low, high, fallback; /* range, both included, and default */
	const char *help;
};

#define MODEL_MAX_KEYS 16

struct model_values {
	uint32_t value[MODEL_MAX_KEYS]; /* in the order of the family's keys */
};

struct model_family {
	const char *name;
	const char *help;
	const struct model_key *key;
	uint32_t keys;
	/*
	 * x: the batch (N,H,W,C or N,F; N,T token ids); *y: the prediction, logits (N, classes) or (N, T, classes).
	 * Without labels `classes` are the values of a target, or the channels of an input that is its own.
	 */
	enum tarn_status (*build)(struct network *net, const struct model_values *values, uint32_t classes, uint32_t x,
				  uint32_t *y);
};

extern const struct model_family mlp_family, lenet_family, vgg_family, resnet_family, resnet_imagenet_family,
	densenet_family, mobilenetv2_family, gpt_family, lstm_family, gru_family, vit_family, unet_family,
	pixelcnn_family, pixelcnnpp_family, autoencoder_family;

extern const struct model_family *const model_families[];
extern const uint32_t model_families_count;

/* Reads the parameters from the config's `model:` node and builds the family. Errors name file, line and column. */
enum tarn_status model_build(struct network *net, const struct yaml_node *model, uint32_t classes, uint32_t x,
			     uint32_t *y);
void models_help(FILE *out);

#endif
