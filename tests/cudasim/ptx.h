/*
 * ptx.h - the PTX text of a module, parsed and decoded for a warp at a time.
 *
 * Input: what nvcc writes for plain kernels (.version 6.3 and later, any target). Output: for each .entry an array of
 * instructions whose operands are numbers of 32-lane registers.
 *
 * Invariants
 *   - Every operand is a register: immediates, symbols and special registers (%tid.x ...) get registers of their own,
 *     filled once when a kernel, a block or a warp starts.
 *   - Register 0 is a predicate that is true in all lanes; the guard of an unguarded instruction.
 *   - What lies outside the subset (calls, textures, matrix units, floating-point atomics, asynchronous copies) is
 *     refused when the module is loaded, with the line: nothing is executed approximately.
 *
 * The language: NVIDIA, "Parallel Thread Execution ISA", chapters 4 (syntax), 7 and 9 (instructions).
 */
#ifndef CUDASIM_PTX_H
#define CUDASIM_PTX_H

#include "pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WARP_LANES 32u
#define ALL_LANES UINT32_MAX

/* One register of a warp. Predicates are a mask, bit i for lane i; 8- and 16-bit values lie in 32-bit lanes. */
union lanes {
	uint32_t mask;
	uint32_t u32[WARP_LANES];
	int32_t s32[WARP_LANES];
	float f32[WARP_LANES];
	uint64_t u64[WARP_LANES];
	int64_t s64[WARP_LANES];
	double f64[WARP_LANES];
};

enum ptx_type { /* .b types count as .u */
		PTX_NO_TYPE,
		PTX_PRED,
		PTX_U8,
		PTX_S8,
		PTX_U16,
		PTX_S16,
		PTX_U32,
		PTX_S32,
		PTX_U64,
		PTX_S64,
		PTX_F16,
		PTX_BF16,
		PTX_F32,
		PTX_F64,
		PTX_TYPES
};

enum ptx_space { PTX_GENERIC, PTX_GLOBAL, PTX_SHARED, PTX_PARAM, PTX_LOCAL, PTX_CONST };

/* NEAREST_INTEGER and the like round to an integral value (cvt.rni). */
enum ptx_rounding { PTX_NEAREST, PTX_ZERO, PTX_DOWN, PTX_UP };

enum ptx_comparison { PTX_EQ, PTX_NE, PTX_LT, PTX_LE, PTX_GT, PTX_GE, PTX_NUM, PTX_NAN };

enum ptx_combine { PTX_REPLACE, PTX_AND, PTX_OR, PTX_XOR };

/* What an instruction does to the order of execution. */
enum ptx_flow { PTX_PLAIN, PTX_BRANCH, PTX_EXIT, PTX_BARRIER, PTX_CONVERGE };

struct warp;
struct ptx_instruction;
/* Executes one instruction for the lanes of `mask`; an error is noted with warp_fail(). */
typedef void ptx_operation(struct warp *warp, const struct ptx_instruction *instruction, uint32_t mask);

struct ptx_instruction {
	ptx_operation *run;
	uint32_t guard;          /* predicate register */
	uint32_t guard_inverted; /* ALL_LANES for @!p, else 0 */
	uint32_t target[4];      /* registers written; a vector load has several, setp %p|%q and shfl two */
	uint32_t source[5];      /* registers read; of a memory access source[4] is the address */
	uint32_t branch_target;  /* index of an instruction */
	int64_t displacement;    /* bytes added to the address */
	uint8_t flow;
	uint8_t type; /* enum ptx_type of the first type in the mnemonic */
	uint8_t from; /* of the second one: cvt, set, slct */
	uint8_t comparison;
	uint8_t combine;
	uint8_t rounding;
	uint8_t source_inverted; /* bit i: predicate source[i] is negated */
	uint8_t space;
	uint8_t elements;  /* of a vector access or a packing move: 1, 2 or 4 */
	uint8_t bytes;     /* of one element */
	bool wide_address; /* the address register has 64-bit lanes */
	bool unordered;    /* comparison that is also true for NaN */
	bool flush;        /* .ftz: subnormal inputs and results count as zero */
	bool saturate;
	bool to_integral; /* cvt.rni, .rzi ... */
	bool second_target;
	bool set_as_float;    /* set.*.f32 writes 1.0 */
	uint32_t line;        /* in the PTX text */
	uint32_t source_line; /* in the .cu file when it was compiled with -lineinfo, else 0 */
	const char *mnemonic;
};

struct ptx_constant { /* a register with the same value in all lanes */
	uint32_t reg;
	uint8_t lane_bytes; /* 4 or 8; 0: predicate */
	uint64_t value;
};

enum ptx_special {
	PTX_TID_X,
	PTX_TID_Y,
	PTX_TID_Z,
	PTX_NTID_X,
	PTX_NTID_Y,
	PTX_NTID_Z,
	PTX_CTAID_X,
	PTX_CTAID_Y,
	PTX_CTAID_Z,
	PTX_NCTAID_X,
	PTX_NCTAID_Y,
	PTX_NCTAID_Z,
	PTX_LANEID,
	PTX_WARPID,
	PTX_NWARPID,
	PTX_LANEMASK_EQ,
	PTX_LANEMASK_LT,
	PTX_LANEMASK_LE,
	PTX_LANEMASK_GT,
	PTX_LANEMASK_GE,
	PTX_SPECIALS
};

struct ptx_parameter {
	uint32_t offset;
	uint32_t bytes;
};

struct ptx_kernel {
	const char *name;
	struct ptx_instruction *code;
	uint32_t instructions;
	uint32_t registers; /* of a warp, constants and specials included */
	struct ptx_constant *constant;
	uint32_t constants;
	uint32_t special[PTX_SPECIALS]; /* register, 0 when the kernel does not read it */
	struct ptx_parameter *parameter;
	uint32_t parameters;
	uint32_t parameter_bytes;
	uint32_t shared_bytes; /* static */
	uint32_t local_bytes;  /* a thread */
	uint32_t max_threads;  /* .maxntid, else 1024 */
	bool loaded;           /* its code has arrived on the device (lazy loading) */
};

struct ptx_module {
	struct pool pool;
	struct ptx_kernel *kernel;
	uint32_t kernels;
	uint8_t *image; /* module variables (.global and .const), to be placed at the address given to ptx_parse() */
	uint32_t image_bytes;
	uint64_t image_address;
	uint32_t version; /* 90 for .version 9.0 */
	uint32_t target;  /* 75 for .target sm_75 */
};

/*
 * Parses `text`; module variables will live at image_address. False: *message has "line N: ..." and nothing is held.
 * The module is freed by ptx_free(), whatever came of it.
 */
bool ptx_parse(struct ptx_module *module, const char *text, uint64_t image_address, char *message,
	       size_t message_bytes);
void ptx_free(struct ptx_module *module);
struct ptx_kernel *ptx_find(const struct ptx_module *module, const char *name);

/* Bytes of one value in memory, and of one lane in a register (4 or 8; 0 for predicates). */
uint32_t ptx_type_bytes(enum ptx_type type);
uint32_t ptx_lane_bytes(enum ptx_type type);

#endif
