/* single_op.c - see single_op.h. */
#include "conformance/single_op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GAP ((uint64_t)192)

static enum tarn_status build(struct single_op *single, enum op_kind kind, const struct op_attr *attr,
			      const struct single_input *input, uint32_t inputs)
{
	uint32_t id[SINGLE_OP_INPUTS], out[OP_MAX_OUTPUTS];
	enum tarn_status st = graph_init(&single->graph, &single->host);
	for (uint32_t i = 0; i < inputs && !st; i++) {
		char name[16];
		snprintf(name, sizeof name, "in%u", i);
		st = graph_add_persistent(&single->graph, name, input[i].role ? input[i].role : ROLE_PARAMETER,
					  input[i].dtype, input[i].dim, input[i].rank, &id[i]);
	}
	if (!st)
		st = graph_add_op(&single->graph, kind, PHASE_FORWARD, "op", attr, id, inputs, out);
	if (st)
		return st;
	single->op = single->graph.ops - 1;
	single->inputs = inputs;
	single->outputs = single->graph.op[single->op].outputs;
	return TARN_OK;
}

const struct tensor *single_op_tensor(const struct single_op *single, uint32_t operand)
{
	const struct op *op = &single->graph.op[single->op];
	return &single->graph.tensor[single->graph.operand[op->first_operand + operand]];
}

/* Ranges of the arena for all operands, then the workspace. */
static void place(struct single_op *single, const struct single_options *options)
{
	const struct op_row *row = op_row((enum op_kind)single->graph.op[single->op].kind);
	uint64_t at = options->shift;
	for (uint32_t i = 0; i < single->inputs + single->outputs; i++) {
		uint32_t output = i - single->inputs;
		single->bytes[i] = single_op_tensor(single, i)->bytes;
		if (i >= single->inputs && row->version_of[output] >= 0) {
			single->offset[i] = single->offset[row->version_of[output]];
		} else if (i == single->inputs && options->in_place >= 0) {
			single->offset[i] = single->offset[options->in_place];
		} else {
			single->offset[i] = at;
			at += bytes_align(single->bytes[i]) + GAP;
		}
	}
	single->workspace_offset = at;
	single->arena_bytes = at + single->info.workspace_bytes + GAP;
}

enum tarn_status single_op_open(struct single_op *single, const struct driver_ops *driver, enum op_kind kind,
				const struct op_attr *attr, const struct single_input *input, uint32_t inputs,
				const struct single_options *options)
{
	struct device_options device_options = { .threads = options->threads,
						 .workspace_cap =
							 options->workspace_cap ? options->workspace_cap : UINT64_MAX };
	memset(single, 0, sizeof *single);
	host_arena_init(&single->host);
	single->device.ops = driver;
	single->device.host = &single->host;
	enum tarn_status st = build(single, kind, attr, input, inputs);
	if (!st)
		st = driver->open(&single->device, &device_options);
	if (!st)
		st = driver->compile(&single->device, &single->graph, single->op, &single->kernel, &single->info);
	if (st)
		return st;
	place(single, options);
	st = driver->reserve(&single->device, single->arena_bytes, NULL);
	if (st)
		return st;
	return driver->bind(&single->device, &single->graph, single->op, single->kernel, single->offset,
			    single->workspace_offset, &single->instr);
}

void single_op_close(struct single_op *single)
{
	single->device.ops->close(&single->device);
	host_arena_fini(&single->host);
}

enum tarn_status single_op_write(struct single_op *single, uint32_t operand, const void *data)
{
	return single->device.ops->write(&single->device, single->offset[operand], data, single->bytes[operand]);
}

enum tarn_status single_op_read(struct single_op *single, uint32_t operand, void *data)
{
	return single->device.ops->read(&single->device, single->offset[operand], data, single->bytes[operand]);
}

enum tarn_status single_op_launch(struct single_op *single)
{
	enum tarn_status st = single->device.ops->launch(&single->device, single->instr);
	return st ? st : single->device.ops->synchronize(&single->device);
}

uint64_t single_op_stray(struct single_op *single)
{
	/* The simulated device of tests/cudasim checks every access itself, and forbids to read what nobody wrote. */
	if (!strcmp(single->device.ops->name, "cuda") && getenv("TARN_CUDASIM"))
		return UINT64_MAX;
	unsigned char *image = malloc(single->arena_bytes);
	uint64_t stray = UINT64_MAX;
	if (!image || single->device.ops->read(&single->device, 0, image, single->arena_bytes))
		abort();
	for (uint32_t i = 0; i < single->inputs + single->outputs; i++)
		memset(image + single->offset[i], 0xFF, single->bytes[i]);
	memset(image + single->workspace_offset, 0xFF, single->info.workspace_bytes);
	for (uint64_t i = 0; i < single->arena_bytes && stray == UINT64_MAX; i++)
		if (image[i] != 0xFF)
			stray = i;
	free(image);
	return stray;
}
