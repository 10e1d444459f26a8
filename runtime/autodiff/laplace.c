/* laplace.c - see laplace.h. */
#include "autodiff/laplace.h"

/* The dense layer that made the logits, behind views; OP_NONE when it was another op. */
static uint32_t find_head(const struct graph *graph, uint32_t logits)
{
	uint32_t op = graph->tensor[logits].producer;
	while (op != OP_NONE && graph->op[op].kind == OP_RESHAPE)
		op = graph->tensor[op_inputs(graph, op)[0]].producer;
	if (op == OP_NONE || graph->op[op].kind != OP_MATMUL)
		return OP_NONE;
	const struct tensor *weight = &graph->tensor[op_inputs(graph, op)[1]];
	bool dense = graph->op[op].attr.transpose_b && !graph->op[op].attr.transpose_a &&
		     !graph->op[op].attr.activation && weight->role == ROLE_PARAMETER;
	return dense ? op : OP_NONE;
}

/* Of each batch, with zeros behind a smaller one: persistent tensors have one shape in all programs. */
static enum tarn_status keep(struct graph *graph, const char *name, uint32_t rows, uint32_t value)
{
	const struct op_attr plain = { .rate_scale = 1 }, whole = { .extent = { rows } };
	struct tensor shape = graph->tensor[value];
	uint32_t slot;
	enum tarn_status st = TARN_OK;
	if (shape.dim[0] < rows)
		st = graph_add_op(graph, OP_PAD_AXIS, PHASE_FORWARD, "laplace/padded", &whole, &value, 1, &value);
	shape.dim[0] = rows;
	if (!st)
		st = graph_add_persistent(graph, name, ROLE_VECTOR, DTYPE_F32, shape.dim, shape.rank, &slot);
	if (st)
		return st;
	graph->tensor[slot].init = INIT_ZERO;
	const uint32_t input[3] = { slot, value, graph->scalars };
	return graph_add_op(graph, OP_SGD, PHASE_UPDATE, name, &plain, input, 3, NULL);
}

enum tarn_status laplace_build(const struct config *config, const struct sample_shape *sample, uint32_t batch,
			       struct host_arena *scratch, struct graph *graph)
{
	uint32_t loss, logits;
	if (config->network.loss != LOSS_CROSS_ENTROPY || sample->target_rank || config->network.chunked_loss)
		return tarn_fail(TARN_EINVAL, "a Laplace approximation needs data with one label a sample, and "
					      "cross_entropy without chunked_loss");
	if (config->precision.compute != NUMBER_FLOAT32)
		return tarn_fail(TARN_EUNSUPPORTED,
				 "precision.compute: a Laplace approximation is computed in float32");
	enum tarn_status st = network_build(config, sample, batch, BUILD_INFERENCE, scratch, graph, &loss, &logits);
	if (st)
		return st;
	uint32_t head = find_head(graph, logits);
	if (head == OP_NONE)
		return tarn_fail(TARN_EINVAL,
				 "a Laplace approximation needs a dense layer without activation at the end "
				 "of the network");
	st = keep(graph, "laplace/features", config->data.batch, op_inputs(graph, head)[0]);
	return st ? st : keep(graph, "laplace/logits", config->data.batch, op_outputs(graph, head)[0]);
}
