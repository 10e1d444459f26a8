/*
 * stream.c - streams and events: queues of commands, the order in which they are executed, entry points.
 */
#include "simulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

SIM_EXPORT int cuStreamCreate(void **stream, unsigned flags);
SIM_EXPORT int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority);
SIM_EXPORT int cuStreamDestroy_v2(void *stream);
SIM_EXPORT int cuStreamSynchronize(void *stream);
SIM_EXPORT int cuStreamQuery(void *stream);
SIM_EXPORT int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
SIM_EXPORT int cuEventCreate(void **event, unsigned flags);
SIM_EXPORT int cuEventDestroy_v2(void *event);
SIM_EXPORT int cuEventRecord(void *event, void *stream);
SIM_EXPORT int cuEventQuery(void *event);
SIM_EXPORT int cuEventSynchronize(void *event);
SIM_EXPORT int cuEventElapsedTime(float *milliseconds, void *start, void *end);

uint32_t slot_take(void)
{
	for (uint32_t i = 1; i < MAX_STREAMS; i++)
		if (!simulator.slot_used[i]) {
			simulator.slot_used[i] = true;
			return i;
		}
	return UINT32_MAX;
}

/* Numbers go on where they were, so that an old command of the slot stays older than a new one. */
void slot_give(uint32_t slot)
{
	simulator.slot_used[slot] = false;
}

struct stream *stream_of(void *handle)
{
	return handle ? handle : &simulator.default_stream;
}

/* ---- Queues ---- */

struct command *command_new(struct stream *stream, enum command_kind kind)
{
	struct simulator *sim = &simulator;
	/* A full queue makes the caller wait. A failure while it does so is seen at the next call. */
	while (!sim->sticky && !sim->free_command && execute_some() == 0)
		;
	struct command *command = sim->free_command;
	if (!command) /* everything waits for events that nobody records, or the device is lost */
		return NULL;
	sim->free_command = command->next;
	command->next = NULL;
	command->kind = kind;
	command->stream = stream->slot;
	command->ranges = sim->ranges;
	memcpy(command->range, sim->range, sim->ranges * sizeof *sim->range);
	memcpy(command->label, sim->label, sizeof command->label);
	command->has_checksum = false;
	return command;
}

static void command_give_back(struct command *command)
{
	command->next = simulator.free_command;
	simulator.free_command = command;
}

int command_queue(struct stream *stream, struct command *command)
{
	struct simulator *sim = &simulator;
	if (stream->capture && command->kind != COMMAND_GRAPH) {
		int error = capture_node(stream, command);
		command_give_back(command);
		return error;
	}
	memory_clock_join(&stream->clock, &sim->host_clock);
	command->clock = stream->clock;
	if (command->kind == COMMAND_GRAPH)
		queue_graph(stream, command);
	else
		command->number = ++sim->number[stream->slot];
	stream->clock.done[stream->slot] = sim->number[stream->slot];
	if (command->kind == COMMAND_COPY_IN)
		note_source(command);
	if (stream->tail)
		stream->tail->next = command;
	else
		stream->head = command;
	stream->tail = command;
	sim->queued++;
	/* With a seed the device is sometimes quick. */
	if (sim->config.seed && random_draw() % 4 == 0)
		execute_some();
	return 0;
}

static bool can_run(const struct stream *stream)
{
	const struct command *head = stream->head;
	return head && (head->kind != COMMAND_WAIT || head->event->done >= head->event_number);
}

static void drop_all(void)
{
	struct simulator *sim = &simulator;
	for (struct stream *stream = &sim->default_stream; stream;
	     stream = stream == &sim->default_stream ? sim->streams : stream->next) {
		while (stream->head) {
			struct command *next = stream->head->next;
			command_give_back(stream->head);
			stream->head = next;
		}
		stream->tail = NULL;
	}
	sim->queued = 0;
}

