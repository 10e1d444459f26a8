/*
 * test_exchange.c - weights leave with PyTorch's names and come back as they were; what does not fit is named.
 *
 * tests/reference/exchange.txt was made by tools/check_exchange.py, which loads what is exported into the networks of
 * torchvision and transformers with strict=True: a CRC of all names and ranks of each state_dict stands there.
 */
#include "support/testing.h"
#include "tarn.h"
#include "weights/weights_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define REFERENCE "tests/reference/exchange.txt"

static const struct {
	const char *name, *model;
	uint32_t side; /* of the images; 0: tokens */
} families[] = {
	{ "resnet", "{family: resnet, depth: 8, width: 8}", 16 },
	{ "resnet_imagenet", "{family: resnet_imagenet, depth: 18, width: 4}", 32 },
	{ "vgg", "{family: vgg, depth: 11, width: 4, hidden: 8}", 32 },
	{ "densenet", "{family: densenet, depth: 16, growth: 8}", 16 },
	{ "mobilenetv2", "{family: mobilenetv2, stem_stride: 2, width_percent: 25}", 64 },
	{ "vit", "{family: vit, patch: 4, layers: 2, width: 32, heads: 4}", 16 },
	{ "gpt", "{family: gpt, layers: 2, width: 32, heads: 4}", 0 },
	{ "gpt_tied", "{family: gpt, layers: 2, width: 32, heads: 4, tied: 1}", 0 },
};
#define FAMILIES (int)(sizeof families / sizeof families[0])

static char *in_folder(const char *name)
{
	static char path[8][512];
	static int next;
	char *text = path[next++ % 8];
	snprintf(text, sizeof path[0], "%s/%ld-%s", testing_directory(), (long)getpid(), name);
	return text;
}

static const char *config_of(int family, char text[1024])
{
	char data[160];
	snprintf(data, sizeof data, "shape: [%u, %u, 3], classes: 10", families[family].side, families[family].side);
	snprintf(text, 1024,
		 "data: {type: hash, %s, batch: 4, samples: 8, test_samples: 4}\n"
		 "model: %s\noptimizer: {type: momentum, learning_rate: 1e-3}\ntrain: {threads: 1, epochs: 1}\n",
		 families[family].side ? data : "context: 16, classes: 48", families[family].model);
	return text;
}

static struct tarn_session *open_text(const char *text, const char *initialize, const char *more)
{
	char first[600];
	struct tarn_session *session = NULL;
	const char *override[2] = { first, more };
	snprintf(first, sizeof first, "train.initialize=%s", initialize);
	const struct tarn_options options = { .config_text = text, .override = override, .overrides = more ? 2 : 1 };
	ck_assert_ok(tarn_open(&options, &session));
	return session;
}

/* A snapshot of weights that were trained a little. */
static void train(const char *text, const char *snapshot)
{
	struct tarn_session *session = open_text(text, "", NULL);
	struct tarn_metrics metrics = { .finished = false };
	while (!metrics.finished)
		ck_assert_ok(tarn_step(session, &metrics));
	ck_assert_ok(tarn_save(session, snapshot));
	tarn_close(session);
}

static void assert_same_file(const char *a, const char *b)
{
	FILE *f = fopen(a, "rb"), *g = fopen(b, "rb");
	ck_assert(f && g);
	for (long at = 0;; at++) {
		int x = getc(f), y = getc(g);
		ck_assert_msg(x == y, "%s and %s differ at byte %ld", a, b, at);
		if (x == EOF)
			break;
	}
	fclose(f);
	fclose(g);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct weights_tensor *)a)->name, ((const struct weights_tensor *)b)->name);
}

/* CRC of "NAME RANK" lines in the order of the names, as the script makes it. */
static uint32_t names_crc(const char *path)
{
	struct host_arena arena;
	struct weights_file file;
	uLong crc = 0;
	host_arena_init(&arena);
	ck_assert_ok(weights_file_open(path, &arena, &file));
	qsort(file.tensor, file.tensors, sizeof *file.tensor, by_name);
	for (uint32_t i = 0; i < file.tensors; i++) {
		char line[512];
		int used =
			snprintf(line, sizeof line, "%s%s %u", i ? "\n" : "", file.tensor[i].name, file.tensor[i].rank);
		crc = crc32(crc, (const Bytef *)line, (uInt)used);
	}
	weights_file_close(&file);
	host_arena_fini(&arena);
	return (uint32_t)crc;
}

static uint32_t recorded_crc(const char *family)
{
	char line[512];
	uint32_t crc = 0;
	bool found = false;
	FILE *file = fopen(REFERENCE, "r");
	ck_assert_ptr_nonnull(file);
	while (!found && fgets(line, sizeof line, file)) {
		const char *names = strstr(line, " names ");
		size_t length = strlen(family);
		found = !strncmp(line, family, length) && line[length] == ' ' && names &&
			sscanf(names, " names %x", &crc) == 1;
	}
	fclose(file);
	ck_assert_msg(found, "%s is not in %s", family, REFERENCE);
	return crc;
}

