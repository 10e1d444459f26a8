/* folder.c - see folder.h. */
#include "base/folder.h"

#include "base/atomic_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes every folder of the path, from the first one on. */
static enum tarn_status make_folders(char *folder)
{
	for (char *slash = strchr(folder + 1, '/');; slash = strchr(slash + 1, '/')) {
		if (slash)
			*slash = '\0';
		if (mkdir(folder, 0777) && errno != EEXIST)
			return tarn_fail(TARN_EIO, "%s: cannot make this folder: %s", folder, strerror(errno));
		if (!slash)
			return TARN_OK;
		*slash = '/';
	}
}

enum tarn_status folder_prepare(const char *path)
{
	char folder[ATOMIC_FILE_PATH_BYTES];
	struct stat status;
	enum tarn_status st = atomic_file_resolve(path, folder);
	if (st)
		return st;
	char *slash = strrchr(folder, '/');
	if (!slash)
		strcpy(folder, ".");
	else if (slash == folder)
		folder[1] = '\0';
	else
		*slash = '\0';
	if (stat(folder, &status)) {
		st = make_folders(folder);
		if (st)
			return st;
	}
	if (access(folder, W_OK | X_OK))
		return tarn_fail(TARN_EIO, "%s: cannot write into this folder: %s", folder, strerror(errno));
	return TARN_OK;
}
