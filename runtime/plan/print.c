/* print.c - a readable listing of a plan. */
#include "plan/draw.h"

#include <inttypes.h>

static void print_header(const struct plan *plan, FILE *out)
{
	char persistent[BYTES_TEXT], arena[BYTES_TEXT], budget[BYTES_TEXT] = "unlimited", least[BYTES_TEXT];
	if (plan->budget_bytes != UINT64_MAX)
		bytes_format(plan->budget_bytes, budget, sizeof budget);
	fprintf(out, "plan %016" PRIx64 "\n", plan->plan_checksum);
	fprintf(out, "  driver      %s, %u threads\n", plan->driver, plan->threads);
	fprintf(out, "  budget      %s (smallest that plans: %s)\n", budget,
		bytes_format(plan->min_budget_bytes, least, sizeof least));
	fprintf(out, "  arena       %s, persistent part %s\n", bytes_format(plan->arena_bytes, arena, sizeof arena),
		bytes_format(plan->persistent_bytes, persistent, sizeof persistent));
	if (plan->host_bytes)
		fprintf(out, "  host region %s\n", bytes_format(plan->host_bytes, arena, sizeof arena));
	fprintf(out, "  parameters  %" PRIu64 "\n", plan_parameter_count(plan));
}

static void print_persistents(const struct plan *plan, FILE *out)
{
	const struct graph *graph = &plan->program[0].graph;
	char shape[SHAPE_TEXT];
	fprintf(out, "\npersistent tensors: %u\n  %14s %14s  %-18s %-5s %-16s %s\n", plan->persistents, "offset",
		"bytes", "role", "type", "shape", "name");
	for (uint32_t i = 0; i < plan->persistents; i++) {
		const struct persistent *p = &plan->persistent[i];
		const struct tensor *tensor = &graph->tensor[p->tensor];
		fprintf(out, "  %14" PRIu64 " %14" PRIu64 "  %-18s %-5s %-16s %s\n", p->offset, p->bytes,
			role_name(p->role), dtype_name(p->dtype),
			shape_format(tensor->dim, tensor->rank, shape, sizeof shape), graph->text + p->name);
	}
}

/* "  12  store relu1@4096 -> host@0, 65536 bytes, slot 3" */
static void print_copy(const struct program *program, uint32_t i, FILE *out)
{
	const struct instruction *copy = &program->instruction[i];
	bool fetch = copy->kind == INSTRUCTION_FETCH || copy->kind == INSTRUCTION_FETCH_WAIT;
	fprintf(out, "  %5u   %s %s@%" PRIu64 " %s host@%" PRIu64 ", %" PRIu64 " bytes, slot %u\n", i,
		instruction_name(copy->kind), tensor_name(&program->graph, copy->tensor), copy->offset,
		fetch ? "<-" : "->", copy->host_offset, copy->bytes, copy->slot);
}

/* "  12  conv1: conv2d (x@0, w@64) -> y@4096, workspace 256@8192" */
static void print_instruction(const struct program *program, uint32_t i, bool again, FILE *out)
{
	const struct graph *graph = &program->graph;
	const struct instruction *instruction = &program->instruction[i];
	if (instruction->kind != INSTRUCTION_RUN) {
		print_copy(program, i, out);
		return;
	}
	const struct op *op = &graph->op[instruction->op];
	const uint32_t *tensor = graph->operand + op->first_operand;
	const uint64_t *offset = program->operand_offset + instruction->first_operand;
	fprintf(out, "  %5u %c %s: %s (", i, again ? '*' : ' ', op_name(graph, instruction->op),
		op_row(op->kind)->name);
	for (uint32_t k = 0; k < op->inputs + op->outputs; k++) {
		if (k == op->inputs)
			fprintf(out, ") -> ");
		else if (k)
			fprintf(out, ", ");
		fprintf(out, "%s@%" PRIu64, tensor_name(graph, tensor[k]), offset[k]);
	}
	if (instruction->workspace_bytes)
		fprintf(out, ", workspace %" PRIu64 "@%" PRIu64, instruction->workspace_bytes,
			instruction->workspace_offset);
	fputc('\n', out);
}

/* An op has run before when its number is in the list of earlier instructions; `seen` is quadratic but needs no memory.
 */
static bool ran_before(const struct program *program, uint32_t i)
{
	for (uint32_t k = 0; k < i; k++)
		if (program->instruction[k].kind == INSTRUCTION_RUN &&
		    program->instruction[k].op == program->instruction[i].op)
			return true;
	return false;
}

static void print_program(const struct program *program, FILE *out)
{
	char peak[BYTES_TEXT], height[BYTES_TEXT], none[BYTES_TEXT];
	double overhead = program->base_time_ns ? (double)program->time_ns / (double)program->base_time_ns - 1.0 : 0.0;
	char shape[32] = "";
	if (program->shape)
		snprintf(shape, sizeof shape, " (shape %u)", program->shape);
	fprintf(out, "\nprogram %s%s: batch %u, %u instructions, %u recomputed (*), +%.1f %% time\n",
		program_name(program->kind), shape, program->batch, program->instructions, program->recomputed_ops,
		100.0 * overhead);
	fprintf(out, "  peak %s, height %s, peak without recomputing %s\n",
		bytes_format(program->peak_bytes, peak, sizeof peak),
		bytes_format(program->height_bytes, height, sizeof height),
		bytes_format(program->none_peak_bytes, none, sizeof none));
	for (uint32_t i = 0; i < program->instructions; i++)
		print_instruction(program, i, ran_before(program, i), out);
}

void plan_print(const struct plan *plan, FILE *out)
{
	print_header(plan, out);
	print_persistents(plan, out);
	for (uint32_t p = 0; p < plan->programs; p++)
		print_program(&plan->program[p], out);
}
