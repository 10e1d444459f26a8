/*
 * test_cuda_driver.c - the CUDA driver on the simulated device: training, bit-identity, the ledger, every call failing
 * once, offload. The simulator executes the PTX that ships and accounts for every byte; see tests/cudasim.
 *
 * Op by op the driver is judged by the conformance suite, which tests/test_cuda_suites.sh runs on the simulated device.
 */
#include "conformance/case_run.h"
#include "conformance/stored_form.h"
#include "driver.h"
#include "support/cudasim_control.h"
#include "support/testing.h"
#include "support/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SKIP_WITHOUT_SIMULATOR                                                                                \
	do {                                                                                                  \
		if (!cudasim_is_there())                                                                      \
			TESTING_SKIP("the simulated libraries are not built: this build has no CUDA driver"); \
	} while (0)

static const char mlp[] = "data: {type: synthetic, shape: [20], classes: 4, batch: 16, samples: 64}\n"
			  "layers:\n"
			  "- dense: {name: a, features: 32}\n"
			  "- relu\n"
			  "- dense: {name: b, features: 32}\n"
			  "- layer_norm\n"
			  "- gelu\n"
			  "- dropout: 0.2\n"
			  "- dense: {name: c, features: 4}\n"
			  "optimizer: {type: adamw, learning_rate: 1e-2, clip_norm: 1.0}\n"
			  "train: {seed: 3, epochs: 2}\n";

static const char small[] = "data: {type: synthetic, shape: [6, 6, 3], classes: 3, batch: 4, samples: 8}\n"
			    "layers:\n"
			    "- conv2d: {name: stem, channels: 4, kernel: 3, padding: 1}\n"
			    "- batch_norm\n"
			    "- relu\n"
			    "- max_pool: 2\n"
			    "- flatten\n"
			    "- dense: 3\n"
			    "train: {seed: 3, epochs: 2}\n";

static const char gpt[] = "data: {type: synthetic, context: 4, classes: 7, batch: 1, samples: 2}\n"
			  "model: {family: gpt, layers: 1, width: 4, heads: 2}\n"
			  "network: {chunked_loss: true}\n"
			  "train: {seed: 3, epochs: 2}\n";

static const char lenet[] = "data: {type: synthetic, shape: [16, 16, 1], classes: 10, batch: 4, samples: 8}\n"
			    "model: {family: lenet}\n"
			    "optimizer: {type: momentum, learning_rate: 0.02}\n"
			    "train: {seed: 3, epochs: 2}\n";

static const char resnet[] = "data: {type: synthetic, shape: [12, 12, 3], classes: 10, batch: 4, samples: 8}\n"
			     "model: {family: resnet, depth: 8}\n"
			     "optimizer: {type: momentum, learning_rate: 0.02, weight_decay: 1e-4}\n"
			     "train: {seed: 3, epochs: 2}\n";

static const struct {
	const char *name, *text;
	unsigned libraries;
} networks[] = { { "mlp", mlp, 0 },
		 { "own convolutions", small, 0 },
		 { "lenet", lenet, CUDASIM_CUDNN },
		 { "resnet-8", resnet, CUDASIM_CUDNN } };
#define NETWORKS ((int)(sizeof networks / sizeof *networks))

/* The same losses as the cpu driver, to what rounding leaves after two steps. */
START_TEST(trains_like_the_cpu)
{
	SKIP_WITHOUT_SIMULATOR;
	struct training training = { .text = networks[_i].text, .steps = 2 };
	struct training_result cpu, cuda;
	struct cudasim sim;
	ck_assert(!unsetenv("TARN_TEST_DRIVER"));
	ck_assert_ok(training_run(&training, &cpu));
	cudasim_load(&sim, networks[_i].libraries);
	ck_assert_ok(training_run(&training, &cuda));
	cudasim_check(&sim, networks[_i].name);
	ck_assert_msg(fabs(cpu.first_loss - cuda.first_loss) <= 1e-5 * fabs(cpu.first_loss),
		      "%s: first loss %.9g, cpu %.9g", networks[_i].name, cuda.first_loss, cpu.first_loss);
	ck_assert_msg(fabs(cpu.last_loss - cuda.last_loss) <= 1e-4 * fabs(cpu.last_loss),
		      "%s: second loss %.9g, cpu %.9g", networks[_i].name, cuda.last_loss, cpu.last_loss);
}
END_TEST

