/*
 * test_cuda_families.c - whole training steps of every family of networks on the simulated device: the same losses as
 * the cpu driver, and bit-identical weights whatever the strategy, the budget, offload, recording, and the order of
 * blocks, threads and streams; so do the optimizers, a step in parts, tasks in a step, and products with the Hessian.
 * make check takes three families and a few combinations, make check-slow all of them.
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
#define EPOCHS "train: {seed: 3, epochs: 2}\n"
/* A matrix of 64 x 72, whose moments may have 8 bits, and smaller parameters. */
#define DENSE                                                                      \
	"data: {type: synthetic, shape: [72], classes: 3, batch: 4, samples: 8}\n" \
	"layers: [dense: {name: a, features: 64}, layer_norm, relu, dense: {name: b, features: 3}]\n"
#define MOMENTUM "optimizer: {type: momentum, learning_rate: 0.02}\ntrain: {seed: 3, epochs: 2}\n"

/* In make check the first three, and those that are no families; in make check-slow all. */
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
	/* What is not a family: a step in parts with averages of the weights, the other optimizers, tasks in a step. */
	{ "parts and averages", TOKENS "model: {family: gpt, layers: 1, width: 8, heads: 2}\n"
				       "optimizer: {type: adamw, learning_rate: 1e-3, clip_norm: 1.0}\n"
				       "train: {seed: 3, epochs: 2, accumulate: 2, ema: 0.9}\n" },
	{ "lion", DENSE "optimizer: {type: lion, learning_rate: 1e-3, weight_decay: 0.1}\n" EPOCHS },
	{ "adafactor", DENSE "optimizer: {type: adafactor, learning_rate: 0.05, clip_norm: 1.0}\n" EPOCHS },
	{ "8-bit adam", DENSE "optimizer: {type: adamw, state: int8, learning_rate: 1e-3, clip_norm: 1.0}\n" EPOCHS },
	{ "maml", "data: {type: synthetic, shape: [6, 6, 1], classes: 4, samples: 40}\n"
		  "layers: [conv2d: {channels: 3, kernel: 3}, batch_norm, relu, max_pool: 2, flatten, dense: 2]\n"
		  "objective: {type: maml, ways: 2, shots: 1, queries: 2, tasks: 2, inner_steps: 2, inner_rate: 0.3}\n"
		  "optimizer: {type: adam, learning_rate: 1e-2}\n" EPOCHS },
};
#define FAST 3
#define SIXTEEN_BITS 2 /* of them are tried in 16 bits */
#define NETWORKS 9
#define FAMILIES ((int)(sizeof families / sizeof *families))

static const char *const strategies[] = { "memory.recompute=min", "memory.recompute=memory-poor",
					  "memory.recompute=sqrt", "memory.recompute=speed" };

static bool slow(void)
{
	const char *text = getenv("TARN_TEST_SLOW");
	return text && *text;
}

/* Iterations beyond the first ones stand for what is no family. */
static int tested(int i)
{
	return slow() || i < FAST ? i : i - FAST + NETWORKS;
}
#define TESTED (slow() ? FAMILIES : FAST + FAMILIES - NETWORKS)

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
	const int i = tested(_i);
	struct training training = { .text = families[i].text, .steps = 2 };
	struct training_result cpu, cuda;
	struct cudasim sim;
	ck_assert(!unsetenv("TARN_TEST_DRIVER"));
	ck_assert_ok(training_run(&training, &cpu));
	cudasim_load(&sim, CUDASIM_CUDNN);
	ck_assert_ok(training_run(&training, &cuda));
	cudasim_check(&sim, families[i].name);
	ck_assert_msg(fabs(cpu.first_loss - cuda.first_loss) <= 1e-5 * fabs(cpu.first_loss),
		      "%s: first loss %.9g, cpu %.9g", families[i].name, cuda.first_loss, cpu.first_loss);
	ck_assert_msg(fabs(cpu.last_loss - cuda.last_loss) <= 1e-4 * fabs(cpu.last_loss),
		      "%s: second loss %.9g, cpu %.9g", families[i].name, cuda.last_loss, cpu.last_loss);
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
	const char *name = families[tested(_i)].name;
	struct training training = { .text = families[tested(_i)].text, .steps = slow() ? 2 : 1 };
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

/*
 * Activations of 16 bits: near the loss of the cpu driver in the same format, which for some of these tiny networks is
 * far from the one in float32, and the same weights whatever is recomputed, in any order.
 */
