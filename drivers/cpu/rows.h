/*
 * rows.h - what the losses over labels do with a row of logits.
 *
 * loss = lse - (1-s) * logit[label] - s/K * sum(logits), with s = label_smoothing; gradient (softmax - (1-s) onehot -
 * s/K).
 */
#ifndef TARN_CPU_ROWS_H
#define TARN_CPU_ROWS_H

#include "cpu/cpu.h"

/* total = sum_k exp(x_k - largest) */
struct row_exponentials {
	float largest;
	double total;
};

struct row_exponentials row_exponentials(const float *x, uint32_t n);

/* What the rows of a kernel share. */
struct label_rule {
	bool ignores;
	int32_t ignored;
	float smoothing;
};

static inline struct label_rule label_rule_of(const struct kernel *kernel)
{
	return (struct label_rule){ kernel->attr.has_ignore_index != 0, kernel->attr.ignore_index,
				    kernel->attr.label_smoothing };
}

static inline bool label_counts(const struct label_rule *rule, int32_t label)
{
	return !rule->ignores || label != rule->ignored;
}

/* Rows that are not ignored. */
uint64_t labels_counted(const struct label_rule *rule, const int32_t *label, uint64_t rows);

/* The loss of a row whose lse is known. A label outside [0, n) gives NaN. */
double row_loss(const struct label_rule *rule, const float *x, uint32_t n, int32_t label, double lse);

/* dx = (exp(x - subtract) * factor - ...) * share; dx may be x. */
void row_loss_grad(const struct label_rule *rule, const float *x, float *dx, uint32_t n, int32_t label, float subtract,
		   float factor, float share);

#endif
