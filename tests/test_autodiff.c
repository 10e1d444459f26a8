/*
 * test_autodiff.c - the reverse sweep and the optimizers' ops as graphs: order of sums, what gets no gradient, shapes,
 * closure of the table. The numbers behind the derivatives are compared with finite differences elsewhere, on a driver.
 */
#include "autodiff/autodiff.h"
#include "autodiff/optimizer.h"
#include "support/testing.h"

#include <stdio.h>
#include <string.h>

static struct host_arena arena;
static struct graph graph;
static struct config config;

static void setup(void)
{
	host_arena_init(&arena);
	ck_assert_ok(graph_init(&graph, &arena));
	memset(&config, 0, sizeof config);
	const uint32_t block = sizeof(struct step_scalars);
	ck_assert_ok(graph_add_persistent(&graph, "scalars", ROLE_SCALARS, DTYPE_U8, &block, 1, &graph.scalars));
}

static void teardown(void)
{
	host_arena_fini(&arena);
}

/* A parameter with up to four dimensions, 0 ends them. */
static uint32_t parameter(const char *name, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	const uint32_t dim[4] = { a, b, c, d };
	uint32_t rank = 0, id;
	while (rank < 4 && dim[rank])
		rank++;
	ck_assert_ok(graph_add_persistent(&graph, name, ROLE_PARAMETER, DTYPE_F32, dim, rank, &id));
	return id;
}

/* Appends a forward op; returns its first output. */
static uint32_t add(enum op_kind kind, const char *name, const struct op_attr *attr, const uint32_t *input,
		    uint32_t inputs)
{
	uint32_t out[OP_MAX_OUTPUTS];
	ck_assert_ok(graph_add_op(&graph, kind, PHASE_FORWARD, name, attr, input, inputs, out));
	return out[0];
}

