/* tarn_report.c - `tarn report`: training runs as one page, side by side. */
#include "command.h"
#include "page.h"
#include "plan_page.h"
#include "run_history.h"

#include "base/atomic_file.h"
#include "base/bytes.h"
#include "plan/chart.h"
#include "plan/svg.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MOST_RUNS (CHART_SERIES / 2) /* two series each */
_Static_assert(MOST_RUNS <= CHART_COLOURS, "a colour for each run");

struct report_run {
	const char *folder;
	struct tarn_session *session; /* its plan */
	struct tarn_plan_info info;
	struct run_history history;
	const char *beside_name; /* of a second series of this run in a chart of several */
};

struct report {
	struct host_arena arena;
	struct report_run run[MOST_RUNS];
	uint32_t runs;
	FILE *out;
};

/* ---- charts --------------------------------------------------------------------------------------------------- */

static struct chart_series series_of(const struct report_run *run, enum run_column column, const char *name,
				     uint32_t colour)
{
	return (struct chart_series){ .name = name,
				      .x = run->history.column[RUN_STEP],
				      .y = run->history.column[column],
				      .points = run->history.lines,
				      .colour = colour };
}

/* A column of every run; beside it another one, dashed or with dots, where `beside` is below RUN_COLUMNS. */
static void write_chart(const struct report *r, struct chart chart, enum run_column column, enum run_column beside,
			const char *name, const char *beside_name)
{
	bool alone = r->runs == 1;
	for (uint32_t i = 0; i < r->runs; i++) {
		const struct report_run *run = &r->run[i];
		chart.series[chart.count++] = series_of(run, column, alone ? name : run->folder, i);
		if (beside == RUN_COLUMNS || isnan(run_history_last(&run->history, beside)))
			continue;
		struct chart_series *other = &chart.series[chart.count++];
		*other = series_of(run, beside, alone ? beside_name : run->beside_name, alone ? 1 : i);
		other->dashed = true;
		other->dots = beside != RUN_PLANNED_STEP_MS;
	}
	chart.x_name = "step";
	chart.limit = NAN;
	fputs("<section class=\"card\">", r->out);
	chart_draw(r->out, &chart);
	fputs("</section>\n", r->out);
}

/* Losses that fall by more than this are shown on a logarithmic scale. */
#define LOGARITHMIC 20

static bool falls_far(const struct report *r)
{
	double low = INFINITY, high = -INFINITY;
	for (uint32_t i = 0; i < r->runs; i++)
		for (size_t k = 0; k < r->run[i].history.lines; k++) {
			double loss = r->run[i].history.column[RUN_LOSS][k];
			if (isfinite(loss)) {
				low = fmin(low, loss);
				high = fmax(high, loss);
			}
		}
	return low > 0 && high > LOGARITHMIC * low;
}

static bool any(const struct report *r, enum run_column column)
{
	for (uint32_t i = 0; i < r->runs; i++)
		if (!isnan(run_history_last(&r->run[i].history, column)))
			return true;
	return false;
}

static void write_charts(const struct report *r)
{
	const char *dotted = r->runs > 1 ? " (dotted: test)" : "", *planned = r->runs > 1 ? " (dotted: planned)" : "";
	char title[64];
	snprintf(title, sizeof title, "Loss%s", dotted);
	write_chart(r, (struct chart){ .title = title, .logarithmic = falls_far(r) }, RUN_LOSS, RUN_TEST_LOSS,
		    "training", "test");
	snprintf(title, sizeof title, "Accuracy%s", dotted);
	if (any(r, RUN_ACCURACY))
		write_chart(r, (struct chart){ .title = title, .y_unit = CHART_PERCENT }, RUN_ACCURACY,
			    RUN_TEST_ACCURACY, "training", "test");
	snprintf(title, sizeof title, "Time of a step in ms%s", planned);
	write_chart(r, (struct chart){ .title = title, .from_zero = true }, RUN_STEP_MS, RUN_PLANNED_STEP_MS,
		    "measured", "planned");
	write_chart(r, (struct chart){ .title = "Samples a second", .from_zero = true }, RUN_SAMPLES_PER_S, RUN_COLUMNS,
		    "", "");
	write_chart(r, (struct chart){ .title = "Learning rate", .from_zero = true }, RUN_LEARNING_RATE, RUN_COLUMNS,
		    "", "");
	if (any(r, RUN_GRADIENT_NORM))
		write_chart(r, (struct chart){ .title = "Gradient norm", .from_zero = true }, RUN_GRADIENT_NORM,
			    RUN_COLUMNS, "", "");
}

