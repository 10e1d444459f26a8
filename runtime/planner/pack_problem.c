/* pack_problem.c - from buffers in bytes and times to items in units and sections. */
#include "planner/pack_problem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct event {
	uint64_t time;
	uint32_t item;
	bool start;
};

/* Ends come before starts: what ends at a time does not live with what starts at it. */
static int compare_events(const void *a, const void *b)
{
	const struct event *x = a, *y = b;
	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	if (x->start != y->start)
		return x->start ? 1 : -1;
	return x->item < y->item ? -1 : x->item > y->item;
}

struct keyed_item {
	struct pack_item item;
	uint32_t original;
	uint64_t first, last; /* break ties so that equal items still have one order */
};

static int compare_keyed_items(const void *a, const void *b)
{
	const struct keyed_item *x = a, *y = b;
	if (x->item.lower != y->item.lower)
		return x->item.lower < y->item.lower ? -1 : 1;
	if (x->item.upper != y->item.upper)
		return x->item.upper < y->item.upper ? -1 : 1;
	if (x->item.size != y->item.size)
		return x->item.size > y->item.size ? -1 : 1;
	if (x->item.align != y->item.align)
		return x->item.align > y->item.align ? -1 : 1;
	if (x->item.pin != y->item.pin)
		return x->item.pin < y->item.pin ? -1 : 1;
	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	if (x->last != y->last)
		return x->last < y->last ? -1 : 1;
	return x->original < y->original ? -1 : x->original > y->original;
}

static uint64_t greatest_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

const char *pack_name(const char *const *name, uint32_t i, char text[PACK_NAME])
{
	if (name)
		snprintf(text, PACK_NAME, "%.*s", (int)PACK_NAME - 1, name[i]);
	else
		snprintf(text, PACK_NAME, "%" PRIu32, i);
	return text;
}

/* Sums, alignments and pins stay far from the end of int64_t, so that no later sum overflows. */
static enum tarn_status check_buffers(const struct pack_buffer *buffer, uint32_t n, const char *const *name)
{
	char text[PACK_NAME];
	uint64_t sum = 0, limit = INT64_MAX / 16;
	for (uint32_t i = 0; i < n; i++) {
		const struct pack_buffer *b = &buffer[i];
		if (b->first >= b->last)
			return tarn_fail(TARN_EINVAL,
					 "buffer %s: its life [%" PRIu64 ", %" PRIu64
					 ") is empty; the end must lie after the start",
					 pack_name(name, i, text), b->first, b->last);
		if (b->align > limit / 4 || (b->pinned != PACK_ANYWHERE && b->pinned > limit / 4))
			return tarn_fail(TARN_EINVAL, "buffer %s: alignment or offset is above 2^57 bytes",
					 pack_name(name, i, text));
		if (b->align > 1 && b->pinned != PACK_ANYWHERE && b->pinned % b->align)
			return tarn_fail(TARN_EINVAL,
					 "buffer %s: pinned at %" PRIu64
					 ", which is no multiple of its alignment %" PRIu64,
					 pack_name(name, i, text), b->pinned, b->align);
		uint64_t room = b->bytes + (b->align > 1 ? b->align : 0);
		if (b->bytes > limit || room > limit - sum)
			return tarn_fail(TARN_EINVAL, "buffer %s: the sizes add up to more than 2^59 bytes",
					 pack_name(name, i, text));
		sum += room;
	}
	return TARN_OK;
}

static uint64_t unit_of(const struct pack_buffer *buffer, uint32_t n)
{
	uint64_t unit = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (!buffer[i].bytes)
			continue;
		unit = greatest_divisor(unit, buffer[i].bytes);
		if (buffer[i].pinned != PACK_ANYWHERE)
			unit = greatest_divisor(unit, buffer[i].pinned);
	}
	/* An alignment that divides every size is no constraint; others must be whole numbers of units. */
	for (uint32_t i = 0; i < n; i++)
		if (buffer[i].bytes && buffer[i].align > 1 && unit % buffer[i].align)
			unit = greatest_divisor(unit, buffer[i].align);
	return unit ? unit : 1;
}

/* Numbers the sections: a new one begins when something starts after something ended. */
static void number_sections(struct keyed_item *item, struct event *event, uint32_t events, uint32_t *sections)
{
	uint32_t section = 0;
	bool ended = false, any = false;
	for (uint32_t e = 0; e < events; e++) {
		if (!event[e].start) {
			item[event[e].item].item.upper = section + 1;
			ended = true;
			continue;
		}
		if (ended && any)
			section++;
		ended = false;
		any = true;
		item[event[e].item].item.lower = section;
	}
	*sections = any ? section + 1 : 0;
}

static bool sum_loads(struct pack_problem *p, struct host_arena *arena)
{
	p->load = HOST_ARRAY(arena, (size_t)p->sections + 1, int64_t);
	if (!p->load)
		return false;
	for (uint32_t i = 0; i < p->items; i++) {
		p->load[p->item[i].lower] += p->item[i].size;
		p->load[p->item[i].upper] -= p->item[i].size;
	}
	for (uint32_t s = 0; s < p->sections; s++) {
		if (s)
			p->load[s] += p->load[s - 1];
		if (p->load[s] > p->most) {
			p->most = p->load[s];
			p->fullest = s;
		}
	}
	return true;
}

static uint32_t fill_items(struct pack_problem *p, const struct pack_buffer *buffer, uint32_t n,
			   struct keyed_item *item, struct event *event)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct pack_buffer *b = &buffer[i];
		if (!b->bytes)
			continue;
		uint64_t align = b->align > 1 && p->unit % b->align ? b->align / p->unit : 1;
		item[count] = (struct keyed_item){
			.item = { .size = (int64_t)(b->bytes / p->unit),
				  .align = (int64_t)align,
				  .pin = b->pinned == PACK_ANYWHERE ? PACK_UNPINNED : (int64_t)(b->pinned / p->unit) },
			.original = i,
			.first = b->first,
			.last = b->last,
		};
		event[2 * count] = (struct event){ b->first, count, true };
		event[2 * count + 1] = (struct event){ b->last, count, false };
		p->aligned |= align > 1;
		p->pinned += b->pinned != PACK_ANYWHERE;
		count++;
	}
	return count;
}

enum tarn_status pack_problem_init(struct pack_problem *p, const struct pack_buffer *buffer, uint32_t n,
				   const char *const *name, struct host_arena *arena)
{
	*p = (struct pack_problem){ 0 };
	enum tarn_status st = check_buffers(buffer, n, name);
	if (st)
		return st;
	p->unit = unit_of(buffer, n);
	struct keyed_item *item = HOST_ARRAY(arena, n, struct keyed_item);
	struct event *event = HOST_ARRAY(arena, 2 * (size_t)n, struct event);
	p->item = HOST_ARRAY(arena, n, struct pack_item);
	p->original = HOST_ARRAY(arena, n, uint32_t);
	if (!item || !event || !p->item || !p->original)
		return TARN_ENOMEM;
	p->items = fill_items(p, buffer, n, item, event);
	qsort(event, 2 * (size_t)p->items, sizeof *event, compare_events);
	number_sections(item, event, 2 * p->items, &p->sections);
	qsort(item, p->items, sizeof *item, compare_keyed_items);
	for (uint32_t i = 0; i < p->items; i++) {
		p->item[i] = item[i].item;
		p->original[i] = item[i].original;
	}
	return sum_loads(p, arena) ? TARN_OK : TARN_ENOMEM;
}