static void expect_hash(const struct training *training, uint64_t hash, const char *name, const char *what)
{
	struct training_result result;
	ck_assert_ok(training_run(training, &result));
	ck_assert_msg(result.hash == hash, "%s, %s: weights %016llx, not %016llx", name, what,
		      (unsigned long long)result.hash, (unsigned long long)hash);
}

/* Products and convolutions by the libraries on tensors of 16 bits, with results of 16 and of 32. */
START_TEST(libraries_take_16_bits)
{
	SKIP_WITHOUT_SIMULATOR;
	static const enum dtype types[] = { DTYPE_BF16, DTYPE_F16 };
	const struct single_options plain = { .in_place = -1 };
	struct cudasim sim;
	cudasim_load(&sim, CUDASIM_CUDNN);
	for (int i = 0; i < conformance_case_count; i++) {
		const struct conformance_case *test = &conformance_cases[i];
		enum dtype dtype = types[_i / 2], result = _i % 2 ? DTYPE_F32 : dtype;
		struct conformance_case stored;
		struct single_op single;
		bool product = test->kind == OP_MATMUL || test->kind == OP_BATCH_MATMUL || test->kind == OP_CONV2D ||
			       test->kind == OP_CONV2D_GRAD_INPUT || test->kind == OP_CONV2D_GRAD_WEIGHT ||
			       test->kind == OP_LINEAR_CROSS_ENTROPY || test->kind == OP_LINEAR_CROSS_ENTROPY_GRAD;
		if (!product || !conformance_stored_form(test, dtype, result, &stored))
			continue;
		if (test->kind != OP_LINEAR_CROSS_ENTROPY && test->inputs == 3)
			stored.tolerance *= 4; /* the product is rounded before the bias comes to it */
		case_open(&single, driver_find("cuda"), &stored, &plain);
		case_write_inputs(&single, &stored);
		case_check(&single, &stored);
		single_op_close(&single);
	}
	cudasim_check(&sim, "16 bits");
}
END_TEST

/* Strategies, the smallest budget, recorded or launched one by one, and the order of blocks, threads and streams. */
START_TEST(nothing_but_the_seed_changes_the_weights)
{
	SKIP_WITHOUT_SIMULATOR;
	static const char *const overrides[] = { "memory.recompute=memory-poor", "memory.recompute=sqrt",
						 "memory.recompute=speed", "memory.recompute=min",
						 "device.graph=false" };
	const char *name = networks[_i].name;
	struct training training = { .text = networks[_i].text, .override = { "memory.recompute=none" }, .steps = 2 };
	struct training_result none;
	struct cudasim sim;
	char message[256];
	cudasim_load(&sim, networks[_i].libraries);
	ck_assert_ok(training_run(&training, &none));
	for (size_t i = 0; i < sizeof overrides / sizeof *overrides; i++) {
		training.override[0] = overrides[i];
		expect_hash(&training, none.hash, name, overrides[i]);
	}
	training.override[0] = training_budget(none.info.min_budget_bytes);
	for (int seed = 1; seed <= 3; seed++) {
		char settings[32];
		snprintf(settings, sizeof settings, "seed=%d", seed);
		ck_assert_msg(sim.configure(settings, message, sizeof message), "%s", message);
		expect_hash(&training, none.hash, name, settings);
	}
	cudasim_check(&sim, name);
	training.override[0] = "train.seed=4";
	struct training_result other;
	ck_assert_ok(training_run(&training, &other));
	ck_assert_uint_ne(other.hash, none.hash);
}
END_TEST

