#include "memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ADDRESS_ALIGNMENT (2u << 20) /* cuMemAlloc hands out granules of 2 MiB */

void memory_clock_join(struct memory_clock *clock, const struct memory_clock *other)
{
	for (uint32_t i = 0; i < MAX_STREAMS; i++)
		if (clock->done[i] < other->done[i])
			clock->done[i] = other->done[i];
}

/* ---- Regions ---- */

/* Pages come into being when they are touched, so that a large device costs the host only what is used of it. */
static void *map(uint64_t bytes)
{
	void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return data == MAP_FAILED ? NULL : data;
}

static uint64_t granules(uint64_t bytes)
{
	return (bytes + MEMORY_GRANULE - 1) / MEMORY_GRANULE;
}

static uint64_t granule_bytes(uint64_t bytes)
{
	return granules(bytes) * sizeof(struct memory_granule);
}

struct memory_region *memory_allocate(struct memory *memory, uint64_t bytes, enum memory_kind kind)
{
	if (memory->regions == memory->capacity) {
		uint32_t capacity = memory->capacity ? 2 * memory->capacity : 64;
		struct memory_region **larger = realloc(memory->region, capacity * sizeof *larger);
		if (!larger)
			return NULL;
		memory->region = larger;
		memory->capacity = capacity;
	}
	uint8_t *data = map(bytes);
	struct memory_granule *granule = map(granule_bytes(bytes));
	struct memory_region *region = malloc(sizeof *region);
	if (!data || !granule || !region) {
		if (data)
			munmap(data, bytes);
		if (granule)
			munmap(granule, granule_bytes(bytes));
		free(region);
		return NULL;
	}
	memory->region[memory->regions++] = region;
	*region = (struct memory_region){ .address = MEMORY_BASE + memory->next_address,
					  .bytes = bytes,
					  .data = data,
					  .granule = granule,
					  .kind = kind,
					  .alive = true,
					  .serial = ++memory->serial };
	if (kind == MEMORY_HOST)
		region->address = (uint64_t)(uintptr_t)data;
	else /* a gap behind each region, so that running off its end meets no other one */
		memory->next_address += (bytes + 2ull * ADDRESS_ALIGNMENT - 1) / ADDRESS_ALIGNMENT * ADDRESS_ALIGNMENT;
	return region;
}

void memory_release(struct memory_region *region)
{
	munmap(region->data, region->bytes);
	munmap(region->granule, granule_bytes(region->bytes));
	region->data = NULL;
	region->granule = NULL;
	region->alive = false;
}

void memory_free_all(struct memory *memory)
{
	for (uint32_t i = 0; i < memory->regions; i++) {
		if (memory->region[i]->alive)
			memory_release(memory->region[i]);
		free(memory->region[i]);
	}
	free(memory->region);
	*memory = (struct memory){ .region = NULL };
}

struct memory_region *memory_find(const struct memory *memory, uint64_t address, uint64_t bytes)
{
	struct memory_region *found = NULL;
	for (uint32_t i = 0; i < memory->regions; i++) {
		struct memory_region *region = memory->region[i];
		if (address >= region->address && bytes <= region->bytes &&
		    address - region->address <= region->bytes - bytes)
			if (!found || region->alive) /* host addresses come back after a release */
				found = region;
	}
	return found;
}

/* ---- Places of threads ---- */

bool place_conflict_between(uint64_t earlier, uint64_t now)
{
	if (place_thread(earlier) == PLACE_ATOMIC && place_thread(now) == PLACE_ATOMIC)
		return false;
	if (place_block(earlier) != place_block(now))
		return true;
	if ((earlier >> 11 & 0xFFFF) != (now >> 11 & 0xFFFF))
		return false;
	uint32_t a = place_thread(earlier), b = place_thread(now);
	if (a < PLACE_MANY && a == b)
		return false;
	uint32_t warp = a >= PLACE_WARP ? a - PLACE_WARP : a < PLACE_MANY ? a / 32 : UINT32_MAX;
	return warp != b / 32 || (earlier & 0x7FF) == (now & 0x7FF);
}

uint64_t place_join_both(uint64_t earlier, uint64_t now)
{
	if (place_block(earlier) != place_block(now))
		return (now & ((UINT64_C(1) << 38) - 1)) | (uint64_t)PLACE_ANYWHERE << 38;
	if ((earlier >> 11 & 0xFFFF) != (now >> 11 & 0xFFFF))
		return now; /* a barrier lies between: the earlier one is ordered before whatever `now` is */
	uint32_t a = place_thread(earlier), b = place_thread(now);
	if (b == PLACE_ATOMIC)
		return now;
	uint32_t warp = a >= PLACE_WARP ? a - PLACE_WARP : a < PLACE_MANY ? a / 32 : UINT32_MAX;
	if (a == b || (warp == b / 32 && (earlier & 0x7FF) != (now & 0x7FF)))
		return now;
	uint32_t thread = warp == b / 32 ? PLACE_WARP + warp : PLACE_MANY;
	return (now & ~(UINT64_C(0x7FF) << 27)) | (uint64_t)thread << 27;
}

/* ---- Accesses of whole ranges ---- */

