/*
 * pack.c - the order of work: placements by rule, then search for what the caller asked.
 *
 * The height is asked for in steps: first at the lower bound (which is most often the answer), then between it and the
 * best height found, each with a limit of nodes that grows from round to round. Each refusal that is proved raises the
 * lower bound, each packing found lowers the height.
 */
#include "planner/pack.h"

#include "base/bytes.h"
#include "planner/pack_exact.h"
#include "planner/pack_greedy.h"
#include "planner/pack_reduce.h"

#include <inttypes.h>
#include <string.h>

/* Greedy placements take quadratic time. */
#define GREEDY_MOST 3000u
/* What placing an item costs, and the same for an item of a pass that ends before it is placed. */
#define PLACEMENT_COST 800u
#define PASSING_COST 100u
/* Items from which on passes with blame get a quarter of the work, and from which on three quarters. */
#define BLAMED_LEAST 500u
#define BLAMED_MANY 1500u
/* Fewer passes than this are not worth while. */
#define BLAMED_PASSES 100u
#define BLAME_FACTOR 1.3
#define BLAMES_FORGIVEN 200u
/* Pairs of items that live together, at most, for a search of the whole. */
#define EXACT_PAIRS ((uint64_t)12 << 20)
/*
 * The search is restarted often: with another order it mostly finds soon what it would miss for long. A question gets
 * several restarts of a few hundred nodes and one long one, for proofs; from round to round they grow. Failed states
 * are kept, so that little is done twice.
 */
#define FIRST_NODES 300u
#define RESTARTS 12u
#define RESTART_ROUNDS 3u /* before so many: 1, 2, 4 restarts, so that large problems are not stuck in one question */
#define LONG_FACTOR 8u
/* What one unit of the effort of pack_buffers is worth. */
#define EFFORT_NODES 5u
/* Joined items are worth a search of their own when they are at most so many eighths. */
#define REDUCED_PART 7u
#define REDUCED_MOST 20000u /* items; what is larger is not found in this way */
#define REDUCED_LOOSE 16u   /* and when at most one section in so many is not full */
/* Steps in which the height is lowered in a round: this part of the bound. */
#define STEPS 1024

struct packer {
	struct pack_problem problem;
	const struct pack_options *options;
	struct host_arena *scratch;
	struct pack_skyline *sky;      /* NULL with pinned items */
	int64_t *offset, *best_offset; /* [items] */
	int64_t height;                /* of the best; INT64_MAX: none yet */
	int64_t bound;                 /* proved: no height is lower */
	int64_t enough;                /* at or below this the work is done */
	uint64_t work;                 /* left, in thousandths of a node of a small problem: about nanoseconds */
	uint64_t all_work;             /* at the start */
	uint64_t nodes;
	bool stopped;
};

static bool packer_done(struct packer *k)
{
	if (!k->stopped && k->options->stop && k->options->stop(k->options->context))
		k->stopped = true;
	if (k->stopped || k->height <= k->enough || k->height <= k->bound)
		return true;
	return !k->options->minimise && k->bound > k->enough;
}

static void packer_keep(struct packer *k, int64_t height)
{
	if (height >= k->height)
		return;
	k->height = height;
	memcpy(k->best_offset, k->offset, k->problem.items * sizeof *k->offset);
}

/* ---- Placements by rule ---- */

static enum tarn_status packer_try_greedy(struct packer *k)
{
	struct pack_greedy *greedy = pack_greedy_open(&k->problem, k->scratch);
	if (!greedy)
		return TARN_ENOMEM;
	if (k->problem.pinned)
		packer_keep(k, pack_greedy_in_time(greedy, k->height, k->offset));
	for (uint32_t m = 0; m < 2 * PACK_MEASURES && k->problem.items <= GREEDY_MOST && !packer_done(k); m++)
		packer_keep(k, pack_greedy_by_measure(greedy, (enum pack_measure)(m / 2), m % 2, k->height, k->offset));
	return TARN_OK;
}

static const struct pack_rule rules[] = {
	{ PACK_BY_AREA, 1000, 1000, 0, 0 }, { PACK_BY_LIFE, 1.5, 1.5, 0, 0 },   { PACK_BY_LIFE, 4, 4, 0, 0 },
	{ PACK_BY_AREA, 1, 1, 0, 0 },       { PACK_BY_LIFE, 1, 1, 0, 0 },       { PACK_BY_AREA, 4, 4, 0, 0 },
	{ PACK_BY_LIFE, 1000, 1000, 0, 0 }, { PACK_BY_SIZE, 1000, 1000, 0, 0 },
};
#define RULES (sizeof rules / sizeof *rules)
/* The first so many are tried with this many items. */
#define RULES_MANY 5u
#define MANY_ITEMS 50000u