/* The number behind a text of the last sentence. */
static uint64_t number_behind(const char *text)
{
	const char *at = strstr(tarn_error(), text);
	ck_assert_msg(at != NULL, "\"%s\" does not contain \"%s\"", tarn_error(), text);
	return strtoull(at + strlen(text), NULL, 10);
}

/* Tensors that wait in host memory, recorded or not, in any order of streams: less budget, the same weights. */
START_TEST(offload_changes_no_bit)
{
	SKIP_WITHOUT_SIMULATOR;
	struct training training = { .text = resnet, .steps = 2 };
	struct training_result plain, planned;
	struct cudasim sim;
	char message[256];
	cudasim_load(&sim, CUDASIM_CUDNN);
	ck_assert_ok(training_run(&training, &plain));
	training.override[0] = "memory.offload=true";
	training.override[1] = "memory.budget=1MiB";
	ck_assert_fails(training_plan(&training, &planned), TARN_EBUDGET, "memory.offload: true");
	uint64_t least = number_behind("memory.offload: true is ");
	ck_assert_uint_lt(least, plain.info.min_budget_bytes);
	training.override[1] = training_budget(least);
	for (int seed = 0; seed < 3; seed++) {
		char settings[32];
		snprintf(settings, sizeof settings, "seed=%d", seed);
		ck_assert_msg(sim.configure(settings, message, sizeof message), "%s", message);
		training.override[2] = seed == 1 ? "device.graph=false" : NULL;
		expect_hash(&training, plain.hash, "offload", settings);
	}
	cudasim_check(&sim, "offload");
}
END_TEST

static struct tarn_session *open_session(const char *text, const char *override)
{
	const char *all[] = { training_driver(), override };
	struct tarn_options options = { .config_text = text, .override = all, .overrides = override ? 2 : 1 };
	struct tarn_session *session;
	ck_assert_ok(tarn_open(&options, &session));
	return session;
}

/* Builds with slow checks fill dead ranges with NaN between the ops, so that they launch one by one. */
#ifdef CONFIG_DEBUG_CHECKS
#define STEPS_ARE_RECORDED false
#else
#define STEPS_ARE_RECORDED true
#endif

/* After boot nothing is allocated, open or hidden, and the ledger adds up to what the device says. */
START_TEST(memory_is_frozen_after_boot)
{
	SKIP_WITHOUT_SIMULATOR;
	struct cudasim sim;
	struct tarn_metrics metrics;
	struct tarn_evaluation evaluation;
	struct tarn_ledger ledger;
	uint64_t sum = 0;
	cudasim_load(&sim, networks[_i].libraries);
	struct tarn_session *session = open_session(networks[_i].text, "data.test_samples=8");
	uint64_t used = sim.count(SIM_USED_BYTES);
	sim.freeze(1);
	for (int step = 0; step < 2; step++)
		ck_assert_ok(tarn_step(session, &metrics));
	ck_assert_ok(tarn_evaluate(session, &evaluation));
	sim.freeze(0);
	ck_assert_msg(!sim.failures(), "%s: %s", networks[_i].name, sim.failure(0));
	ck_assert_uint_eq(sim.count(SIM_USED_BYTES), used);
	ck_assert_int_eq(sim.count(SIM_GRAPH_LAUNCHES) > 0, STEPS_ARE_RECORDED);
	tarn_device_ledger(session, &ledger);
	for (uint32_t i = 0; i < ledger.lines; i++)
		sum += ledger.line[i].bytes;
	/* cuMemGetInfo counts in pieces of 2 MiB. */
	ck_assert_uint_ge(sum, used);
	ck_assert_uint_lt(sum, used + (2 << 20));
	ck_assert_uint_eq(sum, ledger.total_bytes + ledger.rounding_bytes);
	ck_assert_int_eq(ledger.recorded, STEPS_ARE_RECORDED);
	tarn_close(session);
	cudasim_check(&sim, networks[_i].name);
}
END_TEST

