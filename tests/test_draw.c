/*
 * test_draw.c - drawings and listings: well-formed whatever the names, complete, small, readable.
 *
 * The oracle for XML is a checker of well-formedness written for this file (elements nest, attributes are quoted,
 * text holds no markup and no forbidden character); the one for readability estimates the box of each text.
 */
#include "support/testing.h"

#include "plan/buffers.h"
#include "plan/draw.h"
#include "plan/svg.h"
#include "support/sample_plan.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct host_arena arena;
static struct plan plan;

static void setup(void)
{
	host_arena_init(&arena);
	ck_assert_ok(sample_plan(&arena, &plan));
}

static void teardown(void)
{
	host_arena_fini(&arena);
}

static const char *svg_path(void)
{
	static char path[512];
	snprintf(path, sizeof path, "%s/plan.svg", testing_directory());
	return path;
}

static char *read_text(const char *path)
{
	FILE *file = fopen(path, "rb");
	ck_assert_ptr_nonnull(file);
	char *text = host_arena_alloc(&arena, 8 << 20, 1);
	size_t bytes = fread(text, 1, (8 << 20) - 1, file);
	fclose(file);
	ck_assert_uint_eq(strlen(text), bytes);
	return text;
}

static char *draw(enum program_kind kind)
{
	ck_assert_ok(plan_draw_svg(&plan, kind, NULL, &arena, svg_path()));
	return read_text(svg_path());
}

static uint32_t count_text(const char *text, const char *what)
{
	uint32_t count = 0;
	for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
		count++;
	return count;
}

/* ---- well-formed XML -------------------------------------------------------------------------------------------- */

/* After '&': one of the five entities; returns the character behind it, NULL otherwise. */
static const char *skip_entity(const char *at)
{
	static const char *const entities[] = { "&amp;", "&lt;", "&gt;", "&quot;", "&apos;" };
	for (size_t i = 0; i < sizeof entities / sizeof *entities; i++)
		if (!strncmp(at, entities[i], strlen(entities[i])))
			return at + strlen(entities[i]);
	return NULL;
}

/* Attributes of a tag from behind its name; returns '>' or '/' before it. */
static const char *skip_attributes(const char *at)
{
	for (;;) {
		at += strspn(at, " \n");
		if (*at == '>' || !strncmp(at, "/>", 2))
			return at;
		size_t name = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");
		if (!name || strncmp(at + name, "=\"", 2))
			return NULL;
		at = strpbrk(at + name + 2, "\"<");
		if (!at || *at != '"')
			return NULL;
		at++;
	}
}

/* NULL when the document is well-formed, else where it is not. */
static const char *find_fault(const char *text)
{
	char open[32][16];
	size_t depth = 0;
	const char *at = text + (strncmp(text, "<?xml", 5) ? 0 : strcspn(text, "\n"));
	while (*at) {
		if (*at == '&') {
			const char *behind = skip_entity(at);
			if (!behind)
				return at;
			at = behind;
			continue;
		}
		if ((unsigned char)*at < 0x20 && *at != '\n')
			return at;
		if (*at != '<') {
			at++;
			continue;
		}
		bool closing = at[1] == '/';
		const char *name = at + 1 + closing;
		size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz");
		if (!length || length >= sizeof open[0])
			return at;
		if (closing) {
			if (!depth || strlen(open[depth - 1]) != length || strncmp(open[--depth], name, length) ||
			    name[length] != '>')
				return at;
			at = name + length + 1;
			continue;
		}
		const char *end = skip_attributes(name + length);
		if (!end || depth == 32)
			return at;
		if (*end == '>')
			snprintf(open[depth++], sizeof open[0], "%.*s", (int)length, name);
		at = end + (*end == '>' ? 1 : 2);
	}
	return depth ? text : NULL;
}

static void check_well_formed(const char *text)
{
	const char *fault = find_fault(text);
	ck_assert_msg(!fault, "not well-formed at byte %td: %.60s", fault - text, fault);
}

START_TEST(the_checker_finds_faults)
{
	ck_assert_ptr_null(find_fault("<?xml version=\"1.0\"?>\n<a b=\"c\"><d/>x &amp; y</a>\n"));
	ck_assert_ptr_nonnull(find_fault("<a><b></a></b>"));
	ck_assert_ptr_nonnull(find_fault("<a>x & y</a>"));
	ck_assert_ptr_nonnull(find_fault("<a b=c/>"));
	ck_assert_ptr_nonnull(find_fault("<a b=\"c<\"/>"));
	ck_assert_ptr_nonnull(find_fault("<a>\x01</a>"));
	ck_assert_ptr_nonnull(find_fault("<a>"));
}
END_TEST

