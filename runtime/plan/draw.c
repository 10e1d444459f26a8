/*
 * draw.c - a program's arena over time as SVG.
 *
 * Buffers that are large enough on paper become rectangles with a border, a hover text and, where it fits, a name.
 * The many small ones of a large program are merged into one path a kind, a dot at most once, so that a drawing of
 * 20,000 buffers stays small and honest.
 */
#include "plan/draw.h"

#include "base/atomic_file.h"
#include "plan/buffers.h"
#include "plan/draw_curve.h"
#include "plan/svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WIDTH 1280.0
#define HEIGHT 800.0
#define LEFT 92.0
#define RIGHT 28.0
#define TOP 128.0
#define BOTTOM 74.0
#define PLOT_WIDTH (WIDTH - LEFT - RIGHT)
#define PLOT_HEIGHT (HEIGHT - TOP - BOTTOM)
/* A rectangle of fewer pixels than this on a side goes into the merged path. */
#define SMALL 2.5
/* Widths of an average character, in pixels; generous, so that estimated texts never overlap. */
#define LABEL_CHARACTER 5.9
#define TEXT_CHARACTER 7.4
#define TAG_CHARACTER 7.9
/* Longer names get an ellipsis. A tag of so many characters leaves room for the budget's text beside it. */
#define TAG_CHARACTERS 48
#define TITLE_CHARACTERS 56
#define HOVER_CHARACTERS 100

struct drawing {
	const struct plan *plan;
	const struct program *program;
	const struct plan_curve *curve; /* NULL: none is drawn */
	struct plan_buffers buffers;
	FILE *out;
	double bytes_per_pixel, steps_per_pixel;
	double unit; /* bytes */
	const char *unit_name;
	uint8_t *painted; /* [pixels of the plot]: bit per kind */
};

static const struct {
	const char *class, *label;
} kinds[BUFFER_KINDS] = {
	[BUFFER_PERSISTENT] = { "persistent", "persistent" }, [BUFFER_ACTIVATION] = { "activation", "activation" },
	[BUFFER_GRADIENT] = { "gradient", "gradient" },       [BUFFER_RECOMPUTED] = { "recomputed", "recomputed" },
	[BUFFER_FETCHED] = { "fetched", "fetched" },          [BUFFER_WORKSPACE] = { "workspace", "workspace" },
};

static const char style[] =
	"<style>\n"
	"text{font-family:Inter,'Helvetica Neue',Helvetica,Arial,'DejaVu Sans',sans-serif;fill:#334155}\n"
	".paper{fill:#ffffff}.plot{fill:#f8fafc}.frame{fill:none;stroke:#94a3b8;stroke-width:1}\n"
	".title{font-size:22px;font-weight:600;fill:#0f172a}.subtitle{font-size:13px;fill:#475569}\n"
	".axis{font-size:13px;fill:#475569}.tick{font-size:12px;fill:#64748b}.right{text-anchor:end}"
	".middle{text-anchor:middle}\n"
	".grid{stroke:#e2e8f0;stroke-width:1}.legend{font-size:13px}\n"
	".persistent{fill:#94a3b8}.activation{fill:#60a5fa}.gradient{fill:#fb923c}.recomputed{fill:#2dbd8c}.fetched{"
	"fill:#c084fc}"
	".workspace{fill:#c084fc}\n"
	".b{stroke:#ffffff;stroke-width:.7}.b:hover{stroke:#0f172a;stroke-width:1.5}\n"
	".name{font-size:10px;fill:#0f172a;pointer-events:none;paint-order:stroke;stroke:#ffffff;stroke-width:3;"
	"stroke-opacity:.8;stroke-linejoin:round}\n"
	".arena{stroke:#0f172a;stroke-width:.8}\n"
	".halo{fill:none;stroke:#ffffff;stroke-width:4;stroke-opacity:.75;stroke-linejoin:round;pointer-events:none}\n"
	".live{fill:none;stroke:#0f172a;stroke-width:1.6;stroke-linejoin:round;pointer-events:none}\n"
	".budget{stroke:#dc2626;stroke-width:1.6;stroke-dasharray:8 5}.budget-text{font-size:13px;font-weight:600;"
	"fill:#b91c1c}\n"
	".peak{fill:#0f172a;stroke:#ffffff;stroke-width:2}.peak-line{stroke:#0f172a;stroke-width:1;stroke-dasharray:2 "
	"3}\n"
	".tag{fill:#0f172a;fill-opacity:.92}.tag-text{font-size:13px;font-weight:600;fill:#ffffff}\n"
	".curve{fill:none;stroke:#2563eb;stroke-width:2;stroke-linejoin:round}.dot{fill:#2563eb}\n"
	".phase-0{fill:#bfdbfe}.phase-1{fill:#fed7aa}.phase-2{fill:#bbf7d0}.phase-name{font-size:11px;fill:#475569}\n"
	"</style>\n";

