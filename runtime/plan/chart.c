/* chart.c - see chart.h. */
#include "plan/chart.h"

#include "base/bytes.h"
#include "plan/svg.h"

#include <math.h>

#define LEFT 68.0
#define RIGHT 18.0
#define TOP 44.0
#define BOTTOM 46.0
#define PLOT_WIDTH (CHART_WIDTH - LEFT - RIGHT)
#define PLOT_HEIGHT (CHART_HEIGHT - TOP - BOTTOM)
#define MOST_POINTS 400u
/* Width of an average character of a legend, in pixels. */
#define CHARACTER 7.9

const char chart_style[] =
	":root{--ink:#0f172a;--soft:#475569;--grid:#e2e8f0;--panel:#ffffff;--limit:#dc2626;--c0:#2563eb;--c1:#ea580c;"
	"--c2:#059669;--c3:#9333ea;--c4:#db2777;--c5:#0891b2;--c6:#ca8a04;--c7:#64748b}\n"
	"@media (prefers-color-scheme:dark){:root{--ink:#f1f5f9;--soft:#94a3b8;--grid:#273449;--panel:#131c2e;"
	"--limit:#f87171;--c0:#60a5fa;--c1:#fb923c;--c2:#34d399;--c3:#c084fc;--c4:#f472b6;--c5:#22d3ee;--c6:#facc15;"
	"--c7:#94a3b8}}\n"
	".chart text{font-family:Inter,'Helvetica Neue',Helvetica,Arial,'DejaVu Sans',sans-serif;font-size:13px;"
	"fill:var(--soft)}\n"
	".chart .c-back{fill:var(--panel)}.chart .c-title{font-size:15px;font-weight:600;fill:var(--ink)}\n"
	".chart .c-right{text-anchor:end}.chart .c-middle{text-anchor:middle}\n"
	".chart .c-grid{stroke:var(--grid);stroke-width:1}.chart .c-limit{stroke:var(--limit);stroke-width:1.5;"
	"stroke-dasharray:7 5}.chart .c-limit-text{fill:var(--limit)}\n"
	".chart .c-line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}"
	".chart .c-dashed{stroke-dasharray:2 5}\n"
	".chart .c-mark{fill:var(--ink);stroke:var(--panel);stroke-width:2}\n"
	".s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}.s4{stroke:var(--c4)}"
	".s5{stroke:var(--c5)}.s6{stroke:var(--c6)}.s7{stroke:var(--c7)}\n"
	".f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}.f4{fill:var(--c4)}"
	".f5{fill:var(--c5)}.f6{fill:var(--c6)}.f7{fill:var(--c7)}\n";

struct axis {
	double low, high;
	enum chart_unit unit;
	double scale; /* of a printed number */
	const char *suffix;
	bool logarithmic;
};

/* ---- scales --------------------------------------------------------------------------------------------------- */

static double on_axis(const struct axis *axis, double value)
{
	if (axis->logarithmic)
		return (log10(value) - log10(axis->low)) / (log10(axis->high) - log10(axis->low));
	return (value - axis->low) / (axis->high - axis->low);
}

static double x_of(const struct axis *axis, double value)
{
	return LEFT + PLOT_WIDTH * on_axis(axis, value);
}

static double y_of(const struct axis *axis, double value)
{
	return TOP + PLOT_HEIGHT * (1 - on_axis(axis, value));
}

static bool is_drawn(const struct chart *chart, double x, double y)
{
	return isfinite(x) && isfinite(y) && (!chart->logarithmic || y > 0);
}

static void widen(struct axis *axis, double value)
{
	axis->low = fmin(axis->low, value);
	axis->high = fmax(axis->high, value);
}

/* The least of 1, 2, 5 times a power of ten that is not below `value`. */
static double nice_above(double value)
{
	double power = pow(10, floor(log10(value))), digit = value / power;
	return (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10) * power;
}

static void choose_unit(struct axis *axis)
{
	static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t i = 0;
	axis->scale = axis->unit == CHART_PERCENT ? 0.01 : 1;
	axis->suffix = axis->unit == CHART_PERCENT ? " %" : "";
	if (axis->unit != CHART_BYTES)
		return;
	for (; i + 1 < sizeof names / sizeof *names && axis->high >= 1024 * axis->scale; i++)
		axis->scale *= 1024;
	axis->suffix = names[i];
}

