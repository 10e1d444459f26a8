/*
 * test_cpu_driver.c - what is particular to the CPU driver: the arena and its guard pages, the kernel cache, the
 * workspace cap, bad calls, and host memory that runs out. What its ops compute is tested by the conformance suite.
 */
#include "conformance/single_op.h"
#include "support/testing.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct driver_ops *cpu;
static struct host_arena host;
static struct graph graph;
static struct device device;

static void setup(void)
{
	const struct device_options options = { .threads = 2, .workspace_cap = UINT64_MAX };
	host_arena_init(&host);
	cpu = driver_find("cpu");
	ck_assert_ptr_nonnull(cpu);
	memset(&device, 0, sizeof device);
	device.ops = cpu;
	device.host = &host;
	ck_assert_ok(graph_init(&graph, &host));
	ck_assert_ok(cpu->open(&device, &options));
}

static void teardown(void)
{
	cpu->close(&device);
	host_arena_fini(&host);
}

static uint32_t persistent(const char *name, uint32_t rank, const uint32_t *dim)
{
	uint32_t id = TENSOR_NONE;
	ck_assert_ok(graph_add_persistent(&graph, name, ROLE_PARAMETER, DTYPE_F32, dim, rank, &id));
	return id;
}

/* a + b of n elements; returns the op. */
static uint32_t add_op(const char *name, uint32_t n)
{
	char a[32], b[32];
	snprintf(a, sizeof a, "%s/a", name);
	snprintf(b, sizeof b, "%s/b", name);
	const struct op_attr attr = { 0 };
	uint32_t in[2] = { persistent(a, 1, &n), persistent(b, 1, &n) }, out;
	ck_assert_ok(graph_add_op(&graph, OP_ADD, PHASE_FORWARD, name, &attr, in, 2, &out));
	return graph.ops - 1;
}

static uint32_t conv_op(const char *name, uint32_t channels)
{
	char x[32], w[32];
	snprintf(x, sizeof x, "%s/x", name);
	snprintf(w, sizeof w, "%s/w", name);
	const struct op_attr attr = { .window = { { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 } } };
	uint32_t in[2] = { persistent(x, 4, (uint32_t[]){ 2, 8, 8, channels }),
			   persistent(w, 4, (uint32_t[]){ channels, channels, 3, 3 }) },
		 out;
	ck_assert_ok(graph_add_op(&graph, OP_CONV2D, PHASE_FORWARD, name, &attr, in, 2, &out));
	return graph.ops - 1;
}

START_TEST(knows_the_drivers_of_this_build)
{
	ck_assert_uint_ge(driver_table_count, 1);
	for (uint32_t i = 0; i < driver_table_count; i++)
		ck_assert_ptr_eq(driver_find(driver_table[i]->name), driver_table[i]);
	ck_assert_ptr_null(driver_find("abacus"));
	ck_assert_ptr_nonnull(strstr(tarn_error(), "\"abacus\""));
	ck_assert_ptr_nonnull(strstr(tarn_error(), "cpu"));
}
END_TEST

START_TEST(every_byte_of_the_arena_is_touched_and_ff)
{
	enum { BYTES = 3 * 4096 + 192 };
	unsigned char image[BYTES];
	ck_assert_ok(cpu->reserve(&device, BYTES, NULL));
	ck_assert_uint_eq(device.arena_bytes, BYTES);
	ck_assert_uint_eq(cpu->touched_bytes(&device), 0);
	ck_assert_ok(cpu->read(&device, 0, image, BYTES));
	for (int i = 0; i < BYTES; i++)
		ck_assert_uint_eq(image[i], 0xFF);
	ck_assert_uint_eq((uintptr_t)cpu->host_address(&device, 0) % TARN_ALIGNMENT, 0);
	ck_assert_ok(cpu->write(&device, 777, "x", 1));
	ck_assert_uint_eq(cpu->touched_bytes(&device), 778);
	ck_assert_ok(cpu->poison(&device, 700, 100));
	ck_assert_uint_eq(cpu->touched_bytes(&device), 0);
	ck_assert_fails(cpu->reserve(&device, BYTES, NULL), TARN_EINTERNAL, "once");
}
END_TEST

START_TEST(uses_the_callers_memory)
{
	static unsigned char memory[1024 + 63];
	memset(memory, 1, sizeof memory);
	ck_assert_ok(cpu->reserve(&device, 1024, memory + 0));
	unsigned char *base = cpu->host_address(&device, 0);
	ck_assert_uint_eq((uintptr_t)base % TARN_ALIGNMENT, 0);
	ck_assert(base >= memory && base + 1024 <= memory + sizeof memory);
	ck_assert_uint_eq(base[0], 0xFF);
	ck_assert_uint_eq(base[1023], 0xFF);
	for (size_t i = 0; i < sizeof memory; i++)
		ck_assert_msg(memory + i >= base || memory[i] == 1, "byte %zu before the arena was written", i);
}
END_TEST

