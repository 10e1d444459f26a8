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
#include "planner/pack_exact.h"

#include "base/hash_numbers.h"
#include "planner/random.h"

#include <string.h>

#define NEVER (INT64_MAX / 4) /* floor of a section whose items are all placed */
#define GAP UINT32_MAX
#define FRAMES_BETWEEN_STOPS 2048u
#define NOISE 0.3 /* added to a factor of 1 at random, so that runs differ */

struct undo {
	int64_t value;
	uint32_t index, count; /* count: of supports, for sections; for items one of the two below */
};
#define UNDO_LOWEST UINT32_MAX
#define UNDO_BLOCKED (UINT32_MAX - 1)

struct frame {
	uint32_t first, last; /* sections of the component it decides in */
	uint32_t section;
	uint32_t choices, next, chosen; /* in the pool; chosen: item or GAP, what is in force */
	uint32_t undo;                  /* length of the trail before the choice */
	bool gap;
	int64_t floor;
	uint64_t key;
};

struct pack_exact {
	const struct pack_item *item;
	uint32_t items, sections;
	uint32_t *cover, *first_cover;         /* items of each section */
	uint32_t *neighbour, *first_neighbour; /* items that live with each item */
	uint32_t *same_as;                     /* [items]: the item before it that is alike in everything; or itself */
	uint32_t *twin;                        /* [items]: chain of items with the same range, circular */
	int64_t *ceiling_of;                   /* [items] */
	double *rank;                          /* [items]: larger ones are tried first */
	uint32_t *weight;                      /* [sections]: failures seen */
	bool mixed_alignment, pins;

	/* State */
	int64_t *lowest;                  /* [items]; NEVER once it is placed */
	int64_t *blocked;                 /* [items]: offset at which a twin forbids it */
	int64_t *offset;                  /* [items]: of the placed ones */
	uint64_t *factor;                 /* [items]: of its bound in the key of a state */
	uint64_t *key;                    /* [sections]: sum over the unplaced items that begin there */
	int64_t *floor, *total, *ceiling; /* [sections] */
	uint32_t *supports;               /* [sections]: unplaced items whose bound is the floor */
	uint32_t *unplaced;               /* [sections] */
	uint32_t *crossing;               /* [sections]: unplaced items in this section and the one before */
	uint32_t *saved;                  /* [sections]: node that last saved it */
	uint32_t *dirty;
	uint32_t dirties, left, stamp;
	uint32_t fail_section;

	struct undo *trail;
	uint32_t trail_length, trail_capacity;
	struct frame *frame;
	uint32_t depth, frames;
	uint32_t *pool;
	uint32_t pool_length, pool_capacity;
	uint64_t *state;
	uint64_t state_mask, salt; /* salt: of the ceiling and base asked for */
	struct host_arena *scratch;
	uint32_t variant;
	bool out_of_memory;
	bool (*stop)(void *context);
	void *context;
};

/* ---- Setting up ---- */

static bool exact_index_sections(struct pack_exact *x)
{
	x->first_cover = HOST_ARRAY(x->scratch, (size_t)x->sections + 1, uint32_t);
	if (!x->first_cover)
		return false;
	for (uint32_t i = 0; i < x->items; i++)
		for (uint32_t s = x->item[i].lower; s < x->item[i].upper; s++)
			x->first_cover[s + 1]++;
	for (uint32_t s = 0; s < x->sections; s++)
		x->first_cover[s + 1] += x->first_cover[s];
	x->cover = HOST_ARRAY(x->scratch, x->first_cover[x->sections], uint32_t);
	uint32_t *end = HOST_ARRAY(x->scratch, x->sections, uint32_t);
	if (!x->cover || !end)
		return false;
	memcpy(end, x->first_cover, x->sections * sizeof *end);
	for (uint32_t i = 0; i < x->items; i++)
		for (uint32_t s = x->item[i].lower; s < x->item[i].upper; s++)
			x->cover[end[s]++] = i;
	return true;
}

static bool exact_live_together(const struct pack_item *a, const struct pack_item *b)
{
	return a->lower < b->upper && b->lower < a->upper;
}

static bool exact_index_neighbours(struct pack_exact *x)
{
	size_t count = 0, capacity = 0;
	x->first_neighbour = HOST_ARRAY(x->scratch, (size_t)x->items + 1, uint32_t);
	if (!x->first_neighbour)
		return false;
	for (uint32_t pass = 0; pass < 2; pass++) {
		count = 0;
		for (uint32_t i = 0; i < x->items; i++) {
			x->first_neighbour[i] = (uint32_t)count;
			for (uint32_t j = 0; j < x->items; j++) {
				if (j == i || !exact_live_together(&x->item[i], &x->item[j]))
					continue;
				if (pass)
					x->neighbour[count] = j;
				count++;
			}
		}
		x->first_neighbour[x->items] = (uint32_t)count;
		if (!pass) {
			capacity = count;
			x->neighbour = HOST_ARRAY(x->scratch, capacity + 1, uint32_t);
			if (!x->neighbour)
				return false;
		}
	}
	return true;
}

