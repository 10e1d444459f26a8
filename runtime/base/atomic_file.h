/*
 * atomic_file.h - a file is replaced whole or not at all.
 *
 * What is written goes to "TARGET.tarn-tmp.PID.NUMBER" beside the target, which takes its name when it is complete and
 * on the disk. TARGET is the path with the symbolic links of its last name followed: the links stay, what they point to
 * is replaced. Only a regular file is replaced, and its permissions are kept; a folder, device, FIFO or socket is
 * refused. Writers of one target do not disturb one another: each has a file of its own, and the last one to finish
 * wins.
 *
 * A temporary file is locked (flock) while its writer lives; one without a lock was left by a process that was killed,
 * whatever process has its number now, and atomic_file_clean removes it.
 *
 * Nothing here but atomic_file_clean and the streams uses the heap: all paths are in the struct.
 */
#ifndef TARN_BASE_ATOMIC_FILE_H
#define TARN_BASE_ATOMIC_FILE_H

#include "base/status.h"

#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>

/* Longest path of a target, terminating zero included. */
#define ATOMIC_FILE_PATH_BYTES 4096u

struct atomic_file {
	char target[ATOMIC_FILE_PATH_BYTES];
	char temporary[ATOMIC_FILE_PATH_BYTES + 64];
	int fd;             /* of the temporary file; -1: none */
	struct stat status; /* of the new file, after a commit */
};

/*
 * The target that `path` stands for. TARN_EIO when something is there that is no regular file, or the links go round
 * in a circle; TARN_EINVAL for a path that is empty or too long. Looks only.
 */
enum tarn_status atomic_file_resolve(const char *path, char target[ATOMIC_FILE_PATH_BYTES]);

/* Removes what killed writers of this target left; what cannot be removed stays. Uses the heap: at boot. */
void atomic_file_clean(const char *target);

/* Resolves `path` and makes the temporary file. After a failure atomic_file_abandon is safe and not needed. */
enum tarn_status atomic_file_open(struct atomic_file *file, const char *path);

/* A failed write is TARN_EIO; the temporary file stays until atomic_file_abandon. */
enum tarn_status atomic_file_write(struct atomic_file *file, const void *data, size_t bytes);

/*
 * Syncs the file, gives it the target's name and syncs the folder. `previous` is the name that the file before gets;
 * NULL: none. It is a second link made just before, so that the target exists at every instant; where the file system
 * has no links the file before is renamed. After a failure nothing temporary is left.
 */
enum tarn_status atomic_file_commit(struct atomic_file *file, const char *previous);

/*
 * atomic_file_open with a stream to print to, for texts that are written at boot; atomic_file_close_stream ends it.
 * NULL in *stream after a failure, when nothing is left to close.
 */
enum tarn_status atomic_file_open_stream(struct atomic_file *file, const char *path, FILE **stream);

/* Commits when `st`, the status of what was printed, is TARN_OK and all of it was written; else abandons. */
enum tarn_status atomic_file_close_stream(struct atomic_file *file, FILE *stream, enum tarn_status st);

/* Removes the temporary file of an open that was not committed. Keeps the sentence of the failure. */
void atomic_file_abandon(struct atomic_file *file);

#endif
