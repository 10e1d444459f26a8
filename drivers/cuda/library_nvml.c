/*
 * library_nvml.c - how much of the device's memory this process has, when other processes use the device too.
 *
 * NVML counts for each process what cuMemGetInfo counts for all of them. It names processes by their number in the
 * machine: in a container with numbers of its own this process may not be in the list, and then nothing is known.
 */
#include "cuda/cuda_driver.h"

#include <unistd.h>

#define BUS_ID_BYTES 32
#define MOST_PROCESSES 64u

void nvml_open(struct cuda_state *state)
{
	const struct nvml_calls *nvml = &state->libraries.nvml;
	char bus[BUS_ID_BYTES];
	if (!state->libraries.handle[LIBRARY_NVML] ||
	    state->libraries.cu.cuDeviceGetPCIBusId(bus, sizeof bus, state->device) || nvml->nvmlInit())
		return;
	state->nvml_open = true;
	if (nvml->nvmlDeviceGetHandleByPciBusId(bus, &state->nvml_device))
		state->nvml_device = NULL;
}

void nvml_close(struct cuda_state *state)
{
	if (state->nvml_open)
		(void)state->libraries.nvml.nvmlShutdown();
	state->nvml_open = false;
}

bool nvml_own_bytes(const struct cuda_state *state, uint64_t *bytes)
{
	struct nvml_process process[MOST_PROCESSES];
	unsigned count = MOST_PROCESSES;
	*bytes = 0;
	if (!state->nvml_open || !state->nvml_device ||
	    state->libraries.nvml.nvmlDeviceGetComputeRunningProcesses(state->nvml_device, &count, process))
		return false;
	for (unsigned i = 0; i < count; i++)
		if (process[i].pid == (unsigned)getpid() && process[i].bytes != ABI_NVML_VALUE_NOT_AVAILABLE)
			*bytes += process[i].bytes;
	return *bytes > 0;
}
