/* test_snapshot.c - what was saved comes back to the bit; whatever else a file holds is refused before a byte of it is
 * used. */
#include "exec/snapshot.h"

#include "exec/safetensors.h"
#include "support/fake_device.h"
#include "support/testing.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

static struct host_arena arena;
static struct fake_device fake;
static struct snapshot *snapshot;
static char path[512], previous[544];
static const struct snapshot_position at_step = { .step = 1234567890123, .epoch = 7, .batch = 42, .seed = UINT64_MAX };

/* A network with every role and dtype; the weight is longer than the buffer that it is copied through. */
static void add_tensors(struct fake_device *device)
{
	fake_device_add(device, "scalars", ROLE_SCALARS, DTYPE_U8, (uint32_t[]){ 64 }, 1);
	fake_device_add(device, "conv/weight", ROLE_PARAMETER, DTYPE_F32, (uint32_t[]){ 64, 33, 7, 7 }, 4);
	fake_device_add(device, "conv/bias", ROLE_PARAMETER, DTYPE_F32, (uint32_t[]){ 3 }, 1);
	fake_device_add(device, "bn/count", ROLE_COUNTER, DTYPE_U64, (uint32_t[]){ 1 }, 1);
	fake_device_add(device, "bn/running_mean", ROLE_RUNNING_STATISTIC, DTYPE_F32, (uint32_t[]){ 5 }, 1);
	fake_device_add(device, "mask", ROLE_OPTIMIZER_STATE, DTYPE_U8, (uint32_t[]){ 13 }, 1);
	fake_device_add(device, "odd \"name\"\n\\", ROLE_PARAMETER, DTYPE_I32, (uint32_t[]){ 2 }, 1);
	fake_device_add(device, "metric/loss", ROLE_METRIC, DTYPE_F32, (uint32_t[]){ 1 }, 1);
}

/* Every fourth byte has the upper bits of a float32's exponent; with one of them clear the value is finite. */
static uint8_t finite_byte(uint64_t place, uint64_t bits)
{
	return (uint8_t)(place % 4 == 3 ? bits & 0xBF : bits);
}

static void fill(struct fake_device *device, uint64_t seed)
{
	fake_device_fill(device, seed);
	for (uint64_t at = 0; at < device->plan.arena_bytes; at++)
		device->memory[at] = finite_byte(at, device->memory[at]);
}

static void setup(void)
{
	host_arena_init(&arena);
	snprintf(path, sizeof path, "%s/state-%ld", testing_directory(), (long)getpid());
	snprintf(previous, sizeof previous, "%s.previous", path);
	fake_device_open(&fake, &arena);
	add_tensors(&fake);
	fake.plan.config_lines = "train.seed=1\nname=\"\x01\xff\"\n";
	fake_device_finish(&fake, &arena);
	fill(&fake, 1);
	ck_assert_ok(snapshot_open(&fake.executor, path, &arena, &snapshot));
}

static void teardown(void)
{
	snapshot_close(snapshot);
	unlink(path);
	unlink(previous);
	host_arena_fini(&arena);
}

static bool is_saved(uint32_t role)
{
	return role >= ROLE_PARAMETER && role <= ROLE_COUNTER;
}

/* Every saved tensor has the bytes that fill(seed) gave it; the others have not. */
static bool holds(const struct fake_device *device, uint64_t seed)
{
	struct testing_random random = { seed };
	uint64_t at = 0;
	for (uint32_t i = 0; i < device->plan.persistents; i++) {
		const struct persistent *tensor = &device->plan.persistent[i];
		uint64_t end = tensor->offset + bytes_align(tensor->bytes);
		for (; at < end; at++) {
			bool same = device->memory[at] == finite_byte(at, testing_bits(&random));
			if (!same && is_saved(tensor->role) && at < tensor->offset + tensor->bytes)
				return false;
		}
	}
	return true;
}

static size_t read_file(const char *name, uint8_t **data)
{
	FILE *file = fopen(name, "rb");
	ck_assert_ptr_nonnull(file);
	struct stat status;
	ck_assert_int_eq(fstat(fileno(file), &status), 0);
	size_t bytes = (size_t)status.st_size;
	*data = host_arena_alloc(&arena, bytes + 1, 1);
	ck_assert_uint_eq(fread(*data, 1, bytes, file), bytes);
	fclose(file);
	return bytes;
}

static void write_file(const void *data, size_t bytes)
{
	FILE *file = fopen(path, "wb");
	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fwrite(data, 1, bytes, file), bytes);
	ck_assert_int_eq(fclose(file), 0);
}

/* Files beside `path` that are neither it nor the one before. */
static uint32_t leftovers(void)
{
	uint32_t count = 0;
	DIR *folder = opendir(testing_directory());
	ck_assert_ptr_nonnull(folder);
	for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
		count += strstr(entry->d_name, "tmp") != NULL;
	closedir(folder);
	return count;
}

