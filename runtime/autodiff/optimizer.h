/*
 * optimizer.h - updates as ops: a gradient dies in its update.
 *
 * Appends one update effect (SGD, MOMENTUM, ADAM, LION, ADAFACTOR) for each trainable parameter, in the order in which
 * the gradients are complete, each directly after the op that completes its gradient would also be legal: the planner
 * decides. With clipping: one SUM_SQUARES a gradient and one CLIP_SCALE barrier that every update reads. Optimizer
 * state are persistent tensors "optimizer/<parameter>/momentum" (or /m, /v, /row, /column), zero at the start; they
 * must be in the graph before any op refers to them, hence two calls. With optimizer.masks each parameter of two or
 * more dimensions has a "optimizer/<parameter>/mask" too, ones at the start, and its gradient is multiplied by that
 * before anything else is done with it: a weight and a first moment that are 0 where the mask is stay so
 * (session_prune.c). Groups of parameters (parameter_groups.h) change rate and decay of their updates; moving averages
 * (average.h) follow the updates.
 */
#ifndef TARN_AUTODIFF_OPTIMIZER_H
#define TARN_AUTODIFF_OPTIMIZER_H

#include "config/config.h"
#include "graph/graph.h"

/*
 * With precision.compute: float16 the loss is multiplied by a factor that adapts (UNSCALE and LOSS_SCALE in op.h), and
 * a step whose gradients overflow changes nothing. Its state are the persistent tensors that op.h names, added
 * here once a graph; *scale: the factor, or TENSOR_NONE. Called before autodiff, whose seed it is.
 */
enum tarn_status optimizer_add_loss_scale(struct graph *graph, const struct config *config, uint32_t *scale);

/* Adds the persistent state of every trainable parameter of the network graph; called before autodiff. */
enum tarn_status optimizer_add_state(struct graph *graph, const struct config *config);

/*
 * Appends the updates. parameter[i] has gradient[i] (TENSOR_NONE: the loss does not depend on it, no update).
 * Also appends RECORD of the gradient norm into the metric "metric/gradient_norm" when clipping is on.
 */
enum tarn_status optimizer_add_updates(struct graph *graph, const struct config *config, const uint32_t *parameter,
				       const uint32_t *gradient, uint32_t count, struct host_arena *arena);

#endif
