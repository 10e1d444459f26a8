/* launch_product.c - matrix products and convolutions without a library: plain kernels for shapes that none takes. */
#include "cuda/launch.h"

/* Output pixels that one part of the gradient of the weights sums, and the most parts. */
#define PART_PIXELS ((uint64_t)8192)
#define MOST_PARTS 64u

enum tarn_status launch_add_product(struct launch_call *call, const struct matmul_parameters *product)
{
	struct extent3 grid = { launch_divide(product->m, PRODUCT_TILE), launch_divide(product->n, PRODUCT_TILE),
				product->batch < UINT16_MAX ? product->batch : UINT16_MAX };
	struct matmul_parameters p = *product;
	p.stored = call->stored;
	enum tarn_status st = LAUNCH_ADD(call, "tarn_matmul_f32", grid, launch_flat_block(), p);
	if (!st)
		call->list->last->product = true;
	return st;
}

enum tarn_status launch_matmul(struct launch_call *call)
{
	const struct op_attr *attr = &call->op->attr;
	const struct tensor *a = launch_tensor(call, 0), *c = launch_output(call, 0);
	struct matmul_parameters p = { .a = launch_address(call, 0), .b = launch_address(call, 1), .alpha = 1.0f };
	p.c = launch_output_address(call, 0);
	p.bias = call->op->inputs == 3 ? launch_address(call, 2) : 0;
	p.m = c->dim[0];
	p.n = c->dim[1];
	p.k = a->dim[attr->transpose_a ? 0 : 1];
	p.batch = 1;
	p.wide = c->dtype == DTYPE_F32;
	p.transpose_a = attr->transpose_a;
	p.transpose_b = attr->transpose_b;
	launch_clamp(attr->activation, &p.low, &p.high);
	return launch_add_product(call, &p);
}

enum tarn_status launch_batch_matmul(struct launch_call *call)
{
	const struct op_attr *attr = &call->op->attr;
	const struct tensor *a = launch_tensor(call, 0), *c = launch_output(call, 0);
	struct matmul_parameters p = { .a = launch_address(call, 0), .b = launch_address(call, 1) };
	p.c = launch_output_address(call, 0);
	p.m = c->dim[c->rank - 2];
	p.n = c->dim[c->rank - 1];
	p.k = a->dim[a->rank - (attr->transpose_a ? 2 : 1)];
	p.batch = launch_product(c, 0, c->rank - 2);
	p.wide = c->dtype == DTYPE_F32;
	p.transpose_a = attr->transpose_a;
	p.transpose_b = attr->transpose_b;
	p.alpha = attr->alpha == 0.0f ? 1.0f : attr->alpha;
	launch_clamp(ACTIVATION_NONE, &p.low, &p.high);
	return launch_add_product(call, &p);
}

static enum tarn_status check_window(const struct launch_call *call, const struct convolution_parameters *p)
{
	const struct window *window = &call->op->attr.window;
	const uint32_t size[2] = { p->height, p->width };
	for (uint32_t axis = 0; axis < 2; axis++) {
		uint64_t padded = (uint64_t)size[axis] + window->pad_begin[axis] + window->pad_end[axis];
		if (padded > INT32_MAX)
			return launch_fail(call,
					   "an image of %llu elements along an axis, padding included; at most %d",
					   (unsigned long long)padded, INT32_MAX);
	}
	if ((uint64_t)p->kernel[0] * p->kernel[1] > INT32_MAX)
		return launch_fail(call, "a window of %u x %u has more than %d elements", p->kernel[0], p->kernel[1],
				   INT32_MAX);
	return TARN_OK;
}

/* The operands that are x, w and y of the forward pass, or gradients in their places; outputs follow the inputs. */
static enum tarn_status describe(const struct launch_call *call, uint32_t image, uint32_t weight, uint32_t result,
				 struct convolution_parameters *p)
{
	const struct window *window = &call->op->attr.window;
	const struct tensor *x = launch_tensor(call, image), *w = launch_tensor(call, weight);
	const struct tensor *y = launch_tensor(call, result);
	uint32_t groups = call->op->attr.groups ? call->op->attr.groups : 1;
	*p = (struct convolution_parameters){ .images = x->dim[0], .height = x->dim[1], .width = x->dim[2] };
	p->image = launch_address(call, image);
	p->weight = launch_address(call, weight);
	p->result = launch_address(call, result);
	p->out = launch_output_address(call, 0);
	p->channels = x->dim[3];
	p->out_height = y->dim[1];
	p->out_width = y->dim[2];
	p->out_channels = y->dim[3];
	p->group_channels = w->dim[1];
	p->group_out_channels = w->dim[0] / groups;
	for (uint32_t axis = 0; axis < 2; axis++) {
		p->kernel[axis] = window->kernel[axis];
		p->stride[axis] = window->stride[axis];
		p->dilation[axis] = window->dilation[axis];
		p->pad[axis] = window->pad_begin[axis];
	}
	launch_clamp(call->op->attr.activation, &p->low, &p->high);
	return check_window(call, p);
}

/* Forward, and the gradient of the input. */
enum tarn_status launch_convolution(struct launch_call *call)
{
	bool forward = call->op->kind == OP_CONV2D;
	uint32_t output = call->op->inputs;
	struct convolution_parameters p;
	enum tarn_status st = forward ? describe(call, 0, 1, output, &p) : describe(call, output, 1, 0, &p);
	if (st)
		return st;
	p.bias = call->op->inputs == 3 ? launch_address(call, 2) : 0;
	uint64_t pixels = forward ? p.images * p.out_height * p.out_width : p.images * p.height * p.width;
	uint32_t columns = forward ? p.group_out_channels : p.group_channels;
	struct extent3 grid = { launch_divide(pixels, PRODUCT_TILE), launch_divide(columns, PRODUCT_TILE),
				p.out_channels / p.group_out_channels };
	return LAUNCH_ADD(call, forward ? "tarn_convolution_f32" : "tarn_convolution_grad_input_f32", grid,
			  launch_flat_block(), p);
}

enum tarn_status launch_convolution_grad_weight(struct launch_call *call)
{
	uint32_t output = call->op->inputs;
	struct convolution_parameters p;
	enum tarn_status st = describe(call, 0, output, 1, &p);
	if (st)
		return st;
	uint64_t pixels = p.images * p.out_height * p.out_width;
	uint64_t wanted = launch_divide(pixels, PART_PIXELS);
	p.split = launch_divide(pixels, wanted < MOST_PARTS ? wanted : MOST_PARTS);
	uint64_t parts = launch_divide(pixels, p.split);
	uint64_t columns = (uint64_t)p.group_channels * p.kernel[0] * p.kernel[1];
	struct parts_parameters sum = { .partial = call->workspace, .y = launch_output_address(call, 0) };
	sum.elements = tensor_elements(launch_output(call, 0));
	sum.parts = (uint32_t)parts;
	p.out = call->workspace;
	call->workspace_bytes = parts * sum.elements * sizeof(float);
	struct extent3 grid = { launch_divide(p.group_out_channels, PRODUCT_TILE), launch_divide(columns, PRODUCT_TILE),
				p.out_channels / p.group_out_channels * parts };
	st = LAUNCH_ADD(call, "tarn_convolution_grad_weight_f32", grid, launch_flat_block(), p);
	if (!st)
		st = LAUNCH_ADD(call, "tarn_sum_parts_f32", launch_blocks(sum.elements, 1), launch_flat_block(), sum);
	if (!st)
		call->list->last->stored = launch_kind_of(launch_output(call, 0)->dtype);
	return st;
}