/* Exported, imported into another network of the kind and exported again: the same file, also through npz. */
START_TEST(comes_back_as_it_was)
{
	char text[1024];
	char *snapshot = in_folder("a.snapshot"), *out = in_folder("a.safetensors"), *npz = in_folder("a.npz");
	char *again = in_folder("b.snapshot"), *second = in_folder("b.safetensors");
	struct tarn_exported exported;
	train(config_of(_i, text), snapshot);
	ck_assert_ok(tarn_export(snapshot, out, NULL, &exported));
	ck_assert_msg(!strncmp(exported.family, families[_i].name, strlen(exported.family)) && exported.family[0],
		      "%s is taken for %s", families[_i].name, exported.family);
	ck_assert_ok(tarn_export(snapshot, npz, NULL, &exported));
	for (int archive = 0; archive < 2; archive++) {
		struct tarn_session *session = open_text(text, archive ? npz : out, "train.seed=7");
		ck_assert_ok(tarn_save(session, again));
		tarn_close(session);
		ck_assert_ok(tarn_export(again, second, NULL, &exported));
		assert_same_file(out, second);
	}
	ck_assert_uint_eq(names_crc(out), recorded_crc(families[_i].name));
}
END_TEST

static const char dense[] = "data: {type: hash, shape: [3], classes: 2, batch: 2, samples: 4}\n"
			    "layers: [{dense: {name: body, features: 4}}, relu, {dense: {name: head, features: 2}}]\n"
			    "train: {threads: 1, epochs: 1}\n";

static const char wider[] = "data: {type: hash, shape: [3], classes: 5, batch: 2, samples: 4}\n"
			    "layers: [{dense: {name: body, features: 4}}, relu, {dense: {name: head, features: 5}}]\n"
			    "train: {threads: 1, epochs: 1}\n";

static enum tarn_status try_text(const char *text, const char *a, const char *b)
{
	struct tarn_session *session = NULL;
	const char *override[2] = { a, b };
	const struct tarn_options options = { .config_text = text, .override = override, .overrides = b ? 2 : 1 };
	enum tarn_status st = tarn_open(&options, &session);
	tarn_close(session);
	return st;
}

static const char *setting(const char *key, const char *value)
{
	static char text[4][600];
	static int next;
	snprintf(text[next % 4], sizeof text[0], "%s=%s", key, value);
	return text[next++ % 4];
}

/* A head with other classes: refused by name, unless it is left out, and then the report says so. */
START_TEST(replaces_a_head)
{
	char *snapshot = in_folder("d.snapshot"), *out = in_folder("d.safetensors");
	struct tarn_exported exported;
	struct tarn_plan_info info;
	float body[12], loaded[12];
	train(dense, snapshot);
	ck_assert_ok(tarn_export(snapshot, out, NULL, &exported));
	ck_assert_fails(try_text(wider, setting("train.initialize", out), NULL), TARN_EFORMAT,
			"head.weight (file 2x4, network 5x4)");
	ck_assert_fails(try_text(wider, setting("train.initialize", snapshot), NULL), TARN_EFORMAT,
			"head/bias (file 2, network 5)");
	ck_assert_fails(try_text(dense, setting("train.initialize", out), "train.initialize_skip=[tail*]"), TARN_EINVAL,
			"tail* matches no tensor");
	ck_assert_fails(try_text(dense, "train.initialize_skip=[head*]", NULL), TARN_EINVAL, "needs train.initialize");
	struct tarn_session *old = open_text(dense, snapshot, NULL);
	struct tarn_session *session = open_text(wider, out, "train.initialize_skip=[head*]");
	ck_assert_ok(tarn_plan_info(session, &info));
	ck_assert_msg(strstr(info.initialized, "not loaded  head/weight, head/bias") != NULL, "%s", info.initialized);
	ck_assert_ok(tarn_read_tensor(old, "body/weight", body, sizeof body));
	ck_assert_ok(tarn_read_tensor(session, "body/weight", loaded, sizeof loaded));
	ck_assert_mem_eq(body, loaded, sizeof body);
	tarn_close(session);
	tarn_close(old);
}
END_TEST

