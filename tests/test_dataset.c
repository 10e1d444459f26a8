/* test_dataset.c - samples from files and made-up ones: right values, and a clear refusal of everything else. */
#include "data/dataset.h"

#include "base/hash_numbers.h"
#include "support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define FASHION_MNIST "/usr/share/datasets/fashion-mnist"

static struct host_arena arena;
static struct config config;
static struct dataset dataset;

static void setup(void)
{
	host_arena_init(&arena);
	memset(&config, 0, sizeof config);
	config.data.type = DATA_IDX;
	config.data.directory = testing_directory();
	config.data.train_inputs = "images";
	config.data.train_labels = "labels";
	config.data.test_inputs = config.data.test_labels = "";
	config.data.classes = 10;
	config.data.batch = 4;
}

static void teardown(void)
{
	host_arena_fini(&arena);
}

static size_t put_u32(uint8_t *out, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		out[i] = (uint8_t)(value >> (24 - 8 * i));
	return 4;
}

/* An IDX file of bytes; returns its length. */
static size_t idx(uint8_t *out, uint32_t rank, const uint32_t *dim, const uint8_t *data, size_t bytes)
{
	const uint8_t magic[4] = { 0, 0, 8, (uint8_t)rank };
	memcpy(out, magic, 4);
	size_t at = 4;
	for (uint32_t i = 0; i < rank; i++)
		at += put_u32(out + at, dim[i]);
	memcpy(out + at, data, bytes);
	return at + bytes;
}

/* `bytes` of `data` as one gzip member; returns its length. */
static size_t gzip(const void *data, size_t bytes, uint8_t *out, size_t room)
{
	z_stream stream = { 0 };
	ck_assert_int_eq(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	stream.next_in = (Bytef *)(uintptr_t)data;
	stream.avail_in = (uInt)bytes;
	stream.next_out = out;
	stream.avail_out = (uInt)room;
	ck_assert_int_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
	deflateEnd(&stream);
	return room - stream.avail_out;
}

/* 6 images of 4 x 5 and their labels, as files "images" and "labels". */
#define N 6u
#define H 4u
#define W 5u
static uint8_t pixels[N * H * W];
static const uint8_t six_labels[N] = { 0, 9, 3, 3, 1, 7 };

static size_t image_file(uint8_t *out)
{
	struct testing_random random = { 7 };
	for (size_t i = 0; i < sizeof pixels; i++)
		pixels[i] = (uint8_t)testing_bits(&random);
	return idx(out, 3, (uint32_t[]){ N, H, W }, pixels, sizeof pixels);
}

static void write_images(void)
{
	uint8_t file[512];
	testing_file("images", file, image_file(file));
}

static void write_labels(const uint8_t *labels, uint32_t count)
{
	uint8_t file[512];
	testing_file("labels", file, idx(file, 1, &count, labels, count));
}

static void expect_pixels(float mean, float std)
{
	float sample[H * W];
	int32_t label;
	for (uint32_t n = 0; n < N; n++) {
		dataset_read(&dataset, n, false, 0, sample, &label);
		ck_assert_int_eq(label, six_labels[n]);
		for (uint32_t i = 0; i < H * W; i++)
			ck_assert_float_eq(sample[i], ((float)pixels[n * H * W + i] / 255.0f - mean) / std);
	}
}

START_TEST(reads_idx_images_and_labels)
{
	write_images();
	write_labels(six_labels, N);
	config.data.mean = (struct real_list){ { 0.25 }, 1 };
	config.data.std = (struct real_list){ { 0.5 }, 1 };
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	ck_assert_uint_eq(dataset.samples, N);
	ck_assert_uint_eq(dataset.shape.rank, 3);
	ck_assert_uint_eq(dataset.shape.dim[0], H);
	ck_assert_uint_eq(dataset.shape.dim[1], W);
	ck_assert_uint_eq(dataset.shape.dim[2], 1);
	ck_assert_uint_eq(dataset.shape.classes, 10);
	ck_assert_uint_eq(dataset.target_elements, 1);
	expect_pixels(0.25f, 0.5f);
	ck_assert_ok(dataset_open(&config, SPLIT_TEST, &arena, &dataset));
	ck_assert_uint_eq(dataset.samples, 0);
}
END_TEST

/* R113: gzip by content, whatever the name says; members may follow one another. */
START_TEST(finds_gzip_by_content)
{
	uint8_t plain[512], packed[1024];
	size_t bytes = image_file(plain), half = bytes / 2;
	write_labels(six_labels, N);
	testing_file("images", packed, gzip(plain, bytes, packed, sizeof packed));
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	expect_pixels(0, 1);
	size_t first = gzip(plain, half, packed, sizeof packed);
	first += gzip(plain + half, bytes - half, packed + first, sizeof packed - first);
	testing_file("images", packed, first);
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	expect_pixels(0, 1);
	testing_file("images.gz", plain, bytes);
	config.data.train_inputs = "images.gz";
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	expect_pixels(0, 1);
}
END_TEST

/* R113: what is no data file is named as what it is. */
START_TEST(names_foreign_files)
{
	static const struct {
		const char *content;
		size_t bytes;
		const char *sentence;
	} cases[] = {
		{ "", 0, "images: is an empty file" },
		{ "<!DOCTYPE html><html>404</html>", 31,
		  "is an HTML page, not an IDX file; was the download refused?" },
		{ " \n<html>", 8, "is an HTML page" },
		{ "\x93NUMPY\1\0v\0{}", 12, "not an IDX file but an npy file" },
		{ "PK\3\4xxxxxxxx", 12, "zip archive" },
		{ "version https://git-lfs.github.com/spec/v1\n", 43, "Git LFS pointer" },
		{ "hello world!", 12, "not an IDX file: it starts with bytes 68 65 6C 6C" },
		{ "\0\0", 2, "truncated" },
		{ "\0\0\x08\3\0\0\0\1\0\0", 10, "truncated" },
		{ "\0\0\x0B\1\0\0\0\1\0\0", 10, "unsupported: IDX type 0x0B" },
		{ "\0\0\x08\7\0\0\0\1\0\0", 10, "IDX rank 7" },
		{ "\0\0\x08\2\0\0\0\0\0\0\0\1", 12, "holds 0 items" },
		{ "\0\0\x08\3\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 16, "more than 2^63 bytes" },
		{ "\0\0\x08\2\0\1\0\0\0\1\0\0", 12, "promises 4294967296 bytes" },
	};
	write_labels(six_labels, N);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		testing_file("images", cases[i].content, cases[i].bytes);
		enum tarn_status st = dataset_open(&config, SPLIT_TRAIN, &arena, &dataset);
		ck_assert_msg(st == TARN_EFORMAT || st == TARN_EUNSUPPORTED, "case %zu: status %d", i, (int)st);
		ck_assert_msg(strstr(tarn_error(), cases[i].sentence) && strstr(tarn_error(), "images"), "case %zu: %s",
			      i, tarn_error());
	}
}
END_TEST

START_TEST(names_html_inside_gzip)
{
	uint8_t packed[256];
	testing_file("images", packed, gzip("<html>refused</html>", 20, packed, sizeof packed));
	write_labels(six_labels, N);
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EFORMAT, "HTML page");
}
END_TEST

