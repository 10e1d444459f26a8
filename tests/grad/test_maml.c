/*
 * test_maml.c - the outer gradient of meta-learning meets differences of the loss after the inner steps.
 *
 * A small graph of maml.h runs on the device in float; one SGD update with rate 1 gives its gradient. The oracle
 * evaluates the same steps (inner gradients are ops too) in double with the loops of conformance/reference.c and takes
 * (loss(w + h) - loss(w - h)) / 2h. With order 1 inner gradients are constants: what STOP_GRADIENT gives keeps the
 * value that it had at w.
 */
#include "autodiff/maml.h"
#include "conformance/reference.h"
#include "grad/program.h"
#include "support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP 1e-5
#define SAMPLES 6u
#define TOLERANCE 1e-4 /* of the largest gradient of the parameter */

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

/* ---- the oracle ---- */

static struct reference_operand *make_values(const struct graph *graph)
{
	struct reference_operand *value = HOST_ARRAY(&arena, graph->tensors, struct reference_operand);
	ck_assert_ptr_nonnull(value);
	for (uint32_t t = 0; t < graph->tensors; t++) {
		const struct tensor *tensor = &graph->tensor[t];
		struct testing_random random = { 17 + t };
		value[t].rank = tensor->rank;
		value[t].elements = tensor_elements(tensor);
		memcpy(value[t].dim, tensor->dim, sizeof value[t].dim);
		value[t].value = HOST_ARRAY(&arena, value[t].elements, double);
		ck_assert_ptr_nonnull(value[t].value);
		bool parameter = tensor->role == ROLE_PARAMETER && tensor->producer == OP_NONE;
		for (uint64_t i = 0; i < value[t].elements && (parameter || tensor->role == ROLE_STAGING); i++)
			value[t].value[i] = tensor->dtype == DTYPE_I32 ? testing_between(&random, 0, 2)
								       : (double)(0.6f * testing_float(&random));
	}
	return value;
}

/* The recorded loss. `hold`: what STOP_GRADIENT gave stays. */
static double evaluate(const struct graph *graph, struct reference_operand *value, bool hold)
{
	double loss = NAN;
	for (uint32_t i = 0; i < graph->ops; i++) {
		const struct op *op = &graph->op[i];
		struct reference_operand in[16], out[OP_MAX_OUTPUTS];
		if (hold && op->kind == OP_STOP_GRADIENT)
			continue;
		ck_assert_uint_le(op->inputs, 16);
		for (uint32_t j = 0; j < op->inputs; j++)
			in[j] = value[op_inputs(graph, i)[j]];
		for (uint32_t k = 0; k < op->outputs; k++)
			out[k] = value[op_outputs(graph, i)[k]];
		reference_run((enum op_kind)op->kind, &op->attr, NULL, in, op->inputs, out);
		if (op->kind == OP_RECORD && !strcmp(op_name(graph, i), "record/metric/loss"))
			loss = in[1].value[0];
	}
	return loss;
}

/* ---- the device ---- */

static void write_persistent(struct program *program, const struct graph *graph, const struct reference_operand *value)
{
	const struct step_scalars scalars = { .learning_rate = 1 };
	for (uint32_t t = 0; t < graph->tensors; t++) {
		const struct tensor *tensor = &graph->tensor[t];
		if (!is_persistent(tensor->role) || tensor->producer != OP_NONE)
			continue;
		char *data = calloc(1, tensor->bytes + sizeof scalars);
		ck_assert_ptr_nonnull(data);
		for (uint64_t i = 0; i < tensor_elements(tensor); i++)
			if (tensor->dtype == DTYPE_F32)
				((float *)(void *)data)[i] = (float)value[t].value[i];
			else if (tensor->dtype == DTYPE_I32)
				((int32_t *)(void *)data)[i] = (int32_t)value[t].value[i];
		if (tensor->role == ROLE_SCALARS)
			memcpy(data, &scalars, sizeof scalars);
		ck_assert_ok(program_write(program, t, data));
		free(data);
	}
}

/* w - w', the gradient. */
static float *read_gradient(struct program *program, const struct reference_operand *x, uint32_t tensor)
{
	float *after = calloc(x->elements, sizeof *after);
	ck_assert_ptr_nonnull(after);
	ck_assert_ok(program_read(program, tensor, after));
	for (uint64_t i = 0; i < x->elements; i++)
		after[i] = (float)(x->value[i] - (double)after[i]);
	return after;
}

static void check_parameter(const struct graph *graph, struct reference_operand *value, struct program *program,
			    uint32_t tensor, bool hold)
{
	struct reference_operand *x = &value[tensor];
	float *gradient = read_gradient(program, x, tensor);
	struct testing_random random = { tensor };
	double largest = 1e-3;
	for (uint64_t i = 0; i < x->elements; i++)
		largest = fmax(largest, fabs((double)gradient[i]));
	for (uint32_t s = 0; s < SAMPLES; s++) {
		uint64_t i = testing_bits(&random) % x->elements;
		double kept = x->value[i];
		x->value[i] = kept + STEP;
		double up = evaluate(graph, value, hold);
		x->value[i] = kept - STEP;
		double want = (up - evaluate(graph, value, hold)) / (2 * STEP);
		x->value[i] = kept;
		ck_assert_msg(fabs((double)gradient[i] - want) <= TOLERANCE * largest,
			      "%s, element %llu: outer gradient %.8g, differences give %.8g",
			      tensor_name(graph, tensor), (unsigned long long)i, (double)gradient[i], want);
	}
	free(gradient);
}

static void meet_differences(const char *layers, const char *objective, bool hold)
{
	const struct sample_shape sample = { .dim = { 6, 6, 1 }, .rank = 3, .classes = 5 };
	struct config config;
	struct graph graph;
	struct program program;
	host_arena_init(&arena);
	read_config(layers, objective, &config);
	ck_assert_ok(graph_init(&graph, &arena));
	ck_assert_ok(maml_build(&config, &sample, true, &arena, &graph));
	struct reference_operand *value = make_values(&graph);
	uint32_t tensors = graph.tensors, rates = 0;
	ck_assert_ok(program_open(&program, driver_find("cpu"), &graph, 2, &arena));
	write_persistent(&program, &graph, value);
	ck_assert_ok(program_run(&program));
	/* Updates stand at the end: the oracle evaluates what comes before them. */
	while (graph.ops && graph.op[graph.ops - 1].phase == PHASE_UPDATE)
		graph.ops--;
	evaluate(&graph, value, false);
	for (uint32_t t = 0; t < tensors; t++)
		if (graph.tensor[t].role == ROLE_PARAMETER && graph.tensor[t].producer == OP_NONE) {
			check_parameter(&graph, value, &program, t, hold);
			rates += !strncmp(tensor_name(&graph, t), "rate/", 5);
		}
	ck_assert(!strstr(objective, "learn_rates") == !rates);
	program_close(&program);
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
