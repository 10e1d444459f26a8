/* html.c - see html.h. */
#include "plan/html.h"

#include "plan/chart.h"
#include "plan/draw.h"
#include "plan/svg.h"

#include <math.h>

/* Rows of the table of what is in memory at the peak. */
#define ROWS 12u

enum section {
	SECTION_PARAMETERS,
	SECTION_OPTIMIZER,
	SECTION_STAGING,
	SECTION_OTHER,
	SECTION_ACTIVATIONS,
	SECTION_RECOMPUTED,
	SECTION_FETCHED,
	SECTION_GRADIENTS,
	SECTION_WORKSPACES,
	SECTIONS
};

static const struct {
	const char *label;
	uint32_t colour;
} sections[SECTIONS] = {
	[SECTION_PARAMETERS] = { "parameters", 7 },   [SECTION_OPTIMIZER] = { "optimizer state", 5 },
	[SECTION_STAGING] = { "staging", 6 },         [SECTION_OTHER] = { "other persistent", 4 },
	[SECTION_ACTIVATIONS] = { "activations", 0 }, [SECTION_RECOMPUTED] = { "recomputed activations", 2 },
	[SECTION_FETCHED] = { "fetched", 3 },         [SECTION_GRADIENTS] = { "gradients", 1 },
	[SECTION_WORKSPACES] = { "workspaces", 3 },
};

static enum section section_of(const struct plan_explanation *e, const struct plan_buffer *buffer)
{
	static const enum section transient[BUFFER_KINDS] = {
		[BUFFER_ACTIVATION] = SECTION_ACTIVATIONS, [BUFFER_GRADIENT] = SECTION_GRADIENTS,
		[BUFFER_RECOMPUTED] = SECTION_RECOMPUTED,  [BUFFER_FETCHED] = SECTION_FETCHED,
		[BUFFER_WORKSPACE] = SECTION_WORKSPACES,
	};
	if (buffer->kind != BUFFER_PERSISTENT)
		return transient[buffer->kind];
	switch (e->plan->program[0].graph.tensor[buffer->tensor].role) {
	case ROLE_PARAMETER:
		return SECTION_PARAMETERS;
	case ROLE_OPTIMIZER_STATE:
		return SECTION_OPTIMIZER;
	case ROLE_STAGING:
		return SECTION_STAGING;
	default:
		return SECTION_OTHER;
	}
}

/* A bar whose parts are as wide as they are large, and the figures below it. */
static void write_sections(const struct plan_explanation *e, FILE *out)
{
	uint64_t bytes[SECTIONS] = { 0 }, sum = 0;
	char text[BYTES_TEXT], whole[BYTES_TEXT];
	for (uint32_t i = 0; i < e->lives; i++) {
		const struct plan_buffer *buffer = &e->buffers.buffer[e->live[i].buffer];
		bytes[section_of(e, buffer)] += buffer->bytes;
		sum += buffer->bytes;
	}
	fprintf(out, "<section class=\"card wide\"><h2>Bytes by section, at the peak</h2><p>%s live at once, at <b>",
		bytes_format(e->buffers.peak_bytes, whole, sizeof whole));
	if (e->program->instructions)
		svg_escape(out, op_name(&e->program->graph, e->program->instruction[plan_peak_run(e)].op), SIZE_MAX);
	fputs("</b></p>\n<div class=\"bar\">", out);
	for (uint32_t s = 0; s < SECTIONS; s++)
		if (bytes[s])
			fprintf(out, "<i class=\"b%u\" style=\"flex-grow:%.6f\" title=\"%s %s\"></i>",
				sections[s].colour, (double)bytes[s] / (double)sum, sections[s].label,
				bytes_format(bytes[s], text, sizeof text));
	fputs("</div>\n<ul class=\"legend\">\n", out);
	for (uint32_t s = 0; s < SECTIONS; s++)
		if (bytes[s])
			fprintf(out, "<li><i class=\"b%u\"></i>%s <b>%s</b> <small>%.1f %%</small></li>\n",
				sections[s].colour, sections[s].label, bytes_format(bytes[s], text, sizeof text),
				100 * (double)bytes[s] / (double)sum);
	fputs("</ul></section>\n", out);
}

