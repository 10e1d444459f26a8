/*
 * pointwise.c - activations, add (also repeated along the first axes), multiply, scale.
 *
 * Loops that only move memory are our own; activations with exponentials are oneDNN's vectorised ones. Every loop
 * computes an element from the elements of the same index, so that the output may take an input's memory.
 */
#include "cpu/onednn.h"

#include <string.h>

CPU_CLONES static void clamp_loop(const float *x, float *y, uint64_t n, struct clamp clamp)
{
	CPU_INDEPENDENT
	for (uint64_t i = 0; i < n; i++)
		y[i] = clamp_apply(clamp, x[i]);
}

CPU_CLONES static void leaky_loop(const float *x, float *y, uint64_t n, float slope)
{
	CPU_INDEPENDENT
	for (uint64_t i = 0; i < n; i++)
		y[i] = x[i] > 0.0f ? x[i] : slope * x[i];
}

CPU_CLONES static void clamp_grad_loop(const float *dy, const float *y, float *dx, uint64_t n, struct clamp clamp)
{
	CPU_INDEPENDENT
	for (uint64_t i = 0; i < n; i++)
		dx[i] = clamp_grad(clamp, y[i], dy[i]);
}

CPU_CLONES static void leaky_grad_loop(const float *dy, const float *y, float *dx, uint64_t n, float slope)
{
	CPU_INDEPENDENT
	for (uint64_t i = 0; i < n; i++)
		dx[i] = y[i] > 0.0f ? dy[i] : slope * dy[i];
}

CPU_CLONES static void add_loop(const float *a, const float *b, float *c, uint64_t n, struct clamp clamp)
{
	CPU_INDEPENDENT
	for (uint64_t i = 0; i < n; i++)
		c[i] = clamp_apply(clamp, a[i] + b[i]);
}

CPU_CLONES static void multiply_loop(const float *a, const float *b, float *c, uint64_t n)
{
	CPU_INDEPENDENT
	for (uint64_t i = 0; i < n; i++)
		c[i] = a[i] * b[i];
}

CPU_CLONES static void scale_loop(const float *x, float *y, uint64_t n, float alpha)
{
	CPU_INDEPENDENT
	for (uint64_t i = 0; i < n; i++)
		y[i] = alpha * x[i];
}

static void pointwise_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	const struct op_attr *attr = &kernel->attr;
	struct range range = chunk_range(kernel, chunk, kernel_output(kernel, 0)->elements);
	uint64_t n = range.end - range.begin;
	const float *a = (const float *)instr->address[0] + range.begin;
	const float *b = kernel->inputs > 1 ? (const float *)instr->address[1] + range.begin : NULL;
	float *out = (float *)instr_output(instr, 0) + range.begin;
	struct clamp clamp = activation_clamp(attr->activation);
	bool leaky = attr->activation == ACTIVATION_LEAKY_RELU;
	if (kernel->kind == OP_ADD)
		add_loop(a, b, out, n, clamp);
	else if (kernel->kind == OP_MULTIPLY)
		multiply_loop(a, b, out, n);
	else if (kernel->kind == OP_SCALE)
		scale_loop(a, out, n, attr->alpha);
	else if (kernel->kind == OP_ACTIVATION && leaky)
		leaky_loop(a, out, n, attr->alpha);
	else if (kernel->kind == OP_ACTIVATION)
		clamp_loop(a, out, n, clamp);
	else if (leaky)
		leaky_grad_loop(a, b, out, n, attr->alpha);
	else
		clamp_grad_loop(a, b, out, n, clamp);
}

/* b is repeated along a. */
static void add_broadcast_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	uint64_t period = kernel_input(kernel, 1)->elements;
	struct range range = chunk_range(kernel, chunk, kernel_output(kernel, 0)->elements);
	for (uint64_t i = range.begin; i < range.end;) {
		uint64_t offset = i % period, n = period - offset < range.end - i ? period - offset : range.end - i;
		add_loop((const float *)instr->address[0] + i, (const float *)instr->address[1] + offset,
			 (float *)instr_output(instr, 0) + i, n, activation_clamp(ACTIVATION_NONE));
		i += n;
	}
}

/* oneDNN's names: forward, backward (from the output where activation_grad_reads_output says so), and alpha. */
static bool smooth_algorithm(uint32_t activation, bool backward, dnnl_alg_kind_t *algorithm)
{
	switch (activation) {
	case ACTIVATION_ELU:
		*algorithm = backward ? dnnl_eltwise_elu_use_dst_for_bwd : dnnl_eltwise_elu;
		return true;
	case ACTIVATION_SIGMOID:
		*algorithm = backward ? dnnl_eltwise_logistic_use_dst_for_bwd : dnnl_eltwise_logistic;
		return true;
	case ACTIVATION_TANH:
		*algorithm = backward ? dnnl_eltwise_tanh_use_dst_for_bwd : dnnl_eltwise_tanh;
		return true;
	case ACTIVATION_GELU:
		*algorithm = dnnl_eltwise_gelu_erf;
		return true;
	case ACTIVATION_GELU_TANH:
		*algorithm = dnnl_eltwise_gelu_tanh;
		return true;
	case ACTIVATION_SILU:
		*algorithm = dnnl_eltwise_swish;
		return true;
	case ACTIVATION_SOFTPLUS:
		*algorithm = dnnl_eltwise_soft_relu;
		return true;
	default:
		return false;
	}
}

