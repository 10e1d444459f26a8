/*
 * run_history.h - what run_folder.h wrote, read back for a report.
 */
#ifndef TARN_TOOLS_RUN_HISTORY_H
#define TARN_TOOLS_RUN_HISTORY_H

#include "run_folder.h"

#include "base/host_arena.h"

/* Columns of equal length; what a line does not have is NAN. */
enum run_column {
	RUN_STEP,
	RUN_LOSS,
	RUN_ACCURACY,
	RUN_LEARNING_RATE,
	RUN_GRADIENT_NORM,
	RUN_SAMPLES_PER_S,
	RUN_STEP_MS,
	RUN_PLANNED_STEP_MS,
	RUN_TEST_LOSS,
	RUN_TEST_ACCURACY,
	RUN_COLUMNS
};

struct run_history {
	double *column[RUN_COLUMNS];
	size_t lines;
	bool finished; /* there is a result */
	struct run_result result;
};

/* TARN_EIO when the folder has no metrics; TARN_EFORMAT names the line that is none. */
enum tarn_status run_history_read(const char *folder, struct host_arena *arena, struct run_history *out);

/* The last value of a column that is a number; NAN: none. */
double run_history_last(const struct run_history *history, enum run_column column);

#endif
