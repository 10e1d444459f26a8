/*
 * snapshot.h - weights, optimizer state, counters and position of a run in one safetensors file.
 *
 * Format: u64 little-endian header length, JSON header {"name": {"dtype","shape","data_offsets"}, "__metadata__":
 * {...}}, data. Names are the tensor names; metadata keys start with "tarn.": version, epoch, batch, step, seed,
 * batch_size, samples, checksum (XXH64 of the data), header_checksum (of everything else), config (its lines). A save
 * replaces the file atomically (base/atomic_file.h). The file before is kept as "path.previous" when it is known to be
 * whole, because it was proved at open or written since; anything else that stood there becomes "path.damaged" and the
 * `.previous` from before stays. At every instant `path` or "path.previous" is whole.
 *
 * Saving allocates nothing: buffers are made at open. Loading streams each tensor through a fixed buffer into the
 * arena.
 */
#ifndef TARN_EXEC_SNAPSHOT_H
#define TARN_EXEC_SNAPSHOT_H

#include "base/atomic_file.h"
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
#define SNAPSHOT_PATH_BYTES ATOMIC_FILE_PATH_BYTES

/*
 * Prepares saving and loading of the persistent tensors (parameters, optimizer state, statistics, counters). `path` is
 * where snapshots go when a save names no other place; NULL or "": nowhere. A file that is there is read through.
 * TARN_EIO: no snapshot can be written there, or a file is there that is no snapshot, not even a damaged one.
 */
enum tarn_status snapshot_open(struct executor *executor, const char *path, struct host_arena *arena,
			       struct snapshot **snapshot);
void snapshot_close(struct snapshot *snapshot);

/* Files may hold optimizer state ("optimizer/..."), which is then not loaded: for plans that do not train. */
void snapshot_leave_out_optimizer(struct snapshot *snapshot);

/*
 * To `path`; NULL: to the one given at open. TARN_EINVAL (no path, or too long), TARN_EIO; TARN_EDIVERGED when a
 * parameter, an optimizer state or a running statistic is not finite. After a failure the file there is as it was.
 */
enum tarn_status snapshot_save(struct snapshot *snapshot, const char *path, const struct snapshot_position *position);

/*
 * Loads into the arena. Every length, offset, dtype, shape and the checksum are checked before anything is written.
 * Names that do not match are refused with three lists (missing, extra, wrong shape); only masks of weights
 * (optimizer.masks) may be missing, and are left as they are. TARN_EIO, TARN_EFORMAT.
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
