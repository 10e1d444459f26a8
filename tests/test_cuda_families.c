/*
 * test_cuda_families.c - whole training steps of every family of networks on the simulated device: the same losses as
 * the cpu driver, and bit-identical weights whatever the strategy, the budget, offload, recording, and the order of
 * blocks, threads and streams. make check takes three families and a few combinations, make check-slow all of them.
 */
#include "support/cudasim_control.h"
#include "support/testing.h"
#include "support/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMAGES "data: {type: synthetic, shape: [8, 8, 3], classes: 3, batch: 2, samples: 4}\n"
#define PIXELS "data: {type: synthetic, shape: [8, 8, 3], classes: 3, pixel_labels: true, batch: 2, samples: 4}\n"
#define TOKENS "data: {type: synthetic, context: 9, classes: 23, batch: 2, samples: 4}\n"
#define ADAMW                                                                                 \
	"optimizer: {type: adamw, learning_rate: 1e-3, weight_decay: 0.01, clip_norm: 1.0}\n" \
	"train: {seed: 3, epochs: 2}\n"
#define MOMENTUM "optimizer: {type: momentum, learning_rate: 0.02}\ntrain: {seed: 3, epochs: 2}\n"

/* The first three are in make check. */
static const struct {
	const char *name, *text;
} families[] = {
	{ "unet", PIXELS "model: {family: unet, levels: 2, width: 4}\n" MOMENTUM },
	{ "gpt", TOKENS "model: {family: gpt, layers: 2, width: 8, heads: 2, key_heads: 1, rotary: 100, dropout: 10}\n"
			"network: {chunked_loss: true}\n" ADAMW },
	{ "lstm", TOKENS "model: {family: lstm, width: 6, layers: 2, chunk: 4}\n" ADAMW },
	{ "gpt with whole matrices",
	  TOKENS "model: {family: gpt, layers: 2, width: 8, heads: 2, plain: 1, tied: 1}\n" ADAMW },
	{ "gru", TOKENS "model: {family: gru, width: 6, layers: 1, chunk: 4}\n" ADAMW },
	{ "vit", IMAGES "model: {family: vit, patch: 4, layers: 1, width: 8, heads: 2}\n" ADAMW },
	{ "densenet", IMAGES "model: {family: densenet, depth: 10, growth: 4}\n" MOMENTUM },
	{ "pixelcnn", PIXELS "model: {family: pixelcnn, layers: 1, width: 4}\n" ADAMW },
	{ "mobilenetv2", IMAGES "model: {family: mobilenetv2, width_percent: 10}\n" MOMENTUM },
};
#define FAST 3
#define SIXTEEN_BITS 2 /* of them are tried in 16 bits */
#define FAMILIES ((int)(sizeof families / sizeof *families))

static const char *const strategies[] = { "memory.recompute=min", "memory.recompute=memory-poor",
					  "memory.recompute=sqrt", "memory.recompute=speed" };

static bool slow(void)
{
	const char *text = getenv("TARN_TEST_SLOW");
	return text && *text;
}

static void shuffle(const struct cudasim *sim, int seed)
{
	char settings[32], message[256];
	snprintf(settings, sizeof settings, "seed=%d", seed);
	ck_assert_msg(sim->configure(settings, message, sizeof message), "%s", message);
}

START_TEST(trains_like_the_cpu)
{
	if (!cudasim_is_there())
		TESTING_SKIP("the simulated libraries are not built: this build has no CUDA driver");
	struct training training = { .text = families[_i].text, .steps = 2 };
	struct training_result cpu, cuda;
	struct cudasim sim;
	ck_assert(!unsetenv("TARN_TEST_DRIVER"));
	ck_assert_ok(training_run(&training, &cpu));
	cudasim_load(&sim, CUDASIM_CUDNN);
	ck_assert_ok(training_run(&training, &cuda));
	cudasim_check(&sim, families[_i].name);
	ck_assert_msg(fabs(cpu.first_loss - cuda.first_loss) <= 1e-5 * fabs(cpu.first_loss),
		      "%s: first loss %.9g, cpu %.9g", families[_i].name, cuda.first_loss, cpu.first_loss);
	ck_assert_msg(fabs(cpu.last_loss - cuda.last_loss) <= 1e-4 * fabs(cpu.last_loss),
		      "%s: second loss %.9g, cpu %.9g", families[_i].name, cuda.last_loss, cpu.last_loss);
}
END_TEST

