/* offload.c - schedules without copies, brought below the budget by copies; the fastest that packs. */
#include "planner/offload.h"

#include "base/bytes.h"
#include "planner/offload_cover.h"
#include "planner/offload_place.h"

#include <inttypes.h>
#include <string.h>

/* Schedules that the planner finds for the budget, for larger ones, and for none. */
#define RUNGS 8u
#define BASES (RUNGS + 1u)
/* A schedule is covered with each of these prices for the stream, each so often with what the last one waited for. */
static const double prices[] = { 0.1, 1, 4 };
#define PRICES (sizeof prices / sizeof *prices)
#define COVERS 3u
/* Longer schedules are covered once. */
#define LONG_STEPS 5000u
/* Steps that the local search of one schedule looks at. */
#define IMPROVE_WORK 3000000u
/* And that the search of the best looks at: at most so many, and at most so many times the square of its steps. */
#define SEARCH_WORK 12000000u
#define SEARCH_ROUNDS 100u
/* Times a schedule that does not pack is asked to be smaller. */
#define PACK_ATTEMPTS 5u
/* Orders of placement that the packer tries: at most so many, and at most so many times buffers. */
#define PACK_ORDERS 400u
#define PACK_WORK 200000u

struct base {
	struct schedule schedule;
	struct cover cover;
};

struct sequence {
	uint32_t *step, steps; /* of the joint problem; 0 steps: none */
	uint64_t time_ns, height;
	uint64_t limit; /* of its live bytes */
};

struct offloading {
	const struct planner_request *request;
	const struct offload_options *options;
	struct host_arena *scratch;
	const struct planner_result *plain; /* without copies; the schedule has no steps when it does not fit */
	struct base base[BASES];
	uint32_t bases;
	struct streams streams;
	struct placer placer;
	struct sequence best, least, trial, covered;
};

/* Nothing is faster than every op once, without a wait. */
static bool is_free(const struct offloading *k)
{
	return k->best.steps && k->best.time_ns == k->plain->base_time_ns;
}

/* ---- schedules without copies ------------------------------------------------------------------------------------ */

/* The planner's schedule for a budget of live bytes, if there is one. */
static enum tarn_status add_base(struct offloading *k, uint32_t strategy, uint64_t budget)
{
	struct planner_request request = *k->request;
	struct planner_result result;
	request.strategy = strategy;
	request.budget = budget;
	request.sum_of_bytes = request.skip_least = true;
	request.effort = EFFORT_FAST;
	enum tarn_status st = planner_run(&request, k->scratch, &result);
	if (st == TARN_EBUDGET)
		return TARN_OK;
	if (!st)
		k->base[k->bases++].schedule = result.schedule;
	return st;
}

/* Keeping all, or the strategy's own; then more and more recomputation. */
static enum tarn_status find_bases(struct offloading *k)
{
	uint64_t low = k->request->budget > k->plain->min_budget ? k->request->budget : k->plain->min_budget;
	uint64_t high = k->plain->none_height;
	enum tarn_status st = add_base(k, k->request->strategy, UINT64_MAX);
	if (st || k->request->strategy != STRATEGY_AUTO)
		return st;
	for (uint64_t rung = RUNGS; !st && rung-- > 1 && low < high;)
		st = add_base(k, STRATEGY_AUTO, low + (high - low) / RUNGS * rung);
	if (!st && k->plain->schedule.steps)
		k->base[k->bases++].schedule = k->plain->schedule;
	else if (!st)
		st = add_base(k, STRATEGY_AUTO, low);
	return st;
}

static enum tarn_status sequence_init(struct offloading *k, struct sequence *sequence)
{
	sequence->step = HOST_ARRAY(k->scratch, k->streams.meter.capacity, uint32_t);
	return sequence->step ? TARN_OK : TARN_ENOMEM;
}

static void sequence_copy(struct sequence *to, const struct sequence *from)
{
	memcpy(to->step, from->step, from->steps * sizeof *to->step);
	to->steps = from->steps;
	to->time_ns = from->time_ns;
	to->height = from->height;
	to->limit = from->limit;
}

