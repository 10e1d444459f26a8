/*
 * microbatch.h - a batch in parts: gradient accumulation as a graph.
 *
 * train.accumulate: k makes a step of N samples from k copies of the graph for N/k samples, one after the other, each
 * on a slice of the staging slots. Where k does not divide N the first N mod k parts have one sample more. What leaves
 * a part is small: its losses, each weighted by the share of the part's samples (of its counted labels where labels may
 * be ignored) in the whole batch; numbers of correct rows; and the gradients of the parameters, which are added to
 * those of the parts before as soon as they are complete. Clipping, updates and metrics come once, behind the last
 * part. In exact arithmetic all of them equal those of the whole batch; in floating point the sums have another order.
 *
 *   - Tensors and ops of part i are named "part<i>/...", i from 1 on.
 *   - A dropout draws for each element what it draws in the whole batch (op.h, DROPOUT, begin).
 *   - Batch norm would take its statistics part by part, which is another function than that of the whole batch:
 *     refused unless train.microbatch_norm is `allow`. Then the running statistics move once a step, towards the mean
 *     over the parts (weighted by their samples) of their means and of their unbiased variances.
 *   - Parts follow one another in the order of the graph; nothing but the gradient sums lives across them, so the
 *     planner needs no rule for them.
 */
#ifndef TARN_GRAPH_MICROBATCH_H
#define TARN_GRAPH_MICROBATCH_H

#include "config/config.h"
#include "graph/graph.h"

/* The graph of one part: the network and, in training, the gradients, but no optimizer. */
struct microbatch_part {
	struct graph graph;
	uint32_t samples;
	uint32_t *parameter,
		*gradient;   /* of `graph`; gradient[i] is TENSOR_NONE where the loss does not depend on it */
	uint32_t parameters; /* 0 in inference */
};

/* Parts of a batch: train.accumulate, but never more than there are samples. */
uint32_t microbatch_count(const struct config *config, uint32_t batch);

/* The persistent tensors of the part in the empty `graph`, with staging slots for the whole batch. */
enum tarn_status microbatch_begin(const struct microbatch_part *part, uint32_t batch, struct graph *graph);

/*
 * Appends `parts` parts: `large` is for ceil(batch / parts) samples, `small` for floor(batch / parts). parameter[i] and
 * gradient[i] receive the ids of what large->parameter[i] and the sum of its gradients are in `graph`.
 * TARN_EINVAL: batch statistics, see above. TARN_EUNSUPPORTED: an op needs the whole batch at once.
 */
enum tarn_status microbatch_append(const struct config *config, const struct microbatch_part *large,
				   const struct microbatch_part *small, uint32_t batch, uint32_t parts,
				   struct host_arena *scratch, struct graph *graph, uint32_t *parameter,
				   uint32_t *gradient);

#endif
