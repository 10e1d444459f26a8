/*
 * cost.c - arithmetic and memory traffic of one op, from its shapes.
 *
 * A multiplication and an addition count as two operations. Element-wise ops count about one operation for each
 * elementary function; the figures are for reports and for devices that cannot measure, not for accounting.
 * Products saturate at UINT64_MAX.
 */
#include "graph/graph.h"

static uint64_t multiply(uint64_t a, uint64_t b)
{
	uint64_t product;
	return bytes_mul(a, b, &product) ? product : UINT64_MAX;
}

static uint64_t elements_of(const struct graph *graph, uint32_t tensor)
{
	return tensor_elements(&graph->tensor[tensor]);
}

/* Every output element of a convolution sums C/g * KH * KW products; w has the shape (O, C/g, KH, KW). */
static uint64_t convolution_flops(const struct graph *graph, uint32_t y, uint32_t w)
{
	const uint32_t *dim = graph->tensor[w].dim;
	uint64_t products = multiply(multiply(dim[1], dim[2]), dim[3]);
	return multiply(2, multiply(elements_of(graph, y), products));
}

static uint64_t pool_flops(const struct op *op, uint64_t positions)
{
	return multiply(positions, multiply(op->attr.window.kernel[0], op->attr.window.kernel[1]));
}

/*
 * A product of queries and keys takes 2 * B * H * T * S * D operations, about half of them when causal; the forward
 * pass has two such products, the backward pass five.
 */
static uint64_t attention_flops(const struct graph *graph, const struct op *op, uint32_t q, uint32_t k,
				uint64_t products)
{
	uint64_t pairs = multiply(elements_of(graph, q), graph->tensor[k].dim[1]);
	uint64_t flops = multiply(2 * products, pairs);
	return op->attr.causal ? flops / 2 : flops;
}

/* Operations for each element of the largest operand. */
static uint64_t operations_each(const struct op *op)
{
	switch ((enum op_kind)op->kind) {
	case OP_INPUT:
	case OP_RECORD:
	case OP_RESHAPE:
	case OP_CAST:
	case OP_STOP_GRADIENT:
	case OP_PERMUTE:
	case OP_CONCAT:
	case OP_SLICE:
	case OP_SLICE_VIEW:
	case OP_PAD_AXIS:
	case OP_FILL:
	case OP_BROADCAST_ROWS:
	case OP_EMBEDDING:
		return 0;
	case OP_ACTIVATION:
	case OP_ACTIVATION_GRAD:
		return op->attr.activation <= ACTIVATION_LEAKY_RELU ? 1 : 8;
	case OP_BATCH_STATS:
	case OP_BATCH_APPLY:
	case OP_LAYER_NORM_GRAD_PARAM:
	case OP_MEAN_SQUARED_ERROR:
	case OP_MEAN_SQUARED_ERROR_GRAD:
		return 4;
	case OP_GROUP_NORM_GRAD_PARAM:
		return 4;
	case OP_GROUP_NORM:
	case OP_GROUP_NORM_GRAD:
	case OP_UPSAMPLE:
	case OP_UPSAMPLE_GRAD:
	case OP_BATCH_REDUCE:
	case OP_BATCH_GRAD_INPUT:
	case OP_LAYER_NORM:
	case OP_LAYER_NORM_GRAD:
	case OP_RMS_NORM_GRAD:
	case OP_GATE:
	case OP_LSTM_CELL:
	case OP_GRU_CELL:
		return 8;
	case OP_RMS_NORM:
	case OP_RMS_NORM_GRAD_PARAM:
	case OP_SOFTMAX_GRAD:
	case OP_ROTARY:
		return 4;
	case OP_GATE_GRAD:
	case OP_LSTM_CELL_GRAD:
	case OP_GRU_CELL_GRAD:
	case OP_SOFTMAX:
	case OP_LOG_SOFTMAX:
	case OP_LOG_SOFTMAX_GRAD:
		return 12;
	case OP_DROPOUT: /* a quarter of ten Philox rounds */
		return 32;
	case OP_SOFTMAX_CROSS_ENTROPY:
	case OP_SOFTMAX_CROSS_ENTROPY_GRAD:
		return 10;
	case OP_FUNCTION:
	case OP_BINARY_CROSS_ENTROPY:
	case OP_BINARY_CROSS_ENTROPY_GRAD:
		return 16;
	case OP_LOGISTIC_MIXTURE:
	case OP_LOGISTIC_MIXTURE_GRAD:
		return 100;
	case OP_SUM_SQUARES:
	case OP_SGD:
	case OP_EXPONENTIAL_AVERAGE:
		return 2;
	case OP_MOMENTUM:
	case OP_LION:
		return 4;
	case OP_ADAM:
	case OP_ADAFACTOR:
	case OP_ADAFACTOR_VECTOR:
		return 12;
	case OP_ADAM_8BIT: /* two searches among 256 codes */
		return 80;
	default:
		return 1;
	}
}

