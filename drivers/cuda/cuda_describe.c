/* cuda_describe.c - the device in figures, what an op costs on it, and what `tarn info` tells. */
#include "cuda/cuda_driver.h"

#include <stdio.h>
#include <string.h>

/* From a call on the host to the first instruction of the kernel, in a row of launches. */
#define LAUNCH_NS 3000.0
/* PCI Express 4.0 with 16 lanes reaches about 25 of its 32 GB/s; the driver does not tell which link it has. */
#define LINK_BYTES_PER_NS 25.0

/*
 * float32 lanes of a multiprocessor, and how much faster tensor cores multiply tf32 (dense), by compute capability.
 * CUDA C++ Programming Guide, "Arithmetic Instructions"; for tf32 the ratio of the peak figures in NVIDIA's data sheets
 * (A100, H100; GeForce cards have none to speak of).
 */
static const struct {
	uint32_t capability;
	double lanes, tf32_factor;
} generations[] = { { 75, 64, 1 }, { 80, 64, 8 }, { 86, 128, 1 }, { 89, 128, 1 }, { 90, 128, 7.4 }, { 100, 128, 15 } };

static enum tarn_status attribute(struct cuda_state *state, int name, double *out)
{
	int value = 0;
	enum tarn_status st = CU(state, cuDeviceGetAttribute, &value, name, state->device);
	*out = value;
	return st;
}

static void derive_peaks(struct device_description *device, double clock_khz, double memory_khz, double bus_bits)
{
	double lanes = 64, factor = 1;
	for (size_t i = 0; i < sizeof generations / sizeof *generations; i++)
		if (device->capability >= generations[i].capability) {
			lanes = generations[i].lanes;
			factor = generations[i].tf32_factor;
		}
	device->flops_per_ns = 2.0 * lanes * device->multiprocessors * clock_khz * 1e-6;
	device->tf32_flops_per_ns = device->flops_per_ns * factor;
	device->bytes_per_ns = 2.0 * memory_khz * 1e-6 * bus_bits / 8.0; /* two transfers a clock */
	device->copy_bytes_per_ns = LINK_BYTES_PER_NS;
}

enum tarn_status cuda_describe(struct cuda_state *state)
{
	struct device_description *device = &state->description;
	double major, minor, multiprocessors, clock_khz, memory_khz, bus_bits;
	const struct {
		int name;
		double *value;
	} wanted[] = { { ABI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major },
		       { ABI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor },
		       { ABI_CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &multiprocessors },
		       { ABI_CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &clock_khz },
		       { ABI_CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &memory_khz },
		       { ABI_CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &bus_bits } };
	size_t bytes = 0;
	enum tarn_status st = CU(state, cuDeviceGetName, device->name, (int)sizeof device->name, state->device);
	if (!st)
		st = CU(state, cuDeviceTotalMem, &bytes, state->device);
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted && !st; i++)
		st = attribute(state, wanted[i].name, wanted[i].value);
	if (st)
		return st;
	device->capability = (uint32_t)(10.0 * major + minor);
	device->multiprocessors = (uint32_t)multiprocessors;
	device->memory_bytes = bytes;
	derive_peaks(device, clock_khz, memory_khz, bus_bits);
	return TARN_OK;
}

enum tarn_status cuda_identity(struct cuda_state *state, const char **identity)
{
	const struct device_description *device = &state->description;
	const uint64_t *version = state->libraries.version;
	*identity = host_arena_printf(
		state->host, "%s, compute capability %u.%u, %u multiprocessors, cuBLASLt %llu, cuDNN %llu",
		device->name, device->capability / 10, device->capability % 10, device->multiprocessors,
		(unsigned long long)version[LIBRARY_CUBLASLT], (unsigned long long)version[LIBRARY_CUDNN]);
	return *identity ? TARN_OK : TARN_ENOMEM;
}

uint64_t cuda_cost_ns(const struct cuda_state *state, const struct graph *graph, uint32_t op)
{
	const struct device_description *device = &state->description;
	uint32_t kind = graph->op[op].kind;
	bool products =
		kind == OP_MATMUL || kind == OP_CONV2D || kind == OP_CONV2D_GRAD_INPUT || kind == OP_CONV2D_GRAD_WEIGHT;
	double rate = products && state->tf32 ? device->tf32_flops_per_ns : device->flops_per_ns;
	double compute = rate > 0.0 ? (double)op_flops(graph, op) / rate : 0.0;
	double stream = device->bytes_per_ns > 0.0 ? (double)op_traffic_bytes(graph, op) / device->bytes_per_ns : 0.0;
	return (uint64_t)(LAUNCH_NS + (compute > stream ? compute : stream));
}

/* A device for a moment, without a context: only to look. */
static enum tarn_status look(struct cuda_state *state, int *devices)
{
	*devices = 0;
	library_open(&state->libraries);
	enum tarn_status st = library_check(&state->libraries);
	if (!st)
		st = CU(state, cuInit, 0);
	if (!st)
		st = CU(state, cuDeviceGetCount, devices);
	if (!st && !*devices)
		st = tarn_fail(TARN_EUNSUPPORTED, "cuda: %s is there, but no device is visible",
			       library_name(LIBRARY_CUDA));
	if (!st)
		st = CU(state, cuDeviceGet, &state->device, 0);
	if (!st)
		st = cuda_describe(state);
	return st;
}

enum tarn_status cuda_probe(void)
{
	struct cuda_state state = { 0 };
	int devices;
	enum tarn_status st = look(&state, &devices);
	library_close(&state.libraries);
	return st;
}

void cuda_info(driver_tell *tell, void *context)
{
	struct cuda_state state = { 0 };
	char text[512], size[BYTES_TEXT];
	int devices;
	enum tarn_status st = look(&state, &devices);
	for (enum library library = 0; library < LIBRARIES; library++) {
		const char *note = state.libraries.note[library];
		if (state.libraries.handle[library])
			snprintf(text, sizeof text, "%s, version %llu", note,
				 (unsigned long long)state.libraries.version[library]);
		else if (library == LIBRARY_CUDA) /* why is what the probe says */
			snprintf(text, sizeof text, "not used; %s overrides the path", library_variable(library));
		else
			snprintf(text, sizeof text, "%s; %s overrides the path", note, library_variable(library));
		tell(context, library_name(library), text);
	}
	const struct device_description *device = &state.description;
	if (!st) {
		snprintf(text, sizeof text,
			 "%s, compute capability %u.%u, %u multiprocessors, %s; peak %.1f TFLOP/s float32, %.0f GB/s%s",
			 device->name, device->capability / 10, device->capability % 10, device->multiprocessors,
			 bytes_format(device->memory_bytes, size, sizeof size), device->flops_per_ns * 1e-3,
			 device->bytes_per_ns,
			 devices > 1 ? "; the first of several, CUDA_VISIBLE_DEVICES chooses" : "");
		tell(context, "device", text);
	}
	tell(context, "products",
	     state.libraries.handle[LIBRARY_CUBLASLT] ? "cuBLASLt" : "own kernels, much slower than cuBLASLt");
	tell(context, "convolutions",
	     state.libraries.handle[LIBRARY_CUDNN] ? "cuDNN" : "own kernels, much slower than cuDNN");
	library_close(&state.libraries);
}
