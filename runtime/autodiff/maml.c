/* maml.c - see maml.h. */
#include "autodiff/maml.h"

#include "autodiff/autodiff.h"
#include "autodiff/decompose.h"
#include "autodiff/expression.h"
#include "autodiff/optimizer.h"

#include <string.h>

uint32_t maml_batch(const struct config *config)
{
	uint64_t class = (uint64_t)config->objective.shots + config->objective.queries;
	uint64_t task = class * config->objective.ways, all;
	return bytes_mul(task, config->objective.tasks, &all) && all < UINT32_MAX ? (uint32_t)all : UINT32_MAX;
}

/* A network for so many samples, and what an instance of it needs to know. */
struct prototype {
	struct graph network;
	uint32_t input, target; /* outputs of its INPUT ops */
	uint32_t loss, correct; /* correct: TENSOR_NONE where nothing is counted */
	uint32_t *shared;       /* of its tensors: ids of persistent ones in the graph, TENSOR_NONE for the rest */
	uint32_t *id;           /* scratch of an instance */
};

struct builder {
	const struct config *config;
	struct host_arena *scratch;
	struct graph *graph;
	bool train;
	struct prototype learn, query;
	uint32_t input, target; /* of the whole step */
	/* Of each trained parameter: itself in the graph, and by its id in the networks, which have the same names. */
	uint32_t count, *parameter, *in_learn, *in_query;
	uint32_t *rate; /* its factor; TENSOR_NONE without learn_rates */
	uint32_t *fast; /* what it has become in a task */
	uint32_t *gradient;
	uint32_t instances;
};

/* ---- prototypes ---- */

static uint32_t output_of_kind(const struct graph *graph, enum op_kind kind, uint32_t number)
{
	for (uint32_t op = 0; op < graph->ops; op++)
		if (graph->op[op].kind == kind && !number--)
			return op_outputs(graph, op)[0];
	return TENSOR_NONE;
}

/* The builder of networks puts "input" before "target". */
static enum tarn_status make_prototype(struct builder *b, const struct sample_shape *sample, uint32_t samples,
				       struct prototype *p)
{
	uint32_t output;
	enum tarn_status st = graph_init(&p->network, b->scratch);
	if (!st)
		st = network_build(b->config, sample, samples, BUILD_TRAINING, b->scratch, &p->network, &p->loss,
				   &output);
	if (st)
		return st;
	p->input = output_of_kind(&p->network, OP_INPUT, 0);
	p->target = output_of_kind(&p->network, OP_INPUT, 1);
	p->correct = output_of_kind(&p->network, OP_COUNT_CORRECT, 0);
	p->shared = HOST_ARRAY(b->scratch, p->network.tensors, uint32_t);
	p->id = HOST_ARRAY(b->scratch, p->network.tensors, uint32_t);
	return p->shared && p->id ? TARN_OK : TARN_ENOMEM;
}

/* The persistent tensors of the step: those of the network, but with staging for all tasks. */
static enum tarn_status add_persistents(struct builder *b)
{
	const struct graph *network = &b->query.network;
	b->graph->batch = maml_batch(b->config);
	memset(b->query.shared, 0xFF, network->tensors * sizeof *b->query.shared);
	for (uint32_t t = 0; t < network->tensors; t++) {
		struct tensor tensor = network->tensor[t];
		uint32_t *id = &b->query.shared[t];
		if (!is_persistent(tensor.role) || tensor.producer != OP_NONE)
			continue;
		if (tensor.role == ROLE_STAGING)
			tensor.dim[0] = b->graph->batch;
		enum tarn_status st =
			graph_add_persistent(b->graph, tensor_name(network, t), (enum tensor_role)tensor.role,
					     (enum dtype)tensor.dtype, tensor.dim, tensor.rank, id);
		if (st)
			return st;
		b->graph->tensor[*id].init = tensor.init;
		b->graph->tensor[*id].init_bound = tensor.init_bound;
		b->graph->tensor[*id].flags = tensor.flags;
	}
	b->graph->scalars = b->query.shared[network->scalars];
	memset(b->learn.shared, 0xFF, b->learn.network.tensors * sizeof *b->learn.shared);
	for (uint32_t t = 0; t < b->learn.network.tensors; t++) {
		const struct tensor *tensor = &b->learn.network.tensor[t];
		if (is_persistent(tensor->role) && tensor->producer == OP_NONE)
			b->learn.shared[t] = graph_find(b->graph, tensor_name(&b->learn.network, t));
	}
	return TARN_OK;
}