#define OUT_OF_MEMORY 2
#define NOT_SUPPORTED 801

static void set_neighbour(const struct cudasim *sim, const char *setting)
{
	char message[128];
	ck_assert_msg(sim->configure(setting, message, sizeof message), "%s", message);
}

/*
 * Builds with slow checks compare the device's free memory after every step. With NVML they know whose memory it is:
 * what another process takes is no fault, what this one takes is, before and after the other one was seen.
 */
START_TEST(a_neighbour_is_no_fault)
{
	SKIP_WITHOUT_SIMULATOR;
	if (STEPS_ARE_RECORDED)
		TESTING_SKIP("only builds with slow checks compare the free memory");
	struct cudasim sim;
	struct tarn_metrics metrics;
	cudasim_load(&sim, CUDASIM_NVML);
	set_neighbour(&sim, "neighbour=64MiB");
	struct tarn_session *session = open_session(training_tied, NULL);
	ck_assert_ok(tarn_step(session, &metrics));
	if (_i) {
		set_neighbour(&sim, "neighbour=128MiB");
		ck_assert_ok(tarn_step(session, &metrics));
		set_neighbour(&sim, "neighbour=0");
		ck_assert_ok(tarn_step(session, &metrics));
	}
	sim.freeze(0);
	ck_assert(sim.hidden("the test", 4 << 20));
	ck_assert_fails(tarn_step(session, &metrics), TARN_EINTERNAL, "it allocated or freed in a step");
	ck_assert(sim.hidden("the test", -(4 << 20)));
	tarn_close(session);
	cudasim_check(&sim, "a neighbour");
}
END_TEST

/* Without NVML nothing tells a neighbour from this process, and the sentence says so; the library may fail too. */
START_TEST(without_nvml_a_neighbour_is_a_fault)
{
	SKIP_WITHOUT_SIMULATOR;
	if (STEPS_ARE_RECORDED)
		TESTING_SKIP("only builds with slow checks compare the free memory");
	static const char *const failing[] = { NULL, "nvmlInit", "nvmlDeviceGetHandleByPciBusId",
					       "nvmlDeviceGetComputeRunningProcesses", "cuDeviceGetPCIBusId" };
	struct cudasim sim;
	struct tarn_metrics metrics;
	cudasim_load(&sim, _i ? CUDASIM_NVML : 0);
	if (_i)
		sim.fault(failing[_i], 1, NOT_SUPPORTED);
	struct tarn_session *session = open_session(training_tied, NULL);
	ck_assert_ok(tarn_step(session, &metrics));
	set_neighbour(&sim, "neighbour=64MiB");
	ck_assert_fails(tarn_step(session, &metrics), TARN_EINTERNAL, "without NVML nothing tells which");
	tarn_close(session);
	cudasim_check(&sim, "a neighbour without NVML");
}
END_TEST

/* What the driver takes by itself counts: the refusal lists the stages, and the budget that it names works. */
START_TEST(hidden_memory_counts)
{
	SKIP_WITHOUT_SIMULATOR;
	struct cudasim sim;
	char message[256];
	struct training training = { .text = small, .steps = 1 };
	struct training_result result;
	if (!STEPS_ARE_RECORDED)
		TESTING_SKIP("the memory of a recorded step; this build launches one by one");
	cudasim_load(&sim, 0);
	ck_assert_msg(sim.configure("graph=200MiB", message, sizeof message), "%s", message);
	ck_assert_ok(training_plan(&training, &result));
	training.override[0] = training_budget(result.info.min_budget_bytes);
	ck_assert_fails(training_run(&training, &result), TARN_EBUDGET, "context 300.00 MiB");
	char reserve[64];
	uint64_t budget = number_behind("budget that works is ");
	snprintf(reserve, sizeof reserve, "device.reserve=%llu B",
		 (unsigned long long)number_behind("device.reserve: "));
	training.override[1] = reserve;
	training.override[0] = training_budget(budget);
	ck_assert_ok(training_run(&training, &result));
	training.override[0] = training_budget(budget - 64);
	ck_assert_fails(training_run(&training, &result), TARN_EBUDGET, "is too small");
	cudasim_check(&sim, "a refused budget");
}
END_TEST

