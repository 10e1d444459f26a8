/*
 * cost.c - how long a kernel takes: a roofline.
 *
 * time = fixed + max(flops / rate, bytes / bandwidth). The rates are what one core of an AVX-512 server reached on
 * the layers of small networks; threads add up. They are constants, not measurements of the running machine, so that the
 * same graph gives the same plan everywhere; only their ratios matter for planning.
 */
#include "cpu/cpu.h"

struct rate {
	double flops_per_ns, bytes_per_ns; /* of one core */
};

static struct rate rate_of(const struct kernel *kernel)
{
	switch (kernel->kind) {
	case OP_MATMUL:
		return (struct rate){ 100.0, 10.0 };
	case OP_CONV2D:
	case OP_CONV2D_GRAD_INPUT:
	case OP_CONV2D_GRAD_WEIGHT:
		return (struct rate){ 90.0, 8.0 };
	default:
		return (struct rate){ 8.0, 8.0 };
	}
}

uint64_t cpu_cost_ns(const struct kernel *kernel, uint64_t flops, uint64_t traffic_bytes, uint32_t threads)
{
	struct rate rate = rate_of(kernel);
	double compute = (double)flops / (rate.flops_per_ns * threads);
	double stream = (double)traffic_bytes / (rate.bytes_per_ns * threads);
	double fixed = kernel->kind == OP_RESHAPE ? 0.0 : 2000.0;
	return (uint64_t)(fixed + (compute > stream ? compute : stream));
}
