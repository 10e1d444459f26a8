/*
 * maml.h - the graph of learning to learn: model-agnostic meta-learning (Finn, Abbeel, Levine 2017, arXiv:1703.03400).
 *
 * A step has objective.tasks tasks. Each has `ways` classes, numbered anew, and of each class `shots` samples to learn
 * from and `queries` to be judged by. From the parameters w a task makes inner_steps steps of plain gradient descent,
 *     w' = w - rate * d loss(w; samples to learn from) / dw,
 * each with its own instance of the network, and the loss of a last instance on the queries is that of the task. The
 * step's loss is the mean over tasks. With order 2 its gradient by the first w goes through the inner gradients; with
 * order 1 these are constants. With learn_rates the rate of parameter p is inner_rate times a parameter "rate/<p>",
 * which begins as 1 (Antoniou et al. 2019, arXiv:1810.09502; one for each parameter, not for each step).
 *
 * Batch normalisation uses the statistics of the batch in every instance, also in evaluation; running statistics are
 * not updated. Dropout draws anew in each instance, and not at all in evaluation.
 *
 * Staging holds the samples task by task: to learn from, class by class; then queries, class by class. Ops are named
 * after their place, "task1/inner2/<layer>" and "task1/query/<layer>". Gradients are taken task by task and summed, so
 * that a graph in its own order keeps one task at a time.
 */
#ifndef TARN_AUTODIFF_MAML_H
#define TARN_AUTODIFF_MAML_H

#include "graph/build.h"

/* Samples in a step; UINT32_MAX when they are more than can be. */
uint32_t maml_batch(const struct config *config);

/*
 * A training step, or with `train` false what evaluates the same on other tasks. `graph` must be fresh from graph_init.
 * TARN_EUNSUPPORTED names an op that cannot be differentiated twice.
 */
enum tarn_status maml_build(const struct config *config, const struct sample_shape *sample, bool train,
			    struct host_arena *scratch, struct graph *graph);

#endif
