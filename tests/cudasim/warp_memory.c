/*
 * warp_memory.c - loads, stores and atomic operations of a warp, lane by lane, each checked against the shadow.
 */
#include "ptx_internal.h"
#include "warp.h"

#include <string.h>

#define REG(number) (warp->reg[number])

static uint64_t lane_address(const struct warp *warp, const struct ptx_instruction *i, uint32_t lane)
{
	const union lanes *base = &REG(i->source[4]);
	return (i->wide_address ? base->u64[lane] : base->u32[lane]) + (uint64_t)i->displacement;
}

/* ---- Device memory ---- */

/* Always false. */
static bool global_fail(struct warp *warp, const struct ptx_instruction *i, uint32_t lane, uint64_t address,
			const char *what)
{
	warp_fail(warp, i, lane, LAUNCH_ILLEGAL_ADDRESS, "address %#llx %s", (unsigned long long)address, what);
	return false;
}

static const struct memory_region *find_region(struct warp *warp, const struct ptx_instruction *i, uint32_t lane,
					       uint64_t address, uint32_t bytes)
{
	struct block *block = warp->block;
	const struct memory_region *region = block->region;
	if (region && address >= region->address && address - region->address <= region->bytes - bytes)
		return region;
	region = memory_find(block->launch->memory, address, bytes);
	if (!region || !region->alive || region->kind == MEMORY_HOST) {
		global_fail(warp, i, lane, address,
			    !region         ? "is in no allocation"
			    : region->alive ? "is host memory"
					    : "is freed memory");
		return NULL;
	}
	block->region = region;
	return region;
}

static bool inside_operands(struct block *block, uint64_t address, uint32_t bytes, uint32_t use)
{
	const struct memory_access *access = &block->launch->access;
	const struct memory_range *range = &access->range[block->range];
	if (address >= range->address && address + bytes <= range->address + range->bytes && (range->use & use) == use)
		return true;
	for (uint32_t k = 0; k < access->ranges; k++) {
		range = &access->range[k];
		if (address >= range->address && address + bytes <= range->address + range->bytes &&
		    (range->use & use) == use) {
			block->range = k;
			return true;
		}
	}
	return false;
}

static bool note_read(struct warp *warp, const struct ptx_instruction *i, uint32_t lane, uint64_t address,
		      struct memory_granule *granule, uint32_t bits)
{
	const struct memory_access *access = &warp->block->launch->access;
	uint64_t place = warp_place(warp, lane);
	if ((granule->valid & bits) != bits)
		return global_fail(warp, i, lane, address,
				   granule->dead & bits ? "is read after its value was declared dead"
							: "is read and was never written");
	if (granule->writer == access->command) {
		if (granule->writer_bits & bits && place_conflict(granule->writer_place, place))
			return global_fail(warp, i, lane, address,
					   "is read while another thread of the same launch writes it");
	} else if (!memory_ordered(access, granule->writer)) {
		return global_fail(
			warp, i, lane, address,
			"is read while a command of another stream may still write it: no event orders them");
	}
	bool again = granule->reader[0] == access->command || granule->reader[1] == access->command;
	if (!again)
		memory_note_reader(granule, access);
	granule->reader_place =
		again && granule->reader_bits == bits ? place_join(granule->reader_place, place) : place;
	granule->reader_bits = (uint8_t)bits;
	return true;
}

static bool note_write(struct warp *warp, const struct ptx_instruction *i, uint32_t lane, uint64_t address,
		       struct memory_granule *granule, uint32_t bits, bool atomic, bool same_value)
{
	const struct memory_access *access = &warp->block->launch->access;
	uint64_t place = warp_place(warp, lane);
	if (atomic)
		place = (place & ~(UINT64_C(0x7FF) << 27)) | (uint64_t)PLACE_ATOMIC << 27;
	if (granule->writer == access->command) {
		/* Two threads that write the same value are no harm. */
		if (granule->writer_bits & bits && place_conflict(granule->writer_place, place) &&
		    !(same_value && (granule->valid & bits) == bits))
			return global_fail(warp, i, lane, address, "is written by two threads of the same launch");
		if (atomic && place_thread(granule->writer_place) == PLACE_ATOMIC)
			place = place_join(granule->writer_place, place);
	} else if (!memory_ordered(access, granule->writer)) {
		return global_fail(
			warp, i, lane, address,
			"is written while a command of another stream may still write it: no event orders them");
	}
	for (uint32_t k = 0; k < 2; k++) {
		if (granule->reader[k] == access->command) {
			if (granule->reader_bits & bits && place_conflict(granule->reader_place, place))
				return global_fail(warp, i, lane, address,
						   "is written while another thread of the same launch reads it");
		} else if (!memory_ordered(access, granule->reader[k])) {
			return global_fail(
				warp, i, lane, address,
				"is written while a command of another stream may still read it: no event orders them");
		}
	}
	granule->writer = access->command;
	granule->writer_place = place;
	granule->writer_bits = (uint8_t)bits;
	granule->valid |= (uint8_t)bits;
	granule->dead &= (uint8_t)~bits;
	return true;
}