/* ---- scales --------------------------------------------------------------------------------------------------- */

static double x_of(const struct drawing *d, double step)
{
	return LEFT + step / d->steps_per_pixel;
}

static double y_of(const struct drawing *d, double bytes)
{
	return TOP + PLOT_HEIGHT - bytes / d->bytes_per_pixel;
}

/* The largest of 1, 2, 5 times a power of ten that is at most `value`; for axis steps. */
static double nice_below(double value)
{
	double power = pow(10.0, floor(log10(value)));
	double digit = value / power;
	return (digit >= 5 ? 5 : digit >= 2 ? 2 : 1) * power;
}

static bool budget_fits(const struct drawing *d)
{
	return (double)d->plan->budget_bytes <= 1.5 * (double)d->plan->arena_bytes;
}

/* Another program or the packing of this one may need more than this program's peak. */
static bool arena_differs(const struct drawing *d)
{
	return d->plan->arena_bytes != d->buffers.peak_bytes;
}

static void choose_scales(struct drawing *d)
{
	static const char *const names[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
	double top = (double)d->plan->arena_bytes;
	if (budget_fits(d) && (double)d->plan->budget_bytes > top)
		top = (double)d->plan->budget_bytes;
	if (top < 1)
		top = 1;
	/* Head room for the labels of peak and budget. */
	d->bytes_per_pixel = top * 1.09 / PLOT_HEIGHT;
	d->steps_per_pixel = (d->program->instructions ? d->program->instructions : 1) / PLOT_WIDTH;
	size_t i = 0;
	for (d->unit = 1; i + 1 < sizeof names / sizeof *names && top >= 1024 * d->unit; i++)
		d->unit *= 1024;
	d->unit_name = names[i];
}

/* ---- frame and axes ------------------------------------------------------------------------------------------- */

/* The value of "name=" in the config lines, as long as a title may be. */
static void run_name(const struct plan *plan, char name[SVG_SHORT])
{
	char whole[SVG_SHORT];
	const char *line = plan->config_lines;
	while (line && strncmp(line, "name=", 5)) {
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	snprintf(whole, sizeof whole, "%.*s", line ? (int)strcspn(line + 5, "\n") : 4, line ? line + 5 : "plan");
	svg_shorten(whole, TITLE_CHARACTERS, name);
}

static const char *program_words(uint32_t kind)
{
	static const char *const words[] = { "training step", "training step of the last batch", "evaluation",
					     "evaluation of the last batch" };
	return kind < sizeof words / sizeof *words ? words[kind] : program_name(kind);
}

static void draw_heading(const struct drawing *d)
{
	const struct program *program = d->program;
	char name[SVG_SHORT], title[SVG_SHORT + 100], subtitle[320], peak[BYTES_TEXT], arena[BYTES_TEXT],
		budget[BYTES_TEXT] = "unlimited";
	run_name(d->plan, name);
	snprintf(title, sizeof title, "%s: %s, batch %u", name, program_words(program->kind), program->batch);
	if (d->plan->budget_bytes != UINT64_MAX)
		bytes_format(d->plan->budget_bytes, budget, sizeof budget);
	snprintf(subtitle, sizeof subtitle,
		 "driver %s, %u threads  \u00b7  peak %s of this program, arena %s  \u00b7  budget %s  \u00b7  %u "
		 "instructions, %u of them recomputed",
		 d->plan->driver, d->plan->threads, bytes_format(d->buffers.peak_bytes, peak, sizeof peak),
		 bytes_format(d->plan->arena_bytes, arena, sizeof arena), budget, program->instructions,
		 d->buffers.recomputed);
	svg_text(d->out, "title", LEFT, 42, title);
	svg_text(d->out, "subtitle", LEFT, 66, subtitle);
}

static double legend_entry(const struct drawing *d, double x, const char *classes, const char *label, double height)
{
	double y = 92;
	svg_rectangle(d->out, classes, (struct svg_box){ x, y + 6 - height / 2, 18, height }, NULL);
	svg_text(d->out, "legend", x + 25, y + 10.5, label);
	return x + 25 + TEXT_CHARACTER * (double)strlen(label) + 22;
}

static void draw_legend(const struct drawing *d)
{
	bool used[BUFFER_KINDS] = { false };
	for (uint32_t b = 0; b < d->buffers.count; b++)
		used[d->buffers.buffer[b].kind] = true;
	double x = LEFT;
	for (uint32_t k = 0; k < BUFFER_KINDS; k++)
		if (used[k])
			x = legend_entry(d, x, kinds[k].class, kinds[k].label, 13);
	svg_line(d->out, "live", x, 98, x + 18, 98);
	svg_text(d->out, "legend", x + 25, 102.5, "live bytes");
	x += 25 + TEXT_CHARACTER * 10 + 22;
	if (arena_differs(d)) {
		svg_line(d->out, "arena", x, 98, x + 18, 98);
		svg_text(d->out, "legend", x + 25, 102.5, "arena");
		x += 25 + TEXT_CHARACTER * 5 + 22;
	}
	if (d->plan->budget_bytes == UINT64_MAX)
		return;
	svg_line(d->out, "budget", x, 98, x + 22, 98);
	svg_text(d->out, "legend", x + 29, 102.5, "budget");
}

static void draw_axes(const struct drawing *d)
{
	double range = d->bytes_per_pixel * PLOT_HEIGHT / d->unit, step = nice_below(range / 5);
	char text[32];
	for (uint32_t i = 0; i * step <= range; i++) {
		double y = y_of(d, i * step * d->unit);
		svg_line(d->out, "grid", LEFT, y, LEFT + PLOT_WIDTH, y);
		snprintf(text, sizeof text, "%g", i * step);
		svg_text(d->out, "tick right", LEFT - 9, y + 4, text);
	}
	double steps = d->program->instructions;
	step = steps > 10 ? nice_below(steps / 8) : 1;
	for (uint32_t i = 0; i * step <= steps; i++) {
		double x = x_of(d, i * step);
		svg_line(d->out, "grid", x, TOP, x, TOP + PLOT_HEIGHT);
		snprintf(text, sizeof text, "%g", i * step);
		svg_text(d->out, "tick middle", x, TOP + PLOT_HEIGHT + 32, text);
	}
	svg_text(d->out, "axis middle", LEFT + PLOT_WIDTH / 2, HEIGHT - 18, "instruction");
	fprintf(d->out,
		"<text class=\"axis middle\" transform=\"translate(28 %.1f) rotate(-90)\">address in the arena "
		"(%s)</text>\n",
		TOP + PLOT_HEIGHT / 2, d->unit_name);
}

static const char *const phases[] = { "forward", "backward", "update" };

/* Says what the colours of the strip mean, at the lower right. */
static void draw_phase_legend(const struct drawing *d)
{
	double x = LEFT + PLOT_WIDTH - 236;
	for (uint32_t phase = 0; phase < 3; phase++) {
		char classes[16];
		snprintf(classes, sizeof classes, "phase-%u", phase);
		svg_rectangle(d->out, classes, (struct svg_box){ x, HEIGHT - 28, 16, 11 }, NULL);
		svg_text(d->out, "tick", x + 21, HEIGHT - 18, phases[phase]);
		x += 38 + TEXT_CHARACTER * (double)strlen(phases[phase]);
	}
}

/* A copy belongs to the phase around it. */
static uint32_t phase_of(const struct program *program, uint32_t i, uint32_t before)
{
	const struct instruction *instruction = &program->instruction[i];
	return instruction->kind == INSTRUCTION_RUN ? program->graph.op[instruction->op].phase : before;
}

/* A strip under the plot: which phase each instruction belongs to; equal neighbours are one box. */
static void draw_phases(const struct drawing *d)
{
	const struct program *program = d->program;
	double y = TOP + PLOT_HEIGHT + 4;
	for (uint32_t i = 0, end, phase = PHASE_FORWARD; i < program->instructions; i = end) {
		phase = phase_of(program, i, phase);
		for (end = i + 1; end < program->instructions; end++)
			if (phase_of(program, end, phase) != phase)
				break;
		double x = x_of(d, i), width = x_of(d, end) - x;
		char classes[16];
		snprintf(classes, sizeof classes, "phase-%u", phase);
		svg_rectangle(d->out, classes, (struct svg_box){ x, y, width, 13 }, phases[phase]);
		if (width > TEXT_CHARACTER * (double)strlen(phases[phase]))
			svg_text(d->out, "phase-name middle", x + width / 2, y + 10, phases[phase]);
	}
	draw_phase_legend(d);
}

/* ---- buffers ---------------------------------------------------------------------------------------------------- */

static struct svg_box box_of(const struct drawing *d, const struct plan_buffer *buffer)
{
	double x = x_of(d, buffer->first), y = y_of(d, (double)(buffer->offset + buffer->bytes));
	return (struct svg_box){ x, y, x_of(d, buffer->end) - x, y_of(d, (double)buffer->offset) - y };
}

static const char *buffer_name(const struct drawing *d, const struct plan_buffer *buffer)
{
	if (buffer->kind == BUFFER_PERSISTENT)
		return tensor_name(&d->plan->program[0].graph, buffer->tensor);
	return buffer->tensor == TENSOR_NONE ? op_name(&d->program->graph, buffer->op)
					     : tensor_name(&d->program->graph, buffer->tensor);
}

static bool fits_inside(struct svg_box box, const char *label)
{
	return *label && box.height >= 12 && box.width >= LABEL_CHARACTER * (double)svg_length(label) + 8;
}

static void draw_large(const struct drawing *d, const struct plan_buffer *buffer, struct svg_box box)
{
	char hover[2 * SVG_SHORT + 200], classes[32], bytes[BYTES_TEXT], offset[BYTES_TEXT];
	char short_name[SVG_SHORT], short_layer[SVG_SHORT];
	const char *layer = buffer->op == OP_NONE ? "kept for the whole run" : op_name(&d->program->graph, buffer->op);
	const char *op = buffer->op == OP_NONE ? "" : op_row(d->program->graph.op[buffer->op].kind)->name;
	snprintf(hover, sizeof hover, "%s (%s); %s%s%s; %s at %s; instructions %u to %u",
		 svg_shorten(buffer_name(d, buffer), HOVER_CHARACTERS, short_name), kinds[buffer->kind].label,
		 svg_shorten(layer, HOVER_CHARACTERS, short_layer), *op ? ", " : "", op,
		 bytes_format(buffer->bytes, bytes, sizeof bytes), bytes_format(buffer->offset, offset, sizeof offset),
		 buffer->first, buffer->end - 1);
	snprintf(classes, sizeof classes, "b %s", kinds[buffer->kind].class);
	svg_rectangle(d->out, classes, box, hover);
}

static void draw_name(const struct drawing *d, const struct plan_buffer *buffer, struct svg_box box)
{
	const char *name = buffer_name(d, buffer);
	/* The whole name where it fits, else its last part; the hover text has all of it. */
	const char *slash = strrchr(name, '/'), *label = fits_inside(box, name) ? name : slash ? slash + 1 : name;
	if (fits_inside(box, label))
		svg_text(d->out, "name", box.x + 4, box.y + box.height / 2 + 3.5, label);
}

static uint8_t *pixel(const struct drawing *d, double x, double y)
{
	int column = (int)(x - LEFT), row = (int)(y - TOP);
	column = column < 0 ? 0 : column >= (int)PLOT_WIDTH ? (int)PLOT_WIDTH - 1 : column;
	row = row < 0 ? 0 : row >= (int)PLOT_HEIGHT ? (int)PLOT_HEIGHT - 1 : row;
	return &d->painted[(size_t)row * (size_t)PLOT_WIDTH + (size_t)column];
}

/* True when the box is no larger than a dot and that dot has its colour already; else marks the dot. */
static bool already_painted(const struct drawing *d, const struct plan_buffer *buffer, struct svg_box box)
{
	if (box.width >= 1 || box.height >= 1)
		return false;
	uint8_t *dot = pixel(d, box.x, box.y), bit = (uint8_t)(1u << buffer->kind);
	bool done = *dot & bit;
	*dot |= bit;
	return done;
}

static bool is_small(struct svg_box box)
{
	return box.width < SMALL || box.height < SMALL;
}

/* All small buffers of one kind as one path. */
static void draw_small(const struct drawing *d, uint32_t kind)
{
	bool open = false;
	for (uint32_t b = 0; b < d->buffers.count; b++) {
		const struct plan_buffer *buffer = &d->buffers.buffer[b];
		struct svg_box box = box_of(d, buffer);
		if (buffer->kind != kind || buffer->first >= buffer->end || !is_small(box) ||
		    already_painted(d, buffer, box))
			continue;
		if (!open)
			fprintf(d->out, "<path class=\"%s\" d=\"", kinds[kind].class);
		open = true;
		/* Never thinner than can be seen. */
		fprintf(d->out, "M%.1f %.1fh%.1fv%.1fh%.1fz", box.x, box.y, fmax(box.width, 0.5), fmax(box.height, 0.5),
			-fmax(box.width, 0.5));
	}
	if (open)
		fputs("\"/>\n", d->out);
}

static void draw_each_large(const struct drawing *d,
			    void (*part)(const struct drawing *, const struct plan_buffer *, struct svg_box))
{
	for (uint32_t b = 0; b < d->buffers.count; b++) {
		const struct plan_buffer *buffer = &d->buffers.buffer[b];
		struct svg_box box = box_of(d, buffer);
		if (buffer->first < buffer->end && !is_small(box))
			part(d, buffer, box);
	}
}

static void draw_buffers(const struct drawing *d)
{
	draw_each_large(d, draw_large);
	for (uint32_t kind = 0; kind < BUFFER_KINDS; kind++)
		draw_small(d, kind);
}

/* ---- live bytes, peak, budget --------------------------------------------------------------------------------------
 */

/* The largest live bytes of the instructions that share a pixel column, so that the line shows every peak. */
static void draw_live_as(const struct drawing *d, const char *class)
{
	uint32_t steps = d->program->instructions, stride = (uint32_t)fmax(1.0, ceil(d->steps_per_pixel));
	fprintf(d->out, "<path class=\"%s\" d=\"", class);
	for (uint32_t i = 0; i < steps; i += stride) {
		uint32_t end = i + stride < steps ? i + stride : steps;
		uint64_t most = 0;
		for (uint32_t k = i; k < end; k++)
			most = d->buffers.live_bytes[k] > most ? d->buffers.live_bytes[k] : most;
		double y = y_of(d, (double)most);
		fprintf(d->out, "%c%.2f %.2fH%.2f", i ? 'L' : 'M', x_of(d, i), y, x_of(d, end));
	}
	fputs("\"/>\n", d->out);
}

static double budget_y(const struct drawing *d)
{
	return budget_fits(d) ? y_of(d, (double)d->plan->budget_bytes) : TOP;
}

/* How high the arena is for all programs, where that is not this one's peak. */
static void draw_arena(const struct drawing *d)
{
	double y = y_of(d, (double)d->plan->arena_bytes);
	if (arena_differs(d))
		svg_line(d->out, "arena", LEFT, y, LEFT + PLOT_WIDTH, y);
}

static double peak_x(const struct drawing *d)
{
	return x_of(d, d->buffers.peak_instruction + 0.5);
}

/* The peak's tag goes to the right of an early peak, to the left of a late one; the budget's text to the other end. */
static bool peak_is_early(const struct drawing *d)
{
	return peak_x(d) - LEFT <= 0.4 * PLOT_WIDTH;
}

static void draw_budget(const struct drawing *d)
{
	char text[64], bytes[BYTES_TEXT];
	if (d->plan->budget_bytes == UINT64_MAX)
		return;
	double y = budget_y(d);
	bool fits = budget_fits(d), right = peak_is_early(d);
	bytes_format(d->plan->budget_bytes, bytes, sizeof bytes);
	if (fits)
		svg_line(d->out, "budget", LEFT, y, LEFT + PLOT_WIDTH, y);
	snprintf(text, sizeof text, fits ? "budget %s" : "\u2191 budget %s", bytes);
	svg_text(d->out, right ? "budget-text right" : "budget-text", right ? LEFT + PLOT_WIDTH - 8 : LEFT + 8,
		 fits ? y - 7 : y + 18, text);
}

/* Upper edge of the peak's tag: above the point, and above the budget's line where that would cross the tag. */
static double tag_top(const struct drawing *d, double y)
{
	double top = y - 32, line = budget_y(d);
	if (budget_fits(d) && line > top - 3 && line < top + 26)
		top = line - 28;
	return fmax(top, TOP + 3);
}

static void draw_peak(const struct drawing *d)
{
	if (!d->program->instructions)
		return;
	uint32_t step = d->buffers.peak_instruction;
	double x = peak_x(d), y = y_of(d, (double)d->buffers.peak_bytes), top = tag_top(d, y);
	char text[SVG_SHORT + 80], bytes[BYTES_TEXT], name[SVG_SHORT];
	const struct instruction *peak = &d->program->instruction[step];
	snprintf(text, sizeof text, "peak %s at instruction %u, %s",
		 bytes_format(d->buffers.peak_bytes, bytes, sizeof bytes), step,
		 svg_shorten(peak->kind == INSTRUCTION_RUN ? op_name(&d->program->graph, peak->op)
							   : tensor_name(&d->program->graph, peak->tensor),
			     TAG_CHARACTERS, name));
	double width = TAG_CHARACTER * (double)svg_length(text) + 18;
	/* 190 pixels at the other end belong to the budget's text; a long tag stands above its point instead. */
	double left =
		peak_is_early(d) ? fmin(x + 12, LEFT + PLOT_WIDTH - 190 - width) : fmax(x - width - 12, LEFT + 190);
	svg_line(d->out, "peak-line", LEFT, y, LEFT + PLOT_WIDTH, y);
	fprintf(d->out, "<circle class=\"peak\" cx=\"%.2f\" cy=\"%.2f\" r=\"5\"/>\n", x, y);
	fprintf(d->out, "<rect class=\"tag\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"23\" rx=\"4\"/>\n", left,
		top, width);
	svg_text(d->out, "tag-text middle", left + width / 2, top + 16, text);
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

static void draw_all(const struct drawing *d)
{
	double height = HEIGHT + (d->curve ? DRAW_CURVE_HEIGHT : 0);
	fprintf(d->out,
		"<svg class=\"arena-map\" xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
		"viewBox=\"0 0 %.0f %.0f\">\n%s",
		WIDTH, height, WIDTH, height, style);
	svg_rectangle(d->out, "paper", (struct svg_box){ 0, 0, WIDTH, height }, NULL);
	svg_rectangle(d->out, "plot", (struct svg_box){ LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT }, NULL);
	draw_heading(d);
	draw_legend(d);
	draw_axes(d);
	draw_phases(d);
	draw_buffers(d);
	svg_rectangle(d->out, "frame", (struct svg_box){ LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT }, NULL);
	draw_live_as(d, "halo");
	draw_live_as(d, "live");
	/* Above the line, so that it runs behind them. */
	draw_each_large(d, draw_name);
	draw_arena(d);
	draw_budget(d);
	draw_peak(d);
	if (d->curve)
		draw_curve(d->out, d->curve, d->plan->budget_bytes, d->program->time_ns,
			   (struct svg_box){ LEFT, HEIGHT, PLOT_WIDTH, DRAW_CURVE_HEIGHT });
	fputs("</svg>\n", d->out);
}

static enum tarn_status write_drawing(struct drawing *d, const char *path)
{
	struct atomic_file file;
	enum tarn_status st = atomic_file_open_stream(&file, path, &d->out);
	if (st)
		return st;
	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", d->out);
	draw_all(d);
	return atomic_file_close_stream(&file, d->out, TARN_OK);
}

/* To `path`, or to the stream that is set. */
static enum tarn_status draw(struct drawing *d, enum program_kind kind, struct host_arena *scratch, const char *path)
{
	d->program = plan_program(d->plan, kind);
	if (!d->program)
		return tarn_fail(TARN_EINVAL, "the plan has no program %s to draw", program_name(kind));
	struct host_mark mark = host_arena_mark(scratch);
	enum tarn_status st = plan_buffers_find(d->plan, d->program, scratch, &d->buffers);
	if (st)
		goto out;
	st = TARN_ENOMEM;
	d->painted = HOST_ARRAY(scratch, (size_t)PLOT_WIDTH * (size_t)PLOT_HEIGHT, uint8_t);
	if (!d->painted)
		goto out;
	choose_scales(d);
	st = TARN_OK;
	if (path)
		st = write_drawing(d, path);
	else
		draw_all(d);
out:
	host_arena_release(scratch, mark);
	return st;
}

enum tarn_status plan_draw_svg(const struct plan *plan, enum program_kind kind, const struct plan_curve *curve,
			       struct host_arena *scratch, const char *path)
{
	struct drawing d = { .plan = plan, .curve = curve && curve->points ? curve : NULL };
	return draw(&d, kind, scratch, path);
}

enum tarn_status plan_draw_inline(const struct plan *plan, enum program_kind kind, struct host_arena *scratch,
				  FILE *out)
{
	struct drawing d = { .plan = plan, .out = out };
	return draw(&d, kind, scratch, NULL);
}
