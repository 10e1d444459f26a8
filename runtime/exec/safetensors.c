/* safetensors.c - see safetensors.h. */
#include "exec/safetensors.h"

#include "base/bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every dtype of the format whose elements are whole bytes, so that foreign files are checked as strictly as own ones.
 */
static const struct {
	const char *name;
	uint8_t bytes;
} dtypes[] = {
	{ "BOOL", 1 }, { "U8", 1 },  { "I8", 1 },   { "F8_E5M2", 1 }, { "F8_E4M3", 1 }, { "I16", 2 },
	{ "U16", 2 },  { "F16", 2 }, { "BF16", 2 }, { "I32", 4 },     { "U32", 4 },     { "F32", 4 },
	{ "F64", 8 },  { "I64", 8 }, { "U64", 8 },  { "C64", 8 },
};

struct json {
	char *start, *at, *end;
	const char *tensor; /* being read, for messages; NULL outside */
};

const char *safetensors_printable(const char *name, char buffer[SAFETENSORS_PRINTABLE])
{
	size_t length = strnlen(name, SAFETENSORS_PRINTABLE), room = SAFETENSORS_PRINTABLE - 4;
	size_t kept = length < SAFETENSORS_PRINTABLE ? length : room;
	for (size_t i = 0; i < kept; i++)
		buffer[i] = (unsigned char)name[i] < 0x20 || name[i] == 0x7F ? '?' : name[i];
	snprintf(buffer + kept, SAFETENSORS_PRINTABLE - kept, "%s", kept < length ? "..." : "");
	return buffer;
}

/* "header byte 17, tensor "x": `wanted`" */
static enum tarn_status complain(const struct json *json, const char *what)
{
	char name[SAFETENSORS_PRINTABLE];
	unsigned long long at = SAFETENSORS_LENGTH_BYTES + (unsigned long long)(json->at - json->start);
	if (!json->tensor)
		return tarn_fail(TARN_EFORMAT, "header, byte %llu: %s", at, what);
	return tarn_fail(TARN_EFORMAT, "tensor \"%s\" (header, byte %llu): %s",
			 safetensors_printable(json->tensor, name), at, what);
}

static void skip_blanks(struct json *json)
{
	while (json->at < json->end && strchr(" \t\r\n", *json->at) && *json->at)
		json->at++;
}

static bool take(struct json *json, char character)
{
	skip_blanks(json);
	if (json->at == json->end || *json->at != character)
		return false;
	json->at++;
	return true;
}

static enum tarn_status expect(struct json *json, char character)
{
	char text[] = "'?' expected";
	text[1] = character;
	return take(json, character) ? TARN_OK : complain(json, text);
}

/* Length of the valid UTF-8 sequence at `at` (Unicode 15, table 3-7); 0: none. */
static size_t utf8_length(const unsigned char *at, const unsigned char *end)
{
	unsigned char low = 0x80, high = 0xBF;
	size_t length;
	if (at[0] < 0x80)
		return 1;
	if (at[0] >= 0xC2 && at[0] <= 0xDF)
		length = 2;
	else if (at[0] >= 0xE0 && at[0] <= 0xEF)
		length = 3;
	else if (at[0] >= 0xF0 && at[0] <= 0xF4)
		length = 4;
	else
		return 0;
	if (at[0] == 0xE0)
		low = 0xA0;
	else if (at[0] == 0xED)
		high = 0x9F;
	else if (at[0] == 0xF0)
		low = 0x90;
	else if (at[0] == 0xF4)
		high = 0x8F;
	if ((size_t)(end - at) < length || at[1] < low || at[1] > high)
		return 0;
	for (size_t i = 2; i < length; i++)
		if (at[i] < 0x80 || at[i] > 0xBF)
			return 0;
	return length;
}

static bool take_hex(struct json *json, uint32_t *value)
{
	*value = 0;
	if (json->end - json->at < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		char c = *json->at++;
		uint32_t digit;
		if (c >= '0' && c <= '9')
			digit = (uint32_t)(c - '0');
		else if ((c | 32) >= 'a' && (c | 32) <= 'f')
			digit = (uint32_t)((c | 32) - 'a') + 10;
		else
			return false;
		*value = *value << 4 | digit;
	}
	return true;
}

static char *put_utf8(char *out, uint32_t code)
{
	if (code < 0x80) {
		*out++ = (char)code;
	} else if (code < 0x800) {
		*out++ = (char)(0xC0 | code >> 6);
		*out++ = (char)(0x80 | (code & 0x3F));
	} else if (code < 0x10000) {
		*out++ = (char)(0xE0 | code >> 12);
		*out++ = (char)(0x80 | (code >> 6 & 0x3F));
		*out++ = (char)(0x80 | (code & 0x3F));
	} else {
		*out++ = (char)(0xF0 | code >> 18);
		*out++ = (char)(0x80 | (code >> 12 & 0x3F));
		*out++ = (char)(0x80 | (code >> 6 & 0x3F));
		*out++ = (char)(0x80 | (code & 0x3F));
	}
	return out;
}

