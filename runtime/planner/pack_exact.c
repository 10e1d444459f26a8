/*
 * pack_exact.c - exhaustive search for a packing below a ceiling.
 *
 * Every placement can be pushed down until each item rests on the base or on another item, so only such placements are
 * looked for. lowest[i] is a lower bound of the offset of an item that is not placed yet: the highest top among placed
 * items that live with it. floor[s] is the least of them in a section: what lies below is decided.
 *
 * A basin is a stretch of sections with one floor h and higher floors on both sides. Any item that covers section s of
 * a basin at h lies within the basin and rests on h everywhere. So for any such s there are exactly these cases: one of
 * the items of s with lowest[i] = h lies at h, or none does and h is a gap there. The search branches on the section
 * with the fewest cases; a section without room for a gap and with one item is no choice at all. In a gap each item of
 * s must rest on something higher than h, which raises its bound.
 *
 * A section fails when floor plus unplaced sizes pass its ceiling. Sections that no unplaced item joins are independent
 * problems: when one fails, decisions that did not touch it are not tried again. States that failed are remembered by
 * a hash of the unplaced items and their bounds.
 *
 * Sources: the pushed-down form and the test of sections are those of Moffitt, "MiniMalloc", ASPLOS 2023; filling the
 * lowest part of a skyline is from Burke, Kendall, Whitwell 2004; branching on the fewest cases is fail-first, Haralick
 * and Elliott 1980, with the weights of Boussemart et al. 2004.
 */
#include "planner/pack_state.h"

#include "base/hash_numbers.h"

#include <string.h>

/* An item is worth so many times more for each end it shares with the basin, and for a top level with the wall there.
 */
#define FLUSH_FACTOR 2.0
#define LEVEL_FACTOR 2.0
#define FRAMES_BETWEEN_STOPS 2048u
#define NOISE 0.3 /* added to a factor of 1 at random, so that runs differ */

/* ---- Choosing ---- */

static bool exact_may_lie(const struct pack_exact *x, uint32_t i, int64_t h)
{
	if (x->lowest[i] != h || x->blocked[i] == h)
		return false;
	return x->same_as[i] == i || exact_is_placed(x, x->same_as[i]);
}

struct choice {
	uint32_t section;
	uint64_t score; /* less is better */
};

/* Sections first to last have one floor and lie lower than both sides. */
static void exact_look_at_basin(const struct pack_exact *x, uint32_t first, uint32_t last, struct choice *best)
{
	for (uint32_t s = first; s < last; s++) {
		bool gap = x->floor[s] + x->total[s] < x->ceiling[s];
		uint64_t cases = x->supports[s] + gap;
		uint64_t score = cases == 1 ? 0
					    : ((cases << 20) +
					       (cases << 20) * (uint64_t)(x->ceiling[s] - x->floor[s] - x->total[s]) *
						       16 / (uint64_t)x->ceiling[s]) /
						      (1 + (x->weight[s]));
		if (score < best->score)
			*best = (struct choice){ s, score };
	}
}

static struct choice exact_choose_section(const struct pack_exact *x, uint32_t first, uint32_t last)
{
	struct choice best = { UINT32_MAX, UINT64_MAX };
	int64_t wall = NEVER;
	for (uint32_t s = first; s < last;) {
		uint32_t end = s + 1;
		while (end < last && x->floor[end] == x->floor[s])
			end++;
		int64_t right = end < last ? x->floor[end] : NEVER;
		if (x->floor[s] < wall && x->floor[s] < right)
			exact_look_at_basin(x, s, end, &best);
		wall = x->floor[s];
		s = end;
	}
	return best;
}

/* Of the component [first, last): of what is not placed there, and the bounds. */
static uint64_t exact_key(const struct pack_exact *x, uint32_t first, uint32_t last)
{
	uint64_t sum = x->salt + hash_bits(2, first);
	for (uint32_t s = first; s < last; s++)
		sum += x->key[s];
	return (sum ^ sum >> 29) * 0xBF58476D1CE4E5B9u | 1;
}

static bool exact_has_failed(const struct pack_exact *x, uint64_t key)
{
	uint64_t at = key >> 20 & x->state_mask;
	return x->state[at] == key || x->state[at ^ 1] == key;
}

static void exact_remember(struct pack_exact *x, uint64_t key)
{
	uint64_t at = key >> 20 & x->state_mask;
	if (exact_has_failed(x, key))
		return;
	if (x->state[at])
		x->state[at ^ 1] = x->state[at];
	x->state[at] = key;
}

