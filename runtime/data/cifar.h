/*
 * cifar.h - `data.type: cifar10` and `cifar100`, the binary version of the files. Private to runtime/data.
 *
 * Format: https://www.cs.toronto.edu/~kriz/cifar.html, "binary version". A record is a label (CIFAR-100: the label of
 * the coarse class, then that of the fine one) and 3072 bytes, the red plane, then green, then blue, each 32 rows of
 * 32. The files have fixed names in data.directory: data_batch_1.bin to data_batch_5.bin and test_batch.bin; train.bin
 * and test.bin for CIFAR-100. Each may hold any whole number of records, and may be packed with gzip. In memory samples
 * are H x W x C.
 */
#ifndef TARN_DATA_CIFAR_H
#define TARN_DATA_CIFAR_H

#include "data/dataset.h"

bool cifar_is(uint32_t data_type);

/* 32 x 32 x 3 and the classes, which no file needs to say. */
enum tarn_status cifar_shape(const struct config *config, struct sample_shape *shape);

/* Samples of a split from the lengths of its files. */
enum tarn_status cifar_describe(const struct config *config, enum data_split split, struct host_arena *arena,
				uint32_t *samples, struct sample_shape *shape);

/* `dataset` has samples, shape and element counts; reads bytes and labels. */
enum tarn_status cifar_fill(struct dataset *dataset, enum data_split split, struct host_arena *arena);

#endif
