/* offload_cover.c - see offload_cover.h. */
#include "planner/offload_cover.h"

#include <stdlib.h>
#include <string.h>

static uint32_t list_gaps(struct cover *k, const struct expansion *e, uint32_t *last_use)
{
	const struct problem *p = k->streams->problem;
	uint32_t gaps = 0;
	for (uint32_t s = 0; s < k->steps; s++) {
		const struct problem_op *op = &p->op[k->step[s]];
		const uint32_t *instance = e->operand_instance + e->first_operand[s];
		for (uint32_t i = 0; i < op->inputs; i++) {
			uint32_t before = last_use[instance[i]];
			if (s > before + 1)
				k->gap[gaps++] = (struct gap){ .first = before,
							       .last = s,
							       .value = problem_inputs(p, k->step[s])[i] };
			last_use[instance[i]] = s;
		}
		for (uint32_t i = 0; i < op->outputs; i++)
			last_use[instance[op->inputs + i]] = s;
	}
	return gaps;
}

/* Every gap closed: what is live at a step is what it uses. */
static void find_least_limit(struct cover *k)
{
	const struct problem *p = k->streams->problem;
	uint64_t *saved = k->live_bytes, sum = 0;
	/* Differences first, then their sums; they may wrap in between. */
	memset(saved, 0, ((size_t)k->steps + 1) * sizeof *saved);
	for (uint32_t g = 0; g < k->gaps; g++) {
		saved[k->gap[g].first + 1] += p->value[k->gap[g].value].bytes;
		saved[k->gap[g].last] -= p->value[k->gap[g].value].bytes;
	}
	for (uint32_t s = 0; s < k->steps; s++) {
		sum += saved[s];
		if (k->all_bytes[s] - sum > k->least_limit)
			k->least_limit = k->all_bytes[s] - sum;
	}
}

/* Where the copies may end and start so that the ops in the gap hide them. */
static void find_hidden(const struct cover *k, struct gap *gap)
{
	uint64_t copy = k->streams->copy_ns[gap->value];
	gap->hidden_from = gap->first + 1;
	gap->hidden_to = gap->last;
	while (gap->hidden_from < gap->last && k->begin_ns[gap->hidden_from] - k->begin_ns[gap->first + 1] < copy)
		gap->hidden_from++;
	while (gap->hidden_to > gap->first && k->begin_ns[gap->last] - k->begin_ns[gap->hidden_to] < copy)
		gap->hidden_to--;
}

enum tarn_status cover_init(struct cover *k, const struct streams *streams, const uint32_t *step, uint32_t steps,
			    struct host_arena *arena)
{
	const struct problem *p = streams->problem;
	struct schedule schedule = { (uint32_t *)(uintptr_t)step, steps };
	struct expansion e;
	*k = (struct cover){ .streams = streams, .step = step, .steps = steps };
	enum tarn_status st = schedule_expand(p, &schedule, arena, &e);
	if (st)
		return st;
	size_t reads = 0;
	for (uint32_t s = 0; s < steps; s++)
		reads += p->op[step[s]].inputs;
	k->gap = HOST_ARRAY(arena, reads, struct gap);
	k->closed = HOST_ARRAY(arena, reads, struct gap *);
	k->store_before = HOST_ARRAY(arena, (size_t)steps + 1, uint32_t);
	k->fetch_before = HOST_ARRAY(arena, (size_t)steps + 1, uint32_t);
	k->live_bytes = HOST_ARRAY(arena, (size_t)steps + 1, uint64_t);
	k->begin_ns = HOST_ARRAY(arena, (size_t)steps + 1, uint64_t);
	k->above = HOST_ARRAY(arena, (size_t)steps + 1, uint32_t);
	k->stored_at = HOST_ARRAY(arena, p->values, uint32_t);
	k->waited_ns = HOST_ARRAY(arena, p->values, uint64_t);
	uint32_t *last_use = HOST_ARRAY(arena, e.instances, uint32_t);
	if (!k->gap || !k->closed || !k->store_before || !k->fetch_before || !k->live_bytes || !k->begin_ns ||
	    !k->above || !k->stored_at || !k->waited_ns || !last_use)
		return TARN_ENOMEM;
	k->all_bytes = e.live_bytes;
	k->gaps = list_gaps(k, &e, last_use);
	for (uint32_t s = 0; s < steps; s++)
		k->begin_ns[s + 1] = k->begin_ns[s] + p->op[step[s]].cost_ns;
	for (uint32_t g = 0; g < k->gaps; g++)
		find_hidden(k, &k->gap[g]);
	find_least_limit(k);
	return TARN_OK;
}

