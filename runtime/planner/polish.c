/* polish.c - runs nobody reads, and recomputations that memory allows to spare. */
#include "planner/polish.h"

#include <stdlib.h>
#include <string.h>

struct polish_run {
	uint64_t cost_ns;
	uint32_t op, repeat; /* the repeat-th run of the op, from 0 */
};

enum tarn_status polisher_init(struct polisher *polisher, struct meter *meter, struct host_arena *arena)
{
	const struct problem *p = meter->problem;
	*polisher = (struct polisher){
		.problem = p,
		.meter = meter,
		.trial = HOST_ARRAY(arena, meter->capacity, uint32_t),
		.runs = HOST_ARRAY(arena, p->ops, uint32_t),
		.read = HOST_ARRAY(arena, p->values, uint8_t),
		.run = HOST_ARRAY(arena, meter->capacity, struct polish_run),
	};
	return polisher->trial && polisher->runs && polisher->read && polisher->run ? TARN_OK : TARN_ENOMEM;
}

void polish_useless_runs(struct polisher *k, uint32_t *step, uint32_t *steps)
{
	const struct problem *p = k->problem;
	memset(k->runs, 0, p->ops * sizeof *k->runs);
	memset(k->read, 0, p->values);
	for (uint32_t s = 0; s < *steps; s++)
		k->runs[step[s]]++;
	/* From the end, so that a run which served only useless ones is seen to be useless as well. */
	uint32_t to = *steps;
	for (uint32_t s = *steps; s-- > 0;) {
		uint32_t o = step[s];
		const struct problem_op *op = &p->op[o];
		bool useful = op->once || (op->required && k->runs[o] == 1);
		for (uint32_t i = 0; i < op->outputs; i++) {
			uint32_t v = problem_outputs(p, o)[i];
			useful |= k->read[v];
			k->read[v] = 0;
		}
		if (!useful) {
			k->runs[o]--;
			continue;
		}
		for (uint32_t i = 0; i < op->inputs; i++)
			k->read[problem_inputs(p, o)[i]] = 1;
		step[--to] = o;
	}
	memmove(step, step + to, (*steps - to) * sizeof *step);
	*steps -= to;
}

static int compare_runs(const void *a, const void *b)
{
	const struct polish_run *x = a, *y = b;
	if (x->cost_ns != y->cost_ns)
		return x->cost_ns > y->cost_ns ? -1 : 1;
	if (x->op != y->op)
		return x->op < y->op ? -1 : 1;
	return x->repeat > y->repeat ? -1 : x->repeat < y->repeat;
}

static uint32_t list_recomputations(struct polisher *k, const uint32_t *step, uint32_t steps)
{
	uint32_t count = 0;
	memset(k->runs, 0, k->problem->ops * sizeof *k->runs);
	for (uint32_t s = 0; s < steps; s++) {
		uint32_t repeat = k->runs[step[s]]++;
		if (repeat)
			k->run[count++] = (struct polish_run){ k->problem->op[step[s]].cost_ns, step[s], repeat };
	}
	qsort(k->run, count, sizeof *k->run, compare_runs);
	return count;
}

/* The schedule without one run, and without what served that run alone. False when there is no such run. */
static bool without_run(struct polisher *k, const struct polish_run *run, const uint32_t *step, uint32_t steps,
			uint32_t *trial_steps)
{
	uint32_t seen = 0, length = 0;
	for (uint32_t s = 0; s < steps; s++)
		if (step[s] != run->op || seen++ != run->repeat)
			k->trial[length++] = step[s];
	*trial_steps = length;
	if (length == steps)
		return false;
	polish_useless_runs(k, k->trial, trial_steps);
	return true;
}

void polish_schedule(struct polisher *k, uint64_t budget, uint32_t tries, uint32_t *step, uint32_t *steps)
{
	polish_useless_runs(k, step, steps);
	for (bool improved = true; improved && tries;) {
		improved = false;
		uint32_t count = list_recomputations(k, step, *steps);
		for (uint32_t i = 0; i < count && tries; i++, tries--) {
			uint32_t trial_steps;
			if (!without_run(k, &k->run[i], step, *steps, &trial_steps) ||
			    !meter_measure(k->meter, k->trial, trial_steps) || k->meter->peak_bytes > budget)
				continue;
			memcpy(step, k->trial, trial_steps * sizeof *step);
			*steps = trial_steps;
			improved = true;
		}
	}
}