static enum tarn_status add_rate(struct builder *b, uint32_t index)
{
	const uint32_t one = 1;
	char *name = host_arena_printf(b->scratch, "rate/%s", tensor_name(b->graph, b->parameter[index]));
	if (!name)
		return TARN_ENOMEM;
	enum tarn_status st = graph_add_persistent(b->graph, name, ROLE_PARAMETER, DTYPE_F32, &one, 1, &b->rate[index]);
	if (st)
		return st;
	b->graph->tensor[b->rate[index]].init = INIT_ONE;
	b->graph->tensor[b->rate[index]].flags = TENSOR_NO_DECAY;
	return TARN_OK;
}

static enum tarn_status list_parameters(struct builder *b)
{
	const uint32_t tensors = b->graph->tensors;
	uint32_t **const lists[] = { &b->parameter, &b->in_learn, &b->in_query, &b->rate, &b->fast };
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
		*lists[i] = HOST_ARRAY(b->scratch, tensors, uint32_t);
		if (!*lists[i])
			return TARN_ENOMEM;
	}
	b->gradient = HOST_ARRAY(b->scratch, 2 * (size_t)tensors, uint32_t);
	if (!b->gradient)
		return TARN_ENOMEM;
	for (uint32_t t = 0; t < tensors; t++) {
		const struct tensor *tensor = &b->graph->tensor[t];
		if (tensor->role != ROLE_PARAMETER || tensor->flags & TENSOR_FROZEN)
			continue;
		b->parameter[b->count] = t;
		b->rate[b->count] = TENSOR_NONE;
		b->in_learn[b->count] = graph_find(&b->learn.network, tensor_name(b->graph, t));
		b->in_query[b->count++] = graph_find(&b->query.network, tensor_name(b->graph, t));
	}
	if (!b->count)
		return tarn_fail(TARN_EINVAL, "%s: the network has no parameter to train",
				 b->config->file ? b->config->file : "configuration");
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 0; i < b->count && b->config->objective.learn_rates && !st; i++)
		st = add_rate(b, i);
	return st;
}

/* ---- instances ---- */

/* Samples [begin, begin + count) of the step's input or target. */
static uint32_t samples_of(struct expression *e, uint32_t tensor, uint32_t begin, uint32_t count)
{
	if (!e->status && e->graph->tensor[tensor].dim[0] == count)
		return tensor;
	return expression_slice(e, tensor, 0, begin, count);
}

/* The network with the parameters that the task has now, on these samples; its tensors are then in p->id. */
static enum tarn_status instantiate(struct builder *b, struct prototype *p, const uint32_t *in_network,
				    const char *prefix, uint32_t begin)
{
	const uint32_t samples = p->network.batch;
	struct expression e = { .graph = b->graph, .phase = PHASE_FORWARD };
	struct decomposition d = { .from = &p->network,
				   .prefix = prefix,
				   /* The queries' loss is differentiated once whatever the order. */
				   .fused = p == &b->query || b->config->objective.order == 1,
				   .stream = b->instances++,
				   .without_dropout = !b->train,
				   .id = p->id };
	e.name = host_arena_printf(b->scratch, "%ssamples", prefix);
	if (!e.name)
		return TARN_ENOMEM;
	memcpy(p->id, p->shared, p->network.tensors * sizeof *p->id);
	for (uint32_t i = 0; i < b->count; i++)
		p->id[in_network[i]] = b->fast[i];
	p->id[p->input] = samples_of(&e, b->input, begin, samples);
	p->id[p->target] = samples_of(&e, b->target, begin, samples);
	return e.status ? e.status : decompose_network(&d, b->scratch, b->graph);
}

