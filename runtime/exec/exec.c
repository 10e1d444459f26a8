/* exec.c - boot: compile and bind every instruction; step: launch them in order. */
#include "exec/exec.h"

#include "base/hash_numbers.h"
#include "base/philox.h"
#include "data/streams.h"

#include <string.h>

_Static_assert(PLAN_COPY_SLOTS <= DRIVER_COPY_SLOTS, "a slot of a plan is a slot of every driver");

static enum tarn_status bind_instruction(struct executor *executor, const struct program *program, uint32_t number,
					 struct bound_instr **bound)
{
	struct device *device = executor->device;
	const struct instruction *instr = &program->instruction[number];
	struct kernel *kernel;
	struct kernel_info info;
	if (instr->kind != INSTRUCTION_RUN)
		return TARN_OK;
	enum tarn_status st = device->ops->compile(device, &program->graph, instr->op, &kernel, &info);
	if (st)
		return st;
	if (info.workspace_bytes > instr->workspace_bytes)
		return tarn_fail(TARN_EVERIFY,
				 "%s, instruction %u (%s): the plan gives it %llu bytes of workspace, this machine's "
				 "kernel needs %llu; make the plan again here, with the same train.threads",
				 program_name(program->kind), number, op_name(&program->graph, instr->op),
				 (unsigned long long)instr->workspace_bytes, (unsigned long long)info.workspace_bytes);
	return device->ops->bind(device, &program->graph, instr->op, kernel,
				 program->operand_offset + instr->first_operand, instr->workspace_offset, bound);
}

static uint32_t operand_count(const struct program *program, uint32_t number)
{
	if (program->instruction[number].kind != INSTRUCTION_RUN)
		return 0;
	const struct op *op = &program->graph.op[program->instruction[number].op];
	return op->inputs + op->outputs;
}

/* A store counts as a read until its wait, a fetch as a write at its start: nothing is poisoned under a copy. */
static bool copy_touches(const struct instruction *copy, bool writes, uint64_t offset, uint64_t bytes)
{
	bool wanted = writes ? copy->kind == INSTRUCTION_FETCH
			     : copy->kind == INSTRUCTION_STORE || copy->kind == INSTRUCTION_STORE_WAIT;
	return wanted && copy->offset < offset + bytes && offset < copy->offset + copy->bytes;
}

/* Does an input of instruction `number` (with `outputs`: an output or its workspace) touch the range? */
static bool touches(const struct program *program, uint32_t number, bool outputs, uint64_t offset, uint64_t bytes)
{
	const struct instruction *instr = &program->instruction[number];
	const struct graph *graph = &program->graph;
	if (instr->kind != INSTRUCTION_RUN)
		return copy_touches(instr, outputs, offset, bytes);
	uint32_t inputs = graph->op[instr->op].inputs;
	uint32_t from = outputs ? inputs : 0, to = outputs ? operand_count(program, number) : inputs;
	for (uint32_t k = from; k < to; k++) {
		uint64_t other = program->operand_offset[instr->first_operand + k];
		uint64_t size = graph->tensor[op_inputs(graph, instr->op)[k]].bytes;
		if (other < offset + bytes && offset < other + size)
			return true;
	}
	return outputs && instr->workspace_bytes && instr->workspace_offset < offset + bytes &&
	       offset < instr->workspace_offset + instr->workspace_bytes;
}

/* The range that instruction `number` has as operand k holds nothing that a later instruction reads. */
static bool dies(const struct program *program, uint32_t number, uint64_t offset, uint64_t bytes)
{
	for (uint32_t later = number + 1; later < program->instructions; later++) {
		if (touches(program, later, false, offset, bytes))
			return false;
		if (touches(program, later, true, offset, bytes))
			return true;
	}
	return true;
}

