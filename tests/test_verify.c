/*
 * test_verify.c - the verifier accepts what is right and refuses what does harm.
 *
 * Oracles: the cell replay of mutate.h for whole plans and their mutants; hand-made faults for each sentence.
 */
#include "support/testing.h"

#include "support/mutate.h"
#include "support/sample_plan.h"
#include "verify/verify.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct host_arena arena;
static struct plan plan;

static void setup(void)
{
	host_arena_init(&arena);
	ck_assert_ok(sample_plan(&arena, &plan));
}

static void teardown(void)
{
	host_arena_fini(&arena);
}

static struct program *train(void)
{
	return &plan.program[0];
}

/* Number of the first instruction of the train program that runs the op of that name. */
static uint32_t find_instruction(const char *name)
{
	const struct program *program = train();
	for (uint32_t i = 0; i < program->instructions; i++)
		if (!strcmp(op_name(&program->graph, program->instruction[i].op), name))
			return i;
	ck_abort_msg("no instruction %s", name);
	return 0;
}

static uint64_t *offset_of(const char *name, uint32_t operand)
{
	return train()->operand_offset + train()->instruction[find_instruction(name)].first_operand + operand;
}

static void remove_instruction(uint32_t at)
{
	struct program *program = train();
	program->instructions--;
	memmove(program->instruction + at, program->instruction + at + 1,
		(program->instructions - at) * sizeof *program->instruction);
}

/* Arrays of their own, with room for one more. */
static void insert_instruction(uint32_t at, struct instruction instruction)
{
	struct program *program = train();
	struct instruction *longer = HOST_ARRAY(&arena, program->instructions + 1u, struct instruction);
	memcpy(longer, program->instruction, at * sizeof *longer);
	longer[at] = instruction;
	memcpy(longer + at + 1, program->instruction + at, (program->instructions - at) * sizeof *longer);
	program->instruction = longer;
	program->instructions++;
}

#define ck_assert_refused(text) ck_assert_fails(verify_plan(&plan, &arena), TARN_EVERIFY, text)

/* ---- whole plans ---------------------------------------------------------------------------------------------- */

START_TEST(accepts_a_good_plan_and_gives_memory_back)
{
	struct host_mark before = host_arena_mark(&arena);
	ck_assert_ok(verify_plan(&plan, &arena));
	struct host_mark after = host_arena_mark(&arena);
	ck_assert_ptr_eq(before.head, after.head);
	ck_assert_uint_eq(before.used, after.used);
}
END_TEST

/* Every mutant that changes a value, an effect or a bound is refused. */
START_TEST(no_harmful_mutant_passes)
{
	struct mutate_report report;
	ck_assert_ok(mutate_plan(&plan, (uint64_t)_i + 1, UINT32_MAX, &arena, &report));
	ck_assert_msg(!report.wrong[0], "seed %d: %s", _i + 1, report.wrong);
	ck_assert_uint_gt(report.refused, 1000);
	ck_assert_uint_gt(report.harmless, 20);
	printf("mutants, seed %d: %u tried, %u refused, %u harmless\n", _i + 1, report.mutants, report.refused,
	       report.harmless);
}
END_TEST

/* State of a random schedule: which ops may run next. */
struct walk {
	const struct graph *graph;
	bool made[256], updated[256];
};

static bool may_run(const struct walk *walk, uint32_t op)
{
	const struct op_row *row = op_row(walk->graph->op[op].kind);
	if (row->effect || row->view)
		return false;
	for (uint32_t k = 0; k < walk->graph->op[op].inputs; k++) {
		uint32_t t = op_inputs(walk->graph, op)[k], storage = walk->graph->tensor[t].storage;
		bool persistent = is_persistent(walk->graph->tensor[storage].role);
		if (persistent ? walk->updated[storage] : !walk->made[storage])
			return false;
	}
	return true;
}

static void note_run(struct walk *walk, uint32_t op)
{
	for (uint32_t k = 0; k < walk->graph->op[op].outputs; k++) {
		uint32_t t = op_outputs(walk->graph, op)[k], storage = walk->graph->tensor[t].storage;
		*(storage == t ? &walk->made[t] : &walk->updated[storage]) = true;
	}
}

