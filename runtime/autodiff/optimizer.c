/* optimizer.c - see optimizer.h. */
#include "autodiff/optimizer.h"

#include "autodiff/average.h"
#include "autodiff/parameter_groups.h"
#include "graph/blockwise.h"

#include <stdlib.h>

enum state_shape {
	STATE_LIKE_PARAMETER,
	STATE_ROW,    /* one number for each position of the first axis */
	STATE_COLUMN, /* one for each position of the others together */
	STATE_BLOCKS  /* bytes, blockwise.h */
};

/* What an optimizer keeps of each parameter, and its op. */
struct method {
	enum op_kind kind;
	uint32_t states;
	const char *state[2];
	enum state_shape shape[2];
};

/* Small parameters keep 32-bit state, and only matrices have rows and columns. */
static const struct method *method_of(const struct config *config, const struct tensor *parameter)
{
	static const struct method sgd = { .kind = OP_SGD };
	static const struct method momentum = { .kind = OP_MOMENTUM, .states = 1, .state = { "momentum" } };
	static const struct method adam = { .kind = OP_ADAM, .states = 2, .state = { "m", "v" } };
	static const struct method adam_8bit = {
		.kind = OP_ADAM_8BIT, .states = 2, .state = { "m", "v" }, .shape = { STATE_BLOCKS, STATE_BLOCKS }
	};
	static const struct method lion = { .kind = OP_LION, .states = 1, .state = { "m" } };
	static const struct method adafactor = {
		.kind = OP_ADAFACTOR, .states = 2, .state = { "row", "column" }, .shape = { STATE_ROW, STATE_COLUMN }
	};
	static const struct method adafactor_vector = { .kind = OP_ADAFACTOR_VECTOR, .states = 1, .state = { "v" } };
	const uint64_t elements = tensor_elements(parameter);
	switch ((enum optimizer_kind)config->optimizer.type) {
	case OPTIMIZER_SGD:
		return &sgd;
	case OPTIMIZER_MOMENTUM:
		return &momentum;
	case OPTIMIZER_ADAM:
	case OPTIMIZER_ADAMW:
		return config->optimizer.state == STATE_INT8 && elements >= BLOCKWISE_LEAST ? &adam_8bit : &adam;
	case OPTIMIZER_LION:
		return &lion;
	case OPTIMIZER_ADAFACTOR:
		return parameter->rank >= 2 && parameter->dim[0] < elements ? &adafactor : &adafactor_vector;
	}
	return NULL;
}

static bool has_mask(const struct config *config, const struct tensor *parameter)
{
	return config->optimizer.masks && parameter->rank >= 2;
}

static bool is_trained(const struct tensor *tensor)
{
	return tensor->role == ROLE_PARAMETER && tensor->producer == OP_NONE && !(tensor->flags & TENSOR_FROZEN);
}

/* "optimizer/conv1/weight/momentum", in the graph's arena. */
static char *state_name(const struct graph *graph, uint32_t parameter, const char *state)
{
	return host_arena_printf(graph->arena, "optimizer/%s/%s", tensor_name(graph, parameter), state);
}

static enum tarn_status add_state(struct graph *graph, uint32_t parameter, const char *state, enum state_shape kind,
				  enum tensor_init init)
{
	const struct tensor shape = graph->tensor[parameter];
	const uint64_t elements = tensor_elements(&shape);
	const uint64_t length = kind == STATE_ROW      ? shape.dim[0]
				: kind == STATE_COLUMN ? elements / shape.dim[0]
						       : blockwise_bytes(elements);
	const uint32_t vector = (uint32_t)length;
	const bool like = kind == STATE_LIKE_PARAMETER;
	uint32_t id;
	char *name = state_name(graph, parameter, state);
	if (!name)
		return TARN_ENOMEM;
	if (!like && length > UINT32_MAX)
		return tarn_fail(TARN_EINVAL, "%s: a state of %llu is too long; use optimizer.state: float32", name,
				 (unsigned long long)length);
	enum tarn_status st =
		graph_add_persistent(graph, name, ROLE_OPTIMIZER_STATE, kind == STATE_BLOCKS ? DTYPE_U8 : DTYPE_F32,
				     like ? shape.dim : &vector, like ? shape.rank : 1, &id);
	if (!st)
		graph->tensor[id].init = (uint8_t)init;
	return st;
}