/* A closed gap, or one side more of it exposed. */
struct closing {
	struct gap *gap;
	uint32_t from, to; /* its bytes are free there */
	double exposed;    /* sides of it */
};

/* How the gap can free its bytes at step s. */
static struct closing closing_at(const struct cover *k, struct gap *gap, uint32_t s)
{
	struct closing c = { gap, gap->from, gap->to, 0 };
	if (!gap->to) {
		bool hidden = gap->hidden_from < gap->hidden_to;
		/* Where another gap has the store, there is none to wait for. */
		bool stored = k->stored_at[gap->value] < gap->first;
		c.from = stored || !hidden ? gap->first + 1 : gap->hidden_from;
		c.to = hidden ? gap->hidden_to : gap->last;
		c.exposed = hidden ? 0 : 2;
	}
	if (s < c.from) {
		c.from = gap->first + 1;
		c.exposed++;
	}
	if (s >= c.to) {
		c.to = gap->last;
		c.exposed++;
	}
	return c;
}

static double score_of(const struct cover *k, const struct closing *c, uint64_t excess, double price)
{
	const struct gap *gap = c->gap;
	uint64_t bytes = k->streams->problem->value[gap->value].bytes;
	double copy = (double)k->streams->copy_ns[gap->value];
	double copies = gap->to ? 0 : k->stored_at[gap->value] == UINT32_MAX ? 2 : 1;
	uint32_t steps = k->above[c->to] - k->above[c->from] - (k->above[gap->to] - k->above[gap->from]);
	double cost = 1 + copy * (c->exposed + price * copies) + (double)k->waited_ns[gap->value];
	return (double)(bytes < excess ? bytes : excess) * steps / cost;
}

static uint32_t fullest_step(struct cover *k, uint64_t limit)
{
	uint32_t fullest = 0;
	for (uint32_t s = 0; s < k->steps; s++) {
		k->above[s + 1] = k->above[s] + (k->live_bytes[s] > limit);
		if (k->live_bytes[s] > k->live_bytes[fullest])
			fullest = s;
	}
	return fullest;
}

/* Its bytes are free in [from, to); empty: the gap is open. */
static void set_free(struct cover *k, struct gap *gap, uint32_t from, uint32_t to)
{
	uint64_t bytes = k->streams->problem->value[gap->value].bytes;
	for (uint32_t s = gap->from; s < gap->to; s++)
		k->live_bytes[s] += bytes;
	for (uint32_t s = from; s < to; s++)
		k->live_bytes[s] -= bytes;
	gap->from = from;
	gap->to = to;
}

/* What to do about the step; without a gap when nothing can be done. */
static struct closing choose(struct cover *k, uint32_t s, uint64_t limit, uint64_t host_left, double price)
{
	struct closing best = { 0 };
	double best_score = 0;
	uint64_t excess = k->live_bytes[s] - limit;
	for (uint32_t g = 0; g < k->gaps; g++) {
		struct gap *gap = &k->gap[g];
		if (gap->first >= s || gap->last <= s || (s >= gap->from && s < gap->to) ||
		    (k->stored_at[gap->value] == UINT32_MAX &&
		     k->streams->problem->value[gap->value].bytes > host_left))
			continue;
		struct closing c = closing_at(k, gap, s);
		double score = score_of(k, &c, excess, price);
		if (score > best_score) {
			best_score = score;
			best = c;
		}
	}
	return best;
}

static int shortest_first(const void *a, const void *b)
{
	const struct gap *x = *(const struct gap *const *)a, *y = *(const struct gap *const *)b;
	uint32_t m = x->to - x->from, n = y->to - y->from;
	return m != n ? (m < n ? -1 : 1) : (x > y) - (x < y);
}

