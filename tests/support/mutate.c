/* mutate.c - see mutate.h; the mutations and the verdict. */
#include "support/mutate.h"

#include "support/testing.h"
#include "verify/verify.h"

#include <stdio.h>
#include <string.h>

enum mutation {
	/* of an instruction */
	SWAP_WITH_NEXT,
	DROP,
	REPEAT,
	MOVE_ELSEWHERE,
	RUN_ANOTHER_OP,
	WORKSPACE_UP,
	WORKSPACE_DOWN,
	WORKSPACE_TO_PERSISTENT,
	WORKSPACE_TO_OTHER,
	WORKSPACE_LARGER,
	WORKSPACE_SMALLER,
	WORKSPACE_HUGE,
	WORKSPACE_NONE,
	INSTRUCTION_MUTATIONS,
	/* of one operand of an instruction */
	OPERAND_UP = INSTRUCTION_MUTATIONS,
	OPERAND_DOWN,
	OPERAND_MISALIGNED,
	OPERAND_EXCHANGE,
	OPERAND_TO_OTHER,
	OPERAND_TO_PERSISTENT,
	OPERAND_TO_END,
	OPERAND_HUGE,
	MUTATIONS
};

static const char *const mutation_name[MUTATIONS] = {
	"swap with next",
	"drop",
	"repeat",
	"move elsewhere",
	"run another op",
	"workspace +64",
	"workspace -64",
	"workspace to persistent memory",
	"workspace to another operand",
	"workspace 64 larger",
	"workspace 64 smaller",
	"workspace huge",
	"workspace none",
	"operand +64",
	"operand -64",
	"operand misaligned",
	"operand exchanged with the next",
	"operand to another one's place",
	"operand to persistent memory",
	"operand to the end of the arena",
	"operand huge",
};

enum plan_mutation {
	ARENA_SMALLER,
	BUDGET_SMALLER,
	PERSISTENT_LARGER,
	PERSISTENT_SMALLER,
	ENTRY_UP,
	ENTRY_DOWN,
	ENTRY_EXCHANGE,
	ENTRY_SMALLER,
	ENTRY_LARGER,
	PEAK_UP,
	PEAK_DOWN,
	HEIGHT_UP,
	HEIGHT_DOWN,
	TIME_UP,
	TIME_DOWN,
	BASE_TIME_UP,
	BASE_TIME_DOWN,
	RECOMPUTED_UP,
	RECOMPUTED_DOWN,
	TIME_BOUND_UP,
	TIME_BOUND_DOWN,
	TIME_BOUND_TO_TIME,
	TIME_BOUND_BEYOND_TIME,
	PEAK_BOUND_UP,
	PEAK_BOUND_DOWN,
	COST_UP,
	COST_HUGE,
	PROOF_DROPPED,
	PROOF_SCALED,
	PLAN_MUTATIONS
};

#define PROOF_MUTATIONS 120u

struct bench {
	const struct plan *original;
	struct plan mutant; /* a copy whose arrays may be written */
	struct replay_result expected[PLAN_MAX_PROGRAMS];
	uint64_t quickest[PLAN_MAX_PROGRAMS]; /* the time of a schedule within the budget: the plan's own */
	struct testing_random random;
	uint64_t keep_one_in; /* of how many mutations one is tried */
	struct host_arena *scratch;
	struct mutate_report *report;
};

/* Fresh copies of everything that a mutation writes to; one more instruction fits. */
static enum tarn_status copy_plan(struct bench *b)
{
	b->mutant = *b->original;
	b->mutant.persistent = HOST_ARRAY(b->scratch, b->original->persistents, struct persistent);
	if (!b->mutant.persistent)
		return TARN_ENOMEM;
	memcpy(b->mutant.persistent, b->original->persistent, b->original->persistents * sizeof *b->mutant.persistent);
	for (uint32_t p = 0; p < b->mutant.programs; p++) {
		struct program *to = &b->mutant.program[p];
		const struct program *from = &b->original->program[p];
		to->instruction = HOST_ARRAY(b->scratch, (size_t)from->instructions + 1, struct instruction);
		to->operand_offset = HOST_ARRAY(b->scratch, from->operand_offsets, uint64_t);
		to->cost_ns = HOST_ARRAY(b->scratch, from->graph.ops, uint64_t);
		to->proof = HOST_ARRAY(b->scratch, (size_t)from->proof_terms + 1, struct proof_term);
		if (!to->instruction || !to->operand_offset || !to->cost_ns || !to->proof)
			return TARN_ENOMEM;
		memcpy(to->cost_ns, from->cost_ns, from->graph.ops * sizeof *to->cost_ns);
		if (from->proof_terms)
			memcpy(to->proof, from->proof, from->proof_terms * sizeof *to->proof);
		memcpy(to->instruction, from->instruction, from->instructions * sizeof *to->instruction);
		memcpy(to->operand_offset, from->operand_offset, from->operand_offsets * sizeof *to->operand_offset);
	}
	return TARN_OK;
}

