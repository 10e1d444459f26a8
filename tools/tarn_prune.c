/* tarn_prune.c - `tarn prune`: the least important weights become 0. */
#include "command.h"

#include "base/status.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum tarn_status open_with(const struct arguments *arguments, const char *const *more,
				  struct tarn_session **session)
{
	struct arguments own = *arguments;
	own.options.override = own.override;
	own.options.weights_only = true;
	for (; *more; more++) {
		if (own.options.overrides == MAX_OVERRIDES)
			return tarn_fail(TARN_EINVAL, "more than %d key=value arguments", MAX_OVERRIDES);
		own.override[own.options.overrides++] = *more;
	}
	return tarn_open(&own.options, session);
}

/* Hessian diagonal times squared weight. Its estimate may be below 0: the size is what tells. */
static enum tarn_status weigh(struct tarn_session *session, float *importance, uint64_t elements)
{
	float *weight = calloc(elements, sizeof *weight);
	enum tarn_status st = weight ? TARN_OK : tarn_fail(TARN_ENOMEM, "host memory: no room for a vector");
	const char *name;
	uint64_t length, done = 0;
	for (uint32_t i = 0; !st && (name = tarn_hessian_parameter(session, i, &length)); i++) {
		st = tarn_read_tensor(session, name, weight, length * sizeof *weight);
		for (uint64_t k = 0; k < length && !st; k++, done++)
			importance[done] = fabsf(importance[done]) * weight[k] * weight[k];
	}
	free(weight);
	return st;
}

/* Caller frees *importance. */
static enum tarn_status find_importance(const struct arguments *arguments, float **importance, uint64_t *elements)
{
	static const char *const more[] = { "objective.type=hvp", "hvp.task=diagonal",
					    "train.snapshot=", "train.run=", NULL };
	static struct tarn_curvature curvature;
	struct tarn_session *session = NULL;
	enum tarn_status st = open_with(arguments, more, &session);
	if (!st)
		st = tarn_curvature_run(session, &curvature);
	*elements = curvature.parameters;
	if (!st && !(*importance = calloc(*elements, sizeof **importance)))
		st = tarn_fail(TARN_ENOMEM, "host memory: no room for %" PRIu64 " numbers", *elements);
	if (!st)
		st = tarn_hessian_read(session, TARN_VECTOR_DIAGONAL, *importance, *elements);
	if (!st)
		st = weigh(session, *importance, *elements);
	tarn_close(session);
	return st;
}

static enum tarn_status prune(const struct arguments *arguments, double fraction, struct tarn_pruning *pruning)
{
	static const char *const more[] = { "optimizer.masks=true", "train.snapshot=", "train.run=", NULL };
	struct tarn_session *session = NULL;
	float *importance = NULL;
	uint64_t elements;
	enum tarn_status st = find_importance(arguments, &importance, &elements);
	if (!st)
		st = open_with(arguments, more, &session);
	if (!st)
		st = tarn_prune(session, importance, elements, fraction, pruning);
	if (!st)
		st = tarn_save(session, arguments->output);
	tarn_close(session);
	free(importance);
	return st;
}

static enum tarn_status check(const struct arguments *arguments, double *fraction)
{
	char *end;
	if (!arguments->options.resume_path)
		return tarn_fail(TARN_EINVAL, "prune: which weights? Give --weights SNAPSHOT");
	if (!arguments->output)
		return tarn_fail(TARN_EINVAL, "prune: where do the pruned weights go? Give -o SNAPSHOT");
	if (!arguments->fraction)
		return tarn_fail(TARN_EINVAL, "prune: how many weights? Give --fraction NUMBER, such as 0.8");
	*fraction = strtod(arguments->fraction, &end);
	if (*end || end == arguments->fraction || !(*fraction >= 0 && *fraction < 1))
		return tarn_fail(TARN_EINVAL, "--fraction: \"%s\" is no number from 0 to below 1, such as 0.8",
				 arguments->fraction);
	return TARN_OK;
}

int command_prune(int argc, char **argv)
{
	struct arguments arguments;
	struct tarn_pruning pruning;
	double fraction = 0;
	enum tarn_status st = arguments_parse(
		argc, argv, ARGUMENT_CONFIG | ARGUMENT_WEIGHTS | ARGUMENT_OUTPUT | ARGUMENT_FRACTION, &arguments);
	if (!st && arguments.help) {
		print_command_help("prune");
		return 0;
	}
	if (!st)
		st = check(&arguments, &fraction);
	if (!st)
		st = prune(&arguments, fraction, &pruning);
	if (st)
		return command_fail(st);
	if (arguments.json) {
		printf("{\"weights\": %" PRIu64 ", \"pruned\": %" PRIu64 ", ", pruning.weights, pruning.pruned);
		json_number("largest_importance", pruning.largest_importance);
		printf("}\n");
	} else {
		printf("%" PRIu64 " of %" PRIu64 " weights are 0 (%.1f %%)\n", pruning.pruned, pruning.weights,
		       100 * (double)pruning.pruned / (double)pruning.weights);
	}
	return 0;
}
