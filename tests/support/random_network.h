/*
 * random_network.h - random networks as YAML text, for property tests over the whole pipeline.
 */
#ifndef TARN_TESTS_RANDOM_NETWORK_H
#define TARN_TESTS_RANDOM_NETWORK_H

#include "support/testing.h"

/*
 * Writes a small image network (synthetic data; convolutions, norms, activations, dropout, pooling, joins by add and
 * concat, a dense head; any optimizer) that is a function of the seed alone. Returns buffer.
 */
const char *random_network(uint64_t seed, char *buffer, size_t size);

/*
 * The same layers with random settings of a run: any optimizer and state, groups of parameters, clipping, bfloat16,
 * parts of a batch, moving averages, offload.
 */
const char *random_run(uint64_t seed, char *buffer, size_t size);

#endif
