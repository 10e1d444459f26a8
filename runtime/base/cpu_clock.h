/*
 * cpu_clock.h - how long this thread has computed, for reports. Nothing is ever decided by it.
 */
#ifndef TARN_BASE_CPU_CLOCK_H
#define TARN_BASE_CPU_CLOCK_H

#include <time.h>

static inline double cpu_clock_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

#endif
