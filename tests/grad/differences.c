/* differences.c - see differences.h. */
#include "grad/differences.h"

#include "conformance/reference.h"
#include "grad/program.h"
#include "support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP 1e-5
#define SAMPLES 6u
#define TOLERANCE 1e-4 /* of the largest gradient of the parameter */

/* ---- the oracle ---- */

static struct reference_operand *make_values(const struct graph *graph, struct host_arena *arena)
{
	struct reference_operand *value = HOST_ARRAY(arena, graph->tensors, struct reference_operand);
	ck_assert_ptr_nonnull(value);
	for (uint32_t t = 0; t < graph->tensors; t++) {
		const struct tensor *tensor = &graph->tensor[t];
		struct testing_random random = { 17 + t };
		value[t].rank = tensor->rank;
		value[t].elements = tensor_elements(tensor);
		memcpy(value[t].dim, tensor->dim, sizeof value[t].dim);
		value[t].value = HOST_ARRAY(arena, value[t].elements, double);
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
		if ((hold && op->kind == OP_STOP_GRADIENT) || op->phase == PHASE_UPDATE)
			continue;
		ck_assert_uint_le(op->inputs, 16);
		for (uint32_t j = 0; j < op->inputs; j++)
			in[j] = value[op_inputs(graph, i)[j]];
		for (uint32_t k = 0; k < op->outputs; k++)
			out[k] = value[op_outputs(graph, i)[k]];
		reference_run((enum op_kind)op->kind, &op->attr, NULL, in, op->inputs, out);
		if (op->kind == OP_RECORD &&
		    !strcmp(tensor_name(graph, graph->tensor[op_outputs(graph, i)[0]].storage), "metric/loss"))
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

void differences_meet(const struct graph *graph, bool hold, struct host_arena *arena)
{
	struct program program;
	struct reference_operand *value = make_values(graph, arena);
	ck_assert_ok(program_open(&program, driver_find("cpu"), graph, 2, arena));
	write_persistent(&program, graph, value);
	ck_assert_ok(program_run(&program));
	evaluate(graph, value, false);
	for (uint32_t t = 0; t < graph->tensors; t++)
		if (graph->tensor[t].role == ROLE_PARAMETER && graph->tensor[t].producer == OP_NONE)
			check_parameter(graph, value, &program, t, hold);
	program_close(&program);
}
