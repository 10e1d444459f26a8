/*
 * pack.h - give every buffer a fixed offset in one arena.
 *
 * Input:  sizes (bytes) and half-open live ranges; alignments and pinned offsets where a buffer has them.
 * Output: one offset each, the height, a lower bound of any height, and whether the height is proved to be the least.
 * Invariants
 *   - Buffers whose live ranges overlap never share a byte.
 *   - The result depends on the set of buffers alone, not on their order, the clock or the machine: work is limited by
 *     counts. A stop function only truncates.
 *   - load <= lower bound <= height, where load is the largest sum of live bytes over time.
 */
#ifndef TARN_PLANNER_PACK_H
#define TARN_PLANNER_PACK_H

#include "planner/schedule.h"

#include <stdbool.h>

#define PACK_ANYWHERE UINT64_MAX

struct pack_buffer {
	uint64_t bytes;
	uint64_t first, last; /* half-open; first < last */
	uint64_t align;       /* bytes, at least 1 (0 means 1) */
	uint64_t pinned;      /* the offset it must have; PACK_ANYWHERE */
};

struct pack_options {
	uint64_t capacity; /* bytes: what the outcome is about; UINT64_MAX: none */
	bool minimise;     /* look for the least height; else stop when the capacity is met or proved to be too small */
	uint64_t goal;     /* when minimising: a height that is low enough to stop at; 0: none */
	uint64_t effort;   /* how much work: see pack_solve */
	bool (*stop)(void *context); /* NULL, or asked now and then: true ends the search with what there is */
	void *context;
	const char *const *name; /* NULL, or [n]: what messages call the buffers instead of by their numbers */
};

enum pack_outcome {
	PACK_FITS,       /* height <= capacity */
	PACK_INFEASIBLE, /* proved: no packing has a height of at most capacity */
	PACK_UNDECIDED   /* height > capacity, and nothing is proved */
};

struct pack_result {
	enum pack_outcome outcome;
	uint64_t height, load, lower_bound;
	bool optimal;     /* height == lower_bound */
	uint64_t fullest; /* a time at which the load is live */
	uint64_t nodes;   /* of the exact search */
};

/*
 * Packs with placements by rule, for many buffers with rules that learn from where they fail, and with an exhaustive
 * search (pack_exact.h). Writes offset[0..n) and *result in every case but an error. The load alone may refuse a
 * capacity. `effort`: 0 places by rule only; else how much the searches may spend, in nodes of a small problem; a node
 * of a larger one counts as more. A million is about a second.
 * TARN_EINVAL names a bad buffer or pinned ones that overlap; TARN_ENOMEM.
 */
enum tarn_status pack_solve(const struct pack_buffer *buffer, uint32_t n, const struct pack_options *options,
			    struct host_arena *scratch, uint64_t *offset, struct pack_result *result);

/*
 * The same for the buffers of a schedule: sizes and offsets are multiples of TARN_ALIGNMENT. `goal`: stop as soon as
 * the height is at most this (pass the load for the least height). `effort` 0 is the placements by rule alone; a
 * few hundred are milliseconds for some hundred buffers. TARN_ENOMEM only.
 */
enum tarn_status pack_buffers(const struct buffer *buffer, uint32_t n, uint64_t goal, uint32_t effort,
			      struct host_arena *scratch, uint64_t *offset, uint64_t *height, uint64_t *load);

/* Plainly right: TARN_EINTERNAL names two buffers that share a byte while both live, or one above the height. */
enum tarn_status pack_check(const struct buffer *buffer, uint32_t n, const uint64_t *offset, uint64_t height);

#endif
