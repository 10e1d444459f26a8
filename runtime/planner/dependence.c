/* dependence.c - readers, closers and needed ops of a problem. */
#include "planner/dependence.h"

static void mark_needed(const struct problem *p, struct dependence *d)
{
	for (uint32_t o = p->ops; o-- > 0;) {
		const struct problem_op *op = &p->op[o];
		if (op->once || op->required)
			d->needed[o] = 1;
		if (!d->needed[o])
			continue;
		d->needed_ops++;
		d->base_time_ns += op->cost_ns;
		for (uint32_t i = 0; i < op->inputs; i++)
			d->needed[p->value[problem_inputs(p, o)[i]].producer] = 1;
	}
}

/* Counts become starts: first[k] is where bucket k starts; one past the end is first[buckets]. */
static void starts_from_counts(uint32_t *first, uint32_t buckets)
{
	uint32_t sum = 0;
	for (uint32_t k = 0; k <= buckets; k++) {
		uint32_t count = k < buckets ? first[k] : 0;
		first[k] = sum;
		sum += count;
	}
}

static void count_edges(const struct problem *p, struct dependence *d)
{
	for (uint32_t o = 0; o < p->ops; o++) {
		if (!d->needed[o])
			continue;
		for (uint32_t i = 0; i < p->op[o].inputs; i++)
			d->first_reader[problem_inputs(p, o)[i]]++;
		for (uint32_t i = 0; i < p->op[o].afters; i++)
			d->first_closer[p->after[p->op[o].first_after + i]]++;
	}
	starts_from_counts(d->first_reader, p->values);
	starts_from_counts(d->first_closer, p->ops);
}

/* Fills downwards from the end of each bucket, so that starts end where they began and no cursor is kept. */
static void fill_edges(const struct problem *p, struct dependence *d, uint32_t *reader_left, uint32_t *closer_left)
{
	for (uint32_t v = 0; v < p->values; v++)
		reader_left[v] = d->first_reader[v + 1];
	for (uint32_t o = 0; o < p->ops; o++)
		closer_left[o] = d->first_closer[o + 1];
	for (uint32_t o = p->ops; o-- > 0;) {
		if (!d->needed[o])
			continue;
		for (uint32_t i = 0; i < p->op[o].inputs; i++)
			d->reader[--reader_left[problem_inputs(p, o)[i]]] = o;
		for (uint32_t i = 0; i < p->op[o].afters; i++)
			d->closer[--closer_left[p->after[p->op[o].first_after + i]]] = o;
	}
}

enum tarn_status dependence_find(const struct problem *problem, struct host_arena *arena, struct dependence *out)
{
	*out = (struct dependence){
		.problem = problem,
		.first_reader = HOST_ARRAY(arena, (size_t)problem->values + 1, uint32_t),
		.first_closer = HOST_ARRAY(arena, (size_t)problem->ops + 1, uint32_t),
		.reader = HOST_ARRAY(arena, problem->operands, uint32_t),
		.closer = HOST_ARRAY(arena, problem->afters, uint32_t),
		.needed = HOST_ARRAY(arena, problem->ops, uint8_t),
	};
	uint32_t *reader_left = HOST_ARRAY(arena, problem->values, uint32_t);
	uint32_t *closer_left = HOST_ARRAY(arena, problem->ops, uint32_t);
	if (!out->first_reader || !out->first_closer || !out->reader || !out->closer || !out->needed || !reader_left ||
	    !closer_left)
		return TARN_ENOMEM;
	mark_needed(problem, out);
	count_edges(problem, out);
	fill_edges(problem, out, reader_left, closer_left);
	return TARN_OK;
}
