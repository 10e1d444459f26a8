/*
 * test_cuda_plan.c - planning for a GPU that is not there: descriptions are read, every op of the conformance suite
 * compiles within the cap, the overhead counts, and a plan for another device is not run. Convolutions are asked of the
 * real cuDNN where it is installed (its planning needs no device), and of the own kernels where it is not.
 */
#include "conformance/cases.h"
#include "device_file.h"
#include "support/testing.h"
#include "support/training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(CONFIG_DRIVER_CUDA) && defined(CONFIG_YAML)

/* Planning without a device leaves small objects inside the real cuDNN, which this test uses where it is installed. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libcudnn";
}

static const char *const devices[] = { "configs/devices/h200.json", "configs/devices/rtx3060ti.json" };

static bool is_convolution(enum op_kind kind)
{
	return kind == OP_CONV2D || kind == OP_CONV2D_GRAD_INPUT || kind == OP_CONV2D_GRAD_WEIGHT;
}

static void build_case(const struct conformance_case *test, struct host_arena *arena, struct graph *graph)
{
	uint32_t id[SINGLE_OP_INPUTS], out[OP_MAX_OUTPUTS];
	ck_assert_ok(graph_init(graph, arena));
	for (uint32_t i = 0; i < test->inputs; i++) {
		char name[16];
		snprintf(name, sizeof name, "in%u", i);
		ck_assert_ok(
			graph_add_persistent(graph, name, test->input[i].role ? test->input[i].role : ROLE_PARAMETER,
					     test->input[i].dtype, test->input[i].dim, test->input[i].rank, &id[i]));
	}
	ck_assert_ok(graph_add_op(graph, test->kind, PHASE_FORWARD, "op", &test->attr, id, test->inputs, out));
}

static void open_described(const char *path, uint64_t cap, struct host_arena *arena, struct device *device)
{
	static struct device_description description;
	ck_assert_ok(device_file_load(path, arena, &description));
	*device = (struct device){ .ops = driver_find("cuda"), .host = arena };
	struct device_options options = { .workspace_cap = cap, .description = &description };
	ck_assert_ok(device->ops->open(device, &options));
}

static void every_case_compiles(const char *path, uint64_t cap)
{
	struct host_arena arena;
	struct device device;
	host_arena_init(&arena);
	open_described(path, cap, &arena, &device);
	for (int i = 0; i < conformance_case_count; i++) {
		const struct conformance_case *test = &conformance_cases[i];
		struct graph graph;
		struct kernel *kernel, *again;
		struct kernel_info info, other;
		if (conformance_excluded("cuda", test->name))
			continue;
		build_case(test, &arena, &graph);
		enum tarn_status st = device.ops->compile(&device, &graph, graph.ops - 1, &kernel, &info);
		ck_assert_msg(!st, "%s, %s: %s", path, test->name, tarn_error());
		ck_assert_uint_eq(info.workspace_bytes % TARN_ALIGNMENT, 0);
		ck_assert_uint_gt(info.cost_ns, 0);
		if (is_convolution(test->kind) || test->kind == OP_MATMUL)
			ck_assert_uint_le(info.workspace_bytes, bytes_align(cap));
		ck_assert_ok(device.ops->compile(&device, &graph, graph.ops - 1, &again, &other));
		ck_assert_ptr_eq(kernel, again);
	}
	device.ops->close(&device);
	host_arena_fini(&arena);
}

START_TEST(every_op_compiles_for_a_described_device)
{
	every_case_compiles(devices[_i], 64 << 20);
	every_case_compiles(devices[_i], 0);
}
END_TEST

START_TEST(every_op_compiles_without_cudnn)
{
	ck_assert(!setenv("TARN_LIBCUDNN", "/does/not/exist", 1));
	every_case_compiles(devices[_i], 64 << 20);
}
END_TEST

static const char network[] = "data: {type: synthetic, shape: [16, 16, 3], classes: 10, batch: 16, samples: 64}\n"
			      "model: {family: resnet, depth: 8}\n";

static enum tarn_status plan_for(const char *device, const char *budget, const char *plan, struct tarn_plan_info *info)
{
	const char *override[] = { budget };
	struct tarn_options options = {
		.config_text = network, .override = override, .overrides = 1, .device_path = device, .plan_only = true
	};
	struct tarn_session *session;
	enum tarn_status st = tarn_open(&options, &session);
	if (st)
		return st;
	ck_assert_ok(tarn_plan_info(session, info));
	if (plan)
		st = tarn_plan_save(session, plan);
	info->device = info->name = info->snapshot = info->costs = NULL;
	tarn_close(session);
	return st;
}

/* The smallest budget named works, and 64 bytes less are refused, as on any device. */
START_TEST(the_budget_bounds_overhead_and_arena)
{
	struct tarn_plan_info info, least;
	char budget[64];
	ck_assert_ok(plan_for(devices[_i], "memory.budget=unlimited", NULL, &info));
	ck_assert_uint_gt(info.overhead_bytes, 100 << 20);
	snprintf(budget, sizeof budget, "memory.budget=%llu B", (unsigned long long)info.min_budget_bytes);
	ck_assert_ok(plan_for(devices[_i], budget, NULL, &least));
	ck_assert_uint_le(least.overhead_bytes + least.reserve_bytes + least.arena_bytes, info.min_budget_bytes);
	snprintf(budget, sizeof budget, "memory.budget=%llu B", (unsigned long long)info.min_budget_bytes - 64);
	ck_assert_fails(plan_for(devices[_i], budget, NULL, &least), TARN_EBUDGET, "context, code and handles take");
}
END_TEST

