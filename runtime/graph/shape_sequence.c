/* shape_sequence.c - shape rules of ops that sequence models are made of. */
#include "graph/shape_rule.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- products and sums with fewer dimensions ---- */

/* a (..,M,K) and b (..,K,N) with the same leading dimensions, the last two of each perhaps transposed. */
enum tarn_status shape_rule_batch_matmul(const struct shape_call *call)
{
	const struct op_attr *attr = call->attr;
	char a_text[SHAPE_TEXT], b_text[SHAPE_TEXT];
	enum tarn_status st = shape_need_real(call, 0, 2);
	if (st)
		return st;
	const struct tensor *a = shape_in(call, 0), *b = shape_in(call, 1);
	shape_format(a->dim, a->rank, a_text, sizeof a_text);
	shape_format(b->dim, b->rank, b_text, sizeof b_text);
	if (attr->transpose_a > 1 || attr->transpose_b > 1)
		return shape_fail(call, "transpose must be 0 or 1");
	if (!isfinite(attr->alpha))
		return shape_fail(call, "alpha must be a finite number");
	if (a->rank < 3 || a->rank != b->rank || memcmp(a->dim, b->dim, (a->rank - 2u) * sizeof *a->dim))
		return shape_fail(call, "%s times %s: at least 3 dimensions and the same leading ones are needed",
				  a_text, b_text);
	const uint32_t *rows = &a->dim[a->rank - 2], *columns = &b->dim[b->rank - 2];
	uint32_t inner_a = rows[attr->transpose_a ? 0 : 1], inner_b = columns[attr->transpose_b ? 1 : 0];
	if (inner_a != inner_b)
		return shape_fail(call, "%s%s times %s%s: the inner dimensions %" PRIu32 " and %" PRIu32 " differ",
				  a_text, attr->transpose_a ? " transposed" : "", b_text,
				  attr->transpose_b ? " transposed" : "", inner_a, inner_b);
	shape_set_like(&call->out[0], a);
	call->out[0].dim[a->rank - 2] = rows[attr->transpose_a ? 1 : 0];
	call->out[0].dim[a->rank - 1] = columns[attr->transpose_b ? 0 : 1];
	return TARN_OK;
}

/* The last dimensions of `large` are those of `small`. */
static bool ends_with(const uint32_t *large, uint32_t large_rank, const struct tensor *small)
{
	return small->rank <= large_rank &&
	       !memcmp(large + large_rank - small->rank, small->dim, small->rank * sizeof *small->dim);
}

enum tarn_status shape_rule_add_broadcast(const struct shape_call *call)
{
	char a_text[SHAPE_TEXT], b_text[SHAPE_TEXT];
	enum tarn_status st = shape_need_real(call, 0, 2);
	if (st)
		return st;
	const struct tensor *a = shape_in(call, 0), *b = shape_in(call, 1);
	if (!ends_with(a->dim, a->rank, b))
		return shape_fail(call, "%s plus %s: the second shape must be the end of the first",
				  shape_format(a->dim, a->rank, a_text, sizeof a_text),
				  shape_format(b->dim, b->rank, b_text, sizeof b_text));
	shape_set_like(&call->out[0], a);
	return TARN_OK;
}

enum tarn_status shape_rule_broadcast_rows(const struct shape_call *call)
{
	const struct op_attr *attr = call->attr;
	const struct tensor *x = shape_in(call, 0);
	char from[SHAPE_TEXT], to[SHAPE_TEXT];
	enum tarn_status st = shape_need_real(call, 0, 1);
	if (st)
		return st;
	if (attr->rank > OP_MAX_RANK)
		return shape_fail(call, "%" PRIu32 " dimensions, at most %d are possible", attr->rank, OP_MAX_RANK);
	if (!ends_with(attr->extent, attr->rank, x))
		return shape_fail(call, "%s cannot be repeated to %s, which must end with it",
				  shape_format(x->dim, x->rank, from, sizeof from),
				  shape_format(attr->extent, attr->rank, to, sizeof to));
	shape_set(&call->out[0], DTYPE_F32, attr->rank, attr->extent);
	return TARN_OK;
}

/* ---- embedding ---- */

enum tarn_status shape_rule_embedding(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, 1);
	if (!st)
		st = shape_need_dtype(call, 1, DTYPE_I32);
	if (!st)
		st = shape_need_rank(call, 0, 2, "a table VxC");
	if (st)
		return st;
	const struct tensor *table = shape_in(call, 0), *ids = shape_in(call, 1);
	if (ids->rank >= OP_MAX_RANK)
		return shape_fail(call, "ids have %u dimensions, at most %d are possible", ids->rank, OP_MAX_RANK - 1);
	shape_set(&call->out[0], DTYPE_F32, ids->rank, ids->dim);
	call->out[0].dim[call->out[0].rank++] = table->dim[1];
	return TARN_OK;
}