/* The ops in order, with pure ones run again at random. */
static uint32_t random_sequence(const struct graph *graph, struct testing_random *random, uint32_t *sequence)
{
	struct walk walk = { .graph = graph };
	uint32_t count = 0, order[256], ops = sample_sequence(graph, order);
	ck_assert_uint_lt(graph->tensors, 256);
	for (uint32_t i = 0; i < ops; i++) {
		for (uint32_t extra = testing_between(random, 0, 3); extra; extra--) {
			uint32_t op = testing_between(random, 0, graph->ops - 1);
			if (may_run(&walk, op)) {
				sequence[count++] = op;
				note_run(&walk, op);
			}
		}
		sequence[count++] = order[i];
		note_run(&walk, order[i]);
	}
	return count;
}

/* Recompute what you like: the plan is accepted, its peak is the true one, and it computes the same. */
START_TEST(accepts_any_recomputation_and_finds_its_peak)
{
	struct testing_random random = { (uint64_t)_i + 100 };
	struct replay_result before, after;
	uint32_t sequence[1024];
	ck_assert_ok(mutate_replay(&plan, train(), &arena, &before));
	uint32_t steps = random_sequence(&train()->graph, &random, sequence);
	ck_assert_ok(sample_layout(&plan, train(), sequence, steps, 64 * testing_between(&random, 0, 9), &arena));
	plan.arena_bytes = train()->height_bytes > plan.arena_bytes ? train()->height_bytes : plan.arena_bytes;
	ck_assert_msg(verify_plan(&plan, &arena) == TARN_OK, "seed %d: %s", _i + 100, tarn_error());
	ck_assert_ok(mutate_replay(&plan, train(), &arena, &after));
	ck_assert_msg(after.persistent == before.persistent && after.effects == before.effects, "seed %d", _i + 100);
	ck_assert_msg(after.peak_bytes == train()->peak_bytes, "seed %d", _i + 100);
	if (_i < 4) {
		struct mutate_report report;
		ck_assert_ok(mutate_plan(&plan, (uint64_t)_i, 1500, &arena, &report));
		ck_assert_msg(!report.wrong[0], "seed %d: %s", _i + 100, report.wrong);
	}
}
END_TEST

/* The n-th request for memory fails: a status, and nothing is left behind. */
START_TEST(survives_every_failed_allocation)
{
	for (uint64_t n = 1;; n++) {
		struct host_mark before = host_arena_mark(&arena);
		arena.fail_at = arena.requests + n;
		enum tarn_status st = verify_plan(&plan, &arena);
		arena.fail_at = 0;
		struct host_mark after = host_arena_mark(&arena);
		ck_assert(before.head == after.head && before.used == after.used);
		if (!st)
			break;
		ck_assert_int_eq(st, TARN_ENOMEM);
		ck_assert_uint_lt(n, 200);
	}
}
END_TEST