/* ---- texts do not overlap ------------------------------------------------------------------------------------------
 */

struct text_box {
	double x1, y1, x2, y2;
	const char *at;
};

static double attribute(const char *element, const char *name)
{
	const char *at = strstr(element, name);
	return at ? strtod(at + strlen(name), NULL) : 0;
}

/* A little less than the real size of a sans-serif font, so that only a true overlap is reported. */
static uint32_t find_texts(const char *svg, struct text_box *box, uint32_t most)
{
	uint32_t count = 0;
	for (const char *at = svg; (at = strstr(at, "<text class=\"")) && count < most; at++) {
		if (strstr(at, "rotate") && strstr(at, "rotate") < strchr(at, '>'))
			continue;
		const char *content = strchr(at, '>') + 1;
		char classes[40];
		snprintf(classes, sizeof classes, "%.*s", (int)strcspn(at + 13, "\""), at + 13);
		double size = strstr(classes, "title") == classes ? 22 : strstr(classes, "name") ? 10 : 12;
		double width = 0.5 * size * (double)strcspn(content, "<"), x = attribute(at, " x=\""),
		       y = attribute(at, " y=\"");
		double left = strstr(classes, "right") ? x - width : strstr(classes, "middle") ? x - width / 2 : x;
		box[count++] = (struct text_box){ left, y - 0.7 * size, left + width, y, at };
	}
	return count;
}

static void check_no_overlap(const char *svg)
{
	enum { MOST = 4000 };
	struct text_box *box = HOST_ARRAY(&arena, MOST, struct text_box);
	uint32_t count = find_texts(svg, box, MOST);
	ck_assert_uint_gt(count, 10);
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t k = 0; k < i; k++)
			ck_assert_msg(box[i].x1 >= box[k].x2 || box[k].x1 >= box[i].x2 || box[i].y1 >= box[k].y2 ||
					      box[k].y1 >= box[i].y2,
				      "texts overlap: %.90s and %.90s", box[i].at, box[k].at);
}

/* ---- drawings ------------------------------------------------------------------------------------------------------
 */

START_TEST(a_drawing_says_everything)
{
	static const char *const words[] = { "sample: training step, batch 6",
					     "persistent",
					     "activation",
					     "gradient",
					     "recomputed",
					     "workspace",
					     "live bytes",
					     "budget 1.00 MiB",
					     "peak 79.19 KiB of this program, arena ",
					     "address in the arena (KiB)",
					     "instruction",
					     "forward",
					     "backward",
					     "update" };
	char *svg = draw(PROGRAM_TRAIN);
	check_well_formed(svg);
	check_no_overlap(svg);
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		ck_assert_msg(strstr(svg, words[i]) != NULL, "\"%s\" is missing", words[i]);
	/* Hover texts: what, whose, how large, where, when. */
	ck_assert_ptr_nonnull(strstr(svg, "<title>norm (activation); norm, batch_apply; 6.00 KiB at 41.81 KiB; "
					  "instructions 4 to 7</title>"));
	ck_assert_ptr_nonnull(strstr(svg, "<title>drop (recomputed)"));
	check_well_formed(draw(PROGRAM_TRAIN_LAST));
	check_well_formed(draw(PROGRAM_EVALUATE));
	ck_assert_fails(plan_draw_svg(&plan, PROGRAM_EVALUATE_LAST, NULL, &arena, svg_path()), TARN_EINVAL,
			"evaluate_last");
}
END_TEST

/* The arena is that of all programs, whichever is drawn; its line stands where it is not this program's peak. */
START_TEST(the_arena_is_that_of_all_programs)
{
	char arena_text[BYTES_TEXT], peak[BYTES_TEXT], header[160];
	for (uint32_t p = 0; p < plan.programs; p++) {
		snprintf(header, sizeof header, "peak %s of this program, arena %s  ",
			 bytes_format(plan.program[p].peak_bytes, peak, sizeof peak),
			 bytes_format(plan.arena_bytes, arena_text, sizeof arena_text));
		char *svg = draw(plan.program[p].kind);
		ck_assert_msg(strstr(svg, header) != NULL, "\"%s\" is missing", header);
		/* One in the legend, one in the plot. */
		bool differs = plan.arena_bytes != plan.program[p].peak_bytes;
		ck_assert_uint_eq(count_text(svg, "<line class=\"arena\""), differs ? 2 : 0);
	}
	plan.arena_bytes = plan.program[0].peak_bytes;
	ck_assert_uint_eq(count_text(draw(PROGRAM_TRAIN), "<line class=\"arena\""), 0);
	/* Far above: still inside the picture. */
	plan.arena_bytes = 4 * plan.program[0].peak_bytes;
	const char *line = strstr(draw(PROGRAM_TRAIN), "<line class=\"arena\"");
	line = strstr(line + 1, "<line class=\"arena\"");
	ck_assert(attribute(line, " y1=\"") > 128 && attribute(line, " y1=\"") < 300);
}
END_TEST

