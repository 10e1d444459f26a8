/*
 * test_build.c - `layers:` in YAML to graphs: structure, scopes, sharing, errors with their places, simplification, and
 * random lists of layers.
 */
#include "config/config.h"
#include "config/yaml_tree.h"
#include "graph/build.h"
#include "graph/layer_list.h"
#include "support/testing.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static struct host_arena arena;
static struct graph graph;
static struct config config;
static const struct sample_shape image = { .dim = { 8, 8, 3 }, .rank = 3, .classes = 10 };
static const struct sample_shape vector = { .dim = { 12 }, .rank = 1, .classes = 10 };
static uint32_t loss, output;

static void setup(void)
{
	host_arena_init(&arena);
	ck_assert_ok(graph_init(&graph, &arena));
	memset(&config, 0, sizeof config);
}

static void teardown(void)
{
	host_arena_fini(&arena);
}

static void set_layers(const char *text)
{
	struct yaml_node *root;
	ck_assert_ok(yaml_parse(text, strlen(text), "net.yaml", &arena, &root));
	config.layers = yaml_find(root, "layers");
	ck_assert_ptr_nonnull(config.layers);
}

static enum tarn_status network(const char *text, const struct sample_shape *sample, enum build_mode mode)
{
	set_layers(text);
	return network_build(&config, sample, 4, mode, &arena, &graph, &loss, &output);
}

/* The whole training graph; its own last step is graph_check. */
static enum tarn_status training(const char *text, const struct sample_shape *sample)
{
	set_layers(text);
	return training_build(&config, sample, 4, &arena, &graph);
}

static uint32_t count_kind(enum op_kind kind)
{
	uint32_t count = 0;
	for (uint32_t op = 0; op < graph.ops; op++)
		count += graph.op[op].kind == (uint32_t)kind;
	return count;
}

static void check_shape(const char *name, const char *expected)
{
	char text[SHAPE_TEXT];
	uint32_t id = graph_find(&graph, name);
	ck_assert_msg(id != TENSOR_NONE, "there is no tensor %s", name);
	ck_assert_str_eq(shape_format(graph.tensor[id].dim, graph.tensor[id].rank, text, sizeof text), expected);
}

static const struct op *producer_of(const char *name)
{
	uint32_t id = graph_find(&graph, name);
	ck_assert_msg(id != TENSOR_NONE, "there is no tensor %s", name);
	return &graph.op[graph.tensor[id].producer];
}

/* ---- structure ---- */

START_TEST(every_kind_with_its_short_form)
{
	ck_assert_ok(training("layers:\n"
			      "  - conv2d: {channels: 6, kernel: [3, 5], padding: [1, 2]}\n"
			      "  - batch_norm\n"
			      "  - leaky_relu: 0.2\n"
			      "  - conv2d: {channels: 6, kernel: 3, padding: same, stride: 2, groups: 3, bias: no}\n"
			      "  - layer_norm: {epsilon: 1e-6}\n"
			      "  - elu\n"
			      "  - max_pool: {kernel: 3, stride: 1, padding: same}\n"
			      "  - sigmoid:\n"
			      "  - avg_pool: {kernel: 2, stride: 1, padding: 1, count_padding: false}\n"
			      "  - tanh\n"
			      "  - gelu\n"
			      "  - gelu_tanh\n"
			      "  - silu\n"
			      "  - softplus\n"
			      "  - relu6\n"
			      "  - concat: [relu61, softplus1]\n"
			      "  - dropout: 0.25\n"
			      "  - flatten: chw\n"
			      "  - dense: 20\n"
			      "  - multiply: [dense1, dense1]\n"
			      "  - add: {inputs: [dense1, multiply1, dense1]}\n"
			      "  - relu\n"
			      "  - dense: {features: 10, bias: false}\n",
			      &image));
	check_shape("conv2d1", "4x8x8x6");
	check_shape("conv2d1/weight", "6x3x3x5");
	check_shape("conv2d2", "4x4x4x6");
	check_shape("conv2d2/weight", "6x2x3x3");
	check_shape("max_pool1", "4x4x4x6");
	check_shape("avg_pool1", "4x5x5x6");
	check_shape("concat1", "4x5x5x12");
	check_shape("flatten1", "4x300");
	check_shape("relu1", "4x20"); /* fused into the sum */
	check_shape("dense2", "4x10");
	ck_assert_uint_eq(graph_find(&graph, "conv2d2/bias"), TENSOR_NONE);
	ck_assert_uint_eq(graph_find(&graph, "dense2/bias"), TENSOR_NONE);
	/* 8 columns, stride 2, kernel 3: one column of padding, at the end. */
	const struct window *w = &producer_of("conv2d2")->attr.window;
	ck_assert_uint_eq(w->pad_begin[1], 0);
	ck_assert_uint_eq(w->pad_end[1], 1);
}
END_TEST

START_TEST(frame_is_in_order)
{
	static const char *const expected[] = { "scalars", "staging/input", "staging/target", "metric/loss",
						"metric/correct" };
	ck_assert_ok(network("layers:\n  - dense: 10\n", &vector, BUILD_TRAINING));
	for (uint32_t t = 0; t < 5; t++)
		ck_assert_str_eq(tensor_name(&graph, t), expected[t]);
	check_shape("staging/input", "4x12");
	check_shape("staging/target", "4");
	ck_assert_str_eq(tensor_name(&graph, loss), "loss");
	ck_assert_str_eq(tensor_name(&graph, output), "dense1");
	ck_assert_uint_eq(graph.batch, 4);
	ck_assert_uint_eq(count_kind(OP_RECORD), 2);
	ck_assert_ok(graph_check(&graph));
}
END_TEST