START_TEST(saves_and_loads_to_the_bit)
{
	struct snapshot_position position = { 0 };
	ck_assert_ok(snapshot_save(snapshot, NULL, &at_step));
	fill(&fake, 2);
	uint8_t scalars = fake.memory[0];
	ck_assert(!holds(&fake, 1));
	ck_assert_ok(snapshot_load(snapshot, path, &position));
	ck_assert(holds(&fake, 1));
	ck_assert_uint_eq(fake.memory[0], scalars);
	ck_assert_uint_eq(position.step, at_step.step);
	ck_assert_uint_eq(position.epoch, at_step.epoch);
	ck_assert_uint_eq(position.batch, at_step.batch);
	ck_assert_uint_eq(position.seed, at_step.seed);
}
END_TEST

/* The file is what the format says: read here with nothing but the parser, which has its own tests. */
START_TEST(writes_the_format)
{
	uint8_t *data;
	uint64_t length;
	struct safetensors content;
	ck_assert_ok(snapshot_save(snapshot, NULL, &at_step));
	size_t bytes = read_file(path, &data);
	memcpy(&length, data, 8);
	ck_assert_uint_eq(length % 8, 0);
	ck_assert_uint_lt(length, bytes);
	ck_assert_ok(safetensors_parse((char *)data + 8, length, bytes - 8 - length, &arena, &content));
	ck_assert_uint_eq(content.tensors, 6);
	for (size_t i = 0; i < content.tensors; i++) {
		const struct safetensors_tensor *tensor = &content.tensor[i];
		const struct persistent *persistent = NULL;
		for (uint32_t k = 0; k < fake.plan.persistents; k++)
			if (!strcmp(fake.plan.program[0].graph.text + fake.plan.persistent[k].name, tensor->name))
				persistent = &fake.plan.persistent[k];
		ck_assert_ptr_nonnull(persistent);
		ck_assert_uint_eq(tensor->end - tensor->begin, persistent->bytes);
		ck_assert_uint_eq(tensor->begin % dtype_bytes(persistent->dtype), 0);
		ck_assert_mem_eq(data + 8 + length + tensor->begin, fake.memory + persistent->offset,
				 persistent->bytes);
	}
	ck_assert_str_eq(safetensors_metadata(&content, "tarn.version"), "2");
	ck_assert_str_eq(safetensors_metadata(&content, "tarn.seed"), "18446744073709551615");
	ck_assert_str_eq(safetensors_metadata(&content, "tarn.config"), "train.seed=1\nname=\"\x01?\"\n");
	char checksum[17];
	snprintf(checksum, sizeof checksum, "%016llx",
		 (unsigned long long)XXH64(data + 8 + length, bytes - 8 - length, 0));
	ck_assert_str_eq(safetensors_metadata(&content, "tarn.checksum"), checksum);
}
END_TEST

START_TEST(keeps_the_file_before)
{
	struct snapshot_position position = at_step;
	ck_assert_ok(snapshot_save(snapshot, NULL, &position));
	fill(&fake, 2);
	position.step++;
	ck_assert_ok(snapshot_save(snapshot, NULL, &position));
	fill(&fake, 3);
	position.step++;
	ck_assert_ok(snapshot_save(snapshot, NULL, &position));
	ck_assert_ok(snapshot_load(snapshot, previous, &position));
	ck_assert_uint_eq(position.step, at_step.step + 1);
	ck_assert(holds(&fake, 2));
	ck_assert_ok(snapshot_load(snapshot, path, &position));
	ck_assert_uint_eq(position.step, at_step.step + 2);
	ck_assert(holds(&fake, 3));
}
END_TEST

/* R052: one byte, then half cut off the newest file; the one before is used with a warning, or named. */
START_TEST(falls_back_to_the_file_before)
{
	struct snapshot_position position = at_step;
	uint8_t *data;
	ck_assert_ok(snapshot_save(snapshot, NULL, &position));
	fill(&fake, 2);
	position.step++;
	ck_assert_ok(snapshot_save(snapshot, NULL, &position));
	size_t bytes = read_file(path, &data);
	for (int half = 0; half < 2; half++) {
		ck_assert_int_eq(truncate(path, (off_t)(half ? bytes / 2 : bytes - 1)), 0);
		fill(&fake, 4);
		uint64_t writes = fake.writes;
		ck_assert_fails(snapshot_load(snapshot, path, &position), TARN_EFORMAT, previous);
		ck_assert_uint_eq(fake.writes, writes);
		ck_assert_ok(snapshot_load_newest(snapshot, path, &position));
		ck_assert_uint_eq(position.step, at_step.step);
		ck_assert(holds(&fake, 1));
	}
	unlink(path);
	ck_assert_ok(snapshot_load_newest(snapshot, path, &position));
	write_file(data, bytes);
	ck_assert_ok(snapshot_load_newest(snapshot, path, &position));
	ck_assert_uint_eq(position.step, at_step.step + 1);
	unlink(path);
	unlink(previous);
	ck_assert_fails(snapshot_load_newest(snapshot, path, &position), TARN_EIO, "cannot open");
}
END_TEST

