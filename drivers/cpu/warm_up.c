/*
 * warm_up.c - uses, when the device is opened, what would map memory at its first use in a step.
 *
 * Found by tracing system calls: the C library maps an arena for a thread at its first allocation; oneDNN generates the
 * code of its thread barrier when the first weight gradient that is summed over threads runs, and where there is no
 * AVX-512 the code of its SGEMM at the first product of each pair of transposes.
 */
#include "cpu/onednn.h"

#include <stdlib.h>

static void start_threads(uint32_t threads)
{
#pragma omp parallel num_threads(threads)
	{
		void *volatile first = malloc(64);
		free(first);
	}
}

static enum tarn_status run_kernel(struct device *device, struct kernel *kernel)
{
	void *address[3];
	struct bound_instr instr = { .kernel = kernel, .address = address };
	for (uint32_t i = 0; i < 3; i++) {
		address[i] = HOST_ARRAY(device->host, kernel->operand[i].elements, float);
		if (!address[i])
			return TARN_ENOMEM;
	}
	instr.workspace = HOST_ARRAY(device->host, kernel->info.workspace_bytes, unsigned char);
	if (!instr.workspace)
		return TARN_ENOMEM;
	enum tarn_status st = dnn_bind(device, &instr);
	return st ? st : dnn_launch(device->state, &instr);
}

/* A small image with enough rows to be shared by all threads. */
static enum tarn_status weight_gradient(struct device *device)
{
	struct operand operand[3] = { { .rank = 4, .elements = 2 * 9 * 11 * 16, .dim = { 2, 9, 11, 16 } },
				      { .rank = 4, .elements = 2 * 9 * 11 * 16, .dim = { 2, 9, 11, 16 } },
				      { .rank = 4, .elements = 16 * 16 * 3 * 3, .dim = { 16, 16, 3, 3 } } };
	struct kernel kernel = { .kind = OP_CONV2D_GRAD_WEIGHT, .inputs = 2, .outputs = 1, .operand = operand };
	kernel.name = "warm up";
	kernel.attr.window = (struct window){ { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 } };
	enum tarn_status st = conv_prepare(device, &kernel);
	return st ? st : run_kernel(device, &kernel);
}

static enum tarn_status matrix_product(struct device *device, uint32_t transpose_a, uint32_t transpose_b)
{
	struct operand operand[3];
	for (int i = 0; i < 3; i++)
		operand[i] = (struct operand){ .rank = 2, .elements = 64 * 64, .dim = { 64, 64 } };
	struct kernel kernel = { .kind = OP_MATMUL, .inputs = 2, .outputs = 1, .operand = operand, .name = "warm up" };
	kernel.attr.transpose_a = transpose_a;
	kernel.attr.transpose_b = transpose_b;
	enum tarn_status st = matmul_prepare(device, &kernel);
	return st ? st : run_kernel(device, &kernel);
}

enum tarn_status cpu_warm_up(struct device *device)
{
	struct cpu_state *state = device->state;
	uint64_t cap = state->workspace_cap;
	start_threads(state->threads);
	state->workspace_cap = UINT64_MAX; /* these small kernels lie in host memory, not in the arena */
	enum tarn_status st = weight_gradient(device);
	bool products_are_sgemm = (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) != dnnl_cpu_isa_avx512_core;
	for (uint32_t t = 0; t < 4 && !st && products_are_sgemm; t++)
		st = matrix_product(device, t & 1, t >> 1);
	state->workspace_cap = cap;
	return st;
}
