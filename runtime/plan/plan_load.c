/*
 * plan_load.c - a plan file into memory, trusting nothing.
 *
 * The file is read into a private mapping rather than mapped itself: a file that is cut or rewritten while a run goes
 * on must not change a plan that was verified. Checks go from the outside in, so that each one may rely on those
 * before it: header, section bounds, checksums, ids, graph, instructions. What the instructions mean is the
 * verifier's business (verify.h).
 */
#include "plan/plan.h"

#include "plan/format.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define BAD(...) tarn_fail(TARN_EFORMAT, __VA_ARGS__)

static bool all_zero(const void *data, size_t bytes)
{
	const uint8_t *byte = data;
	for (size_t i = 0; i < bytes; i++)
		if (byte[i])
			return false;
	return true;
}

/* ---- the file ---------------------------------------------------------------------------------------------- */

static enum tarn_status read_whole(int fd, uint8_t *data, size_t bytes)
{
	size_t done = 0;
	while (done < bytes) {
		ssize_t got = read(fd, data + done, bytes - done);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return tarn_fail(TARN_EIO, "cannot read: %m");
		if (!got)
			return BAD("the file ends at byte %zu, %zu were there when it was opened", done, bytes);
		done += (size_t)got;
	}
	return TARN_OK;
}

static enum tarn_status map_file(const char *path, struct plan *plan)
{
	/* A pipe without a writer must not block. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return tarn_fail(TARN_EIO, "cannot open: %m");
	enum tarn_status st = TARN_OK;
	void *data = MAP_FAILED;
	struct stat info;
	if (fstat(fd, &info))
		st = tarn_fail(TARN_EIO, "cannot read its size: %m");
	else if (!S_ISREG(info.st_mode))
		st = BAD("not a regular file");
	else if ((uint64_t)info.st_size < sizeof(struct plan_header) || (uint64_t)info.st_size > PLAN_MAX_FILE_BYTES)
		st = BAD("%lld bytes; a plan file has %zu to %" PRIu64, (long long)info.st_size,
			 sizeof(struct plan_header), PLAN_MAX_FILE_BYTES);
	if (st)
		goto out_close;
	size_t bytes = (size_t)info.st_size;
	data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (data == MAP_FAILED) {
		st = tarn_fail(TARN_ENOMEM, "cannot get %zu bytes for it", bytes);
		goto out_close;
	}
	st = read_whole(fd, data, bytes);
	if (st) {
		munmap(data, bytes);
		goto out_close;
	}
	mprotect(data, bytes, PROT_READ);
	plan->mapping = data;
	plan->mapping_bytes = bytes;
out_close:
	close(fd);
	return st;
}

/* ---- header and sections ------------------------------------------------------------------------------------- */

static enum tarn_status check_limits(const struct plan_header *header)
{
	struct build_limits here = plan_build_limits();
	const struct build_limits *there = &header->limits;
	if (memcmp(&here, there, sizeof here))
		return BAD("made by a build with rank %u, %u op kinds and records of %u/%u/%u/%u bytes; this build has "
			   "rank "
			   "%u, %u op kinds and %u/%u/%u/%u bytes: plan again with this build",
			   there->max_rank, there->op_kinds, there->tensor_bytes, there->op_bytes,
			   there->instruction_bytes, there->persistent_bytes, here.max_rank, here.op_kinds,
			   here.tensor_bytes, here.op_bytes, here.instruction_bytes, here.persistent_bytes);
	return TARN_OK;
}

static enum tarn_status check_header(const struct plan_header *header, size_t bytes)
{
	if (memcmp(header->magic, PLAN_MAGIC, sizeof header->magic))
		return BAD("not a plan file: it does not begin with \"%s\"", PLAN_MAGIC);
	if (header->version != PLAN_VERSION)
		return BAD("plan format %u; this build reads format %u", header->version, PLAN_VERSION);
	if (header->header_bytes != sizeof *header)
		return BAD("header of %u bytes; it has %zu", header->header_bytes, sizeof *header);
	if (header->file_bytes != bytes)
		return BAD("%zu bytes long, its header says %" PRIu64 ": truncated or not the whole file", bytes,
			   header->file_bytes);
	if (header->header_checksum != plan_header_checksum(header))
		return BAD("header checksum does not match: the file is damaged");
	enum tarn_status st = check_limits(header);
	if (st)
		return st;
	if (!header->programs || header->programs > PLAN_MAX_PROGRAMS)
		return BAD("%u programs; a plan has 1 to %u", header->programs, PLAN_MAX_PROGRAMS);
	if (header->alignment != TARN_ALIGNMENT)
		return BAD("alignment %u bytes; this build has %u", header->alignment, (unsigned)TARN_ALIGNMENT);
	if (header->arena_bytes > UINT64_MAX - TARN_ALIGNMENT || header->persistent_bytes > header->arena_bytes)
		return BAD("persistent part of %" PRIu64 " bytes in an arena of %" PRIu64, header->persistent_bytes,
			   header->arena_bytes);
	if (header->host_bytes > UINT64_MAX - TARN_ALIGNMENT || !header->host_bytes != !header->copy_bandwidth)
		return BAD("host region of %" PRIu64 " bytes, copies of %" PRIu64 " bytes a second", header->host_bytes,
			   header->copy_bandwidth);
	if (!all_zero(header->reserved, sizeof header->reserved))
		return BAD("reserved bytes of the header are not zero");
	return TARN_OK;
}

/* Sections follow one another without gaps, and nothing comes after the last. */
static enum tarn_status check_sections(const struct plan_header *header, const uint8_t *data)
{
	uint32_t expected = (uint32_t)SECTIONS_OF_PLAN + header->programs * (uint32_t)SECTIONS_OF_PROGRAM;
	if (header->sections != expected)
		return BAD("%u sections; %u programs have %u", header->sections, header->programs, expected);
	uint64_t at = sizeof *header;
	for (uint32_t s = 0; s < PLAN_MAX_SECTIONS; s++) {
		struct section_entry section = header->section[s];
		if (s >= header->sections) {
			if (section.offset || section.bytes)
				return BAD("section %u is not used, but its entry is not zero", s);
			continue;
		}
		if (section.offset != at)
			return BAD("section %u starts at byte %" PRIu64 ", it must start at %" PRIu64, s,
				   section.offset, at);
		if (section.bytes > header->file_bytes - at || section_padded(section.bytes) > header->file_bytes - at)
			return BAD("section %u of %" PRIu64 " bytes at %" PRIu64 " goes beyond the end of the file", s,
				   section.bytes, at);
		at += section_padded(section.bytes);
		if (!all_zero(data + section.offset + section.bytes, (size_t)(at - section.offset - section.bytes)))
			return BAD("the padding after section %u is not zero", s);
	}
	if (at != header->file_bytes)
		return BAD("%" PRIu64 " bytes after the last section", header->file_bytes - at);
	if (header->file_checksum != XXH64(data + sizeof *header, (size_t)(header->file_bytes - sizeof *header), 0))
		return BAD("checksum does not match: the file is damaged");
	return TARN_OK;
}

/* Address of a section that must hold `count` records of `size` bytes. */
static enum tarn_status take_array(const struct plan_header *header, const uint8_t *data, uint32_t section,
				   const char *what, uint64_t count, uint64_t size, const void **out)
{
	const struct section_entry *entry = &header->section[section];
	if (entry->bytes != count * size)
		return BAD("%s: section of %" PRIu64 " bytes, %" PRIu64 " records of %" PRIu64 " were announced", what,
			   entry->bytes, count, size);
	*out = data + entry->offset;
	return TARN_OK;
}

static enum tarn_status take_text(const struct plan_header *header, const uint8_t *data, uint32_t section,
				  const char *what, const char **out)
{
	const struct section_entry *entry = &header->section[section];
	const char *text = (const char *)data + entry->offset;
	if (!entry->bytes || memchr(text, '\0', (size_t)entry->bytes) != text + entry->bytes - 1)
		return BAD("%s is not one zero-terminated text", what);
	*out = text;
	return TARN_OK;
}

/* The driver's name, and the device's identity where there is one. */
static enum tarn_status take_driver(const struct plan_header *header, const uint8_t *data, struct plan *plan)
{
	const struct section_entry *entry = &header->section[SECTION_DRIVER];
	const char *text = (const char *)data + entry->offset;
	const char *end = entry->bytes ? memchr(text, '\0', (size_t)entry->bytes) : NULL;
	size_t rest = end ? (size_t)entry->bytes - (size_t)(end + 1 - text) : 0;
	if (!end || (rest && memchr(end + 1, '\0', rest) != end + rest))
		return BAD("driver is not one or two zero-terminated texts");
	plan->driver = text;
	plan->device = rest ? end + 1 : NULL;
	return TARN_OK;
}

/* ---- one program --------------------------------------------------------------------------------------------- */

static enum tarn_status take_program(const struct plan_header *header, const uint8_t *data, uint32_t index,
				     const struct program_record *record, struct program *program)
{
	if (record->kind >= PROGRAM_KINDS)
		return BAD("program %u is of unknown kind %u", index, record->kind);
	if (record->shape >= PLAN_MAX_SHAPES || (record->shape && record->kind != PROGRAM_TRAIN))
		return BAD("program %u, %s, is for shape %u; a plan has shapes 0 to %u, and all but 0 only to train",
			   index, program_name(record->kind), record->shape, PLAN_MAX_SHAPES - 1);
	if (record->reserved)
		return BAD("reserved bytes of program %u are not zero", index);
	struct graph *graph = &program->graph;
	/* The arrays are read-only memory; struct graph has no const for the sake of graphs under construction. */
	const struct {
		const char *what;
		enum program_section section;
		uint64_t count, size;
		void **out;
	} array[] = {
		{ "tensors", SECTION_TENSOR, record->tensors, sizeof *graph->tensor, (void **)&graph->tensor },
		{ "ops", SECTION_OP, record->ops, sizeof *graph->op, (void **)&graph->op },
		{ "operands", SECTION_OPERAND, record->operands, sizeof *graph->operand, (void **)&graph->operand },
		{ "text", SECTION_TEXT, record->text_bytes, 1, (void **)&graph->text },
		{ "instructions", SECTION_INSTRUCTION, record->instructions, sizeof *program->instruction,
		  (void **)&program->instruction },
		{ "operand offsets", SECTION_OPERAND_OFFSET, record->operand_offsets, sizeof *program->operand_offset,
		  (void **)&program->operand_offset },
		{ "costs", SECTION_COST, record->ops, sizeof *program->cost_ns, (void **)&program->cost_ns },
		{ "proof", SECTION_PROOF, record->proof_terms, sizeof *program->proof, (void **)&program->proof },
	};
	for (size_t i = 0; i < sizeof array / sizeof *array; i++) {
		const void *address = NULL;
		enum tarn_status st = take_array(header, data, program_section(index, array[i].section), array[i].what,
						 array[i].count, array[i].size, &address);
		if (st)
			return tarn_fail_prefix(st, "program %s", program_name(record->kind));
		memcpy(array[i].out, &address, sizeof address);
	}
	graph->tensors = record->tensors;
	graph->ops = record->ops;
	graph->operands = record->operands;
	graph->text_bytes = record->text_bytes;
	graph->scalars = record->scalars;
	graph->batch = record->graph_batch;
	program->kind = record->kind;
	program->shape = record->shape;
	program->batch = record->batch;
	program->instructions = record->instructions;
	program->operand_offsets = record->operand_offsets;
	program->peak_bytes = record->peak_bytes;
	program->height_bytes = record->height_bytes;
	program->time_ns = record->time_ns;
	program->base_time_ns = record->base_time_ns;
	program->none_peak_bytes = record->none_peak_bytes;
	program->recomputed_ops = record->recomputed_ops;
	program->time_bound_ns = record->time_bound_ns;
	program->peak_bound_bytes = record->peak_bound_bytes;
	program->proof_terms = record->proof_terms;
	return TARN_OK;
}

static enum tarn_status check_tensor(const struct graph *graph, uint32_t t)
{
	const struct tensor *tensor = &graph->tensor[t];
	if (tensor->name >= graph->text_bytes)
		return BAD("tensor %u: its name is at byte %u of %u", t, tensor->name, graph->text_bytes);
	if (tensor->storage >= graph->tensors)
		return BAD("tensor %u: storage %u of %u tensors", t, tensor->storage, graph->tensors);
	if (tensor->producer != OP_NONE && tensor->producer >= graph->ops)
		return BAD("tensor %u: producer %u of %u ops", t, tensor->producer, graph->ops);
	if (tensor->dtype >= DTYPES || tensor->role >= ROLES || tensor->rank > OP_MAX_RANK || tensor->init >= INITS)
		return BAD("tensor %u: dtype %u, role %u, rank %u, init %u; this build knows dtypes below %u, roles "
			   "below %u, ranks up to %u, inits below %u",
			   t, tensor->dtype, tensor->role, tensor->rank, tensor->init, (unsigned)DTYPES,
			   (unsigned)ROLES, (unsigned)OP_MAX_RANK, (unsigned)INITS);
	/* Written so that NaN is refused too. */
	if (!(tensor->init_bound >= 0.0f) || !all_zero(tensor->reserved, sizeof tensor->reserved))
		return BAD("tensor %u: initial bound or reserved bytes are not valid", t);
	if (tensor->bytes > (uint64_t)1 << 62)
		return BAD("tensor %u: %" PRIu64 " bytes, a tensor has at most 2^62", t, tensor->bytes);
	return TARN_OK;
}

static enum tarn_status check_op(const struct graph *graph, uint32_t o)
{
	const struct op *op = &graph->op[o];
	if (op->name >= graph->text_bytes)
		return BAD("op %u: its name is at byte %u of %u", o, op->name, graph->text_bytes);
	if (op->kind >= OP_KINDS || op->phase > PHASE_UPDATE)
		return BAD("op %u: kind %u in phase %u; this build knows %u kinds and %u phases", o, op->kind,
			   op->phase, (unsigned)OP_KINDS, PHASE_UPDATE + 1u);
	const struct op_row *row = op_row(op->kind);
	if (op->inputs < row->min_inputs || (row->max_inputs != UINT8_MAX && op->inputs > row->max_inputs) ||
	    op->outputs != row->outputs)
		return BAD("op %u (%s): %u inputs and %u outputs do not fit the op table", o, row->name, op->inputs,
			   op->outputs);
	if ((uint64_t)op->first_operand + op->inputs + op->outputs > graph->operands)
		return BAD("op %u (%s): operands %u and following go beyond the %u there are", o, row->name,
			   op->first_operand, graph->operands);
	return TARN_OK;
}

/* Ids and ranges first: graph_check and the shape rules follow them. */
static enum tarn_status check_graph(const struct graph *graph)
{
	if (!graph->text_bytes || graph->text[graph->text_bytes - 1])
		return BAD("the names are not zero-terminated");
	for (uint32_t t = 0; t < graph->tensors; t++) {
		enum tarn_status st = check_tensor(graph, t);
		if (st)
			return st;
	}
	for (uint32_t i = 0; i < graph->operands; i++)
		if (graph->operand[i] >= graph->tensors)
			return BAD("operand %u is tensor %u of %u", i, graph->operand[i], graph->tensors);
	for (uint32_t o = 0; o < graph->ops; o++) {
		enum tarn_status st = check_op(graph, o);
		if (st)
			return st;
	}
	if (graph->scalars != TENSOR_NONE && graph->scalars >= graph->tensors)
		return BAD("the scalars are tensor %u of %u", graph->scalars, graph->tensors);
	return graph_check(graph);
}

/* [offset, offset + bytes) in whole aligned pieces, inside the arena. `bytes` is at most 2^63. */
static bool inside_arena(const struct plan *plan, uint64_t offset, uint64_t bytes)
{
	uint64_t padded = bytes_align(bytes);
	return offset % TARN_ALIGNMENT == 0 && padded <= plan->arena_bytes && offset <= plan->arena_bytes - padded;
}

static bool inside_host_region(const struct plan *plan, uint64_t offset, uint64_t bytes)
{
	uint64_t padded = bytes_align(bytes);
	return offset % TARN_ALIGNMENT == 0 && padded <= plan->host_bytes && offset <= plan->host_bytes - padded;
}

static enum tarn_status check_copy(const struct plan *plan, const struct program *program, uint32_t i)
{
	const struct graph *graph = &program->graph;
	const struct instruction *copy = &program->instruction[i];
	const char *name = instruction_name(copy->kind);
	if (copy->op || copy->first_operand || copy->workspace_offset || copy->workspace_bytes)
		return BAD("instruction %u (%s): a copy has no op, operands or workspace", i, name);
	if (copy->tensor >= graph->tensors)
		return BAD("instruction %u (%s): tensor %u of %u", i, name, copy->tensor, graph->tensors);
	if (copy->bytes != graph->tensor[copy->tensor].bytes)
		return BAD("instruction %u (%s): %" PRIu64 " bytes of a tensor that has %" PRIu64, i, name, copy->bytes,
			   graph->tensor[copy->tensor].bytes);
	if (!inside_arena(plan, copy->offset, copy->bytes))
		return BAD("instruction %u (%s): %" PRIu64 " bytes at %" PRIu64
			   " are not aligned or not inside the arena of %" PRIu64,
			   i, name, copy->bytes, copy->offset, plan->arena_bytes);
	if (!inside_host_region(plan, copy->host_offset, copy->bytes))
		return BAD("instruction %u (%s): %" PRIu64 " bytes at %" PRIu64
			   " are not aligned or not inside the host region of %" PRIu64,
			   i, name, copy->bytes, copy->host_offset, plan->host_bytes);
	if (copy->slot >= PLAN_COPY_SLOTS)
		return BAD("instruction %u (%s): slot %u of %u", i, name, copy->slot, PLAN_COPY_SLOTS);
	return TARN_OK;
}

static enum tarn_status check_run(const struct plan *plan, const struct program *program, uint32_t i)
{
	const struct graph *graph = &program->graph;
	const struct instruction *instruction = &program->instruction[i];
	if (instruction->tensor || instruction->offset || instruction->host_offset || instruction->bytes ||
	    instruction->slot)
		return BAD("instruction %u: a run of an op copies nothing", i);
	if (instruction->op >= graph->ops)
		return BAD("instruction %u: op %u of %u", i, instruction->op, graph->ops);
	const struct op *op = &graph->op[instruction->op];
	if (op_row(op->kind)->view)
		return BAD("instruction %u: op %u (%s) is a view and cannot run", i, instruction->op,
			   op_row(op->kind)->name);
	uint32_t operands = op->inputs + op->outputs;
	if ((uint64_t)instruction->first_operand + operands > program->operand_offsets)
		return BAD("instruction %u: operands %u and following go beyond the %u there are", i,
			   instruction->first_operand, program->operand_offsets);
	for (uint32_t k = 0; k < operands; k++) {
		uint64_t offset = program->operand_offset[instruction->first_operand + k];
		uint64_t bytes = graph->tensor[graph->operand[op->first_operand + k]].bytes;
		if (!inside_arena(plan, offset, bytes))
			return BAD("instruction %u: operand %u of %" PRIu64 " bytes at %" PRIu64
				   " is not aligned or not inside the arena of %" PRIu64,
				   i, k, bytes, offset, plan->arena_bytes);
	}
	if (instruction->workspace_bytes > (uint64_t)1 << 62 ||
	    !inside_arena(plan, instruction->workspace_offset, instruction->workspace_bytes))
		return BAD("instruction %u: workspace of %" PRIu64 " bytes at %" PRIu64
			   " is not aligned or not inside the arena of %" PRIu64,
			   i, instruction->workspace_bytes, instruction->workspace_offset, plan->arena_bytes);
	return TARN_OK;
}

static enum tarn_status check_instruction(const struct plan *plan, const struct program *program, uint32_t i)
{
	const struct instruction *instruction = &program->instruction[i];
	if (instruction->kind >= INSTRUCTION_KINDS || instruction->reserved)
		return BAD("instruction %u: kind %u or its reserved bytes are not valid", i, instruction->kind);
	return instruction->kind == INSTRUCTION_RUN ? check_run(plan, program, i) : check_copy(plan, program, i);
}

static enum tarn_status check_program(const struct plan *plan, const struct program *program)
{
	enum tarn_status st = check_graph(&program->graph);
	for (uint32_t i = 0; !st && i < program->instructions; i++)
		st = check_instruction(plan, program, i);
	if (st)
		return tarn_fail_prefix(st, "program %s", program_name(program->kind));
	return TARN_OK;
}

static enum tarn_status check_persistents(const struct plan *plan)
{
	const struct graph *graph = &plan->program[0].graph;
	for (uint32_t i = 0; i < plan->persistents; i++) {
		const struct persistent *p = &plan->persistent[i];
		if (p->name >= graph->text_bytes)
			return BAD("persistent %u: its name is at byte %u of %u", i, p->name, graph->text_bytes);
		if (p->tensor >= graph->tensors)
			return BAD("persistent %u: tensor %u of %u", i, p->tensor, graph->tensors);
		if (p->dtype >= DTYPES || p->role >= ROLES || !is_persistent(p->role) ||
		    !all_zero(p->reserved, sizeof p->reserved))
			return BAD("persistent %u: dtype %u and role %u are not those of a persistent tensor", i,
				   p->dtype, p->role);
		if (p->bytes > (uint64_t)1 << 62 || !inside_arena(plan, p->offset, p->bytes) ||
		    p->offset + bytes_align(p->bytes) > plan->persistent_bytes)
			return BAD("persistent %u: %" PRIu64 " bytes at %" PRIu64
				   " are not aligned or not inside the persistent part of %" PRIu64,
				   i, p->bytes, p->offset, plan->persistent_bytes);
	}
	return TARN_OK;
}

static enum tarn_status take_plan(const uint8_t *data, struct plan *plan)
{
	const struct plan_header *header = (const struct plan_header *)data;
	const void *records = NULL, *persistents = NULL;
	enum tarn_status st = take_text(header, data, SECTION_CONFIG, "config", &plan->config_lines);
	if (!st)
		st = take_driver(header, data, plan);
	if (!st)
		st = take_array(header, data, SECTION_PERSISTENT, "persistent table", header->persistents,
				sizeof(struct persistent), &persistents);
	if (!st)
		st = take_array(header, data, SECTION_PROGRAM, "programs", header->programs,
				sizeof(struct program_record), &records);
	if (st)
		return st;
	memcpy(&plan->persistent, &persistents, sizeof persistents);
	plan->programs = header->programs;
	plan->persistents = header->persistents;
	plan->threads = header->threads;
	plan->alignment = header->alignment;
	plan->budget_bytes = header->budget_bytes;
	plan->min_budget_bytes = header->min_budget_bytes;
	plan->persistent_bytes = header->persistent_bytes;
	plan->arena_bytes = header->arena_bytes;
	plan->host_bytes = header->host_bytes;
	plan->copy_bandwidth = header->copy_bandwidth;
	plan->strategy = header->strategy;
	plan->plan_checksum = header->plan_checksum;
	for (uint32_t p = 0; !st && p < plan->programs; p++)
		st = take_program(header, data, p, (const struct program_record *)records + p, &plan->program[p]);
	return st;
}

static enum tarn_status check_plan(const struct plan *plan)
{
	enum tarn_status st = TARN_OK;
	uint64_t seen = 0;
	_Static_assert(PROGRAM_KINDS * PLAN_MAX_SHAPES <= 64, "a bit for each kind and shape");
	for (uint32_t p = 0; !st && p < plan->programs; p++) {
		uint64_t bit = UINT64_C(1) << (plan->program[p].kind * PLAN_MAX_SHAPES + plan->program[p].shape);
		if (seen & bit)
			return BAD("two programs of kind %s for shape %u", program_name(plan->program[p].kind),
				   plan->program[p].shape);
		seen |= bit;
		st = check_program(plan, &plan->program[p]);
	}
	if (!st)
		st = check_persistents(plan);
	if (!st && plan->plan_checksum != plan_content_checksum(plan))
		st = BAD("plan checksum does not match: the file is damaged");
	return st;
}

enum tarn_status plan_load(const char *path, struct host_arena *arena, struct plan *plan)
{
	(void)arena; /* everything lies in the mapping */
	struct plan loaded = { 0 };
	enum tarn_status st = map_file(path, &loaded);
	if (st)
		return tarn_fail_prefix(st, "plan %s", path);
	const uint8_t *data = loaded.mapping;
	st = check_header((const struct plan_header *)data, loaded.mapping_bytes);
	if (!st)
		st = check_sections((const struct plan_header *)data, data);
	if (!st)
		st = take_plan(data, &loaded);
	if (!st)
		st = check_plan(&loaded);
	if (st) {
		tarn_fail_prefix(st, "plan %s", path);
		plan_close(&loaded);
		return st;
	}
	*plan = loaded;
	return TARN_OK;
}

void plan_close(struct plan *plan)
{
	if (plan->mapping)
		munmap(plan->mapping, plan->mapping_bytes);
	memset(plan, 0, sizeof *plan);
}
