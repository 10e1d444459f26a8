/* test_data_formats.c - npz archives, CIFAR's binary files and folders of images: right values, all else refused. */
#include "data/dataset.h"

#include "data/image_file.h"
#include "data/zip.h"
#include "support/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static struct host_arena arena;
static struct config config;
static struct dataset dataset;

/* Each test has a folder of its own. */
static char folder_path[256];

static void write_file(const char *name, const void *data, size_t bytes)
{
	char path[512];
	snprintf(path, sizeof path, "%s/%s", strrchr(folder_path, '/') + 1, name);
	testing_file(path, data, bytes);
}

static void make_folder(const char *name)
{
	char path[512];
	snprintf(path, sizeof path, "%s/%s", folder_path, name);
	ck_assert_int_eq(mkdir(path, 0777), 0);
}

static void setup(void)
{
	host_arena_init(&arena);
	memset(&config, 0, sizeof config);
	snprintf(folder_path, sizeof folder_path, "%s/%d", testing_directory(), (int)getpid());
	make_folder("");
	config.data.directory = folder_path;
	config.data.train_inputs = "x";
	config.data.train_labels = "y";
	config.data.test_inputs = config.data.test_labels = config.data.test_archive = "";
	config.data.archive = "data.npz";
	config.data.classes = 10;
	config.data.batch = 2;
	config.network.ignore_index = -1;
}

static void teardown(void)
{
	host_arena_fini(&arena);
}

/* ---- Bytes that grow ---- */

struct bytes {
	uint8_t at[16384];
	size_t count;
};

static void put(struct bytes *out, const void *data, size_t count)
{
	ck_assert_uint_le(out->count + count, sizeof out->at);
	if (count)
		memcpy(out->at + out->count, data, count);
	out->count += count;
}

/* Little-endian, `width` bytes, at most 8. */
static void put_number(struct bytes *out, uint64_t value, size_t width)
{
	for (size_t i = 0; i < width; i++)
		put(out, &(uint8_t){ (uint8_t)(value >> 8 * i) }, 1);
}

static void put_big(struct bytes *out, uint32_t value)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		put(out, &(uint8_t){ (uint8_t)(value >> shift) }, 1);
}

/* ---- Zip archives, as APPNOTE.TXT describes them ---- */

struct member {
	const char *name;
	struct bytes content;
	bool deflate, wide; /* wide: 64-bit sizes in the member's own header, as NumPy writes them */
	uint64_t offset, packed;
};

static size_t deflated(const struct bytes *in, uint8_t *out, size_t room)
{
	z_stream stream = { 0 };
	ck_assert_int_eq(deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
	stream.next_in = (Bytef *)(uintptr_t)in->at;
	stream.avail_in = (uInt)in->count;
	stream.next_out = out;
	stream.avail_out = (uInt)room;
	ck_assert_int_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
	deflateEnd(&stream);
	return room - stream.avail_out;
}

static uint32_t crc_of(const struct bytes *content)
{
	return (uint32_t)crc32(0, content->at, (uInt)content->count);
}

static void put_member(struct bytes *out, struct member *m)
{
	uint8_t packed[4096];
	m->packed = m->deflate ? deflated(&m->content, packed, sizeof packed) : m->content.count;
	m->offset = out->count;
	put(out, "PK\3\4", 4);
	put_number(out, m->wide ? 45 : 20, 2);
	put_number(out, 0, 2);
	put_number(out, m->deflate ? 8 : 0, 2);
	put_number(out, 0, 4);
	put_number(out, crc_of(&m->content), 4);
	put_number(out, m->wide ? UINT32_MAX : m->packed, 4);
	put_number(out, m->wide ? UINT32_MAX : m->content.count, 4);
	put_number(out, strlen(m->name), 2);
	put_number(out, m->wide ? 20 : 0, 2);
	put(out, m->name, strlen(m->name));
	if (m->wide) {
		put_number(out, 1, 2);
		put_number(out, 16, 2);
		put_number(out, m->content.count, 8);
		put_number(out, m->packed, 8);
	}
	put(out, m->deflate ? packed : m->content.at, m->packed);
}

static void put_entry(struct bytes *out, const struct member *m)
{
	put(out, "PK\1\2", 4);
	put_number(out, 20, 2);
	put_number(out, 20, 2);
	put_number(out, 0, 2);
	put_number(out, m->deflate ? 8 : 0, 2);
	put_number(out, 0, 4);
	put_number(out, crc_of(&m->content), 4);
	put_number(out, m->packed, 4);
	put_number(out, m->content.count, 4);
	put_number(out, strlen(m->name), 2);
	put_number(out, 0, 8);
	put_number(out, 0, 4);
	put_number(out, m->offset, 4);
	put(out, m->name, strlen(m->name));
}

static void make_zip(struct bytes *out, struct member *member, uint32_t members)
{
	out->count = 0;
	for (uint32_t i = 0; i < members; i++)
		put_member(out, &member[i]);
	size_t directory = out->count;
	for (uint32_t i = 0; i < members; i++)
		put_entry(out, &member[i]);
	size_t bytes = out->count - directory;
	put(out, "PK\5\6", 4);
	put_number(out, 0, 4);
	put_number(out, members, 2);
	put_number(out, members, 2);
	put_number(out, bytes, 4);
	put_number(out, directory, 4);
	put_number(out, 0, 2);
}

static void make_npy(struct bytes *out, const char *descr, const char *shape, const void *data, size_t count)
{
	char text[128];
	int length =
		snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);
	out->count = 0;
	put(out, "\x93NUMPY\1\0", 8);
	put_number(out, 118, 2);
	memset(text + length, ' ', sizeof text - (size_t)length);
	text[117] = '\n';
	put(out, text, 118);
	put(out, data, count);
}

