/*
 * given.h - `data.type: memory`: samples that the program owns and hands over by pointers (struct tarn_options).
 * Private to runtime/data.
 *
 * Their shape is data.shape and data.classes. Nothing is copied: the memory must stay as it is while the session is
 * open. A configuration without samples, as `tarn plan` has it, plans for data.samples and data.test_samples.
 */
#ifndef TARN_DATA_GIVEN_H
#define TARN_DATA_GIVEN_H

#include "data/dataset.h"

enum tarn_status given_describe(const struct config *config, enum data_split split, uint32_t *samples,
				struct sample_shape *shape);

/* TARN_EDATA when the program gave none, or a label is none of data.classes. */
enum tarn_status given_fill(struct dataset *dataset, enum data_split split);

#endif