START_TEST(squared_error_has_its_own_frame)
{
	const struct sample_shape sample = { .dim = { 5 }, .rank = 1, .target_rank = 2, .target_dim = { 2, 3 } };
	const struct sample_shape flat = { .dim = { 5 }, .rank = 1, .target_rank = 1, .target_dim = { 6 } };
	config.network.loss = LOSS_MEAN_SQUARED_ERROR;
	ck_assert_fails(network("layers:\n  - dense: 6\n", &sample, BUILD_TRAINING), TARN_EINVAL,
			"net.yaml:2:3: the network's result has the shape 4x6, the targets have 4x2x3");
	ck_assert_ok(graph_init(&graph, &arena));
	ck_assert_ok(training("layers:\n  - dense: 6\n", &flat));
	ck_assert_uint_eq(graph_find(&graph, "metric/correct"), TENSOR_NONE);
	ck_assert_uint_eq(count_kind(OP_MEAN_SQUARED_ERROR_GRAD), 1);
}
END_TEST

/* Without a target of its own the loss reads the input; the frame has one slot less. */
START_TEST(input_is_the_target)
{
	const struct sample_shape grey = { .dim = { 8, 8, 1 }, .rank = 3 };
	const struct sample_shape ids = { .dim = { 8 }, .rank = 1, .vocabulary = 5 };
	const struct {
		uint32_t loss;
		enum op_kind kind;
		const char *text;
	} cases[] = {
		{ LOSS_MEAN_SQUARED_ERROR, OP_MEAN_SQUARED_ERROR, "layers: [conv2d: {channels: 1, kernel: 1}]\n" },
		{ LOSS_BINARY_CROSS_ENTROPY, OP_BINARY_CROSS_ENTROPY, "layers: [conv2d: {channels: 1, kernel: 1}]\n" },
		{ LOSS_LOGISTIC_MIXTURE, OP_LOGISTIC_MIXTURE, "layers: [conv2d: {channels: 6, kernel: 1}]\n" },
	};
	config.network.target = TARGET_INPUT;
	for (uint32_t i = 0; i < 3; i++) {
		config.network.loss = cases[i].loss;
		ck_assert_ok(graph_init(&graph, &arena));
		ck_assert_ok(training(cases[i].text, &grey));
		ck_assert_uint_eq(graph_find(&graph, "staging/target"), TENSOR_NONE);
		ck_assert_uint_eq(count_kind(OP_INPUT), 1);
		ck_assert_uint_eq(count_kind(cases[i].kind), 1);
		ck_assert_uint_eq(op_inputs(&graph, graph.tensor[graph_find(&graph, "loss")].producer)[1],
				  graph_find(&graph, "input"));
		ck_assert_ok(graph_init(&graph, &arena));
		ck_assert_fails(training("layers: [conv2d: {channels: 1, kernel: 2}]\n", &grey), TARN_EINVAL,
				i == 2 ? "logistic_mixture needs the parameters of each pixel of the input, which has "
					 "the shape 4x8x8x1"
				       : "the network's result has the shape 4x7x7x1, the targets have 4x8x8x1");
		ck_assert_ok(graph_init(&graph, &arena));
		ck_assert_fails(training("layers: [dense: 1]\n", &ids), TARN_EINVAL, "the input are tokens");
	}
	ck_assert_ok(graph_init(&graph, &arena));
	ck_assert_fails(training("layers: [conv2d: {channels: 4, kernel: 1}]\n", &grey), TARN_EINVAL,
			"4 parameters a pixel; needed is a multiple of 3");
}
END_TEST

START_TEST(shifted_windows_and_weight_norm)
{
	ck_assert_ok(training("layers:\n"
			      "  - conv2d: {channels: 6, kernel: [2, 3], shift: down, weight_norm: true, name: a}\n"
			      "  - conv2d: {channels: 6, kernel: 2, shift: down_right, stride: 2, name: b}\n"
			      "  - conv_transpose2d: {channels: 4, kernel: [2, 3], stride: 2, shift: down, "
			      "weight_norm: true, name: c}\n"
			      "  - shift: {to: right, name: d}\n"
			      "  - concat_elu: {name: e}\n"
			      "  - flatten\n"
			      "  - dense: 10\n",
			      &image));
	check_shape("a", "4x8x8x6");
	check_shape("a/scale", "6");
	check_shape("b", "4x4x4x6");
	check_shape("c", "4x8x8x4");
	check_shape("c/weight", "4x6x2x3");
	check_shape("d", "4x8x8x4");
	check_shape("e", "4x8x8x8");
	const struct window *w = &producer_of("a")->attr.window;
	ck_assert(w->pad_begin[0] == 1 && w->pad_end[0] == 0 && w->pad_begin[1] == 1 && w->pad_end[1] == 1);
	w = &producer_of("b")->attr.window;
	ck_assert(w->pad_begin[0] == 1 && w->pad_end[0] == 0 && w->pad_begin[1] == 1 && w->pad_end[1] == 0);
	ck_assert_ok(graph_init(&graph, &arena));
	ck_assert_fails(training("layers: [conv2d: {channels: 2, kernel: 2, shift: down}]\n", &image), TARN_EINVAL,
			"a window that is shifted down needs an odd width, not 2");
	ck_assert_ok(graph_init(&graph, &arena));
	ck_assert_fails(training("layers: [conv2d: {channels: 2, kernel: 3, padding: 1, shift: down}]\n", &image),
			TARN_EINVAL, "a shifted window has no padding of its own");
	ck_assert_ok(graph_init(&graph, &arena));
	ck_assert_fails(
		training("layers: [conv_transpose2d: {channels: 2, kernel: 3, stride: 3, shift: down}]\n", &image),
		TARN_EINVAL, "a window of 3 leaves gaps at a stride of 3");
}
END_TEST