static const float six_values[6] = { 1, 2, 3, -1, -2, -3 };
static const uint8_t three_labels[3] = { 4, 0, 9 };
static struct member pair[2];
static struct bytes archive;

/* x: 3 samples of 2 values, deflated; y: their labels, stored. */
static void make_pair(bool wide)
{
	pair[0] = (struct member){ .name = "x.npy", .deflate = true, .wide = wide };
	pair[1] = (struct member){ .name = "y.npy", .wide = wide };
	make_npy(&pair[0].content, "<f4", "(3, 2)", six_values, sizeof six_values);
	make_npy(&pair[1].content, "|u1", "(3,)", three_labels, sizeof three_labels);
	make_zip(&archive, pair, 2);
}

static enum tarn_status open_archive(void)
{
	write_file("data.npz", archive.at, archive.count);
	config.data.type = DATA_NPZ;
	return dataset_open(&config, SPLIT_TRAIN, &arena, &dataset);
}

START_TEST(reads_arrays_of_an_archive)
{
	for (int wide = 0; wide < 2; wide++) {
		make_pair(wide);
		ck_assert_ok(open_archive());
		ck_assert_uint_eq(dataset.samples, 3);
		for (uint32_t i = 0; i < 3; i++) {
			float sample[2];
			int32_t label;
			dataset_read(&dataset, i, false, 0, sample, &label);
			ck_assert_mem_eq(sample, six_values + 2 * i, sizeof sample);
			ck_assert_int_eq(label, three_labels[i]);
		}
	}
	/* The test set's arrays may lie in an archive of their own. */
	write_file("test.npz", archive.at, archive.count);
	config.data.test_archive = "test.npz";
	config.data.test_inputs = "x";
	config.data.test_labels = "y";
	ck_assert_ok(dataset_open(&config, SPLIT_TEST, &arena, &dataset));
	ck_assert_uint_eq(dataset.samples, 3);
}
END_TEST

START_TEST(names_what_an_archive_lacks)
{
	make_pair(false);
	config.data.train_labels = "labels";
	ck_assert_fails(open_archive(), TARN_EDATA, "holds no labels.npy; it holds x.npy, y.npy");
	ck_assert_ptr_nonnull(strstr(tarn_error(), "data.train_labels"));
	config.data.archive = "absent.npz";
	ck_assert_fails(open_archive(), TARN_EIO, "absent.npz: no such file; data.archive names it");
	ck_assert_ptr_nonnull(strstr(tarn_error(), "data.synthetic: true"));
}
END_TEST

/* The place of the last directory entry's field, from its start. */
static uint8_t *last_entry(size_t field)
{
	return archive.at + archive.count - 22 - (46 + 5) + field;
}

