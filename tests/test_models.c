/*
 * test_models.c - parameter counts, order and names of the model families, and their errors.
 *
 * The counts are those of the same networks in PyTorch (sum of numel over named_parameters).
 */
#include "config/config.h"
#include "config/yaml_tree.h"
#include "graph/build.h"
#include "models/models.h"
#include "support/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct host_arena arena;
static struct graph graph;
static struct config config;
static const struct sample_shape cifar = { .dim = { 32, 32, 3 }, .rank = 3, .classes = 10 };
static const struct sample_shape fashion = { .dim = { 28, 28, 1 }, .rank = 3, .classes = 10 };
static const struct sample_shape imagenet = { .dim = { 224, 224, 3 }, .rank = 3, .classes = 1000 };
static const struct sample_shape tokens = {
	.dim = { 256 }, .rank = 1, .classes = 256, .vocabulary = 256, .target_rank = 1, .target_dim = { 256 }
};
static const struct sample_shape words = {
	.dim = { 8 }, .rank = 1, .classes = 100, .vocabulary = 100, .target_rank = 1, .target_dim = { 8 }
};
static const struct sample_shape pixels = {
	.dim = { 64, 64, 3 }, .rank = 3, .classes = 2, .target_rank = 2, .target_dim = { 64, 64 }
};
static const struct sample_shape grey_pixels = {
	.dim = { 32, 32, 1 }, .rank = 3, .classes = 256, .target_rank = 2, .target_dim = { 32, 32 }
};
static const struct sample_shape vector = { .dim = { 784 }, .rank = 1, .classes = 10 };

static void setup(void)
{
	host_arena_init(&arena);
	ck_assert_ok(graph_init(&graph, &arena));
	memset(&config, 0, sizeof config);
	config.optimizer.type = OPTIMIZER_MOMENTUM;
	config.optimizer.momentum = 0.9;
}

static void teardown(void)
{
	host_arena_fini(&arena);
}

static void set_model(const char *text)
{
	struct yaml_node *root;
	ck_assert_ok(yaml_parse(text, strlen(text), "net.yaml", &arena, &root));
	config.model = yaml_find(root, "model");
	ck_assert_ptr_nonnull(config.model);
}

static uint64_t parameter_count(void)
{
	uint64_t count = 0;
	for (uint32_t t = 0; t < graph.tensors; t++)
		if (graph.tensor[t].role == ROLE_PARAMETER && graph.tensor[t].producer == OP_NONE)
			count += tensor_elements(&graph.tensor[t]);
	return count;
}

static const struct {
	const char *model;
	const struct sample_shape *sample;
	uint64_t parameters;
} families[] = {
	{ "model: {family: lenet}", &fashion, 857738 },
	{ "model: {family: mlp}", &vector, 8161290 },
	{ "model: {family: mlp, depth: 8, width: 1024}", &fashion, 8161290 },
	{ "model: {family: mlp, depth: 0}", &vector, 7850 },
	{ "model: {family: resnet}", &cifar, 272474 },
	{ "model: {family: resnet, depth: 56}", &cifar, 855770 },
	{ "model: {family: resnet, depth: 110, width: 16}", &cifar, 1730714 },
	{ "model: {family: resnet_imagenet, depth: 18}", &imagenet, 11689512 },
	{ "model: {family: resnet_imagenet, depth: 34}", &imagenet, 21797672 },
	{ "model: {family: resnet_imagenet}", &imagenet, 25557032 },
	{ "model: {family: resnet_imagenet, depth: 101}", &imagenet, 44549160 },
	{ "model: {family: resnet_imagenet, depth: 152}", &imagenet, 60192808 },
	{ "model: {family: vgg}", &cifar, 15249354 },
	{ "model: {family: vgg, depth: 11, hidden: 4096}", &imagenet,
	  132866088 }, /* torchvision's has 2,752 biases more */
	{ "model: {family: vgg, depth: 19, hidden: 4096}", &imagenet, 143672744 },
	{ "model: {family: densenet}", &cifar, 176122 },
	{ "model: {family: unet}", &pixels, 482754 },
	{ "model: {family: pixelcnn}", &grey_pixels, 980736 },
	{ "model: {family: densenet, depth: 100}", &cifar, 769162 },
	{ "model: {family: mobilenetv2}", &imagenet, 3504872 },
	{ "model: {family: mobilenetv2, width_percent: 140, stem_stride: 2}", &imagenet, 6108776 },
	{ "model: {family: gpt}", &tokens, 4935680 },
	{ "model: {family: gpt, layers: 1, width: 8, heads: 2, tied: 1}", &words, 100 * 8 + 8 * 8 + 872 + 16 },
	{ "model: {family: gpt, layers: 1, width: 8, heads: 4, key_heads: 2, hidden: 12, bias: 0, rms: 1, rotary: 100, "
	  "gated: 1}",
	  &words, 2 * 100 * 8 + 3 * 8 + 16 * 8 + 8 * 8 + 24 * 8 + 12 * 8 },
	{ "model: {family: lstm}", &tokens, 1184000 },
	{ "model: {family: gru, width: 8, layers: 1}", &words, 100 * 8 + 2 * 24 * 8 + 2 * 24 + 100 * 8 + 100 },
	{ "model: {family: vit, patch: 4, layers: 1, width: 8, heads: 2}", &cifar,
	  8 * 48 + 8 + 8 + 65 * 8 + 872 + 16 + 10 * 8 + 10 },
};

