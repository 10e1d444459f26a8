/* shape_math.c - shape rules of data in and out, element-wise ops, ops that move data, and updates. */
#include "graph/blockwise.h"
#include "graph/shape_rule.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- data in and out ---- */

enum tarn_status shape_rule_input(const struct shape_call *call)
{
	if (shape_in(call, 0)->role != ROLE_STAGING)
		return shape_fail(call, "%s is not a staging slot", tensor_name(call->graph, call->input[0]));
	shape_set_like(&call->out[0], shape_in(call, 0));
	return TARN_OK;
}

enum tarn_status shape_rule_record(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, 2);
	if (st)
		return st;
	if (shape_in(call, 0)->role == ROLE_VECTOR) /* a whole result */
		st = shape_need_same(call, 1, 0);
	else
		st = shape_need_vectors(call, 0, 2, 1);
	if (st)
		return st;
	if (shape_in(call, 0)->role != ROLE_METRIC && shape_in(call, 0)->role != ROLE_VECTOR)
		return shape_fail(call, "%s is not a metric", tensor_name(call->graph, call->input[0]));
	shape_set_like(&call->out[0], shape_in(call, 0));
	return TARN_OK;
}

/* ---- element by element ---- */

enum tarn_status shape_rule_activation(const struct shape_call *call)
{
	const struct op_attr *attr = call->attr;
	enum tarn_status st = shape_need_real(call, 0, call->inputs);
	if (st)
		return st;
	if (attr->activation == ACTIVATION_NONE || attr->activation >= ACTIVATIONS)
		return shape_fail(call, "activation %" PRIu32 " is not one", attr->activation);
	if (!isfinite(attr->alpha))
		return shape_fail(call, "alpha must be a finite number");
	shape_set_like(&call->out[0], shape_in(call, 0));
	return call->inputs == 2 ? shape_need_same(call, 1, 0) : TARN_OK;
}

enum tarn_status shape_rule_elementwise(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, call->inputs);
	if (st)
		return st;
	if (call->attr->activation != ACTIVATION_NONE && call->row != op_row(OP_ADD))
		return shape_fail(call, "an activation cannot be part of this op");
	st = shape_need_fusable(call);
	if (st)
		return st;
	if (!isfinite(call->attr->alpha))
		return shape_fail(call, "alpha must be a finite number");
	shape_set_like(&call->out[0], shape_in(call, 0));
	return call->inputs == 2 ? shape_need_same(call, 1, 0) : TARN_OK;
}

enum tarn_status shape_rule_dropout(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, 1);
	if (st)
		return st;
	st = shape_need_scalars(call, 1);
	if (st)
		return st;
	float rate = call->attr->rate;
	if (!(rate >= 0 && rate < 1))
		return shape_fail(call, "rate is %g, it must be at least 0 and less than 1", (double)rate);
	if (call->attr->per_sample > 1)
		return shape_fail(call, "per_sample must be 0 or 1");
	if (call->attr->per_sample && !shape_in(call, 0)->rank)
		return shape_fail_shape(call, 0, "the input", "samples first");
	shape_set_like(&call->out[0], shape_in(call, 0));
	return TARN_OK;
}

/* ---- moving data ---- */

static enum tarn_status shape_need_axis(const struct shape_call *call)
{
	const struct tensor *x = shape_in(call, 0);
	if (call->attr->axis < x->rank)
		return TARN_OK;
	return shape_fail(call, "axis %" PRIu32 " of a tensor with %u dimensions", call->attr->axis, x->rank);
}

enum tarn_status shape_rule_concat(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, call->inputs);
	if (st)
		return st;
	st = shape_need_axis(call);
	if (st)
		return st;
	const struct tensor *first = shape_in(call, 0);
	uint32_t axis = call->attr->axis;
	uint64_t length = 0;
	char text[SHAPE_TEXT];
	for (uint32_t i = 0; i < call->inputs; i++) {
		struct tensor other = *shape_in(call, i);
		length += axis < other.rank ? other.dim[axis] : 0;
		if (axis < other.rank)
			other.dim[axis] = first->dim[axis];
		if (!shape_same_dims(first, &other))
			return shape_fail(call, "input %s must have the shape of %s, %s, except along axis %" PRIu32,
					  tensor_name(call->graph, call->input[i]),
					  tensor_name(call->graph, call->input[0]),
					  shape_format(first->dim, first->rank, text, sizeof text), axis);
		if (length > UINT32_MAX)
			return shape_fail(call, "the result is longer than %" PRIu32 " along axis %" PRIu32, UINT32_MAX,
					  axis);
	}
	shape_set_like(&call->out[0], first);
	call->out[0].dim[axis] = (uint32_t)length;
	return TARN_OK;
}

