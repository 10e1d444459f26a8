/* chain_plan.c - the dynamic programme over a chain, and the schedule it stands for. */
#include "planner/chain_plan.h"

#include <string.h>

#define IMPOSSIBLE 1e30f
/* Entries of the tables, of four bytes each. */
#define MOST_ENTRIES 40000000u
/* Distances at which stages are looked for that repeat. */
#define MOST_PERIOD 64u
/* Shortest and longest intervals that tables are made for. */
#define FEWEST_LENGTH 8u
#define MOST_LENGTH 4096u
/* Units that the limit is cut into where the common divisor is too small. */
#define MOST_UNITS 4096u
#define FEWEST_UNITS 64u

struct variant_units {
	uint32_t kept, forward, backward;
	float forward_cost, repeat_cost;
};

/* A stage in units of memory and of time. */
struct stage_units {
	uint32_t boundary, beside, forward, gradient, backward[2];
	float forward_cost, repeat_cost[2];
	uint32_t reads_boundary, variants;
	struct variant_units variant[CHAIN_VARIANTS];
};

struct tables {
	struct chain *chain;
	struct host_arena *arena;
	struct stage_units *stage; /* [boundaries + 1] */
	uint32_t boundaries;       /* the last stage comes after the last of them */
	uint64_t unit, time_unit;
	uint32_t limit, last; /* in units: of the peak, without what is pinned; of the last stage */
	uint32_t length;      /* of the longest interval */
	uint32_t cap;         /* more memory than this is of no use to an interval */
	uint32_t *row;      /* [boundaries]: number of the table of intervals from here; stages that repeat share it */
	uint32_t *repeats;  /* [boundaries + 1] scratch */
	uint32_t *first_of; /* [rows]: a boundary with the row */
	uint32_t rows;
	bool ends;    /* some stage reads its own boundary */
	float *c, *e; /* [rows][length][cap + 1]: without and with the boundary at the end there */
	float *t;     /* [boundaries + 1][limit + 1]: before the loss */

	uint32_t *step, steps, max_steps;
	uint32_t *list;
	bool failed;
};

static float *cell(const struct tables *k, float *table, uint32_t i, uint32_t length)
{
	return table + ((size_t)k->row[i] * k->length + length - 1) * ((size_t)k->cap + 1);
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

static void find_divisors(const struct chain *c, uint64_t *bytes, uint64_t *time)
{
	*bytes = c->last_bytes;
	*time = 0;
	for (uint32_t s = 1; s < c->stages; s++) {
		const struct chain_stage *stage = &c->stage[s];
		uint64_t size[] = { stage->boundary_bytes, stage->beside_bytes,      stage->forward_bytes,
				    stage->gradient_bytes, stage->backward_bytes[0], stage->backward_bytes[1] };
		for (uint32_t i = 0; i < sizeof size / sizeof *size; i++)
			*bytes = divisor_of(*bytes, size[i]);
		*time = divisor_of(*time, divisor_of(stage->forward_ns, stage->repeat_ns[0]));
		*time = divisor_of(*time, stage->repeat_ns[1]);
		for (uint32_t i = 0; i < stage->variants; i++) {
			const struct chain_variant *v = &stage->variant[i];
			*bytes = divisor_of(divisor_of(*bytes, v->kept_bytes),
					    divisor_of(v->forward_bytes, v->backward_bytes));
			*time = divisor_of(*time, divisor_of(v->forward_ns, v->repeat_ns));
		}
	}
	*bytes = *bytes ? *bytes : 1;
	*time = *time ? *time : 1;
}

/* Rounded up, and no larger than what is too large anyhow. */
static uint32_t units_of(const struct tables *k, uint64_t bytes)
{
	uint64_t units = bytes / k->unit + (bytes % k->unit != 0);
	return units < UINT32_MAX / 4 ? (uint32_t)units : UINT32_MAX / 4;
}

static float time_of(const struct tables *k, uint64_t ns)
{
	return (float)(ns / k->time_unit);
}

static void count_units(struct tables *k, uint64_t limit)
{
	const struct chain *c = k->chain;
	k->limit = (uint32_t)((limit - c->pinned_bytes) / k->unit);
	k->last = units_of(k, c->last_bytes);
	k->ends = false;
	for (uint32_t s = 1; s <= k->boundaries; s++) {
		const struct chain_stage *from = &c->stage[s];
		struct stage_units *to = &k->stage[s];
		memset(to, 0, sizeof *to); /* stages are compared as bytes */
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
		to->variants = from->variants;
		for (uint32_t i = 0; i < from->variants; i++) {
			const struct chain_variant *v = &from->variant[i];
			to->variant[i] =
				(struct variant_units){ units_of(k, v->kept_bytes), units_of(k, v->forward_bytes),
							units_of(k, v->backward_bytes), time_of(k, v->forward_ns),
							time_of(k, v->repeat_ns) };
		}
	}
}

/* ---- Sizes of the tables ---- */

static uint32_t interval_from(const struct tables *k, uint32_t i)
{
	return k->boundaries - i < k->length ? k->boundaries - i : k->length;
}

/* Gives each boundary the row of one before it from which the same stages follow. */
static void find_rows(struct tables *k)
{
	uint32_t n = k->boundaries;
	memset(k->row, 0xff, n * sizeof *k->row);
	for (uint32_t period = 1; period <= MOST_PERIOD && period < n; period++) {
		k->repeats[n] = 0;
		for (uint32_t i = n; i-- > period;) {
			bool same = !memcmp(&k->stage[i + 1], &k->stage[i + 1 - period], sizeof *k->stage);
			k->repeats[i] = same ? k->repeats[i + 1] + 1 : 0;
			if (k->row[i] == UINT32_MAX && k->repeats[i] >= interval_from(k, i))
				k->row[i] = i - period; /* its row, once that is known */
		}
	}
	k->rows = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (k->row[i] == UINT32_MAX) {
			k->first_of[k->rows] = i;
			k->row[i] = k->rows++;
		} else {
			k->row[i] = k->row[k->row[i]];
		}
	}
}

