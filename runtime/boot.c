/* boot.c - the pipeline: config -> graphs -> schedules -> offsets -> plan -> verify. */
#include "boot.h"

#include "boot_question.h"
#include "autodiff/curvature.h"
#include "autodiff/laplace.h"
#include "autodiff/maml.h"
#include "base/cpu_clock.h"
#include "data/dataset.h"
#include "graph/build.h"
#include "planner/assemble.h"
#include "planner/certify.h"
#include "planner/cost_table.h"
#include "planner/dag_dump.h"
#include "planner/offload.h"
#include "verify/verify.h"

#include <string.h>

/* Stage 1, 2: the graphs of every program that the data ask for. */
static enum tarn_status add_program(const struct config *config, const struct sample_shape *whole,
				    enum program_kind kind, uint32_t batch, uint32_t size, struct host_arena *arena,
				    struct plan *plan)
{
	struct program *program = &plan->program[plan->programs];
	const struct sample_shape shape = dataset_shape(config, whole, size);
	program->kind = kind;
	program->batch = batch;
	program->shape = size;
	enum tarn_status st = graph_init(&program->graph, arena);
	if (st)
		return st;
	bool train = kind == PROGRAM_TRAIN || kind == PROGRAM_TRAIN_LAST;
	if (train && config->objective.type == OBJECTIVE_HVP)
		st = curvature_build(config, &shape, batch, arena, &program->graph);
	else if (config->objective.type == OBJECTIVE_LAPLACE)
		st = laplace_build(config, &shape, batch, arena, &program->graph);
	else if (config->objective.type == OBJECTIVE_MAML)
		st = maml_build(config, &shape, train, arena, &program->graph);
	else if (train && config->objective.type == OBJECTIVE_INFERENCE)
		st = inference_build(config, &shape, batch, arena, &program->graph);
	else if (train)
		st = training_build(config, &shape, batch, arena, &program->graph);
	else
		st = evaluation_build(config, &shape, batch, arena, &program->graph);
	if (!st)
		st = graph_check(&program->graph);
	if (!st)
		plan->programs++;
	return st;
}

/* A full batch and, where the samples are no multiple of it, the last one; full ones of the smaller shapes. */
static enum tarn_status add_programs(const struct config *config, const struct sample_shape *shape, uint32_t samples,
				     bool train, struct host_arena *arena, struct plan *plan)
{
	uint32_t batch = config->data.batch < samples ? config->data.batch : samples;
	if (config->objective.type == OBJECTIVE_MAML && samples) /* tasks are drawn: every step has as many */
		return add_program(config, shape, train ? PROGRAM_TRAIN : PROGRAM_EVALUATE, maml_batch(config), 0,
				   arena, plan);
	uint32_t last = batch ? samples % batch : 0;
	enum tarn_status st = TARN_OK;
	if (batch)
		st = add_program(config, shape, train ? PROGRAM_TRAIN : PROGRAM_EVALUATE, batch, 0, arena, plan);
	if (last && !st && !(train && config->data.drop_last))
		st = add_program(config, shape, train ? PROGRAM_TRAIN_LAST : PROGRAM_EVALUATE_LAST, last, 0, arena,
				 plan);
	for (uint32_t size = 1; train && size < config->data.shapes.count && !st; size++)
		st = add_program(config, shape, PROGRAM_TRAIN, batch, size, arena, plan);
	return st;
}

/* Layers whose weights depend on the size of samples have others for each of data.shapes. */
static enum tarn_status check_parameters(const struct config *config, const struct plan *plan)
{
	const struct graph *first = &plan->program[0].graph;
	for (uint32_t p = 1; p < plan->programs; p++) {
		const struct graph *graph = &plan->program[p].graph;
		for (uint32_t t = 0; t < graph->tensors && plan->program[p].shape; t++) {
			const struct tensor *tensor = &graph->tensor[t], *other;
			if (tensor->role != ROLE_PARAMETER || tensor->producer != OP_NONE)
				continue;
			uint32_t found = graph_find(first, tensor_name(graph, t));
			other = found == TENSOR_NONE ? NULL : &first->tensor[found];
			char here[SHAPE_TEXT], there[SHAPE_TEXT] = "absent";
			if (other && tensor->rank == other->rank &&
			    !memcmp(tensor->dim, other->dim, tensor->rank * sizeof *tensor->dim))
				continue;
			if (other)
				shape_format(other->dim, other->rank, there, sizeof there);
			return tarn_fail(
				TARN_EINVAL,
				"data.shapes: %s is %s with samples of %u but %s with those of %u; the "
				"parameters of the network must not depend on the size of its input",
				tensor_name(graph, t), shape_format(tensor->dim, tensor->rank, here, sizeof here),
				config->data.shapes.item[plan->program[p].shape], there, config->data.shapes.item[0]);
		}
	}
	return TARN_OK;
}