/* Room for the longest schedule with every gap closed and every value stored. */
static enum tarn_status take_memory(struct offloading *k)
{
	const struct problem *p = k->request->problem;
	size_t most = 0;
	for (uint32_t b = 0; b < k->bases; b++) {
		const struct schedule *schedule = &k->base[b].schedule;
		size_t steps = schedule->steps + (size_t)p->values;
		for (uint32_t s = 0; s < schedule->steps; s++)
			steps += p->op[schedule->step[s]].inputs;
		most = steps > most ? steps : most;
	}
	if (most > UINT32_MAX / 8)
		return tarn_fail(TARN_EUNSUPPORTED, "offload of a schedule with %zu steps and copies; at most 2^29",
				 most);
	enum tarn_status st = streams_init(&k->streams, p, k->options->bandwidth, (uint32_t)most, k->scratch);
	if (!st)
		st = placer_init(&k->placer, &k->streams, k->scratch);
	k->placer.trade = k->request->strategy == STRATEGY_AUTO;
	struct sequence *all[] = { &k->best, &k->least, &k->trial, &k->covered };
	for (size_t i = 0; !st && i < sizeof all / sizeof *all; i++)
		st = sequence_init(k, all[i]);
	for (uint32_t b = 0; !st && b < k->bases; b++)
		st = cover_init(&k->base[b].cover, &k->streams, k->base[b].schedule.step, k->base[b].schedule.steps,
				k->scratch);
	return st;
}

/* ---- one schedule below a limit ------------------------------------------------------------------------------ */

static uint32_t pack_effort(uint32_t buffers)
{
	uint32_t orders = PACK_WORK / (buffers + 1);
	return orders < PACK_ORDERS ? orders : PACK_ORDERS;
}

static enum tarn_status pack_sequence(struct offloading *k, struct sequence *sequence, uint64_t goal)
{
	struct host_mark mark = host_arena_mark(k->scratch);
	struct schedule schedule = { sequence->step, sequence->steps };
	struct expansion e;
	uint64_t load, *offset = NULL;
	enum tarn_status st = schedule_expand(&k->streams.joint, &schedule, k->scratch, &e);
	if (!st && k->request->sum_of_bytes)
		sequence->height = e.peak_bytes;
	else if (!st && !(offset = HOST_ARRAY(k->scratch, e.buffers, uint64_t)))
		st = TARN_ENOMEM;
	if (offset)
		st = pack_buffers(e.buffer, e.buffers, goal, pack_effort(e.buffers), k->scratch, offset,
				  &sequence->height, &load);
	host_arena_release(k->scratch, mark);
	return st;
}

/* The fastest of several covers of the base, into the trial; false when the limit cannot be met. */
static bool cover_base(struct offloading *k, struct base *base, uint64_t limit)
{
	bool once = base->schedule.steps > LONG_STEPS, found = false;
	struct sequence *covered = &k->covered;
	for (uint32_t i = 0; i < (once ? 1 : PRICES); i++) {
		memset(base->cover.waited_ns, 0, k->request->problem->values * sizeof *base->cover.waited_ns);
		for (uint32_t round = 0; round < (once ? 1 : COVERS); round++) {
			if (!cover_find(&base->cover, limit, k->options->host_limit, prices[i], covered->step,
					&covered->steps) ||
			    !place_copies(&k->placer, limit, covered->step, covered->steps))
				break;
			covered->time_ns = k->streams.time_ns;
			if (!found || covered->time_ns < k->trial.time_ns)
				sequence_copy(&k->trial, covered);
			found = true;
			for (uint32_t v = 0; v < k->request->problem->values; v++)
				base->cover.waited_ns[v] += k->streams.waited_ns[v];
		}
	}
	return found;
}

