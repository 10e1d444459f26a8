/*
 * draw_curve.h - the time of a training step over the budget, as a panel of the drawing. Private to plan/.
 */
#ifndef TARN_PLAN_DRAW_CURVE_H
#define TARN_PLAN_DRAW_CURVE_H

#include "plan/explain.h"
#include "plan/svg.h"

#define DRAW_CURVE_HEIGHT 340.0

/* `box`: where the panel goes, heading and labels included, but for the labels at its left. The plan's own place is
 * marked. */
void draw_curve(FILE *out, const struct plan_curve *curve, uint64_t budget_bytes, uint64_t time_ns, struct svg_box box);

#endif
