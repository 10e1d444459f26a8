/*
 * folder.h - room for a file that will be written much later: found missing now, not after hours of training.
 */
#ifndef TARN_BASE_FOLDER_H
#define TARN_BASE_FOLDER_H

#include "base/status.h"

/*
 * Makes the folders that `path` lies in and checks that a file of that name can be created or replaced there.
 * Symbolic links are followed. TARN_EIO names the folder and the reason, or says what stands there that is no regular
 * file; TARN_EINVAL a path that is empty or too long. Writes no file.
 */
enum tarn_status folder_prepare(const char *path);

#endif
