/*
 * dag_dump.h - a network's training problem as JSON, in the format of dag_file.h, so that planners can be compared on
 * it.
 *
 * Persistent tensors are sources, padded as in the arena: a budget means the same for the network and for the graph.
 * Times are nanoseconds. Read back it is the problem it was written from, except that nothing may happen in place,
 * which the format cannot say.
 */
#ifndef TARN_PLANNER_DAG_DUMP_H
#define TARN_PLANNER_DAG_DUMP_H

#include "plan/plan.h"
#include "planner/graph_problem.h"

/* `problem` is that of the program's graph. TARN_EIO when the file cannot be written. `scratch` is given back. */
enum tarn_status dag_dump(const struct plan *plan, const struct program *program, const struct graph_problem *problem,
			  struct host_arena *scratch, const char *path);

#endif
