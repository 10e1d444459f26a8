/*
 * test_conformance.c - one suite for every driver of the build, through the public table alone.
 *
 * For each case of cases.c: the results agree with the plain loops of reference.c; nothing outside the operands and
 * the workspace is written; and the bits are the same when repeated, at other addresses, in place, and (where the op
 * promises it) for other numbers of threads. The null driver does no arithmetic and passes the structural part.
 */
#include "conformance/cases.h"
#include "conformance/reference.h"
#include "support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct step_scalars scalars = { .seed = 0x123456789ABCDEFu,
					     .step = 41,
					     .learning_rate = 0.03f,
					     .bias_correction1 = 0.4f,
					     .bias_correction2 = 0.15f };

static bool computes(const struct driver_ops *driver)
{
	return strcmp(driver->name, "null") != 0;
}

/* The random content of one operand, as its device holds it. */
static void fill_operand(const struct conformance_case *test, uint32_t operand, const struct tensor *tensor, void *data)
{
	struct testing_random random = { (uint64_t)operand * 7919 + test->kind };
	uint64_t n = tensor_elements(tensor);
	const uint32_t *kernel = test->attr.window.kernel;
	if (tensor->role == ROLE_SCALARS) {
		memcpy(data, &scalars, sizeof scalars);
		return;
	}
	for (uint64_t i = 0; i < n; i++) {
		float value = testing_float(&random);
		/* Twice as wide as [-1, 1): activations bend outside it too. */
		value = test->positive & 1u << operand ? 0.7f + 0.5f * value : 2.0f * value;
		if (operand == 0)
			value += test->offset;
		if (tensor->dtype == DTYPE_F32)
			((float *)data)[i] = value;
		else if (tensor->dtype == DTYPE_I32)
			((int32_t *)data)[i] =
				test->kind == OP_INPUT
					? (int32_t)i - 3
					: (int32_t)testing_between(&random, 0, conformance_labels(test) - 1);
		else if (tensor->dtype == DTYPE_U8)
			((uint8_t *)data)[i] = (uint8_t)testing_between(&random, 0, kernel[0] * kernel[1] - 1);
		else
			((uint64_t *)data)[i] = 5;
	}
}

static void to_double(const struct tensor *tensor, const void *data, double *value)
{
	for (uint64_t i = 0; i < tensor_elements(tensor); i++)
		value[i] = tensor->dtype == DTYPE_F32   ? (double)((const float *)data)[i]
			   : tensor->dtype == DTYPE_I32 ? (double)((const int32_t *)data)[i]
			   : tensor->dtype == DTYPE_U8  ? (double)((const uint8_t *)data)[i]
							: (double)((const uint64_t *)data)[i];
}

static struct reference_operand reference_of(const struct tensor *tensor, const void *data)
{
	struct reference_operand operand = { .rank = tensor->rank, .elements = tensor_elements(tensor) };
	memcpy(operand.dim, tensor->dim, tensor->rank * sizeof *tensor->dim);
	operand.value = calloc(operand.elements, sizeof *operand.value);
	ck_assert_ptr_nonnull(operand.value);
	if (data && tensor->role != ROLE_SCALARS)
		to_double(tensor, data, operand.value);
	return operand;
}

static void open_case(struct single_op *single, const struct driver_ops *driver, const struct conformance_case *test,
		      const struct single_options *options)
{
	enum tarn_status st =
		single_op_open(single, driver, test->kind, &test->attr, test->input, test->inputs, options);
	ck_assert_msg(st == TARN_OK, "%s, %s: %s", driver->name, test->name, tarn_error());
}

static void write_inputs(struct single_op *single, const struct conformance_case *test)
{
	for (uint32_t i = 0; i < test->inputs; i++) {
		void *data = calloc(1, single->bytes[i]);
		ck_assert_ptr_nonnull(data);
		fill_operand(test, i, single_op_tensor(single, i), data);
		ck_assert_ok(single_op_write(single, i, data));
		free(data);
	}
}

static void *read_operand(struct single_op *single, uint32_t operand)
{
	void *data = calloc(1, single->bytes[operand] + 1);
	ck_assert_ptr_nonnull(data);
	ck_assert_ok(single_op_read(single, operand, data));
	return data;
}