/* What is wrong with the times that a program states; NULL: nothing. */
static const char *find_wrong_time(const struct bench *b, uint32_t p)
{
	const struct program *program = &b->mutant.program[p];
	uint64_t time = 0, once = 0;
	uint32_t again = 0;
	for (uint32_t i = 0; i < program->instructions; i++) {
		uint32_t op = program->instruction[i].op, k = 0;
		while (program->instruction[k].op != op)
			k++;
		time += program->cost_ns[op];
		once += k == i ? program->cost_ns[op] : 0;
		again += k < i;
	}
	if (time != program->time_ns || once != program->base_time_ns)
		return "the stated times are wrong";
	if (again != program->recomputed_ops)
		return "the stated number of recomputed ops is wrong";
	if (program->time_bound_ns > b->quickest[p])
		return "the plan takes less time than is stated to be possible";
	if (program->peak_bound_bytes > program->peak_bytes)
		return "the plan needs less memory than is stated to be possible";
	return NULL;
}

/* NULL when the mutant does what the original does and states true numbers; else what is wrong. */
static const char *find_harm(struct bench *b)
{
	const struct plan *plan = &b->mutant;
	if (plan->arena_bytes > plan->budget_bytes)
		return "the arena is larger than the budget";
	for (uint32_t p = 0; p < plan->programs; p++) {
		const struct program *program = &plan->program[p];
		struct replay_result got;
		if (mutate_replay(plan, program, b->scratch, &got))
			return "no memory";
		if (!got.in_bounds)
			return "outside the arena";
		if (got.persistent != b->expected[p].persistent)
			return "persistent tensors end with other contents";
		if (got.effects != b->expected[p].effects)
			return "effects see other values";
		if (got.peak_bytes != program->peak_bytes)
			return "the stated peak is wrong";
		if (got.height_bytes != program->height_bytes || got.height_bytes > plan->arena_bytes)
			return "the stated height is wrong";
		const char *wrong = find_wrong_time(b, p);
		if (wrong)
			return wrong;
	}
	return NULL;
}

static void judge(struct bench *b, const char *what, uint32_t program, uint32_t instruction, uint32_t operand)
{
	b->report->mutants++;
	enum tarn_status st = verify_plan(&b->mutant, b->scratch);
	if (st == TARN_EVERIFY) {
		b->report->refused++;
		return;
	}
	const char *harm = st ? "the verifier gave another status" : find_harm(b);
	if (!harm)
		b->report->harmless++;
	else if (!b->report->wrong[0])
		snprintf(b->report->wrong, sizeof b->report->wrong,
			 "%s: program %s, instruction %u, operand %u was accepted, but %s (status %d %s)", what,
			 program_name(b->mutant.program[program].kind), instruction, operand, harm, (int)st,
			 st ? tarn_error() : "");
}

static void insert_instruction(struct program *program, uint32_t at, struct instruction instruction)
{
	memmove(program->instruction + at + 1, program->instruction + at,
		(program->instructions - at) * sizeof instruction);
	program->instruction[at] = instruction;
	program->instructions++;
}

static struct instruction remove_instruction(struct program *program, uint32_t at)
{
	struct instruction removed = program->instruction[at];
	program->instructions--;
	memmove(program->instruction + at, program->instruction + at + 1,
		(program->instructions - at) * sizeof removed);
	return removed;
}

static uint64_t some_offset(struct bench *b, const struct program *program)
{
	return program->operand_offset[testing_bits(&b->random) % program->operand_offsets];
}

