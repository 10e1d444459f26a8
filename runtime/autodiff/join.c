/* join.c - partial gradients that are joined along an axis instead of being added; see sweep.h. */
#include "autodiff/sweep.h"

#include "autodiff/derive.h"

#include <stdlib.h>
#include <string.h>

/* A piece of a joined gradient: positions [begin, end) of the axis. */
struct piece {
	uint32_t op, gradient, begin, end;
};

static enum tarn_status defer(struct sweep *sweep, struct waiting **list, uint32_t op, uint32_t gradient)
{
	struct waiting *waiting = HOST_NEW(sweep->arena, struct waiting);
	if (!waiting)
		return TARN_ENOMEM;
	*waiting = (struct waiting){ *list, op, gradient };
	*list = waiting;
	return TARN_OK;
}

/* CONCAT along an axis, or the one before when it joined the same tensors. */
static enum tarn_status join(struct sweep *sweep, uint32_t op, const char *what, uint32_t axis, const uint32_t *input,
			     uint32_t inputs, uint32_t *out)
{
	struct graph *graph = sweep->graph;
	const struct op_attr attr = { .axis = axis };
	uint32_t last = sweep->last_joined;
	*out = input[0];
	if (inputs == 1)
		return TARN_OK;
	if (last != OP_NONE && graph->op[last].attr.axis == axis && graph->op[last].inputs == inputs &&
	    !memcmp(op_inputs(graph, last), input, inputs * sizeof *input)) {
		*out = op_outputs(graph, last)[0];
		return TARN_OK;
	}
	enum tarn_status st = derive_add(graph, op, what, OP_CONCAT, &attr, input, inputs, out);
	sweep->last_joined = graph->ops - 1;
	return st;
}

/* ---- slices ---- */

enum tarn_status sweep_defer_slice(struct sweep *sweep, uint32_t op, uint32_t gradient)
{
	return defer(sweep, &sweep->slices[op_inputs(sweep->graph, op)[0]], op, gradient);
}

static int compare_pieces(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;
	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->op < y->op ? -1 : x->op > y->op;
}

/* Side by side along one axis? */
static bool side_by_side(const struct graph *graph, const struct piece *piece, uint32_t pieces)
{
	for (uint32_t i = 1; i < pieces; i++)
		if (graph->op[piece[i].op].attr.axis != graph->op[piece[0].op].attr.axis ||
		    piece[i].begin < piece[i - 1].end)
			return false;
	return pieces > 1;
}

/* Zeros of the tensor's shape, but `length` long along the axis. */
static enum tarn_status add_gap(struct graph *graph, uint32_t op, uint32_t tensor, uint32_t axis, uint32_t length,
				uint32_t *out)
{
	const struct tensor *x = &graph->tensor[tensor];
	struct op_attr attr = { .rank = x->rank };
	memcpy(attr.extent, x->dim, x->rank * sizeof *x->dim);
	attr.extent[axis] = length;
	return derive_add(graph, op, "gap", OP_FILL, &attr, NULL, 0, out);
}

static enum tarn_status join_slices(struct sweep *sweep, uint32_t tensor, const struct piece *piece, uint32_t pieces)
{
	struct graph *graph = sweep->graph;
	const uint32_t axis = graph->op[piece[0].op].attr.axis, length = graph->tensor[tensor].dim[axis];
	uint32_t *input = HOST_ARRAY(sweep->arena, 2 * (size_t)pieces + 1, uint32_t), inputs = 0, at = 0, joined;
	enum tarn_status st = input ? TARN_OK : TARN_ENOMEM;
	for (uint32_t i = 0; i <= pieces && !st; i++) {
		uint32_t begin = i < pieces ? piece[i].begin : length;
		if (begin > at)
			st = add_gap(graph, piece[0].op, tensor, axis, begin - at, &input[inputs++]);
		if (i == pieces)
			break;
		input[inputs++] = piece[i].gradient;
		at = piece[i].end;
	}
	if (!st)
		st = join(sweep, piece[0].op, "joined", axis, input, inputs, &joined);
	return st ? st : sweep_accumulate(sweep, tensor, joined);
}

/* Each one padded to the whole tensor. */
static enum tarn_status add_slices(struct sweep *sweep, uint32_t tensor, const struct piece *piece, uint32_t pieces)
{
	enum tarn_status st = TARN_OK;
	for (uint32_t i = pieces; i-- > 0 && !st;) {
		uint32_t padded = TENSOR_NONE;
		st = derive_slice(sweep->graph, piece[i].op, &piece[i].gradient, NULL, &padded);
		if (!st)
			st = sweep_accumulate(sweep, tensor, padded);
	}
	return st;
}