/* Behind "\u"; surrogates come in pairs (RFC 8259, section 7). */
static bool take_code_point(struct json *json, uint32_t *code)
{
	uint32_t low;
	if (!take_hex(json, code))
		return false;
	if (*code < 0xD800 || *code > 0xDFFF)
		return *code != 0;
	if (*code > 0xDBFF || json->end - json->at < 2 || json->at[0] != '\\' || json->at[1] != 'u')
		return false;
	json->at += 2;
	if (!take_hex(json, &low) || low < 0xDC00 || low > 0xDFFF)
		return false;
	*code = 0x10000 + ((*code - 0xD800) << 10) + (low - 0xDC00);
	return true;
}

/* Behind the backslash; what it stands for is never longer than the escape, so it fits in place. */
static bool take_escape(struct json *json, char **out)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	uint32_t code;
	if (json->at == json->end)
		return false;
	char c = *json->at++;
	const char *known = c ? strchr(from, c) : NULL;
	if (known) {
		*(*out)++ = to[known - from];
		return true;
	}
	if (c != 'u' || !take_code_point(json, &code))
		return false;
	*out = put_utf8(*out, code);
	return true;
}

/* A string, unescaped where it lies; the closing quote becomes its terminating zero at the latest. */
static enum tarn_status take_text(struct json *json, const char **text)
{
	if (!take(json, '"'))
		return complain(json, "a string expected");
	char *first = json->at, *out = json->at;
	while (json->at < json->end && *json->at != '"') {
		unsigned char c = (unsigned char)*json->at;
		if (c < 0x20)
			return complain(json, "control character in a string");
		if (c == '\\') {
			json->at++;
			if (!take_escape(json, &out))
				return complain(json, "bad escape in a string");
			continue;
		}
		size_t length = utf8_length((unsigned char *)json->at, (unsigned char *)json->end);
		if (!length)
			return complain(json, "invalid UTF-8");
		memmove(out, json->at, length);
		out += length;
		json->at += length;
	}
	if (json->at == json->end)
		return complain(json, "the string does not end");
	json->at++;
	*out = '\0';
	*text = first;
	return TARN_OK;
}

static enum tarn_status take_number(struct json *json, uint64_t *number)
{
	skip_blanks(json);
	const char *first = json->at;
	uint64_t value = 0;
	while (json->at < json->end && *json->at >= '0' && *json->at <= '9') {
		uint64_t digit = (uint64_t)(*json->at++ - '0');
		if (value > (UINT64_MAX - digit) / 10)
			return complain(json, "a number above 2^64 - 1");
		value = value * 10 + digit;
	}
	bool more = json->at < json->end && strchr(".eE+-", *json->at) && *json->at;
	if (json->at == first || more || (*first == '0' && json->at - first > 1))
		return complain(json, "a plain unsigned integer expected");
	*number = value;
	return TARN_OK;
}

/* "[1, 2]" of at most `most` numbers. */
static enum tarn_status take_numbers(struct json *json, uint64_t *number, uint32_t most, uint32_t *count)
{
	enum tarn_status st = expect(json, '[');
	*count = 0;
	if (st || take(json, ']'))
		return st;
	do {
		if (*count == most)
			return complain(json, "too many numbers in a list");
		st = take_number(json, &number[*count]);
		if (st)
			return st;
		++*count;
	} while (take(json, ','));
	return expect(json, ']');
}

static enum tarn_status take_offsets(struct json *json, struct safetensors_tensor *tensor)
{
	uint64_t offset[2];
	uint32_t count;
	enum tarn_status st = take_numbers(json, offset, 2, &count);
	if (st)
		return st;
	if (count != 2 || offset[0] > offset[1])
		return complain(json, "data_offsets must be [begin, end] with begin <= end");
	tensor->begin = offset[0];
	tensor->end = offset[1];
	return TARN_OK;
}