/* More memory than any interval can use: all of it kept, and the largest transients. */
static void find_cap(struct tables *k)
{
	uint64_t window = 0, most = 0, transient = 0;
	uint32_t last_kept = 0;
	for (uint32_t s = 1; s <= k->boundaries; s++) {
		const struct stage_units *stage = &k->stage[s];
		uint32_t kept = stage->variants ? stage->variant[0].kept : stage->boundary;
		window += kept;
		if (s > k->length) {
			const struct stage_units *left = &k->stage[s - k->length];
			window -= left->variants ? left->variant[0].kept : left->boundary;
		}
		most = window > most ? window : most;
		uint32_t own =
			larger(larger(stage->beside, stage->forward), larger(stage->backward[0], stage->backward[1]));
		for (uint32_t i = 0; i < stage->variants; i++)
			own = larger(own, larger(stage->variant[i].forward, stage->variant[i].backward));
		transient = own + stage->gradient > transient ? own + stage->gradient : transient;
		last_kept = larger(last_kept, kept);
	}
	uint64_t cap = most + transient + last_kept;
	k->cap = cap < k->limit ? (uint32_t)cap : k->limit;
}

static double entries_of(const struct tables *k)
{
	return (double)k->rows * k->length * (k->cap + 1.0) * (k->ends ? 2 : 1) +
	       ((double)k->boundaries + 1) * (k->limit + 1.0);
}

static double work_of(const struct tables *k)
{
	return ((double)k->rows * k->length * k->length * (k->cap + 1.0) * (k->ends ? 2 : 1)) / 2 +
	       (double)k->boundaries * k->length * (k->limit + 1.0);
}

/* The longest intervals that the work allows; false when not even short ones. */
static bool choose_length(struct tables *k, uint64_t work)
{
	uint32_t length = k->boundaries < MOST_LENGTH ? k->boundaries : MOST_LENGTH;
	for (;; length -= length / 4) {
		k->length = length;
		find_rows(k);
		find_cap(k);
		if (entries_of(k) <= MOST_ENTRIES && work_of(k) <= (double)work)
			return true;
		if (length <= FEWEST_LENGTH)
			return false;
	}
}

