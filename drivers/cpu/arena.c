/* arena.c - the one region of the device, between two guard pages. */
#include "cpu/cpu.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What the system could still give without swapping; UINT64_MAX when it does not say. */
static uint64_t available_bytes(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	char line[128];
	unsigned long long kib = 0;
	uint64_t bytes = UINT64_MAX;
	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
			bytes = (uint64_t)kib << 10;
	if (file)
		fclose(file);
	return bytes;
}

/*
 * The arena ends exactly at the upper guard page, so that an access one byte behind it faults. Touching every page
 * here, at boot, means that no page fault can fail later.
 */
static enum tarn_status map_region(struct cpu_state *state, uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), available = available_bytes(), total;
	if (bytes > available)
		return tarn_fail(TARN_ENOMEM,
				 "cpu: an arena of %llu bytes is more than the %llu bytes of memory available",
				 (unsigned long long)bytes, (unsigned long long)available);
	if (!bytes_add(bytes, 3 * page, &total))
		return tarn_fail(TARN_ENOMEM, "cpu: an arena of %llu bytes cannot be addressed",
				 (unsigned long long)bytes);
	uint64_t body = (bytes + page - 1) / page * page;
	unsigned char *base = mmap(NULL, body + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		return tarn_fail(TARN_ENOMEM, "cpu: cannot map an arena of %llu bytes", (unsigned long long)bytes);
	if (body && mprotect(base + page, body, PROT_READ | PROT_WRITE)) {
		munmap(base, body + 2 * page);
		return tarn_fail(TARN_ENOMEM, "cpu: the system does not give %llu bytes for the arena",
				 (unsigned long long)bytes);
	}
	if (body)
		madvise(base + page, body, MADV_HUGEPAGE); /* only a hint: fewer TLB misses */
	state->mapping = base;
	state->mapping_bytes = body + 2 * page;
	state->arena = base + page + (body - bytes);
	memset(base + page, 0xFF, body);
	return TARN_OK;
}

enum tarn_status cpu_arena_reserve(struct cpu_state *state, uint64_t bytes, void *memory)
{
	if (state->arena)
		return tarn_fail(TARN_EINTERNAL, "cpu: the arena was reserved before; it is reserved once");
	if (bytes > UINT64_MAX / 2)
		return tarn_fail(TARN_ENOMEM, "cpu: an arena of %llu bytes cannot be addressed",
				 (unsigned long long)bytes);
	bytes = bytes_align(bytes);
	if (!memory) {
		enum tarn_status st = map_region(state, bytes);
		if (st)
			return st;
	} else {
		uintptr_t first = ((uintptr_t)memory + TARN_ALIGNMENT - 1) & ~(uintptr_t)(TARN_ALIGNMENT - 1);
		state->arena = (unsigned char *)memory + (first - (uintptr_t)memory);
	}
	state->arena_bytes = bytes;
	if (memory)
		memset(state->arena, 0xFF, bytes);
	return TARN_OK;
}

void cpu_arena_release(struct cpu_state *state)
{
	if (state->mapping)
		munmap(state->mapping, state->mapping_bytes);
	state->mapping = NULL;
	state->arena = NULL;
}

uint64_t cpu_arena_touched(const struct cpu_state *state)
{
	uint64_t end = state->arena_bytes, word;
	for (; end >= sizeof word; end -= sizeof word) {
		memcpy(&word, state->arena + end - sizeof word, sizeof word);
		if (word != UINT64_MAX)
			break;
	}
	while (end && state->arena[end - 1] == 0xFF)
		end--;
	return end;
}
