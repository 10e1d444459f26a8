/* pack.c - a portfolio of placements and an order search. */
#include "planner/pack.h"

#include "base/bytes.h"
#include "planner/random.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Placements take quadratic time: beyond so many buffers only the two best orders are tried, or none. */
#define LARGE 4000u
#define HUGE_NUMBER 16000u

struct packer {
	uint32_t n;
	struct buffer *buffer; /* in canonical order: by first, last, bytes */
	uint32_t *original;    /* [n]: index in the caller's array */
	uint64_t load, goal;
	uint64_t *offset, *best_offset; /* [n], canonical */
	uint64_t best_height;
	uint32_t *order, *best_order; /* order of placement, of the trial and of the best one */
	uint64_t *key;                /* [n]: what the order is sorted by, decreasing */
	struct placed *placed;        /* by increasing offset */
};

struct placed {
	uint64_t low, high;   /* bytes */
	uint32_t first, last; /* steps */
};

struct keyed {
	struct buffer buffer;
	uint32_t index;
};

static int compare_keyed(const void *a, const void *b)
{
	const struct keyed *x = a, *y = b;
	if (x->buffer.first != y->buffer.first)
		return x->buffer.first < y->buffer.first ? -1 : 1;
	if (x->buffer.last != y->buffer.last)
		return x->buffer.last < y->buffer.last ? -1 : 1;
	if (x->buffer.bytes != y->buffer.bytes)
		return x->buffer.bytes < y->buffer.bytes ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static int compare_steps(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

/* Largest sum of live bytes. Buffers are sorted by first; lasts are sorted here, in `last`. */
static uint64_t load_of(const struct buffer *buffer, uint32_t n, uint32_t *last, uint64_t *ending)
{
	for (uint32_t i = 0; i < n; i++)
		last[i] = buffer[i].last;
	qsort(last, n, sizeof *last, compare_steps);
	/* Bytes that end at a step: found by its place among the sorted lasts. */
	for (uint32_t i = 0; i < n; i++) {
		uint32_t low = 0, high = n - 1;
		while (low < high) {
			uint32_t middle = (low + high) / 2;
			if (last[middle] < buffer[i].last)
				low = middle + 1;
			else
				high = middle;
		}
		ending[low] += buffer[i].bytes;
	}
	uint64_t live = 0, load = 0;
	for (uint32_t i = 0, k = 0; i < n; i++) {
		for (; last[k] <= buffer[i].first; k++)
			live -= ending[k];
		live += buffer[i].bytes;
		if (live > load)
			load = live;
	}
	return load;
}

static enum tarn_status packer_init(struct packer *k, const struct buffer *buffer, uint32_t n,
				    struct host_arena *scratch)
{
	struct keyed *keyed = HOST_ARRAY(scratch, n, struct keyed);
	*k = (struct packer){
		.n = n,
		.buffer = HOST_ARRAY(scratch, n, struct buffer),
		.original = HOST_ARRAY(scratch, n, uint32_t),
		.offset = HOST_ARRAY(scratch, n, uint64_t),
		.best_offset = HOST_ARRAY(scratch, n, uint64_t),
		.best_height = UINT64_MAX,
		.order = HOST_ARRAY(scratch, n, uint32_t),
		.best_order = HOST_ARRAY(scratch, n, uint32_t),
		.key = HOST_ARRAY(scratch, n, uint64_t),
		.placed = HOST_ARRAY(scratch, n, struct placed),
	};
	if (!keyed || !k->buffer || !k->original || !k->offset || !k->best_offset || !k->order || !k->best_order ||
	    !k->key || !k->placed)
		return TARN_ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		keyed[i] = (struct keyed){ buffer[i], i };
	qsort(keyed, n, sizeof *keyed, compare_keyed);
	for (uint32_t i = 0; i < n; i++) {
		k->buffer[i] = keyed[i].buffer;
		k->original[i] = keyed[i].index;
	}
	k->load = load_of(k->buffer, n, k->order, k->key);
	return TARN_OK;
}

/* Lowest gap that holds the buffer among the placed ones that live at the same time. */
static uint64_t lowest_gap(const struct placed *placed, uint32_t count, const struct buffer *b)
{
	uint64_t top = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (placed[i].first >= b->last || b->first >= placed[i].last || placed[i].high <= top)
			continue;
		if (placed[i].low >= top && placed[i].low - top >= b->bytes)
			return top;
		top = placed[i].high;
	}
	return top;
}

/* Smallest gap that holds it; above all when none does. */
static uint64_t smallest_gap(const struct placed *placed, uint32_t count, const struct buffer *b)
{
	uint64_t top = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
	for (uint32_t i = 0; i < count; i++) {
		if (placed[i].first >= b->last || b->first >= placed[i].last || placed[i].high <= top)
			continue;
		if (placed[i].low >= top && placed[i].low - top >= b->bytes && placed[i].low - top < best_gap) {
			best = top;
			best_gap = placed[i].low - top;
		}
		top = placed[i].high;
	}
	return best_gap == UINT64_MAX ? top : best;
}

static void insert_placed(struct placed *placed, uint32_t count, struct placed new)
{
	uint32_t low = 0, high = count;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (placed[middle].low <= new.low)
			low = middle + 1;
		else
			high = middle;
	}
	memmove(placed + low + 1, placed + low, (count - low) * sizeof *placed);
	placed[low] = new;
}