/* Debug builds: after each instruction, the ranges that died with it. Quadratic, at boot only. */
static enum tarn_status find_dead_ranges(struct executor *executor, uint32_t index, struct host_arena *arena)
{
	const struct program *program = &executor->plan->program[index];
	uint32_t *first = HOST_ARRAY(arena, program->instructions + 1u, uint32_t);
	/* A store's wait, and an op for each operand and its workspace. */
	uint64_t *range =
		HOST_ARRAY(arena, 2 * ((size_t)program->operand_offsets + program->instructions) + 1, uint64_t);
	if (!first || !range)
		return TARN_ENOMEM;
	uint32_t count = 0;
	for (uint32_t number = 0; number < program->instructions; number++) {
		const struct instruction *instr = &program->instruction[number];
		first[number] = count;
		if (instr->kind == INSTRUCTION_STORE_WAIT && dies(program, number, instr->offset, instr->bytes)) {
			range[2 * count] = instr->offset;
			range[2 * count + 1] = instr->bytes;
			count++;
		}
		for (uint32_t k = 0; k < operand_count(program, number); k++) {
			uint64_t offset = program->operand_offset[instr->first_operand + k];
			uint64_t bytes = program->graph.tensor[op_inputs(&program->graph, instr->op)[k]].bytes;
			bool input = k < program->graph.op[instr->op].inputs;
			if (offset < executor->plan->persistent_bytes ||
			    (input && touches(program, number, true, offset, bytes)) ||
			    !dies(program, number, offset, bytes))
				continue;
			range[2 * count] = offset;
			range[2 * count + 1] = bytes;
			count++;
		}
		if (instr->workspace_bytes) {
			range[2 * count] = instr->workspace_offset;
			range[2 * count + 1] = instr->workspace_bytes;
			count++;
		}
	}
	first[program->instructions] = count;
	executor->poison_first[index] = first;
	executor->poison_range[index] = range;
	return TARN_OK;
}

enum tarn_status exec_open(struct executor *executor, const struct plan *plan, struct device *device, void *memory,
			   bool poison, struct host_arena *arena)
{
	memset(executor, 0, sizeof *executor);
	executor->plan = plan;
	executor->device = device;
	executor->poison = poison;
	enum tarn_status st = device->ops->reserve(device, plan->arena_bytes, memory);
	if (!st && plan->host_bytes)
		st = device->ops->reserve_host(device, plan->host_bytes);
	for (uint32_t i = 0; i < plan->programs && !st; i++) {
		const struct program *program = &plan->program[i];
		executor->instr[i] = HOST_ARRAY(arena, program->instructions, struct bound_instr *);
		if (!executor->instr[i])
			return TARN_ENOMEM;
		for (uint32_t number = 0; number < program->instructions && !st; number++)
			st = bind_instruction(executor, program, number, &executor->instr[i][number]);
		if (poison && !st)
			st = find_dead_ranges(executor, i, arena);
	}
	return st;
}

static enum tarn_status poison_after(struct executor *executor, uint32_t index, uint32_t number)
{
	const uint32_t *first = executor->poison_first[index];
	enum tarn_status st = TARN_OK;
	for (uint32_t r = first[number]; r < first[number + 1] && !st; r++)
		st = executor->device->ops->poison(executor->device, executor->poison_range[index][2 * r],
						   executor->poison_range[index][2 * r + 1]);
	return st;
}

enum tarn_status exec_launch(struct executor *executor, uint32_t index, uint32_t number)
{
	struct device *device = executor->device;
	const struct instruction *instr = &executor->plan->program[index].instruction[number];
	switch (instr->kind) {
	case INSTRUCTION_RUN:
		return device->ops->launch(device, executor->instr[index][number]);
	case INSTRUCTION_STORE:
		return device->ops->store(device, instr->offset, instr->host_offset, instr->bytes, instr->slot);
	case INSTRUCTION_FETCH:
		return device->ops->fetch(device, instr->offset, instr->host_offset, instr->bytes, instr->slot);
	default:
		return device->ops->wait(device, instr->slot);
	}
}

