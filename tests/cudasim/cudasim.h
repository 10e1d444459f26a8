/*
 * cudasim.h - control of the simulated device: what a test sets, asks and plants.
 *
 * The simulated libcuda.so.1 exports these beside the Driver API. A test finds them with dlsym(), or links the library;
 * a run of the `tarn` program is controlled by the environment alone:
 *
 *   TARN_CUDASIM         settings as key=value, separated by commas (sizes take KiB, MiB, GiB); see sim_configure()
 *   TARN_CUDASIM_FAULT   NAME:N:CODE[,...]: the N-th call of NAME ("any": of all) fails with CODE;
 *                        the name "kernel", which "any" leaves out, makes the N-th kernel executed
 *                        fail, which is seen later, at the next call
 *   TARN_CUDASIM_REPORT  a file that gets counts and failures, one a line, when the process ends
 *
 * A failure of the strict accounting is a sentence with kernel, PTX line, block and thread where there are any. It is
 * printed to stderr and kept; where the device itself would fail (a bad address) the call fails too, and sticks.
 */
#ifndef CUDASIM_H
#define CUDASIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_EXPORT __attribute__((visibility("default")))

/*
 * Keys: total (bytes of the device, 4 GiB), seed (0: natural order), neighbour (bytes that
 * another process has), context, stream, module, function, graph,
 * graph_node, cublaslt, cudnn, plan (hidden bytes of each), multiprocessors, major, minor (compute capability), name,
 * driver (version), queue (commands that fit), strict (0: only the device's own errors fail), max_instructions (a
 * launch), async_pageable. False: an unknown key or a bad value, and *message says which.
 */
SIM_EXPORT bool sim_configure(const char *settings, char *message, size_t message_bytes);
/* Forgets everything, as if the library had just been loaded; settings stay. Nothing of it may be in use. */
SIM_EXPORT void sim_reset(void);

/* From here on every allocation, open or hidden, is a failure. 0 lifts it. */
SIM_EXPORT void sim_freeze(int frozen);

/* Failures of the accounting since the last reset, leaks not included. */
SIM_EXPORT uint32_t sim_failures(void);
SIM_EXPORT const char *sim_failure(uint32_t index);
/* What is still held: a sentence, or "" when nothing is. */
SIM_EXPORT const char *sim_leaks(void);

/* The N-th call from now of a function (NULL: of any) fails with this code; nth 0 clears all faults. */
SIM_EXPORT void sim_fault(const char *function, uint64_t nth, int code);

enum sim_count {
	SIM_CALLS,
	SIM_LAUNCHES,
	SIM_COPIES,
	SIM_GRAPH_LAUNCHES,
	SIM_INSTRUCTIONS, /* of threads */
	SIM_USED_BYTES,
	SIM_PEAK_BYTES,
	SIM_HIDDEN_BYTES,
	SIM_COUNTS
};
SIM_EXPORT uint64_t sim_count(enum sim_count count);

/*
 * What a program tells the device of its own accord, if libcuda has these calls: the commands queued on the stream from
 * here to the end of the operation may touch its operands and nothing else. use: SIM_READ, SIM_WRITE or both (in
 * place); SIM_WORKSPACE alone for scratch; SIM_RAW to read what is there, dead or never written. An operand that is
 * only written, and a workspace, hold nothing when the operation starts; a workspace holds nothing when it has ended.
 * name: what failures are told with.
 */
#define SIM_READ 1u
#define SIM_WRITE 2u
#define SIM_WORKSPACE 4u
#define SIM_RAW 8u
struct sim_range {
	uint64_t address;
	uint64_t bytes;
	unsigned use;
};
SIM_EXPORT int sim_operation_begin(void *stream, const char *name, const struct sim_range *range, uint32_t ranges);
SIM_EXPORT int sim_operation_end(void *stream);
/* In the order of the stream, these bytes are dead from here on. */
SIM_EXPORT int sim_mark_dead(void *stream, uint64_t address, uint64_t bytes);

/* ---- For the simulated libraries ---- */

#define SIM_BUS_ID "0000:5A:00.0"

struct sim_operand {
	uint64_t address;
	uint64_t bytes;
	unsigned use;
	uint8_t *data; /* filled before the function is called */
};
#define SIM_MAX_OPERANDS 8u
#define SIM_MAX_CONTEXT_BYTES 1024u

/*
 * Queues a host function as a command of the stream: at its turn the operands are checked like a kernel's, and
 * function(context, operand) runs; context is copied. Returns a CUDA error code.
 */
SIM_EXPORT int sim_enqueue_host(void *stream, const char *name, void (*function)(const void *, struct sim_operand *),
				const void *context, size_t context_bytes, const struct sim_operand *operand,
				uint32_t operands);
/* Device memory that a library takes without being asked; false: there is none left. Negative gives it back. */
SIM_EXPORT bool sim_hidden(const char *who, int64_t bytes);
/* A setting by its key, for the libraries' own hidden sizes. */
SIM_EXPORT uint64_t sim_setting(const char *key);
/* Notes a failure of the accounting. */
SIM_EXPORT void sim_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Counts a call of a library and applies faults to it: 0, or the code to return. */
SIM_EXPORT int sim_library_call(const char *function);
/* Is a context current, as the libraries' handles need? */
SIM_EXPORT bool sim_has_context(void);
/* One more (or fewer) handle that the libraries hold; part of the leak report. */
SIM_EXPORT void sim_library_handles(int more);

#endif
