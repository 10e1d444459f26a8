/*
 * rate.h - the learning rate as a pure function of the step.
 */
#ifndef TARN_EXEC_RATE_H
#define TARN_EXEC_RATE_H

#include "config/config.h"

/*
 * The rate of 0-based `step` in a run of `total` steps, `batches` an epoch (both > 0). Linear warm-up over
 * warmup_steps; then constant, times step_factor every step_epochs, or half a cosine down to final_rate *
 * learning_rate at the last step (Loshchilov, Hutter 2017, eq. 5, one period).
 */
double rate_at(const struct config *config, uint64_t step, uint64_t total, uint64_t batches);

/* 1 - beta^(step + 1): Adam's bias correction (Kingma, Ba 2015, algorithm 1). */
double rate_bias_correction(double beta, uint64_t step);

#endif