START_TEST(auto_takes_what_the_device_has)
{
	struct tarn_plan_info info;
	struct host_arena arena;
	struct device_description description;
	host_arena_init(&arena);
	ck_assert_ok(device_file_load(devices[_i], &arena, &description));
	ck_assert_ok(plan_for(devices[_i], "memory.budget=auto", NULL, &info));
	ck_assert_uint_lt(info.budget_bytes, description.memory_bytes);
	ck_assert_uint_gt(info.budget_bytes, description.memory_bytes / 64 * 62);
	host_arena_fini(&arena);
	ck_assert_fails(plan_for(NULL, "memory.budget=auto", NULL, &info), TARN_EINVAL, "memory.budget: auto asks");
}
END_TEST

START_TEST(a_described_device_cannot_run)
{
	struct tarn_options options = { .config_text = network, .device_path = devices[0] };
	struct tarn_session *session;
	ck_assert_fails(tarn_open(&options, &session), TARN_EINVAL, "can be planned for, not run on");
	struct host_arena arena;
	struct device device;
	host_arena_init(&arena);
	open_described(devices[0], 0, &arena, &device);
	ck_assert_fails(device.ops->reserve(&device, 4096, NULL), TARN_EUNSUPPORTED, "is only described");
	device.ops->close(&device);
	host_arena_fini(&arena);
}
END_TEST

/* The plan file remembers what it was made for. */
START_TEST(a_plan_says_its_device)
{
	struct tarn_plan_info info;
	const char *path = testing_file("h200.plan", "", 0);
	ck_assert_ok(plan_for(devices[0], "memory.budget=unlimited", path, &info));
	struct tarn_options options = { .plan_path = path, .plan_only = true };
	struct tarn_session *session;
	ck_assert_ok(tarn_open(&options, &session));
	ck_assert_ok(tarn_plan_info(session, &info));
	ck_assert_str_eq(info.driver, "cuda");
	ck_assert_msg(strstr(info.device, "NVIDIA H200") == info.device, "the plan is for \"%s\"", info.device);
	tarn_close(session);
}
END_TEST

static const struct {
	const char *text, *complaint;
} wrong[] = {
	{ "", "empty" },
	{ "[1, 2]", "\"deviceName\" is missing" },
	{ "{\"deviceName\": \"x\"}", "\"tarn\" is missing" },
	{ "{\"deviceName\": \"x\", \"tarn\": {}}", "\"deviceVer\" is missing" },
	{ "{\"deviceName\": \"x\", \"deviceVer\": 900, \"multiProcessorCount\": 0, \"tarn\": {}}",
	  "multiProcessorCount" },
	{ "{\"deviceName\": \"x\", \"deviceVer\": \"new\", \"tarn\": {}}", "deviceVer" },
	{ "{\"deviceName\": \"x\", \"deviceVer\": 900, \"multiProcessorCount\": 8, \"totalGlobalMem\": 8e9, \"tarn\": "
	  "5}",
	  "float32_tflops" },
};

START_TEST(a_wrong_description_is_refused)
{
	struct host_arena arena;
	struct device_description description;
	host_arena_init(&arena);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		const char *path = testing_file("wrong.json", wrong[i].text, strlen(wrong[i].text));
		ck_assert_fails(device_file_load(path, &arena, &description), TARN_EINVAL, wrong[i].complaint);
	}
	ck_assert_fails(device_file_load("/does/not/exist", &arena, &description), TARN_EIO, "/does/not/exist");
	host_arena_fini(&arena);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cuda_plan");
	TCase *described = tcase_create("described");
	tcase_set_timeout(described, 60);
	tcase_add_loop_test(described, every_op_compiles_for_a_described_device, 0, 2);
	tcase_add_loop_test(described, every_op_compiles_without_cudnn, 0, 2);
	tcase_add_loop_test(described, the_budget_bounds_overhead_and_arena, 0, 2);
	tcase_add_loop_test(described, auto_takes_what_the_device_has, 0, 2);
	tcase_add_test(described, a_described_device_cannot_run);
	tcase_add_test(described, a_plan_says_its_device);
	tcase_add_test(described, a_wrong_description_is_refused);
	suite_add_tcase(suite, described);
	return testing_run(suite);
}

#else

START_TEST(planning_for_a_described_device)
{
	TESTING_SKIP("this build has no CUDA driver or no YAML");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cuda_plan");
	TCase *described = tcase_create("described");
	tcase_add_test(described, planning_for_a_described_device);
	suite_add_tcase(suite, described);
	return testing_run(suite);
}

#endif
