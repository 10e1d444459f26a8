/*
 * cuda_launch.h - one op of the table as a short list of kernel launches. The seam between the device code's
 * geometry (launch_*.c: which kernel, which grid, which parameters) and the device itself (cuda.c: who runs them).
 *
 * A matrix product is a launch too: a plain kernel does it where no library takes its place, `product` says so. Of a
 * convolution only that kernel is described here. Everything is a function of the op's signature (kind, attributes,
 * shapes, dtypes) and of memory.workspace_cap: neither the number of multiprocessors nor the plan changes a grid, so
 * that bits do not depend on either.
 */
#ifndef TARN_CUDA_LAUNCH_H
#define TARN_CUDA_LAUNCH_H

#include "base/host_arena.h"
#include "cuda/kernels/parameters.h"
#include "graph/graph.h"

/* Bytes of a kernel's one parameter. */
#define CUDA_MAX_PARAMETER_BYTES 1024u

struct cuda_launch {
	struct cuda_launch *next;
	const char *function; /* name of the kernel in the module, "tarn_..." */
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t shared_bytes; /* dynamic shared memory; at most 48 KiB */
	uint32_t parameter_bytes;
	/* The kernel's one by-value struct; device addresses are in it as 64-bit numbers. */
	void *parameter;
	/* How it stores large tensors, where its name ends in _f32: a kernel of the text of that type stands for it. */
	enum storage_kind stored;
	/* A matrix product, whose parameter is a struct matmul_parameters (kernels/parameters.h). */
	bool product;
};

/* Launches in their order. They live in `host`, which is set before the list is filled. */
struct cuda_launch_list {
	struct host_arena *host;
	struct cuda_launch *first, *last;
	uint32_t launches;
};

/*
 * Fills *list and says the bytes of workspace that its kernels need, a multiple of TARN_ALIGNMENT. address: of each
 * operand, inputs then outputs as in the graph; workspace: its address. While only the geometry is asked for, address
 * is NULL and workspace 0. In-place operands simply have equal addresses. TARN_EUNSUPPORTED names a shape that no
 * kernel takes.
 */
enum tarn_status cuda_launch_build(const struct graph *graph, uint32_t op, uint64_t workspace_cap,
				   const uint64_t *address, uint64_t workspace, struct cuda_launch_list *list,
				   uint64_t *workspace_bytes);

/*
 * What follows a library's product or convolution that could not add the bias and apply the activation itself, in place
 * on the result; needs no workspace. No launch at all when there is neither.
 */
enum tarn_status cuda_launch_product_epilogue(const struct cuda_launch *product, struct cuda_launch_list *list);
enum tarn_status cuda_launch_epilogue(const struct graph *graph, uint32_t op, const uint64_t *address,
				      struct cuda_launch_list *list);

/* The storage type of an op, which is that of its kernels. */
enum storage_kind cuda_launch_stored(const struct graph *graph, uint32_t op);
/* The name that a kernel of cuda_kernel_name has in the text of a storage type, into `text`. */
#define CUDA_KERNEL_NAME_BYTES 64u
const char *cuda_launch_name(const char *function, enum storage_kind stored, char text[CUDA_KERNEL_NAME_BYTES]);

/* All kernel names, so that every one is loaded with its text. */
extern const char *const cuda_kernel_name[];
extern const uint32_t cuda_kernel_count;

/* The modules that have them, one for each storage type: PTX, zero-terminated (kernels/tarn_kernels_*.ptx). */
extern const char *const cuda_kernels_text[STORED_KINDS];

#endif