/* R056: any flipped byte and any cut of a gzip file is noticed, and the sentence names file and byte. */
START_TEST(notices_damaged_gzip)
{
	uint8_t plain[512], packed[1024];
	size_t packed_bytes = gzip(plain, image_file(plain), packed, sizeof packed);
	write_labels(six_labels, N);
	for (size_t cut = 0; cut < packed_bytes; cut++) {
		testing_file("images", packed, cut);
		enum tarn_status st = dataset_open(&config, SPLIT_TRAIN, &arena, &dataset);
		ck_assert_msg(st == TARN_EFORMAT, "cut at %zu: status %d", cut, (int)st);
		ck_assert_ptr_nonnull(strstr(tarn_error(), "images"));
	}
	ck_assert_ptr_nonnull(strstr(tarn_error(), "truncated: the file ends at byte"));
	for (size_t at = 0; at < packed_bytes; at++) {
		/* Bytes 4 to 9 are time, flags of the packer and operating system: no data, not covered by the CRC. */
		if (at >= 4 && at <= 9)
			continue;
		/* Bit 0 of the flags (byte 3) only says that the data are text. */
		uint8_t bit = at == 3 ? 0x10 : 0x01;
		packed[at] ^= bit;
		testing_file("images", packed, packed_bytes);
		enum tarn_status st = dataset_open(&config, SPLIT_TRAIN, &arena, &dataset);
		packed[at] ^= bit;
		/* A flip in the stored header may show as another kind of IDX file or another shape first. */
		ck_assert_msg(st == TARN_EFORMAT || st == TARN_EUNSUPPORTED || st == TARN_EDATA,
			      "byte %zu flipped: status %d", at, (int)st);
		ck_assert_msg(strstr(tarn_error(), "images") && (st == TARN_EDATA || strstr(tarn_error(), "byte")),
			      "%s", tarn_error());
	}
	packed[packed_bytes] = 'x';
	testing_file("images", packed, packed_bytes + 1);
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EFORMAT, "that are not gzip follow");
}
END_TEST

START_TEST(notices_wrong_length)
{
	uint8_t plain[512] = { 0 };
	size_t bytes = image_file(plain);
	write_labels(six_labels, N);
	testing_file("images", plain, bytes - 1);
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EFORMAT, "truncated");
	testing_file("images", plain, bytes + 1);
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EFORMAT,
			"more bytes follow byte 136");
	write_images();
	write_labels(six_labels, N - 1);
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EDATA, "holds 6 samples");
}
END_TEST

START_TEST(names_missing_files)
{
	write_labels(six_labels, N);
	config.data.train_inputs = "absent";
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EIO, "absent: no such file");
	ck_assert_ptr_nonnull(strstr(tarn_error(), "data.train_inputs names it, in data.directory"));
	ck_assert_ptr_nonnull(strstr(tarn_error(), testing_directory()));
	ck_assert_ptr_null(strstr(tarn_error(), "exist either"));
	write_images();
	config.data.train_inputs = "images";
	config.data.test_inputs = "images";
	config.data.test_labels = "missing";
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EIO, "data.test_labels names it");
	config.data.train_labels = "/absent/y";
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EIO,
			"/absent/y: no such file; data.train_labels names it");
	ck_assert_ptr_null(strstr(tarn_error(), "data.directory"));
	config.data.directory = "/nowhere";
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EIO,
			"/nowhere, which does not exist either");
	config.data.directory = "/nowhere/fashion-mnist";
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EIO, "dataset-fashion-mnist");
	/* The package has no npy files. */
	config.data.type = DATA_NPY;
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EIO, "data.train_inputs names it");
	ck_assert_ptr_null(strstr(tarn_error(), "apt install"));
	config.data.type = DATA_IDX;
	config.data.train_inputs = NULL;
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EINVAL, "data.train_inputs");
	config.data.directory = "/";
	config.data.train_inputs = "tmp";
	config.data.train_labels = "tmp";
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EIO, "not a regular file");
}
END_TEST

/* R058: index, value and allowed range. */
START_TEST(checks_labels)
{
	uint8_t labels[N] = { 1, 2, 3, 4, 10, 5 };
	write_images();
	write_labels(labels, N);
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EDATA,
			"label at index 4 is 10; allowed are 0 to 9");
	config.data.classes = 0;
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	ck_assert_uint_eq(dataset.shape.classes, 11);
}
END_TEST

/* --- npy --- */

/* An npy file; version 1 has a 2-byte length. Returns its length. */
static size_t npy(uint8_t *out, int version, const char *dictionary, const void *data, size_t bytes)
{
	size_t prefix = version == 1 ? 10 : 12, length = strlen(dictionary) + 1;
	while ((prefix + length) % 64)
		length++;
	memcpy(out, "\x93NUMPY", 6);
	out[6] = (uint8_t)version;
	out[7] = 0;
	out[8] = (uint8_t)length;
	out[9] = (uint8_t)(length >> 8);
	out[10] = out[11] = 0;
	memset(out + prefix, ' ', length);
	memcpy(out + prefix, dictionary, strlen(dictionary));
	out[prefix + length - 1] = '\n';
	memcpy(out + prefix + length, data, bytes);
	return prefix + length + bytes;
}

