/* chain_oracle.c - intervals of a chain, shortest first. */
#include "support/chain_oracle.h"

#include <stdlib.h>
#include <string.h>

#define NEVER (INT32_MAX / 4)

void chain_case_fill(struct chain_case *chain, uint32_t stages, bool reads_output, struct testing_random *random,
		     uint32_t most)
{
	*chain = (struct chain_case){ .stages = stages, .reads_output = reads_output };
	for (uint32_t k = 1; k <= stages; k++) {
		chain->cost[k] = random ? testing_between(random, 1, most) : 1;
		chain->bytes[k] = random ? testing_between(random, 1, most) : 1;
	}
}

struct maker {
	struct problem *p;
	uint32_t operands, values, ops;
};

static struct problem_op *begin_op(struct maker *m, uint64_t cost, bool forward)
{
	struct problem_op *op = &m->p->op[m->ops++];
	*op = (struct problem_op){
		.cost_ns = cost, .forward = forward, .first_input = m->operands, .first_output = m->operands
	};
	return op;
}

static void reads(struct maker *m, struct problem_op *op, uint32_t value)
{
	m->p->operand[m->operands++] = value;
	op->inputs++;
	op->first_output++;
}

static uint32_t makes(struct maker *m, struct problem_op *op, uint64_t bytes)
{
	m->p->value[m->values] =
		(struct problem_value){ .bytes = bytes, .producer = m->ops - 1, .output = op->outputs++ };
	m->p->operand[m->operands++] = m->values;
	return m->values++;
}

struct problem *chain_case_problem(const struct chain_case *chain, struct host_arena *arena)
{
	uint32_t n = chain->stages;
	struct problem *p = HOST_NEW(arena, struct problem);
	*p = (struct problem){ .value = HOST_ARRAY(arena, 2 * n + 2, struct problem_value),
			       .op = HOST_ARRAY(arena, 2 * n + 2, struct problem_op),
			       .operand = HOST_ARRAY(arena, 8 * n + 8, uint32_t),
			       .any_size = true };
	struct maker m = { .p = p };
	for (uint32_t k = 1; k <= n; k++) { /* value k - 1 is x(k) */
		struct problem_op *op = begin_op(&m, chain->cost[k], true);
		if (k > 1)
			reads(&m, op, k - 2);
		makes(&m, op, chain->bytes[k]);
	}
	struct problem_op *loss = begin_op(&m, 1, true);
	reads(&m, loss, n - 1);
	uint32_t gradient = makes(&m, loss, chain->bytes[n]);
	for (uint32_t k = n; k >= 1; k--) {
		struct problem_op *op = begin_op(&m, 2 * chain->cost[k], false);
		reads(&m, op, gradient);
		if (k > 1)
			reads(&m, op, k - 2);
		if (chain->reads_output)
			reads(&m, op, k - 1);
		if (k > 1)
			gradient = makes(&m, op, chain->bytes[k - 1]);
		else
			op->required = true;
	}
	p->values = m.values;
	p->ops = m.ops;
	p->operands = m.operands;
	return p;
}

struct oracle {
	const struct chain_case *chain;
	uint32_t n, most;
	int32_t *without,
		*with; /* [i * (n + 1) + j][most + 1]: x(j) is made again, or there; x(i) is there, g(j) too */
};

static int32_t *at(const struct oracle *k, int32_t *table, uint32_t i, uint32_t j)
{
	return table + ((size_t)i * (k->n + 1) + j) * (k->most + 1);
}

static void lower(int32_t *to, int32_t value)
{
	*to = value < *to ? value : *to;
}

/* Units beside x(i) while backward op j runs alone. */
static uint32_t backward_units(const struct oracle *k, uint32_t j)
{
	const struct chain_case *c = k->chain;
	return c->bytes[j] + (j > 1 ? c->bytes[j - 1] : 0) + (c->reads_output ? c->bytes[j] : 0);
}

/* Units beside x(i) and what is held anyhow while x(i + 1) .. x(to) are made, of which the last stays. */
static uint32_t forward_units(const struct oracle *k, uint32_t i, uint32_t to)
{
	uint32_t units = k->chain->bytes[i + 1];
	for (uint32_t t = i + 2; t <= to; t++) {
		uint32_t both = k->chain->bytes[t - 1] + k->chain->bytes[t];
		units = both > units ? both : units;
	}
	return units;
}

static int32_t cost_between(const struct oracle *k, uint32_t i, uint32_t to)
{
	int32_t cost = 0;
	for (uint32_t t = i + 1; t <= to; t++)
		cost += (int32_t)k->chain->cost[t];
	return cost;
}

