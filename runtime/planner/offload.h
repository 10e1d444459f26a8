/*
 * offload.h - plans in which tensors wait in host memory: the second way to bring a tensor back.
 *
 * Input: a request as for planner_run, the bandwidth of the copies, and a limit of the host region. Output: the
 * planner's result, with transfers when they make the plan faster, or make it fit at all.
 *
 * Method. Schedules without copies, found by the planner for the budget and for larger ones (or the fixed strategy's
 * own), are each brought below the budget by copies (offload_cover.h); copies are placed to overlap with ops and traded
 * for recomputation (offload_place.h); the fastest whose packing fits is taken. What the planner finds without copies
 * is one of them, so that offload never makes a plan slower; with it every budget is met in which the largest op fits.
 */
#ifndef TARN_PLANNER_OFFLOAD_H
#define TARN_PLANNER_OFFLOAD_H

#include "planner/offload_streams.h"
#include "planner/planner.h"

struct offload_options {
	uint64_t bandwidth;  /* bytes a second, positive */
	uint64_t host_limit; /* bytes */
};

struct offload_result {
	/*
	 * What the schedule's numbers refer to: the request's problem when there are no transfers, else the joint one
	 * of offload_streams.h. Numbers below the request's ops are runs of these.
	 */
	struct problem problem;
	struct transfer *transfer;
	uint32_t transfers;
	uint64_t *host_offset; /* [values]: of those that are stored */
	uint64_t host_bytes;   /* height of the host region */
	uint64_t min_budget;   /* the smallest budget that plans, with copies; UINT64_MAX: was not looked for */
};

/*
 * Fills both results from `arena`. In the planner's result time_ns is that of the two streams; min_budget and the
 * figures of `none` are without copies. TARN_EBUDGET: *offload has min_budget and *result the figures that planner_run
 * leaves, the schedule is not filled.
 */
enum tarn_status offload_run(const struct planner_request *request, const struct offload_options *options,
			     struct host_arena *arena, struct planner_result *result, struct offload_result *offload);

#endif
