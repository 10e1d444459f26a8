/*
 * test_sequence.c - ops and families of sequence models against PyTorch's numbers.
 *
 * sequence.txt holds what tools/reference/make_sequence.py computed once (its first line says with which version); the
 * cases here have the same names and inputs. Ops: the first output and the gradients of mean((y - target)^2), to 1e-5
 * of the largest value. Families: losses of 20 steps from the same weights and batch: 1e-5 relative at the first step,
 * 1e-4 until the last one, because rounding differs between the two and training amplifies it.
 */
#include "reference/pytorch.h"
#include "support/testing.h"

#include <stdio.h>

#define PATH "tests/reference/sequence.txt"
#define OP_TOLERANCE 1e-5
#define FIRST_TOLERANCE 1e-5
#define DRIFT 1e-4

/* ---- ops ---- */

#define F32 PYTORCH_F32
#define IDS PYTORCH_IDS

static const struct pytorch_op ops[] = {
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

START_TEST(ops_agree_with_pytorch)
{
	pytorch_check_op(PATH, &ops[_i], OP_TOLERANCE);
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

static void check_losses(const char *name, const char *method, const char *network, const char *settings)
{
	char text[1024];
	snprintf(text, sizeof text, "%s%strain: {max_steps: %d, threads: 2}\nnetwork: {init: hash%s}\n", network,
		 method[0] == 'm' ? optimizers[0].text : optimizers[1].text, PYTORCH_STEPS, settings);
	pytorch_check_losses(PATH, name, method, text, FIRST_TOLERANCE, DRIFT);
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
