/* chain_variant.c - what stages may keep, sought once for stages that look the same. */
#include "planner/chain_parts.h"

/* Values of a stage among which variants choose with care. */
#define MOST_CHOICES 64u
/* Stages that a variant spans, and variants of so many. */
#define MOST_STAGES 4u
#define MOST_VARIANTS 16u
/* Distance at which a stage that looks the same is looked for. */
#define MOST_PERIOD 64u

/* ---- Variants ---- */

static void add_kept(struct chain *c, uint32_t v)
{
	uint32_t *larger =
		host_arena_grow(c->arena, c->kept, &c->kept_room, (size_t)c->kept_values + 1, sizeof *c->kept);
	c->failed |= !larger;
	if (c->failed)
		return;
	c->kept = larger;
	c->kept[c->kept_values++] = v;
}

/* The last boundary, which is always kept, and the values that the backward ops read. Returns how many. */
static uint32_t list_choices(struct chain *c, struct span span)
{
	const struct problem *p = c->dependence->problem;
	uint32_t first = c->kept_values, boundary = c->stage[span.last].boundary;
	add_kept(c, boundary);
	c->wanted[boundary] = 1;
	for (uint32_t s = span.last; s >= span.first; s--)
		for (uint32_t k = 0; k < c->stage[s].backwards; k++) {
			uint32_t o = c->backward[c->stage[s].first_backward + k];
			for (uint32_t i = 0; i < p->op[o].inputs; i++) {
				uint32_t v = problem_inputs(p, o)[i];
				if (!chain_made_in(c, v, span) || c->wanted[v])
					continue;
				c->wanted[v] = 1;
				add_kept(c, v);
			}
		}
	for (uint32_t i = first; i < c->kept_values; i++)
		c->wanted[c->kept[i]] = 0;
	c->wanted[boundary] = 0;
	return c->kept_values - first;
}

/* Moves the value whose loss costs least time for its bytes to the end of the list. */
static void move_worst_to_end(struct chain *c, uint32_t s, uint32_t stages, uint32_t first, uint32_t kept)
{
	const struct problem *p = c->dependence->problem;
	struct chain_variant without = { .stages = stages, .first_kept = first, .kept = kept - 1 };
	uint32_t *value = c->kept + first, worst = kept - 1;
	double least = 1e300;
	for (uint32_t i = 1; i < kept; i++) {
		uint32_t v = value[i];
		value[i] = value[kept - 1];
		value[kept - 1] = v;
		double cost = (double)p->op[p->value[v].producer].cost_ns;
		if (kept <= MOST_CHOICES)
			cost = (double)chain_forward_cost(c, c->list,
							  chain_backward(c, s, stages, &without, false, c->list));
		value[kept - 1] = value[i];
		value[i] = v;
		if ((cost + 1) / ((double)p->value[v].bytes + 1) < least) {
			least = (cost + 1) / ((double)p->value[v].bytes + 1);
			worst = i;
		}
	}
	uint32_t v = value[worst];
	value[worst] = value[kept - 1];
	value[kept - 1] = v;
}

static void add_variant(struct chain *c, uint32_t s, const struct chain_variant *variant)
{
	struct chain_variant *larger =
		host_arena_grow(c->arena, c->variant, &c->variant_room, (size_t)c->variants + 1, sizeof *c->variant);
	c->failed |= !larger;
	if (c->failed)
		return;
	c->variant = larger;
	c->variant[c->variants++] = *variant;
	c->stage[s].variants++;
}

/* From keeping everything to keeping little, by what is cheapest to make again. */
static void seek_variants(struct chain *c, uint32_t s, uint32_t stages)
{
	struct span span = { s, s + stages - 1 };
	uint32_t first = c->kept_values, choices = list_choices(c, span), last = UINT32_MAX, begin = c->variants;
	for (uint32_t kept = choices; kept > 1 && !c->failed; kept--) {
		uint32_t dropped = choices - kept, step = dropped * MOST_VARIANTS / choices;
		if (step != last)
			add_variant(c, s,
				    &(struct chain_variant){ .stages = stages, .first_kept = first, .kept = kept });
		last = step;
		move_worst_to_end(c, s, stages, first, kept);
	}
	/* The lists are prefixes of one list, whose order is known only now. */
	for (uint32_t i = begin; i < c->variants && !c->failed; i++)
		chain_measure_variant(c, s, &c->variant[i]);
}