static void write_npy(const char *name, int version, const char *dictionary, const void *data, size_t bytes)
{
	uint8_t file[2048];
	testing_file(name, file, npy(file, version, dictionary, data, bytes));
}

static const float six_floats[6] = { 0.5f, -1.25f, 3, 4, 1e-20f, 6e7f };

static void npy_config(void)
{
	config.data.type = DATA_NPY;
	write_npy("images", 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", six_floats,
		  sizeof six_floats);
	write_npy("labels", 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", "\1\2", 2);
}

/* R116: versions 1 to 3 give the same values. */
START_TEST(reads_npy_versions)
{
	npy_config();
	for (int version = 1; version <= 3; version++) {
		write_npy("images", version, "{\"shape\": (2, 3), 'fortran_order': False, 'descr': '<f4'}", six_floats,
			  sizeof six_floats);
		ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
		ck_assert_uint_eq(dataset.samples, 2);
		ck_assert_uint_eq(dataset.shape.rank, 1);
		ck_assert_uint_eq(dataset.shape.dim[0], 3);
		float sample[3];
		int32_t label;
		for (uint32_t n = 0; n < 2; n++) {
			dataset_read(&dataset, n, false, 0, sample, &label);
			ck_assert_mem_eq(sample, six_floats + 3 * n, sizeof sample);
			ck_assert_int_eq(label, (int)n + 1);
		}
	}
}
END_TEST

/* R116: the other cases are refused with what and where. */
START_TEST(refuses_other_npy)
{
	static const struct {
		const char *dictionary, *sentence;
	} cases[] = {
		{ "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3)}",
		  "images: dtype <f8 is not supported: inputs are float32 (<f4) or bytes (|u1); save "
		  "x.astype('float32')" },
		{ "{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3)}",
		  "dtype >f4 is not supported: inputs are" },
		{ "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3)}",
		  "dtype <i4 is not supported: inputs are" },
		{ "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}", "unsupported: Fortran order" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "0-d array" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3)}", "holds 0 items" },
		{ "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2, 3)}", "structured dtype" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (3)}", "',' expected" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3)}", "a dimension expected" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 03)}", "a dimension expected" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 3)}", "larger than 2^32" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967295, 4294967295)}", "more than 2^63" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 6)}",
		  "more than 6 dimensions" },
		{ "{'descr': '<f4', 'fortran_order': False}", "is missing" },
		{ "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", "stands twice" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'x': 1}", "key 'x'" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} x", "the end expected" },
		{ "{'descr': '<f4', 'fortran_order': maybe, 'shape': (2, 3)}", "True or False expected" },
		{ "'descr'", "'{' expected" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4)}", "truncated" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}", "more bytes follow" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 6)}", "holds 1 samples" },
	};
	npy_config();
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		write_npy("images", 1, cases[i].dictionary, six_floats, sizeof six_floats);
		enum tarn_status st = dataset_open(&config, SPLIT_TRAIN, &arena, &dataset);
		ck_assert_msg(st == TARN_EFORMAT || st == TARN_EUNSUPPORTED || st == TARN_EDATA, "case %zu: status %d",
			      i, (int)st);
		ck_assert_msg(strstr(tarn_error(), cases[i].sentence) && strstr(tarn_error(), "images"), "case %zu: %s",
			      i, tarn_error());
	}
	write_npy("images", 4, cases[0].dictionary, six_floats, sizeof six_floats);
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EUNSUPPORTED, "npy version 4.0");
}
END_TEST

START_TEST(reads_every_label_type)
{
	static const struct {
		const char *type;
		uint8_t data[16];
		size_t bytes;
	} cases[] = {
		{ "|u1", { 5, 7 }, 2 },
		{ "|i1", { 5, 7 }, 2 },
		{ "<i2", { 5, 0, 7, 0 }, 4 },
		{ "<u2", { 5, 0, 7, 0 }, 4 },
		{ "<i4", { 5, 0, 0, 0, 7, 0, 0, 0 }, 8 },
		{ "<u4", { 5, 0, 0, 0, 7, 0, 0, 0 }, 8 },
		{ "<i8", { 5, 0, 0, 0, 0, 0, 0, 0, 7 }, 16 },
		{ "<u8", { 5, 0, 0, 0, 0, 0, 0, 0, 7 }, 16 },
	};
	npy_config();
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char dictionary[128];
		snprintf(dictionary, sizeof dictionary, "{'descr': '%s', 'fortran_order': False, 'shape': (2,), }",
			 cases[i].type);
		write_npy("labels", 1, dictionary, cases[i].data, cases[i].bytes);
		ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
		ck_assert_int_eq(dataset.labels[0], 5);
		ck_assert_int_eq(dataset.labels[1], 7);
		/* R058: the highest byte set is negative or far out of range. */
		uint8_t bad[16];
		memcpy(bad, cases[i].data, sizeof bad);
		bad[cases[i].bytes - 1] = 0xFF;
		write_npy("labels", 1, dictionary, bad, cases[i].bytes);
		ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EDATA,
				"label at index 1 is ");
		ck_assert_ptr_nonnull(strstr(tarn_error(), "allowed are 0 to 9"));
	}
	static const char *const others[] = { "<f4", "<f8", "|b1", ">i8" };
	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
		char dictionary[128], sentence[128];
		snprintf(dictionary, sizeof dictionary, "{'descr': '%s', 'fortran_order': False, 'shape': (2,)}",
			 others[i]);
		snprintf(sentence, sizeof sentence, "labels: dtype %s is not supported: labels of cross_entropy are",
			 others[i]);
		write_npy("labels", 1, dictionary, six_floats, 16);
		ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EUNSUPPORTED, sentence);
		ck_assert_ptr_nonnull(strstr(tarn_error(), "save y.astype('int64')"));
	}
}
END_TEST

