/* kernel_engine.c - see kernel_engine.h. */
#include "support/kernel_engine.h"

#include "cudasim/cudasim.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The simulator notes so many ranges of a launch; those that are only read may be one large range. */
#define MOST_RANGES 40u

/* Entry points of the Driver API; the last ones are the simulator's. */
struct calls {
	int (*init)(unsigned);
	int (*device_get)(int *, int);
	int (*context_retain)(void **, int);
	int (*context_release)(int);
	int (*context_set)(void *);
	int (*synchronize)(void);
	int (*module_load)(void **, const void *);
	int (*module_unload)(void *);
	int (*module_function)(void **, void *, const char *);
	int (*allocate)(uint64_t *, size_t);
	int (*release)(uint64_t);
	int (*fill)(uint64_t, unsigned char, size_t, void *);
	int (*copy_in)(uint64_t, const void *, size_t);
	int (*copy_out)(void *, uint64_t, size_t);
	int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
		      void **);
	bool (*sim_configure)(const char *, char *, size_t);
	void (*sim_allow)(uint64_t, uint64_t, unsigned);
	uint32_t (*sim_failures)(void);
	const char *(*sim_failure)(uint32_t);
};

static const char *const call_name[] = {
	"cuInit",
	"cuDeviceGet",
	"cuDevicePrimaryCtxRetain",
	"cuDevicePrimaryCtxRelease_v2",
	"cuCtxSetCurrent",
	"cuCtxSynchronize",
	"cuModuleLoadData",
	"cuModuleUnload",
	"cuModuleGetFunction",
	"cuMemAlloc_v2",
	"cuMemFree_v2",
	"cuMemsetD8Async",
	"cuMemcpyHtoD_v2",
	"cuMemcpyDtoH_v2",
	"cuLaunchKernel",
	"sim_configure",
	"sim_allow",
	"sim_failures",
	"sim_failure",
};

#define CALLS (sizeof call_name / sizeof *call_name)
#define SIMULATOR_CALLS 4u

struct kernel_engine {
	struct calls call;
	void *library, *context, *module[STORED_KINDS];
	int device;
	uint64_t address;
};

/* The first failure of the simulator's accounting says more than a code. */
static enum tarn_status check(const struct kernel_engine *engine, const char *what, int code)
{
	if (engine->call.sim_failures && engine->call.sim_failures())
		return tarn_fail(TARN_EINTERNAL, "%s", engine->call.sim_failure(0));
	return code ? tarn_fail(TARN_EINTERNAL, "%s: CUDA error %d", what, code) : TARN_OK;
}

/* TARN_LIBCUDA, or cudasim/libcuda.so.1 of the build folder whose tests/ has this program. */
static enum tarn_status open_library(struct kernel_engine *engine)
{
	const char *given = getenv("TARN_LIBCUDA");
	char program[4096], path[4200];
	ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
	program[length > 0 ? length : 0] = 0;
	char *folder = strstr(program, "/tests/");
	if (folder)
		*folder = 0;
	snprintf(path, sizeof path, "%s/cudasim/libcuda.so.1", program);
	engine->library = dlopen(given ? given : path, RTLD_NOW | RTLD_LOCAL);
	if (!engine->library)
		return tarn_fail(TARN_EUNSUPPORTED, "%s", dlerror());
	void *entry[CALLS];
	_Static_assert(sizeof entry == sizeof engine->call, "as many names as calls");
	for (size_t i = 0; i < CALLS; i++) {
		entry[i] = dlsym(engine->library, call_name[i]);
		if (!entry[i] && i < CALLS - SIMULATOR_CALLS)
			return tarn_fail(TARN_EUNSUPPORTED, "%s: no %s", given ? given : path, call_name[i]);
	}
	memcpy(&engine->call, entry, sizeof entry);
	return TARN_OK;
}

static enum tarn_status configure(const struct kernel_engine *engine, uint64_t seed)
{
	char setting[64], message[256] = "";
	snprintf(setting, sizeof setting, "seed=%" PRIu64, seed);
	if (engine->call.sim_configure && !engine->call.sim_configure(setting, message, sizeof message))
		return tarn_fail(TARN_EINTERNAL, "%s: %s", setting, message);
	return TARN_OK;
}

