/* test_pack.c - packings: no overlaps, gaps are found, the input's order is irrelevant. */
#include "planner/pack.h"
#include "support/testing.h"

#include <string.h>

#define CASES 200
#define MOST 60u

static struct host_arena arena;
static uint64_t offset[MOST], height, load;

static void setup(void)
{
	host_arena_init(&arena);
}

static void teardown(void)
{
	host_arena_fini(&arena);
}

static uint32_t random_buffers(struct testing_random *random, struct buffer *buffer)
{
	uint32_t n = testing_between(random, 0, MOST);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t first = testing_between(random, 0, 40);
		buffer[i] =
			(struct buffer){ 64 * (uint64_t)testing_between(random, 1, 20), first,
					 first + testing_between(random, 1, testing_between(random, 0, 3) ? 6 : 40) };
	}
	return n;
}

static uint64_t load_by_definition(const struct buffer *buffer, uint32_t n)
{
	uint64_t most = 0;
	for (uint32_t t = 0; t < 100; t++) {
		uint64_t bytes = 0;
		for (uint32_t i = 0; i < n; i++)
			bytes += buffer[i].first <= t && t < buffer[i].last ? buffer[i].bytes : 0;
		most = bytes > most ? bytes : most;
	}
	return most;
}

START_TEST(random_buffers_share_no_byte)
{
	struct testing_random random = { .state = (uint64_t)_i };
	struct buffer buffer[MOST];
	uint32_t n = random_buffers(&random, buffer);
	uint64_t portfolio;
	ck_assert_ok(pack_buffers(buffer, n, 0, 0, &arena, offset, &portfolio, &load));
	ck_assert_ok(pack_check(buffer, n, offset, portfolio));
	ck_assert_uint_eq(load, load_by_definition(buffer, n));
	ck_assert_ok(pack_buffers(buffer, n, 0, 300, &arena, offset, &height, &load));
	ck_assert_ok(pack_check(buffer, n, offset, height));
	ck_assert_msg(load <= height && height <= portfolio, "seed %d", _i);
}
END_TEST

/* The same buffers in another order get the same offsets. */
START_TEST(order_of_the_input_is_irrelevant)
{
	struct testing_random random = { .state = (uint64_t)_i + 1000 };
	struct buffer buffer[MOST], shuffled[MOST];
	uint32_t n = random_buffers(&random, buffer), place[MOST];
	uint64_t other[MOST], other_height, other_load;
	/* Equal buffers may swap their offsets: make all different. */
	for (uint32_t i = 0; i < n; i++) {
		buffer[i].bytes += 64 * 20 * (uint64_t)i;
		place[i] = i;
	}
	for (uint32_t i = n; i-- > 1;) {
		uint32_t k = testing_between(&random, 0, i), kept = place[i];
		place[i] = place[k];
		place[k] = kept;
	}
	for (uint32_t i = 0; i < n; i++)
		shuffled[i] = buffer[place[i]];
	ck_assert_ok(pack_buffers(buffer, n, 0, 50, &arena, offset, &height, &load));
	ck_assert_ok(pack_buffers(shuffled, n, 0, 50, &arena, other, &other_height, &other_load));
	ck_assert_uint_eq(height, other_height);
	for (uint32_t i = 0; i < n; i++)
		ck_assert_msg(other[i] == offset[place[i]], "seed %d buffer %u", _i, place[i]);
}
END_TEST

static void expect_height(const struct buffer *buffer, uint32_t n, uint64_t expected)
{
	ck_assert_ok(pack_buffers(buffer, n, 0, 20, &arena, offset, &height, &load));
	ck_assert_ok(pack_check(buffer, n, offset, height));
	ck_assert_uint_eq(height, expected);
}

/* The only packing at the load puts the last buffer below, between or above the others. */
START_TEST(uses_gaps_below_between_and_above)
{
	const struct buffer below[] = { { 128, 0, 2 }, { 256, 1, 4 }, { 128, 3, 5 } };
	const struct buffer between[] = { { 64, 0, 9 }, { 192, 0, 3 }, { 64, 2, 9 }, { 128, 3, 6 }, { 64, 5, 7 } };
	const struct buffer above[] = { { 256, 0, 8 }, { 64, 0, 3 }, { 64, 3, 6 }, { 64, 6, 8 } };
	expect_height(below, 3, 384);
	expect_height(between, 5, 320);
	expect_height(above, 4, 320);
}
END_TEST

