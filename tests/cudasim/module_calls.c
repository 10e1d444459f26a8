/*
 * module_calls.c - entry points of the Driver API: modules of PTX text and their kernels.
 */
#include "simulator.h"

#include <stdlib.h>
#include <string.h>

SIM_EXPORT int cuModuleLoadData(void **module, const void *image);
SIM_EXPORT int cuModuleLoadDataEx(void **module, const void *image, unsigned options, int *option, void **value);
SIM_EXPORT int cuModuleUnload(void *module);
SIM_EXPORT int cuModuleGetFunction(void **function, void *module, const char *name);
SIM_EXPORT int cuFuncLoad(void *function);
SIM_EXPORT int cuFuncIsLoaded(int *state, void *function);
SIM_EXPORT int cuFuncGetAttribute(int *value, int attribute, void *function);
SIM_EXPORT int cuFuncSetAttribute(void *function, int attribute, int value);

/* The bytes of a module's variables are placed before its text is parsed, because addresses are written into the code.
 */
#define IMAGE_BYTES (64u << 10)

static void free_module(struct module *module)
{
	for (struct function *function = module->function; function;) {
		struct function *next = function->next;
		free(function);
		function = next;
	}
	if (module->image)
		memory_release(module->image);
	ptx_free(&module->ptx);
	free(module);
}

static bool is_text(const char *image)
{
	/* A cubin is an ELF file, a fatbin begins with 0xBA55ED50. */
	return memcmp(image, "\177ELF", 4) != 0 && memcmp(image, "\x50\xED\x55\xBA", 4) != 0;
}

