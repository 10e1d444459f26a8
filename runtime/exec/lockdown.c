/* lockdown.c - heap reserve and seccomp filter; lockdown_files.c has the rest. */
#include "exec/lockdown.h"

#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#ifdef CONFIG_LOCKDOWN
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>
#endif

void lockdown_prepare_heap(unsigned long bytes)
{
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TOP_PAD, 1 << 20);
	char *reserve = malloc(bytes);
	if (!reserve)
		return;
	memset(reserve, 0, bytes); /* touched, so that it is resident, then given back to the heap, which keeps it */
	__asm__ volatile("" : : "r"(reserve) : "memory");
	free(reserve);
}

#ifdef CONFIG_LOCKDOWN
static const int refused_for_memory[] = { SCMP_SYS(mmap), SCMP_SYS(mremap), SCMP_SYS(brk), SCMP_SYS(shmat) };

static const int allowed[] = {
	/* lines, snapshots */
	SCMP_SYS(read), SCMP_SYS(pread64), SCMP_SYS(readv), SCMP_SYS(write), SCMP_SYS(pwrite64), SCMP_SYS(writev),
	SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(close), SCMP_SYS(lseek), SCMP_SYS(stat), SCMP_SYS(fstat),
	SCMP_SYS(lstat), SCMP_SYS(newfstatat), SCMP_SYS(statx), SCMP_SYS(access), SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2), SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(getdents64), SCMP_SYS(unlink),
	SCMP_SYS(unlinkat), SCMP_SYS(rename), SCMP_SYS(renameat), SCMP_SYS(renameat2), SCMP_SYS(link), SCMP_SYS(linkat),
	SCMP_SYS(fsync), SCMP_SYS(fdatasync), SCMP_SYS(fchmod), SCMP_SYS(fcntl), SCMP_SYS(flock), SCMP_SYS(dup),
	/* threads and time */
	SCMP_SYS(futex), SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity), SCMP_SYS(nanosleep),
	SCMP_SYS(clock_nanosleep), SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday), SCMP_SYS(getrusage),
	SCMP_SYS(uname), SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(getcpu), SCMP_SYS(rseq),
	SCMP_SYS(set_robust_list), SCMP_SYS(membarrier),
	/* signals, the end */
	SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(restart_syscall),
	SCMP_SYS(sigaltstack), SCMP_SYS(munmap), SCMP_SYS(madvise), SCMP_SYS(exit), SCMP_SYS(exit_group)
};

/* Calls of which only some uses are allowed. */
static int allow_partly(scmp_filter_ctx filter, bool device_calls)
{
	/* The size of the terminal. */
	int error = device_calls ? seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 0)
				 : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
						    SCMP_A1(SCMP_CMP_EQ, TIOCGWINSZ, 0));
	/* The heap of a thread grows inside what it has reserved; nothing becomes code. */
	if (!error)
		error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
					 SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	/* abort() */
	if (!error)
		error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
					 SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid(), 0));
	return error;
}

enum tarn_status lockdown_enter(bool device_calls)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	if (!filter)
		return tarn_fail(TARN_EUNSUPPORTED, "lockdown: libseccomp cannot make a filter");
	int error = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	for (size_t i = 0; i < sizeof refused_for_memory / sizeof *refused_for_memory && !error; i++)
		error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOMEM), refused_for_memory[i], 0);
	for (size_t i = 0; i < sizeof allowed / sizeof *allowed && !error; i++)
		error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
	if (!error)
		error = allow_partly(filter, device_calls);
	if (!error)
		error = seccomp_load(filter);
	seccomp_release(filter);
	if (error)
		return tarn_fail(TARN_EUNSUPPORTED, "lockdown: the kernel refuses the seccomp filter: %s",
				 strerror(-error));
	return TARN_OK;
}
#else
enum tarn_status lockdown_enter(bool device_calls)
{
	(void)device_calls;
	return tarn_fail(TARN_EUNSUPPORTED, "lockdown: this build has no seccomp (CONFIG_LOCKDOWN is off)");
}
#endif
