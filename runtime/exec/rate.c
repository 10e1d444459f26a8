/* rate.c - learning rate schedules. */
#include "exec/rate.h"

#include <math.h>

double rate_at(const struct config *config, uint64_t step, uint64_t total, uint64_t batches)
{
	double rate = config->optimizer.learning_rate;
	uint64_t warmup = config->optimizer.warmup_steps;
	if (step < warmup)
		return rate * (double)(step + 1) / (double)warmup;
	if (config->optimizer.schedule == RATE_STEP)
		return rate *
		       pow(config->optimizer.step_factor, (double)(step / batches / config->optimizer.step_epochs));
	if (config->optimizer.schedule == RATE_COSINE) {
		double last = total > warmup + 1 ? (double)(total - warmup - 1) : 1.0;
		double part = fmin((double)(step - warmup) / last, 1.0);
		double low = config->optimizer.final_rate;
		return rate * (low + (1.0 - low) * 0.5 * (1.0 + cos(3.14159265358979323846 * part)));
	}
	return rate;
}

double rate_bias_correction(double beta, uint64_t step)
{
	return 1.0 - pow(beta, (double)(step + 1));
}
