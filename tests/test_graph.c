/*
 * test_graph.c - shape rules against values worked out by hand, storage and names, graph_check against each broken
 * invariant, and graphs with random damage.
 */
#include "graph/graph.h"
#include "graph/shape.h"
#include "support/testing.h"

#include <math.h>
#include <string.h>

static struct host_arena arena;
static struct graph graph;

static void setup(void)
{
	host_arena_init(&arena);
	ck_assert_ok(graph_init(&graph, &arena));
}

static void teardown(void)
{
	host_arena_fini(&arena);
}

/* A persistent tensor with up to four dimensions, 0 ends them. */
static uint32_t tensor(const char *name, enum tensor_role role, enum dtype dtype, uint32_t a, uint32_t b, uint32_t c,
		       uint32_t d)
{
	const uint32_t dim[4] = { a, b, c, d };
	uint32_t rank = 0, id;
	while (rank < 4 && dim[rank])
		rank++;
	ck_assert_ok(graph_add_persistent(&graph, name, role, dtype, dim, rank, &id));
	return id;
}

static uint32_t parameter(const char *name, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	return tensor(name, ROLE_PARAMETER, DTYPE_F32, a, b, c, d);
}

static struct window window(uint32_t kernel, uint32_t stride, uint32_t dilation, uint32_t padding)
{
	return (struct window){ .kernel = { kernel, kernel },
				.stride = { stride, stride },
				.dilation = { dilation, dilation },
				.pad_begin = { padding, padding },
				.pad_end = { padding, padding } };
}

static void check_shape(uint32_t id, const char *expected)
{
	char text[SHAPE_TEXT];
	const struct tensor *t = &graph.tensor[id];
	ck_assert_str_eq(shape_format(t->dim, t->rank, text, sizeof text), expected);
}

/* ---- shapes ---- */

static const struct {
	uint32_t height, width, channels; /* of the image; two images */
	uint32_t out, kernel, stride, dilation, padding, groups;
	const char *expected;
} convolutions[] = {
	{ 28, 28, 1, 32, 5, 1, 1, 2, 1, "2x28x28x32" },
	{ 32, 32, 16, 32, 3, 2, 1, 1, 1, "2x16x16x32" }, /* (32 + 2 - 3) / 2 + 1 = 16 */
	{ 32, 31, 16, 32, 1, 2, 1, 0, 1, "2x16x16x32" }, /* the last row is left out, the last column is not */
	{ 9, 7, 6, 4, 3, 1, 2, 0, 2, "2x5x3x4" },        /* a dilated 3 spans 5 */
	{ 5, 5, 8, 8, 5, 1, 1, 0, 8, "2x1x1x8" },        /* depthwise, the whole image */
	{ 4, 4, 3, 7, 3, 3, 1, 1, 1, "2x2x2x7" },
};

START_TEST(convolution_shapes)
{
	const struct op_attr attr = { .window = window(convolutions[_i].kernel, convolutions[_i].stride,
						       convolutions[_i].dilation, convolutions[_i].padding),
				      .groups = convolutions[_i].groups };
	uint32_t kernel = convolutions[_i].kernel, channels = convolutions[_i].channels;
	uint32_t x = parameter("x", 2, convolutions[_i].height, convolutions[_i].width, channels);
	uint32_t w = parameter("w", convolutions[_i].out, channels / attr.groups, kernel, kernel);
	uint32_t b = parameter("b", convolutions[_i].out, 0, 0, 0), y, dx, dw;
	ck_assert_ok(graph_add_op(&graph, OP_CONV2D, PHASE_FORWARD, "y", &attr, (uint32_t[]){ x, w, b }, 3, &y));
	check_shape(y, convolutions[_i].expected);
	/* The gradients have the shapes of what they are gradients of. */
	struct op_attr back = attr;
	back.extent[0] = convolutions[_i].height;
	back.extent[1] = convolutions[_i].width;
	ck_assert_ok(
		graph_add_op(&graph, OP_CONV2D_GRAD_INPUT, PHASE_BACKWARD, "dx", &back, (uint32_t[]){ y, w }, 2, &dx));
	ck_assert_ok(
		graph_add_op(&graph, OP_CONV2D_GRAD_WEIGHT, PHASE_BACKWARD, "dw", &attr, (uint32_t[]){ x, y }, 2, &dw));
	ck_assert_mem_eq(graph.tensor[dx].dim, graph.tensor[x].dim, sizeof graph.tensor[x].dim);
	ck_assert_mem_eq(graph.tensor[dw].dim, graph.tensor[w].dim, sizeof graph.tensor[w].dim);
	ck_assert_int_eq(graph.tensor[dx].role, ROLE_GRADIENT);
	ck_assert_ok(graph_check(&graph));
}
END_TEST

