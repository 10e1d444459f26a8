/*
 * graph_problem.h - training graph -> the planner's problem: values, ops, bytes, nanoseconds.
 *
 * Each transient storage root becomes a value; views belong to their root, persistent tensors to nobody. RESHAPE ops
 * and ops that no effect needs (directly or through others) do not appear in the problem.
 */
#ifndef TARN_PLANNER_GRAPH_PROBLEM_H
#define TARN_PLANNER_GRAPH_PROBLEM_H

#include "config/config.h"
#include "driver.h"
#include "planner/problem.h"

struct graph_problem {
	struct problem problem;
	uint32_t *graph_op; /* [problem.ops]: op of the graph */
	/*
	 * [graph.operands]: which operand of its problem op (inputs, then outputs) a graph operand is; UINT32_MAX when
	 * it is persistent or its op is not part of the problem.
	 */
	uint32_t *operand;
	uint32_t *value_of; /* [graph.tensors]: value, or VALUE_NONE */
};

/* `info`: what the driver said of each op of the graph; entries of views and ops left out are not read. */
enum tarn_status graph_problem_build(const struct graph *graph, const struct kernel_info *info,
				     struct host_arena *arena, struct graph_problem *out);

/* needed[op] != 0 for ops that some effect needs. Views count when their reader does. */
enum tarn_status graph_needed_ops(const struct graph *graph, struct host_arena *arena, uint8_t **needed);

/*
 * keep[value] for the patterns of memory.keep (tensor names, op names or globs of them; forward values only).
 * TARN_EINVAL names a pattern that matches nothing.
 */
enum tarn_status graph_problem_keep(const struct graph *graph, const struct graph_problem *problem,
				    const struct text_list *pattern, struct host_arena *arena, uint8_t **keep);

#endif
