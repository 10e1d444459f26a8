/* signature.c - see signature.h. */
#include "graph/signature.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* Of everything that tells two ops apart: attributes (a dropout's stream does not), and all operands' shapes. */
static uint64_t signature_hash(const struct graph *graph, uint32_t op)
{
	const struct op *node = &graph->op[op];
	struct op_attr attr = node->attr;
	attr.stream = 0;
	uint64_t hash = XXH64(&attr, sizeof attr, node->kind);
	for (uint32_t k = 0; k < node->inputs + node->outputs; k++) {
		const struct tensor *tensor = &graph->tensor[op_inputs(graph, op)[k]];
		hash = XXH64(tensor->dim, tensor->rank * sizeof *tensor->dim, hash ^ tensor->dtype);
	}
	return hash;
}

const char *op_signature(const struct graph *graph, uint32_t op, char buffer[SIGNATURE_TEXT])
{
	const struct op *node = &graph->op[op];
	const size_t room = SIGNATURE_TEXT - 24; /* the hash always fits */
	char shape[SHAPE_TEXT];
	size_t used = (size_t)snprintf(buffer, room, "%s", op_row(node->kind)->name);
	for (uint32_t k = 0; k < node->inputs + node->outputs && used < room; k++) {
		const struct tensor *tensor = &graph->tensor[op_inputs(graph, op)[k]];
		used += (size_t)snprintf(buffer + used, room - used, "%s %s %s", k == node->inputs ? " ->" : "",
					 dtype_name(tensor->dtype),
					 shape_format(tensor->dim, tensor->rank, shape, sizeof shape));
	}
	used = strlen(buffer);
	snprintf(buffer + used, SIGNATURE_TEXT - used, " #%016llx", (unsigned long long)signature_hash(graph, op));
	return buffer;
}
