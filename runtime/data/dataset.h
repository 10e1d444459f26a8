/*
 * dataset.h - samples and labels by index, from files or made up.
 *
 * Sources: IDX (plain or gzip, found by content), npy (v1-v3, C order, <f4 or |u1 data, |u1 <i4 <i8 labels), npz (such
 * arrays in a zip archive), CIFAR's binary files, images (PNG, PPM and PGM, a folder a class), synthetic (learnable,
 * from data.samples and train.seed), hash (hash_numbers.h: uniform inputs seed 1, labels seed 2), tokens (files of
 * token ids). With data.synthetic: true synthetic samples stand in for those of files. With data.context a sample is
 * that many token ids (i32) and as many labels, the token after each. Everything is read and checked at open: sizes
 * against headers, gzip CRC, labels against `classes` (index, value and allowed range in the message), targets of
 * binary_cross_entropy against [0, 1], inputs that are their own targets likewise, or against [-1, 1] for
 * logistic_mixture, train and test shapes against one another. Bytes become (x/255 - mean) / std, floats from files
 * (x - mean) / std; synthetic and hash values stay as they are. Images without a channel dimension get one channel.
 * Where data.classes is not set (0), the number of classes is 1 + the largest training label.
 *
 * With data.shapes samples are read in several sizes: number 0 is the whole sample, the others are pieces of it, each
 * drawn anew for every epoch: `context` tokens in a row and the tokens after them, or a square of the image (and of the
 * labels of its pixels), after shift and flip. Nothing is scaled: what is in a piece looks as in the whole.
 *
 * Reading a sample touches no heap and may be done from another thread.
 */
#ifndef TARN_DATA_DATASET_H
#define TARN_DATA_DATASET_H

#include "config/config.h"
#include "graph/build.h"

/* Sizes of data.shapes (struct size_list). */
#define DATASET_MAX_SIZES 8u

struct dataset_size {
	uint32_t side; /* tokens, or pixels of a row and of a column; 0 when there is one size, whatever it is */
	uint64_t sample_elements, target_elements;
};

enum data_split { SPLIT_TRAIN, SPLIT_TEST };

struct dataset {
	const struct config *config; /* borrowed */
	uint32_t samples;
	struct sample_shape shape;
	/* f32 values or i32 ids; i32 labels or f32 values: four bytes each, no target where the input is its own */
	uint64_t sample_elements, target_elements;
	const uint8_t *bytes;  /* raw samples when the source holds bytes, else NULL */
	const float *values;   /* raw samples when it holds floats, else NULL */
	const void *tokens;    /* ids, all samples of a file one after the other; else NULL */
	uint32_t token_bytes;  /* 1, 2 or 4 */
	const int32_t *labels; /* NULL for float targets, and where the next token is the label */
	const float *targets;
	const void *array[CONFIG_MAX_ARRAYS]; /* data.arrays: i32 or f32, of all samples */
	uint64_t array_elements[CONFIG_MAX_ARRAYS];
	uint32_t channels;                           /* last dimension of a sample */
	struct dataset_size size[DATASET_MAX_SIZES]; /* size[0]: of whole samples */
	uint32_t sizes;                              /* at least 1 */
	/* Bytes: 256 normalised values, for each channel when table_stride is 256, for all when it is 0. */
	const float *table;
	uint32_t table_stride;
	const float *mean, *std; /* floats: one for each channel; NULL: values stay as they are */
	const float *padding;    /* what a black pixel becomes, for each channel */
};

/* What the network will see, over all samples. */
struct dataset_statistics {
	double least, largest, mean, deviation;
	bool constant; /* every input value is the same: nothing can be learnt */
};

/*
 * Opens a split; memory is owned by `arena`. A split that the config does not have gives samples = 0 (test only).
 * TARN_EIO, TARN_EFORMAT (file and byte offset), TARN_EDATA.
 */
enum tarn_status dataset_open(const struct config *config, enum data_split split, struct host_arena *arena,
			      struct dataset *dataset);

/*
 * Only what planning needs: samples of both splits and the sample's shape, from the headers, without reading the data.
 * Whatever headers and configuration tell is checked here, so that a plan is refused for the same reasons as a run.
 */
enum tarn_status dataset_describe(const struct config *config, struct host_arena *arena, uint32_t *train_samples,
				  uint32_t *test_samples, struct sample_shape *shape);

/*
 * Writes sample `index` (normalised, H W C; or ids) and its target. `augment`: random shift and flip, a pure function
 * of (train.seed, epoch, index).
 */
void dataset_read(const struct dataset *dataset, uint32_t index, bool augment, uint32_t epoch, void *sample,
		  void *target);

/*
 * The same for a piece of size number `size`: with `augment` at a place that is a pure function of (train.seed, epoch,
 * index), else from the middle. dataset_read is size 0.
 */
void dataset_read_piece(const struct dataset *dataset, uint32_t index, uint32_t size, bool augment, uint32_t epoch,
			void *sample, void *target);

/* The shape of samples of size number `size`, from that of whole samples. */
struct sample_shape dataset_shape(const struct config *config, const struct sample_shape *whole, uint32_t size);

/* Reads every sample once. class_count[0 .. shape.classes) unless NULL. TARN_ENOMEM; scratch is given back. */
enum tarn_status dataset_measure(const struct dataset *dataset, struct host_arena *scratch,
				 struct dataset_statistics *statistics, uint64_t *class_count);

/* One label a pixel (data.pixel_labels): the shape of the labels of images. TARN_EINVAL for other samples. */
enum tarn_status pixel_label_shape(struct sample_shape *shape);

/* order[0..n) = the permutation of an epoch: a pure function of (seed, epoch); identity when shuffle is off. */
void dataset_order(const struct dataset *dataset, bool shuffle, uint64_t seed, uint32_t epoch, uint32_t *order);

#endif
