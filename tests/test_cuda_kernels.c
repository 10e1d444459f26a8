/*
 * test_cuda_kernels.c - the CUDA kernels, as the PTX text that ships, on the simulator.
 *
 * Every conformance case runs through cuda_launch_build() and the kernels: the results agree with plain loops over
 * doubles, only the op's own outputs and workspace are written, and the bits are the same for every order of blocks,
 * warps and threads, at other addresses, and in place. The simulator fails on races, missing barriers, misalignment,
 * and accesses outside the operands of a launch.
 */
#include "conformance/case_run.h"
#include "conformance/reference.h"
#include "conformance/stored_form.h"
#include "support/kernel_driver.h"
#include "support/kernel_engine.h"
#include "support/testing.h"

#include "cuda/cuda_launch.h"
#include "graph/blockwise.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUP 8
#define GROUPS ((conformance_case_count + GROUP - 1) / GROUP)

static const struct single_options plain = { .in_place = -1 };

static bool excluded(const struct conformance_case *test)
{
	return conformance_excluded(kernel_driver.name, test->name) != NULL;
}

START_TEST(agree_with_the_reference)
{
	for (int i = _i * GROUP; i < (_i + 1) * GROUP && i < conformance_case_count; i++) {
		const struct conformance_case *test = &conformance_cases[i];
		struct single_op single;
		if (excluded(test)) {
			ck_assert_fails(single_op_open(&single, &kernel_driver, test->kind, &test->attr, test->input,
						       test->inputs, &plain),
					TARN_EUNSUPPORTED, "slope");
			single_op_close(&single);
			continue;
		}
		case_open(&single, &kernel_driver, test, &plain);
		ck_assert_uint_eq(single.info.workspace_bytes % TARN_ALIGNMENT, 0);
		case_write_inputs(&single, test);
		case_check(&single, test);
		uint64_t stray = single_op_stray(&single);
		ck_assert_msg(stray == UINT64_MAX, "%s: byte %llu of the arena belongs to nobody but was written",
			      test->name, (unsigned long long)stray);
		single_op_close(&single);
	}
}
END_TEST

/* ---- tensors of 16 bits ---- */

static bool slow(void)
{
	const char *text = getenv("TARN_TEST_SLOW");
	return text && *text;
}

/* In make check each case has one of the four forms, in make check-slow all of them. */
START_TEST(agree_in_16_bits)
{
	static const enum dtype types[] = { DTYPE_BF16, DTYPE_F16 };
	for (int i = _i * GROUP; i < (_i + 1) * GROUP && i < conformance_case_count; i++)
		for (int form = 0; form < 4; form++) {
			struct conformance_case stored;
			struct single_op single;
			enum dtype dtype = types[form / 2], result = form % 2 ? DTYPE_F32 : dtype;
			if ((form != i % 4 && !slow()) || excluded(&conformance_cases[i]) ||
			    !conformance_stored_form(&conformance_cases[i], dtype, result, &stored))
				continue;
			case_open(&single, &kernel_driver, &stored, &plain);
			case_write_inputs(&single, &stored);
			case_check(&single, &stored);
			ck_assert_uint_eq(single_op_stray(&single), UINT64_MAX);
			single_op_close(&single);
		}
}
END_TEST

static void expect_same(const struct conformance_case *test, const char *what, const unsigned char *want,
			const struct single_options *options, uint32_t launches)
{
	size_t bytes;
	unsigned char *got = case_outputs(&kernel_driver, test, options, launches, &bytes);
	ck_assert_msg(!memcmp(got, want, bytes), "%s: other bits %s, seed %llu", test->name, what,
		      (unsigned long long)kernel_driver_options.seed);
	free(got);
}

