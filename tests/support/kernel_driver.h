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

/* How the next devices are made. */
struct kernel_driver_options {
	uint64_t seed; /* order of blocks, warps and threads; 0: the natural one */
};
extern struct kernel_driver_options kernel_driver_options;

extern const struct driver_ops kernel_driver;

#endif
