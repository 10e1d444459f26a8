/*
 * example.c - train from memory: a network described in the program, samples in its own buffers, its own arena, its own
 * loop; no file is read or written.
 *
 *     cc example.c $(pkg-config --cflags --libs tarn) -o example && ./example
 *
 * Where the library's folder is not one that the loader searches, set LD_LIBRARY_PATH to it.
 */
#include <tarn.h>

#include <stdio.h>
#include <stdlib.h>

#define SIDE 12
#define CLASSES 4
#define TRAIN 256
#define TEST 64

static const char configuration[] = "name: example\n"
				    "memory: {budget: 256 KiB}\n"
				    "data: {type: memory, shape: [12, 12, 1], classes: 4, batch: 16}\n"
				    "layers:\n"
				    "- conv2d: {channels: 8, kernel: 3, padding: same}\n"
				    "- batch_norm\n"
				    "- relu\n"
				    "- max_pool: 2\n"
				    "- flatten\n"
				    "- dense: 4\n"
				    "optimizer: {type: adamw, learning_rate: 1e-2}\n"
				    "train: {epochs: 5}\n";

static unsigned char image[TRAIN + TEST][SIDE][SIDE];
static int32_t label[TRAIN + TEST];

/* Noise, and a bright square in one of four corners. */
static void make_samples(void)
{
	unsigned state = 1;
	for (int n = 0; n < TRAIN + TEST; n++) {
		label[n] = n % CLASSES;
		for (int y = 0; y < SIDE; y++)
			for (int x = 0; x < SIDE; x++) {
				int corner = (y >= SIDE / 2) * 2 + (x >= SIDE / 2);
				state = state * 1664525u + 1013904223u;
				image[n][y][x] = (unsigned char)((state >> 25) + (corner == label[n] ? 100 : 0));
			}
	}
}

static int fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, tarn_error());
	return EXIT_FAILURE;
}

int main(void)
{
	make_samples();
	const struct tarn_samples train = { image, true, label, TRAIN };
	const struct tarn_samples test = { image[TRAIN], true, label + TRAIN, TEST };

	/* First only plan: how much memory will it take? */
	struct tarn_options options = {
		.config_text = configuration, .train = &train, .test = &test, .plan_only = true
	};
	struct tarn_session *session;
	struct tarn_plan_info info;
	if (tarn_open(&options, &session))
		return fail("planning");
	tarn_plan_info(session, &info);
	tarn_close(session);
	printf("arena %llu bytes of a budget of %llu; keeping everything would take %llu\n",
	       (unsigned long long)info.arena_bytes, (unsigned long long)info.budget_bytes,
	       (unsigned long long)info.none_peak_bytes);

	/* Then train in memory that this program owns; 63 bytes more leave room to align it. */
	options.plan_only = false;
	options.arena_bytes = info.arena_bytes + 63;
	options.arena = malloc(options.arena_bytes);
	if (!options.arena || tarn_open(&options, &session))
		return fail("opening");
	struct tarn_metrics metrics = { .finished = false };
	while (!metrics.finished) {
		if (tarn_step(session, &metrics))
			return fail("training");
		if (metrics.epoch_end)
			printf("epoch %u: loss %.4f\n", metrics.epoch + 1, metrics.loss);
	}
	struct tarn_evaluation evaluation;
	if (tarn_evaluate(session, &evaluation))
		return fail("evaluating");
	printf("test accuracy %.1f %% on %u samples\n", 100.0 * evaluation.accuracy, evaluation.samples);
	tarn_close(session);
	free(options.arena);
	return EXIT_SUCCESS;
}