START_TEST(give_the_same_bits)
{
	for (int i = _i * GROUP; i < (_i + 1) * GROUP && i < conformance_case_count; i++) {
		const struct conformance_case *test = &conformance_cases[i];
		struct single_options other = plain;
		size_t bytes;
		if (excluded(test))
			continue;
		kernel_driver_options.seed = 0;
		unsigned char *want = case_outputs(&kernel_driver, test, &plain, 1, &bytes);
		kernel_driver_options.seed = (uint64_t)i * 7919 + 1;
		other.shift = 5 * TARN_ALIGNMENT;
		expect_same(test, "at another address, launched again", want, &other, 2);
		other.shift = 0;
		for (uint32_t j = 0; j < test->inputs; j++) {
			kernel_driver_options.seed++;
			other.in_place = (int)j;
			if (op_row(test->kind)->in_place & 1u << j)
				expect_same(test, "in place", want, &other, 1);
		}
		free(want);
	}
}
END_TEST

/* The driver loads kernels by these names at boot: all that the text has, and no others. */
START_TEST(names_are_those_of_the_text)
{
	const char *text = cuda_kernels_text[_i];
	uint32_t entries = 0;
	char name[CUDA_KERNEL_NAME_BYTES], entry[128];
	for (const char *at = text; (at = strstr(at, ".entry ")); at++)
		entries++;
	ck_assert_uint_eq(entries, cuda_kernel_count);
	for (uint32_t i = 0; i < cuda_kernel_count; i++) {
		cuda_launch_name(cuda_kernel_name[i], (enum storage_kind)_i, name);
		snprintf(entry, sizeof entry, ".entry %s(", name);
		ck_assert_msg(strstr(text, entry) != NULL, "the text has no kernel %s", name);
	}
}
END_TEST

/* ---- accuracy of the activations, in units in the last place of the result ---- */

#define POINTS 4096

static double units_in_last_place(double got, double want)
{
	int exponent;
	frexp(want, &exponent);
	if (exponent < FLT_MIN_EXP)
		exponent = FLT_MIN_EXP;
	return fabs(got - want) / ldexp(1.0, exponent - FLT_MANT_DIG);
}

/* The largest error over [-range, range], of the value or of the derivative from its own argument. */
static double largest_error(uint32_t activation, bool gradient, float range)
{
	const struct op_attr attr = { .activation = activation,
				      .alpha = activation == ACTIVATION_LEAKY_RELU ? 0.1f : 1 };
	const struct single_input x = { DTYPE_F32, 0, 1, { POINTS } }, in[] = { x, x };
	static float point[POINTS], one[POINTS], got[POINTS];
	struct single_op single;
	double largest = 0;
	for (int i = 0; i < POINTS; i++) {
		point[i] = range * (float)(2 * i + 1 - POINTS) / (float)POINTS;
		one[i] = 1;
	}
	ck_assert_ok(single_op_open(&single, &kernel_driver, gradient ? OP_ACTIVATION_GRAD : OP_ACTIVATION, &attr, in,
				    gradient ? 2 : 1, &plain));
	ck_assert_ok(single_op_write(&single, 0, gradient ? one : point));
	if (gradient)
		ck_assert_ok(single_op_write(&single, 1, point));
	ck_assert_ok(single_op_launch(&single));
	ck_assert_ok(single_op_read(&single, gradient ? 2 : 1, got));
	for (int i = 0; i < POINTS; i++) {
		double at = (double)point[i], alpha = (double)attr.alpha;
		double want = gradient ? reference_activation_grad(activation, alpha, at)
				       : reference_activation(activation, alpha, at);
		largest = fmax(largest, units_in_last_place((double)got[i], want));
	}
	single_op_close(&single);
	return largest;
}

/*
 * Bounds on |error| in units in the last place: over [-8, 8] for values, and over the arguments that occur for
 * derivatives (outputs of the activation where op.h says so). In the tail of GELU the rounding of its argument counts
 * x^2 times; the derivatives of GELU and SiLU cross zero, where nothing relative can be promised.
 */
