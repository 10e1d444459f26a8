/*
 * snapshot_file.h - a snapshot file by itself: header, metadata and checksum proved, whatever network it is for.
 *
 * Private to runtime/exec. Nothing in the file is trusted; failures are sentences with the file's name.
 */
#ifndef TARN_EXEC_SNAPSHOT_FILE_H
#define TARN_EXEC_SNAPSHOT_FILE_H

#include "exec/safetensors.h"
#include "exec/snapshot.h"

#include <sys/stat.h>
#include <xxhash.h>

/* The only version that is read. */
#define SNAPSHOT_VERSION 2u
/* Tensors and files go through a host buffer of this size. */
#define SNAPSHOT_BUFFER_BYTES ((size_t)1 << 18)

struct snapshot_file {
	const char *path; /* borrowed */
	int fd;           /* -1: closed */
	uint64_t file_bytes;
	uint64_t data_begin; /* where offset 0 of the data lies */
	struct safetensors content;
	struct snapshot_position position;
	const char *config; /* "tarn.config" */
	uint64_t checksum;  /* XXH64 of the data */
};

/*
 * "tarn.header_checksum": XXH64, seeded with the checksum of the data, of step, seed, epoch, batch, batch size and
 * samples, the config, and for each tensor, sorted by name, its name, dtype, data_offsets, rank and dimensions. Numbers
 * are u64; texts come behind their length. Begun with the first, then one call for each tensor, then XXH64_digest: a
 * damaged position must not pass for another one, nor a tensor for its neighbour of equal shape.
 */
void snapshot_header_checksum_begin(XXH64_state_t *hash, const struct snapshot_position *position, const char *config,
				    uint64_t checksum);
void snapshot_header_checksum_add(XXH64_state_t *hash, const struct safetensors_tensor *tensor);

/*
 * Opens and proves the file; the header stays in `arena`. `buffer` has SNAPSHOT_BUFFER_BYTES. TARN_EIO, TARN_EFORMAT,
 * TARN_ENOMEM. snapshot_file_close is safe after a failure.
 */
enum tarn_status snapshot_file_open(const char *path, struct host_arena *arena, XXH64_state_t *hash, uint8_t *buffer,
				    struct snapshot_file *file);
/* Only the header of any safetensors file: `content`, `data_begin`. */
enum tarn_status snapshot_file_open_header(const char *path, struct host_arena *arena, struct snapshot_file *file);
void snapshot_file_close(struct snapshot_file *file);

/*
 * Files that were read or written to their end: the last ones, for runs that save to several places in turn. A damaged
 * file must not take the place of a good one before it; any change of a file shows in one of these members.
 */
#define WHOLE_FILES 4u
struct whole_files {
	struct {
		dev_t device;
		ino_t inode;
		off_t bytes;
		struct timespec modified;
	} file[WHOLE_FILES];
	uint32_t noted; /* so far; the oldest gives way */
};

void whole_files_note(struct whole_files *files, const struct stat *status);
/* The file that has this name now is one of them, unchanged. */
bool whole_files_hold(const struct whole_files *files, const char *path);

/* Exactly `bytes` from a place in the file. */
enum tarn_status snapshot_file_read(const struct snapshot_file *file, uint64_t offset, void *target, uint64_t bytes);

#endif
