/* shape_nn.c - shape rules of matrix products, convolutions, pooling, norms and losses. */
#include "graph/shape_rule.h"

#include <inttypes.h>
#include <string.h>

/* ---- matrix products ---- */

enum tarn_status shape_rule_matmul(const struct shape_call *call)
{
	const struct op_attr *attr = call->attr;
	char a_text[SHAPE_TEXT], b_text[SHAPE_TEXT];
	enum tarn_status st = shape_need_real(call, 0, call->inputs);
	if (st)
		return st;
	for (uint32_t i = 0; i < 2; i++) {
		st = shape_need_rank(call, i, 2, "a matrix (2 dimensions)");
		if (st)
			return st;
	}
	st = shape_need_fusable(call);
	if (st)
		return st;
	if (attr->transpose_a > 1 || attr->transpose_b > 1)
		return shape_fail(call, "transpose must be 0 or 1");
	const struct tensor *a = shape_in(call, 0), *b = shape_in(call, 1);
	uint32_t inner_a = a->dim[attr->transpose_a ? 0 : 1], inner_b = b->dim[attr->transpose_b ? 1 : 0];
	uint32_t dim[2] = { a->dim[attr->transpose_a ? 1 : 0], b->dim[attr->transpose_b ? 0 : 1] };
	if (inner_a != inner_b)
		return shape_fail(call, "%s%s times %s%s: the inner dimensions %" PRIu32 " and %" PRIu32 " differ",
				  shape_format(a->dim, 2, a_text, sizeof a_text),
				  attr->transpose_a ? " transposed" : "",
				  shape_format(b->dim, 2, b_text, sizeof b_text),
				  attr->transpose_b ? " transposed" : "", inner_a, inner_b);
	shape_set(&call->out[0], DTYPE_F32, 2, dim);
	return call->inputs == 3 ? shape_need_vectors(call, 2, 3, dim[1]) : TARN_OK;
}

/* ---- sliding windows ---- */

/* Positions of a window along an axis of that length: floor((padded - effective kernel) / stride) + 1. */
static enum tarn_status window_positions(const struct shape_call *call, uint32_t axis, uint32_t length, uint32_t *out)
{
	const struct window *w = &call->attr->window;
	static const char *const axis_name[] = { "height", "width" };
	if (!w->kernel[axis] || !w->stride[axis] || !w->dilation[axis])
		return shape_fail(call,
				  "kernel, stride and dilation of the %s must be at least 1, they are %" PRIu32
				  ", %" PRIu32 " and %" PRIu32,
				  axis_name[axis], w->kernel[axis], w->stride[axis], w->dilation[axis]);
	uint64_t effective = (uint64_t)w->dilation[axis] * (w->kernel[axis] - 1u) + 1;
	uint64_t padded = (uint64_t)length + w->pad_begin[axis] + w->pad_end[axis];
	if (effective > padded)
		return shape_fail(call,
				  "a kernel that spans %" PRIu64 " is larger than the padded %s of %" PRIu64
				  " (%" PRIu32 " + padding %" PRIu32 " + %" PRIu32 ")",
				  effective, axis_name[axis], padded, length, w->pad_begin[axis], w->pad_end[axis]);
	uint64_t positions = (padded - effective) / w->stride[axis] + 1;
	if (positions > UINT32_MAX)
		return shape_fail(call, "%" PRIu64 " window positions are too many", positions);
	*out = (uint32_t)positions;
	return TARN_OK;
}

/* Both axes of an image of that height and width. */
static enum tarn_status window_output(const struct shape_call *call, const uint32_t *extent, uint32_t *out)
{
	enum tarn_status st = window_positions(call, 0, extent[0], &out[0]);
	return st ? st : window_positions(call, 1, extent[1], &out[1]);
}

