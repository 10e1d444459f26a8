/* layer_table.c - see layer_table.h. */
#include "plan/layer_table.h"

#include <inttypes.h>
#include <string.h>

/* A table for people is at most so long: the first rows, a line that counts, the last rows. */
#define MOST_ROWS 48u
#define FIRST_ROWS 32u
#define LAST_ROWS 12u
#define NAME_BYTES 40

struct row {
	const char *name;
	uint32_t name_bytes;
	uint32_t op;  /* the last one that it stands for */
	uint32_t ops; /* how many */
	uint64_t parameters, bytes, flops;
};

static bool has_row(const struct graph *graph, uint32_t op)
{
	const struct op_row *kind = op_row(graph->op[op].kind);
	return graph->op[op].phase == PHASE_FORWARD && !kind->view && (!kind->effect || graph->op[op].kind == OP_INPUT);
}

/* Of the inputs that no row had before; marks them in `seen`. */
static uint64_t count_parameters(const struct graph *graph, uint32_t op, bool *seen)
{
	uint64_t count = 0;
	for (uint32_t k = 0; k < graph->op[op].inputs; k++) {
		uint32_t t = graph->tensor[op_inputs(graph, op)[k]].storage;
		if (graph->tensor[t].role != ROLE_PARAMETER || seen[t])
			continue;
		seen[t] = true;
		count += tensor_elements(&graph->tensor[t]);
	}
	return count;
}

static struct row make_row(const struct graph *graph, uint32_t op, bool *seen)
{
	struct row row = { .name = op_name(graph, op), .op = op, .ops = 1, .flops = op_flops(graph, op) };
	row.name_bytes = (uint32_t)strlen(row.name);
	row.parameters = count_parameters(graph, op, seen);
	for (uint32_t k = 0; k < graph->op[op].outputs; k++)
		row.bytes += graph->tensor[op_outputs(graph, op)[k]].bytes;
	return row;
}

/* Bytes of the first part of a name, its slash included; 0 without one. */
static uint32_t scope_bytes(const struct row *row)
{
	const char *slash = memchr(row->name, '/', row->name_bytes);
	return slash ? (uint32_t)(slash - row->name) + 1 : 0;
}

/* Rows under one first part of their names that follow one another become one. Returns how many are left. */
static uint32_t join_scopes(struct row *row, uint32_t rows)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < rows; i++) {
		uint32_t bytes = scope_bytes(&row[i]);
		struct row *last = kept ? &row[kept - 1] : NULL;
		if (!bytes || !last || scope_bytes(last) != bytes || memcmp(last->name, row[i].name, bytes)) {
			row[kept++] = row[i];
			continue;
		}
		last->name_bytes = bytes;
		last->op = row[i].op;
		last->ops += row[i].ops;
		last->parameters += row[i].parameters;
		last->bytes += row[i].bytes;
		last->flops += row[i].flops;
	}
	return kept;
}

static void print_row(const struct graph *graph, const struct row *row, FILE *out)
{
	char shape[SHAPE_TEXT], bytes[BYTES_TEXT], kind[32];
	const struct tensor *y = &graph->tensor[op_outputs(graph, row->op)[0]];
	if (row->ops > 1)
		snprintf(kind, sizeof kind, "%" PRIu32 " ops", row->ops);
	else
		snprintf(kind, sizeof kind, "%s", op_row(graph->op[row->op].kind)->name);
	fprintf(out, "  %-*.*s %-24s %-18s %11" PRIu64 " %11s %10.4g\n", NAME_BYTES - 12, (int)row->name_bytes,
		row->name, kind, shape_format(y->dim, y->rank, shape, sizeof shape), row->parameters,
		bytes_format(row->bytes, bytes, sizeof bytes), (double)row->flops * 1e-6);
}

static void print_rows(const struct graph *graph, const struct row *row, uint32_t rows, bool whole, FILE *out)
{
	struct row sum = { .name = NULL };
	char bytes[BYTES_TEXT];
	bool cut = !whole && rows > MOST_ROWS;
	fprintf(out, "  %-*s %-24s %-18s %11s %11s %10s\n", NAME_BYTES - 12, "layer", "op", "result", "parameters",
		"bytes", "MFLOP");
	for (uint32_t i = 0; i < rows; i++) {
		sum.parameters += row[i].parameters;
		sum.bytes += row[i].bytes;
		sum.flops += row[i].flops;
		if (!cut || i < FIRST_ROWS || i >= rows - LAST_ROWS)
			print_row(graph, &row[i], out);
		else if (i == FIRST_ROWS)
			fprintf(out, "  ... %" PRIu32 " rows more; `tarn plan --summary` shows them ...\n",
				rows - FIRST_ROWS - LAST_ROWS);
	}
	fprintf(out, "  %-*s %-24s %-18s %11" PRIu64 " %11s %10.4g\n", NAME_BYTES - 12, "sum", "", "", sum.parameters,
		bytes_format(sum.bytes, bytes, sizeof bytes), (double)sum.flops * 1e-6);
}

enum tarn_status layer_table_print(const struct graph *graph, bool whole, struct host_arena *scratch, FILE *out)
{
	struct row *row = HOST_ARRAY(scratch, graph->ops + 1u, struct row);
	bool *seen = HOST_ARRAY(scratch, graph->tensors + 1u, bool);
	uint32_t rows = 0;
	if (!row || !seen)
		return TARN_ENOMEM;
	for (uint32_t op = 0; op < graph->ops; op++)
		if (has_row(graph, op))
			row[rows++] = make_row(graph, op, seen);
	if (!whole && rows > MOST_ROWS)
		rows = join_scopes(row, rows);
	print_rows(graph, row, rows, whole, out);
	return TARN_OK;
}

