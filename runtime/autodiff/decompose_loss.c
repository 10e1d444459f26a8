/* decompose_loss.c - losses as sums over all elements; the formulas are those of op.h. */
#include "autodiff/decompose_rules.h"

/* -sum q log_softmax(logits), with the weights q of the labels. */
static uint32_t cross_entropy(struct expression *e, const struct op_attr *attr, uint32_t logits, uint32_t labels)
{
	const struct op_attr weights = { .label_smoothing = attr->label_smoothing,
					 .has_ignore_index = attr->has_ignore_index,
					 .ignore_index = attr->ignore_index,
					 .extent = { e->status ? 0 : e->graph->tensor[logits].dim[1] } };
	uint32_t q = expression_matrix(e, expression_op(e, OP_LABEL_WEIGHTS, &weights, &labels, 1, NULL));
	uint32_t logarithm = expression_op(e, OP_LOG_SOFTMAX, NULL, &logits, 1, NULL);
	return expression_scale(e, expression_total(e, expression_multiply(e, q, logarithm)), -1);
}

void decompose_cross_entropy(struct expression *e, const struct op_attr *attr, const uint32_t *in, uint32_t inputs,
			     uint32_t *out)
{
	(void)inputs;
	out[0] = cross_entropy(e, attr, expression_matrix(e, in[0]), in[1]);
}

/* x, w, labels [, bias]: the logits exist now. */
void decompose_linear_cross_entropy(struct expression *e, const struct op_attr *attr, const uint32_t *in,
				    uint32_t inputs, uint32_t *out)
{
	const uint32_t input[3] = { expression_matrix(e, in[0]), in[1], inputs == 4 ? in[3] : TENSOR_NONE };
	const struct op_attr product = { .transpose_b = 1 };
	uint32_t logits = expression_op(e, OP_MATMUL, &product, input, inputs - 1, NULL);
	out[0] = cross_entropy(e, attr, logits, in[2]);
}

/* The mean over all elements. */
static uint32_t mean(struct expression *e, uint32_t x)
{
	double elements = e->status ? 1 : (double)tensor_elements(&e->graph->tensor[x]);
	return expression_scale(e, expression_total(e, x), 1 / elements);
}

void decompose_squared_error(struct expression *e, const struct op_attr *attr, const uint32_t *in, uint32_t inputs,
			     uint32_t *out)
{
	(void)attr;
	(void)inputs;
	uint32_t difference = expression_subtract(e, in[0], in[1]);
	out[0] = mean(e, expression_multiply(e, difference, difference));
}

/* log(1 + exp(x)) - x t */
void decompose_binary_cross_entropy(struct expression *e, const struct op_attr *attr, const uint32_t *in,
				    uint32_t inputs, uint32_t *out)
{
	(void)attr;
	(void)inputs;
	uint32_t softplus = expression_activation(e, ACTIVATION_SOFTPLUS, 0, in[0]);
	out[0] = mean(e, expression_subtract(e, softplus, expression_multiply(e, in[0], in[1])));
}
