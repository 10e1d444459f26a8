/* bound.c - lower bounds of peak and time. */
#include "planner/bound.h"

#include "planner/linear_bound.h"

#include <math.h>
#include <string.h>

/* Cuts of the model without order: at most so many, and so many columns. */
#define MOST_CUTS 40u
#define MOST_COLUMNS 60000u
/* Problems with more gaps times steps than this get no bound for the fixed order. */
#define MOST_ENTRIES 4000000u
#define NO_COLUMN UINT32_MAX

static uint64_t step_bytes(const struct dependence *d, uint32_t o)
{
	const struct problem *p = d->problem;
	const struct problem_op *op = &p->op[o];
	uint64_t bytes = op->workspace;
	bool in_place = false;
	for (uint32_t i = 0; i < op->inputs; i++) {
		bytes += p->value[problem_inputs(p, o)[i]].bytes;
		in_place |= i < 32 && op->in_place >> i & 1 && op->outputs &&
			    p->value[problem_inputs(p, o)[i]].bytes == p->value[problem_outputs(p, o)[0]].bytes;
	}
	for (uint32_t i = in_place; i < op->outputs; i++)
		bytes += p->value[problem_outputs(p, o)[i]].bytes;
	return bytes;
}

uint64_t bound_peak(const struct dependence *d)
{
	uint64_t largest = 0;
	for (uint32_t o = 0; o < d->problem->ops; o++) {
		uint64_t bytes = d->needed[o] ? step_bytes(d, o) : 0;
		largest = bytes > largest ? bytes : largest;
	}
	return largest;
}

static uint64_t common_divisor_of_costs(const struct dependence *d)
{
	uint64_t divisor = 0;
	for (uint32_t o = 0; o < d->problem->ops; o++) {
		uint64_t a = d->needed[o] ? d->problem->op[o].cost_ns : 0;
		while (a) {
			uint64_t rest = divisor % a;
			divisor = a;
			a = rest;
		}
	}
	return divisor;
}

/* Times are sums of costs: the least such number that is not below the bound. */
static uint64_t round_time(const struct dependence *d, double bound)
{
	uint64_t divisor = common_divisor_of_costs(d), base = d->base_time_ns;
	if (bound <= (double)base || !divisor)
		return base;
	double steps = ceil((bound - (double)base) / (double)divisor * (1 - 1e-12));
	/* Above what any schedule in use takes the bound says that there is none. */
	return steps < 1e15 ? base + (uint64_t)steps * divisor : UINT64_MAX / 2;
}

/* ---- First runs in the order of the problem's ops ---- */

struct gaps {
	const struct dependence *d;
	struct linear_program lp;
	uint32_t *place;  /* [ops]: number of a needed op */
	double *all_kept; /* [needed ops]: bytes at a first run when everything stays until its last reader */
	uint32_t *row;    /* [needed ops]: row, or UINT32_MAX where everything fits */
	uint32_t *gap_value, *gap_first, *gap_last, gaps; /* between first runs, both excluded */
	double limit;
};

/* Readers in increasing order make gaps, the producer is the first of them. */
static void find_gaps(struct gaps *k)
{
	const struct dependence *d = k->d;
	const struct problem *p = d->problem;
	for (uint32_t v = 0; v < p->values; v++) {
		if (!d->needed[p->value[v].producer])
			continue;
		uint32_t from = k->place[p->value[v].producer], last = from;
		for (uint32_t i = d->first_reader[v]; i < d->first_reader[v + 1]; i++) {
			uint32_t to = k->place[d->reader[i]];
			if (to > last + 1) {
				k->gap_value[k->gaps] = v;
				k->gap_first[k->gaps] = last + 1;
				k->gap_last[k->gaps++] = to;
			}
			last = to;
		}
		k->all_kept[from] += (double)p->value[v].bytes;
		k->all_kept[last + 1] -= (double)p->value[v].bytes;
	}
}

/* Bytes at each first run; output 0 may lie where an input ends. */
static void sum_bytes(struct gaps *k)
{
	const struct dependence *d = k->d;
	const struct problem *p = d->problem;
	double bytes = 0;
	uint32_t at = 0;
	for (uint32_t o = 0; o < p->ops; o++) {
		if (!d->needed[o])
			continue;
		const struct problem_op *op = &p->op[o];
		bytes += k->all_kept[at];
		k->all_kept[at] = bytes + (double)op->workspace;
		if (op->in_place && op->outputs)
			k->all_kept[at] -= (double)p->value[problem_outputs(p, o)[0]].bytes;
		at++;
	}
}

