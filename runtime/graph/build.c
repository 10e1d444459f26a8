/* build.c - see build.h. */
#include "graph/build.h"
#include "autodiff/adversarial.h"
#include "autodiff/autodiff.h"
#include "autodiff/optimizer.h"
#include "config/yaml_tree.h"
#include "graph/build_losses.h"
#include "graph/layer_list.h"
#include "graph/microbatch.h"
#include "graph/precision.h"
#include "graph/simplify.h"
#include "models/models.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What is around the body of every network. */
struct frame {
	uint32_t input, target; /* of this step: outputs of the INPUT ops */
	uint32_t loss_metric, correct_metric;
};

static enum tarn_status check_sample(const struct config *config, const struct sample_shape *sample)
{
	if (!sample->rank || sample->rank > OP_MAX_RANK - 1)
		return tarn_fail(TARN_EINVAL, "data: a sample has %" PRIu32 " dimensions, 1 to %d are possible",
				 sample->rank, OP_MAX_RANK - 1);
	if (config->network.loss == LOSS_CROSS_ENTROPY && sample->classes < 2)
		return tarn_fail(TARN_EINVAL, "data: cross-entropy needs at least 2 classes, the data have %" PRIu32,
				 sample->classes);
	if (sample->target_rank > OP_MAX_RANK - 2 && config->network.loss == LOSS_CROSS_ENTROPY)
		return tarn_fail(TARN_EINVAL,
				 "data: labels of a sample have %" PRIu32 " dimensions, at most %d are possible",
				 sample->target_rank, OP_MAX_RANK - 2);
	if (config->network.target == TARGET_INPUT && sample->vocabulary)
		return tarn_fail(TARN_EINVAL,
				 "network.target is input, but the input are tokens, which have no values");
	if (config->network.loss != LOSS_CROSS_ENTROPY && config->network.target == TARGET_DATA &&
	    (!sample->target_rank || sample->target_rank > OP_MAX_RANK - 1))
		return tarn_fail(TARN_EINVAL, "data: %s needs targets with 1 to %d dimensions, they have %" PRIu32,
				 loss_name(config->network.loss), OP_MAX_RANK - 1, sample->target_rank);
	return TARN_OK;
}

/* A persistent slot for `batch` samples of that shape. */
static enum tarn_status add_slot(struct graph *graph, const char *name, enum dtype dtype, const uint32_t *dim,
				 uint32_t rank, uint32_t *out)
{
	uint32_t all[OP_MAX_RANK] = { graph->batch };
	if (rank)
		memcpy(all + 1, dim, rank * sizeof *dim);
	return graph_add_persistent(graph, name, ROLE_STAGING, dtype, all, rank + 1, out);
}

static enum tarn_status add_metric(struct graph *graph, const char *name, uint32_t *out)
{
	const uint32_t one = 1;
	return graph_add_persistent(graph, name, ROLE_METRIC, DTYPE_F32, &one, 1, out);
}

/* In the order that build.h promises. */
static enum tarn_status add_frame(struct graph *graph, const struct config *config, const struct sample_shape *sample,
				  struct frame *frame)
{
	const uint32_t block = sizeof(struct step_scalars);
	const bool labels = config->network.loss == LOSS_CROSS_ENTROPY;
	const bool own = config->network.target == TARGET_INPUT;
	uint32_t input, target = TENSOR_NONE;
	enum tarn_status st =
		graph_add_persistent(graph, "scalars", ROLE_SCALARS, DTYPE_U8, &block, 1, &graph->scalars);
	if (st)
		return st;
	st = add_slot(graph, "staging/input", sample->vocabulary ? DTYPE_I32 : DTYPE_F32, sample->dim, sample->rank,
		      &input);
	if (st)
		return st;
	if (!own)
		st = add_slot(graph, "staging/target", labels ? DTYPE_I32 : DTYPE_F32, sample->target_dim,
			      sample->target_rank, &target);
	if (st)
		return st;
	st = add_metric(graph, "metric/loss", &frame->loss_metric);
	if (st)
		return st;
	if (labels && !config->network.chunked_loss) {
		st = add_metric(graph, "metric/correct", &frame->correct_metric);
		if (st)
			return st;
	}
	st = graph_add_op(graph, OP_INPUT, PHASE_FORWARD, "input", NULL, &input, 1, &frame->input);
	frame->target = frame->input;
	if (st || own)
		return st;
	return graph_add_op(graph, OP_INPUT, PHASE_FORWARD, "target", NULL, &target, 1, &frame->target);
}