/* The variants of stages from `model` on, for stages from s on that look the same. */
static void copy_variants(struct chain *c, uint32_t s, uint32_t model, uint32_t stages)
{
	const struct problem *p = c->dependence->problem;
	const struct chain_stage *from = &c->stage[model];
	for (uint32_t i = 0; i < from->variants && !c->failed; i++) {
		struct chain_variant variant = c->variant[from->first_variant + i];
		if (variant.stages != stages)
			continue;
		uint32_t first = c->kept_values;
		for (uint32_t k = 0; k < variant.kept; k++) {
			const struct problem_value *value = &p->value[c->kept[variant.first_kept + k]];
			const struct chain_stage *to = &c->stage[c->stage_of[value->producer] - model + s];
			uint32_t op = c->forward[to->first_forward + c->place[value->producer]];
			add_kept(c, problem_outputs(p, op)[value->output]);
		}
		variant.first_kept = first;
		add_variant(c, s, &variant);
	}
}

/* ---- Likeness ---- */

static uint64_t mix(uint64_t hash, uint64_t number)
{
	hash = (hash ^ number) * 0x9E3779B97F4A7C15u;
	return hash ^ hash >> 29;
}

static uint64_t likeness_of_op(const struct chain *c, uint32_t s, uint32_t o, uint64_t hash)
{
	const struct problem *p = c->dependence->problem;
	const struct problem_op *op = &p->op[o];
	hash = mix(mix(mix(hash, op->cost_ns), op->workspace), (uint64_t)op->in_place << 2 | op->once);
	for (uint32_t i = 0; i < op->outputs; i++) {
		uint32_t v = problem_outputs(p, o)[i];
		/* How far down it is read counts as far as it is near. */
		uint32_t down = c->lowest[v] < s ? s - c->lowest[v] : 0;
		hash = mix(mix(hash, p->value[v].bytes), down < 8 ? down : 8);
	}
	for (uint32_t i = 0; i < op->inputs; i++) {
		uint32_t v = problem_inputs(p, o)[i], producer = p->value[v].producer;
		hash = mix(hash, chain_is_pinned(c, v)
					 ? UINT64_MAX
					 : (uint64_t)(c->stage_of[producer] - s) << 32 | c->place[producer]);
		hash = mix(hash, p->value[v].output);
	}
	return hash;
}

void chain_find_likeness(struct chain *c)
{
	for (uint32_t s = 1; s <= c->stages; s++) {
		struct chain_stage *stage = &c->stage[s];
		for (uint32_t k = 0; k < stage->forwards; k++)
			c->place[c->forward[stage->first_forward + k]] = k;
		for (uint32_t k = 0; k < stage->backwards; k++)
			c->place[c->backward[stage->first_backward + k]] = stage->forwards + k;
	}
	for (uint32_t s = 1; s < c->stages; s++) {
		struct chain_stage *stage = &c->stage[s];
		uint64_t hash = mix(mix(mix(stage->forwards, stage->backwards), stage->gradient_bytes), c->passing[s]);
		for (uint32_t k = 0; k < stage->forwards; k++)
			hash = likeness_of_op(c, s, c->forward[stage->first_forward + k], hash);
		for (uint32_t k = 0; k < stage->backwards; k++)
			hash = likeness_of_op(c, s, c->backward[stage->first_backward + k], hash);
		stage->likeness = hash;
	}
}

/* A stage before s, not far, from which the same stages follow; 0: none. */
static uint32_t find_model(const struct chain *c, uint32_t s, uint32_t stages)
{
	for (uint32_t model = s; --model && model + MOST_PERIOD > s;) {
		uint32_t same = 0;
		while (same < stages && c->stage[model + same].likeness == c->stage[s + same].likeness)
			same++;
		if (same == stages)
			return model;
	}
	return 0;
}

void chain_find_variants(struct chain *c, uint32_t s)
{
	c->stage[s].first_variant = c->variants;
	for (uint32_t stages = 1; stages <= MOST_STAGES && s + stages <= c->stages; stages *= 2) {
		uint32_t model = find_model(c, s, stages);
		if (model)
			copy_variants(c, s, model, stages);
		else
			seek_variants(c, s, stages);
	}
}