/* A network of one layer, and of the file one layer more: both sides of the difference are named. */
START_TEST(names_missing_and_unexpected)
{
	static const char one[] = "data: {type: hash, shape: [3], classes: 2, batch: 2, samples: 4}\n"
				  "layers: [{dense: {name: other, features: 2}}]\ntrain: {threads: 1, epochs: 1}\n";
	char *snapshot = in_folder("m.snapshot"), *out = in_folder("m.safetensors");
	struct tarn_exported exported;
	train(dense, snapshot);
	ck_assert_ok(tarn_export(snapshot, out, NULL, &exported));
	const char *from = setting("train.initialize", out);
	ck_assert_fails(try_text(one, from, NULL), TARN_EFORMAT, "missing: other.weight, other.bias");
	ck_assert_fails(try_text(one, from, NULL), TARN_EFORMAT,
			"unexpected: body.bias, body.weight, head.bias, head.weight");
	ck_assert_ok(try_text(one, from, "train.initialize_skip=[other*, body*, head*]"));
}
END_TEST

/* Names that a map gives, both ways, and the transposed layout. */
START_TEST(takes_names_from_a_map)
{
	static const char map[] = "# own, other\nbody/weight encoder.kernel transposed\nhead/bias   decoder.b\n\n";
	char *snapshot = in_folder("n.snapshot"), *out = in_folder("n.npz"), *again = in_folder("n2.snapshot");
	const char *names = testing_file("names.txt", map, sizeof map - 1);
	struct tarn_exported exported;
	struct host_arena arena;
	struct weights_file file;
	train(dense, snapshot);
	ck_assert_ok(tarn_export(snapshot, out, names, &exported));
	host_arena_init(&arena);
	ck_assert_ok(weights_file_open(out, &arena, &file));
	const struct weights_tensor *kernel = weights_file_find(&file, "encoder.kernel");
	ck_assert_ptr_nonnull(kernel);
	ck_assert_uint_eq(kernel->dim[0], 3);
	ck_assert_uint_eq(kernel->dim[1], 4);
	ck_assert_ptr_nonnull(weights_file_find(&file, "head.weight"));
	weights_file_close(&file);
	host_arena_fini(&arena);
	struct tarn_session *session = open_text(dense, out, setting("train.initialize_map", names));
	ck_assert_ok(tarn_save(session, again));
	tarn_close(session);
	char *first = in_folder("n.safetensors"), *second = in_folder("n2.safetensors");
	ck_assert_ok(tarn_export(snapshot, first, NULL, &exported));
	ck_assert_ok(tarn_export(again, second, NULL, &exported));
	assert_same_file(first, second);
	names = testing_file("wrong.txt", "body/weights x\n", 15);
	ck_assert_fails(tarn_export(snapshot, out, names, &exported), TARN_EINVAL, "no tensor body/weights");
	names = testing_file("twice.txt", "body/bias head.bias\n", 20);
	ck_assert_fails(tarn_export(snapshot, out, names, &exported), TARN_EINVAL, "two tensors would be called");
}
END_TEST

/* A safetensors file of one tensor of four elements. */
static const char *one_tensor(const char *dtype, const char *shape, const void *data, size_t bytes)
{
	static char file[1024];
	uint64_t length = (uint64_t)snprintf(file + 8, sizeof file - 8,
					     "{\"w.bias\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[0,%zu]}}",
					     dtype, shape, bytes);
	memcpy(file, &length, 8);
	memcpy(file + 8 + length, data, bytes);
	return testing_file("one.safetensors", file, 8 + length + bytes);
}

/* Other floats become float32; anything else is no weight. */
START_TEST(reads_other_floats)
{
	static const uint16_t half[] = { 0x3C00, 0xC000, 0x0001, 0x7BFF }, brain[] = { 0x3F80, 0xC000, 0x0001, 0x4120 };
	static const double wide[] = { 1, -2, 0.5, 1e-3 };
	static const float want[3][4] = { { 1, -2, 0x1p-24f, 65504 },
					  { 1, -2, 0x1p-133f, 10 },
					  { 1, -2, 0.5f, 1e-3f } };
	static const struct {
		const char *dtype;
		const void *data;
		size_t bytes;
	} kind[] = { { "F16", half, 8 }, { "BF16", brain, 8 }, { "F64", wide, 32 }, { "I16", half, 8 } };
	for (int i = 0; i < 4; i++) {
		struct host_arena arena;
		struct weights_file file;
		float got[4];
		host_arena_init(&arena);
		ck_assert_ok(weights_file_open(one_tensor(kind[i].dtype, "[4]", kind[i].data, kind[i].bytes), &arena,
					       &file));
		enum tarn_status st = weights_file_read(&file, &file.tensor[0], &arena, got);
		if (i < 3) {
			ck_assert_ok(st);
			ck_assert_mem_eq(got, want[i], sizeof got);
		} else {
			ck_assert_int_eq(st, TARN_EUNSUPPORTED);
		}
		weights_file_close(&file);
		host_arena_fini(&arena);
	}
}
END_TEST

