/* made.c - see made.h. */
#include "data/made.h"

#include "base/hash_numbers.h"
#include "base/philox.h"
#include "data/cifar.h"
#include "data/streams.h"
#include "data/tokens.h"

#include <math.h>
#include <string.h>

#define STREAM_PATTERN (STREAM_SYNTHETIC + 0u)
#define STREAM_NOISE (STREAM_SYNTHETIC + 1u)
#define STREAM_MAP (STREAM_SYNTHETIC + 2u)
#define STREAM_SUCCESSOR (STREAM_SYNTHETIC + 3u)
#define STREAM_TOKEN (STREAM_SYNTHETIC + 4u)

/* Patterns of images are interpolated between so many points an axis. */
#define GRID 4u
/* Training samples of `synthetic` when data.samples is 0; `hash` then has one batch. */
#define DEFAULT_SAMPLES 1024u

bool made_is(const struct config *config)
{
	return config->data.synthetic || config->data.type == DATA_SYNTHETIC || config->data.type == DATA_HASH;
}

static uint32_t train_samples(const struct config *config)
{
	if (config->data.samples)
		return config->data.samples;
	return config->data.type == DATA_HASH ? config->data.batch : DEFAULT_SAMPLES;
}

enum tarn_status pixel_label_shape(struct sample_shape *shape)
{
	char text[SHAPE_TEXT];
	if (shape->rank != 3)
		return tarn_fail(TARN_EINVAL, "data.pixel_labels needs images (H x W x C); samples have the shape %s",
				 shape_format(shape->dim, shape->rank, text, sizeof text));
	shape->target_rank = 2;
	shape->target_dim[0] = shape->dim[0];
	shape->target_dim[1] = shape->dim[1];
	return TARN_OK;
}

enum tarn_status made_shape(const struct config *config, const char *type, struct sample_shape *shape)
{
	const struct size_list *given = &config->data.shape;
	memset(shape, 0, sizeof *shape);
	if (!given->count || given->count >= OP_MAX_RANK)
		return tarn_fail(TARN_EINVAL, "data.shape has %u dimensions; %s needs 1 to %d, such as [28, 28, 1]",
				 given->count, type, OP_MAX_RANK - 1);
	for (uint32_t i = 0; i < given->count; i++) {
		if (!given->item[i])
			return tarn_fail(TARN_EINVAL, "data.shape: dimension %u is 0", i + 1);
		shape->dim[i] = given->item[i];
	}
	shape->rank = given->count;
	if (shape->rank == 2)
		shape->dim[shape->rank++] = 1;
	if (config->network.target == TARGET_INPUT)
		return TARN_OK;
	if (config->network.loss != LOSS_CROSS_ENTROPY) {
		shape->target_rank = 1;
		shape->target_dim[0] = config->data.classes ? config->data.classes : 1;
		return TARN_OK;
	}
	if (!config->data.classes || config->data.classes > INT32_MAX)
		return tarn_fail(TARN_EINVAL, "data.classes is %u; %s needs 1 to 2^31 - 1", config->data.classes, type);
	shape->classes = config->data.classes;
	return config->data.pixel_labels ? pixel_label_shape(shape) : TARN_OK;
}

enum tarn_status made_describe(const struct config *config, enum data_split split, uint32_t *samples,
			       struct sample_shape *shape)
{
	const char *type = config->data.synthetic           ? "data.synthetic: true"
			   : config->data.type == DATA_HASH ? "data.type: hash"
							    : "data.type: synthetic";
	memset(shape, 0, sizeof *shape);
	*samples = split == SPLIT_TRAIN ? train_samples(config) : config->data.test_samples;
	if (!*samples && split == SPLIT_TRAIN)
		return tarn_fail(TARN_EINVAL, "data.samples and data.batch are 0; %s needs at least 1 sample", type);
	if (config->data.context)
		return tokens_shape(config, shape);
	if (cifar_is(config->data.type))
		return cifar_shape(config, shape);
	return made_shape(config, type, shape);
}