static enum tarn_status launch_part(struct executor *executor, uint32_t index, uint32_t first, uint32_t end)
{
	const struct program *program = &executor->plan->program[index];
	for (uint32_t number = first; number < end; number++) {
		enum tarn_status st = exec_launch(executor, index, number);
		if (!st && executor->poison)
			st = poison_after(executor, index, number);
		if (st)
			return tarn_fail_prefix(st, "%s, instruction %u", program_name(program->kind), number);
	}
	return TARN_OK;
}

static enum tarn_status launch_all(struct executor *executor, uint32_t index)
{
	return launch_part(executor, index, 0, executor->plan->program[index].instructions);
}

enum tarn_status exec_run_part(struct executor *executor, uint32_t index, uint32_t first, uint32_t end)
{
	enum tarn_status st = launch_part(executor, index, first, end);
	return st ? st : executor->device->ops->synchronize(executor->device);
}

enum tarn_status exec_run(struct executor *executor, uint32_t index)
{
	struct device *device = executor->device;
	enum tarn_status st;
	if (executor->replay[index])
		st = device->ops->replay(device, executor->replay[index]);
	else
		st = launch_all(executor, index);
	if (!st)
		st = device->ops->synchronize(device);
	return st;
}

/* TARN_EUNSUPPORTED: it cannot be recorded, and will be launched op by op. */
static enum tarn_status record_program(struct executor *executor, uint32_t index)
{
	struct device *device = executor->device;
	enum tarn_status st = device->ops->capture_begin(device);
	if (st)
		return st;
	struct replay *replay = NULL;
	st = launch_all(executor, index);
	enum tarn_status ended = device->ops->capture_end(device, &replay);
	if (ended)
		return ended;
	executor->replay[index] = st ? NULL : replay;
	return st;
}

enum tarn_status exec_rehearse(struct executor *executor, bool record, struct host_arena *arena,
			       const char **unrecorded)
{
	static const unsigned char zeros[4096];
	const struct plan *plan = executor->plan;
	struct device *device = executor->device;
	enum tarn_status st = TARN_OK;
	/* Labels must be labels: 0 is one. */
	for (uint64_t offset = 0; offset < plan->persistent_bytes && !st; offset += sizeof zeros) {
		uint64_t left = plan->persistent_bytes - offset;
		st = device->ops->write(device, offset, zeros, left < sizeof zeros ? left : sizeof zeros);
	}
	*unrecorded = "";
	for (uint32_t i = 0; i < plan->programs && !st; i++) {
		st = exec_run(executor, i);
		if (st || !record || executor->poison || !device->ops->capture_begin)
			continue;
		st = record_program(executor, i);
		if (st != TARN_EUNSUPPORTED)
			continue;
		*unrecorded = host_arena_text(arena, tarn_error());
		st = *unrecorded ? TARN_OK : TARN_ENOMEM;
	}
	return st;
}

static void fill_floats(const struct tensor *tensor, bool hash, uint64_t seed, uint32_t number, float *value)
{
	uint64_t elements = tensor_elements(tensor);
	if (tensor->init != INIT_UNIFORM) {
		for (uint64_t i = 0; i < elements; i++)
			value[i] = tensor->init == INIT_VALUE ? tensor->init_bound
				   : tensor->init == INIT_ONE ? 1.0f
							      : 0.0f;
	} else if (hash) {
		for (uint64_t i = 0; i < elements; i++)
			value[i] = hash_uniform(HASH_SEED_PARAMETER + number, i, tensor->init_bound);
	} else {
		struct philox_block block = { { 0 } };
		for (uint64_t i = 0; i < elements; i++) {
			if (i % 4 == 0)
				block = philox(seed, STREAM_PARAMETER + number, 0, i / 4);
			value[i] = (2.0f * philox_float(block.word[i % 4]) - 1.0f) * tensor->init_bound;
		}
	}
}

