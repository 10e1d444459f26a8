/* run_folder.c - see run_folder.h. */
#include "run_folder.h"

#include "base/atomic_file.h"
#include "base/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* Bytes of one line of metrics; a dozen numbers take less than half. */
#define LINE 1024u

enum tarn_status run_folder_path(const char *folder, const char *name, char path[RUN_PATH])
{
	if (snprintf(path, RUN_PATH, "%s/%s", folder, name) >= (int)RUN_PATH)
		return tarn_fail(TARN_EINVAL, "%.60s...: a path of more than %u bytes", folder, RUN_PATH - 1);
	return TARN_OK;
}

/* ---- lines of JSON -------------------------------------------------------------------------------------------- */

struct line {
	char text[LINE];
	size_t used;
};

static void add(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct line *line, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	line->used += (size_t)vsnprintf(line->text + line->used, LINE - line->used, format, arguments);
	va_end(arguments);
}

/* JSON has no NaN. */
static void add_number(struct line *line, const char *key, double value)
{
	if (isfinite(value))
		add(line, ", \"%s\": %.9g", key, value);
	else
		add(line, ", \"%s\": null", key);
}

static enum tarn_status append(struct run_folder *folder, struct line *line)
{
	add(line, "}\n");
	ssize_t written = write(folder->metrics, line->text, line->used);
	if (written != (ssize_t)line->used)
		return tarn_fail(TARN_EIO, "%s/" RUN_METRICS ": cannot write: %s", folder->path,
				 strerror(written < 0 ? errno : ENOSPC));
	return TARN_OK;
}

/* ---- opening -------------------------------------------------------------------------------------------------- */

static enum tarn_status take_lock(struct run_folder *folder)
{
	char path[RUN_PATH];
	enum tarn_status st = run_folder_path(folder->path, "lock", path);
	if (!st)
		st = folder_prepare(path);
	if (st)
		return tarn_fail_prefix(st, "train.run");
	folder->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (folder->lock < 0)
		return tarn_fail(TARN_EIO, "train.run: %s: cannot create: %s", path, strerror(errno));
	if (!flock(folder->lock, LOCK_EX | LOCK_NB))
		return TARN_OK;
	if (errno == EWOULDBLOCK)
		return tarn_fail(TARN_EINVAL,
				 "train.run: another process trains into %s; wait for its end or name another folder",
				 folder->path);
	return tarn_fail(TARN_EIO, "train.run: %s: cannot lock: %s", path, strerror(errno));
}

/* Copies the lines of steps up to `last` to `out` (NULL: only counts); *seen is the largest step. A last line without
 * its end was being written when the process was killed: it is dropped. */
static enum tarn_status filter_lines(FILE *in, const char *path, uint64_t last, FILE *out, uint64_t *seen)
{
	char text[LINE];
	unsigned long long step;
	*seen = 0;
	for (uint64_t number = 1; fgets(text, sizeof text, in); number++) {
		if (!strchr(text, '\n') && feof(in))
			return TARN_OK;
		if (!strchr(text, '\n') || sscanf(text, "{\"step\": %llu,", &step) != 1)
			return tarn_fail(TARN_EFORMAT,
					 "%s:%llu: this is no line of metrics, which begins {\"step\": N,", path,
					 (unsigned long long)number);
		*seen = step > *seen ? step : *seen;
		if (out && step <= last)
			fputs(text, out);
	}
	return ferror(in) ? tarn_fail(TARN_EIO, "%s: cannot read", path) : TARN_OK;
}

