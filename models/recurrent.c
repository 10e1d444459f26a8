/*
 * recurrent.c - language models of LSTM or GRU layers, trained by back-propagation through the whole sequence.
 *
 * Token embedding (uniform in [-1, 1)), the recurrent layers, a dense head over the vocabulary. Other weights start
 * uniform in +- 1/sqrt(width).
 */
#include "models/models.h"

#include <math.h>

enum { WIDTH, LAYERS, CHUNK, DROPOUT };

static const struct model_key keys[] = {
	[WIDTH] = { "width", 1, 1000000, 256, "features of embedding and state" },
	[LAYERS] = { "layers", 1, 1000, 2, "recurrent layers" },
	[CHUNK] = { "chunk", 1, 1000000, 16, "time steps whose input products are made at once" },
	[DROPOUT] = { "dropout", 0, 99, 0, "percent, behind the embedding and the last layer" },
};

static enum tarn_status build(struct network *net, const char *name, bool gru, const uint32_t *value, uint32_t classes,
			      uint32_t x, uint32_t *y)
{
	const struct recurrent_options options = {
		.gru = gru, .features = value[WIDTH], .layers = value[LAYERS], .chunk = value[CHUNK]
	};
	const float kept = net->init_bound, rate = (float)value[DROPOUT] / 100.0f;
	net->init_bound = 1;
	enum tarn_status st = layer_embedding(net, "token", x, classes, value[WIDTH], 1, &x);
	if (!st)
		st = layer_dropout(net, "token_dropout", x, rate, &x);
	net->init_bound = (float)(1 / sqrt((double)value[WIDTH]));
	if (!st)
		st = layer_recurrent(net, name, x, &options, &x);
	if (!st)
		st = layer_dropout(net, "dropout", x, rate, &x);
	if (!st)
		st = layer_dense(net, "head", x, classes, true, NULL, y);
	net->init_bound = kept;
	return st;
}

static enum tarn_status build_lstm(struct network *net, const struct model_values *values, uint32_t classes, uint32_t x,
				   uint32_t *y)
{
	return build(net, "lstm", false, values->value, classes, x, y);
}

static enum tarn_status build_gru(struct network *net, const struct model_values *values, uint32_t classes, uint32_t x,
				  uint32_t *y)
{
	return build(net, "gru", true, values->value, classes, x, y);
}

const struct model_family lstm_family = {
	.name = "lstm",
	.help = "language model of LSTM layers",
	.key = keys,
	.keys = sizeof keys / sizeof keys[0],
	.build = build_lstm,
};

const struct model_family gru_family = {
	.name = "gru",
	.help = "language model of GRU layers",
	.key = keys,
	.keys = sizeof keys / sizeof keys[0],
	.build = build_gru,
};
