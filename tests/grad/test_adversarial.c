/*
 * test_adversarial.c - the gradients of objectives about moved inputs meet differences of their losses.
 *
 * What an attack found is a constant: with `hold` the oracle of grad/differences.h keeps it, so that only the way from
 * the parameters through the loss at the moved input counts. A penalty holds nothing: the gradient by the input is
 * differentiated again.
 */
#include "graph/build.h"
#include "grad/differences.h"
#include "support/testing.h"

#include <stdio.h>
#include <string.h>

static const char *const networks[] = {
	"layers: [flatten, dense: 7, tanh, dense: 6, gelu, dense: 3]\n",
	"layers:\n"
	"- conv2d: {channels: 4, kernel: 3, bias: true}\n"
	"- batch_norm\n"
	"- silu\n"
	"- max_pool: 2\n"
	"- flatten\n"
	"- dense: 3\n",
};

static struct host_arena arena;

static void meet_differences(const char *layers, const char *objective, bool hold)
{
	const struct sample_shape sample = { .dim = { 6, 6, 1 }, .rank = 3, .classes = 3 };
	struct config config;
	struct graph graph;
	char text[1024];
	host_arena_init(&arena);
	snprintf(text, sizeof text,
		 "data: {type: synthetic, shape: [6, 6, 1], classes: 3}\n"
		 "optimizer: {type: sgd, learning_rate: 1}\nobjective: %s\n%s",
		 objective, layers);
	ck_assert_ok(config_parse(text, strlen(text), "test", NULL, 0, &arena, &config));
	ck_assert_ok(graph_init(&graph, &arena));
	ck_assert_ok(training_build(&config, &sample, 5, &arena, &graph));
	differences_meet(&graph, hold, &arena);
	host_arena_fini(&arena);
}

START_TEST(gradient_penalty_meets_differences)
{
	meet_differences(networks[_i], "{type: gradient_penalty, weight: 3}", false);
}
END_TEST

START_TEST(fgsm_meets_differences)
{
	meet_differences(networks[_i], "{type: adversarial, epsilon: 0.2, weight: 0.5}", true);
}
END_TEST

START_TEST(pgd_meets_differences)
{
	meet_differences(networks[_i], "{type: adversarial, method: pgd, epsilon: 0.2, steps: 3}", true);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("adversarial");
	TCase *tc = tcase_create("gradients");
	int count = sizeof networks / sizeof *networks;
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, gradient_penalty_meets_differences, 0, count);
	tcase_add_loop_test(tc, fgsm_meets_differences, 0, count);
	tcase_add_loop_test(tc, pgd_meets_differences, 0, count);
	suite_add_tcase(suite, tc);
	return testing_run(suite);
}
