/*
 * chain_parts.h - what the files that find a chain share: spans of stages, and kinds of values.
 */
#ifndef TARN_PLANNER_CHAIN_PARTS_H
#define TARN_PLANNER_CHAIN_PARTS_H

#include "planner/chain.h"

/* Stages in a row. */
struct span {
	uint32_t first, last;
};

/* An op that a stage's forward run may run again. */
static inline bool chain_is_again(const struct dependence *d, uint32_t o)
{
	const struct problem_op *op = &d->problem->op[o];
	return d->needed[o] && op->forward && !op->once;
}

static inline bool chain_is_pinned(const struct chain *c, uint32_t v)
{
	const struct problem_op *op = &c->dependence->problem->op[c->dependence->problem->value[v].producer];
	return op->forward && op->once;
}

/* What runs once the loss is reached is not made again; that goes for the forward ops of the last stage as well. */
static inline bool chain_is_gradient(const struct chain *c, uint32_t v)
{
	uint32_t producer = c->dependence->problem->value[v].producer;
	const struct problem_op *op = &c->dependence->problem->op[producer];
	return !op->forward || (!op->once && c->stage_of[producer] == c->stages);
}

static inline bool chain_made_in(const struct chain *c, uint32_t v, struct span span)
{
	uint32_t producer = c->dependence->problem->value[v].producer;
	return chain_is_again(c->dependence, producer) && c->stage_of[producer] >= span.first &&
	       c->stage_of[producer] <= span.last;
}

/* Where the span's ops lie in chain.forward. */
static inline uint32_t chain_span_begin(const struct chain *c, struct span span)
{
	return c->stage[span.first].first_forward;
}

static inline uint32_t chain_span_end(const struct chain *c, struct span span)
{
	return c->stage[span.last].first_forward + c->stage[span.last].forwards;
}

static inline uint32_t chain_boundary_before(const struct chain *c, uint32_t s)
{
	return s > 1 ? c->stage[s - 1].boundary : VALUE_NONE;
}

/* chain_measure.c: backward values over each stage; what is held throughout; what a stage, a variant, the last stage
 * need. */
void chain_sum_gradients(struct chain *chain);
void chain_sum_pinned(struct chain *chain);
void chain_measure_stage(struct chain *chain, uint32_t stage);
void chain_measure_variant(struct chain *chain, uint32_t stage, struct chain_variant *variant);
void chain_measure_last(struct chain *chain);
/* Time of those ops that run again. */
uint64_t chain_forward_cost(const struct chain *chain, const uint32_t *op, uint32_t ops);

/* chain_variant.c: which stages look the same; the variants of stages from one on, after those of the stages before. */
void chain_find_likeness(struct chain *chain);
void chain_find_variants(struct chain *chain, uint32_t stage);

#endif
