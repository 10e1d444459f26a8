/*
 * fuzz_plan.c - libFuzzer entry: no bytes of a plan file may crash the loader or the verifier.
 *
 * An input is either a file (first byte even) or a list of edits of a good plan (first byte odd): groups of 8 bytes, a
 * position, a width and a value. Checksums are made right, so that the checks behind them are reached.
 */
#include "plan/plan.h"
#include "support/plan_reseal.h"
#include "support/sample_plan.h"
#include "verify/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_BYTES ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t *good_plan;
static size_t good_bytes;

static void make_good_plan(void)
{
	char path[] = "/tmp/fuzz-plan-XXXXXX";
	struct host_arena arena;
	struct plan plan;
	host_arena_init(&arena);
	int fd = mkstemp(path);
	if (fd < 0 || sample_plan(&arena, &plan) || plan_save(&plan, path))
		abort();
	close(fd);
	FILE *file = fopen(path, "rb");
	good_plan = malloc(MAX_BYTES);
	if (!file || !good_plan)
		abort();
	good_bytes = fread(good_plan, 1, MAX_BYTES, file);
	fclose(file);
	remove(path);
	host_arena_fini(&arena);
}

static size_t edit_good_plan(const uint8_t *data, size_t size, uint8_t *file)
{
	memcpy(file, good_plan, good_bytes);
	for (; size >= 8; data += 8, size -= 8) {
		size_t at = ((size_t)data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16) % good_bytes;
		size_t width = (size_t)1 << (data[3] & 3);
		uint64_t value = 0;
		memcpy(&value, data + 4, 4);
		if (data[3] & 4)
			value = (uint64_t)0 - value;
		if (at + width <= good_bytes)
			memcpy(file + at, &value, width);
	}
	return good_bytes;
}

static void load_and_verify(const char *path)
{
	struct host_arena arena;
	struct plan plan;
	host_arena_init(&arena);
	if (plan_load(path, &arena, &plan) == TARN_OK) {
		(void)verify_plan(&plan, &arena);
		plan_close(&plan);
	}
	host_arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t file[MAX_BYTES];
	static int fd = -1;
	if (fd < 0) {
		fd = memfd_create("plan", 0);
		make_good_plan();
	}
	if (!size || size > MAX_BYTES || fd < 0)
		return 0;
	size_t bytes = size - 1;
	if (data[0] & 1)
		bytes = edit_good_plan(data + 1, size - 1, file);
	else
		memcpy(file, data + 1, bytes);
	plan_reseal(file, bytes);
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (ftruncate(fd, 0) || pwrite(fd, file, bytes, 0) != (ssize_t)bytes)
		abort();
	load_and_verify(path);
	return 0;
}
