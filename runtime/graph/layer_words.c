/* layer_words.c - see layer_words.h. */
#include "graph/layer_words.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Longer words have no synonym here. */
#define WORD_BYTES 32

struct synonym {
	const char *word, *meant;
};

/* Words in the form that normalise() gives them. */
static const struct synonym kind_synonyms[] = {
	{ "conv", "conv2d" },
	{ "convolution", "conv2d" },
	{ "convolution2d", "conv2d" },
	{ "linear", "dense" },
	{ "fc", "dense" },
	{ "fullyconnected", "dense" },
	{ "affine", "dense" },
	{ "innerproduct", "dense" },
	{ "bn", "batch_norm" },
	{ "batchnorm2d", "batch_norm" },
	{ "batchnorm1d", "batch_norm" },
	{ "batchnormalization", "batch_norm" },
	{ "batchnormalisation", "batch_norm" },
	{ "ln", "layer_norm" },
	{ "layernormalization", "layer_norm" },
	{ "layernormalisation", "layer_norm" },
	{ "lrelu", "leaky_relu" },
	{ "swish", "silu" },
	{ "logistic", "sigmoid" },
	{ "maxpool2d", "max_pool" },
	{ "maxpooling", "max_pool" },
	{ "maxpooling2d", "max_pool" },
	{ "avgpool2d", "avg_pool" },
	{ "avgpooling", "avg_pool" },
	{ "averagepool", "avg_pool" },
	{ "averagepooling", "avg_pool" },
	{ "averagepooling2d", "avg_pool" },
	{ "meanpool", "avg_pool" },
	{ "pool", "max_pool or avg_pool" },
	{ "pooling", "max_pool or avg_pool" },
	{ "gap", "global_pool" },
	{ "globalavgpool", "global_pool" },
	{ "globalavgpool2d", "global_pool" },
	{ "globalaveragepool", "global_pool" },
	{ "globalaveragepooling", "global_pool" },
	{ "globalaveragepooling2d", "global_pool" },
	{ "globalmeanpool", "global_pool" },
	{ "adaptiveavgpool", "global_pool" },
	{ "adaptiveavgpool2d", "global_pool" },
	{ "reshape", "flatten" },
	{ "dropout2d", "dropout" },
	{ "sum", "add" },
	{ "plus", "add" },
	{ "residual", "add" },
	{ "shortcut", "add" },
	{ "skip", "add" },
	{ "mul", "multiply" },
	{ "product", "multiply" },
	{ "cat", "concat" },
	{ "concatenate", "concat" },
	{ "merge", "concat" },
	{ "embed", "embedding" },
	{ "tokenembedding", "embedding" },
	{ "positionalembedding", "positions" },
	{ "positionembedding", "positions" },
	{ "selfattention", "attention" },
	{ "multiheadattention", "attention" },
	{ "mha", "attention" },
	{ "rmsnorm", "rms_norm" },
	{ "glu", "gate" },
	{ "swiglu", "gate" },
	{ "geglu", "gate" },
	{ "rnn", "lstm or gru" },
	{ "loop", "repeat" },
	{ "times", "repeat" },
	{ "sequential", "repeat" },
	{ "block", "repeat" },
};

/* Layers that are no layers here: what to do instead. */
static const struct synonym no_kinds[] = {
	{ "softmax", "the cross-entropy loss contains it: leave it out" },
	{ "logsoftmax", "the cross-entropy loss contains it: leave it out" },
	{ "crossentropy", "network.loss says it: leave it out" },
	{ "mse", "network.loss says it: leave it out" },
	{ "loss", "network.loss says it: leave it out" },
	{ "input", "the data say the input's shape: leave it out" },
	{ "inputlayer", "the data say the input's shape: leave it out" },
	{ "output", "the last layer is the output: leave it out" },
	{ "identity", "leave it out" },
	{ "zeropadding2d", "conv2d and the pools have the key padding" },
	{ "pad", "conv2d and the pools have the key padding" },
	{ "activation", "write its name as the layer, such as - relu" },
};

/* A word may have several meanings; the first that the kind has counts. */
static const struct synonym key_synonyms[] = {
	{ "units", "features" },
	{ "outfeatures", "features" },
	{ "outputs", "features" },
	{ "numoutputs", "features" },
	{ "neurons", "features" },
	{ "hidden", "features" },
	{ "width", "features" },
	{ "channels", "features" },
	{ "size", "features" },
	{ "filters", "channels" },
	{ "outchannels", "channels" },
	{ "outputchannels", "channels" },
	{ "numfilters", "channels" },
	{ "features", "channels" },
	{ "outfeatures", "channels" },
	{ "outputs", "channels" },
	{ "kernelsize", "kernel" },
	{ "ksize", "kernel" },
	{ "poolsize", "kernel" },
	{ "window", "kernel" },
	{ "size", "kernel" },
	{ "strides", "stride" },
	{ "step", "stride" },
	{ "pad", "padding" },
	{ "pads", "padding" },
	{ "dilations", "dilation" },
	{ "dilationrate", "dilation" },
	{ "group", "groups" },
	{ "usebias", "bias" },
	{ "countincludepad", "count_padding" },
	{ "eps", "epsilon" },
	{ "p", "rate" },
	{ "prob", "rate" },
	{ "probability", "rate" },
	{ "ratio", "rate" },
	{ "drop", "rate" },
	{ "alpha", "slope" },
	{ "negativeslope", "slope" },
	{ "slope", "alpha" },
	{ "dim", "axis" },
	{ "input", "inputs" },
	{ "from", "inputs" },
	{ "bottom", "inputs" },
	{ "freeze", "trainable" },
	{ "frozen", "trainable" },
	{ "requiresgrad", "trainable" },
	{ "share", "weights" },
	{ "sharedwith", "weights" },
	{ "tied", "weights" },
	{ "numheads", "heads" },
	{ "nheads", "heads" },
	{ "nhead", "heads" },
	{ "kvheads", "key_heads" },
	{ "numkvheads", "key_heads" },
	{ "numembeddings", "vocabulary" },
	{ "vocab", "vocabulary" },
	{ "vocabsize", "vocabulary" },
	{ "embeddingdim", "features" },
	{ "hiddensize", "features" },
	{ "numlayers", "layers" },
	/* repeat */
	{ "times", "count" },
	{ "n", "count" },
	{ "repeats", "count" },
	{ "body", "layers" },
	{ "block", "layers" },
	{ "prefix", "name" },
};

