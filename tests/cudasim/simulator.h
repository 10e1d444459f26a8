/*
 * simulator.h - the state behind the simulated libcuda, shared by its source files.
 *
 * There is one device and one process, as behind the real library, so the state is one object; every entry point holds
 * its lock. After sim_freeze() nothing here takes host memory: commands come from a pool of their own.
 *
 * Streams are queues that nobody works on in the background. A call that waits, or a full queue, executes commands one
 * at a time, from a stream chosen by the seed; what is not waited for may run late. The order of the clock
 * (memory.h) is settled when a command is queued, so a missing event is found whatever the order of execution.
 */
#ifndef CUDASIM_SIMULATOR_H
#define CUDASIM_SIMULATOR_H

#include "cuda_values.h"
#include "cudasim.h"
#include "memory.h"
#include "warp.h"

#include <pthread.h>

#define GRANULARITY (2u << 20) /* of device memory */
#define MAX_PARAMETER_BYTES 4096u
#define MAX_FAILURES 64u
#define MAX_FAULTS 16u
#define MESSAGE_BYTES 640u
#define LABEL_BYTES 96u

struct config {
	uint64_t total, seed, context, stream, module, function, graph, graph_node, cublaslt, cudnn, plan;
	uint64_t multiprocessors, major, minor, driver, queue, strict, max_instructions, neighbour;
	char name[64];
};

struct fault {
	char function[48]; /* "": any */
	uint64_t countdown;
	int code;
};

enum command_kind {
	COMMAND_LAUNCH,
	COMMAND_COPY_IN,  /* host to device */
	COMMAND_COPY_OUT, /* device to host */
	COMMAND_COPY,
	COMMAND_FILL,
	COMMAND_HOST, /* a library's function */
	COMMAND_DEAD,
	COMMAND_RECORD,
	COMMAND_WAIT,
	COMMAND_GRAPH
};

struct function {
	struct ptx_kernel *kernel;
	struct module *module;
	uint32_t max_dynamic_shared;
	struct function *next;
};

struct event;
struct graph_launch;

struct command {
	struct command *next;
	enum command_kind kind;
	uint32_t stream; /* slot */
	uint32_t number;
	struct memory_clock clock;
	char label[LABEL_BYTES];
	struct memory_range range[MAX_RANGES];
	uint32_t ranges;
	/* By kind. */
	struct function *function;
	struct launch_shape shape;
	uint64_t target, source, bytes; /* addresses; of host memory too */
	uint32_t value;
	uint32_t value_bytes;
	uint64_t checksum; /* of the host bytes that a copy will read */
	bool has_checksum;
	void (*host_function)(const void *, struct sim_operand *);
	struct sim_operand operand[SIM_MAX_OPERANDS];
	uint32_t operands;
	struct event *event;
	uint64_t event_number;
	struct graph_exec *graph;
	uint32_t first_number[MAX_STREAMS];                  /* of a graph's branches */
	_Alignas(16) uint8_t parameter[MAX_PARAMETER_BYTES]; /* of a kernel, or a host function's context */
};

struct event {
	struct event *next;
	uint64_t recorded; /* number of the last record queued, and of the last one executed */
	uint64_t done;
	struct memory_clock clock;
	/* Recorded while its stream was captured: the nodes before it, by branch. */
	struct graph *graph;
	uint32_t before[MAX_STREAMS];
};

struct stream {
	struct stream *next;
	struct command *head, *tail;
	uint32_t slot;
	struct memory_clock clock;
	struct graph *capture;        /* graph being recorded, or NULL */
	uint32_t branch;              /* of that graph */
	uint32_t before[MAX_STREAMS]; /* nodes that the next one comes after, by branch */
};

struct node {
	struct command command;
	uint32_t before[MAX_STREAMS];
	struct node *next; /* of the branch */
};

struct branch {
	struct node *first, *last;
	uint32_t nodes;
	uint32_t slot; /* once instantiated; branch 0 takes the stream it is launched in */
};

struct graph {
	struct graph *next;
	struct branch branch[MAX_STREAMS];
	uint32_t branches;
	struct stream *origin;
	bool invalid;
	uint32_t users; /* executables made of it; its nodes live as long */
	bool destroyed;
};

struct graph_exec {
	struct graph_exec *next;
	struct graph *graph;
	uint64_t hidden_bytes;
	bool uploaded;
	uint32_t in_flight;
};

struct module {
	struct module *next;
	struct ptx_module ptx;
	struct function *function;
	struct memory_region *image;
	uint64_t hidden_bytes;
};

