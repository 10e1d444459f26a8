/* tarn_dag.c - `tarn dag`: plans an abstract training graph, so that planners can be compared without a network. */
#include "command.h"

#include "base/bytes.h"
#include "base/status.h"
#include "planner/bound.h"
#include "planner/dag_file.h"
#include "planner/planner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Exit codes beside those of enum tarn_status. */
#define EXIT_INFEASIBLE 3
#define EXIT_UNKNOWN 4
#define MAX_SWEEP 100000

struct dag_options {
	const char *graph, *output, *budget_text;
	uint64_t budget, seed;
	uint32_t strategy, effort, sweep;
	bool json, min_peak, help;
};

/* What the line of JSON says; sizes include the sources. UINT64_MAX: null. */
struct dag_answer {
	const char *status;
	uint64_t peak, time, time_once, bound, bound_fixed_order, least, least_bound, arena;
	double plan_ms, pack_ms;
};

static double cpu_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static enum tarn_status read_number(const char *option, const char *text, uint64_t most, uint64_t *out)
{
	char *end;
	unsigned long long value = strtoull(text, &end, 10);
	if (*end || end == text || *text == '-' || value > most)
		return tarn_fail(TARN_EINVAL, "dag: %s: \"%s\" is not a number from 0 to %" PRIu64, option, text, most);
	*out = value;
	return TARN_OK;
}

static enum tarn_status read_choice(const char *option, const char *text, const char *const *names, uint32_t count,
				    uint32_t *out)
{
	char list[128] = "";
	for (uint32_t i = 0; i < count; i++) {
		if (!strcmp(text, names[i])) {
			*out = i;
			return TARN_OK;
		}
		snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", names[i]);
	}
	return tarn_fail(TARN_EINVAL, "dag: %s: \"%s\" is none of %s", option, text, list);
}

/* In the order of enum strategy; `manual` needs names and is left out. */
static const char *const strategies[] = { "auto", "none", "memory_poor", "sqrt", "speed", "min" };
static const uint32_t strategy_of[] = { STRATEGY_AUTO, STRATEGY_NONE,  STRATEGY_MEMORY_POOR,
					STRATEGY_SQRT, STRATEGY_SPEED, STRATEGY_MIN };
static const char *const efforts[] = { "fast", "normal", "max" };
/* Entries that each of the bounds may look at. */
static const uint64_t bound_work[] = { 4000000, 50000000, 5000000000 };
/* Work of the packer, see pack_solve. */
static const uint64_t pack_work[] = { 2000, 100000, 1000000 };

static enum tarn_status parse_valued(struct dag_options *k, const char *option, const char *value)
{
	enum tarn_status st = TARN_OK;
	uint64_t number = 0;
	uint32_t choice = 0;
	if (!strcmp(option, "--budget")) {
		k->budget_text = value;
		st = bytes_parse(value, &k->budget);
	} else if (!strcmp(option, "--strategy")) {
		st = read_choice(option, value, strategies, sizeof strategies / sizeof *strategies, &choice);
		k->strategy = strategy_of[choice];
	} else if (!strcmp(option, "--effort")) {
		st = read_choice(option, value, efforts, EFFORTS, &k->effort);
	} else if (!strcmp(option, "--seed")) {
		st = read_number(option, value, UINT64_MAX, &k->seed);
	} else if (!strcmp(option, "--sweep")) {
		st = read_number(option, value, MAX_SWEEP, &number);
		k->sweep = (uint32_t)number;
	} else {
		k->output = value;
	}
	return st;
}

static bool takes_value(const char *option)
{
	static const char *const valued[] = { "--budget", "--strategy", "--effort", "--seed", "--sweep", "-o" };
	for (size_t i = 0; i < sizeof valued / sizeof *valued; i++)
		if (!strcmp(option, valued[i]))
			return true;
	return false;
}

static enum tarn_status parse(int argc, char **argv, struct dag_options *k)
{
	*k = (struct dag_options){ .budget = UINT64_MAX, .effort = EFFORT_NORMAL };
	for (int i = 1; i < argc; i++) {
		enum tarn_status st = TARN_OK;
		if (takes_value(argv[i])) {
			if (i + 1 == argc)
				return tarn_fail(TARN_EINVAL, "dag: %s needs a value", argv[i]);
			st = parse_valued(k, argv[i], argv[i + 1]);
			i++;
		} else if (!strcmp(argv[i], "--json")) {
			k->json = true;
		} else if (!strcmp(argv[i], "--min-peak")) {
			k->min_peak = true;
		} else if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			k->help = true;
		} else if (argv[i][0] == '-' || k->graph) {
			return tarn_fail(TARN_EINVAL, "dag: unknown argument \"%s\"; see `tarn help dag`", argv[i]);
		} else {
			k->graph = argv[i];
		}
		if (st)
			return st;
	}
	if (!k->help && !k->graph)
		return tarn_fail(TARN_EINVAL, "dag: no graph; call it as `tarn dag GRAPH.json --budget BYTES`");
	if (k->sweep && (k->budget_text || k->output))
		return tarn_fail(TARN_EINVAL, "dag: --sweep plans for many budgets of its own: no %s beside it",
				 k->budget_text ? "--budget" : "-o");
	if (!k->help && !k->budget_text && !k->min_peak && !k->sweep && k->strategy == STRATEGY_AUTO)
		return tarn_fail(TARN_EINVAL, "dag: give a --budget, --min-peak or --sweep N");
	return TARN_OK;
}

