/* command.c - arguments and printing, see command.h. */
#include "command.h"
#include "progress.h"

#include "base/status.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void arguments_write_nothing(struct arguments *arguments)
{
	static const char *const nothing[] = { "train.snapshot=", "train.snapshot_every=0",
					       "train.run=", "train.log=none" };
	for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++)
		arguments->override[arguments->options.overrides++] = nothing[i];
}

int command_fail(enum tarn_status status)
{
	fflush(stdout);
	bool colour = progress_has_colours(STDERR_FILENO);
	fprintf(stderr, "%starn:%s %s\n", colour ? "\033[31m" : "", colour ? "\033[0m" : "", tarn_error());
	return (int)status;
}

void json_number(const char *key, double value)
{
	if (isfinite(value))
		printf("\"%s\": %.9g", key, value);
	else
		printf("\"%s\": null", key);
}

void json_limit(const char *key, uint64_t value)
{
	if (value == UINT64_MAX)
		printf("\"%s\": null", key);
	else
		printf("\"%s\": %llu", key, (unsigned long long)value);
}

void json_text(const char *key, const char *text)
{
	printf("\"%s\": \"", key);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 0x20)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

enum tarn_status command_write_npy(const char *path, const float *value, uint64_t rows, uint64_t columns)
{
	char shape[64], header[128];
	if (rows)
		snprintf(shape, sizeof shape, "(%" PRIu64 ", %" PRIu64 ")", rows, columns);
	else
		snprintf(shape, sizeof shape, "(%" PRIu64 ",)", columns);
	memset(header, ' ', sizeof header);
	memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10); /* 118 bytes follow */
	int length = snprintf(header + 10, sizeof header - 10,
			      "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }", shape);
	header[10 + length] = ' ';
	header[sizeof header - 1] = '\n';
	FILE *file = fopen(path, "wb");
	if (!file)
		return tarn_fail(TARN_EIO, "%s: cannot be created", path);
	uint64_t elements = (rows ? rows : 1) * columns;
	bool written =
		fwrite(header, sizeof header, 1, file) == 1 && fwrite(value, sizeof *value, elements, file) == elements;
	if (fclose(file) || !written) {
		remove(path);
		return tarn_fail(TARN_EIO, "%s: cannot be written", path);
	}
	return TARN_OK;
}

/* The value of an option that needs one: "--max-steps 5" or "--max-steps=5". NULL when it is another option. */
static const char *option_value(int argc, char **argv, int *i, const char *name, enum tarn_status *status)
{
	size_t length = strlen(name);
	if (strncmp(argv[*i], name, length))
		return NULL;
	if (argv[*i][length] == '=')
		return argv[*i] + length + 1;
	if (argv[*i][length])
		return NULL;
	if (*i + 1 >= argc) {
		*status = tarn_fail(TARN_EINVAL, "%s: %s needs a value", argv[0], name);
		return NULL;
	}
	return argv[++*i];
}

static enum tarn_status add_override(struct arguments *arguments, const char *text)
{
	if (arguments->options.overrides == MAX_OVERRIDES)
		return tarn_fail(TARN_EINVAL, "more than %d key=value arguments", MAX_OVERRIDES);
	arguments->override[arguments->options.overrides++] = text;
	return TARN_OK;
}

static enum tarn_status set_max_steps(struct arguments *arguments, const char *text)
{
	char *end;
	unsigned long long steps = strtoull(text, &end, 10);
	if (*end || *text < '0' || *text > '9' || !steps)
		return tarn_fail(TARN_EINVAL, "--max-steps: \"%s\" is not a number of steps; write for example 100",
				 text);
	snprintf(arguments->max_steps, sizeof arguments->max_steps, "train.max_steps=%llu", steps);
	return add_override(arguments, arguments->max_steps);
}

