/* test_dag.c - abstract graphs: files read and refused, schedules written, plans near the optimum at every effort. */
#include "planner/dag_file.h"
#include "planner/planner.h"
#include "support/exhaustive_schedule.h"
#include "support/random_problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GRAPHS 120
#define MOST_STATES 400000u
#define BUDGETS 7u

static struct host_arena arena;

static void setup(void)
{
	host_arena_init(&arena);
}

static void teardown(void)
{
	host_arena_fini(&arena);
}

static const char small[] =
	"{\"name\": \"small\",\n"
	" \"nodes\": [\n"
	"  {\"id\": \"x\", \"kind\": \"source\", \"time\": 0, \"bytes\": 7, \"workspace\": 0, \"inputs\": []},\n"
	"  {\"id\": \"a\", \"kind\": \"op\", \"time\": 5, \"bytes\": 4, \"inputs\": [\"x\"], \"phase\": \"fwd\"},\n"
	"  {\"id\": \"b\", \"kind\": \"op\", \"time\": 6, \"bytes\": 3, \"workspace\": 2, \"inputs\": [\"a\"]},\n"
	"  {\"id\": \"c\", \"kind\": \"op\", \"time\": 7, \"bytes\": 1, \"inputs\": [\"a\", \"b\"], \"phase\": "
	"\"bwd\"},\n"
	"  {\"id\": \"unused\", \"kind\": \"op\", \"time\": 9, \"bytes\": 0, \"inputs\": []}\n"
	" ],\n"
	" \"targets\": [\"c\", \"b\", \"x\"]}\n";

static enum tarn_status load(const char *text, struct dag *dag)
{
	return dag_load(testing_file("graph.json", text, strlen(text)), &arena, dag);
}

START_TEST(reads_a_graph)
{
	struct dag dag;
	ck_assert_ok(load(small, &dag));
	ck_assert_ok(problem_check(&dag.problem));
	ck_assert_uint_eq(dag.source_bytes, 7);
	ck_assert_uint_eq(dag.problem.ops, 4);
	ck_assert_uint_eq(dag.problem.values, 2);
	ck_assert_double_eq(dag.time_unit, 1);
	ck_assert_str_eq(dag.name[2], "c");
	ck_assert_uint_eq(dag.problem.op[2].workspace, 1);
	ck_assert(dag.problem.op[0].forward && !dag.problem.op[2].forward);
	/* b is a target, and read by one: only c must be asked for. */
	ck_assert(!dag.problem.op[1].required && dag.problem.op[2].required && !dag.problem.op[3].required);
}
END_TEST

START_TEST(fractions_of_time_become_steps)
{
	struct dag dag;
	ck_assert_ok(load("{nodes: [{id: a, kind: op, time: 0.25, bytes: 1}, {id: b, kind: op, time: 2, bytes: 1}], "
			  "targets: [a]}",
			  &dag));
	ck_assert_double_eq(dag.time_unit, 1e-6);
	ck_assert_uint_eq(dag.problem.op[0].cost_ns, 250000);
	ck_assert_uint_eq(dag.problem.op[1].cost_ns, 2000000);
}
END_TEST

/* `from` of the small graph replaced by `to` is refused with the place and the reason. */
static const struct {
	const char *from, *to, *message;
} broken[] = {
	{ "\"id\": \"b\"", "\"id\": \"a\"", "graph.json:5:10: node \"a\" was defined before, in line 4" },
	{ "\"id\": \"b\"", "\"id\": \"b b\"", "white space" },
	{ "\"source\"", "\"sauce\"", "graph.json:3:" },
	{ "[\"a\"]", "[\"z\"]", "input \"z\" is not an earlier node" },
	{ "[\"a\"]", "[\"c\"]", "input \"c\" is not an earlier node" },
	{ "[\"a\", \"b\"]", "[\"a\", \"a\"]", "listed twice" },
	{ "[\"x\"], \"phase\"", "[\"x\", \"x\"], \"phase\"", "graph.json:4:68: input \"x\" is listed twice" },
	{ "\"workspace\": 2", "\"workspce\": 2", "graph.json:5:52: unknown key \"workspce\"; a node has id, kind" },
	{ "\"inputs\": []", "\"inputs\": [\"a\"]", "source has no inputs" },
	{ "\"inputs\": [\"x\"]", "\"inputs\": 3", "must be a list" },
	{ "\"time\": 5", "\"time\": -5", "time" },
	{ "\"time\": 5, ", "", "\"time\" is missing" },
	{ "\"bytes\": 4", "\"bytes\": 1.5", "bytes" },
	{ "\"bytes\": 4, ", "", "\"bytes\" is missing" },
	{ "\"c\", \"b\"", "\"q\"", "target \"q\" is not a node" },
	{ "\"targets\"", "\"goals\"", "\"targets\" is missing" },
	{ "\"phase\": \"bwd\"", "\"phase\": \"sideways\"", "fwd" },
	{ "\"kind\": \"op\", ", "", "\"kind\" is missing" },
};

