/* dataset.c - opening a split, normalising and augmenting its samples, the order of an epoch. */
#include "data/dataset.h"

#include "base/philox.h"
#include "data/cifar.h"
#include "data/files.h"
#include "data/given.h"
#include "data/images.h"
#include "data/made.h"
#include "data/streams.h"
#include "data/tokens.h"

#include <math.h>
#include <string.h>

/* Inputs that are their own targets may miss their range by so much, which normalisation rounds. */
#define TARGET_TOLERANCE 1e-5f

/* Values that mean and deviation apply to. */
static bool has_files(const struct config *config)
{
	return !made_is(config) && config->data.type != DATA_TOKENS;
}

static enum tarn_status describe(const struct config *config, enum data_split split, struct host_arena *arena,
				 uint32_t *samples, struct sample_shape *shape)
{
	if (made_is(config))
		return made_describe(config, split, samples, shape);
	switch (config->data.type) {
	case DATA_TOKENS:
		return tokens_describe(config, split, arena, samples, shape);
	case DATA_CIFAR10:
	case DATA_CIFAR100:
		return cifar_describe(config, split, arena, samples, shape);
	case DATA_IMAGES:
		return images_describe(config, split, arena, samples, shape);
	case DATA_MEMORY:
		return given_describe(config, split, samples, shape);
	default:
		return files_describe(config, split, arena, samples, shape);
	}
}

/* Everything but the normalisation. */
static enum tarn_status fill(struct dataset *dataset, enum data_split split, struct host_arena *arena)
{
	const struct config *config = dataset->config;
	if (made_is(config))
		return made_fill(dataset, split, arena);
	switch (config->data.type) {
	case DATA_TOKENS:
		return tokens_fill(dataset, split, arena);
	case DATA_CIFAR10:
	case DATA_CIFAR100:
		return cifar_fill(dataset, split, arena);
	case DATA_IMAGES:
		return images_fill(dataset, split, arena);
	case DATA_MEMORY:
		return given_fill(dataset, split);
	default:
		return files_fill(dataset, split, arena);
	}
}

static bool same_dimensions(const uint32_t *a, uint32_t a_rank, const uint32_t *b, uint32_t b_rank)
{
	return a_rank == b_rank && !memcmp(a, b, a_rank * sizeof *a);
}

static enum tarn_status check_splits(const struct sample_shape *train, const struct sample_shape *test)
{
	char a[SHAPE_TEXT], b[SHAPE_TEXT];
	if (!same_dimensions(train->dim, train->rank, test->dim, test->rank))
		return tarn_fail(TARN_EDATA, "data: training samples are %s but test samples are %s",
				 shape_format(train->dim, train->rank, a, sizeof a),
				 shape_format(test->dim, test->rank, b, sizeof b));
	if (!same_dimensions(train->target_dim, train->target_rank, test->target_dim, test->target_rank))
		return tarn_fail(TARN_EDATA, "data: training targets are %s but test targets are %s",
				 shape_format(train->target_dim, train->target_rank, a, sizeof a),
				 shape_format(test->target_dim, test->target_rank, b, sizeof b));
	return TARN_OK;
}

static enum tarn_status check_arrays(const struct sample_shape *train, const struct sample_shape *test)
{
	char a[SHAPE_TEXT], b[SHAPE_TEXT];
	for (uint32_t k = 0; k < train->arrays; k++) {
		const struct sample_array *x = &train->array[k], *y = &test->array[k];
		if (x->integer != y->integer || !same_dimensions(x->dim, x->rank, y->dim, y->rank))
			return tarn_fail(TARN_EDATA,
					 "data.arrays: a sample of %s has %s %s to train on but %s %s in the test set",
					 x->name, x->integer ? "integers" : "floats",
					 shape_format(x->dim, x->rank, a, sizeof a), y->integer ? "integers" : "floats",
					 shape_format(y->dim, y->rank, b, sizeof b));
	}
	return TARN_OK;
}

static bool multiply(const uint32_t *dim, uint32_t rank, uint64_t *product)
{
	*product = 1;
	for (uint32_t i = 0; i < rank; i++)
		if (!bytes_mul(*product, dim[i], product))
			return false;
	return true;
}

