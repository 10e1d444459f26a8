/* tarn_hvp.c - `tarn hvp`: questions about the Hessian of a network's loss. */
#include "command.h"

#include "base/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The whole matrix is for small networks. */
#define LARGEST_HESSIAN 4096u

/* What -o writes of a vector. */
static enum tarn_status write_vector(struct tarn_session *session, const struct tarn_curvature *curvature,
				     const char *path)
{
	bool diagonal = !strcmp(curvature->task, "diagonal");
	if (!diagonal && strcmp(curvature->task, "product"))
		return tarn_fail(TARN_EINVAL, "hvp: -o has nothing to write with hvp.task: %s", curvature->task);
	float *value = calloc(curvature->parameters, sizeof *value);
	if (!value)
		return tarn_fail(TARN_ENOMEM, "host memory: no room for %" PRIu64 " numbers", curvature->parameters);
	enum tarn_status st = tarn_hessian_read(session, diagonal ? TARN_VECTOR_DIAGONAL : TARN_VECTOR_PRODUCT, value,
						curvature->parameters);
	if (!st)
		st = command_write_npy(path, value, 0, curvature->parameters);
	free(value);
	return st;
}

/* Column by column: products with unit vectors. */
static enum tarn_status fill_hessian(struct tarn_session *session, uint64_t n, float *matrix, double *loss)
{
	float *unit = calloc(n, sizeof *unit);
	enum tarn_status st = unit ? TARN_OK : tarn_fail(TARN_ENOMEM, "host memory: no room for a vector");
	for (uint64_t column = 0; column < n && !st; column++) {
		unit[column] = 1;
		st = tarn_hessian_write(session, TARN_VECTOR_INPUT, unit, n);
		if (!st)
			st = tarn_hessian_multiply(session, loss);
		if (!st)
			st = tarn_hessian_read(session, TARN_VECTOR_PRODUCT, matrix + column * n, n);
		unit[column] = 0;
	}
	free(unit);
	return st;
}

static enum tarn_status write_hessian(struct tarn_session *session, const char *path, struct tarn_curvature *curvature)
{
	const uint64_t n = curvature->parameters;
	if (n > LARGEST_HESSIAN)
		return tarn_fail(TARN_EINVAL,
				 "hvp.task: hessian is for at most %u parameters, the network has %" PRIu64,
				 LARGEST_HESSIAN, n);
	if (!path)
		return tarn_fail(TARN_EINVAL, "hvp.task: hessian needs -o FILE.npy, where the matrix goes");
	float *matrix = calloc(n * n, sizeof *matrix);
	if (!matrix)
		return tarn_fail(TARN_ENOMEM, "host memory: no room for %" PRIu64 " numbers", n * n);
	enum tarn_status st = fill_hessian(session, n, matrix, &curvature->loss);
	curvature->products = n;
	if (!st)
		st = command_write_npy(path, matrix, n, n);
	free(matrix);
	return st;
}

static void json_array(const char *key, const double *value, uint32_t n)
{
	printf(", \"%s\": [", key);
	for (uint32_t i = 0; i < n; i++)
		printf("%s%.9g", i ? ", " : "", value[i]);
	printf("]");
}