/* Runs with the signal expected: the byte behind the arena and a byte in front of its first page cannot be written. */
START_TEST(guard_page_behind_the_arena)
{
	ck_assert_ok(cpu->reserve(&device, 4096 + 64, NULL));
	volatile unsigned char *base = cpu->host_address(&device, 0);
	base[4096 + 64] = 0;
}
END_TEST

START_TEST(guard_page_before_the_arena)
{
	ck_assert_ok(cpu->reserve(&device, 4096, NULL));
	volatile unsigned char *base = cpu->host_address(&device, 0);
	base[-1] = 0;
}
END_TEST

START_TEST(refuses_an_arena_that_cannot_be)
{
	ck_assert_fails(cpu->reserve(&device, (uint64_t)1 << 50, NULL), TARN_ENOMEM, "1125899906842624");
	ck_assert_fails(cpu->reserve(&device, UINT64_MAX, NULL), TARN_ENOMEM, "18446744073709551615");
	ck_assert_ok(cpu->reserve(&device, 0, NULL));
	ck_assert_uint_eq(cpu->touched_bytes(&device), 0);
}
END_TEST

START_TEST(same_signature_same_kernel)
{
	struct kernel *kernel[4];
	struct kernel_info info[4];
	uint32_t op[4] = { conv_op("one", 16), conv_op("two", 16), conv_op("three", 32), add_op("four", 16) };
	for (int i = 0; i < 4; i++)
		ck_assert_ok(cpu->compile(&device, &graph, op[i], &kernel[i], &info[i]));
	ck_assert_ptr_eq(kernel[0], kernel[1]);
	ck_assert_ptr_ne(kernel[0], kernel[2]);
	ck_assert_ptr_ne(kernel[0], kernel[3]);
	ck_assert_uint_eq(info[0].workspace_bytes, info[1].workspace_bytes);
	ck_assert_uint_eq(info[0].cost_ns, info[1].cost_ns);
	ck_assert_uint_gt(info[2].cost_ns, info[0].cost_ns);
}
END_TEST

START_TEST(threads_are_resolved)
{
	struct device other = { .ops = cpu, .host = &host };
	const struct device_options all = { .threads = 0, .workspace_cap = UINT64_MAX },
				    many = { .threads = 5000, .workspace_cap = UINT64_MAX };
	ck_assert_uint_eq(cpu->threads(&device), 2);
	ck_assert_ok(cpu->open(&other, &all));
	ck_assert_uint_ge(cpu->threads(&other), 1);
	cpu->close(&other);
	ck_assert_fails(cpu->open(&other, &many), TARN_EINVAL, "5000");
	cpu->close(&other);
	cpu->close(&other);
}
END_TEST

START_TEST(refuses_addresses_outside_the_arena)
{
	struct kernel *kernel;
	struct kernel_info info;
	struct bound_instr *instr;
	char byte;
	uint32_t op = add_op("sum", 64);
	ck_assert_ok(cpu->compile(&device, &graph, op, &kernel, &info));
	ck_assert_fails(cpu->bind(&device, &graph, op, kernel, (uint64_t[]){ 0, 0, 0 }, 0, &instr), TARN_EINTERNAL,
			"before reserve");
	ck_assert_ok(cpu->reserve(&device, 512, NULL));
	ck_assert_ok(cpu->bind(&device, &graph, op, kernel, (uint64_t[]){ 0, 0, 256 }, 0, &instr));
	ck_assert_fails(cpu->bind(&device, &graph, op, kernel, (uint64_t[]){ 0, 0, 320 }, 0, &instr), TARN_EINTERNAL,
			"offset 320");
	ck_assert_fails(cpu->bind(&device, &graph, op, kernel, (uint64_t[]){ 0, 4, 256 }, 0, &instr), TARN_EINTERNAL,
			"offset 4");
	ck_assert_fails(cpu->bind(&device, &graph, op, kernel, (uint64_t[]){ 0, UINT64_MAX - 63, 256 }, 0, &instr),
			TARN_EINTERNAL, "outside");
	ck_assert_fails(cpu->write(&device, 512, &byte, 1), TARN_EINTERNAL, "outside");
	ck_assert_fails(cpu->read(&device, UINT64_MAX, &byte, 2), TARN_EINTERNAL, "outside");
	ck_assert_fails(cpu->poison(&device, 0, 513), TARN_EINTERNAL, "513");
}
END_TEST

static const struct op_attr conv_attr = { .window = { { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 } } };
static const struct single_input conv_input[] = { { DTYPE_F32, 0, 4, { 2, 8, 8, 16 } },
						  { DTYPE_F32, 0, 4, { 16, 16, 3, 3 } } };

/* The convolution's result under a cap; false when the cap is refused. */
static bool capped_convolution(uint64_t cap, uint64_t *workspace, float *y)
{
	const struct single_options options = { .threads = 2, .workspace_cap = cap, .in_place = -1 };
	static float x[2 * 8 * 8 * 16], w[16 * 16 * 9];
	struct single_op single;
	struct testing_random random = { 3 };
	enum tarn_status st = single_op_open(&single, cpu, OP_CONV2D, &conv_attr, conv_input, 2, &options);
	if (st) {
		ck_assert_int_eq(st, TARN_EUNSUPPORTED);
		single_op_close(&single);
		return false;
	}
	for (size_t i = 0; i < sizeof x / sizeof *x; i++)
		x[i] = testing_float(&random);
	for (size_t i = 0; i < sizeof w / sizeof *w; i++)
		w[i] = testing_float(&random);
	ck_assert_ok(single_op_write(&single, 0, x));
	ck_assert_ok(single_op_write(&single, 1, w));
	ck_assert_ok(single_op_launch(&single));
	ck_assert_ok(single_op_read(&single, 2, y));
	*workspace = single.info.workspace_bytes;
	single_op_close(&single);
	return true;
}