/* False when the mutation changes nothing here. */
static bool mutate_instruction(struct bench *b, struct program *program, enum mutation mutation, uint32_t i)
{
	struct instruction *instruction = &program->instruction[i], before = *instruction;
	switch (mutation) {
	case SWAP_WITH_NEXT:
		if (i + 1 == program->instructions)
			return false;
		insert_instruction(program, i, remove_instruction(program, i + 1));
		return true;
	case DROP:
		remove_instruction(program, i);
		return true;
	case REPEAT:
		insert_instruction(program, i, before);
		return true;
	case MOVE_ELSEWHERE:
		remove_instruction(program, i);
		insert_instruction(program, (uint32_t)(testing_bits(&b->random) % (program->instructions + 1)), before);
		return true;
	case RUN_ANOTHER_OP:
		instruction->op = (uint32_t)(testing_bits(&b->random) % program->graph.ops);
		return instruction->op != before.op;
	case WORKSPACE_UP:
		instruction->workspace_offset += TARN_ALIGNMENT;
		return true;
	case WORKSPACE_DOWN:
		instruction->workspace_offset -= TARN_ALIGNMENT;
		return true;
	case WORKSPACE_TO_PERSISTENT:
		instruction->workspace_offset = 0;
		return before.workspace_offset;
	case WORKSPACE_TO_OTHER:
		instruction->workspace_offset = some_offset(b, program);
		return instruction->workspace_offset != before.workspace_offset;
	case WORKSPACE_LARGER:
		instruction->workspace_bytes += TARN_ALIGNMENT;
		return true;
	case WORKSPACE_SMALLER:
		instruction->workspace_bytes -= TARN_ALIGNMENT;
		return true;
	case WORKSPACE_HUGE:
		instruction->workspace_bytes = UINT64_MAX - testing_between(&b->random, 0, 200);
		return true;
	case WORKSPACE_NONE:
		instruction->workspace_bytes = 0;
		return before.workspace_bytes;
	default:
		return false;
	}
}

static bool mutate_operand(struct bench *b, struct program *program, enum mutation mutation, uint32_t i, uint32_t k)
{
	const struct op *op = &program->graph.op[program->instruction[i].op];
	uint64_t *offset = program->operand_offset + program->instruction[i].first_operand;
	uint64_t before = offset[k];
	switch (mutation) {
	case OPERAND_UP:
		offset[k] += TARN_ALIGNMENT;
		break;
	case OPERAND_DOWN:
		offset[k] -= TARN_ALIGNMENT;
		break;
	case OPERAND_MISALIGNED:
		offset[k] += testing_between(&b->random, 1, TARN_ALIGNMENT - 1);
		break;
	case OPERAND_EXCHANGE:
		if (k + 1 == op->inputs + op->outputs)
			return false;
		offset[k] = offset[k + 1];
		offset[k + 1] = before;
		break;
	case OPERAND_TO_OTHER:
		offset[k] = some_offset(b, program);
		break;
	case OPERAND_TO_PERSISTENT:
		offset[k] = b->mutant.persistent[testing_bits(&b->random) % b->mutant.persistents].offset;
		break;
	case OPERAND_TO_END:
		offset[k] = b->mutant.arena_bytes - testing_between(&b->random, 0, 1) * TARN_ALIGNMENT;
		break;
	case OPERAND_HUGE:
		offset[k] = UINT64_MAX - TARN_ALIGNMENT + 1 - testing_between(&b->random, 0, 2) * TARN_ALIGNMENT;
		break;
	default:
		return false;
	}
	return offset[k] != before;
}

static enum tarn_status try_one(struct bench *b, uint32_t p, enum mutation mutation, uint32_t i, uint32_t k)
{
	if (testing_bits(&b->random) % b->keep_one_in)
		return TARN_OK;
	struct host_mark mark = host_arena_mark(b->scratch);
	enum tarn_status st = copy_plan(b);
	struct program *program = &b->mutant.program[p];
	if (!st && (mutation < INSTRUCTION_MUTATIONS ? mutate_instruction(b, program, mutation, i)
						     : mutate_operand(b, program, mutation, i, k)))
		judge(b, mutation_name[mutation], p, i, k);
	host_arena_release(b->scratch, mark);
	return st;
}

static enum tarn_status mutate_program(struct bench *b, uint32_t p)
{
	const struct program *program = &b->original->program[p];
	enum tarn_status st = TARN_OK;
	for (uint32_t i = 0; i < program->instructions; i++) {
		const struct op *op = &program->graph.op[program->instruction[i].op];
		for (uint32_t m = 0; !st && m < INSTRUCTION_MUTATIONS; m++)
			st = try_one(b, p, (enum mutation)m, i, 0);
		for (uint32_t k = 0; k < op->inputs + op->outputs; k++)
			for (uint32_t m = INSTRUCTION_MUTATIONS; !st && m < MUTATIONS; m++)
				st = try_one(b, p, (enum mutation)m, i, k);
	}
	return st;
}

