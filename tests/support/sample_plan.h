/*
 * sample_plan.h - small real plans for tests, made without the planner.
 *
 * A hand-written network (convolution, batch norm, residual addition, dropout, two dense layers; hand-written backward
 * pass; clipping and two optimizers) is laid out by first fit. What it shares with the planner is only the contract.
 */
#ifndef TARN_TESTS_SAMPLE_PLAN_H
#define TARN_TESTS_SAMPLE_PLAN_H

#include "plan/plan.h"

/*
 * A sealed plan with the programs train (batch 6, some ops recomputed), train_last (batch 2) and evaluate (batch 6).
 * Everything lies in `arena`.
 */
enum tarn_status sample_plan(struct host_arena *arena, struct plan *plan);

/* The persistent table of plan->program[], in program 0's order, from offset 0. */
enum tarn_status sample_persistents(struct host_arena *arena, struct plan *plan);

/*
 * Instructions, first-fit offsets, peak and height of a program whose graph is ready, for a sequence of op ids. Each
 * read finds the newest instance; outputs take over inputs where the op table allows it. plan->persistent is ready.
 * `workspace` is the number of bytes that matrix products and convolutions get, a multiple of TARN_ALIGNMENT.
 */
enum tarn_status sample_layout(const struct plan *plan, struct program *program, const uint32_t *sequence,
			       uint32_t steps, uint64_t workspace, struct host_arena *arena);

/* Every op of the graph that can run, once, in its own order; returns how many. */
uint32_t sample_sequence(const struct graph *graph, uint32_t *sequence);

#endif
