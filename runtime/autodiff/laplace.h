/*
 * laplace.h - the graph that a Laplace approximation of the last layer needs: what goes into that layer, and comes out.
 *
 * The network of evaluation, and for each batch two persistent tensors that the host reads (session_laplace.c):
 * "laplace/features" (data.batch, D), the input of the last dense layer, and "laplace/logits" (data.batch, K), with
 * zeros behind a smaller batch. They are sums of an SGD update with a learning rate of -1: the host sets them to 0
 * before.
 */
#ifndef TARN_AUTODIFF_LAPLACE_H
#define TARN_AUTODIFF_LAPLACE_H

#include "graph/build.h"

/*
 * `graph` must be fresh from graph_init. TARN_EINVAL where the network does not end with a dense layer or a sample has
 * no label of its own.
 */
enum tarn_status laplace_build(const struct config *config, const struct sample_shape *sample, uint32_t batch,
			       struct host_arena *scratch, struct graph *graph);

#endif
