/*
 * batch_norm.c - batch normalisation as four ops, and the update of the running statistics.
 *
 * Source: Ioffe, Szegedy 2015, arXiv:1502.03167; the gradient is their section 3 with the sums taken out. All loops
 * walk over strips (columns.h), so that 16 channels use the vector registers as well as 256 do.
 */
#include "cpu/columns.h"

#include <math.h>

/* Strips summed in float before the sum goes to double. */
#define RUN 16u

static float reciprocal_deviation(float variance, float epsilon)
{
	return 1.0f / sqrtf(variance + epsilon);
}

/*
 * z = (x - mean) * scale + beta with scale = gamma * rsqrt(var + epsilon): the one expression for BATCH_APPLY and for
 * the recomputation in the gradients, which must find the same sign.
 */
static inline float normalised(float x, float mean, float scale, float beta)
{
	return (x - mean) * scale + beta;
}

/* What belongs to a channel, repeated along a strip. */
struct wide_norm {
	float mean[STRIP_FLOATS], deviation[STRIP_FLOATS], scale[STRIP_FLOATS], beta[STRIP_FLOATS];
};

/* `first` is the index of mean among the inputs; var, gamma, beta follow. */
static void wide_norm_load(const struct bound_instr *instr, const struct strips *strips, uint32_t first,
			   struct wide_norm *wide)
{
	uint32_t channel = strips->first_channel;
	const float *mean = (const float *)instr->address[first] + channel;
	const float *variance = (const float *)instr->address[first + 1] + channel;
	const float *gamma = (const float *)instr->address[first + 2] + channel;
	const float *beta = (const float *)instr->address[first + 3] + channel;
	float deviation[STRIP_FLOATS], scale[STRIP_FLOATS];
	for (uint32_t c = 0; c < strips->channels; c++) {
		deviation[c] = reciprocal_deviation(variance[c], instr->kernel->attr.epsilon);
		scale[c] = gamma[c] * deviation[c];
	}
	strip_spread(strips, mean, wide->mean);
	strip_spread(strips, deviation, wide->deviation);
	strip_spread(strips, scale, wide->scale);
	strip_spread(strips, beta, wide->beta);
}

/*
 * Sum and raw second moment of `count` strips, added to sum[] and raw[]. The strips are summed around their own mean m,
 * in float, where numbers are small; s = n m + sum(x - m) and the raw moment q + 2 m sum(x - m) + n m^2 are exact
 * identities, so that in double nothing is lost even when the mean is a thousand deviations.
 */
CPU_CLONES static void stats_run(const float *x, uint64_t stride, uint32_t count, uint32_t width, double *sum,
				 double *raw)
{
	float middle[STRIP_FLOATS], first[STRIP_FLOATS], second[STRIP_FLOATS];
	for (uint32_t j = 0; j < width; j++)
		middle[j] = first[j] = second[j] = 0.0f;
	for (uint32_t s = 0; s < count; s++)
		for (uint32_t j = 0; j < width; j++)
			middle[j] += x[s * stride + j];
	float reciprocal = 1.0f / (float)count;
	for (uint32_t j = 0; j < width; j++)
		middle[j] *= reciprocal;
	for (uint32_t s = 0; s < count; s++)
		for (uint32_t j = 0; j < width; j++) {
			float d = x[s * stride + j] - middle[j];
			first[j] += d;
			second[j] += d * d;
		}
	double n = (double)count;
	for (uint32_t j = 0; j < width; j++) {
		double m = (double)middle[j], d = (double)first[j];
		sum[j] += n * m + d;
		raw[j] += (double)second[j] + 2.0 * m * d + n * m * m;
	}
}

static void stats_body(const struct bound_instr *instr, uint64_t chunk)
{
	struct strips strips = grid_strips(&instr->kernel->grid, chunk);
	double sum[STRIP_FLOATS] = { 0 }, raw[STRIP_FLOATS] = { 0 };
	for (uint64_t s = 0, count; s < strips_total(&strips); s += count) {
		uint32_t width = strip_width(&strips, s);
		float block[RUN * STRIP_FLOATS];
		count = strips_run(&strips, s, RUN);
		struct strip_view x = strips_load(kernel_input(instr->kernel, 0), instr->address[0],
						  strips.begin + s * strips.stride, strips.stride, count, width, block);
		stats_run(x.at, x.stride, (uint32_t)count, width, sum, raw);
	}
	strip_fold(&strips, sum, column_partial(instr, &strips, 0));
	strip_fold(&strips, raw, column_partial(instr, &strips, 1));
}

