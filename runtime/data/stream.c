/* stream.c - plain or gzip bytes of a file, with the place of every failure. */
#include "data/stream.h"

#include "base/regular_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* windowBits 15, and 16 more for a gzip wrapper (zlib.h, inflateInit2). */
#define GZIP_WINDOW_BITS (15 + 16)
/* Negative: deflate without a wrapper. */
#define DEFLATE_WINDOW_BITS (-15)
/* Deflate codes at most 258 bytes in two bits, so that no file unpacks to more than this many times its size (RFC
 * 1951). */
#define LARGEST_EXPANSION 1032u

/* Refills `raw` when it is used up; raw_filled == raw_used afterwards means the end of the file. */
static enum tarn_status refill(struct data_stream *stream)
{
	if (stream->raw_used < stream->raw_filled)
		return TARN_OK;
	ssize_t got;
	uint64_t most = sizeof stream->raw;
	if (stream->has_part) {
		uint64_t left = stream->part.offset + stream->part.bytes - stream->file_offset;
		most = left < most ? left : most;
	}
	do
		got = read(stream->fd, stream->raw, (size_t)most);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return tarn_fail(TARN_EIO, "%s: cannot read at byte %llu: %s", stream->path,
				 (unsigned long long)stream->file_offset, strerror(errno));
	stream->raw_used = 0;
	stream->raw_filled = (size_t)got;
	return TARN_OK;
}

static bool looks_like_gzip(const struct data_stream *stream)
{
	return stream->raw_filled - stream->raw_used >= 2 && stream->raw[stream->raw_used] == 0x1F &&
	       stream->raw[stream->raw_used + 1] == 0x8B;
}

static void take_raw(struct data_stream *stream, size_t bytes)
{
	stream->raw_used += bytes;
	stream->file_offset += bytes;
}

static bool is_packed(const struct data_stream *stream)
{
	return stream->gzip || (stream->has_part && stream->part.deflate);
}

static const char *packing_name(const struct data_stream *stream)
{
	return stream->gzip ? "gzip" : "deflate";
}

/* The next gzip member begins, or something that is none follows the last one. */
static enum tarn_status next_member(struct data_stream *stream)
{
	if (stream->has_part)
		return tarn_fail(TARN_EFORMAT, "%s: byte %llu: bytes follow the end of the packed data", stream->path,
				 (unsigned long long)stream->file_offset);
	if (stream->raw[stream->raw_used] != 0x1F)
		return tarn_fail(TARN_EFORMAT, "%s: byte %llu: bytes that are not gzip follow the end of the gzip data",
				 stream->path, (unsigned long long)stream->file_offset);
	if (inflateReset(&stream->zlib) != Z_OK)
		return tarn_fail(TARN_EINTERNAL, "%s: zlib cannot be reset", stream->path);
	stream->member_open = true;
	return TARN_OK;
}

static enum tarn_status inflate_failure(const struct data_stream *stream, int code)
{
	if (code == Z_MEM_ERROR)
		return tarn_fail(TARN_ENOMEM, "%s: zlib has no memory", stream->path);
	return tarn_fail(TARN_EFORMAT, "%s: byte %llu: the %s data are damaged: %s", stream->path,
			 (unsigned long long)stream->file_offset, packing_name(stream),
			 stream->zlib.msg ? stream->zlib.msg : "not a valid deflate stream");
}

static enum tarn_status unpack_packed(struct data_stream *stream, uint8_t *target, size_t bytes, size_t *got)
{
	while (*got < bytes) {
		enum tarn_status st = refill(stream);
		if (st)
			return st;
		size_t raw = stream->raw_filled - stream->raw_used;
		if (!raw && stream->member_open)
			return tarn_fail(TARN_EFORMAT, "%s: truncated: the %s ends at byte %llu inside the %s data",
					 stream->path, stream->has_part ? "archive's member" : "file",
					 (unsigned long long)stream->file_offset, packing_name(stream));
		if (!raw)
			return TARN_OK;
		if (!stream->member_open) {
			st = next_member(stream);
			if (st)
				return st;
		}
		size_t room = bytes - *got;
		uInt step = (uInt)(room < ((size_t)1 << 30) ? room : (size_t)1 << 30);
		stream->zlib.next_in = stream->raw + stream->raw_used;
		stream->zlib.avail_in = (uInt)raw;
		stream->zlib.next_out = target + *got;
		stream->zlib.avail_out = step;
		int code = inflate(&stream->zlib, Z_NO_FLUSH);
		take_raw(stream, raw - stream->zlib.avail_in);
		*got += step - stream->zlib.avail_out;
		if (code == Z_STREAM_END)
			stream->member_open = false;
		else if (code != Z_OK && code != Z_BUF_ERROR)
			return inflate_failure(stream, code);
	}
	return TARN_OK;
}

static enum tarn_status copy_plain(struct data_stream *stream, uint8_t *target, size_t bytes, size_t *got)
{
	while (*got < bytes) {
		enum tarn_status st = refill(stream);
		if (st)
			return st;
		size_t step = stream->raw_filled - stream->raw_used;
		if (!step)
			return TARN_OK;
		if (step > bytes - *got)
			step = bytes - *got;
		memcpy(target + *got, stream->raw + stream->raw_used, step);
		take_raw(stream, step);
		*got += step;
	}
	return TARN_OK;
}

/* Up to `bytes` unpacked bytes past `peek`; fewer only at the end. */
static enum tarn_status unpack(struct data_stream *stream, uint8_t *target, size_t bytes, size_t *got)
{
	*got = 0;
	enum tarn_status st =
		is_packed(stream) ? unpack_packed(stream, target, bytes, got) : copy_plain(stream, target, bytes, got);
	if (!st && stream->has_part)
		stream->crc = (uint32_t)crc32_z(stream->crc, target, *got);
	return st;
}