/* The gradient dy must have the spatial size that the forward op gives for an image of `extent`. */
static enum tarn_status need_window_output(const struct shape_call *call, uint32_t index, const uint32_t *extent)
{
	uint32_t out[2];
	enum tarn_status st = window_output(call, extent, out);
	if (st)
		return st;
	const struct tensor *dy = shape_in(call, index);
	if (dy->dim[1] == out[0] && dy->dim[2] == out[1])
		return TARN_OK;
	return shape_fail(call,
			  "%s is %" PRIu32 "x%" PRIu32 " in height and width, a %" PRIu32 "x%" PRIu32
			  " image gives %" PRIu32 "x%" PRIu32,
			  tensor_name(call->graph, call->input[index]), dy->dim[1], dy->dim[2], extent[0], extent[1],
			  out[0], out[1]);
}

static uint32_t groups_of(const struct shape_call *call)
{
	return call->attr->groups ? call->attr->groups : 1;
}

/* Channels in `in_channels` and weights `w` (O, C/g, KH, KW) fit one another and the window. */
static enum tarn_status need_conv_weight(const struct shape_call *call, uint32_t index)
{
	const struct window *window = &call->attr->window;
	enum tarn_status st = shape_need_rank(call, index, 4, "OxIxKHxKW");
	if (st)
		return st;
	const struct tensor *w = shape_in(call, index);
	if (w->dim[2] != window->kernel[0] || w->dim[3] != window->kernel[1])
		return shape_fail(call,
				  "weights of %" PRIu32 "x%" PRIu32 " do not fit the kernel of %" PRIu32 "x%" PRIu32,
				  w->dim[2], w->dim[3], window->kernel[0], window->kernel[1]);
	if (w->dim[0] % groups_of(call))
		return shape_fail(call, "%" PRIu32 " output channels cannot be divided into %" PRIu32 " groups",
				  w->dim[0], groups_of(call));
	return TARN_OK;
}

enum tarn_status shape_rule_conv2d(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, call->inputs);
	if (st)
		return st;
	st = shape_need_rank(call, 0, 4, "an image NxHxWxC");
	if (st)
		return st;
	st = need_conv_weight(call, 1);
	if (st)
		return st;
	st = shape_need_fusable(call);
	if (st)
		return st;
	const struct tensor *x = shape_in(call, 0), *w = shape_in(call, 1);
	uint32_t groups = groups_of(call);
	if (x->dim[3] % groups)
		return shape_fail(call, "%" PRIu32 " input channels cannot be divided into %" PRIu32 " groups",
				  x->dim[3], groups);
	if (x->dim[3] / groups != w->dim[1])
		return shape_fail(call,
				  "the image has %" PRIu32 " channels in %" PRIu32
				  " groups, the weights are for %" PRIu32 " channels a group",
				  x->dim[3], groups, w->dim[1]);
	uint32_t dim[4] = { x->dim[0], 0, 0, w->dim[0] };
	st = window_output(call, &x->dim[1], &dim[1]);
	if (st)
		return st;
	shape_set(&call->out[0], DTYPE_F32, 4, dim);
	return call->inputs == 3 ? shape_need_vectors(call, 2, 3, w->dim[0]) : TARN_OK;
}

enum tarn_status shape_rule_conv2d_grad_input(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, 2);
	if (st)
		return st;
	st = shape_need_rank(call, 0, 4, "an image NxOHxOWxO");
	if (st)
		return st;
	st = need_conv_weight(call, 1);
	if (st)
		return st;
	const struct tensor *dy = shape_in(call, 0), *w = shape_in(call, 1);
	if (dy->dim[3] != w->dim[0])
		return shape_fail(call, "the gradient has %" PRIu32 " channels, the weights give %" PRIu32, dy->dim[3],
				  w->dim[0]);
	uint64_t channels = (uint64_t)w->dim[1] * groups_of(call);
	if (channels > UINT32_MAX)
		return shape_fail(call, "%" PRIu64 " channels are too many", channels);
	st = need_window_output(call, 0, call->attr->extent);
	if (st)
		return st;
	shape_set(&call->out[0], DTYPE_F32, 4,
		  (uint32_t[]){ dy->dim[0], call->attr->extent[0], call->attr->extent[1], (uint32_t)channels });
	return TARN_OK;
}

