/* test_schedule.c - problems, schedules and what is derived from them, against quadratic oracles. */
#include "planner/meter.h"
#include "planner/order.h"
#include "planner/schedule.h"
#include "support/random_problem.h"

#include <string.h>

#define CASES 300
#define MOST_STEPS 200u

static struct host_arena arena;

static void setup(void)
{
	host_arena_init(&arena);
}

static void teardown(void)
{
	host_arena_fini(&arena);
}

static struct problem *problem_of(int seed, struct testing_random *random)
{
	*random = (struct testing_random){ .state = (uint64_t)seed };
	struct problem *p = random_problem(&arena, random, testing_between(random, 1, 25));
	ck_assert_ok(problem_check(p));
	return p;
}

/* A legal schedule with recomputations: a random walk among first runs in order. */
static struct schedule random_schedule(const struct problem *p, struct testing_random *random)
{
	struct dependence d;
	uint32_t *order[ORDERS];
	ck_assert_ok(dependence_find(p, &arena, &d));
	for (uint32_t i = 0; i < ORDERS; i++)
		order[i] = HOST_ARRAY(&arena, d.needed_ops, uint32_t);
	ck_assert_ok(order_find(&d, &arena, order));
	struct schedule s = { .step = HOST_ARRAY(&arena, MOST_STEPS, uint32_t) };
	const uint32_t *first_runs = order[testing_between(random, 0, 1)];
	for (uint32_t k = 0; k < d.needed_ops; k++) {
		for (uint32_t tries = testing_between(random, 0, 3); tries && k; tries--) {
			s.step[s.steps++] = first_runs[testing_between(random, 0, k - 1)];
			if (schedule_check(p, &(struct schedule){ s.step, s.steps }) &&
			    strstr(tarn_error(), "required") == NULL)
				s.steps--;
		}
		s.step[s.steps++] = first_runs[k];
		/* A repeated op may have closed the way for this one: then no repetitions. */
		if (schedule_check(p, &(struct schedule){ s.step, s.steps }) &&
		    strstr(tarn_error(), "required") == NULL) {
			memcpy(s.step, first_runs, (k + 1) * sizeof *s.step);
			s.steps = k + 1;
		}
	}
	return s;
}

/* Last step that reads what step s wrote as value v; s itself when none does. */
static uint32_t last_read(const struct problem *p, const struct schedule *s, uint32_t step, uint32_t v)
{
	uint32_t last = step;
	for (uint32_t t = step + 1; t < s->steps; t++) {
		for (uint32_t i = 0; i < p->op[s->step[t]].inputs; i++)
			if (problem_inputs(p, s->step[t])[i] == v)
				last = t;
		if (s->step[t] == p->value[v].producer)
			break;
	}
	return last;
}

/* Step that wrote what step t reads as value v. */
static uint32_t writer(const struct problem *p, const struct schedule *s, uint32_t t, uint32_t v)
{
	while (t-- > 0)
		if (s->step[t] == p->value[v].producer)
			return t;
	return UINT32_MAX;
}

/* Bytes that output 0 of step t takes over. */
static uint64_t bytes_taken(const struct problem *p, const struct schedule *s, uint32_t t)
{
	const struct problem_op *op = &p->op[s->step[t]];
	for (uint32_t j = 0; op->outputs && j < op->inputs; j++) {
		uint32_t v = problem_inputs(p, s->step[t])[j];
		uint64_t bytes = p->value[problem_outputs(p, s->step[t])[0]].bytes;
		if (op->in_place >> j & 1 && p->value[v].bytes == bytes && last_read(p, s, writer(p, s, t, v), v) == t)
			return bytes;
	}
	return 0;
}

/* Live bytes of step t by the definition. */
static uint64_t bytes_at(const struct problem *p, const struct schedule *s, uint32_t t)
{
	uint64_t bytes = p->op[s->step[t]].workspace - bytes_taken(p, s, t);
	for (uint32_t w = 0; w <= t; w++)
		for (uint32_t i = 0; i < p->op[s->step[w]].outputs; i++) {
			uint32_t v = problem_outputs(p, s->step[w])[i];
			bytes += last_read(p, s, w, v) >= t ? p->value[v].bytes : 0;
		}
	return bytes;
}

START_TEST(live_bytes_follow_the_definition)
{
	struct testing_random random;
	struct problem *p = problem_of(_i, &random);
	struct schedule s = random_schedule(p, &random);
	struct expansion e;
	ck_assert_ok(schedule_check(p, &s));
	ck_assert_ok(schedule_expand(p, &s, &arena, &e));
	uint64_t peak = 0, time = 0;
	for (uint32_t t = 0; t < s.steps; t++) {
		uint64_t bytes = bytes_at(p, &s, t);
		ck_assert_msg(e.live_bytes[t] == bytes, "seed %d step %u", _i, t);
		peak = bytes > peak ? bytes : peak;
		time += p->op[s.step[t]].cost_ns;
	}
	ck_assert_uint_eq(e.peak_bytes, peak);
	ck_assert_uint_eq(e.time_ns, time);
	ck_assert(!s.steps || e.live_bytes[e.peak_step] == peak);
	uint64_t measured_peak, measured_time;
	ck_assert_ok(schedule_measure(p, &s, &arena, &measured_peak, &measured_time));
	ck_assert_uint_eq(measured_peak, peak);
	ck_assert_uint_eq(measured_time, time);
}
END_TEST

