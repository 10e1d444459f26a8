/*
 * test_explain.c - what is said about a plan adds up: to the peak, to the time, to the instructions.
 */
#include "support/testing.h"

#include "plan/explain.h"
#include "support/sample_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct host_arena arena;
static struct plan plan;
static struct plan_explanation e;

static void setup(void)
{
	host_arena_init(&arena);
	ck_assert_ok(sample_plan(&arena, &plan));
	ck_assert_ok(plan_explain(&plan, &plan.program[0], &arena, &e));
}

static void teardown(void)
{
	host_arena_fini(&arena);
}

static char *printed(const struct plan_curve *curve, bool json)
{
	char *text;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	ck_assert_ptr_nonnull(out);
	if (json)
		plan_explain_json(&e, curve, out);
	else
		plan_explain_print(&e, curve, out);
	ck_assert_int_eq(fclose(out), 0);
	return text;
}

/* Every byte of the peak has a use, and a name where it is no part of the persistent table. */
START_TEST(the_peak_adds_up)
{
	uint64_t sum = 0, listed = plan.persistent_bytes;
	for (uint32_t use = 0; use < PLAN_USES; use++)
		sum += e.used_bytes[use];
	ck_assert_uint_eq(e.buffers.peak_bytes, plan.program[0].peak_bytes);
	ck_assert_uint_eq(sum, plan.program[0].peak_bytes);
	for (uint32_t i = 0; i < e.lives; i++) {
		const struct plan_buffer *buffer = &e.buffers.buffer[e.live[i].buffer];
		listed += e.live[i].use == USE_PERSISTENT ? 0 : buffer->bytes;
		ck_assert_uint_gt(strlen(plan_buffer_name(&e, e.live[i].buffer)), 0);
		if (i)
			ck_assert_uint_le(buffer->bytes, e.buffers.buffer[e.live[i - 1].buffer].bytes);
	}
	ck_assert_uint_eq(listed, sum);
	ck_assert_uint_gt(e.used_bytes[USE_WRITTEN] + e.used_bytes[USE_READ], 0);
}
END_TEST

START_TEST(recomputation_adds_up)
{
	uint64_t time = 0;
	uint32_t runs = 0;
	for (uint32_t i = 0; i < e.agains; i++) {
		time += e.again[i].extra_ns;
		runs += e.again[i].extra_runs;
	}
	ck_assert_uint_eq(runs, plan.program[0].recomputed_ops);
	ck_assert_uint_eq(time, plan.program[0].time_ns - plan.program[0].base_time_ns);
	ck_assert_uint_eq(e.agains, 5); /* hidden, apply, mix, sum, drop */
}
END_TEST

/* By hand: what the sample's backward pass reads of the forward pass, and its one view each way. */
START_TEST(what_is_kept_and_shared)
{
	const struct graph *graph = &plan.program[0].graph;
	bool conv = false, flat = false;
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < e.kepts; i++) {
		conv |= !strcmp(plan_buffer_name(&e, e.kept[i]), "conv");
		bytes += e.buffers.buffer[e.kept[i]].bytes;
	}
	ck_assert(conv);
	ck_assert_uint_eq(bytes, e.kept_bytes);
	for (uint32_t i = 0; i < e.views; i++)
		flat |= !strcmp(tensor_name(graph, e.view[i]), "flat");
	ck_assert(flat && e.views == 2);
	for (uint32_t i = 0; i < e.in_places; i++) {
		const struct instruction *instruction = &plan.program[0].instruction[e.in_place[i].instruction];
		uint32_t inputs = graph->op[instruction->op].inputs;
		const uint64_t *offset = plan.program[0].operand_offset + instruction->first_operand;
		bool found = false;
		for (uint32_t k = 0; k < inputs; k++)
			found |= op_inputs(graph, instruction->op)[k] == e.in_place[i].input &&
				 offset[k] == offset[inputs];
		ck_assert(found);
	}
	ck_assert_uint_gt(e.in_places, 0);
}
END_TEST

START_TEST(sentences_say_it)
{
	char peak[400];
	struct plan_curve curve = { .points = 1, .base_ns = 40000, .point = { { 4096, 4096, 50000, 3 } } };
	char *text = printed(NULL, false), *with = printed(&curve, false);
	ck_assert(strstr(text, "The peak, ") && strstr(text, "kept from the forward pass") &&
		  strstr(text, "5 ops are computed again") && strstr(text, "are views of another's memory"));
	ck_assert(!strstr(text, "budget") && strstr(with, "25.00 %") && strstr(with, "More memory would buy nothing"));
	curve.more = (struct plan_point){ 1 << 20, 4096, plan.program[0].time_ns - 1000, 2 };
	free(with);
	with = printed(&curve, false);
	ck_assert_ptr_nonnull(strstr(with, "One MiB more would save 0.001 ms a step"));
	curve.more.time_ns = plan.program[0].time_ns;
	free(with);
	with = printed(&curve, false);
	ck_assert_ptr_nonnull(strstr(with, "One MiB more would save nothing"));
	plan_peak_sentence(&e, 3, peak, sizeof peak);
	ck_assert_ptr_eq(strstr(peak, "the peak is at "), peak);
	for (size_t size = 1; size < 60; size++) { /* never beyond its end */
		memset(peak, 'x', sizeof peak);
		plan_peak_sentence(&e, 3, peak, size);
		ck_assert(strlen(peak) < size && peak[size] == 'x');
	}
	free(text);
	free(with);
}
END_TEST

/* Names are whatever the graph's author chose. */
START_TEST(json_quotes_names)
{
	struct graph *graph = &plan.program[0].graph;
	graph->text[graph->tensor[graph_find(graph, "conv")].name] = '"';
	char *text = printed(NULL, true);
	ck_assert_ptr_nonnull(strstr(text, "\"name\": \"\\\"onv\""));
	ck_assert(text[0] == '{' && text[strlen(text) - 1] == '}');
	free(text);
}
END_TEST

START_TEST(an_empty_program_has_nothing_to_explain)
{
	plan.program[0].instructions = 0;
	ck_assert_ok(plan_explain(&plan, &plan.program[0], &arena, &e));
	ck_assert_uint_eq(e.kepts + e.agains + e.in_places, 0);
	char *text = printed(NULL, false), *json = printed(NULL, true);
	ck_assert_str_eq(text, "The train step has no instructions.\n");
	ck_assert_str_eq(json, "{}");
	free(text);
	free(json);
}
END_TEST

START_TEST(survives_every_failed_allocation)
{
	for (uint64_t n = 1;; n++) {
		arena.fail_at = arena.requests + n;
		enum tarn_status st = plan_explain(&plan, &plan.program[0], &arena, &e);
		arena.fail_at = 0;
		if (!st)
			break;
		ck_assert_int_eq(st, TARN_ENOMEM);
		ck_assert_uint_lt(n, 100);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("explain");
	TCase *tcase = tcase_create("explain");
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, the_peak_adds_up);
	tcase_add_test(tcase, recomputation_adds_up);
	tcase_add_test(tcase, what_is_kept_and_shared);
	tcase_add_test(tcase, sentences_say_it);
	tcase_add_test(tcase, json_quotes_names);
	tcase_add_test(tcase, an_empty_program_has_nothing_to_explain);
	tcase_add_test(tcase, survives_every_failed_allocation);
	suite_add_tcase(suite, tcase);
	return testing_run(suite);
}
