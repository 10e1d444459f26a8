/* microbatch.c - see microbatch.h. */
#include "graph/microbatch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NONE TENSOR_NONE

struct join {
	const struct config *config;
	struct graph *graph; /* that of the whole batch */
	struct host_arena *scratch;
	uint32_t batch, parts;
	uint32_t *input;     /* by staging slot, in `graph`: what its INPUT op gives */
	uint32_t *summary;   /* sums of losses and counts, in the order of their ops */
	uint32_t *statistic; /* sums of mean and var of each RUNNING_UPDATE, in their order */
	uint32_t *gradient;  /* sums, by parameter */
	/* The part that is being copied. */
	const struct microbatch_part *part;
	uint32_t number, first; /* from 1 on; its first sample */
	uint32_t summaries, statistics;
	uint32_t *id;    /* by tensor of the part: in `graph`, NONE for what is not there */
	bool *late;      /* by tensor: made from losses or counts, so it exists once, for the whole batch */
	uint32_t *owner; /* by tensor: the first parameter whose gradient it is; NONE */
	uint32_t *next;  /* by parameter: the next one with the same gradient */
};

/* Ops that turn a batch into one number, and their gradients. */
static const struct loss {
	enum op_kind kind;
	uint8_t labels; /* input with labels that may be ignored; 0: none */
	uint8_t seed;   /* of a gradient: the input that holds dloss; 0: the loss itself */
} losses[] = {
	{ OP_SOFTMAX_CROSS_ENTROPY, 1, 0 }, { OP_SOFTMAX_CROSS_ENTROPY_GRAD, 1, 2 },
	{ OP_LINEAR_CROSS_ENTROPY, 2, 0 },  { OP_LINEAR_CROSS_ENTROPY_GRAD, 2, 4 },
	{ OP_MEAN_SQUARED_ERROR, 0, 0 },    { OP_MEAN_SQUARED_ERROR_GRAD, 0, 2 },
	{ OP_BINARY_CROSS_ENTROPY, 0, 0 },  { OP_BINARY_CROSS_ENTROPY_GRAD, 0, 2 },
	{ OP_LOGISTIC_MIXTURE, 0, 0 },      { OP_LOGISTIC_MIXTURE_GRAD, 0, 2 },
};

static const struct loss *loss_of(uint32_t kind)
{
	for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
		if ((uint32_t)losses[i].kind == kind)
			return &losses[i];
	return NULL;
}

/* Does output 0 stand for the whole part in one number? */
static bool is_summary(uint32_t kind)
{
	const struct loss *loss = loss_of(kind);
	return kind == OP_COUNT_CORRECT || (loss && !loss->seed);
}

uint32_t microbatch_count(const struct config *config, uint32_t batch)
{
	uint32_t parts = config->train.accumulate ? config->train.accumulate : 1;
	return parts < batch ? parts : batch;
}

enum tarn_status microbatch_begin(const struct microbatch_part *part, uint32_t batch, struct graph *graph)
{
	for (uint32_t t = 0; t < part->graph.tensors; t++) {
		const struct tensor *from = &part->graph.tensor[t];
		uint32_t dim[OP_MAX_RANK], id;
		if (from->producer != OP_NONE)
			continue;
		memcpy(dim, from->dim, sizeof dim);
		if (from->role == ROLE_STAGING)
			dim[0] = batch;
		enum tarn_status st = graph_add_persistent(graph, tensor_name(&part->graph, t), from->role, from->dtype,
							   dim, from->rank, &id);
		if (st)
			return st;
		struct tensor *to = &graph->tensor[id];
		to->init = from->init;
		to->init_bound = from->init_bound;
		to->flags = from->flags;
		if (t == part->graph.scalars)
			graph->scalars = id;
	}
	graph->batch = batch;
	return TARN_OK;
}

/* "part3/conv1", in the graph's arena. NULL after tarn_fail. */
static const char *part_name(const struct join *join, const char *name)
{
	return host_arena_printf(join->graph->arena, "part%" PRIu32 "/%s", join->number, name);
}

