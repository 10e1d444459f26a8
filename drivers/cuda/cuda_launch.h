/*
 * cuda_launch.h - one op of the table as a short list of kernel launches. The seam between the device code's
 * geometry (launch_*.c: which kernel, which grid, which parameters) and the device itself (cuda.c: who runs them).
 *
 * An op that is a library call (a matrix product, a convolution) is not described here: cuda_launch_supported() is
 * false for it. Everything here is a function of the op's signature alone (kind, attributes, shapes, dtypes): neither
 * the number of multiprocessors nor the plan changes a grid, so that bits do not depend on either.
 */
#ifndef TARN_CUDA_LAUNCH_H
#define TARN_CUDA_LAUNCH_H

#include "graph/graph.h"

/* Largest number of kernels of one op (a two-stage reduction has two), and of bytes of a kernel's one parameter. */
#define CUDA_MAX_LAUNCHES 4u
#define CUDA_MAX_PARAMETER_BYTES 1024u

struct cuda_launch {
	const char *function; /* name of the kernel in the module, "tarn_..." */
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t shared_bytes; /* dynamic shared memory; at most 48 KiB */
	uint32_t parameter_bytes;
	/* The kernel's one by-value struct; device addresses are in it as 64-bit numbers. */
	_Alignas(16) uint8_t parameter[CUDA_MAX_PARAMETER_BYTES];
};

struct cuda_launch_list {
	struct cuda_launch launch[CUDA_MAX_LAUNCHES];
	uint32_t launches;
};

bool cuda_launch_supported(const struct graph *graph, uint32_t op);

/* Bytes of workspace of the op, a multiple of TARN_ALIGNMENT. TARN_EUNSUPPORTED names a shape that no kernel takes. */
enum tarn_status cuda_launch_workspace(const struct graph *graph, uint32_t op, uint64_t *bytes);

/*
 * Fills *list. address: of each operand, inputs then outputs as in the graph; workspace: address, 0 when it has none.
 * In-place operands simply have equal addresses.
 */
enum tarn_status cuda_launch_build(const struct graph *graph, uint32_t op, const uint64_t *address, uint64_t workspace,
				   struct cuda_launch_list *list);

/*
 * Library ops too: plain kernels (tiled, deterministic, slow) do MATMUL and the three convolutions through the two
 * functions above where no library has an engine for a shape. Bias and activation are then part of them.
 *
 * cuda_launch_epilogue: what follows a library's MATMUL or CONV2D that could not add the bias and apply the activation
 * itself, in place on the result; needs no workspace. No launch at all when the op has neither.
 */
enum tarn_status cuda_launch_epilogue(const struct graph *graph, uint32_t op, const uint64_t *address,
				      struct cuda_launch_list *list);

/* All kernel names, so that every one is loaded at boot. */
extern const char *const cuda_kernel_name[];
extern const uint32_t cuda_kernel_count;

/* The module that has them: PTX, zero-terminated (kernels/tarn_kernels.ptx as text in the program). */
extern const char cuda_kernels_text[];

#endif
