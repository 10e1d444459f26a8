/* chain_plan.c - what a chain keeps on the first forward pass: by memory, exactly, or by prices. */
#include "planner/chain_plan.h"

#include "planner/chain_table.h"

#include <string.h>

/* Entries of the tables, of four bytes each. */
#define MOST_ENTRIES 40000000u
/* Shortest and longest intervals that tables are made for. */
#define FEWEST_LENGTH 8u
#define MOST_LENGTH 4096u
#define LONG_ENOUGH 4u
/* Units that the limit is cut into where the common divisor is too small. */
#define MOST_UNITS 4096u
#define FEWEST_UNITS 128u
/* Values beside those that are kept: what a backward op reads and makes. */
#define BESIDE 3u
/* Rounding may make what is kept larger by one so-manieth. */
#define LOSS_PART 32u
#define SMALL_PART 8u
/* Of the memory of the longest interval, where bytes have a price. */
#define PRICED_UNITS 256u
#define PRICE_STEPS 40u

struct decision {
	uint32_t boundary, memory;
	struct way way;
};

struct plan {
	struct chain_table table;
	const struct chain_request *request;
	float *before; /* [boundaries + 1][limit + 1]: cost of what lies beyond a boundary, before the loss */
	struct decision *decision, *other; /* [boundaries]; others: as cheap as can be, but too much memory */
	uint32_t decisions, others;
	double *value; /* [boundaries + 1], with prices */
};

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* ---- Sizes ---- */

static double entries_of(const struct chain_table *t)
{
	return (double)t->cells * (t->cap + 1.0) * (t->ends ? 2 : 1);
}

/* With a column before the loss for each unit, or (columns 0) none. */
static double work_of(const struct chain_table *t, double columns)
{
	double ways = chain_table_ways(t), variants = t->chain->variants / (double)(t->boundaries + 1);
	return entries_of(t) * ((t->sparse ? ways : ways / 2) + variants) +
	       (t->boundaries * (ways + variants)) * columns;
}

/* The longest intervals that the work allows; false when they would be shorter than `least`. */
static bool choose_length(struct chain_table *t, uint64_t work, double columns, uint32_t least)
{
	uint32_t length = t->boundaries < MOST_LENGTH ? t->boundaries : MOST_LENGTH;
	double before = (t->boundaries + 1) * columns;
	for (; length >= least && before <= MOST_ENTRIES; length -= length / 4 + (length < 4)) {
		t->length = length;
		if (t->boundaries * (double)chain_table_ways(t) * columns > (double)work)
			continue;
		chain_table_set_length(t, length);
		if (entries_of(t) + before <= MOST_ENTRIES && work_of(t, columns) <= (double)work)
			return true;
	}
	return false;
}

/* Boundaries that fit the limit beside what a backward op needs. */
static uint64_t kept_at_once(const struct plan *k)
{
	const struct chain *c = k->table.chain;
	uint64_t sum = 0, n = k->table.boundaries;
	for (uint32_t s = 1; s <= n; s++)
		sum += c->stage[s].boundary_bytes / n;
	uint64_t fit = sum ? k->request->limit / sum : n;
	fit = fit > BESIDE ? fit - BESIDE : 1;
	return fit < n ? fit : n;
}

/*
 * Intervals with all ways where they can be several times as long as what lies between values that are kept, else with
 * some of the ways and half as long, or, where `any_length` is enough, shorter.
 */
static bool choose_ways(struct plan *k, bool any_length)
{
	struct chain_table *t = &k->table;
	uint64_t kept = kept_at_once(k) + 1, n = t->boundaries, least = LONG_ENOUGH * n / kept + FEWEST_LENGTH;
	least = least < n ? least : n;
	for (uint32_t sparse = 0; sparse < 2; sparse++) {
		t->sparse = sparse;
		uint64_t length = !sparse ? least : any_length ? FEWEST_LENGTH : least / 2;
		if (choose_length(t, k->request->work, t->limit + 1.0, (uint32_t)length))
			return true;
	}
	return false;
}

/*
 * A unit that divides the smallest boundary where that is larger: boundaries tend to be multiples of one another. Those
 * far below the mean do not count.
 */
