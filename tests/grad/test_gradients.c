/*
 * test_gradients.c - every derivative meets central differences.
 *
 * For each case of the conformance table whose op has a derivative: loss = mean((y - t)^2) of its first output (or the
 * output itself when it is a loss), autodiff, run on the device in float. The oracle evaluates the forward part in
 * double with the plain loops of conformance/reference.c and takes (loss(x + h) - loss(x - h)) / 2h.
 *
 * And once more: the forward part is decomposed, its gradient by all inputs differentiated again along a random vector
 * v of all inputs, which gives H v; element j of it is the mixed difference of the loss along v and e_j,
 * (L(v + e) - L(v - e) - L(-v + e) + L(-v - e)) / 4h^2.
 */
#include "autodiff/autodiff.h"
#include "autodiff/decompose.h"
#include "conformance/cases.h"
#include "conformance/reference.h"
#include "grad/program.h"
#include "support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP 1e-5
#define SAMPLES 10u    /* elements of each input that are tried */
#define LARGEST 20000u /* inputs above that are left out: the oracle is slow */
#define TOLERANCE 3e-5 /* of the largest gradient seen; float against double */

static const struct step_scalars scalars = { .seed = 99, .step = 3 };

/* A forward graph, its values in double, and what the derivative is taken of. */
struct problem {
	struct host_arena host;
	struct graph graph;
	uint32_t forward_ops, loss;
	uint32_t parameter[SINGLE_OP_INPUTS + 1], gradient[SINGLE_OP_INPUTS + 1], parameters;
	struct reference_operand *value; /* of each tensor of the forward graph */
};

static void add_tensor(struct problem *problem, const char *name, const struct single_input *input, uint32_t *out)
{
	ck_assert_ok(graph_add_persistent(&problem->graph, name, input->role ? input->role : ROLE_PARAMETER,
					  input->dtype, input->dim, input->rank, out));
}

/* Losses whose second input is real values. */
static bool has_target(enum op_kind kind)
{
	return kind == OP_MEAN_SQUARED_ERROR || kind == OP_BINARY_CROSS_ENTROPY || kind == OP_LOGISTIC_MIXTURE;
}

static bool is_loss(enum op_kind kind)
{
	return kind == OP_SOFTMAX_CROSS_ENTROPY || kind == OP_LINEAR_CROSS_ENTROPY || has_target(kind);
}

/* BATCH_APPLY has a gradient when its statistics are those of its input: they are computed in front of it. */
static void add_stats(struct problem *problem, uint32_t *input)
{
	uint32_t out[2];
	ck_assert_ok(graph_add_op(&problem->graph, OP_BATCH_STATS, PHASE_FORWARD, "stats", &(struct op_attr){ 0 },
				  &input[0], 1, out));
	input[1] = out[0];
	input[2] = out[1];
}

static void build(struct problem *problem, const struct conformance_case *test)
{
	uint32_t input[SINGLE_OP_INPUTS], out[OP_MAX_OUTPUTS], target;
	host_arena_init(&problem->host);
	ck_assert_ok(graph_init(&problem->graph, &problem->host));
	problem->parameters = 0;
	for (uint32_t i = 0; i < test->inputs; i++) {
		char name[16];
		snprintf(name, sizeof name, "in%u", i);
		add_tensor(problem, name, &test->input[i], &input[i]);
		bool statistics = test->kind == OP_BATCH_APPLY && (i == 1 || i == 2);
		/* Not differentiated: where an activation bends, and the target of a loss. */
		bool fixed = (test->kind == OP_ACTIVATION_GRAD || has_target(test->kind)) && i == 1;
		if (test->input[i].dtype == DTYPE_F32 && !statistics && !fixed)
			problem->parameter[problem->parameters++] = input[i];
	}
	if (test->kind == OP_BATCH_APPLY)
		add_stats(problem, input);
	/* The target is persistent, so it is added before the op; its shape is that of the output. */
	struct single_op shape;
	const struct single_options plain = { .threads = 1, .in_place = -1 };
	ck_assert_ok(single_op_open(&shape, driver_find("null"), test->kind, &test->attr, test->input, test->inputs,
				    &plain));
	const struct tensor *y = single_op_tensor(&shape, test->inputs);
	struct single_input target_input = { .dtype = DTYPE_F32, .rank = y->rank };
	memcpy(target_input.dim, y->dim, sizeof target_input.dim);
	single_op_close(&shape);
	add_tensor(problem, "target", &target_input, &target);
	ck_assert_ok(
		graph_add_op(&problem->graph, test->kind, PHASE_FORWARD, "op", &test->attr, input, test->inputs, out));
	problem->loss = out[0];
	if (!is_loss(test->kind))
		ck_assert_ok(graph_add_op(&problem->graph, OP_MEAN_SQUARED_ERROR, PHASE_FORWARD, "loss",
					  &(struct op_attr){ 0 }, (uint32_t[]){ out[0], target }, 2, &problem->loss));
	problem->forward_ops = problem->graph.ops;
}

