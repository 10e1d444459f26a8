/*
 * offload_cover.h - which tensors leave the arena between two uses, so that a schedule without copies fits a limit.
 *
 * A gap is the time between two successive uses of an instance, its making included. To close it, the tensor is stored
 * once, at its first closed gap, and fetched at the end of each; its bytes are free from the end of the store to the
 * start of the fetch. Ops hide both when the store may take as long as the copy does and the fetch starts as long
 * before its reader; each side of the gap can be exposed instead, which frees bytes for longer and makes ops wait.
 *
 * As long as a step is above the limit, the gap over the fullest such step is closed, or one of its sides exposed, that
 * has most of
 *     bytes saved * steps above the limit / (time of the copies that is exposed + price * time of the copies),
 * where the price stands for the load of the stream, and for what earlier schedules waited. Gaps that others made
 * needless are opened again.
 */
#ifndef TARN_PLANNER_OFFLOAD_COVER_H
#define TARN_PLANNER_OFFLOAD_COVER_H

#include "planner/offload_streams.h"
#include "planner/schedule.h"

struct gap {
	uint32_t first, last;            /* steps of the uses */
	uint32_t hidden_from, hidden_to; /* [from, to) with hidden copies; empty when the gap is too short */
	uint32_t from, to;               /* closed: its bytes are free in [from, to); open: both 0 */
	uint32_t value;
	uint32_t next_store, next_fetch; /* gap with a copy before the same step */
};

struct cover {
	const struct streams *streams;
	const uint32_t *step; /* borrowed: the schedule */
	uint32_t steps;
	struct gap *gap; /* in the order of their ends */
	uint32_t gaps;
	struct gap **closed;                   /* [gaps] */
	uint64_t *all_bytes;                   /* [steps]: live with every gap open */
	uint64_t *live_bytes;                  /* [steps]: live with those gaps closed that are */
	uint64_t *begin_ns;                    /* [steps + 1]: when the step begins without copies */
	uint32_t *above;                       /* [steps + 1]: so many steps before this one are above the limit */
	uint32_t *store_before, *fetch_before; /* [steps + 1]: gap whose store ends, whose fetch starts there */
	uint32_t *stored_at;  /* [values]: first use before a closed gap; UINT32_MAX: the value is not stored */
	uint64_t *waited_ns;  /* [values]: what schedules so far waited for its copies; the caller adds */
	uint64_t least_limit; /* closing every gap meets this, and nothing lower */
};

/* The schedule is legal and has no copies. TARN_ENOMEM. */
enum tarn_status cover_init(struct cover *cover, const struct streams *streams, const uint32_t *step, uint32_t steps,
			    struct host_arena *arena);

/*
 * Writes the schedule with copies to out[]. False when the limit cannot be met, or not with `host_limit` bytes of
 * stored tensors.
 */
bool cover_find(struct cover *cover, uint64_t limit, uint64_t host_limit, double price, uint32_t *out,
		uint32_t *out_steps);

/* The schedule with every gap closed and every copy exposed: each step holds what it uses. */
void cover_all(struct cover *cover, uint32_t *out, uint32_t *out_steps);

#endif
