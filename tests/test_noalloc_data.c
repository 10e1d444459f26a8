/* test_noalloc_data.c - feeding batches and saving snapshots make no heap call once they are open. */
#include "data/feed.h"
#include "exec/snapshot.h"
#include "support/fake_device.h"
#include "support/heap_wrap.h"
#include "support/testing.h"

#include <stdio.h>
#include <string.h>

static struct host_arena arena;

static void setup(void)
{
	host_arena_init(&arena);
}

static void teardown(void)
{
	host_arena_fini(&arena);
}

/* The loader thread is counted too. Several epochs, short batches, rewinds, augmented images. */
START_TEST(feeding_makes_no_heap_call)
{
	struct config config;
	struct dataset dataset;
	struct feed *feed;
	memset(&config, 0, sizeof config);
	config.data.type = DATA_SYNTHETIC;
	config.data.shape = (struct size_list){ { 8, 8, 3 }, 3 };
	config.data.classes = 10;
	config.data.samples = 50;
	config.data.shift = 2;
	config.data.flip = true;
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	const struct feed_options options = {
		.dataset = &dataset, .batch = 8, .shuffle = true, .augment = true, .repeat = true
	};
	ck_assert_ok(feed_open(&options, &arena, &feed));
	uint64_t before = heap_wrap_calls(), samples = 0;
	enum tarn_status st = TARN_OK;
	for (uint32_t k = 0; k < 40 && !st; k++) {
		struct batch batch;
		st = feed_next(feed, &batch);
		samples += batch.samples;
		feed_release(feed);
		if (k % 13 == 12)
			feed_rewind(feed, k, 0);
	}
	feed_close(feed);
	uint64_t after = heap_wrap_calls();
	ck_assert_int_eq(st, TARN_OK);
	ck_assert_uint_gt(samples, 200);
	ck_assert_uint_eq(after, before);
}
END_TEST

START_TEST(saving_makes_no_heap_call)
{
	struct fake_device fake;
	struct snapshot *snapshot;
	char path[512];
	snprintf(path, sizeof path, "%s/state", testing_directory());
	fake_device_open(&fake, &arena);
	for (uint32_t i = 0; i < 200; i++) {
		char name[32];
		snprintf(name, sizeof name, "layer%u/weight", i);
		fake_device_add(&fake, name, ROLE_PARAMETER, DTYPE_F32, (uint32_t[]){ 3, i + 1 }, 2);
	}
	fake_device_finish(&fake, &arena);
	ck_assert_ok(snapshot_open(&fake.executor, path, &arena, &snapshot));
	const struct snapshot_position position = { .step = 1 };
	uint64_t hash, before = heap_wrap_calls();
	enum tarn_status st = snapshot_save(snapshot, NULL, &position);
	if (!st)
		st = snapshot_save(snapshot, NULL, &position);
	if (!st)
		st = snapshot_hash(snapshot, &position, &hash);
	uint64_t after = heap_wrap_calls();
	ck_assert_int_eq(st, TARN_OK);
	ck_assert_uint_eq(after, before);
	snapshot_close(snapshot);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("noalloc_data");
	TCase *test = tcase_create("noalloc_data");
	tcase_add_checked_fixture(test, setup, teardown);
	tcase_add_test(test, feeding_makes_no_heap_call);
	tcase_add_test(test, saving_makes_no_heap_call);
	suite_add_tcase(suite, test);
	return testing_run(suite);
}
