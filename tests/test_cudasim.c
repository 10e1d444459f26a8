/*
 * The simulated device checks itself: PTX against the same arithmetic on the host, and faults planted in kernels and in
 * calls, each of which must be found and told. Kernels: tests/cudasim/kernels/probe.cu, as committed PTX and, where
 * nvcc is installed, freshly compiled.
 */
#include "support/cudasim_control.h"
#include "support/testing.h"

#include "cudasim/cudasim.h"
#include "cudasim/kernels/probe_math.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 1000
#define SEEDS 4

/* ---- The library, as the driver opens it ---- */

#define CALLS(X)                                                                                                  \
	X(cuInit, (unsigned flags))                                                                               \
	X(cuDevicePrimaryCtxRetain, (void **context, int device))                                                 \
	X(cuDevicePrimaryCtxRelease_v2, (int device))                                                             \
	X(cuCtxSetCurrent, (void *context))                                                                       \
	X(cuCtxSynchronize, (void))                                                                               \
	X(cuMemGetInfo_v2, (size_t * free_bytes, size_t * total))                                                 \
	X(cuMemAlloc_v2, (uint64_t * address, size_t bytes))                                                      \
	X(cuMemFree_v2, (uint64_t address))                                                                       \
	X(cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))                                          \
	X(cuMemFreeHost, (void *memory))                                                                          \
	X(cuMemcpyHtoD_v2, (uint64_t target, const void *source, size_t bytes))                                   \
	X(cuMemcpyDtoH_v2, (void *target, uint64_t source, size_t bytes))                                         \
	X(cuMemcpyHtoDAsync_v2, (uint64_t target, const void *source, size_t bytes, void *stream))                \
	X(cuMemcpyDtoHAsync_v2, (void *target, uint64_t source, size_t bytes, void *stream))                      \
	X(cuMemcpyDtoDAsync_v2, (uint64_t target, uint64_t source, size_t bytes, void *stream))                   \
	X(cuMemsetD8Async, (uint64_t target, unsigned char value, size_t bytes, void *stream))                    \
	X(cuModuleLoadData, (void **module, const void *image))                                                   \
	X(cuModuleUnload, (void *module))                                                                         \
	X(cuModuleGetFunction, (void **function, void *module, const char *name))                                 \
	X(cuLaunchKernel,                                                                                         \
	  (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
	   unsigned block_z, unsigned shared_bytes, void *stream, void **parameters, void **extra))               \
	X(cuStreamCreate, (void **stream, unsigned flags))                                                        \
	X(cuStreamDestroy_v2, (void *stream))                                                                     \
	X(cuStreamSynchronize, (void *stream))                                                                    \
	X(cuStreamWaitEvent, (void *stream, void *event, unsigned flags))                                         \
	X(cuEventCreate, (void **event, unsigned flags))                                                          \
	X(cuEventDestroy_v2, (void *event))                                                                       \
	X(cuEventRecord, (void *event, void *stream))                                                             \
	X(cuStreamBeginCapture_v2, (void *stream, int mode))                                                      \
	X(cuStreamEndCapture, (void *stream, void **graph))                                                       \
	X(cuGraphGetNodes, (void *graph, void **nodes, size_t *count))                                            \
	X(cuGraphInstantiateWithFlags, (void **executable, void *graph, unsigned long long flags))                \
	X(cuGraphUpload, (void *executable, void *stream))                                                        \
	X(cuGraphLaunch, (void *executable, void *stream))                                                        \
	X(cuGraphExecDestroy, (void *executable))                                                                 \
	X(cuGraphDestroy, (void *graph))                                                                          \
	X(sim_operation_begin, (void *stream, const char *name, const struct sim_range *range, uint32_t ranges))  \
	X(sim_operation_end, (void *stream))                                                                      \
	X(sim_mark_dead, (void *stream, uint64_t address, uint64_t bytes))

#define POINTER(name, parameters) int(*name) parameters;
static struct {
	CALLS(POINTER)
	bool (*sim_configure)(const char *settings, char *message, size_t message_bytes);
	void (*sim_freeze)(int frozen);
	uint32_t (*sim_failures)(void);
	const char *(*sim_failure)(uint32_t index);
	const char *(*sim_leaks)(void);
	void (*sim_fault)(const char *function, uint64_t nth, int code);
	uint64_t (*sim_count)(enum sim_count count);
} cu;

static void *module, *context;

static void load_calls(void)
{
	void *library = cudasim_open("libcuda.so.1");
#define LOAD(name, parameters) cudasim_find(library, #name, &cu.name);
	CALLS(LOAD)
	cudasim_find(library, "sim_configure", &cu.sim_configure);
	cudasim_find(library, "sim_freeze", &cu.sim_freeze);
	cudasim_find(library, "sim_failures", &cu.sim_failures);
	cudasim_find(library, "sim_failure", &cu.sim_failure);
	cudasim_find(library, "sim_leaks", &cu.sim_leaks);
	cudasim_find(library, "sim_fault", &cu.sim_fault);
	cudasim_find(library, "sim_count", &cu.sim_count);
}

