/* layers.c - see layers.h. */
#include "graph/layer_parts.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- convolution and matrix product ---- */

void window_pad_same(struct window *window, const uint32_t *extent)
{
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t stride = window->stride[i] ? window->stride[i] : 1;
		uint64_t effective = (uint64_t)window->dilation[i] * (window->kernel[i] - 1u) + 1;
		uint64_t covered = (extent[i] + stride - 1) / stride * stride - stride + effective;
		uint64_t total = covered > extent[i] ? covered - extent[i] : 0;
		window->pad_begin[i] = (uint32_t)(total / 2);
		window->pad_end[i] = (uint32_t)(total - total / 2);
	}
}

enum tarn_status window_pad_shift(struct window *window, const char *name, enum conv_shift shift)
{
	for (uint32_t i = 0; i < 2; i++) {
		bool centred = i == 1 && shift == CONV_SHIFT_DOWN;
		uint64_t before = (uint64_t)window->dilation[i] * (window->kernel[i] - 1u);
		if (window->pad_begin[i] || window->pad_end[i])
			return tarn_fail(TARN_EINVAL, "%s: a shifted window has no padding of its own; leave it out",
					 name);
		if (before > UINT32_MAX)
			return tarn_fail(TARN_EINVAL, "%s: a window of %" PRIu64 " elements is too large", name,
					 before);
		if (centred && window->kernel[i] % 2 == 0)
			return tarn_fail(TARN_EINVAL,
					 "%s: a window that is shifted down needs an odd width, not %" PRIu32, name,
					 window->kernel[i]);
		window->pad_begin[i] = (uint32_t)(centred ? before / 2 : before);
		window->pad_end[i] = (uint32_t)(before - window->pad_begin[i]);
		if (!centred)
			window->pad_end[i] = 0;
	}
	return TARN_OK;
}

static enum tarn_status conv_window(const struct network *net, const char *name, uint32_t x,
				    const struct conv_options *options, struct window *window)
{
	for (uint32_t i = 0; i < 2; i++) {
		if (!options->kernel[i])
			return tarn_fail(TARN_EINVAL, "%s: the kernel must be at least 1", name);
		window->kernel[i] = options->kernel[i];
		window->stride[i] = options->stride[i] ? options->stride[i] : 1;
		window->dilation[i] = options->dilation[i] ? options->dilation[i] : 1;
		window->pad_begin[i] = window->pad_end[i] = options->padding[i];
	}
	if (options->same)
		window_pad_same(window, &tensor_of(net, x)->dim[1]);
	return options->shift ? window_pad_shift(window, name, options->shift) : TARN_OK;
}

static enum tarn_status mask_weight(struct network *net, const char *name, enum conv_mask mask, uint32_t *weight)
{
	const struct op_attr attr = { .mode = mask == CONV_MASK_A ? MASK_A : MASK_B };
	char *text = part_name(net, name, "masked_weight");
	return text ? add_unary(net, OP_WEIGHT_MASK, text, &attr, *weight, weight) : TARN_ENOMEM;
}

enum tarn_status layer_conv2d(struct network *net, const char *name, uint32_t x, const struct conv_options *options,
			      uint32_t *y)
{
	struct op_attr attr = { .groups = options->groups ? options->groups : 1 };
	uint32_t input[3] = { x, TENSOR_NONE, TENSOR_NONE };
	enum tarn_status st = need_image(net, name, x);
	if (st)
		return st;
	st = conv_window(net, name, x, options, &attr.window);
	if (st)
		return st;
	uint32_t in_channels = tensor_of(net, x)->dim[3];
	if (in_channels % attr.groups || options->channels % attr.groups)
		return tarn_fail(TARN_EINVAL,
				 "%s: %" PRIu32 " input and %" PRIu32 " output channels cannot be divided into %" PRIu32
				 " groups",
				 name, in_channels, options->channels, attr.groups);
	struct parameter weight = { .layer = name,
				    .rank = 4,
				    .dim = { options->channels, in_channels / attr.groups, attr.window.kernel[0],
					     attr.window.kernel[1] } };
	st = add_weight_and_bias(net, &weight, options->bias, options->weights, &input[1]);
	if (!st && options->weight_norm)
		st = normalise_weight(net, name, options->weights, &input[1]);
	if (!st && options->mask)
		st = mask_weight(net, name, options->mask, &input[1]);
	if (st)
		return st;
	return graph_add_op(net->graph, OP_CONV2D, PHASE_FORWARD, name, &attr, input, options->bias ? 3 : 2, y);
}