static enum tarn_status fail_op(const struct join *join, uint32_t op, const char *why)
{
	return tarn_fail(TARN_EUNSUPPORTED,
			 "train.accumulate is %" PRIu32
			 ", but %s: %s %s; take the whole batch at once with accumulate: 1",
			 join->config->train.accumulate, op_name(&join->part->graph, op),
			 op_row((enum op_kind)join->part->graph.op[op].kind)->name, why);
}

/* *sum += value, in that order; the first value is the sum itself. */
static enum tarn_status add_to(struct join *join, enum op_phase phase, const char *name, uint32_t value, uint32_t *sum)
{
	const uint32_t input[2] = { *sum, value };
	if (*sum == NONE) {
		*sum = value;
		return TARN_OK;
	}
	const char *text = host_arena_printf(join->graph->arena, "part%" PRIu32 "/%s/sum", join->number, name);
	return text ? graph_add_op(join->graph, OP_ADD, phase, text, NULL, input, 2, sum) : TARN_ENOMEM;
}

static enum tarn_status scale(struct join *join, enum op_phase phase, const char *name, double factor, uint32_t x,
			      uint32_t *y)
{
	const struct op_attr attr = { .alpha = (float)factor };
	const char *text = host_arena_printf(join->graph->arena, "part%" PRIu32 "/%s/share", join->number, name);
	return text ? graph_add_op(join->graph, OP_SCALE, phase, text, &attr, &x, 1, y) : TARN_ENOMEM;
}

/* What the INPUT op gave that this tensor of the part comes from, over the whole batch; NONE if it comes from another.
 */
static uint32_t whole_input(const struct join *join, uint32_t tensor)
{
	const struct graph *part = &join->part->graph;
	uint32_t op = part->tensor[tensor].producer;
	while (op != OP_NONE && part->op[op].kind == OP_RESHAPE)
		op = part->tensor[op_inputs(part, op)[0]].producer;
	if (op == OP_NONE || part->op[op].kind != OP_INPUT)
		return NONE;
	return join->input[join->id[op_inputs(part, op)[0]]];
}

/* What `value`, which belongs to the mean over the part, is in the mean over the whole batch. */
static enum tarn_status add_share(struct join *join, uint32_t op, enum op_phase phase, uint32_t value, uint32_t *out)
{
	const struct graph *part = &join->part->graph;
	const struct loss *loss = loss_of(part->op[op].kind);
	const struct op_attr *from = &part->op[op].attr;
	if (!loss->labels || !from->has_ignore_index)
		return scale(join, phase, op_name(part, op), (double)join->part->samples / join->batch, value, out);
	uint32_t labels = op_inputs(part, op)[loss->labels];
	const struct op_attr attr = { .has_ignore_index = 1, .ignore_index = from->ignore_index };
	const uint32_t input[3] = { value, join->id[labels], whole_input(join, labels) };
	if (input[2] == NONE)
		return fail_op(join, op,
			       "has labels that are computed, and those of the whole batch cannot be counted");
	const char *text =
		host_arena_printf(join->graph->arena, "part%" PRIu32 "/%s/share", join->number, op_name(part, op));
	return text ? graph_add_op(join->graph, OP_LABEL_SHARE, phase, text, &attr, input, 3, out) : TARN_ENOMEM;
}

/* Appends the op on tensors that are there already; its outputs keep their names, with the part's in front. */
static enum tarn_status copy_op(struct join *join, uint32_t op, const struct op_attr *attr, uint32_t *input, bool named)
{
	const struct graph *part = &join->part->graph;
	const struct op *from = &part->op[op];
	const char *result = tensor_name(part, op_outputs(part, op)[0]), *name = op_name(part, op);
	uint32_t made[OP_MAX_OUTPUTS];
	for (uint32_t k = 0; k < from->inputs; k++)
		if (input[k] == NONE)
			return fail_op(join, op, "reads what is only known when the whole batch was seen");
	if (named) {
		result = part_name(join, result);
		name = part_name(join, name);
	}
	if (!result || !name)
		return TARN_ENOMEM;
	enum tarn_status st = graph_add_op(join->graph, (enum op_kind)from->kind, (enum op_phase)from->phase, result,
					   attr, input, from->inputs, made);
	if (st)
		return st;
	for (uint32_t k = 0; k < from->outputs; k++)
		join->id[op_outputs(part, op)[k]] = made[k];
	uint32_t text = graph_text(join->graph, name);
	if (text == UINT32_MAX)
		return TARN_ENOMEM;
	join->graph->op[join->graph->ops - 1].name = text;
	return TARN_OK;
}