START_TEST(repeats_nest_and_scope)
{
	ck_assert_ok(training("layers:\n"
			      "  - dense: {features: 6, name: a}\n"
			      "  - repeat:\n"
			      "      count: 2\n"
			      "      name: block\n"
			      "      layers:\n"
			      "        - dense: {features: 6, name: b}\n"
			      "        - repeat: {count: 3, layers: [tanh]}\n"
			      "        - repeat: {count: 0, layers: [{dense: 99}]}\n"
			      "        - dense: {features: 6, name: a, inputs: b}\n"
			      "        - add: [a, b]\n"
			      "  - add: [block1/a, a]\n"
			      "  - concat: [add1, block2/add1]\n"
			      "  - dense: 10\n",
			      &vector));
	check_shape("concat1", "4x12");
	/* Inside a block `a` is the block's own, and nothing reads the tanhs. */
	uint32_t inner = graph_find(&graph, "block2/a"), outer = graph_find(&graph, "a");
	const uint32_t add = graph.tensor[graph_find(&graph, "block2/add1")].producer;
	ck_assert_uint_eq(op_inputs(&graph, add)[0], inner);
	ck_assert_uint_eq(op_inputs(&graph, add)[1], graph_find(&graph, "block2/b"));
	const uint32_t last = graph.tensor[graph_find(&graph, "add1")].producer;
	ck_assert_uint_eq(op_inputs(&graph, last)[1], outer);
	ck_assert_uint_eq(count_kind(OP_ACTIVATION), 0);
	ck_assert_uint_ne(graph_find(&graph, "block1/b/weight"), TENSOR_NONE);
}
END_TEST

START_TEST(unnamed_repeats_have_their_own_scopes)
{
	ck_assert_ok(network("layers:\n"
			     "  - repeat: {count: 11, layers: [dense: 3]}\n"
			     "  - repeat: {count: 1, layers: [dense: 10]}\n",
			     &vector, BUILD_TRAINING));
	check_shape("repeat1_11/dense1", "4x3");
	check_shape("repeat2_1/dense1", "4x10");
}
END_TEST

START_TEST(an_input_is_used_fifty_times)
{
	char text[1024] = "layers:\n  - dense: {features: 10, name: x}\n  - add: [x";
	for (int i = 1; i < 50; i++)
		strcat(text, ", x");
	strcat(text, "]\n");
	ck_assert_ok(training(text, &vector));
	ck_assert_uint_eq(count_kind(OP_ADD), 49 + 49); /* forward, and 50 partial gradients */
}
END_TEST

/* ---- sharing and freezing ---- */

START_TEST(tied_weights_are_one_parameter)
{
	ck_assert_ok(training("layers:\n"
			      "  - dense: {features: 12, name: a}\n"
			      "  - tanh\n"
			      "  - dense: {features: 12, name: b, weights: a}\n"
			      "  - dense: {features: 12, name: c, weights: b}\n"
			      "  - dense: 10\n",
			      &vector));
	ck_assert_uint_eq(graph_find(&graph, "b/weight"), TENSOR_NONE);
	ck_assert_uint_eq(count_kind(OP_SGD), 4);
	/* One gradient: (c + b) + a, the last consumer first. */
	uint32_t update = OP_NONE;
	for (uint32_t op = 0; op < graph.ops; op++)
		if (graph.op[op].kind == OP_SGD && !strcmp(op_name(&graph, op), "a/weight/update"))
			update = op;
	ck_assert_uint_ne(update, OP_NONE);
	uint32_t sum = graph.tensor[op_inputs(&graph, update)[1]].producer;
	ck_assert_int_eq((int)graph.op[sum].kind, OP_ADD);
	ck_assert_str_eq(tensor_name(&graph, op_inputs(&graph, sum)[1]), "a/gradient_weight");
	sum = graph.tensor[op_inputs(&graph, sum)[0]].producer;
	ck_assert_str_eq(tensor_name(&graph, op_inputs(&graph, sum)[0]), "c/gradient_weight");
	ck_assert_str_eq(tensor_name(&graph, op_inputs(&graph, sum)[1]), "b/gradient_weight");
}
END_TEST

/* Nothing before the first trained layer has a gradient, and frozen parameters have neither state nor update. */
START_TEST(frozen_layers_cost_nothing)
{
	config.optimizer.type = OPTIMIZER_ADAM;
	config.optimizer.epsilon = 1e-8;
	ck_assert_ok(training("layers:\n"
			      "  - conv2d: {channels: 4, kernel: 3, trainable: false}\n"
			      "  - batch_norm: {trainable: false}\n"
			      "  - relu\n"
			      "  - flatten\n"
			      "  - dense: 8\n"
			      "  - dense: {features: 9, trainable: false}\n"
			      "  - dense: 10\n",
			      &image));
	ck_assert_uint_eq(count_kind(OP_ADAM), 4);
	ck_assert_uint_eq(count_kind(OP_CONV2D_GRAD_WEIGHT) + count_kind(OP_CONV2D_GRAD_INPUT), 0);
	ck_assert_uint_eq(count_kind(OP_BATCH_REDUCE) + count_kind(OP_BATCH_GRAD_INPUT), 0);
	ck_assert_uint_eq(count_kind(OP_RUNNING_UPDATE), 1);
	ck_assert_uint_eq(graph_find(&graph, "dense2/gradient_weight"), TENSOR_NONE);
	ck_assert_uint_ne(graph_find(&graph, "dense2/gradient_input"), TENSOR_NONE);
	ck_assert_uint_eq(graph_find(&graph, "dense1/gradient_input"), TENSOR_NONE);
	ck_assert_uint_ne(graph_find(&graph, "optimizer/dense1/weight/m"), TENSOR_NONE);
	ck_assert_uint_eq(graph_find(&graph, "optimizer/dense2/weight/m"), TENSOR_NONE);
	ck_assert(graph.tensor[graph_find(&graph, "dense2/bias")].flags & TENSOR_FROZEN);
}
END_TEST