/* Every prefix of a file, and every file with one byte of its header changed, is refused or read, never trusted. */
START_TEST(survives_damaged_files)
{
	char *snapshot = in_folder("h.snapshot");
	static char good[1 << 16], bad[1 << 16];
	struct tarn_exported exported;
	struct testing_random random = { .state = (uint64_t)_i };
	char *out = in_folder(_i % 2 ? "h.npz" : "h.safetensors");
	train(dense, snapshot);
	ck_assert_ok(tarn_export(snapshot, out, NULL, &exported));
	FILE *stream = fopen(out, "rb");
	ck_assert_ptr_nonnull(stream);
	size_t bytes = fread(good, 1, sizeof good, stream);
	fclose(stream);
	for (int round = 0; round < 200; round++) {
		struct host_arena arena;
		struct weights_file file;
		float values[64];
		size_t length = round % 2 ? bytes : testing_between(&random, 0, (uint32_t)bytes - 1);
		memcpy(bad, good, bytes);
		bad[testing_between(&random, 0, (uint32_t)bytes - 1)] ^= (char)(1 << testing_between(&random, 0, 7));
		const char *path = testing_file("bad", bad, length);
		host_arena_init(&arena);
		enum tarn_status st = weights_file_open(path, &arena, &file);
		ck_assert_msg(length == bytes || st, "seed %d, round %d: %zu of %zu bytes are read", _i, round, length,
			      bytes);
		for (uint32_t i = 0; i < file.tensors && !st; i++)
			if (file.tensor[i].bytes <= sizeof values)
				weights_file_read(&file, &file.tensor[i], &arena, values);
		weights_file_close(&file);
		host_arena_fini(&arena);
	}
}
END_TEST

START_TEST(refuses_what_is_no_snapshot)
{
	struct tarn_exported exported;
	const char *path = one_tensor("F32", "[1]", "\0\0\0\0", 4);
	ck_assert_fails(tarn_export(path, in_folder("x.safetensors"), NULL, &exported), TARN_EFORMAT,
			"is not a snapshot");
	ck_assert_fails(tarn_export(in_folder("absent"), in_folder("x.npz"), NULL, &exported), TARN_EIO, "absent");
}
END_TEST

/* What is frozen stays, the rest moves; there is no optimizer state for it, and it is less memory. */
START_TEST(freezes_by_pattern)
{
	float before[12], after[12], head[8], moved[8];
	struct tarn_metrics metrics;
	struct tarn_plan_info all, some;
	struct tarn_session *session = open_text(dense, "", "optimizer.type=momentum");
	ck_assert_ok(tarn_plan_info(session, &all));
	tarn_close(session);
	session = open_text(dense, "", "network.freeze=[\"bo*\"]");
	ck_assert_ok(tarn_read_tensor(session, "body/weight", before, sizeof before));
	ck_assert_ok(tarn_read_tensor(session, "head/weight", head, sizeof head));
	ck_assert_ok(tarn_step(session, &metrics));
	ck_assert_ok(tarn_read_tensor(session, "body/weight", after, sizeof after));
	ck_assert_ok(tarn_read_tensor(session, "head/weight", moved, sizeof moved));
	ck_assert_mem_eq(before, after, sizeof before);
	ck_assert_mem_ne(head, moved, sizeof head);
	tarn_close(session);
	const char *override[] = { "network.freeze=[\"bo*\"]", "optimizer.type=momentum", "train.ema=0.5" };
	const struct tarn_options options = { .config_text = dense, .override = override, .overrides = 3 };
	ck_assert_ok(tarn_open(&options, &session));
	ck_assert_ok(tarn_plan_info(session, &some));
	ck_assert_uint_lt(some.state_bytes, all.state_bytes * 2);
	ck_assert_ok(tarn_step(session, &metrics));
	tarn_close(session);
	ck_assert_fails(try_text(dense, "network.freeze=[\"tail/*\"]", NULL), TARN_EINVAL,
			"network.freeze: tail/* matches no parameter");
	ck_assert_fails(try_text(dense, "network.freeze=[\"*\"]", NULL), TARN_EINVAL, "no parameter to train");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("exchange");
	TCase *names = tcase_create("names");
	tcase_set_timeout(names, 120);
	tcase_add_loop_test(names, comes_back_as_it_was, 0, FAMILIES);
	suite_add_tcase(suite, names);
	TCase *files = tcase_create("files");
	tcase_add_test(files, replaces_a_head);
	tcase_add_test(files, names_missing_and_unexpected);
	tcase_add_test(files, takes_names_from_a_map);
	tcase_add_test(files, reads_other_floats);
	tcase_add_loop_test(files, survives_damaged_files, 0, 4);
	tcase_add_test(files, refuses_what_is_no_snapshot);
	tcase_add_test(files, freezes_by_pattern);
	suite_add_tcase(suite, files);
	return testing_run(suite);
}
