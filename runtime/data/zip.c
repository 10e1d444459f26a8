/* zip.c - see zip.h. */
#include "data/zip.h"

#include "base/regular_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define END_BYTES ((size_t)22)
#define END_SIGNATURE 0x06054B50u
#define LOCATOR_BYTES ((size_t)20)
#define LOCATOR_SIGNATURE 0x07064B50u
#define ENTRY_BYTES ((size_t)46)
#define ENTRY_SIGNATURE 0x02014B50u
#define LOCAL_BYTES ((size_t)30)
#define LOCAL_SIGNATURE 0x04034B50u
/* The end may be followed by a comment of this many bytes. */
#define MAX_COMMENT ((size_t)65535)
#define FLAG_ENCRYPTED 1u
#define METHOD_STORED 0u
#define METHOD_DEFLATED 8u
/* As in stream.c: no deflate code stands for more. */
#define LARGEST_EXPANSION 1032u

struct archive {
	const char *path;
	int fd;
	uint64_t file_bytes;
	uint64_t directory_offset, directory_bytes;
	uint32_t members;
};

/* One line of the directory. */
struct entry {
	const uint8_t *name;
	uint32_t name_bytes;
	uint32_t flags, method, crc;
	uint64_t packed_bytes, bytes, offset;
};

static uint32_t u16_at(const uint8_t *at)
{
	return (uint32_t)at[0] | (uint32_t)at[1] << 8;
}

static uint32_t u32_at(const uint8_t *at)
{
	return u16_at(at) | u16_at(at + 2) << 16;
}

static enum tarn_status read_at(const struct archive *archive, uint64_t offset, uint8_t *out, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t got = pread(archive->fd, out + done, bytes - done, (off_t)(offset + done));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return tarn_fail(TARN_EIO, "%s: cannot read at byte %llu: %s", archive->path,
					 (unsigned long long)(offset + done), got ? strerror(errno) : "it ends there");
		done += (size_t)got;
	}
	return TARN_OK;
}

static enum tarn_status refuse_zip64(const struct archive *archive)
{
	return tarn_fail(
		TARN_EUNSUPPORTED,
		"%s: unsupported: a 64-bit zip directory; archives below 4 GiB are read (save larger arrays as "
		"npy files)",
		archive->path);
}

/* `end` points at the record that ends an archive, at byte `offset` of the file. */
static enum tarn_status parse_end(struct archive *archive, const uint8_t *end, uint64_t offset)
{
	uint32_t members = u16_at(end + 10), bytes = u32_at(end + 12), start = u32_at(end + 16);
	if (members == UINT16_MAX || bytes == UINT32_MAX || start == UINT32_MAX)
		return refuse_zip64(archive);
	if (u16_at(end + 4) || u16_at(end + 6) || u16_at(end + 8) != members)
		return tarn_fail(TARN_EUNSUPPORTED, "%s: unsupported: a zip archive in several parts", archive->path);
	if ((uint64_t)start + bytes > offset)
		return tarn_fail(TARN_EFORMAT,
				 "%s: the zip directory at byte %u has %u bytes but the archive ends at byte %llu",
				 archive->path, start, bytes, (unsigned long long)offset);
	if (bytes > ZIP_MAX_DIRECTORY || (uint64_t)members * ENTRY_BYTES > bytes)
		return tarn_fail(TARN_EFORMAT,
				 "%s: a zip directory of %u bytes for %u members; %zu bytes a member and at most "
				 "%llu in all are expected",
				 archive->path, bytes, members, ENTRY_BYTES, (unsigned long long)ZIP_MAX_DIRECTORY);
	archive->directory_offset = start;
	archive->directory_bytes = bytes;
	archive->members = members;
	return TARN_OK;
}

