/* given.c - see given.h. */
#include "data/given.h"

#include "data/made.h"

static const struct given_samples *given(const struct config *config, enum data_split split)
{
	return split == SPLIT_TRAIN ? config->data.given : config->data.given_test;
}

enum tarn_status given_describe(const struct config *config, enum data_split split, uint32_t *samples,
				struct sample_shape *shape)
{
	const struct given_samples *from = given(config, split);
	const bool any = config->data.given || config->data.given_test;
	*samples = split == SPLIT_TRAIN ? config->data.samples : config->data.test_samples;
	if (any)
		*samples = from ? from->samples : 0;
	if (!*samples && split == SPLIT_TRAIN)
		return tarn_fail(TARN_EINVAL,
				 "data.type: memory needs samples from the program (struct tarn_options), or to plan "
				 "without them their number, data.samples");
	return made_shape(config, "data.type: memory", shape);
}

static enum tarn_status check_labels(const struct dataset *dataset, enum data_split split)
{
	const uint64_t count = dataset->samples * dataset->target_elements;
	const int32_t ignored = dataset->config->network.ignore_index;
	for (uint64_t i = 0; i < count; i++) {
		const int32_t label = dataset->labels[i];
		if ((label < 0 || (uint32_t)label >= dataset->shape.classes) && (ignored < 0 || label != ignored))
			return tarn_fail(TARN_EDATA, "data.type: memory: %s label %llu is %d; it must be 0 to %u",
					 split == SPLIT_TRAIN ? "training" : "test", (unsigned long long)i, label,
					 dataset->shape.classes - 1);
	}
	return TARN_OK;
}

enum tarn_status given_fill(struct dataset *dataset, enum data_split split)
{
	const struct config *config = dataset->config;
	const struct given_samples *from = given(config, split);
	const bool labels = config->network.loss == LOSS_CROSS_ENTROPY, own = config->network.target == TARGET_INPUT;
	if (!from || !from->inputs)
		return tarn_fail(TARN_EDATA, "data.type: memory: the program handed over no %s samples",
				 split == SPLIT_TRAIN ? "training" : "test");
	if (from->bytes)
		dataset->bytes = from->inputs;
	else
		dataset->values = from->inputs;
	if (own)
		return TARN_OK;
	if (!from->targets)
		return tarn_fail(TARN_EDATA, "data.type: memory: the samples have no %s",
				 labels ? "labels" : "targets");
	if (!labels) {
		dataset->targets = from->targets;
		return TARN_OK;
	}
	dataset->labels = from->targets;
	return check_labels(dataset, split);
}