/* Any bit flipped in a sample of places is noticed, and nothing was written by then. */
START_TEST(notices_damage)
{
	struct snapshot_position position;
	uint8_t *data;
	uint64_t length;
	ck_assert_ok(snapshot_save(snapshot, NULL, &at_step));
	size_t bytes = read_file(path, &data);
	memcpy(&length, data, 8);
	struct testing_random random = { 77 };
	uint64_t writes = fake.writes;
	for (int i = 0; i < 400; i++) {
		size_t most = i % 2 ? bytes - 1 : 7 + length, place = testing_between(&random, 0, (uint32_t)most);
		uint8_t bit = (uint8_t)(1u << testing_between(&random, 0, 7));
		data[place] ^= bit;
		write_file(data, bytes);
		data[place] ^= bit;
		enum tarn_status st = snapshot_load(snapshot, path, &position);
		ck_assert_msg(st == TARN_EFORMAT, "byte %zu, bit %02X: status %d", place, bit, (int)st);
		ck_assert_uint_eq(fake.writes, writes);
	}
	for (size_t cut = 0; cut < bytes; cut += cut < 600 ? 7 : 9001) {
		write_file(data, cut);
		ck_assert_fails(snapshot_load(snapshot, path, &position), TARN_EFORMAT, path);
	}
	write_file(data, bytes + 1);
	ck_assert_fails(snapshot_load(snapshot, path, &position), TARN_EFORMAT, "follow the last tensor");
	ck_assert_uint_eq(fake.writes, writes);
}
END_TEST

/* Every bit of the header is flipped once: refused before the arena is touched, or it means the same (\u000A, \u000a).
 */
START_TEST(notices_every_bit_of_the_header)
{
	struct snapshot_position position;
	uint8_t *data;
	uint64_t length;
	ck_assert_ok(snapshot_save(snapshot, NULL, &at_step));
	read_file(path, &data);
	memcpy(&length, data, 8);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	uint64_t writes = fake.writes;
	for (uint64_t i = 0; i < 8 * (8 + length); i++) {
		off_t place = (off_t)(i / 8);
		uint8_t changed = data[place] ^ (uint8_t)(1u << i % 8);
		ck_assert_int_eq(pwrite(fd, &changed, 1, place), 1);
		bool hexadecimal = place >= 5 && !memcmp(data + place - 5, "\\u000", 5) && i % 8 == 5;
		enum tarn_status st = snapshot_load(snapshot, path, &position);
		ck_assert_msg(st == TARN_EFORMAT || (hexadecimal && st == TARN_OK), "byte %ld, bit %d: status %d",
			      (long)place, (int)(i % 8), (int)st);
		ck_assert(hexadecimal || fake.writes == writes);
		writes = fake.writes;
		ck_assert_int_eq(pwrite(fd, &data[place], 1, place), 1);
	}
	close(fd);
	ck_assert_ok(snapshot_load(snapshot, path, &position));
}
END_TEST

/* Two tensors of equal dtype and shape exchange their places in the header: the same bytes of data, another network. */
START_TEST(notices_exchanged_tensors)
{
	struct fake_device twins;
	struct snapshot *saver;
	struct snapshot_position position;
	uint8_t *data;
	fake_device_open(&twins, &arena);
	fake_device_add(&twins, "left", ROLE_PARAMETER, DTYPE_F32, (uint32_t[]){ 4 }, 1);
	fake_device_add(&twins, "rite", ROLE_PARAMETER, DTYPE_F32, (uint32_t[]){ 4 }, 1);
	fake_device_finish(&twins, &arena);
	fill(&twins, 1);
	ck_assert_ok(snapshot_open(&twins.executor, path, &arena, &saver));
	ck_assert_ok(snapshot_save(saver, NULL, &at_step));
	size_t bytes = read_file(path, &data);
	char *left = memmem(data, bytes, "\"left\"", 6), *right = memmem(data, bytes, "\"rite\"", 6);
	memcpy(left, "\"rite\"", 6);
	memcpy(right, "\"left\"", 6);
	write_file(data, bytes);
	ck_assert_fails(snapshot_load(saver, path, &position), TARN_EFORMAT, "damaged: the header's content");
	ck_assert_uint_eq(twins.writes, 0);
	snapshot_close(saver);
}
END_TEST

/* A file of a header and zeros, as another program might have made it. */
static enum tarn_status load_text(const char *header, uint64_t length, size_t data_bytes)
{
	static uint8_t file[4096];
	struct snapshot_position position;
	memset(file, 0, sizeof file);
	memcpy(file, &length, 8);
	memcpy(file + 8, header, strlen(header));
	write_file(file, 8 + strlen(header) + data_bytes);
	return snapshot_load(snapshot, path, &position);
}

/* R065, R121 and their kind: each is refused, with the tensor's name where there is one, before the arena is touched.
 */
