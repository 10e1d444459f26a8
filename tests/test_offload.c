/*
 * test_offload.c - tensors that wait in host memory: plans against a simulation of two streams and a search over all
 * schedules with a few copies; whole runs, whose weights keep their bits; and the drivers' copies.
 */
#include "planner/offload.h"
#include "support/random_problem.h"
#include "support/training.h"

#include "boot.h"
#include "driver.h"
#include "verify/verify.h"

#include <stdio.h>
#include <string.h>

#define RANDOM_CASES 20
#define TINY_CASES 24

static struct host_arena arena;

static void setup(void)
{
	host_arena_init(&arena);
}

static void teardown(void)
{
	host_arena_fini(&arena);
}

/* ---- the oracle: what the device would do with the steps and transfers of a plan ----------------------------------
 */

struct device_model {
	const struct problem *p;
	uint64_t bandwidth, now, copies_end;
	uint64_t slot_end[STREAM_SLOTS];
	int slot_value[STREAM_SLOTS]; /* -1: free */
	uint8_t *stored, *arriving;   /* [values]: in the host region; on its way back */
};

static void model_transfer(struct device_model *m, const struct transfer *t)
{
	ck_assert_uint_lt(t->slot, STREAM_SLOTS);
	ck_assert_uint_lt(t->value, m->p->values);
	bool start = t->kind == TRANSFER_STORE || t->kind == TRANSFER_FETCH;
	if (start) {
		ck_assert_int_eq(m->slot_value[t->slot], -1);
		ck_assert(t->kind == TRANSFER_STORE ? !m->stored[t->value] : m->stored[t->value] == 1);
		ck_assert(!m->arriving[t->value]);
		m->copies_end = (m->now > m->copies_end ? m->now : m->copies_end) +
				(uint64_t)((double)m->p->value[t->value].bytes * 1e9 / (double)m->bandwidth);
		m->slot_end[t->slot] = m->copies_end;
		m->slot_value[t->slot] = (int)t->value;
		m->arriving[t->value] = t->kind == TRANSFER_FETCH;
		return;
	}
	ck_assert_int_eq(m->slot_value[t->slot], (int)t->value);
	m->now = m->slot_end[t->slot] > m->now ? m->slot_end[t->slot] : m->now;
	m->slot_value[t->slot] = -1;
	m->arriving[t->value] = 0;
	m->stored[t->value] = 1;
}

/* The time of the plan; every copy is matched by its wait and no op uses what is on its way. */
static uint64_t model_time(const struct problem *p, uint64_t bandwidth, const struct planner_result *r,
			   const struct offload_result *offload)
{
	struct device_model m = { .p = p, .bandwidth = bandwidth };
	m.stored = HOST_ARRAY(&arena, p->values, uint8_t);
	m.arriving = HOST_ARRAY(&arena, p->values, uint8_t);
	for (uint32_t s = 0; s < STREAM_SLOTS; s++)
		m.slot_value[s] = -1;
	uint32_t t = 0;
	for (uint32_t s = 0; s < r->schedule.steps; s++) {
		for (; t < offload->transfers && offload->transfer[t].before == s; t++)
			model_transfer(&m, &offload->transfer[t]);
		uint32_t o = r->schedule.step[s];
		if (o >= p->ops)
			continue;
		for (uint32_t i = 0; i < p->op[o].inputs; i++)
			ck_assert(!m.arriving[problem_inputs(p, o)[i]]);
		m.now += p->op[o].cost_ns;
	}
	for (; t < offload->transfers; t++)
		model_transfer(&m, &offload->transfer[t]);
	for (uint32_t s = 0; s < STREAM_SLOTS; s++)
		ck_assert_int_eq(m.slot_value[s], -1);
	return m.now;
}

/* Host places of values never overlap while both are in use. */
static void check_host_places(const struct problem *p, const struct offload_result *o)
{
	for (uint32_t a = 0; a < o->transfers; a++) {
		uint32_t v = o->transfer[a].value, end = a;
		ck_assert_uint_le(o->host_offset[v] + p->value[v].bytes, o->host_bytes);
		if (o->transfer[a].kind != TRANSFER_STORE)
			continue;
		for (uint32_t t = a; t < o->transfers; t++)
			if (o->transfer[t].value == v)
				end = t;
		for (uint32_t t = a + 1; t <= end; t++) {
			uint32_t w = o->transfer[t].value;
			ck_assert(w == v || o->host_offset[v] + p->value[v].bytes <= o->host_offset[w] ||
				  o->host_offset[w] + p->value[w].bytes <= o->host_offset[v]);
		}
	}
}