enum tarn_status optimizer_add_state(struct graph *graph, const struct config *config)
{
	const uint32_t tensors = graph->tensors, one = 1;
	uint32_t metric;
	for (uint32_t t = 0; t < tensors; t++) {
		if (!is_trained(&graph->tensor[t]))
			continue;
		const struct method *method = method_of(config, &graph->tensor[t]);
		if (!method)
			return tarn_fail(TARN_EINVAL, "optimizer %u is not known", config->optimizer.type);
		enum tarn_status st = TARN_OK;
		for (uint32_t k = 0; k < method->states && !st; k++)
			st = add_state(graph, t, method->state[k], method->shape[k], INIT_ZERO);
		if (!st && has_mask(config, &graph->tensor[t]))
			st = add_state(graph, t, "mask", STATE_LIKE_PARAMETER, INIT_ONE);
		if (st)
			return st;
	}
	enum tarn_status st = average_add_state(graph, config);
	if (st || config->optimizer.clip_norm <= 0)
		return st;
	return graph_add_persistent(graph, "metric/gradient_norm", ROLE_METRIC, DTYPE_F32, &one, 1, &metric);
}

enum tarn_status optimizer_add_loss_scale(struct graph *graph, const struct config *config, uint32_t *scale)
{
	static const char *const name[] = { LOSS_SCALE_STATE, LOSS_SCALE_GOOD, LOSS_SCALE_SKIPPED };
	const uint32_t one = 1;
	enum tarn_status st = TARN_OK;
	*scale = TENSOR_NONE;
	for (uint32_t i = 0; i < 3 && !st && config->precision.compute == NUMBER_FLOAT16; i++) {
		uint32_t id;
		st = graph_add_persistent(graph, name[i], ROLE_OPTIMIZER_STATE, DTYPE_F32, &one, 1, &id);
		if (st)
			return st;
		graph->tensor[id].init = i ? INIT_ZERO : INIT_VALUE;
		graph->tensor[id].init_bound = i ? 0.0f : (float)config->precision.loss_scale_initial;
		*scale = i ? *scale : id;
	}
	return st;
}

/* A parameter and its gradient. */
struct update {
	uint32_t parameter, gradient;
	uint32_t complete; /* op that completes the gradient */
};

static int compare_updates(const void *a, const void *b)
{
	const struct update *x = a, *y = b;
	if (x->complete != y->complete)
		return x->complete < y->complete ? -1 : 1;
	return x->parameter < y->parameter ? -1 : x->parameter > y->parameter;
}

/* Those that have a gradient, in the order in which the gradients are complete. */
static struct update *list_updates(const struct graph *graph, const uint32_t *parameter, const uint32_t *gradient,
				   uint32_t *count, struct host_arena *arena)
{
	struct update *update = HOST_ARRAY(arena, *count, struct update);
	uint32_t n = 0;
	if (!update)
		return NULL;
	for (uint32_t i = 0; i < *count; i++)
		if (gradient[i] != TENSOR_NONE)
			update[n++] = (struct update){ parameter[i], gradient[i], graph->tensor[gradient[i]].producer };
	qsort(update, n, sizeof *update, compare_updates);
	*count = n;
	return update;
}

/* The gradient becomes that of the weights that are left. */
static enum tarn_status add_mask(struct graph *graph, const struct config *config, struct update *update)
{
	if (!has_mask(config, &graph->tensor[update->parameter]))
		return TARN_OK;
	char *mask = state_name(graph, update->parameter, "mask");
	char *name = host_arena_printf(graph->arena, "%s/gradient_masked", tensor_name(graph, update->parameter));
	if (!mask || !name)
		return TARN_ENOMEM;
	const uint32_t input[2] = { update->gradient, graph_find(graph, mask) };
	return graph_add_op(graph, OP_MULTIPLY, PHASE_UPDATE, name, NULL, input, 2, &update->gradient);
}

/* One sum of squares a gradient, and the barrier that needs them all. */
static enum tarn_status add_scale(struct graph *graph, const struct config *config, const struct update *update,
				  uint32_t count, struct host_arena *arena, uint32_t *scale)
{
	const struct op_attr attr = { .alpha = (float)config->optimizer.clip_norm };
	const uint32_t loss_scale = graph_find(graph, LOSS_SCALE_STATE), first = loss_scale != TENSOR_NONE;
	uint32_t *input = HOST_ARRAY(arena, count + 1, uint32_t), result[2];
	if (!input)
		return TARN_ENOMEM;
	input[0] = loss_scale;
	for (uint32_t i = 0; i < count; i++) {
		char *name =
			host_arena_printf(graph->arena, "%s/gradient_squares", tensor_name(graph, update[i].parameter));
		if (!name)
			return TARN_ENOMEM;
		enum tarn_status st = graph_add_op(graph, OP_SUM_SQUARES, PHASE_UPDATE, name, NULL, &update[i].gradient,
						   1, &input[first + i]);
		if (st)
			return st;
	}
	enum tarn_status st = graph_add_op(graph, first ? OP_UNSCALE : OP_CLIP_SCALE, PHASE_UPDATE,
					   first ? "unscale" : "clip", &attr, input, first + count, result);
	*scale = result[0];
	if (st || config->optimizer.clip_norm <= 0)
		return st;
	const uint32_t record[2] = { graph_find(graph, "metric/gradient_norm"), result[1] };
	return graph_add_op(graph, OP_RECORD, PHASE_UPDATE, "record/gradient_norm", NULL, record, 2, NULL);
}