START_TEST(matmul_shapes)
{
	static const struct {
		uint32_t a[2], b[2], transpose_a, transpose_b;
	} cases[] = { { { 3, 5 }, { 5, 7 }, 0, 0 },
		      { { 5, 3 }, { 5, 7 }, 1, 0 },
		      { { 3, 5 }, { 7, 5 }, 0, 1 },
		      { { 5, 3 }, { 7, 5 }, 1, 1 } };
	const struct op_attr attr = { .transpose_a = cases[_i].transpose_a, .transpose_b = cases[_i].transpose_b };
	uint32_t input[3] = { parameter("a", cases[_i].a[0], cases[_i].a[1], 0, 0),
			      parameter("b", cases[_i].b[0], cases[_i].b[1], 0, 0), parameter("bias", 7, 0, 0, 0) };
	uint32_t c;
	ck_assert_ok(graph_add_op(&graph, OP_MATMUL, PHASE_FORWARD, "c", &attr, input, 3, &c));
	check_shape(c, "3x7");
	ck_assert_uint_eq(op_flops(&graph, 0), 2 * 3 * 5 * 7);
	ck_assert_uint_eq(op_traffic_bytes(&graph, 0), 4 * (15 + 35 + 7 + 21));
}
END_TEST

START_TEST(pool_norm_and_move_shapes)
{
	uint32_t x = parameter("x", 2, 7, 6, 4), c = parameter("c", 4, 0, 0, 0), y[3];
	struct op_attr attr = { .window = window(3, 2, 1, 1) };
	ck_assert_ok(graph_add_op(&graph, OP_MAX_POOL, PHASE_FORWARD, "pool", &attr, &x, 1, y));
	check_shape(y[0], "2x4x3x4");
	check_shape(y[1], "2x4x3x4");
	ck_assert_int_eq(graph.tensor[y[1]].dtype, DTYPE_U8);
	ck_assert_str_eq(tensor_name(&graph, y[1]), "pool:1");
	ck_assert_uint_eq(graph.tensor[y[1]].bytes, 96);
	attr = (struct op_attr){ .epsilon = 1e-5f };
	ck_assert_ok(graph_add_op(&graph, OP_LAYER_NORM, PHASE_FORWARD, "norm", &attr, (uint32_t[]){ x, c, c }, 3, y));
	check_shape(y[0], "2x7x6x4");
	check_shape(y[1], "84");
	attr = (struct op_attr){ .axis = 3 };
	ck_assert_ok(graph_add_op(&graph, OP_CONCAT, PHASE_FORWARD, "cat", &attr, (uint32_t[]){ x, x, x }, 3, y));
	check_shape(y[0], "2x7x6x12");
	attr = (struct op_attr){ .axis = 1, .begin = 2, .extent = { 5 } };
	ck_assert_ok(graph_add_op(&graph, OP_SLICE, PHASE_FORWARD, "slice", &attr, &x, 1, y));
	check_shape(y[0], "2x5x6x4");
	attr.extent[0] = 9;
	ck_assert_ok(graph_add_op(&graph, OP_PAD_AXIS, PHASE_FORWARD, "pad", &attr, &x, 1, y));
	check_shape(y[0], "2x9x6x4");
	attr = (struct op_attr){ .rank = 4, .extent = { 0, 3, 1, 2 } };
	ck_assert_ok(graph_add_op(&graph, OP_PERMUTE, PHASE_FORWARD, "permute", &attr, &x, 1, y));
	check_shape(y[0], "2x4x7x6");
	ck_assert_ok(graph_check(&graph));
}
END_TEST

/* Views of views share the first tensor's storage; versions share that of the persistent tensor. */
START_TEST(storage_of_views_and_versions)
{
	uint32_t x = parameter("x", 2, 6, 0, 0), g = parameter("g", 2, 6, 0, 0);
	uint32_t scalars = tensor("scalars", ROLE_SCALARS, DTYPE_U8, sizeof(struct step_scalars), 0, 0, 0);
	struct op_attr attr = { .rank = 2, .extent = { 3, 4 } };
	uint32_t y, z, w, v;
	ck_assert_ok(graph_add_op(&graph, OP_SCALE, PHASE_FORWARD, "y", NULL, &x, 1, &y));
	ck_assert_ok(graph_add_op(&graph, OP_RESHAPE, PHASE_FORWARD, "z", &attr, &y, 1, &z));
	ck_assert_ok(graph_add_op(&graph, OP_RESHAPE, PHASE_FORWARD, "w", &attr, &z, 1, &w));
	ck_assert_uint_eq(graph.tensor[z].storage, y);
	ck_assert_uint_eq(graph.tensor[w].storage, y);
	attr = (struct op_attr){ .rate_scale = 1 };
	ck_assert_ok(graph_add_op(&graph, OP_SGD, PHASE_UPDATE, "update", &attr, (uint32_t[]){ x, g, scalars }, 3, &v));
	ck_assert_uint_eq(graph.tensor[v].storage, x);
	ck_assert_int_eq(graph.tensor[v].role, ROLE_PARAMETER);
	ck_assert_str_eq(tensor_name(&graph, v), "version of x");
	ck_assert_ok(graph_check(&graph));
	/* A version is for the next step only, and comes once. */
	ck_assert_ok(graph_add_op(&graph, OP_SCALE, PHASE_FORWARD, "again", NULL, &v, 1, &y));
	ck_assert_fails(graph_check(&graph), TARN_EFORMAT, "only the next step may read");
	ck_assert_fails(
		graph_add_op(&graph, OP_SGD, PHASE_UPDATE, "update", &attr, (uint32_t[]){ y, g, scalars }, 3, &v),
		TARN_EINVAL, "not persistent");
}
END_TEST

