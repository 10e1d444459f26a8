/*
 * heap_wrap.h - counts the heap calls of the project's own objects.
 *
 * The Makefile links tests/test_noalloc*.c and tests/test_heap_wrap.c with -Wl,--wrap=malloc and so on: a call to one
 * of these functions from an object of the project, or from the test itself, arrives here, is counted and goes on to
 * the C library. Calls that shared libraries make inside themselves are not seen.
 */
#ifndef TARN_TESTS_HEAP_WRAP_H
#define TARN_TESTS_HEAP_WRAP_H

#include <stdint.h>

/* Heap calls of all threads since the program started, releases included. Counting itself allocates nothing. */
uint64_t heap_wrap_calls(void);

#endif
