/*
 * pack.h - give every buffer of a schedule a fixed offset.
 *
 * Input:  sizes (bytes, multiples of TARN_ALIGNMENT) and half-open live ranges in steps.
 * Output: one offset each (multiples of TARN_ALIGNMENT, from 0), and the height.
 * Invariants
 *   - Buffers whose live ranges overlap never share a byte.
 *   - The result depends on the set of ranges alone, not on their order, the clock or the machine.
 *   - load <= height, where load is the largest sum of live bytes over time.
 */
#ifndef TARN_PLANNER_PACK_H
#define TARN_PLANNER_PACK_H

#include "planner/schedule.h"

/*
 * Portfolio of best-fit and skyline placements, then a bounded search, until height <= goal or the work limit is spent;
 * keeps the best. `goal`: stop as soon as the height is at most this (pass the load for the least height).
 * Writes offset[0..n), *height and *load. `effort` 0 is the portfolio alone. TARN_ENOMEM only.
 */
enum tarn_status pack_buffers(const struct buffer *buffer, uint32_t n, uint64_t goal, uint32_t effort,
			      struct host_arena *scratch, uint64_t *offset, uint64_t *height, uint64_t *load);

/* Plainly right: TARN_EINTERNAL names two buffers that share a byte while both live, or one above the height. */
enum tarn_status pack_check(const struct buffer *buffer, uint32_t n, const uint64_t *offset, uint64_t height);

#endif