#define ck_assert_cuda(call)                                                              \
	do {                                                                              \
		int code_ = (call);                                                       \
		ck_assert_msg(code_ == 0, "%s: %d: %s", #call, code_, cu.sim_failure(0)); \
	} while (0)

static void configure(const char *settings)
{
	char message[128] = "";
	ck_assert_msg(cu.sim_configure(settings, message, sizeof message), "%s", message);
}

/* The committed text, or with TARN_TEST_PROBE another one. */
static char *read_probe(void)
{
	const char *path = getenv("TARN_TEST_PROBE");
	FILE *f = fopen(path ? path : "tests/cudasim/kernels/probe.ptx", "rb");
	char *text = calloc(1, 1 << 20);
	ck_assert(f && text);
	ck_assert(fread(text, 1, (1 << 20) - 1, f) > 0);
	fclose(f);
	return text;
}

static void open_device(void)
{
	ck_assert_cuda(cu.cuInit(0));
	ck_assert_cuda(cu.cuDevicePrimaryCtxRetain(&context, 0));
	ck_assert_cuda(cu.cuCtxSetCurrent(context));
	char *text = read_probe();
	ck_assert_cuda(cu.cuModuleLoadData(&module, text));
	free(text);
}

/* Each test is a process of its own, so the device is new. */
static void setup(void)
{
	load_calls();
	open_device();
}

static uint64_t allocate(size_t bytes)
{
	uint64_t address = 0;
	ck_assert_cuda(cu.cuMemAlloc_v2(&address, bytes));
	return address;
}

static uint64_t upload(const void *data, size_t bytes)
{
	uint64_t address = allocate(bytes);
	ck_assert_cuda(cu.cuMemcpyHtoD_v2(address, data, bytes));
	return address;
}

struct arrays {
	uint64_t a, b, out;
	int n;
};

static int launch_in(void *stream, const char *name, unsigned blocks, unsigned threads, struct arrays arrays)
{
	void *function, *parameters[] = { &arrays };
	ck_assert_cuda(cu.cuModuleGetFunction(&function, module, name));
	return cu.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, NULL);
}

static int run(const char *name, unsigned blocks, unsigned threads, struct arrays arrays)
{
	int code = launch_in(NULL, name, blocks, threads, arrays);
	return code ? code : cu.cuCtxSynchronize();
}

/* The call fails with this code, and the first failure told contains each of these texts. */
static void check_fault(int code, int expected, const char *const *text)
{
	ck_assert_msg(code == expected, "code %d, expected %d: %s", code, expected, cu.sim_failure(0));
	for (; *text; text++)
		ck_assert_msg(strstr(cu.sim_failure(0), *text) != NULL, "\"%s\" lacks \"%s\"", cu.sim_failure(0),
			      *text);
}
#define TOLD(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* ---- Arithmetic: the same bits as the host's ---- */

static void use_seed(int seed)
{
	char text[32];
	snprintf(text, sizeof text, "seed=%d", seed);
	configure(text);
}

START_TEST(integers_are_exact)
{
	static unsigned a[N], b[N];
	static unsigned long long out[N];
	struct testing_random random = { 11 };
	use_seed(_i);
	for (int i = 0; i < N; i++) {
		a[i] = (unsigned)testing_bits(&random) >> (i % 29);
		b[i] = (unsigned)testing_bits(&random) >> (i % 23);
	}
	struct arrays p = { upload(a, sizeof a), upload(b, sizeof b), allocate(sizeof out), N };
	ck_assert_cuda(run("probe_integers", 8, 128, p));
	ck_assert_cuda(cu.cuMemcpyDtoH_v2(out, p.out, sizeof out));
	for (int i = 0; i < N; i++)
		ck_assert_msg(out[i] == probe_integer(a[i], b[i]), "seed %d, element %d: %#x %#x", _i, i, a[i], b[i]);
}
END_TEST

START_TEST(floats_are_exact)
{
	static float a[N], b[N], out[N];
	struct testing_random random = { 12 };
	use_seed(_i);
	for (int i = 0; i < N; i++) {
		a[i] = ldexpf(testing_float(&random), (int)(testing_bits(&random) % 12));
		b[i] = ldexpf(testing_float(&random), (int)(testing_bits(&random) % 12));
	}
	struct arrays p = { upload(a, sizeof a), upload(b, sizeof b), allocate(sizeof out), N };
	ck_assert_cuda(run("probe_floats", 8, 128, p));
	ck_assert_cuda(cu.cuMemcpyDtoH_v2(out, p.out, sizeof out));
	for (int i = 0; i < N; i++) {
		float expected = probe_float(a[i], b[i]);
		ck_assert_msg(memcmp(&out[i], &expected, sizeof expected) == 0,
			      "seed %d, element %d: %a %a: %a, not %a", _i, i, (double)a[i], (double)b[i],
			      (double)out[i], (double)expected);
	}
}
END_TEST

START_TEST(doubles_are_exact)
{
	static double a[N], b[N], out[N];
	struct testing_random random = { 13 };
	for (int i = 0; i < N; i++) {
		a[i] = (double)testing_float(&random) * 1e3 + (double)testing_float(&random) * 1e-9;
		b[i] = (double)testing_float(&random) * 7;
	}
	struct arrays p = { upload(a, sizeof a), upload(b, sizeof b), allocate(sizeof out), N };
	ck_assert_cuda(run("probe_doubles", 8, 128, p));
	ck_assert_cuda(cu.cuMemcpyDtoH_v2(out, p.out, sizeof out));
	for (int i = 0; i < N; i++)
		ck_assert_msg(out[i] == probe_double(a[i], b[i]), "element %d", i);
}
END_TEST