static void write_table(const struct plan_explanation *e, FILE *out)
{
	static const char *const uses[PLAN_USES] = { [USE_PERSISTENT] = "persistent",
						     [USE_READ] = "read now",
						     [USE_WRITTEN] = "written now",
						     [USE_WORKSPACE] = "workspace",
						     [USE_LATER] = "needed later" };
	char text[BYTES_TEXT], name[SVG_SHORT];
	fputs("<section class=\"card wide\"><h2>The largest in memory at the "
	      "peak</h2>\n<table><tr><th>what</th><th>why</th>"
	      "<th>bytes</th></tr>\n",
	      out);
	for (uint32_t i = 0; i < e->lives && i < ROWS; i++) {
		const struct plan_live *live = &e->live[i];
		fputs("<tr><td>", out);
		svg_escape(out, svg_shorten(plan_buffer_name(e, live->buffer), 60, name), SIZE_MAX);
		fprintf(out, "</td><td>%s</td><td>%s</td></tr>\n", uses[live->use],
			bytes_format(e->buffers.buffer[live->buffer].bytes, text, sizeof text));
	}
	fputs("</table></section>\n", out);
}

static enum tarn_status write_live(const struct plan_explanation *e, struct host_arena *scratch, FILE *out)
{
	uint32_t steps = e->program->instructions;
	double *x = HOST_ARRAY(scratch, steps, double), *y = HOST_ARRAY(scratch, steps, double);
	char budget[64], text[BYTES_TEXT];
	if (!x || !y)
		return TARN_ENOMEM;
	for (uint32_t i = 0; i < steps; i++) {
		x[i] = i;
		y[i] = (double)e->buffers.live_bytes[i];
	}
	bool limited = e->plan->budget_bytes != UINT64_MAX;
	snprintf(budget, sizeof budget, "budget %s", bytes_format(e->plan->budget_bytes, text, sizeof text));
	const struct chart chart = { .title = "Live bytes against the budget",
				     .x_name = "instruction of a training step",
				     .y_unit = CHART_BYTES,
				     .from_zero = true,
				     .series = { { .name = "live", .x = x, .y = y, .points = steps, .most = true } },
				     .count = 1,
				     .limit = limited ? (double)e->plan->budget_bytes : NAN,
				     .limit_name = budget,
				     .mark_name = "peak",
				     .mark_x = e->buffers.peak_instruction,
				     .mark_y = (double)e->buffers.peak_bytes };
	fputs("<section class=\"card\">", out);
	chart_draw(out, &chart);
	fputs("</section>\n", out);
	return TARN_OK;
}

static void write_curve(const struct plan_explanation *e, const struct plan_curve *curve, FILE *out)
{
	double budget[PLAN_CURVE_POINTS], extra[PLAN_CURVE_POINTS];
	double base = curve->base_ns ? (double)curve->base_ns : 1;
	bool limited = e->plan->budget_bytes != UINT64_MAX;
	for (uint32_t i = 0; i < curve->points; i++) {
		budget[i] = (double)curve->point[i].budget_bytes;
		extra[i] = (double)curve->point[i].time_ns / base - 1;
	}
	const struct chart chart = { .title = "Extra time of a step over the budget",
				     .x_name = "budget",
				     .x_unit = CHART_BYTES,
				     .y_unit = CHART_PERCENT,
				     .from_zero = true,
				     .series = { { .name = "extra",
						   .x = budget,
						   .y = extra,
						   .points = curve->points,
						   .steps = true,
						   .dots = true } },
				     .count = 1,
				     .limit = NAN,
				     .mark_name = limited ? "this plan" : NULL,
				     .mark_x = (double)e->plan->budget_bytes,
				     .mark_y = (double)e->program->time_ns / base - 1 };
	fputs("<section class=\"card\">", out);
	chart_draw(out, &chart);
	fputs("</section>\n", out);
}

static enum tarn_status write_arena(const struct plan *plan, struct host_arena *scratch, FILE *out)
{
	fputs("<section class=\"card wide\"><h2>The arena over one training step</h2>\n<p>Steps to the right, "
	      "addresses "
	      "upwards; a rectangle is a buffer. Point at one, or touch it, for its name.</p>\n"
	      "<div class=\"scroll\">\n",
	      out);
	enum tarn_status st = plan_draw_inline(plan, PROGRAM_TRAIN, scratch, out);
	fputs("</div>\n<p class=\"detail\">&nbsp;</p></section>\n", out);
	return st;
}

enum tarn_status plan_html(const struct plan *plan, const struct plan_curve *curve, struct host_arena *scratch,
			   FILE *out)
{
	struct host_mark mark = host_arena_mark(scratch);
	struct plan_explanation explanation;
	enum tarn_status st = plan_explain(plan, &plan->program[0], scratch, &explanation);
	if (st)
		goto out;
	write_sections(&explanation, out);
	st = write_arena(plan, scratch, out);
	if (!st)
		st = write_live(&explanation, scratch, out);
	if (st)
		goto out;
	if (curve && curve->points)
		write_curve(&explanation, curve, out);
	write_table(&explanation, out);
out:
	host_arena_release(scratch, mark);
	return st;
}
