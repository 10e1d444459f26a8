/*
 * files.h - samples from IDX and npy files. Private to runtime/data.
 */
#ifndef TARN_DATA_FILES_H
#define TARN_DATA_FILES_H

#include "data/dataset.h"

/*
 * Samples and shape of a split from the headers of its two files; *samples = 0 when the config names no test files. The
 * training labels are read through when data.classes is not set.
 */
enum tarn_status files_describe(const struct config *config, enum data_split split, struct host_arena *arena,
				uint32_t *samples, struct sample_shape *shape);

/* `dataset` has samples, shape and element counts; reads bytes or values, and labels or targets. */
enum tarn_status files_fill(struct dataset *dataset, enum data_split split, struct host_arena *arena);

/*
 * "data.directory/name", or the name itself when it begins with /. TARN_EIO when no such file is there: `key`
 * ("train_inputs") is what names it.
 */
enum tarn_status files_join(const struct config *config, const char *key, const char *name, struct host_arena *arena,
			    const char **path);

#endif