START_TEST(refuses_other_archives)
{
	make_pair(false);
	*last_entry(8) |= 1;
	ck_assert_fails(open_archive(), TARN_EUNSUPPORTED, "y.npy is encrypted");
	make_pair(false);
	*last_entry(10) = 14;
	ck_assert_fails(open_archive(), TARN_EUNSUPPORTED, "packed with method 14");
	make_pair(false);
	memset(last_entry(24), 0xFF, 4);
	ck_assert_fails(open_archive(), TARN_EUNSUPPORTED, "64-bit zip directory");
	make_pair(false);
	memset(archive.at + archive.count - 6, 0xFF, 4);
	ck_assert_fails(open_archive(), TARN_EUNSUPPORTED, "64-bit zip directory");
	make_pair(false);
	*last_entry(24) ^= 1; /* a stored member of another size than its bytes */
	ck_assert_fails(open_archive(), TARN_EFORMAT, "packed bytes cannot be");
	make_pair(false);
	*last_entry(42) ^= 1; /* no member begins there */
	ck_assert_fails(open_archive(), TARN_EFORMAT, "no zip member");
	make_pair(false);
	*last_entry(16) ^= 1;
	ck_assert_fails(open_archive(), TARN_EFORMAT, "damaged: the CRC");
	make_pair(false);
	*last_entry(0) ^= 1;
	ck_assert_fails(open_archive(), TARN_EFORMAT, "directory is damaged");
	make_pair(false);
	archive.at[archive.count - 12] ^= 1; /* members */
	ck_assert_fails(open_archive(), TARN_EUNSUPPORTED, "in several parts");
	make_pair(false);
	archive.count--;
	ck_assert_fails(open_archive(), TARN_EFORMAT, "not a zip archive, or a truncated one");
	archive.count = 3;
	ck_assert_fails(open_archive(), TARN_EFORMAT, "not a zip archive");
}
END_TEST

/* R056: no byte of the data may change unseen; whatever changes, nothing crashes. */
START_TEST(notices_every_damaged_byte)
{
	make_pair(false);
	struct bytes good = archive;
	size_t first = pair[1].offset + 30 + 5; /* y, header included */
	for (size_t i = 0; i < good.count; i++) {
		archive = good;
		archive.at[i] ^= 0x20;
		enum tarn_status st = open_archive();
		if (i >= first && i < first + pair[1].packed)
			ck_assert_int_ne(st, TARN_OK);
		host_arena_fini(&arena);
		host_arena_init(&arena);
	}
}
END_TEST

/* ---- CIFAR ---- */

#define CIFAR_BYTES ((size_t)3072)

static uint8_t cifar_value(uint32_t record, size_t place)
{
	return (uint8_t)(record * 31 + place * 7 + place / 1024);
}

static void write_cifar(const char *name, uint32_t first, uint32_t records, uint32_t labels, uint8_t label)
{
	struct bytes out = { .count = 0 };
	for (uint32_t r = 0; r < records; r++) {
		for (uint32_t k = 0; k < labels; k++)
			put(&out, &(uint8_t){ (uint8_t)(label + r + 10 * k) }, 1);
		for (size_t i = 0; i < CIFAR_BYTES; i++)
			put(&out, &(uint8_t){ cifar_value(first + r, i) }, 1);
	}
	write_file(name, out.at, out.count);
}

static void write_cifar10(void)
{
	char name[32];
	for (uint32_t i = 0; i < 5; i++) {
		snprintf(name, sizeof name, "data_batch_%u.bin", i + 1);
		write_cifar(name, 2 * i, 2, 1, (uint8_t)i);
	}
	write_cifar("test_batch.bin", 100, 3, 1, 0);
	config.data.type = DATA_CIFAR10;
}

/* Every sample, against the formula that wrote its planes. */
static void expect_cifar(uint32_t first)
{
	static float sample[CIFAR_BYTES];
	int32_t label;
	for (uint32_t n = 0; n < dataset.samples; n++) {
		dataset_read(&dataset, n, false, 0, sample, &label);
		for (size_t i = 0; i < CIFAR_BYTES; i++)
			ck_assert_float_eq(sample[i % 1024 * 3 + i / 1024], (float)cifar_value(first + n, i) / 255.0f);
	}
}

START_TEST(reads_cifar10)
{
	write_cifar10();
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	ck_assert_uint_eq(dataset.samples, 10);
	ck_assert(dataset.shape.dim[0] == 32 && dataset.shape.dim[1] == 32 && dataset.shape.dim[2] == 3);
	expect_cifar(0);
	for (uint32_t n = 0; n < 10; n++)
		ck_assert_int_eq(dataset.labels[n], (int32_t)(n / 2 + n % 2));
	ck_assert_ok(dataset_open(&config, SPLIT_TEST, &arena, &dataset));
	ck_assert_uint_eq(dataset.samples, 3);
	expect_cifar(100);
}
END_TEST