/* In the order of data.arrays. */
static enum tarn_status add_arrays(struct network *net)
{
	const struct sample_shape *sample = net->sample;
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 0; i < sample->arrays && !st; i++) {
		const struct sample_array *array = &sample->array[i];
		const char *name = host_arena_printf(net->graph->arena, "staging/%s", array->name);
		uint32_t slot;
		if (!name)
			return TARN_ENOMEM;
		st = add_slot(net->graph, name, array->integer ? DTYPE_I32 : DTYPE_F32, array->dim, array->rank, &slot);
		if (!st)
			st = graph_add_op(net->graph, OP_INPUT, PHASE_FORWARD, array->name, NULL, &slot, 1,
					  &net->array[i]);
	}
	return st;
}

static enum tarn_status add_body(struct network *net, const struct sample_shape *sample, uint32_t input,
				 struct host_arena *scratch, uint32_t *output)
{
	const struct config *config = net->config;
	if (config->layers)
		return layer_list_build(net, config->layers, input, scratch, output);
	if (!config->model)
		return tarn_fail(TARN_EINVAL, "%s: the network is missing: write `layers:` or `model:`",
				 config->file ? config->file : "configuration");
	uint32_t classes = config->network.loss == LOSS_CROSS_ENTROPY ? sample->classes : sample->target_dim[0];
	if (config->network.target == TARGET_INPUT)
		classes = sample->dim[sample->rank - 1];
	return model_build(net, config->model, classes, input, output);
}

/* Does the prediction fit the loss? */
static enum tarn_status check_output(const struct graph *graph, const struct config *config,
				     const struct sample_shape *sample, const struct frame *frame, uint32_t output)
{
	const struct yaml_node *body = config->layers ? config->layers : config->model;
	const struct tensor *y = &graph->tensor[output], *target = &graph->tensor[frame->target];
	char got[SHAPE_TEXT], needed[SHAPE_TEXT];
	shape_format(y->dim, y->rank, got, sizeof got);
	if (config->network.loss == LOSS_CROSS_ENTROPY) {
		uint32_t dim[OP_MAX_RANK];
		memcpy(dim, target->dim, target->rank * sizeof *dim);
		dim[target->rank] = sample->classes;
		if (y->rank == target->rank + 1 && !memcmp(y->dim, dim, y->rank * sizeof *dim))
			return TARN_OK;
		return yaml_fail(body,
				 "the network's result has the shape %s; cross-entropy with %" PRIu32
				 " classes needs %s (%s)",
				 got, sample->classes, shape_format(dim, target->rank + 1u, needed, sizeof needed),
				 target->rank == 1 ? "samples x classes" : "as the labels, then classes");
	}
	shape_format(target->dim, target->rank, needed, sizeof needed);
	if (config->network.loss == LOSS_LOGISTIC_MIXTURE) {
		/* How many parameters a pixel may have says the shape rule of the loss. */
		if (y->rank == 4 && target->rank == 4 && !memcmp(y->dim, target->dim, 3 * sizeof *y->dim))
			return TARN_OK;
		return yaml_fail(body,
				 "the network's result has the shape %s; logistic_mixture needs the parameters of each "
				 "pixel of the input, which has the shape %s",
				 got, needed);
	}
	if (y->rank == target->rank && !memcmp(y->dim, target->dim, y->rank * sizeof *y->dim))
		return TARN_OK;
	return yaml_fail(body, "the network's result has the shape %s, the targets have %s", got, needed);
}

