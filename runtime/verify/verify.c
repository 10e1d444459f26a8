/* verify.c - the order of the proof: the plan's numbers, the persistent table, then each program by itself. */
#include "verify/verify.h"

#include "verify/certificate.h"
#include "verify/replay.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum tarn_status verify_refuse(const struct subject *subject, const char *format, ...)
{
	char sentence[TARN_ERROR_BYTES - 64];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(sentence, sizeof sentence, format, arguments);
	va_end(arguments);
	return tarn_fail(TARN_EVERIFY, "program %s: %s", program_name(subject->program->kind), sentence);
}

/* A program before has its kind and shape. */
static bool is_repeated(const struct plan *plan, uint32_t p)
{
	for (uint32_t before = 0; before < p; before++)
		if (plan->program[before].kind == plan->program[p].kind &&
		    plan->program[before].shape == plan->program[p].shape)
			return true;
	return false;
}

static enum tarn_status check_numbers(const struct plan *plan)
{
	if (!plan->programs || plan->programs > PLAN_MAX_PROGRAMS)
		return tarn_fail(TARN_EVERIFY, "%u programs; a plan has 1 to %u", plan->programs, PLAN_MAX_PROGRAMS);
	if (plan->alignment != TARN_ALIGNMENT)
		return tarn_fail(TARN_EVERIFY, "alignment %u; %u is right", plan->alignment, (unsigned)TARN_ALIGNMENT);
	if (plan->persistent_bytes > plan->arena_bytes)
		return tarn_fail(TARN_EVERIFY, "persistent tensors take %" PRIu64 " bytes, the arena has %" PRIu64,
				 plan->persistent_bytes, plan->arena_bytes);
	/* The largest multiple of the alignment leaves room for one past the end. */
	if (plan->persistent_bytes % TARN_ALIGNMENT || plan->arena_bytes > UINT64_MAX - 2 * TARN_ALIGNMENT)
		return tarn_fail(TARN_EVERIFY,
				 "persistent part of %" PRIu64 " bytes in an arena of %" PRIu64
				 ": not aligned or out of range",
				 plan->persistent_bytes, plan->arena_bytes);
	if (plan->arena_bytes > plan->budget_bytes)
		return tarn_fail(TARN_EVERIFY, "the arena has %" PRIu64 " bytes, the budget is %" PRIu64,
				 plan->arena_bytes, plan->budget_bytes);
	for (uint32_t p = 0; p < plan->programs; p++) {
		const struct program *program = &plan->program[p];
		if (program->kind >= PROGRAM_KINDS || program->shape >= PLAN_MAX_SHAPES ||
		    (program->shape && program->kind != PROGRAM_TRAIN) || is_repeated(plan, p))
			return tarn_fail(TARN_EVERIFY,
					 "program %u is of kind %u (%s), shape %u: unknown or there twice", p,
					 program->kind, program_name(program->kind), program->shape);
		if (program->height_bytes > plan->arena_bytes || program->peak_bytes > plan->budget_bytes)
			return tarn_fail(TARN_EVERIFY,
					 "program %s: height %" PRIu64 " and peak %" PRIu64
					 " bytes; the arena has %" PRIu64 ", the budget is %" PRIu64,
					 program_name(program->kind), program->height_bytes, program->peak_bytes,
					 plan->arena_bytes, plan->budget_bytes);
	}
	return TARN_OK;
}

/* The table gives each entry the largest size that a program needs, and nothing that no program has. */
static enum tarn_status check_largest(const struct plan *plan, const uint64_t *largest)
{
	for (uint32_t i = 0; i < plan->persistents; i++)
		if (plan->persistent[i].bytes != largest[i])
			return tarn_fail(TARN_EVERIFY,
					 "persistent table: %s has %" PRIu64 " bytes, the programs use %" PRIu64,
					 plan->program[0].graph.text + plan->persistent[i].name,
					 plan->persistent[i].bytes, largest[i]);
	return TARN_OK;
}

static enum tarn_status verify_programs(const struct plan *plan, struct host_arena *scratch)
{
	uint64_t *largest = HOST_ARRAY(scratch, plan->persistents, uint64_t);
	if (!largest)
		return TARN_ENOMEM;
	for (uint32_t p = 0; p < plan->programs; p++) {
		struct host_mark mark = host_arena_mark(scratch);
		struct subject subject = { .plan = plan, .program = &plan->program[p] };
		enum tarn_status st = verify_links(&subject, scratch);
		/* Names in the table are in program 0's text, which has been checked by now. */
		if (!st && !p)
			st = verify_table(plan, scratch);
		if (!st)
			st = verify_homes(&subject, scratch, largest);
		if (!st)
			st = verify_replay(&subject, scratch);
		if (!st)
			st = verify_certificate(&subject, scratch);
		host_arena_release(scratch, mark);
		if (st)
			return st;
	}
	return check_largest(plan, largest);
}

enum tarn_status verify_plan(const struct plan *plan, struct host_arena *scratch)
{
	struct host_mark mark = host_arena_mark(scratch);
	enum tarn_status st = check_numbers(plan);
	if (!st)
		st = verify_programs(plan, scratch);
	host_arena_release(scratch, mark);
	return st;
}
