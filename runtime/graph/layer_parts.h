/*
 * layer_parts.h - what the files of layers share: names, parameters, messages; internal to layers*.c.
 */
#ifndef TARN_GRAPH_LAYER_PARTS_H
#define TARN_GRAPH_LAYER_PARTS_H

#include "graph/layers.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

/* "<layer>/<part>", in the graph's arena. NULL after tarn_fail. */
static inline char *part_name(const struct network *net, const char *layer, const char *part)
{
	return host_arena_printf(net->graph->arena, "%s/%s", layer, part);
}

static inline const struct tensor *tensor_of(const struct network *net, uint32_t tensor)
{
	return &net->graph->tensor[tensor];
}

static inline enum tarn_status fail_layout(const struct network *net, const char *name, uint32_t x, const char *needed)
{
	char text[SHAPE_TEXT];
	const struct tensor *tensor = tensor_of(net, x);
	return tarn_fail(TARN_EINVAL, "%s: the input %s has the shape %s, needed is %s", name,
			 tensor_name(net->graph, x), shape_format(tensor->dim, tensor->rank, text, sizeof text),
			 needed);
}

static inline enum tarn_status need_image(const struct network *net, const char *name, uint32_t x)
{
	return tensor_of(net, x)->rank == 4 ? TARN_OK : fail_layout(net, name, x, "an image, NxHxWxC");
}

/* One forward op with one input and one output. */
static inline enum tarn_status add_unary(struct network *net, enum op_kind kind, const char *name,
					 const struct op_attr *attr, uint32_t x, uint32_t *y)
{
	uint32_t out[OP_MAX_OUTPUTS];
	enum tarn_status st = graph_add_op(net->graph, kind, PHASE_FORWARD, name, attr, &x, 1, out);
	if (!st)
		*y = out[0];
	return st;
}

/* ---- parameters ---- */

struct parameter {
	const char *layer, *part;
	uint32_t dim[OP_MAX_RANK], rank;
	enum tensor_init init;
	float bound;
	bool decays; /* weight decay applies even without optimizer.decay_norms */
};

/* Frozen by its layer (`trainable: false`) or by a pattern of network.freeze. */
static inline bool is_trained(const struct network *net, const char *name)
{
	const struct text_list *freeze = &net->config->network.freeze;
	bool trained = net->trainable;
	for (uint32_t i = 0; i < freeze->count && trained; i++)
		trained = fnmatch(freeze->item[i], name, 0) != 0;
	return trained;
}

/* Evaluation reads the moving averages of what is trained, where there are some. */
static inline bool reads_average(const struct network *net, bool trained)
{
	return net->mode == BUILD_INFERENCE && net->config->train.ema > 0 && trained;
}

static inline enum tarn_status add_parameter(struct network *net, const struct parameter *parameter, uint32_t *out)
{
	char *plain = host_arena_printf(net->graph->arena, "%s/%s", parameter->layer, parameter->part);
	if (!plain)
		return TARN_ENOMEM;
	const bool trained = is_trained(net, plain), average = reads_average(net, trained);
	char *name = average ? host_arena_printf(net->graph->arena, AVERAGE_PREFIX "%s", plain) : plain;
	if (!name)
		return TARN_ENOMEM;
	enum tarn_status st = graph_add_persistent(net->graph, name, average ? ROLE_OPTIMIZER_STATE : ROLE_PARAMETER,
						   DTYPE_F32, parameter->dim, parameter->rank, out);
	if (st)
		return st;
	struct tensor *tensor = &net->graph->tensor[*out];
	tensor->init = (uint8_t)parameter->init;
	tensor->init_bound = parameter->bound;
	if (!trained)
		tensor->flags |= TENSOR_FROZEN;
	if (!parameter->decays && !net->config->optimizer.decay_norms)
		tensor->flags |= TENSOR_NO_DECAY;
	return TARN_OK;
}

static inline uint32_t find_average(const struct network *net, const char *parameter)
{
	char *name = host_arena_printf(net->graph->arena, AVERAGE_PREFIX "%s", parameter);
	return name ? graph_find(net->graph, name) : TENSOR_NONE;
}

