/* test_feed.c - the sequence of batches: complete, reproducible, the same whatever the timing. */
#include "data/feed.h"

#include "support/testing.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* A dataset whose sample n holds n in each of its elements, with label n. */
#define ELEMENTS 5u
#define MOST_SAMPLES 100u
static float values[MOST_SAMPLES * ELEMENTS];
static int32_t labels[MOST_SAMPLES];
static struct config config;
static struct host_arena arena;
static struct dataset dataset;
static struct feed_options options;

static void setup(void)
{
	host_arena_init(&arena);
	for (uint32_t n = 0; n < MOST_SAMPLES; n++) {
		labels[n] = (int32_t)n;
		for (uint32_t i = 0; i < ELEMENTS; i++)
			values[n * ELEMENTS + i] = (float)n;
	}
	memset(&config, 0, sizeof config);
	dataset = (struct dataset){ .config = &config,
				    .samples = 17,
				    .shape = { .dim = { ELEMENTS }, .rank = 1, .classes = MOST_SAMPLES },
				    .sample_elements = ELEMENTS,
				    .target_elements = 1,
				    .values = values,
				    .labels = labels,
				    .channels = ELEMENTS,
				    .size = { { .sample_elements = ELEMENTS, .target_elements = 1 } },
				    .sizes = 1 };
	options = (struct feed_options){ .dataset = &dataset, .batch = 4, .shuffle = true, .seed = 42 };
}

static void teardown(void)
{
	host_arena_fini(&arena);
}

/* Sleeps now and then, so that now the loader and now the caller waits. */
static void dawdle(struct testing_random *random)
{
	struct timespec pause = { 0, testing_between(random, 0, 200000) };
	if (testing_between(random, 0, 3) == 0)
		nanosleep(&pause, NULL);
}

/* Reads up to `most` batches and notes sample numbers; returns how many samples. Checks that input and label agree. */
static uint32_t drain(struct feed *feed, uint32_t most, uint32_t *sample, uint64_t seed)
{
	struct testing_random random = { seed };
	uint32_t count = 0;
	for (uint32_t k = 0; k < most; k++) {
		struct batch batch;
		if (seed)
			dawdle(&random);
		ck_assert_ok(feed_next(feed, &batch));
		if (!batch.samples)
			break;
		if (seed)
			dawdle(&random);
		for (uint32_t i = 0; i < batch.samples; i++) {
			int32_t label = ((const int32_t *)batch.target)[i];
			for (uint32_t e = 0; e < ELEMENTS; e++)
				ck_assert_float_eq(batch.input[i * ELEMENTS + e], (float)label);
			sample[count++] = (uint32_t)label;
		}
		feed_release(feed);
	}
	return count;
}

/* 17 samples in batches of 1, 4, 16, 17 and 40: each sample once; the last batch is short (R117: it may hold one
 * sample). */
START_TEST(gives_each_sample_of_an_epoch_once)
{
	static const uint32_t sizes[] = { 1, 4, 16, 17, 40 };
	for (size_t k = 0; k < 5; k++) {
		struct feed *feed;
		options.batch = sizes[k];
		ck_assert_ok(feed_open(&options, &arena, &feed));
		uint32_t expected = (17 + sizes[k] - 1) / sizes[k], seen[17] = { 0 }, total = 0;
		for (uint32_t b = 0; b < expected; b++) {
			struct batch batch;
			ck_assert_ok(feed_next(feed, &batch));
			ck_assert_uint_eq(batch.epoch, 0);
			ck_assert_uint_eq(batch.number, b);
			ck_assert_uint_eq(batch.samples, b + 1 < expected ? sizes[k] : 17 - b * sizes[k]);
			for (uint32_t i = 0; i < batch.samples; i++)
				seen[((const int32_t *)batch.target)[i]]++;
			total += batch.samples;
			feed_release(feed);
		}
		ck_assert_uint_eq(total, 17);
		for (int n = 0; n < 17; n++)
			ck_assert_uint_eq(seen[n], 1);
		for (int again = 0; again < 2; again++) {
			struct batch batch;
			ck_assert_ok(feed_next(feed, &batch));
			ck_assert_uint_eq(batch.samples, 0);
		}
		feed_close(feed);
	}
}
END_TEST