START_TEST(parameter_counts)
{
	set_model(families[_i].model);
	ck_assert_ok(training_build(&config, families[_i].sample, 4, &arena, &graph));
	ck_assert_ok(graph_check(&graph));
	ck_assert_uint_eq(parameter_count(), families[_i].parameters);
}
END_TEST

/* Weight then bias, the main path before the shortcut: the numbering that `network.init: hash` relies on. */
START_TEST(parameter_order)
{
	static const char *const expected[] = {
		"conv1/weight",
		"norm1/weight",
		"norm1/bias",
		"stage1/block1/conv1/weight",
		"stage1/block1/norm1/weight",
		"stage1/block1/norm1/bias",
		"stage1/block1/conv2/weight",
		"stage1/block1/norm2/weight",
		"stage1/block1/norm2/bias",
		"stage2/block1/conv1/weight",
		"stage2/block1/norm1/weight",
		"stage2/block1/norm1/bias",
		"stage2/block1/conv2/weight",
		"stage2/block1/norm2/weight",
		"stage2/block1/norm2/bias",
		"stage2/block1/conv_shortcut/weight",
		"stage2/block1/norm_shortcut/weight",
		"stage2/block1/norm_shortcut/bias",
		"stage3/block1/conv1/weight",
	};
	size_t n = 0;
	set_model("model: {family: resnet, depth: 8}");
	ck_assert_ok(training_build(&config, &cifar, 4, &arena, &graph));
	for (uint32_t t = 0; t < graph.tensors && n < sizeof expected / sizeof expected[0]; t++)
		if (graph.tensor[t].role == ROLE_PARAMETER && graph.tensor[t].producer == OP_NONE)
			ck_assert_str_eq(tensor_name(&graph, t), expected[n++]);
	ck_assert_uint_eq(n, sizeof expected / sizeof expected[0]);
	/* fan_in = 3 * 3 * 3 */
	const struct tensor *first = &graph.tensor[graph_find(&graph, "conv1/weight")];
	ck_assert_int_eq(first->init, INIT_UNIFORM);
	ck_assert_float_eq(first->init_bound, (float)sqrt(6.0 / 27));
	ck_assert_int_eq(graph.tensor[graph_find(&graph, "norm1/weight")].init, INIT_ONE);
}
END_TEST

static uint32_t count_kind(enum op_kind kind)
{
	uint32_t count = 0;
	for (uint32_t op = 0; op < graph.ops; op++)
		count += graph.op[op].kind == (uint32_t)kind;
	return count;
}

/* resnet: every relu becomes part of a batch norm or of the sum. */
START_TEST(resnet_structure)
{
	set_model("model: {family: resnet, depth: 20}");
	ck_assert_ok(training_build(&config, &cifar, 4, &arena, &graph));
	ck_assert_uint_eq(count_kind(OP_CONV2D), 21);
	ck_assert_uint_eq(count_kind(OP_BATCH_APPLY), 21);
	ck_assert_uint_eq(count_kind(OP_RUNNING_UPDATE), 21);
	ck_assert_uint_eq(count_kind(OP_ACTIVATION), 0);
	ck_assert_uint_eq(count_kind(OP_CONV2D_GRAD_WEIGHT), 21);
	ck_assert_uint_eq(count_kind(OP_CONV2D_GRAD_INPUT), 20); /* not for the images */
	ck_assert_uint_eq(count_kind(OP_MOMENTUM), 65);
	uint32_t last = graph_find(&graph, "stage3/block3/relu2");
	ck_assert_uint_ne(last, TENSOR_NONE);
	ck_assert_uint_eq(graph.tensor[last].dim[1], 8);
	ck_assert_uint_eq(graph.tensor[last].dim[3], 64);
}
END_TEST