/* The new frame's cases: items of the section that may lie on its floor, best first. */
static bool exact_list_choices(struct pack_exact *x, struct frame *f)
{
	uint32_t s = f->section, count = x->first_cover[s + 1] - x->first_cover[s];
	if (x->pool_length + count > x->pool_capacity &&
	    !exact_grow(x, (void **)&x->pool, &x->pool_capacity, x->pool_length + count, sizeof *x->pool))
		return false;
	uint32_t *list = x->pool + x->pool_length;
	uint32_t left = s, right = s + 1;
	while (left > f->first && x->floor[left - 1] == f->floor)
		left--;
	while (right < f->last && x->floor[right] == f->floor)
		right++;
	int64_t wall_left = left > f->first ? x->floor[left - 1] : NEVER;
	int64_t wall_right = right < f->last ? x->floor[right] : NEVER;
	double *score = x->score;
	f->next = x->pool_length;
	count = 0;
	bool pinned = false;
	for (uint32_t k = x->first_cover[s]; k < x->first_cover[s + 1] && !pinned; k++) {
		uint32_t i = x->cover[k];
		if (!exact_may_lie(x, i, f->floor))
			continue;
		if (x->item[i].pin == f->floor) {
			list[0] = i; /* it lies here and nowhere else */
			count = 1;
			pinned = true;
			break;
		}
		const struct pack_item *a = &x->item[i];
		int64_t top = f->floor + a->size;
		double mine = x->rank[i];
		if (a->lower == left)
			mine *= FLUSH_FACTOR;
		if (a->upper == right)
			mine *= FLUSH_FACTOR;
		if ((a->lower == left && top == wall_left) || (a->upper == right && top == wall_right))
			mine *= LEVEL_FACTOR;
		uint32_t at = count++;
		for (; at && score[at - 1] < mine; at--) {
			list[at] = list[at - 1];
			score[at] = score[at - 1];
		}
		list[at] = i;
		score[at] = mine;
	}
	f->gap = !pinned && f->floor + x->total[s] < x->ceiling[s];
	x->pool_length += count;
	f->choices = x->pool_length;
	return true;
}

/* The component of the section: neighbours are joined to it by unplaced items. */
static void exact_component(const struct pack_exact *x, uint32_t section, uint32_t *first, uint32_t *last)
{
	*first = section;
	*last = section + 1;
	while (*first > 0 && x->crossing[*first])
		--*first;
	while (*last < x->sections && x->crossing[*last])
		++*last;
}

enum step { STEP_DOWN, STEP_FAILED, STEP_DONE };

/* Opens a frame for the next decision. */
static enum step exact_open_frame(struct pack_exact *x)
{
	if (!x->left)
		return STEP_DONE;
	struct choice choice = { UINT32_MAX, UINT64_MAX };
	if (x->depth)
		choice = exact_choose_section(x, x->frame[x->depth - 1].first, x->frame[x->depth - 1].last);
	if (choice.section == UINT32_MAX)
		choice = exact_choose_section(x, 0, x->sections);
	if (x->depth == x->frames && !exact_grow(x, (void **)&x->frame, &x->frames, x->depth + 1, sizeof *x->frame))
		return STEP_FAILED;
	struct frame *f = &x->frame[x->depth];
	*f = (struct frame){ .section = choice.section, .undo = x->trail_length, .chosen = GAP };
	f->floor = x->floor[f->section];
	exact_component(x, f->section, &f->first, &f->last);
	f->key = exact_key(x, f->first, f->last);
	if (exact_has_failed(x, f->key)) {
		/* The frame fails before it tries anything: its component is what must change. */
		f->next = f->choices = x->pool_length;
		f->gap = false;
		x->depth++;
		return STEP_DOWN;
	}
	if (!exact_list_choices(x, f))
		return STEP_FAILED;
	x->depth++;
	return STEP_DOWN;
}

/* Puts the next case of the top frame in force; false when there is none left. */
static bool exact_try_next(struct pack_exact *x, uint64_t *nodes)
{
	struct frame *f = &x->frame[x->depth - 1];
	for (;;) {
		bool good;
		x->stamp++;
		if (f->next < f->choices) {
			f->chosen = x->pool[f->next++];
			good = exact_place(x, f->chosen);
		} else if (f->gap) {
			f->gap = false;
			f->chosen = GAP;
			good = exact_leave_gap(x, f->section, f->floor);
		} else {
			return false;
		}
		if (*nodes)
			--*nodes;
		if (good)
			return true;
		x->weight[x->fail_section]++;
		exact_undo(x, f->undo);
		if (f->chosen != GAP)
			exact_unplace(x, f->chosen);
		if (x->out_of_memory)
			return false;
	}
}

