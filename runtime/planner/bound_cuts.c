/* bound_cuts.c - see bound_cuts.h and plan/proof.h. */
#include "planner/bound_cuts.h"

#include "planner/linear_bound.h"

#include <string.h>

#define MOST_COLUMNS 60000u
#define MOST_CUTS 40u
#define NO_COLUMN UINT32_MAX
/* Weights below this part of the time of all ops are left out of a proof: thousands of them change the bound little. */
#define SMALLEST_WEIGHT 1e-7

struct cuts {
	const struct dependence *d;
	struct linear_program lp;
	uint32_t cut[MOST_CUTS], cuts; /* ops of a path */
	uint32_t *resident, *computed; /* [cut * ops + op]: column, or NO_COLUMN where it is impossible */
	uint32_t *reached;             /* [ops]: the first cut that the op cannot run before, itself included */
	uint64_t limit;
	struct proof_term *label; /* [rows]: which inequality a row is; its weight stays 0 */
	size_t label_room;
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

/*
 * Of the path, the ops during which keeping everything, in the order of the problem's ops, would not fit: elsewhere a
 * cut says nothing. All of the path when only others are so crowded; nothing when everything fits. `live` is scratch.
 */
static uint32_t keep_crowded(const struct cuts *k, double *live, uint32_t *path, uint32_t length)
{
	const struct dependence *d = k->d;
	const struct problem *p = d->problem;
	uint32_t count = 0;
	bool crowded = false;
	for (uint32_t v = 0; v < p->values; v++) {
		uint32_t producer = p->value[v].producer, readers = d->first_reader[v + 1] - d->first_reader[v];
		uint32_t last = readers ? d->reader[d->first_reader[v + 1] - 1] : producer;
		live[producer] += d->needed[producer] ? (double)p->value[v].bytes : 0;
		live[last + 1] -= d->needed[producer] ? (double)p->value[v].bytes : 0;
	}
	for (uint32_t o = 0; o < p->ops; o++) {
		live[o] += o ? live[o - 1] : 0;
		crowded |= d->needed[o] && live[o] + (double)p->op[o].workspace > (double)k->limit;
	}
	for (uint32_t i = 0; i < length; i++)
		if (live[path[i]] + (double)p->op[path[i]].workspace > (double)k->limit)
			path[count++] = path[i];
	return count || !crowded ? count : length;
}

static void choose_cuts(struct cuts *k, const struct cuts_request *request, const uint32_t *path, uint32_t length)
{
	if (request->place && length) {
		k->cut[0] = path[(uint64_t)request->place * length / CUT_PLACES];
		k->cuts = 1;
		return;
	}
	uint32_t most = MOST_COLUMNS / (2 * k->d->needed_ops + 1);
	most = most < request->most_cuts ? most : request->most_cuts;
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

static void begin_row(struct cuts *k, enum proof_kind kind, uint32_t cut, uint32_t op, uint32_t other, double right)
{
	struct linear_program *lp = &k->lp;
	struct proof_term *label =
		lp->failed ? NULL
			   : host_arena_grow(lp->arena, k->label, &k->label_room, (size_t)lp->rows + 1, sizeof *label);
	lp->failed = !label;
	if (!label)
		return;
	k->label = label;
	label[lp->rows] = (struct proof_term){ .kind = (uint16_t)kind, .cut = (uint16_t)cut, .op = op, .other = other };
	linear_program_row(lp, right);
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
		if (resident != NO_COLUMN) {
			begin_row(k, PROOF_THERE, j, o, 0, 0);
			require_op(k, o, j, resident);
		}
		for (uint32_t i = 0; computed != NO_COLUMN && i < p->op[o].inputs; i++) {
			uint32_t producer = p->value[problem_inputs(p, o)[i]].producer;
			begin_row(k, PROOF_READ, j, producer, o, 0);
			require_op(k, producer, j, computed);
		}
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

/* Rows of bytes are divided by this, so that all entries are of a size. */
static double fits_scale(const struct cuts *k)
{
	return 1 / ((double)k->limit + 1);
}

/* At the first run of a cut: what it reads is there, and all that is there fits. */
static void add_cut(struct cuts *k, uint32_t j)
{
	const struct problem *p = k->d->problem;
	uint32_t o = k->cut[j];
	double bytes = (double)p->op[o].workspace, scale = fits_scale(k);
	for (uint32_t i = p->op[o].in_place != 0; i < p->op[o].outputs; i++)
		bytes += (double)p->value[problem_outputs(p, o)[i]].bytes;
	for (uint32_t i = 0; i < p->op[o].inputs; i++) {
		uint32_t producer = p->value[problem_inputs(p, o)[i]].producer;
		begin_row(k, PROOF_INPUT, j, producer, 0, 1);
		add_if_possible(k, k->resident[(size_t)j * p->ops + producer], 1);
	}
	begin_row(k, PROOF_CUT, j, o, 0, 1);
	add_if_possible(k, k->computed[(size_t)j * p->ops + o], 1);
	begin_row(k, PROOF_FITS, j, 0, 0, (bytes - (double)k->limit) * scale);
	for (uint32_t other = 0; other < p->ops; other++)
		if (other != o)
			add_if_possible(k, k->resident[(size_t)j * p->ops + other],
					-(double)smallest_output(p, other) * scale);
}

static enum tarn_status build_cuts(struct cuts *k, const struct cuts_request *request, struct host_arena *arena)
{
	const struct dependence *d = k->d;
	uint32_t ops = d->problem->ops;
	uint32_t *length = HOST_ARRAY(arena, (size_t)ops + 1, uint32_t),
		 *before = HOST_ARRAY(arena, (size_t)ops + 1, uint32_t);
	uint32_t *path = HOST_ARRAY(arena, (size_t)ops + 1, uint32_t), count;
	double *live = HOST_ARRAY(arena, (size_t)ops + 2, double);
	k->reached = HOST_ARRAY(arena, (size_t)ops + 1, uint32_t);
	if (!length || !before || !path || !live || !k->reached)
		return TARN_ENOMEM;
	count = longest_path(d, length, before, path);
	count = keep_crowded(k, live, path, count);
	choose_cuts(k, request, path, count);
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
		begin_row(k, PROOF_ONCE, 0, o, 0, 1);
		for (uint32_t j = 0; j <= k->cuts; j++)
			add_if_possible(k, k->computed[(size_t)j * ops + o], 1);
	}
	return k->lp.failed ? TARN_ENOMEM : TARN_OK;
}

/* A row's weight as a proof has it, and what that is in the linear programme; small ones are left out. */
static float weight_of(const struct cuts *k, uint32_t row, double *y)
{
	double scale = k->label[row].kind == PROOF_FITS ? fits_scale(k) : 1;
	bool small = scale >= 1 && *y < SMALLEST_WEIGHT * (double)k->d->base_time_ns;
	float weight = small ? 0 : (float)(*y * scale);
	*y = (double)weight / scale;
	return weight;
}

/* The cuts' own terms stand first. */
static enum tarn_status write_proof(const struct cuts *k, double *y, struct host_arena *arena, struct proof *proof)
{
	struct proof_term *term = HOST_ARRAY(arena, (size_t)k->lp.rows + 1, struct proof_term);
	if (!term)
		return TARN_ENOMEM;
	uint32_t count = k->cuts;
	for (uint32_t row = 0; row < k->lp.rows; row++) {
		float weight = weight_of(k, row, &y[row]);
		bool cut = k->label[row].kind == PROOF_CUT;
		if (!cut && !(weight > 0))
			continue;
		struct proof_term *target = cut ? &term[k->label[row].cut] : &term[count++];
		*target = k->label[row];
		target->weight = weight;
	}
	*proof = (struct proof){ term, count };
	return TARN_OK;
}

enum tarn_status bound_cuts(const struct cuts_request *request, struct host_arena *arena, double *bound)
{
	struct cuts k = { .d = request->dependence, .limit = request->limit };
	double *y = NULL, proved = *bound;
	linear_program_init(&k.lp, arena);
	enum tarn_status st = build_cuts(&k, request, arena);
	if (st || !k.cuts)
		return st;
	if (request->proof && !(y = HOST_ARRAY(arena, (size_t)k.lp.rows + 1, double)))
		return TARN_ENOMEM;
	st = linear_program_bound(&k.lp, request->work, request->enough, y, &proved);
	/* The weights of a proof are rounded: what they prove is what counts. */
	if (!st && request->proof)
		st = write_proof(&k, y, arena, request->proof);
	if (!st && request->proof)
		st = linear_program_value(&k.lp, y, &proved);
	if (!st && proved > *bound)
		*bound = proved;
	return st;
}
