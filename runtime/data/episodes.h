/*
 * episodes.h - tasks for learning to learn, drawn from samples with labels.
 *
 * A task has `ways` of the classes [first_class, first_class + classes), in a drawn order, and of each `shots` +
 * `queries` different samples. What is drawn is a pure function of (seed, split, step). The samples of a step come task
 * by task: those to learn from, class by class, then the queries, class by class; a sample's label is the place of its
 * class in the task.
 */
#ifndef TARN_DATA_EPISODES_H
#define TARN_DATA_EPISODES_H

#include "data/dataset.h"

struct episodes {
	uint32_t ways, shots, queries, tasks;
	uint64_t seed;
	uint32_t split;    /* enum data_split: draws of one do not repeat in the other */
	uint32_t *sample;  /* ordered by class */
	uint32_t *class;   /* those with enough samples: first place in sample[] and how many, in pairs */
	uint32_t *drawn;   /* scratch of a draw */
	uint32_t eligible; /* classes */
};

/*
 * Sorts the samples by class; memory comes from `arena`. TARN_EDATA when fewer than `ways` classes have shots + queries
 * samples: says how many have, and how many samples the smallest of them.
 */
enum tarn_status episodes_open(const struct config *config, const struct dataset *dataset, enum data_split split,
			       struct host_arena *arena, struct episodes *episodes);

/* Samples in a step. */
uint32_t episodes_samples(const struct episodes *episodes);
/* Numbers of the samples of step `step`, and their labels. */
void episodes_draw(const struct episodes *episodes, uint32_t step, uint32_t *sample, int32_t *label);

#endif
