/*
 * shape.h - the shape rules of the op table.
 *
 * Input: an op's kind, attributes and input tensors. Output: dtype, rank and dimensions of each output.
 * Errors are sentences that name the op, what it got and what it needs: TARN_EINVAL.
 */
#ifndef TARN_GRAPH_SHAPE_H
#define TARN_GRAPH_SHAPE_H

#include "graph/graph.h"

struct shape {
	uint8_t dtype, rank;
	uint32_t dim[OP_MAX_RANK];
};

/* Known dtype, at most OP_MAX_RANK dimensions, none of them zero, at most TENSOR_MAX_BYTES; else TARN_EINVAL. */
enum tarn_status shape_check(const char *name, const struct shape *shape);

/*
 * `name` is the op's name for messages; input[0..inputs) are tensor ids of `graph`; writes row->outputs shapes.
 * RESHAPE and FILL take the shape from attr.extent. No side effect on the graph. Also checks the attributes (strides
 * not 0, rate in [0,1), activation allowed ...), since plans from files come through here too; only the names of the
 * tensors must be in order (graph_check looks at them first).
 */
enum tarn_status shape_infer(const struct graph *graph, enum op_kind kind, const char *name, const struct op_attr *attr,
			     const uint32_t *input, uint32_t inputs, struct shape *out);

#endif
