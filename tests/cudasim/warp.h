/*
 * warp.h - executes a kernel: blocks one after another, the warps of a block in turns, 32 lanes at a time.
 *
 * A block runs until it ends; blocks, warps and diverged lanes take turns in an order drawn from the seed (0: the
 * natural order). Lanes that diverge run the group with the lowest instruction first, which brings them together
 * again where the compiler's code meets. Since Volta threads are scheduled on their own, so nothing here relies on
 * lanes being together: barriers and shuffles wait for the lanes they name, and say so when one can never come.
 *
 * Every access to memory is checked: alignment, bounds, the operands of the launch, bytes never written or dead, and
 * by shadow words whether another thread touched the same bytes without a barrier in between.
 */
#ifndef CUDASIM_WARP_H
#define CUDASIM_WARP_H

#include "memory.h"
#include "ptx.h"

#define MAX_BLOCK_THREADS 1024u
#define MAX_BLOCK_WARPS (MAX_BLOCK_THREADS / WARP_LANES)
#define MAX_SHARED_BYTES 232448u /* cc 9.0, opt-in */

/* Generic addresses of shared and local memory lie in windows that no device allocation reaches. */
#define SHARED_WINDOW 0xE000000000000000u
#define LOCAL_WINDOW 0xE100000000000000u
#define WINDOW_MASK 0xFF00000000000000u

struct shared_granule; /* shadow of 4 bytes of shared memory */

/* Memory that launches need, taken before the first one so that a step allocates nothing. */
struct machine {
	union lanes *registers; /* of the warps of one block */
	size_t register_count;
	uint8_t *shared; /* MAX_SHARED_BYTES */
	struct shared_granule *shared_shadow;
	uint8_t *local;
	size_t local_bytes;
	struct warp *warp;     /* MAX_BLOCK_WARPS */
	uint64_t instructions; /* thread-instructions executed so far */
};

/* Makes room for one more kernel. */
void machine_prepare(struct machine *machine, const struct ptx_kernel *kernel);
void machine_free(struct machine *machine);

struct launch_shape {
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t dynamic_shared_bytes;
};

enum launch_error { LAUNCH_OK, LAUNCH_ILLEGAL_ADDRESS, LAUNCH_MISALIGNED, LAUNCH_FAILED, LAUNCH_TIMEOUT };

struct launch {
	const struct ptx_kernel *kernel;
	struct launch_shape shape;
	const uint8_t *parameters;
	struct memory *memory;
	struct memory_access access; /* what it may touch, and who it is in the order of the streams */
	uint64_t seed;               /* 0: natural order */
	uint64_t max_instructions;   /* warp instructions; more is an endless loop */
};

/* On failure *message has kernel, line, block, thread. */
enum launch_error launch_run(struct machine *machine, const struct launch *launch, char *message, size_t message_bytes);

/* ---- For the operations alone ---- */

struct block {
	struct machine *machine;
	const struct launch *launch;
	const struct ptx_kernel *kernel;
	uint32_t index; /* of the block in the grid */
	uint32_t position[3];
	uint32_t threads;
	uint32_t warps;
	uint32_t shared_bytes;
	uint32_t epoch;                     /* barriers passed, plus one */
	const struct memory_region *region; /* of the last access */
	uint32_t range;                     /* operand of the last access */
	uint64_t random;
	uint64_t instructions_left;
	enum launch_error error;
	char *message;
	size_t message_bytes;
};

struct warp {
	union lanes *reg;
	struct block *block;
	uint32_t number;
	uint32_t active;  /* lanes that run now, all at `next` */
	uint32_t next;    /* index of the next instruction */
	uint32_t ready;   /* lanes that can run, `active` included */
	uint32_t waiting; /* at an instruction that needs other lanes */
	uint32_t blocked; /* at a barrier */
	uint32_t exited;
	uint32_t epoch;                 /* warp-level synchronisations passed */
	uint32_t lane_next[WARP_LANES]; /* of the lanes that are not active */
};

/* Notes the first failure of a launch; `lane` names the thread. */
void warp_fail(struct warp *warp, const struct ptx_instruction *instruction, uint32_t lane, enum launch_error error,
	       const char *format, ...) __attribute__((format(printf, 5, 6)));

ptx_operation warp_load, warp_store, warp_atomic, warp_load_parameter;

/*
 * Shared memory, warp_shared.c. The data of one thread's access, checked against the bounds, the barriers and bytes
 * never written; NULL after warp_fail(). `value`: what a store is about to write, else NULL.
 */
uint8_t *shared_access(struct warp *warp, const struct ptx_instruction *instruction, uint32_t lane, uint64_t offset,
		       uint32_t bytes, bool atomic, const uint8_t *value);
void shared_clear(struct block *block);
size_t shared_shadow_bytes(void);

/* Place of one lane's access, as memory.h has it. */
static inline uint64_t warp_place(const struct warp *warp, uint32_t lane)
{
	return place_code(warp->block->index, warp->number * WARP_LANES + lane, warp->block->epoch, warp->epoch);
}

/* Are the bytes of a store already there? At most 4 of them, within one granule. */
static inline bool same_bytes(const uint8_t *value, const uint8_t *data, uint32_t bytes)
{
	uint32_t a = 0, b = 0;
	for (uint32_t i = 0; i < bytes; i++) {
		a |= (uint32_t)value[i] << 8 * i;
		b |= (uint32_t)data[i] << 8 * i;
	}
	return a == b;
}

/* Needs all lanes that its member mask names; warp_sync.c. */
bool warp_converge(struct warp *warp, const struct ptx_instruction *instruction, uint32_t lanes);

/* Executes the statements for each lane in `mask`, with `lane` as its number; the full warp is a loop the compiler
 * widens. */
#define FOR_LANES(mask, ...)                                                                   \
	do {                                                                                   \
		if ((mask) == ALL_LANES) {                                                     \
			_Pragma("omp simd") for (uint32_t lane = 0; lane < WARP_LANES; lane++) \
			{                                                                      \
				__VA_ARGS__;                                                   \
			}                                                                      \
		} else {                                                                       \
			for (uint32_t lane = 0; lane < WARP_LANES; lane++)                     \
				if ((mask) >> lane & 1) {                                      \
					__VA_ARGS__;                                           \
				}                                                              \
		}                                                                              \
	} while (0)

#endif