static void print_time(const char *key, const struct dag *dag, uint64_t time)
{
	if (time == UINT64_MAX)
		printf("\"%s\":null,", key);
	else if (dag->time_unit == 1)
		printf("\"%s\":%" PRIu64 ",", key, time);
	else
		printf("\"%s\":%.6f,", key, (double)time * dag->time_unit);
}

static void print_bytes(const char *key, uint64_t bytes)
{
	if (bytes == UINT64_MAX)
		printf("\"%s\":null,", key);
	else
		printf("\"%s\":%" PRIu64 ",", key, bytes);
}

static void print_json(const struct dag *dag, const struct dag_answer *a)
{
	printf("{\"status\":\"%s\",", a->status);
	print_bytes("peak_bytes", a->peak);
	print_time("total_time", dag, a->time);
	if (a->time == UINT64_MAX)
		printf("\"overhead\":null,");
	else
		printf("\"overhead\":%.6f,", a->time_once ? (double)a->time / (double)a->time_once - 1 : 0.0);
	print_time("lower_bound_time", dag, a->bound);
	print_time("lower_bound_time_fixed_order", dag, a->bound_fixed_order);
	print_bytes("min_budget_found", a->least);
	print_bytes("min_budget_lower_bound", a->least_bound);
	print_bytes("arena_bytes", a->arena);
	printf("\"plan_ms\":%.3f,\"pack_ms\":%.3f}", a->plan_ms, a->pack_ms);
}

static uint64_t with_sources(const struct dag *dag, uint64_t bytes)
{
	return bytes == UINT64_MAX ? bytes : bytes + dag->source_bytes;
}

/* The height of a packing of the schedule, at any addresses: the sizes of a graph are what they are. */
static enum tarn_status pack_schedule(const struct planner_result *result, uint32_t effort, struct host_arena *arena,
				      uint64_t *height)
{
	const struct expansion *e = &result->expansion;
	struct pack_buffer *buffer = HOST_ARRAY(arena, (size_t)e->buffers + 1, struct pack_buffer);
	uint64_t *offset = HOST_ARRAY(arena, (size_t)e->buffers + 1, uint64_t);
	struct pack_options options = { .capacity = UINT64_MAX, .minimise = true, .effort = pack_work[effort] };
	struct pack_result packed;
	if (!buffer || !offset)
		return TARN_ENOMEM;
	for (uint32_t i = 0; i < e->buffers; i++)
		buffer[i] = (struct pack_buffer){ .bytes = e->buffer[i].bytes,
						  .first = e->buffer[i].first,
						  .last = e->buffer[i].last,
						  .pinned = PACK_ANYWHERE };
	enum tarn_status st = pack_solve(buffer, e->buffers, &options, arena, offset, &packed);
	if (!st)
		*height = packed.height;
	return st;
}

static struct planner_request request_of(const struct dag *dag, const struct dag_options *options, uint64_t budget)
{
	return (struct planner_request){ .problem = &dag->problem,
					 .strategy = options->strategy,
					 .budget = budget,
					 .effort = options->effort,
					 .seed = options->seed,
					 .sum_of_bytes = true,
					 .skip_least = !options->min_peak };
}

