/*
 * optimize.h - schedules with little memory and little recomputation, by sum of live bytes; addresses come later.
 *
 * Two questions are answered: the least peak that can be found, and the least time under a limit on the peak. Both
 * start from many replays of the order of first runs (replay.h), take needless runs out (polish.h) and improve the best
 * by a large-neighbourhood search (search.h). All limits are counts; the result is a function of the problem and the
 * limit.
 */
#ifndef TARN_PLANNER_OPTIMIZE_H
#define TARN_PLANNER_OPTIMIZE_H

#include "planner/chain.h"
#include "planner/dependence.h"
#include "planner/order.h"
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
	uint32_t *order[ORDERS]; /* [dependence.needed_ops] each; the first is that of keep_all */
	uint32_t orders;         /* how many of them differ */
	uint64_t bound;          /* no schedule has a lower peak: the largest step alone */
	bool any_forward;        /* the problem says which ops are forward */
	struct chain chain;
	struct host_arena *arena; /* for scratch that is given back */
	uint32_t max_steps;
	struct replay *replay[ORDERS];
	struct meter meter;
	struct polisher polisher;
	struct search *search;
	struct candidate trial, other; /* scratch */
	uint64_t replay_work;          /* steps replayed so far by the present question */
	uint32_t effort;               /* enum planner_effort */
};

/* `effort`: enum planner_effort. */
enum tarn_status optimizer_init(struct optimizer *optimizer, const struct problem *problem, uint32_t effort,
				struct host_arena *arena);
enum tarn_status candidate_init(struct candidate *candidate, const struct optimizer *optimizer,
				struct host_arena *arena);
void candidate_copy(struct candidate *to, const struct candidate *from);

/* Every needed op once, in the optimizer's order. */
void optimizer_keep_all(struct optimizer *optimizer, struct candidate *out);

/* A replay of one of the orders under the options; false, and *out untouched, when there is none. */
bool optimizer_replay(struct optimizer *optimizer, uint32_t order, const struct replay_options *options,
		      struct candidate *out);

/* Takes out runs of *c, whose peak is within the limit, that can be done without; false when it gets no faster. */
bool optimizer_polish(struct optimizer *optimizer, uint64_t limit, struct candidate *c);

/* Lowers the peak of *best, a schedule, by replays. */
void optimizer_least_peak(struct optimizer *optimizer, struct candidate *best);

/* Recomputes every forward value for each backward reader: the least memory on chains, at quadratic time. */
bool optimizer_forget_all(struct optimizer *optimizer, uint64_t limit, struct candidate *out);

/*
 * Replays for a faster schedule than *best with a peak of at most `limit`. `quick`: a few of them.
 */
void optimizer_least_time(struct optimizer *optimizer, uint64_t limit, bool quick, struct candidate *best);

/*
 * The best schedule of the dynamic programme over the problem's chain (chain_plan.h) with a peak of at most `limit`:
 * the fastest, or (least) the one with the least peak. False, and *out untouched, when the problem is no chain or
 * nothing fits. TARN_ENOMEM shows as nothing found.
 */
bool optimizer_chain(struct optimizer *optimizer, uint64_t limit, bool least, struct candidate *out);

/*
 * The search from *c, any schedule: less time with a peak within the limit. False, and *c untouched, when it ends above
 * the limit. Does one `share`-th of the usual rounds.
 */
bool optimizer_search(struct optimizer *optimizer, uint64_t limit, uint32_t share, uint64_t seed, struct candidate *c);

/* The same with all the work of the effort, or one `share`-th; ends early at a schedule as fast as `enough_time`.
 * `slow`: search.h. */
bool optimizer_search_long(struct optimizer *optimizer, uint64_t limit, uint32_t share, uint64_t seed,
			   uint64_t enough_time, bool slow, struct candidate *c);

#endif