static uint64_t largest_operand(const struct graph *graph, const struct op *op)
{
	uint64_t largest = 0;
	for (uint32_t k = 0; k < op->inputs + op->outputs; k++) {
		uint64_t elements = elements_of(graph, graph->operand[op->first_operand + k]);
		largest = elements > largest ? elements : largest;
	}
	return largest;
}

uint64_t op_flops(const struct graph *graph, uint32_t id)
{
	const struct op *op = &graph->op[id];
	const uint32_t *input = op_inputs(graph, id), *output = op_outputs(graph, id);
	switch ((enum op_kind)op->kind) {
	case OP_MATMUL: {
		uint32_t inner = graph->tensor[input[0]].dim[op->attr.transpose_a ? 0 : 1];
		return multiply(2, multiply(elements_of(graph, output[0]), inner));
	}
	case OP_BATCH_MATMUL: {
		const struct tensor *a = &graph->tensor[input[0]];
		uint32_t inner = a->dim[a->rank - (op->attr.transpose_a ? 2 : 1)];
		return multiply(2, multiply(elements_of(graph, output[0]), inner));
	}
	case OP_ATTENTION:
		return attention_flops(graph, op, input[0], input[1], 2);
	case OP_ATTENTION_GRAD:
		return attention_flops(graph, op, input[1], input[2], 5);
	case OP_LINEAR_CROSS_ENTROPY: /* the product, and once more in the gradient beside its own two */
	case OP_LINEAR_CROSS_ENTROPY_GRAD: {
		uint64_t product = multiply(elements_of(graph, input[0]), graph->tensor[input[1]].dim[0]);
		return multiply(op->kind == OP_LINEAR_CROSS_ENTROPY ? 2 : 6, product);
	}
	case OP_CONV2D:
		return convolution_flops(graph, output[0], input[1]);
	case OP_CONV2D_GRAD_INPUT:
		return convolution_flops(graph, input[0], input[1]);
	case OP_CONV2D_GRAD_WEIGHT:
		return convolution_flops(graph, input[1], output[0]);
	case OP_MAX_POOL:
	case OP_AVG_POOL:
		return pool_flops(op, elements_of(graph, output[0]));
	case OP_MAX_POOL_GRAD:
	case OP_AVG_POOL_GRAD:
		return pool_flops(op, elements_of(graph, input[0]));
	default:
		return multiply(operations_each(op), largest_operand(graph, op));
	}
}

uint64_t op_traffic_bytes(const struct graph *graph, uint32_t id)
{
	const struct op *op = &graph->op[id];
	uint64_t bytes = 0;
	if (op_row(op->kind)->view)
		return 0;
	/* Of a slice's input and of a table only what is taken is read. */
	if (op->kind == OP_SLICE || op->kind == OP_EMBEDDING)
		return multiply(2, graph->tensor[op_outputs(graph, id)[0]].bytes);
	for (uint32_t k = 0; k < op->inputs + op->outputs; k++) {
		uint64_t operand = graph->tensor[graph->operand[op->first_operand + k]].bytes;
		if (!bytes_add(bytes, operand, &bytes))
			return UINT64_MAX;
	}
	return bytes;
}