/* The product on all rows of an input with more than two dimensions: views around a matrix product. */
static enum tarn_status dense_rows(struct network *net, const char *name, const uint32_t *input, uint32_t inputs,
				   uint32_t features, uint32_t *y)
{
	const struct op_attr attr = { .transpose_b = 1 };
	const struct tensor x = *tensor_of(net, input[0]);
	struct op_attr shape = { .rank = x.rank };
	uint32_t product[3] = { TENSOR_NONE, input[1], input[2] };
	uint64_t rows = tensor_rows(&x);
	char *flat_name = part_name(net, name, "rows"), *product_name = part_name(net, name, "product");
	if (!flat_name || !product_name)
		return TARN_ENOMEM;
	if (rows > UINT32_MAX)
		return tarn_fail(TARN_EINVAL, "%s: %" PRIu64 " rows are too many", name, rows);
	const struct op_attr flat = { .rank = 2, .extent = { (uint32_t)rows, x.dim[x.rank - 1] } };
	memcpy(shape.extent, x.dim, x.rank * sizeof *x.dim);
	shape.extent[x.rank - 1] = features;
	enum tarn_status st = add_unary(net, OP_RESHAPE, flat_name, &flat, input[0], &product[0]);
	if (!st)
		st = graph_add_op(net->graph, OP_MATMUL, PHASE_FORWARD, product_name, &attr, product, inputs,
				  &product[0]);
	return st ? st : add_unary(net, OP_RESHAPE, name, &shape, product[0], y);
}

enum tarn_status layer_dense(struct network *net, const char *name, uint32_t x, uint32_t features, bool bias,
			     const char *weights, uint32_t *y)
{
	const struct op_attr attr = { .transpose_b = 1 };
	uint32_t input[3] = { x, TENSOR_NONE, TENSOR_NONE };
	const struct tensor *tensor = tensor_of(net, x);
	if (tensor->rank == 4)
		return fail_layout(net, name, x,
				   "a matrix, NxF, or a sequence, NxTxC; put a `flatten` layer before this one");
	if (tensor->rank < 2)
		return fail_layout(net, name, x, "a matrix, NxF, or a sequence, NxTxC");
	struct parameter weight = { .layer = name, .rank = 2, .dim = { features, tensor->dim[tensor->rank - 1] } };
	enum tarn_status st = add_weight_and_bias(net, &weight, bias, weights, &input[1]);
	if (st)
		return st;
	if (tensor_of(net, x)->rank > 2)
		return dense_rows(net, name, input, bias ? 3 : 2, features, y);
	return graph_add_op(net->graph, OP_MATMUL, PHASE_FORWARD, name, &attr, input, bias ? 3 : 2, y);
}

/* ---- norms ---- */

/* What batch norm has beside gamma and beta; out: running_mean, running_var, batches. */
static enum tarn_status add_running_statistics(struct network *net, const char *name, uint32_t channels, uint32_t *out)
{
	static const struct {
		const char *part;
		enum tensor_role role;
		enum dtype dtype;
		enum tensor_init init;
	} part[3] = {
		{ "running_mean", ROLE_RUNNING_STATISTIC, DTYPE_F32, INIT_ZERO },
		{ "running_var", ROLE_RUNNING_STATISTIC, DTYPE_F32, INIT_ONE },
		{ "batches", ROLE_COUNTER, DTYPE_U64, INIT_ZERO },
	};
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t length = part[i].role == ROLE_COUNTER ? 1 : channels;
		char *text = part_name(net, name, part[i].part);
		if (!text)
			return TARN_ENOMEM;
		enum tarn_status st =
			graph_add_persistent(net->graph, text, part[i].role, part[i].dtype, &length, 1, &out[i]);
		if (st)
			return st;
		net->graph->tensor[out[i]].init = (uint8_t)part[i].init;
	}
	return TARN_OK;
}

/* Statistics of this batch, and the effect that folds them into the running ones. */
static enum tarn_status batch_norm_training(struct network *net, const char *name, uint32_t *input,
					    const uint32_t *running, const struct op_attr *attr, float momentum,
					    uint32_t *y)
{
	uint64_t rows = tensor_rows(tensor_of(net, input[0]));
	if (rows == 1)
		return tarn_fail(
			TARN_EINVAL,
			"%s: a batch with one value a channel has no variance, so batch norm cannot be trained on it: "
			"set data.drop_last when it is the last batch of an epoch, take another data.batch, or use "
			"layer_norm",
			name);
	if (rows > UINT32_MAX)
		return tarn_fail(TARN_EINVAL, "%s: %" PRIu64 " values a channel are too many", name, rows);
	char *statistics = part_name(net, name, "statistics"), *update = part_name(net, name, "running");
	if (!statistics || !update)
		return TARN_ENOMEM;
	enum tarn_status st =
		graph_add_op(net->graph, OP_BATCH_STATS, PHASE_FORWARD, statistics, NULL, input, 1, &input[1]);
	if (st)
		return st;
	st = graph_add_op(net->graph, OP_BATCH_APPLY, PHASE_FORWARD, name, attr, input, 5, y);
	if (st)
		return st;
	const struct op_attr update_attr = { .momentum = momentum, .samples = (uint32_t)rows };
	const uint32_t update_input[5] = { running[0], running[1], running[2], input[1], input[2] };
	return graph_add_op(net->graph, OP_RUNNING_UPDATE, PHASE_FORWARD, update, &update_attr, update_input, 5, NULL);
}