/* One command of a stream that can go on. 0; or an error, which sticks; -1: nobody can go on. */
int execute_some(void)
{
	struct simulator *sim = &simulator;
	struct stream *able[MAX_STREAMS + 1];
	uint32_t n = 0;
	if (sim->sticky)
		return sim->sticky;
	if (can_run(&sim->default_stream))
		able[n++] = &sim->default_stream;
	for (struct stream *stream = sim->streams; stream; stream = stream->next)
		if (can_run(stream))
			able[n++] = stream;
	if (n == 0)
		return -1;
	struct stream *stream = able[sim->config.seed ? random_draw() % n : 0];
	struct command *command = stream->head;
	stream->head = command->next;
	if (!stream->head)
		stream->tail = NULL;
	sim->queued--;
	int error = command->kind == COMMAND_GRAPH
			    ? execute_graph(command)
			    : execute(command, command->stream, command->number, &command->clock);
	command_give_back(command);
	if (error) {
		stick(error);
		drop_all();
	}
	return error;
}

static bool is_empty(const struct stream *stream)
{
	return stream ? !stream->head : simulator.queued == 0;
}

static int never_ends(void)
{
	note_failure("streams wait for events that are never recorded");
	return stick(SIM_CUDA_ERROR_LAUNCH_TIMEOUT);
}

int drain(struct stream *stream)
{
	struct simulator *sim = &simulator;
	while (!is_empty(stream)) {
		int error = execute_some();
		if (error)
			return error < 0 ? never_ends() : error;
	}
	if (stream) {
		memory_clock_join(&sim->host_clock, &stream->clock);
		return 0;
	}
	memory_clock_join(&sim->host_clock, &sim->default_stream.clock);
	for (struct stream *each = sim->streams; each; each = each->next)
		memory_clock_join(&sim->host_clock, &each->clock);
	return 0;
}

int drain_event(struct event *event)
{
	while (event->done < event->recorded) {
		int error = execute_some();
		if (error)
			return error < 0 ? never_ends() : error;
	}
	memory_clock_join(&simulator.host_clock, &event->clock);
	return 0;
}

/* ---- Streams ---- */

static int create_stream(void **out)
{
	uint32_t slot = slot_take();
	if (slot == UINT32_MAX) {
		note_failure("more than %u streams and branches of graphs", MAX_STREAMS - 1);
		return SIM_CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!hidden_take("a stream", simulator.config.stream)) {
		slot_give(slot);
		return SIM_CUDA_ERROR_OUT_OF_MEMORY;
	}
	struct stream *stream = host_zeroed(sizeof *stream);
	stream->slot = slot;
	stream->next = simulator.streams;
	simulator.streams = stream;
	*out = stream;
	return 0;
}
int cuStreamCreate(void **stream, unsigned flags)
{
	(void)flags;
	CALL(CALL_NOT_IN_CAPTURE | CALL_ALLOCATES, create_stream(stream));
}
int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
	(void)flags;
	(void)priority;
	CALL(CALL_NOT_IN_CAPTURE | CALL_ALLOCATES, create_stream(stream));
}

static int destroy_stream(struct stream *stream)
{
	struct stream **link = &simulator.streams;
	while (*link && *link != stream)
		link = &(*link)->next;
	if (!*link)
		return SIM_CUDA_ERROR_INVALID_HANDLE;
	int error = drain(stream);
	if (error)
		return error;
	*link = stream->next;
	hidden_give(simulator.config.stream);
	slot_give(stream->slot);
	free(stream);
	return 0;
}
int cuStreamDestroy_v2(void *stream)
{
	CALL(CALL_NOT_IN_CAPTURE, destroy_stream(stream));
}

int cuStreamSynchronize(void *stream)
{
	CALL(CALL_NOT_IN_CAPTURE, drain(stream_of(stream)));
}