static enum tarn_status plan(const struct problem *p, uint32_t strategy, uint64_t budget, uint64_t bandwidth,
			     struct planner_result *r, struct offload_result *offload)
{
	struct planner_request request = { .problem = p, .strategy = strategy, .budget = budget };
	struct offload_options options = { .bandwidth = bandwidth, .host_limit = UINT64_MAX };
	return offload_run(&request, &options, &arena, r, offload);
}

static void check_plan(const struct problem *p, uint64_t budget, uint64_t bandwidth, const struct planner_result *r,
		       const struct offload_result *offload)
{
	struct expansion again;
	ck_assert_ok(schedule_check(&offload->problem, &r->schedule));
	ck_assert_ok(schedule_expand(&offload->problem, &r->schedule, &arena, &again));
	ck_assert_uint_eq(again.peak_bytes, r->expansion.peak_bytes);
	ck_assert_ok(pack_check(r->expansion.buffer, r->expansion.buffers, r->offset, r->height));
	ck_assert_uint_le(r->height, budget);
	ck_assert_uint_eq(model_time(p, bandwidth, r, offload), r->time_ns);
	check_host_places(p, offload);
}

/* ---- properties ----------------------------------------------------------------------------------------------------
 */

/* At every budget and bandwidth: a sound plan, never slower than without offload. */
static void check_budgets(const struct problem *p, int seed)
{
	static const uint64_t bandwidths[] = { 100000000, 10000000000, 1000000000000 };
	struct planner_request request = { .problem = p, .strategy = STRATEGY_AUTO, .budget = UINT64_MAX };
	struct planner_result plain, r;
	struct offload_result offload;
	ck_assert_ok(planner_run(&request, &arena, &plain));
	uint64_t low = plain.min_budget / 2, high = plain.none_height;
	for (uint64_t i = 0; i < 4; i++) {
		request.budget = low + (high - low) * i / 4;
		enum tarn_status without = planner_run(&request, &arena, &plain);
		uint64_t bandwidth = bandwidths[(i + (uint64_t)seed) % 3];
		enum tarn_status with = plan(p, STRATEGY_AUTO, request.budget, bandwidth, &r, &offload);
		if (with == TARN_EBUDGET) {
			ck_assert_int_eq(without, TARN_EBUDGET);
			ck_assert_uint_gt(offload.min_budget, request.budget);
			continue;
		}
		ck_assert_ok(with);
		check_plan(p, request.budget, bandwidth, &r, &offload);
		if (without == TARN_OK)
			ck_assert_uint_le(r.time_ns, plain.time_ns);
	}
}

START_TEST(random_problems)
{
	struct testing_random random = { (uint64_t)_i + 1 };
	check_budgets(random_problem(&arena, &random, testing_between(&random, 4, 25)), _i);
}
END_TEST

static struct problem *network(int which)
{
	switch (which) {
	case 0:
		return chain_problem(&arena, 12, 1 << 20, true);
	case 1:
		return resnet_problem(&arena, 1, true);
	case 2:
		return unet_problem(&arena, 2);
	default:
		return recurrent_problem(&arena, 8);
	}
}

START_TEST(networks)
{
	check_budgets(network(_i), _i);
}
END_TEST

/* Copies that take no time: nothing is recomputed or waited for, down to the smallest budget, which is below any other.
 */
