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

/*
 * Writes the training step's problem as JSON for `tarn dag` (planner/dag_dump.h), and plans it as that does, within the
 * same budget: *time_ns, UINT64_MAX when no schedule was found. `plan` came from boot_plan, with the same configuration
 * and device. `scratch` is given back.
 */
enum tarn_status boot_dump_dag(const struct config *config, struct device *device, const struct plan *plan,
			       struct host_arena *scratch, const char *path, uint64_t *time_ns);

#endif
