/* neighbourhood.c - the subset dynamic programme over the free ops of a round. */
#include "planner/neighbourhood.h"

#include <string.h>

#define IMPOSSIBLE 1e300
#define FREE_NONE UINT32_MAX
/* Stages of one sweep; a neighbourhood that needs more is skipped. */
#define STAGES 4096u
/* In from[]: the free op of the stage ran. */
#define RAN ((uint16_t)0x8000)

enum tarn_status neighbourhood_init(struct neighbourhood *h, struct timeline *timeline, uint32_t most_bits,
				    struct host_arena *arena)
{
	const struct dependence *d = timeline->dependence;
	uint32_t capacity = timeline->capacity;
	/* Short schedules make few stages: each slot has one and one more for each free op. */
	uint32_t room = capacity < STAGES / (most_bits + 1) ? capacity * (most_bits + 1) : STAGES;
	/* Sweeps over large sets have room for fewer stages. */
	uint32_t from_room = most_bits > 8 ? room << (most_bits - 2) : room << most_bits;
	*h = (struct neighbourhood){
		.dependence = d,
		.timeline = timeline,
		.free_index = HOST_ARRAY(arena, d->problem->ops, uint8_t),
		.bit_index = HOST_ARRAY(arena, d->problem->values, uint8_t),
		.slot = HOST_ARRAY(arena, capacity, uint32_t),
		.interesting = HOST_ARRAY(arena, capacity, uint8_t),
		.base = HOST_ARRAY(arena, (size_t)capacity + 1, double),
		.available = HOST_ARRAY(arena, capacity, uint32_t),
		.from = HOST_ARRAY(arena, from_room, uint16_t),
		.from_room = from_room,
		.stage_op = HOST_ARRAY(arena, room, uint32_t),
		.stage_slot = HOST_ARRAY(arena, room, uint32_t),
		.stage_room = room,
		.insert_before = HOST_ARRAY(arena, room, uint32_t),
		.insert_op = HOST_ARRAY(arena, room, uint32_t),
	};
	for (uint32_t state = 0; state < FREE_STATES; state++)
		h->identity[state] = (uint16_t)state;
	return h->free_index && h->bit_index && h->slot && h->interesting && h->base && h->available && h->from &&
			       h->stage_op && h->stage_slot && h->insert_before && h->insert_op
		       ? TARN_OK
		       : TARN_ENOMEM;
}

static bool is_read(const struct dependence *d, uint32_t v)
{
	return d->first_reader[v + 1] > d->first_reader[v];
}

void neighbourhood_clear(struct neighbourhood *h, uint32_t bit_limit)
{
	for (uint32_t i = 0; i < h->frees; i++)
		h->free_index[h->free[i].op] = 0;
	for (uint32_t b = 0; b < h->bits; b++)
		if (h->value_of[b] != VALUE_NONE)
			h->bit_index[h->value_of[b]] = 0;
	h->frees = h->bits = 0;
	h->must_have = 0;
	h->bit_limit = bit_limit;
}

void neighbourhood_add(struct neighbourhood *h, uint32_t o)
{
	const struct problem *p = h->dependence->problem;
	const struct problem_op *op = &p->op[o];
	uint32_t read = 0;
	for (uint32_t i = 0; i < op->outputs; i++)
		read += is_read(h->dependence, problem_outputs(p, o)[i]);
	bool must_run = op->once || op->required;
	if (h->free_index[o] || !h->dependence->needed[o] || h->bits + read + must_run > h->bit_limit)
		return;
	struct free_op *f = &h->free[h->frees++];
	*f = (struct free_op){ .op = o, .cost = (double)op->cost_ns, .extra_bytes = (double)op->workspace };
	h->free_index[o] = (uint8_t)h->frees;
	for (uint32_t i = 0; i < op->outputs; i++) {
		uint32_t v = problem_outputs(p, o)[i];
		if (!is_read(h->dependence, v)) {
			f->extra_bytes += (double)p->value[v].bytes;
			continue;
		}
		f->sets |= 1u << h->bits;
		h->value_of[h->bits++] = v;
		h->bit_index[v] = (uint8_t)h->bits;
	}
	if (!must_run)
		return;
	f->sets |= 1u << h->bits;
	f->forbids = op->once ? 1u << h->bits : 0;
	h->must_have |= 1u << h->bits;
	h->value_of[h->bits++] = VALUE_NONE;
}