START_TEST(refuses_hostile_headers)
{
	static const struct {
		const char *header, *sentence;
		size_t data_bytes;
	} cases[] = {
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1000,1000],\"data_offsets\":[0,4]}}", "tensor \"a\"", 4 },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,4]}}", "tensor \"a\"", 8 },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
		  "tensor \"a\": data_offsets [0, 4] end", 3 },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "1 bytes of data follow", 5 },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
		  "\"a\": data_offsets [4, 8] leave a hole", 8 },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
		  "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
		  "tensor \"b\": data_offsets [4, 8] overlap", 8 },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[18446744073709551612,18446744073709551616]"
		  "}}",
		  "a number above 2^64", 4 },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}",
		  "multiplies to more", 0 },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}",
		  "too many numbers", 4 },
		{ "{\"a\":{\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[0,4]}}",
		  "tensor \"a\" (header, byte 61): unknown dtype", 4 },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1e0],\"data_offsets\":[0,4]}}", "plain unsigned integer", 4 },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", "plain unsigned integer", 4 },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", "plain unsigned integer", 4 },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[01],\"data_offsets\":[0,4]}}", "plain unsigned integer", 4 },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[[[[[[1]]]]]],\"data_offsets\":[0,4]}}",
		  "plain unsigned integer", 4 },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", "data_offsets must be", 4 },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", "is missing", 4 },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", "only dtype, shape", 4 },
		{ "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "stands twice",
		  4 },
		{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
		  "\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
		  "tensor \"a\" stands twice", 2 },
		{ "{\"__metadata__\":{\"x\":\"1\",\"x\":\"2\"}}", "metadata \"x\" stands twice", 0 },
		{ "{\"__metadata__\":{},\"__metadata__\":{}}", "stands twice", 0 },
		{ "{\"__metadata__\":{\"x\":1}}", "a string expected", 0 },
		{ "{\"__metadata__\":{\"x\":{\"y\":\"z\"}}}", "a string expected", 0 },
		{ "{\"\xC0\xAF\":{}}", "invalid UTF-8", 0 },
		{ "{\"\xED\xA0\x80\":{}}", "invalid UTF-8", 0 },
		{ "{\"\\ud800\":{}}", "bad escape", 0 },
		{ "{\"\\u0000\":{}}", "bad escape", 0 },
		{ "{\"\\x\":{}}", "bad escape", 0 },
		{ "{\"a\tb\":{}}", "control character", 0 },
		{ "{\"a", "does not end", 0 },
		{ "{\"a\\", "bad escape", 0 },
		{ "{\"a\\u12", "bad escape", 0 },
		{ "{} x", "nothing but blanks", 0 },
		{ " {}", "must begin with '{'", 0 },
		{ "[]", "must begin with '{'", 0 },
		{ "{,}", "a string expected", 0 },
		{ "{\"a\":[]}", "'{' expected", 0 },
		{ "{}", "metadata \"tarn.version\" is missing", 0 },
		{ "{\"__metadata__\":{\"tarn.version\":\"2\",\"tarn.epoch\":\"1\",\"tarn.batch\":\"1\",\"tarn.batch_"
		  "size\":\"1\",\"tarn.samples\":\"1\",\"tarn.step\":\"1\",\"tarn.seed\":\"1\",\"tarn.checksum\":\"1\"}"
		  "}",
		  "\"tarn.config\" is missing", 0 },
		{ "{\"__metadata__\":{\"tarn.version\":\"2\",\"tarn.epoch\":\"1\",\"tarn.batch\":\"1\",\"tarn.batch_"
		  "size\":\"1\",\"tarn.samples\":\"1\",\"tarn.step\":\"1\",\"tarn.seed\":\"1\",\"tarn.checksum\":\"1\","
		  "\"tarn.config\":\"x\"}}",
		  "\"tarn.header_checksum\" is missing", 0 },
		{ "{\"__metadata__\":{\"tarn.version\":\"2\",\"tarn.epoch\":\"1\",\"tarn.batch\":\"1\",\"tarn.batch_"
		  "size\":\"1\",\"tarn.samples\":\"1\",\"tarn.step\":\"1\",\"tarn.seed\":\"1\",\"tarn.checksum\":\"1\","
		  "\"tarn.config\":\"x\",\"tarn.header_checksum\":\"1\"}}",
		  "damaged: the header's content", 0 },
		{ "{\"__metadata__\":{\"tarn.version\":\"1\"}}", "snapshot version 1", 0 },
		{ "{\"__metadata__\":{\"tarn.version\":\"2\",\"tarn.epoch\":\"4294967296\"}}",
		  "\"tarn.epoch\" is \"4294967296\"", 0 },
		{ "{\"__metadata__\":{\"tarn.version\":\"2\",\"tarn.epoch\":\"-1\"}}", "\"tarn.epoch\" is \"-1\"", 0 },
		{ "{\"__metadata__\":{\"tarn.version\":\"2\",\"tarn.epoch\":\"\"}}", "\"tarn.epoch\" is \"\"", 0 },
	};
	uint64_t writes = fake.writes;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		enum tarn_status st = load_text(cases[i].header, strlen(cases[i].header), cases[i].data_bytes);
		ck_assert_msg(st == TARN_EFORMAT, "case %zu: status %d", i, (int)st);
		ck_assert_msg(strstr(tarn_error(), cases[i].sentence) && strstr(tarn_error(), path), "case %zu: %s", i,
			      tarn_error());
	}
	static const uint64_t lengths[] = { 0, 1, 3, 1000, (uint64_t)1 << 32, 0xFFFFFFFFFFFFFFF0u, UINT64_MAX };
	uint64_t requests = arena.bytes;
	for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
		ck_assert_fails(load_text("{}", lengths[i], 0), TARN_EFORMAT, "header length");
	uint64_t plan;
	memcpy(&plan, PLAN_MAGIC, sizeof plan);
	ck_assert_fails(load_text("{}", plan, 0), TARN_EFORMAT, "is a plan file, not a snapshot; run it with --plan");
	ck_assert_uint_lt(arena.bytes - requests, 16384);
	ck_assert_uint_eq(fake.writes, writes);
}
END_TEST