enum tarn_status shape_rule_conv2d_grad_weight(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, 2);
	if (st)
		return st;
	for (uint32_t i = 0; i < 2; i++) {
		st = shape_need_rank(call, i, 4, "an image NxHxWxC");
		if (st)
			return st;
	}
	const struct tensor *x = shape_in(call, 0), *dy = shape_in(call, 1);
	if (x->dim[0] != dy->dim[0])
		return shape_fail(call, "%" PRIu32 " images but gradients of %" PRIu32, x->dim[0], dy->dim[0]);
	uint32_t groups = groups_of(call);
	if (x->dim[3] % groups || dy->dim[3] % groups)
		return shape_fail(call,
				  "%" PRIu32 " and %" PRIu32 " channels cannot be divided into %" PRIu32 " groups",
				  x->dim[3], dy->dim[3], groups);
	st = need_window_output(call, 1, &x->dim[1]);
	if (st)
		return st;
	const uint32_t *kernel = call->attr->window.kernel;
	shape_set(&call->out[0], DTYPE_F32, 4, (uint32_t[]){ dy->dim[3], x->dim[3] / groups, kernel[0], kernel[1] });
	return TARN_OK;
}

/* A pooling window always touches the image, so that a maximum and an average of it exist. */
static enum tarn_status need_pool_window(const struct shape_call *call)
{
	const struct window *w = &call->attr->window;
	for (uint32_t i = 0; i < 2; i++) {
		if (w->dilation[i] != 1)
			return shape_fail(call, "dilation is %" PRIu32 ", pooling knows only 1", w->dilation[i]);
		if (w->kernel[i] && (w->pad_begin[i] >= w->kernel[i] || w->pad_end[i] >= w->kernel[i]))
			return shape_fail(call,
					  "padding of %" PRIu32 " and %" PRIu32
					  " must be smaller than the kernel of %" PRIu32,
					  w->pad_begin[i], w->pad_end[i], w->kernel[i]);
	}
	uint64_t elements = (uint64_t)w->kernel[0] * w->kernel[1];
	bool indexed = call->row == op_row(OP_MAX_POOL) || call->row == op_row(OP_MAX_POOL_GRAD);
	if (indexed && elements > 256)
		return shape_fail(call, "a window of %" PRIu32 "x%" PRIu32 " has more than 256 elements", w->kernel[0],
				  w->kernel[1]);
	if (call->attr->count_padding > 1)
		return shape_fail(call, "count_padding must be 0 or 1");
	return TARN_OK;
}

enum tarn_status shape_rule_pool(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, 1);
	if (st)
		return st;
	st = shape_need_rank(call, 0, 4, "an image NxHxWxC");
	if (st)
		return st;
	st = need_pool_window(call);
	if (st)
		return st;
	const struct tensor *x = shape_in(call, 0);
	uint32_t dim[4] = { x->dim[0], 0, 0, x->dim[3] };
	st = window_output(call, &x->dim[1], &dim[1]);
	if (st)
		return st;
	shape_set(&call->out[0], DTYPE_F32, 4, dim);
	if (call->row->outputs == 2)
		shape_set(&call->out[1], DTYPE_U8, 4, dim);
	return TARN_OK;
}

enum tarn_status shape_rule_pool_grad(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, 1);
	if (st)
		return st;
	st = shape_need_rank(call, 0, 4, "an image NxOHxOWxC");
	if (st)
		return st;
	st = need_pool_window(call);
	if (st)
		return st;
	if (call->inputs == 2) {
		st = shape_need_dtype(call, 1, DTYPE_U8);
		if (st)
			return st;
		st = shape_need_same(call, 1, 0);
		if (st)
			return st;
	}
	const struct tensor *dy = shape_in(call, 0);
	const uint32_t *extent = call->attr->extent;
	st = need_window_output(call, 0, extent);
	if (st)
		return st;
	shape_set(&call->out[0], DTYPE_F32, 4, (uint32_t[]){ dy->dim[0], extent[0], extent[1], dy->dim[3] });
	return TARN_OK;
}

