/* offload_place.c - see offload_place.h. */
#include "planner/offload_place.h"

#include "planner/random.h"

#include <string.h>

/* A search leaves its optimum by at most so many changes. */
#define KICKS 3u
/* They may cost so many hundredths of the time together. */
#define KICK_PERCENT 8u

enum tarn_status placer_init(struct placer *k, struct streams *streams, struct host_arena *arena)
{
	uint32_t capacity = streams->meter.capacity;
	*k = (struct placer){
		.streams = streams,
		.trial = HOST_ARRAY(arena, capacity, uint32_t),
		.kept = HOST_ARRAY(arena, capacity, uint32_t),
		.best = HOST_ARRAY(arena, capacity, uint32_t),
		.live_bytes = HOST_ARRAY(arena, capacity, uint64_t),
		.begin_ns = HOST_ARRAY(arena, (size_t)capacity + 1, uint64_t),
		.moved = HOST_ARRAY(arena, capacity, uint8_t),
		.read = HOST_ARRAY(arena, streams->problem->values, uint8_t),
		.fetched = HOST_ARRAY(arena, streams->problem->values, uint8_t),
		.runs = HOST_ARRAY(arena, streams->problem->ops, uint32_t),
	};
	return k->trial && k->kept && k->best && k->live_bytes && k->begin_ns && k->moved && k->read && k->fetched &&
			       k->runs
		       ? TARN_OK
		       : TARN_ENOMEM;
}

static uint64_t bytes_of(const struct placer *k, uint32_t value)
{
	return k->streams->problem->value[value].bytes;
}

/* Does the step use the value, or copy it? */
static bool touches(const struct placer *k, uint32_t op, uint32_t value)
{
	const struct problem *p = &k->streams->joint;
	for (uint32_t i = 0; i < p->op[op].inputs; i++)
		if (problem_inputs(p, op)[i] == value)
			return true;
	for (uint32_t i = 0; i < p->op[op].outputs; i++)
		if (problem_outputs(p, op)[i] == value)
			return true;
	return false;
}

/* ---- placement ----------------------------------------------------------------------------------------------- */

/* Moves step `from` to `to`; what it passes makes room. */
static void move_step(uint32_t *step, uint32_t from, uint32_t to)
{
	uint32_t moved = step[from];
	if (from < to)
		memmove(step + from, step + from + 1, (to - from) * sizeof *step);
	else
		memmove(step + to + 1, step + to, (from - to) * sizeof *step);
	step[to] = moved;
}

static void take_live_bytes(struct placer *k, const uint32_t *step, uint32_t steps)
{
	const struct problem *p = k->streams->problem;
	memcpy(k->live_bytes, k->streams->meter.live_bytes, steps * sizeof *k->live_bytes);
	k->begin_ns[0] = 0;
	for (uint32_t s = 0; s < steps; s++)
		k->begin_ns[s + 1] = k->begin_ns[s] + (is_run(k->streams, step[s]) ? p->op[step[s]].cost_ns : 0);
}

/*
 * Moves a copy by one step, down to the next or up to the one before, which then holds its tensor as well; an upper
 * bound of the live bytes follows. False when memory does not allow it, or the neighbour has to do with the tensor.
 */
static bool pass(struct placer *k, uint32_t *step, uint32_t from, uint32_t to)
{
	uint64_t bytes = bytes_of(k, copied_value(k->streams, step[from]));
	if (k->live_bytes[to] + bytes > k->limit || touches(k, step[to], copied_value(k->streams, step[from])))
		return false;
	uint64_t passed = k->live_bytes[to] + bytes;
	k->live_bytes[from] = k->live_bytes[to] = passed;
	move_step(step, from, to);
	uint32_t upper = from < to ? from : to;
	const struct problem *p = k->streams->problem;
	k->begin_ns[upper + 1] =
		k->begin_ns[upper] + (is_run(k->streams, step[upper]) ? p->op[step[upper]].cost_ns : 0);
	return true;
}

/* The step that made what a store reads. */
static uint32_t maker_of(const struct placer *k, const uint32_t *step, uint32_t at, uint32_t value)
{
	while (at && step[at] != k->streams->problem->value[value].producer)
		at--;
	return at;
}