/* Splits of an interval whose end needs `held` units beside: the gradient, and x(j) if it is there. */
static void split(struct oracle *k, uint32_t i, uint32_t j, int32_t *table, uint32_t held)
{
	int32_t *to = at(k, table, i, j), cost = 0;
	uint32_t peak = 0;
	for (uint32_t s = i + 1; s < j; s++) {
		uint32_t step = k->chain->bytes[s] + (s > i + 1 ? k->chain->bytes[s - 1] : 0),
			 kept = k->chain->bytes[s];
		peak = step > peak ? step : peak;
		cost += (int32_t)k->chain->cost[s];
		const int32_t *right = at(k, table, s, j), *left = at(k, k->with, i, s);
		for (uint32_t m = peak + held; m <= k->most; m++)
			lower(&to[m], cost + right[m - kept] + left[m]);
	}
}

static void solve_interval(struct oracle *k, uint32_t i, uint32_t j)
{
	const struct chain_case *c = k->chain;
	int32_t *without = at(k, k->without, i, j), *with = at(k, k->with, i, j);
	for (uint32_t m = 0; m <= k->most; m++)
		without[m] = with[m] = NEVER;
	if (j == i + 1) {
		for (uint32_t m = backward_units(k, j); m <= k->most; m++) {
			with[m] = 0;
			if (!c->reads_output)
				without[m] = 0;
		}
	} else {
		split(k, i, j, k->without, c->bytes[j]);
		split(k, i, j, k->with, 2 * c->bytes[j]);
	}
	/* With x(j) made again first. */
	uint32_t through = forward_units(k, i, j) + c->bytes[j];
	for (uint32_t m = through; m <= k->most; m++)
		lower(&without[m], cost_between(k, i, j) + with[m]);
	for (uint32_t m = 0; m <= k->most; m++)
		lower(&with[m], without[m]);
}

/* Before the loss: the first forward pass keeps x(s), then does what comes after, then what lies between. */
static void solve_before_loss(struct oracle *k, int32_t *recomputed)
{
	uint32_t n = k->n, width = k->most + 1;
	int32_t *before = malloc((size_t)(n + 1) * width * sizeof *before);
	if (!before)
		abort();
	for (uint32_t i = n + 1; i-- > 0;) {
		int32_t *to = before + (size_t)i * width;
		for (uint32_t m = 0; m <= k->most; m++)
			to[m] = i == n && m >= k->chain->bytes[n] ? 0 : NEVER;
		for (uint32_t s = i + 1; s <= n; s++) {
			const int32_t *right = before + (size_t)s * width, *left = at(k, k->with, i, s);
			for (uint32_t m = forward_units(k, i, s); m <= k->most; m++)
				lower(&to[m], right[m - k->chain->bytes[s]] + left[m]);
		}
	}
	for (uint32_t m = 0; m <= k->most; m++)
		recomputed[m] = before[m] < NEVER ? before[m] : -1;
	free(before);
}

bool chain_oracle(const struct chain_case *chain, uint32_t most, int32_t *recomputed)
{
	uint32_t n = chain->stages;
	size_t words = (size_t)(n + 1) * (n + 1) * (most + 1);
	struct oracle k = { chain, n, most, malloc(words * sizeof(int32_t)), malloc(words * sizeof(int32_t)) };
	bool ok = k.without && k.with;
	for (uint32_t length = 1; ok && length <= n; length++)
		for (uint32_t i = 0; i + length <= n; i++)
			solve_interval(&k, i, i + length);
	if (ok)
		solve_before_loss(&k, recomputed);
	free(k.without);
	free(k.with);
	return ok;
}

/* binomial(n, k), at most `most` + 1. */
static uint64_t binomial(uint64_t n, uint64_t k, uint64_t most)
{
	uint64_t product = 1;
	k = k < n - k ? k : n - k;
	for (uint64_t i = 1; i <= k && product <= most; i++)
		product = product * (n - k + i) / i;
	return product <= most ? product : most + 1;
}

int64_t chain_binomial(uint32_t n, bool reads_output, uint32_t units)
{
	/* Beside what is kept: the gradient that is read and the one that is made, and what else a backward op reads.
	 */
	uint32_t beside = reads_output ? 3 : 2;
	if (units <= beside)
		return -1;
	uint64_t kept = units - beside, rounds = 0, most = (uint64_t)n * n * n;
	while (binomial(kept + rounds, kept, most) < n)
		rounds++;
	if (!rounds)
		return 0;
	/* The first forward pass, which ends before stage n, is no recomputation. */
	return (int64_t)(rounds * n - binomial(kept + rounds, rounds - 1, most)) - (n - 1);
}