/* Numbers of a program's certificate. */
static bool mutate_certificate(struct bench *b, enum plan_mutation mutation, struct program *program)
{
	uint32_t op = program->instruction[testing_bits(&b->random) % program->instructions].op;
	switch (mutation) {
	case TIME_UP:
		program->time_ns += 1 + testing_bits(&b->random) % 2000;
		return true;
	case TIME_DOWN:
		program->time_ns -= program->cost_ns[op] + 1;
		return true;
	case BASE_TIME_UP:
		program->base_time_ns += 1 + testing_bits(&b->random) % 2000;
		return true;
	case BASE_TIME_DOWN:
		program->base_time_ns--;
		return true;
	case RECOMPUTED_UP:
		program->recomputed_ops++;
		return true;
	case RECOMPUTED_DOWN:
		program->recomputed_ops--;
		return true;
	case TIME_BOUND_UP:
		program->time_bound_ns += 1 + testing_bits(&b->random) % 2000;
		return true;
	case TIME_BOUND_DOWN:
		program->time_bound_ns -= 1 + testing_bits(&b->random) % 2000;
		return true;
	case TIME_BOUND_TO_TIME:
		program->time_bound_ns = program->time_ns;
		return true;
	case TIME_BOUND_BEYOND_TIME:
		program->time_bound_ns = program->time_ns + 1 + testing_bits(&b->random) % 2000;
		return true;
	case PEAK_BOUND_UP:
		program->peak_bound_bytes += TARN_ALIGNMENT;
		return true;
	case PEAK_BOUND_DOWN:
		program->peak_bound_bytes -= TARN_ALIGNMENT;
		return true;
	case COST_UP:
		program->cost_ns[op]++;
		return true;
	case COST_HUGE:
		program->cost_ns[op] = UINT64_MAX - testing_bits(&b->random) % 10;
		return true;
	case PROOF_DROPPED:
		program->proof_terms /= 2;
		return program->proof_terms;
	case PROOF_SCALED:
		for (uint32_t i = 0; i < program->proof_terms; i++)
			program->proof[i].weight *= 4;
		program->time_bound_ns = program->time_ns + 1;
		return true;
	default:
		return false;
	}
}

/* Mutations of what belongs to no instruction; `n` is an entry of the persistent table or a program. */
static bool mutate_numbers(struct bench *b, enum plan_mutation mutation, uint32_t n)
{
	struct plan *plan = &b->mutant;
	struct persistent *entry = n < plan->persistents ? &plan->persistent[n] : NULL;
	struct program *program = n < plan->programs ? &plan->program[n] : NULL;
	bool of_entry = mutation >= ENTRY_UP && mutation <= ENTRY_LARGER, of_program = mutation >= PEAK_UP;
	if ((of_entry && !entry) || (of_program && !program) || (!of_entry && !of_program && n))
		return false;
	switch (mutation) {
	case ARENA_SMALLER:
		plan->arena_bytes -= TARN_ALIGNMENT;
		return true;
	case BUDGET_SMALLER:
		plan->budget_bytes = plan->arena_bytes - 1;
		return true;
	case PERSISTENT_LARGER:
		plan->persistent_bytes += TARN_ALIGNMENT;
		return true;
	case PERSISTENT_SMALLER:
		plan->persistent_bytes -= TARN_ALIGNMENT;
		return true;
	case ENTRY_UP:
		entry->offset += TARN_ALIGNMENT;
		return true;
	case ENTRY_DOWN:
		entry->offset -= TARN_ALIGNMENT;
		return true;
	case ENTRY_EXCHANGE:
		if (n + 1 == plan->persistents)
			return false;
		uint64_t offset = entry->offset;
		entry[0].offset = entry[1].offset;
		entry[1].offset = offset;
		return true;
	case ENTRY_SMALLER:
		entry->bytes -= 4;
		return true;
	case ENTRY_LARGER:
		entry->bytes += TARN_ALIGNMENT;
		return true;
	case PEAK_UP:
		program->peak_bytes += TARN_ALIGNMENT;
		return true;
	case PEAK_DOWN:
		program->peak_bytes -= TARN_ALIGNMENT;
		return true;
	case HEIGHT_UP:
		program->height_bytes += TARN_ALIGNMENT;
		return true;
	case HEIGHT_DOWN:
		program->height_bytes -= TARN_ALIGNMENT;
		return true;
	default:
		return program && mutate_certificate(b, mutation, program);
	}
}

