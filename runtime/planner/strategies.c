/* strategies.c - keep sets of the classic strategies. */
#include "planner/strategies.h"

#include <string.h>

void strategy_keep_heavy(const struct problem *problem, uint8_t *keep)
{
	for (uint32_t v = 0; v < problem->values; v++)
		keep[v] = problem->op[problem->value[v].producer].heavy;
}

/* The forward part of an order, and what is live in it after each op. */
struct forward {
	const struct dependence *d;
	uint32_t *op, ops;    /* forward ops that can run again, in order */
	uint32_t *last;       /* [values]: place in op[] of the last forward reader; 0 when there is none */
	uint64_t *cut_bytes;  /* [ops + 1]: values live after the op, for later forward ops */
	uint32_t *cut_values; /* [ops + 1] */
};

static enum tarn_status forward_find(struct forward *f, const struct dependence *d, const uint32_t *order,
				     struct host_arena *scratch)
{
	const struct problem *p = d->problem;
	*f = (struct forward){
		.d = d,
		.op = HOST_ARRAY(scratch, d->needed_ops, uint32_t),
		.last = HOST_ARRAY(scratch, p->values, uint32_t),
		.cut_bytes = HOST_ARRAY(scratch, (size_t)d->needed_ops + 1, uint64_t),
		.cut_values = HOST_ARRAY(scratch, (size_t)d->needed_ops + 1, uint32_t),
	};
	if (!f->op || !f->last || !f->cut_bytes || !f->cut_values)
		return TARN_ENOMEM;
	for (uint32_t k = 0; k < d->needed_ops; k++) {
		uint32_t o = order[k];
		if (!p->op[o].forward || p->op[o].once)
			continue;
		for (uint32_t i = 0; i < p->op[o].inputs; i++)
			f->last[problem_inputs(p, o)[i]] = f->ops;
		f->op[f->ops++] = o;
	}
	for (uint32_t k = 0; k < f->ops; k++) {
		for (uint32_t i = 0; i < p->op[f->op[k]].outputs; i++) {
			uint32_t v = problem_outputs(p, f->op[k])[i];
			for (uint32_t place = k; place < f->last[v]; place++) {
				f->cut_bytes[place] += p->value[v].bytes;
				f->cut_values[place]++;
			}
		}
	}
	return TARN_OK;
}

/* The best place to cut in [first, last). */
static uint32_t best_cut(const struct forward *f, uint32_t first, uint32_t last)
{
	uint32_t best = first;
	for (uint32_t k = first + 1; k < last; k++) {
		bool single = f->cut_values[k] == 1, best_single = f->cut_values[best] == 1;
		if (single != best_single ? single : f->cut_bytes[k] <= f->cut_bytes[best])
			best = k;
	}
	return best;
}

static void keep_cut(const struct forward *f, uint32_t place, uint8_t *keep)
{
	const struct problem *p = f->d->problem;
	for (uint32_t k = 0; k <= place; k++) {
		for (uint32_t i = 0; i < p->op[f->op[k]].outputs; i++) {
			uint32_t v = problem_outputs(p, f->op[k])[i];
			if (f->last[v] > place)
				keep[v] = 1;
		}
	}
}

enum tarn_status strategy_keep_sqrt(const struct dependence *dependence, const uint32_t *order,
				    struct host_arena *scratch, uint8_t *keep)
{
	struct host_mark mark = host_arena_mark(scratch);
	struct forward f;
	memset(keep, 0, dependence->problem->values);
	enum tarn_status st = forward_find(&f, dependence, order, scratch);
	uint32_t groups = 1;
	while (!st && groups * groups < f.ops)
		groups++;
	for (uint32_t g = 1; !st && g < groups; g++) {
		/* The end of group g, and half a group around it. */
		uint64_t end = (uint64_t)g * f.ops / groups, half = f.ops / (2 * groups);
		uint32_t first = (uint32_t)(end > half ? end - half : 0);
		uint32_t last = (uint32_t)(end + half + 1 < f.ops ? end + half + 1 : f.ops);
		keep_cut(&f, best_cut(&f, first, last), keep);
	}
	host_arena_release(scratch, mark);
	return st;
}