/* The values of `samples` samples and of their targets, in bytes, are numbers that a machine can address. */
static enum tarn_status check_size(const struct sample_shape *shape, uint32_t samples)
{
	uint64_t elements, target_elements, bytes;
	if (!multiply(shape->dim, shape->rank, &elements) ||
	    !multiply(shape->target_dim, shape->target_rank, &target_elements))
		return tarn_fail(TARN_EINVAL, "data.shape: the dimensions multiply to more than 2^64");
	if (!bytes_mul(elements, (uint64_t)samples * sizeof(float), &bytes) ||
	    !bytes_mul(target_elements, (uint64_t)samples * sizeof(float), &bytes))
		return tarn_fail(TARN_EINVAL, "data.samples: %u samples are more than the machine can address",
				 samples);
	return TARN_OK;
}

/* One value for all channels, or one a channel. */
static enum tarn_status check_list(const char *key, const struct real_list *list, uint32_t channels, bool positive)
{
	if (list->count > 1 && list->count != channels)
		return tarn_fail(TARN_EDATA, "%s has %u values; samples have %u channel%s, so %s needed", key,
				 list->count, channels, channels == 1 ? "" : "s",
				 channels == 1 ? "1 is" : "1, or one a channel, are");
	for (uint32_t i = 0; i < list->count; i++)
		if (!isfinite(list->item[i]) || (positive && list->item[i] <= 0))
			return tarn_fail(TARN_EINVAL, "%s: value %u is %g; it must be a finite number%s", key, i + 1,
					 list->item[i], positive ? " above 0" : "");
	return TARN_OK;
}

static enum tarn_status check_augmentation(const struct config *config, const struct sample_shape *shape)
{
	if (!config->data.shift && !config->data.flip)
		return TARN_OK;
	if (config->data.pixel_labels)
		return tarn_fail(TARN_EINVAL,
				 "data.augment moves images but not the labels of their pixels; leave it out "
				 "beside data.pixel_labels");
	if (shape->rank == 3)
		return TARN_OK;
	char text[SHAPE_TEXT];
	return tarn_fail(TARN_EDATA, "data.augment needs images (H x W x C); samples have the shape %s",
			 shape_format(shape->dim, shape->rank, text, sizeof text));
}

/* Pieces are of tokens or of square images, and the largest is the whole. */
static enum tarn_status check_sizes(const struct config *config, const struct sample_shape *shape)
{
	const struct size_list *shapes = &config->data.shapes;
	char text[SHAPE_TEXT];
	if (!shapes->count)
		return TARN_OK;
	bool image = shape->rank == 3 && shape->dim[0] == shape->dim[1], tokens = shape->vocabulary;
	if ((image || tokens) && shape->dim[0] == shapes->item[0])
		return TARN_OK;
	return tarn_fail(
		TARN_EDATA,
		"data.shapes: the largest is %u, samples are %s; it is data.context, or the side of square images",
		shapes->item[0], shape_format(shape->dim, shape->rank, text, sizeof text));
}

/* All that can be said of a configuration and its samples without reading them: planning and opening ask the same. */
static enum tarn_status check_samples(const struct config *config, const struct sample_shape *shape, uint32_t train,
				      uint32_t test)
{
	enum tarn_status st = check_size(shape, train > test ? train : test);
	if (!st)
		st = check_augmentation(config, shape);
	if (!st)
		st = check_sizes(config, shape);
	/* Made-up values stay as they are. */
	if (st || !has_files(config))
		return st;
	uint32_t channels = shape->dim[shape->rank - 1];
	st = check_list("data.mean", &config->data.mean, channels, false);
	return st ? st : check_list("data.std", &config->data.std, channels, true);
}

enum tarn_status dataset_describe(const struct config *config, struct host_arena *arena, uint32_t *train_samples,
				  uint32_t *test_samples, struct sample_shape *shape)
{
	struct sample_shape train, test;
	uint32_t n_train, n_test;
	struct host_mark mark = host_arena_mark(arena);
	enum tarn_status st = describe(config, SPLIT_TRAIN, arena, &n_train, &train);
	if (!st)
		st = describe(config, SPLIT_TEST, arena, &n_test, &test);
	host_arena_release(arena, mark);
	if (!st && n_test)
		st = check_splits(&train, &test);
	if (!st && n_test)
		st = check_arrays(&train, &test);
	if (!st)
		st = check_samples(config, &train, n_train, n_test);
	if (st)
		return st;
	*train_samples = n_train;
	*test_samples = n_test;
	*shape = train;
	return TARN_OK;
}