/* ---- JSON; names of tensors hold no character that JSON would want quoted ---- */

static void json_numbers(const char *name, const uint32_t *value, uint32_t count, FILE *out)
{
	fprintf(out, ", \"%s\": [", name);
	for (uint32_t i = 0; i < count; i++)
		fprintf(out, "%s%" PRIu32, i ? ", " : "", value[i]);
	fputc(']', out);
}

static void json_whole(const char *name, int64_t value, FILE *out)
{
	if (value)
		fprintf(out, ", \"%s\": %" PRId64, name, value);
}

static void json_real(const char *name, float value, FILE *out)
{
	if (value != 0.0f)
		fprintf(out, ", \"%s\": %.9g", name, (double)value);
}

static void json_window(const struct window *window, FILE *out)
{
	if (!window->kernel[0])
		return;
	json_numbers("kernel", window->kernel, 2, out);
	json_numbers("stride", window->stride, 2, out);
	json_numbers("dilation", window->dilation, 2, out);
	json_numbers("pad_begin", window->pad_begin, 2, out);
	json_numbers("pad_end", window->pad_end, 2, out);
}

static void json_attributes(const struct op_attr *a, FILE *out)
{
	uint32_t extent = a->rank;
	json_window(&a->window, out);
	if (a->activation)
		fprintf(out, ", \"activation\": \"%s\"", activation_name((enum activation)a->activation));
	json_whole("groups", a->groups, out);
	json_whole("transpose_a", a->transpose_a, out);
	json_whole("transpose_b", a->transpose_b, out);
	json_whole("axis", a->axis, out);
	json_whole("begin", a->begin, out);
	for (uint32_t i = 0; !a->rank && i < OP_MAX_RANK; i++)
		extent = a->extent[i] ? i + 1 : extent;
	if (extent)
		json_numbers("extent", a->extent, extent, out);
	json_whole("count_padding", a->count_padding, out);
	json_whole("causal", a->causal, out);
	json_whole("mode", a->mode, out);
	json_whole("per_sample", a->per_sample, out);
	json_real("alpha", a->alpha, out);
	json_real("epsilon", a->epsilon, out);
	json_real("rate", a->rate, out);
	json_real("label_smoothing", a->label_smoothing, out);
	if (a->has_ignore_index)
		fprintf(out, ", \"ignore_index\": %" PRId32, a->ignore_index);
}

static void json_operands(const struct graph *graph, const char *name, const uint32_t *tensor, uint32_t count,
			  FILE *out)
{
	fprintf(out, ", \"%s\": [", name);
	for (uint32_t k = 0; k < count; k++)
		fprintf(out, "%s\"%s\"", k ? ", " : "", tensor_name(graph, tensor[k]));
	fputc(']', out);
}

static void json_op(const struct graph *graph, uint32_t id, FILE *out)
{
	const struct op *op = &graph->op[id];
	const struct tensor *y = &graph->tensor[op_outputs(graph, id)[0]];
	fprintf(out, "{\"name\": \"%s\", \"op\": \"%s\"", op_name(graph, id), op_row(op->kind)->name);
	json_numbers("shape", y->dim, y->rank, out);
	fprintf(out, ", \"bytes\": %" PRIu64 ", \"flops\": %" PRIu64, op_row(op->kind)->view ? 0 : y->bytes,
		op_flops(graph, id));
	json_operands(graph, "inputs", op_inputs(graph, id), op->inputs, out);
	json_operands(graph, "outputs", op_outputs(graph, id), op->outputs, out);
	json_attributes(&op->attr, out);
	fputc('}', out);
}

static void json_persistent(const struct graph *graph, uint32_t t, FILE *out)
{
	static const char *const inits[INITS] = { "none", "zero", "one", "uniform", "average", "value" };
	const struct tensor *tensor = &graph->tensor[t];
	fprintf(out, "{\"name\": \"%s\", \"role\": \"%s\", \"dtype\": \"%s\", \"initial\": \"%s\", \"trained\": %s",
		tensor_name(graph, t), role_name(tensor->role), dtype_name(tensor->dtype), inits[tensor->init],
		tensor->role == ROLE_PARAMETER && !(tensor->flags & TENSOR_FROZEN) ? "true" : "false");
	json_real("bound", tensor->init_bound, out);
	json_numbers("shape", tensor->dim, tensor->rank, out);
	fputc('}', out);
}

/* "path=value" lines as an object of texts. */
static void json_settings(const char *lines, FILE *out)
{
	const char *comma = "";
	while (*lines) {
		size_t key = strcspn(lines, "="), length = strcspn(lines, "\n");
		fprintf(out, "%s\"%.*s\": \"", comma, (int)key, lines);
		for (size_t i = key + 1; i < length; i++) {
			if (lines[i] == '"' || lines[i] == '\\')
				fputc('\\', out);
			fputc(lines[i], out);
		}
		fputc('"', out);
		comma = ", ";
		lines += length + (lines[length] == '\n');
	}
}

void layer_table_json(const struct graph *graph, const char *lines, FILE *out)
{
	const char *comma = "";
	fputs("{\"settings\": {", out);
	json_settings(lines, out);
	fputs("}, \"persistent\": [", out);
	for (uint32_t t = 0; t < graph->tensors; t++) {
		if (graph->tensor[t].producer != OP_NONE)
			continue;
		fputs(comma, out);
		json_persistent(graph, t, out);
		comma = ", ";
	}
	fputs("], \"ops\": [", out);
	comma = "";
	for (uint32_t op = 0; op < graph->ops; op++) {
		if (graph->op[op].phase != PHASE_FORWARD)
			continue;
		fputs(comma, out);
		json_op(graph, op, out);
		comma = ", ";
	}
	fputs("]}", out);
}
