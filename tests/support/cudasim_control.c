/* cudasim_control.c - see cudasim_control.h. */
#include "support/cudasim_control.h"

#include "support/testing.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* <build>/tests/test_x lies beside <build>/cudasim. */
static void library_path(const char *name, char *path, size_t size)
{
	char self[PATH_MAX] = "";
	if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
		self[0] = '\0';
	snprintf(path, size, "%s/../cudasim/%s", dirname(self), name);
}

bool cudasim_is_there(void)
{
	char path[PATH_MAX];
	library_path("libcuda.so.1", path, sizeof path);
	return !access(path, R_OK);
}

static void use(const char *variable, const char *name, bool wanted)
{
	char path[PATH_MAX] = "/does/not/exist";
	if (wanted)
		library_path(name, path, sizeof path);
	ck_assert(!setenv(variable, path, 1));
}

void *cudasim_open(const char *name)
{
	char path[PATH_MAX + 64];
	library_path(name, path, sizeof path);
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	ck_assert_msg(library != NULL, "%s", dlerror());
	return library;
}

void cudasim_find(void *library, const char *name, void *function)
{
	void *address = dlsym(library, name);
	ck_assert_msg(address != NULL, "the simulated library has no %s", name);
	memcpy(function, &address, sizeof address);
}

void cudasim_load(struct cudasim *sim, unsigned libraries)
{
	use("TARN_LIBCUDA", "libcuda.so.1", true);
	use("TARN_LIBCUBLASLT", "libcublasLt.so.13", true);
	use("TARN_LIBCUDNN", "libcudnn_graph.so.9", libraries & CUDASIM_CUDNN);
	use("TARN_LIBNVML", "libnvidia-ml.so.1", libraries & CUDASIM_NVML);
	ck_assert(!setenv("TARN_TEST_DRIVER", "cuda", 1));
	ck_assert(!setenv("TARN_CUDASIM", "seed=0", 0));
	void *library = cudasim_open("libcuda.so.1");
	cudasim_find(library, "sim_configure", &sim->configure);
	cudasim_find(library, "sim_freeze", &sim->freeze);
	cudasim_find(library, "sim_hidden", &sim->hidden);
	cudasim_find(library, "sim_failures", &sim->failures);
	cudasim_find(library, "sim_failure", &sim->failure);
	cudasim_find(library, "sim_leaks", &sim->leaks);
	cudasim_find(library, "sim_fault", &sim->fault);
	cudasim_find(library, "sim_count", &sim->count);
}

void cudasim_check(const struct cudasim *sim, const char *when)
{
	ck_assert_msg(!sim->failures(), "%s: %s", when, sim->failure(0));
	ck_assert_msg(!sim->leaks()[0], "%s: %s", when, sim->leaks());
}