/* One of the three keys of a tensor; each bit of *seen is a key. */
static enum tarn_status take_field(struct json *json, struct safetensors_tensor *tensor, unsigned *seen)
{
	static const char *const names[] = { "dtype", "shape", "data_offsets" };
	const char *key;
	enum tarn_status st = take_text(json, &key);
	if (st)
		return st;
	unsigned field = 0;
	while (field < 3 && strcmp(key, names[field]))
		field++;
	if (field == 3)
		return complain(json, "only dtype, shape and data_offsets may stand here");
	if (*seen & 1u << field)
		return complain(json, "a key stands twice");
	*seen |= 1u << field;
	st = expect(json, ':');
	if (st)
		return st;
	if (field == 0)
		return take_text(json, &tensor->dtype);
	return field == 1 ? take_numbers(json, tensor->dim, SAFETENSORS_MAX_RANK, &tensor->rank)
			  : take_offsets(json, tensor);
}

/* The range is as long as dtype and shape say. */
static enum tarn_status check_length(const struct json *json, const struct safetensors_tensor *tensor)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
		if (!strcmp(tensor->dtype, dtypes[i].name))
			bytes = dtypes[i].bytes;
	if (!bytes)
		return complain(json, "unknown dtype");
	for (uint32_t i = 0; i < tensor->rank; i++)
		if (!bytes_mul(bytes, tensor->dim[i], &bytes))
			return complain(json, "the shape multiplies to more than 2^64 bytes");
	char text[160];
	snprintf(text, sizeof text, "shape and dtype need %llu bytes, data_offsets [%llu, %llu] give %llu",
		 (unsigned long long)bytes, (unsigned long long)tensor->begin, (unsigned long long)tensor->end,
		 (unsigned long long)(tensor->end - tensor->begin));
	return bytes == tensor->end - tensor->begin ? TARN_OK : complain(json, text);
}

static enum tarn_status take_tensor(struct json *json, const char *name, struct safetensors_tensor *tensor)
{
	unsigned seen = 0;
	memset(tensor, 0, sizeof *tensor);
	tensor->name = json->tensor = name;
	enum tarn_status st = expect(json, '{');
	if (st)
		return st;
	do {
		st = take_field(json, tensor, &seen);
		if (st)
			return st;
	} while (take(json, ','));
	st = expect(json, '}');
	if (st)
		return st;
	if (seen != 7)
		return complain(json, "dtype, shape or data_offsets is missing");
	st = check_length(json, tensor);
	json->tensor = NULL;
	return st;
}

struct growing {
	struct host_arena *arena;
	size_t tensor_capacity, metadata_capacity;
	bool metadata_seen;
};

static enum tarn_status take_metadata(struct json *json, struct safetensors *out, struct growing *growing)
{
	if (growing->metadata_seen)
		return complain(json, "\"" SAFETENSORS_METADATA "\" stands twice");
	growing->metadata_seen = true;
	enum tarn_status st = expect(json, '{');
	if (st || take(json, '}'))
		return st;
	do {
		struct safetensors_text pair = { NULL, NULL };
		st = take_text(json, &pair.key);
		if (!st)
			st = expect(json, ':');
		if (!st)
			st = take_text(json, &pair.value);
		if (st)
			return st;
		struct safetensors_text *grown =
			host_arena_grow(growing->arena, out->metadata, &growing->metadata_capacity,
					out->metadata_pairs + 1, sizeof *grown);
		if (!grown)
			return TARN_ENOMEM;
		out->metadata = grown;
		out->metadata[out->metadata_pairs++] = pair;
	} while (take(json, ','));
	return expect(json, '}');
}

static enum tarn_status take_entry(struct json *json, struct safetensors *out, struct growing *growing)
{
	const char *name = "";
	enum tarn_status st = take_text(json, &name);
	if (!st)
		st = expect(json, ':');
	if (st)
		return st;
	if (!strcmp(name, SAFETENSORS_METADATA))
		return take_metadata(json, out, growing);
	struct safetensors_tensor *grown = host_arena_grow(growing->arena, out->tensor, &growing->tensor_capacity,
							   out->tensors + 1, sizeof *grown);
	if (!grown)
		return TARN_ENOMEM;
	out->tensor = grown;
	return take_tensor(json, name, &out->tensor[out->tensors++]);
}

static int by_offset(const void *a, const void *b)
{
	const struct safetensors_tensor *x = a, *y = b;
	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return (x->end > y->end) - (x->end < y->end);
}

static int by_name(const void *a, const void *b)
{
	const struct safetensors_tensor *x = a, *y = b;
	return strcmp(x->name, y->name);
}

static int by_key(const void *a, const void *b)
{
	const struct safetensors_text *x = a, *y = b;
	return strcmp(x->key, y->key);
}