static bool choose_sizes(struct tables *k, const struct chain_request *request)
{
	uint64_t exact, room = request->limit - k->chain->pinned_bytes;
	find_divisors(k->chain, &exact, &k->time_unit);
	k->unit = exact;
	if (room / exact <= UINT32_MAX / 4) {
		count_units(k, request->limit);
		if (choose_length(k, request->work))
			return true;
	}
	for (uint32_t units = MOST_UNITS; units >= FEWEST_UNITS; units /= 2) {
		k->unit = room / units + 1;
		count_units(k, request->limit);
		if (k->unit > exact && choose_length(k, request->work))
			return true;
	}
	return false;
}

static enum tarn_status tables_init(struct tables *k)
{
	size_t intervals = (size_t)k->rows * k->length * ((size_t)k->cap + 1);
	size_t before = ((size_t)k->boundaries + 1) * ((size_t)k->limit + 1);
	k->c = HOST_ARRAY(k->arena, intervals, float);
	k->e = k->ends ? HOST_ARRAY(k->arena, intervals, float) : k->c;
	k->t = HOST_ARRAY(k->arena, before, float);
	if (!k->c || !k->e || !k->t)
		return TARN_ENOMEM;
	for (size_t i = 0; i < intervals; i++)
		k->c[i] = k->e[i] = IMPOSSIBLE;
	for (size_t i = 0; i < before; i++)
		k->t[i] = IMPOSSIBLE;
	return TARN_OK;
}

/* ---- Ways on ---- */

/* What the next decision is: forward to boundary i + length, or one stage of which a variant is kept. */
struct way {
	uint32_t length;  /* 0: no further way */
	uint32_t variant; /* 1 + its number, or 0 */
	uint32_t kept;    /* units that stay while what lies beyond is done */
	uint32_t peak;    /* without gradients */
	float cost;       /* of the forward runs */
	float after;      /* of the backward part, when a variant is kept */
};

/* The first way from boundary i has length 1. Ways to boundaries up to i + most come before those that keep variants.
 */
static struct way next_way(const struct tables *k, uint32_t i, uint32_t most, struct way at)
{
	const struct stage_units *first = &k->stage[i + 1];
	if (!at.variant && at.length < most) {
		const struct stage_units *stage = &k->stage[i + at.length + 1];
		at.peak = at.length ? larger(at.peak, stage->forward) : stage->beside;
		at.cost += stage->forward_cost;
		at.kept = stage->boundary;
		at.length++;
		return at;
	}
	if (at.variant >= first->variants)
		return (struct way){ 0 };
	const struct variant_units *v = &first->variant[at.variant];
	return (struct way){ .length = 1,
			     .variant = at.variant + 1,
			     .kept = v->kept,
			     .peak = larger(larger(v->forward, v->backward), v->kept),
			     .cost = v->forward_cost,
			     .after = v->repeat_cost };
}

/* to[m] = min(to[m], right[m - shift] + left[m] + cost) for from <= m <= last */
static void relax(float *restrict to, const float *restrict right, const float *restrict left, float cost,
		  uint32_t from, uint32_t last, uint32_t shift)
{
	right -= shift;
#pragma omp simd
	for (uint32_t m = from; m <= last; m++) {
		float value = right[m] + left[m] + cost;
		to[m] = value < to[m] ? value : to[m];
	}
}

static void relax_constant(float *restrict to, const float *restrict right, float left, float cost, uint32_t from,
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
static uint32_t least_of(const struct tables *k, const struct way *way, uint32_t j, bool end)
{
	const struct stage_units *last = &k->stage[j];
	uint32_t beside = last->gradient + (end ? last->boundary : 0);
	return larger(way->peak + beside, way->kept);
}

static void fill_interval(struct tables *k, uint32_t i, uint32_t length, bool end)
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
	while ((way = next_way(k, i, length - 1, way)).length) {
		const float *right = cell(k, table, i + way.length, length - way.length);
		uint32_t from = least_of(k, &way, j, end);
		if (way.variant)
			relax_constant(to, right, way.after, way.cost, from, k->cap, way.kept);
		else
			relax(to, right, cell(k, k->e, i, way.length), way.cost, from, k->cap, way.kept);
	}
}