static void exact_index_twins(struct pack_exact *x)
{
	for (uint32_t i = 0; i < x->items; i++) {
		const struct pack_item *a = &x->item[i];
		x->same_as[i] = x->twin[i] = i;
		if (a->align > 1)
			x->mixed_alignment = true;
		if (a->pin != PACK_UNPINNED)
			x->pins = true;
		for (uint32_t j = i; j-- > 0;) {
			const struct pack_item *b = &x->item[j];
			if (a->lower != b->lower || a->upper != b->upper)
				continue;
			if (a->align > 1 || b->align > 1 || a->pin != PACK_UNPINNED || b->pin != PACK_UNPINNED)
				continue;
			x->twin[i] = x->twin[j];
			x->twin[j] = i;
			if (a->size == b->size && a->align == b->align && a->pin == PACK_UNPINNED &&
			    b->pin == PACK_UNPINNED)
				x->same_as[i] = j;
			break;
		}
	}
	/* The nearest item of the same range may differ in size: look on for one that is alike. */
	for (uint32_t i = 0; i < x->items; i++)
		for (uint32_t j = i; x->same_as[i] == i && j-- > 0;) {
			const struct pack_item *a = &x->item[i], *b = &x->item[j];
			if (a->lower == b->lower && a->upper == b->upper && a->size == b->size &&
			    a->align == b->align && a->pin == PACK_UNPINNED && b->pin == PACK_UNPINNED)
				x->same_as[i] = j;
		}
}

struct pack_exact *pack_exact_open(const struct pack_item *item, uint32_t items, uint32_t sections, uint32_t states,
				   struct host_arena *scratch)
{
	struct pack_exact *x = HOST_NEW(scratch, struct pack_exact);
	if (!x)
		return NULL;
	uint32_t capacity = 64;
	while (capacity < states && capacity < 1u << 30)
		capacity *= 2;
	*x = (struct pack_exact){
		.item = item,
		.items = items,
		.sections = sections,
		.scratch = scratch,
		.same_as = HOST_ARRAY(scratch, items, uint32_t),
		.twin = HOST_ARRAY(scratch, items, uint32_t),
		.ceiling_of = HOST_ARRAY(scratch, items, int64_t),
		.rank = HOST_ARRAY(scratch, items, double),
		.weight = HOST_ARRAY(scratch, sections, uint32_t),
		.lowest = HOST_ARRAY(scratch, items, int64_t),
		.blocked = HOST_ARRAY(scratch, items, int64_t),
		.offset = HOST_ARRAY(scratch, items, int64_t),
		.factor = HOST_ARRAY(scratch, items, uint64_t),
		.key = HOST_ARRAY(scratch, sections, uint64_t),
		.floor = HOST_ARRAY(scratch, sections, int64_t),
		.total = HOST_ARRAY(scratch, sections, int64_t),
		.ceiling = HOST_ARRAY(scratch, sections, int64_t),
		.supports = HOST_ARRAY(scratch, sections, uint32_t),
		.unplaced = HOST_ARRAY(scratch, sections, uint32_t),
		.crossing = HOST_ARRAY(scratch, (size_t)sections + 1, uint32_t),
		.saved = HOST_ARRAY(scratch, sections, uint32_t),
		.dirty = HOST_ARRAY(scratch, sections, uint32_t),
		.state = HOST_ARRAY(scratch, capacity, uint64_t),
		.state_mask = capacity - 1,
	};
	if (!x->same_as || !x->twin || !x->ceiling_of || !x->rank || !x->weight || !x->lowest || !x->blocked ||
	    !x->offset || !x->factor || !x->key || !x->floor || !x->total || !x->ceiling || !x->supports ||
	    !x->unplaced || !x->crossing || !x->saved || !x->dirty || !x->state || !exact_index_sections(x) ||
	    !exact_index_neighbours(x))
		return NULL;
	exact_index_twins(x);
	for (uint32_t i = 0; i < items; i++)
		x->factor[i] = hash_bits(1, i) | 1;
	return x;
}