enum tarn_status layer_batch_norm(struct network *net, const char *name, uint32_t x, float epsilon, float momentum,
				  uint32_t *y)
{
	const struct tensor *tensor = tensor_of(net, x);
	if (tensor->rank < 2)
		return fail_layout(net, name, x, "at least 2 dimensions, channels last");
	uint32_t channels = tensor->dim[tensor->rank - 1];
	uint32_t input[5] = { x, TENSOR_NONE, TENSOR_NONE, TENSOR_NONE, TENSOR_NONE }, running[3];
	const struct op_attr attr = { .epsilon = epsilon };
	enum tarn_status st = add_gamma_and_beta(net, name, channels, &input[3]);
	if (st)
		return st;
	st = add_running_statistics(net, name, channels, running);
	if (st)
		return st;
	if (net->mode == BUILD_TRAINING)
		return batch_norm_training(net, name, input, running, &attr, momentum, y);
	input[1] = running[0];
	input[2] = running[1];
	return graph_add_op(net->graph, OP_BATCH_APPLY, PHASE_FORWARD, name, &attr, input, 5, y);
}

enum tarn_status layer_layer_norm(struct network *net, const char *name, uint32_t x, float epsilon, uint32_t *y)
{
	const struct op_attr attr = { .epsilon = epsilon };
	const struct tensor *tensor = tensor_of(net, x);
	uint32_t input[3] = { x, TENSOR_NONE, TENSOR_NONE }, out[3];
	if (tensor->rank < 2)
		return fail_layout(net, name, x, "at least 2 dimensions, channels last");
	enum tarn_status st = add_gamma_and_beta(net, name, tensor->dim[tensor->rank - 1], &input[1]);
	if (st)
		return st;
	st = graph_add_op(net->graph, OP_LAYER_NORM, PHASE_FORWARD, name, &attr, input, 3, out);
	if (!st)
		*y = out[0];
	return st;
}

/* ---- without parameters ---- */

enum tarn_status layer_activation(struct network *net, const char *name, uint32_t x, enum activation activation,
				  float alpha, uint32_t *y)
{
	const struct op_attr attr = { .activation = activation, .alpha = alpha };
	return add_unary(net, OP_ACTIVATION, name, &attr, x, y);
}

enum tarn_status layer_max_pool(struct network *net, const char *name, uint32_t x, const struct window *window,
				uint32_t *y)
{
	const struct op_attr attr = { .window = *window };
	enum tarn_status st = need_image(net, name, x);
	return st ? st : add_unary(net, OP_MAX_POOL, name, &attr, x, y);
}

enum tarn_status layer_avg_pool(struct network *net, const char *name, uint32_t x, const struct window *window,
				bool count_padding, uint32_t *y)
{
	const struct op_attr attr = { .window = *window, .count_padding = count_padding };
	enum tarn_status st = need_image(net, name, x);
	return st ? st : add_unary(net, OP_AVG_POOL, name, &attr, x, y);
}

/* (N, everything else): a view. */
static enum tarn_status flatten_view(struct network *net, const char *name, uint32_t x, uint32_t *y)
{
	const struct tensor *tensor = tensor_of(net, x);
	uint64_t features = tensor_elements(tensor) / tensor->dim[0];
	if (features > UINT32_MAX)
		return tarn_fail(TARN_EINVAL, "%s: %" PRIu64 " features are too many", name, features);
	const struct op_attr attr = { .rank = 2, .extent = { tensor->dim[0], (uint32_t)features } };
	return add_unary(net, OP_RESHAPE, name, &attr, x, y);
}

/* A sequence NxTxC as an image of one column. */
static enum tarn_status sequence_image(struct network *net, const char *name, uint32_t x, uint32_t *y)
{
	const uint32_t *dim = tensor_of(net, x)->dim;
	const struct op_attr attr = { .rank = 4, .extent = { dim[0], dim[1], 1, dim[2] } };
	char *text = part_name(net, name, "column");
	return text ? add_unary(net, OP_RESHAPE, text, &attr, x, y) : TARN_ENOMEM;
}

