/* host_arena.c - bump arena over malloc'd blocks. */
#include "base/host_arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT ((size_t)64)
#define BLOCK_BYTES ((size_t)1 << 18)

struct host_block {
	struct host_block *older;
	size_t used, capacity; /* bytes behind the header */
	unsigned char *data;
};

void host_arena_init(struct host_arena *arena)
{
	memset(arena, 0, sizeof *arena);
}

static void pop_block(struct host_arena *arena)
{
	struct host_block *block = arena->head;
	arena->head = block->older;
	free(block->data);
	free(block);
}

void host_arena_fini(struct host_arena *arena)
{
	while (arena->head)
		pop_block(arena);
}

static struct host_block *push_block(struct host_arena *arena, size_t bytes)
{
	struct host_block *block = malloc(sizeof *block);
	if (!block)
		return NULL;
	/* Doubling keeps the number of blocks logarithmic. */
	size_t capacity = arena->head ? arena->head->capacity * 2 : BLOCK_BYTES;
	if (capacity > (size_t)1 << 26)
		capacity = (size_t)1 << 26;
	if (capacity < bytes)
		capacity = bytes;
	block->data = aligned_alloc(ALIGNMENT, capacity);
	if (!block->data) {
		free(block);
		return NULL;
	}
	block->older = arena->head;
	block->used = 0;
	block->capacity = capacity;
	arena->head = block;
	return block;
}

void *host_arena_alloc(struct host_arena *arena, size_t count, size_t size)
{
	arena->requests++;
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - ALIGNMENT) {
		tarn_fail(TARN_ENOMEM, "host memory: %zu objects of %zu bytes are more than the machine can address",
			  count, size);
		return NULL;
	}
	bytes = (bytes + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
	if (!bytes)
		bytes = ALIGNMENT;
	struct host_block *block = arena->head;
	if (arena->requests == arena->fail_at)
		block = NULL;
	else if (!block || block->capacity - block->used < bytes)
		block = push_block(arena, bytes);
	if (!block) {
		tarn_fail(TARN_ENOMEM, "host memory: cannot get %zu bytes", bytes);
		return NULL;
	}
	void *p = block->data + block->used;
	block->used += bytes;
	arena->bytes += bytes;
	return memset(p, 0, bytes);
}

char *host_arena_text_n(struct host_arena *arena, const char *text, size_t bytes)
{
	char *copy = host_arena_alloc(arena, bytes + 1, 1);
	return copy ? memcpy(copy, text, bytes) : NULL;
}

char *host_arena_text(struct host_arena *arena, const char *text)
{
	return host_arena_text_n(arena, text, strlen(text));
}

char *host_arena_printf(struct host_arena *arena, const char *format, ...)
{
	va_list arguments;
	char none[1];
	va_start(arguments, format);
	int length = vsnprintf(none, sizeof none, format, arguments);
	va_end(arguments);
	char *text = host_arena_alloc(arena, (size_t)length + 1, 1);
	if (!text)
		return NULL;
	va_start(arguments, format);
	vsnprintf(text, (size_t)length + 1, format, arguments);
	va_end(arguments);
	return text;
}

void *host_arena_grow(struct host_arena *arena, void *array, size_t *capacity, size_t needed, size_t size)
{
	if (array && needed <= *capacity)
		return array;
	size_t larger = *capacity ? *capacity : 16;
	while (larger < needed)
		larger *= 2;
	void *copy = host_arena_alloc(arena, larger, size);
	if (!copy)
		return NULL;
	if (array && *capacity)
		memcpy(copy, array, *capacity * size);
	*capacity = larger;
	return copy;
}

struct host_mark host_arena_mark(const struct host_arena *arena)
{
	struct host_mark mark = { arena->head, arena->head ? arena->head->used : 0 };
	return mark;
}

void host_arena_release(struct host_arena *arena, struct host_mark mark)
{
	while (arena->head != mark.head)
		pop_block(arena);
	if (arena->head)
		arena->head->used = mark.used;
}