/* Finite numbers to the nearest, ties to even. */
static void round_bfloat16(const float *from, uint16_t *to, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		uint32_t bits;
		memcpy(&bits, &from[i], sizeof bits);
		to[i] = (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
	}
}

/* Of the parameter whose average this is; it stands before the average in the table. */
static enum tarn_status read_averaged(struct executor *executor, const char *name, void *value, uint64_t bytes)
{
	const size_t prefix = sizeof AVERAGE_PREFIX - 1;
	if (strncmp(name, AVERAGE_PREFIX, prefix))
		return tarn_fail(TARN_EFORMAT, "plan: %s is initialised as an average and not named as one", name);
	return exec_read(executor, name + prefix, value, bytes);
}

enum tarn_status exec_initialize(struct executor *executor, bool hash, uint64_t seed, struct host_arena *scratch)
{
	const struct plan *plan = executor->plan;
	const struct graph *graph = &plan->program[0].graph;
	uint32_t parameters = 0;
	for (uint32_t i = 0; i < plan->persistents; i++) {
		const struct persistent *persistent = &plan->persistent[i];
		const struct tensor *tensor = &graph->tensor[persistent->tensor];
		struct host_mark mark = host_arena_mark(scratch);
		void *value = host_arena_alloc(scratch, persistent->bytes, 1);
		if (!value)
			return TARN_ENOMEM;
		if (tensor->init == INIT_AVERAGE) {
			enum tarn_status st =
				read_averaged(executor, graph->text + persistent->name, value, persistent->bytes);
			if (st)
				return st;
		} else if (tensor->dtype == DTYPE_F32) {
			fill_floats(tensor, hash, seed, parameters, value);
		} else if (tensor->dtype == DTYPE_BF16) {
			float *wide = HOST_ARRAY(scratch, tensor_elements(tensor), float);
			if (!wide)
				return TARN_ENOMEM;
			fill_floats(tensor, hash, seed, parameters, wide);
			round_bfloat16(wide, value, tensor_elements(tensor));
		}
		if (tensor->role == ROLE_PARAMETER)
			parameters++;
		enum tarn_status st =
			executor->device->ops->write(executor->device, persistent->offset, value, persistent->bytes);
		host_arena_release(scratch, mark);
		if (st)
			return st;
	}
	return executor->device->ops->synchronize(executor->device);
}

const struct persistent *exec_find(const struct executor *executor, const char *name)
{
	const struct plan *plan = executor->plan;
	for (uint32_t i = 0; i < plan->persistents; i++)
		if (!strcmp(plan->program[0].graph.text + plan->persistent[i].name, name))
			return &plan->persistent[i];
	return NULL;
}

/* The tensor, when it exists and `bytes` is at most its size (a short last batch fills a prefix of its slot). */
static const struct persistent *find_sized(const struct executor *executor, const char *name, uint64_t bytes)
{
	const struct persistent *persistent = exec_find(executor, name);
	if (!persistent)
		tarn_fail(TARN_EINVAL, "the plan has no persistent tensor \"%s\"", name);
	else if (bytes > persistent->bytes)
		tarn_fail(TARN_EINVAL, "tensor \"%s\" has %llu bytes, not %llu", name,
			  (unsigned long long)persistent->bytes, (unsigned long long)bytes);
	else
		return persistent;
	return NULL;
}

enum tarn_status exec_write(struct executor *executor, const char *name, const void *source, uint64_t bytes)
{
	const struct persistent *persistent = find_sized(executor, name, bytes);
	if (!persistent)
		return TARN_EINVAL;
	return executor->device->ops->write(executor->device, persistent->offset, source, bytes);
}

enum tarn_status exec_read(struct executor *executor, const char *name, void *target, uint64_t bytes)
{
	const struct persistent *persistent = find_sized(executor, name, bytes);
	if (!persistent)
		return TARN_EINVAL;
	return executor->device->ops->read(executor->device, persistent->offset, target, bytes);
}