/* Nothing may be there for a run that begins; what is there after the step that one goes on from is dropped. */
static enum tarn_status prepare_metrics(const struct run_folder *folder, const struct tarn_plan_info *info,
					const char *path)
{
	struct atomic_file file;
	FILE *in = fopen(path, "rb"), *out = NULL;
	uint64_t seen = 0;
	if (!in)
		return errno == ENOENT ? TARN_OK : tarn_fail(TARN_EIO, "%s: cannot open: %s", path, strerror(errno));
	enum tarn_status st = TARN_OK;
	if (info->resumed_steps)
		st = atomic_file_open_stream(&file, path, &out);
	if (!st)
		st = filter_lines(in, path, info->resumed_steps, out, &seen);
	fclose(in);
	if (out)
		st = atomic_file_close_stream(&file, out, st);
	if (!st && seen && !info->resumed_steps)
		st = tarn_fail(TARN_EINVAL,
			       "train.run: %s holds a run that got to step %llu; go on with it by --resume %s, or name "
			       "another folder",
			       folder->path, (unsigned long long)seen,
			       info->snapshot[0] ? info->snapshot : "its snapshot");
	return st;
}

static enum tarn_status copy_config(const char *from, const char *to)
{
	struct atomic_file file;
	char block[4096];
	size_t bytes;
	FILE *in = fopen(from, "rb"), *out;
	if (!in)
		return tarn_fail(TARN_EIO, "%s: cannot open: %s", from, strerror(errno));
	enum tarn_status st = atomic_file_open_stream(&file, to, &out);
	while (!st && (bytes = fread(block, 1, sizeof block, in)))
		fwrite(block, 1, bytes, out);
	if (!st)
		st = atomic_file_close_stream(&file, out,
					      ferror(in) ? tarn_fail(TARN_EIO, "%s: cannot read", from) : TARN_OK);
	fclose(in);
	return st;
}

static enum tarn_status write_settings(const struct tarn_session *session, const char *path)
{
	struct atomic_file file;
	FILE *out;
	enum tarn_status st = atomic_file_open_stream(&file, path, &out);
	return st ? st : atomic_file_close_stream(&file, out, tarn_plan_settings(session, out));
}

/* What the run was asked to do. */
static enum tarn_status write_question(const struct run_folder *folder, const struct tarn_session *session,
				       const char *config_path)
{
	char path[RUN_PATH];
	enum tarn_status st = run_folder_path(folder->path, "config.yaml", path);
	/* A run may be repeated from its own folder. */
	if (!st && config_path && strcmp(config_path, path))
		st = copy_config(config_path, path);
	if (!st)
		st = run_folder_path(folder->path, "settings.txt", path);
	if (!st)
		st = write_settings(session, path);
	if (!st)
		st = run_folder_path(folder->path, RUN_PLAN, path);
	return st ? st : tarn_plan_save(session, path);
}

/* One file a start: readers take all of a folder, by name. */
static enum tarn_status open_events(struct run_folder *folder, uint64_t first_step)
{
	char name[64], path[RUN_PATH];
	snprintf(name, sizeof name, "events.out.tfevents.%010llu.tarn", (unsigned long long)first_step);
	enum tarn_status st = run_folder_path(folder->path, name, path);
	return st ? st : event_file_open(&folder->events, path, first_step);
}

enum tarn_status run_folder_open(struct run_folder *folder, const struct tarn_session *session,
				 const struct tarn_plan_info *info, const char *config_path)
{
	char path[RUN_PATH];
	*folder = (struct run_folder){ .lock = -1, .metrics = -1, .events = { .fd = -1 } };
	if (!info->run[0])
		return TARN_OK;
	folder->path = info->run;
	enum tarn_status st = take_lock(folder);
	if (!st)
		st = run_folder_path(folder->path, RUN_METRICS, path);
	if (!st)
		st = prepare_metrics(folder, info, path);
	if (!st)
		st = write_question(folder, session, config_path);
	if (st)
		return st;
	folder->metrics = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (folder->metrics < 0)
		return tarn_fail(TARN_EIO, "%s: cannot create: %s", path, strerror(errno));
	return info->tensorboard ? open_events(folder, info->resumed_steps) : TARN_OK;
}

/* ---- during the run ------------------------------------------------------------------------------------------- */

static enum tarn_status add_events(struct run_folder *folder, uint64_t step, const struct event_scalar *scalar,
				   uint32_t count)
{
	return folder->events.fd < 0 ? TARN_OK : event_file_scalars(&folder->events, step, scalar, count);
}