/* The parameter of another layer, which must have the shape that this layer needs. */
static inline enum tarn_status share_parameter(struct network *net, const char *owner,
					       const struct parameter *parameter, uint32_t *out)
{
	char has[SHAPE_TEXT], needs[SHAPE_TEXT];
	char *name = part_name(net, owner, parameter->part);
	if (!name)
		return TARN_ENOMEM;
	uint32_t id = graph_find(net->graph, name);
	if (id == TENSOR_NONE && net->mode == BUILD_INFERENCE)
		id = find_average(net, name);
	shape_format(parameter->dim, parameter->rank, needs, sizeof needs);
	if (id == TENSOR_NONE || !is_persistent(tensor_of(net, id)->role))
		return tarn_fail(TARN_EINVAL, "%s: cannot share %s, which does not exist; a %s of shape %s is needed",
				 parameter->layer, name, parameter->part, needs);
	const struct tensor *tensor = tensor_of(net, id);
	if (tensor->rank != parameter->rank || memcmp(tensor->dim, parameter->dim, tensor->rank * sizeof *tensor->dim))
		return tarn_fail(TARN_EINVAL, "%s: cannot share %s: its shape is %s, this layer needs %s",
				 parameter->layer, name, shape_format(tensor->dim, tensor->rank, has, sizeof has),
				 needs);
	*out = id;
	return TARN_OK;
}

/* Weight and, with `bias`, a bias of as many elements as the weight's first dimension; own or shared. */
static inline enum tarn_status add_weight_and_bias(struct network *net, struct parameter *weight, bool bias,
						   const char *owner, uint32_t *out)
{
	double fan_in = 1;
	for (uint32_t i = 1; i < weight->rank; i++)
		fan_in *= weight->dim[i];
	weight->part = "weight";
	weight->init = INIT_UNIFORM;
	weight->bound = net->init_bound > 0 ? net->init_bound : (float)sqrt(6 / fan_in);
	weight->decays = true;
	enum tarn_status st =
		owner ? share_parameter(net, owner, weight, &out[0]) : add_parameter(net, weight, &out[0]);
	if (st || !bias)
		return st;
	struct parameter vector = { .layer = weight->layer, .part = "bias", .rank = 1, .init = INIT_ZERO };
	vector.dim[0] = weight->dim[0];
	return owner ? share_parameter(net, owner, &vector, &out[1]) : add_parameter(net, &vector, &out[1]);
}

/* The weight becomes scale * weight / |weight| for each output; the scale is own, 1 at the start, or `owner`'s. */
static inline enum tarn_status normalise_weight(struct network *net, const char *name, const char *owner,
						uint32_t *weight)
{
	struct parameter scale = { .layer = name, .part = "scale", .rank = 1, .init = INIT_ONE };
	uint32_t input[2] = { *weight, TENSOR_NONE };
	char *text = part_name(net, name, "normalised_weight");
	if (!text)
		return TARN_ENOMEM;
	scale.dim[0] = tensor_of(net, *weight)->dim[0];
	enum tarn_status st =
		owner ? share_parameter(net, owner, &scale, &input[1]) : add_parameter(net, &scale, &input[1]);
	return st ? st : graph_add_op(net->graph, OP_WEIGHT_NORM, PHASE_FORWARD, text, NULL, input, 2, weight);
}

/* gamma 1 and beta 0 of a norm over `channels`. */
static inline enum tarn_status add_gamma_and_beta(struct network *net, const char *name, uint32_t channels,
						  uint32_t *out)
{
	struct parameter parameter = { .layer = name, .part = "weight", .rank = 1, .init = INIT_ONE };
	parameter.dim[0] = channels;
	enum tarn_status st = add_parameter(net, &parameter, &out[0]);
	if (st)
		return st;
	parameter.part = "bias";
	parameter.init = INIT_ZERO;
	return add_parameter(net, &parameter, &out[1]);
}

#endif