START_TEST(reads_both_labels_of_cifar100)
{
	write_cifar("train.bin", 0, 3, 2, 5);
	write_cifar("test.bin", 7, 1, 2, 5);
	config.data.type = DATA_CIFAR100;
	config.data.classes = 100;
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	ck_assert_int_eq(dataset.labels[2], 17);
	expect_cifar(0);
	config.data.label_set = LABELS_COARSE;
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EINVAL, "data.classes is 100 but");
	config.data.classes = 20;
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	ck_assert_int_eq(dataset.labels[2], 7);
}
END_TEST

START_TEST(refuses_damaged_cifar)
{
	uint8_t few[100] = { 0 };
	config.data.type = DATA_CIFAR10;
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EIO,
			"https://www.cs.toronto.edu/~kriz/cifar.html");
	ck_assert_ptr_nonnull(strstr(tarn_error(), "data.synthetic: true"));
	write_cifar10();
	write_file("data_batch_3.bin", few, sizeof few);
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EFORMAT,
			"data_batch_3.bin: 100 bytes are no whole number of records of 3073");
	write_cifar("data_batch_3.bin", 0, 1, 1, 10);
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EDATA,
			"label at index 0 is 10; allowed are 0 to 9");
	config.data.classes = 5;
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EINVAL, "CIFAR-10 has 10");
}
END_TEST

/* ---- Images ---- */

static void put_chunk(struct bytes *out, const char *kind, const uint8_t *data, size_t count)
{
	put_big(out, (uint32_t)count);
	size_t first = out->count;
	put(out, kind, 4);
	put(out, data, count);
	put_big(out, (uint32_t)crc32(0, out->at + first, (uInt)(out->count - first)));
}

/* ISO/IEC 15948: `rows` are the lines with their filter byte. */
static void make_png(struct bytes *out, uint32_t width, uint32_t height, uint8_t depth, uint8_t color,
		     const uint8_t *palette, size_t palette_bytes, const uint8_t *rows, size_t row_bytes)
{
	struct bytes head = { .count = 0 };
	uint8_t packed[4096];
	uLongf packed_bytes = sizeof packed;
	put_big(&head, width);
	put_big(&head, height);
	put(&head, (uint8_t[]){ depth, color, 0, 0, 0 }, 5);
	out->count = 0;
	put(out, "\x89PNG\r\n\x1A\n", 8);
	put_chunk(out, "IHDR", head.at, head.count);
	if (palette)
		put_chunk(out, "PLTE", palette, palette_bytes);
	ck_assert_int_eq(compress(packed, &packed_bytes, rows, row_bytes), Z_OK);
	put_chunk(out, "IDAT", packed, packed_bytes);
	put_chunk(out, "IEND", NULL, 0);
}

/* Parsed and decoded, 2 x 2. */
static enum tarn_status decode(const void *file, size_t bytes, uint32_t channels, uint8_t pixels[12])
{
	struct image_header header;
	memset(pixels, 0xEE, 12);
	enum tarn_status st = image_parse(file, bytes, &header);
	if (st)
		return st;
	ck_assert(header.height == 2 && header.width == 2 && header.channels == channels);
	return image_decode(file, bytes, &header, pixels);
}

START_TEST(decodes_netpbm)
{
	uint8_t pixels[12];
	ck_assert_ok(decode("P5 2\n2 255\n\0\1\2\377", 15, 1, pixels));
	ck_assert_mem_eq(pixels, "\0\1\2\377", 4);
	ck_assert_ok(decode("P6\n# made by hand\n2 2\n255\nabcdefghijkl", 38, 3, pixels));
	ck_assert_mem_eq(pixels, "abcdefghijkl", 12);
	ck_assert_ok(decode("P2\n2 2 15\n0 1\n7 15\n", 19, 1, pixels));
	ck_assert_mem_eq(pixels, "\0\x11\x77\xFF", 4);
	ck_assert_ok(decode("P3 2 2 255 1 2 3 4 5 6 7 8 9 10 11 12", 37, 3, pixels));
	ck_assert_mem_eq(pixels, "\1\2\3\4\5\6\7\10\11\12\13\14", 12);
}
END_TEST