static enum tarn_status record(struct graph *graph, const char *name, uint32_t metric, uint32_t value)
{
	const uint32_t input[2] = { metric, value };
	return graph_add_op(graph, OP_RECORD, PHASE_FORWARD, name, NULL, input, 2, NULL);
}

/* The product that made the tensor, behind views; OP_NONE when it was another op. */
static uint32_t product_behind(const struct graph *graph, uint32_t tensor)
{
	uint32_t op = graph->tensor[tensor].producer;
	while (op != OP_NONE && graph->op[op].kind == OP_RESHAPE)
		op = graph->tensor[op_inputs(graph, op)[0]].producer;
	bool dense = op != OP_NONE && graph->op[op].kind == OP_MATMUL && graph->op[op].attr.transpose_b &&
		     !graph->op[op].attr.transpose_a;
	return dense ? op : OP_NONE;
}

/* The last dense layer becomes part of the loss; simplification then drops it. */
static enum tarn_status add_chunked_loss(struct graph *graph, const struct config *config, const struct op_attr *attr,
					 const struct frame *frame, uint32_t *output, uint32_t *loss)
{
	const uint32_t product = product_behind(graph, *output);
	if (product == OP_NONE)
		return yaml_fail(config->layers ? config->layers : config->model,
				 "network.chunked_loss needs a dense layer at the end of the network");
	const uint32_t *dense = op_inputs(graph, product), inputs = graph->op[product].inputs;
	const uint32_t input[4] = { dense[0], dense[1], frame->target, inputs == 3 ? dense[2] : TENSOR_NONE };
	uint32_t out[2];
	enum tarn_status st =
		graph_add_op(graph, OP_LINEAR_CROSS_ENTROPY, PHASE_FORWARD, "loss", attr, input, inputs + 1, out);
	*output = input[0];
	*loss = out[0];
	return st ? st : record(graph, "record/loss", frame->loss_metric, *loss);
}

static const enum op_kind loss_op[] = {
	[LOSS_CROSS_ENTROPY] = OP_SOFTMAX_CROSS_ENTROPY,
	[LOSS_MEAN_SQUARED_ERROR] = OP_MEAN_SQUARED_ERROR,
	[LOSS_BINARY_CROSS_ENTROPY] = OP_BINARY_CROSS_ENTROPY,
	[LOSS_LOGISTIC_MIXTURE] = OP_LOGISTIC_MIXTURE,
};

static enum tarn_status add_loss(struct graph *graph, const struct config *config, const struct frame *frame,
				 uint32_t *output, uint32_t *loss)
{
	const uint32_t input[2] = { *output, frame->target };
	const bool labels = config->network.loss == LOSS_CROSS_ENTROPY;
	struct op_attr attr = { 0 };
	uint32_t correct;
	if (labels) {
		attr.label_smoothing = (float)config->network.label_smoothing;
		attr.has_ignore_index = config->network.ignore_index >= 0;
		attr.ignore_index = attr.has_ignore_index ? config->network.ignore_index : 0;
	}
	if (config->network.chunked_loss)
		return add_chunked_loss(graph, config, &attr, frame, output, loss);
	enum tarn_status st =
		graph_add_op(graph, loss_op[config->network.loss], PHASE_FORWARD, "loss", &attr, input, 2, loss);
	if (st)
		return st;
	st = record(graph, "record/loss", frame->loss_metric, *loss);
	if (st || !labels)
		return st;
	attr.label_smoothing = 0;
	st = graph_add_op(graph, OP_COUNT_CORRECT, PHASE_FORWARD, "correct", &attr, input, 2, &correct);
	return st ? st : record(graph, "record/correct", frame->correct_metric, correct);
}

