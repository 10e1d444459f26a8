/* boot_refuse.c - what to say when the budget is too small. */
#include "boot_question.h"

#include "plan/explain.h"
#include "planner/assemble.h"

#include <stdio.h>

/* Things named in the message beside the persistent part. */
#define CONTRIBUTORS 3u
#define SENTENCE 600

/* The program as it would be with the smallest budget: where its peak is. Empty when that cannot be said. */
static void describe_least(struct plan *plan, uint32_t index, struct boot_question *question, struct host_arena *arena,
			   char text[SENTENCE])
{
	struct program *program = &plan->program[index];
	struct planner_request request = question->request;
	struct planner_result result;
	struct offload_result no_copies = { .problem = question->problem, .min_budget = UINT64_MAX };
	struct plan_explanation explanation;
	text[0] = '\0';
	if (request.strategy == STRATEGY_AUTO)
		request.strategy = STRATEGY_MIN;
	request.budget = UINT64_MAX;
	enum tarn_status st = planner_run(&request, arena, &result);
	if (!st)
		st = assemble_program(plan, &question->graph_problem, &result, &no_copies, arena, program);
	program->cost_ns = HOST_ARRAY(arena, program->graph.ops, uint64_t);
	if (!st && program->cost_ns && program->instructions && !plan_explain(plan, program, arena, &explanation))
		plan_peak_sentence(&explanation, CONTRIBUTORS, text, SENTENCE);
	tarn_error_clear();
}

/* Would more parts of a batch be another way, with the same mathematics? */
static bool can_be_parted(const struct config *config, const struct graph *graph)
{
	if (config->objective.type != OBJECTIVE_LOSS) /* their totals are sums of more than losses */
		return false;
	for (uint32_t op = 0; op < graph->ops && config->train.microbatch_norm == MICROBATCH_NORM_REFUSE; op++)
		if (graph->op[op].kind == OP_BATCH_STATS)
			return false;
	return config->memory.microbatches == MICROBATCHES_GIVEN && config->train.accumulate < graph->batch;
}

enum tarn_status boot_refuse_budget(const struct config *config, struct plan *plan,
				    const struct boot_shortfall *shortfall, struct host_arena *arena)
{
	char minimum[BYTES_TEXT], budget[BYTES_TEXT], other[BYTES_TEXT], ways[512] = "", largest[SENTENCE] = "";
	uint32_t batch = plan->program[0].batch;
	size_t used = 0;
	/* With offload the peak is another one. */
	if (!config->memory.offload)
		describe_least(plan, shortfall->program, shortfall->question, arena, largest);
	if (shortfall->overhead->bytes)
		used += (size_t)snprintf(
			ways, sizeof ways,
			", of which the device's context, code and handles take %llu and device.reserve %llu",
			(unsigned long long)shortfall->overhead->bytes,
			(unsigned long long)shortfall->overhead->reserve);
	if (shortfall->auto_bytes < shortfall->needed)
		used += (size_t)snprintf(ways + used, sizeof ways - used,
					 "; memory.recompute: auto gets by with %llu bytes (%s)",
					 (unsigned long long)shortfall->auto_bytes,
					 bytes_format(shortfall->auto_bytes, other, sizeof other));
	const struct size_list *shapes = &config->data.shapes;
	if (shapes->count)
		used += (size_t)snprintf(ways + used, sizeof ways - used, "; of data.shapes %u needs that much",
					 shapes->item[shortfall->needed_shape]);
	if (shapes->count && shortfall->fitting_shape)
		used += (size_t)snprintf(ways + used, sizeof ways - used, ", %u fits",
					 shapes->item[shortfall->fitting_shape]);
	if (batch > 1 && config->objective.type != OBJECTIVE_MAML)
		snprintf(ways + used, sizeof ways - used, "; a data.batch below %u%s needs less", batch,
			 can_be_parted(config, &plan->program[0].graph) ? ", or a larger train.accumulate," : "");
	return tarn_fail(
		TARN_EBUDGET,
		"%smemory.budget: %s (%llu bytes) is too small; the smallest that plans with memory.recompute: %s%s is "
		"%llu bytes (%s)%s%s%s",
		config->budget_place, bytes_format(shortfall->budget, budget, sizeof budget),
		(unsigned long long)shortfall->budget, strategy_name(config->memory.recompute),
		config->memory.offload ? " and memory.offload: true" : "", (unsigned long long)shortfall->needed,
		bytes_format(shortfall->needed, minimum, sizeof minimum), largest[0] ? "; with that, " : "", largest,
		ways);
}
