/*
 * cost.c - how long a kernel takes: a roofline.
 *
 * time = fixed + max(flops / rate, bytes / bandwidth). The rates are what one core of an AVX-512 server (Zen 4, 2.6
 * GHz) reached on the layers of small networks, from the medians of `tarn calibrate` (docs/costs.md has the table);
 * threads add up. They are constants, not measurements of the running machine, so that the same graph gives the same
 * plan everywhere; planning needs their ratios only.
 */
#include "cpu/cpu.h"

/* Starting the threads and waiting for the last one. */
#define FIXED_NS 2000.0
/* Tensors of a training step lie partly in the shared cache, partly in memory. */
#define BYTES_PER_NS 55.0
#define PERMUTED_BYTES_PER_NS 10.0

/* One input channel to an output channel: few products for each byte. */
static bool is_depthwise(const struct kernel *kernel)
{
	const struct operand *weights =
		kernel->kind == OP_CONV2D_GRAD_WEIGHT ? kernel_output(kernel, 0) : kernel_input(kernel, 1);
	return kernel->attr.groups > 1 && weights->dim[1] == 1;
}

/* Floating-point operations, as op_flops counts them, that one core does in a nanosecond. */
static double flops_per_ns(const struct kernel *kernel)
{
	switch (kernel->kind) {
	case OP_MATMUL:
	case OP_BATCH_MATMUL:
	case OP_LINEAR_CROSS_ENTROPY:
	case OP_LINEAR_CROSS_ENTROPY_GRAD:
		return 108.0;
	case OP_ATTENTION:
	case OP_ATTENTION_GRAD:
		return 40.0;
	case OP_CONV2D:
		return is_depthwise(kernel) ? 20.0 : 117.0;
	case OP_CONV2D_GRAD_WEIGHT:
		return is_depthwise(kernel) ? 20.0 : 119.0;
	case OP_CONV2D_GRAD_INPUT:
		return is_depthwise(kernel) ? 20.0 : 125.0;
	case OP_BATCH_STATS:
	case OP_BATCH_REDUCE:
		return 15.0;
	case OP_BATCH_GRAD_INPUT:
		return 28.0;
	case OP_SUM_ROWS:
		return 8.0;
	case OP_AVG_POOL:
		return 7.0;
	case OP_AVG_POOL_GRAD:
		return 3.4;
	case OP_MAX_POOL:
	case OP_MAX_POOL_GRAD:
		return 2.2;
	case OP_SOFTMAX_CROSS_ENTROPY:
	case OP_SOFTMAX_CROSS_ENTROPY_GRAD:
	case OP_COUNT_CORRECT:
	case OP_MEAN_SQUARED_ERROR:
		return 1.3;
	case OP_BINARY_CROSS_ENTROPY:
	case OP_BINARY_CROSS_ENTROPY_GRAD:
	case OP_LOGISTIC_MIXTURE:
	case OP_LOGISTIC_MIXTURE_GRAD:
		return 1.0;
	case OP_ACTIVATION:
	case OP_ACTIVATION_GRAD:
		return 12.0;
	default:
		return 20.0;
	}
}

uint64_t cpu_cost_ns(const struct kernel *kernel, uint64_t flops, uint64_t traffic_bytes, uint32_t threads)
{
	if (op_row(kernel->kind)->view)
		return 0;
	double compute = (double)flops / (flops_per_ns(kernel) * threads);
	double bandwidth = kernel->kind == OP_PERMUTE ? PERMUTED_BYTES_PER_NS : BYTES_PER_NS;
	double stream = (double)traffic_bytes / (bandwidth * threads);
	return (uint64_t)(FIXED_NS + (compute > stream ? compute : stream));
}