static enum tarn_status smooth_description(struct device *device, const struct kernel *kernel,
					   dnnl_alg_kind_t algorithm, const dnnl_memory_desc_t *layout,
					   dnnl_primitive_desc_t *out)
{
	const struct cpu_state *state = device->state;
	float alpha = kernel->attr.activation == ACTIVATION_SILU ? 1.0f : kernel->attr.alpha;
	dnnl_eltwise_desc_t description;
	dnnl_primitive_desc_t hint = NULL;
	dnnl_primitive_attr_t attributes;
	enum tarn_status st = DNN(
		dnnl_eltwise_forward_desc_init(&description, dnnl_forward_training, algorithm, layout, alpha, 0.0f));
	if (!st)
		st = dnn_attributes(ACTIVATION_NONE, &attributes);
	if (st)
		return st;
	st = DNN(dnnl_primitive_desc_create(out, &description, attributes, state->engine, NULL));
	if (!st)
		st = dnn_own_description(device, *out);
	if (!st && kernel->kind == OP_ACTIVATION_GRAD) {
		hint = *out;
		st = DNN(dnnl_eltwise_backward_desc_init(&description, algorithm, layout, layout, alpha, 0.0f));
		if (!st)
			st = DNN(dnnl_primitive_desc_create(out, &description, attributes, state->engine, hint));
		if (!st)
			st = dnn_own_description(device, *out);
	}
	dnnl_primitive_attr_destroy(attributes);
	return st;
}

static enum tarn_status smooth_prepare(struct device *device, struct kernel *kernel, dnnl_alg_kind_t algorithm)
{
	bool backward = kernel->kind == OP_ACTIVATION_GRAD;
	const dnnl_memory_desc_t *layout;
	dnnl_primitive_desc_t description;
	struct dnn_stage *stage;
	enum tarn_status st = dnn_layout(device, kernel_output(kernel, 0)->dtype, 1,
					 (int64_t[]){ (int64_t)kernel_output(kernel, 0)->elements }, NULL, &layout);
	if (!st)
		st = smooth_description(device, kernel, algorithm, layout, &description);
	if (!st)
		st = dnn_add_stage(device, kernel, description, 0, &stage);
	if (st)
		return st;
	if (!backward) {
		dnn_add_argument(stage, DNNL_ARG_SRC, 0, 0, layout);
		dnn_add_argument(stage, DNNL_ARG_DST, 1, 0, layout);
		return TARN_OK;
	}
	bool from_output = activation_grad_reads_output((enum activation)kernel->attr.activation);
	dnn_add_argument(stage, DNNL_ARG_DIFF_DST, 0, 0, layout);
	dnn_add_argument(stage, from_output ? DNNL_ARG_DST : DNNL_ARG_SRC, 1, 0, layout);
	dnn_add_argument(stage, DNNL_ARG_DIFF_SRC, 2, 0, layout);
	return TARN_OK;
}

enum tarn_status pointwise_prepare(struct device *device, struct kernel *kernel)
{
	uint64_t elements = kernel_output(kernel, 0)->elements;
	dnnl_alg_kind_t algorithm;
	if (kernel->kind == OP_ADD_BROADCAST) {
		kernel_cut(kernel, add_broadcast_body, elements, CPU_CHUNK_ELEMENTS);
		return TARN_OK;
	}
	for (uint32_t i = 0; i < kernel->inputs; i++)
		if (kernel->operand[i].elements != elements)
			return tarn_fail(TARN_EUNSUPPORTED,
					 "cpu: %s \"%s\": operand %u has %llu elements, the result %llu; "
					 "they must be as many",
					 op_row(kernel->kind)->name, kernel->name, i,
					 (unsigned long long)kernel->operand[i].elements, (unsigned long long)elements);
	bool activation = kernel->kind == OP_ACTIVATION || kernel->kind == OP_ACTIVATION_GRAD;
	if (activation && kernel->attr.activation == ACTIVATION_LEAKY_RELU && kernel->attr.alpha < 0.0f)
		return tarn_fail(TARN_EUNSUPPORTED,
				 "cpu: leaky_relu \"%s\": slope %g is negative; its gradient is computed "
				 "from the output, which needs a slope of 0 or more",
				 kernel->name, (double)kernel->attr.alpha);
	if (activation && smooth_algorithm(kernel->attr.activation, kernel->kind == OP_ACTIVATION_GRAD, &algorithm))
		return smooth_prepare(device, kernel, algorithm);
	kernel_cut(kernel, pointwise_body, elements, CPU_CHUNK_ELEMENTS);
	return TARN_OK;
}
