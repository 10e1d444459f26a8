/*
 * cost_table.h - measured costs of ops, read from the file that `tarn calibrate` wrote (exec/profile.h).
 *
 * Costs decide which of two plans is faster, never what a plan computes.
 */
#ifndef TARN_PLANNER_COST_TABLE_H
#define TARN_PLANNER_COST_TABLE_H

#include "graph/graph.h"

struct cost_entry {
	const char *signature;
	uint64_t ns;
};

struct cost_table {
	struct cost_entry *entry; /* sorted by signature */
	uint32_t entries;
};

/*
 * Reads the file. TARN_EIO; TARN_EFORMAT with "file:line: "; TARN_EINVAL when it was measured with another driver or
 * another number of threads.
 */
enum tarn_status cost_table_load(const char *path, const char *driver, uint32_t threads, struct host_arena *arena,
				 struct cost_table *table);

/* The op's measured nanoseconds; false when it was never measured. */
bool cost_table_find(const struct cost_table *table, const struct graph *graph, uint32_t op, uint64_t *ns);

#endif