enum tarn_status shape_rule_embedding_grad(const struct shape_call *call)
{
	char text[SHAPE_TEXT];
	enum tarn_status st = shape_need_real(call, 0, 1);
	if (!st)
		st = shape_need_dtype(call, 1, DTYPE_I32);
	if (st)
		return st;
	const struct tensor *dy = shape_in(call, 0), *ids = shape_in(call, 1);
	bool fits = dy->rank == ids->rank + 1u && !memcmp(dy->dim, ids->dim, ids->rank * sizeof *ids->dim);
	if (!fits)
		return shape_fail_shape(call, 0, "input", "the shape of the ids and one dimension more");
	if (!call->attr->extent[0])
		return shape_fail(call, "extent is 0 for ids of shape %s, it must be the length of the table",
				  shape_format(ids->dim, ids->rank, text, sizeof text));
	shape_set(&call->out[0], DTYPE_F32, 2, (uint32_t[]){ call->attr->extent[0], shape_last_dim(dy) });
	return TARN_OK;
}

/* ---- softmax and attention ---- */

static enum tarn_status need_causal(const struct shape_call *call, uint32_t rows, uint32_t columns)
{
	if (call->attr->causal > 1)
		return shape_fail(call, "causal must be 0 or 1");
	if (call->attr->causal && rows > columns)
		return shape_fail(call,
				  "causal with %" PRIu32 " rows and %" PRIu32
				  " columns leaves the first rows empty; there must be as many columns as rows",
				  rows, columns);
	return TARN_OK;
}

/* x; or dy, y. */
enum tarn_status shape_rule_log_softmax(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, call->inputs);
	if (!st)
		st = shape_need_rows(call, 0);
	if (!st && call->inputs == 2)
		st = shape_need_same(call, 1, 0);
	shape_set_like(&call->out[0], shape_in(call, 0));
	return st;
}

enum tarn_status shape_rule_softmax(const struct shape_call *call)
{
	enum tarn_status st = shape_rule_log_softmax(call);
	if (st)
		return st;
	const struct tensor *x = shape_in(call, 0);
	if (!isfinite(call->attr->alpha))
		return shape_fail(call, "alpha must be a finite number");
	return need_causal(call, x->dim[x->rank - 2], x->dim[x->rank - 1]);
}

/* q, k and v from input `first` on. */
static enum tarn_status need_heads(const struct shape_call *call, uint32_t first)
{
	enum tarn_status st = shape_need_real(call, 0, call->inputs);
	for (uint32_t i = first; i < first + 3 && !st; i++)
		st = shape_need_rank(call, i, 4, "BxTxHxD");
	if (!st)
		st = shape_need_same(call, first + 2, first + 1);
	if (st)
		return st;
	const struct tensor *q = shape_in(call, first), *k = shape_in(call, first + 1);
	if (q->dim[0] != k->dim[0] || q->dim[3] != k->dim[3])
		return shape_fail(call,
				  "queries are for %" PRIu32 " samples and heads of %" PRIu32 ", keys for %" PRIu32
				  " and %" PRIu32,
				  q->dim[0], q->dim[3], k->dim[0], k->dim[3]);
	if (q->dim[2] % k->dim[2])
		return shape_fail(call, "%" PRIu32 " heads cannot be divided among %" PRIu32 " heads of keys",
				  q->dim[2], k->dim[2]);
	if (!isfinite(call->attr->alpha) || call->attr->alpha < 0)
		return shape_fail(call, "alpha must be a positive number, or 0 for 1/sqrt(D)");
	return need_causal(call, q->dim[1], k->dim[1]);
}

enum tarn_status shape_rule_attention(const struct shape_call *call)
{
	enum tarn_status st = need_heads(call, 0);
	const struct tensor *q = shape_in(call, 0);
	shape_set_like(&call->out[0], q);
	shape_set(&call->out[1], DTYPE_F32, 3, (uint32_t[]){ q->dim[0], q->dim[2], q->dim[1] });
	return st;
}

/* do, q, k, v, o, lse */
enum tarn_status shape_rule_attention_grad(const struct shape_call *call)
{
	char needed[SHAPE_TEXT];
	enum tarn_status st = need_heads(call, 1);
	if (!st)
		st = shape_need_same(call, 0, 1);
	if (!st)
		st = shape_need_same(call, 4, 1);
	if (st)
		return st;
	const struct tensor *q = shape_in(call, 1), *lse = shape_in(call, 5);
	const uint32_t dim[3] = { q->dim[0], q->dim[2], q->dim[1] };
	for (uint32_t k = 0; k < 3; k++)
		shape_set_like(&call->out[k], shape_in(call, 1 + k));
	if (lse->rank == 3 && !memcmp(lse->dim, dim, sizeof dim))
		return TARN_OK;
	return shape_fail_shape(call, 5, "input", shape_format(dim, 3, needed, sizeof needed));
}