static int load_module(void **out, const char *image)
{
	struct simulator *sim = &simulator;
	if (!is_text(image))
		return SIM_CUDA_ERROR_NO_BINARY_FOR_GPU;
	struct module *module = host_zeroed(sizeof *module);
	char message[MESSAGE_BYTES];
	module->image = memory_allocate(&sim->memory, IMAGE_BYTES, MEMORY_MODULE);
	if (!module->image) {
		free(module);
		return SIM_CUDA_ERROR_OUT_OF_MEMORY;
	}
	bool parsed = ptx_parse(&module->ptx, image, module->image->address, message, sizeof message);
	if (!parsed || module->ptx.image_bytes > IMAGE_BYTES) {
		note_failure("cuModuleLoadData: %s", parsed ? "more module variables than 64 KiB" : message);
		free_module(module);
		return SIM_CUDA_ERROR_INVALID_PTX;
	}
	if (module->ptx.target > 10 * sim->config.major + sim->config.minor) {
		free_module(module);
		return SIM_CUDA_ERROR_NO_BINARY_FOR_GPU;
	}
	module->hidden_bytes = sim->config.module + module->ptx.image_bytes;
	if (!hidden_take("a module", module->hidden_bytes)) {
		free_module(module);
		return SIM_CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (module->ptx.image_bytes)
		memcpy(module->image->data, module->ptx.image, module->ptx.image_bytes);
	module->next = sim->modules;
	sim->modules = module;
	*out = module;
	return 0;
}
int cuModuleLoadData(void **module, const void *image)
{
	CALL(CALL_NOT_IN_CAPTURE | CALL_ALLOCATES, load_module(module, image));
}
int cuModuleLoadDataEx(void **module, const void *image, unsigned options, int *option, void **value)
{
	(void)options;
	(void)option;
	(void)value;
	CALL(CALL_NOT_IN_CAPTURE | CALL_ALLOCATES, load_module(module, image));
}

static int unload(struct module *module)
{
	int error = drain(NULL);
	if (error)
		return error;
	for (struct module **link = &simulator.modules; *link; link = &(*link)->next)
		if (*link == module) {
			*link = module->next;
			hidden_give(module->hidden_bytes);
			free_module(module);
			return 0;
		}
	return SIM_CUDA_ERROR_INVALID_HANDLE;
}
int cuModuleUnload(void *module)
{
	CALL(CALL_NOT_IN_CAPTURE, unload(module));
}

void modules_clear(void)
{
	while (simulator.modules) {
		struct module *next = simulator.modules->next;
		simulator.modules->image = NULL; /* goes with the memory */
		free_module(simulator.modules);
		simulator.modules = next;
	}
}

static int get_function(void **out, struct module *module, const char *name)
{
	struct ptx_kernel *kernel = ptx_find(&module->ptx, name);
	if (!kernel)
		return SIM_CUDA_ERROR_NOT_FOUND;
	for (struct function *function = module->function; function; function = function->next)
		if (function->kernel == kernel) {
			*out = function;
			return 0;
		}
	struct function *function = host_zeroed(sizeof *function);
	*function = (struct function){
		.kernel = kernel, .module = module, .max_dynamic_shared = 48u << 10, .next = module->function
	};
	module->function = function;
	machine_prepare(&simulator.machine, kernel);
	*out = function;
	return 0;
}
int cuModuleGetFunction(void **function, void *module, const char *name)
{
	CALL(0, get_function(function, module, name));
}

/* Lazy loading: code and local memory arrive with the first use. */
int function_load(struct function *function)
{
	struct simulator *sim = &simulator;
	if (function->kernel->loaded)
		return 0;
	if (is_capturing_any()) { /* loading may wait for the whole device */
		capture_invalidate_all("the first use of a kernel");
		return SIM_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	uint64_t bytes = sim->config.function;
	if (function->kernel->local_bytes > sim->stack_limit) {
		uint64_t threads = sim->config.multiprocessors * 2048;
		bytes += (function->kernel->local_bytes - sim->stack_limit) * threads;
		sim->stack_limit = function->kernel->local_bytes;
	}
	if (!hidden_take(function->kernel->name, bytes))
		return SIM_CUDA_ERROR_OUT_OF_MEMORY;
	function->module->hidden_bytes += bytes;
	function->kernel->loaded = true;
	return 0;
}
int cuFuncLoad(void *function)
{
	CALL(CALL_NOT_IN_CAPTURE, function_load(function));
}

static int is_loaded(int *state, const struct function *function)
{
	*state = function->kernel->loaded;
	return 0;
}
int cuFuncIsLoaded(int *state, void *function)
{
	CALL(0, is_loaded(state, function));
}

static int get_attribute(int *value, int attribute, const struct function *function)
{
	const struct ptx_kernel *kernel = function->kernel;
	switch (attribute) {
	case SIM_CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*value = (int)kernel->max_threads;
		return 0;
	case SIM_CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
		*value = (int)kernel->shared_bytes;
		return 0;
	case SIM_CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
		*value = (int)kernel->local_bytes;
		return 0;
	case SIM_CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
		*value = 0;
		return 0;
	case SIM_CU_FUNC_ATTRIBUTE_NUM_REGS: /* ptxas would say; no kernel here may need more */
		*value = 64;
		return 0;
	case SIM_CU_FUNC_ATTRIBUTE_PTX_VERSION:
	case SIM_CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*value = (int)function->module->ptx.target;
		return 0;
	case SIM_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*value = (int)function->max_dynamic_shared;
		return 0;
	default:
		return SIM_CUDA_ERROR_INVALID_VALUE;
	}
}
int cuFuncGetAttribute(int *value, int attribute, void *function)
{
	CALL(0, get_attribute(value, attribute, function));
}

static int set_attribute(struct function *function, int attribute, int value)
{
	uint32_t most = MAX_SHARED_BYTES - function->kernel->shared_bytes;
	if (attribute != SIM_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || (uint32_t)value > most)
		return SIM_CUDA_ERROR_INVALID_VALUE;
	function->max_dynamic_shared = (uint32_t)value;
	return 0;
}
int cuFuncSetAttribute(void *function, int attribute, int value)
{
	CALL(0, set_attribute(function, attribute, value));
}
