/* files.c - the two files of a split: inputs, and labels or targets. */
#include "data/files.h"

#include "data/array.h"
#include "data/zip.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#define FASHION_MNIST "fashion-mnist"

struct split_files {
	bool exist;         /* false: the split has none */
	bool targets_exist; /* false: inputs are their own targets */
	struct array_file inputs, targets;
};

static bool is_set(const char *text)
{
	return text && *text;
}

/* Which key names the file, where it was looked for, and what may help. `directory` NULL: the name says it all. */
static enum tarn_status fail_absent(const struct config *config, const char *path, const char *key,
				    const char *directory)
{
	const char *help = "";
	if (config->data.type == DATA_IDX && strstr(path, FASHION_MNIST))
		help = "; the Debian package dataset-fashion-mnist brings Fashion-MNIST (apt install "
		       "dataset-fashion-mnist)";
	else if (directory && access(directory, F_OK))
		help = ", which does not exist either";
	if (!directory)
		return tarn_fail(TARN_EIO, "%s: no such file; data.%s names it%s" FILES_STAND_IN, path, key, help);
	return tarn_fail(TARN_EIO, "%s: no such file; data.%s names it, in data.directory %s%s" FILES_STAND_IN, path,
			 key, directory, help);
}

enum tarn_status files_path(const struct config *config, const char *name, struct host_arena *arena, const char **path,
			    bool *found)
{
	const char *directory = config->data.directory;
	bool joined = name[0] != '/' && is_set(directory);
	char *text = joined ? host_arena_printf(arena, "%s/%s", directory, name) : host_arena_text(arena, name);
	if (!text)
		return TARN_ENOMEM;
	*path = text;
	/* Whatever else is wrong with the file, opening it will say. */
	*found = !access(text, F_OK) || (errno != ENOENT && errno != ENOTDIR);
	return TARN_OK;
}

enum tarn_status files_join(const struct config *config, const char *key, const char *name, struct host_arena *arena,
			    const char **path)
{
	bool found, joined = name[0] != '/' && is_set(config->data.directory);
	enum tarn_status st = files_path(config, name, arena, path, &found);
	if (st || found)
		return st;
	return fail_absent(config, *path, key, joined ? config->data.directory : NULL);
}

/* The array that data.`key` names: a file, or a member of the split's archive. */
static enum tarn_status find_array(const struct config *config, enum data_split split, const char *key,
				   const char *name, struct host_arena *arena, struct array_file *file)
{
	*file = (struct array_file){ .npy = config->data.type != DATA_IDX };
	if (!is_set(name))
		return tarn_fail(TARN_EINVAL, "data.%s is not set; it names %s", key,
				 config->data.type == DATA_NPZ ? "an array in the archive"
							       : "a file in data.directory");
	if (config->data.type != DATA_NPZ) {
		enum tarn_status st = files_join(config, key, name, arena, &file->path);
		file->name = file->path;
		return st;
	}
	bool own = split == SPLIT_TEST && is_set(config->data.test_archive);
	enum tarn_status st = files_join(config, own ? "test_archive" : "archive",
					 own ? config->data.test_archive : config->data.archive, arena, &file->path);
	if (st)
		return st;
	const char *member = host_arena_printf(arena, "%s.npy", name);
	file->name = host_arena_printf(arena, "%s: %s.npy", file->path, name);
	file->is_member = true;
	if (!member || !file->name)
		return TARN_ENOMEM;
	st = zip_find(file->path, member, arena, &file->part);
	return st == TARN_EDATA ? tarn_fail_prefix(st, "data.%s", key) : st;
}

static enum tarn_status find_files(const struct config *config, enum data_split split, struct host_arena *arena,
				   struct split_files *files)
{
	bool train = split == SPLIT_TRAIN, own = config->network.target == TARGET_INPUT;
	const char *inputs = train ? config->data.train_inputs : config->data.test_inputs;
	const char *targets = train ? config->data.train_labels : config->data.test_labels;
	memset(files, 0, sizeof *files);
	if (!is_set(inputs) && (!is_set(targets) || own) && !train)
		return TARN_OK;
	files->exist = true;
	files->targets_exist = !own;
	enum tarn_status st =
		find_array(config, split, train ? "train_inputs" : "test_inputs", inputs, arena, &files->inputs);
	return st || own ? st
			 : find_array(config, split, train ? "train_labels" : "test_labels", targets, arena,
				      &files->targets);
}

