/*
 * status.h - one error type, one sentence.
 *
 * Every function that can fail returns enum tarn_status; zero is success. The sentence that explains the
 * failure is kept in a fixed buffer of the calling thread: tarn_fail() writes it, tarn_error() reads it.
 * The values double as exit codes of the command line (documented in docs/architecture.md).
 *
 * Rules
 *   - A sentence names what is wrong with its numbers and what would be right; "file:line:column: " comes
 *     first where there is a place. No trailing newline or full stop.
 *   - The first failure is kept: cleaning up after a failure must not overwrite its sentence.
 */
#ifndef TARN_BASE_STATUS_H
#define TARN_BASE_STATUS_H

#include "tarn_status.h"

/* Longest sentence, terminating zero included. */
#define TARN_ERROR_BYTES 1024

/* Keeps the sentence and returns `status`, so that callers write `return tarn_fail(...)`. */
enum tarn_status tarn_fail(enum tarn_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "prefix: " before the sentence that is kept (a file name in front of a parser's complaint); returns `status`. */
enum tarn_status tarn_fail_prefix(enum tarn_status status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Forgets the sentence of this thread. */
void tarn_error_clear(void);

#endif
