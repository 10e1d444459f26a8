/*
 * draw.h - a program's arena over time as SVG: steps to the right, addresses upwards, one rectangle a buffer.
 *
 * Derived from the instructions alone (a buffer lives from its write to its last read). Colours by kind: persistent,
 * activation, gradient, workspace, recomputed instance; the budget and the peak are marked, axes have units, a
 * legend says what the colours mean, names stand in <title> elements. Below it, where a curve is given, the time of a
 * training step over the budget.
 */
#ifndef TARN_PLAN_DRAW_H
#define TARN_PLAN_DRAW_H

#include "plan/explain.h"

#include <stdio.h>

/*
 * TARN_EIO; replaces `path` atomically (base/atomic_file.h). `curve`: NULL, or without points, for none. `scratch` is
 * given back.
 */
enum tarn_status plan_draw_svg(const struct plan *plan, enum program_kind kind, const struct plan_curve *curve,
			       struct host_arena *scratch, const char *path);

/* The arena alone, as an <svg class="arena-map"> element for a page that styles it. The same conditions. */
enum tarn_status plan_draw_inline(const struct plan *plan, enum program_kind kind, struct host_arena *scratch,
				  FILE *out);

/* A readable listing of a plan: header, persistent tensors, one line an instruction. */
void plan_print(const struct plan *plan, FILE *out);

#endif