/* What the three kinds of files may hold, in the words of each format, and how NumPy converts to it. */
static const struct role {
	const char *npy, *convert, *idx;
} inputs_role = { "inputs are float32 (<f4) or bytes (|u1)", "x.astype('float32')", "inputs are bytes or floats" },
  labels_role = { "labels of cross_entropy are integers (|u1, |i1, <u2, <i2, <u4, <i4, <u8, <i8)", "y.astype('int64')",
		  "labels of cross_entropy are bytes (type 0x08)" },
  targets_role = { "targets that are values are float32 (<f4)", "y.astype('float32')",
		   "targets that are values are floats (type 0x0D)" };

static enum tarn_status fail_type(const struct config *config, const char *path, const struct array_header *header,
				  const struct role *role)
{
	if (config->data.type == DATA_IDX)
		return tarn_fail(TARN_EUNSUPPORTED, "%s: %s is not supported: %s", path, header->name, role->idx);
	return tarn_fail(TARN_EUNSUPPORTED, "%s: dtype %s is not supported: %s; save %s", path, header->name, role->npy,
			 role->convert);
}

static bool is_input_type(uint32_t type)
{
	return type == ARRAY_U8 || type == ARRAY_F32;
}

static bool is_label_type(uint32_t type)
{
	return type != ARRAY_F32 && type != ARRAY_OTHER;
}

/* Sample dimensions of an array: all but the first. */
static enum tarn_status input_shape(const struct config *config, const char *path, const struct array_header *header,
				    struct sample_shape *shape)
{
	if (!is_input_type(header->type))
		return fail_type(config, path, header, &inputs_role);
	shape->rank = header->rank > 1 ? header->rank - 1 : 1;
	shape->dim[0] = 1;
	for (uint32_t i = 1; i < header->rank; i++)
		shape->dim[i - 1] = header->dim[i];
	if (shape->rank == 2)
		shape->dim[shape->rank++] = 1;
	const struct size_list *given = &config->data.shape;
	uint32_t rank = given->count;
	bool same = !rank || rank == shape->rank || (rank == 2 && shape->rank == 3 && shape->dim[2] == 1);
	for (uint32_t i = 0; same && i < rank; i++)
		same = given->item[i] == shape->dim[i];
	char want[SHAPE_TEXT], got[SHAPE_TEXT];
	if (!same)
		return tarn_fail(TARN_EDATA, "%s: samples are %s but data.shape is %s", path,
				 shape_format(shape->dim, shape->rank, got, sizeof got),
				 shape_format(given->item, rank, want, sizeof want));
	return TARN_OK;
}

/* N x H x W, as the images. */
static enum tarn_status pixel_labels(const char *path, const struct array_header *header, struct sample_shape *shape)
{
	char got[SHAPE_TEXT], want[SHAPE_TEXT];
	enum tarn_status st = pixel_label_shape(shape);
	if (st)
		return st;
	if (header->rank == 3 && header->dim[1] == shape->target_dim[0] && header->dim[2] == shape->target_dim[1])
		return TARN_OK;
	return tarn_fail(TARN_EDATA, "%s: labels of a sample are %s but its pixels are %s (data.pixel_labels)", path,
			 shape_format(header->dim + 1, header->rank - 1, got, sizeof got),
			 shape_format(shape->target_dim, 2, want, sizeof want));
}

static enum tarn_status target_shape(const struct config *config, const char *path, const struct array_header *header,
				     struct sample_shape *shape)
{
	if (config->network.loss != LOSS_CROSS_ENTROPY) {
		if (header->type != ARRAY_F32)
			return fail_type(config, path, header, &targets_role);
		shape->target_rank = header->rank > 1 ? header->rank - 1 : 1;
		shape->target_dim[0] = 1;
		for (uint32_t i = 1; i < header->rank; i++)
			shape->target_dim[i - 1] = header->dim[i];
		return TARN_OK;
	}
	if (!is_label_type(header->type))
		return fail_type(config, path, header, &labels_role);
	if (config->data.pixel_labels)
		return pixel_labels(path, header, shape);
	if (header->rank != 1)
		return tarn_fail(TARN_EDATA,
				 "%s: labels have %u dimensions; one number a sample is expected (one a pixel with "
				 "data.pixel_labels: true)",
				 path, header->rank);
	return TARN_OK;
}