/* Names are whole or end in an ellipsis, and stand above the line of live bytes. */
START_TEST(texts_are_whole_or_say_that_they_are_not)
{
	char out[SVG_SHORT];
	ck_assert_str_eq(svg_shorten("stage3", 6, out), "stage3");
	ck_assert_str_eq(svg_shorten("stage3", 5, out), "stag\u2026");
	ck_assert_str_eq(svg_shorten("\u00e4\u00f6\u00fc", 2, out), "\u00e4\u2026");
	ck_assert_str_eq(svg_shorten("", 2, out), "");
	char *long_text = HOST_ARRAY(&arena, 2000, char);
	memset(long_text, 'x', 1999);
	ck_assert_uint_lt(strlen(svg_shorten(long_text, 1000, out)), SVG_SHORT);
	ck_assert_ptr_nonnull(strstr(out, "x\u2026"));

	char *svg = draw(PROGRAM_TRAIN);
	const char *live = strstr(svg, "<path class=\"live\""), *name = strstr(svg, "<text class=\"name\"");
	ck_assert(live && name && live < name);
	ck_assert_ptr_nonnull(strstr(svg, "paint-order:stroke"));

	struct program *program = &plan.program[0];
	struct plan_buffers buffers;
	ck_assert_ok(plan_buffers_find(&plan, program, &arena, &buffers));
	const char *peak_op = op_name(&program->graph, program->instruction[buffers.peak_instruction].op);
	snprintf(out, sizeof out, ", %s</text>", peak_op);
	ck_assert_msg(strstr(svg, out) != NULL, "%s", out);
	char run[200] = "name=";
	memset(run + 5, 'n', 100);
	memcpy(run + 105, "\n", 2);
	plan.config_lines = run;
	svg = draw(PROGRAM_TRAIN);
	ck_assert_ptr_nonnull(strstr(svg, "nn\u2026: training step"));
	check_no_overlap(svg);
}
END_TEST

/* Buffers and peak of the drawing are those that the verifier proved. */
START_TEST(buffers_agree_with_the_plan)
{
	for (uint32_t p = 0; p < plan.programs; p++) {
		struct plan_buffers buffers;
		ck_assert_ok(plan_buffers_find(&plan, &plan.program[p], &arena, &buffers));
		ck_assert_uint_eq(buffers.peak_bytes, plan.program[p].peak_bytes);
		ck_assert_uint_eq(buffers.recomputed, plan.program[p].recomputed_ops);
		for (uint32_t a = 0; a < buffers.count; a++)
			for (uint32_t b = 0; b < a; b++) {
				const struct plan_buffer *x = &buffers.buffer[a], *y = &buffers.buffer[b];
				ck_assert_msg(x->first >= y->end || y->first >= x->end ||
						      x->offset >= y->offset + y->bytes ||
						      y->offset >= x->offset + x->bytes,
					      "program %u: buffers %u and %u overlap", p, a, b);
			}
	}
}
END_TEST

START_TEST(the_budget_is_shown_near_far_and_unlimited)
{
	const uint64_t budgets[] = { plan.arena_bytes,         plan.arena_bytes + 2048, plan.arena_bytes * 5 / 4,
				     plan.arena_bytes * 3 / 2, (uint64_t)1 << 40,       UINT64_MAX };
	for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
		plan.budget_bytes = budgets[i];
		char *svg = draw(PROGRAM_TRAIN);
		check_well_formed(svg);
		check_no_overlap(svg);
		ck_assert_uint_eq(count_text(svg, "class=\"budget-text"), i < 5);
		ck_assert(i < 5 || strstr(svg, "budget unlimited"));
	}
}
END_TEST