static uint64_t unit_near(const struct chain *c, uint64_t unit)
{
	uint64_t smallest = UINT64_MAX, mean = 0;
	for (uint32_t s = 1; s < c->stages; s++)
		mean += c->stage[s].boundary_bytes / (c->stages - 1);
	for (uint32_t s = 1; s < c->stages; s++) {
		uint64_t bytes = c->stage[s].boundary_bytes;
		smallest = bytes && bytes >= mean / SMALL_PART && bytes < smallest ? bytes : smallest;
	}
	if (smallest == UINT64_MAX || smallest < unit)
		return unit;
	uint64_t parts = (smallest + unit - 1) / unit;
	return (smallest + parts - 1) / parts;
}

/* Whether boundaries counted in units, rounded up, are not much larger than in bytes. */
static bool loses_little(const struct chain_table *t)
{
	uint64_t bytes = 0, counted = 0;
	for (uint32_t s = 1; s <= t->boundaries; s++) {
		bytes += t->chain->stage[s].boundary_bytes;
		counted += t->stage[s].boundary * t->unit;
	}
	return counted - bytes <= bytes / LOSS_PART;
}

static bool choose_units(struct plan *k, bool any_length)
{
	struct chain_table *t = &k->table;
	uint64_t exact = chain_table_exact_unit(t), room = k->request->limit - t->chain->pinned_bytes;
	if (room / exact <= MOST_ENTRIES) {
		chain_table_count(t, exact, k->request->limit);
		if (choose_ways(k, any_length))
			return true;
	}
	for (uint32_t units = MOST_UNITS; units >= FEWEST_UNITS; units /= 2) {
		chain_table_count(t, unit_near(t->chain, room / units + 1), k->request->limit);
		if (t->unit > exact && loses_little(t) && choose_ways(k, any_length))
			return true;
	}
	t->sparse = false;
	return false;
}

/* ---- By memory ---- */

static void fill_before(struct plan *k)
{
	struct chain_table *t = &k->table;
	size_t width = (size_t)t->limit + 1;
	for (size_t i = 0; i < (t->boundaries + 1) * width; i++)
		k->before[i] = CHAIN_IMPOSSIBLE;
	for (uint32_t m = t->last; m <= t->limit; m++)
		k->before[t->boundaries * width + m] = 0;
	for (uint32_t i = t->boundaries; i-- > 0;) {
		struct way way = { 0 };
		while ((way = chain_table_next_way(t, i, chain_table_reach(t, i), way)).length) {
			float *to = k->before + i * width, *right = k->before + (i + way.length) * width;
			uint32_t from = larger(way.peak, way.kept);
			if (way.variant) {
				chain_table_relax_constant(to, right, way.after, 0, from, t->limit, way.kept);
				continue;
			}
			const float *left = chain_table_after(t, i, way.length);
			chain_table_relax(to, right, left, 0, from, t->cap, way.kept);
			chain_table_relax_constant(to, right, left[t->cap], 0, larger(from, t->cap + 1), t->limit,
						   way.kept);
		}
	}
}

static bool decide_by_memory(struct plan *k, uint32_t m)
{
	struct chain_table *t = &k->table;
	size_t width = (size_t)t->limit + 1;
	for (uint32_t i = 0; i < t->boundaries;) {
		struct way way = { 0 };
		while ((way = chain_table_next_way(t, i, chain_table_reach(t, i), way)).length) {
			if (m < larger(way.peak, way.kept))
				continue;
			float right = k->before[(i + way.length) * width + m - way.kept];
			float left =
				way.variant ? way.after : chain_table_after(t, i, way.length)[m < t->cap ? m : t->cap];
			if (right + left == k->before[i * width + m])
				break;
		}
		if (!way.length)
			return false;
		k->decision[k->decisions++] = (struct decision){ i, m, way };
		i += way.length;
		m -= way.kept;
	}
	return true;
}