START_TEST(refuses_a_broken_graph)
{
	struct dag dag;
	char text[2048];
	const char *at = strstr(small, broken[_i].from);
	ck_assert_ptr_nonnull(at);
	snprintf(text, sizeof text, "%.*s%s%s", (int)(at - small), small, broken[_i].to, at + strlen(broken[_i].from));
	ck_assert_fails(load(text, &dag), TARN_EINVAL, broken[_i].message);
}
END_TEST

/* An op with two outputs that runs once, and an update after its reader. */
static const char effects[] = "{nodes: [{id: w, kind: source, time: 0, bytes: 9},\n"
			      "{id: a, kind: op, time: 5, bytes: 4, workspace: 1, inputs: [w], once: true},\n"
			      "{id: a2, kind: op, time: 0, bytes: 3, with: a, inputs: [w]},\n"
			      "{id: a3, kind: op, time: 0, bytes: 2, with: a, inputs: [w]},\n"
			      "{id: u, kind: op, time: 1, bytes: 0, inputs: [a2, w], after: [b, a]},\n"
			      "{id: b, kind: op, time: 2, bytes: 0, inputs: [a, a2, w]}], targets: [u, b]}\n";

START_TEST(reads_effects_and_further_outputs)
{
	struct dag dag;
	ck_assert_ok(load(effects, &dag));
	const struct problem *p = &dag.problem;
	ck_assert_uint_eq(p->ops, 3);
	ck_assert_uint_eq(p->values, 2); /* nobody reads a3: its bytes are workspace */
	ck_assert(p->op[0].once && !p->op[1].once && p->op[0].outputs == 2 && p->op[0].workspace == 3);
	ck_assert(p->value[1].producer == 0 && p->value[1].output == 1 && p->value[1].bytes == 3);
	ck_assert_uint_eq(p->op[1].afters, 2);
	ck_assert(p->after[p->op[1].first_after] == 2 && p->after[p->op[1].first_after + 1] == 0);
	ck_assert(p->op[2].inputs == 2 && problem_inputs(p, 2)[0] == 0 && problem_inputs(p, 2)[1] == 1);
	uint32_t step[] = { 0, 2, 1 };
	struct schedule schedule = { step, 3 };
	char path[512], text[256] = "";
	ck_assert_ok(schedule_check(p, &schedule));
	snprintf(path, sizeof path, "%s/effects.txt", testing_directory());
	ck_assert_ok(dag_write_schedule(&dag, &schedule, path));
	FILE *file = fopen(path, "r");
	ck_assert_ptr_nonnull(file);
	ck_assert_uint_gt(fread(text, 1, sizeof text - 1, file), 0);
	fclose(file);
	ck_assert_str_eq(text, "c a\nc a2\nc a3\nf a3\nc b\nf b\nf a\nc u\nf u\nf a2\n");
}
END_TEST

static const struct {
	const char *from, *to, *message;
} broken_effects[] = {
	{ "with: a,", "with: w,", "just before" },
	{ "once: true", "once: 3", "graph.json:2:" },
	{ "with: a,", "with: [a],", "just before" },
	{ "{id: a2, kind: op, time: 0", "{id: a2, kind: op, time: 1", "time and workspace must be 0" },
	{ "{id: w, kind: source, time: 0, bytes: 9}", "{id: w, kind: source, time: 0, bytes: 9, with: a}",
	  "no output of an op" },
	{ "after: [b, a]", "after: [b, u]", "\"u\" is no other op" },
	{ "after: [b, a]", "after: [w]", "\"w\" is no other op" },
	{ "after: [b, a]", "after: 3", "must be a list" },
	{ "inputs: [a, a2, w]}]", "inputs: [a, a2, w], after: [u]}]", "come after themselves" },
};