START_TEST(reads_float_targets)
{
	npy_config();
	config.network.loss = LOSS_MEAN_SQUARED_ERROR;
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EUNSUPPORTED,
			"targets that are values are float32 (<f4); save y.astype");
	write_npy("labels", 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}", six_floats, 16);
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EUNSUPPORTED,
			"labels: dtype <f8 is not supported");
	write_npy("labels", 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}", six_floats, 16);
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	ck_assert_uint_eq(dataset.shape.target_rank, 1);
	ck_assert_uint_eq(dataset.shape.target_dim[0], 2);
	ck_assert_ptr_null(dataset.labels);
	float sample[3], target[2];
	dataset_read(&dataset, 1, false, 0, sample, target);
	ck_assert_mem_eq(target, six_floats + 2, sizeof target);
}
END_TEST

START_TEST(refuses_numbers_that_are_not_finite)
{
	npy_config();
	float values[6] = { 0, 1, 2, 3, NAN, 5 };
	write_npy("images", 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", values, sizeof values);
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EDATA, "element 1 of sample 1 is");
}
END_TEST

START_TEST(reads_big_endian_idx_floats)
{
	uint8_t file[64] = { 0, 0, 0x0D, 2, 0, 0, 0, 2, 0, 0, 0, 2 };
	const float values[4] = { 1, -2.5f, 0, 1e10f };
	for (int i = 0; i < 4; i++) {
		uint32_t word;
		memcpy(&word, &values[i], 4);
		put_u32(file + 12 + 4 * i, word);
	}
	testing_file("images", file, 28);
	write_labels(six_labels, 2);
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	ck_assert_mem_eq(dataset.values, values, sizeof values);
	/* The words of the format: nobody converts IDX with NumPy's types. */
	testing_file("labels", file, 28);
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EUNSUPPORTED,
			"labels: IDX type 0x0D is not supported: labels of cross_entropy are bytes");
	write_labels(six_labels, 2);
	config.network.loss = LOSS_MEAN_SQUARED_ERROR;
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EUNSUPPORTED,
			"IDX type 0x08 is not supported: targets that are values are floats");
}
END_TEST

START_TEST(compares_splits_and_shape)
{
	write_images();
	write_labels(six_labels, N);
	uint8_t file[512];
	testing_file("other", file, idx(file, 3, (uint32_t[]){ N, W, H }, pixels, sizeof pixels));
	config.data.test_inputs = "other";
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EINVAL, "data.test_labels");
	config.data.test_labels = "labels";
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EDATA, "but test samples are");
	config.data.test_inputs = "images";
	config.data.shape = (struct size_list){ { H, W + 1 }, 2 };
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EDATA, "data.shape is");
	config.data.shape = (struct size_list){ { H, W }, 2 };
	ck_assert_ok(dataset_open(&config, SPLIT_TEST, &arena, &dataset));
	ck_assert_uint_eq(dataset.samples, N);
	config.data.mean = (struct real_list){ { 0, 0, 0 }, 3 };
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EDATA, "data.mean has 3 values");
	config.data.mean.count = 0;
	config.data.std = (struct real_list){ { 0 }, 1 };
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EINVAL, "data.std: value 1 is 0");
}
END_TEST

/* Planning looks at headers and configuration alone, and refuses what opening would refuse, in the same words. */
static void refused_by_both(enum tarn_status expected, const char *sentence)
{
	uint32_t train, test;
	struct sample_shape shape;
	char said[TARN_ERROR_BYTES];
	ck_assert_fails(dataset_describe(&config, &arena, &train, &test, &shape), expected, sentence);
	snprintf(said, sizeof said, "%s", tarn_error());
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), expected, sentence);
	ck_assert_str_eq(said, tarn_error());
}

START_TEST(describing_refuses_what_opening_refuses)
{
	write_images();
	write_labels(six_labels, N);
	config.data.mean = config.data.std = (struct real_list){ { 1, 1, 1 }, 3 };
	refused_by_both(TARN_EDATA, "data.mean has 3 values; samples have 1 channel, so 1 is needed");
	config.data.mean.count = 0;
	refused_by_both(TARN_EDATA, "data.std has 3 values");
	config.data.std = (struct real_list){ { 0 }, 1 };
	refused_by_both(TARN_EINVAL, "data.std: value 1 is 0");
	config.data.std.count = 0;
	npy_config();
	config.data.flip = true;
	refused_by_both(TARN_EDATA, "data.augment needs images (H x W x C); samples have the shape 3");
	config.data.flip = false;
	config.data.mean = config.data.std = (struct real_list){ { 1, 1 }, 2 };
	refused_by_both(TARN_EDATA, "samples have 3 channels, so 1, or one a channel, are needed");
	config.data.mean.count = config.data.std.count = 0;
	write_npy("labels", 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}", six_floats, 16);
	refused_by_both(TARN_EUNSUPPORTED, "dtype <f8");
	write_npy("labels", 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2)}", six_floats, 4);
	refused_by_both(TARN_EDATA, "labels have 2 dimensions");
	config.data.type = DATA_SYNTHETIC;
	config.data.shape = (struct size_list){ { UINT32_MAX, UINT32_MAX, 3 }, 3 };
	refused_by_both(TARN_EINVAL, "more than 2^64");
	config.data.shape = (struct size_list){ { UINT32_MAX, 1 << 20 }, 2 };
	config.data.samples = UINT32_MAX;
	refused_by_both(TARN_EINVAL, "more than the machine can address");
}
END_TEST

START_TEST(normalises_each_channel)
{
	uint8_t file[512];
	write_images();
	testing_file("images", file, idx(file, 4, (uint32_t[]){ N, 2, 2, W }, pixels, sizeof pixels));
	write_labels(six_labels, N);
	config.data.mean = (struct real_list){ { 0.1, 0.2, 0.3, 0.4, 0.5 }, 5 };
	config.data.std = (struct real_list){ { 2 }, 1 };
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	float sample[H * W];
	int32_t label;
	dataset_read(&dataset, 3, false, 0, sample, &label);
	for (uint32_t i = 0; i < H * W; i++)
		ck_assert_float_eq(sample[i],
				   ((float)pixels[3 * H * W + i] / 255.0f - (float)config.data.mean.item[i % W]) /
					   2.0f);
}
END_TEST

