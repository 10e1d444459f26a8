/*
 * autodiff.h - network graph -> training graph: the gradient as a graph transform.
 *
 * Input: a network graph whose last forward op produces a scalar loss (shape 1), with parameters as persistent tensors.
 * Output: the same ops (same ids), then backward ops in reverse topological order, then nothing else: updates are
 * appended by optimizer.h. Every derivative is written in ops of the table.
 *
 * Invariants
 *   - The order in which partial gradients of a tensor are summed depends on the graph alone (descending order of
 *     the consuming ops), never on a schedule.
 *   - No gradient is computed for tensors that no trainable parameter needs (inputs, frozen layers before the first
 *     trainable one).
 *   - An output that nothing reads counts as a zero gradient and creates no op.
 *   - What a STOP_GRADIENT gives counts as a constant.
 *
 * Gradients are ops like others, so they can be differentiated again, and that once more. For the ops that only stand
 * in gradients of norms, losses, attention and recurrent cells there is no rule: decompose.h writes the network without
 * them beforehand.
 */
#ifndef TARN_AUTODIFF_AUTODIFF_H
#define TARN_AUTODIFF_AUTODIFF_H

#include "graph/graph.h"

/*
 * Appends the gradient of the scalar tensor `loss` with respect to the `count` tensors wrt[]. gradient[i] receives the
 * tensor id of d loss / d wrt[i], or TENSOR_NONE when the loss does not depend on it. `arena` is scratch.
 * TARN_EUNSUPPORTED names an op without a derivative on the path, TARN_EINVAL a loss that is not of shape 1.
 */
enum tarn_status autodiff_gradients(struct graph *graph, uint32_t loss, const uint32_t *wrt, uint32_t count,
				    struct host_arena *arena, uint32_t *gradient);

/*
 * The general form: the gradient of sum_i <grad_y[i], y[i]> with respect to wrt[], where grad_y[i] has the shape of
 * y[i] and counts as a constant; TENSOR_NONE stands for zeros. y[] and wrt[] are any f32 tensors of the graph; the same
 * one may stand in y[] more than once.
 */
enum tarn_status autodiff_products(struct graph *graph, const uint32_t *y, const uint32_t *grad_y, uint32_t ys,
				   const uint32_t *wrt, uint32_t count, struct host_arena *arena, uint32_t *gradient);

/*
 * The ops from number `first_op` on become part of the forward pass: to a gradient of them a gradient is what is
 * differentiated, and strategies choose among its tensors what to keep.
 */
void autodiff_as_forward(struct graph *graph, uint32_t first_op);

/*
 * The derivative of one op: given the ids of the gradients of its outputs (TENSOR_NONE: zero) appends backward ops
 * and writes the ids of the gradients of its inputs, TENSOR_NONE for those not asked for (wanted[j] false) or zero.
 * One function an op kind, in derive_*.c; NULL in the table: no derivative.
 */
typedef enum tarn_status derive_fn(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				   uint32_t *grad_input);
derive_fn *derive_rule(enum op_kind kind);

#endif