static enum tarn_status plan_by_memory(struct plan *k, bool *found)
{
	struct chain_table *t = &k->table;
	k->before = HOST_ARRAY(t->arena, ((size_t)t->boundaries + 1) * ((size_t)t->limit + 1), float);
	if (!k->before || chain_table_fill(t))
		return TARN_ENOMEM;
	fill_before(k);
	uint32_t m = t->limit;
	*found = k->before[m] < CHAIN_IMPOSSIBLE / 2;
	while (*found && k->request->least && m && k->before[m - 1] < CHAIN_IMPOSSIBLE / 2)
		m--;
	*found = *found && decide_by_memory(k, m);
	return TARN_OK;
}

/* ---- By prices ---- */

/* Cost of a way when each way back has the memory of the longest interval; a unit that is kept costs `price`. */
static double priced(const struct chain_table *t, uint32_t i, const struct way *way, double price)
{
	double after = way->variant ? way->after : chain_table_after(t, i, way->length)[t->cap];
	return larger(way->peak, way->kept) > t->cap ? CHAIN_IMPOSSIBLE : after + price * way->kept;
}

static void fill_priced(struct plan *k, double price)
{
	const struct chain_table *t = &k->table;
	k->value[t->boundaries] = 0;
	for (uint32_t i = t->boundaries; i-- > 0;) {
		struct way way = { 0 };
		k->value[i] = CHAIN_IMPOSSIBLE;
		while ((way = chain_table_next_way(t, i, chain_table_reach(t, i), way)).length) {
			double value = priced(t, i, &way, price) + k->value[i + way.length];
			k->value[i] = value < k->value[i] ? value : k->value[i];
		}
	}
}

/* The decisions at the price; units that they keep, or UINT64_MAX. */
static uint64_t decide_by_price(struct plan *k, double price)
{
	const struct chain_table *t = &k->table;
	uint64_t kept = 0;
	fill_priced(k, price);
	k->decisions = 0;
	for (uint32_t i = 0; i < t->boundaries;) {
		struct way way = { 0 };
		while ((way = chain_table_next_way(t, i, chain_table_reach(t, i), way)).length)
			if (priced(t, i, &way, price) + k->value[i + way.length] == k->value[i])
				break;
		if (!way.length || k->value[i] >= CHAIN_IMPOSSIBLE / 2)
			return UINT64_MAX;
		k->decision[k->decisions++] = (struct decision){ i, t->cap, way };
		kept += way.kept;
		i += way.length;
	}
	return kept;
}

static struct way way_to(const struct chain_table *t, uint32_t i, uint32_t length)
{
	struct way way = { 0 };
	while (way.length < length)
		way = chain_table_next_way(t, i, length, way);
	return way;
}

/*
 * Goes over from the decisions to the others, which keep too much, as early as the memory allows; where they do not
 * meet, over a way between.
 */
static void join_decisions(struct plan *k, uint64_t most)
{
	const struct chain_table *t = &k->table;
	uint64_t before = 0, after = 0;
	uint32_t left = k->decisions, best = k->others, best_left = left;
	for (uint32_t d = 0; d < left; d++)
		before += k->decision[d].way.kept;
	for (uint32_t other = k->others; other-- > 0;) {
		uint32_t at = k->other[other].boundary;
		after += k->other[other].way.kept;
		while (left && k->decision[left - 1].boundary + k->decision[left - 1].way.length > at)
			before -= k->decision[--left].way.kept;
		uint32_t end = left ? k->decision[left - 1].boundary + k->decision[left - 1].way.length : 0;
		uint64_t between = end < at ? t->stage[at].boundary : 0;
		if (at - end > chain_table_reach(t, end) || before + between + after > most)
			continue;
		best = other;
		best_left = left;
	}
	if (best == k->others)
		return;
	uint32_t at = k->other[best].boundary;
	uint32_t end = best_left ? k->decision[best_left - 1].boundary + k->decision[best_left - 1].way.length : 0;
	k->decisions = best_left;
	if (end < at)
		k->decision[k->decisions++] = (struct decision){ end, t->cap, way_to(t, end, at - end) };
	memcpy(k->decision + k->decisions, k->other + best, (k->others - best) * sizeof *k->decision);
	k->decisions += k->others - best;
}

/*
 * Long chains: each way back has a fixed memory, that of the longest interval, and what is kept fits in the rest. The
 * price of a byte at which that is so is found by bisection; what just fits and what just does not are joined. That
 * comes close to the optimum where values are small beside the limit.
 */
