/*
 * heap_wrap.c - see heap_wrap.h.
 *
 * The linker's --wrap=f turns a call of f into one of __wrap_f, and names the original __real_f. This object is linked
 * into programs without --wrap too, where nobody defines __real_f; it lies in an archive, so only those that ask for it
 * get it.
 */
#include "support/heap_wrap.h"

#include <stdatomic.h>
#include <stddef.h>

static atomic_uint_fast64_t calls;

uint64_t heap_wrap_calls(void)
{
	return atomic_load(&calls);
}

/* One heap function: its type, its parameters, and how they are handed on. Weak: a test may bring its own. */
#define WRAP(type, name, parameters, arguments)              \
	type __real_##name parameters;                       \
	__attribute__((weak)) type __wrap_##name parameters; \
	type __wrap_##name parameters                        \
	{                                                    \
		atomic_fetch_add(&calls, 1);                 \
		return __real_##name arguments;              \
	}

WRAP(void *, malloc, (size_t bytes), (bytes))
WRAP(void *, calloc, (size_t count, size_t bytes), (count, bytes))
WRAP(void *, realloc, (void *block, size_t bytes), (block, bytes))
WRAP(void *, reallocarray, (void *block, size_t count, size_t bytes), (block, count, bytes))
WRAP(void *, aligned_alloc, (size_t alignment, size_t bytes), (alignment, bytes))
WRAP(int, posix_memalign, (void **block, size_t alignment, size_t bytes), (block, alignment, bytes))
WRAP(void *, memalign, (size_t alignment, size_t bytes), (alignment, bytes))
WRAP(void *, valloc, (size_t bytes), (bytes))
WRAP(char *, strdup, (const char *text), (text))
WRAP(char *, strndup, (const char *text, size_t bytes), (text, bytes))

void __real_free(void *block);
__attribute__((weak)) void __wrap_free(void *block);
void __wrap_free(void *block)
{
	atomic_fetch_add(&calls, 1);
	__real_free(block);
}
