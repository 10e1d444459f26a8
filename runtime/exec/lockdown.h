/*
 * lockdown.h - after boot, nothing maps memory any more.
 */
#ifndef TARN_EXEC_LOCKDOWN_H
#define TARN_EXEC_LOCKDOWN_H

#include "base/status.h"

/*
 * Makes the heap keep a reserve of already mapped memory, so that the small heap calls that libraries make inside
 * themselves are served without a system call: no trimming, no mapping for large blocks, `bytes` of slack.
 */
void lockdown_prepare_heap(unsigned long bytes);

/*
 * From now on mmap, mremap, brk and shmat fail with ENOMEM in every thread of the process, for good (Linux seccomp).
 * It cannot stop a stack from growing inside its limit, pages of earlier mappings from being touched for the
 * first time, nor other processes. TARN_EUNSUPPORTED when the kernel or this build has no seccomp.
 */
enum tarn_status lockdown_enter(void);

#endif
