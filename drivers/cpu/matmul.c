/*
 * matmul.c - c = activation(op(a) op(b) + bias) through oneDNN's matmul; transposes are strides.
 *
 * oneDNN's first choice on AVX-512 machines is its BRGEMM kernel: as fast as its SGEMM or faster (1.0 to 2.2 times on
 * the shapes of small networks), and its packing buffers are in the scratchpad, where SGEMM calls malloc.
 */
#include "cpu/onednn.h"

/* The (rows, columns) view of a stored matrix that may be transposed. */
static enum tarn_status matrix_layout(struct device *device, const struct operand *stored, bool transpose,
				      const dnnl_memory_desc_t **out)
{
	int64_t rows = stored->dim[0], columns = stored->dim[1];
	int64_t dim[2] = { transpose ? columns : rows, transpose ? rows : columns };
	int64_t stride[2] = { transpose ? 1 : columns, transpose ? columns : 1 };
	return dnn_layout(device, 2, dim, stride, out);
}

enum tarn_status matmul_prepare(struct device *device, struct kernel *kernel)
{
	const struct operand *a = kernel_input(kernel, 0), *b = kernel_input(kernel, 1), *c = kernel_output(kernel, 0);
	const dnnl_memory_desc_t *a_layout, *b_layout, *c_layout, *bias_layout = NULL;
	if (a->rank != 2 || b->rank != 2 || c->rank != 2)
		return tarn_fail(TARN_EUNSUPPORTED,
				 "cpu: matmul \"%s\": operands have ranks %u and %u; both must be matrices",
				 kernel->name, a->rank, b->rank);
	enum tarn_status st = matrix_layout(device, a, kernel->attr.transpose_a, &a_layout);
	if (!st)
		st = matrix_layout(device, b, kernel->attr.transpose_b, &b_layout);
	if (!st)
		st = matrix_layout(device, c, false, &c_layout);
	if (!st && kernel->inputs == 3)
		st = dnn_layout(device, 2, (int64_t[]){ 1, c->dim[1] }, NULL, &bias_layout);
	dnnl_primitive_attr_t attributes = NULL;
	if (!st)
		st = dnn_attributes(kernel->attr.activation, &attributes);
	if (st)
		return st;
	dnnl_matmul_desc_t description;
	struct dnn_choice choice;
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