START_TEST(lanes_part_and_meet)
{
	static unsigned a[N];
	static float b[N], out[N];
	use_seed(_i);
	for (int i = 0; i < N; i++) {
		a[i] = (unsigned)i * 7 + 1;
		b[i] = (float)(i - N / 2) * 0.25f;
	}
	struct arrays p = { upload(a, sizeof a), upload(b, sizeof b), allocate(sizeof out), N };
	ck_assert_cuda(run("probe_divergent", 8, 128, p));
	ck_assert_cuda(cu.cuMemcpyDtoH_v2(out, p.out, sizeof out));
	for (int i = 0; i < N; i++)
		ck_assert_msg(out[i] == probe_switch(probe_collatz(a[i]), b[i]), "seed %d, element %d", _i, i);
}
END_TEST

START_TEST(halves_of_a_word_are_apart)
{
	static unsigned short a[N], b[N], out[N];
	use_seed(_i);
	for (int i = 0; i < N; i++) {
		a[i] = (unsigned short)(i * 61);
		b[i] = (unsigned short)(i * 17 + 5);
	}
	struct arrays p = { upload(a, sizeof a), upload(b, sizeof b), allocate(sizeof out), N };
	ck_assert_cuda(run("probe_shorts", 8, 128, p));
	ck_assert_cuda(cu.cuMemcpyDtoH_v2(out, p.out, sizeof out));
	for (int i = 0; i < N; i++)
		ck_assert_uint_eq(out[i], (unsigned short)(a[i] * 3 + b[i]));
}
END_TEST

START_TEST(shared_memory_and_shuffles_sum)
{
	static float a[1024], out[4];
	use_seed(_i);
	for (int i = 0; i < 1024; i++)
		a[i] = (float)(i % 37) * 0.125f;
	struct arrays p = { upload(a, sizeof a), 0, allocate(sizeof out), 1024 };
	ck_assert_cuda(run("probe_sum", 4, 256, p));
	ck_assert_cuda(cu.cuMemcpyDtoH_v2(out, p.out, sizeof out));
	for (int block = 0; block < 4; block++) {
		float part[256];
		memcpy(part, a + 256 * block, sizeof part);
		for (int half = 128; half; half >>= 1)
			for (int t = 0; t < half; t++)
				part[t] += part[t + half];
		ck_assert_msg(out[block] == part[0], "seed %d, block %d", _i, block);
	}
}
END_TEST

/* What the warp of lane i computes, lane by lane. */
static unsigned warp_value(const unsigned *warp, unsigned lane)
{
	unsigned scan = 0, odd = 0, all = 1, any = 0, sum = 0, most = 0;
	for (unsigned k = 0; k < 32; k++) {
		scan += k <= lane ? warp[k] : 0;
		odd |= (warp[k] & 1u) << k;
		all &= warp[k] < 1000u;
		any |= warp[k] == 7u;
		sum += warp[k];
		most = warp[k] > most ? warp[k] : most;
	}
	return scan ^ odd ^ (all << 1) ^ (any << 2) ^ sum ^ (most << 3) ^ (warp[lane ^ 5] << 7) ^ warp[lane & 24];
}

START_TEST(votes_scans_and_atomics)
{
	static unsigned a[256], out[256];
	unsigned counters[2] = { 5, 5 }, sum = 5, most = 5;
	use_seed(_i);
	for (unsigned i = 0; i < 256; i++) {
		a[i] = i * i % 1009;
		sum += a[i];
		most = a[i] > most ? a[i] : most;
	}
	struct arrays p = { upload(a, sizeof a), upload(counters, sizeof counters), allocate(sizeof out), 256 };
	ck_assert_cuda(run("probe_warp", 2, 128, p));
	ck_assert_cuda(cu.cuMemcpyDtoH_v2(out, p.out, sizeof out));
	ck_assert_cuda(cu.cuMemcpyDtoH_v2(counters, p.b, sizeof counters));
	for (unsigned i = 0; i < 256; i++)
		ck_assert_msg(out[i] == warp_value(a + i / 32 * 32, i % 32), "seed %d, element %u", _i, i);
	ck_assert_uint_eq(counters[0], sum);
	ck_assert_uint_eq(counters[1], most);
}
END_TEST

START_TEST(dynamic_shared_memory_transposes)
{
	enum { SIDE = 64 };
	static float a[SIDE * SIDE], out[SIDE * SIDE];
	use_seed(_i);
	for (int i = 0; i < SIDE * SIDE; i++)
		a[i] = (float)i;
	struct arrays p = { upload(a, sizeof a), 0, allocate(sizeof out), SIDE };
	void *function, *parameters[] = { &p };
	ck_assert_cuda(cu.cuModuleGetFunction(&function, module, "probe_transpose"));
	ck_assert_cuda(
		cu.cuLaunchKernel(function, SIDE / 16, SIDE / 16, 1, 16, 16, 1, 16 * 17 * 4, NULL, parameters, NULL));
	ck_assert_cuda(cu.cuMemcpyDtoH_v2(out, p.out, sizeof out));
	for (int y = 0; y < SIDE; y++)
		for (int x = 0; x < SIDE; x++)
			ck_assert_msg(out[x * SIDE + y] == a[y * SIDE + x], "seed %d, %d %d", _i, x, y);
}
END_TEST

/* ---- 16-bit types: no kernel of nvcc's needed, the text is written here ---- */

