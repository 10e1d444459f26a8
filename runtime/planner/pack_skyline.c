/*
 * pack_skyline.c - the lowest stretch of the skyline takes the best item that fits, or is lifted when none does.
 *
 * Source: Burke, Kendall, Whitwell, "A new placement heuristic for the orthogonal stock-cutting problem", 2004, with
 * positions along the strip fixed. Items that fit a stretch are found in a k-d tree over (lower, upper) that knows the
 * largest measure of what is not placed below each node (Bentley 1975), so that a placement takes about log(items).
 */
#include "planner/pack_skyline.h"

#include "base/hash_numbers.h"

#include <math.h>
#include <string.h>

#define LEAF 4u
#define PLACED -1.0
#define NO_LINE UINT32_MAX
/* Sections of a life, on average, up to which it is watched what must still be placed in each section. */
#define WATCHED_LIFE 200u

struct box {
	uint32_t lower_least, lower_most, upper_least, upper_most;
	double best; /* largest measure of an item that is not placed; PLACED: all are */
};

/* A stretch of sections; stretches are named by their first section. */
struct line {
	int64_t height;
	uint32_t end;
	uint32_t before;  /* the stretch on its left; NO_LINE */
	uint32_t version; /* entries of the heap with another one are void */
};

struct heap_entry {
	int64_t height;
	uint32_t line, version;
};

struct pack_skyline {
	const struct pack_problem *problem;
	uint32_t leaves;                   /* a power of two */
	uint32_t *point;                   /* [items]: item indices, leaf after leaf */
	uint32_t *first;                   /* [leaves + 1]: where each leaf begins in point[] */
	uint32_t *leaf_of;                 /* [items] */
	struct box *box;                   /* [2 * leaves]: node k has the children 2k and 2k + 1 */
	double *measure;                   /* [items] */
	double *weight;                    /* [items]: what blame has made of 1 */
	bool watched;                      /* unplaced[] is kept */
	int64_t *unplaced;                 /* [sections]: size of the items that are not placed */
	uint32_t failed_first, failed_end; /* sections where the last run ended */
	uint32_t left;                     /* items that it did not place */
	struct line *line;                 /* [sections] */
	struct heap_entry *heap;
	uint32_t heap_length, heap_capacity;
};

/* ---- The tree ---- */

static uint32_t coordinate(const struct pack_skyline *sky, uint32_t item, uint32_t axis)
{
	const struct pack_item *a = &sky->problem->item[item];
	return axis ? a->upper : a->lower;
}

/* By the coordinate, then by index: a total order, so that the tree does not depend on the input's order. */
static bool comes_before(const struct pack_skyline *sky, uint32_t a, uint32_t b, uint32_t axis)
{
	uint32_t x = coordinate(sky, a, axis), y = coordinate(sky, b, axis);
	return x != y ? x < y : a < b;
}

/* Hoare's selection: the `middle - low` least items come first. */
static void split_points(struct pack_skyline *sky, uint32_t low, uint32_t high, uint32_t middle, uint32_t axis)
{
	uint32_t *p = sky->point;
	while (high - low > 1) {
		uint32_t pivot = p[low + (high - low) / 2], i = low, j = high - 1;
		for (;;) {
			while (comes_before(sky, p[i], pivot, axis))
				i++;
			while (comes_before(sky, pivot, p[j], axis))
				j--;
			if (i >= j)
				break;
			uint32_t kept = p[i];
			p[i] = p[j];
			p[j] = kept;
			i++;
			j--;
		}
		/* What is before i is at most the pivot, what is after j at least; where they met lies the pivot
		 * itself. */
		uint32_t before = i == j ? j : j + 1;
		if (middle < before)
			high = before;
		else if (middle > i)
			low = i;
		else
			return;
	}
}

static void build_tree(struct pack_skyline *sky, uint32_t node, uint32_t low, uint32_t high, uint32_t axis)
{
	if (node >= sky->leaves) {
		sky->first[node - sky->leaves] = low;
		sky->first[node - sky->leaves + 1] = high;
		for (uint32_t i = low; i < high; i++)
			sky->leaf_of[sky->point[i]] = node;
		return;
	}
	uint32_t middle = low + (high - low) / 2;
	if (low < middle)
		split_points(sky, low, high, middle, axis);
	build_tree(sky, 2 * node, low, middle, !axis);
	build_tree(sky, 2 * node + 1, middle, high, !axis);
}