START_TEST(free_copies_cost_nothing)
{
	const struct problem *p = network(_i);
	struct planner_result plain, r;
	struct offload_result offload;
	struct planner_request request = { .problem = p, .strategy = STRATEGY_AUTO, .budget = UINT64_MAX };
	ck_assert_ok(planner_run(&request, &arena, &plain));
	ck_assert_int_eq(plan(p, STRATEGY_AUTO, 64, UINT64_MAX / 2, &r, &offload), TARN_EBUDGET);
	uint64_t least = offload.min_budget;
	ck_assert_uint_lt(least, plain.min_budget);
	ck_assert_uint_ge(least, plain.least_bound);
	for (uint64_t i = 0; i < 3; i++) {
		uint64_t budget = least + (plain.none_height - least) * i / 3;
		ck_assert_ok(plan(p, STRATEGY_AUTO, budget, UINT64_MAX / 2, &r, &offload));
		check_plan(p, budget, UINT64_MAX / 2, &r, &offload);
		ck_assert_uint_eq(r.time_ns, r.base_time_ns);
		ck_assert_uint_eq(r.expansion.recomputed, 0);
	}
	ck_assert_int_eq(plan(p, STRATEGY_AUTO, least - 64, UINT64_MAX / 2, &r, &offload), TARN_EBUDGET);
	ck_assert_uint_eq(offload.min_budget, least);
}
END_TEST

/* Copies that take for ever are not made where recomputation does. */
START_TEST(slow_copies_are_left_alone)
{
	const struct problem *p = network(_i);
	struct planner_request request = { .problem = p, .strategy = STRATEGY_AUTO, .budget = UINT64_MAX };
	struct planner_result plain, r;
	struct offload_result offload;
	ck_assert_ok(planner_run(&request, &arena, &plain));
	request.budget = plain.min_budget;
	ck_assert_ok(planner_run(&request, &arena, &plain));
	ck_assert_ok(plan(p, STRATEGY_AUTO, request.budget, 1, &r, &offload));
	ck_assert_uint_eq(offload.transfers, 0);
	ck_assert_uint_eq(r.time_ns, plain.time_ns);
}
END_TEST

/* A fixed strategy keeps its own schedule and only adds copies. */
START_TEST(a_fixed_strategy_recomputes_what_it_did)
{
	const struct problem *p = network(0);
	struct planner_result own, r;
	struct offload_result offload;
	const uint32_t strategy[] = { STRATEGY_NONE, STRATEGY_SQRT };
	ck_assert_ok(plan(p, strategy[_i], UINT64_MAX, 1 << 30, &own, &offload));
	ck_assert_uint_eq(offload.transfers, 0);
	ck_assert_ok(plan(p, strategy[_i], own.height / 2, 1 << 30, &r, &offload));
	check_plan(p, own.height / 2, 1 << 30, &r, &offload);
	ck_assert_uint_gt(offload.transfers, 0);
	ck_assert_uint_eq(r.expansion.recomputed, own.expansion.recomputed);
}
END_TEST

START_TEST(the_host_limit_holds)
{
	const struct problem *p = network(1);
	struct planner_request request = { .problem = p, .strategy = STRATEGY_AUTO, .budget = UINT64_MAX };
	struct offload_options options = { .bandwidth = (uint64_t)1 << 40 };
	struct planner_result r;
	struct offload_result offload;
	ck_assert_ok(planner_run(&request, &arena, &r));
	uint64_t largest = 0, unlimited;
	request.budget = (r.min_budget + r.none_height) / 2;
	options.host_limit = UINT64_MAX;
	ck_assert_ok(offload_run(&request, &options, &arena, &r, &offload));
	unlimited = offload.host_bytes;
	ck_assert_uint_gt(unlimited, 0);
	for (uint64_t i = 0; i < 4; i++) {
		options.host_limit = unlimited * i / 4;
		ck_assert_ok(offload_run(&request, &options, &arena, &r, &offload));
		ck_assert_uint_le(offload.host_bytes, options.host_limit);
		largest = offload.host_bytes > largest ? offload.host_bytes : largest;
	}
	ck_assert_uint_gt(largest, 0);
}
END_TEST

/* ---- a search over all schedules with the ops in their order and a few more steps
 * ------------------------------------ */

#define EXTRA 4u

struct explorer {
	struct streams streams;
	uint32_t step[64], steps;
	uint64_t limit, best;
};

static bool was_in(const struct explorer *e, uint32_t op)
{
	for (uint32_t s = 0; s < e->steps; s++)
		if (e->step[s] == op)
			return true;
	return false;
}

static bool is_read_from(const struct problem *p, uint32_t value, uint32_t next)
{
	for (uint32_t o = next; o < p->ops; o++)
		for (uint32_t i = 0; i < p->op[o].inputs; i++)
			if (problem_inputs(p, o)[i] == value)
				return true;
	return false;
}