/* A device that is full says so before it trains. */
START_TEST(a_full_device_is_refused)
{
	SKIP_WITHOUT_SIMULATOR;
	struct cudasim sim;
	char message[256];
	struct training training = { .text = small, .steps = 1 };
	struct training_result result;
	cudasim_load(&sim, 0);
	ck_assert_msg(sim.configure("total=304MiB", message, sizeof message), "%s", message);
	ck_assert_fails(training_run(&training, &result), TARN_EDEVICE, "CUDA_ERROR_OUT_OF_MEMORY");
	cudasim_check(&sim, "a full device");
}
END_TEST

/* Two steps; *calls: what the device was asked up to the end, which is not counted: a release that fails does leak. */
static enum tarn_status run_counted(const struct cudasim *sim, const char *text, uint64_t *hash, uint64_t *calls)
{
	const char *override[] = { training_driver() };
	const struct tarn_options options = { .config_text = text, .override = override, .overrides = 1 };
	struct tarn_session *session;
	struct tarn_metrics metrics;
	uint64_t before = sim->count(SIM_CALLS);
	enum tarn_status st = tarn_open(&options, &session);
	if (st)
		return st;
	for (int step = 0; step < 2 && !st; step++)
		st = tarn_step(session, &metrics);
	if (!st)
		st = tarn_weights_hash(session, hash);
	*calls = sim->count(SIM_CALLS) - before;
	tarn_close(session);
	return st;
}

/* One call after the other fails once: either it does not matter, or one sentence says which it was. Nothing leaks. */
static void fail_each_call(const char *text, unsigned libraries, uint64_t first, uint64_t stride, int code)
{
	struct cudasim sim;
	uint64_t good, hash, calls, unused, survived = 0;
	cudasim_load(&sim, libraries);
	ck_assert_ok(run_counted(&sim, text, &good, &calls));
	ck_assert_uint_gt(calls, 100);
	for (uint64_t nth = first; nth <= calls; nth += stride) {
		char what[64];
		snprintf(what, sizeof what, "call %llu of %llu fails with %d", (unsigned long long)nth,
			 (unsigned long long)calls, code);
		sim.fault(NULL, nth, code);
		enum tarn_status st = run_counted(&sim, text, &hash, &unused);
		sim.fault(NULL, 0, 0);
		survived += !st;
		if (st)
			ck_assert_msg(strlen(tarn_error()) > 20, "%s: status %d without a sentence", what, st);
		else
			ck_assert_msg(hash == good, "%s and changes the weights", what);
		ck_assert_msg(!st || st == TARN_EDEVICE || st == TARN_EUNSUPPORTED, "%s: status %d: %s", what, st,
			      tarn_error());
		cudasim_check(&sim, what);
	}
	ck_assert_msg(survived < calls / stride / 2, "%llu of %llu failures did not matter",
		      (unsigned long long)survived, (unsigned long long)(calls / stride));
}

static uint64_t stride(uint64_t usual)
{
	const char *slow = getenv("TARN_TEST_SLOW");
	return slow && *slow ? 1 : usual;
}

#define DENSE                                                                      \
	"data: {type: synthetic, shape: [72], classes: 3, batch: 4, samples: 8}\n" \
	"layers: [dense: {name: a, features: 64}, relu, dense: {name: b, features: 3}]\n"
static const char packed[] = DENSE "optimizer: {type: adamw, state: int8, learning_rate: 1e-3, clip_norm: 1.0}\n"
				   "precision: {compute: bfloat16}\n"
				   "train: {seed: 3, epochs: 2, accumulate: 2, ema: 0.9}\n";
static const char factored[] = DENSE "optimizer: {type: adafactor, learning_rate: 0.05, clip_norm: 1.0}\n"
				     "train: {seed: 3, epochs: 2}\n";