/* An array without effect is a mistake. */
static enum tarn_status check_arrays_read(const struct network *net)
{
	const struct graph *graph = net->graph;
	for (uint32_t i = 0; i < net->sample->arrays; i++) {
		bool read = false;
		for (uint32_t op = 0; op < graph->ops && !read; op++)
			for (uint32_t k = 0; k < graph->op[op].inputs; k++)
				read |= op_inputs(graph, op)[k] == net->array[i];
		if (!read)
			return tarn_fail(TARN_EINVAL, "data.arrays: no layer and no loss reads %s",
					 net->sample->array[i].name);
	}
	return TARN_OK;
}

/* A pattern without effect is a mistake. */
static enum tarn_status check_freeze(const struct graph *graph, const struct config *config)
{
	const struct text_list *freeze = &config->network.freeze;
	for (uint32_t i = 0; i < freeze->count; i++) {
		const char *other = "none";
		bool found = false;
		for (uint32_t t = 0; t < graph->tensors && !found; t++) {
			if (graph->tensor[t].role != ROLE_PARAMETER)
				continue;
			other = tensor_name(graph, t);
			found = !fnmatch(freeze->item[i], other, 0);
		}
		if (!found)
			return config_fail_place(config, tarn_fail(TARN_EINVAL,
								   "network.freeze: %s matches no parameter; one of "
								   "their names is %s",
								   freeze->item[i], other));
	}
	return TARN_OK;
}

/* Everything before the simplification. */
static enum tarn_status build_draft(const struct config *config, const struct sample_shape *sample, uint32_t batch,
				    enum build_mode mode, struct host_arena *scratch, struct graph *draft,
				    uint32_t *loss, uint32_t *output)
{
	struct network net = { .graph = draft, .config = config, .mode = mode, .trainable = true, .sample = sample };
	struct frame frame = { TENSOR_NONE, TENSOR_NONE, TENSOR_NONE, TENSOR_NONE };
	enum tarn_status st = graph_init(draft, scratch);
	if (st)
		return st;
	draft->batch = batch;
	st = check_sample(config, sample);
	if (st)
		return st;
	st = add_frame(draft, config, sample, &frame);
	if (st)
		return st;
	st = add_arrays(&net);
	if (st)
		return st;
	st = add_body(&net, sample, frame.input, scratch, output);
	if (st)
		return st;
	st = check_output(draft, config, sample, &frame, *output);
	if (!st)
		st = check_freeze(draft, config);
	if (st)
		return st;
	const uint32_t sum = frame.loss_metric;
	if (config->network.losses)
		st = add_metric(draft, "metric/loss/network", &frame.loss_metric);
	if (!st)
		st = add_loss(draft, config, &frame, output, loss);
	if (!st && config->network.losses)
		st = losses_add(&net, config->network.losses, loss);
	if (!st && config->network.losses)
		st = record(draft, "record/sum", sum, *loss);
	return st ? st : check_arrays_read(&net);
}

enum tarn_status network_build(const struct config *config, const struct sample_shape *sample, uint32_t batch,
			       enum build_mode mode, struct host_arena *scratch, struct graph *graph, uint32_t *loss,
			       uint32_t *output)
{
	struct graph draft;
	uint32_t draft_loss = TENSOR_NONE, draft_output = TENSOR_NONE;
	if (!batch)
		return tarn_fail(TARN_EINVAL, "data.batch is 0, it must be at least 1");
	enum tarn_status st = build_draft(config, sample, batch, mode, scratch, &draft, &draft_loss, &draft_output);
	if (st)
		return st;
	st = graph_simplify(&draft, scratch, graph, &draft_loss, &draft_output);
	if (st)
		return st;
	*loss = draft_loss;
	*output = draft_output;
	return TARN_OK;
}

static enum dtype dtype_of(uint32_t format)
{
	return format == NUMBER_BFLOAT16 ? DTYPE_BF16 : format == NUMBER_FLOAT16 ? DTYPE_F16 : DTYPE_F32;
}

/* The graph as the configuration stores it. */
static enum tarn_status store(const struct config *config, const struct graph *whole, struct host_arena *scratch,
			      struct graph *graph)
{
	const struct precision precision = { .compute = dtype_of(config->precision.compute),
					     .gradients = dtype_of(config->precision.gradients),
					     .weights = dtype_of(config->precision.weights) };
	if (precision.compute == DTYPE_F32)
		return graph_copy(whole, graph->arena, graph);
	return precision_apply(whole, &precision, scratch, graph);
}

