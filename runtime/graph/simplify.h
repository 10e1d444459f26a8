/*
 * simplify.h - the last pass over a network graph: drop what nothing needs, fuse activations.
 *
 * Both are functions of the graph alone, never of the budget, so that they cannot change numbers between plans.
 *   - Ops on no path to the loss, the output or a metric are dropped, and with them the parameters and running
 *     statistics that only they use. An unused output thus counts as a zero gradient.
 *   - relu and relu6 become part of their producer (MATMUL, CONV2D, ADD, BATCH_APPLY) when they are its only reader.
 * The result keeps the activation's tensor name, since it is that value; the op keeps the producer's name.
 */
#ifndef TARN_GRAPH_SIMPLIFY_H
#define TARN_GRAPH_SIMPLIFY_H

#include "graph/graph.h"

/* Writes the simplified `draft` into the empty graph `out`; *loss and *output are ids of the draft, then of `out`. */
enum tarn_status graph_simplify(const struct graph *draft, struct host_arena *scratch, struct graph *out,
				uint32_t *loss, uint32_t *output);

#endif