START_TEST(the_meter_agrees_with_the_expansion)
{
	struct testing_random random;
	struct problem *p = problem_of(_i, &random);
	struct schedule s = random_schedule(p, &random);
	struct expansion e;
	struct meter meter;
	ck_assert_ok(schedule_expand(p, &s, &arena, &e));
	ck_assert_ok(meter_init(&meter, p, MOST_STEPS, &arena));
	ck_assert(meter_measure(&meter, s.step, s.steps));
	ck_assert_uint_eq(meter.peak_bytes, e.peak_bytes);
	ck_assert_uint_eq(meter.time_ns, e.time_ns);
	for (uint32_t t = 0; t < s.steps; t++)
		ck_assert_uint_eq(meter.live_bytes[t], e.live_bytes[t]);
}
END_TEST

/* Each read finds an instance of the right value, written before and live; buffers cover their instances. */
START_TEST(reads_find_live_instances)
{
	struct testing_random random;
	struct problem *p = problem_of(_i, &random);
	struct schedule s = random_schedule(p, &random);
	struct expansion e;
	ck_assert_ok(schedule_expand(p, &s, &arena, &e));
	for (uint32_t t = 0; t < s.steps; t++) {
		uint32_t o = s.step[t];
		for (uint32_t i = 0; i < p->op[o].inputs + p->op[o].outputs; i++) {
			const struct instance *instance = &e.instance[e.operand_instance[e.first_operand[t] + i]];
			bool input = i < p->op[o].inputs;
			uint32_t v = input ? problem_inputs(p, o)[i] : problem_outputs(p, o)[i - p->op[o].inputs];
			ck_assert_uint_eq(instance->value, v);
			ck_assert_uint_eq(instance->first, input ? writer(p, &s, t, v) : t);
			ck_assert_uint_eq(instance->last, last_read(p, &s, instance->first, v) + 1);
			const struct buffer *buffer = &e.buffer[instance->buffer];
			ck_assert_uint_eq(buffer->bytes, p->value[v].bytes);
			ck_assert(buffer->first <= instance->first && instance->last <= buffer->last);
		}
		uint64_t workspace = p->op[o].workspace;
		ck_assert((e.workspace_buffer[t] == UINT32_MAX) == !workspace);
		ck_assert(!workspace || e.buffer[e.workspace_buffer[t]].bytes == workspace);
	}
}
END_TEST

/* Broken sequences: both judges agree on what is legal. */
START_TEST(expansion_and_check_refuse_the_same)
{
	struct testing_random random;
	struct problem *p = problem_of(_i, &random);
	struct schedule s = random_schedule(p, &random);
	for (uint32_t trial = 0; trial < 20 && s.steps; trial++) {
		struct schedule broken = { .step = HOST_ARRAY(&arena, s.steps + 1, uint32_t), .steps = s.steps };
		memcpy(broken.step, s.step, s.steps * sizeof *s.step);
		uint32_t a = testing_between(&random, 0, s.steps - 1), b = testing_between(&random, 0, s.steps - 1);
		switch (testing_between(&random, 0, 2)) {
		case 0:
			broken.step[a] = s.step[b];
			broken.step[b] = s.step[a];
			break;
		case 1:
			broken.step[a] = broken.step[--broken.steps];
			break;
		default:
			broken.step[broken.steps++] = s.step[a];
		}
		struct expansion e;
		enum tarn_status expanded = schedule_expand(p, &broken, &arena, &e),
				 checked = schedule_check(p, &broken);
		ck_assert_msg(expanded == checked, "seed %d trial %u: %d and %d", _i, trial, (int)expanded,
			      (int)checked);
	}
}
END_TEST

