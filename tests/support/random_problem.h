/*
 * random_problem.h - planning problems for tests: small random ones, and models of real training steps.
 *
 * The training steps have forward ops, a loss, backward ops and updates (once, after all readers of the parameter);
 * sizes and costs are those of an abstract device: bytes moved and a higher rate for convolutions. Gradients of values
 * with several readers are summed in place.
 */
#ifndef TARN_TESTS_RANDOM_PROBLEM_H
#define TARN_TESTS_RANDOM_PROBLEM_H

#include "planner/problem.h"
#include "support/testing.h"

/* Any legal problem: outputs without readers, zero costs, ops that are not needed, once, afters, in-place, workspaces.
 */
struct problem *random_problem(struct host_arena *arena, struct testing_random *random, uint32_t ops);

/*
 * An abstract training step: `layers` forward ops that read one to three of the layers shortly before, and
 * as many gradients, of which the last must run. Small sizes of any number, nothing in place.
 */
struct problem *random_training_problem(struct host_arena *arena, struct testing_random *random, uint32_t layers);

/* n equal stages of `bytes` each; parameters get updates when `updates`. */
struct problem *chain_problem(struct host_arena *arena, uint32_t stages, uint64_t bytes, bool updates);
/* CIFAR ResNet with 6 * blocks + 2 layers (batch norm, ReLU, shortcuts); `clip`: updates wait for the global norm. */
struct problem *resnet_problem(struct host_arena *arena, uint32_t blocks, bool clip);
/* Encoder and decoder of `levels` levels with concatenated skips. */
struct problem *unet_problem(struct host_arena *arena, uint32_t levels);
/* Each layer reads the concatenation of all layers before it. */
struct problem *densenet_problem(struct host_arena *arena, uint32_t layers);
/* A recurrence unrolled over `steps` steps with one shared parameter, its gradient summed over steps. */
struct problem *recurrent_problem(struct host_arena *arena, uint32_t steps);

#endif