static void packer_run_rule(struct packer *k, const struct pack_rule *rule)
{
	packer_keep(k, pack_skyline_run(k->sky, rule, k->height, k->offset));
}

/*
 * For many items, where a run of the search costs more than a hundred passes: a rule blurred at random, which in each
 * pass prefers more what could not be placed below the best height in those before.
 */
static void packer_try_blamed(struct packer *k)
{
	struct pack_rule rule = { PACK_BY_AREA, 4, 4, 0.1, 0 };
	uint64_t saved = k->problem.items < BLAMED_MANY ? k->work / 4 * 3 : k->work / 4;
	uint32_t blames = 0;
	if (!k->sky || k->problem.items < BLAMED_LEAST ||
	    k->work / ((uint64_t)k->problem.items * PLACEMENT_COST) < BLAMED_PASSES)
		return;
	while (k->work > saved && !packer_done(k)) {
		int64_t height = k->height;
		rule.seed++;
		packer_run_rule(k, &rule);
		uint64_t cost = (uint64_t)pack_skyline_placed(k->sky) * PLACEMENT_COST +
				(uint64_t)k->problem.items * PASSING_COST;
		k->work -= cost < k->work ? cost : k->work;
		if (k->height < height) {
			blames = 0;
			continue;
		}
		pack_skyline_blame(k->sky, BLAME_FACTOR);
		if (++blames % BLAMES_FORGIVEN == 0)
			pack_skyline_forgive(k->sky);
	}
}

static enum tarn_status packer_try_rules(struct packer *k)
{
	if (!k->problem.pinned) {
		k->sky = pack_skyline_open(&k->problem, k->scratch);
		if (!k->sky)
			return TARN_ENOMEM;
	}
	uint32_t count = k->problem.items < MANY_ITEMS ? RULES : RULES_MANY;
	for (uint32_t r = 0; k->sky && r < count && !packer_done(k); r++)
		packer_run_rule(k, &rules[r]);
	/* The caller gets a packing even when it is known to be too high, or was stopped. */
	if (k->height == INT64_MAX && k->sky)
		packer_run_rule(k, &rules[0]);
	return k->problem.pinned || !packer_done(k) ? packer_try_greedy(k) : TARN_OK;
}

/* ---- Search of the whole ---- */

static uint64_t count_pairs(const struct pack_item *item, uint32_t items, uint32_t sections, struct host_arena *scratch)
{
	/* Counted at the one of a pair that begins first; items that begin together count twice, which is near enough.
	 */
	struct host_mark mark = host_arena_mark(scratch);
	uint32_t *starts = HOST_ARRAY(scratch, (size_t)sections + 1, uint32_t), pairs_known = starts != NULL;
	uint64_t pairs = UINT64_MAX;
	if (pairs_known) {
		pairs = 0;
		for (uint32_t i = 0; i < items; i++)
			starts[item[i].lower + 1]++;
		for (uint32_t s = 0; s < sections; s++)
			starts[s + 1] += starts[s];
		for (uint32_t i = 0; i < items; i++)
			pairs += starts[item[i].upper] - (uint64_t)starts[item[i].lower];
	}
	host_arena_release(scratch, mark);
	return pairs;
}

struct whole {
	struct pack_exact *search;
	int64_t *ceiling;
	uint64_t node_cost; /* thousandths */
	uint32_t variant, round;
};

/* A search of these items; w->search stays NULL when they are too many. */
static enum tarn_status whole_init(struct packer *k, struct whole *w, const struct pack_item *item, uint32_t items)
{
	uint64_t pairs = count_pairs(item, items, k->problem.sections, k->scratch), cells = 0, states = k->work / 1000;
	for (uint32_t i = 0; i < items; i++)
		cells += item[i].upper - item[i].lower;
	/*
	 * A node looks at the sections of each item that lives with the one it places, in large problems from afar, and
	 * at all sections that may be next.
	 */
	uint64_t looks = (pairs + items) / items * (cells / items);
	*w = (struct whole){ .node_cost =
				     300 + looks + looks * (items < 2000 ? items : 2000) / 2500 + k->problem.sections };
	/* Placing each item once takes as many nodes. */
	if (pairs > EXACT_PAIRS || (items > BLAMED_LEAST && k->work / w->node_cost < items))
		return TARN_OK;
	w->search = pack_exact_open(item, items, k->problem.sections, states < 1u << 19 ? (uint32_t)states : 1u << 19,
				    k->scratch);
	w->ceiling = HOST_ARRAY(k->scratch, k->problem.sections, int64_t);
	if (!w->search || !w->ceiling)
		return TARN_ENOMEM;
	pack_exact_stop_when(w->search, k->options->stop, k->options->context);
	return TARN_OK;
}