START_TEST(refuses_broken_effects)
{
	struct dag dag;
	char text[2048];
	const char *at = strstr(effects, broken_effects[_i].from);
	ck_assert_ptr_nonnull(at);
	snprintf(text, sizeof text, "%.*s%s%s", (int)(at - effects), effects, broken_effects[_i].to,
		 at + strlen(broken_effects[_i].from));
	ck_assert_fails(load(text, &dag), TARN_EINVAL, broken_effects[_i].message);
}
END_TEST

START_TEST(refuses_what_is_no_file)
{
	struct dag dag;
	ck_assert_fails(dag_load("/nonexistent/graph.json", &arena, &dag), TARN_EIO, "cannot open");
	ck_assert_fails(load("[1, 2]", &dag), TARN_EINVAL, "\"nodes\" is missing");
}
END_TEST

/* The actions of a schedule with a recomputation, replayed by the rules of the format. */
START_TEST(writes_actions)
{
	struct dag dag;
	uint32_t step[] = { 0, 1, 0, 2 };
	struct schedule schedule = { step, 4 };
	char path[512], text[256] = "";
	ck_assert_ok(load(small, &dag));
	snprintf(path, sizeof path, "%s/schedule.txt", testing_directory());
	ck_assert_ok(dag_write_schedule(&dag, &schedule, path));
	FILE *file = fopen(path, "r");
	ck_assert_ptr_nonnull(file);
	ck_assert_uint_gt(fread(text, 1, sizeof text - 1, file), 0);
	fclose(file);
	ck_assert_str_eq(text, "c a\nc b\nf a\nc a\nc c\nf c\nf a\nf b\n");
	ck_assert_fails(dag_write_schedule(&dag, &schedule, "/nonexistent/s"), TARN_EIO, "cannot create");
	ck_assert_fails(dag_write_schedule(&dag, &schedule, testing_directory()), TARN_EIO, "is a folder");
}
END_TEST

START_TEST(loading_survives_lack_of_host_memory)
{
	enum tarn_status st = TARN_ENOMEM;
	const char *path = testing_file("graph.json", small, strlen(small));
	for (uint64_t request = 1; st; request++) {
		struct host_arena little;
		struct dag dag;
		host_arena_init(&little);
		little.fail_at = request;
		st = dag_load(path, &little, &dag);
		host_arena_fini(&little);
		ck_assert(st == TARN_OK || st == TARN_ENOMEM);
	}
}
END_TEST

static enum tarn_status plan(const struct problem *p, uint64_t budget, uint32_t effort, struct planner_result *r)
{
	struct planner_request request = { .problem = p,
					   .strategy = STRATEGY_AUTO,
					   .budget = budget,
					   .effort = effort,
					   .sum_of_bytes = true,
					   .skip_least = true };
	return planner_run(&request, &arena, r);
}

