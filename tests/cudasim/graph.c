/*
 * graph.c - capture of streams into graphs, and graphs as commands.
 *
 * A graph keeps the streams it was captured from as branches: each a list of nodes in order, and for each node how
 * many nodes of every other branch come before it. That is the clock of memory.h within the graph, so executing one
 * is executing its branches in any order that the clocks allow.
 */
#include "simulator.h"

#include <stdlib.h>
#include <string.h>

SIM_EXPORT int cuStreamBeginCapture_v2(void *stream, int mode);
SIM_EXPORT int cuStreamEndCapture(void *stream, void **graph);
SIM_EXPORT int cuStreamIsCapturing(void *stream, int *status);
SIM_EXPORT int cuGraphGetNodes(void *graph, void **nodes, size_t *count);
SIM_EXPORT int cuGraphNodeGetType(void *node, int *type);
SIM_EXPORT int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags);
SIM_EXPORT int cuGraphUpload(void *executable, void *stream);
SIM_EXPORT int cuGraphLaunch(void *executable, void *stream);
SIM_EXPORT int cuGraphExecDestroy(void *executable);
SIM_EXPORT int cuGraphDestroy(void *graph);

/* ---- Capture ---- */

static int begin_capture(struct stream *stream)
{
	if (stream == &simulator.default_stream)
		return SIM_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (stream->capture)
		return SIM_CUDA_ERROR_INVALID_VALUE;
	struct graph *graph = host_zeroed(sizeof *graph);
	graph->next = simulator.graphs;
	simulator.graphs = graph;
	graph->origin = stream;
	graph->branches = 1;
	stream->capture = graph;
	stream->branch = 0;
	memset(stream->before, 0, sizeof stream->before);
	return 0;
}
int cuStreamBeginCapture_v2(void *stream, int mode)
{
	(void)mode;
	CALL(CALL_ALLOCATES, begin_capture(stream_of(stream)));
}

int capture_node(struct stream *stream, struct command *command)
{
	struct graph *graph = stream->capture;
	if (graph->invalid)
		return SIM_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	struct branch *branch = &graph->branch[stream->branch];
	struct node *node = host_zeroed(sizeof *node);
	node->command = *command;
	memcpy(node->before, stream->before, sizeof node->before);
	if (branch->last)
		branch->last->next = node;
	else
		branch->first = node;
	branch->last = node;
	branch->nodes++;
	stream->before[stream->branch] = branch->nodes;
	return 0;
}

int capture_record(struct event *event, struct stream *stream)
{
	if (stream->capture->invalid)
		return SIM_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	event->graph = stream->capture;
	memcpy(event->before, stream->before, sizeof event->before);
	return 0;
}

int capture_wait(struct stream *stream, struct event *event)
{
	struct graph *graph = event->graph;
	if (!graph) {
		/* An event from outside has no place in the graph. */
		stream->capture->invalid = true;
		return SIM_CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	if (stream->capture && stream->capture != graph) {
		graph->invalid = stream->capture->invalid = true;
		return SIM_CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	if (!graph->origin) /* that capture has ended */
		return SIM_CUDA_ERROR_CAPTURED_EVENT;
	if (graph->invalid)
		return SIM_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (!stream->capture) {
		if (stream == &simulator.default_stream)
			return SIM_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
		stream->capture = graph;
		stream->branch = graph->branches++;
		memset(stream->before, 0, sizeof stream->before);
	}
	for (uint32_t i = 0; i < MAX_STREAMS; i++)
		if (stream->before[i] < event->before[i])
			stream->before[i] = event->before[i];
	return 0;
}

void capture_invalidate_all(const char *what)
{
	note_failure("%s while a stream is captured", what);
	for (struct stream *stream = simulator.streams; stream; stream = stream->next)
		if (stream->capture)
			stream->capture->invalid = true;
}

bool is_capturing_any(void)
{
	for (const struct stream *stream = simulator.streams; stream; stream = stream->next)
		if (stream->capture)
			return true;
	return false;
}

static void free_graph(struct graph *graph)
{
	struct graph **link = &simulator.graphs;
	while (*link != graph)
		link = &(*link)->next;
	*link = graph->next;
	for (uint32_t i = 0; i < graph->branches; i++)
		for (struct node *node = graph->branch[i].first; node;) {
			struct node *next = node->next;
			free(node);
			node = next;
		}
	for (struct event *event = simulator.events; event; event = event->next)
		if (event->graph == graph)
			event->graph = NULL;
	free(graph);
}

static int end_capture(struct stream *stream, void **out)
{
	struct graph *graph = stream->capture;
	if (!graph)
		return SIM_CUDA_ERROR_INVALID_VALUE;
	if (graph->origin != stream)
		return SIM_CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	int error = graph->invalid ? SIM_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : 0;
	for (uint32_t i = 0; i < graph->branches && !error; i++)
		if (stream->before[i] < graph->branch[i].nodes)
			error = SIM_CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	for (struct stream *each = simulator.streams; each; each = each->next)
		if (each->capture == graph)
			each->capture = NULL;
	graph->origin = NULL;
	*out = error ? NULL : graph;
	if (error)
		free_graph(graph);
	return error;
}
int cuStreamEndCapture(void *stream, void **graph)
{
	CALL(0, end_capture(stream_of(stream), graph));
}

static int is_capturing(const struct stream *stream, int *status)
{
	*status = !stream->capture           ? SIM_CU_STREAM_CAPTURE_STATUS_NONE
		  : stream->capture->invalid ? SIM_CU_STREAM_CAPTURE_STATUS_INVALIDATED
					     : SIM_CU_STREAM_CAPTURE_STATUS_ACTIVE;
	return 0;
}
int cuStreamIsCapturing(void *stream, int *status)
{
	CALL(0, is_capturing(stream_of(stream), status));
}

/* ---- Graphs ---- */

/* Deaths of buffers are no nodes that CUDA would know. */
static uint32_t count_nodes(const struct graph *graph)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < graph->branches; i++)
		for (const struct node *node = graph->branch[i].first; node; node = node->next)
			n += node->command.kind != COMMAND_DEAD;
	return n;
}