enum tarn_status shape_rule_rotary(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, 1);
	if (!st)
		st = shape_need_rank(call, 0, 4, "BxTxHxD");
	if (!st)
		st = shape_need_positive(call, "alpha, the base,", (double)call->attr->alpha);
	if (st)
		return st;
	if (shape_last_dim(shape_in(call, 0)) % 2)
		return shape_fail(call, "heads of %" PRIu32 " elements have no pairs; the number must be even",
				  shape_last_dim(shape_in(call, 0)));
	if (call->attr->transpose_a > 1)
		return shape_fail(call, "transpose must be 0 or 1");
	shape_set_like(&call->out[0], shape_in(call, 0));
	return TARN_OK;
}

/* ---- norm, gates ---- */

enum tarn_status shape_rule_rms_norm(const struct shape_call *call)
{
	uint32_t rows = 0;
	enum tarn_status st = shape_need_real(call, 0, 2);
	if (!st)
		st = shape_need_rows(call, 0);
	if (!st)
		st = shape_need_vectors(call, 1, 2, shape_last_dim(shape_in(call, 0)));
	if (!st)
		st = shape_need_positive(call, "epsilon", (double)call->attr->epsilon);
	if (!st)
		st = shape_need_row_count(call, 0, &rows);
	shape_set_like(&call->out[0], shape_in(call, 0));
	shape_set_vector(&call->out[1], DTYPE_F32, rows);
	return st;
}

/* dy, x, rstd [, gamma] */
enum tarn_status shape_rule_rms_norm_grad(const struct shape_call *call)
{
	uint32_t rows = 0;
	enum tarn_status st = shape_need_real(call, 0, call->inputs);
	if (!st)
		st = shape_need_rows(call, 0);
	if (!st)
		st = shape_need_same(call, 1, 0);
	if (!st)
		st = shape_need_row_count(call, 0, &rows);
	if (!st)
		st = shape_need_vectors(call, 2, 3, rows);
	if (st)
		return st;
	uint32_t channels = shape_last_dim(shape_in(call, 0));
	shape_set_vector(&call->out[0], DTYPE_F32, channels);
	if (call->inputs == 3)
		return TARN_OK;
	shape_set_like(&call->out[0], shape_in(call, 0));
	return shape_need_vectors(call, 3, 4, channels);
}

static enum tarn_status need_gate(const struct shape_call *call)
{
	const struct op_attr *attr = call->attr;
	if (attr->mode >= GATE_MODES)
		return shape_fail(call, "mode %" PRIu32 " is none of the %d", attr->mode, GATE_MODES);
	bool activation =
		attr->activation == ACTIVATION_SIGMOID ||
		(attr->activation < ACTIVATIONS && !activation_grad_reads_output((enum activation)attr->activation));
	if (attr->mode == GATE_ACTIVATION ? activation : attr->activation == ACTIVATION_NONE)
		return TARN_OK;
	return shape_fail(call, "activation %s cannot be part of this gate",
			  activation_name((enum activation)attr->activation));
}

enum tarn_status shape_rule_gate(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, 1);
	if (!st)
		st = shape_need_rows(call, 0);
	if (!st)
		st = need_gate(call);
	if (st)
		return st;
	const struct tensor *x = shape_in(call, 0);
	if (shape_last_dim(x) % 2)
		return shape_fail(call, "%" PRIu32 " channels have no two halves", shape_last_dim(x));
	shape_set_like(&call->out[0], x);
	call->out[0].dim[x->rank - 1] /= 2;
	return TARN_OK;
}

/* dy, x */
enum tarn_status shape_rule_gate_grad(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, 2);
	if (!st)
		st = shape_need_rows(call, 1);
	if (!st)
		st = need_gate(call);
	if (st)
		return st;
	struct tensor half = *shape_in(call, 1);
	char needed[SHAPE_TEXT];
	if (half.dim[half.rank - 1] % 2)
		return shape_fail(call, "%" PRIu32 " channels have no two halves", half.dim[half.rank - 1]);
	half.dim[half.rank - 1] /= 2;
	if (!shape_same_dims(shape_in(call, 0), &half))
		return shape_fail_shape(call, 0, "input", shape_format(half.dim, half.rank, needed, sizeof needed));
	shape_set_like(&call->out[0], shape_in(call, 1));
	return TARN_OK;
}

/* ---- loss without logits ---- */