/* False when there is nothing to draw. */
static bool find_axes(const struct chart *chart, struct axis *x, struct axis *y)
{
	*x = (struct axis){ INFINITY, -INFINITY, .unit = chart->x_unit };
	*y = (struct axis){ INFINITY, -INFINITY, .unit = chart->y_unit, .logarithmic = chart->logarithmic };
	for (uint32_t s = 0; s < chart->count; s++)
		for (size_t i = 0; i < chart->series[s].points; i++)
			if (is_drawn(chart, chart->series[s].x[i], chart->series[s].y[i])) {
				widen(x, chart->series[s].x[i]);
				widen(y, chart->series[s].y[i]);
			}
	if (x->low > x->high)
		return false;
	if (is_drawn(chart, 0, chart->limit))
		widen(y, chart->limit);
	if (chart->from_zero && !chart->logarithmic)
		widen(y, 0);
	if (x->high <= x->low)
		widen(x, x->low + 1);
	double room = y->high > y->low ? 0.06 * (y->high - y->low) : fmax(fabs(y->high), 1e-9) * 0.1;
	if (chart->logarithmic) {
		y->high *= 1.15;
		y->low /= 1.15;
	} else {
		y->high += room;
		y->low -= chart->from_zero && y->low >= 0 ? 0 : room;
	}
	if (is_drawn(chart, 0, chart->limit))
		y->high += 1.6 * room; /* for its name */
	choose_unit(x);
	choose_unit(y);
	return true;
}

static void format_tick(const struct axis *axis, double value, char *text, size_t size)
{
	double shown = value / axis->scale;
	if (fabs(shown) < 1e-12)
		shown = 0;
	snprintf(text, size, "%.4g%s", shown, axis->unit == CHART_PERCENT ? axis->suffix : "");
}

/* ---- parts ---------------------------------------------------------------------------------------------------- */

static void draw_tick(FILE *out, const struct axis *y, double value)
{
	char text[40];
	double at = y_of(y, value);
	svg_line(out, "c-grid", LEFT, at, LEFT + PLOT_WIDTH, at);
	format_tick(y, value, text, sizeof text);
	svg_text(out, "c-right", LEFT - 8, at + 4.5, text);
}

static void draw_y(FILE *out, const struct axis *y)
{
	if (y->logarithmic && y->high / y->low > 5) {
		for (double power = pow(10, floor(log10(y->low))); power <= y->high; power *= 10)
			for (int digit = 1; digit <= 5; digit += digit == 1 ? 1 : 3)
				if (power * digit >= y->low && power * digit <= y->high)
					draw_tick(out, y, power * digit);
		return;
	}
	double step = nice_above((y->high - y->low) / y->scale / 6) * y->scale;
	for (double value = ceil(y->low / step) * step; value <= y->high; value += step)
		draw_tick(out, y, value);
}

static void draw_x(FILE *out, const struct chart *chart, const struct axis *x)
{
	char text[80];
	double step = nice_above((x->high - x->low) / x->scale / 6) * x->scale;
	for (double value = ceil(x->low / step) * step; value <= x->high * (1 + 1e-12); value += step) {
		format_tick(x, value, text, sizeof text);
		svg_text(out, "c-middle", x_of(x, value), TOP + PLOT_HEIGHT + 19, text);
	}
	svg_line(out, "c-grid", LEFT, TOP + PLOT_HEIGHT, LEFT + PLOT_WIDTH, TOP + PLOT_HEIGHT);
	snprintf(text, sizeof text, x->unit == CHART_BYTES ? "%s (%s)" : "%s", chart->x_name, x->suffix);
	svg_text(out, "c-middle", LEFT + PLOT_WIDTH / 2, CHART_HEIGHT - 8, text);
}

/* What one drawn point says of a part of a series: its mean, or the largest; false where nothing in it can be drawn. */
static bool part_of(const struct chart *chart, const struct chart_series *series, size_t first, size_t end, double *x,
		    double *y)
{
	size_t count = 0;
	double most = -INFINITY;
	*x = *y = 0;
	for (size_t i = first; i < end; i++)
		if (is_drawn(chart, series->x[i], series->y[i])) {
			*x += series->x[i];
			*y += series->y[i];
			most = fmax(most, series->y[i]);
			count++;
		}
	*x /= (double)count;
	*y = series->most ? most : *y / (double)count;
	return count;
}

static void draw_series(FILE *out, const struct chart *chart, const struct chart_series *series, const struct axis *xs,
			const struct axis *ys)
{
	size_t stride = (series->points + MOST_POINTS - 1) / MOST_POINTS, drawn = 0;
	fprintf(out, "<path class=\"c-line%s s%u\" data-name=\"", series->dashed ? " c-dashed" : "", series->colour);
	svg_escape(out, series->name, SIZE_MAX);
	fputs("\" d=\"", out);
	for (size_t i = 0; i < series->points; i += stride) {
		double x, y;
		size_t end = i + stride < series->points ? i + stride : series->points;
		if (!part_of(chart, series, i, end, &x, &y))
			continue;
		if (drawn && series->steps)
			fprintf(out, "H%.1f", x_of(xs, x));
		fprintf(out, "%c%.1f %.1f", drawn++ ? 'L' : 'M', x_of(xs, x), y_of(ys, y));
	}
	fputs("\"/>\n", out);
	for (size_t i = 0; (series->dots || drawn == 1) && i < series->points; i++)
		if (is_drawn(chart, series->x[i], series->y[i]))
			fprintf(out, "<circle class=\"f%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", series->colour,
				x_of(xs, series->x[i]), y_of(ys, series->y[i]));
}

