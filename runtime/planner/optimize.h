/*
 * optimize.h - schedules with little memory and little recomputation, by sum of live bytes; addresses come later.
 *
 * Two questions are answered: the least peak that can be found, and the least time under a limit on the peak. Both start
 * from many replays of the order of first runs (replay.h), take needless runs out (polish.h) and improve the
 * best by a large-neighbourhood search (search.h). All limits are counts; the result is a function of the problem and the limit.
 */
#ifndef TARN_PLANNER_OPTIMIZE_H
#define TARN_PLANNER_OPTIMIZE_H

#include "planner/dependence.h"
#include "planner/replay.h"
#include "planner/polish.h"

struct candidate {
	uint32_t *step; /* room for optimizer.max_steps */
	uint32_t steps; /* 0: no schedule */
	uint64_t peak_bytes, time_ns;
};

struct optimizer {
	const struct problem *problem;
	struct dependence dependence;
	uint32_t *order;       /* [dependence.needed_ops] */
	uint64_t bound;        /* no schedule has a lower peak: the largest step alone */
	bool any_forward;      /* the problem says which ops are forward */
	uint32_t max_steps;
	struct replay *replay;
	struct meter meter;
	struct polisher polisher;
	struct search *search;
	struct candidate trial, other; /* scratch */
	uint64_t replay_work;  /* steps replayed so far by the present question */
};

enum tarn_status optimizer_init(struct optimizer *optimizer, const struct problem *problem, struct host_arena *arena);
enum tarn_status candidate_init(struct candidate *candidate, const struct optimizer *optimizer, struct host_arena *arena);
void candidate_copy(struct candidate *to, const struct candidate *from);

/* Every needed op once, in the optimizer's order. */
void optimizer_keep_all(struct optimizer *optimizer, struct candidate *out);

/* A replay under the options; false, and *out untouched, when there is none. */
bool optimizer_replay(struct optimizer *optimizer, const struct replay_options *options, struct candidate *out);

/* Lowers the peak of *best, a schedule, as far as it can. */
void optimizer_least_peak(struct optimizer *optimizer, struct candidate *best);

/*
 * Finds a faster schedule than *best with a peak of at most `limit`; *best, a schedule within the limit, is a start.
 * `quick`: a few replays, no search.
 */
void optimizer_least_time(struct optimizer *optimizer, uint64_t limit, bool quick, struct candidate *best);

#endif