/* ---- figures -------------------------------------------------------------------------------------------------- */

/* A table cell; a dash for what is not known. */
static void write_number(FILE *out, const char *format, double value)
{
	char text[64];
	snprintf(text, sizeof text, format, value);
	fprintf(out, "<td>%s</td>", isfinite(value) ? text : "\u2013");
}

static void write_bytes(FILE *out, uint64_t bytes, bool known)
{
	char text[BYTES_TEXT];
	fprintf(out, "<td>%s</td>", known ? bytes_format(bytes, text, sizeof text) : "\u2013");
}

static void write_row(const struct report_run *run, uint32_t colour, FILE *out)
{
	const struct run_history *h = &run->history;
	double planned = (double)run->info.step_ns * 1e-6;
	double measured = h->finished ? h->result.step_ms : run_history_last(h, RUN_STEP_MS);
	fprintf(out, "<tr><td><i class=\"dot b%u\"></i>", colour);
	svg_escape(out, run->folder, SIZE_MAX);
	fprintf(out, "%s</td>", h->finished ? "" : " <small>(not at its end)</small>");
	write_number(out, "%.0f", run_history_last(h, RUN_STEP));
	write_number(out, "%.4f", run_history_last(h, RUN_LOSS));
	write_number(out, "%.4f", run_history_last(h, RUN_TEST_LOSS));
	write_number(out, "%.2f %%", 100 * run_history_last(h, RUN_TEST_ACCURACY));
	write_number(out, "%.0f", h->finished ? h->result.samples_per_s : run_history_last(h, RUN_SAMPLES_PER_S));
	write_number(out, "%.2f", planned);
	write_number(out, "%.2f", measured);
	write_number(out, "%.2f", measured / planned);
	write_bytes(out, run->info.budget_bytes, run->info.budget_bytes != UINT64_MAX);
	write_bytes(out, run->info.peak_bytes, true);
	write_bytes(out, h->result.touched_bytes, h->finished);
	write_bytes(out, h->result.process_bytes, h->finished);
	fputs("</tr>\n", out);
}

static void write_table(const struct report *r)
{
	fputs("<section class=\"card wide\"><h2>Planned and measured</h2><div class=\"scroll\"><table "
	      "class=\"num\">\n<tr>"
	      "<th>run</th><th>steps</th><th>loss</th><th>test loss</th><th>test accuracy</th><th>samples/s</th>"
	      "<th>step planned, ms</th><th>measured</th><th>ratio</th><th>budget</th><th>peak planned</th>"
	      "<th>arena written</th><th>whole process</th></tr>\n",
	      r->out);
	for (uint32_t i = 0; i < r->runs; i++)
		write_row(&r->run[i], i, r->out);
	fputs("</table></div></section>\n", r->out);
}

static void write_bar(FILE *out, const char *label, uint32_t colour, uint64_t bytes, uint64_t most)
{
	char text[BYTES_TEXT];
	fprintf(out,
		"<p class=\"memory\">%s <b>%s</b></p><div class=\"bar\"><i class=\"b%u\" style=\"flex-grow:%.6f\"></i>"
		"<i style=\"flex-grow:%.6f\"></i></div>\n",
		label, bytes_format(bytes, text, sizeof text), colour, (double)bytes / (double)most,
		1 - (double)bytes / (double)most);
}

/* The arena's bytes: what was allowed, planned and touched. */
static void write_memory(const struct report_run *run, FILE *out)
{
	const struct tarn_plan_info *info = &run->info;
	bool limited = info->budget_bytes != UINT64_MAX;
	uint64_t most = limited && info->budget_bytes > info->arena_bytes ? info->budget_bytes : info->arena_bytes;
	fputs("<section class=\"card\"><h2>Memory, planned and measured</h2>\n", out);
	if (limited)
		write_bar(out, "budget", 7, info->budget_bytes, most);
	write_bar(out, "arena, reserved at boot", 5, info->arena_bytes, most);
	write_bar(out, "peak, planned", 0, info->peak_bytes, most);
	if (run->history.finished)
		write_bar(out, "highest byte written, measured", 2, run->history.result.touched_bytes, most);
	fputs("</section>\n", out);
}

/* ---- the page ------------------------------------------------------------------------------------------------- */

static enum tarn_status write_one(const struct report *r)
{
	const struct report_run *run = &r->run[0];
	plan_page_tiles(&run->info, r->out);
	fputs("<div class=\"cards\">\n", r->out);
	write_charts(r);
	write_memory(run, r->out);
	write_table(r);
	enum tarn_status st = tarn_plan_html(run->session, r->out);
	fputs("</div>\n", r->out);
	return st;
}

