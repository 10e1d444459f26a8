/*
 * plan.h - the plan: instructions and offsets for every program of a run, as one flat file without pointers.
 *
 * The programs of a run share one arena: a training step, the training step of the last partial batch, evaluation, and
 * evaluation of its last partial batch. With several shapes in one run (data.shapes) there is a training step for each:
 * number 0 is the largest, which the last partial batch and evaluation have too, and program 0 is always its training
 * step. Persistent tensors have one offset for all programs, below `persistent_bytes`, and all but staging slots one
 * shape; of a slot, as large as the largest shape needs, a program uses the first bytes. Transient operands lie above,
 * each program in its own way. A snapshot knows nothing of shapes.
 *
 * Most instructions run an op. With offload, others copy transient tensors to a region of host memory and back, beside
 * the ops: a copy is started, and later waited for. Between a store and its wait the source may be read, not written;
 * between a fetch and its wait the target may be neither.
 *
 * File: struct plan_header; then sections, each 64-byte aligned, zero padded, little-endian, in the order of enum
 * plan_section; all counts and offsets are checked when it is loaded, nothing is trusted. A plan file can be mapped
 * and run without the planner and without YAML. Graph arrays are stored as the structs of graph.h.
 *
 * The verifier checks the certificate of each program (verify/certificate.h): peak, height, time and both bounds.
 *
 * file_checksum = XXH64 (seed 0) of everything after the header; plan_checksum = XXH64 of the program sections and
 * persistent table only (two plans with the same instructions and offsets have the same plan_checksum, whatever budget
 * or name they were made for).
 */
#ifndef TARN_PLAN_PLAN_H
#define TARN_PLAN_PLAN_H

#include "graph/graph.h"
#include "plan/proof.h"

#define PLAN_MAGIC "TARNPLAN"
#define PLAN_VERSION 3u
/* Shapes of one run (data.shapes), and a program for each beside those of the last batch and of evaluation. */
#define PLAN_MAX_SHAPES 8u
#define PLAN_MAX_PROGRAMS (PLAN_MAX_SHAPES + 3u)
/* Copies that may be in flight at the same time: what a driver keeps an event for (DRIVER_COPY_SLOTS). */
#define PLAN_COPY_SLOTS 64u

enum program_kind { PROGRAM_TRAIN, PROGRAM_TRAIN_LAST, PROGRAM_EVALUATE, PROGRAM_EVALUATE_LAST, PROGRAM_KINDS };

enum instruction_kind {
	INSTRUCTION_RUN,        /* an op */
	INSTRUCTION_STORE,      /* starts a copy from the arena to the host region */
	INSTRUCTION_STORE_WAIT, /* it is complete: its place in the arena may be reused */
	INSTRUCTION_FETCH,      /* starts a copy from the host region to a place in the arena where nothing lives */
	INSTRUCTION_FETCH_WAIT, /* it is complete: the tensor may be read */
	INSTRUCTION_KINDS
};

/*
 * A run of an op: operand k (inputs, then outputs, as in the graph) lies at operand_offset[first_operand + k]. Or a
 * copy of a tensor, or its wait, which repeats all fields of the copy. Fields of the other sort are zero.
 */
struct instruction {
	uint32_t kind; /* enum instruction_kind */
	uint32_t op;
	uint32_t first_operand;
	uint32_t tensor;           /* transient, with memory of its own */
	uint64_t workspace_offset; /* bytes in the arena; 0 with workspace_bytes 0 */
	uint64_t workspace_bytes;
	uint64_t offset, host_offset; /* bytes in the arena, in the host region */
	uint64_t bytes;               /* of the tensor, without padding */
	uint32_t slot;                /* names the copy while it is in flight; below PLAN_COPY_SLOTS */
	uint32_t reserved;
};

/* A tensor that lives for the whole run. */
struct persistent {
	uint64_t offset, bytes; /* bytes: the largest over the programs, without padding */
	uint32_t name;          /* in the text of program 0's graph */
	uint32_t tensor;        /* id in program 0's graph */
	uint8_t role, dtype, reserved[6];
};

