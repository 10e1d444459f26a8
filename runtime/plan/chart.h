/*
 * chart.h - line charts as SVG elements that stand in a page or alone: axes, grid, series, a limit, a marked point.
 *
 * Colours are CSS variables of chart_style, with a light and a dark set, so that whoever shows the chart writes the
 * style once. Values that are not finite are left out and break no line. A series with more points than can be seen is
 * drawn as the means of equal parts of it. Text is escaped (svg.h).
 */
#ifndef TARN_PLAN_CHART_H
#define TARN_PLAN_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CHART_SERIES 16u
#define CHART_COLOURS 8u
#define CHART_WIDTH 560.0
#define CHART_HEIGHT 320.0

/* How the numbers of an axis are written. Bytes get one binary unit an axis. */
enum chart_unit { CHART_PLAIN, CHART_BYTES, CHART_PERCENT };

struct chart_series {
	const char *name;
	const double *x, *y; /* x does not fall */
	size_t points;
	uint32_t colour; /* below CHART_COLOURS */
	bool steps;      /* a value holds until the next point */
	bool dots;       /* points are marked */
	bool dashed;
	bool most; /* of more points than can be seen the largest of each part is drawn, not the mean */
};

struct chart {
	const char *title, *x_name;
	enum chart_unit x_unit, y_unit;
	struct chart_series series[CHART_SERIES];
	uint32_t count;
	bool logarithmic; /* y; values that are not positive are left out */
	bool from_zero;   /* the y axis begins at 0 */
	const char *limit_name;
	double limit;          /* a dashed horizontal line; NAN: none */
	const char *mark_name; /* a dashed vertical line there, NULL: none */
	double mark_x, mark_y; /* a dot where mark_y is finite */
};

/* The style sheet that charts need, without the <style> element. */
extern const char chart_style[];

/* One <svg> element. Nothing to draw: a sentence that says so. */
void chart_draw(FILE *out, const struct chart *chart);

/* The chart as an SVG file of its own. */
void chart_file(FILE *out, const struct chart *chart);

#endif
