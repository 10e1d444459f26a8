/* test_plan.c - the plan file: what is written comes back, and no other bytes are taken for a plan. */
#include "support/testing.h"

#include "plan/format.h"
#include "plan/plan.h"
#include "support/plan_reseal.h"
#include "support/sample_plan.h"
#include "verify/verify.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static struct host_arena arena;
static struct plan plan;
static uint8_t *file; /* the sample plan as bytes */
static size_t file_bytes;

static uint8_t *read_file(const char *path, size_t *bytes)
{
	FILE *stream = fopen(path, "rb");
	ck_assert_ptr_nonnull(stream);
	uint8_t *data = host_arena_alloc(&arena, 1 << 20, 1);
	*bytes = fread(data, 1, 1 << 20, stream);
	fclose(stream);
	return data;
}

static const char *plan_path(const char *name)
{
	static char path[512];
	snprintf(path, sizeof path, "%s/%s", testing_directory(), name);
	return path;
}

static void setup(void)
{
	host_arena_init(&arena);
	ck_assert_ok(sample_plan(&arena, &plan));
	/* Weights that prove nothing, to be written and read. */
	static struct proof_term proof[] = { { .weight = 0.5f, .kind = PROOF_CUT, .op = 3 },
					     { .weight = 2, .kind = PROOF_ONCE, .op = 4 } };
	plan.program[0].proof = proof;
	plan.program[0].proof_terms = 2;
	ck_assert_ok(plan_save(&plan, plan_path("sample.plan")));
	file = read_file(plan_path("sample.plan"), &file_bytes);
}

static void teardown(void)
{
	host_arena_fini(&arena);
}

