/* atomic_file.c - see atomic_file.h. */
#include "base/atomic_file.h"

#include "base/regular_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define TEMPORARY_MARK ".tarn-tmp."
/* Writers of one target inside one process. */
#define MOST_WRITERS 1000u
/* As many links as Linux follows (path_resolution(7)). */
#define MOST_LINKS 40

/* Bytes of `path` before its last name, the slash included. */
static size_t folder_length(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? (size_t)(slash - path) + 1 : 0;
}

/* "/state" lies in "/", "state" in ".". */
static void folder_of(const char *path, char folder[ATOMIC_FILE_PATH_BYTES])
{
	size_t length = folder_length(path);
	memcpy(folder, path, length);
	strcpy(folder + length, length ? "" : ".");
}

static enum tarn_status refuse(const char *path, mode_t mode)
{
	return tarn_fail(TARN_EIO, "%s: is %s, not a regular file; a file is to be written there", path,
			 regular_file_kind(mode));
}

enum tarn_status atomic_file_resolve(const char *path, char target[ATOMIC_FILE_PATH_BYTES])
{
	char link[ATOMIC_FILE_PATH_BYTES];
	struct stat status;
	size_t length = strlen(path);
	if (!length || length >= ATOMIC_FILE_PATH_BYTES)
		return tarn_fail(TARN_EINVAL, "%.60s: the path has %zu bytes; 1 to %u are possible", path, length,
				 ATOMIC_FILE_PATH_BYTES - 1);
	if (!stat(path, &status) && !S_ISREG(status.st_mode))
		return refuse(path, status.st_mode);
	memcpy(target, path, length + 1);
	for (int links = 0; links <= MOST_LINKS; links++) {
		ssize_t bytes = readlink(target, link, sizeof link);
		if (bytes < 0)
			return TARN_OK;
		size_t before = link[0] == '/' ? 0 : folder_length(target);
		if (before + (size_t)bytes >= ATOMIC_FILE_PATH_BYTES)
			return tarn_fail(TARN_EIO, "%.60s: links to a path of more than %u bytes", path,
					 ATOMIC_FILE_PATH_BYTES - 1);
		memcpy(target + before, link, (size_t)bytes);
		target[before + (size_t)bytes] = '\0';
	}
	return tarn_fail(TARN_EIO, "%s: more than %d symbolic links stand one behind the other", path, MOST_LINKS);
}

/* "NAME.tarn-tmp.DIGITS.DIGITS" */
static bool is_temporary_of(const char *name, const char *entry)
{
	size_t length = strlen(name), mark = strlen(TEMPORARY_MARK);
	if (strncmp(entry, name, length) || strncmp(entry + length, TEMPORARY_MARK, mark))
		return false;
	entry += length + mark;
	size_t process = strspn(entry, "0123456789");
	if (!process || entry[process] != '.')
		return false;
	size_t number = strspn(entry + process + 1, "0123456789");
	return number && !entry[process + 1 + number];
}

/*
 * Only whoever holds the lock of a temporary file removes or renames it. A writer that finished after this opened its
 * file has renamed it before it let go of the lock, so that the name no longer stands for what was opened.
 */
static void remove_unlocked(int folder, const char *name)
{
	struct stat opened, named;
	int fd = openat(folder, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return;
	if (!fstat(fd, &opened) && S_ISREG(opened.st_mode) && !flock(fd, LOCK_EX | LOCK_NB) &&
	    !fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) && named.st_ino == opened.st_ino &&
	    named.st_dev == opened.st_dev)
		(void)unlinkat(folder, name, 0);
	close(fd);
}

void atomic_file_clean(const char *target)
{
	char folder[ATOMIC_FILE_PATH_BYTES];
	folder_of(target, folder);
	DIR *stream = opendir(folder);
	if (!stream)
		return;
	for (struct dirent *entry = readdir(stream); entry; entry = readdir(stream))
		if (is_temporary_of(target + folder_length(target), entry->d_name))
			remove_unlocked(dirfd(stream), entry->d_name);
	closedir(stream);
}

/* A new, locked file; -1 and errno. EEXIST: another name is needed. */
static int create_locked(const char *path)
{
	struct stat status;
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0)
		return -1;
	/* File systems without locks are written to all the same: nobody gets the lock that a removal needs. */
	while (flock(fd, LOCK_EX) && errno == EINTR)
		;
	if (!fstat(fd, &status) && status.st_nlink)
		return fd;
	/* A cleaner came before the lock. */
	close(fd);
	errno = EEXIST;
	return -1;
}