/* R067: three lists. */
START_TEST(lists_what_does_not_fit)
{
	struct snapshot_position position;
	struct fake_device other;
	struct snapshot *others;
	ck_assert_ok(snapshot_save(snapshot, NULL, &at_step));
	fake_device_open(&other, &arena);
	fake_device_add(&other, "conv/bias", ROLE_PARAMETER, DTYPE_F32, (uint32_t[]){ 4 }, 1);
	fake_device_add(&other, "bn/count", ROLE_COUNTER, DTYPE_U64, (uint32_t[]){ 1 }, 1);
	fake_device_add(&other, "bn/running_mean", ROLE_RUNNING_STATISTIC, DTYPE_I32, (uint32_t[]){ 5 }, 1);
	fake_device_add(&other, "new/weight", ROLE_PARAMETER, DTYPE_F32, (uint32_t[]){ 2 }, 1);
	for (int i = 0; i < 5; i++) {
		char name[16];
		snprintf(name, sizeof name, "z%d", i);
		fake_device_add(&other, name, ROLE_PARAMETER, DTYPE_F32, (uint32_t[]){ 2 }, 1);
	}
	fake_device_finish(&other, &arena);
	ck_assert_ok(snapshot_open(&other.executor, path, &arena, &others));
	ck_assert_fails(
		snapshot_load(others, path, &position), TARN_EFORMAT,
		"missing: new/weight, z0, z1 and 3 more; extra: conv/weight, mask, odd \"name\"?\\; wrong shape: "
		"bn/running_mean (file F32 5, network I32 5), conv/bias (file F32 3, network F32 4)");
	ck_assert_uint_eq(other.writes, 0);
	snapshot_close(others);
}
END_TEST

/* The definition in snapshot.h, followed literally. */
START_TEST(hashes_as_defined)
{
	static const char *const sorted[] = { "bn/count", "bn/running_mean", "conv/bias", "conv/weight",
					      "mask",     "odd \"name\"\n\\" };
	const struct graph *graph = &fake.plan.program[0].graph;
	XXH64_state_t *state = XXH64_createState();
	XXH64_reset(state, 0);
	for (int i = 0; i < 6; i++) {
		uint32_t id = graph_find(graph, sorted[i]), rank = graph->tensor[id].rank;
		XXH64_update(state, sorted[i], strlen(sorted[i]));
		XXH64_update(state, dtype_name(graph->tensor[id].dtype), strlen(dtype_name(graph->tensor[id].dtype)));
		XXH64_update(state, &rank, 4);
		XXH64_update(state, graph->tensor[id].dim, 4 * rank);
		XXH64_update(state, fake.memory + fake.plan.persistent[id].offset, graph->tensor[id].bytes);
	}
	XXH64_update(state, &at_step.step, 8);
	XXH64_update(state, &at_step.seed, 8);
	uint64_t hash, again;
	ck_assert_ok(snapshot_hash(snapshot, &at_step, &hash));
	ck_assert_uint_eq(hash, XXH64_digest(state));
	XXH64_freeState(state);
	struct snapshot_position other = at_step;
	other.epoch++;
	ck_assert_ok(snapshot_hash(snapshot, &other, &again));
	ck_assert_uint_eq(hash, again);
	other.step++;
	ck_assert_ok(snapshot_hash(snapshot, &other, &again));
	ck_assert_uint_ne(hash, again);
}
END_TEST

/* A save that fails, in the device or on a full disk, leaves the file before as it was and no litter. */
START_TEST(a_failed_save_changes_nothing)
{
	struct snapshot_position position;
	ck_assert_ok(snapshot_save(snapshot, NULL, &at_step));
	uint64_t reads = fake.reads;
	fill(&fake, 2);
	for (uint64_t n = 1; n <= reads; n++) {
		fake.reads = 0;
		fake.failing_read = n;
		ck_assert_fails(snapshot_save(snapshot, NULL, &at_step), TARN_EIO, "as it was told");
		ck_assert_uint_eq(leftovers(), 0);
	}
	fake.failing_read = 0;
	const struct rlimit limit = { 200000, 200000 };
	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	ck_assert_fails(snapshot_save(snapshot, NULL, &at_step), TARN_EIO, "write failed");
	ck_assert_uint_eq(leftovers(), 0);
	ck_assert_int_ne(access(previous, F_OK), 0);
	ck_assert_ok(snapshot_load(snapshot, path, &position));
	ck_assert(holds(&fake, 1));
}
END_TEST

/* What stands at the path and is no snapshot is somebody's: it is refused at boot, and put aside by a save to another
 * place. */
START_TEST(does_not_lose_a_foreign_file)
{
	char other[560], damaged[600];
	uint8_t *content;
	struct snapshot *run;
	FILE *file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	fputs("precious things that are no snapshot", file);
	fclose(file);
	ck_assert_fails(snapshot_open(&fake.executor, path, &arena, &run), TARN_EIO, "no snapshot");
	ck_assert_uint_eq(read_file(path, &content), 36);
	snprintf(other, sizeof other, "%s.elsewhere", path);
	snprintf(damaged, sizeof damaged, "%s.damaged", other);
	ck_assert_int_eq(rename(path, other), 0);
	ck_assert_ok(snapshot_save(snapshot, other, &at_step));
	ck_assert_uint_eq(read_file(damaged, &content), 36);
	ck_assert_int_eq(memcmp(content, "precious", 8), 0);
	unlink(damaged);
	unlink(other);
}
END_TEST