START_TEST(takes_over_the_lowest_input_that_dies)
{
	/* x, y -> z in place of either; x is read again later, so z takes over y. */
	uint32_t operand[] = { 0, 1, 0, 1, 2, 0, 2, 3 };
	struct problem_value value[] = { { 64, 0, 0 }, { 64, 1, 0 }, { 64, 2, 0 }, { 128, 3, 0 } };
	struct problem_op op[] = {
		{ .first_output = 0, .outputs = 1 },
		{ .first_output = 1, .outputs = 1 },
		{ .first_input = 2, .inputs = 2, .first_output = 4, .outputs = 1, .in_place = 3 },
		{ .first_input = 5, .inputs = 2, .first_output = 7, .outputs = 1, .in_place = 3, .required = true },
	};
	struct problem p = { .value = value, .op = op, .operand = operand, .values = 4, .ops = 4, .operands = 8 };
	uint32_t step[] = { 0, 1, 2, 3 };
	struct expansion e;
	ck_assert_ok(problem_check(&p));
	ck_assert_ok(schedule_expand(&p, &(struct schedule){ step, 4 }, &arena, &e));
	ck_assert_uint_eq(e.instance[2].buffer, e.instance[1].buffer);
	ck_assert_uint_ne(e.instance[2].buffer, e.instance[0].buffer);
	ck_assert_uint_eq(e.buffers, 3); /* the sizes of the last op differ: no take-over */
	ck_assert_uint_eq(e.live_bytes[2], 128);
	ck_assert_uint_eq(e.peak_bytes, 256);
}
END_TEST

START_TEST(nothing_at_all_is_a_schedule_of_nothing)
{
	struct problem p = { 0 };
	struct expansion e;
	ck_assert_ok(problem_check(&p));
	ck_assert_ok(schedule_expand(&p, &(struct schedule){ 0 }, &arena, &e));
	ck_assert_uint_eq(e.peak_bytes, 0);
	ck_assert_uint_eq(e.buffers, 0);
}
END_TEST

START_TEST(problem_check_names_the_violation)
{
	uint32_t operand[] = { 0, 0, 1 }, after[] = { 0 };
	struct problem_value value[] = { { 64, 0, 0 }, { 64, 1, 0 } };
	struct problem_op op[] = { { .first_output = 0, .outputs = 1 },
				   { .first_input = 1, .inputs = 1, .first_output = 2, .outputs = 1 } };
	struct problem p = { .value = value,
			     .op = op,
			     .operand = operand,
			     .after = after,
			     .values = 2,
			     .ops = 2,
			     .operands = 3,
			     .afters = 1 };
	ck_assert_ok(problem_check(&p));
	value[0].bytes = 100;
	ck_assert_fails(problem_check(&p), TARN_EINTERNAL, "value 0 has 100 bytes");
	value[0].bytes = 0;
	ck_assert_fails(problem_check(&p), TARN_EINTERNAL, "value 0 has 0 bytes");
	value[0].bytes = 64;
	value[1].producer = 7;
	ck_assert_fails(problem_check(&p), TARN_EINTERNAL, "producer 7");
	value[1].producer = 1;
	operand[1] = 1;
	ck_assert_fails(problem_check(&p), TARN_EINTERNAL, "not the value of an earlier op");
	operand[1] = 0;
	op[1].workspace = 1;
	ck_assert_fails(problem_check(&p), TARN_EINTERNAL, "workspace of 1 bytes");
	op[1].workspace = 0;
	op[1].inputs = 9;
	ck_assert_fails(problem_check(&p), TARN_EINTERNAL, "outside");
	op[1].inputs = 1;
	op[1].afters = 1;
	ck_assert_ok(problem_check(&p));
	after[0] = 1;
	ck_assert_fails(problem_check(&p), TARN_EINTERNAL, "cannot come after op 1");
	after[0] = 1;
	op[1].afters = 0;
	op[0].afters = 1;
	ck_assert_fails(problem_check(&p), TARN_EINTERNAL, "come after themselves");
}
END_TEST

/* Host memory runs out at each request in turn: an error each time, never a crash. */
START_TEST(survives_lack_of_host_memory)
{
	struct testing_random random;
	struct problem *p = problem_of(7, &random);
	struct schedule s = random_schedule(p, &random);
	for (uint64_t n = 1;; n++) {
		struct host_arena small;
		struct expansion e;
		host_arena_init(&small);
		small.fail_at = n;
		enum tarn_status st = schedule_expand(p, &s, &small, &e);
		host_arena_fini(&small);
		if (!st)
			break;
		ck_assert_int_eq(st, TARN_ENOMEM);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("schedule");
	TCase *random = tcase_create("random"), *fixed = tcase_create("fixed");
	tcase_add_checked_fixture(random, setup, teardown);
	tcase_add_loop_test(random, live_bytes_follow_the_definition, 0, CASES);
	tcase_add_loop_test(random, the_meter_agrees_with_the_expansion, 0, CASES);
	tcase_add_loop_test(random, reads_find_live_instances, 0, CASES);
	tcase_add_loop_test(random, expansion_and_check_refuse_the_same, 0, CASES);
	tcase_add_checked_fixture(fixed, setup, teardown);
	tcase_add_test(fixed, takes_over_the_lowest_input_that_dies);
	tcase_add_test(fixed, nothing_at_all_is_a_schedule_of_nothing);
	tcase_add_test(fixed, problem_check_names_the_violation);
	tcase_add_test(fixed, survives_lack_of_host_memory);
	suite_add_tcase(suite, random);
	suite_add_tcase(suite, fixed);
	return testing_run(suite);
}