/* Least and keep-all budgets and five between: nothing feasible is refused, and the time is the least. */
START_TEST(plans_of_small_graphs_are_optimal)
{
	uint32_t cases = 0, equal_fast = 0, planned_fast = 0;
	for (int seed = 0; seed < GRAPHS; seed++) {
		struct testing_random random = { .state = (uint64_t)seed + 7000 };
		struct problem *p = random_training_problem(&arena, &random, testing_between(&random, 4, 8));
		struct planner_result r, none;
		uint64_t least, optimum;
		ck_assert_ok(plan(p, UINT64_MAX, EFFORT_NORMAL, &none));
		ck_assert_uint_eq(none.time_ns, none.base_time_ns);
		if (!exhaustive_least_peak(p, MOST_STATES, &least)) {
			host_arena_fini(&arena);
			host_arena_init(&arena);
			continue;
		}
		ck_assert_int_eq(plan(p, least - 1, EFFORT_NORMAL, &r), TARN_EBUDGET);
		ck_assert_msg(r.min_budget == least, "seed %d: %lu of %lu", seed, (unsigned long)r.min_budget,
			      (unsigned long)least);
		ck_assert(r.infeasible || r.least_bound == least);
		for (uint32_t i = 0; i < BUDGETS; i++) {
			uint64_t budget = least + (none.none_peak - least) * i / (BUDGETS - 1);
			if (!exhaustive_least_time(p, budget, MOST_STATES, &optimum))
				continue;
			enum tarn_status st = plan(p, budget, EFFORT_NORMAL, &r);
			ck_assert_msg(!st && r.time_ns == optimum, "seed %d budget %u: %lu of %lu", seed, i,
				      (unsigned long)r.time_ns, (unsigned long)optimum);
			ck_assert_ok(schedule_check(p, &r.schedule));
			ck_assert_uint_le(r.height, budget);
			ck_assert_uint_le(r.bound_ns, optimum);
			cases++;
			if (plan(p, budget, EFFORT_FAST, &r))
				continue;
			planned_fast++;
			equal_fast += r.time_ns == optimum;
			ck_assert_uint_ge(r.time_ns, optimum);
		}
		host_arena_fini(&arena);
		host_arena_init(&arena);
	}
	printf("small graphs: %u cases; fast planned %u, %u of them as fast as can be\n", cases, planned_fast,
	       equal_fast);
	ck_assert_uint_gt(cases, GRAPHS * BUDGETS / 2);
	ck_assert_uint_ge(equal_fast * 100, cases * 95);
}
END_TEST

/* Same problem, budget and seed: same schedule, whatever ran before. */
START_TEST(plans_are_deterministic)
{
	struct testing_random random = { .state = 3 };
	struct problem *p = random_training_problem(&arena, &random, 16);
	struct planner_result none, first, second;
	ck_assert_ok(plan(p, UINT64_MAX, EFFORT_FAST, &none));
	uint64_t budget = none.none_peak - none.none_peak / 4;
	ck_assert_ok(plan(p, budget, EFFORT_NORMAL, &first));
	ck_assert_ok(plan(p, budget, EFFORT_NORMAL, &second));
	ck_assert_uint_eq(first.schedule.steps, second.schedule.steps);
	ck_assert_mem_eq(first.schedule.step, second.schedule.step, first.schedule.steps * sizeof *first.schedule.step);
}
END_TEST

START_TEST(planning_survives_lack_of_host_memory)
{
	struct testing_random random = { .state = 4 };
	struct problem *p = random_training_problem(&arena, &random, 5);
	struct planner_result r;
	ck_assert_ok(plan(p, UINT64_MAX, EFFORT_NORMAL, &r));
	uint64_t budget = r.none_peak - r.none_peak / 5;
	enum tarn_status st = TARN_ENOMEM;
	for (uint64_t request = 1; st == TARN_ENOMEM; request++) {
		struct planner_request q = {
			.problem = p, .budget = budget, .effort = EFFORT_NORMAL, .sum_of_bytes = true
		};
		struct host_arena little;
		host_arena_init(&little);
		little.fail_at = request;
		st = planner_run(&q, &little, &r);
		host_arena_fini(&little);
		ck_assert(st == TARN_OK || st == TARN_ENOMEM || st == TARN_EBUDGET);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("dag");
	TCase *files = tcase_create("files"), *plans = tcase_create("plans");
	tcase_add_checked_fixture(files, setup, teardown);
	tcase_add_test(files, reads_a_graph);
	tcase_add_test(files, fractions_of_time_become_steps);
	tcase_add_loop_test(files, refuses_a_broken_graph, 0, (int)(sizeof broken / sizeof *broken));
	tcase_add_test(files, reads_effects_and_further_outputs);
	tcase_add_loop_test(files, refuses_broken_effects, 0, (int)(sizeof broken_effects / sizeof *broken_effects));
	tcase_add_test(files, refuses_what_is_no_file);
	tcase_add_test(files, writes_actions);
	tcase_add_test(files, loading_survives_lack_of_host_memory);
	tcase_add_checked_fixture(plans, setup, teardown);
	tcase_set_timeout(plans, 300);
	tcase_add_test(plans, plans_of_small_graphs_are_optimal);
	tcase_add_test(plans, plans_are_deterministic);
	tcase_add_test(plans, planning_survives_lack_of_host_memory);
	suite_add_tcase(suite, files);
	suite_add_tcase(suite, plans);
	return testing_run(suite);
}
