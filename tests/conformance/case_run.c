/* case_run.c - see case_run.h. */
#include "conformance/case_run.h"

#include "conformance/codes.h"
#include "conformance/formats.h"
#include "conformance/reference.h"
#include "graph/blockwise.h"
#include "support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct step_scalars scalars = { .seed = 0x123456789ABCDEFu,
					     .step = 41,
					     .learning_rate = 0.03f,
					     .bias_correction1 = 0.4f,
					     .bias_correction2 = 0.15f };

/* Is this operand, or a new version of it, a state of 8 bits? */
static bool is_codes(const struct conformance_case *test, uint32_t operand)
{
	uint32_t state = operand < test->inputs ? operand : operand - test->inputs;
	return test->kind == OP_ADAM_8BIT && (state == 1 || state == 2);
}

/* Any codes, of 2^-8 to 2^8 at most. */
static void fill_codes(uint64_t elements, uint8_t *state, struct testing_random *random)
{
	for (uint64_t i = 0; i < elements; i++)
		state[i] = (uint8_t)testing_between(random, 0, 255);
	for (uint64_t k = 0; k < blockwise_blocks(elements); k++) {
		float scale = ldexpf(1.0f, (int)testing_between(random, 0, 16) - 8);
		memcpy(state + blockwise_codes_bytes(elements) + k * sizeof scale, &scale, sizeof scale);
	}
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
	if (is_codes(test, operand)) {
		fill_codes(test->input[0].dim[0], data, &random);
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
		else if (tensor->dtype == DTYPE_BF16 || tensor->dtype == DTYPE_F16)
			((uint16_t *)data)[i] = format_nearest(tensor->dtype, (double)value);
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

static double double_at(uint32_t dtype, const void *data, uint64_t i)
{
	switch ((enum dtype)dtype) {
	case DTYPE_F32:
		return (double)((const float *)data)[i];
	case DTYPE_I32:
		return (double)((const int32_t *)data)[i];
	case DTYPE_U8:
		return (double)((const uint8_t *)data)[i];
	case DTYPE_BF16:
	case DTYPE_F16:
		return format_value(dtype, ((const uint16_t *)data)[i]);
	default:
		return (double)((const uint64_t *)data)[i];
	}
}

/* Decoded codes stand at the beginning, zeros behind them. */
static void to_double(const struct conformance_case *test, uint32_t operand, const struct tensor *tensor,
		      const void *data, double *value)
{
	const uint64_t elements = test->input[0].dim[0];
	const bool has_sign = operand == 1 || operand == test->inputs + 1;
	for (uint64_t i = 0; is_codes(test, operand) && i < elements; i++)
		value[i] = codes_decoded(has_sign, data, elements, i);
	if (is_codes(test, operand))
		return;
	for (uint64_t i = 0; i < tensor_elements(tensor); i++)
		value[i] = double_at(tensor->dtype, data, i);
}

static struct reference_operand reference_of(const struct conformance_case *test, uint32_t index,
					     const struct tensor *tensor, const void *data)
{
	struct reference_operand operand = { .rank = tensor->rank, .elements = tensor_elements(tensor) };
	memcpy(operand.dim, tensor->dim, tensor->rank * sizeof *tensor->dim);
	operand.value = calloc(operand.elements, sizeof *operand.value);
	ck_assert_ptr_nonnull(operand.value);
	if (data && tensor->role != ROLE_SCALARS)
		to_double(test, index, tensor, data, operand.value);
	return operand;
}

void case_open(struct single_op *single, const struct driver_ops *driver, const struct conformance_case *test,
	       const struct single_options *options)
{
	enum tarn_status st =
		single_op_open(single, driver, test->kind, &test->attr, test->input, test->inputs, options);
	ck_assert_msg(st == TARN_OK, "%s, %s: %s", driver->name, test->name, tarn_error());
}

void case_write_inputs(struct single_op *single, const struct conformance_case *test)
{
	for (uint32_t i = 0; i < test->inputs; i++) {
		void *data = calloc(1, single->bytes[i]);
		ck_assert_ptr_nonnull(data);
		fill_operand(test, i, single_op_tensor(single, i), data);
		ck_assert_ok(single_op_write(single, i, data));
		free(data);
	}
}

void *case_read_operand(struct single_op *single, uint32_t operand)
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
	to_double(test, test->inputs + output, tensor, data, got);
	for (uint64_t i = 0; i < want->elements; i++)
		scale = fmax(scale, fabs(want->value[i]));
	/* A result of 16 bits is the float32 result, rounded once; below the normal numbers by half of the smallest. */
	bool narrow = tensor->dtype == DTYPE_BF16 || tensor->dtype == DTYPE_F16;
	double relative = is_codes(test, test->inputs + output) ? CODES_COARSEST : test->tolerance;
	double roundoff = narrow ? format_unit_roundoff(tensor->dtype) : 0.0, least = narrow ? 0x1p-25 : 0.0;
	for (uint64_t i = 0; i < want->elements; i++) {
		double tolerance = relative * scale * (1 + roundoff) + roundoff * fabs(want->value[i]) + least;
		/* What the format cannot hold is infinite. */
		if (narrow && isinf(got[i]) && fabs(want->value[i]) + tolerance >= format_largest(tensor->dtype))
			got[i] = copysign(want->value[i], got[i]);
		ck_assert_msg(fabs(got[i] - want->value[i]) <= tolerance,
			      "%s: output %u (%s), element %llu is %.9g, expected %.9g (tolerance %g)", test->name,
			      output, dtype_name(tensor->dtype), (unsigned long long)i, got[i], want->value[i],
			      tolerance);
	}
	free(got);
}

void case_check(struct single_op *single, const struct conformance_case *test)
{
	struct reference_operand in[SINGLE_OP_INPUTS], out[OP_MAX_OUTPUTS];
	for (uint32_t i = 0; i < test->inputs; i++) {
		void *data = case_read_operand(single, i);
		in[i] = reference_of(test, i, single_op_tensor(single, i), data);
		free(data);
	}
	for (uint32_t k = 0; k < single->outputs; k++)
		out[k] = reference_of(test, test->inputs + k, single_op_tensor(single, test->inputs + k), NULL);
	reference_run(test->kind, &test->attr, &scalars, in, test->inputs, out);
	ck_assert_ok(single_op_launch(single));
	for (uint32_t k = 0; k < single->outputs; k++) {
		void *data = case_read_operand(single, test->inputs + k);
		compare(test, k, &out[k], single_op_tensor(single, test->inputs + k), data);
		free(data);
		free(out[k].value);
	}
	for (uint32_t i = 0; i < test->inputs; i++)
		free(in[i].value);
}

/* All outputs of one launch with these options, one after the other. */
unsigned char *case_outputs(const struct driver_ops *driver, const struct conformance_case *test,
			    const struct single_options *options, uint32_t launches, size_t *bytes)
{
	struct single_op single;
	case_open(&single, driver, test, options);
	bool consumes = options->in_place >= 0 || op_row(test->kind)->effect;
	*bytes = 0;
	for (uint32_t k = 0; k < single.outputs; k++)
		*bytes += single.bytes[test->inputs + k];
	unsigned char *all = malloc(*bytes), *at = all;
	ck_assert_ptr_nonnull(all);
	case_write_inputs(&single, test);
	for (uint32_t i = 0; i < launches; i++) {
		if (i && consumes)
			case_write_inputs(&single, test);
		ck_assert_ok(single_op_launch(&single));
	}
	for (uint32_t k = 0; k < single.outputs; k++) {
		ck_assert_ok(single_op_read(&single, test->inputs + k, at));
		at += single.bytes[test->inputs + k];
	}
	single_op_close(&single);
	return all;
}

void case_batch_gradient_sign(const struct driver_ops *driver)
{
	const struct op_attr attr = { .epsilon = 1e-5f, .activation = ACTIVATION_RELU };
	const struct single_input x = { DTYPE_F32, 0, 2, { 4096, 16 } }, c = { DTYPE_F32, 0, 1, { 16 } };
	const struct single_input forward_input[] = { x, c, c, c, c }, backward_input[] = { x, x, c, c, c, c, c, c };
	const struct single_options plain = { .threads = 2, .in_place = -1 };
	enum { N = 4096 * 16 };
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
		ck_assert_msg((y[i] > 0) == (dx[i] != 0), "%s: element %d: y is %g but dx is %g", driver->name, i,
			      (double)y[i], (double)dx[i]);
		positive += y[i] > 0;
	}
	ck_assert_int_gt(positive, N / 10);
	ck_assert_int_lt(positive, N - N / 10);
	single_op_close(&forward);
	single_op_close(&backward);
}

void case_max_pool_ties(const struct driver_ops *driver)
{
	const struct op_attr attr = { .window = { { 2, 2 }, { 2, 2 }, { 1, 1 }, { 0, 0 }, { 0, 0 } } };
	const struct single_input x = { DTYPE_F32, 0, 4, { 1, 2, 4, 1 } };
	const struct single_options plain = { .threads = 2, .in_place = -1 };
	const float image[] = { -1, 3, 1, NAN, 3, 3, 2, 5 };
	struct single_op single;
	float y[2];
	uint8_t index[2];
	ck_assert_ok(single_op_open(&single, driver, OP_MAX_POOL, &attr, &x, 1, &plain));
	ck_assert_ok(single_op_write(&single, 0, image));
	ck_assert_ok(single_op_launch(&single));
	ck_assert_ok(single_op_read(&single, 1, y));
	ck_assert_ok(single_op_read(&single, 2, index));
	ck_assert(y[0] == 3.0f && isnan(y[1]));
	ck_assert_uint_eq(index[0], 1);
	single_op_close(&single);
}