enum tarn_status layer_global_pool(struct network *net, const char *name, uint32_t x, uint32_t *y)
{
	enum tarn_status st = TARN_OK;
	if (tensor_of(net, x)->rank == 3)
		st = sequence_image(net, name, x, &x);
	if (!st)
		st = need_image(net, name, x);
	if (st)
		return st;
	const uint32_t *dim = tensor_of(net, x)->dim;
	const struct op_attr attr = {
		.window = { .kernel = { dim[1], dim[2] }, .stride = { 1, 1 }, .dilation = { 1, 1 } }
	};
	uint32_t average;
	char *text = part_name(net, name, "average");
	if (!text)
		return TARN_ENOMEM;
	st = add_unary(net, OP_AVG_POOL, text, &attr, x, &average);
	return st ? st : flatten_view(net, name, average, y);
}

enum tarn_status layer_flatten(struct network *net, const char *name, uint32_t x, bool channels_first, uint32_t *y)
{
	const struct tensor *tensor = tensor_of(net, x);
	if (tensor->rank < 2)
		return fail_layout(net, name, x, "at least 2 dimensions");
	/* With one channel or one pixel both orders are the same. */
	if (!channels_first || tensor->rank != 4 || tensor->dim[3] == 1 || (tensor->dim[1] == 1 && tensor->dim[2] == 1))
		return flatten_view(net, name, x, y);
	const struct op_attr attr = { .rank = 4, .extent = { 0, 3, 1, 2 } };
	uint32_t permuted;
	char *text = part_name(net, name, "channels_first");
	if (!text)
		return TARN_ENOMEM;
	enum tarn_status st = add_unary(net, OP_PERMUTE, text, &attr, x, &permuted);
	return st ? st : flatten_view(net, name, permuted, y);
}

static enum tarn_status add_dropout(struct network *net, const char *name, uint32_t x, float rate, bool per_sample,
				    uint32_t *y)
{
	/* The stream is counted whatever the mode, so that other dropouts keep theirs. */
	const struct op_attr attr = { .rate = rate, .stream = net->next_stream++, .per_sample = per_sample };
	const uint32_t input[2] = { x, net->graph->scalars };
	if (net->mode == BUILD_INFERENCE || rate == 0.0f) {
		*y = x;
		return TARN_OK;
	}
	return graph_add_op(net->graph, OP_DROPOUT, PHASE_FORWARD, name, &attr, input, 2, y);
}

enum tarn_status layer_dropout(struct network *net, const char *name, uint32_t x, float rate, uint32_t *y)
{
	return add_dropout(net, name, x, rate, false, y);
}

enum tarn_status layer_stochastic_depth(struct network *net, const char *name, uint32_t x, float rate, uint32_t *y)
{
	return add_dropout(net, name, x, rate, true, y);
}

/* A chain of two-input ops; the last one has the layer's name. */
static enum tarn_status add_chain(struct network *net, enum op_kind kind, const char *name, const uint32_t *x,
				  uint32_t count, uint32_t *y)
{
	if (count < 2)
		return tarn_fail(TARN_EINVAL, "%s: %s needs at least two inputs, it has %" PRIu32, name,
				 op_row(kind)->name, count);
	uint32_t sum = x[0];
	for (uint32_t i = 1; i < count; i++) {
		const uint32_t input[2] = { sum, x[i] };
		const char *text = i + 1 == count ? name : part_name(net, name, "partial");
		if (!text)
			return TARN_ENOMEM;
		enum tarn_status st = graph_add_op(net->graph, kind, PHASE_FORWARD, text, NULL, input, 2, &sum);
		if (st)
			return st;
	}
	*y = sum;
	return TARN_OK;
}

enum tarn_status layer_add(struct network *net, const char *name, const uint32_t *x, uint32_t count, uint32_t *y)
{
	return add_chain(net, OP_ADD, name, x, count, y);
}

enum tarn_status layer_multiply(struct network *net, const char *name, const uint32_t *x, uint32_t count, uint32_t *y)
{
	return add_chain(net, OP_MULTIPLY, name, x, count, y);
}

enum tarn_status layer_concat(struct network *net, const char *name, const uint32_t *x, uint32_t count, uint32_t axis,
			      uint32_t *y)
{
	const struct op_attr attr = { .axis = axis };
	return graph_add_op(net->graph, OP_CONCAT, PHASE_FORWARD, name, &attr, x, count, y);
}
