/*
 * layer_words.h - what other programs call our layers and their keys, for "did you mean".
 *
 * Both functions write one piece of advice that continues a sentence ("did you mean conv2d?") and return `advice`.
 * Case,
 * `_` and `-` make no difference: BatchNorm2d is batch_norm. A word without a synonym gets the nearest name.
 */
#ifndef TARN_GRAPH_LAYER_WORDS_H
#define TARN_GRAPH_LAYER_WORDS_H

#include "config/yaml_tree.h"
#include "graph/layer_kinds.h"

#define LAYER_ADVICE 192

/* For a word that is no kind of layer. */
const char *layer_kind_advice(const char *word, char advice[LAYER_ADVICE]);

/* For a key that the kind does not have; `names` are those that it has. */
const char *layer_key_advice(const struct yaml_node *key, const char *const *names, uint32_t count,
			     char advice[LAYER_ADVICE]);

#endif