START_TEST(activations_are_accurate)
{
	static const struct {
		uint32_t activation;
		double value, derivative;
		float range; /* of the derivative's argument */
	} bound[] = {
		{ ACTIVATION_RELU, 0, 0, 8 },         { ACTIVATION_RELU6, 0, 0, 8 },
		{ ACTIVATION_LEAKY_RELU, 0.5, 0, 8 }, { ACTIVATION_ELU, 1.5, 0.5, 0.9f },
		{ ACTIVATION_SIGMOID, 2.5, 2, 0.9f }, { ACTIVATION_TANH, 2, 1, 0.9f },
		{ ACTIVATION_GELU, 80, INFINITY, 8 }, { ACTIVATION_GELU_TANH, 100, INFINITY, 8 },
		{ ACTIVATION_SILU, 3, INFINITY, 8 },  { ACTIVATION_SOFTPLUS, 2, 2.5, 8 },
	};
	for (size_t i = 0; i < sizeof bound / sizeof *bound; i++) {
		double value = largest_error(bound[i].activation, false, 8);
		double derivative = largest_error(bound[i].activation, true, bound[i].range);
		const char *name = activation_name((enum activation)bound[i].activation);
		ck_assert_msg(value <= bound[i].value, "%s: %g units in the last place", name, value);
		ck_assert_msg(derivative <= bound[i].derivative, "%s: derivative: %g units in the last place", name,
			      derivative);
	}
}
END_TEST

START_TEST(special_values)
{
	case_batch_gradient_sign(&kernel_driver);
	case_max_pool_ties(&kernel_driver);
}
END_TEST

/* ---- ops with more inputs than one launch takes, and limits ---- */

/* An op on `inputs` vectors of `length`, with input i in its own place of the arena, and the outputs behind them. */
struct wide_op {
	struct host_arena host;
	struct graph graph;
	struct device device;
	struct bound_instr *instr;
	uint64_t offset[1204], workspace;
	uint32_t inputs;
};

static enum tarn_status wide_op_graph(struct wide_op *wide, enum op_kind kind, const struct op_attr *attr,
				      uint32_t inputs, uint32_t length)
{
	uint32_t input[1204], out[OP_MAX_OUTPUTS];
	memset(wide, 0, sizeof *wide);
	host_arena_init(&wide->host);
	wide->inputs = inputs;
	ck_assert_ok(graph_init(&wide->graph, &wide->host));
	for (uint32_t i = 0; i < inputs; i++) {
		char name[16];
		snprintf(name, sizeof name, "in%u", i);
		ck_assert_ok(
			graph_add_persistent(&wide->graph, name, ROLE_PARAMETER, DTYPE_F32, &length, 1, &input[i]));
	}
	return graph_add_op(&wide->graph, kind, PHASE_FORWARD, "wide", attr, input, inputs, out);
}

static void wide_op_open(struct wide_op *wide)
{
	const struct device_options options = { .threads = 1, .workspace_cap = UINT64_MAX };
	struct kernel *kernel;
	struct kernel_info info;
	uint64_t at = 0;
	wide->device = (struct device){ .ops = &kernel_driver, .host = &wide->host };
	ck_assert_ok(kernel_driver.open(&wide->device, &options));
	ck_assert_ok(kernel_driver.compile(&wide->device, &wide->graph, 0, &kernel, &info));
	for (uint32_t i = 0; i < wide->graph.operands; i++) {
		wide->offset[i] = at;
		at += bytes_align(wide->graph.tensor[wide->graph.operand[i]].bytes);
	}
	ck_assert_ok(kernel_driver.reserve(&wide->device, at + info.workspace_bytes, NULL));
	ck_assert_ok(kernel_driver.bind(&wide->device, &wide->graph, 0, kernel, wide->offset, at, &wide->instr));
}

static void wide_op_close(struct wide_op *wide)
{
	if (wide->device.ops)
		kernel_driver.close(&wide->device);
	host_arena_fini(&wide->host);
}

