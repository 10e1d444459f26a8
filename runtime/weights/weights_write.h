/*
 * weights_write.h - the weights of a snapshot in a file for others: PyTorch's names and layouts (models/exchange.h).
 *
 * safetensors, or npz for a path that ends in .npz: stored, not packed, below 4 GiB. Parameters and running statistics
 * are float32, counters 64-bit integers of rank 0 (npz: rank 1). Where the run kept moving averages they are what is
 * written, because they are what evaluation reads. Optimizer state stays behind.
 */
#ifndef TARN_WEIGHTS_WRITE_H
#define TARN_WEIGHTS_WRITE_H

#include "tarn_status.h"

#include <stdbool.h>
#include <stdint.h>

struct weights_written {
	uint32_t tensors;
	uint64_t bytes;  /* of the file */
	char family[32]; /* whose names; "" for the own ones with points */
	bool averages;   /* they were written instead of the weights */
};

/*
 * `map`: path of a map; NULL none. Replaces `path` whole or not at all. TARN_EIO, TARN_EFORMAT, TARN_EINVAL (the map),
 * TARN_EUNSUPPORTED.
 */
enum tarn_status weights_write(const char *snapshot, const char *path, const char *map,
			       struct weights_written *written);

#endif
