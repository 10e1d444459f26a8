/*
 * pack_exact.h - decides whether items fit below a ceiling, by exhaustive search.
 *
 * An item lies in a half-open range of sections (pack_problem.h) and needs `size` units at a multiple of `align`.
 * The search either finds offsets, proves that there are none, or stops when its nodes are spent. It does not look
 * at the clock. What it learned (failed states, troublesome sections) is kept from run to run of one search.
 */
#ifndef TARN_PLANNER_PACK_EXACT_H
#define TARN_PLANNER_PACK_EXACT_H

#include "planner/pack_problem.h"

enum pack_verdict {
	PACK_FOUND, /* offsets are written */
	PACK_NONE,  /* proved: there are none */
	PACK_UNKNOWN
};

struct pack_exact;

/*
 * Items and their number must stay as they are while the search is used. `states`: how many failed states are
 * remembered at most. NULL: no host memory.
 */
struct pack_exact *pack_exact_open(const struct pack_item *item, uint32_t items, uint32_t sections, uint32_t states,
				   struct host_arena *scratch);

/* Asked now and then: true ends a run as if its nodes were spent. */
void pack_exact_stop_when(struct pack_exact *search, bool (*stop)(void *context), void *context);

/*
 * Items must end at or below ceiling[s] in each section s and lie at or above base[s] (NULL: 0). `variant` chooses the
 * order in which alternatives are tried. *nodes: in, how many may be spent; out, how many were.
 */
enum pack_verdict pack_exact_run(struct pack_exact *search, const int64_t *base, const int64_t *ceiling,
				 uint32_t variant, uint64_t *nodes, int64_t *offset);

#endif
