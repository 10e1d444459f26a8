/*
 * conv.c - convolutions through oneDNN: forward, gradient of the input, gradient of the weights.
 *
 * Activations are N H W C, weights lie in the arena as O I KH KW. oneDNN's fast kernels want blocked weights: they are
 * reordered into the workspace before the convolution (or out of it, for the gradient), which costs little since
 * weights are small beside activations. The workspace holds the reordered weights, then the scratchpad.
 */
#include "cpu/onednn.h"

/* The shapes of one convolution, whichever of its three directions is computed. */
struct convolution {
	struct device *device;
	struct kernel *kernel;
	const struct operand *image, *weights, *result; /* x, w, y of the forward pass (or their gradients) */
	uint32_t image_operand, weights_operand, result_operand;
	const dnnl_memory_desc_t *image_layout, *plain, *result_layout, *bias;
	dnnl_memory_desc_t any;     /* weights whose layout oneDNN may choose */
	dnnl_memory_desc_t forward; /* those of the forward pass, stored as the image is */
	dnnl_dims_t stride, dilation, pad_begin, pad_end;
};

/* N H W C in memory; oneDNN names the dimensions N C H W. */
static enum tarn_status image_layout(struct device *device, const struct operand *image, const dnnl_memory_desc_t **out)
{
	int64_t n = image->dim[0], h = image->dim[1], w = image->dim[2], c = image->dim[3];
	return dnn_layout(device, image->dtype, 4, (int64_t[]){ n, c, h, w }, (int64_t[]){ h * w * c, 1, w * c, c },
			  out);
}

static enum tarn_status weight_layout(struct convolution *conv)
{
	const struct operand *w = conv->weights;
	int64_t groups = conv->kernel->attr.groups > 1 ? conv->kernel->attr.groups : 1;
	dnnl_dims_t dense = { w->dim[0], w->dim[1], w->dim[2], w->dim[3] };
	dnnl_dims_t grouped = { groups, w->dim[0] / groups, w->dim[1], w->dim[2], w->dim[3] };
	const int64_t *dim = groups > 1 ? grouped : dense;
	int rank = groups > 1 ? 5 : 4;
	enum tarn_status st = dnn_layout(conv->device, w->dtype, rank, dim, NULL, &conv->plain);
	if (!st)
		st = DNN(dnnl_memory_desc_init_by_tag(&conv->any, rank, dim, dnn_type(w->dtype), dnnl_format_tag_any));
	if (!st)
		st = DNN(dnnl_memory_desc_init_by_tag(&conv->forward, rank, dim, dnn_type(conv->image->dtype),
						      dnnl_format_tag_any));
	return st;
}

static void find_operands(struct convolution *conv)
{
	const struct kernel *kernel = conv->kernel;
	uint32_t first_output = kernel->inputs;
	if (kernel->kind == OP_CONV2D) {
		conv->image_operand = 0;
		conv->weights_operand = 1;
		conv->result_operand = first_output;
	} else if (kernel->kind == OP_CONV2D_GRAD_INPUT) {
		conv->result_operand = 0;
		conv->weights_operand = 1;
		conv->image_operand = first_output;
	} else {
		conv->image_operand = 0;
		conv->result_operand = 1;
		conv->weights_operand = first_output;
	}
	conv->image = &kernel->operand[conv->image_operand];
	conv->weights = &kernel->operand[conv->weights_operand];
	conv->result = &kernel->operand[conv->result_operand];
}

static enum tarn_status convolution_init(struct convolution *conv)
{
	const struct window *window = &conv->kernel->attr.window;
	find_operands(conv);
	if (conv->image->rank != 4 || conv->weights->rank != 4 || conv->result->rank != 4)
		return tarn_fail(TARN_EUNSUPPORTED,
				 "cpu: convolution \"%s\": image, weights and result must have rank 4, not "
				 "%u, %u and %u",
				 conv->kernel->name, conv->image->rank, conv->weights->rank, conv->result->rank);
	for (int i = 0; i < 2; i++) {
		conv->stride[i] = window->stride[i];
		conv->dilation[i] = (int64_t)window->dilation[i] - 1; /* oneDNN counts the gap */
		conv->pad_begin[i] = window->pad_begin[i];
		/* A floor in the output size leaves rows at the end unread; oneDNN accepts any pad_end that gives the
		 * size. */
		conv->pad_end[i] = window->pad_end[i];
	}
	enum tarn_status st = image_layout(conv->device, conv->image, &conv->image_layout);
	if (!st)
		st = image_layout(conv->device, conv->result, &conv->result_layout);
	if (!st)
		st = weight_layout(conv);
	if (!st && conv->kernel->kind == OP_CONV2D && conv->kernel->inputs == 3)
		st = dnn_layout(conv->device, DTYPE_F32, 1, (int64_t[]){ conv->weights->dim[0] }, NULL, &conv->bias);
	return st;
}