static int64_t packer_height_of(const struct packer *k, const int64_t *offset)
{
	int64_t height = 0;
	for (uint32_t i = 0; i < k->problem.items; i++)
		if (offset[i] + k->problem.item[i].size > height)
			height = offset[i] + k->problem.item[i].size;
	return height;
}

static void packer_spend(struct packer *k, const struct whole *w, uint64_t nodes)
{
	uint64_t cost = (nodes + 1) * w->node_cost;
	k->nodes += nodes;
	k->work -= cost < k->work ? cost : k->work;
}

/* Asks for a height of at most `target`. */
static enum pack_verdict packer_ask(struct packer *k, struct whole *w, int64_t target, uint64_t limit)
{
	uint64_t affordable = k->work / w->node_cost, nodes = limit < affordable ? limit : affordable;
	for (uint32_t s = 0; s < k->problem.sections; s++)
		w->ceiling[s] = target;
	enum pack_verdict verdict = pack_exact_run(w->search, NULL, w->ceiling, w->variant, &nodes, k->offset);
	packer_spend(k, w, nodes);
	if (verdict == PACK_FOUND)
		packer_keep(k, packer_height_of(k, k->offset));
	else if (verdict == PACK_NONE && target >= k->bound)
		k->bound = target + 1;
	return verdict;
}

/* Asks with several orders, until there is an answer. */
static enum pack_verdict packer_ask_often(struct packer *k, struct whole *w, int64_t target, uint64_t limit)
{
	enum pack_verdict verdict = PACK_UNKNOWN;
	uint32_t restarts = w->round < RESTART_ROUNDS ? 1u << w->round : RESTARTS;
	for (uint32_t r = 0; r <= restarts && verdict == PACK_UNKNOWN; r++) {
		if (k->work < w->node_cost || packer_done(k) || (r == restarts && restarts < RESTARTS))
			break;
		verdict = packer_ask(k, w, target, r < restarts ? limit : limit * LONG_FACTOR);
		w->variant++;
	}
	return verdict;
}

/*
 * One round: the capacity; or the least height possible, then halfway between what was refused or not answered in this
 * round and the best height. A goal only ends it: whoever asks again with the height that was found as a goal must get
 * there on the same way.
 */
static void packer_ask_round(struct packer *k, struct whole *w, uint64_t limit)
{
	int64_t least = k->options->minimise ? k->bound : k->enough;
	packer_ask_often(k, w, least, limit);
	if (!k->options->minimise)
		return;
	int64_t step = k->bound / STEPS + 1;
	for (int64_t refused = least; !packer_done(k) && k->work >= w->node_cost && refused < k->height - 1;) {
		int64_t target = k->height - refused > 2 * step ? refused + (k->height - refused) / 2 : k->height - 1;
		if (packer_ask_often(k, w, target, limit) != PACK_FOUND)
			refused = target;
	}
}

