/*
 * mutate.h - breaks a plan in every way that comes to mind and checks that the verifier notices.
 *
 * Every mutant is either refused by verify_plan or shown to be harmless by a replay that shares nothing with it: the
 * arena as an array of cells of TARN_ALIGNMENT bytes, each holding a 64-bit hash. An op hashes the cells it reads and
 * fills its outputs with hash(op, output, cell, what it read); overlaps that the op table does not allow destroy what
 * they touch. A mutant is harmless when it stays inside its bounds, every effect sees the same inputs, every persistent
 * tensor ends with the same contents, and the numbers of bytes and nanoseconds that the plan states are true: no bound
 * is above what the plan itself needs.
 */
#ifndef TARN_TESTS_MUTATE_H
#define TARN_TESTS_MUTATE_H

#include "plan/plan.h"

struct mutate_report {
	uint32_t mutants, refused, harmless;
	char wrong[512]; /* the first mutant that was accepted but does harm; "" when there is none */
};

/*
 * Tries all single mutations of the plan, or about `most` of them chosen by `seed`. The plan itself must be good. A
 * status only when memory runs out or the plan itself fails; look at report->wrong for the result.
 */
enum tarn_status mutate_plan(const struct plan *plan, uint64_t seed, uint32_t most, struct host_arena *scratch,
			     struct mutate_report *report);

/* What a program does, by the replay described above. */
struct replay_result {
	bool in_bounds;      /* all operands and workspaces aligned and inside the arena */
	uint64_t persistent; /* hash of the final contents of all persistent tensors */
	uint64_t effects;    /* hash of what each effect read, whatever the order of effects */
	uint64_t peak_bytes, height_bytes;
};
enum tarn_status mutate_replay(const struct plan *plan, const struct program *program, struct host_arena *scratch,
			       struct replay_result *result);

#endif