static enum tarn_status forward_description(const struct convolution *conv, dnnl_prop_kind_t kind,
					    dnnl_convolution_desc_t *out)
{
	return DNN(dnnl_dilated_convolution_forward_desc_init(
		out, kind, dnnl_convolution_direct, conv->image_layout, &conv->forward, conv->bias, conv->result_layout,
		conv->stride, conv->dilation, conv->pad_begin, conv->pad_end));
}

/* The backward passes are described relative to a forward one. */
static enum tarn_status forward_hint(const struct convolution *conv, dnnl_primitive_desc_t *hint)
{
	const struct cpu_state *state = conv->device->state;
	dnnl_convolution_desc_t forward;
	enum tarn_status st = forward_description(conv, dnnl_forward_training, &forward);
	if (!st)
		st = DNN(dnnl_primitive_desc_create(hint, &forward, NULL, state->engine, NULL));
	return st ? st : dnn_own_description(conv->device, *hint);
}

static enum tarn_status choose(const struct convolution *conv, dnnl_query_t weights_query, struct dnn_choice *choice)
{
	uint32_t kind = conv->kernel->kind;
	dnnl_convolution_desc_t description;
	dnnl_primitive_desc_t hint = NULL;
	enum tarn_status st = kind == OP_CONV2D ? TARN_OK : forward_hint(conv, &hint);
	if (st)
		return st;
	if (kind == OP_CONV2D)
		st = forward_description(conv, dnnl_forward_inference, &description);
	else if (kind == OP_CONV2D_GRAD_INPUT)
		st = DNN(dnnl_dilated_convolution_backward_data_desc_init(
			&description, dnnl_convolution_direct, conv->image_layout, &conv->any, conv->result_layout,
			conv->stride, conv->dilation, conv->pad_begin, conv->pad_end));
	else
		st = DNN(dnnl_dilated_convolution_backward_weights_desc_init(
			&description, dnnl_convolution_direct, conv->image_layout, &conv->any, NULL,
			conv->result_layout, conv->stride, conv->dilation, conv->pad_begin, conv->pad_end));
	dnnl_primitive_attr_t attributes;
	if (!st)
		st = dnn_attributes(kind == OP_CONV2D ? conv->kernel->attr.activation : ACTIVATION_NONE, &attributes);
	if (st)
		return st;
	st = dnn_choose(conv->device, conv->kernel, &description, attributes, hint, weights_query, conv->plain, choice);
	dnnl_primitive_attr_destroy(attributes);
	return st;
}

static enum tarn_status add_convolution(const struct convolution *conv, const struct dnn_choice *choice,
					const struct dnn_argument *weights, uint64_t scratchpad)
{
	struct dnn_stage *stage;
	enum tarn_status st = dnn_add_stage(conv->device, conv->kernel, choice->description, scratchpad, &stage);
	if (st)
		return st;
	uint32_t kind = conv->kernel->kind;
	dnn_add_argument(stage, kind == OP_CONV2D_GRAD_INPUT ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, conv->image_operand, 0,
			 conv->image_layout);
	dnn_add_argument(stage, kind == OP_CONV2D_GRAD_WEIGHT ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS,
			 weights->operand, weights->offset, weights->layout);
	dnn_add_argument(stage, kind == OP_CONV2D ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, conv->result_operand, 0,
			 conv->result_layout);
	if (conv->bias)
		dnn_add_argument(stage, DNNL_ARG_BIAS, 2, 0, conv->bias);
	return TARN_OK;
}

enum tarn_status conv_prepare(struct device *device, struct kernel *kernel)
{
	struct convolution conv = { .device = device, .kernel = kernel };
	struct dnn_choice choice;
	bool to_weights = kernel->kind == OP_CONV2D_GRAD_WEIGHT;
	enum tarn_status st = convolution_init(&conv);
	if (!st)
		st = choose(&conv, to_weights ? dnnl_query_diff_weights_md : dnnl_query_weights_md, &choice);
	if (st)
		return st;
	struct dnn_argument plain = { .operand = conv.weights_operand, .layout = conv.plain };
	if (dnnl_memory_desc_equal(choice.weights, conv.plain))
		return add_convolution(&conv, &choice, &plain, 0);
	struct dnn_argument chosen = { .operand = DNN_WORKSPACE, .offset = 0, .layout = choice.weights };
	uint64_t scratchpad = bytes_align(dnnl_memory_desc_get_size(choice.weights));
	kernel->info.workspace_bytes = scratchpad;
	if (!to_weights)
		st = dnn_add_reorder(device, kernel, &plain, &chosen, scratchpad);
	if (!st)
		st = add_convolution(&conv, &choice, &chosen, scratchpad);
	if (!st && to_weights)
		st = dnn_add_reorder(device, kernel, &chosen, &plain, scratchpad);
	return st;
}
