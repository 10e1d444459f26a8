/* shape_image.c - shape rules of group norm, resampling, weights that are masked or normalised, and image losses. */
#include "graph/shape_rule.h"

#include <inttypes.h>

/* ---- group norm ---- */

/* Images or rows with a number of channels that the groups divide. */
static enum tarn_status need_groups(const struct shape_call *call, uint32_t index)
{
	enum tarn_status st = shape_need_rows(call, index);
	if (st)
		return st;
	uint32_t channels = shape_last_dim(shape_in(call, index)), groups = call->attr->groups;
	if (!groups || channels % groups)
		return shape_fail(call, "%" PRIu32 " channels cannot be divided into %" PRIu32 " groups", channels,
				  groups);
	return TARN_OK;
}

static void set_statistic(const struct shape_call *call, struct shape *shape, const struct tensor *x)
{
	shape_set(shape, DTYPE_F32, 2, (uint32_t[]){ x->dim[0], call->attr->groups });
}

enum tarn_status shape_rule_group_norm(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, 3);
	if (st)
		return st;
	st = need_groups(call, 0);
	if (st)
		return st;
	st = shape_need_vectors(call, 1, 3, shape_last_dim(shape_in(call, 0)));
	if (st)
		return st;
	st = shape_need_positive(call, "epsilon", (double)call->attr->epsilon);
	if (st)
		return st;
	shape_set_like(&call->out[0], shape_in(call, 0));
	set_statistic(call, &call->out[1], shape_in(call, 0));
	set_statistic(call, &call->out[2], shape_in(call, 0));
	return TARN_OK;
}

/* dy, x, mean, rstd [, gamma] */
enum tarn_status shape_rule_group_norm_grad(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, call->inputs);
	if (st)
		return st;
	st = need_groups(call, 0);
	if (st)
		return st;
	st = shape_need_same(call, 1, 0);
	const struct tensor *dy = shape_in(call, 0);
	for (uint32_t i = 2; i < 4 && !st; i++) {
		const struct tensor *statistic = shape_in(call, i);
		if (statistic->rank != 2 || statistic->dim[0] != dy->dim[0] || statistic->dim[1] != call->attr->groups)
			st = shape_fail_shape(call, i, "the statistic", "samples x groups");
	}
	if (st)
		return st;
	uint32_t channels = shape_last_dim(dy);
	if (call->inputs == 5) {
		shape_set_like(&call->out[0], dy);
		return shape_need_vectors(call, 4, 5, channels);
	}
	shape_set_vector(&call->out[0], DTYPE_F32, channels);
	shape_set_vector(&call->out[1], DTYPE_F32, channels);
	return TARN_OK;
}

/* ---- resampling: the other height and width are in the attributes, in both directions ---- */

enum tarn_status shape_rule_resample(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, 1);
	if (st)
		return st;
	st = shape_need_rank(call, 0, 4, "an image NxHxWxC");
	if (st)
		return st;
	const uint32_t *extent = call->attr->extent, *dim = shape_in(call, 0)->dim;
	if (!extent[0] || !extent[1])
		return shape_fail(call, "a height and width of %" PRIu32 "x%" PRIu32 "; both must be at least 1",
				  extent[0], extent[1]);
	if (call->attr->mode >= UPSAMPLE_MODES)
		return shape_fail(call, "mode %" PRIu32 " is not one", call->attr->mode);
	shape_set(&call->out[0], DTYPE_F32, 4, (uint32_t[]){ dim[0], extent[0], extent[1], dim[3] });
	return TARN_OK;
}

/* ---- weights ---- */

enum tarn_status shape_rule_weight_mask(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, 1);
	if (st)
		return st;
	st = shape_need_rank(call, 0, 4, "convolution weights OxIxKHxKW");
	if (st)
		return st;
	const struct tensor *w = shape_in(call, 0);
	if (w->dim[2] % 2 == 0 || w->dim[3] % 2 == 0)
		return shape_fail(call, "a kernel of %" PRIu32 "x%" PRIu32 " has no centre; both must be odd",
				  w->dim[2], w->dim[3]);
	if (call->attr->mode >= MASK_MODES)
		return shape_fail(call, "mode %" PRIu32 " is not one", call->attr->mode);
	shape_set_like(&call->out[0], w);
	return TARN_OK;
}

/* v, g; or dw, v, g */
enum tarn_status shape_rule_weight_norm(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, call->inputs);
	if (st)
		return st;
	const uint32_t v = call->inputs - 2;
	st = shape_need_rows(call, v);
	if (!st && v)
		st = shape_need_same(call, 0, v);
	if (st)
		return st;
	const struct tensor *direction = shape_in(call, v);
	st = shape_need_vectors(call, v + 1, v + 2, direction->dim[0]);
	if (st)
		return st;
	shape_set_like(&call->out[0], direction);
	if (call->row->outputs == 2)
		shape_set_vector(&call->out[1], DTYPE_F32, direction->dim[0]);
	return TARN_OK;
}

/* ---- losses ---- */

/*
 * parameters, image [, dloss]. A mixture of M logistic distributions has M weights, and for each channel M means, M
 * scales and, with three channels, M coefficients: 3 M numbers a pixel for one channel, 10 M for three.
 */
enum tarn_status shape_rule_logistic_mixture(const struct shape_call *call)
{
	enum tarn_status st = shape_need_real(call, 0, call->inputs);
	for (uint32_t i = 0; i < 2 && !st; i++)
		st = shape_need_rank(call, i, 4, "an image NxHxWxC");
	if (st)
		return st;
	const struct tensor *parameters = shape_in(call, 0), *image = shape_in(call, 1);
	for (uint32_t i = 0; i < 3; i++)
		if (parameters->dim[i] != image->dim[i])
			return shape_fail_shape(call, 0, "the parameters", "samples, height and width of the image");
	uint32_t each = image->dim[3] == 1 ? 3 : 10;
	if (image->dim[3] != 1 && image->dim[3] != 3)
		return shape_fail(call, "an image with %" PRIu32 " channels; needed are 1 or 3", image->dim[3]);
	if (parameters->dim[3] % each)
		return shape_fail(call,
				  "%" PRIu32 " parameters a pixel; needed is a multiple of %" PRIu32
				  " for images with %" PRIu32 " channels",
				  parameters->dim[3], each, image->dim[3]);
	shape_set_vector(&call->out[0], DTYPE_F32, 1);
	if (call->inputs == 2)
		return TARN_OK;
	shape_set_like(&call->out[0], parameters);
	return shape_need_vectors(call, 2, 3, 1);
}