static void fill_hash(const struct dataset *dataset, uint64_t first, float *values, int32_t *labels, float *targets)
{
	const struct sample_shape *shape = &dataset->shape;
	uint64_t elements = dataset->sample_elements, channels = shape->rank == 1 ? 1 : dataset->channels;
	uint64_t pixels = elements / channels;
	for (uint32_t n = 0; n < dataset->samples; n++) {
		for (uint64_t pixel = 0; pixel < pixels; pixel++)
			for (uint64_t c = 0; c < channels; c++)
				*values++ = hash_uniform(HASH_SEED_INPUT, ((first + n) * channels + c) * pixels + pixel,
							 1.0f);
		for (uint64_t t = 0; labels && t < dataset->target_elements; t++)
			*labels++ = (int32_t)hash_label(HASH_SEED_TARGET, (first + n) * dataset->target_elements + t,
							shape->classes);
		for (uint64_t t = 0; targets && t < dataset->target_elements; t++)
			*targets++ = hash_uniform(HASH_SEED_TARGET, (first + n) * dataset->target_elements + t, 1.0f);
	}
}

/* Uniform in [-1, 1): number `index` of a stream. */
static float uniform(uint64_t seed, uint32_t stream, uint32_t step, uint64_t index)
{
	return 2.0f * philox_float(philox(seed, stream, step, index / 4).word[index % 4]) - 1.0f;
}

/* Bilinear between the grid points around (y, x), both in [0, 1]. */
static float grid_value(uint64_t seed, uint64_t grid, float y, float x)
{
	float gy = y * (GRID - 1), gx = x * (GRID - 1);
	uint32_t y0 = (uint32_t)gy, x0 = (uint32_t)gx;
	y0 = y0 > GRID - 2 ? GRID - 2 : y0;
	x0 = x0 > GRID - 2 ? GRID - 2 : x0;
	float fy = gy - (float)y0, fx = gx - (float)x0;
	uint64_t at = grid * GRID * GRID + y0 * GRID + x0;
	float top = uniform(seed, STREAM_PATTERN, 0, at) * (1 - fx) + uniform(seed, STREAM_PATTERN, 0, at + 1) * fx;
	float bottom = uniform(seed, STREAM_PATTERN, 0, at + GRID) * (1 - fx) +
		       uniform(seed, STREAM_PATTERN, 0, at + GRID + 1) * fx;
	return top * (1 - fy) + bottom * fy;
}

/* One a class; without labels as many as digits. */
static uint32_t pattern_count(const struct dataset *dataset)
{
	return dataset->shape.classes ? dataset->shape.classes : 10;
}

/* pattern: (pattern_count, elements). Images are smooth in H and W; other shapes have independent elements. */
static void fill_patterns(const struct dataset *dataset, uint64_t seed, float *pattern)
{
	const uint32_t *dim = dataset->shape.dim;
	uint64_t elements = dataset->sample_elements;
	if (dataset->shape.rank != 3) {
		for (uint64_t i = 0; i < elements * pattern_count(dataset); i++)
			pattern[i] = uniform(seed, STREAM_PATTERN, 0, i);
		return;
	}
	for (uint32_t k = 0; k < pattern_count(dataset); k++)
		for (uint32_t h = 0; h < dim[0]; h++)
			for (uint32_t w = 0; w < dim[1]; w++)
				for (uint32_t c = 0; c < dim[2]; c++)
					*pattern++ = grid_value(seed, (uint64_t)k * dim[2] + c,
								((float)h + 0.5f) / (float)dim[0],
								((float)w + 0.5f) / (float)dim[1]);
}

static void fill_noise(const struct dataset *dataset, uint64_t seed, enum data_split split, float *values)
{
	uint64_t total = dataset->samples * dataset->sample_elements;
	for (uint64_t i = 0; i < total; i += 4) {
		struct philox_block block = philox(seed, STREAM_NOISE, split, i / 4);
		for (uint64_t k = i; k < i + 4 && k < total; k++)
			values[k] = 2.0f * philox_float(block.word[k - i]) - 1.0f;
	}
}

