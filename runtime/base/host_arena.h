/*
 * host_arena.h - host memory of the boot stages: a bump arena.
 *
 * A boot stage takes all its host memory from an arena it is handed and gives nothing back one by one; whoever made
 * the arena frees it whole. Memory comes in blocks from malloc, is zeroed and aligned to 64 bytes.
 * The step loop never allocates from it.
 *
 * Errors: host_arena_alloc returns NULL after tarn_fail(TARN_ENOMEM, ...). For tests the n-th request can be made
 * to fail (fail_at), so that every error path runs for real.
 */
#ifndef TARN_BASE_HOST_ARENA_H
#define TARN_BASE_HOST_ARENA_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct host_block;

struct host_arena {
	struct host_block *head; /* newest block; older ones hang behind it */
	uint64_t requests;       /* how many allocations were asked for so far */
	uint64_t fail_at;        /* the request with this number (from 1) fails; 0: none does */
	uint64_t bytes;          /* handed out so far */
};

struct host_mark {
	struct host_block *head;
	size_t used;
};

void host_arena_init(struct host_arena *arena);
void host_arena_fini(struct host_arena *arena);

/* `count` objects of `size` bytes, zeroed. NULL after tarn_fail on overflow or when the host has no more. */
void *host_arena_alloc(struct host_arena *arena, size_t count, size_t size);
/* A copy of the text, or of at most `bytes` of it. */
char *host_arena_text(struct host_arena *arena, const char *text);
char *host_arena_text_n(struct host_arena *arena, const char *text, size_t bytes);
char *host_arena_printf(struct host_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Makes room for at least `needed` objects in a growing array: returns `array` itself while needed <= *capacity,
 * else a larger copy (capacity at least doubled, old memory is left to the arena). NULL on failure, *capacity kept.
 */
void *host_arena_grow(struct host_arena *arena, void *array, size_t *capacity, size_t needed, size_t size);

/* Everything allocated after the mark is given back by release. Marks nest. */
struct host_mark host_arena_mark(const struct host_arena *arena);
void host_arena_release(struct host_arena *arena, struct host_mark mark);

#define HOST_NEW(arena, type) ((type *)host_arena_alloc((arena), 1, sizeof(type)))
#define HOST_ARRAY(arena, count, type) ((type *)host_arena_alloc((arena), (count), sizeof(type)))

#endif