static uint32_t bits_of_inputs(const struct neighbourhood *h, uint32_t o)
{
	const struct problem *p = h->dependence->problem;
	uint32_t bits = 0;
	for (uint32_t i = 0; i < p->op[o].inputs; i++) {
		uint32_t bit = h->bit_index[problem_inputs(p, o)[i]];
		bits |= bit ? 1u << (bit - 1) : 0;
	}
	return bits;
}

/* Bits of inputs whose memory output 0 may take over. */
static uint32_t bits_taken(const struct neighbourhood *h, uint32_t o)
{
	const struct problem *p = h->dependence->problem;
	const struct problem_op *op = &p->op[o];
	uint32_t bits = 0;
	for (uint32_t j = 0; op->in_place && op->outputs && j < op->inputs && j < 32; j++) {
		uint32_t v = problem_inputs(p, o)[j], bit = h->bit_index[v];
		if (bit && op->in_place >> j & 1 && p->value[v].bytes == p->value[problem_outputs(p, o)[0]].bytes)
			bits |= 1u << (bit - 1);
	}
	return bits;
}

/* What a free op may do, once all free ops are known. */
static void describe_free_op(struct neighbourhood *h, struct free_op *f)
{
	const struct dependence *d = h->dependence;
	const struct problem_op *op = &d->problem->op[f->op];
	const struct timeline *t = h->timeline;
	f->needs = bits_of_inputs(h, f->op);
	f->takes = bits_taken(h, f->op);
	f->first_slot = 0;
	f->last_slot = UINT32_MAX;
	for (uint32_t k = d->first_closer[f->op]; k < d->first_closer[f->op + 1]; k++) {
		uint32_t closer = d->closer[k];
		if (h->free_index[closer])
			f->forbids |= h->free[h->free_index[closer] - 1].sets & h->must_have;
		else if (t->last_run[closer] < f->last_slot)
			f->last_slot = t->last_run[closer];
	}
	for (uint32_t i = 0; i < op->afters; i++) {
		uint32_t before = d->problem->after[op->first_after + i];
		if (!h->free_index[before] && t->last_run[before] != UINT32_MAX && t->last_run[before] >= f->first_slot)
			f->first_slot = t->last_run[before] + 1;
	}
}

/* Runs of an op become slots. */
static void mark_runs(struct neighbourhood *h, uint32_t o)
{
	for (uint32_t s = h->timeline->last_run[o]; s != UINT32_MAX; s = h->timeline->run_before[s])
		h->interesting[s] = 1;
}

static void find_slots(struct neighbourhood *h)
{
	const struct dependence *d = h->dependence;
	for (uint32_t i = 0; i < h->frees; i++)
		mark_runs(h, h->free[i].op);
	for (uint32_t b = 0; b < h->bits; b++) {
		uint32_t v = h->value_of[b];
		if (v == VALUE_NONE)
			continue;
		for (uint32_t k = d->first_reader[v]; k < d->first_reader[v + 1]; k++)
			mark_runs(h, d->reader[k]);
	}
	h->slots = 0;
	for (uint32_t s = 0; s < h->timeline->steps; s++) {
		if (h->interesting[s])
			h->slot[h->slots++] = s;
		h->interesting[s] = 0;
	}
}

static void remove_bytes(struct neighbourhood *h, uint32_t first, uint32_t last, double bytes)
{
	h->base[first] -= bytes;
	h->base[last] += bytes;
}

