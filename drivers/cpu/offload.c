/* offload.c - tensors that wait outside the arena. */
#include "cpu/cpu.h"

#include <string.h>
#include <sys/mman.h>

/* One core's memcpy between regions that are not in its caches. */
#define COPY_BYTES_PER_SECOND 10000000000u

enum tarn_status cpu_reserve_host(struct device *device, uint64_t bytes)
{
	struct cpu_state *state = device->state;
	if (state->host)
		return tarn_fail(TARN_EINTERNAL, "cpu: the host region was reserved before; it is reserved once");
	void *region = bytes <= SIZE_MAX ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
					 : MAP_FAILED;
	if (region == MAP_FAILED)
		return tarn_fail(TARN_ENOMEM, "cpu: cannot map a host region of %llu bytes for offloaded tensors",
				 (unsigned long long)bytes);
	memset(region, 0xFF, bytes); /* no page is touched for the first time in a step */
	state->host = region;
	state->host_bytes = bytes;
	return TARN_OK;
}

void cpu_release_host(struct cpu_state *state)
{
	if (state->host)
		munmap(state->host, state->host_bytes);
	state->host = NULL;
}

static enum tarn_status check_copy(const struct cpu_state *state, const char *what, uint64_t offset,
				   uint64_t host_offset, uint64_t bytes, uint32_t slot)
{
	if (!state->arena || offset > state->arena_bytes || bytes > state->arena_bytes - offset || !state->host ||
	    host_offset > state->host_bytes || bytes > state->host_bytes - host_offset)
		return tarn_fail(TARN_EINTERNAL,
				 "cpu: a %s of %llu bytes at %llu, host offset %llu, is outside the arena of %llu or "
				 "the host region of %llu",
				 what, (unsigned long long)bytes, (unsigned long long)offset,
				 (unsigned long long)host_offset, (unsigned long long)state->arena_bytes,
				 (unsigned long long)state->host_bytes);
	if (slot >= DRIVER_COPY_SLOTS || state->copying[slot])
		return tarn_fail(TARN_EINTERNAL, "cpu: a %s in slot %u of %u, which is %s", what, slot,
				 DRIVER_COPY_SLOTS, slot < DRIVER_COPY_SLOTS ? "in flight" : "too high");
	return TARN_OK;
}

enum tarn_status cpu_store(struct device *device, uint64_t offset, uint64_t host_offset, uint64_t bytes, uint32_t slot)
{
	struct cpu_state *state = device->state;
	enum tarn_status st = check_copy(state, "store", offset, host_offset, bytes, slot);
	if (st)
		return st;
	memcpy(state->host + host_offset, state->arena + offset, bytes);
	state->copying[slot] = true;
	return TARN_OK;
}

enum tarn_status cpu_fetch(struct device *device, uint64_t offset, uint64_t host_offset, uint64_t bytes, uint32_t slot)
{
	struct cpu_state *state = device->state;
	enum tarn_status st = check_copy(state, "fetch", offset, host_offset, bytes, slot);
	if (st)
		return st;
	memcpy(state->arena + offset, state->host + host_offset, bytes);
	state->copying[slot] = true;
	return TARN_OK;
}

enum tarn_status cpu_wait(struct device *device, uint32_t slot)
{
	struct cpu_state *state = device->state;
	if (slot >= DRIVER_COPY_SLOTS || !state->copying[slot])
		return tarn_fail(TARN_EINTERNAL, "cpu: a wait for slot %u, where no copy is in flight", slot);
	state->copying[slot] = false;
	return TARN_OK;
}

uint64_t cpu_copy_bandwidth(const struct device *device)
{
	(void)device;
	return COPY_BYTES_PER_SECOND;
}