/* One element of one tensor, wherever it lies in the pieces that the tensor is read in. */
START_TEST(keeps_values_that_are_not_finite_out)
{
	static const uint32_t bad[] = { 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF };
	static const uint32_t good[] = { 0x7F7FFFFF, 0xFF7FFFFF, 0x80000000, 0x00000001, 0 };
	static const char *const names[] = { "conv/weight", "conv/bias", "bn/running_mean" };
	static const uint32_t elements[] = { 64 * 33 * 7 * 7, 3, 5 };
	const struct graph *graph = &fake.plan.program[0].graph;
	struct testing_random random = { 5 };
	struct snapshot_position position;
	uint8_t *before, *after;
	ck_assert_ok(snapshot_save(snapshot, NULL, &at_step));
	size_t bytes = read_file(path, &before);
	for (int i = 0; i < 60; i++) {
		int which = i % 3;
		uint32_t last = elements[which] - 1;
		uint32_t element = i < 3 ? last : i < 6 ? 0 : testing_between(&random, 0, last);
		uint8_t *place = fake.memory + fake.plan.persistent[graph_find(graph, names[which])].offset +
				 4 * (uint64_t)element;
		char sentence[100];
		snprintf(sentence, sizeof sentence,
			 "tensor %s holds a value that is not finite at element %u; the snapshot before is kept",
			 names[which], element);
		uint32_t kept;
		memcpy(&kept, place, 4);
		memcpy(place, &bad[i % 5], 4);
		ck_assert_fails(snapshot_save(snapshot, NULL, &at_step), TARN_EDIVERGED, sentence);
		memcpy(place, &good[i % 5], 4);
		ck_assert_int_ne(access(previous, F_OK), 0);
		if (i < 5) {
			char other[600];
			snprintf(other, sizeof other, "%s/other", testing_directory());
			ck_assert_ok(snapshot_save(snapshot, other, &at_step));
		}
		memcpy(place, &kept, 4);
	}
	ck_assert_uint_eq(leftovers(), 0);
	ck_assert_uint_eq(read_file(path, &after), bytes);
	ck_assert_mem_eq(before, after, bytes);
	ck_assert_ok(snapshot_load(snapshot, path, &position));
	/* Bits of integers mean nothing of the kind. */
	memset(fake.memory + fake.plan.persistent[graph_find(graph, "bn/count")].offset, 0xFF, 8);
	memset(fake.memory + fake.plan.persistent[graph_find(graph, "odd \"name\"\n\\")].offset, 0xFF, 8);
	ck_assert_ok(snapshot_save(snapshot, NULL, &at_step));
}
END_TEST

static void damage(const char *name, size_t place)
{
	int fd = open(name, O_RDWR | O_CLOEXEC);
	uint8_t byte;
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pread(fd, &byte, 1, (off_t)place), 1);
	byte ^= 1;
	ck_assert_int_eq(pwrite(fd, &byte, 1, (off_t)place), 1);
	close(fd);
}

/* The newest file is damaged, a run goes on from the one before and saves: what it went on from stays until a whole
 * file can take its place, whether the damage was there at the start or came later. */
START_TEST(a_damaged_file_is_never_kept)
{
	struct snapshot_position position;
	struct snapshot *run;
	for (uint64_t step = 1; step <= 2; step++) {
		fill(&fake, step);
		ck_assert_ok(snapshot_save(snapshot, NULL, &(struct snapshot_position){ .step = step }));
	}
	damage(path, 5000);
	ck_assert_ok(snapshot_open(&fake.executor, path, &arena, &run));
	ck_assert_ok(snapshot_load_newest(run, path, &position));
	ck_assert_uint_eq(position.step, 1);
	fill(&fake, 3);
	ck_assert_ok(snapshot_save(run, NULL, &(struct snapshot_position){ .step = 3 }));
	ck_assert_ok(snapshot_load(run, previous, &position));
	ck_assert(holds(&fake, 1));
	ck_assert_ok(snapshot_load(run, path, &position));
	ck_assert(holds(&fake, 3));
	/* The file that this run wrote is damaged behind its back. */
	damage(path, 6000);
	fill(&fake, 4);
	ck_assert_ok(snapshot_save(run, NULL, &(struct snapshot_position){ .step = 4 }));
	ck_assert_ok(snapshot_load(run, previous, &position));
	ck_assert(holds(&fake, 1));
	fill(&fake, 5);
	ck_assert_ok(snapshot_save(run, NULL, &(struct snapshot_position){ .step = 5 }));
	ck_assert_ok(snapshot_load(run, previous, &position));
	ck_assert(holds(&fake, 4));
	snapshot_close(run);
	/* A run that finds a whole file keeps it. */
	ck_assert_ok(snapshot_open(&fake.executor, path, &arena, &run));
	fill(&fake, 6);
	ck_assert_ok(snapshot_save(run, NULL, &(struct snapshot_position){ .step = 6 }));
	ck_assert_ok(snapshot_load(run, previous, &position));
	ck_assert_uint_eq(position.step, 5);
	snapshot_close(run);
}
END_TEST