enum tarn_status run_folder_interval(struct run_folder *folder, const struct run_interval *i)
{
	struct line line = { .used = 0 };
	const struct event_scalar scalar[] = {
		{ "train/loss", i->loss },
		{ "train/accuracy", i->accuracy },
		{ "train/learning_rate", i->learning_rate },
		{ "train/gradient_norm", i->gradient_norm },
		{ "time/samples_per_s", i->samples_per_s },
		{ "time/step_ms", i->step_ms },
	};
	if (!folder->path)
		return TARN_OK;
	add(&line, "{\"step\": %llu, \"epoch\": %u, \"epoch_end\": %s", (unsigned long long)i->step, i->epoch,
	    i->epoch_end ? "true" : "false");
	add_number(&line, "loss", i->loss);
	add_number(&line, "accuracy", i->accuracy);
	add_number(&line, "learning_rate", i->learning_rate);
	add_number(&line, "gradient_norm", i->gradient_norm);
	add_number(&line, "samples_per_s", i->samples_per_s);
	add_number(&line, "step_ms", i->step_ms);
	add_number(&line, "planned_step_ms", i->planned_step_ms);
	enum tarn_status st = append(folder, &line);
	return st ? st : add_events(folder, i->step, scalar, sizeof scalar / sizeof *scalar);
}

enum tarn_status run_folder_evaluation(struct run_folder *folder, uint64_t step, uint32_t epoch,
				       const struct tarn_evaluation *evaluation)
{
	struct line line = { .used = 0 };
	const struct event_scalar scalar[] = { { "test/loss", evaluation->loss },
					       { "test/accuracy", evaluation->accuracy } };
	if (!folder->path || !evaluation->samples)
		return TARN_OK;
	add(&line, "{\"step\": %llu, \"epoch\": %u, \"test_samples\": %u", (unsigned long long)step, epoch,
	    evaluation->samples);
	add_number(&line, "test_loss", evaluation->loss);
	add_number(&line, "test_accuracy", evaluation->accuracy);
	enum tarn_status st = append(folder, &line);
	return st ? st : add_events(folder, step, scalar, sizeof scalar / sizeof *scalar);
}

enum tarn_status run_folder_result(struct run_folder *folder, const struct tarn_plan_info *info,
				   const struct run_result *r)
{
	struct line line = { .used = 0 };
	struct atomic_file file;
	char path[RUN_PATH];
	if (!folder->path)
		return TARN_OK;
	add(&line, "{\"steps\": %llu, \"samples\": %llu", (unsigned long long)r->steps, (unsigned long long)r->samples);
	add_number(&line, "loss", r->loss);
	add_number(&line, "test_loss", r->test_loss);
	add_number(&line, "test_accuracy", r->test_accuracy);
	add_number(&line, "step_ms", r->step_ms);
	add_number(&line, "step_cpu_ms", r->step_cpu_ms);
	add_number(&line, "planned_step_ms", (double)info->step_ns * 1e-6);
	add_number(&line, "samples_per_s", r->samples_per_s);
	add_number(&line, "seconds", r->seconds);
	add(&line, ", \"peak_bytes\": %llu, \"arena_bytes\": %llu, \"touched_bytes\": %llu, \"process_bytes\": %llu}\n",
	    (unsigned long long)info->peak_bytes, (unsigned long long)info->arena_bytes,
	    (unsigned long long)r->touched_bytes, (unsigned long long)r->process_bytes);
	enum tarn_status st = run_folder_path(folder->path, RUN_RESULT, path);
	if (!st)
		st = atomic_file_open(&file, path);
	if (st)
		return st;
	st = atomic_file_write(&file, line.text, line.used);
	if (!st)
		return atomic_file_commit(&file, NULL);
	atomic_file_abandon(&file);
	return st;
}

void run_folder_close(struct run_folder *folder)
{
	event_file_close(&folder->events);
	if (folder->metrics >= 0)
		close(folder->metrics);
	if (folder->lock >= 0)
		close(folder->lock);
}