START_TEST(sixteen_bits_train_alike)
{
	if (!cudasim_is_there())
		TESTING_SKIP("the simulated libraries are not built: this build has no CUDA driver");
	const char *name = families[_i].name, *format = "precision.compute=bfloat16";
	struct training training = { .text = families[_i].text, .steps = 1 };
	struct training_result wide, narrow, cpu;
	struct cudasim sim;
	training.override[0] = format;
	ck_assert(!unsetenv("TARN_TEST_DRIVER"));
	ck_assert_ok(training_run(&training, &cpu));
	cudasim_load(&sim, CUDASIM_CUDNN);
	ck_assert_ok(training_run(&training, &narrow));
	ck_assert_msg(fabs(narrow.first_loss - cpu.first_loss) <= 0x1p-6 * fabs(cpu.first_loss),
		      "%s: first loss %.9g, cpu %.9g", name, narrow.first_loss, cpu.first_loss);
	shuffle(&sim, 1);
	training.override[1] = "memory.recompute=min";
	expect_hash(&training, narrow.hash, name, format, 1);
	training.override[0] = training.override[1] = NULL;
	ck_assert_ok(training_run(&training, &wide));
	ck_assert_uint_ne(narrow.hash, wide.hash);
	cudasim_check(&sim, name);
}
END_TEST

/* ---- products with the Hessian ---- */

#define PARAMETERS 4096

/* H v for v of ones; the number of parameters. */
static uint64_t multiply_by_hessian(const char *mode, const char *strategy, bool cuda, float *product, double *loss)
{
	static const char text[] = "data: {type: synthetic, shape: [6, 6, 2], classes: 3, batch: 8, samples: 8}\n"
				   "layers: [conv2d: {channels: 3, kernel: 3}, batch_norm, tanh, max_pool: 2, flatten, "
				   "dense: 4, gelu, dense: 3]\n"
				   "train: {seed: 3}\n";
	const char *override[] = { "objective.type=hvp", mode, strategy,
				   cuda ? "device.driver=cuda" : "train.threads=1" };
	struct tarn_options options = { .config_text = text, .override = override, .overrides = 4 };
	struct tarn_session *session;
	static float ones[PARAMETERS];
	uint64_t n = 0, elements;
	ck_assert_ok(tarn_open(&options, &session));
	for (uint32_t i = 0; tarn_hessian_parameter(session, i, &elements); i++)
		n += elements;
	ck_assert_uint_le(n, PARAMETERS);
	for (uint64_t i = 0; i < n; i++)
		ones[i] = 1;
	ck_assert_ok(tarn_hessian_write(session, TARN_VECTOR_INPUT, ones, n));
	ck_assert_ok(tarn_hessian_multiply(session, loss));
	ck_assert_ok(tarn_hessian_read(session, TARN_VECTOR_PRODUCT, product, n));
	tarn_close(session);
	return n;
}

START_TEST(hessian_times_a_vector)
{
	if (!cudasim_is_there())
		TESTING_SKIP("the simulated libraries are not built: this build has no CUDA driver");
	const char *mode = _i ? "hvp.mode=forward" : "hvp.mode=reverse";
	static float cpu[PARAMETERS], none[PARAMETERS], other[PARAMETERS];
	double cpu_loss, loss, largest = 0;
	struct cudasim sim;
	uint64_t n = multiply_by_hessian(mode, "memory.recompute=none", false, cpu, &cpu_loss);
	cudasim_load(&sim, CUDASIM_CUDNN);
	ck_assert_uint_eq(multiply_by_hessian(mode, "memory.recompute=none", true, none, &loss), n);
	ck_assert_msg(fabs(loss - cpu_loss) <= 1e-5 * cpu_loss, "loss %.9g, cpu %.9g", loss, cpu_loss);
	for (uint64_t i = 0; i < n; i++)
		largest = fmax(largest, fabs((double)cpu[i]));
	for (uint64_t i = 0; i < n; i++)
		ck_assert_msg(fabs((double)none[i] - (double)cpu[i]) <= 1e-4 * largest, "%s, %llu: %.9g, cpu %.9g",
			      mode, (unsigned long long)i, (double)none[i], (double)cpu[i]);
	for (size_t i = 0; i < sizeof strategies / sizeof *strategies && (!i || slow()); i++) {
		shuffle(&sim, (int)i + 1);
		multiply_by_hessian(mode, strategies[i], true, other, &loss);
		ck_assert_mem_eq(other, none, n * sizeof *none);
	}
	cudasim_check(&sim, mode);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cuda_families");
	TCase *cpu = tcase_create("cpu"), *identity = tcase_create("identity"), *formats = tcase_create("formats");
	tcase_set_timeout(cpu, 600);
	tcase_set_timeout(identity, 1800);
	tcase_set_timeout(formats, 1800);
	tcase_add_loop_test(cpu, trains_like_the_cpu, 0, TESTED);
	tcase_add_loop_test(identity, nothing_but_the_seed_changes_the_weights, 0, TESTED);
	tcase_add_loop_test(formats, sixteen_bits_train_alike, 0, slow() ? NETWORKS : SIXTEEN_BITS);
	tcase_add_loop_test(identity, hessian_times_a_vector, 0, 2);
	suite_add_tcase(suite, cpu);
	suite_add_tcase(suite, identity);
	suite_add_tcase(suite, formats);
	return testing_run(suite);
}