/* The end is looked for from the back, because a comment of unknown length may follow it. */
static enum tarn_status find_end(struct archive *archive, struct host_arena *scratch)
{
	uint64_t most = END_BYTES + MAX_COMMENT + LOCATOR_BYTES;
	size_t bytes = (size_t)(archive->file_bytes < most ? archive->file_bytes : most);
	uint64_t first = archive->file_bytes - bytes;
	uint8_t *tail = HOST_ARRAY(scratch, bytes + 1, uint8_t);
	if (!tail)
		return TARN_ENOMEM;
	enum tarn_status st = read_at(archive, first, tail, bytes);
	if (st)
		return st;
	for (size_t at = bytes < END_BYTES ? 0 : bytes - END_BYTES + 1; at-- > 0;) {
		if (u32_at(tail + at) != END_SIGNATURE || at + END_BYTES + u16_at(tail + at + 20) != bytes)
			continue;
		if (at >= LOCATOR_BYTES && u32_at(tail + at - LOCATOR_BYTES) == LOCATOR_SIGNATURE)
			return refuse_zip64(archive);
		return parse_end(archive, tail + at, first + at);
	}
	return tarn_fail(TARN_EFORMAT, "%s: not a zip archive, or a truncated one: its directory is not at the end",
			 archive->path);
}

static enum tarn_status next_entry(const struct archive *archive, const uint8_t *directory, uint64_t *at,
				   struct entry *entry)
{
	const uint8_t *line = directory + *at;
	uint64_t left = archive->directory_bytes - *at, bytes = ENTRY_BYTES;
	if (left >= ENTRY_BYTES)
		bytes += u16_at(line + 28) + u16_at(line + 30) + u16_at(line + 32);
	if (left < bytes || u32_at(line) != ENTRY_SIGNATURE)
		return tarn_fail(TARN_EFORMAT, "%s: the zip directory is damaged at byte %llu", archive->path,
				 (unsigned long long)(archive->directory_offset + *at));
	*entry = (struct entry){ .name = line + ENTRY_BYTES,
				 .name_bytes = u16_at(line + 28),
				 .flags = u16_at(line + 8),
				 .method = u16_at(line + 10),
				 .crc = u32_at(line + 16),
				 .packed_bytes = u32_at(line + 20),
				 .bytes = u32_at(line + 24),
				 .offset = u32_at(line + 42) };
	*at += bytes;
	return TARN_OK;
}

/* What can be said without the member's own header. */
static enum tarn_status check_entry(const struct archive *archive, const char *name, const struct entry *entry)
{
	if (entry->packed_bytes == UINT32_MAX || entry->bytes == UINT32_MAX || entry->offset == UINT32_MAX)
		return refuse_zip64(archive);
	if (entry->flags & FLAG_ENCRYPTED)
		return tarn_fail(TARN_EUNSUPPORTED, "%s: %s is encrypted; save it without a password", archive->path,
				 name);
	if (entry->method != METHOD_STORED && entry->method != METHOD_DEFLATED)
		return tarn_fail(TARN_EUNSUPPORTED,
				 "%s: %s is packed with method %u; stored (0) and deflated (8) members are read",
				 archive->path, name, entry->method);
	bool fits = entry->method == METHOD_STORED ? entry->bytes == entry->packed_bytes
						   : entry->bytes / LARGEST_EXPANSION <= entry->packed_bytes;
	if (!fits || entry->offset + LOCAL_BYTES + entry->packed_bytes > archive->directory_offset)
		return tarn_fail(TARN_EFORMAT,
				 "%s: %s at byte %llu: %llu packed bytes cannot be %llu bytes of this archive",
				 archive->path, name, (unsigned long long)entry->offset,
				 (unsigned long long)entry->packed_bytes, (unsigned long long)entry->bytes);
	return TARN_OK;
}

static enum tarn_status locate(const struct archive *archive, const char *name, const struct entry *entry,
			       struct stream_part *part)
{
	uint8_t local[LOCAL_BYTES];
	enum tarn_status st = check_entry(archive, name, entry);
	if (!st)
		st = read_at(archive, entry->offset, local, sizeof local);
	if (st)
		return st;
	uint64_t start = entry->offset + LOCAL_BYTES + u16_at(local + 26) + u16_at(local + 28);
	if (u32_at(local) != LOCAL_SIGNATURE || start + entry->packed_bytes > archive->directory_offset)
		return tarn_fail(TARN_EFORMAT, "%s: %s: no zip member of %llu bytes begins at byte %llu", archive->path,
				 name, (unsigned long long)entry->packed_bytes, (unsigned long long)entry->offset);
	*part = (struct stream_part){ .offset = start,
				      .bytes = entry->packed_bytes,
				      .unpacked_bytes = entry->bytes,
				      .crc = entry->crc,
				      .deflate = entry->method == METHOD_DEFLATED };
	return TARN_OK;
}

