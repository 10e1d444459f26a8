/* order.c - orders of first runs. */
#include "planner/order.h"

#include "planner/meter.h"

struct ordering {
	const struct dependence *d;
	const struct problem *p;
	uint32_t *missing; /* [ops]: inputs not produced (lazy sources do not count) and afters that have not run */
	uint32_t *unread;  /* [values]: readers that have not run */
	uint8_t *placed;   /* [ops] */
	uint32_t *ready;   /* ops that may run and were not placed; order irrelevant */
	uint32_t ready_ops;
	uint32_t *order;
	uint32_t length;
};

/* An op that reads nothing, waits for nothing and is not waited for is placed just before its first reader. */
static bool is_lazy_source(const struct dependence *d, uint32_t o)
{
	const struct problem_op *op = &d->problem->op[o];
	if (op->inputs || op->afters || d->first_closer[o + 1] > d->first_closer[o])
		return false;
	for (uint32_t i = 0; i < op->outputs; i++) {
		uint32_t v = problem_outputs(d->problem, o)[i];
		if (d->first_reader[v + 1] > d->first_reader[v])
			return true;
	}
	return false;
}

static enum tarn_status ordering_init(struct ordering *g, const struct dependence *d, struct host_arena *arena,
				      uint32_t *order)
{
	const struct problem *p = d->problem;
	*g = (struct ordering){
		.d = d,
		.p = p,
		.missing = HOST_ARRAY(arena, p->ops, uint32_t),
		.unread = HOST_ARRAY(arena, p->values, uint32_t),
		.placed = HOST_ARRAY(arena, p->ops, uint8_t),
		.ready = HOST_ARRAY(arena, p->ops, uint32_t),
		.order = order,
	};
	if (!g->missing || !g->unread || !g->placed || !g->ready)
		return TARN_ENOMEM;
	for (uint32_t v = 0; v < p->values; v++)
		g->unread[v] = d->first_reader[v + 1] - d->first_reader[v];
	for (uint32_t o = 0; o < p->ops; o++) {
		if (!d->needed[o])
			continue;
		for (uint32_t i = 0; i < p->op[o].inputs; i++)
			g->missing[o] += !is_lazy_source(d, p->value[problem_inputs(p, o)[i]].producer);
		for (uint32_t i = 0; i < p->op[o].afters; i++)
			g->missing[o] += d->needed[p->after[p->op[o].first_after + i]];
		if (!g->missing[o] && !is_lazy_source(d, o))
			g->ready[g->ready_ops++] = o;
	}
	return TARN_OK;
}

static void release_waiting(struct ordering *g, const uint32_t *waiting, uint32_t first, uint32_t last)
{
	for (uint32_t k = first; k < last; k++) {
		uint32_t o = waiting[k];
		if (g->d->needed[o] && --g->missing[o] == 0)
			g->ready[g->ready_ops++] = o;
	}
}

static void place(struct ordering *g, uint32_t o)
{
	const struct problem *p = g->p;
	for (uint32_t i = 0; i < p->op[o].inputs; i++) {
		uint32_t v = problem_inputs(p, o)[i], source = p->value[v].producer;
		g->unread[v]--;
		if (!g->placed[source]) {
			g->placed[source] = 1;
			g->order[g->length++] = source;
		}
	}
	g->placed[o] = 1;
	g->order[g->length++] = o;
	for (uint32_t i = 0; i < p->op[o].outputs; i++) {
		uint32_t v = problem_outputs(p, o)[i];
		release_waiting(g, g->d->reader, g->d->first_reader[v], g->d->first_reader[v + 1]);
	}
	release_waiting(g, g->d->closer, g->d->first_closer[o], g->d->first_closer[o + 1]);
}

/* Bytes that stay live after the op, less bytes that stayed live before it. */
static int64_t growth(const struct ordering *g, uint32_t o)
{
	const struct problem *p = g->p;
	int64_t bytes = 0;
	for (uint32_t i = 0; i < p->op[o].outputs; i++) {
		uint32_t v = problem_outputs(p, o)[i];
		if (g->unread[v])
			bytes += (int64_t)p->value[v].bytes;
	}
	for (uint32_t i = 0; i < p->op[o].inputs; i++) {
		uint32_t v = problem_inputs(p, o)[i];
		if (!g->placed[p->value[v].producer] && g->unread[v] > 1)
			bytes += (int64_t)p->value[v].bytes;
		else if (g->placed[p->value[v].producer] && g->unread[v] == 1)
			bytes -= (int64_t)p->value[v].bytes;
	}
	return bytes;
}

/* Index into ready[]: an effect if there is one, else the smallest number. */
static uint32_t choose_file_order(const struct ordering *g)
{
	uint32_t best = 0;
	for (uint32_t k = 1; k < g->ready_ops; k++) {
		bool effect = !g->p->op[g->ready[k]].outputs, best_effect = !g->p->op[g->ready[best]].outputs;
		if (effect != best_effect ? effect : g->ready[k] < g->ready[best])
			best = k;
	}
	return best;
}

static uint32_t choose_least_growth(const struct ordering *g)
{
	uint32_t best = 0;
	int64_t best_growth = growth(g, g->ready[0]);
	for (uint32_t k = 1; k < g->ready_ops; k++) {
		int64_t bytes = growth(g, g->ready[k]);
		if (bytes < best_growth || (bytes == best_growth && g->ready[k] < g->ready[best])) {
			best = k;
			best_growth = bytes;
		}
	}
	return best;
}

static enum tarn_status build(const struct dependence *d, struct host_arena *arena,
			      uint32_t (*choose)(const struct ordering *), uint32_t *order)
{
	struct ordering g;
	enum tarn_status st = ordering_init(&g, d, arena, order);
	while (!st && g.ready_ops) {
		uint32_t k = choose(&g), o = g.ready[k];
		g.ready[k] = g.ready[--g.ready_ops];
		place(&g, o);
	}
	if (!st && g.length != d->needed_ops)
		st = tarn_fail(TARN_EINTERNAL, "only %u of %u ops can be ordered", g.length, d->needed_ops);
	return st;
}

enum tarn_status order_find(const struct dependence *d, struct host_arena *arena, uint32_t *order[ORDERS])
{
	struct host_mark mark = host_arena_mark(arena);
	uint32_t n = d->needed_ops;
	struct meter meter;
	enum tarn_status st = meter_init(&meter, d->problem, n, arena);
	if (!st)
		st = build(d, arena, choose_file_order, order[0]);
	if (!st)
		st = build(d, arena, choose_least_growth, order[1]);
	if (!st) {
		meter_measure(&meter, order[0], n);
		uint64_t peak = meter.peak_bytes;
		meter_measure(&meter, order[1], n);
		if (meter.peak_bytes < peak) {
			uint32_t *better = order[1];
			order[1] = order[0];
			order[0] = better;
		}
	}
	host_arena_release(arena, mark);
	return st;
}