static struct wide_op wide;

/* The norm of 1201 gradients, in six launches; and one that is not a number, which stays. */
START_TEST(clip_scale_of_many)
{
	const struct op_attr attr = { .alpha = 2 };
	const uint32_t inputs = 1201;
	float result[2];
	double total = 0;
	ck_assert_ok(wide_op_graph(&wide, OP_CLIP_SCALE, &attr, inputs, 1));
	wide_op_open(&wide);
	for (uint32_t i = 0; i < inputs; i++) {
		float value = (float)(i % 13) / 16;
		total += (double)value;
		ck_assert_ok(kernel_driver.write(&wide.device, wide.offset[i], &value, sizeof value));
	}
	for (int round = 0; round < 2; round++) {
		ck_assert_ok(kernel_driver.launch(&wide.device, wide.instr));
		for (uint32_t k = 0; k < 2; k++)
			ck_assert_ok(kernel_driver.read(&wide.device, wide.offset[inputs + k], &result[k], 4));
		if (round)
			break;
		ck_assert_double_eq_tol((double)result[1], sqrt(total), 1e-6 * sqrt(total));
		ck_assert_double_eq_tol((double)result[0], 2 / sqrt(total), 1e-6);
		ck_assert_ok(kernel_driver.write(&wide.device, wide.offset[500], &(float){ NAN }, 4));
	}
	ck_assert(isnan(result[0]) && isnan(result[1]));
	wide_op_close(&wide);
}
END_TEST

START_TEST(concat_of_many)
{
	const struct op_attr attr = { .axis = 0 };
	const uint32_t inputs = 167, length = 5;
	float value[167 * 5], result[167 * 5];
	ck_assert_ok(wide_op_graph(&wide, OP_CONCAT, &attr, inputs, length));
	wide_op_open(&wide);
	for (uint32_t i = 0; i < inputs * length; i++)
		value[i] = (float)i;
	for (uint32_t i = 0; i < inputs; i++)
		ck_assert_ok(kernel_driver.write(&wide.device, wide.offset[i], value + i * length, 20));
	ck_assert_ok(kernel_driver.launch(&wide.device, wide.instr));
	ck_assert_ok(kernel_driver.read(&wide.device, wide.offset[inputs], result, sizeof result));
	ck_assert_mem_eq(result, value, sizeof value);
	wide_op_close(&wide);
}
END_TEST

START_TEST(limits_are_named)
{
	struct op_attr fill = { .rank = 3, .extent = { 1u << 20, 1u << 20, 2 } };
	ck_assert_ok(wide_op_graph(&wide, OP_FILL, &fill, 0, 1));
	struct cuda_launch_list list = { .host = &wide.host };
	uint64_t bytes;
	ck_assert_fails(cuda_launch_build(&wide.graph, 0, 0, NULL, 0, &list, &bytes), TARN_EUNSUPPORTED,
			"at most 2^40");
	wide_op_close(&wide);
}
END_TEST

/*
 * Logits of 16 rows at a time: the same loss and gradients, of which those of w and bias are sums over the pieces; in
 * 16 bits the sum is float, and rounded once.
 */
START_TEST(linear_loss_in_pieces)
{
	static const enum dtype results[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F32 };
	const struct single_options pieces = { .in_place = -1, .workspace_cap = 1 };
	for (int i = 0; i < conformance_case_count; i++) {
		struct conformance_case test = conformance_cases[i];
		struct single_op single;
		if (test.kind != OP_LINEAR_CROSS_ENTROPY && test.kind != OP_LINEAR_CROSS_ENTROPY_GRAD)
			continue;
		if (_i && !conformance_stored_form(&conformance_cases[i], DTYPE_BF16, results[_i], &test))
			continue;
		case_open(&single, &kernel_driver, &test, &pieces);
		case_write_inputs(&single, &test);
		case_check(&single, &test);
		single_op_close(&single);
	}
}
END_TEST

