/* weights_write.c - see weights_write.h. */
#include "weights/weights_write.h"

#include "base/atomic_file.h"
#include "models/exchange.h"
#include "weights/weights_file.h"
#include "weights/weights_load.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Upper bounds of the texts around a name. */
#define ENTRY_TEXT_BYTES ((size_t)512)
/* NEP 1 wants the header's end at a multiple of 64. */
#define NPY_HEADER_BYTES ((size_t)256)
#define ZIP_LOCAL_BYTES 30u
#define ZIP_ENTRY_BYTES 46u
#define ZIP_END_BYTES 22u
#define ZIP_LARGEST ((uint64_t)UINT32_MAX - 1)

/* A tensor as it is written. */
struct item {
	const char *name;
	const struct weights_tensor *from; /* NULL: zeros */
	bool transposed, counter;
	uint64_t dim[SAFETENSORS_MAX_RANK + 2];
	uint32_t rank;
	uint64_t bytes;
	uint64_t place; /* npz: of the member */
	uint32_t crc;
};

struct writer {
	struct host_arena arena;
	struct weights_file file;
	struct exchange exchange;
	struct item *item; /* counters first, so that every tensor is aligned in the file */
	uint32_t items;
	struct atomic_file out;
	uint64_t written; /* bytes so far */
	bool averages;
};

static bool begins_with(const char *text, const char *start)
{
	return !strncmp(text, start, strlen(start));
}

/* The average of a weight where there is one. */
static const struct weights_tensor *source_of(struct writer *writer, const char *own)
{
	struct host_mark mark = host_arena_mark(&writer->arena);
	char *name = host_arena_printf(&writer->arena, AVERAGE_PREFIX "%s", own);
	const struct weights_tensor *found = name ? weights_file_find(&writer->file, name) : NULL;
	host_arena_release(&writer->arena, mark);
	writer->averages = writer->averages || found;
	return found ? found : weights_file_find(&writer->file, own);
}

static void describe(struct writer *writer, const struct exchange_entry *entry, struct item *item)
{
	const struct weights_tensor *from = source_of(writer, entry->own);
	*item = (struct item){ .name = entry->foreign,
			       .from = entry->kind == EXCHANGE_BIAS ? NULL : from,
			       .transposed = entry->kind == EXCHANGE_TRANSPOSED && from->rank == 2,
			       .counter = !strcmp(from->dtype, "U64"),
			       .bytes = from->bytes };
	for (uint32_t i = 0; i < entry->ones && i < 2; i++)
		item->dim[item->rank++] = 1;
	for (uint32_t i = 0; i < from->rank && !item->counter; i++)
		item->dim[item->rank++] = from->dim[item->transposed ? from->rank - 1 - i : i];
}

static enum tarn_status collect(struct writer *writer, const char *map)
{
	const struct weights_file *file = &writer->file;
	const char **name = HOST_ARRAY(&writer->arena, file->tensors + 1u, const char *), *text = NULL;
	uint32_t count = 0;
	if (!name)
		return TARN_ENOMEM;
	for (uint32_t i = 0; i < file->tensors; i++)
		if (!begins_with(file->tensor[i].name, "optimizer/") &&
		    !begins_with(file->tensor[i].name, AVERAGE_PREFIX))
			name[count++] = file->tensor[i].name;
	enum tarn_status st = map ? weights_read_text(map, &writer->arena, &text) : TARN_OK;
	if (!st)
		st = exchange_build(name, count, text, &writer->arena, &writer->exchange);
	if (st)
		return map ? tarn_fail_prefix(st, "%s", map) : st;
	writer->item = HOST_ARRAY(&writer->arena, writer->exchange.entries + 1u, struct item);
	if (!writer->item)
		return TARN_ENOMEM;
	for (int counters = 1; counters >= 0; counters--)
		for (uint32_t i = 0; i < writer->exchange.entries; i++) {
			struct item *item = &writer->item[writer->items];
			describe(writer, &writer->exchange.entry[i], item);
			writer->items += item->counter == (bool)counters;
		}
	return TARN_OK;
}

/* Two tensors of one name would be one in the file. */
static enum tarn_status check_names(const struct writer *writer)
{
	for (uint32_t i = 0; i < writer->items; i++)
		for (uint32_t k = 0; k < i; k++)
			if (!strcmp(writer->item[i].name, writer->item[k].name))
				return tarn_fail(TARN_EINVAL,
						 "two tensors would be called %s; give them names with --map",
						 writer->item[i].name);
	return TARN_OK;
}

static enum tarn_status put(struct writer *writer, const void *data, size_t bytes)
{
	writer->written += bytes;
	return atomic_file_write(&writer->out, data, bytes);
}

