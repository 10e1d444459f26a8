/* report.c - figures of a plan. */
#include "plan/report.h"

#include <stdio.h>
#include <string.h>

/* The first op at or behind `first` of the part of a task that has this name. */
static uint32_t find_part(const struct program *program, uint32_t first, const char *part)
{
	uint32_t op = first;
	while (op < program->graph.ops && strncmp(op_name(&program->graph, op), part, strlen(part)))
		op++;
	return op;
}

/* Bytes made by the ops of the first inner step that later ones read. Ops that never run cost nothing. */
static uint64_t inner_step_bytes(const struct program *program)
{
	const struct graph *graph = &program->graph;
	uint32_t begin = find_part(program, 0, "task1/inner1/");
	if (begin == graph->ops)
		return 0;
	uint32_t end = find_part(program, begin, "task1/inner2/"), query = find_part(program, begin, "task1/query/");
	uint64_t bytes = 0;
	end = end < query ? end : query;
	for (uint32_t t = 0; t < graph->tensors; t++) {
		const struct tensor *tensor = &graph->tensor[t];
		bool inside = tensor->producer != OP_NONE && tensor->producer >= begin && tensor->producer < end &&
			      tensor->storage == t,
		     read = false;
		for (uint32_t op = end; op < graph->ops && inside && !read; op++)
			for (uint32_t k = 0; k < graph->op[op].inputs && program->cost_ns[op]; k++)
				read |= graph->tensor[op_inputs(graph, op)[k]].storage == t;
		bytes += read ? bytes_align(tensor->bytes) : 0;
	}
	return bytes;
}

void plan_report_fill(const struct plan *plan, struct plan_report *report)
{
	const struct program *train = &plan->program[0];
	report->peak_bytes = plan_peak_bytes(plan);
	report->none_peak_bytes = plan_none_peak_bytes(plan);
	report->transient_peak_bytes = report->peak_bytes - plan->persistent_bytes;
	report->none_transient_peak_bytes = report->none_peak_bytes - plan->persistent_bytes;
	report->min_budget_bytes = plan->min_budget_bytes;
	report->parameter_count = plan_parameter_count(plan);
	report->state_bytes = 0;
	for (uint32_t t = 0; t < train->graph.tensors; t++)
		if (train->graph.tensor[t].role == ROLE_OPTIMIZER_STATE && train->graph.tensor[t].producer == OP_NONE)
			report->state_bytes += train->graph.tensor[t].bytes;
	report->recomputed_ops = train->recomputed_ops;
	report->time_bound_ns = train->time_bound_ns;
	report->peak_bound_bytes = 0;
	for (uint32_t p = 0; p < plan->programs; p++)
		if (plan->program[p].peak_bound_bytes > report->peak_bound_bytes)
			report->peak_bound_bytes = plan->program[p].peak_bound_bytes;
	report->inner_step_bytes = inner_step_bytes(train);
	report->gap = 0.0;
	if (train->time_bound_ns && train->time_ns > train->time_bound_ns)
		report->gap = (double)train->time_ns / (double)train->time_bound_ns - 1.0;
	report->stored_bytes = program_copied_bytes(train, INSTRUCTION_STORE);
	report->fetched_bytes = program_copied_bytes(train, INSTRUCTION_FETCH);
	report->overhead = 0.0;
	if (train->base_time_ns && train->time_ns > train->base_time_ns)
		report->overhead = (double)(train->time_ns - train->base_time_ns) / (double)train->base_time_ns;
}

/* Instructions of the kind minus ops of the kind that run at all. */
static uint32_t extra_runs(const struct program *program, uint32_t kind)
{
	const struct graph *graph = &program->graph;
	uint32_t runs = 0, distinct = 0;
	for (uint32_t i = 0; i < program->instructions; i++) {
		uint32_t op = program->instruction[i].op, earlier = 0;
		if (program->instruction[i].kind != INSTRUCTION_RUN || graph->op[op].kind != kind)
			continue;
		runs++;
		while (earlier < i && (program->instruction[earlier].kind != INSTRUCTION_RUN ||
				       program->instruction[earlier].op != op))
			earlier++;
		distinct += earlier == i;
	}
	return runs - distinct;
}

void plan_recomputed_text(const struct program *program, char *buffer, size_t size)
{
	uint32_t extra[OP_KINDS];
	size_t used = 0;
	buffer[0] = '\0';
	for (uint32_t kind = 0; kind < OP_KINDS; kind++)
		extra[kind] = extra_runs(program, kind);
	for (;;) {
		uint32_t most = 0;
		for (uint32_t kind = 1; kind < OP_KINDS; kind++)
			if (extra[kind] > extra[most])
				most = kind;
		if (!extra[most] || used >= size)
			return;
		used += (size_t)snprintf(buffer + used, size - used, "%s%u %s", used ? ", " : "", extra[most],
					 op_row(most)->name);
		extra[most] = 0;
	}
}