START_TEST(names_are_unique_and_found)
{
	uint32_t x = parameter("x", 4, 0, 0, 0), y, id;
	const uint32_t dim = 4;
	for (int i = 0; i < 300; i++)
		ck_assert_ok(graph_add_op(&graph, OP_SCALE, PHASE_FORWARD, "x", NULL, &x, 1, &y));
	ck_assert_uint_eq(graph_find(&graph, "x"), x);
	ck_assert_uint_eq(graph_find(&graph, "x#301"), y);
	ck_assert_uint_eq(graph_find(&graph, "x#302"), TENSOR_NONE);
	ck_assert_fails(graph_add_persistent(&graph, "x#7", ROLE_PARAMETER, DTYPE_F32, &dim, 1, &id), TARN_EINVAL,
			"x#7: the name is taken");
	ck_assert_ok(graph_check(&graph));
	struct graph copy, mapped;
	ck_assert_ok(graph_copy(&graph, &arena, &copy));
	ck_assert_ok(graph_check(&copy));
	ck_assert_uint_eq(graph_find(&copy, "x#301"), y);
	ck_assert_ok(graph_add_op(&copy, OP_SCALE, PHASE_FORWARD, "x", NULL, &x, 1, &id));
	ck_assert_uint_eq(graph_find(&copy, "x#302"), id);
	ck_assert_uint_eq(graph_find(&graph, "x#302"), TENSOR_NONE);
	/* As a file has it: arrays without an index. */
	mapped = graph;
	mapped.name_index = NULL;
	ck_assert_uint_eq(graph_find(&mapped, "x#301"), y);
}
END_TEST

/* ---- misuse ---- */

struct misuse {
	enum op_kind kind;
	struct op_attr attr;
	uint32_t dim[3][4]; /* of the inputs */
	uint32_t inputs;
	const char *sentence;
};

#define IMAGE              \
	{                  \
		2, 8, 8, 4 \
	}
#define WINDOW(k, s, d, p) .window = { { k, k }, { s, s }, { d, d }, { p, p }, { p, p } }

#define NO_ATTR             \
	{                   \
		.groups = 0 \
	}

