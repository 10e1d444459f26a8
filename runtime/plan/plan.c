/* plan.c - the plan in memory and its way into a file; format.h describes the bytes, plan_load.c reads them. */
#include "plan/plan.h"

#include "base/atomic_file.h"
#include "plan/format.h"

#include <string.h>

/* The streaming state lives on the stack: nothing is allocated. */
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

/* Sections in file order. */
struct section_list {
	const void *data[PLAN_MAX_SECTIONS];
	uint64_t bytes[PLAN_MAX_SECTIONS];
	uint32_t count;
};

static void list_add(struct section_list *list, const void *data, uint64_t count, uint64_t size)
{
	list->data[list->count] = data;
	list->bytes[list->count++] = count * size;
}

/* What a program does. */
static void list_content(struct section_list *list, const struct program *program)
{
	const struct graph *graph = &program->graph;
	list_add(list, graph->tensor, graph->tensors, sizeof *graph->tensor);
	list_add(list, graph->op, graph->ops, sizeof *graph->op);
	list_add(list, graph->operand, graph->operands, sizeof *graph->operand);
	list_add(list, graph->text, graph->text_bytes, 1);
	list_add(list, program->instruction, program->instructions, sizeof *program->instruction);
	list_add(list, program->operand_offset, program->operand_offsets, sizeof *program->operand_offset);
}

/* What is claimed about it. */
static void list_certificate(struct section_list *list, const struct program *program)
{
	list_add(list, program->cost_ns, program->graph.ops, sizeof *program->cost_ns);
	list_add(list, program->proof, program->proof_terms, sizeof *program->proof);
}

static struct program_record program_to_record(const struct program *program)
{
	const struct graph *graph = &program->graph;
	return (struct program_record){
		.peak_bytes = program->peak_bytes,
		.height_bytes = program->height_bytes,
		.time_ns = program->time_ns,
		.base_time_ns = program->base_time_ns,
		.none_peak_bytes = program->none_peak_bytes,
		.time_bound_ns = program->time_bound_ns,
		.peak_bound_bytes = program->peak_bound_bytes,
		.kind = program->kind,
		.shape = program->shape,
		.batch = program->batch,
		.tensors = graph->tensors,
		.ops = graph->ops,
		.operands = graph->operands,
		.text_bytes = graph->text_bytes,
		.instructions = program->instructions,
		.operand_offsets = program->operand_offsets,
		.recomputed_ops = program->recomputed_ops,
		.scalars = graph->scalars,
		.graph_batch = graph->batch,
		.proof_terms = program->proof_terms,
	};
}

struct build_limits plan_build_limits(void)
{
	return (struct build_limits){
		.max_rank = OP_MAX_RANK,
		.op_kinds = OP_KINDS,
		.tensor_bytes = sizeof(struct tensor),
		.op_bytes = sizeof(struct op),
		.instruction_bytes = sizeof(struct instruction),
		.persistent_bytes = sizeof(struct persistent),
	};
}

uint64_t plan_header_checksum(const struct plan_header *header)
{
	struct plan_header copy = *header;
	copy.header_checksum = 0;
	return XXH64(&copy, sizeof copy, 0);
}

/* An empty array may have no memory behind it. */
static void hash_bytes(XXH64_state_t *state, const void *data, uint64_t bytes)
{
	if (bytes)
		XXH64_update(state, data, (size_t)bytes);
}

/* Estimated times, bounds and peaks of other schedules are left out: they do not change what a program does. */
uint64_t plan_content_checksum(const struct plan *plan)
{
	XXH64_state_t state;
	XXH64_reset(&state, 0);
	hash_bytes(&state, plan->persistent, (uint64_t)plan->persistents * sizeof *plan->persistent);
	for (uint32_t p = 0; p < plan->programs; p++) {
		const struct program *program = &plan->program[p];
		const struct graph *graph = &program->graph;
		const uint32_t kind = program->kind | program->shape << 8;
		const uint32_t counts[] = { kind,           program->batch,        graph->tensors,
					    graph->ops,     graph->operands,       graph->text_bytes,
					    graph->scalars, program->instructions, program->operand_offsets };
		hash_bytes(&state, counts, sizeof counts);
		struct section_list list = { .count = 0 };
		list_content(&list, program);
		for (uint32_t s = 0; s < list.count; s++)
			hash_bytes(&state, list.data[s], list.bytes[s]);
	}
	return XXH64_digest(&state);
}

void plan_seal(struct plan *plan)
{
	plan->plan_checksum = plan_content_checksum(plan);
}

static void fill_header(const struct plan *plan, const struct section_list *list, struct plan_header *header)
{
	static const uint8_t zeros[PLAN_SECTION_ALIGNMENT];
	memset(header, 0, sizeof *header);
	memcpy(header->magic, PLAN_MAGIC, sizeof header->magic);
	header->version = PLAN_VERSION;
	header->header_bytes = sizeof *header;
	header->limits = plan_build_limits();
	header->plan_checksum = plan_content_checksum(plan);
	header->budget_bytes = plan->budget_bytes;
	header->min_budget_bytes = plan->min_budget_bytes;
	header->persistent_bytes = plan->persistent_bytes;
	header->arena_bytes = plan->arena_bytes;
	header->host_bytes = plan->host_bytes;
	header->copy_bandwidth = plan->copy_bandwidth;
	header->programs = plan->programs;
	header->persistents = plan->persistents;
	header->threads = plan->threads;
	header->alignment = plan->alignment;
	header->strategy = plan->strategy;
	header->sections = list->count;
	XXH64_state_t state;
	XXH64_reset(&state, 0);
	uint64_t at = sizeof *header;
	for (uint32_t s = 0; s < list->count; s++) {
		header->section[s] = (struct section_entry){ at, list->bytes[s] };
		uint64_t padded = section_padded(list->bytes[s]);
		hash_bytes(&state, list->data[s], list->bytes[s]);
		hash_bytes(&state, zeros, padded - list->bytes[s]);
		at += padded;
	}
	header->file_bytes = at;
	header->file_checksum = XXH64_digest(&state);
	header->header_checksum = plan_header_checksum(header);
}