static void explore(struct explorer *e, uint32_t next, uint32_t extra, uint64_t compute)
{
	const struct problem *p = e->streams.problem;
	if (compute >= e->best)
		return;
	if (next == p->ops && streams_measure(&e->streams, e->step, e->steps, NULL, NULL) &&
	    e->streams.peak_bytes <= e->limit && e->streams.time_ns < e->best)
		e->best = e->streams.time_ns;
	if (next < p->ops) {
		e->step[e->steps++] = next;
		explore(e, next + 1, extra, compute + p->op[next].cost_ns);
		e->steps--;
	}
	for (uint32_t o = 0; extra && next < p->ops && o < e->streams.joint.ops; o++) {
		bool run = is_run(&e->streams, o);
		uint32_t v = run ? p->op[o].outputs ? problem_outputs(p, o)[0] : 0 : copied_value(&e->streams, o);
		if (!is_read_from(p, v, next) && !run)
			continue;
		bool sensible = run                        ? o < next && !p->op[o].once
				: is_fetch(&e->streams, o) ? was_in(e, store_op(&e->streams, v))
							   : p->value[v].producer < next && !was_in(e, o);
		if (!sensible || (e->steps && e->step[e->steps - 1] == o))
			continue;
		e->step[e->steps++] = o;
		explore(e, next, extra - 1, compute + (run ? p->op[o].cost_ns : 0));
		e->steps--;
	}
}

#define LAYERS 4u

/* A chain: forward op i makes activation i from the one before; backward ops read gradient and activation. */
static struct problem *stash_problem(struct testing_random *random)
{
	struct problem *p = HOST_NEW(&arena, struct problem);
	p->value = HOST_ARRAY(&arena, 2 * LAYERS, struct problem_value);
	p->op = HOST_ARRAY(&arena, 2 * LAYERS, struct problem_op);
	p->operand = HOST_ARRAY(&arena, 6 * LAYERS, uint32_t);
	for (uint32_t o = 0; o < 2 * LAYERS; o++) {
		bool forward = o < LAYERS;
		struct problem_op *op = &p->op[p->ops++];
		*op = (struct problem_op){ .cost_ns = testing_between(random, 10, 40),
					   .first_input = p->operands,
					   .required = o == 2 * LAYERS - 1,
					   .forward = forward };
		if (o && o != LAYERS)
			p->operand[p->operands + op->inputs++] = o - 1;
		if (!forward)
			p->operand[p->operands + op->inputs++] = 2 * LAYERS - 1 - o;
		p->operands += op->inputs;
		op->first_output = p->operands;
		op->outputs = 1;
		p->operand[p->operands++] = o;
		p->value[p->values++] =
			(struct problem_value){ .bytes = forward ? testing_between(random, 8, 32) * TARN_ALIGNMENT
								 : TARN_ALIGNMENT,
						.producer = o };
	}
	ck_assert_ok(problem_check(p));
	return p;
}

START_TEST(close_to_the_best_of_all_schedules)
{
	struct testing_random random = { (uint64_t)_i + 500 };
	const struct problem *p = stash_problem(&random);
	uint64_t bytes = 0, compute = 0, gaps = 0, sum = 0;
	for (uint32_t v = 0; v < p->values; v++)
		bytes += p->value[v].bytes;
	for (uint32_t o = 0; o < p->ops; o++)
		compute += p->op[o].cost_ns;
	uint64_t bandwidth = bytes * 1000000000u / compute * testing_between(&random, 1, 4) / 2 + 1;
	struct planner_request request = { .problem = p, .strategy = STRATEGY_AUTO, .budget = UINT64_MAX };
	request.sum_of_bytes = true;
	struct offload_options options = { .bandwidth = bandwidth, .host_limit = UINT64_MAX };
	struct planner_result r;
	struct offload_result offload;
	struct explorer e = { .steps = 0 };
	ck_assert_ok(streams_init(&e.streams, p, bandwidth, 64, &arena));
	ck_assert_ok(planner_run(&request, &arena, &r));
	uint64_t high = r.none_height, low = r.least_bound;
	for (uint64_t i = 0; i < 5; i++) {
		request.budget = e.limit = low + (high - low) * i / 5;
		e.best = UINT64_MAX;
		explore(&e, 0, EXTRA, 0);
		if (e.best == UINT64_MAX)
			continue;
		ck_assert_msg(offload_run(&request, &options, &arena, &r, &offload) == TARN_OK,
			      "seed %d, budget %llu of %llu: refused, a schedule takes %llu", _i,
			      (unsigned long long)request.budget, (unsigned long long)high, (unsigned long long)e.best);
		ck_assert_uint_eq(model_time(p, bandwidth, &r, &offload), r.time_ns);
		gaps++;
		sum += r.time_ns > e.best ? 1000 * (r.time_ns - e.best) / e.best : 0;
	}
	ck_assert_msg(!gaps || sum / gaps <= 60, "seed %d: %llu per mille above the best on average", _i,
		      (unsigned long long)(sum / gaps));
}
END_TEST