/* To the right of the title, from the right edge; one series alone is named by the title, and one of the colour before
 * it belongs to that. */
static void draw_legend(FILE *out, const struct chart *chart)
{
	double x = CHART_WIDTH - RIGHT;
	for (uint32_t s = chart->count; chart->count > 1 && s-- > 0;) {
		char name[SVG_SHORT], classes[8];
		if (s && chart->series[s].colour == chart->series[s - 1].colour)
			continue;
		svg_shorten(chart->series[s].name, 20, name);
		x -= CHARACTER * (double)svg_length(name) + 26;
		if (x < 24 + 8.5 * (double)svg_length(chart->title))
			return; /* a page that compares so many has a legend of its own */
		snprintf(classes, sizeof classes, "f%u", chart->series[s].colour);
		svg_rectangle(out, classes, (struct svg_box){ x, 16, 11, 11 }, NULL);
		svg_text(out, "c-name", x + 16, 26, name);
	}
}

static void draw_marks(FILE *out, const struct chart *chart, const struct axis *x, const struct axis *y)
{
	if (is_drawn(chart, 0, chart->limit)) {
		double at = y_of(y, chart->limit);
		svg_line(out, "c-limit", LEFT, at, LEFT + PLOT_WIDTH, at);
		bool right = chart->mark_name && chart->mark_x < (x->low + x->high) / 2;
		svg_text(out, right ? "c-limit-text c-right" : "c-limit-text", right ? LEFT + PLOT_WIDTH - 4 : LEFT + 6,
			 at - 7, chart->limit_name);
	}
	if (!chart->mark_name || chart->mark_x < x->low || chart->mark_x > x->high)
		return;
	double at = x_of(x, chart->mark_x);
	bool left = at > LEFT + PLOT_WIDTH / 2;
	svg_line(out, "c-limit", at, TOP, at, TOP + PLOT_HEIGHT);
	svg_text(out, left ? "c-limit-text c-right" : "c-limit-text", at + (left ? -6 : 6), TOP + 14, chart->mark_name);
	if (is_drawn(chart, chart->mark_x, chart->mark_y) && chart->mark_y >= y->low && chart->mark_y <= y->high)
		fprintf(out, "<circle class=\"c-mark\" cx=\"%.1f\" cy=\"%.1f\" r=\"5.5\"/>\n", at,
			y_of(y, chart->mark_y));
}

/* What a script needs to turn places back into values. */
static void open_svg(FILE *out, const struct chart *chart, const struct axis *x, const struct axis *y)
{
	fprintf(out,
		"<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
		"data-plot=\"%.9g %.9g %.9g %.9g\" data-x=\"%.9g %.9g %.9g\" data-y=\"%.9g %.9g %.9g %d\" "
		"data-unit=\"%s|%s\" aria-label=\"",
		CHART_WIDTH, CHART_HEIGHT, LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT, x->low, x->high, x->scale, y->low,
		y->high, y->scale, y->logarithmic, x->suffix, y->suffix);
	svg_escape(out, chart->title, SIZE_MAX);
	fputs("\">\n", out);
}

static void draw_content(FILE *out, const struct chart *chart, const struct axis *x, const struct axis *y)
{
	char title[160];
	svg_rectangle(out, "c-back", (struct svg_box){ 0, 0, CHART_WIDTH, CHART_HEIGHT }, NULL);
	snprintf(title, sizeof title, y->unit == CHART_BYTES ? "%s (%s)" : "%s", chart->title, y->suffix);
	svg_text(out, "c-title", 14, 27, title);
	draw_legend(out, chart);
	draw_y(out, y);
	draw_x(out, chart, x);
	for (uint32_t s = 0; s < chart->count; s++)
		draw_series(out, chart, &chart->series[s], x, y);
	draw_marks(out, chart, x, y);
}

void chart_draw(FILE *out, const struct chart *chart)
{
	struct axis x, y;
	if (!find_axes(chart, &x, &y)) {
		fputs("<p class=\"nothing\">", out);
		svg_escape(out, chart->title, SIZE_MAX);
		fputs(": nothing was recorded</p>\n", out);
		return;
	}
	open_svg(out, chart, &x, &y);
	draw_content(out, chart, &x, &y);
	fputs("</svg>\n", out);
}

void chart_file(FILE *out, const struct chart *chart)
{
	struct axis x = { 0, 1, .suffix = "", .scale = 1 }, y = x;
	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", out);
	bool drawn = find_axes(chart, &x, &y);
	open_svg(out, chart, &x, &y);
	fprintf(out, "<style>\n%s</style>\n", chart_style);
	if (drawn)
		draw_content(out, chart, &x, &y);
	fputs("</svg>\n", out);
}