static void compare(const struct conformance_case *test, uint32_t output, const struct reference_operand *want,
		    const struct tensor *tensor, const void *data)
{
	double scale = 1, *got = calloc(want->elements, sizeof *got);
	ck_assert_ptr_nonnull(got);
	to_double(tensor, data, got);
	for (uint64_t i = 0; i < want->elements; i++)
		scale = fmax(scale, fabs(want->value[i]));
	for (uint64_t i = 0; i < want->elements; i++)
		ck_assert_msg(fabs(got[i] - want->value[i]) <= test->tolerance * scale,
			      "%s: output %u, element %llu is %.9g, expected %.9g (tolerance %g)", test->name, output,
			      (unsigned long long)i, got[i], want->value[i], test->tolerance * scale);
	free(got);
}

static void check_against_reference(struct single_op *single, const struct conformance_case *test)
{
	struct reference_operand in[SINGLE_OP_INPUTS], out[OP_MAX_OUTPUTS];
	for (uint32_t i = 0; i < test->inputs; i++) {
		void *data = read_operand(single, i);
		in[i] = reference_of(single_op_tensor(single, i), data);
		free(data);
	}
	for (uint32_t k = 0; k < single->outputs; k++)
		out[k] = reference_of(single_op_tensor(single, test->inputs + k), NULL);
	reference_run(test->kind, &test->attr, &scalars, in, test->inputs, out);
	ck_assert_ok(single_op_launch(single));
	for (uint32_t k = 0; k < single->outputs; k++) {
		void *data = read_operand(single, test->inputs + k);
		compare(test, k, &out[k], single_op_tensor(single, test->inputs + k), data);
		free(data);
		free(out[k].value);
	}
	for (uint32_t i = 0; i < test->inputs; i++)
		free(in[i].value);
}

static bool refused(const struct driver_ops *driver, const struct conformance_case *test)
{
	const struct single_options plain = { .threads = 2, .in_place = -1 };
	if (!conformance_excluded(driver->name, test->name))
		return false;
	struct single_op single;
	enum tarn_status st =
		single_op_open(&single, driver, test->kind, &test->attr, test->input, test->inputs, &plain);
	ck_assert_msg(st == TARN_EUNSUPPORTED, "%s, %s: status %d, it should be refused", driver->name, test->name, st);
	single_op_close(&single);
	return true;
}

static void agree_with_reference(const struct driver_ops *driver, const struct conformance_case *test)
{
	const struct single_options plain = { .threads = 2, .in_place = -1 };
	struct single_op single;
	if (refused(driver, test))
		return;
	open_case(&single, driver, test, &plain);
	ck_assert_uint_eq(single.info.workspace_bytes % TARN_ALIGNMENT, 0);
	ck_assert_uint_gt(single.info.cost_ns, 0);
	write_inputs(&single, test);
	if (computes(driver)) {
		check_against_reference(&single, test);
		uint64_t stray = single_op_stray(&single);
		ck_assert_msg(stray == UINT64_MAX, "%s: byte %llu of the arena belongs to nobody but was written",
			      test->name, (unsigned long long)stray);
	} else {
		ck_assert_ok(single_op_launch(&single));
		unsigned char *data = read_operand(&single, test->inputs);
		ck_assert_uint_eq(data[0], 0);
		free(data);
	}
	single_op_close(&single);
}

/* Cases that one test process runs: starting a process and its library takes longer than a case. */
#define GROUP 16
#define GROUPS ((conformance_case_count + GROUP - 1) / GROUP)

START_TEST(agrees_with_the_reference)
{
	for (int i = _i * GROUP; i < (_i + 1) * GROUP && i < conformance_case_count; i++)
		for (uint32_t d = 0; d < driver_table_count; d++)
			agree_with_reference(driver_table[d], &conformance_cases[i]);
}
END_TEST