static void fill(struct problem *problem, const struct conformance_case *test)
{
	const struct graph *graph = &problem->graph;
	uint32_t taps = test->attr.window.kernel[0] * test->attr.window.kernel[1];
	problem->value = HOST_ARRAY(&problem->host, graph->tensors, struct reference_operand);
	ck_assert_ptr_nonnull(problem->value);
	for (uint32_t t = 0; t < graph->tensors; t++) {
		const struct tensor *tensor = &graph->tensor[t];
		struct testing_random random = { t * 31 + test->kind };
		struct reference_operand *value = &problem->value[t];
		value->rank = tensor->rank;
		value->elements = tensor_elements(tensor);
		memcpy(value->dim, tensor->dim, sizeof value->dim);
		value->value = HOST_ARRAY(&problem->host, value->elements, double);
		ck_assert_ptr_nonnull(value->value);
		for (uint64_t i = 0; i < value->elements; i++) {
			/* Labels and indices are small whole numbers; f32 inputs are exact in both worlds. */
			double number = (double)testing_float(&random);
			if (tensor->dtype != DTYPE_F32)
				number = testing_between(&random, 0, taps ? taps - 1 : conformance_labels(test) - 1);
			else if (t < test->inputs && test->positive & 1u << t)
				number = 0.7 + (double)(float)(0.5 * number);
			value->value[i] = (double)(float)number;
		}
	}
}

static double forward_loss(struct problem *problem)
{
	const struct graph *graph = &problem->graph;
	for (uint32_t i = 0; i < problem->forward_ops; i++) {
		const struct op *op = &graph->op[i];
		struct reference_operand in[SINGLE_OP_INPUTS], out[OP_MAX_OUTPUTS];
		for (uint32_t j = 0; j < op->inputs; j++)
			in[j] = problem->value[op_inputs(graph, i)[j]];
		for (uint32_t k = 0; k < op->outputs; k++)
			out[k] = problem->value[op_outputs(graph, i)[k]];
		reference_run((enum op_kind)op->kind, &op->attr, &scalars, in, op->inputs, out);
	}
	return problem->value[problem->loss].value[0];
}

/* id: of the program's tensors, by those of the problem; NULL: they are the same. */
static void write_persistent(struct program *program, const struct problem *problem, const uint32_t *id)
{
	const struct graph *graph = &problem->graph;
	for (uint32_t t = 0; t < graph->tensors; t++) {
		const struct tensor *tensor = &graph->tensor[t];
		if (!is_persistent(tensor->role))
			continue;
		const double *value = problem->value[t].value;
		void *data = calloc(1, tensor->bytes);
		ck_assert_ptr_nonnull(data);
		for (uint64_t i = 0; i < tensor_elements(tensor); i++)
			if (tensor->dtype == DTYPE_F32)
				((float *)data)[i] = (float)value[i];
			else if (tensor->dtype == DTYPE_I32)
				((int32_t *)data)[i] = (int32_t)value[i];
			else
				((uint8_t *)data)[i] = (uint8_t)value[i];
		if (tensor->role == ROLE_SCALARS)
			memcpy(data, &scalars, sizeof scalars);
		ck_assert_ok(program_write(program, id ? id[t] : t, data));
		free(data);
	}
}