static uint32_t *mapped_inputs(const struct join *join, uint32_t op)
{
	const struct graph *part = &join->part->graph;
	uint32_t *input = HOST_ARRAY(join->scratch, part->op[op].inputs + 1u, uint32_t);
	for (uint32_t k = 0; input && k < part->op[op].inputs; k++)
		input[k] = join->id[op_inputs(part, op)[k]];
	return input;
}

/* The part's rows of a staging slot. */
static enum tarn_status slice_input(struct join *join, uint32_t op)
{
	const struct graph *part = &join->part->graph;
	const struct op_attr attr = { .begin = join->first, .extent = { join->part->samples } };
	uint32_t whole = join->input[join->id[op_inputs(part, op)[0]]];
	const char *text = part_name(join, op_name(part, op));
	return text ? graph_add_op(join->graph, slice_kind(join->graph, whole, &attr), PHASE_FORWARD, text, &attr,
				   &whole, 1, &join->id[op_outputs(part, op)[0]])
		    : TARN_ENOMEM;
}

/* The mean over the parts of their means and unbiased variances; the effect itself comes behind the last part. */
static enum tarn_status add_statistics(struct join *join, uint32_t op)
{
	const struct graph *part = &join->part->graph;
	const double share = (double)join->part->samples / join->batch, m = part->op[op].attr.samples;
	const double factor[2] = { share, m > 1 ? share * m / (m - 1) : share };
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 0; i < 2 && !st; i++) {
		uint32_t tensor = op_inputs(part, op)[3 + i], scaled;
		st = scale(join, PHASE_FORWARD, tensor_name(part, tensor), factor[i], join->id[tensor], &scaled);
		if (!st)
			st = add_to(join, PHASE_FORWARD, tensor_name(part, tensor), scaled,
				    &join->statistic[join->statistics++]);
	}
	return st;
}

/* A loss or count of the part joins that of the whole batch. */
static enum tarn_status add_summary(struct join *join, uint32_t op)
{
	const struct graph *part = &join->part->graph;
	uint32_t value = join->id[op_outputs(part, op)[0]];
	enum tarn_status st = TARN_OK;
	if (part->op[op].kind != OP_COUNT_CORRECT)
		st = add_share(join, op, PHASE_FORWARD, value, &value);
	return st ? st : add_to(join, PHASE_FORWARD, op_name(part, op), value, &join->summary[join->summaries++]);
}

/* Gradients that this op of the part completes. */
static enum tarn_status add_gradients(struct join *join, uint32_t op)
{
	const struct graph *part = &join->part->graph;
	enum tarn_status st = TARN_OK;
	for (uint32_t k = 0; k < part->op[op].outputs; k++) {
		uint32_t tensor = op_outputs(part, op)[k];
		for (uint32_t i = join->owner[tensor]; i != NONE && !st; i = join->next[i])
			st = add_to(join, PHASE_BACKWARD, tensor_name(part, join->part->parameter[i]), join->id[tensor],
				    &join->gradient[i]);
	}
	return st;
}

static bool is_late(const struct join *join, uint32_t op)
{
	const struct graph *part = &join->part->graph;
	return part->op[op].outputs && join->late[op_outputs(part, op)[0]];
}