struct simulator {
	pthread_mutex_t lock;
	struct config config;
	bool configured;
	bool initialized;
	uint32_t context_users;
	bool context_current;
	int sticky;
	bool frozen;
	struct memory memory;
	struct machine machine;
	uint64_t used_bytes;
	uint64_t peak_bytes;
	uint64_t hidden_bytes;
	uint64_t count[SIM_COUNTS];
	uint64_t random;
	size_t stack_limit;
	size_t other_limit[8];
	/* Streams. Slot 0 is the default stream. */
	struct stream default_stream;
	struct stream *streams;
	bool slot_used[MAX_STREAMS];
	uint32_t number[MAX_STREAMS]; /* of the last command queued, by slot */
	struct memory_clock host_clock;
	struct command *command_pool;
	struct command *free_command;
	uint32_t queued;
	struct event *events;
	struct module *modules;
	struct graph *graphs;
	struct graph_exec *executables;
	/* The operation that commands are queued for; no ranges: it may touch anything. */
	struct memory_range range[MAX_RANGES];
	uint32_t ranges;
	struct memory_range workspace[MAX_RANGES];
	uint32_t workspaces;
	char label[LABEL_BYTES];
	/* Accounting. */
	struct fault fault[MAX_FAULTS];
	uint32_t faults;
	char failure[MAX_FAILURES][MESSAGE_BYTES];
	uint32_t failures;
	char leaks[MESSAGE_BYTES];
	int library_handles;
	uint32_t device_allocations;
	uint32_t host_allocations;
};

extern struct simulator simulator;

/* ---- control.c ---- */

/* What a call may be. */
#define CALL_ANYTIME 1u        /* also before cuInit and after a sticky error */
#define CALL_NO_CONTEXT 2u     /* needs no current context */
#define CALL_NOT_IN_CAPTURE 4u /* ends a capture that is going on */
#define CALL_ALLOCATES 8u      /* a failure after the freeze */
#define CALL_NO_DEVICE 16u     /* a library's call that plans without a device */
/* The code that a planted fault has for this call, or 0. */
int fault_of(const char *function);
int call_begin(const char *function, unsigned flags);
int call_end(int error);
/* The body of an entry point: counts the call, applies faults, holds the lock. */
#define CALL(flags, expression)                             \
	do {                                                \
		int error_ = call_begin(__func__, (flags)); \
		if (!error_)                                \
			error_ = (expression);              \
		return call_end(error_);                    \
	} while (0)

void note_failure(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Every later call returns the code. Returns it. */
int stick(int error);
uint64_t random_draw(void);
bool hidden_take(const char *who, uint64_t bytes);
void hidden_give(uint64_t bytes);
/* Room for so many more bytes of device memory? Counts them. */
bool device_take(uint64_t bytes);
void configure_once(void);
/* Host memory or the end of the process. */
void *host_zeroed(size_t bytes);

/* ---- stream.c ---- */

struct stream *stream_of(void *handle); /* NULL: the default stream */
/* A command for the stream, as a part of the operation at hand; executes others when the queue is full. */
struct command *command_new(struct stream *stream, enum command_kind kind);
int command_queue(struct stream *stream, struct command *command);
/* Executes until the stream (NULL: every stream) is empty. */
int drain(struct stream *stream);
int drain_event(struct event *event);
int execute_some(void);
void streams_clear(void);
/* A place in the clock for a stream or a branch; UINT32_MAX: none is left. */
uint32_t slot_take(void);
void slot_give(uint32_t slot);

/* ---- execute.c ---- */

/* Executes one command as `number` in `slot`, with this clock. */
int execute(struct command *command, uint32_t slot, uint32_t number, const struct memory_clock *clock);
/* Checksums what a copy from pinned memory will read, unless the device writes it before. */
void note_source(struct command *command);

/* ---- graph.c ---- */

int capture_node(struct stream *stream, struct command *command);
int capture_record(struct event *event, struct stream *stream);
/* An event of a capture is waited for; the stream joins it. */
int capture_wait(struct stream *stream, struct event *event);
/* what: the call, or what it does, that no capture allows. */
void capture_invalidate_all(const char *what);
bool is_capturing_any(void);
int execute_graph(struct command *command);
void queue_graph(struct stream *stream, struct command *command);
void graphs_clear(void);

/* ---- module.c, memory_calls.c ---- */
void modules_clear(void);
int function_load(struct function *function);

#endif
