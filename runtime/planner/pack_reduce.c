/*
 * pack_reduce.c - items joined along boundaries between full sections.
 *
 * Joined items form a forest: node 0..items-1 are the problem's, each join adds a node with the children it is made of,
 * beside each other in time (same offset) or on each other.
 */
#include "planner/pack_reduce.h"

#include <string.h>

#define NONE UINT32_MAX

struct node {
	struct pack_item item;
	uint32_t parent;                     /* NONE: a root */
	int64_t rise;                        /* offset above the parent's */
	uint32_t next_starting, next_ending; /* roots that begin with the same section, that end with it */
};

struct reducer {
	struct node *node;
	uint32_t nodes;
	uint32_t sections;
	uint32_t *starting, *ending; /* [sections + 1]: first root with lower == s, with upper == s */
	bool *full;                  /* [sections] */
};

static void unlink_from(struct reducer *r, uint32_t *head, uint32_t n, bool ending)
{
	uint32_t *link = head;
	while (*link != n)
		link = ending ? &r->node[*link].next_ending : &r->node[*link].next_starting;
	*link = ending ? r->node[n].next_ending : r->node[n].next_starting;
}

static void add_root(struct reducer *r, uint32_t n)
{
	struct node *a = &r->node[n];
	a->parent = NONE;
	a->next_starting = r->starting[a->item.lower];
	r->starting[a->item.lower] = n;
	a->next_ending = r->ending[a->item.upper];
	r->ending[a->item.upper] = n;
}

static void remove_root(struct reducer *r, uint32_t n)
{
	unlink_from(r, &r->starting[r->node[n].item.lower], n, false);
	unlink_from(r, &r->ending[r->node[n].item.upper], n, true);
}

static void join(struct reducer *r, uint32_t a, uint32_t b, bool on_each_other)
{
	uint32_t new = r->nodes++;
	struct pack_item item = r->node[a].item;
	remove_root(r, a);
	remove_root(r, b);
	r->node[a].parent = r->node[b].parent = new;
	r->node[a].rise = 0;
	r->node[b].rise = on_each_other ? item.size : 0;
	if (on_each_other)
		item.size += r->node[b].item.size;
	else
		item.upper = r->node[b].item.upper;
	r->node[new].item = item;
	add_root(r, new);
}

/* Both sides of the boundary before section s are full. */
static bool is_tight(const struct reducer *r, uint32_t s)
{
	return s > 0 && s < r->sections && r->full[s - 1] && r->full[s];
}

/* An item that ends at the boundary and the only one of its size that begins there. */
static bool join_across(struct reducer *r, uint32_t s)
{
	for (uint32_t a = r->ending[s]; a != NONE; a = r->node[a].next_ending) {
		uint32_t match = NONE, same_ending = 0, same_starting = 0;
		for (uint32_t b = r->starting[s]; b != NONE; b = r->node[b].next_starting)
			if (r->node[b].item.size == r->node[a].item.size) {
				match = b;
				same_starting++;
			}
		for (uint32_t b = r->ending[s]; b != NONE; b = r->node[b].next_ending)
			same_ending += r->node[b].item.size == r->node[a].item.size;
		if (same_starting != 1 || same_ending != 1)
			continue;
		join(r, a, match, false);
		return true;
	}
	return false;
}

/* Size of one item on the other side of the boundary. */
static bool has_size(const struct reducer *r, uint32_t s, bool among_starting, int64_t size)
{
	if (among_starting) {
		for (uint32_t b = r->starting[s]; b != NONE; b = r->node[b].next_starting)
			if (r->node[b].item.size == size)
				return true;
	} else {
		for (uint32_t b = r->ending[s]; b != NONE; b = r->node[b].next_ending)
			if (r->node[b].item.size == size)
				return true;
	}
	return false;
}

/*
 * Items of one range whose end (or beginning) is this boundary: all there is on this side, or two that an item on the
 * other side is as large as.
 */
static bool join_on_each_other(struct reducer *r, uint32_t s, bool ending)
{
	uint32_t head = ending ? r->ending[s] : r->starting[s], count = 0, same = 0;
	for (uint32_t a = head; a != NONE; a = ending ? r->node[a].next_ending : r->node[a].next_starting) {
		count++;
		same += r->node[a].item.lower == r->node[head].item.lower &&
			r->node[a].item.upper == r->node[head].item.upper;
	}
	bool alone = count == same;
	for (uint32_t a = head; a != NONE; a = ending ? r->node[a].next_ending : r->node[a].next_starting) {
		uint32_t b = ending ? r->node[a].next_ending : r->node[a].next_starting;
		for (; b != NONE; b = ending ? r->node[b].next_ending : r->node[b].next_starting) {
			const struct pack_item *x = &r->node[a].item, *y = &r->node[b].item;
			if (x->lower != y->lower || x->upper != y->upper)
				continue;
			if (!alone && !has_size(r, s, ending, x->size + y->size))
				continue;
			join(r, a, b, true);
			return true;
		}
	}
	return false;
}

static bool reduce_once(struct reducer *r)
{
	bool any = false;
	for (uint32_t s = 0; s < r->sections; s++) {
		if (!is_tight(r, s))
			continue;
		while (join_across(r, s) || join_on_each_other(r, s, true) || join_on_each_other(r, s, false))
			any = true;
	}
	return any;
}

static void collect_roots(const struct reducer *r, uint32_t items, struct pack_reduction *out, uint32_t *place)
{
	for (uint32_t n = 0; n < r->nodes; n++)
		if (r->node[n].parent == NONE) {
			place[n] = out->items;
			out->item[out->items++] = r->node[n].item;
		}
	for (uint32_t i = 0; i < items; i++) {
		int64_t rise = 0;
		uint32_t n = i;
		for (; r->node[n].parent != NONE; n = r->node[n].parent)
			rise += r->node[n].rise;
		out->joined[i] = place[n];
		out->rise[i] = rise;
	}
}

enum tarn_status pack_reduce(const struct pack_problem *problem, int64_t target, struct host_arena *arena,
			     struct pack_reduction *reduction)
{
	uint32_t items = problem->items, sections = problem->sections;
	struct reducer r = {
		.node = HOST_ARRAY(arena, 2 * (size_t)items, struct node),
		.sections = sections,
		.starting = HOST_ARRAY(arena, (size_t)sections + 1, uint32_t),
		.ending = HOST_ARRAY(arena, (size_t)sections + 1, uint32_t),
		.full = HOST_ARRAY(arena, sections, bool),
	};
	uint32_t *place = HOST_ARRAY(arena, 2 * (size_t)items, uint32_t);
	*reduction = (struct pack_reduction){
		.item = HOST_ARRAY(arena, items, struct pack_item),
		.joined = HOST_ARRAY(arena, items, uint32_t),
		.rise = HOST_ARRAY(arena, items, int64_t),
	};
	if (!r.node || !r.starting || !r.ending || !r.full || !place || !reduction->item || !reduction->joined ||
	    !reduction->rise)
		return TARN_ENOMEM;
	for (uint32_t s = 0; s <= sections; s++)
		r.starting[s] = r.ending[s] = NONE;
	for (uint32_t s = 0; s < sections; s++)
		r.full[s] = problem->load[s] == target;
	r.nodes = items;
	for (uint32_t i = 0; i < items; i++) {
		r.node[i].item = problem->item[i];
		add_root(&r, i);
	}
	while (reduce_once(&r))
		;
	collect_roots(&r, items, reduction, place);
	return TARN_OK;
}
