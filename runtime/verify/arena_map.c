/* arena_map.c - see arena_map.h. */
#include "verify/arena_map.h"

#include <assert.h>
#include <string.h>

enum tarn_status arena_map_init(struct arena_map *map, size_t capacity, struct host_arena *arena)
{
	map->count = 0;
	map->capacity = capacity;
	map->value = HOST_ARRAY(arena, capacity, struct arena_value);
	return map->value ? TARN_OK : TARN_ENOMEM;
}

/* Index of the first value that ends above `offset`; count when there is none. */
static size_t first_ending_above(const struct arena_map *map, uint64_t offset)
{
	size_t low = 0, high = map->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (map->value[middle].end > offset)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

const struct arena_value *arena_map_at(const struct arena_map *map, uint64_t offset)
{
	size_t i = first_ending_above(map, offset);
	return i < map->count && map->value[i].first == offset ? &map->value[i] : NULL;
}

/* Replaces the values [at, stop) by `count` (0 or 1) others, whose contents the caller fills in. */
static void splice(struct arena_map *map, size_t at, size_t stop, size_t count)
{
	size_t rest = map->count - stop;
	assert(map->count - (stop - at) + count <= map->capacity);
	if (stop != at + count)
		memmove(map->value + at + count, map->value + stop, rest * sizeof *map->value);
	map->count = at + count + rest;
}

static size_t last_touched(const struct arena_map *map, size_t at, uint64_t end)
{
	while (at < map->count && map->value[at].first < end)
		at++;
	return at;
}

void arena_map_damage(struct arena_map *map, uint64_t first, uint64_t end)
{
	size_t at = first_ending_above(map, first);
	splice(map, at, last_touched(map, at, end), 0);
}

void arena_map_put(struct arena_map *map, struct arena_value value)
{
	size_t at = first_ending_above(map, value.first);
	splice(map, at, last_touched(map, at, value.end), 1);
	map->value[at] = value;
}
