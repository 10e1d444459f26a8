/* tarn_laplace.c - `tarn laplace`: the uncertainty of a network's last layer. */
#include "command.h"

#include "base/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void print_json(const struct tarn_laplace *l)
{
	printf("{\"parameters\": %" PRIu64 ", \"classes\": %" PRIu32 ", \"labels\": %" PRIu64 ", \"samples\": %" PRIu64
	       ", ",
	       l->parameters, l->classes, l->labels, l->samples);
	json_number("prior_precision", l->prior_precision);
	printf(", ");
	json_number("log_marginal_likelihood", l->log_marginal_likelihood);
	printf(", ");
	json_number("loss", l->loss);
	printf(", ");
	json_number("predictive_loss", l->predictive_loss);
	printf(", ");
	json_number("accuracy", l->accuracy);
	printf(", ");
	json_number("mean_variance", l->mean_variance);
	printf("}\n");
}

static void print_text(const struct tarn_laplace *l)
{
	printf("%" PRIu64 " weights of the last layer, prior precision %.4g, log marginal likelihood %.6g\n",
	       l->parameters, l->prior_precision, l->log_marginal_likelihood);
	if (l->samples)
		printf("test  loss %.4f, with the uncertainty %.4f  accuracy %.2f %%  mean variance of a logit %.4g on "
		       "%" PRIu64 " samples\n",
		       l->loss, l->predictive_loss, 100 * l->accuracy, l->mean_variance, l->samples);
}

static enum tarn_status answer(struct tarn_session *session, const char *path, struct tarn_laplace *laplace)
{
	uint64_t elements = tarn_laplace_elements(session);
	if (!path)
		return tarn_laplace_run(session, NULL, 0, laplace);
	if (!elements)
		return tarn_fail(TARN_EINVAL, "laplace: -o has nothing to write: there is no test set");
	float *variance = calloc(elements, sizeof *variance);
	enum tarn_status st =
		variance ? tarn_laplace_run(session, variance, elements, laplace)
			 : tarn_fail(TARN_ENOMEM, "host memory: no room for %" PRIu64 " numbers", elements);
	if (!st)
		st = command_write_npy(path, variance, laplace->samples, laplace->classes);
	free(variance);
	return st;
}

int command_laplace(int argc, char **argv)
{
	struct arguments arguments;
	struct tarn_laplace laplace;
	struct tarn_session *session = NULL;
	enum tarn_status st =
		arguments_parse(argc, argv, ARGUMENT_CONFIG | ARGUMENT_WEIGHTS | ARGUMENT_OUTPUT, &arguments);
	if (!st && arguments.help) {
		print_command_help("laplace");
		return 0;
	}
	if (!st && !arguments.options.resume_path)
		st = tarn_fail(TARN_EINVAL, "laplace: which weights? Give --weights SNAPSHOT");
	if (!st && arguments.options.overrides > MAX_OVERRIDES - 3)
		st = tarn_fail(TARN_EINVAL, "more than %d key=value arguments", MAX_OVERRIDES);
	if (st)
		return command_fail(st);
	arguments.override[arguments.options.overrides++] = "objective.type=laplace";
	arguments.override[arguments.options.overrides++] = "train.snapshot=";
	arguments.override[arguments.options.overrides++] = "train.run=";
	arguments.options.weights_only = true;
	st = tarn_open(&arguments.options, &session);
	if (!st)
		st = answer(session, arguments.output, &laplace);
	if (!st && arguments.json)
		print_json(&laplace);
	else if (!st)
		print_text(&laplace);
	tarn_close(session);
	return st ? command_fail(st) : 0;
}