static enum tarn_status build_graphs(const struct config *config, struct host_arena *arena, struct plan *plan)
{
	uint32_t train_samples, test_samples;
	struct sample_shape shape;
	enum tarn_status st = dataset_describe(config, arena, &train_samples, &test_samples, &shape);
	if (st)
		return config_fail_place(config, st);
	if (config->data.batch > train_samples && config->objective.type != OBJECTIVE_MAML)
		return config_fail_place(
			config,
			tarn_fail(TARN_EINVAL,
				  "data.batch is %u but there are only %u training samples; lower it to at most %u",
				  config->data.batch, train_samples, train_samples));
	st = add_programs(config, &shape, train_samples, true, arena, plan);
	if (st || config->objective.type == OBJECTIVE_HVP)
		return st;
	st = check_parameters(config, plan);
	if (st)
		return config_fail_place(config, st);
	return add_programs(config, &shape, test_samples, false, arena, plan);
}

/* Stage 3: what each op needs on this device and costs there, as measured or else as the driver estimates. */
static enum tarn_status compile_ops(const struct graph *graph, struct device *device, const struct cost_table *costs,
				    struct host_arena *arena, struct kernel_info **out)
{
	struct kernel_info *info = HOST_ARRAY(arena, graph->ops, struct kernel_info);
	uint8_t *needed;
	if (!info)
		return TARN_ENOMEM;
	enum tarn_status st = graph_needed_ops(graph, arena, &needed);
	for (uint32_t op = 0; op < graph->ops && !st; op++) {
		struct kernel *kernel;
		if (!needed[op] || op_row(graph->op[op].kind)->view)
			continue;
		st = device->ops->compile(device, graph, op, &kernel, &info[op]);
		if (!st)
			cost_table_find(costs, graph, op, &info[op].cost_ns);
	}
	*out = info;
	return st;
}

static bool is_training(const struct program *program)
{
	return program->kind == PROGRAM_TRAIN || program->kind == PROGRAM_TRAIN_LAST;
}

/* What the budget leaves for the arena; on a device without memory of its own all of it. */
struct memory_limits {
	struct device_overhead overhead;
	uint64_t budget; /* of everything; UINT64_MAX: none */
	uint64_t arena;  /* of the arena alone */
};

/* `auto` leaves so much of a device's memory to what cannot be foreseen, such as another process that grows a little.
 */
#define AUTO_MARGIN(free_bytes) ((free_bytes) / 64)

/* The budget that an arena of so many bytes takes. */
static uint64_t with_overhead(const struct memory_limits *limits, uint64_t arena_bytes)
{
	const struct device_overhead *overhead = &limits->overhead;
	return overhead->bytes + overhead->reserve + arena_bytes;
}

/* After the last compile: libraries have loaded what choosing kernels needs. */
static enum tarn_status find_limits(const struct config *config, struct device *device, struct memory_limits *limits)
{
	struct device_overhead *overhead = &limits->overhead;
	*overhead = (struct device_overhead){ .free_bytes = UINT64_MAX };
	enum tarn_status st = device->ops->overhead ? device->ops->overhead(device, overhead) : TARN_OK;
	if (st)
		return st;
	limits->budget = config->memory.budget;
	if (limits->budget == BUDGET_AUTO && overhead->free_bytes == UINT64_MAX)
		return tarn_fail(TARN_EINVAL,
				 "%smemory.budget: auto asks a device with memory of its own what it has free, and the "
				 "%s driver has none; write a size such as 24 MiB, or unlimited",
				 config->budget_place, device->ops->name);
	if (limits->budget == BUDGET_AUTO)
		limits->budget = overhead->bytes + overhead->free_bytes - AUTO_MARGIN(overhead->free_bytes);
	limits->arena = limits->budget;
	if (limits->budget == UINT64_MAX)
		return TARN_OK;
	uint64_t beside = overhead->bytes + overhead->reserve;
	limits->arena = limits->budget > beside ? limits->budget - beside : 0;
	return TARN_OK;
}

