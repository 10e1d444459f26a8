/*
 * run_checks.h - what tests ask of whole runs: the same bits whatever the plan, the same bits after a resume, accuracy.
 */
#ifndef TARN_TESTS_RUN_CHECKS_H
#define TARN_TESTS_RUN_CHECKS_H

#include "support/training.h"

/*
 * The strategies, and three budgets from the smallest on (there with NaN in dead ranges), give the weights that keeping
 * everything gives, in no more memory. At least one override is free. `what` is for messages. *least: the run in the
 * smallest budget.
 */
void check_plans_keep_bits(struct training training, const char *what, struct training_result *least);

/* A run that is left after `first` steps and resumed ends with the weights of one that is not. *whole: the latter. */
void check_resumed_run(struct training training, uint64_t first, struct training_result *whole);

/* Why mean_accuracy is left out: it is slow, or Fashion-MNIST is not here. NULL: it is not. */
const char *accuracy_skipped(void);

/*
 * Of a perceptron of two hidden layers of 256 after an epoch of Fashion-MNIST under a cosine schedule, with Adam's 1e-3
 * unless `override` (at most four, NULL ends it) says otherwise: percent, mean of three seeds. Prints it.
 */
double mean_accuracy(const char *const override[]);

#endif
