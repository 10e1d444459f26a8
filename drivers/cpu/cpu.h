/*
 * cpu.h - what the files of the CPU driver share.
 *
 * A kernel is made once for each signature (kind, attributes, shapes). It is either a short list of oneDNN primitives
 * (`stage`), or own loops: `body` runs for every chunk 0 .. chunks-1, spread over the threads, then `finish` runs once.
 * A kernel that takes turns between the two has a `run` of its own.
 *
 * Invariants
 *   - The cut into chunks is a function of the shapes alone, and a chunk is computed by one thread in a fixed order, so
 *     own loops give the same bits for every number of threads.
 *   - Loops are compiled for several instruction sets and must not be contracted to fused multiply-adds
 *     (-ffp-contract=off), so that the same expression gives the same bits wherever it stands.
 *   - Partial results of chunks lie in the kernel's workspace in the arena; launching allocates nothing.
 */
#ifndef TARN_CPU_CPU_H
#define TARN_CPU_CPU_H

#include "driver.h"

#include <oneapi/dnnl/dnnl.h>

/* Compiles a function for each instruction set that pays; the loader picks one. */
#if defined(__x86_64__) && !defined(__clang__)
#define CPU_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CPU_CLONES
#endif

/* The next loop's iterations are independent even where output and input are the same memory. */
#if defined(__clang__)
#define CPU_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define CPU_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Elements that one chunk of an element-wise loop covers: 256 KiB of floats, a few microseconds of work. */
#define CPU_CHUNK_ELEMENTS ((uint64_t)1 << 16)
/* Most chunks of a reduction: bounds the partial sums in the workspace and the threads that can help. */
#define CPU_REDUCTION_CHUNKS ((uint64_t)64)

struct cpu_resource;
struct cpu_code_map;
struct halves;

struct operand {
	uint64_t elements, rows, bytes;
	uint32_t dim[OP_MAX_RANK];
	uint32_t rank, dtype, channels; /* channels: the last dimension, 1 for rank 0 */
};

#define DNN_WORKSPACE UINT32_MAX

/* One argument of a oneDNN execution: an operand, or a place in the workspace. */
struct dnn_argument {
	int argument;
	uint32_t operand; /* DNN_WORKSPACE: `offset` bytes into the workspace */
	uint64_t offset;
	const dnnl_memory_desc_t *layout;
};

#define DNN_ARGUMENTS 6
#define DNN_STAGES 6

struct dnn_stage {
	dnnl_primitive_t primitive;
	uint32_t arguments;
	struct dnn_argument argument[DNN_ARGUMENTS];
};

/* How a (rows, channels) matrix is cut; see columns.h. */
struct column_grid {
	uint64_t rows, chunk_rows, row_chunks;
	uint32_t channels, block, blocks;
};

typedef void kernel_body(const struct bound_instr *instr, uint64_t chunk);
typedef void kernel_finish(const struct bound_instr *instr);
struct cpu_state;
typedef enum tarn_status kernel_run(struct cpu_state *state, const struct bound_instr *instr);

struct kernel {
	struct kernel *next; /* of the same hash */
	uint32_t kind, inputs, outputs;
	struct op_attr attr;
	struct operand *operand; /* inputs, then outputs */
	const char *name;        /* of the first op compiled, for messages */
	struct kernel_info info;

	kernel_body *body;
	kernel_finish *finish;
	uint64_t chunks, chunk_items, items; /* items: elements, rows or pixels, as the body counts */
	struct column_grid grid;
	/* Numbers of 16 bits as floats: a thread's bytes in the workspace, from place_offset on. */
	uint64_t place_offset, place_bytes;
	kernel_body *float_body; /* widen.c */

	uint32_t stages;
	struct dnn_stage stage[DNN_STAGES];
	const struct cpu_code_map *code_map; /* of 8-bit state: of m, of v */
	const struct halves *halves;         /* halves.c */
	kernel_run *run;                     /* not NULL: uses body and stages in an order of its own */
};

struct bound_instr {
	const struct kernel *kernel;
	void **address; /* of operands */
	void *workspace;
	dnnl_exec_arg_t *argument[DNN_STAGES];
};

struct cpu_state {
	uint32_t threads;
	uint64_t workspace_cap;
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	struct cpu_resource *resources; /* oneDNN objects to destroy at close */
	struct kernel *kernels[256];
	unsigned char *arena;
	void *mapping; /* NULL when the caller owns the memory */
	size_t mapping_bytes;
	uint64_t arena_bytes;
	unsigned char *host; /* the region for offloaded tensors; NULL: there is none */
	uint64_t host_bytes;
	bool copying[DRIVER_COPY_SLOTS]; /* slots whose wait has not come yet */
};

typedef enum tarn_status kernel_prepare(struct device *device, struct kernel *kernel);

