/* layers_sequence.c - embedding, positions, attention and what goes with them; see layers.h. */
#include "graph/layer_parts.h"

#include <inttypes.h>

static enum tarn_status need_sequence(const struct network *net, const char *name, uint32_t x)
{
	return tensor_of(net, x)->rank == 3 ? TARN_OK : fail_layout(net, name, x, "a sequence, NxTxC");
}

/* A weight that starts uniform in [-bound, bound), or as network.init_bound says. */
static enum tarn_status add_uniform(struct network *net, const char *name, uint32_t rows, uint32_t columns, float bound,
				    uint32_t *out)
{
	const struct parameter parameter = { .layer = name,
					     .part = "weight",
					     .dim = { rows, columns },
					     .rank = 2,
					     .init = INIT_UNIFORM,
					     .bound = net->init_bound > 0 ? net->init_bound : bound,
					     .decays = true };
	return add_parameter(net, &parameter, out);
}

/* An op of the layer under "<name>/<part>". */
static enum tarn_status add_part(struct network *net, enum op_kind kind, const char *name, const char *part,
				 const struct op_attr *attr, const uint32_t *input, uint32_t inputs, uint32_t *y)
{
	uint32_t out[OP_MAX_OUTPUTS];
	char *text = part_name(net, name, part);
	if (!text)
		return TARN_ENOMEM;
	enum tarn_status st = graph_add_op(net->graph, kind, PHASE_FORWARD, text, attr, input, inputs, out);
	if (!st)
		*y = out[0];
	return st;
}

/* ---- tokens and positions ---- */

enum tarn_status layer_embedding(struct network *net, const char *name, uint32_t ids, uint32_t vocabulary,
				 uint32_t width, float bound, uint32_t *y)
{
	uint32_t input[2] = { TENSOR_NONE, ids };
	if (tensor_of(net, ids)->dtype != DTYPE_I32)
		return tarn_fail(
			TARN_EINVAL,
			"%s: the input %s holds %s, needed are token ids; data.type: tokens has them, and made-up "
			"data with data.context",
			name, tensor_name(net->graph, ids), dtype_name(tensor_of(net, ids)->dtype));
	enum tarn_status st = add_uniform(net, name, vocabulary, width, bound, &input[0]);
	return st ? st : graph_add_op(net->graph, OP_EMBEDDING, PHASE_FORWARD, name, NULL, input, 2, y);
}

/* The longest sequence that the layer will see: with data.shapes the tokens of a step may be a part of it. */
static uint32_t longest_sequence(const struct network *net, uint32_t length)
{
	const struct config *config = net->config;
	uint32_t input = graph_find(net->graph, "staging/input");
	bool whole =
		input != TENSOR_NONE && tensor_of(net, input)->rank == 2 && tensor_of(net, input)->dim[1] == length;
	return config->data.shapes.count && config->data.context && whole ? config->data.context : length;
}

enum tarn_status layer_positions(struct network *net, const char *name, uint32_t x, float bound, uint32_t *y)
{
	uint32_t input[2] = { x, TENSOR_NONE };
	enum tarn_status st = need_sequence(net, name, x);
	if (st)
		return st;
	const uint32_t length = tensor_of(net, x)->dim[1], longest = longest_sequence(net, length);
	const struct op_attr first = { .axis = 0, .begin = 0, .extent = { length } };
	st = add_uniform(net, name, longest, tensor_of(net, x)->dim[2], bound, &input[1]);
	if (!st && longest > length)
		st = add_part(net, OP_SLICE, name, "slice", &first, &input[1], 1, &input[1]);
	return st ? st : graph_add_op(net->graph, OP_ADD_BROADCAST, PHASE_FORWARD, name, NULL, input, 2, y);
}