/* What is left for the transient tensors of a program. */
static uint64_t transient_budget(const struct memory_limits *limits, const struct plan *plan)
{
	if (limits->arena == UINT64_MAX)
		return UINT64_MAX;
	return limits->arena > plan->persistent_bytes ? limits->arena - plan->persistent_bytes : 0;
}

/* Without places that outputs may take over. */
static enum tarn_status forbid_in_place(struct problem *problem, struct host_arena *arena)
{
	struct problem_op *op = HOST_ARRAY(arena, problem->ops + 1u, struct problem_op);
	if (!op)
		return TARN_ENOMEM;
	memcpy(op, problem->op, problem->ops * sizeof *op);
	for (uint32_t o = 0; o < problem->ops; o++)
		op[o].in_place = 0;
	problem->op = op;
	return TARN_OK;
}

enum tarn_status boot_question(const struct config *config, const struct plan *plan, const struct program *program,
			       struct device *device, struct host_arena *arena, struct boot_question *out)
{
	struct cost_table costs = { 0 };
	struct kernel_info *info;
	uint8_t *keep = NULL;
	struct memory_limits limits;
	enum tarn_status st = TARN_OK;
	if (config->costs[0])
		st = cost_table_load(config->costs, device->ops->name, device->ops->threads(device), arena, &costs);
	if (st)
		return tarn_fail_prefix(st, "device.costs");
	st = compile_ops(&program->graph, device, &costs, arena, &info);
	if (!st)
		st = graph_problem_build(&program->graph, info, arena, &out->graph_problem);
	out->problem = out->graph_problem.problem;
	if (!st && !config->memory.in_place)
		st = forbid_in_place(&out->problem, arena);
	if (!st)
		st = find_limits(config, device, &limits);
	if (st)
		return st;
	out->request = (struct planner_request){ .problem = &out->problem,
						 .strategy = config->memory.recompute,
						 .effort = config->memory.effort,
						 .budget = transient_budget(&limits, plan) };
	if (!is_training(program) && out->request.strategy != STRATEGY_MIN)
		out->request.strategy = STRATEGY_AUTO; /* the strategies are about training; evaluation has to fit */
	if (out->request.strategy == STRATEGY_MANUAL)
		st = graph_problem_keep(&program->graph, &out->graph_problem, &config->memory.keep, arena, &keep);
	out->request.keep = keep;
	return st;
}

struct program_plan {
	struct boot_question question;
	struct planner_result result;
	struct offload_result offload;
};

static uint64_t copy_bandwidth(const struct config *config, const struct device *device)
{
	uint64_t given = config->memory.offload_bandwidth;
	return given ? given : device->ops->copy_bandwidth(device);
}

/* Without offload the planner alone; with it, copies where they help. */
static enum tarn_status plan_request(const struct config *config, const struct device *device,
				     const struct planner_request *request, struct host_arena *arena,
				     struct program_plan *out)
{
	struct offload_options options = { .bandwidth = copy_bandwidth(config, device),
					   .host_limit = config->memory.offload_limit };
	if (config->memory.offload)
		return offload_run(request, &options, arena, &out->result, &out->offload);
	out->offload = (struct offload_result){ .problem = *request->problem, .min_budget = UINT64_MAX };
	return planner_run(request, arena, &out->result);
}

/* Stage 4, 5: schedule and offsets of one program. TARN_EBUDGET leaves the figures of the shortfall in result. */
static enum tarn_status plan_program_memory(const struct config *config, const struct device *device,
					    struct host_arena *arena, struct program_plan *part)
{
	enum tarn_status st = plan_request(config, device, &part->question.request, arena, part);
#ifdef CONFIG_DEBUG_CHECKS
	const struct expansion *expansion = &part->result.expansion;
	if (!st)
		st = schedule_check(&part->offload.problem, &part->result.schedule);
	if (!st)
		st = pack_check(expansion->buffer, expansion->buffers, part->result.offset, part->result.height);
#endif
	return st;
}

/* Asks about every program first: only then has the device all that compiling took. */
static enum tarn_status ask_questions(const struct config *config, struct device *device, struct host_arena *arena,
				      struct plan *plan, struct program_plan *part, struct memory_limits *limits)
{
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 0; i < plan->programs && !st; i++)
		st = boot_question(config, plan, &plan->program[i], device, arena, &part[i].question);
	if (!st)
		st = find_limits(config, device, limits);
	for (uint32_t i = 0; i < plan->programs && !st; i++)
		part[i].question.request.budget = transient_budget(limits, plan);
	return st;
}

