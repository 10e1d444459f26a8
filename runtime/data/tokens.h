/*
 * tokens.h - samples of token ids: `data.type: tokens`, and what made-up tokens share with it. Private to runtime/data.
 *
 * A file is nothing but ids, one after the other: bytes, or 16-bit little-endian numbers (data.token_type). Sample i is
 * tokens [i * context, (i+1) * context); the label of a token is the one after it, so that a file of n tokens has
 * (n - 1) / context samples. An empty data.test_inputs: no test split.
 */
#ifndef TARN_DATA_TOKENS_H
#define TARN_DATA_TOKENS_H

#include "data/dataset.h"

/* (context) ids of data.classes kinds, and as many labels. */
enum tarn_status tokens_shape(const struct config *config, struct sample_shape *shape);

/* Samples of a split from the length of its file. TARN_EDATA when it is too short for one. */
enum tarn_status tokens_describe(const struct config *config, enum data_split split, struct host_arena *arena,
				 uint32_t *samples, struct sample_shape *shape);

/* Reads the file; every id is in [0, data.classes), else TARN_EDATA with its place. */
enum tarn_status tokens_fill(struct dataset *dataset, enum data_split split, struct host_arena *arena);

/* Ids [first, first + count) of all samples, as i32. */
void tokens_read(const struct dataset *dataset, uint64_t first, uint64_t count, void *out);

#endif
