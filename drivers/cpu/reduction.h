/*
 * reduction.h - a sum over all items: each chunk leaves a double in the workspace, and they are added in order.
 */
#ifndef TARN_CPU_REDUCTION_H
#define TARN_CPU_REDUCTION_H

#include "cpu/cpu.h"

static inline double reduction_total(const struct bound_instr *instr)
{
	const double *partial = instr->workspace;
	double total = 0.0;
	for (uint64_t k = 0; k < instr->kernel->chunks; k++)
		total += partial[k];
	return total;
}

/* At most CPU_REDUCTION_CHUNKS chunks of items that cost as much as `item_elements` elements each. */
static inline void reduction_prepare(struct kernel *kernel, kernel_body *body, uint64_t items, uint64_t item_elements,
				     kernel_finish *finish)
{
	uint64_t wanted = CPU_CHUNK_ELEMENTS / 16 / item_elements;
	uint64_t least = (items + CPU_REDUCTION_CHUNKS - 1) / CPU_REDUCTION_CHUNKS;
	kernel_cut(kernel, body, items, wanted > least ? wanted : least);
	kernel->finish = finish;
	kernel->info.workspace_bytes = kernel->chunks * sizeof(double);
}

#endif