/* ---- drivers ----------------------------------------------------------------------------------------------------- */

START_TEST(drivers_copy_there_and_back)
{
	const struct driver_ops *ops = driver_table[_i];
	struct device device = { .ops = ops, .host = &arena };
	struct device_options options = { .threads = 1 };
	uint8_t out[1000], in[1000];
	/* A GPU's copies are tested where there is one, or a simulated one: test_cuda_driver. */
	if (ops->probe())
		return;
	ck_assert_ok(ops->open(&device, &options));
	ck_assert_uint_gt(ops->copy_bandwidth(&device), 0);
	ck_assert_ok(ops->reserve(&device, 4096, NULL));
	ck_assert_fails(ops->store(&device, 0, 0, 64, 0), TARN_EINTERNAL, "host region");
	ck_assert_ok(ops->reserve_host(&device, 2048));
	ck_assert_fails(ops->reserve_host(&device, 2048), TARN_EINTERNAL, "once");
	for (uint32_t i = 0; i < sizeof out; i++)
		out[i] = (uint8_t)(i * 7);
	ck_assert_ok(ops->write(&device, 128, out, sizeof out));
	ck_assert_ok(ops->store(&device, 128, 1024, sizeof out, 3));
	ck_assert_fails(ops->store(&device, 128, 0, sizeof out, 3), TARN_EINTERNAL, "in flight");
	ck_assert_ok(ops->wait(&device, 3));
	ck_assert_fails(ops->wait(&device, 3), TARN_EINTERNAL, "no copy");
	ck_assert_ok(ops->poison(&device, 128, sizeof out));
	ck_assert_ok(ops->fetch(&device, 2048, 1024, sizeof out, 63));
	ck_assert_ok(ops->wait(&device, 63));
	ck_assert_ok(ops->read(&device, 2048, in, sizeof in));
	if (strcmp(ops->name, "null") != 0)
		ck_assert_mem_eq(in, out, sizeof in);
	ck_assert_fails(ops->fetch(&device, 4096 - 64, 0, 128, 0), TARN_EINTERNAL, "outside");
	ck_assert_fails(ops->fetch(&device, 0, 2048 - 64, 128, 0), TARN_EINTERNAL, "outside");
	ck_assert_fails(ops->fetch(&device, 0, UINT64_MAX - 64, 128, 0), TARN_EINTERNAL, "outside");
	ck_assert_fails(ops->store(&device, 0, 0, 128, DRIVER_COPY_SLOTS), TARN_EINTERNAL, "too high");
	ops->close(&device);
}
END_TEST

/* ---- whole runs ----------------------------------------------------------------------------------------------------
 */

#define NETWORK(name, shape, model)                                                                   \
	"name: " name "\ndata: {type: hash, shape: " shape ", classes: 10, batch: 16, samples: 32}\n" \
	"network: {init: hash}\nmodel: " model "\noptimizer: {type: momentum, learning_rate: 0.01}\n"

static const struct run_case {
	const char *name, *text;
} runs[] = {
	{ "resnet-8", NETWORK("resnet8", "[16, 16, 3]", "{family: resnet, depth: 8}") },
	{ "residual", training_residual },
	{ "unet", training_unet },
	/* The largest op alone is most of the memory: nothing needs copies. */
	{ "lenet", NETWORK("lenet", "[28, 28, 1]", "{family: lenet}") },
};
#define LENET 3
#define RUNS (sizeof runs / sizeof *runs)
#define FAST_LINK "memory.offload_bandwidth=1 TB"