static const struct misuse misuses[] = {
	{ OP_MATMUL,
	  NO_ATTR,
	  { { 3, 5 }, { 4, 7 } },
	  2,
	  "op: matmul: 3x5 times 4x7: the inner dimensions 5 and 4 differ" },
	{ OP_MATMUL, NO_ATTR, { { 3, 5 }, { 5, 7 }, { 3 } }, 3, "has the shape 3, needed is 7" },
	{ OP_MATMUL, { .activation = ACTIVATION_GELU }, { { 3, 5 }, { 5, 7 } }, 2, "only none, relu and relu6" },
	{ OP_MATMUL, { .transpose_a = 2 }, { { 3, 5 }, { 5, 7 } }, 2, "transpose must be 0 or 1" },
	{ OP_MATMUL, NO_ATTR, { { 3, 5 } }, 1, "1 inputs, needed are 2 to 3" },
	{ OP_CONV2D,
	  { WINDOW(3, 0, 1, 0) },
	  { IMAGE, { 5, 4, 3, 3 } },
	  2,
	  "stride and dilation of the height must be" },
	{ OP_CONV2D,
	  { WINDOW(3, 1, 4, 0) },
	  { IMAGE, { 5, 4, 3, 3 } },
	  2,
	  "spans 9 is larger than the padded height of 8" },
	{ OP_CONV2D,
	  { WINDOW(3, 1, 1, 0) },
	  { IMAGE, { 5, 3, 3, 3 } },
	  2,
	  "4 channels in 1 groups, the weights are for 3" },
	{ OP_CONV2D,
	  { WINDOW(3, 1, 1, 0), .groups = 3 },
	  { IMAGE, { 6, 1, 3, 3 } },
	  2,
	  "4 input channels cannot be divided" },
	{ OP_CONV2D,
	  { WINDOW(3, 1, 1, 0), .groups = 2 },
	  { IMAGE, { 5, 2, 3, 3 } },
	  2,
	  "5 output channels cannot be divided" },
	{ OP_CONV2D,
	  { WINDOW(3, 1, 1, 0) },
	  { IMAGE, { 5, 4, 5, 5 } },
	  2,
	  "weights of 5x5 do not fit the kernel of 3x3" },
	{ OP_CONV2D,
	  { WINDOW(3, 1, 1, 0) },
	  { { 2, 8 }, { 5, 4, 3, 3 } },
	  2,
	  "the shape 2x8, needed is an image NxHxWxC" },
	{ OP_CONV2D_GRAD_INPUT,
	  { WINDOW(3, 1, 1, 1), .extent = { 9, 8 } },
	  { { 2, 8, 8, 5 }, { 5, 4, 3, 3 } },
	  2,
	  "is 8x8 in height and width, a 9x8 image gives 9x8" },
	{ OP_CONV2D_GRAD_INPUT,
	  { WINDOW(3, 1, 1, 1), .extent = { 8, 8 } },
	  { { 2, 8, 8, 6 }, { 5, 4, 3, 3 } },
	  2,
	  "the gradient has 6 channels, the weights give 5" },
	{ OP_MAX_POOL,
	  { WINDOW(2, 2, 1, 2) },
	  { IMAGE },
	  1,
	  "padding of 2 and 2 must be smaller than the kernel of 2" },
	{ OP_MAX_POOL, { WINDOW(2, 2, 2, 0) }, { IMAGE }, 1, "dilation is 2, pooling knows only 1" },
	{ OP_MAX_POOL, { WINDOW(17, 1, 1, 8) }, { IMAGE }, 1, "more than 256 elements" },
	{ OP_AVG_POOL, { WINDOW(9, 1, 1, 0) }, { IMAGE }, 1, "spans 9 is larger than the padded height of 8" },
	{ OP_ACTIVATION, NO_ATTR, { IMAGE }, 1, "activation 0 is not one" },
	{ OP_ACTIVATION, { .activation = ACTIVATIONS }, { IMAGE }, 1, "is not one" },
	{ OP_ACTIVATION, { .activation = ACTIVATION_ELU, .alpha = NAN }, { IMAGE }, 1, "finite" },
	{ OP_MULTIPLY, { .activation = ACTIVATION_RELU }, { IMAGE, IMAGE }, 2, "cannot be part of this op" },
	{ OP_ADD, NO_ATTR, { IMAGE, { 2, 8, 8, 5 } }, 2, "has the shape 2x8x8x5, needed is 2x8x8x4" },
	{ OP_CONCAT, { .axis = 4 }, { IMAGE, IMAGE }, 2, "axis 4 of a tensor with 4 dimensions" },
	{ OP_CONCAT, { .axis = 3 }, { IMAGE, { 2, 8, 7, 4 } }, 2, "except along axis 3" },
	{ OP_CONCAT, { .axis = 1 }, { { 1, 4000000000u }, { 1, 4000000000u } }, 2, "longer than 4294967295" },
	{ OP_SLICE, { .axis = 1, .begin = 6, .extent = { 3 } }, { IMAGE }, 1, "elements 6 to 9 of an axis of 8" },
	{ OP_SLICE, { .axis = 1, .begin = 4294967295u, .extent = { 4294967295u } }, { IMAGE }, 1, "of an axis of 8" },
	{ OP_SLICE, { .axis = 1 }, { IMAGE }, 1, "elements 0 to 0" },
	{ OP_PAD_AXIS, { .axis = 2, .begin = 1, .extent = { 8 } }, { IMAGE }, 1, "8 elements from 1 on do not fit" },
	{ OP_RESHAPE, { .rank = 2, .extent = { 2, 255 } }, { IMAGE }, 1, "2x8x8x4 has 512 elements, 2x255 has 510" },
	{ OP_RESHAPE, { .rank = 7 }, { IMAGE }, 1, "7 dimensions, at most 6" },
	{ OP_PERMUTE, { .rank = 4, .extent = { 0, 1, 1, 3 } }, { IMAGE }, 1, "axis 1 is named twice" },
	{ OP_PERMUTE, { .rank = 4, .extent = { 0, 1, 2, 4 } }, { IMAGE }, 1, "axis 4 is named twice or does not" },
	{ OP_PERMUTE, { .rank = 3 }, { IMAGE }, 1, "3 axes are named, the tensor has 4" },
	{ OP_FILL, { .rank = 1 }, { { 0 } }, 0, "zero dimension" },
	{ OP_FILL, { .rank = 2, .extent = { 4294967295u, 4294967295u } }, { { 0 } }, 0, "larger than 2^62 bytes" },
	{ OP_BATCH_STATS, NO_ATTR, { { 8 } }, 1, "at least 2 dimensions" },
	{ OP_SUM_ROWS, NO_ATTR, { { 8 } }, 1, "at least 2 dimensions" },
	{ OP_MEAN_SQUARED_ERROR, NO_ATTR, { { 8, 2 }, { 8, 3 } }, 2, "needed is 8x2" },
	{ OP_SOFTMAX_CROSS_ENTROPY, NO_ATTR, { { 8, 2 }, { 8 } }, 2, "holds f32, needed is i32" },
	{ OP_CLIP_SCALE, { .alpha = 0 }, { { 1 } }, 1, "must be larger than 0" },
	{ OP_BATCH_MATMUL, NO_ATTR, { { 2, 3 }, { 3, 4 } }, 2, "at least 3 dimensions and the same leading ones" },
	{ OP_BATCH_MATMUL, NO_ATTR, { { 2, 3, 4 }, { 2, 3, 4 } }, 2, "the inner dimensions 4 and 3 differ" },
	{ OP_ADD_BROADCAST, NO_ATTR, { { 2, 3, 4 }, { 2, 4 } }, 2, "the second shape must be the end of the first" },
	{ OP_BROADCAST_ROWS, { .rank = 2, .extent = { 5, 3 } }, { { 4 } }, 1, "4 cannot be repeated to 5x3" },
	{ OP_BROADCAST_ROWS, { .rank = 7 }, { { 4 } }, 1, "7 dimensions, at most 6" },
	{ OP_EMBEDDING, NO_ATTR, { { 5, 4 }, { 3 } }, 2, "holds f32, needed is i32" },
	{ OP_EMBEDDING_GRAD, NO_ATTR, { { 3, 4 }, { 3 } }, 2, "holds f32, needed is i32" },
	{ OP_SOFTMAX, { .causal = 1 }, { { 5, 4 } }, 1, "causal with 5 rows and 4 columns" },
	{ OP_SOFTMAX, { .alpha = INFINITY }, { { 5, 4 } }, 1, "finite" },
	{ OP_LOG_SOFTMAX_GRAD, NO_ATTR, { { 5, 4 }, { 5, 3 } }, 2, "needed is 5x4" },
	{ OP_ATTENTION,
	  NO_ATTR,
	  { { 2, 5, 4, 8 }, { 2, 5, 3, 8 }, { 2, 5, 3, 8 } },
	  3,
	  "4 heads cannot be divided among 3" },
	{ OP_ATTENTION,
	  NO_ATTR,
	  { { 2, 5, 4, 8 }, { 2, 5, 4, 6 }, { 2, 5, 4, 6 } },
	  3,
	  "heads of 8, keys for 2 and 6" },
	{ OP_ATTENTION,
	  { .causal = 2 },
	  { { 2, 5, 4, 8 }, { 2, 5, 4, 8 }, { 2, 5, 4, 8 } },
	  3,
	  "causal must be 0 or 1" },
	{ OP_ATTENTION, NO_ATTR, { { 2, 5, 4 }, { 2, 5, 4 }, { 2, 5, 4 } }, 3, "needed is BxTxHxD" },
	{ OP_ROTARY, { .alpha = 10000 }, { { 2, 5, 4, 7 } }, 1, "heads of 7 elements have no pairs" },
	{ OP_ROTARY, NO_ATTR, { { 2, 5, 4, 8 } }, 1, "the base, is 0, it must be larger than 0" },
	{ OP_RMS_NORM, { .epsilon = 1e-5f }, { { 5, 4 }, { 5 } }, 2, "needed is 4" },
	{ OP_GATE, { .activation = ACTIVATION_SILU }, { { 5, 7 } }, 1, "7 channels have no two halves" },
	{ OP_GATE, { .activation = ACTIVATION_RELU }, { { 5, 8 } }, 1, "activation relu cannot be part of this gate" },
	{ OP_GATE, { .mode = GATE_MODES }, { { 5, 8 } }, 1, "mode 3 is none of the 3" },
	{ OP_GATE_GRAD, { .mode = GATE_TANH }, { { 5, 3 }, { 5, 8 } }, 2, "needed is 5x4" },
	{ OP_LSTM_CELL, NO_ATTR, { { 5, 12 }, { 5, 4 } }, 2, "for a state of 5x4 they are 5x16" },
	{ OP_GRU_CELL, NO_ATTR, { { 5, 12 }, { 5, 16 }, { 5, 4 } }, 3, "gates have the shape 5x16" },
	{ OP_EXPONENTIAL_AVERAGE, { .alpha = 2 }, { { 5 }, { 5 } }, 2, "the decay, is 2, it must be from 0 to 1" },
	{ OP_CAST, NO_ATTR, { { 5 } }, 1, "f32 to f32 is no cast" },
	{ OP_CAST, { .mode = DTYPE_I32 }, { { 5 } }, 1, "f32 to i32 is no cast" },
	{ OP_MATMUL,
	  { .mode = DTYPE_BF16 },
	  { { 3, 5 }, { 5, 7 } },
	  2,
	  "the result cannot be bf16 where numbers are stored as f32" },
	{ OP_FILL, { .rank = 1, .extent = { 3 }, .mode = DTYPE_U64 }, { { 0 } }, 0, "the result cannot be u64" },
	{ OP_KINDS, NO_ATTR, { { 0 } }, 0, "unknown kind" },
};

