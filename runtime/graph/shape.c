/*
 * shape.c - the shape rules, one function a group of kinds.
 *
 * A rule trusts nothing: tensors and attributes may come from a damaged plan file. Arithmetic on dimensions is done in
 * 64 bits, where products of two 32-bit numbers and small sums cannot overflow; sizes of whole tensors are checked
 * by shape_check.
 */
#include "graph/shape.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What a rule looks at. */
struct call {
	const struct graph *graph;
	const struct op_row *row;
	const char *name;
	const struct op_attr *attr;
	const uint32_t *input;
	uint32_t inputs;
	struct shape *out;
};

typedef enum tarn_status rule_fn(const struct call *call);

static const struct tensor *in(const struct call *call, uint32_t index)
{
	return &call->graph->tensor[call->input[index]];
}

static enum tarn_status fail(const struct call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "conv1: conv2d: <sentence>" */
static enum tarn_status fail(const struct call *call, const char *format, ...)
{
	char sentence[TARN_ERROR_BYTES];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(sentence, sizeof sentence, format, arguments);
	va_end(arguments);
	return tarn_fail(TARN_EINVAL, "%s: %s: %s", call->name, call->row->name, sentence);
}

/* ---- what rules have in common ---- */

enum tarn_status shape_check(const char *name, const struct shape *shape)
{
	char text[SHAPE_TEXT];
	if (shape->rank > OP_MAX_RANK)
		return tarn_fail(TARN_EINVAL, "%s: %u dimensions, at most %d are possible", name, shape->rank,
				 OP_MAX_RANK);
	if (shape->dtype >= DTYPES)
		return tarn_fail(TARN_EINVAL, "%s: unknown element type %u", name, shape->dtype);
	uint64_t bytes = dtype_bytes(shape->dtype);
	for (uint32_t i = 0; i < shape->rank; i++) {
		shape_format(shape->dim, shape->rank, text, sizeof text);
		if (!shape->dim[i])
			return tarn_fail(TARN_EINVAL, "%s: the shape %s has a zero dimension", name, text);
		if (!bytes_mul(bytes, shape->dim[i], &bytes) || bytes > TENSOR_MAX_BYTES)
			return tarn_fail(TARN_EINVAL, "%s: a tensor of shape %s is larger than 2^62 bytes", name, text);
	}
	return TARN_OK;
}

static void set(struct shape *shape, enum dtype dtype, uint32_t rank, const uint32_t *dim)
{
	memset(shape, 0, sizeof *shape);
	shape->dtype = (uint8_t)dtype;
	shape->rank = (uint8_t)rank;
	memcpy(shape->dim, dim, rank * sizeof *dim);
}

static void set_vector(struct shape *shape, enum dtype dtype, uint32_t length)
{
	set(shape, dtype, 1, &length);
}

/* Output k looks like that tensor. */
static void set_like(struct shape *shape, const struct tensor *tensor)
{
	set(shape, tensor->dtype, tensor->rank, tensor->dim);
}

static bool same_dims(const struct tensor *a, const struct tensor *b)
{
	return a->rank == b->rank && !memcmp(a->dim, b->dim, a->rank * sizeof *a->dim);
}

static uint32_t last_dim(const struct tensor *tensor)
{
	return tensor->rank ? tensor->dim[tensor->rank - 1] : 1;
}

static enum tarn_status fail_shape(const struct call *call, uint32_t index, const char *what, const char *needed)
{
	char text[SHAPE_TEXT];
	const struct tensor *tensor = in(call, index);
	return fail(call, "%s %s has the shape %s, needed is %s", what, tensor_name(call->graph, call->input[index]),
		    shape_format(tensor->dim, tensor->rank, text, sizeof text), needed);
}

static enum tarn_status need_dtype(const struct call *call, uint32_t index, enum dtype dtype)
{
	const struct tensor *tensor = in(call, index);
	if (tensor->dtype == dtype)
		return TARN_OK;
	return fail(call, "input %" PRIu32 ", %s, holds %s, needed is %s", index,
		    tensor_name(call->graph, call->input[index]), dtype_name(tensor->dtype), dtype_name(dtype));
}

/* Inputs [first, last) hold f32. */
static enum tarn_status need_f32(const struct call *call, uint32_t first, uint32_t last)
{
	enum tarn_status st = TARN_OK;
	for (uint32_t i = first; i < last && !st; i++)
		st = need_dtype(call, i, DTYPE_F32);
	return st;
}

static enum tarn_status need_rank(const struct call *call, uint32_t index, uint32_t rank, const char *layout)
{
	return in(call, index)->rank == rank ? TARN_OK : fail_shape(call, index, "input", layout);
}

/* Inputs [first, last) are vectors of that length. */
static enum tarn_status need_vectors(const struct call *call, uint32_t first, uint32_t last, uint32_t length)
{
	char needed[SHAPE_TEXT];
	for (uint32_t i = first; i < last; i++) {
		if (in(call, i)->rank == 1 && in(call, i)->dim[0] == length)
			continue;
		return fail_shape(call, i, "input", shape_format(&length, 1, needed, sizeof needed));
	}
	return TARN_OK;
}

static enum tarn_status need_same(const struct call *call, uint32_t index, uint32_t other)
{
	char needed[SHAPE_TEXT];
	if (same_dims(in(call, index), in(call, other)))
		return TARN_OK;
	shape_format(in(call, other)->dim, in(call, other)->rank, needed, sizeof needed);
	return fail_shape(call, index, "input", needed);
}

static enum tarn_status need_range(const struct call *call, const char *what, double value, double low, double high)
{
	if (isfinite(value) && value >= low && value <= high)
		return TARN_OK;
	return fail(call, "%s is %g, it must be from %g to %g", what, value, low, high);
}

static enum tarn_status need_positive(const struct call *call, const char *what, double value)
{
	if (isfinite(value) && value > 0)
		return TARN_OK;
	return fail(call, "%s is %g, it must be larger than 0", what, value);
}

/* Only activations that a kernel can apply while it stores its result. */
static enum tarn_status need_fusable(const struct call *call)
{
	uint32_t a = call->attr->activation;
	if (a == ACTIVATION_NONE || a == ACTIVATION_RELU || a == ACTIVATION_RELU6)
		return TARN_OK;
	return fail(call, "activation %s cannot be part of this op, only none, relu and relu6 can", activation_name(a));
}

/* ---- data in and out ---- */

static enum tarn_status rule_input(const struct call *call)
{
	if (in(call, 0)->role != ROLE_STAGING)
		return fail(call, "%s is not a staging slot", tensor_name(call->graph, call->input[0]));
	set_like(&call->out[0], in(call, 0));
	return TARN_OK;
}

static enum tarn_status rule_record(const struct call *call)
{
	enum tarn_status st = need_f32(call, 0, 2);
	if (st)
		return st;
	st = need_vectors(call, 0, 2, 1);
	if (st)
		return st;
	if (in(call, 0)->role != ROLE_METRIC)
		return fail(call, "%s is not a metric", tensor_name(call->graph, call->input[0]));
	set_like(&call->out[0], in(call, 0));
	return TARN_OK;
}

/* ---- matrix products ---- */

static enum tarn_status rule_matmul(const struct call *call)
{
	const struct op_attr *attr = call->attr;
	char a_text[SHAPE_TEXT], b_text[SHAPE_TEXT];
	enum tarn_status st = need_f32(call, 0, call->inputs);
	if (st)
		return st;
	for (uint32_t i = 0; i < 2; i++) {
		st = need_rank(call, i, 2, "a matrix (2 dimensions)");
		if (st)
			return st;
	}
	st = need_fusable(call);
	if (st)
		return st;
	if (attr->transpose_a > 1 || attr->transpose_b > 1)
		return fail(call, "transpose must be 0 or 1");
	const struct tensor *a = in(call, 0), *b = in(call, 1);
	uint32_t inner_a = a->dim[attr->transpose_a ? 0 : 1], inner_b = b->dim[attr->transpose_b ? 1 : 0];
	uint32_t dim[2] = { a->dim[attr->transpose_a ? 1 : 0], b->dim[attr->transpose_b ? 0 : 1] };
	if (inner_a != inner_b)
		return fail(call, "%s%s times %s%s: the inner dimensions %" PRIu32 " and %" PRIu32 " differ",
			    shape_format(a->dim, 2, a_text, sizeof a_text), attr->transpose_a ? " transposed" : "",
			    shape_format(b->dim, 2, b_text, sizeof b_text), attr->transpose_b ? " transposed" : "",
			    inner_a, inner_b);
	set(&call->out[0], DTYPE_F32, 2, dim);
	return call->inputs == 3 ? need_vectors(call, 2, 3, dim[1]) : TARN_OK;
}

/* ---- sliding windows ---- */

/* Positions of a window along an axis of that length: floor((padded - effective kernel) / stride) + 1. */
static enum tarn_status window_positions(const struct call *call, uint32_t axis, uint32_t length, uint32_t *out)
{
	const struct window *w = &call->attr->window;
	static const char *const axis_name[] = { "height", "width" };
	if (!w->kernel[axis] || !w->stride[axis] || !w->dilation[axis])
		return fail(call, "kernel, stride and dilation of the %s must be at least 1, they are %" PRIu32
			    ", %" PRIu32 " and %" PRIu32, axis_name[axis], w->kernel[axis], w->stride[axis],
			    w->dilation[axis]);
	uint64_t effective = (uint64_t)w->dilation[axis] * (w->kernel[axis] - 1u) + 1;
	uint64_t padded = (uint64_t)length + w->pad_begin[axis] + w->pad_end[axis];
	if (effective > padded)
		return fail(call, "a kernel that spans %" PRIu64 " is larger than the padded %s of %" PRIu64
			    " (%" PRIu32 " + padding %" PRIu32 " + %" PRIu32 ")", effective, axis_name[axis], padded,
			    length, w->pad_begin[axis], w->pad_end[axis]);
	uint64_t positions = (padded - effective) / w->stride[axis] + 1;
	if (positions > UINT32_MAX)
		return fail(call, "%" PRIu64 " window positions are too many", positions);
	*out = (uint32_t)positions;
	return TARN_OK;
}

/* Both axes of an image of that height and width. */
static enum tarn_status window_output(const struct call *call, const uint32_t *extent, uint32_t *out)
{
	enum tarn_status st = window_positions(call, 0, extent[0], &out[0]);
	return st ? st : window_positions(call, 1, extent[1], &out[1]);
}

/* The gradient dy must have the spatial size that the forward op gives for an image of `extent`. */
static enum tarn_status need_window_output(const struct call *call, uint32_t index, const uint32_t *extent)
{
	uint32_t out[2];
	enum tarn_status st = window_output(call, extent, out);
	if (st)
		return st;
	const struct tensor *dy = in(call, index);
	if (dy->dim[1] == out[0] && dy->dim[2] == out[1])
		return TARN_OK;
	return fail(call, "%s is %" PRIu32 "x%" PRIu32 " in height and width, a %" PRIu32 "x%" PRIu32
		    " image gives %" PRIu32 "x%" PRIu32, tensor_name(call->graph, call->input[index]), dy->dim[1],
		    dy->dim[2], extent[0], extent[1], out[0], out[1]);
}

static uint32_t groups_of(const struct call *call)
{
	return call->attr->groups ? call->attr->groups : 1;
}

/* Channels in `in_channels` and weights `w` (O, C/g, KH, KW) fit one another and the window. */
static enum tarn_status need_conv_weight(const struct call *call, uint32_t index)
{
	const struct window *window = &call->attr->window;
	enum tarn_status st = need_rank(call, index, 4, "OxIxKHxKW");
	if (st)
		return st;
	const struct tensor *w = in(call, index);
	if (w->dim[2] != window->kernel[0] || w->dim[3] != window->kernel[1])
		return fail(call, "weights of %" PRIu32 "x%" PRIu32 " do not fit the kernel of %" PRIu32 "x%" PRIu32,
			    w->dim[2], w->dim[3], window->kernel[0], window->kernel[1]);
	if (w->dim[0] % groups_of(call))
		return fail(call, "%" PRIu32 " output channels cannot be divided into %" PRIu32 " groups", w->dim[0],
			    groups_of(call));
	return TARN_OK;
}

static enum tarn_status rule_conv2d(const struct call *call)
{
	enum tarn_status st = need_f32(call, 0, call->inputs);
	if (st)
		return st;
	st = need_rank(call, 0, 4, "an image NxHxWxC");
	if (st)
		return st;
	st = need_conv_weight(call, 1);
	if (st)
		return st;
	st = need_fusable(call);
	if (st)
		return st;
	const struct tensor *x = in(call, 0), *w = in(call, 1);
	uint32_t groups = groups_of(call);
	if (x->dim[3] % groups)
		return fail(call, "%" PRIu32 " input channels cannot be divided into %" PRIu32 " groups", x->dim[3],
			    groups);
	if (x->dim[3] / groups != w->dim[1])
		return fail(call, "the image has %" PRIu32 " channels in %" PRIu32 " groups, the weights are for %" PRIu32
			    " channels a group", x->dim[3], groups, w->dim[1]);
	uint32_t dim[4] = { x->dim[0], 0, 0, w->dim[0] };
	st = window_output(call, &x->dim[1], &dim[1]);
	if (st)
		return st;
	set(&call->out[0], DTYPE_F32, 4, dim);
	return call->inputs == 3 ? need_vectors(call, 2, 3, w->dim[0]) : TARN_OK;
}

static enum tarn_status rule_conv2d_grad_input(const struct call *call)
{
	enum tarn_status st = need_f32(call, 0, 2);
	if (st)
		return st;
	st = need_rank(call, 0, 4, "an image NxOHxOWxO");
	if (st)
		return st;
	st = need_conv_weight(call, 1);
	if (st)
		return st;
	const struct tensor *dy = in(call, 0), *w = in(call, 1);
	if (dy->dim[3] != w->dim[0])
		return fail(call, "the gradient has %" PRIu32 " channels, the weights give %" PRIu32, dy->dim[3],
			    w->dim[0]);
	uint64_t channels = (uint64_t)w->dim[1] * groups_of(call);
	if (channels > UINT32_MAX)
		return fail(call, "%" PRIu64 " channels are too many", channels);
	st = need_window_output(call, 0, call->attr->extent);
	if (st)
		return st;
	set(&call->out[0], DTYPE_F32, 4,
	    (uint32_t[]){ dy->dim[0], call->attr->extent[0], call->attr->extent[1], (uint32_t)channels });
	return TARN_OK;
}

static enum tarn_status rule_conv2d_grad_weight(const struct call *call)
{
	enum tarn_status st = need_f32(call, 0, 2);
	if (st)
		return st;
	for (uint32_t i = 0; i < 2; i++) {
		st = need_rank(call, i, 4, "an image NxHxWxC");
		if (st)
			return st;
	}
	const struct tensor *x = in(call, 0), *dy = in(call, 1);
	if (x->dim[0] != dy->dim[0])
		return fail(call, "%" PRIu32 " images but gradients of %" PRIu32, x->dim[0], dy->dim[0]);
	uint32_t groups = groups_of(call);
	if (x->dim[3] % groups || dy->dim[3] % groups)
		return fail(call, "%" PRIu32 " and %" PRIu32 " channels cannot be divided into %" PRIu32 " groups",
			    x->dim[3], dy->dim[3], groups);
	st = need_window_output(call, 1, &x->dim[1]);
	if (st)
		return st;
	const uint32_t *kernel = call->attr->window.kernel;
	set(&call->out[0], DTYPE_F32, 4, (uint32_t[]){ dy->dim[3], x->dim[3] / groups, kernel[0], kernel[1] });
	return TARN_OK;
}

/* A pooling window always touches the image, so that a maximum and an average of it exist. */
static enum tarn_status need_pool_window(const struct call *call)
{
	const struct window *w = &call->attr->window;
	for (uint32_t i = 0; i < 2; i++) {
		if (w->dilation[i] != 1)
			return fail(call, "dilation is %" PRIu32 ", pooling knows only 1", w->dilation[i]);
		if (w->kernel[i] && (w->pad_begin[i] >= w->kernel[i] || w->pad_end[i] >= w->kernel[i]))
			return fail(call, "padding of %" PRIu32 " and %" PRIu32 " must be smaller than the kernel of %" PRIu32,
				    w->pad_begin[i], w->pad_end[i], w->kernel[i]);
	}
	uint64_t elements = (uint64_t)w->kernel[0] * w->kernel[1];
	bool indexed = call->row == op_row(OP_MAX_POOL) || call->row == op_row(OP_MAX_POOL_GRAD);
	if (indexed && elements > 256)
		return fail(call, "a window of %" PRIu32 "x%" PRIu32 " has more than 256 elements", w->kernel[0],
			    w->kernel[1]);
	if (call->attr->count_padding > 1)
		return fail(call, "count_padding must be 0 or 1");
	return TARN_OK;
}

static enum tarn_status rule_pool(const struct call *call)
{
	enum tarn_status st = need_f32(call, 0, 1);
	if (st)
		return st;
	st = need_rank(call, 0, 4, "an image NxHxWxC");
	if (st)
		return st;
	st = need_pool_window(call);
	if (st)
		return st;
	const struct tensor *x = in(call, 0);
	uint32_t dim[4] = { x->dim[0], 0, 0, x->dim[3] };
	st = window_output(call, &x->dim[1], &dim[1]);
	if (st)
		return st;
	set(&call->out[0], DTYPE_F32, 4, dim);
	if (call->row->outputs == 2)
		set(&call->out[1], DTYPE_U8, 4, dim);
	return TARN_OK;
}

static enum tarn_status rule_pool_grad(const struct call *call)
{
	enum tarn_status st = need_f32(call, 0, 1);
	if (st)
		return st;
	st = need_rank(call, 0, 4, "an image NxOHxOWxC");
	if (st)
		return st;
	st = need_pool_window(call);
	if (st)
		return st;
	if (call->inputs == 2) {
		st = need_dtype(call, 1, DTYPE_U8);
		if (st)
			return st;
		st = need_same(call, 1, 0);
		if (st)
			return st;
	}
	const struct tensor *dy = in(call, 0);
	const uint32_t *extent = call->attr->extent;
	st = need_window_output(call, 0, extent);
	if (st)
		return st;
	set(&call->out[0], DTYPE_F32, 4, (uint32_t[]){ dy->dim[0], extent[0], extent[1], dy->dim[3] });
	return TARN_OK;
}

/* ---- element by element ---- */

static enum tarn_status rule_activation(const struct call *call)
{
	const struct op_attr *attr = call->attr;
	enum tarn_status st = need_f32(call, 0, call->inputs);
	if (st)
		return st;
	if (attr->activation == ACTIVATION_NONE || attr->activation >= ACTIVATIONS)
		return fail(call, "activation %" PRIu32 " is not one", attr->activation);
	if (!isfinite(attr->alpha))
		return fail(call, "alpha must be a finite number");
	set_like(&call->out[0], in(call, 0));
	return call->inputs == 2 ? need_same(call, 1, 0) : TARN_OK;
}

static enum tarn_status rule_elementwise(const struct call *call)
{
	enum tarn_status st = need_f32(call, 0, call->inputs);
	if (st)
		return st;
	if (call->attr->activation != ACTIVATION_NONE && call->row != op_row(OP_ADD))
		return fail(call, "an activation cannot be part of this op");
	st = need_fusable(call);
	if (st)
		return st;
	if (!isfinite(call->attr->alpha))
		return fail(call, "alpha must be a finite number");
	set_like(&call->out[0], in(call, 0));
	return call->inputs == 2 ? need_same(call, 1, 0) : TARN_OK;
}

/* The parameter block: u8, as many bytes as struct step_scalars. */
static enum tarn_status need_scalars(const struct call *call, uint32_t index)
{
	enum tarn_status st = need_dtype(call, index, DTYPE_U8);
	return st ? st : need_vectors(call, index, index + 1, (uint32_t)sizeof(struct step_scalars));
}

static enum tarn_status rule_dropout(const struct call *call)
{
	enum tarn_status st = need_f32(call, 0, 1);
	if (st)
		return st;
	st = need_scalars(call, 1);
	if (st)
		return st;
	float rate = call->attr->rate;
	if (!(rate >= 0 && rate < 1))
		return fail(call, "rate is %g, it must be at least 0 and less than 1", (double)rate);
	set_like(&call->out[0], in(call, 0));
	return TARN_OK;
}

/* ---- norms ---- */

/* x (rows, C) with at least one row dimension. */
static enum tarn_status need_rows(const struct call *call, uint32_t index)
{
	return in(call, index)->rank >= 2 ? TARN_OK :
					    fail_shape(call, index, "input", "at least 2 dimensions, channels last");
}

static enum tarn_status rule_sum_rows(const struct call *call)
{
	enum tarn_status st = need_f32(call, 0, 1);
	if (st)
		return st;
	st = need_rows(call, 0);
	if (st)
		return st;
	for (uint32_t k = 0; k < call->row->outputs; k++)
		set_vector(&call->out[k], DTYPE_F32, last_dim(in(call, 0)));
	return TARN_OK;
}

/* x, mean, var, gamma, beta; or dy, x, mean, var, gamma, beta [, dgamma, dbeta]. */
static enum tarn_status rule_batch(const struct call *call)
{
	enum tarn_status st = need_f32(call, 0, call->inputs);
	if (st)
		return st;
	st = need_rows(call, 0);
	if (st)
		return st;
	bool backward = call->inputs > 5;
	if (backward) {
		st = need_same(call, 1, 0);
		if (st)
			return st;
	}
	uint32_t channels = last_dim(in(call, 0));
	st = need_vectors(call, backward ? 2 : 1, call->inputs, channels);
	if (st)
		return st;
	st = need_positive(call, "epsilon", (double)call->attr->epsilon);
	if (st)
		return st;
	st = need_fusable(call);
	if (st)
		return st;
	set_like(&call->out[0], in(call, 0));
	if (call->row->outputs == 2)
		for (uint32_t k = 0; k < 2; k++)
			set_vector(&call->out[k], DTYPE_F32, channels);
	return TARN_OK;
}

static enum tarn_status rule_running_update(const struct call *call)
{
	enum tarn_status st = need_f32(call, 0, 2);
	if (st)
		return st;
	st = need_dtype(call, 2, DTYPE_U64);
	if (st)
		return st;
	st = need_f32(call, 3, 5);
	if (st)
		return st;
	uint32_t channels = last_dim(in(call, 0));
	for (uint32_t i = 0; i < 5; i++) {
		st = need_vectors(call, i, i + 1, i == 2 ? 1 : channels);
		if (st)
			return st;
	}
	st = need_range(call, "momentum", (double)call->attr->momentum, 0, 1);
	if (st)
		return st;
	if (!call->attr->samples)
		return fail(call, "samples is 0, it must be at least 1");
	for (uint32_t k = 0; k < 3; k++)
		set_like(&call->out[k], in(call, k));
	return TARN_OK;
}

static enum tarn_status need_row_count(const struct call *call, uint32_t index, uint32_t *rows)
{
	uint64_t count = tensor_rows(in(call, index));
	if (count > UINT32_MAX)
		return fail(call, "%" PRIu64 " rows are too many", count);
	*rows = (uint32_t)count;
	return TARN_OK;
}

static enum tarn_status rule_layer_norm(const struct call *call)
{
	uint32_t row_count = 0;
	enum tarn_status st = need_f32(call, 0, 3);
	if (st)
		return st;
	st = need_rows(call, 0);
	if (st)
		return st;
	st = need_vectors(call, 1, 3, last_dim(in(call, 0)));
	if (st)
		return st;
	st = need_positive(call, "epsilon", (double)call->attr->epsilon);
	if (st)
		return st;
	st = need_row_count(call, 0, &row_count);
	if (st)
		return st;
	set_like(&call->out[0], in(call, 0));
	set_vector(&call->out[1], DTYPE_F32, row_count);
	set_vector(&call->out[2], DTYPE_F32, row_count);
	return TARN_OK;
}

/* dy, x, mean, rstd [, gamma] */
static enum tarn_status rule_layer_norm_grad(const struct call *call)
{
	uint32_t row_count = 0;
	enum tarn_status st = need_f32(call, 0, call->inputs);
	if (st)
		return st;
	st = need_rows(call, 0);
	if (st)
		return st;
	st = need_same(call, 1, 0);
	if (st)
		return st;
	st = need_row_count(call, 0, &row_count);
	if (st)
		return st;
	st = need_vectors(call, 2, 4, row_count);
	if (st)
		return st;
	uint32_t channels = last_dim(in(call, 0));
	if (call->inputs == 5) {
		set_like(&call->out[0], in(call, 0));
		return need_vectors(call, 4, 5, channels);
	}
	set_vector(&call->out[0], DTYPE_F32, channels);
	set_vector(&call->out[1], DTYPE_F32, channels);
	return TARN_OK;
}

/* ---- moving data ---- */

static enum tarn_status need_axis(const struct call *call)
{
	const struct tensor *x = in(call, 0);
	if (call->attr->axis < x->rank)
		return TARN_OK;
	return fail(call, "axis %" PRIu32 " of a tensor with %u dimensions", call->attr->axis, x->rank);
}

static enum tarn_status rule_concat(const struct call *call)
{
	enum tarn_status st = need_f32(call, 0, call->inputs);
	if (st)
		return st;
	st = need_axis(call);
	if (st)
		return st;
	const struct tensor *first = in(call, 0);
	uint32_t axis = call->attr->axis;
	uint64_t length = 0;
	char text[SHAPE_TEXT];
	for (uint32_t i = 0; i < call->inputs; i++) {
		struct tensor other = *in(call, i);
		length += axis < other.rank ? other.dim[axis] : 0;
		if (axis < other.rank)
			other.dim[axis] = first->dim[axis];
		if (!same_dims(first, &other))
			return fail(call, "input %s must have the shape of %s, %s, except along axis %" PRIu32,
				    tensor_name(call->graph, call->input[i]),
				    tensor_name(call->graph, call->input[0]),
				    shape_format(first->dim, first->rank, text, sizeof text), axis);
		if (length > UINT32_MAX)
			return fail(call, "the result is longer than %" PRIu32 " along axis %" PRIu32, UINT32_MAX, axis);
	}
	set_like(&call->out[0], first);
	call->out[0].dim[axis] = (uint32_t)length;
	return TARN_OK;
}

static enum tarn_status rule_slice(const struct call *call)
{
	enum tarn_status st = need_f32(call, 0, 1);
	if (st)
		return st;
	st = need_axis(call);
	if (st)
		return st;
	uint32_t begin = call->attr->begin, length = call->attr->extent[0], dim = in(call, 0)->dim[call->attr->axis];
	if (!length || (uint64_t)begin + length > dim)
		return fail(call, "elements %" PRIu32 " to %" PRIu64 " of an axis of %" PRIu32, begin,
			    (uint64_t)begin + length, dim);
	set_like(&call->out[0], in(call, 0));
	call->out[0].dim[call->attr->axis] = length;
	return TARN_OK;
}

static enum tarn_status rule_pad_axis(const struct call *call)
{
	enum tarn_status st = need_f32(call, 0, 1);
	if (st)
		return st;
	st = need_axis(call);
	if (st)
		return st;
	uint32_t begin = call->attr->begin, total = call->attr->extent[0], dim = in(call, 0)->dim[call->attr->axis];
	if ((uint64_t)begin + dim > total)
		return fail(call, "%" PRIu32 " elements from %" PRIu32 " on do not fit an axis of %" PRIu32, dim, begin,
			    total);
	set_like(&call->out[0], in(call, 0));
	call->out[0].dim[call->attr->axis] = total;
	return TARN_OK;
}

/* The shape in attr.extent. */
static enum tarn_status attr_shape(const struct call *call, uint32_t dtype)
{
	if (call->attr->rank > OP_MAX_RANK)
		return fail(call, "%" PRIu32 " dimensions, at most %d are possible", call->attr->rank, OP_MAX_RANK);
	set(&call->out[0], (enum dtype)dtype, call->attr->rank, call->attr->extent);
	return shape_check(call->name, &call->out[0]);
}

static enum tarn_status rule_reshape(const struct call *call)
{
	const struct tensor *x = in(call, 0);
	char from[SHAPE_TEXT], to[SHAPE_TEXT];
	enum tarn_status st = attr_shape(call, x->dtype);
	if (st)
		return st;
	uint64_t elements = 1;
	for (uint32_t i = 0; i < call->attr->rank; i++)
		elements *= call->attr->extent[i];
	if (elements == tensor_elements(x))
		return TARN_OK;
	return fail(call, "%s has %" PRIu64 " elements, %s has %" PRIu64,
		    shape_format(x->dim, x->rank, from, sizeof from), tensor_elements(x),
		    shape_format(call->attr->extent, call->attr->rank, to, sizeof to), elements);
}

static enum tarn_status rule_permute(const struct call *call)
{
	const struct tensor *x = in(call, 0);
	const struct op_attr *attr = call->attr;
	enum tarn_status st = need_f32(call, 0, 1);
	if (st)
		return st;
	if (attr->rank != x->rank)
		return fail(call, "%" PRIu32 " axes are named, the tensor has %u", attr->rank, x->rank);
	uint32_t seen = 0;
	set_like(&call->out[0], x);
	for (uint32_t i = 0; i < attr->rank; i++) {
		if (attr->extent[i] >= attr->rank || seen & 1u << attr->extent[i])
			return fail(call, "axis %" PRIu32 " is named twice or does not exist", attr->extent[i]);
		seen |= 1u << attr->extent[i];
		call->out[0].dim[i] = x->dim[attr->extent[i]];
	}
	return TARN_OK;
}

static enum tarn_status rule_fill(const struct call *call)
{
	if (!isfinite(call->attr->alpha))
		return fail(call, "alpha must be a finite number");
	return attr_shape(call, DTYPE_F32);
}

/* ---- losses ---- */

/* logits, labels [, dloss] */
static enum tarn_status rule_cross_entropy(const struct call *call)
{
	enum tarn_status st = need_f32(call, 0, 1);
	if (st)
		return st;
	st = need_dtype(call, 1, DTYPE_I32);
	if (st)
		return st;
	st = need_rows(call, 0);
	if (st)
		return st;
	const struct tensor *logits = in(call, 0), *labels = in(call, 1);
	if (tensor_elements(labels) != tensor_rows(logits))
		return fail(call, "%" PRIu64 " rows of logits but %" PRIu64 " labels", tensor_rows(logits),
			    tensor_elements(labels));
	set_vector(&call->out[0], DTYPE_F32, 1);
	if (call->inputs == 2)
		return TARN_OK;
	set_like(&call->out[0], logits);
	st = need_f32(call, 2, 3);
	return st ? st : need_vectors(call, 2, 3, 1);
}

/* prediction, target [, dloss] */
static enum tarn_status rule_squared_error(const struct call *call)
{
	enum tarn_status st = need_f32(call, 0, call->inputs);
	if (st)
		return st;
	st = need_same(call, 1, 0);
	if (st)
		return st;
	set_vector(&call->out[0], DTYPE_F32, 1);
	if (call->inputs == 2)
		return TARN_OK;
	set_like(&call->out[0], in(call, 0));
	return need_vectors(call, 2, 3, 1);
}

/* ---- updates ---- */

static enum tarn_status rule_sum_squares(const struct call *call)
{
	set_vector(&call->out[0], DTYPE_F32, 1);
	return need_f32(call, 0, 1);
}

static enum tarn_status rule_clip_scale(const struct call *call)
{
	enum tarn_status st = need_f32(call, 0, call->inputs);
	if (st)
		return st;
	st = need_vectors(call, 0, call->inputs, 1);
	if (st)
		return st;
	set_vector(&call->out[0], DTYPE_F32, 1);
	set_vector(&call->out[1], DTYPE_F32, 1);
	return need_positive(call, "alpha, the largest norm,", (double)call->attr->alpha);
}

/* Momentum's and Adam's own numbers; zero where an optimizer has none. */
static enum tarn_status need_update_attributes(const struct call *call)
{
	const struct op_attr *attr = call->attr;
	const struct {
		const char *name;
		double value, high;
	} number[] = {
		{ "momentum", (double)attr->momentum, 1 },
		{ "beta1", (double)attr->beta1, 1 },
		{ "beta2", (double)attr->beta2, 1 },
		{ "weight_decay", (double)attr->weight_decay, 1e9 },
		{ "rate_scale", (double)attr->rate_scale, 1e9 },
		{ "epsilon", (double)attr->epsilon, 1e9 },
	};
	for (size_t i = 0; i < sizeof number / sizeof number[0]; i++) {
		enum tarn_status st = need_range(call, number[i].name, number[i].value, 0, number[i].high);
		if (st)
			return st;
	}
	if (attr->nesterov > 1 || attr->decoupled > 1)
		return fail(call, "nesterov and decoupled must be 0 or 1");
	return TARN_OK;
}

/* w, state ..., g, scalars [, scale]: as many states as outputs beyond the first. */
static enum tarn_status rule_update(const struct call *call)
{
	uint32_t gradient = call->row->outputs, scalars = gradient + 1;
	enum tarn_status st = need_f32(call, 0, scalars);
	if (st)
		return st;
	for (uint32_t i = 1; i < scalars; i++) {
		st = need_same(call, i, 0);
		if (st)
			return st;
	}
	st = need_scalars(call, scalars);
	if (st)
		return st;
	if (call->inputs > scalars + 1) {
		st = need_f32(call, scalars + 1, scalars + 2);
		if (st)
			return st;
		st = need_vectors(call, scalars + 1, scalars + 2, 1);
		if (st)
			return st;
	}
	for (uint32_t k = 0; k < call->row->outputs; k++)
		set_like(&call->out[k], in(call, k));
	return need_update_attributes(call);
}

static rule_fn *const rules[OP_KINDS] = {
	[OP_INPUT] = rule_input,
	[OP_RECORD] = rule_record,
	[OP_MATMUL] = rule_matmul,
	[OP_CONV2D] = rule_conv2d,
	[OP_CONV2D_GRAD_INPUT] = rule_conv2d_grad_input,
	[OP_CONV2D_GRAD_WEIGHT] = rule_conv2d_grad_weight,
	[OP_SUM_ROWS] = rule_sum_rows,
	[OP_MAX_POOL] = rule_pool,
	[OP_MAX_POOL_GRAD] = rule_pool_grad,
	[OP_AVG_POOL] = rule_pool,
	[OP_AVG_POOL_GRAD] = rule_pool_grad,
	[OP_ACTIVATION] = rule_activation,
	[OP_ACTIVATION_GRAD] = rule_activation,
	[OP_BATCH_STATS] = rule_sum_rows,
	[OP_BATCH_APPLY] = rule_batch,
	[OP_BATCH_REDUCE] = rule_batch,
	[OP_BATCH_GRAD_INPUT] = rule_batch,
	[OP_RUNNING_UPDATE] = rule_running_update,
	[OP_LAYER_NORM] = rule_layer_norm,
	[OP_LAYER_NORM_GRAD] = rule_layer_norm_grad,
	[OP_LAYER_NORM_GRAD_PARAM] = rule_layer_norm_grad,
	[OP_DROPOUT] = rule_dropout,
	[OP_ADD] = rule_elementwise,
	[OP_MULTIPLY] = rule_elementwise,
	[OP_SCALE] = rule_elementwise,
	[OP_CONCAT] = rule_concat,
	[OP_SLICE] = rule_slice,
	[OP_PAD_AXIS] = rule_pad_axis,
	[OP_RESHAPE] = rule_reshape,
	[OP_PERMUTE] = rule_permute,
	[OP_SOFTMAX_CROSS_ENTROPY] = rule_cross_entropy,
	[OP_SOFTMAX_CROSS_ENTROPY_GRAD] = rule_cross_entropy,
	[OP_COUNT_CORRECT] = rule_cross_entropy,
	[OP_MEAN_SQUARED_ERROR] = rule_squared_error,
	[OP_MEAN_SQUARED_ERROR_GRAD] = rule_squared_error,
	[OP_FILL] = rule_fill,
	[OP_SUM_SQUARES] = rule_sum_squares,
	[OP_CLIP_SCALE] = rule_clip_scale,
	[OP_SGD] = rule_update,
	[OP_MOMENTUM] = rule_update,
	[OP_ADAM] = rule_update,
};

/* The inputs exist and are shapes that the rules may compute with. */
static enum tarn_status check_inputs(const struct call *call)
{
	for (uint32_t i = 0; i < call->inputs; i++) {
		if (call->input[i] >= call->graph->tensors)
			return fail(call, "input %" PRIu32 " is tensor %" PRIu32 " of %" PRIu32, i, call->input[i],
				    call->graph->tensors);
		struct shape shape = { .dtype = in(call, i)->dtype, .rank = in(call, i)->rank };
		if (shape.rank <= OP_MAX_RANK)
			memcpy(shape.dim, in(call, i)->dim, shape.rank * sizeof *shape.dim);
		enum tarn_status st = shape_check(call->name, &shape);
		if (st)
			return st;
	}
	return TARN_OK;
}

enum tarn_status shape_infer(const struct graph *graph, enum op_kind kind, const char *name,
			     const struct op_attr *attr, const uint32_t *input, uint32_t inputs, struct shape *out)
{
	const struct op_row *row = op_row(kind);
	if (!row)
		return tarn_fail(TARN_EINVAL, "%s: unknown kind of op %d", name, (int)kind);
	struct call call = { graph, row, name, attr, input, inputs, out };
	if (inputs < row->min_inputs || (inputs > row->max_inputs && row->max_inputs != UINT8_MAX))
		return fail(&call, "%" PRIu32 " inputs, needed are %u to %u", inputs, row->min_inputs, row->max_inputs);
	enum tarn_status st = check_inputs(&call);
	if (st)
		return st;
	st = rules[kind](&call);
	for (uint32_t k = 0; k < row->outputs && !st; k++)
		st = shape_check(name, &out[k]);
	return st;
}