/* lenet's features go into the dense layer in PyTorch's order. */
START_TEST(lenet_permutes)
{
	set_model("model: {family: lenet}");
	ck_assert_ok(training_build(&config, &fashion, 4, &arena, &graph));
	ck_assert_uint_eq(count_kind(OP_PERMUTE), 2); /* forward and backward */
	uint32_t flat = graph_find(&graph, "flatten");
	ck_assert_uint_eq(graph.tensor[flat].dim[1], 3136);
}
END_TEST

static const struct {
	const char *model, *sentence;
	const struct sample_shape *sample;
} errors[] = {
	{ "model: {family: resent}", "did you mean", &cifar },
	{ "model: {width: 16}", "model needs the key family", &cifar },
	{ "model: {family: resnet, depht: 20}", "resnet has no parameter depht; did you mean depth", &cifar },
	{ "model: {family: lenet, zebra: 1}", "lenet has no parameter zebra", &cifar },
	{ "model: {family: resnet, depth: 21}", "depth 21 is not 6n + 2; the nearest are 20 and 26", &cifar },
	{ "model: {family: resnet_imagenet, depth: 20}", "depth 20 is not one of 18, 34, 50, 101, 152", &imagenet },
	{ "model: {family: vgg, depth: 12}", "depth 12 is not one of 11, 13, 16, 19", &cifar },
	{ "model: {family: vgg}", "stage5/pool: max_pool: a kernel that spans 2 is larger", &fashion },
	{ "model: {family: unet, levels: 8}", "cannot be halved 7 times; height and width must be multiples of 128",
	  &pixels },
	{ "model: {family: vit, patch: 3}", "images of 32x32 cannot be cut into patches of 3x3", &cifar },
	{ "model: {family: unet}", "cross-entropy with 10 classes needs 4x10", &cifar },
	{ "model: {family: densenet, depth: 41}", "depth 41 is not 6n + 4; the nearest are 40 and 46", &cifar },
	{ "model: {family: mobilenetv2, width_percent: 5}", "net.yaml:1:", &cifar },
	{ "model: {family: resnet, depth: 20.5}", "net.yaml:1:", &cifar },
	{ "model: {family: resnet, depth: 0}", "net.yaml:1:", &cifar },
	{ "model: {family: resnet}", "resnet: conv1: the input input has the shape 4x784, needed is an image",
	  &vector },
	{ "model: resnet", "must be a map", &cifar },
	{ "model: {family: gpt}", "gpt: token: the input input holds f32, needed are token ids", &cifar },
	{ "model: {family: gpt, width: 10, heads: 3}", "10 channels cannot be divided into 3 heads", &words },
	{ "model: {family: gpt, heads: 8, key_heads: 3}", "key_heads is 3, it must divide heads, 8", &words },
	{ "model: {family: lenet}", "needed is an image", &words },
};

START_TEST(errors_are_named)
{
	set_model(errors[_i].model);
	ck_assert_fails(training_build(&config, errors[_i].sample, 4, &arena, &graph), TARN_EINVAL,
			errors[_i].sentence);
	ck_assert_msg(!strncmp(tarn_error(), "net.yaml:1:", 11), "%s", tarn_error());
}
END_TEST

START_TEST(help_names_every_parameter)
{
	char text[16384] = "";
	FILE *out = fmemopen(text, sizeof text - 1, "w");
	models_help(out);
	fclose(out);
	for (uint32_t i = 0; i < model_families_count; i++) {
		ck_assert_ptr_nonnull(strstr(text, model_families[i]->name));
		for (uint32_t k = 0; k < model_families[i]->keys; k++)
			ck_assert_ptr_nonnull(strstr(text, model_families[i]->key[k].help));
	}
}
END_TEST

#define COUNT(array) (int)(sizeof array / sizeof array[0])

int main(void)
{
	Suite *suite = suite_create("models");
	TCase *tc = tcase_create("models");
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_loop_test(tc, parameter_counts, 0, COUNT(families));
	tcase_add_test(tc, parameter_order);
	tcase_add_test(tc, resnet_structure);
	tcase_add_test(tc, lenet_permutes);
	tcase_add_loop_test(tc, errors_are_named, 0, COUNT(errors));
	tcase_add_test(tc, help_names_every_parameter);
	suite_add_tcase(suite, tc);
	return testing_run(suite);
}