START_TEST(misuse_is_named)
{
	const struct misuse *m = &misuses[_i];
	static const char *const name[] = { "x0", "x1", "x2" };
	uint32_t input[3], out[OP_MAX_OUTPUTS];
	for (uint32_t i = 0; i < m->inputs; i++)
		input[i] = parameter(name[i], m->dim[i][0], m->dim[i][1], m->dim[i][2], m->dim[i][3]);
	uint32_t tensors = graph.tensors;
	ck_assert_fails(graph_add_op(&graph, m->kind, PHASE_FORWARD, "op", &m->attr, input, m->inputs, out),
			TARN_EINVAL, m->sentence);
	ck_assert_uint_eq(graph.tensors, tensors);
	ck_assert_uint_eq(graph.ops, 0);
}
END_TEST

START_TEST(sizes_are_bounded)
{
	const uint32_t zero[2] = { 4, 0 }, huge[3] = { 4294967295u, 4294967295u, 2 }, six[7] = { 1, 1, 1, 1, 1, 1, 1 };
	uint32_t id;
	ck_assert_fails(graph_add_persistent(&graph, "zero", ROLE_PARAMETER, DTYPE_F32, zero, 2, &id), TARN_EINVAL,
			"zero: the shape 4x0 has a zero dimension");
	ck_assert_fails(graph_add_persistent(&graph, "huge", ROLE_PARAMETER, DTYPE_F32, huge, 3, &id), TARN_EINVAL,
			"larger than 2^62 bytes");
	ck_assert_fails(graph_add_persistent(&graph, "deep", ROLE_PARAMETER, DTYPE_F32, six, 7, &id), TARN_EINVAL,
			"7 dimensions");
	ck_assert_ok(graph_add_persistent(&graph, "six", ROLE_PARAMETER, DTYPE_F32, six, 6, &id));
	ck_assert_ok(graph_add_persistent(&graph, "scalar", ROLE_PARAMETER, DTYPE_F32, NULL, 0, &id));
	ck_assert_uint_eq(graph.tensor[id].bytes, 4);
}
END_TEST

