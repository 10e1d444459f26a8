/*
 * models.h - network builders, one family a file.
 *
 * A family turns `model: {family: NAME, ...}` into layers. It reads its parameters with the typed readers of
 * yaml_tree.h through model_integer() and friends, which also note which keys were read: a key that no family
 * knows is an error with "did you mean".
 */
#ifndef TARN_MODELS_H
#define TARN_MODELS_H

#include "graph/layers.h"

struct model_key {
	const char *name;
	double low, high, fallback; /* range and default of a number; fallback NAN: required */
	const char *help;
};

struct model_values {
	double value[16]; /* in the order of the family's keys */
};

struct model_family {
	const char *name;
	const char *help;
	const struct model_key *key;
	uint32_t keys;
	/* x: the batch (N,H,W,C or N,F); *y: the prediction, logits (N, classes). */
	enum tarn_status (*build)(struct network *net, const struct model_values *values, uint32_t classes, uint32_t x,
				  uint32_t *y);
};

extern const struct model_family mlp_family;    /* mlp.c: width, depth */
extern const struct model_family lenet_family;  /* lenet.c */
extern const struct model_family resnet_family; /* resnet.c: CIFAR family, depth = 6n+2, width = 16 */

extern const struct model_family *const model_families[];
extern const uint32_t model_families_count;

/* Reads the parameters from the config's `model:` node and builds the family. */
enum tarn_status model_build(struct network *net, const struct yaml_node *model, uint32_t classes, uint32_t x,
			     uint32_t *y);
void models_help(FILE *out);

#endif