/* Markup, control characters and broken UTF-8 in names; random bytes. */
START_TEST(any_name_gives_well_formed_xml)
{
	struct testing_random random = { (uint64_t)_i + 5 };
	for (uint32_t p = 0; p < plan.programs; p++) {
		struct graph *graph = &plan.program[p].graph;
		for (uint32_t i = 0; i < graph->text_bytes; i++)
			if (graph->text[i])
				graph->text[i] = (char)testing_between(&random, 1, _i % 2 ? 255 : 63);
	}
	plan.config_lines = "budget=1\nname=<\"a&b\xC3'>\xED\xA0\x80\xEF\xBF\xBF\n";
	char *svg = draw(PROGRAM_TRAIN);
	check_well_formed(svg);
	ck_assert_ptr_nonnull(strstr(svg, "&lt;&quot;a&amp;b?'&gt;????"));
}
END_TEST

static void make_long_plan(uint32_t length)
{
	struct program *program = &plan.program[0];
	plan.programs = 1;
	*program = (struct program){ .kind = PROGRAM_TRAIN, .batch = 4 };
	struct graph *graph = &program->graph;
	ck_assert_ok(graph_init(graph, &arena));
	uint32_t slot, x, y;
	ck_assert_ok(graph_add_persistent(graph, "staging", ROLE_STAGING, DTYPE_F32, (uint32_t[]){ 256 }, 1, &slot));
	graph->scalars = TENSOR_NONE;
	ck_assert_ok(sample_persistents(&arena, &plan));
	ck_assert_ok(graph_add_op(graph, OP_INPUT, PHASE_FORWARD, "x", NULL, &slot, 1, &x));
	uint32_t *value = HOST_ARRAY(&arena, length, uint32_t);
	struct op_attr attr = { .alpha = 0.5f };
	char name[32];
	for (uint32_t i = 0; i < length / 2; i++, x = value[i - 1]) {
		snprintf(name, sizeof name, "up%u", i);
		ck_assert_ok(graph_add_op(graph, OP_SCALE, PHASE_FORWARD, name, &attr, &x, 1, &value[i]));
	}
	for (uint32_t i = length / 2; i-- > 0; x = y) {
		snprintf(name, sizeof name, "down%u", i);
		ck_assert_ok(
			graph_add_op(graph, OP_ADD, PHASE_BACKWARD, name, NULL, (uint32_t[]){ x, value[i] }, 2, &y));
	}
	/* A pyramid: value i lies at place i until its addition; gradients at two places below. */
	uint32_t steps = graph->ops;
	program->instruction = HOST_ARRAY(&arena, steps, struct instruction);
	program->operand_offset = HOST_ARRAY(&arena, 3 * (size_t)steps, uint64_t);
	program->instructions = steps;
	uint64_t *place = HOST_ARRAY(&arena, graph->tensors, uint64_t);
	for (uint32_t op = 0; op < steps; op++) {
		uint32_t out = op_outputs(graph, op)[0];
		place[out] = plan.persistent_bytes + 1024 * (graph->op[op].phase == PHASE_BACKWARD ? op % 2 : op + 2);
		program->instruction[op] = (struct instruction){ .op = op, .first_operand = program->operand_offsets };
		for (uint32_t k = 0; k < graph->op[op].inputs; k++)
			program->operand_offset[program->operand_offsets++] = place[op_inputs(graph, op)[k]];
		program->operand_offset[program->operand_offsets++] = place[out];
	}
	program->height_bytes = plan.arena_bytes = plan.persistent_bytes + 1024ull * (length / 2 + 3);
}

START_TEST(twenty_thousand_buffers_stay_small)
{
	make_long_plan(20000);
	plan.budget_bytes = plan.arena_bytes;
	char *svg = draw(PROGRAM_TRAIN);
	check_well_formed(svg);
	check_no_overlap(svg);
	ck_assert_uint_lt(strlen(svg), 2 << 20);
	ck_assert_ptr_nonnull(strstr(svg, "<path class=\"activation\""));
	ck_assert_ptr_nonnull(strstr(svg, "<path class=\"gradient\""));
}
END_TEST

START_TEST(an_empty_program_is_drawn)
{
	plan.program[2].instructions = 0;
	char *svg = draw(PROGRAM_EVALUATE);
	check_well_formed(svg);
}
END_TEST

