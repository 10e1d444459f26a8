/* episodes.c - see episodes.h. */
#include "data/episodes.h"

#include "base/philox.h"
#include "data/streams.h"

#include <string.h>

/* Draws of one task, one after the other. */
struct draws {
	const struct episodes *episodes;
	uint32_t step, task, count;
};

static uint32_t each_of_class(const struct episodes *e)
{
	return e->shots + e->queries;
}

uint32_t episodes_samples(const struct episodes *e)
{
	return e->tasks * e->ways * each_of_class(e);
}

/* Classes of this split: the last objective.test_classes of all are for evaluation alone. */
static void class_range(const struct config *config, const struct dataset *dataset, enum data_split split,
			uint32_t *first, uint32_t *count)
{
	uint32_t held = config->objective.test_classes, all = dataset->shape.classes;
	held = held < all ? held : all;
	*first = held && split == SPLIT_TEST ? all - held : 0;
	*count = !held ? all : split == SPLIT_TEST ? held : all - held;
}

/* sample[] ordered by class; first[c] .. first[c + 1] are those of class c. */
static void sort_by_class(const struct dataset *dataset, uint32_t *first, uint32_t *sample)
{
	uint32_t classes = dataset->shape.classes;
	memset(first, 0, (classes + 2u) * sizeof *first);
	for (uint32_t i = 0; i < dataset->samples; i++)
		first[dataset->labels[i] + 2]++;
	for (uint32_t c = 2; c <= classes + 1; c++)
		first[c] += first[c - 1];
	for (uint32_t i = 0; i < dataset->samples; i++)
		sample[first[dataset->labels[i] + 1]++] = i;
}

enum tarn_status episodes_open(const struct config *config, const struct dataset *dataset, enum data_split split,
			       struct host_arena *arena, struct episodes *e)
{
	uint32_t classes = dataset->shape.classes, first, count, smallest = UINT32_MAX;
	*e = (struct episodes){ .ways = config->objective.ways,
				.shots = config->objective.shots,
				.queries = config->objective.queries,
				.tasks = config->objective.tasks,
				.seed = config->train.seed,
				.split = split };
	if (!dataset->labels || dataset->target_elements != 1)
		return tarn_fail(TARN_EDATA, "objective.type: maml needs data with one label a sample");
	uint32_t *begin = HOST_ARRAY(arena, classes + 2u, uint32_t);
	uint32_t most = each_of_class(e) > e->ways ? each_of_class(e) : e->ways;
	e->sample = HOST_ARRAY(arena, dataset->samples + 1u, uint32_t);
	e->class = HOST_ARRAY(arena, 2 * (size_t)classes, uint32_t);
	e->drawn = HOST_ARRAY(arena, (size_t)most + e->ways, uint32_t);
	if (!begin || !e->sample || !e->class || !e->drawn)
		return TARN_ENOMEM;
	sort_by_class(dataset, begin, e->sample);
	class_range(config, dataset, split, &first, &count);
	for (uint32_t c = first; c < first + count; c++) {
		uint32_t samples = begin[c + 1] - begin[c];
		smallest = samples < smallest ? samples : smallest;
		if (samples < each_of_class(e))
			continue;
		e->class[2 * e->eligible] = begin[c];
		e->class[2 * e->eligible++ + 1] = samples;
	}
	if (e->eligible >= e->ways)
		return TARN_OK;
	return tarn_fail(
		TARN_EDATA,
		"objective.ways is %u, but of the %u classes of the %s tasks only %u have the %u samples that shots "
		"and queries need; the smallest has %u",
		e->ways, count, split == SPLIT_TEST ? "evaluation" : "training", e->eligible, each_of_class(e),
		count ? smallest : 0);
}

/* Uniform in [0, bound): the high word of a product. */
static uint32_t below(struct draws *d, uint32_t bound)
{
	const struct episodes *e = d->episodes;
	uint64_t index = (uint64_t)d->task << 32 | d->count++;
	struct philox_block block = philox(e->seed, STREAM_EPISODE + e->split, d->step, index);
	uint64_t low = (uint64_t)block.word[1] * bound >> 32;
	return (uint32_t)(((uint64_t)block.word[0] * bound + low) >> 32);
}

/* `count` different numbers below `bound` (Bentley, Floyd 1987), then their order (Durstenfeld 1964). */
static void choose(struct draws *d, uint32_t bound, uint32_t count, uint32_t *chosen)
{
	for (uint32_t n = 0, j = bound - count; n < count; n++, j++) {
		uint32_t number = below(d, j + 1);
		for (uint32_t i = 0; i < n; i++)
			if (chosen[i] == number) {
				number = j;
				break;
			}
		chosen[n] = number;
	}
	for (uint32_t last = count; last-- > 1;) {
		uint32_t other = below(d, last + 1), moved = chosen[last];
		chosen[last] = chosen[other];
		chosen[other] = moved;
	}
}

static void draw_task(const struct episodes *e, struct draws *d, uint32_t *sample, int32_t *label)
{
	uint32_t *class = e->drawn, *chosen = e->drawn + e->ways;
	choose(d, e->eligible, e->ways, class);
	for (uint32_t w = 0; w < e->ways; w++) {
		uint32_t first = e->class[2 * class[w]], samples = e->class[2 * class[w] + 1];
		choose(d, samples, each_of_class(e), chosen);
		for (uint32_t i = 0; i < each_of_class(e); i++) {
			uint32_t place =
				i < e->shots ? w * e->shots + i : e->ways * e->shots + w * e->queries + (i - e->shots);
			sample[place] = e->sample[first + chosen[i]];
			label[place] = (int32_t)w;
		}
	}
}

void episodes_draw(const struct episodes *e, uint32_t step, uint32_t *sample, int32_t *label)
{
	uint32_t each = e->ways * each_of_class(e);
	for (uint32_t task = 0; task < e->tasks; task++) {
		struct draws draws = { e, step, task, 0 };
		draw_task(e, &draws, sample + task * each, label + task * each);
	}
}