/* Ids of the parameters that are trained, in the network's order. */
static uint32_t list_parameters(const struct graph *graph, uint32_t *list)
{
	uint32_t count = 0;
	for (uint32_t t = 0; t < graph->tensors; t++)
		if (graph->tensor[t].role == ROLE_PARAMETER && graph->tensor[t].producer == OP_NONE &&
		    !(graph->tensor[t].flags & TENSOR_FROZEN))
			list[count++] = t;
	return count;
}

/* The parameters that are trained, and their gradients. */
struct gradients {
	uint32_t *parameter, *gradient;
	uint32_t count;
};

static enum tarn_status list_gradients(const struct config *config, const struct graph *graph,
				       struct host_arena *scratch, struct gradients *list)
{
	list->parameter = HOST_ARRAY(scratch, graph->tensors, uint32_t);
	list->gradient = HOST_ARRAY(scratch, graph->tensors, uint32_t);
	if (!list->parameter || !list->gradient)
		return TARN_ENOMEM;
	list->count = list_parameters(graph, list->parameter);
	return list->count ? TARN_OK
			   : tarn_fail(TARN_EINVAL, "%s: the network has no parameter to train",
				       config->file ? config->file : "configuration");
}

/* The network with the loss that its objective makes of it. */
static enum tarn_status build_objective(const struct config *config, const struct sample_shape *sample, uint32_t batch,
					enum build_mode mode, struct host_arena *scratch, struct graph *graph,
					uint32_t *loss)
{
	uint32_t output;
	if (adversarial_applies(config, mode))
		return adversarial_build(config, sample, batch, mode, scratch, graph, loss);
	return network_build(config, sample, batch, mode, scratch, graph, loss, &output);
}

/* Gradients of the loss, or of the loss times its scale. */
static enum tarn_status differentiate(struct graph *graph, uint32_t loss, uint32_t scale, struct gradients *list,
				      struct host_arena *scratch)
{
	return scale == TENSOR_NONE
		       ? autodiff_gradients(graph, loss, list->parameter, list->count, scratch, list->gradient)
		       : autodiff_products(graph, &loss, &scale, 1, list->parameter, list->count, scratch,
					   list->gradient);
}

static enum tarn_status build_whole(const struct config *config, const struct sample_shape *sample, uint32_t batch,
				    struct host_arena *scratch, struct graph *graph, struct gradients *list)
{
	uint32_t loss, scale;
	enum tarn_status st = build_objective(config, sample, batch, BUILD_TRAINING, scratch, graph, &loss);
	if (!st)
		st = list_gradients(config, graph, scratch, list);
	if (!st)
		st = optimizer_add_loss_scale(graph, config, &scale);
	if (!st)
		st = optimizer_add_state(graph, config);
	return st ? st : differentiate(graph, loss, scale, list, scratch);
}

static enum tarn_status build_part(const struct config *config, const struct sample_shape *sample, uint32_t samples,
				   enum build_mode mode, struct host_arena *scratch, struct microbatch_part *part)
{
	struct gradients list = { 0 };
	uint32_t loss, scale;
	enum tarn_status st = graph_init(&part->graph, scratch);
	if (!st)
		st = build_objective(config, sample, samples, mode, scratch, &part->graph, &loss);
	if (!st && mode == BUILD_TRAINING)
		st = list_gradients(config, &part->graph, scratch, &list);
	if (!st && mode == BUILD_TRAINING)
		st = optimizer_add_loss_scale(&part->graph, config, &scale);
	if (!st && mode == BUILD_TRAINING)
		st = differentiate(&part->graph, loss, scale, &list, scratch);
	part->samples = samples;
	part->parameter = list.parameter;
	part->gradient = list.gradient;
	part->parameters = list.count;
	return st;
}

