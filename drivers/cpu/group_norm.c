/*
 * group_norm.c - normalisation of each sample over groups of channels.
 *
 * With g = dy * gamma and xhat = (x - mean) * rstd, averages over the group:  dx = rstd * (g - avg(g) - xhat * avg(g *
 * xhat)) Source: Wu, He 2018, arXiv:1803.08494, differentiated.
 *
 * An item is a sample. Sums run down the columns of its (positions, channels) matrix, in float over short runs and in
 * double above that; the workspace has two doubles a channel for each sample, which later hold the channels' mean and
 * deviation.
 */
#include "cpu/cpu.h"

#include <math.h>

#define RUN 16u   /* positions summed in float */
#define STRIP 64u /* channels at once */

struct sample {
	uint64_t positions;
	uint32_t channels, groups;
	const float *dy, *x; /* dy is NULL in the forward op */
	float *y;
	double *sum, *dot;        /* workspace, of each channel */
	const float *mean, *rstd; /* of each group */
};

static struct sample sample_of(const struct bound_instr *instr, uint64_t number)
{
	const struct kernel *kernel = instr->kernel;
	const bool forward = kernel->kind == OP_GROUP_NORM;
	const struct operand *x = kernel_input(kernel, 0);
	const uint32_t groups = kernel->attr.groups;
	struct sample s = { .positions = x->elements / x->dim[0] / x->channels,
			    .channels = x->channels,
			    .groups = groups };
	uint64_t at = number * s.positions * s.channels;
	s.dy = forward ? NULL : (const float *)instr->address[0] + at;
	s.x = (const float *)instr->address[forward ? 0 : 1] + at;
	s.y = kernel->kind == OP_GROUP_NORM_GRAD_PARAM ? NULL : (float *)instr_output(instr, 0) + at;
	s.sum = (double *)instr->workspace + number * 2 * s.channels;
	s.dot = s.sum + s.channels;
	s.mean = (const float *)(forward ? instr_output(instr, 1) : instr->address[2]) + number * groups;
	s.rstd = (const float *)(forward ? instr_output(instr, 2) : instr->address[3]) + number * groups;
	return s;
}

static uint32_t group_of(const struct sample *s, uint32_t channel)
{
	return channel / (s->channels / s->groups);
}

/* sum[c] += values of channel c; dot[c] += their squares around the mean, or products with xhat when there is a dy. */
CPU_CLONES static void strip_run(const float *dy, const float *x, uint64_t stride, uint32_t rows, uint32_t width,
				 const float *mean, const float *rstd, double *sum, double *dot)
{
	float a[STRIP] = { 0 }, b[STRIP] = { 0 };
	for (uint32_t r = 0; r < rows; r++)
		for (uint32_t c = 0; c < width; c++) {
			float centred = x[r * stride + c] - mean[c];
			float value = dy ? dy[r * stride + c] : x[r * stride + c];
			a[c] += value;
			b[c] += dy ? value * (centred * rstd[c]) : centred * centred;
		}
	for (uint32_t c = 0; c < width; c++) {
		sum[c] += (double)a[c];
		dot[c] += (double)b[c];
	}
}

static void channel_sums(const struct sample *s)
{
	for (uint32_t first = 0; first < s->channels; first += STRIP) {
		uint32_t width = s->channels - first < STRIP ? s->channels - first : STRIP;
		float mean[STRIP], rstd[STRIP];
		for (uint32_t c = 0; c < width; c++) {
			mean[c] = s->mean[group_of(s, first + c)];
			rstd[c] = s->rstd[group_of(s, first + c)];
			s->sum[first + c] = s->dot[first + c] = 0.0;
		}
		for (uint64_t p = 0; p < s->positions; p += RUN) {
			uint64_t left = s->positions - p, at = p * s->channels + first;
			strip_run(s->dy ? s->dy + at : NULL, s->x + at, s->channels, left < RUN ? (uint32_t)left : RUN,
				  width, mean, rstd, s->sum + first, s->dot + first);
		}
	}
}

/* Average over a group of `of` times gamma (1 without). */
static float group_average(const struct sample *s, uint32_t group, const double *of, const float *gamma)
{
	uint32_t width = s->channels / s->groups;
	double total = 0.0;
	for (uint32_t c = group * width; c < (group + 1) * width; c++)
		total += of[c] * (gamma ? (double)gamma[c] : 1.0);
	return (float)(total / ((double)width * (double)s->positions));
}