/* Stores end when the stream is done with them. */
static void delay_stores(struct placer *k, uint32_t *step, uint32_t steps)
{
	uint64_t stream = 0;
	memcpy(k->trial, step, steps * sizeof *step);
	for (uint32_t i = 0; i < steps; i++) {
		uint32_t o = k->trial[i], at = 0;
		if (is_run(k->streams, o) || is_fetch(k->streams, o))
			continue;
		while (step[at] != o)
			at++;
		uint32_t v = copied_value(k->streams, o);
		uint64_t made = k->begin_ns[maker_of(k, step, at, v) + 1];
		stream = (made > stream ? made : stream) + k->streams->copy_ns[v];
		while (at + 1 < steps && k->begin_ns[at] < stream && pass(k, step, at, at + 1))
			at++;
	}
}

/* Moves the fetch up to where it is complete by `end`, as far as memory allows; returns when it would have to start. */
static double advance(struct placer *k, uint32_t *step, uint32_t at, double end)
{
	double begin = end - (double)k->streams->copy_ns[copied_value(k->streams, step[at])];
	while (at && (double)k->begin_ns[at] > begin && pass(k, step, at, at - 1)) {
		k->moved[at] = k->moved[at - 1];
		at--;
	}
	k->moved[at] = 1;
	return begin;
}

/* Fetches start when the stream still has time for them and for those after them; the last come first. */
static void advance_fetches(struct placer *k, uint32_t *step, uint32_t steps)
{
	double next = (double)k->begin_ns[steps];
	memset(k->moved, 0, steps);
	for (uint32_t s = steps; s-- > 0;) {
		/* A fetch that moves up leaves its place to the step before it. */
		while (is_fetch(k->streams, step[s]) && !k->moved[s]) {
			double read = (double)k->begin_ns[s];
			next = advance(k, step, s, read < next ? read : next);
		}
	}
}

static bool measure(struct placer *k, const uint32_t *step, uint32_t steps)
{
	k->work -= steps < k->work ? steps : k->work;
	return streams_measure(k->streams, step, steps, NULL, NULL) && k->streams->peak_bytes <= k->limit;
}

bool place_copies(struct placer *k, uint64_t limit, uint32_t *step, uint32_t steps)
{
	k->limit = limit;
	if (!measure(k, step, steps))
		return false;
	uint64_t time_ns = k->streams->time_ns;
	memcpy(k->kept, step, steps * sizeof *step);
	take_live_bytes(k, step, steps);
	delay_stores(k, step, steps);
	advance_fetches(k, step, steps);
	if (measure(k, step, steps) && k->streams->time_ns <= time_ns)
		return true;
	memcpy(step, k->kept, steps * sizeof *step);
	return measure(k, step, steps);
}

/* ---- local search ------------------------------------------------------------------------------------------------ */

/* The schedule that the search stands at. */
struct standing {
	uint32_t *step, *steps;
	uint64_t time_ns;
	uint64_t below_ns; /* a change is taken when the time is below this */
};

/* Whether the step is of use to later ones; then what it uses is as well. */
static bool is_useful(struct placer *k, uint32_t o)
{
	const struct streams *streams = k->streams;
	const struct problem_op *op = &streams->joint.op[o];
	bool useful = is_run(streams, o) && (op->once || (op->required && k->runs[o] == 1));
	if (!is_run(streams, o) && !is_fetch(streams, o)) {
		uint32_t v = copied_value(streams, o);
		useful = k->fetched[v];
		k->fetched[v] = 0;
	}
	for (uint32_t i = 0; i < op->outputs; i++) {
		uint32_t v = problem_outputs(&streams->joint, o)[i];
		useful |= k->read[v];
		k->fetched[v] |= is_fetch(streams, o) && k->read[v];
		k->read[v] = 0;
	}
	for (uint32_t i = 0; useful && i < op->inputs; i++)
		k->read[problem_inputs(&streams->joint, o)[i]] = 1;
	return useful;
}

