/*
 * explain.h - why a plan needs what it needs: what is in memory at the peak, what is kept for the backward pass,
 * computed again, written in place or shown by a view; and what other budgets would cost.
 *
 * Derived from the instructions of one program alone, but for the curve, which the planner makes. Numbers of
 * instructions count from 0. Everything lies in the arena handed in.
 */
#ifndef TARN_PLAN_EXPLAIN_H
#define TARN_PLAN_EXPLAIN_H

#include "plan/buffers.h"

#include <stdio.h>

/* A training step as it would be planned with another budget, `memory.recompute: auto`. */
struct plan_point {
	uint64_t budget_bytes, arena_bytes, time_ns;
	uint32_t recomputed_ops;
};

#define PLAN_CURVE_POINTS 14u /* at most; fewer where a plan takes long */

/* Budgets from the smallest to that of keeping everything; time never rises with the budget. */
struct plan_curve {
	struct plan_point point[PLAN_CURVE_POINTS];
	uint32_t points;  /* 0: not made */
	uint64_t base_ns; /* each op once */
	struct plan_point
		more; /* the plan's own budget and 1 MiB; budget_bytes 0: it would not help, or there is none */
};

/* Why a buffer is in memory while an instruction runs. */
enum plan_use { USE_PERSISTENT, USE_READ, USE_WRITTEN, USE_WORKSPACE, USE_LATER, PLAN_USES };

struct plan_live {
	uint32_t buffer; /* in plan_buffers */
	uint32_t use;    /* enum plan_use */
};

/* An op that runs more than once. */
struct plan_again {
	uint32_t op, extra_runs;
	uint64_t extra_ns;
};

/* Output 0 of an instruction that lies where an input was. */
struct plan_in_place {
	uint32_t instruction, input, output; /* tensors */
};

struct plan_explanation {
	const struct plan *plan;
	const struct program *program;
	struct plan_buffers buffers;
	struct plan_live *live; /* at the peak, the largest first */
	uint32_t lives;
	uint64_t used_bytes[PLAN_USES]; /* of them */
	uint32_t *kept; /* buffers that live from before the first backward op until after it, the largest first */
	uint32_t kepts;
	uint64_t kept_bytes;
	struct plan_again *again; /* those that take the most time first */
	uint32_t agains;
	struct plan_in_place *in_place;
	uint32_t in_places;
	uint64_t in_place_bytes;
	uint32_t *view; /* tensors that are seen in another one's memory and read by some instruction */
	uint32_t views;
	uint64_t view_bytes;
};

/* The run of an op at the peak: a copy makes room for one. */
uint32_t plan_peak_run(const struct plan_explanation *explanation);

enum tarn_status plan_explain(const struct plan *plan, const struct program *program, struct host_arena *arena,
			      struct plan_explanation *out);

/* What a buffer holds: the tensor's name, or that of the op whose workspace it is. */
const char *plan_buffer_name(const struct plan_explanation *e, uint32_t buffer);

/* Of a program with instructions: the peak in one sentence of at most `size` bytes: the op, and the largest `most`
 * things in memory beside. */
void plan_peak_sentence(const struct plan_explanation *e, uint32_t most, char *text, size_t size);

/* Sentences for people; `curve` may be NULL. */
void plan_explain_print(const struct plan_explanation *e, const struct plan_curve *curve, FILE *out);

/* The same as one JSON object, with all of each list. */
void plan_explain_json(const struct plan_explanation *e, const struct plan_curve *curve, FILE *out);

#endif
