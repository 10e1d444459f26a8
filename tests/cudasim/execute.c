/*
 * execute.c - commands: what queues them (launches, copies, fills, library functions) and what they do at their turn.
 */
#include "simulator.h"

#include <stdio.h>
#include <string.h>

SIM_EXPORT int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
			      unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream,
			      void **parameters, void **extra);
SIM_EXPORT int cuMemcpyHtoDAsync_v2(uint64_t target, const void *source, size_t bytes, void *stream);
SIM_EXPORT int cuMemcpyDtoHAsync_v2(void *target, uint64_t source, size_t bytes, void *stream);
SIM_EXPORT int cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, size_t bytes, void *stream);
SIM_EXPORT int cuMemcpyHtoD_v2(uint64_t target, const void *source, size_t bytes);
SIM_EXPORT int cuMemcpyDtoH_v2(void *target, uint64_t source, size_t bytes);
SIM_EXPORT int cuMemsetD8Async(uint64_t target, unsigned char value, size_t count, void *stream);
SIM_EXPORT int cuMemsetD32Async(uint64_t target, unsigned value, size_t count, void *stream);

/* ---- Launches ---- */

static const char *bad_shape(const struct function *function, const struct launch_shape *shape)
{
	const uint32_t *grid = shape->grid, *block = shape->block;
	uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
	if (!grid[0] || !grid[1] || !grid[2] || threads == 0)
		return "a grid or block without threads";
	if (grid[0] > INT32_MAX || grid[1] > 65535 || grid[2] > 65535 || block[2] > 64 || threads > MAX_BLOCK_THREADS)
		return "a grid or block too large for the device";
	if ((uint64_t)grid[0] * grid[1] * grid[2] >= PLACE_ANYWHERE)
		return "a grid too large for the simulation";
	if (threads > function->kernel->max_threads)
		return "a block larger than the kernel was compiled for (.maxntid)";
	if (shape->dynamic_shared_bytes > function->max_dynamic_shared)
		return "more dynamic shared memory than the function may have";
	return NULL;
}

static bool gather_parameters(const struct ptx_kernel *kernel, void **parameters, void **extra, uint8_t *target)
{
	if (parameters) {
		for (uint32_t i = 0; i < kernel->parameters; i++)
			memcpy(target + kernel->parameter[i].offset, parameters[i], kernel->parameter[i].bytes);
		return true;
	}
	const void *buffer = NULL;
	size_t bytes = 0;
	for (uint32_t i = 0; extra && extra[i]; i += 2) {
		if (extra[i] == SIM_CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[i + 1];
		else if (extra[i] == SIM_CU_LAUNCH_PARAM_BUFFER_SIZE)
			bytes = *(const size_t *)extra[i + 1];
	}
	if (bytes > MAX_PARAMETER_BYTES || (bytes < kernel->parameter_bytes))
		return false;
	if (bytes)
		memcpy(target, buffer, bytes);
	return true;
}

static int queue_launch(struct function *function, const struct launch_shape *shape, struct stream *stream,
			void **parameters, void **extra)
{
	const char *why = bad_shape(function, shape);
	if (why) {
		note_failure("cuLaunchKernel of %s: %s", function->kernel->name, why);
		return SIM_CUDA_ERROR_INVALID_VALUE;
	}
	int error = function_load(function);
	if (error)
		return error;
	struct command *command = command_new(stream, COMMAND_LAUNCH);
	if (!command)
		return simulator.sticky ? simulator.sticky : SIM_CUDA_ERROR_LAUNCH_TIMEOUT;
	command->function = function;
	command->shape = *shape;
	if (function->kernel->parameter_bytes > MAX_PARAMETER_BYTES ||
	    !gather_parameters(function->kernel, parameters, extra, command->parameter)) {
		note_failure("cuLaunchKernel of %s: its %u bytes of parameters are not all given",
			     function->kernel->name, function->kernel->parameter_bytes);
		return SIM_CUDA_ERROR_INVALID_VALUE;
	}
	return command_queue(stream, command);
}
int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
		   unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **parameters,
		   void **extra)
{
	const struct launch_shape shape = { { grid_x, grid_y, grid_z }, { block_x, block_y, block_z }, shared_bytes };
	CALL(0, queue_launch(function, &shape, stream_of(stream), parameters, extra));
}