/* The way all through an interval, which ends with its last boundary there. */
static struct way way_through(const struct tables *k, uint32_t i, uint32_t length)
{
	struct way way = { 0 };
	while (way.length < length)
		way = next_way(k, i, length, way);
	return way;
}

static void fill_intervals(struct tables *k)
{
	static const float nothing = 0;
	for (uint32_t length = 1; length <= k->length; length++)
		for (uint32_t r = 0; r < k->rows; r++) {
			uint32_t i = k->first_of[r];
			if (length > k->boundaries - i)
				continue;
			fill_interval(k, i, length, false);
			if (!k->ends)
				continue;
			float *c = cell(k, k->c, i, length), *e = cell(k, k->e, i, length);
			if (k->stage[i + length].reads_boundary) {
				struct way through = way_through(k, i, length);
				fill_interval(k, i, length, true);
				relax_constant(c, e, nothing, through.cost, least_of(k, &through, i + length, false),
					       k->cap, 0);
			}
			for (uint32_t m = 0; m <= k->cap; m++)
				e[m] = c[m] < e[m] ? c[m] : e[m];
		}
}

static void fill_before_loss(struct tables *k)
{
	size_t width = (size_t)k->limit + 1;
	for (uint32_t m = k->last; m <= k->limit; m++)
		k->t[k->boundaries * width + m] = 0;
	for (uint32_t i = k->boundaries; i-- > 0;) {
		struct way way = { 0 };
		while ((way = next_way(k, i, interval_from(k, i), way)).length) {
			float *to = k->t + i * width, *right = k->t + (i + way.length) * width;
			uint32_t from = larger(way.peak, way.kept);
			if (way.variant) {
				relax_constant(to, right, way.after, 0, from, k->limit, way.kept);
				continue;
			}
			const float *left = cell(k, k->e, i, way.length);
			relax(to, right, left, 0, from, k->cap, way.kept);
			relax_constant(to, right, left[k->cap], 0, larger(from, k->cap + 1), k->limit, way.kept);
		}
	}
}

/* ---- The schedule ---- */

static void run_ops(struct tables *k, const uint32_t *op, uint32_t ops)
{
	if (ops > k->max_steps - k->steps) {
		k->failed = true;
		return;
	}
	memcpy(k->step + k->steps, op, ops * sizeof *op);
	k->steps += ops;
}

static const struct chain_variant *variant_of(const struct tables *k, uint32_t i, const struct way *way)
{
	return way->variant ? &k->chain->stage[i + 1].variant[way->variant - 1] : NULL;
}

static void run_forward(struct tables *k, uint32_t i, const struct way *way)
{
	for (uint32_t s = i + 1; s <= i + way->length; s++)
		run_ops(k, k->list, chain_forward(k->chain, s, variant_of(k, i, way), k->list));
}

static void run_backward(struct tables *k, uint32_t s, const struct chain_variant *variant, bool has_boundary)
{
	const struct chain_stage *stage = &k->chain->stage[s];
	run_ops(k, k->list, chain_repeat(k->chain, s, variant, has_boundary, k->list));
	run_ops(k, k->chain->backward + stage->first_backward, stage->backwards);
}