static float list_value(const struct real_list *list, uint32_t channel, float fallback)
{
	if (!list->count)
		return fallback;
	return (float)list->item[list->count > 1 ? channel : 0];
}

static enum tarn_status prepare_bytes(struct dataset *dataset, const float *mean, const float *std,
				      struct host_arena *arena)
{
	bool one = dataset->config->data.mean.count <= 1 && dataset->config->data.std.count <= 1;
	uint32_t rows = one ? 1 : dataset->channels;
	float *table = HOST_ARRAY(arena, (size_t)rows * 256, float);
	if (!table)
		return TARN_ENOMEM;
	for (uint32_t c = 0; c < rows; c++)
		for (uint32_t b = 0; b < 256; b++)
			table[c * 256 + b] = ((float)b / 255.0f - mean[c]) / std[c];
	dataset->table = table;
	dataset->table_stride = one ? 0 : 256;
	return TARN_OK;
}

static enum tarn_status prepare_normalisation(struct dataset *dataset, struct host_arena *arena)
{
	const struct config *config = dataset->config;
	float *mean = HOST_ARRAY(arena, dataset->channels, float);
	float *std = HOST_ARRAY(arena, dataset->channels, float);
	float *padding = HOST_ARRAY(arena, dataset->channels, float);
	if (!mean || !std || !padding)
		return TARN_ENOMEM;
	bool identity = !has_files(config);
	for (uint32_t c = 0; c < dataset->channels; c++) {
		mean[c] = identity ? 0.0f : list_value(&config->data.mean, c, 0.0f);
		std[c] = identity ? 1.0f : list_value(&config->data.std, c, 1.0f);
		padding[c] = (0.0f - mean[c]) / std[c];
	}
	dataset->padding = padding;
	if (dataset->bytes)
		return prepare_bytes(dataset, mean, std, arena);
	for (uint32_t c = 0; c < dataset->channels; c++) {
		if (mean[c] != 0.0f || std[c] != 1.0f) {
			dataset->mean = mean;
			dataset->std = std;
		}
	}
	return TARN_OK;
}

/* For dimensions that check_size has seen. */
static uint64_t elements_of(const uint32_t *dim, uint32_t rank)
{
	uint64_t product = 1;
	for (uint32_t i = 0; i < rank; i++)
		product *= dim[i];
	return product;
}

/* Bytes may be any of 256 values; of floats each is looked at. */
static enum tarn_status check_inputs(const struct dataset *dataset)
{
	uint32_t loss = dataset->config->network.loss, channels = dataset->channels;
	float least = loss == LOSS_BINARY_CROSS_ENTROPY ? 0.0f : -1.0f;
	uint64_t rows = dataset->table_stride ? channels : 1, total = dataset->samples * dataset->sample_elements;
	if (loss == LOSS_MEAN_SQUARED_ERROR)
		return TARN_OK;
	for (uint64_t i = 0; i < (dataset->bytes ? rows * 256 : total); i++) {
		float value = dataset->bytes ? dataset->table[i] : dataset->values[i];
		if (dataset->mean)
			value = (value - dataset->mean[i % channels]) / dataset->std[i % channels];
		if (value < least - TARGET_TOLERANCE || value > 1.0f + TARGET_TOLERANCE)
			return tarn_fail(
				TARN_EDATA,
				"data: with network.target: input and network.loss: %s values must lie "
				"between %g and 1, one is %g; bytes do with data.mean: [%g] and data.std: [%g]",
				loss_name(loss), (double)least, (double)value, least < 0 ? 0.5 : 0.0,
				least < 0 ? 0.5 : 1.0);
	}
	return TARN_OK;
}