static void stats_finish(const struct bound_instr *instr)
{
	const struct column_grid *grid = &instr->kernel->grid;
	float *mean = instr_output(instr, 0), *variance = instr_output(instr, 1);
	for (uint32_t c = 0; c < grid->channels; c++) {
		double m = column_total(instr, 0, c) / (double)grid->rows;
		double v = column_total(instr, 1, c) / (double)grid->rows - m * m;
		mean[c] = (float)m;
		variance[c] = v < 0.0 ? 0.0f : (float)v;
	}
}

CPU_CLONES static void apply_strip(const float *x, float *y, uint32_t width, const struct wide_norm *wide,
				   struct clamp clamp)
{
	CPU_INDEPENDENT
	for (uint32_t j = 0; j < width; j++)
		y[j] = clamp_apply(clamp, normalised(x[j], wide->mean[j], wide->scale[j], wide->beta[j]));
}

static void apply_body(const struct bound_instr *instr, uint64_t chunk)
{
	struct strips strips = grid_strips(&instr->kernel->grid, chunk);
	struct clamp clamp = activation_clamp(instr->kernel->attr.activation);
	const uint32_t dtype = kernel_input(instr->kernel, 0)->dtype;
	struct wide_norm wide;
	wide_norm_load(instr, &strips, 1, &wide);
	for (uint64_t s = 0; s < strips_total(&strips); s++) {
		uint64_t at = strips.begin + s * strips.stride;
		uint32_t width = strip_width(&strips, s);
		float block[STRIP_FLOATS];
		apply_strip(narrow_view(dtype, instr->address[0], at, width, block),
			    narrow_target(dtype, instr_output(instr, 0), at, block), width, &wide, clamp);
		narrow_put(dtype, block, instr_output(instr, 0), at, width);
	}
}

/* Sums of g and g * xhat over `count` strips, where g is dy behind the derivative of the activation. */
CPU_CLONES static void reduce_run(const float *dy, const float *x, uint64_t stride, uint32_t count, uint32_t width,
				  const struct wide_norm *wide, struct clamp clamp, double *dgamma, double *dbeta)
{
	float sum[STRIP_FLOATS], dot[STRIP_FLOATS];
	for (uint32_t j = 0; j < width; j++)
		sum[j] = dot[j] = 0.0f;
	for (uint32_t s = 0; s < count; s++)
		for (uint32_t j = 0; j < width; j++) {
			float value = x[s * stride + j];
			float z = normalised(value, wide->mean[j], wide->scale[j], wide->beta[j]);
			float g = clamp_grad(clamp, z, dy[s * stride + j]);
			sum[j] += g;
			dot[j] += g * ((value - wide->mean[j]) * wide->deviation[j]);
		}
	for (uint32_t j = 0; j < width; j++) {
		dgamma[j] += (double)dot[j];
		dbeta[j] += (double)sum[j];
	}
}

static void reduce_body(const struct bound_instr *instr, uint64_t chunk)
{
	struct strips strips = grid_strips(&instr->kernel->grid, chunk);
	struct clamp clamp = activation_clamp(instr->kernel->attr.activation);
	const struct operand *matrix = kernel_input(instr->kernel, 0);
	double dgamma[STRIP_FLOATS] = { 0 }, dbeta[STRIP_FLOATS] = { 0 };
	struct wide_norm wide;
	wide_norm_load(instr, &strips, 2, &wide);
	for (uint64_t s = 0, count; s < strips_total(&strips); s += count) {
		uint64_t at = strips.begin + s * strips.stride;
		uint32_t width = strip_width(&strips, s);
		float block[2][RUN * STRIP_FLOATS];
		count = strips_run(&strips, s, RUN);
		struct strip_view dy =
			strips_load(matrix, instr->address[0], at, strips.stride, count, width, block[0]);
		struct strip_view x = strips_load(matrix, instr->address[1], at, strips.stride, count, width, block[1]);
		reduce_run(dy.at, x.at, x.stride, (uint32_t)count, width, &wide, clamp, dgamma, dbeta);
	}
	strip_fold(&strips, dgamma, column_partial(instr, &strips, 0));
	strip_fold(&strips, dbeta, column_partial(instr, &strips, 1));
}

