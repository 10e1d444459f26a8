/* session_predict.c - results of the network for given inputs, and classes of the test set; nothing here allocates but
 * at boot. */
#include "session.h"

#include <string.h>

/* graph/build.h, which an executor without planner does not have. */
#define RESULT "result"

enum tarn_status session_open_inference(struct tarn_session *session)
{
	const struct graph *graph = &session->plan.program[0].graph;
	uint32_t input = graph_find(graph, "staging/input"), output = graph_find(graph, RESULT);
	if (session->config.objective.type != OBJECTIVE_INFERENCE || input == TENSOR_NONE || output == TENSOR_NONE)
		return TARN_OK;
	session->inference.input = &graph->tensor[input];
	session->inference.output = &graph->tensor[output];
	session->inference.staged = host_arena_alloc(&session->arena, graph->tensor[input].bytes, 1);
	session->inference.result = host_arena_alloc(&session->arena, graph->tensor[output].bytes, 1);
	session->inference.label = HOST_ARRAY(&session->arena, graph->batch, int32_t);
	return session->inference.staged && session->inference.result && session->inference.label ? TARN_OK
												  : TARN_ENOMEM;
}

static enum tarn_status check_inference(const struct tarn_session *session)
{
	enum tarn_status st = session_check_running(session);
	if (!st && !session->inference.output)
		st = tarn_fail(TARN_EINVAL,
			       "this plan keeps no result of the network: it needs objective.type inference "
			       "and, without one label a sample, objective.result true");
	if (!st && !session_computes(session))
		st = tarn_fail(TARN_EUNSUPPORTED, "the null driver computes no results");
	return st;
}

enum tarn_status tarn_result_info(const struct tarn_session *session, struct tarn_result *result)
{
	enum tarn_status st = check_inference(session);
	if (st)
		return st;
	const struct tensor *y = session->inference.output, *x = session->inference.input;
	*result = (struct tarn_result){ .rank = y->rank - 1u,
					.elements = tensor_elements(y) / y->dim[0],
					.inputs = tensor_elements(x) / x->dim[0],
					.logits = session->config.network.loss == LOSS_CROSS_ENTROPY };
	memcpy(result->dim, y->dim + 1, result->rank * sizeof *result->dim);
	return TARN_OK;
}

/* One value for all channels, or one a channel; `fallback` where none is given. */
static float of_channel(const struct real_list *list, uint32_t channel, float fallback)
{
	if (!list->count)
		return fallback;
	return (float)list->item[list->count == 1 ? 0 : channel];
}

static void normalise(struct tarn_session *session, enum tarn_input kind, const void *input, uint64_t count)
{
	const struct tensor *x = session->inference.input;
	const struct real_list *mean = &session->config.data.mean, *std = &session->config.data.std;
	const uint32_t channels = x->dim[x->rank - 1];
	for (uint64_t i = 0; i < count; i++) {
		uint32_t channel = (uint32_t)(i % channels);
		float value = kind == TARN_INPUT_BYTES ? (float)((const uint8_t *)input)[i] / 255.0f
						       : ((const float *)input)[i];
		session->inference.staged[i] = (value - of_channel(mean, channel, 0)) / of_channel(std, channel, 1);
	}
}

static enum tarn_status stage(struct tarn_session *session, enum tarn_input kind, const void *input, uint64_t count)
{
	const struct tensor *x = session->inference.input;
	const bool tokens = x->dtype == DTYPE_I32;
	const uint32_t vocabulary = session->train.shape.vocabulary;
	if (tokens != (kind == TARN_INPUT_TOKENS))
		return tarn_fail(TARN_EINVAL, "the network reads %s, it was given %s", tokens ? "token ids" : "values",
				 tokens ? "values" : "token ids");
	if (!tokens) {
		normalise(session, kind, input, count);
		return exec_write(&session->executor, "staging/input", session->inference.staged, x->bytes);
	}
	const int32_t *ids = input;
	for (uint64_t i = 0; i < count; i++)
		if (ids[i] < 0 || (uint32_t)ids[i] >= vocabulary)
			return tarn_fail(TARN_EDATA, "token %llu is %d; the network knows 0 to %u",
					 (unsigned long long)i, ids[i], vocabulary - 1);
	memcpy(session->inference.staged, ids, count * sizeof *ids);
	return exec_write(&session->executor, "staging/input", session->inference.staged, x->bytes);
}

/* Rows behind the samples hold what was there before: the network has no ops across samples in inference. */
enum tarn_status tarn_predict(struct tarn_session *session, enum tarn_input kind, const void *input, uint32_t samples,
			      float *result)
{
	enum tarn_status st = check_inference(session);
	if (st)
		return st;
	const struct tensor *x = session->inference.input, *y = session->inference.output;
	if (!samples || samples > x->dim[0])
		return tarn_fail(TARN_EINVAL, "%u samples at once; the plan takes 1 to %u (data.batch)", samples,
				 x->dim[0]);
	st = stage(session, kind, input, tensor_elements(x) / x->dim[0] * samples);
	if (!st)
		st = exec_run(&session->executor, 0);
	if (!st)
		st = exec_read(&session->executor, RESULT, session->inference.result, y->bytes);
	if (!st)
		memcpy(result, session->inference.result, y->bytes / y->dim[0] * samples);
	return st;
}

enum tarn_status session_count_classes(struct tarn_session *session, const struct batch *batch, bool ran)
{
	const struct tensor *y = session->inference.output;
	const uint32_t classes = y->dim[1];
	enum tarn_status st = ran ? TARN_OK : exec_run(&session->executor, 0);
	if (!st)
		st = exec_read(&session->executor, RESULT, session->inference.result, y->bytes);
	if (!st)
		st = exec_read(&session->executor, "staging/target", session->inference.label,
			       batch->samples * sizeof(int32_t));
	for (uint32_t i = 0; i < batch->samples && !st; i++) {
		const float *row = session->inference.result + (uint64_t)i * classes;
		const int32_t label = session->inference.label[i];
		uint32_t best = 0;
		for (uint32_t c = 1; c < classes; c++)
			best = row[c] > row[best] ? c : best;
		if (label >= 0 && (uint32_t)label < classes && label != session->config.network.ignore_index)
			session->inference.confusion[(uint64_t)label * classes + best]++;
	}
	return st;
}

enum tarn_status tarn_evaluate_classes(struct tarn_session *session, struct tarn_evaluation *evaluation,
				       uint64_t *confusion, uint32_t classes)
{
	enum tarn_status st = check_inference(session);
	if (st)
		return st;
	const struct tensor *y = session->inference.output;
	if (y->rank != 2 || session->config.network.loss != LOSS_CROSS_ENTROPY)
		return tarn_fail(TARN_EINVAL, "classes are counted where a sample has one label");
	if (y->dim[1] != classes)
		return tarn_fail(TARN_EINVAL, "the network has %u classes, not %u", y->dim[1], classes);
	memset(confusion, 0, (size_t)classes * classes * sizeof *confusion);
	session->inference.confusion = confusion;
	st = tarn_evaluate(session, evaluation);
	session->inference.confusion = NULL;
	return st;
}