/* Plans for one budget, which includes the sources. */
static enum tarn_status answer_budget(const struct dag *dag, const struct dag_options *options, uint64_t budget,
				      const struct planner_result *known, struct host_arena *arena,
				      struct planner_result *result, struct dag_answer *a)
{
	double start = cpu_ms();
	bool sources_fit = budget >= dag->source_bytes;
	uint64_t room = budget == UINT64_MAX ? budget : sources_fit ? budget - dag->source_bytes : 0;
	struct planner_request request = request_of(dag, options, room);
	request.known = known && known->schedule.steps ? &known->schedule : NULL;
	*a = (struct dag_answer){ "unknown",  UINT64_MAX, UINT64_MAX, 0, UINT64_MAX, UINT64_MAX,
				  UINT64_MAX, UINT64_MAX, UINT64_MAX, 0, 0 };
	struct bound bound;
	struct dependence dependence;
	enum tarn_status planned = planner_run(&request, arena, result);
	if (planned && planned != TARN_EBUDGET)
		return planned;
	enum tarn_status st = dependence_find(&dag->problem, arena, &dependence);
	if (!st)
		st = bound_find(&dependence, room, planned ? UINT64_MAX : result->time_ns, bound_work[options->effort],
				arena, &bound);
	if (st)
		return st;
	st = planned;
	a->plan_ms = cpu_ms() - start;
	a->time_once = result->base_time_ns;
	a->bound = bound.time_ns > result->bound_ns ? bound.time_ns : result->bound_ns;
	a->bound_fixed_order = bound.time_fixed_order_ns;
	if (st == TARN_OK) {
		a->status = "ok";
		a->peak = with_sources(dag, result->expansion.peak_bytes);
		a->time = result->time_ns;
		start = cpu_ms();
		st = pack_schedule(result, options->effort, arena, &a->arena);
		a->pack_ms = cpu_ms() - start;
		a->arena = with_sources(dag, a->arena);
	} else if (st == TARN_EBUDGET) {
		st = TARN_OK;
		tarn_error_clear();
		if (!sources_fit || bound.infeasible || result->infeasible || room < result->least_bound)
			a->status = "infeasible";
	}
	if (options->min_peak || strcmp(a->status, "ok")) {
		a->least = with_sources(dag, result->min_budget);
		a->least_bound = with_sources(dag, bound.peak_bytes > result->least_bound ? bound.peak_bytes
											  : result->least_bound);
	}
	return st;
}

static void print_text(const struct dag *dag, const struct dag_answer *a)
{
	if (!strcmp(a->status, "ok")) {
		printf("ok: peak %" PRIu64 " bytes, time %.10g, %.3f %% more than each op once\n", a->peak,
		       (double)a->time * dag->time_unit,
		       a->time_once ? 100 * ((double)a->time / (double)a->time_once - 1) : 0.0);
		if (a->bound != UINT64_MAX)
			printf("no schedule is faster than %.10g\n", (double)a->bound * dag->time_unit);
	} else {
		printf("%s\n", strcmp(a->status, "unknown") ? "no schedule fits this budget"
							    : "no schedule was found within this budget");
	}
	if (a->least != UINT64_MAX)
		printf("smallest budget found %" PRIu64 " bytes, none is below %" PRIu64 "\n", a->least,
		       a->least_bound);
}

/* N budgets from the least that was found to what keeping everything needs. */
static enum tarn_status sweep(const struct dag *dag, struct dag_options *options, struct host_arena *arena)
{
	struct planner_result none, *result = HOST_ARRAY(arena, (size_t)options->sweep + 1, struct planner_result);
	struct dag_answer answer;
	struct planner_request request = request_of(dag, options, UINT64_MAX);
	request.strategy = STRATEGY_NONE;
	request.skip_least = false;
	enum tarn_status st = result ? planner_run(&request, arena, &none) : TARN_ENOMEM;
	for (uint32_t i = 0; !st && i < options->sweep; i++) {
		double part = options->sweep > 1 ? (double)i / (options->sweep - 1) : 1;
		uint64_t budget = none.min_budget + (uint64_t)((double)(none.none_peak - none.min_budget) * part);
		if (i + 1 == options->sweep)
			budget = none.none_peak;
		st = answer_budget(dag, options, budget + dag->source_bytes, i ? &result[i - 1] : NULL, arena,
				   &result[i], &answer);
		if (st)
			break;
		printf("{\"budget\":%" PRIu64 ",\"plan\":", budget + dag->source_bytes);
		print_json(dag, &answer);
		printf("}\n");
	}
	return st;
}

static int answer_one(const struct dag *dag, const struct dag_options *options, struct host_arena *arena)
{
	struct dag_answer answer;
	struct planner_result result;
	struct dag_options asked = *options;
	if (!options->budget_text && options->min_peak)
		asked.strategy = STRATEGY_MIN;
	enum tarn_status st = answer_budget(dag, &asked, options->budget, NULL, arena, &result, &answer);
	if (!st && options->output && !strcmp(answer.status, "ok"))
		st = dag_write_schedule(dag, &result.schedule, options->output);
	if (st)
		return command_fail(st);
	if (options->json) {
		print_json(dag, &answer);
		printf("\n");
	} else {
		print_text(dag, &answer);
	}
	return !strcmp(answer.status, "ok") ? 0 : !strcmp(answer.status, "infeasible") ? EXIT_INFEASIBLE : EXIT_UNKNOWN;
}

int command_dag(int argc, char **argv)
{
	struct dag_options options;
	struct dag dag;
	enum tarn_status st = parse(argc, argv, &options);
	if (st)
		return command_fail(st);
	if (options.help) {
		print_command_help("dag");
		return 0;
	}
	struct host_arena arena;
	host_arena_init(&arena);
	int code = 0;
	st = dag_load(options.graph, &arena, &dag);
	if (!st && options.sweep)
		st = sweep(&dag, &options, &arena);
	else if (!st)
		code = answer_one(&dag, &options, &arena);
	if (st)
		code = command_fail(st);
	host_arena_fini(&arena);
	return code;
}