/* An option with a value; *status is set when one was recognised or is wrong. Returns false for others. */
static bool parse_valued(int argc, char **argv, int *i, unsigned set, struct arguments *arguments,
			 enum tarn_status *status)
{
	const struct {
		const char *name;
		unsigned set;
		const char **target;
	} options[] = { { "--plan", ARGUMENT_PLAN, &arguments->options.plan_path },
			{ "--resume", ARGUMENT_RUN, &arguments->options.resume_path },
			{ "--weights", ARGUMENT_WEIGHTS, &arguments->options.resume_path },
			{ "--vector", ARGUMENT_VECTOR, &arguments->vector },
			{ "--fraction", ARGUMENT_FRACTION, &arguments->fraction },
			{ "-o", ARGUMENT_OUTPUT, &arguments->output },
			{ "--svg", ARGUMENT_SHOW | ARGUMENT_FIT, &arguments->svg },
			{ "--html", ARGUMENT_SHOW, &arguments->html },
			{ "--vary", ARGUMENT_FIT, &arguments->vary },
			{ "--dump-dag", ARGUMENT_SHOW, &arguments->dump_dag },
			{ "--device", ARGUMENT_DEVICE, &arguments->options.device_path } };
	const char *value;
	for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
		if (!(set & options[k].set))
			continue;
		value = option_value(argc, argv, i, options[k].name, status);
		if (value)
			*options[k].target = value;
		if (value || *status)
			return true;
	}
	if (!(set & ARGUMENT_RUN))
		return false;
	value = option_value(argc, argv, i, "--max-steps", status);
	if (value)
		*status = set_max_steps(arguments, value);
	return value || *status;
}

static enum tarn_status parse_positional(char **argv, const char *text, unsigned set, struct arguments *arguments)
{
	struct tarn_options *options = &arguments->options;
	if (text[0] != '-' && strchr(text, '=') && set & ARGUMENT_CONFIG)
		return add_override(arguments, text);
	if (text[0] == '-')
		return tarn_fail(TARN_EINVAL, "%s: unknown option %s; see `tarn help`", argv[0], text);
	if (set & ARGUMENT_POSITIONAL_PLAN && !options->plan_path) {
		options->plan_path = text;
		return TARN_OK;
	}
	if (set & ARGUMENT_CONFIG && !options->config_path) {
		options->config_path = text;
		return TARN_OK;
	}
	return tarn_fail(TARN_EINVAL, "%s: one argument too many: %s", argv[0], text);
}

enum tarn_status arguments_parse(int argc, char **argv, unsigned set, struct arguments *arguments)
{
	memset(arguments, 0, sizeof *arguments);
	arguments->options.override = arguments->override;
	enum tarn_status status = TARN_OK;
	for (int i = 1; i < argc && !status; i++) {
		if (!strcmp(argv[i], "--json"))
			arguments->json = true;
		else if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			arguments->help = true;
		else if (set & ARGUMENT_SHOW && !strcmp(argv[i], "--print"))
			arguments->print = true;
		else if (set & ARGUMENT_SHOW && !strcmp(argv[i], "--explain"))
			arguments->explain = true;
		else if (set & ARGUMENT_SHOW && !strcmp(argv[i], "--summary"))
			arguments->summary = true;
		else if (set & ARGUMENT_RUN && !strcmp(argv[i], "--quiet"))
			arguments->quiet = true;
		else if (set & ARGUMENT_RUN && !strcmp(argv[i], "--verbose"))
			arguments->verbose = true;
		else if (set & ARGUMENT_RUN && !strcmp(argv[i], "--lockdown"))
			arguments->options.lockdown = true;
		else if (!parse_valued(argc, argv, &i, set, arguments, &status))
			status = parse_positional(argv, argv[i], set, arguments);
	}
	if (status || arguments->help)
		return status;
	if (arguments->quiet && arguments->verbose)
		return tarn_fail(TARN_EINVAL, "%s: give --quiet or --verbose, not both", argv[0]);
	if (!arguments->options.config_path && !arguments->options.plan_path)
		return tarn_fail(TARN_EINVAL, "%s: which %s? See `tarn help`", argv[0],
				 set & ARGUMENT_CONFIG ? "configuration (a YAML file)" : "plan file");
	if (arguments->options.config_path && arguments->options.plan_path)
		return tarn_fail(TARN_EINVAL, "%s: give %s or --plan %s, not both", argv[0],
				 arguments->options.config_path, arguments->options.plan_path);
	return TARN_OK;
}
