/* array.c - IDX and npy headers, checked field by field. */
#include "data/array.h"

#include "base/bytes.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define IDX_MAGIC_BYTES ((size_t)4)
#define IDX_U8 0x08
#define IDX_F32 0x0D
#define NPY_MAGIC "\x93NUMPY"
#define NPY_MAGIC_BYTES ((size_t)6)
#define NPY_PREFIX_BYTES ((size_t)12)

static const struct {
	const char *name; /* descr of npy */
	uint8_t bytes;
} types[] = {
	[ARRAY_U8] = { "|u1", 1 },  [ARRAY_I8] = { "|i1", 1 },  [ARRAY_U16] = { "<u2", 2 }, [ARRAY_I16] = { "<i2", 2 },
	[ARRAY_U32] = { "<u4", 4 }, [ARRAY_I32] = { "<i4", 4 }, [ARRAY_U64] = { "<u8", 8 }, [ARRAY_I64] = { "<i8", 8 },
	[ARRAY_F32] = { "<f4", 4 }, [ARRAY_OTHER] = { "", 1 },
};
size_t array_type_bytes(uint32_t type)
{
	return types[type].bytes;
}

/* Sets header->bytes; refuses dimensions of 0 and products that no file can hold. */
static enum tarn_status measure(struct array_header *header)
{
	uint64_t bytes = types[header->type].bytes;
	for (uint32_t i = 0; i < header->rank; i++) {
		if (!header->dim[i])
			return tarn_fail(TARN_EFORMAT, "holds 0 items (dimension %u of %u is 0); at least 1 is needed",
					 i + 1, header->rank);
		if (!bytes_mul(bytes, header->dim[i], &bytes) || bytes > INT64_MAX)
			return tarn_fail(TARN_EFORMAT, "the dimensions in the header multiply to more than 2^63 bytes");
	}
	header->bytes = bytes;
	return TARN_OK;
}

enum tarn_status idx_header_bytes(const uint8_t *head, size_t bytes, size_t *header_bytes)
{
	if (bytes < IDX_MAGIC_BYTES)
		return tarn_fail(TARN_EFORMAT, "truncated: an IDX header has at least 4 bytes, the file has %zu",
				 bytes);
	if (head[0] || head[1])
		return tarn_fail(TARN_EFORMAT,
				 "not an IDX file: it starts with bytes %02X %02X %02X %02X instead of 00 00 08 RANK",
				 head[0], head[1], head[2], head[3]);
	if (head[2] != IDX_U8 && head[2] != IDX_F32)
		return tarn_fail(TARN_EUNSUPPORTED,
				 "unsupported: IDX type 0x%02X (byte 2); bytes (0x08) and floats (0x0D) are read",
				 head[2]);
	if (!head[3] || head[3] > ARRAY_MAX_RANK)
		return tarn_fail(TARN_EFORMAT, "IDX rank %u (byte 3); 1 to %d are read", head[3], ARRAY_MAX_RANK);
	*header_bytes = IDX_MAGIC_BYTES + 4 * (size_t)head[3];
	return TARN_OK;
}

enum tarn_status idx_parse(const uint8_t *head, size_t bytes, struct array_header *header)
{
	size_t needed;
	enum tarn_status st = idx_header_bytes(head, bytes, &needed);
	if (st)
		return st;
	if (bytes < needed)
		return tarn_fail(TARN_EFORMAT, "truncated: the IDX header has %zu bytes, the file has %zu", needed,
				 bytes);
	memset(header, 0, sizeof *header);
	header->type = head[2] == IDX_U8 ? ARRAY_U8 : ARRAY_F32;
	snprintf(header->name, sizeof header->name, "IDX type 0x%02X", head[2]);
	header->big_endian = head[2] == IDX_F32;
	header->rank = head[3];
	for (uint32_t i = 0; i < header->rank; i++) {
		const uint8_t *d = head + IDX_MAGIC_BYTES + 4 * (size_t)i;
		header->dim[i] = (uint32_t)d[0] << 24 | (uint32_t)d[1] << 16 | (uint32_t)d[2] << 8 | d[3];
	}
	return measure(header);
}

enum tarn_status npy_header_bytes(const uint8_t *head, size_t bytes, size_t *header_bytes)
{
	if (bytes < NPY_PREFIX_BYTES)
		return tarn_fail(TARN_EFORMAT, "truncated: an npy header has at least 12 bytes, the file has %zu",
				 bytes);
	if (memcmp(head, NPY_MAGIC, NPY_MAGIC_BYTES))
		return tarn_fail(TARN_EFORMAT,
				 "not an npy file: it starts with bytes %02X %02X %02X %02X instead of 93 'N' 'U' 'M'",
				 head[0], head[1], head[2], head[3]);
	if (head[6] < 1 || head[6] > 3 || head[7])
		return tarn_fail(TARN_EUNSUPPORTED, "unsupported: npy version %u.%u; 1.0, 2.0 and 3.0 are read",
				 head[6], head[7]);
	size_t length = (size_t)head[8] | (size_t)head[9] << 8, prefix = 10;
	if (head[6] > 1) {
		length |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
		prefix = NPY_PREFIX_BYTES;
	}
	if (length < 2 || length > ARRAY_MAX_HEADER - prefix)
		return tarn_fail(TARN_EFORMAT, "npy header of %zu bytes (byte 8); 2 to %zu are read", length,
				 ARRAY_MAX_HEADER - prefix);
	*header_bytes = prefix + length;
	return TARN_OK;
}

