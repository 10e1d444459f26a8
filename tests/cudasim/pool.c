#include "pool.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES (64u << 10)

struct pool_chunk {
	struct pool_chunk *next;
	size_t used;
	size_t bytes;
	_Alignas(max_align_t) unsigned char data[];
};

void *pool_take(struct pool *pool, size_t bytes)
{
	bytes = (bytes + _Alignof(max_align_t) - 1) / _Alignof(max_align_t) * _Alignof(max_align_t);
	struct pool_chunk *chunk = pool->chunk;
	if (!chunk || chunk->bytes - chunk->used < bytes) {
		size_t room = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
		chunk = calloc(1, sizeof *chunk + room);
		if (!chunk) {
			fprintf(stderr, "cudasim: the host has no %zu bytes left\n", room);
			abort();
		}
		chunk->bytes = room;
		chunk->next = pool->chunk;
		pool->chunk = chunk;
	}
	void *piece = chunk->data + chunk->used;
	chunk->used += bytes;
	return piece;
}

char *pool_text(struct pool *pool, const char *text, size_t length)
{
	char *copy = pool_take(pool, length + 1);
	memcpy(copy, text, length);
	return copy;
}

void *pool_grow(struct pool *pool, void *array, size_t count, size_t element_bytes)
{
	/* The capacity is the power of two at or above the count, so it need not be kept. */
	if (count != 0 && (count & (count - 1)) != 0)
		return array;
	void *larger = pool_take(pool, (count ? 2 * count : 1) * element_bytes);
	if (count)
		memcpy(larger, array, count * element_bytes);
	return larger;
}

void pool_free(struct pool *pool)
{
	while (pool->chunk) {
		struct pool_chunk *next = pool->chunk->next;
		free(pool->chunk);
		pool->chunk = next;
	}
}
