/*
 * derive_twice.c - derivatives of ops that only stand in gradients, so that a gradient can be differentiated again, any
 * number of times. What is missing here (norms, losses, attention, recurrent cells) is written out before the first
 * differentiation, see expand.h.
 */
#include "autodiff/derive.h"
#include "autodiff/expression.h"

/* sqrt(2/pi) and the cubic term of the tanh approximation of GELU: Hendrycks, Gimpel 2016, arXiv:1606.08415. */
#define GELU_TANH_FACTOR 0.7978845608028654
#define GELU_TANH_CUBE 0.044715

/* z f''(x) with f = x Phi(x), f'' = (2 - x^2) phi(x), phi the density of the normal distribution. */
static uint32_t gelu_second(struct expression *e, uint32_t z, uint32_t x)
{
	uint32_t square = expression_multiply(e, x, x);
	uint32_t density = expression_function(e, FUNCTION_EXPONENTIAL, 0, expression_scale(e, square, -0.5));
	uint32_t factor = expression_add_constant(e, expression_scale(e, square, -1), 2);
	return expression_scale(e, expression_multiply(e, z, expression_multiply(e, factor, density)),
				0.3989422804014327 /* 1/sqrt(2 pi) */);
}

/*
 * z f''(x) with f = x (1 + t) / 2, t = tanh(u), u = c (x + a x^3):
 *     f'' = (1 - t^2) (u' + x u'' / 2 - x t u'^2),  u' = c (1 + 3 a x^2),  u'' = 6 a c x
 */
static uint32_t gelu_tanh_second(struct expression *e, uint32_t z, uint32_t x)
{
	const double c = GELU_TANH_FACTOR, a = GELU_TANH_CUBE;
	uint32_t square = expression_multiply(e, x, x);
	uint32_t u = expression_multiply(e, x, expression_add_constant(e, expression_scale(e, square, c * a), c));
	uint32_t t = expression_activation(e, ACTIVATION_TANH, 0, u);
	uint32_t du = expression_add_constant(e, expression_scale(e, square, 3 * a * c), c);
	/* u' + x u''/2 = c (1 + 6 a x^2) */
	uint32_t first = expression_add_constant(e, expression_scale(e, square, 6 * a * c), c);
	uint32_t last = expression_multiply(e, expression_multiply(e, x, t), expression_multiply(e, du, du));
	return expression_activation_grad(e, ACTIVATION_TANH, 0,
					  expression_multiply(e, z, expression_subtract(e, first, last)), t);
}

/* z f''(x) with f = x s, s = sigmoid(x): f'' = s' (2 + x (1 - 2 s)) */
static uint32_t silu_second(struct expression *e, uint32_t z, uint32_t x)
{
	uint32_t s = expression_activation(e, ACTIVATION_SIGMOID, 0, x);
	uint32_t inner = expression_multiply(e, x, expression_add_constant(e, expression_scale(e, s, -2), 1));
	return expression_activation_grad(e, ACTIVATION_SIGMOID, 0,
					  expression_multiply(e, z, expression_add_constant(e, inner, 2)), s);
}

/*
 * z times the derivative by s of f'(s), the factor of ACTIVATION_GRAD, where s is the output y for
 *     sigmoid: y (1 - y);  tanh: 1 - y^2;  elu: 1 above 0, else y + alpha
 * and the input x for the others.
 */
static uint32_t activation_second(struct expression *e, const struct op_attr *attr, uint32_t z, uint32_t s)
{
	switch ((enum activation)attr->activation) {
	case ACTIVATION_SIGMOID:
		return expression_multiply(e, z, expression_add_constant(e, expression_scale(e, s, -2), 1));
	case ACTIVATION_TANH:
		return expression_scale(e, expression_multiply(e, z, s), -2);
	case ACTIVATION_ELU:
		return expression_subtract(e, z, expression_activation_grad(e, ACTIVATION_RELU, 0, z, s));
	case ACTIVATION_GELU:
		return gelu_second(e, z, s);
	case ACTIVATION_GELU_TANH:
		return gelu_tanh_second(e, z, s);
	case ACTIVATION_SILU:
		return silu_second(e, z, s);
	case ACTIVATION_SOFTPLUS:
		return expression_activation_grad(e, ACTIVATION_SIGMOID, 0, z,
						  expression_activation(e, ACTIVATION_SIGMOID, 0, s));
	default:
		e->status = tarn_fail(TARN_EUNSUPPORTED, "%s: the second derivative of %s is not available", e->name,
				      activation_name((enum activation)attr->activation));
		return TENSOR_NONE;
	}
}

/* dx = dy f'(s) is linear in dy; by s its derivative is zero where the activation is piecewise linear. */
enum tarn_status derive_activation_grad(struct graph *graph, uint32_t op, const uint32_t *grad_output,
					const bool *wanted, uint32_t *grad_input)
{
	const struct op_attr attr = graph->op[op].attr;
	const uint32_t dy = op_inputs(graph, op)[0], s = op_inputs(graph, op)[1], g = grad_output[0];
	const bool linear = attr.activation == ACTIVATION_RELU || attr.activation == ACTIVATION_RELU6 ||
			    attr.activation == ACTIVATION_LEAKY_RELU;
	struct expression e = expression_of_gradient(graph, op);
	if (wanted[1] && !linear)
		grad_input[1] = activation_second(&e, &attr, expression_multiply(&e, g, dy), s);
	if (wanted[0])
		grad_input[0] = expression_op(&e, OP_ACTIVATION_GRAD, &attr, (uint32_t[]){ g, s }, 2, NULL);
	return e.status;
}

