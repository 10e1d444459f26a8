/* curvature.c - see curvature.h. */
#include "autodiff/curvature.h"

#include "autodiff/autodiff.h"
#include "autodiff/decompose.h"
#include "autodiff/expression.h"

#include <string.h>

bool curvature_keeps_basis(const struct config *config)
{
	return config->hvp.task == HVP_EIGENVALUES || config->hvp.task == HVP_DENSITY;
}

bool curvature_keeps_diagonal(const struct config *config)
{
	return config->hvp.task == HVP_DIAGONAL;
}

/* Ids in the graph, for each trained parameter. */
struct products {
	uint32_t count;
	uint32_t *parameter, *vector, *product;
	uint32_t *gradient, *second;
};

static enum tarn_status allocate(struct products *p, uint32_t tensors, struct host_arena *scratch)
{
	p->parameter = HOST_ARRAY(scratch, tensors, uint32_t);
	p->vector = HOST_ARRAY(scratch, tensors, uint32_t);
	p->product = HOST_ARRAY(scratch, tensors, uint32_t);
	p->gradient = HOST_ARRAY(scratch, tensors, uint32_t);
	p->second = HOST_ARRAY(scratch, tensors, uint32_t);
	return p->parameter && p->vector && p->product && p->gradient && p->second ? TARN_OK : TARN_ENOMEM;
}

/* A vector of the parameter's shape; with `rows` so many of them, each flat. */
static enum tarn_status add_vector(struct graph *graph, const char *prefix, uint32_t parameter, uint32_t rows,
				   struct host_arena *scratch, uint32_t *out)
{
	const struct tensor w = graph->tensor[parameter];
	uint64_t elements = tensor_elements(&w);
	char *name = host_arena_printf(scratch, "%s%s", prefix, tensor_name(graph, parameter));
	if (!name)
		return TARN_ENOMEM;
	if (elements > UINT32_MAX)
		return tarn_fail(TARN_EUNSUPPORTED, "%s has %llu elements, more than 2^32",
				 tensor_name(graph, parameter), (unsigned long long)elements);
	const uint32_t flat[2] = { rows, (uint32_t)elements };
	enum tarn_status st =
		graph_add_persistent(graph, name, ROLE_VECTOR, DTYPE_F32, rows ? flat : w.dim, rows ? 2 : w.rank, out);
	if (!st)
		graph->tensor[*out].init = INIT_ZERO;
	return st;
}

static enum tarn_status add_vectors(const struct config *config, struct graph *graph, struct products *p,
				    struct host_arena *scratch)
{
	enum tarn_status st = TARN_OK;
	uint32_t unused;
	for (uint32_t i = 0; i < p->count && !st; i++)
		st = add_vector(graph, CURVATURE_VECTOR, p->parameter[i], 0, scratch, &p->vector[i]);
	for (uint32_t i = 0; i < p->count && !st; i++)
		st = add_vector(graph, CURVATURE_PRODUCT, p->parameter[i], 0, scratch, &p->product[i]);
	for (uint32_t i = 0; i < p->count && !st && curvature_keeps_diagonal(config); i++)
		st = add_vector(graph, CURVATURE_DIAGONAL, p->parameter[i], 0, scratch, &unused);
	for (uint32_t i = 0; i < p->count && !st && curvature_keeps_basis(config); i++)
		st = add_vector(graph, CURVATURE_BASIS, p->parameter[i], config->hvp.steps, scratch, &unused);
	return st;
}

/* The derivative of the gradient along the vector, in forward mode. */
static enum tarn_status forward_over_reverse(struct graph *graph, struct products *p, struct host_arena *scratch)
{
	uint32_t *dummy = HOST_ARRAY(scratch, p->count, uint32_t);
	struct expression e = { .graph = graph, .phase = PHASE_BACKWARD, .name = "hvp/dummy" };
	if (!dummy)
		return TARN_ENOMEM;
	for (uint32_t i = 0; i < p->count && !e.status; i++)
		dummy[i] = expression_fill(&e, p->parameter[i], 0);
	if (e.status)
		return e.status;
	enum tarn_status st =
		autodiff_products(graph, p->gradient, dummy, p->count, p->parameter, p->count, scratch, p->second);
	if (st)
		return st;
	/* <second, v> as a function of the dummies: TENSOR_NONE in second stands for no dependence. */
	uint32_t *y = HOST_ARRAY(scratch, p->count, uint32_t), *v = HOST_ARRAY(scratch, p->count, uint32_t), n = 0;
	if (!y || !v)
		return TARN_ENOMEM;
	for (uint32_t i = 0; i < p->count; i++)
		if (p->second[i] != TENSOR_NONE) {
			y[n] = p->second[i];
			v[n++] = p->vector[i];
		}
	return autodiff_products(graph, y, v, n, dummy, p->count, scratch, p->second);
}

