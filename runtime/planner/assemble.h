/*
 * assemble.h - schedule and offsets -> the instructions of a program; and the persistent table of a plan.
 */
#ifndef TARN_PLANNER_ASSEMBLE_H
#define TARN_PLANNER_ASSEMBLE_H

#include "plan/plan.h"
#include "planner/graph_problem.h"
#include "planner/offload.h"

/*
 * The persistent tensors of all programs, by name, each at a fixed offset from 0 up, in program 0's order; bytes are
 * the largest over the programs. Fills plan->persistent, persistents and persistent_bytes. Every persistent tensor of
 * a program must exist in program 0: TARN_EINTERNAL otherwise.
 */
enum tarn_status assemble_persistent(struct plan *plan, struct host_arena *arena);

/*
 * Fills the instructions, offsets and figures of `program` from the planner's result, copies included. plan->persistent
 * is ready.
 */
enum tarn_status assemble_program(const struct plan *plan, const struct graph_problem *problem,
				  const struct planner_result *result, const struct offload_result *offload,
				  struct host_arena *arena, struct program *program);

#endif
