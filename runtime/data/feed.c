/*
 * feed.c - one loader thread and two batch buffers.
 *
 * The thread owns the order array, the position and the buffer it fills; the caller owns the buffer it was handed until
 * feed_release. Everything else is behind one mutex; both sides sleep on condition variables. `filled` and `released`
 * count batches since the last rewind; their difference is how many buffers are full.
 */
#include "data/feed.h"

#include "base/philox.h"
#include "data/streams.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#define SLOTS 2u

struct slot {
	float *input;
	uint8_t *target;
	uint8_t *array[CONFIG_MAX_ARRAYS];
	struct batch batch;
};

/* A batch of an epoch. */
struct place {
	uint32_t epoch, number;
};

struct feed {
	struct feed_options options;
	uint32_t batches; /* of an epoch; at least 1 */
	struct slot slot[SLOTS];

	/* The loader thread's own. */
	uint32_t *order;
	bool ordered; /* `order` is that of ordered_epoch */
	uint32_t ordered_epoch;

	pthread_mutex_t lock;
	pthread_cond_t work;  /* for the loader: a free buffer, a rewind, the end */
	pthread_cond_t ready; /* for the caller: a full buffer */
	uint64_t filled, released, stalls;
	struct place start; /* of a rewind */
	bool rewind, stop, held;
	bool finished; /* the last batch was filled; no more come */
	pthread_t thread;
};

/* Batches of an epoch: short ones count unless drop_last. */
static uint32_t count_batches(const struct feed_options *options)
{
	uint32_t samples = options->dataset->samples, whole = samples / options->batch;
	if (options->episodes)
		return whole ? whole : 1;
	return whole + (samples % options->batch && !options->drop_last);
}

/* A place past the end of its epoch is the first one of the next. */
static struct place normalise(const struct feed *feed, struct place place)
{
	place.epoch += place.number / feed->batches;
	place.number %= feed->batches;
	return place;
}

/* The tasks of a step. */
static void fill_episodes(struct feed *feed, struct slot *slot, struct place place)
{
	const struct dataset *dataset = feed->options.dataset;
	int32_t *label = (int32_t *)(void *)slot->target, ignored;
	episodes_draw(feed->options.episodes, place.epoch * feed->batches + place.number, feed->order, label);
	for (uint32_t i = 0; i < feed->options.batch; i++)
		dataset_read(dataset, feed->order[i], feed->options.augment, place.epoch,
			     slot->input + i * dataset->sample_elements, &ignored);
	slot->batch = (struct batch){ .input = slot->input,
				      .target = slot->target,
				      .samples = feed->options.batch,
				      .epoch = place.epoch,
				      .number = place.number };
}

/* Which size a batch has: whole samples, or with equal chances one of data.shapes. */
static uint32_t draw_size(const struct feed *feed, struct place place, uint32_t samples)
{
	const struct feed_options *options = &feed->options;
	if (!options->augment || samples < options->batch)
		return 0;
	struct philox_block draw = philox(options->seed, STREAM_SHAPE, place.epoch, place.number);
	return (uint32_t)((uint64_t)draw.word[0] * options->dataset->sizes >> 32);
}

static void fill_arrays(const struct feed *feed, struct slot *slot, const uint32_t *sample, uint32_t count)
{
	const struct dataset *dataset = feed->options.dataset;
	for (uint32_t k = 0; k < dataset->shape.arrays; k++) {
		size_t bytes = dataset->array_elements[k] * sizeof(float);
		for (uint32_t i = 0; i < count; i++)
			memcpy(slot->array[k] + i * bytes, (const uint8_t *)dataset->array[k] + sample[i] * bytes,
			       bytes);
		slot->batch.array[k] = slot->array[k];
	}
}