static bool exact_grow(struct pack_exact *x, void **array, uint32_t *capacity, uint32_t needed, size_t size)
{
	size_t now = *capacity;
	void *grown = host_arena_grow(x->scratch, *array, &now, needed, size);
	if (!grown) {
		x->out_of_memory = true;
		return false;
	}
	*array = grown;
	*capacity = (uint32_t)now;
	return true;
}

/* ---- Changing the state ---- */

static bool exact_record(struct pack_exact *x, uint32_t index, uint32_t count, int64_t value)
{
	if (x->trail_length == x->trail_capacity &&
	    !exact_grow(x, (void **)&x->trail, &x->trail_capacity, x->trail_length + 1, sizeof *x->trail))
		return false;
	x->trail[x->trail_length++] = (struct undo){ value, index, count };
	return true;
}

static inline bool exact_is_placed(const struct pack_exact *x, uint32_t i)
{
	return x->lowest[i] == NEVER;
}

/*
 * What an unplaced item adds to its component's key: linear in its bound, with random factors, so that keys of
 * different states are equal with a probability of about 2^-64.
 */
static inline uint64_t exact_term(const struct pack_exact *x, uint32_t i)
{
	return ((uint64_t)x->lowest[i] * 2 + (x->blocked[i] == x->lowest[i])) * x->factor[i];
}

static void exact_set_lowest(struct pack_exact *x, uint32_t i, int64_t value)
{
	uint64_t *key = &x->key[x->item[i].lower];
	*key -= exact_term(x, i);
	x->lowest[i] = value;
	*key += exact_term(x, i);
}

static void exact_set_blocked(struct pack_exact *x, uint32_t i, int64_t value)
{
	uint64_t *key = &x->key[x->item[i].lower];
	*key -= exact_term(x, i);
	x->blocked[i] = value;
	*key += exact_term(x, i);
}

static bool exact_save_section(struct pack_exact *x, uint32_t s)
{
	if (x->saved[s] == x->stamp)
		return true;
	x->saved[s] = x->stamp;
	return exact_record(x, s, x->supports[s], x->floor[s]);
}

/* The least offset at or above `value` that suits alignment and does not meet a pinned item. */
static int64_t exact_fit(const struct pack_exact *x, uint32_t i, int64_t value)
{
	const struct pack_item *a = &x->item[i];
	value = pack_align(value, a->align);
	if (!x->pins || a->pin != PACK_UNPINNED)
		return value;
	for (bool moved = true; moved;) {
		moved = false;
		for (uint32_t k = x->first_neighbour[i]; k < x->first_neighbour[i + 1]; k++) {
			const struct pack_item *b = &x->item[x->neighbour[k]];
			if (b->pin == PACK_UNPINNED || b->pin >= value + a->size || b->pin + b->size <= value)
				continue;
			value = pack_align(b->pin + b->size, a->align);
			moved = true;
		}
	}
	return value;
}

static bool exact_raise(struct pack_exact *x, uint32_t i, int64_t value)
{
	int64_t old = x->lowest[i];
	if (value <= old)
		return true;
	const struct pack_item *a = &x->item[i];
	if (x->mixed_alignment || x->pins)
		value = exact_fit(x, i, value);
	if (value + a->size > x->ceiling_of[i] || (a->pin != PACK_UNPINNED && value > a->pin)) {
		x->fail_section = a->lower;
		return false;
	}
	if (!exact_record(x, i, UNDO_LOWEST, old))
		return false;
	exact_set_lowest(x, i, value);
	for (uint32_t s = a->lower; s < a->upper; s++) {
		if (x->floor[s] != old)
			continue;
		if (!exact_save_section(x, s))
			return false;
		if (--x->supports[s] == 0)
			x->dirty[x->dirties++] = s;
	}
	return true;
}

/* Floors of the sections that lost their last support; false when one fails. */
static bool exact_settle(struct pack_exact *x)
{
	bool good = true;
	for (uint32_t d = 0; d < x->dirties && good; d++) {
		uint32_t s = x->dirty[d], count = 0;
		int64_t floor = NEVER;
		for (uint32_t k = x->first_cover[s]; k < x->first_cover[s + 1]; k++) {
			int64_t low = x->lowest[x->cover[k]];
			count = low < floor ? 1 : count + (low == floor);
			floor = low < floor ? low : floor;
		}
		if (floor == NEVER)
			count = 0;
		x->floor[s] = floor;
		x->supports[s] = count;
		if (count && floor + x->total[s] > x->ceiling[s]) {
			x->fail_section = s;
			good = false;
		}
	}
	x->dirties = 0;
	return good;
}

