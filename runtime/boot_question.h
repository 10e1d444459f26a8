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

#endif