struct program {
	uint32_t kind; /* enum program_kind */
	uint32_t batch;
	struct graph graph; /* arena NULL when mapped from a file */
	struct instruction *instruction;
	uint64_t *operand_offset;
	uint32_t instructions;
	uint32_t operand_offsets;
	uint64_t peak_bytes;            /* persistent + largest sum of live transient bytes, padding included */
	uint64_t height_bytes;          /* persistent + packed height */
	uint64_t time_ns, base_time_ns; /* planned time of a step; of every op once */
	uint64_t none_peak_bytes;       /* persistent + least peak found with each op once */
	/*
	 * The certificate. No schedule within the budget takes less time, by the costs and workspaces that stand here,
	 * and none has a lower peak. `proof` is why; nothing is needed where the bound is the time of each op once.
	 */
	uint64_t time_bound_ns, peak_bound_bytes;
	uint64_t *cost_ns;        /* [graph.ops]: planned time of one run; 0 for ops that never run */
	struct proof_term *proof; /* ops are the graph's */
	uint32_t proof_terms;
	uint32_t recomputed_ops;
	uint32_t shape; /* of the samples: 0 the largest; below PLAN_MAX_SHAPES, other than 0 only for PROGRAM_TRAIN */
};

struct plan {
	struct program program[PLAN_MAX_PROGRAMS];
	uint32_t programs;
	struct persistent *persistent;
	uint32_t persistents;
	const char *config_lines; /* config_to_lines() */
	const char *driver;       /* "cpu" */
	/* Device and library versions that it was made for, where they matter; "" or NULL where not. Lies behind
	 * driver's zero. */
	const char *device;
	uint32_t threads; /* the workspaces were sized for */
	uint32_t alignment;
	uint64_t budget_bytes; /* of the arena: memory.budget, less what the device holds beside it; UINT64_MAX:
				  unlimited */
	uint64_t min_budget_bytes;
	uint64_t persistent_bytes; /* bottom part of the arena */
	uint64_t arena_bytes;      /* largest height of all programs */
	uint64_t host_bytes;       /* size of the host region; 0: nothing is offloaded */
	uint64_t copy_bandwidth;   /* bytes a second that copies were planned with; 0 with host_bytes 0 */
	uint64_t plan_checksum;    /* filled by plan_seal and plan_load */
	uint32_t strategy;
	/* Owned by plan_load: the mapping that everything above points into. */
	void *mapping;
	size_t mapping_bytes;
};

/* Computes plan_checksum. */
void plan_seal(struct plan *plan);

/* Replaces `path` atomically (base/atomic_file.h): a half-written plan is never loadable under it. TARN_EIO. */
enum tarn_status plan_save(const struct plan *plan, const char *path);

/*
 * Maps the file and points *plan into it. Everything is checked before it is used: magic, version, limits of
 * this build, checksum, section bounds, counts, ids, zero-terminated names, shapes by the shape rules, offsets inside
 * the arena, alignment. TARN_EIO or TARN_EFORMAT with a sentence; never a crash, whatever the file holds.
 */
enum tarn_status plan_load(const char *path, struct host_arena *arena, struct plan *plan);
void plan_close(struct plan *plan);

/* Maximum over programs. */
uint64_t plan_peak_bytes(const struct plan *plan);
uint64_t plan_none_peak_bytes(const struct plan *plan);
/* Program by kind, for the largest shape; NULL when the plan has none. */
const struct program *plan_program(const struct plan *plan, enum program_kind kind);
uint64_t plan_parameter_count(const struct plan *plan);
/* Bytes that the copies of one kind (STORE or FETCH) move in a run of the program. */
uint64_t program_copied_bytes(const struct program *program, enum instruction_kind kind);
const char *instruction_name(uint32_t kind);
const char *program_name(uint32_t kind);

#endif