static int64_t label_value(uint32_t type, const uint8_t *at)
{
	uint64_t value = 0;
	size_t bytes = array_type_bytes(type);
	for (size_t i = bytes; i-- > 0;)
		value = value << 8 | at[i];
	switch (type) {
	case ARRAY_I8:
		return (int8_t)value;
	case ARRAY_I16:
		return (int16_t)value;
	case ARRAY_I32:
		return (int32_t)value;
	case ARRAY_U64:
		return value > INT64_MAX ? INT64_MAX : (int64_t)value;
	default:
		return (int64_t)value;
	}
}

/* Reads all labels, each in [0, classes) or ignore_index (-1: none); out may be NULL; *largest is the largest one. */
static enum tarn_status read_labels(struct data_stream *stream, const struct array_header *header, uint32_t classes,
				    int32_t ignore_index, int32_t *out, int32_t *largest)
{
	uint8_t chunk[4096];
	size_t width = array_type_bytes(header->type);
	uint64_t done = 0, count = header->bytes / width;
	*largest = -1;
	while (done < count) {
		uint64_t step = sizeof chunk / width;
		step = step > count - done ? count - done : step;
		enum tarn_status st = stream_read(stream, chunk, step * width);
		if (st)
			return st;
		for (uint64_t i = 0; i < step; i++) {
			int64_t value = label_value(header->type, chunk + i * width);
			bool ignored = ignore_index >= 0 && value == ignore_index;
			if ((value < 0 || value >= (int64_t)classes) && !ignored)
				return tarn_fail(TARN_EDATA,
						 "%s: label at index %llu is %lld; allowed are 0 to %u (data.classes)",
						 stream->path, (unsigned long long)(done + i), (long long)value,
						 classes - 1);
			if (value > *largest)
				*largest = (int32_t)value;
			if (out)
				out[done + i] = (int32_t)value;
		}
		done += step;
	}
	return stream_expect_end(stream);
}

/* data.classes, or 1 + the largest training label. */
static enum tarn_status find_classes(const struct config *config, const struct sample_shape *sample,
				     struct host_arena *arena, uint32_t *classes)
{
	*classes = config->data.classes;
	if (*classes > INT32_MAX)
		return tarn_fail(TARN_EINVAL, "data.classes is %u; the largest is 2^31 - 1", *classes);
	if (*classes)
		return TARN_OK;
	struct split_files files;
	enum tarn_status st = find_files(config, SPLIT_TRAIN, arena, &files);
	if (st)
		return st;
	struct data_stream stream;
	struct array_header header;
	int32_t largest = 0;
	st = array_open(&stream, &files.targets, &header);
	if (!st) {
		struct sample_shape shape = *sample;
		st = target_shape(config, files.targets.name, &header, &shape);
	}
	if (!st)
		st = read_labels(&stream, &header, INT32_MAX, -1, NULL, &largest);
	stream_close(&stream);
	*classes = (uint32_t)largest + 1;
	return st;
}

static enum tarn_status read_header(const struct array_file *file, struct array_header *header)
{
	struct data_stream stream;
	enum tarn_status st = array_open(&stream, file, header);
	stream_close(&stream);
	return st;
}

/* ---- data.arrays ---- */

static enum tarn_status find_further(const struct config *config, enum data_split split, uint32_t number,
				     struct host_arena *arena, struct array_file *file)
{
	bool train = split == SPLIT_TRAIN;
	const struct text_list *list = train ? &config->data.train_arrays : &config->data.test_arrays;
	return find_array(config, split, train ? "train_arrays" : "test_arrays", list->item[number], arena, file);
}

