/*
 * context_calls.c - entry points of the Driver API: the device, its context, limits, names of errors.
 */
#include "simulator.h"

#include <stdio.h>
#include <string.h>

SIM_EXPORT int cuInit(unsigned flags);
SIM_EXPORT int cuDriverGetVersion(int *version);
SIM_EXPORT int cuDeviceGetCount(int *count);
SIM_EXPORT int cuDeviceGet(int *device, int ordinal);
SIM_EXPORT int cuDeviceGetName(char *name, int bytes, int device);
SIM_EXPORT int cuDeviceGetPCIBusId(char *text, int bytes, int device);
SIM_EXPORT int cuDeviceGetUuid_v2(void *uuid, int device);
SIM_EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device);
SIM_EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device);
SIM_EXPORT int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags);
SIM_EXPORT int cuDevicePrimaryCtxRetain(void **context, int device);
SIM_EXPORT int cuDevicePrimaryCtxRelease_v2(int device);
SIM_EXPORT int cuCtxSetCurrent(void *context);
SIM_EXPORT int cuCtxGetCurrent(void **context);
SIM_EXPORT int cuCtxSetLimit(int limit, size_t value);
SIM_EXPORT int cuCtxGetLimit(size_t *value, int limit);
SIM_EXPORT int cuCtxSynchronize(void);
SIM_EXPORT int cuGetErrorName(int error, const char **name);
SIM_EXPORT int cuGetErrorString(int error, const char **text);

static int initialize(unsigned flags)
{
	struct simulator *sim = &simulator;
	if (flags)
		return SIM_CUDA_ERROR_INVALID_VALUE;
	if (sim->initialized)
		return 0;
	sim->initialized = true;
	sim->slot_used[0] = true;
	/* One more than may be queued: the command at work. */
	size_t commands = sim->config.queue + 1;
	sim->command_pool = host_zeroed(commands * sizeof *sim->command_pool);
	for (size_t i = 0; i < commands; i++) {
		sim->command_pool[i].next = sim->free_command;
		sim->free_command = &sim->command_pool[i];
	}
	return 0;
}
int cuInit(unsigned flags)
{
	CALL(CALL_NO_CONTEXT, initialize(flags));
}

static int set_int(int *target, int value)
{
	*target = value;
	return 0;
}
int cuDriverGetVersion(int *version)
{
	CALL(CALL_ANYTIME, set_int(version, (int)simulator.config.driver));
}
int cuDeviceGetCount(int *count)
{
	CALL(CALL_NO_CONTEXT, set_int(count, 1));
}
int cuDeviceGet(int *device, int ordinal)
{
	CALL(CALL_NO_CONTEXT, ordinal == 0 ? set_int(device, 0) : SIM_CUDA_ERROR_INVALID_DEVICE);
}

static int get_name(char *name, int bytes)
{
	snprintf(name, (size_t)bytes, "%s", simulator.config.name);
	return 0;
}
int cuDeviceGetName(char *name, int bytes, int device)
{
	(void)device;
	CALL(CALL_NO_CONTEXT, get_name(name, bytes));
}

static int get_bus_id(char *text, int bytes)
{
	snprintf(text, (size_t)bytes, "%s", SIM_BUS_ID);
	return 0;
}
int cuDeviceGetPCIBusId(char *text, int bytes, int device)
{
	(void)device;
	CALL(CALL_NO_CONTEXT, get_bus_id(text, bytes));
}

static int get_uuid(void *uuid)
{
	memset(uuid, 0x5A, 16);
	return 0;
}
int cuDeviceGetUuid_v2(void *uuid, int device)
{
	(void)device;
	CALL(CALL_NO_CONTEXT, get_uuid(uuid));
}

static int get_attribute(int *value, int attribute)
{
	const struct config *config = &simulator.config;
	switch (attribute) {
	case SIM_CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		return set_int(value, MAX_BLOCK_THREADS);
	case SIM_CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
		return set_int(value, 48 << 10);
	case SIM_CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
		return set_int(value, MAX_SHARED_BYTES);
	case SIM_CU_DEVICE_ATTRIBUTE_WARP_SIZE:
		return set_int(value, WARP_LANES);
	case SIM_CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
		return set_int(value, 1980000);
	case SIM_CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		return set_int(value, (int)config->multiprocessors);
	case SIM_CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
		return set_int(value, 3201000);
	case SIM_CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
		return set_int(value, 6144);
	case SIM_CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
		return set_int(value, 60 << 20);
	case SIM_CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
		return set_int(value, 2048);
	case SIM_CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
		return set_int(value, 2);
	case SIM_CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
	case SIM_CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
		return set_int(value, 1);
	case SIM_CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
		return set_int(value, 0);
	case SIM_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		return set_int(value, (int)config->major);
	case SIM_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
		return set_int(value, (int)config->minor);
	default:
		note_failure("cuDeviceGetAttribute: the simulated device does not know attribute %d", attribute);
		return SIM_CUDA_ERROR_INVALID_VALUE;
	}
}
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	(void)device;
	CALL(CALL_NO_CONTEXT, get_attribute(value, attribute));
}