/* ---- graph_check ---- */

/* Where rows lie together and aligned a slice may be a view: offsets add up through views, in bytes of the root. */
START_TEST(views_of_a_part)
{
	uint32_t x = parameter("x", 6, 4, 16, 0), y, part, flat, inner;
	struct op_attr attr = { .begin = 2, .extent = { 3 } };
	ck_assert_ok(graph_add_op(&graph, OP_SCALE, PHASE_FORWARD, "y", NULL, &x, 1, &y));
	ck_assert_int_eq(slice_kind(&graph, y, &attr), OP_SLICE_VIEW);
	ck_assert_ok(graph_add_op(&graph, OP_SLICE_VIEW, PHASE_FORWARD, "part", &attr, &y, 1, &part));
	attr = (struct op_attr){ .rank = 3, .extent = { 1, 12, 16 } };
	ck_assert_ok(graph_add_op(&graph, OP_RESHAPE, PHASE_FORWARD, "flat", &attr, &part, 1, &flat));
	attr = (struct op_attr){ .axis = 1, .begin = 5, .extent = { 1 } };
	ck_assert_ok(graph_add_op(&graph, OP_SLICE_VIEW, PHASE_FORWARD, "inner", &attr, &flat, 1, &inner));
	ck_assert_uint_eq(graph.tensor[inner].storage, y);
	ck_assert_uint_eq(tensor_offset(&graph, y), 0);
	ck_assert_uint_eq(tensor_offset(&graph, flat), 2 * 4 * 16 * 4);
	ck_assert_uint_eq(tensor_offset(&graph, inner), (2 * 4 + 5) * 16 * 4);
	ck_assert_uint_eq(op_traffic_bytes(&graph, graph.ops - 1), 0);
	ck_assert_ok(graph_check(&graph));
	/* Behind a longer axis the elements do not lie together; half a line is not aligned. */
	attr = (struct op_attr){ .axis = 1, .extent = { 2 } };
	ck_assert_int_eq(slice_kind(&graph, y, &attr), OP_SLICE);
	ck_assert_fails(graph_add_op(&graph, OP_SLICE_VIEW, PHASE_FORWARD, "bad", &attr, &y, 1, &part), TARN_EINVAL,
			"elements 0 on of axis 1 do not lie together");
	uint32_t narrow = parameter("narrow", 6, 8, 0, 0);
	attr = (struct op_attr){ .begin = 1, .extent = { 2 } };
	ck_assert_int_eq(slice_kind(&graph, narrow, &attr), OP_SLICE);
	attr.begin = 2;
	ck_assert_int_eq(slice_kind(&graph, narrow, &attr), OP_SLICE_VIEW);
	attr.extent[0] = 5;
	ck_assert_fails(graph_add_op(&graph, OP_SLICE_VIEW, PHASE_FORWARD, "long", &attr, &narrow, 1, &part),
			TARN_EINVAL, "elements 2 to 7 of an axis of 6");
}
END_TEST

/* A small graph with every kind of storage; the damages below each break one thing. */
static void small_graph(void)
{
	uint32_t x = parameter("x", 2, 3, 0, 0), scalars, y[3], v;
	struct op_attr attr = { .rank = 1, .extent = { 6 } };
	scalars = tensor("scalars", ROLE_SCALARS, DTYPE_U8, sizeof(struct step_scalars), 0, 0, 0);
	graph.scalars = scalars;
	ck_assert_ok(graph_add_op(&graph, OP_SCALE, PHASE_FORWARD, "y", NULL, &x, 1, &y[0]));
	ck_assert_ok(graph_add_op(&graph, OP_RESHAPE, PHASE_FORWARD, "view", &attr, &y[0], 1, &y[1]));
	ck_assert_ok(graph_add_op(&graph, OP_ADD, PHASE_BACKWARD, "z", NULL, (uint32_t[]){ x, y[0] }, 2, &y[2]));
	attr = (struct op_attr){ .rate_scale = 1 };
	ck_assert_ok(graph_add_op(&graph, OP_SGD, PHASE_UPDATE, "u", &attr, (uint32_t[]){ x, y[2], scalars }, 3, &v));
	ck_assert_ok(graph_check(&graph));
}

