/*
 * progress.h - the line that says how a training run goes.
 *
 * On a terminal each line takes the place of the one before and has as much as fits its width; elsewhere there is a
 * line after the other, whole and without control characters. Colours are for terminals alone, and never where NO_COLOR
 * is set (no-color.org) or TERM is "dumb".
 */
#ifndef TARN_TOOLS_PROGRESS_H
#define TARN_TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
	bool terminal, colour;
};

struct progress_line {
	uint32_t epoch;                                                     /* from 0 */
	uint64_t step, total_steps, peak_bytes, budget_bytes;               /* budget_bytes UINT64_MAX: unlimited */
	double loss, accuracy, samples_per_s, learning_rate, gradient_norm; /* accuracy, gradient_norm NAN: left out */
	double seconds_left;
};

bool progress_has_colours(int fd);

struct progress progress_on_stdout(void);

/* `keep`: the next line goes below this one. */
void progress_print(const struct progress *progress, const struct progress_line *line, bool keep);

/* "1:02:03" or "2:03". Returns buffer. */
const char *progress_duration(double seconds, char *buffer, size_t size);

#endif