/* A row for each first run at which not everything fits: what is given up covers the rest. */
static void build_rows(struct gaps *k, uint32_t *active)
{
	const struct problem *p = k->d->problem;
	double scale = 1 / (k->limit + 1);
	uint32_t actives = 0;
	/* A run makes all outputs of its op: each pays its part. */
	for (uint32_t g = 0; g < k->gaps; g++) {
		const struct problem_op *op = &p->op[p->value[k->gap_value[g]].producer];
		linear_program_column(&k->lp, (double)op->cost_ns / op->outputs);
	}
	for (uint32_t t = 0; t < k->d->needed_ops; t++) {
		if (k->all_kept[t] <= k->limit)
			continue;
		linear_program_row(&k->lp, (k->all_kept[t] - k->limit) * scale);
		actives = 0;
		for (uint32_t g = 0; g < k->gaps; g++)
			if (k->gap_first[g] <= t && t < k->gap_last[g])
				active[actives++] = g;
		for (uint32_t i = 0; i < actives; i++)
			linear_program_entry(&k->lp, active[i],
					     (double)p->value[k->gap_value[active[i]]].bytes * scale);
	}
}

/* Whether some first run does not fit even when all that may go goes. */
static bool cannot_fit(const struct gaps *k)
{
	const struct linear_program *lp = &k->lp;
	uint32_t entry = 0;
	for (uint32_t row = 0; row < lp->rows; row++) {
		double most = 0;
		for (; entry < lp->entries && lp->row_of[entry] == row; entry++)
			most += lp->entry[entry];
		if (most < lp->right[row] * (1 - 1e-9))
			return true;
	}
	return false;
}

static enum tarn_status bound_fixed_order(const struct dependence *d, uint64_t limit, double enough, uint64_t work,
					  struct host_arena *arena, struct bound *out)
{
	const struct problem *p = d->problem;
	size_t n = (size_t)d->needed_ops + 2;
	struct gaps k = {
		.d = d,
		.place = HOST_ARRAY(arena, (size_t)p->ops + 1, uint32_t),
		.all_kept = HOST_ARRAY(arena, n, double),
		.gap_value = HOST_ARRAY(arena, (size_t)p->operands + 1, uint32_t),
		.gap_first = HOST_ARRAY(arena, (size_t)p->operands + 1, uint32_t),
		.gap_last = HOST_ARRAY(arena, (size_t)p->operands + 1, uint32_t),
		.limit = (double)limit,
	};
	uint32_t *active = HOST_ARRAY(arena, (size_t)p->operands + 1, uint32_t), count = 0;
	if (!k.place || !k.all_kept || !k.gap_value || !k.gap_first || !k.gap_last || !active)
		return TARN_ENOMEM;
	for (uint32_t o = 0; o < p->ops; o++)
		if (d->needed[o])
			k.place[o] = count++;
	find_gaps(&k);
	sum_bytes(&k);
	if ((uint64_t)k.gaps * d->needed_ops > (uint64_t)MOST_ENTRIES * 16)
		return TARN_OK;
	linear_program_init(&k.lp, arena);
	k.lp.constant = (double)d->base_time_ns;
	build_rows(&k, active);
	if (k.lp.failed)
		return TARN_ENOMEM;
	if (cannot_fit(&k)) {
		out->infeasible_fixed_order = true;
		return TARN_OK;
	}
	double bound = (double)d->base_time_ns;
	enum tarn_status st = k.lp.rows ? linear_program_bound(&k.lp, work, enough, &bound) : TARN_OK;
	out->time_fixed_order_ns = round_time(d, bound);
	return st;
}

/* ---- Any order ---- */

struct cuts {
	const struct dependence *d;
	struct linear_program lp;
	uint32_t cut[MOST_CUTS], cuts; /* ops of a path */
	uint32_t *resident, *computed; /* [cut * ops + op]: column, or NO_COLUMN where it is impossible */
	uint32_t *reached;             /* [ops]: the first cut that the op cannot run before, itself included */
	uint64_t limit;
};