/* Takes runs and copies out of the trial that nothing needs; false when too much is stored. */
static bool tidy(struct placer *k)
{
	const struct problem *p = k->streams->problem;
	uint64_t stored = 0;
	uint32_t to = k->trial_steps;
	memset(k->runs, 0, p->ops * sizeof *k->runs);
	memset(k->read, 0, p->values);
	memset(k->fetched, 0, p->values);
	for (uint32_t s = 0; s < k->trial_steps; s++)
		if (is_run(k->streams, k->trial[s]))
			k->runs[k->trial[s]]++;
	/* From the end, so that what served only useless steps is seen to be useless as well. */
	for (uint32_t s = k->trial_steps; s-- > 0;) {
		uint32_t o = k->trial[s];
		if (is_useful(k, o))
			k->trial[--to] = o;
		else if (is_run(k->streams, o))
			k->runs[o]--;
	}
	memmove(k->trial, k->trial + to, (k->trial_steps - to) * sizeof *k->trial);
	k->trial_steps -= to;
	for (uint32_t s = 0; s < k->trial_steps; s++)
		if (!is_run(k->streams, k->trial[s]) && !is_fetch(k->streams, k->trial[s]))
			stored += bytes_of(k, copied_value(k->streams, k->trial[s]));
	return stored <= k->host_limit;
}

/* Takes the trial when it fits and is faster. */
static bool take_if_faster(struct placer *k, struct standing *at)
{
	if (!measure(k, k->trial, k->trial_steps) || k->streams->time_ns >= at->below_ns)
		return false;
	at->time_ns = at->below_ns = k->streams->time_ns;
	*at->steps = k->trial_steps;
	memcpy(at->step, k->trial, k->trial_steps * sizeof *k->trial);
	return true;
}

static void begin_trial(struct placer *k, const struct standing *at)
{
	memcpy(k->trial, at->step, *at->steps * sizeof *k->trial);
	k->trial_steps = *at->steps;
}

static void remove_from_trial(struct placer *k, uint32_t s)
{
	memmove(k->trial + s, k->trial + s + 1, (--k->trial_steps - s) * sizeof *k->trial);
}

/* False when there is no room. */
static bool insert_into_trial(struct placer *k, uint32_t s, uint32_t op)
{
	if (k->trial_steps == k->streams->meter.capacity)
		return false;
	memmove(k->trial + s + 1, k->trial + s, (k->trial_steps++ - s) * sizeof *k->trial);
	k->trial[s] = op;
	return true;
}

/* A fetch earlier, a store later, by 1, 2, 4 ... steps. */
static bool shift_copy(struct placer *k, struct standing *at, uint32_t s)
{
	uint32_t o = at->step[s], v = copied_value(k->streams, o);
	bool up = is_fetch(k->streams, o);
	begin_trial(k, at);
	for (uint32_t distance = 1; up ? distance <= s : s + distance < k->trial_steps; distance++) {
		uint32_t to = up ? s - distance : s + distance;
		if (touches(k, k->trial[to], v))
			return false;
		move_step(k->trial, up ? to + 1 : to - 1, to);
		if (distance & (distance - 1))
			continue;
		if (take_if_faster(k, at))
			return true;
		if (k->streams->meter.peak_bytes > k->limit || !k->work)
			return false;
	}
	return false;
}

/* The next step from `s` on that uses the value; *steps when there is none. */
static uint32_t next_use(const struct placer *k, const uint32_t *step, uint32_t steps, uint32_t s, uint32_t value)
{
	while (s < steps && !touches(k, step[s], value))
		s++;
	return s;
}

/* Without the fetch: the tensor stays. Or it is made again by its op, just before it is read. */
static bool replace_fetch(struct placer *k, struct standing *at, uint32_t s)
{
	uint32_t v = copied_value(k->streams, at->step[s]);
	begin_trial(k, at);
	remove_from_trial(k, s);
	if (tidy(k) && take_if_faster(k, at))
		return true;
	if (!k->trade)
		return false;
	begin_trial(k, at);
	remove_from_trial(k, s);
	uint32_t reader = next_use(k, k->trial, k->trial_steps, s, v);
	return insert_into_trial(k, reader, k->streams->problem->value[v].producer) && tidy(k) && take_if_faster(k, at);
}

/* Puts a store of the value behind its last use before step `s` of the trial, unless it is stored by then. */
static bool store_before(struct placer *k, uint32_t s, uint32_t value)
{
	uint32_t use = s;
	for (uint32_t i = 0; i < k->trial_steps; i++)
		if (k->trial[i] == store_op(k->streams, value))
			return i < s;
	while (use && !touches(k, k->trial[use - 1], value))
		use--;
	return use && insert_into_trial(k, use, store_op(k->streams, value));
}