static void swap_ops(struct graph *g)
{
	/* The view before what it is a view of; operands stay where they are. */
	struct op first = g->op[0];
	g->op[0].kind = g->op[1].kind;
	g->op[0].attr = g->op[1].attr;
	g->op[1].kind = first.kind;
	g->operand[0] = graph_find(g, "y");
}

static void two_writers(struct graph *g)
{
	struct op_attr attr = { .rate_scale = 1 };
	uint32_t input[3] = { 0, graph_find(g, "z"), g->scalars }, v;
	ck_assert_ok(graph_add_op(g, OP_SGD, PHASE_UPDATE, "u2", &attr, input, 3, &v));
}

#define DAMAGE(name, statement)           \
	static void name(struct graph *g) \
	{                                 \
		statement;                \
	}
DAMAGE(text_end, g->text[g->text_bytes - 1] = 'x')
DAMAGE(tensor_name_out, g->tensor[2].name = g->text_bytes)
DAMAGE(op_name_out, g->op[1].name = UINT32_MAX)
DAMAGE(same_name, g->tensor[3].name = g->tensor[2].name)
DAMAGE(rank, g->tensor[2].rank = 7)
DAMAGE(type, g->tensor[2].dtype = DTYPES)
DAMAGE(role, g->tensor[2].role = ROLES)
DAMAGE(zero_dim, g->tensor[2].dim[1] = 0)
DAMAGE(dimension, g->tensor[2].dim[1] = 4; g->tensor[2].bytes = 32)
DAMAGE(bytes, g->tensor[2].bytes++)
DAMAGE(storage_out, g->tensor[2].storage = g->tensors)
DAMAGE(producer_out, g->tensor[2].producer = g->ops)
DAMAGE(producer_none, g->tensor[2].producer = OP_NONE)
DAMAGE(producer_given, g->tensor[0].producer = 3)
DAMAGE(producer_other, g->tensor[2].producer = 1)
DAMAGE(view_storage, g->tensor[3].storage = 3)
DAMAGE(own_storage, g->tensor[4].storage = 2)
DAMAGE(version_storage, g->tensor[5].storage = 5)
DAMAGE(version_role, g->tensor[5].role = ROLE_ACTIVATION)
DAMAGE(activation_role, g->tensor[2].role = ROLE_PARAMETER)
DAMAGE(kind, g->op[0].kind = OP_KINDS)
DAMAGE(phase, g->op[0].phase = 3)
DAMAGE(inputs, g->op[3].inputs = UINT32_MAX)
DAMAGE(outputs, g->op[3].outputs = 2)
DAMAGE(first_operand, g->op[1].first_operand = 0)
DAMAGE(operand_out, g->operand[0] = g->tensors)
DAMAGE(attribute, g->op[3].attr.weight_decay = NAN)
DAMAGE(scalars_other, g->scalars = 0)
DAMAGE(scalars_out, g->scalars = 99)

static const struct {
	void (*damage)(struct graph *g);
	const char *sentence;
} damages[] = {
	{ text_end, "do not end with a zero byte" },
	{ tensor_name_out, "lies outside the names" },
	{ op_name_out, "lies outside the names" },
	{ same_name, "two tensors are named y" },
	{ rank, "rank 7" },
	{ type, "are not known" },
	{ role, "are not known" },
	{ zero_dim, "zero dimension" },
	{ dimension, "does not have the shape that its op gives" },
	{ bytes, "25 bytes, its shape needs 24" },
	{ storage_out, "does not exist" },
	{ producer_out, "does not exist" },
	{ producer_none, "has no producer and is not persistent" },
	{ producer_given, "before it is produced" },
	{ producer_other, "writes y, which op 1 produces" },
	{ view_storage, "lies in the storage of tensor 3, expected is 2" },
	{ own_storage, "lies in the storage of tensor 2, expected is 4" },
	{ version_storage, "lies in the storage of tensor 5, expected is 0" },
	{ version_role, "has the role activation" },
	{ activation_role, "has the role parameter" },
	{ kind, "is not known" },
	{ phase, "is not known" },
	{ inputs, "operands in all" },
	{ outputs, "operands in all" },
	{ first_operand, "operands in all" },
	{ operand_out, "does not exist" },
	{ attribute, "weight_decay is" },
	{ scalars_other, "is not the parameter block" },
	{ scalars_out, "is not the parameter block" },
	{ swap_ops, "before it is produced" },
	{ two_writers, "two ops write a new version of x" },
};

