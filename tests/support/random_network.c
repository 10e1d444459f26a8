/* random_network.c - see random_network.h. */
#include "support/random_network.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct text {
	char *buffer;
	size_t size, used;
	struct testing_random random;
	uint32_t batch, layers;
	uint32_t channels[64]; /* of each layer so far; the maps all have one size until the head */
};

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	int length = vsnprintf(text->buffer + text->used, text->size - text->used, format, arguments);
	va_end(arguments);
	text->used += (size_t)length;
	if (text->used >= text->size)
		text->used = text->size - 1;
}

static uint32_t pick(struct text *text, uint32_t low, uint32_t high)
{
	return testing_between(&text->random, low, high);
}

static void note(struct text *text, uint32_t channels)
{
	text->channels[text->layers++] = channels;
}

/* An earlier layer with the same number of channels, the newest excluded; UINT32_MAX when there is none. */
static uint32_t earlier_alike(struct text *text)
{
	uint32_t last = text->layers - 1, start = last ? pick(text, 0, last - 1) : 0;
	for (uint32_t i = start; i < last; i++)
		if (text->channels[i] == text->channels[last])
			return i;
	return UINT32_MAX;
}

static void put_layer(struct text *text)
{
	static const char *const activations[] = { "relu", "tanh", "silu", "gelu", "leaky_relu", "sigmoid", "relu6" };
	uint32_t number = text->layers, channels = text->channels[number - 1], other;
	switch (pick(text, 0, 7)) {
	case 0:
	case 1:
	case 2:
		channels = pick(text, 1, 9);
		put(text, "- conv2d: {name: l%u, channels: %u, kernel: 3, padding: 1, bias: %s}\n", number, channels,
		    pick(text, 0, 1) ? "true" : "false");
		break;
	case 3:
		put(text, "- batch_norm: {name: l%u}\n", number);
		break;
	case 4:
		put(text, "- %s: {name: l%u}\n", activations[pick(text, 0, 6)], number);
		break;
	case 5:
		put(text, "- dropout: {name: l%u, rate: 0.2}\n", number);
		break;
	case 6:
		other = earlier_alike(text);
		if (other == UINT32_MAX)
			put(text, "- relu: {name: l%u}\n", number);
		else
			put(text, "- add: {name: l%u, inputs: [l%u, l%u]}\n", number, number - 1, other);
		break;
	default:
		other = pick(text, 0, number - 1);
		put(text, "- concat: {name: l%u, inputs: [l%u, l%u]}\n", number, number - 1, other);
		channels += text->channels[other];
	}
	note(text, channels);
}

/* What a run can ask for beside its layers, drawn apart from them: the same seed has the same layers either way. */
static void put_settings(struct text *text)
{
	static const char *const optimizers[] = {
		"sgd", "momentum", "adam", "lion", "adafactor", "adamw, state: int8", "momentum, nesterov: true"
	};
	bool bfloat16 = pick(text, 0, 1);
	put(text, "optimizer: {type: %s, learning_rate: 0.01%s%s}\n", optimizers[pick(text, 0, 6)],
	    pick(text, 0, 2) ? "" : ", clip_norm: 1",
	    pick(text, 0, 1) ? ""
			     : ", groups: [{match: \"*/bias\", weight_decay: 0}, {match: l0/*, learning_rate: 0.02}]");
	if (bfloat16)
		put(text, "precision: {compute: bfloat16%s}\n", pick(text, 0, 1) ? ", gradients: bfloat16" : "");
	if (!pick(text, 0, 3))
		put(text, "memory: {offload: true, offload_bandwidth: 1000000000000}\n");
	put(text, "train: {seed: %u, epochs: 100, threads: 1, accumulate: %u, microbatch_norm: allow%s}\n",
	    pick(text, 0, 1000), pick(text, 1, text->batch < 3 ? text->batch : 3),
	    pick(text, 0, 1) ? ", ema: 0.9" : "");
}

static const char *write_network(uint64_t seed, bool settings, char *buffer, size_t size)
{
	static const char *const optimizers[] = { "sgd", "momentum", "adam", "adamw" };
	struct text text = { .buffer = buffer, .size = size, .random = { seed } };
	uint32_t side = pick(&text, 4, 9), classes = pick(&text, 2, 7), batch = pick(&text, 2, 6);
	put(&text,
	    "data: {type: synthetic, shape: [%u, %u, %u], classes: %u, batch: %u, samples: %u, test_samples: %u}\n",
	    side, side, pick(&text, 1, 3), classes, batch, batch * 3 + pick(&text, 0, 1), pick(&text, 0, 7));
	put(&text, "layers:\n");
	uint32_t channels = pick(&text, 1, 8);
	put(&text, "- conv2d: {name: l0, channels: %u, kernel: 3, padding: 1}\n", channels);
	note(&text, channels);
	for (uint32_t i = pick(&text, 2, 16); i > 0; i--)
		put_layer(&text);
	put(&text, "- %s\n", pick(&text, 0, 1) ? "global_pool" : "flatten");
	put(&text, "- dense: %u\n", classes);
	text.batch = batch;
	if (settings) {
		text.random.state = seed ^ UINT64_C(0x5851F42D4C957F2D);
		put_settings(&text);
		return buffer;
	}
	put(&text, "optimizer: {type: %s, learning_rate: 0.01%s}\n", optimizers[pick(&text, 0, 3)],
	    pick(&text, 0, 2) ? "" : ", clip_norm: 1");
	put(&text, "train: {seed: %u, epochs: 100, threads: 1}\n", pick(&text, 0, 1000));
	return buffer;
}

const char *random_network(uint64_t seed, char *buffer, size_t size)
{
	return write_network(seed, false, buffer, size);
}

const char *random_run(uint64_t seed, char *buffer, size_t size)
{
	return write_network(seed, true, buffer, size);
}
