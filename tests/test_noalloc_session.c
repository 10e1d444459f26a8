/* test_noalloc_session.c - during steps, evaluation, saving and hashing the project's own code makes no heap call. */
#include "support/heap_wrap.h"
#include "support/testing.h"
#include "support/training.h"

#include <stdio.h>
#include <string.h>

#define STEPS 100

static long status_kib(const char *key)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[256];
	long value = -1;
	while (file && fgets(line, sizeof line, file))
		if (!strncmp(line, key, strlen(key)))
			sscanf(line + strlen(key), ": %ld", &value);
	if (file)
		fclose(file);
	return value;
}

static struct tarn_session *open_session(const char *text, const char *const *override, uint32_t overrides)
{
	struct tarn_options options = { .config_text = text, .override = override, .overrides = overrides };
	struct tarn_session *session = NULL;
	ck_assert_ok(tarn_open(&options, &session));
	return session;
}

START_TEST(a_session_makes_no_heap_call_after_boot)
{
	static const char *const networks[] = { training_residual, training_tied, training_frozen, training_unet };
	char snapshot[512];
	snprintf(snapshot, sizeof snapshot, "train.snapshot=%s/session-%d.safetensors", testing_directory(), _i);
	const char *override[] = { "data.test_samples=20", snapshot };
	struct tarn_session *session = open_session(networks[_i], override, 2);
	struct tarn_metrics metrics;
	struct tarn_evaluation evaluation;
	uint64_t hash;
	uint64_t before = heap_wrap_calls();
	enum tarn_status st = TARN_OK;
	for (int step = 0; step < STEPS && !st; step++)
		st = tarn_step(session, &metrics);
	uint64_t stepped = heap_wrap_calls();
	if (!st)
		st = tarn_evaluate(session, &evaluation);
	uint64_t evaluated = heap_wrap_calls();
	if (!st)
		st = tarn_save(session, NULL);
	uint64_t saved = heap_wrap_calls();
	if (!st)
		st = tarn_weights_hash(session, &hash);
	uint64_t hashed = heap_wrap_calls();
	ck_assert_ok(st);
	ck_assert_uint_eq(evaluation.samples, 20);
	ck_assert_uint_eq(stepped - before, 0);
	ck_assert_uint_eq(evaluated - stepped, 0);
	ck_assert_uint_eq(saved - evaluated, 0);
	ck_assert_uint_eq(hashed - saved, 0);
	tarn_close(session);
}
END_TEST

/* Anonymous memory (heap, stacks, arena) does not grow by a page from the end of boot on. */
START_TEST(resident_memory_stays_flat_after_boot)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	TESTING_SKIP("the sanitizer's own memory grows with what is touched");
#endif
	const char *override[] = { "data.test_samples=20" };
	struct tarn_session *session = open_session(training_residual, override, 1);
	struct tarn_metrics metrics;
	struct tarn_evaluation evaluation;
	status_kib("RssAnon"); /* the first read of /proc allocates */
	long booted = status_kib("RssAnon");
	for (int step = 0; step < STEPS; step++)
		ck_assert_ok(tarn_step(session, &metrics));
	ck_assert_ok(tarn_evaluate(session, &evaluation));
	long stepped = status_kib("RssAnon");
	for (int step = 0; step < 10 * STEPS; step++)
		ck_assert_ok(tarn_step(session, &metrics));
	long later = status_kib("RssAnon");
	ck_assert_int_gt(booted, 0);
	ck_assert_msg(stepped - booted <= 64, "resident memory: %ld KiB after boot, %ld KiB after %d steps", booted,
		      stepped, STEPS);
	ck_assert_msg(later <= stepped, "resident memory: %ld KiB after %d steps, %ld KiB after %d", stepped, STEPS,
		      later, 11 * STEPS);
	tarn_close(session);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("noalloc_session");
	TCase *heap = tcase_create("heap"), *resident = tcase_create("resident");
	tcase_set_timeout(heap, 120);
	tcase_set_timeout(resident, 120);
	tcase_add_loop_test(heap, a_session_makes_no_heap_call_after_boot, 0, 4);
	tcase_add_test(resident, resident_memory_stays_flat_after_boot);
	suite_add_tcase(suite, heap);
	suite_add_tcase(suite, resident);
	return testing_run(suite);
}