/* ---- moments of 8 bits ---- */

#define MOMENTS 5003u

/* Three steps with gradients over eight decades, block 1 of zeros at first: what w, m and v hold after each. */
static void run_8bit_adam(const struct driver_ops *driver, bool decoupled, unsigned char *all, size_t bytes)
{
	const struct op_attr attr = { .rate_scale = 1,
				      .weight_decay = 0.1f,
				      .beta1 = 0.9f,
				      .beta2 = 0.99f,
				      .epsilon = 1e-6f,
				      .decoupled = decoupled };
	const uint32_t state = (uint32_t)blockwise_bytes(MOMENTS);
	const struct single_input input[] = { { DTYPE_F32, 0, 1, { MOMENTS } },
					      { DTYPE_U8, 0, 1, { state } },
					      { DTYPE_U8, 0, 1, { state } },
					      { DTYPE_F32, 0, 1, { MOMENTS } },
					      { DTYPE_U8, ROLE_SCALARS, 1, { sizeof(struct step_scalars) } } };
	static float w[MOMENTS], g[MOMENTS];
	static unsigned char zeros[2 * MOMENTS];
	struct testing_random random = { 12 };
	struct single_op single;
	const struct single_options options = { .threads = 1, .in_place = -1 };
	ck_assert_ok(single_op_open(&single, driver, OP_ADAM_8BIT, &attr, input, 5, &options));
	for (uint32_t i = 0; i < MOMENTS; i++)
		w[i] = decoupled ? testing_float(&random) : 0.0f;
	ck_assert_ok(single_op_write(&single, 0, w));
	ck_assert_ok(single_op_write(&single, 1, zeros));
	ck_assert_ok(single_op_write(&single, 2, zeros));
	for (uint32_t step = 0; step < 3; step++) {
		const struct step_scalars scalars = { .step = step,
						      .learning_rate = 0.01f,
						      .bias_correction1 = 1 - powf(0.9f, (float)step + 1),
						      .bias_correction2 = 1 - powf(0.99f, (float)step + 1) };
		for (uint32_t i = 0; i < MOMENTS; i++)
			g[i] = !step && i / BLOCKWISE_ELEMENTS == 1
				       ? 0
				       : testing_float(&random) * powf(10, -(float)testing_between(&random, 0, 8));
		ck_assert_ok(single_op_write(&single, 3, g));
		ck_assert_ok(single_op_write(&single, 4, &scalars));
		ck_assert_ok(single_op_launch(&single));
		for (uint32_t k = 0; k < 3; k++) {
			ck_assert_uint_le(single.bytes[k], bytes);
			ck_assert_ok(single_op_read(&single, k, all));
			all += single.bytes[k];
			bytes -= single.bytes[k];
		}
	}
	ck_assert_uint_eq(bytes, 0);
	single_op_close(&single);
}

/* A run that moves from one device to another goes on with the same state: codes, scales and weights, bit for bit. */
START_TEST(codes_are_those_of_the_cpu_driver)
{
	const size_t bytes = 3 * (MOMENTS * sizeof(float) + 2 * blockwise_bytes(MOMENTS));
	unsigned char *ours = malloc(bytes), *cpu = malloc(bytes);
	ck_assert(ours && cpu);
	run_8bit_adam(driver_find("cpu"), _i, cpu, bytes);
	run_8bit_adam(&kernel_driver, _i, ours, bytes);
	for (size_t i = 0; i < bytes; i++)
		ck_assert_msg(ours[i] == cpu[i], "byte %zu of %zu is %u, on the cpu driver %u", i, bytes, ours[i],
			      cpu[i]);
	free(ours);
	free(cpu);
}
END_TEST

