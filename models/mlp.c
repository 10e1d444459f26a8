/* mlp.c - multilayer perceptron: depth times (dense, relu), then a dense layer. Images are flattened first. */
#include "models/models.h"

#include <stdio.h>

enum { WIDTH, DEPTH };

static const struct model_key keys[] = {
	[WIDTH] = { "width", 1, 1000000, 1024, "features of a hidden layer" },
	[DEPTH] = { "depth", 0, 10000, 8, "hidden layers" },
};

static enum tarn_status build(struct network *net, const struct model_values *values, uint32_t classes, uint32_t x,
			      uint32_t *y)
{
	char name[32];
	enum tarn_status st = TARN_OK;
	if (net->graph->tensor[x].rank != 2)
		st = layer_flatten(net, "flatten", x, true, &x);
	for (uint32_t i = 1; i <= values->value[DEPTH] && !st; i++) {
		snprintf(name, sizeof name, "dense%u", i);
		st = layer_dense(net, name, x, values->value[WIDTH], true, NULL, &x);
		if (st)
			return st;
		snprintf(name, sizeof name, "relu%u", i);
		st = layer_activation(net, name, x, ACTIVATION_RELU, 0, &x);
	}
	return st ? st : layer_dense(net, "output", x, classes, true, NULL, y);
}

const struct model_family mlp_family = {
	.name = "mlp",
	.help = "multilayer perceptron: hidden layers with relu",
	.key = keys,
	.keys = sizeof keys / sizeof keys[0],
	.build = build,
};