/* The path with the most ops: ops in increasing order. */
static uint32_t longest_path(const struct dependence *d, uint32_t *length, uint32_t *before, uint32_t *path)
{
	const struct problem *p = d->problem;
	uint32_t end = UINT32_MAX, count = 0;
	for (uint32_t o = 0; o < p->ops; o++) {
		length[o] = 1;
		before[o] = UINT32_MAX;
		if (!d->needed[o])
			continue;
		for (uint32_t i = 0; i < p->op[o].inputs; i++) {
			uint32_t producer = p->value[problem_inputs(p, o)[i]].producer;
			if (length[producer] + 1 > length[o]) {
				length[o] = length[producer] + 1;
				before[o] = producer;
			}
		}
		if (end == UINT32_MAX || length[o] > length[end])
			end = o;
	}
	for (uint32_t o = end; o != UINT32_MAX; o = before[o])
		path[count++] = o;
	for (uint32_t i = 0; i < count / 2; i++) {
		uint32_t other = path[i];
		path[i] = path[count - 1 - i];
		path[count - 1 - i] = other;
	}
	return count;
}

static void choose_cuts(struct cuts *k, const uint32_t *path, uint32_t length)
{
	uint32_t most = MOST_COLUMNS / (2 * k->d->needed_ops + 1);
	most = most < MOST_CUTS ? most : MOST_CUTS;
	k->cuts = length < most ? length : most;
	for (uint32_t i = 0; i < k->cuts; i++)
		k->cut[i] = path[(uint64_t)(i + 1) * length / k->cuts - 1];
}

/* reached[op]: the last cut that the op is, or comes after, as 1 + its index; 0: none. */
static void find_reached(struct cuts *k)
{
	const struct problem *p = k->d->problem;
	uint32_t next = 0;
	for (uint32_t o = 0; o < p->ops; o++) {
		k->reached[o] = 0;
		for (uint32_t i = 0; i < p->op[o].inputs; i++) {
			uint32_t producer = p->value[problem_inputs(p, o)[i]].producer;
			if (k->reached[producer] > k->reached[o])
				k->reached[o] = k->reached[producer];
		}
		if (next < k->cuts && k->cut[next] == o)
			k->reached[o] = ++next;
	}
}

/* Interval j ends with the first run of cut j; after the last cut one more interval follows. */
static bool may_run_in(const struct cuts *k, uint32_t o, uint32_t interval)
{
	if (!k->reached[o])
		return true;
	uint32_t cut = k->reached[o] - 1;
	return k->cut[cut] == o ? interval >= cut : interval > cut;
}

static void add_columns(struct cuts *k)
{
	const struct dependence *d = k->d;
	const struct problem *p = d->problem;
	for (uint32_t j = 0; j <= k->cuts; j++)
		for (uint32_t o = 0; o < p->ops; o++) {
			size_t at = (size_t)j * p->ops + o;
			k->resident[at] = k->computed[at] = NO_COLUMN;
			if (!d->needed[o])
				continue;
			if (may_run_in(k, o, j))
				k->computed[at] = linear_program_column(&k->lp, (double)p->op[o].cost_ns);
			/* The cut's own output counts as resident: its bytes are always there. */
			if (j < k->cuts && p->op[o].outputs && may_run_in(k, o, j))
				k->resident[at] = linear_program_column(&k->lp, 0);
		}
}

static void add_if_possible(struct cuts *k, uint32_t column, double value)
{
	if (column != NO_COLUMN)
		linear_program_entry(&k->lp, column, value);
}

/* What is in `column` at interval j was resident at the cut before, or is computed in the interval. */
static void require_op(struct cuts *k, uint32_t o, uint32_t j, uint32_t column)
{
	uint32_t ops = k->d->problem->ops;
	linear_program_row(&k->lp, column == NO_COLUMN ? 1 : 0);
	add_if_possible(k, column, -1);
	add_if_possible(k, k->computed[(size_t)j * ops + o], 1);
	if (j)
		add_if_possible(k, k->resident[(size_t)(j - 1) * ops + o], 1);
}

static void add_interval(struct cuts *k, uint32_t j)
{
	const struct problem *p = k->d->problem;
	for (uint32_t o = 0; o < p->ops; o++) {
		uint32_t computed = k->computed[(size_t)j * p->ops + o], resident = k->resident[(size_t)j * p->ops + o];
		if (resident != NO_COLUMN)
			require_op(k, o, j, resident);
		for (uint32_t i = 0; computed != NO_COLUMN && i < p->op[o].inputs; i++)
			require_op(k, p->value[problem_inputs(p, o)[i]].producer, j, computed);
	}
}

/* An op is resident as soon as one of its outputs is: that takes the bytes of the smallest at least. */
static uint64_t smallest_output(const struct problem *p, uint32_t o)
{
	uint64_t smallest = UINT64_MAX;
	for (uint32_t i = 0; i < p->op[o].outputs; i++) {
		uint64_t bytes = p->value[problem_outputs(p, o)[i]].bytes;
		smallest = bytes < smallest ? bytes : smallest;
	}
	return smallest;
}