static enum tarn_status add_products(const struct config *config, struct graph *graph, uint32_t loss,
				     struct products *p, struct host_arena *scratch)
{
	const struct op_attr plain = { .rate_scale = 1 };
	const uint32_t first = graph->ops;
	enum tarn_status st = autodiff_gradients(graph, loss, p->parameter, p->count, scratch, p->gradient);
	autodiff_as_forward(graph, first);
	/* A parameter without a gradient has no row in the Hessian. */
	for (uint32_t i = 0; i < p->count && !st; i++)
		if (p->gradient[i] == TENSOR_NONE)
			return tarn_fail(TARN_EINVAL, "the loss does not depend on %s: freeze it (trainable: false)",
					 tensor_name(graph, p->parameter[i]));
	if (!st && config->hvp.mode == HVP_FORWARD)
		st = forward_over_reverse(graph, p, scratch);
	else if (!st)
		st = autodiff_products(graph, p->gradient, p->vector, p->count, p->parameter, p->count, scratch,
				       p->second);
	for (uint32_t i = 0; i < p->count && !st; i++) {
		if (p->second[i] == TENSOR_NONE)
			continue; /* its rows are zero */
		const uint32_t input[3] = { p->product[i], p->second[i], graph->scalars };
		const char *name = tensor_name(graph, p->product[i]);
		st = graph_add_op(graph, OP_SGD, PHASE_UPDATE, name, &plain, input, 3, NULL);
	}
	return st;
}

static enum tarn_status record_loss(struct graph *graph, uint32_t loss)
{
	const uint32_t input[2] = { graph_find(graph, "metric/loss"), loss };
	return graph_add_op(graph, OP_RECORD, PHASE_FORWARD, "record/loss", NULL, input, 2, NULL);
}

enum tarn_status curvature_build(const struct config *config, const struct sample_shape *sample, uint32_t batch,
				 struct host_arena *scratch, struct graph *graph)
{
	struct graph network;
	struct products p = { 0 };
	uint32_t loss, output;
	const enum build_mode mode = config->hvp.training ? BUILD_TRAINING : BUILD_INFERENCE;
	if (config->precision.compute != NUMBER_FLOAT32)
		return tarn_fail(TARN_EUNSUPPORTED,
				 "precision.compute: products with the Hessian are computed in float32");
	enum tarn_status st = graph_init(&network, scratch);
	if (!st)
		st = network_build(config, sample, batch, mode, scratch, &network, &loss, &output);
	if (st)
		return st;
	struct decomposition d = { .from = &network,
				   .prefix = "",
				   .id = HOST_ARRAY(scratch, network.tensors, uint32_t) };
	if (!d.id)
		return TARN_ENOMEM;
	st = decompose_persistents(&network, graph, d.id);
	if (!st)
		st = allocate(&p, network.tensors, scratch);
	if (st)
		return st;
	graph->batch = network.batch;
	graph->scalars = d.id[network.scalars];
	for (uint32_t t = 0; t < graph->tensors; t++)
		if (graph->tensor[t].role == ROLE_PARAMETER && !(graph->tensor[t].flags & TENSOR_FROZEN))
			p.parameter[p.count++] = t;
	st = add_vectors(config, graph, &p, scratch);
	if (!st)
		st = decompose_network(&d, scratch, graph);
	if (!st)
		st = record_loss(graph, d.id[loss]);
	if (!st)
		st = add_products(config, graph, d.id[loss], &p, scratch);
	if (st)
		return st;
	return graph_check(graph) ? tarn_fail_prefix(TARN_EINTERNAL, "graph of a Hessian-vector product") : TARN_OK;
}
