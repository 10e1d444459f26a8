/*
 * test_pixelcnnpp.c - PixelCNN++ is autoregressive: the parameters of a pixel's distribution depend on the pixels
 * before it, row by row, and on no other.
 */
#include "base/hash_numbers.h"
#include "config/yaml_tree.h"
#include "grad/program.h"
#include "graph/build.h"
#include "support/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SIZE 8u
#define PIXELS (SIZE * SIZE)
#define MIXTURES 2u

static struct host_arena arena;
static struct graph graph;
static struct program program;
static uint32_t channels, parameters, output;

static void open_network(const char *model, uint32_t image_channels)
{
	static struct config config;
	const struct sample_shape sample = { .dim = { SIZE, SIZE, image_channels }, .rank = 3 };
	struct yaml_node *root;
	uint32_t loss;
	channels = image_channels;
	parameters = (channels == 1 ? 3 : 10) * MIXTURES;
	config.network.loss = LOSS_LOGISTIC_MIXTURE;
	config.network.target = TARGET_INPUT;
	host_arena_init(&arena);
	ck_assert_ok(graph_init(&graph, &arena));
	ck_assert_ok(yaml_parse(model, strlen(model), "net.yaml", &arena, &root));
	config.model = yaml_find(root, "model");
	ck_assert_ok(network_build(&config, &sample, 1, BUILD_INFERENCE, &arena, &graph, &loss, &output));
	ck_assert_ok(program_open(&program, driver_find("cpu"), &graph, 1, &arena));
	for (uint32_t t = 0; t < graph.tensors; t++) {
		if (graph.tensor[t].role != ROLE_PARAMETER)
			continue;
		uint64_t n = tensor_elements(&graph.tensor[t]);
		float *value = HOST_ARRAY(&arena, n, float);
		for (uint64_t i = 0; i < n; i++)
			value[i] = hash_uniform(1000 + t, i, 1.0f);
		ck_assert_ok(program_write(&program, t, value));
	}
}

static void close_network(void)
{
	program_close(&program);
	host_arena_fini(&arena);
}

static void run(const float *image, float *result)
{
	ck_assert_ok(program_write(&program, graph_find(&graph, "staging/input"), image));
	ck_assert_ok(program_run(&program));
	ck_assert_ok(program_read(&program, output, result));
}

static const struct {
	const char *model;
	uint32_t channels;
} networks[] = {
	{ "model: {family: pixelcnnpp, levels: 3, resnets: 1, filters: 4, mixtures: 2}\n", 3 },
	{ "model: {family: pixelcnnpp, levels: 1, resnets: 2, filters: 3, mixtures: 2}\n", 1 },
	{ "model: {family: pixelcnnpp, levels: 2, resnets: 0, filters: 4, mixtures: 2}\n", 3 },
};

/* Each pixel of the image is changed in turn; the parameters that change are those of later pixels, the next included.
 */
START_TEST(a_pixel_depends_on_those_before_it)
{
	float image[PIXELS * 3], plain[PIXELS * 10 * MIXTURES], changed[PIXELS * 10 * MIXTURES];
	open_network(networks[_i].model, networks[_i].channels);
	for (uint32_t i = 0; i < PIXELS * channels; i++)
		image[i] = hash_uniform(1, i, 1.0f);
	run(image, plain);
	for (uint32_t pixel = 0; pixel < PIXELS; pixel++) {
		uint32_t reached = 0;
		for (uint32_t c = 0; c < channels; c++)
			image[pixel * channels + c] += 0.5f;
		run(image, changed);
		for (uint32_t c = 0; c < channels; c++)
			image[pixel * channels + c] -= 0.5f;
		for (uint32_t p = 0; p < PIXELS; p++) {
			bool same =
				!memcmp(plain + p * parameters, changed + p * parameters, parameters * sizeof *plain);
			ck_assert_msg(same || p > pixel,
				      "network %d: pixel %u depends on pixel %u, which is not before it", _i, p, pixel);
			reached += !same;
			bool left = p == pixel + 1 && p % SIZE, above = p == pixel + SIZE;
			ck_assert_msg(!same || (!left && !above),
				      "network %d: pixel %u does not depend on its neighbour %u", _i, p, pixel);
		}
		ck_assert_msg(reached || pixel == PIXELS - 1, "network %d: nothing depends on pixel %u", _i, pixel);
	}
	close_network();
}
END_TEST

START_TEST(refuses_what_it_cannot_model)
{
	static const struct {
		const char *model, *sentence;
		struct sample_shape sample;
	} cases[] = {
		{ "model: {family: pixelcnnpp}\n", "multiples of 4", { .dim = { 10, 8, 3 }, .rank = 3 } },
		{ "model: {family: pixelcnnpp}\n", "images with 1 or 3 channels", { .dim = { 8, 8, 2 }, .rank = 3 } },
		{ "model: {family: pixelcnnpp}\n", "images with 1 or 3 channels", { .dim = { 8 }, .rank = 1 } },
		{ "model: {family: pixelcnnpp, levels: 1}\n", "one row or column", { .dim = { 1, 8, 1 }, .rank = 3 } },
		{ "model: {family: pixelcnnpp, levels: 9}\n", "levels", { .dim = { 8, 8, 1 }, .rank = 3 } },
	};
	struct config config = { .network = { .loss = LOSS_LOGISTIC_MIXTURE, .target = TARGET_INPUT } };
	struct yaml_node *root;
	uint32_t loss;
	host_arena_init(&arena);
	ck_assert_ok(graph_init(&graph, &arena));
	ck_assert_ok(yaml_parse(cases[_i].model, strlen(cases[_i].model), "net.yaml", &arena, &root));
	config.model = yaml_find(root, "model");
	ck_assert_fails(network_build(&config, &cases[_i].sample, 1, BUILD_TRAINING, &arena, &graph, &loss, &output),
			TARN_EINVAL, cases[_i].sentence);
	host_arena_fini(&arena);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pixelcnnpp");
	TCase *tcase = tcase_create("pixelcnnpp");
	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, a_pixel_depends_on_those_before_it, 0, sizeof networks / sizeof *networks);
	tcase_add_loop_test(tcase, refuses_what_it_cannot_model, 0, 5);
	suite_add_tcase(suite, tcase);
	return testing_run(suite);
}
