/*
 * cuda_copy.c - copies between the host and the arena.
 *
 * The host writes and reads through a ring of pinned memory: a slot is used again when the event behind its last copy
 * has passed. Offloaded tensors go to a pinned region of their own by the copy stream, beside the compute stream: an
 * event makes a copy wait for what was launched before it, another makes later launches wait for the copy.
 */
#include "cuda/cuda_driver.h"

#include <string.h>

enum tarn_status cuda_copy_open(struct cuda_state *state)
{
	enum tarn_status st = CU(state, cuStreamCreateWithPriority, &state->compute, ABI_CU_STREAM_NON_BLOCKING, 0);
	if (!st)
		st = CU(state, cuStreamCreateWithPriority, &state->copy, ABI_CU_STREAM_NON_BLOCKING, 0);
	for (uint32_t i = 0; i < CUDA_RING_SLOTS && !st; i++) {
		st = CU(state, cuMemHostAlloc, &state->ring[i].memory, CUDA_RING_BYTES, 0);
		if (!st)
			st = CU(state, cuEventCreate, &state->ring[i].event, ABI_CU_EVENT_DISABLE_TIMING);
	}
	return st;
}

/* Errors on the way out change nothing: the first failure is already kept. */
void cuda_copy_close(struct cuda_state *state)
{
	const struct cuda_calls *cu = &state->libraries.cu;
	for (uint32_t i = 0; i < DRIVER_COPY_SLOTS; i++) {
		if (state->slot[i].ready)
			cu->cuEventDestroy(state->slot[i].ready);
		if (state->slot[i].done)
			cu->cuEventDestroy(state->slot[i].done);
	}
	if (state->host_region)
		cu->cuMemFreeHost(state->host_region);
	for (uint32_t i = 0; i < CUDA_RING_SLOTS; i++) {
		if (state->ring[i].event)
			cu->cuEventDestroy(state->ring[i].event);
		if (state->ring[i].memory)
			cu->cuMemFreeHost(state->ring[i].memory);
	}
	if (state->copy)
		cu->cuStreamDestroy(state->copy);
	if (state->compute)
		cu->cuStreamDestroy(state->compute);
}

static enum tarn_status check_range(const struct cuda_state *state, const char *what, uint64_t offset, uint64_t bytes)
{
	if (state->arena && offset <= state->arena_bytes && bytes <= state->arena_bytes - offset)
		return TARN_OK;
	return tarn_fail(TARN_EINTERNAL, "cuda: %s of %llu bytes at offset %llu is outside the arena of %llu", what,
			 (unsigned long long)bytes, (unsigned long long)offset, (unsigned long long)state->arena_bytes);
}

/* The next slot of the ring, when no copy uses it any more. */
static enum tarn_status take_slot(struct cuda_state *state, uint32_t *slot)
{
	uint32_t i = *slot = state->ring_next;
	state->ring_next = (i + 1) % CUDA_RING_SLOTS;
	if (!state->ring[i].busy)
		return TARN_OK;
	state->ring[i].busy = false;
	return CU(state, cuEventSynchronize, state->ring[i].event);
}

enum tarn_status cuda_write(struct device *device, uint64_t offset, const void *source, uint64_t bytes)
{
	struct cuda_state *state = device->state;
	enum tarn_status st = check_range(state, "a write", offset, bytes);
	const unsigned char *from = source;
	for (uint64_t done = 0; done < bytes && !st;) {
		uint64_t part = bytes - done < CUDA_RING_BYTES ? bytes - done : CUDA_RING_BYTES;
		uint32_t slot;
		st = take_slot(state, &slot);
		if (st)
			return st;
		memcpy(state->ring[slot].memory, from + done, part);
		st = CU(state, cuMemcpyHtoDAsync, state->arena + offset + done, state->ring[slot].memory, part,
			state->compute);
		if (!st)
			st = CU(state, cuEventRecord, state->ring[slot].event, state->compute);
		state->ring[slot].busy = true;
		done += part;
	}
	return st;
}

enum tarn_status cuda_read(struct device *device, uint64_t offset, void *target, uint64_t bytes)
{
	struct cuda_state *state = device->state;
	enum tarn_status st = check_range(state, "a read", offset, bytes);
	unsigned char *to = target;
	for (uint64_t done = 0; done < bytes && !st;) {
		uint64_t part = bytes - done < CUDA_RING_BYTES ? bytes - done : CUDA_RING_BYTES;
		uint32_t slot;
		st = take_slot(state, &slot);
		if (!st)
			st = CU(state, cuMemcpyDtoHAsync, state->ring[slot].memory, state->arena + offset + done, part,
				state->compute);
		if (!st)
			st = CU(state, cuStreamSynchronize, state->compute);
		if (st)
			return st;
		memcpy(to + done, state->ring[slot].memory, part);
		done += part;
	}
	return st;
}

