/*
 * test_maml.c - the outer gradient of meta-learning meets differences of the loss after the inner steps.
 *
 * The oracle is grad/differences.h: inner gradients are ops too. With order 1 they are constants: what STOP_GRADIENT
 * gives keeps the value that it had at w.
 */
#include "autodiff/maml.h"
#include "grad/differences.h"
#include "support/testing.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *name, *text;
} networks[] = {
	{ "mlp", "layers: [flatten, dense: 7, tanh, dense: 6, gelu, dense: 3]\n" },
	{ "convolutions", "layers:\n"
			  "- conv2d: {channels: 4, kernel: 3, bias: true}\n"
			  "- batch_norm\n"
			  "- silu\n"
			  "- max_pool: 2\n"
			  "- flatten\n"
			  "- dense: 3\n" },
};

static struct host_arena arena;

static void read_config(const char *layers, const char *objective, struct config *config)
{
	char text[1024];
	snprintf(text, sizeof text,
		 "data: {type: synthetic, shape: [6, 6, 1], classes: 5}\n"
		 "optimizer: {type: sgd, learning_rate: 1}\n"
		 "objective: {type: maml, ways: 3, shots: 2, queries: 3, tasks: 2, inner_rate: 0.4%s}\n%s",
		 objective, layers);
	ck_assert_ok(config_parse(text, strlen(text), "test", NULL, 0, &arena, config));
}

static void meet_differences(const char *layers, const char *objective, bool hold)
{
	const struct sample_shape sample = { .dim = { 6, 6, 1 }, .rank = 3, .classes = 5 };
	struct config config;
	struct graph graph;
	uint32_t rates = 0;
	host_arena_init(&arena);
	read_config(layers, objective, &config);
	ck_assert_ok(graph_init(&graph, &arena));
	ck_assert_ok(maml_build(&config, &sample, true, &arena, &graph));
	for (uint32_t t = 0; t < graph.tensors; t++)
		rates += !strncmp(tensor_name(&graph, t), "rate/", 5) && graph.tensor[t].producer == OP_NONE;
	ck_assert(!strstr(objective, "learn_rates") == !rates);
	differences_meet(&graph, hold, &arena);
	host_arena_fini(&arena);
}

START_TEST(second_order_meets_differences)
{
	meet_differences(networks[_i].text, ", inner_steps: 3, order: 2", false);
}
END_TEST

START_TEST(learnt_rates_meet_differences)
{
	meet_differences(networks[_i].text, ", inner_steps: 2, order: 2, learn_rates: true", false);
}
END_TEST

/* Inner gradients are constants, and the result is another one than with order 2. */
START_TEST(first_order_meets_differences_of_its_own)
{
	meet_differences(networks[_i].text, ", inner_steps: 3, order: 1", true);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("meta-learning");
	TCase *tc = tcase_create("gradients");
	int count = sizeof networks / sizeof *networks;
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, second_order_meets_differences, 0, count);
	tcase_add_loop_test(tc, learnt_rates_meet_differences, 0, count);
	tcase_add_loop_test(tc, first_order_meets_differences_of_its_own, 0, count);
	suite_add_tcase(suite, tc);
	return testing_run(suite);
}