static int query_stream(struct stream *stream)
{
	execute_some();
	if (simulator.sticky)
		return simulator.sticky;
	if (!is_empty(stream))
		return SIM_CUDA_ERROR_NOT_READY;
	memory_clock_join(&simulator.host_clock, &stream->clock);
	return 0;
}
int cuStreamQuery(void *stream)
{
	CALL(CALL_NOT_IN_CAPTURE, query_stream(stream_of(stream)));
}

/* ---- Events ---- */

static int create_event(void **out)
{
	struct event *event = host_zeroed(sizeof *event);
	event->next = simulator.events;
	simulator.events = event;
	*out = event;
	return 0;
}
int cuEventCreate(void **event, unsigned flags)
{
	(void)flags;
	CALL(CALL_ALLOCATES, create_event(event));
}

static int destroy_event(struct event *event)
{
	struct event **link = &simulator.events;
	while (*link && *link != event)
		link = &(*link)->next;
	if (!*link)
		return SIM_CUDA_ERROR_INVALID_HANDLE;
	int error = drain(NULL); /* a queued command may name it */
	if (error)
		return error;
	*link = event->next;
	free(event);
	return 0;
}
int cuEventDestroy_v2(void *event)
{
	CALL(0, destroy_event(event));
}

static int record(struct event *event, struct stream *stream)
{
	if (stream->capture)
		return capture_record(event, stream);
	struct command *command = command_new(stream, COMMAND_RECORD);
	if (!command)
		return simulator.sticky ? simulator.sticky : never_ends();
	event->graph = NULL;
	command->event = event;
	command->event_number = ++event->recorded;
	int error = command_queue(stream, command);
	event->clock = stream->clock;
	return error;
}
int cuEventRecord(void *event, void *stream)
{
	CALL(0, record(event, stream_of(stream)));
}

static int wait_event(struct stream *stream, struct event *event)
{
	if (stream->capture || event->graph)
		return capture_wait(stream, event);
	if (event->recorded == 0) /* nothing to wait for */
		return 0;
	struct command *command = command_new(stream, COMMAND_WAIT);
	if (!command)
		return simulator.sticky ? simulator.sticky : never_ends();
	memory_clock_join(&stream->clock, &event->clock);
	command->event = event;
	command->event_number = event->recorded;
	return command_queue(stream, command);
}
int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
	(void)flags;
	CALL(0, wait_event(stream_of(stream), event));
}

static int query_event(struct event *event)
{
	if (event->graph)
		return SIM_CUDA_ERROR_CAPTURED_EVENT;
	if (event->done < event->recorded)
		execute_some();
	if (simulator.sticky)
		return simulator.sticky;
	if (event->done < event->recorded)
		return SIM_CUDA_ERROR_NOT_READY;
	memory_clock_join(&simulator.host_clock, &event->clock);
	return 0;
}
int cuEventQuery(void *event)
{
	CALL(CALL_NOT_IN_CAPTURE, query_event(event));
}

static int synchronize_event(struct event *event)
{
	return event->graph ? SIM_CUDA_ERROR_CAPTURED_EVENT : drain_event(event);
}
int cuEventSynchronize(void *event)
{
	CALL(CALL_NOT_IN_CAPTURE, synchronize_event(event));
}

/* There is no time here: each pair is a millisecond apart. */
static int elapsed(float *milliseconds, const struct event *start, const struct event *end)
{
	if (start->done == 0 || end->done == 0)
		return SIM_CUDA_ERROR_NOT_READY;
	*milliseconds = 1;
	return 0;
}
int cuEventElapsedTime(float *milliseconds, void *start, void *end)
{
	CALL(CALL_NOT_IN_CAPTURE, elapsed(milliseconds, start, end));
}

void streams_clear(void)
{
	struct simulator *sim = &simulator;
	while (sim->streams) {
		struct stream *next = sim->streams->next;
		free(sim->streams);
		sim->streams = next;
	}
	while (sim->events) {
		struct event *next = sim->events->next;
		free(sim->events);
		sim->events = next;
	}
	free(sim->command_pool);
	sim->command_pool = sim->free_command = NULL;
}