static enum tarn_status finish_slices(struct sweep *sweep, uint32_t tensor)
{
	const struct waiting *waiting = sweep->slices[tensor];
	uint32_t pieces = 0, n = 0;
	sweep->slices[tensor] = NULL;
	for (const struct waiting *w = waiting; w; w = w->next)
		pieces++;
	if (!pieces)
		return TARN_OK;
	struct piece *piece = HOST_ARRAY(sweep->arena, pieces, struct piece);
	if (!piece)
		return TARN_ENOMEM;
	for (const struct waiting *w = waiting; w; w = w->next) {
		const struct op_attr *attr = &sweep->graph->op[w->op].attr;
		piece[n++] = (struct piece){ w->op, w->gradient, attr->begin, attr->begin + attr->extent[0] };
	}
	qsort(piece, pieces, sizeof *piece, compare_pieces);
	return side_by_side(sweep->graph, piece, pieces) ? join_slices(sweep, tensor, piece, pieces)
							 : add_slices(sweep, tensor, piece, pieces);
}

/* ---- products with one weight ---- */

bool sweep_joins_product(const struct sweep *sweep, uint32_t op, const bool *wanted)
{
	const struct graph *graph = sweep->graph;
	const struct op *node = &graph->op[op];
	const uint32_t *input = op_inputs(graph, op);
	if (node->kind != OP_MATMUL || node->attr.activation || node->attr.transpose_a || !wanted[1] ||
	    sweep->products[input[1]] < PRODUCTS_JOINED / 2)
		return false;
	for (uint32_t k = 1; k < node->inputs; k++)
		if (graph->tensor[input[k]].producer != OP_NONE || !wanted[k])
			return false;
	const struct tensor *w = &graph->tensor[input[1]];
	uint64_t rows = graph->tensor[input[0]].dim[0], sides = (uint64_t)w->dim[0] + w->dim[1];
	return rows < tensor_elements(w) / sides;
}

/* The products that wait, as one. */
static enum tarn_status finish_products(struct sweep *sweep, uint32_t weight)
{
	struct graph *graph = sweep->graph;
	const struct waiting *first = sweep->waiting_products[weight];
	uint32_t count = sweep->waiting_count[weight], a[PRODUCTS_JOINED], dc[PRODUCTS_JOINED], n = 0, joined_a,
		 joined_dc;
	sweep->waiting_products[weight] = NULL;
	sweep->waiting_count[weight] = 0;
	if (!count)
		return TARN_OK;
	for (const struct waiting *w = first; w; w = w->next, n++) {
		a[n] = op_inputs(graph, w->op)[0];
		dc[n] = w->gradient;
	}
	const uint32_t op = first->op, bias = graph->op[op].inputs == 3 ? op_inputs(graph, op)[2] : TENSOR_NONE;
	const bool transpose_b = graph->op[op].attr.transpose_b;
	enum tarn_status st = join(sweep, op, "output_joined", 0, dc, count, &joined_dc);
	if (!st)
		st = join(sweep, op, "input_joined", 0, a, count, &joined_a);
	if (st)
		return st;
	const struct op_attr attr = { .transpose_a = 1 };
	const uint32_t input[2] = { transpose_b ? joined_dc : joined_a, transpose_b ? joined_a : joined_dc };
	uint32_t partial;
	st = derive_add(graph, op, "weight", OP_MATMUL, &attr, input, 2, &partial);
	if (!st)
		st = sweep_accumulate(sweep, weight, partial);
	if (st || bias == TENSOR_NONE)
		return st;
	st = derive_add(graph, op, "bias", OP_SUM_ROWS, NULL, &joined_dc, 1, &partial);
	return st ? st : sweep_accumulate(sweep, bias, partial);
}

enum tarn_status sweep_defer_product(struct sweep *sweep, uint32_t op, uint32_t gradient)
{
	struct graph *graph = sweep->graph;
	const uint32_t weight = op_inputs(graph, op)[1];
	const struct waiting *before = sweep->waiting_products[weight];
	enum tarn_status st = TARN_OK;
	/* One product has one form: a weight that is also used transposed, or with another bias, begins anew. */
	if (before) {
		const struct op *other = &graph->op[before->op], *node = &graph->op[op];
		bool same = other->attr.transpose_b == node->attr.transpose_b && other->inputs == node->inputs &&
			    (node->inputs == 2 || op_inputs(graph, before->op)[2] == op_inputs(graph, op)[2]);
		if (!same)
			st = finish_products(sweep, weight);
	}
	if (!st)
		st = defer(sweep, &sweep->waiting_products[weight], op, gradient);
	sweep->waiting_count[weight]++;
	return !st && sweep->waiting_count[weight] == PRODUCTS_JOINED ? finish_products(sweep, weight) : st;
}

enum tarn_status sweep_finish(struct sweep *sweep, uint32_t tensor)
{
	enum tarn_status st = finish_products(sweep, tensor);
	return st ? st : finish_slices(sweep, tensor);
}
