/*
 * weights_file.h - tensors by name from a file of weights: a snapshot, any safetensors file, or an npz archive.
 *
 * Nothing in the file is trusted: headers go through safetensors.h, zip.h and array.h. A snapshot is known by its
 * metadata and proved whole by its checksums; other files have none but zip's.
 */
#ifndef TARN_WEIGHTS_FILE_H
#define TARN_WEIGHTS_FILE_H

#include "data/zip.h"
#include "exec/snapshot_file.h"

struct weights_tensor {
	const char *name;  /* "layer1.0.conv1.weight"; of npz without ".npy" */
	const char *dtype; /* as safetensors calls it, "F32" */
	uint64_t dim[SAFETENSORS_MAX_RANK];
	uint32_t rank;
	uint64_t bytes;
	uint64_t offset;         /* in the file */
	struct stream_part part; /* of npz: the member, and how long its own header is */
	uint64_t header_bytes;
};

struct weights_file {
	const char *path; /* borrowed */
	bool archive;     /* npz */
	bool snapshot;    /* names are those of a network of this program */
	struct snapshot_file file;
	struct weights_tensor *tensor;
	uint32_t tensors;
	struct data_stream *stream; /* for members of archives */
};

/* Everything lies in `arena`. TARN_EIO, TARN_EFORMAT, TARN_EUNSUPPORTED. weights_file_close is safe after a failure. */
enum tarn_status weights_file_open(const char *path, struct host_arena *arena, struct weights_file *file);
/* A whole header, and not that of a snapshot; what is damaged is left to who reads it. */
bool weights_file_is_foreign(const char *path, struct host_arena *scratch);
void weights_file_close(struct weights_file *file);

/* NULL when there is none. */
const struct weights_tensor *weights_file_find(const struct weights_file *file, const char *name);

/* All elements as float32, from F32, F64, F16 or BF16. `scratch` is given back. */
enum tarn_status weights_file_read(const struct weights_file *file, const struct weights_tensor *tensor,
				   struct host_arena *scratch, float *target);
/* A counter: one element, from U64, I64 or I32, not negative. */
enum tarn_status weights_file_read_count(const struct weights_file *file, const struct weights_tensor *tensor,
					 uint64_t *count);

#endif
