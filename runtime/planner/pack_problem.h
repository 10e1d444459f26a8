/*
 * pack_problem.h - a packing as the solvers see it: items over sections, in units.
 *
 * Sections are the largest sets of buffers that live together, in the order of time: two buffers live together exactly
 * when they share a section. A unit is the greatest common divisor of all sizes, alignments and pinned offsets.
 * Items are in canonical order, so that nothing depends on the order of the input.
 */
#ifndef TARN_PLANNER_PACK_PROBLEM_H
#define TARN_PLANNER_PACK_PROBLEM_H

#include "planner/pack.h"

#define PACK_UNPINNED INT64_MIN

struct pack_item {
	int64_t size;          /* units, at least 1 */
	int64_t align;         /* units, at least 1 */
	int64_t pin;           /* units; PACK_UNPINNED */
	uint32_t lower, upper; /* half-open, in sections */
};

struct pack_problem {
	struct pack_item *item; /* by lower, upper, size, align, pin */
	uint32_t *original;     /* [items]: index in the caller's array */
	uint32_t items, sections;
	uint32_t pinned;  /* number of items that are */
	uint64_t unit;    /* bytes */
	bool aligned;     /* some item has an alignment of more than one unit */
	int64_t *load;    /* [sections]: units */
	int64_t most;     /* the largest load */
	uint32_t fullest; /* the first section that has it */
};

/* Buffers of no bytes are left out. TARN_EINVAL names a bad buffer; `name`: pack_options. */
enum tarn_status pack_problem_init(struct pack_problem *problem, const struct pack_buffer *buffer, uint32_t n,
				   const char *const *name, struct host_arena *arena);

/* What a message calls buffer i. */
#define PACK_NAME 80u
const char *pack_name(const char *const *name, uint32_t i, char text[PACK_NAME]);

/* What makes an item one to place early. */
enum pack_measure { PACK_BY_SIZE, PACK_BY_LIFE, PACK_BY_AREA, PACK_MEASURES };

static inline double pack_measure(const struct pack_item *item, enum pack_measure measure)
{
	double life = item->upper - item->lower, size = (double)item->size;
	return measure == PACK_BY_SIZE ? size : measure == PACK_BY_LIFE ? life : life * size;
}

/* A multiple of `align` at or above `value`. */
static inline int64_t pack_align(int64_t value, int64_t align)
{
	return align == 1 ? value : (value + align - 1) / align * align;
}

#endif
