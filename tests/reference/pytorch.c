/* pytorch.c - see pytorch.h. */
#include "reference/pytorch.h"

#include "autodiff/autodiff.h"
#include "base/hash_numbers.h"
#include "grad/program.h"
#include "support/testing.h"
#include "tarn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t pytorch_values(const char *path, const char *heading, const char *name, double *value, uint32_t room)
{
	static char text[1 << 17];
	FILE *file = fopen(path, "r");
	bool inside = false;
	uint32_t count = 0;
	ck_assert_msg(file != NULL, "%s cannot be read", path);
	while (!count && fgets(text, sizeof text, file)) {
		text[strcspn(text, "\n")] = '\0';
		if (!strncmp(text, "op ", 3) || !strncmp(text, "family ", 7))
			inside = !strcmp(text, heading);
		size_t length = strlen(name);
		if (!inside || strncmp(text, name, length) || text[length] != ' ')
			continue;
		for (char *at = text + length, *end; count < room; at = end) {
			value[count] = strtod(at, &end);
			if (end == at)
				break;
			count++;
		}
	}
	fclose(file);
	ck_assert_msg(count > 0, "%s, %s is not in %s", heading, name, path);
	return count;
}

static void write_hash(struct program *program, uint32_t tensor, uint64_t seed, uint32_t classes)
{
	const struct tensor *t = &program->graph->tensor[tensor];
	uint64_t n = tensor_elements(t);
	void *data = calloc(n, 4);
	ck_assert_ptr_nonnull(data);
	for (uint64_t i = 0; i < n; i++)
		if (t->dtype == DTYPE_I32)
			((int32_t *)data)[i] = (int32_t)hash_label(seed, i, classes);
		else
			((float *)data)[i] = hash_uniform(seed, i, 1.0f);
	ck_assert_ok(program_write(program, tensor, data));
	free(data);
}

/* A file, an op in it, and how near its numbers must be. */
struct comparison {
	const char *path;
	const struct pytorch_op *op;
	double tolerance;
};

static void compare(const struct comparison *c, struct program *program, uint32_t tensor, const char *line)
{
	static double want[8192];
	char heading[64];
	snprintf(heading, sizeof heading, "op %s", c->op->name);
	uint32_t count = pytorch_values(c->path, heading, line, want, 8192);
	float *got = calloc(count, sizeof *got);
	double scale = 1e-3;
	ck_assert_ptr_nonnull(got);
	ck_assert_msg(tensor_elements(&program->graph->tensor[tensor]) == count,
		      "%s, %s: %llu elements, PyTorch has %u", c->op->name, line,
		      (unsigned long long)tensor_elements(&program->graph->tensor[tensor]), count);
	ck_assert_ok(program_read(program, tensor, got));
	for (uint32_t i = 0; i < count; i++)
		scale = fmax(scale, fabs(want[i]));
	for (uint32_t i = 0; i < count; i++)
		ck_assert_msg(fabs((double)got[i] - want[i]) <= c->tolerance * scale,
			      "%s, %s: element %u is %.9g, PyTorch has %.9g", c->op->name, line, i, (double)got[i],
			      want[i]);
	free(got);
}

/* A loss whose last input are values to compare with. */
static bool compares_values(enum op_kind kind)
{
	return kind == OP_MEAN_SQUARED_ERROR || kind == OP_BINARY_CROSS_ENTROPY || kind == OP_LOGISTIC_MIXTURE;
}

static bool is_loss(enum op_kind kind)
{
	return kind == OP_SOFTMAX_CROSS_ENTROPY || kind == OP_LINEAR_CROSS_ENTROPY || compares_values(kind);
}