static enum tarn_status copy_pure(struct join *join, uint32_t op)
{
	const struct graph *part = &join->part->graph;
	const struct op *from = &part->op[op];
	const struct loss *loss = loss_of(from->kind);
	struct op_attr attr = from->attr;
	uint32_t *input = mapped_inputs(join, op);
	enum tarn_status st = TARN_OK;
	if (!input)
		return TARN_ENOMEM;
	if (from->kind == OP_DROPOUT) {
		if (part->tensor[op_inputs(part, op)[0]].dim[0] != join->part->samples)
			return fail_op(join, op, "acts on a tensor whose first axis is not that of the samples");
		attr.begin = join->first;
	}
	if (loss && loss->seed && input[loss->seed] != NONE)
		st = add_share(join, op, PHASE_BACKWARD, input[loss->seed], &input[loss->seed]);
	if (!st)
		st = copy_op(join, op, &attr, input, true);
	if (!st && is_summary(from->kind))
		st = add_summary(join, op);
	return st ? st : add_gradients(join, op);
}

static enum tarn_status copy_next(struct join *join, uint32_t op)
{
	const struct op *from = &join->part->graph.op[op];
	if (from->kind == OP_INPUT)
		return slice_input(join, op);
	if (from->kind == OP_RUNNING_UPDATE)
		return add_statistics(join, op);
	if (from->kind == OP_RECORD && !join->late[op_inputs(&join->part->graph, op)[1]])
		return fail_op(join, op, "reads a number that is neither a loss nor a count");
	if (from->kind == OP_RECORD || is_late(join, op))
		return TARN_OK;
	if (op_row((enum op_kind)from->kind)->effect)
		return fail_op(join, op, "must not run more than once a step");
	return copy_pure(join, op);
}

/* Before the ops of a part are walked through: which tensors are there, late, or a gradient. */
static enum tarn_status enter_part(struct join *join, const struct microbatch_part *part)
{
	const struct graph *graph = &part->graph;
	join->part = part;
	join->summaries = join->statistics = 0;
	join->id = HOST_ARRAY(join->scratch, graph->tensors, uint32_t);
	join->late = HOST_ARRAY(join->scratch, graph->tensors, bool);
	join->owner = HOST_ARRAY(join->scratch, graph->tensors, uint32_t);
	join->next = HOST_ARRAY(join->scratch, part->parameters + 1u, uint32_t);
	if (!join->id || !join->late || !join->owner || !join->next)
		return TARN_ENOMEM;
	memset(join->owner, 0xFF, graph->tensors * sizeof *join->owner);
	for (uint32_t t = 0; t < graph->tensors; t++)
		join->id[t] =
			graph->tensor[t].producer == OP_NONE ? graph_find(join->graph, tensor_name(graph, t)) : NONE;
	for (uint32_t i = 0; i < part->parameters; i++) {
		if (part->gradient[i] == NONE)
			continue;
		join->next[i] = join->owner[part->gradient[i]];
		join->owner[part->gradient[i]] = i;
	}
	for (uint32_t op = 0; op < graph->ops; op++) {
		const uint32_t *output = op_outputs(graph, op);
		bool late = false;
		for (uint32_t k = 0; k < graph->op[op].inputs && graph->op[op].phase == PHASE_FORWARD; k++)
			late |= join->late[op_inputs(graph, op)[k]];
		for (uint32_t k = 0; k < graph->op[op].outputs; k++)
			join->late[output[k]] = late;
		if (is_summary(graph->op[op].kind))
			join->late[output[0]] = true;
	}
	return TARN_OK;
}

static enum tarn_status copy_part(struct join *join, const struct microbatch_part *part)
{
	enum tarn_status st = enter_part(join, part);
	for (uint32_t op = 0; op < part->graph.ops && !st; op++)
		st = is_summary(part->graph.op[op].kind) ? copy_pure(join, op) : copy_next(join, op);
	join->first += part->samples;
	return st;
}

