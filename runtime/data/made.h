/*
 * made.h - samples without files: `data.type: synthetic` and `hash`, and with `data.synthetic: true` synthetic ones of
 * the shape that the files of any other type have. Private to runtime/data.
 *
 * synthetic: class k has a smooth random pattern; a sample is the pattern of its class (index mod classes) plus noise
 * of its own. With mean-square error the sample is noise and its target a fixed random linear map of it. Both splits
 * share patterns and map. hash: hash_numbers.h; inputs are numbered in N C H W order (vectors: N F), as programs that
 * store images that way do. The test split goes on where the training split ends.
 *
 * With data.context both make tokens: synthetic follows a fixed random successor of each token, three times out of
 * four; hash draws ids like labels but with seed 1, and the label of a sample's last token is its first one.
 */
#ifndef TARN_DATA_MADE_H
#define TARN_DATA_MADE_H

#include "data/dataset.h"

/* Whether the samples of a configuration are made up. */
bool made_is(const struct config *config);

/* Samples and shape as the config states them. TARN_EINVAL when something is missing. */
enum tarn_status made_describe(const struct config *config, enum data_split split, uint32_t *samples,
			       struct sample_shape *shape);

/* Shape from data.shape and data.classes; `type` is what needs it, for messages. */
enum tarn_status made_shape(const struct config *config, const char *type, struct sample_shape *shape);

/* `dataset` has samples, shape and element counts; fills values and labels or targets. */
enum tarn_status made_fill(struct dataset *dataset, enum data_split split, struct host_arena *arena);

#endif
