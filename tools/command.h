/*
 * command.h - what the commands of the `tarn` binary share: arguments and a little printing.
 */
#ifndef TARN_TOOLS_COMMAND_H
#define TARN_TOOLS_COMMAND_H

#include "tarn.h"

#define MAX_OVERRIDES 64
#define COMMAND_OVERRIDES 5 /* that a command adds to the user's */

/* The options that commands take; each command says which ones it knows. */
struct arguments {
	struct tarn_options options; /* config_path, plan_path, override, resume_path, lockdown */
	const char *override[MAX_OVERRIDES + COMMAND_OVERRIDES];
	char max_steps[64]; /* "train.max_steps=N" */
	const char *output; /* -o */
	const char *svg, *html, *dump_dag;
	const char *vector;   /* --vector */
	const char *vary;     /* --vary */
	const char *fraction; /* --fraction */
	bool json, print, explain, summary, help, quiet, verbose;
};

enum argument_set {
	ARGUMENT_CONFIG = 1,           /* CONFIG.yaml [key=value ...] */
	ARGUMENT_PLAN = 2,             /* --plan FILE */
	ARGUMENT_RUN = 4,              /* --max-steps N, --resume FILE, --lockdown, --quiet, --verbose */
	ARGUMENT_OUTPUT = 8,           /* -o FILE */
	ARGUMENT_WEIGHTS = 16,         /* --weights FILE */
	ARGUMENT_POSITIONAL_PLAN = 32, /* PLAN */
	ARGUMENT_SHOW = 64,            /* --svg FILE, --html FILE, --dump-dag FILE, --print, --explain, --summary */
	ARGUMENT_DEVICE = 128,         /* --device FILE */
	ARGUMENT_VECTOR = 256,         /* --vector FILE */
	ARGUMENT_FIT = 512,            /* --vary KEY, --svg FILE */
	ARGUMENT_FRACTION = 1024       /* --fraction NUMBER */
};

/* TARN_EINVAL with a sentence that names the argument and what is known. argv[0] is the command's name. */
enum tarn_status arguments_parse(int argc, char **argv, unsigned set, struct arguments *arguments);

/* Overrides for a command that trains nothing: what the configuration says of files to write does not hold. */
void arguments_write_nothing(struct arguments *arguments);

/* Prints "tarn: <sentence>" to stderr; returns the exit code. */
int command_fail(enum tarn_status status);

/* Prints a number, or null when it is not finite: JSON has no NaN. */
void json_number(const char *key, double value);

/* "key": 123, or null for UINT64_MAX (no limit). */
void json_limit(const char *key, uint64_t value);

/* "key": "text", quoted as JSON wants it. */
void json_text(const char *key, const char *text);

/* A .npy file of float32, rows x columns, or a vector with rows 0 (format version 1.0 of numpy.lib.format). */
enum tarn_status command_write_npy(const char *path, const float *value, uint64_t rows, uint64_t columns);

/* Commands; each returns the exit code. */
int command_plan(int argc, char **argv);
int command_fit(int argc, char **argv);
int command_calibrate(int argc, char **argv);
int command_pack(int argc, char **argv);
int command_dag(int argc, char **argv);
int command_tokens(int argc, char **argv);
int command_train(int argc, char **argv);
int command_report(int argc, char **argv);
int command_eval(int argc, char **argv);
int command_verify(int argc, char **argv);
int command_hvp(int argc, char **argv);
int command_laplace(int argc, char **argv);
int command_prune(int argc, char **argv);

/* How a command is called and what its options do; false when there is no such command. */
bool print_command_help(const char *name);

/* The summary of a plan for people. */
void print_plan_summary(const struct tarn_session *session);

#endif
