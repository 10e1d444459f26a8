/*
 * kernel_engine.h - CUDA kernels on a device, without the CUDA driver of this project around them.
 *
 * The program's texts, each loaded when a launch is the first to want it, one stream, one region of device memory,
 * through the Driver API of TARN_LIBCUDA: the simulated library where that is not set. There a launch may touch its
 * ranges alone, and whatever else it does wrong (races, missing barriers, misalignment, reading bytes that nobody
 * wrote) fails it with a sentence that has kernel, PTX line, block and thread.
 */
#ifndef TARN_TESTS_KERNEL_ENGINE_H
#define TARN_TESTS_KERNEL_ENGINE_H

#include "base/host_arena.h"
#include "cuda/cuda_launch.h"

struct kernel_engine;

/* What a launch may do with a part of the memory. */
struct kernel_range {
	uint64_t address, bytes;
	bool read, write; /* written alone: what was there before is dead */
};

/*
 * seed: order of blocks, warps and threads in the simulator, 0 for the natural one. Lives in
 * `host`; to be closed also after a failure, when *out is not NULL.
 */
enum tarn_status kernel_engine_open(struct host_arena *host, uint64_t seed, struct kernel_engine **out);
void kernel_engine_close(struct kernel_engine *engine);
/* Once: the memory, filled with 0xFF. */
enum tarn_status kernel_engine_reserve(struct kernel_engine *engine, uint64_t bytes, uint64_t *address);
enum tarn_status kernel_engine_write(struct kernel_engine *engine, uint64_t address, const void *source,
				     uint64_t bytes);
enum tarn_status kernel_engine_read(struct kernel_engine *engine, uint64_t address, void *target, uint64_t bytes);
/* Runs the launches one after the other and waits for the last. */
enum tarn_status kernel_engine_run(struct kernel_engine *engine, const struct cuda_launch_list *list,
				   const struct kernel_range *range, uint32_t ranges);

#endif