#ifdef CONFIG_PNG
START_TEST(decodes_png)
{
	uint8_t pixels[12];
	struct bytes file;
	make_png(&file, 2, 2, 8, 0, NULL, 0, (const uint8_t *)"\0\1\2\0\3\4", 6);
	ck_assert_ok(decode(file.at, file.count, 1, pixels));
	ck_assert_mem_eq(pixels, "\1\2\3\4", 4);
	/* The second line's filter adds the line above. */
	make_png(&file, 2, 2, 8, 2, NULL, 0, (const uint8_t *)"\0\1\2\3\4\5\6\2\1\1\1\1\1\1", 14);
	ck_assert_ok(decode(file.at, file.count, 3, pixels));
	ck_assert_mem_eq(pixels, "\1\2\3\4\5\6\2\3\4\5\6\7", 12);
	/* One bit a pixel: white, black; black, white. */
	make_png(&file, 2, 2, 1, 0, NULL, 0, (const uint8_t *)"\0\x80\0\x40", 4);
	ck_assert_ok(decode(file.at, file.count, 1, pixels));
	ck_assert_mem_eq(pixels, "\377\0\0\377", 4);
	make_png(&file, 2, 2, 8, 3, (const uint8_t *)"abcdef", 6, (const uint8_t *)"\0\0\1\0\1\1", 6);
	ck_assert_ok(decode(file.at, file.count, 3, pixels));
	ck_assert_mem_eq(pixels, "abcdefdefdef", 12);
}
END_TEST

/* Cut anywhere or changed anywhere, a file is refused or decodes to its size; libpng sees what CRC it has. */
START_TEST(refuses_damaged_png)
{
	uint8_t pixels[12];
	struct bytes file, broken;
	make_png(&file, 2, 2, 8, 2, NULL, 0, (const uint8_t *)"\0\1\2\3\4\5\6\2\1\1\1\1\1\1", 14);
	for (size_t count = 0; count < file.count; count++)
		ck_assert_int_ne(decode(file.at, count, 3, pixels), TARN_OK);
	for (size_t i = 33; i < file.count; i++) {
		broken = file;
		broken.at[i] ^= 4;
		ck_assert_int_ne(decode(broken.at, broken.count, 3, pixels), TARN_OK);
	}
	broken = file;
	broken.at[19] = 200; /* the width: more than the rows have */
	struct image_header header;
	uint8_t wide[200 * 2 * 3];
	ck_assert_ok(image_parse(broken.at, broken.count, &header));
	ck_assert_fails(image_decode(broken.at, broken.count, &header, wide), TARN_EFORMAT, "byte ");
}
END_TEST
#endif