/* Loads the bytes as a file (of memory: there are thousands of them); verifies what loads. */
static enum tarn_status load_bytes(const uint8_t *data, size_t bytes)
{
	static int fd = -1;
	char path[64];
	struct plan loaded;
	if (fd < 0)
		fd = memfd_create("changed.plan", 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	ck_assert_int_eq(ftruncate(fd, 0), 0);
	ck_assert_int_eq(pwrite(fd, data, bytes, 0), (ssize_t)bytes);
	enum tarn_status st = plan_load(path, &arena, &loaded);
	if (st)
		return st;
	struct host_mark mark = host_arena_mark(&arena);
	enum tarn_status verdict = verify_plan(&loaded, &arena);
	ck_assert_msg(verdict == TARN_OK || verdict == TARN_EVERIFY, "verify_plan: %d %s", (int)verdict, tarn_error());
	host_arena_release(&arena, mark);
	plan_close(&loaded);
	return TARN_OK;
}

static void same_array(const char *what, const void *a, const void *b, size_t count, size_t size)
{
	ck_assert_msg(!count || !memcmp(a, b, count * size), "%s differ", what);
}

START_TEST(what_is_saved_comes_back)
{
	struct plan loaded;
	ck_assert_ok(plan_load(plan_path("sample.plan"), &arena, &loaded));
	ck_assert_str_eq(loaded.config_lines, plan.config_lines);
	ck_assert_str_eq(loaded.driver, plan.driver);
	ck_assert_uint_eq(loaded.programs, plan.programs);
	ck_assert_uint_eq(loaded.persistents, plan.persistents);
	ck_assert_uint_eq(loaded.threads, plan.threads);
	ck_assert_uint_eq(loaded.budget_bytes, plan.budget_bytes);
	ck_assert_uint_eq(loaded.min_budget_bytes, plan.min_budget_bytes);
	ck_assert_uint_eq(loaded.persistent_bytes, plan.persistent_bytes);
	ck_assert_uint_eq(loaded.arena_bytes, plan.arena_bytes);
	ck_assert_uint_eq(loaded.plan_checksum, plan.plan_checksum);
	same_array("persistents", loaded.persistent, plan.persistent, plan.persistents, sizeof *plan.persistent);
	for (uint32_t p = 0; p < plan.programs; p++) {
		const struct program *a = &loaded.program[p], *b = &plan.program[p];
		ck_assert_uint_eq(a->kind, b->kind);
		ck_assert_uint_eq(a->batch, b->batch);
		ck_assert_uint_eq(a->peak_bytes, b->peak_bytes);
		ck_assert_uint_eq(a->height_bytes, b->height_bytes);
		ck_assert_uint_eq(a->time_ns, b->time_ns);
		ck_assert_uint_eq(a->base_time_ns, b->base_time_ns);
		ck_assert_uint_eq(a->none_peak_bytes, b->none_peak_bytes);
		ck_assert_uint_eq(a->recomputed_ops, b->recomputed_ops);
		ck_assert_uint_eq(a->time_bound_ns, b->time_bound_ns);
		ck_assert_uint_eq(a->peak_bound_bytes, b->peak_bound_bytes);
		ck_assert_uint_eq(a->proof_terms, b->proof_terms);
		same_array("costs", a->cost_ns, b->cost_ns, b->graph.ops, sizeof *b->cost_ns);
		same_array("proofs", a->proof, b->proof, b->proof_terms, sizeof *b->proof);
		ck_assert_uint_eq(a->graph.scalars, b->graph.scalars);
		ck_assert_uint_eq(a->graph.batch, b->graph.batch);
		ck_assert_uint_eq(a->instructions, b->instructions);
		same_array("instructions", a->instruction, b->instruction, b->instructions, sizeof *b->instruction);
		same_array("offsets", a->operand_offset, b->operand_offset, b->operand_offsets, sizeof(uint64_t));
		same_array("tensors", a->graph.tensor, b->graph.tensor, b->graph.tensors, sizeof *b->graph.tensor);
		same_array("ops", a->graph.op, b->graph.op, b->graph.ops, sizeof *b->graph.op);
		same_array("text", a->graph.text, b->graph.text, b->graph.text_bytes, 1);
	}
	/* What was loaded is saved as the same bytes. */
	size_t bytes;
	ck_assert_ok(plan_save(&loaded, plan_path("again.plan")));
	const uint8_t *again = read_file(plan_path("again.plan"), &bytes);
	ck_assert_uint_eq(bytes, file_bytes);
	ck_assert(!memcmp(again, file, bytes));
	plan_close(&loaded);
	ck_assert_ptr_null(loaded.mapping);
}
END_TEST

/* The checksum names what the plan does, not for whom it was made. */
START_TEST(checksum_follows_instructions_and_offsets_only)
{
	uint64_t before = plan.plan_checksum;
	plan.budget_bytes += 4096;
	plan.config_lines = "name=another\n";
	plan.program[0].time_ns++;
	plan_seal(&plan);
	ck_assert_uint_eq(plan.plan_checksum, before);
	plan.program[1].operand_offset[3] += TARN_ALIGNMENT;
	plan_seal(&plan);
	ck_assert_uint_ne(plan.plan_checksum, before);
	plan.program[1].operand_offset[3] -= TARN_ALIGNMENT;
	plan.program[2].instruction[0].workspace_bytes += TARN_ALIGNMENT;
	plan_seal(&plan);
	ck_assert_uint_ne(plan.plan_checksum, before);
}
END_TEST

START_TEST(figures_of_a_plan)
{
	ck_assert_uint_eq(plan_peak_bytes(&plan), plan.program[0].peak_bytes);
	ck_assert_uint_eq(plan_none_peak_bytes(&plan), plan.program[0].none_peak_bytes);
	ck_assert_ptr_eq(plan_program(&plan, PROGRAM_TRAIN_LAST), &plan.program[1]);
	ck_assert_ptr_null(plan_program(&plan, PROGRAM_EVALUATE_LAST));
	/* conv 4*3*3*3, mix 4*4, gamma and beta 4 each, hidden 24*256 + 24, logits 5*24 */
	ck_assert_uint_eq(plan_parameter_count(&plan), 108 + 16 + 8 + 24 * 256 + 24 + 120);
	ck_assert_str_eq(program_name(PROGRAM_EVALUATE), "evaluate");
}
END_TEST

START_TEST(damage_of_any_byte_is_noticed)
{
	/* All of the header, and a seeded sample of the rest. */
	struct testing_random random = { 11 };
	for (size_t i = 0; i < sizeof(struct plan_header) + 2000; i++) {
		size_t at = i < sizeof(struct plan_header) ? i : testing_between(&random, 0, (uint32_t)file_bytes - 1);
		uint8_t flip = (uint8_t)testing_between(&random, 1, 255);
		file[at] ^= flip;
		enum tarn_status st = load_bytes(file, file_bytes);
		ck_assert_msg(st == TARN_EFORMAT, "byte %zu ^ %u: status %d", at, flip, (int)st);
		file[at] ^= flip;
	}
	ck_assert_ok(load_bytes(file, file_bytes));
}
END_TEST

/* One byte or one word of the file is changed and the checksums are right: refused or harmless, never a crash. */
START_TEST(damage_behind_right_checksums_is_survived)
{
	static const uint64_t values[] = { 0, 1, 63, 64, UINT32_MAX, UINT64_MAX, (uint64_t)1 << 63, (uint64_t)1 << 62 };
	struct testing_random random = { 23 };
	uint8_t *copy = host_arena_alloc(&arena, file_bytes, 1);
	uint32_t refused = 0, loaded = 0;
	for (size_t i = 0; i < 4 * sizeof(struct plan_header) + 6000; i++) {
		bool header = i < 4 * sizeof(struct plan_header);
		size_t at = header ? i / 4 : testing_between(&random, 0, (uint32_t)file_bytes - 1);
		memcpy(copy, file, file_bytes);
		if (testing_between(&random, 0, 1) && at % 4 == 0 && at + 8 <= file_bytes)
			memcpy(copy + at, &values[testing_between(&random, 0, 7)], testing_between(&random, 1, 2) * 4);
		else
			copy[at] ^= (uint8_t)testing_between(&random, 1, 255);
		plan_reseal(copy, file_bytes);
		enum tarn_status st = load_bytes(copy, file_bytes);
		ck_assert_msg(st == TARN_OK || st == TARN_EFORMAT, "case %zu, byte %zu: status %d: %s", i, at, (int)st,
			      tarn_error());
		*(st ? &refused : &loaded) += 1;
	}
	ck_assert_uint_gt(refused, 1000);
	ck_assert_uint_gt(loaded, 100);
}
END_TEST

START_TEST(truncation_at_every_length_is_refused)
{
	uint8_t *copy = host_arena_alloc(&arena, file_bytes, 1);
	for (size_t bytes = 0; bytes < file_bytes; bytes += bytes < 2048 ? 1 : 61) {
		enum tarn_status st = load_bytes(file, bytes);
		ck_assert_msg(st == TARN_EFORMAT, "%zu bytes: status %d", bytes, (int)st);
		/* The same with a header that knows the new length. */
		memcpy(copy, file, bytes);
		uint64_t length = bytes;
		if (bytes >= sizeof(struct plan_header))
			memcpy(copy + offsetof(struct plan_header, file_bytes), &length, sizeof length);
		plan_reseal(copy, bytes);
		st = load_bytes(copy, bytes);
		ck_assert_msg(st == TARN_EFORMAT, "%zu bytes, sealed: status %d", bytes, (int)st);
	}
}
END_TEST

START_TEST(random_section_tables_are_survived)
{
	struct testing_random random = { 37 };
	uint8_t *copy = host_arena_alloc(&arena, file_bytes, 1);
	for (int i = 0; i < 3000; i++) {
		memcpy(copy, file, file_bytes);
		struct plan_header header;
		memcpy(&header, file, sizeof header);
		for (uint32_t n = testing_between(&random, 1, 4); n; n--) {
			struct section_entry *section =
				&header.section[testing_between(&random, 0, PLAN_MAX_SECTIONS - 1)];
			uint64_t value = testing_between(&random, 0, 3)
						 ? testing_between(&random, 0, (uint32_t)file_bytes)
						 : testing_bits(&random);
			*(testing_between(&random, 0, 1) ? &section->offset : &section->bytes) = value;
		}
		header.programs = testing_between(&random, 0, 5);
		header.sections = testing_between(&random, 0, PLAN_MAX_SECTIONS + 1);
		memcpy(copy, &header, sizeof header);
		plan_reseal(copy, file_bytes);
		enum tarn_status st = load_bytes(copy, file_bytes);
		ck_assert_msg(st == TARN_EFORMAT, "case %d: status %d: %s", i, (int)st, tarn_error());
	}
}
END_TEST

START_TEST(each_refusal_says_why)
{
	struct plan loaded;
	ck_assert_fails(plan_load(plan_path("missing.plan"), &arena, &loaded), TARN_EIO, "cannot open");
	ck_assert_fails(plan_load(testing_directory(), &arena, &loaded), TARN_EFORMAT, "not a regular file");
	ck_assert_fails(load_bytes(file, 100), TARN_EFORMAT, "100 bytes");
	ck_assert_fails(load_bytes(file, file_bytes - 1), TARN_EFORMAT, "truncated");
	file[0] ^= 1;
	ck_assert_fails(load_bytes(file, file_bytes), TARN_EFORMAT, "not a plan file");
	file[0] ^= 1;
	file[8] = PLAN_VERSION + 1;
	ck_assert_fails(load_bytes(file, file_bytes), TARN_EFORMAT, "plan format 4");
	file[8] = PLAN_VERSION;
	file[offsetof(struct plan_header, limits)]++;
	plan_reseal(file, file_bytes);
	ck_assert_fails(load_bytes(file, file_bytes), TARN_EFORMAT, "plan again with this build");
}
END_TEST

START_TEST(a_pipe_does_not_block)
{
	struct plan loaded;
	const char *path = plan_path("pipe");
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_fails(plan_load(path, &arena, &loaded), TARN_EFORMAT, "not a regular file");
}
END_TEST

START_TEST(a_failed_save_leaves_the_old_plan)
{
	struct plan loaded;
	const struct rlimit limit = { 1000, 1000 };
	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	plan.budget_bytes++;
	ck_assert_fails(plan_save(&plan, plan_path("sample.plan")), TARN_EIO, "write failed");
	ck_assert_ok(plan_load(plan_path("sample.plan"), &arena, &loaded));
	ck_assert_uint_eq(loaded.budget_bytes, plan.budget_bytes - 1);
	plan_close(&loaded);
	ck_assert_int_eq(mkdir(plan_path("place"), 0700), 0);
	ck_assert_fails(plan_save(&plan, plan_path("place")), TARN_EIO, "is a folder");
	/* Nothing temporary is left. */
	DIR *folder = opendir(testing_directory());
	ck_assert_ptr_nonnull(folder);
	for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
		ck_assert_msg(!strstr(entry->d_name, "tmp"), "%s is left", entry->d_name);
	closedir(folder);
	plan.programs = 0;
	ck_assert_fails(plan_save(&plan, plan_path("none.plan")), TARN_EINTERNAL, "0 programs");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("plan");
	TCase *tcase = tcase_create("file");
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, what_is_saved_comes_back);
	tcase_add_test(tcase, checksum_follows_instructions_and_offsets_only);
	tcase_add_test(tcase, figures_of_a_plan);
	tcase_add_test(tcase, damage_of_any_byte_is_noticed);
	tcase_add_test(tcase, damage_behind_right_checksums_is_survived);
	tcase_add_test(tcase, truncation_at_every_length_is_refused);
	tcase_add_test(tcase, random_section_tables_are_survived);
	tcase_add_test(tcase, each_refusal_says_why);
	tcase_add_test(tcase, a_pipe_does_not_block);
	tcase_add_test(tcase, a_failed_save_leaves_the_old_plan);
	suite_add_tcase(suite, tcase);
	return testing_run(suite);
}
