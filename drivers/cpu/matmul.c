/*
 * matmul.c - c = activation(op(a) op(b) + bias), or c = alpha op(a) op(b) for many matrices, through oneDNN's matmul;
 * transposes are strides.
 *
 * oneDNN's first choice on AVX-512 machines is its BRGEMM kernel: as fast as its SGEMM or faster (1.0 to 2.2 times on
 * the shapes of small networks), and its packing buffers are in the scratchpad, where SGEMM calls malloc.
 */
#include "cpu/onednn.h"

/* The (rows, columns) view of a stored matrix that may be transposed; with a third dimension in front for many. */
static enum tarn_status matrix_layout(struct device *device, const struct operand *stored, bool transpose,
				      const dnnl_memory_desc_t **out)
{
	int64_t rows = stored->dim[stored->rank - 2], columns = stored->dim[stored->rank - 1];
	int64_t many = (int64_t)stored->elements / (rows * columns);
	int64_t dim[3] = { many, transpose ? columns : rows, transpose ? rows : columns };
	int64_t stride[3] = { rows * columns, transpose ? 1 : columns, transpose ? columns : 1 };
	return stored->rank == 2 ? dnn_layout(device, stored->dtype, 2, dim + 1, stride + 1, out)
				 : dnn_layout(device, stored->dtype, 3, dim, stride, out);
}

/* The factor of BATCH_MATMUL. */
static enum tarn_status scale_result(const struct kernel *kernel, dnnl_primitive_attr_t attributes)
{
	float alpha = kernel->attr.alpha;
	if (kernel->kind != OP_BATCH_MATMUL || alpha == 0.0f || alpha == 1.0f)
		return TARN_OK;
	return DNN(dnnl_primitive_attr_set_output_scales(attributes, 1, 0, &alpha));
}

enum tarn_status matmul_prepare(struct device *device, struct kernel *kernel)
{
	const struct operand *a = kernel_input(kernel, 0), *b = kernel_input(kernel, 1), *c = kernel_output(kernel, 0);
	const dnnl_memory_desc_t *a_layout, *b_layout, *c_layout, *bias_layout = NULL;
	enum tarn_status st = matrix_layout(device, a, kernel->attr.transpose_a, &a_layout);
	if (!st)
		st = matrix_layout(device, b, kernel->attr.transpose_b, &b_layout);
	if (!st)
		st = matrix_layout(device, c, false, &c_layout);
	if (!st && kernel->inputs == 3)
		st = dnn_layout(device, DTYPE_F32, 2, (int64_t[]){ 1, c->dim[1] }, NULL, &bias_layout);
	dnnl_primitive_attr_t attributes = NULL;
	if (!st)
		st = dnn_attributes(kernel->attr.activation, &attributes);
	if (st)
		return st;
	st = scale_result(kernel, attributes);
	dnnl_matmul_desc_t description;
	struct dnn_choice choice;
	if (!st)
		st = DNN(dnnl_matmul_desc_init(&description, a_layout, b_layout, bias_layout, c_layout));
	if (!st)
		st = dnn_choose(device, kernel, &description, attributes, NULL, 0, NULL, &choice);
	dnnl_primitive_attr_destroy(attributes);
	struct dnn_stage *stage;
	if (!st)
		st = dnn_add_stage(device, kernel, choice.description, 0, &stage);
	if (st)
		return st;
	dnn_add_argument(stage, DNNL_ARG_SRC, 0, 0, a_layout);
	dnn_add_argument(stage, DNNL_ARG_WEIGHTS, 1, 0, b_layout);
	if (bias_layout)
		dnn_add_argument(stage, DNNL_ARG_BIAS, 2, 0, bias_layout);
	dnn_add_argument(stage, DNNL_ARG_DST, kernel->inputs, 0, c_layout);
	return TARN_OK;
}
