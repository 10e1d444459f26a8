/*
 * dataset.h - samples and labels by index, from files or made up.
 *
 * Sources: IDX (plain or gzip, found by content), npy (v1-v3, C order, <f4 or |u1 data, |u1 <i4 <i8 labels), synthetic
 * (learnable, from data.samples and train.seed), hash (hash_numbers.h: uniform inputs seed 1, labels seed 2).
 * Everything is read and checked at open: sizes against headers, gzip CRC, labels against `classes` (index, value and
 * allowed range in the message), train and test shapes against one another. Bytes become (x/255 - mean) / std.
 *
 * Reading a sample touches no heap and may be done from another thread.
 */
#ifndef TARN_DATA_DATASET_H
#define TARN_DATA_DATASET_H

#include "config/config.h"
#include "graph/build.h"

enum data_split { SPLIT_TRAIN, SPLIT_TEST };

struct dataset {
	const struct config *config; /* borrowed */
	uint32_t samples;
	struct sample_shape shape;
	uint64_t sample_elements, target_elements; /* f32 values; i32 label or f32 values */
	const uint8_t *bytes;  /* raw samples when the source holds bytes, else NULL */
	const float *values;   /* raw samples when it holds floats, else NULL */
	const int32_t *labels; /* NULL for float targets */
	const float *targets;
};

/*
 * Opens a split; memory is owned by `arena`. A split that the config does not have gives samples = 0 (test only).
 * TARN_EIO, TARN_EFORMAT (file and byte offset), TARN_EDATA.
 */
enum tarn_status dataset_open(const struct config *config, enum data_split split, struct host_arena *arena,
			      struct dataset *dataset);

/*
 * Only what planning needs: samples of both splits and the sample's shape, from the headers, without reading the data.
 */
enum tarn_status dataset_describe(const struct config *config, struct host_arena *arena, uint32_t *train_samples,
				  uint32_t *test_samples, struct sample_shape *shape);

/*
 * Writes sample `index` (normalised, H W C) and its target. `augment`: random shift and flip, a pure function of
 * (train.seed, epoch, index).
 */
void dataset_read(const struct dataset *dataset, uint32_t index, bool augment, uint32_t epoch, float *sample,
		  void *target);

/* order[0..n) = the permutation of an epoch: a pure function of (seed, epoch); identity when shuffle is off. */
void dataset_order(const struct dataset *dataset, bool shuffle, uint64_t seed, uint32_t epoch, uint32_t *order);

#endif