static int get_nodes(const struct graph *graph, void **nodes, size_t *count)
{
	size_t room = nodes ? *count : 0, n = 0;
	for (uint32_t i = 0; i < graph->branches; i++)
		for (struct node *node = graph->branch[i].first; node && n < room; node = node->next)
			if (node->command.kind != COMMAND_DEAD)
				nodes[n++] = node;
	*count = nodes ? n : count_nodes(graph);
	return 0;
}
int cuGraphGetNodes(void *graph, void **nodes, size_t *count)
{
	CALL(0, get_nodes(graph, nodes, count));
}

static int node_type(const struct node *node, int *type)
{
	switch (node->command.kind) {
	case COMMAND_COPY_IN:
	case COMMAND_COPY_OUT:
	case COMMAND_COPY:
		*type = SIM_CU_GRAPH_NODE_TYPE_MEMCPY;
		return 0;
	case COMMAND_FILL:
		*type = SIM_CU_GRAPH_NODE_TYPE_MEMSET;
		return 0;
	default: /* a library's function stands for its kernels */
		*type = SIM_CU_GRAPH_NODE_TYPE_KERNEL;
		return 0;
	}
}
int cuGraphNodeGetType(void *node, int *type)
{
	CALL(0, node_type(node, type));
}

static int destroy_graph(struct graph *graph)
{
	if (graph->destroyed)
		return SIM_CUDA_ERROR_INVALID_HANDLE;
	graph->destroyed = true;
	if (graph->users == 0)
		free_graph(graph);
	return 0;
}
int cuGraphDestroy(void *graph)
{
	CALL(0, destroy_graph(graph));
}

static int instantiate(void **out, struct graph *graph)
{
	const struct config *config = &simulator.config;
	if (graph->users) /* branches have their places in the clock from the first one */
		return SIM_CUDA_ERROR_NOT_SUPPORTED;
	uint64_t bytes = config->graph + config->graph_node * count_nodes(graph);
	if (!hidden_take("a graph", bytes))
		return SIM_CUDA_ERROR_OUT_OF_MEMORY;
	for (uint32_t i = 1; i < graph->branches; i++)
		graph->branch[i].slot = slot_take();
	struct graph_exec *executable = host_zeroed(sizeof *executable);
	*executable = (struct graph_exec){ .next = simulator.executables, .graph = graph, .hidden_bytes = bytes };
	simulator.executables = executable;
	graph->users++;
	*out = executable;
	return 0;
}
int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags)
{
	(void)flags;
	CALL(CALL_ALLOCATES | CALL_NOT_IN_CAPTURE, instantiate(executable, graph));
}

static int upload(struct graph_exec *executable)
{
	executable->uploaded = true;
	return 0;
}
int cuGraphUpload(void *executable, void *stream)
{
	(void)stream;
	CALL(CALL_NOT_IN_CAPTURE, upload(executable));
}

