/* nonfinite.c - see nonfinite.h. */
#include "exec/nonfinite.h"

#include "exec/finite.h"
#include "graph/storage.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BUFFER_BYTES ((size_t)1 << 16)

/* What a step hands over or reports anew each time does not last. */
static bool lasts(uint32_t role)
{
	return is_persistent(role) && role != ROLE_STAGING && role != ROLE_SCALARS && role != ROLE_METRIC;
}

/* Does the instruction write a version of a tensor for which `wanted` holds? */
static bool changes(const struct program *program, uint32_t number, bool (*wanted)(uint32_t role))
{
	const struct instruction *instr = &program->instruction[number];
	const struct graph *graph = &program->graph;
	if (instr->kind != INSTRUCTION_RUN)
		return false;
	const struct op *op = &graph->op[instr->op];
	const uint32_t *output = op_inputs(graph, instr->op) + op->inputs;
	for (uint32_t k = 0; k < op->outputs; k++)
		if (wanted(graph->tensor[graph->tensor[output[k]].storage].role))
			return true;
	return false;
}

static bool is_learnt(uint32_t role)
{
	return role == ROLE_PARAMETER || role == ROLE_OPTIMIZER_STATE;
}

static uint32_t find_first_update(const struct program *program)
{
	uint32_t number = 0;
	while (number < program->instructions && !changes(program, number, is_learnt))
		number++;
	return number;
}

enum tarn_status nonfinite_open(struct executor *executor, uint32_t policy, struct host_arena *arena,
				struct nonfinite **nonfinite)
{
	const struct plan *plan = executor->plan;
	struct nonfinite *made = HOST_NEW(arena, struct nonfinite);
	if (!made)
		return TARN_ENOMEM;
	made->executor = executor;
	made->policy = policy;
	made->loss = exec_find(executor, "metric/loss");
	/* With a loss scale the step itself passes over gradients that overflow. */
	if (!exec_find(executor, LOSS_SCALE_STATE))
		made->norm = exec_find(executor, "metric/gradient_norm");
	made->buffer = host_arena_alloc(arena, BUFFER_BYTES, TARN_ALIGNMENT);
	if (policy == NONFINITE_SKIP)
		made->kept = host_arena_alloc(arena, plan->persistent_bytes, TARN_ALIGNMENT);
	if (!made->buffer || (policy == NONFINITE_SKIP && !made->kept))
		return TARN_ENOMEM;
	/* A copy in flight cannot be started again in the middle of a step. */
	for (uint32_t i = 0; i < plan->programs; i++)
		made->first_update[i] = plan->host_bytes || executor->replay[i] ? plan->program[i].instructions
										: find_first_update(&plan->program[i]);
	*nonfinite = made;
	return TARN_OK;
}

/* *element: the first that is not finite; the number of elements when there is none. */
static enum tarn_status look_at(struct nonfinite *nonfinite, const struct tensor *tensor, uint64_t offset,
				uint64_t *element)
{
	struct device *device = nonfinite->executor->device;
	size_t size = dtype_bytes(tensor->dtype);
	uint64_t elements = tensor->bytes / size, piece = BUFFER_BYTES / size, done = 0;
	enum tarn_status st = TARN_OK;
	*element = elements;
	while (dtype_is_real(tensor->dtype) && done < elements && !st) {
		size_t count = (size_t)(elements - done < piece ? elements - done : piece);
		st = device->ops->read(device, offset + done * size, nonfinite->buffer, count * size);
		if (!st)
			st = device->ops->synchronize(device);
		size_t at = st ? count : finite_find_other(tensor->dtype, nonfinite->buffer, count);
		done += at;
		if (at < count) {
			*element = done;
			break;
		}
	}
	return st;
}

enum tarn_status nonfinite_trace(struct nonfinite *nonfinite, uint32_t index, uint32_t end, uint32_t *number,
				 uint32_t *output, uint64_t *element)
{
	struct executor *executor = nonfinite->executor;
	const struct program *program = &executor->plan->program[index];
	const struct graph *graph = &program->graph;
	enum tarn_status st = TARN_OK;
	for (*number = 0; *number < end; ++*number) {
		const struct instruction *instr = &program->instruction[*number];
		if (changes(program, *number, lasts))
			continue;
		st = exec_launch(executor, index, *number);
		if (st)
			return st;
		if (instr->kind != INSTRUCTION_RUN)
			continue;
		const struct op *op = &graph->op[instr->op];
		for (uint32_t k = op->inputs; k < op->inputs + op->outputs && !st; k++) {
			const struct tensor *tensor = &graph->tensor[op_inputs(graph, instr->op)[k]];
			st = look_at(nonfinite, tensor, program->operand_offset[instr->first_operand + k], element);
			*output = k;
			if (!st && *element < tensor->bytes / dtype_bytes(tensor->dtype))
				return TARN_OK;
		}
		if (st)
			return st;
	}
	return st;
}

/* *persistent: the first that lasts and holds a value that is not finite; NULL: none. */
static enum tarn_status find_spoiled(struct nonfinite *nonfinite, const struct persistent **persistent)
{
	const struct plan *plan = nonfinite->executor->plan;
	enum tarn_status st = TARN_OK;
	*persistent = NULL;
	for (uint32_t i = 0; i < plan->persistents && !st; i++) {
		const struct persistent *p = &plan->persistent[i];
		const struct tensor *tensor = &plan->program[0].graph.tensor[p->tensor];
		uint64_t element;
		if (!lasts(p->role))
			continue;
		st = look_at(nonfinite, tensor, p->offset, &element);
		if (!st && element < tensor->bytes / dtype_bytes(tensor->dtype)) {
			*persistent = p;
			return TARN_OK;
		}
	}
	return st;
}

