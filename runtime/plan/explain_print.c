/* explain_print.c - an explanation as sentences and as JSON. */
#include "plan/explain.h"

#include <inttypes.h>

/* Entries of a list that people are shown. */
#define SHOWN 10u

static const char *const uses[PLAN_USES] = { "persistent", "read by it", "written by it", "workspace",
					     "kept for later" };
static const char *const use_keys[PLAN_USES] = { "persistent", "read", "written", "workspace", "later" };
static const char *const phases[] = { "forward", "backward", "update" };

static const char *op_kind(const struct plan_explanation *e, uint32_t op)
{
	return op_row(e->program->graph.op[op].kind)->name;
}

static bool ran_before(const struct program *program, uint32_t step)
{
	for (uint32_t i = 0; i < step; i++)
		if (program->instruction[i].kind == INSTRUCTION_RUN &&
		    program->instruction[i].op == program->instruction[step].op)
			return true;
	return false;
}

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

/* ---- sentences -------------------------------------------------------------------------------------------------- */

static void print_rest(uint32_t count, const char *what, FILE *out)
{
	if (count > SHOWN)
		fprintf(out, "    and %u more %s\n", count - SHOWN, what);
}

static void print_buffer(const struct plan_explanation *e, uint32_t b, const char *use, FILE *out)
{
	char bytes[BYTES_TEXT];
	const struct plan_buffer *buffer = &e->buffers.buffer[b];
	fprintf(out, "    %-12s %s%s%s", bytes_format(buffer->bytes, bytes, sizeof bytes),
		buffer->kind == BUFFER_WORKSPACE ? "workspace of " : "", plan_buffer_name(e, b), use ? ", " : "");
	if (use)
		fputs(use, out);
	if (buffer->kind == BUFFER_ACTIVATION || buffer->kind == BUFFER_GRADIENT || buffer->kind == BUFFER_RECOMPUTED)
		fprintf(out, "; %sinstructions %u to %u", buffer->kind == BUFFER_RECOMPUTED ? "made again; " : "",
			buffer->first, buffer->end - 1);
	fputc('\n', out);
}

static void print_peak(const struct plan_explanation *e, FILE *out)
{
	const struct program *program = e->program;
	uint32_t step = plan_peak_run(e), op = program->instruction[step].op, shown = 0, others = 0;
	char bytes[BYTES_TEXT];
	const char *between = "";
	fprintf(out, "The peak, %s, is at instruction %u of %u of the %s step: %s (%s, %s)%s.\n  In memory then: ",
		bytes_format(e->buffers.peak_bytes, bytes, sizeof bytes), step, program->instructions,
		program_name(program->kind), op_name(&program->graph, op), op_kind(e, op),
		phases[program->graph.op[op].phase], ran_before(program, step) ? ", computed again" : "");
	for (uint32_t use = 0; use < PLAN_USES; use++) {
		if (!e->used_bytes[use])
			continue;
		fprintf(out, "%s%s %s", between, bytes_format(e->used_bytes[use], bytes, sizeof bytes), uses[use]);
		between = ", ";
	}
	fputs(".\n", out);
	for (uint32_t i = 0; i < e->lives; i++) {
		if (e->live[i].use == USE_PERSISTENT)
			continue;
		if (shown++ < SHOWN)
			print_buffer(e, e->live[i].buffer, uses[e->live[i].use], out);
		others++;
	}
	print_rest(others, "buffers", out);
}

static void print_kept(const struct plan_explanation *e, FILE *out)
{
	char bytes[BYTES_TEXT];
	if (!e->kepts)
		return;
	fprintf(out, "%u tensor%s, %s, %s kept from the forward pass for the backward pass:\n", e->kepts,
		plural(e->kepts), bytes_format(e->kept_bytes, bytes, sizeof bytes), e->kepts == 1 ? "is" : "are");
	for (uint32_t i = 0; i < e->kepts && i < SHOWN; i++)
		print_buffer(e, e->kept[i], NULL, out);
	print_rest(e->kepts, "tensors", out);
}