static enum tarn_status further_shape(const char *path, const struct array_header *header, uint32_t samples,
				      struct sample_array *array)
{
	if (header->type == ARRAY_OTHER)
		return tarn_fail(TARN_EUNSUPPORTED,
				 "%s: dtype %s is not supported: data.arrays are float32 (<f4) or integers; save "
				 "x.astype('float32')",
				 path, header->name);
	if (header->dim[0] != samples)
		return tarn_fail(TARN_EDATA, "%s holds %u samples but the inputs have %u", path, header->dim[0],
				 samples);
	array->integer = header->type != ARRAY_F32;
	array->rank = header->rank - 1;
	memcpy(array->dim, header->dim + 1, array->rank * sizeof *array->dim);
	if (!array->rank && !array->integer)
		array->dim[array->rank++] = 1;
	return TARN_OK;
}

static enum tarn_status describe_arrays(const struct config *config, enum data_split split, struct host_arena *arena,
					uint32_t samples, struct sample_shape *shape)
{
	enum tarn_status st = TARN_OK;
	shape->arrays = config->data.arrays.count;
	for (uint32_t k = 0; k < shape->arrays && !st; k++) {
		struct array_file file;
		struct array_header header;
		shape->array[k].name = config->data.arrays.item[k];
		st = find_further(config, split, k, arena, &file);
		if (!st)
			st = read_header(&file, &header);
		if (!st)
			st = further_shape(file.name, &header, samples, &shape->array[k]);
	}
	return st;
}

enum tarn_status files_describe(const struct config *config, enum data_split split, struct host_arena *arena,
				uint32_t *samples, struct sample_shape *shape)
{
	struct split_files files;
	struct array_header inputs, targets;
	memset(shape, 0, sizeof *shape);
	*samples = 0;
	enum tarn_status st = find_files(config, split, arena, &files);
	if (st || !files.exist)
		return st;
	st = read_header(&files.inputs, &inputs);
	if (!st)
		st = input_shape(config, files.inputs.name, &inputs, shape);
	if (!st && files.targets_exist)
		st = read_header(&files.targets, &targets);
	if (!st && files.targets_exist)
		st = target_shape(config, files.targets.name, &targets, shape);
	if (!st && files.targets_exist && inputs.dim[0] != targets.dim[0])
		st = tarn_fail(TARN_EDATA, "%s holds %u samples but %s holds %u", files.inputs.name, inputs.dim[0],
			       files.targets.name, targets.dim[0]);
	if (!st && config->network.loss == LOSS_CROSS_ENTROPY)
		st = find_classes(config, shape, arena, &shape->classes);
	if (!st)
		st = describe_arrays(config, split, arena, inputs.dim[0], shape);
	if (!st)
		*samples = inputs.dim[0];
	return st;
}

static void swap_words(uint8_t *data, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i += 4) {
		uint32_t word;
		memcpy(&word, data + i, 4);
		word = __builtin_bswap32(word);
		memcpy(data + i, &word, 4);
	}
}

static enum tarn_status check_finite(const char *path, const float *value, uint64_t count, uint64_t sample_elements)
{
	for (uint64_t i = 0; i < count; i++)
		if (!isfinite(value[i]))
			return tarn_fail(TARN_EDATA,
					 "%s: element %llu of sample %llu is %g; finite numbers are expected", path,
					 (unsigned long long)(i % sample_elements),
					 (unsigned long long)(i / sample_elements), (double)value[i]);
	return TARN_OK;
}

/* What binary_cross_entropy can compare with. */
static enum tarn_status check_unit_range(const char *path, const float *value, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		if (value[i] < 0.0f || value[i] > 1.0f)
			return tarn_fail(TARN_EDATA,
					 "%s: target at index %llu is %g; binary_cross_entropy allows 0 to 1", path,
					 (unsigned long long)i, (double)value[i]);
	return TARN_OK;
}

/* The whole array, floats in the machine's order. The stream is open when TARN_OK or not; the caller closes it. */
static enum tarn_status read_array(struct data_stream *stream, const struct array_header *header,
				   uint64_t sample_elements, struct host_arena *arena, void **data)
{
	uint8_t *bytes = HOST_ARRAY(arena, header->bytes, uint8_t);
	if (!bytes)
		return tarn_fail_prefix(TARN_ENOMEM, "%s", stream->path);
	enum tarn_status st = stream_read(stream, bytes, header->bytes);
	if (!st)
		st = stream_expect_end(stream);
	if (st)
		return st;
	if (header->big_endian)
		swap_words(bytes, header->bytes);
	*data = bytes;
	return header->type == ARRAY_F32
		       ? check_finite(stream->path, *data, header->bytes / sizeof(float), sample_elements)
		       : TARN_OK;
}

