/*
 * zip.h - finds a member of a zip archive, such as an array of an npz file. Private to runtime/data.
 *
 * Layout: APPNOTE.TXT (PKWARE), sections 4.3.7, 4.3.12 and 4.3.16. The directory at the end of the file is what counts;
 * of a member's own header only its length is used, since NumPy writes 64-bit sizes there into every file. Members are
 * stored or deflated. Encrypted ones, other methods, archives in several parts and 64-bit directories (from 4 GiB or
 * 65,535 members on) are refused with a sentence. Every place and size is checked against the file before it is used.
 */
#ifndef TARN_DATA_ZIP_H
#define TARN_DATA_ZIP_H

#include "base/host_arena.h"
#include "data/stream.h"

/* Longest directory that is read. */
#define ZIP_MAX_DIRECTORY ((uint64_t)1 << 20)

/*
 * Where the member `name` lies in the archive `path`. TARN_EIO (cannot read), TARN_EFORMAT (no archive, or a damaged
 * one), TARN_EUNSUPPORTED, TARN_EDATA when there is no such member: the message lists those that are there.
 */
enum tarn_status zip_find(const char *path, const char *name, struct host_arena *scratch, struct stream_part *part);

struct zip_member {
	const char *name; /* printable, in the arena */
	struct stream_part part;
};

/* All members of the archive, in its order. */
enum tarn_status zip_list(const char *path, struct host_arena *arena, struct zip_member **member, uint32_t *members);

#endif