static void box_leaf(struct pack_skyline *sky, uint32_t node)
{
	struct box box = { UINT32_MAX, 0, UINT32_MAX, 0, PLACED };
	uint32_t leaf = node - sky->leaves;
	for (uint32_t i = sky->first[leaf]; i < sky->first[leaf + 1]; i++) {
		const struct pack_item *a = &sky->problem->item[sky->point[i]];
		double measure = sky->measure[sky->point[i]];
		if (measure == PLACED)
			continue;
		box.lower_least = a->lower < box.lower_least ? a->lower : box.lower_least;
		box.lower_most = a->lower > box.lower_most ? a->lower : box.lower_most;
		box.upper_least = a->upper < box.upper_least ? a->upper : box.upper_least;
		box.upper_most = a->upper > box.upper_most ? a->upper : box.upper_most;
		box.best = measure > box.best ? measure : box.best;
	}
	sky->box[node] = box;
}

static void box_node(struct pack_skyline *sky, uint32_t node)
{
	const struct box *a = &sky->box[2 * node], *b = &sky->box[2 * node + 1];
	sky->box[node] = (struct box){
		a->lower_least < b->lower_least ? a->lower_least : b->lower_least,
		a->lower_most > b->lower_most ? a->lower_most : b->lower_most,
		a->upper_least < b->upper_least ? a->upper_least : b->upper_least,
		a->upper_most > b->upper_most ? a->upper_most : b->upper_most,
		a->best > b->best ? a->best : b->best,
	};
}

static void remove_item(struct pack_skyline *sky, uint32_t item)
{
	uint32_t node = sky->leaf_of[item];
	sky->measure[item] = PLACED;
	box_leaf(sky, node);
	while (node /= 2)
		box_node(sky, node);
}

struct found {
	uint32_t item; /* UINT32_MAX: none */
	double measure;
};

/* The largest measure among items with lower in [range[0], range[1]] and upper in [range[2], range[3]]. */
static void find_best(const struct pack_skyline *sky, uint32_t node, const uint32_t *range, struct found *found)
{
	const struct box *box = &sky->box[node];
	if (box->best <= found->measure || box->lower_most < range[0] || box->lower_least > range[1] ||
	    box->upper_most < range[2] || box->upper_least > range[3])
		return;
	if (node < sky->leaves) {
		uint32_t better = sky->box[2 * node + 1].best > sky->box[2 * node].best;
		find_best(sky, 2 * node + better, range, found);
		find_best(sky, 2 * node + !better, range, found);
		return;
	}
	uint32_t leaf = node - sky->leaves;
	for (uint32_t i = sky->first[leaf]; i < sky->first[leaf + 1]; i++) {
		uint32_t item = sky->point[i];
		const struct pack_item *a = &sky->problem->item[item];
		if (sky->measure[item] > found->measure && a->lower >= range[0] && a->lower <= range[1] &&
		    a->upper >= range[2] && a->upper <= range[3])
			*found = (struct found){ item, sky->measure[item] };
	}
}

struct pack_skyline *pack_skyline_open(const struct pack_problem *problem, struct host_arena *arena)
{
	uint32_t leaves = 1;
	while (leaves * LEAF < problem->items)
		leaves *= 2;
	struct pack_skyline *sky = HOST_NEW(arena, struct pack_skyline);
	if (!sky)
		return NULL;
	*sky = (struct pack_skyline){
		.problem = problem,
		.leaves = leaves,
		.point = HOST_ARRAY(arena, problem->items, uint32_t),
		.first = HOST_ARRAY(arena, (size_t)leaves + 1, uint32_t),
		.leaf_of = HOST_ARRAY(arena, problem->items, uint32_t),
		.box = HOST_ARRAY(arena, 2 * (size_t)leaves, struct box),
		.measure = HOST_ARRAY(arena, problem->items, double),
		.weight = HOST_ARRAY(arena, problem->items, double),
		.unplaced = HOST_ARRAY(arena, problem->sections, int64_t),
		.line = HOST_ARRAY(arena, problem->sections, struct line),
		/* A placement adds at most three entries and takes one, a lift adds one and takes one. */
		.heap_capacity = 3 * problem->items + 8,
		.heap = HOST_ARRAY(arena, 3 * (size_t)problem->items + 8, struct heap_entry),
	};
	if (!sky->point || !sky->first || !sky->leaf_of || !sky->box || !sky->measure || !sky->weight ||
	    !sky->unplaced || !sky->line || !sky->heap)
		return NULL;
	uint64_t lives = 0;
	for (uint32_t i = 0; i < problem->items; i++) {
		sky->point[i] = i;
		sky->weight[i] = 1;
		lives += problem->item[i].upper - problem->item[i].lower;
	}
	sky->watched = lives <= (uint64_t)WATCHED_LIFE * problem->items;
	build_tree(sky, 1, 0, problem->items, 0);
	return sky;
}