/* The smallest budget of a refusal. */
static uint64_t smallest_budget(const struct training *training)
{
	struct training_result result;
	struct training tiny = *training;
	tiny.override[0] = "memory.budget=1 B";
	unsigned long long bytes = 0;
	ck_assert_int_eq(training_plan(&tiny, &result), TARN_EBUDGET);
	const char *text = strstr(tarn_error(), "and memory.offload: true is ");
	ck_assert_ptr_nonnull(text);
	ck_assert_int_eq(sscanf(text, "and memory.offload: true is %llu bytes", &bytes), 1);
	return bytes;
}

/* From the smallest budget with offload, below the smallest without, to keep-all: the weights keep their bits. */
START_TEST(runs_give_the_same_weights)
{
	const struct run_case *run = &runs[_i];
	struct training free = { .text = run->text, .override = { "train.threads=2" }, .steps = 4 };
	struct training training = { .text = run->text,
				     .override = { NULL, "memory.offload=true", FAST_LINK, "train.threads=2" },
				     .steps = 4 };
	struct training_result expected, result;
	ck_assert_ok(training_run(&free, &expected));
	uint64_t low = smallest_budget(&training), high = expected.info.arena_bytes, copied = 0;
	ck_assert_uint_le(low, expected.info.min_budget_bytes);
	ck_assert(_i == LENET || low < expected.info.min_budget_bytes);
	for (uint64_t i = 0; i < 4; i++) {
		uint64_t budget = low + (high - low) * i / 4;
		training.override[0] = training_budget(budget);
		training.poison = i % 2;
		ck_assert_ok(training_run(&training, &result));
		ck_assert_uint_le(result.info.arena_bytes, budget);
		ck_assert_uint_le(result.touched_bytes, budget);
		ck_assert_msg(result.hash == expected.hash, "%s, budget %llu: other weights", run->name,
			      (unsigned long long)budget);
		copied += result.info.stored_bytes;
		ck_assert(!result.info.host_bytes == !result.info.fetched_bytes);
	}
	ck_assert(_i == LENET || copied > 0);
}
END_TEST

/* Recomputation and copies in one plan; a strategy of its own with copies. */
START_TEST(strategies_give_the_same_weights)
{
	static const char *const strategy[] = { "none", "sqrt", "min" };
	const struct run_case *run = &runs[_i];
	struct training training = { .text = run->text,
				     .override = { "memory.budget=unlimited", "memory.offload=true",
						   "memory.offload_bandwidth=1 GB", "train.threads=1" },
				     .steps = 4 };
	struct training_result expected, own, result;
	char text[64];
	ck_assert_ok(training_run(&training, &expected));
	for (size_t i = 0; i < sizeof strategy / sizeof *strategy; i++) {
		snprintf(text, sizeof text, "memory.recompute=%s", strategy[i]);
		training.override[0] = "memory.budget=unlimited";
		training.override[4] = text;
		ck_assert_ok(training_plan(&training, &own));
		ck_assert_uint_eq(own.info.host_bytes, 0);
		training.override[0] = training_budget((smallest_budget(&training) + own.info.arena_bytes) / 2);
		ck_assert_ok(training_run(&training, &result));
		ck_assert_uint_gt(result.info.fetched_bytes, 0);
		ck_assert_msg(result.hash == expected.hash, "%s, %s: other weights", run->name, strategy[i]);
	}
}
END_TEST

START_TEST(the_null_driver_runs_copies)
{
	struct training training = { .text = runs[_i].text,
				     .override = { NULL, "memory.offload=true", "device.driver=null" },
				     .steps = 3 };
	struct training_result result;
	training.override[0] = training_budget(smallest_budget(&training));
	ck_assert_ok(training_run(&training, &result));
	ck_assert_uint_gt(result.info.fetched_bytes, 0);
}
END_TEST