/* The file goes where a link points; the one before lies beside it, and both are found through the link. */
START_TEST(follows_links)
{
	struct snapshot_position position;
	struct snapshot *run;
	struct stat status;
	char link[600];
	snprintf(link, sizeof link, "%s/link", testing_directory());
	ck_assert_int_eq(symlink(path, link), 0);
	ck_assert_ok(snapshot_open(&fake.executor, link, &arena, &run));
	for (uint64_t step = 1; step <= 2; step++)
		ck_assert_ok(snapshot_save(run, NULL, &(struct snapshot_position){ .step = step }));
	ck_assert_int_eq(lstat(link, &status), 0);
	ck_assert(S_ISLNK(status.st_mode));
	ck_assert_ok(snapshot_load(run, path, &position));
	ck_assert_uint_eq(position.step, 2);
	damage(path, 5000);
	ck_assert_ok(snapshot_load_newest(run, link, &position));
	ck_assert_uint_eq(position.step, 1);
	snapshot_close(run);
	unlink(link);
}
END_TEST

/* What is no regular file is neither read, which could last for ever, nor replaced; leftovers go at the start. */
START_TEST(refuses_what_is_no_file)
{
	struct snapshot_position position;
	struct snapshot *run;
	char stale[600];
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_fails(snapshot_load(snapshot, path, &position), TARN_EIO, "is a FIFO, not a regular file");
	ck_assert_fails(snapshot_save(snapshot, NULL, &at_step), TARN_EIO, "is a FIFO, not a regular file");
	ck_assert_fails(snapshot_open(&fake.executor, path, &arena, &run), TARN_EIO, "is a FIFO");
	unlink(path);
	ck_assert_fails(snapshot_load(snapshot, testing_directory(), &position), TARN_EIO, "is a folder");
	ck_assert_fails(snapshot_load(snapshot, "/dev/null", &position), TARN_EIO, "is a device");
	ck_assert_int_eq(mkdir(previous, 0700), 0);
	ck_assert_fails(snapshot_open(&fake.executor, path, &arena, &run), TARN_EIO, previous);
	rmdir(previous);
	snprintf(stale, sizeof stale, "%s.tarn-tmp.%ld.0", path, (long)getpid());
	close(creat(stale, 0600));
	ck_assert_ok(snapshot_open(&fake.executor, path, &arena, &run));
	ck_assert_int_ne(access(stale, F_OK), 0);
	snapshot_close(run);
}
END_TEST

START_TEST(names_places_that_cannot_be)
{
	struct snapshot *lost;
	char missing[600];
	snprintf(missing, sizeof missing, "%s/absent/state", testing_directory());
	ck_assert_fails(snapshot_open(&fake.executor, missing, &arena, &lost), TARN_EIO, "cannot create: No such file");
	snapshot_close(NULL);
	/* A save may name another place; some place must be named. */
	struct snapshot *nowhere;
	struct snapshot_position position;
	ck_assert_ok(snapshot_open(&fake.executor, "", &arena, &nowhere));
	ck_assert_fails(snapshot_save(nowhere, NULL, &at_step), TARN_EINVAL, "the path has 0 bytes");
	ck_assert_fails(snapshot_save(nowhere, missing, &at_step), TARN_EIO, "cannot create: No such file");
	char *endless = host_arena_alloc(&arena, 5000, 1);
	memset(endless, 'x', 4999);
	ck_assert_fails(snapshot_save(nowhere, endless, &at_step), TARN_EINVAL, "the path has 4999 bytes");
	ck_assert_ok(snapshot_save(nowhere, path, &at_step));
	ck_assert_int_eq(chdir(testing_directory()), 0);
	ck_assert_ok(snapshot_save(nowhere, "here", &at_step));
	fill(&fake, 2);
	ck_assert_ok(snapshot_load(nowhere, "here", &position));
	ck_assert(holds(&fake, 1));
	snapshot_close(nowhere);
}
END_TEST

/* Saving asks the host arena for nothing; loading gives back all but the names in messages. test_noalloc_data.c counts
 * the heap. */
START_TEST(saving_allocates_nothing)
{
	uint64_t requests = arena.requests;
	for (int i = 0; i < 3; i++)
		ck_assert_ok(snapshot_save(snapshot, NULL, &at_step));
	ck_assert_uint_eq(arena.requests, requests);
}
END_TEST

START_TEST(survives_missing_memory)
{
	enum tarn_status st = TARN_ENOMEM;
	ck_assert_ok(snapshot_save(snapshot, NULL, &at_step));
	for (uint64_t n = 1; st; n++) {
		struct host_arena small;
		struct snapshot *made = NULL;
		struct snapshot_position position;
		host_arena_init(&small);
		small.fail_at = n;
		st = snapshot_open(&fake.executor, path, &small, &made);
		if (!st)
			st = snapshot_load(made, path, &position);
		ck_assert_msg(st == TARN_OK || st == TARN_ENOMEM, "request %lu: status %d", (unsigned long)n, (int)st);
		snapshot_close(made);
		host_arena_fini(&small);
		ck_assert_uint_lt(n, 60);
	}
}
END_TEST