/* A recomputation becomes fetches of what it makes, which start `early` steps before it. */
static bool fetch_instead(struct placer *k, struct standing *at, uint32_t s, uint32_t early)
{
	const struct problem *p = k->streams->problem;
	uint32_t o = at->step[s];
	begin_trial(k, at);
	remove_from_trial(k, s);
	for (uint32_t i = 0; i < p->op[o].outputs; i++) {
		uint32_t v = problem_outputs(p, o)[i], before = k->trial_steps;
		if (!store_before(k, s, v))
			return false;
		s += k->trial_steps - before;
		uint32_t place = s, distance = early;
		while (distance-- && place && !touches(k, k->trial[place - 1], v))
			place--;
		if (!insert_into_trial(k, place, fetch_op(k->streams, v)))
			return false;
		s++;
	}
	/* What only the recomputation read goes as well, and fetches that nobody reads. */
	return tidy(k) && take_if_faster(k, at);
}

static bool replace_run(struct placer *k, struct standing *at, uint32_t s)
{
	static const uint32_t early[] = { 0, 2, 8, 32 };
	bool again = false;
	for (uint32_t i = 0; k->trade && i < s && !again; i++)
		again = at->step[i] == at->step[s];
	for (uint32_t i = 0; again && i < sizeof early / sizeof *early && k->work; i++)
		if (fetch_instead(k, at, s, early[i]))
			return true;
	return false;
}

static bool improve_step(struct placer *k, struct standing *at, uint32_t s)
{
	if (is_run(k->streams, at->step[s]))
		return replace_run(k, at, s);
	if (shift_copy(k, at, s))
		return true;
	return is_fetch(k->streams, at->step[s]) && replace_fetch(k, at, s);
}

static bool stand_at(struct placer *k, uint64_t limit, uint64_t host_limit, uint64_t work, uint32_t *step,
		     uint32_t *steps, struct standing *at)
{
	k->limit = limit;
	k->host_limit = host_limit;
	k->work = work;
	bool fits = measure(k, step, *steps);
	*at = (struct standing){ step, steps, k->streams->time_ns, k->streams->time_ns };
	return fits;
}

static void descend(struct placer *k, struct standing *at)
{
	for (bool improved = true; improved && k->work;) {
		improved = false;
		for (uint32_t s = 0; s < *at->steps && k->work; s++)
			improved |= improve_step(k, at, s);
	}
}

void place_improve(struct placer *k, uint64_t limit, uint64_t host_limit, uint64_t work, uint32_t *step,
		   uint32_t *steps)
{
	struct standing at;
	if (stand_at(k, limit, host_limit, work, step, steps, &at))
		descend(k, &at);
	measure(k, step, *steps);
}

void place_search(struct placer *k, uint64_t limit, uint64_t host_limit, uint64_t work, uint32_t *step, uint32_t *steps)
{
	uint64_t random = random_start(0);
	struct standing at;
	bool found = stand_at(k, limit, host_limit, work, step, steps, &at);
	uint32_t best_steps = *steps;
	uint64_t best_ns = found ? at.time_ns : 0;
	memcpy(k->best, step, best_steps * sizeof *step);
	while (found && k->work) {
		uint64_t before = k->work;
		for (uint32_t kicks = 1 + random_below(&random, KICKS); kicks && k->work; kicks--) {
			at.below_ns = best_ns + best_ns / 100 * KICK_PERCENT;
			improve_step(k, &at, random_below(&random, *steps));
		}
		at.below_ns = at.time_ns;
		descend(k, &at);
		if (at.time_ns < best_ns) {
			best_ns = at.time_ns;
			best_steps = *steps;
			memcpy(k->best, step, best_steps * sizeof *step);
		} else {
			at.time_ns = best_ns;
			*steps = best_steps;
			memcpy(step, k->best, best_steps * sizeof *step);
		}
		found = k->work < before;
	}
	*steps = best_steps;
	memcpy(step, k->best, best_steps * sizeof *step);
	measure(k, step, *steps);
}
