/* library_open.c - see library.h. */
#include "cuda/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAMES 3
/* These libraries start threads of their own and are never unmapped, only let go. */
#define OPEN_FLAGS (RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)

static const struct {
	const char *variable;
	const char *name[MAX_NAMES]; /* in the order they are tried */
	const char *meaning;         /* what is not possible without it */
} table[LIBRARIES] = {
	[LIBRARY_CUDA] = { "TARN_LIBCUDA", { "libcuda.so.1" }, "it comes with NVIDIA's driver" },
	[LIBRARY_CUBLASLT] = { "TARN_LIBCUBLASLT",
			       { "libcublasLt.so.13", "libcublasLt.so.12" },
			       "matrix products then run in slow own kernels" },
	[LIBRARY_CUDNN] = { "TARN_LIBCUDNN", { "libcudnn_graph.so.9" }, "convolutions then run in slow own kernels" },
	[LIBRARY_NVML] = { "TARN_LIBNVML",
			   { "libnvidia-ml.so.1" },
			   "builds with debug checks then need the device for themselves" },
};

struct symbol {
	const char *name;
	size_t offset; /* of the pointer in its table of calls */
};

#define CUDA_SYMBOL(name, symbol, parameters) { symbol, offsetof(struct cuda_calls, name) },
#define CUBLASLT_SYMBOL(name, symbol, parameters) { symbol, offsetof(struct cublaslt_calls, name) },
#define CUDNN_SYMBOL(name, symbol, parameters) { symbol, offsetof(struct cudnn_calls, name) },
#define NVML_SYMBOL(name, symbol, parameters) { symbol, offsetof(struct nvml_calls, name) },
static const struct symbol cuda_symbols[] = { CUDA_CALLS(CUDA_SYMBOL) };
static const struct symbol cublaslt_symbols[] = { CUBLASLT_CALLS(CUBLASLT_SYMBOL) };
static const struct symbol cudnn_symbols[] = { CUDNN_CALLS(CUDNN_SYMBOL) };
static const struct symbol nvml_symbols[] = { NVML_CALLS(NVML_SYMBOL) };

const char *library_name(enum library library)
{
	return table[library].name[0];
}

const char *library_variable(enum library library)
{
	return table[library].variable;
}

/* POSIX lets dlsym's pointer to data stand for a function; ISO C has no cast for it. */
static bool load_symbol(void *handle, const char *name, void *target)
{
	void *address = dlsym(handle, name);
	memcpy(target, &address, sizeof address);
	return address;
}

static const char *load_symbols(void *handle, const struct symbol *symbol, size_t symbols, void *calls)
{
	for (size_t i = 0; i < symbols; i++)
		if (!load_symbol(handle, symbol[i].name, (char *)calls + symbol[i].offset))
			return symbol[i].name;
	return NULL;
}

#define LOAD(handle, symbols, calls) load_symbols((handle), (symbols), sizeof(symbols) / sizeof *(symbols), (calls))

/* NULL, or the call that is missing. */
static const char *load_calls(struct libraries *libraries, enum library library, void *handle)
{
	switch (library) {
	case LIBRARY_CUDA:
		return LOAD(handle, cuda_symbols, &libraries->cu);
	case LIBRARY_CUBLASLT:
		load_symbol(handle, "cublasLtGetVersion", &libraries->blas.cublasLtGetVersion);
		load_symbol(handle, "cublasLtGetStatusName", &libraries->blas.cublasLtGetStatusName);
		return LOAD(handle, cublaslt_symbols, &libraries->blas);
	case LIBRARY_NVML:
		return LOAD(handle, nvml_symbols, &libraries->nvml);
	default:
		load_symbol(handle, "cudnnGetVersion", &libraries->dnn.cudnnGetVersion);
		load_symbol(handle, "cudnnGetErrorString", &libraries->dnn.cudnnGetErrorString);
		return LOAD(handle, cudnn_symbols, &libraries->dnn);
	}
}

static void open_one(struct libraries *libraries, enum library library)
{
	const char *given = getenv(table[library].variable), *path = NULL;
	char *note = libraries->note[library];
	void *handle = NULL;
	if (given && *given)
		handle = dlopen(path = given, OPEN_FLAGS);
	for (int i = 0; !(given && *given) && !handle && i < MAX_NAMES && table[library].name[i]; i++)
		handle = dlopen(path = table[library].name[i], OPEN_FLAGS);
	if (!handle) {
		const char *why = dlerror();
		snprintf(note, sizeof libraries->note[0], "not found (%s); %s", why ? why : "no reason given",
			 table[library].meaning);
		return;
	}
	const char *missing = load_calls(libraries, library, handle);
	if (missing) {
		snprintf(note, sizeof libraries->note[0], "%s has no %s, so it is too old or not what it is called; %s",
			 path, missing, table[library].meaning);
		dlclose(handle);
		return;
	}
	snprintf(note, sizeof libraries->note[0], "%s", path);
	libraries->handle[library] = handle;
}

void library_open(struct libraries *libraries)
{
	memset(libraries, 0, sizeof *libraries);
	for (enum library library = 0; library < LIBRARIES; library++)
		open_one(libraries, library);
	int driver = 0;
	if (libraries->handle[LIBRARY_CUDA] && !libraries->cu.cuDriverGetVersion(&driver))
		libraries->version[LIBRARY_CUDA] = (uint64_t)driver;
	if (libraries->handle[LIBRARY_CUBLASLT] && libraries->blas.cublasLtGetVersion)
		libraries->version[LIBRARY_CUBLASLT] = libraries->blas.cublasLtGetVersion();
	if (libraries->handle[LIBRARY_CUDNN] && libraries->dnn.cudnnGetVersion)
		libraries->version[LIBRARY_CUDNN] = libraries->dnn.cudnnGetVersion();
}

void library_close(struct libraries *libraries)
{
	for (int library = LIBRARIES - 1; library >= 0; library--) {
		if (libraries->handle[library])
			dlclose(libraries->handle[library]);
		libraries->handle[library] = NULL;
	}
}

enum tarn_status library_check(const struct libraries *libraries)
{
	if (libraries->handle[LIBRARY_CUDA])
		return TARN_OK;
	return tarn_fail(TARN_EUNSUPPORTED, "cuda: %s %s", library_name(LIBRARY_CUDA), libraries->note[LIBRARY_CUDA]);
}