/* w - rate g */
static uint32_t step_of(struct builder *b, struct expression *e, uint32_t index)
{
	uint32_t g = b->gradient[index];
	if (b->config->objective.order == 1)
		g = expression_op(e, OP_STOP_GRADIENT, NULL, &g, 1, NULL);
	g = expression_scale(e, g, -b->config->objective.inner_rate);
	if (b->rate[index] != TENSOR_NONE)
		g = expression_times_scalar(e, g, b->rate[index]);
	return expression_add(e, b->fast[index], g);
}

static enum tarn_status inner_step(struct builder *b, uint32_t task, uint32_t number, uint32_t begin)
{
	struct expression e = { .graph = b->graph, .phase = PHASE_FORWARD };
	char *prefix = host_arena_printf(b->scratch, "task%u/inner%u/", task + 1, number + 1);
	char *name = host_arena_printf(b->scratch, "task%u/inner%u/update", task + 1, number + 1);
	if (!prefix || !name)
		return TARN_ENOMEM;
	e.name = name;
	enum tarn_status st = instantiate(b, &b->learn, b->in_learn, prefix, begin);
	uint32_t first = b->graph->ops;
	if (!st)
		st = autodiff_gradients(b->graph, b->learn.id[b->learn.loss], b->fast, b->count, b->scratch,
					b->gradient);
	if (st)
		return st;
	autodiff_as_forward(b->graph, first);
	for (uint32_t i = 0; i < b->count; i++)
		if (b->gradient[i] != TENSOR_NONE)
			b->fast[i] = step_of(b, &e, i);
	return e.status;
}

/* *loss: of the task, divided by the number of tasks. */
static enum tarn_status add_task(struct builder *b, uint32_t task, uint32_t *loss, uint32_t *correct)
{
	const uint32_t learn = b->learn.network.batch, each = learn + b->query.network.batch;
	struct expression e = { .graph = b->graph, .phase = PHASE_FORWARD };
	enum tarn_status st = TARN_OK;
	memcpy(b->fast, b->parameter, b->count * sizeof *b->fast);
	for (uint32_t k = 0; k < b->config->objective.inner_steps && !st; k++)
		st = inner_step(b, task, k, task * each);
	char *prefix = host_arena_printf(b->scratch, "task%u/query/", task + 1);
	char *name = host_arena_printf(b->scratch, "task%u", task + 1);
	if (st || !prefix || !name)
		return st ? st : TARN_ENOMEM;
	st = instantiate(b, &b->query, b->in_query, prefix, task * each + learn);
	if (st)
		return st;
	e.name = name;
	*loss = expression_scale(&e, b->query.id[b->query.loss], 1.0 / b->config->objective.tasks);
	*correct = b->query.correct == TENSOR_NONE ? TENSOR_NONE : b->query.id[b->query.correct];
	return e.status;
}

/* ---- the step ---- */

static uint32_t sum_of(struct expression *e, uint32_t sum, uint32_t x)
{
	return sum == TENSOR_NONE ? x : x == TENSOR_NONE ? sum : expression_add(e, sum, x);
}

static enum tarn_status record(struct builder *b, const char *metric, uint32_t value)
{
	const uint32_t input[2] = { graph_find(b->graph, metric), value };
	char *name = host_arena_printf(b->scratch, "record/%s", metric);
	if (!name)
		return TARN_ENOMEM;
	if (value == TENSOR_NONE || input[0] == TENSOR_NONE)
		return TARN_OK;
	return graph_add_op(b->graph, OP_RECORD, PHASE_FORWARD, name, NULL, input, 2, NULL);
}

/* Parameters, then their rates. */
static uint32_t list_trained(const struct builder *b, uint32_t *trained)
{
	uint32_t n = b->count;
	memcpy(trained, b->parameter, b->count * sizeof *trained);
	for (uint32_t i = 0; i < b->count; i++)
		if (b->rate[i] != TENSOR_NONE)
			trained[n++] = b->rate[i];
	return n;
}