static int set_size(size_t *target, size_t value)
{
	*target = value;
	return 0;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	(void)device;
	CALL(CALL_NO_CONTEXT, set_size(bytes, simulator.config.total));
}

int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags)
{
	(void)flags;
	CALL(CALL_NO_CONTEXT, device == 0 ? 0 : SIM_CUDA_ERROR_INVALID_DEVICE);
}

static int retain(void **context)
{
	struct simulator *sim = &simulator;
	if (sim->context_users == 0 && !hidden_take("the context", sim->config.context))
		return SIM_CUDA_ERROR_OUT_OF_MEMORY;
	sim->context_users++;
	*context = sim;
	return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device)
{
	(void)device;
	CALL(CALL_NO_CONTEXT | CALL_ALLOCATES, retain(context));
}

/* Everything of the context goes with it; what was not given back before is a leak. */
static int release(void)
{
	struct simulator *sim = &simulator;
	if (sim->context_users == 0)
		return SIM_CUDA_ERROR_INVALID_CONTEXT;
	if (--sim->context_users)
		return 0;
	hidden_give(sim->config.context);
	sim->context_current = false;
	if (!sim->sticky && *sim_leaks())
		note_failure("the context is released while there are %s", sim_leaks());
	return 0;
}
int cuDevicePrimaryCtxRelease_v2(int device)
{
	(void)device;
	CALL(simulator.sticky ? CALL_ANYTIME : CALL_NO_CONTEXT, release());
}

static int set_current(void *context)
{
	if (context && context != &simulator)
		return SIM_CUDA_ERROR_INVALID_CONTEXT;
	simulator.context_current = context != NULL;
	return 0;
}
int cuCtxSetCurrent(void *context)
{
	CALL(CALL_NO_CONTEXT, set_current(context));
}

static int get_current(void **context)
{
	*context = simulator.context_current ? &simulator : NULL;
	return 0;
}
int cuCtxGetCurrent(void **context)
{
	CALL(CALL_NO_CONTEXT, get_current(context));
}

static size_t *limit_of(int limit)
{
	if (limit == SIM_CU_LIMIT_STACK_SIZE)
		return &simulator.stack_limit;
	return limit > 0 && limit < 8 ? &simulator.other_limit[limit] : NULL;
}
static int set_limit(int limit, size_t value)
{
	size_t *target = limit_of(limit);
	return target ? set_size(target, value) : SIM_CUDA_ERROR_INVALID_VALUE;
}
int cuCtxSetLimit(int limit, size_t value)
{
	CALL(CALL_NOT_IN_CAPTURE, set_limit(limit, value));
}
static int get_limit(size_t *value, int limit)
{
	const size_t *source = limit_of(limit);
	return source ? set_size(value, *source) : SIM_CUDA_ERROR_INVALID_VALUE;
}
int cuCtxGetLimit(size_t *value, int limit)
{
	CALL(0, get_limit(value, limit));
}

int cuCtxSynchronize(void)
{
	CALL(CALL_NOT_IN_CAPTURE, drain(NULL));
}

#define ERROR_NAME(name, value) { #name, value },
static const struct {
	const char *name;
	int value;
} value_name[] = { CUDA_VALUES(ERROR_NAME) };

static int error_name(int error, const char **name)
{
	/* Only the errors of the list: attributes and limits are numbered from 0 again. */
	for (size_t i = 0; i < sizeof value_name / sizeof *value_name; i++)
		if (value_name[i].value == error && strncmp(value_name[i].name, "CUDA_", 5) == 0) {
			*name = value_name[i].name;
			return 0;
		}
	return SIM_CUDA_ERROR_INVALID_VALUE;
}
int cuGetErrorName(int error, const char **name)
{
	CALL(CALL_ANYTIME, error_name(error, name));
}
int cuGetErrorString(int error, const char **text)
{
	CALL(CALL_ANYTIME, error_name(error, text));
}