enum tarn_status cuda_poison(struct device *device, uint64_t offset, uint64_t bytes)
{
	struct cuda_state *state = device->state;
	enum tarn_status st = check_range(state, "a poisoning", offset, bytes);
	if (!st)
		st = CU(state, cuMemsetD8Async, state->arena + offset, 0xFF, bytes, state->compute);
	return st ? st : watch_dead(state, state->arena + offset, bytes);
}

enum tarn_status cuda_reserve_host(struct device *device, uint64_t bytes)
{
	struct cuda_state *state = device->state;
	if (state->host_region)
		return tarn_fail(TARN_EINTERNAL, "cuda: the host region was reserved before; it is reserved once");
	void *memory = NULL;
	enum tarn_status st = CU(state, cuMemHostAlloc, &memory, bytes, 0);
	if (st)
		return tarn_fail_prefix(st, "a host region of %llu bytes", (unsigned long long)bytes);
	state->host_region = memory;
	state->host_bytes = bytes;
	memset(memory, 0, bytes);
	for (uint32_t i = 0; i < DRIVER_COPY_SLOTS && !st; i++) {
		st = CU(state, cuEventCreate, &state->slot[i].ready, ABI_CU_EVENT_DISABLE_TIMING);
		if (!st)
			st = CU(state, cuEventCreate, &state->slot[i].done, ABI_CU_EVENT_DISABLE_TIMING);
	}
	return st;
}

/* The copy stream goes on only when everything launched so far is done. */
static enum tarn_status begin_copy(struct cuda_state *state, const char *what, uint64_t offset, uint64_t host_offset,
				   uint64_t bytes, uint32_t slot)
{
	enum tarn_status st = check_range(state, what, offset, bytes);
	if (!st && (host_offset > state->host_bytes || bytes > state->host_bytes - host_offset))
		st = tarn_fail(TARN_EINTERNAL,
			       "cuda: %s of %llu bytes at host offset %llu is outside the host region of %llu", what,
			       (unsigned long long)bytes, (unsigned long long)host_offset,
			       (unsigned long long)state->host_bytes);
	if (!st && slot >= DRIVER_COPY_SLOTS)
		st = tarn_fail(TARN_EINTERNAL, "cuda: %s in slot %u of %u", what, slot, DRIVER_COPY_SLOTS);
	if (!st)
		st = CU(state, cuEventRecord, state->slot[slot].ready, state->compute);
	return st ? st : CU(state, cuStreamWaitEvent, state->copy, state->slot[slot].ready, 0);
}

enum tarn_status cuda_store(struct device *device, uint64_t offset, uint64_t host_offset, uint64_t bytes, uint32_t slot)
{
	struct cuda_state *state = device->state;
	enum tarn_status st = begin_copy(state, "a store", offset, host_offset, bytes, slot);
	if (!st)
		st = CU(state, cuMemcpyDtoHAsync, state->host_region + host_offset, state->arena + offset, bytes,
			state->copy);
	return st ? st : CU(state, cuEventRecord, state->slot[slot].done, state->copy);
}

enum tarn_status cuda_fetch(struct device *device, uint64_t offset, uint64_t host_offset, uint64_t bytes, uint32_t slot)
{
	struct cuda_state *state = device->state;
	enum tarn_status st = begin_copy(state, "a fetch", offset, host_offset, bytes, slot);
	if (!st)
		st = CU(state, cuMemcpyHtoDAsync, state->arena + offset, state->host_region + host_offset, bytes,
			state->copy);
	return st ? st : CU(state, cuEventRecord, state->slot[slot].done, state->copy);
}

enum tarn_status cuda_wait(struct device *device, uint32_t slot)
{
	struct cuda_state *state = device->state;
	if (slot >= DRIVER_COPY_SLOTS)
		return tarn_fail(TARN_EINTERNAL, "cuda: a wait for slot %u of %u", slot, DRIVER_COPY_SLOTS);
	return CU(state, cuStreamWaitEvent, state->compute, state->slot[slot].done, 0);
}

/* From the top downwards, a piece of the ring at a time. */
static uint64_t find_touched(struct device *device)
{
	struct cuda_state *state = device->state;
	static const uint64_t piece = 64 << 10;
	unsigned char image[64 << 10];
	for (uint64_t end = state->arena_bytes; end;) {
		uint64_t begin = end > piece ? end - piece : 0;
		if (cuda_read(device, begin, image, end - begin))
			return state->arena_bytes; /* unknown: say the most it can be */
		for (; end > begin; end--)
			if (image[end - 1 - begin] != 0xFF)
				return end;
	}
	return 0;
}

/* Reads all of the arena, whatever is in it. */
uint64_t cuda_touched_bytes(struct device *device)
{
	struct cuda_state *state = device->state;
	if (watch_raw_begin(state))
		return state->arena_bytes;
	uint64_t bytes = find_touched(device);
	(void)watch_end(state);
	return bytes;
}
