/* draw_curve.c - see draw_curve.h. */
#include "plan/draw_curve.h"

#include "base/bytes.h"

#include <math.h>

#define HEADING 46.0
#define FOOTING 70.0

struct panel {
	FILE *out;
	struct svg_box plot;
	double low, high; /* bytes at the left and right edge */
	double top;       /* extra time at the upper edge, in per cent */
	uint64_t base_ns;
};

static double x_of(const struct panel *p, double bytes)
{
	return p->plot.x + (bytes - p->low) / (p->high - p->low) * p->plot.width;
}

static double y_of(const struct panel *p, uint64_t time)
{
	double extra = 100 * ((double)time / (double)p->base_ns - 1);
	return p->plot.y + p->plot.height * (1 - extra / p->top);
}

/* The least of 1, 2, 5 times a power of ten that is not below `value`. */
static double nice_above(double value)
{
	double power = pow(10, floor(log10(value))), digit = value / power;
	return (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10) * power;
}

static struct panel place_panel(FILE *out, const struct plan_curve *curve, uint64_t budget, uint64_t time,
				struct svg_box box)
{
	const struct plan_point *first = &curve->point[0], *last = &curve->point[curve->points - 1];
	struct panel p = { .out = out,
			   .plot = { box.x, box.y + HEADING, box.width, box.height - HEADING - FOOTING },
			   .low = (double)first->budget_bytes,
			   .high = (double)last->budget_bytes,
			   .base_ns = curve->base_ns ? curve->base_ns : 1 };
	uint64_t most = first->time_ns > time ? first->time_ns : time;
	if (budget < first->budget_bytes)
		p.low = (double)budget;
	p.high = p.high > p.low ? p.high : p.low + 1;
	p.top = nice_above(fmax(100 * ((double)most / (double)p.base_ns - 1), 0.1));
	return p;
}

static void draw_scales(const struct panel *p)
{
	char text[64];
	for (uint32_t i = 0; i <= 4; i++) {
		double y = p->plot.y + p->plot.height * (1 - i / 4.0);
		svg_line(p->out, "grid", p->plot.x, y, p->plot.x + p->plot.width, y);
		snprintf(text, sizeof text, "%g %%", p->top * i / 4);
		svg_text(p->out, "tick right", p->plot.x - 9, y + 4, text);
	}
	for (uint32_t i = 0; i <= 6; i++) {
		double bytes = p->low + (p->high - p->low) * i / 6, x = x_of(p, bytes);
		svg_line(p->out, "grid", x, p->plot.y, x, p->plot.y + p->plot.height);
		bytes_format((uint64_t)bytes, text, sizeof text);
		svg_text(p->out, i == 6 ? "tick right" : "tick middle", x, p->plot.y + p->plot.height + 20, text);
	}
	svg_text(p->out, "axis middle", p->plot.x + p->plot.width / 2, p->plot.y + p->plot.height + 44, "budget");
}

/* A budget is met by the plan of the next smaller one: steps, not slopes. */
static void draw_points(const struct panel *p, const struct plan_curve *curve)
{
	char hover[200], budget[BYTES_TEXT];
	fputs("<path class=\"curve\" d=\"", p->out);
	for (uint32_t i = 0; i < curve->points; i++) {
		double x = x_of(p, (double)curve->point[i].budget_bytes), y = y_of(p, curve->point[i].time_ns);
		fprintf(p->out, i ? "H%.2fV%.2f" : "M%.2f %.2f", x, y);
	}
	fputs("\"/>\n", p->out);
	for (uint32_t i = 0; i < curve->points; i++) {
		const struct plan_point *point = &curve->point[i];
		double x = x_of(p, (double)point->budget_bytes), y = y_of(p, point->time_ns);
		snprintf(hover, sizeof hover, "budget %s: %.3f ms a step, %u extra ops",
			 bytes_format(point->budget_bytes, budget, sizeof budget), (double)point->time_ns * 1e-6,
			 point->recomputed_ops);
		svg_rectangle(p->out, "dot", (struct svg_box){ x - 3.5, y - 3.5, 7, 7 }, hover);
	}
}

static void draw_own(const struct panel *p, uint64_t budget, uint64_t time)
{
	if ((double)budget < p->low || (double)budget > p->high)
		return;
	double x = x_of(p, (double)budget);
	svg_line(p->out, "budget", x, p->plot.y, x, p->plot.y + p->plot.height);
	fprintf(p->out, "<circle class=\"peak\" cx=\"%.2f\" cy=\"%.2f\" r=\"5\"/>\n", x, y_of(p, time));
}

void draw_curve(FILE *out, const struct plan_curve *curve, uint64_t budget_bytes, uint64_t time_ns, struct svg_box box)
{
	struct panel p = place_panel(out, curve, budget_bytes, time_ns, box);
	svg_text(out, "subtitle", box.x, box.y + 28,
		 "extra time of a training step with other budgets (dashed: this plan's)");
	svg_rectangle(out, "plot", p.plot, NULL);
	draw_scales(&p);
	svg_rectangle(out, "frame", p.plot, NULL);
	draw_points(&p, curve);
	draw_own(&p, budget_bytes, time_ns);
}