/* All outputs of one launch with these options, one after the other. */
static unsigned char *outputs_of(const struct driver_ops *driver, const struct conformance_case *test,
				 const struct single_options *options, uint32_t launches, size_t *bytes)
{
	struct single_op single;
	open_case(&single, driver, test, options);
	bool consumes = options->in_place >= 0 || op_row(test->kind)->effect;
	*bytes = 0;
	for (uint32_t k = 0; k < single.outputs; k++)
		*bytes += single.bytes[test->inputs + k];
	unsigned char *all = malloc(*bytes), *at = all;
	ck_assert_ptr_nonnull(all);
	write_inputs(&single, test);
	for (uint32_t i = 0; i < launches; i++) {
		if (i && consumes)
			write_inputs(&single, test);
		ck_assert_ok(single_op_launch(&single));
	}
	for (uint32_t k = 0; k < single.outputs; k++) {
		ck_assert_ok(single_op_read(&single, test->inputs + k, at));
		at += single.bytes[test->inputs + k];
	}
	single_op_close(&single);
	return all;
}

static void expect_same(const struct driver_ops *driver, const struct conformance_case *test, const char *what,
			const unsigned char *want, const struct single_options *options, uint32_t launches)
{
	size_t bytes;
	unsigned char *got = outputs_of(driver, test, options, launches, &bytes);
	ck_assert_msg(!memcmp(got, want, bytes), "%s, %s: other bits %s", driver->name, test->name, what);
	free(got);
}

/* Convolutions and matrix products come from a library that may cut its sums by the number of threads. */
static bool threads_may_matter(enum op_kind kind)
{
	return kind == OP_MATMUL || kind == OP_BATCH_MATMUL || kind == OP_LINEAR_CROSS_ENTROPY ||
	       kind == OP_LINEAR_CROSS_ENTROPY_GRAD || kind == OP_CONV2D || kind == OP_CONV2D_GRAD_INPUT ||
	       kind == OP_CONV2D_GRAD_WEIGHT;
}

static void same_bits(const struct driver_ops *driver, const struct conformance_case *test)
{
	const struct single_options plain = { .threads = 2, .in_place = -1 };
	size_t bytes;
	if (!computes(driver) || conformance_excluded(driver->name, test->name))
		return;
	unsigned char *want = outputs_of(driver, test, &plain, 1, &bytes);
	struct single_options other = plain;
	other.shift = 5 * TARN_ALIGNMENT;
	expect_same(driver, test, "at another address, launched three times", want, &other, 3);
	for (uint32_t j = 0; j < test->inputs; j++) {
		other = plain;
		other.in_place = (int)j;
		if (op_row(test->kind)->in_place & 1u << j)
			expect_same(driver, test, "in place", want, &other, 2);
	}
	for (uint32_t threads = 1; threads <= 3 && !threads_may_matter(test->kind); threads += 2) {
		other = plain;
		other.threads = threads;
		expect_same(driver, test, "with another number of threads", want, &other, 1);
	}
	free(want);
}

START_TEST(gives_the_same_bits)
{
	for (int i = _i * GROUP; i < (_i + 1) * GROUP && i < conformance_case_count; i++)
		for (uint32_t d = 0; d < driver_table_count; d++)
			same_bits(driver_table[d], &conformance_cases[i]);
}
END_TEST