START_TEST(check_finds_each_damage)
{
	small_graph();
	damages[_i].damage(&graph);
	ck_assert_fails(graph_check(&graph), TARN_EFORMAT, damages[_i].sentence);
}
END_TEST

/* Whatever bytes of the arrays change, the check ends with a verdict and touches nothing outside (for sanitizers). */
START_TEST(check_survives_random_damage)
{
	struct testing_random random = { (uint64_t)_i };
	small_graph();
	for (int round = 0; round < 400; round++) {
		struct graph copy;
		struct host_mark mark = host_arena_mark(&arena);
		ck_assert_ok(graph_copy(&graph, &arena, &copy));
		for (uint32_t n = testing_between(&random, 1, 4); n > 0; n--) {
			struct {
				unsigned char *data;
				size_t bytes;
			} array[4] = { { (unsigned char *)copy.tensor, copy.tensors * sizeof *copy.tensor },
				       { (unsigned char *)copy.op, copy.ops * sizeof *copy.op },
				       { (unsigned char *)copy.operand, copy.operands * sizeof *copy.operand },
				       { (unsigned char *)copy.text, copy.text_bytes } };
			uint32_t a = testing_between(&random, 0, 3);
			uint32_t at = testing_between(&random, 0, (uint32_t)array[a].bytes - 1);
			static const unsigned char extreme[] = { 0, 1, 0x7F, 0x80, 0xFF };
			array[a].data[at] = extreme[testing_between(&random, 0, 4)];
		}
		copy.name_index = NULL;
		enum tarn_status st = graph_check(&copy);
		ck_assert_msg(st == TARN_OK || st == TARN_EFORMAT, "seed %d round %d: status %d: %s", _i, round, st,
			      tarn_error());
		host_arena_release(&arena, mark);
	}
}
END_TEST

/* The table is complete and consistent with the rules. */
START_TEST(table_is_complete)
{
	for (int kind = 0; kind < OP_KINDS; kind++) {
		const struct op_row *row = op_row((enum op_kind)kind);
		ck_assert_msg(row && row->name && row->outputs >= 1 && row->outputs <= OP_MAX_OUTPUTS, "kind %d", kind);
		ck_assert_msg(row->min_inputs <= row->max_inputs, "%s", row->name);
		for (uint32_t k = 0; k < 3; k++) {
			ck_assert_msg(row->version_of[k] < row->min_inputs, "%s", row->name);
			ck_assert_msg(row->version_of[k] < 0 || (row->effect && k < row->outputs), "%s", row->name);
		}
		ck_assert_msg(!(row->in_place >> row->min_inputs), "%s", row->name);
	}
	ck_assert_ptr_null(op_row(OP_KINDS));
	for (int a = 0; a < ACTIVATIONS; a++)
		ck_assert_ptr_nonnull(activation_name((enum activation)a));
	ck_assert(activation_grad_reads_output(ACTIVATION_ELU) && !activation_grad_reads_output(ACTIVATION_GELU));
}
END_TEST

/* Whichever request for memory fails, the status says so. */
START_TEST(no_memory_is_reported)
{
	for (uint64_t n = 1;; n++) {
		struct host_arena small;
		struct graph g;
		const uint32_t dim[2] = { 2, 3 };
		uint32_t x, y;
		host_arena_init(&small);
		small.fail_at = n;
		enum tarn_status st = graph_init(&g, &small);
		if (!st)
			st = graph_add_persistent(&g, "x", ROLE_PARAMETER, DTYPE_F32, dim, 2, &x);
		for (int i = 0; i < 40 && !st; i++)
			st = graph_add_op(&g, OP_SCALE, PHASE_FORWARD, "scale", NULL, &x, 1, &y);
		if (!st)
			ck_assert_ok(graph_check(&g));
		bool failed = small.requests >= n;
		host_arena_fini(&small);
		ck_assert_int_eq(st, failed ? TARN_ENOMEM : TARN_OK);
		if (!failed)
			break;
	}
}
END_TEST

#define COUNT(array) (int)(sizeof array / sizeof array[0])

int main(void)
{
	Suite *suite = suite_create("graph");
	TCase *tc = tcase_create("graph");
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_loop_test(tc, convolution_shapes, 0, COUNT(convolutions));
	tcase_add_loop_test(tc, matmul_shapes, 0, 4);
	tcase_add_test(tc, pool_norm_and_move_shapes);
	tcase_add_test(tc, storage_of_views_and_versions);
	tcase_add_test(tc, views_of_a_part);
	tcase_add_test(tc, names_are_unique_and_found);
	tcase_add_loop_test(tc, misuse_is_named, 0, COUNT(misuses));
	tcase_add_test(tc, sizes_are_bounded);
	tcase_add_loop_test(tc, check_finds_each_damage, 0, COUNT(damages));
	tcase_add_loop_test(tc, check_survives_random_damage, 0, 10);
	tcase_add_test(tc, table_is_complete);
	tcase_add_test(tc, no_memory_is_reported);
	suite_add_tcase(suite, tc);
	return testing_run(suite);
}