/* Takes what the base becomes within the budget when it is faster than the best; where it does not pack, again. */
static enum tarn_status try_base(struct offloading *k, struct base *base)
{
	uint64_t budget = k->request->budget, limit = budget;
	for (uint32_t attempt = 0; attempt < PACK_ATTEMPTS; attempt++) {
		if (!cover_base(k, base, limit))
			return TARN_OK;
		place_improve(&k->placer, limit, k->options->host_limit, IMPROVE_WORK, k->trial.step, &k->trial.steps);
		k->trial.time_ns = k->streams.time_ns;
		k->trial.limit = limit;
		if (k->best.steps && k->trial.time_ns >= k->best.time_ns)
			return TARN_OK;
		enum tarn_status st = pack_sequence(k, &k->trial, budget);
		if (st)
			return st;
		if (k->trial.height <= budget) {
			sequence_copy(&k->best, &k->trial);
			return TARN_OK;
		}
		uint64_t above = k->trial.height - budget;
		limit = limit > above ? limit - above : 0;
	}
	return TARN_OK;
}

/* The least height that copies reach: a function of the problem and the strategy alone. */
static enum tarn_status find_least(struct offloading *k)
{
	uint64_t stored = 0;
	cover_all(&k->base[0].cover, k->least.step, &k->least.steps);
	for (uint32_t v = 0; v < k->request->problem->values; v++)
		if (k->base[0].cover.stored_at[v] != UINT32_MAX)
			stored += k->request->problem->value[v].bytes;
	if (stored > k->options->host_limit ||
	    !streams_measure(&k->streams, k->least.step, k->least.steps, NULL, NULL)) {
		k->least.steps = 0;
		return TARN_OK;
	}
	k->least.time_ns = k->streams.time_ns;
	return pack_sequence(k, &k->least, 0);
}

/* The best is a start for a longer search. */
static enum tarn_status search_best(struct offloading *k)
{
	uint64_t work = (uint64_t)SEARCH_ROUNDS * k->best.steps * k->best.steps;
	sequence_copy(&k->trial, &k->best);
	place_search(&k->placer, k->best.limit, k->options->host_limit, work < SEARCH_WORK ? work : SEARCH_WORK,
		     k->trial.step, &k->trial.steps);
	k->trial.time_ns = k->streams.time_ns;
	if (k->trial.time_ns >= k->best.time_ns)
		return TARN_OK;
	enum tarn_status st = pack_sequence(k, &k->trial, k->request->budget);
	if (!st && k->trial.height <= k->request->budget)
		sequence_copy(&k->best, &k->trial);
	return st;
}

static enum tarn_status find_best(struct offloading *k)
{
	bool fits = k->plain->schedule.steps;
	enum tarn_status st = find_bases(k);
	if (!st && !k->bases)
		return TARN_OK;
	if (!st)
		st = take_memory(k);
	if (!st && !fits)
		st = find_least(k);
	if (st || (!fits && (!k->least.steps || k->least.height > k->request->budget)))
		return st;
	for (uint32_t b = 0; !st && b < k->bases && !is_free(k); b++)
		st = try_base(k, &k->base[b]);
	if (!st && k->best.steps && !is_free(k))
		st = search_best(k);
	if (!fits && !k->best.steps)
		sequence_copy(&k->best, &k->least);
	return st;
}

/* ---- the result ---------------------------------------------------------------------------------------------- */

/* Places of stored values in the host region: each is taken from its store to its last fetch. */
static enum tarn_status pack_host(const struct problem *p, struct host_arena *arena, struct offload_result *out)
{
	out->host_offset = HOST_ARRAY(arena, p->values, uint64_t);
	struct host_mark mark = host_arena_mark(arena);
	struct buffer *buffer = HOST_ARRAY(arena, p->values, struct buffer);
	uint32_t *value = HOST_ARRAY(arena, p->values, uint32_t), *number = HOST_ARRAY(arena, p->values, uint32_t);
	uint64_t load, *offset = HOST_ARRAY(arena, p->values, uint64_t);
	if (!out->host_offset || !buffer || !value || !number || !offset)
		return TARN_ENOMEM;
	uint32_t buffers = 0;
	for (uint32_t t = 0; t < out->transfers; t++) {
		const struct transfer *transfer = &out->transfer[t];
		if (transfer->kind == TRANSFER_STORE) {
			buffer[buffers] = (struct buffer){ p->value[transfer->value].bytes, t, t + 1 };
			number[transfer->value] = buffers;
			value[buffers++] = transfer->value;
		} else {
			buffer[number[transfer->value]].last = t + 1;
		}
	}
	enum tarn_status st =
		pack_buffers(buffer, buffers, 0, pack_effort(buffers), arena, offset, &out->host_bytes, &load);
	for (uint32_t b = 0; b < buffers; b++)
		out->host_offset[value[b]] = offset[b];
	host_arena_release(arena, mark);
	return st;
}

