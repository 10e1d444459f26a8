/*
 * certificate.h - what a program states about itself beside its bytes: time and bounds. Private to verify/.
 *
 *   - time_ns is what its instructions take on two streams, ops on one, copies at the plan's bandwidth on another, in
 * the order in which they start; without copies the sum of the costs. base_time_ns is that of its ops once each,
 * recomputed_ops what runs more often;
 *   - peak_bound_bytes is the persistent part and the largest op that must run: its inputs, outputs and workspace;
 *   - time_bound_ns is proved by the weights in the plan: the sum of plan/proof.h is formed anew, inequality by
 * inequality, each of which must be one of this program's graph. Where no weights stand it is the time of each needed
 * op once; so it must be in a program with copies, where the inequalities do not hold. All of it is relative to the
 * costs and workspaces that the plan states, which only the device that made it knows.
 */
#ifndef TARN_VERIFY_CERTIFICATE_H
#define TARN_VERIFY_CERTIFICATE_H

#include "verify/replay.h"

/* A program whose instructions were replayed. TARN_EVERIFY with what is stated and what is true. */
enum tarn_status verify_certificate(const struct subject *subject, struct host_arena *scratch);

/* What both files of the certificate ask about a program's ops. */
struct needs {
	const struct subject *subject;
	const struct graph *graph;
	bool *needed;        /* [ops]: an effect, or an op that makes what a needed one reads */
	uint64_t *workspace; /* [ops]: the least that an instruction of the op has; UINT64_MAX: it never runs */
	uint64_t base_ns;    /* of needed ops, once each */
	uint64_t divisor_ns; /* of all their costs */
};

/* The op that makes input k of `op`; OP_NONE when it is persistent. */
uint32_t needs_producer(const struct needs *needs, uint32_t op, uint32_t k);

/* Padded bytes of output k in memory of its own; 0 for a version of something persistent. */
uint64_t needs_output_bytes(const struct needs *needs, uint32_t op, uint32_t k);

/* Whether output 0 may lie in the place of some transient input (only of one as large: `same_size`). */
bool needs_in_place(const struct needs *needs, uint32_t op, bool same_size);

/* proof.c: the program's time_bound_ns by its proof. */
enum tarn_status verify_time_bound(const struct needs *needs, struct host_arena *scratch);

#endif
