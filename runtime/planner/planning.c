/* planning.c - see planning.h: packing and judging candidates. */
#include "planner/planning.h"

#include "base/cpu_clock.h"
#include "planner/exact.h"

#include <string.h>

/* Orders of placement tried by the packer's search: at most so many, and at most so many times buffers. */
#define PACK_ORDERS 1000u
#define PACK_WORK 1000000u
/* The plan itself, when it is not packed at its peak at once, gets so many times the work of a schedule on trial. */
#define FINAL_PACK_FACTOR 40u

const struct exact_limits planning_exact_limits[EFFORTS] = { { 0, 0, 0 },
							     { 300000, 3000000, 16000000 },
							     { 6000000, 100000000, 200000000 } };

static uint32_t pack_effort(uint32_t buffers)
{
	uint32_t orders = PACK_WORK / (buffers + 1);
	return orders < PACK_ORDERS ? orders : PACK_ORDERS;
}

/* Packs, and counts how long that takes. */
static enum tarn_status pack(struct planning *k, const struct expansion *e, uint64_t goal, uint32_t effort,
			     uint64_t *offset, uint64_t *height)
{
	uint64_t load;
	double start = cpu_clock_ms();
	enum tarn_status st = pack_buffers(e->buffer, e->buffers, goal, effort, k->scratch, offset, height, &load);
	k->result->pack_ms += cpu_clock_ms() - start;
	return st;
}

enum tarn_status planning_height(struct planning *k, const struct candidate *c, uint64_t goal, uint64_t *height)
{
	if (k->request->sum_of_bytes) {
		*height = c->peak_bytes;
		return TARN_OK;
	}
	struct host_mark mark = host_arena_mark(k->scratch);
	struct schedule schedule = { .step = c->step, .steps = c->steps };
	struct expansion expansion;
	enum tarn_status st = schedule_expand(k->request->problem, &schedule, k->scratch, &expansion);
	if (st)
		goto out;
	st = TARN_ENOMEM;
	uint64_t *offset = HOST_ARRAY(k->scratch, expansion.buffers, uint64_t);
	if (offset)
		st = pack(k, &expansion, goal, pack_effort(expansion.buffers), offset, height);
out:
	host_arena_release(k->scratch, mark);
	return st;
}

enum tarn_status planning_fill_result(struct planning *k, const struct candidate *c, struct host_arena *arena)
{
	struct planner_result *r = k->result;
	r->schedule.step = HOST_ARRAY(arena, c->steps, uint32_t);
	if (!r->schedule.step)
		return TARN_ENOMEM;
	memcpy(r->schedule.step, c->step, c->steps * sizeof *c->step);
	r->schedule.steps = c->steps;
	enum tarn_status st = schedule_expand(k->request->problem, &r->schedule, arena, &r->expansion);
	if (st)
		return st;
	r->time_ns = r->expansion.time_ns;
	r->height = r->expansion.peak_bytes;
	if (k->request->sum_of_bytes)
		return TARN_OK;
	r->offset = HOST_ARRAY(arena, r->expansion.buffers, uint64_t);
	if (!r->offset)
		return TARN_ENOMEM;
	uint32_t effort = pack_effort(r->expansion.buffers);
	st = pack(k, &r->expansion, 0, effort * FINAL_PACK_FACTOR, r->offset, &r->height);
	/* The packing that was judged aimed at the budget, not at the least height: it may have got lower. */
	if (!st && r->height > k->request->budget)
		st = pack(k, &r->expansion, k->request->budget, effort, r->offset, &r->height);
	return st;
}

enum tarn_status planning_take_if_it_fits(struct planning *k, uint64_t *height)
{
	enum tarn_status st = planning_height(k, &k->trial, k->request->budget, height);
	if (!st && *height <= k->request->budget && k->trial.time_ns < k->best.time_ns)
		candidate_copy(&k->best, &k->trial);
	return st;
}

enum tarn_status planning_take_if_lower(struct planning *k)
{
	uint64_t height;
	enum tarn_status st = planning_height(k, &k->trial, 0, &height);
	if (!st && (height < k->least_height || (height == k->least_height && k->trial.time_ns < k->least.time_ns))) {
		candidate_copy(&k->least, &k->trial);
		k->least_height = height;
	}
	return st;
}

enum tarn_status planning_search_exactly(struct planning *k, uint64_t limit, uint32_t any_schedule, bool *found,
					 bool *proved, uint64_t *bound)
{
	struct optimizer *optimizer = &k->optimizer;
	uint32_t effort = k->request->effort;
	*found = *proved = false;
	*bound = 0;
	if (effort == EFFORT_FAST || !exact_applies(&optimizer->dependence))
		return TARN_OK;
	struct exact_request request = { .dependence = &optimizer->dependence,
					 .limit = limit,
					 .any_schedule = any_schedule,
					 .upper_time = k->trial.time_ns,
					 .max_states = planning_exact_limits[effort].states,
					 .max_work = k->exact_work,
					 .max_steps = optimizer->max_steps };
	struct exact_result result;
	enum tarn_status st = exact_search(&request, k->scratch, k->trial.step, &result);
	if (st)
		return st;
	k->exact_work -= result.work < k->exact_work ? result.work : k->exact_work;
	*found = result.found;
	*proved = !result.gave_up;
	*bound = result.bound;
	if (!result.found)
		return TARN_OK;
	struct schedule schedule = { k->trial.step, result.steps };
	k->trial.steps = result.steps;
	return schedule_measure(k->request->problem, &schedule, k->scratch, &k->trial.peak_bytes, &k->trial.time_ns);
}
