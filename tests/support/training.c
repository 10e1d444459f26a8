/* training.c - see training.h. */
#include "support/training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t training_steps(uint64_t usual)
{
	const char *steps = getenv("TARN_TEST_STEPS");
	return steps && *steps ? strtoull(steps, NULL, 10) : usual;
}

const char *training_driver(void)
{
	static char text[64];
	const char *driver = getenv("TARN_TEST_DRIVER");
	if (!driver || !*driver)
		return NULL;
	snprintf(text, sizeof text, "device.driver=%s", driver);
	return text;
}

static enum tarn_status open_session(const struct training *training, bool plan_only, struct tarn_session **session)
{
	const char *override[TRAINING_MAX_OVERRIDES + 1];
	struct tarn_options options = { .config_text = training->text,
					.config_path = training->path,
					.plan_path = training->plan,
					.override = override,
					.resume_path = training->resume,
					.arena = training->arena,
					.arena_bytes = training->arena_bytes,
					.poison = training->poison,
					.plan_only = plan_only };
	while (options.overrides < TRAINING_MAX_OVERRIDES && training->override[options.overrides]) {
		override[options.overrides] = training->override[options.overrides];
		options.overrides++;
	}
	if (!training->plan && training_driver())
		override[options.overrides++] = training_driver();
	return tarn_open(&options, session);
}

static void describe(struct tarn_session *session, struct training_result *result)
{
	tarn_plan_info(session, &result->info);
	result->info.name = result->info.snapshot = NULL;
	tarn_plan_recomputed(session, result->recomputed, sizeof result->recomputed);
}

enum tarn_status training_plan(const struct training *training, struct training_result *result)
{
	struct tarn_session *session;
	memset(result, 0, sizeof *result);
	enum tarn_status st = open_session(training, true, &session);
	if (st)
		return st;
	describe(session, result);
	tarn_close(session);
	return TARN_OK;
}

enum tarn_status training_run(const struct training *training, struct training_result *result)
{
	struct tarn_session *session;
	struct tarn_metrics metrics = { 0 };
	memset(result, 0, sizeof *result);
	enum tarn_status st = open_session(training, false, &session);
	if (st)
		return st;
	describe(session, result);
	for (uint64_t step = 0; !st && !metrics.finished && (!training->steps || step < training->steps); step++) {
		st = tarn_step(session, &metrics);
		if (step == 0)
			result->first_loss = metrics.loss;
		result->last_loss = metrics.loss;
	}
	if (!st)
		st = tarn_weights_hash(session, &result->hash);
	/* A simulated device forbids to read what is dead, and the top of the arena may be. */
	if (!getenv("TARN_CUDASIM"))
		result->touched_bytes = tarn_arena_touched_bytes(session);
	tarn_close(session);
	return st;
}

enum tarn_status training_save_after(const struct training *training, uint64_t steps, const char *path)
{
	struct tarn_session *session;
	struct tarn_metrics metrics;
	enum tarn_status st = open_session(training, false, &session);
	if (st)
		return st;
	for (uint64_t step = 0; step < steps && !st; step++)
		st = tarn_step(session, &metrics);
	if (!st)
		st = tarn_save(session, path);
	tarn_close(session);
	return st;
}

const char *training_budget(uint64_t bytes)
{
	static char text[8][48];
	static unsigned next;
	char *buffer = text[next++ % 8];
	snprintf(buffer, sizeof text[0], "memory.budget=%llu", (unsigned long long)bytes);
	return buffer;
}