/* A tensor of 2^40 elements is cut into a grid that a device takes and that covers it. */
START_TEST(grids_of_large_tensors)
{
	struct op_attr fill = { .rank = 2, .extent = { 1u << 20, 1u << 20 } };
	struct cuda_launch_list list = { .host = &wide.host };
	const uint64_t address[] = { 4096 };
	uint64_t bytes;
	ck_assert_ok(wide_op_graph(&wide, OP_FILL, &fill, 0, 1));
	ck_assert_ok(cuda_launch_build(&wide.graph, 0, 0, address, 0, &list, &bytes));
	ck_assert_uint_eq(list.launches, 1);
	ck_assert_uint_eq((uint64_t)list.first->grid[0] * list.first->block[0] * 4, (uint64_t)1 << 40);
	wide_op_close(&wide);
}
END_TEST

/* One pixel of an image of 32 GiB: the address says whether all bits of its number were kept. */
START_TEST(places_have_64_bits)
{
	const uint32_t dim[] = { 1u << 31, 4 };
	const uint64_t skipped = (((uint64_t)1 << 31) - 1) * 4 * sizeof(float);
	const float pixel[] = { 1, 2, 3, 4 };
	const struct op_attr attr = { .axis = 0, .begin = dim[0] - 1, .extent = { 1 } };
	struct kernel_engine *engine;
	struct host_arena host;
	struct cuda_launch_list list = { .host = &host };
	struct graph graph;
	uint32_t x, y;
	uint64_t base, bytes;
	float got[4];
	host_arena_init(&host);
	ck_assert_ok(graph_init(&graph, &host));
	ck_assert_ok(graph_add_persistent(&graph, "x", ROLE_PARAMETER, DTYPE_F32, dim, 2, &x));
	ck_assert_ok(graph_add_op(&graph, OP_SLICE, PHASE_FORWARD, "slice", &attr, &x, 1, &y));
	ck_assert_ok(kernel_engine_open(&host, 0, &engine));
	ck_assert_ok(kernel_engine_reserve(engine, 2 * TARN_ALIGNMENT, &base));
	ck_assert_ok(kernel_engine_write(engine, base, pixel, sizeof pixel));
	const uint64_t address[] = { base - skipped, base + TARN_ALIGNMENT };
	const struct kernel_range range[] = { { base, sizeof pixel, true, false },
					      { base + TARN_ALIGNMENT, sizeof pixel, false, true } };
	ck_assert_ok(cuda_launch_build(&graph, 0, 0, address, 0, &list, &bytes));
	ck_assert_ok(kernel_engine_run(engine, &list, range, 2));
	ck_assert_ok(kernel_engine_read(engine, base + TARN_ALIGNMENT, got, sizeof got));
	ck_assert_mem_eq(got, pixel, sizeof pixel);
	kernel_engine_close(engine);
	host_arena_fini(&host);
}
END_TEST

/* ---- bias and activation behind a library's product ---- */

