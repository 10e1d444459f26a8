/*
 * test_sequence.c - ops and families of sequence models against PyTorch's numbers.
 *
 * sequence.txt holds what tools/reference/make_sequence.py computed once (its first line says with which version); the
 * cases here have the same names and inputs. Ops: the first output and the gradients of mean((y - target)^2), to 1e-5
 * of the largest value. Families: losses of 20 steps from the same weights and batch: 1e-5 relative at the first step,
 * 1e-4 until the last one, because rounding differs between the two and training amplifies it.
 */
#include "autodiff/autodiff.h"
#include "base/hash_numbers.h"
#include "conformance/single_op.h"
#include "grad/program.h"
#include "support/testing.h"
#include "tarn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 20
#define OP_TOLERANCE 1e-5
#define FIRST_TOLERANCE 1e-5
#define DRIFT 1e-4

/* Values of a line that begins with `name`, behind the line `heading`. */
static uint32_t read_values(const char *heading, const char *name, double *value, uint32_t room)
{
	static char text[1 << 17];
	FILE *file = fopen("tests/reference/sequence.txt", "r");
	bool inside = false;
	uint32_t count = 0;
	ck_assert_msg(file != NULL, "tests/reference/sequence.txt cannot be read");
	while (!count && fgets(text, sizeof text, file)) {
		text[strcspn(text, "\n")] = '\0';
		if (!strncmp(text, "op ", 3) || !strncmp(text, "family ", 7))
			inside = !strcmp(text, heading);
		size_t length = strlen(name);
		if (!inside || strncmp(text, name, length) || text[length] != ' ')
			continue;
		for (char *at = text + length, *end; count < room; at = end) {
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

/* ---- ops ---- */

#define DIMS(...) .rank = sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t), .dim = { __VA_ARGS__ }
#define F32(...)                                \
	{                                       \
		DTYPE_F32, 0, DIMS(__VA_ARGS__) \
	}
#define IDS(...)                                \
	{                                       \
		DTYPE_I32, 0, DIMS(__VA_ARGS__) \
	}

static const struct op_case {
	const char *name;
	enum op_kind kind;
	struct op_attr attr;
	struct single_input input[4];
	uint32_t inputs, classes; /* classes: of ids and labels */
} ops[] = {
	{ "batch_matmul", OP_BATCH_MATMUL, { .alpha = 0.3f, .transpose_b = 1 }, { F32(3, 5, 7), F32(3, 4, 7) }, 2, 0 },
	{ "add_broadcast", OP_ADD_BROADCAST, { 0 }, { F32(3, 5, 7), F32(5, 7) }, 2, 0 },
	{ "embedding", OP_EMBEDDING, { 0 }, { F32(11, 6), IDS(3, 5) }, 2, 11 },
	{ "softmax", OP_SOFTMAX, { .alpha = 0.7f, .causal = 1 }, { F32(2, 5, 7) }, 1, 0 },
	{ "log_softmax", OP_LOG_SOFTMAX, { 0 }, { F32(5, 13) }, 1, 0 },
	{ "attention", OP_ATTENTION, { 0 }, { F32(2, 7, 3, 5), F32(2, 9, 3, 5), F32(2, 9, 3, 5) }, 3, 0 },
	{ "attention_causal",
	  OP_ATTENTION,
	  { .causal = 1 },
	  { F32(2, 11, 3, 5), F32(2, 11, 3, 5), F32(2, 11, 3, 5) },
	  3,
	  0 },
	{ "attention_grouped",
	  OP_ATTENTION,
	  { .causal = 1 },
	  { F32(1, 5, 4, 6), F32(1, 9, 2, 6), F32(1, 9, 2, 6) },
	  3,
	  0 },
	{ "attention_blocks",
	  OP_ATTENTION,
	  { .causal = 1 },
	  { F32(1, 67, 1, 3), F32(1, 67, 1, 3), F32(1, 67, 1, 3) },
	  3,
	  0 },
	{ "rotary", OP_ROTARY, { .alpha = 10000 }, { F32(2, 7, 3, 10) }, 1, 0 },
	{ "rms_norm", OP_RMS_NORM, { .epsilon = 1e-3f }, { F32(3, 5, 13), F32(13) }, 2, 0 },
	{ "layer_norm", OP_LAYER_NORM, { .epsilon = 1e-3f }, { F32(3, 5, 13), F32(13), F32(13) }, 3, 0 },
	{ "gate_silu", OP_GATE, { .activation = ACTIVATION_SILU }, { F32(3, 5, 14) }, 1, 0 },
	{ "gate_gelu", OP_GATE, { .activation = ACTIVATION_GELU }, { F32(3, 5, 14) }, 1, 0 },
	{ "gate_gelu_tanh", OP_GATE, { .activation = ACTIVATION_GELU_TANH }, { F32(3, 5, 14) }, 1, 0 },
	{ "gate_tanh", OP_GATE, { .mode = GATE_TANH }, { F32(3, 5, 14) }, 1, 0 },
	{ "gate_linear", OP_GATE, { .mode = GATE_LINEAR }, { F32(3, 5, 14) }, 1, 0 },
	{ "cross_entropy", OP_SOFTMAX_CROSS_ENTROPY, { 0 }, { F32(17, 7), IDS(17) }, 2, 7 },
	{ "cross_entropy_smoothed",
	  OP_SOFTMAX_CROSS_ENTROPY,
	  { .label_smoothing = 0.1f, .has_ignore_index = 1, .ignore_index = 3 },
	  { F32(17, 7), IDS(17) },
	  2,
	  7 },
	{ "linear_cross_entropy",
	  OP_LINEAR_CROSS_ENTROPY,
	  { .label_smoothing = 0.1f, .has_ignore_index = 1, .ignore_index = 3 },
	  { F32(17, 5), F32(7, 5), IDS(17), F32(7) },
	  4,
	  7 },
	{ "lstm_cell", OP_LSTM_CELL, { 0 }, { F32(5, 12), F32(5, 3) }, 2, 0 },
	{ "gru_cell", OP_GRU_CELL, { 0 }, { F32(5, 9), F32(5, 9), F32(5, 3) }, 3, 0 },
};

static void write_hash(struct program *program, uint32_t tensor, uint64_t seed, uint32_t classes)
{
	const struct tensor *t = &program->graph->tensor[tensor];
	uint64_t n = tensor_elements(t);
	void *data = calloc(n, 4);
	ck_assert_ptr_nonnull(data);
	for (uint64_t i = 0; i < n; i++)
		if (t->dtype == DTYPE_I32)
			((int32_t *)data)[i] = (int32_t)hash_label(seed, i, classes);
		else
			((float *)data)[i] = hash_uniform(seed, i, 1.0f);
	ck_assert_ok(program_write(program, tensor, data));
	free(data);
}

static void compare(struct program *program, uint32_t tensor, const struct op_case *test, const char *line)
{
	static double want[4096];
	char heading[64];
	snprintf(heading, sizeof heading, "op %s", test->name);
	uint32_t count = read_values(heading, line, want, 4096);
	float *got = calloc(count, sizeof *got);
	double scale = 1e-3;
	ck_assert_ptr_nonnull(got);
	ck_assert_uint_eq(tensor_elements(&program->graph->tensor[tensor]), count);
	ck_assert_ok(program_read(program, tensor, got));
	for (uint32_t i = 0; i < count; i++)
		scale = fmax(scale, fabs(want[i]));
	for (uint32_t i = 0; i < count; i++)
		ck_assert_msg(fabs((double)got[i] - want[i]) <= OP_TOLERANCE * scale,
			      "%s, %s: element %u is %.9g, PyTorch has %.9g", test->name, line, i, (double)got[i],
			      want[i]);
	free(got);
}

static bool is_loss(enum op_kind kind)
{
	return kind == OP_SOFTMAX_CROSS_ENTROPY || kind == OP_LINEAR_CROSS_ENTROPY;
}

/* The op, and the mean square error of its output unless it is a loss. */
static void build(const struct op_case *test, struct graph *graph, uint32_t *input, uint32_t *target, uint32_t *y,
		  uint32_t *loss)
{
	struct single_op shape;
	const struct single_options plain = { .threads = 1, .in_place = -1 };
	uint32_t out[OP_MAX_OUTPUTS];
	ck_assert_ok(single_op_open(&shape, driver_find("null"), test->kind, &test->attr, test->input, test->inputs,
				    &plain));
	const struct tensor result = *single_op_tensor(&shape, test->inputs);
	single_op_close(&shape);
	for (uint32_t i = 0; i < test->inputs; i++) {
		char name[16];
		snprintf(name, sizeof name, "in%u", i);
		ck_assert_ok(graph_add_persistent(graph, name, ROLE_PARAMETER, test->input[i].dtype, test->input[i].dim,
						  test->input[i].rank, &input[i]));
	}
	ck_assert_ok(graph_add_persistent(graph, "target", ROLE_PARAMETER, DTYPE_F32, result.dim, result.rank, target));
	ck_assert_ok(graph_add_op(graph, test->kind, PHASE_FORWARD, "op", &test->attr, input, test->inputs, out));
	*y = *loss = out[0];
	if (!is_loss(test->kind))
		ck_assert_ok(graph_add_op(graph, OP_MEAN_SQUARED_ERROR, PHASE_FORWARD, "loss", NULL,
					  (uint32_t[]){ *y, *target }, 2, loss));
}

START_TEST(ops_agree_with_pytorch)
{
	const struct op_case *test = &ops[_i];
	struct host_arena arena;
	struct graph graph;
	struct program program;
	uint32_t input[4], wrt[4], gradient[4], number[4], floats = 0, target, y, loss;
	host_arena_init(&arena);
	ck_assert_ok(graph_init(&graph, &arena));
	build(test, &graph, input, &target, &y, &loss);
	for (uint32_t i = 0; i < test->inputs; i++)
		if (test->input[i].dtype == DTYPE_F32) {
			wrt[floats] = input[i];
			number[floats++] = i;
		}
	ck_assert_ok(autodiff_gradients(&graph, loss, wrt, floats, &arena, gradient));
	ck_assert_ok(program_open(&program, driver_find("cpu"), &graph, 2, &arena));
	for (uint32_t i = 0; i < test->inputs; i++)
		write_hash(&program, input[i], (test->input[i].dtype == DTYPE_F32 ? 100 : 200) + i, test->classes);
	write_hash(&program, target, 300, 0);
	ck_assert_ok(program_run(&program));
	compare(&program, y, test, "y");
	for (uint32_t i = 0; i < floats; i++) {
		char line[16];
		snprintf(line, sizeof line, "d%u", number[i]);
		compare(&program, gradient[i], test, line);
	}
	program_close(&program);
	host_arena_fini(&arena);
}
END_TEST

/* ---- families ---- */

#define TOKENS "data: {type: hash, context: 19, classes: 61, batch: 3}\n"

static const struct {
	const char *name, *text;
} families[] = {
	{ "gpt", TOKENS "model: {family: gpt, layers: 2, width: 24, heads: 3}\n" },
	{ "gpt", TOKENS "model: {family: gpt, layers: 2, width: 24, heads: 3, plain: 1}\n" },
	{ "gpt_tied", TOKENS "model: {family: gpt, layers: 1, width: 24, heads: 3, tied: 1}\n" },
	{ "llama",
	  TOKENS "model: {family: gpt, layers: 2, width: 24, heads: 4, key_heads: 2, hidden: 40, bias: 0, rms: 1, "
		 "rotary: 10000, gated: 1}\n" },
	{ "lstm", TOKENS "model: {family: lstm, width: 12, layers: 2, chunk: 5}\n" },
	{ "gru", TOKENS "model: {family: gru, width: 12, layers: 2, chunk: 7}\n" },
	{ "vit", "data: {type: hash, shape: [12, 12, 3], classes: 7, batch: 5}\n"
		 "model: {family: vit, patch: 4, layers: 2, width: 24, heads: 3}\n" },
};
#define FAMILIES (int)(sizeof families / sizeof *families)

static const struct {
	const char *name, *text;
} optimizers[] = {
	{ "momentum", "optimizer: {type: momentum, learning_rate: 0.05}\n" },
	{ "adamw", "optimizer: {type: adamw, learning_rate: 1e-3, weight_decay: 0.01}\n" },
};

static void check_losses(const char *name, const char *optimizer, const char *network, const char *settings)
{
	char text[1024], heading[64];
	double want[STEPS];
	struct tarn_session *session;
	snprintf(heading, sizeof heading, "family %s %s", name, optimizer);
	snprintf(text, sizeof text, "%s%strain: {max_steps: %d, threads: 2}\nnetwork: {init: hash%s}\n", network,
		 optimizer[0] == 'm' ? optimizers[0].text : optimizers[1].text, STEPS, settings);
	ck_assert_uint_eq(read_values(heading, "loss", want, STEPS), STEPS);
	const struct tarn_options options = { .config_text = text };
	ck_assert_ok(tarn_open(&options, &session));
	for (int step = 0; step < STEPS; step++) {
		struct tarn_metrics metrics;
		ck_assert_ok(tarn_step(session, &metrics));
		double error = fabs(metrics.loss / want[step] - 1);
		ck_assert_msg(error <= (step ? DRIFT : FIRST_TOLERANCE),
			      "%s%s: loss of step %d is %.8g, PyTorch has %.8g", heading, settings, step + 1,
			      metrics.loss, want[step]);
	}
	tarn_close(session);
}

START_TEST(families_agree_with_pytorch)
{
	for (size_t o = 0; o < sizeof optimizers / sizeof *optimizers; o++)
		check_losses(families[_i].name, optimizers[o].name, families[_i].text, "");
}
END_TEST

/* The loss in pieces is the same loss, with a shared table too. */
START_TEST(chunked_losses_agree_with_pytorch)
{
	check_losses("gpt", "momentum", families[0].text, ", chunked_loss: true");
	check_losses("gpt_tied", "adamw", families[2].text, ", chunked_loss: true");
	check_losses("lstm", "adamw", families[4].text, ", chunked_loss: true");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sequence reference");
	TCase *tcase = tcase_create("reference");
	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, ops_agree_with_pytorch, 0, sizeof ops / sizeof *ops);
	tcase_add_loop_test(tcase, families_agree_with_pytorch, 0, FAMILIES);
	tcase_add_test(tcase, chunked_losses_agree_with_pytorch);
	suite_add_tcase(suite, tcase);
	return testing_run(suite);
}