static void reduce_finish(const struct bound_instr *instr)
{
	float *dgamma = instr_output(instr, 0), *dbeta = instr_output(instr, 1);
	for (uint32_t c = 0; c < instr->kernel->grid.channels; c++) {
		dgamma[c] = (float)column_total(instr, 0, c);
		dbeta[c] = (float)column_total(instr, 1, c);
	}
}

/* dx = scale * (g - dbeta/m - xhat * dgamma/m) */
CPU_CLONES static void grad_strip(const float *dy, const float *x, float *dx, uint32_t width,
				  const struct wide_norm *wide, const float *beta_share, const float *gamma_share,
				  struct clamp clamp)
{
	CPU_INDEPENDENT
	for (uint32_t j = 0; j < width; j++) {
		float z = normalised(x[j], wide->mean[j], wide->scale[j], wide->beta[j]);
		float g = clamp_grad(clamp, z, dy[j]);
		float xhat = (x[j] - wide->mean[j]) * wide->deviation[j];
		dx[j] = wide->scale[j] * (g - beta_share[j] - xhat * gamma_share[j]);
	}
}

static void grad_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct column_grid *grid = &instr->kernel->grid;
	struct strips strips = grid_strips(grid, chunk);
	struct clamp clamp = activation_clamp(instr->kernel->attr.activation);
	const uint32_t dtype = kernel_input(instr->kernel, 0)->dtype;
	float share[2][STRIP_FLOATS], wide_share[2][STRIP_FLOATS], reciprocal = 1.0f / (float)grid->rows;
	struct wide_norm wide;
	wide_norm_load(instr, &strips, 2, &wide);
	for (uint32_t k = 0; k < 2; k++) { /* inputs 6 and 7: dgamma, dbeta */
		for (uint32_t c = 0; c < strips.channels; c++)
			share[k][c] = ((const float *)instr->address[6 + k])[strips.first_channel + c] * reciprocal;
		strip_spread(&strips, share[k], wide_share[k]);
	}
	for (uint64_t s = 0; s < strips_total(&strips); s++) {
		uint64_t at = strips.begin + s * strips.stride;
		uint32_t width = strip_width(&strips, s);
		float block[2][STRIP_FLOATS];
		const float *dy = narrow_view(dtype, instr->address[0], at, width, block[0]);
		const float *x = narrow_view(dtype, instr->address[1], at, width, block[1]);
		grad_strip(dy, x, narrow_target(dtype, instr_output(instr, 0), at, block[0]), width, &wide,
			   wide_share[1], wide_share[0], clamp);
		narrow_put(dtype, block[0], instr_output(instr, 0), at, width);
	}
}

static void running_finish(const struct bound_instr *instr)
{
	const struct kernel *kernel = instr->kernel;
	const float *old_mean = instr->address[0], *old_variance = instr->address[1];
	const uint64_t *old_count = instr->address[2];
	const float *mean = instr->address[3], *variance = instr->address[4];
	float *new_mean = instr_output(instr, 0), *new_variance = instr_output(instr, 1);
	uint64_t *new_count = instr_output(instr, 2);
	float momentum = kernel->attr.momentum, keep = 1.0f - momentum;
	uint32_t samples = kernel->attr.samples;
	float unbiased = samples > 1 ? (float)samples / (float)(samples - 1) : 1.0f;
	for (uint64_t c = 0; c < kernel_input(kernel, 0)->elements; c++) {
		new_mean[c] = keep * old_mean[c] + momentum * mean[c];
		new_variance[c] = keep * old_variance[c] + momentum * (variance[c] * unbiased);
	}
	*new_count = *old_count + 1;
}

enum tarn_status batch_norm_prepare(struct device *device, struct kernel *kernel)
{
	(void)device;
	if (kernel->kind == OP_BATCH_STATS)
		columns_prepare(kernel, kernel_input(kernel, 0), stats_body, 2, stats_finish);
	else if (kernel->kind == OP_BATCH_APPLY)
		columns_prepare(kernel, kernel_input(kernel, 0), apply_body, 0, NULL);
	else if (kernel->kind == OP_BATCH_REDUCE)
		columns_prepare(kernel, kernel_input(kernel, 1), reduce_body, 2, reduce_finish);
	else if (kernel->kind == OP_BATCH_GRAD_INPUT)
		columns_prepare(kernel, kernel_input(kernel, 1), grad_body, 0, NULL);
	else
		kernel->finish = running_finish;
	return TARN_OK;
}