/* Rows and channels of C, in place, against the same expression on the host, bit for bit. */
static void check_epilogue(uint32_t rows, uint32_t channels, bool biased, uint32_t activation)
{
	const struct op_attr attr = { .activation = activation };
	const uint32_t a_dim[] = { rows, 2 }, b_dim[] = { 2, channels };
	struct testing_random random = { rows + channels };
	struct host_arena host;
	struct graph graph;
	uint32_t in[3], out[OP_MAX_OUTPUTS];
	uint64_t base, address[4] = { 0 }, elements = (uint64_t)rows * channels;
	const uint64_t bias_at = bytes_align(elements * sizeof(float));
	struct cuda_launch_list list = { .host = &host };
	host_arena_init(&host);
	ck_assert_ok(graph_init(&graph, &host));
	ck_assert_ok(graph_add_persistent(&graph, "a", ROLE_PARAMETER, DTYPE_F32, a_dim, 2, &in[0]));
	ck_assert_ok(graph_add_persistent(&graph, "b", ROLE_PARAMETER, DTYPE_F32, b_dim, 2, &in[1]));
	ck_assert_ok(graph_add_persistent(&graph, "bias", ROLE_PARAMETER, DTYPE_F32, &channels, 1, &in[2]));
	ck_assert_ok(graph_add_op(&graph, OP_MATMUL, PHASE_FORWARD, "c", &attr, in, biased ? 3 : 2, out));
	struct kernel_engine *engine;
	ck_assert_ok(kernel_engine_open(&host, 0, &engine));
	ck_assert_ok(kernel_engine_reserve(engine, bias_at + channels * sizeof(float), &base));
	float *c = HOST_ARRAY(&host, elements, float), *want = HOST_ARRAY(&host, elements, float);
	float *bias = HOST_ARRAY(&host, channels, float);
	ck_assert(c && want && bias);
	for (uint32_t k = 0; k < channels; k++)
		bias[k] = testing_float(&random);
	for (uint32_t i = 0; i < elements; i++) {
		c[i] = 8 * testing_float(&random);
		float z = c[i] + (biased ? bias[i % channels] : 0.0f);
		want[i] = activation == ACTIVATION_NONE             ? z
			  : z < 0                                   ? 0
			  : activation == ACTIVATION_RELU6 && z > 6 ? 6
								    : z;
	}
	ck_assert_ok(kernel_engine_write(engine, base, c, elements * sizeof *c));
	ck_assert_ok(kernel_engine_write(engine, base + bias_at, bias, channels * sizeof *bias));
	address[2] = base + bias_at;
	address[biased ? 3 : 2] = base;
	ck_assert_ok(cuda_launch_epilogue(&graph, 0, address, &list));
	ck_assert_uint_eq(list.launches, biased || activation ? 1 : 0);
	const struct kernel_range range[] = { { base, elements * sizeof *c, true, true },
					      { base + bias_at, channels * sizeof *bias, true, false } };
	ck_assert_ok(kernel_engine_run(engine, &list, range, 2));
	ck_assert_ok(kernel_engine_read(engine, base, c, elements * sizeof *c));
	ck_assert_mem_eq(c, want, elements * sizeof *want);
	kernel_engine_close(engine);
	host_arena_fini(&host);
}

START_TEST(epilogue_is_exact)
{
	check_epilogue(1, 1, true, ACTIVATION_NONE);
	check_epilogue(131, 17, true, ACTIVATION_RELU);
	check_epilogue(7, 1031, true, ACTIVATION_RELU6);
	check_epilogue(523, 3, false, ACTIVATION_RELU);
	check_epilogue(5, 5, false, ACTIVATION_NONE);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cuda_kernels");
	TCase *reference = tcase_create("reference"), *bits = tcase_create("bits"), *special = tcase_create("special");
	tcase_set_timeout(reference, 120);
	tcase_set_timeout(bits, 120);
	tcase_set_timeout(special, 60);
	tcase_add_loop_test(reference, agree_with_the_reference, 0, GROUPS);
	tcase_add_loop_test(bits, give_the_same_bits, 0, GROUPS);
	tcase_add_loop_test(reference, agree_in_16_bits, 0, GROUPS);
	tcase_add_loop_test(special, names_are_those_of_the_text, 0, STORED_KINDS);
	tcase_add_test(special, activations_are_accurate);
	tcase_add_test(special, special_values);
	tcase_add_test(special, clip_scale_of_many);
	tcase_add_test(special, concat_of_many);
	tcase_add_loop_test(special, linear_loss_in_pieces, 0, 3);
	tcase_add_loop_test(special, codes_are_those_of_the_cpu_driver, 0, 2);
	tcase_add_test(special, limits_are_named);
	tcase_add_test(special, grids_of_large_tensors);
	tcase_add_test(special, places_have_64_bits);
	tcase_add_test(special, epilogue_is_exact);
	suite_add_tcase(suite, reference);
	suite_add_tcase(suite, bits);
	suite_add_tcase(suite, special);
	return testing_run(suite);
}