/* ---- Copies and fills ---- */

static int queue_transfer(struct stream *stream, enum command_kind kind, uint64_t target, uint64_t source,
			  uint64_t bytes, uint32_t value, uint32_t value_bytes)
{
	if (bytes == 0)
		return 0;
	struct command *command = command_new(stream, kind);
	if (!command)
		return simulator.sticky ? simulator.sticky : SIM_CUDA_ERROR_LAUNCH_TIMEOUT;
	command->target = target;
	command->source = source;
	command->bytes = bytes;
	command->value = value;
	command->value_bytes = value_bytes;
	simulator.count[SIM_COPIES] += kind != COMMAND_DEAD;
	return command_queue(stream, command);
}

static bool is_pinned(const void *memory, size_t bytes)
{
	const struct memory_region *region = memory_find(&simulator.memory, (uint64_t)(uintptr_t)memory, bytes);
	return region && region->kind == MEMORY_HOST && region->alive;
}

/* A copy with memory that is not page-locked is no asynchronous one: CUDA works off the stream and copies. */
static int host_copy(struct stream *stream, enum command_kind kind, uint64_t target, uint64_t source, const void *host,
		     size_t bytes)
{
	bool pinned = bytes == 0 || is_pinned(host, bytes);
	if (!pinned && stream->capture) {
		capture_invalidate_all("a copy with host memory that is not page-locked");
		return SIM_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	int error = queue_transfer(stream, kind, target, source, bytes, 0, 0);
	return error || pinned ? error : drain(stream);
}
int cuMemcpyHtoDAsync_v2(uint64_t target, const void *source, size_t bytes, void *stream)
{
	CALL(0, host_copy(stream_of(stream), COMMAND_COPY_IN, target, (uint64_t)(uintptr_t)source, source, bytes));
}
int cuMemcpyDtoHAsync_v2(void *target, uint64_t source, size_t bytes, void *stream)
{
	CALL(0, host_copy(stream_of(stream), COMMAND_COPY_OUT, (uint64_t)(uintptr_t)target, source, target, bytes));
}
int cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, size_t bytes, void *stream)
{
	CALL(0, queue_transfer(stream_of(stream), COMMAND_COPY, target, source, bytes, 0, 0));
}

static int synchronous_copy(enum command_kind kind, uint64_t target, uint64_t source, const void *host, size_t bytes)
{
	int error = host_copy(&simulator.default_stream, kind, target, source, host, bytes);
	return error ? error : drain(&simulator.default_stream);
}
int cuMemcpyHtoD_v2(uint64_t target, const void *source, size_t bytes)
{
	CALL(CALL_NOT_IN_CAPTURE,
	     synchronous_copy(COMMAND_COPY_IN, target, (uint64_t)(uintptr_t)source, source, bytes));
}
int cuMemcpyDtoH_v2(void *target, uint64_t source, size_t bytes)
{
	CALL(CALL_NOT_IN_CAPTURE,
	     synchronous_copy(COMMAND_COPY_OUT, (uint64_t)(uintptr_t)target, source, target, bytes));
}
int cuMemsetD8Async(uint64_t target, unsigned char value, size_t count, void *stream)
{
	CALL(0, queue_transfer(stream_of(stream), COMMAND_FILL, target, 0, count, value, 1));
}
int cuMemsetD32Async(uint64_t target, unsigned value, size_t count, void *stream)
{
	CALL(0, queue_transfer(stream_of(stream), COMMAND_FILL, target, 0, 4 * count, value, 4));
}

/* ---- Operations: a group of commands with their operands ---- */