/* A proof broken in a few places, for more than the plan itself takes: never right. */
static bool mutate_proof(struct bench *b, struct program *program)
{
	if (!program->proof_terms)
		return false;
	for (uint32_t n = testing_between(&b->random, 1, 40); n; n--) {
		struct proof_term *term = &program->proof[testing_bits(&b->random) % program->proof_terms];
		uint32_t op = program->instruction[testing_bits(&b->random) % program->instructions].op;
		switch (testing_between(&b->random, 0, 5)) {
		case 0:
			term->weight *= (float)testing_between(&b->random, 0, 1000);
			break;
		case 1:
			term->kind = (uint16_t)testing_between(&b->random, 0, PROOF_KINDS);
			break;
		case 2:
			term->cut = (uint16_t)testing_between(&b->random, 0, 5);
			break;
		case 3:
			term->op = op;
			break;
		case 4:
			term->other = op;
			break;
		default:
			*term = program->proof[testing_bits(&b->random) % program->proof_terms];
		}
	}
	program->time_bound_ns = program->time_ns + testing_between(&b->random, 1, 3);
	return true;
}

static enum tarn_status mutate_proofs(struct bench *b)
{
	enum tarn_status st = TARN_OK;
	for (uint32_t n = 0; !st && n < PROOF_MUTATIONS; n++) {
		struct host_mark mark = host_arena_mark(b->scratch);
		uint32_t p = n % b->original->programs;
		st = copy_plan(b);
		if (!st && mutate_proof(b, &b->mutant.program[p]))
			judge(b, "a proof", p, n, 0);
		host_arena_release(b->scratch, mark);
	}
	return st;
}

static enum tarn_status mutate_all_numbers(struct bench *b)
{
	enum tarn_status st = TARN_OK;
	uint32_t most = b->original->persistents > PLAN_MAX_PROGRAMS ? b->original->persistents : PLAN_MAX_PROGRAMS;
	for (uint32_t n = 0; n < most; n++) {
		for (uint32_t m = 0; !st && m < PLAN_MUTATIONS; m++) {
			struct host_mark mark = host_arena_mark(b->scratch);
			st = copy_plan(b);
			if (!st && mutate_numbers(b, (enum plan_mutation)m, n))
				judge(b, "a number of the plan", 0, m, n);
			host_arena_release(b->scratch, mark);
		}
	}
	return st;
}

static uint64_t count_mutations(const struct plan *plan)
{
	uint64_t count = 0;
	for (uint32_t p = 0; p < plan->programs; p++)
		count += (uint64_t)plan->program[p].instructions * INSTRUCTION_MUTATIONS +
			 (uint64_t)plan->program[p].operand_offsets * (MUTATIONS - INSTRUCTION_MUTATIONS);
	return count;
}

enum tarn_status mutate_plan(const struct plan *plan, uint64_t seed, uint32_t most, struct host_arena *scratch,
			     struct mutate_report *report)
{
	struct bench b = { .original = plan, .random = { seed }, .scratch = scratch, .report = report };
	*report = (struct mutate_report){ .mutants = 0 };
	b.keep_one_in = most ? (count_mutations(plan) + most - 1) / most : 1;
	if (!b.keep_one_in)
		b.keep_one_in = 1;
	enum tarn_status st = verify_plan(plan, scratch);
	for (uint32_t p = 0; !st && p < plan->programs; p++)
		st = mutate_replay(plan, &plan->program[p], scratch, &b.expected[p]);
	for (uint32_t p = 0; p < plan->programs; p++)
		b.quickest[p] = plan->program[p].time_ns;
	if (st)
		return st;
	b.mutant = *plan;
	const char *harm = find_harm(&b);
	if (harm)
		snprintf(report->wrong, sizeof report->wrong, "the plan itself: %s", harm);
	st = mutate_all_numbers(&b);
	if (!st)
		st = mutate_proofs(&b);
	for (uint32_t p = 0; !st && p < plan->programs; p++)
		st = mutate_program(&b, p);
	return st;
}
