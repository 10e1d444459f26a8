/* function.c - exponentials, logarithms and powers, element by element; the output may take the input's memory. */
#include "cpu/cpu.h"

#include "cpu/exponential.h"

#include <math.h>

CPU_CLONES static void exponential_loop(const float *x, float *y, uint64_t n)
{
	CPU_INDEPENDENT
	for (uint64_t i = 0; i < n; i++)
		y[i] = exponential(x[i]);
}

/* The powers that derivatives of norms and quotients are full of need no logarithm. */
CPU_CLONES static void inverse_loop(const float *x, float *y, uint64_t n)
{
	CPU_INDEPENDENT
	for (uint64_t i = 0; i < n; i++)
		y[i] = 1.0f / x[i];
}

CPU_CLONES static void inverse_root_loop(const float *x, float *y, uint64_t n)
{
	CPU_INDEPENDENT
	for (uint64_t i = 0; i < n; i++)
		y[i] = 1.0f / sqrtf(x[i]);
}

static void function_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	struct range range = chunk_range(kernel, chunk, kernel_output(kernel, 0)->elements);
	const float *x = (const float *)instr->address[0] + range.begin;
	const float alpha = kernel->attr.alpha;
	float *y = (float *)instr_output(instr, 0) + range.begin;
	uint64_t n = range.end - range.begin;
	if (kernel->attr.mode == FUNCTION_EXPONENTIAL)
		exponential_loop(x, y, n);
	else if (kernel->attr.mode == FUNCTION_POWER && alpha == -1.0f)
		inverse_loop(x, y, n);
	else if (kernel->attr.mode == FUNCTION_POWER && alpha == -0.5f)
		inverse_root_loop(x, y, n);
	else
		for (uint64_t i = 0; i < n; i++)
			y[i] = kernel->attr.mode == FUNCTION_POWER ? powf(x[i], alpha) : logf(x[i]);
}

enum tarn_status function_prepare(struct device *device, struct kernel *kernel)
{
	(void)device;
	kernel_cut(kernel, function_body, kernel_output(kernel, 0)->elements, CPU_CHUNK_ELEMENTS / 4);
	return TARN_OK;
}
