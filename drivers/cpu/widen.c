/*
 * widen.c - loops written for floats, run on tensors that are stored in 16 bits.
 *
 * For kernels in which item i of every operand (an element, a row, a sample) depends on item i of the others alone. Of
 * each chunk the operands of 16 bits are converted into the workspace, the loop runs there as if they were floats, and
 * what it wrote is rounded back. A thread has one place in the workspace for each such operand, small enough for its
 * cache. The loop sees addresses shifted so that its own indices meet that place.
 */
#include "cpu/cpu.h"
#include "cpu/narrow.h"

#include <omp.h>

/* Floats of an operand in a chunk, where an item is not longer than that. */
#define CHUNK_FLOATS ((uint64_t)4096)

/* Does chunk `c` touch items [c * chunk_items, (c + 1) * chunk_items) of its operands, and nothing else of them? */
static bool works_by_items(uint32_t kind)
{
	switch ((enum op_kind)kind) {
	case OP_ADD:
	case OP_MULTIPLY:
	case OP_SCALE:
	case OP_ADD_BROADCAST:
	case OP_ACTIVATION:
	case OP_ACTIVATION_GRAD:
	case OP_DROPOUT:
	case OP_LAYER_NORM:
	case OP_LAYER_NORM_GRAD:
	case OP_RMS_NORM:
	case OP_RMS_NORM_GRAD:
	case OP_SOFTMAX:
	case OP_SOFTMAX_GRAD:
	case OP_GATE:
	case OP_GATE_GRAD:
	case OP_LSTM_CELL:
	case OP_LSTM_CELL_GRAD:
	case OP_GRU_CELL:
	case OP_GRU_CELL_GRAD:
	case OP_WEIGHT_MASK:
	case OP_GROUP_NORM:
	case OP_GROUP_NORM_GRAD:
	case OP_GROUP_NORM_GRAD_PARAM:
	case OP_SGD:
	case OP_MOMENTUM:
	case OP_ADAM:
	case OP_EXPONENTIAL_AVERAGE:
		return true;
	default:
		return false;
	}
}

static uint64_t item_floats(const struct kernel *kernel, uint32_t operand)
{
	return kernel->operand[operand].elements / kernel->items;
}

/* Bytes of one operand's place. */
static uint64_t place_bytes(const struct kernel *kernel, uint32_t operand)
{
	return operand_is_narrow(&kernel->operand[operand])
		       ? bytes_align(kernel->chunk_items * item_floats(kernel, operand) * sizeof(float))
		       : 0;
}

/* The weights that an update writes. */
static bool rounds_stochastically(const struct kernel *kernel, uint32_t operand)
{
	return (kernel->kind == OP_SGD || kernel->kind == OP_MOMENTUM || kernel->kind == OP_ADAM) &&
	       operand == kernel->inputs && kernel->attr.stream && kernel->operand[operand].dtype == DTYPE_BF16;
}

/* w, states, gradient, scalars: as many states as outputs beside w. */
static struct philox_stream update_stream(const struct bound_instr *instr)
{
	const struct step_scalars *scalars = instr->address[instr->kernel->outputs + 1];
	return (struct philox_stream){ scalars->seed, instr->kernel->attr.stream, scalars->step };
}

static void widen_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	const uint32_t operands = kernel->inputs + kernel->outputs;
	struct range items = chunk_range(kernel, chunk, kernel->items);
	unsigned char *place = (unsigned char *)instr->workspace + kernel->place_offset +
			       (uint64_t)omp_get_thread_num() * kernel->place_bytes;
	void *address[WIDEN_OPERANDS];
	struct bound_instr wide = *instr;
	wide.address = address;
	for (uint32_t i = 0; i < operands; i++) {
		const struct operand *operand = &kernel->operand[i];
		uint64_t each = item_floats(kernel, i), begin = items.begin * each;
		address[i] = instr->address[i];
		if (!operand_is_narrow(operand))
			continue;
		if (i < kernel->inputs)
			narrow_load(operand->dtype, (const uint16_t *)instr->address[i] + begin, (float *)(void *)place,
				    (items.end - items.begin) * each);
		address[i] = (void *)((uintptr_t)place - begin * sizeof(float));
		place += place_bytes(kernel, i);
	}
	kernel->float_body(&wide, chunk);
	for (uint32_t i = kernel->inputs; i < operands; i++) {
		uint64_t each = item_floats(kernel, i), begin = items.begin * each;
		const float *from = (const float *)((uintptr_t)address[i] + begin * sizeof(float));
		if (rounds_stochastically(kernel, i))
			narrow_store_stochastic(from, (uint16_t *)instr->address[i] + begin, begin,
						(items.end - items.begin) * each, update_stream(instr));
		else if (operand_is_narrow(&kernel->operand[i]))
			narrow_store(kernel->operand[i].dtype, from, (uint16_t *)instr->address[i] + begin,
				     (items.end - items.begin) * each);
	}
}

bool widen_can(const struct kernel *kernel)
{
	return works_by_items(kernel->kind) && kernel->inputs + kernel->outputs <= WIDEN_OPERANDS;
}

void widen_prepare(struct kernel *kernel, uint32_t threads)
{
	const uint32_t operands = kernel->inputs + kernel->outputs;
	uint64_t longest = 1;
	for (uint32_t i = 0; i < operands; i++)
		if (operand_is_narrow(&kernel->operand[i]) && item_floats(kernel, i) > longest)
			longest = item_floats(kernel, i);
	uint64_t most = CHUNK_FLOATS / longest;
	most = most < kernel->items ? most : kernel->items;
	kernel->float_body = kernel->body;
	kernel_cut(kernel, widen_body, kernel->items, most < kernel->chunk_items ? most : kernel->chunk_items);
	for (uint32_t i = 0; i < operands; i++)
		kernel->place_bytes += place_bytes(kernel, i);
	kernel->place_offset = bytes_align(kernel->info.workspace_bytes);
	kernel->info.workspace_bytes = kernel->place_offset + threads * kernel->place_bytes;
}