/* exp' = exp; log' = 1/x; (x^a)' = a x^(a-1) */
enum tarn_status derive_function(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				 uint32_t *grad_input)
{
	const struct op_attr attr = graph->op[op].attr;
	const uint32_t x = op_inputs(graph, op)[0], y = op_outputs(graph, op)[0];
	const double alpha = (double)attr.alpha;
	struct expression e = expression_of_gradient(graph, op);
	uint32_t slope;
	(void)wanted; /* its only input */
	if (attr.mode == FUNCTION_EXPONENTIAL)
		slope = y;
	else if (attr.mode == FUNCTION_LOGARITHM)
		slope = expression_function(&e, FUNCTION_POWER, -1, x);
	else
		slope = expression_scale(&e, expression_function(&e, FUNCTION_POWER, alpha - 1, x), alpha);
	grad_input[0] = expression_multiply(&e, grad_output[0], slope);
	return e.status;
}

/* Scattering and gathering at fixed places are linear, and each the other's adjoint. */
enum tarn_status derive_max_pool_grad(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				      uint32_t *grad_input)
{
	const struct op_attr attr = { .window = graph->op[op].attr.window };
	const uint32_t input[2] = { grad_output[0], op_inputs(graph, op)[1] };
	(void)wanted; /* indices are integers */
	return derive_add(graph, op, "gradient", OP_MAX_POOL_GATHER, &attr, input, 2, &grad_input[0]);
}

enum tarn_status derive_max_pool_gather(struct graph *graph, uint32_t op, const uint32_t *grad_output,
					const bool *wanted, uint32_t *grad_input)
{
	const struct tensor *g = &graph->tensor[op_inputs(graph, op)[0]];
	const struct op_attr attr = { .window = graph->op[op].attr.window, .extent = { g->dim[1], g->dim[2] } };
	const uint32_t input[2] = { grad_output[0], op_inputs(graph, op)[1] };
	(void)wanted;
	return derive_add(graph, op, "input", OP_MAX_POOL_GRAD, &attr, input, 2, &grad_input[0]);
}

/* The columns of a matrix. */
static uint32_t columns_of(const struct expression *e, uint32_t matrix)
{
	return e->status ? 0 : e->graph->tensor[matrix].dim[1];
}

/* The sum of a * b in each row, in every place of it. */
static uint32_t row_product(struct expression *e, uint32_t a, uint32_t b)
{
	uint32_t sum = expression_sum_of_row(e, expression_multiply(e, a, b));
	return expression_repeat_in_row(e, sum, columns_of(e, a));
}

/*
 * dx = k y (dy - sum dy y): symmetric in dy, so d(dy) is the same op of g, and
 * d(y) = k (g (dy - sum dy y) - dy sum g y).
 */
enum tarn_status derive_softmax_grad(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				     uint32_t *grad_input)
{
	const struct op_attr attr = graph->op[op].attr;
	const uint32_t y = op_inputs(graph, op)[1];
	struct expression e = expression_of_gradient(graph, op);
	if (wanted[0])
		grad_input[0] = expression_op(&e, OP_SOFTMAX_GRAD, &attr, (uint32_t[]){ grad_output[0], y }, 2, NULL);
	if (wanted[1]) {
		uint32_t dy = expression_matrix(&e, op_inputs(graph, op)[0]), rows = expression_matrix(&e, y);
		uint32_t g = expression_matrix(&e, grad_output[0]);
		uint32_t centred = expression_subtract(&e, dy, row_product(&e, dy, rows));
		uint32_t by_y = expression_subtract(&e, expression_multiply(&e, g, centred),
						    expression_multiply(&e, dy, row_product(&e, g, rows)));
		by_y = expression_scale(&e, by_y, attr.alpha != 0 ? (double)attr.alpha : 1);
		grad_input[1] = expression_reshape_like(&e, by_y, y);
	}
	return e.status;
}

/* dx = dy - exp(y) sum dy:  d(dy) = g - sum g exp(y),  d(y) = -g exp(y) sum dy */
enum tarn_status derive_log_softmax_grad(struct graph *graph, uint32_t op, const uint32_t *grad_output,
					 const bool *wanted, uint32_t *grad_input)
{
	const uint32_t like = op_inputs(graph, op)[1];
	struct expression e = expression_of_gradient(graph, op);
	uint32_t dy = expression_matrix(&e, op_inputs(graph, op)[0]), g = expression_matrix(&e, grad_output[0]);
	uint32_t p = expression_function(&e, FUNCTION_EXPONENTIAL, 0, expression_matrix(&e, like));
	if (wanted[0])
		grad_input[0] = expression_reshape_like(&e, expression_subtract(&e, g, row_product(&e, g, p)), like);
	if (wanted[1]) {
		uint32_t sum = expression_repeat_in_row(&e, expression_sum_of_row(&e, dy), columns_of(&e, dy));
		uint32_t by_y = expression_multiply(&e, expression_multiply(&e, g, p), sum);
		grad_input[1] = expression_reshape_like(&e, expression_scale(&e, by_y, -1), like);
	}
	return e.status;
}

enum tarn_status derive_sum_squares(struct graph *graph, uint32_t op, const uint32_t *grad_output, const bool *wanted,
				    uint32_t *grad_input)
{
	struct expression e = expression_of_gradient(graph, op);
	(void)wanted; /* its only input */
	grad_input[0] = expression_times_scalar(&e, expression_scale(&e, op_inputs(graph, op)[0], 2), grad_output[0]);
	return e.status;
}