const char training_residual[] = "data: {type: synthetic, shape: [12, 12, 3], classes: 5, batch: 8, samples: 36}\n"
				 "layers:\n"
				 "- conv2d: {name: stem, channels: 8, kernel: 3, padding: 1, bias: false}\n"
				 "- batch_norm\n"
				 "- relu\n"
				 "- repeat:\n"
				 "    count: 3\n"
				 "    name: block\n"
				 "    layers:\n"
				 "    - relu: {name: in}\n"
				 "    - conv2d: {name: a, channels: 8, kernel: 3, padding: 1, bias: false}\n"
				 "    - batch_norm: {name: norm_a}\n"
				 "    - relu: {name: act}\n"
				 "    - dropout: {name: drop, rate: 0.25}\n"
				 "    - conv2d: {name: b, channels: 8, kernel: 3, padding: 1, bias: false}\n"
				 "    - batch_norm: {name: norm_b}\n"
				 "    - add: {name: sum, inputs: [norm_b, in]}\n"
				 "- relu\n"
				 "- max_pool: 2\n"
				 "- global_pool\n"
				 "- dense: 5\n"
				 "optimizer: {type: momentum, learning_rate: 0.02, weight_decay: 1e-4}\n"
				 "train: {seed: 3, epochs: 100, threads: 2}\n";

const char training_average[] = "data: {type: synthetic, shape: [24], classes: 4, batch: 32, samples: 100}\n"
				"layers:\n"
				"- dense: {name: in, features: 24}\n"
				"- batch_norm\n"
				"- relu: {name: stem}\n"
				"- dense: {name: shared, features: 24}\n"
				"- gelu\n"
				"- dense: {name: again, features: 24, weights: shared}\n"
				"- add: [again, stem]\n"
				"- dense: {features: 24, trainable: false}\n"
				"- tanh\n"
				"- dense: 4\n"
				"optimizer: {type: adam, learning_rate: 1e-3, clip_norm: 1.0, groups: [{match: in/*, "
				"learning_rate: 1e-2}]}\n"
				"train: {seed: 5, epochs: 100, threads: 2, ema: 0.9}\n";

const char training_tied[] = "data: {type: synthetic, shape: [24], classes: 4, batch: 64, samples: 200}\n"
			     "layers:\n"
			     "- dense: {name: in, features: 24}\n"
			     "- layer_norm\n"
			     "- gelu\n"
			     "- dropout: 0.1\n"
			     "- dense: {name: shared, features: 24}\n"
			     "- gelu\n"
			     "- dropout: 0.1\n"
			     "- dense: {name: again, features: 24, weights: shared}\n"
			     "- repeat:\n"
			     "    count: 3\n"
			     "    name: part\n"
			     "    layers:\n"
			     "    - layer_norm: {name: norm}\n"
			     "    - silu: {name: act}\n"
			     "    - dropout: {name: drop, rate: 0.1}\n"
			     "    - dense: {name: mix, features: 24, weights: shared}\n"
			     "- tanh\n"
			     "- dense: 4\n"
			     "optimizer: {type: adamw, learning_rate: 1e-3, weight_decay: 0.01, clip_norm: 1.0}\n"
			     "train: {seed: 5, epochs: 100, threads: 2}\n";

const char training_frozen[] = "data: {type: synthetic, shape: [8, 8, 2], classes: 3, batch: 8, samples: 40}\n"
			       "layers:\n"
			       "- conv2d: {channels: 6, kernel: 3, padding: 1, trainable: false}\n"
			       "- batch_norm: {trainable: false}\n"
			       "- relu\n"
			       "- conv2d: {channels: 6, kernel: 3, padding: 1, trainable: false}\n"
			       "- relu\n"
			       "- repeat:\n"
			       "    count: 3\n"
			       "    name: part\n"
			       "    layers:\n"
			       "    - conv2d: {name: conv, channels: 6, kernel: 3, padding: 1}\n"
			       "    - batch_norm: {name: norm}\n"
			       "    - silu: {name: act}\n"
			       "    - dropout: {name: drop, rate: 0.3}\n"
			       "- conv2d: {channels: 6, kernel: 3, padding: 1}\n"
			       "- silu\n"
			       "- flatten\n"
			       "- dense: 3\n"
			       "optimizer: {type: adam, learning_rate: 1e-3}\n"
			       "train: {seed: 7, epochs: 100, threads: 2}\n";

