/* case_run.h - what running a conformance case takes, whoever runs it. Failures end the running test. */
#ifndef TARN_TESTS_CASE_RUN_H
#define TARN_TESTS_CASE_RUN_H

#include "conformance/cases.h"

void case_open(struct single_op *single, const struct driver_ops *driver, const struct conformance_case *test,
	       const struct single_options *options);
/* The same random content each time. */
void case_write_inputs(struct single_op *single, const struct conformance_case *test);
/* A copy of the operand, to be freed. */
void *case_read_operand(struct single_op *single, uint32_t operand);
/* Launches, and compares every output with the plain loops of reference.c. */
void case_check(struct single_op *single, const struct conformance_case *test);
/* Opens, launches so many times, closes: all outputs one after the other, to be freed. */
unsigned char *case_outputs(const struct driver_ops *driver, const struct conformance_case *test,
			    const struct single_options *options, uint32_t launches, size_t *bytes);

/* The derivative of a fused activation must see the sign that BATCH_APPLY saw, also where z is within rounding of 0. */
void case_batch_gradient_sign(const struct driver_ops *driver);
/* The first of equal values wins, and a window that holds NaN says so. */
void case_max_pool_ties(const struct driver_ops *driver);

#endif