START_TEST(every_call_may_fail_once)
{
	SKIP_WITHOUT_SIMULATOR;
	/* Own kernels; cuDNN; attention, batched products and a loss in pieces, which are several calls of an op;
	 * moments of 8 bits, parts, averages and a second module; the kernels of Adafactor. NVML is asked in builds
	 * with slow checks. */
	static const struct {
		const char *text;
		unsigned libraries;
		uint64_t stride;
	} runs[] = { { small, 0, 17 },
		     { small, CUDASIM_CUDNN, 17 },
		     { gpt, 0, 101 },
		     { packed, CUDASIM_NVML, 61 },
		     { factored, CUDASIM_NVML, 61 } };
	fail_each_call(runs[_i].text, runs[_i].libraries, 1, stride(runs[_i].stride), OUT_OF_MEMORY);
	fail_each_call(runs[_i].text, runs[_i].libraries, 5, stride(2 * runs[_i].stride - 5), NOT_SUPPORTED);
}
END_TEST

/* ECC, in a kernel of the third step: the step says so, and the snapshot of the first two is whole. */
START_TEST(a_dying_device_leaves_the_snapshot)
{
	SKIP_WITHOUT_SIMULATOR;
	struct cudasim sim;
	struct tarn_metrics metrics;
	char path[256], override[320];
	snprintf(path, sizeof path, "%s/dying.safetensors", testing_directory());
	snprintf(override, sizeof override, "train.snapshot=%s", path);
	cudasim_load(&sim, 0);
	struct tarn_session *session = open_session(mlp, override);
	uint64_t hash, resumed;
	for (int step = 0; step < 2; step++)
		ck_assert_ok(tarn_step(session, &metrics));
	ck_assert_ok(tarn_save(session, NULL));
	ck_assert_ok(tarn_weights_hash(session, &hash));
	sim.fault("kernel", 3, 214);
	ck_assert_fails(tarn_step(session, &metrics), TARN_EDEVICE, "CUDA_ERROR_ECC_UNCORRECTABLE");
	ck_assert_fails(tarn_save(session, NULL), TARN_EDEVICE, "CUDA_ERROR_ECC_UNCORRECTABLE");
	tarn_close(session);
	ck_assert(!unsetenv("TARN_TEST_DRIVER"));
	const struct tarn_options options = { .config_text = mlp, .resume_path = path };
	ck_assert_ok(tarn_open(&options, &session));
	ck_assert_ok(tarn_weights_hash(session, &resumed));
	ck_assert_uint_eq(hash, resumed);
	tarn_close(session);
}
END_TEST

#define BYTES 4096u

/* A store, other launches in its place, a fetch: the bytes are the same, launched or recorded, in any order of streams.
 */
static void offload_round_trip(struct device *device, struct replay **replay, bool record)
{
	const struct driver_ops *ops = device->ops;
	if (record)
		ck_assert_ok(ops->capture_begin(device));
	ck_assert_ok(ops->store(device, 0, 2 * BYTES, BYTES, 0));
	ck_assert_ok(ops->wait(device, 0));
	ck_assert_ok(ops->poison(device, 0, BYTES));
	ck_assert_ok(ops->fetch(device, BYTES, 2 * BYTES, BYTES, 63));
	ck_assert_ok(ops->wait(device, 63));
	if (record)
		ck_assert_ok(ops->capture_end(device, replay));
}