static void exact_close_frame(struct pack_exact *x)
{
	const struct frame *f = &x->frame[--x->depth];
	x->pool_length = f->choices;
	if (x->depth) {
		const struct frame *parent = &x->frame[x->depth - 1];
		x->pool_length = parent->choices;
	} else {
		x->pool_length = 0;
	}
}

/* Takes back what the top frame decided. */
static void exact_retract(struct pack_exact *x)
{
	const struct frame *f = &x->frame[x->depth - 1];
	exact_undo(x, f->undo);
	if (f->chosen != GAP)
		exact_unplace(x, f->chosen);
}

/* The top frame has no case left. Goes back to the last decision that touched its component; false: there is none. */
static bool exact_back(struct pack_exact *x)
{
	uint32_t first = x->frame[x->depth - 1].first, last = x->frame[x->depth - 1].last;
	exact_remember(x, x->frame[x->depth - 1].key);
	exact_close_frame(x);
	while (x->depth) {
		const struct frame *f = &x->frame[x->depth - 1];
		exact_retract(x);
		if (f->first < last && first < f->last)
			return true;
		exact_close_frame(x);
	}
	return false;
}

/* ---- Runs ---- */

/* Larger items first by one of three measures, blurred from the fourth variant on. */
static double exact_rank(const struct pack_exact *x, uint32_t i, uint32_t variant)
{
	double rank = pack_measure(&x->item[i], (enum pack_measure)(variant % PACK_MEASURES));
	if (variant >= PACK_MEASURES)
		rank *= 1.0 + NOISE * (double)(hash_bits(variant, i) >> 40) * 0x1p-24;
	return rank;
}

/* The state before any decision; false when a section fails at once. */
static bool exact_start(struct pack_exact *x, const int64_t *base, const int64_t *ceiling, uint32_t variant)
{
	x->depth = x->trail_length = x->pool_length = x->dirties = 0;
	x->left = x->items;
	x->variant = variant;
	x->stamp++;
	for (uint32_t s = 0; s < x->sections; s++) {
		x->ceiling[s] = ceiling[s];
		x->total[s] = 0;
		x->unplaced[s] = x->crossing[s] = 0;
		x->supports[s] = 0;
		x->floor[s] = NEVER;
		x->key[s] = 0;
	}
	x->salt = 1;
	for (uint32_t s = 0; s < x->sections; s++)
		x->salt = x->salt * 0x9E3779B97F4A7C15u + (uint64_t)ceiling[s] * 3 + (uint64_t)(base ? base[s] : 0);
	for (uint32_t i = 0; i < x->items; i++) {
		const struct pack_item *a = &x->item[i];
		int64_t low = 0;
		x->ceiling_of[i] = NEVER;
		for (uint32_t s = a->lower; s < a->upper; s++) {
			if (base && base[s] > low)
				low = base[s];
			if (ceiling[s] < x->ceiling_of[i])
				x->ceiling_of[i] = ceiling[s];
			x->total[s] += a->size;
			x->unplaced[s]++;
			x->crossing[s] += s > a->lower;
		}
		x->lowest[i] = a->pin != PACK_UNPINNED ? a->pin : exact_fit(x, i, low);
		x->blocked[i] = -1;
		x->key[a->lower] += exact_term(x, i);
		x->rank[i] = exact_rank(x, i, variant);
		if (x->lowest[i] < low || x->lowest[i] + a->size > x->ceiling_of[i])
			return false;
	}
	for (uint32_t s = 0; s < x->sections; s++)
		x->dirty[x->dirties++] = s;
	return exact_settle(x);
}

void pack_exact_stop_when(struct pack_exact *x, bool (*stop)(void *context), void *context)
{
	x->stop = stop;
	x->context = context;
}

enum pack_verdict pack_exact_run(struct pack_exact *x, const int64_t *base, const int64_t *ceiling, uint32_t variant,
				 uint64_t *nodes, int64_t *offset)
{
	uint64_t left = *nodes;
	enum pack_verdict verdict = PACK_UNKNOWN;
	if (!exact_start(x, base, ceiling, variant)) {
		*nodes = 0;
		return PACK_NONE;
	}
	for (uint32_t frames = 1; left && !x->out_of_memory; frames++) {
		if (frames % FRAMES_BETWEEN_STOPS == 0 && x->stop && x->stop(x->context))
			break;
		enum step step = exact_open_frame(x);
		if (step == STEP_DONE) {
			verdict = PACK_FOUND;
			memcpy(offset, x->offset, x->items * sizeof *offset);
			break;
		}
		if (step == STEP_FAILED)
			break;
		bool more = true;
		while (more && !x->out_of_memory && !exact_try_next(x, &left))
			more = exact_back(x);
		if (!more) {
			verdict = PACK_NONE;
			break;
		}
	}
	*nodes -= left;
	return verdict;
}