static void fill(struct feed *feed, struct slot *slot, struct place place)
{
	const struct dataset *dataset = feed->options.dataset;
	if (feed->options.episodes) {
		fill_episodes(feed, slot, place);
		return;
	}
	if (!feed->ordered || feed->ordered_epoch != place.epoch) {
		dataset_order(dataset, feed->options.shuffle, feed->options.seed, place.epoch, feed->order);
		feed->ordered = true;
		feed->ordered_epoch = place.epoch;
	}
	uint32_t first = place.number * feed->options.batch, count = dataset->samples - first;
	count = count > feed->options.batch ? feed->options.batch : count;
	uint32_t size = draw_size(feed, place, count);
	uint64_t inputs = dataset->size[size].sample_elements, targets = dataset->size[size].target_elements;
	for (uint32_t i = 0; i < count; i++)
		dataset_read_piece(dataset, feed->order[first + i], size, feed->options.augment, place.epoch,
				   slot->input + i * inputs, slot->target + i * targets * sizeof(float));
	slot->batch = (struct batch){ .input = slot->input,
				      .target = slot->target,
				      .samples = count,
				      .epoch = place.epoch,
				      .number = place.number,
				      .size = size };
	fill_arrays(feed, slot, feed->order + first, count);
}

/* Sleeps until there is something to do. With the lock held. */
static void wait_for_work(struct feed *feed)
{
	while (!feed->stop && !feed->rewind && (feed->finished || feed->filled - feed->released == SLOTS))
		pthread_cond_wait(&feed->work, &feed->lock);
}

static void *load(void *argument)
{
	struct feed *feed = argument;
	pthread_mutex_lock(&feed->lock);
	struct place place = feed->start, begin = feed->start;
	for (;;) {
		wait_for_work(feed);
		if (feed->stop)
			break;
		if (feed->rewind) {
			place = begin = feed->start;
			feed->rewind = feed->finished = false;
			feed->filled = feed->released = 0;
		}
		struct slot *slot = &feed->slot[feed->filled % SLOTS];
		pthread_mutex_unlock(&feed->lock);
		fill(feed, slot, place);
		pthread_mutex_lock(&feed->lock);
		if (feed->rewind || feed->stop)
			continue;
		feed->filled++;
		place = normalise(feed, (struct place){ place.epoch, place.number + 1 });
		feed->finished = !feed->options.repeat && place.epoch != begin.epoch;
		pthread_cond_signal(&feed->ready);
	}
	pthread_mutex_unlock(&feed->lock);
	return NULL;
}

static enum tarn_status check_options(const struct feed_options *options)
{
	uint32_t samples = options->dataset->samples;
	if (!options->batch)
		return tarn_fail(TARN_EINVAL, "data.batch is 0; at least 1 is needed");
	if (!samples)
		return tarn_fail(TARN_EDATA, "the dataset has 0 samples; at least 1 is needed");
	if (!count_batches(options))
		return tarn_fail(TARN_EDATA,
				 "the dataset has %u samples, one batch needs %u and data.drop_last leaves out shorter "
				 "ones: no batch remains",
				 samples, options->batch);
	return TARN_OK;
}

static enum tarn_status allocate(struct feed *feed, struct host_arena *arena)
{
	const struct dataset *dataset = feed->options.dataset;
	bool short_batch = feed->options.batch > dataset->samples && !feed->options.episodes;
	uint32_t batch = short_batch ? dataset->samples : feed->options.batch;
	uint64_t inputs, targets;
	if (!bytes_mul(batch, dataset->sample_elements, &inputs) ||
	    !bytes_mul(batch, dataset->target_elements, &targets))
		return tarn_fail(TARN_EINVAL, "data.batch: %u samples are more than the machine can address", batch);
	for (uint32_t i = 0; i < SLOTS; i++) {
		feed->slot[i].input = HOST_ARRAY(arena, inputs, float);
		feed->slot[i].target = host_arena_alloc(arena, targets, sizeof(float));
		if (!feed->slot[i].input || !feed->slot[i].target)
			return TARN_ENOMEM;
		for (uint32_t k = 0; k < dataset->shape.arrays; k++) {
			/* All samples are in memory already, so the size of a batch of them is a number. */
			uint64_t elements = batch * dataset->array_elements[k];
			feed->slot[i].array[k] = host_arena_alloc(arena, elements, sizeof(float));
			if (!feed->slot[i].array[k])
				return TARN_ENOMEM;
		}
	}
	feed->order = HOST_ARRAY(arena, feed->options.episodes ? batch : dataset->samples, uint32_t);
	return feed->order ? TARN_OK : TARN_ENOMEM;
}