enum tarn_status layer_class_token(struct network *net, const char *name, uint32_t x, float bound, uint32_t *y)
{
	const struct op_attr join = { .axis = 1 };
	uint32_t token, input[2] = { TENSOR_NONE, x };
	enum tarn_status st = need_sequence(net, name, x);
	if (!st)
		st = add_uniform(net, name, 1, tensor_of(net, x)->dim[2], bound, &token);
	if (st)
		return st;
	const uint32_t *dim = tensor_of(net, x)->dim;
	const struct op_attr repeat = { .rank = 3, .extent = { dim[0], 1, dim[2] } };
	st = add_part(net, OP_BROADCAST_ROWS, name, "token", &repeat, &token, 1, &input[0]);
	return st ? st : graph_add_op(net->graph, OP_CONCAT, PHASE_FORWARD, name, &join, input, 2, y);
}

enum tarn_status layer_position(struct network *net, const char *name, uint32_t x, uint32_t index, uint32_t *y)
{
	const struct op_attr slice = { .axis = 1, .begin = index, .extent = { 1 } };
	uint32_t row;
	enum tarn_status st = need_sequence(net, name, x);
	if (!st)
		st = add_part(net, OP_SLICE, name, "slice", &slice, &x, 1, &row);
	if (st)
		return st;
	const uint32_t *dim = tensor_of(net, row)->dim;
	const struct op_attr shape = { .rank = 2, .extent = { dim[0], dim[2] } };
	return add_unary(net, OP_RESHAPE, name, &shape, row, y);
}

enum tarn_status layer_sequence(struct network *net, const char *name, uint32_t x, uint32_t *y)
{
	enum tarn_status st = need_image(net, name, x);
	if (st)
		return st;
	const uint32_t *dim = tensor_of(net, x)->dim;
	uint64_t length = (uint64_t)dim[1] * dim[2];
	if (length > UINT32_MAX)
		return tarn_fail(TARN_EINVAL, "%s: %" PRIu64 " positions are too many", name, length);
	const struct op_attr shape = { .rank = 3, .extent = { dim[0], (uint32_t)length, dim[3] } };
	return add_unary(net, OP_RESHAPE, name, &shape, x, y);
}

/* ---- norm, gate ---- */

enum tarn_status layer_rms_norm(struct network *net, const char *name, uint32_t x, float epsilon, uint32_t *y)
{
	const struct op_attr attr = { .epsilon = epsilon };
	const struct tensor *tensor = tensor_of(net, x);
	uint32_t input[2] = { x, TENSOR_NONE }, out[2];
	if (tensor->rank < 2)
		return fail_layout(net, name, x, "at least 2 dimensions, channels last");
	struct parameter gamma = { .layer = name, .part = "weight", .rank = 1, .init = INIT_ONE };
	gamma.dim[0] = tensor->dim[tensor->rank - 1];
	enum tarn_status st = add_parameter(net, &gamma, &input[1]);
	if (!st)
		st = graph_add_op(net->graph, OP_RMS_NORM, PHASE_FORWARD, name, &attr, input, 2, out);
	if (!st)
		*y = out[0];
	return st;
}

enum tarn_status layer_gate(struct network *net, const char *name, uint32_t x, enum gate_mode mode,
			    enum activation activation, uint32_t *y)
{
	const struct op_attr attr = { .mode = mode, .activation = activation };
	return add_unary(net, OP_GATE, name, &attr, x, y);
}

/* ---- attention ---- */

/* What the parts of one attention layer share. */
struct attention {
	struct network *net;
	const char *name;
	const struct attention_options *options;
	uint32_t samples, length, heads, key_heads, width; /* width: of a head */
};

/* Channels [begin, begin + heads * width) of qkv as (N, T, heads, width), perhaps with rotary positions. */
static enum tarn_status take_heads(const struct attention *a, const char *part, uint32_t qkv, uint32_t begin,
				   uint32_t heads, bool turned, uint32_t *y)
{
	const struct op_attr slice = { .axis = 2, .begin = begin, .extent = { heads * a->width } };
	const struct op_attr shape = { .rank = 4, .extent = { a->samples, a->length, heads, a->width } };
	const struct op_attr rotary = { .alpha = a->options->rotary };
	enum tarn_status st = add_part(a->net, OP_SLICE, a->name, part, &slice, &qkv, 1, y);
	if (!st)
		st = add_part(a->net, OP_RESHAPE, a->name, "heads", &shape, y, 1, y);
	if (!st && turned && a->options->rotary > 0)
		st = add_part(a->net, OP_ROTARY, a->name, "rotary", &rotary, y, 1, y);
	return st;
}

