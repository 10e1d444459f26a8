/*
 * training.h - whole runs through the public interface, for tests.
 */
#ifndef TARN_TESTS_TRAINING_H
#define TARN_TESTS_TRAINING_H

#include "tarn.h"

#define TRAINING_MAX_OVERRIDES 12

struct training {
	const char *text;                             /* YAML; or */
	const char *path;                             /* a configuration file; or */
	const char *plan;                             /* a plan file */
	const char *override[TRAINING_MAX_OVERRIDES]; /* "key=value"; the first NULL ends the list */
	const char *resume;
	uint64_t steps; /* how many to run; 0: until finished */
	void *arena;    /* caller's memory, or NULL */
	uint64_t arena_bytes;
	bool poison;
};

struct training_result {
	struct tarn_plan_info info; /* its texts are copies of static strings or NULL: do not use name and snapshot */
	uint64_t hash, touched_bytes;
	double first_loss, last_loss;
	char recomputed[512]; /* "18 batch_apply, 4 conv2d" */
};

/*
 * TARN_TEST_DRIVER=cuda lets every run that is planned here (not from a plan file) use that driver: the same tests then
 * judge another device. "device.driver=cuda", or NULL when it is not set.
 */
const char *training_driver(void);

/* `usual`, or TARN_TEST_STEPS where that is set: on a simulated device a step takes seconds. */
uint64_t training_steps(uint64_t usual);

/* Opens, steps, hashes, closes. The status of the first failure. */
enum tarn_status training_run(const struct training *training, struct training_result *result);

/* Runs `steps` steps of it, writes a snapshot to `path`, closes. */
enum tarn_status training_save_after(const struct training *training, uint64_t steps, const char *path);

/* Planning alone. */
enum tarn_status training_plan(const struct training *training, struct training_result *result);

/* "memory.budget=N" in a static buffer that the next call but seven reuses. */
const char *training_budget(uint64_t bytes);

/* Networks that tests share; YAML text without `memory:`. */
extern const char training_residual[]; /* convolutions, batch norm, residual links, dropout, pooling, dense */
extern const char training_tied[];     /* one dense layer used twice, layer norm, gelu, AdamW, clipping */
extern const char training_average[];  /* moving averages of weights, a group of parameters, shared and frozen layers */
extern const char training_frozen[];   /* first layers frozen, batch norm, Adam */
extern const char training_unet[];     /* skip connections by concat, no point that separates the graph */
extern const char training_gpt[];      /* tokens, attention, norms, tied head, dropout, clipping, loss in pieces */
extern const char training_lstm[];     /* unrolled LSTM and GRU layers, Adam */
extern const char training_convbn[];   /* 4 x (conv 3x3, batch norm, relu), pool, dense on 16x16x3 */

#endif
