/*
 * exec.h - the flat loop: run the instructions of a plan on a device, allocating nothing.
 *
 * exec_open compiles and binds everything at boot; exec_run launches the instructions of one program in order. The plan
 * must have passed the verifier. Persistent tensors are reached by name through exec_find.
 */
#ifndef TARN_EXEC_EXEC_H
#define TARN_EXEC_EXEC_H

#include "driver.h"
#include "plan/plan.h"

struct replay;

struct executor {
	const struct plan *plan;
	struct device *device;
	struct bound_instr **instr[PLAN_MAX_PROGRAMS]; /* NULL for a copy */
	uint32_t *poison_first[PLAN_MAX_PROGRAMS];     /* debug: ranges that die after an instruction */
	uint64_t *poison_range[PLAN_MAX_PROGRAMS];
	struct replay *replay[PLAN_MAX_PROGRAMS]; /* a program recorded by the device; NULL: its ops are launched */
	bool poison;
};

/*
 * Reserves the arena (or uses `memory`), compiles and binds. `device` is open. TARN_EVERIFY when a kernel of this
 * device needs more workspace than the plan gives it (a plan made for other threads or library versions): says op and
 * both sizes.
 */
enum tarn_status exec_open(struct executor *executor, const struct plan *plan, struct device *device, void *memory,
			   bool poison, struct host_arena *arena);

/*
 * Boot: runs every program once on zeros and leaves the arena's contents undefined. Libraries do some things at first
 * use (they start threads, generate code, map memory); after this nothing is used for the first time in a step.
 * `record`: a device that can records each program then, to replay it with one call. Where it cannot, the ops are
 * launched one by one, and *unrecorded says why ("": all recorded, or not asked to); the sentence lives in the arena.
 */
enum tarn_status exec_rehearse(struct executor *executor, bool record, struct host_arena *arena,
			       const char **unrecorded);

/* Initial values of parameters and state, from their init fields: `hash` as in hash_numbers.h, else Philox by seed. */
enum tarn_status exec_initialize(struct executor *executor, bool hash, uint64_t seed, struct host_arena *scratch);

/* Launches one instruction of a program, or starts or waits for a copy. */
enum tarn_status exec_launch(struct executor *executor, uint32_t index, uint32_t number);

/* Runs program `index` once and waits for it. */
enum tarn_status exec_run(struct executor *executor, uint32_t index);

/* Runs the instructions [first, end) of a program that is not recorded, and waits for them. */
enum tarn_status exec_run_part(struct executor *executor, uint32_t index, uint32_t first, uint32_t end);

/* Persistent tensor by name; NULL when there is none. */
const struct persistent *exec_find(const struct executor *executor, const char *name);
enum tarn_status exec_write(struct executor *executor, const char *name, const void *source, uint64_t bytes);
enum tarn_status exec_read(struct executor *executor, const char *name, void *target, uint64_t bytes);

#endif
