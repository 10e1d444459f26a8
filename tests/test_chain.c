/* test_chain.c - chains are planned as the exact dynamic programme of tests/support/chain_oracle.h does. */
#include "planner/optimize.h"
#include "planner/planner.h"
#include "support/chain_oracle.h"

#include <stdio.h>
#include <stdlib.h>

static struct host_arena arena;

static void setup(void)
{
	host_arena_init(&arena);
}

static void teardown(void)
{
	host_arena_fini(&arena);
}

static struct problem *problem_of(const struct chain_case *chain)
{
	host_arena_fini(&arena);
	host_arena_init(&arena);
	struct problem *p = chain_case_problem(chain, &arena);
	ck_assert_ok(problem_check(p));
	return p;
}

/* The programme of the planner alone, at every budget. */
static void check_programme(const struct chain_case *chain, uint32_t most, uint32_t effort)
{
	struct problem *p = problem_of(chain);
	struct optimizer k;
	struct candidate c;
	int32_t *least = malloc((most + 1) * sizeof *least);
	ck_assert(least && chain_oracle(chain, most, least));
	ck_assert_ok(optimizer_init(&k, p, effort, &arena));
	ck_assert_ok(candidate_init(&c, &k, &arena));
	ck_assert_uint_ge(k.chain.stages, 3);
	for (uint32_t m = 1; m <= most; m++) {
		bool found = optimizer_chain(&k, m, false, &c);
		ck_assert_msg(found == (least[m] >= 0), "%u stages, %u units: found %d", chain->stages, m, found);
		if (!found)
			continue;
		struct schedule schedule = { c.step, c.steps };
		ck_assert_ok(schedule_check(p, &schedule));
		ck_assert_uint_le(c.peak_bytes, m);
		uint64_t optimum = k.dependence.base_time_ns + (uint64_t)least[m];
		ck_assert_msg(c.time_ns == optimum, "%u stages, %u units: %lu for %lu", chain->stages, m,
			      (unsigned long)c.time_ns, (unsigned long)optimum);
	}
	free(least);
}

static uint32_t units_of_all(const struct chain_case *chain)
{
	uint32_t sum = 0;
	for (uint32_t k = 1; k <= chain->stages; k++)
		sum += chain->bytes[k];
	return sum + 3 * chain->bytes[chain->stages];
}

static const uint32_t lengths[] = { 2, 3, 5, 8, 13, 24, 40, 64 };

START_TEST(equal_stages)
{
	struct chain_case chain;
	for (uint32_t reads_output = 0; reads_output < 2; reads_output++) {
		chain_case_fill(&chain, lengths[_i], reads_output, NULL, 1);
		check_programme(&chain, units_of_all(&chain) + 2, EFFORT_NORMAL);
	}
}
END_TEST

START_TEST(different_stages)
{
	struct chain_case chain;
	struct testing_random random = { .state = (uint64_t)_i };
	for (uint32_t reads_output = 0; reads_output < 2; reads_output++) {
		chain_case_fill(&chain, lengths[_i], reads_output, &random, 6);
		check_programme(&chain, units_of_all(&chain) + 8, EFFORT_NORMAL);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("chain");
	TCase *quick = tcase_create("quick");
	tcase_add_checked_fixture(quick, setup, teardown);
	tcase_set_timeout(quick, 120);
	tcase_add_loop_test(quick, equal_stages, 1, (int)(sizeof lengths / sizeof *lengths));
	tcase_add_loop_test(quick, different_stages, 1, (int)(sizeof lengths / sizeof *lengths));
	suite_add_tcase(suite, quick);
	return testing_run(suite);
}