/* The derivative of a fused activation must see the sign that BATCH_APPLY saw, also where z is within rounding of 0. */
START_TEST(batch_gradient_sees_the_sign_of_the_forward_pass)
{
	const struct op_attr attr = { .epsilon = 1e-5f, .activation = ACTIVATION_RELU };
	const struct single_input x = { DTYPE_F32, 0, 2, { 4096, 16 } }, c = { DTYPE_F32, 0, 1, { 16 } };
	const struct single_input forward_input[] = { x, c, c, c, c }, backward_input[] = { x, x, c, c, c, c, c, c };
	const struct single_options plain = { .threads = 2, .in_place = -1 };
	enum { N = 4096 * 16 };
	for (uint32_t d = 0; d < driver_table_count; d++) {
		const struct driver_ops *driver = driver_table[d];
		if (!computes(driver))
			continue;
		struct single_op forward, backward;
		struct testing_random random = { 77 };
		static float image[N], y[N], dx[N], ones[N];
		float mean[16], var[16], gamma[16], beta[16], zero[16] = { 0 };
		ck_assert_ok(single_op_open(&forward, driver, OP_BATCH_APPLY, &attr, forward_input, 5, &plain));
		ck_assert_ok(single_op_open(&backward, driver, OP_BATCH_GRAD_INPUT, &attr, backward_input, 8, &plain));
		for (int k = 0; k < 16; k++) {
			mean[k] = testing_float(&random);
			var[k] = 1.5f + testing_float(&random);
			gamma[k] = 1.5f + testing_float(&random);
			beta[k] = testing_float(&random);
		}
		for (int i = 0; i < N; i++) {
			int k = i % 16; /* around the zero of z, give or take a few units in the last place */
			float root = mean[k] - beta[k] / gamma[k] * sqrtf(var[k] + 1e-5f);
			image[i] = root * (1.0f + (float)((int)testing_between(&random, 0, 8) - 4) * 0x1p-23f);
			ones[i] = 1.0f;
		}
		const float *in[] = { image, mean, var, gamma, beta };
		for (uint32_t j = 0; j < 5; j++) {
			ck_assert_ok(single_op_write(&forward, j, in[j]));
			ck_assert_ok(single_op_write(&backward, j + 1, in[j]));
		}
		ck_assert_ok(single_op_write(&backward, 0, ones));
		ck_assert_ok(single_op_write(&backward, 6, zero));
		ck_assert_ok(single_op_write(&backward, 7, zero));
		ck_assert_ok(single_op_launch(&forward));
		ck_assert_ok(single_op_launch(&backward));
		ck_assert_ok(single_op_read(&forward, 5, y));
		ck_assert_ok(single_op_read(&backward, 8, dx));
		int positive = 0;
		for (int i = 0; i < N; i++) {
			ck_assert_msg((y[i] > 0) == (dx[i] != 0), "%s: element %d: y is %g but dx is %g", driver->name,
				      i, (double)y[i], (double)dx[i]);
			positive += y[i] > 0;
		}
		ck_assert_int_gt(positive, N / 10);
		ck_assert_int_lt(positive, N - N / 10);
		single_op_close(&forward);
		single_op_close(&backward);
	}
}
END_TEST

/* The first of equal values wins, and a window that holds NaN says so. */
START_TEST(max_pool_ties_and_nan)
{
	const struct op_attr attr = { .window = { { 2, 2 }, { 2, 2 }, { 1, 1 }, { 0, 0 }, { 0, 0 } } };
	const struct single_input x = { DTYPE_F32, 0, 4, { 1, 2, 4, 1 } };
	const struct single_options plain = { .threads = 2, .in_place = -1 };
	const float image[] = { -1, 3, 1, NAN, 3, 3, 2, 5 };
	for (uint32_t d = 0; d < driver_table_count; d++) {
		struct single_op single;
		float y[2];
		uint8_t index[2];
		if (!computes(driver_table[d]))
			continue;
		ck_assert_ok(single_op_open(&single, driver_table[d], OP_MAX_POOL, &attr, &x, 1, &plain));
		ck_assert_ok(single_op_write(&single, 0, image));
		ck_assert_ok(single_op_launch(&single));
		ck_assert_ok(single_op_read(&single, 1, y));
		ck_assert_ok(single_op_read(&single, 2, index));
		ck_assert(y[0] == 3.0f && isnan(y[1]));
		ck_assert_uint_eq(index[0], 1);
		single_op_close(&single);
	}
}
END_TEST

/* A table has no row for these ids: NaN, and nothing outside the table is read. */
START_TEST(embedding_of_unknown_ids_is_nan)
{
	const struct single_input input[2] = { { DTYPE_F32, 0, 2, { 3, 2 } }, { DTYPE_I32, 0, 1, { 4 } } };
	const struct single_options plain = { .threads = 2, .in_place = -1 };
	const float table[] = { 0, 1, 2, 3, 4, 5 };
	const int32_t ids[] = { 2, -1, 3, 0 };
	for (uint32_t d = 0; d < driver_table_count; d++) {
		struct single_op single;
		float y[8];
		if (!computes(driver_table[d]))
			continue;
		ck_assert_ok(single_op_open(&single, driver_table[d], OP_EMBEDDING, &(struct op_attr){ 0 }, input, 2,
					    &plain));
		ck_assert_ok(single_op_write(&single, 0, table));
		ck_assert_ok(single_op_write(&single, 1, ids));
		ck_assert_ok(single_op_launch(&single));
		ck_assert_ok(single_op_read(&single, 2, y));
		ck_assert(y[0] == 4.0f && y[1] == 5.0f && y[6] == 0.0f && y[7] == 1.0f);
		ck_assert(isnan(y[2]) && isnan(y[3]) && isnan(y[4]) && isnan(y[5]));
		single_op_close(&single);
	}
}
END_TEST

