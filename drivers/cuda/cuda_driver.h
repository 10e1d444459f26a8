/*
 * cuda_driver.h - what the files of the CUDA driver share; the kernels and their geometry are behind cuda_launch.h.
 *
 *   cuda.c             the table of functions: open, compile, bind, launch
 *   cuda_context.c     boot and end of the device, in the order that the ledger measures
 *   cuda_copy.c        copies between host and arena, offload
 *   cuda_capture.c     the step as one CUDA graph
 *   cuda_ledger.c      where the device's memory goes
 *   cuda_describe.c    the device in figures, what an op costs on it, and what `tarn info` tells
 *   cuda_status.c      errors of three libraries as sentences
 *   cuda_watch.c       what a checking device is told
 *   library_*.c        the libraries: opening, matrix products, convolutions, the memory of processes
 *
 * All calls come from the thread that opened the device. Everything that is made here is made before freeze.
 */
#ifndef TARN_CUDA_DRIVER_H
#define TARN_CUDA_DRIVER_H

#include "cuda/cuda_launch.h"
#include "cuda/kernels/parameters.h"
#include "cuda/library.h"
#include "driver.h"

/* Pinned memory through which the host writes and reads the arena. */
#define CUDA_RING_SLOTS 4u
#define CUDA_RING_BYTES ((uint64_t)256 << 10)
/* cuMemAlloc hands out memory in multiples of this many bytes. */
#define CUDA_GRANULE ((uint64_t)2 << 20)
#define CUDA_KERNEL_TABLE 256u

enum ledger_stage {
	LEDGER_CONTEXT,    /* everything that was in use once the context existed */
	LEDGER_STREAMS,    /* limits, streams, events, pinned memory */
	LEDGER_MODULE,     /* own kernels */
	LEDGER_HANDLES,    /* cuBLASLt and cuDNN */
	LEDGER_OPERATIONS, /* choosing kernels for every op */
	LEDGER_ARENA,
	LEDGER_WARM_UP, /* code that libraries load at first use */
	LEDGER_GRAPHS,  /* recorded steps */
	LEDGER_STAGES
};

struct ledger {
	uint64_t bytes[LEDGER_STAGES];
	uint64_t free_bytes; /* at the last measurement */
	uint64_t frozen_free_bytes;
	uint64_t frozen_own_bytes; /* of this process alone; 0: unknown */
	bool frozen;
	bool shared; /* another process was seen to allocate: only this one's own bytes are compared */
};

struct matmul;      /* library_cublaslt.c */
struct convolution; /* library_cudnn.c */

/* A kernel, or a matrix product by cuBLASLt, which takes the same parameter. */
struct prepared_launch {
	void *function;
	uint32_t grid[3], block[3], shared_bytes;
	void *parameter;
	const struct matmul *matmul;
	struct prepared_launch *next;
};

/* Calls of a device that checks accesses; NULL on a real one. */
struct watch_range {
	uint64_t address, bytes;
	unsigned use;
};
struct watch_calls {
	int (*begin)(void *stream, const char *name, const struct watch_range *range, uint32_t ranges);
	int (*end)(void *stream);
	int (*mark_dead)(void *stream, uint64_t address, uint64_t bytes);
	void (*freeze)(int frozen);
};

struct kernel {
	const char *name; /* of the first op that asked for it */
	const char *signature;
	struct kernel_info info;
	struct matmul *matmuls;          /* the products of different shapes that were asked of cuBLASLt */
	struct convolution *convolution; /* NULL: own kernels */
	struct kernel *next;
};

struct bound_instr {
	const struct kernel *kernel;
	const char *name;  /* "conv2d \"block1/conv\"" */
	uint64_t *address; /* of each operand */
	uint64_t output;   /* of the first output */
	uint64_t workspace, library_workspace;
	struct prepared_launch *launch, *last_launch; /* what follows a convolution by cuDNN; all of any other op */
	void *pack;                                   /* cuDNN's variant pack */
	struct watch_range *range;                    /* operands and workspace, for a device that checks */
	uint32_t ranges;
	struct bound_instr *next;
};

struct cuda_state {
	struct libraries libraries;
	struct watch_calls watch;
	struct host_arena *host;
	struct device_description description;
	uint64_t workspace_cap, reserve_bytes;
	bool described; /* there is no device: only planning */
	bool tf32;
	bool lost; /* a sticky error: no further call can succeed */
	int device;
	void *context, *compute, *copy;
	void *module[STORED_KINDS];    /* loaded at boot, and when an op is the first that is stored so */
	void **function[STORED_KINDS]; /* one for each of cuda_kernel_name */
	void *blas, *dnn, *dnn_device;
	void *nvml_device;
	bool nvml_open;
	struct {
		void *memory, *event;
		bool busy;
	} ring[CUDA_RING_SLOTS];
	uint32_t ring_next;
	unsigned char *host_region;
	uint64_t host_bytes;
	struct {
		void *ready, *done; /* made when the host region is reserved */
	} slot[DRIVER_COPY_SLOTS];
	bool capturing;
	struct replay *replays;
	uint64_t arena, arena_bytes;
	struct ledger ledger;
	struct kernel *kernels[CUDA_KERNEL_TABLE];
	struct bound_instr *instrs;
};

/* ---- cuda_status.c: 0 is TARN_OK; anything else a sentence with call, error name and its text. */
enum tarn_status cuda_check(struct cuda_state *state, int error, const char *call);
enum tarn_status cublaslt_check(struct cuda_state *state, int error, const char *call);
enum tarn_status cudnn_check(struct cuda_state *state, int error, const char *call);
#define CU(state, name, ...) cuda_check((state), (state)->libraries.cu.name(__VA_ARGS__), #name)
#define BLAS(state, name, ...) cublaslt_check((state), (state)->libraries.blas.name(__VA_ARGS__), #name)
#define DNN(state, name, ...) cudnn_check((state), (state)->libraries.dnn.name(__VA_ARGS__), #name)