/* ---- simplification ---- */

START_TEST(unused_layers_are_dropped)
{
	ck_assert_ok(training("layers:\n"
			      "  - dense: {features: 6, name: used}\n"
			      "  - batch_norm: {name: unused_norm}\n"
			      "  - dense: {features: 7, name: unused}\n"
			      "  - dense: {features: 10, inputs: used}\n",
			      &vector));
	ck_assert_uint_eq(graph_find(&graph, "unused/weight"), TENSOR_NONE);
	ck_assert_uint_eq(graph_find(&graph, "unused_norm/running_mean"), TENSOR_NONE);
	ck_assert_uint_eq(count_kind(OP_BATCH_STATS) + count_kind(OP_RUNNING_UPDATE), 0);
	ck_assert_uint_eq(count_kind(OP_SGD), 4);
}
END_TEST

static uint32_t attr_activation(const char *name)
{
	return producer_of(name)->attr.activation;
}

START_TEST(activations_are_fused)
{
	ck_assert_ok(network("layers:\n"
			     "  - conv2d: {channels: 4, kernel: 3}\n"
			     "  - relu: {name: r1}\n"
			     "  - conv2d: {channels: 4, kernel: 1, name: c2}\n" /* feeds two layers: stays */
			     "  - relu: {name: r2}\n"
			     "  - add: [c2, r2]\n"
			     "  - relu6: {name: r3}\n"
			     "  - relu: {name: r4}\n" /* behind an op that already has one */
			     "  - batch_norm\n"
			     "  - relu: {name: r5}\n"
			     "  - flatten\n"
			     "  - relu: {name: r6}\n" /* a view computes nothing */
			     "  - dense: 5\n"
			     "  - gelu: {name: r7}\n"
			     "  - dense: 10\n",
			     &image, BUILD_TRAINING));
	ck_assert_uint_eq(attr_activation("r1"), ACTIVATION_RELU);
	ck_assert_str_eq(op_name(&graph, graph.tensor[graph_find(&graph, "r1")].producer), "conv2d1");
	ck_assert_uint_eq(graph_find(&graph, "conv2d1"), TENSOR_NONE);
	ck_assert_int_eq((int)producer_of("r2")->kind, OP_ACTIVATION);
	ck_assert_int_eq((int)producer_of("r3")->kind, OP_ADD);
	ck_assert_uint_eq(attr_activation("r3"), ACTIVATION_RELU6);
	ck_assert_int_eq((int)producer_of("r4")->kind, OP_ACTIVATION);
	ck_assert_int_eq((int)producer_of("r5")->kind, OP_BATCH_APPLY);
	ck_assert_int_eq((int)producer_of("r6")->kind, OP_ACTIVATION);
	ck_assert_int_eq((int)producer_of("r7")->kind, OP_ACTIVATION);
	ck_assert_ok(graph_check(&graph));
}
END_TEST

/* Behind a max_pool that is its only reader; not where the gradient needs no stored value anyway, or somebody else
 * reads. */
START_TEST(activations_move_behind_max_pool)
{
	ck_assert_ok(network("layers:\n"
			     "  - conv2d: {channels: 4, kernel: 3, name: c1}\n"
			     "  - relu: {name: r1}\n"
			     "  - max_pool: {kernel: 2, name: p1}\n"
			     "  - relu6: {name: r2}\n"
			     "  - max_pool: {kernel: 2, stride: 1, name: p2}\n"
			     "  - batch_norm\n"
			     "  - relu: {name: r3}\n"
			     "  - max_pool: {kernel: 1, stride: 1, name: p3}\n"
			     "  - conv2d: {channels: 4, kernel: 1, name: c4}\n"
			     "  - relu: {name: r4}\n"
			     "  - max_pool: {kernel: 1, stride: 1, name: p4}\n"
			     "  - add: [r4, p4]\n"
			     "  - tanh: {name: t5}\n"
			     "  - max_pool: {kernel: 1, stride: 1, name: p5}\n"
			     "  - flatten\n"
			     "  - dense: 10\n",
			     &image, BUILD_TRAINING));
	ck_assert_uint_eq(graph_find(&graph, "r1"), TENSOR_NONE);
	ck_assert_int_eq((int)producer_of("p1")->kind, OP_ACTIVATION);
	ck_assert_str_eq(op_name(&graph, graph.tensor[graph_find(&graph, "p1")].producer), "r1");
	ck_assert_int_eq((int)producer_of("p1/maximum")->kind, OP_MAX_POOL);
	ck_assert_uint_eq(attr_activation("c1"), ACTIVATION_NONE);
	ck_assert_uint_eq(attr_activation("p2"), ACTIVATION_RELU6);
	ck_assert_uint_eq(attr_activation("r3"), ACTIVATION_RELU);
	ck_assert_int_eq((int)producer_of("p3")->kind, OP_MAX_POOL);
	ck_assert_uint_eq(attr_activation("r4"), ACTIVATION_RELU);
	ck_assert_int_eq((int)producer_of("p4")->kind, OP_MAX_POOL);
	ck_assert_int_eq((int)producer_of("p5")->kind, OP_MAX_POOL);
	ck_assert_ok(graph_check(&graph));
}
END_TEST