/* One parameter: sampled elements of the gradient against differences of the loss. */
static void check_parameter(struct problem *problem, struct program *program, uint32_t index, const char *name)
{
	struct reference_operand *x = &problem->value[problem->parameter[index]];
	float *gradient = calloc(x->elements, sizeof *gradient);
	double scale = 1e-3, want[SAMPLES];
	uint64_t element[SAMPLES];
	struct testing_random random = { index };
	ck_assert_ptr_nonnull(gradient);
	ck_assert_msg(problem->gradient[index] != TENSOR_NONE, "%s: input %u has no gradient", name, index);
	ck_assert_ok(program_read(program, problem->gradient[index], gradient));
	for (uint32_t s = 0; s < SAMPLES; s++) {
		element[s] = x->elements <= SAMPLES ? s % x->elements : testing_bits(&random) % x->elements;
		double *value = &x->value[element[s]], kept = *value;
		*value = kept + STEP;
		want[s] = forward_loss(problem);
		*value = kept - STEP;
		want[s] = (want[s] - forward_loss(problem)) / (2 * STEP);
		*value = kept;
		scale = fmax(scale, fabs(want[s]));
	}
	for (uint32_t s = 0; s < SAMPLES; s++)
		ck_assert_msg(fabs((double)gradient[element[s]] - want[s]) <= TOLERANCE * scale,
			      "%s: gradient of input %u, element %llu is %.8g, differences give %.8g", name, index,
			      (unsigned long long)element[s], (double)gradient[element[s]], want[s]);
	free(gradient);
}

static bool wanted(const struct conformance_case *test)
{
	if (!derive_rule(test->kind) || conformance_excluded("cpu", test->name))
		return false;
	/* Its derivative takes rounding for the identity. */
	if (test->kind == OP_CAST)
		return false;
	/* Its y must be 0 where it is masked: it is tried where it comes from SOFTMAX. */
	if (test->kind == OP_SOFTMAX_GRAD && test->attr.causal)
		return false;
	for (uint32_t i = 0; i < test->inputs; i++) {
		uint64_t elements = 1;
		for (uint32_t d = 0; d < test->input[i].rank; d++)
			elements *= test->input[i].dim[d];
		if (elements > LARGEST)
			return false;
	}
	return true;
}

static void meet_differences(const struct conformance_case *test)
{
	struct problem problem;
	struct program program;
	if (!wanted(test))
		return;
	build(&problem, test);
	fill(&problem, test);
	ck_assert_ok(autodiff_gradients(&problem.graph, problem.loss, problem.parameter, problem.parameters,
					&problem.host, problem.gradient));
	ck_assert_ok(graph_check(&problem.graph));
	ck_assert_ok(program_open(&program, driver_find("cpu"), &problem.graph, 2, &problem.host));
	write_persistent(&program, &problem, NULL);
	ck_assert_ok(program_run(&program));
	for (uint32_t i = 0; i < problem.parameters; i++)
		check_parameter(&problem, &program, i, test->name);
	program_close(&program);
	host_arena_fini(&problem.host);
}

#define SECOND_STEP 1e-4
#define SECOND_SAMPLES 4u
#define SECOND_LARGEST 4000u
#define SECOND_TOLERANCE 1e-4

/* The decomposed graph, the vector and the product of each parameter. */
struct second {
	struct graph graph;
	uint32_t *id; /* of the tensors of problem.graph */
	uint32_t parameter[SINGLE_OP_INPUTS + 1], vector[SINGLE_OP_INPUTS + 1], product[SINGLE_OP_INPUTS + 1];
	double *direction[SINGLE_OP_INPUTS + 1];
};

