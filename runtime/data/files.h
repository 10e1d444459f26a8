/*
 * files.h - samples from IDX and npy files and from the arrays of npz archives; and where files lie. Private to
 * runtime/data.
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

/* What ends a message about files that are not there. */
#define FILES_STAND_IN "; data.synthetic: true takes made-up samples instead"

/* "data.directory/name", or the name itself when it begins with /; *found: something is there. */
enum tarn_status files_path(const struct config *config, const char *name, struct host_arena *arena, const char **path,
			    bool *found);

/*
 * "data.directory/name", or the name itself when it begins with /. TARN_EIO when no such file is there: `key`
 * ("train_inputs") is what names it.
 */
enum tarn_status files_join(const struct config *config, const char *key, const char *name, struct host_arena *arena,
			    const char **path);

#endif