static enum tarn_status assemble_plan(const struct config *config, struct host_arena *arena, struct plan *plan,
				      const struct program_plan *part)
{
	for (uint32_t i = 0; i < plan->programs; i++) {
		struct program *program = &plan->program[i];
		/* No bound that a budget gives holds for plans with copies. */
		uint64_t budget = config->memory.offload ? UINT64_MAX : part[i].question.request.budget;
		enum tarn_status st = assemble_program(plan, &part[i].question.graph_problem, &part[i].result,
						       &part[i].offload, arena, program);
		if (!st)
			st = certify_program(plan, &part[i].question.graph_problem, budget, arena, program);
		if (st)
			return st;
		if (program->height_bytes > plan->arena_bytes)
			plan->arena_bytes = program->height_bytes;
		if (part[i].offload.host_bytes > plan->host_bytes)
			plan->host_bytes = part[i].offload.host_bytes;
	}
	return TARN_OK;
}

static enum tarn_status plan_memory(const struct config *config, struct device *device, struct host_arena *arena,
				    struct plan *plan, struct plan_report *report)
{
	struct program_plan part[PLAN_MAX_PROGRAMS];
	struct memory_limits limits;
	memset(part, 0, sizeof part);
	bool refused = false;
	enum tarn_status st = ask_questions(config, device, arena, plan, part, &limits);
	if (st)
		return st;
	plan->budget_bytes = limits.arena;
	report->overhead_bytes = limits.overhead.bytes;
	report->reserve_bytes = device->ops->overhead ? limits.overhead.reserve : 0;
	plan->min_budget_bytes = with_overhead(&limits, plan->persistent_bytes);
	struct boot_shortfall shortfall = { .overhead = &limits.overhead,
					    .budget = limits.budget,
					    .needed = plan->min_budget_bytes,
					    .auto_bytes = plan->min_budget_bytes,
					    .question = &part[0].question };
	for (uint32_t i = 0; i < plan->programs; i++) {
		double start = cpu_clock_ms();
		st = plan_program_memory(config, device, arena, &part[i]);
		report->plan_ms += cpu_clock_ms() - start;
		report->pack_ms += part[i].result.pack_ms;
		report->fell_back = report->fell_back || part[i].result.fell_back;
		if (st && st != TARN_EBUDGET)
			return st;
		refused = refused || st == TARN_EBUDGET;
		uint64_t least = with_overhead(&limits, plan->persistent_bytes + part[i].result.min_budget);
		uint64_t fixed = with_overhead(&limits, plan->persistent_bytes + part[i].result.height);
		shortfall.auto_bytes = least > shortfall.auto_bytes ? least : shortfall.auto_bytes;
		least = boot_is_flexible(config) || !is_training(&plan->program[i]) ? least : fixed;
		if (least > plan->min_budget_bytes) {
			plan->min_budget_bytes = least;
			shortfall.program = i;
			shortfall.question = &part[i].question;
		}
		/* The figures of a plan are without offload; what is asked for here may be less with it. */
		if (part[i].offload.min_budget < least - with_overhead(&limits, plan->persistent_bytes))
			least = with_overhead(&limits, plan->persistent_bytes + part[i].offload.min_budget);
		if (least > shortfall.needed) {
			shortfall.needed = least;
			shortfall.needed_shape = plan->program[i].shape;
		}
		if (plan->program[i].kind == PROGRAM_TRAIN && least <= limits.budget && plan->program[i].shape &&
		    (!shortfall.fitting_shape || plan->program[i].shape < shortfall.fitting_shape))
			shortfall.fitting_shape = plan->program[i].shape;
	}
	if (refused || shortfall.needed > limits.budget)
		return boot_refuse_budget(config, plan, &shortfall, arena);
	double start = cpu_clock_ms();
	st = assemble_plan(config, arena, plan, part);
	plan->copy_bandwidth = plan->host_bytes ? copy_bandwidth(config, device) : 0;
	report->plan_ms += cpu_clock_ms() - start;
	return st;
}

/* The identity stands behind the driver's name, as in a plan file. */
static enum tarn_status name_device(const struct device *device, struct host_arena *arena, struct plan *plan)
{
	const char *name = device->ops->name, *identity = device->identity ? device->identity : "";
	size_t bytes = strlen(name) + 1;
	char *text = host_arena_alloc(arena, bytes + strlen(identity) + 1, 1);
	if (!text)
		return TARN_ENOMEM;
	plan->driver = strcpy(text, name);
	plan->device = strcpy(text + bytes, identity);
	return TARN_OK;
}