enum tarn_status shape_rule_slice(const struct shape_call *call)
{
	enum tarn_status st = shape_in(call, 0)->dtype == DTYPE_I32 ? TARN_OK : shape_need_real(call, 0, 1);
	if (st)
		return st;
	st = shape_need_axis(call);
	if (st)
		return st;
	uint32_t begin = call->attr->begin, length = call->attr->extent[0],
		 dim = shape_in(call, 0)->dim[call->attr->axis];
	if (!length || (uint64_t)begin + length > dim)
		return shape_fail(call, "elements %" PRIu32 " to %" PRIu64 " of an axis of %" PRIu32, begin,
				  (uint64_t)begin + length, dim);
	shape_set_like(&call->out[0], shape_in(call, 0));
	call->out[0].dim[call->attr->axis] = length;
	return TARN_OK;
}

enum tarn_status shape_rule_slice_view(const struct shape_call *call)
{
	enum tarn_status st = shape_rule_slice(call);
	if (st || slice_kind(call->graph, call->input[0], call->attr) == OP_SLICE_VIEW)
		return st;
	return shape_fail(call,
			  "elements %" PRIu32 " on of axis %" PRIu32 " do not lie together from a multiple of %u "
			  "bytes on; a slice copies them",
			  call->attr->begin, call->attr->axis, (unsigned)TARN_ALIGNMENT);
}

enum tarn_status shape_rule_pad_axis(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, 1);
	if (st)
		return st;
	st = shape_need_axis(call);
	if (st)
		return st;
	uint32_t begin = call->attr->begin, total = call->attr->extent[0],
		 dim = shape_in(call, 0)->dim[call->attr->axis];
	if ((uint64_t)begin + dim > total)
		return shape_fail(call, "%" PRIu32 " elements from %" PRIu32 " on do not fit an axis of %" PRIu32, dim,
				  begin, total);
	shape_set_like(&call->out[0], shape_in(call, 0));
	call->out[0].dim[call->attr->axis] = total;
	return TARN_OK;
}

/* The shape in attr.extent. */
static enum tarn_status attr_shape(const struct shape_call *call, uint32_t dtype)
{
	if (call->attr->rank > OP_MAX_RANK)
		return shape_fail(call, "%" PRIu32 " dimensions, at most %d are possible", call->attr->rank,
				  OP_MAX_RANK);
	shape_set(&call->out[0], (enum dtype)dtype, call->attr->rank, call->attr->extent);
	return shape_check(call->name, &call->out[0]);
}

enum tarn_status shape_rule_reshape(const struct shape_call *call)
{
	const struct tensor *x = shape_in(call, 0);
	char from[SHAPE_TEXT], to[SHAPE_TEXT];
	enum tarn_status st = attr_shape(call, x->dtype);
	if (st)
		return st;
	uint64_t elements = 1;
	for (uint32_t i = 0; i < call->attr->rank; i++)
		elements *= call->attr->extent[i];
	if (elements == tensor_elements(x))
		return TARN_OK;
	return shape_fail(call, "%s has %" PRIu64 " elements, %s has %" PRIu64,
			  shape_format(x->dim, x->rank, from, sizeof from), tensor_elements(x),
			  shape_format(call->attr->extent, call->attr->rank, to, sizeof to), elements);
}

enum tarn_status shape_rule_permute(const struct shape_call *call)
{
	const struct tensor *x = shape_in(call, 0);
	const struct op_attr *attr = call->attr;
	enum tarn_status st = shape_need_real(call, 0, 1);
	if (st)
		return st;
	if (attr->rank != x->rank)
		return shape_fail(call, "%" PRIu32 " axes are named, the tensor has %u", attr->rank, x->rank);
	uint32_t seen = 0;
	shape_set_like(&call->out[0], x);
	for (uint32_t i = 0; i < attr->rank; i++) {
		if (attr->extent[i] >= attr->rank || seen & 1u << attr->extent[i])
			return shape_fail(call, "axis %" PRIu32 " is named twice or does not exist", attr->extent[i]);
		seen |= 1u << attr->extent[i];
		call->out[0].dim[i] = x->dim[attr->extent[i]];
	}
	return TARN_OK;
}

enum tarn_status shape_rule_fill(const struct shape_call *call)
{
	if (!isfinite(call->attr->alpha))
		return shape_fail(call, "alpha must be a finite number");
	return attr_shape(call, DTYPE_F32);
}

