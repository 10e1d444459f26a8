/* launch_image.c - normalisation of groups, images in another height and width, the mixture loss of PixelCNN++. */
#include "cuda/launch.h"

/* x, gamma, beta -> y, mean, rstd;  dy, x, mean, rstd, gamma -> dx */
enum tarn_status launch_group_norm(struct launch_call *call)
{
	bool backward = call->op->kind == OP_GROUP_NORM_GRAD;
	const struct tensor *x = launch_tensor(call, backward);
	struct group_parameters p = { .x = launch_address(call, backward), .y = launch_output_address(call, 0) };
	p.positions = tensor_rows(x) / x->dim[0];
	p.channels = launch_channels(x);
	p.groups = call->op->attr.groups;
	p.epsilon = call->op->attr.epsilon;
	p.gamma = launch_address(call, backward ? 4 : 1);
	if (backward) {
		p.dy = launch_address(call, 0);
		p.mean = launch_address(call, 2);
		p.deviation = launch_address(call, 3);
	} else {
		p.beta = launch_address(call, 2);
		p.new_mean = launch_output_address(call, 1);
		p.new_deviation = launch_output_address(call, 2);
	}
	struct extent3 grid = { (uint64_t)x->dim[0] * p.groups, 1, 1 };
	return LAUNCH_ADD(call, backward ? "tarn_group_norm_grad_f32" : "tarn_group_norm_f32", grid,
			  launch_flat_block(), p);
}

/* UPSAMPLE and ADAPTIVE_AVG_POOL; their gradients are the adjoint maps. */
enum tarn_status launch_resample(struct launch_call *call)
{
	const struct op *op = call->op;
	const struct tensor *x = launch_tensor(call, 0), *y = launch_output(call, 0);
	bool adaptive = op->kind == OP_ADAPTIVE_AVG_POOL || op->kind == OP_ADAPTIVE_AVG_POOL_GRAD;
	struct resample_parameters p = { .x = launch_address(call, 0), .y = launch_output_address(call, 0) };
	p.adjoint = op->kind == OP_UPSAMPLE_GRAD || op->kind == OP_ADAPTIVE_AVG_POOL_GRAD;
	p.elements = tensor_elements(y);
	p.channels = launch_channels(y);
	for (uint32_t axis = 0; axis < 2; axis++) {
		p.from[axis] = x->dim[axis + 1];
		p.to[axis] = y->dim[axis + 1];
		p.in[axis] = p.adjoint ? p.to[axis] : p.from[axis];
		p.out[axis] = p.adjoint ? p.from[axis] : p.to[axis];
		p.ratio[axis] = (float)p.in[axis] / (float)p.out[axis];
		if (p.from[axis] > INT32_MAX || p.to[axis] > INT32_MAX)
			return launch_fail(call, "an image of %u to %u elements along an axis; at most %d",
					   p.from[axis], p.to[axis], INT32_MAX);
	}
	p.mode = adaptive                             ? RESAMPLE_ADAPTIVE
		 : op->attr.mode == UPSAMPLE_BILINEAR ? RESAMPLE_BILINEAR
						      : RESAMPLE_NEAREST;
	return LAUNCH_ADD(call, "tarn_resample_f32", launch_blocks(p.elements, 1), launch_flat_block(), p);
}

/* parameters, image [, dloss] */
static struct mixture_parameters mixture_of(const struct launch_call *call)
{
	const struct tensor *parameter = launch_tensor(call, 0), *image = launch_tensor(call, 1);
	struct mixture_parameters p = { .parameter = launch_address(call, 0), .image = launch_address(call, 1) };
	p.pixels = tensor_rows(image);
	p.channels = launch_channels(image);
	p.mixtures = launch_channels(parameter) / (p.channels == 1 ? 3 : 10);
	return p;
}

enum tarn_status launch_mixture(struct launch_call *call)
{
	struct mixture_parameters p = mixture_of(call);
	uint64_t rounds = launch_divide(launch_divide(p.pixels, KERNEL_THREADS), LAUNCH_SUM_BLOCKS);
	p.block_pixels = KERNEL_THREADS * rounds;
	p.partial = call->workspace;
	struct extent3 grid = { launch_divide(p.pixels, p.block_pixels), 1, 1 };
	call->workspace_bytes = grid.x * sizeof(double);
	enum tarn_status st = LAUNCH_ADD(call, "tarn_logistic_mixture_f32", grid, launch_flat_block(), p);
	return st ? st : launch_finish(call, grid.x, (double)tensor_elements(launch_tensor(call, 1)), 0);
}

enum tarn_status launch_mixture_grad(struct launch_call *call)
{
	struct mixture_parameters p = mixture_of(call);
	p.factor = launch_address(call, 2);
	p.out = launch_output_address(call, 0);
	return LAUNCH_ADD(call, "tarn_logistic_mixture_grad_f32", launch_blocks(p.pixels, 1), launch_flat_block(), p);
}