/* The graph of one part is made once, or twice where sizes differ, and copied. */
static enum tarn_status build_parts(const struct config *config, const struct sample_shape *sample, uint32_t batch,
				    uint32_t parts, enum build_mode mode, struct host_arena *scratch,
				    struct graph *graph, struct gradients *list)
{
	struct microbatch_part large, small;
	enum tarn_status st = build_part(config, sample, (batch + parts - 1) / parts, mode, scratch, &large);
	if (!st && batch % parts)
		st = build_part(config, sample, batch / parts, mode, scratch, &small);
	if (!st)
		st = microbatch_begin(&large, batch, graph);
	if (!st && mode == BUILD_TRAINING)
		st = optimizer_add_state(graph, config);
	if (st)
		return st;
	list->count = large.parameters;
	list->parameter = HOST_ARRAY(scratch, list->count + 1u, uint32_t);
	list->gradient = HOST_ARRAY(scratch, list->count + 1u, uint32_t);
	if (!list->parameter || !list->gradient)
		return TARN_ENOMEM;
	return microbatch_append(config, &large, batch % parts ? &small : &large, batch, parts, scratch, graph,
				 list->parameter, list->gradient);
}

enum tarn_status training_build(const struct config *config, const struct sample_shape *sample, uint32_t batch,
				struct host_arena *scratch, struct graph *graph)
{
	struct graph whole;
	struct gradients list;
	const uint32_t parts = microbatch_count(config, batch);
	enum tarn_status st = graph_init(&whole, scratch);
	if (!st && parts > 1)
		st = build_parts(config, sample, batch, parts, BUILD_TRAINING, scratch, &whole, &list);
	else if (!st)
		st = build_whole(config, sample, batch, scratch, &whole, &list);
	if (!st)
		st = optimizer_add_updates(&whole, config, list.parameter, list.gradient, list.count, scratch);
	if (!st)
		st = store(config, &whole, scratch, graph);
	if (st)
		return st;
	/* A graph that does not hold is a fault of the builder, not of the user. */
	return graph_check(graph) ? tarn_fail_prefix(TARN_EINTERNAL, "training graph") : TARN_OK;
}

enum tarn_status evaluation_build(const struct config *config, const struct sample_shape *sample, uint32_t batch,
				  struct host_arena *scratch, struct graph *graph)
{
	const uint32_t parts = microbatch_count(config, batch);
	struct graph whole;
	struct gradients list;
	uint32_t loss;
	enum tarn_status st = graph_init(&whole, scratch);
	if (!st && parts > 1)
		st = build_parts(config, sample, batch, parts, BUILD_INFERENCE, scratch, &whole, &list);
	else if (!st)
		st = build_objective(config, sample, batch, BUILD_INFERENCE, scratch, &whole, &loss);
	return st ? st : store(config, &whole, scratch, graph);
}

enum tarn_status inference_build(const struct config *config, const struct sample_shape *sample, uint32_t batch,
				 struct host_arena *scratch, struct graph *graph)
{
	const bool one_label = config->network.loss == LOSS_CROSS_ENTROPY && !sample->target_rank;
	struct config whole_loss = *config;
	struct graph whole;
	uint32_t loss, output, input[2];
	whole_loss.network.chunked_loss = config->network.chunked_loss && !config->objective.result && !one_label;
	enum tarn_status st = graph_init(&whole, scratch);
	if (!st)
		st = network_build(&whole_loss, sample, batch, BUILD_INFERENCE, scratch, &whole, &loss, &output);
	if (!st && (config->objective.result || one_label)) {
		const struct tensor y = whole.tensor[output];
		st = graph_add_persistent(&whole, INFERENCE_RESULT, ROLE_VECTOR, DTYPE_F32, y.dim, y.rank, &input[0]);
		input[1] = output;
		if (!st)
			st = graph_add_op(&whole, OP_RECORD, PHASE_FORWARD, "record/result", NULL, input, 2, NULL);
	}
	return st ? st : store(config, &whole, scratch, graph);
}