/* Saves states 1, 2, 3 ... until it is killed; state s has the step s. */
static void save_for_ever(void)
{
	for (uint64_t seed = 1;; seed++) {
		struct snapshot_position position = { .step = seed };
		fill(&fake, seed);
		if (snapshot_save(snapshot, NULL, &position))
			_exit(1);
	}
}

/* Few bytes, so that a kill meets every part of a save. */
static void use_small_network(void)
{
	struct fake_device small;
	fake_device_open(&small, &arena);
	fake_device_add(&small, "w", ROLE_PARAMETER, DTYPE_F32, (uint32_t[]){ 3000 }, 1);
	fake_device_finish(&small, &arena);
	fake = small;
	fake.device.state = &fake;
	fake.device.ops = &fake.ops;
	fake.executor.plan = &fake.plan;
	fake.executor.device = &fake.device;
	snapshot_close(snapshot);
	ck_assert_ok(snapshot_open(&fake.executor, path, &arena, &snapshot));
}

static void kill_after(pid_t child, uint32_t microseconds)
{
	int status;
	usleep(microseconds);
	kill(child, SIGKILL);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status));
}

/* R051: kill -9 at random moments; there is always one complete state, and it is the one that its step says. */
START_TEST(a_kill_at_any_moment_leaves_a_whole_file)
{
	struct testing_random random = { 2024 };
	struct snapshot_position position;
	use_small_network();
	fill(&fake, 0);
	ck_assert_ok(snapshot_save(snapshot, NULL, &(struct snapshot_position){ .step = 0 }));
	for (int kill_number = 0; kill_number < 100; kill_number++) {
		pid_t child = fork();
		ck_assert_int_ge(child, 0);
		if (!child)
			save_for_ever();
		kill_after(child, testing_between(&random, 100, 15000));
		memset(fake.memory, 0, fake.plan.arena_bytes);
		ck_assert_ok(snapshot_load(snapshot, path, &position));
		ck_assert_msg(holds(&fake, position.step), "kill %d: the file says step %lu but holds another state",
			      kill_number, (unsigned long)position.step);
	}
	/* What the killed ones left goes when the next one starts. */
	snapshot_close(snapshot);
	ck_assert_ok(snapshot_open(&fake.executor, path, &arena, &snapshot));
	ck_assert_uint_eq(leftovers(), 0);
}
END_TEST

/* The same from a damaged file: a run that goes on from the one before it and is killed leaves one of both. */
START_TEST(a_kill_after_damage_leaves_a_whole_file)
{
	struct testing_random random = { 2025 };
	struct snapshot_position position;
	use_small_network();
	for (int kill_number = 0; kill_number < 60; kill_number++) {
		for (uint64_t step = 1; step <= 2; step++) {
			fill(&fake, step);
			ck_assert_ok(snapshot_save(snapshot, NULL, &(struct snapshot_position){ .step = step }));
		}
		damage(path, testing_between(&random, 0, 12000));
		pid_t child = fork();
		ck_assert_int_ge(child, 0);
		if (!child) {
			if (!freopen("/dev/null", "w", stderr) ||
			    snapshot_open(&fake.executor, path, &arena, &snapshot) ||
			    snapshot_load_newest(snapshot, path, &position))
				_exit(1);
			save_for_ever();
		}
		kill_after(child, testing_between(&random, 100, 8000));
		memset(fake.memory, 0, fake.plan.arena_bytes);
		ck_assert_ok(snapshot_load_newest(snapshot, path, &position));
		ck_assert_msg(holds(&fake, position.step), "kill %d: step %lu, another state", kill_number,
			      (unsigned long)position.step);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("snapshot");
	TCase *test = tcase_create("snapshot");
	tcase_add_checked_fixture(test, setup, teardown);
	tcase_set_timeout(test, 120);
	tcase_add_test(test, saves_and_loads_to_the_bit);
	tcase_add_test(test, writes_the_format);
	tcase_add_test(test, keeps_the_file_before);
	tcase_add_test(test, falls_back_to_the_file_before);
	tcase_add_test(test, notices_damage);
	tcase_add_test(test, notices_every_bit_of_the_header);
	tcase_add_test(test, notices_exchanged_tensors);
	tcase_add_test(test, refuses_hostile_headers);
	tcase_add_test(test, lists_what_does_not_fit);
	tcase_add_test(test, hashes_as_defined);
	tcase_add_test(test, a_failed_save_changes_nothing);
	tcase_add_test(test, keeps_values_that_are_not_finite_out);
	tcase_add_test(test, does_not_lose_a_foreign_file);
	tcase_add_test(test, a_damaged_file_is_never_kept);
	tcase_add_test(test, follows_links);
	tcase_add_test(test, refuses_what_is_no_file);
	tcase_add_test(test, names_places_that_cannot_be);
	tcase_add_test(test, saving_allocates_nothing);
	tcase_add_test(test, survives_missing_memory);
	tcase_add_test(test, a_kill_at_any_moment_leaves_a_whole_file);
	tcase_add_test(test, a_kill_after_damage_leaves_a_whole_file);
	suite_add_tcase(suite, test);
	return testing_run(suite);
}
