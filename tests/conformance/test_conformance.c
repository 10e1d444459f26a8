/*
 * test_conformance.c - one suite for every driver of the build, through the public table alone.
 *
 * For each case of cases.c: the results agree with the plain loops of reference.c; nothing outside the operands and
 * the workspace is written; and the bits are the same when repeated, at other addresses, in place, and (where the op
 * promises it) for other numbers of threads. The null driver does no arithmetic and passes the structural part.
 */
#include "conformance/case_run.h"
#include "support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool computes(const struct driver_ops *driver)
{
	return strcmp(driver->name, "null") != 0;
}

/* A driver whose device is not here is left out; TARN_TEST_DRIVER names the only one that is wanted. */
static bool is_here(const struct driver_ops *driver)
{
	const char *only = getenv("TARN_TEST_DRIVER");
	if (only && *only)
		return !strcmp(only, driver->name);
	return driver->probe() == TARN_OK;
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
	case_open(&single, driver, test, &plain);
	ck_assert_uint_eq(single.info.workspace_bytes % TARN_ALIGNMENT, 0);
	ck_assert_uint_gt(single.info.cost_ns, 0);
	case_write_inputs(&single, test);
	if (computes(driver)) {
		case_check(&single, test);
		uint64_t stray = single_op_stray(&single);
		ck_assert_msg(stray == UINT64_MAX, "%s: byte %llu of the arena belongs to nobody but was written",
			      test->name, (unsigned long long)stray);
	} else {
		ck_assert_ok(single_op_launch(&single));
		unsigned char *data = case_read_operand(&single, test->inputs);
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
			if (is_here(driver_table[d]))
				agree_with_reference(driver_table[d], &conformance_cases[i]);
}
END_TEST

/* The narrow forms of a case: both types of 16 bits, and both types of results that have a choice. */
#define FORMS 4u

static bool narrow_form(const struct driver_ops *driver, int i, uint32_t form, struct conformance_case *narrow)
{
	static const enum dtype types[] = { DTYPE_BF16, DTYPE_F16 };
	const enum dtype dtype = types[form / 2], result = form % 2 ? DTYPE_F32 : dtype;
	return !conformance_excluded(driver->name, conformance_cases[i].name) &&
	       conformance_narrow(&conformance_cases[i], dtype, result, narrow) &&
	       !conformance_narrow_excluded(driver->name);
}

START_TEST(agrees_with_the_reference_in_16_bits)
{
	for (int i = _i * GROUP; i < (_i + 1) * GROUP && i < conformance_case_count; i++)
		for (uint32_t d = 0; d < driver_table_count; d++)
			for (uint32_t form = 0; form < FORMS && is_here(driver_table[d]); form++) {
				struct conformance_case narrow;
				if (narrow_form(driver_table[d], i, form, &narrow))
					agree_with_reference(driver_table[d], &narrow);
			}
}
END_TEST

static void expect_same(const struct driver_ops *driver, const struct conformance_case *test, const char *what,
			const unsigned char *want, const struct single_options *options, uint32_t launches)
{
	size_t bytes;
	unsigned char *got = case_outputs(driver, test, options, launches, &bytes);
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
	unsigned char *want = case_outputs(driver, test, &plain, 1, &bytes);
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
			if (is_here(driver_table[d]))
				same_bits(driver_table[d], &conformance_cases[i]);
}
END_TEST

START_TEST(gives_the_same_bits_in_16_bits)
{
	for (int i = _i * GROUP; i < (_i + 1) * GROUP && i < conformance_case_count; i++)
		for (uint32_t d = 0; d < driver_table_count; d++)
			for (uint32_t form = 0; form < FORMS && is_here(driver_table[d]); form++) {
				struct conformance_case narrow;
				if (narrow_form(driver_table[d], i, form, &narrow))
					same_bits(driver_table[d], &narrow);
			}
}
END_TEST

START_TEST(batch_gradient_sees_the_sign_of_the_forward_pass)
{
	for (uint32_t d = 0; d < driver_table_count; d++)
		if (computes(driver_table[d]) && is_here(driver_table[d]))
			case_batch_gradient_sign(driver_table[d]);
}
END_TEST

START_TEST(max_pool_ties_and_nan)
{
	for (uint32_t d = 0; d < driver_table_count; d++)
		if (computes(driver_table[d]) && is_here(driver_table[d]))
			case_max_pool_ties(driver_table[d]);
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
		if (!computes(driver_table[d]) || !is_here(driver_table[d]) ||
		    conformance_excluded(driver_table[d]->name, "embedding"))
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
	const struct single_options plain = { .threads = 2, .in_place = -1, .workspace_cap = 4 << 20 };
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
		if (!computes(driver_table[d]) || !is_here(driver_table[d]) ||
		    conformance_excluded(driver_table[d]->name, "linear loss"))
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
	tcase_add_loop_test(reference, agrees_with_the_reference_in_16_bits, 0, GROUPS);
	tcase_add_loop_test(bits, gives_the_same_bits_in_16_bits, 0, GROUPS);
	tcase_add_test(special, batch_gradient_sees_the_sign_of_the_forward_pass);
	tcase_add_test(special, max_pool_ties_and_nan);
	tcase_add_test(special, embedding_of_unknown_ids_is_nan);
	tcase_add_test(special, linear_loss_in_pieces_is_the_loss_of_the_whole);
	suite_add_tcase(suite, reference);
	suite_add_tcase(suite, bits);
	suite_add_tcase(suite, special);
	return testing_run(suite);
}
