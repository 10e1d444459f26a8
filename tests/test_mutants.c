/*
 * test_mutants.c - plans of the real planner, broken in every way: each mutant is refused by the verifier or shown to
 * be harmless by an exhaustive replay.
 */
#include "support/mutate.h"
#include "support/random_network.h"
#include "support/testing.h"
#include "support/training.h"

#include "boot.h"

#include <string.h>

#define MUTANTS 1500

/*
 * Plans the network in `part` eighths of the way from its smallest budget to keep-all, and mutates the plan. `offload`:
 * tensors go to the host as well, over a fast link.
 */
static void mutate_network(const char *text, uint64_t part, bool offload, uint64_t seed)
{
	struct training training = { .text = text };
	struct training_result free_plan;
	ck_assert_ok(training_plan(&training, &free_plan));
	uint64_t low = free_plan.info.min_budget_bytes, high = free_plan.info.arena_bytes;
	const char *override[] = { training_budget(low + (high - low) * part / 8), "device.driver=cpu",
				   "train.threads=1", "memory.offload=true", "memory.offload_bandwidth=100 GB" };
	struct host_arena arena;
	struct config config;
	struct plan plan;
	struct plan_report report;
	struct mutate_report mutants;
	host_arena_init(&arena);
	ck_assert_ok(config_parse(text, strlen(text), "network", override, offload ? 5 : 3, &arena, &config));
	struct device device = { .ops = driver_find("cpu"), .host = &arena };
	struct device_options options = { .threads = 1, .workspace_cap = config.memory.workspace_cap };
	ck_assert_ok(device.ops->open(&device, &options));
	ck_assert_ok(boot_plan(&config, &device, &arena, &plan, &report));
	ck_assert_uint_le(plan.program[0].time_bound_ns, plan.program[0].time_ns);
	ck_assert_uint_le(plan.program[0].peak_bound_bytes, plan.program[0].peak_bytes);
	if (text == training_residual && !part && !offload) /* the proofs that are broken below are real ones */
		ck_assert(plan.program[0].proof_terms > 0 &&
			  plan.program[0].time_bound_ns > plan.program[0].base_time_ns);
	ck_assert_msg(!plan.host_bytes == !offload, "seed %llu: a host region of %llu bytes", (unsigned long long)seed,
		      (unsigned long long)plan.host_bytes);
	ck_assert_ok(mutate_plan(&plan, seed, MUTANTS, &arena, &mutants));
	ck_assert_msg(!mutants.wrong[0], "seed %llu, budget part %llu: accepted but harmful: %s",
		      (unsigned long long)seed, (unsigned long long)part, mutants.wrong);
	ck_assert_uint_gt(mutants.refused, mutants.mutants / 2);
	ck_assert_uint_eq(mutants.refused + mutants.harmless, mutants.mutants);
	device.ops->close(&device);
	host_arena_fini(&arena);
}

START_TEST(no_mutant_of_a_known_network_does_harm)
{
	static const char *const networks[] = { training_residual, training_tied, training_frozen, training_unet,
						training_average };
	mutate_network(networks[_i < 10 ? _i % 5 : _i - 10], _i < 5 ? 0 : _i < 10 ? 4 : 1, _i >= 10, 17 + (uint64_t)_i);
}
END_TEST

START_TEST(no_mutant_of_a_random_network_does_harm)
{
	char text[8192];
	uint64_t seed = 300 + (uint64_t)_i;
	mutate_network(random_network(seed, text, sizeof text), seed % 9, false, seed);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("mutants");
	TCase *known = tcase_create("known"), *random = tcase_create("random");
	tcase_set_timeout(known, 120);
	tcase_set_timeout(random, 120);
	tcase_add_loop_test(known, no_mutant_of_a_known_network_does_harm, 0, 14);
	tcase_add_loop_test(random, no_mutant_of_a_random_network_does_harm, 0, 12);
	suite_add_tcase(suite, known);
	suite_add_tcase(suite, random);
	return testing_run(suite);
}