/* Takes one run of a free op out of the live bytes. */
static void remove_run(struct neighbourhood *h, uint32_t s)
{
	const struct timeline *t = h->timeline;
	const struct problem *p = h->dependence->problem;
	const struct problem_op *op = &p->op[t->step[s]];
	remove_bytes(h, s, s + 1, (double)op->workspace);
	for (uint32_t i = 0; i < op->outputs; i++) {
		uint32_t instance = t->first_output[s] + i;
		uint32_t first = s, last = t->last[instance];
		/* At the step of a take-over the bytes count once, for the input; they go to whoever stays. */
		if (i == 0 && t->taken_over[s] != UINT32_MAX)
			first++;
		if (t->taken_over[last - 1] == instance && !h->free_index[t->step[last - 1]])
			last--;
		if (first < last)
			remove_bytes(h, first, last, (double)p->value[t->value[instance]].bytes);
	}
}

static void find_base(struct neighbourhood *h)
{
	const struct timeline *t = h->timeline;
	uint32_t first = h->slot[0], last = h->slot[h->slots - 1];
	memset(h->base + first, 0, (last - first + 2) * sizeof *h->base);
	for (uint32_t i = 0; i < h->frees; i++)
		for (uint32_t s = t->last_run[h->free[i].op]; s != UINT32_MAX; s = t->run_before[s])
			remove_run(h, s);
	double removed = 0;
	for (uint32_t s = first; s <= last; s++) {
		removed += h->base[s];
		h->base[s] = t->live_bytes[s] + removed;
	}
}

/* Clears the availability of free op `i` at slots where its frozen input is not live. */
static void require_live(struct neighbourhood *h, uint32_t i, uint32_t v)
{
	const struct timeline *t = h->timeline;
	uint32_t instance = t->newest[v];
	for (uint32_t k = h->slots; k-- > 0;) {
		uint32_t s = h->slot[k];
		while (instance != UINT32_MAX && t->first[instance] >= s)
			instance = t->older[instance];
		if (instance == UINT32_MAX || t->last[instance] <= s)
			h->available[k] &= ~(1u << i);
	}
}

static void find_available(struct neighbourhood *h)
{
	const struct problem *p = h->dependence->problem;
	for (uint32_t k = 0; k < h->slots; k++)
		h->available[k] = (1u << h->frees) - 1;
	for (uint32_t i = 0; i < h->frees; i++) {
		const struct free_op *f = &h->free[i];
		for (uint32_t j = 0; j < p->op[f->op].inputs; j++) {
			uint32_t v = problem_inputs(p, f->op)[j];
			if (!h->bit_index[v])
				require_live(h, i, v);
		}
		for (uint32_t k = 0; k < h->slots; k++)
			if (h->slot[k] < f->first_slot || h->slot[k] > f->last_slot)
				h->available[k] &= ~(1u << i);
	}
}

static double penalty_of(const struct neighbourhood *h, double bytes)
{
	return bytes > h->limit_bytes ? (bytes - h->limit_bytes) * h->penalty : 0;
}

/* Ends a stage: values may be dropped at any time, so each state is as cheap as its supersets. */
static void end_stage(struct neighbourhood *h, uint32_t free_op, uint32_t slot)
{
	uint16_t *from = h->from + ((size_t)h->stages << h->bits);
	uint32_t states = 1u << h->bits;
	for (uint32_t b = 0; b < h->bits; b++) {
		uint32_t bit = 1u << b;
		if (h->must_have & bit)
			continue;
		for (uint32_t block = 0; block < states; block += 2 * bit)
			for (uint32_t low = block; low < block + bit; low++)
				if (h->cost[low + bit] < h->cost[low]) {
					h->cost[low] = h->cost[low + bit];
					from[low] = from[low + bit];
				}
	}
	h->work += states * h->bits / 2;
	h->stage_op[h->stages] = free_op;
	h->stage_slot[h->stages++] = slot;
}

static void begin_stage(struct neighbourhood *h)
{
	uint32_t states = 1u << h->bits;
	memcpy(h->from + ((size_t)h->stages << h->bits), h->identity, states * sizeof *h->from);
	h->work += states;
	h->relaxed = false;
}

static void relax(struct neighbourhood *h, uint32_t from, uint32_t to, double cost)
{
	if (cost >= h->cost[to])
		return;
	h->cost[to] = cost;
	h->from[((size_t)h->stages << h->bits) + to] = (uint16_t)from | RAN;
	h->relaxed = true;
}

