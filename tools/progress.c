/* progress.c - see progress.h. */
#include "progress.h"

#include "base/bytes.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DIM "\033[2m"
#define PLAIN "\033[0m"

struct line_part {
	const struct progress *progress;
	int columns, used;
};

static bool is_terminal(int fd)
{
	const char *term = getenv("TERM");
	return isatty(fd) && !(term && !strcmp(term, "dumb"));
}

bool progress_has_colours(int fd)
{
	const char *no = getenv("NO_COLOR");
	return is_terminal(fd) && !(no && *no);
}

struct progress progress_on_stdout(void)
{
	return (struct progress){ .terminal = is_terminal(STDOUT_FILENO),
				  .colour = progress_has_colours(STDOUT_FILENO) };
}

const char *progress_duration(double seconds, char *buffer, size_t size)
{
	unsigned long whole = seconds > 0.0 && seconds < 1e9 ? (unsigned long)(seconds + 0.5) : 0;
	if (whole >= 3600)
		snprintf(buffer, size, "%lu:%02lu:%02lu", whole / 3600, whole / 60 % 60, whole % 60);
	else
		snprintf(buffer, size, "%lu:%02lu", whole / 60, whole % 60);
	return buffer;
}

/* A part of the line; on a terminal it is left out, with all behind it, where it does not fit. */
static void part(struct line_part *row, const char *label, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static void part(struct line_part *row, const char *label, const char *format, ...)
{
	char value[96];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(value, sizeof value, format, arguments);
	va_end(arguments);
	int gap = row->used ? 2 : 0, space = *label ? 1 : 0;
	int length = gap + (int)strlen(label) + space + (int)strlen(value);
	if (row->progress->terminal && row->used + length >= row->columns) {
		row->columns = 0;
		return;
	}
	row->used += length;
	bool colour = row->progress->colour && *label;
	printf("%*s%s%s%s%*s%s", gap, "", colour ? DIM : "", label, colour ? PLAIN : "", space, "", value);
}

static int terminal_columns(void)
{
	struct winsize size;
	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col ? 80 : size.ws_col;
}

void progress_print(const struct progress *progress, const struct progress_line *line, bool keep)
{
	char text[BYTES_TEXT], budget[BYTES_TEXT] = "unlimited";
	struct line_part row = { .progress = progress };
	if (progress->terminal) {
		row.columns = terminal_columns();
		printf("\r");
	}
	part(&row, "epoch", "%u", line->epoch + 1);
	part(&row, "step", "%llu/%llu", (unsigned long long)line->step, (unsigned long long)line->total_steps);
	part(&row, "loss", "%.5g", line->loss);
	if (!isnan(line->accuracy))
		part(&row, "acc", "%5.2f %%", 100.0 * line->accuracy);
	part(&row, "", "%.0f images/s", line->samples_per_s);
	part(&row, "ETA", "%s", progress_duration(line->seconds_left, text, sizeof text));
	part(&row, "rate", "%.3g", line->learning_rate);
	if (!isnan(line->gradient_norm))
		part(&row, "gradient", "%.3g", line->gradient_norm);
	if (line->budget_bytes != UINT64_MAX)
		bytes_format(line->budget_bytes, budget, sizeof budget);
	part(&row, "memory", "%s of %s", bytes_format(line->peak_bytes, text, sizeof text), budget);
	if (progress->terminal)
		printf("\033[K");
	if (keep || !progress->terminal)
		printf("\n");
}