/* g, index: the window maps the shape of g to that of the indices. */
enum tarn_status shape_rule_max_pool_gather(const struct shape_call *call)
{
	enum tarn_status st = shape_rule_pool(call);
	if (!st)
		st = shape_need_dtype(call, 1, DTYPE_U8);
	const struct shape *y = &call->out[0];
	char needed[SHAPE_TEXT];
	if (st || (shape_in(call, 1)->rank == 4 && !memcmp(shape_in(call, 1)->dim, y->dim, 4 * sizeof *y->dim)))
		return st;
	return shape_fail_shape(call, 1, "the indices'", shape_format(y->dim, y->rank, needed, sizeof needed));
}

/* ---- norms ---- */

enum tarn_status shape_rule_sum_rows(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, 1);
	if (st)
		return st;
	st = shape_need_rows(call, 0);
	if (st)
		return st;
	for (uint32_t k = 0; k < call->row->outputs; k++)
		shape_set_vector(&call->out[k], DTYPE_F32, shape_last_dim(shape_in(call, 0)));
	return TARN_OK;
}

/* x, mean, var, gamma, beta; or dy, x, mean, var, gamma, beta [, dgamma, dbeta]. */
enum tarn_status shape_rule_batch(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, call->inputs);
	if (st)
		return st;
	st = shape_need_rows(call, 0);
	if (st)
		return st;
	bool backward = call->inputs > 5;
	if (backward) {
		st = shape_need_same(call, 1, 0);
		if (st)
			return st;
	}
	uint32_t channels = shape_last_dim(shape_in(call, 0));
	st = shape_need_vectors(call, backward ? 2 : 1, call->inputs, channels);
	if (st)
		return st;
	st = shape_need_positive(call, "epsilon", (double)call->attr->epsilon);
	if (st)
		return st;
	st = shape_need_fusable(call);
	if (st)
		return st;
	shape_set_like(&call->out[0], shape_in(call, 0));
	if (call->row->outputs == 2)
		for (uint32_t k = 0; k < 2; k++)
			shape_set_vector(&call->out[k], DTYPE_F32, channels);
	return TARN_OK;
}

enum tarn_status shape_rule_running_update(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, 2);
	if (st)
		return st;
	st = shape_need_dtype(call, 2, DTYPE_U64);
	if (st)
		return st;
	st = shape_need_real(call, 3, 5);
	if (st)
		return st;
	uint32_t channels = shape_last_dim(shape_in(call, 0));
	for (uint32_t i = 0; i < 5; i++) {
		st = shape_need_vectors(call, i, i + 1, i == 2 ? 1 : channels);
		if (st)
			return st;
	}
	st = shape_need_number(call, 5);
	if (!st)
		st = shape_need_range(call, "momentum", (double)call->attr->momentum, 0, 1);
	if (st)
		return st;
	if (!call->attr->samples)
		return shape_fail(call, "samples is 0, it must be at least 1");
	for (uint32_t k = 0; k < 3; k++)
		shape_set_like(&call->out[k], shape_in(call, k));
	return TARN_OK;
}

enum tarn_status shape_rule_layer_norm(const struct shape_call *call)
{
	uint32_t row_count = 0;
	enum tarn_status st = shape_need_real(call, 0, 3);
	if (st)
		return st;
	st = shape_need_rows(call, 0);
	if (st)
		return st;
	st = shape_need_vectors(call, 1, 3, shape_last_dim(shape_in(call, 0)));
	if (st)
		return st;
	st = shape_need_positive(call, "epsilon", (double)call->attr->epsilon);
	if (st)
		return st;
	st = shape_need_row_count(call, 0, &row_count);
	if (st)
		return st;
	shape_set_like(&call->out[0], shape_in(call, 0));
	shape_set_vector(&call->out[1], DTYPE_F32, row_count);
	shape_set_vector(&call->out[2], DTYPE_F32, row_count);
	return TARN_OK;
}