/* 20,000 instructions in two alternating places, then one read of a place that was overwritten. */
START_TEST(long_programs)
{
	enum { LENGTH = 20000 };
	struct program *program = train();
	plan.programs = 1;
	*program = (struct program){ .kind = PROGRAM_TRAIN, .batch = 4 };
	ck_assert_ok(graph_init(&program->graph, &arena));
	uint32_t slot, metric, x;
	ck_assert_ok(graph_add_persistent(&program->graph, "staging", ROLE_STAGING, DTYPE_F32, (uint32_t[]){ 64 }, 1,
					  &slot));
	ck_assert_ok(
		graph_add_persistent(&program->graph, "metric", ROLE_METRIC, DTYPE_F32, (uint32_t[]){ 1 }, 1, &metric));
	program->graph.scalars = TENSOR_NONE;
	ck_assert_ok(sample_persistents(&arena, &plan));
	ck_assert_ok(graph_add_op(&program->graph, OP_INPUT, PHASE_FORWARD, "x", NULL, &slot, 1, &x));
	uint32_t *sequence = HOST_ARRAY(&arena, LENGTH + 3, uint32_t);
	for (uint32_t i = 0; i < LENGTH; i++) {
		char name[32];
		struct op_attr attr = { .alpha = 0.5f };
		snprintf(name, sizeof name, "scale%u", i);
		ck_assert_ok(graph_add_op(&program->graph, OP_SCALE, PHASE_FORWARD, name, &attr, &x, 1, &x));
	}
	ck_assert_ok(graph_add_op(&program->graph, OP_SUM_SQUARES, PHASE_FORWARD, "sum", NULL, &x, 1, &x));
	ck_assert_ok(graph_add_op(&program->graph, OP_RECORD, PHASE_FORWARD, "record", NULL, (uint32_t[]){ metric, x },
				  2, NULL));
	uint32_t steps = sample_sequence(&program->graph, sequence);
	ck_assert_uint_eq(steps, LENGTH + 3);
	/* Written by hand: place i % 2 for the i-th value. */
	program->instruction = HOST_ARRAY(&arena, steps, struct instruction);
	program->operand_offset = HOST_ARRAY(&arena, 3 * (size_t)steps, uint64_t);
	uint64_t base = plan.persistent_bytes;
	for (uint32_t i = 0; i < steps; i++) {
		program->instruction[i] = (struct instruction){ .op = i, .first_operand = 2 * i };
		program->operand_offset[2 * i] = i ? base + 256 * ((i - 1) % 2) : plan.persistent[0].offset;
		program->operand_offset[2 * i + 1] = base + 256 * (i % 2);
	}
	uint64_t *record = program->operand_offset + 2 * (steps - 1);
	record[1] = record[0];
	record[0] = record[2] = plan.persistent[1].offset;
	program->instructions = steps;
	program->operand_offsets = 2 * steps + 1;
	program->peak_bytes = program->height_bytes = plan.arena_bytes = base + 512;
	program->peak_bound_bytes = base + 256 + TARN_ALIGNMENT; /* the sum; a scale may write where it reads */
	program->cost_ns = HOST_ARRAY(&arena, steps, uint64_t);
	program->cost_ns[7] = 3;
	program->time_ns = program->base_time_ns = program->time_bound_ns = 3;
	ck_assert_ok(verify_plan(&plan, &arena));
	program->operand_offset[2 * 15000] = program->operand_offset[2 * 15000 + 1];
	ck_assert_refused("instruction 15000 (scale14999, scale): input 0, scale14998");
}
END_TEST

/* x (4x32) -> whole -> rows 1 and 2 of it, seen in its memory -> half -> sum of squares; whole is read once more. */
static void plan_with_a_part(void)
{
	static const struct op_attr twice = { .alpha = 2 }, rows = { .begin = 1, .extent = { 2 } };
	struct program *program = train();
	struct graph *graph = &program->graph;
	uint32_t slot, metric, x, whole, part, half, sum[2], both, sequence[8];
	plan.programs = 1;
	*program = (struct program){ .kind = PROGRAM_TRAIN, .batch = 4 };
	ck_assert_ok(graph_init(graph, &arena));
	ck_assert_ok(graph_add_persistent(graph, "staging", ROLE_STAGING, DTYPE_F32, (uint32_t[]){ 4, 32 }, 2, &slot));
	ck_assert_ok(graph_add_persistent(graph, "metric", ROLE_METRIC, DTYPE_F32, (uint32_t[]){ 1 }, 1, &metric));
	graph->scalars = TENSOR_NONE;
	ck_assert_ok(sample_persistents(&arena, &plan));
	ck_assert_ok(graph_add_op(graph, OP_INPUT, PHASE_FORWARD, "x", NULL, &slot, 1, &x));
	ck_assert_ok(graph_add_op(graph, OP_SCALE, PHASE_FORWARD, "whole", &twice, &x, 1, &whole));
	ck_assert_ok(graph_add_op(graph, OP_SLICE_VIEW, PHASE_FORWARD, "part", &rows, &whole, 1, &part));
	ck_assert_ok(graph_add_op(graph, OP_SCALE, PHASE_FORWARD, "half", &twice, &part, 1, &half));
	ck_assert_ok(graph_add_op(graph, OP_SUM_SQUARES, PHASE_FORWARD, "sum", NULL, &half, 1, &sum[0]));
	ck_assert_ok(graph_add_op(graph, OP_SUM_SQUARES, PHASE_FORWARD, "sum_whole", NULL, &whole, 1, &sum[1]));
	ck_assert_ok(graph_add_op(graph, OP_ADD, PHASE_FORWARD, "both", NULL, sum, 2, &both));
	ck_assert_ok(
		graph_add_op(graph, OP_RECORD, PHASE_FORWARD, "record", NULL, (uint32_t[]){ metric, both }, 2, NULL));
	uint32_t steps = sample_sequence(graph, sequence);
	ck_assert_ok(sample_layout(&plan, program, sequence, steps, 0, &arena));
	plan.arena_bytes = program->height_bytes;
}