CPU_CLONES static void row_apply(const float *x, float *y, uint32_t width, float mean, float rstd, const float *gamma,
				 const float *beta)
{
	CPU_INDEPENDENT
	for (uint32_t c = 0; c < width; c++)
		y[c] = (x[c] - mean) * rstd * gamma[c] + beta[c];
}

static void forward_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	struct range samples = chunk_range(kernel, chunk, kernel_input(kernel, 0)->dim[0]);
	for (uint64_t n = samples.begin; n < samples.end; n++) {
		struct sample s = sample_of(instr, n);
		uint32_t width = s.channels / s.groups;
		float *mean = (float *)instr_output(instr, 1) + n * s.groups;
		float *rstd = (float *)instr_output(instr, 2) + n * s.groups;
		for (uint32_t g = 0; g < s.groups; g++)
			mean[g] = rstd[g] = 0.0f;
		channel_sums(&s);
		for (uint32_t g = 0; g < s.groups; g++)
			mean[g] = group_average(&s, g, s.sum, NULL);
		channel_sums(&s);
		for (uint32_t g = 0; g < s.groups; g++)
			rstd[g] = 1.0f / sqrtf(group_average(&s, g, s.dot, NULL) + kernel->attr.epsilon);
		for (uint64_t p = 0; p < s.positions; p++)
			for (uint32_t g = 0; g < s.groups; g++) {
				uint64_t at = p * s.channels + g * width;
				row_apply(s.x + at, s.y + at, width, mean[g], rstd[g],
					  (const float *)instr->address[1] + g * width,
					  (const float *)instr->address[2] + g * width);
			}
	}
}

CPU_CLONES static void row_grad(const float *dy, const float *x, float *dx, uint32_t width, float mean, float rstd,
				const float *gamma, float g_mean, float dot_mean)
{
	CPU_INDEPENDENT
	for (uint32_t c = 0; c < width; c++) {
		float xhat = (x[c] - mean) * rstd;
		dx[c] = rstd * (dy[c] * gamma[c] - g_mean - xhat * dot_mean);
	}
}

static void grad_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	const float *gamma = instr->address[4];
	struct range samples = chunk_range(kernel, chunk, kernel_input(kernel, 0)->dim[0]);
	for (uint64_t n = samples.begin; n < samples.end; n++) {
		struct sample s = sample_of(instr, n);
		uint32_t width = s.channels / s.groups;
		channel_sums(&s);
		for (uint32_t g = 0; g < s.groups; g++) {
			float g_mean = group_average(&s, g, s.sum, gamma),
			      dot_mean = group_average(&s, g, s.dot, gamma);
			for (uint64_t p = 0; p < s.positions; p++) {
				uint64_t at = p * s.channels + g * width;
				row_grad(s.dy + at, s.x + at, s.y + at, width, s.mean[g], s.rstd[g], gamma + g * width,
					 g_mean, dot_mean);
			}
		}
	}
}

static void param_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	struct range samples = chunk_range(kernel, chunk, kernel_input(kernel, 0)->dim[0]);
	for (uint64_t n = samples.begin; n < samples.end; n++) {
		struct sample s = sample_of(instr, n);
		channel_sums(&s);
	}
}

static void param_finish(const struct bound_instr *instr)
{
	const struct operand *x = kernel_input(instr->kernel, 0);
	float *dgamma = instr_output(instr, 0), *dbeta = instr_output(instr, 1);
	for (uint32_t c = 0; c < x->channels; c++) {
		double sum = 0.0, dot = 0.0;
		for (uint32_t n = 0; n < x->dim[0]; n++) {
			const double *of_sample = (const double *)instr->workspace + (uint64_t)n * 2 * x->channels;
			sum += of_sample[c];
			dot += of_sample[x->channels + c];
		}
		dgamma[c] = (float)dot;
		dbeta[c] = (float)sum;
	}
}

enum tarn_status group_norm_prepare(struct device *device, struct kernel *kernel)
{
	const struct operand *x = kernel_input(kernel, 0);
	uint64_t sample = x->elements / x->dim[0];
	kernel_body *body = kernel->kind == OP_GROUP_NORM        ? forward_body
			    : kernel->kind == OP_GROUP_NORM_GRAD ? grad_body
								 : param_body;
	(void)device;
	kernel_cut(kernel, body, x->dim[0], CPU_CHUNK_ELEMENTS / 4 / sample);
	if (kernel->kind == OP_GROUP_NORM_GRAD_PARAM)
		kernel->finish = param_finish;
	kernel->info.workspace_bytes = (uint64_t)x->dim[0] * 2 * x->channels * sizeof(double);
	return TARN_OK;
}
