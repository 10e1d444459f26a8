/*
 * run_folder.h - what a training run leaves in train.run: FOLDER.
 *
 *     config.yaml       the configuration file as it was, where there was one
 *     settings.txt      every key as it was used, overrides included; a line each
 *     run.plan          the plan
 *     metrics.jsonl     a line every train.log_every steps and at the end of an epoch (means since the line before),
 *                       and one after each evaluation, which has test_loss
 *     result.json       after the end: memory and time, planned and measured
 *     snapshot.safetensors, unless train.snapshot names another file
 *     events.out.tfevents.*   with train.log: tensorboard
 *     lock              held (flock) while a process trains into the folder
 *
 * A line of metrics is one write(). A run that goes on from a snapshot first drops the lines after its step, so that no
 * step is there twice. A folder with a run in it is not begun anew. Nothing here allocates after run_folder_open.
 */
#ifndef TARN_TOOLS_RUN_FOLDER_H
#define TARN_TOOLS_RUN_FOLDER_H

#include "event_file.h"
#include "tarn.h"

#define RUN_METRICS "metrics.jsonl"
#define RUN_PLAN "run.plan"
#define RUN_RESULT "result.json"

struct run_folder {
	const char *path; /* borrowed; NULL: no folder is asked for, and nothing is written */
	int lock, metrics;
	struct event_file events;
};

/* Means since the line before; NAN where there is none. */
struct run_interval {
	uint64_t step;
	uint32_t epoch; /* from 0 */
	bool epoch_end;
	double loss, accuracy, learning_rate, gradient_norm, samples_per_s, step_ms, planned_step_ms;
};

struct run_result {
	uint64_t steps, samples;
	double loss, test_loss, test_accuracy, step_ms, step_cpu_ms, samples_per_s, seconds;
	uint64_t touched_bytes, process_bytes;
};

/*
 * info->run and info->resumed_steps say where and from which step. `config_path` may be NULL. TARN_EINVAL when the
 * folder holds a run and this one does not go on with it, or another process trains into it; TARN_EFORMAT for a
 * metrics.jsonl that is none.
 */
enum tarn_status run_folder_open(struct run_folder *folder, const struct tarn_session *session,
				 const struct tarn_plan_info *info, const char *config_path);
enum tarn_status run_folder_interval(struct run_folder *folder, const struct run_interval *interval);
enum tarn_status run_folder_evaluation(struct run_folder *folder, uint64_t step, uint32_t epoch,
				       const struct tarn_evaluation *evaluation);
enum tarn_status run_folder_result(struct run_folder *folder, const struct tarn_plan_info *info,
				   const struct run_result *result);
void run_folder_close(struct run_folder *folder);

/* "FOLDER/NAME"; TARN_EINVAL when it is longer than a path may be. */
#define RUN_PATH 4096u
enum tarn_status run_folder_path(const char *folder, const char *name, char path[RUN_PATH]);

#endif