/* Adds a member's name to those of the message, with ? for what is not printable. */
static void list_name(const struct entry *entry, char *list, size_t size)
{
	size_t used = strlen(list);
	if (used + 2 + entry->name_bytes + 5 > size) {
		if (used + 5 < size && (used < 5 || strcmp(list + used - 5, ", ...") != 0))
			memcpy(list + used, ", ...", 6);
		return;
	}
	if (used) {
		memcpy(list + used, ", ", 2);
		used += 2;
	}
	for (uint32_t i = 0; i < entry->name_bytes; i++)
		list[used++] = entry->name[i] >= ' ' && entry->name[i] < 0x7F ? (char)entry->name[i] : '?';
	list[used] = '\0';
}

static enum tarn_status search_directory(const struct archive *archive, const char *name, const uint8_t *directory,
					 struct stream_part *part)
{
	char names[256] = "";
	size_t length = strlen(name);
	uint64_t at = 0;
	for (uint32_t i = 0; i < archive->members; i++) {
		struct entry entry = { 0 };
		enum tarn_status st = next_entry(archive, directory, &at, &entry);
		if (st)
			return st;
		if (entry.name_bytes == length && !memcmp(entry.name, name, length))
			return locate(archive, name, &entry, part);
		list_name(&entry, names, sizeof names);
	}
	return tarn_fail(TARN_EDATA, "%s: holds no %s; it holds %s", archive->path, name, names[0] ? names : "nothing");
}

/* Opens the archive and reads its directory; the caller closes archive->fd. */
static enum tarn_status read_directory(struct archive *archive, struct host_arena *scratch, uint8_t **directory)
{
	enum tarn_status st = regular_file_open(archive->path, &archive->fd, &archive->file_bytes);
	if (!st)
		st = find_end(archive, scratch);
	if (st)
		return st;
	*directory = HOST_ARRAY(scratch, archive->directory_bytes + 1, uint8_t);
	if (!*directory)
		return TARN_ENOMEM;
	return read_at(archive, archive->directory_offset, *directory, (size_t)archive->directory_bytes);
}

static void close_archive(const struct archive *archive)
{
	if (archive->fd >= 0)
		close(archive->fd);
}

enum tarn_status zip_find(const char *path, const char *name, struct host_arena *scratch, struct stream_part *part)
{
	struct archive archive = { .path = path, .fd = -1 };
	struct host_mark mark = host_arena_mark(scratch);
	uint8_t *directory;
	enum tarn_status st = read_directory(&archive, scratch, &directory);
	if (!st)
		st = search_directory(&archive, name, directory, part);
	close_archive(&archive);
	host_arena_release(scratch, mark);
	return st;
}

static enum tarn_status take_member(const struct archive *archive, const struct entry *entry, struct host_arena *arena,
				    struct zip_member *member)
{
	char *name = HOST_ARRAY(arena, entry->name_bytes + 1u, char);
	if (!name)
		return TARN_ENOMEM;
	for (uint32_t i = 0; i < entry->name_bytes; i++)
		name[i] = (char)(entry->name[i] < ' ' || entry->name[i] == 0x7F ? '?' : entry->name[i]);
	member->name = name;
	return locate(archive, name, entry, &member->part);
}

enum tarn_status zip_list(const char *path, struct host_arena *arena, struct zip_member **member, uint32_t *members)
{
	struct archive archive = { .path = path, .fd = -1 };
	uint64_t at = 0;
	uint8_t *directory;
	enum tarn_status st = read_directory(&archive, arena, &directory);
	struct zip_member *list = st ? NULL : HOST_ARRAY(arena, archive.members + 1u, struct zip_member);
	if (!st && !list)
		st = TARN_ENOMEM;
	for (uint32_t i = 0; i < archive.members && !st; i++) {
		struct entry entry = { 0 };
		st = next_entry(&archive, directory, &at, &entry);
		if (!st)
			st = take_member(&archive, &entry, arena, &list[i]);
	}
	close_archive(&archive);
	*member = list;
	*members = archive.members;
	return st;
}