/* ---- Lines ---- */

static bool heap_less(const struct heap_entry *a, const struct heap_entry *b)
{
	return a->height != b->height ? a->height < b->height : a->line < b->line;
}

static void heap_push(struct pack_skyline *sky, uint32_t line)
{
	struct heap_entry new = { sky->line[line].height, line, ++sky->line[line].version };
	uint32_t at = sky->heap_length++;
	for (; at && heap_less(&new, &sky->heap[(at - 1) / 2]); at = (at - 1) / 2)
		sky->heap[at] = sky->heap[(at - 1) / 2];
	sky->heap[at] = new;
}

static struct heap_entry heap_pop(struct pack_skyline *sky)
{
	struct heap_entry least = sky->heap[0], moved = sky->heap[--sky->heap_length];
	uint32_t at = 0;
	for (;;) {
		uint32_t child = 2 * at + 1;
		if (child >= sky->heap_length)
			break;
		if (child + 1 < sky->heap_length && heap_less(&sky->heap[child + 1], &sky->heap[child]))
			child++;
		if (!heap_less(&sky->heap[child], &moved))
			break;
		sky->heap[at] = sky->heap[child];
		at = child;
	}
	sky->heap[at] = moved;
	return least;
}

static uint32_t lowest_line(struct pack_skyline *sky)
{
	for (;;) {
		struct heap_entry entry = heap_pop(sky);
		if (sky->line[entry.line].version == entry.version)
			return entry.line;
	}
}

static uint32_t line_after(const struct pack_skyline *sky, uint32_t line)
{
	uint32_t end = sky->line[line].end;
	return end < sky->problem->sections ? end : NO_LINE;
}

/* Makes [first, end) one line; what was in it is void. `before` is the line on its left. */
static void set_line(struct pack_skyline *sky, uint32_t first, uint32_t end, uint32_t before, int64_t height)
{
	struct line *line = &sky->line[first];
	line->height = height;
	line->end = end;
	line->before = before;
	line->version++;
	if (end < sky->problem->sections)
		sky->line[end].before = first;
}

/* Joins the line with neighbours of its height, and enters the result in the heap. */
static void join_and_push(struct pack_skyline *sky, uint32_t line)
{
	uint32_t after = line_after(sky, line), before = sky->line[line].before;
	int64_t height = sky->line[line].height;
	if (after != NO_LINE && sky->line[after].height == height) {
		sky->line[after].version++;
		set_line(sky, line, sky->line[after].end, before, height);
	}
	if (before != NO_LINE && sky->line[before].height == height) {
		sky->line[line].version++;
		set_line(sky, before, sky->line[line].end, sky->line[before].before, height);
		line = before;
	}
	heap_push(sky, line);
}

/* The height of the lower neighbour. */
static int64_t lifted_height(const struct pack_skyline *sky, uint32_t line)
{
	uint32_t after = line_after(sky, line), before = sky->line[line].before;
	int64_t left = before == NO_LINE ? INT64_MAX : sky->line[before].height;
	int64_t right = after == NO_LINE ? INT64_MAX : sky->line[after].height;
	return left < right ? left : right;
}

static void lift_line(struct pack_skyline *sky, uint32_t line, int64_t height)
{
	sky->line[line].height = height;
	join_and_push(sky, line);
}

static void place_on_line(struct pack_skyline *sky, uint32_t line, const struct pack_item *a, int64_t top)
{
	struct line old = sky->line[line];
	uint32_t before = old.before, middle = a->lower;
	if (a->lower > line) {
		set_line(sky, line, a->lower, before, old.height);
		before = line;
	}
	if (a->upper < old.end) {
		set_line(sky, a->upper, old.end, middle, old.height);
		heap_push(sky, a->upper);
	}
	set_line(sky, middle, a->upper, before, top);
	if (a->lower > line)
		heap_push(sky, line);
	join_and_push(sky, middle);
}

/* ---- A pass ---- */

static void set_measures(struct pack_skyline *sky, const struct pack_rule *rule)
{
	for (uint32_t i = 0; i < sky->problem->items; i++) {
		double measure = pack_measure(&sky->problem->item[i], rule->measure) * sky->weight[i];
		if (rule->noise > 0)
			measure *= 1 + rule->noise * (double)(hash_bits(rule->seed, i) >> 40) * 0x1p-24;
		sky->measure[i] = measure;
	}
	for (uint32_t node = sky->leaves; node < 2 * sky->leaves; node++)
		box_leaf(sky, node);
	for (uint32_t node = sky->leaves - 1; node; node--)
		box_node(sky, node);
}

