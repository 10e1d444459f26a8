/*
 * regular_file.h - what is read and written are regular files: a FIFO would block, a device has no end.
 */
#ifndef TARN_BASE_REGULAR_FILE_H
#define TARN_BASE_REGULAR_FILE_H

#include "base/status.h"

#include <stdint.h>
#include <sys/types.h>

/* What a mode of stat() stands for, for messages: "a folder", "a FIFO". */
const char *regular_file_kind(mode_t mode);

/*
 * Opens to read; never waits for anybody. TARN_EIO: "PATH: cannot open: reason" or "PATH: is a FIFO, not a regular
 * file"; *fd is -1 then.
 */
enum tarn_status regular_file_open(const char *path, int *fd, uint64_t *bytes);

#endif