static bool refuse(char *message, size_t message_bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
static bool refuse(char *message, size_t message_bytes, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(message, message_bytes, format, arguments);
	va_end(arguments);
	return false;
}

void memory_note_reader(struct memory_granule *granule, const struct memory_access *access)
{
	for (uint32_t i = 0; i < 2; i++)
		if (memory_ordered(access, granule->reader[i])) {
			granule->reader[i] = access->command;
			return;
		}
	granule->reader[1] = access->command;
}

static bool outside_operands(const struct memory_access *access, uint64_t address, uint64_t bytes, uint32_t use)
{
	if (access->ranges == 0)
		return false;
	for (uint32_t i = 0; i < access->ranges; i++) {
		const struct memory_range *range = &access->range[i];
		if (address >= range->address && bytes <= range->bytes &&
		    address - range->address <= range->bytes - bytes && (range->use & use) == use)
			return false;
	}
	return true;
}

/* Bits of a granule's four bytes that lie in [first, last) of the region. */
static uint32_t granule_bits(uint64_t granule, uint64_t first, uint64_t last)
{
	uint64_t start = granule * MEMORY_GRANULE, bits = 0;
	for (uint32_t i = 0; i < MEMORY_GRANULE; i++)
		if (start + i >= first && start + i < last)
			bits |= 1u << i;
	return (uint32_t)bits;
}

static bool is_raw(const struct memory_access *access)
{
	return access->ranges && access->range[0].use & MEMORY_RAW;
}

static bool read_range(struct memory_region *region, const struct memory_access *access, uint64_t first, uint64_t last,
		       char *message, size_t message_bytes)
{
	bool needs_values = region->kind == MEMORY_DEVICE && !is_raw(access);
	for (uint64_t i = first / MEMORY_GRANULE; i < granules(last); i++) {
		struct memory_granule *granule = &region->granule[i];
		uint32_t bits = granule_bits(i, first, last);
		if (needs_values && (granule->valid & bits) != bits)
			return refuse(message, message_bytes, "reads %s bytes at %#llx, byte %llu of allocation %llu",
				      granule->dead & bits ? "dead" : "never written",
				      (unsigned long long)(region->address + i * MEMORY_GRANULE),
				      (unsigned long long)(i * MEMORY_GRANULE), (unsigned long long)region->serial);
		if (!memory_ordered(access, granule->writer))
			return refuse(
				message, message_bytes,
				"reads %#llx, which a command of stream %u may still be writing: no event orders them",
				(unsigned long long)(region->address + i * MEMORY_GRANULE),
				granule->writer >> COMMAND_NUMBER_BITS);
		memory_note_reader(granule, access);
		granule->reader_place = 0;
		granule->reader_bits = (uint8_t)bits;
	}
	return true;
}

static bool write_range(struct memory_region *region, const struct memory_access *access, uint64_t first, uint64_t last,
			char *message, size_t message_bytes)
{
	for (uint64_t i = first / MEMORY_GRANULE; i < granules(last); i++) {
		struct memory_granule *granule = &region->granule[i];
		uint32_t bits = granule_bits(i, first, last);
		const uint32_t *reader = granule->reader;
		bool written = memory_ordered(access, granule->writer);
		if (!written || !memory_ordered(access, reader[0]) || !memory_ordered(access, reader[1])) {
			uint32_t other = !written                             ? granule->writer
					 : !memory_ordered(access, reader[0]) ? reader[0]
									      : reader[1];
			return refuse(
				message, message_bytes,
				"writes %#llx, which a command of stream %u may still be %s: no event orders them",
				(unsigned long long)(region->address + i * MEMORY_GRANULE),
				other >> COMMAND_NUMBER_BITS, written ? "reading" : "writing");
		}
		granule->valid |= (uint8_t)bits;
		granule->dead &= (uint8_t)~bits;
		granule->writer = access->command;
		granule->writer_place = 0;
		granule->writer_bits = (uint8_t)bits;
	}
	return true;
}

static struct memory_region *live_region(struct memory *memory, uint64_t address, uint64_t bytes, char *message,
					 size_t message_bytes)
{
	struct memory_region *region = memory_find(memory, address, bytes);
	if (region && region->alive)
		return region;
	refuse(message, message_bytes,
	       region ? "touches %#llx+%llu, freed memory" : "touches %#llx+%llu, in no allocation",
	       (unsigned long long)address, (unsigned long long)bytes);
	return NULL;
}

uint8_t *memory_touch(struct memory *memory, const struct memory_access *access, uint64_t address, uint64_t bytes,
		      uint32_t use, char *message, size_t message_bytes)
{
	struct memory_region *region = live_region(memory, address, bytes, message, message_bytes);
	if (!region)
		return NULL;
	if (outside_operands(access, address, bytes, use)) {
		refuse(message, message_bytes, "touches %#llx+%llu, outside its operands", (unsigned long long)address,
		       (unsigned long long)bytes);
		return NULL;
	}
	uint64_t first = address - region->address, last = first + bytes;
	if (use & MEMORY_READ && !read_range(region, access, first, last, message, message_bytes))
		return NULL;
	if (use & MEMORY_WRITE && !write_range(region, access, first, last, message, message_bytes))
		return NULL;
	return region->data + first;
}

bool memory_kill(struct memory *memory, uint64_t address, uint64_t bytes, char *message, size_t message_bytes)
{
	struct memory_region *region = live_region(memory, address, bytes, message, message_bytes);
	if (!region)
		return false;
	uint64_t first = address - region->address, last = first + bytes;
	for (uint64_t i = first / MEMORY_GRANULE; i < granules(last); i++) {
		struct memory_granule *granule = &region->granule[i];
		uint32_t bits = granule_bits(i, first, last);
		granule->dead |= (uint8_t)(granule->valid & bits);
		granule->valid &= (uint8_t)~bits;
	}
	return true;
}
