/*
 * html.h - a plan as parts of a page: bytes by section at the peak, the arena over time, live bytes against the budget,
 * the time over the budget.
 *
 * Only elements for the body, without head, style or script: whoever makes the page brings chart_style (chart.h) and
 * styles the classes used here (card, bar, legend, scroll, table). Names are escaped.
 */
#ifndef TARN_PLAN_HTML_H
#define TARN_PLAN_HTML_H

#include "plan/explain.h"

#include <stdio.h>

/* `curve`: NULL, or without points, for none. `scratch` is given back. */
enum tarn_status plan_html(const struct plan *plan, const struct plan_curve *curve, struct host_arena *scratch,
			   FILE *out);

#endif
