/*
 * bytes.h - size arithmetic that notices overflow, and sizes as people write them.
 *
 * Sizes are uint64_t bytes. GB = 10^9, GiB = 2^30; bare letters (4G) are refused because they mean both.
 */
#ifndef TARN_BASE_BYTES_H
#define TARN_BASE_BYTES_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every offset and size in the device arena is a multiple of this many bytes. */
#define TARN_ALIGNMENT ((uint64_t)64)

/* a * b and a + b; false, and *out untouched, when the result does not fit 64 bits. */
bool bytes_mul(uint64_t a, uint64_t b, uint64_t *out);
bool bytes_add(uint64_t a, uint64_t b, uint64_t *out);

/* Rounded up to the next multiple of TARN_ALIGNMENT. `bytes` must be at most UINT64_MAX - 63. */
uint64_t bytes_align(uint64_t bytes);

/*
 * Reads "24 MiB", "24MB", "0.5 GiB", "4294967296", "1.5e9 B". Units: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB.
 * A fraction that leaves no whole byte is rounded down. TARN_EINVAL with a sentence (without a place) on anything
 * else: negative, zero is allowed here, unknown unit with a suggestion, overflow.
 */
enum tarn_status bytes_parse(const char *text, uint64_t *out);

/* "6.50 MiB" (two decimals, binary unit; plain "512 B" below 1 KiB). Writes at most `size` bytes; returns buffer. */
#define BYTES_TEXT 32
const char *bytes_format(uint64_t bytes, char *buffer, size_t size);

#endif
