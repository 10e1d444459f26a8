/*
 * softmax.c - softmax and log-softmax of each row, and their gradients.
 *
 * softmax: dx = alpha * y * (dy - sum(dy * y));  log-softmax: dx = dy - exp(y) * sum(dy).
 * A row is read whole before its first element is written, so that the output may take the input's memory.
 */
#include "cpu/cpu.h"
#include "cpu/exponential.h"
#include "cpu/lanes.h"

#include <math.h>

/* y = exp(alpha * x - largest), and its sum. */
CPU_CLONES static double exponentials(const float *x, float *y, uint32_t n, float alpha, float largest)
{
	struct lanes sum = { { 0 } };
	uint32_t whole = n - n % LANES;
	CPU_INDEPENDENT
	for (uint32_t i = 0; i < n; i++)
		y[i] = exponential(alpha * x[i] - largest);
	for (uint32_t i = 0; i < whole; i += LANES)
		for (uint32_t l = 0; l < LANES; l++)
			sum.lane[l] += y[i + l];
	for (uint32_t i = whole; i < n; i++)
		sum.lane[i - whole] += y[i];
	return lanes_total(&sum);
}

CPU_CLONES static double exponential_sum(const float *x, uint32_t n, float largest)
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

CPU_CLONES static void scale_row(float *y, uint32_t n, float factor)
{
	for (uint32_t i = 0; i < n; i++)
		y[i] *= factor;
}

CPU_CLONES static void shift_row(const float *x, float *y, uint32_t n, float shift)
{
	CPU_INDEPENDENT
	for (uint32_t i = 0; i < n; i++)
		y[i] = x[i] - shift;
}

CPU_CLONES static double row_dot(const float *a, const float *b, uint32_t n)
{
	struct lanes sum = { { 0 } };
	uint32_t whole = n - n % LANES;
	for (uint32_t i = 0; i < whole; i += LANES)
		for (uint32_t l = 0; l < LANES; l++)
			sum.lane[l] += a[i + l] * b[i + l];
	for (uint32_t i = whole; i < n; i++)
		sum.lane[i - whole] += a[i] * b[i];
	return lanes_total(&sum);
}

CPU_CLONES static void softmax_grad_row(const float *dy, const float *y, float *dx, uint32_t n, float alpha, float dot)
{
	CPU_INDEPENDENT
	for (uint32_t i = 0; i < n; i++)
		dx[i] = alpha * y[i] * (dy[i] - dot);
}

CPU_CLONES static void log_softmax_grad_row(const float *dy, const float *y, float *dx, uint32_t n, float sum)
{
	CPU_INDEPENDENT
	for (uint32_t i = 0; i < n; i++)
		dx[i] = dy[i] - exponential(y[i]) * sum;
}

/* Columns of a row that count. */
static uint32_t visible(const struct kernel *kernel, uint64_t row)
{
	const struct operand *x = kernel_input(kernel, 0);
	if (!kernel->attr.causal)
		return x->channels;
	uint32_t rows = x->dim[x->rank - 2];
	return (uint32_t)(row % rows) + (x->channels - rows) + 1;
}

static void softmax_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	uint32_t n = kernel_input(kernel, 0)->channels;
	float alpha = kernel->attr.alpha == 0.0f ? 1.0f : kernel->attr.alpha;
	struct range rows = chunk_range(kernel, chunk, kernel_input(kernel, 0)->rows);
	for (uint64_t r = rows.begin; r < rows.end; r++) {
		const float *x = (const float *)instr->address[0] + r * n;
		float *y = (float *)instr_output(instr, 0) + r * n;
		uint32_t count = visible(kernel, r);
		double sum = exponentials(x, y, count, alpha, lanes_largest(x, count, alpha));
		scale_row(y, count, (float)(1.0 / sum));
		for (uint32_t i = count; i < n; i++)
			y[i] = 0.0f;
	}
}

static void log_softmax_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	uint32_t n = kernel_input(kernel, 0)->channels;
	struct range rows = chunk_range(kernel, chunk, kernel_input(kernel, 0)->rows);
	for (uint64_t r = rows.begin; r < rows.end; r++) {
		const float *x = (const float *)instr->address[0] + r * n;
		float largest = lanes_largest(x, n, 1.0f);
		double lse = (double)largest + log(exponential_sum(x, n, largest));
		shift_row(x, (float *)instr_output(instr, 0) + r * n, n, (float)lse);
	}
}

/* y is 0 where a causal softmax saw nothing, and so is dx. */
static void softmax_grad_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	uint32_t n = kernel_input(kernel, 0)->channels;
	float alpha = kernel->attr.alpha == 0.0f ? 1.0f : kernel->attr.alpha;
	struct range rows = chunk_range(kernel, chunk, kernel_input(kernel, 0)->rows);
	for (uint64_t r = rows.begin; r < rows.end; r++) {
		const float *dy = (const float *)instr->address[0] + r * n,
			    *y = (const float *)instr->address[1] + r * n;
		float *dx = (float *)instr_output(instr, 0) + r * n;
		uint32_t count = visible(kernel, r);
		softmax_grad_row(dy, y, dx, count, alpha, (float)row_dot(dy, y, count));
		for (uint32_t i = count; i < n; i++)
			dx[i] = 0.0f;
	}
}

static void log_softmax_grad_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	uint32_t n = kernel_input(kernel, 0)->channels;
	struct range rows = chunk_range(kernel, chunk, kernel_input(kernel, 0)->rows);
	for (uint64_t r = rows.begin; r < rows.end; r++) {
		const float *dy = (const float *)instr->address[0] + r * n,
			    *y = (const float *)instr->address[1] + r * n;
		log_softmax_grad_row(dy, y, (float *)instr_output(instr, 0) + r * n, n, (float)lanes_sum(dy, n));
	}
}

enum tarn_status softmax_prepare(struct device *device, struct kernel *kernel)
{
	const struct operand *x = kernel_input(kernel, 0);
	kernel_body *body = kernel->kind == OP_SOFTMAX        ? softmax_body
			    : kernel->kind == OP_SOFTMAX_GRAD ? softmax_grad_body
			    : kernel->kind == OP_LOG_SOFTMAX  ? log_softmax_body
							      : log_softmax_grad_body;
	(void)device;
	kernel_cut(kernel, body, x->rows, CPU_CHUNK_ELEMENTS / 4 / x->channels);
	return TARN_OK;
}