START_TEST(drops_the_last_short_batch)
{
	struct feed *feed;
	uint32_t sample[64];
	options.drop_last = true;
	ck_assert_ok(feed_open(&options, &arena, &feed));
	ck_assert_uint_eq(drain(feed, 10, sample, 0), 16);
	feed_close(feed);
	/* R095: no batch at all is said before training. */
	options.batch = 18;
	ck_assert_fails(feed_open(&options, &arena, &feed), TARN_EDATA,
			"the dataset has 17 samples, one batch needs 18");
	dataset.samples = 0;
	ck_assert_fails(feed_open(&options, &arena, &feed), TARN_EDATA, "0 samples");
	options.batch = 0;
	ck_assert_fails(feed_open(&options, &arena, &feed), TARN_EINVAL, "data.batch is 0");
}
END_TEST

START_TEST(serves_one_sample_again_and_again)
{
	struct feed *feed;
	dataset.samples = 1;
	options.repeat = true;
	ck_assert_ok(feed_open(&options, &arena, &feed));
	for (uint32_t epoch = 0; epoch < 50; epoch++) {
		struct batch batch;
		ck_assert_ok(feed_next(feed, &batch));
		ck_assert_uint_eq(batch.samples, 1);
		ck_assert_uint_eq(batch.epoch, epoch);
		ck_assert_uint_eq(batch.number, 0);
		feed_release(feed);
	}
	feed_close(feed);
}
END_TEST

/* The same sequence whoever waits for whom; epochs differ from one another. */
START_TEST(sequence_does_not_depend_on_timing)
{
	struct feed *feed;
	uint32_t first[200], other[200];
	options.repeat = true;
	ck_assert_ok(feed_open(&options, &arena, &feed));
	uint32_t count = drain(feed, 30, first, 0);
	feed_close(feed);
	ck_assert_uint_eq(count, 6 * 17);
	ck_assert_mem_ne(first, first + 17, 17 * sizeof *first);
	for (uint64_t seed = 1; seed < 6; seed++) {
		ck_assert_ok(feed_open(&options, &arena, &feed));
		ck_assert_uint_eq(drain(feed, 30, other, seed), count);
		feed_close(feed);
		ck_assert_mem_eq(first, other, count * sizeof *first);
	}
	options.seed++;
	ck_assert_ok(feed_open(&options, &arena, &feed));
	drain(feed, 30, other, 0);
	feed_close(feed);
	ck_assert_mem_ne(first, other, count * sizeof *first);
}
END_TEST

/* Starting, and rewinding, at any (epoch, batch) goes on as the run that got there by itself. A place past the end of
 * its epoch is the first of the next. */
START_TEST(resumes_at_any_batch)
{
	struct feed *whole, *rewound;
	uint32_t all[400], rest[400];
	options.repeat = true;
	ck_assert_ok(feed_open(&options, &arena, &whole));
	drain(whole, 60, all, 0);
	feed_close(whole);
	ck_assert_ok(feed_open(&options, &arena, &rewound));
	uint64_t requests = arena.requests;
	for (uint32_t place = 0; place < 40; place++) {
		uint32_t epoch = place / 5, batch = place % 5, skipped = epoch * 17 + batch * 4;
		if (place % 2 && batch == 0 && epoch) {
			epoch--;
			batch = 5;
		}
		/* Leave a batch unreleased, take one, or none, before going elsewhere. */
		struct batch unused;
		if (place % 3 == 1)
			ck_assert_ok(feed_next(rewound, &unused));
		else if (place % 3 == 2)
			drain(rewound, 1, rest, 0);
		feed_rewind(rewound, epoch, batch);
		uint32_t count = drain(rewound, 20, rest, place);
		ck_assert_mem_eq(all + skipped, rest, count * sizeof *rest);
		ck_assert_uint_ge(count, 60);
	}
	ck_assert_uint_eq(arena.requests, requests);
	feed_close(rewound);
	for (uint32_t batch = 0; batch <= 5; batch++) {
		struct feed *feed;
		options.first_epoch = 3;
		options.first_batch = batch;
		ck_assert_ok(feed_open(&options, &arena, &feed));
		drain(feed, 10, rest, 0);
		feed_close(feed);
		uint32_t skipped = 3 * 17 + (batch < 5 ? batch * 4 : 17);
		ck_assert_mem_eq(all + skipped, rest, 34 * sizeof *rest);
	}
}
END_TEST