/* The item's elements in their order in the file, in the arena. */
static enum tarn_status load_item(struct writer *writer, const struct item *item, void **out)
{
	float *values = host_arena_alloc(&writer->arena, item->bytes + 1, 1), *turned;
	*out = values;
	if (!values)
		return TARN_ENOMEM;
	if (!item->from)
		return TARN_OK;
	if (item->counter)
		return weights_file_read_count(&writer->file, item->from, (uint64_t *)(void *)values);
	enum tarn_status st = weights_file_read(&writer->file, item->from, &writer->arena, values);
	if (st || !item->transposed)
		return st;
	turned = host_arena_alloc(&writer->arena, item->bytes + 1, 1);
	if (!turned)
		return TARN_ENOMEM;
	const uint64_t rows = item->dim[1], columns = item->dim[0];
	for (uint64_t r = 0; r < rows; r++)
		for (uint64_t c = 0; c < columns; c++)
			turned[c * rows + r] = values[r * columns + c];
	*out = turned;
	return TARN_OK;
}

/* ---- safetensors ---- */

static enum tarn_status write_safetensors_header(struct writer *writer)
{
	size_t room = ENTRY_TEXT_BYTES;
	uint64_t begin = 0;
	for (uint32_t i = 0; i < writer->items; i++)
		room += ENTRY_TEXT_BYTES + 6 * strlen(writer->item[i].name);
	char *header = HOST_ARRAY(&writer->arena, room, char);
	if (!header)
		return TARN_ENOMEM;
	/* The format's own writers say so, and some readers ask. */
	size_t used = (size_t)snprintf(header, room, "{\"" SAFETENSORS_METADATA "\":{\"format\":\"pt\"}");
	for (uint32_t i = 0; i < writer->items; i++) {
		const struct item *item = &writer->item[i];
		header[used++] = ',';
		used += safetensors_quote(header + used, item->name);
		used += (size_t)snprintf(header + used, room - used, ":{\"dtype\":\"%s\",\"shape\":[",
					 item->counter ? "I64" : "F32");
		for (uint32_t d = 0; d < item->rank; d++)
			used += (size_t)snprintf(header + used, room - used, "%s%" PRIu64, d ? "," : "", item->dim[d]);
		used += (size_t)snprintf(header + used, room - used, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
					 begin, begin + item->bytes);
		begin += item->bytes;
	}
	header[used++] = '}';
	while (used % 8)
		header[used++] = ' ';
	const uint64_t length = used;
	enum tarn_status st = put(writer, &length, sizeof length);
	return st ? st : put(writer, header, used);
}

static enum tarn_status write_safetensors(struct writer *writer)
{
	enum tarn_status st = write_safetensors_header(writer);
	for (uint32_t i = 0; i < writer->items && !st; i++) {
		struct host_mark mark = host_arena_mark(&writer->arena);
		void *values;
		st = load_item(writer, &writer->item[i], &values);
		if (!st)
			st = put(writer, values, writer->item[i].bytes);
		host_arena_release(&writer->arena, mark);
	}
	return st;
}

/* ---- npz: APPNOTE.TXT 4.3.7, 4.3.12, 4.3.16; method 0 ---- */

static uint8_t *put_u16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)value;
	at[1] = (uint8_t)(value >> 8);
	return at + 2;
}

static uint8_t *put_u32(uint8_t *at, uint64_t value)
{
	return put_u16(put_u16(at, (uint32_t)value & 0xFFFF), (uint32_t)(value >> 16) & 0xFFFF);
}

/* What the local header and the directory say alike, from "version needed" to "length of the extra field". */
static uint8_t *put_common(uint8_t *at, const struct item *item)
{
	const uint64_t bytes = NPY_HEADER_BYTES + item->bytes;
	at = put_u16(at, 20);
	at = put_u16(at, 1 << 11); /* names are UTF-8 */
	at = put_u16(at, 0);
	at = put_u32(at, 0x00210000); /* 1 January 1980: files of the same weights are the same */
	at = put_u32(at, item->crc);
	at = put_u32(at, bytes);
	at = put_u32(at, bytes);
	at = put_u16(at, (uint32_t)strlen(item->name) + 4);
	return put_u16(at, 0);
}