struct sample_shape dataset_shape(const struct config *config, const struct sample_shape *whole, uint32_t size)
{
	struct sample_shape shape = *whole;
	if (!config->data.shapes.count)
		return shape;
	/* Height and width, or tokens; labels of pixels and of tokens as well. */
	for (uint32_t d = 0; d < 2 && d < (shape.vocabulary ? 1u : 2u); d++)
		shape.dim[d] = config->data.shapes.item[size];
	for (uint32_t d = 0; d < shape.target_rank && (shape.vocabulary || config->data.pixel_labels); d++)
		shape.target_dim[d] = config->data.shapes.item[size];
	return shape;
}

/* None where the input is its own target. */
static uint64_t count_targets(const struct config *config, const struct sample_shape *shape)
{
	return config->network.target == TARGET_DATA ? elements_of(shape->target_dim, shape->target_rank) : 0;
}

static void list_sizes(struct dataset *dataset)
{
	const struct size_list *shapes = &dataset->config->data.shapes;
	dataset->sizes = shapes->count ? shapes->count : 1;
	for (uint32_t i = 0; i < dataset->sizes; i++) {
		struct sample_shape shape = dataset_shape(dataset->config, &dataset->shape, i);
		dataset->size[i] = (struct dataset_size){
			.side = shapes->count ? shapes->item[i] : 0,
			.sample_elements = elements_of(shape.dim, shape.rank),
			.target_elements = count_targets(dataset->config, &shape),
		};
	}
}

enum tarn_status dataset_open(const struct config *config, enum data_split split, struct host_arena *arena,
			      struct dataset *dataset)
{
	uint32_t train_samples, test_samples;
	struct sample_shape shape;
	enum tarn_status st = dataset_describe(config, arena, &train_samples, &test_samples, &shape);
	if (st)
		return st;
	memset(dataset, 0, sizeof *dataset);
	dataset->config = config;
	dataset->shape = shape;
	dataset->channels = shape.dim[shape.rank - 1];
	dataset->sample_elements = elements_of(shape.dim, shape.rank);
	dataset->target_elements = count_targets(config, &shape);
	list_sizes(dataset);
	for (uint32_t k = 0; k < shape.arrays; k++)
		dataset->array_elements[k] = elements_of(shape.array[k].dim, shape.array[k].rank);
	dataset->samples = split == SPLIT_TRAIN ? train_samples : test_samples;
	if (!dataset->samples)
		return TARN_OK;
	st = fill(dataset, split, arena);
	if (st || dataset->tokens)
		return st;
	st = prepare_normalisation(dataset, arena);
	return st || config->network.target == TARGET_DATA ? st : check_inputs(dataset);
}

/* `pixels` pixels from element `first` of the raw samples. */
static void read_pixels(const struct dataset *dataset, uint64_t first, uint64_t pixels, float *out)
{
	uint32_t channels = dataset->channels;
	if (dataset->bytes) {
		const uint8_t *in = dataset->bytes + first;
		const float *table = dataset->table;
		if (!dataset->table_stride) {
			for (uint64_t i = 0; i < pixels * channels; i++)
				out[i] = table[in[i]];
			return;
		}
		for (uint64_t i = 0; i < pixels; i++)
			for (uint32_t c = 0; c < channels; c++)
				*out++ = table[c * dataset->table_stride + *in++];
		return;
	}
	const float *in = dataset->values + first;
	if (!dataset->mean) {
		memcpy(out, in, pixels * channels * sizeof *out);
		return;
	}
	for (uint64_t i = 0; i < pixels; i++)
		for (uint32_t c = 0; c < channels; c++)
			*out++ = (*in++ - dataset->mean[c]) / dataset->std[c];
}

/* Uniform in [-limit, limit]. */
static int64_t draw_shift(uint32_t word, uint32_t limit)
{
	return (int64_t)(((uint64_t)word * (2 * (uint64_t)limit + 1)) >> 32) - (int64_t)limit;
}

static void mirror_row(float *row, int64_t width, uint32_t channels)
{
	for (int64_t left = 0, right = width - 1; left < right; left++, right--)
		for (uint32_t c = 0; c < channels; c++) {
			float moved = row[left * channels + c];
			row[left * channels + c] = row[right * channels + c];
			row[right * channels + c] = moved;
		}
}