/* All tasks, with the gradients that they add up to. */
static enum tarn_status add_tasks(struct builder *b, const uint32_t *trained, uint32_t count, uint32_t *total)
{
	struct expression sum = { .graph = b->graph, .phase = PHASE_FORWARD, .name = "tasks" };
	uint32_t loss = TENSOR_NONE, correct = TENSOR_NONE, task_loss, task_correct;
	enum tarn_status st = TARN_OK;
	memset(total, 0xFF, count * sizeof *total);
	for (uint32_t task = 0; task < b->config->objective.tasks && !st; task++) {
		st = add_task(b, task, &task_loss, &task_correct);
		if (st)
			return st;
		loss = sum_of(&sum, loss, task_loss);
		correct = sum_of(&sum, correct, task_correct);
		if (b->train)
			st = autodiff_gradients(b->graph, task_loss, trained, count, b->scratch, b->gradient);
		struct expression gradients = { .graph = b->graph, .phase = PHASE_BACKWARD, .name = "tasks/gradient" };
		for (uint32_t i = 0; i < count && b->train && !st; i++)
			total[i] = sum_of(&gradients, total[i], b->gradient[i]);
		st = st ? st : gradients.status ? gradients.status : sum.status;
	}
	if (!st)
		st = record(b, "metric/loss", loss);
	return st ? st : record(b, "metric/correct", correct);
}

static enum tarn_status build(struct builder *b, const struct sample_shape *sample)
{
	const uint32_t ways = b->config->objective.ways;
	enum tarn_status st = make_prototype(b, sample, ways * b->config->objective.shots, &b->learn);
	if (!st)
		st = make_prototype(b, sample, ways * b->config->objective.queries, &b->query);
	if (!st)
		st = add_persistents(b);
	if (!st)
		st = list_parameters(b);
	if (!st && b->train)
		st = optimizer_add_state(b->graph, b->config);
	if (st)
		return st;
	const uint32_t input = graph_find(b->graph, "staging/input"), target = graph_find(b->graph, "staging/target");
	st = graph_add_op(b->graph, OP_INPUT, PHASE_FORWARD, "input", NULL, &input, 1, &b->input);
	if (!st)
		st = graph_add_op(b->graph, OP_INPUT, PHASE_FORWARD, "target", NULL, &target, 1, &b->target);
	uint32_t *trained = HOST_ARRAY(b->scratch, 2 * (size_t)b->count, uint32_t);
	uint32_t *total = HOST_ARRAY(b->scratch, 2 * (size_t)b->count, uint32_t);
	if (st || !trained || !total)
		return st ? st : TARN_ENOMEM;
	uint32_t count = list_trained(b, trained);
	st = add_tasks(b, trained, count, total);
	if (!st && b->train)
		st = optimizer_add_updates(b->graph, b->config, trained, total, count, b->scratch);
	return st;
}

enum tarn_status maml_build(const struct config *config, const struct sample_shape *sample, bool train,
			    struct host_arena *scratch, struct graph *graph)
{
	struct builder b = { .config = config, .scratch = scratch, .graph = graph, .train = train };
	struct sample_shape task = *sample;
	if (config->network.loss != LOSS_CROSS_ENTROPY || sample->target_rank || sample->vocabulary)
		return tarn_fail(TARN_EINVAL,
				 "objective.type: maml needs data with one label a sample and cross_entropy");
	if (config->precision.compute != NUMBER_FLOAT32)
		return tarn_fail(TARN_EUNSUPPORTED, "precision.compute: objective.type: maml computes in float32");
	if (sample->arrays || config->data.shapes.count)
		return tarn_fail(TARN_EINVAL, "objective.type: maml takes neither data.arrays nor data.shapes");
	if (maml_batch(config) == UINT32_MAX)
		return tarn_fail(TARN_EINVAL, "objective: ways, shots, queries and tasks make too many samples");
	/* Streams of dropout in instances: decompose.c. */
	if ((uint64_t)config->objective.tasks * (config->objective.inner_steps + 1u) >= 1u << 14)
		return tarn_fail(TARN_EINVAL,
				 "objective: %u tasks of %u inner steps are too many instances of the network",
				 config->objective.tasks, config->objective.inner_steps);
	task.classes = config->objective.ways;
	enum tarn_status st = build(&b, &task);
	if (st)
		return st;
	return graph_check(graph) ? tarn_fail_prefix(TARN_EINTERNAL, "graph of meta-learning") : TARN_OK;
}
