/*
 * safetensors.h - the header of a safetensors file: a strict parser, and the pieces to write one.
 *
 * File: u64 little-endian length N of the header, N bytes of JSON padded with blanks, data. The JSON is one object;
 * each key is a tensor's name with {"dtype": TEXT, "shape": [..], "data_offsets": [begin, end]}; "__metadata__" maps
 * text to text. Format: https://huggingface.co/docs/safetensors (the format section). Strict: exactly these keys, no
 * duplicates, plain unsigned integers, valid UTF-8, and the data ranges must tile the data without holes or overlaps,
 * each as long as shape and dtype say. Nothing nests deeper than that, so hostile files cannot make it recurse.
 */
#ifndef TARN_EXEC_SAFETENSORS_H
#define TARN_EXEC_SAFETENSORS_H

#include "base/host_arena.h"

#include <stdbool.h>

#define SAFETENSORS_LENGTH_BYTES 8u
/* Longest header that is read, as in the format's own reader. */
#define SAFETENSORS_MAX_HEADER ((uint64_t)100000000)
#define SAFETENSORS_MAX_RANK 8u
#define SAFETENSORS_METADATA "__metadata__"

struct safetensors_tensor {
	const char *name;    /* in the header's memory */
	const char *dtype;   /* "F32" */
	uint64_t begin, end; /* bytes in the data */
	uint64_t dim[SAFETENSORS_MAX_RANK];
	uint32_t rank;
};

struct safetensors_text {
	const char *key, *value;
};

struct safetensors {
	struct safetensors_tensor *tensor; /* sorted by name */
	struct safetensors_text *metadata;
	size_t tensors, metadata_pairs;
};

/*
 * Parses the JSON in `header`, which is changed (texts are unescaped in place) and must outlive `out`. `data_bytes`:
 * what the file holds behind it. Arrays come from `arena`. TARN_EFORMAT with the tensor's name where there is one,
 * without the file's; TARN_ENOMEM.
 */
enum tarn_status safetensors_parse(char *header, size_t bytes, uint64_t data_bytes, struct host_arena *arena,
				   struct safetensors *out);

/* NULL when there is no such key, or no such tensor. */
const char *safetensors_metadata(const struct safetensors *file, const char *key);
const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name);

/* A name for messages: control characters become '?', long names are cut. Writes into `buffer` and returns it. */
#define SAFETENSORS_PRINTABLE 96
const char *safetensors_printable(const char *name, char buffer[SAFETENSORS_PRINTABLE]);

/* Text as a JSON string with quotes; returns the bytes written, at most 6 for each byte of text plus 2. No terminating
 * zero. */
size_t safetensors_quote(char *out, const char *text);

/* Bytes that are no UTF-8 become '?', in place, as safetensors_quote would write them: what is read is this text. */
void safetensors_make_valid(char *text);

#endif
