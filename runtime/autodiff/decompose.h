/*
 * decompose.h - a network once more, in ops that can be differentiated any number of times.
 *
 * Norms, losses, attention, gates and recurrent cells have kernels of their own for their gradients, whose own
 * derivatives nobody has written. Where a gradient will be differentiated again, the network is rewritten before: each
 * of those ops becomes the products, sums and elementary functions that it is made of. The choice is the graph's alone,
 * made before planning. Attention then has its T x S matrices, and the planner decides how long.
 *
 * It also is how a network becomes a function: the same network can be appended several times, with other tensors in
 * place of its parameters and inputs (MAML).
 */
#ifndef TARN_AUTODIFF_DECOMPOSE_H
#define TARN_AUTODIFF_DECOMPOSE_H

#include "graph/graph.h"

/* Adds the persistent tensors of `from` to `to`, in their order; id[t] receives their ids, TENSOR_NONE for the others.
 */
enum tarn_status decompose_persistents(const struct graph *from, struct graph *to, uint32_t *id);

struct decomposition {
	const struct graph *from;
	const char *prefix; /* in front of the names of ops: "", "inner1/" */
	bool fused;         /* nothing is rewritten: the result is differentiated once */
	bool without_dropout;
	uint32_t stream; /* dropouts of instances with different numbers draw differently; 0: as in the network */
	bool effects;    /* what writes versions (RECORD, RUNNING_UPDATE) too; else left out */
	/*
	 * Of each tensor of `from`, the tensor of `to` that stands for it. Those that the caller filled in (persistent
	 * tensors must be) are taken as they are, and ops that would only produce them are left out; the others must be
	 * TENSOR_NONE, and are filled in.
	 */
	uint32_t *id;
};

/* Appends the ops. TARN_EUNSUPPORTED where an op reads an output that a decomposition does not have. */
enum tarn_status decompose_network(struct decomposition *decomposition, struct host_arena *scratch, struct graph *to);

/* True when the kind is rewritten. */
bool decompose_rewrites(enum op_kind kind);

#endif
