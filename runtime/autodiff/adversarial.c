/* adversarial.c - see adversarial.h. */
#include "autodiff/adversarial.h"

#include "autodiff/autodiff.h"
#include "autodiff/decompose.h"
#include "autodiff/expression.h"

#include <string.h>

struct builder {
	const struct config *config;
	struct host_arena *scratch;
	struct graph *graph, network;
	uint32_t loss;         /* of the network */
	uint32_t record;       /* op of the network that records the loss; OP_NONE: nothing does */
	uint32_t input;        /* output of its INPUT op */
	uint32_t x;            /* and what that is in the graph */
	uint32_t *shared, *id; /* of its tensors: persistent ones and inputs in the graph; scratch of an instance */
	struct expression e;
};

bool adversarial_applies(const struct config *config, enum build_mode mode)
{
	if (mode == BUILD_INFERENCE)
		return config->objective.type == OBJECTIVE_ADVERSARIAL && config->objective.attack_test;
	return config->objective.type == OBJECTIVE_ADVERSARIAL || config->objective.type == OBJECTIVE_GRADIENT_PENALTY;
}

static enum tarn_status check(const struct config *config, const struct sample_shape *sample)
{
	if (config->precision.compute != NUMBER_FLOAT32)
		return tarn_fail(TARN_EUNSUPPORTED,
				 "precision.compute: gradients by the input are computed in float32");
	if (sample->vocabulary)
		return tarn_fail(TARN_EINVAL, "objective.type: the input are tokens, which cannot be moved a little");
	if (config->network.target == TARGET_INPUT)
		return tarn_fail(TARN_EINVAL, "objective.type: with network.target: input the target would move too");
	if (config->objective.type == OBJECTIVE_ADVERSARIAL && config->objective.weight > 1)
		return tarn_fail(TARN_EINVAL,
				 "objective.weight is %g: the share of moved inputs in the loss is at most 1",
				 config->objective.weight);
	return TARN_OK;
}

/* The op that records the loss whose gradient is taken. */
static uint32_t find_record(const struct graph *network, uint32_t loss)
{
	for (uint32_t op = 0; op < network->ops; op++)
		if (network->op[op].kind == OP_RECORD && op_inputs(network, op)[1] == loss)
			return op;
	return OP_NONE;
}

/* Persistent tensors and what the loader brought, which all instances share. */
static enum tarn_status begin(struct builder *b)
{
	const struct graph *network = &b->network;
	b->shared = HOST_ARRAY(b->scratch, network->tensors, uint32_t);
	b->id = HOST_ARRAY(b->scratch, network->tensors, uint32_t);
	if (!b->shared || !b->id)
		return TARN_ENOMEM;
	b->graph->batch = network->batch;
	enum tarn_status st = decompose_persistents(network, b->graph, b->shared);
	b->graph->scalars = b->shared[network->scalars];
	for (uint32_t op = 0; op < network->ops && !st; op++) {
		if (network->op[op].kind != OP_INPUT)
			continue;
		uint32_t from = b->shared[op_inputs(network, op)[0]], output = op_outputs(network, op)[0];
		st = graph_add_op(b->graph, OP_INPUT, PHASE_FORWARD, op_name(network, op), NULL, &from, 1,
				  &b->shared[output]);
		if (!strcmp(op_name(network, op), "input"))
			b->input = output;
	}
	b->x = b->shared[b->input];
	return st;
}

/* The network at `input`; its loss. `prefix` "": the instance whose effects and metrics are those of the step. */
static uint32_t instantiate(struct builder *b, const char *prefix, uint32_t input, bool fused)
{
	struct decomposition d = {
		.from = &b->network, .prefix = prefix, .fused = fused, .effects = !*prefix, .id = b->id
	};
	if (b->e.status)
		return TENSOR_NONE;
	memcpy(b->id, b->shared, b->network.tensors * sizeof *b->id);
	b->id[b->input] = input;
	/* Its place is taken by a record of the total. */
	if (b->record != OP_NONE)
		b->id[op_outputs(&b->network, b->record)[0]] = b->shared[op_inputs(&b->network, b->record)[0]];
	b->e.status = decompose_network(&d, b->scratch, b->graph);
	return b->e.status ? TENSOR_NONE : b->id[b->loss];
}

/* d loss / d x, which may be differentiated like what came before. */
static uint32_t gradient_of(struct builder *b, uint32_t loss, uint32_t x)
{
	const uint32_t first = b->graph->ops;
	uint32_t gradient = TENSOR_NONE;
	if (b->e.status)
		return TENSOR_NONE;
	b->e.status = autodiff_gradients(b->graph, loss, &x, 1, b->scratch, &gradient);
	autodiff_as_forward(b->graph, first);
	if (!b->e.status && gradient == TENSOR_NONE)
		b->e.status = tarn_fail(TARN_EINVAL, "objective.type: the loss does not depend on the input");
	return gradient;
}