/* Once, for the whole batch: what is made from losses and counts, and the effects. */
static enum tarn_status copy_late(struct join *join, const struct microbatch_part *part)
{
	enum tarn_status st = enter_part(join, part);
	for (uint32_t op = 0; op < part->graph.ops && !st; op++) {
		const struct op *from = &part->graph.op[op];
		struct op_attr attr = from->attr;
		if (is_summary(from->kind)) {
			join->id[op_outputs(&part->graph, op)[0]] = join->summary[join->summaries++];
			continue;
		}
		if (from->kind != OP_RUNNING_UPDATE && !is_late(join, op))
			continue;
		uint32_t *input = mapped_inputs(join, op);
		if (!input)
			return TARN_ENOMEM;
		if (from->kind == OP_RUNNING_UPDATE) {
			attr.samples = 1; /* the variances are unbiased already */
			input[3] = join->statistic[join->statistics++];
			input[4] = join->statistic[join->statistics++];
		}
		st = copy_op(join, op, &attr, input, false);
	}
	return st;
}

static enum tarn_status check_norms(const struct join *join, const struct microbatch_part *part)
{
	const bool automatic = join->config->memory.microbatches == MICROBATCHES_AUTO;
	char number[16];
	uint32_t op = 0;
	while (op < part->graph.ops && part->graph.op[op].kind != OP_BATCH_STATS)
		op++;
	if (op == part->graph.ops || join->config->train.microbatch_norm == MICROBATCH_NORM_ALLOW)
		return TARN_OK;
	snprintf(number, sizeof number, "%" PRIu32, join->config->train.accumulate);
	tarn_fail(TARN_EINVAL,
		  "%s is %s, but the batch norm behind %s would take its statistics over parts of %" PRIu32
		  " instead of %" PRIu32
		  " samples, which is another network; use group_norm or layer_norm, %s, or write "
		  "train.microbatch_norm: allow",
		  automatic ? "memory.microbatches" : "train.accumulate", automatic ? "auto" : number,
		  op_name(&part->graph, op), part->samples, join->batch,
		  automatic ? "microbatches: given" : "accumulate: 1");
	return config_fail_place(join->config, TARN_EINVAL);
}

static enum tarn_status join_init(struct join *join, const struct microbatch_part *large)
{
	const struct graph *part = &large->graph;
	join->input = HOST_ARRAY(join->scratch, join->graph->tensors, uint32_t);
	join->summary = HOST_ARRAY(join->scratch, part->ops, uint32_t);
	join->statistic = HOST_ARRAY(join->scratch, 2 * (size_t)part->ops, uint32_t);
	if (!join->input || !join->summary || !join->statistic)
		return TARN_ENOMEM;
	memset(join->input, 0xFF, join->graph->tensors * sizeof *join->input);
	memset(join->summary, 0xFF, part->ops * sizeof *join->summary);
	memset(join->statistic, 0xFF, 2 * (size_t)part->ops * sizeof *join->statistic);
	enum tarn_status st = check_norms(join, large);
	for (uint32_t op = 0; op < part->ops && !st; op++) {
		if (part->op[op].kind != OP_INPUT)
			continue;
		uint32_t slot = graph_find(join->graph, tensor_name(part, op_inputs(part, op)[0]));
		st = graph_add_op(join->graph, OP_INPUT, PHASE_FORWARD, op_name(part, op), NULL, &slot, 1,
				  &join->input[slot]);
	}
	return st;
}

enum tarn_status microbatch_append(const struct config *config, const struct microbatch_part *large,
				   const struct microbatch_part *small, uint32_t batch, uint32_t parts,
				   struct host_arena *scratch, struct graph *graph, uint32_t *parameter,
				   uint32_t *gradient)
{
	struct join join = { .config = config,
			     .graph = graph,
			     .scratch = scratch,
			     .batch = batch,
			     .parts = parts,
			     .gradient = gradient };
	for (uint32_t i = 0; i < large->parameters; i++) {
		parameter[i] = graph_find(graph, tensor_name(&large->graph, large->parameter[i]));
		gradient[i] = NONE;
	}
	enum tarn_status st = join_init(&join, large);
	for (join.number = 1; join.number <= parts && !st; join.number++)
		st = copy_part(&join, join.number <= batch % parts || !(batch % parts) ? large : small);
	return st ? st : copy_late(&join, large);
}