/* The data of one lane's access to device memory. value: what a store writes; NULL for a load. */
static uint8_t *global_access(struct warp *warp, const struct ptx_instruction *i, uint32_t lane, uint64_t address,
			      uint32_t bytes, bool atomic, const uint8_t *value)
{
	const struct memory_region *region = find_region(warp, i, lane, address, bytes);
	if (!region)
		return NULL;
	uint8_t *data = region->data + (address - region->address);
	if (region->kind == MEMORY_MODULE) {
		if (!value && !atomic)
			return data;
		global_fail(warp, i, lane, address, "is a module's variable");
		return NULL;
	}
	uint32_t use = atomic ? MEMORY_READ | MEMORY_WRITE : value ? MEMORY_WRITE : MEMORY_READ;
	/* What a launch has written to an output it may read there again. */
	if (warp->block->launch->access.ranges && !inside_operands(warp->block, address, bytes, use) &&
	    !(use == MEMORY_READ && inside_operands(warp->block, address, bytes, MEMORY_WRITE))) {
		global_fail(warp, i, lane, address,
			    use == MEMORY_READ ? "is outside the operands that this launch reads"
					       : "is outside the operands that this launch writes");
		return NULL;
	}
	struct memory_granule *granule = &region->granule[(address - region->address) / MEMORY_GRANULE];
	uint32_t bits = bytes >= MEMORY_GRANULE ? 15 : ((1u << bytes) - 1) << (address % MEMORY_GRANULE);
	for (uint32_t done = 0; done < bytes; done += MEMORY_GRANULE, granule++) {
		uint32_t piece = bytes < MEMORY_GRANULE ? bytes : MEMORY_GRANULE;
		if (!value && !atomic && !note_read(warp, i, lane, address + done, granule, bits))
			return NULL;
		if (atomic && (granule->valid & bits) != bits) {
			global_fail(warp, i, lane, address + done, "is read and was never written, or is dead");
			return NULL;
		}
		if ((value || atomic) && !note_write(warp, i, lane, address + done, granule, bits, atomic,
						     value && same_bytes(value + done, data + done, piece)))
			return NULL;
	}
	return data;
}

/* ---- Any space ---- */

static uint8_t *local_access(struct warp *warp, const struct ptx_instruction *i, uint32_t lane, uint64_t offset,
			     uint32_t bytes)
{
	const struct block *block = warp->block;
	uint32_t size = block->kernel->local_bytes;
	if (offset + bytes > size || offset + bytes < offset) {
		warp_fail(warp, i, lane, LAUNCH_ILLEGAL_ADDRESS,
			  "local address %#llx is beyond the %u bytes of a thread", (unsigned long long)offset, size);
		return NULL;
	}
	return block->machine->local + (uint64_t)(warp->number * WARP_LANES + lane) * size + offset;
}

static uint8_t *access_data(struct warp *warp, const struct ptx_instruction *i, uint32_t lane, uint32_t bytes,
			    bool atomic, const uint8_t *value)
{
	uint64_t address = lane_address(warp, i, lane);
	if (address & (bytes - 1)) {
		warp_fail(warp, i, lane, LAUNCH_MISALIGNED, "address %#llx is not a multiple of %u",
			  (unsigned long long)address, bytes);
		return NULL;
	}
	enum ptx_space space = (enum ptx_space)i->space;
	if (space == PTX_GENERIC && (address & WINDOW_MASK) == SHARED_WINDOW) {
		space = PTX_SHARED;
		address -= SHARED_WINDOW;
	} else if (space == PTX_GENERIC && (address & WINDOW_MASK) == LOCAL_WINDOW) {
		space = PTX_LOCAL;
		address -= LOCAL_WINDOW;
	}
	if (space == PTX_SHARED)
		return shared_access(warp, i, lane, address, bytes, atomic, value);
	if (space == PTX_LOCAL)
		return local_access(warp, i, lane, address, bytes);
	return global_access(warp, i, lane, address, bytes, atomic, value);
}