/* A smaller cap gives another kernel, which needs less and agrees. */
START_TEST(workspace_cap_is_kept)
{
	static float free_y[2 * 8 * 8 * 16], capped_y[2 * 8 * 8 * 16];
	uint64_t free_bytes, capped_bytes;
	ck_assert(capped_convolution(UINT64_MAX, &free_bytes, free_y));
	ck_assert_uint_gt(free_bytes, 0);
	ck_assert(capped_convolution(free_bytes, &capped_bytes, capped_y));
	ck_assert_uint_eq(capped_bytes, free_bytes);
	ck_assert_mem_eq(free_y, capped_y, sizeof free_y);
	ck_assert(capped_convolution(free_bytes - 1, &capped_bytes, capped_y));
	ck_assert_uint_lt(capped_bytes, free_bytes);
	for (size_t i = 0; i < sizeof free_y / sizeof *free_y; i++)
		ck_assert_float_eq_tol(free_y[i], capped_y[i], 1e-4f);
}
END_TEST

/* Every host allocation of boot fails once: a status, a sentence, and close still works. */
START_TEST(host_memory_runs_out)
{
	struct device failing = { .ops = cpu, .host = &host };
	const struct device_options device_options = { .threads = 2, .workspace_cap = UINT64_MAX };
	uint32_t op[2] = { conv_op("conv", 16), add_op("add", 64) };
	const uint64_t offset[3] = { 0, 65536, 131072 };
	bool complete = false;
	for (uint64_t n = 1; !complete; n++) {
		struct kernel *kernel;
		struct kernel_info info;
		struct bound_instr *instr;
		ck_assert_uint_lt(n, 1000);
		tarn_error_clear();
		host.fail_at = host.requests + n;
		enum tarn_status st = cpu->open(&failing, &device_options);
		if (!st)
			st = cpu->reserve(&failing, 1 << 20, NULL);
		for (int i = 0; i < 2 && !st; i++) {
			st = cpu->compile(&failing, &graph, op[i], &kernel, &info);
			if (!st)
				st = cpu->bind(&failing, &graph, op[i], kernel, offset, 262144, &instr);
			if (!st)
				st = cpu->launch(&failing, instr);
		}
		complete = !st;
		ck_assert(st == TARN_OK || (st == TARN_ENOMEM && *tarn_error()));
		host.fail_at = 0;
		cpu->close(&failing);
	}
}
END_TEST

/* Nothing of ours allocates when launching: the host arena, our only allocator, is not asked. */
START_TEST(launching_asks_for_no_host_memory)
{
	const struct single_options options = { .threads = 2, .in_place = -1 };
	struct single_op single;
	ck_assert_ok(single_op_open(&single, cpu, OP_CONV2D, &conv_attr, conv_input, 2, &options));
	uint64_t requests = single.host.requests;
	for (int i = 0; i < 3; i++)
		ck_assert_ok(single_op_launch(&single));
	ck_assert_uint_eq(single.host.requests, requests);
	single_op_close(&single);
}
END_TEST

/* With guard pages the sanitizers see a plain segmentation fault; they end the process in their own way. */
#if defined(__SANITIZE_ADDRESS__)
#define GUARDED 0
#else
#define GUARDED 1
#endif

int main(void)
{
	Suite *suite = suite_create("cpu_driver");
	TCase *arena = tcase_create("arena"), *kernels = tcase_create("kernels");
	tcase_add_checked_fixture(arena, setup, teardown);
	tcase_add_checked_fixture(kernels, setup, teardown);
	tcase_add_test(arena, knows_the_drivers_of_this_build);
	tcase_add_test(arena, every_byte_of_the_arena_is_touched_and_ff);
	tcase_add_test(arena, uses_the_callers_memory);
	if (GUARDED) {
		tcase_add_test_raise_signal(arena, guard_page_behind_the_arena, SIGSEGV);
		tcase_add_test_raise_signal(arena, guard_page_before_the_arena, SIGSEGV);
	}
	tcase_add_test(arena, refuses_an_arena_that_cannot_be);
	tcase_add_test(kernels, same_signature_same_kernel);
	tcase_add_test(kernels, threads_are_resolved);
	tcase_add_test(kernels, refuses_addresses_outside_the_arena);
	tcase_add_test(kernels, workspace_cap_is_kept);
	tcase_add_test(kernels, host_memory_runs_out);
	tcase_add_test(kernels, launching_asks_for_no_host_memory);
	suite_add_tcase(suite, arena);
	suite_add_tcase(suite, kernels);
	return testing_run(suite);
}
