/* regular_file.c - see regular_file.h. */
#include "base/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *regular_file_kind(mode_t mode)
{
	if (S_ISREG(mode))
		return "a regular file";
	if (S_ISDIR(mode))
		return "a folder";
	if (S_ISFIFO(mode))
		return "a FIFO";
	if (S_ISSOCK(mode))
		return "a socket";
	if (S_ISLNK(mode))
		return "a symbolic link";
	return S_ISCHR(mode) || S_ISBLK(mode) ? "a device" : "of an unknown kind";
}

static enum tarn_status check_kind(const char *path, const struct stat *status)
{
	if (S_ISREG(status->st_mode))
		return TARN_OK;
	return tarn_fail(TARN_EIO, "%s: is %s, not a regular file", path, regular_file_kind(status->st_mode));
}

/* The kind is asked by name first, because opening a device can do something and a socket cannot be opened; and again
 * of what was opened, because the name may stand for something else by then: O_NONBLOCK is for a FIFO. */
enum tarn_status regular_file_open(const char *path, int *fd, uint64_t *bytes)
{
	struct stat status;
	enum tarn_status st = TARN_OK;
	int opened = -1;
	*fd = -1;
	if (!stat(path, &status))
		st = check_kind(path, &status);
	if (st)
		return st;
	opened = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (opened < 0 || fstat(opened, &status))
		st = tarn_fail(TARN_EIO, "%s: cannot open: %s", path, strerror(errno));
	else
		st = check_kind(path, &status);
	if (!st) {
		*fd = opened;
		*bytes = (uint64_t)status.st_size;
	} else if (opened >= 0) {
		close(opened);
	}
	return st;
}
