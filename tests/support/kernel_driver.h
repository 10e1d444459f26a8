/*
 * kernel_driver.h - a driver that is nothing but the CUDA kernels: cuda_launch_build() on the simulator.
 *
 * It has no streams, no libraries and no graphs; products and convolutions run in the plain kernels. So the conformance
 * cases judge kernels and launch geometry apart from everything else of the CUDA driver. Operands are at most readable
 * or writable as the op table says, and the workspace holds nothing when an op starts.
 */
#ifndef TARN_TESTS_KERNEL_DRIVER_H
#define TARN_TESTS_KERNEL_DRIVER_H

#include "driver.h"

enum kernel_storage { STORAGE_F32, STORAGE_BF16, STORAGE_F16 };

/* How the next devices are made. All zero: the text of the program, natural order. */
struct kernel_driver_options {
	uint64_t seed;    /* order of blocks, warps and threads; 0: the natural one */
	const char *text; /* PTX; NULL: that of the program */
	/*
	 * The type in which `text` stores large tensors. Graphs know float alone: the driver converts such operands
	 * when they are written and read, and they fill half of their place.
	 */
	enum kernel_storage storage;
};
extern struct kernel_driver_options kernel_driver_options;

/* Does this op keep the operand (inputs, then outputs) in the storage type? */
bool kernel_driver_stores(const struct graph *graph, uint32_t op, uint32_t operand);

extern const struct driver_ops kernel_driver;

#endif
