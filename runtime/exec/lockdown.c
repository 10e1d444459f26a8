/* lockdown.c - seccomp filter and heap reserve. */
#include "exec/lockdown.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#ifdef CONFIG_LOCKDOWN
#include <seccomp.h>
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
enum tarn_status lockdown_enter(void)
{
	static const int refused[] = { SCMP_SYS(mmap), SCMP_SYS(mremap), SCMP_SYS(brk), SCMP_SYS(shmat) };
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	if (!filter)
		return tarn_fail(TARN_EUNSUPPORTED, "lockdown: libseccomp cannot make a filter");
	int error = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	for (size_t i = 0; i < sizeof refused / sizeof *refused && !error; i++)
		error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOMEM), refused[i], 0);
	if (!error)
		error = seccomp_load(filter);
	seccomp_release(filter);
	if (error)
		return tarn_fail(TARN_EUNSUPPORTED, "lockdown: the kernel refuses the seccomp filter: %s",
				 strerror(-error));
	return TARN_OK;
}
#else
enum tarn_status lockdown_enter(void)
{
	return tarn_fail(TARN_EUNSUPPORTED, "lockdown: this build has no seccomp (CONFIG_LOCKDOWN is off)");
}
#endif
