/*
 * testing.h - what every test program shares: one entry point, skips with a reason, seeded random numbers.
 *
 * A test program is tests/test_<module>.c (or tests/<group>/test_<what>.c): libcheck test cases, then
 *     int main(void) { return testing_run("module", (TFun...)); }   through TESTING_MAIN below.
 * It prints "tests: P passed, F failed, S skipped" as its last line and exits with 0 only when nothing failed.
 */
#ifndef TARN_TESTS_TESTING_H
#define TARN_TESTS_TESTING_H

#include "base/host_arena.h"
#include "base/status.h"

#include <check.h>
#include <stdint.h>

/* Runs the suite. TARN_TEST_ONLY=<case name> runs one case. Each test runs in a forked child with a timeout. */
int testing_run(Suite *suite);

/* Notes that the running test was left out, with the reason that `make check` prints. Use through TESTING_SKIP. */
void testing_skip(const char *test, const char *reason);
#define TESTING_SKIP(reason)                      \
	do {                                      \
		testing_skip(__func__, (reason)); \
		return;                           \
	} while (0)

/* TARN_OK or the test fails with the sentence. */
#define ck_assert_ok(call)                                                                                 \
	do {                                                                                               \
		enum tarn_status status_ = (call);                                                         \
		ck_assert_msg(status_ == TARN_OK, "%s: status %d: %s", #call, (int)status_, tarn_error()); \
	} while (0)
/* The status is the one expected and the sentence contains the text. */
#define ck_assert_fails(call, expected, text)                                                                    \
	do {                                                                                                     \
		enum tarn_status status_ = (call);                                                               \
		ck_assert_msg(status_ == (expected), "%s: status %d, expected %d: %s", #call, (int)status_,      \
			      (int)(expected), tarn_error());                                                    \
		ck_assert_msg(strstr(tarn_error(), (text)) != NULL, "%s: \"%s\" does not contain \"%s\"", #call, \
			      tarn_error(), (text));                                                             \
	} while (0)

/* Deterministic random numbers for property tests: SplitMix64. Print the seed in failure messages. */
struct testing_random {
	uint64_t state;
};
uint64_t testing_bits(struct testing_random *random);
/* In [low, high], both included. */
uint32_t testing_between(struct testing_random *random, uint32_t low, uint32_t high);
/* In [-1, 1). */
float testing_float(struct testing_random *random);

/* A fresh directory under TMPDIR, removed with its content when the program ends. */
const char *testing_directory(void);
/* Writes `bytes` of `data` to a file in testing_directory(); returns its path, valid until the next call but seven. */
const char *testing_file(const char *name, const void *data, size_t bytes);
/* The same for a version 1 npy file of less than 4 KiB with this dtype ("<f4") and shape ("(20, 4)"). */
const char *testing_npy(const char *name, const char *dtype, const char *shape, const void *data, size_t bytes);

#endif
