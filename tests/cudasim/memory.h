/*
 * memory.h - the simulated device memory, with a shadow of what happened to every byte.
 *
 * A region is one allocation: its bytes, and for each 4 of them a granule that says which bytes hold a value, who
 * wrote them last and who read them. Device addresses are not canonical on x86-64, so that a dereference on the host
 * faults at once; they are never used twice, so that a stale one is recognised.
 *
 * Order between commands. Each command has a place: a stream and a number in it. An access carries a clock, the
 * highest number of every stream that is known to be complete before it starts (by stream order, events and
 * synchronisation). An earlier access that the clock does not cover is unordered: a missing event, whether or not
 * the run at hand happened to execute the two in a harmless order. This is the vector clock of Mattern 1989.
 *
 * Order within a launch. An access also carries the place of its thread: block, thread, barriers passed.
 */
#ifndef CUDASIM_MEMORY_H
#define CUDASIM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMORY_BASE 0x0000D00000000000u
#define MEMORY_GRANULE 4u
#define MAX_STREAMS 32u /* streams and branches of graphs that are alive together */
#define MAX_RANGES 48u  /* operands of one launch */

/* Stream in the upper 5 bits, number in the lower 27; 0: nobody. */
#define COMMAND_NUMBER_BITS 27u
#define COMMAND_NUMBER_MASK ((1u << COMMAND_NUMBER_BITS) - 1)
static inline uint32_t command_code(uint32_t stream, uint32_t number)
{
	return stream << COMMAND_NUMBER_BITS | (number & COMMAND_NUMBER_MASK);
}

struct memory_clock {
	uint32_t done[MAX_STREAMS];
};
void memory_clock_join(struct memory_clock *clock, const struct memory_clock *other);

enum memory_use { MEMORY_READ = 1, MEMORY_WRITE = 2, MEMORY_RAW = 8 /* read without asking for a value */ };

struct memory_range {
	uint64_t address;
	uint64_t bytes;
	uint32_t use;
};

struct memory_access {
	uint32_t command; /* command_code() */
	const struct memory_clock *clock;
	const struct memory_range *range; /* operands; none: anything alive may be touched */
	uint32_t ranges;
};

struct memory_granule {
	uint8_t valid;       /* bit i: byte i holds a value */
	uint8_t dead;        /* bit i: it held one, and was declared dead */
	uint8_t writer_bits; /* bytes that the place of the writer, of the reader stands for; when threads touch */
	uint8_t reader_bits; /* different bytes of a granule, the last one is remembered */
	uint32_t writer;     /* command */
	uint32_t reader[2];
	uint64_t writer_place; /* thread within the command */
	uint64_t reader_place;
};

enum memory_kind { MEMORY_DEVICE, MEMORY_MODULE, MEMORY_HOST };

struct memory_region {
	uint64_t address;
	uint64_t bytes;
	uint8_t *data;
	struct memory_granule *granule;
	enum memory_kind kind;
	bool alive;
	uint64_t serial; /* counts allocations; for messages */
};

struct memory {
	struct memory_region **region; /* each stays where it is */
	uint32_t regions;
	uint32_t capacity;
	uint64_t next_address;
	uint64_t serial;
};

/* NULL when the host has no room. A host region's address is where its data lie. */
struct memory_region *memory_allocate(struct memory *memory, uint64_t bytes, enum memory_kind kind);
/* The bytes go; the region stays known as freed. */
void memory_release(struct memory_region *region);
void memory_free_all(struct memory *memory);
/* The region, alive or not, that contains the whole range; NULL: none. */
struct memory_region *memory_find(const struct memory *memory, uint64_t address, uint64_t bytes);

/*
 * One access by something that is not a kernel's thread: a copy, a fill, a library. Checks the range against regions,
 * shadow and clock, and notes it. The data, or NULL with *message filled.
 */
uint8_t *memory_touch(struct memory *memory, const struct memory_access *access, uint64_t address, uint64_t bytes,
		      uint32_t use, char *message, size_t message_bytes);
/* Declares bytes dead. A range outside any live allocation is refused. */
bool memory_kill(struct memory *memory, uint64_t address, uint64_t bytes, char *message, size_t message_bytes);
/* Is an access of this earlier command certain to be over? */
static inline bool memory_ordered(const struct memory_access *access, uint32_t command)
{
	uint32_t stream = command >> COMMAND_NUMBER_BITS;
	return command == 0 || stream == access->command >> COMMAND_NUMBER_BITS ||
	       (command & COMMAND_NUMBER_MASK) <= access->clock->done[stream];
}
/* Notes a reader; false: a third stream reads at once and one reader had to be forgotten. */
void memory_note_reader(struct memory_granule *granule, const struct memory_access *access);

/* ---- Places of threads within one command ---- */

#define PLACE_MANY 1024u   /* several threads of the block */
#define PLACE_ATOMIC 1025u /* an atomic operation */
#define PLACE_WARP 1056u   /* + warp: several lanes of that warp */
#define PLACE_ANYWHERE ((1u << 26) - 1)

static inline uint64_t place_code(uint32_t block, uint32_t thread, uint32_t epoch, uint32_t warp_epoch)
{
	return (uint64_t)block << 38 | (uint64_t)thread << 27 | (uint64_t)(epoch & 0xFFFF) << 11 | (warp_epoch & 0x7FF);
}
static inline uint32_t place_block(uint64_t place)
{
	return (uint32_t)(place >> 38);
}
static inline uint32_t place_thread(uint64_t place)
{
	return (uint32_t)(place >> 27) & 0x7FF;
}
/* Could an access at `earlier` and one at `now` happen at the same time? Inline where nothing happened in between. */
bool place_conflict_between(uint64_t earlier, uint64_t now);
static inline bool place_conflict(uint64_t earlier, uint64_t now)
{
	return earlier != now && place_conflict_between(earlier, now);
}
/* One place that stands for both readers (or both atomic operations). */
uint64_t place_join_both(uint64_t earlier, uint64_t now);
static inline uint64_t place_join(uint64_t earlier, uint64_t now)
{
	return earlier == now ? now : place_join_both(earlier, now);
}

#endif