enum tarn_status shape_rule_cast(const struct shape_call *call)
{
	const struct tensor *x = shape_in(call, 0);
	uint32_t to = call->attr->mode;
	if (!dtype_is_real(x->dtype) || !dtype_is_real(to) || x->dtype == to)
		return shape_fail(call, "%s to %s is no cast between two of f32, bf16 and f16", dtype_name(x->dtype),
				  dtype_name(to));
	shape_set(&call->out[0], (enum dtype)to, x->rank, x->dim);
	return TARN_OK;
}

/* ---- updates ---- */

enum tarn_status shape_rule_stop_gradient(const struct shape_call *call)
{
	shape_set_like(&call->out[0], shape_in(call, 0));
	return TARN_OK;
}

enum tarn_status shape_rule_function(const struct shape_call *call)
{
	if (call->attr->mode >= FUNCTION_MODES)
		return shape_fail(call, "mode %" PRIu32 " is not one", call->attr->mode);
	if (!isfinite(call->attr->alpha))
		return shape_fail(call, "alpha must be a finite number");
	shape_set_like(&call->out[0], shape_in(call, 0));
	return shape_need_real(call, 0, 1);
}

enum tarn_status shape_rule_sum_squares(const struct shape_call *call)
{
	shape_set_vector(&call->out[0], DTYPE_F32, 1);
	return shape_need_real(call, 0, 1);
}

/* Every input is one number, and every output. */
static enum tarn_status numbers(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, call->inputs);
	for (uint32_t k = 0; k < call->row->outputs; k++)
		shape_set_vector(&call->out[k], DTYPE_F32, 1);
	return st ? st : shape_need_vectors(call, 0, call->inputs, 1);
}

enum tarn_status shape_rule_clip_scale(const struct shape_call *call)
{
	enum tarn_status st = numbers(call);
	return st ? st : shape_need_positive(call, "alpha, the largest norm,", (double)call->attr->alpha);
}

enum tarn_status shape_rule_unscale(const struct shape_call *call)
{
	enum tarn_status st = numbers(call);
	return st ? st : shape_need_range(call, "alpha, the largest norm,", (double)call->attr->alpha, 0, 1e30);
}

enum tarn_status shape_rule_loss_scale(const struct shape_call *call)
{
	enum tarn_status st = numbers(call);
	if (!st && !call->attr->samples)
		return shape_fail(call, "samples, the growth interval, is 0; it must be at least 1");
	return st;
}

/* Momentum's and Adam's own numbers; zero where an optimizer has none. */
static enum tarn_status need_update_attributes(const struct shape_call *call)
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
		enum tarn_status st = shape_need_range(call, number[i].name, number[i].value, 0, number[i].high);
		if (st)
			return st;
	}
	if (attr->nesterov > 1 || attr->decoupled > 1)
		return shape_fail(call, "nesterov and decoupled must be 0 or 1");
	return TARN_OK;
}

/* Most states look like w; ADAFACTOR has a row and a column, ADAM_8BIT bytes. */
static enum tarn_status need_update_state(const struct shape_call *call, uint32_t index)
{
	const struct tensor *w = shape_in(call, 0);
	const uint64_t elements = tensor_elements(w);
	uint64_t length = 0;
	if (call->row == op_row(OP_ADAM_8BIT)) {
		length = blockwise_bytes(elements);
		enum tarn_status st = shape_need_dtype(call, index, DTYPE_U8);
		if (st)
			return st;
	} else {
		enum tarn_status st = shape_need_real(call, index, index + 1);
		if (st)
			return st;
		if (call->row != op_row(OP_ADAFACTOR))
			return shape_need_same(call, index, 0);
		if (w->rank < 2)
			return shape_fail_shape(call, 0, "input", "at least 2 dimensions");
		length = index == 1 ? w->dim[0] : elements / w->dim[0];
	}
	if (length > UINT32_MAX)
		return shape_fail(call, "a state of %" PRIu64 " is too long", length);
	return shape_need_vectors(call, index, index + 1, (uint32_t)length);
}

/* w, state ..., g, scalars [, scale]: as many states as outputs beyond the first. */
enum tarn_status shape_rule_update(const struct shape_call *call)
{
	uint32_t gradient = call->row->outputs, scalars = gradient + 1;
	enum tarn_status st = shape_need_real(call, 0, 1);
	if (st)
		return st;
	for (uint32_t i = 1; i < scalars; i++) {
		st = i < gradient ? need_update_state(call, i) : shape_need_real(call, i, i + 1);
		if (!st && i == gradient)
			st = shape_need_same(call, i, 0);
		if (st)
			return st;
	}
	st = shape_need_scalars(call, scalars);
	if (st)
		return st;
	st = shape_need_number(call, scalars + 1);
	if (st)
		return st;
	for (uint32_t k = 0; k < call->row->outputs; k++)
		shape_set_like(&call->out[k], shape_in(call, k));
	return need_update_attributes(call);
}