static uint32_t count_recomputed(const struct problem *p, const struct schedule *schedule, uint8_t *ran)
{
	uint32_t recomputed = 0;
	for (uint32_t s = 0; s < schedule->steps; s++) {
		if (schedule->step[s] >= p->ops)
			continue;
		recomputed += ran[schedule->step[s]];
		ran[schedule->step[s]] = 1;
	}
	return recomputed;
}

/* Everything that follows from the sequence, from the caller's arena. */
static enum tarn_status fill(const struct planner_request *request, const struct offload_options *options,
			     const struct sequence *best, struct host_arena *arena, struct planner_result *result,
			     struct offload_result *out)
{
	struct streams streams;
	enum tarn_status st = streams_init(&streams, request->problem, options->bandwidth, best->steps, arena);
	result->schedule = (struct schedule){ HOST_ARRAY(arena, best->steps, uint32_t), best->steps };
	out->transfer = HOST_ARRAY(arena, 4 * (size_t)best->steps, struct transfer);
	uint8_t *ran = HOST_ARRAY(arena, request->problem->ops, uint8_t);
	if (st || !result->schedule.step || !out->transfer || !ran)
		return TARN_ENOMEM;
	memcpy(result->schedule.step, best->step, best->steps * sizeof *best->step);
	out->problem = streams.joint;
	if (!streams_measure(&streams, best->step, best->steps, out->transfer, &out->transfers))
		return tarn_fail(TARN_EINTERNAL, "a schedule with copies cannot be replayed");
	st = schedule_expand(&out->problem, &result->schedule, arena, &result->expansion);
	if (st)
		return st;
	result->expansion.recomputed = count_recomputed(request->problem, &result->schedule, ran);
	result->time_ns = streams.time_ns;
	result->height = result->expansion.peak_bytes;
	uint32_t buffers = result->expansion.buffers;
	uint64_t load;
	if (!request->sum_of_bytes) {
		result->offset = HOST_ARRAY(arena, buffers, uint64_t);
		if (!result->offset)
			return TARN_ENOMEM;
		/* The same goal as when the height was judged: 0 for the least, else the budget. */
		st = pack_buffers(result->expansion.buffer, buffers, request->budget, pack_effort(buffers), arena,
				  result->offset, &result->height, &load);
		if (!st && result->height > request->budget)
			st = pack_buffers(result->expansion.buffer, buffers, 0, pack_effort(buffers), arena,
					  result->offset, &result->height, &load);
	}
	return st ? st : pack_host(request->problem, arena, out);
}

enum tarn_status offload_run(const struct planner_request *request, const struct offload_options *options,
			     struct host_arena *arena, struct planner_result *result, struct offload_result *out)
{
	*out = (struct offload_result){ .problem = *request->problem, .min_budget = UINT64_MAX };
	enum tarn_status st = planner_run(request, arena, result);
	/* Nothing to gain, or a strategy that has one schedule, which fits. */
	bool fixed = request->strategy != STRATEGY_AUTO;
	if ((st && st != TARN_EBUDGET) || (!st && (fixed || result->time_ns == result->base_time_ns)))
		return st;
	struct host_mark mark = host_arena_mark(arena);
	struct host_arena carried;
	struct sequence best = { 0 };
	struct offloading k = { .request = request, .options = options, .scratch = arena, .plain = result };
	enum tarn_status found = find_best(&k);
	host_arena_init(&carried);
	if (!found && k.best.steps && (st || k.best.time_ns < result->time_ns)) {
		best.step = HOST_ARRAY(&carried, k.best.steps, uint32_t);
		if (best.step)
			sequence_copy(&best, &k.best);
		else
			found = TARN_ENOMEM;
	}
	if (k.least.steps)
		out->min_budget = k.least.height;
	host_arena_release(arena, mark);
	if (found)
		st = found;
	else if (best.steps)
		st = fill(request, options, &best, arena, result, out);
	host_arena_fini(&carried);
	return st;
}
