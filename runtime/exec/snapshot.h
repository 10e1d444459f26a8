/*
 * snapshot.h - weights, optimizer state, counters and position of a run in one safetensors file.
 *
 * Format: u64 little-endian header length, JSON header {"name": {"dtype","shape","data_offsets"}, "__metadata__":
 * {...}}, data. Names are the tensor names; metadata keys start with "tarn.": version, epoch, batch, step, seed,
 * checksum (XXH64 of the data), position_checksum, config (its lines). Written to "path.tmp.<pid>", fsynced, renamed,
 * directory fsynced; the previous file is whole until then, and is kept as "path.previous" (a second link to it, made
 * just before, so that `path` exists at every instant; where the file system has no links it is renamed).
 *
 * Saving allocates nothing: buffers are made at open. Loading streams each tensor through a fixed buffer into the
 * arena.
 */
#ifndef TARN_EXEC_SNAPSHOT_H
#define TARN_EXEC_SNAPSHOT_H

#include "exec/exec.h"

struct snapshot_position {
	uint64_t step;         /* steps done */
	uint32_t epoch, batch; /* the next batch to train on */
	uint64_t seed;
	/* What the place in the epoch refers to: a run with others cannot go on from it. */
	uint32_t batch_size, samples; /* data.batch; training samples */
};

struct snapshot;

/* Longest path of a snapshot, terminating zero included. */
#define SNAPSHOT_PATH_BYTES 4096u

/*
 * Prepares saving and loading of the persistent tensors (parameters, optimizer state, statistics, counters). `path` is
 * where snapshots go when a save names no other place; NULL or "": nowhere.
 */
enum tarn_status snapshot_open(struct executor *executor, const char *path, struct host_arena *arena,
			       struct snapshot **snapshot);
void snapshot_close(struct snapshot *snapshot);

/* To `path`; NULL: to the one given at open. TARN_EINVAL (no path, or too long), TARN_EIO. */
enum tarn_status snapshot_save(struct snapshot *snapshot, const char *path, const struct snapshot_position *position);

/*
 * Loads into the arena. Every length, offset, dtype, shape and the checksum are checked before anything is written.
 * Names that do not match are refused with three lists (missing, extra, wrong shape). TARN_EIO, TARN_EFORMAT.
 */
enum tarn_status snapshot_load(struct snapshot *snapshot, const char *path, struct snapshot_position *position);

/*
 * Loads `path`, or "path.previous" when `path` is damaged or missing: then a warning on stderr says so. A whole file
 * that does not fit the network is refused as it is.
 */
enum tarn_status snapshot_load_newest(struct snapshot *snapshot, const char *path, struct snapshot_position *position);

/*
 * XXH64 (seed 0) over entries sorted by name: name bytes, dtype name (dtype_name()), rank and dimensions as u32
 * little-endian, data; of parameters, optimizer state, running statistics and counters; then position.step and seed as
 * u64.
 */
enum tarn_status snapshot_hash(struct snapshot *snapshot, const struct snapshot_position *position, uint64_t *hash);

#endif