static const char half_text[] =
	".version 8.0\n.target sm_80\n.address_size 64\n"
	".visible .entry half_ops(.param .align 8 .b8 p[32])\n{\n"
	".reg .b16 %h<9>;\n.reg .f32 %f<3>;\n.reg .b32 %r<6>;\n.reg .b64 %rd<9>;\n"
	"ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [p+8]; ld.param.u64 %rd3, [p+16];\n"
	"mov.u32 %r1, %tid.x; mul.wide.u32 %rd4, %r1, 2;\n"
	"add.s64 %rd5, %rd1, %rd4; add.s64 %rd6, %rd2, %rd4; mul.wide.u32 %rd8, %r1, 16; add.s64 %rd7, %rd3, %rd8;\n"
	"ld.global.u16 %h1, [%rd5]; ld.global.u16 %h2, [%rd6];\n"
	"add.f16 %h3, %h1, %h2; st.global.u16 [%rd7], %h3;\n"
	"mul.f16 %h3, %h1, %h2; st.global.u16 [%rd7+2], %h3;\n"
	"fma.rn.f16 %h3, %h1, %h2, %h1; st.global.u16 [%rd7+4], %h3;\n"
	"cvt.f32.f16 %f1, %h1; st.global.f32 [%rd7+8], %f1;\n"
	"fma.rn.bf16 %h3, %h1, %h2, %h1; st.global.u16 [%rd7+6], %h3;\n"
	"cvt.rn.f16.f32 %h4, %f1; st.global.u16 [%rd7+12], %h4;\n"
	"cvt.f32.bf16 %f2, %h1; cvt.rn.bf16.f32 %h5, %f2; st.global.u16 [%rd7+14], %h5;\n"
	"ret;\n}\n";

/* Exact values, without any rounding. */
static double narrow_value(unsigned short bits, int fraction_bits, int bias)
{
	int fraction = bits & ((1 << fraction_bits) - 1), exponent = (bits & 0x7FFF) >> fraction_bits;
	double magnitude = exponent ? ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits)
				    : ldexp(fraction, 1 - bias - fraction_bits);
	return bits & 0x8000 ? -magnitude : magnitude;
}

/* Is `bits` the finite number nearest to a * b + c, the even one of two? Neighbours in order are one bit apart. */
static bool is_nearest(unsigned short bits, long double exact, int fraction_bits, int bias)
{
	long double own = fabsl((long double)narrow_value(bits, fraction_bits, bias) - exact);
	for (int step = -1; step <= 1; step += 2) {
		unsigned short next = (unsigned short)(bits + step);
		if ((next & 0x7FFF) >> fraction_bits == (0x7FFF >> fraction_bits) || (next ^ bits) & 0x8000)
			continue;
		long double other = fabsl((long double)narrow_value(next, fraction_bits, bias) - exact);
		if (other < own || (other == own && bits & 1))
			return false;
	}
	return true;
}

START_TEST(sixteen_bit_types_round_once)
{
	enum { LANES = 256 };
	static unsigned short a[LANES], b[LANES], out[LANES * 8];
	struct testing_random random = { 14 };
	for (int i = 0; i < LANES; i++) { /* exponents in the middle: nothing overflows */
		a[i] = (unsigned short)((testing_bits(&random) & 0x83FF) | (unsigned)(8 + i % 12) << 10);
		b[i] = (unsigned short)((testing_bits(&random) & 0x83FF) | (unsigned)(8 + i / 16) << 10);
	}
	struct arrays p = { upload(a, sizeof a), upload(b, sizeof b), allocate(sizeof out), LANES };
	void *half_module, *function, *parameters[] = { &p };
	ck_assert_cuda(cu.cuModuleLoadData(&half_module, half_text));
	ck_assert_cuda(cu.cuModuleGetFunction(&function, half_module, "half_ops"));
	ck_assert_cuda(cu.cuLaunchKernel(function, 1, 1, 1, LANES, 1, 1, 0, NULL, parameters, NULL));
	ck_assert_cuda(cu.cuMemcpyDtoH_v2(out, p.out, sizeof out));
	for (int i = 0; i < LANES; i++) {
		const unsigned short *o = out + 8 * i;
		long double x = (long double)narrow_value(a[i], 10, 15), y = (long double)narrow_value(b[i], 10, 15);
		ck_assert_msg(is_nearest(o[0], x + y, 10, 15), "add %#x %#x: %#x", a[i], b[i], o[0]);
		ck_assert_msg(is_nearest(o[1], x * y, 10, 15), "mul %#x %#x: %#x", a[i], b[i], o[1]);
		ck_assert_msg(is_nearest(o[2], x * y + x, 10, 15), "fma %#x %#x: %#x", a[i], b[i], o[2]);
		float wide;
		memcpy(&wide, o + 4, sizeof wide);
		ck_assert(wide == (float)narrow_value(a[i], 10, 15));
		ck_assert_uint_eq(o[6], a[i]); /* there and back */
		ck_assert_uint_eq(o[7], a[i]);
		x = (long double)narrow_value(a[i], 7, 127);
		y = (long double)narrow_value(b[i], 7, 127);
		ck_assert_msg(is_nearest(o[3], x * y + x, 7, 127), "bf16 fma %#x %#x: %#x", a[i], b[i], o[3]);
	}
}
END_TEST

/* ---- Texts that are refused ---- */