enum tarn_status atomic_file_open(struct atomic_file *file, const char *path)
{
	file->fd = -1;
	enum tarn_status st = atomic_file_resolve(path, file->target);
	if (st)
		return st;
	for (unsigned number = 0; number < MOST_WRITERS; number++) {
		snprintf(file->temporary, sizeof file->temporary, "%s" TEMPORARY_MARK "%ld.%u", file->target,
			 (long)getpid(), number);
		file->fd = create_locked(file->temporary);
		if (file->fd >= 0)
			return TARN_OK;
		if (errno != EEXIST)
			break;
	}
	return tarn_fail(TARN_EIO, "%s: cannot create: %s", file->target, strerror(errno));
}

enum tarn_status atomic_file_write(struct atomic_file *file, const void *data, size_t bytes)
{
	const char *at = data;
	while (bytes) {
		ssize_t done = write(file->fd, at, bytes);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return tarn_fail(TARN_EIO, "%s: write failed: %s", file->target, strerror(errno));
		at += done;
		bytes -= (size_t)done;
	}
	return TARN_OK;
}

/* The name of a second writer's link is as good: it was the target at this moment, too. */
static enum tarn_status keep(const char *target, const char *previous)
{
	struct stat status;
	if (!lstat(previous, &status) && !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode))
		return refuse(previous, status.st_mode);
	if (unlink(previous) && errno != ENOENT)
		return tarn_fail(TARN_EIO, "%s: cannot be replaced: %s", previous, strerror(errno));
	if (link(target, previous) && errno != ENOENT && errno != EEXIST && rename(target, previous))
		return tarn_fail(TARN_EIO, "%s: cannot be kept as %s: %s", target, previous, strerror(errno));
	return TARN_OK;
}

/* Names survive a power cut only when their folder was synced too; some file systems cannot do it (EINVAL). */
static enum tarn_status sync_folder(const char *target)
{
	char folder[ATOMIC_FILE_PATH_BYTES];
	folder_of(target, folder);
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool done = fd >= 0 && (!fsync(fd) || errno == EINVAL);
	int reason = errno;
	if (fd >= 0)
		close(fd);
	return done ? TARN_OK : tarn_fail(TARN_EIO, "%s: cannot sync its folder: %s", target, strerror(reason));
}

static enum tarn_status publish(struct atomic_file *file, const char *previous)
{
	struct stat before;
	if (fsync(file->fd))
		return tarn_fail(TARN_EIO, "%s: cannot sync: %s", file->target, strerror(errno));
	/* It may have become something else since the open. */
	bool replaces = !lstat(file->target, &before);
	if (replaces && !S_ISREG(before.st_mode))
		return refuse(file->target, before.st_mode);
	if (replaces)
		(void)fchmod(file->fd, before.st_mode & 0777); /* fails where there are no permissions to keep */
	enum tarn_status st = replaces && previous ? keep(file->target, previous) : TARN_OK;
	if (!st && rename(file->temporary, file->target))
		st = tarn_fail(TARN_EIO, "%s: cannot be replaced: %s", file->target, strerror(errno));
	return st;
}

enum tarn_status atomic_file_commit(struct atomic_file *file, const char *previous)
{
	enum tarn_status st = publish(file, previous);
	if (st) {
		atomic_file_abandon(file);
		return st;
	}
	if (fstat(file->fd, &file->status))
		memset(&file->status, 0, sizeof file->status);
	/* What was written is synced: closing has nothing left to fail. The temporary name is free for others now. */
	close(file->fd);
	file->fd = -1;
	return sync_folder(file->target);
}

void atomic_file_abandon(struct atomic_file *file)
{
	if (file->fd < 0)
		return;
	unlink(file->temporary);
	close(file->fd);
	file->fd = -1;
}

enum tarn_status atomic_file_open_stream(struct atomic_file *file, const char *path, FILE **stream)
{
	*stream = NULL;
	enum tarn_status st = atomic_file_open(file, path);
	if (st)
		return st;
	atomic_file_clean(file->target);
	/* The stream closes its own descriptor: file->fd holds the lock until the commit. */
	int fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
	*stream = fd < 0 ? NULL : fdopen(fd, "wb");
	if (*stream)
		return TARN_OK;
	st = tarn_fail(TARN_EIO, "%s: cannot create: %s", file->target, strerror(errno));
	if (fd >= 0)
		close(fd);
	atomic_file_abandon(file);
	return st;
}

enum tarn_status atomic_file_close_stream(struct atomic_file *file, FILE *stream, enum tarn_status st)
{
	bool failed = ferror(stream);
	if ((fclose(stream) || failed) && !st)
		st = tarn_fail(TARN_EIO, "%s: write failed: %s", file->target, strerror(errno));
	if (!st)
		return atomic_file_commit(file, NULL);
	atomic_file_abandon(file);
	return st;
}