static double weigh(const struct pack_skyline *sky, uint32_t line, uint32_t item, const struct pack_rule *rule)
{
	const struct pack_item *a = &sky->problem->item[item];
	const struct line *l = &sky->line[line];
	int64_t top = l->height + a->size;
	uint32_t after = line_after(sky, line);
	double weight = sky->measure[item];
	bool level = false;
	if (a->lower == line) {
		weight *= rule->flush;
		level = l->before != NO_LINE && sky->line[l->before].height == top;
	}
	if (a->upper == l->end) {
		weight *= rule->flush;
		level |= after != NO_LINE && sky->line[after].height == top;
	}
	return level ? weight * rule->level : weight;
}

static uint32_t best_on_line(const struct pack_skyline *sky, uint32_t line, const struct pack_rule *rule)
{
	uint32_t end = sky->line[line].end, best = UINT32_MAX;
	double most = 0;
	/* Anywhere on the line; beginning where it does; ending where it does. */
	const uint32_t range[3][4] = { { line, end - 1, line + 1, end },
				       { line, line, line + 1, end },
				       { line, end - 1, end, end } };
	for (uint32_t r = 0; r < 3; r++) {
		struct found found = { UINT32_MAX, PLACED };
		find_best(sky, 1, range[r], &found);
		if (found.item == UINT32_MAX) {
			if (r == 0)
				break;
			continue;
		}
		double weight = weigh(sky, line, found.item, rule);
		if (best == UINT32_MAX || weight > most) {
			best = found.item;
			most = weight;
		}
	}
	return best;
}

/* Whether what must still lie on the line stays below the limit. */
static bool fits_on_line(const struct pack_skyline *sky, uint32_t line, int64_t height, int64_t limit)
{
	if (!sky->watched || limit == INT64_MAX)
		return true;
	for (uint32_t s = line; s < sky->line[line].end; s++)
		if (sky->unplaced[s] && height + sky->unplaced[s] >= limit)
			return false;
	return true;
}

static int64_t end_at_limit(struct pack_skyline *sky, uint32_t first, uint32_t end)
{
	sky->failed_first = first;
	sky->failed_end = end;
	return INT64_MAX;
}

static void begin_run(struct pack_skyline *sky, const struct pack_rule *rule)
{
	uint32_t sections = sky->problem->sections;
	set_measures(sky, rule);
	memcpy(sky->unplaced, sky->problem->load, sections * sizeof *sky->unplaced);
	memset(sky->line, 0, sections * sizeof *sky->line);
	sky->heap_length = 0;
	sky->left = sky->problem->items;
	set_line(sky, 0, sections, NO_LINE, 0);
	heap_push(sky, 0);
}

int64_t pack_skyline_run(struct pack_skyline *sky, const struct pack_rule *rule, int64_t limit, int64_t *offset)
{
	const struct pack_problem *problem = sky->problem;
	int64_t height = 0;
	begin_run(sky, rule);
	while (sky->left) {
		uint32_t line = lowest_line(sky), item = best_on_line(sky, line, rule);
		if (item == UINT32_MAX) {
			int64_t lifted = lifted_height(sky, line);
			if (!fits_on_line(sky, line, lifted, limit))
				return end_at_limit(sky, line, sky->line[line].end);
			lift_line(sky, line, lifted);
			continue;
		}
		const struct pack_item *a = &problem->item[item];
		int64_t at = pack_align(sky->line[line].height, a->align);
		offset[item] = at;
		height = at + a->size > height ? at + a->size : height;
		if (height >= limit)
			return end_at_limit(sky, a->lower, a->upper);
		place_on_line(sky, line, a, at + a->size);
		remove_item(sky, item);
		sky->left--;
		for (uint32_t s = a->lower; s < a->upper && sky->watched; s++)
			sky->unplaced[s] -= a->size;
	}
	return height;
}

uint32_t pack_skyline_placed(const struct pack_skyline *sky)
{
	return sky->problem->items - sky->left;
}

void pack_skyline_blame(struct pack_skyline *sky, double factor)
{
	for (uint32_t i = 0; i < sky->problem->items; i++) {
		const struct pack_item *a = &sky->problem->item[i];
		if (sky->measure[i] != PLACED && a->lower < sky->failed_end && sky->failed_first < a->upper)
			sky->weight[i] *= factor;
	}
}

void pack_skyline_forgive(struct pack_skyline *sky)
{
	for (uint32_t i = 0; i < sky->problem->items; i++)
		sky->weight[i] = sqrt(sky->weight[i]);
}