START_TEST(small_and_uniform_inputs)
{
	struct buffer buffer[MOST] = { 0 };
	expect_height(buffer, 0, 0);
	buffer[0] = (struct buffer){ 192, 5, 6 };
	expect_height(buffer, 1, 192);
	ck_assert_uint_eq(offset[0], 0);
	for (uint32_t i = 0; i < MOST; i++)
		buffer[i] = (struct buffer){ 64, 0, 3 };
	expect_height(buffer, MOST, 64 * MOST);
	for (uint32_t i = 0; i < MOST; i++)
		buffer[i] = (struct buffer){ 64 * (uint64_t)(i + 1), i, i + 1 };
	expect_height(buffer, MOST, 64 * MOST);
	/* Sizes far above 32 bits. */
	for (uint32_t i = 0; i < 3; i++)
		buffer[i] = (struct buffer){ (uint64_t)1 << 40, 0, 1000000 };
	expect_height(buffer, 3, (uint64_t)3 << 40);
}
END_TEST

START_TEST(stops_at_the_goal)
{
	const struct buffer buffer[] = { { 128, 0, 2 }, { 256, 1, 4 }, { 128, 3, 5 } };
	ck_assert_ok(pack_buffers(buffer, 3, 1024, 1000, &arena, offset, &height, &load));
	ck_assert_ok(pack_check(buffer, 3, offset, height));
	ck_assert_uint_le(height, 1024);
}
END_TEST

/* A height that was found is found again when it is the goal, and so is any above it. */
START_TEST(a_height_found_is_a_goal_met)
{
	struct testing_random random = { .state = (uint64_t)_i + 2000 };
	struct buffer buffer[MOST];
	uint32_t n = random_buffers(&random, buffer);
	uint64_t least;
	ck_assert_ok(pack_buffers(buffer, n, 0, 300, &arena, offset, &least, &load));
	for (uint64_t goal = least; goal <= least + 192; goal += 64) {
		ck_assert_ok(pack_buffers(buffer, n, goal, 300, &arena, offset, &height, &load));
		ck_assert_ok(pack_check(buffer, n, offset, height));
		ck_assert_msg(height <= goal, "seed %d", _i);
	}
}
END_TEST

START_TEST(check_sees_overlaps_and_heights)
{
	const struct buffer buffer[] = { { 128, 0, 2 }, { 128, 1, 3 }, { 128, 2, 4 } };
	ck_assert_ok(pack_check(buffer, 3, (uint64_t[]){ 0, 128, 0 }, 256));
	ck_assert_fails(pack_check(buffer, 3, (uint64_t[]){ 0, 64, 0 }, 256), TARN_EINTERNAL, "buffers 0 and 1 share");
	ck_assert_fails(pack_check(buffer, 3, (uint64_t[]){ 0, 128, 0 }, 192), TARN_EINTERNAL, "above the height 192");
	ck_assert_fails(pack_check(buffer, 3, (uint64_t[]){ 0, 130, 0 }, 512), TARN_EINTERNAL, "offset 130");
}
END_TEST

START_TEST(survives_lack_of_host_memory)
{
	struct testing_random random = { .state = 5 };
	struct buffer buffer[MOST];
	uint32_t n = random_buffers(&random, buffer);
	enum tarn_status st = TARN_ENOMEM;
	for (uint64_t request = 1; st; request++) {
		struct host_arena small;
		host_arena_init(&small);
		small.fail_at = request;
		st = pack_buffers(buffer, n, 0, 0, &small, offset, &height, &load);
		host_arena_fini(&small);
		ck_assert(st == TARN_OK || st == TARN_ENOMEM);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pack");
	TCase *all = tcase_create("pack");
	tcase_add_checked_fixture(all, setup, teardown);
	tcase_add_loop_test(all, random_buffers_share_no_byte, 0, CASES);
	tcase_add_loop_test(all, order_of_the_input_is_irrelevant, 0, CASES);
	tcase_add_test(all, uses_gaps_below_between_and_above);
	tcase_add_test(all, small_and_uniform_inputs);
	tcase_add_test(all, stops_at_the_goal);
	tcase_add_loop_test(all, a_height_found_is_a_goal_met, 0, CASES);
	tcase_add_test(all, check_sees_overlaps_and_heights);
	tcase_add_test(all, survives_lack_of_host_memory);
	suite_add_tcase(suite, all);
	return testing_run(suite);
}