static void print_again(const struct plan_explanation *e, FILE *out)
{
	const struct program *program = e->program;
	if (!e->agains) {
		fputs("Nothing is computed again.\n", out);
		return;
	}
	fprintf(out, "%u op%s %s computed again, %u extra runs, %.3f ms of %.3f ms a step:\n", e->agains,
		plural(e->agains), e->agains == 1 ? "is" : "are", program->recomputed_ops,
		(double)(program->time_ns - program->base_time_ns) * 1e-6, (double)program->time_ns * 1e-6);
	for (uint32_t i = 0; i < e->agains && i < SHOWN; i++)
		fprintf(out, "    %9.3f ms  %s (%s), %u extra run%s\n", (double)e->again[i].extra_ns * 1e-6,
			op_name(&program->graph, e->again[i].op), op_kind(e, e->again[i].op), e->again[i].extra_runs,
			plural(e->again[i].extra_runs));
	print_rest(e->agains, "ops", out);
}

static void print_aliases(const struct plan_explanation *e, FILE *out)
{
	char bytes[BYTES_TEXT];
	fprintf(out, "%u output%s, %s, %s in the place of an input", e->in_places, plural(e->in_places),
		bytes_format(e->in_place_bytes, bytes, sizeof bytes), e->in_places == 1 ? "is written" : "are written");
	fprintf(out, "; %u tensor%s, %s, %s of another's memory.\n", e->views, plural(e->views),
		bytes_format(e->view_bytes, bytes, sizeof bytes), e->views == 1 ? "is a view" : "are views");
}

static double percent_above(uint64_t time, uint64_t base)
{
	return base ? 100 * ((double)time / (double)base - 1) : 0;
}

static void print_more(const struct plan_explanation *e, const struct plan_curve *curve, FILE *out)
{
	const struct plan_point *more = &curve->more;
	uint64_t now = e->program->time_ns;
	if (!more->budget_bytes)
		fputs("More memory would buy nothing: no op runs twice, or no budget is set.\n", out);
	else if (more->time_ns < now)
		fprintf(out, "One MiB more would save %.3f ms a step (%.2f %%): planned with %" PRIu64 " bytes.\n",
			(double)(now - more->time_ns) * 1e-6, 100 * (double)(now - more->time_ns) / (double)now,
			more->budget_bytes);
	else
		fprintf(out, "One MiB more would save nothing: planned with %" PRIu64 " bytes, a step takes as long.\n",
			more->budget_bytes);
}

static void print_curve(const struct plan_explanation *e, const struct plan_curve *curve, FILE *out)
{
	char budget[BYTES_TEXT], arena[BYTES_TEXT];
	fputs("With other budgets (memory.recompute: auto) a training step would take:\n"
	      "         budget                      arena          step  extra time  extra ops\n",
	      out);
	for (uint32_t i = 0; i < curve->points; i++) {
		const struct plan_point *p = &curve->point[i];
		fprintf(out, "  %13" PRIu64 "  %11s  %11s  %9.3f ms  %8.2f %%  %9u\n", p->budget_bytes,
			bytes_format(p->budget_bytes, budget, sizeof budget),
			bytes_format(p->arena_bytes, arena, sizeof arena), (double)p->time_ns * 1e-6,
			percent_above(p->time_ns, curve->base_ns), p->recomputed_ops);
	}
	print_more(e, curve, out);
}