static enum tarn_status adapt_loss_scale(struct graph *graph, const struct config *config, uint32_t scale)
{
	const struct op_attr attr = { .samples = config->precision.growth_interval };
	const uint32_t input[4] = { graph_find(graph, LOSS_SCALE_STATE), graph_find(graph, LOSS_SCALE_GOOD),
				    graph_find(graph, LOSS_SCALE_SKIPPED), scale };
	if (input[0] == TENSOR_NONE)
		return TARN_OK;
	return graph_add_op(graph, OP_LOSS_SCALE, PHASE_UPDATE, "loss_scale", &attr, input, 4, NULL);
}

/* The numbers of the method that the op needs; the others stay zero, so that equal ops are equal. */
static struct op_attr update_attr(const struct config *config, const struct method *method,
				  const struct tensor *parameter)
{
	struct op_attr attr = { .rate_scale = 1 };
	if (!(parameter->flags & TENSOR_NO_DECAY))
		attr.weight_decay = (float)config->optimizer.weight_decay;
	if (method->kind == OP_MOMENTUM) {
		attr.momentum = (float)config->optimizer.momentum;
		attr.nesterov = config->optimizer.nesterov;
	} else if (method->kind == OP_LION) {
		attr.beta1 = (float)config->optimizer.beta1;
		attr.beta2 = (float)config->optimizer.beta2;
	} else if (method->kind == OP_ADAM || method->kind == OP_ADAM_8BIT) {
		attr.beta1 = (float)config->optimizer.beta1;
		attr.beta2 = (float)config->optimizer.beta2;
		attr.epsilon = (float)config->optimizer.epsilon;
		attr.decoupled = config->optimizer.type == OPTIMIZER_ADAMW;
	}
	return attr;
}

/* w, state ..., gradient, scalars [, scale]. */
static enum tarn_status add_update(struct graph *graph, const struct config *config, const struct update *update,
				   uint32_t scale)
{
	const struct method *method = method_of(config, &graph->tensor[update->parameter]);
	struct op_attr attr = update_attr(config, method, &graph->tensor[update->parameter]);
	uint32_t input[6] = { update->parameter }, inputs = 1;
	for (uint32_t k = 0; k < method->states; k++) {
		char *state = state_name(graph, update->parameter, method->state[k]);
		if (!state)
			return TARN_ENOMEM;
		input[inputs++] = graph_find(graph, state);
	}
	enum tarn_status st = parameter_groups_apply(graph, config, update->parameter, &attr);
	if (st)
		return st;
	input[inputs++] = update->gradient;
	input[inputs++] = graph->scalars;
	if (scale != TENSOR_NONE)
		input[inputs++] = scale;
	char *name = host_arena_printf(graph->arena, "%s/update", tensor_name(graph, update->parameter));
	if (!name)
		return TARN_ENOMEM;
	return graph_add_op(graph, method->kind, PHASE_UPDATE, name, &attr, input, inputs, NULL);
}

enum tarn_status optimizer_add_updates(struct graph *graph, const struct config *config, const uint32_t *parameter,
				       const uint32_t *gradient, uint32_t count, struct host_arena *arena)
{
	uint32_t scale = TENSOR_NONE;
	enum tarn_status st = parameter_groups_check(graph, config, parameter, count);
	if (st)
		return st;
	struct update *update = list_updates(graph, parameter, gradient, &count, arena);
	if (!update)
		return TARN_ENOMEM;
	for (uint32_t i = 0; i < count && !st; i++)
		st = add_mask(graph, config, &update[i]);
	bool scaled = config->optimizer.clip_norm > 0 || graph_find(graph, LOSS_SCALE_STATE) != TENSOR_NONE;
	if (!st && count && scaled)
		st = add_scale(graph, config, update, count, arena, &scale);
	for (uint32_t i = 0; i < count && !st; i++)
		st = add_update(graph, config, &update[i], scale);
	if (!st && scale != TENSOR_NONE)
		st = adapt_loss_scale(graph, config, scale);
	return st ? st : average_add_updates(graph, config);
}
