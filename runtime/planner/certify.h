/*
 * certify.h - the certificate of a program: costs, and bounds of time and peak with their proof.
 */
#ifndef TARN_PLANNER_CERTIFY_H
#define TARN_PLANNER_CERTIFY_H

#include "plan/plan.h"
#include "planner/graph_problem.h"

/* Fills the certificate of an assembled program. `budget`: bytes for its transient part; the bound of time is for it.
 */
enum tarn_status certify_program(const struct plan *plan, const struct graph_problem *problem, uint64_t budget,
				 struct host_arena *arena, struct program *program);

#endif