START_TEST(views_of_a_part)
{
	plan_with_a_part();
	ck_assert_ok(verify_plan(&plan, &arena));
	/* Rows 1 and 2 begin 128 bytes behind the whole. */
	uint64_t *half = offset_of("half", 0), whole = *offset_of("sum_whole", 0);
	ck_assert_uint_eq(*half, whole + 128);
	*half = whole;
	ck_assert_refused("half, scale): input 0, part");
	*half = whole + 192;
	ck_assert_refused("half, scale): input 0, part");
	*half = 0;
	ck_assert_refused("half, scale): input 0, part");
	*half = whole + 128;
	/* Scale may write where it reads, but not over a part of something. */
	uint64_t apart = half[1];
	half[1] = whole + 128;
	ck_assert_refused("it overlaps the input part");
	half[1] = apart;
	ck_assert_ok(verify_plan(&plan, &arena));
	struct op *view = &train()->graph.op[train()->graph.tensor[graph_find(&train()->graph, "part")].producer];
	view->attr.begin = 3;
	ck_assert_refused("does not lie in the storage of whole");
	view->attr.begin = UINT32_MAX;
	ck_assert_refused("does not lie in the storage of whole");
	view->attr.begin = 0;
	ck_assert_refused("half, scale): input 0, part");
	view->attr.begin = 1;
	view->attr.axis = 1;
	ck_assert_refused("does not lie in the storage of whole");
	view->attr.axis = 7;
	ck_assert_refused("does not lie in the storage of whole");
}
END_TEST

/* ---- one fault each ------------------------------------------------------------------------------------------- */

START_TEST(effects_run_once)
{
	uint32_t at = find_instruction("norm/update");
	struct instruction update = train()->instruction[at];
	insert_instruction(at, update);
	ck_assert_refused("the effect running_update runs a second time");
	remove_instruction(at);
	remove_instruction(at);
	ck_assert_refused("the effect norm/update");
}
END_TEST

START_TEST(pure_ops_may_run_again)
{
	uint32_t at = find_instruction("conv");
	insert_instruction(at, train()->instruction[at]);
	train()->time_ns += train()->cost_ns[train()->instruction[at].op];
	train()->recomputed_ops++;
	ck_assert_ok(verify_plan(&plan, &arena));
}
END_TEST

/* dflat reads the weights that the update replaces. */
START_TEST(old_versions_are_not_read_after_the_update)
{
	uint32_t update = find_instruction("hidden/weight/update"), reader = find_instruction("dflat");
	ck_assert_uint_lt(reader, update);
	struct instruction moved = train()->instruction[update];
	remove_instruction(update);
	insert_instruction(reader, moved);
	ck_assert_refused("hidden/weight, at");
	ck_assert_refused("its old version is gone");
}
END_TEST

START_TEST(persistent_memory_is_written_by_updates_only)
{
	*offset_of("conv", 2) = plan.persistent[0].offset;
	ck_assert_refused("it would overwrite persistent memory");
}
END_TEST

START_TEST(versions_are_written_in_place)
{
	*offset_of("hidden/weight/update", 3) += TARN_ALIGNMENT;
	ck_assert_refused("a new version must be written where the old one lives");
}
END_TEST

