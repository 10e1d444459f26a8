/*
 * feed.h - the loader thread: the next batch is ready before the step asks for it.
 *
 * The thread decodes batch k+1 into its own host buffer (made at boot) while the device works on batch k; when the step
 * has consumed the staging slot, feed_next copies (or the thread has already written, where the host reaches the arena)
 * the batch into staging. No allocation after open. The sequence of batches is a pure function of (seed, first batch),
 * so resuming at any batch gives the same one. Each sample of an epoch comes exactly once; the last batch of an
 * epoch is short unless drop_last. With data.shapes all samples of a batch have one size, which is drawn from (seed,
 * epoch, number) where pieces are taken (`augment`); a short batch and one that is not augmented have whole samples.
 */
#ifndef TARN_DATA_FEED_H
#define TARN_DATA_FEED_H

#include "data/episodes.h"

struct feed;

struct feed_options {
	const struct dataset *dataset;
	uint32_t batch;
	bool shuffle, drop_last, augment;
	uint64_t seed;
	uint32_t first_epoch;            /* where to start: for resuming */
	uint32_t first_batch;            /* within the epoch */
	const struct episodes *episodes; /* batches are the steps of tasks instead; NULL: samples in their order */
	bool repeat;                     /* go on with the next epoch; false: end after one */
};

struct batch {
	const float *input; /* [samples * dataset->size[size].sample_elements] */
	const void *target;
	const void *array[CONFIG_MAX_ARRAYS]; /* data.arrays: [samples * array_elements] of four bytes each */
	uint32_t samples;                     /* < batch only at the end of an epoch; 0: no more */
	uint32_t epoch, number;               /* both from 0 */
	uint32_t size;                        /* number in dataset->size */
};

enum tarn_status feed_open(const struct feed_options *options, struct host_arena *arena, struct feed **feed);
/* Waits for the next batch; valid until feed_release. */
enum tarn_status feed_next(struct feed *feed, struct batch *batch);
/* The batch was copied: its buffer may be filled again. */
void feed_release(struct feed *feed);
/* Batches that were not ready when asked for, so far. */
uint64_t feed_stalls(const struct feed *feed);
/* Restarts at the given place without allocating (evaluation runs use one feed again and again). */
void feed_rewind(struct feed *feed, uint32_t epoch, uint32_t first_batch);
void feed_close(struct feed *feed);

#endif