#define ADD(kind, name, attr, ...) \
	add(kind, name, attr, (const uint32_t[]){ __VA_ARGS__ }, sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

/* A scalar that depends on every element of x. */
static uint32_t to_loss(uint32_t x)
{
	return ADD(OP_MEAN_SQUARED_ERROR, "loss", NULL, x, ADD(OP_SCALE, "zero", NULL, x));
}

/* The same, whose target depends on nothing. */
static uint32_t to_plain_loss(uint32_t x)
{
	struct op_attr attr = { .rank = graph.tensor[x].rank };
	memcpy(attr.extent, graph.tensor[x].dim, sizeof attr.extent);
	uint32_t target = add(OP_FILL, "target", &attr, NULL, 0);
	return ADD(OP_MEAN_SQUARED_ERROR, "loss", NULL, x, target);
}

static const struct op *producer(uint32_t tensor)
{
	return &graph.op[graph.tensor[tensor].producer];
}

static uint32_t input_of(uint32_t tensor, uint32_t k)
{
	return op_inputs(&graph, graph.tensor[tensor].producer)[k];
}

static void check_same_shape(uint32_t a, uint32_t b)
{
	ck_assert_uint_eq(graph.tensor[a].rank, graph.tensor[b].rank);
	ck_assert_mem_eq(graph.tensor[a].dim, graph.tensor[b].dim, sizeof graph.tensor[a].dim);
}

static uint32_t count_kind(enum op_kind kind)
{
	uint32_t count = 0;
	for (uint32_t op = 0; op < graph.ops; op++)
		count += graph.op[op].kind == (uint32_t)kind;
	return count;
}

/* ---- the sweep ---- */

/* Rows of x as slices with a curve behind each, summed in one loss. Returns the loss. */
static uint32_t slices_of(uint32_t x, const uint32_t (*range)[2], uint32_t count)
{
	static const char *const name[] = { "s0", "s1", "s2", "s3" };
	uint32_t sum = TENSOR_NONE;
	for (uint32_t i = 0; i < count; i++) {
		const struct op_attr slice = { .begin = range[i][0], .extent = { range[i][1] } };
		const struct op_attr curve = { .activation = ACTIVATION_TANH };
		uint32_t y = ADD(OP_ACTIVATION, name[i], &curve, ADD(OP_SLICE, name[i], &slice, x));
		sum = i ? ADD(OP_ADD, "sum", NULL, sum, y) : y;
	}
	return to_plain_loss(sum);
}

/* Slices side by side: their gradients are joined, in the order of the axis, whatever the order of the slices. */
START_TEST(gradients_of_slices_are_joined)
{
	const uint32_t range[3][2] = { { 4, 2 }, { 0, 2 }, { 2, 2 } };
	uint32_t x = parameter("x", 6, 4, 0, 0), g;
	ck_assert_ok(autodiff_gradients(&graph, slices_of(x, range, 3), &x, 1, &arena, &g));
	ck_assert_int_eq((int)producer(g)->kind, OP_CONCAT);
	ck_assert_uint_eq(count_kind(OP_PAD_AXIS), 0);
	ck_assert_str_eq(tensor_name(&graph, input_of(g, 0)), "s1/gradient_input");
	ck_assert_str_eq(tensor_name(&graph, input_of(g, 2)), "s0/gradient_input");
	check_same_shape(x, g);
	ck_assert_ok(graph_check(&graph));
}
END_TEST

/* Zeros stand between slices that leave a gap; slices that overlap are added. */
START_TEST(gradients_of_slices_with_gaps_and_overlaps)
{
	const uint32_t gap[2][2] = { { 1, 2 }, { 4, 2 } }, overlap[2][2] = { { 0, 4 }, { 2, 4 } };
	uint32_t x = parameter("x", 7, 4, 0, 0), y = parameter("y", 6, 4, 0, 0), g;
	ck_assert_ok(autodiff_gradients(&graph, slices_of(x, gap, 2), &x, 1, &arena, &g));
	ck_assert_int_eq((int)producer(g)->kind, OP_CONCAT);
	ck_assert_uint_eq(producer(g)->inputs, 5);
	for (uint32_t k = 0; k < 5; k += 2)
		ck_assert_int_eq((int)producer(input_of(g, k))->kind, OP_FILL);
	check_same_shape(x, g);
	ck_assert_ok(autodiff_gradients(&graph, slices_of(y, overlap, 2), &y, 1, &arena, &g));
	ck_assert_int_eq((int)producer(g)->kind, OP_ADD);
	ck_assert_uint_eq(count_kind(OP_PAD_AXIS), 2);
	ck_assert_ok(graph_check(&graph));
}
END_TEST

/* A weight that 20 small products share: 16 of them become one product, and the other 4. */
START_TEST(gradients_of_many_small_products_are_joined)
{
	uint32_t wrt[3] = { parameter("w", 32, 32, 0, 0), parameter("b", 32, 0, 0, 0), parameter("x", 2, 32, 0, 0) },
		 g[3];
	const struct op_attr product = { .transpose_b = 1 }, curve = { .activation = ACTIVATION_TANH };
	uint32_t y = wrt[2], forward = 0;
	for (uint32_t i = 0; i < 20; i++)
		y = ADD(OP_ACTIVATION, "curve", &curve, ADD(OP_MATMUL, "product", &product, y, wrt[0], wrt[1]));
	forward = count_kind(OP_MATMUL);
	ck_assert_ok(autodiff_gradients(&graph, to_plain_loss(y), wrt, 3, &arena, g));
	ck_assert_uint_eq(count_kind(OP_MATMUL), forward + 20 + 2);
	ck_assert_uint_eq(count_kind(OP_SUM_ROWS), 2);
	ck_assert_uint_eq(count_kind(OP_CONCAT), 4);
	ck_assert_int_eq((int)producer(g[0])->kind, OP_ADD);
	ck_assert_uint_eq(graph.tensor[op_inputs(&graph, graph.tensor[input_of(g[0], 0)].producer)[0]].dim[0], 32);
	for (uint32_t k = 0; k < 3; k++)
		check_same_shape(wrt[k], g[k]);
	ck_assert_ok(graph_check(&graph));
}
END_TEST

/* x is read by scale, tanh and sigmoid, in this order: the sum is (sigmoid + tanh) + scale. */
START_TEST(sums_start_with_the_last_consumer)
{
	uint32_t x = parameter("x", 3, 4, 0, 0), g;
	const struct op_attr tanh_attr = { .activation = ACTIVATION_TANH };
	const struct op_attr sigmoid_attr = { .activation = ACTIVATION_SIGMOID };
	uint32_t a = ADD(OP_SCALE, "scale", NULL, x);
	uint32_t b = ADD(OP_ACTIVATION, "tanh", &tanh_attr, x);
	uint32_t c = ADD(OP_ACTIVATION, "sigmoid", &sigmoid_attr, x);
	uint32_t sum = ADD(OP_ADD, "sum2", NULL, ADD(OP_ADD, "sum1", NULL, a, b), c);
	ck_assert_ok(autodiff_gradients(&graph, to_plain_loss(sum), &x, 1, &arena, &g));
	ck_assert_str_eq(tensor_name(&graph, g), "x/gradient_sum#2");
	ck_assert_int_eq((int)producer(input_of(g, 1))->kind, OP_SCALE);
	uint32_t first = input_of(g, 0);
	ck_assert_str_eq(tensor_name(&graph, first), "x/gradient_sum");
	ck_assert_uint_eq(producer(input_of(first, 0))->attr.activation, ACTIVATION_SIGMOID);
	ck_assert_uint_eq(producer(input_of(first, 1))->attr.activation, ACTIVATION_TANH);
	ck_assert_ok(graph_check(&graph));
}
END_TEST

START_TEST(sums_pass_one_gradient_on)
{
	uint32_t wrt[2] = { parameter("a", 3, 4, 0, 0), parameter("b", 3, 4, 0, 0) }, g[2];
	uint32_t sum = add(OP_ADD, "sum", NULL, wrt, 2);
	ck_assert_ok(autodiff_gradients(&graph, to_plain_loss(sum), wrt, 2, &arena, g));
	ck_assert_uint_eq(g[0], g[1]);
	ck_assert_uint_eq(count_kind(OP_ADD), 1);
}
END_TEST

/* The same tensor twice in one op: both partial gradients count. */
START_TEST(squares_have_two_partial_gradients)
{
	uint32_t x = parameter("x", 3, 4, 0, 0), g;
	uint32_t y = ADD(OP_MULTIPLY, "square", NULL, x, x);
	ck_assert_ok(autodiff_gradients(&graph, to_plain_loss(y), &x, 1, &arena, &g));
	ck_assert_int_eq((int)producer(g)->kind, OP_ADD);
	ck_assert_int_eq((int)producer(input_of(g, 0))->kind, OP_MULTIPLY);
	ck_assert_int_eq((int)producer(input_of(g, 1))->kind, OP_MULTIPLY);
}
END_TEST

START_TEST(what_the_loss_ignores_has_no_gradient)
{
	uint32_t wrt[2] = { parameter("used", 3, 4, 0, 0), parameter("unused", 3, 4, 0, 0) }, g[2];
	ADD(OP_SCALE, "nowhere", NULL, wrt[1]);
	uint32_t loss = to_plain_loss(ADD(OP_SCALE, "y", NULL, wrt[0]));
	uint32_t ops = graph.ops;
	ck_assert_ok(autodiff_gradients(&graph, loss, &wrt[1], 1, &arena, g));
	ck_assert_uint_eq(g[0], TENSOR_NONE);
	ck_assert_uint_eq(graph.ops, ops);
	ck_assert_ok(autodiff_gradients(&graph, loss, wrt, 2, &arena, g));
	ck_assert_uint_ne(g[0], TENSOR_NONE);
	ck_assert_uint_eq(g[1], TENSOR_NONE);
	/* Of the loss itself: one. */
	ck_assert_ok(autodiff_gradients(&graph, loss, &loss, 1, &arena, g));
	ck_assert_int_eq((int)producer(g[0])->kind, OP_FILL);
	ck_assert_ok(graph_check(&graph));
}
END_TEST

START_TEST(errors_are_named)
{
	uint32_t x = parameter("x", 3, 4, 0, 0), g;
	uint32_t y = ADD(OP_SCALE, "y", NULL, x);
	ck_assert_fails(autodiff_gradients(&graph, y, &x, 1, &arena, &g), TARN_EINVAL,
			"the loss y has the shape 3x4, a gradient needs one f32 number");
	ck_assert_fails(autodiff_gradients(&graph, to_loss(y), &x, 1, &arena, &g), TARN_EUNSUPPORTED,
			"loss: the gradient of mean_squared_error by its target is not available");
	uint32_t s = ADD(OP_SUM_SQUARES, "squares", NULL, x);
	uint32_t clip = ADD(OP_CLIP_SCALE, "clip", &(struct op_attr){ .alpha = 1 }, s);
	ck_assert_fails(autodiff_gradients(&graph, clip, &x, 1, &arena, &g), TARN_EUNSUPPORTED,
			"clip: the op clip_scale has no derivative");
	uint32_t other = parameter("other", 3, 5, 0, 0);
	ck_assert_fails(autodiff_products(&graph, &y, &other, 1, &x, 1, &arena, &g), TARN_EINVAL,
			"other cannot be the gradient of y: shape or type is another");
}
END_TEST

/* Two outputs with gradients of their own, one of them zero; and of a tensor in the middle. */
START_TEST(products_of_any_tensors)
{
	uint32_t x = parameter("x", 3, 4, 0, 0), v = parameter("v", 3, 4, 0, 0), g[2];
	uint32_t y = ADD(OP_SCALE, "y", &(struct op_attr){ .alpha = 2 }, x);
	uint32_t z = ADD(OP_MULTIPLY, "z", NULL, y, y), wrt[2] = { x, y };
	ck_assert_ok(
		autodiff_products(&graph, (uint32_t[]){ z, y }, (uint32_t[]){ TENSOR_NONE, v }, 2, wrt, 2, &arena, g));
	ck_assert_int_eq((int)producer(g[0])->kind, OP_SCALE);
	ck_assert_uint_eq(input_of(g[0], 0), v);
	ck_assert_uint_eq(g[1], v);
	ck_assert_ok(autodiff_products(&graph, (uint32_t[]){ z, z }, (uint32_t[]){ v, v }, 2, &y, 1, &arena, g));
	check_same_shape(g[0], y);
	ck_assert_ok(graph_check(&graph));
}
END_TEST

/* x * stop(x) has the derivative stop(x), not 2 x; what only a stop leads to has none. */
START_TEST(stop_gradient_is_a_constant)
{
	uint32_t x = parameter("x", 3, 4, 0, 0), g;
	uint32_t stopped = ADD(OP_STOP_GRADIENT, "stopped", NULL, x);
	uint32_t loss = to_plain_loss(ADD(OP_MULTIPLY, "y", NULL, x, stopped));
	ck_assert_uint_eq(graph.tensor[stopped].storage, x);
	ck_assert_ok(autodiff_gradients(&graph, loss, &x, 1, &arena, &g));
	ck_assert_int_eq((int)producer(g)->kind, OP_MULTIPLY);
	ck_assert_uint_eq(input_of(g, 1), stopped);
	ck_assert_ok(autodiff_gradients(&graph, to_plain_loss(ADD(OP_SCALE, "z", NULL, stopped)), &x, 1, &arena, &g));
	ck_assert_uint_eq(g, TENSOR_NONE);
	ck_assert_ok(graph_check(&graph));
}
END_TEST

/* ---- rules ---- */

/* Gradients have the shape of what they belong to, for each transposition and with a fused activation. */
START_TEST(matmul_gradients)
{
	const struct op_attr attr = { .transpose_a = _i & 1,
				      .transpose_b = _i >> 1 & 1,
				      .activation = _i & 4 ? ACTIVATION_RELU : ACTIVATION_NONE };
	uint32_t wrt[3] = { attr.transpose_a ? parameter("a", 5, 3, 0, 0) : parameter("a", 3, 5, 0, 0),
			    attr.transpose_b ? parameter("b", 7, 5, 0, 0) : parameter("b", 5, 7, 0, 0),
			    parameter("bias", 7, 0, 0, 0) };
	uint32_t g[3];
	ck_assert_ok(autodiff_gradients(&graph, to_plain_loss(add(OP_MATMUL, "c", &attr, wrt, 3)), wrt, 3, &arena, g));
	for (int k = 0; k < 3; k++)
		check_same_shape(g[k], wrt[k]);
	ck_assert_uint_eq(count_kind(OP_ACTIVATION_GRAD), attr.activation ? 1 : 0);
	ck_assert_ok(graph_check(&graph));
}
END_TEST

/* A chain through most ops, differentiated with respect to everything on it. */
static uint32_t long_chain(uint32_t *wrt, uint32_t *count)
{
	struct op_attr attr = { .window = { { 3, 3 }, { 2, 1 }, { 1, 1 }, { 1, 0 }, { 1, 2 } }, .groups = 2 };
	uint32_t x = parameter("x", 2, 9, 8, 4), n = 0;
	wrt[n++] = x;
	wrt[n++] = parameter("w", 6, 2, 3, 3);
	attr.activation = ACTIVATION_RELU6;
	x = ADD(OP_CONV2D, "conv", &attr, x, wrt[1]); /* 2x5x8x6 */
	uint32_t c = wrt[n++] = parameter("gamma", 6, 0, 0, 0), d = wrt[n++] = parameter("beta", 6, 0, 0, 0), stats[2];
	ck_assert_ok(graph_add_op(&graph, OP_BATCH_STATS, PHASE_FORWARD, "stats", NULL, &x, 1, stats));
	attr = (struct op_attr){ .epsilon = 1e-5f, .activation = ACTIVATION_RELU };
	x = ADD(OP_BATCH_APPLY, "norm", &attr, x, stats[0], stats[1], c, d);
	attr = (struct op_attr){ .window = { { 2, 2 }, { 2, 2 }, { 1, 1 }, { 1, 0 }, { 0, 0 } } };
	x = ADD(OP_MAX_POOL, "max", &attr, x); /* 2x3x4x6 */
	attr.window = (struct window){ { 2, 2 }, { 1, 1 }, { 1, 1 }, { 0, 1 }, { 0, 1 } };
	x = ADD(OP_AVG_POOL, "avg", &attr, x); /* 2x2x5x6 */
	c = wrt[n++] = parameter("gamma2", 6, 0, 0, 0);
	d = wrt[n++] = parameter("beta2", 6, 0, 0, 0);
	attr = (struct op_attr){ .epsilon = 1e-5f };
	x = ADD(OP_LAYER_NORM, "layer_norm", &attr, x, c, d);
	attr = (struct op_attr){ .rate = 0.5f };
	x = ADD(OP_DROPOUT, "dropout", &attr, x, graph.scalars);
	attr = (struct op_attr){ .axis = 3 };
	x = ADD(OP_CONCAT, "concat", &attr, x, x, x); /* 2x2x5x18 */
	attr = (struct op_attr){ .axis = 2, .begin = 1, .extent = { 3 } };
	x = ADD(OP_SLICE, "slice", &attr, x); /* 2x2x3x18 */
	attr.extent[0] = 9;
	x = ADD(OP_PAD_AXIS, "pad", &attr, x); /* 2x2x9x18 */
	attr = (struct op_attr){ .rank = 4, .extent = { 2, 0, 3, 1 } };
	x = ADD(OP_PERMUTE, "permute", &attr, x); /* 9x2x18x2 */
	attr = (struct op_attr){ .rank = 2, .extent = { 18, 36 } };
	x = ADD(OP_RESHAPE, "reshape", &attr, x);
	attr = (struct op_attr){ .activation = ACTIVATION_GELU };
	x = ADD(OP_ACTIVATION, "gelu", &attr, x);
	attr = (struct op_attr){ .alpha = 2 };
	x = ADD(OP_SCALE, "scale", &attr, x);
	*count = n;
	return to_plain_loss(x);
}

START_TEST(chain_gradients)
{
	uint32_t wrt[8], g[8], count;
	uint32_t loss = long_chain(wrt, &count), forward = graph.ops;
	ck_assert_ok(autodiff_gradients(&graph, loss, wrt, count, &arena, g));
	ck_assert_ok(graph_check(&graph));
	for (uint32_t k = 0; k < count; k++) {
		ck_assert_uint_ne(g[k], TENSOR_NONE);
		check_same_shape(g[k], wrt[k]);
	}
	for (uint32_t op = 0; op < graph.ops; op++)
		ck_assert_uint_eq(graph.op[op].phase, op < forward ? PHASE_FORWARD : PHASE_BACKWARD);
	/* The inverse of the permutation 2 0 3 1 is 1 3 0 2. */
	uint32_t permuted = graph_find(&graph, "permute/gradient_input");
	const uint32_t inverse[4] = { 1, 3, 0, 2 };
	ck_assert_mem_eq(producer(permuted)->attr.extent, inverse, sizeof inverse);
	/* The derivative of a norm's activation is inside the norm's gradient. */
	ck_assert_uint_eq(graph_find(&graph, "norm/gradient_activation"), TENSOR_NONE);
	ck_assert_uint_ne(graph_find(&graph, "conv/gradient_activation"), TENSOR_NONE);
}
END_TEST

/* Only what is asked for is computed. */
START_TEST(chain_gradients_one_by_one)
{
	uint32_t wrt[8], g, count;
	uint32_t loss = long_chain(wrt, &count);
	ck_assert_int_lt(_i, 6);
	ck_assert_ok(autodiff_gradients(&graph, loss, &wrt[_i], 1, &arena, &g));
	ck_assert_ok(graph_check(&graph));
	check_same_shape(g, wrt[_i]);
	/* 0 x, 1 w, 2 gamma, 3 beta, 4 gamma2, 5 beta2 */
	ck_assert_uint_eq(count_kind(OP_CONV2D_GRAD_INPUT), _i == 0);
	ck_assert_uint_eq(count_kind(OP_CONV2D_GRAD_WEIGHT), _i == 1);
	ck_assert_uint_eq(count_kind(OP_BATCH_REDUCE), _i <= 3);
	ck_assert_uint_eq(count_kind(OP_BATCH_GRAD_INPUT), _i <= 1);
	ck_assert_uint_eq(count_kind(OP_LAYER_NORM_GRAD), _i <= 3);
	ck_assert_uint_eq(count_kind(OP_LAYER_NORM_GRAD_PARAM), _i >= 4);
}
END_TEST

START_TEST(running_statistics_have_no_gradient)
{
	uint32_t x = parameter("x", 6, 3, 0, 0), c = parameter("c", 3, 0, 0, 0), g;
	const uint32_t dim = 3;
	uint32_t mean, var;
	ck_assert_ok(graph_add_persistent(&graph, "mean", ROLE_RUNNING_STATISTIC, DTYPE_F32, &dim, 1, &mean));
	ck_assert_ok(graph_add_persistent(&graph, "var", ROLE_RUNNING_STATISTIC, DTYPE_F32, &dim, 1, &var));
	const struct op_attr attr = { .epsilon = 1e-5f };
	uint32_t loss = to_plain_loss(ADD(OP_BATCH_APPLY, "norm", &attr, x, mean, var, c, c));
	ck_assert_fails(autodiff_gradients(&graph, loss, &x, 1, &arena, &g), TARN_EUNSUPPORTED,
			"norm: the gradient of batch_apply with statistics that are not those of its own input");
}
END_TEST

/*
 * Gradients of gradients: convolutions, matrix products and piecewise linear activations close over themselves. The
 * second loss is the mean square of the first gradient.
 */
START_TEST(second_order)
{
	struct op_attr attr = { .window = { { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 } } };
	uint32_t wrt[3] = { parameter("x", 2, 6, 6, 3), parameter("w", 4, 3, 3, 3), parameter("v", 5, 36, 0, 0) };
	uint32_t g[3], h[3];
	uint32_t y = ADD(OP_CONV2D, "conv", &attr, wrt[0], wrt[1]);
	attr = (struct op_attr){ .activation = ACTIVATION_RELU };
	y = ADD(OP_ACTIVATION, "relu", &attr, y);
	attr = (struct op_attr){ .window = { { 2, 2 }, { 2, 2 }, { 1, 1 }, { 0, 0 }, { 0, 0 } } };
	y = ADD(OP_AVG_POOL, "pool", &attr, y);
	attr = (struct op_attr){ .rank = 2, .extent = { 2, 36 } };
	y = ADD(OP_RESHAPE, "flat", &attr, y);
	attr = (struct op_attr){ .transpose_b = 1 };
	y = ADD(OP_MATMUL, "dense", &attr, y, wrt[2]);
	/* A loss that is linear in y, so that its second derivative is not needed: column sums by a product with ones.
	 */
	attr = (struct op_attr){ .rank = 2, .extent = { 1, 2 }, .alpha = 1 };
	uint32_t left = add(OP_FILL, "left", &attr, NULL, 0);
	attr = (struct op_attr){ .rank = 2, .extent = { 5, 1 }, .alpha = 1 };
	uint32_t right = add(OP_FILL, "right", &attr, NULL, 0);
	y = ADD(OP_MATMUL, "sum", NULL, ADD(OP_MATMUL, "rows", NULL, left, y), right);
	attr = (struct op_attr){ .rank = 1, .extent = { 1 } };
	y = ADD(OP_RESHAPE, "linear", &attr, y);
	ck_assert_ok(autodiff_gradients(&graph, y, wrt, 3, &arena, g));
	ck_assert_ok(autodiff_gradients(&graph, to_plain_loss(g[1]), wrt, 3, &arena, h));
	ck_assert_ok(graph_check(&graph));
	check_same_shape(h[0], wrt[0]);
	ck_assert_uint_eq(h[1], TENSOR_NONE); /* the loss is linear in w where relu does not switch */
	check_same_shape(h[2], wrt[2]);
}
END_TEST

/* ---- optimizers ---- */

/* Two dense layers; the second layer's gradients are complete first. */
static void two_layers(uint32_t *wrt)
{
	uint32_t x = parameter("data", 6, 4, 0, 0);
	const struct op_attr attr = { .transpose_b = 1 };
	graph.tensor[x].flags = TENSOR_FROZEN;
	wrt[0] = parameter("a/weight", 5, 4, 0, 0);
	wrt[1] = parameter("a/bias", 5, 0, 0, 0);
	wrt[2] = parameter("b/weight", 3, 5, 0, 0);
	graph.tensor[wrt[1]].flags = TENSOR_NO_DECAY;
	uint32_t g[3];
	uint32_t y = ADD(OP_MATMUL, "a", &attr, x, wrt[0], wrt[1]);
	y = ADD(OP_MATMUL, "b", &attr, y, wrt[2]);
	uint32_t loss = to_plain_loss(y);
	ck_assert_ok(optimizer_add_state(&graph, &config));
	ck_assert_ok(autodiff_gradients(&graph, loss, wrt, 3, &arena, g));
	ck_assert_ok(optimizer_add_updates(&graph, &config, wrt, g, 3, &arena));
	ck_assert_ok(graph_check(&graph));
}

static const struct {
	enum optimizer_kind type;
	enum op_kind kind;
	uint32_t states;
	const char *first_state;
} methods[] = {
	{ OPTIMIZER_SGD, OP_SGD, 0, NULL },
	{ OPTIMIZER_MOMENTUM, OP_MOMENTUM, 1, "optimizer/a/weight/momentum" },
	{ OPTIMIZER_ADAM, OP_ADAM, 2, "optimizer/a/weight/m" },
	{ OPTIMIZER_ADAMW, OP_ADAM, 2, "optimizer/a/weight/m" },
	{ OPTIMIZER_LION, OP_LION, 1, "optimizer/a/weight/m" },
};

START_TEST(updates_follow_the_gradients)
{
	static const char *const order[] = { "b/weight/update", "a/weight/update", "a/bias/update" };
	uint32_t wrt[3], found = 0, states = 0;
	config.optimizer.type = methods[_i].type;
	config.optimizer.weight_decay = 0.01;
	config.optimizer.beta1 = 0.9;
	config.optimizer.beta2 = 0.999;
	config.optimizer.epsilon = 1e-8;
	two_layers(wrt);
	for (uint32_t op = 0; op < graph.ops; op++) {
		if (graph.op[op].kind != (uint32_t)methods[_i].kind)
			continue;
		ck_assert_str_eq(op_name(&graph, op), order[found]);
		const struct op_attr *attr = &graph.op[op].attr;
		ck_assert_float_eq(attr->weight_decay, found == 2 ? 0 : 0.01f);
		ck_assert_float_eq(attr->rate_scale, 1);
		ck_assert_uint_eq(attr->decoupled, methods[_i].type == OPTIMIZER_ADAMW);
		ck_assert_uint_eq(graph.op[op].phase, PHASE_UPDATE);
		ck_assert_uint_eq(op_inputs(&graph, op)[methods[_i].states + 2], graph.scalars);
		found++;
	}
	ck_assert_uint_eq(found, 3);
	for (uint32_t t = 0; t < graph.tensors; t++)
		states += graph.tensor[t].role == ROLE_OPTIMIZER_STATE && graph.tensor[t].producer == OP_NONE;
	ck_assert_uint_eq(states, 3 * methods[_i].states);
	if (methods[_i].first_state) {
		uint32_t state = graph_find(&graph, methods[_i].first_state);
		check_same_shape(state, wrt[0]);
		ck_assert_int_eq(graph.tensor[state].init, INIT_ZERO);
	}
}
END_TEST

/* Every update waits for the norm of all gradients. */
START_TEST(clipping_is_a_barrier)
{
	uint32_t wrt[3], clip = OP_NONE;
	config.optimizer.type = methods[_i].type;
	config.optimizer.epsilon = 1e-8;
	config.optimizer.clip_norm = 2.5;
	two_layers(wrt);
	for (uint32_t op = 0; op < graph.ops; op++) {
		const struct op *o = &graph.op[op];
		if (o->kind == OP_CLIP_SCALE) {
			clip = op;
			ck_assert_uint_eq(o->inputs, 3);
			ck_assert_float_eq(o->attr.alpha, 2.5f);
		}
		if (o->kind == (uint32_t)methods[_i].kind)
			ck_assert_uint_eq(op_inputs(&graph, op)[o->inputs - 1], op_outputs(&graph, clip)[0]);
	}
	ck_assert_uint_ne(clip, OP_NONE);
	ck_assert_uint_eq(count_kind(OP_SUM_SQUARES), 3);
	ck_assert_uint_eq(count_kind(OP_RECORD), 1);
	ck_assert_uint_ne(graph_find(&graph, "metric/gradient_norm"), TENSOR_NONE);
}
END_TEST

/* Random graphs of element-wise ops: the sweep never fails, gradients fit, and the same graph gives the same ops. */
START_TEST(random_graphs)
{
	struct testing_random random = { (uint64_t)_i };
	uint32_t node[40], count = 0, g[3], again[3];
	for (; count < 3; count++) {
		char name[8];
		snprintf(name, sizeof name, "p%u", count);
		node[count] = parameter(name, 4, 6, 0, 0);
	}
	while (count < 40) {
		uint32_t pair[2] = { node[testing_between(&random, 0, count - 1)],
				     node[testing_between(&random, 0, count - 1)] };
		const struct op_attr attr = { .activation = testing_between(&random, 1, ACTIVATIONS - 1) };
		uint32_t kind = testing_between(&random, 0, 2);
		node[count++] = kind == 0   ? add(OP_ADD, "add", NULL, pair, 2)
				: kind == 1 ? add(OP_MULTIPLY, "multiply", NULL, pair, 2)
					    : add(OP_ACTIVATION, "activation", &attr, pair, 1);
	}
	uint32_t loss = to_plain_loss(node[39]);
	struct graph copy;
	ck_assert_ok(graph_copy(&graph, &arena, &copy));
	ck_assert_ok(autodiff_gradients(&graph, loss, node, 3, &arena, g));
	ck_assert_msg(graph_check(&graph) == TARN_OK, "seed %d: %s", _i, tarn_error());
	for (int k = 0; k < 3; k++)
		if (g[k] != TENSOR_NONE)
			check_same_shape(g[k], node[k]);
	ck_assert_ok(autodiff_gradients(&copy, loss, node, 3, &arena, again));
	ck_assert_mem_eq(g, again, sizeof g);
	ck_assert_uint_eq(graph.ops, copy.ops);
	ck_assert_mem_eq(graph.op, copy.op, graph.ops * sizeof *graph.op);
	ck_assert_mem_eq(graph.operand, copy.operand, graph.operands * sizeof *graph.operand);
}
END_TEST

#define COUNT(array) (int)(sizeof array / sizeof array[0])

int main(void)
{
	Suite *suite = suite_create("autodiff");
	TCase *tc = tcase_create("autodiff");
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, sums_start_with_the_last_consumer);
	tcase_add_test(tc, gradients_of_slices_are_joined);
	tcase_add_test(tc, gradients_of_slices_with_gaps_and_overlaps);
	tcase_add_test(tc, gradients_of_many_small_products_are_joined);
	tcase_add_test(tc, sums_pass_one_gradient_on);
	tcase_add_test(tc, squares_have_two_partial_gradients);
	tcase_add_test(tc, what_the_loss_ignores_has_no_gradient);
	tcase_add_test(tc, errors_are_named);
	tcase_add_test(tc, products_of_any_tensors);
	tcase_add_test(tc, stop_gradient_is_a_constant);
	tcase_add_loop_test(tc, matmul_gradients, 0, 8);
	tcase_add_test(tc, chain_gradients);
	tcase_add_loop_test(tc, chain_gradients_one_by_one, 0, 6);
	tcase_add_test(tc, running_statistics_have_no_gradient);
	tcase_add_test(tc, second_order);
	tcase_add_loop_test(tc, updates_follow_the_gradients, 0, COUNT(methods));
	tcase_add_loop_test(tc, clipping_is_a_barrier, 0, COUNT(methods));
	tcase_add_loop_test(tc, random_graphs, 0, 100);
	suite_add_tcase(suite, tc);
	return testing_run(suite);
}