/* The op, and the mean square error of its output unless it is a loss. */
static void build(const struct pytorch_op *test, struct graph *graph, uint32_t *input, uint32_t *target, uint32_t *y,
		  uint32_t *loss)
{
	struct single_op shape;
	const struct single_options plain = { .threads = 1, .in_place = -1 };
	uint32_t out[OP_MAX_OUTPUTS];
	ck_assert_ok(single_op_open(&shape, driver_find("null"), test->kind, &test->attr, test->input, test->inputs,
				    &plain));
	const struct tensor result = *single_op_tensor(&shape, test->inputs);
	single_op_close(&shape);
	for (uint32_t i = 0; i < test->inputs; i++) {
		char name[16];
		snprintf(name, sizeof name, "in%u", i);
		ck_assert_ok(graph_add_persistent(graph, name, ROLE_PARAMETER, test->input[i].dtype, test->input[i].dim,
						  test->input[i].rank, &input[i]));
	}
	ck_assert_ok(graph_add_persistent(graph, "target", ROLE_PARAMETER, DTYPE_F32, result.dim, result.rank, target));
	ck_assert_ok(graph_add_op(graph, test->kind, PHASE_FORWARD, "op", &test->attr, input, test->inputs, out));
	*y = *loss = out[0];
	if (!is_loss(test->kind))
		ck_assert_ok(graph_add_op(graph, OP_MEAN_SQUARED_ERROR, PHASE_FORWARD, "loss", NULL,
					  (uint32_t[]){ *y, *target }, 2, loss));
}

void pytorch_check_op(const char *path, const struct pytorch_op *test, double tolerance)
{
	const struct comparison comparison = { path, test, tolerance };
	struct host_arena arena;
	struct graph graph;
	struct program program;
	uint32_t input[4], wrt[4], gradient[4], number[4], floats = 0, target, y, loss;
	host_arena_init(&arena);
	ck_assert_ok(graph_init(&graph, &arena));
	build(test, &graph, input, &target, &y, &loss);
	for (uint32_t i = 0; i < test->inputs - compares_values(test->kind); i++)
		if (test->input[i].dtype == DTYPE_F32) {
			wrt[floats] = input[i];
			number[floats++] = i;
		}
	ck_assert_ok(autodiff_gradients(&graph, loss, wrt, floats, &arena, gradient));
	ck_assert_ok(program_open(&program, driver_find("cpu"), &graph, 2, &arena));
	for (uint32_t i = 0; i < test->inputs; i++)
		write_hash(&program, input[i], (test->input[i].dtype == DTYPE_F32 ? 100 : 200) + i, test->classes);
	write_hash(&program, target, 300, 0);
	ck_assert_ok(program_run(&program));
	compare(&comparison, &program, y, "y");
	for (uint32_t i = 0; i < floats; i++) {
		char line[16];
		snprintf(line, sizeof line, "d%u", number[i]);
		compare(&comparison, &program, gradient[i], line);
	}
	program_close(&program);
	host_arena_fini(&arena);
}

uint64_t pytorch_check_losses(const char *path, const char *name, const char *method, const char *text, double first,
			      double drift)
{
	char heading[64];
	double want[PYTORCH_STEPS];
	struct tarn_session *session;
	struct tarn_plan_info info;
	snprintf(heading, sizeof heading, "family %s %s", name, method);
	ck_assert_uint_eq(pytorch_values(path, heading, "loss", want, PYTORCH_STEPS), PYTORCH_STEPS);
	const struct tarn_options options = { .config_text = text };
	ck_assert_ok(tarn_open(&options, &session));
	for (int step = 0; step < PYTORCH_STEPS; step++) {
		struct tarn_metrics metrics;
		ck_assert_ok(tarn_step(session, &metrics));
		double error = fabs(metrics.loss / want[step] - 1);
		ck_assert_msg(error <= (step ? drift : first), "%s: loss of step %d is %.8g, PyTorch has %.8g; in\n%s",
			      heading, step + 1, metrics.loss, want[step], text);
	}
	ck_assert_ok(tarn_plan_info(session, &info));
	tarn_close(session);
	return info.parameter_count;
}