START_TEST(failures_leave_nothing_behind)
{
	ck_assert_fails(plan_draw_svg(&plan, PROGRAM_TRAIN, NULL, &arena, "/no/such/directory/x.svg"), TARN_EIO,
			"cannot create");
	char place[512], temporary[520];
	snprintf(place, sizeof place, "%s/place", testing_directory());
	snprintf(temporary, sizeof temporary, "%s.tmp", place);
	ck_assert_int_eq(mkdir(place, 0700), 0);
	ck_assert_fails(plan_draw_svg(&plan, PROGRAM_TRAIN, NULL, &arena, place), TARN_EIO, "is a folder");
	ck_assert_int_ne(access(temporary, F_OK), 0);
	for (uint64_t n = 1; n < 100; n++) {
		struct host_mark before = host_arena_mark(&arena);
		arena.fail_at = arena.requests + n;
		enum tarn_status st = plan_draw_svg(&plan, PROGRAM_TRAIN, NULL, &arena, svg_path());
		arena.fail_at = 0;
		struct host_mark after = host_arena_mark(&arena);
		ck_assert(before.head == after.head && before.used == after.used);
		if (!st)
			return;
		ck_assert_int_eq(st, TARN_ENOMEM);
	}
	ck_abort_msg("never succeeds");
}
END_TEST

START_TEST(a_listing_has_every_instruction)
{
	char path[512];
	snprintf(path, sizeof path, "%s/plan.txt", testing_directory());
	FILE *out = fopen(path, "w");
	plan_print(&plan, out);
	fclose(out);
	char *text = read_text(path);
	uint32_t instructions = 0;
	for (uint32_t p = 0; p < plan.programs; p++)
		instructions += plan.program[p].instructions;
	ck_assert_uint_eq(count_text(text, ") -> "), instructions);
	ck_assert_uint_eq(count_text(text, " * "), plan.program[0].recomputed_ops);
	ck_assert_ptr_nonnull(
		strstr(text, "conv: conv2d (input@31872, conv/weight@4864) -> conv@36544, workspace 256@42688"));
	ck_assert_ptr_nonnull(strstr(text, "running statistic"));
}
END_TEST

/* ---- the curve -------------------------------------------------------------------------------------------------- */

static struct plan_curve some_curve(uint32_t points)
{
	struct plan_curve curve = { .points = points, .base_ns = plan.program[0].time_ns };
	for (uint32_t i = 0; i < points; i++)
		curve.point[i] = (struct plan_point){ .budget_bytes = (1 << 20) + (uint64_t)i * 4096,
						      .arena_bytes = 1 << 20,
						      .time_ns = plan.program[0].time_ns + 7000 * (points - 1 - i),
						      .recomputed_ops = points - 1 - i };
	return curve;
}

/* The panel is well-formed, has a dot for each budget, and marks the plan's own. */
START_TEST(a_curve_is_drawn_below)
{
	struct plan_curve curve = some_curve((uint32_t)_i);
	plan.budget_bytes = (1 << 20) + 2048;
	ck_assert_ok(plan_draw_svg(&plan, PROGRAM_TRAIN, &curve, &arena, svg_path()));
	char *text = read_text(svg_path());
	check_well_formed(text);
	ck_assert_uint_eq(count_text(text, "class=\"dot\""), (uint32_t)_i);
	ck_assert_uint_eq(count_text(text, "class=\"curve\""), _i > 0);
	ck_assert(!strstr(text, "nan") && !strstr(text, "inf"));
	/* One in the plot of the arena; one in the panel where the budget lies between its ends. */
	ck_assert_uint_eq(count_text(text, "class=\"peak\""), _i > 1 ? 2 : 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("draw");
	TCase *tcase = tcase_create("draw");
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, the_checker_finds_faults);
	tcase_add_test(tcase, a_drawing_says_everything);
	tcase_add_test(tcase, the_arena_is_that_of_all_programs);
	tcase_add_test(tcase, texts_are_whole_or_say_that_they_are_not);
	tcase_add_test(tcase, buffers_agree_with_the_plan);
	tcase_add_test(tcase, the_budget_is_shown_near_far_and_unlimited);
	tcase_add_loop_test(tcase, any_name_gives_well_formed_xml, 0, 20);
	tcase_add_test(tcase, twenty_thousand_buffers_stay_small);
	tcase_add_test(tcase, an_empty_program_is_drawn);
	tcase_add_test(tcase, failures_leave_nothing_behind);
	tcase_add_test(tcase, a_listing_has_every_instruction);
	tcase_add_loop_test(tcase, a_curve_is_drawn_below, 0, PLAN_CURVE_POINTS + 1);
	suite_add_tcase(suite, tcase);
	return testing_run(suite);
}