/* Opens gaps that the limit does not need; the shortest first, which hide least. */
static void open_needless(struct cover *k, uint64_t limit, uint32_t count)
{
	qsort(k->closed, count, sizeof *k->closed, shortest_first);
	for (uint32_t i = 0; i < count; i++) {
		struct gap *gap = k->closed[i];
		uint64_t most = 0;
		for (uint32_t s = gap->from; s < gap->to; s++)
			most = k->live_bytes[s] > most ? k->live_bytes[s] : most;
		if (most + k->streams->problem->value[gap->value].bytes <= limit)
			set_free(k, gap, 0, 0);
	}
}

/* Lists of copies by step, each in the order of the gaps' ends; of several gaps the first has the store. */
static void list_copies(struct cover *k)
{
	memset(k->store_before, 0xff, ((size_t)k->steps + 1) * sizeof *k->store_before);
	memset(k->fetch_before, 0xff, ((size_t)k->steps + 1) * sizeof *k->fetch_before);
	memset(k->stored_at, 0xff, k->streams->problem->values * sizeof *k->stored_at);
	for (uint32_t g = 0; g < k->gaps; g++)
		if (k->gap[g].to && k->gap[g].first < k->stored_at[k->gap[g].value])
			k->stored_at[k->gap[g].value] = k->gap[g].first;
	for (uint32_t g = k->gaps; g-- > 0;) {
		struct gap *gap = &k->gap[g];
		if (!gap->to)
			continue;
		gap->next_fetch = k->fetch_before[gap->to];
		k->fetch_before[gap->to] = g;
		if (k->stored_at[gap->value] != gap->first)
			continue;
		gap->next_store = k->store_before[gap->from];
		k->store_before[gap->from] = g;
	}
}

static void write_schedule(struct cover *k, uint32_t *out, uint32_t *out_steps)
{
	uint32_t length = 0;
	list_copies(k);
	for (uint32_t s = 0; s < k->steps; s++) {
		for (uint32_t g = k->store_before[s]; g != UINT32_MAX; g = k->gap[g].next_store)
			out[length++] = store_op(k->streams, k->gap[g].value);
		for (uint32_t g = k->fetch_before[s]; g != UINT32_MAX; g = k->gap[g].next_fetch)
			out[length++] = fetch_op(k->streams, k->gap[g].value);
		out[length++] = k->step[s];
	}
	*out_steps = length;
}

static void open_all(struct cover *k)
{
	memcpy(k->live_bytes, k->all_bytes, k->steps * sizeof *k->live_bytes);
	memset(k->stored_at, 0xff, k->streams->problem->values * sizeof *k->stored_at);
	for (uint32_t g = 0; g < k->gaps; g++)
		k->gap[g].from = k->gap[g].to = 0;
}

bool cover_find(struct cover *k, uint64_t limit, uint64_t host_limit, double price, uint32_t *out, uint32_t *out_steps)
{
	uint32_t closed = 0;
	open_all(k);
	for (;;) {
		uint32_t s = fullest_step(k, limit);
		if (!k->steps || k->live_bytes[s] <= limit)
			break;
		struct closing c = choose(k, s, limit, host_limit, price);
		if (!c.gap)
			return false;
		uint32_t v = c.gap->value;
		if (k->stored_at[v] == UINT32_MAX)
			host_limit -= k->streams->problem->value[v].bytes;
		if (c.gap->first < k->stored_at[v])
			k->stored_at[v] = c.gap->first;
		if (!c.gap->to)
			k->closed[closed++] = c.gap;
		set_free(k, c.gap, c.from, c.to);
	}
	open_needless(k, limit, closed);
	write_schedule(k, out, out_steps);
	return true;
}

void cover_all(struct cover *k, uint32_t *out, uint32_t *out_steps)
{
	open_all(k);
	for (uint32_t g = 0; g < k->gaps; g++)
		set_free(k, &k->gap[g], k->gap[g].first + 1, k->gap[g].last);
	write_schedule(k, out, out_steps);
}
