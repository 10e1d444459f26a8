/* images.c - see images.h. */
#include "data/images.h"

#include "data/files.h"
#include "data/image_file.h"
#include "data/stream.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct names {
	const char **item; /* sorted by their bytes */
	size_t count, capacity;
};

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What is in a folder. TARN_EIO when it cannot be read. */
static enum tarn_status list_folder(const char *path, struct host_arena *arena, struct names *names)
{
	*names = (struct names){ 0 };
	DIR *folder = opendir(path);
	if (!folder)
		return tarn_fail(TARN_EIO, "%s: cannot list the folder: %s", path, strerror(errno));
	enum tarn_status st = TARN_OK;
	const struct dirent *entry;
	while (!st && (entry = readdir(folder))) {
		if (entry->d_name[0] == '.')
			continue;
		const char **grown =
			host_arena_grow(arena, names->item, &names->capacity, names->count + 1, sizeof *names->item);
		char *copy = grown ? host_arena_text(arena, entry->d_name) : NULL;
		if (!copy) {
			st = TARN_ENOMEM;
			break;
		}
		names->item = grown;
		names->item[names->count++] = copy;
	}
	closedir(folder);
	if (!st && names->count)
		qsort(names->item, names->count, sizeof *names->item, compare_names);
	return st;
}

/* The folder of a split, NULL where the configuration has none, and its classes. */
static enum tarn_status list_classes(const struct config *config, enum data_split split, struct host_arena *arena,
				     const char **path, struct names *classes)
{
	bool train = split == SPLIT_TRAIN;
	const char *name = train ? config->data.train_inputs : config->data.test_inputs;
	*path = NULL;
	*classes = (struct names){ 0 };
	if (!*name && !train)
		return TARN_OK;
	if (!*name)
		return tarn_fail(TARN_EINVAL, "data.train_inputs is empty; it names a folder with a folder a class");
	enum tarn_status st = files_join(config, train ? "train_inputs" : "test_inputs", name, arena, path);
	if (!st)
		st = list_folder(*path, arena, classes);
	for (size_t i = 0; i < classes->count && !st; i++) {
		struct stat about;
		const char *folder = host_arena_printf(arena, "%s/%s", *path, classes->item[i]);
		if (!folder)
			return TARN_ENOMEM;
		if (stat(folder, &about) || !S_ISDIR(about.st_mode))
			st = tarn_fail(TARN_EDATA, "%s: is no folder; %s holds a folder a class and nothing else",
				       folder, *path);
	}
	return st;
}

static enum tarn_status check_classes(const struct config *config, const char *path, const struct names *classes,
				      const struct names *train)
{
	if (classes->count != config->data.classes)
		return tarn_fail(TARN_EDATA, "%s holds %zu folder%s, one a class, but data.classes is %u", path,
				 classes->count, classes->count == 1 ? "" : "s", config->data.classes);
	for (size_t i = 0; i < classes->count; i++)
		if (strcmp(classes->item[i], train->item[i]) != 0)
			return tarn_fail(TARN_EDATA,
					 "%s: class %zu is %s but in the training set it is %s; both sets have the "
					 "same folders",
					 path, i, classes->item[i], train->item[i]);
	return TARN_OK;
}

/* The classes of a split, checked against data.classes and, of the test set, against those of the training set. */
static enum tarn_status find_classes(const struct config *config, enum data_split split, struct host_arena *arena,
				     const char **path, struct names *classes)
{
	const char *train_path;
	struct names train;
	enum tarn_status st = list_classes(config, split, arena, path, classes);
	if (st || !*path)
		return st;
	train = *classes;
	if (split == SPLIT_TEST)
		st = list_classes(config, SPLIT_TRAIN, arena, &train_path, &train);
	if (!st && train.count != config->data.classes && split == SPLIT_TEST)
		return check_classes(config, train_path, &train, &train);
	return st ? st : check_classes(config, *path, classes, &train);
}

static enum tarn_status open_image(struct data_stream *stream, const char *path, struct image_header *header)
{
	uint8_t head[IMAGE_HEAD_BYTES];
	enum tarn_status st = stream_open(stream, path);
	if (st)
		return st;
	if (stream->gzip)
		return tarn_fail(TARN_EUNSUPPORTED, "%s: unsupported: packed with gzip; unpack it first", path);
	st = stream_read(stream, head, stream->file_bytes < sizeof head ? (size_t)stream->file_bytes : sizeof head);
	if (st)
		return st;
	st = image_parse(head, stream->file_bytes, header);
	return st ? tarn_fail_prefix(st, "%s", path) : TARN_OK;
}

static enum tarn_status check_shape(const struct sample_shape *shape, const char *path, const char *first,
				    const struct image_header *header)
{
	if (header->height == shape->dim[0] && header->width == shape->dim[1] && header->channels == shape->dim[2])
		return TARN_OK;
	return tarn_fail(
		TARN_EDATA, "%s is %ux%ux%u but %s %ux%ux%u (height, width, channels); all images have one size", path,
		header->height, header->width, header->channels, first, shape->dim[0], shape->dim[1], shape->dim[2]);
}