/* (N, T, H, D) to (N, H, T, D) and back. */
static enum tarn_status swap_heads(const struct attention *a, uint32_t x, uint32_t *y)
{
	const struct op_attr attr = { .rank = 4, .extent = { 0, 2, 1, 3 } };
	return add_part(a->net, OP_PERMUTE, a->name, "swapped", &attr, &x, 1, y);
}

/* softmax(q k^T / sqrt(D)) v with its matrices. */
static enum tarn_status attend_plainly(const struct attention *a, uint32_t *heads, uint32_t *y)
{
	const struct op_attr product = { .transpose_b = 1, .alpha = (float)(1 / sqrt((double)a->width)) };
	const struct op_attr softmax = { .causal = a->options->causal };
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 0; i < 3 && !st; i++)
		st = swap_heads(a, heads[i], &heads[i]);
	uint32_t input[2] = { TENSOR_NONE, heads[2] };
	if (!st)
		st = add_part(a->net, OP_BATCH_MATMUL, a->name, "scores", &product, heads, 2, &input[0]);
	if (!st)
		st = add_part(a->net, OP_SOFTMAX, a->name, "softmax", &softmax, input, 1, &input[0]);
	if (!st)
		st = add_part(a->net, OP_BATCH_MATMUL, a->name, "values", NULL, input, 2, &input[0]);
	return st ? st : swap_heads(a, input[0], y);
}

static enum tarn_status attend(const struct attention *a, uint32_t qkv, uint32_t *y)
{
	const uint32_t queries = a->heads * a->width, keys = a->key_heads * a->width;
	const struct op_attr attr = { .causal = a->options->causal };
	const struct op_attr shape = { .rank = 3, .extent = { a->samples, a->length, queries } };
	uint32_t heads[3], out;
	enum tarn_status st = take_heads(a, "query", qkv, 0, a->heads, true, &heads[0]);
	if (!st)
		st = take_heads(a, "key", qkv, queries, a->key_heads, true, &heads[1]);
	if (!st)
		st = take_heads(a, "value", qkv, queries + keys, a->key_heads, false, &heads[2]);
	if (!st)
		st = a->options->plain ? attend_plainly(a, heads, &out)
				       : add_part(a->net, OP_ATTENTION, a->name, "heads", &attr, heads, 3, &out);
	return st ? st : add_part(a->net, OP_RESHAPE, a->name, "joined", &shape, &out, 1, y);
}

enum tarn_status layer_attention(struct network *net, const char *name, uint32_t x,
				 const struct attention_options *options, uint32_t *y)
{
	enum tarn_status st = need_sequence(net, name, x);
	if (st)
		return st;
	const uint32_t channels = tensor_of(net, x)->dim[2];
	struct attention a = { .net = net, .name = name, .options = options, .heads = options->heads };
	a.samples = tensor_of(net, x)->dim[0];
	a.length = tensor_of(net, x)->dim[1];
	a.key_heads = options->key_heads ? options->key_heads : options->heads;
	if (!options->heads || channels % options->heads)
		return tarn_fail(TARN_EINVAL, "%s: %" PRIu32 " channels cannot be divided into %" PRIu32 " heads", name,
				 channels, options->heads);
	if (options->heads % a.key_heads || (options->plain && a.key_heads != options->heads))
		return tarn_fail(TARN_EINVAL, "%s: key_heads is %" PRIu32 ", it must divide heads, %" PRIu32 "%s", name,
				 a.key_heads, options->heads, options->plain ? ", and be the same with plain" : "");
	a.width = channels / options->heads;
	const char *qkv_name = part_name(net, name, "qkv"), *proj_name = part_name(net, name, "proj");
	if (!qkv_name || !proj_name)
		return TARN_ENOMEM;
	uint32_t qkv;
	st = layer_dense(net, qkv_name, x, channels + 2 * a.key_heads * a.width, options->bias, NULL, &qkv);
	if (!st)
		st = attend(&a, qkv, &qkv);
	return st ? st : layer_dense(net, proj_name, qkv, channels, options->bias, NULL, y);
}