/* The smaller problem of joined items at the least height, when many sections are full at it. */
static enum tarn_status packer_search_reduced(struct packer *k)
{
	struct pack_reduction reduction;
	struct whole w;
	int64_t target = k->bound;
	if (k->problem.items > REDUCED_MOST || k->problem.pinned || k->problem.aligned || target != k->problem.most ||
	    (!k->options->minimise && target < k->enough))
		return TARN_OK;
	uint32_t full = 0;
	for (uint32_t s = 0; s < k->problem.sections; s++)
		full += k->problem.load[s] == target;
	if (k->problem.sections - full > k->problem.sections / REDUCED_LOOSE)
		return TARN_OK;
	enum tarn_status st = pack_reduce(&k->problem, target, k->scratch, &reduction);
	if (st || reduction.items * 8 > k->problem.items * REDUCED_PART)
		return st;
	st = whole_init(k, &w, reduction.item, reduction.items);
	if (st || !w.search)
		return st;
	int64_t *offset = HOST_ARRAY(k->scratch, reduction.items, int64_t);
	if (!offset)
		return TARN_ENOMEM;
	for (uint32_t s = 0; s < k->problem.sections; s++)
		w.ceiling[s] = target;
	uint64_t limit = FIRST_NODES + reduction.items;
	for (uint64_t saved = k->work / 2; k->work > saved && !packer_done(k); w.variant++, limit += limit / 2) {
		uint64_t nodes =
			limit < (k->work - saved) / w.node_cost + 1 ? limit : (k->work - saved) / w.node_cost + 1;
		enum pack_verdict verdict = pack_exact_run(w.search, NULL, w.ceiling, w.variant, &nodes, offset);
		packer_spend(k, &w, nodes);
		if (verdict == PACK_NONE)
			break; /* of the joined items, which proves nothing for the others */
		if (verdict != PACK_FOUND)
			continue;
		for (uint32_t i = 0; i < k->problem.items; i++)
			k->offset[i] = offset[reduction.joined[i]] + reduction.rise[i];
		packer_keep(k, target);
	}
	return TARN_OK;
}

static enum tarn_status packer_search_whole(struct packer *k)
{
	struct whole w;
	enum tarn_status st = whole_init(k, &w, k->problem.item, k->problem.items);
	if (st || !w.search)
		return st;
	for (uint64_t limit = FIRST_NODES + k->problem.items; k->work >= w.node_cost && !packer_done(k);
	     limit += limit / 8, w.round++)
		packer_ask_round(k, &w, limit);
	/* A goal that was not met on the way is asked for by itself, with half as much work again. */
	if (k->options->minimise && k->enough > k->bound && k->height > k->enough)
		k->work = k->all_work / 2;
	for (uint64_t limit = FIRST_NODES + k->problem.items; k->work >= w.node_cost && !packer_done(k);
	     limit += limit / 8)
		packer_ask_often(k, &w, k->enough, limit);
	return TARN_OK;
}

/* ---- Entry ---- */

static enum tarn_status packer_init(struct packer *k, const struct pack_buffer *buffer, uint32_t n,
				    const struct pack_options *options, struct host_arena *scratch)
{
	*k = (struct packer){ .options = options, .scratch = scratch, .height = INT64_MAX };
	enum tarn_status st = pack_problem_init(&k->problem, buffer, n, options->name, scratch);
	if (st)
		return st;
	k->offset = HOST_ARRAY(scratch, k->problem.items, int64_t);
	k->best_offset = HOST_ARRAY(scratch, k->problem.items, int64_t);
	if (!k->offset || !k->best_offset)
		return TARN_ENOMEM;
	k->bound = k->problem.most;
	for (uint32_t i = 0; i < k->problem.items; i++) {
		const struct pack_item *a = &k->problem.item[i];
		if (a->pin != PACK_UNPINNED && a->pin + a->size > k->bound)
			k->bound = a->pin + a->size;
	}
	uint64_t enough = (options->minimise ? options->goal : options->capacity) / k->problem.unit;
	k->enough = enough < INT64_MAX / 4 ? (int64_t)enough : INT64_MAX / 4;
	k->work = options->effort < UINT64_MAX / 1000 ? options->effort * 1000 : UINT64_MAX;
	k->all_work = k->work;
	return TARN_OK;
}

static void packer_report(const struct packer *k, const struct pack_buffer *buffer, uint32_t n, uint64_t *offset,
			  struct pack_result *result)
{
	const struct pack_problem *p = &k->problem;
	for (uint32_t i = 0; i < n; i++)
		offset[i] = buffer[i].pinned == PACK_ANYWHERE ? 0 : buffer[i].pinned;
	for (uint32_t i = 0; i < p->items; i++)
		offset[p->original[i]] = (uint64_t)k->best_offset[i] * p->unit;
	*result = (struct pack_result){
		.height = (uint64_t)k->height * p->unit,
		.load = (uint64_t)p->most * p->unit,
		.lower_bound = (uint64_t)k->bound * p->unit,
		.nodes = k->nodes,
	};
	/* A section's last starter begins when all of it is live. */
	for (uint32_t i = 0; i < p->items; i++)
		if (p->item[i].lower <= p->fullest && p->item[i].upper > p->fullest &&
		    buffer[p->original[i]].first > result->fullest)
			result->fullest = buffer[p->original[i]].first;
	result->optimal = result->height == result->lower_bound;
	uint64_t capacity = k->options->capacity;
	result->outcome = result->height <= capacity       ? PACK_FITS
			  : result->lower_bound > capacity ? PACK_INFEASIBLE
							   : PACK_UNDECIDED;
}

