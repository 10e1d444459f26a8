/*
 * report.h - the figures of a plan that people and programs ask for.
 */
#ifndef TARN_PLAN_REPORT_H
#define TARN_PLAN_REPORT_H

#include "plan/plan.h"

struct plan_report {
	uint64_t peak_bytes;      /* live bytes, padding included; the maximum over all programs */
	uint64_t none_peak_bytes; /* the same with each op once */
	uint64_t transient_peak_bytes, none_transient_peak_bytes; /* activations, gradients, workspaces only */
	uint64_t min_budget_bytes;
	uint64_t parameter_count;
	uint64_t state_bytes;                 /* of optimizer state, without padding */
	uint32_t recomputed_ops;              /* extra runs in a training step */
	uint64_t stored_bytes, fetched_bytes; /* that a training step moves to the host region and back */
	double overhead;                      /* extra compute time / compute time of a training step, as estimated */
	uint64_t overhead_bytes; /* beside the arena, measured or as described; 0 where the arena is all there is */
	uint64_t reserve_bytes;  /* kept for what is only known after boot */
	double plan_ms;          /* CPU ms of graphs, schedules, packing and verification; 0 for a loaded plan */
	double pack_ms;          /* the part of it that packing took */
	uint64_t time_bound_ns,
		peak_bound_bytes; /* proved lower bounds of a training step's time, of any plan's peak */
	double gap; /* how much more time the training step takes than the bound, relative to that; 0: it is optimal */
	/*
	 * Meta-learning: what one inner step leaves behind when all is kept, for the steps after it and for the outer
	 * gradient. 0 without inner steps.
	 */
	uint64_t inner_step_bytes;
	bool fell_back; /* the strategy would have needed more than `none`, whose plan was taken */
};

/* Fills what follows from the plan: everything but the bytes beside the arena, plan_ms, pack_ms and fell_back, which
 * are left as they are. */
void plan_report_fill(const struct plan *plan, struct plan_report *report);

/* What the program runs more than once, by kind, most first: "18 batch_apply, 4 conv2d". Writes at most `size` bytes.
 */
void plan_recomputed_text(const struct program *program, char *buffer, size_t size);

#endif