/* Describing a file needs its header alone: damage behind it is not looked at. */
START_TEST(describes_from_headers)
{
	uint8_t file[512];
	size_t bytes = image_file(file);
	memset(file + 16, 0xAA, bytes - 16);
	testing_file("images", file, bytes);
	const uint8_t labels[N] = { 255, 255, 255, 255, 255, 255 };
	write_labels(labels, N);
	uint32_t train, test;
	struct sample_shape shape;
	ck_assert_ok(dataset_describe(&config, &arena, &train, &test, &shape));
	ck_assert_uint_eq(train, N);
	ck_assert_uint_eq(test, 0);
	ck_assert_uint_eq(shape.dim[1], W);
	ck_assert_uint_eq(shape.classes, 10);
}
END_TEST

/* R115: figures of what the network will see; a constant input is noticed. */
START_TEST(measures_a_dataset)
{
	struct dataset_statistics statistics;
	uint64_t count[10];
	write_images();
	write_labels(six_labels, N);
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	ck_assert_ok(dataset_measure(&dataset, &arena, &statistics, count));
	double sum = 0, least = 255, largest = 0;
	for (size_t i = 0; i < sizeof pixels; i++) {
		sum += pixels[i];
		least = fmin(least, pixels[i]);
		largest = fmax(largest, pixels[i]);
	}
	ck_assert_double_eq_tol(statistics.mean, sum / sizeof pixels / 255, 1e-6);
	ck_assert_double_eq_tol(statistics.least, least / 255, 1e-6);
	ck_assert_double_eq_tol(statistics.largest, largest / 255, 1e-6);
	ck_assert(!statistics.constant);
	ck_assert_uint_eq(count[3], 2);
	ck_assert_uint_eq(count[8], 0);
	uint8_t zeros[sizeof pixels] = { 0 }, file[512];
	testing_file("images", file, idx(file, 3, (uint32_t[]){ N, H, W }, zeros, sizeof zeros));
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	ck_assert_ok(dataset_measure(&dataset, &arena, &statistics, NULL));
	ck_assert(statistics.constant);
}
END_TEST

/* The crop lies at a shift of at most `shift`, outside is black, and the same (seed, epoch, index) gives the same
 * sample. */
START_TEST(augments_by_shift_and_flip)
{
	write_images();
	write_labels(six_labels, N);
	config.data.mean = (struct real_list){ { 0.5 }, 1 };
	config.data.shift = 2;
	config.data.flip = true;
	config.train.seed = 11;
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	float sample[H * W], again[H * W];
	int32_t label;
	uint32_t seen[5][5][2] = { 0 };
	for (uint32_t epoch = 0; epoch < 400; epoch++) {
		dataset_read(&dataset, 2, true, epoch, sample, &label);
		dataset_read(&dataset, 2, true, epoch, again, &label);
		ck_assert_mem_eq(sample, again, sizeof sample);
		unsigned matches = 0;
		for (int dy = -2; dy <= 2; dy++)
			for (int dx = -2; dx <= 2; dx++)
				for (int flip = 0; flip < 2; flip++) {
					bool same = true;
					for (int i = 0; i < (int)(H * W) && same; i++) {
						int h = i / (int)W + dy, w = i % (int)W;
						w = (flip ? (int)W - 1 - w : w) + dx;
						bool inside = h >= 0 && h < (int)H && w >= 0 && w < (int)W;
						uint8_t raw = inside ? pixels[2 * (int)(H * W) + h * (int)W + w] : 0;
						same = sample[i] == (float)raw / 255.0f - 0.5f;
					}
					if (same) {
						matches++;
						seen[dy + 2][dx + 2][flip]++;
					}
				}
		ck_assert_uint_eq(matches, 1);
	}
	for (int i = 0; i < 50; i++)
		ck_assert_msg(seen[i / 10][i / 2 % 5][i % 2] > 0, "shift and flip %d of 50 never drawn", i);
	config.data.flip = false;
	config.data.shift = 0;
	dataset_read(&dataset, 2, true, 0, sample, &label);
	dataset_read(&dataset, 2, false, 0, again, &label);
	ck_assert_mem_eq(sample, again, sizeof sample);
}
END_TEST

static void made_config(uint32_t type)
{
	config.data.type = type;
	config.data.shape = (struct size_list){ { 8, 6, 3 }, 3 };
	config.data.classes = 10;
	config.data.samples = 200;
	config.data.test_samples = 100;
	config.train.seed = 5;
}

/* Nearest mean of the training classes labels the test split: the patterns are shared and the noise does not drown
 * them. */
START_TEST(synthetic_is_learnable_and_reproducible)
{
	made_config(DATA_SYNTHETIC);
	struct dataset test, again;
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &again));
	ck_assert_ok(dataset_open(&config, SPLIT_TEST, &arena, &test));
	ck_assert_mem_eq(dataset.values, again.values, 200 * 144 * sizeof(float));
	ck_assert_mem_ne(dataset.values, test.values, 100 * 144 * sizeof(float));
	double mean[10][144] = { 0 };
	uint32_t count[10] = { 0 }, right = 0;
	for (uint32_t n = 0; n < 200; n++) {
		count[dataset.labels[n]]++;
		for (uint32_t i = 0; i < 144; i++)
			mean[dataset.labels[n]][i] += (double)dataset.values[n * 144 + i] / 20;
	}
	for (uint32_t k = 0; k < 10; k++)
		ck_assert_uint_eq(count[k], 20);
	for (uint32_t n = 0; n < 100; n++) {
		int best = -1;
		double least = INFINITY;
		for (int k = 0; k < 10; k++) {
			double distance = 0;
			for (uint32_t i = 0; i < 144; i++)
				distance += pow((double)test.values[n * 144 + i] - mean[k][i], 2);
			if (distance < least) {
				least = distance;
				best = k;
			}
		}
		right += best == test.labels[n];
	}
	ck_assert_uint_ge(right, 95);
	config.train.seed = 6;
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &again));
	ck_assert_mem_ne(dataset.values, again.values, 144 * sizeof(float));
}
END_TEST