static enum tarn_status start_zlib(struct data_stream *stream, int window_bits)
{
	if (inflateInit2(&stream->zlib, window_bits) != Z_OK)
		return tarn_fail(TARN_ENOMEM, "%s: zlib cannot start", stream->path);
	stream->inflating = true;
	stream->member_open = true;
	return TARN_OK;
}

/* Opens the file, empty so far; `name` is for messages. */
static enum tarn_status open_file(struct data_stream *stream, const char *path, const char *name)
{
	memset(stream, 0, offsetof(struct data_stream, raw));
	stream->fd = -1;
	stream->path = name;
	enum tarn_status st = regular_file_open(path, &stream->fd, &stream->file_bytes);
	if (!st && !stream->file_bytes)
		st = tarn_fail(TARN_EFORMAT, "%s: is an empty file (0 bytes)", stream->path);
	return st;
}

static enum tarn_status fill_peek(struct data_stream *stream)
{
	return unpack(stream, stream->peek, sizeof stream->peek, &stream->peek_filled);
}

enum tarn_status stream_open(struct data_stream *stream, const char *path)
{
	enum tarn_status st = open_file(stream, path, path);
	if (!st)
		st = refill(stream);
	if (st)
		return st;
	stream->gzip = looks_like_gzip(stream);
	if (stream->gzip)
		st = start_zlib(stream, GZIP_WINDOW_BITS);
	return st ? st : fill_peek(stream);
}

enum tarn_status stream_open_part(struct data_stream *stream, const char *path, const char *name,
				  const struct stream_part *part)
{
	enum tarn_status st = open_file(stream, path, name);
	if (st)
		return st;
	stream->has_part = true;
	stream->part = *part;
	stream->file_offset = part->offset;
	if (lseek(stream->fd, (off_t)part->offset, SEEK_SET) < 0)
		return tarn_fail(TARN_EIO, "%s: cannot go to byte %llu: %s", name, (unsigned long long)part->offset,
				 strerror(errno));
	if (part->deflate)
		st = start_zlib(stream, DEFLATE_WINDOW_BITS);
	return st ? st : fill_peek(stream);
}

void stream_close(struct data_stream *stream)
{
	if (stream->inflating)
		inflateEnd(&stream->zlib);
	stream->inflating = false;
	if (stream->fd >= 0)
		close(stream->fd);
	stream->fd = -1;
}

enum tarn_status stream_read(struct data_stream *stream, void *target, size_t bytes)
{
	uint8_t *out = target;
	size_t peeked = stream->peek_filled - stream->peek_used;
	if (peeked > bytes)
		peeked = bytes;
	memcpy(out, stream->peek + stream->peek_used, peeked);
	stream->peek_used += peeked;
	size_t got;
	enum tarn_status st = unpack(stream, out + peeked, bytes - peeked, &got);
	if (st)
		return st;
	if (peeked + got < bytes)
		return tarn_fail(TARN_EFORMAT, "%s: truncated: ends after %llu bytes%s, needs %llu", stream->path,
				 (unsigned long long)(stream->position + peeked + got),
				 is_packed(stream) ? " (unpacked)" : "",
				 (unsigned long long)(stream->position + bytes));
	stream->position += bytes;
	return TARN_OK;
}

enum tarn_status stream_expect_end(struct data_stream *stream)
{
	uint8_t byte;
	size_t got = 0;
	if (stream->peek_used == stream->peek_filled) {
		enum tarn_status st = unpack(stream, &byte, 1, &got);
		if (st)
			return st;
	} else {
		got = 1;
	}
	if (got)
		return tarn_fail(TARN_EFORMAT, "%s: more bytes follow byte %llu%s, where the data should end",
				 stream->path, (unsigned long long)stream->position,
				 is_packed(stream) ? " (unpacked)" : "");
	if (stream->has_part && stream->crc != stream->part.crc)
		return tarn_fail(TARN_EFORMAT, "%s: damaged: the CRC of its bytes is %08X, the archive says %08X",
				 stream->path, stream->crc, stream->part.crc);
	return TARN_OK;
}

enum tarn_status stream_count(struct data_stream *stream, uint64_t *bytes)
{
	uint8_t chunk[4096];
	size_t got = stream->peek_filled - stream->peek_used;
	stream->peek_used = stream->peek_filled;
	do {
		stream->position += got;
		enum tarn_status st = unpack(stream, chunk, sizeof chunk, &got);
		if (st)
			return st;
	} while (got);
	*bytes = stream->position;
	return TARN_OK;
}

enum tarn_status stream_expect_room(const struct data_stream *stream, uint64_t bytes)
{
	uint64_t most = stream->file_bytes;
	if (stream->has_part)
		most = stream->part.unpacked_bytes - (stream->position < stream->part.unpacked_bytes
							      ? stream->position
							      : stream->part.unpacked_bytes);
	else if (stream->gzip)
		most = most > UINT64_MAX / LARGEST_EXPANSION ? UINT64_MAX : most * LARGEST_EXPANSION;
	else
		most -= stream->position < most ? stream->position : most;
	if (bytes <= most)
		return TARN_OK;
	return tarn_fail(TARN_EFORMAT,
			 "%s: truncated: the header at bytes 0 to %llu promises %llu bytes of data, the file of %llu "
			 "bytes cannot hold them",
			 stream->path, (unsigned long long)stream->position, (unsigned long long)bytes,
			 (unsigned long long)stream->file_bytes);
}