static void add_vectors(struct problem *problem, struct second *second)
{
	for (uint32_t i = 0; i < problem->parameters; i++) {
		const struct tensor *x = &problem->graph.tensor[problem->parameter[i]];
		struct testing_random random = { 77 + i };
		char name[24];
		snprintf(name, sizeof name, "vector%u", i);
		second->parameter[i] = second->id[problem->parameter[i]];
		ck_assert_ok(graph_add_persistent(&second->graph, name, ROLE_PARAMETER, DTYPE_F32, x->dim, x->rank,
						  &second->vector[i]));
		second->direction[i] = HOST_ARRAY(&problem->host, tensor_elements(x), double);
		ck_assert_ptr_nonnull(second->direction[i]);
		for (uint64_t k = 0; k < tensor_elements(x); k++)
			second->direction[i][k] = (double)testing_float(&random);
	}
}

static void build_second(struct problem *problem, struct second *second)
{
	struct decomposition decomposition = { .from = &problem->graph, .prefix = "" };
	uint32_t first[SINGLE_OP_INPUTS + 1];
	ck_assert_ok(graph_init(&second->graph, &problem->host));
	second->id = decomposition.id = HOST_ARRAY(&problem->host, problem->graph.tensors, uint32_t);
	ck_assert_ptr_nonnull(second->id);
	ck_assert_ok(decompose_persistents(&problem->graph, &second->graph, second->id));
	add_vectors(problem, second);
	ck_assert_ok(decompose_network(&decomposition, &problem->host, &second->graph));
	ck_assert_ok(autodiff_gradients(&second->graph, second->id[problem->loss], second->parameter,
					problem->parameters, &problem->host, first));
	ck_assert_ok(autodiff_products(&second->graph, first, second->vector, problem->parameters, second->parameter,
				       problem->parameters, &problem->host, second->product));
	ck_assert_ok(graph_check(&second->graph));
}

static void write_vectors(struct program *program, const struct problem *problem, const struct second *second)
{
	for (uint32_t i = 0; i < problem->parameters; i++) {
		uint64_t elements = problem->value[problem->parameter[i]].elements;
		float *data = calloc(elements, sizeof *data);
		ck_assert_ptr_nonnull(data);
		for (uint64_t k = 0; k < elements; k++)
			data[k] = (float)second->direction[i][k];
		ck_assert_ok(program_write(program, second->vector[i], data));
		free(data);
	}
}

static void move_along(struct problem *problem, const struct second *second, double step)
{
	for (uint32_t i = 0; i < problem->parameters; i++) {
		struct reference_operand *x = &problem->value[problem->parameter[i]];
		for (uint64_t k = 0; k < x->elements; k++)
			x->value[k] += step * second->direction[i][k];
	}
}

static double mixed_difference(struct problem *problem, const struct second *second, double *value)
{
	const double h = SECOND_STEP;
	double total = 0;
	for (int sign = 0; sign < 4; sign++) {
		double along = sign & 1 ? -h : h, element = sign & 2 ? -h : h;
		move_along(problem, second, along);
		*value += element;
		total += (sign == 0 || sign == 3 ? 1 : -1) * forward_loss(problem);
		*value -= element;
		move_along(problem, second, -along);
	}
	return total / (4 * h * h);
}

static void check_product(struct problem *problem, struct second *second, struct program *program, uint32_t index,
			  const char *name)
{
	struct reference_operand *x = &problem->value[problem->parameter[index]];
	float *product = calloc(x->elements, sizeof *product);
	struct testing_random random = { index + 5 };
	double scale = 1e-2, want[SECOND_SAMPLES];
	uint64_t element[SECOND_SAMPLES];
	ck_assert_ptr_nonnull(product);
	if (second->product[index] != TENSOR_NONE)
		ck_assert_ok(program_read(program, second->product[index], product));
	for (uint64_t k = 0; k < x->elements; k++)
		scale = fmax(scale, fabs((double)product[k]));
	for (uint32_t s = 0; s < SECOND_SAMPLES; s++) {
		element[s] = testing_bits(&random) % x->elements;
		want[s] = mixed_difference(problem, second, &x->value[element[s]]);
		scale = fmax(scale, fabs(want[s]));
	}
	for (uint32_t s = 0; s < SECOND_SAMPLES; s++)
		ck_assert_msg(fabs((double)product[element[s]] - want[s]) <= SECOND_TOLERANCE * scale,
			      "%s: input %u, element %llu of H v is %.8g, differences give %.8g", name, index,
			      (unsigned long long)element[s], (double)product[element[s]], want[s]);
	free(product);
}