/* What a program tells of its own accord is no call of the device: it is not counted, and no fault is planted there. */
#define TELL(expression)                                                         \
	do {                                                                     \
		pthread_mutex_lock(&simulator.lock);                             \
		int error_ = simulator.sticky ? simulator.sticky : (expression); \
		pthread_mutex_unlock(&simulator.lock);                           \
		return error_;                                                   \
	} while (0)

int sim_mark_dead(void *stream, uint64_t address, uint64_t bytes)
{
	TELL(queue_transfer(stream_of(stream), COMMAND_DEAD, address, 0, bytes, 0, 0));
}

static bool is_read_too(const struct sim_range *range, const struct sim_range *among, uint32_t ranges)
{
	for (uint32_t i = 0; i < ranges; i++)
		if (among[i].use & SIM_READ && among[i].address < range->address + range->bytes &&
		    range->address < among[i].address + among[i].bytes)
			return true;
	return false;
}

static int begin_operation(struct stream *stream, const char *name, const struct sim_range *range, uint32_t ranges)
{
	struct simulator *sim = &simulator;
	int error = 0;
	if (ranges > MAX_RANGES) {
		note_failure("%s: more than %u operands", name, MAX_RANGES);
		return SIM_CUDA_ERROR_INVALID_VALUE;
	}
	sim->ranges = 0;
	snprintf(sim->label, sizeof sim->label, "%s", name);
	for (uint32_t i = 0; i < ranges && !error; i++)
		if (range[i].use & SIM_WORKSPACE ||
		    (range[i].use == SIM_WRITE && !is_read_too(&range[i], range, ranges)))
			error = queue_transfer(stream, COMMAND_DEAD, range[i].address, 0, range[i].bytes, 0, 0);
	sim->workspaces = 0;
	for (uint32_t i = 0; i < ranges; i++) {
		bool workspace = range[i].use & SIM_WORKSPACE;
		sim->range[i] = (struct memory_range){ .address = range[i].address,
						       .bytes = range[i].bytes,
						       .use = workspace ? MEMORY_READ | MEMORY_WRITE : range[i].use };
		if (workspace)
			sim->workspace[sim->workspaces++] = sim->range[i];
	}
	sim->ranges = ranges;
	return error;
}

int sim_operation_begin(void *stream, const char *name, const struct sim_range *range, uint32_t ranges)
{
	TELL(begin_operation(stream_of(stream), name, range, ranges));
}

static int end_operation(struct stream *stream)
{
	struct simulator *sim = &simulator;
	int error = 0;
	sim->ranges = 0;
	for (uint32_t i = 0; i < sim->workspaces && !error; i++)
		error = queue_transfer(stream, COMMAND_DEAD, sim->workspace[i].address, 0, sim->workspace[i].bytes, 0,
				       0);
	sim->workspaces = 0;
	sim->label[0] = '\0';
	return error;
}

int sim_operation_end(void *stream)
{
	TELL(end_operation(stream_of(stream)));
}

/* ---- Functions of the libraries ---- */

/* Libraries may write their result while they read; only the program could know an overlap to be harmless. */
static bool results_overlap(const struct sim_operand *operand, uint32_t operands)
{
	for (uint32_t i = 0; i < operands; i++)
		for (uint32_t k = 0; k < operands; k++)
			if (i != k && operand[i].use != SIM_READ &&
			    operand[i].address < operand[k].address + operand[k].bytes &&
			    operand[k].address < operand[i].address + operand[i].bytes)
				return true;
	return false;
}

static int queue_host(struct stream *stream, const char *name, void (*function)(const void *, struct sim_operand *),
		      const void *context, size_t context_bytes, const struct sim_operand *operand, uint32_t operands)
{
	if (operands > SIM_MAX_OPERANDS || context_bytes > SIM_MAX_CONTEXT_BYTES)
		return SIM_CUDA_ERROR_INVALID_VALUE;
	if (results_overlap(operand, operands)) {
		note_failure("%s: the result or the workspace overlaps another operand", name);
		return SIM_CUDA_ERROR_INVALID_VALUE;
	}
	struct command *command = command_new(stream, COMMAND_HOST);
	if (!command)
		return simulator.sticky ? simulator.sticky : SIM_CUDA_ERROR_LAUNCH_TIMEOUT;
	command->host_function = function;
	memcpy(command->parameter, context, context_bytes);
	memcpy(command->operand, operand, operands * sizeof *operand);
	command->operands = operands;
	size_t used = strlen(command->label);
	snprintf(command->label + used, sizeof command->label - used, "%s%s", used ? ": " : "", name);
	return command_queue(stream, command);
}

