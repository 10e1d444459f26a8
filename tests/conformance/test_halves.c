/*
 * test_halves.c - products of float16 tensors that the cpu driver takes in pieces: the same op in float32 on the same
 * numbers is the oracle. That small ones are right shows the conformance suite.
 */
#include "conformance/formats.h"
#include "conformance/single_op.h"
#include "support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HALF(...)                                                      \
	{                                                              \
		DTYPE_F16, 0, sizeof((uint32_t[]){ __VA_ARGS__ }) / 4, \
		{                                                      \
			__VA_ARGS__                                    \
		}                                                      \
	}
#define SAME_3X3                           \
	.window = { .kernel = { 3, 3 },    \
		    .stride = { 1, 1 },    \
		    .dilation = { 1, 1 },  \
		    .pad_begin = { 1, 1 }, \
		    .pad_end = { 1, 1 } }

static const struct half_case {
	const char *name;
	enum op_kind kind;
	struct op_attr attr;
	struct single_input input[2];
	uint32_t inputs;
	bool choice;   /* of the type of the result */
	uint32_t sums; /* products that a result sums */
} cases[] = {
	{ "matmul", OP_MATMUL, { .transpose_b = 1 }, { HALF(1024, 509), HALF(3, 509) }, 2, true, 509 },
	{ "matmul over the batch", OP_MATMUL, { .transpose_a = 1 }, { HALF(1024, 509), HALF(1024, 3) }, 2, true, 1024 },
	{ "matmul, prime batch", OP_MATMUL, { 0 }, { HALF(1031, 509), HALF(509, 3) }, 2, true, 509 },
	{ "batch matmul", OP_BATCH_MATMUL, { 0 }, { HALF(6, 409, 257), HALF(6, 257, 3) }, 2, true, 257 },
	{ "conv", OP_CONV2D, { SAME_3X3 }, { HALF(6, 64, 128, 8), HALF(5, 8, 3, 3) }, 2, false, 72 },
	{ "conv grad input",
	  OP_CONV2D_GRAD_INPUT,
	  { SAME_3X3, .extent = { 64, 128 } },
	  { HALF(6, 64, 128, 8), HALF(8, 5, 3, 3) },
	  2,
	  false,
	  72 },
	{ "conv grad weight",
	  OP_CONV2D_GRAD_WEIGHT,
	  { SAME_3X3, .extent = { 3, 3 } },
	  { HALF(6, 64, 128, 8), HALF(6, 64, 128, 5) },
	  2,
	  true,
	  49152 },
	{ "gelu", OP_ACTIVATION, { .activation = ACTIVATION_GELU }, { HALF(599, 1009) }, 1, false, 1 },
};
#define CASES ((int)(sizeof cases / sizeof *cases))

/* The result of the op on inputs of a type, which hold numbers of float16 either way; as doubles. */
static double *run(const struct half_case *test, enum dtype stored, enum dtype result, uint64_t *count)
{
	struct single_input input[2] = { test->input[0], test->input[1] };
	const struct single_options options = { .threads = 2, .in_place = -1 };
	struct op_attr attr = test->attr;
	struct testing_random random = { 5 };
	struct single_op single;
	attr.mode = test->choice ? result : 0;
	input[0].dtype = input[1].dtype = stored;
	ck_assert_ok(single_op_open(&single, driver_find("cpu"), test->kind, &attr, input, test->inputs, &options));
	for (uint32_t i = 0; i < test->inputs; i++) {
		uint64_t n = tensor_elements(single_op_tensor(&single, i));
		uint16_t *half = calloc(n, sizeof *half);
		float *value = calloc(n, sizeof *value);
		for (uint64_t k = 0; k < n; k++) {
			half[k] = format_nearest(DTYPE_F16, (double)testing_float(&random));
			value[k] = (float)format_value(DTYPE_F16, half[k]);
		}
		ck_assert_ok(single_op_write(&single, i, stored == DTYPE_F16 ? (void *)half : (void *)value));
		free(half);
		free(value);
	}
	ck_assert_ok(single_op_launch(&single));
	ck_assert_uint_eq(single_op_stray(&single), UINT64_MAX);
	const struct tensor *y = single_op_tensor(&single, test->inputs);
	*count = tensor_elements(y);
	void *raw = calloc(*count, sizeof(float));
	double *value = calloc(*count, sizeof *value);
	ck_assert_ok(single_op_read(&single, test->inputs, raw));
	for (uint64_t k = 0; k < *count; k++)
		value[k] = y->dtype == DTYPE_F16 ? format_value(DTYPE_F16, ((uint16_t *)raw)[k])
						 : (double)((float *)raw)[k];
	free(raw);
	single_op_close(&single);
	return value;
}

/* Rounded once from a sum in float32, whose order may be another. */
START_TEST(pieces_give_what_the_whole_gives)
{
	const struct half_case *test = &cases[_i / 2];
	const enum dtype result = _i % 2 ? DTYPE_F32 : DTYPE_F16;
	uint64_t count, more;
	if (_i % 2 && !test->choice)
		return;
	double *want = run(test, DTYPE_F32, DTYPE_F32, &count), *got = run(test, DTYPE_F16, result, &more);
	double order = 0x1p-22 * (1 + sqrt((double)test->sums));
	for (uint64_t k = 0; k < count; k++)
		order = fmax(order, 0x1p-24 * sqrt((double)test->sums) * fabs(want[k]));
	double rounding = _i % 2 && test->choice ? 0 : format_unit_roundoff(DTYPE_F16);
	ck_assert_uint_eq(count, more);
	for (uint64_t k = 0; k < count; k++)
		ck_assert_msg(fabs(got[k] - want[k]) <= fabs(want[k]) * rounding + order * (1 + rounding) + 0x1p-25,
			      "%s, element %llu: %.9g, in float32 %.9g", test->name, (unsigned long long)k, got[k],
			      want[k]);
	free(want);
	free(got);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("halves");
	TCase *tcase = tcase_create("pieces");
	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, pieces_give_what_the_whole_gives, 0, 2 * CASES);
	suite_add_tcase(suite, tcase);
	return testing_run(suite);
}