/* Targets are linear: one fixed map explains both splits, so target(x) of a sum is the sum of targets. */
START_TEST(synthetic_regression_is_linear)
{
	made_config(DATA_SYNTHETIC);
	config.network.loss = LOSS_MEAN_SQUARED_ERROR;
	config.data.shape = (struct size_list){ { 3 }, 1 };
	config.data.classes = 2;
	struct dataset test;
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	ck_assert_ok(dataset_open(&config, SPLIT_TEST, &arena, &test));
	ck_assert_uint_eq(dataset.target_elements, 2);
	/* Solve for the map by Cramer's rule from three training samples; it must give the test targets. */
	const float *x = dataset.values;
	double a[3][3], map[3];
	for (int t = 0; t < 2; t++) {
		for (int column = -1; column < 3; column++) {
			for (int i = 0; i < 3; i++)
				for (int j = 0; j < 3; j++)
					a[i][j] = (double)(j == column ? dataset.targets[2 * i + t] : x[3 * i + j]);
			double determinant = a[0][0] * (a[1][1] * a[2][2] - a[1][2] * a[2][1]) -
					     a[0][1] * (a[1][0] * a[2][2] - a[1][2] * a[2][0]) +
					     a[0][2] * (a[1][0] * a[2][1] - a[1][1] * a[2][0]);
			static double whole;
			if (column < 0)
				whole = determinant;
			else
				map[column] = determinant / whole;
		}
		for (uint32_t n = 0; n < 100; n++) {
			const float *y = test.values + 3 * n;
			double expected = map[0] * (double)y[0] + map[1] * (double)y[1] + map[2] * (double)y[2];
			ck_assert_double_eq_tol((double)test.targets[2 * n + (uint32_t)t], expected, 1e-4);
		}
	}
}
END_TEST

START_TEST(hash_follows_channels_first_numbering)
{
	made_config(DATA_HASH);
	config.data.samples = 0;
	config.data.batch = 4;
	config.data.mean = (struct real_list){ { 0.5 }, 1 };
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	ck_assert_uint_eq(dataset.samples, 4);
	float sample[144];
	int32_t label;
	for (uint32_t n = 0; n < 4; n++) {
		dataset_read(&dataset, n, false, 0, sample, &label);
		ck_assert_int_eq(label, (int32_t)hash_label(2, n, 10));
		for (uint32_t h = 0; h < 8; h++)
			for (uint32_t w = 0; w < 6; w++)
				for (uint32_t c = 0; c < 3; c++)
					ck_assert_float_eq(sample[(h * 6 + w) * 3 + c],
							   hash_uniform(1, ((n * 3 + c) * 8 + h) * 6 + w, 1.0f));
	}
	config.data.shape = (struct size_list){ { 7 }, 1 };
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	dataset_read(&dataset, 3, false, 0, sample, &label);
	for (uint32_t f = 0; f < 7; f++)
		ck_assert_float_eq(sample[f], hash_uniform(1, 3 * 7 + f, 1.0f));
}
END_TEST

/* R095: a count of zero is said, not multiplied into a huge number. */
/* A label for each pixel: numbered through all samples, or N x H x W in a file. */
START_TEST(pixels_have_labels)
{
	float sample[144];
	int32_t label[48];
	made_config(DATA_HASH);
	config.data.pixel_labels = true;
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	ck_assert_uint_eq(dataset.target_elements, 48);
	for (uint32_t n = 0; n < dataset.samples; n++) {
		dataset_read(&dataset, n, false, 0, sample, label);
		for (uint32_t p = 0; p < 48; p++)
			ck_assert_int_eq(label[p], (int32_t)hash_label(HASH_SEED_TARGET, n * 48 + p, 10));
	}
	config.data.flip = true;
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EINVAL,
			"not the labels of their pixels");
	config.data.flip = false;
	config.data.shape = (struct size_list){ { 48 }, 1 };
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EINVAL,
			"data.pixel_labels needs images");
}
END_TEST

START_TEST(reads_pixel_labels)
{
	float sample[3];
	int32_t label[3];
	npy_config();
	write_npy("images", 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1, 3), }", six_floats,
		  sizeof six_floats);
	write_npy("labels", 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1, 3), }", "\1\2\3\4\5\6", 6);
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EDATA,
			"one a pixel with data.pixel_labels");
	config.data.pixel_labels = true;
	config.data.classes = 0;
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	ck_assert_uint_eq(dataset.shape.classes, 7);
	dataset_read(&dataset, 1, false, 0, sample, label);
	for (int p = 0; p < 3; p++)
		ck_assert_int_eq(label[p], 4 + p);
	config.data.classes = 6;
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EDATA, "label at index 5 is 6");
	write_npy("labels", 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 1), }", "\1\2\3\4\5\6", 6);
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EDATA,
			"labels of a sample are 3x1 but its pixels are 1x3");
}
END_TEST

/* Each quarter of a synthetic image has the class that its labels say: the nearest mean of a pixel finds most. */
START_TEST(synthetic_pixels_are_learnable)
{
	float sample[144], mean[10][144] = { { 0 } };
	int32_t label[48];
	uint32_t right = 0, count[10][48] = { { 0 } };
	made_config(DATA_SYNTHETIC);
	config.data.pixel_labels = true;
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	for (uint32_t n = 0; n < dataset.samples; n++) {
		dataset_read(&dataset, n, false, 0, sample, label);
		for (uint32_t i = 0; i < 144; i++)
			mean[label[i / 3]][i] += sample[i];
		for (uint32_t p = 0; p < 48; p++)
			count[label[p]][p]++;
	}
	ck_assert_ok(dataset_open(&config, SPLIT_TEST, &arena, &dataset));
	for (uint32_t n = 0; n < dataset.samples; n++) {
		dataset_read(&dataset, n, false, 0, sample, label);
		for (uint32_t p = 0; p < 48; p++) {
			float best = INFINITY;
			int32_t nearest = -1;
			for (int32_t k = 0; k < 10; k++) {
				float distance = 0;
				for (uint32_t i = p * 3; i < p * 3 + 3; i++) {
					float d = sample[i] - mean[k][i] / (float)count[k][p];
					distance += d * d;
				}
				nearest = distance < best ? k : nearest;
				best = distance < best ? distance : best;
			}
			right += nearest == label[p];
		}
	}
	/* Guessing gives one in ten. */
	ck_assert_uint_gt(right, dataset.samples * 48 / 5);
}
END_TEST