START_TEST(refuses_other_images)
{
	uint8_t pixels[12];
	struct bytes file;
	static const struct {
		const char *text;
		size_t bytes;
		enum tarn_status status;
		const char *message;
	} bad[] = {
		{ "P4 2 2 xxxx", 11, TARN_EUNSUPPORTED, "P4 (bitmaps, PAM)" },
		{ "P5 2 2 65535 xxxxxxxx", 21, TARN_EUNSUPPORTED, "16 bits" },
		{ "P5 2 2 0 xxxx", 13, TARN_EFORMAT, "largest value 0" },
		{ "P5 0 2 255 xxxx", 15, TARN_EFORMAT, "0 pixels" },
		{ "P5 99999999999 2 255 xxxx", 25, TARN_EFORMAT, "damaged header" },
		{ "P5 65535 65535 255 xxxx", 23, TARN_EFORMAT, "truncated: 65535 x 65535 x 1 values" },
		{ "P5 2 2 255 xxx", 14, TARN_EFORMAT, "truncated" },
		{ "P5 2 2 255 xxxxx", 16, TARN_EFORMAT, "more bytes follow" },
		{ "P5 2 2 9 xxxx", 13, TARN_EFORMAT, "value 1 is 120; the header says at most 9" },
		{ "P2 2 2 9 1 2 3 x", 16, TARN_EFORMAT, "value 4 of 4 is missing" },
		{ "P2 2 2 9 1 2 3 4 5", 18, TARN_EFORMAT, "more bytes follow" },
		{ "\xFF\xD8\xFF\xE0", 4, TARN_EUNSUPPORTED, "JPEG" },
		{ "hello", 5, TARN_EFORMAT, "neither PNG nor PGM" },
		{ "P", 1, TARN_EFORMAT, "neither PNG nor PGM" },
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ck_assert_fails(decode(bad[i].text, bad[i].bytes, 1, pixels), bad[i].status, bad[i].message);
	make_png(&file, 2, 2, 8, 6, NULL, 0, (const uint8_t *)"\0abcdabcd\0abcdabcd", 18);
	ck_assert_fails(decode(file.at, file.count, 3, pixels), TARN_EUNSUPPORTED, "an alpha channel");
	make_png(&file, 2, 2, 16, 0, NULL, 0, (const uint8_t *)"\0abcd\0abcd", 10);
	ck_assert_fails(decode(file.at, file.count, 1, pixels), TARN_EUNSUPPORTED, "16 bits a value");
	make_png(&file, 60000, 60000, 8, 2, NULL, 0, (const uint8_t *)"\0", 1);
	ck_assert_fails(decode(file.at, file.count, 3, pixels), TARN_EFORMAT, "truncated: 60000 x 60000 x 3");
}
END_TEST

/* train/ and test/ with classes ant, bee and cat; the value of an image's pixels is its number, in sorted order. */
static void write_folders(void)
{
	static const char *const folder[] = { "train", "train/cat", "train/ant", "train/bee",
					      "test",  "test/ant",  "test/bee",  "test/cat" };
	for (size_t i = 0; i < sizeof folder / sizeof *folder; i++)
		make_folder(folder[i]);
	write_file("train/ant/b.pgm", "P5 2 1 255 \1\1", 13);
	write_file("train/ant/a.pgm", "P5 2 1 255 \0\0", 13);
	write_file("train/ant/.hidden", "x", 1);
	write_file("train/bee/1.pgm", "P2 2 1 255 2 2", 14);
	write_file("train/cat/z.pgm", "P5 2 1 255 \3\3", 13);
	write_file("test/ant/0.pgm", "P5 2 1 255 \0\0", 13);
	write_file("test/bee/0.pgm", "P5 2 1 255 \1\1", 13);
	write_file("test/cat/0.pgm", "P5 2 1 255 \2\2", 13);
	config.data.type = DATA_IMAGES;
	config.data.train_inputs = "train";
	config.data.test_inputs = "test";
	config.data.train_labels = "";
	config.data.classes = 3;
}

START_TEST(reads_folders_in_order)
{
	write_folders();
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	ck_assert_uint_eq(dataset.samples, 4);
	ck_assert(dataset.shape.dim[0] == 1 && dataset.shape.dim[1] == 2 && dataset.shape.dim[2] == 1);
	const int32_t classes[] = { 0, 0, 1, 2 };
	for (uint32_t n = 0; n < 4; n++) {
		float sample[2];
		int32_t label;
		dataset_read(&dataset, n, false, 0, sample, &label);
		ck_assert_float_eq(sample[1], (float)n / 255.0f);
		ck_assert_int_eq(label, classes[n]);
	}
	ck_assert_ok(dataset_open(&config, SPLIT_TEST, &arena, &dataset));
	ck_assert_uint_eq(dataset.samples, 3);
	config.data.test_inputs = "";
	ck_assert_ok(dataset_open(&config, SPLIT_TEST, &arena, &dataset));
	ck_assert_uint_eq(dataset.samples, 0);
}
END_TEST

static void expect_refusal(enum tarn_status status, const char *message)
{
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), status, message);
}

START_TEST(names_the_image_that_differs)
{
	write_folders();
	config.data.classes = 10;
	expect_refusal(TARN_EDATA, "train holds 3 folders, one a class, but data.classes is 10");
	config.data.classes = 3;
	config.data.shape = (struct size_list){ { 2, 2 }, 2 };
	expect_refusal(TARN_EDATA, "a.pgm: samples are 1x2x1 but data.shape is 2x2");
	config.data.shape.count = 0;
	write_file("train/bee/2.ppm", "P3 2 1 255 2 2 2 2 2 2", 22);
	expect_refusal(TARN_EDATA, "train/bee/2.ppm is 1x2x3 but those before it are 1x2x1");
	write_file("train/bee/2.ppm", "P5 1 1 255 x", 12);
	expect_refusal(TARN_EDATA, "train/bee/2.ppm is 1x1x1 but");
	write_file("train/bee/2.ppm", "<html>", 6);
	expect_refusal(TARN_EFORMAT, "train/bee/2.ppm: neither PNG nor");
	write_file("train/bee/2.ppm", "", 0);
	expect_refusal(TARN_EFORMAT, "empty file");
	write_file("train/bee/2.ppm", "P5 2 1 255 \3\3", 13);
	write_file("train/note", "x", 1);
	expect_refusal(TARN_EDATA, "train/note: is no folder");
	config.data.train_inputs = "absent";
	expect_refusal(TARN_EIO, "absent: no such file; data.train_inputs names it");
	config.data.train_inputs = "test";
	make_folder("other");
	make_folder("other/ant");
	make_folder("other/bee");
	make_folder("other/dog");
	config.data.test_inputs = "other";
	expect_refusal(TARN_EDATA, "class 2 is dog but in the training set it is cat");
	config.data.train_inputs = "other";
	expect_refusal(TARN_EDATA, "ant: holds no image");
}
END_TEST