/* targets = values * map^T / sqrt(elements): of variance about 1/9 whatever the shape. */
static enum tarn_status fill_linear(const struct dataset *dataset, uint64_t seed, const float *values, float *targets,
				    struct host_arena *arena)
{
	uint64_t elements = dataset->sample_elements, outputs = dataset->target_elements;
	struct host_mark mark = host_arena_mark(arena);
	float *map = HOST_ARRAY(arena, elements * outputs, float);
	if (!map)
		return TARN_ENOMEM;
	for (uint64_t i = 0; i < elements * outputs; i++)
		map[i] = uniform(seed, STREAM_MAP, 0, i) / sqrtf((float)elements);
	for (uint32_t n = 0; n < dataset->samples; n++)
		for (uint64_t t = 0; t < outputs; t++) {
			double sum = 0;
			for (uint64_t i = 0; i < elements; i++)
				sum += (double)(values[n * elements + i] * map[t * elements + i]);
			targets[n * outputs + t] = (float)sum;
		}
	host_arena_release(arena, mark);
	return TARN_OK;
}

/* Which quarter of its image a pixel lies in; 0 when a sample has one label. */
static uint64_t quadrant(const struct dataset *dataset, uint64_t pixel)
{
	const struct sample_shape *shape = &dataset->shape;
	if (shape->target_rank != 2)
		return 0;
	uint64_t h = pixel / shape->target_dim[1], w = pixel % shape->target_dim[1];
	return 2u * (h >= shape->target_dim[0] / 2) + (w >= shape->target_dim[1] / 2);
}

static enum tarn_status fill_synthetic(const struct dataset *dataset, enum data_split split, float *values,
				       int32_t *labels, float *targets, struct host_arena *arena)
{
	uint64_t seed = dataset->config->train.seed, elements = dataset->sample_elements;
	fill_noise(dataset, seed, split, values);
	if (targets)
		return fill_linear(dataset, seed, values, targets, arena);
	struct host_mark mark = host_arena_mark(arena);
	uint64_t total, patterns = pattern_count(dataset);
	if (!bytes_mul(elements, patterns, &total))
		total = UINT64_MAX;
	float *pattern = HOST_ARRAY(arena, total, float);
	if (!pattern)
		return TARN_ENOMEM;
	fill_patterns(dataset, seed, pattern);
	uint64_t parts = labels ? dataset->target_elements : 1, part = elements / parts;
	for (uint64_t n = 0; n < dataset->samples; n++)
		for (uint64_t p = 0; p < parts; p++) {
			uint64_t label = (n + quadrant(dataset, p)) % patterns;
			if (labels)
				labels[n * parts + p] = (int32_t)label;
			for (uint64_t i = p * part; i < (p + 1) * part; i++)
				values[n * elements + i] += pattern[label * elements + i];
		}
	host_arena_release(arena, mark);
	return TARN_OK;
}

/* ---- tokens ---- */

static void fill_hash_tokens(const struct dataset *dataset, uint64_t first, int32_t *ids, int32_t *labels)
{
	uint64_t length = dataset->sample_elements;
	for (uint64_t n = 0; n < dataset->samples; n++)
		for (uint64_t t = 0; t < length; t++)
			ids[n * length + t] = (int32_t)hash_label(HASH_SEED_INPUT, (first + n) * length + t,
								  dataset->shape.vocabulary);
	for (uint64_t n = 0; n < dataset->samples; n++)
		for (uint64_t t = 0; t < length; t++)
			labels[n * length + t] = ids[n * length + (t + 1) % length];
}

/* In [0, bound): the high word of a product; bias below 2^-8 of a token for vocabularies of 2^24. */
static uint32_t below(uint32_t word, uint32_t bound)
{
	return (uint32_t)((uint64_t)word * bound >> 32);
}