static const char *name_of(const struct nonfinite *nonfinite, const struct persistent *persistent)
{
	return nonfinite->executor->plan->program[0].graph.text + persistent->name;
}

/* The first of what is watched that is not finite: NULL when all are, or when the network has none of it. */
static enum tarn_status look_at_metrics(struct nonfinite *nonfinite, const char **what)
{
	const struct {
		const struct persistent *metric;
		const char *what;
	} watched[] = { { nonfinite->loss, "the loss" }, { nonfinite->norm, "the norm of the gradient" } };
	struct device *device = nonfinite->executor->device;
	*what = NULL;
	for (size_t i = 0; i < sizeof watched / sizeof *watched && !*what; i++) {
		float value = 0;
		if (!watched[i].metric)
			continue;
		enum tarn_status st = device->ops->read(device, watched[i].metric->offset, &value, sizeof value);
		if (st)
			return st;
		if (!isfinite(value)) {
			snprintf(nonfinite->text, sizeof nonfinite->text, "%s is not finite (%g)", watched[i].what,
				 (double)value);
			*what = nonfinite->text;
		}
	}
	return TARN_OK;
}

__attribute__((format(printf, 2, 3))) static void add_text(struct nonfinite *nonfinite, const char *format, ...)
{
	size_t used = strlen(nonfinite->text);
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(nonfinite->text + used, sizeof nonfinite->text - used, format, arguments);
	va_end(arguments);
}

/* Adds where it began to the text. What lasts is as it was before the step. */
static enum tarn_status add_origin(struct nonfinite *nonfinite, uint32_t index, uint32_t end)
{
	const struct program *program = &nonfinite->executor->plan->program[index];
	const struct persistent *spoiled;
	uint32_t number, output;
	uint64_t element;
	enum tarn_status st = find_spoiled(nonfinite, &spoiled);
	if (!st && spoiled) {
		add_text(nonfinite, ": %s was not before this step", name_of(nonfinite, spoiled));
		return TARN_OK;
	}
	if (!st)
		st = nonfinite_trace(nonfinite, index, end, &number, &output, &element);
	if (st)
		return st;
	if (number == end) {
		add_text(nonfinite, ": all results before the updates are");
		return TARN_OK;
	}
	uint32_t op = program->instruction[number].op;
	add_text(nonfinite, ": the first result that is not is %s, by op %s, at element %llu",
		 tensor_name(&program->graph, op_inputs(&program->graph, op)[output]),
		 op_row((enum op_kind)program->graph.op[op].kind)->name, (unsigned long long)element);
	return TARN_OK;
}

/* Without NONFINITE_SKIP: nothing was kept, so a step is looked at before it changes anything. */
static enum tarn_status run_in_two(struct nonfinite *nonfinite, uint32_t index, const char **what)
{
	struct executor *executor = nonfinite->executor;
	uint32_t update = nonfinite->first_update[index], end = executor->plan->program[index].instructions;
	bool whole = update == end;
	enum tarn_status st = whole ? exec_run(executor, index) : exec_run_part(executor, index, 0, update);
	if (!st)
		st = look_at_metrics(nonfinite, what);
	if (!st && *what && !whole)
		st = add_origin(nonfinite, index, update);
	if (st || whole || (*what && nonfinite->policy == NONFINITE_STOP))
		return st;
	st = exec_run_part(executor, index, update, end);
	/* A gradient of which the loss knows nothing: only its norm shows it, which may be computed late. */
	return st || *what ? st : look_at_metrics(nonfinite, what);
}

static enum tarn_status run_and_undo(struct nonfinite *nonfinite, uint32_t index, const char **what)
{
	struct executor *executor = nonfinite->executor;
	struct device *device = executor->device;
	const struct plan *plan = executor->plan;
	const struct persistent *spoiled = NULL;
	enum tarn_status st = device->ops->read(device, 0, nonfinite->kept, plan->persistent_bytes);
	if (!st)
		st = device->ops->synchronize(device);
	if (!st)
		st = exec_run(executor, index);
	if (!st)
		st = look_at_metrics(nonfinite, what);
	if (!st && !*what) {
		st = find_spoiled(nonfinite, &spoiled);
		if (!st && spoiled) {
			snprintf(nonfinite->text, sizeof nonfinite->text, "the step makes %s not finite",
				 name_of(nonfinite, spoiled));
			*what = nonfinite->text;
		}
	}
	if (st || !*what)
		return st;
	st = device->ops->write(device, 0, nonfinite->kept, plan->persistent_bytes);
	if (!st)
		st = add_origin(nonfinite, index, plan->program[index].instructions);
	/* The trace recorded the metrics again; they are what the host last saw of this step. */
	return st ? st : device->ops->synchronize(device);
}

enum tarn_status nonfinite_run(struct nonfinite *nonfinite, uint32_t index, const char **what)
{
	*what = NULL;
	return nonfinite->policy == NONFINITE_SKIP ? run_and_undo(nonfinite, index, what)
						   : run_in_two(nonfinite, index, what);
}