/* x, w, labels [, bias]; or x, w, labels, lse, dloss [, bias]. */
enum tarn_status shape_rule_linear_cross_entropy(const struct shape_call *call)
{
	uint32_t rows = 0, optional = call->row->min_inputs;
	bool backward = optional == 5;
	enum tarn_status st = shape_need_real(call, 0, 2);
	if (!st)
		st = shape_need_dtype(call, 2, DTYPE_I32);
	if (!st)
		st = shape_need_real(call, 3, call->inputs);
	if (!st)
		st = shape_need_rows(call, 0);
	if (!st)
		st = shape_need_rank(call, 1, 2, "weights VxC");
	if (!st)
		st = shape_need_row_count(call, 0, &rows);
	if (!st)
		st = shape_need_label_attributes(call);
	if (st)
		return st;
	const struct tensor *x = shape_in(call, 0), *w = shape_in(call, 1), *labels = shape_in(call, 2);
	if (shape_last_dim(x) != w->dim[1])
		return shape_fail(call, "rows of %" PRIu32 " elements times weights for %" PRIu32, shape_last_dim(x),
				  w->dim[1]);
	if (tensor_elements(labels) != rows)
		return shape_fail(call, "%" PRIu32 " rows but %" PRIu64 " labels", rows, tensor_elements(labels));
	if (call->inputs > optional) {
		st = shape_need_vectors(call, optional, optional + 1, w->dim[0]);
		if (st)
			return st;
	}
	if (!backward) {
		shape_set_vector(&call->out[0], DTYPE_F32, 1);
		shape_set_vector(&call->out[1], DTYPE_F32, rows);
		return TARN_OK;
	}
	shape_set_like(&call->out[0], x);
	shape_set_like(&call->out[1], w);
	shape_set_vector(&call->out[2], DTYPE_F32, w->dim[0]);
	st = shape_need_vectors(call, 3, 4, rows);
	return st ? st : shape_need_vectors(call, 4, 5, 1);
}

/* ---- recurrent cells ---- */

/* Input `index` is (N, parts * H) where input `state` is (N, H). */
static enum tarn_status need_gates(const struct shape_call *call, uint32_t index, uint32_t parts, uint32_t state)
{
	const struct tensor *gates = shape_in(call, index), *h = shape_in(call, state);
	char text[SHAPE_TEXT];
	enum tarn_status st = shape_need_rank(call, state, 2, "NxH");
	if (st)
		return st;
	if (gates->rank == 2 && gates->dim[0] == h->dim[0] && gates->dim[1] == (uint64_t)parts * h->dim[1])
		return TARN_OK;
	return shape_fail(
		call, "gates have the shape %s; for a state of %" PRIu32 "x%" PRIu32 " they are %" PRIu32 "x%" PRIu64,
		shape_format(gates->dim, gates->rank, text, sizeof text), h->dim[0], h->dim[1], h->dim[0],
		(uint64_t)parts * h->dim[1]);
}

/* gates, c_prev; or dh, dc, gates, c_prev, c. */
enum tarn_status shape_rule_lstm_cell(const struct shape_call *call)
{
	bool backward = call->inputs == 5;
	uint32_t gates = backward ? 2 : 0, state = gates + 1;
	enum tarn_status st = shape_need_real(call, 0, call->inputs);
	if (!st)
		st = need_gates(call, gates, 4, state);
	for (uint32_t i = 0; backward && i < 5 && !st; i++)
		st = i == gates ? TARN_OK : shape_need_same(call, i, state);
	shape_set_like(&call->out[0], shape_in(call, backward ? gates : state));
	shape_set_like(&call->out[1], shape_in(call, state));
	return st;
}

/* gates_x, gates_h, h_prev; or dh, gates_x, gates_h, h_prev. */
enum tarn_status shape_rule_gru_cell(const struct shape_call *call)
{
	bool backward = call->inputs == 4;
	uint32_t gates = backward ? 1 : 0, state = gates + 2;
	enum tarn_status st = shape_need_real(call, 0, call->inputs);
	if (!st)
		st = need_gates(call, gates, 3, state);
	if (!st)
		st = need_gates(call, gates + 1, 3, state);
	if (!st && backward)
		st = shape_need_same(call, 0, state);
	if (!backward) {
		shape_set_like(&call->out[0], shape_in(call, state));
		return st;
	}
	for (uint32_t k = 0; k < 3; k++)
		shape_set_like(&call->out[k], shape_in(call, gates + k));
	return st;
}

enum tarn_status shape_rule_exponential_average(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, 2);
	if (!st)
		st = shape_need_same(call, 1, 0);
	if (!st)
		st = shape_need_number(call, 2);
	shape_set_like(&call->out[0], shape_in(call, 0));
	return st ? st : shape_need_range(call, "alpha, the decay,", (double)call->attr->alpha, 0, 1);
}