START_TEST(in_place_only_where_the_table_allows)
{
	/* dropout may overwrite its input; a matrix product may not, and neither may a wrong place. */
	uint64_t *drop = offset_of("drop", 0);
	ck_assert_uint_eq(drop[0], drop[2]);
	uint64_t *dense = offset_of("dense", 0);
	dense[3] = dense[0];
	ck_assert_refused("it overlaps the input flat");
	ck_assert_ok(sample_plan(&arena, &plan));
	/* Sizes are equal here, and still a convolution cannot write over what it reads. */
	uint64_t *mix = offset_of("mix", 0);
	mix[2] = mix[0];
	ck_assert_refused("it overlaps the input norm");
}
END_TEST

START_TEST(outputs_do_not_overlap_one_another)
{
	uint64_t *stats = offset_of("norm/stats", 0);
	stats[2] = stats[1];
	ck_assert_refused("it overlaps the output norm/stats");
}
END_TEST

START_TEST(partly_overwritten_values_are_gone)
{
	/* The mix convolution writes half over its own input, which the addition reads later. */
	uint32_t mix = find_instruction("mix");
	struct instruction *instruction = &train()->instruction[mix];
	instruction->workspace_offset = *offset_of("sum", 1) + 64;
	ck_assert_refused("workspace");
	ck_assert_ok(sample_plan(&arena, &plan));
	/* Another op in between damages it: its workspace lies there. */
	uint32_t stats = find_instruction("norm/stats");
	train()->instruction[stats].workspace_offset = *offset_of("norm", 0) + 128;
	train()->instruction[stats].workspace_bytes = 64;
	ck_assert_refused("it overlaps an operand");
	train()->instruction[stats] =
		(struct instruction){ .op = train()->instruction[stats].op,
				      .first_operand = train()->instruction[stats].first_operand };
	train()->instruction[find_instruction("norm/update")].workspace_offset = *offset_of("norm", 0) + 128;
	train()->instruction[find_instruction("norm/update")].workspace_bytes = 64;
	ck_assert_refused("no whole value lies there");
}
END_TEST

START_TEST(bounds)
{
	plan.budget_bytes = plan.arena_bytes;
	ck_assert_ok(verify_plan(&plan, &arena));
	plan.budget_bytes--;
	ck_assert_refused("the budget is");
	plan.budget_bytes = UINT64_MAX;
	plan.arena_bytes -= TARN_ALIGNMENT;
	ck_assert_refused("height");
	plan.arena_bytes += TARN_ALIGNMENT;
	train()->peak_bytes -= TARN_ALIGNMENT;
	ck_assert_refused("the plan says");
	train()->peak_bytes += TARN_ALIGNMENT;
	train()->operand_offset[train()->instruction[5].first_operand] = UINT64_MAX - 63;
	ck_assert_fails(verify_plan(&plan, &arena), TARN_EVERIFY, "instruction 5");
}
END_TEST

/* Every number of the certificate is recomputed. */
START_TEST(certificates)
{
	struct program *program = train();
	ck_assert_uint_gt(program->recomputed_ops, 0);
	program->time_ns -= 1000;
	ck_assert_refused("the instructions take");
	program->time_ns += 1000;
	program->base_time_ns++;
	ck_assert_refused("each op once");
	program->base_time_ns--;
	program->cost_ns[program->instruction[3].op]++;
	ck_assert_refused("the instructions take");
	program->cost_ns[program->instruction[3].op] = UINT64_MAX;
	ck_assert_refused("the instructions take");
	program->cost_ns[program->instruction[3].op] = 1000;
	program->recomputed_ops--;
	ck_assert_refused("run an op again");
	program->recomputed_ops++;
	program->peak_bound_bytes += TARN_ALIGNMENT;
	ck_assert_refused("the largest op needs");
	program->peak_bound_bytes -= TARN_ALIGNMENT;
	program->time_bound_ns = program->time_ns;
	ck_assert_refused("no schedule is proved to take more");
	program->time_bound_ns = program->base_time_ns - 1000;
	ck_assert_refused("no schedule is proved to take more");
	program->time_bound_ns = program->base_time_ns;
	ck_assert_ok(verify_plan(&plan, &arena));
}
END_TEST