static enum tarn_status plan_by_price(struct plan *k, uint32_t length, bool *found)
{
	struct chain_table *t = &k->table;
	*found = false;
	chain_table_count(t, chain_table_exact_unit(t), k->request->limit);
	chain_table_set_length(t, length < t->boundaries ? length : t->boundaries);
	if (t->cap > PRICED_UNITS) {
		chain_table_count(t, t->unit * (t->cap / PRICED_UNITS + 1), k->request->limit);
		chain_table_set_length(t, t->length);
	}
	if (entries_of(t) > MOST_ENTRIES || work_of(t, 0) > (double)k->request->work)
		return TARN_OK;
	if (chain_table_fill(t))
		return TARN_ENOMEM;
	double low = 0, high = 1;
	for (uint32_t s = 1; s <= t->boundaries; s++)
		high += t->stage[s].forward_cost;
	uint32_t beside = larger(t->cap, t->last);
	uint64_t most = t->limit - beside;
	if (t->limit < beside || decide_by_price(k, high) > most)
		return TARN_OK;
	for (uint32_t step = 0; step < PRICE_STEPS; step++) {
		double price = low + (high - low) / (step < PRICE_STEPS / 2 ? 16 : 2);
		if (decide_by_price(k, price) > most)
			low = price;
		else
			high = price;
	}
	*found = true;
	if (decide_by_price(k, low) <= most)
		return TARN_OK;
	memcpy(k->other, k->decision, k->decisions * sizeof *k->decision);
	k->others = k->decisions;
	decide_by_price(k, high);
	join_decisions(k, most);
	return TARN_OK;
}

/* ---- The schedule ---- */

static void write_schedule(struct plan *k)
{
	struct chain_table *t = &k->table;
	for (uint32_t i = 0; i < k->decisions && !t->failed; i++)
		chain_table_run_first(t, k->decision[i].boundary, &k->decision[i].way);
	chain_table_run_last(t);
	for (uint32_t i = k->decisions; i-- > 0 && !t->failed;)
		chain_table_run_back(t, k->decision[i].boundary, &k->decision[i].way, k->decision[i].memory);
}

static bool cannot_fit(const struct chain *chain, uint64_t limit)
{
	uint64_t room = limit > chain->pinned_bytes ? limit - chain->pinned_bytes : 0;
	bool fits = room >= chain->last_bytes;
	for (uint32_t s = 1; s < chain->stages && fits; s++)
		fits = chain->stage[s].beside_bytes <= room && chain->stage[s].gradient_bytes <= room;
	return !fits;
}

static enum tarn_status find_plan(struct plan *k, bool *found)
{
	if (choose_units(k, false) || choose_units(k, true))
		return plan_by_memory(k, found);
	/* Long intervals leave less for what is kept, and are needed when little can be kept. */
	enum tarn_status st = TARN_OK;
	for (uint32_t length = FEWEST_LENGTH; !st && !*found && length <= 8 * FEWEST_LENGTH; length *= 2)
		st = plan_by_price(k, length, found);
	return st;
}

enum tarn_status chain_plan(struct chain *chain, const struct chain_request *request, struct host_arena *arena,
			    uint32_t *step, uint32_t *steps)
{
	struct host_mark mark = host_arena_mark(arena);
	struct plan k = { .request = request };
	bool found = false;
	*steps = 0;
	if (!chain->stages || cannot_fit(chain, request->limit))
		return TARN_OK;
	enum tarn_status st = chain_table_init(&k.table, chain, arena);
	k.decision = HOST_ARRAY(arena, (size_t)chain->stages + 1, struct decision);
	k.other = HOST_ARRAY(arena, (size_t)chain->stages + 1, struct decision);
	k.value = HOST_ARRAY(arena, (size_t)chain->stages + 1, double);
	k.table.step = step;
	k.table.max_steps = request->max_steps;
	if (!st && k.decision && k.other && k.value)
		st = find_plan(&k, &found);
	else
		st = TARN_ENOMEM;
	if (!st && found) {
		write_schedule(&k);
		*steps = k.table.failed ? 0 : k.table.steps;
	}
	host_arena_release(arena, mark);
	return st;
}
