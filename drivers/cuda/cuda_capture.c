/*
 * cuda_capture.c - a program's launches and copies as one CUDA graph: recorded at boot, replayed with one call.
 *
 * Recording is refused where a library allocates or calls back to the host (its nodes would do so in every step), and
 * where CUDA itself refuses; the caller then launches one by one.
 */
#include "cuda/cuda_driver.h"

struct replay {
	void *executable;
	struct replay *next;
};

enum tarn_status cuda_capture_begin(struct device *device)
{
	struct cuda_state *state = device->state;
	enum tarn_status st = ledger_measure(state, LEDGER_WARM_UP);
	if (!st)
		st = CU(state, cuStreamBeginCapture, state->compute, ABI_CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	state->capturing = !st;
	return st;
}

/* Nodes that would take memory or leave the device in each step. */
static enum tarn_status check_nodes(struct cuda_state *state, void *graph)
{
	size_t count = 0;
	enum tarn_status st = CU(state, cuGraphGetNodes, graph, NULL, &count);
	struct host_mark mark = host_arena_mark(state->host);
	void **node = st || !count ? NULL : HOST_ARRAY(state->host, count, void *);
	if (!st && count && !node)
		return TARN_ENOMEM;
	if (!st && count)
		st = CU(state, cuGraphGetNodes, graph, node, &count);
	for (size_t i = 0; i < count && !st; i++) {
		int type;
		st = CU(state, cuGraphNodeGetType, node[i], &type);
		if (!st && (type == ABI_CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == ABI_CU_GRAPH_NODE_TYPE_MEM_FREE))
			st = tarn_fail(TARN_EUNSUPPORTED, "cuda: a library allocates memory inside the recorded step");
		if (!st && type == ABI_CU_GRAPH_NODE_TYPE_HOST)
			st = tarn_fail(TARN_EUNSUPPORTED,
				       "cuda: a library calls the host from inside the recorded step");
	}
	host_arena_release(state->host, mark);
	return st;
}

static enum tarn_status instantiate(struct cuda_state *state, void *graph, struct replay *replay)
{
	enum tarn_status st = CU(state, cuGraphInstantiate, &replay->executable, graph, 0);
	if (st)
		return st;
	replay->next = state->replays;
	state->replays = replay;
	st = CU(state, cuGraphUpload, replay->executable, state->compute);
	return st ? st : CU(state, cuStreamSynchronize, state->compute);
}

enum tarn_status cuda_capture_end(struct device *device, struct replay **out)
{
	struct cuda_state *state = device->state;
	void *graph = NULL;
	struct replay *replay = HOST_NEW(state->host, struct replay);
	state->capturing = false;
	enum tarn_status st = CU(state, cuStreamEndCapture, state->compute, &graph);
	if (!replay)
		st = TARN_ENOMEM;
	if (!st)
		st = check_nodes(state, graph);
	if (!st)
		st = instantiate(state, graph, replay);
	if (graph)
		state->libraries.cu.cuGraphDestroy(graph);
	if (!st)
		st = ledger_measure(state, LEDGER_GRAPHS);
	if (!st)
		*out = replay;
	else if (st == TARN_EDEVICE && !state->lost)
		st = TARN_EUNSUPPORTED; /* launching one by one needs none of this */
	return st;
}

enum tarn_status cuda_replay(struct device *device, struct replay *replay)
{
	struct cuda_state *state = device->state;
	return CU(state, cuGraphLaunch, replay->executable, state->compute);
}

void cuda_capture_close(struct cuda_state *state)
{
	void *graph = NULL;
	if (state->capturing && !state->libraries.cu.cuStreamEndCapture(state->compute, &graph) && graph)
		state->libraries.cu.cuGraphDestroy(graph);
	for (struct replay *replay = state->replays; replay; replay = replay->next)
		state->libraries.cu.cuGraphExecDestroy(replay->executable);
}