/* Bytes of a frozen input that ends at this slot's own old run and may be taken over by the free op. */
static double frozen_bytes_taken(const struct neighbourhood *h, const struct free_op *f, uint32_t s)
{
	const struct timeline *t = h->timeline;
	const struct problem *p = h->dependence->problem;
	if (t->step[s] != f->op || t->taken_over[s] == UINT32_MAX)
		return 0;
	uint32_t v = t->value[t->taken_over[s]];
	return h->bit_index[v] ? 0 : (double)p->value[v].bytes;
}

/* A free op may run before step s, in any state with its inputs and without its outputs. */
static void offer_run(struct neighbourhood *h, uint32_t i, uint32_t s, double between)
{
	const struct free_op *f = &h->free[i];
	double bytes = between + f->extra_bytes - frozen_bytes_taken(h, f, s);
	bool one_bit = (f->sets & (f->sets - 1)) == 0;
	uint32_t varied = ((1u << h->bits) - 1) & ~(f->needs | f->forbids | (one_bit ? f->sets : 0));
	uint32_t subset = 0;
	begin_stage(h);
	do { /* over the subsets of `varied` */
		uint32_t state = subset | f->needs, after = state | f->sets;
		subset = (subset - varied) & varied;
		double cost = h->cost[state] + f->cost;
		if (cost >= IMPOSSIBLE || state == after)
			continue;
		if (cost < h->cost[after])
			relax(h, state, after, cost + penalty_of(h, bytes + h->bytes[after]));
		for (uint32_t takes = f->takes; takes; takes &= takes - 1) {
			uint32_t taken = after & ~(takes & -takes);
			if (cost < h->cost[taken])
				relax(h, state, taken, cost + penalty_of(h, bytes + h->bytes[taken]));
		}
	} while (subset);
	/* Most runs that are offered pay nowhere; they leave no stage. */
	if (h->relaxed)
		end_stage(h, i, s);
}

/* A frozen step runs: states without what it reads end here. */
static void run_frozen(struct neighbourhood *h, uint32_t s)
{
	const struct timeline *t = h->timeline;
	uint32_t o = t->step[s], needs = bits_of_inputs(h, o), takes = 0;
	if (t->taken_over[s] == UINT32_MAX || h->bit_index[t->value[t->taken_over[s]]])
		takes = bits_taken(h, o);
	double before[FREE_STATES];
	uint32_t states = 1u << h->bits;
	memcpy(before, h->cost, states * sizeof *before);
	begin_stage(h);
	for (uint32_t state = 0; state < states; state++)
		h->cost[state] =
			(needs & ~state) ? IMPOSSIBLE : before[state] + penalty_of(h, h->base[s] + h->bytes[state]);
	for (; takes; takes &= takes - 1) {
		uint32_t bit = takes & -takes;
		for (uint32_t state = 0; state < states; state++)
			if (!(needs & ~state) && before[state] < IMPOSSIBLE)
				relax(h, state, state & ~bit,
				      before[state] + penalty_of(h, h->base[s] + h->bytes[state & ~bit]));
	}
	end_stage(h, FREE_NONE, s);
}

/* Frozen steps that touch no free value: only their bytes matter. */
static void pass_steps(struct neighbourhood *h, uint32_t first, uint32_t last)
{
	uint32_t states = 1u << h->bits;
	for (uint32_t s = first; s < last; s++) {
		if (h->base[s] + h->bytes[states - 1] <= h->limit_bytes)
			continue;
		for (uint32_t state = 0; state < states; state++)
			h->cost[state] += penalty_of(h, h->base[s] + h->bytes[state]);
	}
}

/* Bytes live before step s beside the free values: without what the step itself adds. */
static double bytes_between(const struct neighbourhood *h, uint32_t s)
{
	const struct timeline *t = h->timeline;
	const struct problem *p = h->dependence->problem;
	uint32_t o = t->step[s];
	double bytes = h->base[s];
	if (h->free_index[o])
		return bytes;
	bytes -= (double)p->op[o].workspace;
	for (uint32_t i = 0; i < p->op[o].outputs; i++)
		bytes -= (double)p->value[problem_outputs(p, o)[i]].bytes;
	if (t->taken_over[s] != UINT32_MAX && !h->bit_index[t->value[t->taken_over[s]]])
		bytes += (double)p->value[problem_outputs(p, o)[0]].bytes;
	return bytes;
}