static enum tarn_status write_several(const struct report *r)
{
	enum tarn_status st = TARN_OK;
	fputs("<ul class=\"legend\">", r->out);
	for (uint32_t i = 0; i < r->runs; i++) {
		fprintf(r->out, "<li><i class=\"b%u\"></i>", i);
		svg_escape(r->out, r->run[i].folder, SIZE_MAX);
		fputs("</li>", r->out);
	}
	fputs("</ul><div class=\"cards\">\n", r->out);
	write_table(r);
	write_charts(r);
	for (uint32_t i = 0; i < r->runs && !st; i++) {
		char subtitle[512];
		fputs("<details class=\"wide\"><summary>", r->out);
		svg_escape(r->out, r->run[i].folder, SIZE_MAX);
		fputs(": ", r->out);
		svg_escape(r->out, plan_page_subtitle(&r->run[i].info, subtitle, sizeof subtitle), SIZE_MAX);
		fputs("</summary><div class=\"cards\">\n", r->out);
		write_memory(&r->run[i], r->out);
		st = tarn_plan_html(r->run[i].session, r->out);
		fputs("</div></details>\n", r->out);
	}
	fputs("</div>\n", r->out);
	return st;
}

static enum tarn_status write_page(struct report *r, const char *path)
{
	struct atomic_file file;
	char title[64], subtitle[512];
	enum tarn_status st = atomic_file_open_stream(&file, path, &r->out);
	if (st)
		return st;
	snprintf(title, sizeof title, "%u runs", r->runs);
	if (r->runs == 1)
		page_open(r->out, r->run[0].info.name, plan_page_subtitle(&r->run[0].info, subtitle, sizeof subtitle));
	else
		page_open(r->out, title, "compared: training, throughput, memory and time");
	st = r->runs == 1 ? write_one(r) : write_several(r);
	page_close(r->out);
	return atomic_file_close_stream(&file, r->out, st);
}

static enum tarn_status read_run(struct report *r, const char *folder)
{
	struct report_run *run = &r->run[r->runs];
	char path[RUN_PATH];
	if (r->runs == MOST_RUNS)
		return tarn_fail(TARN_EINVAL, "report: more than %u runs; %s is one too many", MOST_RUNS, folder);
	*run = (struct report_run){ .folder = folder,
				    .beside_name = host_arena_printf(&r->arena, "%s, dotted", folder) };
	if (!run->beside_name)
		return TARN_ENOMEM;
	enum tarn_status st = run_history_read(folder, &r->arena, &run->history);
	if (!st)
		st = run_folder_path(folder, RUN_PLAN, path);
	const struct tarn_options options = { .plan_path = path, .plan_only = true };
	if (!st)
		st = tarn_open(&options, &run->session);
	if (st)
		return st;
	r->runs++;
	return tarn_plan_info(run->session, &run->info);
}

/* RUN ... and -o FILE, in any order. */
static enum tarn_status read_arguments(int argc, char **argv, struct report *r, const char **output)
{
	enum tarn_status st = TARN_OK;
	for (int i = 1; i < argc && !st; i++) {
		if (!strncmp(argv[i], "-o", 2) && !argv[i][2]) {
			*output = ++i < argc ? argv[i] : NULL;
			if (!*output)
				st = tarn_fail(TARN_EINVAL, "report: -o needs a value");
		} else if (argv[i][0] == '-') {
			st = tarn_fail(TARN_EINVAL, "report: unknown option %s; see `tarn help report`", argv[i]);
		} else {
			st = read_run(r, argv[i]);
		}
	}
	if (!st && !r->runs)
		st = tarn_fail(TARN_EINVAL, "report: which run? Give the folder that train.run named");
	if (!st && !*output)
		st = tarn_fail(TARN_EINVAL, "report: where to? Give -o FILE.html");
	return st;
}

int command_report(int argc, char **argv)
{
	static struct report report;
	const char *output = NULL;
	if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		print_command_help("report");
		return 0;
	}
	host_arena_init(&report.arena);
	enum tarn_status st = read_arguments(argc, argv, &report, &output);
	if (!st)
		st = write_page(&report, output);
	for (uint32_t i = 0; i < report.runs; i++)
		tarn_close(report.run[i].session);
	host_arena_fini(&report.arena);
	return st ? command_fail(st) : 0;
}