/* Signals stay with the threads that were there before. */
static enum tarn_status start_thread(struct feed *feed)
{
	sigset_t all, old;
	sigfillset(&all);
	pthread_mutex_init(&feed->lock, NULL);
	pthread_cond_init(&feed->work, NULL);
	pthread_cond_init(&feed->ready, NULL);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int code = pthread_create(&feed->thread, NULL, load, feed);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!code)
		return TARN_OK;
	pthread_cond_destroy(&feed->ready);
	pthread_cond_destroy(&feed->work);
	pthread_mutex_destroy(&feed->lock);
	return tarn_fail(TARN_ENOMEM, "cannot start the loader thread: %s", strerror(code));
}

enum tarn_status feed_open(const struct feed_options *options, struct host_arena *arena, struct feed **feed)
{
	enum tarn_status st = check_options(options);
	if (st)
		return st;
	struct feed *made = HOST_NEW(arena, struct feed);
	if (!made)
		return TARN_ENOMEM;
	made->options = *options;
	made->batches = count_batches(options);
	made->start = normalise(made, (struct place){ options->first_epoch, options->first_batch });
	st = allocate(made, arena);
	if (!st)
		st = start_thread(made);
	if (!st)
		*feed = made;
	return st;
}

enum tarn_status feed_next(struct feed *feed, struct batch *batch)
{
	pthread_mutex_lock(&feed->lock);
	if (feed->held) {
		pthread_mutex_unlock(&feed->lock);
		return tarn_fail(TARN_EINTERNAL, "feed_next: the batch before was not released");
	}
	bool waited = false;
	while (feed->rewind || (feed->filled == feed->released && !feed->finished)) {
		waited = true;
		pthread_cond_wait(&feed->ready, &feed->lock);
	}
	feed->stalls += waited;
	if (feed->filled == feed->released) {
		*batch = (struct batch){ 0 };
	} else {
		*batch = feed->slot[feed->released % SLOTS].batch;
		feed->held = true;
	}
	pthread_mutex_unlock(&feed->lock);
	return TARN_OK;
}

void feed_release(struct feed *feed)
{
	pthread_mutex_lock(&feed->lock);
	if (feed->held) {
		feed->held = false;
		feed->released++;
		pthread_cond_signal(&feed->work);
	}
	pthread_mutex_unlock(&feed->lock);
}

uint64_t feed_stalls(const struct feed *feed)
{
	/* The lock is no part of what the caller sees as constant. */
	pthread_mutex_t *lock = (pthread_mutex_t *)&feed->lock;
	pthread_mutex_lock(lock);
	uint64_t stalls = feed->stalls;
	pthread_mutex_unlock(lock);
	return stalls;
}

void feed_rewind(struct feed *feed, uint32_t epoch, uint32_t first_batch)
{
	pthread_mutex_lock(&feed->lock);
	feed->start = normalise(feed, (struct place){ epoch, first_batch });
	feed->rewind = true;
	feed->held = false;
	pthread_cond_signal(&feed->work);
	pthread_mutex_unlock(&feed->lock);
}

void feed_close(struct feed *feed)
{
	if (!feed)
		return;
	pthread_mutex_lock(&feed->lock);
	feed->stop = true;
	pthread_cond_signal(&feed->work);
	pthread_mutex_unlock(&feed->lock);
	pthread_join(feed->thread, NULL);
	pthread_cond_destroy(&feed->ready);
	pthread_cond_destroy(&feed->work);
	pthread_mutex_destroy(&feed->lock);
}