static void keep_if_better(struct packer *k, uint64_t height)
{
	if (height >= k->best_height)
		return;
	k->best_height = height;
	memcpy(k->best_offset, k->offset, k->n * sizeof *k->offset);
	memcpy(k->best_order, k->order, k->n * sizeof *k->order);
}

/* Places in the order of order[]; stops early once it is higher than `limit`. */
static uint64_t place_in_order(struct packer *k, bool smallest, uint64_t limit)
{
	uint64_t height = 0;
	for (uint32_t i = 0; i < k->n; i++) {
		const struct buffer *b = &k->buffer[k->order[i]];
		uint64_t low = smallest ? smallest_gap(k->placed, i, b) : lowest_gap(k->placed, i, b);
		k->offset[k->order[i]] = low;
		if (low + b->bytes > height)
			height = low + b->bytes;
		if (height > limit)
			return UINT64_MAX;
		insert_placed(k->placed, i, (struct placed){ low, low + b->bytes, b->first, b->last });
	}
	return height;
}

enum order_rule { BY_BYTES, BY_AREA, BY_LIFE, BY_START, ORDER_RULES };

static uint64_t key_of(const struct buffer *b, enum order_rule rule)
{
	uint64_t life = b->last - b->first;
	switch (rule) {
	case BY_BYTES:
		return b->bytes;
	case BY_AREA:
		return b->bytes > UINT64_MAX / life ? UINT64_MAX : b->bytes * life;
	case BY_LIFE:
		return life;
	default:
		return UINT32_MAX - b->first;
	}
}

struct ranked {
	uint64_t key;
	uint32_t index;
};

