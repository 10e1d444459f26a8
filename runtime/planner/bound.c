/* bound.c - lower bounds of peak and time; bound_cuts.c has the one for any order. */
#include "planner/bound.h"

#include "planner/bound_cuts.h"
#include "planner/linear_bound.h"

#include <math.h>

/* Cuts of the model without order: many for a bound that may take seconds, few for one that every plan has. */
#define MANY_CUTS 40u
#define FEW_CUTS 4u
/* Entries that the bound of every plan may look at, and a few times that for single cuts: some 20, in all 60
 * milliseconds. */
#define PROOF_WORK 10000000u
/* One cut alone is tried at every so-manieth place, then halfway between them, by halves; each time with such a part of
 * the work. */
#define FIRST_STRIDE 4u
#define TRIAL_PART 5u
/* Problems with more gaps times steps than this get no bound for the fixed order. */
#define MOST_ENTRIES 4000000u

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
	enum tarn_status st = k.lp.rows ? linear_program_bound(&k.lp, work, enough, NULL, &bound) : TARN_OK;
	out->time_fixed_order_ns = round_time(d, bound);
	return st;
}

/*
 * The place at which one cut alone proves most, tried every few places, then between them; 0: none proves more than
 * *bound, which is raised. A cut where little can be left out at once says more than several, over which the
 * relaxation spreads what is left out in parts.
 */
static enum tarn_status bound_single_cut(const struct cuts_request *request, struct host_arena *arena, double *bound,
					 uint32_t *place)
{
	struct cuts_request trial = *request;
	enum tarn_status st = TARN_OK;
	trial.proof = NULL;
	trial.work = request->work / TRIAL_PART;
	*place = 0;
	for (uint32_t stride = FIRST_STRIDE; stride; stride /= 2) {
		uint32_t middle = *place, from = stride, to = CUT_PLACES - 1;
		if (stride < FIRST_STRIDE) {
			if (!middle)
				break;
			from = middle - stride;
			to = middle + stride;
		}
		for (trial.place = from; !st && trial.place <= to && *bound < request->enough; trial.place += stride) {
			struct host_mark mark = host_arena_mark(arena);
			double proved = *bound;
			if (trial.place != middle)
				st = bound_cuts(&trial, arena, &proved);
			if (!st && proved > *bound) {
				*bound = proved;
				*place = trial.place;
			}
			host_arena_release(arena, mark);
		}
	}
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
	if (!st && !out->infeasible && known_ns > d->base_time_ns && d->needed_ops) {
		struct cuts_request request = {
			.dependence = d, .limit = limit, .enough = enough, .work = work, .most_cuts = MANY_CUTS
		};
		double bound = (double)d->base_time_ns;
		uint32_t place;
		if (work > PROOF_WORK) {
			request.work = work / 2;
			st = bound_single_cut(&request, arena, &bound, &place);
		}
		if (!st && bound < enough)
			st = bound_cuts(&request, arena, &bound);
		out->time_ns = round_time(d, bound);
	}
	host_arena_release(arena, mark);
	return st;
}

/* Several cuts, and, where one alone proves more, that one. */
static enum tarn_status bound_best_cuts(struct cuts_request *request, struct host_arena *arena, double *bound)
{
	enum tarn_status st = bound_cuts(request, arena, bound);
	double single = *bound;
	struct cuts_request one = *request;
	struct proof proof = { 0 };
	one.proof = &proof;
	if (!st)
		st = bound_single_cut(request, arena, &single, &one.place);
	if (st || !one.place)
		return st;
	st = bound_cuts(&one, arena, bound);
	if (!st && proof.terms)
		*request->proof = proof;
	return st;
}

enum tarn_status bound_prove(const struct dependence *d, uint64_t limit, uint64_t known_ns, struct host_arena *arena,
			     uint64_t *time_ns, struct proof *proof)
{
	struct cuts_request request = { .dependence = d,
					.limit = limit,
					.enough = (double)known_ns,
					.work = PROOF_WORK,
					.most_cuts = FEW_CUTS,
					.proof = proof };
	double bound = (double)d->base_time_ns;
	*proof = (struct proof){ 0 };
	enum tarn_status st = known_ns > d->base_time_ns ? bound_best_cuts(&request, arena, &bound) : TARN_OK;
	*time_ns = round_time(d, bound);
	/* A bound that says no more than that every op runs needs no proof. */
	if (*time_ns == d->base_time_ns)
		proof->terms = 0;
	return st;
}