/* ---- cuda_context.c */
enum tarn_status cuda_boot(struct cuda_state *state);
/* Gives back all that boot, compile, bind, reserve and capture made; safe after a failure anywhere. */
void cuda_shut_down(struct cuda_state *state);
/* The module of own kernels that store large tensors so, if it is not there yet. */
enum tarn_status cuda_load_kernels(struct cuda_state *state, enum storage_kind stored);
/* The function of an own kernel, by its name in cuda_kernel_name; NULL after tarn_fail when there is none. */
void *cuda_function(const struct cuda_state *state, const char *name, enum storage_kind stored);

/* ---- cuda_copy.c */
enum tarn_status cuda_copy_open(struct cuda_state *state);
void cuda_copy_close(struct cuda_state *state);
enum tarn_status cuda_write(struct device *device, uint64_t offset, const void *source, uint64_t bytes);
enum tarn_status cuda_read(struct device *device, uint64_t offset, void *target, uint64_t bytes);
enum tarn_status cuda_poison(struct device *device, uint64_t offset, uint64_t bytes);
enum tarn_status cuda_reserve_host(struct device *device, uint64_t bytes);
enum tarn_status cuda_store(struct device *device, uint64_t offset, uint64_t host_offset, uint64_t bytes,
			    uint32_t slot);
enum tarn_status cuda_fetch(struct device *device, uint64_t offset, uint64_t host_offset, uint64_t bytes,
			    uint32_t slot);
enum tarn_status cuda_wait(struct device *device, uint32_t slot);
uint64_t cuda_touched_bytes(struct device *device);

/* ---- cuda_capture.c */
enum tarn_status cuda_capture_begin(struct device *device);
enum tarn_status cuda_capture_end(struct device *device, struct replay **replay);
enum tarn_status cuda_replay(struct device *device, struct replay *replay);
void cuda_capture_close(struct cuda_state *state);

/* ---- cuda_ledger.c */
/* What was taken since the last measurement goes to this stage. */
enum tarn_status ledger_measure(struct cuda_state *state, enum ledger_stage stage);
enum tarn_status cuda_overhead(struct device *device, struct device_overhead *overhead);
enum tarn_status cuda_freeze(struct device *device, uint64_t budget);
void cuda_ledger(const struct device *device, struct device_ledger *ledger);
/*
 * In debug builds, once frozen: TARN_EINTERNAL when the memory in use has changed, unless NVML says that this process
 * has what it had.
 */
enum tarn_status ledger_check(struct cuda_state *state);

/* ---- cuda_describe.c */
enum tarn_status cuda_describe(struct cuda_state *state);
/* Device and library versions as one text, of which the choice of kernels is a function. */
enum tarn_status cuda_identity(struct cuda_state *state, const char **identity);
/* A roofline: the larger of arithmetic at the device's peak and traffic at its memory's peak, and a launch. */
uint64_t cuda_cost_ns(const struct cuda_state *state, const struct graph *graph, uint32_t op);
enum tarn_status cuda_probe(void);
void cuda_info(driver_tell *tell, void *context);

/* ---- cuda_watch.c: all of it does nothing on a device that does not check. */
void watch_open(struct cuda_state *state);
enum tarn_status watch_bind(struct cuda_state *state, const struct graph *graph, uint32_t op,
			    struct bound_instr *instr);
enum tarn_status watch_begin(struct cuda_state *state, const struct bound_instr *instr);
/* Copies to the host from here to watch_end() may read dead bytes too. */
enum tarn_status watch_raw_begin(struct cuda_state *state);
enum tarn_status watch_end(struct cuda_state *state);
/* The end of an op that failed, whose sentence is kept. */
void watch_abandon(struct cuda_state *state);
enum tarn_status watch_dead(struct cuda_state *state, uint64_t address, uint64_t bytes);
void watch_freeze(struct cuda_state *state, bool frozen);

/* ---- library_cublaslt.c */
/* Asks for an algorithm for each product of the list, and adds the largest workspace of them to the kernel's. */
enum tarn_status matmul_compile(struct cuda_state *state, const struct cuda_launch_list *list, struct kernel *kernel);
/* NULL: cuBLASLt does not do this product, an own kernel does. */
const struct matmul *matmul_find(const struct kernel *kernel, const struct matmul_parameters *product);
enum tarn_status matmul_run(struct cuda_state *state, const struct matmul *matmul,
			    const struct matmul_parameters *product, uint64_t workspace);
void matmul_destroy(struct cuda_state *state, struct kernel *kernel);

/* ---- library_nvml.c */
/* Without the library, or where it fails, nvml_own_bytes() knows nothing; a run does not need it. */
void nvml_open(struct cuda_state *state);
void nvml_close(struct cuda_state *state);
/* Memory of the device that this process has; false: not known. */
bool nvml_own_bytes(const struct cuda_state *state, uint64_t *bytes);

/* ---- library_cudnn.c */
enum tarn_status convolution_compile(struct cuda_state *state, const struct graph *graph, uint32_t op,
				     struct kernel *kernel);
enum tarn_status convolution_bind(struct cuda_state *state, struct bound_instr *instr);
enum tarn_status convolution_run(struct cuda_state *state, const struct bound_instr *instr);
void convolution_destroy(struct cuda_state *state, struct convolution *convolution);

#endif