static enum tarn_status check_tiling(struct safetensors *out, uint64_t data_bytes)
{
	char name[SAFETENSORS_PRINTABLE];
	uint64_t next = 0;
	if (out->tensors)
		qsort(out->tensor, out->tensors, sizeof *out->tensor, by_offset);
	for (size_t i = 0; i < out->tensors; i++) {
		const struct safetensors_tensor *tensor = &out->tensor[i];
		safetensors_printable(tensor->name, name);
		if (tensor->end > data_bytes)
			return tarn_fail(
				TARN_EFORMAT,
				"tensor \"%s\": data_offsets [%llu, %llu] end behind the file's %llu bytes of data",
				name, (unsigned long long)tensor->begin, (unsigned long long)tensor->end,
				(unsigned long long)data_bytes);
		if (tensor->begin != next)
			return tarn_fail(TARN_EFORMAT,
					 "tensor \"%s\": data_offsets [%llu, %llu] %s: it should begin at %llu", name,
					 (unsigned long long)tensor->begin, (unsigned long long)tensor->end,
					 tensor->begin < next ? "overlap another tensor" : "leave a hole",
					 (unsigned long long)next);
		next = tensor->end;
	}
	if (next != data_bytes)
		return tarn_fail(TARN_EFORMAT, "%llu bytes of data follow the last tensor, which ends at %llu",
				 (unsigned long long)(data_bytes - next), (unsigned long long)next);
	return TARN_OK;
}

static enum tarn_status check_unique(struct safetensors *out)
{
	char name[SAFETENSORS_PRINTABLE];
	if (out->tensors)
		qsort(out->tensor, out->tensors, sizeof *out->tensor, by_name);
	for (size_t i = 1; i < out->tensors; i++)
		if (!strcmp(out->tensor[i - 1].name, out->tensor[i].name))
			return tarn_fail(TARN_EFORMAT, "tensor \"%s\" stands twice",
					 safetensors_printable(out->tensor[i].name, name));
	if (out->metadata_pairs)
		qsort(out->metadata, out->metadata_pairs, sizeof *out->metadata, by_key);
	for (size_t i = 1; i < out->metadata_pairs; i++)
		if (!strcmp(out->metadata[i - 1].key, out->metadata[i].key))
			return tarn_fail(TARN_EFORMAT, "metadata \"%s\" stands twice",
					 safetensors_printable(out->metadata[i].key, name));
	return TARN_OK;
}

enum tarn_status safetensors_parse(char *header, size_t bytes, uint64_t data_bytes, struct host_arena *arena,
				   struct safetensors *out)
{
	struct json json = { header, header, header + bytes, NULL };
	struct growing growing = { .arena = arena };
	memset(out, 0, sizeof *out);
	if (!bytes || *header != '{')
		return complain(&json, "the header must begin with '{'");
	json.at++;
	enum tarn_status st = TARN_OK;
	if (!take(&json, '}')) {
		do
			st = take_entry(&json, out, &growing);
		while (!st && take(&json, ','));
		if (!st)
			st = expect(&json, '}');
	}
	if (st)
		return st;
	skip_blanks(&json);
	if (json.at != json.end)
		return complain(&json, "nothing but blanks may follow the object");
	st = check_tiling(out, data_bytes);
	return st ? st : check_unique(out);
}

const char *safetensors_metadata(const struct safetensors *file, const char *key)
{
	struct safetensors_text wanted = { key, NULL };
	const struct safetensors_text *found =
		file->metadata_pairs ? bsearch(&wanted, file->metadata, file->metadata_pairs, sizeof wanted, by_key)
				     : NULL;
	return found ? found->value : NULL;
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name)
{
	struct safetensors_tensor wanted = { .name = name };
	return file->tensors ? bsearch(&wanted, file->tensor, file->tensors, sizeof wanted, by_name) : NULL;
}

/* Bytes that are no UTF-8 become '?', so that what was written can be read. */
size_t safetensors_quote(char *out, const char *text)
{
	static const char hex[] = "0123456789abcdef";
	const unsigned char *at = (const unsigned char *)text, *end = at + strlen(text);
	char *first = out;
	*out++ = '"';
	while (at < end) {
		size_t length = utf8_length(at, end);
		if (*at < 0x20) {
			memcpy(out, "\\u00", 4);
			out[4] = hex[*at >> 4];
			out[5] = hex[*at & 15];
			out += 6;
		} else if (!length) {
			*out++ = '?';
		} else {
			if (*at == '"' || *at == '\\')
				*out++ = '\\';
			memcpy(out, at, length);
			out += length;
		}
		at += length ? length : 1;
	}
	*out++ = '"';
	return (size_t)(out - first);
}

void safetensors_make_valid(char *text)
{
	unsigned char *at = (unsigned char *)text, *end = at + strlen(text);
	while (at < end) {
		size_t length = utf8_length(at, end);
		if (!length)
			*at = '?';
		at += length ? length : 1;
	}
}