static void npy_header(const struct item *item, char head[NPY_HEADER_BYTES])
{
	memset(head, ' ', NPY_HEADER_BYTES);
	memcpy(head, "\x93NUMPY\x01\x00", 8);
	put_u16((uint8_t *)head + 8, (uint32_t)NPY_HEADER_BYTES - 10);
	int used = 10 + snprintf(head + 10, NPY_HEADER_BYTES - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (",
				 item->counter ? "<i8" : "<f4");
	for (uint32_t d = 0; d < item->rank; d++)
		used += snprintf(head + used, NPY_HEADER_BYTES - (size_t)used, "%" PRIu64 ", ", item->dim[d]);
	used += snprintf(head + used, NPY_HEADER_BYTES - (size_t)used, "), }");
	head[used] = ' ';
	head[NPY_HEADER_BYTES - 1] = '\n';
}

static enum tarn_status write_member(struct writer *writer, struct item *item)
{
	char head[NPY_HEADER_BYTES];
	uint8_t local[ZIP_LOCAL_BYTES];
	void *values;
	enum tarn_status st = load_item(writer, item, &values);
	if (st)
		return st;
	npy_header(item, head);
	uLong crc = crc32_z(0, (const Bytef *)head, sizeof head);
	item->crc = (uint32_t)crc32_z(crc, values, item->bytes);
	item->place = writer->written;
	put_common(put_u32(local, 0x04034B50), item);
	st = put(writer, local, sizeof local);
	if (!st)
		st = put(writer, item->name, strlen(item->name));
	if (!st)
		st = put(writer, ".npy", 4);
	if (!st)
		st = put(writer, head, sizeof head);
	return st ? st : put(writer, values, item->bytes);
}

static enum tarn_status write_directory(struct writer *writer)
{
	uint8_t line[ZIP_ENTRY_BYTES], end[ZIP_END_BYTES] = { 0 };
	const uint64_t start = writer->written;
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 0; i < writer->items && !st; i++) {
		memset(line, 0, sizeof line);
		put_common(put_u16(put_u32(line, 0x02014B50), 20), &writer->item[i]);
		put_u32(line + 42, writer->item[i].place);
		st = put(writer, line, sizeof line);
		if (!st)
			st = put(writer, writer->item[i].name, strlen(writer->item[i].name));
		if (!st)
			st = put(writer, ".npy", 4);
	}
	put_u32(end, 0x06054B50);
	put_u16(put_u16(end + 8, writer->items), writer->items);
	put_u32(put_u32(end + 12, writer->written - start), start);
	return st ? st : put(writer, end, sizeof end);
}

static enum tarn_status write_archive(struct writer *writer)
{
	uint64_t bytes = ZIP_END_BYTES;
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 0; i < writer->items; i++)
		bytes += writer->item[i].bytes + NPY_HEADER_BYTES + ZIP_LOCAL_BYTES + ZIP_ENTRY_BYTES +
			 2 * (strlen(writer->item[i].name) + 4);
	if (bytes > ZIP_LARGEST || writer->items >= UINT16_MAX)
		return tarn_fail(TARN_EUNSUPPORTED,
				 "%" PRIu64 " bytes in %" PRIu32
				 " tensors are more than an npz file holds here, 4 GiB in 65534; write .safetensors",
				 bytes, writer->items);
	for (uint32_t i = 0; i < writer->items && !st; i++) {
		struct host_mark mark = host_arena_mark(&writer->arena);
		st = write_member(writer, &writer->item[i]);
		host_arena_release(&writer->arena, mark);
	}
	return st ? st : write_directory(writer);
}

static enum tarn_status write_file(struct writer *writer, const char *path)
{
	const size_t length = strlen(path);
	const bool npz = length > 4 && !strcmp(path + length - 4, ".npz");
	enum tarn_status st = atomic_file_open(&writer->out, path);
	if (!st)
		st = npz ? write_archive(writer) : write_safetensors(writer);
	if (!st)
		st = atomic_file_commit(&writer->out, NULL);
	atomic_file_abandon(&writer->out);
	return st;
}

enum tarn_status weights_write(const char *snapshot, const char *path, const char *map, struct weights_written *written)
{
	struct writer writer = { .out = { .fd = -1 } };
	host_arena_init(&writer.arena);
	enum tarn_status st = weights_file_open(snapshot, &writer.arena, &writer.file);
	if (!st && !writer.file.snapshot)
		st = tarn_fail(TARN_EFORMAT, "%s: is not a snapshot of a run; only those are exported", snapshot);
	if (!st)
		st = collect(&writer, map);
	if (!st)
		st = check_names(&writer);
	if (!st)
		st = write_file(&writer, path);
	if (!st) {
		*written = (struct weights_written){ .tensors = writer.items,
						     .bytes = writer.written,
						     .averages = writer.averages };
		snprintf(written->family, sizeof written->family, "%s", writer.exchange.family);
	}
	weights_file_close(&writer.file);
	host_arena_fini(&writer.arena);
	return st;
}