/* Can it be differentiated twice? The tests of decompose.h say what cannot. */
static bool wanted_twice(const struct conformance_case *test)
{
	if (!wanted(test) || test->kind == OP_LOGISTIC_MIXTURE)
		return false;
	for (uint32_t i = 0; i < test->inputs; i++) {
		uint64_t elements = 1;
		for (uint32_t d = 0; d < test->input[i].rank; d++)
			elements *= test->input[i].dim[d];
		if (elements > SECOND_LARGEST)
			return false;
	}
	return true;
}

static void meet_second_differences(const struct conformance_case *test)
{
	struct problem problem;
	struct second second;
	struct program program;
	if (!wanted_twice(test))
		return;
	build(&problem, test);
	fill(&problem, test);
	build_second(&problem, &second);
	ck_assert_ok(program_open(&program, driver_find("cpu"), &second.graph, 2, &problem.host));
	write_persistent(&program, &problem, second.id);
	write_vectors(&program, &problem, &second);
	ck_assert_ok(program_run(&program));
	for (uint32_t i = 0; i < problem.parameters; i++)
		check_product(&problem, &second, &program, i, test->name);
	program_close(&program);
	host_arena_fini(&problem.host);
}

/* Cases that one test process runs: starting a process and its library takes longer than a case. */
#define GROUP 16
#define GROUPS ((conformance_case_count + GROUP - 1) / GROUP)

START_TEST(derivative_meets_differences)
{
	for (int i = _i * GROUP; i < (_i + 1) * GROUP && i < conformance_case_count; i++)
		meet_differences(&conformance_cases[i]);
}
END_TEST

START_TEST(second_derivative_meets_differences)
{
	for (int i = _i * GROUP; i < (_i + 1) * GROUP && i < conformance_case_count; i++)
		meet_second_differences(&conformance_cases[i]);
}
END_TEST

/* A view has no kernel, so it is no case of the conformance table. */
START_TEST(slice_view_meets_differences)
{
	const struct conformance_case test = { .name = "slice view",
					       .kind = OP_SLICE_VIEW,
					       .attr = { .begin = 1 + (uint32_t)_i, .extent = { 2 } },
					       .input = { { .dtype = DTYPE_F32, .rank = 2, .dim = { 5, 16 } } },
					       .inputs = 1 };
	meet_differences(&test);
}
END_TEST

/* Every op kind that has a derivative stands in the table of cases with a size that is tried. */
START_TEST(every_derivative_is_tried)
{
	for (uint32_t kind = 0; kind < OP_KINDS; kind++) {
		bool once = !derive_rule((enum op_kind)kind) || op_row((enum op_kind)kind)->view || kind == OP_CAST;
		bool twice = once || kind == OP_LOGISTIC_MIXTURE;
		for (int i = 0; i < conformance_case_count; i++) {
			once |= conformance_cases[i].kind == kind && wanted(&conformance_cases[i]);
			twice |= conformance_cases[i].kind == kind && wanted_twice(&conformance_cases[i]);
		}
		ck_assert_msg(once, "%s has a derivative but no case", op_row((enum op_kind)kind)->name);
		ck_assert_msg(twice, "%s has a second derivative but no case", op_row((enum op_kind)kind)->name);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("gradients");
	TCase *differences = tcase_create("differences");
	tcase_set_timeout(differences, 60);
	tcase_add_loop_test(differences, derivative_meets_differences, 0, GROUPS);
	tcase_add_loop_test(differences, second_derivative_meets_differences, 0, GROUPS);
	tcase_add_loop_test(differences, slice_view_meets_differences, 0, 3);
	tcase_add_test(differences, every_derivative_is_tried);
	suite_add_tcase(suite, differences);
	return testing_run(suite);
}