static const struct synonym no_keys[] = {
	{ "embeddim", "the layer before says it: leave it out" },
	{ "infeatures", "the layer before says it: leave it out" },
	{ "inchannels", "the layer before says it: leave it out" },
	{ "inputshape", "the layer before says it: leave it out" },
	{ "inputdim", "the layer before says it: leave it out" },
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Small letters, without `_` and `-`; false when the word is too long. */
static bool normalise(const char *text, char word[WORD_BYTES])
{
	size_t used = 0;
	for (; *text && used + 1 < WORD_BYTES; text++)
		if (*text != '_' && *text != '-')
			word[used++] = (char)tolower((unsigned char)*text);
	word[used] = '\0';
	return !*text;
}

static const char *look_up(const struct synonym *table, size_t count, const char *word)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(table[i].word, word))
			return table[i].meant;
	return NULL;
}

static const char *advise(char advice[LAYER_ADVICE], const char *sentence)
{
	snprintf(advice, LAYER_ADVICE, "%s", sentence);
	return advice;
}

/* `meant` NULL: nothing is near. */
static const char *did_you_mean(const char *meant, char advice[LAYER_ADVICE])
{
	if (!meant)
		return advise(advice, "`tarn help layers` lists them");
	snprintf(advice, LAYER_ADVICE, "did you mean %s?", meant);
	return advice;
}

/* The kind that the normalised word stands for; NULL when it is not known. */
static const char *known_kind(const char *word)
{
	char name[WORD_BYTES];
	for (uint32_t k = 0; k < layer_kinds_count; k++)
		if (normalise(layer_kinds[k].name, name) && !strcmp(name, word))
			return layer_kinds[k].name;
	return strcmp(word, "repeat") ? look_up(kind_synonyms, COUNT(kind_synonyms), word) : "repeat";
}

static const char *nearest_kind(const char *text)
{
	const char *names[64] = { "repeat" };
	uint32_t count = 1;
	for (uint32_t k = 0; k < layer_kinds_count && count < 64; k++)
		names[count++] = layer_kinds[k].name;
	return nearest_name(text, names, count);
}

const char *layer_kind_advice(const char *text, char advice[LAYER_ADVICE])
{
	char word[WORD_BYTES];
	if (!normalise(text, word))
		return did_you_mean(nearest_kind(text), advice);
	const char *instead = look_up(no_kinds, COUNT(no_kinds), word), *kind = known_kind(word);
	if (instead)
		return advise(advice, instead);
	return did_you_mean(kind ? kind : nearest_kind(text), advice);
}

/* `activation: relu` inside a layer. */
static const char *activation_advice(const struct yaml_node *key, char advice[LAYER_ADVICE])
{
	char word[WORD_BYTES];
	const char *kind = NULL;
	if (key->kind == YAML_SCALAR && normalise(key->text, word)) {
		const char *instead = look_up(no_kinds, COUNT(no_kinds), word);
		if (instead)
			return advise(advice, instead);
		kind = known_kind(word);
	}
	snprintf(advice, LAYER_ADVICE, "write it as the next layer: - %s", kind ? kind : "relu");
	return advice;
}

/* The key that the normalised word stands for, of those that there are. */
static const char *known_key(const char *word, const char *const *names, uint32_t count)
{
	char name[WORD_BYTES];
	for (uint32_t i = 0; i < count; i++)
		if (normalise(names[i], name) && !strcmp(name, word))
			return names[i];
	for (size_t s = 0; s < COUNT(key_synonyms); s++)
		for (uint32_t i = 0; i < count && !strcmp(key_synonyms[s].word, word); i++)
			if (!strcmp(key_synonyms[s].meant, names[i]))
				return names[i];
	return NULL;
}

const char *layer_key_advice(const struct yaml_node *key, const char *const *names, uint32_t count,
			     char advice[LAYER_ADVICE])
{
	char word[WORD_BYTES];
	const char *nearest = nearest_name(key->key, names, count);
	if (!normalise(key->key, word))
		return did_you_mean(nearest, advice);
	if (!strcmp(word, "activation"))
		return activation_advice(key, advice);
	const char *instead = look_up(no_keys, COUNT(no_keys), word), *known = known_key(word, names, count);
	if (instead)
		return advise(advice, instead);
	return did_you_mean(known ? known : nearest, advice);
}