START_TEST(off_by_default_and_limited)
{
	struct training training = { .text = training_residual };
	struct training_result result;
	ck_assert_ok(training_plan(&training, &result));
	training.override[0] = training_budget(result.info.min_budget_bytes);
	ck_assert_ok(training_plan(&training, &result));
	ck_assert_uint_eq(result.info.host_bytes, 0);
	training.override[1] = "memory.offload_limit=1 GiB";
	ck_assert_fails(training_plan(&training, &result), TARN_EINVAL, "has no effect with memory.offload: false");
	training.override[2] = "memory.offload=true";
	training.override[1] = "memory.offload_limit=64 B";
	ck_assert_ok(training_plan(&training, &result));
	ck_assert_uint_le(result.info.host_bytes, 64);
	training.override[0] = training_budget(result.info.min_budget_bytes - 4096);
	ck_assert_int_eq(training_plan(&training, &result), TARN_EBUDGET);
}
END_TEST

/* ---- bad plans --------------------------------------------------------------------------------------------------- */

static struct plan bad;

static void make_plan_with_copies(void)
{
	struct training training = { .text = training_residual,
				     .override = { "device.driver=cpu", "train.threads=1" } };
	struct training_result result;
	ck_assert_ok(training_plan(&training, &result));
	const char *override[] = { training_budget(result.info.min_budget_bytes), "memory.offload=true", FAST_LINK,
				   "device.driver=cpu", "train.threads=1" };
	struct config config;
	struct plan_report report;
	ck_assert_ok(
		config_parse(training_residual, strlen(training_residual), "network", override, 5, &arena, &config));
	struct device device = { .ops = driver_find("cpu"), .host = &arena };
	struct device_options options = { .threads = 1, .workspace_cap = config.memory.workspace_cap };
	ck_assert_ok(device.ops->open(&device, &options));
	ck_assert_ok(boot_plan(&config, &device, &arena, &bad, &report));
	device.ops->close(&device);
	ck_assert_uint_gt(bad.host_bytes, 0);
}

/* The first copy of the kind in the first program. */
static struct instruction *first_copy(uint32_t kind)
{
	struct program *program = &bad.program[0];
	for (uint32_t i = 0; i < program->instructions; i++)
		if (program->instruction[i].kind == kind)
			return &program->instruction[i];
	ck_abort_msg("the plan has no %s", instruction_name(kind));
	return NULL;
}

static void remove_instruction(struct instruction *at)
{
	struct program *program = &bad.program[0];
	size_t rest = (size_t)(program->instruction + program->instructions - at) - 1;
	memmove(at, at + 1, rest * sizeof *at);
	program->instructions--;
}

static void expect_refused(const char *text)
{
	ck_assert_fails(verify_plan(&bad, &arena), TARN_EVERIFY, text);
}

static const struct bad_copy {
	uint32_t kind;
	const char *text;
} bad_copies[] = {
	{ INSTRUCTION_STORE, "the tensor does not lie there" },
	{ INSTRUCTION_STORE, "inside the host region" },
	{ INSTRUCTION_STORE, "inside the transient part" },
	{ INSTRUCTION_STORE, "whole transient tensor" },
	{ INSTRUCTION_STORE, "the slot does not exist" },
	{ INSTRUCTION_STORE_WAIT, "no such copy is in flight" },
	{ INSTRUCTION_FETCH, "not lie there in the host region" },
	{ INSTRUCTION_FETCH_WAIT, "no such copy is in flight" },
};

START_TEST(bad_copies_are_refused)
{
	make_plan_with_copies();
	ck_assert_ok(verify_plan(&bad, &arena));
	struct instruction *copy = first_copy(bad_copies[_i].kind);
	switch (_i) {
	case 0:
		copy->offset += TARN_ALIGNMENT;
		break;
	case 1:
		copy->host_offset = bad.host_bytes;
		break;
	case 2:
		copy->offset = 0;
		break;
	case 3:
		copy->bytes -= 4;
		break;
	case 4:
		copy->slot = PLAN_COPY_SLOTS;
		break;
	case 5:
		copy->slot ^= 1;
		break;
	case 6:
		copy->host_offset = copy->host_offset ? copy->host_offset - TARN_ALIGNMENT : TARN_ALIGNMENT;
		break;
	default:
		copy->kind = INSTRUCTION_STORE_WAIT;
	}
	expect_refused(bad_copies[_i].text);
}
END_TEST

