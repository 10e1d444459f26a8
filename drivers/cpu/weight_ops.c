/*
 * weight_ops.c - weights before they are used: masked (van den Oord et al. 2016, arXiv:1601.06759) or split into length
 * and direction (Salimans, Kingma 2016, arXiv:1602.07868). An item is the weights of one output channel.
 */
#include "cpu/cpu.h"

#include <math.h>

static uint64_t weights_each(const struct operand *w)
{
	return w->elements / w->dim[0];
}

static void mask_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct operand *w = kernel_input(instr->kernel, 0);
	uint32_t area = w->dim[2] * w->dim[3], kept = area / 2 + (instr->kernel->attr.mode == MASK_B);
	struct range channels = chunk_range(instr->kernel, chunk, w->dim[0]);
	const float *x = instr->address[0];
	float *y = instr_output(instr, 0);
	for (uint64_t i = channels.begin * w->dim[1]; i < channels.end * w->dim[1]; i++)
		for (uint32_t k = 0; k < area; k++)
			y[i * area + k] = k < kept ? x[i * area + k] : 0.0f;
}

static double dot_product(const float *a, const float *b, uint64_t n)
{
	double total = 0.0;
	for (uint64_t i = 0; i < n; i++)
		total += (double)a[i] * (double)b[i];
	return total;
}

/* w = v * (g / |v|) */
static void norm_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct operand *direction = kernel_input(instr->kernel, 0);
	uint64_t n = weights_each(direction);
	struct range channels = chunk_range(instr->kernel, chunk, direction->dim[0]);
	const float *g = instr->address[1];
	for (uint64_t o = channels.begin; o < channels.end; o++) {
		const float *v = (const float *)instr->address[0] + o * n;
		float *w = (float *)instr_output(instr, 0) + o * n;
		float factor = (float)((double)g[o] / sqrt(dot_product(v, v, n)));
		for (uint64_t i = 0; i < n; i++)
			w[i] = v[i] * factor;
	}
}

/* dg = dw . v / |v|;  dv = g / |v| * (dw - v * (dw . v) / |v|^2)   (their equation 3) */
static void norm_grad_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct operand *direction = kernel_input(instr->kernel, 1);
	uint64_t n = weights_each(direction);
	struct range channels = chunk_range(instr->kernel, chunk, direction->dim[0]);
	const float *g = instr->address[2];
	float *dg = instr_output(instr, 1);
	for (uint64_t o = channels.begin; o < channels.end; o++) {
		const float *dw = (const float *)instr->address[0] + o * n;
		const float *v = (const float *)instr->address[1] + o * n;
		float *dv = (float *)instr_output(instr, 0) + o * n;
		double squares = dot_product(v, v, n), dot = dot_product(dw, v, n), length = sqrt(squares);
		double factor = (double)g[o] / length, along = dot / squares;
		dg[o] = (float)(dot / length);
		for (uint64_t i = 0; i < n; i++)
			dv[i] = (float)(factor * ((double)dw[i] - (double)v[i] * along));
	}
}

enum tarn_status weight_prepare(struct device *device, struct kernel *kernel)
{
	const struct operand *weights = kernel_output(kernel, 0);
	kernel_body *body = kernel->kind == OP_WEIGHT_MASK   ? mask_body
			    : kernel->kind == OP_WEIGHT_NORM ? norm_body
							     : norm_grad_body;
	(void)device;
	kernel_cut(kernel, body, weights->dim[0], CPU_CHUNK_ELEMENTS / 4 / weights_each(weights));
	return TARN_OK;
}