/* The text of the dictionary, without a terminating zero. */
struct cursor {
	const char *start, *at, *end;
};

static void skip_blanks(struct cursor *c)
{
	while (c->at < c->end && (*c->at == ' ' || *c->at == '\t'))
		c->at++;
}

static enum tarn_status unexpected(const struct cursor *c, const char *wanted)
{
	return tarn_fail(TARN_EFORMAT, "npy header: character %zu: %s expected", (size_t)(c->at - c->start) + 1,
			 wanted);
}

static bool take(struct cursor *c, char character)
{
	skip_blanks(c);
	if (c->at == c->end || *c->at != character)
		return false;
	c->at++;
	return true;
}

static bool take_word(struct cursor *c, const char *word)
{
	size_t length = strlen(word);
	skip_blanks(c);
	if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length))
		return false;
	c->at += length;
	return true;
}

/* A short Python string without escapes. */
static enum tarn_status take_string(struct cursor *c, char *text, size_t size)
{
	skip_blanks(c);
	if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
		return unexpected(c, "a quoted string");
	char quote = *c->at++;
	size_t length = 0;
	while (c->at < c->end && *c->at != quote) {
		if (!isprint((unsigned char)*c->at) || *c->at == '\\' || length + 1 >= size)
			return unexpected(c, "the end of a short plain string");
		text[length++] = *c->at++;
	}
	if (c->at == c->end)
		return unexpected(c, "the closing quote");
	c->at++;
	text[length] = '\0';
	return TARN_OK;
}

static enum tarn_status parse_descr(struct cursor *c, struct array_header *header)
{
	skip_blanks(c);
	if (c->at < c->end && *c->at == '[')
		return tarn_fail(TARN_EUNSUPPORTED, "unsupported: structured dtype; save one plain array a file");
	enum tarn_status st = take_string(c, header->name, sizeof header->name);
	if (st)
		return st;
	header->type = 0;
	while (header->type < ARRAY_OTHER && strcmp(header->name, types[header->type].name))
		header->type++;
	return TARN_OK;
}

static enum tarn_status parse_order(struct cursor *c)
{
	if (take_word(c, "False"))
		return TARN_OK;
	if (take_word(c, "True"))
		return tarn_fail(TARN_EUNSUPPORTED,
				 "unsupported: Fortran order (numpy.ascontiguousarray gives C order)");
	return unexpected(c, "True or False");
}

static enum tarn_status parse_dimension(struct cursor *c, uint32_t *dim)
{
	skip_blanks(c);
	uint64_t value = 0;
	const char *first = c->at;
	while (c->at < c->end && isdigit((unsigned char)*c->at)) {
		value = value * 10 + (uint64_t)(*c->at++ - '0');
		if (value > UINT32_MAX)
			return tarn_fail(TARN_EFORMAT, "npy header: a dimension is larger than 2^32 - 1");
	}
	if (c->at == first || (*first == '0' && c->at - first > 1))
		return unexpected(c, "a dimension");
	*dim = (uint32_t)value;
	return TARN_OK;
}

static enum tarn_status parse_shape(struct cursor *c, struct array_header *header)
{
	if (!take(c, '('))
		return unexpected(c, "'('");
	if (take(c, ')'))
		return TARN_OK;
	for (bool comma = false;; comma = true) {
		if (take(c, ')')) {
			/* "(3)" is a number in Python, "(3,)" a tuple. */
			return comma ? TARN_OK : unexpected(c, "','");
		}
		if (header->rank == ARRAY_MAX_RANK)
			return tarn_fail(TARN_EUNSUPPORTED, "unsupported: more than %d dimensions", ARRAY_MAX_RANK);
		enum tarn_status st = parse_dimension(c, &header->dim[header->rank]);
		if (st)
			return st;
		header->rank++;
		if (take(c, ','))
			continue;
		if (header->rank > 1 && take(c, ')'))
			return TARN_OK;
		return unexpected(c, "','");
	}
}

enum npy_key { KEY_DESCR, KEY_ORDER, KEY_SHAPE, KEYS };

static enum tarn_status parse_pair(struct cursor *c, struct array_header *header, unsigned *seen)
{
	static const char *const names[KEYS] = { "descr", "fortran_order", "shape" };
	char text[16];
	enum tarn_status st = take_string(c, text, sizeof text);
	if (st)
		return st;
	unsigned key = 0;
	while (key < KEYS && strcmp(text, names[key]))
		key++;
	if (key == KEYS)
		return tarn_fail(TARN_EFORMAT,
				 "npy header: key '%s'; only descr, fortran_order and shape may stand here", text);
	if (*seen & 1u << key)
		return tarn_fail(TARN_EFORMAT, "npy header: key '%s' stands twice", text);
	*seen |= 1u << key;
	if (!take(c, ':'))
		return unexpected(c, "':'");
	if (key == KEY_DESCR)
		return parse_descr(c, header);
	return key == KEY_ORDER ? parse_order(c) : parse_shape(c, header);
}