/* Tokens of hash are numbered through all samples, and the label of the last one is the first of its sample. */
START_TEST(hash_tokens_follow_the_numbering)
{
	made_config(DATA_HASH);
	config.data.shape.count = 0;
	config.data.context = 7;
	config.data.classes = 50;
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	ck_assert_uint_eq(dataset.shape.vocabulary, 50);
	int32_t id[7], label[7];
	for (uint32_t n = 0; n < dataset.samples; n++) {
		dataset_read(&dataset, n, false, 0, id, label);
		for (uint32_t t = 0; t < 7; t++) {
			ck_assert_int_eq(id[t], (int32_t)hash_label(HASH_SEED_INPUT, n * 7 + t, 50));
			ck_assert_int_eq(label[t], id[(t + 1) % 7]);
		}
	}
}
END_TEST

/* Synthetic tokens mostly have the successor that they had before: 9 of 16 times by rule, and sometimes by chance. */
START_TEST(synthetic_tokens_are_learnable)
{
	made_config(DATA_SYNTHETIC);
	config.data.shape.count = 0;
	config.data.context = 64;
	config.data.classes = 11;
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	int32_t id[64], label[64], before[11];
	uint32_t same = 0, all = 0;
	memset(before, 0xFF, sizeof before);
	for (uint32_t n = 0; n < dataset.samples; n++) {
		dataset_read(&dataset, n, false, 0, id, label);
		for (uint32_t t = 0; t < 64; t++) {
			ck_assert(id[t] >= 0 && id[t] < 11 && (t == 63 || label[t] == id[t + 1]));
			same += before[id[t]] == label[t];
			all++;
			before[id[t]] = label[t];
		}
	}
	ck_assert_msg(same * 2 > all && same * 4 < all * 3, "%u of %u successors are those of before", same, all);
}
END_TEST

START_TEST(refuses_empty_made_data)
{
	made_config(DATA_HASH);
	config.data.samples = config.data.batch = 0;
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EINVAL, "needs at least 1 sample");
	made_config(DATA_SYNTHETIC);
	config.data.samples = 0;
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	ck_assert_uint_eq(dataset.samples, 1024);
	made_config(DATA_SYNTHETIC);
	config.data.classes = 0;
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EINVAL, "data.classes is 0");
	made_config(DATA_HASH);
	config.data.shape.count = 0;
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EINVAL,
			"data.shape has 0 dimensions");
	made_config(DATA_HASH);
	config.data.shape = (struct size_list){ { UINT32_MAX, UINT32_MAX, 3 }, 3 };
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EINVAL, "more than 2^64");
	made_config(DATA_HASH);
	config.data.shape = (struct size_list){ { 5 }, 1 };
	config.data.flip = true;
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EDATA, "data.augment needs images");
}
END_TEST

/* A permutation for every epoch, each another one, the same again for the same (seed, epoch); every place equally
 * likely. */
START_TEST(shuffles_fairly)
{
	dataset.samples = 7;
	uint32_t order[7], again[7], place[7][7] = { 0 };
	for (uint32_t epoch = 0; epoch < 7000; epoch++) {
		dataset_order(&dataset, true, 3, epoch, order);
		dataset_order(&dataset, true, 3, epoch, again);
		ck_assert_mem_eq(order, again, sizeof order);
		unsigned seen = 0;
		for (uint32_t i = 0; i < 7; i++) {
			seen |= 1u << order[i];
			place[order[i]][i]++;
		}
		ck_assert_uint_eq(seen, 127);
	}
	/* Expected 1000 each; standard deviation 29. */
	for (int i = 0; i < 49; i++)
		ck_assert_msg(abs((int)place[i / 7][i % 7] - 1000) < 150, "sample %d at place %d: %u of 7000", i / 7,
			      i % 7, place[i / 7][i % 7]);
	dataset_order(&dataset, false, 3, 9, order);
	for (uint32_t i = 0; i < 7; i++)
		ck_assert_uint_eq(order[i], i);
}
END_TEST

/* Inputs that are their own targets need no labels, and lie where their loss is defined. */
START_TEST(inputs_are_their_own_targets)
{
	static const uint32_t losses[] = { LOSS_MEAN_SQUARED_ERROR, LOSS_BINARY_CROSS_ENTROPY, LOSS_LOGISTIC_MIXTURE };
	float sample[144], target = 7;
	config.network.target = TARGET_INPUT;
	for (uint32_t i = 0; i < 6; i++) {
		made_config(i % 2 ? DATA_SYNTHETIC : DATA_HASH);
		config.network.loss = losses[i / 2];
		ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
		ck_assert(dataset.target_elements == 0 && !dataset.labels && !dataset.targets);
		for (uint32_t n = 0; n < dataset.samples; n++) {
			dataset_read(&dataset, n, false, 0, sample, &target);
			for (uint32_t k = 0; k < 144 && i > 1; k++)
				ck_assert(sample[k] <= 1 && sample[k] >= (i < 4 ? 0.0f : -1.0f));
		}
		ck_assert(target == 7);
	}
	npy_config();
	config.data.shape.count = 0;
	config.data.train_labels = config.data.test_inputs = "";
	config.network.loss = LOSS_BINARY_CROSS_ENTROPY;
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EDATA,
			"network.loss: binary_cross_entropy values must lie between 0 and 1, one is -1.25");
	config.network.loss = LOSS_MEAN_SQUARED_ERROR;
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	ck_assert_uint_eq(dataset.samples, 2);
	write_images();
	config.data.type = DATA_IDX;
	config.network.loss = LOSS_LOGISTIC_MIXTURE;
	config.data.mean = config.data.std = (struct real_list){ { 0.4 }, 1 };
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EDATA,
			"between -1 and 1, one is 1.0098; bytes do with data.mean: [0.5] and data.std: [0.5]");
	config.data.mean = config.data.std = (struct real_list){ { 0.5 }, 1 };
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
}
END_TEST

