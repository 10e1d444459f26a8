/* The counter of heap calls counts: a test that sees no call is worth something only then. */
#include "support/heap_wrap.h"
#include "support/testing.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Keeps the compiler from removing a request whose block is never used. */
static void release(void *block)
{
	void *volatile keep = block;
	free(keep);
}

START_TEST(counts_every_function_once)
{
	void *block = NULL;
	uint64_t seen[11];
	seen[0] = heap_wrap_calls();
	release(malloc(10));
	seen[1] = heap_wrap_calls();
	release(calloc(2, 5));
	seen[2] = heap_wrap_calls();
	release(realloc(NULL, 10));
	seen[3] = heap_wrap_calls();
	release(reallocarray(NULL, 2, 5));
	seen[4] = heap_wrap_calls();
	release(aligned_alloc(64, 128));
	seen[5] = heap_wrap_calls();
	int status = posix_memalign(&block, 64, 128);
	release(block);
	seen[6] = heap_wrap_calls();
	release(memalign(64, 128));
	seen[7] = heap_wrap_calls();
	release(valloc(10));
	seen[8] = heap_wrap_calls();
	release(strdup("a text"));
	seen[9] = heap_wrap_calls();
	release(strndup("a text", 3));
	seen[10] = heap_wrap_calls();
	ck_assert_int_eq(status, 0);
	for (int i = 0; i < 10; i++)
		ck_assert_msg(seen[i + 1] - seen[i] == 2, "function %d: %d calls, expected 2", i,
			      (int)(seen[i + 1] - seen[i]));
}
END_TEST

/* The library's objects are watched, not only the test's. */
START_TEST(sees_into_the_library)
{
	struct host_arena arena;
	host_arena_init(&arena);
	uint64_t before = heap_wrap_calls();
	void *memory = host_arena_alloc(&arena, 1, 100);
	uint64_t filled = heap_wrap_calls();
	host_arena_fini(&arena);
	uint64_t emptied = heap_wrap_calls();
	ck_assert_ptr_nonnull(memory);
	ck_assert_uint_gt(filled, before);
	ck_assert_uint_gt(emptied, filled);
}
END_TEST

static void *allocate_often(void *count)
{
	for (int i = 0; i < *(int *)count; i++)
		release(malloc(16));
	return NULL;
}

START_TEST(loses_no_call_of_two_threads)
{
	int count = 10000;
	pthread_t thread;
	uint64_t before = heap_wrap_calls();
	ck_assert_int_eq(pthread_create(&thread, NULL, allocate_often, &count), 0);
	allocate_often(&count);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_uint_ge(heap_wrap_calls() - before, 4 * (uint64_t)count);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("heap_wrap");
	TCase *counting = tcase_create("counting");
	tcase_add_test(counting, counts_every_function_once);
	tcase_add_test(counting, sees_into_the_library);
	tcase_add_test(counting, loses_no_call_of_two_threads);
	suite_add_tcase(suite, counting);
	return testing_run(suite);
}
