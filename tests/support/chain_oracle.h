/*
 * chain_oracle.h - chains of any stages, and the exact dynamic programme that says how fast they can be.
 *
 * Stage k of n computes x(k) from x(k - 1), at cost[k] and bytes[k]; x(0) is always there. Then the loss makes g(n)
 * from x(n), and backward op k makes g(k - 1), as large as x(k - 1), from g(k), x(k - 1) and, if `reads_output`, x(k).
 * All numbers are in units. The programme counts schedules that, once they keep x(k), keep it for as long as something
 * before it in the way back is to come. It shares no code with the planner.
 */
#ifndef TARN_TESTS_CHAIN_ORACLE_H
#define TARN_TESTS_CHAIN_ORACLE_H

#include "planner/problem.h"
#include "support/testing.h"

#define CHAIN_MOST 1001u

struct chain_case {
	uint32_t stages;
	uint32_t cost[CHAIN_MOST], bytes[CHAIN_MOST]; /* from 1 */
	bool reads_output;
};

/* Equal stages, or costs and sizes from 1 to `most`. */
void chain_case_fill(struct chain_case *chain, uint32_t stages, bool reads_output, struct testing_random *random,
		     uint32_t most);

struct problem *chain_case_problem(const struct chain_case *chain, struct host_arena *arena);

/*
 * recomputed[m]: least cost of forward ops beyond each once with a peak of m units, for 0 <= m <= most; -1: nothing
 * fits. Takes stages^2 * most words of memory and stages^3 * most steps.
 */
bool chain_oracle(const struct chain_case *chain, uint32_t most, int32_t *recomputed);

/*
 * The same for equal stages in closed form, for any number of stages (Griewank and Walther, Algorithm 799: revolve, ACM
 * TOMS 26, 2000): with c values to keep and r the least number for which binomial(c + r, c) >= n, the forward ops run
 * r n - binomial(c + r, r - 1) times while the way back is gone. -1: nothing fits.
 */
int64_t chain_binomial(uint32_t stages, bool reads_output, uint32_t units);

#endif
