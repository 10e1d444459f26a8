/*
 * precision.h - a graph in which large tensors are stored in 16 bits.
 *
 * Reads a finished graph whose numbers are float32 (a training step, or a network for evaluation) and writes the same
 * graph with the storage types of storage.h: each op gets the type that its policy asks for, and a CAST stands wherever
 * a tensor is read in another type than it is stored in, once for each tensor. Parameters stay float32, the master
 * weights; their copies in 16 bits are transient tensors like any other, kept or recomputed as the planner decides. An
 * op that knows float32 alone gets CASTs around it.
 *
 * Products (`wide_outputs`) write float32 where every reader wants that: logits before a loss, and gradients of
 * weights before their update unless `gradients` says otherwise.
 *
 * Where a loss scale is in the graph (UNSCALE), running statistics and averages come after it and are not changed by a
 * step that it skips.
 *
 * The pass is a function of the graph and the options alone, and runs before planning: results never depend on the
 * budget.
 */
#ifndef TARN_GRAPH_PRECISION_H
#define TARN_GRAPH_PRECISION_H

#include "graph/graph.h"

struct precision {
	enum dtype compute;   /* of activations and of the copies of weights: DTYPE_BF16 or DTYPE_F16 */
	enum dtype gradients; /* of the gradients of weights, where an op has a choice: DTYPE_F32, or `compute` */
	enum dtype
		weights; /* DTYPE_F32: master weights; DTYPE_BF16: weights that are products' factors have no other */
};

/* `to` must be fresh from graph_init. Persistent tensors keep their names, order and shapes, and ops their names. */
enum tarn_status precision_apply(const struct graph *from, const struct precision *precision,
				 struct host_arena *scratch, struct graph *to);

#endif