static uint32_t op_that_makes(const char *tensor)
{
	return train()->graph.tensor[graph_find(&train()->graph, tensor)].producer;
}

static void set_proof(struct proof_term *term, uint32_t terms)
{
	train()->proof = term;
	train()->proof_terms = terms;
}

/* One inequality that does not hold for this graph, or is none. */
START_TEST(proofs_of_what_is_not_so)
{
	uint32_t conv = op_that_makes("conv"), mix = op_that_makes("mix"), sum = op_that_makes("sum"),
		 flat = op_that_makes("flat");
	struct proof_term term[3] = { { .kind = PROOF_CUT, .op = conv }, { .kind = PROOF_CUT, .cut = 1, .op = mix } };
	const struct {
		struct proof_term term;
		const char *why;
	} wrong[] = {
		{ { .weight = -1, .kind = PROOF_ONCE, .op = conv }, "a weight is a number" },
		{ { .weight = NAN, .kind = PROOF_ONCE, .op = conv }, "a weight is a number" },
		{ { .weight = INFINITY, .kind = PROOF_FITS, .cut = 1 }, "a weight is a number" },
		{ { .weight = 1, .kind = PROOF_KINDS, .op = conv }, "no such kind" },
		{ { .weight = 1, .kind = PROOF_THERE, .cut = 2, .op = conv }, "no such op or cut" },
		{ { .weight = 1, .kind = PROOF_FITS, .cut = 2 }, "no such op or cut" },
		{ { .weight = 1, .kind = PROOF_READ, .cut = 3, .op = conv, .other = mix }, "no such op or cut" },
		{ { .weight = 1, .kind = PROOF_ONCE, .op = UINT32_MAX }, "no such op or cut" },
		{ { .weight = 1, .kind = PROOF_READ, .cut = 1, .op = conv, .other = sum }, "reads nothing" },
		{ { .weight = 1, .kind = PROOF_INPUT, .cut = 1, .op = sum }, "the cut reads nothing" },
		{ { .weight = 1, .kind = PROOF_ONCE, .op = flat }, "no effect needs the op" },
		{ { .weight = 1, .kind = PROOF_CUT, .cut = 1, .op = sum }, "cuts" },
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		term[2] = wrong[i].term;
		set_proof(term, 3);
		ck_assert_msg(verify_plan(&plan, &arena) == TARN_EVERIFY, "case %zu is accepted", i);
		ck_assert_msg(strstr(tarn_error(), wrong[i].why) != NULL, "case %zu: %s", i, tarn_error());
	}
	struct proof_term swapped[] = { { .kind = PROOF_CUT, .op = mix }, { .kind = PROOF_CUT, .cut = 1, .op = conv } };
	set_proof(swapped, 2);
	ck_assert_refused("cuts do not stand in the order of ops");
	/* x and the labels are made by inputs that need nothing: neither needs the other. */
	struct proof_term apart[] = { { .kind = PROOF_CUT, .op = op_that_makes("input") },
				      { .kind = PROOF_CUT, .cut = 1, .op = op_that_makes("target") } };
	set_proof(apart, 2);
	ck_assert_refused("does not need the cut before");
}
END_TEST

/* The last batch may use a prefix of a staging slot, and of nothing else. */
START_TEST(programs_share_the_persistent_table)
{
	ck_assert_uint_lt(plan.program[1].graph.tensor[graph_find(&plan.program[1].graph, "staging/input")].bytes,
			  plan.persistent[1].bytes);
	plan.persistent[1].bytes -= TARN_ALIGNMENT;
	ck_assert_refused("the persistent table gives it");
	plan.persistent[1].bytes += 2 * TARN_ALIGNMENT;
	ck_assert_fails(verify_plan(&plan, &arena), TARN_EVERIFY, "staging/input");
	plan.persistent[1].bytes -= TARN_ALIGNMENT;
	plan.persistent[2].offset = plan.persistent[3].offset;
	ck_assert_refused("share bytes");
	plan.persistent[2].offset = plan.persistent_bytes;
	ck_assert_refused("not inside the first");
	ck_assert_ok(sample_plan(&arena, &plan));
	plan.persistents--;
	ck_assert_refused("is not in the persistent table");
	plan.persistents++;
	struct graph *other = &plan.program[2].graph;
	struct tensor *weight = &other->tensor[graph_find(other, "logits/weight")];
	weight->dim[0] = weight->dim[1];
	ck_assert_refused("logits/weight is 24x24, program train has it as 5x24");
	weight->dim[0] = 5;
	plan.program[2].kind = PROGRAM_TRAIN;
	ck_assert_refused("there twice");
}
END_TEST

