/*
 * simplify.h - the last pass over a network graph: drop what nothing needs, fuse activations.
 *
 * Both are functions of the graph alone, never of the budget, so that they cannot change numbers between plans.
 *   - Ops on no path to the loss, the output or a metric are dropped, and with them the parameters and running
 *     statistics that only they use. An unused output thus counts as a zero gradient.
 *   - relu and relu6 become part of their producer (MATMUL, CONV2D, ADD, BATCH_APPLY) when they are its only reader.
 *   - relu and relu6 move behind the max_pool that is their only reader: the maximum of the clamped values is the
 *     clamped maximum, bit for bit, and so is the gradient, for where the two could pick different elements of a window
 *     its derivative is 0. The large image is then not kept, and the activation works on the small one. After
 *     BATCH_APPLY the activation stays fused: its gradient needs no stored value there.
 * The result keeps the name of the last tensor, since it is that value; an op keeps the name of its layer.
 */
#ifndef TARN_GRAPH_SIMPLIFY_H
#define TARN_GRAPH_SIMPLIFY_H

#include "graph/graph.h"

/* Writes the simplified `draft` into the empty graph `out`; *loss and *output are ids of the draft, then of `out`. */
enum tarn_status graph_simplify(const struct graph *draft, struct host_arena *scratch, struct graph *out,
				uint32_t *loss, uint32_t *output);

#endif