/* dy, x, mean, rstd [, gamma] */
enum tarn_status shape_rule_layer_norm_grad(const struct shape_call *call)
{
	uint32_t row_count = 0;
	enum tarn_status st = shape_need_real(call, 0, call->inputs);
	if (st)
		return st;
	st = shape_need_rows(call, 0);
	if (st)
		return st;
	st = shape_need_same(call, 1, 0);
	if (st)
		return st;
	st = shape_need_row_count(call, 0, &row_count);
	if (st)
		return st;
	st = shape_need_vectors(call, 2, 4, row_count);
	if (st)
		return st;
	uint32_t channels = shape_last_dim(shape_in(call, 0));
	if (call->inputs == 5) {
		shape_set_like(&call->out[0], shape_in(call, 0));
		return shape_need_vectors(call, 4, 5, channels);
	}
	shape_set_vector(&call->out[0], DTYPE_F32, channels);
	shape_set_vector(&call->out[1], DTYPE_F32, channels);
	return TARN_OK;
}

/* ---- losses ---- */

/* logits, labels [, dloss] */
enum tarn_status shape_rule_cross_entropy(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, 1);
	if (st)
		return st;
	st = shape_need_dtype(call, 1, DTYPE_I32);
	if (st)
		return st;
	st = shape_need_rows(call, 0);
	if (st)
		return st;
	const struct tensor *logits = shape_in(call, 0), *labels = shape_in(call, 1);
	if (tensor_elements(labels) != tensor_rows(logits))
		return shape_fail(call, "%" PRIu64 " rows of logits but %" PRIu64 " labels", tensor_rows(logits),
				  tensor_elements(labels));
	st = shape_need_label_attributes(call);
	if (st)
		return st;
	shape_set_vector(&call->out[0], DTYPE_F32, 1);
	if (call->inputs == 2)
		return TARN_OK;
	shape_set_like(&call->out[0], logits);
	st = shape_need_real(call, 2, 3);
	return st ? st : shape_need_vectors(call, 2, 3, 1);
}

/* labels -> a weight for each label and class */
enum tarn_status shape_rule_label_weights(const struct shape_call *call)
{
	const struct tensor *labels = shape_in(call, 0);
	enum tarn_status st = shape_need_dtype(call, 0, DTYPE_I32);
	if (!st)
		st = shape_need_label_attributes(call);
	if (st)
		return st;
	if (labels->rank + 1u > OP_MAX_RANK || !call->attr->extent[0])
		return shape_fail(call, "%u dimensions of labels and %" PRIu32 " classes; at most %d and at least 1",
				  labels->rank, call->attr->extent[0], OP_MAX_RANK - 1);
	shape_set(&call->out[0], DTYPE_F32, labels->rank, labels->dim);
	call->out[0].dim[labels->rank] = call->attr->extent[0];
	call->out[0].rank = (uint8_t)(labels->rank + 1u);
	return TARN_OK;
}

/* value, labels of a part, labels of the whole batch */
enum tarn_status shape_rule_label_share(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, 1);
	if (!st)
		st = shape_need_vectors(call, 0, 1, 1);
	for (uint32_t i = 1; i < 3 && !st; i++)
		st = shape_need_dtype(call, i, DTYPE_I32);
	if (!st)
		st = shape_need_label_attributes(call);
	if (!st && tensor_elements(shape_in(call, 1)) > tensor_elements(shape_in(call, 2)))
		st = shape_fail(call, "a part of %" PRIu64 " labels is larger than the whole of %" PRIu64,
				tensor_elements(shape_in(call, 1)), tensor_elements(shape_in(call, 2)));
	shape_set_vector(&call->out[0], DTYPE_F32, 1);
	return st;
}

/* prediction, target [, dloss] */
enum tarn_status shape_rule_squared_error(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, call->inputs);
	if (st)
		return st;
	st = shape_need_same(call, 1, 0);
	if (st)
		return st;
	shape_set_vector(&call->out[0], DTYPE_F32, 1);
	if (call->inputs == 2)
		return TARN_OK;
	shape_set_like(&call->out[0], shape_in(call, 0));
	return shape_need_vectors(call, 2, 3, 1);
}