/* Ids of a graph are not believed. */
START_TEST(graphs_with_wrong_links)
{
	struct graph *graph = &train()->graph;
	uint32_t t = graph_find(graph, "conv"), storage = graph->tensor[t].storage;
	graph->tensor[t].storage = storage + 1;
	ck_assert_refused("must have memory of its own");
	graph->tensor[t].storage = storage;
	graph->tensor[t].producer++;
	ck_assert_refused("producer");
	graph->tensor[t].producer--;
	/* The weight's update as an input of another op. */
	uint32_t mix = graph->tensor[graph_find(graph, "dmix")].producer;
	uint32_t version = graph_find(graph, "version of hidden/weight");
	ck_assert_uint_ne(version, TENSOR_NONE);
	uint32_t *input = graph->operand + graph->op[mix].first_operand, before = *input;
	*input = version;
	ck_assert_refused("only an average may read it");
	*input = graph->tensors;
	ck_assert_refused("reads tensor");
	*input = graph_find(graph, "staging/input");
	ck_assert_refused("only an input op may");
	*input = graph_find(graph, "dconv");
	ck_assert_refused("which no op before it makes");
	*input = before;
	ck_assert_ok(verify_plan(&plan, &arena));
}
END_TEST

START_TEST(instructions_with_wrong_numbers)
{
	struct instruction *instruction = &train()->instruction[2], before = *instruction;
	instruction->op = train()->graph.ops;
	ck_assert_refused("instruction 2: op");
	instruction->op = train()->graph.tensor[graph_find(&train()->graph, "flat")].producer;
	ck_assert_refused("is a view and never runs");
	*instruction = before;
	instruction->first_operand = train()->operand_offsets - 1;
	ck_assert_refused("its offsets begin at");
	*instruction = before;
	instruction->first_operand = UINT32_MAX;
	ck_assert_refused("its offsets begin at");
	*instruction = before;
	instruction->workspace_bytes = UINT64_MAX;
	ck_assert_refused("workspace");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("verify");
	TCase *tcase = tcase_create("verify");
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, accepts_a_good_plan_and_gives_memory_back);
	tcase_add_test(tcase, views_of_a_part);
	tcase_add_loop_test(tcase, no_harmful_mutant_passes, 0, 3);
	tcase_add_loop_test(tcase, accepts_any_recomputation_and_finds_its_peak, 0, 40);
	tcase_add_test(tcase, survives_every_failed_allocation);
	tcase_add_test(tcase, long_programs);
	tcase_add_test(tcase, effects_run_once);
	tcase_add_test(tcase, pure_ops_may_run_again);
	tcase_add_test(tcase, old_versions_are_not_read_after_the_update);
	tcase_add_test(tcase, persistent_memory_is_written_by_updates_only);
	tcase_add_test(tcase, versions_are_written_in_place);
	tcase_add_test(tcase, in_place_only_where_the_table_allows);
	tcase_add_test(tcase, outputs_do_not_overlap_one_another);
	tcase_add_test(tcase, partly_overwritten_values_are_gone);
	tcase_add_test(tcase, bounds);
	tcase_add_test(tcase, certificates);
	tcase_add_test(tcase, proofs_of_what_is_not_so);
	tcase_add_test(tcase, programs_share_the_persistent_table);
	tcase_add_test(tcase, graphs_with_wrong_links);
	tcase_add_test(tcase, instructions_with_wrong_numbers);
	suite_add_tcase(suite, tcase);
	return testing_run(suite);
}