static const char several[] = "layers:\n"
			      "  - conv2d: {channels: 4, kernel: 3, bias: false}\n"
			      "  - batch_norm\n"
			      "  - relu\n"
			      "  - dropout: 0.5\n"
			      "  - flatten\n"
			      "  - dense: 10\n"
			      "  - dropout: 0.1\n";

/* Evaluation has the same persistent tensors, without the optimizer's. */
START_TEST(inference_agrees_with_training)
{
	struct graph inference;
	config.optimizer.type = OPTIMIZER_MOMENTUM;
	config.optimizer.clip_norm = 1;
	ck_assert_ok(training(several, &image));
	ck_assert_ok(graph_init(&inference, &arena));
	ck_assert_ok(network_build(&config, &image, 4, BUILD_INFERENCE, &arena, &inference, &loss, &output));
	ck_assert_ok(graph_check(&inference));
	uint32_t other = 0;
	for (uint32_t t = 0; t < graph.tensors; t++) {
		const struct tensor *a = &graph.tensor[t];
		if (a->producer != OP_NONE || a->role == ROLE_OPTIMIZER_STATE ||
		    !strcmp(tensor_name(&graph, t), "metric/gradient_norm"))
			continue;
		while (other < inference.tensors && inference.tensor[other].producer != OP_NONE)
			other++;
		ck_assert_uint_lt(other, inference.tensors);
		const struct tensor *b = &inference.tensor[other];
		ck_assert_str_eq(tensor_name(&graph, t), tensor_name(&inference, other));
		ck_assert_mem_eq(a->dim, b->dim, sizeof a->dim);
		other++;
	}
	graph = inference;
	ck_assert_uint_eq(count_kind(OP_DROPOUT) + count_kind(OP_BATCH_STATS) + count_kind(OP_RUNNING_UPDATE), 0);
	ck_assert_str_eq(tensor_name(&graph, output), "dense1");
}
END_TEST

START_TEST(dropouts_have_their_own_streams)
{
	ck_assert_ok(network(several, &image, BUILD_TRAINING));
	ck_assert_uint_eq(producer_of("dropout1")->attr.stream, 0);
	ck_assert_uint_eq(producer_of("dropout2")->attr.stream, 1);
}
END_TEST

/* A batch of one with batch norm over a 1x1 map: refused in training, with the choices; fine in evaluation. */
START_TEST(batch_norm_of_one_value_is_refused)
{
	set_layers("layers:\n  - dense: 10\n  - batch_norm\n");
	ck_assert_fails(training_build(&config, &vector, 1, &arena, &graph), TARN_EINVAL,
			"net.yaml:3:5: batch_norm1: a batch with one value a channel has no variance");
	ck_assert_ptr_nonnull(strstr(tarn_error(), "data.drop_last"));
	ck_assert_ptr_nonnull(strstr(tarn_error(), "layer_norm"));
	ck_assert_ok(graph_init(&graph, &arena));
	ck_assert_ok(network_build(&config, &vector, 1, BUILD_INFERENCE, &arena, &graph, &loss, &output));
	ck_assert_ok(graph_init(&graph, &arena));
	ck_assert_ok(training_build(&config, &vector, 2, &arena, &graph));
}
END_TEST

/* ---- errors ---- */