/* At the first run of a cut: what it reads is there, and all that is there fits. */
static void add_cut(struct cuts *k, uint32_t j)
{
	const struct problem *p = k->d->problem;
	uint32_t o = k->cut[j];
	double bytes = (double)p->op[o].workspace, scale = 1 / ((double)k->limit + 1);
	for (uint32_t i = p->op[o].in_place != 0; i < p->op[o].outputs; i++)
		bytes += (double)p->value[problem_outputs(p, o)[i]].bytes;
	for (uint32_t i = 0; i < p->op[o].inputs; i++) {
		uint32_t producer = p->value[problem_inputs(p, o)[i]].producer;
		linear_program_row(&k->lp, 1);
		add_if_possible(k, k->resident[(size_t)j * p->ops + producer], 1);
	}
	linear_program_row(&k->lp, 1);
	add_if_possible(k, k->computed[(size_t)j * p->ops + o], 1);
	linear_program_row(&k->lp, (bytes - (double)k->limit) * scale);
	for (uint32_t other = 0; other < p->ops; other++)
		if (other != o)
			add_if_possible(k, k->resident[(size_t)j * p->ops + other],
					-(double)smallest_output(p, other) * scale);
}

static enum tarn_status build_cuts(struct cuts *k, struct host_arena *arena)
{
	const struct dependence *d = k->d;
	uint32_t ops = d->problem->ops;
	uint32_t *length = HOST_ARRAY(arena, (size_t)ops + 1, uint32_t),
		 *before = HOST_ARRAY(arena, (size_t)ops + 1, uint32_t);
	uint32_t *path = HOST_ARRAY(arena, (size_t)ops + 1, uint32_t);
	k->reached = HOST_ARRAY(arena, (size_t)ops + 1, uint32_t);
	if (!length || !before || !path || !k->reached)
		return TARN_ENOMEM;
	choose_cuts(k, path, longest_path(d, length, before, path));
	find_reached(k);
	size_t room = ((size_t)k->cuts + 1) * ops + 1;
	k->resident = HOST_ARRAY(arena, room, uint32_t);
	k->computed = HOST_ARRAY(arena, room, uint32_t);
	if (!k->resident || !k->computed)
		return TARN_ENOMEM;
	add_columns(k);
	for (uint32_t j = 0; j <= k->cuts; j++)
		add_interval(k, j);
	for (uint32_t j = 0; j < k->cuts; j++)
		add_cut(k, j);
	for (uint32_t o = 0; o < ops; o++) {
		if (!d->needed[o])
			continue;
		linear_program_row(&k->lp, 1);
		for (uint32_t j = 0; j <= k->cuts; j++)
			add_if_possible(k, k->computed[(size_t)j * ops + o], 1);
	}
	return k->lp.failed ? TARN_ENOMEM : TARN_OK;
}

static enum tarn_status bound_any_order(const struct dependence *d, uint64_t limit, double enough, uint64_t work,
					struct host_arena *arena, struct bound *out)
{
	struct cuts k = { .d = d, .limit = limit };
	double bound = (double)d->base_time_ns;
	linear_program_init(&k.lp, arena);
	enum tarn_status st = build_cuts(&k, arena);
	if (!st && k.cuts)
		st = linear_program_bound(&k.lp, work, enough, &bound);
	if (!st)
		out->time_ns = round_time(d, bound);
	return st;
}

enum tarn_status bound_find(const struct dependence *d, uint64_t limit, uint64_t known_ns, uint64_t work,
			    struct host_arena *arena, struct bound *out)
{
	struct host_mark mark = host_arena_mark(arena);
	enum tarn_status st = TARN_OK;
	double enough = known_ns == UINT64_MAX ? 1e300 : (double)known_ns;
	*out = (struct bound){ .peak_bytes = bound_peak(d),
			       .time_ns = d->base_time_ns,
			       .time_fixed_order_ns = d->base_time_ns };
	out->infeasible = out->infeasible_fixed_order = out->peak_bytes > limit;
	if (!out->infeasible && known_ns > d->base_time_ns && d->needed_ops)
		st = bound_fixed_order(d, limit, enough, work, arena, out);
	host_arena_release(arena, mark);
	if (!st && !out->infeasible && known_ns > d->base_time_ns && d->needed_ops)
		st = bound_any_order(d, limit, enough, work, arena, out);
	host_arena_release(arena, mark);
	return st;
}
