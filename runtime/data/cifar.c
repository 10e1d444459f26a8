/* cifar.c - see cifar.h. */
#include "data/cifar.h"

#include "data/files.h"
#include "data/stream.h"

#include <string.h>

#define SIDE 32u
#define PLANE ((size_t)SIDE * SIDE)
#define CHANNELS 3u
#define PAGE "https://www.cs.toronto.edu/~kriz/cifar.html"
#define MOST_FILES 5u

struct cifar_files {
	const char *name[MOST_FILES];
	uint32_t count;
};

bool cifar_is(uint32_t data_type)
{
	return data_type == DATA_CIFAR10 || data_type == DATA_CIFAR100;
}

static struct cifar_files files_of(const struct config *config, enum data_split split)
{
	if (config->data.type == DATA_CIFAR100)
		return (struct cifar_files){ { split == SPLIT_TRAIN ? "train.bin" : "test.bin" }, 1 };
	if (split == SPLIT_TEST)
		return (struct cifar_files){ { "test_batch.bin" }, 1 };
	return (struct cifar_files){ { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
				       "data_batch_5.bin" },
				     MOST_FILES };
}

static size_t label_bytes(const struct config *config)
{
	return config->data.type == DATA_CIFAR100 ? 2 : 1;
}

static size_t record_bytes(const struct config *config)
{
	return label_bytes(config) + CHANNELS * PLANE;
}

enum tarn_status cifar_shape(const struct config *config, struct sample_shape *shape)
{
	bool ten = config->data.type == DATA_CIFAR10, coarse = config->data.label_set == LABELS_COARSE;
	uint32_t classes = ten ? 10 : coarse ? 20 : 100;
	memset(shape, 0, sizeof *shape);
	if (config->data.classes != classes)
		return tarn_fail(TARN_EINVAL, "data.classes is %u but %s has %u", config->data.classes,
				 ten      ? "CIFAR-10"
				 : coarse ? "CIFAR-100 with data.label_set: coarse"
					  : "CIFAR-100",
				 classes);
	shape->rank = 3;
	shape->dim[0] = shape->dim[1] = SIDE;
	shape->dim[2] = CHANNELS;
	shape->classes = classes;
	return TARN_OK;
}

static enum tarn_status find_file(const struct config *config, const char *name, struct host_arena *arena,
				  const char **path)
{
	bool ten = config->data.type == DATA_CIFAR10, found;
	enum tarn_status st = files_path(config, name, arena, path, &found);
	if (st || found)
		return st;
	return tarn_fail(TARN_EIO,
			 "%s: no such file; data.directory names the folder with the binary version of %s, %s from "
			 "%s" FILES_STAND_IN,
			 *path, ten ? "CIFAR-10" : "CIFAR-100", ten ? "cifar-10-batches-bin" : "cifar-100-binary",
			 PAGE);
}

static enum tarn_status count_records(const struct config *config, const char *path, uint64_t *records)
{
	struct data_stream stream;
	uint64_t bytes = 0, record = record_bytes(config);
	enum tarn_status st = stream_open(&stream, path);
	if (!st) {
		bytes = stream.file_bytes;
		/* The length of a packed file is known only once it was unpacked. */
		if (stream.gzip)
			st = stream_count(&stream, &bytes);
	}
	stream_close(&stream);
	if (st)
		return st;
	if (bytes % record || !bytes)
		return tarn_fail(TARN_EFORMAT,
				 "%s: %llu bytes are no whole number of records of %llu (%s and 32 x 32 x 3 values); "
				 "is it the binary version from %s, and complete?",
				 path, (unsigned long long)bytes, (unsigned long long)record,
				 label_bytes(config) == 1 ? "a label" : "two labels", PAGE);
	*records = bytes / record;
	return TARN_OK;
}

enum tarn_status cifar_describe(const struct config *config, enum data_split split, struct host_arena *arena,
				uint32_t *samples, struct sample_shape *shape)
{
	struct cifar_files files = files_of(config, split);
	uint64_t total = 0;
	enum tarn_status st = cifar_shape(config, shape);
	*samples = 0;
	for (uint32_t i = 0; i < files.count && !st; i++) {
		const char *path;
		uint64_t records = 0;
		st = find_file(config, files.name[i], arena, &path);
		if (!st)
			st = count_records(config, path, &records);
		total += records;
	}
	if (!st && total > UINT32_MAX)
		st = tarn_fail(TARN_EDATA, "data: %llu samples are more than 2^32", (unsigned long long)total);
	if (!st)
		*samples = (uint32_t)total;
	return st;
}

/* Planes to pixels. */
static void interleave(const uint8_t *planes, uint8_t *pixels)
{
	for (size_t i = 0; i < PLANE; i++)
		for (size_t c = 0; c < CHANNELS; c++)
			pixels[i * CHANNELS + c] = planes[c * PLANE + i];
}

/* Records from sample *next on, at most as many as the dataset has room for; *next goes on. */
static enum tarn_status read_file(const struct dataset *dataset, const char *path, uint8_t *pixels, int32_t *labels,
				  uint32_t *next)
{
	const struct config *config = dataset->config;
	uint8_t record[2 + CHANNELS * PLANE];
	struct data_stream stream;
	uint64_t records;
	enum tarn_status st = count_records(config, path, &records);
	if (st)
		return st;
	if (records > dataset->samples - *next)
		return tarn_fail(TARN_EIO, "%s: changed while it was read", path);
	size_t width = label_bytes(config);
	bool fine = width == 2 && config->data.label_set == LABELS_FINE;
	st = stream_open(&stream, path);
	for (uint64_t i = 0; i < records && !st; i++, ++*next) {
		st = stream_read(&stream, record, record_bytes(config));
		if (st)
			break;
		uint8_t label = record[fine];
		if (label >= dataset->shape.classes)
			st = tarn_fail(TARN_EDATA,
				       "%s: label at index %llu is %u; allowed are 0 to %u (is it CIFAR-%s?)", path,
				       (unsigned long long)i, label, dataset->shape.classes - 1,
				       width == 1 ? "10" : "100");
		labels[*next] = label;
		interleave(record + width, pixels + *next * dataset->sample_elements);
	}
	if (!st)
		st = stream_expect_end(&stream);
	stream_close(&stream);
	return st;
}

enum tarn_status cifar_fill(struct dataset *dataset, enum data_split split, struct host_arena *arena)
{
	struct cifar_files files = files_of(dataset->config, split);
	uint8_t *pixels = HOST_ARRAY(arena, dataset->samples * dataset->sample_elements, uint8_t);
	int32_t *labels = HOST_ARRAY(arena, dataset->samples, int32_t);
	uint32_t next = 0;
	enum tarn_status st = pixels && labels ? TARN_OK : TARN_ENOMEM;
	for (uint32_t i = 0; i < files.count && !st; i++) {
		const char *path;
		st = find_file(dataset->config, files.name[i], arena, &path);
		if (!st)
			st = read_file(dataset, path, pixels, labels, &next);
	}
	dataset->bytes = pixels;
	dataset->labels = labels;
	if (!st && next != dataset->samples)
		st = tarn_fail(TARN_EIO, "%s: changed while it was read", files.name[0]);
	return st;
}