static const struct {
	const char *layers, *sentence;
} errors[] = {
	{ "layers:\n  - conv: 3\n", "net.yaml:2:5: there is no layer kind conv; did you mean conv2d?" },
	{ "layers:\n  - conv2: {channels: 3}\n", "did you mean conv2d?" },
	{ "layers:\n  - Convolution: {channels: 3}\n", "did you mean conv2d?" },
	{ "layers:\n  - Linear: 3\n", "there is no layer kind Linear; did you mean dense?" },
	{ "layers:\n  - fully_connected: 3\n", "did you mean dense?" },
	{ "layers:\n  - fc: 3\n", "did you mean dense?" },
	{ "layers:\n  - bn\n", "did you mean batch_norm?" },
	{ "layers:\n  - BatchNorm2d\n", "did you mean batch_norm?" },
	{ "layers:\n  - batchnorm\n", "did you mean batch_norm?" },
	{ "layers:\n  - ReLU\n", "did you mean relu?" },
	{ "layers:\n  - maxpool: 2\n", "did you mean max_pool?" },
	{ "layers:\n  - AvgPool2d: 2\n", "did you mean avg_pool?" },
	{ "layers:\n  - gap\n", "did you mean global_pool?" },
	{ "layers:\n  - global_avg_pool\n", "did you mean global_pool?" },
	{ "layers:\n  - softmax\n",
	  "there is no layer kind softmax; the cross-entropy loss contains it: leave it out" },
	{ "layers:\n  - log_softmax\n", "the cross-entropy loss contains it: leave it out" },
	{ "layers:\n  - a_word_that_is_longer_than_all_synonyms\n", "`tarn help layers` lists them" },
	{ "layers:\n  - dense: {units: 3}\n", "net.yaml:2:13: dense has no key units; did you mean features?" },
	{ "layers:\n  - dense: {out_features: 3}\n", "did you mean features?" },
	{ "layers:\n  - dense: {in_features: 3, features: 3}\n", "the layer before says it: leave it out" },
	{ "layers:\n  - conv2d: {filters: 3}\n", "conv2d has no key filters; did you mean channels?" },
	{ "layers:\n  - conv2d: {out_channels: 3}\n", "did you mean channels?" },
	{ "layers:\n  - conv2d: {channels: 3, kernel_size: 3}\n", "did you mean kernel?" },
	{ "layers:\n  - conv2d: {channels: 3, kernel: 3, Strides: 3}\n", "did you mean stride?" },
	{ "layers:\n  - dropout: {p: 0.1}\n", "dropout has no key p; did you mean rate?" },
	{ "layers:\n  - leaky_relu: {alpha: 0.1}\n", "did you mean slope?" },
	{ "layers:\n  - elu: {slope: 0.1}\n", "did you mean alpha?" },
	{ "layers:\n  - batch_norm: {eps: 0.1}\n", "did you mean epsilon?" },
	{ "layers:\n  - dense: {features: 3, activation: ReLU}\n",
	  "dense has no key activation; write it as the next layer: - relu" },
	{ "layers:\n  - dense: {features: 3, activation: swish}\n", "write it as the next layer: - silu" },
	{ "layers:\n  - dense: {features: 10, activation: softmax}\n", "the cross-entropy loss contains it" },
	{ "layers:\n  - conv2d: {channels: 3, kernel: 3, padding: valid}\n",
	  "conv2d.padding: \"valid\" is written padding: 0" },
	{ "layers:\n  - conv2d: {channels: 3, kernel: 3, padding: full}\n",
	  "\"full\" is no padding; write a number, [height, width] or same" },
	{ "layers:\n  - repeat: {times: 2, layers: [relu]}\n", "not times; did you mean count?" },
	/* Names of a repeat from outside, and from the inside. */
	{ "layers:\n  - repeat: {count: 2, layers: [relu: {name: act}]}\n  - add: [input, act]\n",
	  "no earlier layer is named act; did you mean repeat1_2/act?" },
	{ "layers:\n  - repeat: {count: 2, layers: [relu]}\n  - add: [input, repeat1/relu1]\n",
	  "did you mean repeat1_2/relu1?" },
	{ "layers:\n  - repeat: {name: b, count: 2, layers: [relu: {name: first}, tanh: {inputs: firts}]}\n",
	  "no earlier layer is named firts; did you mean first?" },
	{ "layers:\n  - relu\n  - add: [input, something]\n",
	  "no earlier layer is named something; here one may write input, relu1" },
	{ "layers:\n  - dens\n", "there is no layer kind dens; did you mean dense?" },
	{ "layers:\n  - conv2d: {chanels: 3, kernel: 1}\n", "conv2d has no key chanels; did you mean channels?" },
	{ "layers:\n  - relu: {zebra: 3}\n", "net.yaml:2:12: relu has no key zebra; `tarn help layers` lists them" },
	{ "layers:\n  - conv2d: 16\n", "conv2d needs the key kernel" },
	{ "layers:\n  - dense\n", "dense needs the key features" },
	{ "layers:\n  - dense: ten\n", "net.yaml:2:12:" },
	{ "layers:\n  - dense: 0\n", "net.yaml:2:12:" },
	{ "layers:\n  - dense: {features: 10, bias: maybe}\n", "net.yaml:2:33:" },
	{ "layers:\n  - dropout: 1\n", "net.yaml:2:14:" },
	{ "layers:\n  - max_pool: [2, 2, 2]\n", "must be one number or [height, width], not a list of 3" },
	{ "layers:\n  - relu: 5\n", "relu takes no single value" },
	{ "layers:\n  - flatten: hcw\n", "net.yaml:2:14:" },
	{ "layers:\n  - relu: {}\n    name: a\n", "a layer has one kind, relu; write name inside its braces" },
	{ "layers:\n  - [relu]\n", "a layer is written as" },
	{ "layers:\n  relu: 1\n", "must be a list of layers" },
	{ "layers:\n  - add\n", "add needs two inputs or more" },
	{ "layers:\n  - add: {inputs: input}\n", "add needs two inputs or more" },
	{ "layers:\n  - relu: {inputs: [input, input]}\n", "relu takes one input, not 2" },
	{ "layers:\n  - relu: {inputs: [[input]]}\n", "must be the name of an earlier layer" },
	{ "layers:\n  - dense: {features: 3, name: first}\n  - relu: {inputs: frist}\n",
	  "net.yaml:3:20: no earlier layer is named frist; did you mean first" },
	{ "layers:\n  - relu: {inputs: later}\n  - dense: {features: 3, name: later}\n",
	  "no earlier layer is named later" },
	{ "layers:\n  - relu: {name: a}\n  - relu: {name: a}\n", "net.yaml:3:18: there is already a layer named a" },
	{ "layers:\n  - relu: {name: a/b}\n", "a name has at most 63 letters, digits" },
	{ "layers:\n  - relu: {name: input}\n", "the name input is used by the network itself" },
	{ "layers:\n  - relu: {trainable: false}\n", "relu has no parameters to train" },
	{ "layers:\n  - dense: {features: 3, name: a}\n  - batch_norm: {weights: a}\n", "batch_norm cannot share" },
	{ "layers:\n  - relu: {name: a}\n  - dense: {features: 3, weights: a}\n",
	  "a is a relu, its parameters do not fit" },
	{ "layers:\n  - dense: {features: 3, name: a}\n  - dense: {features: 4, weights: a}\n",
	  "cannot share a/weight: its shape is 3x192, this layer needs 4x3" },
	{ "layers:\n  - dense: {features: 192, name: a, bias: no}\n  - dense: {features: 192, weights: a}\n",
	  "cannot share a/bias, which does not exist" },
	{ "layers:\n  - dense: {features: 3, name: a}\n  - dense: {features: 3, weights: a, trainable: no}\n",
	  "as the layer that owns them" },
	{ "layers:\n  - repeat: 3\n", "repeat is written as" },
	{ "layers:\n  - repeat: {layers: [relu]}\n", "repeat needs the key count" },
	{ "layers:\n  - repeat: {count: -1, layers: [relu]}\n", "net.yaml:2:21:" },
	{ "layers:\n  - repeat: {cuont: 1, layers: [relu]}\n",
	  "repeat has the keys count, layers and name, not cuont" },
	{ "layers:\n  - repeat: {count: 10000, layers: [repeat: {count: 10000, layers: []}]}\n",
	  "more than 50000 layers" },
	{ "layers:\n  - dense: 9\n", "has the shape 4x9; cross-entropy with 10 classes needs 4x10" },
	{ "layers: []\n", "has the shape 4x192" },
};