const char training_unet[] = "data: {type: synthetic, shape: [16, 16, 3], classes: 4, batch: 4, samples: 20}\n"
			     "layers:\n"
			     "- conv2d: {name: d1, channels: 8, kernel: 3, padding: 1}\n"
			     "- batch_norm: {name: e1}\n"
			     "- relu: {name: f1}\n"
			     "- dropout: {name: h1, rate: 0.2}\n"
			     "- conv2d: {name: d2, channels: 8, kernel: 3, padding: 1}\n"
			     "- relu: {name: f2}\n"
			     "- conv2d: {name: d3, channels: 8, kernel: 3, padding: 1}\n"
			     "- relu: {name: f3}\n"
			     "- concat: {name: u3, inputs: [f3, f2]}\n"
			     "- conv2d: {name: c3, channels: 8, kernel: 3, padding: 1}\n"
			     "- relu: {name: g3}\n"
			     "- concat: {name: u2, inputs: [g3, h1]}\n"
			     "- conv2d: {name: c2, channels: 8, kernel: 3, padding: 1}\n"
			     "- batch_norm: {name: n2}\n"
			     "- relu: {name: g2}\n"
			     "- avg_pool: 2\n"
			     "- global_pool\n"
			     "- dense: 4\n"
			     "optimizer: {type: sgd, learning_rate: 0.05}\n"
			     "train: {seed: 11, epochs: 100, threads: 2}\n";

const char training_gpt[] = "data: {type: synthetic, context: 12, classes: 29, batch: 4, samples: 18}\n"
			    "layers:\n"
			    "- embedding: {name: token, features: 16}\n"
			    "- positions\n"
			    "- repeat:\n"
			    "    count: 3\n"
			    "    name: block\n"
			    "    layers:\n"
			    "    - dropout: {name: in, rate: 0.1}\n"
			    "    - layer_norm: {name: norm1}\n"
			    "    - attention: {name: attention, heads: 4, key_heads: 2, rotary: 100}\n"
			    "    - add: {name: middle, inputs: [attention, in]}\n"
			    "    - rms_norm: {name: norm2}\n"
			    "    - dense: {name: wide, features: 48}\n"
			    "    - gate: {name: gated}\n"
			    "    - dense: {name: narrow, features: 16}\n"
			    "    - add: {name: out, inputs: [narrow, middle]}\n"
			    "- layer_norm\n"
			    "- dense: {name: head, features: 29, bias: false, weights: token}\n"
			    "network: {chunked_loss: true, label_smoothing: 0.1}\n"
			    "optimizer: {type: adamw, learning_rate: 1e-3, weight_decay: 0.01, clip_norm: 1.0}\n"
			    "train: {seed: 3, epochs: 100, threads: 2}\n";

const char training_lstm[] = "data: {type: synthetic, context: 11, classes: 13, batch: 3, samples: 10}\n"
			     "layers:\n"
			     "- embedding: {name: token, features: 10}\n"
			     "- dropout: {name: drop, rate: 0.2}\n"
			     "- lstm: {name: lstm, features: 12, layers: 2, chunk: 4}\n"
			     "- gru: {name: gru, features: 9, chunk: 11}\n"
			     "- dense: 13\n"
			     "optimizer: {type: adam, learning_rate: 1e-3}\n"
			     "train: {seed: 9, epochs: 100, threads: 2}\n";

const char training_convbn[] = "data: {type: synthetic, shape: [16, 16, 3], classes: 10, batch: 8, samples: 64}\n"
			       "layers:\n"
			       "- repeat:\n"
			       "    count: 4\n"
			       "    name: stage\n"
			       "    layers:\n"
			       "    - conv2d: {name: conv, channels: 8, kernel: 3, padding: 1}\n"
			       "    - batch_norm: {name: norm}\n"
			       "    - relu: {name: act}\n"
			       "- global_pool\n"
			       "- dense: 10\n"
			       "optimizer: {type: momentum, learning_rate: 0.05}\n"
			       "train: {seed: 1, epochs: 100, threads: 2}\n";
