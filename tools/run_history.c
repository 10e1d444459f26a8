/* run_history.c - see run_history.h. */
#include "run_history.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE 1024u

/* Each begins behind a quote, so that "loss" is not found in "test_loss". */
static const char *const keys[RUN_COLUMNS] = {
	[RUN_STEP] = "step",
	[RUN_LOSS] = "loss",
	[RUN_ACCURACY] = "accuracy",
	[RUN_LEARNING_RATE] = "learning_rate",
	[RUN_GRADIENT_NORM] = "gradient_norm",
	[RUN_SAMPLES_PER_S] = "samples_per_s",
	[RUN_STEP_MS] = "step_ms",
	[RUN_PLANNED_STEP_MS] = "planned_step_ms",
	[RUN_TEST_LOSS] = "test_loss",
	[RUN_TEST_ACCURACY] = "test_accuracy",
};

/* NAN when the key is not there, or null. */
static double number(const char *line, const char *key)
{
	char quoted[64], *end;
	snprintf(quoted, sizeof quoted, "\"%s\": ", key);
	const char *at = strstr(line, quoted);
	if (!at)
		return NAN;
	at += strlen(quoted);
	double value = strtod(at, &end);
	return end == at ? NAN : value;
}

static enum tarn_status add_line(struct run_history *history, const char *line, size_t capacity[RUN_COLUMNS],
				 struct host_arena *arena)
{
	for (uint32_t c = 0; c < RUN_COLUMNS; c++) {
		history->column[c] =
			host_arena_grow(arena, history->column[c], &capacity[c], history->lines + 1, sizeof(double));
		if (!history->column[c])
			return TARN_ENOMEM;
		history->column[c][history->lines] = number(line, keys[c]);
	}
	history->lines++;
	return TARN_OK;
}

/* A last line without its end is being written, or was when the process was killed. */
static enum tarn_status read_metrics(const char *path, struct host_arena *arena, struct run_history *history)
{
	char line[LINE];
	size_t capacity[RUN_COLUMNS] = { 0 };
	FILE *in = fopen(path, "rb");
	if (!in)
		return tarn_fail(TARN_EIO, "%s: cannot open: %s; a folder that train.run named has it", path,
				 strerror(errno));
	enum tarn_status st = TARN_OK;
	while (!st && fgets(line, sizeof line, in)) {
		bool whole = strchr(line, '\n');
		if (!whole && feof(in))
			break;
		if (!whole || strncmp(line, "{\"step\": ", 9) || isnan(number(line, "step")))
			st = tarn_fail(TARN_EFORMAT, "%s:%zu: this is no line of metrics, which begins {\"step\": N,",
				       path, history->lines + 1);
		else
			st = add_line(history, line, capacity, arena);
	}
	if (!st && ferror(in))
		st = tarn_fail(TARN_EIO, "%s: cannot read", path);
	fclose(in);
	return st;
}

/* Of a run that has not come to its end there is none. */
static void read_result(const char *path, struct run_history *history)
{
	char line[LINE];
	FILE *in = fopen(path, "rb");
	if (in && fgets(line, sizeof line, in)) {
		double touched = number(line, "touched_bytes"), process = number(line, "process_bytes");
		history->finished = touched >= 0 && touched < 1e18 && process >= 0 && process < 1e18;
		if (history->finished)
			history->result = (struct run_result){ .step_ms = number(line, "step_ms"),
							       .step_cpu_ms = number(line, "step_cpu_ms"),
							       .samples_per_s = number(line, "samples_per_s"),
							       .seconds = number(line, "seconds"),
							       .touched_bytes = (uint64_t)touched,
							       .process_bytes = (uint64_t)process };
	}
	if (in)
		fclose(in);
}

enum tarn_status run_history_read(const char *folder, struct host_arena *arena, struct run_history *out)
{
	char path[RUN_PATH];
	*out = (struct run_history){ .lines = 0 };
	enum tarn_status st = run_folder_path(folder, RUN_METRICS, path);
	if (!st)
		st = read_metrics(path, arena, out);
	if (!st)
		st = run_folder_path(folder, RUN_RESULT, path);
	if (!st)
		read_result(path, out);
	return st;
}

double run_history_last(const struct run_history *history, enum run_column column)
{
	for (size_t i = history->lines; i-- > 0;)
		if (isfinite(history->column[column][i]))
			return history->column[column][i];
	return NAN;
}