/* The way that has the value of the table. False when none has: the value is that of another table. */
static bool find_way(const struct tables *k, uint32_t i, uint32_t length, uint32_t m, bool end, float value,
		     struct way *out)
{
	float *table = end ? k->e : k->c;
	struct way way = { 0 };
	while ((way = next_way(k, i, length - 1, way)).length) {
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

static void run_interval(struct tables *k, uint32_t i, uint32_t length, uint32_t m, bool end)
{
	struct way way;
	if (k->failed)
		return;
	float value = cell(k, end ? k->e : k->c, i, length)[m];
	const struct stage_units *first = &k->stage[i + 1];
	end = end && k->stage[i + length].reads_boundary;
	if (length == 1 && m >= first->backward[end] && value == first->repeat_cost[end]) {
		run_backward(k, i + 1, NULL, end);
	} else if (length > 1 && find_way(k, i, length, m, end, value, &way)) {
		run_forward(k, i, &way);
		run_interval(k, i + way.length, length - way.length, m - way.kept, end);
		if (way.variant)
			run_backward(k, i + 1, variant_of(k, i, &way), false);
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

struct decision {
	uint32_t boundary, memory;
	struct way way;
};

/* First runs up to the loss; what was decided is written down for the way back. */
static uint32_t run_before_loss(struct tables *k, uint32_t m, struct decision *decision)
{
	size_t width = (size_t)k->limit + 1;
	uint32_t decisions = 0;
	for (uint32_t i = 0; i < k->boundaries;) {
		struct way way = { 0 };
		while ((way = next_way(k, i, interval_from(k, i), way)).length) {
			if (m < larger(way.peak, way.kept))
				continue;
			float right = k->t[(i + way.length) * width + m - way.kept];
			float left = way.variant ? way.after : cell(k, k->e, i, way.length)[m < k->cap ? m : k->cap];
			if (right + left == k->t[i * width + m])
				break;
		}
		if (!way.length) {
			k->failed = true;
			return 0;
		}
		decision[decisions++] = (struct decision){ i, m, way };
		for (uint32_t s = i + 1; s <= i + way.length; s++)
			run_ops(k, k->chain->forward + k->chain->stage[s].first_forward, k->chain->stage[s].forwards);
		i += way.length;
		m -= way.kept;
	}
	return decisions;
}

static void write_schedule(struct tables *k, uint32_t m, struct decision *decision)
{
	const struct chain_stage *last = &k->chain->stage[k->chain->stages];
	uint32_t decisions = run_before_loss(k, m, decision);
	run_ops(k, k->chain->forward + last->first_forward, last->forwards);
	run_ops(k, k->chain->backward + last->first_backward, last->backwards);
	while (decisions-- && !k->failed) {
		const struct decision *d = &decision[decisions];
		const struct chain_variant *variant = variant_of(k, d->boundary, &d->way);
		if (variant)
			run_backward(k, d->boundary + 1, variant, false);
		else
			run_interval(k, d->boundary, d->way.length, d->memory < k->cap ? d->memory : k->cap, true);
	}
}

static enum tarn_status plan(struct tables *k, const struct chain_request *request)
{
	enum tarn_status st = tables_init(k);
	struct decision *decision = HOST_ARRAY(k->arena, (size_t)k->boundaries + 1, struct decision);
	if (st || !decision)
		return TARN_ENOMEM;
	fill_intervals(k);
	fill_before_loss(k);
	uint32_t m = k->limit;
	if (k->t[m] >= IMPOSSIBLE / 2)
		return TARN_OK;
	while (request->least && m && k->t[m - 1] < IMPOSSIBLE / 2)
		m--;
	write_schedule(k, m, decision);
	k->steps = k->failed ? 0 : k->steps;
	return TARN_OK;
}

enum tarn_status chain_plan(struct chain *chain, const struct chain_request *request, struct host_arena *arena,
			    uint32_t *step, uint32_t *steps)
{
	struct host_mark mark = host_arena_mark(arena);
	uint32_t n = chain->stages ? chain->stages - 1 : 0;
	*steps = 0;
	if (!n || request->limit <= chain->pinned_bytes)
		return TARN_OK;
	struct tables k = {
		.chain = chain,
		.arena = arena,
		.stage = HOST_ARRAY(arena, (size_t)n + 1, struct stage_units),
		.boundaries = n,
		.row = HOST_ARRAY(arena, (size_t)n + 1, uint32_t),
		.repeats = HOST_ARRAY(arena, (size_t)n + 1, uint32_t),
		.first_of = HOST_ARRAY(arena, (size_t)n + 1, uint32_t),
		.step = step,
		.max_steps = request->max_steps,
		.list = HOST_ARRAY(arena, (size_t)chain->dependence->problem->ops + 1, uint32_t),
	};
	enum tarn_status st = k.stage && k.row && k.repeats && k.first_of && k.list ? TARN_OK : TARN_ENOMEM;
	if (!st && choose_sizes(&k, request))
		st = plan(&k, request);
	*steps = k.steps;
	host_arena_release(arena, mark);
	return st;
}