static enum tarn_status write_sections(struct atomic_file *file, const struct plan_header *header,
				       const struct section_list *list)
{
	static const uint8_t zeros[PLAN_SECTION_ALIGNMENT];
	enum tarn_status st = atomic_file_write(file, header, sizeof *header);
	for (uint32_t s = 0; s < list->count && !st; s++) {
		st = atomic_file_write(file, list->data[s], (size_t)list->bytes[s]);
		if (!st)
			st = atomic_file_write(file, zeros, (size_t)(section_padded(list->bytes[s]) - list->bytes[s]));
	}
	return st;
}

static enum tarn_status write_file(const char *path, const struct plan_header *header, const struct section_list *list)
{
	struct atomic_file file;
	enum tarn_status st = atomic_file_open(&file, path);
	if (st)
		return st;
	atomic_file_clean(file.target);
	st = write_sections(&file, header, list);
	if (!st)
		st = atomic_file_commit(&file, NULL);
	atomic_file_abandon(&file);
	return st;
}

static enum tarn_status list_plan(const struct plan *plan, const char *path, struct program_record *record,
				  struct section_list *list)
{
	if (!plan->programs || plan->programs > PLAN_MAX_PROGRAMS)
		return tarn_fail(TARN_EINTERNAL, "plan %s: %u programs, a plan has 1 to %u", path, plan->programs,
				 PLAN_MAX_PROGRAMS);
	for (uint32_t p = 0; p < plan->programs; p++)
		record[p] = program_to_record(&plan->program[p]);
	list_add(list, plan->config_lines, strlen(plan->config_lines) + 1, 1);
	const char *last = plan->device ? plan->device : plan->driver;
	list_add(list, plan->driver, (size_t)(last - plan->driver) + strlen(last) + 1, 1);
	list_add(list, plan->persistent, plan->persistents, sizeof *plan->persistent);
	list_add(list, record, plan->programs, sizeof *record);
	for (uint32_t p = 0; p < plan->programs; p++) {
		list_content(list, &plan->program[p]);
		list_certificate(list, &plan->program[p]);
	}
	return TARN_OK;
}

enum tarn_status plan_save(const struct plan *plan, const char *path)
{
	struct program_record record[PLAN_MAX_PROGRAMS];
	struct section_list list = { .count = 0 };
	struct plan_header header;
	enum tarn_status st = list_plan(plan, path, record, &list);
	if (st)
		return st;
	fill_header(plan, &list, &header);
	if (header.file_bytes > PLAN_MAX_FILE_BYTES)
		return tarn_fail(TARN_EIO, "plan %s: %llu bytes, a plan file has at most %llu", path,
				 (unsigned long long)header.file_bytes, (unsigned long long)PLAN_MAX_FILE_BYTES);
	return write_file(path, &header, &list);
}

uint64_t plan_peak_bytes(const struct plan *plan)
{
	uint64_t peak = 0;
	for (uint32_t p = 0; p < plan->programs; p++)
		if (plan->program[p].peak_bytes > peak)
			peak = plan->program[p].peak_bytes;
	return peak;
}

uint64_t plan_none_peak_bytes(const struct plan *plan)
{
	uint64_t peak = 0;
	for (uint32_t p = 0; p < plan->programs; p++)
		if (plan->program[p].none_peak_bytes > peak)
			peak = plan->program[p].none_peak_bytes;
	return peak;
}

const struct program *plan_program(const struct plan *plan, enum program_kind kind)
{
	for (uint32_t p = 0; p < plan->programs; p++)
		if (plan->program[p].kind == (uint32_t)kind && !plan->program[p].shape)
			return &plan->program[p];
	return NULL;
}

uint64_t plan_parameter_count(const struct plan *plan)
{
	uint64_t count = 0;
	for (uint32_t i = 0; i < plan->persistents; i++)
		if (plan->persistent[i].role == ROLE_PARAMETER)
			count += plan->persistent[i].bytes / dtype_bytes(plan->persistent[i].dtype);
	return count;
}

uint64_t program_copied_bytes(const struct program *program, enum instruction_kind kind)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < program->instructions; i++)
		if (program->instruction[i].kind == (uint32_t)kind)
			bytes += program->instruction[i].bytes;
	return bytes;
}

const char *instruction_name(uint32_t kind)
{
	static const char *const name[INSTRUCTION_KINDS] = { "run", "store", "store_wait", "fetch", "fetch_wait" };
	return kind < INSTRUCTION_KINDS ? name[kind] : "unknown instruction";
}

const char *program_name(uint32_t kind)
{
	switch (kind) {
	case PROGRAM_TRAIN:
		return "train";
	case PROGRAM_TRAIN_LAST:
		return "train_last";
	case PROGRAM_EVALUATE:
		return "evaluate";
	case PROGRAM_EVALUATE_LAST:
		return "evaluate_last";
	default:
		return "unknown program";
	}
}