static void print_json(const struct tarn_session *session, const struct tarn_curvature *c)
{
	struct tarn_plan_info info;
	const char *name;
	uint64_t elements;
	tarn_plan_info(session, &info);
	printf("{\"task\": \"%s\", \"mode\": \"%s\", \"parameters\": %" PRIu64 ", \"labels\": %" PRIu64
	       ", \"products\": %" PRIu64 ", ",
	       c->task, c->mode, c->parameters, c->labels, c->products);
	json_number("loss", c->loss);
	printf(", ");
	json_limit("budget_bytes", info.budget_bytes);
	printf(", \"peak_bytes\": %" PRIu64 ", \"arena_bytes\": %" PRIu64 ", \"min_budget_bytes\": %" PRIu64 ", ",
	       info.peak_bytes, info.arena_bytes, info.min_budget_bytes);
	json_number("overhead", info.overhead);
	if (!strcmp(c->task, "product")) {
		printf(", ");
		json_number("vector_norm", c->vector_norm);
		printf(", ");
		json_number("product_norm", c->product_norm);
		printf(", ");
		json_number("curvature", c->curvature);
	}
	if (!strcmp(c->task, "trace") || !strcmp(c->task, "diagonal")) {
		printf(", ");
		json_number("trace", c->trace);
		printf(", ");
		json_number("trace_error", c->trace_error);
	}
	if (!strcmp(c->task, "eigenvalues")) {
		json_array("eigenvalues", c->eigenvalue, c->eigenvalues);
		json_array("residuals", c->residual, c->eigenvalues);
	}
	if (!strcmp(c->task, "density")) {
		json_array("nodes", c->node, c->nodes);
		json_array("weights", c->weight, c->nodes);
	}
	printf(", \"order\": [");
	for (uint32_t i = 0; (name = tarn_hessian_parameter(session, i, &elements)); i++) {
		printf("%s{", i ? ", " : "");
		json_text("name", name);
		printf(", \"elements\": %" PRIu64 "}", elements);
	}
	printf("]}\n");
}

static void print_text(const struct tarn_curvature *c)
{
	printf("loss %.6g, %" PRIu64 " parameters, %" PRIu64 " products with the Hessian, %s mode\n", c->loss,
	       c->parameters, c->products, c->mode);
	if (!strcmp(c->task, "product"))
		printf("  |v| %.6g, |Hv| %.6g, v.Hv / v.v %.6g\n", c->vector_norm, c->product_norm, c->curvature);
	if (!strcmp(c->task, "trace") || !strcmp(c->task, "diagonal"))
		printf("  trace %.6g +- %.2g\n", c->trace, c->trace_error);
	for (uint32_t i = 0; i < c->eigenvalues; i++)
		printf("  eigenvalue %.6g, residual %.2g\n", c->eigenvalue[i], c->residual[i]);
	for (uint32_t i = 0; i < c->nodes; i++)
		printf("  eigenvalues near %.6g: %.4f of all\n", c->node[i], c->weight[i]);
}

static enum tarn_status answer(struct tarn_session *session, const struct arguments *arguments,
			       struct tarn_curvature *curvature)
{
	enum tarn_status st =
		arguments->vector ? tarn_hessian_snapshot(session, arguments->vector) : tarn_hessian_random(session, 0);
	if (!st)
		st = tarn_curvature_run(session, curvature);
	if (!st && !strcmp(curvature->task, "hessian"))
		return write_hessian(session, arguments->output, curvature);
	if (!st && arguments->output)
		st = write_vector(session, curvature, arguments->output);
	return st;
}

int command_hvp(int argc, char **argv)
{
	static struct tarn_curvature curvature;
	struct arguments arguments;
	struct tarn_session *session = NULL;
	enum tarn_status st = arguments_parse(
		argc, argv, ARGUMENT_CONFIG | ARGUMENT_PLAN | ARGUMENT_WEIGHTS | ARGUMENT_OUTPUT | ARGUMENT_VECTOR,
		&arguments);
	if (st)
		return command_fail(st);
	if (arguments.help) {
		print_command_help("hvp");
		return 0;
	}
	if (!arguments.options.plan_path) {
		if (arguments.options.overrides + 1 >= MAX_OVERRIDES)
			return command_fail(tarn_fail(TARN_EINVAL, "more than %d key=value arguments", MAX_OVERRIDES));
		arguments.override[arguments.options.overrides++] = "objective.type=hvp";
		arguments_write_nothing(&arguments);
	}
	arguments.options.weights_only = true;
	st = tarn_open(&arguments.options, &session);
	if (!st)
		st = answer(session, &arguments, &curvature);
	if (!st && arguments.json)
		print_json(session, &curvature);
	else if (!st)
		print_text(&curvature);
	tarn_close(session);
	return st ? command_fail(st) : 0;
}
