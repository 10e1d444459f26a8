/*
 * array.h - headers of the two array formats that data come in: IDX (MNIST's) and npy (NumPy's).
 *
 * IDX: 00 00 type rank, then `rank` big-endian u32 dimensions, then the data. http://yann.lecun.com/exdb/mnist
 * npy: "\x93NUMPY" major minor, header length (u16; u32 from version 2 on), a Python dictionary with exactly the keys
 * descr, fortran_order and shape, padded with blanks to a newline. NEP 1, "A simple file format for NumPy arrays".
 *
 * Private to runtime/data. The parsers work on bytes in memory and trust nothing; messages come without the file's
 * name.
 */
#ifndef TARN_DATA_ARRAY_H
#define TARN_DATA_ARRAY_H

#include "data/stream.h"

enum array_type {
	ARRAY_U8,
	ARRAY_I8,
	ARRAY_U16,
	ARRAY_I16,
	ARRAY_U32,
	ARRAY_I32,
	ARRAY_U64,
	ARRAY_I64,
	ARRAY_F32,
	ARRAY_OTHER
};

/* Samples, and at most as many dimensions as a sample may have (graph/build.h). */
#define ARRAY_MAX_RANK 6
/* Longest header that is read; npy headers of plain arrays have 128 bytes. */
#define ARRAY_MAX_HEADER ((size_t)4096)

struct array_header {
	uint32_t type;   /* enum array_type; ARRAY_OTHER: none that is read here, only `name` says which */
	char name[16];   /* of the type, as the file writes it: "<f4"; "IDX type 0x0D" */
	bool big_endian; /* IDX floats */
	uint32_t rank;   /* at least 1 */
	uint32_t dim[ARRAY_MAX_RANK];
	uint64_t bytes; /* of the data */
};

size_t array_type_bytes(uint32_t type);

/* How long the whole header is, from its first 4 (IDX) or 12 (npy) bytes. */
enum tarn_status idx_header_bytes(const uint8_t *head, size_t bytes, size_t *header_bytes);
enum tarn_status npy_header_bytes(const uint8_t *head, size_t bytes, size_t *header_bytes);

/* `bytes` is what the two functions above said. TARN_EFORMAT, or TARN_EUNSUPPORTED for arrays of a kind not read here.
 */
enum tarn_status idx_parse(const uint8_t *head, size_t bytes, struct array_header *header);
enum tarn_status npy_parse(const uint8_t *head, size_t bytes, struct array_header *header);
/* The same, and a single number is an array of rank 0. */
enum tarn_status npy_parse_any(const uint8_t *head, size_t bytes, struct array_header *header);

/* An array: a file of its own, or a member of a zip archive (npz). */
struct array_file {
	const char *path; /* of the file or archive */
	const char *name; /* for messages: the path, or "x.npz: x_train.npy" */
	bool npy;         /* else IDX */
	bool is_member;   /* `part` says where it lies in the archive */
	struct stream_part part;
};

/*
 * Opens a file, recognises what it is not (HTML page, zip archive ...) and reads the header; the stream then stands at
 * the first byte of the data. The stream is open afterwards unless stream_open failed; the caller closes it in any
 * case.
 */
enum tarn_status array_open(struct data_stream *stream, const struct array_file *file, struct array_header *header);

#endif