static enum tarn_status plan_all(const struct config *config, struct device *device, struct host_arena *arena,
				 struct plan *plan, struct plan_report *report)
{
	memset(plan, 0, sizeof *plan);
	memset(report, 0, sizeof *report);
	double start = cpu_clock_ms();
	enum tarn_status st = build_graphs(config, arena, plan);
	if (!st)
		st = assemble_persistent(plan, arena);
	report->plan_ms = cpu_clock_ms() - start;
	if (!st)
		st = plan_memory(config, device, arena, plan, report);
	if (st)
		return st;
	start = cpu_clock_ms();
	st = name_device(device, arena, plan);
	if (st)
		return st;
	plan->threads = device->ops->threads(device);
	plan->alignment = (uint32_t)TARN_ALIGNMENT;
	plan->strategy = config->memory.recompute;
	plan->config_lines = config_to_lines(config, arena);
	if (!plan->config_lines)
		return TARN_ENOMEM;
	plan_seal(plan);
	st = verify_plan(plan, arena);
	plan_report_fill(plan, report);
	report->plan_ms += cpu_clock_ms() - start;
	return st;
}

/* Meta-learning does not fit: says with how many inner steps it would. */
static enum tarn_status refuse_inner_steps(const struct config *config, struct device *device, struct host_arena *arena)
{
	uint32_t fits = 0, too_many = config->objective.inner_steps;
	const char *sentence = host_arena_text(arena, tarn_error());
	if (!sentence)
		return TARN_ENOMEM;
	while (too_many - fits > 1) {
		/* Nothing is given back to the arena: the device keeps the kernels that it compiles there. */
		struct config trial = *config;
		struct plan plan;
		struct plan_report report;
		trial.objective.inner_steps = fits + (too_many - fits) / 2;
		tarn_error_clear();
		enum tarn_status st = plan_all(&trial, device, arena, &plan, &report);
		if (st && st != TARN_EBUDGET)
			return st;
		*(st ? &too_many : &fits) = trial.objective.inner_steps;
	}
	tarn_error_clear();
	if (!fits)
		return tarn_fail(TARN_EBUDGET, "%s; not even objective.inner_steps: 1 fits", sentence);
	return tarn_fail(TARN_EBUDGET, "%s; objective.inner_steps: %u is the most that fits", sentence, fits);
}

enum tarn_status boot_plan(const struct config *config, struct device *device, struct host_arena *arena,
			   struct plan *plan, struct plan_report *report)
{
	enum tarn_status st = plan_all(config, device, arena, plan, report);
	if (st == TARN_EBUDGET && config->objective.type == OBJECTIVE_MAML)
		st = refuse_inner_steps(config, device, arena);
	return st;
}

/* As a file's reader sees it: what another op reads runs for that op's sake. */
static void require_unread_only(struct problem *problem)
{
	for (uint32_t o = 0; o < problem->ops; o++)
		for (uint32_t i = 0; i < problem->op[o].inputs; i++)
			problem->op[problem->value[problem_inputs(problem, o)[i]].producer].required = false;
}

/* As `tarn dag` asks: no addresses, nothing in place, its usual effort. */
static enum tarn_status plan_abstract(struct boot_question *question, struct host_arena *scratch, uint64_t *time_ns)
{
	struct planner_result result;
	struct planner_request request = { .problem = &question->problem,
					   .budget = question->request.budget,
					   .effort = EFFORT_NORMAL,
					   .sum_of_bytes = true,
					   .skip_least = true };
	enum tarn_status st = forbid_in_place(&question->problem, scratch);
	if (st)
		return st;
	require_unread_only(&question->problem);
	st = planner_run(&request, scratch, &result);
	*time_ns = st ? UINT64_MAX : result.time_ns;
	if (st == TARN_EBUDGET)
		tarn_error_clear();
	return st == TARN_EBUDGET ? TARN_OK : st;
}

enum tarn_status boot_dump_dag(const struct config *config, struct device *device, const struct plan *plan,
			       struct host_arena *scratch, const char *path, uint64_t *time_ns)
{
	struct host_mark mark = host_arena_mark(scratch);
	struct boot_question question;
	enum tarn_status st = boot_question(config, plan, &plan->program[0], device, scratch, &question);
	if (!st)
		st = dag_dump(plan, &plan->program[0], &question.graph_problem, scratch, path);
	if (!st)
		st = plan_abstract(&question, scratch, time_ns);
	host_arena_release(scratch, mark);
	return st;
}