/* Evaluation: one feed without repeat, rewound for each pass. */
START_TEST(rewinds_for_each_evaluation)
{
	struct feed *feed;
	uint32_t sample[64];
	options.shuffle = false;
	ck_assert_ok(feed_open(&options, &arena, &feed));
	for (int pass = 0; pass < 20; pass++) {
		ck_assert_uint_eq(drain(feed, 100, sample, (uint64_t)pass), 17);
		for (uint32_t i = 0; i < 17; i++)
			ck_assert_uint_eq(sample[i], i);
		feed_rewind(feed, 0, 0);
	}
	feed_close(feed);
}
END_TEST

/* Closing at any moment ends the thread: while it fills, waits, was just rewound, or holds a batch for the caller. */
START_TEST(closes_at_any_moment)
{
	for (uint64_t seed = 1; seed < 200; seed++) {
		struct testing_random random = { seed };
		struct feed *feed;
		struct batch batch;
		options.repeat = seed % 2;
		ck_assert_ok(feed_open(&options, &arena, &feed));
		for (uint32_t k = testing_between(&random, 0, 4); k > 0; k--) {
			dawdle(&random);
			ck_assert_ok(feed_next(feed, &batch));
			if (k > 1)
				feed_release(feed);
		}
		if (testing_between(&random, 0, 1))
			feed_rewind(feed, 1, 1);
		feed_close(feed);
	}
	feed_close(NULL);
}
END_TEST

START_TEST(refuses_a_second_batch_before_release)
{
	struct feed *feed;
	struct batch batch;
	ck_assert_ok(feed_open(&options, &arena, &feed));
	ck_assert_ok(feed_next(feed, &batch));
	ck_assert_fails(feed_next(feed, &batch), TARN_EINTERNAL, "not released");
	feed_release(feed);
	ck_assert_ok(feed_next(feed, &batch));
	ck_assert_uint_eq(batch.number, 1);
	feed_close(feed);
}
END_TEST

/* A batch that had time to be made is no stall. Waits for the loader by asking until it is quick: no timing is assumed.
 */
START_TEST(counts_stalls)
{
	struct feed *feed;
	struct batch batch;
	options.repeat = true;
	ck_assert_ok(feed_open(&options, &arena, &feed));
	uint64_t asked = 0, before = 0, after = 0;
	do {
		struct timespec pause = { 0, 1000000 };
		nanosleep(&pause, NULL);
		before = feed_stalls(feed);
		ck_assert_ok(feed_next(feed, &batch));
		feed_release(feed);
		after = feed_stalls(feed);
		asked++;
		ck_assert_uint_le(after, asked);
	} while (after > before);
	feed_close(feed);
}
END_TEST

START_TEST(survives_missing_memory)
{
	struct feed *feed;
	enum tarn_status st = TARN_ENOMEM;
	for (uint64_t n = 1; st; n++) {
		struct host_arena small;
		host_arena_init(&small);
		small.fail_at = n;
		st = feed_open(&options, &small, &feed);
		ck_assert_msg(st == TARN_OK || st == TARN_ENOMEM, "request %lu: status %d", (unsigned long)n, (int)st);
		if (!st)
			feed_close(feed);
		host_arena_fini(&small);
		ck_assert_uint_lt(n, 50);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("feed");
	TCase *test = tcase_create("feed");
	tcase_add_checked_fixture(test, setup, teardown);
	tcase_set_timeout(test, 60);
	tcase_add_test(test, gives_each_sample_of_an_epoch_once);
	tcase_add_test(test, drops_the_last_short_batch);
	tcase_add_test(test, serves_one_sample_again_and_again);
	tcase_add_test(test, sequence_does_not_depend_on_timing);
	tcase_add_test(test, resumes_at_any_batch);
	tcase_add_test(test, rewinds_for_each_evaluation);
	tcase_add_test(test, closes_at_any_moment);
	tcase_add_test(test, refuses_a_second_batch_before_release);
	tcase_add_test(test, counts_stalls);
	tcase_add_test(test, survives_missing_memory);
	suite_add_tcase(suite, test);
	return testing_run(suite);
}
