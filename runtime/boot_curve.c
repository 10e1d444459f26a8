/* boot_curve.c - the training step with other budgets, for people who want to choose one. */
#include "boot.h"

#include "boot_question.h"
#include "plan/explain.h"

#include <string.h>

#define MEBIBYTE ((uint64_t)1 << 20)
/* Each point is a plan: problems with more ops than one part of this get fewer, down to FEWEST_POINTS. */
#define CURVE_OPS 8000u
#define FEWEST_POINTS 4u

struct sweep {
	const struct plan *plan;
	struct boot_question *question;
	struct host_arena *arena;
	struct schedule own; /* the plan's */
};

/* The plan's instructions as ops of the problem. */
static enum tarn_status find_own_schedule(struct sweep *s)
{
	const struct program *program = &s->plan->program[0];
	uint32_t *number = HOST_ARRAY(s->arena, program->graph.ops, uint32_t);
	s->own.step = HOST_ARRAY(s->arena, program->instructions, uint32_t);
	if (!number || !s->own.step)
		return TARN_ENOMEM;
	for (uint32_t o = 0; o < s->question->problem.ops; o++)
		number[s->question->graph_problem.graph_op[o]] = o;
	for (uint32_t i = 0; i < program->instructions; i++)
		s->own.step[i] = number[program->instruction[i].op];
	/* Copies are no runs: a plan with them is not one of the curve's. */
	s->own.steps = s->plan->host_bytes ? 0 : program->instructions;
	return TARN_OK;
}

static struct plan_point point_of(const struct sweep *s, uint64_t budget, const struct planner_result *result)
{
	return (struct plan_point){ .budget_bytes = budget,
				    .arena_bytes = s->plan->persistent_bytes + result->height,
				    .time_ns = result->time_ns,
				    .recomputed_ops = result->expansion.recomputed };
}

static enum tarn_status plan_with(struct sweep *s, uint32_t strategy, uint64_t budget, const struct schedule *known,
				  struct planner_result *result)
{
	struct planner_request request = s->question->request;
	request.strategy = strategy;
	request.budget = budget == UINT64_MAX ? budget : budget - s->plan->persistent_bytes;
	request.skip_least = strategy == STRATEGY_AUTO;
	request.known = known;
	return planner_run(&request, s->arena, result);
}

/* What a larger budget's plan does in less memory and time than a smaller one's, it does for that one too. */
static void carry_down(struct plan_curve *curve)
{
	for (uint32_t i = curve->points - 1; i-- > 0;) {
		struct plan_point *here = &curve->point[i];
		const struct plan_point *next = &curve->point[i + 1];
		if (next->arena_bytes > here->budget_bytes || next->time_ns >= here->time_ns)
			continue;
		uint64_t budget = here->budget_bytes;
		*here = *next;
		here->budget_bytes = budget;
	}
}

static uint32_t points_of(const struct sweep *s)
{
	uint32_t points = CURVE_OPS / (s->question->problem.ops + 1);
	points = points < PLAN_CURVE_POINTS ? points : PLAN_CURVE_POINTS;
	return points > FEWEST_POINTS ? points : FEWEST_POINTS;
}

/* Plans are carried upwards: each is known to the one with the next larger budget. */
static enum tarn_status plan_points(struct sweep *s, uint64_t smallest, struct plan_curve *curve)
{
	struct planner_result none, result[2];
	/* No limit is met at once; the least budget is looked for only where the plan does not know it. */
	enum tarn_status st = plan_with(s, STRATEGY_AUTO, UINT64_MAX, NULL, &none);
	result[1] = none;
	if (!st && !smallest)
		st = plan_with(s, STRATEGY_MIN, UINT64_MAX, NULL, &result[1]);
	if (st)
		return st;
	const struct program *program = &s->plan->program[0];
	/* Not the heights, which a last, longer packing may have brought below what any request is granted. */
	uint64_t low = smallest ? smallest : s->plan->persistent_bytes + result[1].min_budget;
	uint64_t high = s->plan->persistent_bytes + none.none_height;
	high = high > low ? high : low;
	curve->points = points_of(s);
	curve->base_ns = none.base_time_ns;
	for (uint32_t i = 0; !st && i < curve->points; i++) {
		uint64_t budget = low + (high - low) / (curve->points - 1) * i;
		budget = i + 1 == curve->points ? high : budget;
		const struct planner_result *before = &result[(i + 1) % 2];
		bool own = s->own.steps && program->height_bytes <= budget && program->time_ns < before->time_ns;
		st = plan_with(s, STRATEGY_AUTO, budget, own ? &s->own : &before->schedule, &result[i % 2]);
		if (!st)
			curve->point[i] = point_of(s, budget, &result[i % 2]);
	}
	if (!st)
		carry_down(curve);
	return st;
}

enum tarn_status boot_curve(const struct config *config, struct device *device, const struct plan *plan,
			    struct host_arena *scratch, struct plan_curve *curve)
{
	struct host_mark mark = host_arena_mark(scratch);
	struct boot_question question;
	struct sweep s = { .plan = plan, .question = &question, .arena = scratch };
	const struct program *program = &plan->program[0];
	struct planner_result result;
	*curve = (struct plan_curve){ 0 };
	enum tarn_status st = boot_question(config, plan, program, device, scratch, &question);
	if (!st)
		st = find_own_schedule(&s);
	/* The other programs have to fit as well. */
	if (!st)
		st = plan_points(&s, boot_is_flexible(config) ? plan->min_budget_bytes : 0, curve);
	if (!st && plan->budget_bytes < UINT64_MAX - MEBIBYTE && program->recomputed_ops) {
		st = plan_with(&s, STRATEGY_AUTO, plan->budget_bytes + MEBIBYTE, s.own.steps ? &s.own : NULL, &result);
		if (!st)
			curve->more = point_of(&s, plan->budget_bytes + MEBIBYTE, &result);
	}
	if (st)
		curve->points = 0;
	host_arena_release(scratch, mark);
	return st;
}
