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

/* Whole plans of long chains, at some budgets from the least to keeping all; those of random stages may be faster. */
static const uint32_t long_lengths[] = { 100, 128, 200, 256, 400, 512, 700, 1000 };
#define LONG_BUDGETS 6u
/* Words of the oracle's two tables. */
#define MOST_WORDS 500000000u

static void check_plans(const struct chain_case *chain, const char *name)
{
	struct problem *p = problem_of(chain);
	uint32_t all = units_of_all(chain), n = chain->stages, most = MOST_WORDS / (n + 1) / (n + 1) / 2;
	uint32_t worse = 0, better = 0, judged = 0;
	double sum = 0, largest = 0;
	most = most < all ? most : all;
	int32_t *least = malloc((most + 1) * sizeof *least);
	ck_assert(least && chain_oracle(chain, most, least));
	uint32_t first = 0;
	while (first <= most && least[first] < 0)
		first++;
	for (uint32_t i = 0; i < LONG_BUDGETS && first <= most; i++) {
		uint32_t m = first + (most - first) * i * i / ((LONG_BUDGETS - 1) * (LONG_BUDGETS - 1));
		struct planner_request request = { .problem = p,
						   .strategy = STRATEGY_AUTO,
						   .budget = m,
						   .effort = EFFORT_NORMAL,
						   .sum_of_bytes = true,
						   .skip_least = true };
		struct planner_result r;
		enum tarn_status st = planner_run(&request, &arena, &r);
		ck_assert_msg(!st, "%s, %u stages, %u units: refused", name, n, m);
		uint64_t optimum = r.base_time_ns + (uint64_t)least[m];
		double gap = (double)r.time_ns / (double)optimum - 1;
		worse += r.time_ns > optimum;
		better += r.time_ns < optimum;
		judged++;
		sum += gap;
		largest = gap > largest ? gap : largest;
	}
	printf("%s, %u stages, %u to %u of %u units: %u budgets, %u above the programme, %u below; gap mean %.4f %%, "
	       "most "
	       "%.4f %%\n",
	       name, n, first, most, all, judged, worse, better, 100 * sum / (judged ? judged : 1), 100 * largest);
	free(least);
	ck_assert_uint_eq(worse, 0);
}

START_TEST(long_chains)
{
	struct chain_case chain;
	struct testing_random random = { .state = (uint64_t)_i };
	chain_case_fill(&chain, long_lengths[_i], false, NULL, 1);
	check_plans(&chain, "equal");
	chain_case_fill(&chain, long_lengths[_i], true, &random, 4);
	check_plans(&chain, "different");
}
END_TEST

/* The closed form and the programme share nothing; here they judge one another. */
START_TEST(closed_form_is_the_programme)
{
	struct chain_case chain;
	int32_t least[64];
	for (uint32_t n = 2; n <= 30; n++)
		for (uint32_t reads_output = 0; reads_output < 2; reads_output++) {
			chain_case_fill(&chain, n, reads_output, NULL, 1);
			ck_assert(chain_oracle(&chain, n + 4, least));
			for (uint32_t m = 0; m <= n + 4; m++)
				ck_assert_int_eq(chain_binomial(n, reads_output, m), least[m]);
		}
}
END_TEST

/* The programme alone for the longest chains, at the least effort: exact next to the least budget as well. */
START_TEST(programme_of_a_thousand_stages_is_binomial)
{
	static const uint32_t beyond_least[] = { 0, 1, 2, 3, 5, 8, 13, 30, 100, 500 };
	struct chain_case chain;
	uint32_t n = _i ? 777 : 1000;
	for (uint32_t reads_output = 0; reads_output < 2; reads_output++) {
		chain_case_fill(&chain, n, reads_output, NULL, 1);
		struct problem *p = problem_of(&chain);
		struct optimizer k;
		struct candidate c;
		ck_assert_ok(optimizer_init(&k, p, EFFORT_FAST, &arena));
		ck_assert_ok(candidate_init(&c, &k, &arena));
		for (uint32_t i = 0; i < sizeof beyond_least / sizeof *beyond_least; i++) {
			uint32_t m = 3 + reads_output + beyond_least[i];
			ck_assert_msg(optimizer_chain(&k, m, false, &c), "%u stages, %u units: nothing", n, m);
			ck_assert_uint_le(c.peak_bytes, m);
			uint64_t optimum = k.dependence.base_time_ns + (uint64_t)chain_binomial(n, reads_output, m);
			ck_assert_msg(c.time_ns == optimum, "%u stages, %u units: %lu for %lu", n, m,
				      (unsigned long)c.time_ns, (unsigned long)optimum);
		}
	}
}
END_TEST

/* Whole plans of equal stages, from the least budget to keeping all, more closely near the least. */
static const uint32_t binomial_lengths[] = { 100, 400, 1000 };
#define BINOMIAL_BUDGETS 14u

START_TEST(long_equal_chains_are_binomial)
{
	struct chain_case chain;
	uint32_t n = binomial_lengths[_i];
	for (uint32_t reads_output = 0; reads_output < 2; reads_output++) {
		chain_case_fill(&chain, n, reads_output, NULL, 1);
		struct problem *p = problem_of(&chain);
		uint32_t first = 3 + reads_output, last = units_of_all(&chain), judged = BINOMIAL_BUDGETS;
		for (uint32_t i = 0; i < judged; i++) {
			uint32_t m = first + (last - first) * i * i * i / ((judged - 1) * (judged - 1) * (judged - 1));
			struct planner_request request = { .problem = p,
							   .strategy = STRATEGY_AUTO,
							   .budget = m,
							   .effort = EFFORT_NORMAL,
							   .sum_of_bytes = true,
							   .skip_least = true };
			struct planner_result r;
			ck_assert_msg(!planner_run(&request, &arena, &r), "%u stages, %u units: refused", n, m);
			uint64_t optimum = r.base_time_ns + (uint64_t)chain_binomial(n, reads_output, m);
			ck_assert_msg(r.time_ns == optimum, "%u stages, %u units: %lu for %lu", n, m,
				      (unsigned long)r.time_ns, (unsigned long)optimum);
		}
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
	tcase_add_test(quick, closed_form_is_the_programme);
	tcase_add_loop_test(quick, long_equal_chains_are_binomial, 0, 1);
	tcase_add_loop_test(quick, programme_of_a_thousand_stages_is_binomial, 0, 2);
	suite_add_tcase(suite, quick);
	if (getenv("TARN_TEST_SLOW")) {
		TCase *slow = tcase_create("slow");
		tcase_add_checked_fixture(slow, setup, teardown);
		tcase_set_timeout(slow, 7200);
		tcase_add_loop_test(slow, long_chains, 0, (int)(sizeof long_lengths / sizeof *long_lengths));
		suite_add_tcase(suite, slow);
		TCase *binomial = tcase_create("binomial");
		tcase_add_checked_fixture(binomial, setup, teardown);
		tcase_set_timeout(binomial, 7200);
		tcase_add_loop_test(binomial, long_equal_chains_are_binomial, 1,
				    (int)(sizeof binomial_lengths / sizeof *binomial_lengths));
		suite_add_tcase(suite, binomial);
	}
	return testing_run(suite);
}