/* The logits of a large vocabulary are made in pieces: several of them, the last one shorter. */
START_TEST(linear_loss_in_pieces_is_the_loss_of_the_whole)
{
	enum { ROWS = 1100, WIDTH = 3, WORDS = 2003 };
	const struct single_input pieces[4] = { { DTYPE_F32, 0, 2, { ROWS, WIDTH } },
						{ DTYPE_F32, 0, 2, { WORDS, WIDTH } },
						{ DTYPE_I32, 0, 1, { ROWS } } };
	const struct single_input whole[2] = { { DTYPE_F32, 0, 2, { ROWS, WORDS } }, { DTYPE_I32, 0, 1, { ROWS } } };
	const struct single_options plain = { .threads = 2, .in_place = -1 };
	static float x[ROWS * WIDTH], w[WORDS * WIDTH], logits[ROWS * WORDS];
	static int32_t label[ROWS];
	struct testing_random random = { 5 };
	for (int i = 0; i < ROWS * WIDTH; i++)
		x[i] = testing_float(&random);
	for (int i = 0; i < WORDS * WIDTH; i++)
		w[i] = testing_float(&random);
	for (int i = 0; i < ROWS; i++)
		label[i] = (int32_t)testing_between(&random, 0, WORDS - 1);
	for (int i = 0; i < ROWS * WORDS; i++)
		logits[i] = x[i / WORDS * 3] * w[i % WORDS * 3] + x[i / WORDS * 3 + 1] * w[i % WORDS * 3 + 1] +
			    x[i / WORDS * 3 + 2] * w[i % WORDS * 3 + 2];
	for (uint32_t d = 0; d < driver_table_count; d++) {
		struct single_op a, b;
		float in_pieces, at_once;
		if (!computes(driver_table[d]))
			continue;
		ck_assert_ok(single_op_open(&a, driver_table[d], OP_LINEAR_CROSS_ENTROPY, &(struct op_attr){ 0 },
					    pieces, 3, &plain));
		ck_assert_uint_lt(a.info.workspace_bytes, sizeof logits);
		ck_assert_ok(single_op_write(&a, 0, x));
		ck_assert_ok(single_op_write(&a, 1, w));
		ck_assert_ok(single_op_write(&a, 2, label));
		ck_assert_ok(single_op_launch(&a));
		ck_assert_ok(single_op_read(&a, 3, &in_pieces));
		ck_assert_ok(single_op_open(&b, driver_table[d], OP_SOFTMAX_CROSS_ENTROPY, &(struct op_attr){ 0 },
					    whole, 2, &plain));
		ck_assert_ok(single_op_write(&b, 0, logits));
		ck_assert_ok(single_op_write(&b, 1, label));
		ck_assert_ok(single_op_launch(&b));
		ck_assert_ok(single_op_read(&b, 2, &at_once));
		ck_assert_msg(fabsf(in_pieces - at_once) <= 1e-6f * at_once, "%s: %.8g in pieces, %.8g at once",
			      driver_table[d]->name, (double)in_pieces, (double)at_once);
		single_op_close(&a);
		single_op_close(&b);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("conformance");
	TCase *reference = tcase_create("reference"), *bits = tcase_create("bits"), *special = tcase_create("special");
	tcase_set_timeout(reference, 60);
	tcase_set_timeout(bits, 60);
	tcase_add_loop_test(reference, agrees_with_the_reference, 0, GROUPS);
	tcase_add_loop_test(bits, gives_the_same_bits, 0, GROUPS);
	tcase_add_test(special, batch_gradient_sees_the_sign_of_the_forward_pass);
	tcase_add_test(special, max_pool_ties_and_nan);
	tcase_add_test(special, embedding_of_unknown_ids_is_nan);
	tcase_add_test(special, linear_loss_in_pieces_is_the_loss_of_the_whole);
	suite_add_tcase(suite, reference);
	suite_add_tcase(suite, bits);
	suite_add_tcase(suite, special);
	return testing_run(suite);
}
