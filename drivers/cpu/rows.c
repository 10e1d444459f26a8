/* rows.c - see rows.h. */
#include "cpu/rows.h"

#include "cpu/exponential.h"
#include "cpu/lanes.h"

#include <math.h>

/* sum_k exp(x_k - largest); runs are short, so that the sum is as good as one in double. */
CPU_CLONES static double run_exponentials(const float *x, uint32_t n, float largest)
{
	struct lanes sum = { { 0 } };
	uint32_t whole = n - n % LANES;
	for (uint32_t i = 0; i < whole; i += LANES)
		for (uint32_t l = 0; l < LANES; l++)
			sum.lane[l] += exponential(x[i + l] - largest);
	for (uint32_t i = whole; i < n; i++)
		sum.lane[i - whole] += exponential(x[i] - largest);
	return lanes_total(&sum);
}

struct row_exponentials row_exponentials(const float *x, uint32_t n)
{
	struct row_exponentials row = { lanes_largest(x, n, 1.0f), 0.0 };
	for (uint32_t k = 0; k < n; k += LANES * LANE_RUN)
		row.total += run_exponentials(x + k, n - k < LANES * LANE_RUN ? n - k : LANES * LANE_RUN, row.largest);
	return row;
}

static double row_sum(const float *x, uint32_t n)
{
	double total = 0.0;
	for (uint32_t k = 0; k < n; k += LANES * LANE_RUN)
		total += lanes_sum(x + k, n - k < LANES * LANE_RUN ? n - k : LANES * LANE_RUN);
	return total;
}

uint64_t labels_counted(const struct label_rule *rule, const int32_t *label, uint64_t rows)
{
	uint64_t counted = 0;
	if (!rule->ignores)
		return rows;
	for (uint64_t r = 0; r < rows; r++)
		counted += label[r] != rule->ignored;
	return counted;
}

double row_loss(const struct label_rule *rule, const float *x, uint32_t n, int32_t label, double lse)
{
	if ((uint32_t)label >= n)
		return NAN;
	double smoothing = (double)rule->smoothing, loss = lse - (1.0 - smoothing) * (double)x[label];
	return smoothing > 0.0 ? loss - smoothing / n * row_sum(x, n) : loss;
}

CPU_CLONES static void grad_loop(const float *x, float *dx, uint32_t n, float subtract, float factor, float less,
				 float share)
{
	CPU_INDEPENDENT
	for (uint32_t k = 0; k < n; k++)
		dx[k] = (exponential(x[k] - subtract) * factor - less) * share;
}

void row_loss_grad(const struct label_rule *rule, const float *x, float *dx, uint32_t n, int32_t label, float subtract,
		   float factor, float share)
{
	bool inside = (uint32_t)label < n;
	float less = rule->smoothing / (float)n, at = inside ? x[label] : 0.0f;
	grad_loop(x, dx, n, subtract, factor, less, share);
	if (inside)
		dx[label] = (exponential(at - subtract) * factor - less - (1.0f - rule->smoothing)) * share;
}
