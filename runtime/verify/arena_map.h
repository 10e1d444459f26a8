/*
 * arena_map.h - which values lie whole and undamaged in the transient part of the arena. Private to verify/.
 *
 * A value occupies [first, end), bytes; no two overlap. A write that touches any byte of a value damages it for good,
 * so the map forgets it whole: what is left of it could never satisfy a read. The map is an array sorted by offset.
 */
#ifndef TARN_VERIFY_ARENA_MAP_H
#define TARN_VERIFY_ARENA_MAP_H

#include "base/host_arena.h"

struct arena_value {
	uint64_t first, end;
	uint32_t tensor; /* whose value it is; never a view */
	uint32_t buffer; /* the live range that it counts for */
};

struct arena_map {
	struct arena_value *value;
	size_t count, capacity;
};

/* Room for `capacity` values at the same time, as many as there are writes. */
enum tarn_status arena_map_init(struct arena_map *map, size_t capacity, struct host_arena *arena);

/* The value that begins at `offset`; NULL when none does. Valid until the map changes. */
const struct arena_value *arena_map_at(const struct arena_map *map, uint64_t offset);

/* Forgets every value that has a byte in [first, end). */
void arena_map_damage(struct arena_map *map, uint64_t first, uint64_t end);

/* Damages what was there and puts the value in its place. */
void arena_map_put(struct arena_map *map, struct arena_value value);

#endif
