/*
 * build.h - config -> network graph.
 *
 * The body is either `layers:` (a list of one-key maps, `- conv2d: {channels: 16, kernel: 3}`; a bare word for a layer
 * without options, `- relu`) or `model:` (a family of models/ with its parameters). Both go through the same
 * layer functions of layers.h, so that they give the same ops.
 *
 * Every layer may have: `name:` (unique in its scope; default <kind><n>), `inputs:` (names of earlier layers,
 * or `input`; default: the previous layer), `trainable: false`, `weights: NAME` (share the parameters of that
 * earlier layer of the same kind and shape). `- repeat: {count: 3, name: block, layers: [...]}` instantiates its
 * layers count times under block1/, block2/ ... (without a name: repeat1_1/, repeat1_2/ ...); a name inside refers to
 * the innermost scope first. Values that are one number may be given short: `- dense: 10`; layer_kinds.c has the table.
 * The result of the list is its last layer. Unknown kinds and keys, wrong types and shapes: file:line:column, the
 * layer's name, what it got, what it needs.
 *
 * Around the body the builder adds, in this order: persistent "scalars", "staging/input", "staging/target"
 * (not where the input is its own target), metrics "metric/loss", "metric/correct" (cross-entropy only); INPUT ops
 * "input" and "target"; the body; the loss; RECORDs. With network.chunked_loss the last layer, a dense one, becomes
 * part of the loss (LINEAR_CROSS_ENTROPY), the prediction is that layer's input, and nothing counts correct rows. For
 * inference (evaluation) the same names and parameters, BATCH_APPLY reads the running statistics, no dropout, no
 * RUNNING_UPDATE.
 *
 * Of each of data.arrays there is a slot "staging/NAME" and an INPUT op NAME, which layers may have as `inputs`. Each
 * of network.losses compares a layer, by its full name, with one of them; "metric/loss" is then the weighted sum that
 * is minimised, and "metric/loss/network" (the last layer's), "metric/loss/NAME" and, for labels, "metric/correct/NAME"
 * are its parts.
 *
 * A pass afterwards (simplify.h) drops layers that the loss does not depend on, with their parameters, and fuses
 * relu/relu6 into the only producer that feeds nothing else (MATMUL, CONV2D, ADD, BATCH_APPLY): a function of the
 * graph alone, never of the budget. Tensors are named after layers; the result of a fused op has the activation's name.
 */
#ifndef TARN_GRAPH_BUILD_H
#define TARN_GRAPH_BUILD_H

#include "config/config.h"
#include "graph/graph.h"

enum build_mode { BUILD_TRAINING, BUILD_INFERENCE };

/* One of data.arrays: an input or target beside the two that every network has. */
struct sample_array {
	const char *name;              /* of config.data.arrays */
	uint32_t dim[OP_MAX_RANK - 1]; /* of one sample; floats have at least one */
	uint32_t rank;
	bool integer; /* i32 labels or ids; else f32 values */
};

/* What the data say of one sample; from dataset.h, or data.shape for sources without files. */
struct sample_shape {
	uint32_t dim[OP_MAX_RANK - 1]; /* H, W, C for images; F for vectors */
	uint32_t rank;
	uint32_t vocabulary;  /* inputs are token ids in [0, vocabulary), i32; 0: they are f32 values */
	uint32_t classes;     /* cross-entropy: labels in [0, classes) */
	uint32_t target_rank; /* shape of one target; cross-entropy: of a sample's labels, 0 where it has one */
	uint32_t target_dim[OP_MAX_RANK - 1];
	struct sample_array array[CONFIG_MAX_ARRAYS];
	uint32_t arrays;
};

/*
 * Builds the network for `batch` samples. *loss receives the loss tensor, *output the prediction (logits).
 * `graph` must be fresh from graph_init.
 */
enum tarn_status network_build(const struct config *config, const struct sample_shape *sample, uint32_t batch,
			       enum build_mode mode, struct host_arena *scratch, struct graph *graph, uint32_t *loss,
			       uint32_t *output);

/*
 * The whole training graph: network_build, optimizer state, gradients of all trainable parameters, updates,
 * the storage of precision.compute (precision.h), graph_check. A network without a trainable parameter is TARN_EINVAL.
 * With train.accumulate the batch is taken in parts (microbatch.h).
 */
enum tarn_status training_build(const struct config *config, const struct sample_shape *sample, uint32_t batch,
				struct host_arena *scratch, struct graph *graph);

/* The graph that evaluates `batch` samples, in as many parts as training takes, and stored like it. */
enum tarn_status evaluation_build(const struct config *config, const struct sample_shape *sample, uint32_t batch,
				  struct host_arena *scratch, struct graph *graph);

/* What a result that stays readable is called: a persistent tensor of ROLE_VECTOR. */
#define INFERENCE_RESULT "result"

/*
 * The graph of objective.type inference for whole batches: evaluation, and the prediction (logits, never chunked) in
 * INFERENCE_RESULT where there is one label a sample or config.objective.result asks for it.
 */
enum tarn_status inference_build(const struct config *config, const struct sample_shape *sample, uint32_t batch,
				 struct host_arena *scratch, struct graph *graph);

/* The table of layer kinds and their keys as text, for `tarn help layers` and the docs. */
void layers_help(FILE *out);

#endif