/* ---- Stand-ins ---- */

/* The same shapes as the files would have, and every sample the synthetic one. */
START_TEST(stands_in_for_files)
{
	static float made[3072], expected[3072];
	struct dataset synthetic;
	config.data.type = DATA_CIFAR10;
	config.data.synthetic = true;
	config.data.samples = 20;
	config.data.test_samples = 5;
	config.data.mean = config.data.std = (struct real_list){ { 0.5 }, 1 };
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	struct config other = config;
	other.data.type = DATA_SYNTHETIC;
	other.data.synthetic = false;
	other.data.shape = (struct size_list){ { 32, 32, 3 }, 3 };
	ck_assert_ok(dataset_open(&other, SPLIT_TRAIN, &arena, &synthetic));
	ck_assert_uint_eq(dataset.samples, 20);
	for (uint32_t n = 0; n < 20; n++) {
		int32_t label, wanted;
		dataset_read(&dataset, n, false, 0, made, &label);
		dataset_read(&synthetic, n, false, 0, expected, &wanted);
		ck_assert_mem_eq(made, expected, sizeof made);
		ck_assert_int_eq(label, wanted);
	}
	ck_assert_ok(dataset_open(&config, SPLIT_TEST, &arena, &dataset));
	ck_assert_uint_eq(dataset.samples, 5);
	config.data.type = DATA_NPY;
	ck_assert_fails(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset), TARN_EINVAL,
			"data.shape has 0 dimensions; data.synthetic: true needs 1 to");
	config.data.type = DATA_TOKENS;
	config.data.context = 7;
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	ck_assert(dataset.sample_elements == 7 && dataset.shape.vocabulary == 10);
}
END_TEST

/* R057: each request for memory fails once; a status comes back and nothing is lost. */
START_TEST(survives_missing_memory)
{
	make_pair(false);
	ck_assert_ok(open_archive());
	write_cifar10();
	write_folders();
	static const uint32_t types[] = { DATA_NPZ, DATA_CIFAR10, DATA_IMAGES };
	for (size_t t = 0; t < 3; t++) {
		config.data.type = types[t];
		config.data.classes = types[t] == DATA_IMAGES ? 3 : 10;
		config.data.train_inputs = types[t] == DATA_IMAGES ? "train" : "x";
		config.data.train_labels = "y";
		config.data.test_inputs = "";
		enum tarn_status st;
		for (uint64_t n = 1; n < 1000; n++) {
			host_arena_fini(&arena);
			host_arena_init(&arena);
			arena.fail_at = n;
			st = dataset_open(&config, SPLIT_TRAIN, &arena, &dataset);
			if (!st)
				break;
			ck_assert_int_eq(st, TARN_ENOMEM);
		}
		ck_assert_ok(st);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("data_formats");
	TCase *c = tcase_create("formats");
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, reads_arrays_of_an_archive);
	tcase_add_test(c, names_what_an_archive_lacks);
	tcase_add_test(c, refuses_other_archives);
	tcase_add_test(c, notices_every_damaged_byte);
	tcase_add_test(c, reads_cifar10);
	tcase_add_test(c, reads_both_labels_of_cifar100);
	tcase_add_test(c, refuses_damaged_cifar);
	tcase_add_test(c, decodes_netpbm);
#ifdef CONFIG_PNG
	tcase_add_test(c, decodes_png);
	tcase_add_test(c, refuses_damaged_png);
#endif
	tcase_add_test(c, refuses_other_images);
	tcase_add_test(c, reads_folders_in_order);
	tcase_add_test(c, names_the_image_that_differs);
	tcase_add_test(c, stands_in_for_files);
	tcase_add_test(c, survives_missing_memory);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return testing_run(suite());
}