START_TEST(offloaded_bytes_come_back)
{
	SKIP_WITHOUT_SIMULATOR;
	struct cudasim sim;
	struct host_arena arena;
	char settings[32], message[256];
	unsigned char in[BYTES], out[BYTES];
	cudasim_load(&sim, 0);
	snprintf(settings, sizeof settings, "seed=%d", _i);
	ck_assert_msg(sim.configure(settings, message, sizeof message), "%s", message);
	host_arena_init(&arena);
	struct device device = { .ops = driver_find("cuda"), .host = &arena };
	const struct device_options options = { .workspace_cap = 0 };
	ck_assert_ok(device.ops->open(&device, &options));
	ck_assert_ok(device.ops->reserve(&device, 4 * BYTES, NULL));
	ck_assert_ok(device.ops->reserve_host(&device, 3 * BYTES));
	ck_assert_fails(device.ops->store(&device, 0, 3 * BYTES, BYTES, 0), TARN_EINTERNAL, "outside the host region");
	ck_assert_fails(device.ops->fetch(&device, 4 * BYTES, 0, BYTES, 0), TARN_EINTERNAL, "outside the arena");
	ck_assert_fails(device.ops->store(&device, 0, 0, BYTES, 64), TARN_EINTERNAL, "slot 64");
	for (int round = 0; round < 3; round++) {
		struct replay *replay = NULL;
		for (uint32_t i = 0; i < BYTES; i++)
			in[i] = (uint8_t)(i * 7 + (uint32_t)round);
		ck_assert_ok(device.ops->write(&device, 0, in, BYTES));
		offload_round_trip(&device, &replay, round == 2);
		if (replay)
			ck_assert_ok(device.ops->replay(&device, replay));
		ck_assert_ok(device.ops->read(&device, BYTES, out, BYTES));
		ck_assert_msg(!memcmp(in, out, BYTES), "other bytes came back in round %d", round);
	}
	device.ops->close(&device);
	host_arena_fini(&arena);
	cudasim_check(&sim, "offload");
}
END_TEST

/* A plan runs where it was made, and says what differs elsewhere. */
START_TEST(a_plan_runs_only_on_its_device)
{
	SKIP_WITHOUT_SIMULATOR;
	struct cudasim sim;
	char path[256], message[256];
	snprintf(path, sizeof path, "%s/device.plan", testing_directory());
	cudasim_load(&sim, 0);
	struct tarn_session *session = open_session(small, NULL);
	ck_assert_ok(tarn_plan_save(session, path));
	tarn_close(session);
	struct training training = { .plan = path, .steps = 1 };
	struct training_result result;
	ck_assert_ok(training_run(&training, &result));
	ck_assert_msg(sim.configure("multiprocessors=38", message, sizeof message), "%s", message);
	ck_assert_fails(training_run(&training, &result), TARN_EUNSUPPORTED, "132 multiprocessors");
	ck_assert_msg(strstr(tarn_error(), "38 multiprocessors") != NULL, "%s", tarn_error());
	cudasim_check(&sim, "a plan of another device");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cuda_driver");
	TCase *train = tcase_create("train"), *memory = tcase_create("memory"), *faults = tcase_create("faults");
	tcase_set_timeout(train, 300);
	tcase_set_timeout(memory, 120);
	tcase_set_timeout(faults, 1800);
	tcase_add_loop_test(train, trains_like_the_cpu, 0, NETWORKS);
	tcase_add_loop_test(train, nothing_but_the_seed_changes_the_weights, 0, NETWORKS);
	tcase_add_loop_test(train, libraries_take_16_bits, 0, 4);
	tcase_add_test(train, offload_changes_no_bit);
	tcase_add_test(train, a_plan_runs_only_on_its_device);
	tcase_add_loop_test(memory, memory_is_frozen_after_boot, 0, NETWORKS);
	tcase_add_loop_test(memory, a_neighbour_is_no_fault, 0, 2);
	tcase_add_loop_test(memory, without_nvml_a_neighbour_is_a_fault, 0, 5);
	tcase_add_test(memory, hidden_memory_counts);
	tcase_add_test(memory, a_full_device_is_refused);
	tcase_add_loop_test(memory, offloaded_bytes_come_back, 0, 4);
	tcase_add_loop_test(faults, every_call_may_fail_once, 0, 5);
	tcase_add_test(faults, a_dying_device_leaves_the_snapshot);
	suite_add_tcase(suite, train);
	suite_add_tcase(suite, memory);
	suite_add_tcase(suite, faults);
	return testing_run(suite);
}
