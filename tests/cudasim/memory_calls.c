/*
 * memory_calls.c - entry points of the Driver API: memory of the device and page-locked memory of the host.
 */
#include "simulator.h"

#include <string.h>

SIM_EXPORT int cuMemGetInfo_v2(size_t *free_bytes, size_t *total);
SIM_EXPORT int cuMemAlloc_v2(uint64_t *address, size_t bytes);
SIM_EXPORT int cuMemFree_v2(uint64_t address);
SIM_EXPORT int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags);
SIM_EXPORT int cuMemFreeHost(void *memory);
SIM_EXPORT int cuDeviceGetGraphMemAttribute(int device, int attribute, void *value);
SIM_EXPORT int cuDeviceGetDefaultMemPool(void **pool, int device);
SIM_EXPORT int cuMemPoolGetAttribute(void *pool, int attribute, void *value);
SIM_EXPORT int cuMemPoolSetAttribute(void *pool, int attribute, void *value);

static uint64_t whole_granules(uint64_t bytes)
{
	return (bytes + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
}

static int memory_info(size_t *free_bytes, size_t *total)
{
	const struct simulator *sim = &simulator;
	*free_bytes = (sim->config.total - sim->used_bytes - sim->config.neighbour) / GRANULARITY * GRANULARITY;
	*total = sim->config.total;
	return 0;
}
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	CALL(0, memory_info(free_bytes, total));
}

static int allocate(uint64_t *address, size_t bytes)
{
	if (bytes == 0)
		return SIM_CUDA_ERROR_INVALID_VALUE;
	if (!device_take(whole_granules(bytes)))
		return SIM_CUDA_ERROR_OUT_OF_MEMORY;
	struct memory_region *region = memory_allocate(&simulator.memory, bytes, MEMORY_DEVICE);
	if (!region) {
		simulator.used_bytes -= whole_granules(bytes);
		return SIM_CUDA_ERROR_OUT_OF_MEMORY;
	}
	simulator.device_allocations++;
	*address = region->address;
	return 0;
}
int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
	CALL(CALL_NOT_IN_CAPTURE | CALL_ALLOCATES, allocate(address, bytes));
}

static int free_memory(uint64_t address, enum memory_kind kind, const char *function)
{
	int error = drain(NULL); /* what is queued may still use it, so the call waits */
	if (error)
		return error;
	struct memory_region *region = memory_find(&simulator.memory, address, 1);
	if (!region || region->kind != kind || region->address != address) {
		note_failure("%s(%#llx): no allocation begins there", function, (unsigned long long)address);
		return SIM_CUDA_ERROR_INVALID_VALUE;
	}
	if (!region->alive) {
		note_failure("%s(%#llx): freed twice", function, (unsigned long long)address);
		return SIM_CUDA_ERROR_INVALID_VALUE;
	}
	if (kind == MEMORY_DEVICE) {
		simulator.used_bytes -= whole_granules(region->bytes);
		simulator.device_allocations--;
	} else {
		simulator.host_allocations--;
	}
	memory_release(region);
	return 0;
}
int cuMemFree_v2(uint64_t address)
{
	CALL(CALL_NOT_IN_CAPTURE, address ? free_memory(address, MEMORY_DEVICE, "cuMemFree") : 0);
}

static int allocate_host(void **memory, size_t bytes)
{
	struct memory_region *region = bytes ? memory_allocate(&simulator.memory, bytes, MEMORY_HOST) : NULL;
	if (!region)
		return bytes ? SIM_CUDA_ERROR_OUT_OF_MEMORY : SIM_CUDA_ERROR_INVALID_VALUE;
	simulator.host_allocations++;
	*memory = region->data;
	return 0;
}
int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
	(void)flags;
	CALL(CALL_NOT_IN_CAPTURE | CALL_ALLOCATES, allocate_host(memory, bytes));
}
int cuMemFreeHost(void *memory)
{
	CALL(CALL_NOT_IN_CAPTURE, free_memory((uint64_t)(uintptr_t)memory, MEMORY_HOST, "cuMemFreeHost"));
}

/* Memory of graphs and of stream-ordered pools: there is none, as nothing here takes any. */
static int no_bytes(void *value)
{
	memset(value, 0, sizeof(uint64_t));
	return 0;
}
int cuDeviceGetGraphMemAttribute(int device, int attribute, void *value)
{
	(void)device;
	(void)attribute;
	CALL(0, no_bytes(value));
}
static int default_pool(void **pool)
{
	*pool = &simulator.memory;
	return 0;
}
int cuDeviceGetDefaultMemPool(void **pool, int device)
{
	(void)device;
	CALL(0, default_pool(pool));
}
int cuMemPoolGetAttribute(void *pool, int attribute, void *value)
{
	(void)pool;
	(void)attribute;
	CALL(0, no_bytes(value));
}
int cuMemPoolSetAttribute(void *pool, int attribute, void *value)
{
	(void)attribute;
	(void)value;
	CALL(0, pool == &simulator.memory ? 0 : SIM_CUDA_ERROR_INVALID_VALUE);
}
