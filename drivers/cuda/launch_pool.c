/* launch_pool.c - pooling and its gradients. */
#include "cuda/launch.h"

/* Kernels compute positions in 32 bits. */
static enum tarn_status check_sizes(const struct launch_call *call, const struct tensor *tensor,
				    const struct window *window)
{
	uint64_t rows = (uint64_t)tensor->dim[0] * tensor->dim[1];
	uint64_t row_elements = (uint64_t)tensor->dim[2] * tensor->dim[3];
	if (rows > INT32_MAX || row_elements > INT32_MAX)
		return launch_fail(call, "%llu image rows of %llu elements; at most %d of each",
				   (unsigned long long)rows, (unsigned long long)row_elements, INT32_MAX);
	for (uint32_t axis = 0; axis < 2; axis++) {
		uint64_t padded = (uint64_t)tensor->dim[axis + 1] + window->pad_begin[axis] + window->pad_end[axis];
		if (padded > INT32_MAX || window->kernel[axis] > INT32_MAX || window->stride[axis] > INT32_MAX)
			return launch_fail(call,
					   "an image of %llu elements along an axis, padding included; at most %d",
					   (unsigned long long)padded, INT32_MAX);
	}
	return TARN_OK;
}

enum tarn_status launch_pool(struct launch_call *call)
{
	const struct op *op = call->op;
	const struct window *window = &op->attr.window;
	bool backward = op->kind == OP_MAX_POOL_GRAD || op->kind == OP_AVG_POOL_GRAD;
	const struct tensor *in = launch_tensor(call, 0), *out = launch_output(call, 0);
	const struct tensor *image = backward ? out : in, *result = backward ? in : out;
	struct pool_parameters p = { .images = image->dim[0], .channels = image->dim[3] };
	enum tarn_status st = check_sizes(call, in, window);
	if (!st)
		st = check_sizes(call, out, window);
	if (st)
		return st;
	p.x = launch_address(call, 0);
	p.index = op->kind == OP_MAX_POOL_GRAD || op->kind == OP_MAX_POOL_GATHER ? launch_address(call, 1) : 0;
	p.y = launch_output_address(call, 0);
	p.new_index = op->kind == OP_MAX_POOL ? launch_output_address(call, 1) : 0;
	for (uint32_t axis = 0; axis < 2; axis++) {
		p.image[axis] = image->dim[axis + 1];
		p.result[axis] = result->dim[axis + 1];
		p.kernel[axis] = window->kernel[axis];
		p.stride[axis] = window->stride[axis];
		p.pad[axis] = window->pad_begin[axis];
	}
	p.count_padding = op->attr.count_padding;
	uint64_t rows = (uint64_t)out->dim[0] * out->dim[1], row_elements = (uint64_t)out->dim[2] * out->dim[3];
	uint32_t width = launch_power_of_two(row_elements, KERNEL_THREADS), height = KERNEL_THREADS / width;
	struct extent3 grid = { launch_divide(rows, height), launch_divide(row_elements, width), 1 };
	const char *function = op->kind == OP_MAX_POOL_GATHER ? "tarn_max_pool_gather_f32"
			       : op->kind == OP_MAX_POOL      ? "tarn_max_pool_f32"
			       : op->kind == OP_MAX_POOL_GRAD ? "tarn_max_pool_grad_f32"
			       : op->kind == OP_AVG_POOL      ? "tarn_average_pool_f32"
							      : "tarn_average_pool_grad_f32";
	return LAUNCH_ADD(call, function, grid, ((struct extent3){ width, height, 1 }), p);
}