static void fill_synthetic_tokens(const struct dataset *dataset, enum data_split split, int32_t *ids, int32_t *labels)
{
	uint64_t seed = dataset->config->train.seed, length = dataset->sample_elements;
	uint32_t vocabulary = dataset->shape.vocabulary;
	for (uint64_t n = 0; n < dataset->samples; n++) {
		int32_t id = 0;
		for (uint64_t t = 0; t <= length; t++) {
			struct philox_block draw = philox(seed, STREAM_TOKEN, split, n * (length + 1) + t);
			if (t == 0 || draw.word[0] >> 30 == 0)
				id = (int32_t)below(draw.word[1], vocabulary);
			else
				id = (int32_t)below(philox(seed, STREAM_SUCCESSOR, 0, (uint64_t)id).word[0],
						    vocabulary);
			if (t < length)
				ids[n * length + t] = id;
			if (t)
				labels[n * length + t - 1] = id;
		}
	}
}

static enum tarn_status fill_tokens(struct dataset *dataset, enum data_split split, struct host_arena *arena)
{
	/* dataset_describe made sure that this fits. */
	uint64_t total = dataset->samples * dataset->sample_elements;
	int32_t *ids = HOST_ARRAY(arena, total, int32_t), *labels = HOST_ARRAY(arena, total, int32_t);
	if (!ids || !labels)
		return TARN_ENOMEM;
	dataset->tokens = ids;
	dataset->token_bytes = sizeof *ids;
	dataset->labels = labels;
	if (dataset->config->data.type != DATA_HASH)
		fill_synthetic_tokens(dataset, split, ids, labels);
	else
		fill_hash_tokens(dataset, split == SPLIT_TRAIN ? 0 : train_samples(dataset->config), ids, labels);
	return TARN_OK;
}

/*
 * Values that a loss is about, in the range of that loss: hash values lie in [-1, 1), synthetic inputs in [-2, 2), and
 * a synthetic target is 1 or 0 as the linear function of its sample is positive or not.
 */
static void fit_range(const struct config *config, float *value, uint64_t count)
{
	bool synthetic = config->data.type != DATA_HASH, own = config->network.target == TARGET_INPUT;
	if (config->network.loss == LOSS_MEAN_SQUARED_ERROR)
		return;
	for (uint64_t i = 0; i < count; i++) {
		float unit = synthetic ? 0.5f * value[i] : value[i];
		if (synthetic && !own)
			unit = value[i] > 0 ? 1.0f : -1.0f;
		value[i] = config->network.loss == LOSS_BINARY_CROSS_ENTROPY ? 0.5f * unit + 0.5f : unit;
	}
}

enum tarn_status made_fill(struct dataset *dataset, enum data_split split, struct host_arena *arena)
{
	const struct config *config = dataset->config;
	bool own = config->network.target == TARGET_INPUT;
	bool has_labels = config->network.loss == LOSS_CROSS_ENTROPY;
	if (config->data.context)
		return fill_tokens(dataset, split, arena);
	/* dataset_describe made sure that these fit. */
	uint64_t total = dataset->samples * dataset->sample_elements;
	uint64_t target_total = dataset->samples * dataset->target_elements;
	float *values = HOST_ARRAY(arena, total, float);
	int32_t *labels = has_labels ? HOST_ARRAY(arena, target_total, int32_t) : NULL;
	float *targets = has_labels || own ? NULL : HOST_ARRAY(arena, target_total, float);
	if (!values || (!labels && !targets && !own))
		return TARN_ENOMEM;
	dataset->values = values;
	dataset->labels = labels;
	dataset->targets = targets;
	enum tarn_status st = TARN_OK;
	if (config->data.type != DATA_HASH)
		st = fill_synthetic(dataset, split, values, labels, targets, arena);
	else
		fill_hash(dataset, split == SPLIT_TRAIN ? 0 : train_samples(config), values, labels, targets);
	if (!st && own)
		fit_range(config, values, total);
	else if (!st && targets)
		fit_range(config, targets, target_total);
	return st;
}
