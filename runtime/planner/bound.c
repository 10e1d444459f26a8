/* bound.c - lower bounds of peak and time. */
#include "planner/bound.h"

#include "planner/dependence.h"

enum tarn_status bound_find(const struct problem *problem, uint64_t limit, struct host_arena *arena, struct bound *out)
{
	struct host_mark mark = host_arena_mark(arena);
	struct dependence d;
	enum tarn_status st = dependence_find(problem, arena, &d);
	*out = (struct bound){ 0 };
	if (!st) {
		out->time_ns = out->time_fixed_order_ns = d.base_time_ns;
		out->infeasible = out->peak_bytes > limit;
	}
	host_arena_release(arena, mark);
	return st;
}