START_TEST(binary_targets_lie_between_0_and_1)
{
	npy_config();
	config.network.loss = LOSS_BINARY_CROSS_ENTROPY;
	write_npy("labels", 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}", six_floats, 16);
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EDATA,
			"target at index 1 is -1.25; binary_cross_entropy allows 0 to 1");
	write_npy("labels", 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}",
		  (const float[]){ 0, 1, 0.5f, 0.25f }, 16);
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	made_config(DATA_SYNTHETIC);
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	double mean = 0;
	for (uint32_t i = 0; i < 2000; i++) {
		ck_assert(dataset.targets[i] == 0 || dataset.targets[i] == 1);
		mean += (double)dataset.targets[i] / 2000;
	}
	ck_assert_msg(mean > 0.3 && mean < 0.7, "share of ones: %g", mean);
}
END_TEST

/* Every request for memory fails once; the error comes back and nothing crashes. */
START_TEST(survives_missing_memory)
{
	write_images();
	write_labels(six_labels, N);
	for (uint32_t type = 0; type < 3; type++) {
		if (type)
			made_config(DATA_SYNTHETIC);
		if (type == 2)
			config.network.loss = LOSS_MEAN_SQUARED_ERROR;
		enum tarn_status st = TARN_ENOMEM;
		for (uint64_t n = 1; st; n++) {
			struct host_arena small;
			host_arena_init(&small);
			small.fail_at = n;
			st = dataset_open(&config, SPLIT_TRAIN, &small, &dataset);
			ck_assert_msg(st == TARN_OK || st == TARN_ENOMEM, "request %lu: status %d", (unsigned long)n,
				      (int)st);
			host_arena_fini(&small);
			ck_assert_uint_lt(n, 100);
		}
	}
}
END_TEST

START_TEST(reads_fashion_mnist)
{
	if (access(FASHION_MNIST "/train-images-idx3-ubyte.gz", R_OK))
		TESTING_SKIP("Fashion-MNIST is not installed (Debian package dataset-fashion-mnist)");
	config.data.directory = FASHION_MNIST;
	config.data.train_inputs = "train-images-idx3-ubyte.gz";
	config.data.train_labels = "train-labels-idx1-ubyte.gz";
	config.data.test_inputs = "t10k-images-idx3-ubyte.gz";
	config.data.test_labels = "t10k-labels-idx1-ubyte.gz";
	config.data.classes = 0;
	uint32_t train, test;
	struct sample_shape shape;
	ck_assert_ok(dataset_describe(&config, &arena, &train, &test, &shape));
	ck_assert_uint_eq(train, 60000);
	ck_assert_uint_eq(test, 10000);
	ck_assert_uint_eq(shape.classes, 10);
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	struct dataset_statistics statistics;
	uint64_t count[10];
	ck_assert_ok(dataset_measure(&dataset, &arena, &statistics, count));
	for (int k = 0; k < 10; k++)
		ck_assert_uint_eq(count[k], 6000);
	/* The published mean and deviation of the training images. */
	ck_assert_double_eq_tol(statistics.mean, 0.2860, 5e-5);
	ck_assert_double_eq_tol(statistics.deviation, 0.3530, 5e-5);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("dataset");
	TCase *files = tcase_create("files"), *made = tcase_create("made");
	tcase_add_checked_fixture(files, setup, teardown);
	tcase_add_checked_fixture(made, setup, teardown);
	tcase_set_timeout(files, 60);
	tcase_add_test(files, reads_idx_images_and_labels);
	tcase_add_test(files, finds_gzip_by_content);
	tcase_add_test(files, names_foreign_files);
	tcase_add_test(files, names_html_inside_gzip);
	tcase_add_test(files, notices_damaged_gzip);
	tcase_add_test(files, notices_wrong_length);
	tcase_add_test(files, names_missing_files);
	tcase_add_test(files, checks_labels);
	tcase_add_test(files, reads_npy_versions);
	tcase_add_test(files, refuses_other_npy);
	tcase_add_test(files, reads_every_label_type);
	tcase_add_test(files, reads_float_targets);
	tcase_add_test(files, refuses_numbers_that_are_not_finite);
	tcase_add_test(files, reads_big_endian_idx_floats);
	tcase_add_test(files, compares_splits_and_shape);
	tcase_add_test(files, describing_refuses_what_opening_refuses);
	tcase_add_test(files, normalises_each_channel);
	tcase_add_test(files, describes_from_headers);
	tcase_add_test(files, measures_a_dataset);
	tcase_add_test(files, augments_by_shift_and_flip);
	tcase_add_test(files, reads_fashion_mnist);
	tcase_add_test(made, synthetic_is_learnable_and_reproducible);
	tcase_add_test(made, synthetic_regression_is_linear);
	tcase_add_test(made, hash_follows_channels_first_numbering);
	tcase_add_test(made, hash_tokens_follow_the_numbering);
	tcase_add_test(made, pixels_have_labels);
	tcase_add_test(made, reads_pixel_labels);
	tcase_add_test(made, synthetic_pixels_are_learnable);
	tcase_add_test(made, synthetic_tokens_are_learnable);
	tcase_add_test(made, refuses_empty_made_data);
	tcase_add_test(made, shuffles_fairly);
	tcase_add_test(made, inputs_are_their_own_targets);
	tcase_add_test(made, binary_targets_lie_between_0_and_1);
	tcase_add_test(made, survives_missing_memory);
	suite_add_tcase(suite, files);
	suite_add_tcase(suite, made);
	return testing_run(suite);
}
