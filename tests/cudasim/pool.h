/*
 * pool.h - many small pieces of memory that live and die together (a parsed module, a captured graph).
 */
#ifndef CUDASIM_POOL_H
#define CUDASIM_POOL_H

#include <stddef.h>

struct pool_chunk;
struct pool {
	struct pool_chunk *chunk;
};

/* Zeroed, aligned for anything. Ends the process with a sentence when the host has no memory left. */
void *pool_take(struct pool *pool, size_t bytes);
char *pool_text(struct pool *pool, const char *text, size_t length);
void pool_free(struct pool *pool);

/* An array of `count` elements made one larger at its end, doubling as it grows; the old one stays in the pool. */
void *pool_grow(struct pool *pool, void *array, size_t count, size_t element_bytes);

#endif
