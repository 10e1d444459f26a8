/*
 * layers_recurrent.c - LSTM and GRU over a sequence as ops of the table, one after the other; see layers.h.
 *
 * Time comes first inside, so that a step's rows lie together. The sequence is cut into chunks of time steps; a chunk
 * goes through all layers before the next one begins. Within a chunk a layer multiplies all inputs at once, then takes
 * its steps: a slice of that product, the product with the state before, the cell.
 */
#include "graph/layer_parts.h"

#include <inttypes.h>

struct recurrent {
	struct network *net;
	const char *name;
	const struct recurrent_options *options;
	uint32_t samples, gates; /* gates: features of all gates together */
};

/* Parameters and state of one layer. */
struct recurrent_layer {
	uint32_t weight_input, weight_state, bias_input, bias_state;
	uint32_t bias; /* LSTM: the sum of both */
	uint32_t h, c; /* of the step before; TENSOR_NONE: zeros */
};

/* An op named "<layer>/l0/t17/<part>", or "<layer>/l0/<part>" without a step. */
static enum tarn_status add_step(const struct recurrent *r, enum op_kind kind, uint32_t layer, uint32_t step,
				 const char *part, const struct op_attr *attr, const uint32_t *input, uint32_t inputs,
				 uint32_t *out)
{
	struct graph *graph = r->net->graph;
	char *name = step == UINT32_MAX ? host_arena_printf(graph->arena, "%s/l%" PRIu32 "/%s", r->name, layer, part)
					: host_arena_printf(graph->arena, "%s/l%" PRIu32 "/t%" PRIu32 "/%s", r->name,
							    layer, step, part);
	return name ? graph_add_op(graph, kind, PHASE_FORWARD, name, attr, input, inputs, out) : TARN_ENOMEM;
}

static enum tarn_status add_layer_parameter(const struct recurrent *r, const char *part, uint32_t layer,
					    uint32_t columns, uint32_t *out)
{
	struct network *net = r->net;
	float bound = net->init_bound > 0 ? net->init_bound : (float)(1 / sqrt((double)r->options->features));
	struct parameter parameter = { .layer = r->name, .dim = { r->gates, columns }, .rank = columns ? 2 : 1 };
	parameter.part = host_arena_printf(net->graph->arena, "%s_l%" PRIu32, part, layer);
	if (!parameter.part)
		return TARN_ENOMEM;
	parameter.init = columns ? INIT_UNIFORM : INIT_ZERO;
	parameter.bound = columns ? bound : 0;
	parameter.decays = columns != 0;
	return add_parameter(net, &parameter, out);
}

/* In PyTorch's order. */
static enum tarn_status add_layer_parameters(const struct recurrent *r, uint32_t layer, uint32_t inputs,
					     struct recurrent_layer *out)
{
	enum tarn_status st = add_layer_parameter(r, "weight_ih", layer, inputs, &out->weight_input);
	if (!st)
		st = add_layer_parameter(r, "weight_hh", layer, r->options->features, &out->weight_state);
	if (!st)
		st = add_layer_parameter(r, "bias_ih", layer, 0, &out->bias_input);
	if (!st)
		st = add_layer_parameter(r, "bias_hh", layer, 0, &out->bias_state);
	out->h = out->c = TENSOR_NONE;
	return st;
}

/* What a layer needs before its first step: the sum of the biases, states of zeros. */
static enum tarn_status begin_layer(const struct recurrent *r, uint32_t layer, struct recurrent_layer *l)
{
	const struct op_attr zeros = { .rank = 2, .extent = { r->samples, r->options->features } };
	const uint32_t biases[2] = { l->bias_input, l->bias_state };
	if (r->options->gru)
		return add_step(r, OP_FILL, layer, UINT32_MAX, "h0", &zeros, NULL, 0, &l->h);
	enum tarn_status st = add_step(r, OP_ADD, layer, UINT32_MAX, "bias", NULL, biases, 2, &l->bias);
	return st ? st : add_step(r, OP_FILL, layer, UINT32_MAX, "c0", &zeros, NULL, 0, &l->c);
}

/* gates = slice + h W^T; the first step has no h. */
static enum tarn_status lstm_step(const struct recurrent *r, uint32_t layer, uint32_t step, uint32_t slice,
				  struct recurrent_layer *l)
{
	const struct op_attr product = { .transpose_b = 1 };
	const uint32_t state[2] = { l->h, l->weight_state };
	uint32_t input[2] = { slice, TENSOR_NONE }, out[2];
	enum tarn_status st = TARN_OK;
	if (l->h != TENSOR_NONE) {
		st = add_step(r, OP_MATMUL, layer, step, "state", &product, state, 2, &input[1]);
		if (!st)
			st = add_step(r, OP_ADD, layer, step, "gates", NULL, input, 2, &input[0]);
	}
	input[1] = l->c;
	if (!st)
		st = add_step(r, OP_LSTM_CELL, layer, step, "cell", NULL, input, 2, out);
	if (st)
		return st;
	l->h = out[0];
	l->c = out[1];
	return TARN_OK;
}

static enum tarn_status gru_step(const struct recurrent *r, uint32_t layer, uint32_t step, uint32_t slice,
				 struct recurrent_layer *l)
{
	const struct op_attr product = { .transpose_b = 1 };
	const uint32_t state[3] = { l->h, l->weight_state, l->bias_state };
	uint32_t input[3] = { slice, TENSOR_NONE, l->h };
	enum tarn_status st = add_step(r, OP_MATMUL, layer, step, "state", &product, state, 3, &input[1]);
	return st ? st : add_step(r, OP_GRU_CELL, layer, step, "cell", NULL, input, 3, &l->h);
}