static uint32_t add_penalty(struct builder *b)
{
	struct expression *e = &b->e;
	uint32_t loss = instantiate(b, "", b->x, false);
	uint32_t gradient = gradient_of(b, loss, b->x);
	uint32_t squares = expression_op(e, OP_SUM_SQUARES, NULL, &gradient, 1, NULL);
	return expression_add(e, loss, expression_scale(e, squares, b->config->objective.weight * b->network.batch));
}

/* 1, 0 or -1: the derivative of relu, which is 0 at 0, on both sides. */
static uint32_t sign_of(struct expression *e, uint32_t x)
{
	uint32_t one = expression_fill(e, x, 1);
	uint32_t above = expression_activation_grad(e, ACTIVATION_RELU, 0, one, x);
	uint32_t below = expression_activation_grad(e, ACTIVATION_RELU, 0, one, expression_scale(e, x, -1));
	return expression_subtract(e, above, below);
}

/* x cut off at -limit and limit, by relu6, which cuts off at 0 and 6. */
static uint32_t clip(struct expression *e, uint32_t x, double limit)
{
	uint32_t shifted = expression_add_constant(e, expression_scale(e, x, 3 / limit), 3);
	uint32_t cut = expression_activation(e, ACTIVATION_RELU6, 0, shifted);
	return expression_scale(e, expression_add_constant(e, cut, -3), limit / 3);
}

/* How far the input is moved. */
static uint32_t search(struct builder *b, enum build_mode mode)
{
	const bool fgsm = b->config->objective.method == ATTACK_FGSM;
	const double epsilon = b->config->objective.epsilon;
	const uint32_t steps = fgsm ? 1 : b->config->objective.attack_steps;
	const double given = b->config->objective.step_size, size = fgsm        ? epsilon
								    : given > 0 ? given
										: 2.5 * epsilon / steps;
	struct expression *e = &b->e;
	/* Normalisation by running statistics has no fused gradient by its input. */
	const bool fused = mode == BUILD_TRAINING;
	uint32_t moved = TENSOR_NONE;
	for (uint32_t k = 0; k < steps && !e->status; k++) {
		char *prefix = host_arena_printf(b->scratch, "attack%u/", k + 1);
		char *name = host_arena_printf(b->scratch, "attack%u", k + 1);
		if (!prefix || !name) {
			e->status = TARN_ENOMEM;
			break;
		}
		e->name = name;
		uint32_t x = k ? expression_add(e, b->x, moved) : b->x;
		uint32_t gradient = gradient_of(b, instantiate(b, prefix, x, fused), x);
		uint32_t step = expression_scale(e, sign_of(e, gradient), size);
		moved = k ? expression_add(e, moved, step) : step;
		if (!fgsm)
			moved = clip(e, moved, epsilon);
	}
	return expression_op(e, OP_STOP_GRADIENT, NULL, &moved, 1, NULL);
}

static uint32_t add_attack(struct builder *b, enum build_mode mode)
{
	const double share = mode == BUILD_INFERENCE ? 1 : b->config->objective.weight;
	struct expression *e = &b->e;
	uint32_t moved = search(b, mode);
	e->name = "objective";
	uint32_t x = expression_add(e, b->x, moved), clean = TENSOR_NONE;
	if (share < 1)
		clean = expression_scale(e, instantiate(b, "clean/", b->x, true), 1 - share);
	uint32_t loss = instantiate(b, "", x, true);
	return share < 1 ? expression_add(e, expression_scale(e, loss, share), clean) : loss;
}

static enum tarn_status record(struct builder *b, uint32_t loss)
{
	if (b->e.status || b->record == OP_NONE)
		return b->e.status;
	const uint32_t input[2] = { b->shared[op_inputs(&b->network, b->record)[0]], loss };
	return graph_add_op(b->graph, OP_RECORD, PHASE_FORWARD, "record/objective", NULL, input, 2, NULL);
}

enum tarn_status adversarial_build(const struct config *config, const struct sample_shape *sample, uint32_t batch,
				   enum build_mode mode, struct host_arena *scratch, struct graph *graph,
				   uint32_t *loss)
{
	struct builder b = { .config = config, .scratch = scratch, .graph = graph };
	uint32_t output;
	enum tarn_status st = check(config, sample);
	if (!st)
		st = graph_init(&b.network, scratch);
	if (!st)
		st = network_build(config, sample, batch, mode, scratch, &b.network, &b.loss, &output);
	if (!st)
		st = begin(&b);
	if (st)
		return st;
	b.record = find_record(&b.network, b.loss);
	b.e = (struct expression){ .graph = graph, .phase = PHASE_FORWARD, .name = "objective" };
	*loss = config->objective.type == OBJECTIVE_ADVERSARIAL ? add_attack(&b, mode) : add_penalty(&b);
	return record(&b, *loss);
}
