/*
 * test_curvature.c - products with the Hessian of small networks against PyTorch's numbers.
 *
 * curvature.txt holds what tools/reference/make_curvature.py computed once in float64 (its first line says with which
 * version); the networks here have the same names, weights, data and vectors. Products agree to 1e-4 of the largest
 * element in both modes, the largest eigenvalue to 1e-4.
 */
#include "base/hash_numbers.h"
#include "support/testing.h"
#include "tarn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 1024u
#define TOLERANCE 1e-4

/* Values of a line that begins with `name`, behind the line `heading`. */
static uint32_t read_values(const char *heading, const char *name, double *value)
{
	static char text[1 << 15];
	FILE *file = fopen("tests/reference/curvature.txt", "r");
	bool inside = false;
	uint32_t count = 0;
	ck_assert_msg(file != NULL, "tests/reference/curvature.txt cannot be read");
	while (!count && fgets(text, sizeof text, file)) {
		text[strcspn(text, "\n")] = '\0';
		if (!strncmp(text, "network ", 8))
			inside = !strcmp(text + 8, heading);
		size_t length = strlen(name);
		if (!inside || strncmp(text, name, length) || text[length] != ' ')
			continue;
		for (char *at = text + length, *end; count < MOST; at = end) {
			value[count] = strtod(at, &end);
			if (end == at)
				break;
			count++;
		}
	}
	fclose(file);
	ck_assert_msg(count > 0, "%s, %s is not in the file", heading, name);
	return count;
}

static const struct {
	const char *name, *text;
} networks[] = {
	{ "mlp", "data: {type: hash, shape: [9], classes: 4, batch: 5, samples: 8, shuffle: false}\n"
		 "layers: [dense: 7, gelu, layer_norm, dense: 6, tanh, dense: 4]\n"
		 "train: {threads: 2}\n" },
	{ "convolutions", "data: {type: hash, shape: [8, 8, 3], classes: 3, batch: 5, samples: 8, shuffle: false}\n"
			  "layers:\n"
			  "- conv2d: {channels: 5, kernel: 3, padding: 1, bias: true}\n"
			  "- batch_norm\n"
			  "- silu\n"
			  "- max_pool: 2\n"
			  "- conv2d: {channels: 4, kernel: 3, padding: 1, bias: true}\n"
			  "- group_norm: {groups: 2}\n"
			  "- relu\n"
			  "- global_pool\n"
			  "- dense: 3\n"
			  "train: {threads: 2}\n"
			  "hvp: {training: true}\n" },
	{ "tokens", "data: {type: hash, context: 6, classes: 11, batch: 3, samples: 5, shuffle: false}\n"
		    "layers:\n"
		    "- embedding: {features: 8}\n"
		    "- attention: {heads: 4, key_heads: 2}\n"
		    "- rms_norm\n"
		    "- gate: swiglu\n"
		    "- dense: {features: 10}\n"
		    "- lstm: {features: 5}\n"
		    "- dense: 11\n"
		    "train: {threads: 2}\n" },
};

/* Parameter t is uniform(1000 + t) in [-0.4, 0.4). Returns how many numbers there are. */
static uint64_t write_parameters(struct tarn_session *session)
{
	uint64_t elements, all = 0;
	const char *name;
	for (uint32_t t = 0; (name = tarn_hessian_parameter(session, t, &elements)); t++) {
		float value[MOST];
		ck_assert_uint_le(elements, MOST);
		for (uint64_t i = 0; i < elements; i++)
			value[i] = hash_uniform(HASH_SEED_PARAMETER + t, i, 0.4f);
		ck_assert_ok(tarn_write_tensor(session, name, value, elements * sizeof *value));
		all += elements;
	}
	return all;
}

static void open_network(const char *text, const char *const *override, uint32_t overrides,
			 struct tarn_session **session)
{
	const struct tarn_options options = { .config_text = text, .override = override, .overrides = overrides };
	ck_assert_ok(tarn_open(&options, session));
}

static void check_products(const char *name, const char *text, const char *mode)
{
	const char *const override[] = { "objective.type=hvp", mode };
	double want[MOST], want_loss[MOST], loss, largest = 0;
	float vector[MOST], product[MOST];
	struct tarn_session *session;
	open_network(text, override, 2, &session);
	uint64_t n = write_parameters(session);
	ck_assert_uint_eq(read_values(name, "product", want), n);
	read_values(name, "loss", want_loss);
	for (uint64_t i = 0; i < n; i++) {
		vector[i] = hash_uniform(900, i, 1.0f);
		largest = fmax(largest, fabs(want[i]));
	}
	ck_assert_ok(tarn_hessian_write(session, TARN_VECTOR_INPUT, vector, n));
	ck_assert_ok(tarn_hessian_multiply(session, &loss));
	ck_assert_ok(tarn_hessian_read(session, TARN_VECTOR_PRODUCT, product, n));
	ck_assert_msg(fabs(loss - want_loss[0]) <= 1e-5 * want_loss[0], "%s: loss %.9g, PyTorch %.9g", name, loss,
		      want_loss[0]);
	for (uint64_t i = 0; i < n; i++)
		ck_assert_msg(fabs((double)product[i] - want[i]) <= TOLERANCE * largest,
			      "%s, %s: element %llu of H v is %.8g, PyTorch has %.8g", name, mode,
			      (unsigned long long)i, (double)product[i], want[i]);
	tarn_close(session);
}

START_TEST(products_agree_with_pytorch)
{
	check_products(networks[_i].name, networks[_i].text, "hvp.mode=reverse");
	check_products(networks[_i].name, networks[_i].text, "hvp.mode=forward");
}
END_TEST

START_TEST(eigenvalues_agree_with_pytorch)
{
	static struct tarn_curvature curvature;
	const char *const override[] = { "objective.type=hvp", "hvp.task=eigenvalues", "hvp.steps=40",
					 "hvp.eigenvalues=3" };
	struct tarn_session *session;
	double want[MOST];
	open_network(networks[_i].text, override, 4, &session);
	write_parameters(session);
	ck_assert_ok(tarn_curvature_run(session, &curvature));
	ck_assert_uint_eq(read_values(networks[_i].name, "eigenvalues", want), 3);
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_msg(fabs(curvature.eigenvalue[i] - want[i]) <= TOLERANCE * want[0],
			      "%s: eigenvalue %u is %.8g, PyTorch has %.8g", networks[_i].name, i,
			      curvature.eigenvalue[i], want[i]);
	tarn_close(session);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("curvature against PyTorch");
	TCase *tc = tcase_create("networks");
	int count = sizeof networks / sizeof *networks;
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, products_agree_with_pytorch, 0, count);
	tcase_add_loop_test(tc, eigenvalues_agree_with_pytorch, 0, count);
	suite_add_tcase(suite, tc);
	return testing_run(suite);
}
