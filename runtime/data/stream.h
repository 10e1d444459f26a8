/*
 * stream.h - the bytes of a data file in order, unpacked when the file is gzip; or those of one member of a zip
 * archive.
 *
 * gzip is found by content, never by name; members may follow one another; zlib checks length and CRC of each. Of a
 * member of an archive, stream_expect_end checks the CRC. Private to runtime/data. Failures name the file and the byte
 * in it: TARN_EIO (cannot read), TARN_EFORMAT (damaged).
 */
#ifndef TARN_DATA_STREAM_H
#define TARN_DATA_STREAM_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#define STREAM_RAW_BYTES ((size_t)1 << 16)
#define STREAM_PEEK_BYTES ((size_t)64)

/* Where a member of an archive lies in its file (zip.h), and what it must unpack to. */
struct stream_part {
	uint64_t offset, bytes; /* in the file */
	uint64_t unpacked_bytes;
	uint32_t crc; /* of the unpacked bytes */
	bool deflate; /* packed, without a gzip wrapper */
};

struct data_stream {
	const char *path; /* borrowed; for messages */
	int fd;           /* -1: closed */
	bool gzip;
	bool has_part; /* `part` is what is read */
	struct stream_part part;
	uint32_t crc;         /* of the part's bytes that were unpacked so far */
	bool member_open;     /* inside a gzip member: the file may not end here */
	bool inflating;       /* `zlib` must be ended */
	uint64_t file_bytes;  /* size on disk */
	uint64_t file_offset; /* bytes of the file taken from `raw` so far */
	uint64_t position;    /* unpacked bytes delivered so far */
	size_t raw_used, raw_filled;
	size_t peek_used, peek_filled;
	z_stream zlib;
	uint8_t peek[STREAM_PEEK_BYTES]; /* the first unpacked bytes, for recognising the kind of file */
	uint8_t raw[STREAM_RAW_BYTES];
};

/* Opens a file and unpacks its first bytes into `peek`. An empty file or directory is refused. stream_close is safe
 * afterwards. */
enum tarn_status stream_open(struct data_stream *stream, const char *path);
/* The same for a part of a file, never taken for gzip; messages call it `name`. */
enum tarn_status stream_open_part(struct data_stream *stream, const char *path, const char *name,
				  const struct stream_part *part);
void stream_close(struct data_stream *stream);

/* Exactly `bytes` unpacked bytes; fewer is TARN_EFORMAT "truncated". */
enum tarn_status stream_read(struct data_stream *stream, void *target, size_t bytes);

/* Nothing may follow, in the file or behind the last gzip member. */
enum tarn_status stream_expect_end(struct data_stream *stream);

/* Reads to the end; *bytes: how many were unpacked since the stream was opened. */
enum tarn_status stream_count(struct data_stream *stream, uint64_t *bytes);

/* Refuses early, and before memory is asked for, a file that cannot hold `bytes` more. */
enum tarn_status stream_expect_room(const struct data_stream *stream, uint64_t bytes);

#endif
