/* program.c - see program.h. */
#include "grad/program.h"

#include <string.h>

/* Offsets of all tensors; returns the bytes they take together. */
static uint64_t place(struct program *program)
{
	const struct graph *graph = program->graph;
	uint64_t at = 0;
	for (uint32_t t = 0; t < graph->tensors; t++) {
		if (graph->tensor[t].storage != t)
			continue;
		program->offset[t] = at;
		at += bytes_align(graph->tensor[t].bytes);
	}
	for (uint32_t t = 0; t < graph->tensors; t++)
		program->offset[t] = program->offset[graph->tensor[t].storage] + tensor_offset(graph, t);
	return at;
}

static enum tarn_status bind(struct program *program, uint32_t op, struct kernel *kernel, uint64_t workspace)
{
	const struct graph *graph = program->graph;
	const struct op *node = &graph->op[op];
	uint64_t offset[64];
	uint32_t operands = node->inputs + node->outputs;
	if (operands > sizeof offset / sizeof *offset)
		return tarn_fail(TARN_EUNSUPPORTED, "an op with %u operands is too large for this test", operands);
	for (uint32_t i = 0; i < operands; i++)
		offset[i] = program->offset[graph->operand[node->first_operand + i]];
	return program->device.ops->bind(&program->device, graph, op, kernel, offset, workspace, &program->instr[op]);
}

enum tarn_status program_open(struct program *program, const struct driver_ops *driver, const struct graph *graph,
			      uint32_t threads, struct host_arena *host)
{
	const struct device_options options = { .threads = threads, .workspace_cap = UINT64_MAX };
	memset(program, 0, sizeof *program);
	program->graph = graph;
	program->device.ops = driver;
	program->device.host = host;
	program->instr = HOST_ARRAY(host, graph->ops, struct bound_instr *);
	program->offset = HOST_ARRAY(host, graph->tensors, uint64_t);
	struct kernel **kernel = HOST_ARRAY(host, graph->ops, struct kernel *);
	if (!program->instr || !program->offset || !kernel)
		return TARN_ENOMEM;
	uint64_t bytes = place(program), workspace = 0;
	enum tarn_status st = driver->open(&program->device, &options);
	for (uint32_t i = 0; i < graph->ops && !st; i++) {
		struct kernel_info info = { 0 };
		if (op_row((enum op_kind)graph->op[i].kind)->view)
			continue;
		st = driver->compile(&program->device, graph, i, &kernel[i], &info);
		workspace = info.workspace_bytes > workspace ? info.workspace_bytes : workspace;
	}
	if (!st)
		st = driver->reserve(&program->device, bytes + workspace, NULL);
	for (uint32_t i = 0; i < graph->ops && !st; i++)
		if (kernel[i])
			st = bind(program, i, kernel[i], bytes);
	return st;
}

void program_close(struct program *program)
{
	program->device.ops->close(&program->device);
}

enum tarn_status program_write(struct program *program, uint32_t tensor, const void *data)
{
	return program->device.ops->write(&program->device, program->offset[tensor], data,
					  program->graph->tensor[tensor].bytes);
}

enum tarn_status program_read(struct program *program, uint32_t tensor, void *data)
{
	return program->device.ops->read(&program->device, program->offset[tensor], data,
					 program->graph->tensor[tensor].bytes);
}

enum tarn_status program_run(struct program *program)
{
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 0; i < program->graph->ops && !st; i++)
		if (program->instr[i])
			st = program->device.ops->launch(&program->device, program->instr[i]);
	return st ? st : program->device.ops->synchronize(&program->device);
}
