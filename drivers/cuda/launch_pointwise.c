/* launch_pointwise.c - element by element: activations, add, multiply, scale, dropout, fill. */
#include "cuda/launch.h"

#include <stddef.h>
#include <string.h>

/* The device reads the head of the scalars block through a struct of its own. */
_Static_assert(offsetof(struct step_scalars, seed) == offsetof(struct device_scalars, seed) &&
		       offsetof(struct step_scalars, step) == offsetof(struct device_scalars, step) &&
		       offsetof(struct step_scalars, learning_rate) == offsetof(struct device_scalars, learning_rate) &&
		       offsetof(struct step_scalars, bias_correction1) ==
			       offsetof(struct device_scalars, bias_correction1) &&
		       offsetof(struct step_scalars, bias_correction2) ==
			       offsetof(struct device_scalars, bias_correction2),
	       "struct device_scalars must mirror struct step_scalars");

/* y = f(a [, b]) with what most of these ops need. */
static struct pointwise_parameters pointwise(const struct launch_call *call)
{
	const struct op_attr *attr = &call->op->attr;
	struct pointwise_parameters p = { .y = launch_output_address(call, 0), .alpha = attr->alpha };
	p.elements = tensor_elements(launch_output(call, 0));
	p.a = call->op->inputs > 0 ? launch_address(call, 0) : 0;
	p.b = call->op->inputs > 1 ? launch_address(call, 1) : 0;
	launch_clamp(attr->activation, &p.low, &p.high);
	return p;
}

static enum tarn_status add_pointwise(struct launch_call *call, const char *function,
				      const struct pointwise_parameters *p)
{
	return LAUNCH_ADD(call, function, launch_blocks(p->elements, KERNEL_VECTOR), launch_flat_block(), *p);
}

static const struct {
	const char *value, *gradient;
} activation_kernel[ACTIVATIONS] = {
	[ACTIVATION_NONE] = { "tarn_clamp_f32", "tarn_clamp_grad_f32" },
	[ACTIVATION_RELU] = { "tarn_clamp_f32", "tarn_clamp_grad_f32" },
	[ACTIVATION_RELU6] = { "tarn_clamp_f32", "tarn_clamp_grad_f32" },
	[ACTIVATION_LEAKY_RELU] = { "tarn_leaky_relu_f32", "tarn_leaky_relu_grad_f32" },
	[ACTIVATION_ELU] = { "tarn_elu_f32", "tarn_elu_grad_f32" },
	[ACTIVATION_SIGMOID] = { "tarn_sigmoid_f32", "tarn_sigmoid_grad_f32" },
	[ACTIVATION_TANH] = { "tarn_tanh_f32", "tarn_tanh_grad_f32" },
	[ACTIVATION_GELU] = { "tarn_gelu_f32", "tarn_gelu_grad_f32" },
	[ACTIVATION_GELU_TANH] = { "tarn_gelu_tanh_f32", "tarn_gelu_tanh_grad_f32" },
	[ACTIVATION_SILU] = { "tarn_silu_f32", "tarn_silu_grad_f32" },
	[ACTIVATION_SOFTPLUS] = { "tarn_softplus_f32", "tarn_softplus_grad_f32" },
};

static enum tarn_status check_slope(const struct launch_call *call)
{
	const struct op_attr *attr = &call->op->attr;
	if (attr->activation == ACTIVATION_LEAKY_RELU && attr->alpha < 0.0f)
		return launch_fail(call,
				   "the slope %g is negative; its gradient is computed from the output, which "
				   "needs a slope of 0 or more",
				   (double)attr->alpha);
	return TARN_OK;
}

enum tarn_status launch_activation(struct launch_call *call)
{
	struct pointwise_parameters p = pointwise(call);
	enum tarn_status st = check_slope(call);
	return st ? st : add_pointwise(call, activation_kernel[call->op->attr.activation].value, &p);
}

enum tarn_status launch_activation_grad(struct launch_call *call)
{
	struct pointwise_parameters p = pointwise(call);
	enum tarn_status st = check_slope(call);
	return st ? st : add_pointwise(call, activation_kernel[call->op->attr.activation].gradient, &p);
}

enum tarn_status launch_elementwise(struct launch_call *call)
{
	struct pointwise_parameters p = pointwise(call);
	const char *function = call->op->kind == OP_ADD        ? "tarn_add_f32"
			       : call->op->kind == OP_MULTIPLY ? "tarn_multiply_f32"
							       : "tarn_scale_f32";
	return add_pointwise(call, function, &p);
}

enum tarn_status launch_function(struct launch_call *call)
{
	struct pointwise_parameters p = pointwise(call);
	const char *function = call->op->attr.mode == FUNCTION_EXPONENTIAL ? "tarn_exponential_f32"
			       : call->op->attr.mode == FUNCTION_LOGARITHM ? "tarn_logarithm_f32"
									   : "tarn_power_f32";
	return add_pointwise(call, function, &p);
}

enum tarn_status launch_cast(struct launch_call *call)
{
	const struct tensor *x = launch_tensor(call, 0), *y = launch_output(call, 0);
	struct cast_parameters p = { .x = launch_address(call, 0), .y = launch_output_address(call, 0) };
	p.elements = tensor_elements(y);
	p.from = launch_kind_of(x->dtype);
	p.to = launch_kind_of(y->dtype);
	return LAUNCH_ADD(call, "tarn_cast", launch_blocks(p.elements, KERNEL_VECTOR), launch_flat_block(), p);
}

enum tarn_status launch_fill(struct launch_call *call)
{
	struct pointwise_parameters p = pointwise(call);
	return add_pointwise(call, "tarn_fill_f32", &p);
}

enum tarn_status launch_loss_grad(struct launch_call *call)
{
	bool squared = call->op->kind == OP_MEAN_SQUARED_ERROR_GRAD;
	struct pointwise_parameters p = pointwise(call);
	p.factor = launch_address(call, 2);
	return add_pointwise(call, squared ? "tarn_squared_error_grad_f32" : "tarn_binary_cross_entropy_grad_f32", &p);
}

enum tarn_status launch_dropout(struct launch_call *call)
{
	const struct op_attr *attr = &call->op->attr;
	struct dropout_parameters p = { .x = launch_address(call, 0), .scalars = launch_address(call, 1) };
	p.y = launch_output_address(call, 0);
	p.elements = tensor_elements(launch_output(call, 0));
	p.stream = attr->stream;
	p.rate = attr->rate;
	p.scale = 1.0f / (1.0f - attr->rate);
	/* attr.begin: samples of the batch in front of these. */
	const struct tensor *y = launch_output(call, 0);
	p.sample_elements = y->rank ? p.elements / y->dim[0] : 1;
	p.first = attr->begin * (attr->per_sample ? 1 : p.sample_elements);
	if (!attr->per_sample)
		return LAUNCH_ADD(call, "tarn_dropout_f32", launch_blocks(p.elements, KERNEL_VECTOR),
				  launch_flat_block(), p);
	return LAUNCH_ADD(call, "tarn_dropout_samples_f32", launch_blocks(p.elements, 1), launch_flat_block(), p);
}