/* One for each subject: fills body/finish/chunks/workspace or the oneDNN stages, or says what it cannot do. */
kernel_prepare matmul_prepare, conv_prepare, batch_norm_prepare, layer_norm_prepare, pointwise_prepare, dropout_prepare,
	pool_prepare, loss_prepare, shape_ops_prepare, permute_prepare, reduce_prepare, update_prepare, softmax_prepare,
	attention_prepare, embedding_prepare, recurrent_prepare, linear_loss_prepare, group_norm_prepare,
	resample_prepare, weight_prepare, image_loss_prepare, cast_prepare, function_prepare, adafactor_prepare,
	adam_8bit_prepare;

/* widen.c: a prepared kernel whose loop is for floats, made to work on operands of 16 bits. */
#define WIDEN_OPERANDS 9u
bool widen_can(const struct kernel *kernel);
void widen_prepare(struct kernel *kernel, uint32_t threads);

/* Nanoseconds that a kernel is expected to take; a function of the signature and the number of threads. */
uint64_t cpu_cost_ns(const struct kernel *kernel, uint64_t flops, uint64_t traffic_bytes, uint32_t threads);

/* arena.c: one region with guard pages. */
enum tarn_status cpu_arena_reserve(struct cpu_state *state, uint64_t bytes, void *memory);
void cpu_arena_release(struct cpu_state *state);
uint64_t cpu_arena_touched(const struct cpu_state *state);

/*
 * offload.c: the host region. The arena is host memory as well, so a copy is a memcpy, done before the call returns:
 * what is gained is that the budget holds for the arena alone, and that plans with offload can be run and tested
 * without another device.
 */
enum tarn_status cpu_reserve_host(struct device *device, uint64_t bytes);
void cpu_release_host(struct cpu_state *state);
enum tarn_status cpu_store(struct device *device, uint64_t offset, uint64_t host_offset, uint64_t bytes, uint32_t slot);
enum tarn_status cpu_fetch(struct device *device, uint64_t offset, uint64_t host_offset, uint64_t bytes, uint32_t slot);
enum tarn_status cpu_wait(struct device *device, uint32_t slot);
uint64_t cpu_copy_bandwidth(const struct device *device);

static inline const struct operand *kernel_input(const struct kernel *kernel, uint32_t i)
{
	return &kernel->operand[i];
}

static inline const struct operand *kernel_output(const struct kernel *kernel, uint32_t i)
{
	return &kernel->operand[kernel->inputs + i];
}

static inline bool operand_is_narrow(const struct operand *operand)
{
	return operand->dtype == DTYPE_BF16 || operand->dtype == DTYPE_F16;
}

/* The type of the first operand of 16 bits: all of a kernel have the same (graph/storage.h). DTYPE_F32: there is none.
 */
static inline uint32_t kernel_storage(const struct kernel *kernel)
{
	for (uint32_t i = 0; i < kernel->inputs + kernel->outputs; i++)
		if (operand_is_narrow(&kernel->operand[i]))
			return kernel->operand[i].dtype;
	return DTYPE_F32;
}

static inline void *instr_output(const struct bound_instr *instr, uint32_t i)
{
	return instr->address[instr->kernel->inputs + i];
}

/* Cuts `items` into chunks of `chunk_items`. */
static inline void kernel_cut(struct kernel *kernel, kernel_body *body, uint64_t items, uint64_t chunk_items)
{
	kernel->body = body;
	kernel->items = items;
	kernel->chunk_items = chunk_items ? chunk_items : 1;
	kernel->chunks = (items + kernel->chunk_items - 1) / kernel->chunk_items;
}

struct range {
	uint64_t begin, end;
};

static inline struct range chunk_range(const struct kernel *kernel, uint64_t chunk, uint64_t items)
{
	uint64_t begin = chunk * kernel->chunk_items;
	uint64_t end = begin + kernel->chunk_items;
	return (struct range){ begin, end < items ? end : items };
}

/*
 * NONE, RELU and RELU6 as one clamp to [low, high]; NaN passes. The derivative is 1 strictly inside, else 0.
 */
struct clamp {
	float low, high;
};

static inline struct clamp activation_clamp(uint32_t activation)
{
	float infinity = __builtin_inff();
	if (activation == ACTIVATION_RELU)
		return (struct clamp){ 0.0f, infinity };
	if (activation == ACTIVATION_RELU6)
		return (struct clamp){ 0.0f, 6.0f };
	return (struct clamp){ -infinity, infinity };
}

static inline float clamp_apply(struct clamp clamp, float value)
{
	value = value < clamp.low ? clamp.low : value;
	return value > clamp.high ? clamp.high : value;
}

static inline float clamp_grad(struct clamp clamp, float at, float gradient)
{
	gradient = at > clamp.low ? gradient : 0.0f;
	return at < clamp.high ? gradient : 0.0f;
}

#endif