static enum tarn_status check_pins(const struct packer *k)
{
	const struct pack_problem *p = &k->problem;
	char one[PACK_NAME], other[PACK_NAME];
	if (!p->pinned)
		return TARN_OK;
	for (uint32_t i = 0; i < p->items; i++)
		for (uint32_t j = 0; j < i; j++) {
			const struct pack_item *a = &p->item[i], *b = &p->item[j];
			if (a->pin == PACK_UNPINNED || b->pin == PACK_UNPINNED || b->upper <= a->lower ||
			    a->pin >= b->pin + b->size || b->pin >= a->pin + a->size)
				continue;
			return tarn_fail(TARN_EINVAL, "buffers %s and %s are pinned to the same bytes while both live",
					 pack_name(k->options->name, p->original[j], one),
					 pack_name(k->options->name, p->original[i], other));
		}
	return TARN_OK;
}

enum tarn_status pack_solve(const struct pack_buffer *buffer, uint32_t n, const struct pack_options *options,
			    struct host_arena *scratch, uint64_t *offset, struct pack_result *result)
{
	struct host_mark mark = host_arena_mark(scratch);
	struct packer k;
	enum tarn_status st = packer_init(&k, buffer, n, options, scratch);
	if (!st)
		st = check_pins(&k);
	if (st)
		goto out;
	if (!k.problem.items)
		k.height = k.bound = 0;
	else
		st = packer_try_rules(&k);
	if (!st && !packer_done(&k) && k.work)
		st = packer_search_reduced(&k);
	if (!st && !packer_done(&k) && k.work)
		packer_try_blamed(&k);
	if (!st && !packer_done(&k) && k.work)
		st = packer_search_whole(&k);
	if (!st)
		packer_report(&k, buffer, n, offset, result);
out:
	host_arena_release(scratch, mark);
	return st;
}

enum tarn_status pack_buffers(const struct buffer *buffer, uint32_t n, uint64_t goal, uint32_t effort,
			      struct host_arena *scratch, uint64_t *offset, uint64_t *height, uint64_t *load)
{
	struct host_mark mark = host_arena_mark(scratch);
	struct pack_buffer *same = HOST_ARRAY(scratch, n, struct pack_buffer);
	struct pack_options options = { .capacity = goal, .minimise = true, .goal = goal };
	struct pack_result result;
	options.effort = (uint64_t)effort * EFFORT_NODES;
	enum tarn_status st = same ? TARN_OK : TARN_ENOMEM;
	for (uint32_t i = 0; i < n && same; i++)
		same[i] = (struct pack_buffer){ .bytes = buffer[i].bytes,
						.first = buffer[i].first,
						.last = buffer[i].last,
						.align = TARN_ALIGNMENT,
						.pinned = PACK_ANYWHERE };
	if (!st)
		st = pack_solve(same, n, &options, scratch, offset, &result);
	if (!st) {
		*height = result.height;
		*load = result.load;
	}
	host_arena_release(scratch, mark);
	return st;
}

enum tarn_status pack_check(const struct buffer *buffer, uint32_t n, const uint64_t *offset, uint64_t height)
{
	for (uint32_t a = 0; a < n; a++) {
		if (offset[a] % TARN_ALIGNMENT)
			return tarn_fail(TARN_EINTERNAL, "buffer %u: offset %" PRIu64 " is no multiple of %" PRIu64, a,
					 offset[a], TARN_ALIGNMENT);
		if (offset[a] > height || buffer[a].bytes > height - offset[a])
			return tarn_fail(TARN_EINTERNAL,
					 "buffer %u: %" PRIu64 " bytes at %" PRIu64 " end above the height %" PRIu64, a,
					 buffer[a].bytes, offset[a], height);
		for (uint32_t b = 0; b < a; b++) {
			bool same_time = buffer[a].first < buffer[b].last && buffer[b].first < buffer[a].last;
			bool same_bytes =
				offset[a] < offset[b] + buffer[b].bytes && offset[b] < offset[a] + buffer[a].bytes;
			if (same_time && same_bytes)
				return tarn_fail(TARN_EINTERNAL, "buffers %u and %u share a byte while both live", b,
						 a);
		}
	}
	return TARN_OK;
}