/* What is read of an image: rows and columns from (top, left) on; both may lie outside, where there is padding. */
struct image_window {
	int64_t top, left, height, width;
	bool flip;
};

static void read_window(const struct dataset *dataset, uint32_t index, const struct image_window *window, float *out)
{
	int64_t height = dataset->shape.dim[0], width = dataset->shape.dim[1], columns = window->width;
	uint32_t channels = dataset->channels;
	uint64_t first = index * dataset->sample_elements;
	/* Columns [from, to) of a row come from the image, the others are padding. */
	int64_t from = window->left < 0 ? -window->left : 0, to = width - window->left;
	from = from < columns ? from : columns;
	to = to < from ? from : to < columns ? to : columns;
	for (int64_t h = 0; h < window->height; h++, out += columns * channels) {
		int64_t y = h + window->top;
		bool inside = y >= 0 && y < height && from < to;
		for (int64_t w = 0; w < columns; w++)
			if (!inside || w < from || w >= to)
				memcpy(out + w * channels, dataset->padding, channels * sizeof *out);
		if (inside)
			read_pixels(dataset, first + (uint64_t)(y * width + from + window->left) * channels,
				    (uint64_t)(to - from), out + from * channels);
		if (window->flip)
			mirror_row(out, columns, channels);
	}
}

/*
 * The image padded by `shift` black pixels on each side, cropped to its size at a random place, then mirrored left to
 * right with probability 1/2 (He et al. 2015, arXiv:1512.03385, section 4.2).
 */
static struct image_window augmented(const struct dataset *dataset, uint32_t index, uint32_t epoch)
{
	const struct config *config = dataset->config;
	struct philox_block draw = philox(config->train.seed, STREAM_AUGMENT, epoch, index);
	return (struct image_window){ .top = draw_shift(draw.word[0], config->data.shift),
				      .left = draw_shift(draw.word[1], config->data.shift),
				      .height = dataset->shape.dim[0],
				      .width = dataset->shape.dim[1],
				      .flip = config->data.flip && draw.word[2] >> 31 };
}

static void read_augmented(const struct dataset *dataset, uint32_t index, uint32_t epoch, float *out)
{
	struct image_window window = augmented(dataset, index, epoch);
	read_window(dataset, index, &window, out);
}

/* Labels, or values, of the whole sample. */
static void read_target(const struct dataset *dataset, uint32_t index, void *target)
{
	uint64_t first = index * dataset->target_elements, bytes = dataset->target_elements * sizeof(int32_t);
	if (dataset->labels)
		memcpy(target, dataset->labels + first, bytes);
	else if (dataset->targets)
		memcpy(target, dataset->targets + first, bytes);
}

void dataset_read(const struct dataset *dataset, uint32_t index, bool augment, uint32_t epoch, void *sample,
		  void *target)
{
	uint64_t first = index * dataset->sample_elements;
	if (dataset->tokens)
		tokens_read(dataset, first, dataset->sample_elements, sample);
	else if (augment && (dataset->config->data.shift || dataset->config->data.flip))
		read_augmented(dataset, index, epoch, sample);
	else
		read_pixels(dataset, first, dataset->sample_elements / dataset->channels, sample);
	if (dataset->tokens && !dataset->labels)
		tokens_read(dataset, first + 1, dataset->target_elements, target);
	else
		read_target(dataset, index, target);
}

/* Of each position that leaves the piece inside, one: drawn from `word`, or the middle. */
static uint32_t place_piece(const struct dataset *dataset, uint32_t side, bool random, uint32_t word)
{
	uint32_t room = dataset->size[0].side - side;
	return random ? (uint32_t)((uint64_t)word * (room + 1u) >> 32) : room / 2;
}

static void read_token_piece(const struct dataset *dataset, uint32_t index, const struct dataset_size *size,
			     uint32_t place, void *sample, void *target)
{
	uint64_t first = index * dataset->sample_elements + place;
	tokens_read(dataset, first, size->sample_elements, sample);
	if (dataset->labels)
		memcpy(target, dataset->labels + first, size->target_elements * sizeof *dataset->labels);
	else
		tokens_read(dataset, first + 1, size->target_elements, target);
}