enum tarn_status npy_parse_any(const uint8_t *head, size_t bytes, struct array_header *header)
{
	size_t needed;
	enum tarn_status st = npy_header_bytes(head, bytes, &needed);
	if (st)
		return st;
	if (bytes < needed)
		return tarn_fail(TARN_EFORMAT, "truncated: the npy header has %zu bytes, the file has %zu", needed,
				 bytes);
	memset(header, 0, sizeof *header);
	const char *text = (const char *)head + (head[6] > 1 ? 12 : 10);
	struct cursor c = { text, text, (const char *)head + needed };
	if (*--c.end != '\n')
		return tarn_fail(TARN_EFORMAT, "npy header: does not end with a newline");
	unsigned seen = 0;
	if (!take(&c, '{'))
		return unexpected(&c, "'{'");
	while (!take(&c, '}')) {
		st = parse_pair(&c, header, &seen);
		if (st)
			return st;
		if (take(&c, ','))
			continue;
		if (!take(&c, '}'))
			return unexpected(&c, "',' or '}'");
		break;
	}
	skip_blanks(&c);
	if (c.at != c.end)
		return unexpected(&c, "the end");
	if (seen != (1u << KEYS) - 1)
		return tarn_fail(TARN_EFORMAT, "npy header: descr, fortran_order or shape is missing");
	return measure(header);
}

enum tarn_status npy_parse(const uint8_t *head, size_t bytes, struct array_header *header)
{
	enum tarn_status st = npy_parse_any(head, bytes, header);
	if (!st && !header->rank)
		st = tarn_fail(TARN_EUNSUPPORTED, "unsupported: a 0-d array (a single number)");
	return st;
}

/* What a file is that is not what was asked for; NULL when it is not known. */
static const char *foreign_kind(const uint8_t *head, size_t bytes)
{
	static const struct {
		const char *magic, *kind;
		uint8_t length;
	} known[] = {
		{ NPY_MAGIC, "an npy file (data.type: npy reads it)", 6 },
		{ "PK\3\4", "a zip archive (data.type: npz reads arrays in one)", 4 },
		{ "version https://git-lfs", "a Git LFS pointer, not the data; fetch them with `git lfs pull`", 23 },
		{ "\x1F\x8B", "gzip inside gzip; unpack it once", 2 },
		{ "BZh", "a bzip2 file; unpack it first", 3 },
		{ "\xFD"
		  "7zXZ",
		  "an xz file; unpack it first", 5 },
		{ "\0\0\x08", "an IDX file (data.type: idx reads it)", 3 },
	};
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (bytes >= known[i].length && !memcmp(head, known[i].magic, known[i].length))
			return known[i].kind;
	return NULL;
}

static bool is_html(const uint8_t *head, size_t bytes)
{
	size_t at = bytes >= 3 && !memcmp(head, "\xEF\xBB\xBF", 3) ? 3 : 0;
	while (at < bytes && isspace(head[at]))
		at++;
	return at < bytes && head[at] == '<';
}

static enum tarn_status refuse_foreign(const struct data_stream *stream, bool npy)
{
	const uint8_t *head = stream->peek;
	size_t bytes = stream->peek_filled;
	const char *wanted = npy ? "an npy file" : "an IDX file";
	if (!bytes)
		return tarn_fail(TARN_EFORMAT, "%s: is empty once unpacked, not %s", stream->path, wanted);
	if (is_html(head, bytes))
		return tarn_fail(TARN_EFORMAT, "%s: is an HTML page, not %s; was the download refused?", stream->path,
				 wanted);
	bool matches = npy ? bytes >= 6 && !memcmp(head, NPY_MAGIC, 6) : bytes >= 3 && !memcmp(head, "\0\0\x08", 3);
	const char *kind = matches ? NULL : foreign_kind(head, bytes);
	return kind ? tarn_fail(TARN_EFORMAT, "%s: not %s but %s", stream->path, wanted, kind) : TARN_OK;
}

enum tarn_status array_open(struct data_stream *stream, const struct array_file *file, struct array_header *header)
{
	uint8_t head[ARRAY_MAX_HEADER];
	size_t bytes = 0;
	enum tarn_status st = file->is_member ? stream_open_part(stream, file->path, file->name, &file->part)
					      : stream_open(stream, file->path);
	if (!st)
		st = refuse_foreign(stream, file->npy);
	if (st)
		return st;
	st = file->npy ? npy_header_bytes(stream->peek, stream->peek_filled, &bytes)
		       : idx_header_bytes(stream->peek, stream->peek_filled, &bytes);
	if (st)
		return tarn_fail_prefix(st, "%s", file->name);
	st = stream_read(stream, head, bytes);
	if (st)
		return st;
	st = file->npy ? npy_parse(head, bytes, header) : idx_parse(head, bytes, header);
	return st ? tarn_fail_prefix(st, "%s", file->name) : stream_expect_room(stream, header->bytes);
}
