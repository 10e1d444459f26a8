/*
 * layer_kinds.h - the kinds of layers that `layers:` knows, as a table.
 *
 * Parsing, "did you mean" and `tarn help layers` all come from it. A kind reads its values in the order of its keys.
 */
#ifndef TARN_GRAPH_LAYER_KINDS_H
#define TARN_GRAPH_LAYER_KINDS_H

#include "graph/layers.h"

#define LAYER_MAX_KEYS 10

enum layer_key_type {
	LAYER_COUNT,   /* an integer */
	LAYER_PAIR,    /* an integer, or [height, width] */
	LAYER_PADDING, /* the same, or `same` */
	LAYER_REAL,
	LAYER_BOOL,
	LAYER_CHOICE,
};

struct layer_key {
	const char *name;
	enum layer_key_type type;
	double low, high;     /* range of a number, both included */
	const char *fallback; /* default as one would write it, for help; NULL: the key is required */
	double value;         /* the same as a number; of a choice, its index */
	const char *help;
	const char *const *choices;
	uint32_t n_choices;
};

struct layer_value {
	double real;
	uint32_t pair[2]; /* COUNT, BOOL and CHOICE use the first */
	bool same;        /* padding: same */
};

/* What a kind gets to build one layer. */
struct layer_call {
	struct network *net;
	const char *name;
	uint32_t detail; /* of its row in the table */
	const struct layer_value *value;
	const uint32_t *x;
	uint32_t inputs;
	const char *weights; /* layer whose parameters are shared, or NULL */
};

struct layer_kind {
	const char *name, *help;
	const struct layer_key *key;
	uint32_t keys;
	int32_t short_key; /* key that `- kind: value` sets; -1: none */
	bool many_inputs;  /* two or more, instead of exactly one; `- kind: [a, b]` sets them */
	bool trainable;    /* has parameters: `trainable: false` makes sense */
	bool shareable;    /* `weights: NAME` works */
	uint32_t detail;   /* passed on: one function for all activations */
	enum tarn_status (*build)(const struct layer_call *call, uint32_t *y);
};

extern const struct layer_kind layer_kinds[];
extern const uint32_t layer_kinds_count;

#endif