/* A layer on the rows (steps * samples, C) of a chunk: its h of each step, joined the same way. */
static enum tarn_status run_chunk(const struct recurrent *r, uint32_t layer, uint32_t first, uint32_t steps,
				  struct recurrent_layer *l, uint32_t *x)
{
	const struct op_attr product = { .transpose_b = 1 };
	struct network *net = r->net;
	const uint32_t input[3] = { *x, l->weight_input, r->options->gru ? l->bias_input : l->bias };
	uint32_t *h = HOST_ARRAY(net->graph->arena, steps, uint32_t), gates;
	enum tarn_status st =
		h ? add_step(r, OP_MATMUL, layer, first, "inputs", &product, input, 3, &gates) : TARN_ENOMEM;
	for (uint32_t t = 0; t < steps && !st; t++) {
		const struct op_attr rows = { .begin = t * r->samples, .extent = { r->samples } };
		uint32_t slice = gates;
		if (steps > 1)
			st = add_step(r, OP_SLICE, layer, first + t, "slice", &rows, &gates, 1, &slice);
		if (!st)
			st = r->options->gru ? gru_step(r, layer, first + t, slice, l)
					     : lstm_step(r, layer, first + t, slice, l);
		h[t] = l->h;
	}
	*x = l->h;
	return st || steps == 1 ? st : add_step(r, OP_CONCAT, layer, first, "states", NULL, h, steps, x);
}

/* Steps [first, first + steps) of x (T, N, C) as rows, through all layers. */
static enum tarn_status run_layers(const struct recurrent *r, uint32_t x, uint32_t first, uint32_t steps,
				   struct recurrent_layer *layer, uint32_t *y)
{
	struct network *net = r->net;
	const struct tensor sequence = *tensor_of(net, x);
	const struct op_attr slice = { .begin = first, .extent = { steps } };
	const struct op_attr rows = { .rank = 2, .extent = { steps * r->samples, sequence.dim[2] } };
	enum tarn_status st = TARN_OK;
	*y = x;
	if (steps < sequence.dim[0])
		st = add_step(r, OP_SLICE, 0, first, "chunk", &slice, y, 1, y);
	if (!st)
		st = add_step(r, OP_RESHAPE, 0, first, "rows", &rows, y, 1, y);
	for (uint32_t l = 0; l < r->options->layers && !st; l++)
		st = run_chunk(r, l, first, steps, &layer[l], y);
	return st;
}

/* (T, N, C) from (N, T, C), or back. */
static enum tarn_status swap_time(struct network *net, const char *name, uint32_t x, uint32_t *y)
{
	const struct op_attr attr = { .rank = 3, .extent = { 1, 0, 2 } };
	return add_unary(net, OP_PERMUTE, name, &attr, x, y);
}

/* All chunks, joined to (T * N, features). */
static enum tarn_status run_chunks(const struct recurrent *r, uint32_t x, struct recurrent_layer *layer, uint32_t *y)
{
	const uint32_t length = tensor_of(r->net, x)->dim[0], chunk = r->options->chunk;
	uint32_t *part = HOST_ARRAY(r->net->graph->arena, length / chunk + 1, uint32_t), parts = 0;
	enum tarn_status st = part ? TARN_OK : TARN_ENOMEM;
	for (uint32_t first = 0; first < length && !st; first += chunk) {
		uint32_t steps = length - first < chunk ? length - first : chunk;
		st = run_layers(r, x, first, steps, layer, &part[parts++]);
	}
	if (st)
		return st;
	*y = part[0];
	return parts == 1
		       ? TARN_OK
		       : add_step(r, OP_CONCAT, r->options->layers - 1, UINT32_MAX, "sequence", NULL, part, parts, y);
}

enum tarn_status layer_recurrent(struct network *net, const char *name, uint32_t x,
				 const struct recurrent_options *options, uint32_t *y)
{
	const struct tensor sequence = *tensor_of(net, x);
	struct recurrent r = { .net = net, .name = name, .options = options, .samples = sequence.dim[0] };
	if (sequence.rank != 3)
		return fail_layout(net, name, x, "a sequence, NxTxC");
	uint64_t gates = (uint64_t)options->features * (options->gru ? 3 : 4);
	if (!options->layers || !options->chunk || gates > UINT32_MAX ||
	    (uint64_t)options->chunk * r.samples > UINT32_MAX)
		return tarn_fail(TARN_EINVAL, "%s: layers and chunk must be at least 1, and fewer than 2^32 elements",
				 name);
	r.gates = (uint32_t)gates;
	struct recurrent_layer *layer = HOST_ARRAY(net->graph->arena, options->layers, struct recurrent_layer);
	enum tarn_status st = layer ? TARN_OK : TARN_ENOMEM;
	for (uint32_t l = 0; l < options->layers && !st; l++)
		st = add_layer_parameters(&r, l, l ? options->features : sequence.dim[2], &layer[l]);
	for (uint32_t l = 0; l < options->layers && !st; l++)
		st = begin_layer(&r, l, &layer[l]);
	char *swapped = part_name(net, name, "time"), *rows = part_name(net, name, "steps");
	if (!st && (!swapped || !rows))
		st = TARN_ENOMEM;
	if (!st)
		st = swap_time(net, swapped, x, &x);
	if (!st)
		st = run_chunks(&r, x, layer, &x);
	const struct op_attr shape = { .rank = 3, .extent = { sequence.dim[1], r.samples, options->features } };
	if (!st)
		st = add_unary(net, OP_RESHAPE, rows, &shape, x, &x);
	return st ? st : swap_time(net, name, x, y);
}
