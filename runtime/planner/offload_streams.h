/*
 * offload_streams.h - schedules with copies to a host region and back, and how long they take on two streams.
 *
 * The joint problem is the caller's with two more ops for each value v, which cost no compute:
 *   - store v reads it. The copy starts as soon as the instance that it reads is made; the op stands where the copy has
 *     to be complete, so that it holds the instance live until then. Once for a value, of an instance that an op made.
 *   - fetch v makes an instance of it from nothing, after store v. The op stands where the copy starts; it has to be
 *     complete at the first read.
 * So a sequence of these ops says everything: schedule_expand and meter.h count its instances and bytes as they are.
 *
 * Time: ops run one after another on one stream, copies, in the order in which they are started, on another. A copy of
 * b bytes takes b / bandwidth; what of it is not hidden behind ops, an op or a store's end waits for.
 */
#ifndef TARN_PLANNER_OFFLOAD_STREAMS_H
#define TARN_PLANNER_OFFLOAD_STREAMS_H

#include "planner/meter.h"

/* Copies in flight at the same time. */
#define STREAM_SLOTS 64u

enum transfer_kind { TRANSFER_STORE, TRANSFER_STORE_WAIT, TRANSFER_FETCH, TRANSFER_FETCH_WAIT };

/* What happens beside the ops: before step `before` of the schedule, in the order of the list. */
struct transfer {
	uint32_t kind; /* enum transfer_kind */
	uint32_t before, value, slot;
};

struct streams {
	const struct problem *problem; /* the caller's */
	struct problem joint;
	struct meter meter;  /* of the joint problem */
	uint64_t *copy_ns;   /* [values] */
	uint64_t *waited_ns; /* [values]: what its copies made the ops wait */
	uint64_t time_ns, peak_bytes;
	/* State of a walk. */
	uint32_t *made_at; /* [values]: step that made the newest instance */
	uint32_t *started; /* [values]: step after which the store starts */
	uint64_t *end_ns;  /* [values]: when the copy in flight is complete */
	uint8_t *slot;     /* [values]: 1 + slot of the copy in flight, or 0 */
	uint8_t *stored;   /* [values] */
	uint8_t *ran;      /* [ops] */
	uint8_t *closed;   /* [ops]: an op that must come after all its runs has run */
};

/* `bandwidth`: bytes a second, positive. No schedule is longer than `capacity`. */
enum tarn_status streams_init(struct streams *streams, const struct problem *problem, uint64_t bandwidth,
			      uint32_t capacity, struct host_arena *arena);

static inline uint32_t store_op(const struct streams *k, uint32_t value)
{
	return k->problem->ops + value;
}

static inline uint32_t fetch_op(const struct streams *k, uint32_t value)
{
	return k->problem->ops + k->problem->values + value;
}

static inline bool is_run(const struct streams *k, uint32_t op)
{
	return op < k->problem->ops;
}

static inline bool is_fetch(const struct streams *k, uint32_t op)
{
	return op >= k->problem->ops + k->problem->values;
}

/* The value that a store or fetch copies. */
static inline uint32_t copied_value(const struct streams *k, uint32_t op)
{
	return op - k->problem->ops - (is_fetch(k, op) ? k->problem->values : 0);
}

/*
 * Fills time_ns, peak_bytes, waited_ns. False when the sequence is not legal, too long, fetches what nobody reads, or
 * has more than STREAM_SLOTS copies in flight (a store waits for a free slot, as long as its end allows).
 * `transfer` not NULL: room for four times the steps; receives the transfers.
 */
bool streams_measure(struct streams *streams, const uint32_t *step, uint32_t steps, struct transfer *transfer,
		     uint32_t *transfers);

#endif