/* Calls `visit` for every image of a split in order, once its header was read. */
static enum tarn_status visit_images(const struct config *config, enum data_split split, struct host_arena *arena,
				     enum tarn_status (*visit)(void *context, const char *path, uint32_t class,
							       const struct image_header *header),
				     void *context)
{
	const char *path;
	struct names classes, files;
	enum tarn_status st = find_classes(config, split, arena, &path, &classes);
	for (uint32_t k = 0; k < classes.count && !st; k++) {
		const char *folder = host_arena_printf(arena, "%s/%s", path, classes.item[k]);
		st = folder ? list_folder(folder, arena, &files) : TARN_ENOMEM;
		if (!st && !files.count)
			st = tarn_fail(TARN_EDATA, "%s: holds no image; a class has at least 1", folder);
		for (size_t i = 0; !st && i < files.count; i++) {
			struct data_stream stream;
			struct image_header header;
			struct host_mark mark = host_arena_mark(arena);
			const char *file = host_arena_printf(arena, "%s/%s", folder, files.item[i]);
			if (!file)
				return TARN_ENOMEM;
			st = open_image(&stream, file, &header);
			stream_close(&stream);
			if (!st)
				st = visit(context, file, k, &header);
			host_arena_release(arena, mark);
		}
	}
	return st;
}

struct description {
	const struct config *config;
	struct sample_shape *shape;
	uint32_t samples;
};

static enum tarn_status describe_image(void *context, const char *path, uint32_t class,
				       const struct image_header *header)
{
	struct description *d = context;
	const struct size_list *given = &d->config->data.shape;
	const uint32_t dim[3] = { header->height, header->width, header->channels };
	char want[SHAPE_TEXT], got[SHAPE_TEXT];
	(void)class;
	if (!d->samples) {
		d->shape->rank = 3;
		memcpy(d->shape->dim, dim, sizeof dim);
		bool same = !given->count || given->count == 3 || (given->count == 2 && dim[2] == 1);
		for (uint32_t i = 0; same && i < given->count; i++)
			same = given->item[i] == dim[i];
		if (!same)
			return tarn_fail(TARN_EDATA, "%s: samples are %s but data.shape is %s", path,
					 shape_format(dim, 3, got, sizeof got),
					 shape_format(given->item, given->count, want, sizeof want));
	}
	if (d->samples == UINT32_MAX)
		return tarn_fail(TARN_EDATA, "%s: more than 2^32 - 1 images", path);
	d->samples++;
	return check_shape(d->shape, path, "those before it are", header);
}

enum tarn_status images_describe(const struct config *config, enum data_split split, struct host_arena *arena,
				 uint32_t *samples, struct sample_shape *shape)
{
	struct description description = { .config = config, .shape = shape };
	memset(shape, 0, sizeof *shape);
	*samples = 0;
	enum tarn_status st = visit_images(config, split, arena, describe_image, &description);
	shape->classes = config->data.classes;
	if (!st)
		*samples = description.samples;
	return st;
}

struct filling {
	struct dataset *dataset;
	struct host_arena *arena;
	uint8_t *pixels;
	int32_t *labels;
	uint32_t next;
};

static enum tarn_status read_image(void *context, const char *path, uint32_t class, const struct image_header *header)
{
	struct filling *f = context;
	struct data_stream stream;
	enum tarn_status st = check_shape(&f->dataset->shape, path, "the others are", header);
	if (!st && f->next == f->dataset->samples)
		st = tarn_fail(TARN_EIO, "%s: is new since the folder was listed", path);
	if (st)
		return st;
	st = stream_open(&stream, path);
	uint8_t *file = st ? NULL : HOST_ARRAY(f->arena, stream.file_bytes, uint8_t);
	if (!st && !file)
		st = tarn_fail_prefix(TARN_ENOMEM, "%s", path);
	if (!st)
		st = stream_read(&stream, file, stream.file_bytes);
	stream_close(&stream);
	if (st)
		return st;
	/* What is decoded has to be what was read, should the file have changed. */
	struct image_header again;
	st = image_parse(file, stream.file_bytes, &again);
	if (!st && memcmp(&again, header, sizeof again) != 0)
		st = tarn_fail(TARN_EIO, "changed while it was read");
	if (!st)
		st = image_decode(file, stream.file_bytes, &again, f->pixels + f->next * f->dataset->sample_elements);
	if (st)
		return tarn_fail_prefix(st, "%s", path);
	f->labels[f->next++] = (int32_t) class;
	return TARN_OK;
}

enum tarn_status images_fill(struct dataset *dataset, enum data_split split, struct host_arena *arena)
{
	struct filling filling = { .dataset = dataset, .arena = arena };
	filling.pixels = HOST_ARRAY(arena, dataset->samples * dataset->sample_elements, uint8_t);
	filling.labels = HOST_ARRAY(arena, dataset->samples, int32_t);
	if (!filling.pixels || !filling.labels)
		return TARN_ENOMEM;
	enum tarn_status st = visit_images(dataset->config, split, arena, read_image, &filling);
	if (!st && filling.next != dataset->samples)
		st = tarn_fail(TARN_EIO, "data: images vanished while they were read");
	dataset->bytes = filling.pixels;
	dataset->labels = filling.labels;
	return st;
}