static enum tarn_status changed(const char *path)
{
	return tarn_fail(TARN_EIO, "%s: changed while it was read", path);
}

static enum tarn_status fill_inputs(struct dataset *dataset, const struct array_file *file, struct host_arena *arena)
{
	struct data_stream stream;
	struct array_header header = { 0 };
	void *data = NULL;
	enum tarn_status st = array_open(&stream, file, &header);
	if (!st && (!is_input_type(header.type) ||
		    header.bytes != dataset->samples * dataset->sample_elements * array_type_bytes(header.type)))
		st = changed(file->name);
	if (!st)
		st = read_array(&stream, &header, dataset->sample_elements, arena, &data);
	stream_close(&stream);
	if (header.type == ARRAY_U8)
		dataset->bytes = data;
	else
		dataset->values = data;
	return st;
}

static enum tarn_status fill_targets(struct dataset *dataset, const struct array_file *file, struct host_arena *arena)
{
	struct data_stream stream;
	struct array_header header;
	enum tarn_status st = array_open(&stream, file, &header);
	bool values = dataset->config->network.loss != LOSS_CROSS_ENTROPY;
	if (!st && (!(values ? header.type == ARRAY_F32 : is_label_type(header.type)) ||
		    header.bytes != dataset->samples * dataset->target_elements * array_type_bytes(header.type)))
		st = changed(file->name);
	if (!st && values) {
		void *data = NULL;
		st = read_array(&stream, &header, dataset->target_elements, arena, &data);
		dataset->targets = data;
		if (!st && dataset->config->network.loss == LOSS_BINARY_CROSS_ENTROPY)
			st = check_unit_range(file->name, data, dataset->samples * dataset->target_elements);
	} else if (!st) {
		int32_t largest, *labels = HOST_ARRAY(arena, dataset->samples * dataset->target_elements, int32_t);
		st = labels ? read_labels(&stream, &header, dataset->shape.classes,
					  dataset->config->network.ignore_index, labels, &largest)
			    : TARN_ENOMEM;
		dataset->labels = labels;
	}
	stream_close(&stream);
	return st;
}

static enum tarn_status read_further(struct dataset *dataset, const struct array_file *file, uint32_t number,
				     struct host_arena *arena)
{
	const struct sample_array *array = &dataset->shape.array[number];
	uint64_t count = dataset->samples * dataset->array_elements[number];
	struct data_stream stream;
	struct array_header header;
	void *data = NULL;
	int32_t largest;
	enum tarn_status st = array_open(&stream, file, &header);
	if (!st &&
	    (array->integer != is_label_type(header.type) || header.bytes != count * array_type_bytes(header.type)))
		st = changed(file->name);
	if (!st && array->integer) {
		data = HOST_ARRAY(arena, count, int32_t);
		/* What the values may be follows from the layer or loss that reads them. */
		st = data ? read_labels(&stream, &header, INT32_MAX, -1, data, &largest) : TARN_ENOMEM;
	} else if (!st) {
		st = read_array(&stream, &header, dataset->array_elements[number], arena, &data);
	}
	stream_close(&stream);
	dataset->array[number] = data;
	return st;
}

static enum tarn_status fill_arrays(struct dataset *dataset, enum data_split split, struct host_arena *arena)
{
	enum tarn_status st = TARN_OK;
	for (uint32_t k = 0; k < dataset->shape.arrays && !st; k++) {
		struct array_file file;
		st = find_further(dataset->config, split, k, arena, &file);
		if (!st)
			st = read_further(dataset, &file, k, arena);
	}
	return st;
}

enum tarn_status files_fill(struct dataset *dataset, enum data_split split, struct host_arena *arena)
{
	struct split_files files;
	enum tarn_status st = find_files(dataset->config, split, arena, &files);
	if (!st && files.targets_exist)
		st = fill_targets(dataset, &files.targets, arena);
	if (!st)
		st = fill_inputs(dataset, &files.inputs, arena);
	return st ? st : fill_arrays(dataset, split, arena);
}
