/*
 * program.h - runs a whole graph on a device without a plan: every tensor has a place of its own.
 */
#ifndef TARN_TESTS_PROGRAM_H
#define TARN_TESTS_PROGRAM_H

#include "driver.h"

struct program {
	const struct graph *graph;
	struct device device;
	struct bound_instr **instr; /* of each op; NULL for views */
	uint64_t *offset;           /* of each tensor */
};

/* Compiles, places and binds all ops; memory comes from `host`. program_close is safe after a failure. */
enum tarn_status program_open(struct program *program, const struct driver_ops *driver, const struct graph *graph,
			      uint32_t threads, struct host_arena *host);
void program_close(struct program *program);
enum tarn_status program_write(struct program *program, uint32_t tensor, const void *data);
enum tarn_status program_read(struct program *program, uint32_t tensor, void *data);
enum tarn_status program_run(struct program *program);

#endif