static void put_lane(union lanes *reg, const struct ptx_instruction *i, uint32_t lane, const uint8_t *data)
{
	uint64_t value = 0;
	memcpy(&value, data, i->bytes);
	if (i->type == PTX_S8)
		value = (uint64_t)(int8_t)value;
	else if (i->type == PTX_S16)
		value = (uint64_t)(int16_t)value;
	else if (i->type == PTX_S32)
		value = (uint64_t)(int32_t)value;
	if (i->from == PTX_U64)
		reg->u64[lane] = value;
	else
		reg->u32[lane] = (uint32_t)value;
}

void warp_load(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	uint32_t bytes = (uint32_t)i->bytes * i->elements;
	for (uint32_t left = mask; left; left &= left - 1) {
		uint32_t lane = (uint32_t)__builtin_ctz(left);
		const uint8_t *data = access_data(warp, i, lane, bytes, false, NULL);
		if (!data)
			return;
		if (bytes == 4 && i->from == PTX_U32) {
			memcpy(&REG(i->target[0]).u32[lane], data, 4);
			continue;
		}
		for (uint32_t k = 0; k < i->elements; k++)
			put_lane(&REG(i->target[k]), i, lane, data + k * i->bytes);
	}
}

void warp_store(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	uint32_t bytes = (uint32_t)i->bytes * i->elements;
	for (uint32_t left = mask; left; left &= left - 1) {
		uint32_t lane = (uint32_t)__builtin_ctz(left);
		uint8_t value[32];
		for (uint32_t k = 0; k < i->elements; k++) {
			const union lanes *reg = &REG(i->source[k]);
			uint64_t element = i->from == PTX_U64 ? reg->u64[lane] : reg->u32[lane];
			memcpy(value + k * i->bytes, &element, i->bytes);
		}
		uint8_t *data = access_data(warp, i, lane, bytes, false, value);
		if (!data)
			return;
		memcpy(data, value, bytes);
	}
}

void warp_load_parameter(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	const struct block *block = warp->block;
	uint32_t bytes = (uint32_t)i->bytes * i->elements;
	for (uint32_t left = mask; left; left &= left - 1) {
		uint32_t lane = (uint32_t)__builtin_ctz(left);
		uint64_t offset = lane_address(warp, i, lane);
		if (offset + bytes > block->kernel->parameter_bytes || offset % bytes != 0) {
			warp_fail(warp, i, lane, LAUNCH_ILLEGAL_ADDRESS, "parameter offset %llu of %u bytes",
				  (unsigned long long)offset, block->kernel->parameter_bytes);
			return;
		}
		for (uint32_t k = 0; k < i->elements; k++)
			put_lane(&REG(i->target[k]), i, lane, block->launch->parameters + offset + k * i->bytes);
	}
}

/* ---- Atomic operations on integers ---- */

static uint64_t combine(const struct ptx_instruction *i, uint64_t old, uint64_t a, uint64_t b)
{
	bool is_signed = i->type == PTX_S32 || i->type == PTX_S64;
	bool wide = i->bytes == 8;
	int64_t signed_old = wide ? (int64_t)old : (int32_t)old, signed_a = wide ? (int64_t)a : (int32_t)a;
	bool less = is_signed ? signed_old < signed_a : old < a;
	switch (i->comparison) {
	case 'a':
		return old + a;
	case 'm':
		return less ? old : a;
	case 'M':
		return less ? a : old;
	case '&':
		return old & a;
	case '|':
		return old | a;
	case '^':
		return old ^ a;
	case 'x':
		return a;
	default: /* compare and swap */
		return old == a ? b : old;
	}
}

void warp_atomic(struct warp *warp, const struct ptx_instruction *i, uint32_t mask)
{
	bool wide = i->bytes == 8;
	for (uint32_t left = mask; left; left &= left - 1) {
		uint32_t lane = (uint32_t)__builtin_ctz(left);
		uint8_t *data = access_data(warp, i, lane, i->bytes, true, NULL);
		if (!data)
			return;
		const union lanes *first = &REG(i->source[0]), *second = &REG(i->source[1]);
		uint64_t a = wide ? first->u64[lane] : first->u32[lane];
		uint64_t b = i->comparison != 'c' ? 0 : wide ? second->u64[lane] : second->u32[lane];
		uint64_t old = 0;
		memcpy(&old, data, i->bytes);
		uint64_t result = combine(i, old, a, b);
		memcpy(data, &result, i->bytes);
		if (wide)
			REG(i->target[0]).u64[lane] = old;
		else
			REG(i->target[0]).u32[lane] = (uint32_t)old;
	}
}