/* False when the sweep needs more stages than there are. */
static bool sweep(struct neighbourhood *h)
{
	uint32_t states = 1u << h->bits;
	for (uint32_t state = 1; state < states; state++)
		h->cost[state] = IMPOSSIBLE;
	h->cost[0] = 0;
	h->stages = 0;
	for (uint32_t k = 0; k < h->slots; k++) {
		uint32_t s = h->slot[k];
		if (h->stages + h->frees + 1 > h->stage_room ||
		    (size_t)(h->stages + h->frees + 1) << h->bits > h->from_room)
			return false;
		if (k)
			pass_steps(h, h->slot[k - 1] + 1, s);
		double between = bytes_between(h, s);
		for (uint32_t i = 0; i < h->frees; i++)
			if (h->available[k] >> i & 1)
				offer_run(h, i, s, between);
		if (!h->free_index[h->timeline->step[s]])
			run_frozen(h, s);
	}
	return h->cost[h->must_have] < IMPOSSIBLE;
}

static void trace_back(struct neighbourhood *h)
{
	uint32_t state = h->must_have;
	h->inserts = 0;
	for (uint32_t stage = h->stages; stage-- > 0;) {
		uint16_t from = h->from[((size_t)stage << h->bits) + state];
		if (h->stage_op[stage] != FREE_NONE && from & RAN) {
			h->insert_before[h->inserts] = h->stage_slot[stage];
			h->insert_op[h->inserts++] = h->free[h->stage_op[stage]].op;
		}
		state = from & (uint16_t)~RAN;
	}
}

/* Writes the frozen steps with the runs that were found. False when that is the present schedule or too long. */
static bool rebuild(struct neighbourhood *h, uint32_t *step, uint32_t *steps)
{
	const struct timeline *t = h->timeline;
	uint32_t left = h->inserts, length = 0;
	for (uint32_t s = 0; s < t->steps; s++) {
		for (; left && h->insert_before[left - 1] == s; left--) {
			if (length == t->capacity)
				return false;
			step[length++] = h->insert_op[left - 1];
		}
		if (h->free_index[t->step[s]])
			continue;
		if (length == t->capacity)
			return false;
		step[length++] = t->step[s];
	}
	*steps = length;
	return length != t->steps || memcmp(step, t->step, length * sizeof *step) != 0;
}

/* Free ops in increasing order, so that within a slot producers come before their readers. */
static void sort_free_ops(struct neighbourhood *h)
{
	for (uint32_t i = 1; i < h->frees; i++) {
		struct free_op f = h->free[i];
		uint32_t k = i;
		for (; k && h->free[k - 1].op > f.op; k--)
			h->free[k] = h->free[k - 1];
		h->free[k] = f;
	}
	for (uint32_t i = 0; i < h->frees; i++)
		h->free_index[h->free[i].op] = (uint8_t)(i + 1);
}

bool neighbourhood_solve(struct neighbourhood *h, uint32_t *step, uint32_t *steps)
{
	const struct problem *p = h->dependence->problem;
	sort_free_ops(h);
	for (uint32_t state = 0; state < 1u << h->bits; state++) {
		h->bytes[state] = 0;
		for (uint32_t b = 0; b < h->bits; b++)
			if (state >> b & 1 && h->value_of[b] != VALUE_NONE)
				h->bytes[state] += (double)p->value[h->value_of[b]].bytes;
	}
	for (uint32_t i = 0; i < h->frees; i++)
		describe_free_op(h, &h->free[i]);
	find_slots(h);
	if (!h->slots)
		return false;
	find_base(h);
	find_available(h);
	if (!sweep(h))
		return false;
	trace_back(h);
	return rebuild(h, step, steps);
}
