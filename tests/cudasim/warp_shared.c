/*
 * warp_shared.c - shared memory of a block. Each 4 bytes remember who wrote and read them since the last barrier.
 */
#include "warp.h"

#include <string.h>

struct shared_granule {
	uint64_t writer; /* place */
	uint64_t reader;
	uint8_t valid;       /* bit i: byte i holds a value */
	uint8_t writer_bits; /* as in struct memory_granule */
	uint8_t reader_bits;
};

size_t shared_shadow_bytes(void)
{
	return (MAX_SHARED_BYTES / MEMORY_GRANULE + 1) * sizeof(struct shared_granule);
}

void shared_clear(struct block *block)
{
	memset(block->machine->shared_shadow, 0,
	       (block->shared_bytes / MEMORY_GRANULE + 1) * sizeof(struct shared_granule));
}

static bool shared_fail(struct warp *warp, const struct ptx_instruction *i, uint32_t lane, uint64_t offset,
			const char *what)
{
	warp_fail(warp, i, lane, LAUNCH_FAILED, "shared byte %llu %s", (unsigned long long)offset, what);
	return false;
}

static bool shared_read(struct warp *warp, const struct ptx_instruction *i, uint32_t lane, uint64_t offset,
			struct shared_granule *granule, uint32_t bits)
{
	uint64_t place = warp_place(warp, lane);
	if ((granule->valid & bits) != bits)
		return shared_fail(warp, i, lane, offset, "is read and was never written");
	if (granule->writer_bits & bits && place_conflict(granule->writer, place))
		return shared_fail(warp, i, lane, offset,
				   "is read while another thread writes it: no barrier lies in between");
	granule->reader = granule->reader_bits == bits ? place_join(granule->reader, place) : place;
	granule->reader_bits = (uint8_t)bits;
	return true;
}

static bool shared_write(struct warp *warp, const struct ptx_instruction *i, uint32_t lane, uint64_t offset,
			 struct shared_granule *granule, uint32_t bits, bool atomic, bool same_value)
{
	uint64_t place = warp_place(warp, lane);
	if (atomic)
		place = (place & ~(UINT64_C(0x7FF) << 27)) | (uint64_t)PLACE_ATOMIC << 27;
	if (granule->writer_bits & bits && place_conflict(granule->writer, place) &&
	    !(same_value && (granule->valid & bits) == bits))
		return shared_fail(warp, i, lane, offset, "is written by two threads: no barrier lies in between");
	if (granule->reader_bits & bits && place_conflict(granule->reader, place))
		return shared_fail(warp, i, lane, offset,
				   "is written while another thread reads it: no barrier lies in between");
	granule->writer = place;
	granule->writer_bits = (uint8_t)bits;
	granule->valid |= (uint8_t)bits;
	return true;
}

uint8_t *shared_access(struct warp *warp, const struct ptx_instruction *i, uint32_t lane, uint64_t offset,
		       uint32_t bytes, bool atomic, const uint8_t *value)
{
	struct block *block = warp->block;
	if (offset + bytes > block->shared_bytes || offset + bytes < offset) {
		warp_fail(warp, i, lane, LAUNCH_ILLEGAL_ADDRESS, "shared address %#llx is beyond the block's %u bytes",
			  (unsigned long long)offset, block->shared_bytes);
		return NULL;
	}
	uint8_t *data = block->machine->shared + offset;
	struct shared_granule *granule = &block->machine->shared_shadow[offset / MEMORY_GRANULE];
	uint32_t bits = bytes >= MEMORY_GRANULE ? 15 : ((1u << bytes) - 1) << (offset % MEMORY_GRANULE);
	for (uint32_t done = 0; done < bytes; done += MEMORY_GRANULE, granule++) {
		uint32_t piece = bytes < MEMORY_GRANULE ? bytes : MEMORY_GRANULE;
		if (!value && !atomic && !shared_read(warp, i, lane, offset + done, granule, bits))
			return NULL;
		if (atomic && (granule->valid & bits) != bits) {
			shared_fail(warp, i, lane, offset + done, "is read and was never written");
			return NULL;
		}
		if ((value || atomic) && !shared_write(warp, i, lane, offset + done, granule, bits, atomic,
						       value && same_bytes(value + done, data + done, piece)))
			return NULL;
	}
	return data;
}
