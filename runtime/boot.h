/*
 * boot.h - the pipeline as one function:
 *     config -> network graph -> training graph -> schedule -> arena -> plan -> verify
 * Each stage reads the one before it as const. The executor starts from the plan that comes out (exec.h).
 */
#ifndef TARN_BOOT_H
#define TARN_BOOT_H

#include "config/config.h"
#include "driver.h"
#include "plan/plan.h"

/* What planning found out besides the plan itself. */
struct boot_report {
	uint64_t peak_bytes, none_peak_bytes, transient_peak_bytes, none_transient_peak_bytes, min_budget_bytes;
	uint64_t parameter_count;
	uint32_t recomputed_ops;
	double overhead; /* extra compute time / compute time of a training step */
	double plan_ms;  /* CPU ms of graph, schedule, packing and verification, after parsing */
	bool fell_back;
};

/*
 * Plans a run for an open device. The dataset is described, not read. Everything lives in `arena`.
 * TARN_EBUDGET: the sentence names the smallest budget that plans, at the budget's place in the config file.
 */
enum tarn_status boot_plan(const struct config *config, struct device *device, struct host_arena *arena,
			   struct plan *plan, struct boot_report *report);

#endif