int sim_enqueue_host(void *stream, const char *name, void (*function)(const void *, struct sim_operand *),
		     const void *context, size_t context_bytes, const struct sim_operand *operand, uint32_t operands)
{
	CALL(0, queue_host(stream_of(stream), name, function, context, context_bytes, operand, operands));
}

/* ---- Host memory under a queued copy must not change ---- */

/* FNV-1a on 64-bit pieces would be faster; copies are small beside everything else here. */
static uint64_t checksum(const uint8_t *data, uint64_t bytes)
{
	uint64_t hash = 0xCBF29CE484222325u;
	for (uint64_t i = 0; i < bytes; i++)
		hash = (hash ^ data[i]) * 0x100000001B3u;
	return hash;
}

static bool will_be_written(const struct stream *stream, uint64_t address, uint64_t bytes)
{
	for (const struct command *command = stream->head; command; command = command->next) {
		if (command->kind == COMMAND_GRAPH)
			return true;
		if (command->kind == COMMAND_COPY_OUT && command->target < address + bytes &&
		    address < command->target + command->bytes)
			return true;
	}
	return false;
}

void note_source(struct command *command)
{
	struct simulator *sim = &simulator;
	bool written = will_be_written(&sim->default_stream, command->source, command->bytes);
	for (const struct stream *stream = sim->streams; stream; stream = stream->next)
		written = written || will_be_written(stream, command->source, command->bytes);
	command->has_checksum = !written;
	if (command->has_checksum)
		command->checksum = checksum((const uint8_t *)(uintptr_t)command->source, command->bytes);
}

/* ---- What commands do ---- */

static int fail(const struct command *command, int error, const char *what, const char *message)
{
	note_failure("%s%s%s: %s", command->label, command->label[0] ? ": " : "", what, message);
	return error;
}

static int execute_launch(const struct command *command, const struct memory_access *access)
{
	static const int code[] = { [LAUNCH_ILLEGAL_ADDRESS] = SIM_CUDA_ERROR_ILLEGAL_ADDRESS,
				    [LAUNCH_MISALIGNED] = SIM_CUDA_ERROR_MISALIGNED_ADDRESS,
				    [LAUNCH_FAILED] = SIM_CUDA_ERROR_LAUNCH_FAILED,
				    [LAUNCH_TIMEOUT] = SIM_CUDA_ERROR_LAUNCH_TIMEOUT };
	struct simulator *sim = &simulator;
	char message[MESSAGE_BYTES];
	int planted = fault_of("kernel");
	sim->count[SIM_LAUNCHES]++;
	if (planted)
		return planted;
	const struct launch launch = { .kernel = command->function->kernel,
				       .shape = command->shape,
				       .parameters = command->parameter,
				       .memory = &sim->memory,
				       .access = *access,
				       .seed = sim->config.seed ? random_draw() | 1 : 0,
				       .max_instructions = sim->config.max_instructions };
	enum launch_error error = launch_run(&sim->machine, &launch, message, sizeof message);
	return error ? fail(command, code[error], "launch", message) : 0;
}

/* Memory of the host that is not page-locked has no shadow. */
static uint8_t *host_data(const struct memory_access *access, uint64_t address, uint64_t bytes, uint32_t use,
			  char *message)
{
	void *host = (void *)(uintptr_t)address;
	if (!is_pinned(host, bytes))
		return host;
	struct memory_access free_access = *access;
	free_access.ranges = 0;
	return memory_touch(&simulator.memory, &free_access, address, bytes, use, message, MESSAGE_BYTES);
}

