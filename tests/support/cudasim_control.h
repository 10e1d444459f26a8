/*
 * cudasim_control.h - the simulated libraries of CUDA for a test: points the driver at them and reaches their controls.
 *
 * The libraries lie beside the test programs, in <build>/cudasim. Each test runs in a process of its own, so the
 * simulated device starts fresh.
 */
#ifndef TARN_TESTS_CUDASIM_CONTROL_H
#define TARN_TESTS_CUDASIM_CONTROL_H

#include "cudasim/cudasim.h"

struct cudasim {
	bool (*configure)(const char *settings, char *message, size_t message_bytes);
	void (*freeze)(int frozen);
	bool (*hidden)(const char *who, int64_t bytes);
	uint32_t (*failures)(void);
	const char *(*failure)(uint32_t index);
	const char *(*leaks)(void);
	void (*fault)(const char *function, uint64_t nth, int code);
	uint64_t (*count)(enum sim_count count);
};

/* With cuDNN's double, without which convolutions run in own kernels; with NVML's. */
enum { CUDASIM_CUDNN = 1, CUDASIM_NVML = 2 };

/* Sets TARN_LIBCUDA and its like, and "TARN_TEST_DRIVER=cuda"; fails the test when the libraries are not there. */
void cudasim_load(struct cudasim *sim, unsigned libraries);

/* One of the libraries, "libcuda.so.1"; and a function of it, whose address goes to *function. Both fail the test. */
void *cudasim_open(const char *name);
void cudasim_find(void *library, const char *name, void *function);

/* The libraries were built; false where this build has no CUDA driver. */
bool cudasim_is_there(void);

/* Fails the test with the first complaint of the accounting, or with what leaked. */
void cudasim_check(const struct cudasim *sim, const char *when);

#endif
