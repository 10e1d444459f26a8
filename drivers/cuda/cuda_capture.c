/*
 * cuda_capture.c - a program's launches and copies as one CUDA graph: recorded at boot, replayed with one call.
 *
 * Recording is refused where a library allocates or calls back to the host (its nodes would do so in every step), and
 * where CUDA itself refuses; the caller then launches one by one.
 */
#include "cuda/cuda_driver.h"

struct replay {
	void *graph, *executable;
	struct replay *next;
};

enum tarn_status cuda_capture_begin(struct device *device)
{
	struct cuda_state *state = device->state;
	struct replay *replay = HOST_NEW(state->host, struct replay);
	if (!replay)
		return TARN_ENOMEM;
	replay->next = state->replays;
	state->replays = replay;
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

static enum tarn_status instantiate(struct cuda_state *state, struct replay *replay)
{
	enum tarn_status st = CU(state, cuGraphInstantiate, &replay->executable, replay->graph, 0);
	if (!st)
		st = CU(state, cuGraphUpload, replay->executable, state->compute);
	return st ? st : CU(state, cuStreamSynchronize, state->compute);
}

enum tarn_status cuda_capture_end(struct device *device, struct replay **out)
{
	struct cuda_state *state = device->state;
	const struct cuda_calls *cu = &state->libraries.cu;
	struct replay *replay = state->replays;
	state->capturing = false;
	enum tarn_status st = CU(state, cuStreamEndCapture, state->compute, &replay->graph);
	if (st) /* the stream must not stay in a recording, or nothing else would work */
		(void)cu->cuStreamEndCapture(state->compute, &replay->graph);
	if (!st)
		st = check_nodes(state, replay->graph);
	if (!st)
		st = instantiate(state, replay);
	if (replay->graph && !cu->cuGraphDestroy(replay->graph))
		replay->graph = NULL; /* the executable is all that a replay needs */
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
	const struct cuda_calls *cu = &state->libraries.cu;
	if (state->capturing)
		(void)cu->cuStreamEndCapture(state->compute, &state->replays->graph);
	for (struct replay *replay = state->replays; replay; replay = replay->next) {
		if (replay->executable)
			(void)cu->cuGraphExecDestroy(replay->executable);
		if (replay->graph)
			(void)cu->cuGraphDestroy(replay->graph);
	}
}