void dataset_read_piece(const struct dataset *dataset, uint32_t index, uint32_t number, bool augment, uint32_t epoch,
			void *sample, void *target)
{
	const struct dataset_size *size = &dataset->size[number];
	if (!number) {
		dataset_read(dataset, index, augment, epoch, sample, target);
		return;
	}
	struct philox_block draw = philox(dataset->config->train.seed, STREAM_CROP, epoch, index);
	uint32_t top = place_piece(dataset, size->side, augment, draw.word[0]);
	uint32_t left = place_piece(dataset, size->side, augment, draw.word[1]);
	if (dataset->tokens) {
		read_token_piece(dataset, index, size, top, sample, target);
		return;
	}
	struct image_window window = { .flip = false };
	if (augment && (dataset->config->data.shift || dataset->config->data.flip))
		window = augmented(dataset, index, epoch);
	window.top += top;
	window.left += left;
	window.height = window.width = size->side;
	read_window(dataset, index, &window, sample);
	if (!dataset->config->data.pixel_labels) {
		read_target(dataset, index, target);
		return;
	}
	const int32_t *label = dataset->labels + index * dataset->target_elements;
	for (uint32_t h = 0; h < size->side; h++)
		memcpy((int32_t *)target + (size_t)h * size->side,
		       label + (size_t)(top + h) * dataset->shape.dim[1] + left, size->side * sizeof *label);
}

enum tarn_status dataset_measure(const struct dataset *dataset, struct host_arena *scratch,
				 struct dataset_statistics *statistics, uint64_t *class_count)
{
	struct host_mark mark = host_arena_mark(scratch);
	float *sample = HOST_ARRAY(scratch, dataset->sample_elements, float);
	int32_t *target = HOST_ARRAY(scratch, dataset->target_elements, int32_t);
	if (!sample || !target)
		return TARN_ENOMEM;
	double least = INFINITY, largest = -INFINITY, sum = 0, squares = 0;
	for (uint32_t k = 0; class_count && k < dataset->shape.classes; k++)
		class_count[k] = 0;
	for (uint32_t n = 0; n < dataset->samples; n++) {
		dataset_read(dataset, n, false, 0, sample, target);
		for (uint64_t i = 0; i < dataset->sample_elements; i++) {
			int32_t id;
			memcpy(&id, &sample[i], sizeof id);
			double x = dataset->tokens ? (double)id : (double)sample[i];
			least = x < least ? x : least;
			largest = x > largest ? x : largest;
			sum += x;
			squares += x * x;
		}
		for (uint64_t t = 0; class_count && !dataset->targets && t < dataset->target_elements; t++)
			class_count[target[t]]++;
	}
	host_arena_release(scratch, mark);
	double count = (double)dataset->samples * (double)dataset->sample_elements;
	double mean = count > 0 ? sum / count : 0, variance = count > 0 ? squares / count - mean * mean : 0;
	*statistics = (struct dataset_statistics){ least, largest, mean, variance > 0 ? sqrt(variance) : 0,
						   least == largest };
	return TARN_OK;
}

/* Uniform in [0, bound) from 64 random bits: the high word of their product; bias below 2^-32. */
static uint32_t draw_below(uint32_t high, uint32_t low, uint32_t bound)
{
	return (uint32_t)(((uint64_t)high * bound + (((uint64_t)low * bound) >> 32)) >> 32);
}

/* Fisher-Yates (Durstenfeld 1964, CACM algorithm 235). */
void dataset_order(const struct dataset *dataset, bool shuffle, uint64_t seed, uint32_t epoch, uint32_t *order)
{
	for (uint32_t i = 0; i < dataset->samples; i++)
		order[i] = i;
	for (uint32_t last = dataset->samples; shuffle && last-- > 1;) {
		struct philox_block draw = philox(seed, STREAM_SHUFFLE, epoch, last / 2);
		uint32_t pair = last % 2 * 2;
		uint32_t other = draw_below(draw.word[pair], draw.word[pair + 1], last + 1);
		uint32_t moved = order[last];
		order[last] = order[other];
		order[other] = moved;
	}
}