void plan_explain_print(const struct plan_explanation *e, const struct plan_curve *curve, FILE *out)
{
	if (!e->program->instructions) {
		fprintf(out, "The %s step has no instructions.\n", program_name(e->program->kind));
		return;
	}
	print_peak(e, out);
	print_kept(e, out);
	print_again(e, out);
	print_aliases(e, out);
	if (curve && curve->points)
		print_curve(e, curve, out);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

/* A string as JSON wants it; names are bytes that the graph's author chose. */
static void json_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < 0x20)
			fprintf(out, "\\u%04x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

static void json_buffer(const struct plan_explanation *e, uint32_t b, FILE *out)
{
	const struct plan_buffer *buffer = &e->buffers.buffer[b];
	fputs("{\"name\": ", out);
	json_string(out, plan_buffer_name(e, b));
	fprintf(out, ", \"bytes\": %" PRIu64 ", \"first\": %u, \"last\": %u", buffer->bytes, buffer->first,
		buffer->end - 1);
	if (buffer->kind == BUFFER_RECOMPUTED)
		fputs(", \"recomputed\": true", out);
}

static void json_op(const struct plan_explanation *e, uint32_t op, FILE *out)
{
	fputs("\"op\": ", out);
	json_string(out, op_name(&e->program->graph, op));
	fprintf(out, ", \"kind\": \"%s\"", op_kind(e, op));
}

static void json_peak(const struct plan_explanation *e, FILE *out)
{
	uint32_t step = plan_peak_run(e);
	fprintf(out,
		"\"peak\": {\"program\": \"%s\", \"bytes\": %" PRIu64 ", \"instruction\": %u, \"instructions\": %u, ",
		program_name(e->program->kind), e->buffers.peak_bytes, step, e->program->instructions);
	json_op(e, e->program->instruction[step].op, out);
	fprintf(out, ", \"phase\": \"%s\", \"recomputed\": %s, \"use_bytes\": {",
		phases[e->program->graph.op[e->program->instruction[step].op].phase],
		ran_before(e->program, step) ? "true" : "false");
	for (uint32_t use = 0; use < PLAN_USES; use++)
		fprintf(out, "%s\"%s\": %" PRIu64, use ? ", " : "", use_keys[use], e->used_bytes[use]);
	fputs("}, \"live\": [", out);
	for (uint32_t i = 0; i < e->lives; i++) {
		fputs(i ? ", " : "", out);
		json_buffer(e, e->live[i].buffer, out);
		fprintf(out, ", \"use\": \"%s\"}", use_keys[e->live[i].use]);
	}
	fputs("]}", out);
}

static void json_lists(const struct plan_explanation *e, FILE *out)
{
	const struct graph *graph = &e->program->graph;
	fputs(", \"kept\": [", out);
	for (uint32_t i = 0; i < e->kepts; i++) {
		fputs(i ? ", " : "", out);
		json_buffer(e, e->kept[i], out);
		fputc('}', out);
	}
	fputs("], \"recomputed\": [", out);
	for (uint32_t i = 0; i < e->agains; i++) {
		fputs(i ? ", {" : "{", out);
		json_op(e, e->again[i].op, out);
		fprintf(out, ", \"extra_runs\": %u, \"extra_ns\": %" PRIu64 "}", e->again[i].extra_runs,
			e->again[i].extra_ns);
	}
	fputs("], \"in_place\": [", out);
	for (uint32_t i = 0; i < e->in_places; i++) {
		fprintf(out, "%s{\"instruction\": %u, \"input\": ", i ? ", " : "", e->in_place[i].instruction);
		json_string(out, tensor_name(graph, e->in_place[i].input));
		fputs(", \"output\": ", out);
		json_string(out, tensor_name(graph, e->in_place[i].output));
		fprintf(out, ", \"bytes\": %" PRIu64 "}", bytes_align(graph->tensor[e->in_place[i].output].bytes));
	}
	fputs("], \"views\": [", out);
	for (uint32_t i = 0; i < e->views; i++) {
		fputs(i ? ", {\"name\": " : "{\"name\": ", out);
		json_string(out, tensor_name(graph, e->view[i]));
		fputs(", \"of\": ", out);
		json_string(out, tensor_name(graph, graph->tensor[e->view[i]].storage));
		fprintf(out, ", \"bytes\": %" PRIu64 "}", bytes_align(graph->tensor[e->view[i]].bytes));
	}
	fputc(']', out);
}

static void json_point(const struct plan_point *p, FILE *out)
{
	fprintf(out,
		"{\"budget_bytes\": %" PRIu64 ", \"arena_bytes\": %" PRIu64 ", \"total_time\": %" PRIu64
		", \"recomputed_ops\": %u}",
		p->budget_bytes, p->arena_bytes, p->time_ns, p->recomputed_ops);
}

void plan_explain_json(const struct plan_explanation *e, const struct plan_curve *curve, FILE *out)
{
	fputc('{', out);
	if (!e->program->instructions) {
		fputc('}', out);
		return;
	}
	json_peak(e, out);
	json_lists(e, out);
	if (curve && curve->points) {
		fputs(", \"curve\": [", out);
		for (uint32_t i = 0; i < curve->points; i++) {
			fputs(i ? ", " : "", out);
			json_point(&curve->point[i], out);
		}
		fputs("], \"one_mib_more\": ", out);
		if (curve->more.budget_bytes)
			json_point(&curve->more, out);
		else
			fputs("null", out);
	}
	fputc('}', out);
}
