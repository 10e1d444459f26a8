/* chain_table.c - intervals of a chain, shortest first, and the runs they stand for. */
#include "planner/chain_table.h"

#include <string.h>

/* Distances at which stages are looked for that repeat. */
#define MOST_PERIOD 64u
/* All ways up to this length are tried. */
#define DENSE_LENGTH 32u

static float *cell(const struct chain_table *k, float *table, uint32_t i, uint32_t length)
{
	while (length <= k->shared[i])
		i = k->twin[i];
	return table + (k->first_cell[i] + length - k->shared[i] - 1) * ((size_t)k->cap + 1);
}

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* ---- Units ---- */

static uint64_t divisor_of(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

uint64_t chain_table_exact_unit(struct chain_table *k)
{
	const struct chain *c = k->chain;
	uint64_t bytes = c->last_bytes, time = 0;
	for (uint32_t s = 1; s < c->stages; s++) {
		const struct chain_stage *stage = &c->stage[s];
		uint64_t size[] = { stage->boundary_bytes, stage->beside_bytes,      stage->forward_bytes,
				    stage->gradient_bytes, stage->backward_bytes[0], stage->backward_bytes[1] };
		for (uint32_t i = 0; i < sizeof size / sizeof *size; i++)
			bytes = divisor_of(bytes, size[i]);
		time = divisor_of(divisor_of(time, stage->forward_ns),
				  divisor_of(stage->repeat_ns[0], stage->repeat_ns[1]));
	}
	for (uint32_t i = 0; i < c->variants; i++) {
		const struct chain_variant *v = &c->variant[i];
		bytes = divisor_of(divisor_of(bytes, v->kept_bytes), divisor_of(v->forward_bytes, v->backward_bytes));
		time = divisor_of(time, divisor_of(v->forward_ns, v->repeat_ns));
	}
	k->time_unit = time ? time : 1;
	return bytes ? bytes : 1;
}

/* Rounded up, and no larger than what is too large anyhow. */
static uint32_t units_of(const struct chain_table *k, uint64_t bytes)
{
	uint64_t units = bytes / k->unit + (bytes % k->unit != 0);
	return units < UINT32_MAX / 4 ? (uint32_t)units : UINT32_MAX / 4;
}

static float time_of(const struct chain_table *k, uint64_t ns)
{
	return (float)(ns / k->time_unit);
}

void chain_table_count(struct chain_table *k, uint64_t unit, uint64_t limit)
{
	const struct chain *c = k->chain;
	k->unit = unit;
	k->limit = (uint32_t)((limit - c->pinned_bytes) / unit);
	k->last = units_of(k, c->last_bytes);
	k->ends = false;
	for (uint32_t s = 1; s <= k->boundaries; s++) {
		const struct chain_stage *from = &c->stage[s];
		struct stage_units *to = &k->stage[s];
		to->likeness = from->likeness;
		to->boundary = units_of(k, from->boundary_bytes);
		to->beside = units_of(k, from->beside_bytes);
		to->forward = units_of(k, from->forward_bytes);
		to->gradient = units_of(k, from->gradient_bytes);
		to->forward_cost = time_of(k, from->forward_ns);
		for (uint32_t i = 0; i < 2; i++) {
			to->backward[i] = units_of(k, from->backward_bytes[i]);
			to->repeat_cost[i] = time_of(k, from->repeat_ns[i]);
		}
		to->reads_boundary = from->reads_boundary;
		k->ends |= from->reads_boundary;
	}
	for (uint32_t i = 0; i < c->variants; i++) {
		const struct chain_variant *v = &c->variant[i];
		k->variant[i] = (struct variant_units){ units_of(k, v->kept_bytes), units_of(k, v->forward_bytes),
							units_of(k, v->backward_bytes), time_of(k, v->forward_ns),
							time_of(k, v->repeat_ns) };
	}
}

/* ---- Sizes of the tables ---- */

uint32_t chain_table_reach(const struct chain_table *k, uint32_t i)
{
	return k->boundaries - i < k->length ? k->boundaries - i : k->length;
}

/*
 * Intervals over stages that are the same are the same. Each boundary gets a twin before it and the longest interval
 * that they share; where another length differs, because the stages at the end of the chain are others, say, only that
 * needs a table of its own.
 */
static void find_twins(struct chain_table *k)
{
	uint32_t n = k->boundaries;
	memset(k->shared, 0, n * sizeof *k->shared);
	for (uint32_t period = 1; period <= MOST_PERIOD && period < n; period++) {
		uint32_t repeats = 0;
		for (uint32_t i = n; i-- > period;) {
			bool same = !memcmp(&k->stage[i + 1], &k->stage[i + 1 - period], sizeof *k->stage);
			repeats = same ? repeats + 1 : 0;
			uint32_t reach = chain_table_reach(k, i), shared = repeats < reach ? repeats : reach;
			if (shared > k->shared[i]) {
				k->shared[i] = shared;
				k->twin[i] = i - period;
			}
		}
	}
	k->cells = k->owners = 0;
	for (uint32_t i = 0; i < n; i++) {
		while (k->shared[i] && k->shared[k->twin[i]] >= k->shared[i])
			k->twin[i] = k->twin[k->twin[i]];
		k->first_cell[i] = k->cells;
		k->cells += chain_table_reach(k, i) - k->shared[i];
		if (chain_table_reach(k, i) > k->shared[i])
			k->owner[k->owners++] = i;
	}
}

/* What the first variant of a stage keeps: all that is read later. */
static uint32_t kept_by_all(const struct chain_table *k, uint32_t s)
{
	const struct chain_stage *stage = &k->chain->stage[s];
	return stage->variants ? k->variant[stage->first_variant].kept : k->stage[s].boundary;
}

/* More memory than any interval can use: all of it kept, and the largest transients. */
static void find_cap(struct chain_table *k)
{
	uint64_t window = 0, most = 0, transient = 0;
	uint32_t last_kept = 0;
	for (uint32_t i = 0; i < k->chain->variants; i++) {
		uint32_t own = larger(k->variant[i].forward, k->variant[i].backward);
		transient = own > transient ? own : transient;
	}
	for (uint32_t s = 1; s <= k->boundaries; s++) {
		const struct stage_units *stage = &k->stage[s];
		uint32_t kept = kept_by_all(k, s);
		window += kept;
		if (s > k->length)
			window -= kept_by_all(k, s - k->length);
		most = window > most ? window : most;
		uint32_t own =
			larger(larger(stage->beside, stage->forward), larger(stage->backward[0], stage->backward[1]));
		transient = own + stage->gradient > transient ? own + stage->gradient : transient;
		last_kept = larger(last_kept, kept);
	}
	uint64_t cap = most + transient + last_kept;
	k->cap = cap < k->limit ? (uint32_t)cap : k->limit;
}

void chain_table_set_length(struct chain_table *k, uint32_t length)
{
	k->length = length;
	find_twins(k);
	find_cap(k);
}

enum tarn_status chain_table_init(struct chain_table *k, struct chain *chain, struct host_arena *arena)
{
	uint32_t n = chain->stages - 1;
	*k = (struct chain_table){
		.chain = chain,
		.arena = arena,
		.stage = HOST_ARRAY(arena, (size_t)n + 1, struct stage_units),
		.variant = HOST_ARRAY(arena, (size_t)chain->variants + 1, struct variant_units),
		.boundaries = n,
		.twin = HOST_ARRAY(arena, (size_t)n + 1, uint32_t),
		.shared = HOST_ARRAY(arena, (size_t)n + 1, uint32_t),
		.owner = HOST_ARRAY(arena, (size_t)n + 1, uint32_t),
		.first_cell = HOST_ARRAY(arena, (size_t)n + 1, size_t),
		.list = HOST_ARRAY(arena, (size_t)chain->dependence->problem->ops + 1, uint32_t),
	};
	bool all = k->stage && k->variant && k->twin && k->shared && k->owner && k->first_cell && k->list;
	return all ? TARN_OK : TARN_ENOMEM;
}

/* ---- Ways on ---- */

/* Lengths that are tried where not all can be: short ones, and eight between one power of two and the next. */
static bool is_round(uint32_t length)
{
	uint32_t power = DENSE_LENGTH;
	while (2 * power <= length)
		power *= 2;
	return length <= DENSE_LENGTH || length % (power / 8) == 0;
}

uint32_t chain_table_ways(const struct chain_table *k)
{
	uint32_t ways = k->length < DENSE_LENGTH || !k->sparse ? k->length : DENSE_LENGTH;
	for (uint32_t length = DENSE_LENGTH; k->sparse && length < k->length; length *= 2)
		ways += 8;
	return ways;
}

struct way chain_table_next_way(const struct chain_table *k, uint32_t i, uint32_t most, struct way at)
{
	const struct chain_stage *first = &k->chain->stage[i + 1];
	if (!at.variant && at.length < most) {
		do {
			const struct stage_units *stage = &k->stage[i + at.length + 1];
			at.peak = at.length ? larger(at.peak, stage->forward) : stage->beside;
			at.cost += stage->forward_cost;
			at.kept = stage->boundary;
			at.length++;
		} while (at.length < most && k->sparse && !is_round(at.length));
		return at;
	}
	if (at.variant >= first->variants)
		return (struct way){ 0 };
	uint32_t number = first->first_variant + at.variant;
	const struct variant_units *v = &k->variant[number];
	/* They come by the number of stages they span. */
	if (k->chain->variant[number].stages > most)
		return (struct way){ 0 };
	return (struct way){ .length = k->chain->variant[number].stages,
			     .variant = at.variant + 1,
			     .kept = v->kept,
			     .peak = larger(larger(v->forward, v->backward), v->kept),
			     .cost = v->forward_cost,
			     .after = v->repeat_cost };
}

/* to[m] = min(to[m], right[m - shift] + left[m] + cost) for from <= m <= last */
void chain_table_relax(float *restrict to, const float *restrict right, const float *restrict left, float cost,
		       uint32_t from, uint32_t last, uint32_t shift)
{
	right -= shift;
#pragma omp simd
	for (uint32_t m = from; m <= last; m++) {
		float value = right[m] + left[m] + cost;
		to[m] = value < to[m] ? value : to[m];
	}
}

void chain_table_relax_constant(float *restrict to, const float *restrict right, float left, float cost, uint32_t from,
				uint32_t last, uint32_t shift)
{
	right -= shift;
#pragma omp simd
	for (uint32_t m = from; m <= last; m++) {
		float value = right[m] + left + cost;
		to[m] = value < to[m] ? value : to[m];
	}
}

/* Least memory of a way in an interval that ends at boundary j, which is there if `end`. */
static uint32_t least_of(const struct chain_table *k, const struct way *way, uint32_t j, bool end)
{
	const struct stage_units *last = &k->stage[j];
	uint32_t beside = last->gradient + (end ? last->boundary : 0);
	return larger(way->peak + beside, way->kept);
}

static void fill_interval(struct chain_table *k, uint32_t i, uint32_t length, bool end)
{
	uint32_t j = i + length;
	float *table = end ? k->e : k->c, *to = cell(k, table, i, length);
	const struct stage_units *first = &k->stage[i + 1];
	if (length == 1) {
		for (uint32_t m = first->backward[end]; m <= k->cap; m++)
			to[m] = first->repeat_cost[end];
		return;
	}
	struct way way = { 0 };
	while ((way = chain_table_next_way(k, i, length - 1, way)).length) {
		const float *right = cell(k, table, i + way.length, length - way.length);
		uint32_t from = least_of(k, &way, j, end);
		if (way.variant)
			chain_table_relax_constant(to, right, way.after, way.cost, from, k->cap, way.kept);
		else
			chain_table_relax(to, right, cell(k, k->e, i, way.length), way.cost, from, k->cap, way.kept);
	}
}

/* The way all through an interval, which ends with its last boundary there. */
static struct way way_through(const struct chain_table *k, uint32_t i, uint32_t length)
{
	struct way way = { 0 };
	while (way.length < length)
		way = chain_table_next_way(k, i, length, way);
	return way;
}

static void fill_intervals(struct chain_table *k)
{
	for (uint32_t length = 1; length <= k->length; length++)
		for (uint32_t o = 0; o < k->owners; o++) {
			uint32_t i = k->owner[o];
			if (length > chain_table_reach(k, i) || length <= k->shared[i])
				continue;
			fill_interval(k, i, length, false);
			if (!k->ends)
				continue;
			float *c = cell(k, k->c, i, length), *e = cell(k, k->e, i, length);
			if (k->stage[i + length].reads_boundary) {
				struct way through = way_through(k, i, length);
				fill_interval(k, i, length, true);
				chain_table_relax_constant(c, e, 0, through.cost,
							   least_of(k, &through, i + length, false), k->cap, 0);
			}
			for (uint32_t m = 0; m <= k->cap; m++)
				e[m] = c[m] < e[m] ? c[m] : e[m];
		}
}

enum tarn_status chain_table_fill(struct chain_table *k)
{
	size_t entries = k->cells * ((size_t)k->cap + 1);
	k->c = HOST_ARRAY(k->arena, entries, float);
	k->e = k->ends ? HOST_ARRAY(k->arena, entries, float) : k->c;
	if (!k->c || !k->e)
		return TARN_ENOMEM;
	for (size_t i = 0; i < entries; i++)
		k->c[i] = k->e[i] = CHAIN_IMPOSSIBLE;
	fill_intervals(k);
	return TARN_OK;
}

const float *chain_table_after(const struct chain_table *k, uint32_t i, uint32_t length)
{
	return cell(k, k->e, i, length);
}

/* ---- The schedule ---- */

static void run_ops(struct chain_table *k, const uint32_t *op, uint32_t ops)
{
	if (ops > k->max_steps - k->steps) {
		k->failed = true;
		return;
	}
	memcpy(k->step + k->steps, op, ops * sizeof *op);
	k->steps += ops;
}

static const struct chain_variant *variant_of(const struct chain_table *k, uint32_t i, const struct way *way)
{
	return way->variant ? &k->chain->variant[k->chain->stage[i + 1].first_variant + way->variant - 1] : NULL;
}

static void run_forward(struct chain_table *k, uint32_t i, const struct way *way)
{
	run_ops(k, k->list, chain_forward(k->chain, i + 1, way->length, variant_of(k, i, way), k->list));
}

static void run_variant_back(struct chain_table *k, uint32_t i, const struct way *way)
{
	run_ops(k, k->list, chain_backward(k->chain, i + 1, way->length, variant_of(k, i, way), false, k->list));
}

/* The way that has the value of the table. False when none has: the value is that of another table. */
static bool find_way(const struct chain_table *k, uint32_t i, uint32_t length, uint32_t m, bool end, float value,
		     struct way *out)
{
	float *table = end ? k->e : k->c;
	struct way way = { 0 };
	while ((way = chain_table_next_way(k, i, length - 1, way)).length) {
		if (m < least_of(k, &way, i + length, end))
			continue;
		float right = cell(k, table, i + way.length, length - way.length)[m - way.kept];
		float left = way.variant ? way.after : cell(k, k->e, i, way.length)[m];
		*out = way;
		if (right + left + way.cost == value)
			return true;
	}
	return false;
}

static void run_interval(struct chain_table *k, uint32_t i, uint32_t length, uint32_t m, bool end)
{
	struct way way;
	if (k->failed)
		return;
	float value = cell(k, end ? k->e : k->c, i, length)[m];
	const struct stage_units *first = &k->stage[i + 1];
	end = end && k->stage[i + length].reads_boundary;
	if (length == 1 && m >= first->backward[end] && value == first->repeat_cost[end]) {
		run_ops(k, k->list, chain_backward(k->chain, i + 1, 1, NULL, end, k->list));
	} else if (length > 1 && find_way(k, i, length, m, end, value, &way)) {
		run_forward(k, i, &way);
		run_interval(k, i + way.length, length - way.length, m - way.kept, end);
		if (way.variant)
			run_variant_back(k, i, &way);
		else
			run_interval(k, i, way.length, m, true);
	} else if (end) {
		run_interval(k, i, length, m, false);
	} else {
		way = way_through(k, i, length);
		run_forward(k, i, &way);
		run_interval(k, i, length, m, true);
	}
}

void chain_table_run_first(struct chain_table *k, uint32_t i, const struct way *way)
{
	for (uint32_t s = i + 1; s <= i + way->length; s++)
		run_ops(k, k->chain->forward + k->chain->stage[s].first_forward, k->chain->stage[s].forwards);
}

void chain_table_run_back(struct chain_table *k, uint32_t i, const struct way *way, uint32_t m)
{
	if (way->variant)
		run_variant_back(k, i, way);
	else
		run_interval(k, i, way->length, m < k->cap ? m : k->cap, true);
}

void chain_table_run_last(struct chain_table *k)
{
	const struct chain_stage *last = &k->chain->stage[k->chain->stages];
	run_ops(k, k->chain->forward + last->first_forward, last->forwards);
	run_ops(k, k->chain->backward + last->first_backward, last->backwards);
}
