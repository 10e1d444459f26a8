/*
 * adversarial.h - objectives that look at what the loss does when the input moves.
 *
 * gradient_penalty (Drucker, LeCun 1992, double back-propagation): with the loss L, the mean over N samples, and the
 * inputs x,
 *     total = L + weight * N * |dL/dx|^2.
 * Where a sample's loss depends on its own input alone, the second term is the mean over samples of the squared norm of
 * the gradient of their losses, whatever the batch. With batch statistics it is taken as it is written.
 *
 * adversarial: the network learns from inputs that were moved, no element by more than epsilon, to where the loss is
 * larger:
 *     fgsm   x + epsilon sign(dL/dx); Goodfellow, Shlens, Szegedy 2015, arXiv:1412.6572;
 *     pgd    `steps` times x' = clip(x' + step_size sign(dL/dx'), x - epsilon, x + epsilon), from x' = x; Madry et al.
 *            2018, arXiv:1706.06083, without the random start.
 *     total = weight * L(x') + (1 - weight) * L(x).
 * What the search found counts as a constant. It looks at the network of the step: batch statistics of the batch as it
 * stands, the same dropout in every instance. Statistics of the moved batch go into the running ones. With attack_test
 * evaluation searches too, and its loss and accuracy are those of the moved inputs alone.
 *
 * "metric/loss" is the total. Ops of instances that search are named "attack1/<layer>", of the unmoved one
 * "clean/<layer>"; those of the last one as in the network.
 */
#ifndef TARN_AUTODIFF_ADVERSARIAL_H
#define TARN_AUTODIFF_ADVERSARIAL_H

#include "graph/build.h"

/* Has the configuration such an objective in this mode? Otherwise the network's own loss is all there is. */
bool adversarial_applies(const struct config *config, enum build_mode mode);

/*
 * In place of network_build: the network with its objective, whose total is *loss. `graph` must be fresh from
 * graph_init. TARN_EINVAL and TARN_EUNSUPPORTED say what the objective cannot be used with.
 */
enum tarn_status adversarial_build(const struct config *config, const struct sample_shape *sample, uint32_t batch,
				   enum build_mode mode, struct host_arena *scratch, struct graph *graph,
				   uint32_t *loss);

#endif
