/*
 * fake_device.h - a plan with a few persistent tensors on a device that is a piece of memory: for tests that copy
 * tensors in and out but run nothing.
 */
#ifndef TARN_TESTS_FAKE_DEVICE_H
#define TARN_TESTS_FAKE_DEVICE_H

#include "exec/exec.h"

struct fake_device {
	struct executor executor;
	struct device device;
	struct plan plan;
	struct driver_ops ops;
	uint8_t *memory;              /* plan.arena_bytes, in the arena given to fake_device_open */
	uint64_t writes;              /* calls of ops.write */
	uint64_t failing_read, reads; /* the read with this number (from 1) fails with TARN_EIO; 0: none */
};

void fake_device_open(struct fake_device *fake, struct host_arena *arena);

/* Adds a persistent tensor before fake_device_finish lays them out. */
void fake_device_add(struct fake_device *fake, const char *name, enum tensor_role role, enum dtype dtype,
		     const uint32_t *dim, uint32_t rank);
void fake_device_finish(struct fake_device *fake, struct host_arena *arena);

/* Fills every tensor with bytes that follow from `seed`. */
void fake_device_fill(struct fake_device *fake, uint64_t seed);

#endif
