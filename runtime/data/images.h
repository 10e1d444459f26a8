/*
 * images.h - `data.type: images`: a folder a class with image files in it. Private to runtime/data.
 *
 * data.train_inputs and data.test_inputs name folders in data.directory; each folder in them is a class, in the order
 * of their names as bytes, and each file in that one image (image_file.h). Names that begin with a dot are left out.
 * Both splits have the same classes, data.classes of them, and all images one size and number of channels: whatever
 * differs is refused by name, since nothing here resizes. Samples stand in the order of classes and file names.
 */
#ifndef TARN_DATA_IMAGES_H
#define TARN_DATA_IMAGES_H

#include "data/dataset.h"

/* Samples and shape of a split from its folders and the header of every file; *samples = 0 without test_inputs. */
enum tarn_status images_describe(const struct config *config, enum data_split split, struct host_arena *arena,
				 uint32_t *samples, struct sample_shape *shape);

/* `dataset` has samples, shape and element counts; reads bytes and labels. */
enum tarn_status images_fill(struct dataset *dataset, enum data_split split, struct host_arena *arena);

#endif