static int destroy_executable(struct graph_exec *executable)
{
	int error = drain(NULL);
	if (error)
		return error;
	struct graph_exec **link = &simulator.executables;
	while (*link && *link != executable)
		link = &(*link)->next;
	if (!*link)
		return SIM_CUDA_ERROR_INVALID_HANDLE;
	*link = executable->next;
	hidden_give(executable->hidden_bytes);
	struct graph *graph = executable->graph;
	for (uint32_t i = 1; i < graph->branches; i++)
		slot_give(graph->branch[i].slot);
	graph->users--;
	if (graph->destroyed)
		free_graph(graph);
	free(executable);
	return 0;
}
int cuGraphExecDestroy(void *executable)
{
	CALL(CALL_NOT_IN_CAPTURE, destroy_executable(executable));
}

static int launch_graph(struct graph_exec *executable, struct stream *stream)
{
	if (!executable->uploaded && simulator.frozen)
		note_failure("cuGraphLaunch of a graph that was not uploaded before the freeze");
	struct command *command = command_new(stream, COMMAND_GRAPH);
	if (!command)
		return simulator.sticky ? simulator.sticky : SIM_CUDA_ERROR_LAUNCH_TIMEOUT;
	command->graph = executable;
	simulator.count[SIM_GRAPH_LAUNCHES]++;
	return command_queue(stream, command);
}
int cuGraphLaunch(void *executable, void *stream)
{
	CALL(CALL_NOT_IN_CAPTURE, launch_graph(executable, stream_of(stream)));
}

/* Branch 0 runs as a part of the stream that the graph is launched in. */
static uint32_t branch_slot(const struct command *launch, uint32_t branch)
{
	return branch == 0 ? launch->stream : launch->graph->graph->branch[branch].slot;
}

/* A copy of the graph itself writes these host bytes: they may change under the copies that read them. */
static bool writes_host(const struct graph *graph, const struct command *copy)
{
	for (uint32_t i = 0; i < graph->branches; i++)
		for (const struct node *node = graph->branch[i].first; node; node = node->next)
			if (node->command.kind == COMMAND_COPY_OUT &&
			    node->command.target < copy->source + copy->bytes &&
			    copy->source < node->command.target + node->command.bytes)
				return true;
	return false;
}

/* Gives the nodes their numbers; behind the graph its stream knows all of them to be complete. */
void queue_graph(struct stream *stream, struct command *command)
{
	struct graph *graph = command->graph->graph;
	for (uint32_t i = 0; i < graph->branches; i++) {
		uint32_t slot = branch_slot(command, i);
		command->first_number[i] = simulator.number[slot];
		simulator.number[slot] += graph->branch[i].nodes;
		stream->clock.done[slot] = simulator.number[slot];
	}
	if (command->graph->in_flight++ == 0)
		for (uint32_t i = 0; i < graph->branches; i++)
			for (struct node *node = graph->branch[i].first; node; node = node->next)
				if (node->command.kind == COMMAND_COPY_IN && !writes_host(graph, &node->command))
					note_source(&node->command);
}

static int execute_node(const struct command *launch, struct node *node, uint32_t branch, uint32_t index)
{
	const struct graph *graph = launch->graph->graph;
	struct memory_clock clock = launch->clock;
	for (uint32_t i = 0; i < graph->branches; i++) {
		uint32_t *done = &clock.done[branch_slot(launch, i)],
			 before = launch->first_number[i] + node->before[i];
		if (node->before[i] && *done < before)
			*done = before;
	}
	return execute(&node->command, branch_slot(launch, branch), launch->first_number[branch] + index + 1, &clock);
}

static uint32_t all_nodes(const struct graph *graph)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < graph->branches; i++)
		n += graph->branch[i].nodes;
	return n;
}

int execute_graph(struct command *command)
{
	struct graph *graph = command->graph->graph;
	struct node *next[MAX_STREAMS];
	uint32_t done[MAX_STREAMS] = { 0 };
	int error = 0;
	for (uint32_t i = 0; i < graph->branches; i++)
		next[i] = graph->branch[i].first;
	for (uint32_t left = all_nodes(graph); left && !error; left--) {
		uint32_t turn = simulator.config.seed ? (uint32_t)(random_draw() % graph->branches) : 0;
		for (uint32_t i = 0; i < graph->branches; i++) {
			uint32_t branch = (turn + i) % graph->branches;
			bool ready = next[branch] != NULL;
			for (uint32_t k = 0; ready && k < graph->branches; k++)
				ready = done[k] >= next[branch]->before[k];
			if (!ready)
				continue;
			error = execute_node(command, next[branch], branch, done[branch]);
			done[branch]++;
			next[branch] = next[branch]->next;
			break;
		}
	}
	command->graph->in_flight--;
	return error;
}

void graphs_clear(void)
{
	struct simulator *sim = &simulator;
	while (sim->executables) {
		struct graph_exec *next = sim->executables->next;
		free(sim->executables);
		sim->executables = next;
	}
	while (sim->graphs)
		free_graph(sim->graphs);
}
