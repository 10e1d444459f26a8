/*
 * boot_question.h - what the planner is asked about one program: for the plan of a run, and for other budgets beside
 * it. Private to the boot files.
 */
#ifndef TARN_BOOT_QUESTION_H
#define TARN_BOOT_QUESTION_H

#include "config/config.h"
#include "driver.h"
#include "plan/plan.h"
#include "planner/graph_problem.h"
#include "planner/planner.h"

struct boot_question {
	struct graph_problem graph_problem;
	struct problem problem;         /* as it is planned: nothing in place where the configuration says so */
	struct planner_request request; /* points at `problem`; its budget is without the persistent part */
};

/* Asks the driver about every op, and the configuration for the rest. `plan` has its persistent table. */
enum tarn_status boot_question(const struct config *config, const struct plan *plan, const struct program *program,
			       struct device *device, struct host_arena *arena, struct boot_question *out);

/* `auto` and `min` may use any schedule; the other strategies have one schedule each, and that is what they need. */
static inline bool boot_is_flexible(const struct config *config)
{
	return config->memory.recompute == STRATEGY_AUTO || config->memory.recompute == STRATEGY_MIN;
}

/* Bytes with the persistent part and what the device holds beside the arena. */
struct boot_shortfall {
	uint32_t program; /* that needs plan->min_budget_bytes */
	struct boot_question *question;
	const struct device_overhead *overhead;
	uint64_t budget;        /* of everything that the device holds */
	uint64_t needed;        /* the smallest budget, with offload where that is asked for */
	uint32_t needed_shape;  /* of the program that needs `needed` */
	uint32_t fitting_shape; /* the largest of data.shapes whose training step fits the budget; 0: none known */
	uint64_t auto_bytes;    /* what `auto` gets by with, without offload */
};

/* TARN_EBUDGET, at the budget's place: the smallest budget, what is largest in it, and what would help. */
enum tarn_status boot_refuse_budget(const struct config *config, struct plan *plan,
				    const struct boot_shortfall *shortfall, struct host_arena *arena);

#endif
