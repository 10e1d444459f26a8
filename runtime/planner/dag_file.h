/*
 * dag_file.h - an abstract training step as JSON -> the planner's problem; a schedule as text.
 *
 * The file is a map with `nodes` and `targets`. A node has `id`, `kind` (`source` or `op`), `time` (a number >= 0),
 * `bytes`, optionally `workspace`, `inputs` (ids of earlier nodes) and `phase` (`fwd`, `bwd`; a hint); no input
 * is listed twice. Sources are always resident: they are no values of the problem, their bytes are counted apart.
 *
 * Three more keys of an op say what a network needs beyond that; whoever ignores them reads an easier problem:
 *   - `once: true`: it runs once (an effect; the samples it takes in cannot be had again);
 *   - `after: [ids of ops]`: all their runs come before its first (an update, and what reads the parameter);
 *   - `with: id`: no op by itself but another output of that op, whose nodes stand just before it; its time is 0.
 *
 * The schedule is a list of actions, one a line: `c ID` computes, `f ID` frees. Nothing happens in place, nothing
 * aliases: the bytes in use while an op is computed are those of all that is resident, its output and its workspace.
 */
#ifndef TARN_PLANNER_DAG_FILE_H
#define TARN_PLANNER_DAG_FILE_H

#include "planner/schedule.h"

struct dag {
	struct problem problem;
	const char **name;     /* ids of the nodes that are no sources, in the file's order */
	uint32_t *first_name;  /* [problem.ops + 1]: where the ids of an op's nodes start in name[] */
	uint32_t *value;       /* of each node in name[], VALUE_NONE for one that nobody reads */
	uint64_t source_bytes; /* of all sources: what a budget holds beside the problem's values */
	double time_unit;      /* a node's time is cost_ns times this; 1 when all times are whole numbers */
};

/* Reads the file. TARN_EIO when it cannot be read; TARN_EINVAL "file:line:column: ..." when it is wrong. */
enum tarn_status dag_load(const char *path, struct host_arena *arena, struct dag *out);

/* Writes the schedule's actions. TARN_EIO when it cannot be written. */
enum tarn_status dag_write_schedule(const struct dag *dag, const struct schedule *schedule, const char *path);

#endif
