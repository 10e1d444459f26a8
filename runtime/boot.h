/*
 * boot.h - the pipeline as one function:
 *     config -> network graph -> training graph -> schedule -> arena -> plan -> verify
 * Each stage reads the one before it as const. The executor starts from the plan that comes out (exec.h).
 */
#ifndef TARN_BOOT_H
#define TARN_BOOT_H

#include "config/config.h"
#include "driver.h"
#include "plan/report.h"

/*
 * Plans a run for an open device. The dataset is described, not read. Everything lives in `arena`.
 * TARN_EBUDGET: the sentence names the smallest budget that plans, at the budget's place in the config file.
 */
enum tarn_status boot_plan(const struct config *config, struct device *device, struct host_arena *arena,
			   struct plan *plan, struct plan_report *report);

#endif