/* Without its wait a copy guards its bytes to the end. */
START_TEST(copies_without_a_wait_are_refused)
{
	make_plan_with_copies();
	remove_instruction(first_copy(_i ? INSTRUCTION_FETCH_WAIT : INSTRUCTION_STORE_WAIT));
	expect_refused(_i ? "no whole value lies there" : "not waited for");
}
END_TEST

/* A file with copies comes back as it was; fields that belong to another sort of instruction are not let in. */
START_TEST(files_hold_copies)
{
	struct plan loaded;
	char path[512];
	make_plan_with_copies();
	snprintf(path, sizeof path, "%s/copies.plan", testing_directory());
	ck_assert_ok(plan_save(&bad, path));
	ck_assert_ok(plan_load(path, &arena, &loaded));
	ck_assert_uint_eq(loaded.host_bytes, bad.host_bytes);
	ck_assert_mem_eq(loaded.program[0].instruction, bad.program[0].instruction,
			 bad.program[0].instructions * sizeof *loaded.program[0].instruction);
	ck_assert_ok(verify_plan(&loaded, &arena));
	plan_close(&loaded);
	struct instruction *copy = first_copy(INSTRUCTION_FETCH), good = *copy;
	const struct {
		struct instruction bad;
		const char *text;
	} cases[] = {
		{ { .kind = INSTRUCTION_KINDS }, "kind 5" },
		{ { .kind = INSTRUCTION_FETCH, .op = 1 }, "has no op" },
		{ { .kind = INSTRUCTION_FETCH, .tensor = UINT32_MAX }, "tensor 4294967295" },
		{ { .kind = INSTRUCTION_FETCH, .tensor = good.tensor, .bytes = 1 }, "1 bytes of a tensor" },
		{ { .kind = INSTRUCTION_FETCH,
		    .tensor = good.tensor,
		    .bytes = good.bytes,
		    .host_offset = UINT64_MAX - 63 },
		  "inside the host region" },
		{ { .kind = INSTRUCTION_FETCH, .tensor = good.tensor, .bytes = good.bytes, .offset = UINT64_MAX - 63 },
		  "inside the arena" },
		{ { .kind = INSTRUCTION_FETCH, .tensor = good.tensor, .bytes = good.bytes, .slot = 64 }, "slot 64" },
		{ { .kind = INSTRUCTION_RUN, .slot = 1 }, "copies nothing" },
		{ { .kind = INSTRUCTION_RUN, .reserved = 1 }, "reserved" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		*copy = cases[i].bad;
		ck_assert_ok(plan_save(&bad, path));
		ck_assert_fails(plan_load(path, &arena, &loaded), TARN_EFORMAT, cases[i].text);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("offload");
	TCase *planner = tcase_create("planner"), *oracle = tcase_create("oracle"), *run = tcase_create("runs"),
	      *refused = tcase_create("refused");
	TCase *all[] = { planner, oracle, run, refused };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		tcase_add_checked_fixture(all[i], setup, teardown);
		tcase_set_timeout(all[i], 120);
		suite_add_tcase(suite, all[i]);
	}
	tcase_add_loop_test(planner, random_problems, 0, RANDOM_CASES);
	tcase_add_loop_test(planner, networks, 0, 4);
	tcase_add_loop_test(planner, free_copies_cost_nothing, 0, 4);
	tcase_add_loop_test(planner, slow_copies_are_left_alone, 0, 4);
	tcase_add_loop_test(planner, a_fixed_strategy_recomputes_what_it_did, 0, 2);
	tcase_add_test(planner, the_host_limit_holds);
	tcase_add_loop_test(oracle, close_to_the_best_of_all_schedules, 0, TINY_CASES);
	tcase_add_loop_test(run, drivers_copy_there_and_back, 0, (int)driver_table_count);
	tcase_add_loop_test(run, runs_give_the_same_weights, 0, (int)RUNS);
	tcase_add_loop_test(run, strategies_give_the_same_weights, 0, 2);
	tcase_add_loop_test(run, the_null_driver_runs_copies, 0, LENET);
	tcase_add_test(run, off_by_default_and_limited);
	tcase_add_loop_test(refused, bad_copies_are_refused, 0, (int)(sizeof bad_copies / sizeof *bad_copies));
	tcase_add_loop_test(refused, copies_without_a_wait_are_refused, 0, 2);
	tcase_add_test(refused, files_hold_copies);
	return testing_run(suite);
}