static bool exact_place(struct pack_exact *x, uint32_t i)
{
	const struct pack_item *a = &x->item[i];
	int64_t offset = x->lowest[i], top = offset + a->size;
	x->key[a->lower] -= exact_term(x, i);
	x->offset[i] = offset;
	x->lowest[i] = NEVER;
	x->left--;
	for (uint32_t s = a->lower; s < a->upper; s++) {
		x->total[s] -= a->size;
		x->unplaced[s]--;
		x->crossing[s] -= s > a->lower;
	}
	for (uint32_t s = a->lower; s < a->upper; s++) {
		if (!exact_save_section(x, s))
			return false;
		if (x->floor[s] == offset && --x->supports[s] == 0)
			x->dirty[x->dirties++] = s;
	}
	for (uint32_t k = x->first_neighbour[i]; k < x->first_neighbour[i + 1]; k++)
		if (x->lowest[x->neighbour[k]] < top && !exact_raise(x, x->neighbour[k], top))
			return false;
	/* Two items of one range that lie on each other may change places: the order of items is asked for. */
	for (uint32_t j = x->twin[i]; j != i; j = x->twin[j])
		if (j < i && !exact_is_placed(x, j)) {
			if (!exact_record(x, j, UNDO_BLOCKED, x->blocked[j]))
				return false;
			exact_set_blocked(x, j, top);
		}
	return exact_settle(x);
}

static void exact_unplace(struct pack_exact *x, uint32_t i)
{
	const struct pack_item *a = &x->item[i];
	x->lowest[i] = x->offset[i];
	x->key[a->lower] += exact_term(x, i);
	x->left++;
	for (uint32_t s = a->lower; s < a->upper; s++) {
		x->total[s] += a->size;
		x->unplaced[s]++;
		x->crossing[s] += s > a->lower;
	}
}

static void exact_undo(struct pack_exact *x, uint32_t length)
{
	while (x->trail_length > length) {
		const struct undo *u = &x->trail[--x->trail_length];
		if (u->count == UNDO_LOWEST) {
			exact_set_lowest(x, u->index, u->value);
		} else if (u->count == UNDO_BLOCKED) {
			exact_set_blocked(x, u->index, u->value);
		} else {
			x->floor[u->index] = u->value;
			x->supports[u->index] = u->count;
		}
	}
	x->dirties = 0;
}

/* The least top on which an item could rest that is no item of section s; NEVER: there is none. */
static int64_t exact_next_rest(const struct pack_exact *x, uint32_t i, uint32_t s)
{
	int64_t least = NEVER;
	for (uint32_t k = x->first_neighbour[i]; k < x->first_neighbour[i + 1]; k++) {
		uint32_t j = x->neighbour[k];
		const struct pack_item *b = &x->item[j];
		if (b->lower <= s && s < b->upper)
			continue;
		if (x->lowest[j] + b->size < least)
			least = x->lowest[j] + b->size;
	}
	return least;
}

/* No item covers section s at height h. */
static bool exact_leave_gap(struct pack_exact *x, uint32_t s, int64_t h)
{
	int64_t next = NEVER, least = NEVER, second = NEVER;
	uint32_t least_item = UINT32_MAX;
	for (uint32_t k = x->first_cover[s]; k < x->first_cover[s + 1]; k++) {
		uint32_t i = x->cover[k];
		if (exact_is_placed(x, i))
			continue;
		int64_t rest = x->lowest[i] > h ? x->lowest[i] : exact_next_rest(x, i, s);
		if (rest < next)
			next = rest;
	}
	if (next + x->total[s] > x->ceiling[s]) {
		x->fail_section = s;
		return false;
	}
	for (uint32_t k = x->first_cover[s]; k < x->first_cover[s + 1]; k++) {
		uint32_t i = x->cover[k];
		if (exact_is_placed(x, i))
			continue;
		int64_t top = (x->lowest[i] > next ? x->lowest[i] : next) + x->item[i].size;
		if (top < least) {
			second = least;
			least = top;
			least_item = i;
		} else if (top < second) {
			second = top;
		}
	}
	for (uint32_t k = x->first_cover[s]; k < x->first_cover[s + 1]; k++) {
		uint32_t i = x->cover[k];
		if (exact_is_placed(x, i))
			continue;
		int64_t bound = next;
		if (x->lowest[i] == h) {
			int64_t other = exact_next_rest(x, i, s), on_item = i == least_item ? second : least;
			bound = other < on_item ? other : on_item;
		}
		if (!exact_raise(x, i, bound))
			return false;
	}
	return exact_settle(x);
}

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
	double score[512];
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
			mine *= 2.0;
		if (a->upper == right)
			mine *= 2.0;
		if ((a->lower == left && top == wall_left) || (a->upper == right && top == wall_right))
			mine *= 2.0;
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