static void expect_hash(const struct training *training, uint64_t hash, const char *name, const char *what, int seed)
{
	struct training_result result;
	ck_assert_ok(training_run(training, &result));
	ck_assert_msg(result.hash == hash, "%s, %s, seed %d: weights %016llx, not %016llx", name, what, seed,
		      (unsigned long long)result.hash, (unsigned long long)hash);
}

/* The least budget with offload is in the sentence that refuses a smaller one; 0: none is smaller than without. */
static uint64_t least_with_offload(const struct training *plain)
{
	static const char before[] = "memory.offload: true is ";
	struct training training = *plain;
	struct training_result result;
	training.override[0] = "memory.offload=true";
	training.override[1] = "memory.budget=1MiB";
	ck_assert_fails(training_plan(&training, &result), TARN_EBUDGET, "");
	const char *at = strstr(tarn_error(), before);
	return at ? strtoull(at + strlen(before), NULL, 10) : 0;
}

START_TEST(nothing_but_the_seed_changes_the_weights)
{
	if (!cudasim_is_there())
		TESTING_SKIP("the simulated libraries are not built: this build has no CUDA driver");
	const char *name = families[_i].name;
	struct training training = { .text = families[_i].text, .steps = slow() ? 2 : 1 };
	struct training_result none;
	struct cudasim sim;
	int seed = 1;
	cudasim_load(&sim, CUDASIM_CUDNN);
	uint64_t offloaded = least_with_offload(&training);
	training.override[0] = "memory.recompute=none";
	ck_assert_ok(training_run(&training, &none));
	for (size_t i = 0; i < sizeof strategies / sizeof *strategies && (!i || slow()); i++, seed++) {
		shuffle(&sim, seed);
		training.override[0] = strategies[i];
		training.override[1] = i % 2 ? "device.graph=false" : NULL;
		expect_hash(&training, none.hash, name, strategies[i], seed);
	}
	for (int round = 0; round < (slow() ? 4 : 1); round++, seed++) {
		shuffle(&sim, seed);
		training.override[0] = training_budget(offloaded ? offloaded : none.info.min_budget_bytes);
		training.override[1] = offloaded ? "memory.offload=true" : "device.graph=true";
		training.override[2] = round % 2 ? "device.graph=false" : NULL;
		expect_hash(&training, none.hash, name, "the smallest budget", seed);
	}
	cudasim_check(&sim, name);
}
END_TEST

/* Activations of 16 bits: near the loss in float32, and the same weights whatever is recomputed, in any order. */
START_TEST(sixteen_bits_train_alike)
{
	if (!cudasim_is_there())
		TESTING_SKIP("the simulated libraries are not built: this build has no CUDA driver");
	const char *name = families[_i].name, *format = "precision.compute=bfloat16";
	struct training training = { .text = families[_i].text, .steps = 1 };
	struct training_result wide, narrow;
	struct cudasim sim;
	cudasim_load(&sim, CUDASIM_CUDNN);
	ck_assert_ok(training_run(&training, &wide));
	training.override[0] = format;
	ck_assert_ok(training_run(&training, &narrow));
	ck_assert_msg(fabs(narrow.first_loss - wide.first_loss) <= 0x1p-6 * fabs(wide.first_loss),
		      "%s: first loss %.9g, in float32 %.9g", name, narrow.first_loss, wide.first_loss);
	ck_assert_uint_ne(narrow.hash, wide.hash);
	shuffle(&sim, 1);
	training.override[1] = "memory.recompute=min";
	expect_hash(&training, narrow.hash, name, format, 1);
	cudasim_check(&sim, name);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cuda_families");
	TCase *cpu = tcase_create("cpu"), *identity = tcase_create("identity");
	tcase_set_timeout(cpu, 600);
	tcase_set_timeout(identity, 1800);
	tcase_add_loop_test(cpu, trains_like_the_cpu, 0, slow() ? FAMILIES : FAST);
	tcase_add_loop_test(identity, nothing_but_the_seed_changes_the_weights, 0, slow() ? FAMILIES : FAST);
	tcase_add_loop_test(identity, sixteen_bits_train_alike, 0, SIXTEEN_BITS);
	suite_add_tcase(suite, cpu);
	suite_add_tcase(suite, identity);
	return testing_run(suite);
}
