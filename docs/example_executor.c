/*
 * example_executor.c - train where there is no YAML and no planner: a plan file and samples in memory.
 *
 * The plan is made elsewhere, for as many samples as there will be here:
 *
 *     tarn plan net.yaml data.samples=256 data.test_samples=64 -o net.plan
 *     cc example_executor.c $(pkg-config --cflags --libs tarn) -o example && ./example net.plan
 *
 * against a library that was built with `make exec_defconfig`. Such a library needs neither libyaml nor the planner's
 * code; docs/library.md says how many bytes are left.
 */
#include <tarn.h>

#include <stdio.h>
#include <stdlib.h>

#define SIDE 12
#define CLASSES 4
#define TRAIN 256
#define TEST 64

/* On a board this would be flash memory or a camera's buffer. */
static float image[TRAIN + TEST][SIDE][SIDE];
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
				image[n][y][x] = (float)(state >> 25) / 128.0f + (corner == label[n] ? 1.0f : 0.0f);
			}
	}
}

int main(int argc, char **argv)
{
	make_samples();
	const struct tarn_samples train = { image, false, label, TRAIN };
	const struct tarn_samples test = { image[TRAIN], false, label + TRAIN, TEST };
	const struct tarn_options options = { .plan_path = argc > 1 ? argv[1] : "net.plan",
					      .train = &train,
					      .test = &test };
	struct tarn_session *session = NULL;
	struct tarn_metrics metrics = { .finished = false };
	struct tarn_evaluation evaluation;
	enum tarn_status status = tarn_open(&options, &session);
	while (!status && !metrics.finished)
		status = tarn_step(session, &metrics);
	if (!status)
		status = tarn_evaluate(session, &evaluation);
	if (!status)
		printf("%llu steps, test accuracy %.1f %% on %u samples\n", (unsigned long long)metrics.step,
		       100.0 * evaluation.accuracy, evaluation.samples);
	else
		fprintf(stderr, "%s\n", tarn_error());
	tarn_close(session);
	return status ? EXIT_FAILURE : EXIT_SUCCESS;
}