enum tarn_status kernel_engine_open(struct host_arena *host, uint64_t seed, struct kernel_engine **out)
{
	struct kernel_engine *engine = HOST_NEW(host, struct kernel_engine);
	*out = engine;
	if (!engine)
		return TARN_ENOMEM;
	const struct calls *call = &engine->call;
	enum tarn_status st = open_library(engine);
	if (!st)
		st = configure(engine, seed);
	if (!st)
		st = check(engine, "cuInit", call->init(0));
	if (!st)
		st = check(engine, "cuDeviceGet", call->device_get(&engine->device, 0));
	if (!st)
		st = check(engine, "cuDevicePrimaryCtxRetain", call->context_retain(&engine->context, engine->device));
	return st ? st : check(engine, "cuCtxSetCurrent", call->context_set(engine->context));
}

void kernel_engine_close(struct kernel_engine *engine)
{
	if (engine->address)
		engine->call.release(engine->address);
	for (int stored = 0; stored < STORED_KINDS; stored++)
		if (engine->module[stored])
			engine->call.module_unload(engine->module[stored]);
	if (engine->context)
		engine->call.context_release(engine->device);
	if (engine->library)
		dlclose(engine->library);
}

enum tarn_status kernel_engine_reserve(struct kernel_engine *engine, uint64_t bytes, uint64_t *address)
{
	enum tarn_status st = check(engine, "cuMemAlloc", engine->call.allocate(&engine->address, bytes));
	if (!st)
		st = check(engine, "cuMemsetD8Async", engine->call.fill(engine->address, 0xFF, bytes, NULL));
	if (!st)
		st = check(engine, "cuCtxSynchronize", engine->call.synchronize());
	*address = engine->address;
	return st;
}

enum tarn_status kernel_engine_write(struct kernel_engine *engine, uint64_t address, const void *source, uint64_t bytes)
{
	return check(engine, "cuMemcpyHtoD", engine->call.copy_in(address, source, bytes));
}

enum tarn_status kernel_engine_read(struct kernel_engine *engine, uint64_t address, void *target, uint64_t bytes)
{
	return check(engine, "cuMemcpyDtoH", engine->call.copy_out(target, address, bytes));
}

/* What an earlier launch of the list wrote is not dead for a later one. */
static void allow(const struct kernel_engine *engine, const struct kernel_range *range, uint32_t ranges, bool first)
{
	uint64_t low = UINT64_MAX, high = 0;
	if (!engine->call.sim_allow)
		return;
	for (uint32_t i = 0; i < ranges; i++) {
		unsigned read = range[i].read || !first ? SIM_READ : 0, write = range[i].write ? SIM_WRITE : 0;
		if (write || ranges <= MOST_RANGES) {
			engine->call.sim_allow(range[i].address, range[i].bytes, read | write);
			continue;
		}
		low = range[i].address < low ? range[i].address : low;
		high = range[i].address + range[i].bytes > high ? range[i].address + range[i].bytes : high;
	}
	if (high)
		engine->call.sim_allow(low, high - low, SIM_READ);
}

static enum tarn_status find_function(struct kernel_engine *engine, const struct cuda_launch *launch, void **function)
{
	char name[CUDA_KERNEL_NAME_BYTES];
	void **module = &engine->module[launch->stored];
	enum tarn_status st = TARN_OK;
	if (!*module)
		st = check(engine, "cuModuleLoadData",
			   engine->call.module_load(module, cuda_kernels_text[launch->stored]));
	cuda_launch_name(launch->function, launch->stored, name);
	return st ? st : check(engine, name, engine->call.module_function(function, *module, name));
}

enum tarn_status kernel_engine_run(struct kernel_engine *engine, const struct cuda_launch_list *list,
				   const struct kernel_range *range, uint32_t ranges)
{
	for (const struct cuda_launch *launch = list->first; launch; launch = launch->next) {
		void *function, *parameter[] = { launch->parameter };
		const uint32_t *grid = launch->grid, *block = launch->block;
		enum tarn_status st = find_function(engine, launch, &function);
		if (st)
			return st;
		allow(engine, range, ranges, launch == list->first);
		st = check(engine, launch->function,
			   engine->call.launch(function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
					       launch->shared_bytes, NULL, parameter, NULL));
		if (st)
			return st;
	}
	return check(engine, "cuCtxSynchronize", engine->call.synchronize());
}