/* On vectors of 192, the features of the image. */
START_TEST(errors_have_places)
{
	const struct sample_shape sample = { .dim = { 192 }, .rank = 1, .classes = 10 };
	ck_assert_fails(training(errors[_i].layers, &sample), TARN_EINVAL, errors[_i].sentence);
	ck_assert_msg(!strncmp(tarn_error(), "net.yaml:", 9), "%s", tarn_error());
}
END_TEST

static const struct {
	const char *layers, *sentence;
} image_errors[] = {
	{ "layers:\n  - dense: 10\n",
	  "net.yaml:2:5: dense1: the input input has the shape 4x8x8x3, needed is a matrix" },
	{ "layers:\n  - dense: 10\n", "put a `flatten` layer before this one" },
	{ "layers:\n  - conv2d: {channels: 4, kernel: 9}\n", "spans 9 is larger than the padded height of 8" },
	{ "layers:\n  - conv2d: {channels: 4, kernel: 3, groups: 2}\n",
	  "3 input and 4 output channels cannot be divided" },
	{ "layers:\n  - max_pool: {kernel: 2, padding: 2}\n", "padding of 2 and 2 must be smaller than the kernel" },
	{ "layers:\n  - max_pool: 2\n  - add: [max_pool1, input]\n", "net.yaml:3:5: add1: input input has the shape" },
	{ "layers:\n  - max_pool: 2\n  - add: {inputs: [max_pool1, input], name: both}\n",
	  "net.yaml:3:5: both: add: input input has the shape" },
	{ "layers:\n  - flatten\n  - max_pool: 2\n", "max_pool1: the input flatten1 has the shape 4x192" },
	{ "layers:\n  - concat: {inputs: [input, input], axis: 4}\n", "axis 4 of a tensor with 4 dimensions" },
	{ "layers:\n  - flatten\n  - relu\n", "has the shape 4x192; cross-entropy" },
};

START_TEST(shape_errors_have_places)
{
	ck_assert_fails(training(image_errors[_i].layers, &image), TARN_EINVAL, image_errors[_i].sentence);
}
END_TEST

START_TEST(a_network_needs_something_to_train)
{
	const struct sample_shape ten = { .dim = { 10 }, .rank = 1, .classes = 10 };
	ck_assert_fails(training("layers:\n  - relu\n", &ten), TARN_EINVAL, "no parameter to train");
	config.layers = NULL;
	ck_assert_ok(graph_init(&graph, &arena));
	ck_assert_fails(training_build(&config, &ten, 4, &arena, &graph), TARN_EINVAL, "write `layers:` or `model:`");
	ck_assert_fails(training_build(&config, &ten, 0, &arena, &graph), TARN_EINVAL, "data.batch is 0");
}
END_TEST

/* ---- random lists ---- */

struct writer {
	char text[16384];
	size_t used;
	struct testing_random random;
};

static void put(struct writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct writer *w, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	int n = vsnprintf(w->text + w->used, sizeof w->text - w->used, format, arguments);
	va_end(arguments);
	w->used += (size_t)n;
	ck_assert_uint_lt(w->used, sizeof w->text);
}

/* The name of one of the first `count` layers, or the input. */
static const char *any_layer(struct writer *w, uint32_t count)
{
	static char name[4][16];
	static uint32_t next;
	char *text = name[next++ % 4];
	uint32_t i = testing_between(&w->random, 0, count);
	snprintf(text, 16, i ? "l%u" : "input", i);
	return text;
}

static void put_layer(struct writer *w, uint32_t n)
{
	static const char *const plain[] = { "relu",       "relu6",      "tanh",        "gelu",    "silu",
					     "batch_norm", "layer_norm", "global_pool", "flatten", "dropout" };
	struct testing_random *r = &w->random;
	switch (testing_between(r, 0, 7)) {
	case 0:
		put(w,
		    "  - conv2d: {channels: %u, kernel: %u, padding: %s, stride: %u, bias: %s, name: l%u, inputs: "
		    "%s}\n",
		    testing_between(r, 1, 6), testing_between(r, 1, 4), testing_between(r, 0, 1) ? "same" : "1",
		    testing_between(r, 1, 2), testing_between(r, 0, 1) ? "yes" : "no", n, any_layer(w, n - 1));
		break;
	case 1:
		put(w, "  - dense: {features: %u, trainable: %s, name: l%u}\n", testing_between(r, 1, 5),
		    testing_between(r, 0, 2) ? "yes" : "no", n);
		break;
	case 2:
		put(w, "  - add: {inputs: [%s, %s], name: l%u}\n", any_layer(w, n - 1), any_layer(w, n - 1), n);
		break;
	case 3:
		put(w, "  - concat: {inputs: [%s, %s, %s], name: l%u}\n", any_layer(w, n - 1), any_layer(w, n - 1),
		    any_layer(w, n - 1), n);
		break;
	case 4:
		put(w, "  - %s: {kernel: %u, stride: %u, padding: %u, name: l%u}\n",
		    testing_between(r, 0, 1) ? "max_pool" : "avg_pool", testing_between(r, 1, 3),
		    testing_between(r, 1, 2), testing_between(r, 0, 1), n);
		break;
	case 5:
		put(w, "  - multiply: {inputs: [%s, %s], name: l%u}\n", any_layer(w, n - 1), any_layer(w, n - 1), n);
		break;
	default:
		put(w, "  - %s: {name: l%u, inputs: %s}\n", plain[testing_between(r, 0, 9)], n,
		    testing_between(r, 0, 3) ? any_layer(w, n > 1 ? n - 1 : 0) : "input");
		break;
	}
}