START_TEST(texts_outside_the_subset_are_refused)
{
	static const struct {
		const char *body, *told;
	} table[] = {
		{ "atom.global.add.f32 %f1, [%rd1], %f1;", "atomic operations on floating-point numbers" },
		{ "mma.sync.aligned.m16n8k8.row.col.f32.tf32 %f1, %f1, %f1, %f1;", "line 6: mma" },
		{ "call.uni function, (%r1);", "line 6: call" },
		{ "add.rz.f64 %rd1, %rd1, %rd1;", "is not in the subset" },
		{ "add.s32 %r1, %r9, %r1;", "unknown operand '%r9'" },
		{ "add.s32 %r1, %rd1, %r1;", "8-byte lanes" },
		{ "bra nowhere;", "no label nowhere" },
		{ "add.s32 %r1, %r1;", "too few operands" },
		{ "st.const.u32 [%rd1], %r1;", "read-only" },
		{ "/* no end", "does not end" },
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		char text[512];
		void *refused;
		uint32_t before = cu.sim_failures();
		snprintf(text, sizeof text,
			 ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k()\n{ .reg .f32 %%f<2>; .reg "
			 ".b32 "
			 "%%r<2>; .reg .b64 %%rd<2>;\n%s\n}\n",
			 table[i].body);
		ck_assert_int_eq(cu.cuModuleLoadData(&refused, text), 218);
		ck_assert_msg(strstr(cu.sim_failure(before), table[i].told) != NULL, "%s: %s", table[i].body,
			      cu.sim_failure(before));
	}
	void *refused;
	ck_assert_int_eq(cu.cuModuleLoadData(&refused, "\177ELF"), 209);
}
END_TEST

/* ---- Faults in kernels ---- */

START_TEST(kernel_faults_are_found)
{
	static const struct {
		const char *kernel;
		unsigned blocks, threads;
		int n, code;
		const char *told[3];
	} table[] = {
		{ "fault_missing_barrier",
		  1,
		  256,
		  0,
		  719,
		  { "no barrier lies in between", ".shared.f32", "block (0,0,0)" } },
		{ "fault_divergent_barrier", 1, 64, 0, 719, { "divergent barrier", "wait at PTX line", "thread (" } },
		{ "fault_barrier_after_return", 1, 64, 40, 719, { "divergent barrier", "has ended", "thread (" } },
		{ "fault_beyond", 1, 32, 1 << 20, 700, { "in no allocation", "source line", "st.global" } },
		{ "fault_misaligned", 1, 32, 0, 716, { "not a multiple of 4", "thread (0,0,0)", "st.global" } },
		{ "fault_same_place", 1, 32, 0, 700, { "written by two threads", "thread (1,0,0)", "st.global" } },
		{ "fault_unordered_blocks",
		  4,
		  32,
		  128,
		  700,
		  { "another thread of the same launch", "thread (", ".global.u32" } },
		{ "fault_absent_lane",
		  1,
		  32,
		  0,
		  719,
		  { "names lane 16, which has ended", "shfl.sync.bfly", "thread (16" } },
		{ "fault_endless", 1, 1, 0, 702, { "does not end", "thread (0,0,0)", "kernel fault_endless" } },
		{ "fault_shared_never_written", 1, 64, 0, 719, { "never written", "thread (32,0,0)", "ld.shared" } },
	};
	static const float a[256];
	configure("max_instructions=100000");
	struct arrays p = { upload(a, sizeof a), 0, allocate(4096), table[_i].n };
	ck_assert_cuda(cu.cuMemsetD8Async(p.out, 0, 4096, NULL));
	int code = run(table[_i].kernel, table[_i].blocks, table[_i].threads, p);
	check_fault(code, table[_i].code,
		    TOLD(table[_i].kernel, "PTX line", table[_i].told[0], table[_i].told[1], table[_i].told[2]));
	/* The context is lost: every later call says the same. */
	uint64_t address;
	ck_assert_int_eq(cu.cuMemAlloc_v2(&address, 4096), table[_i].code);
}
END_TEST
#define KERNEL_FAULTS 10

START_TEST(accesses_outside_the_operands_are_found)
{
	static const float a[64];
	uint64_t arena = allocate(4096);
	const struct sim_range range[] = { { arena, 256, SIM_READ }, { arena + 256, 256, SIM_WRITE } };
	ck_assert_cuda(cu.cuMemcpyHtoD_v2(arena, a, sizeof a));
	/* 65 elements: the last one lies in the arena, behind the output. */
	ck_assert_cuda(cu.sim_operation_begin(NULL, "relu \"one\"", range, 2));
	ck_assert_cuda(launch_in(NULL, "fault_beyond", 1, 64, (struct arrays){ 0, 0, arena + 256, 1 }));
	int code = cu.cuCtxSynchronize();
	check_fault(code, 700, TOLD("relu \"one\"", "outside the operands that this launch writes", "thread (63,0,0)"));
}
END_TEST

START_TEST(dead_and_unwritten_bytes_are_found)
{
	static const float a[N];
	struct arrays p = { upload(a, sizeof a), upload(a, sizeof a), allocate(sizeof a), N };
	if (_i == 0) { /* dead by the plan */
		ck_assert_cuda(cu.sim_mark_dead(NULL, p.a + 400, 4));
	} else if (_i == 1) { /* never written */
		p.b = allocate(sizeof a);
	} else { /* scratch of an operation that is over */
		const struct sim_range range[] = { { p.a, sizeof a, SIM_WORKSPACE } };
		ck_assert_cuda(cu.sim_operation_begin(NULL, "op", range, 1));
		ck_assert_cuda(cu.cuMemsetD8Async(p.a, 0, sizeof a, NULL));
		ck_assert_cuda(cu.sim_operation_end(NULL));
	}
	int code = run("probe_floats", 8, 128, p);
	check_fault(code, 700,
		    TOLD("probe_floats", _i == 1 ? "was never written" : "after its value was declared dead"));
}
END_TEST

START_TEST(freed_memory_is_known)
{
	static const float a[N];
	struct arrays p = { upload(a, sizeof a), upload(a, sizeof a), allocate(sizeof a), N };
	ck_assert_cuda(cu.cuMemFree_v2(p.a));
	ck_assert_int_eq(cu.cuMemFree_v2(p.a), 1);
	check_fault(0, 0, TOLD("freed twice"));
	ck_assert_int_eq(run("probe_floats", 8, 128, p), 700);
	ck_assert(strstr(cu.sim_failure(1), "freed memory") != NULL);
}
END_TEST

/* ---- Order between streams ---- */

/* Writes in one stream, reads in another; with the event it is right, whatever the order of execution. */
static int write_then_read(bool with_event)
{
	static const float a[N];
	void *first, *second, *event;
	ck_assert_cuda(cu.cuStreamCreate(&first, 1));
	ck_assert_cuda(cu.cuStreamCreate(&second, 1));
	ck_assert_cuda(cu.cuEventCreate(&event, 2));
	struct arrays one = { upload(a, sizeof a), upload(a, sizeof a), allocate(sizeof a), N };
	struct arrays two = { one.out, one.b, allocate(sizeof a), N };
	ck_assert_cuda(launch_in(first, "probe_floats", 8, 128, one));
	if (with_event) {
		ck_assert_cuda(cu.cuEventRecord(event, first));
		ck_assert_cuda(cu.cuStreamWaitEvent(second, event, 0));
	}
	int code = launch_in(second, "probe_floats", 8, 128, two);
	if (!code)
		code = cu.cuStreamSynchronize(second);
	return code ? code : cu.cuStreamSynchronize(first);
}

START_TEST(a_missing_event_is_found_in_any_order)
{
	use_seed(_i);
	int code = write_then_read(false);
	ck_assert_int_eq(code, 700);
	/* Either stream may have come first: the value is not there yet, or it may not be. */
	ck_assert_msg(strstr(cu.sim_failure(0), "no event orders them") || strstr(cu.sim_failure(0), "never written"),
		      "seed %d: %s", _i, cu.sim_failure(0));
}
END_TEST

START_TEST(an_event_orders_streams)
{
	use_seed(_i);
	ck_assert_cuda(write_then_read(true));
	ck_assert_uint_eq(cu.sim_failures(), 0);
}
END_TEST

START_TEST(host_memory_under_a_copy_must_not_change)
{
	void *stream, *pinned;
	ck_assert_cuda(cu.cuStreamCreate(&stream, 1));
	ck_assert_cuda(cu.cuMemHostAlloc(&pinned, 4096, 0));
	memset(pinned, 1, 4096);
	uint64_t address = allocate(4096);
	ck_assert_cuda(cu.cuMemcpyHtoDAsync_v2(address, pinned, 4096, stream));
	if (_i == 1)
		ck_assert_cuda(cu.cuStreamSynchronize(stream));
	memset(pinned, 2, 4096);
	int code = cu.cuStreamSynchronize(stream);
	if (_i == 0)
		check_fault(code, 719, TOLD("the host changed the bytes"));
	else
		ck_assert_cuda(code);
}
END_TEST

/* ---- Capture and graphs ---- */

/* Counts to three on the device in one branch while another fills a buffer; both are joined. */
static void *capture_fork(void *stream, void *other, uint64_t counter, uint64_t buffer)
{
	void *fork, *join, *graph, *executable;
	size_t nodes = 0;
	ck_assert_cuda(cu.cuEventCreate(&fork, 2));
	ck_assert_cuda(cu.cuEventCreate(&join, 2));
	ck_assert_cuda(cu.cuStreamBeginCapture_v2(stream, 1));
	ck_assert_cuda(cu.cuEventRecord(fork, stream));
	ck_assert_cuda(cu.cuStreamWaitEvent(other, fork, 0));
	for (int i = 0; i < 3; i++)
		ck_assert_cuda(launch_in(stream, "probe_count", 1, 32, (struct arrays){ 0, 0, counter, 1 }));
	ck_assert_cuda(cu.cuMemsetD8Async(buffer, 7, 4096, other));
	ck_assert_cuda(cu.cuEventRecord(join, other));
	ck_assert_cuda(cu.cuStreamWaitEvent(stream, join, 0));
	ck_assert_cuda(cu.cuMemcpyDtoDAsync_v2(buffer + 4096, buffer, 4096, stream));
	ck_assert_cuda(cu.cuStreamEndCapture(stream, &graph));
	ck_assert_cuda(cu.cuGraphGetNodes(graph, NULL, &nodes));
	ck_assert_uint_eq(nodes, 5);
	ck_assert_cuda(cu.cuGraphInstantiateWithFlags(&executable, graph, 0));
	ck_assert_cuda(cu.cuGraphDestroy(graph));
	ck_assert_cuda(cu.cuGraphUpload(executable, stream));
	ck_assert_cuda(cu.cuEventDestroy_v2(fork));
	ck_assert_cuda(cu.cuEventDestroy_v2(join));
	return executable;
}

START_TEST(a_graph_is_replayed)
{
	int zero = 0, count;
	unsigned char bytes[4096];
	void *stream, *other;
	use_seed(_i);
	ck_assert_cuda(cu.cuStreamCreate(&stream, 1));
	ck_assert_cuda(cu.cuStreamCreate(&other, 1));
	uint64_t counter = upload(&zero, sizeof zero), buffer = allocate(8192);
	/* Code is on the device before the capture begins. */
	ck_assert_cuda(launch_in(stream, "probe_count", 1, 32, (struct arrays){ 0, 0, counter, 0 }));
	ck_assert_cuda(cu.cuStreamSynchronize(stream));
	void *executable = capture_fork(stream, other, counter, buffer);
	cu.sim_freeze(1);
	for (int i = 0; i < 4; i++)
		ck_assert_cuda(cu.cuGraphLaunch(executable, stream));
	ck_assert_cuda(cu.cuStreamSynchronize(stream));
	cu.sim_freeze(0);
	ck_assert_cuda(cu.cuMemcpyDtoH_v2(&count, counter, sizeof count));
	ck_assert_cuda(cu.cuMemcpyDtoH_v2(bytes, buffer + 4096, sizeof bytes));
	ck_assert_int_eq(count, 12);
	ck_assert_int_eq(bytes[4095], 7);
	ck_assert_cuda(cu.cuGraphExecDestroy(executable));
	ck_assert_cuda(cu.cuMemFree_v2(counter));
	ck_assert_cuda(cu.cuMemFree_v2(buffer));
	ck_assert_cuda(cu.cuStreamDestroy_v2(stream));
	ck_assert_cuda(cu.cuStreamDestroy_v2(other));
	ck_assert_cuda(cu.cuModuleUnload(module));
	ck_assert_cuda(cu.cuDevicePrimaryCtxRelease_v2(0));
	ck_assert_str_eq(cu.sim_leaks(), "");
	ck_assert_uint_eq(cu.sim_failures(), 0);
}
END_TEST

START_TEST(illegal_calls_end_a_capture)
{
	void *stream, *other, *event, *graph;
	uint64_t address;
	ck_assert_cuda(cu.cuStreamCreate(&stream, 1));
	ck_assert_cuda(cu.cuStreamCreate(&other, 1));
	ck_assert_cuda(cu.cuEventCreate(&event, 2));
	uint64_t buffer = allocate(4096);
	ck_assert_cuda(cu.cuStreamBeginCapture_v2(stream, 1));
	switch (_i) {
	case 0:
		ck_assert_int_eq(cu.cuMemAlloc_v2(&address, 4096), 900);
		break;
	case 1:
		ck_assert_int_eq(cu.cuStreamSynchronize(stream), 900);
		break;
	case 2: /* pageable memory */
		ck_assert_int_eq(cu.cuMemcpyHtoDAsync_v2(buffer, &address, 8, stream), 900);
		break;
	case 3: /* an event from outside */
		ck_assert_cuda(cu.cuEventRecord(event, other));
		ck_assert_int_eq(cu.cuStreamWaitEvent(stream, event, 0), 905);
		break;
	case 4: /* a kernel whose code is not on the device yet */
		ck_assert_int_eq(launch_in(stream, "probe_count", 1, 32, (struct arrays){ 0, 0, buffer, 1 }), 900);
		break;
	default: /* a branch that does not come back */
		ck_assert_cuda(cu.cuEventRecord(event, stream));
		ck_assert_cuda(cu.cuStreamWaitEvent(other, event, 0));
		ck_assert_cuda(cu.cuMemsetD8Async(buffer, 0, 16, other));
		ck_assert_int_eq(cu.cuStreamEndCapture(stream, &graph), 904);
		return;
	}
	ck_assert_int_eq(cu.cuStreamEndCapture(stream, &graph), 901);
	if (_i != 3)
		ck_assert_uint_eq(cu.sim_failures(), 1);
}
END_TEST

/* ---- Memory of the device ---- */

START_TEST(allocations_after_the_freeze_are_found)
{
	void *event;
	cu.sim_freeze(1);
	allocate(4096);
	check_fault(0, 0, TOLD("cuMemAlloc_v2 after the freeze"));
	ck_assert_cuda(cu.cuEventCreate(&event, 0));
	/* Code that arrives with the first launch is an allocation too, though nobody asked for it. */
	ck_assert_cuda(launch_in(NULL, "probe_count", 1, 32, (struct arrays){ 0, 0, allocate(64), 1 }));
	bool hidden = false;
	for (uint32_t i = 0; i < cu.sim_failures(); i++)
		hidden = hidden || strstr(cu.sim_failure(i), "hidden bytes of device memory after the freeze");
	ck_assert(hidden);
}
END_TEST

START_TEST(hidden_memory_counts)
{
	size_t free_bytes, total, before;
	uint64_t address;
	ck_assert_cuda(cu.cuMemGetInfo_v2(&free_bytes, &total));
	ck_assert_uint_eq(total, UINT64_C(4) << 30);
	ck_assert_uint_le(free_bytes, total - (300 << 20)); /* the context */
	before = free_bytes;
	address = allocate(5 << 20);
	ck_assert_cuda(cu.cuMemGetInfo_v2(&free_bytes, &total));
	ck_assert_uint_eq(before - free_bytes, 6 << 20); /* whole granules */
	ck_assert_cuda(cu.cuMemFree_v2(address));
	ck_assert_int_eq(cu.cuMemAlloc_v2(&address, before + 1), 2);
	ck_assert_cuda(cu.cuMemAlloc_v2(&address, before));
	/* Nothing is left for the code of a kernel. */
	configure("function=4MiB");
	ck_assert_int_eq(launch_in(NULL, "probe_count", 1, 32, (struct arrays){ 0, 0, address, 1 }), 2);
}
END_TEST

START_TEST(leaks_are_told)
{
	void *stream;
	allocate(4096);
	ck_assert_cuda(cu.cuStreamCreate(&stream, 0));
	ck_assert_str_eq(cu.sim_leaks(), "1 device allocations, 1 streams, 1 modules, 1 uses of the context");
	ck_assert_cuda(cu.cuDevicePrimaryCtxRelease_v2(0));
	check_fault(0, 0, TOLD("1 device allocations, 1 streams, 1 modules"));
}
END_TEST

/* ---- Faults of the device ---- */

START_TEST(each_call_can_fail)
{
	uint64_t address;
	cu.sim_fault("cuMemAlloc", 2, 2);
	allocate(64);
	ck_assert_int_eq(cu.cuMemAlloc_v2(&address, 64), 2);
	allocate(64); /* once */
	cu.sim_fault(NULL, 3, 214);
	allocate(64);
	allocate(64);
	ck_assert_int_eq(cu.cuMemAlloc_v2(&address, 64), 214);
	ck_assert_int_eq(cu.cuCtxSynchronize(), 214); /* an uncorrectable error stays */
	ck_assert_uint_eq(cu.sim_failures(), 0);
}
END_TEST

START_TEST(a_failing_kernel_is_seen_later)
{
	int zero = 0;
	uint64_t counter = upload(&zero, sizeof zero);
	cu.sim_fault("kernel", 2, 719);
	ck_assert_cuda(run("probe_count", 1, 32, (struct arrays){ 0, 0, counter, 1 }));
	ck_assert_cuda(launch_in(NULL, "probe_count", 1, 32, (struct arrays){ 0, 0, counter, 1 }));
	ck_assert_int_eq(cu.cuCtxSynchronize(), 719);
	ck_assert_int_eq(cu.cuMemcpyDtoH_v2(&zero, counter, sizeof zero), 719);
}
END_TEST

/* ---- The text as this machine's nvcc writes it ---- */

START_TEST(fresh_text_behaves_alike)
{
	const char *path = testing_file("probe.ptx", "", 0);
	char command[PATH_MAX + 256];
	if (system("nvcc --version >/dev/null 2>&1") != 0)
		TESTING_SKIP("nvcc is not installed");
	snprintf(command, sizeof command,
		 "nvcc -ptx -arch=compute_75 -fmad=false -o '%s' tests/cudasim/kernels/probe.cu", path);
	ck_assert_int_eq(system(command), 0);
	ck_assert_cuda(cu.cuModuleUnload(module));
	ck_assert_int_eq(setenv("TARN_TEST_PROBE", path, 1), 0);
	char *text = read_probe();
	ck_assert_cuda(cu.cuModuleLoadData(&module, text));
	free(text);
	static float a[N], b[N], out[N];
	struct testing_random random = { 21 };
	for (int i = 0; i < N; i++) {
		a[i] = testing_float(&random) * 40;
		b[i] = testing_float(&random) * 9;
	}
	struct arrays p = { upload(a, sizeof a), upload(b, sizeof b), allocate(sizeof out), N };
	ck_assert_cuda(run("probe_floats", 8, 128, p));
	ck_assert_cuda(cu.cuMemcpyDtoH_v2(out, p.out, sizeof out));
	for (int i = 0; i < N; i++)
		ck_assert_msg(out[i] == probe_float(a[i], b[i]), "element %d", i);
	ck_assert_int_eq(run("fault_missing_barrier", 1, 256, p), 719);
}
END_TEST

static TCase *make_case(Suite *suite, const char *name)
{
	TCase *tests = tcase_create(name);
	tcase_add_checked_fixture(tests, setup, NULL);
	tcase_set_timeout(tests, 60);
	suite_add_tcase(suite, tests);
	return tests;
}

int main(void)
{
	Suite *suite = suite_create("cudasim");
	TCase *tests = make_case(suite, "arithmetic");
	tcase_add_loop_test(tests, integers_are_exact, 0, SEEDS);
	tcase_add_loop_test(tests, floats_are_exact, 0, SEEDS);
	tcase_add_test(tests, doubles_are_exact);
	tcase_add_loop_test(tests, lanes_part_and_meet, 0, SEEDS);
	tcase_add_loop_test(tests, halves_of_a_word_are_apart, 0, SEEDS);
	tcase_add_loop_test(tests, shared_memory_and_shuffles_sum, 0, SEEDS);
	tcase_add_loop_test(tests, votes_scans_and_atomics, 0, SEEDS);
	tcase_add_loop_test(tests, dynamic_shared_memory_transposes, 0, SEEDS);
	tcase_add_test(tests, sixteen_bit_types_round_once);
	tcase_add_test(tests, fresh_text_behaves_alike);
	tests = make_case(suite, "faults");
	tcase_add_test(tests, texts_outside_the_subset_are_refused);
	tcase_add_loop_test(tests, kernel_faults_are_found, 0, KERNEL_FAULTS);
	tcase_add_test(tests, accesses_outside_the_operands_are_found);
	tcase_add_loop_test(tests, dead_and_unwritten_bytes_are_found, 0, 3);
	tcase_add_test(tests, freed_memory_is_known);
	tests = make_case(suite, "order");
	tcase_add_loop_test(tests, a_missing_event_is_found_in_any_order, 0, 8);
	tcase_add_loop_test(tests, an_event_orders_streams, 0, 8);
	tcase_add_loop_test(tests, host_memory_under_a_copy_must_not_change, 0, 2);
	tcase_add_loop_test(tests, a_graph_is_replayed, 0, SEEDS);
	tcase_add_loop_test(tests, illegal_calls_end_a_capture, 0, 6);
	tests = make_case(suite, "memory");
	tcase_add_test(tests, allocations_after_the_freeze_are_found);
	tcase_add_test(tests, hidden_memory_counts);
	tcase_add_test(tests, leaks_are_told);
	tcase_add_test(tests, each_call_can_fail);
	tcase_add_test(tests, a_failing_kernel_is_seen_later);
	return testing_run(suite);
}