static int compare_ranked(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	if (x->key != y->key)
		return x->key > y->key ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static void sort_order(struct packer *k, enum order_rule rule, struct ranked *ranked)
{
	for (uint32_t i = 0; i < k->n; i++)
		ranked[i] = (struct ranked){ key_of(&k->buffer[i], rule), i };
	qsort(ranked, k->n, sizeof *ranked, compare_ranked);
	for (uint32_t i = 0; i < k->n; i++)
		k->order[i] = ranked[i].index;
}

static bool reached_goal(const struct packer *k)
{
	return k->best_height <= k->goal || k->best_height <= k->load;
}

static void try_orders(struct packer *k, struct ranked *ranked)
{
	static const enum order_rule rule[ORDER_RULES] = { BY_AREA, BY_BYTES, BY_LIFE, BY_START };
	uint32_t rules = k->n > LARGE ? 2 : ORDER_RULES;
	for (uint32_t i = 0; i < 2 * rules && !reached_goal(k); i++) {
		sort_order(k, rule[i / 2], ranked);
		keep_if_better(k, place_in_order(k, i % 2, k->best_height));
	}
}

/*
 * For very many buffers: placed as they come to live, among those that are live then; `smallest` as above. Takes time
 * for each buffer and each live one only.
 */
static uint64_t place_in_time(struct packer *k, bool smallest)
{
	uint64_t height = 0;
	uint32_t live = 0;
	for (uint32_t i = 0; i < k->n; i++) {
		const struct buffer *b = &k->buffer[i];
		uint32_t kept = 0;
		for (uint32_t j = 0; j < live; j++)
			if (k->placed[j].last > b->first)
				k->placed[kept++] = k->placed[j];
		uint64_t low = smallest ? smallest_gap(k->placed, kept, b) : lowest_gap(k->placed, kept, b);
		k->offset[i] = low;
		k->order[i] = i;
		if (low + b->bytes > height)
			height = low + b->bytes;
		insert_placed(k->placed, kept, (struct placed){ low, low + b->bytes, b->first, b->last });
		live = kept + 1;
	}
	return height;
}

/* A stretch of steps and the height up to which it is filled. */
struct line {
	uint32_t first, last;
	uint64_t height;
};

struct skyline {
	struct line *line; /* from left to right, no two neighbours of one height */
	uint32_t lines;
	uint32_t *unplaced; /* canonical indices, increasing (by first) */
	uint32_t left;
};

static uint32_t lowest_line(const struct skyline *sky)
{
	uint32_t best = 0;
	for (uint32_t i = 1; i < sky->lines; i++)
		if (sky->line[i].height < sky->line[best].height)
			best = i;
	return best;
}

static void replace_lines(struct skyline *sky, uint32_t at, uint32_t old, const struct line *new, uint32_t count)
{
	memmove(sky->line + at + count, sky->line + at + old, (sky->lines - at - old) * sizeof *sky->line);
	memcpy(sky->line + at, new, count * sizeof *new);
	sky->lines += count - old;
}

/* Lifts a line that nothing fits on to its lower neighbour and joins them. */
static void lift(struct skyline *sky, uint32_t at)
{
	uint32_t first = at, last = at;
	struct line joined = sky->line[at];
	uint64_t left = at ? sky->line[at - 1].height : UINT64_MAX;
	uint64_t right = at + 1 < sky->lines ? sky->line[at + 1].height : UINT64_MAX;
	joined.height = left < right ? left : right;
	if (left == joined.height)
		first--;
	if (right == joined.height)
		last++;
	joined.first = sky->line[first].first;
	joined.last = sky->line[last].last;
	replace_lines(sky, first, last - first + 1, &joined, 1);
}

static void raise_part(struct skyline *sky, uint32_t at, const struct buffer *b)
{
	struct line old = sky->line[at], part[3];
	uint32_t parts = 0;
	if (old.first < b->first)
		part[parts++] = (struct line){ old.first, b->first, old.height };
	part[parts++] = (struct line){ b->first, b->last, old.height + b->bytes };
	if (b->last < old.last)
		part[parts++] = (struct line){ b->last, old.last, old.height };
	replace_lines(sky, at, 1, part, parts);
}

/* The unplaced buffer that fits on the line and has the largest key; UINT32_MAX: none. Returns its place. */
static uint32_t best_on_line(const struct packer *k, const struct skyline *sky, const struct line *line)
{
	uint32_t best = UINT32_MAX;
	for (uint32_t i = 0; i < sky->left; i++) {
		const struct buffer *b = &k->buffer[sky->unplaced[i]];
		if (b->first >= line->last)
			break;
		if (b->first < line->first || b->last > line->last)
			continue;
		if (best == UINT32_MAX || k->key[sky->unplaced[i]] > k->key[sky->unplaced[best]])
			best = i;
	}
	return best;
}

/*
 * Fills the lowest stretch of the skyline with the buffer that has the largest key, or lifts it when none fits.
 * Source: Burke, Kendall, Whitwell, "A new placement heuristic for the orthogonal stock-cutting problem", 2004, with
 * positions along the strip fixed.
 */
static uint64_t fill_skyline(struct packer *k, struct skyline *sky, uint32_t steps)
{
	uint64_t height = 0;
	sky->line[0] = (struct line){ 0, steps, 0 };
	sky->lines = 1;
	sky->left = k->n;
	for (uint32_t i = 0; i < k->n; i++)
		sky->unplaced[i] = i;
	for (uint32_t placed = 0; sky->left;) {
		uint32_t at = lowest_line(sky);
		uint32_t i = best_on_line(k, sky, &sky->line[at]);
		if (i == UINT32_MAX) {
			lift(sky, at);
			continue;
		}
		uint32_t index = sky->unplaced[i];
		k->offset[index] = sky->line[at].height;
		k->order[placed++] = index;
		if (k->offset[index] + k->buffer[index].bytes > height)
			height = k->offset[index] + k->buffer[index].bytes;
		if (height >= k->best_height)
			return UINT64_MAX;
		raise_part(sky, at, &k->buffer[index]);
		sky->left--;
		memmove(sky->unplaced + i, sky->unplaced + i + 1, (sky->left - i) * sizeof *sky->unplaced);
	}
	return height;
}

static enum tarn_status try_skylines(struct packer *k, struct host_arena *scratch)
{
	static const enum order_rule rule[] = { BY_LIFE, BY_AREA, BY_BYTES };
	struct skyline sky = {
		.line = HOST_ARRAY(scratch, 2 * (size_t)k->n + 3, struct line),
		.unplaced = HOST_ARRAY(scratch, k->n, uint32_t),
	};
	if (!sky.line || !sky.unplaced)
		return TARN_ENOMEM;
	uint32_t steps = 0;
	for (uint32_t i = 0; i < k->n; i++)
		if (k->buffer[i].last > steps)
			steps = k->buffer[i].last;
	for (uint32_t r = 0; r < sizeof rule / sizeof *rule && !reached_goal(k); r++) {
		for (uint32_t i = 0; i < k->n; i++)
			k->key[i] = key_of(&k->buffer[i], rule[r]);
		keep_if_better(k, fill_skyline(k, &sky, steps));
	}
	return TARN_OK;
}

/* A buffer that reaches the height of the best placement, counted by its place in the best order. */
static uint32_t highest_in_order(const struct packer *k, uint64_t *state)
{
	uint32_t found = 0, chosen = 0;
	for (uint32_t i = 0; i < k->n; i++) {
		uint32_t b = k->best_order[i];
		if (k->best_offset[b] + k->buffer[b].bytes == k->best_height && random_below(state, ++found) == 0)
			chosen = i;
	}
	return chosen;
}

static void move_earlier(uint32_t *order, uint32_t from, uint32_t to)
{
	uint32_t b = order[from];
	memmove(order + to + 1, order + to, (from - to) * sizeof *order);
	order[to] = b;
}

/* Hill climbing over orders: what reaches the top, or anything that lives with it, is placed earlier. */
static void search_orders(struct packer *k, uint32_t effort)
{
	uint64_t state = random_start(0);
	for (uint32_t round = 0; round < effort && !reached_goal(k); round++) {
		memcpy(k->order, k->best_order, k->n * sizeof *k->order);
		uint32_t from = highest_in_order(k, &state);
		if (!from)
			return;
		move_earlier(k->order, from, random_below(&state, from));
		if (random_below(&state, 2)) {
			from = 1 + random_below(&state, k->n - 1);
			move_earlier(k->order, from, random_below(&state, from));
		}
		uint64_t height = place_in_order(k, false, k->best_height);
		if (height == k->best_height)
			k->best_height++; /* an equal height is taken as well: the search must be able to drift */
		keep_if_better(k, height);
	}
}

enum tarn_status pack_buffers(const struct buffer *buffer, uint32_t n, uint64_t goal, uint32_t effort,
			      struct host_arena *scratch, uint64_t *offset, uint64_t *height, uint64_t *load)
{
	*height = *load = 0;
	if (!n)
		return TARN_OK;
	struct host_mark mark = host_arena_mark(scratch);
	struct packer k;
	enum tarn_status st = packer_init(&k, buffer, n, scratch);
	struct ranked *ranked = HOST_ARRAY(scratch, n, struct ranked);
	if (!st && !ranked)
		st = TARN_ENOMEM;
	if (st)
		goto out;
	k.goal = goal;
	keep_if_better(&k, place_in_time(&k, false));
	if (!reached_goal(&k))
		keep_if_better(&k, place_in_time(&k, true));
	if (n <= HUGE_NUMBER)
		try_orders(&k, ranked);
	if (n <= LARGE) {
		st = try_skylines(&k, scratch);
		if (st)
			goto out;
		search_orders(&k, effort);
	}
	for (uint32_t i = 0; i < n; i++)
		offset[k.original[i]] = k.best_offset[i];
	*height = k.best_height;
	*load = k.load;
out:
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
