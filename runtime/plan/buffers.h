/*
 * buffers.h - a program's memory over time, derived from its instructions: what lies where, from when to when.
 *
 * For drawings and listings. A transient buffer lives from the instruction that writes it to the last one that reads
 * it or waits for its store; one that takes over the place of an input begins where that ends. Sizes are bytes, padded
 * to TARN_ALIGNMENT. Reads that find nothing (the plan was not verified) are passed over.
 */
#ifndef TARN_PLAN_BUFFERS_H
#define TARN_PLAN_BUFFERS_H

#include "plan/plan.h"

enum plan_buffer_kind {
	BUFFER_PERSISTENT,
	BUFFER_ACTIVATION,
	BUFFER_GRADIENT,
	BUFFER_RECOMPUTED, /* made by an op that had run before */
	BUFFER_FETCHED,    /* brought back from the host region */
	BUFFER_WORKSPACE,
	BUFFER_KINDS
};

struct plan_buffer {
	uint64_t offset, bytes;
	uint32_t first, end; /* instructions, half-open */
	uint32_t tensor; /* in the program's graph; of a persistent one in program 0's; TENSOR_NONE for a workspace */
	uint32_t op;     /* that writes it; OP_NONE for a persistent tensor; of a fetched one, that wrote it first */
	uint32_t kind;
};

struct plan_buffers {
	struct plan_buffer *buffer; /* persistent tensors first, then in the order of instructions */
	uint32_t count;
	uint64_t *live_bytes; /* [instructions]: persistent part included */
	uint32_t peak_instruction;
	uint64_t peak_bytes;
	uint32_t recomputed; /* instructions that run an op again */
};

enum tarn_status plan_buffers_find(const struct plan *plan, const struct program *program, struct host_arena *arena,
				   struct plan_buffers *out);

#endif