/* Every random list gives a graph that holds, or one clear sentence; both happen. */
START_TEST(random_lists_build_or_say_why)
{
	struct writer w = { .random = { (uint64_t)_i } };
	uint32_t built = 0, refused = 0;
	for (int round = 0; round < 300; round++) {
		struct host_mark mark = host_arena_mark(&arena);
		uint32_t count = testing_between(&w.random, 1, 9);
		w.used = 0;
		put(&w, "layers:\n");
		for (uint32_t n = 1; n <= count; n++)
			put_layer(&w, n);
		put(&w, "  - flatten\n  - dense: 10\n");
		config.optimizer.type = testing_between(&w.random, 0, 3);
		config.optimizer.epsilon = 1e-8;
		config.optimizer.clip_norm = testing_between(&w.random, 0, 1);
		ck_assert_ok(graph_init(&graph, &arena));
		enum tarn_status st = training(w.text, &image);
		ck_assert_msg(st == TARN_OK || (st == TARN_EINVAL && !strncmp(tarn_error(), "net.yaml:", 9)),
			      "seed %d round %d: status %d: %s\n%s", _i, round, st, tarn_error(), w.text);
		built += st == TARN_OK;
		refused += st != TARN_OK;
		host_arena_release(&arena, mark);
	}
	ck_assert_msg(built > 20 && refused > 20, "seed %d: %u built, %u refused", _i, built, refused);
}
END_TEST

/* The same text gives the same graph, byte for byte. */
START_TEST(building_is_deterministic)
{
	struct graph second;
	ck_assert_ok(training(several, &image));
	ck_assert_ok(graph_init(&second, &arena));
	ck_assert_ok(training_build(&config, &image, 4, &arena, &second));
	ck_assert_uint_eq(graph.tensors, second.tensors);
	ck_assert_uint_eq(graph.ops, second.ops);
	ck_assert_mem_eq(graph.tensor, second.tensor, graph.tensors * sizeof *graph.tensor);
	ck_assert_mem_eq(graph.op, second.op, graph.ops * sizeof *graph.op);
	ck_assert_mem_eq(graph.operand, second.operand, graph.operands * sizeof *graph.operand);
	ck_assert_mem_eq(graph.text, second.text, graph.text_bytes);
}
END_TEST

START_TEST(no_memory_is_reported)
{
	set_layers(several);
	config.optimizer.clip_norm = 1;
	for (uint64_t n = 1;; n++) {
		struct host_arena small;
		host_arena_init(&small);
		small.fail_at = n;
		enum tarn_status st = graph_init(&graph, &small);
		if (!st)
			st = training_build(&config, &image, 4, &small, &graph);
		bool failed = small.requests >= n;
		host_arena_fini(&small);
		ck_assert_msg(st == (failed ? TARN_ENOMEM : TARN_OK), "request %u: status %d: %s", (unsigned)n, st,
			      tarn_error());
		if (!failed)
			break;
	}
}
END_TEST

START_TEST(help_names_every_key)
{
	static const char *const words[] = { "conv2d",   "count_padding",  "repeat",    "trainable",      "weights",
					     "hwc, chw", "default kernel", "gelu_tanh", "repeat1_2/relu1" };
	char text[16384] = "";
	FILE *out = fmemopen(text, sizeof text - 1, "w");
	layers_help(out);
	fclose(out);
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		ck_assert_msg(strstr(text, words[i]) != NULL, "%s is missing", words[i]);
}
END_TEST

#define COUNT(array) (int)(sizeof array / sizeof array[0])

int main(void)
{
	Suite *suite = suite_create("build");
	TCase *tc = tcase_create("build");
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, every_kind_with_its_short_form);
	tcase_add_test(tc, frame_is_in_order);
	tcase_add_test(tc, squared_error_has_its_own_frame);
	tcase_add_test(tc, input_is_the_target);
	tcase_add_test(tc, shifted_windows_and_weight_norm);
	tcase_add_test(tc, repeats_nest_and_scope);
	tcase_add_test(tc, unnamed_repeats_have_their_own_scopes);
	tcase_add_test(tc, an_input_is_used_fifty_times);
	tcase_add_test(tc, tied_weights_are_one_parameter);
	tcase_add_test(tc, frozen_layers_cost_nothing);
	tcase_add_test(tc, unused_layers_are_dropped);
	tcase_add_test(tc, activations_are_fused);
	tcase_add_test(tc, activations_move_behind_max_pool);
	tcase_add_test(tc, inference_agrees_with_training);
	tcase_add_test(tc, dropouts_have_their_own_streams);
	tcase_add_test(tc, batch_norm_of_one_value_is_refused);
	tcase_add_loop_test(tc, errors_have_places, 0, COUNT(errors));
	tcase_add_loop_test(tc, shape_errors_have_places, 0, COUNT(image_errors));
	tcase_add_test(tc, a_network_needs_something_to_train);
	tcase_add_loop_test(tc, random_lists_build_or_say_why, 0, 6);
	tcase_add_test(tc, building_is_deterministic);
	tcase_add_test(tc, no_memory_is_reported);
	tcase_add_test(tc, help_names_every_key);
	suite_add_tcase(suite, tc);
	return testing_run(suite);
}
