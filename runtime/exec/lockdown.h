/*
 * lockdown.h - a process gives up what it no longer needs: files while it boots, system calls when it has booted.
 *
 * Linux only: Landlock (landlock(7)) and seccomp (seccomp(2)).
 */
#ifndef TARN_EXEC_LOCKDOWN_H
#define TARN_EXEC_LOCKDOWN_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Makes the heap keep a reserve of already mapped memory, so that the small heap calls that libraries make inside
 * themselves are served without a system call: no trimming, no mapping for large blocks, `bytes` of slack.
 */
void lockdown_prepare_heap(unsigned long bytes);

/*
 * From now on this thread and those that it starts reach some folders of the file system and nothing else: those of the
 * files in `writable` to read and write, those of the files in `readable` to read (NULL or "": none). Files that are
 * open stay so. TCP ports, signals to other processes and abstract sockets are refused as well where the kernel can do
 * that. Call it when all data were read and before threads are started.
 *
 * *confined: false where the kernel has no Landlock, which is no failure; the caller says so. TARN_EIO: a folder cannot
 * be opened; TARN_EUNSUPPORTED: the kernel refuses the rules.
 */
enum tarn_status lockdown_files(const char *const *writable, uint32_t writables, const char *const *readable,
				uint32_t readables, bool *confined);

/*
 * From now on every thread of the process may make only the system calls that training, snapshots and an orderly end
 * need (a list in lockdown.c), for good. mmap, mremap, brk and shmat fail with ENOMEM, everything else, such as
 * sockets, exec, new threads and processes, with EPERM. `device_calls`: ioctl is allowed as a whole, for devices that
 * are driven by it. It cannot stop a stack from growing inside its limit, pages of earlier mappings from being touched
 * for the first time, nor other processes. TARN_EUNSUPPORTED when the kernel or this build has no seccomp.
 */
enum tarn_status lockdown_enter(bool device_calls);

#endif
