/*
 * fuzz_files.c - libFuzzer entry for the text files that are no configuration: graphs for `tarn dag`, measured costs,
 * descriptions of devices, tokens.
 *
 * The first byte of an input chooses. Whatever the bytes are, a loader returns what it promises or one sentence.
 */
#include "config/config.h"
#include "data/dataset.h"
#include "device_file.h"
#include "planner/cost_table.h"
#include "planner/dag_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void judge(enum tarn_status st)
{
	require(!st || (*tarn_error() && !strchr(tarn_error(), '\n')));
	require(st != TARN_EINTERNAL);
}

/* Ids in range and in a topological order: what everything behind the loader relies on. */
static void try_dag(const char *path, struct host_arena *arena)
{
	struct dag dag;
	judge(dag_load(path, arena, &dag));
}

static void try_costs(const char *path, struct host_arena *arena)
{
	struct cost_table table;
	enum tarn_status st = cost_table_load(path, "cpu", 2, arena, &table);
	judge(st);
	for (uint32_t i = 1; !st && i < table.entries; i++)
		require(strcmp(table.entry[i - 1].signature, table.entry[i].signature) <= 0);
}

static void try_device(const char *path, struct host_arena *arena)
{
	struct device_description description;
	enum tarn_status st = device_file_load(path, arena, &description);
	judge(st);
	require(st || (description.memory_bytes > 0 && memchr(description.name, 0, sizeof description.name)));
}

static void try_tokens(const char *path, struct host_arena *arena)
{
	char text[512];
	struct config config;
	struct dataset dataset;
	snprintf(text, sizeof text,
		 "data: {type: tokens, context: 4, batch: 2, train_inputs: %s, test_inputs: ''}\n"
		 "layers:\n- embedding: {vocabulary: 256, features: 4}\n- dense: 256\n",
		 path);
	if (config_parse(text, strlen(text), "fuzz.yaml", NULL, 0, arena, &config))
		return;
	judge(dataset_open(&config, SPLIT_TRAIN, arena, &dataset));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const attempts[])(const char *, struct host_arena *) = { try_dag, try_costs, try_device,
									       try_tokens };
	static int fd = -1;
	char path[64];
	struct host_arena arena;
	if (fd < 0)
		fd = memfd_create("fuzz", 0);
	if (!size)
		return 0;
	require(fd >= 0 && !ftruncate(fd, 0) && pwrite(fd, data + 1, size - 1, 0) == (ssize_t)(size - 1));
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	host_arena_init(&arena);
	tarn_error_clear();
	attempts[data[0] % (sizeof attempts / sizeof *attempts)](path, &arena);
	host_arena_fini(&arena);
	return 0;
}
