/*
 * nvml.c - the double of NVIDIA's management library: who has how much of the simulated device. Two processes use it:
 * this one, and with the setting `neighbour` another.
 */
#include "cudasim.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define NVML_ERROR_UNINITIALIZED 1
#define NVML_ERROR_INVALID_ARGUMENT 2
#define NVML_ERROR_INSUFFICIENT_SIZE 7

/* nvmlProcessInfo_t */
struct process {
	unsigned pid;
	unsigned long long bytes;
	unsigned gpu_instance, compute_instance;
};

SIM_EXPORT int nvmlInit_v2(void);
SIM_EXPORT int nvmlShutdown(void);
SIM_EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device);
SIM_EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *process);

static int users;

int nvmlInit_v2(void)
{
	int error = sim_library_call("nvmlInit");
	if (!error) {
		users++;
		sim_library_handles(1);
	}
	return error;
}

int nvmlShutdown(void)
{
	if (!users)
		return NVML_ERROR_UNINITIALIZED;
	users--;
	sim_library_handles(-1);
	return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device)
{
	int error = sim_library_call("nvmlDeviceGetHandleByPciBusId");
	if (!users)
		return NVML_ERROR_UNINITIALIZED;
	if (strcmp(bus, SIM_BUS_ID) != 0)
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = &users;
	return error;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *process)
{
	const unsigned long long neighbour = sim_setting("neighbour");
	const unsigned room = *count, all = neighbour ? 2 : 1;
	int error = sim_library_call("nvmlDeviceGetComputeRunningProcesses");
	if (!users || device != &users)
		return users ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_UNINITIALIZED;
	*count = all;
	if (error || room < all)
		return error ? error : NVML_ERROR_INSUFFICIENT_SIZE;
	if (neighbour)
		process[0] = (struct process){ .pid = 1, .bytes = neighbour };
	process[all - 1] = (struct process){ .pid = (unsigned)getpid(), .bytes = sim_count(SIM_USED_BYTES) };
	return 0;
}
