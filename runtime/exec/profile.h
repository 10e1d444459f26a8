/*
 * profile.h - what each op of a step really costs: measured where it runs, between the ops it runs between.
 */
#ifndef TARN_EXEC_PROFILE_H
#define TARN_EXEC_PROFILE_H

#include "exec/exec.h"

/* The file's first line starts with this; then driver, threads and how it was measured. */
#define PROFILE_HEADER "# tarn costs 1"

struct profile_summary {
	uint32_t distinct_ops;
	uint64_t measured_ns, planned_ns; /* of one run of program `index`, recomputed ops included */
};

/*
 * Runs program `index` `rounds` times, timing every instruction, and writes one line a distinct op to `path`:
 * median nanoseconds, a tab, the op's signature (graph/signature.h). Where the host computes, time in which other
 * programs held its cores does not count. Replaced atomically. The contents of the arena are those of so many steps
 * afterwards. TARN_EIO, TARN_ENOMEM. `scratch` is given back.
 */
enum tarn_status profile_write(struct executor *executor, uint32_t index, uint32_t rounds, struct host_arena *scratch,
			       const char *path, struct profile_summary *summary);

#endif
