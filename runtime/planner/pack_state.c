/* pack_state.c - the state of the exhaustive search: indices, placing, gaps, and taking back. */
#include "planner/pack_state.h"

#include "base/hash_numbers.h"

#include <string.h>

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

/* Items by the section they begin in, each section's in their order. */
struct beginners {
	uint32_t *item, *first; /* first[s] to first[s + 1] begin in section s */
};

static bool exact_index_beginners(const struct pack_exact *x, struct beginners *b)
{
	b->item = HOST_ARRAY(x->scratch, x->items, uint32_t);
	b->first = HOST_ARRAY(x->scratch, (size_t)x->sections + 2, uint32_t);
	if (!b->item || !b->first)
		return false;
	for (uint32_t i = 0; i < x->items; i++)
		b->first[x->item[i].lower + 2]++;
	for (uint32_t s = 0; s < x->sections; s++)
		b->first[s + 2] += b->first[s + 1];
	for (uint32_t i = 0; i < x->items; i++)
		b->item[b->first[x->item[i].lower + 1]++] = i;
	return true;
}

/* Adds item j to what lives with its neighbours; `fill`: not only the numbers. */
static void exact_join_neighbours(struct pack_exact *x, const struct beginners *b, uint32_t j, bool fill)
{
	uint32_t lower = x->item[j].lower, upper = x->item[j].upper;
	const uint32_t *list[] = { x->cover + x->first_cover[lower], b->item + b->first[lower + 1] };
	const uint32_t count[] = { x->first_cover[lower + 1] - x->first_cover[lower],
				   b->first[upper] - b->first[lower + 1] };
	for (uint32_t part = 0; part < 2; part++)
		for (uint32_t k = 0; k < count[part]; k++) {
			uint32_t i = list[part][k];
			if (i == j)
				continue;
			if (fill)
				x->neighbour[x->first_neighbour[i + 1]] = j;
			x->first_neighbour[i + (fill ? 1 : 2)]++;
		}
}

/* Lists all pairs, each item's neighbours in their order. */
static bool exact_index_neighbours(struct pack_exact *x, const struct beginners *b)
{
	x->first_neighbour = HOST_ARRAY(x->scratch, (size_t)x->items + 2, uint32_t);
	if (!x->first_neighbour)
		return false;
	for (uint32_t j = 0; j < x->items; j++)
		exact_join_neighbours(x, b, j, false);
	for (uint32_t i = 0; i < x->items; i++)
		x->first_neighbour[i + 2] += x->first_neighbour[i + 1];
	x->neighbour = HOST_ARRAY(x->scratch, (size_t)x->first_neighbour[x->items + 1] + 1, uint32_t);
	if (!x->neighbour)
		return false;
	/* first_neighbour[i + 1] moves from the start of item i's list to its end. */
	for (uint32_t j = 0; j < x->items; j++)
		exact_join_neighbours(x, b, j, true);
	return true;
}

/*
 * The nearest item before it of the same range that may change places with it, and the nearest that is alike in
 * everything.
 */
static void exact_find_twins(struct pack_exact *x, const struct beginners *list, uint32_t place)
{
	uint32_t i = list->item[place];
	const struct pack_item *a = &x->item[i];
	x->same_as[i] = x->twin[i] = i;
	if (a->pin != PACK_UNPINNED)
		return;
	for (uint32_t k = place; k-- > list->first[a->lower] && x->same_as[i] == i;) {
		uint32_t j = list->item[k];
		const struct pack_item *b = &x->item[j];
		if (a->upper != b->upper || b->pin != PACK_UNPINNED)
			continue;
		if (x->twin[i] == i && a->align == 1 && b->align == 1) {
			x->twin[i] = x->twin[j];
			x->twin[j] = i;
		}
		if (a->size == b->size && a->align == b->align)
			x->same_as[i] = j;
	}
}

static void exact_index_twins(struct pack_exact *x, const struct beginners *list)
{
	for (uint32_t k = 0; k < x->items; k++)
		exact_find_twins(x, list, k);
	for (uint32_t i = 0; i < x->items; i++) {
		x->mixed_alignment |= x->item[i].align > 1;
		x->pins |= x->item[i].pin != PACK_UNPINNED;
	}
}

struct pack_exact *pack_exact_open(const struct pack_item *item, uint32_t items, uint32_t sections, uint32_t states,
				   struct host_arena *scratch)
{
	struct pack_exact *x = HOST_NEW(scratch, struct pack_exact);
	struct beginners beginners;
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
		.saved = HOST_ARRAY(scratch, sections, uint64_t),
		.dirty = HOST_ARRAY(scratch, sections, uint32_t),
		.score = HOST_ARRAY(scratch, items, double),
		.state = HOST_ARRAY(scratch, capacity, uint64_t),
		.state_mask = capacity - 1,
	};
	if (!x->same_as || !x->twin || !x->ceiling_of || !x->rank || !x->weight || !x->lowest || !x->blocked ||
	    !x->offset || !x->factor || !x->key || !x->floor || !x->total || !x->ceiling || !x->supports ||
	    !x->unplaced || !x->crossing || !x->saved || !x->dirty || !x->score || !x->state ||
	    !exact_index_sections(x) || !exact_index_beginners(x, &beginners) || !exact_index_neighbours(x, &beginners))
		return NULL;
	exact_index_twins(x, &beginners);
	for (uint32_t i = 0; i < items; i++)
		x->factor[i] = hash_bits(1, i) | 1;
	return x;
}

bool exact_grow(struct pack_exact *x, void **array, uint32_t *capacity, uint32_t needed, size_t size)
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
int64_t exact_fit(const struct pack_exact *x, uint32_t i, int64_t value)
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
bool exact_settle(struct pack_exact *x)
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

bool exact_place(struct pack_exact *x, uint32_t i)
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

void exact_unplace(struct pack_exact *x, uint32_t i)
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

void exact_undo(struct pack_exact *x, uint32_t length)
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
bool exact_leave_gap(struct pack_exact *x, uint32_t s, int64_t h)
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