static int execute_transfer(const struct command *command, const struct memory_access *access)
{
	struct memory *memory = &simulator.memory;
	char message[MESSAGE_BYTES];
	const char *what = command->kind == COMMAND_COPY_IN    ? "copy to the device"
			   : command->kind == COMMAND_COPY_OUT ? "copy to the host"
			   : command->kind == COMMAND_COPY     ? "copy on the device"
							       : "fill";
	const uint8_t *source = NULL;
	if (command->kind == COMMAND_COPY_IN)
		source = host_data(access, command->source, command->bytes, MEMORY_READ, message);
	else if (command->kind != COMMAND_FILL)
		source = memory_touch(memory, access, command->source, command->bytes, MEMORY_READ, message,
				      sizeof message);
	if (!source && command->kind != COMMAND_FILL)
		return fail(command, SIM_CUDA_ERROR_ILLEGAL_ADDRESS, what, message);
	if (command->has_checksum && checksum(source, command->bytes) != command->checksum)
		return fail(command, SIM_CUDA_ERROR_LAUNCH_FAILED, what,
			    "the host changed the bytes after the copy was queued and before it was executed");
	uint8_t *target = command->kind == COMMAND_COPY_OUT
				  ? host_data(access, command->target, command->bytes, MEMORY_WRITE, message)
				  : memory_touch(memory, access, command->target, command->bytes, MEMORY_WRITE, message,
						 sizeof message);
	if (!target)
		return fail(command, SIM_CUDA_ERROR_ILLEGAL_ADDRESS, what, message);
	if (command->kind != COMMAND_FILL) {
		memmove(target, source, command->bytes);
		return 0;
	}
	for (uint64_t i = 0; i < command->bytes; i += command->value_bytes)
		memcpy(target + i, &command->value, command->value_bytes);
	return 0;
}

static int execute_host(struct command *command, const struct memory_access *access)
{
	char message[MESSAGE_BYTES];
	int planted = fault_of("kernel");
	if (planted)
		return planted;
	for (uint32_t i = 0; i < command->operands; i++) {
		struct sim_operand *operand = &command->operand[i];
		operand->data = NULL;
		/* A workspace is written first. */
		unsigned use = operand->use & SIM_WORKSPACE ? SIM_WRITE : operand->use;
		if (operand->bytes == 0)
			continue;
		operand->data = memory_touch(&simulator.memory, access, operand->address, operand->bytes, use, message,
					     sizeof message);
		if (!operand->data)
			return fail(command, SIM_CUDA_ERROR_ILLEGAL_ADDRESS, "library", message);
	}
	command->host_function(command->parameter, command->operand);
	for (uint32_t i = 0; i < command->operands; i++)
		if (command->operand[i].use & SIM_WORKSPACE && command->operand[i].bytes)
			memory_kill(&simulator.memory, command->operand[i].address, command->operand[i].bytes, message,
				    sizeof message);
	return 0;
}

int execute(struct command *command, uint32_t slot, uint32_t number, const struct memory_clock *clock)
{
	struct simulator *sim = &simulator;
	char message[MESSAGE_BYTES];
	const struct memory_access access = { .command = command_code(slot, number),
					      .clock = clock,
					      .range = command->range,
					      .ranges = command->ranges };
	int error = 0;
	switch (command->kind) {
	case COMMAND_LAUNCH:
		error = execute_launch(command, &access);
		break;
	case COMMAND_COPY_IN:
	case COMMAND_COPY_OUT:
	case COMMAND_COPY:
	case COMMAND_FILL:
		error = execute_transfer(command, &access);
		break;
	case COMMAND_HOST:
		error = execute_host(command, &access);
		break;
	case COMMAND_DEAD:
		if (!memory_kill(&sim->memory, command->target, command->bytes, message, sizeof message))
			error = fail(command, SIM_CUDA_ERROR_ILLEGAL_ADDRESS, "death of a buffer", message);
		break;
	case COMMAND_RECORD:
		command->event->done = command->event_number;
		break;
	case COMMAND_WAIT:
	case COMMAND_GRAPH:
		break;
	}
	return error;
}
